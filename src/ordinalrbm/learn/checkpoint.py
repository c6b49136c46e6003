"""Checkpoints: what a learner has come to, written now and then, so that no hours are lost.

A checkpoint holds all that a learner needs to go on after an epoch, as named arrays. Draws are
counters, so that a fit which goes on from a checkpoint ends with the same bits as one that was
never stopped, on any number of threads.

Files are written whole beside their place and then moved, and the last two of each learner are
kept. The file's checksums tell whether it is as it was written. Beside the state stands whose it
is: the settings of the fit and digests of its data.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ordinalrbm import __version__, storage
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.scales import Scale
from ordinalrbm.errors import DataError
from ordinalrbm.locking import Lock
from ordinalrbm.storage import plain_number
from ordinalrbm.stored import LARGEST_PARAMETER, Stored, wrong
from ordinalrbm.whole import LEFT_OVER, check_place

State = Mapping[str, np.ndarray]
"""Everything that a learner needs to go on, by name."""

_SUFFIX = ".checkpoint"
# The newest, and one to fall back on.
_KEPT = 2
_SECONDS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_EPOCHS = ("", "epoch")


# ---- states as named arrays -------------------------------------------------------------------


class Later(Mapping[str, np.ndarray]):
    """A state that is put together when somebody first looks at it, which few do.

    Examples
    --------
    >>> state = Later(lambda: {"mean": np.zeros(2)})
    >>> "mean" in state, len(state)
    (True, 1)
    """

    def __init__(self, make: Callable[[], State]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> State:
        return self._make()

    def __getitem__(self, name: str) -> np.ndarray:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def flat(name: str, value: Any) -> dict[str, np.ndarray]:
    """Arrays and numbers in named tuples, lists and dictionaries, each under a name; copies.

    Examples
    --------
    >>> flat("a", {"mean": np.zeros(2), "n": [3, 4]})
    {'a.mean': array([0., 0.]), 'a.n.0': array([3]), 'a.n.1': array([4])}
    """
    if isinstance(value, np.ndarray):
        return {name: value.copy(order="K")}
    parts = _parts(value)
    if parts is None:
        return {name: np.array([value])}
    found: dict[str, np.ndarray] = {}
    for part, inner in parts:
        found |= flat(f"{name}.{part}", inner)
    return found


def taken(
    name: str, state: State, like: Any, low: float = -LARGEST_PARAMETER,
    high: float = LARGEST_PARAMETER,
) -> Any:  # fmt: skip
    """What :func:`flat` has put under a name, in the shape and memory order of ``like``.

    Whoever can write a file can write anything, and kernels read without looking. So numbers must
    be between ``low`` and ``high``, and whole numbers, which are sizes, those of ``like``.

    Examples
    --------
    >>> taken("a", flat("a", [np.ones(2), 5]), [np.zeros(2), 5])
    [array([1., 1.]), 5]
    """
    if isinstance(like, np.ndarray):
        # Kernels sum in the order of the memory, and files know only one.
        found = np.empty_like(like)
        found[...] = _checked(name, state, like, low, high)
        return found
    parts = _parts(like)
    if parts is None:
        return _checked(name, state, np.array([like]), low, high).item()
    inner = {part: taken(f"{name}.{part}", state, value, low, high) for part, value in parts}
    if isinstance(like, Mapping):
        return inner
    return type(like)(*inner.values()) if hasattr(like, "_fields") else list(inner.values())


def _checked(
    name: str, state: State, like: np.ndarray, low: float, high: float
) -> np.ndarray:  # fmt: skip
    stored = Stored(state, {}).array(name, like.dtype.type, like.shape, low, high)
    if like.dtype.kind in "iub" and not np.array_equal(stored, like):
        raise wrong(name, "is not that of the data and settings")
    return stored


def _parts(value: Any) -> list[tuple[Any, Any]] | None:
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list | tuple) else None


def flat_history(history: Iterable[Any]) -> dict[str, np.ndarray]:
    """The lines of a history, as an array for each of its columns."""
    lines = list(history)
    if not lines:
        return {}
    columns = zip(*lines, strict=True)
    return {
        f"history.{name}": np.array(c) for name, c in zip(lines[0]._fields, columns, strict=True)
    }


def taken_history(state: State, record: Any, *, unwatched: Iterable[str] = ()) -> list[Any]:
    """The history as a list of records; whole numbers stay whole.

    Every epoch has a number in each column, but for those that are ``unwatched``: these have none.
    """
    unwatched = set(unwatched)
    epochs = state.get("history.epoch", np.zeros(0, dtype=np.int64))
    stored, columns = Stored(state, {}), []
    for name in record._fields if epochs.size else ():
        kind = np.int64 if name == "epoch" else np.float64
        if name in unwatched:
            if not np.isnan(state.get(f"history.{name}", 0.0)).all():
                raise wrong(f"history.{name}", "has numbers though nothing is watched")
            columns.append([np.nan] * epochs.size)
        else:
            columns.append(stored.array(f"history.{name}", kind, (epochs.size,)).tolist())
    if columns and columns[0] != list(range(1, epochs.size + 1)):
        raise wrong("history.epoch", "does not count the epochs")
    return [record(*line) for line in zip(*columns, strict=True)]


def counter(name: str, state: State, most: int) -> int:
    """A number of times, at most so many."""
    return int(Stored(state, {}).array(name, np.int64, (1,), 0, most)[0])


def began(history: list[Any]) -> float:
    """When learning would have begun, had it not been stopped, by the clock of this process."""
    return time.perf_counter() - (history[-1].seconds if history else 0.0)


def packed(factors: np.ndarray, units: int = 1) -> np.ndarray:
    """Chains as they are stored: a bit for each binary factor; larger counts as they are."""
    return np.packbits(factors) if units == 1 else factors.copy()


def unpack_into(factors: np.ndarray, name: str, state: State, units: int = 1) -> None:
    """Fill chains with what :func:`packed` has made of them.

    Examples
    --------
    >>> chains = np.zeros((2, 3), dtype=np.uint8)
    >>> state = {"free": packed(np.array([[0, 1, 1], [1, 0, 0]], dtype=np.uint8))}
    >>> unpack_into(chains, "free", state)
    >>> chains.tolist()
    [[0, 1, 1], [1, 0, 0]]
    """
    are_bits = units == 1
    shape = (-(-factors.size // 8),) if are_bits else factors.shape
    most = np.iinfo(np.uint8).max if are_bits else units
    stored = Stored(state, {}).array(name, factors.dtype.type, shape, 0, most)
    if are_bits:
        stored = np.unpackbits(stored, count=factors.size)
    factors[...] = stored.reshape(factors.shape)


# ---- how often --------------------------------------------------------------------------------


class Interval(NamedTuple):
    """Time or epochs between two checkpoints, whichever is not infinite."""

    seconds: float
    epochs: float


def interval(every: Any) -> Interval:
    """Read how often checkpoints are written.

    Parameters
    ----------
    every : str or int
        A time, such as "30 s", "5 min" or "1 h", or a number of epochs.

    Examples
    --------
    >>> interval("5 min"), interval(2)
    (Interval(seconds=300.0, epochs=inf), Interval(seconds=inf, epochs=2))
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(every).strip().lower())
    if found is not None and not isinstance(every, bool):
        number, unit = float(found[1]), found[2]
        unit = unit if unit in _SECONDS else unit.removesuffix("s")
        if unit in _SECONDS:
            return Interval(number * _SECONDS[unit], np.inf)
        if unit in _EPOCHS and number >= 1 and number.is_integer():
            return Interval(np.inf, int(number))
    raise DataError(
        f"The 'every' parameter must be a time such as '30 s', '5 min' or '1 h', or a number of "
        f"epochs of at least 1. Got {every!r} instead."
    )


# ---- whose ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identity:
    """What makes a fit the same fit: its settings, and what its data hold.

    ``counts`` are sizes of the data and ``digests`` hashes of their parts; the names of both are
    words for a sentence.
    """

    estimator: str
    settings: dict[str, Any]
    counts: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    release: str = __version__

    def to_json(self) -> dict[str, Any]:
        """As JSON holds it."""
        return json.loads(json.dumps(vars(self)))

    def differences(self, stored: Mapping[str, Any]) -> list[str]:
        """In what a stored one differs, in words; what follows from the first is not said."""
        now = self.to_json()
        for name in ("release", "estimator"):
            if stored[name] != now[name]:
                return [f"{name} {stored[name]:.40} (now {now[name]})"]
        for names in ("settings", "counts"):
            there, here = stored[names], now[names]
            unequal = [name for name in here if there.get(name) != here[name]]
            if unequal:
                return [_difference(name, there.get(name), here[name]) for name in unequal]
        return [
            name for name in now["digests"] if stored["digests"].get(name) != self.digests[name]
        ]


# Parameters that change nothing about what is learnt; those of scales are in a digest, and instead
# of the random state there is the seed.
_NOT_LEARNING = {
    "random_state", "n_jobs", "verbose", "inference", "n_draws", "scales", "scale", "item_scales",
}  # fmt: skip


def identity_of(
    estimator: Any, seed: int, observations: Observations, scales: Iterable[Scale],
    further: tuple[str, Iterable[np.ndarray]],
) -> Identity:  # fmt: skip
    """Identity of a fit of these observations; ``further`` is a name and other data of the fit."""
    given = estimator.get_params(deep=False).items()
    settings = {name: plain_number(value) for name, value in given if name not in _NOT_LEARNING}
    seen, (name, arrays) = observations, further
    return Identity(
        type(estimator).__name__,
        {**settings, "seed": seed},
        {"rows": seen.n_rows, "columns": seen.n_columns, "answers": seen.n_entries},
        {
            "scales": digest([scale.to_json() for scale in scales]),
            "answers": digest(seen.row_start, seen.column, seen.level, seen.n_levels),
            name: digest(*arrays),
        },
    )


def _difference(name: str, there: Any, here: Any) -> str:
    return "random_state" if name == "seed" else f"{name} {there!r:.80} (now {here!r})"


def digest(*parts: Any) -> str:
    """A hash of arrays, and of what JSON can hold."""
    found = blake2b(digest_size=32)
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).view(np.uint8).data if part.size else b"")
        else:
            found.update(json.dumps(part, sort_keys=True, ensure_ascii=False).encode())
    return found.hexdigest()


# ---- files ------------------------------------------------------------------------------------


class About(NamedTuple):
    """What a checkpoint says of itself: of which learner it is, how far that was, and whose."""

    part: str
    epoch: int
    finished: bool
    identity: dict[str, Any]

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> About:
        """What stands in the header of a file, if that is how we write it."""
        said = _expect(header, storage.CHECKPOINT, dict)
        identity = _expect(said, "identity", dict)
        for name, kind in (("release", str), ("estimator", str), ("counts", dict)):
            _expect(identity, name, kind)
        _expect(identity, "digests", dict)
        seed = _expect(_expect(identity, "settings", dict), "seed", int)
        if not 0 <= seed < 2**31:
            raise ValueError(f"it has {seed!r:.40} as its seed")
        part, epoch = _expect(said, "part", str), _expect(said, "epoch", int)
        return cls(part, epoch, _expect(said, "finished", bool), identity)


def _expect(inside: Mapping[str, Any], name: str, kind: type) -> Any:
    value = inside.get(name)
    if type(value) is not kind:
        raise ValueError(f"it says nothing sensible as its '{name}'")
    return value


class _Found(NamedTuple):
    path: Path
    state: State
    about: About


def _read(path: Path) -> _Found:
    """A checkpoint as it was written, or a ValueError."""
    try:
        state, header = storage.read(path)
    except DataError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    except MemoryError as error:
        raise ValueError("it does not fit into memory") from error
    about = About.of(header)
    if about.part != _part_of(path):
        raise ValueError(f"it is of {about.part!r:.40}, which its name is not")
    return _Found(path, state, about)


def _write(path: Path, state: State, about: About) -> None:
    storage.write(
        path, dict(state), {"model": storage.CHECKPOINT, storage.CHECKPOINT: about._asdict()}
    )  # fmt: skip


def newest(place: Path) -> list[tuple[Path, About]]:
    """What the newest checkpoint of each learner in a folder, or one file, says of itself."""
    paths = sorted(place.glob(f"*{_SUFFIX}")) if place.is_dir() else [place]
    found = []
    for path in {_part_of(path): path for path in paths}.values():
        with storage.refused_if_useless(path):
            found.append((path, About.of(storage.glance(path).header)))
    return found


# ---- folders ----------------------------------------------------------------------------------


class Checkpoints:
    """The checkpoints of a fit; without a folder there are none.

    Parameters
    ----------
    folder : path or None
        Made if it is not there.
    every : str or int
        See :func:`interval`.
    resume : bool
        Whether to go on from checkpoints that are there; otherwise they are refused, so that
        none is lost.
    writes : bool
        Whether any are written, or only read: of the processes that learn together, one writes.
    """

    def __init__(
        self, folder: str | os.PathLike | None, every: Any = "5 min", resume: bool = True,
        writes: bool = True,
    ) -> None:  # fmt: skip
        self.folder, self.writes = None if folder is None else Path(folder), writes
        self.interval = interval(every)
        self.identity: dict[str, Any] = {}
        self._found: dict[str, _Found] = {}
        self._lock: Lock | None = None
        if self.folder is None:
            return
        if writes:
            self._lock = _prepare(self.folder)
        try:
            self._look_around(self.folder, resume)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *reason: object) -> None:
        """Let another fit have the folder."""
        if self._lock is not None:
            self._lock.release()

    def _look_around(self, folder: Path, resume: bool) -> None:
        there = sorted(folder.glob(f"*{_SUFFIX}"), reverse=True)
        if there and not resume:
            raise DataError(
                f"Folder '{folder}' holds checkpoints; resume from them, or give another folder."
            )
        for part in sorted({_part_of(path) for path in there}):
            _keep_newest(self._found, part, [path for path in there if _part_of(path) == part])

    @property
    def are_kept(self) -> bool:
        """Whether any are written, by whomever."""
        return self.folder is not None

    @property
    def seed(self) -> int | None:
        """The seed of the fit that is in the folder, for those who do not care which it is."""
        return next((each.about.identity["settings"]["seed"] for each in self._each()), None)

    def belong_to(self, identity: Identity) -> None:
        """Refuse checkpoints of other data or settings; those to come are of this fit."""
        self.identity = identity.to_json()
        for stored in self._each():
            unequal = identity.differences(stored.about.identity)
            if unequal:
                raise DataError(
                    f"Checkpoint '{stored.path}' is of another fit, which differs in "
                    f"{', '.join(unequal)}; give the same data and settings, or another folder."
                )

    def _each(self) -> Iterator[_Found]:
        return iter(self._found.values())

    def of(self, part: str) -> Trail:
        """Those of one learner; fits that learn one thing after another have several."""
        return Trail(self, part, self._found.pop(part, None))


def _prepare(folder: Path) -> Lock:
    """Make a folder that can be written to, and keep others out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_place(folder / f"any{_SUFFIX}")
    except (OSError, DataError) as error:
        raise _unusable(folder, error) from error
    try:
        lock = Lock(folder, "fit")
        for left_over in folder.glob(LEFT_OVER):  # of nobody, now that the folder is ours
            left_over.unlink()
    except OSError as error:
        raise _unusable(folder, error) from error
    return lock


def _unusable(folder: Path, error: OSError | DataError) -> DataError:
    reason = error.strerror if isinstance(error, OSError) else error
    return DataError(
        f"Checkpoints cannot be written to folder '{folder}' ({reason}); give another folder."
    )


def _part_of(path: Path) -> str:
    return path.name.rpartition("-")[0]


def _keep_newest(found: dict[str, _Found], part: str, newest_first: list[Path]) -> None:
    """Read the newest that is not damaged; say which ones are."""
    damaged: list[str] = []
    for path in newest_first:
        try:
            found[part] = _read(path)
            break
        except ValueError as error:
            damaged.append(f"Checkpoint '{path}' is damaged ({error})")
    instead = f"goes on from '{found[part].path.name}'" if part in found else "begins anew"
    for sentence in damaged:
        warnings.warn(f"{sentence}; learning {instead}.", stacklevel=4)


class Trail:
    """The checkpoints of one learner, from the one to go on from to the newest."""

    def __init__(self, checkpoints: Checkpoints, part: str, found: _Found | None) -> None:
        self._checkpoints, self._part, self._found = checkpoints, part, found
        self._kept = [] if found is None else [found.path]
        self._pending: tuple[int, State, bool] | None = None
        self._written_at, self._written_epoch = time.monotonic(), 0
        self._has_failed = False

    def restore(self, learner: Any) -> None:
        """Let a learner go on where the newest checkpoint has left off, if there is one."""
        if self._found is None:
            return
        try:
            learner.restore(self._found.state)
            if len(learner.history) != self._found.about.epoch:
                raise ValueError("its history is not as long as it says")
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(
                f"Checkpoint '{self._found.path}' cannot be used ({error}); remove it, and "
                "learning goes on from the one before it, or begins anew."
            ) from error
        self._written_epoch = len(learner.history)
        self._found = None  # its arrays are as large as the model

    @property
    def beginning(self) -> str:
        """Name of the checkpoint to go on from; empty if there is none."""
        return "" if self._found is None else self._found.path.name

    @property
    def is_kept(self) -> bool:
        """Whether any are written."""
        return self._checkpoints.are_kept

    def after(self, learner: Any, state: State) -> None:
        """Take note of the end of an epoch and the state then; write it if it is time."""
        if not self._checkpoints.are_kept or not self._checkpoints.writes:
            return
        epoch, is_last = len(learner.history), not learner.goes_on()
        self._pending = epoch, state, is_last
        due = self._checkpoints.interval
        waited = time.monotonic() - self._written_at >= due.seconds
        if is_last or waited or epoch - self._written_epoch >= due.epochs:
            self.flush()

    def flush(self) -> None:
        """Write the last epoch that has ended, unless that is done."""
        if self._pending is None:
            return
        epoch, state, is_last = self._pending
        assert self._checkpoints.folder is not None, "nothing is pending without a folder"
        path = self._checkpoints.folder / f"{self._part}-{epoch:06d}{_SUFFIX}"
        about = About(self._part, epoch, is_last, self._checkpoints.identity)
        try:
            _write(path, state, about)
            self._forget_older(path)
        except (DataError, OSError) as error:
            self._tell_of_failure(error)
        self._pending = None
        self._written_at, self._written_epoch = time.monotonic(), epoch

    def _forget_older(self, newest: Path) -> None:
        self._kept = [*(path for path in self._kept if path != newest), newest][-_KEPT:]
        for path in newest.parent.glob(f"{self._part}-*{_SUFFIX}"):
            if path not in self._kept:
                path.unlink()

    def _tell_of_failure(self, error: Exception) -> None:
        """A full disk is no reason to lose what is being learnt."""
        if not self._has_failed:
            warnings.warn(f"Learning goes on without a checkpoint: {error}", stacklevel=2)
        self._has_failed = True


NO_CHECKPOINTS = Checkpoints(None)

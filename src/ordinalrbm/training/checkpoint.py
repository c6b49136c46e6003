"""Checkpoints: what a learner has come to, written now and then, so that no hours are lost.

A checkpoint holds all that a learner needs to go on after an epoch, as named arrays. Draws are
counters, so that a fit which goes on from a checkpoint ends with the same bits as one that was
never stopped, on any number of threads.

Files are written whole beside their place and then moved, and the last two of each learner are
kept. The file's checksums tell whether it is as it was written. Beside the state stands whose it
is: the settings of the fit and digests of its data.

Where several processes learn together, each has some of the rows, and a checkpoint is a file of
each: its rows, and in the first all else. It counts when all of them are there and of one moment.
Any number of processes can go on from it, each by the rows that are now its own.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ordinalrbm import __version__
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.scales import Scale
from ordinalrbm.errors import DataError
from ordinalrbm.runtime.process_group import ALONE, Alone, Group
from ordinalrbm.storage import model_file
from ordinalrbm.storage.atomic import LEFT_OVER, check_place
from ordinalrbm.storage.atomic import LOCK, lock_folder
from ordinalrbm.storage.model_file import plain_number
from ordinalrbm.storage.reader import LARGEST_PARAMETER, Stored, wrong

State = Mapping[str, np.ndarray]
"""Everything that a learner needs to go on, by name."""

_SUFFIX = ".checkpoint"
# The newest, and one to fall back on.
_KEPT = 2
_SECONDS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_EPOCHS = ("", "epoch")


# ---- states as named arrays -------------------------------------------------------------------


class LazyState(Mapping[str, np.ndarray]):
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


def flatten(name: str, value: Any) -> dict[str, np.ndarray]:
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
        found |= flatten(f"{name}.{part}", inner)
    return found


def unflatten(
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
    inner = {part: unflatten(f"{name}.{part}", state, value, low, high) for part, value in parts}
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


def flatten_history(history: Iterable[Any]) -> dict[str, np.ndarray]:
    """The lines of a history, as an array for each of its columns."""
    lines = list(history)
    if not lines:
        return {}
    columns = zip(*lines, strict=True)
    return {
        f"history.{name}": np.array(c) for name, c in zip(lines[0]._fields, columns, strict=True)
    }


def unflatten_history(state: State, record: Any, *, unwatched: Iterable[str] = ()) -> list[Any]:
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


class Lines(NamedTuple):
    """Rows that a file holds of how many, and the names of the arrays with a line for each."""

    start: int
    stop: int
    of: int
    arrays: list[str]

    @classmethod
    def from_json(cls, said: Any) -> Lines | None:
        """What stands in a header; None where a state is not by rows."""
        if said is None:
            return None
        start, stop, of = (_expect(said, name, int) for name in cls._fields[:3])
        arrays = _expect(said, "arrays", list)
        if not 0 <= start <= stop <= of or not all(isinstance(name, str) for name in arrays):
            raise ValueError("it says nothing sensible about its rows")
        return cls(start, stop, of, arrays)


class Share(NamedTuple):
    """Which of how many files of a checkpoint it is, from 1; all of them have the same stamp."""

    number: int
    of: int
    stamp: int


class About(NamedTuple):
    """What a checkpoint says of itself: of which learner it is, how far that was, and whose.

    ``rows`` says which rows are in the file, if its state is by rows, and ``share`` which file of
    several it is.
    """

    part: str
    epoch: int
    finished: bool
    identity: dict[str, Any]
    rows: Lines | None = None
    share: Share | None = None

    def to_json(self) -> dict[str, Any]:
        """As a header holds it."""
        rows, share = (part and part._asdict() for part in (self.rows, self.share))
        return {**self._asdict(), "rows": rows, "share": share}

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> About:
        """What stands in the header of a file, if that is how we write it."""
        said = _expect(header, model_file.CHECKPOINT, dict)
        identity = _expect(said, "identity", dict)
        for name, kind in (("release", str), ("estimator", str), ("counts", dict)):
            _expect(identity, name, kind)
        _expect(identity, "digests", dict)
        seed = _expect(_expect(identity, "settings", dict), "seed", int)
        if not 0 <= seed < 2**31:
            raise ValueError(f"it has {seed!r:.40} as its seed")
        part, epoch = _expect(said, "part", str), _expect(said, "epoch", int)
        share = said.get("share")
        return cls(
            part, epoch, _expect(said, "finished", bool), identity,
            Lines.from_json(said.get("rows")),
            None if share is None else Share(*(_expect(share, n, int) for n in Share._fields)),
        )  # fmt: skip


def _expect(inside: Any, name: str, kind: type) -> Any:
    value = inside.get(name) if isinstance(inside, Mapping) else None
    if type(value) is not kind:
        raise ValueError(f"it says nothing sensible as its '{name}'")
    return value


class _Files(NamedTuple):
    """The files of one checkpoint: one, or those that are there of several, by their numbers."""

    name: str
    of: int | None
    paths: dict[int, Path]

    @property
    def part(self) -> str:
        """Of which learner it is."""
        return self.name.rpartition("-")[0]

    @property
    def missing(self) -> int | None:
        """Number of the first file that is not there, if one is not."""
        return next((k for k in range(1, (self.of or 1) + 1) if k not in self.paths), None)

    @property
    def first(self) -> Path:
        """The file that stands for all of them."""
        return self.paths[min(self.paths)]


def _path(folder: Path, name: str, number: int = 1, of: int = 1) -> Path:
    return folder / (f"{name}-{number}of{of}{_SUFFIX}" if of > 1 else f"{name}{_SUFFIX}")


def _newest_first(paths: Iterable[Path]) -> list[_Files]:
    """Files that belong together, by their names."""
    found: dict[tuple[str, int], _Files] = {}
    for path in paths:
        shared = re.fullmatch(r"(.+)-(\d{1,9})of(\d{1,9})", path.stem)
        name, of = (shared[1], int(shared[3])) if shared else (path.stem, 0)
        files = found.setdefault((name, of), _Files(name, of or None, {}))
        files.paths[int(shared[2]) if shared else 1] = path
    return [found[key] for key in sorted(found, reverse=True)]


class _Found(NamedTuple):
    files: _Files
    state: State
    about: About

    @property
    def path(self) -> Path:
        """The file to name in a sentence."""
        return self.files.first


def _read(files: _Files, among: Group | Alone) -> _Found:
    """A checkpoint as it was written, with the rows of this process, or a ValueError."""
    if files.missing is not None:
        raise ValueError(f"part {files.missing} of {files.of} is missing")
    abouts = {number: _about(files, number) for number in sorted(files.paths)}
    first = abouts[1]
    if first.rows is None:
        return _Found(files, _opened(files, 1)[0], first)
    rows = _followed(list(abouts.values()))
    by_rows, mine = set(rows[0].arrays), among.share(rows[0].of)
    state = dict(_opened(files, 1, lambda name: name not in by_rows)[0])
    lines: list[State] = []
    for number, (start, stop, _, _) in enumerate(rows, 1):
        chosen = slice(max(mine.start, start) - start, min(mine.stop, stop) - start)
        # Who has no rows at all takes none of the first file, for the shapes.
        if chosen.start < chosen.stop or (number == 1 and mine.start == mine.stop):
            found, _ = _opened(files, number, by_rows.__contains__)
            lines.append(_lines(found, by_rows, stop - start, chosen))
    for name in by_rows:
        parts = [part[name] for part in lines]
        state[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
    return _Found(files, state, first._replace(rows=None, share=None))


def _opened(
    files: _Files, number: int, wanted: Callable[[str], bool] = lambda name: True
) -> tuple[State, Mapping[str, Any]]:
    """Arrays and header of one file; a ValueError says which of several it is."""
    where = "" if files.of is None else f"part {number} of {files.of}: "
    try:
        return model_file.read(files.paths[number], wanted)
    except DataError as error:
        raise ValueError(f"{where}{error.__cause__ or error}") from error
    except MemoryError as error:
        raise ValueError(f"{where}it does not fit into memory") from error


def _about(files: _Files, number: int) -> About:
    """What one file says of itself, if that is what its name says."""
    _, header = _opened(files, number, lambda name: False)
    about = About.of(header)
    if about.part != files.part:
        raise ValueError(f"it is of {about.part!r:.40}, which its name is not")
    place = None if about.share is None else about.share[:2]
    if place != (None if files.of is None else (number, files.of)):
        raise ValueError(f"part {number} of {files.of or 1} is another one")
    return about


def _followed(abouts: list[About]) -> list[Lines]:
    """Rows of the files of a checkpoint, which must be of one moment and follow one another."""
    for number, about in enumerate(abouts, 1):
        if _moment(about) != _moment(abouts[0]):
            raise ValueError(f"part {number} of {len(abouts)} is of another moment")
    rows = [about.rows for about in abouts if about.rows is not None]
    starts, stops = ([each[end] for each in rows] for end in (0, 1))
    alike = all(each[2:] == rows[0][2:] for each in rows)
    if not alike or len(rows) < len(abouts) or [*starts, rows[0].of] != [0, *stops]:
        raise ValueError("the rows of its parts do not follow one another")
    return rows


def _moment(about: About) -> tuple[Any, ...]:
    return *about[:4], about.share and about.share.stamp


def _lines(state: State, by_rows: set[str], n: int, chosen: slice) -> State:
    if set(state) != by_rows or any(part.ndim < 1 or len(part) != n for part in state.values()):
        raise ValueError("its arrays are not those of the rows that it names")
    return {name: part[max(chosen.start, 0) : max(chosen.stop, 0)] for name, part in state.items()}


def _write(path: Path, state: State, about: About) -> None:
    model_file.write(
        path, dict(state), {"model": model_file.CHECKPOINT, model_file.CHECKPOINT: about.to_json()}
    )  # fmt: skip


def newest(place: Path) -> list[tuple[Path, About]]:
    """What the newest checkpoint of each learner in a folder, or one file, says of itself."""
    paths = sorted(place.glob(f"*{_SUFFIX}")) if place.is_dir() else [place]
    oldest_first = _newest_first(paths)[::-1]
    whole = [files for files in oldest_first if files.missing is None] or oldest_first
    found = []
    for path in {files.part: files.first for files in whole}.values():
        with model_file.refused_if_useless(path):
            found.append((path, About.of(model_file.glance(path).header)))
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
    among : Group or Alone
        The processes that learn together: all of them make these objects, and go on from the same
        checkpoints.
    """

    def __init__(
        self, folder: str | os.PathLike | None, every: Any = "5 min", resume: bool = True,
        among: Group | Alone = ALONE,
    ) -> None:  # fmt: skip
        self.folder, self.among = None if folder is None else Path(folder), among
        self.interval = interval(every)
        self.identity: dict[str, Any] = {}
        self._found: dict[str, _Found] = {}
        self._lock: Lock | None = None
        if self.folder is None:
            return
        place = self.folder
        self._lock = among.together(lambda: None if among.rank else _prepare(place))
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
        seen = [(folder / LOCK).exists(), *(path.name for path in there)]
        if any(other != seen for other in self.among.all_gather_object(seen)):
            raise _not_shared(folder)
        if there and not resume:
            raise DataError(
                f"Folder '{folder}' holds checkpoints; resume from them, or give another folder."
            )
        checkpoints = _newest_first(there)
        for part in sorted({files.part for files in checkpoints}):
            of_part = [files for files in checkpoints if files.part == part]
            _keep_newest(self._found, part, of_part, self.among)

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

    def of(
        self, part: str, n_rows: int | None = None, by_rows: Callable[[str], bool] | None = None
    ) -> CheckpointWriter:
        """Those of one learner; fits that learn one thing after another have several.

        Parameters
        ----------
        part : name of the learner
        n_rows, by_rows
            Of a learner whose state has a line for each row in some arrays: how many rows all
            processes have, and whether an array of this name is one of them. Each process then has
            the rows of its share in its state. Other states are the same in all processes.
        """
        found = self._found.pop(part, None)
        if n_rows is None or by_rows is None:
            return CheckpointWriter(self, part, found)
        mine = self.among.share(n_rows)
        return CheckpointWriter(
            self, part, found, Lines(mine.start, mine.stop, n_rows, []), by_rows
        )


def _prepare(folder: Path) -> Lock:
    """Make a folder that can be written to, and keep others out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_place(folder / f"any{_SUFFIX}")
    except (OSError, DataError) as error:
        raise _unusable(folder, error) from error
    try:
        lock = lock_folder(folder, "fit")
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


def _not_shared(folder: Path) -> DataError:
    return DataError(
        f"Not all processes find the same files in folder '{folder}'; give a folder that all of "
        "their machines share."
    )


def _keep_newest(
    found: dict[str, _Found], part: str, newest_first: list[_Files], among: Group | Alone
) -> None:
    """Read the newest that no process finds damaged; say which ones are."""
    damaged: list[str] = []
    for files in newest_first:
        error, read = None, None
        try:
            read = _read(files, among)
        except ValueError as raised:
            error = str(raised)
        first_error = next(filter(None, among.all_gather_object(error)), None)
        if first_error is None and read is not None:
            found[part] = read
            break
        damaged.append(f"Checkpoint '{files.first}' is damaged ({first_error})")
    instead = f"goes on from '{found[part].path.name}'" if part in found else "begins anew"
    for sentence in damaged if among.rank == 0 else ():
        warnings.warn(f"{sentence}; learning {instead}.", stacklevel=4)


def _restore(learner: Any, found: _Found) -> None:
    try:
        learner.restore(found.state)
        if len(learner.history) != found.about.epoch:
            raise ValueError("its history is not as long as it says")
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(
            f"Checkpoint '{found.path}' cannot be used ({error}); remove it, and learning goes on "
            "from the one before it, or begins anew."
        ) from error


class CheckpointWriter:
    """The checkpoints of one learner, from the one to go on from to the newest."""

    def __init__(
        self, checkpoints: Checkpoints, part: str, found: _Found | None,
        rows: Lines | None = None, by_rows: Callable[[str], bool] = lambda name: False,
    ) -> None:  # fmt: skip
        self._checkpoints, self._part, self._found = checkpoints, part, found
        self._among, self._rows, self._by_rows = checkpoints.among, rows, by_rows
        # Files of those to keep, by what all of their names begin with and how many they are.
        self._kept = [] if found is None else [found.files[:2]]
        self._pending: tuple[State, About] | None = None
        self._written_at, self._written_epoch = time.monotonic(), 0
        self._has_failed = False

    def restore(self, learner: Any) -> None:
        """Let a learner go on where the newest checkpoint has left off, if there is one."""
        if self._found is None:
            return
        found = self._found
        self._among.together(lambda: _restore(learner, found))
        self._written_epoch = len(learner.history)
        self._found = None  # its arrays are as large as the model

    @property
    def is_kept(self) -> bool:
        """Whether any are written."""
        return self._checkpoints.are_kept

    @property
    def _is_shared(self) -> bool:
        """Whether each process writes a file with its rows."""
        return self._rows is not None and self._among.size > 1

    def after(self, learner: Any, state: State) -> None:
        """Take note of the end of an epoch and the state then; write it if it is time."""
        if not self.is_kept or (self._among.rank > 0 and not self._is_shared):
            return
        epoch, is_last = len(learner.history), not learner.goes_on()
        due = self._checkpoints.interval
        waited = time.monotonic() - self._written_at >= due.seconds
        is_due = is_last or waited or epoch - self._written_epoch >= due.epochs
        stamp = 0
        if self._is_shared:  # clocks differ
            number = self._among.broadcast_number(2 * secrets.randbits(60) + int(is_due))
            stamp, is_due = number // 2, bool(number % 2)
        self._pending = self._own(epoch, is_last, state, stamp)
        if is_due:
            self._written_by_all(self.flush())

    def _own(self, epoch: int, is_last: bool, state: State, stamp: int) -> tuple[State, About]:
        """What this process has to write, and what the file says of itself."""
        about = About(self._part, epoch, is_last, self._checkpoints.identity)
        if self._rows is None:
            return state, about
        names = sorted(filter(self._by_rows, state))
        about = about._replace(rows=self._rows._replace(arrays=names))
        if not self._is_shared:
            return state, about
        rank, size = self._among.rank, self._among.size
        # What is not by rows is the same everywhere, and stands in the first file.
        own = {name: state[name] for name in names} if rank else state
        return own, about._replace(share=Share(rank + 1, size, stamp))

    def flush(self) -> str | None:
        """Write the last epoch that has ended, unless that is done; returns its name if it is.

        No other process need do the same: they may be anywhere when Ctrl-C comes.
        """
        if self._pending is None:
            return None
        state, about = self._pending
        assert self._checkpoints.folder is not None, "nothing is pending without a folder"
        name, share = f"{self._part}-{about.epoch:06d}", about.share or Share(1, 1, 0)
        try:
            _write(_path(self._checkpoints.folder, name, *share[:2]), state, about)
        except (DataError, OSError) as error:
            self._tell_of_failure(error)
            return None
        finally:
            self._pending = None
            self._written_at, self._written_epoch = time.monotonic(), about.epoch
        if not self._is_shared:
            self._forget_older(name, None)
        return name

    def _written_by_all(self, name: str | None) -> None:
        """Older ones are forgotten when no process can be missing any more."""
        if not self._is_shared:
            return
        names = self._among.all_gather_object(name)
        if self._among.rank == 0 and None not in names:
            self._forget_older(names[0], self._among.size)

    def _forget_older(self, name: str, of: int | None) -> None:
        """Remove what is neither the newest nor one to fall back on."""
        folder, newest = self._checkpoints.folder, (name, of)
        assert folder is not None, "nothing is written without a folder"
        there = _newest_first(folder.glob(f"{self._part}-*{_SUFFIX}"))
        if any(files[:2] == newest and files.missing is not None for files in there):
            self._tell_of_failure(_not_shared(folder))
            return
        self._kept = [*(kept for kept in self._kept if kept != newest), newest][-_KEPT:]
        older = (files for files in there if files[:2] not in self._kept)
        try:
            for path in (path for files in older for path in files.paths.values()):
                path.unlink()
        except OSError as error:
            self._tell_of_failure(error)

    def _tell_of_failure(self, error: Exception) -> None:
        """A full disk is no reason to lose what is being learnt."""
        if not self._has_failed:
            warnings.warn(f"Learning goes on without a checkpoint: {error}", stacklevel=2)
        self._has_failed = True


NO_CHECKPOINTS = Checkpoints(None)

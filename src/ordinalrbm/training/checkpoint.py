"""Checkpoints: the state of a learner, written now and then, so that no hours are lost.

Files are written whole under another name and then moved; their checksums tell damage. Of several
processes the first writes the state of all, and any number of them can go on from it.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ordinalrbm.errors import DataError
from ordinalrbm.runtime.places import refuse_address
from ordinalrbm.runtime.process_group import ALONE, Alone, Group
from ordinalrbm.runtime.timing import seconds_of
from ordinalrbm.storage import model_file
from ordinalrbm.storage.atomic import LEFT_OVER, LOCK, check_writable, lock_folder
from ordinalrbm.storage.container import Header
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training.identity import Identity
from ordinalrbm.training.state import Learner, State

if TYPE_CHECKING:
    from filelock import FileLock

_SUFFIX = ".checkpoint"
# The newest, and one to fall back on.
_KEPT = 2


class Interval(NamedTuple):
    """Time or epochs between two checkpoints, whichever is not infinite."""

    seconds: float
    epochs: float


def interval(every: str | int) -> Interval:
    """Return how often checkpoints are written: a time such as "30 s" or "1 h", or a number of epochs."""
    text = str(every).strip().lower()
    n_epochs = text.removesuffix("epochs").removesuffix("epoch").strip()
    if n_epochs.isdecimal() and int(n_epochs) >= 1:
        return Interval(np.inf, int(n_epochs))
    seconds = seconds_of(text)
    if seconds is not None:
        return Interval(seconds, np.inf)
    raise DataError(
        f"The 'every' parameter must be a time such as '30 s', '5 min' or '1 h', or a number of "
        f"epochs of at least 1. Got {every!r} instead."
    )


# ---- files ------------------------------------------------------------------------------------


class About(NamedTuple):
    """Which learner a checkpoint is of, how far that was, and the identity of the fit."""

    part: str
    epoch: int
    finished: bool
    identity: Header

    @classmethod
    def of(cls, header: Header) -> About:
        """Return what the header of a file says, checked."""
        stored = Stored({}, header).inside(model_file.CHECKPOINT)
        identity = stored.inside("identity")
        for name, kind in {"release": str, "estimator": str, "counts": dict, "digests": dict}.items():
            identity.entry(name, kind)
        identity.inside("settings").whole("seed", 0, 2**31 - 1)
        part, epoch = stored.entry("part", str), stored.whole("epoch", 0)
        return cls(part, epoch, stored.entry("finished", bool), stored.entry("identity", dict))


class _Found(NamedTuple):
    path: Path
    state: State
    about: About


def _read(path: Path) -> _Found:
    try:
        state, header = model_file.read(path)
    except DataError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    except MemoryError as error:
        raise ValueError("it does not fit into memory") from error
    about = About.of(header)
    if about.part != _part_of(path):
        raise ValueError(f"it is of {about.part!r:.40}, which its name is not")
    return _Found(path, state, about)


def _part_of(path: Path) -> str:
    return path.stem.rpartition("-")[0]


def _by_part(folder: Path) -> dict[str, list[Path]]:
    """The checkpoints of each learner in a folder, the newest first."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob(f"*{_SUFFIX}"), reverse=True):
        found.setdefault(_part_of(path), []).append(path)
    return dict(sorted(found.items()))


def newest(target: Path) -> list[tuple[Path, About]]:
    """Return the newest checkpoint of each learner in a folder, or one file, and what it is of."""
    paths = [paths[0] for paths in _by_part(target).values()] if target.is_dir() else [target]
    found = []
    for path in paths:
        with model_file.refused_if_useless(path):
            found.append((path, About.of(model_file.glance(path).header)))
    return found


# ---- folders ----------------------------------------------------------------------------------


class Checkpoints:
    """The checkpoints of a fit; without a folder, which is made if needed, there are none.

    Unless a fit may ``resume`` from existing checkpoints, they are refused, so that none is lost. All
    processes ``among`` which a fit is shared make these objects, and go on from the same checkpoints.
    """

    def __init__(
        self,
        folder: str | os.PathLike | None,
        every: str | int = "5 min",
        resume: bool = True,
        among: Group | Alone = ALONE,
    ) -> None:
        self.folder, self.among = None if folder is None else refuse_address(folder, "Checkpoints"), among
        self.interval = interval(every)
        self.identity: Header = {}
        self._found: dict[str, _Found] = {}
        self._lock: FileLock | None = None
        if self.folder is None:
            return
        with among.raise_on_all_ranks():
            self._lock = None if among.rank else _prepare(self.folder)
        try:
            self._load_existing(self.folder, resume)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *reason: object) -> None:
        if self._lock is not None:
            self._lock.release()

    def _load_existing(self, folder: Path, resume: bool) -> None:
        there = _by_part(folder)
        names = [path.name for paths in there.values() for path in paths]
        if not self.among.agree(((folder / LOCK).exists(), *names)):
            raise DataError(
                f"Not all processes find the same files in folder '{folder}'; give a folder that "
                "all of their machines share."
            )
        if there and not resume:
            raise DataError(f"Folder '{folder}' holds checkpoints; resume from them, or give another folder.")
        for part, paths in there.items():
            found = _newest_undamaged(paths, self.among)
            if found is not None:
                self._found[part] = found

    @property
    def are_kept(self) -> bool:
        return self.folder is not None

    @property
    def seed(self) -> int | None:
        """The seed of the fit in the folder, for a fit without a seed of its own."""
        seeds = (found.about.identity["settings"]["seed"] for found in self._found.values())
        return next(seeds, None)

    def require_identity(self, identity: Identity) -> None:
        self.identity = identity.to_json()
        for found in self._found.values():
            unequal = identity.differences(found.about.identity)
            if unequal:
                raise DataError(
                    f"Checkpoint '{found.path}' is of another fit, which differs in "
                    f"{', '.join(unequal)}; give the same data and settings, or another folder."
                )

    def of(self, part: str) -> CheckpointWriter:
        """Return those of one learner; fits that learn one thing after another have several."""
        return CheckpointWriter(self, part, self._found.pop(part, None))


def _prepare(folder: Path) -> FileLock:
    """Make a folder that can be written to, and lock it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder / f"any{_SUFFIX}")
    except (OSError, DataError) as error:
        raise _unusable(folder, error) from error
    try:
        lock = lock_folder(folder, "fit")
        for left_over in folder.glob(LEFT_OVER):  # of ended processes, now that the folder is ours
            left_over.unlink()
    except OSError as error:
        raise _unusable(folder, error) from error
    return lock


def _unusable(folder: Path, error: OSError | DataError) -> DataError:
    reason = error.strerror if isinstance(error, OSError) else error
    return DataError(f"Checkpoints cannot be written to folder '{folder}' ({reason}); give another folder.")


def _newest_undamaged(newest_first: list[Path], among: Group | Alone) -> _Found | None:
    """The newest checkpoint that every process can read; warns of those that are damaged."""
    damaged: list[str] = []
    found = None
    for path in newest_first:
        error = None
        try:
            found = _read(path)
        except ValueError as raised:
            error = str(raised)
        first_error = next(filter(None, among.all_gather_object(error)), None)
        if first_error is None:
            break
        found = None
        damaged.append(f"Checkpoint '{path}' is damaged ({first_error})")
    instead = "begins anew" if found is None else f"goes on from '{found.path.name}'"
    for sentence in damaged if among.rank == 0 else ():
        warnings.warn(f"{sentence}; learning {instead}.", stacklevel=4)
    return found


# ---- one learner ------------------------------------------------------------------------------


class CheckpointWriter:
    """The checkpoints of one learner, from the one to go on from to the newest."""

    def __init__(self, checkpoints: Checkpoints, part: str, found: _Found | None) -> None:
        self._checkpoints, self._part, self._found = checkpoints, part, found
        self._kept = [] if found is None else [found.path]
        self._pending: tuple[State, About] | None = None
        self._written_at, self._written_epoch = time.monotonic(), 0
        self._has_failed = False

    def restore(self, learner: Learner) -> None:
        if self._found is None:
            return
        with self._checkpoints.among.raise_on_all_ranks():
            try:
                learner.restore(self._found.state)
                if len(learner.history) != self._found.about.epoch:
                    raise ValueError("its history is not as long as it says")
            except (ValueError, TypeError, OverflowError) as error:
                raise DataError(
                    f"Checkpoint '{self._found.path}' cannot be used ({error}); remove it, and learning "
                    "goes on from the one before it, or begins anew."
                ) from error
        self._written_epoch = len(learner.history)
        self._found = None  # its arrays are as large as the model

    def after(self, learner: Learner, state: State | None = None) -> None:
        """Write a checkpoint after an epoch if it is time; ``state`` is the learner's, if known."""
        among = self._checkpoints.among
        if not self._checkpoints.are_kept:
            return
        epoch, is_last = len(learner.history), not learner.goes_on()
        is_due = among.broadcast_object(lambda: is_last or self._is_due(epoch))  # clocks differ
        # Of one process, because Ctrl-C may come; several would have to wait for one another.
        if state is None and (is_due or among.size == 1):
            state = learner.state()
        if state is None or among.rank > 0:
            return
        self._pending = state, About(self._part, epoch, is_last, self._checkpoints.identity)
        if is_due:
            self.flush()

    def _is_due(self, epoch: int) -> bool:
        seconds, epochs = self._checkpoints.interval
        waited = time.monotonic() - self._written_at
        return waited >= seconds or epoch - self._written_epoch >= epochs

    def flush(self) -> None:
        """Write the last epoch that has ended, unless that is done.

        No other process need do the same: they may be anywhere when Ctrl-C comes.
        """
        if self._pending is None:
            return
        state, about = self._pending
        self._written_at, self._written_epoch = time.monotonic(), about.epoch
        folder = self._checkpoints.folder
        assert folder is not None, "nothing is pending without a folder"
        path = folder / f"{self._part}-{about.epoch:06d}{_SUFFIX}"
        header = {"model": model_file.CHECKPOINT, model_file.CHECKPOINT: about._asdict()}
        try:
            model_file.write(path, state, header)
            self._kept = [*(kept for kept in self._kept if kept != path), path][-_KEPT:]
            for older in folder.glob(f"{self._part}-*{_SUFFIX}"):
                if older not in self._kept:
                    older.unlink()
        except (DataError, OSError) as error:
            # A full disk is no reason to lose what is being learnt.
            if not self._has_failed:
                warnings.warn(f"Learning goes on without a checkpoint: {error}", stacklevel=2)
            self._has_failed = True
        self._pending = None  # but Ctrl-C while it was written lets it be written again


NO_CHECKPOINTS = Checkpoints(None)

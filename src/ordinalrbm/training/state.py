"""States of learners as named arrays: what a checkpoint holds, taken apart and put together."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ordinalrbm.storage.reader import LARGEST_NUMBER, Stored, wrong
from ordinalrbm.training.schedule import Schedule

State = Mapping[str, np.ndarray]
"""Everything that a learner needs to go on, by name."""
Limits = Mapping[Any, tuple[float, float]]
NO_LIMITS: Limits = {}


class Learner(Protocol):
    """What the loop and checkpoints need of a learner."""

    @property
    def history(self) -> Sequence[Any]:
        """A line for each epoch, with the log probability of what is held out."""

    @property
    def schedule(self) -> Schedule | None:
        """The learning rate, if there is one and learning may therefore diverge."""

    @property
    def has_model(self) -> bool:
        """Whether there is a model to give, should learning stop now."""

    def goes_on(self) -> bool: ...

    def epoch(self) -> None: ...

    def state(self) -> State:
        """All that is needed to go on from here, in copies.

        Where several processes learn together all of them call it, and the first gets the whole
        state. The others need it only if they have a schedule, to go back after divergence.
        """

    def restore(self, state: State) -> None:
        """Go on from a whole state, of which a process in a group takes its share."""


class LazyState(Mapping[str, np.ndarray]):
    """A state that is put together when it is first needed, which is seldom."""

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
    """Return copies of arrays and numbers in named tuples, lists and dictionaries, by name ("a.mean")."""
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
    name: str,
    state: State,
    like: Any,
    low: float = -LARGEST_NUMBER,
    high: float = LARGEST_NUMBER,
    limits: Limits = NO_LIMITS,
) -> Any:
    """Return what :func:`flatten` has put under a name, in the shape and memory order of ``like``.

    A file may hold anything, and kernels do not check bounds. So numbers must be between ``low`` and
    ``high``, or the ``limits`` of their field; and whole numbers, which are sizes, those of ``like``.
    """
    if isinstance(like, np.ndarray):
        # Kernels sum in the order of the memory, and files know only one.
        found = np.empty_like(like)
        found[...] = _checked(name, state, like, low, high)
        return found
    parts = _parts(like)
    if parts is None:
        return _checked(name, state, np.array([like]), low, high).item()
    inner = {
        part: unflatten(f"{name}.{part}", state, value, *limits.get(part, (low, high)), limits)
        for part, value in parts
    }
    if isinstance(like, Mapping):
        return inner
    return type(like)(*inner.values()) if hasattr(like, "_fields") else list(inner.values())


def unflatten_model(name: str, state: State, like: Any, read: Callable[..., Any] | None = None) -> Any:
    """Return a model of ratings in a state, which ``read`` (by default that of model files) must accept."""
    read = type(like).from_stored if read is None else read
    read(Stored(state, {}).under(f"{name}."), like.n_rows, like.n_levels)
    return unflatten(name, state, like)


def _checked(name: str, state: State, like: np.ndarray, low: float, high: float) -> np.ndarray:
    stored = Stored(state, {}).checked_array(name, like.dtype.type, like.shape, low, high)
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
    lines = list(history)
    fields = lines[0]._fields if lines else ()
    return {f"history.{name}": np.array([getattr(line, name) for line in lines]) for name in fields}


def unflatten_history(state: State, record: Any, *, unwatched: Iterable[str] = ()) -> list[Any]:
    """Return the history as a list of records; columns that are ``unwatched`` have no numbers."""
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
            columns.append(stored.checked_array(f"history.{name}", kind, (epochs.size,)).tolist())
    if columns and columns[0] != list(range(1, epochs.size + 1)):
        raise wrong("history.epoch", "does not count the epochs")
    return [record(*line) for line in zip(*columns, strict=True)]


def counter(name: str, state: State, most: int) -> int:
    return int(Stored(state, {}).checked_array(name, np.int64, (1,), 0, most)[0])


def virtual_start_time(history: list[Any]) -> float:
    """Return when learning without a stop would have begun, by the clock of this process."""
    return time.perf_counter() - (history[-1].seconds if history else 0.0)


def packed(factors: np.ndarray, units: int = 1) -> np.ndarray:
    """Return chains as they are stored: a bit for each binary factor; larger counts as they are."""
    return np.packbits(factors) if units == 1 else factors.copy()


def unpack_into(factors: np.ndarray, name: str, state: State, units: int = 1) -> None:
    are_bits = units == 1
    shape = (-(-factors.size // 8),) if are_bits else factors.shape
    most = np.iinfo(np.uint8).max if are_bits else units
    stored = Stored(state, {}).checked_array(name, factors.dtype.type, shape, 0, most)
    if are_bits:
        stored = np.unpackbits(stored, count=factors.size)
    factors[...] = stored.reshape(factors.shape)

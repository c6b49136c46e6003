"""States of learners as named arrays: what a checkpoint holds, taken apart and put together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ordinalrbm.storage.reader import LARGEST_NUMBER, Stored, wrong

State = Mapping[str, np.ndarray]
"""Everything that a learner needs to go on, by name."""
NO_LIMITS: Mapping[Any, tuple[float, float]] = {}


class LazyState(Mapping[str, np.ndarray]):
    """A state that is put together when somebody first looks at it, which few do.

    Examples
    --------
    >>> state = LazyState(lambda: {"mean": np.zeros(2)})
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
    >>> flatten("a", {"mean": np.zeros(2), "n": [3, 4]})
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
    name: str,
    state: State,
    like: Any,
    low: float = -LARGEST_NUMBER,
    high: float = LARGEST_NUMBER,
    limits: Mapping[Any, tuple[float, float]] = NO_LIMITS,
) -> Any:
    """What :func:`flatten` has put under a name, in the shape and memory order of ``like``.

    Whoever can write a file can write anything, and kernels read without looking. So numbers must
    be between ``low`` and ``high``, or what ``limits`` says of fields by their name; and whole
    numbers, which are sizes, those of ``like``.

    Examples
    --------
    >>> unflatten("a", flatten("a", [np.ones(2), 5]), [np.zeros(2), 5])
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
    inner = {
        part: unflatten(f"{name}.{part}", state, value, *limits.get(part, (low, high)), limits)
        for part, value in parts
    }
    if isinstance(like, Mapping):
        return inner
    return type(like)(*inner.values()) if hasattr(like, "_fields") else list(inner.values())


def unflatten_model(name: str, state: State, like: Any, read: Callable[..., Any] | None = None) -> Any:
    """A model of ratings in a learner's state, which must be such as ``read`` accepts.

    By default that is what reads it from a model file.
    """
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
    """The lines of a history, as an array for each of its columns."""
    lines = list(history)
    fields = lines[0]._fields if lines else ()
    return {f"history.{name}": np.array([getattr(line, name) for line in lines]) for name in fields}


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
            columns.append(stored.checked_array(f"history.{name}", kind, (epochs.size,)).tolist())
    if columns and columns[0] != list(range(1, epochs.size + 1)):
        raise wrong("history.epoch", "does not count the epochs")
    return [record(*line) for line in zip(*columns, strict=True)]


def counter(name: str, state: State, most: int) -> int:
    return int(Stored(state, {}).checked_array(name, np.int64, (1,), 0, most)[0])


def virtual_start_time(history: list[Any]) -> float:
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
    stored = Stored(state, {}).checked_array(name, factors.dtype.type, shape, 0, most)
    if are_bits:
        stored = np.unpackbits(stored, count=factors.size)
    factors[...] = stored.reshape(factors.shape)

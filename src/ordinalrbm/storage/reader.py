"""What a model file holds, read part by part and checked on the way.

Checksums tell damage, but anybody can compute them. Kernels read arrays without looking at bounds,
so each array must have the type, shape and range that they rely on before they see it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from ordinalrbm.errors import DataError
from ordinalrbm.runtime.blocks import each_block

Estimator = TypeVar("Estimator")
Kinds = type | tuple[type, ...]
Shape = Sequence[int | None]

_LARGEST = float(np.finfo(np.float64).max)
# Utilities have a standard deviation of one: nothing that was learnt is anywhere near this.
LARGEST_PARAMETER = 1e4
# Variances, and sums that a learner keeps, may be larger.
LARGEST_NUMBER = 1e6
# Settings that are no more than yes or no, which no other check looks at.
_SWITCHES = ("verbose", "calibrate")


@dataclass(frozen=True, eq=False)
class Stored:
    """Arrays, whose names begin with a prefix, and header of a model file."""

    arrays: Mapping[str, np.ndarray]
    header: Mapping[str, Any]
    prefix: str = ""

    def under(self, prefix: str) -> Self:
        return replace(self, prefix=self.prefix + prefix)

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self.arrays

    def checked_array(
        self, name: str, kinds: Kinds, shape: Shape, low: float = -_LARGEST, high: float = _LARGEST
    ) -> np.ndarray:
        """Return an array of one of these types, of this shape (None is any length), within the bounds.

        NaN is never within; infinity only where a bound is infinite.
        """
        full = self.prefix + name
        array = _part(self.arrays, full)
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        if array.dtype not in kinds:
            raise wrong(full, f"is of type {array.dtype}")
        fits = array.ndim == len(shape) and all(
            wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
        )
        if not fits:
            wanted = ", ".join("any" if one is None else str(one) for one in shape)
            wanted += "," if len(shape) == 1 else ""
            raise wrong(full, f"has shape {array.shape} instead of ({wanted})")
        if array.size and not _is_between(array, low, high):
            raise wrong(full, f"has numbers that are not between {low:g} and {high:g}")
        return array

    def parameter(
        self,
        name: str,
        kind: type,
        shape: Shape,
        low: float = -LARGEST_PARAMETER,
        high: float = LARGEST_PARAMETER,
    ) -> np.ndarray:
        """An array of what was learnt, none of it so large that sums of squares overflow."""
        return self.checked_array(name, kind, shape, low, high)

    def entry(self, name: str, *kinds: type | None) -> Any:
        """An entry of the header, of one of these types; None among them allows None."""
        value = _part(self.header, name)
        if type(value) not in [type(None) if kind is None else kind for kind in kinds]:
            raise DataError(f"its header has a {type(value).__name__} as '{name}'")
        return value

    def inside(self, name: str) -> Self:
        """The entries within one of the header."""
        return type(self)({}, self.entry(name, dict))

    def whole(self, name: str, low: int, high: int | None = None) -> int:
        """An entry of the header that is a whole number in a range."""
        value = self.entry(name, int)
        if value < low or (high is not None and value > high):
            raise DataError(f"its header has {value!r:.40} as '{name}'")
        return value

    def members(self, name: str, is_valid: Callable[[Any], bool]) -> tuple[Any, ...]:
        """A list of the header, all of whose members are valid."""
        members = self.entry(name, list)
        if not all(map(is_valid, members)):
            raise DataError(f"its header has {members!r:.80} as '{name}'")
        return tuple(members)

    def numbers(self, name: str, low: float, high: float) -> tuple[float, ...]:
        """A list of the header, of numbers in a range."""
        members = self.members(name, lambda one: type(one) in (int, float) and low <= one <= high)
        return tuple(map(float, members))

    def number(self, name: str, low: float, high: float) -> float:
        """An entry of the header that is a number in a range."""
        value = self.entry(name, int, float)
        if not low <= value <= high:
            raise DataError(f"its header has {value!r:.40} as '{name}'")
        return float(value)

    def notes(self) -> dict[str, Any]:
        return self.entry("about", dict) if "about" in self.header else {}

    def estimator(self, kind: Callable[..., Estimator], check: Callable[[Any], None]) -> Estimator:
        """An estimator with the settings in the header, which ``check`` looks at."""
        given = self.entry("parameters", dict)
        known: list[str] = kind._get_param_names()  # type: ignore[attr-defined]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise DataError(f"{kind.__name__} has no parameter {unknown[0]!r:.80}")
        estimator = kind(**{name: given[name] for name in known if name in given})
        check(estimator)
        for name in _SWITCHES:
            if not isinstance(getattr(estimator, name, False), bool | int):
                raise DataError(f"its parameter '{name}' is neither true nor false")
        return estimator

    def history(self) -> dict[str, np.ndarray]:
        """The columns of the learning history, all of one length."""
        names = self.entry("history", list)
        kinds = (np.float64, np.float32, np.int64, np.bool_)
        columns: dict[str, np.ndarray] = {}
        for name in names:
            if not isinstance(name, str) or name in columns:
                raise DataError(f"its header has {name!r:.80} as a column of the history")
            full = f"{self.prefix}history.{name}"
            array = _part(self.arrays, full)
            is_like = all(array.shape == other.shape for other in columns.values())
            if array.dtype not in kinds or array.ndim != 1 or not is_like:
                raise wrong(full, "is no column like the others")
            columns[name] = array
        return columns


def columns_kept(history: Any) -> list[str]:
    """Return the columns of a learning history that go into a file, without the times."""
    return [str(name) for name in history.columns if name != "seconds"]


def _part(parts: Mapping[str, Any], name: str) -> Any:
    if name not in parts:
        raise lacking(name)
    return parts[name]


def lacking(name: str) -> DataError:
    return DataError(f"it lacks a part of the model, '{name:.80}'")


def _is_between(array: np.ndarray, low: float, high: float) -> bool:
    numbers = array.reshape(-1)

    def look(block: slice) -> bool:
        # Smallest and largest are NaN where anything is; no array of truths is made on the way.
        some = numbers[block]
        return bool(low <= some.min().item() and some.max().item() <= high)

    return all(each_block(look, numbers.size))


def wrong(name: str, what: str) -> DataError:
    return DataError(f"its array '{name:.80}' {what}")

"""What the interactive map is made of, small enough for a page: one byte per person and variable.

Every variable becomes codes from 0 to 254, and 255 where nothing is known; these are compressed
one by one, so that the page unpacks only what somebody wants to see.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ordinalrbm.plots.style import printable

UNKNOWN = 255
_MOST_KINDS = 250
_STEPS = 254
_PLACES = 65_535  # of a coordinate: two bytes
_MOST = (0.005, 0.995)
_FAR_OUT = 3.0  # times as wide as most of the values


class Variable(NamedTuple):
    """One way to colour the points."""

    name: str
    section: str  # under which heading the page offers it
    kind: str  # "kinds", "ordered" or "number"
    labels: tuple[str, ...]  # of the codes; numbers have none
    # Of a number: what the codes 0 and 254 stand for, decimals worth showing, and whether there are
    # values below the one and above the other.
    low: float
    high: float
    digits: int
    cut: tuple[bool, bool]
    codes: np.ndarray  # (n,) uint8


def point_map(
    positions: np.ndarray, names: Sequence[str], variables: Sequence[Variable],
    told: Sequence[int], noun: str,
) -> dict[str, Any]:  # fmt: skip
    """Points on a plane that can be coloured in several ways, as the page reads them.

    ``told`` are the places of the variables that are told of a point under the pointer, besides the
    one it is coloured by; ``noun`` is what the points are, in the plural.
    """
    # Both coordinates on one scale, so that distances keep their proportions.
    size = float(np.ptp(positions, axis=0).max()) or 1.0
    scaled = np.rint((positions - positions.min(axis=0)) / size * _PLACES).astype(np.uint16)
    return {
        "count": len(names),
        "noun": noun,
        "x": packed(scaled[:, 0]),
        "y": packed(scaled[:, 1]),
        "names": packed(np.frombuffer("\n".join(names).encode(), dtype=np.uint8)),
        "variables": [one._asdict() | {"codes": packed(one.codes)} for one in variables],
        "told": list(told),
    }


def packed(values: np.ndarray) -> str:
    r"""Compressed bytes as text.

    Examples
    --------
    >>> zlib.decompress(base64.b64decode(packed(np.array([1, 2], dtype=np.uint8))))
    b'\x01\x02'
    """
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(zlib.compress(little.tobytes(), 9)).decode("ascii")


def variable_of(values: pd.Series, name: str, section: str) -> Variable | None:
    """A way to colour points by some values; None when they are all alike or all missing.

    Examples
    --------
    >>> sex = variable_of(pd.Series(["f", None, "m"]), "sex", "Background")
    >>> sex.labels, sex.codes.tolist()
    (('f', 'm'), [0, 255, 1])
    >>> age = variable_of(pd.Series([20, 30, None]), "age", "Background")
    >>> age.low, age.high, age.codes.tolist()
    (20.0, 30.0, [0, 254, 255])
    """
    is_number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if is_number:
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        values = pd.Series(np.where(np.isfinite(numbers), numbers, np.nan))
    if values.nunique() < 2:
        return None
    make = _number if is_number else _kinds
    return make(values, name, section)


def _number(series: pd.Series, name: str, section: str) -> Variable:
    values = series.to_numpy()
    known = ~np.isnan(values)
    low, high = _bounds(values[known])
    codes = np.full(len(values), UNKNOWN, dtype=np.uint8)
    codes[known] = np.rint((np.clip(values[known], low, high) - low) / (high - low) * _STEPS)
    whole = bool((values[known] == np.rint(values[known])).all())
    digits = 0 if whole else int(np.clip(2 - np.floor(np.log10(high - low)), 0, 6))
    cut = (bool(values[known].min() < low), bool(values[known].max() > high))
    return Variable(name, section, "number", (), low, high, digits, cut, codes)


def _bounds(values: np.ndarray) -> tuple[float, float]:
    """The least and the greatest value, unless a few are so far out that they hide all others."""
    least, low, high, greatest = np.quantile(values, [0.0, *_MOST, 1.0])
    if low == high or greatest - least < _FAR_OUT * (high - low):
        return float(least), float(greatest)
    return float(low), float(high)


def _kinds(values: pd.Series, name: str, section: str) -> Variable:
    column = values if isinstance(values.dtype, pd.CategoricalDtype) else values.astype("category")
    ordered = bool(column.cat.ordered)
    categories = [printable(label) for label in column.cat.categories]
    code = column.cat.codes.to_numpy(np.int64)
    if not ordered or len(categories) > _MOST_KINDS:
        code, categories = _largest_first(code, categories)
    codes = np.where(code < 0, UNKNOWN, code).astype(np.uint8)
    kind = "ordered" if ordered else "kinds"
    return Variable(name, section, kind, tuple(categories), 0.0, 0.0, 0, (False, False), codes)


def _largest_first(code: np.ndarray, categories: list[str]) -> tuple[np.ndarray, list[str]]:
    """Kinds by size; those beyond the largest 250 become one."""
    count = np.bincount(code[code >= 0], minlength=len(categories))
    order = np.argsort(-count, kind="stable")
    order = order[count[order] > 0]
    place = np.full(len(categories) + 1, -1)
    place[order] = np.minimum(np.arange(len(order)), _MOST_KINDS)
    labels = [categories[i] for i in order[:_MOST_KINDS]]
    if len(order) > _MOST_KINDS:
        labels.append(f"({len(order) - _MOST_KINDS} smaller kinds)")
    return place[code], labels

"""The map of a page: people or items as points on a plane, as the page's script reads them.

t-SNE of 60,000 people takes a quarter of an hour and shows no more than that of 10,000, so of more
some are drawn. On the page every variable is one byte per point: codes from 0 to 254, and 255 where
nothing is known, compressed one by one, so that only what somebody wants to see is unpacked.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ordinalrbm.pages.page import packed
from ordinalrbm.plots.maps import row_positions
from ordinalrbm.plots.style import printable

UNKNOWN = 255
_MOST_KINDS = 250
_STEPS = 254
_PLACES = 65_535  # of a coordinate: two bytes
_MOST = (0.005, 0.995)
_FAR_OUT = 3.0  # times as wide as most of the values
MOST_POINTS, FEWEST_POINTS = 10_000, 4
_MOST_CODES = 1_500_000  # of all variables together: more than half a megabyte on the page
_STEPS_OF_MAP = 350  # of t-SNE; neighbours stay neighbours as often as with 500


def some_of(rows: np.ndarray, most: int, seed: int | np.random.Generator) -> np.ndarray:
    """At most so many rows, drawn at random, in their order."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


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


class Described(NamedTuple):
    """Some rows of a map."""

    names: Sequence[str]
    variables: Sequence[Variable]  # to colour them by
    told: Sequence[int]  # places of the variables that are told of each
    first: int = 0  # the place of the one that the map opens with


def map_section(
    rows: np.ndarray,
    factors: np.ndarray,
    describe: Callable[[np.ndarray], Described],
    random_state: int = 0,
    n_variables: int = 1,
) -> dict[str, Any] | None:
    """A map of rows as the page's script reads it, and what became of them; None of too few.

    The more variables there are to colour rows by, the fewer rows keep the page small.
    """
    if len(rows) < FEWEST_POINTS:
        return None
    shown = some_of(rows, min(MOST_POINTS, _MOST_CODES // n_variables), random_state)
    positions = row_positions(factors[shown], random_state=random_state, max_iter=_STEPS_OF_MAP)
    return {
        "data": point_map(positions, describe(shown)),
        "n_points": len(shown),
        "n_not_drawn": len(rows) - len(shown),
    }


def point_map(positions: np.ndarray, described: Described) -> dict[str, object]:
    """Points on a plane that can be coloured in several ways, as the page reads them."""
    # Both coordinates on one scale, so that distances keep their proportions, in the middle of a square.
    size = float(np.ptp(positions, axis=0).max()) or 1.0
    middle = (positions.min(axis=0) + positions.max(axis=0)) / 2
    scaled = np.rint(((positions - middle) / size + 0.5) * _PLACES).astype(np.uint16)
    return {
        "count": len(described.names),
        "x": packed(scaled[:, 0]),
        "y": packed(scaled[:, 1]),
        "names": packed(np.frombuffer("\n".join(described.names).encode(), dtype=np.uint8)),
        "variables": [one._asdict() | {"codes": packed(one.codes)} for one in described.variables],
        "told": list(described.told),
        "first": described.first,
    }


def variable_of(values: pd.Series, name: str, section: str) -> Variable | None:
    """A way to colour points by some values; None when they are all alike or all missing."""
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
    count = np.bincount(code[code >= 0], minlength=len(categories))
    order = np.argsort(-count, kind="stable")
    order = order[count[order] > 0]
    place = np.full(len(categories) + 1, -1)
    place[order] = np.minimum(np.arange(len(order)), _MOST_KINDS)
    labels = [categories[i] for i in order[:_MOST_KINDS]]
    if len(order) > _MOST_KINDS:
        labels.append(f"({len(order) - _MOST_KINDS} smaller kinds)")
    return place[code], labels

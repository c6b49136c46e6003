"""What pages draw by themselves: the map of people or items, and response curves of questions.

t-SNE of 60,000 people takes a quarter of an hour. So some people drawn at random, the landmarks,
are placed by t-SNE; everybody else comes to stand between the landmarks with the most similar
factors. On the page every variable is one byte per person: codes from 0 to 254, and 255 where
nothing is known, compressed one by one, so that only what somebody wants to see is unpacked.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr

from ordinalrbm.data.tables import as_table
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.pages.page import packed
from ordinalrbm.plots.maps import row_positions
from ordinalrbm.plots.questions import Curves
from ordinalrbm.plots.style import printable
from ordinalrbm.vector.model import VectorModel

UNKNOWN = 255
_MOST_KINDS = 250
_STEPS = 254
_PLACES = 65_535  # of a coordinate: two bytes
_MOST = (0.005, 0.995)
_FAR_OUT = 3.0  # times as wide as most of the values
MOST_POINTS = 100_000
_MOST_CODES = 1_500_000  # of all variables together: more than half a megabyte on the page
N_LANDMARKS = 8_000
# Up to here t-SNE takes about as long as with landmarks.
MOST_WITHOUT_LANDMARKS = 10_000
_STEPS_OF_MAP = 350  # of t-SNE; neighbours stay neighbours as often as with 500
FEWEST_PEOPLE = 4
_NEIGHBOURS = 8
_NEVER_ZERO = 1e-6
# Of the distance between the nearest landmarks: people between the same ones must not coincide.
_JITTER = 0.35
_N_POINTS = 33
_BEYOND = 1.5  # how far a curve goes on beyond the outermost threshold, in standard deviations
_MIDDLE = (0.1, 0.9)


class Places(NamedTuple):
    """Where rows stand on a plane, (n, 2), and how many of them t-SNE itself has placed."""

    positions: np.ndarray
    n_landmarks: int


def some_of(rows: np.ndarray, most: int, seed: int | np.random.Generator) -> np.ndarray:
    """At most so many rows, drawn at random, in their order."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def place(factors: np.ndarray, *, random_state: int = 0) -> Places:
    """Place rows, at least 4, on a plane so that neighbours have similar factors.

    Of more than 10,000, t-SNE itself places only 8,000.
    """
    points = np.asarray(factors, dtype=np.float32)
    if len(points) > MOST_WITHOUT_LANDMARKS:
        return among_landmarks(points, N_LANDMARKS, random_state)
    return Places(row_positions(points, random_state=random_state, max_iter=_STEPS_OF_MAP), len(points))


def among_landmarks(points: np.ndarray, n_landmarks: int, random_state: int) -> Places:
    """Place landmarks by t-SNE and everybody else between the nearest of them."""
    from sklearn.neighbors import NearestNeighbors  # slow to import, and only needed here

    rng = np.random.default_rng(random_state)
    chosen = np.sort(rng.choice(len(points), n_landmarks, replace=False))
    others = np.setdiff1d(np.arange(len(points)), chosen)
    positions = np.empty((len(points), 2), dtype=np.float32)
    positions[chosen] = row_positions(points[chosen], random_state=random_state, max_iter=_STEPS_OF_MAP)
    index = NearestNeighbors(n_neighbors=min(_NEIGHBOURS, n_landmarks), algorithm="brute")
    distance, near = index.fit(points[chosen]).kneighbors(points[others])
    noise = rng.normal(size=(len(others), 2)).astype(np.float32)
    positions[others] = _between(distance, positions[chosen][near], noise)
    return Places(positions, n_landmarks)


def _between(distance: np.ndarray, spots: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Weighted means of the nearest landmarks' places, a little apart from each other.

    Only those neighbours count that the map, too, shows close to the nearest one: between two far
    ends of the map there is nobody like either.
    """
    off = np.linalg.norm(spots - spots[:, :1], axis=2)  # the nearest comes first
    reach = np.median(off, axis=1, keepdims=True)
    weight = np.where(off <= reach, 1.0 / np.maximum(distance, _NEVER_ZERO) ** 2, 0.0)
    mean = (weight[..., None] * spots).sum(axis=1) / weight.sum(axis=1, keepdims=True)
    # By the spacing of landmarks in that part of the map; where they are far apart, no further
    # than elsewhere, so that nobody is thrown off the map.
    apart = np.minimum(np.where(off > 0, off, np.inf).min(axis=1, keepdims=True), reach)
    return mean + _JITTER * np.minimum(apart, 2.0 * np.median(apart)) * np.clip(noise, -2.0, 2.0)


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
    column: str = ""  # of the table, if it is one


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
    noun: str,
    random_state: int = 0,
    n_variables: int = 1,
) -> dict[str, object] | None:
    """A map of rows as the page's script reads it, and what became of them; None of too few.

    The more variables there are to colour rows by, the fewer rows keep the page small.
    """
    if len(rows) < FEWEST_PEOPLE:
        return None
    shown = some_of(rows, min(MOST_POINTS, _MOST_CODES // n_variables), random_state)
    places = place(factors[shown], random_state=random_state)
    return {
        "data": point_map(places.positions, describe(shown), noun),
        "rows": shown,
        "n_points": len(shown),
        "n_landmarks": places.n_landmarks,
        "n_not_drawn": len(rows) - len(shown),
    }


def point_map(positions: np.ndarray, described: Described, noun: str) -> dict[str, object]:
    """Points on a plane that can be coloured in several ways, as the page reads them.

    ``noun`` is what the points are, in the plural.
    """
    # Both coordinates on one scale, so that distances keep their proportions.
    size = float(np.ptp(positions, axis=0).max()) or 1.0
    scaled = np.rint((positions - positions.min(axis=0)) / size * _PLACES).astype(np.uint16)
    return {
        "count": len(described.names),
        "noun": noun,
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


def response_curves(model: CumulativeRBM, names: list[str], people: Any = None) -> list[Curves]:
    """Probability of each level along the mean utility, for every question on an ordered scale.

    With ``people``, a table of their answers, curves say where most of them are.
    """
    parameters, curves = model.model_, []
    # Thresholds are shown where somebody with a usual style has them.
    usual_stretch = np.exp(parameters.style_weights @ np.log(parameters.stretches))
    spans = None if people is None else _middle_utilities(model, people)
    known, first = model.questionnaire_, parameters.layout.first
    asked = enumerate(known.questions)
    ordered = [(int(first[i]), known.scales[j]) for i, j in asked if known.kinds[j] == "ordinal"]
    every_bound = parameters.thresholds
    for name, (column, scale) in zip(names, ordered, strict=True):
        levels = scale.names  # type: ignore[union-attr]
        bounds = every_bound[column, : len(levels) + 1]
        inner = bounds[1:-1] * usual_stretch
        middle = None if spans is None else (float(spans[0, column]), float(spans[1, column]))
        marks = [*inner, *(middle or ())] or [0.0]
        utility = np.linspace(min(marks) - _BEYOND, max(marks) + _BEYOND, _N_POINTS)
        probability = _probabilities(parameters, bounds, utility)
        curves.append(Curves(name, levels, utility, probability, inner.tolist(), middle))
    return curves


def _probabilities(model: VectorModel, bounds: np.ndarray, utility: np.ndarray) -> np.ndarray:
    """(points, L): over all styles of using the scale, each with its share."""
    total = np.zeros((len(utility), len(bounds) - 1))
    for stretch, share in zip(model.stretches, model.style_weights, strict=True):
        total += share * np.diff(ndtr(bounds * stretch - utility[:, None]), axis=1)
    return total


def _middle_utilities(model: CumulativeRBM, people: Any) -> np.ndarray:
    """(2, N'): between which mean utilities the middle four fifths of the people are."""
    parameters = model.model_
    units_on = np.asarray(model.transform(people)) * parameters.units
    covariates = model.questionnaire_.encode(as_table(people)).covariates
    ends = []
    for i, (bias, weights) in enumerate(zip(parameters.bias, parameters.weights, strict=True)):
        utility = bias + units_on @ weights
        if covariates.size:
            utility = utility + covariates @ parameters.slopes[i]
        ends.append(np.quantile(utility, _MIDDLE))
    return np.stack(ends, axis=1)

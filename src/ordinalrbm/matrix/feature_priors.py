"""Where rows and columns are expected by their features, before any of their ratings is looked at.

A row is expected at Bᵀ(x_d − x̄). Its features x_d are the columns that it has rated, however it has
rated them (:mod:`ordinalrbm.engine.rated_sets`), and what a table says of it; the same holds for
columns. B is a ridge regression of what is known of the rows, of which a few steps of conjugate
gradients are done in every epoch: they go on where those of the last one have ended.

Arrays are NumPy's or torch's, and rows may be spread over processes: sums are the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.base import HalfSweepEngine
from ordinalrbm.engine.rated_sets import FEW, RatedSets, add_mean_raters, raters_of, usual_count
from ordinalrbm.engine.side import Array
from ordinalrbm.engine.thresholds import add_scaled
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import compiled, kernel_function

# Precision of the prior of a weight, as a multiple of that of what it explains: of a rated column
# (MovieLens 1M and 100K: 3 to 5 are about as good), and of a feature of the table.
RIDGE, TABLE_RIDGE = 3.0, 10.0
# Lengths of rated sets between which averages are interpolated.
_LENGTHS = 16
# Ratings, at least, from which it is told how far rows suit the columns that they have rated.
_PAIRS = 5_000
# Steps of conjugate gradients.
_STEPS = 2


class Tables(NamedTuple):
    """Features of rows and of columns: (n, features), a line for each."""

    rows: csr_array | None = None
    columns: csr_array | None = None

    @property
    def are_any(self) -> bool:
        return any(table is not None for table in self)


NO_TABLES = Tables()


class View(NamedTuple):
    """How rows or columns are seen: their answers, and the engine that updates and sums them.

    Answers are in the form of the engine.
    """

    answers: Array
    engine: HalfSweepEngine
    # Of features, if there are any:
    lengths: Array = None  # (rows, 1), what each feature of a rated set is
    squares: Array = None  # (features, 1), squared lengths of these over all rows
    table: Array = None  # other features, in the engine's form
    table_squares: Array = None  # the same of these
    n: float = 0.0  # number of rows, of all processes


class Weights(NamedTuple):
    """Weights of the features of rows, or of columns; those of none have no width."""

    each: Array  # (columns, 1 + F) float32, of what was rated
    table: Array  # (features, 1 + F) float32, of what the table says
    centre: np.ndarray  # (1 + F,) float64, Bᵀ times the average features

    @classmethod
    def zero(
        cls, n_features: int, width: int, table: csr_array | None = None, *, rated_sets: bool = True
    ) -> Weights:
        each = np.zeros((n_features, width if rated_sets else 0), dtype=np.float32)
        shape = (0, 0) if table is None else (table.shape[1], width)
        centre = np.zeros(width if rated_sets or table is not None else 0)
        return cls(each, np.zeros(shape, dtype=np.float32), centre)

    @property
    def parts(self) -> list[Array]:
        return [part for part in (self.each, self.table) if part.shape[1]]

    def of_parts(self, parts: list[Array], centre: np.ndarray) -> Weights:
        left = iter(parts)
        each, table = (next(left) if part.shape[1] else part for part in (self.each, self.table))
        return Weights(each, table, centre)

    def rotate(self, matrix: np.ndarray, there: Array) -> Weights:
        """The same for rotated factors; ``there`` is the matrix where the weights are."""
        return self.of_parts([part @ there for part in self.parts], self.centre @ matrix)


NO_WEIGHTS = Weights.zero(0, 0)


def with_features(view: View, other_view: View, this: Array, other: Array, table: csr_array | None) -> View:
    """The view of a side, with what its features are; ``this`` and ``other`` are both sides."""
    counts = view.engine.rated_sums(view.answers, 0.0 * other.mean[:, :1] + 1.0)
    library, ones = view.engine.library, 0.0 * this.mean[:, :1] + 1.0
    lengths = ones / library.sqrt(counts + FEW)
    squares = other_view.engine.rated_sums(other_view.answers, lengths * lengths)
    view = view._replace(lengths=lengths, squares=squares, n=float(view.engine.totals(ones)[0]))
    if table is None:
        return view
    own = view.engine.feature_table(table, this.mean)
    squared = view.engine.feature_table(table.power(2), this.mean)
    return view._replace(table=own, table_squares=view.engine.table_sums(squared, ones))


def refit_weights(
    view: View, other_view: View, mean: Array, known: Weights, expected: Array
) -> tuple[Weights, Array]:
    """Weights nearer to the regression of the means, and what they expect of every row."""
    features = _Features(view, other_view, mean, known)
    weights, centre = known.parts, known.centre
    residual = features.transposed_times(mean - expected)
    residual = [
        part - ridge * own for part, ridge, own in zip(residual, features.ridges, weights, strict=True)
    ]
    direction = features.scaled(residual)
    size = features.products(residual, direction)
    for step in range(_STEPS):
        by_rows, average = features.times(direction)
        share = size / np.maximum(features.curvature(direction, by_rows), 1e-30)
        along = features.there(share)
        weights = [own + along * way for own, way in zip(weights, direction, strict=True)]
        centre = centre + share * average
        expected = expected + along * by_rows
        if step == _STEPS - 1:
            break
        image = features.transposed_times(by_rows)
        residual = [
            part - along * (of_rows + ridge * way)
            for part, of_rows, ridge, way in zip(residual, image, features.ridges, direction, strict=True)
        ]
        scaled = features.scaled(residual)
        before, size = size, features.products(residual, scaled)
        again = features.there(size / np.maximum(before, 1e-30))
        direction = [part + again * way for part, way in zip(scaled, direction, strict=True)]
    return known.of_parts(weights, centre), expected


class _Features:
    """Products with the features of rows, centred; parts are those of each kind of features."""

    def __init__(self, view: View, other_view: View, like: Array, weights: Weights) -> None:
        self.view, self.other, self.like = view, other_view, like
        self.rated_sets = weights.each.shape[1] > 0
        self.has_table = weights.table.shape[1] > 0
        self.ridges = [RIDGE] * self.rated_sets + [TABLE_RIDGE] * self.has_table
        squares = [view.squares] * self.rated_sets + [view.table_squares] * self.has_table
        self.diagonal = [part + ridge for part, ridge in zip(squares, self.ridges, strict=True)]

    def scaled(self, parts: list[Array]) -> list[Array]:
        return [part / own for part, own in zip(parts, self.diagonal, strict=True)]

    def times(self, parts: list[Array]) -> tuple[Array, np.ndarray]:
        """Features times weights, without their average over all rows; and that."""
        view, found = self.view, 0.0 * self.like
        if self.rated_sets:
            found = found + view.lengths * view.engine.rated_sums(view.answers, parts[0])
        if self.has_table:
            found = found + view.engine.table_times(view.table, parts[-1])
        average = self._average(found)
        return found - self.there(average), average

    def transposed_times(self, of_rows: Array) -> list[Array]:
        view, centred = self.view, of_rows - self.there(self._average(of_rows))
        found = []
        if self.rated_sets:
            found.append(self.other.engine.rated_sums(self.other.answers, view.lengths * centred))
        if self.has_table:
            found.append(view.engine.table_sums(view.table, centred))
        return found

    def products(self, parts: list[Array], others: list[Array]) -> np.ndarray:
        """Sums over features of products of their numbers; rated ones are the other side's."""
        return np.sum(self._totals(parts, others), axis=0)

    def _totals(self, parts: list[Array], others: list[Array]) -> list[np.ndarray]:
        totals = []
        if self.rated_sets:
            totals.append(self.other.engine.totals(parts[0] * others[0]))
        if self.has_table:
            totals.append(self.view.engine.totals_here(parts[-1] * others[-1]))
        return totals

    def curvature(self, direction: list[Array], by_rows: Array) -> np.ndarray:
        """What the regression's loss curves by along a direction, which makes this of the rows."""
        found = self.view.engine.totals(by_rows * by_rows)
        parts = self._totals(direction, direction)
        return found + sum(ridge * part for ridge, part in zip(self.ridges, parts, strict=True))

    def there(self, values: np.ndarray) -> Array:
        return self.view.engine.array(values.astype(np.float32), self.like)

    def _average(self, of_rows: Array) -> np.ndarray:
        return self.view.engine.totals(of_rows) / self.view.n


# ---- new rows ---------------------------------------------------------------------------------


def set_length(counts: Any) -> Any:
    """What the features of rated sets with so many ratings add up to."""
    return counts / np.sqrt(counts + FEW)


@dataclass(frozen=True, eq=False)
class CutSets:
    """Rated sets as they are on average where only some of each row's ratings are known.

    New rows have short sets because they are new, not because few would rate them: they are compared
    with those of training rows that are cut down to as many ratings, chosen at random. Rows count as
    often as they have rated.
    """

    length: np.ndarray  # (G,) from zero to that of the longest: n/√(n + 10) of n ratings
    features: np.ndarray  # (G, features) average ones of sets that are no longer
    # Weights and what the features times these are: of a model, the same for all new rows.
    _kept: tuple[np.ndarray, np.ndarray] | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, ratings: Observations) -> CutSets:
        own = set_length(ratings.row_counts)
        length = np.append(0.0, np.geomspace(set_length(1), max(own.max(initial=0.0), 1.0), _LENGTHS))
        matrix = csr_array(
            (np.ones(ratings.n_entries, np.float32), ratings.column, ratings.row_start),
            shape=(ratings.n_rows, ratings.n_columns),
        )
        total = matrix.T @ np.minimum(own[:, None], length).astype(np.float32)
        return cls(length, total.T / max(ratings.n_entries, 1))

    def weighted(self, weights: np.ndarray) -> np.ndarray:
        """(G, W): average features times weights, for each length."""
        kept = self._kept
        if kept is None or kept[0] is not weights:
            kept = (weights, self.features[:, : len(weights)] @ weights[: self.features.shape[1]])
            object.__setattr__(self, "_kept", kept)
        return kept[1]


class TrainedRows(NamedTuple):
    """Training rows used to predict where new rows lie."""

    usual_count: float  # of ratings
    average: np.ndarray  # (1 + F,) biases and factors, each counted as often as it has rated
    factors: np.ndarray  # (others, 1 + F)
    ratings: Observations  # of these; new rows have rated the same columns, or new ones
    table_mean: np.ndarray  # (features,), likewise; (0,) without a table
    affinity: float  # by how much those who choose a row like it more than others; 0 of who choose
    sets: CutSets
    cutpoints: np.ndarray = np.zeros(0)  # mean ones

    @classmethod
    def of(
        cls,
        factors: np.ndarray,
        ratings: Observations,
        table: csr_array | None,
        sets: CutSets | None = None,
        facing: np.ndarray | None = None,
    ) -> TrainedRows:
        """Rows with these factors; ``facing`` are those of whom they are chosen by, if they are."""
        counts, n = ratings.row_counts, max(ratings.n_entries, 1)
        average = counts @ factors.astype(np.float64) / n
        mean = np.zeros(0) if table is None else counts @ table / n
        affinity = 0.0 if facing is None else affinity_of(factors, facing, ratings)
        return cls(
            usual_count(counts), average, factors, ratings, mean, affinity, sets or CutSets.of(ratings)
        )

    def arrays(self, weights: np.ndarray) -> tuple[Any, ...]:
        """As kernels see them, with the weights of rated sets."""
        view, average = self.ratings.column_view, self.average.astype(np.float32)
        near = self.factors, average, view.column_start, view.row
        return float(self.usual_count), *near, weights, self.sets.length, self.sets.weighted(weights)


def affinity_of(factors: np.ndarray, facing: np.ndarray, ratings: Observations) -> float:
    """By how much the mean utility of ratings is above that of other rows that had the same rater.

    Items are rated by those whom they suit, which average factors do not tell of a new one. (Of new
    users the same would be said, but it makes their predictions worse: MovieLens 100K.)
    """
    some = np.arange(0, ratings.n_entries, max(ratings.n_entries // _PAIRS, 1))
    row = np.searchsorted(ratings.row_start, some, side="right") - 1
    several = ratings.row_counts[row] > 1
    some, row = some[several], row[several]
    if not some.size:
        return 0.0
    first, n = ratings.row_start[row], ratings.row_counts[row]
    another = first + (some - first + n // 2) % n
    known = Observations(
        np.arange(some.size + 1), ratings.column[another], ratings.level[another], ratings.n_levels
    )
    average = ratings.row_counts @ factors / ratings.n_entries
    away = factors[row] - raters_of(ratings, known, factors, average)
    columns = facing[ratings.column[some]].astype(np.float32)
    columns[:, 0] = 1.0  # where a row's own bias meets them
    return float((away * columns).sum() / some.size)


class FactorPrior(NamedTuple):
    """Precisions with which biases and factors, and cutpoints, of rows or columns were learnt."""

    precision: np.ndarray  # (1 + F,)
    cutpoints_precision: np.ndarray  # (M,)
    weights: Weights = NO_WEIGHTS  # of their features

    def expected(
        self, rows: Observations, table: csr_array | None = None, others: TrainedRows | None = None
    ) -> np.ndarray:
        """(rows, 1 + F) where rows with these ratings are expected; (rows, 0) is at zero.

        The table has other features of these rows, if they have any. New rows are compared with
        others: they are expected where those are on average, but for what differs in their features,
        and at first where rows are that have rated the same.
        """
        weights = self.weights
        if not rows.n_rows or (others is None and not weights.centre.size):
            return np.zeros((rows.n_rows, 0), dtype=np.float32)
        found = np.zeros((rows.n_rows, self.precision.size))
        if weights.each.shape[1] and others is None:
            found += RatedSets.of(rows).times(weights.each)
        if weights.table.shape[1] and table is not None:
            found += table @ weights.table
        if others is None:
            return (found - weights.centre).astype(np.float32)
        if weights.table.shape[1] and others.table_mean.size:
            found -= others.table_mean @ weights.table
        found[:, 0] += others.affinity
        arguments = rows.row_start, rows.column, others.arrays(weights.each), found
        over_rows(_add_expected, rows.n_rows, *arguments)
        return found.astype(np.float32)

    def without_answers(self, line: csr_array | None, n_columns: int) -> np.ndarray:
        """(1 + F,) where a row with these features and no ratings is expected."""
        none = np.zeros(0, dtype=np.int32)
        row = Observations.from_triples(none, none, none, 1, n_columns, np.full(n_columns, 2))
        expected = self.expected(row, line)[0].astype(np.float64)
        return expected if expected.size else np.zeros(self.precision.size)


# ---- kernels ----------------------------------------------------------------------------------


@compiled
def _add_expected(start, stop, row_start, column, others, found):
    for d in range(start, stop):
        add_expected(column[row_start[d] : row_start[d + 1]], others, found[d])


@kernel_function
def add_expected(column, others, found):
    """Add where a new row is expected that has rated these columns, see :meth:`FactorPrior.expected`."""
    usual, factors, average, column_start, rater, weights, length, weighted = others
    size, whole, n = column.size / np.sqrt(column.size + FEW), usual / np.sqrt(usual + FEW), column.size
    if weights.shape[1]:
        for e in range(n):
            add_scaled(found, 1.0 / np.sqrt(n + FEW), weights[column[e]])
        low = min(np.searchsorted(length, size, side="right"), length.size - 1) - 1
        share = min((size - length[low]) / (length[low + 1] - length[low]), 1.0)
        add_scaled(found, share - 1.0, weighted[low])
        add_scaled(found, -share, weighted[low + 1])
    # Sets count by their length relative to that of a row with the usual number of ratings: those of
    # new users are short because they are new, not because they rate little.
    known = min(size / whole, 1.0) if n and whole > 0.0 else 1.0
    add_scaled(found, known, average)
    for e in range(n):
        share = np.float32((1.0 - known) / n)
        add_mean_raters(column_start, rater, column[e], factors, average, share, found)

"""Features of rows, by which their biases and factors are expected: products, draws of weights.

Rated sets say which columns a row has rated, whatever the ratings. A row's feature vector has
1/√(n + 10) for each of the n columns that it has rated: nearly of length one (as in SVD++: Koren
2008), but shorter where a few ratings would explain themselves by their own presence. The table is
never made: all that is needed are sums over ratings. Other features, such as age, come as a sparse
table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import philox
from ordinalrbm.engine.normal import double
from ordinalrbm.engine.philox import Purpose, split_seed, stream
from ordinalrbm.engine.thresholds import add_scaled
from ordinalrbm.runtime.blocks import MANY, each, over_rows
from ordinalrbm.runtime.jit import allocating_kernel, compiled, inlined, inlined_sum

# Added to the number of ratings (see above).
FEW = 10.0
# Of a column, so many raters tell where its raters are on average, and that all rows are where they
# are counts as much as this many of them.
_MOST_RATERS, _ALL_COUNT_AS = 256, 20.0
# Coordinates whose weights are drawn together, by one thread: so many numbers lie side by side.
_TOGETHER = 8


def usual_count(counts: np.ndarray) -> float:
    return float(np.median(counts[counts > 0])) if counts.any() else 0.0


def raters_of(
    known: Observations, rows: Observations, factors: np.ndarray, average: np.ndarray
) -> np.ndarray:
    """(rows, W) mean factors of the known rows that have rated what each row has.

    ``known`` are the ratings of the rows with these ``factors``; a row without ratings is expected at
    their ``average``.
    """
    columns, place = rows.column, np.arange(rows.n_entries)
    if rows.n_rows > 1:
        columns, place = np.unique(columns, return_inverse=True)
    of_columns = np.empty((columns.size, factors.shape[1]), dtype=np.float32)
    view = known.column_view
    arguments = view.column_start, view.row, columns, factors, average.astype(np.float32), of_columns
    over_rows(_set_mean_raters, columns.size, *arguments)
    found = np.empty((rows.n_rows, factors.shape[1]), dtype=np.float32)
    over_rows(add_lines, rows.n_rows, rows.row_start, place, of_columns, found)
    counts = rows.row_counts[:, None]
    return np.where(counts > 0, found / np.maximum(counts, 1), average)


@compiled
def _set_mean_raters(start, stop, column_start, rater, columns, factors, average, found):
    for place in range(start, stop):
        found[place] = 0.0
        add_mean_raters(column_start, rater, columns[place], factors, average, np.float32(1.0), found[place])


@inlined
def add_mean_raters(column_start, rater, column, factors, average, share, total):
    """Add a share of the mean factors of those who have rated a column."""
    first = n = 0
    if column < column_start.size - 1:  # others are new, too
        first = column_start[column]
        n = column_start[column + 1] - first
    used = min(n, _MOST_RATERS)
    weight = share * np.float32(1.0 / (used + _ALL_COUNT_AS))
    add_scaled(total, np.float32(_ALL_COUNT_AS) * weight, average)
    for k in range(used):
        add_scaled(total, weight, factors[rater[first + k * n // used]])


@dataclass(frozen=True, eq=False)
class RatedSets:
    """Features of rows: the columns that they have rated."""

    answers: Observations

    @classmethod
    def of(cls, answers: Observations) -> RatedSets:
        return cls(answers)

    @cached_property
    def transposed(self) -> Observations:
        return self.answers.transpose()

    @property
    def lengths(self) -> np.ndarray:
        """(rows,) float32, what each of a row's features is."""
        return (1.0 / np.sqrt(self.answers.row_counts + FEW)).astype(np.float32)

    def times(self, weights: np.ndarray) -> np.ndarray:
        """(rows, W): features times the weights of each, (features, W)."""
        found = np.empty((self.answers.n_rows, weights.shape[1]), dtype=np.float32)
        table = np.ascontiguousarray(weights, dtype=np.float32)
        over_rows(add_lines, len(found), self.answers.row_start, self.answers.column, table, found)
        return self.lengths[:, None] * found

    def draw_weights(
        self, weights: np.ndarray, left: np.ndarray, ridge: float, which: WeightDraws
    ) -> tuple[np.ndarray, np.ndarray]:
        by_features = _ByFeatures(self.transposed.row_start, self.transposed.column, self.lengths, True)
        return _drawn_weights(by_features, weights, left, ridge, which)


class FeatureTable(NamedTuple):
    """Features of rows as numbers, of which most may be zero."""

    by_rows: csr_array  # (rows, features) float32
    by_features: csr_array  # the same, transposed

    @classmethod
    def of(cls, table: csr_array) -> FeatureTable:
        return cls(table, csr_array(table.T))

    def times(self, weights: np.ndarray) -> np.ndarray:
        """(rows, W): features times the weights of each, (features, W)."""
        return self.by_rows @ weights

    def draw_weights(
        self, weights: np.ndarray, left: np.ndarray, ridge: float, which: WeightDraws
    ) -> tuple[np.ndarray, np.ndarray]:
        table = self.by_features
        by_features = _ByFeatures(
            table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data, False
        )
        return _drawn_weights(by_features, weights, left, ridge, which)


class WeightDraws(NamedTuple):
    """Which draws these are."""

    seed: int
    sweep: int
    kind: int


class _ByFeatures(NamedTuple):
    """Features as kernels see them: which rows have each, and what it is there."""

    start: np.ndarray  # (features + 1,)
    row: np.ndarray
    value: np.ndarray
    is_of_row: bool  # whether there is one value for each row, and not for each entry


def _drawn_weights(
    features: _ByFeatures, weights: np.ndarray, left: np.ndarray, ridge: float, which: WeightDraws
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the weights of one feature after the other, given those of all others.

    Parameters
    ----------
    weights : (features, W), each with a Gaussian prior of precision ``ridge``
    left : (rows, W), what features do not explain so far, with independent noise of variance 1

    Returns
    -------
    weights, left : both after the draws
    """
    width = weights.shape[1]
    n_parts = -(-width // _TOGETHER)
    parts, of_rows = _in_parts(weights, n_parts), _in_parts(left, n_parts)
    words = (np.uint64(which.sweep), np.uint64(stream(Purpose.WEIGHT, which.kind)), *split_seed(which.seed))

    def draw(part: int) -> None:
        _draw_weights(features, np.float32(ridge), parts[part], of_rows[part], words, part)

    each(draw, range(n_parts), MANY)
    return _in_lines(parts, width), _in_lines(of_rows, width)


def _in_parts(table: np.ndarray, n_parts: int) -> np.ndarray:
    """(parts, lines, 8): the columns of a table, eight by eight, the last filled up with zeros."""
    padded = np.zeros((len(table), n_parts * _TOGETHER), dtype=np.float32)
    padded[:, : table.shape[1]] = table
    return np.ascontiguousarray(padded.reshape(len(table), n_parts, _TOGETHER).transpose(1, 0, 2))


def _in_lines(parts: np.ndarray, width: int) -> np.ndarray:
    n_parts, n_lines, together = parts.shape
    return parts.transpose(1, 0, 2).reshape(n_lines, n_parts * together)[:, :width].copy()


@allocating_kernel
def _draw_weights(features, ridge, weights, left, words, part):
    """One feature after the other: what it explains is given back, drawn again, and taken off."""
    noise, along = np.empty(_TOGETHER), np.empty(_TOGETHER, dtype=np.float32)
    sweep, purpose, key0, key1 = words
    # A feature's draws are those of its number; each part has blocks of its own.
    blocks = _TOGETHER // 4
    for i in range(features.start.size - 1):
        first, stop = features.start[i], features.start[i + 1]
        for a in range(_TOGETHER):
            along[a] = np.float32(0.0)
        squares = np.float32(0.0)
        for e in range(first, stop):
            row = features.row[e]
            value = features.value[row if features.is_of_row else e]
            squares += value * value
            add_scaled(along, value, left[row])
        for block in range(blocks):
            drawn = philox.compiled_philox(
                np.uint64(i), np.uint64(part * blocks + block), sweep, purpose, key0, key1
            )
            for k in range(4):
                noise[4 * block + k] = philox.uniform(drawn[k])
        precision = squares + ridge
        for a in range(_TOGETHER):
            mean = (along[a] + squares * weights[i, a]) / precision
            normal = np.float32(double.standard_normal(noise[a]))
            new = mean + normal / np.sqrt(precision)
            along[a] = weights[i, a] - new
            weights[i, a] = new
        for e in range(first, stop):
            row = features.row[e]
            add_scaled(left[row], features.value[row if features.is_of_row else e], along)


@compiled
def add_lines(start, stop, row_start, column, table, found):
    """Sums of the lines of a table that stand in each row's columns."""
    for d in range(start, stop):
        _add_lines_of_row(column[row_start[d] : row_start[d + 1]], table, found[d])


@inlined_sum
def _add_lines_of_row(column, table, total):
    for a in range(total.size):
        total[a] = np.float32(0.0)
    last = column.size - column.size % 4
    for e in range(0, last, 4):
        x, y, z, w = (table[column[e]], table[column[e + 1]], table[column[e + 2]], table[column[e + 3]])
        for a in range(total.size):
            total[a] += x[a] + y[a] + z[a] + w[a]
    for e in range(last, column.size):
        x = table[column[e]]
        for a in range(total.size):
            total[a] += x[a]

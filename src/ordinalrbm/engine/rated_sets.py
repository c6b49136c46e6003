"""Who rated what as a feature, whatever the ratings: products with it, and draws of its weights.

A row's feature vector has 1/√(n + 10) for each of the n columns that it has rated: nearly of length
one (as in SVD++: Koren 2008), but shorter where a few ratings would explain themselves by their own
presence. The table is never made: all that is needed are sums over ratings.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import philox
from ordinalrbm.engine.normal import double
from ordinalrbm.engine.philox import Purpose, split_seed, stream
from ordinalrbm.engine.sums import add_scaled
from ordinalrbm.runtime.jit import compiled, inlined, inlined_sum

# Added to the number of ratings (see above).
FEW = 10.0
# Coordinates whose weights are drawn together, by one thread: so many numbers lie side by side.
_TOGETHER = 8


class RatedSets(NamedTuple):
    """Features of rows: the columns that they have rated."""

    answers: Observations
    transposed: Observations

    @classmethod
    def of(cls, answers: Observations) -> RatedSets:
        return cls(answers, answers.transpose())

    @property
    def n_features(self) -> int:
        return self.answers.n_columns

    @property
    def lengths(self) -> np.ndarray:
        """(rows,) float32, what each of a row's features is."""
        return (1.0 / np.sqrt(self.answers.row_counts + FEW)).astype(np.float32)

    def times(self, weights: np.ndarray) -> np.ndarray:
        """(rows, W): features times the weights of each, (features, W)."""
        found = np.empty((self.answers.n_rows, weights.shape[1]), dtype=np.float32)
        table = np.ascontiguousarray(weights, dtype=np.float32)
        add_lines(self.answers.row_start, self.answers.column, table, found)
        return self.lengths[:, None] * found

    def draw_weights(
        self, weights: np.ndarray, left: np.ndarray, ridge: float, seed: int, sweep: int, kind: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw the weights of one feature after the other, given those of all others.

        Parameters
        ----------
        weights : (features, W), each with a Gaussian prior of precision ``ridge``
        left : (rows, W), what features do not explain so far, with independent noise of variance 1
        seed, sweep, kind : which draws these are

        Returns
        -------
        weights, left : both after the draws
        """
        n_parts = -(-weights.shape[1] // _TOGETHER)
        parts, of_rows = _in_parts(weights, n_parts), _in_parts(left, n_parts)
        words = (np.uint64(sweep), np.uint64(stream(Purpose.WEIGHT, kind)), *split_seed(seed))
        _draw_weights(
            self.transposed.row_start, self.transposed.column, self.lengths, np.float32(ridge),
            parts, of_rows, words,
        )  # fmt: skip
        width = weights.shape[1]
        return _in_lines(parts, width), _in_lines(of_rows, width)


def _in_parts(table: np.ndarray, n_parts: int) -> np.ndarray:
    """(parts, lines, 8): the columns of a table, eight by eight, the last filled up with zeros."""
    padded = np.zeros((len(table), n_parts * _TOGETHER), dtype=np.float32)
    padded[:, : table.shape[1]] = table
    return np.ascontiguousarray(padded.reshape(len(table), n_parts, _TOGETHER).transpose(1, 0, 2))


def _in_lines(parts: np.ndarray, width: int) -> np.ndarray:
    n_parts, n_lines, together = parts.shape
    return parts.transpose(1, 0, 2).reshape(n_lines, n_parts * together)[:, :width].copy()


@compiled(parallel=True)
def _draw_weights(row_start, column, lengths, ridge, parts, of_rows, words):
    for part in prange(len(parts)):
        _draw_part(
            row_start, column, lengths, ridge, parts[part], of_rows[part], words, np.int64(part)
        )


@inlined
def _draw_part(row_start, column, lengths, ridge, weights, left, words, part):
    """One feature after the other: what it explains is given back, drawn anew, and taken again."""
    noise, along = np.empty(_TOGETHER), np.empty(_TOGETHER, dtype=np.float32)
    sweep, purpose, key0, key1 = words
    # A feature's draws are those of its number; each part has blocks of its own.
    blocks = _TOGETHER // 4
    for i in range(row_start.size - 1):
        rows = column[row_start[i] : row_start[i + 1]]
        for a in range(_TOGETHER):
            along[a] = np.float32(0.0)
        squares = np.float32(0.0)
        for e in range(rows.size):
            squares += lengths[rows[e]] * lengths[rows[e]]
            add_scaled(along, lengths[rows[e]], left[rows[e]])
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
        for e in range(rows.size):
            add_scaled(left[rows[e]], lengths[rows[e]], along)


@compiled(parallel=True)
def add_lines(row_start, column, table, found):
    for d in prange(row_start.size - 1):
        _add_lines_of_row(column[row_start[d] : row_start[d + 1]], table, found[d])


@inlined_sum
def _add_lines_of_row(column, table, total):
    for a in range(total.size):
        total[a] = np.float32(0.0)
    last = column.size - column.size % 4
    for e in range(0, last, 4):
        x, y, z, w = (
            table[column[e]], table[column[e + 1]], table[column[e + 2]], table[column[e + 3]],
        )  # fmt: skip
        for a in range(total.size):
            total[a] += x[a] + y[a] + z[a] + w[a]
    for e in range(last, column.size):
        x = table[column[e]]
        for a in range(total.size):
            total[a] += x[a]

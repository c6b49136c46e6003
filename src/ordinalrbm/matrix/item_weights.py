"""What a row chooses, from what it has chosen: weights between columns, in closed form.

A score of a column is a sum over the columns that the row has chosen, h · B, where h says how much
each of them counts. B is a ridge regression, and of each of its lines only the largest weights are
kept. Only the columns with most answers take part, so that memory is bounded: for the normal
equations of `MOST_COLUMNS` columns 64 MB here, eight times as much in
:mod:`ordinalrbm.matrix.sequence`; what is kept takes 4 bytes per weight in files.

Here every chosen column counts as one, and no column may predict itself (EASE: Steck 2019).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from scipy.linalg import lapack
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Observations, starts
from ordinalrbm.runtime.blocks import blocks
from ordinalrbm.runtime.jit import compiled, inlined
from ordinalrbm.storage.reader import Stored

MOST_COLUMNS = 4096
MOST_WEIGHTS = 256  # of a line
_LARGEST_WEIGHT = 100.0
_LEAST_SHARE = np.float32(1e-3)  # of an answer that counts
_ALL_ALIKE = np.ones((1, 1), dtype=np.float32)


class Past(NamedTuple):
    """What rows have chosen, and how many they have chosen since, if that is known."""

    answers: Observations
    age: np.ndarray | None


class ItemWeights(NamedTuple):
    """Weights from columns to columns, for each way in which what was chosen counts."""

    columns: np.ndarray  # (m,) int32, those that take part, ascending
    # (H, A) float32, what an answer counts by how many came after it; beyond, what the last says.
    fading: np.ndarray
    target: np.ndarray  # (H m, W) int32, columns
    weight: np.ndarray  # (H m, W) float32
    place: np.ndarray  # (n,) int32, of each of the first n columns among those that take part, or −1

    @classmethod
    def of(
        cls, columns: np.ndarray, fading: np.ndarray, dense: np.ndarray, most: int = MOST_WEIGHTS
    ) -> ItemWeights:
        """The largest of each line of weights, (H m, m), rounded as files have them."""
        width = min(most, len(columns))
        target = np.empty((len(dense), width), dtype=np.int32)
        weight = np.empty((len(dense), width), dtype=np.float32)
        for some in blocks(len(dense), len(columns)):
            largest = np.argpartition(-np.abs(dense[some]), width - 1, axis=1)[:, :width]
            target[some] = np.sort(largest, axis=1)
            weight[some] = np.take_along_axis(dense[some], target[some].astype(np.intp), axis=1)
        return cls._with_places(columns.astype(np.int32), fading, target, weight.astype(np.float16))

    @classmethod
    def _with_places(
        cls, columns: np.ndarray, fading: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> ItemWeights:
        place = places(columns, int(columns.max(initial=-1)) + 1)
        return cls(columns, fading, columns[target], weight.astype(np.float32), place)

    @classmethod
    def from_stored(cls, stored: Stored, n_columns: int) -> ItemWeights:
        columns = stored.checked_array("columns", np.int32, (None,), 0, n_columns - 1)
        fading = stored.checked_array("fading", np.float32, (None, None), 0.0, 1.0)
        lines = len(fading) * len(columns)
        target = stored.checked_array("target", np.uint16, (lines, None), 0, max(len(columns) - 1, 0))
        bounds = -_LARGEST_WEIGHT, _LARGEST_WEIGHT
        weight = stored.checked_array("weight", np.float16, target.shape, *bounds)
        return cls._with_places(columns, fading, target, weight)

    def to_arrays(self) -> dict[str, np.ndarray]:
        target, weight = self.place[self.target].astype(np.uint16), self.weight.astype(np.float16)
        return {"columns": self.columns, "fading": self.fading, "target": target, "weight": weight}

    def scores(self, past: Past, rows: np.ndarray) -> np.ndarray:
        """(rows, columns) float32, of these rows of the past; columns that take no part have zero."""
        answers = past.answers
        age = np.zeros(0, dtype=np.uint16) if past.age is None else past.age
        found = np.zeros((rows.size, answers.n_columns), dtype=np.float32)
        _add_weights(rows, answers.row_start, answers.column, age, *self[1:], found)
        return found


def frequent(answers: Observations) -> np.ndarray:
    """The columns with most answers, as many as may take part, ascending."""
    counts = answers.column_counts
    most = np.argsort(-counts, kind="stable")[:MOST_COLUMNS]
    return np.sort(most[counts[most] > 0])


def places(columns: np.ndarray, n_columns: int) -> np.ndarray:
    """(n_columns,) int32: where each is among the columns, −1 if it is not."""
    found = np.full(n_columns, -1, dtype=np.int32)
    found[columns] = np.arange(columns.size)
    return found


def gram_of(answers: Observations, columns: np.ndarray) -> np.ndarray:
    """(m, m) float32: how many rows have chosen both of two columns."""
    place = places(columns, answers.n_columns)[answers.column]
    there = place >= 0
    start = starts(np.bincount(answers.cells().row[there], minlength=answers.n_rows))
    ones = np.ones(int(there.sum()), dtype=np.float32)
    chosen = csr_array((ones, place[there], start), shape=(answers.n_rows, columns.size))
    return (chosen.T @ chosen).toarray()


def neighbours(gram: np.ndarray, columns: np.ndarray, ridge: float) -> ItemWeights:
    """Weights by which what was chosen tells what else was; ``ridge`` in means of the diagonal."""
    system = gram + ridge * np.diag(gram).mean() * np.eye(len(gram), dtype=np.float32)
    factor, _ = lapack.spotrf(system, lower=True, overwrite_a=True)
    lower, _ = lapack.spotri(factor, lower=True, overwrite_c=True)
    inverse = np.tril(lower) + np.tril(lower, -1).T
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return ItemWeights.of(columns, _ALL_ALIKE, weights)


# ---- kernels ----------------------------------------------------------------------------------


@compiled(parallel=True)
def _add_weights(rows, row_start, column, age, fading, target, weight, place, found):
    for r in prange(rows.size):
        d = rows[r]
        if 0 <= d < row_start.size - 1:
            own = slice(row_start[d], row_start[d + 1])
            _add_weights_of_row(column[own], age[own], fading, target, weight, place, found[r])


@inlined
def _add_weights_of_row(column, age, fading, target, weight, place, found):
    chosen = in_order(column, age, place)
    last, n_columns = fading.shape[1] - 1, len(target) // len(fading)
    for k in range(chosen.size):
        since = min(chosen.size - 1 - k, last)
        for h in range(fading.shape[0]):
            share, line = fading[h, since], h * n_columns + chosen[k]
            if share < _LEAST_SHARE:
                continue
            for w in range(target.shape[1]):
                found[target[line, w]] += share * weight[line, w]


@inlined
def in_order(column, age, place):
    """Places of the columns that take part, from the first that was chosen to the last.

    Those of one time are in an order that looks like chance, the same each time.
    """
    key, found, n = np.empty(column.size, dtype=np.int64), np.empty(column.size, dtype=np.int32), 0
    for e in range(column.size):
        i = column[e]
        if i < place.size and place[i] >= 0:
            since = np.int64(age[e]) if age.size else np.int64(0)
            key[n] = ((65535 - since) << 32) | ((np.int64(i) * 2654435761) & 0xFFFFFFFF)
            found[n] = place[i]
            n += 1
    return found[:n][np.argsort(key[:n])]

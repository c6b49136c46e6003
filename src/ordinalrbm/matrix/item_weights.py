"""What a row chooses, from what it has chosen: weights between columns, in closed form.

A score of a column is a sum over the columns that the row has chosen, h · B, where h says how much
each of them counts. B is a ridge regression, and of each of its lines only the largest weights are
kept. Only the columns with most answers take part, so that memory is bounded: for the normal
equations of `MOST_COLUMNS` columns 64 MB here, eight times as much in
:mod:`ordinalrbm.matrix.sequence`; what is kept takes 4 bytes per weight in files.

Here every chosen column counts as one, or every one that is liked, and no column may predict itself
(EASE: Steck 2019).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Observations, sort_together, starts
from ordinalrbm.runtime.blocks import blocks, over_rows
from ordinalrbm.runtime.jit import allocating_function, compiled, inlined
from ordinalrbm.storage.reader import Stored

MOST_COLUMNS = 4096
MOST_WEIGHTS = 256  # of a line
_LARGEST_WEIGHT = 100.0
_LEAST_SHARE = np.float32(1e-3)  # of an answer that counts
_ALL_ALIKE = np.ones((1, 1), dtype=np.float32)
_NO_AGES = np.zeros(0, dtype=np.uint16)


class Past(NamedTuple):
    """What rows have chosen, and how many they have chosen since, if that is known."""

    answers: Observations
    age: np.ndarray | None

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        age = _NO_AGES if self.age is None else self.age
        return self.answers.row_start, self.answers.column, self.answers.level, age


class ItemWeights(NamedTuple):
    """Weights from columns to columns, for each way in which what was chosen counts."""

    columns: np.ndarray  # (m,) int32, those that take part, ascending
    lowest: np.ndarray  # (m,) int16, the level from which on an answer counts
    # (H, A) float32, the weight of an answer after which k others came, by k; from A on, the last one.
    fading: np.ndarray
    target: np.ndarray  # (H m, W) int32, columns
    weight: np.ndarray  # (H m, W) float32
    place: np.ndarray  # (n,) int32, of each of the first n columns among those that take part, or −1

    @classmethod
    def of(
        cls,
        columns: np.ndarray,
        fading: np.ndarray,
        dense: np.ndarray,
        most: int = MOST_WEIGHTS,
        lowest: np.ndarray | None = None,
    ) -> ItemWeights:
        """The largest of each line of weights, (H m, m), rounded as files have them."""
        if lowest is None:
            lowest = np.zeros(columns.size, dtype=np.int16)
        width = min(most, len(columns))
        target = np.empty((len(dense), width), dtype=np.int32)
        weight = np.empty((len(dense), width), dtype=np.float32)
        for some in blocks(len(dense), len(columns)):
            largest = np.argpartition(-np.abs(dense[some]), width - 1, axis=1)[:, :width]
            target[some] = np.sort(largest, axis=1)
            weight[some] = np.take_along_axis(dense[some], target[some].astype(np.intp), axis=1)
        return cls._with_places(columns.astype(np.int32), lowest, fading, target, weight.astype(np.float16))

    @classmethod
    def _with_places(
        cls,
        columns: np.ndarray,
        lowest: np.ndarray,
        fading: np.ndarray,
        target: np.ndarray,
        weight: np.ndarray,
    ) -> ItemWeights:
        place = places(columns, int(columns.max(initial=-1)) + 1)
        return cls(columns, lowest, fading, columns[target], weight.astype(np.float32), place)

    def taken(self, which: np.ndarray) -> ItemWeights | None:
        """Of some columns; nothing goes to those left out. None where none of them takes part."""
        position = places(which, int(max(which.max(), self.columns.max(initial=0))) + 1)
        stays = position[self.columns] >= 0
        if not stays.any():
            return None
        lines = np.tile(stays, len(self.fading))
        target, columns = position[self.target[lines]], position[self.columns[stays]]
        weight = np.where(target >= 0, self.weight[lines], np.float32(0.0))
        target = np.where(target >= 0, target, columns[0])
        own = places(columns, int(columns.max()) + 1)
        return ItemWeights(columns, self.lowest[stays], self.fading, target.astype(np.int32), weight, own)

    @classmethod
    def from_stored(cls, stored: Stored, n_columns: int) -> ItemWeights:
        columns = stored.checked_array("columns", np.int32, (None,), 0, n_columns - 1)
        lowest = stored.checked_array("lowest", np.int16, columns.shape, 0, np.iinfo(np.int16).max)
        fading = stored.checked_array("fading", np.float32, (None, None), 0.0, 1.0)
        lines = len(fading) * len(columns)
        target = stored.checked_array("target", np.uint16, (lines, None), 0, max(len(columns) - 1, 0))
        bounds = -_LARGEST_WEIGHT, _LARGEST_WEIGHT
        weight = stored.checked_array("weight", np.float16, target.shape, *bounds)
        return cls._with_places(columns, lowest, fading, target, weight)

    def to_arrays(self) -> dict[str, np.ndarray]:
        target, weight = self.place[self.target].astype(np.uint16), self.weight.astype(np.float16)
        same = {"columns": self.columns, "lowest": self.lowest, "fading": self.fading}
        return {**same, "target": target, "weight": weight}

    def scores(self, past: Past, rows: np.ndarray) -> np.ndarray:
        """(rows, columns) float32, of these rows of the past; columns that take no part have zero."""
        found = np.zeros((rows.size, past.answers.n_columns), dtype=np.float32)
        over_rows(_add_weights, rows.size, rows, past.arrays(), self, found)
        return found


NO_WEIGHTS = ItemWeights(
    np.zeros(0, dtype=np.int32),
    np.zeros(0, dtype=np.int16),
    _ALL_ALIKE,
    np.zeros((0, 0), dtype=np.int32),
    np.zeros((0, 0), dtype=np.float32),
    np.zeros(0, dtype=np.int32),
)


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


def chosen_of(answers: Observations, columns: np.ndarray) -> csr_array:
    """(rows, m) float32: one where a row has chosen a column."""
    place = places(columns, answers.n_columns)[answers.column]
    there = place >= 0
    start = starts(np.bincount(answers.cells().row[there], minlength=answers.n_rows))
    ones = np.ones(int(there.sum()), dtype=np.float32)
    return csr_array((ones, place[there], start), shape=(answers.n_rows, columns.size))


def gram_of(chosen: csr_array) -> np.ndarray:
    """(m, m) float32: how many rows have chosen both of two columns."""
    return (chosen.T @ chosen).toarray()


def neighbours(gram: np.ndarray, columns: np.ndarray, ridge: float, lowest: np.ndarray) -> ItemWeights:
    return ItemWeights.of(columns, _ALL_ALIKE, between(gram, ridge), lowest=lowest)


def between(gram: np.ndarray, ridge: float) -> np.ndarray:
    """(m, m), by which what was chosen tells what else was; ``ridge`` in means of the diagonal."""
    system = gram.copy().T  # the same, and in the order that LAPACK has
    system[np.diag_indices_from(system)] += ridge * np.diag(gram).mean()
    factor, _ = lapack.spotrf(system, lower=True, overwrite_a=True)  # zeros above
    half, _ = lapack.spotri(factor, lower=True, overwrite_c=True)
    weights = (half + half.T) / -np.diag(half)
    np.fill_diagonal(weights, 0.0)
    return weights


# ---- kernels ----------------------------------------------------------------------------------


@compiled
def _add_weights(start, stop, rows, past, weights, found):
    for r in range(start, stop):
        add_weights_of_row(past, rows[r], weights, found[r])


@allocating_function
def add_weights_of_row(past, d, weights, found):
    row_start, column, level, age = past
    if not 0 <= d < row_start.size - 1:
        return
    own, fading = slice(row_start[d], row_start[d + 1]), weights.fading
    chosen = in_order(column[own], level[own], age[own], weights.place, weights.lowest, fading.size > 1)
    last, n_columns = fading.shape[1] - 1, len(weights.target) // len(fading)
    for k in range(chosen.size):
        since = min(chosen.size - 1 - k, last)
        for h in range(fading.shape[0]):
            if fading[h, since] >= _LEAST_SHARE:
                line = h * n_columns + chosen[k]
                _add_line(fading[h, since], weights.target[line], weights.weight[line], found)


@inlined
def _add_line(share, target, weight, found):
    for w in range(target.size):
        found[np.uint32(target[w])] += share * weight[w]  # an index without a sign is quicker


@allocating_function
def in_order(column, level, age, place, lowest, is_sorted):
    """Places of the columns that take part and count, from the first that was chosen to the last.

    Those of one time are in an order that looks like chance, the same each time. If they need not be
    sorted, they are in the order of columns.
    """
    key, found, n = np.empty(column.size, dtype=np.int64), np.empty(column.size, dtype=np.int32), 0
    for e in range(column.size):
        i = column[e]
        if i < place.size and place[i] >= 0 and level[e] >= lowest[place[i]]:
            since = np.int64(age[e]) if age.size else np.int64(0)
            key[n] = ((65535 - since) << 32) | ((np.int64(i) * 2654435761) & 0xFFFFFFFF)
            found[n] = place[i]
            n += 1
    if is_sorted:
        sort_together(key[:n], found[:n])
    return found[:n]

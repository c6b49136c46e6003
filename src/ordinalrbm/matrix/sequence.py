"""What a row chooses next, from what it has chosen lately.

At each of a row's choices stands what it had chosen before, as two histories h: the last 30, of
which the one that was chosen k before the last counts e^(−k/2), and the last 60, which count half
of e^(−k/25). Weights B from these to the column that came next are a ridge regression over all
choices of all rows, Bᵀ = (XᵀX + λ I)⁻¹ XᵀY, and scores of the next one are h · B.

The positions are never made: two columns that a row has chosen with others after them are in the
histories of all later choices together, and what that adds to XᵀX depends only on how far apart
they are and on how many choices come after; sums of it are in a table.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ordinalrbm.data.observations import starts
from ordinalrbm.matrix.item_weights import ItemWeights, Past, in_order, places
from ordinalrbm.runtime.blocks import MANY, each
from ordinalrbm.runtime.jit import allocating_kernel, compiled

_MOST_WEIGHTS = 1000  # of a line: small ones count, since a history is short
_LENGTHS, _DECAYS, _SHARES = (30, 60), (2.0, 25.0), (1.0, 0.5)


def _fading() -> np.ndarray:
    """(H, A + 1): what counts in each history, and nothing at the end."""
    found = np.zeros((len(_LENGTHS), max(_LENGTHS) + 1), dtype=np.float32)
    for own, length, decay, share in zip(found, _LENGTHS, _DECAYS, _SHARES, strict=True):
        own[:length] = share * np.exp(-np.arange(length) / decay)
    return found


FADING = _fading()


class NormalEquations:
    """XᵀX and XᵀY of all choices, for as many ridges as are to be tried."""

    def __init__(self, past: Past, columns: np.ndarray) -> None:
        assert past.age is not None, "of choices with times"
        self.columns, n = columns, columns.size
        place, answers = places(columns, past.answers.n_columns), past.answers
        counts = np.bincount(answers.cells().row[place[answers.column] >= 0], minlength=answers.n_rows)
        start = starts(counts)
        item = np.empty(start[-1], dtype=np.int32)
        every = np.zeros(n, dtype=np.int16)
        of_rows = answers.row_start, answers.column, answers.level, past.age
        _fill_in_order(*of_rows, place, every, start, item)
        blocks = len(FADING)
        self.gram = np.zeros((blocks * n, blocks * n), dtype=np.float32)
        self.cross = np.zeros((blocks * n, n), dtype=np.float32)

        def add(pair: tuple[int, int]) -> None:
            one, other = (slice(h * n, (h + 1) * n) for h in pair)
            if pair[0] == pair[1]:
                _add_cross(start, item, FADING[pair[0]], self.cross[one])
            tables = _joint(*(FADING[h].astype(np.float64) for h in pair))
            _add_gram(start, item, *tables, self.gram[one, other])
            if pair[0] < pair[1]:
                self.gram[other, one] = self.gram[one, other].T

        each(add, [(h, g) for h in range(blocks) for g in range(h, blocks)], MANY)

    def solved(self, ridge: float) -> ItemWeights:
        """Weights to what comes next; ``ridge`` in means of the diagonal of XᵀX."""
        system = self.gram.copy()
        system[np.diag_indices_from(system)] += ridge * max(float(np.diag(self.gram).mean()), 1e-6)
        factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        dense = cho_solve(factor, self.cross, check_finite=False)
        return ItemWeights.of(self.columns, FADING, dense, _MOST_WEIGHTS)


def _joint(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(A, A): what two choices add, d apart and with r more after both, to the product of histories.

    In the first table the earlier choice is in the first history, in the second in the other.
    """
    n = one.size
    found, after = np.zeros((2, n, n)), np.arange(1, n)
    for d in range(n):
        for table, early, late in zip(found, (one, other), (other, one), strict=True):
            total = np.cumsum(early[d:] * late[: n - d])
            table[d, 1:] = total[np.minimum(after, n - d) - 1]
    return found[0], found[1]


@allocating_kernel
def _fill_in_order(row_start, column, level, age, place, lowest, start, item):
    for d in range(row_start.size - 1):
        own = slice(row_start[d], row_start[d + 1])
        chosen = in_order(column[own], level[own], age[own], place, lowest, True)
        for k in range(chosen.size):
            item[start[d] + k] = chosen[k]


@compiled
def _add_cross(start, item, fading, cross):
    for d in range(start.size - 1):
        own = item[start[d] : start[d + 1]]
        for t in range(1, own.size):
            for i in range(max(0, t - fading.size), t):
                cross[own[i], own[t]] += fading[t - 1 - i]


@compiled
def _add_gram(start, item, earlier_first, later_first, gram):
    longest = earlier_first.shape[0]
    for d in range(start.size - 1):
        own = item[start[d] : start[d + 1]]
        for j in range(own.size - 1):
            more = min(own.size - 1 - j, longest - 1)
            gram[own[j], own[j]] += earlier_first[0, more]
            for i in range(max(0, j - longest + 1), j):
                gram[own[i], own[j]] += earlier_first[j - i, more]
                gram[own[j], own[i]] += later_first[j - i, more]

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
from ordinalrbm.runtime.jit import compiled

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
        _fill_in_order(answers.row_start, answers.column, past.age, place, start, item)
        blocks = len(FADING)
        # What a pair of columns adds to all blocks is in one place: finding it is what takes time.
        sums = np.zeros((n, n, blocks * (blocks + 1)), dtype=np.float32)
        _add_pairs(start, item, _joint(FADING.astype(np.float64)), FADING, sums)
        of_gram, of_cross = sums[..., : blocks**2].reshape(n, n, blocks, blocks), sums[..., blocks**2 :]
        self.cross = of_cross.transpose(2, 0, 1).reshape(blocks * n, n)
        self.gram = of_gram.transpose(2, 0, 3, 1).reshape(blocks * n, blocks * n)
        del sums, of_gram, of_cross
        self.gram += self.gram.T

    def solved(self, ridge: float) -> ItemWeights:
        """Weights to what comes next; ``ridge`` in means of the diagonal of XᵀX."""
        system = self.gram.copy()
        system[np.diag_indices_from(system)] += ridge * max(float(np.diag(self.gram).mean()), 1e-6)
        factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        dense = cho_solve(factor, self.cross, check_finite=False)
        return ItemWeights.of(self.columns, FADING, dense, _MOST_WEIGHTS)


def _joint(fading: np.ndarray) -> np.ndarray:
    """(A, A, H²): what two choices add, d apart and with r more after both, to products of histories.

    The earlier choice is in the first history of a pair, the later in the other. A choice and
    itself, d = 0, add half: both orders are summed in the end.
    """
    blocks, n = fading.shape
    found, after = np.zeros((n, n, blocks, blocks)), np.arange(1, n)
    for early, late in np.ndindex(blocks, blocks):
        for d in range(n):
            total = np.cumsum(fading[early, d:] * fading[late, : n - d])
            found[d, 1:, early, late] = total[np.minimum(after, n - d) - 1]
    found[0] /= 2.0
    return found.reshape(n, n, blocks**2)


@compiled()
def _fill_in_order(row_start, column, age, place, start, item):
    for d in range(row_start.size - 1):
        own = slice(row_start[d], row_start[d + 1])
        item[start[d] : start[d + 1]] = in_order(column[own], age[own], place)


@compiled()
def _add_pairs(start, item, joint, fading, sums):
    longest, n_joint, n_histories = joint.shape[0], joint.shape[2], fading.shape[0]
    for d in range(start.size - 1):
        own = item[start[d] : start[d + 1]]
        for j in range(own.size):
            more = min(own.size - 1 - j, longest - 1)
            for i in range(max(0, j - longest + 1), j + 1):
                found = sums[own[i], own[j]]
                for k in range(n_joint):
                    found[k] += joint[j - i, more, k]
                if i < j:
                    for h in range(n_histories):
                        found[n_joint + h] += fading[h, j - 1 - i]

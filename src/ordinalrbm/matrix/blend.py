"""Several scores of what a row chooses, made one by what was held out.

Parts s_k are products of factors (:mod:`ordinalrbm.matrix.implicit_als`), sums of weights between
columns (:mod:`ordinalrbm.matrix.item_weights`) that were chosen or that were liked, and the same of
what was chosen lately (:mod:`ordinalrbm.matrix.sequence`). A row that chooses one more column
chooses i with a probability

    p(i) ∝ Π_k (s_k(i) + ε_k)^w_k

among those that it has not chosen yet, where ε_k is a share of the mean of s_k and no s_k counts as
less than zero. The exponents w_k ≥ 0 have the greatest likelihood of choices that were held out (a
conditional logit: it has one maximum), at first among all columns, and then among the best of each
row, since lists show these. The choices that are held out are liked ones, and p times the share of
choices that are liked, of each column, is their probability. So a part that tells nothing has the
exponent zero, and p times the chance to be liked is the probability of a choice that is liked.

Of few choices weights tell little, and factors, drawn to those of the others, still most: with n
choices the logarithm of p is n² / (n² + 100) of the one above, and the rest of that of the factors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.normal import single
from ordinalrbm.engine.thresholds import dot
from ordinalrbm.matrix.item_weights import NO_WEIGHTS, ItemWeights, add_weights_of_row
from ordinalrbm.runtime.jit import allocating_function, inlined, kernel_function
from ordinalrbm.storage.reader import Stored

# ε_k as a share of the mean, and what the first exponents, 1 and 0, count beside held-out choices.
_LEAST = 0.3
_PRIOR = 5.0
_FEW = 10.0  # see above
_LARGEST_EXPONENT, _SMALLEST_LEAST = 20.0, 1e-9
_TOLERANCE = 1e-7  # of the loss, relative: differences of parts are far larger
# So that a score is a number of float32, whatever a file says.
_FURTHEST = 80.0
# What a column that nobody would choose counts beside one that surely would be chosen.
LEAST_DEMAND = np.float32(1e-3)
# Columns of a row that a list might show.
_AMONG = 100
_PARTS = ("neighbours", "liked", "sequence")


class Blend(NamedTuple):
    """Parts beside the factors, and how all of them count."""

    neighbours: ItemWeights | None
    liked: ItemWeights | None
    sequence: ItemWeights | None
    exponents: np.ndarray  # (4,) float64, of the factors and of these
    least: np.ndarray  # (4,) float64, ε

    @classmethod
    def from_stored(cls, stored: Stored, n_columns: int) -> Blend | None:
        if "exponents" not in stored:
            return None
        parts = (stored.under(f"{name}.") for name in _PARTS)
        near, liked, following = (
            ItemWeights.from_stored(part, n_columns) if "columns" in part else None for part in parts
        )
        return cls(
            near,
            liked,
            following,
            stored.checked_array("exponents", np.float64, (4,), 0.0, _LARGEST_EXPONENT),
            stored.checked_array("least", np.float64, (4,), _SMALLEST_LEAST, 1.0),
        )

    def taken(self, columns: np.ndarray) -> Blend:
        near, liked, following = (part and part.taken(columns) for part in self[:3])
        return self._replace(neighbours=near, liked=liked, sequence=following)

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"exponents": self.exponents, "least": self.least}
        for name, part in zip(_PARTS, self[:3], strict=True):
            if part is not None:
                arrays |= {f"{name}.{key}": array for key, array in part.to_arrays().items()}
        return arrays


# As kernels see it: factors of columns, and a blend; without exponents, factors tell alone.
DemandArrays = tuple[np.ndarray, ItemWeights, ItemWeights, ItemWeights, np.ndarray, np.ndarray]
_NOTHING = np.zeros(0)


def demand_arrays(columns: np.ndarray, blend: Blend | None) -> DemandArrays:
    if blend is None:
        return columns, NO_WEIGHTS, NO_WEIGHTS, NO_WEIGHTS, _NOTHING, _NOTHING
    near, liked, following = (part or NO_WEIGHTS for part in blend[:3])
    return columns, near, liked, following, blend.exponents, blend.least


def share_of(counts: np.ndarray) -> np.ndarray:
    """(rows, 1) float32, how far rows with so many choices are judged by all parts."""
    return (counts**2 / (counts**2 + _FEW**2)).astype(np.float32)[:, None]


def logarithms(scores: np.ndarray, least: float) -> np.ndarray:
    """Of scores, which are changed, and of what is added to each."""
    np.maximum(scores, np.float32(0.0), out=scores)
    scores += np.float32(least)
    return np.log(scores, out=scores)


def least_of(scores: np.ndarray) -> float:
    return float(np.clip(_LEAST * np.maximum(scores, 0.0).mean(dtype=np.float64), _SMALLEST_LEAST, 1.0))


class HeldOutChoices(NamedTuple):
    """Choices of some rows that were held out, and what these rows cannot choose any more."""

    rows: np.ndarray  # of the training answers
    row: np.ndarray  # of each choice, a place among the rows
    column: np.ndarray
    is_chosen: np.ndarray  # (rows, columns) before
    share: np.ndarray  # (rows, 1)
    liking: np.ndarray  # (columns,) logarithms of the share of choices that are liked

    @classmethod
    def of(cls, train: Observations, held: Cells, liking: np.ndarray) -> HeldOutChoices:
        rows, place = np.unique(held.row, return_inverse=True)
        is_chosen = train.take_rows(rows).to_dense() >= 0
        return cls(rows, place, held.column, is_chosen, share_of(train.row_counts[rows]), liking)

    def among_best(self, parts: list[np.ndarray], exponents: np.ndarray) -> np.ndarray:
        """Exponents by those choices that are among the best columns of their rows."""
        if parts[0].shape[1] <= _AMONG:
            return exponents
        total = self._total(parts, exponents)
        best = np.argpartition(-total, _AMONG, axis=1)[:, :_AMONG]
        is_it = best[self.row] == self.column[:, None]
        near = is_it.any(axis=1)
        own = [np.take_along_axis(part, best, axis=1) for part in (*parts, self.is_chosen)]
        choices = self._replace(
            row=self.row[near],
            column=is_it[near].argmax(axis=1),
            is_chosen=own.pop(),
            liking=self.liking[best],
        )
        return choices.exponents(own, exponents)[0]

    def gain(self, parts: list[np.ndarray], exponents: np.ndarray) -> float:
        """The mean of 1 / log2(1 + rank), or 0 for choices that are not among the best of their rows."""
        total = self._total(parts, exponents)
        own = total[self.row, self.column]
        rank = np.array([np.count_nonzero(total[d] > score) for d, score in zip(self.row, own, strict=True)])
        return float(np.where(rank < _AMONG, 1.0 / np.log2(rank + 2.0), 0.0).mean())

    def _total(self, parts: list[np.ndarray], exponents: np.ndarray) -> np.ndarray:
        fixed, weighted = self._weighted(parts)
        return sum((np.float32(e) * part for e, part in zip(exponents, weighted, strict=True)), fixed)

    def _weighted(self, parts: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """What exponents leave as it is, and what each of them multiplies; both sum to the total."""
        fixed = (np.float32(1.0) - self.share) * parts[0] + self.liking
        weighted = [self.share * part for part in parts]
        chosen = np.flatnonzero(self.is_chosen)
        fixed.ravel()[chosen] = -np.inf
        for part in weighted:
            part.ravel()[chosen] = 0.0
        return fixed, weighted

    def exponents(
        self, parts: list[np.ndarray], first: np.ndarray | None = None, start: np.ndarray | None = None
    ) -> tuple[np.ndarray, float]:
        """Of parts, (rows, columns) logarithms of scores, and the loss per choice with these.

        They are drawn to the ``first``, without which the first part counts as it is; they are
        found sooner with a ``start`` that is near.
        """
        counts, n = np.bincount(self.row, minlength=self.rows.size), max(self.row.size, 1)
        fixed, weighted = self._weighted(parts)
        given = np.array([part[self.row, self.column].sum(dtype=np.float64) for part in weighted])
        given_anyway = fixed[self.row, self.column].sum(dtype=np.float64)
        first = np.eye(len(parts))[0] if first is None else first
        total, term = np.empty_like(fixed), np.empty_like(fixed)

        def loss(exponents: np.ndarray) -> tuple[float, np.ndarray]:
            np.copyto(total, fixed)
            for exponent, part in zip(exponents, weighted, strict=True):
                np.add(total, np.multiply(part, np.float32(exponent), out=term), out=total)
            highest = total.max(axis=1, keepdims=True)
            likely = np.exp(np.subtract(total, highest, out=term), out=term)
            sums = likely.sum(axis=1, dtype=np.float64)
            likely *= (counts / sums).astype(np.float32)[:, None]
            expected = [np.vdot(likely, part) for part in weighted]
            away = exponents - first
            value = counts @ (highest[:, 0] + np.log(sums)) - given @ exponents - given_anyway
            slope = expected - given + _PRIOR * away
            return float(value + 0.5 * _PRIOR * away @ away) / n, slope / n

        bounds, tolerance = [(0.0, _LARGEST_EXPONENT)] * len(parts), {"ftol": _TOLERANCE}
        start = first if start is None else start
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=tolerance)
        return found.x, float(found.fun)


# ---- kernels ----------------------------------------------------------------------------------


@kernel_function
def set_demand(own, past, d, columns, neighbours, liked, sequence, exponents, least, total):
    """Scores of all columns for a row with these factors and the past of row d.

    Of a blend they are logarithms.
    """
    for i in range(total.size):
        total[i] = dot(own, columns[i])
    if not exponents.size:
        for i in range(total.size):
            total[i] = max(total[i], LEAST_DEMAND)
        return
    n = np.float64(past[0][d + 1] - past[0][d]) if 0 <= d < past[0].size - 1 else 0.0
    share = n * n / (n * n + _FEW * _FEW)
    _set_logarithms(share * exponents[0] + (1.0 - share), total, least[0], total, False)
    _add_part(past, d, neighbours, share * exponents[1], least[1], total)
    _add_part(past, d, liked, share * exponents[2], least[2], total)
    _add_part(past, d, sequence, share * exponents[3], least[3], total)
    for i in range(total.size):
        total[i] = min(max(total[i], np.float32(-_FURTHEST)), np.float32(_FURTHEST))


@allocating_function
def _add_part(past, d, weights, exponent, least, total):
    if weights.target.size and exponent > 0.0:
        sums = np.zeros_like(total)
        add_weights_of_row(past, d, weights, sums)
        _set_logarithms(exponent, sums, least, total, True)


@inlined
def _set_logarithms(exponent, scores, least, total, are_added):
    weight, more = np.float32(exponent), np.float32(least)
    for i in range(total.size):
        own = weight * single.log(max(scores[i], np.float32(0.0)) + more)
        total[i] = total[i] + own if are_added else own

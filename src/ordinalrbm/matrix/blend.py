"""Several scores of what a row chooses, made one by what was held out.

Parts s_k are products of factors (:mod:`ordinalrbm.matrix.implicit_als`), sums of weights between
columns (:mod:`ordinalrbm.matrix.item_weights`), and the same of what was chosen lately
(:mod:`ordinalrbm.matrix.sequence`). A row that chooses one more column chooses i with a probability

    p(i) ∝ Π_k (s_k(i) + ε_k)^w_k

among those that it has not chosen yet, where ε_k is a share of the mean of s_k and no s_k counts as
less than zero. The exponents w_k ≥ 0 have the greatest likelihood of choices that were held out (a
conditional logit: it has one maximum), at first among all columns, and then among the best of each
row, since lists show these. So a part that tells nothing has the exponent zero, and p times the
chance to be liked is the probability of a choice that is liked.

Of few choices weights tell little, and factors, drawn to those of the others, still most: with n
choices the logarithm of p is n² / (n² + 100) of the one above, and the rest of that of the factors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix.item_weights import ItemWeights, Past
from ordinalrbm.storage.reader import Stored

# ε_k as a share of the mean, and what the first exponents, 1 and 0, count beside held-out choices.
_LEAST = 0.3
_PRIOR = 5.0
_FEW = 10.0  # see above
_LARGEST_EXPONENT, _SMALLEST_LEAST = 20.0, 1e-9
_TOLERANCE = 1e-7  # of the loss, relative: differences of parts are far larger
# So that a score is a number of float32, whatever a file says.
_FURTHEST = 80.0
# Scores of held-out choices that are compared, and columns of a row that a list might show.
_SCORES, _FEWEST_ROWS = 2**22, 200
_AMONG = 100
_PARTS = ("neighbours", "sequence")


class Blend(NamedTuple):
    """Parts beside the factors, and how all of them count."""

    neighbours: ItemWeights | None
    sequence: ItemWeights | None
    exponents: np.ndarray  # (3,) float64, of the factors and of these
    least: np.ndarray  # (3,) float64, ε

    @classmethod
    def from_stored(cls, stored: Stored, n_columns: int) -> Blend | None:
        if "exponents" not in stored:
            return None
        near, following = (stored.under(f"{name}.") for name in _PARTS)
        return cls(
            ItemWeights.from_stored(near, n_columns) if "columns" in near else None,
            ItemWeights.from_stored(following, n_columns) if "columns" in following else None,
            stored.checked_array("exponents", np.float64, (3,), 0.0, _LARGEST_EXPONENT),
            stored.checked_array("least", np.float64, (3,), _SMALLEST_LEAST, 1.0),
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"exponents": self.exponents, "least": self.least}
        for name, part in zip(_PARTS, self[:2], strict=True):
            if part is not None:
                arrays |= {f"{name}.{key}": array for key, array in part.to_arrays().items()}
        return arrays

    def scores(self, products: np.ndarray, past: Past, rows: np.ndarray) -> np.ndarray:
        """(rows, columns) float32, given products of factors, which are changed."""
        share = share_of(past.answers.row_counts[rows])
        total = logarithms(products, self.least[0])
        total *= share * np.float32(self.exponents[0]) + (np.float32(1.0) - share)
        for k, part in enumerate(self[:2], 1):
            if part is not None:
                own = logarithms(part.scores(past, rows), self.least[k])
                own *= share * np.float32(self.exponents[k])
                total += own
        np.clip(total, -_FURTHEST, _FURTHEST, out=total)
        return np.exp(total, out=total)


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

    @classmethod
    def of(cls, train: Observations, held: Cells, rng: np.random.Generator) -> HeldOutChoices:
        """Of so many rows, at random, that their scores are not too many."""
        rows = rng.permutation(np.unique(held.row))[: max(_FEWEST_ROWS, _SCORES // train.n_columns)]
        place = np.full(train.n_rows, -1)
        place[rows] = np.arange(rows.size)
        there = place[held.row] >= 0
        is_chosen = train.take_rows(rows).to_dense() >= 0
        share = share_of(train.row_counts[rows])
        return cls(rows, place[held.row[there]], held.column[there], is_chosen, share)

    def among_best(self, parts: list[np.ndarray], exponents: np.ndarray) -> np.ndarray:
        """Exponents by those choices that are among the best columns of their rows."""
        if parts[0].shape[1] <= _AMONG:
            return exponents
        total = self._total(parts, exponents)
        best = np.argpartition(-total, _AMONG, axis=1)[:, :_AMONG]
        is_it = best[self.row] == self.column[:, None]
        near = is_it.any(axis=1)
        own = [np.take_along_axis(part, best, axis=1) for part in (*parts, self.is_chosen)]
        choices = self._replace(row=self.row[near], column=is_it[near].argmax(axis=1), is_chosen=own.pop())
        return choices.exponents(own, exponents)[0]

    def gains(self, parts: list[np.ndarray], exponents: np.ndarray) -> np.ndarray:
        """(choices,) 1 / log2(1 + rank), or 0 for those that are not among the best of their rows."""
        total = self._total(parts, exponents)
        own = total[self.row, self.column]
        rank = np.array([np.count_nonzero(total[d] > score) for d, score in zip(self.row, own, strict=True)])
        return np.where(rank < _AMONG, 1.0 / np.log2(rank + 2.0), 0.0)

    def _total(self, parts: list[np.ndarray], exponents: np.ndarray) -> np.ndarray:
        fixed, weighted = self._weighted(parts)
        return sum((np.float32(e) * part for e, part in zip(exponents, weighted, strict=True)), fixed)

    def _weighted(self, parts: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """What exponents leave as it is, and what each of them multiplies; both sum to the total."""
        fixed, weighted = (np.float32(1.0) - self.share) * parts[0], [self.share * part for part in parts]
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

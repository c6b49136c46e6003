"""Missing answers drawn from a normal distribution of the utilities behind all answers of a row.

An answer on a scale says between which thresholds a utility lies, a category which of its utilities is
largest; a number is its own utility. Utilities are jointly normal, with means linear in covariates. A
Gibbs sampler draws utilities given the answers, thresholds, and means and covariance of the utilities in
turn (Albert and Chib 1993), so that each imputation has parameters of its own, from their posterior.
They are not shrunk: the prior of the covariance counts as one row, and makes all correlations equally
likely (Barnard, McCulloch and Meng 2000).

Two thresholds of a scale are fixed, and give its utility a unit (Jeliazkov, Graves and Kutzbach 2008).
The others move with the utilities integrated out (Cowles 1996). Where answers tell no unit, as those of
yes or no and categories, it is drawn from its prior before each draw of the covariance, and forgotten
afterwards (Talhouk, Doucet and Murphy 2012).
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import linalg
from scipy.special import ndtr, ndtri

# Precision of the prior on effects of covariates: so much of a row without any effect. Else a group of
# two who both chose the highest level would have none.
_COVARIATE_ROWS = 0.25
# Shares of the answers below the two thresholds that are fixed, about: those that answers tell most of.
_FIXED = (0.3, 0.7)
# The best step of a random walk in one dimension, in standard deviations (Gelman, Roberts and Gilks 1996).
_STEP = 2.4
_SMALLEST_PROBABILITY = 1e-300


class Number:
    """A column of numbers, NaN where missing."""

    width, has_unit = 1, True

    def __init__(self, value: np.ndarray) -> None:
        gap = np.isnan(value)
        self.low, self.high = np.where(gap, -np.inf, value), np.where(gap, np.inf, value)

    def bounds(self, _utilities: np.ndarray, _k: int) -> tuple[np.ndarray, np.ndarray]:
        return self.low, self.high

    def move(self, mean: np.ndarray, deviation: float, weight: np.ndarray, rng: np.random.Generator) -> None:
        """Draw thresholds, of which a number has none."""

    def answers(self, utilities: np.ndarray) -> np.ndarray:
        return utilities[0]


class Scale(Number):
    """A column of levels, negative where missing. Levels that nobody chose are left out."""

    def __init__(self, level: np.ndarray) -> None:
        self.levels, code = np.unique(level[level >= 0], return_inverse=True)
        self.code = np.full(level.size, -1)  # -1 is also the last place, where all bounds are infinite
        self.code[level >= 0] = code
        counts = np.bincount(code).astype(np.float64)
        upto = np.cumsum(counts)[:-1] / counts.sum()
        self.thresholds = ndtri(upto) if upto.size > 1 else np.zeros(upto.size)
        self.has_unit = upto.size > 1
        self.moves = np.full(upto.size, self.has_unit)
        if self.has_unit:
            first = int(np.abs(upto[:-1] - _FIXED[0]).argmin())
            self.moves[[first, first + 1 + int(np.abs(upto[first + 1 :] - _FIXED[1]).argmin())]] = False
        # By the information of the answers at the two levels about the threshold between them.
        density = np.exp(-0.5 * self.thresholds**2) / np.sqrt(2.0 * np.pi)
        self.step = _STEP / density / np.sqrt(counts.sum() ** 2 * (1.0 / counts[1:] + 1.0 / counts[:-1]))

    def _bounds(self, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low, high = np.append(-np.inf, thresholds), np.append(thresholds, np.inf)
        return np.append(low, -np.inf)[self.code], np.append(high, np.inf)[self.code]

    def bounds(self, _utilities: np.ndarray, _k: int) -> tuple[np.ndarray, np.ndarray]:
        return self._bounds(self.thresholds)

    def move(self, mean: np.ndarray, deviation: float, weight: np.ndarray, rng: np.random.Generator) -> None:
        for parity in (0, 1):
            chosen = np.flatnonzero(self.moves)[parity::2]
            if not chosen.size:
                continue
            new = self.thresholds.copy()
            new[chosen] += self.step[chosen] * rng.standard_normal(chosen.size)
            before, after = (self._log_chance(each, mean, deviation) for each in (self.thresholds, new))
            gain = np.bincount(self.code + 1, weight * (after - before), new.size + 2)[1:]
            better = gain[chosen] + gain[chosen + 1] > np.log(rng.random(chosen.size))
            edges = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
            taken = chosen[better & (edges[chosen] < new[chosen]) & (new[chosen] < edges[chosen + 2])]
            self.thresholds[taken] = new[taken]

    def _log_chance(self, thresholds: np.ndarray, mean: np.ndarray, deviation: float) -> np.ndarray:
        low, high = ((bound - mean) / deviation for bound in self._bounds(thresholds))
        upper = low > 0.0  # there, digits are in the other tail
        share = ndtr(np.where(upper, -low, high)) - ndtr(np.where(upper, -high, low))
        return np.log(np.maximum(share, _SMALLEST_PROBABILITY))

    def answers(self, utilities: np.ndarray) -> np.ndarray:
        return self.levels[np.searchsorted(self.thresholds, utilities[0])]


class Categories(Scale):
    """A column of categories, negative where missing; the utility of the last one is zero."""

    def __init__(self, level: np.ndarray) -> None:
        super().__init__(level)
        self.width, self.has_unit = max(self.levels.size - 1, 1), False
        self.moves = np.zeros(0, dtype=bool)

    def bounds(self, utilities: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        best = np.delete(utilities, k, axis=0).max(axis=0, initial=0.0)
        low = np.where(self.code == k, best, -np.inf)
        return low, np.where((self.code == k) | (self.code < 0), np.inf, best)

    def answers(self, utilities: np.ndarray) -> np.ndarray:
        whole = np.vstack([utilities, np.zeros(utilities.shape[1])])[-self.levels.size :]
        return self.levels[whole.argmax(axis=0)]


class LatentNormal:
    """The sampler's state: means of the utilities, how far these are from them, and their precision.

    The first two are (columns, rows). Rows count by their weight for the parameters.
    """

    def __init__(
        self, questions: Sequence[Number], covariates: np.ndarray, weight: np.ndarray, seed: int
    ) -> None:
        self.questions, self.weight, self.rng = questions, weight, np.random.default_rng(seed)
        first = np.cumsum([0, *(question.width for question in questions)])
        self.columns = [slice(a, b) for a, b in pairwise(first.tolist())]
        self.mean, self.away = np.zeros((2, first[-1], weight.size))
        self.precision = np.eye(first[-1])
        self.design = np.vstack([np.ones(weight.size), covariates.T.astype(np.float64)])
        # Of the intercept it is zero.
        prior = np.diag(np.repeat([0.0, _COVARIATE_ROWS], [1, len(self.design) - 1]))
        # Columns of the design may be a sum of others: all groups, say.
        self.root = linalg.cholesky((self.design * weight) @ self.design.T + prior, lower=True)

    def sweep(self) -> None:
        for question, columns in zip(self.questions, self.columns, strict=True):
            for k in range(columns.start, columns.stop):
                self._draw_utilities(question, columns, k)
        self._draw_parameters()

    def _draw_utilities(self, question: Number, columns: slice, k: int) -> None:
        deviation = 1.0 / np.sqrt(self.precision[k, k])
        given_others = self.away[k] - self.precision[k] @ self.away * deviation**2 + self.mean[k]
        question.move(given_others, deviation, self.weight, self.rng)
        bounds = question.bounds(self.mean[columns] + self.away[columns], k - columns.start)
        low, high = ((bound - given_others) / deviation for bound in bounds)
        noise = _between(low, high, self.rng.random(given_others.size))
        self.away[k] = given_others + deviation * noise - self.mean[k]

    def _draw_parameters(self) -> None:
        n_columns, freedom = len(self.mean), len(self.mean) + 1.0
        unit = np.ones(n_columns)
        without_unit = [c for q, c in zip(self.questions, self.columns, strict=True) if not q.has_unit]
        for own in without_unit:
            width = own.stop - own.start
            unit[own] = np.sqrt(np.diag(self.precision)[own].sum() / self.rng.chisquare(freedom * width))
        utilities = (self.mean + self.away) * unit[:, None]
        cross = (self.design * self.weight) @ utilities.T
        effects = linalg.cho_solve((self.root, True), cross)
        squares = (utilities * self.weight) @ utilities.T - cross.T @ effects + np.eye(n_columns)
        half = self._root_of_wishart(squares, freedom + self.weight.sum() - 1.0)
        chance = self.rng.standard_normal(effects.shape)
        chance = linalg.solve_triangular(self.root, chance, lower=True, trans=1)
        effects += linalg.solve_triangular(half, chance.T, lower=False, trans=1).T
        unit = np.ones(n_columns)
        covariance = linalg.inv(half @ half.T) if without_unit else np.eye(n_columns)
        for own in without_unit:
            unit[own] = np.sqrt(np.diag(covariance)[own].mean())
        self.precision = half @ half.T * np.outer(unit, unit)
        self.mean = (effects / unit).T @ self.design
        self.away = utilities / unit[:, None] - self.mean

    def _root_of_wishart(self, squares: np.ndarray, freedom: float) -> np.ndarray:
        """Upper R, where R Rᵀ is Wishart distributed around the inverse of these squares (Bartlett)."""
        n = len(squares)
        chance = np.triu(self.rng.standard_normal((n, n)), 1)
        chance[np.diag_indices(n)] = np.sqrt(self.rng.chisquare(freedom - np.arange(n)[::-1]))
        return linalg.solve_triangular(linalg.cholesky(squares), chance)

    def answers(self, shift: np.ndarray) -> np.ndarray:
        """(rows, questions) answers by the utilities, shifted by so many of their standard deviations."""
        found = np.empty((self.weight.size, len(self.questions)))
        for j, (question, own) in enumerate(zip(self.questions, self.columns, strict=True)):
            utilities = self.mean[own] + self.away[own]
            found[:, j] = question.answers(utilities + shift[j] * utilities.std(axis=1, keepdims=True))
        return found


def _between(low: np.ndarray, high: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Standard normal numbers that lie between two bounds, by inversion."""
    upper = low > 0.0
    low, high = np.where(upper, -high, low), np.where(upper, -low, high)
    below = ndtr(low)
    found = ndtri(below + uniform * (ndtr(high) - below))
    # Beyond 38 there is no chance that could be computed with, and numbers stay near the bound.
    found = np.clip(found, np.maximum(low, np.minimum(high, -38.0) - 1.0 / 38.0), high)
    return np.where(upper, -found, found)

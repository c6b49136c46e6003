"""The multinomial restricted Boltzmann machine (Salakhutdinov, Mnih and Hinton 2007).

Every answer is a softmax unit that knows nothing of the order of its levels; every row has K
binary factors h and only the columns it has answered:

    log Ψ(v, h) = Σ_i ( b_{i,v_i} + w_{i,v_i} · (h − ½) ) + γ · h

Counting factors from their middle makes b the bias at an undecided h. It is the same model as with h in the
product, and easier to learn: a weight then turns the preference of a row without shifting that of all.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import prange
from scipy.sparse import csr_array
from scipy.special import expit

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.normal import single
from ordinalrbm.engine.thresholds import dot
from ordinalrbm.errors import DataError
from ordinalrbm.matrix.explain import effects_of_copies
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.protocol import AddScores, Backend, ExplainedCell, UtilityModel
from ordinalrbm.runtime.jit import compiled, inlined
from ordinalrbm.storage.reader import Stored

f32 = np.float32
_ZERO, _HALF = f32(0.0), f32(0.5)
# Nothing on an item's scale is impossible, however sure a model may be.
_SMALLEST = 1e-12


class MultinomialModel(NamedTuple):
    """Parameters, and the factors of the rows that were learnt from.

    Levels beyond a column's own have zero weights and are never predicted.
    """

    weights: np.ndarray  # (N, L, K) float32, w
    bias: np.ndarray  # (N, L) float32, b
    factor_bias: np.ndarray  # (K,) float32, γ
    n_levels: np.ndarray  # (N,) int32
    factors: np.ndarray  # (D, K) float32, P(h = 1 | v) of each row
    share: float = 1.0  # the model's part in what several of them predict together

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> MultinomialModel:
        """The model of a file whose columns are on scales of so many levels."""
        n_columns, most = n_levels.size, int(n_levels.max())
        weights = stored.parameter("weights", f32, (n_columns, most, None))
        n_factors = weights.shape[2]
        return cls(
            weights=weights,
            bias=stored.parameter("bias", f32, (n_columns, most)),
            factor_bias=stored.parameter("factor_bias", f32, (n_factors,)),
            n_levels=n_levels,
            factors=stored.parameter("factors", f32, (n_rows, n_factors)),
            share=float(stored.checked_array("share", np.float64, (1,), 0.0, 1.0)[0]),
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = self._asdict() | {"share": np.array([self.share])}
        del arrays["n_levels"]
        return arrays

    @property
    def models(self) -> list[MultinomialModel]:
        return [self]

    @property
    def n_rows(self) -> int:
        return len(self.factors)

    @property
    def n_columns(self) -> int:
        return len(self.bias)

    @property
    def most_levels(self) -> int:
        return self.bias.shape[1]

    def with_unknown(self, counts: np.ndarray | None = None, n_levels: int | None = None) -> MultinomialModel:
        """With the average column on its scale, and a row that has said nothing."""
        levels = self.most_levels if n_levels is None else n_levels
        weights, bias = self.typical_column(levels, None if n_levels is None else counts)
        return self._replace(
            weights=np.concatenate([self.weights, weights[None]]),
            bias=np.concatenate([self.bias, bias[None]]),
            n_levels=np.append(self.n_levels, levels).astype(self.n_levels.dtype),
            factors=np.vstack([self.factors, expit(self.factor_bias)]),
        )

    def typical_column(
        self, n_levels: int, counts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights and biases of an unknown column: the mean of those on its scale.

        Where no column is on it, all levels are equally likely.
        """
        alike = self.n_levels == n_levels
        if not alike.any():
            return np.zeros_like(self.weights[0]), np.zeros_like(self.bias[0])
        if counts is not None and counts[alike[: counts.size]].any():
            alike = alike[: counts.size] * counts  # each counted as often as it was answered
        return mean_of(self.weights, alike), mean_of(self.bias, alike)

    def reordered(self, rows: np.ndarray, columns: np.ndarray, n_levels: np.ndarray) -> MultinomialModel:
        known = self.with_unknown()
        weights, bias = known.weights[columns], known.bias[columns]
        return self._replace(weights=weights, bias=bias, n_levels=n_levels, factors=known.factors[rows])

    def with_newcomers(
        self, known: Observations, ratings: Observations, tables: Tables, backend: Backend
    ) -> MultinomialModel:
        """New rows alone: there is nothing that new columns could be inferred from."""
        new = ratings.take_rows(np.arange(self.n_rows, ratings.n_rows))
        return self._replace(factors=np.vstack([self.factors, self.expected_factors(new)]))

    def compared_with(self, known: Observations, table: csr_array | None) -> None:
        return None

    def infer_rows(
        self, ratings: Observations, lines: csr_array | None, others: None, backend: Backend
    ) -> list[MultinomialModel]:
        return [self._replace(factors=self.expected_factors(ratings))]

    def expected_factors(self, observations: Observations) -> np.ndarray:
        """(rows, K): P(h = 1 | v) of rows with these answers."""
        return expected_factors(Parameters(self.weights, self.bias, self.factor_bias), observations)

    def add_probabilities(self, cells: Cells, total: np.ndarray) -> None:
        found = np.zeros((cells.row.size, self.most_levels), dtype=f32)
        row, column = (part.astype(np.int32) for part in cells[:2])
        _predict(row, column, self.factors, self.weights, self.bias, self.n_levels, found)
        shares = found / found.sum(axis=1, keepdims=True, dtype=np.float64)
        exists = np.arange(found.shape[1]) < self.n_levels[cells.column, None]
        total[:, : found.shape[1]] += self.share * np.where(exists, np.maximum(shares, _SMALLEST), 0.0)

    def liking(self, lowest: np.ndarray) -> None:
        return None

    def scorer(self, worth: np.ndarray) -> AddScores:
        return partial(self._add_scores, worth)

    def _add_scores(self, worth: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> None:
        n = worth.shape[0]
        _add_worth(
            self.factors[rows],
            self.weights[:n],
            self.bias[:n],
            self.n_levels[:n],
            worth.astype(f32),
            f32(self.share),
            scores,
        )

    def rating_effects(self, cell: ExplainedCell) -> tuple[float, np.ndarray]:
        """The row with all these answers, and again without each of them."""
        added = self.weights[cell.columns, cell.levels].astype(np.float64)
        activation = self.factor_bias + added.sum(axis=0)
        factors = expit(np.vstack([activation, activation - added]))
        return effects_of_copies(self._replace(factors=factors.astype(f32)), cell)

    def with_utilities(self) -> UtilityModel:
        raise DataError("MultinomialRBM predicts on the cores only; set device='cpu'.")


def mean_of(part: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Weighted mean over the first columns, without a copy: weights may be half of the memory."""
    lines = part[: counts.size].reshape(counts.size, -1)
    mean = np.einsum("i,ij->j", (counts / counts.sum()).astype(part.dtype), lines)
    return mean.reshape(part.shape[1:])


class Parameters(NamedTuple):
    """What is learnt; also the shape of a gradient and of Adam's moments."""

    weights: np.ndarray
    bias: np.ndarray
    factor_bias: np.ndarray


def expected_factors(parameters: Parameters, observations: Observations) -> np.ndarray:
    """P(h = 1 | v) of every row."""
    factors = np.empty((observations.n_rows, parameters.factor_bias.size), dtype=f32)
    _expect_factors(observations.row_start, observations.column, observations.level, parameters, factors)
    return factors


@compiled(parallel=True)
def _expect_factors(row_start, column, level, parameters, factors):
    for row in prange(factors.shape[0]):
        entries = slice(row_start[row], row_start[row + 1])
        factor_probabilities(parameters, column[entries], level[entries], factors[row])


@inlined
def factor_probabilities(parameters, column, level, probability):
    """Fill in P(h = 1 | v) of a row with these answers."""
    for k in range(probability.size):
        probability[k] = parameters.factor_bias[k]
    for e in range(column.size):
        weights = parameters.weights[column[e], level[e]]
        for k in range(probability.size):
            probability[k] += weights[k]
    for k in range(probability.size):
        probability[k] = single.logistic(probability[k])


@inlined
def level_weights(weights, bias, centred, n_levels, weight):
    """Weight of each level in a column's softmax, the largest being one; returns their sum."""
    highest = f32(-np.inf)
    for level in range(n_levels):
        weight[level] = bias[level] + dot(weights[level], centred)
        highest = max(highest, weight[level])
    total = _ZERO
    for level in range(n_levels):
        weight[level], _ = single.exp_and_complement(weight[level] - highest)
        total += weight[level]
    return total


@compiled(parallel=True)
def _predict(rows, columns, factors, weights, bias, n_levels, result):
    for cell in prange(rows.size):
        _predict_cell(rows[cell], columns[cell], factors, weights, bias, n_levels, result[cell])


@inlined
def _predict_cell(row, column, factors, weights, bias, n_levels, result):
    centred = factors[row] - _HALF
    level_weights(weights[column], bias[column], centred, n_levels[column], result)


@compiled(parallel=True)
def _add_worth(factors, weights, bias, n_levels, worth, share, scores):
    for row in prange(scores.shape[0]):
        _add_worth_row(factors[row], weights, bias, n_levels, worth, share, scores[row])


@inlined
def _add_worth_row(factors, weights, bias, n_levels, worth, share, scores):
    centred = factors - _HALF
    weight = np.empty(worth.shape[1], dtype=np.float32)
    for i in range(scores.size):
        total = level_weights(weights[i], bias[i], centred, n_levels[i], weight)
        expected = _ZERO
        for level in range(n_levels[i]):
            expected += weight[level] * (worth[i, level] - worth[i, 0])
        scores[i] += share * expected / total

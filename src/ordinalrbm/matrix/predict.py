"""P(v_di) of single cells of a matrix, also where the row or the column is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import prange

from ordinalrbm.engine import thresholds
from ordinalrbm.engine.normal import double
from ordinalrbm.evaluate.points import SMALLEST_PROBABILITY
from ordinalrbm.matrix.model import MatrixModel
from ordinalrbm.runtime.jit import compiled, inlined

_FAR = 1e5  # standard deviations


class Pairs(NamedTuple):
    """Cells of a matrix and, where it is known, their level; a position of −1 is unknown."""

    row: np.ndarray
    column: np.ndarray
    level: np.ndarray


def probabilities(models: Sequence[MatrixModel], pairs: Pairs) -> np.ndarray:
    """(cells, L): distribution over the levels, the mean of the models by their shares."""
    width = models[0].by_rows.cutpoints.shape[1] + 1
    total = np.zeros((pairs.row.size, width))
    for model in models:
        known = model if all_known(pairs) else with_cold_start(model)
        _add_pairs(*known, pairs.row, pairs.column, total)
    total /= total.sum(axis=1, keepdims=True)
    return total


class Parts(NamedTuple):
    """What predictions of cells are made of, one number each.

    Ends of the true level; the mean with factors in their middle, and what w·(ĥ − middle) and
    ω·(ĝ − middle) add to it; the standard deviation of a utility without the gains.
    """

    low: np.ndarray
    high: np.ndarray
    base: np.ndarray
    by_rows: np.ndarray
    by_columns: np.ndarray
    deviation: np.ndarray


def parts_of(model: MatrixModel, pairs: Pairs) -> Parts:
    """Take the predictions of cells apart."""
    known = model if all_known(pairs) else with_cold_start(model)
    parts = Parts(*np.empty((len(Parts._fields), pairs.row.size)))
    by_rows, by_columns, n_levels = known[:3]
    _take_apart(by_rows, by_columns, n_levels, pairs.row, pairs.column, pairs.level, parts)
    return parts


def log_probability(models: Sequence[MatrixModel], pairs: Pairs) -> np.ndarray:
    """(cells,) log probability of the true level."""
    chosen = np.take_along_axis(
        probabilities(models, pairs), pairs.level[:, None].astype(np.intp), axis=1
    )
    return np.log(np.maximum(chosen[:, 0], SMALLEST_PROBABILITY))


def all_known(pairs: Pairs) -> bool:
    """Whether no row and no column is a stranger's."""
    return pairs.row.min(initial=0) >= 0 and pairs.column.min(initial=0) >= 0


def with_cold_start(model: MatrixModel) -> MatrixModel:
    """The model with one more row and one more column, at position −1, of which nothing is known.

    A stranger has the parameters of the average and factors as likely as for anyone.
    """
    by_rows, by_columns = model.by_rows, model.by_columns
    longest = model.n_levels.argmax()
    return model._replace(
        by_rows=_with_one_more(by_rows, _usual_cutpoints(model)),
        by_columns=_with_one_more(by_columns, by_columns.cutpoints.mean(axis=0)),
        n_levels=np.append(model.n_levels, model.n_levels[longest]).astype(model.n_levels.dtype),
    )


def _usual_cutpoints(model: MatrixModel) -> np.ndarray:
    longest = model.n_levels == model.n_levels.max()
    return model.by_rows.cutpoints[longest].mean(axis=0)


def _with_one_more(half: Any, cutpoints: np.ndarray) -> Any:
    usual = half.factors.mean(axis=0, keepdims=True)
    # The average column acts on average factors; its own weights are unknown, so none.
    mean = np.mean(half.bias + half.weights @ usual[0]) if half.bias.size else 0.0
    half = _with_one_more_doubt(half, usual, mean)
    return half._replace(
        weights=np.vstack([half.weights, np.zeros((1, half.weights.shape[1]), np.float32)]),
        bias=np.append(half.bias, np.float32(mean)).astype(np.float32),
        cutpoints=np.vstack([half.cutpoints, cutpoints[None]]),
        factors=np.vstack([half.factors, usual]).astype(np.float32),
    )


def _with_one_more_doubt(half: Any, factors: np.ndarray, bias: float) -> Any:
    """A stranger may be as far from the usual as anybody is."""
    if not half.bias_variance.size:
        return half

    def one_more(variance: np.ndarray, away: np.ndarray) -> np.ndarray:
        most = np.mean(variance + away**2, axis=0, keepdims=True)
        return np.concatenate([variance, most]).astype(np.float32)

    return half._replace(
        weights_variance=one_more(half.weights_variance, half.weights),
        bias_variance=one_more(half.bias_variance, half.bias - bias),
        factors_variance=one_more(half.factors_variance, half.factors - factors),
    )


@compiled(parallel=True)
def _add_pairs(
    by_rows: Any, by_columns: Any, n_levels: Any, gains: Any, share: Any, row: Any, column: Any,
    total: Any,
) -> None:  # fmt: skip
    for pair in prange(row.size):
        _add_pair(by_rows, by_columns, n_levels, gains, share, row[pair], column[pair], total[pair])


@inlined
def _add_pair(
    by_rows: Any, by_columns: Any, n_levels: Any, gains: Any, share: Any, d: Any, i: Any, total: Any
) -> None:
    base, first, second = _means(by_rows, by_columns, d, i)
    mean = base + gains[0] * first + gains[1] * second
    deviation = gains[2] * _deviation(by_rows, by_columns, d, i)
    end = by_rows.cutpoints[i, 0] - mean
    low = -np.inf
    for level in range(n_levels[i]):
        # An end may be anywhere, but nothing of the mass is this far out.
        far = min(max(end / deviation, -_FAR), _FAR)
        high = np.inf if level == n_levels[i] - 1 else far
        total[level] += share * double.mass(low, high)
        low = high
        if level + 1 < by_rows.cutpoints.shape[1]:
            end += thresholds.gap(by_rows.cutpoints[i], by_columns.cutpoints[d], level + 1)


@compiled(parallel=True)
def _take_apart(
    by_rows: Any, by_columns: Any, n_levels: Any, row: Any, column: Any, level: Any, parts: Any
) -> None:
    for pair in prange(row.size):
        _take_one_apart(
            by_rows, by_columns, n_levels, row[pair], column[pair], level[pair], parts, pair
        )


@inlined
def _take_one_apart(
    by_rows: Any, by_columns: Any, n_levels: Any, d: Any, i: Any, level: Any, parts: Any, pair: Any
) -> None:
    low, high = thresholds.bounds(by_rows.cutpoints[i], by_columns.cutpoints[d], level)
    parts.low[pair] = low
    parts.high[pair] = np.inf if level == n_levels[i] - 1 else high
    base, first, second = _means(by_rows, by_columns, d, i)
    parts.base[pair], parts.by_rows[pair], parts.by_columns[pair] = base, first, second
    parts.deviation[pair] = _deviation(by_rows, by_columns, d, i)


@inlined
def _means(by_rows: Any, by_columns: Any, d: Any, i: Any) -> Any:
    """The mean with factors in their middle, and what they add to it."""
    base = np.float64(by_rows.bias[i]) + np.float64(by_columns.bias[d])
    middle = 0.0 if by_rows.bias_variance.size else 0.5
    first, second = 0.0, 0.0
    for k in range(by_rows.factor_bias.size):
        base += middle * by_rows.weights[i, k]
        first += by_rows.weights[i, k] * (by_rows.factors[d, k] - middle)
    for k in range(by_columns.factor_bias.size):
        base += middle * by_columns.weights[d, k]
        second += by_columns.weights[d, k] * (by_columns.factors[i, k] - middle)
    return base, first, second


@inlined
def _deviation(by_rows: Any, by_columns: Any, d: Any, i: Any) -> Any:
    """Standard deviation of a utility, with what is not known of its mean."""
    if not by_rows.bias_variance.size:
        return 1.0
    variance = np.float64(by_rows.bias_variance[i]) + np.float64(by_columns.bias_variance[d])
    return np.sqrt(1.0 + variance + _uncertain(by_rows, i, d) + _uncertain(by_columns, d, i))


@inlined
def _uncertain(half: Any, column: Any, row: Any) -> Any:
    """Variance of the product of a column's weights and a row's factors."""
    weights, weights_variance = half.weights[column], half.weights_variance[column]
    factors, factors_variance = half.factors[row], half.factors_variance[row]
    total = 0.0
    for k in range(half.factor_bias.size):
        total += weights_variance[k] * (factors[k] * factors[k] + factors_variance[k])
        total += weights[k] * weights[k] * factors_variance[k]
    return total

"""P(v_di) of single cells of a matrix, also where the row or the column is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import prange

from ordinalrbm.engine import ends, lanes
from ordinalrbm.engine.compiled import compiled, inlined
from ordinalrbm.infer.predict import SMALLEST_PROBABILITY
from ordinalrbm.model.matrix import MatrixModel


class Pairs(NamedTuple):
    """Cells of a matrix and, where it is known, their level; a position of −1 is unknown."""

    row: np.ndarray
    column: np.ndarray
    level: np.ndarray


def probabilities(models: Sequence[MatrixModel], pairs: Pairs) -> np.ndarray:
    """(cells, L): distribution over the levels, averaged over the models."""
    width = models[0].by_rows.steps.shape[1] + 1
    total = np.zeros((pairs.row.size, width))
    for model in models:
        known = model if _all_known(pairs) else with_strangers(model)
        _add_pairs(*known, pairs.row, pairs.column, total)
    return total / total.sum(axis=1, keepdims=True)


def log_probability(models: Sequence[MatrixModel], pairs: Pairs) -> np.ndarray:
    """(cells,) log probability of the true level."""
    chosen = np.take_along_axis(
        probabilities(models, pairs), pairs.level[:, None].astype(np.intp), axis=1
    )
    return np.log(np.maximum(chosen[:, 0], SMALLEST_PROBABILITY))


def _all_known(pairs: Pairs) -> bool:
    return pairs.row.min(initial=0) >= 0 and pairs.column.min(initial=0) >= 0


def with_strangers(model: MatrixModel) -> MatrixModel:
    """The model with one more row and one more column, at position −1, of which nothing is known.

    A stranger has the parameters of the average and factors as likely as for anyone.
    """
    by_rows, by_columns = model.by_rows, model.by_columns
    longest = model.n_levels.argmax()
    return MatrixModel(
        _with_one_more(by_rows, _usual_steps(model)),
        _with_one_more(by_columns, by_columns.steps.mean(axis=0)),
        np.append(model.n_levels, model.n_levels[longest]).astype(model.n_levels.dtype),
        model.gains,
    )


def _usual_steps(model: MatrixModel) -> np.ndarray:
    longest = model.n_levels == model.n_levels.max()
    return model.by_rows.steps[longest].mean(axis=0)


def _with_one_more(half: Any, steps: np.ndarray) -> Any:
    usual = half.factors.mean(axis=0, keepdims=True)
    # The average column acts on average factors; its own weights are unknown, so none.
    mean = np.mean(half.bias + half.weights @ usual[0]) if half.bias.size else 0.0
    return half._replace(
        weights=np.vstack([half.weights, np.zeros((1, half.weights.shape[1]), np.float32)]),
        bias=np.append(half.bias, np.float32(mean)).astype(np.float32),
        steps=np.vstack([half.steps, steps[None]]),
        factors=np.vstack([half.factors, usual]).astype(np.float32),
    )


@compiled(parallel=True)
def _add_pairs(
    by_rows: Any, by_columns: Any, n_levels: Any, gains: Any, row: Any, column: Any, total: Any
) -> None:
    for pair in prange(row.size):
        _add_pair(by_rows, by_columns, n_levels, gains, row[pair], column[pair], total[pair])


@inlined
def _add_pair(
    by_rows: Any, by_columns: Any, n_levels: Any, gains: Any, d: Any, i: Any, total: Any
) -> None:
    mean = np.float64(by_rows.bias[i]) + np.float64(by_columns.bias[d])
    for k in range(by_rows.factor_bias.size):
        mean += by_rows.weights[i, k] * (0.5 + gains[0] * (by_rows.factors[d, k] - 0.5))
    for k in range(by_columns.factor_bias.size):
        mean += by_columns.weights[d, k] * (0.5 + gains[1] * (by_columns.factors[i, k] - 0.5))
    end = by_rows.steps[i, 0] - mean
    low = -np.inf
    for level in range(n_levels[i]):
        high = np.inf if level == n_levels[i] - 1 else end / gains[2]
        total[level] += lanes.mass(low, high)
        low = high
        if level + 1 < by_rows.steps.shape[1]:
            end += ends.width(by_rows.steps[i], by_columns.steps[d], level + 1)

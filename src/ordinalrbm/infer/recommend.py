"""The best items of each row, in batches: never more scores at a time than fit into little memory.

The worth of a rating on a scale with values x_1 < … < x_L is, on average,

    x_1 + Σ_l (x_{l+1} − x_l) (1 − Φ(θ_l − μ)),

one tail of the normal distribution per threshold. Means of a batch are one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import prange

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import lanes32
from ordinalrbm.engine.compiled import compiled, inlined
from ordinalrbm.model import thresholds
from ordinalrbm.model.matrix import MatrixModel

_BATCH_BYTES = 64 * 2**20
_INVERSE_ROOT_2PI = np.float32(0.3989422804014327)
_FAR = np.float32(12.0)  # beyond this nothing is left of the tail


class Best(NamedTuple):
    """One line per recommendation: whose (place in the rows asked for), which, how good."""

    query: np.ndarray
    item: np.ndarray
    rank: np.ndarray
    score: np.ndarray


class _Ladder(NamedTuple):
    """What each column contributes to the thresholds, and what passing one of them is worth.

    Arrays are (L − 1, columns), so that loops run over columns. Beyond a column's last threshold
    width and gain are zero.
    """

    first: np.ndarray  # (columns,) the lowest threshold
    width: np.ndarray
    gain: np.ndarray


def best_items(
    models: Sequence[MatrixModel],
    rows: np.ndarray,
    n: int,
    worth: np.ndarray,
    seen: Observations | None,
) -> Best:
    """The n columns with the greatest expected worth for each row.

    Parameters
    ----------
    models : models to average over; they may have a stranger as last row and column
    rows : positions of rows; −1 is the last one
    n : how many
    worth : (columns, L) what each level counts; says how many columns are to choose from
    seen : what to leave out, if anything; rows beyond it have seen nothing
    """
    n_columns = worth.shape[0]
    n = min(n, n_columns)
    ladders = [_ladder(model, worth) for model in models]
    size = max(1, _BATCH_BYTES // (2 * 4 * n_columns))
    parts = []
    for start in range(0, rows.size, size):
        batch = rows[start : start + size]
        scores = _scores(models, ladders, batch, worth)
        if seen is not None:
            _leave_out(scores, batch, seen.row_start, seen.column)
        item = np.empty((batch.size, n), dtype=np.int32)
        score = np.empty((batch.size, n), dtype=np.float32)
        _select(scores, item, score)
        parts.append((item, score))
    return _listed(parts, n)


def _listed(parts: list[tuple[np.ndarray, np.ndarray]], n: int) -> Best:
    """One line per recommendation, without the empty places of rows that have seen much."""
    item = np.concatenate([np.zeros((0, n), np.int32), *(item for item, _ in parts)])
    score = np.concatenate([np.zeros((0, n), np.float32), *(score for _, score in parts)])
    query, rank = np.nonzero(score > -np.inf)
    return Best(query, item[query, rank], rank + 1, score[query, rank].astype(np.float64))


def _ladder(model: MatrixModel, worth: np.ndarray) -> _Ladder:
    n_columns, width = worth.shape[0], worth.shape[1] - 1
    half = model.by_rows
    unused = thresholds.unused(model.n_levels[:n_columns], width)
    widths = np.where(unused, 0.0, np.exp(half.steps[:n_columns, :width]))
    gains = np.where(unused, 0.0, np.diff(worth, axis=1))
    return _Ladder(
        half.steps[:n_columns, 0].astype(np.float32),
        np.ascontiguousarray(widths.T, dtype=np.float32),
        np.ascontiguousarray(gains.T, dtype=np.float32),
    )


def _scores(
    models: Sequence[MatrixModel], ladders: list[_Ladder], rows: np.ndarray, worth: np.ndarray
) -> np.ndarray:
    """(rows, columns) expected worth, averaged over the models."""
    n_columns = worth.shape[0]
    scores = np.empty((rows.size, n_columns), dtype=np.float32)
    scores[:] = worth[:, 0]
    for model, ladder in zip(models, ladders, strict=True):
        mean = _mean_above_first(model, ladder, rows, n_columns)
        widths = np.exp(model.by_columns.steps[rows]) / model.gains[2]
        _add_worth(mean, widths.astype(np.float32), ladder, np.float32(1 / len(models)), scores)
    return scores


def _mean_above_first(
    model: MatrixModel, ladder: _Ladder, rows: np.ndarray, n_columns: int
) -> np.ndarray:
    """(rows, columns) mean utility above the lowest threshold, in standard deviations."""
    own, other = model.by_rows, model.by_columns
    by_rows, by_columns, deviation = np.asarray(model.gains, dtype=np.float32)
    half = np.float32(0.5)
    mean = (half + by_rows * (own.factors[rows] - half)) @ own.weights[:n_columns].T
    mean += other.weights[rows] @ (half + by_columns * (other.factors[:n_columns] - half)).T
    mean += own.bias[:n_columns] - ladder.first
    mean += other.bias[rows, None]
    mean /= deviation
    return mean


@compiled(parallel=True)
def _add_worth(mean: Any, widths: Any, ladder: Any, share: Any, scores: Any) -> None:
    for row in prange(mean.shape[0]):
        _add_worth_row(mean[row], widths[row], ladder, share, scores[row])


@inlined
def _add_worth_row(mean: Any, widths: Any, ladder: Any, share: Any, scores: Any) -> None:
    # What is left of the mean above each threshold in turn, all columns at once.
    for m in range(ladder.gain.shape[0]):
        width, gain = ladder.width[m], ladder.gain[m]
        if m > 0:
            for i in range(mean.size):
                mean[i] -= widths[m] * width[i]
        for i in range(mean.size):
            scores[i] += share * gain[i] * _normal_below(mean[i])


@inlined
def _normal_below(x: Any) -> Any:
    """Φ(x) in float32."""
    far = min(abs(x), _FAR)
    height, _ = lanes32.exp_and_fall(np.float32(-0.5) * far * far)
    tail = height * lanes32.mills_ratio(far) * _INVERSE_ROOT_2PI
    return tail if x < np.float32(0.0) else np.float32(1.0) - tail


@compiled(parallel=True)
def _leave_out(scores: Any, rows: Any, row_start: Any, column: Any) -> None:
    for place in prange(rows.size):
        row = rows[place]
        if 0 <= row < row_start.size - 1:
            _leave_out_row(scores[place], row_start[row], row_start[row + 1], column)


@inlined
def _leave_out_row(scores: Any, start: Any, stop: Any, column: Any) -> None:
    for entry in range(start, stop):
        scores[column[entry]] = -np.inf


@compiled(parallel=True)
def _select(scores: Any, item: Any, score: Any) -> None:
    for row in prange(scores.shape[0]):
        _select_row(scores[row], item[row], score[row])


@inlined
def _select_row(scores: Any, item: Any, best: Any) -> None:
    """The best columns in order; of equal ones, the first. A place left empty has score −∞.

    Insertion into a short sorted list: few columns get past its end.
    """
    for place in range(best.size):
        best[place] = -np.inf
        item[place] = -1
    last = best.size - 1
    for i in range(scores.size):
        if scores[i] > best[last]:
            place = last
            while place > 0 and scores[i] > best[place - 1]:
                best[place] = best[place - 1]
                item[place] = item[place - 1]
                place -= 1
            best[place] = scores[i]
            item[place] = i

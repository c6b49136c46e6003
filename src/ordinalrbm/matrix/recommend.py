"""The best items of each row, in batches: never more scores at a time than fit into little memory.

The worth of a rating on a scale with values x_1 < … < x_L is, on average,

    x_1 + Σ_l (x_{l+1} − x_l) (1 − Φ(θ_l − μ)),

one tail of the normal distribution per threshold. Means of a batch are one matrix product, and so
are the variances of what is not known of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import prange

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.normal import polynomial
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.multinomial import MultinomialModel
from ordinalrbm.matrix.predict import Model, UtilityModel
from ordinalrbm.runtime.jit import compiled, inlined

_BATCH_BYTES = 64 * 2**20
# The eighth root of 1 − Φ(x) for 0 ≤ x ≤ _FAR as a polynomial of 2x/_FAR − 1, from the constant
# term on: least squares at Chebyshev nodes, by how much an error counts in the tail. Φ is right to
# 5e-7, and tails to 5e-4 of their size.
_FAR = np.float32(10.0)  # beyond this, 1e-23 is left
_ROOT_OF_TAIL = (
    0.152113905, -0.493086433, 0.569285355, -0.122593603, -0.317982744, 0.262746072,
    0.0314819221, -0.132743019, 0.0404820502, 0.0315549499, -0.0207209333, -0.00409622809,
    0.00520933912, 0.000360724613, -0.000722387073,
)  # fmt: skip
_root_of_tail = polynomial(np.float32, _ROOT_OF_TAIL[::-1])


class Best(NamedTuple):
    """One line per recommendation: whose (place in the rows asked for), which, how good."""

    query: np.ndarray
    item: np.ndarray
    rank: np.ndarray
    score: np.ndarray


# Given rows, a number n and the worth of levels from 0 to 1: batch after batch, the n best columns
# of each row and their scores, in order; of empty places the score is −∞.
Batches = Callable[[np.ndarray, int, np.ndarray], Iterable[tuple[np.ndarray, np.ndarray]]]


class Ladder(NamedTuple):
    """What each column contributes to the thresholds, and what passing one of them is worth.

    Arrays are (L − 1, columns), so that loops run over columns. Beyond a column's last threshold
    width and gain are zero.
    """

    first: np.ndarray  # (columns,) the lowest threshold
    width: np.ndarray
    gain: np.ndarray


def best_items(
    models: Sequence[Model], rows: np.ndarray, n: int, worth: np.ndarray, seen: Observations | None
) -> Best:
    """The n columns with the greatest expected worth for each row, by the average of the models.

    ``worth``, (columns, L), is what each level counts. ``seen`` is what to leave out.
    """
    return ranked(partial(_batches, models, seen), rows, n, worth)


def ranked(batches: Batches, rows: np.ndarray, n: int, worth: np.ndarray) -> Best:
    """The n best columns of each row, by whoever finds them."""
    n = min(n, worth.shape[0])
    shares, low, high = _as_shares(worth)
    best = _listed(list(batches(rows, n, shares)), n)
    return best._replace(score=low * (1.0 - best.score) + high * best.score)


def with_others(best: Best, others: np.ndarray, scores: np.ndarray, n: int) -> Best:
    """With the same n best columns for all ``others``, a mask over the rows that are asked for."""
    item = np.argsort(-scores, kind="stable")[:n]
    places, rank = np.flatnonzero(others), np.arange(1, item.size + 1)
    both = Best(
        np.concatenate([np.flatnonzero(~others)[best.query], np.repeat(places, item.size)]),
        np.concatenate([best.item, np.tile(item, places.size)]),
        np.concatenate([best.rank, np.tile(rank, places.size)]),
        np.concatenate([best.score, np.tile(scores[item], places.size)]),
    )
    order = np.argsort(both.query, kind="stable")
    return Best(*(part[order] for part in both))


def _batches(
    models: Sequence[Model], seen: Observations | None, rows: np.ndarray, n: int, worth: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """On the cores of this machine."""
    ladders = [
        None
        if isinstance(model, MultinomialModel)
        else ladder_of(model.column_cutpoints, model.n_levels, worth)
        for model in models
    ]
    size = max(1, _BATCH_BYTES // (4 * 4 * worth.shape[0]))
    for start in range(0, rows.size, size):
        batch = rows[start : start + size]
        scores = _scores(models, ladders, batch, worth)
        if seen is not None:
            _leave_out(scores, batch, seen.row_start, seen.column)
        item = np.empty((batch.size, n), dtype=np.int32)
        score = np.empty((batch.size, n), dtype=np.float32)
        _select(scores, item, score)
        yield item, score


def _as_shares(worth: np.ndarray) -> tuple[np.ndarray, float, float]:
    """The worth of levels from 0 to 1, and what these stand for.

    Scores are float32, which has no room for large numbers nor for small differences of them.
    """
    low, high = float(worth.min()), float(worth.max())
    half = high / 2 - low / 2  # which is finite, whatever the numbers
    return (worth / 2 - low / 2) / (half or 1.0), low, high


def _listed(parts: list[tuple[np.ndarray, np.ndarray]], n: int) -> Best:
    """One line per recommendation, without the empty places of rows that have seen much."""
    item = np.concatenate([np.zeros((0, n), np.int32), *(item for item, _ in parts)])
    score = np.concatenate([np.zeros((0, n), np.float32), *(score for _, score in parts)])
    query, rank = np.nonzero(score > -np.inf)
    return Best(query, item[query, rank], rank + 1, score[query, rank].astype(np.float64))


def ladder_of(cutpoints: np.ndarray, n_levels: np.ndarray, worth: np.ndarray) -> Ladder:
    """Ladder of columns with such thresholds, whose levels are worth so much, from 0 to 1."""
    n_columns, width = worth.shape[0], worth.shape[1] - 1
    unused = thresholds.unused(n_levels[:n_columns], width)
    gaps = np.where(unused, 0.0, np.exp(cutpoints[:n_columns, :width]))
    gains = np.where(unused, 0.0, np.diff(worth, axis=1))
    return Ladder(
        cutpoints[:n_columns, 0].astype(np.float32),
        np.ascontiguousarray(gaps.T, dtype=np.float32),
        np.ascontiguousarray(gains.T, dtype=np.float32),
    )


def _scores(
    models: Sequence[Model], ladders: list[Any], rows: np.ndarray, worth: np.ndarray
) -> np.ndarray:
    """(rows, columns) expected worth, averaged over the models."""
    n_columns = worth.shape[0]
    scores = np.empty((rows.size, n_columns), dtype=np.float32)
    scores[:] = worth[:, 0]
    for model, ladder in zip(models, ladders, strict=True):
        if isinstance(model, MultinomialModel):
            model.add_worth(rows, worth, scores)
            continue
        mean = _mean_above_first(model, ladder, rows, n_columns)
        per_deviation = _inverse_deviation(model, rows, n_columns)
        mean *= per_deviation
        gaps = np.exp(model.row_cutpoints[rows]).astype(np.float32)
        _add_worth(mean, per_deviation, gaps, ladder, np.float32(model.share), scores)
    return scores


def _mean_above_first(
    model: UtilityModel, ladder: Ladder, rows: np.ndarray, n_columns: int
) -> np.ndarray:
    """(rows, columns) mean utility above the lowest threshold."""
    if isinstance(model, GaussianModel):
        own, other = model.rows.mean[rows], model.columns.mean[:n_columns]
        mean = own[:, 1:] @ other[:, 1:].T
        mean += other[:, 0] - ladder.first
        mean += own[:, :1]
        return mean
    by_rows, by_columns, _ = np.asarray(model.gains, dtype=np.float32)
    middle = np.float32(0.5)
    h, w = model.by_rows.factors[rows], model.by_rows.weights[:n_columns]
    g, omega = model.by_columns.factors[:n_columns], model.by_columns.weights[rows]
    mean = (middle + by_rows * (h - middle)) @ w.T
    mean += omega @ (middle + by_columns * (g - middle)).T
    mean += model.by_rows.bias[:n_columns] - ladder.first
    mean += model.by_columns.bias[rows, None]
    return mean


def _inverse_deviation(model: UtilityModel, rows: np.ndarray, n_columns: int) -> np.ndarray:
    """One over the standard deviation of a utility; (rows, columns), or (rows, 1) where all agree.

    With what is not known of a mean, if anything is said about that.
    """
    if not isinstance(model, GaussianModel):
        return np.full((rows.size, 1), np.float32(1.0) / np.float32(model.gains[2]))
    if model.is_exact:
        return np.full((rows.size, 1), np.float32(1.0) / np.float32(model.spread))
    own, other = (
        (part[rows] for part in model.rows[:2]),
        (part[:n_columns] for part in model.columns[:2]),
    )
    (p, p_variance), (q, q_variance) = own, other
    variance = p_variance[:, 1:] @ (q * q + q_variance)[:, 1:].T
    variance += (p * p)[:, 1:] @ q_variance[:, 1:].T
    variance += q_variance[:, 0]
    variance += p_variance[:, :1]
    variance += np.float32(1.0)
    np.sqrt(variance, out=variance)
    variance *= np.float32(model.spread)
    return np.divide(np.float32(1.0), variance, out=variance)


@compiled(parallel=True)
def _add_worth(
    mean: Any, per_deviation: Any, gaps: Any, ladder: Any, share: Any, scores: Any
) -> None:
    for row in prange(mean.shape[0]):
        _add_worth_row(mean[row], per_deviation[row], gaps[row], ladder, share, scores[row])


@inlined
def _add_worth_row(
    mean: Any, per_deviation: Any, gaps: Any, ladder: Any, share: Any, scores: Any
) -> None:
    # What is left of the mean above each threshold in turn, all columns at once.
    for m in range(ladder.gain.shape[0]):
        width, gain = ladder.width[m], ladder.gain[m]
        if m > 0:
            if per_deviation.size == 1:
                for i in range(mean.size):
                    mean[i] -= gaps[m] * per_deviation[0] * width[i]
            else:
                for i in range(mean.size):
                    mean[i] -= gaps[m] * per_deviation[i] * width[i]
        for i in range(mean.size):
            scores[i] += share * gain[i] * _normal_below(mean[i])


@inlined
def _normal_below(x: Any) -> Any:
    """Φ(x) in float32, without an exponential or a division."""
    root = _root_of_tail(np.float32(2.0 / _FAR) * min(abs(x), _FAR) - np.float32(1.0))
    square = root * root
    fourth = square * square
    tail = fourth * fourth
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

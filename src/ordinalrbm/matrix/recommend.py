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
from ordinalrbm.matrix.predict import Model, UtilityModel, chance_from, gaussian_moments
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


# What a column that nobody would choose counts beside one that surely would be chosen.
LEAST_DEMAND = np.float32(1e-3)
# Columns that are looked at first, in the order of demand, and how many times more in each round.
_FIRST_LOOK, _TIMES_MORE = 12, 4
_AT_LEAST = 64
# What a pair of a row and a column takes while it is looked at, mostly the chances of its levels.
_PAIR_BYTES = 256


class Ladder(NamedTuple):
    """What each column contributes to the thresholds, and what passing one of them is worth.

    Arrays are (L − 1, columns), so that loops run over columns. Beyond a column's last threshold
    width and gain are zero.
    """

    first: np.ndarray  # (columns,) the lowest threshold
    width: np.ndarray
    gain: np.ndarray


def best_items(
    models: Sequence[Model], rows: np.ndarray, n: int, worth: np.ndarray,
    seen: Observations | None, closed: np.ndarray | None = None,
) -> Best:  # fmt: skip
    """The n columns with the greatest expected worth for each row, by the average of the models.

    ``worth``, (columns, L), is what each level counts. ``seen`` is what each row leaves out, and
    ``closed`` a mask of columns that all leave out.
    """
    return ranked(partial(_batches, models, seen, closed), rows, n, worth)


def ranked(batches: Batches, rows: np.ndarray, n: int, worth: np.ndarray) -> Best:
    """The n best columns of each row, by whoever finds them."""
    n = min(n, worth.shape[0])
    shares, low, high = as_shares(worth)
    best = listed(list(batches(rows, n, shares)), n)
    return best._replace(score=low * (1.0 - best.score) + high * best.score)


# Given the places of rows and a number m: the m columns with the greatest demand of each, and what
# it is, in order; of empty places it is −∞.
MostWanted = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]
# Given places of rows, columns in the order of demand, what it is, and a number n: the n columns of
# each row with the greatest product of demand and chance to be liked, and that product, in order.
Choose = Callable[[np.ndarray, np.ndarray, np.ndarray, int], tuple[np.ndarray, np.ndarray]]
# Given places of rows and columns, pair by pair: how likely it is that the row would like it.
Chance = Callable[[np.ndarray, np.ndarray], np.ndarray]


def best_wanted(
    most_wanted: MostWanted, choose: Choose, n_rows: int, n_columns: int, n: int
) -> Best:
    """The n columns of each row with the greatest product of demand and chance to be liked.

    A chance is at most one, so that a product is at most the demand: columns are looked at in the
    order of demand until those that are left cannot be among the best any more.
    """
    n = min(n, n_columns)
    item, score = np.zeros((n_rows, n), dtype=np.int32), np.full((n_rows, n), -np.inf)
    left, m = np.arange(n_rows), max(_FIRST_LOOK * n, _AT_LEAST)
    while left.size and n:
        m = min(m, n_columns)
        is_open = np.zeros(left.size, dtype=bool)
        size = max(1, _BATCH_BYTES // (_PAIR_BYTES * m))
        for start in range(0, left.size, size):
            some = left[start : start + size]
            wanted, demand = most_wanted(some, m)
            item[some], score[some] = choose(some, wanted, demand, n)
            # Those beyond have at most the demand of the last one that was looked at.
            is_open[start : start + size] = demand[:, -1] > score[some, -1]
        left, m = left[is_open & (m < n_columns)], _TIMES_MORE * m
    return listed([(item, score.astype(np.float32))], n)


def choose_by_chance(
    chance: Chance, place: np.ndarray, wanted: np.ndarray, demand: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Choose by chances that any models give."""
    product = np.full(demand.shape, -np.inf)
    there = np.nonzero(demand > -np.inf)
    product[there] = demand[there] * chance(place[there[0]], wanted[there])
    order = np.argsort(-product, axis=1, kind="stable")[:, :n]
    item, score = (np.take_along_axis(part, order, axis=1) for part in (wanted, product))
    return item, score


def choose_by_gaussian(
    model: GaussianModel, lowest: np.ndarray, row: np.ndarray, place: np.ndarray,
    wanted: np.ndarray, demand: np.ndarray, n: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Choose by one model with Gaussian factors, without a detour; ``lowest`` levels are liked."""
    item = np.empty((place.size, n), dtype=np.int32)
    score = np.empty((place.size, n))
    _choose(
        model.rows, model.columns, model.row_cutpoints, model.column_cutpoints, model.n_levels,
        float(model.spread), lowest, row[place], wanted, demand, item, score,
    )  # fmt: skip
    return item, score


@compiled(parallel=True)
def _choose(
    rows: Any, columns: Any, row_cutpoints: Any, column_cutpoints: Any, n_levels: Any, spread: Any,
    lowest: Any, row: Any, wanted: Any, demand: Any, item: Any, score: Any,
) -> None:  # fmt: skip
    for place in prange(row.size):
        best, found, d = score[place], item[place], row[place]
        for k in range(best.size):
            best[k] = -np.inf
            found[k] = -1
        for k in range(wanted.shape[1]):
            own = np.float64(demand[place, k])
            # A chance is at most one: what comes after is worth less than the worst found.
            if own == -np.inf or own <= best[0]:
                break
            i = wanted[place, k]
            mean, deviation = gaussian_moments(rows, columns, d, i)
            product = own * chance_from(
                lowest[i], mean, spread * deviation, row_cutpoints[d], column_cutpoints[i],
                n_levels[i],
            )  # fmt: skip
            if product > best[0]:
                _sift_down(best, found, best.size, product, i)
        _sort_heap(best, found)


def most_wanted(
    rows: np.ndarray, columns: np.ndarray, row: np.ndarray, seen: Observations | None,
    closed: np.ndarray | None, place: np.ndarray, m: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The m columns with the greatest demand, given the factors of rows and columns.

    Of those rows that are at some places of ``row``; ``seen`` is what each of them leaves out, and
    ``closed`` a mask of columns that all leave out.
    """
    asked = row[place]
    item = np.empty((asked.size, m), dtype=np.int32)
    demand = np.empty((asked.size, m), dtype=np.float32)
    size = max(1, _BATCH_BYTES // (4 * max(len(columns), 1)))
    for start in range(0, asked.size, size):
        some = slice(start, start + size)
        scores = rows[asked[some]] @ columns.T
        np.maximum(scores, LEAST_DEMAND, out=scores)
        _close(scores, asked[some], seen, closed)
        _select(scores, item[some], demand[some])
    return item, demand


def best_products(
    rows: np.ndarray, columns: np.ndarray, row: np.ndarray, seen: Observations | None,
    closed: np.ndarray | None, n: int,
) -> Best:  # fmt: skip
    """The n columns of each row with the greatest inner product; ``row`` are places in ``seen``."""
    n = min(n, len(columns))
    item = np.empty((len(rows), n), dtype=np.int32)
    score = np.empty((len(rows), n), dtype=np.float32)
    size = max(1, _BATCH_BYTES // (4 * max(len(columns), 1)))
    for start in range(0, len(rows), size):
        some = slice(start, start + size)
        scores = rows[some] @ columns.T
        _close(scores, row[some], seen, closed)
        _select(scores, item[some], score[some])
    return listed([(item, score)], n)


def _close(
    scores: np.ndarray, rows: np.ndarray, seen: Observations | None, closed: np.ndarray | None
) -> None:
    """Leave out what each row has seen, and what all leave out."""
    if closed is not None:
        scores[:, closed] = -np.inf
    if seen is not None:
        _leave_out(scores, rows, seen.row_start, seen.column)


def for_all(scores: np.ndarray, n_rows: int, n: int) -> Best:
    """The same n best columns for so many rows."""
    item = np.argsort(-scores, kind="stable")[:n]
    item = item[scores[item] > -np.inf]
    return Best(
        np.repeat(np.arange(n_rows), item.size), np.tile(item, n_rows),
        np.tile(np.arange(1, item.size + 1), n_rows), np.tile(scores[item], n_rows),
    )  # fmt: skip


def together(parts: Sequence[tuple[np.ndarray, Best]]) -> Best:
    """Recommendations for all rows asked for, of which each part has those under a mask."""
    if len(parts) == 1 and parts[0][0].all():
        return parts[0][1]
    own = [best._replace(query=np.flatnonzero(mask)[best.query]) for mask, best in parts]
    none = Best(*(np.zeros(0, dtype=kind) for kind in (np.intp, np.int32, np.intp, np.float64)))
    whole = Best(*(np.concatenate(each) for each in zip(none, *own, strict=True)))
    order = np.argsort(whole.query, kind="stable")
    return Best(*(part[order] for part in whole))


def _batches(
    models: Sequence[Model],
    seen: Observations | None,
    closed: np.ndarray | None,
    rows: np.ndarray,
    n: int,
    worth: np.ndarray,
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
        _close(scores, batch, seen, closed)
        item = np.empty((batch.size, n), dtype=np.int32)
        score = np.empty((batch.size, n), dtype=np.float32)
        _select(scores, item, score)
        yield item, score


def as_shares(worth: np.ndarray) -> tuple[np.ndarray, float, float]:
    """The worth of levels from 0 to 1, and what these stand for.

    Scores are float32, which has no room for large numbers nor for small differences of them.
    """
    low, high = float(worth.min()), float(worth.max())
    half = high / 2 - low / 2  # which is finite, whatever the numbers
    return (worth / 2 - low / 2) / (half or 1.0), low, high


def listed(parts: list[tuple[np.ndarray, np.ndarray]], n: int) -> Best:
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

    Those found so far are a heap, the worst of them on top: few columns get past it.
    """
    n = best.size
    for place in range(n):
        best[place] = -np.inf
        item[place] = -1
    for i in range(scores.size):
        if scores[i] > best[0]:  # of equal ones the first is there already
            _sift_down(best, item, n, scores[i], i)
    _sort_heap(best, item)


@inlined
def _sort_heap(best: Any, item: Any) -> None:
    """Put a heap in order, the best first."""
    for last in range(best.size - 1, 0, -1):
        value, column = best[last], item[last]
        best[last], item[last] = best[0], item[0]
        _sift_down(best, item, last, value, column)


@inlined
def _sift_down(best: Any, item: Any, n: Any, value: Any, column: Any) -> None:
    """Put a column in place of the worst of the first n, which is on top."""
    place = 0
    while 2 * place + 1 < n:
        child = 2 * place + 1
        if child + 1 < n and _is_worse(best, item, child + 1, child):
            child += 1
        if best[child] > value or (best[child] == value and item[child] < column):
            break
        best[place], item[place] = best[child], item[child]
        place = child
    best[place], item[place] = value, column


@inlined
def _is_worse(best: Any, item: Any, one: Any, other: Any) -> Any:
    """Of equal ones the later is worse; an empty place is worse than any."""
    if best[one] == best[other]:
        return item[one] > item[other]
    return best[one] < best[other]

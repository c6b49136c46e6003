"""The best items of each row, in blocks: never more scores at a time than fit into little memory.

There are two ways. :func:`best_by_scores` has scores of all columns, block by block, and selects
the best of each row. :func:`best_wanted` looks at columns in the order of demand alone, until no
other can be among the best any more.

The worth of a rating on a scale with values x_1 < … < x_L is, on average,

    x_1 + Σ_l (x_{l+1} − x_l) (1 − Φ(θ_l − μ)),

one tail of the normal distribution per threshold. Means of a batch are one matrix product, and so
are the variances of what is not known of them.

It rises with the mean utility μ = b_d + b_i + p_d · q_i, along a curve that thresholds and doubt
give it. Two numbers say where the curve of a column lies and how steep it is: at which utilities,
for an average row, a low and a high rating is expected. Measured from there, (μ − t_i) s_i means
about the same for all columns, and it is an inner product, that of :class:`Vectors`: near to the
order of the expected ratings of a row, which has thresholds of its own.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.special import ndtr

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.base import FactorPosterior
from ordinalrbm.engine.normal import polynomial
from ordinalrbm.matrix.blend import DemandArrays, set_demand
from ordinalrbm.matrix.item_weights import Past
from ordinalrbm.matrix.predict import chance_from, gaussian_moments
from ordinalrbm.matrix.protocol import AddScores, Model, UtilityModel
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import allocating_function, allocating_kernel, compiled, inlined

_BATCH_BYTES = 64 * 2**20
# The eighth root of 1 − Φ(x) for 0 ≤ x ≤ _FAR as a polynomial of 2x/_FAR − 1, from the constant
# term on: least squares at Chebyshev nodes, by how much an error counts in the tail. Φ is right to
# 5e-7, and tails to 5e-4 of their size.
_FAR = np.float32(10.0)  # beyond this, 1e-23 is left
_ROOT_OF_TAIL = (
    0.152113905,
    -0.493086433,
    0.569285355,
    -0.122593603,
    -0.317982744,
    0.262746072,
    0.0314819221,
    -0.132743019,
    0.0404820502,
    0.0315549499,
    -0.0207209333,
    -0.00409622809,
    0.00520933912,
    0.000360724613,
    -0.000722387073,
)
_root_of_tail = polynomial(np.float32, _ROOT_OF_TAIL[::-1])


class Best(NamedTuple):
    """One line per recommendation: whose (position in the query), which, how good."""

    query: np.ndarray
    item: np.ndarray
    rank: np.ndarray
    score: np.ndarray


# Columns that are looked at first, in the order of demand, and how many times more in each round.
_FIRST_LOOK, _TIMES_MORE = 12, 4
_AT_LEAST = 64
# What a pair of a row and a column takes while it is looked at, mostly the chances of its levels.
_PAIR_BYTES = 256


class ThresholdTable(NamedTuple):
    """What each column contributes to the thresholds, and what passing one of them is worth.

    Arrays are (L − 1, columns), so that loops run over columns. Beyond a column's last threshold
    width and gain are zero.
    """

    first: np.ndarray  # (columns,) the lowest threshold
    width: np.ndarray
    gain: np.ndarray


class LeftOut(NamedTuple):
    """Columns that are not recommended: what each row has seen, and, under a mask, to nobody."""

    seen: Observations | None = None
    closed: np.ndarray | None = None

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        seen = _NO_SEEN if self.seen is None else (self.seen.row_start, self.seen.column)
        return *seen, _NONE_CLOSED if self.closed is None else self.closed

    def take_from(self, scores: np.ndarray, rows: np.ndarray) -> None:
        if self.closed is not None:
            scores[:, self.closed] = -np.inf
        if self.seen is not None:
            over_rows(_leave_out, rows.size, scores, rows, self.seen.row_start, self.seen.column)


NOTHING = LeftOut()
_NO_SEEN = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32)
_NONE_CLOSED = np.zeros(0, dtype=bool)

# ---- by scores --------------------------------------------------------------------------------

# Given places of the rows asked for: (rows, columns) float32 scores, which may be changed.
Scores = Callable[[slice], np.ndarray]


def best_items(
    models: Sequence[Model], rows: np.ndarray, n: int, worth: np.ndarray, left_out: LeftOut = NOTHING
) -> Best:
    """The n columns with the greatest expected worth for each row, by the average of the models.

    ``worth``, (columns, L), is what each level counts.
    """
    shares, low, high = as_shares(worth)
    adding = [model.scorer(shares) for model in models]

    def scores(some: slice) -> np.ndarray:
        found = np.empty((rows[some].size, len(worth)), dtype=np.float32)
        found[:] = shares[:, 0]
        for add in adding:
            add(rows[some], found)
        return found

    # Beside the scores, there are a mean and a deviation, and what they are made of.
    best = to_records(*best_by_scores(scores, rows, n, len(worth), left_out, n_tables=4))
    return best._replace(score=low * (1.0 - best.score) + high * best.score)


def best_by_scores(
    scores: Scores, rows: np.ndarray, n: int, n_columns: int, left_out: LeftOut, n_tables: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, n) columns with the greatest scores, in order, and these; empty places have −∞.

    ``n_tables`` as large as the scores are there while these are computed.
    """
    n = min(n, n_columns)
    item = np.empty((rows.size, n), dtype=np.int32)
    score = np.empty((rows.size, n), dtype=np.float32)
    size = max(1, _BATCH_BYTES // (4 * n_tables * max(n_columns, 1)))
    for start in range(0, rows.size, size):
        some = slice(start, start + size)
        block = scores(some)
        left_out.take_from(block, rows[some])
        over_rows(_select, len(block), block, item[some], score[some])
    return item, score


def for_all(scores: np.ndarray, n_rows: int, n: int) -> Best:
    n = min(n, scores.size)
    near = np.flatnonzero(scores >= -np.partition(-scores, n - 1)[n - 1])  # and all that equal the last
    item = near[np.argsort(-scores[near], kind="stable")[:n]]
    item = item[scores[item] > -np.inf]
    rank, query = np.arange(1, item.size + 1), np.repeat(np.arange(n_rows), item.size)
    return Best(query, *(np.tile(part, n_rows) for part in (item, rank, scores[item])))


def concatenate(parts: Sequence[tuple[np.ndarray, Best]]) -> Best:
    """Recommendations for all rows, of which each part has those under a mask."""
    if len(parts) == 1 and parts[0][0].all():
        return parts[0][1]
    none = Best(*(np.zeros(0, dtype=kind) for kind in (np.intp, np.int32, np.intp, np.float64)))
    placed = [best._replace(query=np.flatnonzero(mask)[best.query]) for mask, best in parts]
    whole = Best(*(np.concatenate(columns) for columns in zip(none, *placed, strict=True)))
    order = np.argsort(whole.query, kind="stable")
    return Best(*(column[order] for column in whole))


def as_shares(worth: np.ndarray) -> tuple[np.ndarray, float, float]:
    """The worth of levels from 0 to 1, and what these stand for.

    Scores are float32, which has no room for large numbers nor for small differences of them.
    """
    low, high = float(worth.min()), float(worth.max())
    half = high / 2 - low / 2  # which is finite, whatever the numbers
    return (worth / 2 - low / 2) / (half or 1.0), low, high


def to_records(item: np.ndarray, score: np.ndarray) -> Best:
    """One line per recommendation; rows that have seen much may have fewer than others."""
    return Best(*_records(item, score))


def threshold_table(cutpoints: np.ndarray, n_levels: np.ndarray, worth: np.ndarray) -> ThresholdTable:
    """Thresholds of columns with such thresholds, whose levels are worth so much, from 0 to 1."""
    n_columns, width = worth.shape[0], worth.shape[1] - 1
    unused = thresholds.unused(n_levels[:n_columns], width)
    gaps = np.where(unused, 0.0, np.exp(cutpoints[:n_columns, :width]))
    gains = np.where(unused, 0.0, np.diff(worth, axis=1))
    return ThresholdTable(
        cutpoints[:n_columns, 0].astype(np.float32),
        np.ascontiguousarray(gaps.T, dtype=np.float32),
        np.ascontiguousarray(gains.T, dtype=np.float32),
    )


def scorer_by_utility(model: UtilityModel, worth: np.ndarray) -> AddScores:
    table = threshold_table(model.column_cutpoints, model.n_levels, worth)

    def add(rows: np.ndarray, scores: np.ndarray) -> None:
        mean = model.means_above(rows, table.first)
        per_deviation = model.inverse_deviations(rows, len(worth))
        mean *= per_deviation
        gaps = np.exp(model.row_cutpoints[rows]).astype(np.float32)
        arguments = mean, per_deviation, gaps, table, np.float32(model.share), scores
        over_rows(_add_worth, len(mean), *arguments)

    return add


# ---- by demand --------------------------------------------------------------------------------

# Given the places of rows and a number m: the m columns with the greatest demand of each, and what
# it is, in order; of empty places it is −∞.
MostWanted = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]
# Given places of rows and columns, pair by pair: how likely it is that the row would like it.
Chance = Callable[[np.ndarray, np.ndarray], np.ndarray]


def best_wanted(most_wanted: MostWanted, chance: Chance, n_rows: int, n_columns: int, n: int) -> Best:
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
            product = np.full(demand.shape, -np.inf)
            there = np.nonzero(demand > -np.inf)
            product[there] = demand[there] * chance(some[there[0]], wanted[there])
            order = np.argsort(-product, axis=1, kind="stable")[:, :n]
            item[some], score[some] = (np.take_along_axis(part, order, axis=1) for part in (wanted, product))
            # Those beyond have at most the demand of the last one that was looked at.
            is_open[start : start + size] = demand[:, -1] > score[some, -1]
        left, m = left[is_open & (m < n_columns)], _TIMES_MORE * m
    return to_records(item, score.astype(np.float32))


class Liking(NamedTuple):
    """How likely rows of one model with Gaussian factors like a column, as kernels see it."""

    rows: FactorPosterior
    columns: FactorPosterior
    lowest: np.ndarray  # (columns,) the lowest level that is liked


def best_liked(
    demand: DemandArrays,
    factors: np.ndarray,
    past: Past,
    row: np.ndarray,
    n: int,
    liking: Liking,
    left_out: LeftOut,
) -> Best:
    """What :func:`best_wanted` finds, in one call from rows to lists; ``factors`` are of all rows."""
    n_columns = len(demand[0])
    n = min(n, n_columns)
    item, score = np.empty((row.size, n), dtype=np.int32), np.empty((row.size, n), dtype=np.float32)
    what = (factors, past.arrays(), *demand, *left_out.arrays(), *liking)
    size = max(1, _BATCH_BYTES // (4 * max(n_columns, 1)))  # between blocks, Ctrl-C is heard
    for start in range(0, row.size, size):
        some = slice(start, start + size)
        over_rows(_best_liked, row[some].size, row[some], *what, item[some], score[some])
    return to_records(item, score)


# ---- kernels ----------------------------------------------------------------------------------


@compiled
def _best_liked(
    start, stop, row, factors, past, columns, neighbours, liked, sequence, exponents, least,
    seen_start, seen, closed, of_rows, of_columns, lowest, item, score,
):  # fmt: skip
    for r in range(start, stop):
        demand = columns, neighbours, liked, sequence, exponents, least
        left_out, liking = (seen_start, seen, closed), (of_rows, of_columns, lowest)
        _list_row(factors[row[r]], past, row[r], demand, left_out, liking, item[r], score[r])


@allocating_function
def _list_row(factors, past, d, demand, left_out, liking, item, score):
    columns, neighbours, liked, sequence, exponents, least = demand
    seen_start, seen, closed = left_out
    scores, best = np.empty(len(columns), dtype=np.float32), np.empty(score.size)
    set_demand(factors, past, d, columns, neighbours, liked, sequence, exponents, least, scores)
    for i in range(closed.size):
        if closed[i]:
            scores[i] = -np.inf
    if 0 <= d < seen_start.size - 1:
        _leave_out_row(scores, seen_start[d], seen_start[d + 1], seen)
    _choose_row(scores, exponents.size > 0, d, liking, item, best)
    for k in range(best.size):
        score[k] = best[k]


@allocating_function
def _choose_row(scores, are_logarithms, d, liking, found, best):
    rows, columns, lowest = liking
    n, m = best.size, max(_FIRST_LOOK * best.size, _AT_LEAST)
    while n:
        m = min(m, scores.size)
        wanted, demand = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.float32)
        _select_row(scores, wanted, demand)
        best[:], found[:] = -np.inf, -1
        own = np.float64(-np.inf)
        for k in range(m):
            own = np.float64(demand[k])
            if are_logarithms and own > -np.inf:
                own = np.exp(own)
            # A chance is at most one: what comes after is worth less than the worst found.
            if own == -np.inf or own <= best[0]:
                break
            i = wanted[k]
            mean, deviation = gaussian_moments(rows, columns, d, i)
            cutpoints, n_levels = columns.cutpoints[i], columns.n_levels[i]
            chance = chance_from(lowest[i], mean, deviation, rows.cutpoints[d], cutpoints, n_levels)
            product = own * chance
            if product > best[0]:
                _sift_down(best, found, n, product, i)
        # Those beyond have at most the demand of the last one that was looked at.
        if m == scores.size or own <= best[0]:
            break
        m *= _TIMES_MORE
    _sort_heap(best, found)


@allocating_kernel
def _records(item, score):
    n = 0
    for r in range(score.shape[0]):
        for k in range(score.shape[1]):
            n += score[r, k] > -np.inf
    query, place, rank = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    scores, n = np.empty(n), 0
    for r in range(score.shape[0]):
        for k in range(score.shape[1]):
            if score[r, k] > -np.inf:
                query[n], place[n], rank[n], scores[n] = r, item[r, k], k + 1, score[r, k]
                n += 1
    return query, place, rank, scores


@compiled
def _add_worth(start, stop, mean, per_deviation, gaps, table, share, scores):
    for row in range(start, stop):
        _add_worth_row(mean[row], per_deviation[row], gaps[row], table, share, scores[row])


@inlined
def _add_worth_row(mean, per_deviation, gaps, table, share, scores):
    # What is left of the mean above each threshold in turn, all columns at once.
    for m in range(table.gain.shape[0]):
        width, gain = table.width[m], table.gain[m]
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
def _normal_below(x):
    """Φ(x) in float32, without an exponential or a division."""
    root = _root_of_tail(np.float32(2.0 / _FAR) * min(abs(x), _FAR) - np.float32(1.0))
    square = root * root
    fourth = square * square
    tail = fourth * fourth
    return tail if x < np.float32(0.0) else np.float32(1.0) - tail


@compiled
def _leave_out(start, stop, scores, rows, row_start, column):
    for place in range(start, stop):
        row = rows[place]
        if 0 <= row < row_start.size - 1:
            _leave_out_row(scores[place], row_start[row], row_start[row + 1], column)


@inlined
def _leave_out_row(scores, start, stop, column):
    for entry in range(start, stop):
        scores[column[entry]] = -np.inf


@compiled
def _select(start, stop, scores, item, score):
    for row in range(start, stop):
        _select_row(scores[row], item[row], score[row])


@inlined
def _select_row(scores, item, best):
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
def _sort_heap(best, item):
    for last in range(best.size - 1, 0, -1):
        value, column = best[last], item[last]
        best[last], item[last] = best[0], item[0]
        _sift_down(best, item, last, value, column)


@inlined
def _sift_down(best, item, n, value, column):
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
def _is_worse(best, item, one, other):
    """Of equal ones the later is worse; an empty place is worse than any."""
    if best[one] == best[other]:
        return item[one] > item[other]
    return best[one] < best[other]


# ---- vectors ----------------------------------------------------------------------------------

# Between which shares of the scale a curve is looked at, and utilities that are out of reach.
_LOW, _HIGH, _FURTHEST = 0.4, 0.8, 50.0
_HALVINGS = 40


class Curves(NamedTuple):
    """How the expected rating of columns rises with the mean utility, for an average row."""

    thresholds: np.ndarray  # (columns, L − 1), infinite beyond a column's scale
    gains: np.ndarray  # (columns, L − 1) of the expected rating, at each threshold
    deviation: np.ndarray  # (columns,) of a utility

    @classmethod
    def of(
        cls,
        cutpoints: np.ndarray,
        n_levels: np.ndarray,
        row_gaps: np.ndarray,
        worth: np.ndarray,
        deviation: np.ndarray,
    ) -> Self:
        """Curves of columns with such cutpoints; ``worth``, (columns, L), is what levels count."""
        width = worth.shape[1] - 1
        steps = np.exp(cutpoints[:, :width] + row_gaps[:width])
        steps[:, :1] = cutpoints[:, :1]
        unused = thresholds.unused(n_levels, width)
        bounds = np.where(unused, np.inf, np.cumsum(steps, axis=1))
        gains = np.where(unused, 0.0, np.diff(worth, axis=1))
        return cls(bounds, gains, deviation)

    def at(self, utility: np.ndarray) -> np.ndarray:
        """(columns,) how much more than the lowest rating is expected where the mean utility is this."""
        above = ndtr((utility[:, None] - self.thresholds) / self.deviation[:, None])
        return (self.gains * above).sum(axis=1)

    def reaching(self, share: float) -> np.ndarray:
        """(columns,) utilities at which so much of the scale is expected."""
        goal = share * self.gains.sum(axis=1)
        low, high = np.full((2, goal.size), _FURTHEST) * np.array([[-1.0], [1.0]])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            is_below = self.at(middle) < goal
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return (low + high) / 2.0


def mean_deviation(rows: FactorPosterior, columns: FactorPosterior) -> np.ndarray:
    """(columns,) standard deviation of a utility, for an average row."""
    p, of_p = (rows.mean.astype(np.float64) ** 2).mean(axis=0), rows.variance.mean(axis=0)
    q, of_q = columns.mean.astype(np.float64) ** 2, columns.variance
    of_factors = (q + of_q)[:, 1:] @ of_p[1:] + of_q[:, 1:] @ p[1:]
    return np.sqrt(1.0 + of_p[0] + of_q[:, 0] + of_factors)


class Vectors(NamedTuple):
    """One line for each user and each item, in the order of ``users_`` and ``items_``."""

    users: np.ndarray  # (users, W) float32
    items: np.ndarray  # (items, W) float32


def vectors_of(
    row_biases: np.ndarray,
    row_factors: np.ndarray,
    column_biases: np.ndarray,
    column_factors: np.ndarray,
    curves: Curves,
) -> Vectors:
    ones = np.ones(len(row_biases))
    rows = np.column_stack([row_factors, row_biases, ones])
    low, high = curves.reaching(_LOW), curves.reaching(_HIGH)
    width, middle = np.maximum(high - low, 1e-6), (low + high) / 2.0
    bias = column_biases - middle
    columns = np.column_stack([column_factors, np.ones(bias.size), bias]) / width[:, None]
    return Vectors(rows.astype(np.float32), columns.astype(np.float32))

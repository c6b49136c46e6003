"""The half-sweep on CPU cores: Numba, parallel over rows, then over columns.

A phase has two passes. The row pass runs the Gibbs chain of each row and leaves one number per
answer (its expected utility; the densities at the ends of its level). The column pass sums these
into the statistics of each column, walking the column view. Every row and every column belongs to
one thread and is summed in its own order, so the result does not depend on how many threads there
are.

Where several processes have some of a row's answers each, the row pass is made in stages: what
answers tell the factors is added up over the processes before these are drawn, by all alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import prange
from scipy.special import gammaln

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import normal, normal32, thresholds
from ordinalrbm.engine.philox import Purpose, split_seed
from ordinalrbm.engine.side import AddUp, Batch, Side, Statistics, empty_statistics
from ordinalrbm.engine.sums import add_scaled, dot
from ordinalrbm.runtime.jit import compiled, inlined

_CLAMPED_UTILITY = int(Purpose.CLAMPED_UTILITY)
_CLAMPED_FACTOR = int(Purpose.CLAMPED_FACTOR)
_FREE_UTILITY = int(Purpose.FREE_UTILITY)
_FREE_FACTOR = int(Purpose.FREE_FACTOR)
# Mean-field: how often to extrapolate, and the slowest convergence that is believed.
EXTRAPOLATE_EVERY = 4
LARGEST_RATIO = np.float32(0.95)
_INITIAL_FACTOR = int(Purpose.INITIAL_FACTOR)
# Beyond this a unit is as good as certain; its odds must stay finite.
_LARGEST_ACTIVATION = 50.0
NOT_WANTED = np.zeros((0, 0), dtype=np.float32)


class _Draws(NamedTuple):
    """Which random draws a sweep makes: the seed's two words, the sweep, the Gibbs steps."""

    key0: np.uint64
    key1: np.uint64
    sweep: np.uint64
    gibbs_steps: int
    keep: np.float32


class _Scratch(NamedTuple):
    """Working memory of the threads, one row each, made before the loops."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    utility: np.ndarray
    at_low: np.ndarray
    at_high: np.ndarray
    uniform: np.ndarray
    activation: np.ndarray
    last_step: np.ndarray
    previous_step: np.ndarray
    log_ways: np.ndarray
    odds: np.ndarray


class _Answers(NamedTuple):
    """What the row pass tells the column pass about each answer of the batch.

    ``expected`` are running means of the rows' factors, if these are wanted.
    """

    utility: np.ndarray
    at_low: np.ndarray
    at_high: np.ndarray
    factors: np.ndarray
    expected: np.ndarray


def clamped_phase(
    side: Side,
    factors: np.ndarray,
    batch: Batch,
    expected: np.ndarray = NOT_WANTED,
    keep: float = 0.0,
    all_reduce: AddUp | None = None,
) -> Statistics:
    """Gibbs steps with the answers given, then the expectations given the last factors.

    ``expected`` (all rows, K), if given, is a running mean of the probabilities that the last
    factors were drawn with; so much of the old one is kept. With ``add_up``, rows have further
    answers in other processes, whose statistics are not in those that are returned.
    """
    return _phase(side, factors, batch, True, expected, keep, all_reduce)


def free_phase(
    side: Side, factors: np.ndarray, batch: Batch, all_reduce: AddUp | None = None
) -> Statistics:
    """Gibbs steps with the answers forgotten, then the expectations given the last factors."""
    return _phase(side, factors, batch, False, NOT_WANTED, 0.0, all_reduce)


def clamped_sweep(side: Side, factors: np.ndarray, batch: Batch) -> None:
    """Gibbs steps with the answers given, and nothing else."""
    _sweep(side, factors, batch, True)


def free_sweep(side: Side, factors: np.ndarray, batch: Batch) -> None:
    """Gibbs steps with the answers forgotten, and nothing else."""
    _sweep(side, factors, batch, False)


def _phase(
    side: Side, factors: np.ndarray, batch: Batch, clamped: bool, expected: np.ndarray, keep: float,
    all_reduce: AddUp | None,
) -> Statistics:  # fmt: skip
    statistics = empty_statistics(side)
    answers = _answers(side, batch)._replace(expected=expected)
    scratch = _scratch(side, batch)
    draws = _draws(batch)._replace(keep=np.float32(keep))
    if all_reduce is None:
        _row_pass(side, factors, batch.start, batch.stop, draws, clamped, scratch, answers)
    else:
        _staged_row_pass(side, factors, batch, draws, clamped, scratch, answers, all_reduce)
    _column_pass(side, batch.start, batch.stop, clamped, answers, statistics)
    return statistics


def _staged_row_pass(
    side: Side, factors: np.ndarray, batch: Batch, draws: _Draws, clamped: bool, scratch: _Scratch,
    answers: _Answers, all_reduce: AddUp,
) -> None:  # fmt: skip
    """The row pass of rows whose other answers are in other processes."""
    start, stop = batch.start, batch.stop
    answers.factors[:] = factors[start:stop]
    told = np.empty_like(answers.factors)
    for step in range(batch.gibbs_steps):
        _ask_answers(side, start, stop, draws, step, clamped, scratch, answers, told)
        all_reduce(told)
        _tell_factors(side, start, stop, draws, step, clamped, scratch, answers, told)
    factors[start:stop] = answers.factors
    _expect_answers(side, start, stop, clamped, scratch, answers)


def _sweep(side: Side, factors: np.ndarray, batch: Batch, clamped: bool) -> None:
    nothing = np.empty(0, dtype=np.float32)
    n_rows, n_factors = batch.stop - batch.start, side.factor_bias.size
    active = np.empty((n_rows, n_factors), dtype=np.float32)
    answers = _Answers(nothing, nothing, nothing, active, NOT_WANTED)
    scratch = _scratch(side, batch)
    _row_pass(side, factors, batch.start, batch.stop, _draws(batch), clamped, scratch, answers)


def _draws(batch: Batch) -> _Draws:
    return _Draws(
        *split_seed(batch.seed), np.uint64(batch.sweep), batch.gibbs_steps, np.float32(0.0)
    )


def _scratch(side: Side, batch: Batch) -> _Scratch:
    threads = numba.get_num_threads()
    length = np.diff(side.row_start[batch.start : batch.stop + 1])
    longest = int(length.max(initial=0)) + 4
    n_factors = side.factor_bias.size
    on = np.arange(side.units + 1.0)
    return _Scratch(
        mean=np.empty((threads, longest)),
        lower=np.empty((threads, longest), dtype=np.float32),
        upper=np.empty((threads, longest), dtype=np.float32),
        utility=np.empty((threads, longest), dtype=np.float32),
        at_low=np.empty((threads, longest), dtype=np.float32),
        at_high=np.empty((threads, longest), dtype=np.float32),
        uniform=np.empty((threads, max(longest, n_factors + 4))),
        activation=np.empty((threads, n_factors), dtype=np.float32),
        last_step=np.empty((threads, n_factors), dtype=np.float32),
        previous_step=np.empty((threads, n_factors), dtype=np.float32),
        # In how many ways so many units are on, and by what that grows with one more.
        log_ways=gammaln(side.units + 1.0) - gammaln(on + 1.0) - gammaln(side.units - on + 1.0),
        odds=(side.units - on) / (on + 1.0),
    )


def _answers(side: Side, batch: Batch) -> _Answers:
    n_entries = int(side.row_start[batch.stop] - side.row_start[batch.start])
    n_factors = side.factor_bias.size
    return _Answers(
        utility=np.empty(n_entries, dtype=np.float32),
        at_low=np.empty(n_entries, dtype=np.float32),
        at_high=np.empty(n_entries, dtype=np.float32),
        factors=np.empty((batch.stop - batch.start, n_factors), dtype=np.float32),
        expected=NOT_WANTED,
    )


@inlined
def _fill_uniforms(out: Any, n: Any, row: Any, draws: Any, step: Any, purpose: Any) -> None:
    """Fill out[:n] (and up to three places beyond) with the uniform numbers of a row."""
    stream = np.uint64(purpose | (step << 8))
    for block in range((n + 3) // 4):
        w0, w1, w2, w3 = normal.philox(
            np.uint64(row), np.uint64(block), draws.sweep, stream, draws.key0, draws.key1
        )
        out[4 * block] = normal.uniform(w0)
        out[4 * block + 1] = normal.uniform(w1)
        out[4 * block + 2] = normal.uniform(w2)
        out[4 * block + 3] = normal.uniform(w3)


@inlined
def _fill_uniforms_at(
    out: Any, position: Any, first: Any, n: Any, row: Any, draws: Any, step: Any, purpose: Any
) -> None:
    """Fill out[:n] with the uniform numbers of a row at some positions; neighbours share blocks."""
    stream = np.uint64(purpose | (step << 8))
    w0 = w1 = w2 = w3 = np.uint64(0)
    drawn = np.int64(-1)
    for e in range(n):
        block, which = np.int64(position[first + e]) >> 2, position[first + e] & 3
        if block != drawn:
            w0, w1, w2, w3 = normal.philox(
                np.uint64(row), np.uint64(block), draws.sweep, stream, draws.key0, draws.key1
            )
            drawn = block
        low, high = (w0, w1) if which < 2 else (w2, w3)
        out[e] = normal.uniform(high if which & 1 else low)


@inlined
def _row_number(side: Any, row: Any) -> Any:
    return np.int64(side.row_number[row]) if side.row_number.size > 0 else np.int64(row)


@inlined
def _conditional_means(side: Any, first: Any, n: Any, active: Any, mean: Any) -> None:
    for e in range(n):
        i = side.column[first + e]
        mean[e] = np.float64(side.bias[i]) + dot(side.weights[i], active)
    if side.offset.size > 0:
        for e in range(n):
            mean[e] += side.offset[first + e]


@inlined
def _row_stretch(side: Any, row: Any) -> Any:
    return np.float64(side.stretch[row]) if side.stretch.size > 0 else 1.0


@inlined
def _stretched_bounds(side: Any, entry: Any, stretch: Any, mean: Any) -> Any:
    i, level = side.column[entry], np.intp(side.level[entry])
    low, high = side.thresholds[i, level], side.thresholds[i, level + 1]
    return stretch * low - mean, stretch * high - mean


@inlined
def _bounds(side: Any, row: Any, entry: Any, mean: Any) -> Any:
    """Ends of an answer's level, seen from the mean of its utility."""
    if side.row_gaps.size == 0:
        return _stretched_bounds(side, entry, _row_stretch(side, row), mean)
    i, level = side.column[entry], np.intp(side.level[entry])
    low, high = thresholds.bounds_from_table(side.thresholds[i], side.row_gaps[row], level)
    return low - mean, high - mean


@inlined
def _level_bounds(
    side: Any, first: Any, n: Any, row: Any, mean: Any, lower: Any, upper: Any
) -> None:
    for e in range(n):
        low, high = _bounds(side, row, first + e, mean[e])
        lower[e] = np.float32(low)
        upper[e] = np.float32(high)


# All answers of a row are computed in float32 lanes; the few that are not ordinary there, because
# their interval is narrow or far out, are computed again in float64.


@inlined
def _draw_clamped(
    side: Any, first: Any, n: Any, row: Any, mean: Any, lower: Any, upper: Any, uniform: Any,
    utility: Any,
) -> None:  # fmt: skip
    """Utilities given the levels."""
    for e in range(n):
        drawn = normal32.truncated_draw(lower[e], upper[e], np.float32(uniform[e]))
        utility[e] = np.float32(mean[e]) + drawn
    for e in range(n):
        if not normal32.ordinary(lower[e], upper[e]):
            low, high = _bounds(side, row, first + e, mean[e])
            utility[e] = np.float32(mean[e] + normal.truncated_draw(low, high, uniform[e]))


@inlined
def _expect_clamped(
    side: Any, first: Any, n: Any, row: Any, mean: Any, lower: Any, upper: Any, at_low: Any,
    at_high: Any, utility: Any,
) -> None:  # fmt: skip
    """Expected utilities given the levels, and the densities at the levels' ends."""
    for e in range(n):
        low, high, shift = normal32.edge_densities(lower[e], upper[e])
        at_low[e] = low
        at_high[e] = high
        utility[e] = np.float32(mean[e]) + shift
    for e in range(n):
        if not normal32.ordinary(lower[e], upper[e]):
            low_end, high_end = _bounds(side, row, first + e, mean[e])
            exact_low, exact_high, exact_shift = normal.edge_densities(low_end, high_end)
            at_low[e] = np.float32(exact_low)
            at_high[e] = np.float32(exact_high)
            utility[e] = np.float32(mean[e] + exact_shift)


@inlined
def _activations(side: Any, first: Any, n: Any, utility: Any, activation: Any) -> None:
    for k in range(activation.size):
        activation[k] = side.factor_bias[k]
    _add_told(side, first, n, utility, activation)


@inlined
def _add_told(side: Any, first: Any, n: Any, utility: Any, activation: Any) -> None:
    """Add what utilities tell the factors."""
    for e in range(n):
        add_scaled(activation, utility[e], side.weights[side.column[first + e]])


# The bodies of the two passes are functions of their own. Numba's parallel loops remove stores
# into members of a tuple as dead code; a call is left alone.


@compiled(parallel=True)
def _row_pass(
    side: Any, factors: Any, start: Any, stop: Any, draws: Any, clamped: Any, scratch: Any,
    answers: Any,
) -> None:  # fmt: skip
    for row in prange(start, stop):
        _sweep_row(side, factors, row, start, draws, clamped, scratch, answers)


@compiled(parallel=True)
def _column_pass(
    side: Any, start: Any, stop: Any, clamped: Any, answers: Any, statistics: Any
) -> None:
    for column in prange(side.bias.size):
        _sum_column(side, column, start, stop, clamped, answers, statistics)
    _sum_factors(side, start, stop, answers, statistics)


@compiled(parallel=True)
def _ask_answers(
    side: Any, start: Any, stop: Any, draws: Any, step: Any, clamped: Any, scratch: Any,
    answers: Any, told: Any,
) -> None:  # fmt: skip
    """First stage: draw the utilities of a batch, and sum what they tell the factors."""
    for row in prange(start, stop):
        _ask_row(
            side, row, draws, step, clamped, scratch, answers.factors[row - start],
            told[row - start],
        )  # fmt: skip


@compiled(parallel=True)
def _tell_factors(
    side: Any, start: Any, stop: Any, draws: Any, step: Any, clamped: Any, scratch: Any,
    answers: Any, told: Any,
) -> None:  # fmt: skip
    """Second stage: draw the factors by what the answers in all processes have told them."""
    for row in prange(start, stop):
        _tell_row(
            side, row, draws, step, clamped, scratch, answers.factors[row - start],
            told[row - start], answers.expected,
        )  # fmt: skip


@compiled(parallel=True)
def _expect_answers(
    side: Any, start: Any, stop: Any, clamped: Any, scratch: Any, answers: Any
) -> None:
    """Last stage: what is expected of the answers that are here."""
    for row in prange(start, stop):
        _expect_row(side, row, start, clamped, scratch, answers)


@inlined
def _sweep_row(
    side: Any, factors: Any, row: Any, start: Any, draws: Any, clamped: Any, scratch: Any,
    answers: Any,
) -> None:  # fmt: skip
    thread = numba.get_thread_id()
    utility, activation = scratch.utility[thread], scratch.activation[thread]
    active = answers.factors[row - start]
    first = side.row_start[row]
    n = side.row_start[row + 1] - first
    for k in range(active.size):
        active[k] = np.float32(factors[row, k])
    for step in range(draws.gibbs_steps):
        _draw_utilities(side, row, draws, step, clamped, scratch, active)
        _activations(side, first, n, utility, activation)
        _move_factors(
            side, row, draws, step, clamped, scratch, activation, active, answers.expected
        )
    for k in range(active.size):
        factors[row, k] = active[k]
    if answers.utility.size > 0:  # a plain sweep asks for no expectations
        _expect_row(side, row, start, clamped, scratch, answers)


@inlined
def _ask_row(
    side: Any, row: Any, draws: Any, step: Any, clamped: Any, scratch: Any, active: Any, told: Any
) -> None:
    first = side.row_start[row]
    n = side.row_start[row + 1] - first
    _draw_utilities(side, row, draws, step, clamped, scratch, active)
    for k in range(told.size):
        told[k] = np.float32(0.0)
    _add_told(side, first, n, scratch.utility[numba.get_thread_id()], told)


@inlined
def _tell_row(
    side: Any, row: Any, draws: Any, step: Any, clamped: Any, scratch: Any, active: Any, told: Any,
    expected: Any,
) -> None:  # fmt: skip
    for k in range(told.size):
        told[k] += side.factor_bias[k]
    _move_factors(side, row, draws, step, clamped, scratch, told, active, expected)


@inlined
def _draw_utilities(
    side: Any, row: Any, draws: Any, step: Any, clamped: Any, scratch: Any, active: Any
) -> None:
    """Draw the utilities of a row's answers given its factors, into the thread's memory."""
    thread = numba.get_thread_id()
    mean, utility = scratch.mean[thread], scratch.utility[thread]
    lower, upper = scratch.lower[thread], scratch.upper[thread]
    uniform = scratch.uniform[thread]
    first = side.row_start[row]
    n = side.row_start[row + 1] - first
    _conditional_means(side, first, n, active, mean)
    purpose = _CLAMPED_UTILITY if clamped else _FREE_UTILITY
    number = _row_number(side, row)
    if side.position.size > 0:
        _fill_uniforms_at(uniform, side.position, first, n, number, draws, step, purpose)
    else:
        _fill_uniforms(uniform, n, number, draws, step, purpose)
    if clamped:
        _level_bounds(side, first, n, row, mean, lower, upper)
        _draw_clamped(side, first, n, row, mean, lower, upper, uniform, utility)
    else:
        for e in range(n):
            utility[e] = np.float32(mean[e]) + normal32.standard_normal(np.float32(uniform[e]))


@inlined
def _move_factors(
    side: Any, row: Any, draws: Any, step: Any, clamped: Any, scratch: Any, activation: Any,
    active: Any, expected: Any,
) -> None:  # fmt: skip
    """Draw a row's factors given their activation, which is lost."""
    uniform = scratch.uniform[numba.get_thread_id()]
    purpose = _CLAMPED_FACTOR if clamped else _FREE_FACTOR
    _fill_uniforms(uniform, active.size, _row_number(side, row), draws, step, purpose)
    if expected.size > 0 and step == draws.gibbs_steps - 1:
        _follow(expected[row], activation, side.units, draws.keep)
    _draw_factors(activation, uniform, side.units, scratch, active)


@inlined
def _follow(expected: Any, activation: Any, units: Any, keep: Any) -> None:
    """Move the running mean of a row's factors to where its last utilities put them."""
    for k in range(expected.size):
        new = np.float32(units) * normal32.logistic(activation[k])
        expected[k] = keep * expected[k] + (np.float32(1.0) - keep) * new


@inlined
def _draw_factors(activation: Any, uniform: Any, units: Any, scratch: Any, active: Any) -> None:
    if units > 1:
        for k in range(active.size):
            active[k] = _units_on(activation[k], uniform[k], units, scratch.log_ways, scratch.odds)
        return
    for k in range(active.size):
        activation[k] = normal32.logistic(activation[k])
    for k in range(active.size):
        active[k] = np.float32(1.0) if uniform[k] < activation[k] else np.float32(0.0)


@inlined
def _units_on(activation: Any, uniform: Any, units: Any, log_ways: Any, odds: Any) -> Any:
    """How many of the units are on: inversion, counting from the most likely number outwards.

    That takes about as many steps as the standard deviation is large.
    """
    a = min(max(np.float64(activation), -_LARGEST_ACTIVATION), _LARGEST_ACTIVATION)
    growth = np.exp(a)
    below = above = np.intp(units * (growth / (1.0 + growth)))
    log_all_off = -units * np.log1p(growth)
    at_below = at_above = np.exp(log_ways[above] + above * a + log_all_off)
    rest = uniform - at_above
    if rest < 0.0:
        return np.float32(above)
    start = above
    while below > 0 or above < units:
        if above < units:
            at_above *= odds[above] * growth
            above += 1
            rest -= at_above
            if rest < 0.0:
                return np.float32(above)
        if below > 0:
            below -= 1
            at_below /= odds[below] * growth
            rest -= at_below
            if rest < 0.0:
                return np.float32(below)
    return np.float32(start)  # the probabilities' sum fell short of one by rounding


@inlined
def _expect_row(side: Any, row: Any, start: Any, clamped: Any, scratch: Any, answers: Any) -> None:
    """Leave the expected utility of each answer of a row, and the densities at its ends."""
    thread = numba.get_thread_id()
    mean, lower, upper = scratch.mean[thread], scratch.lower[thread], scratch.upper[thread]
    first = side.row_start[row]
    n = side.row_start[row + 1] - first
    here = first - side.row_start[start]
    utility = answers.utility[here : here + n]
    _conditional_means(side, first, n, answers.factors[row - start], mean)
    if not clamped:
        for e in range(n):
            utility[e] = mean[e]
        return
    at_low, at_high = answers.at_low[here : here + n], answers.at_high[here : here + n]
    _level_bounds(side, first, n, row, mean, lower, upper)
    _expect_clamped(side, first, n, row, mean, lower, upper, at_low, at_high, utility)


@inlined
def _first_at_or_after(values: Any, low: Any, high: Any, bound: Any) -> Any:
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _sum_column(
    side: Any, i: Any, start: Any, stop: Any, clamped: Any, answers: Any, statistics: Any
) -> None:
    """Sum the batch's answers of one column, in the order of the rows."""
    weighted = side.row_weight.size > 0
    first_of_batch = side.row_start[start]
    end = side.column_start[i + 1]
    total, thresholds = statistics.weights[i], statistics.thresholds[i]
    place = _first_at_or_after(side.entry_row, side.column_start[i], end, start)
    while place < end and side.entry_row[place] < stop:
        row = side.entry_row[place]
        entry = side.entry[place] - first_of_batch
        weight = side.row_weight[row] if weighted else np.float32(1.0)
        utility = weight * answers.utility[entry]
        add_scaled(total, utility, answers.factors[row - start])
        statistics.bias[i] += utility
        statistics.answers[i] += weight
        if clamped:
            level = np.intp(side.level[side.entry[place]])
            at_low, at_high = weight * answers.at_low[entry], weight * answers.at_high[entry]
            if side.row_gaps.size > 0:
                _add_to_cutpoints(side.row_gaps[row], level, at_low, at_high, thresholds)
            else:
                stretch = np.float32(_row_stretch(side, row))
                thresholds[level] -= stretch * at_low
                thresholds[level + 1] += stretch * at_high
        place += 1


@inlined
def _add_to_cutpoints(
    cutpoints: Any, level: Any, at_low: Any, at_high: Any, thresholds: Any
) -> None:
    """Gradient of an answer by each step below its ends; see :func:`_ends`."""
    for m in range(1, level):
        thresholds[m] += cutpoints[m] * (at_high - at_low)
    if level > 0 and at_high > np.float32(0.0):
        thresholds[level] += cutpoints[level] * at_high


@inlined
def _sum_factors(side: Any, start: Any, stop: Any, answers: Any, statistics: Any) -> None:
    weighted = side.row_weight.size > 0
    for row in range(stop - start):
        weight = side.row_weight[start + row] if weighted else np.float32(1.0)
        add_scaled(statistics.factor_bias, weight, answers.factors[row])


def mean_field(
    side: Side,
    probabilities: np.ndarray,
    tolerance: float,
    max_iterations: int,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """Fixed point of the factor probabilities; in place. Returns the last change of each row.

    Only of some ``rows``, if these are given; the others stay, with no change.
    """
    rows = np.arange(side.n_rows) if rows is None else rows
    change = np.zeros(side.n_rows, dtype=np.float32)
    scratch = _scratch(side, Batch(0, side.n_rows, 0, 0, 0))
    _mean_field(side, rows, probabilities, tolerance, max_iterations, scratch, change)
    return change


@compiled(parallel=True)
def _mean_field(
    side: Any, rows: Any, probabilities: Any, tolerance: Any, max_iterations: Any, scratch: Any,
    change: Any,
) -> None:  # fmt: skip
    for place in prange(rows.size):
        row = rows[place]
        change[row] = _mean_field_row(
            side, row, probabilities[row], tolerance, max_iterations, scratch
        )


@inlined
def _mean_field_row(
    side: Any, row: Any, active: Any, tolerance: Any, max_iterations: Any, scratch: Any
) -> Any:
    thread = numba.get_thread_id()
    mean, utility = scratch.mean[thread], scratch.utility[thread]
    lower, upper = scratch.lower[thread], scratch.upper[thread]
    at_low, at_high = scratch.at_low[thread], scratch.at_high[thread]
    activation, last_step = scratch.activation[thread], scratch.last_step[thread]
    previous = scratch.previous_step[thread]
    first = side.row_start[row]
    n = side.row_start[row + 1] - first
    change = np.float32(np.inf)
    iteration = 0
    while change > tolerance and iteration < max_iterations:
        _conditional_means(side, first, n, active, mean)
        _level_bounds(side, first, n, row, mean, lower, upper)
        _expect_clamped(side, first, n, row, mean, lower, upper, at_low, at_high, utility)
        _activations(side, first, n, utility, activation)
        iteration += 1
        change = _move_to_fixed_point(side.units, active, activation, last_step)
        # Not at the end: the change that is reported must be that of the point returned.
        if iteration % EXTRAPOLATE_EVERY == 0 and tolerance < change and iteration < max_iterations:
            _extrapolate(side.units, active, last_step, previous)
        for k in range(active.size):
            previous[k] = last_step[k]
    return change


@inlined
def _move_to_fixed_point(units: Any, active: Any, activation: Any, last_step: Any) -> Any:
    """Replace the factors by their update; returns the largest change."""
    change = np.float32(0.0)
    for k in range(active.size):
        last_step[k] = np.float32(units) * normal32.logistic(activation[k]) - active[k]
        active[k] += last_step[k]
        change = max(change, abs(last_step[k]))
    return change


@inlined
def _extrapolate(units: Any, active: Any, last_step: Any, previous: Any) -> None:
    """Add the rest of a geometric series of steps at once (Aitken).

    When factors lean on each other, steps shrink by about the same ratio each time.
    """
    ratio = min(dot(last_step, previous) / dot(previous, previous), LARGEST_RATIO)
    if ratio > np.float32(0.0):
        rest = ratio / (np.float32(1.0) - ratio)
        for k in range(active.size):
            jumped = active[k] + rest * last_step[k]
            active[k] = min(max(jumped, np.float32(0.0)), np.float32(units))


def add_probabilities(
    side: Side,
    factors: np.ndarray,
    row_start: np.ndarray,
    column: np.ndarray,
    total: np.ndarray,
    spread: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> None:
    """Add P(level | factors) of the cells in ``row_start``, ``column`` to ``total`` (cells, L).

    ``spread`` is the standard deviation of each cell's utility, ``weight`` how much each row
    counts; without them, they are one.
    """
    nothing = np.zeros(0)
    spread, weight = (nothing if given is None else given for given in (spread, weight))
    _add_probabilities(side, factors, row_start, column, total, spread, weight)


@compiled(parallel=True)
def _add_probabilities(
    side: Any, factors: Any, row_start: Any, column: Any, total: Any, spread: Any, weight: Any
) -> None:
    for row in prange(row_start.size - 1):
        share = weight[row] if weight.size > 0 else 1.0
        if share > 0.0:
            _add_probabilities_row(side, row, factors[row], row_start, column, total, spread, share)


@inlined
def _add_probabilities_row(
    side: Any, row: Any, active: Any, row_start: Any, column: Any, total: Any, spread: Any,
    share: Any,
) -> None:  # fmt: skip
    stretch = _row_stretch(side, row)
    for cell in range(row_start[row], row_start[row + 1]):
        i = column[cell]
        weights = side.weights[i]
        mean = np.float64(side.bias[i])
        for k in range(active.size):
            mean += weights[k] * np.float32(active[k])
        scale = 1.0 / spread[cell] if spread.size > 0 else 1.0
        for level in range(total.shape[1]):
            lower = (stretch * side.thresholds[i, level] - mean) * scale
            upper = (stretch * side.thresholds[i, level + 1] - mean) * scale
            if lower < upper:
                total[cell, level] += share * normal.mass(lower, upper)


def fill_offsets(
    observations: Observations,
    weights: np.ndarray,
    bias: np.ndarray,
    factors: np.ndarray,
    offset: np.ndarray,
) -> None:
    """What the rows' own parameters and the columns' factors make of each answer's mean."""
    _fill_offsets(observations.row_start, observations.column, weights, bias, factors, offset)


@compiled(parallel=True)
def _fill_offsets(
    row_start: Any, column: Any, weights: Any, bias: Any, factors: Any, offset: Any
) -> None:
    for row in prange(row_start.size - 1):
        for entry in range(row_start[row], row_start[row + 1]):
            offset[entry] = bias[row] + dot(weights[row], factors[column[entry]])


def log_levels(
    side: Side, factors: np.ndarray, start: int, stop: int, stretches: np.ndarray
) -> np.ndarray:
    """(rows, G) log P(the row's answers | its factors), were its levels' ends so far apart."""
    result = np.zeros((stop - start, stretches.size))
    scratch = _scratch(side, Batch(start, stop, 0, 0, 0))
    _log_levels(side, factors, start, stop, stretches, scratch, result)
    return result


@compiled(parallel=True)
def _log_levels(
    side: Any, factors: Any, start: Any, stop: Any, stretches: Any, scratch: Any, result: Any
) -> None:
    for row in prange(start, stop):
        _log_levels_row(side, factors, row, stretches, scratch, result[row - start])


@inlined
def _log_levels_row(
    side: Any, factors: Any, row: Any, stretches: Any, scratch: Any, result: Any
) -> None:
    thread = numba.get_thread_id()
    mean, active = scratch.mean[thread], scratch.activation[thread]
    first = side.row_start[row]
    n = side.row_start[row + 1] - first
    for k in range(active.size):
        active[k] = np.float32(factors[row, k])
    _conditional_means(side, first, n, active, mean)
    for g in range(stretches.size):
        total = 0.0
        for e in range(n):
            low, high = _stretched_bounds(side, first + e, stretches[g], mean[e])
            total += normal.log_mass(low, high)
        result[g] = total


def half_squares(side: Side, factors: np.ndarray) -> np.ndarray:
    """(rows,) half the sum of the squared mean utilities: what couples the factors in log P*(h)."""
    result = np.zeros(side.n_rows)
    _half_squares(side, factors, _scratch(side, Batch(0, side.n_rows, 0, 0, 0)), result)
    return result


@compiled(parallel=True)
def _half_squares(side: Any, factors: Any, scratch: Any, result: Any) -> None:
    for row in prange(result.size):
        result[row] = _half_squares_row(side, factors[row], row, scratch)


@inlined
def _half_squares_row(side: Any, active: Any, row: Any, scratch: Any) -> Any:
    mean = scratch.mean[numba.get_thread_id()]
    first = side.row_start[row]
    n = side.row_start[row + 1] - first
    _conditional_means(side, first, n, active, mean)
    total = 0.0
    for e in range(n):
        total += 0.5 * mean[e] * mean[e]
    return total


def log_importance_weights(
    side: Side, clamped: bool, inverse_temperatures: np.ndarray, n_chains: int, seed: int
) -> np.ndarray:
    """Annealed importance sampling: (rows, chains) log weights of Z relative to independence.

    Weights are multiplied by a number that goes from 0 to 1 along ``inverse_temperatures``; at 0
    the factors are independent and their sum is known.
    """
    log_weights = np.zeros((side.n_rows, n_chains))
    batch = Batch(0, side.n_rows, seed, 0, 1)
    scratch = _scratch(side, batch)
    active = np.empty((numba.get_num_threads(), side.factor_bias.size), dtype=np.float32)
    draws = _draws(batch)
    _anneal(side, clamped, inverse_temperatures, draws, scratch, active, log_weights)
    return log_weights


@compiled(parallel=True)
def _anneal(
    side: Any, clamped: Any, betas: Any, draws: Any, scratch: Any, active: Any, log_weights: Any
) -> None:
    n_chains = log_weights.shape[1]
    for task in prange(log_weights.size):
        row, chain = task // n_chains, task % n_chains
        log_weights[row, chain] = _anneal_chain(
            side, clamped, betas, draws, scratch, active, row, task
        )


@inlined
def _anneal_chain(
    side: Any, clamped: Any, betas: Any, draws: Any, scratch: Any, all_active: Any, row: Any,
    stream: Any,
) -> Any:  # fmt: skip
    thread = numba.get_thread_id()
    product, utility = scratch.mean[thread], scratch.utility[thread]
    activation, uniform = scratch.activation[thread], scratch.uniform[thread]
    active = all_active[thread]
    first = side.row_start[row]
    n = side.row_start[row + 1] - first
    for k in range(active.size):
        activation[k] = side.factor_bias[k]
    _fill_uniforms(uniform, active.size, stream, draws, 0, _INITIAL_FACTOR)
    _draw_factors(activation, uniform, side.units, scratch, active)
    total = 0.0
    for t in range(1, betas.size):
        for e in range(n):
            product[e] = dot(side.weights[side.column[first + e]], active)
        total += _log_ratio(side, clamped, first, n, row, product, betas[t - 1], betas[t])
        _fill_uniforms(uniform, n, stream, draws, t, _CLAMPED_UTILITY)
        for e in range(n):
            i = side.column[first + e]
            mean = side.bias[i] + betas[t] * product[e]
            if side.offset.size > 0:
                mean += side.offset[first + e]
            if clamped:
                lower, upper = _bounds(side, row, first + e, mean)
                drawn = normal.truncated_draw(lower, upper, uniform[e])
            else:
                drawn = normal.standard_normal(uniform[e])
            # The annealed weights meet the utility again in the factors' activation.
            utility[e] = np.float32(betas[t] * (mean + drawn))
        _activations(side, first, n, utility, activation)
        _fill_uniforms(uniform, active.size, stream, draws, t, _CLAMPED_FACTOR)
        _draw_factors(activation, uniform, side.units, scratch, active)
    return total


@inlined
def _log_ratio(
    side: Any, clamped: Any, first: Any, n: Any, row: Any, product: Any, old: Any, new: Any
) -> Any:
    """Log of the unnormalised probability of the factors at one temperature over another."""
    total = 0.0
    for e in range(n):
        i = side.column[first + e]
        base = np.float64(side.bias[i])
        if side.offset.size > 0:
            base += side.offset[first + e]
        before, after = base + old * product[e], base + new * product[e]
        total += 0.5 * (after - before) * (after + before)
        if clamped:
            low, high = _bounds(side, row, first + e, 0.0)
            total += normal.log_mass(low - after, high - after)
            total -= normal.log_mass(low - before, high - before)
    return total

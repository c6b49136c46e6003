"""Gibbs chains of binary factors on CPU cores, in threads over rows, then over columns.

The row pass of a phase runs the Gibbs chain of each row and leaves a few numbers per answer. The
column pass sums these into the statistics of each column. Every row and every column belongs to one
thread and is summed in its own order, so the result does not depend on how many threads there are.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ordinalrbm.engine import philox, thresholds
from ordinalrbm.engine.normal import double, next_inaccurate, single
from ordinalrbm.engine.philox import Purpose, split_seed
from ordinalrbm.engine.side import CATEGORY, NUMBER, Batch, Side, Statistics, empty_statistics
from ordinalrbm.engine.thresholds import add_scaled, dot
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import compiled, inlined, kernel_function

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
    """Working memory of a thread."""

    mean: np.ndarray
    warm: np.ndarray
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
    """What the row pass leaves about each answer of the batch, for the column pass.

    ``beyond`` is by how much utilities are expected to be above their means given the factors,
    if there are covariates; ``expected`` are running means of the rows' factors, if wanted.
    """

    utility: np.ndarray
    at_low: np.ndarray
    at_high: np.ndarray
    beyond: np.ndarray
    factors: np.ndarray
    expected: np.ndarray


def clamped_phase(
    side: Side, factors: np.ndarray, batch: Batch, expected: np.ndarray = NOT_WANTED, keep: float = 0.0
) -> Statistics:
    """Gibbs steps with the answers given, then the expectations given the last factors.

    Changes ``factors`` in place and returns the statistics. ``expected`` (all rows, K), if given,
    is a running mean of the probabilities that the last factors were drawn with, of which a share
    ``keep`` stays.
    """
    return _phase(side, factors, batch, True, expected, keep)


def free_phase(side: Side, factors: np.ndarray, batch: Batch) -> Statistics:
    """Gibbs steps without the answers, then the expectations given the last factors."""
    return _phase(side, factors, batch, False, NOT_WANTED, 0.0)


def clamped_sweep(side: Side, factors: np.ndarray, batch: Batch) -> None:
    """Gibbs steps with the answers given, without expectations."""
    _pass_over_rows(side, factors, batch, True, n_expected=0)


def free_sweep(side: Side, factors: np.ndarray, batch: Batch) -> None:
    _pass_over_rows(side, factors, batch, False, n_expected=0)


def _phase(
    side: Side, factors: np.ndarray, batch: Batch, clamped: bool, expected: np.ndarray, keep: float
) -> Statistics:
    statistics = empty_statistics(side)
    n_entries = int(side.row_start[batch.stop] - side.row_start[batch.start])
    answers = _pass_over_rows(side, factors, batch, clamped, n_entries, expected, keep)
    arguments = side, batch.start, batch.stop, clamped, answers, statistics
    over_rows(_column_pass, side.bias.size, *arguments)
    return statistics


def _pass_over_rows(
    side: Side,
    factors: np.ndarray,
    batch: Batch,
    clamped: bool,
    n_expected: int,
    expected: np.ndarray = NOT_WANTED,
    keep: float = 0.0,
) -> _Answers:
    """Move the factors of a batch; what is left of so many answers."""
    n_rows = batch.stop - batch.start
    batch_factors = np.empty((n_rows, side.factor_bias.size), dtype=np.float32)
    utility, at_low, at_high = np.empty((3, n_expected), dtype=np.float32)
    beyond = np.empty(n_expected if side.covariates.size else 0, dtype=np.float32)
    answers = _Answers(utility, at_low, at_high, beyond, batch_factors, expected)
    arguments = side, factors, batch.start, draws_of(batch, keep), clamped, answers
    over_rows(_row_pass, n_rows, *arguments, scratch=scratch_for(side, batch.start, batch.stop))
    return answers


def draws_of(batch: Batch, keep: float = 0.0) -> _Draws:
    """The names of a batch's random draws, in the types of the kernels."""
    key0, key1 = split_seed(batch.seed)
    return _Draws(key0, key1, np.uint64(batch.sweep), batch.gibbs_steps, np.float32(keep))


def scratch_for(side: Side, start: int, stop: int) -> Callable[[], _Scratch]:
    longest = int(np.diff(side.row_start[start : stop + 1]).max(initial=0)) + 4
    # In how many ways so many units are on, and by what that grows with one more.
    on = np.arange(side.units + 1.0)
    log_ways = gammaln(side.units + 1.0) - gammaln(on + 1.0) - gammaln(side.units - on + 1.0)
    odds = (side.units - on) / (on + 1.0)
    return partial(_scratch, longest, side.factor_bias.size, log_ways, odds)


def _scratch(longest: int, n_factors: int, log_ways: np.ndarray, odds: np.ndarray) -> _Scratch:
    in_double, uniform = np.empty((4, longest)), np.empty(max(longest, n_factors + 4))
    of_answers = np.empty((3, longest), dtype=np.float32)
    of_factors = np.empty((3, n_factors), dtype=np.float32)
    return _Scratch._make([*in_double, *of_answers, uniform, *of_factors, log_ways, odds])


# ---- categories of nominal questions: neighbours in a row, of which one is chosen ----------------
# P(category l) is proportional to exp(mean_l), where the means are those that the columns of the
# categories have given the factors.


@inlined
def log_sum(mean, first, n):
    """Logarithm of the sum of exponentials of n means, the first of them at a place."""
    largest = mean[first]
    for e in range(first + 1, first + n):
        largest = max(largest, mean[e])
    total = 0.0
    for e in range(first, first + n):
        total += np.exp(mean[e] - largest)
    return largest + np.log(total)


@inlined
def _expect_choice(mean, first, n, utility):
    """Replace the utilities of n categories by their probabilities."""
    whole = log_sum(mean, first, n)
    for e in range(first, first + n):
        utility[e] = np.exp(mean[e] - whole)


@inlined
def _draw_choice(mean, first, n, uniform, utility):
    """Draw one of n categories: its utility is one, that of the others zero."""
    whole = log_sum(mean, first, n)
    rest, chosen = uniform, n - 1
    for c in range(n):
        rest -= np.exp(mean[first + c] - whole)
        if rest < 0.0:
            chosen = c
            break
    for c in range(n):
        utility[first + c] = 1.0 if c == chosen else 0.0


@inlined
def known_utility(value, kind, bounds, shift, entry):
    """Utility of a number, beyond what the row adds to it, or whether a category was chosen."""
    utility = np.float64(value)
    if kind == NUMBER:
        utility *= bounds[1]
        if shift.size > 0:
            utility -= np.float64(shift[entry])
    return utility


@inlined
def has_kinds(side):
    return side.members.size > 0


# ---- utilities and factors of a row -------------------------------------------------------------


@inlined
def fill_uniforms(out, n, row, draws, step, purpose):
    """Fill out[:n] (and up to three places beyond) with the uniform numbers of a row."""
    stream = purpose | (step << 8)
    philox.fill_uniforms(out, n, row, draws.sweep, stream, draws.key0, draws.key1)


@inlined
def entries_of(side, row):
    first = side.row_start[row]
    return first, side.row_start[row + 1] - first


@inlined
def conditional_means(side, row, active, mean):
    """Means of the utilities of a row given its factors."""
    first, n = entries_of(side, row)
    for e in range(n):
        i = side.column[first + e]
        mean[e] = np.float64(side.bias[i]) + dot(side.weights[i], active)
    if side.offset.size > 0:
        for e in range(n):
            mean[e] += side.offset[first + e]


@inlined
def _row_stretch(side, row):
    return np.float64(side.stretch[row]) if side.stretch.size > 0 else 1.0


@inlined
def set_bounds(side, row, mean, lower, upper):
    """Bounds of the levels of a row's answers, less the means of their utilities."""
    first, n = entries_of(side, row)
    column, level, table, shift = side.column, side.level, side.thresholds, side.shift
    if side.row_gaps.size > 0:
        gaps = side.row_gaps[row]
        for e in range(n):
            i, answer = column[first + e], np.intp(level[first + e])
            low, high = thresholds.bounds_from_table(table[i], gaps, answer)
            lower[e], upper[e] = low - mean[e], high - mean[e]
        return
    stretch = _row_stretch(side, row)
    for e in range(n):
        i, answer, centre = column[first + e], np.intp(level[first + e]), mean[e]
        if shift.size > 0:
            centre += np.float64(shift[first + e])
        lower[e], upper[e] = stretch * table[i, answer] - centre, stretch * table[i, answer + 1] - centre


# All answers of a row are computed in float32; the few that are not accurate there, because their
# interval is narrow or far out, are computed again in float64.


@inlined
def _draw_clamped(side, row, mean, lower, upper, uniform, utility):
    n = entries_of(side, row)[1]
    set_bounds(side, row, mean, lower, upper)
    for e in range(n):
        drawn = single.truncated_draw(np.float32(lower[e]), np.float32(upper[e]), np.float32(uniform[e]))
        utility[e] = np.float32(mean[e]) + drawn
    e = next_inaccurate(lower, upper, 0, n)
    while e < n:
        utility[e] = np.float32(mean[e] + double.truncated_draw(lower[e], upper[e], uniform[e]))
        e = next_inaccurate(lower, upper, e + 1, n)
    if has_kinds(side):
        draw_categories(side, row, True, mean, uniform, utility)


@kernel_function
def draw_categories(side, row, clamped, mean, uniform, utility):
    first, n = entries_of(side, row)
    known, column, members, shift = side.known, side.column, side.members, side.shift
    for e in range(n):
        i, value = column[first + e], known[first + e]
        if clamped and not np.isnan(value):
            utility[e] = known_utility(value, members[i], side.thresholds[i], shift, first + e)
        elif members[i] > 0:
            _draw_choice(mean, e, members[i], uniform[e], utility)


@kernel_function
def expect_categories(side, row, clamped, mean, at_low, at_high, utility):
    """Expect the categories that are not given, and put in what is.

    What is left at the upper bound of a number is the slope by the logarithm of its scale.
    """
    first, n = entries_of(side, row)
    known, column, members, shift = side.known, side.column, side.members, side.shift
    for e in range(n):
        i, value = column[first + e], known[first + e]
        if clamped and not np.isnan(value):
            given = known_utility(value, members[i], side.thresholds[i], shift, first + e)
            utility[e] = given
            at_low[e], at_high[e] = np.float32(0.0), np.float32(0.0)
            if members[i] == NUMBER:
                whole = side.thresholds[i, 1] * np.float64(value)
                at_high[e] = np.float32(1.0 - (given - mean[e]) * whole)
        elif members[i] > 0:
            _expect_choice(mean, e, members[i], utility)


@inlined
def expect_clamped(side, row, mean, lower, upper, at_low, at_high, utility):
    """Expected utilities given the levels, and the densities at the levels' bounds."""
    n = entries_of(side, row)[1]
    set_bounds(side, row, mean, lower, upper)
    for e in range(n):
        at_low[e], at_high[e], shift = single.edge_densities(np.float32(lower[e]), np.float32(upper[e]))
        utility[e] = np.float32(mean[e]) + shift
    e = next_inaccurate(lower, upper, 0, n)
    while e < n:
        exact_low, exact_high, exact_shift = double.edge_densities(lower[e], upper[e])
        at_low[e], at_high[e] = np.float32(exact_low), np.float32(exact_high)
        utility[e] = np.float32(mean[e] + exact_shift)
        e = next_inaccurate(lower, upper, e + 1, n)
    if has_kinds(side):
        expect_categories(side, row, True, mean, at_low, at_high, utility)


@inlined
def activations(side, row, utility, activation):
    """Log odds of the factors given the utilities."""
    for k in range(activation.size):
        activation[k] = side.factor_bias[k]
    if side.row_bias.size > 0:
        for k in range(activation.size):
            activation[k] += side.row_bias[row, k]
    first, n = entries_of(side, row)
    for e in range(n):
        add_scaled(activation, utility[e], side.weights[side.column[first + e]])


@compiled
def _row_pass(start, stop, side, factors, first, draws, clamped, answers, scratch):
    for row in range(first + start, first + stop):
        _sweep_row(side, factors, row, first, draws, clamped, scratch, answers)


@compiled
def _column_pass(start, stop, side, first_row, last_row, clamped, answers, statistics):
    for column in range(start, stop):
        _sum_column(side, column, first_row, last_row, clamped, answers, statistics)
    if start == 0:  # one thread does this besides
        _sum_factors(side, first_row, last_row, answers, statistics)


@kernel_function
def _sweep_row(side, factors, row, start, draws, clamped, scratch, answers):
    utility, activation = scratch.utility, scratch.activation
    active, expected = answers.factors[row - start], answers.expected
    for k in range(active.size):
        active[k] = np.float32(factors[row, k])
    for step in range(draws.gibbs_steps):
        _draw_utilities(side, row, draws, step, clamped, scratch, active)
        activations(side, row, utility, activation)
        _move_factors(side, row, draws, step, clamped, scratch, activation, active, expected)
    for k in range(active.size):
        factors[row, k] = active[k]
    if answers.utility.size > 0:  # a plain sweep needs no expectations
        _expect_row(side, row, start, clamped, scratch, answers)


@inlined
def _draw_utilities(side, row, draws, step, clamped, scratch, active):
    mean, utility, uniform = scratch.mean, scratch.utility, scratch.uniform
    n = entries_of(side, row)[1]
    conditional_means(side, row, active, mean)
    purpose = Purpose.CLAMPED_UTILITY if clamped else Purpose.FREE_UTILITY
    fill_uniforms(uniform, n, row, draws, step, purpose)
    if clamped:
        _draw_clamped(side, row, mean, scratch.lower, scratch.upper, uniform, utility)
    else:
        for e in range(n):
            utility[e] = np.float32(mean[e]) + single.standard_normal(np.float32(uniform[e]))
        if has_kinds(side):
            draw_categories(side, row, False, mean, uniform, utility)


@inlined
def _move_factors(side, row, draws, step, clamped, scratch, activation, active, expected):
    """Draw a row's factors given their activation, which is overwritten."""
    uniform = scratch.uniform
    purpose = Purpose.CLAMPED_FACTOR if clamped else Purpose.FREE_FACTOR
    fill_uniforms(uniform, active.size, row, draws, step, purpose)
    if expected.size > 0 and step == draws.gibbs_steps - 1:
        _follow(expected[row], activation, side.units, draws.keep)
    draw_factors(activation, uniform, side.units, scratch, active)


@inlined
def _follow(expected, activation, units, keep):
    """Move the running mean of a row's factors to where its last utilities put them."""
    for k in range(expected.size):
        new = np.float32(units) * single.logistic(activation[k])
        expected[k] = keep * expected[k] + (np.float32(1.0) - keep) * new


@inlined
def draw_factors(activation, uniform, units, scratch, active):
    """Draw the factors given their activation, which is overwritten."""
    if units > 1:
        for k in range(active.size):
            active[k] = _units_on(activation[k], uniform[k], units, scratch.log_ways, scratch.odds)
        return
    for k in range(active.size):
        activation[k] = single.logistic(activation[k])
    for k in range(active.size):
        active[k] = np.float32(1.0) if uniform[k] < activation[k] else np.float32(0.0)


@inlined
def _units_on(activation, uniform, units, log_ways, odds):
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


@kernel_function
def _expect_row(side, row, start, clamped, scratch, answers):
    """Leave the expected utility of each answer of a row, and the densities at its bounds."""
    mean, lower, upper = scratch.mean, scratch.lower, scratch.upper
    first, n = entries_of(side, row)
    here = slice(first - side.row_start[start], first - side.row_start[start] + n)
    utility, at_low, at_high = answers.utility[here], answers.at_low[here], answers.at_high[here]
    conditional_means(side, row, answers.factors[row - start], mean)
    if clamped:
        expect_clamped(side, row, mean, lower, upper, at_low, at_high, utility)
    else:
        for e in range(n):
            utility[e] = mean[e]
        if has_kinds(side):
            expect_categories(side, row, False, mean, at_low, at_high, utility)
    if clamped and side.covariates.size > 0:
        # Beyond the mean: only then do slopes meet no more than what is left to explain.
        for e in range(n):
            answers.beyond[here][e] = np.float32(utility[e] - mean[e])


@kernel_function
def _sum_column(side, i, start, stop, clamped, answers, statistics):
    """Sum the batch's answers of one column, in the order of the rows."""
    weighted = side.row_weight.size > 0
    first_of_batch = side.row_start[start]
    total, thresholds = statistics.weights[i], statistics.thresholds[i]
    kind = side.members[i] if has_kinds(side) else 0
    is_number, is_category = kind == NUMBER, kind == CATEGORY or kind > 0
    first, end = side.column_start[i], side.column_start[i + 1]
    first += np.searchsorted(side.entry_row[first:end], start)
    for place in range(first, end):
        row = side.entry_row[place]
        if row >= stop:
            break
        entry = side.entry[place] - first_of_batch
        weight = side.row_weight[row] if weighted else np.float32(1.0)
        utility = weight * answers.utility[entry]
        add_scaled(total, utility, answers.factors[row - start])
        statistics.bias[i] += utility
        statistics.answers[i] += weight
        if side.covariates.size > 0:
            whole = not clamped or is_category
            along = weight * (answers.utility[entry] if whole else answers.beyond[entry])
            add_scaled(statistics.slopes[i], along, side.covariates[row])
        if clamped:
            level = np.intp(side.level[side.entry[place]])
            at_low, at_high = weight * answers.at_low[entry], weight * answers.at_high[entry]
            if is_number and not np.isnan(side.known[side.entry[place]]):
                thresholds[1] += at_high  # styles of using a scale do not touch it
            elif side.row_gaps.size > 0:
                _add_to_gaps(side.row_gaps[row], level, at_low, at_high, thresholds)
            else:
                stretch = np.float32(_row_stretch(side, row))
                thresholds[level] -= stretch * at_low
                thresholds[level + 1] += stretch * at_high


@inlined
def _add_to_gaps(row_gaps, level, at_low, at_high, total):
    """Gradient of an answer by each gap of its column below the bounds of its level."""
    for m in range(1, level):
        total[m] += row_gaps[m] * (at_high - at_low)
    if level > 0 and at_high > np.float32(0.0):
        total[level] += row_gaps[level] * at_high


@kernel_function
def _sum_factors(side, start, stop, answers, statistics):
    weighted = side.row_weight.size > 0
    for row in range(stop - start):
        weight = side.row_weight[start + row] if weighted else np.float32(1.0)
        add_scaled(statistics.factor_bias, weight, answers.factors[row])
        if side.covariates.size > 0:
            for k in range(side.factor_bias.size):
                scale = weight * answers.factors[row, k]
                add_scaled(statistics.factor_slopes[k], scale, side.covariates[start + row])


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
    counts; without them, they are one. The side's ``shift`` is that of the cells.
    """
    spread, weight = (np.zeros(0) if given is None else given for given in (spread, weight))
    arguments = side, factors, row_start, column, total, spread, weight
    over_rows(_add_probabilities, row_start.size - 1, *arguments)


@compiled
def _add_probabilities(start, stop, side, factors, row_start, column, total, spread, weight):
    for row in range(start, stop):
        share = weight[row] if weight.size > 0 else 1.0
        if share > 0.0:
            _add_probabilities_row(side, row, factors[row], row_start, column, total, spread, share)


@kernel_function
def _add_probabilities_row(side, row, active, row_start, column, total, spread, share):
    stretch = _row_stretch(side, row)
    for cell in range(row_start[row], row_start[row + 1]):
        i = column[cell]
        weights = side.weights[i]
        mean = np.float64(side.bias[i])
        for k in range(active.size):
            mean += weights[k] * np.float32(active[k])
        if side.shift.size > 0:
            mean += np.float64(side.shift[cell])
        scale = 1.0 / spread[cell] if spread.size > 0 else 1.0
        for level in range(total.shape[1]):
            lower = (stretch * side.thresholds[i, level] - mean) * scale
            upper = (stretch * side.thresholds[i, level + 1] - mean) * scale
            if lower < upper:
                total[cell, level] += share * double.mass(lower, upper)


@compiled
def fill_offsets(start, stop, row_start, column, weights, bias, factors, offset):
    """Fill in what a row's weights and bias and the column's factors add to each answer's mean."""
    for row in range(start, stop):
        for entry in range(row_start[row], row_start[row + 1]):
            offset[entry] = bias[row] + dot(weights[row], factors[column[entry]])

"""Draws of rows given columns, in a Gibbs sampler of ordinal factors.

A cell's utility is Gaussian with variance one around b_row + b_column + p_row · q_column. Its level
says that it lies between two common thresholds times the widths of row and column. Given the
columns, the utilities of a row are drawn between their thresholds, and then its bias and factors
together, from a Gaussian with a full covariance. Utilities are not kept: the columns, which do the
same on the transposed table, draw them anew.

Widths have no such form. They move by Metropolis' rule, with the utilities integrated out; a
proposal goes half of Newton's step and adds noise of the posterior's size (Langevin). So do the
thresholds, for which this has the sums over all answers.

Every draw is named by its row and sweep (:mod:`ordinalrbm.engine.philox`), so that chains are the
same on any number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import prange

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import philox
from ordinalrbm.engine.normal import double, single
from ordinalrbm.engine.philox import Purpose, split_seed, stream
from ordinalrbm.engine.sums import dot
from ordinalrbm.runtime.jit import called, compiled, inlined, inlined_sum

# Answers of a row that are looked at together: a multiple of what is summed at a time.
_TILE = 64
_AT_A_TIME = 8
# Sums over all rows are made of those of so many parts, in this order, whoever computes them.
_PARTS = 256


class DrawnSide(NamedTuple):
    """Rows or columns as they are in one sweep."""

    factors: Any  # (n, 1 + F) float32, bias and factors
    width: Any  # (n,) float32, by which thresholds are multiplied
    scale: Any  # (n,) int32; that of a cell is the sum of both sides'


class Sweep(NamedTuple):
    """Which draws these are: ``kind`` tells rows from columns."""

    seed: int
    number: int
    kind: int


class _Words(NamedTuple):
    """The same as words of the generator."""

    sweep: Any
    utility: Any
    factor: Any
    width: Any
    key0: Any
    key1: Any


class _Work(NamedTuple):
    """Working memory of the threads, one each."""

    features: np.ndarray  # (threads, tile, 1 + F)
    numbers: np.ndarray  # (threads, 6, tile)
    uniform: np.ndarray  # (threads, most answers of a row, or coordinates)
    mean: np.ndarray  # (threads, most answers of a row)
    system: np.ndarray  # (threads, 1 + F, 1 + F)
    solution: np.ndarray  # (threads, 1 + F)


def draw_rows(
    answers: Observations, this: DrawnSide, other: DrawnSide, thresholds: np.ndarray,
    prior_mean: np.ndarray, precision: np.ndarray, sweep: Sweep,
) -> None:  # fmt: skip
    """Draw the biases and factors of all rows, in place.

    Parameters
    ----------
    thresholds : (scales, L + 1) float32, from −∞ to ∞, for each scale
    prior_mean : (n, 1 + F) float32, of each row
    precision : (1 + F, 1 + F) float32, of the prior of every row
    """
    work = _work(answers, this.factors.shape[1])
    _draw_rows(
        answers.row_start, answers.column, answers.level, this, other, thresholds, prior_mean,
        precision, _words(sweep), work,
    )  # fmt: skip


def move_widths(
    answers: Observations, this: DrawnSide, other: DrawnSide, thresholds: np.ndarray,
    precision: float, sweep: Sweep,
) -> np.ndarray:  # fmt: skip
    """Move the rows' widths, in place; (n,) whether each proposal was taken.

    Their logarithms have a Gaussian prior around zero with this precision.
    """
    work, taken = _work(answers, this.factors.shape[1]), np.zeros(answers.n_rows, dtype=bool)
    _move_widths(
        answers.row_start, answers.column, answers.level, this, other, thresholds,
        np.float64(precision), _words(sweep), work, taken,
    )  # fmt: skip
    return taken


class ThresholdSums(NamedTuple):
    """Sums over all answers: their log probability, its slope by thresholds, squares of slopes."""

    log_likelihood: float
    slope: np.ndarray  # (scales, L + 1)
    squares: np.ndarray  # (scales, L + 1, 2): of each bound, and with the one above


def threshold_sums(
    answers: Observations, this: DrawnSide, other: DrawnSide, thresholds: np.ndarray
) -> ThresholdSums:
    n_scales, n_bounds = thresholds.shape
    work = _work(answers, this.factors.shape[1])
    ends = np.linspace(0, answers.n_rows, _PARTS + 1).astype(np.int64)
    total = np.zeros(_PARTS)
    slope, squares = (
        np.zeros((_PARTS, n_scales, n_bounds)),
        np.zeros((_PARTS, n_scales, n_bounds, 2)),
    )
    _threshold_sums(
        answers.row_start, answers.column, answers.level, this, other, thresholds, ends, work,
        total, slope, squares,
    )  # fmt: skip
    return ThresholdSums(float(total.sum()), slope.sum(axis=0), squares.sum(axis=0))


def _words(sweep: Sweep) -> _Words:
    utility, factor, width = (
        np.uint64(stream(purpose, sweep.kind))
        for purpose in (Purpose.UTILITY, Purpose.FACTOR, Purpose.WIDTH)
    )
    return _Words(np.uint64(sweep.number), utility, factor, width, *split_seed(sweep.seed))


def _work(answers: Observations, width: int) -> _Work:
    threads = numba.get_num_threads()
    longest = int(answers.row_counts.max(initial=1))
    room = max(longest, width) + 4  # uniform numbers come four at a time
    return _Work(
        np.zeros((threads, _TILE, width), dtype=np.float32),
        np.zeros((threads, 6, _TILE), dtype=np.float32),
        np.zeros((threads, room)),
        np.zeros((threads, longest), dtype=np.float32),
        np.zeros((threads, width, width), dtype=np.float32),
        np.zeros((threads, width), dtype=np.float32),
    )


# ---- biases and factors -----------------------------------------------------------------------


@compiled(parallel=True)
def _draw_rows(
    row_start, column, level, this, other, thresholds, prior_mean, precision, words, work
):
    for d in prange(row_start.size - 1):
        entries = slice(row_start[d], row_start[d + 1])
        _draw_row(
            column[entries], level[entries], this, other, thresholds, prior_mean, precision, words,
            work, np.int64(d),
        )  # fmt: skip


@inlined
def _draw_row(column, level, this, other, thresholds, prior_mean, precision, words, work, d):
    thread = numba.get_thread_id()
    system, right = work.system[thread], work.solution[thread]
    uniform, features = work.uniform[thread], work.features[thread]
    own, width = this.factors[d], this.factors.shape[1]
    philox.fill_uniforms(
        uniform, column.size, d, words.sweep, words.utility, words.key0, words.key1
    )
    for a in range(width):
        right[a] = np.float32(0.0)
        for b in range(a + 1):
            system[a, b] = precision[a, b]
        for b in range(width):
            right[a] += precision[a, b] * prior_mean[d, b]
    for first in range(0, column.size, _TILE):
        n = min(_TILE, column.size - first)
        numbers = work.numbers[thread]
        _gather(column[first : first + n], other.factors, own, features, numbers)
        _set_bounds(column[first : first + n], level[first : first + n], this, other, thresholds,
                    d, numbers)  # fmt: skip
        _draw_utilities(n, uniform[first : first + n], numbers)
        _add_answers(features, numbers[5], n, system, right)
    _factorise(system)
    philox.fill_uniforms(uniform, width, d, words.sweep, words.factor, words.key0, words.key1)
    _draw_gaussian(system, right, uniform, own)


@inlined
def _gather(column, factors, own, features, numbers):
    """Features of the columns side by side, a one before them; what is beyond the last is zero.

    Fills in the offset (what the column adds by itself) and the mean of each cell.
    """
    offset, mean, width = numbers[0], numbers[1], own.size
    n = column.size
    for e in range(n):
        source = factors[column[e]]
        features[e, 0] = np.float32(1.0)
        for a in range(1, width):
            features[e, a] = source[a]
        offset[e] = source[0]
        mean[e] = offset[e] + dot(own, features[e])
    for e in range(n, -(-n // _AT_A_TIME) * _AT_A_TIME):
        for a in range(width):
            features[e, a] = np.float32(0.0)


@inlined
def _set_bounds(column, level, this, other, thresholds, d, numbers):
    mean, low, high = numbers[1], numbers[2], numbers[3]
    for e in range(column.size):
        i = column[e]
        bounds = thresholds[this.scale[d] + other.scale[i]]
        width = this.width[d] * other.width[i]
        low[e] = width * bounds[level[e]] - mean[e]
        high[e] = width * bounds[level[e] + 1] - mean[e]


@called
def _draw_utilities(n, uniform, numbers):
    """Utilities without what their columns add, between their bounds; the sixth of the numbers."""
    offset, mean, low, high, drawn = numbers[0], numbers[1], numbers[2], numbers[3], numbers[5]
    for e in range(n):
        drawn[e] = single.truncated_draw(low[e], high[e], np.float32(uniform[e]))
    for e in range(n):
        if not single.ordinary(low[e], high[e]):
            drawn[e] = np.float32(
                double.truncated_draw(np.float64(low[e]), np.float64(high[e]), uniform[e])
            )
    for e in range(n):
        drawn[e] += mean[e] - offset[e]
    for e in range(n, -(-n // _AT_A_TIME) * _AT_A_TIME):
        drawn[e] = np.float32(0.0)


@inlined
def _add_answers(features, drawn, n, system, right):
    """Squares and products of features, eight answers at a time and two lines of the system."""
    width = right.size
    for e in range(0, n, _AT_A_TIME):
        part = features[e : e + _AT_A_TIME]
        for a in range(0, width - 1, 2):
            _add_two_lines(part, a, system[a], system[a + 1])
        if width % 2:
            _add_line(part, width - 1, system[width - 1])
        _add_products(part, drawn[e : e + _AT_A_TIME], right)


@inlined_sum
def _add_two_lines(x, a, line, next_line):
    p0, p1, p2, p3 = x[0, a], x[1, a], x[2, a], x[3, a]
    p4, p5, p6, p7 = x[4, a], x[5, a], x[6, a], x[7, a]
    q0, q1, q2, q3 = x[0, a + 1], x[1, a + 1], x[2, a + 1], x[3, a + 1]
    q4, q5, q6, q7 = x[4, a + 1], x[5, a + 1], x[6, a + 1], x[7, a + 1]
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    # The first line is one number longer than is needed: what is above the diagonal is not read.
    for b in range(a + 2):
        line[b] += (
            p0 * x0[b] + p1 * x1[b] + p2 * x2[b] + p3 * x3[b]
            + p4 * x4[b] + p5 * x5[b] + p6 * x6[b] + p7 * x7[b]
        )  # fmt: skip
        next_line[b] += (
            q0 * x0[b] + q1 * x1[b] + q2 * x2[b] + q3 * x3[b]
            + q4 * x4[b] + q5 * x5[b] + q6 * x6[b] + q7 * x7[b]
        )  # fmt: skip


@inlined_sum
def _add_line(x, a, line):
    for b in range(a + 1):
        line[b] += (
            x[0, a] * x[0, b] + x[1, a] * x[1, b] + x[2, a] * x[2, b] + x[3, a] * x[3, b]
            + x[4, a] * x[4, b] + x[5, a] * x[5, b] + x[6, a] * x[6, b] + x[7, a] * x[7, b]
        )  # fmt: skip


@inlined_sum
def _add_products(x, drawn, right):
    for b in range(right.size):
        right[b] += (
            drawn[0] * x[0, b] + drawn[1] * x[1, b] + drawn[2] * x[2, b] + drawn[3] * x[3, b]
            + drawn[4] * x[4, b] + drawn[5] * x[5, b] + drawn[6] * x[6, b] + drawn[7] * x[7, b]
        )  # fmt: skip


@inlined
def _factorise(system):
    """Cholesky factor, in the lower triangle."""
    for a in range(system.shape[0]):
        for b in range(a):
            system[a, b] = (system[a, b] - dot(system[a, :b], system[b, :b])) / system[b, b]
        system[a, a] = np.sqrt(system[a, a] - dot(system[a, :a], system[a, :a]))


@inlined
def _draw_gaussian(lower, right, uniform, found):
    """A draw from the Gaussian with this precision, by its Cholesky factor; mean P⁻¹ right."""
    width = right.size
    for a in range(width):
        right[a] = (right[a] - dot(lower[a, :a], right[:a])) / lower[a, a]
    for a in range(width):
        right[a] += np.float32(double.standard_normal(uniform[a]))
    for a in range(width - 1, -1, -1):
        found[a] = right[a] / lower[a, a]
        for b in range(a):
            right[b] -= lower[a, b] * found[a]


# ---- widths -----------------------------------------------------------------------------------


@compiled(parallel=True)
def _move_widths(row_start, column, level, this, other, thresholds, precision, words, work, taken):
    for d in prange(row_start.size - 1):
        entries = slice(row_start[d], row_start[d + 1])
        taken[d] = _move_width(
            column[entries], level[entries], this, other, thresholds, precision, words, work,
            np.int64(d),
        )  # fmt: skip


@inlined
def _move_width(column, level, this, other, thresholds, precision, words, work, d):
    thread = numba.get_thread_id()
    uniform = work.uniform[thread]
    _set_means(column, this.factors[d], other.factors, work.mean[thread])
    philox.fill_uniforms(uniform, 2, d, words.sweep, words.width, words.key0, words.key1)
    choice, chance = uniform[0], uniform[1]
    here = np.log(np.float64(this.width[d]))
    at_here, forward, narrow = _of_width(
        column, level, this, other, thresholds, precision, work, d, here
    )
    forward *= 0.5
    there = here + forward + double.standard_normal(choice) / np.sqrt(narrow)
    at_there, backward, narrow_there = _of_width(
        column, level, this, other, thresholds, precision, work, d, there
    )
    away, back = there - here - forward, here - there - 0.5 * backward
    log_ratio = at_there - at_here
    log_ratio += 0.5 * (np.log(narrow_there) - narrow_there * back * back)
    log_ratio -= 0.5 * (np.log(narrow) - narrow * away * away)
    is_taken = np.log(chance) < log_ratio
    if is_taken:
        this.width[d] = np.float32(np.exp(there))
    return is_taken


@inlined
def _set_means(column, own, factors, mean):
    for e in range(column.size):
        source = factors[column[e]]
        mean[e] = own[0] + source[0] + dot(own[1:], source[1:])


@inlined
def _of_width(column, level, this, other, thresholds, precision, work, d, log_width):
    """Log posterior at a log width, Newton's step from there, and how narrow it is.

    For the curvature stand the squared slopes of the answers, which are never negative.
    """
    thread = numba.get_thread_id()
    numbers, mean = work.numbers[thread], work.mean[thread]
    own = np.float32(np.exp(log_width))
    total, slope, squares = 0.0, 0.0, 0.0
    for first in range(0, column.size, _TILE):
        n = min(_TILE, column.size - first)
        lower, upper = numbers[0], numbers[1]
        for e in range(n):
            i, place = column[first + e], level[first + e]
            bounds = thresholds[this.scale[d] + other.scale[i]]
            width = own * other.width[i]
            lower[e], upper[e] = width * bounds[place], width * bounds[place + 1]
            numbers[2][e] = lower[e] - mean[first + e]
            numbers[3][e] = upper[e] - mean[first + e]
        _measure(n, numbers)
        for e in range(n):
            along = np.float64(0.0)
            if upper[e] < np.inf:
                along += np.float64(numbers[5][e]) * upper[e]
            if lower[e] > -np.inf:
                along -= np.float64(numbers[4][e]) * lower[e]
            total += np.float64(numbers[2][e])
            slope += along
            squares += along * along
    total -= 0.5 * precision * log_width * log_width
    narrow = precision + squares
    return total, (slope - precision * log_width) / narrow, narrow


@called
def _measure(n, numbers):
    """Of the intervals in the third and fourth: log masses (there), densities at their ends."""
    low, high, at_low, at_high = numbers[2], numbers[3], numbers[4], numbers[5]
    for e in range(n):
        below, above = low[e], high[e]
        at_low[e], at_high[e], _ = single.edge_densities(below, above)
        low[e] = single.log_mass(below, above)
        if not single.ordinary(below, above):
            exact = double.edge_densities(np.float64(below), np.float64(above))
            at_low[e], at_high[e] = np.float32(exact[0]), np.float32(exact[1])
            low[e] = np.float32(double.log_mass(np.float64(below), np.float64(above)))


# ---- thresholds -------------------------------------------------------------------------------


@compiled(parallel=True)
def _threshold_sums(
    row_start, column, level, this, other, thresholds, ends, work, total, slope, squares
):
    for part in prange(ends.size - 1):
        for d in range(ends[part], ends[part + 1]):
            entries = slice(row_start[d], row_start[d + 1])
            total[part] += _add_to_thresholds(
                column[entries], level[entries], this, other, thresholds, work, slope[part],
                squares[part], np.int64(d),
            )  # fmt: skip


@inlined
def _add_to_thresholds(column, level, this, other, thresholds, work, slope, squares, d):
    thread = numba.get_thread_id()
    numbers, mean = work.numbers[thread], work.mean[thread]
    _set_means(column, this.factors[d], other.factors, mean)
    total = 0.0
    for first in range(0, column.size, _TILE):
        n = min(_TILE, column.size - first)
        for e in range(n):
            i, place = column[first + e], level[first + e]
            bounds = thresholds[this.scale[d] + other.scale[i]]
            width = this.width[d] * other.width[i]
            numbers[2][e] = width * bounds[place] - mean[first + e]
            numbers[3][e] = width * bounds[place + 1] - mean[first + e]
        _measure(n, numbers)
        for e in range(n):
            i, place = column[first + e], level[first + e]
            scale = this.scale[d] + other.scale[i]
            width = np.float64(this.width[d]) * other.width[i]
            below, above = width * numbers[4][e], width * numbers[5][e]
            total += np.float64(numbers[2][e])
            slope[scale, place] -= below
            slope[scale, place + 1] += above
            squares[scale, place, 0] += below * below
            squares[scale, place + 1, 0] += above * above
            squares[scale, place, 1] -= below * above
    return total

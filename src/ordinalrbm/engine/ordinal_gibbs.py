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

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import philox
from ordinalrbm.engine.base import Answers
from ordinalrbm.engine.drift import BinViews
from ordinalrbm.engine.normal import double, next_inaccurate, single
from ordinalrbm.engine.philox import Purpose, split_seed, stream
from ordinalrbm.engine.side import Array, answers_of, row_view
from ordinalrbm.engine.thresholds import dot
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import compiled, inlined, inlined_sum, kernel_function

# Answers of a row that are looked at together: a multiple of what is summed at a time.
_TILE = 128
_AT_A_TIME = 8
# Lines of features that are multiplied with as many others at once.
_LINES = 4
# What is left of a diagonal while a system is factorised: less is rounding, and may be negative.
_LEAST_PIVOT = np.float32(1e-7)
# Uniform numbers that close to zero or one are looked at in float64.
_RARE = 1e-3
# A new draw of a row lies so far on the other side of the mean as the last one lay on this, and the
# rest is new noise (Adler 1981). Rows and columns that wait for each other go farther that way, and
# the mean of two sweeps is closer to that of all.
OVERRELAXED = 0.85
_ONE, _OVERRELAXED = np.float32(1.0), np.float32(OVERRELAXED)
_NOISE_LEFT = np.float32(np.sqrt(1.0 - OVERRELAXED**2))


class DrawnSide(NamedTuple):
    """Rows or columns as they are in one sweep."""

    factors: Array  # (n, 1 + F) float32, bias and factors
    width: Array  # (n,) float32, by which thresholds are multiplied
    scale: Array  # (n,) int32; that of a cell is the sum of both sides'


class Sweep(NamedTuple):
    """Which draws these are: ``kind`` tells rows from columns.

    Rows that are drawn ``alike`` have the same random numbers, wherever they stand. Only the cores do that.
    """

    seed: int
    number: int
    kind: int
    alike: bool = False


class _Words(NamedTuple):
    """A sweep as words of the generator."""

    sweep: np.uint64
    utility: np.uint64
    factor: np.uint64
    width: np.uint64
    key0: np.uint64
    key1: np.uint64
    row: np.int64  # what the place of a row counts: one, or nothing


class _Work(NamedTuple):
    """Working memory of a thread."""

    features: np.ndarray  # (1 + F, tile); lines are filled up to a multiple of four
    numbers: np.ndarray  # (6, tile)
    uniform: np.ndarray  # (most answers of a row, or coordinates)
    mean: np.ndarray  # (most answers of a row)
    system: np.ndarray  # (1 + F, 1 + F), filled up likewise
    solution: np.ndarray  # (1 + F,), likewise


class ThresholdSums(NamedTuple):
    """Of each row: log probability of its answers, its slope by thresholds, squares of slopes."""

    log_likelihood: np.ndarray  # (n,) float64, on the host like the others
    slope: np.ndarray  # (n, L + 1)
    squares: np.ndarray  # (n, L + 1, 2): of each bound, and with the one above


class RowSums(NamedTuple):
    """Sums over rows of numbers and of their products, on the host."""

    n: int
    total: np.ndarray  # (W,)
    products: np.ndarray  # (W, W)


class GibbsEngine(ABC):
    """What an engine must offer to draw ordinal factors; answers and arrays are in its own form."""

    @abstractmethod
    def draw_rows(
        self,
        answers: Answers,
        this: DrawnSide,
        other: DrawnSide,
        thresholds: Array,
        prior_mean: Array,
        precision: Array,
        sweep: Sweep,
    ) -> None:
        """Draw the biases and factors of all rows, in place.

        Parameters
        ----------
        thresholds : (scales, L + 1) float32, from −∞ to ∞, for each scale
        prior_mean : (n, 1 + F) float32, of each row
        precision : (1 + F, 1 + F) float32, of the prior of every row
        """

    @abstractmethod
    def move_widths(
        self,
        answers: Answers,
        this: DrawnSide,
        other: DrawnSide,
        thresholds: Array,
        precision: float,
        sweep: Sweep,
    ) -> Array:
        """Move the rows' widths, in place; returns (n,) whether each proposal was accepted.

        Their logarithms have a Gaussian prior around zero with this precision.
        """

    @abstractmethod
    def threshold_sums(
        self, answers: Answers, this: DrawnSide, other: DrawnSide, thresholds: Array
    ) -> ThresholdSums:
        """Sums over the answers of each row for draws of thresholds."""

    @abstractmethod
    def bin_sums(
        self,
        answers: Answers,
        this: DrawnSide,
        other: DrawnSide,
        thresholds: Array,
        bins: BinViews,
        sweep: Sweep,
    ) -> np.ndarray:
        """Sums over bins of drawn utilities less their means without offsets, (bins,) on the host."""

    @abstractmethod
    def with_offsets(self, answers: Answers, level: np.ndarray, bin_of: Array) -> Answers:
        """Answers with the level of its bin on top of the mean of each."""

    @abstractmethod
    def row_sums(self, numbers: Array) -> RowSums:
        """Sums over the lines of a table, in float64, on the host."""

    @abstractmethod
    def log_widths(self, side: DrawnSide) -> tuple[float, float]:
        """Sums of the logarithms of widths, and of their squares."""

    @abstractmethod
    def array(self, values: np.ndarray, like: Array) -> Array:
        """A small array of the host, on the device of ``like``, in float32."""

    @abstractmethod
    def on_device(self, tree: Any, answers: Answers) -> Any:
        """Arrays of the host, on the device of the answers; may be the same arrays."""

    @abstractmethod
    def on_host(self, tree: Any) -> Any:
        """Arrays as those of NumPy; may be the same arrays."""

    @abstractmethod
    def copied(self, side: DrawnSide) -> DrawnSide:
        """A copy on the same device, which the next sweep does not change."""

    @abstractmethod
    def as_kept(self, side: DrawnSide) -> DrawnSide:
        """A copy on the host as draws are kept: with factors as float16."""


class CpuGibbs(GibbsEngine):
    """Draws on the cores of this machine."""

    def draw_rows(self, answers, this, other, thresholds, prior_mean, precision, sweep):
        arguments = row_view(answers), this, other, thresholds, prior_mean, precision, _words(sweep)
        over_rows(_draw_rows, answers.n_rows, *arguments, scratch=partial(_work, answers, this))

    def move_widths(self, answers, this, other, thresholds, precision, sweep):
        taken = np.zeros(answers.n_rows, dtype=bool)
        arguments = row_view(answers), this, other, thresholds, float(precision), _words(sweep), taken
        over_rows(_move_widths, answers.n_rows, *arguments, scratch=partial(_work, answers, this))
        return taken

    def threshold_sums(self, answers, this, other, thresholds):
        total, slope = np.zeros(answers.n_rows), np.zeros((answers.n_rows, thresholds.shape[1]))
        squares = np.zeros((*slope.shape, 2))
        arguments = row_view(answers), this, other, thresholds, total, slope, squares
        over_rows(_threshold_sums, answers.n_rows, *arguments, scratch=partial(_work, answers, this))
        return ThresholdSums(total, slope, squares)

    def bin_sums(self, answers, this, other, thresholds, bins, sweep):
        sums = np.zeros(bins.bins.n)
        arguments = row_view(answers), bins.of_rows, this, other, thresholds, _words(sweep), sums
        over_rows(_bin_sums, answers.n_rows, *arguments, scratch=partial(_work, answers, this))
        return sums

    def with_offsets(self, answers, level, bin_of):
        return answers.with_offset(level[bin_of])

    def array(self, values, like):
        return values.astype(np.float32)

    def on_device(self, tree, answers):
        return tree

    def on_host(self, tree):
        return tree

    def copied(self, side):
        return side._replace(factors=side.factors.copy(), width=side.width.copy())

    def as_kept(self, side):
        return side._replace(factors=side.factors.astype(np.float16), width=side.width.copy())

    def row_sums(self, numbers):
        exact = numbers.astype(np.float64)
        return RowSums(len(exact), exact.sum(axis=0), exact.T @ exact)

    def log_widths(self, side):
        logs = np.log(side.width.astype(np.float64))
        return float(logs.sum()), float(np.square(logs).sum())


CPU_GIBBS = CpuGibbs()


def _words(sweep: Sweep) -> _Words:
    utility, factor, width = (
        np.uint64(stream(purpose, sweep.kind)) for purpose in (Purpose.UTILITY, Purpose.FACTOR, Purpose.WIDTH)
    )
    key0, key1 = split_seed(sweep.seed)
    of_row = np.int64(not sweep.alike)
    return _Words(np.uint64(sweep.number), utility, factor, width, key0, key1, of_row)


def _work(answers: Observations, this: DrawnSide) -> _Work:
    width = this.factors.shape[1]
    longest = int(answers.row_counts.max(initial=1))
    room = max(longest, width) + 4  # uniform numbers come four at a time
    padded = -(-width // _LINES) * _LINES
    return _Work(
        np.zeros((padded, _TILE), dtype=np.float32),
        np.zeros((6, _TILE), dtype=np.float32),
        np.zeros(room),
        np.zeros(longest, dtype=np.float32),
        np.zeros((padded, padded), dtype=np.float32),
        np.zeros(padded, dtype=np.float32),
    )


# ---- biases and factors -----------------------------------------------------------------------


@compiled
def _draw_rows(start, stop, answers, this, other, thresholds, means, precision, words, work):
    for d in range(start, stop):
        _draw_row(answers_of(answers, d), this, other, thresholds, means, precision, words, work, d)


@inlined
def _fill_uniforms(uniform, n, d, purpose, words):
    philox.fill_uniforms(uniform, n, d * words.row, words.sweep, purpose, words.key0, words.key1)


@kernel_function
def _draw_row(answers, this, other, thresholds, prior_mean, precision, words, work, d):
    column, level, shift, weight = answers
    system, right, uniform, features = work.system, work.solution, work.uniform, work.features
    own, width = this.factors[d], this.factors.shape[1]
    _fill_uniforms(uniform, column.size, d, words.utility, words)
    system[:] = np.float32(0.0)
    right[:] = np.float32(0.0)
    for a in range(width):
        for b in range(a + 1):
            system[a, b] = precision[a, b]
        right[a] = dot(precision[a], prior_mean[d])
    numbers = work.numbers
    for first in range(0, column.size, _TILE):
        some, of_some = column[first : first + _TILE], level[first : first + _TILE]
        n = some.size
        _gather(some, other.factors, own, shift[first : first + _TILE], features, numbers)
        _set_bounds(some, of_some, this, other, thresholds, d, numbers)
        _draw_utilities(n, uniform[first : first + n], numbers)
        if weight.size > 0:
            _weigh(weight[first : first + n], numbers)
            for a in range(width):
                for e in range(n):
                    features[a, e] *= numbers[4, e]
        _add_answers(features, numbers[5], n, system, right)
    _factorise(system, width)
    _fill_uniforms(uniform, width, d, words.factor, words)
    _draw_gaussian(system, right, uniform, own)


@inlined
def _gather(column, factors, own, shift, features, numbers):
    """Features of the columns side by side, a one before them; what is beyond the last is zero.

    Fills in the offset (what the column adds by itself, and the shift) and the mean of each cell.
    """
    offset, mean, width = numbers[0], numbers[1], own.size
    n = column.size
    for e in range(n):
        source = factors[column[e]]
        features[0, e] = np.float32(1.0)
        for a in range(1, width):
            features[a, e] = source[a]
        offset[e] = source[0]
        mean[e] = offset[e] + own[0] + dot(own[1:], source[1:])
    for e in range(shift.size):
        offset[e] += shift[e]
        mean[e] += shift[e]
    for e in range(n, -(-n // _AT_A_TIME) * _AT_A_TIME):
        features[:, e] = np.float32(0.0)


@inlined
def _set_bounds(column, level, this, other, thresholds, d, numbers):
    mean, low, high = numbers[1], numbers[2], numbers[3]
    own_scale, own_width, scales, widths = this.scale[d], this.width[d], other.scale, other.width
    for e in range(column.size):
        i, answer = column[e], level[e]
        scale, width = own_scale + scales[i], own_width * widths[i]
        low[e] = width * thresholds[scale, answer] - mean[e]
        high[e] = width * thresholds[scale, answer + 1] - mean[e]


@inlined
def _next_to_draw_again(low, high, uniform, e, n):
    """The next draw that float32 is not accurate for: next to one it has too few numbers for the tails."""
    while e < n and _RARE <= uniform[e] <= 1.0 - _RARE and single.is_accurate(low[e], high[e]):
        e += 1
    return e


@kernel_function
def _draw_utilities(n, uniform, numbers):
    """Utilities without what their columns add, between their bounds; the sixth of the numbers."""
    offset, mean, low, high, drawn = numbers[0], numbers[1], numbers[2], numbers[3], numbers[5]
    for e in range(n):
        drawn[e] = single.truncated_draw(low[e], high[e], np.float32(uniform[e]))
    e = _next_to_draw_again(low, high, uniform, 0, n)
    while e < n:
        drawn[e] = np.float32(double.truncated_draw(np.float64(low[e]), np.float64(high[e]), uniform[e]))
        e = _next_to_draw_again(low, high, uniform, e + 1, n)
    for e in range(n):
        drawn[e] += mean[e] - offset[e]
    for e in range(n, -(-n // _AT_A_TIME) * _AT_A_TIME):
        drawn[e] = np.float32(0.0)


@kernel_function
def _weigh(weight, numbers):
    """Make of each draw that of its answer's weight, which is in the fifth of the numbers as its root.

    An answer that counts w times has as many utilities, whose sum s is all that the row needs. Of that,
    mean and variance are right: with m the expected utility and u the one that was drawn, it is
    w m + √w (u − m). What is kept is s / √w, for features that are multiplied by √w.
    """
    offset, mean, low, high = numbers[0], numbers[1], numbers[2], numbers[3]
    root, drawn = numbers[4], numbers[5]
    for e in range(weight.size):
        expected = np.float32(double.edge_densities(np.float64(low[e]), np.float64(high[e]))[2])
        root[e] = np.sqrt(weight[e])
        drawn[e] += (root[e] - np.float32(1.0)) * (expected + mean[e] - offset[e])


@inlined
def _add_answers(features, drawn, n, system, right):
    """Products of features with each other, and with what was drawn, summed over answers."""
    n = -(-n // _AT_A_TIME) * _AT_A_TIME
    for a in range(0, right.size, _LINES):
        for b in range(0, a + _LINES, _LINES):
            _add_block(features, n, a, b, system[a : a + _LINES, b : b + _LINES])
    for a in range(right.size):
        right[a] += dot(features[a, :n], drawn[:n])


@inlined_sum
def _add_block(features, n, a, b, block):
    """Sixteen sums at once, which stay in registers: four lines of features times four others."""
    x, y, z, w = features[a, :n], features[a + 1, :n], features[a + 2, :n], features[a + 3, :n]
    p, q, r, s = features[b, :n], features[b + 1, :n], features[b + 2, :n], features[b + 3, :n]
    zero = np.float32(0.0)
    xp = xq = xr = xs = yp = yq = yr = ys = zero
    zp = zq = zr = zs = wp = wq = wr = ws = zero
    for e in range(n):
        xp += x[e] * p[e]
        xq += x[e] * q[e]
        xr += x[e] * r[e]
        xs += x[e] * s[e]
        yp += y[e] * p[e]
        yq += y[e] * q[e]
        yr += y[e] * r[e]
        ys += y[e] * s[e]
        zp += z[e] * p[e]
        zq += z[e] * q[e]
        zr += z[e] * r[e]
        zs += z[e] * s[e]
        wp += w[e] * p[e]
        wq += w[e] * q[e]
        wr += w[e] * r[e]
        ws += w[e] * s[e]
    block[0, 0] += xp
    block[0, 1] += xq
    block[0, 2] += xr
    block[0, 3] += xs
    block[1, 0] += yp
    block[1, 1] += yq
    block[1, 2] += yr
    block[1, 3] += ys
    block[2, 0] += zp
    block[2, 1] += zq
    block[2, 2] += zr
    block[2, 3] += zs
    block[3, 0] += wp
    block[3, 1] += wq
    block[3, 2] += wr
    block[3, 3] += ws


@inlined
def _factorise(system, width):
    """Cholesky factor, in the lower triangle."""
    for a in range(width):
        for b in range(a):
            system[a, b] = (system[a, b] - dot(system[a, :b], system[b, :b])) / system[b, b]
        left = system[a, a] - dot(system[a, :a], system[a, :a])
        system[a, a] = np.sqrt(max(left, _LEAST_PIVOT * system[a, a]))


@inlined
def _draw_gaussian(lower, right, uniform, found):
    """A draw from the Gaussian with this precision, by its Cholesky factor; mean P⁻¹ right.

    It lies on the other side of the mean than what was there before.
    """
    width = found.size
    for a in range(width):
        right[a] = (right[a] - dot(lower[a, :a], right[:a])) / lower[a, a]
    for a in range(width):
        noise = np.float32(double.standard_normal(uniform[a]))
        right[a] = (_ONE + _OVERRELAXED) * right[a] + _NOISE_LEFT * noise
    for a in range(width - 1, -1, -1):
        new = right[a] / lower[a, a]
        for b in range(a):
            right[b] -= lower[a, b] * new
        found[a] = new - _OVERRELAXED * found[a]


# ---- what is left for a bin of answers --------------------------------------------------------


@compiled
def _bin_sums(start, stop, answers, bin_of, this, other, thresholds, words, sums, work):
    for d in range(start, stop):
        entries = slice(answers[0][d], answers[0][d + 1])
        row = answers_of(answers, d)
        _add_to_bins(row, bin_of[entries], this, other, thresholds, words, sums, work, d)


@inlined
def _add_to_bins(answers, bin_of, this, other, thresholds, words, sums, work, d):
    column, level, shift, weight = answers
    uniform, features, numbers = work.uniform, work.features, work.numbers
    _fill_uniforms(uniform, column.size, d, words.utility, words)
    offset, mean, drawn = numbers[0], numbers[1], numbers[5]
    for first in range(0, column.size, _TILE):
        some, of_some = column[first : first + _TILE], level[first : first + _TILE]
        n = some.size
        _gather(some, other.factors, this.factors[d], shift[first : first + _TILE], features, numbers)
        _set_bounds(some, of_some, this, other, thresholds, d, numbers)
        _draw_utilities(n, uniform[first : first + n], numbers)
        if weight.size > 0:
            _weigh(weight[first : first + n], numbers)
        for e in range(n):
            root = numbers[4, e] if weight.size > 0 else np.float32(1.0)
            left = drawn[e] - root * (mean[e] - offset[e]) + root * shift[first + e]
            sums[bin_of[first + e]] += root * left


# ---- widths -----------------------------------------------------------------------------------


@compiled
def _move_widths(start, stop, answers, this, other, thresholds, precision, words, taken, work):
    for d in range(start, stop):
        taken[d] = _move_width(answers_of(answers, d), this, other, thresholds, precision, words, work, d)


@inlined
def _move_width(answers, this, other, thresholds, precision, words, work, d):
    column, level, shift, weight = answers
    own, uniform = (column, level, weight), work.uniform
    _set_means(column, this.factors[d], other.factors, shift, work.mean)
    _fill_uniforms(uniform, 2, d, words.width, words)
    choice, chance = uniform[0], uniform[1]
    here = np.log(np.float64(this.width[d]))
    at_here, forward, narrow = _of_width(own, this, other, thresholds, precision, work, d, here)
    forward *= 0.5
    there = here + forward + double.standard_normal(choice) / np.sqrt(narrow)
    at_there, backward, narrow_back = _of_width(own, this, other, thresholds, precision, work, d, there)
    away, back = there - here - forward, here - there - 0.5 * backward
    log_ratio = at_there - at_here
    log_ratio += 0.5 * (np.log(narrow_back) - narrow_back * back * back)
    log_ratio -= 0.5 * (np.log(narrow) - narrow * away * away)
    is_taken = np.log(chance) < log_ratio
    if is_taken:
        this.width[d] = np.float32(np.exp(there))
    return is_taken


@inlined
def _set_means(column, own, factors, shift, mean):
    for e in range(column.size):
        source = factors[column[e]]
        mean[e] = own[0] + source[0] + dot(own[1:], source[1:])
    for e in range(shift.size):
        mean[e] += shift[e]


@kernel_function
def _of_width(answers, this, other, thresholds, precision, work, d, log_width):
    """Log posterior at a log width, Newton's step from there, and how narrow it is.

    For the curvature stand the squared slopes of the answers, which are never negative.
    """
    column, level, weight = answers
    numbers, mean = work.numbers, work.mean
    own, own_scale, scales, widths = np.float32(np.exp(log_width)), this.scale[d], other.scale, other.width
    total, slope, squares = 0.0, 0.0, 0.0
    for first in range(0, column.size, _TILE):
        n = min(_TILE, column.size - first)
        lower, upper, low, high = numbers[0], numbers[1], numbers[2], numbers[3]
        for e in range(n):
            i, answer = column[first + e], level[first + e]
            scale, width = own_scale + scales[i], own * widths[i]
            lower[e], upper[e] = width * thresholds[scale, answer], width * thresholds[scale, answer + 1]
            low[e], high[e] = lower[e] - mean[first + e], upper[e] - mean[first + e]
        _measure(n, numbers)
        for e in range(n):
            along = np.float64(0.0)
            if upper[e] < np.inf:
                along += np.float64(numbers[5][e]) * upper[e]
            if lower[e] > -np.inf:
                along -= np.float64(numbers[4][e]) * lower[e]
            times = np.float64(weight[first + e]) if weight.size > 0 else 1.0
            total += times * np.float64(numbers[2][e])
            slope += times * along
            squares += times * along * along
    total -= 0.5 * precision * log_width * log_width
    narrow = precision + squares
    return total, (slope - precision * log_width) / narrow, narrow


@kernel_function
def _measure(n, numbers):
    """Of the intervals in the third and fourth: log masses (there), densities at their ends."""
    low, high, at_low, at_high = numbers[2], numbers[3], numbers[4], numbers[5]
    for e in range(n):
        at_low[e], at_high[e], _ = single.edge_densities(low[e], high[e])
    e = next_inaccurate(low, high, 0, n)
    while e < n:
        below, above = np.float64(low[e]), np.float64(high[e])
        exact = double.edge_densities(below, above)
        at_low[e], at_high[e] = np.float32(exact[0]), np.float32(exact[1])
        low[e], high[e] = np.float32(double.log_mass(below, above)), -np.inf  # no upper bound is: done
        e = next_inaccurate(low, high, e + 1, n)
    for e in range(n):
        mass = single.log_mass(low[e], high[e])
        low[e] = low[e] if high[e] == -np.inf else mass


# ---- thresholds -------------------------------------------------------------------------------


@compiled
def _threshold_sums(start, stop, answers, this, other, thresholds, total, slope, squares, work):
    for d in range(start, stop):
        row, sums = answers_of(answers, d), (slope[d], squares[d])
        total[d] = _add_to_thresholds(row, this, other, thresholds, work, sums, d)


@inlined
def _add_to_thresholds(answers, this, other, thresholds, work, sums, d):
    column, level, shift, weight = answers
    slope, squares = sums
    numbers, mean = work.numbers, work.mean
    _set_means(column, this.factors[d], other.factors, shift, mean)
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
            width = np.float64(this.width[d]) * other.width[i]
            below, above = width * numbers[4][e], width * numbers[5][e]
            times = np.float64(weight[first + e]) if weight.size > 0 else 1.0
            total += times * np.float64(numbers[2][e])
            slope[place] -= times * below
            slope[place + 1] += times * above
            squares[place, 0] += times * below * below
            squares[place + 1, 0] += times * above * above
            squares[place, 1] -= times * below * above
    return total

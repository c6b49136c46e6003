"""The half-sweep of Gaussian factors: every row regresses its utilities on the columns.

A cell's utility is Gaussian with variance one around b_row + b_column + p_row · q_column. Given the
columns, each row has an ordered probit regression of its own with a Gaussian prior. The expected
utility of an answer stands in for a value (skipped where levels stand for utilities that are known
exactly), and what is left is a ridge regression, whose solution a few steps of conjugate gradients
come close to: factors are kept in axes in which they are uncorrelated
(:mod:`ordinalrbm.matrix.variational`), so that the system is nearly diagonal. What is not known about
a column acts as a ridge, one for each of its coordinates. Then the row takes one Newton step on the
logarithms of its gaps. The columns do the same on the transposed table, with the roles swapped.

:meth:`CpuEngine.half_sweep` does all of it row by row. The same work is also here in the stages of
:class:`~ordinalrbm.engine.base.HalfSweepEngine`, for rows whose answers are spread over processes.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.engine import thresholds
from ordinalrbm.engine.base import (
    LARGEST_MOVE,
    LEAST_PIVOT,
    MEAN_FIELD_CORRECTION,
    NO_VALUES,
    SOLVED,
    STEPS,
    FactorPosterior,
    HalfSweepEngine,
)
from ordinalrbm.engine.normal import double, next_inaccurate, single
from ordinalrbm.engine.rated_sets import FeatureTable, add_lines
from ordinalrbm.engine.side import answers_of, row_view
from ordinalrbm.engine.thresholds import add_scaled, dot
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import compiled, inlined, inlined_sum, kernel_function
from ordinalrbm.runtime.process_group import Group

# Answers of a row whose utilities are looked at together, so that they are computed side by side.
_TILE = 64


class _Work(NamedTuple):
    """Working memory of a thread."""

    slope: np.ndarray
    ridge: np.ndarray
    diagonal: np.ndarray
    direction: np.ndarray
    image: np.ndarray
    move: np.ndarray
    square: np.ndarray
    tile: np.ndarray
    gaps: np.ndarray
    system: np.ndarray
    first: np.ndarray  # gap of each group of gaps that move together


class CpuEngine(HalfSweepEngine):
    """Half-sweeps on the cores of this machine: arrays are NumPy's, kernels are Numba's."""

    library = np

    def half_sweep(
        self, answers, this, other, prior, spread=True, values=NO_VALUES, *, settled=np.inf, most_sweeps=1
    ):
        """``values`` are (L,) float32, the utility that each level stands for, if known exactly.

        With more than one sweep, each row goes on until it has settled, see :meth:`settle`.
        """
        if isinstance(self.answers_among, Group):
            return self.staged_half_sweep(answers, this, other, prior, spread)
        variance = np.zeros_like(this.cutpoints)
        until = np.float32(settled * settled), most_sweeps
        arguments = row_view(answers), this, other, prior, spread, values, variance, *until
        over_rows(_half_sweep, answers.n_rows, *arguments, scratch=partial(_work, this))
        return variance

    def settle(self, answers, this, other, prior, settled, most_sweeps, **how):
        self.half_sweep(answers, this, other, prior, **how, settled=settled, most_sweeps=most_sweeps)

    def bin_pulls(self, answers, this, other, bins):
        found = np.zeros(bins.bins.n)
        arguments = row_view(answers), bins.of_rows, this, other, found
        over_rows(_bin_pulls, answers.n_rows, *arguments, scratch=partial(_work, this))
        return found

    def with_offsets(self, answers, level, bin_of):
        return answers.with_offset(level[bin_of])

    def squared_error(self, answers, this, other, values):
        total = np.zeros(len(this.mean))
        arguments = row_view(answers), this, other, values, total
        over_rows(_squared_errors, answers.n_rows, *arguments, scratch=partial(_work, this))
        return float(total.sum())

    def array(self, values, like):
        return values

    def host(self, values):
        return values

    def gather(self, answers, this, other):
        n_rows, width = this.mean.shape
        sums = np.empty((n_rows, 2, width), dtype=np.float32)
        ridge, no_prior = np.empty((n_rows, width), dtype=np.float32), np.zeros(width, dtype=np.float32)
        arguments = row_view(answers), this, other, no_prior, NO_VALUES, sums, ridge
        over_rows(_gather_rows, n_rows, *arguments, scratch=partial(_work, this))
        return sums, ridge

    def apply(self, answers, other, ridge, direction):
        image = np.empty_like(direction)
        row_start, column, _, _, weight = row_view(answers)
        over_rows(_apply_rows, answers.n_rows, row_start, column, weight, other.mean, ridge, direction, image)
        return image

    def gap_sums(self, answers, this, other, rows):
        n_rows, n_groups = rows.stop - rows.start, thresholds.moving_gaps(this.cutpoints.shape[1]).size - 1
        system = np.zeros((n_rows, n_groups, n_groups))
        arguments = row_view(answers), this, other, rows.start, system
        over_rows(_sum_gaps, n_rows, *arguments, scratch=partial(_work, this))
        return system

    def move_gaps(self, this, prior, system, rows):
        precision, cutpoints = prior.cutpoints_precision, this.cutpoints[rows]
        first = thresholds.moving_gaps(cutpoints.shape[1])
        pull = precision[1:] * (prior.cutpoints[rows] - cutpoints)[:, 1:]
        system[:, 1:, 0] += means_of_groups(pull, first)
        np.einsum("kmm->km", system)[:, 1:] += means_of_groups(precision[1:], first)
        variance, diagonal = np.zeros_like(cutpoints), np.zeros(system.shape[:2])
        over_rows(_move_rows, len(cutpoints), system, diagonal, first, cutpoints, this.gaps[rows], variance)
        return variance

    def rated_sums_here(self, answers, table, weighted):
        if weighted and answers.weight.size:
            shape = answers.n_rows, len(table)
            return csr_array((answers.weight, answers.column, answers.row_start), shape=shape) @ table
        found = np.empty((answers.n_rows, table.shape[1]), dtype=np.float32)
        over_rows(
            add_lines, answers.n_rows, answers.row_start, answers.column, np.ascontiguousarray(table), found
        )
        return found

    def rated_products_here(self, answers, table, of_rows):
        found = np.empty((answers.n_rows, table.shape[1]), dtype=np.float32)
        table, of_rows = np.ascontiguousarray(table), np.ascontiguousarray(of_rows)
        row_start, column, _, _, weight = row_view(answers)
        over_rows(_add_products, answers.n_rows, row_start, column, weight, table, of_rows, found)
        return found

    def feature_table(self, table, like):
        return FeatureTable.of(table)


CPU_ENGINE = CpuEngine()


def _work(this: FactorPosterior) -> _Work:
    first = thresholds.moving_gaps(this.cutpoints.shape[1])
    lines = [np.empty(this.mean.shape[1], dtype=np.float32) for _ in range(7)]
    tile = np.empty((6, _TILE), dtype=np.float32)
    n_groups = first.size - 1  # and one that does not move, in front
    return _Work._make([*lines, tile, np.empty((3, n_groups)), np.empty((n_groups, n_groups)), first])


@compiled
def _half_sweep(
    start, stop, answers, this, other, prior, spread, values, cutpoints_variance, settled, most_sweeps, work
):
    for d in range(start, stop):
        row = answers_of(answers, d)
        for _ in range(most_sweeps):
            _half_sweep_row(row, this, other, prior, spread, values, work, cutpoints_variance, d)
            if _has_settled(work.move, this.variance[d], settled):
                break


@inlined
def _has_settled(move, variance, settled):
    n_moving = 0
    for a in range(move.size):
        n_moving += move[a] * move[a] > settled * variance[a]
    return n_moving == 0


@kernel_function
def _half_sweep_row(answers, this, other, prior, spread, values, work, cutpoints_variance, d):
    slope, ridge, diagonal = work.slope, work.ridge, work.diagonal
    move, mean, variance = work.move, this.mean[d], this.variance[d]
    column, weight = answers[0], answers[3]
    _gather(answers, this, other, prior.precision, values, slope, ridge, diagonal, work.tile, d)
    if prior.mean.size > 0:
        _towards(prior.mean[d], prior.precision, slope)
    _solve(column, weight, other.mean, slope, ridge, diagonal, work.direction, work.image, move)
    add_scaled(mean, np.float32(1.0), move)
    if spread:
        _keep_variances(prior.precision, diagonal, variance)
    if prior.cutpoints_precision.size > 1 and prior.cutpoints_precision[1] < np.inf:
        _square(mean, work.square)
        _move_gaps(answers, this, other, prior, work, cutpoints_variance, d)


@inlined
def _keep_variances(precision, diagonal, variance):
    for a in range(variance.size):
        if precision[a] == np.inf:
            variance[a] = 0.0
        else:
            informed = (diagonal[a] - precision[a]) / np.float32(MEAN_FIELD_CORRECTION)
            variance[a] = np.float32(1.0) / (precision[a] + informed)


@inlined
def _gather(answers, this, other, precision, values, slope, ridge, diagonal, tile, d):
    """Slope of the log posterior at the current mean, ridge, and diagonal of the system.

    Answers add pull times feature, the features' variances, and squared features.
    """
    column, level, offset, weight = answers
    mean, at, low, high, pull = this.mean[d], tile[0], tile[1], tile[2], tile[5]
    for a in range(mean.size):
        slope[a], diagonal[a], ridge[a] = 0.0, 0.0, precision[a]
    for first in range(0, column.size, _TILE):
        some = column[first : first + _TILE]
        _cell_means(some, mean, other.mean, offset[first : first + _TILE], at)
        if values.size > 0:
            for e in range(some.size):
                pull[e] = values[level[first + e]] - at[e]
        else:
            _set_bounds(some, level[first : first + _TILE], this, other, d, at, low, high)
            _expect(some.size, low, high, tile[3], tile[4], pull)
        if weight.size > 0:
            _add_weighted_features(some, weight[first : first + _TILE], other, pull, slope, ridge, diagonal)
        else:
            _add_features(some, other, pull, slope, ridge, diagonal)
    for a in range(mean.size):
        if precision[a] == np.inf:  # it stays
            slope[a], ridge[a], diagonal[a] = 0.0, 0.0, np.inf
        else:
            slope[a] -= ridge[a] * mean[a]
            diagonal[a] += ridge[a]


@inlined
def _towards(expected, precision, slope):
    """The prior draws towards what is expected of the row, and not towards zero."""
    for a in range(slope.size):
        if precision[a] < np.inf:
            slope[a] += precision[a] * expected[a]


@inlined
def _cell_means(column, mean, features, offset, at):
    for e in range(column.size):
        at[e] = _cell_mean(mean, features[column[e]])
    for e in range(offset.size):
        at[e] += offset[e]


@inlined_sum
def _cell_mean(mean, features):
    total = mean[0] + features[0]
    for a in range(1, mean.size):
        total += mean[a] * features[a]
    return total


@inlined
def _set_bounds(column, level, this, other, d, mean, low, high):
    """Bounds of the levels of a row's answers, less the means of their utilities."""
    own, gaps, most, n_levels = this.gaps[d], other.gaps, this.n_levels[d], other.n_levels
    for e in range(column.size):
        i = column[e]
        lower, upper = thresholds.bounds_from_gaps(gaps[i], own, level[e])
        if level[e] == min(most, n_levels[i]) - 1:
            upper = np.inf
        low[e], high[e] = np.float32(lower - mean[e]), np.float32(upper - mean[e])


@kernel_function
def _expect(n, low, high, at_low, at_high, pull):
    """Densities at the bounds of levels, and how far expected utilities are from their means."""
    for e in range(n):
        at_low[e], at_high[e], pull[e] = single.edge_densities(low[e], high[e])
    e = next_inaccurate(low, high, 0, n)
    while e < n:
        exact = double.edge_densities(np.float64(low[e]), np.float64(high[e]))
        at_low[e], at_high[e] = np.float32(exact[0]), np.float32(exact[1])
        pull[e] = np.float32(exact[2])
        e = next_inaccurate(low, high, e + 1, n)


@inlined
def _add_features(column, other, pull, slope, ridge, diagonal):
    # Four at a time: sums are then read and written a quarter as often.
    last = column.size - column.size % 4
    mean, variance = other.mean, other.variance
    for e in range(0, last, 4):
        i, j, k, m = column[e], column[e + 1], column[e + 2], column[e + 3]
        _add_four(mean[i], mean[j], mean[k], mean[m], pull[e : e + 4], slope, diagonal)
        _add_sum(variance[i], variance[j], variance[k], variance[m], ridge)
    for e in range(last, column.size):
        _add_one(mean[column[e]], variance[column[e]], pull[e], slope, ridge, diagonal)


@inlined
def _add_weighted_features(column, weight, other, pull, slope, ridge, diagonal):
    mean, variance = other.mean, other.variance
    for e in range(column.size):
        _add_weighted(mean[column[e]], variance[column[e]], pull[e], weight[e], slope, ridge, diagonal)


@inlined_sum
def _add_weighted(features, variance, pull, weight, slope, ridge, diagonal):
    slope[0] += weight * pull
    diagonal[0] += weight
    for a in range(1, features.size):
        slope[a] += weight * pull * features[a]
        diagonal[a] += weight * features[a] * features[a]
        ridge[a] += weight * variance[a]


@inlined_sum
def _add_one(features, variance, pull, slope, ridge, diagonal):
    # The other's bias is no feature: where it stands, a row's own bias has a one.
    slope[0] += pull
    diagonal[0] += np.float32(1.0)
    for a in range(1, features.size):
        slope[a] += pull * features[a]
        diagonal[a] += features[a] * features[a]
        ridge[a] += variance[a]


@inlined_sum
def _add_four(x, y, z, w, pull, slope, diagonal):
    p, q, r, s = pull[0], pull[1], pull[2], pull[3]
    slope[0] += p + q + r + s
    diagonal[0] += np.float32(4.0)
    for a in range(1, x.size):
        slope[a] += p * x[a] + q * y[a] + r * z[a] + s * w[a]
        diagonal[a] += x[a] * x[a] + y[a] * y[a] + z[a] * z[a] + w[a] * w[a]


@inlined_sum
def _add_sum(x, y, z, w, total):
    for a in range(1, x.size):
        total[a] += x[a] + y[a] + z[a] + w[a]


# ---- a system of equations --------------------------------------------------------------------


@inlined
def _solve(column, weight, features, slope, ridge, diagonal, direction, image, move):
    """Conjugate gradients with the diagonal as preconditioner; ``slope`` is used up."""
    size = np.float32(0.0)
    for a in range(slope.size):
        move[a] = 0.0
        direction[a] = slope[a] / diagonal[a]
        size += slope[a] * direction[a]
    first = size
    for _ in range(STEPS):
        if size <= np.float32(SOLVED) * first:
            break
        _apply(column, weight, features, ridge, direction, image)
        along = size / dot(direction, image)
        add_scaled(move, along, direction)
        add_scaled(slope, -along, image)
        before, size = size, np.float32(0.0)
        for a in range(slope.size):
            if diagonal[a] == np.inf:
                slope[a] = 0.0
            size += slope[a] * slope[a] / diagonal[a]
        for a in range(slope.size):
            direction[a] = slope[a] / diagonal[a] + size / before * direction[a]


@inlined
def _apply(column, weight, features, ridge, direction, image):
    for a in range(direction.size):
        image[a] = ridge[a] * direction[a]
    if weight.size > 0:
        for e in range(column.size):
            _add_projection(features[column[e]], direction, weight[e], image)
        return
    last = column.size - column.size % 4
    for e in range(0, last, 4):
        x, y, z, w = column[e], column[e + 1], column[e + 2], column[e + 3]
        _add_projections(features[x], features[y], features[z], features[w], direction, image)
    for e in range(last, column.size):
        _add_projection(features[column[e]], direction, np.float32(1.0), image)


@inlined_sum
def _add_projection(features, direction, weight, image):
    along = direction[0]
    for a in range(1, direction.size):
        along += features[a] * direction[a]
    along *= weight
    image[0] += along
    for a in range(1, direction.size):
        image[a] += along * features[a]


@inlined_sum
def _add_projections(x, y, z, w, direction, image):
    p, q, r, s = direction[0], direction[0], direction[0], direction[0]
    for a in range(1, direction.size):
        p += x[a] * direction[a]
        q += y[a] * direction[a]
        r += z[a] * direction[a]
        s += w[a] * direction[a]
    image[0] += p + q + r + s
    for a in range(1, direction.size):
        image[a] += p * x[a] + q * y[a] + r * z[a] + s * w[a]


# ---- gaps -------------------------------------------------------------------------------------


@inlined_sum
def _square(mean, square):
    for a in range(mean.size):
        square[a] = mean[a] * mean[a]


@inlined_sum
def cell_variance(square, variance, features, features_variance):
    """Variance of a cell's mean, of the squares of one side's means."""
    total = variance[0] + features_variance[0]
    for a in range(1, square.size):
        total += variance[a] * (features[a] * features[a] + features_variance[a])
        total += square[a] * features_variance[a]
    return total


@inlined
def _move_gaps(answers, this, other, prior, work, cutpoints_variance, d):
    """One Newton step on the log gaps; the first threshold is left to the bias.

    What is not known about a cell's mean widens the utility here, as it does in predictions.
    """
    cutpoints, centre, precision = this.cutpoints[d], prior.cutpoints[d], prior.cutpoints_precision
    slope, system, first = work.gaps[0], work.system, work.first
    for g in range(1, slope.size):
        slope[g] = 0.0
        for c in range(1, g + 1):
            system[g, c] = 0.0
        # Gaps that move together are one, as far from its centre as they are on average.
        share = 1.0 / (first[g + 1] - first[g])
        for m in range(first[g], first[g + 1]):
            slope[g] += share * precision[m] * (centre[m] - cutpoints[m])
            system[g, g] += share * precision[m]
    _add_to_gaps(answers, this, other, work, d)
    diagonal = work.gaps[1]
    _newton(system, slope, diagonal, first, cutpoints, this.gaps[d], cutpoints_variance[d])


@inlined
def _add_to_gaps(answers, this, other, work, d):
    column, level, offset, weight = answers
    tile = work.tile
    at, low, high, at_low, at_high, scale = tile[0], tile[1], tile[2], tile[3], tile[4], tile[5]
    square, variance, others, variances = work.square, this.variance[d], other.mean, other.variance
    for first in range(0, column.size, _TILE):
        some = column[first : first + _TILE]
        _cell_means(some, this.mean[d], other.mean, offset[first : first + _TILE], at)
        # Bounds in standard deviations of what is known.
        _set_bounds(some, level[first : first + _TILE], this, other, d, at, low, high)
        for e in range(some.size):
            doubt = cell_variance(square, variance, others[some[e]], variances[some[e]])
            scale[e] = np.float32(1.0) / np.sqrt(np.float32(1.0) + doubt)
            low[e], high[e] = low[e] * scale[e], high[e] * scale[e]
        _expect(some.size, low, high, at_low, at_high, at)
        for e in range(some.size):
            answer, bounds = np.int64(level[first + e]), (low[e], high[e], at_low[e], at_high[e])
            times = weight[first + e] if weight.size > 0 else np.float32(1.0)
            _add_answer(answer, times, this.gaps[d], other.gaps[some[e]], scale[e], bounds, work)


@inlined
def _newton(system, slope, diagonal, first, cutpoints, gaps, variance):
    _factorise(system)
    _invert(system, slope, diagonal)
    for g in range(1, diagonal.size):
        move = min(max(slope[g], -LARGEST_MOVE), LARGEST_MOVE)
        for m in range(first[g], first[g + 1]):
            cutpoints[m] += move
            gaps[m] = np.exp(cutpoints[m])
            variance[m] = diagonal[g]


@inlined
def _add_answer(level, times, gaps, other_gaps, scale, bounds, work):
    """Add one answer to a row's slope, and to its curvature without that of the exponential.

    The mass between the two bounds is log-concave in them, so that the system stays positive.
    """
    slope, below, above = work.gaps[0], work.gaps[1], work.gaps[2]
    low, high, at_low, at_high = bounds
    system, first, last = work.system, work.first, high == np.inf
    curved_low = at_low * (at_low - low) if level > 0 else 0.0
    curved_high = 0.0 if last else at_high * (at_high + high)
    # A bound moves with every gap below it.
    for g in range(1, slope.size):
        if first[g] > level:
            break
        below[g] = above[g] = 0.0
        for m in range(first[g], min(first[g + 1], level + 1)):
            width = gaps[m] * other_gaps[m] * scale
            below[g] += width if m < level else 0.0
            above[g] += 0.0 if last else width
        slope[g] += times * (at_high * above[g] - at_low * below[g])
        for c in range(1, g + 1):
            system[g, c] += times * (
                curved_low * below[g] * below[c]
                + curved_high * above[g] * above[c]
                - at_low * at_high * (below[g] * above[c] + above[g] * below[c])
            )


@inlined
def _factorise(system):
    """Cholesky factor of the lower triangle, from position 1 on, in place."""
    for a in range(1, system.shape[0]):
        for c in range(1, a + 1):
            rest = system[a, c]
            for k in range(1, c):
                rest -= system[a, k] * system[c, k]
            if a == c:
                system[a, a] = np.sqrt(max(rest, LEAST_PIVOT))
            else:
                system[a, c] = rest / system[c, c]


@inlined
def _invert(factor, slope, diagonal):
    """Replace the slope by the solution; diagonal of the inverse. The factor is used up."""
    n = factor.shape[0]
    for a in range(1, n):
        for c in range(1, a):
            slope[a] -= factor[a, c] * slope[c]
        slope[a] /= factor[a, a]
    for a in range(n - 1, 0, -1):
        for c in range(a + 1, n):
            slope[a] -= factor[c, a] * slope[c]
        slope[a] /= factor[a, a]
    for b in range(1, n):
        diagonal[b] = 0.0
        # Column b of the factor's inverse, top to bottom; squares add up to the diagonal.
        for a in range(b, n):
            rest = 1.0 if a == b else 0.0
            for c in range(b, a):
                rest -= factor[a, c] * factor[0, c]
            factor[0, a] = rest / factor[a, a]
            diagonal[b] += factor[0, a] * factor[0, a]


# ---- how far levels with known utilities are from their means ------------------------------------


@compiled
def _squared_errors(start, stop, answers, this, other, values, total, work):
    for d in range(start, stop):
        total[d] = _squared_error(answers, d, this, other, values, work.square)


@inlined
def _squared_error(answers, d, this, other, values, square):
    column, level, _, weight = answers_of(answers, d)
    _square(this.mean[d], square)
    total = 0.0
    for e in range(column.size):
        i = column[e]
        away = values[level[e]] - _cell_mean(this.mean[d], other.mean[i])
        doubt = cell_variance(square, this.variance[d], other.mean[i], other.variance[i])
        times = np.float64(weight[e]) if weight.size > 0 else 1.0
        total += times * (np.float64(away) * np.float64(away) + np.float64(doubt))
    return total


# ---- what is left for a bin of answers --------------------------------------------------------


@compiled
def _bin_pulls(start, stop, answers, bin_of, this, other, pulls, work):
    for d in range(start, stop):
        entries = slice(answers[0][d], answers[0][d + 1])
        _add_to_bins(answers_of(answers, d), bin_of[entries], this, other, work.tile, pulls, d)


@inlined
def _add_to_bins(answers, bin_of, this, other, tile, pulls, d):
    column, level, offset, weight = answers
    at, low, high, pull = tile[0], tile[1], tile[2], tile[5]
    for first in range(0, column.size, _TILE):
        some = column[first : first + _TILE]
        _cell_means(some, this.mean[d], other.mean, offset[first : first + _TILE], at)
        _set_bounds(some, level[first : first + _TILE], this, other, d, at, low, high)
        _expect(some.size, low, high, tile[3], tile[4], pull)
        for e in range(some.size):
            pulls[bin_of[first + e]] += weight[first + e] * pull[e] if weight.size > 0 else pull[e]


# ---- in stages --------------------------------------------------------------------------------


@compiled
def _gather_rows(start, stop, answers, this, other, precision, values, sums, ridge, work):
    for d in range(start, stop):
        row, slope, diagonal = answers_of(answers, d), sums[d, 0], sums[d, 1]
        _gather(row, this, other, precision, values, slope, ridge[d], diagonal, work.tile, d)


@compiled
def _apply_rows(start, stop, row_start, column, weight, features, ridge, direction, image):
    for d in range(start, stop):
        entries = slice(row_start[d], row_start[d + 1])
        _apply(column[entries], weight[entries], features, ridge[d], direction[d], image[d])


@compiled
def _sum_gaps(start, stop, answers, this, other, first, system, work):
    for k in range(start, stop):
        d = first + k
        work.gaps[0] = 0.0
        work.system[:] = 0.0
        _square(this.mean[d], work.square)
        _add_to_gaps(answers_of(answers, d), this, other, work, d)
        for a in range(work.system.shape[0]):
            for c in range(1, a + 1):
                system[k, a, c] = work.system[a, c]
            system[k, a, 0] = work.gaps[0, a]


def means_of_groups(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Means over gaps that move together, along the last axis."""
    return np.add.reduceat(values, first[1:-1] - 1, axis=-1) / np.diff(first[1:])


@compiled
def _move_rows(start, stop, system, diagonal, first, cutpoints, gaps, variance):
    for d in range(start, stop):
        slope = system[d, :, 0]
        _newton(system[d], slope, diagonal[d], first, cutpoints[d], gaps[d], variance[d])


# ---- sums over rows or columns, and what is made of them --------------------------------------


@compiled
def _add_products(start, stop, row_start, column, weight, table, of_rows, found):
    for d in range(start, stop):
        entries = slice(row_start[d], row_start[d + 1])
        _add_products_of_row(column[entries], weight[entries], table, of_rows[d], found[d])


@inlined
def _add_products_of_row(column, weight, table, own, total):
    for a in range(total.size):
        total[a] = np.float32(0.0)
    for e in range(column.size):
        line = table[column[e]]
        along = dot(line, own)
        add_scaled(total, weight[e] * along if weight.size > 0 else along, line)

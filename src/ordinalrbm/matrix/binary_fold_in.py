"""New rows of the matrix model with binary factors, from their answers, while all columns stay.

A new row has factors h, and parameters of its own: weights ω and a bias β for the columns' factors and gaps
κ. They are found in turns. Given the parameters, h is a fixed point of mean-field. Given h, what is left is
an ordered probit regression of the answers on the columns' expected factors with Gaussian priors, whose
logarithm is concave in ω and β: Newton's method. The gaps follow by damped steps.
"""

from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.normal import double
from ordinalrbm.engine.thresholds import add_scaled, dot
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import allocating_function, compiled, inlined

# Turns at most, and the change of a mean utility at which to stop before.
MOST_TURNS = 8
SETTLED = 2e-3
MEAN_FIELD_STEPS = 3
# After so many turns the curvature hardly changes and is kept.
NEW_CURVATURES = 3
# A gap changes by this factor (as a logarithm) at most in one turn.
LARGEST_STEP = 0.5
LEAST_INFORMATION = 1e-3
_INFINITE = 1e6  # bounds of levels this far out are as good as infinite


class KnownColumns(NamedTuple):
    """What a row sees of the columns: their parameters, factors and levels; all (columns, …)."""

    weights: np.ndarray
    bias: np.ndarray
    cutpoints: np.ndarray
    factors: np.ndarray
    n_levels: np.ndarray
    factor_bias: np.ndarray


class NewRows(NamedTuple):
    """New rows, to be filled in, and the number of levels that each of them may use."""

    factors: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    cutpoints: np.ndarray
    n_levels: np.ndarray


def infer_rows(rows: Observations, columns: KnownColumns, new: NewRows, prior: Any) -> None:
    over_rows(_infer_rows, rows.n_rows, rows.row_start, rows.column, rows.level, columns, new, prior)


@compiled
def _infer_rows(start, stop, row_start, column, level, columns, new, prior):
    for row in range(start, stop):
        entries = slice(row_start[row], row_start[row + 1])
        _infer_row(column[entries], level[entries], columns, new, prior, row)


@allocating_function
def _infer_row(column, level, columns, new, prior, row):
    n, n_own = column.size, prior.factors.size
    if n == 0:
        return
    factors = np.full(new.factors.shape[1], 0.5)
    own = np.zeros(n_own + 1)  # ω, then the bias of a row that meets average factors
    own[n_own] = prior.bias[0]
    common = prior.cutpoints[new.n_levels[row]]
    cutpoints = common.copy()
    design, lower = _centred_factors(column, columns, prior), np.empty((n_own + 1, n_own + 1))
    by_own, by_factors = np.full(n, prior.bias[0]), np.empty(n)
    low, high, utility, before = np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    for turn in range(MOST_TURNS):
        for step in range(MEAN_FIELD_STEPS + 1):
            _act(column, columns, factors, by_factors)
            _expect(
                column, level, columns, new.n_levels[row], cutpoints, by_factors, by_own, low, high, utility
            )
            if step < MEAN_FIELD_STEPS:
                _infer_factors(column, columns, utility, factors)
        if prior.bias_precision[0] < np.inf:
            if turn < NEW_CURVATURES:
                _curvature(design, low, high, prior, lower)
            _newton(design, by_factors, by_own, utility, prior, lower, own)
            for e in range(n):
                by_own[e] = dot(design[e], own)
            # Gaps and bias speak of the same thing: one after the other, or both overshoot.
            _expect(
                column, level, columns, new.n_levels[row], cutpoints, by_factors, by_own, low, high, utility
            )
            _move_cutpoints(
                column, level, columns, low, high, prior.cutpoints_precision[0], common, cutpoints
            )
        change = 0.0
        for e in range(n):
            mean = by_factors[e] + by_own[e]
            change = max(change, abs(mean - before[e]))
            before[e] = mean
        if turn > 0 and change < SETTLED:
            break
    _write(new, row, factors, own, cutpoints, prior)


@inlined
def _write(new, row, factors, own, cutpoints, prior):
    for k in range(factors.size):
        new.factors[row, k] = factors[k]
    bias = own[prior.factors.size]
    for k in range(prior.factors.size):
        new.weights[row, k] = own[k]
        bias -= own[k] * prior.factors[k]
    new.bias[row] = bias
    for m in range(cutpoints.size):
        new.cutpoints[row, m] = cutpoints[m]


@allocating_function
def _centred_factors(column, columns, prior):
    """(answers, S + 1): the columns' factors around their means, and a one for the bias."""
    design = np.ones((column.size, prior.factors.size + 1))
    for e in range(column.size):
        for k in range(prior.factors.size):
            design[e, k] = columns.factors[column[e], k] - prior.factors[k]
    return design


@inlined
def _act(column, columns, factors, mean):
    """What the columns' parameters and the row's factors make of each mean."""
    for e in range(column.size):
        mean[e] = columns.bias[column[e]] + dot(columns.weights[column[e]], factors)


@inlined
def _expect(column, level, columns, row_levels, cutpoints, by_factors, by_own, low, high, utility):
    """Bounds of each answer's level, seen from its mean, and its expected utility."""
    for e in range(column.size):
        i, mean = column[e], by_factors[e] + by_own[e]
        lower, upper = thresholds.bounds(columns.cutpoints[i], cutpoints, level[e])
        is_last = level[e] == min(columns.n_levels[i], row_levels) - 1
        low[e] = lower - mean if level[e] > 0 else -_INFINITE
        high[e] = _INFINITE if is_last else upper - mean
        utility[e] = mean + double.edge_densities(low[e], high[e])[2]


@inlined
def _infer_factors(column, columns, utility, factors):
    for k in range(factors.size):
        factors[k] = columns.factor_bias[k]
    for e in range(column.size):
        add_scaled(factors, utility[e], columns.weights[column[e]])
    for k in range(factors.size):
        factors[k] = double.logistic(factors[k])


@inlined
def _curvature(design, low, high, prior, lower):
    """Cholesky factor of minus the second derivative by the weights and the bias of a row."""
    n, size = design.shape
    lower[:] = 0.0
    for k in range(size - 1):
        lower[k, k] = prior.weights_precision[k]
    lower[size - 1, size - 1] = prior.bias_precision[0]
    for e in range(n):
        at_low, at_high, shift = double.edge_densities(low[e], high[e])
        information = shift * shift - (low[e] * at_low - high[e] * at_high)
        information = min(max(information, LEAST_INFORMATION), 1.0)
        for k in range(size):
            add_scaled(lower[k, : k + 1], information * design[e, k], design[e, : k + 1])
    for k in range(size):
        for j in range(k + 1):
            rest = lower[k, j] - dot(lower[k, :j], lower[j, :j])
            lower[k, j] = np.sqrt(rest) if j == k else rest / lower[j, j]


@allocating_function
def _newton(design, by_factors, by_own, utility, prior, lower, own):
    """One step of Newton's method for the weights and the bias of a row."""
    n, size = design.shape
    slope = np.empty(size)
    for k in range(size - 1):
        slope[k] = -prior.weights_precision[k] * own[k]
    slope[size - 1] = -prior.bias_precision[0] * (own[size - 1] - prior.bias[0])
    for e in range(n):
        add_scaled(slope, utility[e] - by_factors[e] - by_own[e], design[e])
    for k in range(size):
        slope[k] = (slope[k] - dot(lower[k, :k], slope[:k])) / lower[k, k]
    for k in range(size - 1, -1, -1):
        slope[k] /= lower[k, k]
        add_scaled(slope[:k], -slope[k], lower[k, :k])
    for k in range(size):
        own[k] += slope[k]


@allocating_function
def _move_cutpoints(column, level, columns, low, high, precision, common, cutpoints):
    """One damped step for the logarithms of the gaps; the first threshold stays."""
    slope, curvature = np.zeros(cutpoints.size), np.full(cutpoints.size, precision)
    for m in range(1, cutpoints.size):
        slope[m] = -precision * (cutpoints[m] - common[m])
    for e in range(column.size):
        i, v = column[e], np.intp(level[e])
        at_low, at_high, _ = double.edge_densities(low[e], high[e])
        for m in range(1, min(v + 1, cutpoints.size)):
            # A bound moves with every gap below it.
            share = at_high - at_low if m < v else at_high
            share *= thresholds.gap(columns.cutpoints[i], cutpoints, m)
            slope[m] += share
            curvature[m] += share * share
    for m in range(1, cutpoints.size):
        step = slope[m] / curvature[m]
        cutpoints[m] += min(max(step, -LARGEST_STEP), LARGEST_STEP)

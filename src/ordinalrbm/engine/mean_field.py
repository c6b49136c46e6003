"""Mean-field: the fixed point of the factors' expectations given a row's answers."""

import numpy as np

from ordinalrbm.engine.annealing import log_row
from ordinalrbm.engine.gibbs import activations, conditional_means, expect_clamped, scratch_for
from ordinalrbm.engine.normal import single
from ordinalrbm.engine.side import Side
from ordinalrbm.engine.thresholds import dot
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import compiled, inlined, kernel_function

# How often to extrapolate, and the slowest convergence that is believed.
_EXTRAPOLATE_EVERY = 4
_LARGEST_RATIO = np.float32(0.95)
# A jump costs about as much as these rounds, because the bound is looked at before and after it.
_ROUNDS_OF_A_JUMP = 3
# Share of a bound by which two may differ because factors are float32.
_ROUNDING = 1e-7


def fixed_point(
    side: Side,
    probabilities: np.ndarray,
    tolerance: float,
    max_iterations: int,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """Move the factors' expectations to their fixed point, in place; return each row's last change.

    Only of some ``rows``, if these are given; the others stay, with no change.
    """
    rows = np.arange(side.n_rows) if rows is None else rows
    change = np.zeros(side.n_rows, dtype=np.float32)
    arguments = side, rows, probabilities, tolerance, max_iterations, change
    over_rows(_fixed_point, rows.size, *arguments, scratch=scratch_for(side, 0, side.n_rows))
    return change


@compiled
def _fixed_point(start, stop, side, rows, probabilities, tolerance, max_iterations, change, scratch):
    for place in range(start, stop):
        row = rows[place]
        change[row] = _fixed_point_row(side, row, probabilities[row], tolerance, max_iterations, scratch)


@kernel_function
def _fixed_point_row(side, row, active, tolerance, max_iterations, scratch):
    mean, utility = scratch.mean, scratch.utility
    lower, upper = scratch.lower, scratch.upper
    at_low, at_high = scratch.at_low, scratch.at_high
    activation, last_step, previous = scratch.activation, scratch.last_step, scratch.previous_step
    change = np.float32(np.inf)
    iteration = 0
    while change > tolerance and iteration < max_iterations:
        conditional_means(side, row, active, mean)
        expect_clamped(side, row, mean, lower, upper, at_low, at_high, utility)
        activations(side, row, utility, activation)
        iteration += 1
        change = _move_to_fixed_point(side.units, active, activation, last_step)
        # Not at the end: the change that is reported must be that of the point returned.
        if iteration % _EXTRAPOLATE_EVERY == 0 and tolerance < change and iteration < max_iterations:
            ratio = min(dot(last_step, previous) / dot(previous, previous), _LARGEST_RATIO)
            if change * ratio**_ROUNDS_OF_A_JUMP > tolerance:
                _extrapolate(side, row, active, last_step, ratio, activation, scratch)
        for k in range(active.size):
            previous[k] = last_step[k]
    return change


@inlined
def _move_to_fixed_point(units, active, activation, last_step):
    """Replace the factors by their update; returns the largest change."""
    change = np.float32(0.0)
    for k in range(active.size):
        last_step[k] = np.float32(units) * single.logistic(activation[k]) - active[k]
        active[k] += last_step[k]
        change = max(change, abs(last_step[k]))
    return change


@kernel_function
def _extrapolate(side, row, active, last_step, ratio, jumped, scratch):
    """Add the rest of a geometric series of steps at once (Aitken), unless that lowers the bound.

    When factors lean on each other, steps shrink by about the same ratio each time.
    """
    rest = ratio / (np.float32(1.0) - ratio)
    for k in range(active.size):
        there = active[k] + rest * last_step[k]
        jumped[k] = min(max(there, np.float32(0.0)), np.float32(side.units))
    here = _bound(side, row, active, scratch)
    if _bound(side, row, jumped, scratch) >= here - _ROUNDING * abs(here):
        for k in range(active.size):
            active[k] = jumped[k]


@kernel_function
def _bound(side, row, active, scratch):
    """The bound on the log probability of a row's answers that each round raises."""
    mean, lower, upper = scratch.mean, scratch.lower, scratch.upper
    conditional_means(side, row, active, mean)
    total = log_row(side, True, row, mean, lower, upper)
    units = np.float64(side.units)
    for k in range(active.size):
        bias = side.factor_bias[k]
        if side.row_bias.size > 0:
            bias += side.row_bias[row, k]
        on = active[k] / units
        total += active[k] * bias - units * (_log_power(on) + _log_power(1.0 - on))
    return total


@inlined
def _log_power(share):
    return share * np.log(share) if share > 0.0 else 0.0

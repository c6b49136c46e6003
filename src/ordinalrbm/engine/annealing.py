"""Log probabilities of rows: of their answers given factors, and of all factors by annealing."""

from __future__ import annotations

import numba
import numpy as np
from numba import prange

from ordinalrbm.engine.gibbs import (
    activations,
    bounds,
    conditional_means,
    draw_factors,
    draws_of,
    entries_of,
    fill_uniforms,
    scratch_for,
    stretched_bounds,
)
from ordinalrbm.engine.normal import double
from ordinalrbm.engine.philox import Purpose
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.engine.sums import dot
from ordinalrbm.runtime.jit import compiled, inlined


def log_levels(
    side: Side, factors: np.ndarray, start: int, stop: int, stretches: np.ndarray
) -> np.ndarray:
    """Return (rows, G) log P(answers | factors) of each row, for each stretch of its thresholds."""
    result = np.zeros((stop - start, stretches.size))
    scratch = scratch_for(side, start, stop)
    _log_levels(side, factors, start, stop, stretches, scratch, result)
    return result


@compiled(parallel=True)
def _log_levels(side, factors, start, stop, stretches, scratch, result):
    for row in prange(start, stop):
        _log_levels_row(side, factors, row, stretches, scratch, result[row - start])


@inlined
def _log_levels_row(side, factors, row, stretches, scratch, result):
    thread = numba.get_thread_id()
    mean, active = scratch.mean[thread], scratch.activation[thread]
    first, n = entries_of(side, row)
    for k in range(active.size):
        active[k] = np.float32(factors[row, k])
    conditional_means(side, row, active, mean)
    for g in range(stretches.size):
        total = 0.0
        for e in range(n):
            low, high = stretched_bounds(side, first + e, stretches[g], mean[e])
            total += double.log_mass(low, high)
        result[g] = total


def half_squares(side: Side, factors: np.ndarray) -> np.ndarray:
    """Return (rows,) half the sum of squared mean utilities, which couples factors in log P*(h)."""
    result = np.zeros(side.n_rows)
    _half_squares(side, factors, scratch_for(side, 0, side.n_rows), result)
    return result


@compiled(parallel=True)
def _half_squares(side, factors, scratch, result):
    for row in prange(result.size):
        result[row] = _half_squares_row(side, factors[row], row, scratch)


@inlined
def _half_squares_row(side, active, row, scratch):
    mean = scratch.mean[numba.get_thread_id()]
    conditional_means(side, row, active, mean)
    total = 0.0
    for e in range(entries_of(side, row)[1]):
        total += 0.5 * mean[e] * mean[e]
    return total


def log_importance_weights(
    side: Side, clamped: bool, inverse_temperatures: np.ndarray, n_chains: int, seed: int
) -> np.ndarray:
    """Annealed importance sampling: return (rows, chains) log weights of Z over independence.

    Weights are multiplied by a number that goes from 0 to 1 along ``inverse_temperatures``; at 0
    the factors are independent and their sum is known.
    """
    log_weights = np.zeros((side.n_rows, n_chains))
    scratch, draws = scratch_for(side, 0, side.n_rows), draws_of(Batch(0, side.n_rows, seed, 0, 1))
    active = np.empty_like(scratch.activation)
    _anneal(side, clamped, inverse_temperatures, draws, scratch, active, log_weights)
    return log_weights


@compiled(parallel=True)
def _anneal(side, clamped, betas, draws, scratch, active, log_weights):
    n_chains = log_weights.shape[1]
    for task in prange(log_weights.size):
        row, chain = task // n_chains, task % n_chains
        log_weights[row, chain] = _anneal_chain(
            side, clamped, betas, draws, scratch, active, row, task
        )


@inlined
def _anneal_chain(side, clamped, betas, draws, scratch, all_active, row, stream):
    thread = numba.get_thread_id()
    product, utility = scratch.mean[thread], scratch.utility[thread]
    activation, uniform = scratch.activation[thread], scratch.uniform[thread]
    active = all_active[thread]
    first, n = entries_of(side, row)
    for k in range(active.size):
        activation[k] = side.factor_bias[k]
    fill_uniforms(uniform, active.size, stream, draws, 0, Purpose.INITIAL_FACTOR)
    draw_factors(activation, uniform, side.units, scratch, active)
    total = 0.0
    for t in range(1, betas.size):
        for e in range(n):
            product[e] = dot(side.weights[side.column[first + e]], active)
        total += _log_ratio(side, clamped, first, n, row, product, betas[t - 1], betas[t])
        fill_uniforms(uniform, n, stream, draws, t, Purpose.CLAMPED_UTILITY)
        for e in range(n):
            mean = side.bias[side.column[first + e]] + betas[t] * product[e]
            if side.offset.size > 0:
                mean += side.offset[first + e]
            if clamped:
                lower, upper = bounds(side, row, first + e, mean)
                drawn = double.truncated_draw(lower, upper, uniform[e])
            else:
                drawn = double.standard_normal(uniform[e])
            # The annealed weights meet the utility again in the factors' activation.
            utility[e] = np.float32(betas[t] * (mean + drawn))
        activations(side, row, utility, activation)
        fill_uniforms(uniform, active.size, stream, draws, t, Purpose.CLAMPED_FACTOR)
        draw_factors(activation, uniform, side.units, scratch, active)
    return total


@inlined
def _log_ratio(side, clamped, first, n, row, product, old, new):
    """Log of the unnormalised probability of the factors at one temperature over another."""
    total = 0.0
    for e in range(n):
        base = np.float64(side.bias[side.column[first + e]])
        if side.offset.size > 0:
            base += side.offset[first + e]
        before, after = base + old * product[e], base + new * product[e]
        total += 0.5 * (after - before) * (after + before)
        if clamped:
            low, high = bounds(side, row, first + e, 0.0)
            total += double.log_mass(low - after, high - after)
            total -= double.log_mass(low - before, high - before)
    return total

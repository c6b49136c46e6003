"""Log probabilities of rows: of their answers given factors, and of all factors by annealing."""

import numpy as np

from ordinalrbm.engine.gibbs import (
    activations,
    conditional_means,
    draw_categories,
    draw_factors,
    draws_of,
    entries_of,
    fill_uniforms,
    has_kinds,
    known_utility,
    log_sum,
    scratch_for,
    set_bounds,
)
from ordinalrbm.engine.normal import double
from ordinalrbm.engine.philox import Purpose
from ordinalrbm.engine.side import NUMBER, ORDINAL, Batch, Side
from ordinalrbm.engine.thresholds import dot
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import compiled, inlined, kernel_function

_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)


@inlined
def _log_known(side, row, mean):
    """Log probability of a row's categories and log density of its numbers, given their means."""
    first, n = entries_of(side, row)
    known, column, members, shift = side.known, side.column, side.members, side.shift
    total = 0.0
    for e in range(n):
        i, value = column[first + e], known[first + e]
        if not np.isnan(value):
            utility = known_utility(value, members[i], side.thresholds[i], shift, first + e)
            if members[i] == NUMBER:
                beyond = utility - mean[e]
                total += np.log(side.thresholds[i, 1]) - 0.5 * beyond * beyond - _LOG_ROOT_TWO_PI
            else:
                total += utility * mean[e]
                if members[i] > 0:
                    total -= log_sum(mean, e, members[i])
    return total


def log_levels(side: Side, factors: np.ndarray, start: int, stop: int, stretches: np.ndarray) -> np.ndarray:
    """(rows, G) log P(answers | factors) of each row, for each stretch of its thresholds."""
    result = np.zeros((stop - start, stretches.size))
    arguments = side, factors, start, stretches, result
    over_rows(_log_levels, stop - start, *arguments, scratch=scratch_for(side, start, stop))
    return result


@compiled
def _log_levels(start, stop, side, factors, first, stretches, result, scratch):
    for row in range(start, stop):
        _log_levels_row(side, factors, first + row, stretches, scratch, result[row])


@kernel_function
def _log_levels_row(side, factors, row, stretches, scratch, result):
    mean, active = scratch.mean, scratch.activation
    low, high, log_mass = scratch.lower, scratch.upper, scratch.warm
    for k in range(active.size):
        active[k] = np.float32(factors[row, k])
    conditional_means(side, row, active, mean)
    known = _log_known(side, row, mean) if has_kinds(side) else 0.0
    n = _gather_intervals(side, row, mean, low, high)
    for g in range(stretches.size):
        # Alone, without a branch or a sum, this becomes vector code.
        for e in range(n):
            log_mass[e] = double.log_mass(stretches[g] * low[e] - mean[e], stretches[g] * high[e] - mean[e])
        total = known
        for e in range(n):
            total += log_mass[e]
        result[g] = total


@kernel_function
def _gather_intervals(side, row, mean, low, high):
    """Put a row's intervals and their means side by side, without unknown answers; returns how many."""
    first, n = entries_of(side, row)
    column, level, table, shift, known = side.column, side.level, side.thresholds, side.shift, side.known
    kinds, found = has_kinds(side), 0
    for e in range(n):
        entry = first + e
        if not kinds or np.isnan(known[entry]):
            i, answer = column[entry], np.intp(level[entry])
            low[found], high[found] = table[i, answer], table[i, answer + 1]
            mean[found] = mean[e]
            if shift.size > 0:
                mean[found] += np.float64(shift[entry])
            has_bound = low[found] != -np.inf or high[found] != np.inf
            found += has_bound
    return found


def half_squares(side: Side, factors: np.ndarray) -> np.ndarray:
    """(rows,) half the sum of squared mean utilities, which couples factors in log P*(h).

    Of categories it is the logarithm of their summed exponentials instead.
    """
    result = np.zeros(side.n_rows)
    scratch = scratch_for(side, 0, side.n_rows)
    over_rows(_half_squares, side.n_rows, side, factors, result, scratch=scratch)
    return result


@compiled
def _half_squares(start, stop, side, factors, result, scratch):
    for row in range(start, stop):
        conditional_means(side, row, factors[row], scratch.mean)
        result[row] = _log_prior(side, row, scratch.mean)


@inlined
def _log_prior(side, row, mean):
    """What a row's mean utilities are worth in log P*(h)."""
    first, n = entries_of(side, row)
    column, members, kinds = side.column, side.members, has_kinds(side)
    total = 0.0
    for e in range(n):
        kind = members[column[first + e]] if kinds else 0
        if kind > 0:
            total += log_sum(mean, e, kind)
        elif kind in (ORDINAL, NUMBER):
            total += 0.5 * mean[e] * mean[e]
    return total


def log_importance_weights(
    side: Side, clamped: bool, inverse_temperatures: np.ndarray, n_chains: int, seed: int
) -> np.ndarray:
    """Annealed importance sampling: (rows, chains) log weights of Z over independence.

    Weights are multiplied by a number that goes from 0 to 1 along ``inverse_temperatures``; at 0
    the factors are independent and their sum is known.
    """
    log_weights = np.zeros((side.n_rows, n_chains))
    draws = draws_of(Batch(0, side.n_rows, seed, 0, 1))
    arguments = side, clamped, inverse_temperatures, draws, log_weights
    over_rows(_anneal, log_weights.size, *arguments, scratch=scratch_for(side, 0, side.n_rows))
    return log_weights


@compiled
def _anneal(start, stop, side, clamped, betas, draws, log_weights, scratch):
    n_chains = log_weights.shape[1]
    for task in range(start, stop):
        row, chain = task // n_chains, task % n_chains
        log_weights[row, chain] = _anneal_chain(side, clamped, betas, draws, scratch, row, task)


@kernel_function
def _anneal_chain(side, clamped, betas, draws, scratch, row, stream):
    product, utility = scratch.mean, scratch.utility
    activation, uniform, active = scratch.activation, scratch.uniform, scratch.last_step
    first, n = entries_of(side, row)
    for k in range(active.size):
        activation[k] = side.factor_bias[k]
        if side.row_bias.size > 0:
            activation[k] += side.row_bias[row, k]
    fill_uniforms(uniform, active.size, stream, draws, 0, Purpose.INITIAL_FACTOR)
    draw_factors(activation, uniform, side.units, scratch, active)
    mean, lower, upper = scratch.warm, scratch.lower, scratch.upper
    total = 0.0
    for t in range(1, betas.size):
        for e in range(n):
            product[e] = dot(side.weights[side.column[first + e]], active)
        _warm_means(side, row, product, betas[t - 1], mean)
        before = log_row(side, clamped, row, mean, lower, upper)
        _warm_means(side, row, product, betas[t], mean)
        total += log_row(side, clamped, row, mean, lower, upper) - before
        fill_uniforms(uniform, n, stream, draws, t, Purpose.CLAMPED_UTILITY)
        if clamped:
            set_bounds(side, row, mean, lower, upper)
            for e in range(n):
                utility[e] = np.float32(mean[e] + double.truncated_draw(lower[e], upper[e], uniform[e]))
        else:
            for e in range(n):
                utility[e] = np.float32(mean[e] + double.standard_normal(uniform[e]))
        if has_kinds(side):
            draw_categories(side, row, clamped, mean, uniform, utility)
        # The annealed weights meet the utility again in the factors' activation.
        for e in range(n):
            utility[e] = np.float32(betas[t] * utility[e])
        activations(side, row, utility, activation)
        fill_uniforms(uniform, active.size, stream, draws, t, Purpose.CLAMPED_FACTOR)
        draw_factors(activation, uniform, side.units, scratch, active)
    return total


@inlined
def _warm_means(side, row, product, beta, mean):
    """Mean utilities of a row with the weights multiplied by a number."""
    first, n = entries_of(side, row)
    for e in range(n):
        mean[e] = np.float64(side.bias[side.column[first + e]]) + beta * product[e]
        if side.offset.size > 0:
            mean[e] += side.offset[first + e]


@inlined
def log_row(side, clamped, row, mean, lower, upper):
    """Log of the unnormalised probability of the factors, but for their bias.

    ``lower`` and ``upper`` are used for the bounds of the levels.
    """
    first, n = entries_of(side, row)
    total = _log_prior(side, row, mean)
    if clamped:
        known, kinds = side.known, has_kinds(side)
        if kinds:
            total += _log_known(side, row, mean)
        set_bounds(side, row, mean, lower, upper)
        # Alone, without a branch or a sum, this becomes vector code.
        for e in range(n):
            is_open = (lower[e] == -np.inf) & (upper[e] == np.inf)  # nothing is known
            mass = double.log_mass(lower[e], upper[e])
            lower[e] = 0.0 if is_open else mass
        for e in range(n):
            if not kinds or np.isnan(known[first + e]):
                total += lower[e]
    return total

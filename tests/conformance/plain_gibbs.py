"""The Gibbs chains in plain NumPy: slow, short, and the judge of every other engine.

Functions have the names and arguments of :mod:`ordinalrbm.engine.gibbs` and of its neighbours.
Factors are a (rows, K) array of whole numbers (units that are on), changed in place; random numbers
come from the same counters.
"""

from __future__ import annotations

import numpy as np
from plain_draws import truncated_draw
from scipy import sparse
from scipy.special import expit, gammaln

from ordinalrbm.engine import normal_reference
from ordinalrbm.engine.philox import Purpose, uniforms
from ordinalrbm.engine.side import CATEGORY, NUMBER, Batch, Side, Statistics, empty_statistics


def clamped_phase(
    side: Side, factors: np.ndarray, batch: Batch, expected: np.ndarray | None = None, keep: float = 0.0
) -> Statistics:
    activation = _gibbs(side, factors, batch, clamped=True)
    if expected is not None and activation is not None:
        rows = slice(batch.start, batch.stop)
        expected[rows] = keep * expected[rows] + (1.0 - keep) * side.units * expit(activation)
    answers = _Answers(side, batch.start, batch.stop)
    mean = answers.mean(factors)
    low, high = answers.bounds(mean)
    at_low, at_high = normal_reference.edge_densities(low, high)
    # An answer that was hidden from the factors is regressed on them.
    utility = answers.expected_kinds(mean, mean + normal_reference.truncated_mean(low, high), clamped=True)
    told = np.where(answers.is_category, utility, utility - mean)
    statistics = _summed(side, answers, factors, utility, told)
    at_low, at_high = (np.where(answers.is_known, 0.0, at) for at in (at_low, at_high))
    answers.sum_thresholds(-at_low * answers.weight, at_high * answers.weight, statistics)
    answers.sum_scales(utility - mean, statistics)
    return statistics


def free_phase(side: Side, factors: np.ndarray, batch: Batch) -> Statistics:
    _gibbs(side, factors, batch, clamped=False)
    answers = _Answers(side, batch.start, batch.stop)
    mean = answers.mean(factors)
    utility = answers.expected_kinds(mean, mean, clamped=False)
    return _summed(side, answers, factors, utility, utility)


def mean_field(side: Side, probabilities: np.ndarray, tolerance: float, max_iterations: int) -> np.ndarray:
    """Move factors to the fixed point of mean-field, in place; return each row's last change."""
    answers = _Answers(side, 0, side.n_rows)
    change = np.full(side.n_rows, np.inf)
    for _ in range(max_iterations):
        mean = answers.mean(probabilities)
        utility = mean + normal_reference.truncated_mean(*answers.bounds(mean))
        utility = answers.expected_kinds(mean, utility, clamped=True)
        updated = side.units * expit(answers.activation(utility))
        active = change > tolerance
        change[active] = np.abs(updated - probabilities).max(axis=1, initial=0.0)[active]
        probabilities[active] = updated[active]
        if not np.any(change > tolerance):
            break
    return change


class _Answers:
    """The answers of some rows as flat arrays, with the conditional means of the model."""

    def __init__(self, side: Side, start: int, stop: int) -> None:
        first, last = side.row_start[start], side.row_start[stop]
        length = np.diff(side.row_start[start : stop + 1])
        self.side, self.start, self.stop = side, start, stop
        self.row = np.repeat(np.arange(start, stop), length)
        self.column = side.column[first:last]
        self.level = side.level[first:last].astype(np.intp)
        self.position = np.arange(first, last) - side.row_start[self.row]
        self.offset = side.offset[first:last] if side.offset.size else 0.0
        ones = np.ones(self.row.size)
        self.weight = side.row_weight[self.row] if side.row_weight.size else ones
        self.stretch = side.stretch[self.row] if side.stretch.size else ones
        self.shift = side.shift[first:last] if side.shift.size else 0.0
        has_kinds = side.members.size > 0
        self.kind = side.members[self.column] if has_kinds else np.zeros(self.row.size, np.int32)
        self.known = side.known[first:last].astype(np.float64) if has_kinds else np.nan * ones
        self.is_known = ~np.isnan(self.known)
        self.is_category = (self.kind > 0) | (self.kind == CATEGORY)
        # Utility of numbers as a whole, and whether a category was chosen.
        self.whole = self.known * np.where(self.kind == NUMBER, side.thresholds[self.column, 1], 1)

    def mean(self, factors: np.ndarray) -> np.ndarray:
        products = np.einsum("ek,ek->e", self.side.weights[self.column], factors[self.row])
        return products + self.side.bias[self.column] + self.offset

    def bounds(self, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.side.row_gaps.size:
            bounds = self.own_bounds()
            every = np.arange(self.row.size)
            return bounds[every, self.level] - mean, bounds[every, self.level + 1] - mean
        thresholds, mean = self.side.thresholds, mean + self.shift
        return (
            self.stretch * thresholds[self.column, self.level] - mean,
            self.stretch * thresholds[self.column, self.level + 1] - mean,
        )

    def groups(self) -> np.ndarray:
        """Where the categories of each nominal answer begin, among those of all."""
        return np.flatnonzero(self.kind[self.is_category] > 0)

    def probabilities(self, mean: np.ndarray) -> np.ndarray:
        """Of all categories, those of one question after the other."""
        start = self.groups()
        if not start.size:
            return np.zeros(0)
        own = mean[self.is_category]
        size = np.diff(np.append(start, own.size))
        grown = np.exp(own - np.repeat(np.maximum.reduceat(own, start), size))
        return grown / np.repeat(np.add.reduceat(grown, start), size)

    def expected_kinds(self, mean: np.ndarray, utility: np.ndarray, *, clamped: bool) -> np.ndarray:
        """Utilities with those of numbers and categories, as they are or expected, put in."""
        utility = utility.copy()
        utility[self.is_category] = self.probabilities(mean)
        return np.where(self.is_known, self.whole - self.shift, utility) if clamped else utility

    def drawn_kinds(
        self, mean: np.ndarray, utility: np.ndarray, uniform: np.ndarray, *, clamped: bool
    ) -> np.ndarray:
        """Utilities with those of numbers and categories, as they are or drawn, put in."""
        utility, start = utility.copy(), self.groups()
        if start.size:
            probability = np.split(self.probabilities(mean), start[1:])
            own = uniform[self.is_category][start]
            chosen = [
                np.arange(p.size) == min(np.sum(np.cumsum(p) <= u), p.size - 1)
                for p, u in zip(probability, own, strict=True)
            ]
            utility[self.is_category] = np.concatenate(chosen)
        return np.where(self.is_known, self.whole - self.shift, utility) if clamped else utility

    def sum_scales(self, beyond: np.ndarray, statistics: Statistics) -> None:
        """Gradient by the logarithms of the scales of numbers."""
        there = self.is_known & (self.kind == NUMBER)
        slope = self.weight * (1.0 - beyond * self.whole)
        np.add.at(statistics.thresholds[:, 1], self.column[there], slope[there])

    def own_bounds(self) -> np.ndarray:
        """(answers, L + 1) all bounds, each gap the product of the row's and the column's."""
        bounds = self.side.thresholds[self.column]
        own = np.full(bounds.shape, np.inf)
        own[:, 0], own[:, 1] = -np.inf, bounds[:, 1] + self.side.row_gaps[self.row, 0]
        with np.errstate(invalid="ignore"):  # beyond the last level of a column: ∞ − ∞
            gaps = np.diff(bounds[:, 1:], axis=1)
            row_gaps = self.side.row_gaps[self.row][:, 1 : gaps.shape[1] + 1]
            own[:, 2:] = own[:, 1:2] + np.cumsum(row_gaps * gaps, axis=1)
        return own

    def sum_thresholds(self, at_low: np.ndarray, at_high: np.ndarray, statistics: Statistics) -> None:
        total = statistics.thresholds
        if not self.side.row_gaps.size:
            np.add.at(total, (self.column, self.level), at_low * self.stretch)
            np.add.at(total, (self.column, self.level + 1), at_high * self.stretch)
            return
        for m in range(1, total.shape[1] - 1):  # a gap moves every threshold above it
            gap = self.side.row_gaps[self.row, m]
            moved = at_high * (self.level >= m) + at_low * (self.level > m)
            np.add.at(total[:, m], self.column, np.where(moved != 0, gap, 0.0) * moved)

    def activation(self, utility: np.ndarray) -> np.ndarray:
        activation = self.sparse(utility) @ self.side.weights
        if self.side.row_bias.size:
            activation = activation + self.side.row_bias[self.start : self.stop]
        return activation + self.side.factor_bias

    def sparse(self, values: np.ndarray) -> sparse.csr_array:
        """A number per answer as a matrix of rows by columns."""
        side = self.side
        start = side.row_start[self.start : self.stop + 1] - side.row_start[self.start]
        shape = (self.stop - self.start, side.bias.size)
        return sparse.csr_array((values, self.column, start), shape=shape)


def _gibbs(side: Side, factors: np.ndarray, batch: Batch, *, clamped: bool) -> np.ndarray | None:
    """Gibbs steps; returns the last activation of the factors."""
    activation = None
    answers = _Answers(side, batch.start, batch.stop)
    rows = np.arange(batch.start, batch.stop)[:, None]
    utility_purpose = Purpose.CLAMPED_UTILITY if clamped else Purpose.FREE_UTILITY
    factor_purpose = Purpose.CLAMPED_FACTOR if clamped else Purpose.FREE_FACTOR
    for step in range(batch.gibbs_steps):
        uniform = uniforms(batch.seed, answers.row, answers.position, batch.sweep, utility_purpose, step)
        mean = answers.mean(factors)
        if clamped:
            utility = mean + truncated_draw(*answers.bounds(mean), uniform)
        else:
            utility = mean + normal_reference.standard_normal(uniform)
        utility = answers.drawn_kinds(mean, utility, uniform, clamped=clamped)
        every = np.arange(factors.shape[1])
        uniform = uniforms(batch.seed, rows, every, batch.sweep, factor_purpose, step)
        activation = answers.activation(utility)
        factors[batch.start : batch.stop] = _units_on(activation, uniform, side.units)
    return activation


def _units_on(activation: np.ndarray, uniform: np.ndarray, units: int) -> np.ndarray:
    """How many of the units are on: inversion, counting from the most likely number outwards."""
    if units == 1:
        return uniform < expit(activation)
    on = np.arange(units + 1)
    ways = gammaln(units + 1.0) - gammaln(on + 1.0) - gammaln(units - on + 1.0)
    a = activation[..., None]
    probability = np.exp(ways + on * a - units * np.logaddexp(0.0, a))
    start = np.floor(units * expit(a))
    order = np.argsort(2 * np.abs(on - start) - (on > start), axis=-1)
    below = np.cumsum(np.take_along_axis(probability, order, axis=-1), axis=-1)
    place = np.minimum((below <= uniform[..., None]).sum(axis=-1, keepdims=True), units)
    return np.take_along_axis(order, place, axis=-1)[..., 0]


def log_levels(side: Side, factors: np.ndarray, start: int, stop: int, stretches: np.ndarray) -> np.ndarray:
    answers = _Answers(side, start, stop)
    mean = answers.mean(factors)
    result = np.zeros((stop - start, stretches.size))
    known = _log_known(answers, mean)
    for g, stretch in enumerate(stretches):
        answers.stretch = stretch
        mass = normal_reference.log_mass(*answers.bounds(mean))
        np.add.at(result[:, g], answers.row - start, np.where(answers.is_known, known, mass))
    return result


def _log_known(answers: _Answers, mean: np.ndarray) -> np.ndarray:
    """Log density of numbers and log probability of the chosen categories, elsewhere anything."""
    side = answers.side
    is_number = answers.kind == NUMBER
    scale = np.where(is_number, side.thresholds[answers.column, 1], 1.0)
    beyond = answers.whole - answers.shift - mean
    result = np.log(scale) - 0.5 * beyond**2 - 0.5 * np.log(2.0 * np.pi)
    category = answers.is_category
    result[category] = answers.known[category] * np.log(answers.probabilities(mean))
    return result


def _summed(
    side: Side, answers: _Answers, factors: np.ndarray, expected_utility: np.ndarray, told: np.ndarray
) -> Statistics:
    """Sums over the rows; ``told`` is what meets the covariates."""
    statistics = empty_statistics(side)
    rows = slice(answers.start, answers.stop)
    utility = answers.sparse(expected_utility * answers.weight)
    statistics.weights[:] = utility.T @ factors[rows].astype(np.float64)
    statistics.bias[:] = utility.sum(axis=0)
    statistics.answers[:] = answers.sparse(answers.weight).sum(axis=0)
    row_weight = side.row_weight[rows] if side.row_weight.size else 1.0
    weighted = factors[rows] * np.reshape(row_weight, (-1, 1))
    statistics.factor_bias[:] = weighted.sum(axis=0)
    if side.covariates.size:
        statistics.slopes[:] = answers.sparse(told * answers.weight).T @ side.covariates[rows]
        statistics.factor_slopes[:] = weighted.T @ side.covariates[rows]
    return statistics

"""The Gibbs chains in plain NumPy: slow, short, and the judge of every other engine.

Functions have the names and arguments of :mod:`ordinalrbm.engine.gibbs` and of its neighbours.
Factors are a (rows, K) array of whole numbers (units that are on), changed in place; random numbers
come from the same counters.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.special import expit, gammaln

from ordinalrbm.engine import normal_reference
from ordinalrbm.engine.philox import Purpose, uniforms
from ordinalrbm.engine.side import AllReduce, Batch, Side, Statistics, empty_statistics


def clamped_phase(
    side: Side,
    factors: np.ndarray,
    batch: Batch,
    expected: np.ndarray | None = None,
    keep: float = 0.0,
    all_reduce: AllReduce | None = None,
) -> Statistics:
    activation = _gibbs(side, factors, batch, clamped=True, all_reduce=all_reduce)
    if expected is not None and activation is not None:
        rows = slice(batch.start, batch.stop)
        expected[rows] = keep * expected[rows] + (1.0 - keep) * side.units * expit(activation)
    answers = _Answers(side, batch.start, batch.stop)
    mean = answers.mean(factors)
    low, high = answers.bounds(mean)
    at_low, at_high = normal_reference.edge_densities(low, high)
    # An answer that was hidden from the factors is regressed on them.
    utility = mean + normal_reference.truncated_mean(low, high)
    statistics = _summed(side, answers, factors, utility)
    answers.sum_thresholds(-at_low * answers.weight, at_high * answers.weight, statistics)
    return statistics


def free_phase(
    side: Side, factors: np.ndarray, batch: Batch, all_reduce: AllReduce | None = None
) -> Statistics:
    _gibbs(side, factors, batch, clamped=False, all_reduce=all_reduce)
    answers = _Answers(side, batch.start, batch.stop)
    return _summed(side, answers, factors, answers.mean(factors))


def mean_field(
    side: Side, probabilities: np.ndarray, tolerance: float, max_iterations: int
) -> np.ndarray:
    """Move factors to the fixed point of mean-field, in place; return each row's last change."""
    answers = _Answers(side, 0, side.n_rows)
    change = np.full(side.n_rows, np.inf)
    for _ in range(max_iterations):
        mean = answers.mean(probabilities)
        utility = mean + normal_reference.truncated_mean(*answers.bounds(mean))
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
        if side.position.size:
            self.position = side.position[first:last]
        self.offset = side.offset[first:last] if side.offset.size else 0.0
        ones = np.ones(self.row.size)
        self.weight = side.row_weight[self.row] if side.row_weight.size else ones
        self.stretch = side.stretch[self.row] if side.stretch.size else ones

    def mean(self, factors: np.ndarray) -> np.ndarray:
        products = np.einsum("ek,ek->e", self.side.weights[self.column], factors[self.row])
        return products + self.side.bias[self.column] + self.offset

    def bounds(self, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.side.row_gaps.size:
            bounds = self.own_bounds()
            every = np.arange(self.row.size)
            return bounds[every, self.level] - mean, bounds[every, self.level + 1] - mean
        thresholds = self.side.thresholds
        return (
            self.stretch * thresholds[self.column, self.level] - mean,
            self.stretch * thresholds[self.column, self.level + 1] - mean,
        )

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

    def sum_thresholds(
        self, at_low: np.ndarray, at_high: np.ndarray, statistics: Statistics
    ) -> None:
        total = statistics.thresholds
        if not self.side.row_gaps.size:
            np.add.at(total, (self.column, self.level), at_low * self.stretch)
            np.add.at(total, (self.column, self.level + 1), at_high * self.stretch)
            return
        for m in range(1, total.shape[1] - 1):  # a gap moves every threshold above it
            gap = self.side.row_gaps[self.row, m]
            moved = at_high * (self.level >= m) + at_low * (self.level > m)
            np.add.at(total[:, m], self.column, np.where(moved != 0, gap, 0.0) * moved)

    def activation(self, utility: np.ndarray, all_reduce: AllReduce | None = None) -> np.ndarray:
        activation = self.sparse(utility) @ self.side.weights
        if all_reduce is not None:
            all_reduce(activation)
        return activation + self.side.factor_bias

    def sparse(self, values: np.ndarray) -> sparse.csr_array:
        """A number per answer as a matrix of rows by columns."""
        side = self.side
        start = side.row_start[self.start : self.stop + 1] - side.row_start[self.start]
        shape = (self.stop - self.start, side.bias.size)
        return sparse.csr_array((values, self.column, start), shape=shape)


def _gibbs(
    side: Side, factors: np.ndarray, batch: Batch, *, clamped: bool, all_reduce: AllReduce | None
) -> np.ndarray | None:
    """Gibbs steps; returns the last activation of the factors."""
    activation = None
    answers = _Answers(side, batch.start, batch.stop)
    numbers = side.row_number if side.row_number.size else np.arange(side.n_rows)
    rows = numbers[batch.start : batch.stop, None]
    utility_purpose = Purpose.CLAMPED_UTILITY if clamped else Purpose.FREE_UTILITY
    factor_purpose = Purpose.CLAMPED_FACTOR if clamped else Purpose.FREE_FACTOR
    for step in range(batch.gibbs_steps):
        uniform = uniforms(
            batch.seed, numbers[answers.row], answers.position, batch.sweep, utility_purpose, step
        )
        mean = answers.mean(factors)
        if clamped:
            utility = mean + normal_reference.truncated_draw(*answers.bounds(mean), uniform)
        else:
            utility = mean + normal_reference.standard_normal(uniform)
        every = np.arange(factors.shape[1])
        uniform = uniforms(batch.seed, rows, every, batch.sweep, factor_purpose, step)
        activation = answers.activation(utility, all_reduce)
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


def log_levels(
    side: Side, factors: np.ndarray, start: int, stop: int, stretches: np.ndarray
) -> np.ndarray:
    answers = _Answers(side, start, stop)
    mean = answers.mean(factors)
    result = np.zeros((stop - start, stretches.size))
    for g, stretch in enumerate(stretches):
        answers.stretch = stretch
        np.add.at(
            result[:, g], answers.row - start, normal_reference.log_mass(*answers.bounds(mean))
        )
    return result


def _summed(
    side: Side, answers: _Answers, factors: np.ndarray, expected_utility: np.ndarray
) -> Statistics:
    statistics = empty_statistics(side)
    rows = slice(answers.start, answers.stop)
    utility = answers.sparse(expected_utility * answers.weight)
    statistics.weights[:] = utility.T @ factors[rows].astype(np.float64)
    statistics.bias[:] = utility.sum(axis=0)
    statistics.answers[:] = answers.sparse(answers.weight).sum(axis=0)
    row_weight = side.row_weight[rows] if side.row_weight.size else 1.0
    statistics.factor_bias[:] = (factors[rows] * np.reshape(row_weight, (-1, 1))).sum(axis=0)
    return statistics

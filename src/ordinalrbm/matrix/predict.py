"""P(v_di) of single cells of a matrix, also where the row or the column is unknown.

Every ordinal model says how a cell's utility is distributed: a mean, and a standard deviation that
may hold what is not known of the mean. What follows from that and the cutpoints is the same.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ordinalrbm.data.observations import Cells
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.normal import double
from ordinalrbm.engine.thresholds import dot
from ordinalrbm.matrix.protocol import Model, Utilities, UtilityModel
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import compiled, inlined
from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY

AnyModel = TypeVar("AnyModel", bound=Model)
_FAR = 1e5  # standard deviations


def probabilities(models: Sequence[Model], cells: Cells) -> np.ndarray:
    """(cells, L): distribution over the levels, the mean of the models by their shares."""
    total = np.zeros((cells.row.size, models[0].most_levels))
    for model in models:
        _for_cells(model, cells).add_probabilities(cells, total)
    total /= total.sum(axis=1, keepdims=True)
    return total


def log_probability(models: Sequence[Model], cells: Cells) -> np.ndarray:
    """(cells,) log probability of the true level."""
    chosen = np.take_along_axis(probabilities(models, cells), cells.level[:, None].astype(np.intp), axis=1)
    return np.log(np.maximum(chosen[:, 0], SMALLEST_PROBABILITY))


def expected_utility(model: UtilityModel, cells: Cells) -> np.ndarray:
    return _for_cells(model, cells).moments(cells)[0]


def utilities(model: UtilityModel, cells: Cells) -> Utilities:
    return _for_cells(model, cells).utilities(cells)


def bounds(model: UtilityModel, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    known = _for_cells(model, cells)
    low, high = np.empty((2, cells.row.size))
    arguments = known.row_cutpoints, known.column_cutpoints, known.n_levels, *cells, low, high
    over_rows(_set_bounds, cells.row.size, *arguments)
    return low, high


def all_known(cells: Cells) -> bool:
    return cells.row.min(initial=0) >= 0 and cells.column.min(initial=0) >= 0


def _for_cells(model: AnyModel, cells: Cells) -> AnyModel:
    """The model with an unknown row and column, if any cell is of these."""
    return model if all_known(cells) else model.with_unknown()


def add_by_utility(model: UtilityModel, cells: Cells, total: np.ndarray) -> None:
    """Add distributions of cells, times the model's share, by the moments of their utilities."""
    where, share = (cells.row, cells.column), float(model.share)
    cutpoints = (model.row_cutpoints, model.column_cutpoints)
    arguments = *model.moments(cells), *cutpoints, model.n_levels, share, *where, total
    over_rows(_add_distributions, cells.row.size, *arguments)


@compiled
def _add_distributions(
    start, stop, mean, deviation, row_cutpoints, column_cutpoints, n_levels, share, row, column, total
):
    for cell in range(start, stop):
        d, i = row[cell], column[cell]
        _add_distribution(
            mean[cell],
            deviation[cell],
            row_cutpoints[d],
            column_cutpoints[i],
            n_levels[i],
            share,
            total[cell],
        )


@inlined
def _add_distribution(mean, deviation, row_cutpoints, column_cutpoints, n_levels, share, total):
    # A row has no first threshold of its own: its bias is.
    bound = column_cutpoints[0] - mean
    low = -np.inf
    for level in range(n_levels):
        # A bound may be anywhere, but nothing of the mass is this far out.
        far = min(max(bound / deviation, -_FAR), _FAR)
        high = np.inf if level == n_levels - 1 else far
        total[level] += share * double.mass(low, high)
        low = high
        if level + 1 < column_cutpoints.size:
            bound += thresholds.gap(column_cutpoints, row_cutpoints, level + 1)


@compiled
def add_drawn(start, stop, mean, deviation, row_gaps, column_gaps, n_levels, share, row, column, total):
    """The same of a draw, which is one of many and need not be so exact: a Φ for each threshold."""
    for cell in range(start, stop):
        d, i = row[cell], column[cell]
        scale = 1.0 / deviation[cell]
        bound, below = (column_gaps[i, 0] - mean[cell]) * scale, 0.0
        for level in range(n_levels[i] - 1):
            upper = double.mass(-np.inf, min(max(bound, -_FAR), _FAR))
            total[cell, level] += share * (upper - below)
            below = upper
            if level + 1 < column_gaps.shape[1]:
                bound += row_gaps[d, level + 1] * column_gaps[i, level + 1] * scale
        total[cell, n_levels[i] - 1] += share * (1.0 - below)


@compiled
def _set_bounds(start, stop, row_cutpoints, column_cutpoints, n_levels, row, column, level, low, high):
    for cell in range(start, stop):
        d, i = row[cell], column[cell]
        low[cell], upper = thresholds.bounds(column_cutpoints[i], row_cutpoints[d], level[cell])
        high[cell] = np.inf if level[cell] == n_levels[i] - 1 else upper


@compiled
def set_products(start, stop, rows, columns, row, column, mean):
    for cell in range(start, stop):
        p, q = rows[row[cell]], columns[column[cell]]
        mean[cell] = p[0] + q[0] + dot(p[1:], q[1:])


@compiled
def set_deviations(start, stop, rows, columns, row, column, deviation):
    for cell in range(start, stop):
        deviation[cell] = _deviation(rows, columns, row[cell], column[cell])


@inlined
def _deviation(rows, columns, d, i):
    p, q, of_p, of_q = rows.mean[d], columns.mean[i], rows.variance[d], columns.variance[i]
    variance = 1.0 + np.float64(of_p[0]) + np.float64(of_q[0])
    for k in range(1, p.size):
        variance += of_p[k] * (q[k] * q[k] + of_q[k]) + p[k] * p[k] * of_q[k]
    return np.sqrt(variance)


@compiled
def set_gaussian(start, stop, rows, columns, row, column, base, deviation):
    for cell in range(start, stop):
        base[cell], deviation[cell] = gaussian_moments(rows, columns, row[cell], column[cell])


@inlined
def gaussian_moments(rows, columns, d, i):
    """Mean and standard deviation of a utility."""
    p, q = rows.mean[d], columns.mean[i]
    mean = np.float64(p[0]) + np.float64(q[0])
    for k in range(1, p.size):
        mean += np.float64(p[k]) * np.float64(q[k])
    return mean, _deviation(rows, columns, d, i)


@inlined
def chance_from(lowest, mean, deviation, row_cutpoints, column_cutpoints, n_levels):
    """Probability of a level and all above."""
    if lowest <= 0:
        return 1.0
    if lowest >= n_levels:
        return 0.0
    bound = column_cutpoints[0] - mean
    for level in range(1, lowest):
        bound += thresholds.gap(column_cutpoints, row_cutpoints, level)
    return double.mass(min(max(bound / deviation, -_FAR), _FAR), np.inf)


@compiled
def set_binary(start, stop, by_rows, by_columns, row, column, found):
    for cell in range(start, stop):
        _set_binary_cell(by_rows, by_columns, row[cell], column[cell], found, cell)


@inlined
def _set_binary_cell(by_rows, by_columns, d, i, found, cell):
    base = np.float64(by_rows.bias[i]) + np.float64(by_columns.bias[d])
    first, second = 0.0, 0.0
    for k in range(by_rows.factor_bias.size):
        base += 0.5 * by_rows.weights[i, k]
        first += by_rows.weights[i, k] * (by_rows.factors[d, k] - 0.5)
    for k in range(by_columns.factor_bias.size):
        base += 0.5 * by_columns.weights[d, k]
        second += by_columns.weights[d, k] * (by_columns.factors[i, k] - 0.5)
    found.base[cell], found.by_rows[cell], found.by_columns[cell] = base, first, second
    found.deviation[cell] = 1.0


@compiled
def add_gains(start, stop, found, gains, mean):
    for cell in range(start, stop):
        mean[cell] = found.base[cell] + gains[0] * found.by_rows[cell] + gains[1] * found.by_columns[cell]

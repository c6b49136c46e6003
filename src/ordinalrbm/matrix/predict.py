"""P(v_di) of single cells of a matrix, also where the row or the column is unknown.

Every ordinal model says how a cell's utility is distributed: a mean, and a standard deviation that
may hold what is not known of the mean. What follows from that and the cutpoints is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import prange

from ordinalrbm.data.observations import Cells
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.normal import double
from ordinalrbm.engine.sums import dot
from ordinalrbm.evaluate.points import SMALLEST_PROBABILITY
from ordinalrbm.matrix.cold_start import with_cold_start
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.model import MatrixModel
from ordinalrbm.matrix.multinomial import MultinomialModel
from ordinalrbm.runtime.jit import compiled, inlined

UtilityModel = MatrixModel | GaussianModel
Model = UtilityModel | MultinomialModel
_FAR = 1e5  # standard deviations


class Utilities(NamedTuple):
    """Utilities of cells, taken apart: one number each.

    The mean with factors in their middle, and what factors of rows and of columns add to it, where
    gains apart may be given to them; the standard deviation without a gain.
    """

    base: np.ndarray
    by_rows: np.ndarray
    by_columns: np.ndarray
    deviation: np.ndarray


def probabilities(models: Sequence[Model], cells: Cells) -> np.ndarray:
    """(cells, L): distribution over the levels, the mean of the models by their shares."""
    total = np.zeros((cells.row.size, models[0].most_levels))
    for model in models:
        known: Any = model if all_known(cells) else with_cold_start(model)
        if isinstance(known, MultinomialModel):
            known.add_distributions(cells, total)
            continue
        mean, deviation = _moments(known, cells)
        if isinstance(known, GaussianModel) and known.is_draw and known.spread == 1.0:
            _add_drawn(
                mean, deviation, known.rows.gaps, known.columns.gaps, known.n_levels,
                float(known.share), cells.row, cells.column, total,
            )  # fmt: skip
            continue
        _add_distributions(
            mean, deviation, known.row_cutpoints, known.column_cutpoints, known.n_levels,
            float(known.share), cells.row, cells.column, total,
        )  # fmt: skip
    total /= total.sum(axis=1, keepdims=True)
    return total


def log_probability(models: Sequence[Model], cells: Cells) -> np.ndarray:
    """(cells,) log probability of the true level."""
    chosen = np.take_along_axis(
        probabilities(models, cells), cells.level[:, None].astype(np.intp), axis=1
    )
    return np.log(np.maximum(chosen[:, 0], SMALLEST_PROBABILITY))


def expected_utility(model: UtilityModel, cells: Cells) -> np.ndarray:
    """(cells,) mean utility."""
    return _moments(model if all_known(cells) else with_cold_start(model), cells)[0]


def all_known(cells: Cells) -> bool:
    return cells.row.min(initial=0) >= 0 and cells.column.min(initial=0) >= 0


def utilities(model: UtilityModel, cells: Cells) -> Utilities:
    return _utilities(model if all_known(cells) else with_cold_start(model), cells)


def _utilities(model: UtilityModel, cells: Cells) -> Utilities:
    """Unknown rows and columns are the last of the model."""
    found = Utilities(*np.zeros((len(Utilities._fields), cells.row.size)))
    if isinstance(model, GaussianModel) and model.is_draw:
        _set_products(model.rows.mean, model.columns.mean, cells.row, cells.column, found.base)
        found.deviation[:] = 1.0
        if not model.is_exact:
            _set_deviations(model.rows, model.columns, cells.row, cells.column, found.deviation)
    elif isinstance(model, GaussianModel):
        _set_gaussian(model.rows, model.columns, cells.row, cells.column, found)
    else:
        _set_binary(model.by_rows, model.by_columns, cells.row, cells.column, found)
    return found


def bounds(model: UtilityModel, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bound of the true level of each cell."""
    known = model if all_known(cells) else with_cold_start(model)
    low, high = np.empty((2, cells.row.size))
    _set_bounds(known.row_cutpoints, known.column_cutpoints, known.n_levels, *cells, low, high)
    return low, high


def _moments(model: UtilityModel, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the utility of each cell; the unknown are the last."""
    found = _utilities(model, cells)
    if isinstance(model, GaussianModel):
        return found.base, model.spread * found.deviation
    mean = np.empty(cells.row.size)
    _add_gains(found, model.gains, mean)
    return mean, np.full(cells.row.size, model.gains[2])


# ---- kernels ----------------------------------------------------------------------------------


@compiled(parallel=True)
def _add_distributions(
    mean: Any, deviation: Any, row_cutpoints: Any, column_cutpoints: Any, n_levels: Any, share: Any,
    row: Any, column: Any, total: Any,
) -> None:  # fmt: skip
    for cell in prange(row.size):
        d, i = row[cell], column[cell]
        _add_distribution(
            mean[cell], deviation[cell], row_cutpoints[d], column_cutpoints[i], n_levels[i], share,
            total[cell],
        )  # fmt: skip


@inlined
def _add_distribution(
    mean: Any, deviation: Any, row_cutpoints: Any, column_cutpoints: Any, n_levels: Any, share: Any,
    total: Any,
) -> None:  # fmt: skip
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


@compiled(parallel=True)
def _add_drawn(
    mean: Any, deviation: Any, row_gaps: Any, column_gaps: Any, n_levels: Any, share: Any, row: Any,
    column: Any, total: Any,
) -> None:  # fmt: skip
    """The same of a draw, which is one of many and need not be so exact: a Φ for each threshold."""
    for cell in prange(row.size):
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


@compiled(parallel=True)
def _set_bounds(
    row_cutpoints: Any, column_cutpoints: Any, n_levels: Any, row: Any, column: Any, level: Any,
    low: Any, high: Any,
) -> None:  # fmt: skip
    for cell in prange(row.size):
        d, i = row[cell], column[cell]
        low[cell], upper = thresholds.bounds(column_cutpoints[i], row_cutpoints[d], level[cell])
        high[cell] = np.inf if level[cell] == n_levels[i] - 1 else upper


@compiled(parallel=True)
def _set_products(rows: Any, columns: Any, row: Any, column: Any, mean: Any) -> None:
    for cell in prange(row.size):
        p, q = rows[row[cell]], columns[column[cell]]
        mean[cell] = p[0] + q[0] + dot(p[1:], q[1:])


@compiled(parallel=True)
def _set_deviations(rows: Any, columns: Any, row: Any, column: Any, deviation: Any) -> None:
    for cell in prange(row.size):
        deviation[cell] = _deviation(rows, columns, row[cell], column[cell])


@inlined
def _deviation(rows: Any, columns: Any, d: Any, i: Any) -> Any:
    p, q, of_p, of_q = rows.mean[d], columns.mean[i], rows.variance[d], columns.variance[i]
    variance = 1.0 + np.float64(of_p[0]) + np.float64(of_q[0])
    for k in range(1, p.size):
        variance += of_p[k] * (q[k] * q[k] + of_q[k]) + p[k] * p[k] * of_q[k]
    return np.sqrt(variance)


@compiled(parallel=True)
def _set_gaussian(rows: Any, columns: Any, row: Any, column: Any, found: Any) -> None:
    for cell in prange(row.size):
        _set_gaussian_cell(rows, columns, row[cell], column[cell], found, cell)


@inlined
def _set_gaussian_cell(rows: Any, columns: Any, d: Any, i: Any, found: Any, cell: Any) -> None:
    found.base[cell], found.deviation[cell] = gaussian_moments(rows, columns, d, i)


@inlined
def gaussian_moments(rows: Any, columns: Any, d: Any, i: Any) -> Any:
    """Mean and standard deviation of a utility, without a model's spread."""
    p, q = rows.mean[d], columns.mean[i]
    mean = np.float64(p[0]) + np.float64(q[0])
    for k in range(1, p.size):
        mean += np.float64(p[k]) * np.float64(q[k])
    return mean, _deviation(rows, columns, d, i)


@inlined
def chance_from(
    lowest: Any, mean: Any, deviation: Any, row_cutpoints: Any, column_cutpoints: Any, n_levels: Any
) -> Any:
    """Probability of a level and all above."""
    if lowest <= 0:
        return 1.0
    if lowest >= n_levels:
        return 0.0
    bound = column_cutpoints[0] - mean
    for level in range(1, lowest):
        bound += thresholds.gap(column_cutpoints, row_cutpoints, level)
    return double.mass(min(max(bound / deviation, -_FAR), _FAR), np.inf)


@compiled(parallel=True)
def _set_binary(by_rows: Any, by_columns: Any, row: Any, column: Any, found: Any) -> None:
    for cell in prange(row.size):
        _set_binary_cell(by_rows, by_columns, row[cell], column[cell], found, cell)


@inlined
def _set_binary_cell(by_rows: Any, by_columns: Any, d: Any, i: Any, found: Any, cell: Any) -> None:
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


@compiled(parallel=True)
def _add_gains(found: Any, gains: Any, mean: Any) -> None:
    for cell in prange(mean.size):
        mean[cell] = (
            found.base[cell] + gains[0] * found.by_rows[cell] + gains[1] * found.by_columns[cell]
        )

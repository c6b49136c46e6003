"""P(v_j | v): from expected or sampled factors to distributions over levels.

Mean-field puts the factors' means into P(v_j | h) as if they were known; the distributions come out
too narrow. Linear response widens them: at the fixed point, the covariance of the factors follows
from how the fixed point would move, Cov(h | v) = (D⁻¹ − Wᵀ V W)⁻¹, with D the variances of
independent factors and V those of the utilities given their levels. The utility of a question then
has variance 1 + w_jᵀ Cov w_j instead of 1. Its mean, and with it the median level, stays.

Distributions are (cells, L) arrays: probabilities of the levels or categories. Of a number they are
its mean, its standard deviation and, where it is known, its density, all in standard deviations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit, softmax

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import NOMINAL, NUMERIC, ORDINAL
from ordinalrbm.engine import gibbs, normal_reference
from ordinalrbm.engine.side import ORDINAL as ORDINAL_COLUMN
from ordinalrbm.engine.side import Side
from ordinalrbm.engine.thresholds import unknown_level
from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY, log_of_level
from ordinalrbm.vector.model import LOGISTIC_OF_NORMAL, VectorModel, complete_rows, side
from ordinalrbm.vector.posterior import Posterior, State

# The distribution of a less probable style is not widened: that is slow, and hardly seen.
_WORTH_WIDENING = 0.05
_CHUNK = 2**22  # numbers in the (rows, K, K) arrays that are held at a time: 32 MB each
# A factor that is certain has no variance; it must not have an infinite precision either.
_SMALLEST_VARIANCE = 1e-6
# Beyond this the response is that of a fixed point about to become unstable: not believed.
_LARGEST_GAIN = 0.995
# What is known of a number in a distribution, while it is summed: mean, mean square, density, and
# how often these have been added.
_OF_NUMBER = 4


class Cells(NamedTuple):
    """Cells of questions to predict, row by row, with the true level where it is known (else −1).

    ``value`` is the true number where that is what is known, or of length zero.
    """

    row_start: np.ndarray
    column: np.ndarray
    level: np.ndarray
    value: np.ndarray = np.zeros(0)

    def of_rows(self, start: int, stop: int) -> Cells:
        entries = slice(self.row_start[start], self.row_start[stop])
        starts = self.row_start[start : stop + 1] - self.row_start[start]
        value = self.value[entries] if self.value.size else self.value
        return Cells(starts, self.column[entries], self.level[entries], value)

    @property
    def row(self) -> np.ndarray:
        return np.repeat(np.arange(self.row_start.size - 1), np.diff(self.row_start))


def cells_of(answers: Observations) -> Cells:
    return Cells(answers.row_start, answers.column, answers.level, answers.entry_numbers())


def all_cells(n_rows: int, n_columns: int) -> Cells:
    return Cells(
        np.arange(n_rows + 1, dtype=np.int64) * n_columns,
        np.tile(np.arange(n_columns, dtype=np.int32), n_rows),
        np.full(n_rows * n_columns, -1, dtype=np.int16),
    )


def chosen_cells(chosen: np.ndarray) -> Cells:
    """Return the cells that a mask of the table's shape chooses, their levels unknown."""
    rows, columns = np.nonzero(chosen)
    start = np.zeros(chosen.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=chosen.shape[0]), out=start[1:])
    return Cells(start, columns.astype(np.int32), np.full(rows.size, -1, dtype=np.int16))


class Spread(NamedTuple):
    """How uncertain the factors leave what they add up to, given a row's answers."""

    utility: np.ndarray  # (rows, N') standard deviations of utilities, one if factors were certain
    differences: dict[int, np.ndarray]  # nominal: (rows, C, C) variances between two categories


def probabilities(model: VectorModel, states: Iterable[State], cells: Cells) -> np.ndarray:
    total = _no_probabilities(model, cells)
    for state in states:
        _add(model, state, cells, total)
    return _finished(model, cells, total)


def mixed(
    model: VectorModel, this: Side, found: Posterior, cells: Cells, *, widened: bool = False
) -> np.ndarray:
    """Return (cells, L): P(level | expected factors), averaged over each row's possible styles.

    ``widened`` distributions account for the uncertainty of the factors.
    """
    total = _no_probabilities(model, cells)
    for state, weight, _ in found.components:
        spread = None
        if widened:
            styled = this._replace(stretch=state.stretch)
            spread = spread_of(model, styled, state.factors, weight > _WORTH_WIDENING)
        _add(model, state, cells, total, spread, weight)
    return _finished(model, cells, total)


def log_probability(model: VectorModel, found: np.ndarray, cells: Cells) -> np.ndarray:
    """Return the log probability of the cells' levels, or log density of numbers in standard deviations."""
    if not (model.kind == NUMERIC).any():
        return log_of_level(found, cells.level)
    is_number = model.kind[cells.column] == NUMERIC
    density = np.log(np.maximum(found[:, 2], SMALLEST_PROBABILITY))
    return np.where(is_number, density, log_of_level(found, np.where(is_number, 0, cells.level)))


def _no_probabilities(model: VectorModel, cells: Cells) -> np.ndarray:
    width = int(model.n_levels.max(initial=1))
    if (model.kind == NUMERIC).any():
        width = max(width, _OF_NUMBER)
    return np.zeros((cells.column.size, width))


def _finished(model: VectorModel, cells: Cells, total: np.ndarray) -> np.ndarray:
    """Sums over states as distributions; in place."""
    if not (model.kind == NUMERIC).any():
        total /= total.sum(axis=1, keepdims=True)
        return total
    is_number = model.kind[cells.column] == NUMERIC
    levels = total[~is_number]
    total[~is_number] = levels / levels.sum(axis=1, keepdims=True)
    scale = np.exp(model.cutpoints[model.layout.first[cells.column[is_number]], 0])
    mean, square, density, weight = total[is_number, :_OF_NUMBER].T
    mean, square, density = mean / weight, square / weight, density / weight
    total[is_number] = 0.0
    total[is_number, 0] = mean / scale
    total[is_number, 1] = np.sqrt(np.maximum(square - mean**2, 0.0)) / scale
    total[is_number, 2] = density * scale
    return total


def _add(
    model: VectorModel,
    state: State,
    cells: Cells,
    total: np.ndarray,
    spread: Spread | None = None,
    weight: np.ndarray | None = None,
) -> None:
    """Add the distributions in a state, times a weight of each row."""
    these = side(model, complete_rows(model, 0))._replace(stretch=state.stretch)
    plan = model.layout
    column = plan.first[cells.column].astype(np.int32)
    added = np.zeros((0, 0), dtype=np.float32)
    if model.n_covariates and state.covariates.size:
        added = state.covariates @ model.slopes.T
        these = these._replace(shift=added[cells.row, column])
    of_cell = None if spread is None else spread.utility[cells.row, column]
    if not model.kind.size:
        gibbs.add_probabilities(these, state.factors, cells.row_start, column, total, of_cell, weight)
        return
    levels = np.zeros((column.size, model.cutpoints.shape[1] + 1))
    gibbs.add_probabilities(these, state.factors, cells.row_start, column, levels, of_cell, weight)
    ordinal = np.flatnonzero(model.kind[cells.column] == ORDINAL)
    used = min(levels.shape[1], total.shape[1])
    total[ordinal, :used] += levels[ordinal, :used]
    for question in np.flatnonzero(model.kind != ORDINAL).tolist():
        own = np.flatnonzero(cells.column == question)
        rows = cells.row[own]
        columns = plan.columns(question)
        mean = model.bias[columns] + state.factors[rows].astype(np.float64) @ (
            model.weights[columns].T.astype(np.float64)
        )
        if added.size:
            mean = mean + added[rows, columns]
        share = np.ones(rows.size) if weight is None else weight[rows]
        if model.kind[question] == NOMINAL:
            differences = None if spread is None else spread.differences[question][rows]
            chances = _categories(mean, differences)
            total[own, : chances.shape[1]] += share[:, None] * chances
        else:
            deviation = 1.0 if spread is None else spread.utility[rows, columns.start]
            scale = np.exp(model.cutpoints[columns.start, 0])
            value, at = scale * cells.value[own] if cells.value.size else np.zeros(rows.size), mean[:, 0]
            density = np.exp(-0.5 * ((value - at) / deviation) ** 2) / deviation / np.sqrt(2.0 * np.pi)
            sums = np.stack([at, at**2 + deviation**2, density, np.ones_like(at)], axis=1)
            total[own, :_OF_NUMBER] += share[:, None] * sums


def _categories(mean: np.ndarray, differences: np.ndarray | None) -> np.ndarray:
    """(cells, C) probabilities of categories, given the variances of their differences, if known.

    The mean of a softmax by those of its logistic functions of two (Daunizeau 2017).
    """
    if differences is None:
        return softmax(mean, axis=1)
    ahead = mean[:, :, None] - mean[:, None, :]
    against = expit(ahead / np.sqrt(1.0 + LOGISTIC_OF_NORMAL * differences))
    others = ~np.eye(mean.shape[1], dtype=bool)
    behind = (1.0 / np.maximum(against, SMALLEST_PROBABILITY)).sum(axis=2, where=others)
    chances = 1.0 / (2.0 - mean.shape[1] + behind)
    return chances / chances.sum(axis=1, keepdims=True)


def spread_of(
    model: VectorModel, this: Side, factors: np.ndarray, wanted: np.ndarray | None = None
) -> Spread:
    """Return what the uncertainty of the factors adds up to; nothing for rows outside the mask ``wanted``."""
    pairs = _weight_pairs(model.weights)
    spread = Spread(np.ones((this.n_rows, model.bias.size)), {})
    between: dict[int, np.ndarray] = {}
    for question, columns in model.layout.nominal:
        own = model.weights[columns].astype(np.float64)
        between[question] = _weight_pairs((own[:, None] - own[None]).reshape(-1, model.n_factors))
        spread.differences[question] = np.zeros((this.n_rows, len(own), len(own)))
    for rows, covariance in factor_covariances(model, this, factors, wanted):
        flat = covariance.reshape(-1, model.n_factors**2)
        spread.utility[rows] = np.sqrt(1.0 + np.maximum(flat @ pairs.T, 0.0))
        for question, variances in spread.differences.items():
            found = np.maximum(flat @ between[question].T, 0.0)
            variances[rows] = found.reshape(len(flat), *variances.shape[1:])
    return spread


def factor_covariances(
    model: VectorModel, this: Side, factors: np.ndarray, wanted: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows and Cov(h | v) of each, (rows, K, K), by linear response around expected factors.

    Of the ``wanted`` rows (a mask), or of all; some at a time.
    """
    pairs, n_factors = _weight_pairs(model.weights), model.n_factors
    size = max(1, _CHUNK // n_factors**2)
    for start in range(0, this.n_rows, size):
        stop = min(start + size, this.n_rows)
        some = np.arange(stop - start) if wanted is None else np.flatnonzero(wanted[start:stop])
        part, here = this.rows(start, stop), factors[start:stop]
        share = here[some].astype(np.float64) / model.units
        variance = np.maximum(model.units * share * (1.0 - share), _SMALLEST_VARIANCE)
        coupling = _level_variance(model, part, here)[some] @ pairs
        coupling = coupling.reshape(-1, n_factors, n_factors)
        if this.members.size:
            coupling += _category_coupling(model, part, here)[some]
        yield start + some, _response(variance, coupling)


def _weight_pairs(weights: np.ndarray) -> np.ndarray:
    pairs = np.einsum("ik,il->ikl", weights, weights, dtype=np.float64)
    return pairs.reshape(len(weights), -1)


def category_answers(
    model: VectorModel, this: Side, factors: np.ndarray
) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield, of each nominal question, columns, rows that have it, what they chose, P(category | factors).

    The last two are (rows, C); choices are NaN where unknown.
    """
    first, last = this.row_start[0], this.row_start[-1]
    row = np.repeat(np.arange(this.n_rows), np.diff(this.row_start))
    column = this.column[first:last]
    mean = model.bias + factors.astype(np.float64) @ model.weights.T
    if this.offset.size:
        mean[row, column] += this.offset[first:last]
    is_there, known = np.zeros(mean.shape, dtype=bool), np.full(mean.shape, np.nan)
    is_there[row, column], known[row, column] = True, this.known[first:last]
    for _, columns in model.layout.nominal:
        yield columns, is_there[:, columns.start], known[:, columns], softmax(mean[:, columns], axis=1)


def _category_coupling(model: VectorModel, this: Side, factors: np.ndarray) -> np.ndarray:
    """(rows, K, K) how factors are coupled by categories that are unknown."""
    coupling = np.zeros((this.n_rows, model.n_factors, model.n_factors))
    for columns, is_there, known, share in category_answers(model, this, factors):
        some = np.flatnonzero(is_there & np.isnan(known[:, 0]))
        own, chance = model.weights[columns].astype(np.float64), share[some]
        centred = own[None] - (chance @ own)[:, None]
        coupling[some] += np.einsum("rl,rlk,rlm->rkm", chance, centred, centred)
    return coupling


def _response(variance: np.ndarray, coupling: np.ndarray) -> np.ndarray:
    """(D⁻¹ − C)⁻¹, written as D^½ (I − D^½ C D^½)⁻¹ D^½ to be well scaled.

    Along a direction in which the fixed point is not stable there is no such covariance; factors
    are independent there, which is what mean-field says.
    """
    root = np.sqrt(variance)
    scaled = coupling * root[:, :, None] * root[:, None, :]
    try:
        precision = _LARGEST_GAIN * np.eye(variance.shape[1]) - scaled
        np.linalg.cholesky(precision)
        inner = np.linalg.inv(precision + (1.0 - _LARGEST_GAIN) * np.eye(variance.shape[1]))
    except np.linalg.LinAlgError:  # some row is not stable: direction by direction, then
        values, vectors = np.linalg.eigh(scaled)
        gain = 1.0 / (1.0 - np.where(values < _LARGEST_GAIN, values, 0.0))
        inner = (vectors * gain[:, None, :]) @ vectors.transpose(0, 2, 1)
    return inner * root[:, :, None] * root[:, None, :]


class Intervals(NamedTuple):
    """Where the utility of each answer of some rows lies, from its mean given the factors."""

    row: np.ndarray
    column: np.ndarray
    level: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def intervals(model: VectorModel, this: Side, factors: np.ndarray) -> Intervals:
    """Return the intervals of answers on scales; numbers and categories have the whole line."""
    first, last = this.row_start[0], this.row_start[-1]
    row = np.repeat(np.arange(this.n_rows), np.diff(this.row_start))
    column, level = this.column[first:last], this.level[first:last].astype(np.intp)
    if this.members.size:
        level = np.where(this.members[column] == ORDINAL_COLUMN, level, unknown_level(this.thresholds))
    mean = (model.bias + factors.astype(np.float64) @ model.weights.T)[row, column]
    if this.shift.size:
        mean = mean + this.shift[first:last]
    stretch = this.stretch[row] if this.stretch.size else 1.0
    low = stretch * this.thresholds[column, level] - mean
    high = stretch * this.thresholds[column, level + 1] - mean
    return Intervals(row, column, level, mean, low, high)


def _level_variance(model: VectorModel, this: Side, factors: np.ndarray) -> np.ndarray:
    """(rows, N') variance of the utility given its level and the factors; 0 where absent."""
    at = intervals(model, this, factors)
    result = np.zeros((this.n_rows, model.bias.size))
    result[at.row, at.column] = normal_reference.truncated_variance(at.low, at.high)
    if this.members.size:  # what is known does not vary, and categories vary together
        result[at.row, at.column] *= np.isnan(this.known[this.row_start[0] : this.row_start[-1]])
        result[:, model.layout.is_category] = 0.0
    return result

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
from ordinalrbm.data.questionnaire import NOMINAL, NUMERIC, ORDINAL, numbers_of
from ordinalrbm.engine import gibbs, normal_reference
from ordinalrbm.engine.side import Side
from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY, log_of_level
from ordinalrbm.vector.kinds import LOGISTIC_OF_NORMAL
from ordinalrbm.vector.model import VectorModel
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
    """Cells to predict, row by row, with the true level where it is known (else −1).

    Columns are questions. ``value`` is the true number where that is what is known, or of length
    zero.
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
    """Return the cells of some answers, which are known."""
    return Cells(answers.row_start, answers.column, answers.level, numbers_of(answers))


def all_cells(n_rows: int, n_columns: int) -> Cells:
    n_cells = n_rows * n_columns
    return Cells(
        np.arange(n_rows + 1, dtype=np.int64) * n_columns,
        np.tile(np.arange(n_columns, dtype=np.int32), n_rows),
        np.full(n_cells, -1, dtype=np.int16),
    )


def chosen_cells(chosen: np.ndarray) -> Cells:
    """Return the cells that a mask of the table's shape chooses, their levels unknown."""
    rows, columns = np.nonzero(chosen)
    start = np.zeros(chosen.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=chosen.shape[0]), out=start[1:])
    return Cells(start, columns.astype(np.int32), np.full(rows.size, -1, dtype=np.int16))


class Spread(NamedTuple):
    """How uncertain the factors leave what they add up to, given a row's answers.

    Attributes
    ----------
    utility : (rows, N') standard deviations of the utilities, one if factors were certain
    differences : of each nominal question, (rows, C, C) the variance of the difference between two
        categories
    """

    utility: np.ndarray
    differences: dict[int, np.ndarray]


def probabilities(model: VectorModel, states: Iterable[State], cells: Cells) -> np.ndarray:
    """Return (cells, L): the mean over some states of P(level | factors, style)."""
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
            spread = _spread(model, styled, state.factors, weight > _WORTH_WIDENING)
        _add(model, state, cells, total, spread, weight)
    return _finished(model, cells, total)


def prior(model: VectorModel, factors: np.ndarray, cells: Cells) -> np.ndarray:
    """Return (cells, L): P(level | factors) for rows of whose style nothing is known."""
    total = _no_probabilities(model, cells)
    for stretch, share in zip(model.stretches, model.style_weights, strict=True):
        stretched = np.full(factors.shape[0], stretch, dtype=np.float32)
        _add(model, State(factors, stretched), cells, total, weight=np.full(len(factors), share))
    return _finished(model, cells, total)


def log_probability(model: VectorModel, found: np.ndarray, cells: Cells) -> np.ndarray:
    """Return the log probability of the cells' levels, or the log density of their numbers.

    Densities are on the scale of standard deviations.
    """
    if not (model.kind == NUMERIC).any():
        return log_of_level(found, cells.level)
    is_number = model.kind[cells.column] == NUMERIC
    density = np.log(np.maximum(found[:, 2], SMALLEST_PROBABILITY))
    level = np.where(is_number, 0, cells.level)
    return np.where(is_number, density, log_of_level(found, level))


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
    plan = model.layout
    scale = np.exp(model.cutpoints[plan.first[cells.column[is_number]], 0])
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
    these = _parameters_only(model)._replace(stretch=state.stretch)
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
        place = np.flatnonzero(cells.column == question)
        rows = cells.row[place]
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
            total[place, : chances.shape[1]] += share[:, None] * chances
        else:
            deviation = 1.0 if spread is None else spread.utility[rows, columns.start]
            scale = np.exp(model.cutpoints[columns.start, 0])
            value = scale * cells.value[place] if cells.value.size else np.zeros(rows.size)
            told = _of_numbers(mean[:, 0], np.broadcast_to(deviation, rows.shape), value)
            total[place, :_OF_NUMBER] += share[:, None] * told


def _of_numbers(mean: np.ndarray, deviation: np.ndarray, value: np.ndarray) -> np.ndarray:
    """(cells, 4) mean, mean square, density at a value, and one."""
    density = np.exp(-0.5 * ((value - mean) / deviation) ** 2) / deviation / np.sqrt(2.0 * np.pi)
    return np.stack([mean, mean**2 + deviation**2, density, np.ones_like(mean)], axis=1)


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


def _parameters_only(model: VectorModel) -> Side:
    """A Side without answers, for kernels that need only parameters."""
    no_index, no_number = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
    nothing = np.zeros(1, dtype=np.int64)
    return Side(
        nothing,
        no_index,
        np.zeros(0, dtype=np.int8),
        nothing,
        no_index,
        no_index,
        no_number,
        no_number,
        no_number,
        np.zeros((0, 0), dtype=np.float32),
        model.weights,
        model.bias,
        model.thresholds,
        model.factor_bias,
        model.units,
    )


def utility_spread(
    model: VectorModel, this: Side, factors: np.ndarray, wanted: np.ndarray | None = None
) -> np.ndarray:
    """Return (rows, N') standard deviations of each column's utility given the row's answers.

    Only for the ``wanted`` rows (a mask), if given; it is one for the others.
    """
    return _spread(model, this, factors, wanted).utility


def _spread(model: VectorModel, this: Side, factors: np.ndarray, wanted: np.ndarray | None) -> Spread:
    """What the uncertainty of the factors adds up to; nothing for rows that are not wanted."""
    pairs, plan = _weight_pairs(model.weights), model.layout
    spread = Spread(np.ones((this.n_rows, model.bias.size)), {})
    between: dict[int, np.ndarray] = {}
    for question in np.flatnonzero(plan.kind == NOMINAL).tolist():
        own = model.weights[plan.columns(question)].astype(np.float64)
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
        share = factors[start:stop][some].astype(np.float64) / model.units
        variance = np.maximum(model.units * share * (1.0 - share), _SMALLEST_VARIANCE)
        coupling = _level_variance(model, this, factors, start, stop)[some] @ pairs
        coupling = coupling.reshape(-1, n_factors, n_factors)
        if this.members.size:
            _couple_categories(model, this, factors, start + some, coupling)
        yield start + some, _response(variance, coupling)


def _weight_pairs(weights: np.ndarray) -> np.ndarray:
    """(N', K²) products of each column's weights."""
    pairs = np.einsum("ik,il->ikl", weights, weights, dtype=np.float64)
    return pairs.reshape(len(weights), -1)


def _couple_categories(
    model: VectorModel, this: Side, factors: np.ndarray, rows: np.ndarray, coupling: np.ndarray
) -> None:
    """Add how factors are coupled by categories that nobody knows, to (rows, K, K); in place."""
    plan = model.layout
    row = np.repeat(np.arange(this.n_rows), np.diff(this.row_start))
    first, last = this.row_start[0], this.row_start[-1]
    column, known = this.column[first:last], this.known[first:last]
    for question in np.flatnonzero(plan.kind == NOMINAL).tolist():
        columns = plan.columns(question)
        begins = np.flatnonzero((column == columns.start) & np.isnan(known))
        place = np.full(this.n_rows, -1)
        place[row[begins]] = begins
        some = np.flatnonzero(place[rows] >= 0)
        own = model.weights[columns].astype(np.float64)
        mean = model.bias[columns] + factors[rows[some]].astype(np.float64) @ own.T
        if this.offset.size:
            of_row = place[rows[some]][:, None] + np.arange(len(own))
            mean = mean + this.offset[first:last][of_row]
        share = softmax(mean, axis=1)
        centred = own[None] - (share @ own)[:, None]
        coupling[some] += np.einsum("rl,rlk,rlm->rkm", share, centred, centred)


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


def _level_variance(model: VectorModel, this: Side, factors: np.ndarray, start: int, stop: int) -> np.ndarray:
    """(rows, N) variance of the utility given its level and the factors; 0 where absent."""
    first, last = this.row_start[start], this.row_start[stop]
    row = np.repeat(np.arange(stop - start), np.diff(this.row_start[start : stop + 1]))
    column, level = this.column[first:last], this.level[first:last].astype(np.intp)
    mean = model.bias + factors[start:stop].astype(np.float64) @ model.weights.T
    centre = mean[row, column]
    if this.shift.size:
        centre = centre + this.shift[first:last]
    stretch = this.stretch[start:stop][row] if this.stretch.size else 1.0
    low = stretch * this.thresholds[column, level] - centre
    high = stretch * this.thresholds[column, level + 1] - centre
    at_low, at_high = normal_reference.edge_densities(low, high)
    shift = normal_reference.truncated_mean(low, high)
    bounds = _finite(low) * at_low - _finite(high) * at_high
    result = np.zeros((stop - start, model.bias.size))
    result[row, column] = np.clip(1.0 + bounds - shift * shift, 0.0, 1.0)
    if this.members.size:  # what is known does not vary, and categories vary together
        result[row, column] *= np.isnan(this.known[first:last])
        result[:, model.layout.is_category] = 0.0
    return result


def _finite(x: np.ndarray) -> np.ndarray:
    """Zero instead of infinity: the density there is zero, and so is the product."""
    return np.where(np.isinf(x), 0.0, x)

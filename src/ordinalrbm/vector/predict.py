"""P(v_j | v): from expected or sampled factors to distributions over levels.

Mean-field puts the factors' means into P(v_j | h) as if they were known; the distributions come out
too narrow. Linear response widens them: at the fixed point, the covariance of the factors follows
from how the fixed point would move, Cov(h | v) = (D⁻¹ − Wᵀ V W)⁻¹, with D the variances of
independent factors and V those of the utilities given their levels. The utility of a question then
has variance 1 + w_jᵀ Cov w_j instead of 1. Its mean, and with it the median level, stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ordinalrbm.engine import gibbs, normal_reference
from ordinalrbm.engine.side import Side
from ordinalrbm.vector.model import VectorModel
from ordinalrbm.vector.posterior import Posterior, State

# The distribution of a less probable style is not widened: that is slow, and hardly seen.
_WORTH_WIDENING = 0.05
_CHUNK = 2**22  # numbers in the (rows, K, K) arrays that are held at a time: 32 MB each
# A factor that is certain has no variance; it must not have an infinite precision either.
_SMALLEST_VARIANCE = 1e-6
# Beyond this the response is that of a fixed point about to become unstable: not believed.
_LARGEST_GAIN = 0.995


class Cells(NamedTuple):
    """Cells to predict, row by row, with the true level where it is known (else −1)."""

    row_start: np.ndarray
    column: np.ndarray
    level: np.ndarray

    def of_rows(self, start: int, stop: int) -> Cells:
        entries = slice(self.row_start[start], self.row_start[stop])
        starts = self.row_start[start : stop + 1] - self.row_start[start]
        return Cells(starts, self.column[entries], self.level[entries])


def all_cells(n_rows: int, n_columns: int) -> Cells:
    n_cells = n_rows * n_columns
    return Cells(
        np.arange(n_rows + 1, dtype=np.int64) * n_columns,
        np.tile(np.arange(n_columns, dtype=np.int32), n_rows),
        np.full(n_cells, -1, dtype=np.int16),
    )


def cells_of(chosen: np.ndarray) -> Cells:
    """Return the cells that a mask of the table's shape chooses, their levels unknown."""
    rows, columns = np.nonzero(chosen)
    start = np.zeros(chosen.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=chosen.shape[0]), out=start[1:])
    return Cells(start, columns.astype(np.int32), np.full(rows.size, -1, dtype=np.int16))


def probabilities(model: VectorModel, states: Iterable[State], cells: Cells) -> np.ndarray:
    """Return (cells, L): the mean over some states of P(level | factors, style)."""
    these, total = _parameters_only(model), _no_probabilities(model, cells)
    for state in states:
        _add(these, state, cells, total)
    total /= total.sum(axis=1, keepdims=True)
    return total


def mixed(
    model: VectorModel, this: Side, found: Posterior, cells: Cells, *, widened: bool = False
) -> np.ndarray:
    """Return (cells, L): P(level | expected factors), averaged over each row's possible styles.

    ``widened`` distributions account for the uncertainty of the factors.
    """
    row = np.repeat(np.arange(this.n_rows), np.diff(cells.row_start))
    these, total = _parameters_only(model), _no_probabilities(model, cells)
    for state, weight, _ in found.components:
        spread = None
        if widened:
            styled = this._replace(stretch=state.stretch)
            likely = weight > _WORTH_WIDENING
            spread = utility_spread(model, styled, state.factors, likely)[row, cells.column]
        _add(these, state, cells, total, spread, weight)
    total /= total.sum(axis=1, keepdims=True)
    return total


def prior(model: VectorModel, factors: np.ndarray, cells: Cells) -> np.ndarray:
    """Return (cells, L): P(level | factors) for rows of whose style nothing is known."""
    total = _no_probabilities(model, cells)
    for stretch, share in zip(model.stretches, model.style_weights, strict=True):
        stretched = np.full(factors.shape[0], stretch, dtype=np.float32)
        total += share * probabilities(model, [State(factors, stretched)], cells)
    return total


def _no_probabilities(model: VectorModel, cells: Cells) -> np.ndarray:
    return np.zeros((cells.column.size, int(model.n_levels.max(initial=1))))


def _add(
    these: Side, state: State, cells: Cells, total: np.ndarray, spread: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> None:  # fmt: skip
    these = these._replace(stretch=state.stretch)
    gibbs.add_probabilities(
        these, state.factors, cells.row_start, cells.column, total, spread, weight
    )


def _parameters_only(model: VectorModel) -> Side:
    """A Side without answers, for kernels that need only parameters."""
    no_index, no_number = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
    nothing = np.zeros(1, dtype=np.int64)
    return Side(
        nothing, no_index, np.zeros(0, dtype=np.int8), nothing, no_index, no_index, no_number,
        no_number, no_number, np.zeros((0, 0), dtype=np.float32), model.weights, model.bias,
        model.thresholds, model.factor_bias, model.units,
    )  # fmt: skip


def utility_spread(
    model: VectorModel, this: Side, factors: np.ndarray, wanted: np.ndarray | None = None
) -> np.ndarray:
    """Return (rows, N) standard deviations of each question's utility given the row's answers.

    Only for the ``wanted`` rows (a mask), if given; it is one for the others.
    """
    pairs = _weight_pairs(model)
    spread = np.ones((this.n_rows, model.bias.size))
    for rows, covariance in factor_covariances(model, this, factors, wanted):
        flat = covariance.reshape(-1, model.n_factors**2)
        spread[rows] = np.sqrt(1.0 + np.maximum(flat @ pairs.T, 0.0))
    return spread


def factor_covariances(
    model: VectorModel, this: Side, factors: np.ndarray, wanted: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows and Cov(h | v) of each, (rows, K, K), by linear response around expected factors.

    Of the ``wanted`` rows (a mask), or of all; some at a time.
    """
    pairs, n_factors = _weight_pairs(model), model.n_factors
    size = max(1, _CHUNK // n_factors**2)
    for start in range(0, this.n_rows, size):
        stop = min(start + size, this.n_rows)
        some = np.arange(stop - start) if wanted is None else np.flatnonzero(wanted[start:stop])
        share = factors[start:stop][some].astype(np.float64) / model.units
        variance = np.maximum(model.units * share * (1.0 - share), _SMALLEST_VARIANCE)
        coupling = _level_variance(model, this, factors, start, stop)[some] @ pairs
        yield start + some, _response(variance, coupling.reshape(-1, n_factors, n_factors))


def _weight_pairs(model: VectorModel) -> np.ndarray:
    """(N, K²) products of each question's weights."""
    pairs = np.einsum("ik,il->ikl", model.weights, model.weights, dtype=np.float64)
    return pairs.reshape(model.bias.size, -1)


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


def _level_variance(
    model: VectorModel, this: Side, factors: np.ndarray, start: int, stop: int
) -> np.ndarray:
    """(rows, N) variance of the utility given its level and the factors; 0 where absent."""
    first, last = this.row_start[start], this.row_start[stop]
    row = np.repeat(np.arange(stop - start), np.diff(this.row_start[start : stop + 1]))
    column, level = this.column[first:last], this.level[first:last].astype(np.intp)
    mean = model.bias + factors[start:stop].astype(np.float64) @ model.weights.T
    centre = mean[row, column]
    stretch = this.stretch[start:stop][row] if this.stretch.size else 1.0
    low = stretch * this.thresholds[column, level] - centre
    high = stretch * this.thresholds[column, level + 1] - centre
    at_low, at_high = normal_reference.edge_densities(low, high)
    shift = normal_reference.truncated_mean(low, high)
    bounds = _finite(low) * at_low - _finite(high) * at_high
    result = np.zeros((stop - start, model.bias.size))
    result[row, column] = np.clip(1.0 + bounds - shift * shift, 0.0, 1.0)
    return result


def _finite(x: np.ndarray) -> np.ndarray:
    """Zero instead of infinity: the density there is zero, and so is the product."""
    return np.where(np.isinf(x), 0.0, x)

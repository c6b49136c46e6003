"""Gaussian factors of rows and columns: what is known of them, and an epoch of learning.

A factor of M binary units with the same weights is binomial, and the more units, the closer to a
Gaussian. With utilities of cells without an answer integrated over, the Gaussian RBM of a row

    log Ψ(u, h) = −½|u|² − ½|h|² + u·(α + W h)    has    Cov(u) = (I − W Wᵀ)⁻¹ = I + Λ Λᵀ,

so that it is the same as drawing h from N(0, I) and u around α + Λ h, with Λ = W (I − Wᵀ W)^−½.
In that form, answers that are missing can just be left out. What is left is a factorisation:

    μ_di = b_d + b_i + p_d · q_i,

and given one side, the other is Gaussian. The posterior is a Gaussian with independent coordinates: what is
not known about one side is carried into the regressions of the other, and the priors are learnt from the
data, so that useless factors fade away. Or it is a point, with priors that stay.

Gaussian matrix factorisation is the same with levels that stand for utilities known exactly
(``values``), and thresholds in the middle between them. The unit of utilities follows the noise, so
that it has variance one here, too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from ordinalrbm.data.observations import Counted, Observations
from ordinalrbm.engine.base import NO_VALUES, FactorPosterior, Moments, Prior, Rotation, gaps_of
from ordinalrbm.engine.drift import NO_PATH, Bins, BinViews, Path, first_path, smoothed_path
from ordinalrbm.engine.half_sweep import CPU_ENGINE
from ordinalrbm.engine.side import Array
from ordinalrbm.matrix.feature_priors import (
    NO_TABLES,
    NO_WEIGHTS,
    Tables,
    View,
    Weights,
    refit_weights,
    with_features,
)
from ordinalrbm.matrix.model import common_cutpoints
from ordinalrbm.runtime.process_group import ALONE, Alone, Group

# So many ratings of a row or column, on average, can tell one factor. With more factors than that,
# noise would be learnt before the priors are.
_RATINGS_PER_FACTOR = 2.0
_FEWEST_FACTORS = 2
# Epochs before the priors of factors are learnt: they would give up what has not been found yet.
_EPOCHS_WITH_FIXED_PRIORS = 2
# Gaps change slowly, and take as long as all else: they are updated in every so manyth epoch.
_EPOCHS_PER_GAPS = 2
# Expected square of one more of each kind, so that few rows do not talk themselves into a prior of
# no width; small compared to one, the variance of a utility.
_PRIOR_SQUARE = 0.1
# Learnt priors of independent coordinates are too narrow: factors fade that are still needed.
# Variances count a little more, so that only what is useless does (found on MovieLens 1M and 100K,
# where 1.1 to 1.2 are about as good).
_VARIANCE_INFLATION = 1.1
# Of the largest eigenvalue: smaller ones are no directions, but rounding.
_NO_DIRECTION = 1e-12
# Noise is never less than this share of the values' variance, so that a table which is fitted
# exactly (one cell, one level) still gives distributions.
_LEAST_NOISE = 1e-3


class Precisions(NamedTuple):
    """Of the priors where learning begins; those of a point posterior stay."""

    bias: float = 5.0
    factors: float = 1.0
    gaps: float = 20.0


class GaussianState(NamedTuple):
    """Rows and columns, what is known of them, and their priors.

    ``values`` are utilities, (L,) float32, that each level stands for; none where it says only
    between which thresholds a utility lies.
    """

    rows: FactorPosterior
    columns: FactorPosterior
    row_prior: Prior
    column_prior: Prior
    values: np.ndarray = NO_VALUES
    unit: float = 1.0  # standard deviation of the values, as many utilities' standard deviations
    row_weights: Weights = NO_WEIGHTS  # of the features of rows
    column_weights: Weights = NO_WEIGHTS  # of those of columns
    drift: Path = NO_PATH  # expected levels of the biases of rows; on the host
    drift_variance: np.ndarray = NO_PATH.level

    @property
    def n_factors(self) -> int:
        return self.rows.mean.shape[1] - 1

    def with_rows(
        self, change: Callable[[Array], Array], of_bins: Callable[[Array], Array] | None = None
    ) -> Self:
        own, weights = self.row_prior, self.column_weights
        own = own._replace(cutpoints=change(own.cutpoints))
        if own.mean.shape[1]:
            own = own._replace(mean=change(own.mean))
        if weights.each.shape[1]:
            weights = weights._replace(each=change(weights.each))
        rows, of_bins = FactorPosterior(*map(change, self.rows)), of_bins or change
        drift = self.drift._replace(level=of_bins(self.drift.level))
        variance = of_bins(self.drift_variance)
        return self._replace(
            rows=rows, row_prior=own, column_weights=weights, drift=drift, drift_variance=variance
        )


# ---- where learning begins --------------------------------------------------------------------


def start(observations: Counted, n_factors: int, seed: int, precisions: Precisions) -> GaussianState:
    """Before learning: marginal thresholds, random factors of the columns, none of the rows."""
    rng = np.random.default_rng(seed)
    n_rows, n_columns = observations.n_rows, observations.n_columns
    cutpoints = common_cutpoints(observations)
    width = cutpoints.shape[1]
    columns = _unknown(n_factors, cutpoints, observations.n_levels)
    # Unequal from the start, so that factors need not first find out which one leads.
    columns.mean[:, 1:] = rng.standard_normal((n_columns, n_factors))
    columns.mean[:, 1:] /= np.sqrt(precisions.factors * np.arange(1, n_factors + 1))
    rows = _unknown(n_factors, np.zeros((n_rows, width)), np.full(n_rows, width + 1))
    row_prior, column_prior = (_first_prior(side, precisions) for side in (rows, columns))
    return GaussianState(
        rows,
        columns,
        row_prior,
        column_prior,
        row_weights=Weights.zero(n_columns, 0),
        column_weights=Weights.zero(n_rows, 0),
    )


def with_weights(
    state: GaussianState, tables: Tables = NO_TABLES, *, rated_sets: bool = True
) -> GaussianState:
    """With weights of features, which are still zero, and what they make of every row."""
    rows, columns = state.rows, state.columns
    (n_rows, width), n_columns = rows.mean.shape, len(columns.mean)
    row_weights = Weights.zero(n_columns, width, tables.rows, rated_sets=rated_sets)
    column_weights = Weights.zero(n_rows, width, tables.columns, rated_sets=rated_sets)
    row_prior, column_prior = (
        prior._replace(mean=np.zeros_like(side.mean)) if weights.centre.size else prior
        for prior, side, weights in (
            (state.row_prior, rows, row_weights),
            (state.column_prior, columns, column_weights),
        )
    )
    return state._replace(
        row_prior=row_prior, column_prior=column_prior, row_weights=row_weights, column_weights=column_weights
    )


def start_with_values(
    observations: Observations, values: np.ndarray, n_factors: int, seed: int, precisions: Precisions
) -> GaussianState:
    """The same where levels stand for values, which ascend; gaps stay half-way between them."""
    # From 0 to 1 first: sums of large numbers have no room for small differences, or overflow.
    values = (values / 2 - values[0] / 2) / ((values[-1] / 2 - values[0] / 2) or 1.0)
    seen = values[observations.level]
    weight = observations.weight if observations.weight.size else None
    middle = np.average(seen, weights=weight)
    deviation = float(np.sqrt(np.average((seen - middle) ** 2, weights=weight))) or 1.0
    standard = (values - middle) / deviation
    state = start(observations, n_factors, seed, precisions._replace(gaps=np.inf))
    cutpoints = np.zeros(state.columns.cutpoints.shape[1])
    middles = 0.5 * (standard[1:] + standard[:-1])
    cutpoints[:1], cutpoints[1 : middles.size] = middles[:1], np.log(np.diff(middles))
    columns = _with_cutpoints(state.columns, np.tile(cutpoints, (len(state.columns.mean), 1)))
    return state._replace(columns=columns, values=standard.astype(np.float32))


def max_identifiable_factors(observations: Counted) -> int:
    n_both = observations.n_rows + observations.n_columns
    per_side = observations.n_entries / max(n_both, 1)
    return max(_FEWEST_FACTORS, int(per_side / _RATINGS_PER_FACTOR))


def posterior_of(
    mean: np.ndarray, variance: np.ndarray, cutpoints: np.ndarray, n_levels: np.ndarray
) -> FactorPosterior:
    return FactorPosterior(mean, variance, cutpoints, gaps_of(cutpoints), n_levels.astype(np.int32))


def _unknown(n_factors: int, cutpoints: np.ndarray, n_levels: np.ndarray) -> FactorPosterior:
    nothing = np.zeros((len(cutpoints), 1 + n_factors), dtype=np.float32)
    return posterior_of(nothing, nothing.copy(), cutpoints.copy(), n_levels)


def _with_cutpoints(posterior: FactorPosterior, cutpoints: np.ndarray) -> FactorPosterior:
    return posterior._replace(cutpoints=cutpoints, gaps=gaps_of(cutpoints))


def _first_prior(posterior: FactorPosterior, precisions: Precisions) -> Prior:
    precision = np.full(posterior.mean.shape[1], precisions.factors, dtype=np.float32)
    precision[0] = precisions.bias
    gaps = np.full(posterior.cutpoints.shape[1], precisions.gaps)
    nothing = np.zeros((len(posterior.mean), 0), dtype=np.float32)
    return Prior(precision, posterior.cutpoints.copy(), gaps, nothing)


# ---- one epoch --------------------------------------------------------------------------------


class Data(NamedTuple):
    """The same ratings as rows and as columns see them, and the scales' numbers of levels."""

    rows: View
    columns: View
    scales: np.ndarray
    bins: BinViews | None = None  # of ratings in the order of time, if biases of rows drift

    def with_offsets(self, drift: Path) -> Self:
        """The same with the drift in the means of all ratings."""
        if self.bins is None:
            return self
        rows, columns = (
            view._replace(answers=view.engine.with_offsets(view.answers, drift.level, bin_of))
            for view, bin_of in ((self.rows, self.bins.of_rows), (self.columns, self.bins.of_columns))
        )
        return self._replace(rows=rows, columns=columns)


def with_features_of(data: Data, state: GaussianState, tables: Tables = NO_TABLES) -> Data:
    """With what the features of both sides are; a table has the rows that are here."""
    rows, columns = data.rows, data.columns
    return data._replace(
        rows=with_features(rows, columns, state.rows, state.columns, tables.rows),
        columns=with_features(columns, rows, state.columns, state.rows, tables.columns),
    )


def on_cpu(observations: Observations, time: np.ndarray | None = None) -> Data:
    rows, columns = (View(view, CPU_ENGINE) for view in (observations, observations.transpose()))
    bins = None if time is None else BinViews.of(observations, time)
    return Data(rows, columns, np.unique(observations.n_levels), bins)


class _Epoch(NamedTuple):
    """What an epoch does: whether priors of factors stay weak, and whether gaps are updated."""

    is_weak: bool
    moves_gaps: bool
    is_point: bool


def epoch(data: Data, state: GaussianState, number: int, is_point: bool = False) -> GaussianState:
    """Rows given the columns, columns given the rows; what was given may be changed in place.

    ``number`` counts epochs from 1.
    """
    how = _Epoch(number <= _EPOCHS_WITH_FIXED_PRIORS, number % _EPOCHS_PER_GAPS == 1, is_point)
    data = data.with_offsets(state.drift)
    state = _half(data.rows, data.columns, _in_units_of_noise(data.rows, state), how)
    state = swapped(_half(data.columns, data.rows, swapped(state), how))
    if data.bins is not None and not how.is_weak:
        state = _with_drift(data, state)
    return _centred_values(state) if state.values.size else _with_common_cutpoints(data, state)


def _with_drift(data: Data, state: GaussianState) -> GaussianState:
    """Levels of the drift once more, given the rest."""
    assert data.bins is not None
    view, bins = data.rows, data.bins.bins
    pulls = view.engine.bin_pulls(view.answers, state.rows, state.columns, data.bins)
    total = pulls + bins.n_answers * state.drift.level.astype(np.float64)
    drift, variance = smoothed_path(bins, total, state.drift, view.engine.rows_among)
    return state._replace(drift=drift, drift_variance=variance)


def starting_to_drift(state: GaussianState, bins: Bins, among: Alone | Group = ALONE) -> GaussianState:
    path = first_path(bins, among)
    return state._replace(drift=path, drift_variance=np.zeros_like(path.level))


def refit_rows(data: Data, state: GaussianState, is_point: bool = False) -> GaussianState:
    """Rows once more, given the columns; nothing else moves. They are changed in place."""
    how = _Epoch(is_weak=False, moves_gaps=False, is_point=is_point)
    return state._replace(row_prior=_updated(data.rows, state, how))


def swapped(state: Any) -> Any:
    """A state, or a model of it, with rows and columns in each other's place."""
    exchanged = {
        "rows": state.columns,
        "columns": state.rows,
        "row_prior": state.column_prior,
        "column_prior": state.row_prior,
    }
    if isinstance(state, GaussianState):
        exchanged["row_weights"] = state.column_weights  # the drift stays that of the rows of before
        exchanged["column_weights"] = state.row_weights
    return state._replace(**exchanged)


def _half(view: View, other_view: View, state: GaussianState, how: _Epoch) -> GaussianState:
    """Update the rows, then rotate to the axes that suit both sides, and learn the priors."""
    this, other = state.rows, state.columns
    prior = _updated(view, state, how)
    sums, other_sums = view.engine.moments(this), other_view.engine.moments(other)
    rotation, other_rotation = view.engine.broadcast(*_rotations(sums, other_sums, how.is_point))
    this = view.engine.rotate(this, rotation)
    other = other_view.engine.rotate(other, other_rotation)
    rotated = state._replace(rows=this, columns=other, row_prior=prior)
    if how.is_point:
        return rotated
    rotated = _with_expected(view, other_view, rotated, (rotation, other_rotation), how)
    return rotated._replace(
        row_prior=_learnt_around(view, rotated.row_prior, this, sums.rotate(rotation), how),
        column_prior=_learnt_around(
            other_view, rotated.column_prior, other, other_sums.rotate(other_rotation), how
        ),
    )


def _with_expected(
    view: View, other_view: View, state: GaussianState, rotations: tuple[Rotation, Rotation], how: _Epoch
) -> GaussianState:
    """Weights of features, and what they expect of rows and columns, in the axes of these.

    Those of the rows, which have just been updated, are brought nearer to what is known of them.
    """
    weights, prior = _rotated(view, state.row_weights, state.row_prior, rotations[0])
    others, other_prior = _rotated(other_view, state.column_weights, state.column_prior, rotations[1])
    if weights.centre.size and not how.is_weak:
        weights, mean = refit_weights(view, other_view, state.rows.mean, weights, prior.mean)
        prior = prior._replace(mean=mean)
    return state._replace(
        row_prior=prior, column_prior=other_prior, row_weights=weights, column_weights=others
    )


def _rotated(view: View, weights: Weights, prior: Prior, rotation: Rotation) -> tuple[Weights, Prior]:
    if not weights.centre.size:
        return weights, prior
    there = view.engine.array(rotation.matrix.astype(np.float32), prior.mean)
    return weights.rotate(rotation.matrix, there), prior._replace(mean=prior.mean @ there)


def _learnt_around(view: View, prior: Prior, side: FactorPosterior, sums: Moments, how: _Epoch) -> Prior:
    """The prior as wide as rows are away from where they are expected, which is zero if nowhere."""
    if prior.mean.shape[1]:
        sums = view.engine.moments(side._replace(mean=side.mean - prior.mean))
    return _learnt(prior, sums, how.is_weak)


def _updated(view: View, state: GaussianState, how: _Epoch) -> Prior:
    """Update the rows in place; returns their prior with what their gaps say, if they moved."""
    this, prior, swept = state.rows, state.row_prior, state.row_prior
    options: dict[str, Any] = {"spread": not how.is_point}
    if state.values.size:
        options["values"] = state.values
    if not how.moves_gaps:
        swept = prior._replace(cutpoints_precision=np.full_like(prior.cutpoints_precision, np.inf))
    cutpoints_variance = view.engine.half_sweep(view.answers, this, state.columns, swept, **options)
    if how.is_point or not how.moves_gaps:
        return prior
    n, squares = view.engine.cutpoint_squares(this, prior, cutpoints_variance)
    found = (n + 1.0) / (squares + _PRIOR_SQUARE)
    return prior._replace(cutpoints_precision=_kept_if_fixed(prior.cutpoints_precision, found))


def _rotations(this: Moments, other: Moments, is_point: bool) -> tuple[Rotation, Rotation]:
    """Rotations to the axes that suit both sides; they change no product.

    The mean of this side's factors goes into the other's biases: priors are around zero. The priors
    of points stay, so that only axes may change with them.
    """
    width = this.total.size
    rotation, other_rotation = Rotation.none(width), Rotation.none(width)
    if is_point:
        axes = np.linalg.eigh(_second_moment(this))[1]
        return rotation.then(axes), other_rotation.then(axes)
    centre = this.total[1:] / max(this.n, 1)
    rotation.shift[1:] = -centre
    other_rotation.matrix[1:, 0] = centre
    forward, backward = _axes(
        _second_moment(this.rotate(rotation)), _second_moment(other.rotate(other_rotation))
    )
    return rotation.then(forward), other_rotation.then(backward)


def _second_moment(sums: Moments) -> np.ndarray:
    return (sums.products + np.diag(sums.variance))[1:, 1:] / max(sums.n, 1)


def _axes(this: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maps of both sides' factors to axes in which they are uncorrelated and as large.

    Products do not change, but priors with a precision per factor fit best in these axes, and
    half-sweeps alone would rotate there very slowly (Luttinen and Ilin 2010).
    """
    values, axes = np.linalg.eigh(this)
    root = np.sqrt(_raised(values))
    spread, turn = np.linalg.eigh(root[:, None] * (axes.T @ other @ axes) * root)
    size = _raised(spread[::-1]) ** 0.25
    turn = turn[:, ::-1]
    return (axes / root) @ turn * size, (axes * root) @ turn / size


def _raised(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, values.max(initial=0.0) * _NO_DIRECTION + 1e-300)


def _learnt(prior: Prior, sums: Moments, is_weak: bool) -> Prior:
    """With the most likely precisions; while they are weak, only that of the bias."""
    squares = np.diag(sums.products) + _VARIANCE_INFLATION * sums.variance
    found = (sums.n + 1.0) / (squares + _PRIOR_SQUARE)
    if is_weak:
        found[1:] = prior.precision[1:]
    return prior._replace(precision=_kept_if_fixed(prior.precision, found).astype(np.float32))


def _kept_if_fixed(precision: np.ndarray, found: np.ndarray) -> np.ndarray:
    return np.where(np.isinf(precision), precision, found)


def _with_common_cutpoints(data: Data, state: GaussianState) -> GaussianState:
    """Update the common cutpoints of each scale, and move into them what all biases share.

    What all rows have in common belongs to the columns, so that a row of zeros is the average one.
    Distributions stay as they are.
    """
    rows, columns, column_prior = state.rows, state.columns, state.column_prior
    of_rows, of_columns = data.rows.engine, data.columns.engine
    bias, cutpoints = of_rows.shares(rows).means()
    of_rows.shift(rows, -bias, -cutpoints)
    of_columns.shift(columns, 0.0, cutpoints - _first(bias, cutpoints))
    for n_levels in data.scales:
        bias, cutpoints = of_columns.shares(columns, n_levels).means()
        first = _first(bias, cutpoints)
        of_columns.shift(columns, -bias, -first, n_levels)
        of_columns.set_cutpoint_prior_mean(column_prior, columns, cutpoints - first, n_levels)
    return state


def _first(value: float, cutpoints: np.ndarray) -> np.ndarray:
    """A number as the first of so many cutpoints, the others zero."""
    return np.append(value, np.zeros(cutpoints.size - 1))


# ---- levels that stand for values -------------------------------------------------------------


def _in_units_of_noise(view: View, state: GaussianState) -> GaussianState:
    """The same in other units, so that values have variance one around their means."""
    if not state.values.size or not view.answers.n_entries:
        return state
    error = view.engine.squared_error(view.answers, state.rows, state.columns, state.values)
    noise = max(error / view.answers.total_weight, _LEAST_NOISE * state.unit**2)
    per_unit = noise**-0.5
    rows, columns = (_rescaled(side, per_unit) for side in (state.rows, state.columns))
    row_prior, column_prior = (
        _rescaled_prior(prior, per_unit) for prior in (state.row_prior, state.column_prior)
    )
    return state._replace(
        rows=rows,
        columns=columns,
        row_prior=row_prior,
        column_prior=column_prior,
        values=(state.values * per_unit).astype(np.float32),
        unit=state.unit * per_unit,
    )


def _rescaled(posterior: FactorPosterior, times: float) -> FactorPosterior:
    """Biases and thresholds times a number; both sides' factors share it."""
    of_mean = np.full(posterior.mean.shape[1], times**0.5, dtype=np.float32)
    of_mean[0] = times
    cutpoints = posterior.cutpoints.copy()
    if cutpoints.any():  # those of rows are none
        cutpoints[:, 0] *= times
        cutpoints[:, 1:] += np.log(times)
    return _with_cutpoints(
        posterior._replace(mean=posterior.mean * of_mean, variance=posterior.variance * of_mean**2), cutpoints
    )


def _rescaled_prior(prior: Prior, times: float) -> Prior:
    precision = prior.precision / np.float32(times)
    precision[0] /= times
    return prior._replace(precision=precision)


def _centred_values(state: GaussianState) -> GaussianState:
    """Move into values and thresholds what all biases share."""
    bias = float(sum(side.mean[:, 0].mean() for side in (state.rows, state.columns) if len(side.mean)))
    for side in (state.rows, state.columns):
        if len(side.mean):
            side.mean[:, 0] -= side.mean[:, 0].mean()
    columns = state.columns
    columns.cutpoints[:, 0] -= bias
    return state._replace(
        columns=_with_cutpoints(columns, columns.cutpoints),
        values=(state.values - np.float32(bias)).astype(np.float32),
    )

"""A Gibbs sampler of ordinal factors: all that is not known is drawn, sweep after sweep.

    u_di ~ N(b_d + b_i + p_d · q_i, 1),    level l where θ_l−1 < u_di / (k_d j_i) ≤ θ_l

(b, p)_d ~ N(m + Bᵀ x_d, Λ⁻¹) with a full precision matrix; x_d are features of the row, and the
same holds for columns. Λ and m have a Normal-Wishart prior, B a Gaussian one with precision λ ⊗ Λ
(Simm et al. 2017), log widths k and j a Gaussian one around zero, thresholds one around where they
start.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.drift import NO_PATH, BinViews, Path, drawn_path
from ordinalrbm.engine.ordinal_gibbs import CPU_GIBBS, DrawnSide, GibbsEngine, Sweep
from ordinalrbm.engine.rated_sets import FeatureTable, RatedSets, WeightDraws
from ordinalrbm.engine.side import Array
from ordinalrbm.matrix.feature_priors import NO_TABLES, Tables
from ordinalrbm.matrix.variational import GaussianState

# Of the Normal-Wishart prior: expected variance of a coordinate, degrees of freedom beyond the
# number of coordinates, and how many rows the mean is worth.
_PRIOR_VARIANCE, _PRIOR_DEGREES, _PRIOR_ROWS = 0.1, 30.0, 1.0
# Of the Gamma priors of precisions: shape, and rate. Widths e times the average are rare.
_WIDTH_PRIOR, _RIDGE_PRIOR = (3.0, 0.15), (2.0, 2.0)
# λ in the first sweep, rather too small: from above it is slow to come down.
_FIRST_RIDGE = 0.3
# Standard deviations of the prior of thresholds: of the first, and of the log gaps.
_FIRST_THRESHOLD, _LOG_GAP = 2.0, 1.0


# Of draws of utilities for the drift; those for rows are 0, for columns 1, for new rows up to 7.
_OF_DRIFT = 15
# Widths and thresholds change slowly, and are drawn in every so manyth sweep.
_EVERY_WIDTHS, _EVERY_THRESHOLDS = 4, 4


class Hyper(NamedTuple):
    """What is drawn for a side as a whole."""

    mean: np.ndarray  # (1 + F,)
    precision: np.ndarray  # (1 + F, 1 + F)
    weights: list[Array]  # (features, 1 + F), B, for each kind of features
    ridge: list[float]  # λ of each
    width_precision: float


class SampledState(NamedTuple):
    """Everything that is drawn, as it is after a sweep."""

    rows: DrawnSide
    columns: DrawnSide
    row_hyper: Hyper
    column_hyper: Hyper
    cutpoints: np.ndarray  # (scales, L − 1): first threshold and log gaps
    log_likelihood: float = np.nan  # per rating, of those learnt from, when last looked at
    drift: Path = NO_PATH  # of the biases of rows


class Scales(NamedTuple):
    """Where thresholds are drawn towards, and which columns are on which scale."""

    centre: np.ndarray  # (scales, L − 1)
    n_levels: np.ndarray  # of each scale
    of_columns: np.ndarray  # (columns,) int32


class SampledData(NamedTuple):
    """Ratings as both sides see them.

    Answers and features are in the form of the engine.
    """

    engine: GibbsEngine
    answers: Any
    transposed: Any
    row_features: list[Any]
    column_features: list[Any]
    n_answers: int
    scales: Scales
    bins: BinViews | None = None  # of answers in the order of time, if biases of rows drift

    def with_offsets(self, drift: Path) -> SampledData:
        """The same with the drift in the means of all answers."""
        if self.bins is None:
            return self
        level, with_offsets = drift.level, self.engine.with_offsets
        return self._replace(
            answers=with_offsets(self.answers, level, self.bins.of_rows),
            transposed=with_offsets(self.transposed, level, self.bins.of_columns),
        )


def sweep(data: SampledData, state: SampledState, number: int, seed: int, *, settling: bool) -> SampledState:
    """Draw everything once, given all else; ``number`` counts sweeps from 1."""
    rng = np.random.default_rng([seed, number])
    data = data.with_offsets(state.drift)
    bounds = data.engine.array(bounds_of(state.cutpoints, data.scales.n_levels), state.rows.factors)
    rows = _View(data.engine, data.answers, data.row_features, bounds)
    columns = _View(data.engine, data.transposed, data.column_features, bounds)
    row_hyper = _half(rows, state.rows, state.columns, state.row_hyper, Sweep(seed, number, 0), rng)
    column_hyper = _half(columns, state.columns, state.rows, state.column_hyper, Sweep(seed, number, 1), rng)
    state = state._replace(row_hyper=row_hyper, column_hyper=column_hyper)
    if data.bins is not None:
        sides = state.rows, state.columns, bounds
        left = data.engine.bin_sums(data.answers, *sides, data.bins, Sweep(seed, number, _OF_DRIFT))
        state = state._replace(drift=drawn_path(data.bins.bins, left, state.drift, rng))
        data = data.with_offsets(state.drift)
    if number % _EVERY_THRESHOLDS == 1:
        state = _moved_thresholds(data, state, rng, settling=settling)
    return _common_width(data, state, rng)


class _View(NamedTuple):
    """What a half of a sweep sees besides the rows."""

    engine: GibbsEngine
    answers: Any
    features: list[Any]
    bounds: Array


def _half(
    view: _View, this: DrawnSide, other: DrawnSide, hyper: Hyper, which: Sweep, rng: np.random.Generator
) -> Hyper:
    """Rows, in place, and what is drawn for them as a whole."""
    engine, like = view.engine, this.factors
    by_features = expected_by(view.features, hyper.weights, like)
    expected = by_features + engine.array(hyper.mean, like)
    precision = engine.array(hyper.precision, like)
    engine.draw_rows(view.answers, this, other, view.bounds, expected, precision, which)
    hyper = _drawn_mean(engine, hyper, like - by_features, rng)
    hyper = _drawn_weights(view, hyper, like - by_features, which, rng)
    if which.number % _EVERY_WIDTHS == 2:
        engine.move_widths(view.answers, this, other, view.bounds, hyper.width_precision, which)
        _, squares = engine.log_widths(this)
        shape, rate = _WIDTH_PRIOR
        found = rng.gamma(shape + 0.5 * len(this.width)) / (rate + 0.5 * squares)
        hyper = hyper._replace(width_precision=found)
    return hyper


def expected_by(features: list[Any], weights: list[Array], like: Array) -> Array:
    """(rows, 1 + F): what features of all kinds add to the mean of rows, which are like these."""
    found = 0.0 * like
    for kind, own in zip(features, weights, strict=True):
        found = found + kind.times(own)
    return found


# ---- hyperparameters --------------------------------------------------------------------------


def _drawn_mean(engine: GibbsEngine, hyper: Hyper, left: Array, rng: np.random.Generator) -> Hyper:
    """Mean and precision of rows, given what their features leave of them."""
    n, total, products = engine.row_sums(left)
    width, middle = total.size, total / max(n, 1)
    scatter = prior_scatter(width) + products - n * np.outer(middle, middle)
    scatter += n * _PRIOR_ROWS / (n + _PRIOR_ROWS) * np.outer(middle, middle)
    degrees = width + _PRIOR_DEGREES + n
    for weights, ridge in zip(hyper.weights, hyper.ridge, strict=True):
        of_weights = engine.row_sums(weights)
        scatter += ridge * of_weights.products
        degrees += of_weights.n
    precision = _wishart(scatter, degrees, rng)
    lower = linalg.cholesky((n + _PRIOR_ROWS) * precision, lower=True)
    noise = linalg.solve_triangular(lower, rng.standard_normal(width), lower=True, trans=1)
    mean = n / (n + _PRIOR_ROWS) * middle + noise
    return hyper._replace(mean=mean, precision=precision)


def prior_scatter(width: int) -> np.ndarray:
    """Scatter of the Wishart prior."""
    return _PRIOR_VARIANCE * (_PRIOR_DEGREES - 1.0) * np.eye(width)


def _wishart(scatter: np.ndarray, degrees: float, rng: np.random.Generator) -> np.ndarray:
    """A draw with the inverse of the scatter as its scale (Bartlett)."""
    width = len(scatter)
    part = np.tril(rng.standard_normal((width, width)), -1)
    part[np.diag_indices(width)] = np.sqrt(rng.chisquare(degrees - np.arange(width)))
    # With scatter = L Lᵀ the scale is L⁻ᵀ L⁻¹.
    lower = linalg.cholesky(scatter, lower=True)
    half = linalg.solve_triangular(lower, part, lower=True, trans=1)
    return half @ half.T


def _drawn_weights(view: _View, hyper: Hyper, left: Array, which: Sweep, rng: np.random.Generator) -> Hyper:
    """Weights of the features, in coordinates in which what they do not explain is white noise."""
    engine, lower = view.engine, linalg.cholesky(hyper.precision, lower=True)
    whiten, colour = (engine.array(part, left) for part in (lower, np.linalg.inv(lower)))
    left = (left - engine.array(hyper.mean, left)) @ whiten
    shape, rate = _RIDGE_PRIOR
    weights, ridges = [], []
    for number, (kind, own, ridge) in enumerate(zip(view.features, hyper.weights, hyper.ridge, strict=True)):
        draws = WeightDraws(which.seed, which.number, which.kind + 8 * number)
        white, left = kind.draw_weights(own @ whiten, left, ridge, draws)
        squares = float(np.trace(engine.row_sums(white).products))
        n = white.shape[0] * white.shape[1]
        ridges.append(rng.gamma(shape + 0.5 * n) / (rate + 0.5 * squares))
        weights.append(white @ colour)
    return hyper._replace(weights=weights, ridge=ridges)


# ---- thresholds -------------------------------------------------------------------------------


def bounds_of(cutpoints: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """(scales, L + 1) float32 from −∞ to ∞."""
    n_scales, width = cutpoints.shape
    bounds = np.full((n_scales, width + 2), np.inf)
    bounds[:, 0] = -np.inf
    inner = np.cumsum(np.hstack([cutpoints[:, :1], np.exp(cutpoints[:, 1:])]), axis=1)
    bounds[:, 1:-1] = np.where(np.arange(width) < n_levels[:, None] - 1, inner, np.inf)
    return bounds.astype(np.float32)


class _Proposal(NamedTuple):
    log_likelihood: float
    log_posterior: float
    step: np.ndarray
    lower: np.ndarray  # Cholesky factor of the precision


def _moved_thresholds(
    data: SampledData, state: SampledState, rng: np.random.Generator, *, settling: bool
) -> SampledState:
    """Metropolis' rule for the thresholds of each scale.

    Proposals go half of Newton's step. While the chain settles they go all of it, and are taken.
    """
    here = state.cutpoints
    cutpoints = here.copy()
    for scale, n_levels in enumerate(data.scales.n_levels):
        free = slice(0, n_levels - 1)
        before = _proposal(data, state, cutpoints, scale, free)
        noise = rng.standard_normal(n_levels - 1)
        share = 1.0 if settling else 0.5
        jump = share * before.step + linalg.solve_triangular(before.lower, noise, lower=True, trans=1)
        there = cutpoints.copy()
        there[scale, free] += jump
        if settling:
            cutpoints = there
            continue
        after = _proposal(data, state, there, scale, free)
        back = -jump - 0.5 * after.step
        log_ratio = after.log_posterior - before.log_posterior + 0.5 * float(noise @ noise)
        log_ratio += np.log(np.diag(after.lower)).sum() - np.log(np.diag(before.lower)).sum()
        log_ratio -= 0.5 * float(np.square(after.lower.T @ back).sum())
        if np.log(rng.random()) < log_ratio:
            cutpoints = there
    per_rating = before.log_likelihood / max(data.n_answers, 1)
    return state._replace(cutpoints=cutpoints, log_likelihood=per_rating)


def _proposal(
    data: SampledData, state: SampledState, cutpoints: np.ndarray, scale: int, free: slice
) -> _Proposal:
    bounds = data.engine.array(bounds_of(cutpoints, data.scales.n_levels), state.rows.factors)
    sums = data.engine.threshold_sums(data.answers, state.rows, state.columns, bounds)
    own = cutpoints[scale, free]
    n = own.size
    # Slopes by thresholds become slopes by the first one and log gaps.
    change = np.tril(np.ones((n, n))) * np.append(1.0, np.exp(own[1:]))
    slope = change.T @ sums.slope[scale, 1 : n + 1]
    squares = np.diag(sums.squares[scale, 1 : n + 1, 0])
    next_to = sums.squares[scale, 1:n, 1]
    squares += np.diag(next_to, 1) + np.diag(next_to, -1)
    deviation = np.append(_FIRST_THRESHOLD, np.full(n - 1, _LOG_GAP))
    away = (own - data.scales.centre[scale, free]) / deviation
    precision = change.T @ squares @ change + np.diag(deviation**-2.0)
    slope -= away / deviation
    lower = linalg.cholesky(precision, lower=True)
    step = linalg.cho_solve((lower, True), slope)
    total = sums.log_likelihood
    return _Proposal(total, total - 0.5 * float(away @ away), step, lower)


def _common_width(data: SampledData, state: SampledState, rng: np.random.Generator) -> SampledState:
    """Move what all widths of a side have in common into the thresholds.

    Nothing that is observed tells the two apart. The common factor is drawn given all else, which
    pins the scale: widths have a prior around one.
    """
    for name in ("rows", "columns"):
        this = getattr(state, name)
        precision = getattr(state, f"{name[:-1]}_hyper").width_precision
        n, (total, _) = len(this.width), data.engine.log_widths(this)
        move = total / n + rng.standard_normal() / np.sqrt(n * precision)
        there = state.cutpoints.copy()
        there[:, 0] *= np.exp(move)
        there[:, 1:] += move
        log_ratio = move * len(there) + _log_prior(data, there) - _log_prior(data, state.cutpoints)
        if np.log(rng.random()) < log_ratio:
            width = this.width * float(np.exp(-move))
            state = state._replace(**{name: this._replace(width=width)}, cutpoints=there)
    return state


def _log_prior(data: SampledData, cutpoints: np.ndarray) -> float:
    used = np.arange(cutpoints.shape[1]) < data.scales.n_levels[:, None] - 1
    away = np.where(used, cutpoints - data.scales.centre, 0.0)
    away[:, 0] /= _FIRST_THRESHOLD
    away[:, 1:] /= _LOG_GAP
    return -0.5 * float(np.square(away).sum())


# ---- where it starts --------------------------------------------------------------------------


def scales_of(answers: Observations) -> Scales:
    """Thresholds are drawn towards the marginal ones."""
    n_levels = np.unique(answers.n_levels)
    centre = np.zeros((n_levels.size, thresholds.n_cutpoints(n_levels)))
    for scale, levels in enumerate(n_levels):
        counts = answers.level_counts(levels)[None]
        centre[scale, : levels - 1] = thresholds.at_marginals(counts, np.array([levels]))[0]
        # Around zero, so that a wider scale is wider on both sides.
        centre[scale, 0] = -0.5 * np.exp(centre[scale, 1 : levels - 1]).sum()
    return Scales(centre, n_levels, np.searchsorted(n_levels, answers.n_levels).astype(np.int32))


def prepared(
    answers: Observations, *, rated_sets: bool, tables: Tables = NO_TABLES, time: np.ndarray | None = None
) -> SampledData:
    transposed = answers.transpose()
    of_rows, of_columns = (
        _features_of(view, table, rated_sets=rated_sets)
        for view, table in zip((answers, transposed), tables, strict=True)
    )
    scales, bins = scales_of(answers), None if time is None else BinViews.of(answers, time)
    return SampledData(CPU_GIBBS, answers, transposed, of_rows, of_columns, answers.n_entries, scales, bins)


def _features_of(
    answers: Observations, table: csr_array | None, *, rated_sets: bool
) -> list[RatedSets | FeatureTable]:
    found: list[RatedSets | FeatureTable] = [RatedSets.of(answers)] if rated_sets else []
    return found if table is None else [*found, FeatureTable.of(table)]


def start(data: SampledData, found: GaussianState) -> SampledState:
    """Where a variational solution stands: its means, and its gaps as widths.

    Of the solution, arrays are the host's. Those of the chain are where ``data`` are.
    """
    rows, columns, scale = found.rows, found.columns, data.scales.of_columns
    cutpoints = data.scales.centre.copy()
    for number, levels in enumerate(data.scales.n_levels):
        common = columns.cutpoints[scale == number, 1 : levels - 1].mean(axis=0)
        cutpoints[number, 1 : levels - 1] = common
        cutpoints[number, 0] = -0.5 * np.exp(common).sum()
    log_rows = _mean_gaps(rows.cutpoints, np.full(len(rows.mean), data.scales.n_levels.max()))
    log_columns = _mean_gaps(columns.cutpoints - cutpoints[scale], columns.n_levels)
    # The first threshold was the column's, and gaps widened upwards from there.
    first, of_columns = cutpoints[0, 0], cutpoints[scale, 0]
    row_factors, column_factors = rows.mean.copy(), columns.mean.copy()
    row_factors[:, 0] += first * np.expm1(log_rows)
    column_factors[:, 0] += of_columns * np.exp(log_columns) - columns.cutpoints[:, 0]
    nothing = np.zeros(len(row_factors), dtype=np.int32)
    drawn_rows = DrawnSide(row_factors, np.exp(log_rows).astype(np.float32), nothing)
    drawn_columns = DrawnSide(column_factors, np.exp(log_columns).astype(np.float32), scale)
    drawn_rows, drawn_columns = data.engine.on_device((drawn_rows, drawn_columns), data.answers)
    row_weights, column_weights = data.engine.on_device(
        (found.row_weights.parts, found.column_weights.parts), data.answers
    )
    return SampledState(
        drawn_rows,
        drawn_columns,
        _first_hyper(data.engine, drawn_rows.factors, data.row_features, row_weights),
        _first_hyper(data.engine, drawn_columns.factors, data.column_features, column_weights),
        cutpoints,
        drift=found.drift,
    )


def _mean_gaps(cutpoints: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """Mean log gap of each, of those that its scale has."""
    used = ~thresholds.unused(n_levels, cutpoints.shape[1])[:, 1:]
    return (cutpoints[:, 1:] * used).sum(axis=1) / np.maximum(used.sum(axis=1), 1)


def _first_hyper(engine: GibbsEngine, factors: Array, features: list[Any], weights: list[Array]) -> Hyper:
    """What would be expected of these factors by the weights that were found."""
    n, total, products = engine.row_sums(factors - expected_by(features, weights, factors))
    middle = total / n
    around = products / n - np.outer(middle, middle)
    precision = np.linalg.inv(around + 0.1 * _PRIOR_VARIANCE * np.eye(middle.size))
    return Hyper(middle, precision, weights, [_FIRST_RIDGE] * len(weights), 20.0)

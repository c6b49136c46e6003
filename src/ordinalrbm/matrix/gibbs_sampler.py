"""A Gibbs sampler of ordinal factors: all that is not known is drawn, sweep after sweep.

    u_di ~ N(b_d + b_i + p_d · q_i, 1),    level l where θ_i,l−1 < u_di / (k_d j_i) ≤ θ_il

(b, p)_d ~ N(m + Bᵀ x_d, Λ⁻¹) with a full precision matrix; x_d are features of the row, and the
same holds for columns. Λ and m have a Normal-Wishart prior, B a Gaussian one with precision λ ⊗ Λ
(Simm et al. 2017), log widths k and j a Gaussian one around zero, and so has what log gaps of a column's
thresholds are larger than those of its scale. These have one around where they start.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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

# Of the Normal-Wishart prior: degrees of freedom, so that a standard deviation is half-t with these
# (Huang and Wand 2013), the scale of that, and how many rows the mean is worth.
_DEGREES, _SCALE, _PRIOR_ROWS = 30.0, 0.5, 1.0
_SCATTER_RATE = 0.5 / (_DEGREES * _SCALE**2)
# No standard deviation, of a coordinate or of log widths, is smaller: there is nothing to see any
# more, and precisions keep their digits in float32. Nor is one of log widths, or 1/√λ, larger.
_LEAST_DEVIATION, _LARGEST_DEVIATION = 0.01, 10.0
# Scale of the half-normal priors of the standard deviation of log widths, and of 1/√λ.
_WIDTH_SCALE, _RIDGE_SCALE = 0.5, 2.0
_LEAST_SCATTER = _DEGREES * _LEAST_DEVIATION**2
# What exponentials of logarithms may be off by.
_ROUNDING = 1e-9
# On longer scales columns have no gaps of their own: their ratings could hardly tell these.
_MOST_LEVELS = 32
# Coordinates of a scale: the bias, the factors.
_PARTS = (slice(0, 1), slice(1, None))
# λ and width precision in the first sweep.
_FIRST_RIDGE, _FIRST_WIDTH_PRECISION = 0.5, 20.0
# Standard deviations of the prior of thresholds: of the first, and of the log gaps.
_FIRST_THRESHOLD, _LOG_GAP = 2.0, 1.0


# Of draws of utilities for the drift; those for rows are 0, for columns 1, for new rows up to 7.
_OF_DRIFT = 15
# Widths and thresholds are drawn in every so manyth sweep where there are as many ratings as this,
# and it takes long; else in each.
_EVERY, _MANY_ANSWERS = 4, 50_000


class Hyper(NamedTuple):
    """What is drawn for a side as a whole."""

    mean: np.ndarray  # (1 + F,)
    scatter: np.ndarray  # (2,) on the diagonal of that of the Wishart prior: of biases, of factors
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
    gaps: np.ndarray  # (columns, L − 2), by which log gaps of a column are larger
    gap_precision: float = _FIRST_WIDTH_PRECISION
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
    n_answers: float  # each counted by its weight
    scales: Scales
    bins: BinViews | None = None  # of answers in the order of time, if biases of rows drift

    def with_offsets(self, drift: Path) -> SampledData:
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
    bounds = _bounds(data, state)
    turn = number % _EVERY if len(data.answers.column) >= _MANY_ANSWERS else None
    rows = _View(data.engine, data.answers, data.row_features, bounds, turn in (2, None))
    columns = _View(data.engine, data.transposed, data.column_features, bounds, turn in (2, None))
    row_hyper = _half(rows, state.rows, state.columns, state.row_hyper, Sweep(seed, number, 0), rng)
    column_hyper = _half(columns, state.columns, state.rows, state.column_hyper, Sweep(seed, number, 1), rng)
    state = state._replace(row_hyper=row_hyper, column_hyper=column_hyper)
    if data.bins is not None:
        sides = state.rows, state.columns, bounds
        left = data.engine.bin_sums(data.answers, *sides, data.bins, Sweep(seed, number, _OF_DRIFT))
        state = state._replace(drift=drawn_path(data.bins.bins, left, state.drift, rng))
        data = data.with_offsets(state.drift)
    if turn in (1, None):
        state = _moved_thresholds(data, state, rng, settling=settling)
    if turn in (1, 3, None):
        state = _moved_gaps(data, state, rng)
    return _common_width(data, state, rng)


class _View(NamedTuple):
    """What a half of a sweep sees besides the rows."""

    engine: GibbsEngine
    answers: Any
    features: list[Any]
    bounds: Array
    moves_widths: bool


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
    if view.moves_widths:
        engine.move_widths(view.answers, this, other, view.bounds, hyper.width_precision, which)
        before, (_, squares) = hyper.width_precision, engine.log_widths(this)
        found = _drawn_precision(before, len(this.width), squares, _WIDTH_SCALE, rng)
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
    """Prior, precision and mean of rows, given what their features leave of them."""
    n, total, products = engine.row_sums(left)
    width, middle = total.size, total / max(n, 1)
    found = products - n**2 / (n + _PRIOR_ROWS) * np.outer(middle, middle)
    n_found = n
    for weights, ridge in zip(hyper.weights, hyper.ridge, strict=True):
        of_weights = engine.row_sums(weights)
        found += ridge * of_weights.products
        n_found += of_weights.n
    scatter = _drawn_scatter(hyper.scatter, found, n_found, rng)
    precision = _wishart(np.diag(_diagonal(scatter, width)) + found, _DEGREES + width - 1.0 + n_found, rng)
    lower = linalg.cholesky((n + _PRIOR_ROWS) * precision, lower=True)
    noise = linalg.solve_triangular(lower, rng.standard_normal(width), lower=True, trans=1)
    mean = n / (n + _PRIOR_ROWS) * middle + noise
    return hyper._replace(mean=mean, scatter=scatter, precision=precision)


def _drawn_scatter(
    scatter: np.ndarray, found: np.ndarray, n_found: int, rng: np.random.Generator
) -> np.ndarray:
    """Scatter of the Wishart prior, with the precision integrated out; ``found`` is that of so many rows.

    Without it in the way, biases and factors soon fade where nothing is to be seen of them.
    """
    scatter, n_prior = scatter.copy(), _DEGREES + len(found) - 1.0
    for which, some in enumerate(_PARTS):
        # A determinant of the sum with a multiple of the identity: by the roots of what is left.
        other = np.delete(np.arange(len(found)), some)
        beside = found[np.ix_(other, other)] + np.eye(other.size) * scatter[1 - which]
        left = found[some, some] - found[some, other] @ np.linalg.solve(beside, found[other, some])
        roots = np.maximum(np.linalg.eigvalsh(left), 0.0)
        shape = 0.5 * (1.0 + n_prior * roots.size)

        def log_density(log_there: float, roots: np.ndarray = roots, shape: float = shape) -> float:
            there = math.exp(log_there)
            if there < _LEAST_SCATTER * (1.0 - _ROUNDING):
                return -math.inf
            of_rows = 0.5 * (n_prior + n_found) * float(np.log(roots + there).sum())
            return shape * log_there - _SCATTER_RATE * there - of_rows

        if roots.size:
            scatter[which] = math.exp(_slice_step(log_density, math.log(scatter[which]), rng))
    return scatter


def _diagonal(scatter: np.ndarray, width: int) -> np.ndarray:
    """(width,) scatter of each coordinate."""
    return np.append(scatter[0], np.full(width - 1, scatter[1]))


def _slice_step(log_density: Callable[[float], float], here: float, rng: np.random.Generator) -> float:
    """A step that leaves the density as it is: uniform where it is above a level (Neal 2003)."""
    level = log_density(here) - rng.exponential()
    low = here - rng.random()
    high = low + 1.0
    while log_density(low) > level:
        low -= 1.0
    while log_density(high) > level:
        high += 1.0
    while log_density(there := rng.uniform(low, high)) <= level:
        low, high = (there, high) if there < here else (low, there)
    return there


def _log_half_normal(log_precision: float, scale: float) -> float:
    """Log density of the logarithm of a precision, whose standard deviation is half-normal."""
    if not _LEAST_DEVIATION < math.exp(-0.5 * log_precision) < _LARGEST_DEVIATION:
        return -math.inf
    return -0.5 * log_precision - 0.5 * math.exp(-log_precision) / scale**2


def _drawn_precision(before: float, n: int, squares: float, scale: float, rng: np.random.Generator) -> float:
    """Precision of n numbers with this sum of squares, by a half-normal prior of their deviation."""

    def log_density(log_there: float) -> float:
        known = 0.5 * n * log_there - 0.5 * squares * math.exp(log_there)
        return known + _log_half_normal(log_there, scale)

    return math.exp(_slice_step(log_density, math.log(before), rng))


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
    weights, ridges = [], []
    for number, (kind, own, ridge) in enumerate(zip(view.features, hyper.weights, hyper.ridge, strict=True)):
        draws = WeightDraws(which.seed, which.number, which.kind + 8 * number)
        white, left = kind.draw_weights(own @ whiten, left, ridge, draws)
        squares = float(np.trace(engine.row_sums(white).products))
        ridge = _drawn_precision(ridge, white.shape[0] * white.shape[1], squares, _RIDGE_SCALE, rng)
        explained = kind.times(white)
        share, ridge = _scaled_ridge(engine, left, explained, ridge, rng)
        left = left + (1.0 - share) * explained
        ridges.append(ridge)
        weights.append(share * (white @ colour))
    return hyper._replace(weights=weights, ridge=ridges)


def _scaled_ridge(
    engine: GibbsEngine, left: Array, explained: Array, ridge: float, rng: np.random.Generator
) -> tuple[float, float]:
    """λ with weights that go with it, which λ given the weights would follow slowly (Yu and Meng 2011).

    Returns what they are multiplied with, and λ.
    """
    along, squares = (float(engine.row_sums(part * explained).total.sum()) for part in (left, explained))

    def log_density(log_there: float) -> float:
        less = 1.0 - math.sqrt(ridge * math.exp(-log_there))
        return _log_half_normal(log_there, _RIDGE_SCALE) - less * along - 0.5 * less**2 * squares

    there = math.exp(_slice_step(log_density, math.log(ridge), rng))
    return math.sqrt(ridge / there), there


# ---- thresholds -------------------------------------------------------------------------------


def bounds_of(cutpoints: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """(scales, L + 1) float32 from −∞ to ∞."""
    n_scales, width = cutpoints.shape
    bounds = np.full((n_scales, width + 2), np.inf)
    bounds[:, 0] = -np.inf
    inner = np.cumsum(np.hstack([cutpoints[:, :1], np.exp(cutpoints[:, 1:])]), axis=1)
    bounds[:, 1:-1] = np.where(np.arange(width) < n_levels[:, None] - 1, inner, np.inf)
    return bounds.astype(np.float32)


def own_cutpoints(
    cutpoints: np.ndarray, gaps: np.ndarray, of_columns: np.ndarray, n_levels: np.ndarray
) -> np.ndarray:
    """(columns, L − 1): first threshold and log gaps of each, around the same middle as its scale's."""
    own = cutpoints[of_columns]
    own[:, 1:] += gaps
    own[:, 0] += _middle(cutpoints, n_levels)[of_columns] - _middle(own, n_levels[of_columns])
    return own


def _middle(cutpoints: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    above = np.maximum(n_levels[:, None] - 1 - np.arange(1, cutpoints.shape[1]), 0)
    return cutpoints[:, 0] + (np.exp(cutpoints[:, 1:]) * above).sum(axis=1) / np.maximum(n_levels - 1, 1)


def _bounds(data: SampledData, state: SampledState) -> Array:
    """(columns, L + 1), on the device."""
    scales = data.scales
    own = own_cutpoints(state.cutpoints, state.gaps, scales.of_columns, scales.n_levels)
    return data.engine.array(bounds_of(own, scales.n_levels[scales.of_columns]), state.rows.factors)


class _Slopes(NamedTuple):
    """By the thresholds of each column of a scale; on a long scale, of all columns together."""

    log_likelihood: np.ndarray  # (n,)
    slope: np.ndarray  # (n, L − 1)
    squares: np.ndarray  # (n, L − 1, L − 1)
    by_gaps: np.ndarray  # (n, L − 1, L − 2) slopes of the thresholds by log gaps of the column

    def by(self, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes and their squares by what thresholds have these slopes by."""
        turned = change.transpose(0, 2, 1)
        return (turned @ self.slope[:, :, None])[:, :, 0], turned @ self.squares @ change


def _slopes(data: SampledData, state: SampledState, scale: int) -> _Slopes:
    bounds, n = _bounds(data, state), int(data.scales.n_levels[scale]) - 1
    sums = data.engine.threshold_sums(data.transposed, state.columns, state.rows, bounds)
    which = data.scales.of_columns == scale
    parts, gaps = [part[which] for part in sums], state.gaps[which, : n - 1]
    if n >= _MOST_LEVELS:
        parts, gaps = [part.sum(axis=0, keepdims=True) for part in parts], np.zeros((1, n - 1))
    log_likelihood, slope, beside = parts
    squares, at = beside[:, 1 : n + 1, :1] * np.eye(n), np.arange(n - 1)
    squares[:, at, at + 1] = squares[:, at + 1, at] = beside[:, 1:n, 1]
    by_gaps = np.tril(np.ones((n, n)))[:, 1:] * np.exp(state.cutpoints[scale, 1:n] + gaps)[:, None]
    by_gaps -= by_gaps.mean(axis=1, keepdims=True)
    return _Slopes(log_likelihood, slope[:, 1 : n + 1], squares, by_gaps)


class _Proposal(NamedTuple):
    log_likelihood: np.ndarray
    log_posterior: Any
    step: np.ndarray
    lower: np.ndarray  # Cholesky factor of the precision


def _moved_thresholds(
    data: SampledData, state: SampledState, rng: np.random.Generator, *, settling: bool
) -> SampledState:
    """Metropolis' rule for the thresholds of each scale.

    Proposals go half of Newton's step. While the chain settles they go all of it, and are taken.
    """
    total = 0.0
    for scale, n_levels in enumerate(data.scales.n_levels):
        if n_levels < 2:
            continue
        before = _proposal(data, state, scale)
        total += float(before.log_likelihood.sum())
        noise = rng.standard_normal(n_levels - 1)
        share = 1.0 if settling else 0.5
        jump = share * before.step + linalg.solve_triangular(before.lower, noise, lower=True, trans=1)
        cutpoints = state.cutpoints.copy()
        cutpoints[scale, : n_levels - 1] += jump
        there = state._replace(cutpoints=cutpoints)
        if settling:
            state = there
            continue
        after = _proposal(data, there, scale)
        back = -jump - 0.5 * after.step
        log_ratio = after.log_posterior - before.log_posterior + 0.5 * float(noise @ noise)
        log_ratio += np.log(np.diag(after.lower)).sum() - np.log(np.diag(before.lower)).sum()
        log_ratio -= 0.5 * float(np.square(after.lower.T @ back).sum())
        if np.log(rng.random()) < log_ratio:
            state = there
    return state._replace(log_likelihood=total / max(data.n_answers, 1))


def _proposal(data: SampledData, state: SampledState, scale: int) -> _Proposal:
    slopes = _slopes(data, state, scale)
    n = slopes.slope.shape[1]
    own = state.cutpoints[scale, :n]
    # All thresholds move with the first, and what a gap adds to their mean is that of the scale.
    change = np.pad(slopes.by_gaps, ((0, 0), (0, 0), (1, 0)), constant_values=1.0)
    change[:, :, 1:] += np.exp(own[1:]) * np.arange(n - 1, 0, -1) / n
    slope, squares = (part.sum(axis=0) for part in slopes.by(change))
    deviation = np.append(_FIRST_THRESHOLD, np.full(n - 1, _LOG_GAP))
    away = (own - data.scales.centre[scale, :n]) / deviation
    lower = linalg.cholesky(squares + np.diag(deviation**-2.0), lower=True)
    step = linalg.cho_solve((lower, True), slope - away / deviation)
    total = float(slopes.log_likelihood.sum())
    return _Proposal(slopes.log_likelihood, total - 0.5 * float(away @ away), step, lower)


def _moved_gaps(data: SampledData, state: SampledState, rng: np.random.Generator) -> SampledState:
    """Metropolis' rule for the log gaps of each column, and what all of them have in common.

    A proposal is Newton's step and noise of the posterior's size, as if it were Gaussian.
    """
    for scale, n_levels in enumerate(data.scales.n_levels):
        which, n = np.flatnonzero(data.scales.of_columns == scale), int(n_levels) - 2
        if not 2 < n_levels <= _MOST_LEVELS:
            continue
        before = _gap_proposal(data, state, scale)
        noise = rng.standard_normal((which.size, n))
        jump = before.step + np.linalg.solve(before.lower.transpose(0, 2, 1), noise[:, :, None])[:, :, 0]
        gaps = state.gaps.copy()
        gaps[which, :n] += jump
        after = _gap_proposal(data, state._replace(gaps=gaps), scale)
        back = np.einsum("cba,cb->ca", after.lower, -jump - after.step)
        log_ratio = after.log_posterior - before.log_posterior
        log_ratio += 0.5 * (np.square(noise) - np.square(back)).sum(axis=1)
        for part, sign in ((after.lower, 1.0), (before.lower, -1.0)):
            log_ratio += sign * np.log(np.diagonal(part, axis1=1, axis2=2)).sum(axis=1)
        refused = np.log(rng.random(which.size)) >= log_ratio
        gaps[which[refused]] = state.gaps[which[refused]]
        state = _common_gaps(data, state._replace(gaps=gaps), scale, rng)
    n_own = np.where(data.scales.n_levels > _MOST_LEVELS, 0, np.maximum(data.scales.n_levels - 2, 0))
    n_gaps, squares = int(n_own[data.scales.of_columns].sum()), float(np.square(state.gaps).sum())
    found = _drawn_precision(state.gap_precision, n_gaps, squares, _WIDTH_SCALE, rng)
    return state._replace(gap_precision=found)


def _gap_proposal(data: SampledData, state: SampledState, scale: int) -> _Proposal:
    slopes, precision = _slopes(data, state, scale), state.gap_precision
    slope, squares = slopes.by(slopes.by_gaps)
    own = state.gaps[data.scales.of_columns == scale, : slope.shape[1]]
    squares += precision * np.eye(slope.shape[1])
    step = np.linalg.solve(squares, (slope - precision * own)[:, :, None])[:, :, 0]
    log_posterior = slopes.log_likelihood - 0.5 * precision * np.square(own).sum(axis=1)
    return _Proposal(slopes.log_likelihood, log_posterior, step, np.linalg.cholesky(squares))


def _common_gaps(
    data: SampledData, state: SampledState, scale: int, rng: np.random.Generator
) -> SampledState:
    """Move what log gaps of columns have in common into the scale; no threshold changes."""
    which, n = data.scales.of_columns == scale, int(data.scales.n_levels[scale]) - 2
    own = state.gaps[which, :n]
    move = own.mean(axis=0) + rng.standard_normal(n) / np.sqrt(len(own) * state.gap_precision)
    cutpoints, gaps = state.cutpoints.copy(), state.gaps.copy()
    gaps[which, :n] -= move
    cutpoints[scale, 1 : n + 1] += move
    before, after = (_middle(each, data.scales.n_levels)[scale] for each in (state.cutpoints, cutpoints))
    cutpoints[scale, 0] += before - after
    if np.log(rng.random()) < _log_prior(data, cutpoints) - _log_prior(data, state.cutpoints):
        state = state._replace(cutpoints=cutpoints, gaps=gaps)
    return state


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
        there, log_ratio = _widened(data, state.cutpoints, move)
        if np.log(rng.random()) < log_ratio:
            width = this.width * float(np.exp(-move))
            state = state._replace(**{name: this._replace(width=width)}, cutpoints=there)
    return state


def _widened(data: SampledData, cutpoints: np.ndarray, move: float) -> tuple[np.ndarray, float]:
    """All thresholds multiplied by e to this, and the log ratio of the prior there and here."""
    there = cutpoints.copy()
    there[:, 0] *= math.exp(move)
    there[:, 1:] += move
    return there, move * len(there) + _log_prior(data, there) - _log_prior(data, cutpoints)


def _log_prior(data: SampledData, cutpoints: np.ndarray) -> float:
    used = np.arange(cutpoints.shape[1]) < data.scales.n_levels[:, None] - 1
    away = np.where(used, cutpoints - data.scales.centre, 0.0)
    away[:, 0] /= _FIRST_THRESHOLD
    away[:, 1:] /= _LOG_GAP
    return -0.5 * float(np.square(away).sum())


# ---- where it starts --------------------------------------------------------------------------


def placed(data: SampledData, state: SampledState) -> SampledState:
    """A state of the host's with rows, columns and weights where ``data`` are; all else stays."""
    engine, answers = data.engine, data.answers
    rows, columns = engine.on_device((state.rows, state.columns), answers)
    of_rows, of_columns = (
        hyper._replace(weights=engine.on_device(hyper.weights, answers))
        for hyper in (state.row_hyper, state.column_hyper)
    )
    return state._replace(rows=rows, columns=columns, row_hyper=of_rows, column_hyper=of_columns)


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
    n_answers = answers.total_weight
    return SampledData(CPU_GIBBS, answers, transposed, of_rows, of_columns, n_answers, scales, bins)


def _features_of(
    answers: Observations, table: csr_array | None, *, rated_sets: bool
) -> list[RatedSets | FeatureTable]:
    found: list[RatedSets | FeatureTable] = [RatedSets.of(answers)] if rated_sets else []
    return found if table is None else [*found, FeatureTable.of(table)]


def start(data: SampledData, found: GaussianState, seed: int = 0) -> SampledState:
    """A draw from a variational solution, and its gaps as widths.

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
    rng = np.random.default_rng(seed)
    row_factors, column_factors = (
        side.mean + np.sqrt(side.variance) * rng.standard_normal(side.mean.shape, dtype=np.float32)
        for side in (rows, columns)
    )
    row_factors[:, 0] += first * np.expm1(log_rows)
    column_factors[:, 0] += of_columns * np.exp(log_columns) - columns.cutpoints[:, 0]
    nothing = np.zeros(len(row_factors), dtype=np.int32)
    drawn_rows = DrawnSide(row_factors, np.exp(log_rows).astype(np.float32), nothing)
    every = np.arange(len(scale), dtype=np.int32)
    drawn_columns = DrawnSide(column_factors, np.exp(log_columns).astype(np.float32), every)
    gaps = (columns.cutpoints - cutpoints[scale])[:, 1:] - log_columns[:, None]
    gaps[thresholds.unused(data.scales.n_levels[scale], cutpoints.shape[1])[:, 1:]] = 0.0
    gaps[data.scales.n_levels[scale] > _MOST_LEVELS] = 0.0
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
        gaps,
        drift=found.drift,
    )


def _mean_gaps(cutpoints: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    used = ~thresholds.unused(n_levels, cutpoints.shape[1])[:, 1:]
    return (cutpoints[:, 1:] * used).sum(axis=1) / np.maximum(used.sum(axis=1), 1)


def _first_hyper(engine: GibbsEngine, factors: Array, features: list[Any], weights: list[Array]) -> Hyper:
    """What would be expected of these factors by the weights that were found."""
    n, total, products = engine.row_sums(factors - expected_by(features, weights, factors))
    middle = total / n
    around = products / n - np.outer(middle, middle)
    variance = np.append(around[0, 0], np.diag(around)[1:].mean() if middle.size > 1 else 0.0)
    scatter = _DEGREES * variance + _LEAST_SCATTER
    precision = np.linalg.inv(around + 0.01 * np.eye(middle.size))
    ridges = [_FIRST_RIDGE] * len(weights)
    return Hyper(middle, scatter, precision, weights, ridges, _FIRST_WIDTH_PRECISION)

"""Where learning starts: thresholds at the marginal quantiles, weights from the correlations.

For answers that differ by degrees, the model is close to a factor model of the utilities, and that
one can be had from an eigendecomposition of their polychoric correlations. Starting there saves
most of the epochs; learning then finds what is not Gaussian. In units of the utilities' own noise,
a direction along which their variance is λ > 1 needs units with Σ w² = 4 (1 − 1/λ).

With few rows, chance looks like structure. Three things are done about it. Correlations shrink by
what their errors ask for. For the noise of a column, what a regression on all others leaves of it,
they shrink further, since such a regression explains chance as well: as if there had been as
many uncorrelated rows more as there are columns. And eigenvalues that chance alone could have are
left out; the others become the variance to be expected along their eigenvectors.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.stats import norm

from ordinalrbm.data.observations import Observations, count_levels
from ordinalrbm.engine import thresholds
from ordinalrbm.stats import polychoric
from ordinalrbm.vector import regression
from ordinalrbm.vector.model import Layout, VectorModel, in_columns, layout_of

# Beyond so many columns the correlation matrix is not worth its memory.
_MAX_COLUMNS = 2000
# More rows hardly add anything; tables of counts cost rows × columns².
_MAX_ROWS = 100_000
_ENOUGH_ROWS = 10_000
_MAX_WORK = 10**9
# Size of the random part, without which equal factors would stay equal; relative to weights that
# would explain all variance.
_RANDOM = 0.1
# Columns that follow from each other, such as yes or no to each of three countries, would have next
# to none; factors would then be coupled so strongly that the noise of a few steps tips them over.
_LEAST_NOISE = 0.15
# Numbers are pooled as long scales are, for correlations.
_TENTHS = np.arange(1, 10) / 10.0
_LARGEST = 0.97


class _Structure(NamedTuple):
    """Covariance of the utilities in units of their noise: one, but for some directions."""

    directions: np.ndarray  # (N, k), orthonormal
    variance: np.ndarray  # (k,) along each of them, larger than one, falling


def by_weight(observations: Observations, row_weight: np.ndarray | None) -> Observations:
    """Return as many rows, each as often as it weighs, so that counts in them are weighted."""
    if row_weight is None:
        return observations
    upto = np.cumsum(row_weight, dtype=np.float64)
    evenly = (np.arange(observations.n_rows) + 0.5) / observations.n_rows
    return observations.take_rows(np.searchsorted(upto, evenly * upto[-1]))


def initial_model(
    observations: Observations,
    n_factors: int,
    units: int,
    seed: int,
    *,
    by_correlations: bool = True,
    at_marginals: bool = True,
    balanced: bool = True,
    slope_precision: float = 0.0,
) -> VectorModel:
    """Return the model to start learning from.

    Half of the units are on at first, so a balanced bias takes half of the weights back: each
    answer starts with its own marginal distribution, unless thresholds are to be evenly spaced.
    Without the correlations all weights are small and random.
    """
    kind, covariates = observations.kind, observations.covariates
    plan = layout_of(kind, observations.n_levels)
    columns = _as_scales(observations, plan)
    n_levels = columns.levels.n_levels
    marginals = thresholds.at_marginals(count_levels(columns.levels), n_levels)
    slopes = np.zeros((n_levels.size, covariates.shape[1]))
    if covariates.size:
        bounds = thresholds.table(marginals, n_levels)
        slopes = regression.column_slopes(
            columns.levels, columns.number, bounds, plan, covariates, slope_precision
        )
    cutpoints = marginals if at_marginals else thresholds.even(n_levels)
    bounds = thresholds.table(cutpoints, n_levels)
    between = _between(slopes, covariates, columns.share, plan)
    rng = np.random.default_rng(seed)
    structure = _Structure(np.zeros((n_levels.size, 0)), np.zeros(0))
    if by_correlations and 1 < n_levels.size <= _MAX_COLUMNS and observations.n_entries:
        structure = _structure(columns, plan, bounds, between, n_factors, units)
    weights = _spread_over_units(structure, n_factors, units, rng)
    spread = np.sqrt(1.0 + structure.directions**2 @ (structure.variance - 1.0))
    whole = spread * np.sqrt(1.0 + np.diag(between))
    cutpoints[:, 0] *= whole
    cutpoints[:, 1:] += np.log(whole)[:, None]
    weights[n_levels < 2] = 0.0  # a column with one level says nothing, and must stay silent
    bias = np.zeros(n_levels.size)
    if kind.size:
        cutpoints, bias = _of_kinds(plan, cutpoints, columns.share, whole)
        weights[plan.is_category] /= _deviation(columns.share[plan.is_category])[:, None]
    model = VectorModel(
        weights=weights.astype(np.float32),
        bias=(bias - balanced * 0.5 * units * weights.sum(axis=1)).astype(np.float32),
        factor_bias=np.zeros(n_factors, dtype=np.float32),
        cutpoints=cutpoints,
        n_levels=observations.n_levels,
        units=units,
        kind=kind,
    )
    if not covariates.size:
        return model
    slopes[~plan.is_category] *= spread[~plan.is_category, None]
    return _with_slopes(model, slopes, columns, covariates, slope_precision)


class _Scales(NamedTuple):
    """Answers by columns, all on scales, and the number of each answer that is one, else NaN.

    ``share`` is how often each column's upper level of two was given: of categories, how often
    they were chosen.
    """

    levels: Observations
    number: np.ndarray
    share: np.ndarray


def _as_scales(observations: Observations, plan: Layout) -> _Scales:
    """Numbers on a scale of ten, as many answers on each level, and categories as yes or no."""
    if not observations.kind.size:
        nothing = np.full(observations.n_entries if observations.covariates.size else 0, np.nan)
        return _Scales(observations, nothing, np.zeros(observations.n_columns))
    found, known = in_columns(observations, plan, 0)
    level, n_levels = found.level.astype(np.int16), plan.n_levels.copy()
    is_category = plan.is_category[found.column]
    level[is_category] = known[is_category]
    n_levels[plan.is_category] = 2
    for i in np.flatnonzero(plan.is_number):
        own = found.column == i
        ends = np.unique(np.quantile(known[own], _TENTHS)) if own.any() else np.zeros(0)
        level[own] = np.searchsorted(ends, known[own], side="left")
        n_levels[i] = ends.size + 1
    chosen = np.bincount(found.column[is_category], known[is_category], minlength=n_levels.size)
    given = np.bincount(found.column, minlength=n_levels.size)
    share = (chosen + 0.5) / (given + 0.5 * np.maximum(np.diff(plan.first)[plan.question], 2))
    levels = Observations(found.row_start, found.column, level, n_levels)
    return _Scales(levels, np.where(plan.is_number[found.column], known, np.nan), share)


def _deviation(share: np.ndarray) -> np.ndarray:
    """Standard deviation of choosing a category."""
    return np.sqrt(share * (1.0 - share))


def _of_kinds(
    plan: Layout, cutpoints: np.ndarray, share: np.ndarray, whole: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cutpoints of the scales with logarithms of the scales of numbers, and the biases."""
    result = cutpoints[:, : thresholds.n_cutpoints(plan.n_levels)].copy()
    result[plan.is_category | plan.is_number] = 0.0
    result[plan.is_number, 0] = np.log(whole[plan.is_number])
    bias = np.where(plan.is_category, np.log(np.where(plan.is_category, share, 1.0)), 0.0)
    return result, bias


def _between(slopes: np.ndarray, covariates: np.ndarray, share: np.ndarray, plan: Layout) -> np.ndarray:
    """(N', N') covariance of the utilities that comes from the covariates, where one is left within."""
    if not covariates.size:
        return np.zeros((len(slopes), len(slopes)))
    own = slopes.copy()
    for _, columns in plan.nominal:
        own[columns] -= share[columns] @ own[columns] / share[columns].sum()
        own[columns] *= _deviation(share[columns])[:, None]
    return own @ np.atleast_2d(np.cov(covariates.T, bias=True)) @ own.T


def _with_slopes(
    model: VectorModel, slopes: np.ndarray, columns: _Scales, covariates: np.ndarray, precision: float
) -> VectorModel:
    view = columns.levels.column_view
    squares = covariates.astype(np.float64) ** 2
    of_column = np.split(view.row, view.column_start[1:-1])
    informed = np.stack([squares[rows].sum(axis=0) for rows in of_column])
    variance = np.where(model.layout.is_category, _deviation(columns.share) ** 2, 1.0)
    weights = model.weights.astype(np.float64)
    covariance = regression.factor_covariance(weights, variance, model.units)
    # Utilities were scaled already; categories have log odds, which are smaller without factors.
    spread = regression.category_spread(weights, columns.share, covariance, model.layout)
    slopes = slopes * spread[:, None]
    own, of_factors = regression.shared(slopes, weights, variance, informed, model.units, precision)
    return model._replace(slopes=own.astype(np.float32), factor_slopes=of_factors.astype(np.float32))


def _structure(
    columns: _Scales, plan: Layout, bounds: np.ndarray, between: np.ndarray, n_factors: int, units: int
) -> _Structure:
    n_columns = columns.levels.n_columns
    found = polychoric.polychoric(_enough_rows(columns.levels), bounds)
    found = _of_choices(found, columns.share, plan)
    if between.any():
        found = found._replace(correlation=_within(found.correlation, between))
    rows = polychoric.effective_rows(found)
    prior = polychoric.prior_rows(found.correlation, rows)
    noise = _noise(polychoric.shrunk(found.correlation, rows, prior + n_columns), units)
    correlation = polychoric.shrunk(found.correlation, rows, prior)
    room = min(n_factors, n_columns)
    values, vectors = linalg.eigh(
        correlation / np.sqrt(np.outer(noise, noise)), subset_by_index=(n_columns - room, n_columns - 1)
    )
    # Mean variance that chance leaves in a shrunken correlation; one by the number of rows, if all
    # are complete and there are many.
    chance = np.mean((rows / (rows + prior) ** 2)[~np.eye(n_columns, dtype=bool)])
    variance = _expected_variance(values[::-1], n_columns * float(chance))
    real = variance > 1.0 + 1e-6
    return _Structure(vectors[:, ::-1][:, real], variance[real])


def _of_choices(found: polychoric.Correlations, share: np.ndarray, plan: Layout) -> polychoric.Correlations:
    """Correlations with the choice of a category, instead of with a utility behind it.

    A choice tells less than a utility. Categories of one question need no factors to exclude each other.
    """
    if not plan.is_category.any():
        return found
    lower = np.where(plan.is_category, share, 0.5)
    less = norm.pdf(norm.ppf(lower)) / _deviation(lower)
    factor = np.where(plan.is_category, less, 1.0)
    both = np.outer(factor, factor)
    np.fill_diagonal(both, 1.0)
    same = plan.question[:, None] == plan.question[None]
    np.fill_diagonal(same, False)
    return found._replace(
        correlation=np.where(same, 0.0, found.correlation * both),
        variance=np.where(same, np.inf, found.variance * both**2),
    )


def _within(correlation: np.ndarray, between: np.ndarray) -> np.ndarray:
    """Correlations given covariates, from those without them and the covariance between groups."""
    whole = np.sqrt(1.0 + np.diag(between))
    result = np.clip(correlation * np.outer(whole, whole) - between, -_LARGEST, _LARGEST)
    np.fill_diagonal(result, 1.0)
    return result


def _enough_rows(observations: Observations) -> Observations:
    """The first rows, which are as good as any, as many as can be counted in short time."""
    n_rows = min(max(_MAX_WORK // observations.n_columns**2, _ENOUGH_ROWS), _MAX_ROWS)
    return observations if observations.n_rows <= n_rows else observations.take_rows(np.arange(n_rows))


def _noise(correlation: np.ndarray, units: int) -> np.ndarray:
    """Variance of each utility that is its own: at most what a regression on the others leaves.

    Less noise keeps more directions, and with them more of the correlations. That pays only for
    factors of many units; a few bits cannot hold so much. A column that the others do not explain
    is all noise in any case, hence a power and not a share.
    """
    left = 1.0 / np.diag(np.linalg.inv(polychoric.positive_definite(correlation)))
    return np.maximum(left ** max(1.5 - 1.0 / np.sqrt(units), 1.0), _LEAST_NOISE)


def _expected_variance(values: np.ndarray, aspect: float) -> np.ndarray:
    """Variance to be expected along eigenvectors of a correlation matrix that was seen with error.

    Noise has variance one. Its eigenvalues reach to (1 + √γ)² (Marchenko and Pastur), γ columns per
    row. An eigenvalue beyond belongs to a true one, ℓ, which is smaller, and its eigenvector to a
    true one to which it has an angle. What is best to put there for covariances, and likewise for
    the likelihood, is ℓ cos² + sin² (Donoho, Gavish and Johnstone 2018); one where there is noise.
    """
    beyond = values > (1.0 + np.sqrt(aspect)) ** 2
    shifted = np.where(beyond, values, 4.0 * (1.0 + aspect)) + 1.0 - aspect
    signal = 0.5 * (shifted + np.sqrt(shifted**2 - 4.0 * (shifted - 1.0 + aspect))) - 1.0
    squared_cosine = (1.0 - aspect / signal**2) / (1.0 + aspect / signal)
    return np.where(beyond, 1.0 + signal * squared_cosine, 1.0)


def _spread_over_units(
    structure: _Structure, n_factors: int, units: int, rng: np.random.Generator
) -> np.ndarray:
    """(N', K) weights that share directions among factors, evenly and otherwise at random.

    A unit is not linear: the stronger its input, the weaker its response. Weights make up for that,
    for inputs of the size that they will have.
    """
    directions, variance = structure
    n_directions = variance.size
    rotation, _ = np.linalg.qr(rng.normal(size=(n_directions, n_directions)))
    shares = rotation @ _even_frame(n_directions, n_factors)
    along = 2.0 * np.sqrt((1.0 - 1.0 / variance) / units)[:, None] * shares
    # With the logistic as a normal distribution function of variance 8/π, its mean slope over
    # inputs of variance v is 1/(4g), where g = √(1 + πv/8); and √g times the weights has g times v.
    input_variance = variance @ along**2
    half = np.pi / 16.0 * input_variance
    gain = half + np.sqrt(1.0 + half**2)
    weights = directions @ (along * np.sqrt(gain))
    return weights + _random_part(directions, shares, units, rng)


def _random_part(
    directions: np.ndarray, shares: np.ndarray, units: int, rng: np.random.Generator
) -> np.ndarray:
    """Small random weights with nothing along the directions, nor along their shares.

    Along strong directions the variance depends on the last per cent of the weights.
    """
    shape = (directions.shape[0], shares.shape[1])
    weights = rng.normal(scale=_RANDOM * 2.0 / np.sqrt(shape[0] * units), size=shape)
    weights -= directions @ (directions.T @ weights)
    return weights - (weights @ shares.T) @ shares


def _even_frame(n_directions: int, n_factors: int) -> np.ndarray:
    """(k, K) orthonormal rows with columns of equal length: waves over the factors."""
    if n_directions == n_factors:
        return np.eye(n_factors)
    angle = 2.0 * np.pi / n_factors * np.outer(np.arange(1, n_directions // 2 + 1), np.arange(n_factors))
    flat = np.full((n_directions % 2, n_factors), np.sqrt(0.5))
    return np.sqrt(2.0 / n_factors) * np.concatenate([flat, np.cos(angle), np.sin(angle)])

"""Where learning starts: thresholds at the marginal quantiles, weights from the correlations.

For answers that differ by degrees, the model is close to a factor model of the utilities, and that
one can be had from an eigendecomposition. Starting there saves most of the epochs; learning then
finds what is not Gaussian. With S the correlation of the utilities in units of their own noise, a
direction of S with eigenvalue λ > 1 needs units with Σ w² = 4 (1 − 1/λ) along it.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import intervals
from ordinalrbm.model import thresholds
from ordinalrbm.model.vector import VectorModel, level_counts

# Correlations from few common rows are drawn towards zero as if so many uncorrelated rows had been
# seen besides.
_PRIOR_ROWS = 50.0
_LARGEST_CORRELATION = 0.95
_SMALLEST_EIGENVALUE = 0.05
# Beyond so many columns the correlation matrix is not worth its memory; more rows add nothing.
_MAX_COLUMNS = 2000
_MAX_ROWS = 10_000
# Size of the random part, relative to weights that would explain all variance.
_NOISE = 0.1


def initial_model(observations: Observations, n_factors: int, units: int, seed: int) -> VectorModel:
    """Model to start learning from.

    Half of the units are on at first, so the bias takes half of the weights back: each answer
    starts with its own marginal distribution.
    """
    n_levels = observations.n_levels
    steps = thresholds.at_marginals(level_counts(observations), n_levels)
    rng = np.random.default_rng(seed)
    scale = _NOISE * 2.0 / np.sqrt(n_levels.size * units)
    weights = rng.normal(scale=scale, size=(n_levels.size, n_factors))
    spread = np.ones(n_levels.size)
    if 1 < n_levels.size <= _MAX_COLUMNS and observations.n_entries:
        directions, spread = _directions(observations, thresholds.table(steps, n_levels))
        weights += _spread_over_units(directions, n_factors, units, rng)
    weights[n_levels < 2] = 0.0  # a column with one level says nothing, and must stay silent
    steps[:, 0] *= spread
    steps[:, 1:] += np.log(spread)[:, None]
    return VectorModel(
        weights=weights.astype(np.float32),
        bias=(-0.5 * units * weights.sum(axis=1)).astype(np.float32),
        factor_bias=np.zeros(n_factors, dtype=np.float32),
        steps=steps,
        n_levels=n_levels,
        units=units,
    )


def _directions(observations: Observations, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, k) weights that single units would need, and the utilities' standard deviations."""
    correlation, n_rows = _utility_correlation(observations, ends)
    noise = 1.0 / np.diag(np.linalg.inv(correlation))
    in_noise = correlation / np.sqrt(np.outer(noise, noise))
    values, vectors = np.linalg.eigh(in_noise)
    # The largest eigenvalue that noise alone would have (Marchenko and Pastur).
    edge = (1.0 + np.sqrt(correlation.shape[0] / max(n_rows, 1.0))) ** 2
    real = values > max(edge, 1.0 + 1e-6)
    directions = 2.0 * vectors[:, real] * np.sqrt(1.0 - 1.0 / values[real])
    return directions[:, ::-1], 1.0 / np.sqrt(noise)


def _utility_correlation(observations: Observations, ends: np.ndarray) -> tuple[np.ndarray, float]:
    """Correlation of the utilities behind the answers, and the rows a pair has in common.

    A level stands for its mean utility. That shrinks a utility's variance from one to v, and a
    correlation by about the product of the two v.
    """
    some = observations
    if observations.n_rows > _MAX_ROWS:
        some = observations.take_rows(np.arange(_MAX_ROWS))
    # The last two levels of the table are the padding's end and the unknown answer.
    low, high = ends[:, :-3], ends[:, 1:-2]
    used = low < high
    score = np.zeros(low.shape)
    score[used] = intervals.truncated_mean(low[used], high[used])
    shape = (some.n_rows, some.n_columns)
    values = score[some.column, some.level]
    scores = sparse.csr_array((values, some.column, some.row_start), shape=shape)
    answered = sparse.csr_array((np.ones_like(values), some.column, some.row_start), shape=shape)
    common = (answered.T @ answered).toarray()
    covariance = (scores.T @ scores).toarray() / np.maximum(common, 1.0)
    variance = np.maximum(np.diag(covariance), 0.1)
    correlation = covariance / np.outer(variance, variance)
    correlation *= common / (common + _PRIOR_ROWS)
    correlation = np.clip(correlation, -_LARGEST_CORRELATION, _LARGEST_CORRELATION)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    positive = (vectors * np.maximum(values, _SMALLEST_EIGENVALUE)) @ vectors.T
    size = np.sqrt(np.diag(positive))
    return positive / np.outer(size, size), float(np.median(common))


def _spread_over_units(
    directions: np.ndarray, n_factors: int, units: int, rng: np.random.Generator
) -> np.ndarray:
    """Share directions among factors: as many turned copies of them as there is room for."""
    n_directions = min(directions.shape[1], n_factors)
    weights = np.zeros((directions.shape[0], n_factors))
    if n_directions == 0:
        return weights
    kept = directions[:, :n_directions]
    copies = n_factors // n_directions
    for copy in range(copies):
        turn, _ = np.linalg.qr(rng.normal(size=(n_directions, n_directions)))
        place = slice(copy * n_directions, (copy + 1) * n_directions)
        weights[:, place] = kept @ turn / np.sqrt(copies * units)
    return weights

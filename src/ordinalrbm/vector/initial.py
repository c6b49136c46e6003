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

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.vector import polychoric
from ordinalrbm.vector.model import VectorModel, level_counts

# Beyond so many columns the correlation matrix is not worth its memory.
_MAX_COLUMNS = 2000
# More rows hardly add anything; tables of counts cost rows × columns².
_MAX_ROWS = 100_000
_ENOUGH_ROWS = 10_000
_MAX_WORK = 10**9
# Size of the random part, without which equal factors would stay equal; relative to weights that
# would explain all variance.
_RANDOM = 0.1


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
    observations: Observations, n_factors: int, units: int, seed: int, *,
    by_correlations: bool = True, at_marginals: bool = True,
) -> VectorModel:  # fmt: skip
    """Return the model to start learning from.

    Half of the units are on at first, so the bias takes half of the weights back: each answer
    starts with its own marginal distribution, unless thresholds are to be evenly spaced. Without
    the correlations all weights are small and random.
    """
    n_levels = observations.n_levels
    cutpoints = thresholds.even(n_levels)
    if at_marginals:
        cutpoints = thresholds.at_marginals(level_counts(observations), n_levels)
    rng = np.random.default_rng(seed)
    structure = _Structure(np.zeros((n_levels.size, 0)), np.zeros(0))
    if by_correlations and 1 < n_levels.size <= _MAX_COLUMNS and observations.n_entries:
        bounds = thresholds.table(cutpoints, n_levels)
        structure = _structure(observations, bounds, n_factors, units)
    weights = _spread_over_units(structure, n_factors, units, rng)
    spread = np.sqrt(1.0 + structure.directions**2 @ (structure.variance - 1.0))
    cutpoints[:, 0] *= spread
    cutpoints[:, 1:] += np.log(spread)[:, None]
    weights[n_levels < 2] = 0.0  # a column with one level says nothing, and must stay silent
    return VectorModel(
        weights=weights.astype(np.float32),
        bias=(-0.5 * units * weights.sum(axis=1)).astype(np.float32),
        factor_bias=np.zeros(n_factors, dtype=np.float32),
        cutpoints=cutpoints,
        n_levels=n_levels,
        units=units,
    )


def _structure(
    observations: Observations, bounds: np.ndarray, n_factors: int, units: int
) -> _Structure:
    """At most ``n_factors`` directions in which utilities vary together."""
    found = polychoric.polychoric(_enough_rows(observations), bounds)
    n_columns = observations.n_columns
    rows = polychoric.effective_rows(found)
    prior = polychoric.prior_rows(found.correlation, rows)
    noise = _noise(polychoric.shrunk(found.correlation, rows, prior + n_columns), units)
    correlation = polychoric.shrunk(found.correlation, rows, prior)
    room = min(n_factors, n_columns)
    values, vectors = linalg.eigh(
        correlation / np.sqrt(np.outer(noise, noise)),
        subset_by_index=(n_columns - room, n_columns - 1),
    )
    # Mean variance that chance leaves in a shrunken correlation; one by the number of rows, if all
    # are complete and there are many.
    chance = np.mean((rows / (rows + prior) ** 2)[~np.eye(n_columns, dtype=bool)])
    variance = _expected_variance(values[::-1], n_columns * float(chance))
    real = variance > 1.0 + 1e-6
    return _Structure(vectors[:, ::-1][:, real], variance[real])


def _enough_rows(observations: Observations) -> Observations:
    """The first rows, which are as good as any, as many as can be counted in short time."""
    n_rows = min(max(_MAX_WORK // observations.n_columns**2, _ENOUGH_ROWS), _MAX_ROWS)
    if observations.n_rows <= n_rows:
        return observations
    return observations.take_rows(np.arange(n_rows))


def _noise(correlation: np.ndarray, units: int) -> np.ndarray:
    """Variance of each utility that is its own: at most what a regression on the others leaves.

    Less noise keeps more directions, and with them more of the correlations. That pays only for
    factors of many units; a few bits cannot hold so much. A column that the others do not explain
    is all noise in any case, hence a power and not a share.
    """
    left = 1.0 / np.diag(np.linalg.inv(polychoric.positive_definite(correlation)))
    return left ** max(1.5 - 1.0 / np.sqrt(units), 1.0)


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
    """Share directions among factors, evenly and otherwise at random.

    A unit is not linear: the stronger what it takes in, the less it answers. Weights make up for
    that, for inputs of the size that they will have.
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
    """Small weights in which nothing goes along the directions, nor sums up as directions do.

    Along strong directions the variance hangs on the last per cent of the weights.
    """
    shape = (directions.shape[0], shares.shape[1])
    weights = rng.normal(scale=_RANDOM * 2.0 / np.sqrt(shape[0] * units), size=shape)
    weights -= directions @ (directions.T @ weights)
    return weights - (weights @ shares.T) @ shares


def _even_frame(n_directions: int, n_factors: int) -> np.ndarray:
    """(k, K) orthonormal rows with columns of equal length: waves over the factors."""
    if n_directions == n_factors:
        return np.eye(n_factors)
    waves = np.arange(1, n_directions // 2 + 1)
    angle = 2.0 * np.pi / n_factors * np.outer(waves, np.arange(n_factors))
    flat = np.full((n_directions % 2, n_factors), np.sqrt(0.5))
    return np.sqrt(2.0 / n_factors) * np.concatenate([flat, np.cos(angle), np.sin(angle)])

"""What the factors are, read as in a factor analysis: loadings, rotation, reliability, curves.

Given its factors, a utility is u = α + W h + e with noise e of variance one. Among people whose
factors have mean m and covariance C, write h = m + C^½ f with uncorrelated factors f of variance
one. The loadings of u on them are Λ = W C^½, the variance of u_i is 1 + |Λ_i|², and the
standardised loading, the correlation of utility and factor, is Λ_ik / √(1 + |Λ_i|²). Fewer factors
than the model has are the principal axes of these loadings that explain most. These are rotated.

A number is read like a utility, which is its multiple. Each category of a nominal question has the
loadings of the inclination to it rather than to the others: its log odds against the mean of the
others, by their shares, with the noise of a logistic distribution.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, softmax

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import gibbs
from ordinalrbm.engine.side import Batch
from ordinalrbm.stats.rotation import Rotated, Rotation, allowed_turn, rotate
from ordinalrbm.vector import sample
from ordinalrbm.vector.model import Unanswered, VectorModel, complete_rows, side
from ordinalrbm.vector.posterior import draws

# Rows that say how factors are distributed among people; more hardly say it better: chance in who is
# among them moves a loading by 1.4 %, chance in the draws by less.
_ENOUGH_ROWS = 2_500
_BURN_IN, _DRAWS_PER_ROW, _STEPS_BETWEEN = 15, 4, 3
# When no people are at hand: rows drawn from the model.
_FREE_ROWS, _FREE_DRAWS, _FREE_STEPS_BETWEEN = 2_000, 10, 20
_SMALLEST_EIGENVALUE = 1e-9
_SMALLEST_PROBABILITY = 1e-12
_LOGISTIC = np.pi / np.sqrt(3.0)  # standard deviation of its noise


class Population(NamedTuple):
    """Mean (K,) and covariance C (K, K) of the factors among people, in units that are on.

    With background, means of the factors are ``regression`` (K, 1 + P) times one and the covariates,
    and ``residual`` (K, K) is the covariance among people with the same ones; else both are empty.
    """

    mean: np.ndarray
    covariance: np.ndarray
    regression: np.ndarray = np.zeros((0, 0))
    residual: np.ndarray = np.zeros((0, 0))

    @property
    def root(self) -> np.ndarray:
        return self._power(0.5)

    @property
    def inverse_root(self) -> np.ndarray:
        return self._power(-0.5)

    def _power(self, power: float) -> np.ndarray:
        values, vectors = np.linalg.eigh(self.covariance)
        return (vectors * np.maximum(values, _SMALLEST_EIGENVALUE) ** power) @ vectors.T


class Solution(NamedTuple):
    """Factors that can be read.

    ``loadings`` (N, n) are standardised weights of the factors (their pattern), ``correlation`` (n, n) is
    that of the factors, ``spread`` (N,) the standard deviation of each utility, and ``projection`` (n, K)
    makes factors with mean zero and variance one out of h − ``mean``. ``options`` are those of the rotation.
    """

    loadings: np.ndarray
    correlation: np.ndarray
    spread: np.ndarray
    mean: np.ndarray
    projection: np.ndarray
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def n_general(self) -> int:
        """How many factors, the first ones, belong to all questions."""
        return int(self.options.get("rotation") == "bifactor")

    @property
    def structure(self) -> np.ndarray:
        return self.loadings @ self.correlation

    @property
    def communality(self) -> np.ndarray:
        return (self.structure * self.loadings).sum(axis=1)


def population_of(
    model: VectorModel,
    observations: Observations,
    weight: np.ndarray | None,
    unanswered: Unanswered,
    seed: int,
) -> Population:
    """Return how factors are distributed among the first rows, which should be in random order."""
    n_rows = min(observations.n_rows, _ENOUGH_ROWS)
    if n_rows < observations.n_rows:
        observations = observations.take_rows(np.arange(n_rows))
    this = side(model, observations, unanswered)
    states = draws(model, this, _DRAWS_PER_ROW, seed, burn_in=_BURN_IN, thin=_STEPS_BETWEEN)
    weight = None if weight is None else weight[:n_rows]
    return _moments((state.factors for state in states), weight)


def free_population(model: VectorModel) -> Population:
    """Return how factors are distributed among rows drawn from the model."""
    factors = sample.free_factors(model, _FREE_ROWS, 0)
    over = side(model, complete_rows(model, _FREE_ROWS))

    def all_draws() -> Iterator[np.ndarray]:
        for sweep in range(1, _FREE_DRAWS + 1):
            yield factors
            gibbs.free_sweep(over, factors, Batch(0, _FREE_ROWS, 0, sweep, _FREE_STEPS_BETWEEN))

    return _moments(all_draws(), None)


def _moments(all_draws: Iterator[np.ndarray], weight: np.ndarray | None) -> Population:
    means, seconds = [], []
    for drawn in all_draws:
        factors = drawn.astype(np.float64)
        share = np.full(len(factors), 1.0) if weight is None else weight.astype(np.float64)
        share /= share.sum()
        means.append(share @ factors)
        seconds.append((share[:, None] * factors).T @ factors)
    mean = np.mean(means, axis=0)
    return Population(mean, np.mean(seconds, axis=0) - np.outer(mean, mean))


def solve(
    model: VectorModel, people: Population, rotation: Rotation, n_factors: int | None = None, **options: Any
) -> Solution:
    """Rotated loadings of the model's factors, or of the ``n_factors`` axes that explain most."""
    weights = contrasts(model, people.mean) @ model.weights.astype(np.float64) @ people.root
    unrotated, axes = _principal_axes(weights, n_factors)
    options["rotation"] = rotation
    pattern, correlation, turn = rotate(unrotated, **options)
    projection = turn.T @ axes.T @ people.inverse_root
    return Solution(pattern, correlation, utility_spread(weights), people.mean, projection, options)


def contrasts(model: VectorModel, mean: np.ndarray) -> np.ndarray:
    """(N', N') what makes readable rows of the weights: of categories, each against the others.

    The shares of categories are those of people whose factors are at the ``mean``.
    """
    made = np.eye(len(model.weights))
    for question, own in model.layout.nominal:
        share = category_shares(model, mean, question)
        against = np.eye(len(share)) - share
        made[own, own] = against / (np.maximum(1.0 - share, _SMALLEST_PROBABILITY) * _LOGISTIC)[:, None]
    return made


def category_shares(model: VectorModel, mean: np.ndarray, question: int) -> np.ndarray:
    """(C,) of a nominal question, among people with these factors and an average background."""
    own = model.layout.columns(question)
    return softmax(model.bias[own] + model.weights[own].astype(np.float64) @ mean)


def utility_spread(weights: np.ndarray) -> np.ndarray:
    """(N,) standard deviation of utilities with these loadings and noise of variance one."""
    return np.sqrt(1.0 + (weights**2).sum(axis=1))


def _principal_axes(weights: np.ndarray, n_factors: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Standardised loadings (N, n) on the axes that explain most, and these axes (K, n)."""
    left, size, right = np.linalg.svd(weights / utility_spread(weights)[:, None], full_matrices=False)
    return (left * size)[:, :n_factors], right[:n_factors].T


def rotated_like(weights: np.ndarray, other: Solution) -> Rotated:
    """Loadings of these weights, rotated from where they are nearest to another solution."""
    unrotated, _ = _principal_axes(weights, other.loadings.shape[1])
    turn = np.linalg.inv(np.linalg.lstsq(unrotated, other.loadings, rcond=None)[0]).T
    is_oblique = not np.allclose(other.correlation, np.eye(len(turn)))
    return rotate(unrotated, start=allowed_turn(turn, is_oblique), **other.options)


def own_items(solution: Solution) -> list[np.ndarray]:
    """Of each factor the questions that load on it more than on any other, the strongest first.

    A general factor has all of them.
    """
    size, first = np.abs(solution.loadings), solution.n_general
    strongest = np.where(size.max(axis=1) > 0, first + size[:, first:].argmax(axis=1), -1)
    return [
        own[np.argsort(-size[own, k], kind="stable")]
        for k in range(size.shape[1])
        for own in [np.flatnonzero((strongest == k) | (k < first))]
    ]


def omega(solution: Solution, items: np.ndarray, key: np.ndarray, alone: int | None = None) -> float:
    """McDonald's total omega of a sum of utilities: the share of its variance that factors explain.

    ``key`` is the sign with which each question counts. With one factor ``alone``, of uncorrelated
    ones, it is omega hierarchical.
    """
    common = key @ solution.loadings[items]
    explained = float(common @ solution.correlation @ common)
    own = float((1.0 - solution.communality[items]).sum())
    wanted = explained if alone is None else float(common[alone] ** 2)
    return wanted / (explained + own) if len(items) else np.nan


def cronbach_alpha(answers: np.ndarray, key: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Cronbach's alpha of a sum of answers (n, k), NaN where missing, from pairwise covariances."""
    n_items = answers.shape[1]
    if n_items < 2:
        return np.nan
    covariance = pairwise_covariance(answers * key, weight)
    return float(n_items / (n_items - 1) * (1.0 - np.trace(covariance) / covariance.sum()))


def pairwise_covariance(answers: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Covariances, each of the rows that have both answers."""
    known = ~np.isnan(answers)
    filled = np.where(known, answers, 0.0)
    weight = np.ones(len(answers)) if weight is None else weight
    count = known.T @ (known * weight[:, None])
    first = filled.T @ (known * weight[:, None])  # [i, j]: sum of i where j is known
    second = filled.T @ (filled * weight[:, None])
    with np.errstate(invalid="ignore", divide="ignore"):
        return second / count - (first / count) * (first / count).T


def _utility_along(
    model: VectorModel, solution: Solution, column: int, factor: int, at: np.ndarray
) -> tuple[np.ndarray, float]:
    """Mean utility of a column at points along a factor, and its slope."""
    slope = solution.loadings[column, factor] * solution.spread[column]
    centre = model.bias[column] + model.weights[column].astype(np.float64) @ solution.mean
    return centre + slope * np.asarray(at, dtype=np.float64), slope


def response_curves(
    model: VectorModel, solution: Solution, column: int, factor: int, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """P(level) (points, L) of a scale along a factor, and its Fisher information (points,).

    Other factors stay at their means; response styles are averaged over.
    """
    utility, slope = _utility_along(model, solution, column, factor, at)
    bounds = model.thresholds[column, : int(model.layout.n_levels[column]) + 1]
    below, density = np.zeros((2, utility.size, len(bounds)))
    for stretch, share in zip(model.stretches, model.style_weights, strict=True):
        distance = stretch * bounds - utility[:, None]
        below += share * ndtr(distance)
        density += share * np.exp(-0.5 * distance**2) / np.sqrt(2.0 * np.pi)
    probability = np.diff(below, axis=1)
    change = -slope * np.diff(density, axis=1)
    return probability, (change**2 / np.maximum(probability, _SMALLEST_PROBABILITY)).sum(axis=1)


def category_curves(
    model: VectorModel, solution: Solution, question: int, factor: int, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """P(category) (points, C) of a nominal question along a factor, and its information (points,)."""
    own = model.layout.columns(question)
    share = category_shares(model, solution.mean, question)
    slope = solution.loadings[own, factor] * solution.spread[own] * (1.0 - share) * _LOGISTIC
    probability = softmax(np.log(np.maximum(share, _SMALLEST_PROBABILITY)) + np.outer(at, slope), axis=1)
    mean = probability @ slope
    return probability, probability @ slope**2 - mean**2


def number_curve(
    model: VectorModel, solution: Solution, column: int, factor: int, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mean of a number along a factor, in standard deviations, and its information (points,)."""
    utility, slope = _utility_along(model, solution, column, factor, at)
    mean = utility / np.exp(model.cutpoints[column, 0])
    return mean, np.full(mean.shape, slope**2)

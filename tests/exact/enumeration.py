"""The vector model by brute force: every sum over factors runs over all 2^K states.

Written from the definition of the model alone and importing nothing of the library, so that it can
judge it. Levels count from zero. Only the variables that a row has answered are in its model; an
unanswered one is absent, so P*(h), Z and the posterior run over the answered columns.

    log Ψ(u,h) = Σ_{i∈O} (−u_i²/(2σ_i²) + (α_i + o_i) u_i) + Σ_{i∈O,k} w_ik u_i h_k + Σ_k γ_k h_k

with o_i an offset that belongs to the row (zero in the vector model; what the other side
contributes in the matrix model).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, logsumexp
from scipy.stats import norm


class Model(NamedTuple):
    """W (N, K), alpha (N,), gamma (K,), for each column its L − 1 inner thresholds, sigma (N,)."""

    weights: np.ndarray
    alpha: np.ndarray
    gamma: np.ndarray
    thresholds: list
    sigma: np.ndarray | float = 1.0

    @property
    def n_columns(self):
        return self.weights.shape[0]

    def bounds(self, column):
        """−∞, the inner thresholds, +∞."""
        return np.concatenate([[-np.inf], self.thresholds[column], [np.inf]])

    def deviation(self, columns):
        return np.broadcast_to(self.sigma, self.n_columns)[columns]


class Row(NamedTuple):
    """Answered columns, their levels (from zero), and an offset for each of them."""

    columns: np.ndarray
    levels: np.ndarray
    offset: np.ndarray | float = 0.0


class Statistics(NamedTuple):
    """A number per parameter: (…, N, K), (…, N), (…, K), and per column (…, L − 1)."""

    weights: np.ndarray
    alpha: np.ndarray
    gamma: np.ndarray
    thresholds: list

    def map(self, function, *others):
        """Apply a function to every part, and the same part of the others."""
        parts = [function(*same) for same in zip(self[:3], *(other[:3] for other in others), strict=True)]
        columns = zip(self.thresholds, *(other.thresholds for other in others), strict=True)
        return Statistics(*parts, [function(*same) for same in columns])

    def flat(self):
        """All numbers in one vector."""
        return np.concatenate([np.ravel(part) for part in (*self[:3], *self.thresholds)])


def row_of(answers, offset=0.0):
    """A Row from {column: level}."""
    columns = np.array(sorted(answers), dtype=int)
    levels = np.array([answers[column] for column in columns], dtype=int)
    return Row(columns, levels, offset)


def states(n_factors):
    """All of {0,1}^K, one state a row; state s has the binary digits of s, lowest first."""
    return (np.arange(2**n_factors)[:, None] >> np.arange(n_factors)) & 1


def state_index(factors):
    """Number of the state that each row of factors is in."""
    return factors.astype(int) @ (1 << np.arange(factors.shape[1]))


# ---- distributions over the states --------------------------------------------------------------


def inputs(model, row):
    """(2^K, |O|): α_i + o_i + w_i·h."""
    h = states(model.gamma.size)
    return model.alpha[row.columns] + row.offset + h @ model.weights[row.columns].T


def means(model, row):
    """(2^K, |O|): μ_i(h) = σ_i² (α_i + o_i + w_i·h)."""
    return model.deviation(row.columns) ** 2 * inputs(model, row)


def log_factor_weight(model, row):
    """log P*(h) = γ·h + Σ_{i∈O} σ_i²/2 (α_i + o_i + w_i·h)²."""
    squares = model.deviation(row.columns) ** 2 * inputs(model, row) ** 2
    return states(model.gamma.size) @ model.gamma + 0.5 * squares.sum(axis=1)


def log_interval(a, b):
    """log(Φ(b) − Φ(a)), from the tail in which the interval lies."""
    right = a > 0
    a, b = np.where(right, -b, a), np.where(right, -a, b)
    return log_ndtr(b) + np.log1p(-np.exp(log_ndtr(a) - log_ndtr(b)))


def standard_bounds(model, row):
    """a and b of each answer in each state, (2^K, |O|)."""
    answered = list(zip(row.columns, row.levels, strict=True))
    low = np.array([model.bounds(i)[level] for i, level in answered])
    high = np.array([model.bounds(i)[level + 1] for i, level in answered])
    mean, deviation = means(model, row), model.deviation(row.columns)
    return (low - mean) / deviation, (high - mean) / deviation


def log_answers(model, row):
    """log P(v | h) of every state."""
    return log_interval(*standard_bounds(model, row)).sum(axis=1)


def log_free_partition(model, row):
    """log Z(O) = log Σ_h P*(h), which leaves out ∏ σ_i √2π."""
    return logsumexp(log_factor_weight(model, row))


def log_clamped_partition(model, row):
    """log Σ_h P*(h) P(v | h)."""
    return logsumexp(log_factor_weight(model, row) + log_answers(model, row))


def log_likelihood(model, row):
    """log P(v)."""
    return log_clamped_partition(model, row) - log_free_partition(model, row)


def prior(model, row):
    """P(h) of every state: the free phase."""
    return np.exp(log_factor_weight(model, row) - log_free_partition(model, row))


def posterior(model, row):
    """P(h | v) of every state: the clamped phase."""
    joint = log_factor_weight(model, row) + log_answers(model, row)
    return np.exp(joint - log_clamped_partition(model, row))


def level_probabilities(model, column, offset=0.0):
    """P(v_j = l | h), (2^K, L)."""
    mean = means(model, Row(np.array([column]), np.array([0]), offset))
    bounds = (model.bounds(column) - mean) / model.deviation([column])
    return np.exp(log_interval(bounds[:, :-1], bounds[:, 1:]))


def predictive(model, row, column, offset=0.0):
    """P(v_j = l | v) = Σ_h P(h | v) P(v_j = l | h)."""
    return posterior(model, row) @ level_probabilities(model, column, offset)


# ---- sufficient statistics and the gradient -----------------------------------------------------


def clamped_statistics(model, row):
    """Expected sufficient statistics given the answers and each state: a leading axis of 2^K."""
    a, b = standard_bounds(model, row)
    log_mass = log_interval(a, b)
    deviation = model.deviation(row.columns)
    at_a, at_b = np.exp(norm.logpdf(a) - log_mass), np.exp(norm.logpdf(b) - log_mass)
    utility = means(model, row) + deviation * (at_a - at_b)
    statistics = _statistics(model, row, utility)
    for place, (column, level) in enumerate(zip(row.columns, row.levels, strict=True)):
        theta = statistics.thresholds[column]
        if level > 0:
            theta[:, level - 1] -= at_a[:, place] / deviation[place]
        if level < theta.shape[1]:
            theta[:, level] += at_b[:, place] / deviation[place]
    return statistics


def free_statistics(model, row):
    """Expected sufficient statistics given each state alone; thresholds do not enter."""
    return _statistics(model, row, means(model, row))


def _statistics(model, row, utility):
    h = states(model.gamma.size).astype(float)
    weights = np.zeros((len(h), *model.weights.shape))
    alpha = np.zeros((len(h), model.n_columns))
    weights[:, row.columns] = utility[:, :, None] * h[:, None, :]
    alpha[:, row.columns] = utility
    thresholds = [np.zeros((len(h), len(inner))) for inner in model.thresholds]
    return Statistics(weights, alpha, h, thresholds)


def expectation(probabilities, statistics):
    """Mean of every statistic over the states."""
    return statistics.map(lambda part: np.tensordot(probabilities, part, axes=1))


def variance(probabilities, statistics):
    """Variance of every statistic over the states."""
    mean = expectation(probabilities, statistics)
    deviations = statistics.map(lambda part, centre: (part - centre) ** 2, mean)
    return expectation(probabilities, deviations)


def gradient(model, row):
    """Gradient of log P(v) with respect to w, α, γ and θ: clamped − free."""
    clamped = expectation(posterior(model, row), clamped_statistics(model, row))
    free = expectation(prior(model, row), free_statistics(model, row))
    return clamped.map(np.subtract, free)


# ---- exact draws --------------------------------------------------------------------------------


def draw_states(probabilities, n, generator):
    """n independent draws of h from a distribution over the states."""
    n_factors = int(np.log2(len(probabilities)))
    return states(n_factors)[generator.choice(len(probabilities), n, p=probabilities)]


def draw_rows(model, n, generator):
    """n complete rows of levels, (n, N), from the model itself."""
    everything = Row(np.arange(model.n_columns), np.zeros(model.n_columns, dtype=int))
    index = generator.choice(2**model.gamma.size, n, p=prior(model, everything))
    mean = means(model, everything)[index]
    utility = generator.normal(mean, model.deviation(everything.columns))
    levels = [np.searchsorted(inner, utility[:, i], side="left") for i, inner in enumerate(model.thresholds)]
    return np.stack(levels, axis=1)

"""Posteriors and predictions, drawn and by mean-field, against enumeration.

Many rows with the same answers are as many independent chains of one posterior: their spread is
the Monte-Carlo error, whatever the autocorrelation within a chain.
"""

import enumeration as oracle
import numpy as np
import pytest
from hand_made_models import (
    N_LEVELS,
    PATTERNS,
    as_oracle,
    expected_factors,
    observed,
    oracle_rows,
    vector_model,
)
from scipy.special import entr, expit
from scipy.stats import truncnorm

from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.engine.thresholds import unknown_level
from ordinalrbm.vector import posterior, predict
from ordinalrbm.vector.model import complete_rows, side

N_CHAINS = 300
N_DRAWS = 60
STANDARD_ERRORS = 4


def chains_of(model, unanswered="absent"):
    """A Side in which every pattern has N_CHAINS rows."""
    many = np.repeat(PATTERNS, N_CHAINS, axis=0)
    return side(model, observed(many), unanswered)


def mean_and_error(values):
    """Mean over the chains of each pattern, and its standard error."""
    by_pattern = values.reshape(len(PATTERNS), N_CHAINS, *values.shape[1:])
    return by_pattern.mean(axis=1), by_pattern.std(axis=1, ddof=1) / np.sqrt(N_CHAINS)


def assert_within_monte_carlo_error(values, expected, largest_error):
    mean, error = mean_and_error(values)
    assert error.max() < largest_error  # a wide interval would prove nothing
    # What happens once in ten thousand draws may not have happened, and has no spread then.
    assert (np.abs(mean - expected) <= STANDARD_ERRORS * error + 2e-4).all()


def exact_posteriors(model, unanswered):
    """Distribution over the oracle's states for each pattern."""
    judge = as_oracle(model)
    if unanswered == "absent":
        return [oracle.posterior(judge, row) for row in oracle_rows(PATTERNS)]
    # Latent columns enter the prior of the factors and say nothing else.
    everything = oracle.row_of(dict.fromkeys(range(judge.n_columns), 0))
    joint = [
        np.exp(oracle.log_factor_weight(judge, everything) + oracle.log_answers(judge, row))
        for row in oracle_rows(PATTERNS)
    ]
    return [each / each.sum() for each in joint]


CASES = [(1, "absent"), (1, "latent"), (3, "absent")]


@pytest.mark.parametrize(("units", "unanswered"), CASES)
def test_drawn_posteriors_are_the_exact_ones(units, unanswered):
    model = vector_model(seed=11, n_factors=4, scale=0.5, units=units)
    found = posterior.sampled(model, chains_of(model, unanswered), N_DRAWS, seed=1)
    exact = [expected_factors(model, each) for each in exact_posteriors(model, unanswered)]
    assert_within_monte_carlo_error(found, np.array(exact), 0.01 * units)


@pytest.mark.parametrize(("units", "unanswered"), CASES)
def test_drawn_predictions_are_the_exact_ones(units, unanswered):
    model = vector_model(seed=12, n_factors=4, scale=0.5, units=units)
    judge = as_oracle(model)
    this = chains_of(model, unanswered)
    cells = predict.all_cells(this.n_rows, model.n_levels.size)
    draws = posterior.draws(model, this, N_DRAWS, seed=2)
    found = predict.probabilities(model, draws, cells).reshape(this.n_rows, -1, 7)
    np.testing.assert_allclose(found.sum(axis=2), 1.0, rtol=1e-12)
    for i, levels in enumerate(model.n_levels):
        np.testing.assert_array_equal(found[:, i, levels:], 0.0)
        exact = [each @ oracle.level_probabilities(judge, i) for each in exact_posteriors(model, unanswered)]
        assert_within_monte_carlo_error(found[:, i, :levels], np.array(exact), 0.01)


def test_draws_follow_the_joint_posterior_not_only_its_means():
    model = vector_model(seed=16, n_factors=4, scale=1.0)
    exact = np.array(exact_posteriors(model, "absent"))
    states = oracle.states(4)
    both_on = exact @ (states[:, 0] * states[:, 1])
    if_independent = (exact @ states[:, 0]) * (exact @ states[:, 1])
    assert np.abs(both_on - if_independent).max() > 0.03
    draws = posterior.draws(model, chains_of(model), N_DRAWS, seed=3)
    found = np.mean([h[:, 0] * h[:, 1] for h, *_ in draws], axis=0)
    assert_within_monte_carlo_error(found, both_on, 0.005)


# Mean-field


def one_more_update(model, factors, dense):
    """Expected factors from expected factors, written with SciPy's truncated normal."""
    judge = as_oracle(model)
    updated = np.empty_like(factors, dtype=np.float64)
    for d, row in enumerate(dense):
        activation = model.factor_bias.astype(np.float64)
        for i in np.flatnonzero(row >= 0):
            weights = model.weights[i].astype(np.float64)
            mean = judge.alpha[i] + weights @ factors[d]
            low, high = judge.bounds(i)[row[i] : row[i] + 2]
            activation = activation + weights * truncnorm.mean(low - mean, high - mean, loc=mean)
        updated[d] = model.units * expit(activation)
    return updated


@pytest.mark.parametrize("units", [1, 5])
def test_mean_field_is_a_fixed_point(units):
    model = vector_model(seed=14, scale=0.5 / np.sqrt(units), units=units)
    found = posterior.mean_field(model, side(model, observed(PATTERNS)))
    assert found.n_unconverged == 0
    updated = one_more_update(model, found.factors.astype(np.float64), PATTERNS)
    # It stops when a step is below the tolerance.
    np.testing.assert_allclose(found.factors, updated, atol=2 * posterior.TOLERANCE * units)
    assert np.abs(found.factors - 0.5 * units).max() > 0.1 * units  # it has left its start


def mean_field_bound(model, factors, dense):
    """(rows,) bound on the log weight of the answers, with the best utilities for the factors."""
    judge, factors = as_oracle(model), factors.astype(np.float64)
    share = factors / model.units
    entropy = model.units * (entr(share) + entr(1.0 - share)).sum(axis=1)
    bound = factors @ model.factor_bias.astype(np.float64) + entropy
    for i, levels in enumerate(dense.T):
        given = levels >= 0
        mean = judge.alpha[i] + factors[given] @ model.weights[i].astype(np.float64)
        low, high = judge.bounds(i)[levels[given]], judge.bounds(i)[levels[given] + 1]
        bound[given] += 0.5 * mean**2 + oracle.log_interval(low - mean, high - mean)
    return bound


@pytest.mark.parametrize(("units", "n_factors"), [(1, 10), (5, 20), (50, 10)])
def test_mean_field_never_lowers_the_bound(units, n_factors):
    """Nor where it extrapolates, though with strong weights steps are no geometric series."""
    n_levels = N_LEVELS * 3
    for seed in range(2):
        model = vector_model(seed, n_levels, n_factors=n_factors, scale=0.7 / np.sqrt(units), units=units)
        generator = np.random.default_rng(seed)
        dense = np.stack([generator.integers(0, levels, 150) for levels in n_levels], axis=1)
        dense[generator.random(dense.shape) < 0.2] = -1
        this = side(model, observed(dense, n_levels))
        bounds = []
        for n_rounds in range(1, 25):
            factors = np.full((len(dense), n_factors), 0.5 * units, dtype=np.float32)
            fixed_point(this, factors, 0.0, n_rounds)
            bounds.append(mean_field_bound(model, factors, dense))
        assert np.diff(bounds, axis=0).min() > -1e-4
        assert np.median(bounds[-1] - bounds[0]) > 0.1  # they have risen


def mean_field_errors(scale):
    errors = []
    for seed in range(8):
        model = vector_model(seed=seed, scale=scale)
        found = posterior.mean_field(model, side(model, observed(PATTERNS))).factors
        exact = [expected_factors(model, each) for each in exact_posteriors(model, "absent")]
        errors.append(found - exact)
    return np.array(errors)


def test_mean_field_is_close_to_exact_for_weak_weights():
    errors = [mean_field_errors(scale) for scale in (0.4, 0.2, 0.1)]
    assert np.abs(errors[2]).max() < 0.003
    # Half the weights, about a quarter of the error: what is left out is of second order.
    size = [np.sqrt(np.mean(each**2)) for each in errors]
    assert size[1] < 0.35 * size[0]
    assert size[2] < 0.35 * size[1]


def test_mean_field_of_a_row_without_answers_is_the_factor_bias():
    model = vector_model()
    found = posterior.mean_field(model, side(model, observed([[-1] * 4])))
    np.testing.assert_allclose(found.factors[0], expit(model.factor_bias), rtol=1e-6)


def test_mean_field_that_does_not_settle_says_so(monkeypatch):
    model = vector_model(seed=14, scale=0.5)
    this = side(model, observed(PATTERNS))
    assert posterior.mean_field(model, this).n_unconverged == 0
    monkeypatch.setattr(posterior, "MAX_ITERATIONS", 2)
    found = posterior.mean_field(model, this)
    # Of the row without answers, the first step is the last.
    assert found.n_unconverged == len(PATTERNS) - 1
    np.testing.assert_array_equal(found.change > posterior.TOLERANCE, [True] * 5 + [False])


@pytest.mark.parametrize("n_levels", [2, 125, 126, 127, 128])
def test_unknown_answers_are_on_no_scale(n_levels):
    """Whatever type their levels have: the last level of int8 is 127."""
    model = vector_model(seed=0, n_levels=(n_levels, 3))
    rows = complete_rows(model, 2)
    assert (rows.level == unknown_level(model.thresholds)).all() and rows.level[0] > n_levels
    same = rows.level.dtype == observed([[0, 0]], (n_levels, 3)).level.dtype
    assert same == (n_levels != 127)  # whose unknown level, 128, is the first that needs int16

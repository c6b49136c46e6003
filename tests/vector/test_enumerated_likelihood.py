"""The library's enumeration against the oracle's, and its gradient against differences."""

import itertools

import enumeration as oracle
import numpy as np
import pytest
from hand_made_models import (
    N_LEVELS,
    PATTERNS,
    as_oracle,
    observed,
    oracle_rows,
    vector_model,
    with_repeated_factors,
)
from scipy.special import logsumexp

from ordinalrbm.vector import likelihood
from ordinalrbm.vector.model import side

EXACT = {"rtol": 1e-11, "atol": 1e-11}


def over(model, dense=PATTERNS, unanswered="absent"):
    return side(model, observed(dense, model.n_levels), unanswered)


def completions(row):
    """Every complete row that agrees with the answers given."""
    choices = [range(levels) if given < 0 else [given] for given, levels in zip(row, N_LEVELS, strict=True)]
    return np.array(list(itertools.product(*choices)))


@pytest.mark.parametrize("units", [1, 2, 3])
def test_log_likelihood_equals_the_oracle(units):
    model = vector_model(seed=units, n_factors=3, units=units)
    judge = as_oracle(model)
    rows = oracle_rows(PATTERNS)
    found = likelihood.exact(model, over(model))
    np.testing.assert_allclose(found.value, [oracle.log_likelihood(judge, row) for row in rows], **EXACT)
    np.testing.assert_array_equal(found.standard_error, 0.0)


def test_a_row_without_answers_has_probability_one():
    model = vector_model()
    assert likelihood.exact(model, over(model, [[-1] * 4])).value == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("units", [1, 2])
def test_probabilities_of_all_rows_sum_to_one(units):
    model = vector_model(seed=5, units=units)
    every_row = completions([-1] * 4)
    assert len(every_row) == np.prod(N_LEVELS)
    value = likelihood.exact(model, over(model, every_row)).value
    assert logsumexp(value) == pytest.approx(0.0, abs=1e-11)


def test_posterior_equals_the_oracle_state_by_state():
    model = vector_model(seed=2)
    states, found = likelihood.exact_posterior(model, over(model))
    place = oracle.state_index(states)
    assert sorted(place) == list(range(2**model.n_factors))
    for row, distribution in zip(oracle_rows(PATTERNS), found, strict=True):
        expected = oracle.posterior(as_oracle(model), row)
        np.testing.assert_allclose(distribution, expected[place], rtol=1e-10, atol=1e-14)


# Units, and answers nobody knows


@pytest.mark.parametrize("unanswered", ["absent", "latent"])
def test_two_units_equal_each_factor_repeated_twice(unanswered):
    model = vector_model(seed=6, n_factors=3, units=2)
    repeated = with_repeated_factors(model)
    this, that = over(model, unanswered=unanswered), over(repeated, unanswered=unanswered)
    np.testing.assert_allclose(
        likelihood.exact(model, this).value, likelihood.exact(repeated, that).value, **EXACT
    )
    states, posterior = likelihood.exact_posterior(model, this)
    all_states, of_units = likelihood.exact_posterior(repeated, that)
    counted = all_states.reshape(len(all_states), 3, 2).sum(axis=2)
    for state, probability in zip(states, posterior.T, strict=True):
        same = (counted == state).all(axis=1)
        np.testing.assert_allclose(probability, of_units[:, same].sum(axis=1), atol=1e-12)


def test_latent_equals_the_complete_model_with_unknown_answers_summed_over():
    model = vector_model(seed=3)
    judge = as_oracle(model)
    this = over(model, unanswered="latent")
    value = likelihood.exact(model, this).value
    states, posterior = likelihood.exact_posterior(model, this)
    place = oracle.state_index(states)
    for row, found, distribution in zip(PATTERNS, value, posterior, strict=True):
        complete = oracle_rows(completions(row))
        log_probability = np.array([oracle.log_likelihood(judge, one) for one in complete])
        expected = logsumexp(log_probability)
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-11)
        share = np.exp(log_probability - expected)
        of_complete = np.array([oracle.posterior(judge, one) for one in complete])
        np.testing.assert_allclose(distribution, (share @ of_complete)[place], atol=1e-12)


def test_latent_differs_from_absent_where_answers_are_missing():
    """Else the test above could pass with the setting ignored."""
    model = vector_model(seed=3)
    absent = likelihood.exact(model, over(model)).value
    latent = likelihood.exact(model, over(model, unanswered="latent")).value
    complete = (PATTERNS >= 0).all(axis=1)
    np.testing.assert_allclose(latent[complete], absent[complete], rtol=1e-12)
    partly = ~complete & (PATTERNS >= 0).any(axis=1)
    assert (np.abs(latent - absent)[partly] > 1e-6).all()


# What cannot be enumerated


@pytest.mark.parametrize(("n_factors", "units"), [(17, 1), (3, 255)])
def test_too_many_states_are_refused_with_the_remedy(n_factors, units):
    model = vector_model(n_factors=n_factors, units=units)
    with pytest.raises(ValueError, match=r"states.*Use method='ais'|states.*use method='ais'"):
        likelihood.exact(model, over(model))

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
    choices = [
        range(levels) if given < 0 else [given] for given, levels in zip(row, N_LEVELS, strict=True)
    ]
    return np.array(list(itertools.product(*choices)))


@pytest.mark.parametrize("units", [1, 2, 3])
def test_log_likelihood_and_partition_equal_the_oracle(units):
    model = vector_model(seed=units, n_factors=3, units=units)
    judge = as_oracle(model)
    rows = oracle_rows(PATTERNS)
    found = likelihood.exact(model, over(model))
    np.testing.assert_allclose(
        found.value, [oracle.log_likelihood(judge, row) for row in rows], **EXACT
    )
    np.testing.assert_array_equal(found.standard_error, 0.0)
    np.testing.assert_allclose(
        likelihood.exact_log_partition(model, over(model)),
        [oracle.log_free_partition(judge, row) for row in rows],
        **EXACT,
    )


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


def test_chunks_of_rows_change_nothing(monkeypatch):
    model = vector_model(seed=4)
    whole, direction = (
        likelihood.exact(model, over(model)),
        likelihood.exact_gradient(model, over(model)),
    )
    monkeypatch.setattr(likelihood, "_CHUNK", 2 * 2**model.n_factors)
    np.testing.assert_allclose(likelihood.exact(model, over(model)).value, whole.value, rtol=1e-14)
    for part, expected in zip(
        likelihood.exact_gradient(model, over(model)), direction, strict=True
    ):
        np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-13)


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
    # A shared weight moves both of its copies, so its slope is the sum of theirs.
    shared, single = (
        likelihood.exact_gradient(model, this),
        likelihood.exact_gradient(repeated, that),
    )
    for part in ("weights", "factor_bias"):
        both = getattr(single, part)
        both = both.reshape(*both.shape[:-1], 3, 2).sum(axis=-1)
        np.testing.assert_allclose(getattr(shared, part), both, **EXACT)
    for part in ("bias", "cutpoints"):
        np.testing.assert_allclose(getattr(shared, part), getattr(single, part), **EXACT)


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


# The gradient


def total_log_likelihood(model, unanswered):
    return likelihood.exact(model, over(model, unanswered=unanswered)).value.sum()


def slope(model, part, index, unanswered, width=1e-3):
    """Difference quotient of fourth order."""

    def at(step):
        moved = np.array(getattr(model, part))
        moved[index] += step * width
        return total_log_likelihood(model._replace(**{part: moved}), unanswered)

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * width)


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("unanswered", ["absent", "latent"])
def test_gradient_equals_differences_of_the_log_likelihood(units, unanswered):
    model = vector_model(seed=8, n_factors=3, units=units, dtype=np.float64)
    found = likelihood.exact_gradient(model, over(model, unanswered=unanswered))
    for part, gradient in found._asdict().items():
        assert gradient.shape == getattr(model, part).shape
        expected = np.zeros(gradient.shape)
        for index in np.ndindex(gradient.shape):
            # The first threshold stays where it is put, so its slope counts as zero.
            if part != "cutpoints" or index[1] > 0:
                expected[index] = slope(model, part, index, unanswered)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8, err_msg=part)
        assert np.abs(gradient).max() > 1e-2  # there is something to agree about


def test_gradient_equals_the_oracle():
    model = vector_model(seed=9)
    found = likelihood.exact_gradient(model, over(model))
    judge = as_oracle(model)
    parts = [oracle.gradient(judge, row) for row in oracle_rows(PATTERNS)]
    for name, of_oracle in (
        ("weights", "weights"),
        ("bias", "alpha"),
        ("factor_bias", "gamma"),
    ):
        expected = np.sum([getattr(part, of_oracle) for part in parts], axis=0)
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-9, atol=1e-11)
    for i, levels in enumerate(model.n_levels):
        at_thresholds = np.sum([part.thresholds[i] for part in parts], axis=0)
        # Step m moves the thresholds from its own upwards.
        for m in range(1, levels - 1):
            expected = np.exp(model.cutpoints[i, m]) * at_thresholds[m:].sum()
            assert found.cutpoints[i, m] == pytest.approx(expected, rel=1e-9, abs=1e-11)
    unused = np.arange(model.cutpoints.shape[1]) >= model.n_levels[:, None] - 1
    np.testing.assert_array_equal(found.cutpoints[unused], 0.0)


# What cannot be enumerated


@pytest.mark.parametrize(("n_factors", "units"), [(17, 1), (3, 255)])
def test_too_many_states_are_refused_with_the_remedy(n_factors, units):
    model = vector_model(n_factors=n_factors, units=units)
    with pytest.raises(ValueError, match=r"states.*Use method='ais'|states.*use method='ais'"):
        likelihood.exact(model, over(model))

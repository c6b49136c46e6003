"""Annealed importance sampling against the sums that it estimates."""

import enumeration as oracle
import numpy as np
import pytest
from hand_made_models import PATTERNS, as_oracle, observed, vector_model

from ordinalrbm.vector import likelihood
from ordinalrbm.vector.model import complete_rows, side

# Rows with the same answers are independent estimates of the same number.
REPEATS = 40


def exact_log_partition(model):
    """Of a row that has answered every question, whatever the answers are."""
    row = oracle.row_of(dict.fromkeys(range(model.bias.size), 0))
    return oracle.log_free_partition(as_oracle(model), row)


def ten_models():
    generator = np.random.default_rng(0)
    for seed in range(10):
        n_levels = generator.choice([2, 3, 5, 7], size=generator.integers(4, 12))
        yield vector_model(
            seed, n_levels, n_factors=int(generator.integers(2, 9)), scale=generator.uniform(0.2, 0.8)
        )


@pytest.mark.parametrize("model", list(ten_models()), ids=lambda m: f"K{m.n_factors}-N{m.bias.size}")
def test_log_partition_is_within_a_tenth_of_a_nat(model):
    this = side(model, complete_rows(model, REPEATS))
    exact = exact_log_partition(model)
    found = likelihood.log_partition(model, this, seed=0)
    error = np.abs(found.value - exact)
    assert error[0] < 0.1
    assert np.mean(error < 0.1) >= 0.9
    # Not a single number stands for all rows: the estimates differ as their errors say.
    spread = found.value.std(ddof=1)
    typical = np.sqrt(np.mean(found.standard_error**2))
    assert 0.6 < typical / spread < 1.7
    assert abs(found.value.mean() - exact) < 4 * spread / np.sqrt(REPEATS) + 0.005


@pytest.mark.parametrize(("units", "unanswered"), [(1, "absent"), (1, "latent"), (3, "absent")])
def test_annealed_log_likelihood_is_close_to_exact(units, unanswered):
    model = vector_model(seed=21, n_factors=4, scale=0.6 / np.sqrt(units), units=units)
    repeats = 16
    this = side(model, observed(np.repeat(PATTERNS, repeats, axis=0)), unanswered)
    exact = likelihood.exact(model, this).value
    found = likelihood.annealed(model, this, seed=1, n_temperatures=250)
    error = (found.value - exact).reshape(len(PATTERNS), repeats)
    assert np.abs(error).max() < 0.1
    spread = error.std(axis=1, ddof=1)
    assert (np.abs(error.mean(axis=1)) <= 4 * spread / np.sqrt(repeats) + 0.005).all()
    # A row from which every column is absent has nothing to estimate.
    some = np.array([True] * 5 + [unanswered == "latent"])
    np.testing.assert_allclose(error[~some], 0.0, atol=1e-12)
    claimed = found.standard_error.reshape(error.shape)[some]
    ratio = np.sqrt(np.mean(claimed**2) / np.mean(spread[some] ** 2))
    assert 0.6 < ratio < 1.6


def test_more_temperatures_and_chains_make_smaller_errors():
    model = vector_model(seed=22, n_factors=8, scale=0.7)
    this = side(model, complete_rows(model, REPEATS))
    exact = exact_log_partition(model)

    def size_of_error(**effort):
        return np.std(likelihood.log_partition(model, this, seed=2, **effort).value - exact)

    usual = size_of_error(n_temperatures=100, n_chains=8)
    assert size_of_error(n_temperatures=1000, n_chains=8) < 0.7 * usual
    assert size_of_error(n_temperatures=100, n_chains=64) < 0.6 * usual


def test_estimates_repeat_with_the_seed():
    model = vector_model()
    this = side(model, observed(PATTERNS))
    first, again, other = (
        likelihood.annealed(model, this, seed, n_temperatures=20, n_chains=4).value for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other)[:-1].all()

"""Likelihoods and factors of the paper's matrix model, as users call them."""

import copy

import numpy as np
import pandas as pd
import pytest
import small_matrices

import ordinalrbm as orbm
from ordinalrbm.errors import DataError

RATINGS = pd.DataFrame(
    {
        "user": ["ann", "ann", "bob", "bob", "cy", "di", "di"],
        "item": ["tea", "milk", "tea", "cake", "milk", "tea", "cake"],
        "rating": [5, 1, 4, 2, 3, 1, 4],
    }
)


@pytest.fixture(scope="module")
def model():
    return orbm.MatrixCumulativeRBM(2, 1, n_epochs=5, random_state=0).fit(RATINGS)


def test_estimates_are_near_the_exact_numbers(model):
    for of in ("matrix", "users", "items"):
        exact = model.log_likelihood(of=of)
        value, error = model.log_likelihood(of=of, method="ais", return_std=True, random_state=0)
        assert np.all(np.abs(value - exact) <= 4.0 * np.asarray(error) + 1e-6), of


def test_ratings_given_are_those_that_count(model):
    assert model.log_likelihood(RATINGS) == model.log_likelihood()
    assert model.log_likelihood(RATINGS[:3]) > model.log_likelihood()
    per_user = model.log_likelihood(RATINGS[:3], of="users")
    assert per_user.shape == (4,)
    np.testing.assert_array_equal(per_user[2:], 0.0)


def test_unknown_users_are_refused(model):
    stranger = pd.DataFrame({"user": ["ann", "eve"], "item": ["tea", "tea"], "rating": [1, 2]})
    with pytest.raises(DataError, match=r"Rating 1 .* unknown user .* fold_in\(\)"):
        model.log_likelihood(stranger)
    with pytest.raises(DataError, match="'eve' is not known"):
        model.transform(["ann", "eve"])


def test_factors_are_the_posterior_of_the_final_parameters(model):
    """As enumerated; what was tracked in learning is further away, and does not know it."""
    dense = model.ratings_.observations.to_dense()
    every = small_matrices.states(2)
    enumerated = np.array(
        [small_matrices.row_posterior(model.model_, dense, d) @ every for d in range(len(dense))]
    )
    np.testing.assert_allclose(model.transform(), enumerated, atol=0.02)
    other = copy.copy(model)
    half = model.model_.by_rows._replace(factors=1.0 - model.model_.by_rows.factors)
    other.model_ = model.model_._replace(by_rows=half)
    np.testing.assert_array_equal(other.transform(), model.transform())
    np.testing.assert_allclose(model.transform(["cy", "ann"]), model.transform()[[2, 0]], atol=1e-6)
    wider = model.fold_in((["eve", "eve"], ["tea", "cake"], [5, 5]))
    assert wider.transform("eve").shape == (1, 2)


def test_a_model_without_factors_of_items_has_likelihoods_too():
    ratings = small_matrices.simulated(12, 6)
    model = small_matrices.small(3, 0).fit(ratings)
    together, users = model.log_likelihood(), model.log_likelihood(of="users")
    assert together == pytest.approx(users.sum(), abs=1e-8)

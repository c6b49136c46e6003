"""Likelihoods, made-up ratings and chains of the paper's matrix model, as users call them."""

import copy

import numpy as np
import pandas as pd
import pytest
import small_matrices

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.errors import DataError
from ordinalrbm.matrix import likelihood

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


@pytest.mark.parametrize("call", ["log_likelihood", "sample_factors"])
def test_unknown_users_are_refused(model, call):
    stranger = pd.DataFrame({"user": ["ann", "eve"], "item": ["tea", "tea"], "rating": [1, 2]})
    with pytest.raises(DataError, match=r"Rating 1 .* unknown user .* fold_in\(\)"):
        getattr(model, call)(stranger)
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


def test_made_up_ratings_are_of_the_cells_asked_for(model):
    found = model.sample(random_state=1)
    pd.testing.assert_frame_equal(
        found[["user", "item"]].sort_values(["user", "item"], ignore_index=True),
        RATINGS[["user", "item"]].sort_values(["user", "item"], ignore_index=True),
    )
    assert found["rating"].isin([1, 2, 3, 4, 5]).all()
    pd.testing.assert_frame_equal(found, model.sample(random_state=1))
    few = model.sample(["ann", "di"], ["cake", "milk"], random_state=1)
    assert few[["user", "item"]].to_numpy().tolist() == [["ann", "cake"], ["di", "milk"]]
    with pytest.raises(DataError, match="unknown item"):
        model.sample(["ann"], ["beer"])


def test_made_up_ratings_have_the_probabilities_of_the_model():
    """Levels of two cells that share a user, counted over many draws, against the exact sums."""
    ratings = (["a", "a", "b"], ["x", "y", "x"], [1, 2, 3])
    model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=5, random_state=1, scale=[1, 2, 3]).fit(ratings)
    n_draws = 4000
    cells = Observations.from_dense([[0, 0], [-1, -1]], 3)
    wide, copies = likelihood.repeated(model.model_, cells, n_draws)
    level = likelihood.sample_levels(wide, copies, seed=0, n_steps=20).reshape(n_draws, 2)
    counts = np.bincount(3 * level[:, 0] + level[:, 1], minlength=9).reshape(3, 3)
    expected = np.exp(
        [[model.log_likelihood((["a", "a"], ["x", "y"], [v, w])) for w in (1, 2, 3)] for v in (1, 2, 3)]
    )
    assert expected.sum() == pytest.approx(1.0)
    assert ((counts - n_draws * expected) ** 2 / (n_draws * expected)).sum() < 26.1  # 0.001 of χ²(8)


def test_chains_can_be_diagnosed(model):
    arviz = pytest.importorskip("arviz")
    found = model.sample_factors(n_draws=200, random_state=0)
    assert found.posterior["user_factors"].shape == (4, 200, 4, 2)
    assert found.posterior["item_factors"].shape == (4, 200, 3, 1)
    assert float(arviz.rhat(found)["user_factors"].max()) < 1.05
    few = model.sample_factors(users="ann", items=[], n_draws=5, random_state=0)
    assert few.posterior["user_factors"].shape == (4, 5, 1, 2)


def test_a_model_without_factors_of_items_has_likelihoods_too():
    ratings = small_matrices.simulated(12, 6)
    model = small_matrices.small(3, 0).fit(ratings)
    together, users = model.log_likelihood(), model.log_likelihood(of="users")
    assert together == pytest.approx(users.sum(), abs=1e-8)
    assert len(model.sample(random_state=0)) == len(model.ratings_.to_frame())

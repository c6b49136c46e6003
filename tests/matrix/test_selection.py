"""Ratings of items that were not chosen, against simulated truth."""

import numpy as np
import pytest

import ordinalrbm as orbm
from ordinalrbm.errors import DataError
from ordinalrbm.estimators import selection
from ordinalrbm.estimators.selection import _HeldOut, _most_likely

USERS, ITEMS, PULL = 400, 80, 2.0


@pytest.fixture(scope="module")
def world():
    """Ratings of all cells, and which were chosen: the more liked, the more often."""
    rng = np.random.default_rng(5)
    tastes, traits = rng.normal(size=(USERS, 2)), rng.normal(size=(ITEMS, 2))
    utility = 0.5 * rng.normal(size=ITEMS) + 0.5 * tastes @ traits.T + rng.normal(size=(USERS, ITEMS))
    ratings = 1 + np.digitize(utility, [-1.2, -0.4, 0.4, 1.2])
    weight = np.exp(PULL * (ratings - 1) / 4 + 0.7 * rng.normal(size=ITEMS))
    return ratings, rng.random(ratings.shape) < 0.15 * weight / weight.mean()


@pytest.fixture(scope="module")
def fitted(world):
    ratings, is_chosen = world
    users, items = np.nonzero(is_chosen)
    model = orbm.OrdinalMF(4, n_epochs=8, demand_factors=8, random_state=0)
    return model.fit((users, items, ratings[is_chosen])).learn_selection()


def test_everyone_is_nearer_to_the_truth_where_nothing_was_chosen(world, fitted):
    ratings, is_chosen = world
    users, items = np.nonzero(~is_chosen)
    truth = ratings[~is_chosen]
    error = fitted.predict(users, items) - truth
    corrected = fitted.predict(users, items, population="everyone") - truth
    assert error.mean() > 0.3
    assert abs(corrected.mean()) < 0.5 * error.mean()
    assert (corrected**2).mean() < (error**2).mean()


def test_numbers_of_a_known_selection_are_found():
    rng, n, n_items, n_levels = np.random.default_rng(1), 4_000, 17, 5
    everyone = rng.dirichlet(np.ones(n_levels), size=(n, n_items))
    values, share = np.linspace(-0.5, 0.5, n_levels), np.log(rng.random((n, n_items)))
    demand, choice, slope = rng.normal(size=(n, n_items)), 1.5, 0.8
    tilted = everyone * np.exp(choice * values)
    weight = tilted.sum(axis=2) * np.exp(0.5 * share + 0.7 * demand)
    # Gumbel noise: the largest is chosen with a chance in proportion to its weight.
    chosen = np.argmax(np.log(weight) + rng.gumbel(size=weight.shape), axis=1)
    order = np.tile(np.arange(n_items), (n, 1))
    order[np.arange(n), chosen], order[:, 0] = 0, chosen

    def placed(array):
        return array[np.arange(n)[:, None], order]

    of_choosers = placed(tilted / tilted.sum(axis=2, keepdims=True))
    cumulated = of_choosers[:, 0].cumsum(axis=1)
    level = (rng.random(n)[:, None] > cumulated[:, :-1]).sum(axis=1)
    predicted = of_choosers * np.exp(-(0.3 + slope * placed(share))[..., None] * values)
    predicted /= predicted.sum(axis=2, keepdims=True)
    is_option = np.ones(order.shape, dtype=bool)
    values = np.broadcast_to(values, predicted.shape)
    found = _most_likely(_HeldOut(level, predicted, values, placed(share), placed(demand), is_option))
    np.testing.assert_allclose(found, (0.3, slope, choice), atol=0.15)


def test_without_a_selection_nothing_changes(fitted):
    none = selection.Selection(fitted.selection_.quantiles, 0.0, 0.0, 0.0)
    cells, model = ([0, 1, 999], [3, 999, 5]), orbm.OrdinalMF()
    model.__dict__ = {**fitted.__dict__, "selection_": none}
    np.testing.assert_allclose(
        model.predict_proba(*cells, population="everyone"), model.predict_proba(*cells), atol=1e-12
    )


def test_selection_is_in_files_and_in_what_comes_of_the_model(fitted, tmp_path):
    cells = ([0, 1, 999], [3, 999, 5])
    expected = fitted.predict_proba(*cells, population="everyone")
    np.testing.assert_allclose(expected.sum(axis=1), 1.0)
    fitted.save(tmp_path / "model.orbm")
    again = orbm.load(tmp_path / "model.orbm")
    np.testing.assert_array_equal(again.predict_proba(*cells, population="everyone"), expected)
    wider = fitted.fold_in(([777, 777], [3, 5], [1, 5]))
    assert wider.predict([777], [4], population="everyone").shape == (1,)


def test_what_has_not_been_learnt_is_said():
    ratings = (np.arange(60) // 6, np.arange(60) % 6, 1 + np.arange(60) % 5)
    model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
    with pytest.raises(DataError, match="call learn_selection"):
        model.predict([1], [2], population="everyone")
    with pytest.raises(DataError, match="needs 200 ratings"):
        model.learn_selection()
    with pytest.raises(ValueError, match="population"):
        model.predict_proba([1], [2], population="all")
    gaussian = orbm.GaussianMF(2, n_epochs=2, random_state=0).fit(ratings)
    with pytest.raises(DataError, match="GaussianMF predicts ratings of those who choose"):
        gaussian.predict([1], [2], population="everyone")

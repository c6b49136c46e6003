"""Rows and columns of which nothing is known, and models in the order of the ids."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from small_matrices import MODELS, learnt, random_model

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells
from ordinalrbm.matrix import cold_start
from ordinalrbm.matrix.cold_start import cutpoints_by_levels
from ordinalrbm.matrix.predict import probabilities

KINDS = ("matrix", "ordinal", "ordinal point", "gaussian", "multinomial")


def cells(row, column):
    row, column = np.broadcast_arrays(row, column)
    return Cells(row.copy(), column.copy(), np.zeros(row.size, np.int8))


@pytest.mark.parametrize("name", KINDS)
def test_all_that_is_known_stays(name):
    model = learnt(name).model_
    wider = model.with_unknown()
    some = cells(np.arange(50), np.arange(50))
    np.testing.assert_array_equal(probabilities([wider], some), probabilities([model], some))
    # The unknown are the last, wherever they are asked for.
    for row, column in ((-1, 3), (3, -1), (-1, -1)):
        last = cells([row % 121], [column % 51])
        unknown = probabilities([model], cells([row], [column]))
        np.testing.assert_array_equal(probabilities([wider], last), unknown)


@pytest.mark.parametrize("name", ["ordinal", "ordinal point", "gaussian"])
def test_an_unknown_row_is_the_average_and_as_far_from_it_as_anybody(name):
    model = learnt(name).model_
    for side, known in (("rows", model.rows), ("columns", model.columns)):
        wider = getattr(model.with_unknown(), side)
        mean = known.mean.mean(axis=0)
        np.testing.assert_allclose(wider.mean[-1], mean, atol=1e-6)
        np.testing.assert_allclose(wider.cutpoints[-1], known.cutpoints.mean(axis=0), atol=1e-12)
        away = np.mean((known.mean - mean) ** 2 + known.variance, axis=0)
        if name == "ordinal point":
            away = 0.0
        np.testing.assert_allclose(wider.variance[-1], away, atol=1e-6)


def test_an_unknown_row_meets_usual_factors():
    """Binary factors: no weights of its own, and the bias that the others have on the whole."""
    model = learnt("matrix").model_
    for half, wider in zip(model[:2], model.with_unknown()[:2], strict=True):
        factors = half.factors.mean(axis=0)
        np.testing.assert_allclose(wider.factors[-1], factors, rtol=1e-6)
        np.testing.assert_array_equal(wider.weights[-1], 0.0)
        assert wider.bias[-1] == pytest.approx(np.mean(half.bias + half.weights @ factors), abs=1e-6)
    multinomial = learnt("multinomial").model_
    np.testing.assert_allclose(
        multinomial.with_unknown().factors[-1], expit(multinomial.factor_bias), rtol=1e-6
    )


def test_an_unknown_column_on_a_scale_is_like_those_on_it():
    model = random_model([5, 3, 5, 3, 2], 6, 2, 2)
    for levels, alike in ((3, [1, 3]), (5, [0, 2]), (2, [4])):
        wider = model.with_unknown(n_levels=levels)
        assert wider.n_levels.tolist() == [5, 3, 5, 3, 2, levels]
        usual = model.column_cutpoints[alike].mean(axis=0)
        np.testing.assert_allclose(wider.column_cutpoints[-1], usual)
        found = probabilities([wider], cells([0], [5]))[0]
        assert (found > 0).sum() == levels


def test_usual_cutpoints_of_each_scale():
    cutpoints = np.arange(12.0).reshape(4, 3)
    found = cutpoints_by_levels(cutpoints, np.array([4, 3, 4, 3]))
    assert found.shape == (5, 3)
    np.testing.assert_array_equal(found[4], cutpoints[[0, 2]].mean(axis=0))
    np.testing.assert_array_equal(found[3], cutpoints[[1, 3]].mean(axis=0))
    np.testing.assert_array_equal(found[2], cutpoints.mean(axis=0))


# ---- in the order of the ids --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["matrix", "ordinal", "gaussian"])
def test_the_order_is_restored(name):
    """Two rows and a column were not learnt; they are unknown."""
    model = learnt(name).model_
    rng = np.random.default_rng(0)
    rows = np.insert(rng.permutation(120), [3, 70], -1)
    columns = np.insert(rng.permutation(50), 10, -1)
    found = model.reordered(rows, columns, np.full(51, 5))
    assert (found.n_rows, found.n_columns) == (122, 51)
    row, column = rng.integers(0, 122, 200), rng.integers(0, 51, 200)
    np.testing.assert_allclose(
        probabilities([found], cells(row, column)),
        probabilities([model], cells(rows[row], columns[column])),
        atol=1e-8,
    )


# ---- unknown items ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*KINDS, "sampled"])
def test_an_unknown_item_is_expected_to_be_rated_as_the_average_rating(name):
    """Items that few have rated are worse, as elsewhere: they say little about a rating to come."""
    rng = np.random.default_rng(0)
    many = np.arange(60) < 20
    user, item = np.nonzero(rng.random((150, 60)) < np.where(many, 0.6, 0.06))
    rating = np.clip(np.where(many[item], 4, 2) + rng.integers(-1, 2, user.size), 1, 5)
    model = MODELS[name]().fit((user, item, rating))
    of_items = np.mean([rating[item == i].mean() for i in range(60)])
    assert rating.mean() - of_items > 0.7
    found = model.predict(user, np.full(user.size, 999)).mean()
    assert found == pytest.approx(rating.mean(), abs=0.3)
    assert model.predict(-1, 999) == pytest.approx(rating.mean(), abs=0.3)


@pytest.mark.parametrize("name", KINDS)
def test_an_unknown_item_is_rated_as_the_user_has_rated(name):
    """Mild and strict users rate different items, so that items seem to tell the whole story."""
    rng = np.random.default_rng(0)
    is_mild = np.arange(200) < 60
    user, item = np.nonzero(rng.random((200, 400)) < 0.3)
    own = is_mild[user] == (item < 200)
    user, item = user[own], item[own]
    rating = np.clip(np.where(is_mild[user], 4, 2) + rng.integers(-1, 2, user.size), 1, 5)
    model = MODELS[name]().fit((user, item, rating))
    found = model.predict(np.arange(200), np.full(200, 999))
    means = np.bincount(user, rating, 200) / np.bincount(user, minlength=200)
    before = np.abs(rating.mean() - means).mean()
    assert np.abs(found - means).mean() < 0.75 * before


def test_raters_of_an_unknown_item_are_expected_to_give_levels_as_often_as_they_were_given():
    rng = np.random.default_rng(3)
    users, items = np.divmod(rng.choice(60 * 25, 700, replace=False), 25)
    # Ratings are skewed, and users rate what they like.
    rating = np.clip(np.round(4.2 + 0.8 * rng.standard_normal(60)[users] - 1.5 * rng.random(700) ** 2), 1, 5)
    model = orbm.OrdinalMF(2, n_epochs=5, demand_factors=0, random_state=0).fit((users, items, rating))
    counts = np.bincount(users, minlength=60)
    frequencies = np.array([(rating == level).sum() for level in model.scales_.values])
    expected = model._of_models(Cells(np.arange(60), np.full(60, -1), np.zeros(60, np.int8)))
    ratios = cold_start.level_ratios(expected, counts, frequencies)
    found = np.average(cold_start.with_ratios(expected, ratios), axis=0, weights=counts)
    np.testing.assert_allclose(found, frequencies / frequencies.sum(), atol=0.003)
    before = np.average(expected, axis=0, weights=counts)
    assert np.abs(before - frequencies / frequencies.sum()).max() > 0.01
    # And so do predictions, which are between these and how often the user gave each level.
    shown = model.predict_proba(np.arange(60), 99)
    np.testing.assert_allclose(np.average(shown, axis=0, weights=counts), frequencies / 700, atol=0.003)


def test_an_unknown_item_is_rated_by_the_level_of_the_users_drift():
    users, items = np.repeat(np.arange(30), 32), np.tile(np.arange(32), 30)
    order = np.random.default_rng(0).permuted(np.tile(np.arange(32), (30, 1)), axis=1).ravel()
    rating = 1 + (order >= 16) + 2 * (order >= 24)  # they become kinder
    table = pd.DataFrame({"user": users, "item": items, "rating": rating, "timestamp": order})
    model = orbm.OrdinalMF(1, demand_factors=0, random_state=0).fit(table)
    early, late = model.predict([3, 3], [99, 99], times=[0, 31])
    assert early < late - 0.3

"""Predictions of single ratings against the formula, also of the unknown and on several scales."""

import copy

import numpy as np
import pandas as pd
import pytest
from small_matrices import MODELS, cell_probabilities, learnt, on_any_scales, simulated, small

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells
from ordinalrbm.matrix.model import MatrixModel
from ordinalrbm.matrix.predict import log_probability


@pytest.fixture(params=MODELS)
def model(request):
    return learnt(request.param)


def test_probabilities_follow_the_formula(model):
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 120, 30), rng.integers(0, 50, 30)
    found = model.predict_proba(model.users_.labels[rows], model.items_.labels[columns])
    assert found.shape == (30, 5)
    assert sum(one.share for one in model.models_) == pytest.approx(1.0)
    for p, d, i in zip(found, rows, columns, strict=True):
        expected = sum(one.share * cell_probabilities(one, d, i) for one in model.models_)
        np.testing.assert_allclose(p, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


def unsure(one):
    """Twice as wide, and half as sure of binary factors."""
    return one._replace(gains=np.array([0.5, 1.5, 2.0])) if isinstance(one, MatrixModel) else one


def test_gains_count(model):
    changed = copy.copy(model)
    changed.models_ = [unsure(one) for one in model.models_]
    found = changed.predict_proba(model.users_.labels[5], model.items_.labels[:9])
    for i, p in enumerate(found):
        expected = sum(one.share * cell_probabilities(one, 5, i) for one in changed.models_)
        np.testing.assert_allclose(p, expected, atol=1e-6)
    best = changed.recommend(model.users_.labels[5], n=50, score="liked", exclude_seen=False)
    means = dict(zip(model.items_.labels[:9], found[:, 3:].sum(axis=1), strict=True))
    for item, score in zip(best["item"], best["score"], strict=True):
        assert score == pytest.approx(means.get(item, score), abs=1e-5)


def test_one_id_stands_for_all(model):
    many = model.predict(["u1"] * 3, ["i1", "i2", "i3"])
    np.testing.assert_array_equal(model.predict("u1", ["i1", "i2", "i3"]), many)
    np.testing.assert_allclose(model.predict(["u1"], "i2"), many[1:2], rtol=1e-14)
    assert np.ndim(model.predict("u1", "i2")) == 0
    assert model.predict("u1", "i2") == pytest.approx(many[1], rel=1e-14)
    assert model.predict_proba([], []).shape == (0, 5)
    for rule in ("mean", "mode", "median"):
        assert model.predict([], [], rule=rule).shape == (0,)


def test_the_unknown_are_predicted_from_what_is_known(model):
    ratings = simulated()
    users, items = model.users_.labels, model.items_.labels
    of_items = model.predict("nobody", items)
    means = ratings.groupby("item")["rating"].mean().loc[items]
    assert np.corrcoef(of_items, means)[0, 1] > 0.8
    of_users = model.predict(users, "nothing")
    means = ratings.groupby("user")["rating"].mean().loc[users]
    # A multinomial unit has nothing of the user's own but factors.
    least = 0.25 if isinstance(model, orbm.MultinomialRBM) else 0.8
    assert np.corrcoef(of_users, means)[0, 1] > least
    nothing = model.predict("nobody", "nothing")
    assert abs(nothing - ratings["rating"].mean()) < 0.3
    # Others in the same call do not matter.
    together = model.predict(["nobody", users[0]], [items[3], "nothing"])
    np.testing.assert_allclose(together, [of_items[3], of_users[0]], rtol=1e-6)


def test_an_impossible_level_does_not_cost_infinity():
    model = learnt("ordinal").model_
    mean = model.columns.mean.copy()
    mean[:, 0] += 1e4
    far = model._replace(columns=model.columns._replace(mean=mean))
    found = log_probability([far], Cells(np.zeros(1, int), np.zeros(1, int), np.zeros(1, int)))
    assert found[0] == pytest.approx(np.log(1e-12))


SCALES = {"i0": ["bad", "good"], "i1": list("abcdefg")}


def with_own_scales():
    """Two items have scales of their own, in words; the others 1..5 in words too."""
    ratings = simulated()
    words = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
    text = ratings["rating"].map(words).astype(object)
    for item, labels in SCALES.items():
        of_item = ratings["item"] == item
        text[of_item] = np.array(labels, dtype=object)[
            np.minimum(ratings.loc[of_item, "rating"] - 1, len(labels) - 1)
        ]
    return ratings.assign(rating=text), list(words.values())


@on_any_scales
def test_items_with_scales_of_their_own(make):
    ratings, words = with_own_scales()
    model = make(scale=words, item_scales=SCALES)
    unknown = pd.DataFrame({"user": ["u1", "new"], "item": ["new", "i1"], "rating": ["one", "g"]})
    model.fit(ratings[40:], pd.concat([ratings[:40], unknown]))
    assert np.isfinite(model.history_["validation"]).all()
    p = model.predict_proba("u5", ["i0", "i1", "i2", "new"])
    assert p.shape == (4, 7)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert (p > 0).sum(axis=1).tolist() == [2, 7, 5, 5]  # an unknown item has the common scale
    means = model.predict("u5", ["i0", "i1", "i2", "new"])
    np.testing.assert_allclose(means, p @ np.arange(1, 8))
    modes = model.predict("u5", ["i0", "i1", "i2", "new"], rule="mode")
    for mode, labels in zip(modes, [*SCALES.values(), words, words], strict=True):
        assert mode in labels
    best = model.recommend(["u5", "nobody"], n=50, score="rating", exclude_seen=False)
    assert best["score"].between(0, 1).all()
    share = dict(zip(best["item"][:50], best["score"][:50], strict=True))
    assert share["i1"] == pytest.approx((means[1] - 1) / 6, abs=1e-5)
    assert share["i2"] == pytest.approx((means[2] - 1) / 4, abs=1e-5)


@on_any_scales
def test_numbers_on_several_scales(make):
    ratings = simulated()
    half = ratings["item"].isin(["i3", "i4"])
    ratings["rating"] = ratings["rating"].astype(float).where(~half, ratings["rating"] / 2)
    halves = [0.5, 1.0, 1.5, 2.0, 2.5]
    model = make(item_scales={"i3": halves, "i4": halves}).fit(ratings)
    assert model.predict("u1", "i3") <= 2.5
    assert model.predict(["u1", "u2"], ["i3", "i5"], rule="mode").dtype == np.float64


@on_any_scales
def test_no_common_scale(make):
    """Each item has its own; an unknown one gets the longest."""
    frame = pd.DataFrame(
        {"user": [1, 2, 3, 1, 2, 3], "item": [1, 1, 1, 2, 2, 2], "rating": [1, 2, 2, 1, 2, 3]}
    )
    model = make(item_scales={1: [1, 2], 2: [1, 2, 3]})
    with pytest.warns(UserWarning, match="1 of 2 validation ratings are not used"):
        model.fit(frame, validation=([3, 1], [2, 77], [2, 3]))
    assert np.isfinite(model.history_["validation"]).all()
    p = model.predict_proba([1, 9], [5, 5])
    assert p.shape == (2, 3)
    assert (p > 0).all()


@on_any_scales
def test_validation_on_a_common_scale_that_no_known_item_has(make):
    """Of its highest level nothing was learnt; also where there are items that nobody has rated."""
    ratings, scales = ([1, 1, 2], ["a", "b", "a"], [1, 2, 2]), {"a": [1, 2], "b": [1, 2, 3]}
    model = make(scale=[1, 2, 3, 4], item_scales=scales)
    with pytest.warns(UserWarning, match="1 of 2 validation ratings are not used"):
        model.fit(ratings, validation=([2, 2], ["new", "b"], [4, 3]))
    assert np.isfinite(model.history_["validation"]).all()


def test_an_unknown_item_is_on_no_longer_scale_than_the_known_ones():
    """Nothing is learnt of levels that no item has; kernels have no room for them."""
    ratings = simulated(n_users=20, n_items=8)
    own = {item: [1, 2, 3, 4, 5] for item in ratings["item"].unique()}
    model = small(scale=list(range(1, 10)), item_scales=own, n_epochs=2).fit(ratings)
    assert model.predict_proba("u1", ["i1", "new"]).shape == (2, 5)

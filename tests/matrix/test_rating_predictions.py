"""Predictions of single ratings against the formula, also of strangers and on several scales."""

import copy

import numpy as np
import pandas as pd
import pytest
from small_matrices import FACTORS, LABELS, cell_probabilities, for_both, simulated, small


@pytest.fixture(scope="module", params=FACTORS)
def model(request):
    return small(n_averaged=2, factors=request.param).fit(simulated())


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


def test_gains_and_doubts_count(model):
    """Twice as wide, half as sure of factors: still by the formula."""
    changed = copy.copy(model)
    gains = np.array([0.5, 1.5, 2.0])
    changed.models_ = [one._replace(gains=gains) for one in model.models_]
    found = changed.predict_proba(model.users_.labels[5], model.items_.labels[:9])
    for i, p in enumerate(found):
        expected = sum(one.share * cell_probabilities(one, 5, i) for one in changed.models_)
        np.testing.assert_allclose(p, expected, atol=1e-6)
    best = changed.recommend(model.users_.labels[5], n=50, exclude_seen=False)
    means = dict(zip(model.items_.labels[:9], found @ LABELS, strict=True))
    for item, score in zip(best["item"], best["score"], strict=True):
        assert score == pytest.approx(means.get(item, score), abs=1e-5)


def test_points_follow_from_the_distributions(model):
    users, items = ["u3", "u7", "nobody"], ["i1", "i4", "i4"]
    p = model.predict_proba(users, items)
    np.testing.assert_allclose(model.predict(users, items), p @ LABELS)
    np.testing.assert_array_equal(
        model.predict(users, items, rule="mode"), LABELS[p.argmax(axis=1)]
    )
    np.testing.assert_array_equal(
        model.predict(users, items, rule="median"), LABELS[(p.cumsum(axis=1) < 0.5).sum(axis=1)]
    )


def test_one_id_stands_for_all(model):
    many = model.predict(["u1"] * 3, ["i1", "i2", "i3"])
    np.testing.assert_array_equal(model.predict("u1", ["i1", "i2", "i3"]), many)
    np.testing.assert_array_equal(model.predict(["u1"], "i2"), many[1:2])
    np.testing.assert_array_equal(model.predict("u1", "i2"), many[1:2])
    assert model.predict_proba([], []).shape == (0, 5)


def test_strangers_are_predicted_from_what_is_known(model):
    ratings = simulated()
    users, items = model.users_.labels, model.items_.labels
    of_items = model.predict("nobody", items)
    means = ratings.groupby("item")["rating"].mean().loc[items]
    assert np.corrcoef(of_items, means)[0, 1] > 0.8
    of_users = model.predict(users, "nothing")
    means = ratings.groupby("user")["rating"].mean().loc[users]
    assert np.corrcoef(of_users, means)[0, 1] > 0.8
    nothing = model.predict("nobody", "nothing")[0]
    assert abs(nothing - ratings["rating"].mean()) < 0.3
    # Others in the same call do not matter.
    together = model.predict(["nobody", users[0]], [items[3], "nothing"])
    np.testing.assert_allclose(together, [of_items[3], of_users[0]], rtol=1e-6)


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


@for_both
def test_items_with_scales_of_their_own(factors):
    ratings, words = with_own_scales()
    model = small(scale=words, item_scales=SCALES, factors=factors).fit(ratings)
    p = model.predict_proba("u5", ["i0", "i1", "i2", "new"])
    assert p.shape == (4, 7)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert (p > 0).sum(axis=1).tolist() == [2, 7, 5, 5]  # an unknown item has the common scale
    means = model.predict("u5", ["i0", "i1", "i2", "new"])
    np.testing.assert_allclose(means, p @ np.arange(1, 8))
    modes = model.predict("u5", ["i0", "i1", "i2", "new"], rule="mode")
    for mode, labels in zip(modes, [*SCALES.values(), words, words], strict=True):
        assert mode in labels
    best = model.recommend(["u5", "nobody"], n=50, exclude_seen=False)
    assert best["score"].between(0, 1).all()
    share = dict(zip(best["item"][:50], best["score"][:50], strict=True))
    assert share["i1"] == pytest.approx((means[1] - 1) / 6, abs=1e-5)
    assert share["i2"] == pytest.approx((means[2] - 1) / 4, abs=1e-5)


@for_both
def test_numbers_on_several_scales(factors):
    ratings = simulated()
    half = ratings["item"].isin(["i3", "i4"])
    ratings["rating"] = ratings["rating"].astype(float).where(~half, ratings["rating"] / 2)
    halves = [0.5, 1.0, 1.5, 2.0, 2.5]
    model = small(item_scales={"i3": halves, "i4": halves}, factors=factors).fit(ratings)
    assert model.predict("u1", "i3")[0] <= 2.5
    assert model.predict(["u1", "u2"], ["i3", "i5"], rule="mode").dtype == np.float64


@for_both
def test_no_common_scale(factors):
    """Each item has its own; an unknown one gets the longest."""
    frame = pd.DataFrame(
        {"user": [1, 2, 3, 1, 2, 3], "item": [1, 1, 1, 2, 2, 2], "rating": [1, 2, 2, 1, 2, 3]}
    )
    model = small(item_scales={1: [1, 2], 2: [1, 2, 3]}, factors=factors).fit(frame)
    p = model.predict_proba([1, 9], [5, 5])
    assert p.shape == (2, 3)
    assert (p > 0).all()

"""Predictions of single ratings against the formula, also of strangers and on several scales."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from small_matrices import LABELS, cell_ends, simulated, small


@pytest.fixture(scope="module")
def model():
    return small(n_averaged=2, factors="binary").fit(simulated())


def by_formula(model, d, i):
    """The distribution of one rating: see the docstring of MatrixModel."""
    own, other, _, gains = model
    h, g = (0.5 + gain * (half.factors - 0.5) for gain, half in zip(gains, model[:2], strict=False))
    mean = own.bias[i] + other.bias[d] + own.weights[i] @ h[d] + other.weights[d] @ g[i]
    return np.diff(norm.cdf((cell_ends(model, d, i) - mean) / gains[2]))


def test_probabilities_follow_the_formula(model):
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 120, 30), rng.integers(0, 50, 30)
    found = model.predict_proba(model.users_.labels[rows], model.items_.labels[columns])
    assert found.shape == (30, 5)
    assert len(model.models_) == 2
    for p, d, i in zip(found, rows, columns, strict=True):
        expected = np.mean([by_formula(one, d, i) for one in model.models_], axis=0)
        np.testing.assert_allclose(p, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


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


def test_items_with_scales_of_their_own():
    ratings, words = with_own_scales()
    model = small(scale=words, item_scales=SCALES).fit(ratings)
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


def test_numbers_on_several_scales():
    ratings = simulated()
    half = ratings["item"].isin(["i3", "i4"])
    ratings["rating"] = ratings["rating"].astype(float).where(~half, ratings["rating"] / 2)
    halves = [0.5, 1.0, 1.5, 2.0, 2.5]
    model = small(item_scales={"i3": halves, "i4": halves}).fit(ratings)
    assert model.predict("u1", "i3")[0] <= 2.5
    assert model.predict(["u1", "u2"], ["i3", "i5"], rule="mode").dtype == np.float64


def test_no_common_scale():
    """Each item has its own; an unknown one gets the longest."""
    frame = pd.DataFrame(
        {"user": [1, 2, 3, 1, 2, 3], "item": [1, 1, 1, 2, 2, 2], "rating": [1, 2, 2, 1, 2, 3]}
    )
    model = small(item_scales={1: [1, 2], 2: [1, 2, 3]}).fit(frame)
    p = model.predict_proba([1, 9], [5, 5])
    assert p.shape == (2, 3)
    assert (p > 0).all()

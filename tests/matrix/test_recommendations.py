"""The best items against brute force, and the reasons for them."""

import numpy as np
import pytest
from small_matrices import FACTORS, for_both, simulated, small

from ordinalrbm.matrix import explain
from ordinalrbm.matrix import recommend as recommending


@pytest.fixture(scope="module")
def ratings():
    return simulated()


@pytest.fixture(scope="module", params=FACTORS)
def model(ratings, request):
    return small(n_averaged=2, factors=request.param).fit(ratings)


def brute_force(model, ratings, user, n, exclude_seen=True, score="mean"):
    """Items by falling score, ties in the order of the items."""
    items = model.items_.labels
    p = model.predict_proba(user, items)
    value = p[:, -1] if score == "top" else p @ np.arange(1, 6)
    seen = set(ratings.loc[ratings["user"] == user, "item"]) if exclude_seen else set()
    order = [j for j in np.argsort(-value, kind="stable") if items[j] not in seen]
    return [(items[j], value[j]) for j in order[:n]]


@pytest.mark.parametrize("score", ["mean", "top"])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_the_best_items_are_those_of_brute_force(model, ratings, exclude_seen, score):
    users = ["u3", "u117", "nobody", "u3"]
    found = model.recommend(users, n=7, exclude_seen=exclude_seen, score=score)
    assert found.columns.tolist() == ["user", "item", "rank", "score"]
    assert found["user"].tolist() == np.repeat(users, 7).tolist()
    assert found["rank"].tolist() == list(range(1, 8)) * 4
    for k, user in enumerate(users):
        expected = brute_force(model, ratings, user, 7, exclude_seen, score)
        part = found.iloc[7 * k : 7 * (k + 1)]
        assert part["item"].tolist() == [item for item, _ in expected]
        np.testing.assert_allclose(part["score"], [value for _, value in expected], atol=1e-5)


def test_all_users_in_small_batches(model, monkeypatch):
    together = model.recommend("all", n=4)
    assert together["user"].tolist() == np.repeat(model.users_.labels, 4).tolist()
    monkeypatch.setattr(recommending, "_BATCH_BYTES", 4 * 4 * 50 * 7)  # seven users at a time
    assert model.recommend("all", n=4).equals(together)
    alone = model.recommend("u9", n=4)
    np.testing.assert_array_equal(alone["item"], together.loc[together["user"] == "u9", "item"])


def test_who_has_seen_almost_everything_gets_less(model, ratings):
    n_seen = ratings.groupby("user").size()
    found = model.recommend("all", n=1000).groupby("user").size()
    assert (found + n_seen == 50).all()


@for_both
@pytest.mark.parametrize(("low", "step"), [(-1e308, 4e307), (2.0**50, 1.0)])
def test_labels_that_float32_cannot_hold(ratings, factors, low, step):
    """The order of the items and their expected ratings, whatever the numbers are."""
    far = ratings.assign(rating=low + step * (ratings["rating"] - 1))
    plain, model = (small(factors=factors, n_epochs=2).fit(data) for data in (ratings, far))
    found, expected = model.recommend("u3", n=5), plain.recommend("u3", n=5)
    assert found["item"].tolist() == expected["item"].tolist()
    np.testing.assert_allclose(found["score"] / step, low / step + (expected["score"] - 1))


def test_ties_go_to_the_first_item():
    scores = np.array([[1.0, 3.0, 2.0, 3.0, -np.inf, 3.0]], dtype=np.float32)
    item, best = np.empty((1, 3), dtype=np.int32), np.empty((1, 3), dtype=np.float32)
    recommending._select(scores, item, best)
    assert item.tolist() == [[1, 3, 5]]
    item, best = np.empty((1, 6), dtype=np.int32), np.empty((1, 6), dtype=np.float32)
    recommending._select(scores, item, best)
    assert item[0, :5].tolist() == [1, 3, 5, 2, 0]
    assert best[0, 5] == -np.inf


# ---- reasons ------------------------------------------------------------------------------------


def test_reasons_name_ratings_and_factors(model, ratings):
    reasons = model.explain("u3", "i7", n=4)
    assert len(reasons.ratings) == len(reasons.factors) == 4
    given = ratings[ratings["user"] == "u3"].set_index("item")["rating"]
    for item, rating in zip(reasons.ratings["item"], reasons.ratings["rating"], strict=True):
        assert given[item] == rating
    sizes = reasons.ratings["effect"].abs().to_numpy()
    assert (np.diff(sizes) <= 0).all()
    assert abs(reasons.expected - model.predict("u3", "i7")[0]) < 0.5
    assert "Expected rating" in str(reasons)


def test_contributions_add_up_to_the_utility(model):
    one = model.model_
    d, i = model.users_.lookup(["u3"])[0], model.items_.lookup(["i7"])[0]
    table = model.explain("u3", "i7", n=100).factors
    assert len(table) == 8
    mean = sum(
        gain * half.weights[c] @ (half.factors[r] - half.factors.mean(axis=0))
        for gain, half, r, c in ((one.gains[0], one[0], d, i), (one.gains[1], one[1], i, d))
    )
    assert table["contribution"].sum() == pytest.approx(mean, abs=1e-5)


@for_both
def test_ratings_speak_for_what_is_like_their_item(factors):
    """Two kinds of items and of users: who likes one kind dislikes the other."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((300, 12)) < 0.35)
    users = np.unique(users, return_inverse=True)[1]
    likes = (users % 2) == (items % 2)
    ratings = (users, items, np.where(likes, 5, 1))
    model = small(4, 0, n_epochs=30, weight_decay=1.0, factors=factors).fit(ratings)
    effects = []
    for user in range(0, 40, 2):
        table = model.explain(user, 2, n=12).ratings
        assert 2 not in table["item"].tolist()  # its own rating is not a reason
        effects += table["effect"].tolist()
    # Liking the same kind and disliking the other speak for it alike.
    assert np.mean(effects) > 0.02
    assert np.mean(np.array(effects) > 0) > 0.9


def test_the_effect_is_that_of_leaving_the_rating_out(model):
    d, i = model.users_.lookup(["u3"])[0], model.items_.lookup(["i7"])[0]
    items, levels = model.ratings_.observations.row(d)
    worth = np.arange(1.0, 6.0)
    expected, effects = explain.rating_effects(model.model_, d, i, items, levels, worth)
    others = np.arange(items.size) != 2
    without, _ = explain.rating_effects(model.model_, d, i, items[others], levels[others], worth)
    assert effects[2] == pytest.approx(expected - without, abs=1e-4)

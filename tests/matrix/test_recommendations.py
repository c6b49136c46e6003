"""The best items in batches and on odd labels, and the reasons for them."""

import functools

import numpy as np
import pandas as pd
import pytest
from scipy import linalg
from small_matrices import MODELS, every_model, learnt, simulated, small

import ordinalrbm as orbm
from ordinalrbm.matrix import top_n as recommending
from ordinalrbm.matrix.item_weights import Past
from ordinalrbm.matrix.protocol import ExplainedCell


@pytest.fixture(scope="module")
def ratings():
    return simulated()


@pytest.fixture(params=MODELS)
def model(request):
    return learnt(request.param)


@pytest.mark.parametrize("score", ["expected", "rating"])
def test_all_users_in_small_batches(model, monkeypatch, score):
    together = model.recommend("all", n=4, score=score)
    assert together["user"].tolist() == np.repeat(model.users_.labels, 4).tolist()
    monkeypatch.setattr(recommending, "_BATCH_BYTES", 4 * 4 * 50 * 7)  # seven users at a time
    # Matrix products of another size may be rounded otherwise.
    again = model.recommend("all", n=4, score=score)
    pd.testing.assert_frame_equal(again, together, rtol=1e-6)
    alone = model.recommend("u9", n=4, score=score)
    np.testing.assert_array_equal(alone["item"], together.loc[together["user"] == "u9", "item"])


def test_who_has_seen_almost_everything_gets_less(model, ratings):
    n_seen = ratings.groupby("user").size()
    found = model.recommend("all", n=1000).groupby("user").size()
    assert (found + n_seen == 50).all()


@functools.cache
def learnt_quickly(make):
    return make(n_epochs=2).fit(simulated())


@every_model
@pytest.mark.parametrize(("low", "step"), [(-1e308, 4e307), (2.0**50, 1.0)])
def test_labels_that_float32_cannot_hold(ratings, make, low, step):
    """The order of the items and their expected ratings, whatever the numbers are."""
    far = ratings.assign(rating=low + step * (ratings["rating"] - 1))
    plain, model = learnt_quickly(make), make(n_epochs=2).fit(far)
    found, expected = (each.recommend("u3", n=5, score="rating") for each in (model, plain))
    assert found["item"].tolist() == expected["item"].tolist()
    np.testing.assert_allclose(found["score"] / step, low / step + (expected["score"] - 1))


def test_ties_go_to_the_first_item():
    scores = np.array([[1.0, 3.0, 2.0, 3.0, -np.inf, 3.0]], dtype=np.float32)
    item, best = np.empty((1, 3), dtype=np.int32), np.empty((1, 3), dtype=np.float32)
    recommending._select(0, 1, scores, item, best)
    assert item.tolist() == [[1, 3, 5]]
    item, best = np.empty((1, 6), dtype=np.int32), np.empty((1, 6), dtype=np.float32)
    recommending._select(0, 1, scores, item, best)
    assert item[0, :5].tolist() == [1, 3, 5, 2, 0]
    assert best[0, 5] == -np.inf


# ---- reasons ------------------------------------------------------------------------------------


def test_reasons_come_by_size(model):
    reasons = model.explain("u3", "i7", n=4)
    assert (np.diff(reasons.ratings["effect"].abs()) <= 0).all()
    assert "Expected rating" in str(reasons)


@every_model
def test_ratings_speak_for_what_is_like_their_item(make):
    """Two kinds of items and of users: who likes one kind dislikes the other."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((300, 12)) < 0.35)
    users = np.unique(users, return_inverse=True)[1]
    likes = (users % 2) == (items % 2)
    model = make(n_epochs=30)
    if isinstance(model, orbm.GaussianMF):  # without noise it is sure, whatever one rating says
        likes ^= rng.random(likes.size) < 0.15
    ratings = (users, items, np.where(likes, 5, 1))
    if isinstance(model, orbm.MatrixCumulativeRBM):
        model = small(4, 0, n_epochs=30, weight_decay=1.0)
    model.fit(ratings)
    effects = []
    for user in range(0, 40, 2):
        table = model.explain(user, 2, n=12).ratings
        assert 2 not in table["item"].tolist()  # its own rating is not a reason
        speaks_for = (table["item"] % 2 == 0) == (table["rating"] == 5)
        effects += np.where(speaks_for, table["effect"], -table["effect"]).tolist()
    # Liking the same kind and disliking the other speak for it alike.
    assert np.mean(effects) > 0.02
    assert np.mean(np.array(effects) > 0) > 0.9


@pytest.mark.parametrize("name", ["ordinal", "ordinal point", "gaussian", "sampled"])
def test_effects_add_up_to_what_ratings_tell(name):
    """From the prediction for a user without ratings to that for this one."""
    model = learnt(name)
    seen = model.ratings_.observations
    rated = set(zip(*seen.cells()[:2], strict=True))
    for d, i in ((3, 7), (10, 2), (20, 11), (40, 1), tuple(part[5] for part in seen.cells()[:2])):
        user, item = model.users_.labels[d], model.items_.labels[i]
        reasons = model.explain(user, item, n=100)
        if (d, i) not in rated:
            distribution = model.predict_proba(user, item)[0]
            assert reasons.expected == pytest.approx(distribution @ np.arange(1.0, 6.0), abs=1e-3)
        assert reasons.baseline == model.predict("nobody", item)
        total = reasons.ratings["effect"].sum()
        assert reasons.expected - total == pytest.approx(reasons.baseline, abs=1e-6)


@pytest.mark.parametrize("name", ["matrix", "multinomial"])
def test_the_effect_is_that_of_leaving_the_rating_out(name):
    """To first order for binary factors, which lean on each other."""
    model = learnt(name)
    worth, far = np.arange(1.0, 6.0), []
    for d, i in ((3, 7), (10, 2), (20, 11)):
        items, levels = (
            part[model.ratings_.observations.row(d)[0] != i] for part in model.ratings_.observations.row(d)
        )
        cell = ExplainedCell(d, i, items, levels, worth)
        expected, effects = model.model_.rating_effects(cell)
        for k in range(items.size):
            others = np.arange(items.size) != k
            left, _ = model.model_.rating_effects(cell._replace(columns=items[others], levels=levels[others]))
            far.append((effects[k], expected - left))
    found, true = np.array(far).T
    assert np.abs(true).max() > 1e-3
    assert np.abs(found - true).max() < 0.1 * np.abs(true).max()


def test_reasons_of_many_ratings_are_one_regression(monkeypatch):
    """And not one for each rating."""
    rng = np.random.default_rng(0)
    users, items = np.repeat(np.arange(30), 700), np.tile(np.arange(700), 30)
    keep = (users == 0) | (rng.random(users.size) < 0.2)
    ratings = (users[keep], items[keep], rng.integers(1, 6, keep.sum()))
    model = orbm.OrdinalMF(3, n_epochs=3, random_state=0).fit(ratings)
    solved, solve = [], linalg.solve

    def counted(*given, **how):
        solved.append(1)
        return solve(*given, **how)

    monkeypatch.setattr(linalg, "solve", counted)
    assert len(model.explain(0, 5, n=1000).ratings) == 699
    assert len(solved) == 1


# ---- memory -------------------------------------------------------------------------------------


def test_few_rows_at_a_time_where_all_columns_are_looked_at(monkeypatch):
    """Demand that tells nothing leaves no column out, however many there are."""
    n_rows, n_columns, looked_at = 37, 500, []
    chances = np.random.default_rng(0).random((n_rows, n_columns))

    def most_wanted(place, m):
        return np.tile(np.arange(m, dtype=np.int32), (place.size, 1)), np.ones((place.size, m))

    def chance(row, column):
        looked_at.append(row.size)
        return chances[row, column]

    whole = recommending.best_wanted(most_wanted, chance, n_rows, n_columns, 5)
    assert max(looked_at) == n_rows * n_columns
    looked_at.clear()
    monkeypatch.setattr(recommending, "_BATCH_BYTES", 1)
    blocks = recommending.best_wanted(most_wanted, chance, n_rows, n_columns, 5)
    assert max(looked_at) == n_columns
    for one, other in zip(blocks, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    truth = np.argsort(-chances, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(whole.item.reshape(n_rows, 5), truth)


@pytest.mark.parametrize("with_times", [True, False])
@pytest.mark.parametrize("n", [1, 3, 10])
def test_one_call_from_rows_to_lists_looks_as_far_as_it_must(n, with_times):
    """Of 300 items that are chosen about alike, few are rated with a 5; by the scores of all."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.argwhere(rng.random((60, 300)) < 0.1), columns=["user", "item"])
    quality = rng.random(300) ** 8
    frame["rating"] = np.where(
        rng.random(len(frame)) < quality[frame["item"]], 5, rng.integers(1, 4, len(frame))
    )
    frame["rating"] += frame["rating"].eq(4)
    if with_times:
        frame["timestamp"] = rng.permutation(len(frame))
    model = orbm.OrdinalMF(2, n_epochs=3, random_state=0).fit(frame)
    known, rows, items = model.ratings_, np.arange(0, 60, 7), model.items_.labels
    found = model.recommend(model.users_.labels[rows], n=n, liked=5, exclude=items[:9])
    demand = model.demand_.scores(model.demand_.rows[rows], Past(known.observations, known.age), rows)
    n_further = 0
    for k, d in enumerate(rows):
        product = demand[k] * model.predict_proba(int(model.users_.labels[d]), items)[:, -1]
        product[:9], product[known.observations.row(d)[0]] = -np.inf, -np.inf
        best = np.argsort(-product, kind="stable")[:n]
        own = found.iloc[k * n : (k + 1) * n]
        assert own["item"].tolist() == items[best].tolist()
        np.testing.assert_allclose(own["score"], product[best], rtol=1e-5)
        is_shown = np.setdiff1d(np.arange(9, items.size), known.observations.row(d)[0])
        n_further += np.sort(demand[k][is_shown])[-max(12 * n, 64)] > product[best[-1]]
    assert n_further  # that the first look was not enough for

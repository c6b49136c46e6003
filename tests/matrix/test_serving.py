"""The calls of a service: candidates, new ratings, vectors, neighbours, several threads."""

import copy
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from small_matrices import LISTS, MODELS, learnt, simulated

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.matrix import implicit_als
from ordinalrbm.runtime import blocks

SCORES = ["expected", "liked", "rating", "demand"]


@pytest.fixture(params=MODELS)
def model(request):
    return learnt(request.param)


# ---- demand --------------------------------------------------------------------------------------


def choices(seed=0):
    """Two kinds of users, who choose among two kinds of items."""
    rng = np.random.default_rng(seed)
    likely = np.where(np.arange(60)[:, None] % 2 == np.arange(24) % 2, 0.7, 0.1)
    row, column = np.nonzero(rng.random(likely.shape) < likely)
    return Observations.from_triples(row, column, np.zeros(row.size, int), 60, 24, 2), likely


def crowd(n_users=400, n_items=80, seed=0):
    """Popular items that all choose, and three kinds of others for three kinds of users."""
    rng = np.random.default_rng(seed)
    popular = 0.95 / np.arange(1, n_items + 1) ** 0.6
    own = (np.arange(n_users)[:, None] % 3 == np.arange(n_items) % 3) * 0.25
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.6 * popular + own)
    return pd.DataFrame({"user": user, "item": item, "rating": rng.integers(3, 6, user.size)})


def ndcg(lists, hidden):
    scores = []
    for user, truth in hidden.groupby("user")["item"]:
        own = lists.loc[lists["user"] == user, "item"].to_numpy()[:10]
        gains = 1.0 / np.log2(np.arange(2, 12))
        scores.append(gains[: own.size][np.isin(own, truth)].sum() / gains[: len(truth)].sum())
    return np.mean(scores)


def learnt_from_crowd(*ratings):
    return orbm.OrdinalMF(2, n_epochs=3, random_state=0).fit(pd.concat(ratings))


@pytest.fixture(scope="module")
def of_some():
    """The first 750 of a crowd of 1,000, and what was learnt from them."""
    frame = crowd(1000)
    return frame, learnt_from_crowd(frame[frame["user"] < 750])


@pytest.mark.parametrize("how", ["call", "fold_in", "fit", "update"])
def test_a_few_ratings_do_not_make_lists_worse_than_none(how, of_some):
    """Whichever way newcomers come in; popularity is what those without a rating get."""
    frame, learnt = of_some
    rest = frame[frame["user"] > 749].sample(frac=1.0, random_state=0)
    rest["number"] = rest.groupby("user").cumcount()
    hidden, users = rest[rest["number"] >= 5], rest["user"].unique()

    def lists(n):
        new = rest.loc[rest["number"] < n, ["user", "item", "rating"]]
        model = copy.copy(learnt)
        if how == "fit" and n:
            model = learnt_from_crowd(frame[frame["user"] < 750], new)
        if how == "fold_in" and n:
            model = model.fold_in(new)
        if how == "update" and n:
            model.update(new)
        of_call = new if how == "call" and n else None
        found = model.recommend(users, n=20, score="demand", ratings=of_call)
        # The same candidates, whatever is known.
        shown = rest[rest["number"] < 5]
        is_shown = pd.MultiIndex.from_frame(found[["user", "item"]]).isin(
            pd.MultiIndex.from_frame(shown[["user", "item"]])
        )
        return found[~is_shown]

    found = [ndcg(lists(n), hidden) for n in (0, 1, 2, 5)]
    assert min(found[1:]) > found[0] + 0.005
    assert found[3] > found[1] + 0.005


@pytest.mark.parametrize("in_threads", [False, True])
def test_who_has_few_answers_is_where_the_loss_says(in_threads, monkeypatch):
    """By dense algebra: the prior is that of those with as many answers as usual."""
    if in_threads:  # as where there are many
        monkeypatch.setattr(blocks, "MANY", 1)
        monkeypatch.setattr(blocks, "BLOCK", 5 * 4)
    answers, _ = choices()
    is_whole = answers.cells().row % 3 > 0
    few = answers.select(is_whole | (np.random.default_rng(1).random(is_whole.size) < 0.3))
    from ordinalrbm.matrix.variational import on_cpu

    ridge = implicit_als.ridge_of(few)
    found = implicit_als.learn(on_cpu(few), implicit_als.start(few, 5, 0), ridge)
    model = implicit_als.Demand.of(found.rows, found.columns, ridge).after_learning(few)
    count = np.median(few.row_counts)
    usual = np.flatnonzero(few.row_counts >= count)
    p, q = model.rows[usual].astype(float), model.columns.astype(float)
    chosen = few.to_dense() >= 0
    alone = 0.2 * q.T @ q + ridge * np.eye(5)
    noise = np.square(1.0 - (p @ q.T)[chosen[usual]]).mean()
    left_open = noise * np.linalg.inv(alone + (q.T * chosen[usual].mean(axis=0)) @ q)
    precision = noise * np.linalg.inv(np.cov(p.T, bias=True) + left_open)
    for d in np.flatnonzero(few.row_counts < count):
        share = few.row_counts[d] / count
        own = q[chosen[d]]
        truth = np.linalg.solve(
            share * alone + (1.0 - share) * precision + own.T @ own,
            own.sum(axis=0) + (1.0 - share) * precision @ p.mean(axis=0),
        )
        np.testing.assert_allclose(model.rows[d], truth, atol=2e-3)
        np.testing.assert_allclose(model.infer_rows(few.take_rows([d]))[0], truth, atol=1e-4)
    nothing = answers.take_rows([0]).select(np.zeros(answers.row_counts[0], dtype=bool))
    np.testing.assert_allclose(model.infer_rows(nothing)[0], p.mean(axis=0), atol=1e-4)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_all_ratings_equal_are_recommended_by_demand(make, tmp_path):
    """They tell who chose what, and nothing else."""
    frame = crowd(60, 15).assign(rating=5)
    with pytest.warns(UserWarning, match="scale of one level"):
        model = make(**LISTS).fit(frame)
    popular = frame["item"].value_counts().sort_values(ascending=False, kind="stable")
    assert model.recommend(999, n=5)["item"].tolist()[:2] == popular.index[:2].tolist()
    found = model.recommend([3, 4], n=5)
    assert found["score"].nunique() > 5
    pd.testing.assert_frame_equal(found, model.recommend([3, 4], n=5, score="demand"))
    product = model.demand_.rows[3] @ model.demand_.columns.T
    product[frame.loc[frame["user"] == 3, "item"]] = -np.inf
    assert found["item"][:5].tolist() == np.argsort(-product)[:5].tolist()
    model.save(tmp_path / "model.orbm")
    pd.testing.assert_frame_equal(orbm.load(tmp_path / "model.orbm").recommend([3, 4], n=5), found)


def test_without_demand():
    model = orbm.OrdinalMF(3, n_epochs=3, demand_factors=0, random_state=0).fit(simulated())
    assert model.demand_.n_factors == 0
    pd.testing.assert_frame_equal(model.recommend("u3"), model.recommend("u3", score="liked"))
    with pytest.raises(orbm.DataError, match="because demand_factors is 0"):
        model.recommend("u3", score="demand")
    with pytest.raises(orbm.DataError, match="because demand_factors is 0"):
        model.vectors("demand")


# ---- recommend -----------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
def test_candidates_and_what_is_excluded(model, score):
    items = model.items_.labels
    every = model.recommend("u3", n=50, score=score)
    some = model.recommend("u3", n=50, items=[*items[:20], "unheard of"], score=score)
    expected = every[every["item"].isin(items[:20])]
    assert some["item"].tolist() == expected["item"].tolist()
    assert some["rank"].tolist() == list(range(1, len(some) + 1))
    left = model.recommend(["u3", "nobody"], n=50, exclude=items[:30], score=score)
    assert not left["item"].isin(items[:30]).any()
    assert set(left["user"]) == {"u3", "nobody"}


@pytest.mark.parametrize("score", SCORES)
def test_new_ratings_come_with_the_call(model, score):
    """Somebody unknown, and somebody known, as if folded in; the model does not change."""
    new = (["x", "x", "x"], ["i1", "i2", "i9"], [5, 1, 4])
    before = [part.copy() for part in model.models_[0].to_arrays().values()]
    found = model.recommend(ratings=new, n=5, score=score)
    wider = model.fold_in(new).recommend("x", n=5, score=score)
    assert found["item"].tolist()[:2] == wider["item"].tolist()[:2]
    assert not found["item"].isin(["i1", "i2", "i9"]).any()
    both = model.recommend(["u5", "x", "nobody"], ratings=new, n=5, score=score)
    assert both["user"].tolist() == np.repeat(["u5", "x", "nobody"], 5).tolist()
    again = both[both["user"] == "x"].reset_index(drop=True)
    assert again["item"].tolist() == found["item"].tolist()
    known = model.recommend("u5", n=5, score=score)
    assert both[both["user"] == "u5"]["item"].tolist() == known["item"].tolist()
    for part, was in zip(model.models_[0].to_arrays().values(), before, strict=True):
        np.testing.assert_array_equal(part, was)
    assert "x" not in model.users_


@pytest.mark.parametrize("score", SCORES)
def test_one_person_needs_no_id(model, score):
    given = {"i1": 5, "unheard of": 3, "i9": 4, "i2": 1}
    triples = (["x"] * 4, list(given), list(given.values()))
    whole = model.recommend(ratings=triples, n=5, score=score)
    found = model.recommend(ratings=given | {"i4": None}, n=5, score=score)
    pd.testing.assert_frame_equal(found, whole.drop(columns="user"))
    nobody = model.recommend("nobody", n=5, score=score).drop(columns="user")
    for nothing in ({}, {"i4": None}):
        pd.testing.assert_frame_equal(model.recommend(ratings=nothing, n=5, score=score), nobody)


def test_a_known_user_with_new_ratings(model):
    seen = model.ratings_.observations.row(model.users_.lookup(["u5"])[0])[0]
    other = next(item for item in model.items_.labels if item not in model.items_.take(seen))
    found = model.recommend(ratings=(["u5"], [other], [5]), n=50)
    assert len(found) == 50 - seen.size - 1
    assert other not in found["item"].tolist()


def test_an_unknown_item_takes_no_rating_from_another_newcomer():
    """Positions of cells are numbered: the last item of one must not be the unknown one of the next."""
    model = learnt("ordinal")
    last = model.items_.labels[-1]
    alone = model.recommend(ratings=(["x"], [last], [5]))
    both = model.recommend(ratings=(["y", "x"], ["nowhere", last], [1, 5]))
    pd.testing.assert_frame_equal(both[both["user"] == "x"], alone)


def test_what_is_wrong_is_said():
    model = learnt("ordinal")
    with pytest.raises(orbm.DataError, match="No users given: pass `users=` or `ratings=`"):
        model.recommend()
    with pytest.raises(orbm.DataError, match="liked=9 is not on the scale"):
        model.recommend("u1", liked=9)
    with pytest.raises(orbm.DataError, match=r"'i1'.*the value 77 is not on the scale"):
        model.recommend(ratings={"i1": 77})
    with pytest.raises(orbm.DataError, match="of one person without an id, but users= is given"):
        model.recommend("u1", ratings={"i1": 5})


def test_generators_and_membership():
    model = learnt("ordinal")
    found = model.recommend((f"u{k}" for k in (3, 4)), n=2)
    assert found["user"].tolist() == ["u3", "u3", "u4", "u4"]
    assert "u3" in model.users_
    assert "nobody" not in model.users_
    assert 3 not in model.users_


def test_polars_in_polars_out():
    polars = pytest.importorskip("polars")
    model = learnt("ordinal")
    plain = model.recommend(["u3", "u4"], n=2)
    found = model.recommend(polars.Series(["u3", "u4"]), n=2)
    assert isinstance(found, polars.DataFrame)
    assert found["item"].to_list() == plain["item"].tolist()


def test_several_threads_at_once():
    model, wrong = learnt("ordinal"), []
    truth = {user: model.recommend(user, n=5) for user in model.users_.labels[:20]}

    def work():
        for user, expected in truth.items():
            if not model.recommend(user, n=5).equals(expected):
                wrong.append(user)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- vectors and neighbours ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ordinal", "gaussian", "sampled"])
def test_the_order_is_nearly_that_of_predict(name):
    model = learnt(name)
    vectors, items = model.vectors(), model.items_.labels
    for user in model.users_.labels[:20]:
        d = model.users_.lookup([user])[0]
        found = pd.Series(vectors.items @ vectors.users[d]).corr(
            pd.Series(model.predict(user, items)), method="spearman"
        )
        assert found > 0.9


@pytest.mark.parametrize("name", ["matrix", "multinomial"])
def test_who_has_no_vectors_says_so(name):
    with pytest.raises(orbm.DataError, match="has no vectors"):
        learnt(name).vectors()


@pytest.mark.parametrize("name", MODELS)
def test_many_newcomers_at_once_get_the_lists_of_each_alone(name):
    model = learnt(name)
    rng = np.random.default_rng(4)
    new = pd.DataFrame(
        {"user": np.repeat([f"new{k}" for k in range(12)], 4), "item": rng.choice(model.items_.labels, 48)}
    )
    new = new.assign(rating=rng.integers(1, 6, 48)).drop_duplicates(["user", "item"])
    together = model.recommend(ratings=new, n=5)
    for user in ("new0", "new7"):
        alone, own = (
            model.recommend(ratings=new[new["user"] == user], n=5),
            together[together["user"] == user],
        )
        np.testing.assert_allclose(alone["score"], own["score"], rtol=1e-4)


def test_candidates_by_demand_hold_the_default_lists(model):
    vectors = model.vectors("demand")
    products = vectors.users @ vectors.items.T
    for d, user in enumerate(model.users_.labels[:20]):
        candidates = model.items_.take(np.argsort(-products[d])[: len(model.items_) - 5])
        whole, of_these = (model.recommend(user, n=5, items=items) for items in (None, candidates))
        kept = whole[whole["item"].isin(candidates)]
        assert kept["item"].tolist() == of_these["item"].tolist()[: len(kept)]
    chosen = model.ratings_.observations.cells()
    assert products[chosen.row, chosen.column].mean() > products.mean()


def test_neighbours(model):
    found = model.similar_items("i7", n=5)
    table = model.demand_.columns
    own = model.items_.lookup(["i7"])[0]
    cosine = table @ table[own] / np.linalg.norm(table, axis=1) / np.linalg.norm(table[own])
    cosine[own] = -np.inf
    assert found["item"].tolist() == model.items_.take(np.argsort(-cosine)[:5]).tolist()
    assert len(model.similar_users("u3", n=500)) == len(model.users_) - 1
    with pytest.raises(orbm.DataError, match="'nobody' is not known"):
        model.similar_users("nobody")


# ---- score ---------------------------------------------------------------------------------------


def test_score_is_the_mean_log_probability(model):
    test = simulated(seed=5).head(50)
    chance = model.predict_proba(test["user"], test["item"])
    truth = np.log(chance[np.arange(50), test["rating"].to_numpy() - 1]).mean()
    assert model.score(test) == pytest.approx(truth)


def test_a_grid_search():
    table = simulated()
    fold = np.where(np.arange(len(table)) % 5 == 0, 0, -1)
    search = GridSearchCV(
        orbm.OrdinalMF(n_epochs=3, demand_factors=0, random_state=0),
        {"n_factors": [1, 4]},
        cv=PredefinedSplit(fold),
    )
    search.fit(table)
    assert search.best_params_["n_factors"] in (1, 4)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# ---- what users chose lately ---------------------------------------------------------------------


def two_periods(seed=0):
    """Two kinds of items; a third of the users chose one kind at first, and then the other."""
    rng = np.random.default_rng(seed)
    parts = []
    for user in range(90):
        for period in (0, 1):
            kind = {0: period, 1: 0, 2: 1}[user % 3]
            items = 30 * kind + rng.choice(15 if kind == period else 30, 12, replace=False)
            items = items + 15 * (user % 3 > 0) * (period == 1) * (items % 30 < 15)
            times = 100 * period + rng.permutation(12)
            parts.append(pd.DataFrame({"user": user, "item": items, "timestamp": times}))
    frame = pd.concat(parts, ignore_index=True).drop_duplicates(["user", "item"])
    return frame.assign(rating=rng.integers(1, 6, len(frame)))


def fitted_in_time(frame):
    return orbm.OrdinalMF(2, n_epochs=2, demand_factors=4, random_state=0).fit(frame)


def test_recent_choices_are_recommended():
    frame = two_periods()
    shares = []
    for given in (frame, frame.drop(columns="timestamp")):
        best = fitted_in_time(given).recommend("all", n=5, score="demand")
        shares.append((best.loc[best["user"] % 3 == 0, "item"] >= 30).mean())
    assert shares[0] > shares[1] + 0.1


def test_recency_survives_files_and_updates(tmp_path):
    frame = two_periods()
    late = frame["timestamp"] > 105
    model = fitted_in_time(frame[~late])
    model.save(tmp_path / "model.orbm")
    again = orbm.load(tmp_path / "model.orbm").update(frame[late])
    model.update(frame[late])
    np.testing.assert_array_equal(again.demand_.rows, model.demand_.rows)
    np.testing.assert_array_equal(again.ratings_.age, model.ratings_.age)
    found, of_file = (each.recommend("all", n=5, score="demand") for each in (model, again))
    pd.testing.assert_frame_equal(found, of_file)


def test_new_ratings_of_a_call_are_the_latest():
    """As if they had been there, with times after all others."""
    frame = two_periods()
    new = frame[frame["user"] == 6].assign(user=777)
    model = fitted_in_time(frame)
    unlike = new.assign(timestamp=-new["timestamp"])
    found = [model.recommend(ratings=given, score="demand", n=60) for given in (new, unlike)]
    late, early = (one["score"][one["item"] >= 30].sum() / one["score"].sum() for one in found)
    assert late > early + 0.01
    wider = model.fold_in(new).recommend(777, score="demand", n=60)
    pd.testing.assert_frame_equal(found[0], wider, rtol=1e-3)

"""New ratings of known users and items, in place: close to learning anew."""

import copy

import numpy as np
import pandas as pd
import pytest
from small_matrices import MODELS, halves, learnt, simulated

import ordinalrbm as orbm

UPDATED = ["ordinal", "ordinal point", "gaussian", "sampled"]


@pytest.fixture(params=UPDATED)
def name(request):
    return request.param


def error(model, test):
    return np.sqrt(np.square(model.predict(test["user"], test["item"]) - test["rating"]).mean())


def test_updates_stay_close_to_a_full_fit(name):
    table = simulated(300, 60, density=0.4, seed=3)
    train, test = halves(table)
    late = np.random.default_rng(0).random(len(train)) < 0.3
    late |= train["user"].isin(train["user"].unique()[:9]).to_numpy()  # who are new
    options = {"n_epochs": 20}
    full = MODELS[name](5, **options).fit(train)
    first = MODELS[name](5, **options).fit(train[~late])
    before = error(first, test)
    once, often = copy.copy(first), copy.copy(first)
    assert once.update(train[late]) is once
    for batch in np.array_split(np.flatnonzero(late), 4):
        often.update(train.iloc[batch])
    assert error(once, test) < error(full, test) + 0.04 < before
    assert abs(error(often, test) - error(once, test)) < 0.02
    assert len(once.users_) == len(full.users_)
    assert once.ratings_.n_ratings == len(train) == often.ratings_.n_ratings


def test_others_stay_and_the_old_model_is_not_touched(name):
    model = learnt(name)
    items = model.items_.labels
    truth = model.predict_proba("u30", items)
    kept, changed = copy.copy(model), copy.copy(model)
    changed.update((["u3", "new"], ["i7", "i7"], [1, 5]))
    np.testing.assert_array_equal(kept.predict_proba("u30", items), truth)
    assert "new" in changed.users_
    assert "new" not in kept.users_
    same = items != "i7"
    np.testing.assert_allclose(changed.predict_proba("u30", items)[same], truth[same], atol=1e-6)
    assert (changed.predict_proba("u3", items) != model.predict_proba("u3", items)).any()


def test_a_changed_rating_takes_the_place_of_the_old_one(name):
    model = copy.copy(learnt(name))
    frame = model.ratings_.to_frame()
    user, item, rating = frame.iloc[0]
    other = 1 if rating > 2 else 5
    model.update((np.array([user]), np.array([item]), np.array([other])))
    after = model.ratings_.to_frame()
    assert len(after) == len(frame)
    assert after.query("user == @user and item == @item")["rating"].tolist() == [other]


def test_an_updated_model_is_saved_and_recommends(name, tmp_path):
    model = copy.copy(learnt(name)).update((["new", "u1"], ["fresh", "fresh"], [5, 4]))
    model.save(tmp_path / "m.orbm")
    again = orbm.load(tmp_path / "m.orbm")
    users = ["new", "u1", "u9"]
    pd.testing.assert_frame_equal(again.recommend(users), model.recommend(users))
    assert "fresh" not in model.recommend("new", n=100)["item"].tolist()
    assert "fresh" in model.recommend("u9", n=100)["item"].tolist()


@pytest.mark.parametrize("other", ["matrix", "multinomial", "ensemble"])
def test_who_cannot_be_updated_says_so(other):
    model = learnt(other)
    before = model.ratings_
    with pytest.raises(orbm.DataError, match="cannot be updated"):
        model.update((["u1"], ["i1"], [1]))
    assert model.ratings_ is before


def test_nothing_new():
    none = pd.DataFrame({"user": [], "item": [], "rating": []}).astype(str)
    with pytest.raises(orbm.DataError, match="at least one"):
        learnt("ordinal").update(none)

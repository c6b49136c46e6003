"""New ratings of known users and items, in place: close to learning anew."""

import copy
import threading

import numpy as np
import pandas as pd
import pytest
from small_matrices import LISTS, MODELS, halves, learnt, simulated

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


@pytest.mark.parametrize("other", ["matrix", "multinomial"])
def test_who_cannot_be_updated_says_so(other):
    model = learnt(other)
    before = model.ratings_
    with pytest.raises(orbm.DataError, match="cannot be updated"):
        model.update((["u1"], ["i1"], [1]))
    assert model.ratings_ is before


# ---- several threads -----------------------------------------------------------------------------


def with_new_item(number=0):
    return (["u1", "u2", f"new{number}"], [f"n{number}"] * 2 + ["i1"], [5, 1, 3])


def test_a_call_sees_one_state_from_its_first_line_to_its_last(name, monkeypatch):
    """In the middle of it there is an update, which brings users and items."""
    model = MODELS[name](**LISTS).fit(simulated())
    asked = {"n": 5, "items": model.items_.labels, "exclude": ["i3"]}
    before = model.recommend(["u3", "u4"], **asked)
    own = type(model)._asked

    def and_update(self, *given):
        monkeypatch.undo()
        model.update(with_new_item())
        return own(self, *given)

    monkeypatch.setattr(type(model), "_asked", and_update)
    pd.testing.assert_frame_equal(model.recommend(["u3", "u4"], **asked), before)
    assert "n0" in model.items_ and "new0" in model.users_


def test_an_update_is_seen_when_it_is_done(name, monkeypatch):
    """Whoever reads in the middle of an update sees the model of before."""
    model = MODELS[name](**LISTS).fit(simulated())
    before, found = model.recommend("all", n=3, exclude=["i3"]), []
    own = type(model)._set_ratings

    def and_read(self, known):
        found.append(model.recommend("all", n=3, exclude=["i3"]))
        own(self, known)

    monkeypatch.setattr(type(model), "_set_ratings", and_read)
    model.update(with_new_item())
    pd.testing.assert_frame_equal(found[0], before)
    assert model.models_[0].n_columns == model.demand_.columns.shape[0] == len(model.items_) == 51


def test_no_update_is_lost_when_there_are_two_at_once(monkeypatch):
    """The second begins in the middle of the first, and waits."""
    model = MODELS["ordinal"](**LISTS).fit(simulated())
    second = threading.Thread(target=model.update, args=[with_new_item(2)])
    own = type(model)._update

    def and_another(self, *given):
        monkeypatch.undo()
        second.start()
        second.join(timeout=2.0)
        own(self, *given)

    monkeypatch.setattr(type(model), "_update", and_another)
    model.update(with_new_item(1))
    second.join()
    assert {"n1", "n2"} <= set(model.items_.labels)
    assert model.models_[0].n_columns == 52


# ---- the same ratings again, and ratings that come back ------------------------------------------


def every_prediction(model):
    return model.predict_proba(
        np.repeat(model.users_.labels, 4), np.tile(model.items_.labels[:4], len(model.users_))
    )


def test_a_batch_that_comes_twice_counts_once(name):
    batch = (["u3", "u3", "new"], ["i7", "i2", "i7"], [1, 5, 5])
    once = copy.copy(learnt(name)).update(batch)
    twice = copy.copy(once).update(batch)
    np.testing.assert_array_equal(every_prediction(twice), every_prediction(once))
    assert twice.ratings_.n_ratings == once.ratings_.n_ratings


def test_a_change_that_is_taken_back_leaves_little(name):
    """Of what the change has moved: known rows are inferred in turns, not all at once."""
    model = learnt(name)
    user, item, rating = model.ratings_.to_frame().iloc[40]
    before, changed = every_prediction(model), copy.copy(model)
    changed.update(([user], [item], [1 if rating > 2 else 5]))
    moved = np.abs(every_prediction(changed) - before)
    back = np.abs(every_prediction(changed.update(([user], [item], [rating]))) - before)
    assert moved.max() > 0.01
    assert back.max() < 0.1 * moved.max()


def test_another_time_is_another_rating():
    table = simulated().assign(timestamp=np.arange(len(simulated())))
    model = MODELS["ordinal"](n_epochs=3).fit(table)
    some = table.iloc[:3]
    assert copy.copy(model).update(some).models_ is model.models_
    assert copy.copy(model).update(some[["user", "item", "rating"]]).models_ is model.models_
    later = copy.copy(model).update(some.assign(timestamp=10**6))
    assert later.models_ is not model.models_
    assert (later.ratings_.times.value == 10**6).sum() == 3

"""Saving and loading: what was said before is said again, without the ratings."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from small_matrices import LISTS, MODELS, assert_same_models, learnt, on_any_scales, simulated, small

import ordinalrbm as orbm


def saved_and_loaded(model, folder):
    path = folder / "ratings.orbm"
    model.save(path)
    return orbm.load(path)


CASES = {**MODELS, "users with factors alone": lambda **changes: small(4, 0, **changes)}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("ids", ["text", "numbers"])
def test_a_loaded_model_says_the_same(tmp_path, ids, make):
    ratings = simulated()
    if ids == "numbers":
        ratings["user"] = ratings["user"].str[1:].astype(int)
        ratings["item"] = ratings["item"].str[1:].astype(int)
    model = make(n_epochs=3, **LISTS)
    again = saved_and_loaded(model.fit(ratings), tmp_path)
    assert type(again) is type(model)
    assert_same_models(again, model)
    assert repr(again.get_params()) == repr(model.get_params())
    unknown = "nobody" if ids == "text" else -5
    users = [*ratings["user"].to_numpy()[:9], unknown]
    items = [*ratings["item"].to_numpy()[-9:], unknown]
    np.testing.assert_array_equal(again.predict_proba(users, items), model.predict_proba(users, items))
    for rule in ("mean", "mode", "median"):
        np.testing.assert_array_equal(
            again.predict(users, items, rule=rule), model.predict(users, items, rule=rule)
        )
    pd.testing.assert_frame_equal(again.recommend("all", n=3), model.recommend("all", n=3))
    pd.testing.assert_frame_equal(again.history_, model.history_.drop(columns="seconds"))
    one, other = (which.explain(users[0], items[0]) for which in (again, model))
    pd.testing.assert_frame_equal(one.ratings, other.ratings)
    new = ([unknown, unknown], list(model.items_.labels[:2]), [5, 4])
    assert_same_models(again.fold_in(new), model.fold_in(new))
    assert (again.n_iter_, again.best_epoch_) == (model.n_iter_, model.best_epoch_)
    assert_same_models(clone(again).fit(ratings), model)


@on_any_scales
def test_scales_survive(tmp_path, make):
    ratings = simulated()
    own = {"i0": [1, 2, 3, 4, 5, 6], "i1": [5, 4, 3, 2, 1]}
    model = make(scale=[1, 2, 3, 4, 5], item_scales=own, random_state=np.random.RandomState(1))
    model.fit(ratings)
    again = saved_and_loaded(model, tmp_path)
    assert again.scales_ == model.scales_
    assert again.item_scales == own
    assert again.scale == [1, 2, 3, 4, 5]
    assert again.random_state is None
    np.testing.assert_array_equal(
        again.predict("u1", ["i0", "i1", "new"], rule="mode"),
        model.predict("u1", ["i0", "i1", "new"], rule="mode"),
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_folded_model_can_be_saved(tmp_path, name):
    items = ["i1", "i2"] if name == "multinomial" else ["i1", "ß"]
    model = learnt(name).fold_in((["ä", "ä"], items, [1, 5]))
    again = saved_and_loaded(model, tmp_path)
    assert again.users_.labels[-1] == "ä"
    assert_same_models(again, model)


@pytest.mark.parametrize("name", ["ordinal point", "ordinal", "gaussian"])
def test_what_is_known_of_factors_survives(tmp_path, name):
    model = learnt(name)
    again = saved_and_loaded(model, tmp_path)
    assert again.model_.is_point == (name == "ordinal point")
    for part in ("user_factors_", "item_factors_", "user_biases_", "item_biases_"):
        np.testing.assert_array_equal(getattr(again, part), getattr(model, part))

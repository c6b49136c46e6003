"""Saving and loading: what was said before is said again, without the ratings."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from small_matrices import assert_same_models, for_both, simulated, small

import ordinalrbm as orbm
from ordinalrbm.storage import model_file


def saved_and_loaded(model, folder):
    path = folder / "ratings.orbm"
    model.save(path)
    return orbm.load(path)


@for_both
@pytest.mark.parametrize("n_item_factors", [4, 0])
@pytest.mark.parametrize("ids", ["text", "numbers"])
def test_a_loaded_model_says_the_same(tmp_path, ids, n_item_factors, factors):
    ratings = simulated()
    if ids == "numbers":
        ratings["user"] = ratings["user"].str[1:].astype(int)
        ratings["item"] = ratings["item"].str[1:].astype(int)
    model = small(4, n_item_factors, n_averaged=2, factors=factors).fit(ratings)
    again = saved_and_loaded(model, tmp_path)
    assert_same_models(again, model)
    assert again.get_params() == model.get_params()
    users, items = ratings["user"].to_numpy()[:9], ratings["item"].to_numpy()[-9:]
    np.testing.assert_array_equal(again.predict(users, items), model.predict(users, items))
    pd.testing.assert_frame_equal(again.recommend("all", n=3), model.recommend("all", n=3))
    pd.testing.assert_frame_equal(again.history_, model.history_.drop(columns="seconds"))
    user, item = users[0], items[0]
    one, other = again.explain(user, item), model.explain(user, item)
    pd.testing.assert_frame_equal(one.ratings, other.ratings)
    new = (["new", "new"] if ids == "text" else [-5, -5], list(model.items_.labels[:2]), [5, 4])
    assert_same_models(again.fold_in(new), model.fold_in(new))
    assert again.n_iter_ == model.n_iter_
    assert_same_models(clone(again).fit(ratings), model)


def test_scales_survive(tmp_path):
    ratings = simulated()
    own = {"i0": [1, 2, 3, 4, 5, 6], "i1": [5, 4, 3, 2, 1]}
    model = small(scale=[1, 2, 3, 4, 5], item_scales=own, random_state=np.random.RandomState(1))
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


@for_both
def test_a_folded_model_can_be_saved(tmp_path, factors):
    model = small(factors=factors).fit(simulated()).fold_in((["ä", "ä"], ["i1", "ß"], [1, 5]))
    again = saved_and_loaded(model, tmp_path)
    assert again.users_.labels[-1] == "ä"
    assert_same_models(again, model)


def test_a_file_of_another_kind(tmp_path):
    path = tmp_path / "other.orbm"
    model_file.write(path, {"x": np.zeros(1)}, {"model": "tree"})
    with pytest.raises(orbm.DataError, match="of a kind this ordinalrbm does not know"):
        orbm.load(path)
    model_file.write(path, {"x": np.zeros(1)}, {"model": "matrix"})
    with pytest.raises(orbm.DataError, match="lacks a part of the model"):
        orbm.load(path)


def test_an_unknown_item_is_on_no_longer_scale_than_the_known_ones():
    """Nothing is learnt of levels that no item has; kernels have no room for them."""
    ratings = simulated(n_users=20, n_items=8)
    own = {item: [1, 2, 3, 4, 5] for item in ratings["item"].unique()}
    model = small(scale=list(range(1, 10)), item_scales=own, n_epochs=2).fit(ratings)
    assert model.predict_proba("u1", ["i1", "new"]).shape == (2, 5)

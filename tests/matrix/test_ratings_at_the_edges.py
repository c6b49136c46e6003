"""Few ratings, strange times, scales that differ, fits that fail: what is legal works, the rest is said."""

import datetime
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import ordinalrbm as orbm
from ordinalrbm import evaluate
from ordinalrbm.data.recency import NO_TIME, NOW, times_of

SETTINGS = {"n_epochs": 2, "random_state": 0}
RATINGS = pd.DataFrame({"user": [*"aabbcc"], "item": [*"xyxyxz"], "rating": [1, 3, 2, 3, 1, 2]})


@pytest.mark.parametrize("kind", [str, datetime.datetime.fromisoformat, "datetime64[s]"])
def test_dates_that_stand_for_none_are_first_or_last(kind):
    given = pd.Series(["2024-01-02", "9999-12-31", "0001-01-01", "2024-01-01"])
    if kind == "datetime64[s]":
        given = given.astype(kind)
    else:
        given = given.map(kind)
    times = times_of(given)
    assert times.clock == "dates" and np.argsort(times.value).tolist() == [2, 3, 0, 1]
    assert times.value.min() > NO_TIME and times.value.max() < NOW
    assert times.value[0] - times.value[3] == 86_400 * 10**9


def test_infinite_times_are_last():
    model = orbm.OrdinalMF(1, **SETTINGS).fit(RATINGS.assign(timestamp=[1, 2, 1, 2, 1, 2]))
    for late in (np.inf, 1e30):
        np.testing.assert_allclose(
            model.predict_proba("a", "x", times=late), model.predict_proba("a", "x", times=10**6)
        )


def test_a_fit_that_fails_leaves_the_model_as_it_was(tmp_path):
    features = pd.DataFrame({"user": [*"abc"], "age": [1.0, 2.0, 3.0]})
    model = orbm.OrdinalMF(1, **SETTINGS).fit(RATINGS, user_features=features)
    orbm.OrdinalMF(2, **SETTINGS).fit(RATINGS, checkpoint=tmp_path)
    before = pickle.dumps(model.predict_proba("a", "x"))
    with pytest.raises(orbm.DataError):
        model.fit(RATINGS, checkpoint=tmp_path)

    def stop(*_):
        raise RuntimeError("the disk of the callback is full")

    with pytest.raises(RuntimeError, match="callback"):
        model.fit(RATINGS.iloc[:3], callback=stop)
    assert pickle.dumps(model.predict_proba("a", "x")) == before
    model.save(tmp_path / "model.orbm")
    assert orbm.load(tmp_path / "model.orbm").predict("a", "x") == model.predict("a", "x")


@pytest.mark.parametrize("refit", ["held-out", "all"])
def test_validation_ratings_without_weight_change_nothing(refit):
    rng = np.random.default_rng(0)
    user, item = np.divmod(rng.permutation(600), 20)
    frame = pd.DataFrame({"user": user, "item": item, "rating": rng.integers(1, 6, 600), "trusted": 1})
    train, validation, odd = frame[:500], frame[500:550], frame[550:].assign(trusted=0)
    model = orbm.OrdinalMF(2, refit=refit, n_epochs=4, random_state=0)
    found = []
    for given in (validation, pd.concat([validation, odd])):
        model.fit(train, given, sample_weight="trusted")
        found.append((model.history_["validation"].to_numpy(), model.predict_proba(user, item)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_what_no_scale_is_learnt_of_is_not_scored():
    scales = {item: [1, 2, 3] for item in "xyz"}
    for more in ({}, {"scale": [1, 2, 3, 4, 5]}):
        model = orbm.OrdinalMF(1, item_scales=scales, **more, **SETTINGS).fit(RATINGS)
        for judge in (model.score, lambda ratings, of=model: evaluate.score_model(of, ratings)):
            with pytest.raises(orbm.DataError, match="The item 'new' is new, and nothing is learnt"):
                judge((["b", "a"], ["z", "new"], [1, 5]))
    with pytest.raises(orbm.DataError, match="There is no rating to score"):
        model.score(([], [], []))


def test_models_are_judged_by_what_they_are_fitted_with():
    usual = RATINGS.rename(columns={"user": "customer_id", "item": "movieId", "rating": "stars"})
    model = orbm.OrdinalMF(1, **SETTINGS).fit(usual)
    test = pd.DataFrame({"customer_id": [*"abc"], "movieId": [*"zzy"], "stars": [1, 2, 3]})
    truth = evaluate.score_model(model, test.set_axis(["user", "item", "rating"], axis=1)).ratings
    assert evaluate.score_model(model, test).ratings == truth
    assert evaluate.score_model(model, test, validation=test[:0]).ratings == truth
    with pytest.raises(orbm.DataError, match="no column 'rating'"):
        evaluate.score_model(model, test[["customer_id", "movieId"]])
    by_position = orbm.OrdinalMF(1, **SETTINGS).fit(csr_array(np.array([[1, 2, 0], [2, 0, 1], [0, 3, 3]])))
    judged = ([0, 1, 2], [2, 1, 0], [3, 2, 1])
    assert evaluate.score_model(by_position, judged, validation=csr_array((3, 3), dtype=int)).n_tested == 3


def test_test_ratings_without_their_times_are_judged_at_the_end():
    model = orbm.OrdinalMF(1, **SETTINGS).fit(RATINGS.assign(timestamp=[1, 2, 1, 2, 1, 2]))
    test = pd.DataFrame({"user": [*"abc"], "item": [*"zzy"], "rating": [1, 2, 3]})
    truth = evaluate.score_model(model, test).ratings
    for times in (np.nan, "yesterday"):
        assert evaluate.score_model(model, test.assign(timestamp=times)).ratings == truth


def test_a_checkpoint_knows_its_times(tmp_path):
    timed = RATINGS.assign(timestamp=[1, 2, 1, 2, 1, 2])
    orbm.OrdinalMF(1, **SETTINGS).fit(timed, checkpoint=tmp_path)
    orbm.OrdinalMF(1, **SETTINGS).fit(timed, checkpoint=tmp_path)
    with pytest.raises(orbm.DataError, match="times"):
        orbm.OrdinalMF(1, **SETTINGS).fit(timed.assign(timestamp=[2, 1, 1, 2, 1, 2]), checkpoint=tmp_path)


def test_scales_of_items_may_be_given_by_other_numbers(tmp_path):
    ratings = ([1, 1, 2, 2], [1, 2, 1, 2], [1, 2, 3, 1])
    model = orbm.OrdinalMF(1, scale=[1, 2, 3], item_scales={1.0: [1, 2, 3]}, **SETTINGS).fit(ratings)
    model.save(tmp_path / "model.orbm")
    again = orbm.load(tmp_path / "model.orbm")
    assert again.item_scales == {1: [1, 2, 3]} and again.predict(1, 2) == model.predict(1, 2)
    model.forget(items=[1]).save(tmp_path / "model.orbm")
    assert not orbm.load(tmp_path / "model.orbm").item_scales


def test_ids_of_binary_models_come_in_any_form():
    model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=1, random_state=0).fit(RATINGS)
    for ids in (pd.Series(["a", "q"], index=[7, 8]), (user for user in "aq"), np.array(["a", "q"])):
        with pytest.raises(orbm.DataError, match="The user 'q' is not known"):
            model.transform(ids)


def test_where_there_is_nothing_to_rate_this_is_said():
    with pytest.warns(UserWarning):
        model = orbm.OrdinalMF(1, posterior="sampled", random_state=0).fit((RATINGS["user"], RATINGS["item"]))
    assert not hasattr(model, "chain_")


def test_a_scale_that_all_items_have_is_that_of_predictions():
    scales = {item: [1, 2, 3] for item in "xyz"}
    model = orbm.GaussianMF(1, scale=[0, 1, 2], item_scales=scales, **SETTINGS).fit(RATINGS)
    assert (model.predict(RATINGS["user"], RATINGS["item"]) >= 1).all()

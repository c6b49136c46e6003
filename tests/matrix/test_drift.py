"""Biases of users that drift: what is learnt of them, and predictions for a time."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import ordinalrbm as orbm

LEVELS = np.arange(1, 6)


def moody(seed=0, n_users=40, n_items=50):
    """Users whose mood goes up and down, and who like all items alike."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.7)
    time = rng.random(user.size)
    utility = 1.5 * np.sin(6.0 * time + user) + rng.normal(size=user.size)
    rating = 1 + np.digitize(utility, [-1.5, -0.5, 0.5, 1.5])
    table = pd.DataFrame({"user": user, "item": item, "rating": rating, "timestamp": time})
    is_test = rng.random(user.size) < 0.15
    return table[~is_test], table[is_test]


def fitted(train, posterior, **settings):
    settings = {"n_draws": 10, "n_epochs": 60} | settings if posterior == "sampled" else settings
    settings = {"demand_factors": 0, "random_state": 0} | settings
    return orbm.OrdinalMF(2, posterior=posterior, **settings).fit(train)


def log_chances(model, test, **when):
    found = model.predict_proba(test["user"], test["item"], **when)
    return np.log(found[np.arange(len(test)), test["rating"] - 1])


@pytest.fixture(params=["variational", "sampled"])
def posterior(request):
    return request.param


@pytest.fixture(scope="module")
def models():
    train, _ = moody()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {name: fitted(train, name) for name in ("variational", "sampled")}


def test_moods_are_found_and_tell_ratings_of_their_time(models, posterior):
    train, test = moody()
    model = models[posterior]
    at_times = log_chances(model, test, times=test["timestamp"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gain = at_times - log_chances(fitted(train, posterior, drift="none"), test)
    assert gain.mean() > 5.0 * gain.std() / np.sqrt(gain.size)
    assert model.score(test) == pytest.approx(at_times.mean())


def test_now_is_after_the_last_rating(models, posterior):
    model, (_, test) = models[posterior], moody()
    now, later = log_chances(model, test), log_chances(model, test, times=5.0)
    np.testing.assert_array_equal(now, later)
    assert not np.allclose(now, log_chances(model, test, times=test["timestamp"]), atol=1e-3)
    one = model.predict(3, [1, 2], times=[0.1, 0.9])
    np.testing.assert_allclose(one, [model.predict(3, 1, times=0.1), model.predict(3, 2, times=0.9)])


def test_unknown_users_have_no_times(models, posterior):
    model = models[posterior]
    for pair in ((-7, 1), (-7, -7)):
        np.testing.assert_array_equal(model.predict_proba(*pair, times=0.2), model.predict_proba(*pair))


def test_files_keep_the_drift(models, posterior, tmp_path):
    model, (_, test) = models[posterior], moody()
    model.save(tmp_path / "model.orbm")
    again = orbm.load(tmp_path / "model.orbm")
    for when in ({}, {"times": test["timestamp"]}):
        np.testing.assert_array_equal(log_chances(model, test, **when), log_chances(again, test, **when))


def test_without_a_drift_times_make_no_difference(posterior):
    train, test = moody(n_users=8)
    settings = {"n_epochs": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = fitted(train, posterior, drift="none", **settings)
        other = fitted(train.drop(columns="timestamp"), posterior, **settings)
    np.testing.assert_array_equal(log_chances(one, test), log_chances(other, test))
    np.testing.assert_array_equal(log_chances(one, test), log_chances(one, test, times=test["timestamp"]))
    np.testing.assert_array_equal(log_chances(other, test), log_chances(other, test, times=0.0))


def test_new_items_are_placed_by_ratings_at_their_times(models, posterior):
    """A user in a good mood says little about an item, and one in a bad mood much."""
    model, (train, _) = models[posterior], moody()
    level = model._drift().level.mean(axis=0)
    start, last = model._drift().start, model._drift().last
    first, final = level[start[:-1]], level[start[1:] - 1]
    fell = int(np.argmax(first - final))  # rated higher at first than it would now
    user, early = model.users_.labels[fell], last[start[fell]]
    assert early < last[start[fell + 1] - 1]
    when = train.loc[train["user"] == user, "timestamp"].min()
    item = {"user": [user], "item": [999], "rating": [4]}
    then = model.fold_in(pd.DataFrame(item | {"timestamp": [when]}))
    now = model.fold_in(pd.DataFrame(item | {"timestamp": [9.0]}))
    expected = [each.item_biases_[-1] for each in (then, now)]
    assert expected[0] < expected[1]


def test_updates_go_on_with_the_drift(models, posterior, tmp_path):
    _, test = moody()
    models[posterior].save(tmp_path / "model.orbm")
    model = orbm.load(tmp_path / "model.orbm")
    before = model.score(test)
    more = test[test["user"] < 20]
    model.update(more)
    rest = test[test["user"] >= 20]
    assert model.score(more) > log_chances(models[posterior], more, times=more["timestamp"]).mean()
    assert model.score(rest) == pytest.approx(models[posterior].score(rest), abs=0.02)
    assert model.score(test) > before


@pytest.mark.parametrize("times", [["yesterday"], ["2024-01-01"], [1.0, 2.0, 3.0]])
def test_times_of_another_kind_are_refused(models, times):
    with pytest.raises(orbm.DataError, match="times must be numbers, as the timestamps"):
        models["variational"].predict_proba([1, 2], [1, 2], times=times)


def test_dates_are_compared_with_dates():
    train, test = moody(n_users=12)
    base = pd.Timestamp("2024-03-01")
    dated = train.assign(timestamp=base + pd.to_timedelta((train["timestamp"] * 1e6).round(), unit="s"))
    model = fitted(dated, "variational", n_epochs=3)
    dates = base + pd.to_timedelta((test["timestamp"] * 1e6).round(), unit="s")
    by_text = log_chances(model, test, times=dates.dt.strftime("%Y-%m-%d %H:%M:%S"))
    np.testing.assert_array_equal(log_chances(model, test, times=dates), by_text)
    with pytest.raises(orbm.DataError, match="times must be dates"):
        model.predict(1, 1, times=17)


def test_a_fit_goes_on_where_it_was_interrupted(posterior, tmp_path):
    train, test = moody(n_users=10)

    def stop(epoch):
        return epoch.epoch == 5

    settings = {"n_epochs": 9, "demand_factors": 0} | (
        {"n_draws": 4} if posterior == "sampled" else {"patience": 9}
    )
    model = orbm.OrdinalMF(2, posterior=posterior, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = log_chances(model.fit(train), test, times=test["timestamp"])
        orbm.OrdinalMF(2, posterior=posterior, random_state=0, **settings).fit(
            train, checkpoint=tmp_path, every=1, callback=stop
        )
        again = model.fit(train, checkpoint=tmp_path, every=1)
    np.testing.assert_array_equal(whole, log_chances(again, test, times=test["timestamp"]))

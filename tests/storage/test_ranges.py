"""Stored numbers that only the answers of a larger model show to be wrong: refused at loading."""

import warnings

import numpy as np
import pandas as pd
import pytest
from questions import faults
from stored_models import rewritten
from test_spoilt_files import assert_is_a_sentence

import ordinalrbm as orbm


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """Of 120 users who have rated about 18 of 60 items each."""
    rng = np.random.default_rng(0)
    taste, kind = rng.normal(size=(120, 3)), rng.normal(size=(60, 3))
    user, item = np.nonzero(rng.random((120, 60)) < 0.3)
    utility = (taste[user] * kind[item]).sum(axis=1) + rng.normal(size=user.size)
    rating = np.clip(np.round(3 + utility), 1, 5).astype(int)
    table = pd.DataFrame({"user": user, "item": item, "rating": rating})
    model = orbm.OrdinalMF(4, posterior="sampled", n_draws=20, n_epochs=40, random_state=0)
    path = tmp_path_factory.mktemp("ranges") / "sampled.orbm"
    model.fit(table).save(path)
    return path


def newcomers_and_news(model):
    """Faults, also of answers after some newcomers and after new ratings of many."""
    found = faults(model)
    some, few = np.arange(40), np.arange(12)
    new = (np.repeat([-1, -2, -3], 12), np.tile(few, 3), np.resize([1, 5, 2, 4, 3], 36))
    news = ([*some, *some, -9], [*some, *some + 1, 4], [*np.resize([5, 1], 80), 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for asked in (model.fold_in(new), model.fold_in(([-9], [4], [3])), model.update(news)):
            users = [*set(asked.users_.labels) & {-1, -2, -3, -9}, *some]
            probability = asked.predict_proba(np.repeat(users, 12), np.tile(few, len(users)))
            scores = asked.recommend(users, n=5, score="demand")["score"]
            if not (np.isfinite(probability).all() and np.isfinite(scores).all()):
                found.append("not finite after fold_in or update")
    return found


def test_what_was_learnt_is_within_the_ranges(sampled):
    assert newcomers_and_news(orbm.load(sampled)) == []


@pytest.mark.parametrize(
    ("names", "change"),
    [
        (["draws.rows.width_precision"], lambda array: array * 1e-5),
        (["draws.columns.width_precision"], lambda array: array * 1e-5),
        (["demand.rows", "demand.columns"], lambda array: np.full_like(array, -9e3)),
        (["demand.rows", "demand.columns"], lambda array: np.full_like(array, -300.0)),
        (["demand.rows"], lambda array: array * 1e4),
        (["demand.ridge"], lambda array: array * 1e-9),
    ],
)
def test_numbers_that_nothing_was_learnt_with_are_refused(names, change, sampled, tmp_path):
    def spoil(arrays, header):
        for name in names:
            arrays[name] = change(arrays[name]).astype(arrays[name].dtype)

    path = tmp_path / "spoilt.orbm"
    rewritten(sampled, path, spoil)
    try:
        model = orbm.load(path)
    except orbm.DataError as error:
        assert_is_a_sentence(str(error), path)
        assert names[0].rpartition(".")[2] in str(error)
    else:
        assert newcomers_and_news(model) == []

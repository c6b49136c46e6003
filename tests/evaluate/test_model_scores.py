"""A model's figures, computed anew from its distributions and lists by plain loops."""

import math

import numpy as np
import pandas as pd
import pytest
from test_baselines import slow_biases, slow_distribution, slow_popular
from test_metrics import slow_score
from test_ranking import slow_ranking

import ordinalrbm as orbm
from ordinalrbm.data.ratings import read_ratings
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate import score_model

LABELS = [1, 2, 3, 4, 5]


def made_up(n_users=40, n_items=25, seed=1):
    """Two tastes, and half of the cells."""
    rng = np.random.default_rng(seed)
    taste, kind = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.5)
    utility = (taste[user] * kind[item]).sum(axis=1) + rng.normal(0, 0.5, user.size) + 3.3
    rating = np.clip(np.round(utility), 1, 5).astype(int)
    ratings = pd.DataFrame({"user": user, "item": item + 1000, "rating": rating})
    return ratings.sample(frac=1, random_state=0, ignore_index=True)


@pytest.fixture(scope="module")
def parts():
    ratings = made_up()
    test, validation, train = ratings[:80], ratings[80:120], ratings[120:]
    # A user and an item that training does not know.
    new = pd.DataFrame({"user": [777, 1, 777], "item": [1003, 5, 5], "rating": [5, 4, 1]})
    return train, validation, pd.concat([test, new], ignore_index=True)


@pytest.fixture(scope="module")
def model(parts):
    train, validation, _ = parts
    return orbm.OrdinalMF(3, n_epochs=5, random_state=0, scale=LABELS).fit(train, validation)


def lines_of(frame, last):
    return list(frame[["user", "item", last]].itertuples(index=False, name=None))


def test_scores_of_ratings_against_loops(model, parts):
    train, _, test = parts
    found = score_model(model, test)
    assert (found.n_tested, found.n_learnt) == (len(test), 0)
    truth = test["rating"].tolist()
    ours = model.predict_proba(test["user"], test["item"])
    assert found.ratings["model"] == pytest.approx(slow_score(ours, truth, LABELS))
    counts = np.array([(train["rating"] == label).sum() + 0.5 for label in LABELS])
    usual = np.array([counts / counts.sum()] * len(test))
    assert found.ratings["marginal"] == pytest.approx(slow_score(usual, truth, LABELS))


def test_biases_know_training_ratings_only(model, parts):
    train, _, test = parts
    mean, of_item, of_user, residuals = slow_biases(lines_of(train, "rating"), 25, 10)
    numbers = [
        mean + of_user.get(u, 0) + of_item.get(i, 0) for u, i in zip(test["user"], test["item"], strict=True)
    ]
    shares = np.array([slow_distribution(number, residuals, LABELS) for number in numbers])
    expected = slow_score(shares, test["rating"].tolist(), LABELS)
    errors = [
        (min(max(number, 1), 5) - right) ** 2 for number, right in zip(numbers, test["rating"], strict=True)
    ]
    expected["rmse"] = math.sqrt(sum(errors) / len(errors))
    assert score_model(model, test).ratings["biases"] == pytest.approx(expected)


@pytest.mark.parametrize(("k", "liked"), [(10, None), (3, 5)])
@pytest.mark.parametrize("watched", [False, True])
def test_lists_against_loops(model, parts, k, liked, watched):
    train, validation, test = parts
    found = score_model(model, test, validation if watched else None, k=k, liked=liked).ranking
    users = sorted(test["user"].unique())
    # Whole lists, of which the loops take the first that were not rated before.
    before = pd.concat([train, validation]) if watched else train
    catalogue = lines_of(train, "rating")
    lists = {
        "model": lines_of(model.recommend(users, n=25), "rank"),
        "popularity": [line[:3] for line in slow_popular(train, users, 25)],
    }
    for name, lines in lists.items():
        rated = {pair[:2] for pair in lines_of(before, "rating")}
        unseen = [line for line in lines if line[:2] not in rated]
        expected = slow_ranking(unseen, lines_of(test, "rating"), catalogue, k, liked or 4)
        assert {part: getattr(found[name], part) for part in expected} == pytest.approx(expected)


def test_nothing_but_training_ratings(model, parts):
    with pytest.raises(DataError, match=r"All \d+ test ratings .* learnt from, so .*; give"):
        score_model(model, parts[0])


def test_folded_in_ratings_are_known_too(model):
    new = pd.DataFrame({"user": [900, 900], "item": [1001, 1002], "rating": [5, 1]})
    wider = model.fold_in(new)
    assert score_model(model, new).n_learnt == 0
    with pytest.raises(DataError, match="All 2 test ratings"):
        score_model(wider, new)


def test_items_with_scales_of_their_own():
    ratings = made_up()
    ratings["rating"] = ratings["rating"].clip(upper=np.where(ratings["item"] < 1005, 3, 5))
    own = {item: [1, 2, 3] for item in range(1000, 1005)}
    model = orbm.OrdinalMF(2, n_epochs=3, random_state=0, scale=LABELS, item_scales=own)
    found = score_model(model.fit(ratings[50:]), ratings[:50])
    assert found.n_tested == 50 and found.ranking["model"].liked is None
    only = orbm.OrdinalMF(2, n_epochs=2, random_state=0, item_scales={1: [1, 2], 2: [1, 2, 3]}).fit(
        ([1, 2, 3, 1], [1, 1, 2, 2], [1, 2, 3, 1])
    )
    with pytest.raises(DataError, match="item 9 is new, and nothing is learnt of its scale"):
        score_model(only, ([1], [9], [1]))


def test_what_is_no_model_of_ratings():
    for other in (orbm.OrdinalMF(), orbm.CumulativeRBM.binary(2), read_ratings(([1], [1], [1]))):
        with pytest.raises(DataError, match="no training ratings to compare with; give a fitted"):
            score_model(other, ([1], [1], [1]))

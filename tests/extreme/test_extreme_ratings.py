"""Ratings as strange as they may legally be: models stay finite, and sensible."""

from contextlib import nullcontext

import numpy as np
import pytest
from extremes import RATING_MODELS, checked_ratings, mean_loss, rating_model, shares

every_model = pytest.mark.parametrize("kind", RATING_MODELS)
# Takes ratings for numbers: of how likely each is, it knows only mean and spread.
ORDINAL = [kind for kind in RATING_MODELS if kind != "GaussianMF"]
SHARES = [0.1, 0.1, 0.2, 0.5, 0.1]


def tastes(n_users, n_items, share=0.4, n_levels=5, seed=0):
    """Who rated what how, 1 to L, with quality and two tastes in it."""
    rng = np.random.default_rng(seed)
    of_user, of_item = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    user, item = np.nonzero(rng.random((n_users, n_items)) < share)
    utility = 0.6 * (of_user[user] * of_item[item]).sum(axis=1) + 0.7 * of_item[item, 0]
    utility += 0.5 * rng.normal(size=user.size)
    rating = 1 + np.clip(np.floor((utility + 2.0) / 4.0 * n_levels), 0, n_levels - 1).astype(int)
    return user, item, rating


def parts(ratings, share=0.1):
    """Ratings to learn from, and others."""
    test = np.random.default_rng(9).random(ratings[0].size) < share
    return [tuple(part[chosen] for part in ratings) for chosen in (~test, test)]


@every_model
@pytest.mark.parametrize("scale", [None, [1, 2, 3, 4, 5]])
def test_all_ratings_are_equal(kind, scale, tmp_path):
    user, item, _ = tastes(40, 30)
    told = pytest.warns(UserWarning, match="on a scale of one level")
    with told if scale is None else nullcontext():
        model = rating_model(kind, scale=scale).fit((user, item, np.full(user.size, 3)))
    found = checked_ratings(model, user, item, tmp_path)
    assert found[:, 0 if scale is None else 2].min() > 0.95
    assert (found > 0).all()


@every_model
@pytest.mark.parametrize("who", ["user", "item", "both"])
def test_one_rating_each(kind, who, tmp_path):
    """Nothing is known of anybody, so that somebody new is predicted by the frequencies."""
    rng = np.random.default_rng(0)
    n, few = 400, rng.integers(0, 10, 400)
    rating = 1 + rng.choice(5, n, p=SHARES)
    user = few if who == "item" else np.arange(n)
    item = few if who == "user" else np.arange(n)
    model = rating_model(kind, **({"batch_size": 16} if kind == "MultinomialRBM" else {}))
    model.fit((user, item, rating))
    checked_ratings(model, user[:100], item[:100], tmp_path)
    unknown = model.predict_proba([-1], [-1])[0]
    assert abs(unknown @ np.arange(1, 6) - rating.mean()) < 0.15
    if kind in ORDINAL:
        np.testing.assert_allclose(unknown, shares(rating - 1, 5), atol=0.06)


@every_model
def test_a_hundred_levels_half_of_them_never_given(kind, tmp_path):
    user, item, rating = tastes(80, 40, n_levels=100)
    learnt, test = parts((user, item, np.minimum(rating, 50)))
    model = rating_model(kind, scale=list(range(1, 101))).fit(learnt)
    found = checked_ratings(model, *test[:2], tmp_path)
    assert (found > 0).all()
    error = np.abs(model.predict(*test[:2]) - test[2]).mean()
    assert error < 0.9 * np.abs(learnt[2].mean() - test[2]).mean()
    if kind in ORDINAL and kind != "MultinomialRBM":  # which knows nothing of neighbours
        assert mean_loss(found, test[2] - 1) < mean_loss(
            np.tile(shares(learnt[2] - 1, 100), (len(found), 1)), test[2] - 1
        )


@every_model
def test_items_that_all_agree_on(kind, tmp_path):
    user, item, _ = tastes(60, 40)
    learnt, test = parts((user, item, np.where(item < 20, 1, 5)))
    model = rating_model(kind).fit(learnt)
    found = checked_ratings(model, *test[:2], tmp_path)
    assert mean_loss(found, (test[2] == 5).astype(int)) < (
        0.2 if kind == "point" else 0.15
    )  # whose prior is not learnt
    assert (model.predict(*test[:2], rule="mode") == test[2]).all()
    assert max(np.abs(part).max(initial=0) for part in _learnt_numbers(model)) < 50


@every_model
@pytest.mark.parametrize(
    "ratings",
    [
        (np.zeros(20, dtype=int), np.arange(20), 1 + np.arange(20) % 5),
        (np.arange(20), np.zeros(20, dtype=int), 1 + np.arange(20) % 5),
        ([0], [0], [3]),
        ([0, 1], [0, 1], [1, 5]),
    ],
    ids=["one user", "one item", "one rating", "two ratings"],
)
def test_hardly_any_ratings(kind, ratings, tmp_path):
    model = rating_model(kind, scale=[1, 2, 3, 4, 5]).fit(ratings)
    checked_ratings(model, *ratings[:2], tmp_path)


def _learnt_numbers(model):
    """Effects, in units of the utility; precisions may be as large as they like."""
    for one in model.models_:
        if hasattr(one, "by_rows"):
            for half in one[:2]:
                yield from half[:2]
        elif hasattr(one, "units"):
            yield one.units
        else:
            yield from (one.rows.mean, one.columns.mean)

"""Fitted models together: shares that suit what was held out, and the mean of distributions."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize
from small_matrices import LABELS, MODELS, halves, simulated

import ordinalrbm as orbm
from ordinalrbm.estimators import ensemble


@pytest.fixture(scope="module")
def ratings():
    return halves(simulated())


@pytest.fixture(scope="module")
def models(ratings):
    names = ("matrix", "ordinal", "multinomial")
    return [MODELS[name]().fit(ratings[0]) for name in names]


def likelihoods(models, rest):
    """(models, ratings): probability of what was held out, by each model alone."""
    each = [model.predict_proba(rest["user"], rest["item"], rest.get("timestamp")) for model in models]
    return np.array([p[np.arange(len(rest)), rest["rating"].to_numpy() - 1] for p in each])


def log_posterior(shares, likelihood):
    prior = ensemble._PRIOR_RATINGS * np.log(shares).sum()
    return np.log(shares @ likelihood).sum() + prior


@pytest.mark.parametrize("pair", [(0, 1), (1, 2)])
def test_shares_of_two_are_the_most_likely_ones(pair, ratings, models):
    """No share on a grid suits what was held out better."""
    both = orbm.RatingEnsemble([models[k] for k in pair]).fit(ratings[1])
    likelihood = likelihoods(both.models, ratings[1])
    grid = np.linspace(0.002, 0.998, 499)
    values = [log_posterior(np.array([share, 1 - share]), likelihood) for share in grid]
    assert both.shares_[0] == pytest.approx(grid[int(np.argmax(values))], abs=0.01)
    assert log_posterior(both.shares_, likelihood) > max(values) - 0.01


def test_shares_of_three_are_the_most_likely_ones(ratings, models):
    likelihood = likelihoods(models, ratings[1])

    def loss(logs):
        return -log_posterior(np.exp(logs - np.logaddexp.reduce(logs)), likelihood)

    best = minimize(loss, np.zeros(3), method="BFGS").x
    shares = orbm.RatingEnsemble(models).fit(ratings[1]).shares_
    np.testing.assert_allclose(shares, np.exp(best - np.logaddexp.reduce(best)), atol=0.01)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)


def test_predictions_are_those_of_the_mean_distribution(ratings, models):
    every, rest = orbm.RatingEnsemble(models), ratings[1]
    np.testing.assert_allclose(every.shares_, 1 / 3)  # before fit()
    every.fit(rest)
    users, items = [*rest["user"], "nobody", "u3"], [*rest["item"], "i4", "nothing"]
    mean = every.predict_proba(users, items)
    alone = [model.predict_proba(users, items) for model in models]
    np.testing.assert_allclose(mean, np.tensordot(every.shares_, alone, 1), atol=1e-12)
    np.testing.assert_allclose(every.predict(users, items), mean @ LABELS)
    np.testing.assert_array_equal(every.predict(users, items, "mode"), LABELS[mean.argmax(axis=1)])
    assert every.predict("u3", "i4") == pytest.approx(every.predict(["u3"], ["i4"])[0])
    expected = np.log(every.shares_ @ likelihoods(models, rest)).mean()
    assert every.score(rest) == pytest.approx(expected, abs=1e-12)
    same = orbm.RatingEnsemble(models, shares=every.shares_)  # as after models were loaded
    np.testing.assert_array_equal(same.predict_proba(users, items), mean)


def drifting(n_users=60, n_items=40):
    """Ratings of users who become milder with time; of every fifth user the last one is kept aside."""
    rng = np.random.default_rng(0)
    user, item = np.divmod(np.arange(n_users * n_items), n_items)
    order = np.argsort(rng.random((n_users, n_items)), axis=1).ravel()
    utility = 0.07 * (order - n_items / 2) + 0.3 * rng.normal(size=user.size)
    rating = 1 + np.searchsorted([-1.0, -0.3, 0.3, 1.0], utility)
    frame = pd.DataFrame({"user": user, "item": item, "rating": rating, "timestamp": 86400 * order})
    hidden = rng.random(len(frame)) < 0.2
    return frame[~hidden], frame[hidden]


def test_shares_and_predictions_are_those_at_the_times_of_ratings():
    """The model that drifts is right in what it says of the past, and the other one is not."""
    learnt, rest = drifting()
    common = {"n_epochs": 8, "random_state": 0, "demand_factors": 0}
    drifts = orbm.OrdinalMF(2, **common).fit(learnt)
    stays = orbm.OrdinalMF(2, drift="none", **common).fit(learnt)
    both = orbm.RatingEnsemble([drifts, stays]).fit(rest)
    likelihood = likelihoods(both.models, rest)
    now = drifts.predict_proba(rest["user"], rest["item"])
    at_times = both.predict_proba(rest["user"], rest["item"], rest["timestamp"])
    assert np.abs(drifts.predict_proba(rest["user"], rest["item"], rest["timestamp"]) - now).max() > 0.2
    np.testing.assert_allclose(
        at_times[np.arange(len(rest)), rest["rating"] - 1], both.shares_ @ likelihood, atol=1e-12
    )
    alone = [drifts.score(rest), stays.score(rest)]
    np.testing.assert_allclose(np.log(likelihood).mean(axis=1), alone, atol=1e-9)
    assert alone[0] > alone[1] + 0.1 and both.shares_[0] > 0.7
    assert both.score(rest) > alone[1] + 0.1
    mean = both.predict(rest["user"], rest["item"], times=rest["timestamp"])
    np.testing.assert_allclose(mean, at_times @ LABELS)


def test_ratings_of_a_matrix():
    users, items = np.divmod(np.arange(120), 6)
    matrix = sparse.coo_array((1 + (users + items) % 3, (users, items))).tocsr()
    learnt, rest = matrix.copy(), sparse.lil_array(matrix.shape, dtype=int)
    for user in range(20):
        rest[user, user % 6] = matrix[user, user % 6]
    learnt = (matrix - rest).tocsr()
    learnt.eliminate_zeros()
    models = [orbm.OrdinalMF(k, n_epochs=2, random_state=0).fit(learnt) for k in (1, 2)]
    coo = rest.tocoo()
    of_matrix, of_arrays = (
        orbm.RatingEnsemble(models).fit(given) for given in (rest.tocsr(), (coo.row, coo.col, coo.data))
    )
    np.testing.assert_array_equal(of_matrix.shares_, of_arrays.shares_)


def test_what_is_refused(ratings, models, tmp_path):
    both = orbm.RatingEnsemble(models[:2])
    with pytest.raises(orbm.DataError, match=r"MatrixCumulativeRBM has learnt from 3 of these ratings"):
        both.fit(pd.concat([ratings[0][:3], ratings[1]]))
    for wrong in ([], "all", [models[0], None], [models[0], orbm.OrdinalMF()], [both]):
        with pytest.raises(orbm.DataError, match="must be a list of fitted models"):
            orbm.RatingEnsemble(wrong)
    for wrong in ([0.5], [0.5, 0.6], [1.5, -0.5]):
        with pytest.raises(orbm.DataError, match="2 numbers that add up to 1"):
            orbm.RatingEnsemble(models[:2], wrong)
    fewer = MODELS["ordinal"](n_epochs=1).fit(ratings[0][ratings[0]["item"] != "i4"])
    longer = MODELS["ordinal"](n_epochs=1, scale=[1, 2, 3, 4, 5, 6]).fit(ratings[0])
    for other in (fewer, longer):
        with pytest.raises(orbm.DataError, match="MatrixCumulativeRBM and OrdinalMF know different items"):
            orbm.RatingEnsemble([models[0], other])
    with pytest.raises(orbm.DataError, match=r"save\(\) each of its models.* shares=\[0.5, 0.5\]"):
        both.save(tmp_path / "both.orbm")
    with pytest.raises(orbm.DataError, match="'rule' parameter must be"):
        both.predict("u1", "i1", "best")
    with pytest.raises(orbm.DataError, match="at least one"):
        both.score(ratings[1][:0])

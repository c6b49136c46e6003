"""New users and new items against full training; what is known stays."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm
from small_matrices import (
    FACTORS,
    assert_same_models,
    cell_bounds,
    cell_deviation,
    cell_log_level,
    cell_mean,
    for_both,
    halves,
    simulated,
    small,
)

from ordinalrbm.data.observations import Observations
from ordinalrbm.matrix import fold_in as folding
from ordinalrbm.matrix.model import Half
from ordinalrbm.matrix.predict import with_cold_start


def bigger():
    return simulated(400, 80, density=0.4, seed=3)


def error(model, test):
    predicted = model.predict(test["user"], test["item"])
    return float(np.sqrt(np.mean((predicted - test["rating"]) ** 2)))


@for_both
@pytest.mark.parametrize("what", ["user", "item"])
def test_folded_in_is_about_as_good_as_learnt(what, factors):
    train, test = halves(bigger())
    ids = np.sort(train[what].unique())
    new = set(ids[:: 20 if what == "user" else 8])
    is_new = train[what].isin(new)
    options = {"n_epochs": 15, "batch_size": 100, "factors": factors}
    full = small(6, 6, **options).fit(train)
    before = small(6, 6, **options).fit(train[~is_new])
    after = before.fold_in(train[is_new])
    theirs, others = test[test[what].isin(new)], test[~test[what].isin(new)]
    assert error(after, theirs) < error(full, theirs) + 0.05
    assert error(after, theirs) < error(before, theirs) - 0.05  # far better than a stranger
    assert error(after, others) == pytest.approx(error(before, others), rel=1e-12)


@pytest.fixture(scope="module", params=FACTORS)
def model(request):
    return small(factors=request.param).fit(simulated())


@pytest.fixture(scope="module")
def newcomers():
    return pd.DataFrame(
        {
            "user": ["x", "x", "x", "y", "y", "u1", "u2", "u3"],
            "item": ["i1", "i2", "fresh", "i1", "i9", "fresh", "fresh", "other"],
            "rating": [5, 1, 4, 2, 2, 5, 5, 1],
        }
    )


def test_what_is_known_stays(model, newcomers):
    kept = model.model_.copy()
    wider = model.fold_in(newcomers)
    assert wider is not model
    assert_same_models(model, model)
    for a, b in zip((*kept[0], *kept[1]), (*model.model_[0], *model.model_[1]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(model.users_) == 120
    assert wider.users_.labels[120:].tolist() == ["x", "y"]
    assert wider.items_.labels[50:].tolist() == ["fresh", "other"]
    np.testing.assert_array_equal(wider.user_factors_[:120], model.user_factors_)
    users, items = model.users_.labels[:10], model.items_.labels[:10]
    np.testing.assert_array_equal(wider.predict(users, items), model.predict(users, items))
    assert_same_models(model.fold_in(newcomers), wider)  # nothing random


def test_new_ratings_count_as_seen(model, newcomers):
    wider = model.fold_in(newcomers)
    assert wider.ratings_.n_ratings == model.ratings_.n_ratings + len(newcomers)
    for user, item in (("x", "fresh"), ("x", "i1"), ("u1", "fresh")):
        assert item not in wider.recommend(user, n=100)["item"].tolist()
    assert "fresh" in wider.recommend("u5", n=100)["item"].tolist()
    frame = wider.ratings_.to_frame()
    both = frame.merge(newcomers, on=["user", "item", "rating"])
    assert len(both) == len(newcomers)
    assert wider.explain("x", "i5").ratings["item"].isin(["i1", "i2", "fresh"]).all()


def test_only_what_is_new_of_each_other(model):
    """A new user whose only rating is of a new item."""
    wider = model.fold_in((["x"], ["fresh"], [5]))
    liked = wider.predict("x", "fresh")[0]
    assert liked > model.predict("x", "fresh")[0]


@for_both
def test_users_without_parameters_of_their_own(factors):
    train = simulated()
    model = small(4, 0, factors=factors).fit(train)
    wider = model.fold_in((["x"] * 3, ["i1", "i2", "i3"], [5, 5, 5]))
    np.testing.assert_array_equal(wider.model_.by_columns.bias, 0.0)
    np.testing.assert_array_equal(wider.model_.by_columns.cutpoints, 0.0)
    users = model.users_.labels
    disliked = wider.fold_in((users[:5], ["j"] * 5, [1] * 5)).predict(users, "j")
    assert disliked.mean() < wider.predict(users, "j").mean() - 0.1


def test_newcomers_know_each_other_better_than_strangers_do():
    """Also with far more factors than the ratings can tell."""
    model = small(30, 30).fit(simulated())
    users = [*["x"] * 4, *model.users_.labels[:4]]
    items = [*model.items_.labels[:4], *["fresh"] * 4]
    wider = model.fold_in((users, items, [5, 4, 3, 4, 3, 4, 5, 3]))
    between_strangers = cell_deviation(with_cold_start(model.model_), 120, 50)
    assert cell_deviation(wider.model_, 120, 5) < between_strangers
    assert cell_deviation(wider.model_, 5, 50) < between_strangers
    assert cell_deviation(wider.model_, 120, 50) < between_strangers


def test_folding_in_again(model, newcomers):
    wider = model.fold_in(newcomers)
    widest = wider.fold_in((["z", "x"], ["i1", "third"], [3, 5]))
    assert widest.users_.labels[-1] == "z"
    assert widest.predict("z", "third").shape == (1,)


# ---- the optimum --------------------------------------------------------------------------------


def objective(model, d, items, levels, usual, h):
    """Minus the log posterior of one row's parameters given its factors, as a function of them."""
    g, own = model.by_columns.factors, model.by_columns

    def loss(x):
        weights, middle, cutpoints = np.split(x, [usual.factors.size, usual.factors.size + 1])
        own.weights[d], own.bias[d] = weights, middle[0] - weights @ usual.factors
        own.cutpoints[d, 1:] = cutpoints
        total = sum(
            cell_log_level(model, d, i, level, cell_mean(model, d, i, h, g[i]))
            for i, level in zip(items, levels, strict=True)
        )
        total -= 0.5 * usual.weights_precision @ weights**2
        total -= 0.5 * usual.bias_precision @ (middle - usual.bias) ** 2
        total -= (
            0.5 * usual.cutpoints_precision[0] * np.sum((cutpoints - usual.cutpoints[5, 1:]) ** 2)
        )
        return -total

    return loss


def expected_utility(model, d, i, level, h):
    mean = cell_mean(model, d, i, h, model.by_columns.factors[i])
    low, high = cell_bounds(model, d, i)[level : level + 2] - mean
    return mean + (norm.pdf(low) - norm.pdf(high)) / (norm.cdf(high) - norm.cdf(low))


def test_what_is_found_is_the_optimum():
    """An independent optimiser cannot do better, and the factors are a fixed point."""
    model = small(factors="binary").fit(simulated())
    known, usual = model.models_[0], model.usual_[0][1]
    items = np.arange(0, 50, 3)
    levels = np.resize([4, 0, 3, 3, 1, 2], items.size)
    dense = np.vstack([model.ratings_.observations.to_dense(), np.full((1, 50), -1)])
    dense[120, items] = levels
    wider = folding.fold_in(known, Observations.from_dense(dense, 5), model.usual_[0])
    wider = wider._replace(
        by_rows=Half(*map(np.float64, wider.by_rows)),
        by_columns=Half(*map(np.float64, wider.by_columns)),
    )
    h, own = wider.by_rows.factors[120], wider.by_columns
    middle = own.bias[120] + own.weights[120] @ usual.factors
    found = np.concatenate([own.weights[120], [middle], own.cutpoints[120, 1:]])
    loss = objective(wider, 120, items, levels, usual, h)
    value = loss(found)
    best = minimize(loss, found, method="BFGS")
    assert value < best.fun + 2e-3
    np.testing.assert_allclose(found, best.x, atol=0.03)
    loss(found)  # put it back
    utility = [
        expected_utility(wider, 120, i, level, h) for i, level in zip(items, levels, strict=True)
    ]
    activation = wider.by_rows.factor_bias + np.array(utility) @ wider.by_rows.weights[items]
    np.testing.assert_allclose(h, expit(activation), atol=0.01)


# ---- the optimum, continuous --------------------------------------------------------------------


@pytest.fixture(scope="module")
def folded():
    """A model in float64, its last row a new one, and this row's items, levels and priors."""
    model = small(2, 2).fit(simulated())  # as many as the ratings can tell
    items = np.arange(0, 50, 3)
    levels = np.resize([4, 0, 3, 3, 1, 2], items.size)
    dense = np.vstack([model.ratings_.observations.to_dense(), np.full((1, 50), -1)])
    dense[120, items] = levels
    wider = folding.fold_in(model.models_[0], Observations.from_dense(dense, 5), model.usual_[0])
    wider = wider._replace(
        by_rows=Half(*map(np.float64, wider.by_rows)),
        by_columns=Half(*map(np.float64, wider.by_columns)),
    )
    return wider, items, levels, model.usual_[0][1]


def test_a_new_users_factors_are_the_optimum(folded):
    """Given the widths: factors, weights and bias together, items as uncertain as they are."""
    model, items, levels, usual = folded
    own, other = model.by_rows, model.by_columns
    precision = np.concatenate([usual.bias_precision, np.ones(2), usual.weights_precision])
    doubt = np.concatenate(
        [[0.0], own.weights_variance[items].sum(axis=0), other.factors_variance[items].sum(axis=0)]
    )

    def loss(x):
        other.bias[120], other.weights[120] = x[0], x[3:]
        total = sum(
            cell_log_level(model, 120, i, level, cell_mean(model, 120, i, x[1:3], other.factors[i]))
            for i, level in zip(items, levels, strict=True)
        )
        return 0.5 * (precision + doubt) @ x**2 - total

    found = np.concatenate([other.bias[120:], own.factors[120], other.weights[120]])
    deviation = np.sqrt(
        np.concatenate(
            [other.bias_variance[120:], own.factors_variance[120], other.weights_variance[120]]
        )
    )
    value, best = loss(found), minimize(loss, found, method="BFGS")
    loss(found)  # put it back
    assert value < best.fun + 5e-3
    assert np.abs((found - best.x) / deviation).max() < 0.1
    size = np.concatenate([own.weights[items], other.factors[items]], axis=1) ** 2
    diagonal = precision + doubt + np.concatenate([[items.size], size.sum(axis=0)])
    share = deviation**2 * diagonal  # independent coordinates, or a little more
    assert share.min() > 1.0 - 1e-4
    assert share.max() < 1.2


def test_a_new_users_widths_are_the_optimum(folded):
    """Given factors, weights and bias, and what is not known of them."""
    model, items, levels, usual = folded
    h, other = model.by_rows.factors[120], model.by_columns

    def log_level(i, level):
        bounds = cell_bounds(model, 120, i)[level : level + 2]
        mean = cell_mean(model, 120, i, h, other.factors[i])
        return np.log(np.diff(norm.cdf((bounds - mean) / cell_deviation(model, 120, i)))[0])

    def loss(cutpoints):
        other.cutpoints[120, 1:] = cutpoints
        total = sum(log_level(i, level) for i, level in zip(items, levels, strict=True))
        away = cutpoints - usual.cutpoints[5, 1:]
        return 0.5 * usual.cutpoints_precision[0] * away @ away - total

    found = other.cutpoints[120, 1:].copy()
    value, best = loss(found), minimize(loss, found, method="BFGS")
    loss(found)  # put it back
    assert value < best.fun + 1e-3
    np.testing.assert_allclose(found, best.x, atol=0.02)

"""New users and new items against full training; what is known stays."""

import functools

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm
from small_matrices import (
    MODELS,
    assert_same_models,
    bounds_of,
    cell_bounds,
    cell_log_level,
    cell_mean,
    gaussian_cell,
    halves,
    learnt,
    simulated,
    small,
)

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.base import FactorPosterior
from ordinalrbm.matrix.cold_start import cutpoints_by_levels
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.feature_priors import NO_TABLES, TrainedRows
from ordinalrbm.matrix.model import Half


def bigger():
    return simulated(300, 60, density=0.4, seed=3)


def error(model, test):
    predicted = model.predict(test["user"], test["item"])
    return float(np.sqrt(np.mean((predicted - test["rating"]) ** 2)))


# Multinomial units refuse new items, see below.
FOLDED = [(name, what) for name in MODELS for what in ("user", "item")]
FOLDED.remove(("multinomial", "item"))


@functools.cache
def learnt_from_all(name):
    return MODELS[name](6, n_epochs=15).fit(halves(bigger())[0])


@pytest.mark.parametrize(("name", "what"), FOLDED)
def test_folded_in_is_about_as_good_as_learnt(what, name):
    train, test = halves(bigger())
    ids = np.sort(train[what].unique())
    new = set(ids[:: 20 if what == "user" else 8])
    is_new = train[what].isin(new)
    full = learnt_from_all(name)
    before = MODELS[name](6, n_epochs=15).fit(train[~is_new])
    after = before.fold_in(train[is_new])
    theirs, others = test[test[what].isin(new)], test[~test[what].isin(new)]
    assert error(after, theirs) < error(full, theirs) + 0.05
    assert error(after, theirs) < error(before, theirs) - 0.05  # far better than unknown ones
    assert error(after, others) == pytest.approx(error(before, others), rel=1e-12)


@pytest.fixture(params=MODELS)
def model(request):
    return learnt(request.param)


@pytest.fixture
def newcomers(model):
    """Users and items; only users where there cannot be new items."""
    everyone = pd.DataFrame(
        {
            "user": ["x", "x", "x", "y", "y", "u1", "u2", "u3"],
            "item": ["i1", "i2", "fresh", "i1", "i9", "fresh", "fresh", "other"],
            "rating": [5, 1, 4, 2, 2, 5, 5, 1],
        }
    )
    if isinstance(model, orbm.MultinomialRBM):
        return everyone[~everyone["item"].isin(["fresh", "other"])]
    return everyone


def test_new_items_that_cannot_be():
    with pytest.raises(orbm.DataError, match="cannot fold in new items, only new users"):
        learnt("multinomial").fold_in((["u1"], ["fresh"], [5]))


def test_what_is_known_stays(model, newcomers):
    kept = [{name: part.copy() for name, part in one.to_arrays().items()} for one in model.models_]
    wider = model.fold_in(newcomers)
    assert wider is not model
    for one, parts in zip(model.models_, kept, strict=True):
        for name, part in one.to_arrays().items():
            np.testing.assert_array_equal(part, parts[name], err_msg=name)
    assert len(model.users_) == 120
    assert wider.users_.labels[120:].tolist() == ["x", "y"]
    new_items = [item for item in ("fresh", "other") if item in set(newcomers["item"])]
    assert wider.items_.labels[50:].tolist() == new_items
    for name in ("user_factors_", "user_biases_"):
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(wider, name)[:120], getattr(model, name))
    users, items = model.users_.labels[:10], model.items_.labels[:10]
    np.testing.assert_array_equal(wider.predict(users, items), model.predict(users, items))
    assert_same_models(model.fold_in(newcomers), wider)  # nothing random


def test_new_ratings_count_as_seen(model, newcomers):
    wider = model.fold_in(newcomers)
    assert wider.ratings_.n_ratings == model.ratings_.n_ratings + len(newcomers)
    for user, item in (("x", "fresh"), ("x", "i1"), ("u1", "fresh")):
        assert item not in wider.recommend(user, n=100)["item"].tolist()
    for item in set(newcomers["item"]) - {"i1", "i2", "i9"}:
        assert item in wider.recommend("u5", n=100)["item"].tolist()
    frame = wider.ratings_.to_frame()
    both = frame.merge(newcomers, on=["user", "item", "rating"])
    assert len(both) == len(newcomers)
    assert wider.explain("x", "i5").ratings["item"].isin(["i1", "i2", "fresh"]).all()


def test_only_what_is_new_of_each_other(model):
    """A new user whose only rating is of a new item."""
    if isinstance(model, orbm.MultinomialRBM):
        return
    wider = model.fold_in((["x"], ["fresh"], [5]))
    liked = wider.predict("x", "fresh")
    assert liked > model.predict("x", "fresh")


def test_newcomers_know_each_other_better_than_unknown_ones_do():
    """Also with far more factors than the ratings can tell."""
    model = MODELS["ordinal"](60).fit(simulated())
    users = [*["x"] * 4, *model.users_.labels[:4]]
    items = [*model.items_.labels[:4], *["fresh"] * 4]
    wider = model.fold_in((users, items, [5, 4, 3, 4, 3, 4, 5, 3]))
    unknown = gaussian_cell(model.model_.with_unknown(), 120, 50)[1]
    for d, i in ((120, 5), (5, 50), (120, 50)):
        assert gaussian_cell(wider.model_, d, i)[1] < unknown


def test_folding_in_again(model, newcomers):
    wider = model.fold_in(newcomers)
    again = (["z"], ["i1"], [3])
    if not isinstance(model, orbm.MultinomialRBM):
        again = (["z", "x"], ["i1", "third"], [3, 5])
    widest = wider.fold_in(again)
    assert widest.users_.labels[-1] == "z"
    assert np.isfinite(widest.predict("z", again[1][-1])).all()


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
        total -= 0.5 * usual.cutpoints_precision[0] * np.sum((cutpoints - usual.cutpoints[5, 1:]) ** 2)
        return -total

    return loss


def expected_utility(model, d, i, level, h):
    mean = cell_mean(model, d, i, h, model.by_columns.factors[i])
    low, high = cell_bounds(model, d, i)[level : level + 2] - mean
    return mean + (norm.pdf(low) - norm.pdf(high)) / (norm.cdf(high) - norm.cdf(low))


def test_what_is_found_is_the_optimum():
    """An independent optimiser cannot do better, and the factors are a fixed point."""
    model = small().fit(simulated())
    known, usual = model.models_[0], model.cold_start_[0][1]
    items = np.arange(0, 50, 3)
    levels = np.resize([4, 0, 3, 3, 1, 2], items.size)
    dense = np.vstack([model.ratings_.observations.to_dense(), np.full((1, 50), -1)])
    dense[120, items] = levels
    every, seen = Observations.from_dense(dense, 5), model.ratings_.observations
    wider = known.with_newcomers(seen, every, NO_TABLES, CPU)
    wider = wider._replace(
        by_rows=Half(*map(np.float64, wider.by_rows)), by_columns=Half(*map(np.float64, wider.by_columns))
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
    utility = [expected_utility(wider, 120, i, level, h) for i, level in zip(items, levels, strict=True)]
    activation = wider.by_rows.factor_bias + np.array(utility) @ wider.by_rows.weights[items]
    np.testing.assert_allclose(h, expit(activation), atol=0.01)


# ---- the optimum of Gaussian factors ------------------------------------------------------------


def in_double(posterior):
    *numbers, n_levels = posterior
    return FactorPosterior(*(np.float64(part) for part in numbers), n_levels)


@pytest.fixture(scope="module", params=["variational", "point"])
def folded(request):
    """A model in float64, its last row a new one, and this row's items and levels."""
    model = MODELS["ordinal"](posterior=request.param, factor_precision=2.0).fit(simulated())
    items = np.arange(0, 50, 3)
    levels = np.resize([4, 0, 3, 3, 1, 2], items.size)
    dense = np.vstack([model.ratings_.observations.to_dense(), np.full((1, 50), -1)])
    dense[120, items] = levels
    known, every = model.ratings_.observations, Observations.from_dense(dense, 5)
    one = model.models_[0]
    wider = one.with_newcomers(known, every, NO_TABLES, CPU)
    assert wider.is_point == (request.param == "point")
    expected = np.zeros(wider.rows.mean.shape[1])
    if not wider.is_point:
        newcomer, others = every.take_rows([120]), TrainedRows.of(one.rows.mean, known, None)
        expected = one.row_prior.expected(newcomer, None, others)[0]
        assert np.abs(expected).max() > 0.01
    wider = wider._replace(rows=in_double(wider.rows), columns=in_double(wider.columns))
    return wider, items, levels, expected


def log_level(model, i, level, cutpoints, mean, deviation=1.0):
    bounds = bounds_of(model.column_cutpoints[i], cutpoints, 5)[level : level + 2]
    return np.log(np.diff(norm.cdf((bounds - mean) / deviation))[0])


def test_a_new_users_factors_are_the_optimum(folded):
    """Given the gaps: factors and bias together, items as uncertain as they are."""
    model, items, levels, expected = folded
    rows, columns, precision = model.rows, model.columns, model.row_prior.precision
    doubt = columns.variance[items].sum(axis=0)
    doubt[0] = 0.0
    features = columns.mean[items].copy()
    features[:, 0] = 1.0

    def loss(x):
        means = columns.mean[items, 0] + features @ x
        total = sum(
            log_level(model, i, level, rows.cutpoints[120], mean)
            for i, level, mean in zip(items, levels, means, strict=True)
        )
        return 0.5 * (precision @ (x - expected) ** 2 + doubt @ x**2) - total

    found = rows.mean[120]
    best = minimize(loss, found, method="BFGS")
    assert loss(found) < best.fun + 5e-3
    diagonal = precision + doubt + (features**2).sum(axis=0)
    assert np.abs((found - best.x) * np.sqrt(diagonal)).max() < 0.1
    if model.is_point:
        np.testing.assert_array_equal(rows.variance[120], 0.0)
        return
    share = rows.variance[120] * diagonal  # independent coordinates, or a little more
    assert share.min() > 1.0 - 1e-4
    assert share.max() < 1.2


def test_a_new_users_gaps_are_the_optimum(folded):
    """Given factors and bias, and what is not known of them."""
    model, items, levels, _ = folded
    rows, precision = model.rows, model.row_prior.cutpoints_precision[1:]
    usual = cutpoints_by_levels(rows.cutpoints[:120], rows.n_levels[:120])[5, 1:]
    cells = [gaussian_cell(model, 120, i) for i in items]

    def loss(gaps):
        cutpoints = np.append(rows.cutpoints[120, :1], gaps)
        total = sum(
            log_level(model, i, level, cutpoints, *cell)
            for i, level, cell in zip(items, levels, cells, strict=True)
        )
        return 0.5 * precision @ (gaps - usual) ** 2 - total

    found = rows.cutpoints[120, 1:]
    best = minimize(loss, found, method="BFGS")
    assert loss(found) < best.fun + 1e-3
    np.testing.assert_allclose(found, best.x, atol=0.02)


def test_ratings_of_a_call_place_a_user_as_folding_in_does():
    """Also where users and items have different numbers of factors."""
    model = orbm.MatrixCumulativeRBM(4, 2, n_epochs=3, random_state=0).fit(simulated())
    new = (["x", "x", "x"], ["i1", "i2", "i5"], [5, 1, 4])
    called = model.recommend(ratings=new, n=8, score="rating")
    folded = model.fold_in(new).recommend("x", n=8, score="rating")
    assert called["item"].tolist() == folded["item"].tolist()
    np.testing.assert_allclose(called["score"], folded["score"], rtol=1e-6)

"""Features of users and items in models of ratings: learnt, predicted from, kept, refused."""

import functools
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.stats import norm
from small_matrices import (
    LISTS,
    StoppedError,
    assert_same_models,
    bounds_of,
    cell_probabilities,
    simulated,
    stop_after,
)
from threadpoolctl import threadpool_limits

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.rated_sets import FEW, FeatureTable, RatedSets, WeightDraws
from ordinalrbm.matrix import feature_priors
from ordinalrbm.matrix.feature_priors import RIDGE, TABLE_RIDGE, Tables
from ordinalrbm.matrix.predict import expected_utility
from ordinalrbm.matrix.variational import Precisions, on_cpu, start, with_features_of, with_weights
from ordinalrbm.storage import model_file

both_posteriors = pytest.mark.parametrize("posterior", ["variational", "sampled"])
both_sides = pytest.mark.parametrize("side", ["user", "item"])


@pytest.fixture(autouse=True)
def _one_thread_of_the_blas():
    with threadpool_limits(limits=1, user_api="blas"):
        yield


# ---- a world in which features tell something ---------------------------------------------------

THRESHOLDS = np.array([-np.inf, -1.5, -0.8, 0.2, 1.4, np.inf])
# What bias and factors of somebody gain by each: years over the mean, as many deviations;
# two of three jobs; three colours, of which everybody likes any number.
WEIGHTS = np.array(
    [
        [0.5, 0.3, 0.0],
        [-0.4, 0.0, -0.5],
        [0.5, 0.5, 0.3],
        [0.5, -0.6, 0.0],
        [-0.3, 0.0, 0.7],
        [0.0, 0.2, -0.4],
    ]
)
OTHERWISE = 0.3  # standard deviation of what features do not explain
# Of the truth's log probability, what may be lost: a ridge draws to zero, draws are few.
CLOSE = 0.06
N_KNOWN, N_NEW, N_FACING = 300, 60, 40
COLOURS = np.array(["red", "blue", "green"])


class World(NamedTuple):
    """Ratings, what is known of one side, and the truth about it."""

    side: str
    ratings: pd.DataFrame  # of those who are known
    held_out: pd.DataFrame  # all ratings of newcomers
    features: pd.DataFrame  # of everybody
    mean: np.ndarray  # (everybody, facing), expected utility given features alone
    chance: np.ndarray  # (held out, levels), given features alone

    @property
    def of_known(self):
        return self.features[:N_KNOWN]

    @property
    def of_newcomers(self):
        return self.features[N_KNOWN:]

    def describing(self, frame):
        """The argument that the features of this side are."""
        return {f"{self.side}_features": frame}

    def score(self, distribution, ratings=None):
        """Mean log probability of ratings."""
        ratings = self.held_out if ratings is None else ratings
        own = distribution[np.arange(len(ratings)), ratings["rating"].to_numpy() - 1]
        return float(np.log(own).mean())


def encoded(age, job, colours):
    """(n, 6): what the weights are of."""
    named = [[colour in own for own in colours] for colour in COLOURS]
    return np.column_stack([(age - 36.0) / 12.0, job == "cook", job == "smith", *named])


@functools.cache
def world(side="user"):
    """The world, which is the same with users and items in each other's place."""
    rng = np.random.default_rng(4)
    n = N_KNOWN + N_NEW
    age = rng.gamma(9.0, 4.0, n).round()
    job = rng.choice(["cook", "smith", "poet"], n, p=[0.5, 0.3, 0.2])
    colours = [COLOURS[rng.random(3) < 0.4].tolist() for _ in range(n)]
    expected = encoded(age, job, colours).astype(float) @ WEIGHTS
    own = expected + OTHERWISE * rng.normal(size=expected.shape)
    bias, factors = 0.4 * rng.normal(size=N_FACING), 0.8 * rng.normal(size=(N_FACING, 2))
    utility = own[:, :1] + bias + own[:, 1:] @ factors.T
    utility = utility + rng.normal(size=utility.shape)
    level = np.searchsorted(THRESHOLDS[1:-1], utility)
    names = {side: [f"n{k:03}" for k in range(n)], other_of(side): [f"f{k:02}" for k in range(40)]}
    names = {name: np.array(labels, dtype=object) for name, labels in names.items()}

    def frame(where):
        at = np.nonzero(where)
        ids = {name: names[name][at[k]] for k, name in enumerate((side, other_of(side)))}
        return pd.DataFrame({**ids, "rating": 1 + level[at]})

    is_new = np.arange(n)[:, None] >= N_KNOWN
    mean = expected[:, :1] + bias + expected[:, 1:] @ factors.T
    spread = np.sqrt(1.0 + OTHERWISE**2 * (1.0 + np.square(factors).sum(axis=1)))
    away = (THRESHOLDS - mean[N_KNOWN:, :, None]) / spread[:, None]
    return World(
        side,
        frame((rng.random(level.shape) < 0.4) & ~is_new),
        frame(np.broadcast_to(is_new, level.shape)),
        pd.DataFrame({side: names[side], "age": age, "job": job, "colours": colours}),
        mean,
        np.diff(norm.cdf(away)).reshape(-1, 5),
    )


def other_of(side):
    return "item" if side == "user" else "user"


def make(posterior="variational", n_factors=4, **changes):
    own = {"n_draws": 20} if posterior == "sampled" else {}
    own |= {"random_state": 0, "demand_factors": 0}
    return orbm.OrdinalMF(n_factors, posterior=posterior, **own | changes)


@functools.cache
def learnt(posterior, side="user", given="everybody"):
    """A model of the world with the features of everybody, of those known, or of nobody."""
    there = world(side)
    frames = {"everybody": there.features, "known": there.of_known, "nobody": None}
    return make(posterior, **LISTS).fit(there.ratings, **there.describing(frames[given]))


def predicted(model, ratings):
    return model.predict_proba(ratings["user"], ratings["item"])


def utilities(model, side, ids):
    """(ids, facing) expected utilities, averaged over draws."""
    these = (model.users_ if side == "user" else model.items_).lookup(ids)
    facing = (model.items_ if side == "user" else model.users_).lookup([f"f{k:02}" for k in range(N_FACING)])
    one, other = map(np.ravel, np.meshgrid(these, facing, indexing="ij"))
    pair = (one, other) if side == "user" else (other, one)
    cells = Cells(*pair, np.zeros(one.size, dtype=np.int8))
    if not hasattr(model, "draws_"):
        return expected_utility(model.model_, cells).reshape(len(ids), -1)
    draws = model.draws_
    found = [
        (rows[cells.row, 0] + columns[cells.column, 0])
        + (rows[cells.row, 1:] * columns[cells.column, 1:]).sum(axis=1)
        for rows, columns in zip(
            draws.rows.factors.astype(float), draws.columns.factors.astype(float), strict=True
        )
    ]
    return np.mean(found, axis=0).reshape(len(ids), -1)


@both_sides
@both_posteriors
def test_who_has_features_alone_is_predicted_almost_as_the_truth_does(posterior, side):
    there = world(side)
    best = there.score(there.chance)
    found = there.score(predicted(learnt(posterior, side), there.held_out))
    without = there.score(predicted(learnt(posterior, side, "nobody"), there.held_out))
    assert best - CLOSE < found <= best + 0.01
    assert without < best - 3.0 * CLOSE


@both_posteriors
def test_every_feature_has_its_true_effect(posterior):
    """Newcomers who differ in one thing; what others make of it is the same for all."""
    model, there = learnt(posterior), world()
    n_twins = 200 if posterior == "sampled" else 1  # draws of each are averaged
    kinds = [
        (36, "poet", []),
        (48, "poet", []),
        (36, "cook", []),
        (36, "smith", []),
        (36, "poet", ["red"]),
        (36, "poet", ["blue"]),
        (36, "poet", ["green"]),
    ]
    lines = [(f"x{k}-{twin}", *kind) for k, kind in enumerate(kinds) for twin in range(n_twins)]
    frame = pd.DataFrame(lines, columns=["user", "age", "job", "colours"])
    found = utilities(model.fold_in(user_features=frame), "user", frame["user"].tolist())
    found = found.reshape(len(kinds), n_twins, -1).mean(axis=1)
    # The true expectation is linear: what 40 items make of bias and factors, found from it.
    own = encoded(*(there.features[name].to_numpy() for name in ("age", "job", "colours")))
    design = np.column_stack([np.ones(len(own)), own.astype(float)])
    true = np.linalg.lstsq(design, there.mean, rcond=None)[0][1:]
    effect = found[1:] - found[0]
    np.testing.assert_allclose(effect.mean(axis=1), true.mean(axis=1), atol=0.25)
    for one, other in zip(effect, true, strict=True):
        assert np.corrcoef(one, other)[0, 1] > 0.8
    assert np.corrcoef(effect.ravel(), true.ravel())[0, 1] > 0.93


@both_posteriors
def test_features_that_tell_nothing_do_no_harm(posterior):
    there = world()
    rng = np.random.default_rng(0)
    noise = there.features[["user"]].assign(
        luck=rng.normal(size=N_KNOWN + N_NEW), sign=rng.choice(["fish", "crab"], N_KNOWN + N_NEW)
    )
    model = make(posterior).fit(there.ratings, user_features=noise)
    without = there.score(predicted(learnt(posterior, given="nobody"), there.held_out))
    assert there.score(predicted(model, there.held_out)) > without - CLOSE


VALUES = {  # and what they are as numbers
    "boolean": ([False, True] * 30, [0, 1] * 30),
    "number": ([5.0, 6.0, 4.0, 5.0] * 15, [0, 1, -1, 0] * 15),  # 5 is the mean
}


@pytest.mark.parametrize(("values", "number"), VALUES.values(), ids=VALUES)
@both_posteriors
def test_a_feature_of_zero_tells_something_too(posterior, values, number):
    """Who is known not to have it is not as unknown as who may have it or not."""
    rng, number = np.random.default_rng(1), np.array(number)
    user, item = np.nonzero(rng.random((50, 12)) < 0.7)
    utility = 2.0 * number[user] + rng.normal(size=user.size)
    rating = np.searchsorted([-1.0, 0.0, 1.0, 2.0], utility)
    frame = pd.DataFrame({"user": np.arange(60), "told": values})
    model = make(posterior, 2, n_epochs=30, validation_fraction=0.0)
    model.fit((user, item, rating), user_features=frame)
    model = model.fold_in(user_features=frame.assign(user=100 + frame["user"]))
    asked = np.array([*range(50, 60), *range(100, 160), 999])
    chance = model.predict_proba(np.repeat(asked, 12), np.tile(np.arange(12), asked.size))
    chance = chance.reshape(asked.size, 12, -1).mean(axis=1)
    *found, unknown = chance @ np.arange(5)
    found, told = np.array(found), np.array([*number[50:], *number])
    assert found[told == 1].min() > found[told == 0].max() + 0.3
    if (number < 0).any():  # they are at the average, and known to be there
        assert found[told == 0].min() > found[told == -1].max() + 0.3
        extreme = chance[:, [0, -1]].sum(axis=1)
        assert extreme[:-1][told == 0].max() < extreme[-1] - 0.05
    else:
        assert found[told == 0].max() < unknown - 0.2


# ---- the regressions ----------------------------------------------------------------------------


def rated_features(level):
    """The rated sets as a table."""
    is_rated = level >= 0
    return is_rated / np.sqrt(is_rated.sum(axis=1, keepdims=True) + FEW)


def some_table(rng, n_rows, n_features=5):
    """Some zeros, a column on a scale of its own, and a line of zeros."""
    table = np.where(rng.random((n_rows, n_features)) < 0.5, rng.normal(size=n_features), 0.0)
    table[:, 1] = 3.0 + rng.normal(size=n_rows)
    table[0] = 0.0
    return table.astype(np.float32)


@pytest.mark.parametrize("kinds", ["rated sets and table", "table", "rated sets"])
def test_weights_of_the_variational_model_are_a_ridge_regression(kinds):
    rng = np.random.default_rng(2)
    level = np.where(rng.random((40, 7)) < 0.6, 0, -1)
    level[:, 0] = 0
    observations, dense = Observations.from_dense(level, 2), some_table(rng, 40)
    rated_sets, has_table = "rated" in kinds, "table" in kinds
    tables = Tables(sparse.csr_array(dense) if has_table else None)
    state = with_weights(start(observations, 2, 0, Precisions()), tables, rated_sets=rated_sets)
    data = with_features_of(on_cpu(observations), state, tables)
    mean = rng.normal(0.7, 1.0, size=(40, 3)).astype(np.float32)
    weights, expected = state.row_weights, np.zeros_like(mean)
    for _ in range(200):
        weights, expected = feature_priors.refit_weights(data.rows, data.columns, mean, weights, expected)
    parts = [rated_features(level)] * rated_sets + [dense.astype(float)] * has_table
    ridges = [RIDGE] * 7 * rated_sets + [TABLE_RIDGE] * 5 * has_table
    features = np.hstack(parts)
    centred = features - features.mean(axis=0)
    system = centred.T @ centred + np.diag(ridges)
    true = np.linalg.solve(system, centred.T @ mean.astype(float))
    np.testing.assert_allclose(np.vstack(weights.parts), true, atol=2e-5)
    np.testing.assert_allclose(expected, centred @ true, atol=2e-5)
    np.testing.assert_allclose(weights.centre, features.mean(axis=0) @ true, atol=2e-5)
    assert abs(true).max() > 0.1
    assert weights.each.shape == (7, 3 * rated_sets)
    assert weights.table.shape == ((5, 3) if has_table else (0, 0))


def test_drawn_weights_of_a_table_are_a_ridge_regression():
    rng = np.random.default_rng(6)
    dense, ridge = some_table(rng, 12, 4), 2.0
    dense[:, 1] -= 3.0  # draws of one weight after the other are slow where all hang together
    table = FeatureTable.of(sparse.csr_array(dense))
    features = dense.astype(float)
    np.testing.assert_allclose(table.times(np.eye(4, 3)), features @ np.eye(4, 3), rtol=1e-5)
    given = rng.normal(size=(12, 3))
    system = features.T @ features + ridge * np.eye(4)
    expected = np.linalg.solve(system, features.T @ given)
    weights, left, drawn = np.zeros((4, 3), dtype=np.float32), given.copy(), []
    for number in range(4000):
        weights, left = table.draw_weights(weights, left, ridge, WeightDraws(0, number, 8))
        drawn.append(weights)
    np.testing.assert_allclose(left, given - features @ weights, atol=1e-3)
    drawn = np.array(drawn[100:])
    np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=0.05)
    for a in range(3):
        np.testing.assert_allclose(np.cov(drawn[:, :, a].T), np.linalg.inv(system), atol=0.03)
    # Coordinates are drawn apart, also beyond the eight that lie side by side.
    wide = table.draw_weights(np.zeros((4, 17)), rng.normal(size=(12, 17)), ridge, WeightDraws(0, 1, 8))[0]
    assert np.unique(wide).size == wide.size


def test_a_table_is_drawn_as_the_rated_sets_that_it_holds():
    rng = np.random.default_rng(7)
    level = np.where(rng.random((15, 4)) < 0.6, 0, -1)
    level[:, 0] = 0
    sets = RatedSets.of(Observations.from_dense(level, 2))
    table = FeatureTable.of(sparse.csr_array((rated_features(level)).astype(np.float32)))
    weights, left = rng.normal(size=(4, 3)), rng.normal(size=(15, 3))
    by_sets = sets.draw_weights(weights, left, 1.5, WeightDraws(3, 4, 0))
    by_table = table.draw_weights(weights, left, 1.5, WeightDraws(3, 4, 0))
    for one, other in zip(by_table, by_sets, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


# ---- who has features and no rating -------------------------------------------------------------


def own_ids(model, side):
    return (model.users_ if side == "user" else model.items_).labels.tolist()


@both_sides
@both_posteriors
def test_who_has_features_alone_is_known_after_the_fit(posterior, side):
    there, model = world(side), learnt(posterior, side)
    assert own_ids(model, side) == there.features[side].tolist()
    assert model.ratings_.n_ratings == len(there.ratings)
    chance = predicted(model, there.held_out)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, atol=1e-5)
    best = model.recommend("all", n=N_KNOWN + N_NEW)
    assert set(best["user"]) == set(own_ids(model, "user"))
    assert set(best["item"]) == set(own_ids(model, "item"))
    assert len(best) == len(model.users_) * len(model.items_) - len(there.ratings)
    user, item, _ = there.held_out[["user", "item", "rating"]].iloc[0]
    # Factors of a user who has ratings are inferred anew.
    tolerance = 0.05 if (posterior, side) == ("variational", "item") else 1e-5
    expected = model.predict(user, item)
    assert model.explain(user, item).expected == pytest.approx(expected, abs=tolerance)


def test_rows_of_a_sparse_matrix_may_have_features_and_no_rating():
    there = world()
    user = there.ratings["user"].str[1:].astype(int)
    item = there.ratings["item"].str[1:].astype(int)
    matrix = sparse.coo_array((there.ratings["rating"], (user, item)), shape=(N_KNOWN + N_NEW + 1, N_FACING))
    frame = there.features.assign(user=range(N_KNOWN + N_NEW))
    model = make().fit(matrix, user_features=frame)
    asked = there.held_out.assign(
        user=there.held_out["user"].str[1:].astype(int), item=there.held_out["item"].str[1:].astype(int)
    )
    assert there.score(predicted(model, asked)) > there.score(there.chance) - CLOSE
    # The last row has neither.
    np.testing.assert_allclose(model.predict(N_KNOWN + N_NEW, [0, 1]), model.predict(9999, [0, 1]), atol=0.05)


def test_newcomers_do_not_change_what_is_learnt():
    """Where they do not change how columns become features."""
    there = world()
    one, other = (
        make().fit(there.ratings, user_features=frame[["user", "job", "colours"]])
        for frame in (there.of_known, there.features)
    )
    wider = one.fold_in(user_features=there.of_newcomers)
    assert own_ids(wider, "user") == own_ids(other, "user")
    np.testing.assert_array_equal(other.user_factors_[:N_KNOWN], one.user_factors_)
    np.testing.assert_array_equal(other.item_factors_, one.item_factors_)
    np.testing.assert_allclose(predicted(wider, there.held_out), predicted(other, there.held_out), atol=1e-6)


@both_sides
@both_posteriors
def test_folding_in_features_leaves_what_is_known(posterior, side):
    there, model = world(side), learnt(posterior, side, "known")
    before = [{name: a.copy() for name, a in one.to_arrays().items()} for one in model.models_]
    wider = model.fold_in(**there.describing(there.of_newcomers))
    assert own_ids(model, side) == there.of_known[side].tolist()
    assert own_ids(wider, side) == there.features[side].tolist()
    for one, parts in zip(model.models_, before, strict=True):
        for name, part in one.to_arrays().items():
            np.testing.assert_array_equal(part, parts[name], err_msg=name)
    np.testing.assert_array_equal(predicted(wider, there.ratings), predicted(model, there.ratings))
    assert_same_models(model.fold_in(**there.describing(there.of_newcomers)), wider)
    assert there.score(predicted(wider, there.held_out)) > there.score(there.chance) - CLOSE
    assert wider.ratings_.n_ratings == model.ratings_.n_ratings


@both_posteriors
def test_features_and_ratings_together_tell_the_most(posterior):
    there, model = world(), learnt(posterior, given="known")
    is_given = there.held_out["item"].str[1:].astype(int) % 4 == 3
    few, others = there.held_out[is_given], there.held_out[~is_given]
    by_features = model.fold_in(user_features=there.of_newcomers)
    by_ratings = model.fold_in(few)
    by_both = model.fold_in(few, user_features=there.of_newcomers)
    scores = [there.score(predicted(one, others), others) for one in (by_ratings, by_features, by_both)]
    assert scores[0] + 0.03 < scores[1] < scores[2] - 0.008
    assert own_ids(by_both, "user") == own_ids(by_features, "user")
    assert by_both.ratings_.n_ratings == len(there.ratings) + len(few)


def test_a_described_newcomer_is_the_optimum_around_what_features_expect():
    """Given the gaps: factors and bias together, items as uncertain as they are."""
    there, model = world(), learnt("variational", given="known")
    theirs = there.held_out[there.held_out["user"] == "n310"][::4]
    wider = model.fold_in(theirs, user_features=there.of_newcomers[10:11]).model_
    items, levels = model.items_.lookup(theirs["item"]), theirs["rating"].to_numpy() - 1
    columns, prior = wider.columns, wider.row_prior
    line = model.fold_in(user_features=there.of_newcomers[10:11])._features.users.table[[-1]]
    sets = np.zeros(N_FACING)
    sets[items] = 1.0 / np.sqrt(items.size + FEW)
    expected = line.toarray()[0] @ prior.weights.table + sets @ prior.weights.each
    expected = expected - prior.weights.centre
    assert abs(expected).max() > 0.3
    doubt = columns.variance[items].sum(axis=0).astype(float)
    doubt[0] = 0.0
    design = columns.mean[items].astype(float)
    bias = design[:, 0].copy()
    design[:, 0] = 1.0
    bounds = [bounds_of(wider.column_cutpoints[i], wider.row_cutpoints[-1], 5) for i in items]
    low, high = (
        np.array([own[level + end] for own, level in zip(bounds, levels, strict=True)]) for end in (0, 1)
    )

    def loss(x):
        mean = bias + design @ x
        total = np.log(norm.cdf(high - mean) - norm.cdf(low - mean)).sum()
        return 0.5 * (prior.precision @ (x - expected) ** 2 + doubt @ x**2) - total

    found = wider.rows.mean[-1].astype(float)
    best = minimize(loss, found, method="BFGS")
    assert loss(found) < best.fun + 5e-3
    assert loss(expected) > best.fun + 0.02


@both_posteriors
def test_features_of_known_ids_change_nothing(posterior):
    there, model = world(), learnt(posterior, given="known")
    changed = there.of_known.assign(age=99, job="cook", colours=[["green"]] * N_KNOWN)
    assert_same_models(model.fold_in(user_features=changed), model)
    both = pd.concat([changed, there.of_newcomers])
    wider = model.fold_in(user_features=both)
    assert_same_models(wider, model.fold_in(user_features=there.of_newcomers))
    again = wider.fold_in(user_features=both.assign(age=20))
    assert_same_models(again, wider)


def some_unrated(model):
    """Pairs of users and items that they have not rated."""
    rated = set(zip(world().ratings["user"], world().ratings["item"], strict=True))
    users, items = world().of_known["user"][:40:4], own_ids(model, "item")
    return [
        (user, item) for k, user in enumerate(users) for item in items[k : k + 4] if (user, item) not in rated
    ]


def test_reasons_know_of_features():
    """What is expected is what is predicted; but for features, it would be 0.2 away from it."""
    model = learnt("variational")
    away = [model.explain(*pair).expected - model.predict(*pair) for pair in some_unrated(model)]
    assert len(away) > 10
    assert np.sqrt(np.mean(np.square(away))) < 0.1


# ---- files --------------------------------------------------------------------------------------

RATINGS = simulated(60, 30)
USERS = pd.DataFrame(
    {
        "user": [f"u{k}" for k in range(64)],
        "age": np.resize([20.0, 35.0, 50.0, np.nan, 41.0], 64),
        "job": np.resize(["cook", "smith", "poet"], 64),
        "tags": [["red", "blue"], ["blue"], [], ["green", "red"]] * 16,
        "paid": np.resize([True, False, False], 64),
    }
)
ITEMS = pd.DataFrame(
    {
        "item": [f"i{k}" for k in range(33)],
        "kind": np.resize(["a", "b"], 33),
        "size": np.resize([1.0, 2.0, 3.0, 2.0], 33),
    }
)
NEW_USERS = USERS[:3].assign(user=["x", "y", "z"])
NEW_ITEMS = ITEMS[:2].assign(item=["p", "q"])
BOTH = {"user_features": USERS, "item_features": ITEMS}
NEW_RATINGS = (["x", "u1", "x"], ["i1", "p", "p"], [1, 5, 3])


KINDS = {
    "variational": lambda: make("variational", 3, n_epochs=4, **LISTS),
    "sampled": lambda: make("sampled", 3, n_draws=12, n_epochs=36),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@functools.cache
def small(kind):
    return KINDS[kind]().fit(RATINGS, **BOTH)


def saved(model, path):
    model.save(path)
    return path.read_bytes()


@every_kind
def test_a_folded_model_can_be_saved_and_folded_in_again(kind, tmp_path):
    wider = small(kind).fold_in(NEW_RATINGS, user_features=NEW_USERS, item_features=NEW_ITEMS)
    content = saved(wider, tmp_path / "one.orbm")
    again = orbm.load(tmp_path / "one.orbm")
    assert saved(again, tmp_path / "other.orbm") == content
    assert_same_models(again, wider)
    assert again.users_.labels[-3:].tolist() == ["x", "y", "z"]
    more = {"user_features": NEW_USERS.assign(user=["x", "v", "w"])}
    widest = wider.fold_in(**more)
    assert_same_models(again.fold_in(**more), widest)
    assert widest.users_.labels[-2:].tolist() == ["v", "w"]
    assert np.isfinite(widest.predict_proba("w", widest.items_.labels)).all()


def put(array, place, value):
    array = array.copy()
    array[place] = value
    return array


SPOILT = {
    "a feature beyond the last": ("user_features.feature", lambda a: put(a, 5, 99), "between 0 and"),
    "lines that do not ascend": ("user_features.start", lambda a: put(a, 3, a[5]), "not in order"),
    "lines that end before": ("item_features.start", lambda a: put(a, -1, a[-2]), "not in order"),
    "a line too few": ("user_features.start", lambda a: a[:-1], "has shape"),
    "a value that is none": ("user_features.value", lambda a: put(a, 2, np.nan), "between"),
    "a value too few": ("user_features.value", lambda a: a[:-1], "user_features"),
}


def refusal(path, change):
    """What is said of a file after such a change of its arrays and its header."""
    arrays, header = model_file.read(path)
    arrays = dict(arrays)
    change(arrays, header)
    model_file.write(path, arrays, header)
    with pytest.raises(orbm.DataError) as caught:
        orbm.load(path)
    assert_is_a_sentence(str(caught.value))
    return str(caught.value)


def assert_is_a_sentence(message):
    assert message.endswith(".")
    assert "\n" not in message
    assert ";" in message  # behind which the remedy stands
    assert len(message) < 500


@pytest.mark.parametrize(("name", "change", "said"), SPOILT.values(), ids=SPOILT)
def test_spoilt_features_are_refused(name, change, said, tmp_path):
    path = tmp_path / "spoilt.orbm"
    small("variational").save(path)

    def spoil(arrays, header):
        arrays[name] = change(arrays[name])

    assert said in refusal(path, spoil)


WEIGHTS_OF = {"variational": "0.row_prior.table", "sampled": "draws.columns.table_weights"}


@every_kind
def test_weights_of_other_features_are_refused(kind, tmp_path):
    path, name = tmp_path / "spoilt.orbm", WEIGHTS_OF[kind]
    small(kind).save(path)
    lines = (slice(None), slice(1, None)) if kind == "sampled" else slice(1, None)

    def spoil(arrays, header):
        arrays[name] = arrays[name][lines]

    assert "weights of" in refusal(path, spoil)


# ---- what is refused ----------------------------------------------------------------------------


def said_by(do, *, error=orbm.DataError):
    with pytest.raises(error) as caught:
        do()
    assert_is_a_sentence(str(caught.value))
    return str(caught.value)


NOT_WITH_FEATURES = {
    "matrix": lambda: orbm.MatrixCumulativeRBM(2, 2),
    "gaussian": lambda: orbm.GaussianMF(2),
    "multinomial": lambda: orbm.MultinomialRBM(2),
    "point": lambda: orbm.OrdinalMF(2, posterior="point"),
}


@pytest.mark.parametrize("what", ["user_features", "item_features"])
@pytest.mark.parametrize("model", NOT_WITH_FEATURES.values(), ids=NOT_WITH_FEATURES)
def test_models_that_make_no_use_of_features_say_so(model, what):
    message = said_by(lambda: model().fit(RATINGS, **{what: BOTH[what]}))
    assert "makes no use of user_features and item_features" in message
    assert "leave them out, or use OrdinalMF with the posterior 'variational' or 'sampled'" in message


def test_folding_in_needs_features_that_were_learnt():
    without = make(n_factors=2, n_epochs=2).fit(RATINGS)
    message = said_by(lambda: without.fold_in(user_features=NEW_USERS))
    assert "learnt without any; fit() it with user_features first" in message
    one_side = make(n_factors=2, n_epochs=2).fit(RATINGS, user_features=USERS)
    message = said_by(lambda: one_side.fold_in(user_features=NEW_USERS, item_features=NEW_ITEMS))
    assert "fit() it with item_features first" in message
    assert one_side.fit(RATINGS) is one_side  # which forgets them
    assert "fit() it with" in said_by(lambda: one_side.fold_in(user_features=NEW_USERS))


@every_kind
def test_folding_in_nothing(kind):
    message = said_by(lambda: small(kind).fold_in())
    assert message == "There is nothing to fold in; give ratings or features of new users or items."


@pytest.mark.parametrize(
    ("users", "said", "remedy"),
    [
        (USERS.assign(user="U" + USERS["user"]), "None of the 64 users with", "give the same ids"),
        (USERS.assign(user=range(64)), "users known here are text", "convert"),
    ],
)
def test_features_of_others_are_refused(users, said, remedy):
    message = said_by(lambda: make(n_factors=2).fit(RATINGS, user_features=users))
    assert said in message
    assert remedy in message.rpartition(";")[2]


def test_unrated_ids_need_not_all_be_described_and_described_ones_not_be_rated():
    some = USERS[10:].copy()
    model = make(n_factors=2, n_epochs=2).fit(RATINGS, user_features=some)
    assert set(own_ids(model, "user")) == set(USERS["user"])
    rated = set(RATINGS["user"])
    assert own_ids(model, "user") == [*sorted(rated), *sorted(set(USERS["user"]) - rated)]


# ---- the same whatever the form -----------------------------------------------------------------


@every_kind
def test_the_number_of_threads_changes_no_bit(kind):
    one, two = (KINDS[kind]().set_params(n_jobs=n).fit(RATINGS, **BOTH) for n in (1, 2))
    assert_same_models(one, two)
    given = {"new_ratings": NEW_RATINGS, "user_features": NEW_USERS, "item_features": NEW_ITEMS}
    assert_same_models(one.fold_in(**given), two.fold_in(**given))


# ---- checkpoints --------------------------------------------------------------------------------


def stopped(kind, folder, monkeypatch, given):
    n_epochs = {"sampled": 20}.get(kind, 2)
    with monkeypatch.context() as patch:
        stop_after(n_epochs, patch)
        with pytest.raises(StoppedError):
            KINDS[kind]().fit(RATINGS, **given, checkpoint=folder, every=1)


@every_kind
def test_a_fit_with_features_that_was_stopped_goes_on_alike(kind, tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    stopped(kind, folder, monkeypatch, BOTH)
    again = KINDS[kind]().fit(RATINGS, **BOTH, checkpoint=folder)
    assert_same_models(again, small(kind))
    assert saved(again, tmp_path / "a") == saved(small(kind), tmp_path / "b")


def moved(frame):
    """The jobs of the first two, who differ in nothing else, in each other's place."""
    return frame.assign(job=["", "cook", *frame["job"][2:]])


PLAIN = USERS[["user", "job"]].assign(job=["cook", "", *USERS["job"][2:]])
OTHER_FEATURES = {
    "a value": (BOTH, BOTH | {"user_features": USERS.assign(age=USERS["age"] ** 2)}),
    "whose a value is": ({"user_features": PLAIN}, {"user_features": moved(PLAIN)}),
    "none of one side": (BOTH | {"item_features": ITEMS[:30]}, {"user_features": USERS}),
    "others who are described": (BOTH, BOTH | {"item_features": ITEMS[:30]}),
    "none at all": ({"item_features": ITEMS[:30]}, {}),
    "some where none were": ({}, {"item_features": ITEMS[:30]}),
}


@pytest.mark.parametrize(("before", "now"), OTHER_FEATURES.values(), ids=OTHER_FEATURES)
def test_a_fit_does_not_go_on_with_other_features(before, now, tmp_path, monkeypatch):
    stopped("variational", tmp_path, monkeypatch, before)
    message = said_by(lambda: KINDS["variational"]().fit(RATINGS, **now, checkpoint=tmp_path))
    same_ids = len(before.get("item_features", ITEMS[:30])) == len(now.get("item_features", ITEMS[:30]))
    assert f"which differs in {'features;' if same_ids else 'columns 33 (now 30);'}" in message


# ---- scales -------------------------------------------------------------------------------------

OWN = {item: [1, 2, 3, 4, 5] for item in sorted(set(RATINGS["item"]))}


def test_an_item_without_a_scale_cannot_be_described():
    """Where every item has one of its own, nobody knows that of another."""
    message = said_by(lambda: make(n_factors=2, item_scales=OWN).fit(RATINGS, item_features=ITEMS))
    assert "The item 'i30' has features and no rating" in message
    model = make(n_factors=2, n_epochs=2, item_scales=OWN).fit(RATINGS, item_features=ITEMS[:30])
    assert said_by(lambda: model.fold_in(item_features=ITEMS)) == message
    assert own_ids(model.fold_in(item_features=ITEMS[:5]), "item") == own_ids(model, "item")


@both_posteriors
def test_the_common_scale_is_that_of_described_items(posterior):
    """As the message says."""
    model = make(posterior, 2, n_epochs=9, scale=[1, 2, 3], item_scales=OWN)
    model.fit(RATINGS, item_features=ITEMS)
    chance = model.predict_proba("u1", ["i1", "i31"])
    assert (chance[0] > 0).all()
    np.testing.assert_array_equal(chance[1, 3:], 0.0)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, atol=1e-5)
    folded = model.fold_in(item_features=NEW_ITEMS).predict_proba("u1", ["p", "i1"])
    np.testing.assert_array_equal(folded[0, 3:], 0.0)
    np.testing.assert_array_equal(folded[1], chance[0])


def test_probabilities_of_the_described_are_those_of_the_model():
    """Cell by cell, from its arrays."""
    model, there = learnt("variational"), world()
    row = int(model.users_.lookup(["n333"])[0])
    found = model.predict_proba("n333", own_ids(model, "item"))
    for i in range(0, N_FACING, 7):
        np.testing.assert_allclose(found[i], cell_probabilities(model.model_, row, i), atol=2e-6)
    prior = model.model_.row_prior
    lines = model._features.users.table.toarray()
    counts = model.ratings_.observations.row_counts  # each user counts as often as there are ratings
    usual, average = counts @ lines / counts.sum(), counts @ model.model_.rows.mean / counts.sum()
    expected = average + (lines[row] - usual) @ prior.weights.table
    np.testing.assert_allclose(model.model_.rows.mean[row], expected, atol=1e-6)
    np.testing.assert_allclose(model.model_.rows.variance[row], 1.0 / prior.precision, rtol=1e-6)
    assert there.features["user"][333] == "n333"

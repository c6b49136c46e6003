"""Weights of ratings: one of weight two is as good as two, in kernels, in models and for choices."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.stats import norm

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.ratings import read_ratings
from ordinalrbm.engine.base import NO_VALUES, FactorPosterior, Prior, gaps_of
from ordinalrbm.engine.drift import BinViews
from ordinalrbm.engine.half_sweep import CPU_ENGINE
from ordinalrbm.engine.normal_reference import log_mass
from ordinalrbm.engine.ordinal_gibbs import CPU_GIBBS, DrawnSide, Sweep
from ordinalrbm.errors import DataError
from ordinalrbm.matrix import implicit_als
from ordinalrbm.matrix.variational import on_cpu

N_LEVELS = 4


def weighted(seed=0, n_rows=7, n_columns=9):
    """Answers with whole weights, of which the first row has none."""
    rng = np.random.default_rng(seed)
    dense = np.where(
        rng.random((n_rows, n_columns)) < 0.7, rng.integers(0, N_LEVELS, (n_rows, n_columns)), -1
    )
    dense[0] = -1
    answers = Observations.from_dense(dense, N_LEVELS)
    return answers.with_weight(rng.integers(1, 4, answers.n_entries))


def repeated(answers):
    """The same, with every answer as often as it counts."""
    times = answers.weight.astype(int)
    total = np.concatenate([[0], np.cumsum(times)])
    column, level = (np.repeat(part, times) for part in (answers.column, answers.level))
    return Observations(total[answers.row_start], column, level, answers.n_levels)


def side(rng, n, n_factors=2):
    cutpoints = rng.normal(-0.4, 0.3, (n, N_LEVELS - 1))
    mean, variance = rng.normal(0.1, 0.6, (n, 1 + n_factors)), rng.uniform(0.05, 0.2, (n, 1 + n_factors))
    return FactorPosterior(
        mean.astype(np.float32),
        variance.astype(np.float32),
        cutpoints,
        gaps_of(cutpoints.copy()),
        np.full(n, N_LEVELS, dtype=np.int32),
    )


def drawn_side(rng, n, n_factors=2):
    return DrawnSide(
        rng.normal(size=(n, 1 + n_factors)).astype(np.float32),
        np.exp(0.3 * rng.normal(size=n)).astype(np.float32),
        np.zeros(n, dtype=np.int32),
    )


# ---- kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [NO_VALUES, np.array([-1.0, -0.2, 0.4, 1.1], dtype=np.float32)])
def test_a_half_sweep_with_weights_is_that_of_repeated_answers(values):
    answers, rng = weighted(), np.random.default_rng(1)
    rows, columns = side(rng, answers.n_rows), side(rng, answers.n_columns)
    precision = np.full(N_LEVELS - 1, np.inf if values.size else 4.0)
    prior = Prior(np.array([1.0, 2.0, 0.7], dtype=np.float32), rows.cutpoints + 0.1, precision)
    found = []
    for each in (answers, repeated(answers)):
        own = FactorPosterior(*map(np.copy, rows))
        for _ in range(3):
            variance = CPU_ENGINE.half_sweep(each, own, columns, prior, True, values)
        found.append((*own, variance, CPU_ENGINE.squared_error(each, own, columns, np.ones(N_LEVELS))))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def test_a_half_sweep_in_stages_weighs_as_well():
    answers, rng = weighted(), np.random.default_rng(2)
    rows, columns = side(rng, answers.n_rows), side(rng, answers.n_columns)
    prior = Prior(np.ones(3, dtype=np.float32), rows.cutpoints + 0.1, np.full(N_LEVELS - 1, 4.0))
    other = FactorPosterior(*map(np.copy, rows))
    CPU_ENGINE.half_sweep(answers, rows, columns, prior)
    CPU_ENGINE.staged_half_sweep(answers, other, columns, prior)
    for one, two in zip(rows, other, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_what_is_left_for_bins_and_sums_of_lines():
    answers, rng = weighted(), np.random.default_rng(3)
    rows, columns = side(rng, answers.n_rows), side(rng, answers.n_columns)
    time = np.arange(answers.n_entries)
    many = repeated(answers)
    bins = BinViews.of(answers, time)
    of_many = bins._replace(of_rows=np.repeat(bins.of_rows, answers.weight.astype(int)))
    pulls = [
        CPU_ENGINE.bin_pulls(each, rows, columns, views) for each, views in ((answers, bins), (many, of_many))
    ]
    np.testing.assert_allclose(*pulls, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(bins.bins.n_answers, np.bincount(of_many.of_rows))
    table = columns.mean
    sums = [CPU_ENGINE.rated_sums(each, table, weighted=True) for each in (answers, many)]
    np.testing.assert_allclose(*sums, rtol=1e-5, atol=1e-5)
    products = [CPU_ENGINE.rated_products(each, table, rows.mean) for each in (answers, many)]
    np.testing.assert_allclose(*products, rtol=1e-5, atol=1e-5)
    unweighted = answers.with_weight(np.zeros(0))
    np.testing.assert_array_equal(
        CPU_ENGINE.rated_sums(answers, table), CPU_ENGINE.rated_sums(unweighted, table)
    )


THRESHOLDS = np.array([[-np.inf, -0.8, 0.1, 0.9, np.inf]], dtype=np.float32)


def test_widths_and_thresholds_see_repeated_answers():
    answers, rng = weighted(), np.random.default_rng(4)
    rows, columns = drawn_side(rng, answers.n_rows), drawn_side(rng, answers.n_columns)
    sums = [
        CPU_GIBBS.threshold_sums(each, rows, columns, THRESHOLDS) for each in (answers, repeated(answers))
    ]
    for one, other in zip(*sums, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    widths = []
    for each in (answers, repeated(answers)):
        own = CPU_GIBBS.copied(rows)
        CPU_GIBBS.move_widths(each, own, columns, THRESHOLDS, 5.0, Sweep(0, 1, 0))
        widths.append(own.width)
    np.testing.assert_allclose(*widths, rtol=1e-4)
    assert (widths[0] != rows.width).any()


@pytest.mark.parametrize("weight", [[1.0, 1.0, 1.0, 1.0], [3.0, 1.0, 2.0, 5.0], [0.3, 1.7, 0.6, 2.4]])
def test_draws_of_a_row_by_quadrature(weight):
    """Each likelihood to the power of its weight, whether that is a whole number or not."""
    rng, times = np.random.default_rng(5), 20_000
    other, level, weight = drawn_side(rng, 4, 1), np.array([3, 0, 1, 2]), np.array(weight)
    answers = Observations.from_dense(np.tile(level, (times, 1)), N_LEVELS).with_weight(
        np.tile(weight, times)
    )
    this = drawn_side(rng, times, 1)._replace(width=np.ones(times, dtype=np.float32))
    precision = np.array([[1.0, 0.3], [0.3, 0.6]], dtype=np.float32)
    prior_mean = np.tile(np.array([0.3, -0.2], dtype=np.float32), (times, 1))
    for number in range(25):
        CPU_GIBBS.draw_rows(answers, this, other, THRESHOLDS, prior_mean, precision, Sweep(1, number, 0))
    axis = np.linspace(-6.0, 6.0, 241)
    bias, factor = np.meshgrid(axis, axis, indexing="ij")
    away = np.stack([bias - 0.3, factor + 0.2], axis=-1)
    total = -0.5 * np.einsum("ija,ab,ijb->ij", away, precision.astype(float), away)
    for i, (own, times_counted) in enumerate(zip(level, weight, strict=True)):
        mean = bias + other.factors[i, 0] + factor * other.factors[i, 1]
        low, high = float(other.width[i]) * THRESHOLDS[0, own : own + 2].astype(float)
        total += times_counted * log_mass(low - mean, high - mean)
    share = np.exp(total - total.max())
    share /= share.sum()
    for k, where in enumerate((bias, factor)):
        mean = (share * where).sum()
        deviation = np.sqrt((share * where**2).sum() - mean**2)
        assert abs(this.factors[:, k].mean() - mean) < 0.03 * deviation
        assert abs(this.factors[:, k].std() / deviation - 1.0) < 0.03


# ---- demand ---------------------------------------------------------------------------------------


def test_demand_is_the_least_weighted_squares():
    answers = weighted(6)
    ridge = 0.5
    found = implicit_als.learn(on_cpu(answers), implicit_als.start(answers, 2, 0), ridge, 300)
    dense = np.zeros((answers.n_rows, answers.n_columns))
    row, column, _ = answers.cells()
    dense[row, column] = answers.weight
    rows, columns = (part.astype(float) for part in found)
    products = rows @ columns.T
    slope = (dense * (products - 1.0) + implicit_als._UNANSWERED * products) @ columns + ridge * rows
    np.testing.assert_allclose(slope, 0.0, atol=2e-3)
    exact = implicit_als.Demand.of(*found, ridge)
    exact = exact._replace(rows=exact.infer_rows(answers))
    products = exact.rows.astype(float) @ exact.columns.T
    slope = dense @ exact.columns - (dense * products + implicit_als._UNANSWERED * products) @ exact.columns
    np.testing.assert_allclose(slope - ridge * exact.rows, 0.0, atol=1e-4)
    many, prior = repeated(answers), implicit_als.RowPrior
    own = [prior.of(exact.rows, exact.columns, exact.alone, each) for each in (answers, many)]
    assert own[0].precision.shape == own[1].precision.shape


# ---- answers --------------------------------------------------------------------------------------


def test_weights_go_along_with_answers():
    answers = weighted(7)
    dense = np.zeros((answers.n_rows, answers.n_columns))
    dense[answers.cells().row, answers.column] = answers.weight
    for changed, expected in (
        (answers.transpose(), dense.T),
        (answers.take_rows([3, 1]), dense[[3, 1]]),
        (answers.select(answers.level > 1), dense * (answers.to_dense() > 1)),
        (answers.reorder(np.array([2, 5, 1]), np.array([4, 0, 3])), dense[[2, 5, 1]][:, [4, 0, 3]]),
    ):
        there = np.zeros_like(expected)
        there[changed.cells().row, changed.column] = changed.weight
        np.testing.assert_array_equal(there, expected)
    ones = answers.with_weight(np.ones(answers.n_entries))
    bare = answers.with_weight(np.zeros(0))
    columns, rows = np.arange(answers.n_columns), np.arange(answers.n_rows)
    many = repeated(answers)
    np.testing.assert_array_equal(answers.level_counts(N_LEVELS), many.level_counts(N_LEVELS))
    for counted in (
        lambda each: each.levels_of_columns(columns),
        lambda each: each.levels_of_rows(rows, N_LEVELS),
    ):
        np.testing.assert_array_equal(counted(ones), counted(bare))
        assert counted(answers).sum() == answers.total_weight


# ---- models -----------------------------------------------------------------------------------------


def some_ratings(seed=0, n_users=40, n_items=25):
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.4)
    rating = np.clip(
        np.round(3.0 + norm.rvs(size=n_items, random_state=1)[item] + rng.normal(size=user.size)), 1, 5
    )
    return pd.DataFrame({"user": user, "item": item, "rating": rating.astype(int)})


def learnt(ratings, kind=orbm.OrdinalMF, validation=None, sample_weight=None, **settings):
    settings = {"n_epochs": 3, "demand_factors": 4, "random_state": 0, "n_jobs": 1} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains that are short
        return kind(3, **settings).fit(ratings, validation, sample_weight=sample_weight)


def same(one, other, ratings):
    found = one.predict_proba(ratings["user"], ratings["item"])
    np.testing.assert_array_equal(found, other.predict_proba(ratings["user"], ratings["item"]))
    np.testing.assert_array_equal(one.demand_.rows, other.demand_.rows)


KINDS = {
    "variational": (orbm.OrdinalMF, {}),
    "point": (orbm.OrdinalMF, {"posterior": "point"}),
    "sampled": (orbm.OrdinalMF, {"posterior": "sampled", "n_draws": 2, "n_epochs": 6}),
    "numbers": (orbm.GaussianMF, {}),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_weight_of_zero_is_no_rating(name, tmp_path):
    """Weights of one are none, others change the model, and files keep them."""
    kind, settings = KINDS[name]
    ratings = some_ratings()
    weight = np.random.default_rng(1).integers(0, 3, len(ratings))
    found, some = learnt(ratings, kind, sample_weight=weight, **settings), weight > 0
    same(found, learnt(ratings[some], kind, sample_weight=weight[some], **settings), ratings)
    plain = learnt(ratings, kind, **settings)
    same(plain, learnt(ratings, kind, sample_weight=np.ones(len(ratings)), **settings), ratings)
    assert (
        np.abs(
            plain.predict(ratings["user"], ratings["item"]) - found.predict(ratings["user"], ratings["item"])
        ).max()
        > 0.05
    )
    found.save(tmp_path / "model.orbm")
    again = orbm.load(tmp_path / "model.orbm")
    same(found, again, ratings)
    np.testing.assert_array_equal(again.ratings_.observations.weight, found.ratings_.observations.weight)
    reasons = found.explain(3, int(ratings["item"][ratings["user"] == 3].iloc[0]))
    assert np.isfinite(reasons.ratings["effect"]).all()


def test_a_heavy_rating_draws_a_user_to_itself():
    ratings = some_ratings(2)
    which = int(np.flatnonzero(ratings["rating"] == 1)[0])
    weight = np.ones(len(ratings))
    weight[which] = 30.0
    user, item = ratings["user"][which], ratings["item"][which]
    for posterior in ("variational", "point", "sampled"):
        settings = {"posterior": posterior, "n_epochs": 12}
        light, heavy = (learnt(ratings, sample_weight=each, **settings) for each in (None, weight))
        assert heavy.predict(user, item) < light.predict(user, item) - 0.1


def test_held_out_ratings_are_weighed():
    ratings = some_ratings(3)
    given = ratings.sample(60, random_state=0).assign(n=np.arange(60) % 3)
    rest = ratings.drop(given.index).assign(n=1.5)
    found = learnt(rest, validation=given, sample_weight="n", n_epochs=1, refit="none")
    chances = found.predict_proba(given["user"], given["item"])
    logs = np.log(chances[np.arange(60), given["rating"] - 1])
    expected = np.average(logs, weights=given["n"])
    np.testing.assert_allclose(found.history_["validation"].iloc[0], expected, rtol=1e-5)
    assert abs(expected - logs.mean()) > 1e-3
    without = learnt(rest, validation=given.drop(columns="n"), sample_weight="n", n_epochs=1, refit="none")
    np.testing.assert_allclose(without.history_["validation"].iloc[0], logs.mean(), rtol=1e-5)


def test_columns_arrays_and_frames_of_weights():
    ratings = some_ratings(4).assign(plays=lambda each: 1 + each.index % 4)
    found = [
        read_ratings(ratings, sample_weight="plays"),
        read_ratings(ratings[["user", "item", "rating"]], sample_weight=ratings["plays"]),
        read_ratings(pl.from_pandas(ratings), sample_weight="plays"),
        read_ratings(
            tuple(ratings[name] for name in ("user", "item", "rating")), sample_weight=list(ratings["plays"])
        ),
    ]
    matrix = sp.csr_array((ratings["rating"], (ratings["user"], ratings["item"])))
    stored = np.append(matrix.data, 0), np.append(matrix.tocoo().row, 0), np.append(matrix.tocoo().col, 24)
    assert 24 not in ratings["item"][ratings["user"] == 0].to_numpy()
    gap = sp.coo_array((stored[0], stored[1:]), shape=matrix.shape)
    with pytest.warns(UserWarning, match="stored zeros"):
        found.append(read_ratings(gap, sample_weight=np.append(ratings["plays"], 9)))
    for each in found:
        np.testing.assert_array_equal(each.observations.weight, ratings["plays"])


# ---- choices ------------------------------------------------------------------------------------------


def test_clicks_are_counted():
    """A log of clicks, a table of counts and two arrays with weights are the same."""
    ratings = some_ratings(5)
    counts = np.random.default_rng(2).integers(0, 4, len(ratings))
    some = counts > 0
    log = ratings.loc[np.repeat(ratings.index, counts), ["user", "item"]].sample(frac=1.0, random_state=0)
    table = ratings[["user", "item"]].assign(plays=counts)
    with pytest.warns(UserWarning, match="nothing to rate"):
        by_log, by_table, by_arrays, binary = (
            orbm.OrdinalMF(demand_factors=4, random_state=0).fit(given, sample_weight=weight)
            for given, weight in (
                (log, None),
                (table, "plays"),
                ((ratings["user"], ratings["item"]), counts),
                (ratings.loc[some, ["user", "item"]], None),
            )
        )
    assert by_log.ratings_.n_ratings == some.sum()
    for other in (by_table, by_arrays):
        np.testing.assert_array_equal(by_log.demand_.rows, other.demand_.rows)
        assert by_log.recommend(3).equals(other.recommend(3))
    assert np.abs(by_log.demand_.rows - binary.demand_.rows).max() > 1e-3


def test_the_last_click_is_when_it_was_chosen():
    log = pd.DataFrame({"user": [1, 1, 1, 2], "item": [5, 6, 5, 5], "timestamp": [10, 20, 30, 40]})
    known = read_ratings(log)
    assert known.times.value.tolist() == [30, 20, 40]
    assert known.observations.weight.tolist() == [2.0, 1.0, 1.0]
    weighed = read_ratings(log.assign(n=[2, 0, 0.5, 0]), sample_weight="n")
    assert (weighed.n_users, weighed.n_items, weighed.n_ratings) == (2, 2, 1)
    assert weighed.times.value.tolist() == [30]
    assert weighed.observations.weight.tolist() == [2.5]


def test_choices_of_any_model_may_have_counts():
    ratings = some_ratings(6)[["user", "item"]]
    with pytest.warns(UserWarning, match="nothing to rate"):
        found = orbm.MatrixCumulativeRBM(2, 2, demand_factors=3, random_state=0).fit(
            ratings, sample_weight=1 + ratings.index % 3
        )
    assert found.ratings_.observations.weight.max() == 3.0


# ---- later --------------------------------------------------------------------------------------------


def test_updates_with_weights():
    ratings = some_ratings(7)
    weight = np.where(np.arange(len(ratings)) % 3, 1.0, 2.5)
    model = learnt(ratings, sample_weight=weight)
    before = model.predict_proba(ratings["user"], ratings["item"])
    model.update(ratings[:50])  # known already, whatever they count
    model.update(ratings[:50], sample_weight=weight[:50])
    np.testing.assert_array_equal(model.predict_proba(ratings["user"], ratings["item"]), before)
    more = pd.DataFrame({"user": [0, 99], "item": [int(ratings["item"][0]), 3], "rating": [1, 5]})
    model.update(more, sample_weight=[20.0, 4.0])
    seen = model.ratings_.observations
    assert seen.weight.max() == 20.0
    assert seen.weight[-1] == 4.0
    wider = model.fold_in(more.assign(user=[200, 201]), sample_weight=[3.0, 0.0])
    assert wider.ratings_.n_users == model.ratings_.n_users + 1
    assert wider.ratings_.observations.weight[-1] == 3.0
    again = more.assign(user=0, item=[3, 4])
    assert np.isfinite(wider.recommend(ratings=again)["score"]).all()


def test_updates_of_clicks_keep_the_larger_count():
    log = pd.DataFrame({"user": [1, 1, 1, 2, 3, 3], "item": [5, 5, 6, 5, 6, 7]})
    with pytest.warns(UserWarning, match="nothing to rate"):
        model = orbm.OrdinalMF(demand_factors=2, random_state=0).fit(log)
    rows = model.demand_.rows.copy()
    model.update(log)
    np.testing.assert_array_equal(model.demand_.rows, rows)
    model.update(pd.DataFrame({"user": [1, 2, 2, 2, 2], "item": [5, 5, 5, 6, 6]}))
    seen = model.ratings_.observations
    assert dict(
        zip(zip(seen.cells().row.tolist(), seen.column.tolist(), strict=True), seen.weight, strict=True)
    ) == {(0, 0): 2.0, (0, 1): 1.0, (1, 0): 2.0, (1, 1): 2.0, (2, 1): 1.0, (2, 2): 1.0}


# ---- what is wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample_weight", "sentence"),
    [
        (-np.ones(4), "sample_weight of row 0 .* is -1.0; weights must be finite and not negative"),
        ([1, 1, np.nan, 1], "sample_weight of row 2 .counted from 0. is nan"),
        ([1, 1, np.inf, 1], "sample_weight of row 2 .counted from 0. is inf"),
        (np.zeros(4), "sample_weight is zero for every row"),
        (np.ones(3), r"sample_weight has shape \(3,\), but there are 4 rows"),
        ([1, 1, 1e7, 1], "Row 2 .*: the weight 1e[+]07 is above 1,000,000; divide all weights"),
        (["a", 1, 1, 1], "sample_weight must hold numbers"),
        ("plays", r"sample_weight names the column 'plays', but the ratings have only the columns \['user'"),
    ],
)
def test_weights_that_are_none(sample_weight, sentence):
    ratings = pd.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 1, 2], "rating": [1, 2, 3, 1]})
    with pytest.raises(DataError, match=sentence):
        orbm.OrdinalMF().fit(ratings, sample_weight=sample_weight)
    if isinstance(sample_weight, str):
        with pytest.raises(DataError, match="the ratings are no frame; correct the name"):
            orbm.OrdinalMF().fit(([1], [1], [1]), sample_weight=sample_weight)


@pytest.mark.parametrize("model", [orbm.MatrixCumulativeRBM(2, 2), orbm.MultinomialRBM(2)])
def test_models_that_weigh_no_ratings(model):
    ratings = some_ratings()
    with pytest.raises(DataError, match="RBM learns from ratings that count alike; leave out sample_weight"):
        model.fit(ratings, sample_weight=np.ones(len(ratings)))


def test_a_checkpoint_is_of_its_weights(tmp_path):
    ratings = some_ratings()
    weight = 1.0 + np.arange(len(ratings)) % 3
    model = orbm.OrdinalMF(2, n_epochs=1, random_state=0, demand_factors=0)
    model.fit(ratings, sample_weight=weight, checkpoint=tmp_path, every=1)
    model.fit(ratings, sample_weight=weight, checkpoint=tmp_path)
    with pytest.raises(DataError, match="answers"):
        model.fit(ratings, sample_weight=weight + 1.0, checkpoint=tmp_path)

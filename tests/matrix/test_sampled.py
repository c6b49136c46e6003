"""The Gibbs sampler of ordinal factors against posteriors that are computed in another way."""

import warnings

import numpy as np
import pandas as pd
import pytest
from long_form import LONG
from sampled_world import made_up, matrix_of, numbers_of, prior_state, z_scores
from scipy import stats
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import drift
from ordinalrbm.engine.normal_reference import log_mass
from ordinalrbm.engine.ordinal_gibbs import CPU_GIBBS, DrawnSide, Sweep
from ordinalrbm.engine.rated_sets import FEW, RatedSets, WeightDraws
from ordinalrbm.matrix import gibbs_learner, gibbs_sampler, variational
from ordinalrbm.matrix.gibbs_learner import Record
from ordinalrbm.matrix.gibbs_sampler import sweep
from ordinalrbm.runtime.threads import threads


@pytest.fixture(autouse=True)
def _short_bins(monkeypatch):
    """So that rows of few answers have several."""
    monkeypatch.setattr(drift, "SIZE", 2)


@pytest.fixture(autouse=True)
def _one_thread_of_the_blas():
    """As while learning: small matrices are not worth the threads."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


THRESHOLDS = np.array([[-np.inf, -0.8, 0.4, np.inf]], dtype=np.float32)


def columns_of(rng, n=5, n_factors=1):
    return DrawnSide(
        rng.normal(size=(n, 1 + n_factors)).astype(np.float32),
        np.exp(0.3 * rng.normal(size=n)).astype(np.float32),
        np.zeros(n, dtype=np.int32),
    )


def same_rows(level, times):
    """One row again and again, so that many chains are run at once."""
    return Observations.from_dense(np.tile(level, (times, 1)), 3)


def rows_of(times, n_factors=1, width=1.0):
    return DrawnSide(
        np.zeros((times, 1 + n_factors), dtype=np.float32),
        np.full(times, width, dtype=np.float32),
        np.zeros(times, dtype=np.int32),
    )


def log_chance(mean, width, level):
    bounds = width * THRESHOLDS[0].astype(float)
    return log_mass(bounds[level] - mean, bounds[level + 1] - mean)


def test_bias_and_factors_of_a_row_by_quadrature():
    rng = np.random.default_rng(0)
    other, level, times = columns_of(rng), np.array([2, 0, -1, 1, 2]), 3000
    answers, this = same_rows(level, times), rows_of(times, width=1.2)
    precision = np.array([[2.0, 0.5], [0.5, 1.0]], dtype=np.float32)
    prior = np.array([0.3, -0.2], dtype=np.float32)
    for number in range(25):
        CPU_GIBBS.draw_rows(
            answers, this, other, THRESHOLDS, np.tile(prior, (times, 1)), precision, Sweep(1, number, 0)
        )
    axis = np.linspace(-4.0, 4.0, 161)
    bias, factor = np.meshgrid(axis, axis, indexing="ij")
    away = np.stack([bias - prior[0], factor - prior[1]], axis=-1)
    total = -0.5 * np.einsum("ija,ab,ijb->ij", away, precision.astype(float), away)
    for i in np.flatnonzero(level >= 0):
        mean = bias + other.factors[i, 0] + factor * other.factors[i, 1]
        total += log_chance(mean, 1.2 * other.width[i], level[i])
    share = np.exp(total - total.max())
    share /= share.sum()
    expected = np.array([(share * bias).sum(), (share * factor).sum()])
    squares = [(share * bias**2).sum(), (share * bias * factor).sum(), (share * factor**2).sum()]
    drawn = this.factors.astype(float)
    found = [(drawn[:, 0] ** 2).mean(), drawn.prod(axis=1).mean(), (drawn[:, 1] ** 2).mean()]
    error = 4.0 * drawn.std(axis=0) / np.sqrt(times)
    assert (abs(drawn.mean(axis=0) - expected) < error).all()
    np.testing.assert_allclose(found, squares, atol=0.08)


def test_width_of_a_row_by_quadrature():
    rng = np.random.default_rng(3)
    other, level, times = columns_of(rng), np.array([2, 0, 1, 1, -1]), 3000
    answers, this, precision = same_rows(level, times), rows_of(times), 3.0
    this.factors[:] = np.array([0.2, -0.5], dtype=np.float32)
    taken = [
        CPU_GIBBS.move_widths(answers, this, other, THRESHOLDS, precision, Sweep(2, number, 0)).mean()
        for number in range(30)
    ]
    assert 0.7 < np.mean(taken) < 1.0
    axis = np.linspace(-3.0, 3.0, 2001)
    total = -0.5 * precision * axis**2
    for i in np.flatnonzero(level >= 0):
        mean = 0.2 + other.factors[i, 0] - 0.5 * other.factors[i, 1]
        bounds = np.exp(axis)[:, None] * other.width[i] * THRESHOLDS[0].astype(float)
        total += log_mass(bounds[:, level[i]] - mean, bounds[:, level[i] + 1] - mean)
    share = np.exp(total - total.max())
    share /= share.sum()
    logs = np.log(this.width.astype(float))
    middle = (share * axis).sum()
    spread = np.sqrt((share * (axis - middle) ** 2).sum())
    assert abs(logs.mean() - middle) < 4.0 * spread / np.sqrt(times)
    assert logs.std() == pytest.approx(spread, rel=0.06)


def test_sums_for_thresholds_are_derivatives():
    rng = np.random.default_rng(5)
    level = rng.integers(-1, 3, (30, 5))
    level[3] = -1
    answers = Observations.from_dense(level, 3)
    this, other = rows_of(30), columns_of(rng)
    this.factors[:] = rng.normal(size=this.factors.shape)
    this.width[:] = np.exp(0.2 * rng.normal(size=30))

    def total(inner):
        bounds = np.array([-np.inf, *inner, np.inf])
        mean = this.factors[:, :1] + other.factors[:, 0] + this.factors[:, 1:] @ other.factors[:, 1:].T
        width = np.outer(this.width, other.width).astype(float)
        rows, columns = np.nonzero(level >= 0)
        given, at, wide = level[rows, columns], mean[rows, columns], width[rows, columns]
        logs = np.log(ndtr(wide * bounds[given + 1] - at) - ndtr(wide * bounds[given] - at))
        return np.bincount(rows, logs, minlength=30)

    found = CPU_GIBBS.threshold_sums(answers, this, other, THRESHOLDS)
    inner = THRESHOLDS[0, 1:3].astype(float)
    assert found.log_likelihood == pytest.approx(total(inner), abs=1e-4)
    for place in range(2):
        step = np.eye(2)[place] * 1e-4
        slope = (total(inner + step) - total(inner - step)) / 2e-4
        assert found.slope[:, place + 1] == pytest.approx(slope, abs=1e-3)


def slope_of(proposal):
    """What Newton's step is made of."""
    lower = proposal.lower
    return np.einsum("...ab,...cb,...c->...a", lower, lower, proposal.step)


def state_with(rng, n_levels):
    """Data and a state of 40 rows and columns with so many levels."""
    level = np.where(
        rng.random((40, n_levels.size)) < 0.9, rng.integers(0, n_levels, (40, n_levels.size)), -1
    )
    answers = Observations.from_dense(level, n_levels)
    data = gibbs_sampler.prepared(answers, rated_sets=False)
    found = variational.start(answers, 1, 0, variational.Precisions())
    state = gibbs_sampler.start(data, found)
    state.rows.factors[:] = 0.3 * rng.normal(size=state.rows.factors.shape)
    own = 0.3 * rng.normal(size=state.gaps.shape)
    own[np.arange(own.shape[1]) >= n_levels[:, None] - 2] = 0.0
    return data, state._replace(gaps=np.where(n_levels[:, None] > 32, 0.0, own))


def test_slopes_by_gaps_are_derivatives():
    """Of columns, each by itself, and of scales; on long ones columns have none of their own."""
    n_levels = np.array([4, 5, 4, 40, 2, 40, 1])
    data, state = state_with(np.random.default_rng(12), n_levels)
    step = 1e-3
    for scale, levels in list(enumerate(data.scales.n_levels))[1:]:
        at, slope = gibbs_sampler._proposal(data, state, scale), np.zeros(levels - 1)
        for place in range(levels - 1):
            there = []
            for sign in (1, -1):
                cutpoints = state.cutpoints.copy()
                cutpoints[scale, place] += sign * step
                moved = state._replace(cutpoints=cutpoints)
                there.append(gibbs_sampler._proposal(data, moved, scale).log_posterior)
            slope[place] = (there[0] - there[1]) / (2.0 * step)
        np.testing.assert_allclose(slope_of(at), slope, atol=0.05)
    of_columns = slope_of(gibbs_sampler._gap_proposal(data, state, 3))
    for place in range(3):
        there = []
        for sign in (1, -1):
            gaps = state.gaps.copy()
            gaps[1, place] += sign * step
            there.append(gibbs_sampler._gap_proposal(data, state._replace(gaps=gaps), 3).log_posterior)
        assert of_columns[0, place] == pytest.approx((there[0] - there[1])[0] / (2.0 * step), abs=0.02)
    moved = sweep(data, state, 1, 0, settling=False)
    assert not moved.gaps[3:].any()
    assert (moved.gaps[[0, 2], :2] != state.gaps[[0, 2], :2]).any()


def test_what_gaps_have_in_common_moves_no_threshold():
    data, state = state_with(np.random.default_rng(13), np.array([4, 5, 4, 5, 5]))
    for scale in range(2):
        moved = gibbs_sampler._common_gaps(data, state, scale, np.random.default_rng(2))
        assert (moved.cutpoints[scale] != state.cutpoints[scale]).any()
        bounds = [gibbs_sampler._bounds(data, each) for each in (state, moved)]
        np.testing.assert_allclose(*bounds, rtol=1e-5, atol=1e-6)
        state = moved
    own = gibbs_sampler.own_cutpoints(state.cutpoints, state.gaps, data.scales.of_columns, np.array([4, 5]))
    inner = gibbs_sampler.bounds_of(own, np.array([4, 5, 4, 5, 5]))[:, 1:-1]
    means = np.where(np.isfinite(inner), inner, np.nan)
    np.testing.assert_allclose(np.nanmean(means[0]), np.nanmean(means[2]), rtol=1e-5)
    np.testing.assert_allclose(np.nanmean(means[[1, 3, 4]], axis=1), np.nanmean(means[1]), rtol=1e-5)


def test_an_item_that_is_rated_by_two_levels_has_a_scale_of_its_own(tmp_path):
    """Others are rated with all five; widths alone cannot tell the two apart. Files keep it."""
    rng = np.random.default_rng(3)
    users, items = np.divmod(np.arange(600), 12)
    levels = np.where(items == 0, rng.choice([2, 4], users.size), rng.integers(1, 6, users.size))
    model = orbm.OrdinalMF(1, posterior="sampled", n_draws=20, n_epochs=60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit((users, items, levels))
    found = model.predict_proba(np.arange(50), np.zeros(50, dtype=int)).mean(axis=0)
    assert found[[1, 3]].min() > 0.35
    assert model.predict_proba(np.arange(50), np.full(50, 5)).mean(axis=0).max() < 0.35
    model.save(tmp_path / "model.orbm")
    again = orbm.load(tmp_path / "model.orbm")
    np.testing.assert_array_equal(model.predict_proba(users, items), again.predict_proba(users, items))
    newer = again.update((np.full(3, 80), [0, 5, 99], [2, 3, 1]))
    assert newer.predict_proba(80, [0, 99])[0, [1, 3]].min() > 0.3


def test_weights_of_rated_sets_are_a_ridge_regression():
    rng = np.random.default_rng(6)
    level = np.where(rng.random((12, 4)) < 0.6, 0, -1)
    level[:, 0] = 0
    sets = RatedSets.of(Observations.from_dense(level, 2))
    features = (level >= 0) * sets.lengths[:, None]
    n_rated = (level >= 0).sum(axis=1)
    np.testing.assert_allclose(np.square(features).sum(axis=1), n_rated / (n_rated + FEW), rtol=1e-5)
    given, ridge = rng.normal(size=(12, 3)), 2.0
    np.testing.assert_allclose(sets.times(np.eye(4, 3)), features @ np.eye(4, 3), rtol=1e-5)
    system = features.T @ features + ridge * np.eye(4)
    expected = np.linalg.solve(system, features.T @ given)
    weights, left, drawn = np.zeros((4, 3), dtype=np.float32), given.copy(), []
    for number in range(6000):
        weights, left = sets.draw_weights(weights, left, ridge, WeightDraws(0, number, 0))
        drawn.append(weights)
    np.testing.assert_allclose(left, given - features @ weights, atol=1e-3)
    drawn = np.array(drawn[100:])
    np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=0.06)
    for a in range(3):
        np.testing.assert_allclose(np.cov(drawn[:, :, a].T), np.linalg.inv(system), atol=0.03)


def test_precisions_are_wishart():
    rng = np.random.default_rng(7)
    scatter = np.array([[2.0, 0.5], [0.5, 1.0]])
    drawn = np.array([gibbs_sampler._wishart(scatter, 7.0, rng) for _ in range(4000)])
    np.testing.assert_allclose(drawn.mean(axis=0), 7.0 * np.linalg.inv(scatter), rtol=0.05)
    expected = stats.wishart(7, np.linalg.inv(scatter)).var()
    np.testing.assert_allclose(drawn.var(axis=0), expected, rtol=0.15)


# ---- everything together ----------------------------------------------------------------------


def test_sampler_and_model_agree_on_the_joint_distribution():
    """Parameters given data and data given parameters, in turns, have the prior as their marginal.

    Geweke (2004): a mistake in any conditional moves it.
    """
    rng, found, n_chains, length = np.random.default_rng(8), [], 24, 50 if LONG else 25
    with threads(1):
        for chain in range(n_chains):
            state = prior_state(rng)
            own = []
            for number in range(2, length + 2):
                data = matrix_of(made_up(rng, state))
                state = sweep(data, state, number, chain, settling=False)
                own.append(numbers_of(state))
            found.append(np.mean(own, axis=0))
    z = z_scores(found)
    assert abs(z).max() < 4.0, z.round(1)
    assert np.square(z).mean() < 2.0, z.round(1)


def test_the_posterior_is_stationary():
    """Parameters that made the data are a draw of their posterior, and sweeps leave them one.

    Over many such worlds, what they are after a few sweeps with their data is what they were: the
    prior. The test above moves data, too; here they stay, as in a fit.
    """
    rng, found = np.random.default_rng(9), []
    with threads(1):
        for world in range(700 if LONG else 350):
            state = prior_state(rng)
            data = matrix_of(made_up(rng, state))
            for number in range(2, 4):
                state = sweep(data, state, number, world, settling=False)
            found.append(numbers_of(state))
    z = z_scores(found)
    assert abs(z).max() < 4.0, z.round(1)
    assert np.square(z).mean() < 2.0, z.round(1)


def test_draws_are_predicted_as_any_model_without_variances():
    """Which takes a shorter way where nobody need look at these."""
    users, items = np.divmod(np.arange(400), 20)
    levels = 1 + np.random.default_rng(0).integers(0, 4, users.size)
    model = orbm.OrdinalMF(3, posterior="sampled", n_draws=4, n_epochs=8, random_state=0)
    model.fit((users, items, levels))
    assert model.models_[0].is_exact
    found, best = model.predict_proba(users, items), model.recommend("all", 3)
    model.models_ = [each._replace(is_exact=False) for each in model.models_]
    np.testing.assert_allclose(found, model.predict_proba(users, items), atol=1e-6)
    np.testing.assert_allclose(best["score"], model.recommend("all", 3)["score"], atol=1e-5)


def test_a_chain_that_has_not_mixed_is_said():
    """With what, how far, and the remedy; one that has mixed is not."""
    users, items = np.divmod(np.arange(400), 20)
    levels = 1 + (users // 5 + np.random.default_rng(0).integers(0, 2, users.size)) % 5
    model = orbm.OrdinalMF(2, posterior="sampled", n_draws=4, n_epochs=12, demand_factors=0, random_state=3)
    with pytest.warns(ConvergenceWarning) as said:
        model.fit((users, items, levels))
    worst = model.chain_["r_hat"].idxmax()
    assert model.chain_["r_hat"].max() > 1.1
    message = str(said[0].message)
    assert f"R-hat of {worst} is {model.chain_['r_hat'].max():.2f} after 12 sweeps" in message
    assert "n_epochs=24" in message
    assert said[0].filename == __file__
    model.history_ = model.history_.assign(**dict.fromkeys(model.chain_.index, 0.0))
    varying = np.random.default_rng(0).normal(size=(12, len(model.chain_)))
    model.history_[model.chain_.index] = varying - varying.mean(axis=0)
    model.history_ = pd.concat([model.history_] * 50, ignore_index=True)
    model.history_["epoch"] = np.arange(1, len(model.history_) + 1)
    assert model.chain_["r_hat"].max() < 1.1
    model._warn_unless_mixed()  # an error here, if it said anything


def test_sweeps_are_dropped_until_there_is_no_trend(tmp_path):
    """By a rule that looks at every tenth sweep from 30 on; and where it never holds, at most so many."""
    rng = np.random.default_rng(0)
    blank = Record(*np.zeros(len(Record._fields)))

    def dropped(values):
        history = []
        for value in values:
            history.append(blank._replace(log_likelihood=value, scale_width=rng.normal()))
            if gibbs_learner._has_settled(history):
                return len(history)
        return None

    noise = rng.normal(size=200)
    assert dropped(noise) == 30
    assert 40 < dropped(noise + 20 * np.exp(-np.arange(200) / 10)) < 100
    assert dropped(noise + np.arange(200)) is None
    users, items = np.divmod(np.arange(400), 20)
    levels = 1 + rng.integers(0, 4, users.size)
    given = {"posterior": "sampled", "n_draws": 3, "n_epochs": 100, "demand_factors": 0, "random_state": 0}
    model = orbm.OrdinalMF(2, **given)
    model.fit((users, items, levels))
    n_dropped = int(model.history_["dropped"].sum())
    assert n_dropped in (30, 33) and len(model.history_) == 100
    assert (model.history_["dropped"].to_numpy() == (np.arange(100) < n_dropped)).all()
    assert model.draws_.n_draws == 3
    again = orbm.OrdinalMF(2, **given)
    again.fit((users, items, levels), checkpoint=tmp_path, callback=lambda epoch: epoch.epoch == n_dropped)
    assert len(again.history_) == n_dropped
    again.fit((users, items, levels), checkpoint=tmp_path)
    assert again.history_["dropped"].equals(model.history_["dropped"])
    np.testing.assert_array_equal(again.draws_.rows.factors, model.draws_.rows.factors)


def test_several_chains_are_those_of_their_seeds_one_after_the_other():
    users, items = np.divmod(np.arange(400), 20)
    ratings = (users, items, 1 + np.random.default_rng(0).integers(0, 4, users.size))
    given = {"posterior": "sampled", "n_epochs": 30, "demand_factors": 0, "random_state": 0}
    one = orbm.OrdinalMF(2, n_draws=4, **given).fit(ratings)
    both = orbm.OrdinalMF(2, n_draws=8, n_chains=2, **given).fit(ratings)
    history = both.history_
    assert both.draws_.n_draws == 8 and len(history) == 60
    assert history["chain"].tolist() == [1.0] * 30 + [2.0] * 30
    np.testing.assert_array_equal(both.draws_.rows.factors[:4], one.draws_.rows.factors)
    assert not np.isclose(history["log_likelihood"][29], history["log_likelihood"][59])
    np.testing.assert_array_equal(both.draws_.columns.block, [0] * 4 + [1] * 4)
    assert both.predict_proba(users[:5], items[:5]).shape == (5, 4)
    # Chains without a number in common: halves of a normal, 1.83 for long ones, whatever lies between.
    both.history_ = history.assign(scale_width=history["scale_width"] + 10.0 * history["chain"])
    assert both.chain_["r_hat"]["scale_width"] > 1.5
    kept = history[history["dropped"] == 0]
    assert both.chain_["mean"]["log_likelihood"] == pytest.approx(kept["log_likelihood"].mean())

"""The Gibbs sampler of ordinal factors against posteriors that are computed in another way."""

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
from ordinalrbm.matrix import gibbs_learner, gibbs_sampler
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
        return np.log(ndtr(wide * bounds[given + 1] - at) - ndtr(wide * bounds[given] - at)).sum()

    found = CPU_GIBBS.threshold_sums(answers, this, other, THRESHOLDS)
    inner = THRESHOLDS[0, 1:3].astype(float)
    assert found.log_likelihood == pytest.approx(total(inner), abs=1e-3)
    for place in range(2):
        step = np.eye(2)[place] * 1e-4
        slope = (total(inner + step) - total(inner - step)) / 2e-4
        assert found.slope[0, place + 1] == pytest.approx(slope, abs=2e-3)


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
    model = orbm.OrdinalMF(2, posterior="sampled", n_draws=4, n_epochs=12, random_state=0)
    with pytest.warns(ConvergenceWarning) as said:
        model.fit((users, items, levels))
    worst = model.chain_["r_hat"].idxmax()
    assert model.chain_["r_hat"].max() > 1.1
    message = str(said[0].message)
    assert f"R-hat of {worst} is {model.chain_['r_hat'].max():.2f} after 12 sweeps" in message
    assert "n_epochs=24" in message
    assert said[0].filename == __file__
    both = orbm.RatingEnsemble([orbm.OrdinalMF(2, n_epochs=2), model], random_state=0)
    with pytest.warns(ConvergenceWarning, match="has not mixed"):
        both.fit((users, items, levels))
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
    model = orbm.OrdinalMF(2, posterior="sampled", n_draws=3, n_epochs=100, random_state=0)
    model.fit((users, items, levels))
    n_dropped = int(model.history_["dropped"].sum())
    assert n_dropped in (30, 33) and len(model.history_) == 100
    assert (model.history_["dropped"].to_numpy() == (np.arange(100) < n_dropped)).all()
    assert model.draws_.n_draws == 3
    again = orbm.OrdinalMF(2, posterior="sampled", n_draws=3, n_epochs=100, random_state=0)
    again.fit((users, items, levels), checkpoint=tmp_path, callback=lambda epoch: epoch.epoch == n_dropped)
    assert len(again.history_) == n_dropped
    again.fit((users, items, levels), checkpoint=tmp_path)
    assert again.history_["dropped"].equals(model.history_["dropped"])
    np.testing.assert_array_equal(again.draws_.rows.factors, model.draws_.rows.factors)


def test_several_chains_are_those_of_their_seeds_one_after_the_other():
    users, items = np.divmod(np.arange(400), 20)
    ratings = (users, items, 1 + np.random.default_rng(0).integers(0, 4, users.size))
    given = {"posterior": "sampled", "n_epochs": 30, "random_state": 0}
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


def test_chains_tell_how_they_went():
    users, items = np.divmod(np.arange(400), 20)
    levels = 1 + np.random.default_rng(0).integers(0, 4, users.size)
    model = orbm.OrdinalMF(2, posterior="sampled", n_draws=8, n_epochs=60, random_state=0)
    chain = model.fit((users, items, levels)).chain_
    assert {"log_likelihood", "user_ridge", "scale_width"} <= set(chain.index)
    assert chain["effective_size"].between(1, 200).all()
    assert (chain["r_hat"].dropna() > 0.9).all()
    with pytest.raises(AttributeError, match="sampled"):
        _ = orbm.OrdinalMF().chain_

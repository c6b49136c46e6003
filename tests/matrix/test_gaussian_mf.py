"""Gaussian matrix factorisation against plain NumPy."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from small_matrices import MODELS, assert_same_models, gaussian_cell, learnt, simulated

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.base import MEAN_FIELD_CORRECTION
from ordinalrbm.engine.half_sweep import CPU_ENGINE
from ordinalrbm.matrix.variational import Precisions, epoch, on_cpu, start_with_values

VALUES = np.array([1.0, 2.0, 4.0, 4.5, 7.0])  # not evenly spaced on purpose
WORDS = ["one", "two", "three", "four", "five"]


def table(n_rows=40, n_columns=20, density=0.6, seed=0):
    """Levels of a factor model, −1 where there is none."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(0, 0.5, (n_rows, 1)) + rng.normal(0, 0.7, (1, n_columns))
    mean = mean + rng.normal(size=(n_rows, 2)) @ rng.normal(0, 0.8, (2, n_columns))
    levels = np.searchsorted([-2.0, -1.0, 0.2, 1.4], mean + 0.5 * rng.normal(size=mean.shape))
    return np.where(rng.random(mean.shape) < density, levels, -1)


def started(dense, n_factors, precisions):
    observations = Observations.from_dense(dense, 5)
    state = start_with_values(observations, VALUES, n_factors, 0, precisions)
    return state, on_cpu(observations)


def in_ratings(state):
    """Cell means in standard deviations of the ratings, around their overall mean."""
    (p, q), unit = (side.mean.astype(np.float64) for side in state[:2]), state.unit
    mean = p[:, :1] + q[:, 0] + p[:, 1:] @ q[:, 1:].T
    return (mean - state.values[0]) / unit


# ---- one half-sweep -----------------------------------------------------------------------------


def regression(state, dense, d):
    """A row's system and right-hand side, its residuals being known."""
    seen = dense[d] >= 0
    q, w = (part[seen].astype(np.float64) for part in state.columns[:2])
    design = np.column_stack([np.ones(len(q)), q[:, 1:]])
    ridge = state.row_prior.precision + np.append(0.0, w[:, 1:].sum(axis=0))
    target = state.values[dense[d, seen]].astype(np.float64) - q[:, 0]
    return design.T @ design + np.diag(ridge), design.T @ target, (design**2).sum(axis=0) + ridge


@pytest.fixture
def unequal():
    """A state with nothing symmetric, and an empty row."""
    dense = table(12, 9)
    dense[3] = -1
    state, data = started(dense, 1, Precisions(5.0, 2.0))
    rng = np.random.default_rng(1)
    for side in state[:2]:
        side.mean[:] = rng.normal(0.1, 0.6, side.mean.shape)
        side.variance[:] = rng.uniform(0.05, 0.4, side.variance.shape)
    return state, data, dense


def test_every_row_solves_its_ridge_regression(unequal):
    """With so few coordinates conjugate gradients end at the solution."""
    state, data, dense = unequal
    CPU_ENGINE.half_sweep(data.rows.answers, state.rows, state.columns, state.row_prior, values=state.values)
    precision = state.row_prior.precision
    for d in range(len(dense)):
        system, side, diagonal = regression(state, dense, d)
        np.testing.assert_allclose(state.rows.mean[d], np.linalg.solve(system, side), rtol=1e-4, atol=1e-5)
        known = 1.0 / (precision + (diagonal - precision) / MEAN_FIELD_CORRECTION)
        np.testing.assert_allclose(state.rows.variance[d], known, rtol=1e-5)
    np.testing.assert_allclose(state.rows.mean[3], 0.0, atol=1e-6)
    np.testing.assert_allclose(state.rows.variance[3], 1.0 / precision)


def test_expected_squared_error(unequal):
    state, data, dense = unequal
    total = 0.0
    for d, i in zip(*np.nonzero(dense >= 0), strict=True):
        mean, deviation = gaussian_cell(state, d, i)
        total += (state.values[dense[d, i]] - mean) ** 2 + deviation**2 - 1.0
    found = CPU_ENGINE.squared_error(data.rows.answers, state.rows, state.columns, state.values)
    assert found == pytest.approx(total, rel=1e-5)
    of_columns = CPU_ENGINE.squared_error(data.columns.answers, state.columns, state.rows, state.values)
    assert of_columns == pytest.approx(total, rel=1e-5)


# ---- points -------------------------------------------------------------------------------------


def alternating(dense, q, precisions, n_epochs):
    """Least squares in turns, exactly; returns cell means in standard deviations of the ratings."""
    seen = dense >= 0
    of_seen = VALUES[dense[seen]]
    y = np.where(seen, (VALUES[np.maximum(dense, 0)] - of_seen.mean()) / of_seen.std(), 0.0)
    p, centre = np.zeros((len(dense), q.shape[1])), 0.0
    ridge = np.append(precisions.bias, np.full(q.shape[1] - 1, precisions.factors))

    def fitted():
        return centre + p[:, :1] + q[:, 0] + p[:, 1:] @ q[:, 1:].T

    def solved(this, other, y, seen, noise):
        for d in range(len(this)):
            x = other[seen[d]].copy()
            target = y[d, seen[d]] - centre - x[:, 0]
            x[:, 0] = 1.0
            this[d] = np.linalg.solve(x.T @ x + noise * np.diag(ridge), x.T @ target)

    for _ in range(n_epochs):
        noise = np.mean((y - fitted())[seen] ** 2)
        solved(p, q, y, seen, noise)
        solved(q, p, y.T, seen.T, noise)
        for side in (p, q):
            centre += side[:, 0].mean()
            side[:, 0] -= side[:, 0].mean()
    return fitted()


def test_points_are_those_of_alternating_least_squares():
    """From the same start to the same end."""
    dense, precisions = table(), Precisions(5.0, 4.0)
    state, data = started(dense, 2, precisions)
    first = state.columns.mean.astype(np.float64)
    for number in range(1, 151):
        state = epoch(data, state, number, is_point=True)
    truth = alternating(dense, first, precisions, 150)
    of_seen = VALUES[dense[dense >= 0]]
    lowest = (VALUES[0] - of_seen.mean()) / of_seen.std()
    np.testing.assert_allclose(in_ratings(state) + lowest, truth, atol=2e-3)
    assert truth.std() > 0.5
    assert not state.rows.variance.any()
    # The strengths stay, where ratings have variance one.
    unit = state.unit
    np.testing.assert_allclose(state.row_prior.precision[0] * unit**2, 5.0, rtol=1e-4)
    np.testing.assert_allclose(state.row_prior.precision[1:] * unit, 4.0, rtol=1e-4)


# ---- variances ----------------------------------------------------------------------------------


def test_noise_and_priors_are_found():
    """Two factors made the ratings, of six that are asked for."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 80)) + rng.normal(0, 0.6, (150, 80))
    edges = np.linspace(-4, 4, 60)
    step = np.diff(edges)[0]
    values = np.r_[edges - step / 2, edges[-1] + step / 2]
    user, item = np.indices(truth.shape).reshape(2, -1)
    rating = values[np.searchsorted(edges, truth.ravel())]
    model = orbm.GaussianMF(6, n_epochs=30, random_state=0, scale=values.tolist())
    model.fit((user, item, rating))
    per_label = np.diff(model.model_.values)[0] / step
    assert per_label**-2.0 == pytest.approx(0.36, rel=0.05)
    precision = model.model_.row_prior.precision * model.model_.column_prior.precision
    assert (precision[1:3] < 0.04 * precision[3:].min()).all()
    clean = model.user_biases_[:, None] + model.item_biases_
    clean = clean + model.user_factors_ @ model.item_factors_.T
    assert np.corrcoef(clean.ravel(), truth.ravel())[0, 1] > 0.9


# ---- predictions --------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["variational", "point"])
def uneven(request):
    """A model of ratings on uneven numbers."""
    ratings = simulated()
    ratings["rating"] = VALUES[ratings["rating"] - 1]
    return MODELS["gaussian"](posterior=request.param, factor_precision=2.0).fit(ratings)


def gaussian_of(model, d, i):
    """Mean and standard deviation of a rating, in its labels."""
    one = model.model_
    mean, deviation = gaussian_cell(one, d, i)
    unit = (one.values[-1] - one.values[0]) / (VALUES[-1] - VALUES[0])
    return VALUES[0] + (mean - one.values[0]) / unit, deviation / unit


def test_distribution_is_the_gaussian_between_mid_points(uneven):
    middles = 0.5 * (VALUES[1:] + VALUES[:-1])
    for d, i in ((3, 0), (7, 20), (110, 49)):
        mean, deviation = gaussian_of(uneven, d, i)
        truth = np.diff(np.r_[0.0, norm.cdf(middles, mean, deviation), 1.0])
        user, item = uneven.users_.labels[d], uneven.items_.labels[i]
        np.testing.assert_allclose(uneven.predict_proba(user, item)[0], truth, atol=1e-5)
        best = np.clip(mean, VALUES[0], VALUES[-1])
        assert uneven.predict(user, item) == pytest.approx(best, abs=1e-4)


def test_means_stay_on_the_scale(uneven):
    for bias, end in ((50.0, 7.0), (-50.0, 1.0)):
        mean = uneven.model_.rows.mean.copy()
        mean[:, 0] = bias
        far = MODELS["gaussian"]()
        far.__dict__.update(uneven.__dict__)
        moved = uneven.model_._replace(rows=uneven.model_.rows._replace(mean=mean))
        far.models_ = [moved]
        far.model_ = moved
        np.testing.assert_array_equal(far.predict("u0", ["i0", "i1", "new"]), end)


# ---- scales -------------------------------------------------------------------------------------


def test_one_scale_is_needed():
    ratings = simulated()
    with pytest.raises(orbm.DataError, match=r"needs one scale for all items.*use OrdinalMF"):
        MODELS["gaussian"](item_scales={"i0": [1, 2, 3, 4, 5, 6]}).fit(ratings)
    same = MODELS["gaussian"](item_scales={"i0": [1, 2, 3, 4, 5]}, n_epochs=1).fit(ratings)
    p = same.predict_proba("u1", ["i0", "new"])
    assert p.shape == (2, 5)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_labels_that_are_not_ascending_numbers():
    ratings, plain = simulated(), learnt("gaussian")
    named = dict(zip(range(1, 6), WORDS, strict=True))
    text = ratings.assign(rating=ratings["rating"].map(named))
    words = MODELS["gaussian"](scale=WORDS).fit(text)
    assert_same_models(words, plain)
    assert words.predict("u1", "i1", rule="mode") in WORDS
    falling = MODELS["gaussian"](scale=[5, 4, 3, 2, 1])
    falling.fit(ratings.assign(rating=6 - ratings["rating"]))
    items = plain.items_.labels
    np.testing.assert_allclose(falling.predict("u3", items), 6 - plain.predict("u3", items))
    pd.testing.assert_series_equal(
        falling.recommend("u3", score="liked")["item"], plain.recommend("u3", score="liked")["item"]
    )

"""Gaussian factors of a matrix: what may not change a prediction, priors, recovery of truth."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.base import FactorPosterior, Prior, gaps_of
from ordinalrbm.engine.half_sweep import CPU_ENGINE, CpuEngine
from ordinalrbm.matrix import variational
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.predict import bounds, log_probability, probabilities, utilities
from ordinalrbm.matrix.variational import (
    Data,
    GaussianState,
    Precisions,
    View,
    epoch,
    max_identifiable_factors,
    on_cpu,
    start,
    swapped,
)

SCALES = (5, 2, 7, 3)


def posterior(rng, n, n_factors, n_levels, *, first, off_centre=0.4):
    width = max(SCALES) - 1
    cutpoints = rng.normal(-0.3, 0.3, (n, width))
    cutpoints[:, 0] = first
    # Coordinates of unequal size, and correlated.
    mixing = rng.normal(size=(n_factors, n_factors)) / np.arange(1, n_factors + 1)
    mean = rng.normal(off_centre, 0.8, (n, 1 + n_factors))
    mean[:, 1:] = mean[:, 1:] @ mixing
    return FactorPosterior(
        mean.astype(np.float32),
        rng.uniform(0.01, 0.3, mean.shape).astype(np.float32),
        cutpoints,
        gaps_of(cutpoints),
        np.resize(n_levels, n).astype(np.int32),
    )


def prior_of(posterior, cutpoints_precision=20.0):
    return Prior(
        np.ones(posterior.mean.shape[1], np.float32),
        posterior.cutpoints.copy(),
        np.full(posterior.cutpoints.shape[1], cutpoints_precision),
    )


def random_state(n_factors=4, *, seed=0, n_rows=30, n_columns=16):
    rng = np.random.default_rng(seed)
    rows = posterior(rng, n_rows, n_factors, (max(SCALES),), first=0.0)
    columns = posterior(rng, n_columns, n_factors, SCALES, first=-0.8)
    return GaussianState(rows, columns, prior_of(rows), prior_of(columns))


def cell_means(rows, columns):
    """In float64, all cells."""
    p, q = rows.mean.astype(np.float64), columns.mean.astype(np.float64)
    return p[:, :1] + q[:, 0] + p[:, 1:] @ q[:, 1:].T


def cell_variances(rows, columns):
    p, q = rows.mean.astype(np.float64) ** 2, columns.mean.astype(np.float64) ** 2
    v, w = rows.variance.astype(np.float64), columns.variance.astype(np.float64)
    return v[:, :1] + w[:, 0] + v[:, 1:] @ (q + w)[:, 1:].T + p[:, 1:] @ w[:, 1:].T


def bounds_above_means(state):
    """(rows, columns, L − 1) thresholds less the cell's mean; none beyond a column's own."""
    rows, columns = state[:2]
    cutpoints = rows.cutpoints[:, None] + columns.cutpoints
    cutpoints[..., 1:] = np.exp(cutpoints[..., 1:])
    bounds = np.cumsum(cutpoints, axis=-1) - cell_means(rows, columns)[..., None]
    beyond = np.arange(bounds.shape[-1]) >= columns.n_levels[:, None] - 1
    return np.where(beyond, np.inf, bounds)


def probabilities_of(state):
    """(rows, columns, L) with points for parameters."""
    bounds = bounds_above_means(state)
    below = np.concatenate([np.zeros((*bounds.shape[:2], 1)), ndtr(bounds)], axis=-1)
    return np.diff(below, axis=-1, append=1.0)


def second_moment(posterior):
    factors = posterior.mean[:, 1:].astype(np.float64)
    return (factors.T @ factors + np.diag(posterior.variance[:, 1:].sum(axis=0))) / len(factors)


def engine_with(update):
    """The engine with another half-sweep."""
    engine = CpuEngine()
    engine.half_sweep = update
    return engine


def seen_by(engine):
    """Data that no half-sweep looks at."""
    return Data(View(None, engine), View(None, engine), np.unique(SCALES))


# ---- what may not change predictions ------------------------------------------------------------


@pytest.mark.parametrize("is_point", [False, True])
@pytest.mark.parametrize("n_factors", [1, 2, 6])
def test_rotating_leaves_the_cells_alone(n_factors, is_point):
    rows, columns = random_state(n_factors, seed=n_factors)[:2]
    before = cell_means(rows, columns)
    rotation, other_rotation = variational._rotations(
        CPU_ENGINE.moments(rows), CPU_ENGINE.moments(columns), is_point
    )
    after, others = CPU_ENGINE.rotate(rows, rotation), CPU_ENGINE.rotate(columns, other_rotation)
    np.testing.assert_allclose(cell_means(after, others), before, atol=3e-5)
    np.testing.assert_allclose(after.mean[:, 0], rows.mean[:, 0], atol=1e-6)
    if not is_point:
        np.testing.assert_allclose(after.mean[:, 1:].mean(axis=0), 0.0, atol=1e-5)
        return
    # The priors of points stay: what they say of rows and columns must not change.
    for one, other in ((after, rows), (others, columns)):
        sizes = [np.square(side.mean, dtype=np.float64).sum(axis=1) for side in (one, other)]
        np.testing.assert_allclose(*sizes, rtol=1e-5)


@pytest.mark.parametrize("is_point", [False, True])
def test_sums_rotate_like_what_they_sum(is_point):
    state = random_state(3, seed=9)[:2]
    rotations = variational._rotations(*map(CPU_ENGINE.moments, state), is_point)
    for posterior, rotation in zip(state, rotations, strict=True):
        found, truth = (
            CPU_ENGINE.moments(posterior).rotate(rotation),
            CPU_ENGINE.moments(CPU_ENGINE.rotate(posterior, rotation)),
        )
        assert found.n == truth.n
        for one, other in zip(found[1:], truth[1:], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("n_factors", [1, 3, 8])
def test_in_the_axes_both_second_moments_are_the_same_diagonal(n_factors):
    one, other = (second_moment(posterior) for posterior in random_state(n_factors, seed=3)[:2])
    forward, backward = variational._axes(one, other)
    np.testing.assert_allclose(forward @ backward.T, np.eye(n_factors), atol=1e-9)
    first, second = forward.T @ one @ forward, backward.T @ other @ backward
    np.testing.assert_allclose(first, second, atol=1e-9)
    sizes = np.diag(first)
    np.testing.assert_allclose(first, np.diag(sizes), atol=1e-9)
    assert (np.diff(sizes) <= 0).all()  # the leading factor comes first
    # Their product is what no map can change.
    truth = np.sort(np.linalg.eigvals(one @ other).real)[::-1]
    np.testing.assert_allclose(sizes**2, truth, rtol=1e-8)


def test_axes_of_less_directions_than_factors():
    """Rounding is not blown up to a factor."""
    rng = np.random.default_rng(0)
    few = rng.normal(size=(5, 2))
    for one, other in ((few @ few.T, np.eye(5)), (np.zeros((5, 5)), np.eye(5))):
        forward, backward = variational._axes(one, other)
        assert np.isfinite(forward).all()
        assert np.isfinite(backward).all()
        np.testing.assert_allclose(forward @ backward.T, np.eye(5), atol=1e-6)


def test_common_cutpoints_leave_the_cells_alone():
    state = random_state(seed=4)
    before = bounds_above_means(state)
    state = variational._with_common_cutpoints(seen_by(CPU_ENGINE), state)
    np.testing.assert_allclose(bounds_above_means(state), before, atol=2e-5)
    rows, columns, _, column_prior = state[:4]
    # What all rows share is the columns', and what all columns of a scale share is its own.
    np.testing.assert_allclose(rows.cutpoints.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(rows.mean[:, 0].mean(), 0.0, atol=1e-6)
    for n_levels in SCALES:
        alike = columns.n_levels == n_levels
        np.testing.assert_allclose(columns.mean[alike, 0].mean(), 0.0, atol=1e-6)
        common = np.tile(columns.cutpoints[alike].mean(axis=0), (alike.sum(), 1))
        np.testing.assert_allclose(column_prior.cutpoints[alike], common)
    for posterior in (rows, columns):
        np.testing.assert_array_equal(posterior.gaps, gaps_of(posterior.cutpoints))


@pytest.mark.parametrize("is_point", [False, True])
def test_an_epoch_changes_nothing_else(is_point):
    """When nobody is updated, an epoch changes no prediction."""
    data = seen_by(engine_with(lambda _, this, *__, **___: np.zeros_like(this.cutpoints)))
    state = random_state(seed=5)
    before = bounds_above_means(state)
    for number in (1, 2, 3):
        state = epoch(data, state, number, is_point)
    np.testing.assert_allclose(bounds_above_means(state), before, atol=1e-4)


# ---- simulated from the model -------------------------------------------------------------------


def drawn(state, density, seed):
    """Levels of some cells, drawn with the means for parameters; −1 elsewhere."""
    rng = np.random.default_rng(seed)
    bounds = bounds_above_means(state)
    utility = rng.normal(size=bounds.shape[:2])
    level = (utility[..., None] > bounds).sum(axis=-1)
    return np.where(rng.random(level.shape) < density, level, -1)


def true_state(n_rows=300, n_columns=120, *, seed=0):
    """Two factors, of which the second is smaller; biases and gaps of one's own."""
    rng = np.random.default_rng(seed)
    rows = posterior(rng, n_rows, 2, (max(SCALES),), first=0.0)
    columns = posterior(rng, n_columns, 2, SCALES, first=-1.1)
    for one, bias in ((rows, 0.5), (columns, 0.7)):
        one.mean[:, 0] = bias * rng.normal(size=len(one.mean))
        one.mean[:, 1:] = rng.normal(size=(len(one.mean), 2)) * [1.1, 0.7]
        one.variance[:] = 0.0
    rows.cutpoints[:, 1:] = 0.3 * rng.normal(size=rows.cutpoints[:, 1:].shape)
    columns.cutpoints[:, 1:] = -0.4 + 0.2 * rng.normal(size=columns.cutpoints[:, 1:].shape)
    return GaussianState(rows, columns, prior_of(rows), prior_of(columns))


@pytest.fixture(scope="module")
def truth():
    return true_state()


@pytest.fixture(scope="module")
def levels(truth):
    """Of which every fifth is hidden from the learner."""
    dense = drawn(truth, 0.8, seed=1)
    hidden = np.random.default_rng(2).random(dense.shape) < 0.2
    return np.where(hidden, -1, dense), np.where(hidden, dense, -1)


@pytest.fixture(scope="module")
def learnt(truth, levels):
    """With twice as many factors as there are."""
    observations = Observations.from_dense(levels[0], truth.columns.n_levels)
    state = start(observations, 4, 0, Precisions())
    data = on_cpu(observations)
    for number in range(1, 31):
        state = epoch(data, state, number)
    return state


def held_out(levels):
    row, column = np.nonzero(levels[1] >= 0)
    return Cells(row, column, levels[1][row, column].astype(np.int8))


def test_held_out_answers_are_nearly_as_likely_as_under_the_truth(truth, levels, learnt):
    hidden = held_out(levels)
    n_levels = truth.columns.n_levels
    found = log_probability([GaussianModel.of_state(learnt)], hidden).mean()
    best = np.log(probabilities_of(truth)[hidden.row, hidden.column, hidden.level]).mean()
    observations = Observations.from_dense(levels[0], n_levels)
    nothing = start(observations, 0, 0, Precisions())
    marginal = log_probability([GaussianModel.of_state(nothing)], hidden).mean()
    assert found < best
    # A row's three numbers and its gaps were learnt from some eighty answers.
    assert best - found < 0.05
    assert marginal < best - 0.3


def test_predictions_are_calibrated(levels, learnt):
    """Says 0.7 of a level where it is right in 0.7 of the cases, variances included."""
    hidden = held_out(levels)
    probability = np.exp(log_probability([GaussianModel.of_state(learnt)], hidden))
    model = GaussianModel.of_state(learnt)
    expected = np.zeros(hidden.row.size)  # E log P under the model's own distribution
    for level in range(max(SCALES)):
        other = hidden._replace(level=np.full_like(hidden.level, level))
        fits = level < model.n_levels[hidden.column]
        chance = np.exp(log_probability([model], other))
        expected += np.where(fits, chance * np.log(chance), 0.0)
    assert abs(np.log(probability).mean() - expected.mean()) < 0.02
    assert utilities(model, hidden).deviation.mean() > 1.02


def test_biases_and_gaps_are_found_again(truth, learnt):
    for found, true in ((learnt.rows, truth.rows), (learnt.columns, truth.columns)):
        assert np.corrcoef(found.mean[:, 0], true.mean[:, 0])[0, 1] > 0.85
    means = cell_means(*truth[:2])
    found = -bounds_above_means(learnt)[..., 0] + bounds_above_means(truth)[..., 0] + means
    assert np.corrcoef(found.ravel(), means.ravel())[0, 1] > 0.95
    gaps = [state.columns.cutpoints[::4, 1:4].mean() for state in (learnt, truth)]
    assert gaps[0] == pytest.approx(gaps[1], abs=0.12)


def test_priors_are_found_again(truth, learnt):
    """And factors that nobody needs fade away."""
    for prior, bias in ((learnt.row_prior, 0.5), (learnt.column_prior, 0.7)):
        assert 1.0 / np.sqrt(prior.precision[0]) == pytest.approx(bias, rel=0.25)
    products = np.sqrt(np.linalg.eigvals(second_moment(truth.rows) @ second_moment(truth.columns)).real)
    sizes = 1.0 / np.sqrt(learnt.row_prior.precision[1:] * learnt.column_prior.precision[1:])
    np.testing.assert_allclose(sizes[:2], np.sort(products)[::-1], rtol=0.25)
    assert (sizes[2:] < 0.15 * sizes[1]).all()
    row_gaps = 1.0 / np.sqrt(learnt.row_prior.cutpoints_precision[1:3])
    np.testing.assert_allclose(row_gaps, 0.3, atol=0.12)


def test_after_an_epoch_rows_and_columns_are_in_the_same_axes(learnt):
    one, other = second_moment(learnt.rows), second_moment(learnt.columns)
    sizes = np.diag(one)
    np.testing.assert_allclose(np.diag(other), sizes, rtol=1e-3, atol=1e-6)
    assert (np.diff(sizes) <= 1e-6).all()
    for moment in (one, other):
        between = np.abs(moment - np.diag(np.diag(moment))) / np.sqrt(np.outer(sizes, sizes))
        assert between.max() < 0.02


# ---- priors -------------------------------------------------------------------------------------


def test_the_learnt_precision_is_the_most_likely():
    """Of all that is expected and one more of square 0.1; variances count 1.1 times."""
    rng = np.random.default_rng(0)
    mean = rng.normal(0.1, [0.3, 1.0, 2.0], (40, 3)).astype(np.float32)
    variance = rng.uniform(0.0, 0.5, (40, 3)).astype(np.float32)
    old = np.array([1.0, np.inf, 1.0], dtype=np.float32)
    posterior = FactorPosterior(mean, variance, np.zeros((40, 1)), np.zeros((40, 1)), np.full(40, 2))
    prior = Prior(old, np.zeros((40, 1)), np.ones(1))
    found = variational._learnt(prior, CPU_ENGINE.moments(posterior), is_weak=False).precision
    assert found[1] == np.inf  # what is fixed stays so
    weak = variational._learnt(prior, CPU_ENGINE.moments(posterior), is_weak=True).precision
    assert weak.tolist() == [found[0], *old[1:]]  # that of the bias alone
    for a in (0, 2):
        squares = np.append(mean[:, a] ** 2 + 1.1 * variance[:, a], 0.1)

        def loss(log_precision, squares=squares):
            return np.sum(np.exp(log_precision) * squares - log_precision)

        best = minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-8})
        assert found[a] == pytest.approx(np.exp(best.x), rel=1e-4)


def test_the_precision_of_gaps_counts_what_is_not_known_of_them():
    """Only of those that are free, around the common cutpoints."""
    state = random_state(seed=6)
    away = 0.2 * np.random.default_rng(1).normal(size=state.rows.cutpoints.shape)
    state.row_prior.cutpoints[:] = state.rows.cutpoints - away
    doubt = np.full_like(state.rows.cutpoints, 0.05)
    data = seen_by(engine_with(lambda *_, **__: doubt))
    how = variational._Epoch(is_weak=False, moves_gaps=True, is_point=False)
    found = variational._half(data.rows, data.columns, state, how).row_prior
    n = len(away)
    truth = (n + 1) / (np.sum(away**2 + 0.05, axis=0) + 0.1)
    np.testing.assert_allclose(found.cutpoints_precision, truth)


# ---- as a model ---------------------------------------------------------------------------------


def test_there_are_as_many_factors_as_the_ratings_can_tell():
    """One for every two ratings that a row or column has on average, but two at least."""
    for n_rows, n_columns, n_found in ((40, 40, 10), (8, 6, 2), (3, 200, 2)):
        observations = Observations.from_dense(np.zeros((n_rows, n_columns), int), 5)
        assert max_identifiable_factors(observations) == n_found
        state = start(observations, n_found, 0, Precisions())
        assert state.rows.mean.shape == (n_rows, 1 + n_found)
        assert state.columns.mean.shape == (n_columns, 1 + n_found)


def test_the_model_has_the_same_cells():
    state = random_state(5, seed=7)
    model = GaussianModel.of_state(state)
    row, column = np.divmod(np.arange(30 * 16), 16)
    for level in range(max(SCALES)):
        fits = level < model.n_levels[column]
        cells = Cells(row[fits], column[fits], np.full(fits.sum(), level, np.int8))
        found, at = utilities(model, cells), (cells.row, cells.column)
        np.testing.assert_allclose(found.base, cell_means(*state[:2])[at], atol=1e-5)
        assert not found.by_rows.any()
        assert not found.by_columns.any()
        variance = found.deviation**2 - 1.0
        np.testing.assert_allclose(variance, cell_variances(*state[:2])[at], rtol=1e-5)
        above = bounds_above_means(state)
        high = above[(*at, np.minimum(level, 5))] + found.base
        last = level == model.n_levels[cells.column] - 1
        low, upper = bounds(model, cells)
        np.testing.assert_allclose(upper, np.where(last, np.inf, high), atol=1e-5)
        lower = above[(*at, max(level - 1, 0))] + found.base
        np.testing.assert_allclose(low, lower if level else -np.inf, atol=1e-5)


def test_mean_and_deviation_of_a_cell_against_draws():
    state = random_state(4, seed=2)
    rng, n = np.random.default_rng(0), 200_000
    p, q = (
        rng.normal(side.mean[at], np.sqrt(side.variance[at]), (n, 5))
        for side, at in ((state.rows, 4), (state.columns, 7))
    )
    draws = p[:, 0] + q[:, 0] + (p[:, 1:] * q[:, 1:]).sum(axis=1)
    cell = Cells(np.array([4]), np.array([7]), np.zeros(1, np.int8))
    found = utilities(GaussianModel.of_state(state), cell)
    assert found.base[0] == pytest.approx(draws.mean(), abs=5 * draws.std() / n**0.5)
    assert found.deviation[0] ** 2 - 1.0 == pytest.approx(draws.var(), rel=0.03)


def test_the_model_with_roles_swapped_has_the_same_cells():
    """With one scale for all columns, and a first threshold at zero, either may be the rows."""
    state = random_state(3, seed=8)
    state.columns.cutpoints[:, 0] = 0.0
    same = np.full_like(state.columns.n_levels, max(SCALES))
    state = state._replace(columns=state.columns._replace(n_levels=same))
    model = GaussianModel.of_state(state)
    row, column = np.divmod(np.arange(30 * 16), 16)
    nothing = np.zeros(row.size, np.int8)
    found = probabilities([model], Cells(row, column, nothing))
    of_swapped = probabilities([swapped(model)], Cells(column, row, nothing))
    np.testing.assert_allclose(of_swapped, found, atol=1e-7)

"""Continuous factors of a matrix: what may not change a prediction, priors, recovery of truth."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine import half_sweep
from ordinalrbm.engine.gaussian_state import FactorPosterior, Prior
from ordinalrbm.engine.half_sweep import gaps_of, moments, rotate
from ordinalrbm.matrix import gaussian
from ordinalrbm.matrix.gaussian import (
    Data,
    GaussianState,
    View,
    dealt,
    epoch,
    on_cpu,
    start,
    to_matrix,
)
from ordinalrbm.matrix.predict import log_probability, parts_of

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


def random_parties(n_factors=4, *, seed=0, n_rows=30, n_columns=16):
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


def bounds_above_means(parties):
    """(rows, columns, L − 1) thresholds less the cell's mean; none beyond a column's own."""
    rows, columns = parties[:2]
    cutpoints = rows.cutpoints[:, None] + columns.cutpoints
    cutpoints[..., 1:] = np.exp(cutpoints[..., 1:])
    bounds = np.cumsum(cutpoints, axis=-1) - cell_means(rows, columns)[..., None]
    beyond = np.arange(bounds.shape[-1]) >= columns.n_levels[:, None] - 1
    return np.where(beyond, np.inf, bounds)


def probabilities_of(parties):
    """(rows, columns, L) with points for parameters."""
    bounds = bounds_above_means(parties)
    below = np.concatenate([np.zeros((*bounds.shape[:2], 1)), ndtr(bounds)], axis=-1)
    return np.diff(below, axis=-1, append=1.0)


def second_moment(posterior):
    factors = posterior.mean[:, 1:].astype(np.float64)
    return (factors.T @ factors + np.diag(posterior.variance[:, 1:].sum(axis=0))) / len(factors)


def renewing(half_sweep):
    """The engine with another renewal."""
    return SimpleNamespace(**{**vars(half_sweep), "half_sweep": half_sweep})


def seen_by(engine):
    """Data that no renewal looks at."""
    return Data(View(None, engine), View(None, engine), np.unique(SCALES))


# ---- what may not change predictions ------------------------------------------------------------


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("n_factors", [1, 2, 6])
def test_turning_leaves_the_cells_alone(n_factors, centred):
    rows, columns = random_parties(n_factors, seed=n_factors)[:2]
    before = cell_means(rows, columns)
    rotation, other_rotation = gaussian._rotations(moments(rows), moments(columns), centred)
    after, columns = rotate(rows, rotation), rotate(columns, other_rotation)
    np.testing.assert_allclose(cell_means(after, columns), before, atol=3e-5)
    if centred:
        np.testing.assert_allclose(after.mean[:, 1:].mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(after.mean[:, 0], rows.mean[:, 0], atol=1e-6)


@pytest.mark.parametrize("centred", [True, False])
def test_sums_turn_like_the_party(centred):
    parties = random_parties(3, seed=9)[:2]
    rotations = gaussian._rotations(*map(moments, parties), centred)
    for posterior, rotation in zip(parties, rotations, strict=True):
        found, truth = moments(posterior).rotate(rotation), moments(rotate(posterior, rotation))
        assert found.n == truth.n
        for one, other in zip(found[1:], truth[1:], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("n_factors", [1, 3, 8])
def test_in_the_axes_both_second_moments_are_the_same_diagonal(n_factors):
    one, other = (second_moment(posterior) for posterior in random_parties(n_factors, seed=3)[:2])
    forward, backward = gaussian._axes(one, other)
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
        forward, backward = gaussian._axes(one, other)
        assert np.isfinite(forward).all()
        assert np.isfinite(backward).all()
        np.testing.assert_allclose(forward @ backward.T, np.eye(5), atol=1e-6)


def test_common_steps_leave_the_cells_alone():
    parties = random_parties(seed=4)
    before = bounds_above_means(parties)
    parties = gaussian._with_common_cutpoints(seen_by(half_sweep), parties)
    np.testing.assert_allclose(bounds_above_means(parties), before, atol=2e-5)
    rows, columns, _, column_prior = parties
    # What all rows share is the columns', and what all columns of a scale share is in the steps.
    np.testing.assert_allclose(rows.cutpoints.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(rows.mean[:, 0].mean(), 0.0, atol=1e-6)
    for n_levels in SCALES:
        alike = columns.n_levels == n_levels
        np.testing.assert_allclose(columns.mean[alike, 0].mean(), 0.0, atol=1e-6)
        common = np.tile(columns.cutpoints[alike].mean(axis=0), (alike.sum(), 1))
        np.testing.assert_allclose(column_prior.cutpoints[alike], common)
    for posterior in (rows, columns):
        np.testing.assert_array_equal(posterior.gaps, gaps_of(posterior.cutpoints))


@pytest.mark.parametrize("rows_differ", [True, False])
def test_an_epoch_only_renews(rows_differ):
    """When nobody is renewed, an epoch changes no prediction."""
    data = seen_by(renewing(lambda _, this, *__: np.zeros_like(this.cutpoints)))
    parties = random_parties(seed=5)
    if not rows_differ:
        parties.rows.mean[:, 0] = 0.0
        parties.rows.cutpoints[:] = 0.0
        parties.row_prior.precision[0] = np.inf
        parties.row_prior.cutpoints_precision[:] = np.inf
    before = bounds_above_means(parties)
    for number in (1, 2, 3):
        parties = epoch(data, parties, number)
    np.testing.assert_allclose(bounds_above_means(parties), before, atol=1e-4)
    if not rows_differ:
        np.testing.assert_array_equal(parties.rows.mean[:, 0], 0.0)
        np.testing.assert_array_equal(parties.rows.cutpoints, 0.0)


# ---- simulated from the model -------------------------------------------------------------------


def drawn(parties, density, seed):
    """Levels of some cells, drawn with the means for parameters; −1 elsewhere."""
    rng = np.random.default_rng(seed)
    bounds = bounds_above_means(parties)
    utility = rng.normal(size=bounds.shape[:2])
    level = (utility[..., None] > bounds).sum(axis=-1)
    return np.where(rng.random(level.shape) < density, level, -1)


def true_parties(n_rows=300, n_columns=120, *, seed=0):
    """Two factors, of which the second is smaller; biases and widths of one's own."""
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
    return true_parties()


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
    parties = start(observations, 4, True, seed=0)
    data = on_cpu(observations)
    for number in range(1, 31):
        parties = epoch(data, parties, number)
    return parties


def held_out(levels):
    row, column = np.nonzero(levels[1] >= 0)
    return Cells(row, column, levels[1][row, column].astype(np.int8))


def test_held_out_answers_are_nearly_as_likely_as_under_the_truth(truth, levels, learnt):
    hidden = held_out(levels)
    n_levels = truth.columns.n_levels
    found = log_probability([to_matrix(learnt, 2, 2)], hidden).mean()
    best = np.log(probabilities_of(truth)[hidden.row, hidden.column, hidden.level]).mean()
    observations = Observations.from_dense(levels[0], n_levels)
    nothing = start(observations, 0, True, seed=0)
    marginal = log_probability([to_matrix(nothing, 0, 0)], hidden).mean()
    assert found < best
    # A row's three numbers and its widths were learnt from some eighty answers.
    assert best - found < 0.05
    assert marginal < best - 0.3


def test_predictions_are_calibrated(levels, learnt):
    """Says 0.7 of a level where it is right in 0.7 of the cases, variances included."""
    hidden = held_out(levels)
    probability = np.exp(log_probability([to_matrix(learnt, 2, 2)], hidden))
    model = to_matrix(learnt, 2, 2)
    parts = parts_of(model, hidden)
    expected = np.zeros(hidden.row.size)  # E log P under the model's own distribution
    for level in range(max(SCALES)):
        other = hidden._replace(level=np.full_like(hidden.level, level))
        fits = level < model.n_levels[hidden.column]
        chance = np.exp(log_probability([model], other))
        expected += np.where(fits, chance * np.log(chance), 0.0)
    assert abs(np.log(probability).mean() - expected.mean()) < 0.02
    assert parts.deviation.mean() > 1.02


def test_biases_and_widths_are_found_again(truth, learnt):
    for found, true in ((learnt.rows, truth.rows), (learnt.columns, truth.columns)):
        assert np.corrcoef(found.mean[:, 0], true.mean[:, 0])[0, 1] > 0.85
    means = cell_means(*truth[:2])
    found = -bounds_above_means(learnt)[..., 0] + bounds_above_means(truth)[..., 0] + means
    assert np.corrcoef(found.ravel(), means.ravel())[0, 1] > 0.95
    gaps = [parties.columns.cutpoints[::4, 1:4].mean() for parties in (learnt, truth)]
    assert gaps[0] == pytest.approx(gaps[1], abs=0.12)


def test_priors_are_found_again(truth, learnt):
    """And factors that nobody needs fade away."""
    for prior, bias in ((learnt.row_prior, 0.5), (learnt.column_prior, 0.7)):
        assert 1.0 / np.sqrt(prior.precision[0]) == pytest.approx(bias, rel=0.25)
    products = np.sqrt(
        np.linalg.eigvals(second_moment(truth.rows) @ second_moment(truth.columns)).real
    )
    sizes = 1.0 / np.sqrt(learnt.row_prior.precision[1:] * learnt.column_prior.precision[1:])
    np.testing.assert_allclose(sizes[:2], np.sort(products)[::-1], rtol=0.25)
    assert (sizes[2:] < 0.15 * sizes[1]).all()
    row_gaps = 1.0 / np.sqrt(learnt.row_prior.cutpoints_precision[1:3])
    np.testing.assert_allclose(row_gaps, 0.3, atol=0.12)


def test_after_an_epoch_both_parties_are_in_the_same_axes(learnt):
    one, other = second_moment(learnt.rows), second_moment(learnt.columns)
    sizes = np.diag(one)
    np.testing.assert_allclose(np.diag(other), sizes, rtol=1e-3, atol=1e-6)
    assert (np.diff(sizes) <= 1e-6).all()
    for moment in (one, other):
        between = np.abs(moment - np.diag(np.diag(moment))) / np.sqrt(np.outer(sizes, sizes))
        assert between.max() < 0.02


def test_the_seed_decides_the_start(truth, levels):
    observations = Observations.from_dense(levels[0], truth.columns.n_levels)
    one, same, other = (start(observations, 3, True, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.columns.mean, same.columns.mean)
    assert (one.columns.mean[:, 1:] != other.columns.mean[:, 1:]).any()


def test_a_copy_has_arrays_of_its_own(truth):
    copied = truth.copy()
    for one, other in zip(truth, copied, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
            assert not np.shares_memory(a, b)


# ---- priors -------------------------------------------------------------------------------------


def test_the_learnt_precision_is_the_most_likely():
    """Of all that is expected and one more of square 0.1; variances count 1.1 times."""
    rng = np.random.default_rng(0)
    mean = rng.normal(0.1, [0.3, 1.0, 2.0], (40, 3)).astype(np.float32)
    variance = rng.uniform(0.0, 0.5, (40, 3)).astype(np.float32)
    old = np.array([1.0, np.inf, 1.0], dtype=np.float32)
    posterior = FactorPosterior(
        mean, variance, np.zeros((40, 1)), np.zeros((40, 1)), np.full(40, 2)
    )
    found = gaussian._learnt(old, moments(posterior), weak=False)
    assert found[1] == np.inf  # what is fixed stays so
    weak = gaussian._learnt(old, moments(posterior), weak=True)
    assert weak.tolist() == [found[0], *old[1:]]  # that of the bias alone
    for a in (0, 2):
        squares = np.append(mean[:, a] ** 2 + 1.1 * variance[:, a], 0.1)

        def loss(log_precision, squares=squares):
            return np.sum(np.exp(log_precision) * squares - log_precision)

        best = minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-8})
        assert found[a] == pytest.approx(np.exp(best.x), rel=1e-4)


def test_the_precision_of_widths_counts_what_is_not_known_of_them():
    """Only of those that are free, around the common steps."""
    parties = random_parties(seed=6)
    away = 0.2 * np.random.default_rng(1).normal(size=parties.rows.cutpoints.shape)
    parties.row_prior.cutpoints[:] = parties.rows.cutpoints - away
    doubt = np.full_like(parties.rows.cutpoints, 0.05)
    data = seen_by(renewing(lambda *_: doubt))
    how = gaussian._How(weak=False, gaps=True)
    found = gaussian._half(data.rows, data.columns, tuple(parties), how)[2]
    n = len(away)
    truth = (n + 1) / (np.sum(away**2 + 0.05, axis=0) + 0.1)
    np.testing.assert_allclose(found.cutpoints_precision, truth)


# ---- as a matrix model --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "most_first", "most_second", "first"),
    [
        (6, 3, 3, [0, 2, 4]),
        (5, 4, 1, [0, 2, 3, 4]),
        (4, 1, 3, [0]),
        (2, 2, 0, [0, 1]),
        (2, 0, 2, []),
        (0, 0, 0, []),
        (3, 50, 50, [0, 2]),
        (3, 50, 1, [0, 2]),
        (3, 9, 0, [0, 1, 2]),
    ],
)
def test_dealt(n, most_first, most_second, first):
    found, others = dealt(n, most_first, most_second)
    assert found.tolist() == first
    assert sorted([*found, *others]) == list(range(n))
    assert len(found) <= most_first
    assert len(others) <= most_second


def test_factors_that_the_ratings_cannot_tell_are_zero():
    parties = random_parties(5, seed=7)
    few, many = to_matrix(parties, 3, 2), to_matrix(parties, 8, 6)
    row, column = np.divmod(np.arange(30 * 16), 16)
    pairs = Cells(row, column, np.zeros(row.size, dtype=np.int8))
    for one, other in zip(parts_of(few, pairs), parts_of(many, pairs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert (many.by_rows.n_factors, many.by_columns.n_factors) == (8, 6)
    for half, used in zip(many[:2], (3, 2), strict=True):
        for array in (half.weights, half.factors, half.weights_variance, half.factors_variance):
            np.testing.assert_array_equal(array[:, used:], 0.0)


def test_there_are_as_many_factors_as_the_ratings_can_tell():
    """One for every two ratings that a row or column has on average, but two at least."""
    for n_rows, n_columns, n_found in ((40, 40, 10), (8, 6, 2), (3, 200, 2)):
        observations = Observations.from_dense(np.zeros((n_rows, n_columns), int), 5)
        parties = start(observations, 50, True, seed=0)
        assert parties.rows.mean.shape == (n_rows, 1 + n_found)
        assert start(observations, 1, True, seed=0).columns.mean.shape == (n_columns, 2)


@pytest.mark.parametrize("n_row_factors", [0, 1, 3, 5])
def test_the_matrix_model_has_the_same_cells(n_row_factors):
    parties = random_parties(5, seed=7)
    model = to_matrix(parties, n_row_factors, 5 - n_row_factors)
    assert model.is_continuous
    assert model.by_rows.n_factors == n_row_factors
    row, column = np.divmod(np.arange(30 * 16), 16)
    for level in range(max(SCALES)):
        fits = level < model.n_levels[column]
        pairs = Cells(row[fits], column[fits], np.full(fits.sum(), level, np.int8))
        parts = parts_of(model, pairs)
        at = pairs.row, pairs.column
        means = parts.base + parts.by_rows + parts.by_columns
        np.testing.assert_allclose(means, cell_means(*parties[:2])[at], atol=1e-5)
        variance = parts.deviation**2 - 1.0
        np.testing.assert_allclose(variance, cell_variances(*parties[:2])[at], rtol=1e-5)
        high = bounds_above_means(parties)[(*at, np.minimum(level, 5))] + means
        last = level == model.n_levels[pairs.column] - 1
        np.testing.assert_allclose(parts.high, np.where(last, np.inf, high), atol=1e-5)
    for half in model[:2]:
        size = np.mean(half.factors**2 + half.factors_variance, axis=0)
        np.testing.assert_allclose(size, 1.0, rtol=1e-5)


def test_the_matrix_model_has_arrays_of_its_own():
    parties = random_parties(seed=8)
    model = to_matrix(parties, 2, 2)
    for half in model[:2]:
        for array in half:
            for posterior in parties[:2]:
                assert not any(np.shares_memory(array, part) for part in posterior)


def test_the_matrix_model_lies_row_by_row():
    """Kernels go along a row's factors, and are compiled anew for every other order."""
    for half in to_matrix(random_parties(6), 3, 3)[:2]:
        assert all(array.flags.c_contiguous for array in half)


def test_the_facing_party_is_the_one_of_the_matrix():
    """What new rows see of the columns gives the same cells as the model itself."""
    parties = random_parties(5, seed=9)
    model = to_matrix(parties, 3, 2)
    own, other = model[:2]
    columns = gaussian.facing(own, other, model.n_levels)
    mean = np.hstack([other.bias[:, None], own.factors, other.weights])
    variance = np.hstack([other.bias_variance[:, None], own.factors_variance])
    variance = np.hstack([variance, other.weights_variance])
    rows = parties.rows._replace(mean=mean, variance=variance)
    np.testing.assert_allclose(cell_means(rows, columns), cell_means(*parties[:2]), atol=1e-5)
    np.testing.assert_allclose(
        cell_variances(rows, columns), cell_variances(*parties[:2]), rtol=1e-5
    )


# ---- odd tables ---------------------------------------------------------------------------------


def after_epochs(dense, n_levels, n_factors=2, *, rows_differ=True, n=5):
    observations = Observations.from_dense(np.asarray(dense), np.asarray(n_levels))
    parties = start(observations, n_factors, rows_differ, seed=0)
    data = on_cpu(observations)
    for number in range(1, n + 1):
        parties = epoch(data, parties, number)
    for part in (*parties.rows, *parties.columns):
        assert np.isfinite(part).all()
    return parties


def all_log_probabilities(parties, dense):
    row, column = np.nonzero(np.asarray(dense) >= 0)
    level = np.asarray(dense)[row, column].astype(np.int8)
    return log_probability(
        [to_matrix(parties, 1, parties.rows.mean.shape[1] - 2)], Cells(row, column, level)
    )


def test_one_row_and_one_column():
    line = np.array([[0, 3, 1, 4, 4, 2]])
    for dense, n_levels in ((line, [5] * 6), (line.T, [5]), (line[:, :1], [5])):
        parties = after_epochs(dense, n_levels)
        assert np.isfinite(all_log_probabilities(parties, dense)).all()


def test_a_table_without_an_answer():
    parties = after_epochs(np.full((3, 4), -1), [2, 3, 5, 7])
    np.testing.assert_array_equal(parties.rows.mean[:, 0], 0.0)


def test_a_level_that_everyone_chooses_becomes_likely():
    dense = np.zeros((30, 6), dtype=int)
    for level in (0, 2, 4):
        parties = after_epochs(dense + level, [5] * 6, n=10)
        assert all_log_probabilities(parties, dense + level).mean() > np.log(0.9)


def test_scales_of_one_level_say_nothing():
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 3, (20, 4))
    with_dull = np.hstack([dense, np.zeros((20, 1), dtype=int)])
    parties = after_epochs(with_dull, [3, 3, 3, 3, 1])
    row = np.arange(20)
    dull = Cells(row, np.full(20, 4), np.zeros(20, dtype=np.int8))
    np.testing.assert_allclose(
        log_probability([to_matrix(parties, 1, parties.rows.mean.shape[1] - 2)], dull),
        0.0,
        atol=1e-12,
    )
    only = after_epochs(np.zeros((5, 2), dtype=int), [1, 1])
    np.testing.assert_allclose(all_log_probabilities(only, np.zeros((5, 2), dtype=int)), 0.0)


def test_no_factor_leaves_biases_and_widths():
    rng = np.random.default_rng(1)
    mild = np.repeat([0, 1], 20)
    dense = np.searchsorted([-1.0, 0.2, 0.8, 1.5], mild[:, None] + rng.normal(size=(40, 12)))
    parties = after_epochs(dense, [5] * 12, n_factors=0)
    assert parties.rows.mean.shape == (40, 1)
    of_groups = [parties.rows.mean[mild == group].mean() for group in (0, 1)]
    assert of_groups[1] - of_groups[0] == pytest.approx(1.0, abs=0.3)
    model = to_matrix(parties, 0, 0)
    assert model.by_rows.n_factors == model.by_columns.n_factors == 0


def test_rows_that_do_not_differ_have_only_factors():
    rng = np.random.default_rng(2)
    dense = rng.integers(0, 5, (40, 8))
    parties = after_epochs(dense, [5] * 8, rows_differ=False)
    np.testing.assert_array_equal(parties.rows.mean[:, 0], 0.0)
    np.testing.assert_array_equal(parties.rows.variance[:, 0], 0.0)
    np.testing.assert_array_equal(parties.rows.cutpoints, 0.0)
    assert np.abs(parties.rows.mean[:, 1:]).max() > 0.01


@pytest.mark.parametrize("n_levels", [2, 11, 100])
def test_long_scales_with_levels_that_nobody_chose(n_levels):
    rng = np.random.default_rng(3)
    taste, kind = rng.normal(size=(60, 1)), rng.normal(size=(1, 20))
    utility = taste @ kind + 0.5 * rng.normal(size=(60, 20))
    dense = np.clip(n_levels * ndtr(utility), 0, n_levels - 1).astype(int)
    dense[rng.random(dense.shape) < 0.2] = -1
    parties = after_epochs(dense, [n_levels] * 20, n=10)
    found = all_log_probabilities(parties, dense)
    shares = np.bincount(dense[dense >= 0], minlength=n_levels) / (dense >= 0).sum()
    assert found.mean() > np.log(shares[dense[dense >= 0]]).mean() + 0.1


def test_more_factors_than_rows_and_columns():
    rng = np.random.default_rng(4)
    dense = rng.integers(0, 3, (4, 3))
    parties = after_epochs(dense, [3] * 3, n_factors=12, n=8)
    assert np.isfinite(all_log_probabilities(parties, dense)).all()

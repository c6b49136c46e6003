"""The last touch: its slope, its optimum, and what it makes of ratings whose truth is known."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix import calibration
from ordinalrbm.matrix.calibration import Judge, calibrated
from ordinalrbm.matrix.feature_priors import FactorPrior
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.predict import bounds, probabilities, utilities
from ordinalrbm.matrix.variational import posterior_of

N_ROWS, N_COLUMNS, SCALES = 120, 80, (5, 3, 2)
FACTORS = ("gaussian", "binary")
MANY = 20_000


def some_cutpoints(rng, n, first):
    cutpoints = rng.normal(-0.2, 0.2, (n, max(SCALES) - 1))
    cutpoints[:, 0] = first
    return cutpoints


def half(rng, n_columns, n_rows, n_factors, first):
    return Half(
        rng.normal(0.1, 1.6, (n_columns, n_factors)).astype(np.float32),
        rng.normal(0.2, 0.4, n_columns).astype(np.float32),
        some_cutpoints(rng, n_columns, first),
        np.zeros(n_factors, np.float32),
        rng.random((n_rows, n_factors)).astype(np.float32),
    )


def posterior(rng, n, n_levels, first):
    mean = rng.normal(0.1, 0.6, (n, 5)).astype(np.float32)
    variance = rng.uniform(0.0, 0.1, mean.shape).astype(np.float32)
    return posterior_of(mean, variance, some_cutpoints(rng, n, first), n_levels)


def random_model(factors, *, n_column_factors=3, seed=0):
    rng = np.random.default_rng(seed)
    n_levels = np.resize(SCALES, N_COLUMNS).astype(np.int32)
    if factors == "gaussian":
        rows = posterior(rng, N_ROWS, np.full(N_ROWS, max(SCALES)), 0.0)
        prior = FactorPrior(np.ones(5, np.float32), np.ones(max(SCALES) - 1))
        return GaussianModel(rows, posterior(rng, N_COLUMNS, n_levels, -1.2), prior, prior)
    by_rows = half(rng, N_COLUMNS, N_ROWS, 4, first=-1.2)
    by_columns = half(rng, N_ROWS, N_COLUMNS, n_column_factors, first=0.0)
    if not n_column_factors:
        by_columns.bias[:], by_columns.cutpoints[:] = 0.0, 0.0
    return MatrixModel(by_rows, by_columns, n_levels)


def biases(model):
    """Of columns and of rows."""
    if isinstance(model, GaussianModel):
        return [model.columns.mean[:, 0], model.rows.mean[:, 0]]
    return [model.by_rows.bias, model.by_columns.bias]


def with_biases(model, of_columns, of_rows):
    of_columns, of_rows = of_columns.astype(np.float32), of_rows.astype(np.float32)
    if isinstance(model, GaussianModel):
        sides = []
        for side, bias in ((model.rows, of_rows), (model.columns, of_columns)):
            mean = side.mean.copy()
            mean[:, 0] = bias
            sides.append(side._replace(mean=mean))
        return model._replace(rows=sides[0], columns=sides[1])
    own, other = model.by_rows, model.by_columns
    return model._replace(by_rows=own._replace(bias=of_columns), by_columns=other._replace(bias=of_rows))


def gains(model):
    """Both gains of binary factors, and the spread."""
    return [1.0, 1.0, model.spread] if isinstance(model, GaussianModel) else model.gains


def with_gains(model, *found):
    if isinstance(model, GaussianModel):
        return model._replace(spread=found[2])
    return model._replace(gains=np.array(found))


def counted(seed=1):
    """Answers of which only the numbers matter: few of some rows and columns, many of others."""
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0.05, 1.0, (N_ROWS, 1)) ** 2 * rng.uniform(0.05, 1.0, N_COLUMNS) ** 2
    dense = np.where(rng.random((N_ROWS, N_COLUMNS)) < chance, 0, -1)
    return Observations.from_dense(dense, np.resize(SCALES, N_COLUMNS))


def rated(model, n=MANY, *, seed=2, cold=False):
    """Ratings drawn from a model; the same cell may come again."""
    rng = np.random.default_rng(seed)
    lowest = -1 if cold else 0
    row, column = rng.integers(lowest, N_ROWS, n), rng.integers(lowest, N_COLUMNS, n)
    pairs = Cells(row, column, np.zeros(n, dtype=np.int8))
    below = probabilities([model], pairs).cumsum(axis=1)
    level = (rng.random((n, 1)) > below[:, :-1]).sum(axis=1)
    return pairs._replace(level=level.astype(np.int8))


def judge_of(model, pairs):
    row, column = calibration.log_counts(counted())
    known = np.append(row, 0.0)[pairs.row], np.append(column, 0.0)[pairs.column]
    return Judge(utilities(model, pairs), bounds(model, pairs), np.stack(known))


# ---- parts, slope, optimum ----------------------------------------------------------------------


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("factors", FACTORS)
def test_the_parts_make_the_probabilities(factors, cold):
    model = random_model(factors)
    for given in ([1.0, 1.0, 1.0], [1.3, 0.6, 1.7]):
        model = with_gains(model, *given)
        pairs = rated(model, 500, cold=cold)
        parts = utilities(model, pairs)
        mean = parts.base + given[0] * parts.by_rows + given[1] * parts.by_columns
        both = (np.stack(bounds(model, pairs)) - mean) / (given[2] * parts.deviation)
        truth = probabilities([model], pairs)[np.arange(500), pairs.level]
        np.testing.assert_allclose(np.diff(ndtr(both), axis=0)[0], truth, rtol=1e-6, atol=1e-9)
    assert (parts.deviation > 1.01).all() == (factors == "gaussian")


@pytest.mark.parametrize("factors", FACTORS)
def test_the_loss_is_minus_the_log_probability_and_the_priors(factors):
    model = random_model(factors)
    pairs = rated(model, 400)
    judge = judge_of(model, pairs)
    plain = probabilities([model], pairs)[np.arange(400), pairs.level]
    assert judge.loss(np.zeros(5))[0] == pytest.approx(-np.log(plain).mean(), rel=1e-7)
    found = np.array([0.2, -0.1, 0.15, 0.1, -0.2])
    changed = model.calibrated(found, counted())
    moved = probabilities([changed], pairs)[np.arange(400), pairs.level]
    priors = np.sum([100, 100, 100, 400, 400] * found**2) / 400
    assert judge.loss(found)[0] == pytest.approx(-np.log(moved).mean() + priors, rel=1e-6)


@pytest.mark.parametrize("factors", FACTORS)
def test_the_slope_of_the_loss(factors):
    model = random_model(factors)
    judge = judge_of(model, rated(model, 300, cold=True))
    rng = np.random.default_rng(3)
    for found in (np.zeros(5), *rng.normal(0.0, 0.4, (4, 5))):
        moves = 1e-6 * np.eye(5)
        truth = [(judge.loss(found + h)[0] - judge.loss(found - h)[0]) / 2e-6 for h in moves]
        np.testing.assert_allclose(judge.loss(found)[1], truth, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("free", [[0, 1, 2, 3, 4], [3, 4], [2, 4]])
def test_what_is_found_is_the_most_likely(free):
    """A search without slopes ends at the same place."""
    model = random_model("binary")
    pairs = rated(model._replace(gains=np.array([1.4, 0.7, 1.2])), 800)
    judge = judge_of(model, pairs)
    value, found = judge.best(free)
    fixed = np.setdiff1d(np.arange(5), free)
    np.testing.assert_array_equal(found[fixed], 0.0)
    assert value == pytest.approx(judge.loss(found)[0], rel=1e-12)

    def loss(values):
        every = np.zeros(5)
        every[free] = values
        return judge.loss(every)[0]

    options = {"xatol": 1e-4, "fatol": 1e-9, "maxiter": 4000}
    best = minimize(loss, np.zeros(len(free)), method="Nelder-Mead", options=options)
    np.testing.assert_allclose(found[free], best.x, atol=1e-3)
    assert value <= best.fun + 1e-8


# ---- truth that is known ------------------------------------------------------------------------


def shifted(model, by_row, by_column):
    """The model with biases that change with the logarithm of how much was rated."""
    answers = counted()
    of_columns, of_rows = biases(model)
    return with_biases(
        model,
        of_columns + by_column * around(np.diff(answers.column_view.column_start)),
        of_rows + by_row * around(np.diff(answers.row_start)),
    )


def around(counts):
    """Logarithms around their mean; zero for those who have not rated or been rated."""
    logs = np.log(np.maximum(counts, 1))
    return np.where(counts > 0, logs - logs.mean(), 0.0)


@pytest.mark.parametrize("factors", FACTORS)
def test_nothing_changes_without_need(factors):
    model = random_model(factors)
    (found,) = calibrated([model], counted(), rated(model))
    if factors == "gaussian":
        assert found.spread == 1.0
    np.testing.assert_allclose(gains(found), 1.0, atol=0.04)
    for one, other in zip(biases(found), biases(model), strict=True):
        np.testing.assert_allclose(one, other, atol=0.06)
    back, before = with_biases(found, *biases(model)).to_arrays(), model.to_arrays()
    for name in set(before) - {"gains"}:
        np.testing.assert_array_equal(back[name], before[name], err_msg=name)


@pytest.mark.parametrize("factors", FACTORS)
def test_shifts_with_activity_are_found_again(factors):
    model = random_model(factors)
    truth = shifted(model, -0.25, 0.35)
    # Twice as many: the priors of shifts weigh as much as four times those of gains.
    (found,) = calibrated([model], counted(), rated(truth, 2 * MANY))
    for one, true, before in zip(*map(biases, (found, truth, model)), strict=True):
        away = (true - before).astype(np.float64)
        slope = (one - before) @ away / (away @ away)
        assert slope == pytest.approx(1.0, abs=0.12)
        np.testing.assert_allclose(one - before, slope * away, atol=1e-5)
    np.testing.assert_allclose(gains(found), 1.0, atol=0.05)


def test_a_wider_spread_is_found_again():
    model = random_model("gaussian")
    (found,) = calibrated([model], counted(), rated(model._replace(spread=1.4)))
    assert found.spread == pytest.approx(1.4, abs=0.05)


def test_gains_of_binary_factors_are_found_again():
    model = random_model("binary")
    truth = model._replace(gains=np.array([1.4, 0.7, 1.2]))
    (found,) = calibrated([model], counted(), rated(truth))
    np.testing.assert_allclose(found.gains, truth.gains, atol=0.08)


@pytest.mark.parametrize("factors", FACTORS)
def test_ratings_are_at_least_as_likely_as_before(factors):
    model = random_model(factors)
    pairs = rated(random_model(factors, seed=5), 2000, cold=True)  # of quite another model
    (found,) = calibrated([model], counted(), pairs)
    before, after = (
        np.log(probabilities([one], pairs)[np.arange(2000), pairs.level]).mean() for one in (model, found)
    )
    assert after > before


def test_a_few_ratings_change_little():
    model = random_model("binary")
    truth = shifted(model, -2.0, 2.0)._replace(gains=np.array([3.0, 3.0, 3.0]))
    (found,) = calibrated([model], counted(), rated(truth, 5))
    np.testing.assert_allclose(found.gains, 1.0, atol=0.15)
    assert np.abs(found.by_rows.bias - model.by_rows.bias).max() < 0.1


def test_no_rating_changes_nothing():
    model = random_model("gaussian")
    nothing = Cells(*(np.zeros(0, dtype=kind) for kind in (np.int64, np.int64, np.int8)))
    (found,) = calibrated([model], counted(), nothing)
    assert found is model


def test_rows_that_do_not_differ_stay_alike():
    model = random_model("binary", n_column_factors=0)
    (found,) = calibrated([model], counted(), rated(shifted(model, 0.4, 0.4)))
    np.testing.assert_array_equal(found.by_columns.bias, 0.0)
    assert np.abs(found.by_rows.bias - model.by_rows.bias).max() > 0.1


@pytest.mark.parametrize("factors", FACTORS)
def test_all_models_are_changed_by_what_the_last_one_needs(factors):
    first, last = random_model(factors, seed=7), random_model(factors)
    truth = with_gains(shifted(last, -0.3, 0.0), 1.4, 0.7, 1.2)
    pairs = rated(truth, 5000)
    one, other = calibrated([first, last], counted(), pairs)
    (alone,) = calibrated([last], counted(), pairs)
    np.testing.assert_array_equal(gains(other), gains(alone))
    np.testing.assert_array_equal(gains(one), gains(alone))
    of_first, of_last = (
        biases(after)[1] - biases(before)[1] for after, before in ((one, first), (other, last))
    )
    np.testing.assert_allclose(of_first, of_last, atol=1e-6)

"""The last touch: its slope, its optimum, and what it makes of ratings whose truth is known."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix import calibration
from ordinalrbm.matrix.calibration import _Judge, calibrated
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.predict import parts_of, probabilities

N_ROWS, N_COLUMNS, SCALES = 120, 80, (5, 3, 2)
FACTORS = ("continuous", "binary")
MANY = 20_000


def half(rng, n_columns, n_rows, n_factors, factors, first):
    binary = factors == "binary"
    cutpoints = rng.normal(-0.2, 0.2, (n_columns, max(SCALES) - 1))
    cutpoints[:, 0] = first
    shapes = (n_columns, n_factors), (n_columns,), (n_rows, n_factors)
    doubts = [rng.uniform(0.0, 0.1, shape).astype(np.float32) for shape in shapes]
    return Half(
        # Weights of binary factors are larger: factors are between zero and one.
        rng.normal(0.1, 1.6 if binary else 0.5, (n_columns, n_factors)).astype(np.float32),
        rng.normal(0.2, 0.4, n_columns).astype(np.float32),
        cutpoints,
        np.zeros(n_factors, np.float32),
        (rng.random if binary else rng.standard_normal)((n_rows, n_factors)).astype(np.float32),
        *([] if binary else doubts),
    )


def random_model(factors, *, n_column_factors=3, seed=0):
    rng = np.random.default_rng(seed)
    by_rows = half(rng, N_COLUMNS, N_ROWS, 4, factors, first=-1.2)
    by_columns = half(rng, N_ROWS, N_COLUMNS, n_column_factors, factors, first=0.0)
    if not n_column_factors:
        by_columns.bias[:], by_columns.cutpoints[:] = 0.0, 0.0
    return MatrixModel(by_rows, by_columns, np.resize(SCALES, N_COLUMNS).astype(np.int32))


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
    row, column = calibration._log_counts(counted())
    known = np.append(row, 0.0)[pairs.row], np.append(column, 0.0)[pairs.column]
    return _Judge(parts_of(model, pairs), np.stack(known))


# ---- parts, slope, optimum ----------------------------------------------------------------------


@pytest.mark.parametrize("strangers", [False, True])
@pytest.mark.parametrize("factors", FACTORS)
def test_the_parts_make_the_probabilities(factors, cold):
    model = random_model(factors)
    for gains in ([1.0, 1.0, 1.0], [1.3, 0.6, 1.7]):
        model = model._replace(gains=np.array(gains))
        pairs = rated(model, 500, cold=cold)
        parts = parts_of(model, pairs)
        mean = parts.base + gains[0] * parts.by_rows + gains[1] * parts.by_columns
        bounds = (np.stack([parts.low, parts.high]) - mean) / (gains[2] * parts.deviation)
        truth = probabilities([model], pairs)[np.arange(500), pairs.level]
        np.testing.assert_allclose(np.diff(ndtr(bounds), axis=0)[0], truth, rtol=1e-6, atol=1e-9)
    assert (parts.deviation > 1.01).all() == (factors == "continuous")


@pytest.mark.parametrize("factors", FACTORS)
def test_the_loss_is_minus_the_log_probability_and_the_priors(factors):
    model = random_model(factors)
    pairs = rated(model, 400)
    judge = judge_of(model, pairs)
    plain = probabilities([model], pairs)[np.arange(400), pairs.level]
    assert judge.loss(np.zeros(5))[0] == pytest.approx(-np.log(plain).mean(), rel=1e-7)
    found = np.array([0.2, -0.1, 0.15, 0.1, -0.2])
    row, column = calibration._log_counts(counted())
    changed = calibration._changed(model, found, row, column)
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
    rows = np.log(np.maximum(np.diff(answers.row_start), 1))
    columns = np.log(np.maximum(np.diff(answers.column_view.column_start), 1))
    own, other = model.by_rows, model.by_columns
    shift = by_column * (columns - columns.mean()), by_row * (rows - rows.mean())
    return model._replace(
        by_rows=own._replace(bias=(own.bias + shift[0]).astype(np.float32)),
        by_columns=other._replace(bias=(other.bias + shift[1]).astype(np.float32)),
    )


@pytest.mark.parametrize("factors", FACTORS)
def test_nothing_changes_without_need(factors):
    model = random_model(factors)
    (found,) = calibrated([model], counted(), rated(model))
    if factors == "continuous":
        np.testing.assert_array_equal(found.gains, 1.0)
    np.testing.assert_allclose(found.gains, 1.0, atol=0.04)
    for one, other in zip(found[:2], model[:2], strict=True):
        np.testing.assert_allclose(one.bias, other.bias, atol=0.06)
        np.testing.assert_array_equal(one.weights, other.weights)
        np.testing.assert_array_equal(one.factors, other.factors)


@pytest.mark.parametrize("factors", FACTORS)
def test_shifts_with_activity_are_found_again(factors):
    model = random_model(factors)
    truth = shifted(model, -0.25, 0.35)
    (found,) = calibrated([model], counted(), rated(truth))
    for one, true, before in zip(found[:2], truth[:2], model[:2], strict=True):
        away = (true.bias - before.bias).astype(np.float64)
        slope = (one.bias - before.bias) @ away / (away @ away)
        assert slope == pytest.approx(1.0, abs=0.12)
        np.testing.assert_allclose(one.bias - before.bias, slope * away, atol=1e-5)
    np.testing.assert_allclose(found.gains, 1.0, atol=0.05)


def test_a_wider_spread_is_found_again():
    model = random_model("continuous")
    truth = model._replace(gains=np.array([1.0, 1.0, 1.4]))
    (found,) = calibrated([model], counted(), rated(truth))
    np.testing.assert_array_equal(found.gains[:2], 1.0)
    assert found.gains[2] == pytest.approx(1.4, abs=0.05)


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
        np.log(probabilities([one], pairs)[np.arange(2000), pairs.level]).mean()
        for one in (model, found)
    )
    assert after > before


def test_a_few_ratings_change_little():
    model = random_model("binary")
    truth = shifted(model, -2.0, 2.0)._replace(gains=np.array([3.0, 3.0, 3.0]))
    (found,) = calibrated([model], counted(), rated(truth, 5))
    np.testing.assert_allclose(found.gains, 1.0, atol=0.15)
    assert np.abs(found.by_rows.bias - model.by_rows.bias).max() < 0.1


def test_no_rating_changes_nothing():
    model = random_model("continuous")
    nothing = Cells(*(np.zeros(0, dtype=kind) for kind in (np.int64, np.int64, np.int8)))
    assert calibrated([model], counted(), nothing) == [model]


@pytest.mark.parametrize("factors", FACTORS)
def test_rows_that_do_not_differ_stay_alike(factors):
    model = random_model(factors, n_column_factors=0)
    (found,) = calibrated([model], counted(), rated(shifted(model, 0.4, 0.4)))
    np.testing.assert_array_equal(found.by_columns.bias, 0.0)
    assert np.abs(found.by_rows.bias - model.by_rows.bias).max() > 0.1


def test_all_models_are_changed_by_what_the_last_one_needs():
    first, last = random_model("binary", seed=7), random_model("binary")
    truth = shifted(last, -0.3, 0.0)._replace(gains=np.array([1.4, 0.7, 1.2]))
    pairs = rated(truth, 5000)
    one, other = calibrated([first, last], counted(), pairs)
    (alone,) = calibrated([last], counted(), pairs)
    np.testing.assert_array_equal(other.gains, alone.gains)
    np.testing.assert_array_equal(one.gains, alone.gains)
    np.testing.assert_allclose(
        one.by_columns.bias - first.by_columns.bias,
        other.by_columns.bias - last.by_columns.bias,
        atol=1e-6,
    )

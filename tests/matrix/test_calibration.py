"""The last touch on binary factors: its slope, its optimum, and what it makes of known truth."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix.calibration import Judge, calibrated, with_numbers
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.predict import bounds, probabilities, utilities

N_ROWS, N_COLUMNS, SCALES = 120, 80, (5, 3, 2)
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


def random_model(*, n_column_factors=3, seed=0):
    rng = np.random.default_rng(seed)
    n_levels = np.resize(SCALES, N_COLUMNS).astype(np.int32)
    by_rows = half(rng, N_COLUMNS, N_ROWS, 4, first=-1.2)
    by_columns = half(rng, N_ROWS, N_COLUMNS, n_column_factors, first=0.0)
    if not n_column_factors:
        by_columns.bias[:], by_columns.cutpoints[:] = 0.0, 0.0
    return MatrixModel(by_rows, by_columns, n_levels)


def biases(model):
    """Of columns and of rows."""
    return [model.by_rows.bias, model.by_columns.bias]


def with_biases(model, of_columns, of_rows):
    of_columns, of_rows = of_columns.astype(np.float32), of_rows.astype(np.float32)
    own, other = model.by_rows, model.by_columns
    return model._replace(by_rows=own._replace(bias=of_columns), by_columns=other._replace(bias=of_rows))


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


# ---- parts, slope, optimum ----------------------------------------------------------------------


@pytest.mark.parametrize("cold", [False, True])
def test_the_parts_make_the_probabilities(cold):
    model = random_model()
    for given in ([1.0, 1.0, 1.0], [1.3, 0.6, 1.7]):
        model = model._replace(gains=np.array(given))
        pairs = rated(model, 500, cold=cold)
        parts = utilities(model, pairs)
        mean = parts.base + given[0] * parts.by_rows + given[1] * parts.by_columns
        both = (np.stack(bounds(model, pairs)) - mean) / given[2]
        truth = probabilities([model], pairs)[np.arange(500), pairs.level]
        np.testing.assert_allclose(np.diff(ndtr(both), axis=0)[0], truth, rtol=1e-6, atol=1e-9)


def test_the_loss_is_minus_the_log_probability_and_the_priors():
    model = random_model()
    pairs = rated(model, 400)
    judge = Judge.of(model, pairs, counted())
    plain = probabilities([model], pairs)[np.arange(400), pairs.level]
    assert judge.loss(np.zeros(5))[0] == pytest.approx(-np.log(plain).mean(), rel=1e-7)
    found = np.array([0.2, -0.1, 0.15, 0.1, -0.2])
    changed = with_numbers(model, found, counted())
    moved = probabilities([changed], pairs)[np.arange(400), pairs.level]
    priors = np.sum([100, 100, 100, 400, 400] * found**2) / 400
    assert judge.loss(found)[0] == pytest.approx(-np.log(moved).mean() + priors, rel=1e-6)


def test_the_slope_of_the_loss():
    model = random_model()
    judge = Judge.of(model, rated(model, 300, cold=True), counted())
    rng = np.random.default_rng(3)
    for found in (np.zeros(5), *rng.normal(0.0, 0.4, (4, 5))):
        moves = 1e-6 * np.eye(5)
        truth = [(judge.loss(found + h)[0] - judge.loss(found - h)[0]) / 2e-6 for h in moves]
        np.testing.assert_allclose(judge.loss(found)[1], truth, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("free", [[0, 1, 2, 3, 4], [3, 4], [2, 4]])
def test_what_is_found_is_the_most_likely(free):
    """A search without slopes ends at the same place."""
    model = random_model()
    pairs = rated(model._replace(gains=np.array([1.4, 0.7, 1.2])), 800)
    judge = Judge.of(model, pairs, counted())
    found = judge.best(free)
    fixed = np.setdiff1d(np.arange(5), free)
    np.testing.assert_array_equal(found[fixed], 0.0)

    def loss(values):
        every = np.zeros(5)
        every[free] = values
        return judge.loss(every)[0]

    options = {"xatol": 1e-4, "fatol": 1e-9, "maxiter": 4000}
    best = minimize(loss, np.zeros(len(free)), method="Nelder-Mead", options=options)
    np.testing.assert_allclose(found[free], best.x, atol=1e-3)
    assert judge.loss(found)[0] <= best.fun + 1e-8


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


def test_nothing_changes_without_need():
    model = random_model()
    found = calibrated(model, counted(), rated(model))
    np.testing.assert_allclose(found.gains, 1.0, atol=0.04)
    for one, other in zip(biases(found), biases(model), strict=True):
        np.testing.assert_allclose(one, other, atol=0.06)
    back, before = with_biases(found, *biases(model)).to_arrays(), model.to_arrays()
    for name in set(before) - {"gains"}:
        np.testing.assert_array_equal(back[name], before[name], err_msg=name)


def test_shifts_with_activity_are_found_again():
    model = random_model()
    truth = shifted(model, -0.25, 0.35)
    # Twice as many: the priors of shifts weigh as much as four times those of gains.
    found = calibrated(model, counted(), rated(truth, 2 * MANY))
    for one, true, before in zip(*map(biases, (found, truth, model)), strict=True):
        away = (true - before).astype(np.float64)
        slope = (one - before) @ away / (away @ away)
        assert slope == pytest.approx(1.0, abs=0.12)
        np.testing.assert_allclose(one - before, slope * away, atol=1e-5)
    np.testing.assert_allclose(found.gains, 1.0, atol=0.05)


def test_gains_of_binary_factors_are_found_again():
    model = random_model()
    truth = model._replace(gains=np.array([1.4, 0.7, 1.2]))
    found = calibrated(model, counted(), rated(truth))
    np.testing.assert_allclose(found.gains, truth.gains, atol=0.08)


def test_no_rating_changes_nothing():
    model = random_model()
    nothing = Cells(*(np.zeros(0, dtype=kind) for kind in (np.int64, np.int64, np.int8)))
    found = calibrated(model, counted(), nothing)
    assert found is model


def test_rows_that_do_not_differ_stay_alike():
    model = random_model(n_column_factors=0)
    found = calibrated(model, counted(), rated(shifted(model, 0.4, 0.4)))
    np.testing.assert_array_equal(found.by_columns.bias, 0.0)
    assert np.abs(found.by_rows.bias - model.by_rows.bias).max() > 0.1

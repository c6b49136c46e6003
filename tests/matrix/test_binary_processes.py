"""The two processes against enumeration: posteriors, gradients, roles swapped."""

import numpy as np
import pytest
from small_matrices import (
    cell_log_level,
    cell_mean,
    column_posterior,
    random_model,
    row_posterior,
    some_answers,
)

from ordinalrbm.data.observations import Cells
from ordinalrbm.engine import gibbs
from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.engine.side import Batch
from ordinalrbm.matrix.model import MatrixModel, column_side, row_side
from ordinalrbm.matrix.predict import probabilities
from ordinalrbm.vector import model as vector
from ordinalrbm.vector.likelihood import exact_posterior

N_LEVELS = (5, 2, 3)
N_ROWS = 4
CHAINS, BURN_IN = 2000, 60


def offsets(observations):
    return np.empty(observations.n_entries, dtype=np.float32)


def repeated(half, times):
    """The half with each column so many times."""
    return half._replace(
        weights=np.repeat(half.weights, times, axis=0),
        bias=np.repeat(half.bias, times),
        cutpoints=np.repeat(half.cutpoints, times, axis=0),
    )


def shares_of_states(side, n_rows, n_factors):
    """How often each row's chains are in each state after a while."""
    factors = np.zeros((n_rows * CHAINS, n_factors), dtype=np.uint8)
    gibbs.clamped_sweep(side, factors, Batch(0, n_rows * CHAINS, 3, 0, BURN_IN))
    number = factors.astype(int) @ (1 << np.arange(n_factors)[::-1])
    number = number.reshape(n_rows, CHAINS)
    return np.stack([(number == s).mean(axis=1) for s in range(2**n_factors)], axis=1)


def assert_within_errors(shares, truth):
    error = np.sqrt(truth * (1 - truth) / CHAINS)
    assert (np.abs(shares - truth) <= 4 * error + 1e-4).all()
    assert np.ptp(truth, axis=0).max() > 0.05  # rows differ, or the test would show nothing


@pytest.mark.parametrize("seed", [0, 1])
def test_row_chains_sample_the_enumerated_posterior(seed):
    model = random_model(N_LEVELS, N_ROWS, 2, 2, seed=seed)
    observations = some_answers(N_LEVELS, N_ROWS, seed=seed)
    copies = observations.take_rows(np.repeat(np.arange(N_ROWS), CHAINS))
    many = model._replace(by_columns=repeated(model.by_columns, CHAINS))
    shares = shares_of_states(row_side(many, copies, offsets(copies)), N_ROWS, 2)
    dense = observations.to_dense()
    truth = np.array([row_posterior(model, dense, d) for d in range(N_ROWS)])
    assert_within_errors(shares, truth)


@pytest.mark.parametrize("first", [0.0, None])
@pytest.mark.parametrize("seed", [0, 1])
def test_column_chains_sample_the_enumerated_posterior(seed, first):
    model = random_model(N_LEVELS, N_ROWS, 2, 2, seed=seed, first=first)
    observations = some_answers(N_LEVELS, N_ROWS, seed=seed)
    copies = observations.transpose().take_rows(np.repeat(np.arange(3), CHAINS))
    many = model._replace(by_rows=repeated(model.by_rows, CHAINS), n_levels=np.repeat(model.n_levels, CHAINS))
    shares = shares_of_states(column_side(many, copies, offsets(copies)), 3, 2)
    dense = observations.to_dense()
    truth = np.array([column_posterior(model, dense, i) for i in range(3)])
    assert_within_errors(shares, truth)


def as_vector_model(model, d):
    """The vector model of one row: the offset is in α, the thresholds are θ_di."""
    own, other = model.by_rows, model.by_columns
    offset = other.bias[d] + other.factors @ other.weights[d]
    return vector.VectorModel(
        own.weights, own.bias + offset, own.factor_bias, own.cutpoints + other.cutpoints[d], model.n_levels
    )


def test_the_row_process_is_the_vector_model_with_an_offset():
    model = random_model(N_LEVELS, N_ROWS, 3, 2, seed=2)
    observations = some_answers(N_LEVELS, N_ROWS, seed=2)
    dense = observations.to_dense()
    expected = np.full((N_ROWS, 3), 0.5, dtype=np.float32)
    fixed_point(row_side(model, observations, offsets(observations)), expected, 1e-6, 500)
    for d in range(N_ROWS):
        alone = as_vector_model(model, d)
        side = vector.side(alone, observations.take_rows([d]))
        found, probability = exact_posterior(alone, side)
        number = found.astype(int) @ [4, 2, 1]  # its states may come in another order
        np.testing.assert_allclose(
            probability[0][np.argsort(number)], row_posterior(model, dense, d), atol=1e-5
        )
        one = np.full((1, 3), 0.5, dtype=np.float32)
        fixed_point(side, one, 1e-6, 500)
        np.testing.assert_allclose(expected[d], one[0], atol=1e-5)


def swapped(model):
    """Rows for columns; the first threshold, zero here, belongs to either."""
    levels = np.full(model.n_rows, model.n_levels.max(), dtype=np.int32)
    return MatrixModel(model.by_columns, model.by_rows, levels, *model[3:])


def test_transposing_and_swapping_the_roles_changes_nothing():
    n_levels = (4, 4, 4)
    model = random_model(n_levels, 5, 2, 3, first=0.0, seed=3)
    observations = some_answers(n_levels, 5, seed=3)
    turned = observations.transpose()
    other = swapped(model)
    for side, same, n_rows, n_factors in (
        (column_side(model, turned, offsets(turned)), row_side(other, turned, offsets(turned)), 3, 3),
        (
            row_side(model, observations, offsets(turned)),
            column_side(other, observations, offsets(turned)),
            5,
            2,
        ),
    ):
        one = np.zeros((n_rows, n_factors), dtype=np.uint8)
        two = one.copy()
        batch = Batch(0, n_rows, 5, 1, 3)
        first, second = gibbs.clamped_phase(side, one, batch), gibbs.clamped_phase(same, two, batch)
        np.testing.assert_array_equal(one, two)
        for a, b in zip(first, second, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    row, column = np.divmod(np.arange(15), 3)
    level = np.zeros(15, dtype=np.int8)
    np.testing.assert_allclose(
        probabilities([model], Cells(row, column, level)),
        probabilities([other], Cells(column, row, level)),
        atol=1e-7,
    )


# ---- gradients ----------------------------------------------------------------------------------


def log_answers(model, dense, h, g):
    """Σ log P(v_di | h_d, g_i)."""
    return sum(
        cell_log_level(model, d, i, dense[d, i], cell_mean(model, d, i, h[d], g[i]))
        for d, i in zip(*np.nonzero(dense >= 0), strict=True)
    )


def differences(model, half, part, dense, h, g, size=1e-4):
    """Derivative of the log probability by every number of one parameter."""
    model = MatrixModel(*(type(x)(*map(np.float64, x)) for x in model[:2]), *model[2:])
    array = getattr(getattr(model, half), part)
    slopes = np.zeros(array.shape)
    for place in np.ndindex(array.shape):
        kept = array[place]
        values = []
        for sign in (1, -1):
            array[place] = kept + sign * size
            values.append(log_answers(model, dense, h, g))
        array[place] = kept
        slopes[place] = (values[0] - values[1]) / (2 * size)
    return slopes


@pytest.mark.parametrize("half", ["by_rows", "by_columns"])
@pytest.mark.parametrize("seed", [4, 5])
def test_statistics_are_the_gradient_of_the_answers_given_the_factors(half, seed):
    model = random_model(N_LEVELS, 6, 3, 2, seed=seed)
    observations = some_answers(N_LEVELS, 6, seed=seed)
    dense = observations.to_dense()
    rng = np.random.default_rng(seed)
    if half == "by_rows":
        drawn = rng.integers(0, 2, (6, 3), dtype=np.uint8)
        h, g = drawn, model.by_columns.factors
        side, n = row_side(model, observations, offsets(observations)), 6
    else:
        drawn = rng.integers(0, 2, (3, 2), dtype=np.uint8)
        h, g = model.by_rows.factors, drawn
        turned = observations.transpose()
        side, n = column_side(model, turned, offsets(turned)), 3
    batch = Batch(0, n, 0, 0, 0)  # no step: the factors stay
    clamped = gibbs.clamped_phase(side, drawn.copy(), batch)
    free = gibbs.free_phase(side, drawn.copy(), batch)
    for part in ("weights", "bias"):
        found = getattr(clamped, part) - getattr(free, part)
        truth = differences(model, half, part, dense, h, g)
        np.testing.assert_allclose(found, truth, rtol=2e-3, atol=2e-3, err_msg=part)
    cutpoints = getattr(model, half).cutpoints
    width = cutpoints.shape[1]
    truth = differences(model, half, "cutpoints", dense, h, g)[:, 1:]
    found = np.exp(cutpoints[:, 1:]) * clamped.thresholds[:, 1:width]
    np.testing.assert_allclose(found, truth, rtol=2e-3, atol=2e-3)
    assert np.abs(truth).max() > 0.05

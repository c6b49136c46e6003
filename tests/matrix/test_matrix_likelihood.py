"""log P of the matrix model against a sum over all states, written from the paper's formulas."""

import itertools

import numpy as np
import pytest
from long_form import LONG
from scipy.special import log_ndtr, logsumexp

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.normal_reference import truncated_mean
from ordinalrbm.errors import DataError
from ordinalrbm.matrix import likelihood
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.model import Half, MatrixModel

N_LEVELS = np.array([3, 5, 2, 5], dtype=np.int32)


def random_case(seed, n_rows=3, n_columns=3, n_row_factors=2, n_column_factors=2, size=0.6):
    """A model with parameters of a fitted one's size, and an incomplete matrix."""
    rng = np.random.default_rng(seed)
    n_levels = N_LEVELS[:n_columns]
    width = n_levels.max() - 1

    def half(n_columns, n_rows, n_factors, first):
        cutpoints = 0.3 * rng.normal(size=(n_columns, width))
        cutpoints[:, 0] = first
        return Half(
            (size * rng.normal(size=(n_columns, n_factors))).astype(np.float32),
            (0.4 * rng.normal(size=n_columns)).astype(np.float32),
            cutpoints,
            (0.5 * rng.normal(size=n_factors)).astype(np.float32),
            rng.random((n_rows, n_factors)).astype(np.float32),
        )

    model = MatrixModel(
        half(n_columns, n_rows, n_row_factors, -1.0), half(n_rows, n_columns, n_column_factors, 0.0), n_levels
    )
    level = rng.integers(0, n_levels, size=(n_rows, n_columns))
    level[rng.random(level.shape) < 0.25] = -1
    level[0, 0] = 0
    return model, Observations.from_dense(level, n_levels)


def log_interval(low, high):
    """log[Φ(high) − Φ(low)], on the side of the tail where nothing cancels."""
    if low > 0:
        low, high = -high, -low
    return log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))


def cell_terms(model, d, i, level, h, g):
    """μ²/2 and log P(level) of one cell: equations of the paper, σ = 1."""
    w, omega = model.by_rows, model.by_columns
    mean = float(w.bias[i]) + float(omega.bias[d])
    mean += float(w.weights[i].astype(float) @ h) + float(omega.weights[d].astype(float) @ g)
    thresholds = [-np.inf, w.cutpoints[i, 0] + omega.cutpoints[d, 0]]
    for m in range(1, model.n_levels[i] - 1):
        thresholds.append(thresholds[-1] + np.exp(w.cutpoints[i, m] + omega.cutpoints[d, m]))
    thresholds = [*thresholds[: model.n_levels[i]], np.inf]
    return 0.5 * mean**2, log_interval(thresholds[level] - mean, thresholds[level + 1] - mean)


def states(n):
    return [np.array(bits, dtype=float) for bits in itertools.product((0, 1), repeat=n)]


def enumerated(model, observations):
    """log P of all ratings: every state of every factor, one after the other."""
    dense = observations.to_dense()
    gamma, xi = model.by_rows.factor_bias, model.by_columns.factor_bias
    clamped, free = [], []
    for h in itertools.product(states(gamma.size), repeat=dense.shape[0]):
        for g in itertools.product(states(xi.size), repeat=dense.shape[1]):
            weight = sum(float(gamma @ each) for each in h) + sum(float(xi @ each) for each in g)
            chance = 0.0
            for d, i in zip(*np.nonzero(dense >= 0), strict=True):
                square, log_level = cell_terms(model, d, i, dense[d, i], h[d], g[i])
                weight += square
                chance += log_level
            free.append(weight)
            clamped.append(weight + chance)
    return logsumexp(clamped) - logsumexp(free)


def enumerated_row(model, observations, d, g):
    """log P of one row's ratings given numbers for the columns' factors."""
    dense, gamma = observations.to_dense(), model.by_rows.factor_bias
    clamped, free = [], []
    for h in states(gamma.size):
        terms = [
            cell_terms(model, d, i, dense[d, i], h, g[i].astype(float)) for i in np.flatnonzero(dense[d] >= 0)
        ]
        weight = float(gamma @ h) + sum(square for square, _ in terms)
        free.append(weight)
        clamped.append(weight + sum(log_level for _, log_level in terms))
    return logsumexp(clamped) - logsumexp(free)


@pytest.mark.parametrize("shape", [(2, 2, 1, 2), (2, 3, 2, 1), (3, 2, 1, 1), (1, 4, 3, 1), (3, 2, 2, 0)])
@pytest.mark.parametrize("seed", [0, 1])
def test_exact_likelihood_is_that_of_the_papers_formulas(seed, shape):
    model, observations = random_case(seed, *shape)
    found = likelihood.exact(model, observations)
    assert found.value == pytest.approx(enumerated(model, observations), abs=1e-10)
    assert found.standard_error == 0.0


def test_all_ratings_together_have_probability_one():
    model, _ = random_case(3, 2, 2, 2, 1)
    total = [
        likelihood.exact(model, Observations.from_dense(np.reshape(levels, (2, 2)), model.n_levels)).value
        for levels in itertools.product(range(3), range(5), repeat=2)
    ]
    assert logsumexp(total) == pytest.approx(0.0, abs=1e-10)


def test_rows_and_columns_without_ratings_do_not_count():
    model, observations = random_case(4, 3, 3, 1, 1)
    dense = observations.to_dense()
    dense[1], dense[:, 2] = -1, -1
    fewer = Observations.from_dense(dense, model.n_levels)
    expected = enumerated(model, fewer)
    assert likelihood.exact(model, fewer).value == pytest.approx(expected, abs=1e-10)


def posterior_means(model, observations):
    """Expected factors of rows and of columns given all ratings, by the same sum."""
    dense, weight = observations.to_dense(), []
    gamma, xi = model.by_rows.factor_bias, model.by_columns.factor_bias
    of_rows = list(itertools.product(states(gamma.size), repeat=dense.shape[0]))
    of_columns = list(itertools.product(states(xi.size), repeat=dense.shape[1]))
    both = list(itertools.product(of_rows, of_columns))
    for h, g in both:
        weight.append(sum(float(gamma @ each) for each in h) + sum(float(xi @ each) for each in g))
        for d, i in zip(*np.nonzero(dense >= 0), strict=True):
            weight[-1] += sum(cell_terms(model, d, i, dense[d, i], h[d], g[i]))
    share = np.exp(np.array(weight) - logsumexp(weight))
    return (np.tensordot(share, np.array([state[side] for state in both]), 1) for side in (0, 1))


def given_all_others(model, observations):
    """Exact log P of each rating given all others: the matrix with each level in its place."""
    dense, found = observations.to_dense(), []
    for d, i, level in zip(*observations.cells(), strict=True):
        values = []
        for other in range(model.n_levels[i]):
            dense[d, i] = other
            there = Observations.from_dense(dense, model.n_levels)
            values.append(likelihood.exact(model, there).value)
        dense[d, i] = level
        found.append(values[level] - logsumexp(values))
    return np.array(found)


def test_pseudo_likelihood_is_that_of_a_rating_given_all_others():
    exact, found, seen = [], [], []
    for seed in range(6):
        model, observations = random_case(seed, 3, 4, 1, 1, size=0.5)
        exact.append(given_all_others(model, observations))
        h, g = (part.astype(np.float32) for part in posterior_means(model, observations))
        by_rows, by_columns = (model.by_rows._replace(factors=h), model.by_columns._replace(factors=g))
        model, cells = model._replace(by_rows=by_rows, by_columns=by_columns), observations.cells()
        found.append(CPU.log_pseudo_likelihood(model, cells))
        seen.append(CPU.log_probability(model, cells))  # by factors that have seen the rating
    exact, found, seen = (np.exp(np.concatenate(each)) for each in (exact, found, seen))
    assert abs(found - exact).max() < 0.04
    assert abs(found - exact).mean() < 0.5 * abs(seen - exact).mean()


@pytest.mark.parametrize("seed", range(3))
def test_rows_given_columns(seed, monkeypatch):
    monkeypatch.setattr(likelihood, "_AT_ONCE", 16)  # in several parts
    model, observations = random_case(seed, 4, 3, 3, 2)
    found = likelihood.exact_rows(model, observations, swapped=False)
    g = model.by_columns.factors
    expected = [enumerated_row(model, observations, d, g) for d in range(4)]
    np.testing.assert_allclose(found.value, expected, atol=1e-10)


def test_columns_given_rows_are_the_rows_of_the_transposed():
    """On scales of one length, where rows and columns of cutpoints mean the same."""
    model, _ = random_case(5, 4, 4, 2, 2)
    model = model._replace(n_levels=np.full(4, 5, dtype=np.int32))
    rng = np.random.default_rng(5)
    observations = Observations.from_dense(rng.integers(-1, 5, (4, 4)), model.n_levels)
    other = MatrixModel(model.by_columns, model.by_rows, model.n_levels)
    found = likelihood.exact_rows(model, observations, swapped=True)
    expected = likelihood.exact_rows(other, observations.transpose(), swapped=False)
    np.testing.assert_allclose(found.value, expected.value, atol=1e-12)


@pytest.mark.parametrize("seed", range(10 if LONG else 4))
def test_annealing_agrees_with_the_sum(seed):
    model, observations = random_case(seed, 3, 3, 2, 2)
    found = likelihood.annealed(model, observations, seed, n_temperatures=200, n_chains=64)
    exact = likelihood.exact(model, observations).value
    assert abs(found.value - exact) < 3.0 * found.standard_error
    assert 0.0 < found.standard_error < 0.2


@pytest.mark.parametrize("swapped", [False, True])
def test_annealing_of_rows_agrees_with_their_sums(swapped):
    model, observations = random_case(11, 4, 4, 3, 2)
    found = likelihood.annealed_rows(model, observations, 0, 200, 256, swapped=swapped)
    exact = likelihood.exact_rows(model, observations, swapped=swapped).value
    rated = found.standard_error > 0.0
    z = (found.value - exact)[rated] / found.standard_error[rated]
    assert np.abs(z).max() < 3.5
    np.testing.assert_allclose(found.value[~rated], exact[~rated], atol=1e-6)


def test_errors_of_annealing_are_as_large_as_they_say():
    model, observations = random_case(7, 3, 3, 2, 2)
    exact = likelihood.exact(model, observations).value
    runs = [likelihood.annealed(model, observations, seed, 20, 100) for seed in range(100)]
    z = [(run.value - exact) / run.standard_error for run in runs]
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.2


@pytest.mark.parametrize(("low", "high"), [(-np.inf, -9.0), (8.0, 8.1), (-1.0, np.inf), (30.0, np.inf)])
def test_utilities_between_bounds(low, high):
    draws = likelihood._truncated_normal(*np.full((2, 100_000), [[low], [high]]), np.random.default_rng(0))
    assert low < draws.min() and draws.max() < high
    error = draws.std() / np.sqrt(draws.size)
    assert abs(draws.mean() - truncated_mean(low, high)) < 4 * error


def test_too_many_states_are_refused_with_the_remedy():
    model, observations = random_case(9, 3, 4, 9, 9)
    with pytest.raises(DataError, match=r"2\^\d+ terms .* method='ais'"):
        likelihood.exact(model, observations)
    model, observations = random_case(9, 3, 4, 40, 1)
    with pytest.raises(DataError, match="fewer factors"):
        likelihood.exact_rows(model, observations, swapped=False)


@pytest.mark.parametrize("of", ["matrix", "users", "items"])
def test_no_ratings_are_certain(of):
    model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=1, random_state=0).fit(([0, 0, 1], [0, 1, 0], [1, 2, 2]))
    found = model.log_likelihood(([], [], []), of=of)
    assert np.all(np.asarray(found) == 0.0)

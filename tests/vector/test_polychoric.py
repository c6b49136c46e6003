"""Polychoric correlations against SciPy's normal distribution and against simulated utilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from ordinalrbm.data.observations import Observations, count_levels
from ordinalrbm.engine import thresholds
from ordinalrbm.stats import polychoric

TRUE_CORRELATION = np.array(
    [
        [1.0, 0.6, -0.4, 0.0, 0.9],
        [0.6, 1.0, -0.2, 0.3, 0.5],
        [-0.4, -0.2, 1.0, 0.1, -0.5],
        [0.0, 0.3, 0.1, 1.0, 0.0],
        [0.9, 0.5, -0.5, 0.0, 1.0],
    ]
)
# Scales of 2, 3, 5, 7 and 7 levels, none of them symmetric.
CUTS = [[0.4], [-0.9, 0.3], [-1.4, -0.8, 0.1, 1.0], *[[-1.9, -1.1, -0.5, 0.2, 0.6, 1.7]] * 2]


def bounds_of(answers: Observations) -> np.ndarray:
    n_levels = answers.n_levels
    return thresholds.table(thresholds.at_marginals(count_levels(answers), n_levels), n_levels)


def correlations_of(levels: np.ndarray, n_levels: object) -> polychoric.Correlations:
    answers = Observations.from_dense(levels, n_levels)
    return polychoric.polychoric(answers, bounds_of(answers))


def simulated(n_rows: int, seed: int, gaps: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    utilities = rng.multivariate_normal(np.zeros(5), TRUE_CORRELATION, size=n_rows)
    levels = np.column_stack([np.digitize(u, cut) for u, cut in zip(utilities.T, CUTS, strict=True)])
    return np.where(rng.random(levels.shape) < gaps, -1, levels)


def cells_by_scipy(first: np.ndarray, second: np.ndarray, rho: float) -> np.ndarray:
    below = multivariate_normal(cov=[[1.0, rho], [rho, 1.0]], abseps=1e-13, releps=1e-13)
    corners = np.array([[below.cdf([h, k]) for k in second] for h in first])
    return np.diff(np.diff(corners, axis=0), axis=1)


@pytest.mark.parametrize("rho", [0.0, 0.15, 0.3, -0.5, 0.75, 0.9, 0.95, -0.97])
def test_cells_have_the_probability_that_scipy_gives_them(rho: float) -> None:
    first = np.array([-np.inf, -2.1, -0.4, 0.3, 1.9, np.inf])
    second = np.array([-np.inf, -0.2, 0.1, 3.0, np.inf, np.inf])  # a scale of one level less
    ours, _ = polychoric.cell_probabilities(first[None], second[None], np.array([rho]))
    finite = [np.clip(bounds, -9.0, 9.0) for bounds in (first, second)]
    np.testing.assert_allclose(ours[0], cells_by_scipy(*finite, rho), rtol=1e-8, atol=2e-12)
    assert ours.sum() == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("rho", [0.0, 0.4, -0.8, 0.95])
def test_derivative_is_the_slope_of_the_probability(rho: float) -> None:
    first = np.array([[-np.inf, -1.0, 0.5, np.inf]])
    second = np.array([[-np.inf, 0.2, 1.5, np.inf]])
    _, slope = polychoric.cell_probabilities(first, second, np.array([rho]))
    up, down = (
        polychoric.cell_probabilities(first, second, np.array([rho + change]))[0] for change in (1e-5, -1e-5)
    )
    np.testing.assert_allclose(slope, (up - down) / 2e-5, atol=1e-6)


@pytest.mark.parametrize("gaps", [0.0, 0.4])
def test_finds_the_correlations_of_simulated_utilities(gaps: float) -> None:
    found = correlations_of(simulated(6000, seed=1, gaps=gaps), [2, 3, 5, 7, 7])
    error = found.correlation - TRUE_CORRELATION
    pairs = np.triu_indices(5, 1)
    assert (np.abs(error[pairs]) < 4.0 * np.sqrt(found.variance[pairs])).all()
    assert (found.variance[pairs] < 0.002).all()


def test_standard_errors_are_those_of_repetitions() -> None:
    pairs = np.triu_indices(5, 1)
    again = [correlations_of(simulated(800, seed), [2, 3, 5, 7, 7]) for seed in range(40)]
    seen = np.std([found.correlation[pairs] for found in again], axis=0)
    claimed = np.sqrt(np.mean([found.variance[pairs] for found in again], axis=0))
    assert 0.8 < np.mean(seen / claimed) < 1.25


def test_maximises_the_likelihood() -> None:
    levels = simulated(3000, seed=3)[:, [1, 3]]
    answers = Observations.from_dense(levels, [3, 7])
    bounds = bounds_of(answers)[:, :8]
    found = polychoric.polychoric(answers, bounds).correlation[0, 1]
    grid = np.linspace(0.2, 0.4, 201)
    shape = (grid.size, 8)
    cells, _ = polychoric.cell_probabilities(
        np.broadcast_to(bounds[0], shape), np.broadcast_to(bounds[1], shape), grid
    )
    likelihood = np.log(cells[:, levels[:, 0], levels[:, 1]]).sum(axis=1)
    # The few answers that are added besides move the maximum by less than this.
    assert abs(grid[likelihood.argmax()] - found) < 0.003


def test_matrices_are_symmetric_and_count_common_rows() -> None:
    levels = simulated(300, seed=5, gaps=0.5)
    found = correlations_of(levels, [2, 3, 5, 7, 7])
    for matrix in found:
        np.testing.assert_array_equal(matrix, matrix.T)
    answered = (levels >= 0).astype(int)
    np.testing.assert_array_equal(found.common, answered.T @ answered)


@pytest.mark.parametrize("sparse", [0.0, 0.8, 1.1])
def test_does_not_depend_on_how_work_is_cut_up(monkeypatch: pytest.MonkeyPatch, sparse: float) -> None:
    levels = simulated(300, seed=6, gaps=0.2)
    whole = correlations_of(levels, [2, 3, 5, 7, 7])
    cuts = {"_CHUNK": 100, "_BLOCK_COLUMNS": 14, "_BLOCK_ROWS": 64, "_SPARSE": sparse}
    for name, value in cuts.items():
        monkeypatch.setattr(polychoric, name, value)
    for ours, theirs in zip(correlations_of(levels, [2, 3, 5, 7, 7]), whole, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_long_scales_are_pooled_without_much_loss() -> None:
    rng = np.random.default_rng(7)
    utilities = rng.multivariate_normal([0, 0, 0], [[1, 0.6, 0.3], [0.6, 1, 0], [0.3, 0, 1]], 3000)
    levels = np.minimum((norm.cdf(utilities) * [101, 40, 5]).astype(int), [100, 39, 4])
    found = correlations_of(levels, [101, 40, 5])
    assert np.abs(found.correlation[0] - [1.0, 0.6, 0.3]).max() < 0.06
    assert polychoric.effective_rows(found)[0, 1] > 0.8 * 3000


def test_a_pair_without_common_rows_is_unknown() -> None:
    found = correlations_of(np.array([[0, -1, 1], [1, -1, 0], [-1, 0, 1], [-1, 1, 1]]), 2)
    assert found.correlation[0, 1] == 0.0
    assert found.variance[0, 1] == np.inf
    assert found.common[0, 1] == 0
    assert polychoric.effective_rows(found)[0, 1] == 0.0
    assert np.isfinite(found.variance[0, 2])


def test_a_column_with_a_single_level_is_unknown() -> None:
    levels = np.column_stack([np.zeros(50, dtype=int), np.arange(50) % 3, np.arange(50) % 2])
    found = correlations_of(levels, [1, 3, 2])
    np.testing.assert_array_equal(found.correlation[0], [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(found.variance[0], [0.0, np.inf, np.inf])
    assert found.common[0, 1] == 50


def test_prior_rows_shrink_by_the_weight_of_schaefer_and_strimmer() -> None:
    rng = np.random.default_rng(10)
    correlation = np.corrcoef(rng.normal(size=(80, 12)) + rng.normal(size=(80, 1)), rowvar=False)
    others = ~np.eye(12, dtype=bool)
    rows = np.where(others, 80.0, 0.0)
    weight = (1.0 / rows[others]).sum() / (correlation[others] ** 2).sum()
    shrunk = polychoric.shrunk(correlation, rows, polychoric.prior_rows(correlation, rows))
    np.testing.assert_allclose(shrunk[others], (1.0 - weight) * correlation[others])
    np.testing.assert_array_equal(np.diag(shrunk), np.ones(12))


def test_noise_shrinks_to_nothing() -> None:
    correlation = np.array([[1.0, 0.05], [0.05, 1.0]])
    rows = np.array([[0.0, 100.0], [100.0, 0.0]])
    prior = polychoric.prior_rows(correlation, rows)
    assert prior == np.inf
    np.testing.assert_array_equal(polychoric.shrunk(correlation, rows, prior), np.eye(2))


def test_positive_definite_repairs_what_cannot_be() -> None:
    impossible = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    repaired = polychoric.positive_definite(impossible)
    assert np.linalg.eigvalsh(repaired)[0] > 0.0
    np.testing.assert_allclose(np.diag(repaired), 1.0)
    np.testing.assert_array_equal(polychoric.positive_definite(TRUE_CORRELATION), TRUE_CORRELATION)

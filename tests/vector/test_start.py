"""The start of learning against the factor models that answers were drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from ordinalrbm.data.observations import Observations, count_levels
from ordinalrbm.engine import thresholds
from ordinalrbm.vector import initial
from ordinalrbm.vector.model import VectorModel


def factor_correlation(n_columns: int, n_factors: int, seed: int) -> np.ndarray:
    loadings = np.random.default_rng(seed).normal(scale=0.8, size=(n_columns, n_factors))
    covariance = loadings @ loadings.T + np.eye(n_columns)
    size = np.sqrt(np.diag(covariance))
    return covariance / np.outer(size, size)


def drawn_answers(correlation: np.ndarray, n_rows: int, seed: int, gaps: float = 0.0) -> Observations:
    rng = np.random.default_rng(seed)
    utilities = rng.multivariate_normal(np.zeros(len(correlation)), correlation, size=n_rows)
    levels = np.digitize(utilities, [-1.2, -0.3, 0.4, 1.1])
    return Observations.from_dense(np.where(rng.random(levels.shape) < gaps, -1, levels), 5)


def free_utilities(model: VectorModel, n_rows: int, n_sweeps: int, seed: int) -> np.ndarray:
    """Utilities by Gibbs sampling of the model without answers, plainly."""
    rng = np.random.default_rng(seed)
    weights, bias = model.weights.astype(float), model.bias.astype(float)
    factors = rng.binomial(model.units, 0.5, size=(n_rows, model.n_factors))
    for _ in range(n_sweeps):
        utilities = factors @ weights.T + bias + rng.normal(size=(n_rows, bias.size))
        factors = rng.binomial(model.units, expit(utilities @ weights + model.factor_bias))
    return utilities


@pytest.mark.parametrize(("units", "tolerance"), [(200, 0.03), (16, 0.05), (1, 0.05)])
def test_free_utilities_correlate_as_the_true_ones(units: int, tolerance: float) -> None:
    truth = factor_correlation(10, 2, seed=0)
    answers = drawn_answers(truth, 8000, seed=1)
    model = initial.initial_model(answers, 12, units, 0)
    implied = np.corrcoef(free_utilities(model, 2000, 60, seed=2), rowvar=False)
    assert np.sqrt(np.mean((implied - truth)[np.triu_indices(10, 1)] ** 2)) < tolerance


def test_free_answers_have_the_observed_marginals() -> None:
    answers = drawn_answers(factor_correlation(10, 2, seed=0), 8000, seed=1)
    model = initial.initial_model(answers, 12, 200, 0)
    utilities = free_utilities(model, 2000, 60, seed=2)
    for i, bounds in enumerate(model.thresholds[:, 1:5]):
        free = np.bincount(np.searchsorted(bounds, utilities[:, i]), minlength=5) / len(utilities)
        np.testing.assert_allclose(free, count_levels(answers)[i] / 8000, atol=0.04)


def test_gaps_leave_the_correlations_nearly_as_they_are() -> None:
    truth = factor_correlation(12, 2, seed=3)
    answers = drawn_answers(truth, 2000, seed=4, gaps=0.6)
    model = initial.initial_model(answers, 12, 200, 0)
    implied = np.corrcoef(free_utilities(model, 2000, 60, seed=5), rowvar=False)
    assert np.sqrt(np.mean((implied - truth)[np.triu_indices(12, 1)] ** 2)) < 0.07


def test_noise_is_not_taken_for_structure() -> None:
    answers = drawn_answers(np.eye(30), 400, seed=6)
    model = initial.initial_model(answers, 5, 64, 0)
    cutpoints = thresholds.at_marginals(count_levels(answers), answers.n_levels)
    np.testing.assert_array_equal(model.cutpoints, cutpoints)
    # What is left are random weights, of a tenth of what would explain all variance.
    assert 0.0 < 64 * (model.weights.astype(float) ** 2).sum(axis=0).max() < 4 * 0.02


def test_expected_variance_undoes_what_sampling_does() -> None:
    # One true direction of variance 6 among 50 columns, seen in 200 complete rows.
    rng = np.random.default_rng(7)
    seen, along = [], []
    for _ in range(40):
        rows = rng.normal(size=(200, 50))
        rows[:, 0] *= np.sqrt(6.0)
        values, vectors = np.linalg.eigh(rows.T @ rows / 200)
        seen.append(values[-1])
        along.append(1.0 + 5.0 * vectors[0, -1] ** 2)  # the true variance along what was found
    expected = initial._expected_variance(np.array([np.mean(seen), 2.2, 0.3]), 50 / 200)
    assert expected[0] == pytest.approx(np.mean(along), rel=0.03)
    np.testing.assert_array_equal(expected[1:], 1.0)  # below (1 + 0.5)²


def test_without_error_variance_is_what_was_seen() -> None:
    np.testing.assert_allclose(initial._expected_variance(np.array([5.0, 1.5, 0.5]), 0.0), [5, 1.5, 1])


@pytest.mark.parametrize(("n_directions", "n_factors"), [(1, 3), (2, 3), (3, 4), (4, 5), (6, 6), (7, 30)])
def test_directions_are_shared_evenly(n_directions: int, n_factors: int) -> None:
    frame = initial._even_frame(n_directions, n_factors)
    np.testing.assert_allclose(frame @ frame.T, np.eye(n_directions), atol=1e-12)
    np.testing.assert_allclose((frame**2).sum(axis=0), n_directions / n_factors)


@pytest.mark.parametrize(
    ("levels", "n_levels"),
    [
        (np.full((10, 3), -1), 4),
        (np.zeros((10, 3), dtype=int), 4),
        (np.zeros((10, 3), dtype=int), 1),
        (np.array([[0, 1]]), 2),
        (np.array([[0], [1]]), 2),
        (np.tile([0, 1, 2, 3], (4, 1)).T, 4),
    ],
)
def test_tables_that_say_little_start_finite(levels: np.ndarray, n_levels: int) -> None:
    for units in (1, 64):
        model = initial.initial_model(Observations.from_dense(levels, n_levels), 3, units, 0)
        assert all(np.isfinite(array).all() for array in (model.weights, model.bias, model.cutpoints))


def test_the_papers_start_knows_nothing_of_the_answers():
    answers = drawn_answers(factor_correlation(12, 2, 0), 300, 1)
    model = initial.initial_model(answers, 4, 1, 0, by_correlations=False, at_marginals=False)
    other = drawn_answers(factor_correlation(12, 2, 5), 300, 6)
    same = initial.initial_model(other, 4, 1, 0, by_correlations=False, at_marginals=False)
    np.testing.assert_array_equal(model.weights, same.weights)
    gaps = np.diff(model.thresholds[:, 1 : model.n_levels.min()], axis=1)
    np.testing.assert_allclose(gaps, gaps[0, 0], rtol=1e-12)


def test_biases_start_at_zero_as_in_the_paper_or_take_half_of_the_weights_back():
    answers = drawn_answers(factor_correlation(12, 2, 0), 300, 1)
    own = {"by_correlations": False, "at_marginals": False}
    balanced = initial.initial_model(answers, 4, 3, 0, **own)
    zero = initial.initial_model(answers, 4, 3, 0, **own, balanced=False)
    np.testing.assert_array_equal(zero.bias, 0.0)
    np.testing.assert_array_equal(zero.weights, balanced.weights)
    np.testing.assert_allclose(balanced.bias, -1.5 * zero.weights.sum(axis=1), rtol=1e-6)

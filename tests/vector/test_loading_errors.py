"""Derivatives behind the standard errors, against differences of an integrated likelihood."""

import numpy as np
import pytest
from scipy.special import ndtr

from ordinalrbm.data.observations import Observations
from ordinalrbm.vector import loading_errors as errors
from ordinalrbm.vector.loadings import free_population, solve
from ordinalrbm.vector.model import VectorModel, side

N_LEVELS = np.array([3, 4, 2, 5, 3], dtype=np.int32)
UNITS = 250


@pytest.fixture(scope="module")
def fitted():
    """A model with one nearly Gaussian factor, and answers of people."""
    rng = np.random.default_rng(0)
    weights = np.array([[0.05], [0.06], [-0.05], [0.045], [0.055]], np.float32)
    cutpoints = np.log(rng.uniform(0.6, 0.9, (5, 4)))
    cutpoints[:, 0] = [-0.6, -0.8, 0.2, -1.1, -0.4]
    model = VectorModel(
        weights,
        (-0.5 * UNITS * weights[:, 0]).astype(np.float32),
        np.zeros(1, np.float32),
        cutpoints,
        N_LEVELS,
        UNITS,
    )
    levels = np.stack([rng.integers(0, n, 400) for n in N_LEVELS], axis=1)
    levels[rng.random(levels.shape) < 0.2] = -1
    return model, levels, free_population(model)


def log_likelihood(levels, slopes, centres, thresholds):
    """Of each row, with a standard normal factor, by quadrature."""
    nodes, share = np.polynomial.hermite_e.hermegauss(60)
    total = np.zeros((len(levels), nodes.size))
    for i, bounds in enumerate(thresholds):
        edges = np.concatenate([[-np.inf], bounds, [np.inf]])
        mean = centres[i] + slopes[i] * nodes
        mass = np.diff(ndtr(edges[:, None] - mean), axis=0)
        known = levels[:, i] >= 0
        total[known] += np.log(np.maximum(mass[levels[known, i]], 1e-300))
    return np.log(np.exp(total) @ (share / share.sum()))


def test_derivatives_are_those_of_the_likelihood(fitted):
    model, levels, people = fitted
    this = side(model, Observations.from_dense(levels, N_LEVELS), "latent")
    slopes = (model.weights.astype(float) @ people.root)[:, 0]
    centres = model.bias + model.weights[:, 0] * people.mean[0]
    bounds = [model.thresholds[i, 1:n] for i, n in enumerate(N_LEVELS)]
    found = errors._scores(model, this, people, slopes[:, None])
    step, place = 1e-4, 0
    truth = np.empty_like(found)
    for i in range(5):
        move = step * np.eye(5)[i]
        truth[:, i] = (
            log_likelihood(levels, slopes + move, centres, bounds)
            - log_likelihood(levels, slopes - move, centres, bounds)
        ) / (2 * step)
    for i, own in enumerate(bounds):
        for level in range(own.size):
            up, down = (
                [b + sign * step * (np.arange(b.size) == level) * (j == i) for j, b in enumerate(bounds)]
                for sign in (1, -1)
            )
            truth[:, 5 + place] = (
                log_likelihood(levels, slopes, centres, up) - log_likelihood(levels, slopes, centres, down)
            ) / (2 * step)
            place += 1
    assert place == (N_LEVELS - 1).sum()
    for column in range(truth.shape[1]):
        slope, _ = np.polyfit(truth[:, column], found[:, column], 1)
        assert np.corrcoef(truth[:, column], found[:, column])[0, 1] > 0.98
        assert slope == pytest.approx(1.0, abs=0.12)


def test_equal_weights_change_nothing_and_few_rows_give_none(fitted):
    model, levels, people = fitted
    this = side(model, Observations.from_dense(levels, N_LEVELS), "latent")
    solution = solve(model, people, "varimax")
    plain = errors.loading_errors(model, this, people, solution)
    weighted = errors.loading_errors(model, this, people, solution, weight=np.full(400, 3.0))
    np.testing.assert_allclose(plain.loadings, weighted.loadings, rtol=1e-6)
    assert (plain.loadings > 0.01).all() and (plain.loadings < 0.2).all()
    few = side(model, Observations.from_dense(levels[:20], N_LEVELS), "latent")
    assert errors.loading_errors(model, few, people, solution) is None

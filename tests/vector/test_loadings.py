"""Loadings, reliability and curves against sums over all states of small models."""

import numpy as np
import pytest
from hand_made_models import PATTERNS, observed, vector_model

from ordinalrbm.vector import likelihood, predict
from ordinalrbm.vector import loadings as reading
from ordinalrbm.vector.loadings import Population, solve
from ordinalrbm.vector.model import complete_rows, side
from ordinalrbm.vector.posterior import State


def mild_model(units=6, n_factors=3):
    """Weights so small that chains soon forget their start, and factors near their middle."""
    model = vector_model(seed=2, n_factors=n_factors, scale=0.3, units=units)
    bias = 0.2 - 0.5 * units * model.weights.sum(axis=1)
    tilt = np.array([-0.2, 0.1, 0.15], np.float32)[:n_factors]
    return model._replace(bias=bias.astype(np.float32), factor_bias=tilt)


def averaged_over_styles(model, factors, cells):
    """P(level | factors) for rows of unknown style."""
    return sum(
        share * predict.probabilities(model, [State(factors, np.full(len(factors), c, np.float32))], cells)
        for c, share in zip(model.stretches, model.style_weights, strict=True)
    )


def exact_population(states, share):
    mean = share @ states
    return Population(mean, (share[:, None] * (states - mean)).T @ (states - mean))


@pytest.fixture(scope="module")
def free():
    """A model, its states, and how likely these are when nothing is answered."""
    model = mild_model()
    states, posterior = likelihood.exact_posterior(model, side(model, complete_rows(model, 1)))
    return model, states, posterior[0]


def test_population_of_the_model_is_that_of_all_states(free):
    model, states, share = free
    truth, found = exact_population(states, share), reading.free_population(model)
    error = np.sqrt(np.diag(truth.covariance) / 2_000)  # of as many people, drawn once
    assert (np.abs(found.mean - truth.mean) < 4 * error).all()
    np.testing.assert_allclose(found.covariance, truth.covariance, atol=0.1)


@pytest.mark.parametrize("unanswered", ["absent", "latent"])
def test_population_of_people_is_the_mean_of_their_posteriors(unanswered):
    model = mild_model()
    answered = PATTERNS[:4]
    weight = np.tile([1.0, 2.0, 0.5, 0.0], 800)
    states, posterior = likelihood.exact_posterior(model, side(model, observed(answered), unanswered))
    truth = exact_population(states, weight[:4] @ posterior / weight[:4].sum())
    found = reading.population_of(model, observed(np.tile(answered, (800, 1))), weight, unanswered, 1)
    np.testing.assert_allclose(found.mean, truth.mean, atol=0.12)
    np.testing.assert_allclose(found.covariance, truth.covariance, atol=0.15)


@pytest.mark.parametrize("rotation", ["varimax", "oblimin", "none"])
def test_structure_is_the_correlation_of_utility_and_factor(free, rotation):
    """Both summed over all states: nothing of the code's algebra is used."""
    model, states, share = free
    people = exact_population(states, share)
    found = solve(model, people, rotation)
    factors = (states - found.mean) @ found.projection.T
    np.testing.assert_allclose(share @ factors, 0.0, atol=1e-9)
    np.testing.assert_allclose((share[:, None] * factors).T @ factors, found.correlation, atol=1e-9)
    mean = model.bias.astype(float) + states @ model.weights.T.astype(float)
    centred = mean - share @ mean
    spread = np.sqrt(1.0 + share @ centred**2)
    correlation = (share[:, None] * centred).T @ factors / spread[:, None]
    np.testing.assert_allclose(found.structure, correlation, atol=1e-6)
    np.testing.assert_allclose(found.spread, spread, rtol=1e-6)
    np.testing.assert_allclose(found.communality, (share @ centred**2) / spread**2, rtol=1e-6)


def test_fewer_factors_are_those_that_explain_most(free):
    model, states, share = free
    people = exact_population(states, share)
    every = solve(model, people, "none")
    left, size, right = np.linalg.svd(every.loadings)
    best = (left[:, :2] * size[:2]) @ right[:2]
    found = solve(model, people, "varimax", 2)
    np.testing.assert_allclose(found.loadings @ found.loadings.T, best @ best.T, atol=1e-9)
    factors = (states - found.mean) @ found.projection.T
    np.testing.assert_allclose((share[:, None] * factors).T @ factors, np.eye(2), atol=1e-9)


def test_curves_are_predictions_at_a_point_of_the_factor(free):
    model, states, share = free
    model = model._replace(stretches=np.array([0.6, 1.0, 1.7]), style_weights=np.array([0.2, 0.5, 0.3]))
    found = solve(model, exact_population(states, share), "oblimin")
    at = np.array([-1.5, 0.0, 0.7])
    for factor in range(3):
        point = np.zeros((3, 3))
        point[:, factor] = at
        units = found.mean + point @ np.linalg.inv(found.projection).T
        cells = predict.all_cells(3, 4)
        truth = averaged_over_styles(model, units.astype(np.float32), cells).reshape(3, 4, -1)
        for question, n_levels in enumerate(model.n_levels):
            probability, _ = reading.response_curves(model, found, question, factor, at)
            np.testing.assert_allclose(probability, truth[:, question, :n_levels], atol=2e-5)


def test_information_is_minus_the_mean_second_derivative(free):
    model, states, share = free
    found = solve(model, exact_population(states, share), "varimax")
    step, at = 1e-3, np.linspace(-2, 2, 5)
    for question in range(4):
        below, here, above = (
            reading.response_curves(model, found, question, 0, at + move)[0] for move in (-step, 0.0, step)
        )
        second = (np.log(above) - 2 * np.log(here) + np.log(below)) / step**2
        _, information = reading.response_curves(model, found, question, 0, at)
        np.testing.assert_allclose(information, -(here * second).sum(axis=1), rtol=1e-3)


def test_omega_is_the_share_of_the_sum_that_factors_explain(free):
    model, states, share = free
    found = solve(model, exact_population(states, share), "oblimin")
    items, key = np.array([0, 2, 3]), np.array([1.0, -1.0, 1.0])
    mean = (states @ model.weights.T.astype(float) / found.spread)[:, items] @ key
    explained = share @ (mean - share @ mean) ** 2
    own = (1.0 / found.spread[items] ** 2).sum()
    assert reading.omega(found, items, key) == pytest.approx(explained / (explained + own))


def test_alpha_is_that_of_total_scores():
    rng = np.random.default_rng(0)
    answers = rng.integers(1, 6, (200, 1)) + rng.integers(0, 3, (200, 4)) * 1.0
    answers[:, 2] *= -1
    key = np.array([1.0, 1.0, -1.0, 1.0])
    total = (answers * key).sum(axis=1)
    truth = 4 / 3 * (1 - answers.var(axis=0).sum() / total.var())
    assert reading.cronbach_alpha(answers, key) == pytest.approx(truth)
    # Weights are as good as repeated rows, and gaps leave pairs that are known.
    weight = rng.integers(0, 3, 200).astype(float)
    repeated = np.repeat(answers, weight.astype(int), axis=0)
    weighted = reading.cronbach_alpha(answers, key, weight)
    assert weighted == pytest.approx(reading.cronbach_alpha(repeated, key))
    answers[rng.random(answers.shape) < 0.1] = np.nan
    assert reading.cronbach_alpha(answers, key) == pytest.approx(truth, abs=0.05)
    assert np.isnan(reading.cronbach_alpha(answers[:, :1], key[:1]))


def test_every_question_is_of_one_factor_the_strongest_first():
    pattern = np.array([[0.2, -0.7], [0.8, 0.1], [0.0, 0.0], [-0.9, 0.3]])
    found = reading.Solution(pattern, np.eye(2), np.ones(4), np.zeros(2), np.eye(2))
    assert [own.tolist() for own in reading.own_items(found)] == [[3, 1], [0]]

"""Latent regression: factors distributed as they are among people with the same background.

Covariates have slopes on the utilities and on the biases of the factors, and answers hardly tell in
which of the two is what utilities have in common. Here all that lies in the span of the weights is
the factors': h = B (1, x) + a residual of covariance Σ, with B and Σ by maximum likelihood
(stochastic EM), given the weights and thresholds of the fitted model.
"""

from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.side import Batch
from ordinalrbm.vector.loadings import Population, category_shares
from ordinalrbm.vector.model import VectorModel, follow_covariates, side, with_parameters
from ordinalrbm.vector.posterior import draws, gibbs_sweep

# Steps of EM in which it settles, and those whose moments are averaged.
_SETTLING, _AVERAGED, _GIBBS_STEPS = 15, 30, 3
# The more units, the nearer to normal is a factor that many questions share.
_UNITS = 10_000
# Directions of the weights so much weaker than the strongest explain no slopes, and covariates that
# are sums of others take no part.
_WEAKEST, _REDUNDANT = 1e-2, 1e-8


class Conditioned(NamedTuple):
    """A model with the same measurement whose own factors h' make h = ``shift`` + ``turn`` h'."""

    model: VectorModel
    turn: np.ndarray
    shift: np.ndarray

    def factors(self, own: np.ndarray) -> np.ndarray:
        return self.shift + own.astype(np.float64) @ self.turn.T


def conditioned(model: VectorModel, people: Population) -> Conditioned:
    """Return the model in which factors are distributed as among people with the same background.

    With many units and weights W' the precision of h' is 4/M − W'ᵀW'. With W' = W A it is AᵀΣ⁻¹A,
    as h = A h' + constant wants it, if A² = 4/M (Σ⁻¹ + WᵀW)⁻¹.
    """
    weights, mean = model.weights.astype(np.float64), people.regression[:, 0]
    slopes = model.slopes - weights @ _explained(model)
    felt, centre, moved = weights.copy(), model.bias + weights @ mean, np.zeros_like(slopes)
    for question, own in model.layout.nominal:
        centre[own] = share = category_shares(model, mean, question)
        felt[own] = np.sqrt(share)[:, None] * (weights[own] - share @ weights[own])
        moved[own] = share[:, None] * (slopes[own] - share @ slopes[own])
    root = Population(mean, people.residual).inverse_root
    precision = root @ root
    turn = 2.0 / np.sqrt(_UNITS) * Population(mean, precision + felt.T @ felt).inverse_root
    shift = mean - 0.5 * _UNITS * turn.sum(axis=1)
    parts = {
        "weights": weights @ turn,
        "bias": model.bias + weights @ shift,
        "factor_bias": -turn @ weights.T @ centre,
        "slopes": slopes,
        "factor_slopes": turn @ (precision @ people.regression[:, 1:] - weights.T @ moved),
    }
    single = {name: part.astype(np.float32) for name, part in parts.items()}
    return Conditioned(model._replace(units=_UNITS, **single), turn, shift)


def _explained(model: VectorModel) -> np.ndarray:
    """(K, P) what the factors can explain of the slopes of the utilities."""
    return np.linalg.lstsq(model.weights.astype(np.float64), model.slopes, rcond=_WEAKEST)[0]


def latent_regression(
    model: VectorModel, answers: Observations, weight: np.ndarray | None, start: Population, seed: int
) -> Population:
    """Return the population with means of the factors by background, and the covariance within."""
    n_rows, n_factors = answers.n_rows, model.n_factors
    design = np.column_stack([np.ones(n_rows), answers.covariates.astype(np.float64)])
    weighted = design.T * (1.0 / n_rows if weight is None else weight / weight.sum(dtype=np.float64))
    gram = weighted @ design
    solve = np.linalg.pinv(gram, rcond=_REDUNDANT, hermitian=True) @ weighted
    slopes = start.covariance @ model.factor_slopes + _explained(model)
    found = np.column_stack([start.mean - slopes @ gram[0, 1:], slopes])
    people = start._replace(regression=found, residual=start.covariance)
    now = conditioned(model, people)
    this = side(now.model, answers, "latent")
    state = next(draws(now.model, this, 1, seed))
    this, factors, second = this._replace(stretch=state.stretch), now.factors(state.factors), 0.0
    for step in range(_SETTLING + _AVERAGED):
        now = conditioned(model, people)
        this = with_parameters(this, now.model)
        follow_covariates(this, now.model, 0, n_rows)
        own = np.rint((factors - now.shift) @ np.linalg.inv(now.turn))
        drawn = np.clip(own, 0, _UNITS).astype(np.uint16)
        gibbs_sweep(now.model, this, drawn, Batch(0, n_rows, seed, step + 1, _GIBBS_STEPS))
        factors = now.factors(drawn)
        new = 1.0 / max(step - _SETTLING + 1, 1)
        found = found + new * ((solve @ factors).T - found)
        second = second + new * ((factors.T * weighted[0]) @ factors - second)
        # As if one person more for each factor had been seen.
        within = n_rows * (second - found @ gram @ found.T) + n_factors * start.covariance
        people = people._replace(regression=found, residual=within / (n_rows + n_factors))
    mean = found @ gram[0]
    covariance = people.residual + found @ gram @ found.T - np.outer(mean, mean)
    return people._replace(mean=np.clip(mean, 0.0, model.units), covariance=covariance)

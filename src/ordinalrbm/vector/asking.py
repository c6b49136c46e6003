"""What the answer to one more question is expected to tell about a person's factors.

Given the answers so far and a response style, factors are about Gaussian, with the covariance C of
linear response. Level l of a question with weights w then moves their mean by C w E[∂P(l)/∂u] / P(l)
(Stein's lemma), and the expected variance falls by that of these moves. Styles are averaged before
moves are squared, because an answer leaves the style uncertain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from ordinalrbm.data.questionnaire import NUMERIC
from ordinalrbm.engine.normal_reference import interval_slopes
from ordinalrbm.engine.side import Side
from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY
from ordinalrbm.vector import posterior
from ordinalrbm.vector.model import VectorModel
from ordinalrbm.vector.predict import factor_covariances


class Style(NamedTuple):
    """What is known of a person with one of the response styles."""

    share: float  # how likely it is
    factors: np.ndarray  # (K,) expected
    covariance: np.ndarray  # (K, K)
    utility: np.ndarray  # (N',) expected
    stretch: float


def styles_of(model: VectorModel, this: Side) -> list[Style]:
    """Return what is known of the first row, in each style that it may have."""
    found = []
    for state, weight, _ in posterior.mean_field(model, this).components:
        if weight[0] > posterior.IMPROBABLE:
            styled, factors = this._replace(stretch=state.stretch), state.factors[0].astype(np.float64)
            _, covariance = next(factor_covariances(model, styled, state.factors))
            utility = model.bias + model.weights @ factors
            if model.n_covariates:
                utility += model.slopes @ this.covariates[0]
            stretch = float(state.stretch[0]) if state.stretch.size else 1.0
            found.append(Style(float(weight[0]), factors, covariance[0], utility, stretch))
    total = sum(style.share for style in found)
    return [style._replace(share=style.share / total) for style in found]


def expected_reduction(
    model: VectorModel, styles: list[Style], targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Variances of projections (T, K) of the factors, and by how much each question lowers them, (T, N)."""
    centre = sum(style.share * style.factors for style in styles)
    chance: Any = 0.0
    moved, variance = chance, np.zeros(len(targets))
    for style in styles:
        probability, slopes = _levels(model, style)
        along, away = targets @ style.covariance, targets @ (style.factors - centre)
        variance += style.share * ((along * targets).sum(axis=1) + away**2)
        chance = chance + style.share * probability
        move = np.tensordot(along, slopes, 1) + away[:, None, None] * probability
        moved = moved + style.share * move
    return variance, (moved**2 / np.maximum(chance, SMALLEST_PROBABILITY)).sum(axis=2)


def once_answered(model: VectorModel, styles: list[Style], question: int) -> list[Style]:
    """Return what is expected to be known after an answer to a question, whatever it will be."""
    found = []
    for style in styles:
        probability, slopes = (part[..., question, :] for part in _levels(model, style))
        moves = style.covariance @ slopes / np.sqrt(np.maximum(probability, SMALLEST_PROBABILITY))
        found.append(style._replace(covariance=style.covariance - moves @ moves.T))
    return found


def _levels(model: VectorModel, style: Style) -> tuple[np.ndarray, np.ndarray]:
    """(N, L) probabilities of levels, and (K, N, L) their expected slopes along the factors."""
    plan, weights, width = model.layout, model.weights.astype(np.float64), max(2, int(model.n_levels.max()))
    first = plan.first[:-1]
    spread = np.sqrt(1.0 + ((weights @ style.covariance) * weights).sum(axis=1))[first, None]
    bounds = (style.stretch * model.thresholds[first, :-2] - style.utility[first, None]) / spread
    bounds = np.pad(bounds, ((0, 0), (0, width + 1 - bounds.shape[1])), constant_values=np.inf)
    probability, rise = interval_slopes(bounds)
    # A number tells as much as two levels, one standard deviation to either side.
    halves = np.pad([[0.5, 0.5], [-0.5, 0.5]], ((0, 0), (0, width - 2)))
    probability[plan.kind == NUMERIC], rise[plan.kind == NUMERIC] = halves
    slopes = weights[first].T[:, :, None] * (rise / spread)
    for question, own in plan.nominal:
        chance = softmax(style.utility[own])
        centred = ((weights[own] - chance @ weights[own]) * np.sqrt(chance)[:, None]).T
        # Beyond linear response: no more can be learnt than is unknown.
        values, vectors = np.linalg.eigh(centred.T @ style.covariance @ centred)
        damped = centred @ (vectors / np.sqrt(1.0 + np.maximum(values, 0.0))) @ vectors.T
        rest = (0, width - chance.size)
        probability[question] = np.pad(chance, rest)
        slopes[:, question] = np.pad(damped * np.sqrt(chance), ((0, 0), rest))
    return probability, slopes

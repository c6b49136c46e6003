"""Priors that set themselves: how widely the parameters of one half are spread.

Every parameter has a Gaussian prior around a common value. Its precision is estimated together
with the parameters (empirical Bayes): the spread of the true values is that of the estimates plus
what is not known about each of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordinalrbm.model.matrix import Half

# What one answer tells, in units of 1/variance: about a utility's mean, about a weight (its factor
# is on in half of the cases) and about the logarithm of a width.
_ABOUT_BIAS = 0.75
_ABOUT_WEIGHT = 0.75 * 0.25
_ABOUT_STEP = 0.15
_SMALLEST, _LARGEST = 0.1, 1e4


class Priors(NamedTuple):
    """Precisions of weights, biases and widths, and what biases and widths are drawn towards."""

    weights: float
    bias: float
    steps: float
    common_bias: float
    common_steps: np.ndarray  # (C, L − 1)


def starting_priors(half: Half, strength: float | None) -> Priors:
    """Before anything is known; ``strength`` fixes the precision of the weights."""
    weights = 2.0 * max(half.n_factors, 1) if strength is None else float(strength)
    centred = half.bias + 0.5 * half.weights.sum(axis=1)
    common = float(centred.mean()) if centred.size else 0.0
    return Priors(weights, 5.0, 20.0, common, half.steps.copy())


def updated(priors: Priors, half: Half, n_answers: np.ndarray, n_levels: np.ndarray) -> Priors:
    """Priors that fit the current parameters.

    Columns with the same number of levels have the same common widths.
    """
    seen = n_answers > 0
    count = n_answers[seen, None]
    centred = half.bias + 0.5 * half.weights.sum(axis=1)
    common_bias = float(np.average(centred[seen], weights=n_answers[seen]))
    common = priors.common_steps.copy()
    for levels in np.unique(n_levels[seen]):
        same = n_levels == levels
        common[same] = np.average(half.steps[same & seen], axis=0, weights=n_answers[same & seen])
    widths = (half.steps - common)[seen, 1:]
    return Priors(
        _precision(half.weights[seen], count, priors.weights, _ABOUT_WEIGHT),
        _precision(centred[seen, None] - common_bias, count, priors.bias, _ABOUT_BIAS),
        _precision(widths, count, priors.steps, _ABOUT_STEP),
        common_bias,
        common,
    )


def _precision(
    values: np.ndarray, count: np.ndarray, precision: float, information: float
) -> float:
    if values.size == 0:
        return precision
    uncertain = 1.0 / (precision + information * count)
    spread = np.mean(values.astype(np.float64) ** 2 + uncertain)
    return float(np.clip(1.0 / spread, _SMALLEST, _LARGEST))

"""Priors that set themselves: how widely the parameters of one half are spread.

Every parameter has a Gaussian prior around a common value. Its precision is estimated together
with the parameters (empirical Bayes): the spread of the true values is that of the estimates plus
what is not known about each of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordinalrbm.engine.side import Array
from ordinalrbm.matrix.model import Half

# What one answer tells, in units of 1/variance: about a utility's mean, about a weight (its factor
# is on in half of the cases) and about the logarithm of a width.
_ABOUT_BIAS = 0.75
_ABOUT_WEIGHT = 0.75 * 0.25
_ABOUT_STEP = 0.15
_SMALLEST, _LARGEST = 0.1, 1e4


class Priors(NamedTuple):
    """Precisions of weights, biases and gaps, and what biases and gaps are drawn towards."""

    weights: float
    bias: float
    cutpoints: float
    common_bias: float
    common_cutpoints: Array  # (C, L − 1)


def starting_priors(half: Half, strength: float | None, *, are_learnt: bool) -> Priors:
    """Before anything is known; ``strength`` fixes the precision of the weights.

    Where priors are not learnt, biases and gaps have none.
    """
    weights = 2.0 * max(half.n_factors, 1) if strength is None else float(strength)
    centred = half.bias + 0.5 * half.weights.sum(axis=1)
    common = float(centred.mean()) if centred.size else 0.0
    bias, cutpoints = (5.0, 20.0) if are_learnt else (0.0, 0.0)
    return Priors(weights, bias, cutpoints, common, half.cutpoints.copy())


def updated(priors: Priors, half: Half, n_answers: Array, n_levels: Array, scales: np.ndarray) -> Priors:
    """Priors that fit the current parameters.

    Columns with the same number of levels, one of ``scales``, have the same common gaps. Arrays
    are NumPy's or torch's.
    """
    seen = n_answers > 0
    count = n_answers[seen][:, None]
    centred = (half.bias + 0.5 * half.weights.sum(1))[seen][:, None]
    common_bias = float((_double(centred) * count).sum() / count.sum())
    common = priors.common_cutpoints + 0.0  # a copy
    for levels in scales.tolist():
        same = n_levels == levels
        weight = n_answers[same & seen][:, None]
        if float(weight.sum()):
            common[same] = (half.cutpoints[same & seen] * weight).sum(0) / weight.sum()
    gaps = (half.cutpoints - common)[seen][:, 1:]
    return Priors(
        _precision(half.weights[seen], count, priors.weights, _ABOUT_WEIGHT),
        _precision(centred - common_bias, count, priors.bias, _ABOUT_BIAS),
        _precision(gaps, count, priors.cutpoints, _ABOUT_STEP),
        common_bias,
        common,
    )


def _precision(values: Array, count: Array, precision: float, information: float) -> float:
    n = float(np.prod(values.shape))
    if not n:
        return precision
    of_squares = (_double(values) ** 2 + 1.0 / (precision + information * count)).sum()
    return float(np.clip(1.0 / float(of_squares / n), _SMALLEST, _LARGEST))


def _double(numbers: Array) -> Array:
    return numbers.astype(np.float64) if isinstance(numbers, np.ndarray) else numbers.double()

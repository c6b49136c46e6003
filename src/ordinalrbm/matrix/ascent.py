"""Steps up the gradient, over the columns that a batch has touched: AdaGrad, or plain ones.

:mod:`ordinalrbm.engine.gpu.ascent` has the same on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from ordinalrbm.engine.side import Statistics
from ordinalrbm.matrix.binary_priors import Priors
from ordinalrbm.matrix.binary_state import Steps
from ordinalrbm.matrix.model import Half
from ordinalrbm.runtime.jit import compiled, inlined


def ascend(
    half: Half,
    sums: Half,
    clamped: Statistics,
    free: Statistics,
    n_answers: np.ndarray,
    priors: Priors,
    steps: Steps,
) -> None:
    """Move the columns that a batch has touched, and the factors' biases; in place.

    ``sums`` are those of squared gradients; ``n_answers`` are those of each column in all batches.
    """
    _move_columns(
        half,
        sums,
        clamped,
        free,
        n_answers,
        priors.common_cutpoints,
        (priors.weights, priors.bias, priors.cutpoints, priors.common_bias),
        tuple(np.float32(number) for number in steps),
    )
    gradient = clamped.factor_bias - free.factor_bias
    sums.factor_bias[:] += np.float32(steps.adaptive) * gradient * gradient
    half.factor_bias[:] += np.float32(steps.rate) * gradient / np.sqrt(sums.factor_bias)


@compiled(parallel=True)
def _move_columns(
    half: Any, sums: Any, clamped: Any, free: Any, n_answers: Any, common: Any, priors: Any, steps: Any
) -> None:
    for column in prange(half.bias.size):
        if clamped.answers[column] > 0:
            _move_column(half, sums, clamped, free, n_answers, common, priors, steps, column)


@inlined
def _move_column(
    half: Any,
    sums: Any,
    clamped: Any,
    free: Any,
    n_answers: Any,
    common: Any,
    priors: Any,
    steps: Any,
    i: Any,
) -> None:
    # The prior is spread over the answers, so that an epoch counts it once.
    part = np.float32(clamped.answers[i] / n_answers[i])
    weights, sum_weights = half.weights[i], sums.weights[i]
    towards_bias = clamped.bias[i] - free.bias[i]
    rate, adaptive, centre = steps
    middle, moved = np.float32(0.0), np.float32(0.0)
    for k in range(weights.size):
        middle += np.float32(0.5) * weights[k]
    for k in range(weights.size):
        # Coded around their middle, a weight of factors turns the utility and does not shift it.
        g = clamped.weights[i, k] - free.weights[i, k] - centre * towards_bias
        g -= np.float32(priors[0]) * part * weights[k]
        sum_weights[k] += adaptive * g * g
        step = rate * g / np.sqrt(sum_weights[k])
        weights[k] += step
        moved += centre * step
    away = half.bias[i] + middle - np.float32(priors[3])
    g = towards_bias - np.float32(priors[1]) * part * away
    sums.bias[i] += adaptive * g * g
    half.bias[i] += rate * g / np.sqrt(sums.bias[i]) - moved
    for m in range(1, half.cutpoints.shape[1]):
        g2 = np.exp(half.cutpoints[i, m]) * clamped.thresholds[i, m]
        g2 -= priors[2] * part * (half.cutpoints[i, m] - common[i, m])
        sums.cutpoints[i, m] += adaptive * g2 * g2
        half.cutpoints[i, m] += rate * g2 / np.sqrt(sums.cutpoints[i, m])

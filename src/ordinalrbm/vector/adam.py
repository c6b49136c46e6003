"""One update of the parameters: Adam on centred coordinates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.runtime.jit import compiled
from ordinalrbm.vector.model import Gradient, VectorModel

_FIRST_DECAY = 0.9
_SECOND_DECAY = 0.999
_EPSILON = 1e-8


class Moments(NamedTuple):
    """Adam's running means of the gradient and of its square."""

    first: Gradient
    second: Gradient


def zero_moments(model: VectorModel) -> Moments:
    first, second = (
        Gradient(*(np.zeros_like(getattr(model, name)) for name in Gradient._fields))
        for _ in range(2)
    )
    return Moments(first, second)


def ascend(
    model: VectorModel, gradient: Gradient, moments: Moments, n_updates: int, rate: float
) -> None:
    """Move the model up the gradient, in place; ``n_updates`` counts from one."""
    scale = rate * np.sqrt(1.0 - _SECOND_DECAY**n_updates) / (1.0 - _FIRST_DECAY**n_updates)
    # Factors are coded around their middle when the weights move: a change of a weight then leaves
    # the mean utility where it was and only turns its slope, which the bias would else fight.
    # Weights of many units per factor are smaller by the root of their number.
    centre, finer = 0.5 * model.units, scale / np.sqrt(model.units)
    _move_columns(model.weights, model.bias, gradient, moments, scale, finer, centre)
    for part in ("factor_bias", "cutpoints"):
        _adam(
            getattr(model, part).reshape(-1),
            getattr(gradient, part).reshape(-1),
            getattr(moments.first, part).reshape(-1),
            getattr(moments.second, part).reshape(-1),
            scale,
        )


@compiled()
def _adam(parameter: Any, gradient: Any, first: Any, second: Any, scale: Any) -> None:
    for j in range(parameter.size):
        g = gradient[j]
        first[j] += (1 - _FIRST_DECAY) * (g - first[j])
        second[j] += (1 - _SECOND_DECAY) * (g * g - second[j])
        parameter[j] += scale * first[j] / (np.sqrt(second[j]) + _EPSILON)


@compiled()
def _move_columns(
    weights: Any, bias: Any, gradient: Any, moments: Any, scale: Any, finer: Any, centre: Any
) -> None:
    for i in range(bias.size):
        first, second = moments.first.weights[i], moments.second.weights[i]
        moved = 0.0
        for k in range(weights.shape[1]):
            g = gradient.weights[i, k] - centre * gradient.bias[i]
            first[k] += (1 - _FIRST_DECAY) * (g - first[k])
            second[k] += (1 - _SECOND_DECAY) * (g * g - second[k])
            step = finer * first[k] / (np.sqrt(second[k]) + _EPSILON)
            weights[i, k] += step
            moved += step
        g = gradient.bias[i]
        moments.first.bias[i] += (1 - _FIRST_DECAY) * (g - moments.first.bias[i])
        moments.second.bias[i] += (1 - _SECOND_DECAY) * (g * g - moments.second.bias[i])
        step = scale * moments.first.bias[i] / (np.sqrt(moments.second.bias[i]) + _EPSILON)
        bias[i] += step - centre * moved

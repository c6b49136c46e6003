"""One update of the parameters: Adam or plain steps, on centred coordinates or not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.runtime.jit import compiled, inlined
from ordinalrbm.vector.model import Gradient, VectorModel

_FIRST_DECAY = 0.9
_SECOND_DECAY = 0.999
_EPSILON = 1e-8


class Steps(NamedTuple):
    """How far parameters move along a gradient.

    Attributes
    ----------
    rate : the learning rate
    adaptive : whether by Adam; otherwise the step is the rate times the gradient
    centred : whether factors are measured from their middle when weights move
    """

    rate: float
    adaptive: bool
    centred: bool


class Moments(NamedTuple):
    """Adam's running means of the gradient and of its square."""

    first: Gradient
    second: Gradient


def zero_moments(model: VectorModel) -> Moments:
    first, second = (
        Gradient(*(np.zeros_like(getattr(model, name)) for name in Gradient._fields)) for _ in range(2)
    )
    return Moments(first, second)


def ascend(model: VectorModel, gradient: Gradient, moments: Moments, n_updates: int, steps: Steps) -> None:
    """Move the model up the gradient, in place; ``n_updates`` counts from one."""
    scale = steps.rate
    if steps.adaptive:
        scale *= np.sqrt(1.0 - _SECOND_DECAY**n_updates) / (1.0 - _FIRST_DECAY**n_updates)
    # Factors are coded around their middle when the weights move: a change of a weight then leaves
    # the mean utility where it was and only turns its slope, which the bias would else fight.
    # Weights of many units per factor are smaller by the root of their number, and their gradient
    # is larger by it.
    centre = 0.5 * model.units if steps.centred else 0.0
    finer = scale / np.sqrt(model.units) if steps.adaptive else scale / model.units
    _move_columns(model.weights, model.bias, gradient, moments, scale, finer, centre, steps.adaptive)
    for part in ("factor_bias", "cutpoints", "slopes", "factor_slopes"):
        _move(
            getattr(model, part).reshape(-1),
            getattr(gradient, part).reshape(-1),
            getattr(moments.first, part).reshape(-1),
            getattr(moments.second, part).reshape(-1),
            finer if part == "factor_slopes" else scale,
            steps.adaptive,
        )


@inlined
def _direction(g: Any, first: Any, second: Any, j: Any, adaptive: Any) -> Any:
    """Where to go along one coordinate: the gradient, or Adam's mean of it in its own unit."""
    if not adaptive:
        return np.float64(g)
    first[j] += (1 - _FIRST_DECAY) * (g - first[j])
    second[j] += (1 - _SECOND_DECAY) * (g * g - second[j])
    return first[j] / (np.sqrt(second[j]) + _EPSILON)


@compiled()
def _move(parameter: Any, gradient: Any, first: Any, second: Any, scale: Any, adaptive: Any) -> None:
    for j in range(parameter.size):
        parameter[j] += scale * _direction(gradient[j], first, second, j, adaptive)


@compiled()
def _move_columns(
    weights: Any, bias: Any, gradient: Any, moments: Any, scale: Any, finer: Any, centre: Any, adaptive: Any
) -> None:
    first, second = moments.first, moments.second
    for i in range(bias.size):
        moved = 0.0
        for k in range(weights.shape[1]):
            g = gradient.weights[i, k] - centre * gradient.bias[i]
            step = finer * _direction(g, first.weights[i], second.weights[i], k, adaptive)
            weights[i, k] += step
            moved += step
        step = scale * _direction(gradient.bias[i], first.bias, second.bias, i, adaptive)
        bias[i] += step - centre * moved

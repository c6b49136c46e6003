"""Steps of the vector model's parameters against the formulas."""

import numpy as np
import pytest

from ordinalrbm.vector.chains import Gradient, Steps, ascend, zero_moments
from ordinalrbm.vector.model import VectorModel


def random_model(rng, units):
    return VectorModel(
        weights=rng.normal(size=(3, 2)).astype(np.float32),
        bias=rng.normal(size=3).astype(np.float32),
        factor_bias=rng.normal(size=2).astype(np.float32),
        cutpoints=rng.normal(size=(3, 3)),
        n_levels=np.array([4, 4, 4]),
        units=units,
    )


@pytest.mark.parametrize("units", [1, 4])
@pytest.mark.parametrize("centred", [True, False])
def test_plain_steps_go_along_the_gradient(units, centred):
    rng = np.random.default_rng(units)
    model = random_model(rng, units)
    gradient = Gradient(*(rng.normal(size=getattr(model, name).shape) for name in Gradient._fields))
    gradient = Gradient(*(part.astype(np.float32) for part in gradient))
    moved, middle = model.copy(), 0.5 * units if centred else 0.0
    ascend(moved, gradient, zero_moments(model), 1, Steps(0.1, adaptive=False, centred=centred))
    slope = gradient.weights - middle * gradient.bias[:, None]
    step = moved.weights - model.weights
    np.testing.assert_allclose(step, 0.1 * slope / units, atol=1e-6)
    # In centred coordinates the bias is that of factors in their middle.
    before, after = (each.bias + middle * each.weights.sum(axis=1) for each in (model, moved))
    np.testing.assert_allclose(after - before, 0.1 * gradient.bias, atol=1e-6)
    for name in ("factor_bias", "cutpoints"):
        step = getattr(moved, name) - getattr(model, name)
        np.testing.assert_allclose(step, 0.1 * getattr(gradient, name), atol=1e-6)


def test_first_steps_of_adam_are_of_the_size_of_the_rate():
    rng = np.random.default_rng(0)
    model = random_model(rng, 1)
    gradient = Gradient(
        *(rng.normal(size=getattr(model, name).shape).astype(np.float32) for name in Gradient._fields)
    )
    moved = model.copy()
    ascend(moved, gradient, zero_moments(model), 1, Steps(0.01, adaptive=True, centred=False))
    step = moved.weights - model.weights
    np.testing.assert_allclose(step, 0.01 * np.sign(gradient.weights), rtol=1e-3)

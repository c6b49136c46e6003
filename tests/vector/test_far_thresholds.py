"""Thresholds that are far out or meet: probabilities are those of mpmath, and none is NaN."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.vector import likelihood, posterior, predict
from ordinalrbm.vector.model import VectorModel, side

N_LEVELS = np.array([5, 3], dtype=np.int32)
BIAS, WEIGHTS = np.array([0.3, -0.2], np.float32), np.array([[0.5], [-0.4]], np.float32)


def model_with(cutpoint):
    """All cutpoints are this: the first threshold, and the logarithms of the gaps."""
    cutpoints = np.full((2, 4), cutpoint)
    return VectorModel(WEIGHTS, BIAS, np.zeros(1, np.float32), cutpoints, N_LEVELS)


def by_mpmath(model, factors):
    """(questions, L) P(level | factors)."""
    found = np.zeros((2, N_LEVELS.max()))
    for i, bounds in enumerate(thresholds.table(model.cutpoints, N_LEVELS)):
        mean = mpmath.mpf(float(BIAS[i])) + mpmath.mpf(float(WEIGHTS[i, 0])) * float(factors[0])
        below = [mpmath.ncdf(mpmath.mpf(bound) - mean) for bound in bounds[: N_LEVELS[i] + 1]]
        found[i, : N_LEVELS[i]] = [float(b - a) for a, b in pairwise(below)]
    return found


@pytest.mark.parametrize("cutpoint", [-30.0, -36.5, -40.0, -50.0, -800.0, -1e4])
def test_probabilities_of_levels_that_are_nowhere(cutpoint):
    model = model_with(cutpoint)
    # Somebody has chosen each of these levels, and one has said nothing.
    answers = [[0, 1], [1, 0], [2, 2], [4, 1], [-1, -1]]
    observations = Observations.from_dense(np.array(answers), N_LEVELS)
    this = side(model, observations)
    found = posterior.mean_field(model, this)
    assert np.isfinite(found.factors).all()
    cells = predict.all_cells(len(answers), 2)
    for widened in (False, True):
        chances = predict.mixed(model, this, found, cells, widened=widened)
        assert (chances >= 0).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-12)
    truth = by_mpmath(model, found.factors[-1])
    chances = predict.mixed(model, this, found, cells)
    np.testing.assert_allclose(chances[-2:], truth, atol=1e-9)
    assert np.isfinite(likelihood.exact(model, this).value).all()

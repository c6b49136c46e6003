"""A quick check of the compiled kernels: sampled posteriors beside enumerated ones."""

from __future__ import annotations

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.vector import likelihood, posterior
from ordinalrbm.vector.model import VectorModel, side

# Answers of a few people to questions with 2, 3, 5 and 7 levels; −1 is unanswered.
_ANSWERS = np.array([[1, 0, 4, 2], [0, 2, 0, 6], [-1, 1, -1, 5], [1, -1, 3, -1]], dtype=np.int16)
_N_LEVELS = np.array([2, 3, 5, 7], dtype=np.int32)
_COPIES, _DRAWS, _SEED = 500, 40, 1
# Five standard errors of means over so many draws, of which neighbours are alike.
BOUND = 0.03


def difference() -> float:
    """How far sampled factors are from the enumerated ones; not a number if they are none."""
    model = _model()
    few, many = (
        side(model, Observations.from_dense(levels, _N_LEVELS))
        for levels in (_ANSWERS, np.repeat(_ANSWERS, _COPIES, axis=0))
    )
    states, weight = likelihood.exact_posterior(model, few)
    sampled = posterior.sampled(model, many, _DRAWS, _SEED)
    means = sampled.reshape(len(_ANSWERS), _COPIES, -1).mean(axis=1)
    return float(np.abs(means - weight @ states).max())


def _model() -> VectorModel:
    """A skewed model of four factors: no error of sign goes unnoticed."""
    rng = np.random.default_rng(0)
    cutpoints = np.zeros((_N_LEVELS.size, _N_LEVELS.max() - 1))
    cutpoints[:, 0] = rng.normal(-0.3, 0.4, _N_LEVELS.size)
    cutpoints[:, 1:] = np.log(rng.uniform(0.2, 1.0, cutpoints[:, 1:].shape))
    return VectorModel(
        weights=rng.normal(0.0, 0.7, (_N_LEVELS.size, 4)).astype(np.float32),
        bias=rng.normal(0.2, 0.5, _N_LEVELS.size).astype(np.float32),
        factor_bias=rng.normal(-0.4, 0.8, 4).astype(np.float32),
        cutpoints=cutpoints,
        n_levels=_N_LEVELS,
    )

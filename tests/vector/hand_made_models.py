"""Vector models made by hand, and the same models as the oracle sees them.

Scales of 2, 3, 5 and 7 levels stand side by side, thresholds and biases are off centre, so that
neither a swapped sign nor a level counted from the wrong end can go unnoticed.
"""

import enumeration as oracle
import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.vector.model import VectorModel

N_LEVELS = (2, 3, 5, 7)
# Complete rows, rows with gaps, a single answer, no answer; -1 is unanswered.
PATTERNS = np.array(
    [[1, 0, 4, 2], [0, 2, 0, 6], [-1, 1, -1, 5], [1, -1, 3, -1], [-1, -1, -1, 0], [-1, -1, -1, -1]]
)


def vector_model(seed=0, n_levels=N_LEVELS, n_factors=4, *, scale=0.7, units=1, dtype=np.float32):
    """A skewed model; ``scale`` is the standard deviation of its weights."""
    generator = np.random.default_rng(seed)
    n_levels = np.array(n_levels, dtype=np.int32)
    cutpoints = np.zeros((n_levels.size, n_levels.max() - 1))
    cutpoints[:, 0] = generator.normal(-0.3, 0.4, n_levels.size)
    cutpoints[:, 1:] = np.log(generator.uniform(0.2, 1.0, cutpoints[:, 1:].shape))
    return VectorModel(
        weights=generator.normal(0, scale, (n_levels.size, n_factors)).astype(dtype),
        bias=generator.normal(0.2, 0.5, n_levels.size).astype(dtype),
        factor_bias=generator.normal(-0.4, 0.8, n_factors).astype(dtype),
        cutpoints=cutpoints,
        n_levels=n_levels,
        units=units,
    )


def as_oracle(model):
    """The model with each unit a factor of its own and thresholds summed up from their steps."""
    thresholds = [
        cutpoints[0] + np.concatenate([[0.0], np.cumsum(np.exp(cutpoints[1 : levels - 1]))])
        if levels > 1
        else np.zeros(0)
        for cutpoints, levels in zip(model.cutpoints, model.n_levels, strict=True)
    ]
    return oracle.Model(
        weights=np.repeat(model.weights.astype(np.float64), model.units, axis=1),
        alpha=model.bias.astype(np.float64),
        gamma=np.repeat(model.factor_bias.astype(np.float64), model.units),
        thresholds=thresholds,
    )


def with_repeated_factors(model):
    """The model of the same distribution in which every unit is a factor."""
    return model._replace(
        weights=np.repeat(model.weights, model.units, axis=1),
        factor_bias=np.repeat(model.factor_bias, model.units),
        units=1,
    )


def observed(dense, n_levels=N_LEVELS):
    """Observations of a dense table of levels."""
    return Observations.from_dense(np.asarray(dense), np.array(n_levels))


def oracle_rows(dense):
    """The rows of a dense table of levels as the oracle takes them."""
    return [oracle.row_of({i: level for i, level in enumerate(row) if level >= 0}) for row in dense]


def expected_factors(model, distribution):
    """(K,) mean number of units that are on, from a distribution over the oracle's states."""
    states = oracle.states(model.n_factors * model.units)
    units_on = states.reshape(len(states), model.n_factors, model.units).sum(axis=2)
    return distribution @ units_on

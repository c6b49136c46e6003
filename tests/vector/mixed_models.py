"""Models with all kinds of questions made by hand, and the same as the oracle sees them.

Questions 0 and 3 are scales of 3 and 5 levels, 1 and 4 nominal with 3 and 2 categories, 2 and 5
numbers. Rows have two covariates. Everything is off centre.
"""

import mixed_enumeration as oracle
import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import Answers
from ordinalrbm.vector.model import VectorModel

KIND = np.array([0, 1, 2, 0, 1, 2], dtype=np.int8)
N_LEVELS = np.array([3, 3, 1, 5, 2, 1], dtype=np.int32)
# Answers of each question; NaN is unanswered. Then the covariates.
PATTERNS = np.array(
    [
        [1, 2, 0.7, 4, 0, -1.1],
        [2, 0, -1.5, 0, 1, 0.3],
        [np.nan, 1, 0.4, np.nan, np.nan, np.nan],
        [0, np.nan, np.nan, 2, 1, 2.0],
        [np.nan, np.nan, -0.6, np.nan, np.nan, np.nan],
        [np.nan, 2, np.nan, np.nan, np.nan, np.nan],
        [np.nan] * 6,
    ]
)
COVARIATES = np.array(
    [[0.5, -1.0], [0.0, 0.0], [-1.0, 0.7], [0.5, -1.0], [0.3, 0.9], [-0.8, 0.2], [1.0, 1.0]]
)


def mixed_model(seed=0, n_factors=3, *, scale=0.6, units=1, background=True):
    generator = np.random.default_rng(seed)
    n_columns, n_covariates = 9, 2 if background else 0
    cutpoints = np.zeros((n_columns, 4))
    cutpoints[:, 0] = generator.normal(-0.4, 0.3, n_columns)
    cutpoints[:, 1:] = np.log(generator.uniform(0.3, 0.9, (n_columns, 3)))
    cutpoints[[4, 8], 0] = np.log([1.4, 0.8])  # the scales of the numbers

    def normal(mean, deviation, *shape):
        return generator.normal(mean, deviation, shape).astype(np.float32)

    return VectorModel(
        weights=normal(0.0, scale, n_columns, n_factors),
        bias=normal(0.2, 0.5, n_columns),
        factor_bias=normal(-0.3, 0.6, n_factors),
        cutpoints=cutpoints,
        n_levels=N_LEVELS,
        units=units,
        kind=KIND,
        slopes=normal(0.1, 0.5, n_columns, n_covariates),
        factor_slopes=normal(0.1, 0.5, n_factors, n_covariates),
    )


def as_oracle(model):
    """The model with each unit a factor of its own."""
    weights = np.repeat(model.weights.astype(np.float64), model.units, axis=1)
    bias, cutpoints = model.bias.astype(np.float64), model.cutpoints
    slopes = model.slopes.astype(np.float64) if model.n_covariates else np.zeros((9, 2))
    of_factors = model.factor_slopes.astype(np.float64) if model.n_covariates else 0.0

    def scale(i, n):
        thresholds = cutpoints[i, 0] + np.append(0.0, np.cumsum(np.exp(cutpoints[i, 1 : n - 1])))
        return oracle.Scale(weights[i], bias[i], slopes[i], thresholds)

    def number(i):
        return oracle.Number(weights[i], bias[i], slopes[i], np.exp(cutpoints[i, 0]))

    def nominal(first, last):
        return oracle.Nominal(weights[first:last], bias[first:last], slopes[first:last])

    questions = [scale(0, 3), nominal(1, 4), number(4), scale(5, 5), nominal(6, 8), number(8)]
    gamma = np.repeat(model.factor_bias.astype(np.float64), model.units)
    of_factors = np.repeat(of_factors, model.units, axis=0) if model.n_covariates else 0.0
    return oracle.Model(questions, gamma, of_factors + np.zeros((gamma.size, 2)))


def observed(table=PATTERNS, covariates=COVARIATES, *, background=True):
    """Answers of a table like PATTERNS."""
    missing = np.isnan(table)
    levels = np.where(missing, -1, np.where(KIND == 2, 0, np.nan_to_num(table))).astype(int)
    observations = Observations.from_dense(levels, N_LEVELS)
    return Answers.of(observations, KIND, table[:, KIND == 2], covariates if background else None)


def oracle_rows(table=PATTERNS):
    """{question: answer} of each row."""
    return [
        {
            j: float(value) if KIND[j] == 2 else int(value)
            for j, value in enumerate(row)
            if not np.isnan(value)
        }
        for row in table
    ]


def expected_factors(model, distribution):
    """(K,) mean number of units that are on."""
    every = oracle.states(model.n_factors * model.units)
    return distribution @ every.reshape(len(every), model.n_factors, model.units).sum(axis=2)

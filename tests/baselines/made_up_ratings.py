"""Tables whose truth is known: skewed thresholds, scales of several lengths, gaps."""

from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Cells, Observations

# Widths that differ and no symmetry: a sign or an order that is wrong shows.
ENDS = {1: [], 2: [0.4], 3: [-1.1, 0.2], 5: [-2.0, -1.5, -0.3, 0.9]}


class Ratings(NamedTuple):
    train: Observations
    validation: Cells
    test: Cells


def ratings(n_rows=120, n_columns=50, scales=(5,), density=0.5, n_factors=2, seed=0):
    """Answers of a factor model with a probit, split into three."""
    rng = np.random.default_rng(seed)
    n_levels = np.resize(scales, n_columns)
    utility = rng.normal(0, 0.5, (n_rows, 1)) + rng.normal(0, 0.7, (1, n_columns))
    factors = rng.normal(0, 1.0, (n_rows, n_factors)), rng.normal(0, 0.8, (n_factors, n_columns))
    utility = utility + factors[0] @ factors[1] + rng.normal(0, 1, utility.shape)
    levels = np.stack(
        [np.searchsorted(ENDS[int(n)], utility[:, i]) for i, n in enumerate(n_levels)], axis=1
    )
    part = np.where(rng.random(levels.shape) < density, rng.integers(0, 10, levels.shape), -1)
    train = np.where(part >= 2, levels, -1)
    return Ratings(
        Observations.from_dense(train, n_levels), cells(levels, part == 0), cells(levels, part == 1)
    )


def cells(levels, chosen):
    rows, columns = np.nonzero(chosen)
    return Cells(rows, columns, levels[rows, columns])


def column_shares(train, columns):
    """What is left without any model of the rows: the shares of the levels in each column."""
    width = int(train.n_levels.max())
    counts = np.full((train.n_columns, width), 0.5) * (np.arange(width) < train.n_levels[:, None])
    np.add.at(counts, (train.column, train.level.astype(int)), 1.0)
    return (counts / counts.sum(axis=1, keepdims=True))[columns]


def mean_log(distribution, levels):
    return np.log(distribution[np.arange(len(levels)), levels]).mean()

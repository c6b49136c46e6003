"""What every engine is given: ragged ratings, and parameters of any number of factors."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.base import FactorPosterior, Prior
from ordinalrbm.matrix.variational import GaussianState

# Random sides are made as for the other tests of engines.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))
from random_sides import random_thresholds, side_of


def ragged():
    """Three scales; the second row is empty, the third has one rating, the last column none."""
    rng = np.random.default_rng(0)
    n_levels = np.array([5, 5, 3, 5, 7, 5, 5, 2])
    dense = rng.integers(0, n_levels, (14, 8))
    dense[rng.random(dense.shape) < 0.3] = -1
    dense[1], dense[2, 1:], dense[2, 0], dense[:, 7] = -1, -1, 2, -1
    return Observations.from_dense(dense, n_levels)


def one_long_row():
    """A row hundreds of times longer than the rest, of which some are empty."""
    rng = np.random.default_rng(1)
    lengths = [0, 1, 300, 1, 0, 1]
    row = np.repeat(np.arange(6), lengths)
    column = np.concatenate([rng.permutation(300)[:n] for n in lengths])
    return Observations.from_triples(row, column, rng.integers(0, 5, row.size), 6, 300, np.full(300, 5))


def many():
    """Enough for ten factors."""
    rng = np.random.default_rng(4)
    dense = rng.integers(0, 5, (30, 24))
    dense[rng.random(dense.shape) < 0.3] = -1
    return Observations.from_dense(dense, np.full(24, 5))


def long_scale():
    """So many levels that neighbouring gaps move together; see `few_moving`."""
    rng = np.random.default_rng(6)
    n_levels = np.array([12, 7, 10])
    dense = rng.integers(0, n_levels, (5, 3))
    dense[1, 0] = dense[3, 2] = -1
    return Observations.from_dense(dense, n_levels)


@contextmanager
def few_moving(ratings):
    """Let four gaps of a long scale move by themselves, for which an interpreter has time."""
    usual = thresholds.MOST_MOVING
    thresholds.MOST_MOVING = 4 if ratings is long_scale else usual
    try:
        yield
    finally:
        thresholds.MOST_MOVING = usual


# Ratings and numbers of factors.
CASES = {
    **{f"ragged, {n} factors": (ragged, n) for n in (1, 50, 100, 200)},
    "one long row, 50 factors": (one_long_row, 50),
    "one long row, 6 factors": (one_long_row, 6),
    "long scale, 3 factors": (long_scale, 3),
}
# Triton's interpreter takes seconds for what takes a GPU microseconds.
FOR_INTERPRETER = (
    "ragged, 1 factors",
    "ragged, 50 factors",
    "ragged, 200 factors",
    "one long row, 6 factors",
    "long scale, 3 factors",
)


def state(observations, n_factors):
    """Rows and columns with nothing symmetric, and gaps that move."""
    rng = np.random.default_rng(2)
    width = int(observations.n_levels.max()) - 1
    most = np.full(observations.n_rows, width + 1)
    rows = _posterior(rng, n_factors, width, most, first=0.0)
    columns = _posterior(rng, n_factors, width, observations.n_levels, first=-0.9)
    return GaussianState(rows, columns, _prior(rng, rows), _prior(rng, columns))


def _posterior(rng, n_factors, width, n_levels, *, first):
    n = n_levels.size
    # A long scale does not reach farther out than one of seven levels.
    cutpoints = rng.normal(-0.4 - 0.5 * np.log(max(width, 6) / 6), 0.3, (n, width))
    cutpoints[:, 0] = first
    gaps = np.exp(cutpoints)
    gaps[:, 0] = first
    # Around zero, as learning keeps them; else systems are close to singular.
    mean = rng.normal(0, 0.6 / np.sqrt(n_factors), (n, 1 + n_factors))
    mean[:, 0] += 0.2
    return FactorPosterior(
        mean.astype(np.float32),
        rng.uniform(0.02, 0.1, mean.shape).astype(np.float32) / n_factors,
        cutpoints,
        gaps,
        n_levels.astype(np.int32),
    )


def _prior(rng, posterior):
    return Prior(
        rng.uniform(0.5, 3.0, posterior.mean.shape[1]).astype(np.float32),
        posterior.cutpoints + rng.normal(0.1, 0.2, posterior.cutpoints.shape),
        rng.uniform(2.0, 8.0, posterior.cutpoints.shape[1]),
    )


def side(observations, n_factors):
    """A side of a matrix model, with offsets and gaps of the rows' own, and where chains are."""
    rng = np.random.default_rng(5)
    n_rows, n_columns = observations.n_rows, observations.n_columns
    thresholds = random_thresholds(rng, observations.n_levels)
    side = side_of(
        observations,
        weights=rng.normal(0, 0.6 / np.sqrt(n_factors), (n_columns, n_factors)),
        bias=rng.normal(0, 0.3, n_columns),
        thresholds=thresholds,
        factor_bias=rng.normal(0, 0.3, n_factors),
        offset=rng.normal(0, 0.5, observations.n_entries),
        row_gaps=rng.uniform(0.5, 1.5, (n_rows, thresholds.shape[1])),
    )
    return side, rng.integers(0, 2, (n_rows, n_factors)).astype(np.uint8)

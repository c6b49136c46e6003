"""Small tables of answers that hang together, for the tests of the estimators."""

import numpy as np
import pandas as pd

import ordinalrbm as orbm
from ordinalrbm.vector.model import ARRAYS

N_LEVELS = (2, 3, 5, 7, 5, 3)
NAMES = ["smokes", "health", "mood", "trust", "income", "town"]
SMALL = {"n_factors": 3, "n_epochs": 4, "batch_size": 32, "random_state": 0}


def small(**changes):
    """An estimator that learns in no time."""
    return orbm.CumulativeRBM.binary(**{**SMALL, **changes})


def levels(n_rows=150, n_levels=N_LEVELS, *, missing=0.15, seed=0):
    """Levels from 0, -1 where unanswered; one trait is behind all questions."""
    generator = np.random.default_rng(seed)
    trait = generator.normal(size=(n_rows, 1))
    utility = 1.2 * trait + generator.normal(size=(n_rows, len(n_levels)))
    dense = np.empty(utility.shape, dtype=int)
    for i, n in enumerate(n_levels):
        # Off centre, so that scales are not symmetric.
        bounds = np.quantile(utility[:, i], np.linspace(0.3, 0.85, n - 1)) if n > 1 else []
        dense[:, i] = np.searchsorted(bounds, utility[:, i])
    dense[generator.random(dense.shape) < missing] = -1
    return dense


def numbers(dense):
    """Levels as answers 1, 2, ... with NaN."""
    return np.where(dense >= 0, dense + 1.0, np.nan)


def frame(n_rows=150, **options):
    """The same as a pandas frame with names."""
    return pd.DataFrame(numbers(levels(n_rows, **options)), columns=NAMES)


SCALES = {name: list(range(1, n + 1)) for name, n in zip(NAMES, N_LEVELS, strict=True)}


def assert_same_model(one, other):
    """Bit for bit."""
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one.model_, name), getattr(other.model_, name), err_msg=name)
    assert one.model_.units == other.model_.units
    assert one.best_epoch_ == other.best_epoch_

"""gcimpute's Gaussian copulas: filling a table, and the distributions it does not tell itself."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from threadpoolctl import threadpool_limits


def gcimpute() -> SimpleNamespace:
    """Import gcimpute 0.0.4 and undo what it does to warnings.

    It calls ``np.round_``, which NumPy 2 no longer has, and turns every warning of the process
    into an error on import.
    """
    np.round_ = np.round  # noqa: NPY003, NPY201
    with warnings.catch_warnings():
        from gcimpute.gaussian_copula import GaussianCopula
        from gcimpute.low_rank_gaussian_copula import LowRankGaussianCopula
    return SimpleNamespace(GaussianCopula=GaussianCopula, LowRankGaussianCopula=LowRankGaussianCopula)


def impute(model: Any, train: pd.DataFrame) -> np.ndarray:
    """Fit a gcimpute model, all columns ordinal, and return the filled table.

    Its linear algebra is on tables of one respondent, where more than one BLAS thread per process
    only gets in the way of the other process.
    """
    with threadpool_limits(1):
        return model.fit_transform(train.to_numpy(), ordinal=list(range(train.shape[1])))


def copula_probabilities(
    model: Any, train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray, column_levels: list[np.ndarray]
) -> np.ndarray:
    """Return the probabilities of the levels of the hidden cells under a fitted copula.

    gcimpute offers samples only, one pass over the data for each (and not for the low-rank model,
    where they raise an error). But it knows the mean and the standard deviation of the latent
    normal of a cell, from which it computes its own confidence intervals: together with the cut
    points of the column's marginal they give the distribution without sampling error.
    ``column_levels`` are the sorted levels of each column, as seen in ``train``.
    """
    with threadpool_limits(1):
        spread = truncation_variance(model)
        deviation = model._get_cond_std_missing(Cord=spread)[rows, columns]
    mean = model._latent_Zimp[rows, columns]
    probabilities = np.zeros((rows.size, longest(column_levels)))
    for column in np.unique(columns):
        cells = columns == column
        known = column_levels[column]
        share = train.iloc[:, column].value_counts(normalize=True)[known].to_numpy()
        cuts = norm.ppf(np.cumsum(share)[:-1])
        below = norm.cdf((cuts - mean[cells, None]) / deviation[cells, None])
        probabilities[cells, : known.size] = np.diff(below, axis=1, prepend=0.0, append=1.0)
    return probabilities


def truncation_variance(model: Any) -> np.ndarray:
    """Return the variance of the latent normals of the observed cells within their levels.

    A mini-batch fit keeps that of its last batch only, so that it has to be computed anew.
    """
    if len(model._latent_Cord) == len(model._latent_Zimp):
        return model._latent_Cord
    latent, lower, upper = model._observed_to_latent()
    return model._fillup_latent(Z=latent, Z_ord_lower=lower, Z_ord_upper=upper)[1]


def longest(column_levels: list[np.ndarray]) -> int:
    """Return the largest number of levels: the width of a table of probabilities."""
    return max(known.size for known in column_levels)

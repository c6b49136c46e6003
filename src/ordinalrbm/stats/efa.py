"""Exploratory factor analysis of a correlation matrix: minres, how well it fits, how many factors.

Minimum residuals (Harman and Jones 1966), which are unweighted least squares: uniquenesses ψ at which
R − diag(ψ) has the smallest sum of squared eigenvalues beside the n largest. Indices of fit are those
of psych (by the discrepancy of maximum likelihood) and of lavaan (by that of least squares).
"""

from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

Discrepancy = Literal["ml", "uls"]
_LEAST_UNIQUE = 0.005


class Indices(NamedTuple):
    """How well a model of correlations fits; see :func:`fit_indices`."""

    chi2: float
    df: int
    rmsea: float
    cfi: float
    tli: float
    srmr: float
    rmsr: float


def minres(correlation: np.ndarray, n_factors: int) -> np.ndarray:
    """(N, n) loadings of uncorrelated factors with the smallest residual correlations."""
    n = len(correlation)

    def loss(unique: np.ndarray) -> tuple[float, np.ndarray]:
        values, vectors = np.linalg.eigh(correlation - np.diag(unique))
        values, vectors = values[: n - n_factors], vectors[:, : n - n_factors]
        return 0.5 * float(values @ values), -(vectors**2) @ values

    squared_multiple = 1.0 - 1.0 / np.diag(np.linalg.inv(correlation))
    start = np.clip(1.0 - squared_multiple, _LEAST_UNIQUE, 1.0)
    bounds = [(_LEAST_UNIQUE, 1.0)] * n
    tight = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options=tight)
    values, vectors = np.linalg.eigh(correlation - np.diag(found.x))
    chosen = np.argsort(values)[::-1][:n_factors]
    return vectors[:, chosen] * np.sqrt(np.maximum(values[chosen], 0.0))


def implied(loadings: np.ndarray) -> np.ndarray:
    found = loadings @ loadings.T
    np.fill_diagonal(found, 1.0)
    return found


def degrees_of_freedom(n_columns: int, n_factors: int) -> int:
    """Of a factor analysis whose factors may be rotated at will."""
    return n_columns * (n_columns - 1) // 2 - n_columns * n_factors + n_factors * (n_factors - 1) // 2


def fit_indices(
    correlation: np.ndarray,
    model: np.ndarray,
    n_rows: int,
    df: int,
    *,
    n_factors: int = 0,
    discrepancy: Discrepancy = "ml",
) -> Indices:
    """How well correlations of n rows are explained by those that a model implies.

    "ml" is what psych's ``fa`` prints, with Bartlett's correction for so many factors, "uls" what
    lavaan prints for unweighted least squares. SRMR counts the zeros of the diagonal, as lavaan does;
    RMSR does not, as in psych.
    """
    n, above = len(correlation), np.triu_indices(len(correlation), 1)
    df_0 = above[0].size
    squares = float(np.square((correlation - model)[above]).sum())
    if discrepancy == "uls":
        chi2, chi2_0 = (n_rows - 1.0) * squares, (n_rows - 1.0) * float(np.square(correlation[above]).sum())
    else:
        correction, ratio = n_rows - 1.0 - (2.0 * n + 5.0) / 6.0, np.linalg.solve(model, correlation)
        away = float(np.trace(ratio) - np.linalg.slogdet(ratio)[1] - n)
        chi2 = away * (correction - 2.0 * n_factors / 3.0)
        chi2_0 = -float(np.linalg.slogdet(correlation)[1]) * correction
    srmr, rmsr = np.sqrt(squares / (df_0 + n)), np.sqrt(squares / df_0)
    if df <= 0:  # anything would fit
        return Indices(chi2, df, 0.0, 1.0, 1.0, float(srmr), float(rmsr))
    rmsea = np.sqrt(max(chi2 / (df * n_rows) - 1.0 / (n_rows - (discrepancy == "ml")), 0.0))
    surplus, surplus_0 = max(chi2 - df, 0.0), max(chi2_0 - df_0, chi2 - df)
    cfi = 1.0 - surplus / surplus_0 if surplus_0 > 0.0 else 1.0
    by_df, by_df_0 = chi2 / df, chi2_0 / df_0
    tli = (by_df_0 - by_df) / (by_df_0 - 1.0) if by_df_0 > 1.0 else 1.0
    return Indices(chi2, df, float(rmsea), cfi, tli, float(srmr), float(rmsr))


def average_partials(correlation: np.ndarray, most: int) -> np.ndarray:
    """(most + 1,) mean squared partial correlations without 0, 1, … principal components.

    The number of components at which it is smallest is that of Velicer's MAP (1976).
    """
    n = len(correlation)
    values, vectors = np.linalg.eigh(correlation)
    order = np.argsort(values)[::-1]
    loadings = vectors[:, order] * np.sqrt(np.maximum(values[order], 0.0))
    found = np.full(most + 1, np.nan)
    for k in range(most + 1):
        left = correlation - loadings[:, :k] @ loadings[:, :k].T
        size = np.diag(left)
        if (size <= 1e-9).any():
            break
        partial = left / np.sqrt(np.outer(size, size))
        found[k] = (np.square(partial).sum() - n) / (n * (n - 1))
    return found

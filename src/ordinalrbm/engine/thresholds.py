"""Thresholds that stay in order: a first value and the logarithms of the widths above it.

``steps[i, 0]`` is θ_1 and stays where it is put; ``steps[i, m]`` is log(θ_{m+1} − θ_m). Columns
with fewer levels leave the rest of their row unused.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

# A level that nobody chose is given half an answer, so that its width is positive.
_PSEUDO_COUNT = 0.5
# Two levels of the table are no levels: the interval between them is the whole line.
_UNKNOWN_ENDS = (-np.inf, np.inf)
# Of logarithms of widths; a utility has a standard deviation of one, and nothing that was learnt
# comes near. Those of a row and a column are added, and their exponential is a float32.
LARGEST_STEP = 40.0


def unknown_level(table: np.ndarray) -> int:
    """Level that stands for an answer nobody knows: its interval is the whole line."""
    return table.shape[1] - 2


def table(steps: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """Ends of all levels: −∞, θ_1, …, θ_{L−1}, +∞, padded with +∞, then the unknown level.

    Examples
    --------
    >>> table(np.array([[-1.0, np.log(2.0)]]), np.array([3]))
    array([[-inf,  -1.,   1.,  inf, -inf,  inf]])
    """
    n_columns, width = steps.shape
    ends = np.full((n_columns, width + 4), np.inf)
    ends[:, 0] = -np.inf
    ends[:, 1] = steps[:, 0]
    np.exp(steps[:, 1:], out=ends[:, 2 : width + 1])
    np.cumsum(ends[:, 1 : width + 1], axis=1, out=ends[:, 1 : width + 1])
    ends[:, 1 : width + 1][unused(n_levels, width)] = np.inf
    ends[:, -2:] = _UNKNOWN_ENDS
    return ends


def unused(n_levels: np.ndarray, width: int) -> np.ndarray:
    """Where a column has no threshold, because its scale is shorter than the longest."""
    return np.arange(width) >= np.asarray(n_levels)[:, None] - 1


def n_steps(n_levels: np.ndarray) -> int:
    """How many steps a column has in a model whose columns have so many levels."""
    return max(int(n_levels.max()) - 1, 1)


def at_marginals(counts: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """Steps at which a standard normal has the observed share of each level.

    Parameters
    ----------
    counts : (N, L) how often each level of each column was chosen
    n_levels : (N,)
    """
    width = max(counts.shape[1] - 1, 1)
    steps = np.zeros((counts.shape[0], width))
    for i, levels in enumerate(n_levels):
        if levels > 1:
            smoothed = counts[i, :levels] + _PSEUDO_COUNT
            ends = ndtri(np.cumsum(smoothed)[:-1] / smoothed.sum())
            steps[i, 0] = ends[0]
            steps[i, 1 : levels - 1] = np.log(np.diff(ends))
    return steps


def step_gradient(
    steps: np.ndarray, table_gradient: np.ndarray, n_levels: np.ndarray
) -> np.ndarray:
    """Gradient with respect to the steps from the gradient with respect to the ends.

    A step moves every threshold from its own upwards; the first does not move.
    """
    width = steps.shape[1]
    ends = np.where(unused(n_levels, width), 0.0, table_gradient[:, 1 : width + 1])
    above = np.cumsum(ends[:, ::-1], axis=1)[:, ::-1]
    gradient = np.exp(steps) * above
    gradient[:, 0] = 0.0
    return gradient

"""Thresholds that stay in order: a first value and the logarithms of the gaps above it.

``cutpoints[i, 0]`` is θ_1 and stays where it is put; ``cutpoints[i, m]`` is log(θ_{m+1} − θ_m).
Columns with fewer levels leave the rest of their row unused. The bounds of a level are the
thresholds below and above it.
"""

from typing import Literal

import numpy as np
from scipy.special import ndtri

from ordinalrbm.runtime.jit import inlined, inlined_sum

# Where they start: at the quantiles of the answers, or one apart.
FirstThresholds = Literal["marginal", "even"]
# A level without answers is given half of one, so that its gap is positive.
PSEUDO_COUNT = 0.5
# Where evenly spaced thresholds end, if they are many.
_FARTHEST = 2.0
# Two levels of the table are no levels: the interval between them is the whole line.
_UNKNOWN_BOUNDS = (-np.inf, np.inf)
# Of logarithms of gaps; a utility has a standard deviation of one, and nothing that was learnt
# comes near. Those of a row and a column are added, and their exponential is a float32, as is its
# square.
LARGEST_CUTPOINT = 20.0


# Gaps of a row that move by themselves. On a longer scale, neighbours move together: a row's
# answers could not tell their gaps apart, and the cost would grow with the cube of the levels.
MOST_MOVING = 32


def moving_gaps(n_cutpoints: int) -> np.ndarray:
    """Where the groups of gaps that move together begin, by their number from 1, and end.

    Examples
    --------
    >>> moving_gaps(5).tolist()
    [0, 1, 2, 3, 4, 5]
    >>> moving_gaps(201)[[1, 2, 32, 33]].tolist()
    [1, 8, 195, 201]
    """
    n_gaps = max(n_cutpoints - 1, 0)
    n_groups = min(n_gaps, MOST_MOVING)
    starts = 1 + np.ceil(np.arange(n_groups + 1) * n_gaps / max(n_groups, 1)).astype(np.int64)
    return np.concatenate([[0], starts])


def unknown_level(table: np.ndarray) -> int:
    return table.shape[1] - 2


def table(cutpoints: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """The bounds of all levels: −∞, θ_1, …, θ_{L−1}, +∞, padded, then the unknown level.

    Examples
    --------
    >>> table(np.array([[-1.0, np.log(2.0)]]), np.array([3]))
    array([[-inf,  -1.,   1.,  inf, -inf,  inf]])
    """
    n_columns, width = cutpoints.shape
    bounds = np.full((n_columns, width + 4), np.inf)
    bounds[:, 0] = -np.inf
    bounds[:, 1] = cutpoints[:, 0]
    np.exp(cutpoints[:, 1:], out=bounds[:, 2 : width + 1])
    np.cumsum(bounds[:, 1 : width + 1], axis=1, out=bounds[:, 1 : width + 1])
    bounds[:, 1 : width + 1][unused(n_levels, width)] = np.inf
    bounds[:, -2:] = _UNKNOWN_BOUNDS
    return bounds


def unused(n_levels: np.ndarray, width: int) -> np.ndarray:
    """Where a column has no threshold, because its scale is shorter than the longest."""
    return np.arange(width) >= np.asarray(n_levels)[:, None] - 1


def n_cutpoints(n_levels: np.ndarray) -> int:
    return max(int(n_levels.max()) - 1, 1)


def at_marginals(counts: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """Cutpoints at which a standard normal has the observed share of each level.

    Parameters
    ----------
    counts : (N, L) how often each level of each column was chosen
    n_levels : (N,)
    """
    width = max(counts.shape[1] - 1, 1)
    cutpoints = np.zeros((counts.shape[0], width))
    for i, levels in enumerate(n_levels):
        if levels > 1:
            smoothed = counts[i, :levels] + PSEUDO_COUNT
            bounds = ndtri(np.cumsum(smoothed)[:-1] / smoothed.sum())
            cutpoints[i, 0] = bounds[0]
            cutpoints[i, 1 : levels - 1] = np.log(np.diff(bounds))
    return cutpoints


def even(n_levels: np.ndarray) -> np.ndarray:
    """Cutpoints at equal distances, whose middle is zero.

    One apart, or less on long scales, where none is further out than two.

    Examples
    --------
    >>> table(even(np.array([4])), np.array([4]))[0, :5]
    array([-inf,  -1.,   0.,   1.,  inf])
    """
    gap = np.minimum(1.0, 2.0 * _FARTHEST / np.maximum(n_levels - 2, 1))
    cutpoints = np.zeros((n_levels.size, max(int(n_levels.max(initial=2)) - 1, 1)))
    cutpoints[:, 1:] = np.log(gap)[:, None]
    cutpoints[:, 0] = np.where(n_levels > 1, -0.5 * gap * (n_levels - 2), 0.0)
    return cutpoints


def cutpoint_gradient(cutpoints: np.ndarray, table_gradient: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """The gradient by the cutpoints, given the gradient by the bounds.

    A cutpoint moves every threshold from its own upwards; the first does not move.
    """
    width = cutpoints.shape[1]
    bounds = np.where(unused(n_levels, width), 0.0, table_gradient[:, 1 : width + 1])
    above = np.cumsum(bounds[:, ::-1], axis=1)[:, ::-1]
    gradient = np.exp(cutpoints) * above
    gradient[:, 0] = 0.0
    return gradient


# ---- bounds of a cell's level, where row and column both have cutpoints ------------------------
# The first threshold is the sum of a number of the column and one of the row; every gap above it is
# the product of theirs. From the logarithms that are learnt, from the gaps themselves, and from
# tables made for a whole pass.


@inlined
def gap(column_cutpoints, row_cutpoints, level):
    """Gap of an inner level, from cutpoints; level 0 and the last have none."""
    return np.exp(column_cutpoints[level] + row_cutpoints[level])


@inlined
def bounds(column_cutpoints, row_cutpoints, level):
    """Lower and upper bound of a level, from cutpoints.

    The last level of a shorter scale has no upper bound, which only the caller knows.
    """
    low, high = -np.inf, column_cutpoints[0] + row_cutpoints[0]
    for m in range(1, level + 1):
        low = high
        if m < column_cutpoints.size:
            high += gap(column_cutpoints, row_cutpoints, m)
    return low, high


@inlined
def bounds_from_gaps(column_gaps, row_gaps, level):
    """Lower and upper bound of a level, from gaps; the first ones are added."""
    low, high = -np.inf, column_gaps[0] + row_gaps[0]
    for m in range(1, level + 1):
        low = high
        if m < column_gaps.size:
            high += column_gaps[m] * row_gaps[m]
    return low, high


@inlined
def bounds_from_table(column_bounds, row_gaps, level):
    """Lower and upper bound of a level, from a column's bounds and a row's gaps."""
    low, high = -np.inf, column_bounds[1] + row_gaps[0]
    for m in range(1, level + 1):
        low = high
        high += row_gaps[m] * (column_bounds[m + 1] - column_bounds[m])
    return low, high


# ---- sums over factors, part of every kernel that calls them -------------------------------------


@inlined_sum
def dot(a, b):
    total = np.float32(0.0)
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@inlined_sum
def add_scaled(target, scale, source):
    for k in range(target.size):
        target[k] += scale * source[k]

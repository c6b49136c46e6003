"""Polychoric correlations: of the utilities behind two columns' answers, for all pairs at once.

Two answers are assumed to come from a bivariate normal cut at thresholds (Olsson 1979). With
the thresholds held where the marginals put them, a pair has one parameter, and its likelihood needs
no more than the pair's table of counts. Fisher scoring finds it in a few steps.

Pairs that few rows have in common are then drawn towards no correlation, the more the fewer.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from ordinalrbm.data.observations import Observations

# Columns that always agree would have a correlation of one, where there is no density.
_LARGEST_CORRELATION = 0.97
_LARGEST_Z = np.arctanh(_LARGEST_CORRELATION)
_SMALLEST_EIGENVALUE = 0.02
# A threshold so far out is as good as infinite, and can be computed with.
_FAR = 8.0
# Longer scales are pooled: ten levels tell most of what the utilities themselves would.
_MAX_LEVELS = 10
# Thresholds are put as if every level had been chosen half a time more. Tables must agree: without
# these answers, two columns that have a single answer in common would seem to correlate.
_PRIOR_ANSWERS = 0.5
# What is left of a probability whose digits have cancelled.
_SMALLEST_PROBABILITY = 1e-12
# A row with less is one without any, but for rounding: one of its columns has a single level.
_SMALLEST_INFORMATION = 1e-12
_MAX_STEPS = 15
# Steps are in Fisher's z = artanh(ρ), about which a row tells nearly as much everywhere. A step
# that is small compared with the standard error is the last.
_LONGEST_STEP = 1.0
_SMALL_STEP = 0.05
# Gauss-Legendre needs more nodes for larger correlations: up to these, and beyond.
_RULE_LIMITS = np.array([0.3, 0.75])
_RULES = tuple(np.polynomial.legendre.leggauss(n) for n in (6, 12, 24))
# Numbers in a temporary array, and columns and rows of a block of dummies: some megabytes each.
# Sums of so few rows are exact in float32.
_CHUNK = 1 << 16
_BLOCK_COLUMNS = 1 << 10
_BLOCK_ROWS = 1 << 12
# Where a smaller share of the answers is given, sparse products are quicker.
_SPARSE = 0.1


class Correlations(NamedTuple):
    """Correlations of all pairs of columns; all arrays are (N, N) and symmetric."""

    correlation: np.ndarray  # the most likely one; 0 where nothing is known, 1 on the diagonal
    variance: np.ndarray  # by the Fisher information; infinite where nothing is known, 0 on the diagonal
    common: np.ndarray  # number of rows that answer both columns


def polychoric(
    observations: Observations,
    bounds: np.ndarray,
    prior: float = _PRIOR_ANSWERS,
    row_weight: np.ndarray | None = None,
) -> Correlations:
    """Polychoric correlations of all pairs of columns, each from the rows that answer both.

    ``bounds`` are (N, L + 1 or more): −∞, thresholds and +∞ of every column, for utilities of
    variance one; what comes after the first L + 1 is not looked at. See
    :func:`ordinalrbm.engine.thresholds.table`. So many uncorrelated answers are added for every level.

    Weighted rows of a pair are as many as Kish's effective number of them; rows of weight zero do not count.
    """
    levels, bounds = _pooled(observations, bounds)
    effective = None
    if row_weight is not None:
        levels, row_weight = levels[row_weight > 0], row_weight[row_weight > 0]
        effective = _effective_per_weight(levels >= 0, row_weight)
    n_columns = levels.shape[1]
    correlation = np.eye(n_columns)
    variance = np.full((n_columns, n_columns), np.inf)
    np.fill_diagonal(variance, 0.0)
    common = np.diag(np.count_nonzero(levels >= 0, axis=0))
    for first, second, counts in _tables(levels, bounds.shape[1] - 1, row_weight):
        n_rows = counts.sum(axis=(1, 2))
        if effective is not None:
            counts = counts * effective[0][first, second, None, None]
            n_rows = effective[1][first, second]
        rho, information = _most_likely(counts, bounds[first], bounds[second], prior)
        with np.errstate(divide="ignore"):
            error = 1.0 / information
        for i, j in ((first, second), (second, first)):
            correlation[i, j], variance[i, j], common[i, j] = rho, error, n_rows
    return Correlations(correlation, variance, common)


def kish(weight: np.ndarray) -> float:
    """The effective number of rows: as many of equal weight would tell about as much of a mean."""
    return float(weight.sum() ** 2 / np.square(weight).sum())


def _effective_per_weight(there: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, N) Kish's number of the rows that answer both columns by the sum of their weights; and rows."""
    answered = there.astype(np.float64)
    sums, squares = ((answered * part[:, None]).T @ answered for part in (weight, np.square(weight)))
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(sums / squares), answered.T @ answered


# ---- likelihood -------------------------------------------------------------------------------


def cell_probabilities(
    first_bounds: np.ndarray, second_bounds: np.ndarray, rho: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Probability of every two levels, for P pairs of columns, and its derivative by ρ.

    The derivative of the bivariate normal distribution function by ρ is its density (Plackett
    1954). Integrated from ρ = 0, where levels are independent, over the angle whose sine is ρ
    (Drezner and Wesolowsky 1990), it gives the distribution function at the corners of a cell.

    Bounds of the levels are (P, L + 1), from −∞ to +∞; the results are (P, L, L).
    """
    h = np.clip(first_bounds[:, 1:-1], -_FAR, _FAR)[:, :, None]
    k = np.clip(second_bounds[:, 1:-1], -_FAR, _FAR)[:, None, :]
    product, squares = h * k, 0.5 * (h * h + k * k)
    change = _over_corners(_integrated_density(product, squares, rho))
    first, second = np.diff(ndtr(first_bounds)), np.diff(ndtr(second_bounds))
    probability = first[:, :, None] * second[:, None, :] + change
    sine = rho[:, None, None]
    density = _kernel(product, squares, sine) / np.sqrt(1.0 - sine * sine)
    return np.maximum(probability, _SMALLEST_PROBABILITY), _over_corners(density)


def _integrated_density(product: np.ndarray, squares: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Density at (h, k), given by hk and (h² + k²)/2, integrated over correlations from 0 to ρ."""
    integral = np.zeros_like(product)
    rule_of_pair = np.searchsorted(_RULE_LIMITS, np.abs(rho))
    for rule, (nodes, weights) in enumerate(_RULES):
        part = np.flatnonzero(rule_of_pair == rule)
        half = 0.5 * np.arcsin(rho[part])[:, None, None]
        some = (product[part], squares[part])
        for node, weight in zip(nodes, weights, strict=True):
            integral[part] += weight * half * _kernel(*some, np.sin(half * (1.0 + node)))
    return integral


def _kernel(product: np.ndarray, squares: np.ndarray, sine: np.ndarray) -> np.ndarray:
    """Bivariate density, times the cosine of the angle whose sine is the correlation."""
    return np.exp((product * sine - squares) / (1.0 - sine * sine)) / (2.0 * np.pi)


def _over_corners(values: np.ndarray) -> np.ndarray:
    """From values where thresholds cross, the signed sum over the corners of each cell.

    Outermost cells have corners at infinity, where there is nothing.
    """
    return np.diff(np.diff(np.pad(values, ((0, 0), (1, 1), (1, 1))), axis=1), axis=2)


def _most_likely(
    counts: np.ndarray, first_bounds: np.ndarray, second_bounds: np.ndarray, prior: float = _PRIOR_ANSWERS
) -> tuple[np.ndarray, np.ndarray]:
    """Most likely correlation of each pair, and the information that its rows have about it."""
    n_rows = counts.sum(axis=(1, 2))
    counts = counts + prior * _once_more(first_bounds, second_bounds)
    n_counted = counts.sum(axis=(1, 2))
    z, last_step, per_row = np.zeros((3, n_rows.size))
    moving = np.flatnonzero(n_rows)
    for _ in range(_MAX_STEPS):
        if moving.size == 0:
            break
        rho = np.tanh(z[moving])
        probability, derivative = cell_probabilities(first_bounds[moving], second_bounds[moving], rho)
        ratio = derivative / probability
        per_row[moving] = (derivative * ratio).sum(axis=(1, 2))
        slope = (counts[moving] * ratio).sum(axis=(1, 2))
        # From here on by z, dρ/dz = 1 − ρ².
        inner = 1.0 - rho * rho
        information = n_counted[moving] * per_row[moving] * inner**2
        step = slope * inner / np.maximum(information, _SMALLEST_INFORMATION)
        # Few rows may have more information than is to be expected, and steps then go too far.
        step = np.where(step * last_step[moving] < 0.0, 0.5 * step, step)
        step = np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        step = np.clip(z[moving] + step, -_LARGEST_Z, _LARGEST_Z) - z[moving]
        z[moving] += step
        last_step[moving] = step
        moving = moving[np.abs(step) * np.sqrt(information) > _SMALL_STEP]
    known = per_row > _SMALLEST_INFORMATION
    return np.where(known, np.tanh(z), 0.0), np.where(known, n_rows * per_row, 0.0)


def _once_more(first_bounds: np.ndarray, second_bounds: np.ndarray) -> np.ndarray:
    """Each level of either column once more, with what the other column answers anyway."""
    first, second = (np.diff(ndtr(bounds)) for bounds in (first_bounds, second_bounds))
    # Where a scale is shorter than the longest, it has levels of no probability.
    more_first, more_second = (1.0 * (share > 0.0) for share in (first, second))
    return more_first[:, :, None] * second[:, None, :] + first[:, :, None] * more_second[:, None, :]


def prior_answers(first_levels: np.ndarray, second_levels: np.ndarray) -> np.ndarray:
    """How many uncorrelated answers are added to those of a pair, by its numbers of levels."""
    return _PRIOR_ANSWERS * (first_levels + second_levels)


# ---- tables -----------------------------------------------------------------------------------


def _pooled(observations: Observations, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Levels as a dense array, −1 where unanswered, and their bounds, with long scales pooled.

    A pool holds neighbouring levels, and as nearly as can be the same share of the utilities as any other.
    """
    n_levels = observations.n_levels
    longest = int(n_levels.max(initial=1))
    width = min(longest, _MAX_LEVELS)
    pool = np.tile(np.arange(longest), (n_levels.size, 1))
    pooled_bounds = bounds[:, : width + 1].copy()
    for i in np.flatnonzero(n_levels > _MAX_LEVELS):
        below = ndtr(bounds[i, : longest + 1])
        middle = 0.5 * (below[:-1] + below[1:])
        pool[i] = np.minimum((width * middle).astype(np.int64), width - 1)
        # A pool begins where its first level does; one without levels is empty.
        first = np.searchsorted(pool[i], np.arange(1, width))
        pooled_bounds[i] = np.concatenate([[-np.inf], bounds[i, first], [np.inf]])
    levels = np.full((observations.n_rows, n_levels.size), -1, dtype=np.int8)
    row_start = observations.row_start
    # In blocks: indices are 64 bits wide on the way.
    for start in range(0, observations.n_rows, _BLOCK_ROWS):
        bounds_at = row_start[start : start + _BLOCK_ROWS + 1]
        entries = slice(bounds_at[0], bounds_at[-1])
        row = np.repeat(np.arange(start, start + bounds_at.size - 1), np.diff(bounds_at))
        column = observations.column[entries]
        levels[row, column] = pool[column, observations.level[entries]]
    return levels, pooled_bounds


def _tables(
    levels: np.ndarray, width: int, weight: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """All pairs of columns, a chunk at a time: (P,) first and second ones, (P, L, L) counts."""
    group = max(_BLOCK_COLUMNS // width, 1)
    chunk = max(_CHUNK // width**2, 1)
    starts = range(0, levels.shape[1], group)
    for a in starts:
        for b in starts[a // group :]:
            block = _block_of_tables(levels, slice(a, a + group), slice(b, b + group), width, weight)
            i, j = np.indices(block.shape[:2]).reshape(2, -1)
            i, j = i[a + i < b + j], j[a + i < b + j]
            for start in range(0, i.size, chunk):
                some = slice(start, start + chunk)
                yield a + i[some], b + j[some], block[i[some], j[some]]


def _block_of_tables(
    levels: np.ndarray, first: slice, second: slice, width: int, weight: np.ndarray | None
) -> np.ndarray:
    """(first columns, second columns, L, L) counts, as a product of dummies."""
    sizes = [levels[:0, columns].shape[1] for columns in (first, second)]
    counts = np.zeros((width * sizes[0], width * sizes[1]))
    for start in range(0, len(levels), _BLOCK_ROWS):
        rows = levels[start : start + _BLOCK_ROWS]
        one = _dummies(rows[:, first], width)
        # A matrix by itself is half the work, and is recognised.
        other = one if first == second else _dummies(rows[:, second], width)
        if weight is not None:
            other = sparse.diags_array(weight[start : start + _BLOCK_ROWS]) @ other
        product = one.T @ other
        counts += product.toarray() if sparse.issparse(product) else product
    return counts.reshape(width, sizes[0], width, sizes[1]).transpose(1, 3, 0, 2)


def _dummies(levels: np.ndarray, width: int) -> np.ndarray | sparse.csr_array:
    """(rows, L × columns): for each level, ones where it was chosen."""
    n_rows, n_columns = levels.shape
    row, column = np.nonzero(levels >= 0)
    place = levels[row, column].astype(np.int64) * n_columns + column
    shape = (n_rows, width * n_columns)
    if row.size < _SPARSE * levels.size:
        return sparse.csr_array((np.ones(row.size, dtype=np.float32), (row, place)), shape=shape)
    dummies = np.zeros(shape, dtype=np.float32)
    dummies[row, place] = 1.0
    return dummies


# ---- shrinkage --------------------------------------------------------------------------------


def effective_rows(found: Correlations) -> np.ndarray:
    """(N, N) rows that would tell as much of a correlation, were utilities seen themselves.

    Zero on the diagonal and where nothing is known.
    """
    known = np.isfinite(found.variance) & (found.variance > 0.0)
    squared = found.correlation[known] ** 2
    rows = np.zeros_like(found.variance)
    rows[known] = (1.0 - squared) ** 2 / ((1.0 + squared) * found.variance[known])
    return rows


def prior_rows(correlation: np.ndarray, rows: np.ndarray) -> float:
    """Uncorrelated rows to add to those of each pair, by how much correlations differ from zero.

    True correlations have some variance τ² around zero, and seen ones 1/rows more. All pairs together tell
    τ², and a prior with that variance counts as 1/τ² rows: without end when what is seen could as well be
    noise. If all pairs have as many rows, they shrink by the weight of Schäfer and Strimmer (2005).

    Both are (N, N); effective ``rows`` are zero where nothing is known.
    """
    surplus = float((rows * correlation**2).sum() - np.count_nonzero(rows))
    return float(rows.sum()) / surplus if surplus > 0.0 else np.inf


def shrunk(correlation: np.ndarray, rows: np.ndarray, prior: float) -> np.ndarray:
    """Correlations as if ``prior`` > 0 uncorrelated rows had been seen in addition."""
    result = correlation * (rows / (rows + prior))
    np.fill_diagonal(result, 1.0)
    return result


def positive_definite(correlation: np.ndarray) -> np.ndarray:
    """The correlation matrix with its small and negative eigenvalues raised.

    Pairs that are judged one by one, and by different rows, need not agree with each other.
    """
    try:
        np.linalg.cholesky(correlation - _SMALLEST_EIGENVALUE * np.eye(len(correlation)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(correlation)
    else:
        return correlation  # as it nearly always is, and that is quick to see
    raised = (vectors * np.maximum(values, _SMALLEST_EIGENVALUE)) @ vectors.T
    size = np.sqrt(np.diag(raised))
    return raised / np.outer(size, size)

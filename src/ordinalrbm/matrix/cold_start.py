"""Rows and columns of which nothing is known: what all models predict for them.

An unknown row is like the average of the known ones, and may be as far from it as anybody is.
Arrays are NumPy's or torch's: the same functions serve on cores and on a GPU.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.side import Array


def average(lines: Array, counts: np.ndarray | None) -> Array:
    if counts is None or not counts.any():
        return lines.mean(0)
    return np.average(lines, axis=0, weights=counts).astype(lines.dtype)


def append(part: Array, last: Array) -> Array:
    if isinstance(part, np.ndarray):
        return np.concatenate([part, np.asarray(last, dtype=part.dtype)[None]])
    return library(part).cat([part, last[None].to(part.dtype)])


def library(array: Array) -> Any:
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def set_mean_cutpoints(cutpoints: np.ndarray, n_levels: np.ndarray, learnt: np.ndarray) -> None:
    """Give columns that were not learnt the mean thresholds of their scale; in place."""
    for levels in np.unique(n_levels[~learnt]):
        same = n_levels == levels
        if (same & learnt).any():
            cutpoints[same & ~learnt] = cutpoints[same & learnt].mean(axis=0)


def cutpoints_by_levels(cutpoints: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """(L + 1, L − 1): mean cutpoints for each number of levels, of all where no column has it."""
    found = np.tile(cutpoints.mean(axis=0), (cutpoints.shape[1] + 2, 1))
    for levels in np.unique(n_levels):
        found[levels] = cutpoints[n_levels == levels].mean(axis=0)
    return found


# What a model expects counts like so many answers. For an unknown row it knows nothing of the row
# (MovieLens 1M: 10 to 50 are about as good); for an unknown column it has already seen the row's
# answers, so that their frequencies add less (new items of MovieLens 100K, InstEval and Libimseti:
# 20 is better than 100 on one of them and worse on another).
WORTH_FOR_UNKNOWN_ROWS = 20.0
WORTH_FOR_UNKNOWN_COLUMNS = 100.0


def blend_with_frequencies(distribution: np.ndarray, counts: np.ndarray, worth: float) -> np.ndarray:
    """Blend what a model expects of an unknown row or column with how often each level was given.

    Both are (cells, L). ``counts`` are the answers of the column whose row is unknown, since
    its raters came to it as the others did, or those of the row whose column is unknown.
    """
    return (worth * distribution + counts) / (worth + counts.sum(axis=1, keepdims=True))


# Of each level, so many more ratings: one that is hardly ever given has no ratio to speak of.
_PRIOR_COUNT, _MOST_RATIO, _FITTING_STEPS = 1.0, 100.0, 20


def with_ratios(distribution: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    found = distribution * ratios
    return found / np.maximum(found.sum(axis=1, keepdims=True), 1e-12)


def level_ratios(expected: np.ndarray, counts: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """(L,) what distributions of rows for an unknown column are multiplied by.

    An unknown column is expected to be like the average of the known ones, as if anybody had come to
    it. But rows choose columns that they like: with these ratios the rows, each of which counts as
    often as it has answers, give levels as often as they were given (iterative proportional fitting).
    """
    share = (frequencies + _PRIOR_COUNT) / (frequencies + _PRIOR_COUNT).sum()
    ratios = np.ones(share.size)
    for _ in range(_FITTING_STEPS):
        found = np.average(with_ratios(expected, ratios), axis=0, weights=counts)
        ratios = np.clip(ratios * share / np.maximum(found, 1e-12), 1.0 / _MOST_RATIO, _MOST_RATIO)
    return ratios


def wide(cutpoints: np.ndarray, width: int) -> np.ndarray:
    """Longer scales than were learnt have cutpoints of zero."""
    return np.pad(cutpoints, ((0, 0), (0, width - cutpoints.shape[1])))


def in_turns(
    observations: Observations,
    n_rows: int,
    n_columns: int,
    infer_new_rows: Callable[[Observations], None],
    infer_new_columns: Callable[[Observations], None],
) -> None:
    """Rows from known columns, then columns from all rows, then rows again if that tells more.

    The first rows and columns, so many, are known.
    """
    has_new_columns = observations.n_columns > n_columns
    rows = observations.take_rows(np.arange(n_rows, observations.n_rows))
    on_known = rows.select(rows.column < n_columns) if has_new_columns else rows
    infer_new_rows(on_known)
    if has_new_columns:
        infer_new_columns(observations.transpose().take_rows(np.arange(n_columns, observations.n_columns)))
        if on_known.n_entries < rows.n_entries:
            infer_new_rows(rows)


def with_more(array: np.ndarray, more: int, value: Array) -> np.ndarray:
    longer = np.empty((array.shape[0] + more, *array.shape[1:]), dtype=array.dtype)
    longer[: array.shape[0]] = array
    longer[array.shape[0] :] = value
    return longer


def with_last_on(n_levels: np.ndarray, cutpoints: np.ndarray, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels and cutpoints of columns, the last being on a scale of so many levels."""
    levels, cutpoints = n_levels.copy(), cutpoints.copy()
    levels[-1] = last
    set_mean_cutpoints(cutpoints, levels, np.arange(levels.size) < levels.size - 1)
    return levels, cutpoints

"""How recent a rating is among those of its user: how many the user has given since."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordinalrbm.data.times import read_times
from ordinalrbm.errors import DataError

OLDEST = 255  # ages are kept in one byte; what is older is as old as this


def ages(user: np.ndarray, times: Any) -> np.ndarray | None:
    """How many ratings their users have given later, 255 at most; None if times cannot be read.

    Times are a help and no more, so that a column of them that makes no sense is left alone.

    Examples
    --------
    >>> ages(np.array([7, 9, 7, 7]), [100, 50, 300, 300]).tolist()
    [2, 0, 0, 0]
    """
    try:
        time = read_times(times)
    except DataError:
        return None
    order = np.lexsort((time, user))
    user, time = user[order], time[order]
    ends = np.append(user[1:] != user[:-1], True)
    later = _next(ends) - _next(ends | np.append(time[1:] != time[:-1], True))
    found = np.empty(user.size, dtype=np.uint8)
    found[order] = np.minimum(later, OLDEST)
    return found


def older(age: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Ages after so many newer ratings.

    Examples
    --------
    >>> older(np.array([3, 250], dtype=np.uint8), np.array([2, 9])).tolist()
    [5, 255]
    """
    return np.minimum(age.astype(np.int64) + by, OLDEST).astype(np.uint8)


def _next(marked: np.ndarray) -> np.ndarray:
    """(n,) the first marked place from each on; the last one is marked."""
    places = np.flatnonzero(marked)
    return places[np.searchsorted(places, np.arange(marked.size))]

"""How recent a rating is among those of its user: how many the user has given since."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.data.columns import shown
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.errors import DataError, DataTypeError, user_stacklevel
from ordinalrbm.runtime.blocks import each_block
from ordinalrbm.runtime.jit import compiled

OLDEST = 65_535  # ages are kept in two bytes; what is older is as old as this
_MISSING = ["", "NaT", "nan", "None", "null"]  # as text
_IS_TIME = (pd.api.types.is_numeric_dtype, pd.api.types.is_datetime64_any_dtype)
_NO_TIME = np.iinfo(np.int64).min  # before all others


def recency_rank(user: np.ndarray, times: Any) -> np.ndarray | None:
    """How many ratings their users have given later; None if times cannot be read.

    Times are a help and no more, so that a column of them that makes no sense is left alone. A
    rating whose time is missing is as old as can be, which a warning says, and the others keep
    their ages.
    """
    time = _read(times)
    if time is None:
        return None
    order = np.argsort(user, kind="stable")
    begins = np.flatnonzero(np.diff(user[order], prepend=-1))
    found = np.empty(time.size, dtype=np.uint16)
    found[order] = _numbers_of_later(np.append(begins, time.size), time[order])
    return found


def ages_by_cell(observations: Observations, cells: Cells, times: Any) -> np.ndarray | None:
    """Ages in the order of observations; times are in that of the cells these were made of."""
    time = _read(times)
    if time is None:
        return None
    by_cell = np.empty_like(time)

    def put(block: slice) -> None:
        by_cell[observations.search(cells.row[block], cells.column[block])] = time[block]

    each_block(put, time.size)
    return _numbers_of_later(observations.row_start, by_cell)


def add_to_rank(age: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Ages after so many newer ratings."""
    return np.minimum(age.astype(np.int64) + by, OLDEST).astype(np.uint16)


def _read(times: Any) -> np.ndarray | None:
    """Whole numbers in the order of the times, ``_NO_TIME`` where there is none."""
    given = pd.Series(times)
    known = given.notna().to_numpy()
    if not any(is_one(given.dtype) for is_one in _IS_TIME):
        known = known & ~given.astype(str).isin(_MISSING).to_numpy()
    if not known.any():
        return None
    if not known.all():
        warnings.warn(
            f"{np.count_nonzero(~known):,} of {known.size:,} ratings have no time and count as the "
            "oldest of their users; fill in the times, or drop these ratings.",
            stacklevel=user_stacklevel(),
        )
    try:
        time = read_times(given if known.all() else given[known])
    except DataError:
        return None
    if time.dtype != np.int64:
        time = np.unique(time, return_inverse=True)[1].astype(np.int64)
    found = np.full(known.size, _NO_TIME)
    found[known] = time
    return found


def _numbers_of_later(row_start: np.ndarray, time: np.ndarray) -> np.ndarray:
    n_rows, found = row_start.size - 1, np.empty(time.size, dtype=np.uint16)

    def count(rows: slice) -> None:
        _count_later(row_start[rows.start : rows.stop + 1], time, found)

    each_block(count, n_rows, time.size // max(n_rows, 1))
    found[time == _NO_TIME] = OLDEST
    return found


@compiled()
def _count_later(row_start, time, found):
    for d in range(row_start.size - 1):
        first, stop = row_start[d], row_start[d + 1]
        ordered = np.sort(time[first:stop])
        for e in range(first, stop):
            not_later = np.searchsorted(ordered, time[e], side="right")
            found[e] = min(ordered.size - not_later, OLDEST)


# ---- times of ratings: numbers, dates, or dates in text as ISO 8601 writes them ------------------


def read_times(values: Any, where: str = "Row", remedy: str = "") -> np.ndarray:
    """Numbers in the order of the times; as `as_times` takes them."""
    times = as_times(values, where, remedy)
    if pd.api.types.is_datetime64_any_dtype(times.dtype):
        return times.astype("int64").to_numpy()
    if pd.api.types.is_integer_dtype(times.dtype):
        return times.to_numpy(dtype=np.int64 if times.max() < 2**63 else np.uint64)
    return times.to_numpy(dtype=np.float64)


def as_times(values: Any, where: str = "Row", remedy: str = "") -> pd.Series:
    """Numbers as they are, dates and dates in text such as 2024-05-01T12:00+02:00 as pandas' dates.

    What names no zone is in UTC. Errors begin with ``where`` and the number of the row, and end
    with a ``remedy`` such as "use protocol='random'".
    """
    times = pd.Series(values)
    missing = times.isna().to_numpy()
    if missing.any():
        raise DataError(
            f"{where} {int(missing.argmax())} (counted from 0): the timestamp is missing; drop "
            f"such rows{remedy and f' or {remedy}'}."
        )
    if times.dtype == object or isinstance(times.dtype, pd.StringDtype):
        times = _from_objects(times, where)
    if not any(is_one(times.dtype) for is_one in _IS_TIME):
        raise DataTypeError(
            f"The timestamps must be numbers or dates, not {times.dtype} such as "
            f"{times.iloc[0]!r}; convert them, for example with pandas.to_datetime."
        )
    return times


def _from_objects(times: pd.Series, where: str) -> pd.Series:
    if not isinstance(times.iloc[0], str | datetime.date):
        return times.infer_objects()
    dates = pd.to_datetime(times, format="ISO8601", utc=True, errors="coerce")
    unreadable = dates.isna().to_numpy()
    if unreadable.any():
        row = int(unreadable.argmax())
        raise DataError(
            f"{where} {row} (counted from 0): the timestamp {shown(times.iloc[row])} is neither a "
            "number nor a date such as 2024-05-01 or 2024-05-01 12:00:00+02:00; correct it."
        )
    return dates

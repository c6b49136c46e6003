"""Times of ratings: numbers, dates, or dates in text as ISO 8601 writes them."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.data.columns import shown
from ordinalrbm.errors import DataError, DataTypeError


def read_times(values: Any, where: str = "Row", remedy: str = "") -> np.ndarray:
    """Times as NumPy numbers, whose order is that of the times; as `as_times` takes them.

    Examples
    --------
    >>> times = read_times(["2024-05-01", "2024-05-01T01:00+02:00"])
    >>> times.argsort().tolist()
    [1, 0]
    """
    times = as_times(values, where, remedy)
    if pd.api.types.is_datetime64_any_dtype(times.dtype):
        return times.astype("int64").to_numpy()
    if pd.api.types.is_integer_dtype(times.dtype):
        return times.to_numpy(dtype=np.int64 if times.max() < 2**63 else np.uint64)
    return times.to_numpy(dtype=np.float64)


def as_times(values: Any, where: str = "Row", remedy: str = "") -> pd.Series:
    """Times as numbers or as pandas' dates.

    Parameters
    ----------
    values : array-like
        Numbers, dates, or text such as 2024-05-01, 2024-05-01 12:00 or 2024-05-01T12:00:00+02:00;
        what names no zone is in UTC.
    where : str
        How an error message begins, before the number of the row.
    remedy : str
        How one does without times, such as "use protocol='random'".
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
    is_time = pd.api.types.is_numeric_dtype, pd.api.types.is_datetime64_any_dtype
    if not any(is_one(times.dtype) for is_one in is_time):
        raise DataTypeError(
            f"The timestamps must be numbers or dates, not {times.dtype} such as "
            f"{times.iloc[0]!r}; convert them, for example with pandas.to_datetime."
        )
    return times


def _from_objects(times: pd.Series, where: str) -> pd.Series:
    """Text as dates, dates of Python as those of pandas; numbers among objects stay."""
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

"""When ratings were given, and how recent each is: how many its user has given since."""

import datetime
import warnings
from math import gcd
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from ordinalrbm.data.columns import shown
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.errors import DataError, DataTypeError, user_stacklevel
from ordinalrbm.runtime.blocks import each_block
from ordinalrbm.runtime.jit import allocating_kernel
from ordinalrbm.runtime.process_group import ALONE, Alone, Group
from ordinalrbm.storage.reader import Stored, wrong

OLDEST = 65_535  # ages are kept in two bytes; what is older is as old as this
_MISSING = ["", "NaT", "nan", "None", "null"]  # as text
_IS_TIME = (pd.api.types.is_numeric_dtype, pd.api.types.is_datetime64_any_dtype)
NO_TIME = np.iinfo(np.int64).min  # of a rating without one: before all others
NOW = np.iinfo(np.int64).max  # of new ratings without a time: after all others
_LARGEST_MICRO = NOW // 1000 - 1
_LARGEST_WHOLE = 2.0**63 - 1024  # of doubles, as int64

# What times were given as: dates, whole numbers, or numbers with a fraction. Times are kept as
# int64 in their order: nanoseconds, the numbers, or the bits of the numbers.
Clock = Literal["dates", "whole", "fraction"]


class Times(NamedTuple):
    """Times of ratings, ``NO_TIME`` where there is none."""

    value: np.ndarray  # int64
    clock: Clock


def times_of(
    given: Any, clock: Clock | None = None, among: Alone | Group = ALONE, n: int = 0
) -> Times | None:
    """Times of each rating; None if they cannot be read.

    Times are a help and no more, so that a column of them that makes no sense is left alone. With
    a clock, they are of this kind, which other times must be compared with.

    Of the ``n`` ratings that each of several processes brings, some or all may have no time where
    others have one; what is wrong with the times of one is wrong with all.
    """
    series = pd.Series(np.nan, index=range(n)) if given is None else pd.Series(given)
    known = series.notna().to_numpy()
    if not any(is_one(series.dtype) for is_one in _IS_TIME):
        known = known & ~series.astype(str).isin(_MISSING).to_numpy()
    own, time = _read(series if known.all() else series[known])
    all_own = set(among.all_gather_object(own)) - {"none"}
    of_numbers: Clock = "fraction" if "fraction" in all_own else "whole"
    clock = clock or ("dates" if "dates" in all_own else of_numbers)
    if not all_own or any(each is None or (each == "dates") != (clock == "dates") for each in all_own):
        return None
    n_unknown, n_all = among.summed(np.array([np.count_nonzero(~known), known.size]))
    if n_unknown and not among.rank:
        warnings.warn(
            f"{n_unknown:,} of {n_all:,} ratings have no time and count as the "
            "oldest of their users; fill in the times, or drop these ratings.",
            stacklevel=user_stacklevel(),
        )
    found = np.full(known.size, NO_TIME)
    found[known] = _in_order(time.astype(np.float64)) if clock == "fraction" else _whole(time)
    return Times(found, clock)


def _read(times: pd.Series) -> tuple[Clock | Literal["none"] | None, np.ndarray]:
    """What times were given as, or that there are none, and numbers; None if these make no sense."""
    if not times.size:
        return "none", np.zeros(0)
    try:
        read = as_times(times)
    except DataError:
        return None, np.zeros(0)
    numbers = _numbers(read)
    if pd.api.types.is_datetime64_any_dtype(read.dtype):
        return "dates", numbers
    return "whole" if _are_whole(numbers) else "fraction", numbers


def to_arrays(times: Times, among: Alone | Group = ALONE) -> dict[str, np.ndarray]:
    """For a model file: in the largest unit that tells them apart, in four bytes if these are enough.

    Processes that have some of the times each agree on the unit.
    """
    kept, least, unit = times.value, 0, 0  # in the unit of zero, as they are
    is_plain = (kept != NO_TIME) & (kept != NOW)
    plain = kept[is_plain]
    own = (int(plain.min()), int(plain.max()), int(np.gcd.reduce(plain - plain[0]))) if plain.size else None
    known = [each for each in among.all_gather_object(own) if each is not None]
    most = max((each[1] for each in known), default=0)
    if known and most - min(each[0] for each in known) < NOW:
        least = min(each[0] for each in known)
        unit = max(gcd(*(part for first, _, step in known for part in (first - least, step))), 1)
        kept = np.where(kept == NOW, -2, -1)
        kept[is_plain] = (plain - least) // unit
        if (most - least) // unit <= np.iinfo(np.int32).max:
            kept = kept.astype(np.int32)
    return {"time": kept, "time_unit": np.array([least, unit, get_args(Clock).index(times.clock)])}


def from_stored(stored: Stored, n_ratings: int) -> Times | None:
    """From a model file; older ones have ages."""
    if "age" in stored:
        age = stored.checked_array("age", (np.uint8, np.uint16), (n_ratings,))
        return Times(-age.astype(np.int64), "whole")
    if "time" not in stored:
        return None
    kept = stored.checked_array("time", (np.int32, np.int64), (n_ratings,)).astype(np.int64)
    least, unit, clock = map(int, stored.checked_array("time_unit", np.int64, (3,)))
    clocks, last = get_args(Clock), least + unit * int(kept.max(initial=0))
    if unit < 0 or clock not in range(len(clocks)) or not NO_TIME <= last <= NOW:
        raise wrong("time_unit", "is out of range")
    if unit:
        value = least + unit * np.maximum(kept, 0)
        value[kept == -1], value[kept == -2] = NO_TIME, NOW
        kept = value
    return Times(kept, clocks[clock])


def _are_whole(time: np.ndarray) -> bool:
    return time.dtype.kind in "iu" or bool((np.abs(time) < 2**53).all() and (time == np.floor(time)).all())


def _whole(time: np.ndarray) -> np.ndarray:
    if time.dtype.kind == "f":
        time = np.clip(np.floor(time), -_LARGEST_WHOLE, _LARGEST_WHOLE)
    return time.astype(np.int64)


def _in_order(time: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of these: the bits of a double, those of negative ones turned."""
    bits = (time + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


def by_cell(observations: Observations, cells: Cells, value: np.ndarray) -> np.ndarray:
    """Times, or weights, in the order of observations, given in that of the cells these were made of."""
    found = np.empty_like(value)

    def put(block: slice) -> None:
        found[observations.search(cells.row[block], cells.column[block])] = value[block]

    each_block(put, value.size)
    return found


def ages(row_start: np.ndarray, time: np.ndarray) -> np.ndarray:
    """How many ratings its user has given after each, 65,535 at most; without a time that many."""
    n_rows, found = row_start.size - 1, np.empty(time.size, dtype=np.uint16)

    def count(rows: slice) -> None:
        _count_later(row_start[rows.start : rows.stop + 1], time, found)

    each_block(count, n_rows, time.size // max(n_rows, 1))
    return found


@allocating_kernel
def _count_later(row_start, time, found):
    for d in range(row_start.size - 1):
        first, stop = row_start[d], row_start[d + 1]
        ordered = np.sort(time[first:stop])
        for e in range(first, stop):
            not_later = np.searchsorted(ordered, time[e], side="right")
            found[e] = OLDEST if time[e] == NO_TIME else min(ordered.size - not_later, OLDEST)


def read_times(values: Any, remedy: str = "") -> np.ndarray:
    return _numbers(as_times(values, "Row", remedy))


def _numbers(times: pd.Series) -> np.ndarray:
    if pd.api.types.is_datetime64_any_dtype(times.dtype):
        if times.dt.unit == "ns":
            return times.astype("int64").to_numpy()
        # Dates such as 9999-12-31 stand for none, and are beyond nanoseconds: they are first or last.
        micro = times.dt.as_unit("us").astype("int64").to_numpy()
        return 1000 * np.clip(micro, -_LARGEST_MICRO, _LARGEST_MICRO)
    if pd.api.types.is_integer_dtype(times.dtype):
        return times.to_numpy(dtype=np.int64 if times.max() < 2**63 else np.float64)
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

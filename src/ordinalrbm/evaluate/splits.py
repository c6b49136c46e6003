"""Training, validation and test ratings: per user, by time or at random."""

from __future__ import annotations

import numbers
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import pandas as pd

from ordinalrbm.data.ids import number_ids
from ordinalrbm.data.ratings import COLUMNS, found_columns, unclear
from ordinalrbm.data.roles import candidates
from ordinalrbm.data.scales import shorten
from ordinalrbm.data.times import read_times
from ordinalrbm.errors import DataError, DataTypeError

Frame = TypeVar("Frame")
Protocol = Literal["chronological", "random"]
OtherUsers = Literal["train", "drop"]

_TIME = "timestamp"
_DROPPED, _TRAIN, _VALIDATION, _TEST = 0, 1, 2, 3  # parts of the split


def split(
    ratings: Frame,
    protocol: Protocol = "chronological",
    min_ratings: int = 30,
    n_validation: int = 5,
    n_test: int = 10,
    random_state: int | np.random.Generator | None = 0,
    other_users: OtherUsers = "train",
) -> tuple[Frame, Frame, Frame]:
    """Split ratings into training, validation and test, user by user.

    Of each user with `min_ratings` ratings or more, the last `n_test` are test, the `n_validation`
    before them validation, the rest training. With ``protocol="random"`` they are drawn at random
    instead of by time. Users with fewer ratings are not tested; all that they rated is training.
    An item that has only validation or test ratings stays there: that it is new is part of the
    task.

    Parameters
    ----------
    ratings : pandas or polars DataFrame
        With the columns user, item, rating and, for the chronological protocol, timestamp
        (numbers, dates, or text such as 2024-05-01T12:00:00), or other usual names of these
        (`ordinalrbm.data.roles`). Ratings of one user at the same time count in the order of the
        rows.
    protocol : {"chronological", "random"}
    min_ratings : int, default=30
        More than ``n_validation + n_test``, so that every user has something to learn from.
    n_validation, n_test : int, default=5 and 10
    random_state : int or numpy.random.Generator, default=0
        Who is drawn; for the random protocol only.
    other_users : {"train", "drop"}, default="train"
        What becomes of users with fewer than `min_ratings` ratings: they are learnt from, as in
        practice, or left out of all parts, as in the paper.

    Returns
    -------
    train, validation, test : DataFrame
        Rows of `ratings`, in their order, with all columns (and, in pandas, the index).

    Raises
    ------
    DataError
        When a column is missing, a user or a time is missing, the numbers do not fit together,
        or nobody has enough ratings.

    Examples
    --------
    >>> ratings = pd.DataFrame({"user": ["u"] * 4, "item": [1, 2, 3, 4], "rating": [5, 4, 3, 2],
    ...                         "timestamp": [10, 40, 20, 30]})
    >>> train, validation, test = split(ratings, min_ratings=3, n_validation=1, n_test=1)
    >>> train["item"].tolist(), validation["item"].tolist(), test["item"].tolist()
    ([1, 3], [4], [2])
    """
    _check_numbers(min_ratings, n_validation, n_test)
    if protocol not in get_args(Protocol):
        raise DataError(f"protocol must be 'chronological' or 'random', not {protocol!r}.")
    if other_users not in get_args(OtherUsers):
        raise DataError(f"other_users must be 'train' or 'drop', not {other_users!r}.")
    columns = _columns_of(ratings, protocol)
    user, users = number_ids(_column(ratings, columns["user"]), "user")
    n_ratings = np.bincount(user, minlength=len(users))
    if n_ratings.max() < min_ratings:
        raise DataError(
            f"No user has {min_ratings} ratings or more, the most that one has is "
            f"{n_ratings.max()}; lower min_ratings."
        )
    if protocol == "chronological":
        time = read_times(_column(ratings, columns[_TIME]), remedy="use protocol='random'")
    else:
        time = np.random.default_rng(random_state).permutation(len(user))
    part = np.empty(len(user), dtype=np.int8)
    order = _order_by_user_and_time(user, time)
    is_tested = n_ratings >= min_ratings
    part[order] = _parts(n_ratings, is_tested, n_validation, n_test)
    if other_users == "drop":
        part[~is_tested[user]] = _DROPPED
    train, validation, test = (
        _rows(ratings, part == which) for which in (_TRAIN, _VALIDATION, _TEST)
    )
    return train, validation, test


def _parts(
    n_ratings: np.ndarray, is_tested: np.ndarray, n_validation: int, n_test: int
) -> np.ndarray:
    """The part of each rating when they are sorted by user and time."""
    part = np.full(int(n_ratings.sum()), _TRAIN, dtype=np.int8)
    end = np.cumsum(n_ratings)[is_tested]
    for back in range(1, n_test + n_validation + 1):
        part[end - back] = _TEST if back <= n_test else _VALIDATION
    return part


def _order_by_user_and_time(user: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Row numbers by user, then time, then row."""
    if time.dtype.kind == "i":
        low, high = int(time.min()), int(time.max())
        length = high - low + 1
        if (int(user.max()) + 1) * length < 2**63:
            # One key instead of two more than halves the time.
            key = user.astype(np.int64)
            key *= length
            key += time - low
            return np.argsort(key, kind="stable")
    return np.lexsort((time, user))


# ---- frames -----------------------------------------------------------------------------------


def _column(ratings: Any, name: str) -> Any:
    return ratings[name] if isinstance(ratings, pd.DataFrame) else ratings[name].to_numpy()


def _rows(ratings: Any, mask: np.ndarray) -> Any:
    return ratings[mask] if isinstance(ratings, pd.DataFrame) else ratings.filter(mask)


# ---- checks -----------------------------------------------------------------------------------


def _columns_of(ratings: Any, protocol: str) -> dict[str, str]:
    """The names of the columns that are users, items, ratings and times."""
    module, kind = type(ratings).__module__.split(".")[0], type(ratings).__name__
    if not isinstance(ratings, pd.DataFrame) and (module, kind) != ("polars", "DataFrame"):
        raise DataTypeError(
            f"The ratings to split must be a pandas or polars DataFrame, not {kind}; convert or "
            "collect() them first."
        )
    columns = found_columns(list(ratings.columns))
    times = candidates(ratings.columns, _TIME)
    if protocol == "chronological" and not times:
        raise DataError(
            f"The ratings have no column {_TIME!r}, only {shorten(list(ratings.columns))}; rename "
            "the column of times, or use protocol='random'."
        )
    if protocol == "chronological" and len(times) > 1:
        raise unclear(times, _TIME)
    if not len(ratings):
        raise DataError("There is no rating to split; give at least one.")
    return dict(zip((*COLUMNS, _TIME), (*columns, *times[:1]), strict=False))


def _check_numbers(min_ratings: int, n_validation: int, n_test: int) -> None:
    given = {"min_ratings": min_ratings, "n_validation": n_validation, "n_test": n_test}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
            raise DataError(f"{name} must be a whole number, 0 or more, not {value!r}.")
    if n_validation + n_test >= min_ratings:
        raise DataError(
            f"n_validation + n_test = {n_validation + n_test} would leave users with min_ratings = "
            f"{min_ratings} ratings nothing to learn from; raise min_ratings or lower the others."
        )

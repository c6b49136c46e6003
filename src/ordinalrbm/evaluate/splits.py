"""Training, validation and test ratings: per user, by time or at random."""

from typing import Literal, TypeVar, get_args

import numpy as np

from ordinalrbm.data.columns import number_ids
from ordinalrbm.data.frames import Frame, frame_of
from ordinalrbm.data.recency import read_times
from ordinalrbm.data.scales import shorten
from ordinalrbm.data.triples import COLUMNS, candidates, found_columns, unclear
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.metrics import check_whole

Table = TypeVar("Table")
Protocol = Literal["chronological", "random"]
OtherUsers = Literal["train", "drop"]

_TIME = "timestamp"
_DROPPED, _TRAIN, _VALIDATION, _TEST = 0, 1, 2, 3  # parts of the split


def split(
    ratings: Table,
    protocol: Protocol = "chronological",
    min_ratings: int = 30,
    n_validation: int = 5,
    n_test: int = 10,
    random_state: int | np.random.Generator | None = 0,
    other_users: OtherUsers = "train",
) -> tuple[Table, Table, Table]:
    """Split ratings into training, validation and test, user by user.

    Of each user with `min_ratings` ratings or more, the last `n_test` are test, the `n_validation` before
    them validation, the rest training. With ``protocol="random"`` they are drawn at random instead of by
    time. Users with fewer ratings are not tested; all that they rated is training. An item that has only
    validation or test ratings stays there: that it is new is part of the task.

    Parameters
    ----------
    ratings : DataFrame of pandas or polars, Arrow table or DuckDB relation
        With the columns user, item, rating and, for the chronological protocol, timestamp
        (numbers, dates, or text such as 2024-05-01T12:00:00), or other usual names of these
        (`ordinalrbm.data.triples`). Ratings of one user at the same time count in the order of the
        rows.
    protocol : {"chronological", "random"}
    min_ratings : int, default=30
        More than ``n_validation + n_test``, so that every user has something to learn from.
    n_validation, n_test : int, default=5 and 10
    random_state : int or numpy.random.Generator, default=0
        For the random protocol only.
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
        or no user has enough ratings.

    Examples
    --------
    >>> import pandas as pd
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
    frame = frame_of(ratings, "The ratings to split")
    columns = _columns_of(frame, protocol)
    user, users = number_ids(frame.column(columns["user"]), "user")
    n_ratings = np.bincount(user, minlength=len(users))
    if n_ratings.max() < min_ratings:
        raise DataError(
            f"No user has {min_ratings} ratings or more, the most that one has is "
            f"{n_ratings.max()}; lower min_ratings."
        )
    if protocol == "chronological":
        time = read_times(frame.column(columns[_TIME]), remedy="use protocol='random'")
    else:
        time = np.random.default_rng(random_state).permutation(len(user))
    part = np.empty(len(user), dtype=np.int8)
    order = _order_by_user_and_time(user, time)
    is_tested = n_ratings >= min_ratings
    part[order] = _parts(n_ratings, is_tested, n_validation, n_test)
    if other_users == "drop":
        part[~is_tested[user]] = _DROPPED
    train, validation, test = (frame.filter(part == which) for which in (_TRAIN, _VALIDATION, _TEST))
    return train, validation, test


def _parts(n_ratings: np.ndarray, is_tested: np.ndarray, n_validation: int, n_test: int) -> np.ndarray:
    part = np.full(int(n_ratings.sum()), _TRAIN, dtype=np.int8)
    end = np.cumsum(n_ratings)[is_tested]
    for back in range(1, n_test + n_validation + 1):
        part[end - back] = _TEST if back <= n_test else _VALIDATION
    return part


def _order_by_user_and_time(user: np.ndarray, time: np.ndarray) -> np.ndarray:
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


def _columns_of(ratings: Frame, protocol: str) -> dict[str, int]:
    columns = found_columns(ratings.names)
    times = candidates(ratings.names, _TIME)
    if protocol == "chronological" and not times:
        raise DataError(
            f"The ratings have no column {_TIME!r}, only {shorten(ratings.names)}; rename "
            "the column of times, or use protocol='random'."
        )
    if protocol == "chronological" and len(times) > 1:
        raise unclear(times, _TIME)
    if not ratings.n_rows:
        raise DataError("There is no rating to split; give at least one.")
    where = map(ratings.names.index, (*columns, *times[:1]))
    return dict(zip((*COLUMNS, _TIME), where, strict=False))


def _check_numbers(min_ratings: int, n_validation: int, n_test: int) -> None:
    given = {"min_ratings": min_ratings, "n_validation": n_validation, "n_test": n_test}
    for name, value in given.items():
        check_whole(value, name, 0)
    if n_validation + n_test >= min_ratings:
        raise DataError(
            f"n_validation + n_test = {n_validation + n_test} would leave users with min_ratings = "
            f"{min_ratings} ratings nothing to learn from; raise min_ratings or lower the others."
        )

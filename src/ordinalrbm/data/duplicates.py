"""Several ratings of one item by one user: which of them counts."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from ordinalrbm.data.ids import factorize
from ordinalrbm.data.ratings import repeated_cell

Duplicates = Literal["error", "last", "mean"]


class Repeats(NamedTuple):
    """Where a pair of user and item is for the first and for the second time."""

    first: int
    second: int


def find_repeat(ratings: pd.DataFrame) -> Repeats | None:
    """The first rating whose user has rated its item before.

    Examples
    --------
    >>> ratings = pd.DataFrame({"user": [1, 2, 1], "item": ["a", "a", "a"], "rating": [3, 4, 5]})
    >>> find_repeat(ratings)
    Repeats(first=0, second=2)
    """
    twice = repeated_cell(*_numbered(ratings))
    return None if twice is None else Repeats(*twice)


def last_of_each(ratings: pd.DataFrame, times: np.ndarray | None) -> pd.DataFrame:
    """Of each pair the latest rating, or without times the lowest row; rows keep their order.

    Examples
    --------
    >>> ratings = pd.DataFrame({"user": [1, 2, 1], "item": ["a", "a", "a"], "rating": [3, 4, 5]})
    >>> last_of_each(ratings, None)["rating"].tolist()
    [4, 5]
    >>> last_of_each(ratings, np.array([9, 1, 2]))["rating"].tolist()
    [3, 4]
    """
    order = np.arange(len(ratings)) if times is None else np.argsort(times, kind="stable")
    repeated = _cells(ratings).iloc[order].duplicated(keep="last").to_numpy()
    return ratings.iloc[np.sort(order[~repeated])]


def mean_of_each(ratings: pd.DataFrame, times: np.ndarray | None, labels: np.ndarray) -> pd.DataFrame:
    """Of each pair the latest row, with the label that is nearest to the mean of all its ratings.

    Of two labels that are equally near, the higher one.

    Examples
    --------
    >>> ratings = pd.DataFrame({"user": [1, 1, 2], "item": ["a", "a", "a"], "rating": [2, 5, 1]})
    >>> mean_of_each(ratings, None, np.array([1, 2, 3, 4, 5]))["rating"].tolist()
    [4, 1]
    """
    mean = ratings["rating"].astype(float).groupby(_cells(ratings)).transform("mean").to_numpy()
    kept = last_of_each(ratings.assign(rating=_nearest(mean, np.sort(labels))), times)
    return kept


def _nearest(values: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    above = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    below = np.maximum(above - 1, 0)
    return ascending[np.where(values - ascending[below] < ascending[above] - values, below, above)]


def _cells(ratings: pd.DataFrame) -> pd.Series:
    """A number for each pair of user and item."""
    user, item = _numbered(ratings)
    cell = user.astype(np.int64) * (int(item.max(initial=0)) + 1) + item
    return pd.Series(cell, index=ratings.index)


def _numbered(ratings: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    user, item = (factorize(ratings[name])[0] for name in ("user", "item"))
    return user, item

"""What predictions and recommendations are compared with: means, damped biases, popularity.

All of it is computed from training ratings alone.
"""

import numbers
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ordinalrbm.data.observations import Cells
from ordinalrbm.data.ratings import Ratings, as_list, read_ratings
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.hidden import level_values
from ordinalrbm.evaluate.metrics import check_whole


class DampedBiases:
    """Mean rating plus damped biases of the user and the item, without any taste.

    A bias is a sum of deviations divided by their number plus a damping, so that few ratings move
    it little: first that of each item from the mean of all ratings, then that of each user from
    mean and item. Users and items without ratings have the bias 0.

    Parameters
    ----------
    item_damping, user_damping : float, default=25 and 10

    Attributes
    ----------
    mean_ : float
    item_biases_, user_biases_ : arrays, in the order of the ids

    Examples
    --------
    >>> ratings = (["ann", "ann", "bob"], ["tea", "milk", "tea"], [5, 1, 4])
    >>> biases = DampedBiases(item_damping=1, user_damping=1).fit(ratings)
    >>> biases.predict(["bob", "new"], ["milk", "tea"]).round(2).tolist()
    [2.11, 4.11]
    >>> biases.predict_proba("bob", "milk").shape
    (1, 3)
    """

    def __init__(self, item_damping: float = 25.0, user_damping: float = 10.0) -> None:
        for name, damping in (("item_damping", item_damping), ("user_damping", user_damping)):
            if not isinstance(damping, numbers.Real) or not 0 <= damping < np.inf:
                raise DataError(f"{name} must be a number, 0 or more, not {damping!r}.")
        self.item_damping, self.user_damping = item_damping, user_damping

    def fit(self, ratings: Any) -> Self:
        """Learn from ratings: what models of ratings take, or the ``ratings_`` of one."""
        self.ratings_ = as_ratings(ratings)
        seen = self.ratings_.observations
        row, column = seen.cells().row, seen.column
        rest = level_values(self.ratings_)[seen.level]
        self.mean_ = float(rest.mean())
        rest -= self.mean_
        self.item_biases_ = _damped_means(rest, column, seen.n_columns, self.item_damping)
        rest -= self.item_biases_[column]
        self.user_biases_ = _damped_means(rest, row, seen.n_rows, self.user_damping)
        rest -= self.user_biases_[row]
        self._residuals = np.sort(rest)
        return self

    def predict(self, users: ArrayLike, items: ArrayLike) -> np.ndarray:
        """The expected rating of each pair of user and item, kept within the scale."""
        values = level_values(self.ratings_)
        return self._expected(self.ratings_.cells(users, items)).clip(values.min(), values.max())

    def predict_proba(self, users: ArrayLike, items: ArrayLike) -> np.ndarray:
        """(n, L): the expected rating plus the training ratings' residuals, to the nearest level.

        Half a rating is added to each level, so that none is impossible.
        """
        cells = self.ratings_.cells(users, items)
        values = level_values(self.ratings_)
        ascending = np.argsort(values)
        edges = (values[ascending][1:] + values[ascending][:-1]) / 2
        n_levels = self._n_levels(cells.column)[:, None]
        below = np.searchsorted(self._residuals, edges - self._expected(cells)[:, None], "right")
        # The highest level of an item's own scale takes whatever lies above.
        below = np.where(np.arange(edges.size) < n_levels - 1, below, self._residuals.size)
        counts = np.diff(below, axis=1, prepend=0, append=self._residuals.size)
        counts = counts + 0.5 * (np.arange(values.size) < n_levels)
        distribution = np.empty_like(counts)
        distribution[:, ascending] = counts / counts.sum(axis=1, keepdims=True)
        return distribution

    def _expected(self, cells: Cells) -> np.ndarray:
        # An unknown one, at -1, finds the zero.
        user, item = np.append(self.user_biases_, 0.0), np.append(self.item_biases_, 0.0)
        return self.mean_ + user[cells.row] + item[cells.column]

    def _n_levels(self, columns: np.ndarray) -> np.ndarray:
        unknown = self.ratings_.cold_start_scale().n_levels
        return np.append(self.ratings_.observations.n_levels, unknown)[columns]


def popular(train: Any, users: ArrayLike, n: int = 10) -> pd.DataFrame:
    """The n items with the most ratings that each user has not rated, the most rated first.

    Parameters
    ----------
    train : ratings
        What models of ratings take, or the ``ratings_`` of one.
    users : id, array-like of ids, or "all"
        Unknown users have rated nothing.
    n : int, default=10
        How many items; fewer where a user has rated almost everything.

    Returns
    -------
    DataFrame
        Columns user, item, rank (from 1) and score, the number of ratings. Ties go to the item
        whose id comes first.

    Examples
    --------
    >>> train = (["ann", "ann", "bob"], ["tea", "milk", "tea"], [5, 1, 4])
    >>> popular(train, ["bob", "new"], n=2)
      user  item  rank  score
    0  bob  milk     1      1
    1  new   tea     1      2
    2  new  milk     2      1
    """
    check_whole(n, "n")
    known = as_ratings(train)
    everyone = isinstance(users, str) and users == "all"
    labels = known.users.labels if everyone else np.asarray(as_list(users))
    counts = known.observations.column_counts
    by_popularity = np.argsort(-counts, kind="stable")
    unseen = _first_unseen(
        known, known.lookup(labels, "user"), np.argsort(by_popularity), min(n, known.n_items)
    )
    query, rank = np.nonzero(unseen < known.n_items)
    item = by_popularity[unseen[query, rank]]
    return pd.DataFrame(
        {"user": labels[query], "item": known.items.take(item), "rank": rank + 1, "score": counts[item]}
    )


def marginal(known: Ratings) -> np.ndarray:
    """(L,): the distribution of all ratings, half a rating added to each level."""
    counts = np.bincount(known.observations.level, minlength=level_values(known).size) + 0.5
    return counts / counts.sum()


def as_ratings(ratings: Any) -> Ratings:
    """Ratings as they are, or read."""
    return ratings if isinstance(ratings, Ratings) else read_ratings(ratings)


def _damped_means(values: np.ndarray, group: np.ndarray, n: int, damping: float) -> np.ndarray:
    total = np.bincount(group, weights=values, minlength=n)
    count = np.bincount(group, minlength=n) + damping
    return np.divide(total, count, out=np.zeros(n), where=count > 0)


def _first_unseen(known: Ratings, rows: np.ndarray, position: np.ndarray, n: int) -> np.ndarray:
    """(rows, n): the first positions that none of the row's items has; a row of -1 has no item.

    Before the j-th free position (from 0) lie as many taken ones as have j free positions or fewer
    before them, and a row's i-th taken position has itself less i.
    """
    is_known = rows >= 0
    seen = known.observations.take_rows(rows[is_known])
    row, width = seen.cells().row, known.n_items + 1
    taken = np.sort(row * width + position[seen.column])
    free_before = taken - (np.arange(taken.size) - seen.row_start[row])
    wanted = np.arange(is_known.sum())[:, None] * width + np.arange(n)
    unseen = np.tile(np.arange(n), (rows.size, 1))
    unseen[is_known] += np.searchsorted(free_before, wanted, "right") - seen.row_start[:-1, None]
    return unseen

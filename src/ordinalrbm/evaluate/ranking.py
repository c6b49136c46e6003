"""Lists of recommendations of any origin against what users liked: NDCG, recall, coverage."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ordinalrbm.data.columns import Ids, as_column, number_ids, shown
from ordinalrbm.data.frames import frame_of
from ordinalrbm.data.ratings import Catalogue, Ratings, read_ratings
from ordinalrbm.data.scales import Scale, shorten
from ordinalrbm.data.triples import as_triples
from ordinalrbm.errors import DataError, DataTypeError
from ordinalrbm.evaluate.hidden import TestRatings, in_training, read_test_ratings
from ordinalrbm.evaluate.metrics import check_whole

LIKED_FROM = 0.75  # of the way from the lowest to the highest rating: 4 of 1 to 5, 8 of 1 to 10
_ROUNDING = 1e-9
_LISTED = ("user", "item", "rank")


@dataclass(frozen=True)
class RankingScores:
    """How good lists of recommendations are; ``protocol`` says in words what was compared.

    Attributes
    ----------
    ndcg, recall : float
        Means over the users who liked something.
    coverage : float
        Share of all items that are in the list of at least one user with test ratings.
    k : int
        How long lists are.
    liked : rating, or None
        The lowest rating that counts as liked; None where items have different scales.
    n_users, n_users_without_liked, n_users_without_list : int
        How many users are counted; how many are not, because they liked no test item; and how
        many of those counted have no list, which counts as one without a hit.
    n_items : int
        How many items have training or test ratings.
    n_learnt : int
        Test ratings that were left out: the same pair of user and item is in training.
    n_seen : int
        Recommendations that were left out: the user has rated the item in training.
    """

    ndcg: float
    recall: float
    coverage: float
    k: int
    liked: Any
    n_users: int
    n_users_without_liked: int
    n_users_without_list: int
    n_items: int
    n_learnt: int
    n_seen: int

    @property
    def protocol(self) -> str:
        """What was compared, in words."""
        return (
            "All items that a user has not rated in training are candidates. Liked means rated "
            f"{in_words(self.liked)}. NDCG and recall are means over the {self.n_users:,} users who liked at "
            f"least one test item; {self.n_users_without_liked:,} who liked none are not counted. Coverage "
            f"is the share of the {self.n_items:,} items that are in somebody's top {self.k}."
        )


def ranking(
    recommended: Any, test: Any, train: Any, k: int = 10, liked: Any = None, scale: Any = None
) -> RankingScores:
    """Judge lists of recommendations by what users liked among their test ratings.

    All items that a user has not rated in training are candidates, so that a list is judged as it
    would be shown, not among a few sampled items. An item is relevant when the user has rated it
    `liked` or higher in `test`; all else counts as a miss, rated or not. Users who liked nothing
    are not counted; users without a list have no hit.

    - NDCG@k: hits are worth 1 / log2(rank + 1), divided by what the best list would have, that
      with ``min(k, relevant)`` hits first; mean over users.
    - recall@k: hits among the first k, divided by ``min(k, relevant)``; mean over users.
    - coverage: share of all items that are in the first k of at least one user with test ratings.

    Parameters
    ----------
    recommended : DataFrame of pandas or polars, Arrow table or DuckDB relation
        Columns user, item and rank (the smallest first), as :meth:`RatingModel.recommend` returns
        them, or any other library's lists. Items that the user has rated in training are left out
        and later ones move up; of those left the first `k` count.
    test, train : ratings
        What models of ratings take; `train` may also be the ``ratings_`` of a model. Test ratings
        of pairs that are in training are left out.
    k : int, default=10
    liked : rating, optional
        The lowest rating of what was liked; by default the first in the upper quarter of the way
        from the lowest to the highest: 4 of 1 to 5, 8 of 1 to 10.
    scale : list of labels from lowest to highest, optional
        The scale of all ratings; by default the distinct numbers in `train` and `test`.

    Examples
    --------
    >>> train = pd.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "a"], "rating": [5, 1, 4]})
    >>> test = pd.DataFrame({"user": [1, 2, 2], "item": ["c", "b", "c"], "rating": [5, 4, 2]})
    >>> best = pd.DataFrame({"user": [1, 2, 2], "item": ["c", "c", "b"], "rank": [1, 1, 2]})
    >>> scores = ranking(best, test, train, k=2)
    >>> round(scores.ndcg, 3), scores.recall, round(scores.coverage, 3), scores.n_users
    (0.815, 1.0, 0.667, 2)
    """
    known = _read_train(train, test, scale)
    task = RankingTask.of(known, read_test_ratings(known, test), k, liked)
    if not task.n_users:
        raise DataError(
            f"No test rating is {in_words(task.liked)}, so that there is nothing to find; lower "
            "liked, or give more test ratings."
        )
    return task.judge(recommended)


class RankingTask(NamedTuple):
    """What lists are to find: the liked items of each user; made by `of`, once for all lists."""

    known: Ratings
    k: int
    liked: Any
    users: Ids  # with test ratings, at least one
    items: Ids  # with test ratings
    relevant: np.ndarray  # cells user * items + item of these two lists, ascending
    n_learnt: int

    @classmethod
    def of(cls, known: Ratings, new: TestRatings, k: int = 10, liked: Any = None) -> RankingTask:
        """Return the task of finding what is liked among test ratings."""
        check_whole(k, "k")
        lowest = lowest_liked(known, liked)
        row, users = number_ids(new.table.user, "user")
        column, items = number_ids(new.table.item, "item")
        is_liked = new.cells.level >= lowest[new.cells.column]
        cells = row.astype(np.int64) * len(items) + column
        label = known.scales.labels[lowest[-1]] if isinstance(known.scales, Scale) else None
        return cls(known, int(k), label, users, items, np.sort(cells[is_liked]), new.n_learnt)

    @property
    def n_users(self) -> int:
        """How many users liked something."""
        return np.unique(self.relevant // len(self.items)).size

    def judge(self, recommended: Any) -> RankingScores:
        """Score lists with the columns user, item and rank."""
        lists = self._read(recommended)
        hit = np.isin(lists.user * len(self.items) + lists.item, self.relevant) & (lists.item >= 0)
        worth = 1.0 / np.log2(np.arange(2, self.k + 2))
        n_relevant = np.bincount(self.relevant // len(self.items), minlength=len(self.users))
        counted = n_relevant > 0
        most = np.minimum(n_relevant[counted], self.k)
        found, gain = (
            np.bincount(lists.user, weights, minlength=len(self.users))[counted]
            for weights in (hit, hit * worth[lists.place])
        )
        has_list = np.isin(np.flatnonzero(counted), lists.user)
        n_items = self.known.n_items + int((self.known.items.match(self.items, "item") < 0).sum())
        return RankingScores(
            ndcg=float((gain / np.cumsum(worth)[most - 1]).mean()),
            recall=float((found / most).mean()),
            coverage=np.unique(lists.of_catalogue[lists.of_catalogue >= 0]).size / n_items,
            k=self.k,
            liked=self.liked,
            n_users=int(counted.sum()),
            n_users_without_liked=int((~counted).sum()),
            n_users_without_list=int((~has_list).sum()),
            n_items=n_items,
            n_learnt=self.n_learnt,
            n_seen=lists.n_seen,
        )

    def _read(self, recommended: Any) -> _Lists:
        users, labels, ranks = _read_lists(recommended)
        user = self.users.lookup(users, "user")
        tested = user >= 0
        user, rank, label = user[tested], ranks[tested], labels[tested]
        column = self.known.items.lookup(label, "item")
        row = self.known.users.lookup(self.users.labels, "user")[user]
        is_seen = in_training(self.known, row, column)
        order = np.lexsort((rank, user))
        _refuse_repeated(self.users, user[order], rank[order], label[order])
        order = order[~is_seen[order]]
        user = user[order]
        place = np.arange(user.size) - np.searchsorted(user, user)
        top = place < self.k
        item = self.items.lookup(label, "item")[order]
        of_catalogue = np.where(column[order] >= 0, column[order], self.known.n_items + item)
        of_catalogue[(column[order] < 0) & (item < 0)] = -1
        return _Lists(user[top], item[top], place[top], of_catalogue[top], int(is_seen.sum()))


class _Lists(NamedTuple):
    """The first k recommendations of each user with test ratings, by user and place."""

    user: np.ndarray
    item: np.ndarray  # among those with test ratings; -1 otherwise
    place: np.ndarray  # from 0
    of_catalogue: np.ndarray  # among all items with ratings; -1 otherwise
    n_seen: int


def lowest_liked(known: Catalogue, liked: Any = None) -> np.ndarray:
    """(items + 1,): the lowest level of each item that counts as liked; last, of unknown items."""
    scales, of_item = known.distinct(known.default_scale or known.cold_start_scale())
    return np.array([_lowest_on(scale, liked) for scale in scales])[
        np.append(of_item[: known.n_items], of_item[-1])
    ]


def in_words(liked: Any) -> str:
    """What counts as liked; None where items have different scales."""
    return "in the upper quarter of the item's scale" if liked is None else f"{liked} or more"


def _lowest_on(scale: Scale, liked: Any) -> int:
    values = scale.values
    if liked is None:
        way = values / 2.0 - values[0] / 2.0  # which may go down, and is finite
        return int((way / (way[-1] or 1.0) >= LIKED_FROM - _ROUNDING).argmax())
    is_number = isinstance(liked, numbers.Real) and not isinstance(liked, bool)
    if scale.is_numeric and is_number and (np.diff(values) > 0).all():
        if values[0] <= liked <= values[-1]:
            return int(np.searchsorted(values, liked - _ROUNDING * abs(liked)))
    elif liked in scale.labels:
        return scale.labels.index(liked)
    raise DataError(
        f"liked={liked!r} is not on the scale {shorten(scale.labels)}; give the lowest of its "
        "ratings that counts as liked."
    )


def _read_train(train: Any, test: Any, scale: Any) -> Ratings:
    if isinstance(train, Ratings):
        return train
    if scale is None:
        given = [as_triples(part).rating for part in (train, test)]
        if all(part.kind == "number" for part in given):
            # Missing ones are refused where they are read.
            distinct = np.unique(np.concatenate([part.values for part in given]))
            scale = distinct[np.isfinite(distinct)].tolist() or None
    return read_ratings(train, scale=scale)


def _read_lists(recommended: Any) -> tuple[Any, Any, np.ndarray]:
    frame = frame_of(recommended, "The recommendations")
    for name in _LISTED:
        if name not in frame.names:
            raise DataError(
                f"The recommendations have no column {name!r}, only {shorten(frame.names)}; give "
                f"the columns {shorten(_LISTED)}."
            )
    user, item, rank = (
        as_column(frame.column(frame.names.index(name)), f"Column {name!r}") for name in _LISTED
    )
    try:
        rank = np.asarray(rank, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(f"The ranks must be numbers ({error}); convert them.") from error
    if not np.isfinite(rank).all():
        row = int((~np.isfinite(rank)).argmax())
        raise DataError(
            f"Row {row} (counted from 0) of the recommendations has the rank {rank[row]}; give "
            "every item of a user its place, from 1."
        )
    return user, item, rank


def _refuse_repeated(users: Ids, user: np.ndarray, rank: np.ndarray, item: Any) -> None:
    """Refuse lists, sorted by user and rank, with two items at one rank or one at two."""
    same = (np.diff(user) == 0) & (np.diff(rank) == 0)
    if same.any():
        k = int(same.argmax())
        raise DataError(
            f"The user {shown(users.labels[user[k]])} is recommended two items at rank "
            f"{rank[k]:g}; give every item of a user its own."
        )
    twice = pd.DataFrame({"user": user, "item": item}).duplicated().to_numpy()
    if twice.any():
        k = int(twice.argmax())
        raise DataError(
            f"The user {shown(users.labels[user[k]])} is recommended the item {shown(item[k])} "
            "twice; keep the first."
        )

"""What a service asks of a model of ratings: recommendations, and users or items that are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data import frames
from ordinalrbm.data.columns import Ids
from ordinalrbm.data.features import rows_or_empty
from ordinalrbm.data.observations import Cells, Observations, first_of_each
from ordinalrbm.data.ratings import Ratings, as_list, encode_with_new_users
from ordinalrbm.data.recency import NOW, ages
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.side_features import SideFeatures, mask_of
from ordinalrbm.estimators.validation import check_choice, check_whole
from ordinalrbm.evaluate.ranking import lowest_liked
from ordinalrbm.matrix import top_n as recommending
from ordinalrbm.matrix.blend import LEAST_DEMAND
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.implicit_als import Demand
from ordinalrbm.matrix.item_weights import Past
from ordinalrbm.matrix.predict import probabilities
from ordinalrbm.matrix.top_n import Vectors
from ordinalrbm.runtime.threads import threads

# Ids and ratings as users give them.
IdsLike = Any  # an id, or array-like of ids
RatingsLike = Any  # a frame, three arrays, or a sparse matrix
Score = Literal["expected", "liked", "rating", "demand"]
_FEW_RATINGS, _TRIPLE = 64, ["user", "item", "rating"]  # that a service may bring at once; their columns
_TINY = 1e-12
_NOBODY = np.full(1, -1)
_COLUMNS = pd.Index(["user", "item", "rank", "score"])
_SCORES = ("expected", "liked", "rating", "demand")


class QueryRows(NamedTuple):
    """Rows of models that are asked for."""

    models: list[Any]
    demand: np.ndarray  # (rows of the models, K) demand factors
    row: np.ndarray  # the row of each user asked for, in the models and in demand
    past: Past  # what rows of the models have chosen
    seen: Observations | None  # what they leave out


class _NewRatings(NamedTuple):
    """All ratings of users who bring new ones."""

    who: np.ndarray  # their positions; new users come after those known
    labels: np.ndarray
    observations: Observations
    age: np.ndarray | None  # how recent the ratings are, if that is known


class _Query(NamedTuple):
    """What lists are made of."""

    n: int
    score: str
    worth: np.ndarray  # (items, L): what each level counts
    lowest: np.ndarray  # (items,): the lowest level that counts
    closed: np.ndarray | None  # (items,) mask of those that are left out
    is_usual: bool  # whether levels count as they do by default


Model = TypeVar("Model", bound="Serving")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def reading(
    method: Callable[Concatenate[Model, Arguments], Result],
) -> Callable[Concatenate[Model, Arguments], Result]:
    """A method that sees the model as it is when called, from the first line to the last.

    An update puts another dictionary of attributes in the place of this one (see
    :meth:`RatingModel.update`), and changes nothing in it.
    """

    @wraps(method)
    def read(self: Model, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        now = object.__new__(type(self))
        now.__dict__ = self.__dict__
        return method(now, *args, **kwargs)

    return read


class Serving:
    """Calls of a service; models of ratings have them."""

    models_: list[Any]
    _posteriors: list[Any]  # what the models are of
    ratings_: Ratings
    demand_: Demand
    _features: SideFeatures
    n_jobs: int | None
    # Of RatingModel, and of models that have vectors:
    _distribution: Callable[[Cells], np.ndarray]
    _unknown_users: Callable[[np.ndarray], np.ndarray]

    def recommend(
        self,
        users: IdsLike = None,
        n: int = 10,
        items: IdsLike = None,
        exclude: IdsLike = None,
        ratings: RatingsLike = None,
        score: Score = "expected",
        *,
        liked: Any = None,
        exclude_seen: bool = True,
        where: Mapping[str, Any] | None = None,
    ) -> pd.DataFrame:
        """The n best items for each user, the best first.

        Parameters
        ----------
        users : id, array-like of ids, or "all"
            Unknown users get popular, well-liked items. (Should a user be named "all", give
            ["all"].) By default all users of ``ratings``.
        n : int, default=10
            How many items; fewer where a user has seen almost everything.
        items : array-like of ids, optional
            Only these are recommended; by default all. Items that are not known are passed over.
        exclude : id, array-like of ids, or dict from user to ids, optional
            These are not recommended to anybody; of a dict, those of each user not to this user.
        ratings : as in :meth:`fit`, or dict from item to rating, optional
            New ratings of known or unknown users, who are inferred by them (and by what was known
            of them before) for this call; the model does not change. Of items that are not known
            they tell nothing. A dict has the ratings of one person, who needs no id; items with
            None have not been rated.
        score : {"expected", "liked", "rating", "demand"}, default="expected"
            What items are ranked by. "demand": how likely it is that the user chooses the item
            (next, if the ratings have times), from who has rated what; of a user's scores only the
            ratios mean something, not the size. "liked": the probability that the rating would be
            ``liked`` or better. "expected": the product of both: how likely the item is chosen and
            liked. "rating": the expected rating, should the
            item be chosen: the mean of :meth:`predict_proba`; where items have different scales,
            from 0 at an item's lowest label to 1 at its highest.
            Models without demand (``demand_factors=0``) have "liked" in place of "expected".
        liked : label, optional
            From which label on a rating counts as liked; by default those in the upper quarter of
            an item's scale: 4 of 5, 8 of 10.
        exclude_seen : bool, default=True
            Whether to leave out what the user has rated.
        where : dict, optional
            Only items with these features: of each column of ``item_features`` that is named, a
            category, one of several in a list, or True or False.

        Returns
        -------
        DataFrame
            Columns user, item, rank (from 1) and score, in the order of ``users``; of the library
            that the ids or ratings given are of. Ties go to the item whose id comes first. If
            ``ratings`` are a dict, there is no column user. For lists of less similar items see
            :func:`ordinalrbm.rerank.diverse`.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
        >>> model.recommend([3, 4], n=2, exclude_seen=False)[["user", "rank"]].values.tolist()
        [[3, 1], [3, 2], [4, 1], [4, 2]]
        >>> model.recommend(ratings=([77], [2], [3]), n=1)["user"].tolist()
        [77]
        >>> model.recommend(ratings={2: 3, 4: 1}, n=1).columns.tolist()
        ['item', 'rank', 'score']
        """
        columns = self.recommend_arrays(
            users, n, items, exclude, ratings, score, liked=liked, exclude_seen=exclude_seen, where=where
        )
        if isinstance(ratings, Mapping):
            return frames.of_columns(columns[1:], _COLUMNS[1:])
        return frames.like(frames.of_columns(columns, _COLUMNS), users, ratings)

    @reading
    def recommend_arrays(
        self,
        users: IdsLike = None,
        n: int = 10,
        items: IdsLike = None,
        exclude: IdsLike = None,
        ratings: RatingsLike = None,
        score: Score = "expected",
        *,
        liked: Any = None,
        exclude_seen: bool = True,
        where: Mapping[str, Any] | None = None,
    ) -> tuple[np.ndarray, ...]:
        """The columns of :meth:`recommend`, users, items, ranks and scores, without a frame around them."""
        if not hasattr(self, "models_"):
            check_is_fitted(self, "models_")  # which says so; it takes its time
        check_whole("n", n, 1)
        check_choice("score", score, _SCORES)
        of_users: dict[Any, Any] = {}
        if isinstance(exclude, Mapping):
            of_users, exclude = {user: as_list(own) for user, own in exclude.items()}, None
        wanted = self._wanted(n, score, liked, items, exclude, where)
        labels, position, index, new = self._asked(users, ratings)
        more = max(map(len, of_users.values()), default=0)
        longer = wanted._replace(n=n + more)
        best = self._best(position, index, new, longer, exclude_seen=exclude_seen)
        if of_users:
            best = _without(best, self._positions_by_query(labels, of_users), n)
        return labels[best.query], self.ratings_.items.labels[best.item], best.rank, best.score

    def _wanted(
        self,
        n: int,
        score: str,
        liked: Any,
        items: IdsLike,
        exclude: IdsLike,
        where: Mapping[str, Any] | None,
    ) -> _Query:
        if score == "expected" and not self.demand_.n_factors:
            score = "liked"
        if score == "demand":
            self._check_demand()
        closed = None if items is None else ~self._mask(items)
        if exclude is not None:
            closed = self._mask(exclude) if closed is None else closed | self._mask(exclude)
        if where:
            other = ~mask_of(self._features.items, where)
            closed = other if closed is None else closed | other
        return _Query(n, score, *self._worth(score, liked), closed, liked is None)

    def _positions_by_query(self, labels: np.ndarray, items: Mapping[Any, IdsLike]) -> np.ndarray:
        """(pairs, 2) places of the query and items that this user is not to get."""
        pairs = [
            (place, item)
            for user, own in items.items()
            for place in np.flatnonzero(labels == user)
            for item in self.ratings_.lookup(own, "item")
            if item >= 0
        ]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    def _check_demand(self) -> None:
        if self.demand_.n_factors:
            return
        interrupted = getattr(self, "demand_factors", 1)
        reason = "learning was interrupted" if interrupted else "demand_factors is 0"
        raise DataError(
            f"This model has not learnt who chooses what, because {reason}; fit() it again with "
            "demand_factors=64, or choose another score than 'demand'."
        )

    def _mask(self, items: IdsLike) -> np.ndarray:
        mask, position = np.zeros(len(self.ratings_.items), dtype=bool), self.ratings_.lookup(items, "item")
        mask[position[position >= 0]] = True
        return mask

    def _worth(self, score: str, liked: Any) -> tuple[np.ndarray, np.ndarray]:
        """What levels count, and the lowest that does."""
        if liked is not None:
            return _with_lowest(self._level_utility(score, liked))
        key = "worth", score == "rating"
        return self._cached(key, lambda: _with_lowest(self._level_utility(score)))

    def _cached(self, key: Any, compute: Callable[[], Any]) -> Any:
        """What follows from the posteriors and ratings alone, computed when it is first needed."""
        cache: Any = self.__dict__.get("_cache")
        if cache is None or cache[0] is not self._posteriors or cache[1] is not self.ratings_:
            cache = self.__dict__["_cache"] = (self._posteriors, self.ratings_, {})
        results = cache[2]
        if key not in results:
            results[key] = compute()
        return results[key]

    def _level_utility(self, score: str, liked: Any = None) -> np.ndarray:
        """(items, L): what each level of an item counts."""
        scales, of_item = self.ratings_.distinct()
        width = max(scale.n_levels for scale in scales)
        if score != "rating":
            lowest = lowest_liked(self.ratings_, liked)[:-1, None]
            there = np.arange(width) < self.ratings_.level_counts()[:, None]
            return ((np.arange(width) >= lowest) & there).astype(np.float64)
        worth = np.zeros((len(scales), width))
        for k, scale in enumerate(scales):
            values = scale.values
            if len(scales) > 1:
                values = (values - values[0]) / ((values[-1] - values[0]) or 1.0)
            worth[k, : scale.n_levels] = values
        return worth[of_item]

    # ---- who --------------------------------------------------------------------------------

    def _asked(
        self, users: IdsLike, ratings: RatingsLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, _NewRatings | None]:
        """Labels of users, their positions, and their indices among users with new ratings, or −1."""
        own, new = self.ratings_, None if ratings is None else _new_ratings(self.ratings_, ratings)
        if isinstance(ratings, Mapping) and new is not None:
            if users is not None:
                raise DataError(
                    "A dict of ratings is of one person without an id, but users= is given; leave it out, or "
                    "give ratings with their users, such as (users, items, ratings)."
                )
            if not new.who.size:
                return _NOBODY, _NOBODY, _NOBODY, None
        if users is None:
            if new is None:
                raise DataError("No users given: pass `users=` or `ratings=`.")
            position = np.where(new.who < len(own.users), new.who, -1)
            return new.labels, position, np.arange(new.who.size), new
        if isinstance(users, str) and users == "all":
            labels, position = own.users.labels, np.arange(len(own.users))
        else:
            given = as_list(users)
            position, labels = own.lookup(given, "user"), _labels(given)
        if new is None:
            return labels, position, np.full(position.size, -1), None
        return labels, position, pd.Index(new.labels).get_indexer(pd.Index(labels)), new

    # ---- what -------------------------------------------------------------------------------

    def _best(
        self,
        position: np.ndarray,
        index: np.ndarray,
        new: _NewRatings | None,
        wanted: _Query,
        *,
        exclude_seen: bool,
    ) -> recommending.Best:
        if new is None and exclude_seen and self.ratings_.have_rated(position).all():
            return self._best_of(self._known_rows(position), wanted)
        is_new, parts = index >= 0, []
        if new is not None and is_new.any():
            parts.append((is_new, self._best_of_new(new, index[is_new], wanted, exclude_seen)))
            if is_new.all():
                return parts[0][1]
        unknown = self._unknown_users(position) & ~is_new
        known = ~unknown & ~is_new
        if known.any():
            rows = self._known_rows(position[known])
            rows = rows if exclude_seen else rows._replace(seen=None)
            parts.append((known, self._best_of(rows, wanted)))
        if unknown.any():
            scores = self._scores_for_unknown(wanted)
            parts.append((unknown, recommending.for_all(scores, int(unknown.sum()), wanted.n)))
        return recommending.concatenate(parts)

    def _best_of_new(
        self, new: _NewRatings, row: np.ndarray, wanted: _Query, exclude_seen: bool
    ) -> recommending.Best:
        """Lists of users who bring ratings, by rows that are inferred from these."""
        table = self._features.tables.rows
        lines = None if table is None else rows_or_empty(table, new.who)
        with threads(self.n_jobs):
            models = self._models_with_users(new.observations, lines)
        demand, past = self.demand_.infer_rows(new.observations), Past(new.observations, new.age)
        seen = new.observations if exclude_seen else None
        return self._best_of(QueryRows(models, demand, row, past, seen), wanted)

    def _known_rows(self, position: np.ndarray) -> QueryRows:
        own = self.ratings_.observations
        past = Past(own, self.ratings_.age)
        return QueryRows(self.models_, self.demand_.rows, position, past, own)

    @reading
    def vectors(self, score: Literal["rating", "demand"] = "rating") -> Vectors:
        """Vectors of users and items, for an index that finds nearest neighbours.

        Items by falling inner product with a user's vector are about in the order of the expected
        rating, as if all users had the thresholds of an average one, or of how likely the user
        chooses them. The lists of :meth:`recommend` are not in the order of one inner product: let
        an index find a few hundred items, by "demand" for the default score, and rank these with
        ``recommend(user, items=candidates)``.

        Parameters
        ----------
        score : {"rating", "demand"}, default="rating"
            "rating": only models with Gaussian factors have these vectors (:class:`OrdinalMF`,
            :class:`GaussianMF`). "demand": those of who chooses what, without weights between items
            and without order in time.

        Returns
        -------
        Vectors
            ``users`` and ``items``, float32 arrays with a line each in the order of ``users_`` and
            ``items_``. Products by "demand" are about one for what was chosen and zero for what was
            not.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
        >>> vectors = model.vectors()
        >>> candidates = model.items_.take(np.argsort(-vectors.items @ vectors.users[3])[:4])
        >>> best = model.recommend(3, n=1, items=candidates, score="rating", exclude_seen=False)
        >>> best["item"][0] in candidates
        True
        """
        check_is_fitted(self, "models_")
        check_choice("score", score, ("rating", "demand"))
        if score == "demand":
            self._check_demand()
            return Vectors(self.demand_.rows, self.demand_.columns)
        vectors = self._vectors()
        if vectors is None:
            raise DataError(
                f"{type(self).__name__} orders items by more than one inner product and has no "
                "vectors of ratings; use OrdinalMF, or score='demand'."
            )
        return vectors

    def similar_items(
        self, item: IdsLike, n: int = 10, *, by: Literal["demand", "taste"] = "demand"
    ) -> pd.DataFrame:
        """The n items that are most like an item.

        Parameters
        ----------
        item : id
            A known one.
        n : int, default=10
        by : {"demand", "taste"}, default="demand"
            Whether the same users choose them, or the same users like them (models with Gaussian
            factors).

        Returns
        -------
        DataFrame
            Columns item and similarity, the cosine of both items' factors; the item itself is not
            among them.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
        >>> len(model.similar_items(3, n=2))
        2
        """
        return self._similar("item", item, n, by)

    def similar_users(
        self, user: IdsLike, n: int = 10, *, by: Literal["demand", "taste"] = "demand"
    ) -> pd.DataFrame:
        """The n users that are most like a user; see :meth:`similar_items`."""
        return self._similar("user", user, n, by)

    @reading
    def _similar(self, what: str, label: Any, n: int, by: str) -> pd.DataFrame:
        check_is_fitted(self, "models_")
        check_whole("n", n, 1)
        check_choice("by", by, ("demand", "taste"))
        ids = self.ratings_.users if what == "user" else self.ratings_.items
        position = int(self.ratings_.lookup([label], what)[0])
        if position < 0:
            raise DataError(f"The {what} {label!r} is not known; give one of {what}s_.")
        table = self._factors_of(what, by)
        length = np.sqrt((table * table).sum(axis=1)) + _TINY
        cosine = (table @ table[position]) / (length * length[position])
        cosine[position] = -np.inf
        best = np.argsort(-cosine, kind="stable")[: min(n, len(ids) - 1)]
        return pd.DataFrame({what: ids.take(best), "similarity": cosine[best]})

    def _factors_of(self, what: str, by: str) -> np.ndarray:
        if by == "demand" and self.demand_.n_factors:
            return self.demand_.rows if what == "user" else self.demand_.columns
        table = getattr(self, f"{what}_factors_", None)
        if table is None:
            raise DataError(f"{type(self).__name__} has no factors of {what}s to compare; use by='demand'.")
        return table

    def _best_of(self, rows: QueryRows, wanted: _Query) -> recommending.Best:
        left_out = recommending.LeftOut(rows.seen, wanted.closed)
        with threads(self.n_jobs):
            if wanted.score in ("expected", "demand"):
                return self._best_wanted(rows, wanted, left_out)
            return recommending.best_items(rows.models, rows.row, wanted.n, wanted.worth, left_out)

    def _best_wanted(
        self, rows: QueryRows, wanted: _Query, left_out: recommending.LeftOut
    ) -> recommending.Best:
        n_rows, n_items = rows.row.size, len(self.ratings_.items)
        if wanted.score == "expected" and len(rows.models) == 1:
            liking = rows.models[0].liking(wanted.lowest)
            if liking is not None:
                query = rows.demand, rows.past, rows.row, wanted.n
                return recommending.best_liked(self.demand_.arrays(), *query, liking, left_out)

        def most_wanted(place: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
            row = rows.row[place]

            def scores(some: slice) -> np.ndarray:
                return self.demand_.scores(rows.demand[row[some]], rows.past, row[some])

            return recommending.best_by_scores(scores, row, n, n_items, left_out, n_tables=3)

        if wanted.score == "demand":
            return recommending.to_records(*most_wanted(np.arange(n_rows), wanted.n))
        chance = partial(_chance, rows, wanted)
        return recommending.best_wanted(most_wanted, chance, n_rows, n_items, wanted.n)

    def _scores_for_unknown(self, wanted: _Query) -> np.ndarray:
        """(items,) for unknown users: what is popular, and liked by others."""
        if wanted.is_usual:
            scores = self._cached(("unknown", wanted.score), lambda: self._popular_and_liked(wanted))
        else:
            scores = self._popular_and_liked(wanted)
        return scores if wanted.closed is None else np.where(wanted.closed, -np.inf, scores)

    def _popular_and_liked(self, wanted: _Query) -> np.ndarray:
        columns = np.arange(len(self.ratings_.items))
        everywhere = Cells(np.full(columns.size, -1), columns, np.zeros(columns.size, np.int8))
        scores = (self._distribution(everywhere) * wanted.worth).sum(axis=1)
        if wanted.score in ("expected", "demand"):
            seen = self.ratings_.observations
            n_raters = max(int((seen.row_counts > 0).sum()), 1)
            share = np.maximum(seen.column_counts / n_raters, LEAST_DEMAND)
            scores = share if wanted.score == "demand" else share * scores
        return scores

    # ---- what models have --------------------------------------------------------------------

    def _models_with_users(self, ratings: Observations, lines: csr_array | None) -> list[Any]:
        inferred = (
            posterior.infer_rows(ratings, lines, others, CPU)
            for posterior, others in zip(self._posteriors, self._others(), strict=True)
        )
        return [model for models in inferred for model in models]

    def _others(self) -> list[Any]:
        seen, table = self.ratings_.observations, self._features.tables.rows
        return self._cached("others", lambda: [each.compared_with(seen, table) for each in self._posteriors])

    def _vectors(self) -> Vectors | None:
        return None


def _without(best: recommending.Best, pairs: np.ndarray, n: int) -> recommending.Best:
    """At most n of each list, without the items of some pairs of a place of the query and an item."""
    width = 1 + max(best.item.max(initial=0), pairs[:, 1].max(initial=0))
    stays = ~np.isin(best.query * width + best.item, pairs[:, 0] * width + pairs[:, 1])
    query = best.query[stays]
    rank = 1 + np.arange(query.size) - np.searchsorted(query, query)
    few = rank <= n
    return recommending.Best(query[few], best.item[stays][few], rank[few], best.score[stays][few])


def _with_lowest(worth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What levels count, and the lowest of each item that does; beyond the last if none."""
    counts = worth > 0.0
    return worth, np.where(counts.any(axis=1), counts.argmax(axis=1), worth.shape[1])


def _chance(rows: QueryRows, wanted: _Query, place: np.ndarray, column: np.ndarray) -> np.ndarray:
    cells = Cells(rows.row[place], column.astype(np.intp), np.zeros(column.size, np.int8))
    found, width = probabilities(rows.models, cells), wanted.worth.shape[1]
    return (found[:, :width] * wanted.worth[column]).sum(axis=1)


def _labels(given: Any) -> np.ndarray:
    return np.asarray(given.to_numpy() if hasattr(given, "to_numpy") else given)


def _read_person(known: Ratings, data: Mapping[Any, Any]) -> tuple[Cells, Ids]:
    """Ratings of one person, who comes after the known users; without items that are not rated."""
    column = known.lookup(list(data), "item")
    level = _levels(known, column, data.items())
    rated = level >= 0
    return Cells(np.full(rated.sum(), len(known.users)), column[rated], level[rated]), Ids(_NOBODY)


def _read_few(known: Ratings, data: Any) -> tuple[Cells, Ids] | None:
    """A few plain ids and labels, read one by one; None where they must be read as columns."""
    if isinstance(data, pd.DataFrame) and 0 < len(data) <= _FEW_RATINGS and list(data.columns) == _TRIPLE:
        data = tuple(data.to_numpy(dtype=object).T.tolist())
    if type(data) is not tuple or len(data) != 3 or any(type(part) is not list for part in data):
        return None
    users, items, ratings = data
    are_plain = (
        set(map(type, ids)) == {labels.plain_type}
        for ids, labels in ((users, known.users), (items, known.items))
    )
    if not len(users) == len(items) == len(ratings) <= _FEW_RATINGS or not all(are_plain):
        return None
    row, column = known.lookup(users, "user"), known.lookup(items, "item")
    if (column < 0).any() or len(set(zip(users, items, strict=True))) < len(users):
        return None
    new = sorted({user for user, place in zip(users, row, strict=True) if place < 0})
    places = {user: len(known.users) + k for k, user in enumerate(new)}
    row = np.array([places.get(user, place) for user, place in zip(users, row, strict=True)])
    level = _levels(known, column, zip(items, ratings, strict=True))
    if (level < 0).any():  # a rating is missing
        return None
    return Cells(row, column, level), Ids(np.array(new, dtype=known.users.labels.dtype))


def _levels(known: Ratings, column: np.ndarray, rated: Iterable[tuple[Any, Any]]) -> np.ndarray:
    """Levels of pairs of an item in this column and its rating, −1 if that is missing."""
    level = np.empty(column.size, dtype=np.int16)
    for k, (j, (item, rating)) in enumerate(zip(column, rated, strict=True)):
        scale = known.scale_of(j) if j >= 0 else known.cold_start_scale()
        if type(rating) in (int, float, str) and rating in scale.labels:
            level[k] = scale.labels.index(rating)
        else:
            level[k] = scale.encode([rating], str(item))[0]
    return level


def _new_ratings(known: Ratings, data: RatingsLike) -> _NewRatings:
    """A new rating of an item replaces an old one; items that are not known are left out."""
    few = _read_person(known, data) if isinstance(data, Mapping) else _read_few(known, data)
    if few is not None:
        (cells, new_users), time = few, np.full(few[0].row.size, NOW)
    else:
        cells, new_users, time = encode_with_new_users(known, data)
    (row, column, level), times, seen, n_known = cells, known.times, known.observations, len(known.users)
    old = row[row < n_known]
    if old.size:
        old = np.unique(old)
        earlier = seen.take_rows(old)
        row = np.concatenate([row, np.repeat(old, earlier.row_counts)])
        column, level = np.concatenate([column, earlier.column]), np.concatenate([level, earlier.level])
        if times is not None:
            entries = [slice(*seen.row_start[d : d + 2]) for d in old]
            time = np.concatenate([time, *(times.value[own] for own in entries)])
    # The first of each pair is the new one.
    who, row_start, first = first_of_each(row.astype(np.int64), column.astype(np.int64))
    # Sorted by now, and checked when they were read.
    answers = column[first].astype(seen.column.dtype), level[first].astype(seen.level.dtype)
    observations = Observations(row_start, *answers, seen.n_levels)
    if old.size and seen.weight.size:  # new ratings count once
        observations = observations.with_weight(np.append(np.ones(cells.row.size), earlier.weight)[first])
    labels = new_users.labels[who[old.size :] - n_known]
    if old.size:
        labels = np.concatenate([known.users.labels[old], labels])
    age = None if times is None else ages(row_start, time[first])
    return _NewRatings(who, labels, observations, age)

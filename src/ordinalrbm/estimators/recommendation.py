"""What a service asks of a model of ratings: recommendations, and who or what is alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
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
from ordinalrbm.estimators.reranking import Reordering, categories_of, drawn_lists, mask_of, without
from ordinalrbm.estimators.side_features import SideFeatures
from ordinalrbm.estimators.validation import check_choice, check_whole
from ordinalrbm.evaluate.ranking import lowest_liked
from ordinalrbm.matrix import asking, newcomers
from ordinalrbm.matrix import top_n as recommending
from ordinalrbm.matrix.blend import LEAST_DEMAND
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.drift import PlacedCells, RowDrift
from ordinalrbm.matrix.implicit_als import Demand
from ordinalrbm.matrix.item_weights import Past
from ordinalrbm.matrix.predict import probabilities
from ordinalrbm.matrix.top_n import Vectors
from ordinalrbm.runtime.jit import single_threaded
from ordinalrbm.runtime.threads import threads

# Ids and ratings as users give them.
IdsLike = Any  # an id, or array-like of ids
RatingsLike = Any  # a frame, three arrays, or a sparse matrix
Score = Literal["expected", "liked", "rating", "demand"]
_FEW = 4
_TINY = 1e-12
_NOBODY = np.full(1, -1)
_COLUMNS = pd.Index(["user", "item", "rank", "score"])
_EXPLORED = _COLUMNS.append(pd.Index(["propensity"]))
_SCORES = ("expected", "liked", "rating", "demand")


class QueryRows(NamedTuple):
    """Rows of models that are asked for."""

    models: list[Any]
    demand: np.ndarray  # (rows of the models, K) demand factors
    row: np.ndarray  # the row of each user asked for, in the models and in demand
    past: Past  # what rows of the models have chosen
    seen: Observations | None  # what they leave out
    are_own: bool  # whether the models are those of the estimator, which may be on a device


class _NewRatings(NamedTuple):
    """All ratings of users who bring new ones."""

    who: np.ndarray  # their positions; new users come after those known
    labels: np.ndarray
    observations: Observations
    age: np.ndarray | None  # how recent the ratings are, if that is known


class _Query(NamedTuple):
    """What is asked for."""

    n: int
    score: str
    worth: np.ndarray  # (items, L): what each level counts
    lowest: np.ndarray  # (items,): the lowest level that counts
    closed: np.ndarray | None  # (items,) mask of those that are left out
    is_one_scale: bool
    explore: Any = None  # a seed of Thompson sampling


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
    _is_on_gpu: Callable[[], bool]
    _on_gpu: Callable[[], Any]
    _lines_of: Callable[[QueryRows], np.ndarray | None]
    _drift: Callable[[], RowDrift | None]
    _read_times: Callable[[Any, Cells, str], np.ndarray | None]

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
        at: Any = None,
        where: Mapping[str, Any] | None = None,
        diversity: float = 0.0,
        calibrate: str | None = None,
        explore: int | np.random.Generator | None = None,
    ) -> pd.DataFrame:
        """The n best items for each user, the best first.

        Parameters
        ----------
        users : id, array-like of ids, or "all"
            Of whom nothing is known gets what is popular and liked. (Should a user be named "all",
            give ["all"].) By default all users of ``ratings``.
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
            liked. "rating": about the expected rating, should the
            item be chosen; where items have different scales, from 0 at an item's lowest label to
            1 at its highest. Models with Gaussian factors take it from the inner product of
            :meth:`vectors`, as if all users had the thresholds of an average one: it ranks quickly,
            but scores and neighbours in the list differ a little from
            ``predict(rule="mean")``, which has each user's own.
            Models without demand (``demand_factors=0``) have "liked" in place of "expected".
        liked : label, optional
            From which label on a rating counts as liked; by default those in the upper quarter of
            an item's scale: 4 of 5, 8 of 10.
        exclude_seen : bool, default=True
            Whether to leave out what the user has rated.
        at : number or date, optional
            When the lists are shown, as the timestamps that were learnt from. What comes next is
            then told by what a known user had chosen until that time, and how much is liked by the
            level of the user's drift; factors are those of all ratings. By default now, after all
            ratings. Without times it makes no difference; it does not go with ``ratings``.
        where : dict, optional
            Only items with these features: of each column of ``item_features`` that is named, a
            category, one of several in a list, or True or False.
        diversity : float from 0 to 1, default=0
            How much it counts against an item that it is like one above it in the list (maximal
            marginal relevance); items are alike if the same users choose them.
        calibrate : str, optional
            A column of ``item_features`` with categories, such as genres: the list is to have as
            much of each as the items that the user has liked (Steck 2018).
        explore : int or Generator, optional
            A seed. Each list is the best by one draw of the posterior (Thompson sampling), so that
            items of which little is known are shown now and then; needs ``posterior="sampled"``.
            Who chooses what has no draws, so that it is the liking that varies.

        Returns
        -------
        DataFrame
            Columns user, item, rank (from 1) and score, in the order of ``users``; of the library
            that the ids or ratings given are of. Ties go to the item whose id comes first. If
            ``ratings`` are a dict, there is no column user. With ``explore`` there is a column
            propensity: the share of draws whose list has the item, to weight what it leads to.

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
        asked, order = (users, n, items, exclude, ratings, score), (where, diversity, calibrate, explore)
        found = self._lists(*asked, *order, liked=liked, exclude_seen=exclude_seen, at=at)
        names = _COLUMNS if explore is None else _EXPLORED
        if isinstance(ratings, Mapping):
            return frames.of_columns(found[1:], names[1:])
        return frames.like(frames.of_columns(found, names), users, ratings)

    @reading
    def _lists(
        self,
        users: IdsLike,
        n: int,
        items: IdsLike,
        exclude: IdsLike,
        ratings: RatingsLike,
        score: Score,
        where: Mapping[str, Any] | None,
        diversity: float,
        calibrate: str | None,
        explore: Any,
        *,
        liked: Any,
        exclude_seen: bool,
        at: Any = None,
    ) -> tuple[np.ndarray, ...]:
        """Users, items, ranks and scores: the columns that :meth:`recommend` makes a frame of."""
        if not hasattr(self, "models_"):
            check_is_fitted(self, "models_")  # which says so; it takes its time
        check_whole("n", n, 1)
        check_choice("score", score, _SCORES)
        of_users: dict[Any, Any] = {}
        if isinstance(exclude, Mapping):
            of_users, exclude = {user: as_list(own) for user, own in exclude.items()}, None
        wanted = self._wanted(n, score, liked, items, exclude, where)
        labels, position, index, new = self._asked(users, ratings)
        time = self._time_of_lists(at, new)
        if explore is not None and (of_users or diversity or calibrate or not hasattr(self, "draws_")):
            raise DataError(
                "explore= takes lists as they come from draws of a model with posterior='sampled'; leave it "
                "out, or diversity=, calibrate= and a dict as exclude=."
            )
        order = self._reordering(diversity, calibrate, position, index, new, liked)
        n_found = order.n_candidates(n) if order else n
        more = max(map(len, of_users.values()), default=0)
        asked = wanted._replace(n=n_found + more, explore=explore)
        best = self._best(position, index, new, asked, exclude_seen=exclude_seen, time=time)
        if of_users:
            best = without(best, self._positions_by_query(labels, of_users), n_found)
        best = order.of(best, n) if order else best
        found = labels[best.query], self.ratings_.items.labels[best.item], best.rank, best.score
        return found if explore is None else (*found, best.propensity)

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
        is_one_scale = score == "rating" and len(self.ratings_.distinct()[0]) == 1
        return _Query(n, score, *self._kept_worth(score, liked), closed, is_one_scale)

    # ---- lists in another order -----------------------------------------------------------------

    def _reordering(
        self,
        diversity: float,
        calibrate: str | None,
        position: np.ndarray,
        index: np.ndarray,
        new: _NewRatings | None,
        liked: Any,
    ) -> Reordering | None:
        if not 0.0 <= diversity <= 1.0:
            raise DataError(f"The 'diversity' must be a number from 0 to 1. Got {diversity!r} instead.")
        if not diversity and calibrate is None:
            return None
        categories = csr_array((len(self.ratings_.items), 0))
        if calibrate is not None:
            categories = categories_of(self._features.items, calibrate)
        known, lowest = self.ratings_.observations, lowest_liked(self.ratings_, liked)[:-1]

        def shares(query: int) -> np.ndarray:
            """Of categories among what the user in this place has liked."""
            own = (
                known.take_rows(position[[query]]) if position[query] >= 0 else known.take_rows(np.arange(0))
            )
            if new is not None and index[query] >= 0:
                own = new.observations.take_rows(index[[query]])
            found = categories[own.column[own.level >= lowest[own.column]]].sum(axis=0)
            return np.asarray(found / max(found.sum(), _TINY))

        return Reordering(diversity, self._factors_of("item", "demand"), categories, shares)

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

    def _by_one_draw(self, rows: QueryRows, wanted: _Query) -> recommending.Best:
        """Thompson sampling: the list of each row by a draw of its own."""
        one = wanted._replace(explore=None, is_one_scale=False)
        whole = (each._replace(share=1.0) for each in rows.models)  # of one draw of many it is less
        lists = [self._best_of(rows._replace(models=[each], are_own=False), one) for each in whole]
        return drawn_lists(lists, rows.row.size, len(self.ratings_.items), wanted.explore)

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

    def _kept_worth(self, score: str, liked: Any) -> tuple[np.ndarray, np.ndarray]:
        """What levels count, and the lowest that does; those without ``liked`` are kept."""
        if liked is not None:
            return _with_lowest(self._level_utility(score, liked))
        key = score == "rating"
        kept: tuple[Ratings, dict[bool, Any]] | None = self.__dict__.get("_worths")
        if kept is None or kept[0] is not self.ratings_:
            kept = self.__dict__["_worths"] = (self.ratings_, {})
        if key not in kept[1]:
            kept[1][key] = _with_lowest(self._level_utility(score, liked))
        return kept[1][key]

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
        time: int | None,
    ) -> recommending.Best:
        if new is None and time is None and exclude_seen and self.ratings_.have_rated(position).all():
            return self._best_of(self._known_rows(position), wanted)
        is_new, parts = index >= 0, []
        if new is not None and is_new.any():
            parts.append((is_new, self._best_of_new(new, index[is_new], wanted, exclude_seen)))
            if is_new.all():
                return parts[0][1]
        unknown = self._unknown_users(position) & ~is_new
        known = ~unknown & ~is_new
        if known.any():
            rows = self._known_rows(position[known]) if time is None else self._rows_at(position[known], time)
            rows = rows if exclude_seen else rows._replace(seen=None)
            parts.append((known, self._best_of(rows, wanted)))
        if unknown.any():
            scores = self._scores_for_unknown(wanted)
            best = recommending.for_all(scores, int(unknown.sum()), wanted.n)
            if wanted.explore is not None:
                best = best._replace(propensity=np.ones(best.item.size))
            parts.append((unknown, best))
        return recommending.concatenate(parts)

    def _best_of_new(
        self, new: _NewRatings, row: np.ndarray, wanted: _Query, exclude_seen: bool
    ) -> recommending.Best:
        past = Past(new.observations, new.age)
        seen, by = past.answers if exclude_seen else None, self._inferred_by(wanted)
        if by is None:
            models, demand = self._infer_users(new)
            return self._best_of(QueryRows(models, demand, row, past, seen, False), wanted)
        left_out = recommending.LeftOut(seen, wanted.closed)
        with self._threads(row.size):
            liking = self.models_[0].liking(wanted.lowest)
            return newcomers.best_liked(by, past, row, wanted.n, liking, left_out)

    def _inferred_by(self, wanted: _Query) -> newcomers.NewRows | None:
        """How a kernel infers new users, where it can make their lists as well; kept for the next time."""
        if wanted.score != "expected" or len(self.models_) > 1 or self._features.users is not None:
            return None
        others = self._others()[0]
        kept = self.__dict__.get("_kept_newcomers")
        if kept is None or kept[0] is not others or kept[1] is not self.demand_:
            model, found = self.models_[0], None
            if model.liking(wanted.lowest) is not None and not model.is_point:
                found = newcomers.NewRows.of(model, others, self.demand_)
            kept = self.__dict__["_kept_newcomers"] = (others, self.demand_, found)
        return kept[2]

    def _known_rows(self, position: np.ndarray) -> QueryRows:
        own = self.ratings_.observations
        past = Past(own, self.ratings_.age)
        return QueryRows(self.models_, self.demand_.rows, position, past, own, True)

    def _rows_at(self, position: np.ndarray, time: int) -> QueryRows:
        """Known users as they were at a time; rows of models are these users if their levels drift."""
        known, drift, times = self.ratings_.observations, self._drift(), self.ratings_.times
        assert times is not None, "a time was read by them"
        which, row = np.arange(known.n_rows), position
        if drift is not None:
            which, row = position, np.arange(position.size)
        own = known.take_rows(which)
        entries = [slice(*known.row_start[d : d + 2]) for d in which]
        given = np.concatenate([times.value[entry] for entry in entries])
        then = own.select(given <= time)
        past = Past(then, ages(then.row_start, given[given <= time]))
        models, demand = self.models_, self.demand_.rows[which]
        if drift is not None:
            bins = drift.at(which, np.full(which.size, time))
            placed = PlacedCells(which, bins, Cells(*np.zeros((3, 0), dtype=np.int64)))
            models = [model for posterior in self._posteriors for model in posterior.at(placed)]
        return QueryRows(models, demand, row, past, own, drift is None)

    def _time_of_lists(self, at: Any, new: _NewRatings | None) -> int | None:
        if at is None or self.ratings_.times is None:
            return None
        if new is not None:
            raise DataError("at= is a time of known users; leave it out, or call without ratings=.")
        found = self._read_times(at, Cells(*np.zeros((3, 1), dtype=np.int64)), "at")
        return None if found is None else int(found[0])

    @reading
    def interview(
        self, n: int = 10, ratings: Mapping[Any, Any] | None = None, items: IdsLike = None
    ) -> pd.DataFrame:
        """The items to show a new user first, whose ratings are expected to tell most.

        An item counts by how often it has been rated: as likely the newcomer can tell, and so much it
        matters what the newcomer thinks of it. Only models with Gaussian factors and levels
        (:class:`OrdinalMF`) can; :meth:`recommend` and :meth:`fold_in` make use of the ratings.

        Parameters
        ----------
        n : int, default=10
            How many items, each as if those before it had been shown. With 1, and what has been
            rated so far, an interview goes by the answers.
        ratings : dict from item to rating, optional
            The new user's ratings so far; None for an item that the user does not know.
        items : array-like of ids, optional
            Only these are shown, which the user knows; by default all, as likely as others know them.

        Returns
        -------
        DataFrame, the best item first
            ``item``; ``known``, the share of users who have rated it; ``information``, the share of
            what is not known yet of the user's ratings that the item is expected to explain.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
        >>> shown = model.interview(2)["item"].tolist()
        >>> model.interview(1, {shown[0]: 3, shown[1]: None})["item"][0] in shown
        False
        """
        check_is_fitted(self, "models_")
        check_whole("n", n, 1)
        place = [k for k, model in enumerate(self.models_) if asking.can_ask(model)][-1:]
        if not place and self.ratings_.level_counts().max() == 1:
            raise DataError("There is nothing to rate, on scales of one level; interview() asks for ratings.")
        if not place:
            raise DataError(f"{type(self).__name__} does not say what it does not know; use OrdinalMF.")
        known, given = self.ratings_, dict(ratings or {})
        column, level = _read_person(known, given)
        if (column < 0).any():
            unknown = list(given)[int((column < 0).argmax())]
            raise DataError(f"The item {unknown!r} is not known; give ratings of items that were learnt.")
        rated, model, n_items = level >= 0, self.models_[place[0]], len(known.items)
        row = np.zeros(int(rated.sum()), dtype=int)
        answers = Observations.from_triples(row, column[rated], level[rated], 1, n_items, model.n_levels)
        with single_threaded():
            person = self._models_with_users(answers, None)[place[0]].rows if row.size else None
        seen, candidates = known.observations, self._mask(known.items.labels if items is None else items)
        share = seen.column_counts / max(int((seen.row_counts > 0).sum()), 1)
        candidates[column] = False
        chance = share if items is None else np.ones(n_items)
        worth = asking.Worth(share, chance, self._level_utility("rating"))
        best, information = asking.best_items(model, person, answers, worth, candidates, n)
        return pd.DataFrame(
            {"item": known.items.take(best), "known": share[best], "information": information}
        )

    @reading
    def vectors(self, score: Literal["rating", "demand"] = "rating") -> Vectors:
        """Vectors of users and items, for an index that finds nearest neighbours.

        Items by falling inner product with a user's vector are items by falling ``score="rating"``
        of :meth:`recommend`, or by how likely the user chooses them. What ``recommend`` shows by
        default is not one inner product: let an index find a few hundred items by "demand", and
        rank these with ``recommend(user, items=found)``.

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
            ``items_``; ``expected(products)`` tells what inner products stand for: expected ratings,
            or about one for what was chosen and zero for what was not.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
        >>> vectors = model.vectors()
        >>> best = model.items_.take(np.argsort(-vectors.items @ vectors.users[3]))
        >>> found = model.recommend(3, n=6, score="rating", exclude_seen=False)["item"]
        >>> found.tolist() == best.tolist()
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

    def _threads(self, n_users: int) -> AbstractContextManager[None]:
        """To hand out the work of a few users would cost more than to do it."""
        return single_threaded() if n_users <= _FEW else threads(self.n_jobs)

    def _best_of(self, rows: QueryRows, wanted: _Query) -> recommending.Best:
        if wanted.explore is not None:
            return self._by_one_draw(rows, wanted)
        left_out = recommending.LeftOut(rows.seen, wanted.closed)
        # Weights between items are not on a device.
        is_blended = wanted.score in ("expected", "demand") and self.demand_.blend is not None
        there = self._on_gpu() if rows.are_own and self._is_on_gpu() and not is_blended else None
        vectors = self._vectors() if wanted.score == "rating" and wanted.is_one_scale else None
        lines = None
        if vectors is not None:
            lines = vectors.users[rows.row] if rows.are_own else self._lines_of(rows)
        if vectors is not None and lines is not None:
            with self._threads(rows.row.size):
                best = recommending.best_products(lines, vectors.items, rows.row, wanted.n, left_out)
            return best._replace(score=vectors.expected(best.score))
        if there is not None and wanted.score != "demand":
            demand = self.demand_ if wanted.score == "expected" else None
            return there.best_items(rows.row, wanted.n, wanted.worth, left_out, demand)
        if there is not None:
            best = there.most_wanted(self.demand_, rows.row, wanted.n, left_out)
            return recommending.to_records(*best)
        with self._threads(rows.row.size):
            if wanted.score in ("liked", "rating"):
                return recommending.best_items(rows.models, rows.row, wanted.n, wanted.worth, left_out)
            return self._best_wanted(rows, wanted, left_out)

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
        """(items,) for users of whom nothing is known: what is popular, and liked by others."""
        kept: Any = self.__dict__.get("_kept_unknown")
        if kept is None or kept[0] is not self._posteriors or kept[1] is not self.ratings_:
            of_score: dict[str, tuple[np.ndarray, np.ndarray]] = {}
            kept = self.__dict__["_kept_unknown"] = (self._posteriors, self.ratings_, of_score)
        if wanted.score not in kept[2] or kept[2][wanted.score][0] is not wanted.worth:
            kept[2][wanted.score] = wanted.worth, self._popular_and_liked(wanted)
        scores = kept[2][wanted.score][1]
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

    def _infer_users(self, new: _NewRatings) -> tuple[list[Any], np.ndarray]:
        """Models of which the rows are these users, and the demand of these."""
        table = self._features.tables.rows
        lines = None if table is None else rows_or_empty(table, new.who)
        with self._threads(new.who.size):
            models = self._models_with_users(new.observations, lines)
        return models, self.demand_.infer_rows(new.observations)

    # ---- what models have --------------------------------------------------------------------

    def _models_with_users(self, ratings: Observations, lines: csr_array | None) -> list[Any]:
        """The models with other rows: those with these ratings and features."""
        inferred = (
            posterior.infer_rows(ratings, lines, others, CPU)
            for posterior, others in zip(self._posteriors, self._others(), strict=True)
        )
        return [model for models in inferred for model in models]

    def _others(self) -> list[Any]:
        """What new users are compared with, for each posterior; kept for the next time."""
        seen = self.ratings_.observations
        kept = self.__dict__.get("_kept_others")
        if kept is None or kept[0] is not self._posteriors or kept[1] is not seen:
            table = self._features.tables.rows
            others = [posterior.compared_with(seen, table) for posterior in self._posteriors]
            kept = self.__dict__["_kept_others"] = (self._posteriors, seen, others)
        return kept[2]

    def _vectors(self) -> Vectors | None:
        return None


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


def _read_person(known: Ratings, given: Mapping[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Positions of items, −1 if unknown, and levels of one person's ratings, −1 if not rated."""
    column = known.lookup(list(given), "item")
    scales = [known.scale_of(j) if j >= 0 else known.cold_start_scale() for j in column]
    pairs = zip(scales, given.items(), strict=True)
    level = [
        scale.labels.index(rating)
        if type(rating) in (int, float, str) and rating in scale.labels
        else scale.encode([rating], str(item))[0]
        for scale, (item, rating) in pairs
    ]
    return column, np.array(level, dtype=np.int16)


def _new_ratings(known: Ratings, data: RatingsLike) -> _NewRatings:
    """A new rating of an item replaces an old one; items that are not known are left out."""
    if isinstance(data, Mapping):
        column, level = _read_person(known, data)
        column, level = column[level >= 0], level[level >= 0]
        cells, new_users = Cells(np.full(column.size, len(known.users)), column, level), Ids(_NOBODY)
        time = np.full(column.size, NOW)
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

"""One face for all models of ratings: learning, predictions, recommendations, reasons, files."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data import recency
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.data.ratings import (
    Catalogue,
    Ratings,
    SharedRatings,
    as_list,
    between,
    encode,
    is_single,
    merged,
    read_given,
    refuse_without_scale,
    taken,
    times_of_cells,
)
from ordinalrbm.data.triples import Part
from ordinalrbm.engine import memory
from ordinalrbm.engine.gpu.device import initialising_device, working_on_named
from ordinalrbm.errors import DataError
from ordinalrbm.estimators import side_features
from ordinalrbm.estimators.persistence import kept_ratings, restored_ratings
from ordinalrbm.estimators.recommendation import Serving, reading
from ordinalrbm.estimators.side_features import NO_FEATURES, SideFeatures, extended, read_side
from ordinalrbm.estimators.summaries import Carded, Summary, of_ratings
from ordinalrbm.estimators.validation import (
    as_before_if_failed,
    check_choice,
    check_device,
    check_parameters,
    check_whole,
)
from ordinalrbm.evaluate.ranking import lowest_liked
from ordinalrbm.matrix import cold_start, implicit_als
from ordinalrbm.matrix.backends import backend_for, single_backend
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.demand_choice import TO_CHOOSE, TO_LEARN, Settings, chosen, some_rows
from ordinalrbm.matrix.drift import PlacedCells, RowDrift
from ordinalrbm.matrix.explain import Explanation
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.implicit_als import Demand
from ordinalrbm.matrix.item_weights import Past
from ordinalrbm.matrix.predict import probabilities
from ordinalrbm.matrix.prepare import Fitted, Loaded, TrainingData, as_choices, prepare
from ordinalrbm.matrix.protocol import ChangedRatings, ExplainedCell
from ordinalrbm.runtime import process_group
from ordinalrbm.runtime.threads import report_interruption, seed_from, threads
from ordinalrbm.runtime.timing import stage
from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY, Rule, point
from ordinalrbm.storage import model_file
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training.checkpoint import Checkpoints
from ordinalrbm.training.identity import identity_of_ratings
from ordinalrbm.training.loop import Callback, Calls

_ROUNDING = 1e-3
# Cells that are predicted together for other times than now, where each has a row of its own.
_CELLS_AT_A_TIME = 20_000
# Users by whom it is seen what models predict for items without ratings.
_ROWS_FOR_RATIOS = 2_000
# What is kept for the next call, and follows from the rest; and the lock of those who update.
_KEPT = ("_on_device", "_cache", "_updating")


class Few(NamedTuple):
    """Users and items that are left when others are forgotten."""

    before: Ratings
    left: Ratings  # of the same users and items
    ratings: Ratings  # the same, of those that are left
    rows: np.ndarray  # their positions before
    columns: np.ndarray
    tables: Tables  # features of all before

    def changed(self, ratings: Observations) -> ChangedRatings:
        """Ratings that are left, and which of the rows and columns that stay have fewer."""
        before, left = self.before.observations, self.left.observations
        lost = left.row_counts < before.row_counts, left.column_counts < before.column_counts
        return ChangedRatings(ratings, self.rows[lost[0][self.rows]], self.columns[lost[1][self.columns]])


class ReadRatings(NamedTuple):
    """Ratings as numbers, validation ratings, and a seed."""

    known: Ratings  # or this process's part of them
    given: Cells | None
    among: process_group.Group | process_group.Alone  # processes that share the ratings
    seed: int
    given_time: np.ndarray | None  # of validation ratings
    given_weight: np.ndarray | None = None  # of the same


class _Trained(NamedTuple):
    """What was learnt, in the random order of the prepared ratings; demand in that of the ids."""

    data: TrainingData
    fitted: Fitted
    demand: Demand


class RatingModel(Serving, Carded, BaseEstimator):
    """What all models of ratings share.

    Parameters
    ----------
    scale : list of labels from lowest to highest, optional
        The scale of all ratings; by default the distinct ratings in ascending order.
    item_scales : dict of item to labels, optional
        Items with a scale of their own.
    n_epochs : int or None
        Passes over the ratings at most.
    patience : int
        Learning ends, or slows down to its end, after so many epochs in which held-out ratings are
        not predicted better.
    validation_fraction : float, default=0.05
        Share of the ratings that is held out to watch learning when ``fit`` is given no validation
        ratings (200,000 at most, and never all ratings of a user or an item). 0 holds out none.
        Of some users a tenth of the choices (more where this share is larger), or the last one
        that is liked where there are times, are held out to choose what the demand is made of.
    demand_factors : int, default=64
        Factors of the demand: how likely it is that a user chooses an item at all, which is learnt
        from who has rated what, beside the model of the ratings, and which :meth:`recommend` makes
        use of. 0 learns none.
    random_state : int, RandomState or None, default=None
        Seed of everything random. The same seed gives the same result on any number of threads.
    n_jobs : int or None, default=None
        Threads; None or -1 means all that Numba has.
    device : {"cpu", "cuda", "cuda:0", ...}, default="cpu"
        Where to learn, predict and fold in, for the models that have this parameter. A
        GPU needs ``pip install "ordinalrbm[gpu]"``; results are those of the cores to float
        rounding. Files do not keep it: after ``load``, say ``model.set_params(device="cuda")``.
        There is no switch to another device by itself: without a GPU, "cuda" is an error. Inside a
        process group of ``torch.distributed`` with several processes, these learn an
        :class:`OrdinalMF` together: all call ``fit`` with the same settings and the same ratings,
        or each with a :class:`RatingsPart`, and all get the whole model, that of one process to
        float rounding.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    models_ : list
        The models whose predictions are averaged; users and items in the order of their ids.
    model_ : the last of them
    users_, items_ : Ids
        The ids behind rows and columns.
    scales_ : Scale, or tuple of Scale
        One for all items, or one per item.
    ratings_ : Ratings
        The ratings that were learnt from: what a user has seen. After a fit with a
        :class:`RatingsPart` in a process group, each process keeps those of its own users: all
        predict, all call ``save()``, and lists need the loaded file.
    demand_ : Demand
        Factors of users (``rows``) and items (``columns``), whose product is about one for what a
        user would surely choose.
    history_ : DataFrame
        Per epoch: log-likelihood of the held-out ratings, seconds (which files do not keep), and
        what else a model has to tell.
    best_epoch_, n_iter_ : int
        The epoch whose parameters were kept, and how many were run.
    about_ : dict
        Notes of whoever made the model, kept in its file: anything that JSON can hold.
    """

    _kind: ClassVar[str]  # of a model file
    _model_type: ClassVar[Any]
    _in_processes: ClassVar[bool] = False  # whether several may learn it together
    _weighs: ClassVar[bool] = False  # whether ratings may have weights
    _can_update: ClassVar[bool] = False  # whether new ratings place users and items anew

    scale: Any
    item_scales: Any
    validation_fraction: float
    random_state: Any
    n_jobs: int | None
    verbose: bool
    device: str = "cpu"
    demand_factors: int
    _features: SideFeatures = NO_FEATURES

    # ---- what each model has of its own ---------------------------------------------------------

    def _learn(self, data: TrainingData, seed: int, checkpoints: Checkpoints) -> Fitted:
        raise NotImplementedError

    def _read_scales(self, catalogue: Catalogue) -> None:
        """Raise DataError if the scales do not suit the model."""

    def _fold_in(self, ratings: Observations, tables: Tables) -> None:
        """Add the new users and items of these ratings and tables to the models."""
        known, backend = self.ratings_.observations, self._backend()
        self._keep_posteriors(
            [each.with_newcomers(known, ratings, tables, backend) for each in self._posteriors]
        )

    def _held_out(self) -> float:
        """Share of the ratings that is held out where no validation ratings are given."""
        return self.validation_fraction

    def _effects(self, cell: ExplainedCell) -> tuple[float, np.ndarray]:
        """Expected worth of a cell, and what each of the row's other ratings adds to it."""
        found = [posterior.rating_effects(cell) for posterior in self._posteriors]
        shares = [posterior.share for posterior in self._posteriors]
        expected = float(np.average([expected for expected, _ in found], weights=shares))
        return expected, np.average([effects for _, effects in found], axis=0, weights=shares)

    def _baseline(self, row: int, column: int) -> float:
        """What is predicted for a user without ratings, who has the features of this one."""
        line = self._features.line_of_user(row) if self._takes_features() else None
        if line is None or not line.nnz:
            nobody = Cells(np.array([-1]), np.array([column]), np.zeros(1, np.int8))
            return float(self._point(nobody, "mean")[0])
        none, seen = np.zeros(0, dtype=np.int32), self.ratings_.observations
        nothing = Observations.from_triples(none, none, none, 1, seen.n_columns, seen.n_levels)
        cell = Cells(np.array([0]), np.array([column]), np.zeros(1, np.int8))
        found = probabilities(self._models_with_users(nothing, line), cell)
        width = max(scale.n_levels for scale in self.ratings_.distinct()[0])
        return float(self.ratings_.expected(found[:, :width], cell.column)[0])

    def _model_arrays(self) -> dict[str, np.ndarray]:
        return {
            f"{self._name_in_file(number)}.{name}": array
            for number, posterior in enumerate(self._posteriors)
            for name, array in posterior.to_arrays().items()
        }

    def _name_in_file(self, number: int) -> str:
        return str(number)

    def _read_models(self, stored: Stored, n_users: int, n_levels: np.ndarray) -> None:
        n_models = stored.whole("n_models", 1, len(stored.arrays))  # each has arrays
        parts = [stored.under(f"{number}.") for number in range(n_models)]
        self._keep_posteriors([self._model_type.from_stored(part, n_users, n_levels) for part in parts])

    def _keep_posteriors(self, posteriors: list[Any]) -> None:
        self._posteriors = posteriors
        self.models_ = [model for posterior in posteriors for model in posterior.models]

    # ---- learning -------------------------------------------------------------------------------

    def fit(
        self,
        ratings: Any,
        validation: Any = None,
        *,
        sample_weight: Any = None,
        user_features: Any = None,
        item_features: Any = None,
        checkpoint: str | os.PathLike | None = None,
        every: str | int = "5 min",
        resume: bool = True,
        callback: Callback | None = None,
    ) -> Self:
        """Learn from ratings. Ctrl-C ends learning and keeps the best epoch so far.

        Parameters
        ----------
        ratings : DataFrame (pandas or polars), tuple of three arrays, or scipy.sparse matrix
            A frame has the columns user, item and rating, or others whose names say as much, such
            as customer_id, movieId and stars; from a column timestamp, if there is one, it is
            learnt what users choose next. Arrays come as user, item, rating; of a sparse matrix
            rows are users, columns items, and the stored entries ratings. Without ratings, give the
            two columns (and times) or the two arrays of who chose what: demand is learnt, and what comes
            several times, as in a log of clicks, counts as often. Ids are integers or text. Inside a
            process group of several processes also a :class:`RatingsPart`.
        validation : of the same kinds, optional
            Ratings to watch learning by. Users and items that are not in ``ratings`` are predicted
            like any unknown one. Without it, a few of the ratings are held out.
        sample_weight : array-like of a number per rating, or name of a column of the frame, optional
            How many times each rating, or each choice where there are no ratings, counts: one of
            weight 2 as if it were there twice, one of weight 0 not at all. For :class:`OrdinalMF` and
            :class:`GaussianMF`, and without ratings for all models. See "Weights and counts" in the
            guide.
        user_features, item_features : DataFrame (pandas or polars), optional
            What is known of users and items beside their ratings, for models that make use of it
            (:class:`OrdinalMF`): a line for each, with the id in the column user or item. All
            other columns are features: numbers; booleans; text or categories; lists of these, such as
            those that ``.str.split("|")`` makes of "Action|Comedy". The order of an ordered categorical
            is left aside: where it matters, give ``.cat.codes``. Cells may be empty, and ids may be
            missing. Users and items with features but no ratings become known, and are predicted from
            their features.
        checkpoint : path of a folder, optional
        every : str or int, default="5 min"
        resume : bool, default=True
            Where to keep what has been learnt so far, how often, and whether to go on from there:
            see :meth:`CumulativeRBM.fit`.
        callback : function, optional
            See :meth:`CumulativeRBM.fit`. Of several processes, all give one, and that of the first
            is called.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings).n_iter_
        2
        >>> trust = np.arange(60) % 4  # a rating of weight 0 does not count
        >>> orbm.OrdinalMF(2, n_epochs=2).fit(ratings, sample_weight=trust).ratings_.n_ratings
        45
        """
        check_parameters(self)
        self.__dict__.pop("_on_device", None)  # the device has better uses for its memory
        checkpointing = Checkpoints(checkpoint, every, resume, self._group())
        with as_before_if_failed(self), Calls(callback) as calls, checkpointing as checkpoints:
            given = (ratings, validation, sample_weight)
            read = self._read(given, (user_features, item_features), checkpoints)
            trained = self._train(read, checkpoints)
            self._finish(read, trained)
        if trained.fitted.interrupted and not calls.has_stopped:
            report_interruption(self.n_iter_, self.best_epoch_)
        return self

    def _read(
        self, data: tuple[Any, Any, Any], features: tuple[Any, Any], checkpoints: Checkpoints
    ) -> ReadRatings:
        """Ratings and features as numbers; whatever is wrong with them is raised here."""
        ratings, validation, sample_weight = data
        how = {"scale": self.scale, "item_scales": self.item_scales, "sample_weight": sample_weight}
        with initialising_device(self.device):
            known, given, among, weight = read_given(ratings, validation, **how)
        self._read_scales(known)
        if sample_weight is not None and known.level_counts().max() > 1:
            self._check_weighs()
        own = process_group.current() if isinstance(validation, Part) else None
        time = None if validation is None else times_of_cells(known, validation, own or process_group.ALONE)
        known = self._read_features(known, *features, among)
        own_seed = seed_from(self.random_state, stored=checkpoints.seed)
        seed = self._group().broadcast_object(lambda: own_seed)
        if checkpoints.are_kept:
            validating = None if given is None else (*given, weight, time)
            found = identity_of_ratings(self, seed, known, validating, self._features.tables, among)
            checkpoints.require_identity(among.broadcast_object(lambda: found))
        with among.raise_on_all_ranks():
            widths = (getattr(self, name, 0) for name in ("n_factors", "n_user_factors", "n_item_factors"))
            # A mean and a variance, or a weight and what is learnt of it.
            memory.check(known.observations, 2 * sum(widths), memory.available())
        return ReadRatings(known, given, among, seed, time, weight)

    def _check_weighs(self) -> None:
        if not self._weighs:
            raise DataError(
                f"{type(self).__name__} learns from ratings that count alike; leave out sample_weight, or "
                "use OrdinalMF or GaussianMF."
            )

    def _train(self, read: ReadRatings, checkpoints: Checkpoints) -> _Trained:
        known, given, among, seed = read[:4]
        with threads(self.n_jobs), working_on_named(self.device):
            with stage("held out and in random order"):
                data = prepare(known, given, self._held_out(), seed, among)
                data = data.with_tables(self._features.tables)
                data = data.with_times(known, given, read.given_time, among)
                data = data.with_weights(known, given, read.given_weight)
            choices = data if known.observations.n_levels.min() > 1 else as_choices(data, known)
            with ThreadPoolExecutor(1) as aside:  # many random numbers take their time
                first = aside.submit(self._first_demand, choices, seed)
                fitted = self._learn(data, seed, checkpoints)
            with stage("demand"):
                loaded = fitted.loaded if choices is data else None
                wanted = self._learn_demand(choices, first.result(), loaded)
        # The device has better uses for its memory.
        return _Trained(data, fitted._replace(loaded=None), wanted)

    def _finish(self, read: ReadRatings, trained: _Trained) -> None:
        known, among = read.known, read.among
        with stage("in the order of the ids"):
            kept = SharedRatings(known, among) if isinstance(among, process_group.Group) else known
            self._keep(kept, trained.data, trained.fitted)
        with threads(self.n_jobs), stage("demand"):
            past, liked, blend = Past(known.observations, known.age), lowest_liked(known)[:-1], None
            few, more = (some_rows(past, n, read.seed, among) for n in (TO_CHOOSE, TO_LEARN))
            if not among.rank:  # which writes the file
                blend = self._demand_settings(few, liked, read.seed).blend(more, liked)
            demand = trained.demand.after_learning(known.observations, among)
            self.demand_ = demand._replace(blend=blend)

    def _group(self) -> process_group.Group | process_group.Alone:
        group = process_group.current()
        if group is not None and not self._in_processes:
            raise DataError(
                f"Several processes learn OrdinalMF only, not {type(self).__name__}; learn it in a "
                "single process, or use OrdinalMF."
            )
        return group or process_group.ALONE

    def _first_demand(self, data: TrainingData, seed: int) -> implicit_als.Factors:
        known = data.observations
        return implicit_als.start(known, self._demand_width(known), seed)

    def _demand_width(self, known: Any) -> int:
        return min(self.demand_factors, known.n_rows, known.n_columns)

    def _demand_settings(self, past: Past, liked: np.ndarray, seed: int) -> Settings:
        """By a part of the choices that is held out."""
        if not self.validation_fraction:
            return Settings()
        n_factors = self._demand_width(past.answers)
        try:
            return chosen(past, liked, n_factors, self.validation_fraction, seed)
        except KeyboardInterrupt:
            return Settings()

    def _learn_demand(self, data: TrainingData, first: implicit_als.Factors, loaded: Loaded | None) -> Demand:
        """Which items users choose, in the order of the ids; nothing of it if Ctrl-C comes."""
        none = Demand.none(data.row_position.size, data.column_position.size)
        n_factors = first.columns.shape[1]
        if not n_factors or not data.observations.n_entries:
            return none
        try:
            backend, counted, views = loaded or self._load(data, n_factors)
            with backend.working():
                ridge = implicit_als.ridge_of(counted)
                found = backend.to_host(implicit_als.learn(views, backend.to_device(first), ridge))
        except KeyboardInterrupt:
            if process_group.current() is not None:
                raise
            return none
        return implicit_als.reordered_factors(found, data.row_position, data.column_position, ridge)

    def _load(self, data: TrainingData, n_factors: int) -> Loaded:
        """All ratings, with what was held out, where so many factors of them can be learnt."""
        backend, observations = backend_for(self.device), data.observations
        if data.validation is not None and not data.is_given:
            observations = backend.with_cells(observations, data.validation, data.validation_weight)
        with backend.working():
            return Loaded(backend, observations, backend.data(observations, n_factors))

    def _keep(self, known: Ratings, data: TrainingData, fitted: Fitted) -> None:
        self._keep_posteriors([self._in_order(each, data, known, fitted) for each in fitted.models])
        self.best_epoch_, self.n_iter_ = fitted.best_epoch, len(fitted.history)
        self.about_: dict[str, Any] = {}
        self.history_ = pd.DataFrame(list(fitted.history), columns=fitted.columns)
        if not fitted.history:  # where there was nothing to learn
            self.history_ = self.history_.astype(float)
        self._set_ratings(known)

    def _read_features(self, known: Ratings, users: Any, items: Any, among: Any) -> Ratings:
        if users is None and items is None:
            self._features = NO_FEATURES
            return known
        if not self._takes_features():
            raise DataError(
                f"{self!r:.80} makes no use of user_features and item_features; leave them out, or "
                "use OrdinalMF with the posterior 'variational' or 'sampled'."
            )
        if isinstance(among, process_group.Group):
            raise DataError(
                "user_features and item_features go with all ratings in every process, not with a "
                "RatingsPart; give all processes the same ratings."
            )
        known, self._features = read_side(known, (users, items))
        return known

    def _takes_features(self) -> bool:
        return False

    def _in_order(self, posterior: Any, data: TrainingData, known: Ratings, fitted: Fitted) -> Any:
        return posterior.reordered(data.row_position, data.column_position, data.n_levels)

    def _set_ratings(self, known: Ratings) -> None:
        self.ratings_, self.model_ = known, self.models_[-1]
        self.users_, self.items_, self.scales_ = known.users, known.items, known.scales

    # ---- predictions ----------------------------------------------------------------------------

    @reading
    def predict_proba(self, users: Any, items: Any, times: Any = None) -> np.ndarray:
        """Distribution of the rating that each user would give to each item, pair by pair.

        Parameters
        ----------
        users, items : array-like of ids of the same length, or a single id that stands for all
            Of whom nothing is known is predicted from the item's ratings, from what the user thinks
            of the average item, or from the ratings as a whole.
        times : array-like of the same length, or a single time, optional
            When each rating would be given, as numbers or dates like the timestamps that were
            learnt from. By default now, after the user's last rating. Only models whose biases
            drift (:class:`OrdinalMF`) make a difference.

        Returns
        -------
        (n, L) array
            L is the length of the scale; where items differ, of the longest, and probabilities are
            zero beyond an item's own. An unknown item has the common scale if there is one, else
            the longest.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
        >>> model.predict_proba(4, [1, 2, 99]).sum(axis=1).round(6).tolist()
        [1.0, 1.0, 1.0]
        """
        check_is_fitted(self, "models_")
        cells = self.ratings_.cells(users, items)
        return self._distribution(cells, self._read_times(times, cells))

    @reading
    def predict(self, users: Any, items: Any, rule: Rule = "mean", *, times: Any = None) -> Any:
        """One predicted rating per pair; of a single user and a single item the rating itself.

        Parameters
        ----------
        users, items, times : as in :meth:`predict_proba`
        rule : {"mean", "mode", "median"}
            The mean has the smallest squared error and is a number: of the labels when these are
            numbers, otherwise of their positions 1..L. The median has the smallest absolute error,
            the mode the most hits; both are labels of the scale.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, np.where(items < 3, 1, 5))
        >>> model = orbm.OrdinalMF(2, n_epochs=5, random_state=0).fit(ratings)
        >>> model.predict([7, 7, -1], [0, 5, 5], rule="mode").tolist()
        [1, 5, 5]
        >>> int(model.predict(7, 5, rule="mode"))
        5
        """
        check_is_fitted(self, "models_")
        check_choice("rule", rule, get_args(Rule))
        cells = self.ratings_.cells(users, items)
        ratings = self._point(cells, rule, self._read_times(times, cells))
        return ratings[0] if is_single(users) and is_single(items) else ratings

    @reading
    def score(self, ratings: Any, y: Any = None) -> float:
        """Mean log probability of ratings, so that settings can be searched for.

        Parameters
        ----------
        ratings : as in :meth:`fit`
            Ratings that were not learnt from.
        y : ignored

        Returns
        -------
        float
            The greater, the better.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
        >>> model.score(([3, 4], [1, 2], [2, 1])) < 0
        True
        """
        check_is_fitted(self, "models_")
        cells, time = encode(self.ratings_, ratings), times_of_cells(self.ratings_, ratings)
        if not cells.level.size:
            raise DataError("There is no rating to score; give at least one.")
        distribution = self._distribution(cells, time)
        refuse_without_scale(cells, distribution.shape[1], ratings)
        found = np.take_along_axis(distribution, cells.level[:, None].astype(np.intp), axis=1)
        return float(np.log(np.maximum(found, SMALLEST_PROBABILITY)).mean())

    def _read_times(self, times: Any, cells: Cells) -> np.ndarray | None:
        """Times of cells, if there are any and the model knows of times."""
        if times is None or self.ratings_.times is None:
            return None
        given = [times] if np.ndim(times) == 0 else times
        found = recency.times_of(given, self.ratings_.times.clock)
        if found is None or found.value.size not in (1, cells.row.size):
            kind = "dates" if self.ratings_.times.clock == "dates" else "numbers"
            raise DataError(
                f"times must be {kind}, as the timestamps that were learnt from, one for each of the "
                f"{cells.row.size:,} pairs or one for all; got {times!r:.80}."
            )
        return np.broadcast_to(found.value, cells.row.shape)

    def _point(self, cells: Cells, rule: Rule, time: np.ndarray | None = None) -> np.ndarray:
        distribution = self._distribution(cells, time)
        if rule == "mean":
            return self.ratings_.expected(distribution, cells.column)
        return self.ratings_.decode(point(distribution, rule), cells.column)

    @reading
    def summary(self) -> Summary:
        """What the model was learnt from, how learning went, and the items with most ratings."""
        check_is_fitted(self, "models_")
        return of_ratings(self)

    # ---- new users and items --------------------------------------------------------------------

    @reading
    def fold_in(
        self,
        new_ratings: Any = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """A model that also knows new users and new items, without learning anew.

        What is known of the old ones stays as it is; that of the new ones is inferred from their
        ratings and features, in milliseconds. The same ratings give the same model.

        Parameters
        ----------
        new_ratings : as in :meth:`fit`, or None
            Each rating is by a new user or of a new item, or both. A known user's ratings of new
            items serve to place the items.
        user_features, item_features : DataFrame, optional
            Features of new users and items, rated or not, in the columns that :meth:`fit` was
            given; those of known ones stay as they were.
        sample_weight : as in :meth:`fit`, of the new ratings

        Returns
        -------
        a new estimator; this one is not changed. New ids come after the old ones.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, np.where(items < 3, 1, 5))
        >>> model = orbm.OrdinalMF(2, n_epochs=5, random_state=0).fit(ratings)
        >>> wider = model.fold_in(([77, 77], [0, 5], [1, 5]))
        >>> wider.predict(77, [1, 4], rule="mode").tolist()
        [1, 5]
        """
        check_is_fitted(self, "models_")
        if new_ratings is None and user_features is None and item_features is None:
            raise DataError("There is nothing to fold in; give ratings or features of new users or items.")
        ratings = self.ratings_
        if new_ratings is not None:
            ratings = self._merged(new_ratings, "refuse", sample_weight)[0]
        wider = copy.copy(self)
        ratings, wider._features = extended(self._features, ratings, (user_features, item_features))
        with threads(self.n_jobs):
            wider._fold_in(wider._with_drift(ratings), wider._features.tables)
            wider.demand_ = self.demand_.with_new(ratings.observations)
        wider._set_ratings(ratings)
        return wider

    def _merged(
        self, ratings: Any, policy: Literal["refuse", "replace"], sample_weight: Any
    ) -> tuple[Ratings, np.ndarray, np.ndarray]:
        known = self.ratings_
        if sample_weight is not None and known.level_counts().max() > 1:
            self._check_weighs()
        return merged(known, ratings, policy, sample_weight)

    def update(self, ratings: Any, *, sample_weight: Any = None) -> Self:
        """Learn from new and changed ratings without learning anew.

        Users and items that have new ratings are placed anew by all of theirs, given the others,
        who stay where they are; new users and items are placed, too. A nightly run of it stays
        close to a full :meth:`fit`, which is worth its time now and then. Only models with Gaussian
        factors can (:class:`OrdinalMF`, :class:`GaussianMF`).

        Parameters
        ----------
        ratings : as in :meth:`fit`
            By anybody, of anything. A rating of an item that the user has rated before takes the
            place of the old one; one that is known already changes nothing, so that a batch may
            come twice. Without a time, a changed rating was given now. Choices without ratings
            count as often as they are in ``ratings``, or as before if that is more.
        sample_weight : as in :meth:`fit`, of these ratings

        Returns
        -------
        self, changed. Other threads may predict, recommend and save meanwhile: each call sees the
        model as it was before or as it is after. Several updates at once wait for each other.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, np.where(items < 3, 1, 5))
        >>> model = orbm.OrdinalMF(2, n_epochs=5, random_state=0).fit(ratings)
        >>> model = model.update(([77, 77, 1], [0, 5, 2], [1, 5, 5]))
        >>> model.predict(77, [1, 4], rule="mode").tolist()
        [1, 5]
        """
        check_is_fitted(self, "models_")
        return self._after(lambda model: model._learn_more(ratings, sample_weight))

    def _after(self, change: Callable[[Self], None]) -> Self:
        with self.__dict__.setdefault("_updating", threading.Lock()):
            renewed = copy.copy(self)  # which shares all arrays, and changes none
            change(renewed)
            renewed.__dict__["_updating"] = self.__dict__["_updating"]
            # At once: whoever reads has the attributes of before or those of after.
            self.__dict__ = renewed.__dict__
        return self

    def forget(self, users: Any = None, items: Any = None) -> Self:
        """Forget users and items: their ids, ratings, factors and features.

        Models with Gaussian factors (:class:`OrdinalMF`, :class:`GaussianMF`) place those anew who have
        rated the items, or whom the users have rated, by the ratings that are left; in other models
        they stay where they were. So does what is learnt of all together, such as priors and
        weights between items, until the next :meth:`fit`.

        Parameters
        ----------
        users, items : id or array-like of ids, optional
            All of them known.

        Returns
        -------
        self, changed. Other threads may go on reading it, as during :meth:`update`. A file holds what
        was forgotten until the model is saved to it again.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, np.where(items < 3, 1, 5))
        >>> model = orbm.OrdinalMF(2, n_epochs=5, random_state=0).fit(ratings)
        >>> model.forget(users=[3, 7]).users_.labels.tolist()
        [0, 1, 2, 4, 5, 6, 8, 9]
        """
        check_is_fitted(self, "models_")
        if users is None and items is None:
            raise DataError("There is nothing to forget; give users or items.")
        return self._after(lambda model: model._leave_out(users, items))

    def _leave_out(self, users: Any, items: Any) -> None:
        known = self.ratings_
        rows, columns = self._all_but(users, "user"), self._all_but(items, "item")
        left = between(known, rows, columns)
        n_levels = known.level_counts()
        if not left.n_ratings or n_levels[columns].max() < n_levels.max():
            raise DataError(
                "Without these there would be no rating, or none on the longest scale; fit() a model of "
                "the others instead."
            )
        whole = taken(left, rows, columns)
        few = Few(known, left, whole, rows, columns, self._features.tables)
        self.demand_ = self.demand_.updated(few.changed(left.observations))
        self.demand_ = self.demand_.taken(rows, columns, whole.observations)
        self._features = self._features.taken(rows, columns)
        kept = [label for label in self.item_scales or () if label in whole.items]
        self.item_scales = {label: self.item_scales[label] for label in kept} or None
        with threads(self.n_jobs):
            self._keep_few(few)
        self._set_ratings(whole)

    def _all_but(self, ids: Any, what: str) -> np.ndarray:
        known = self.ratings_
        every = np.arange(known.n_users if what == "user" else known.n_items)
        if ids is None:
            return every
        labels = as_list(ids)
        position = known.lookup(labels, what)
        if (position < 0).any():
            unknown = list(labels)[int((position < 0).argmax())]
            raise DataError(
                f"The {what} {unknown!r} is not known, so there is nothing to forget; leave it out."
            )
        return np.delete(every, position)

    def _keep_few(self, few: Few) -> None:
        """Only some users and items, after those that lost ratings have been placed without them."""
        ratings = few.ratings.observations
        rows, columns = (
            np.where(counts > 0, which, -1)  # of the others nothing is known any more
            for which, counts in ((few.rows, ratings.row_counts), (few.columns, ratings.column_counts))
        )
        before, changed = self._with_drift(few.before), few.changed(self._with_drift(few.left))
        found = []
        for posterior in self._posteriors:
            own = posterior.updated(before, changed, few.tables, CPU) if self._can_update else posterior
            own = own.reordered(rows, columns, ratings.n_levels)
            if self._features.tables.are_any and self._takes_features():
                own = own.with_feature_priors(ratings, self._features.tables)
            found.append(own)
        self._keep_posteriors(found)

    def _learn_more(self, ratings: Any, sample_weight: Any) -> None:
        known = self.ratings_
        whole, rows, columns = self._merged(ratings, "replace", sample_weight)
        whole, self._features = extended(self._features, whole, (None, None))
        touched = ChangedRatings(self._with_drift(whole), rows, columns)
        with threads(self.n_jobs):
            self._update(self._with_drift(known), touched, self._features.tables)
            if rows.size:
                self.demand_ = self.demand_.updated(touched)
        self._set_ratings(whole)

    def _update(self, known: Observations, touched: ChangedRatings, tables: Tables) -> None:
        raise DataError(
            f"{type(self).__name__} cannot be updated; fit() it anew with all ratings, or use OrdinalMF."
        )

    def _backend(self) -> Any:
        check_device(self.device)
        return single_backend(self.device)

    # ---- reasons --------------------------------------------------------------------------------

    @reading
    def explain(self, user: Any, item: Any, n: int = 5) -> Explanation:
        """Why this user should like this item, or not: the ratings that speak for it or against it.

        A rating's effect is what it adds to the expected rating of the item. Where factors are
        Gaussian, effects of all ratings add up from ``baseline``, the prediction for a user without
        ratings (and with the same features), to ``expected``. Elsewhere an effect is what the
        expected rating loses without that rating, and effects need not add up.

        Parameters
        ----------
        user, item : id
            Both known. If the user has rated the item, that rating is left out throughout.
        n : int, default=5
            How many ratings to name, those with the largest effect first.

        Returns
        -------
        Explanation
            With ``expected``, ``baseline`` and ``ratings`` (DataFrame: item, rating, effect).

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
        >>> reasons = model.explain(3, 5)
        >>> list(reasons.ratings.columns)
        ['item', 'rating', 'effect']
        """
        check_is_fitted(self, "models_")
        check_whole("n", n, 1)
        row, column = self._known(user, "user"), self._known(item, "item")
        seen = self.ratings_.observations
        items, levels = seen.row(row)
        others, weight = items != column, seen.weight[seen.row_start[row] :][: items.size]
        items, levels = items[others], levels[others]
        worth = self.ratings_.scale_of(column).values
        with threads(self.n_jobs):
            line, is_rated = self._features.line_of_user(row), not others.all()
            times = weight[others] if weight.size else 1.0
            cell = ExplainedCell(row, column, items, levels, worth, line, is_rated, times)
            expected, effect = self._effects(cell)
            baseline = self._baseline(row, column)
        first = np.argsort(-np.abs(effect), kind="stable")[:n]
        ratings = pd.DataFrame(
            {
                "item": self.items_.take(items[first]),
                "rating": self.ratings_.decode(levels[first], items[first]),
                "effect": effect[first],
            }
        )
        return Explanation(expected, ratings, baseline)

    def _known(self, label: Any, what: str) -> int:
        position = self.ratings_.lookup([label], what)[0]
        if position < 0:
            raise DataError(
                f"The {what} {label!r} is not known, so there is nothing to explain; give one of "
                f"{what}s_, or learn of it with fold_in()."
            )
        return int(position)

    # ---- files ----------------------------------------------------------------------------------

    @reading
    def save(self, path: str | os.PathLike) -> None:
        """Write the model to a file that holds no code; read it with :func:`ordinalrbm.load`.

        The ratings that were learnt from are in it (3 to 5 bytes each), because recommendations
        leave them out. Processes that share them all call this, and the first writes the file.

        Examples
        --------
        >>> import os, tempfile, numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "ratings.orbm")
        ...     model.save(path)
        ...     again = orbm.load(path)
        >>> again.recommend(3).equals(model.recommend(3))
        True
        """
        check_is_fitted(self, "models_")
        check_parameters(self)
        of_all: dict[str, Any] = {}
        known = self.ratings_
        among: process_group.Alone | process_group.Group = process_group.ALONE
        shared = known if isinstance(known, SharedRatings) else None
        if shared is not None:
            known, among = shared.own, shared.among
            here = process_group.current()
            if here is None or (here.rank, here.size) != (among.rank, among.size):
                raise DataError(
                    "The processes that share the ratings have left their group, and no file can be written "
                    "any more; call save() in all of them before destroy_process_group()."
                )
        arrays, header = kept_ratings(self, known)
        seen = known.observations
        counts = seen.row_counts, seen.column_counts
        arrays |= {f"seen.{part}": array for part, array in seen.to_arrays().items()}
        if known.times is not None:
            arrays |= recency.to_arrays(known.times, among)
        arrays |= {"n_levels": seen.n_levels, **self._model_arrays()}
        arrays |= side_features.to_arrays(self._features) | self._demand_arrays(*counts)
        header |= {"model": self._kind, "n_models": len(self.models_)}
        header |= side_features.to_header(self._features)
        if shared is not None:
            of_all = shared.of_all(arrays) | self._demand_arrays(*map(among.summed, counts))
            # Each process checks a model of its own ratings, to whose number factors are in proportion.
            share = seen.n_entries / of_all["seen.column"].shape[0]
            arrays |= self._demand_arrays(*counts, share=share)
        model_file.save(path, arrays, header, of_all, among)

    def _demand_arrays(self, *counts: np.ndarray, share: float = 1.0) -> dict[str, np.ndarray]:
        own, times = self.demand_, np.float32(share**0.5)
        own = own._replace(rows=times * own.rows, columns=times * own.columns)
        return {f"demand.{part}": array for part, array in own.to_arrays(*counts).items()}

    @classmethod
    def _from_file(cls, stored: Stored) -> Self:
        estimator, catalogue = restored_ratings(cls, stored)
        n_users, n_levels = len(catalogue.users), catalogue.level_counts()
        if not np.array_equal(stored.checked_array("n_levels", np.int32, n_levels.shape), n_levels):
            raise DataError("its items have other numbers of levels than their scales")
        estimator._features = side_features.from_stored(stored, catalogue)
        estimator._read_models(stored, n_users, n_levels)
        if abs(sum(model.share for model in estimator.models_) - 1.0) > _ROUNDING:
            raise DataError("the shares of its models do not add up to one")
        seen = Observations.from_stored(stored.under("seen."), n_users, n_levels)
        times = recency.from_stored(stored, seen.n_entries)
        estimator._set_ratings(Ratings.of(catalogue, seen, times))
        estimator.demand_ = Demand.from_stored(stored.under("demand."), seen)
        return estimator

    # ---- inside ---------------------------------------------------------------------------------

    def _distribution(self, cells: Cells, time: np.ndarray | None = None) -> np.ndarray:
        width = max(scale.n_levels for scale in self.ratings_.distinct()[0])
        if not cells.row.size:
            return np.zeros((0, width))
        bins = None if time is None else self._bins_at(cells, time)
        if bins is not None and (bins >= 0).any():
            found, drifts = np.empty((bins.size, width)), bins >= 0
            found[~drifts] = self._distribution(cells.at(~drifts))
            found[drifts] = self._distribution_at(cells.at(drifts), bins[drifts])[:, :width]
            return found
        found = self._of_models(cells)[:, :width]
        self._blend_with_frequencies(cells, found)
        return found

    def _of_models(self, cells: Cells) -> np.ndarray:
        some_unknown = min(cells.row.min(), cells.column.min()) < 0
        if some_unknown:
            cells = self._at_the_end(cells)
        if self._is_on_gpu():
            return self._on_gpu().probabilities(cells)
        with threads(self.n_jobs):
            return probabilities(self._models_with_unknown() if some_unknown else self.models_, cells)

    def _bins_at(self, cells: Cells, time: np.ndarray) -> np.ndarray | None:
        """The bin of the user's drift at each time, −1 where it makes no difference; None without."""
        drift = self._drift()
        if drift is None:
            return None
        known = cells.row >= 0
        bins = np.full(known.size, -1)
        bins[known] = drift.at(cells.row[known], time[known])
        bins[known] = np.where(bins[known] == drift.start[cells.row[known] + 1] - 1, -1, bins[known])
        return bins

    def _drift(self) -> RowDrift | None:
        return None

    def _with_drift(self, ratings: Ratings) -> Observations:
        drift, times = self._drift(), ratings.times
        if drift is None or times is None:
            return ratings.observations
        offsets = drift.offsets(ratings.observations, times.value)
        return ratings.observations.with_offset(offsets)

    def _distribution_at(self, cells: Cells, bins: np.ndarray) -> np.ndarray:
        order, parts = np.argsort(bins, kind="stable"), []
        with threads(self.n_jobs):
            for some in np.array_split(order, -(-order.size // _CELLS_AT_A_TIME)):
                placed = PlacedCells.of(cells.at(some), bins[some])
                models = [model for posterior in self._posteriors for model in posterior.at(placed)]
                if placed.cells.column.min() < 0:
                    models = self._with_unknown(models)
                parts.append(probabilities(models, self._at_the_end(placed.cells)))
        found = np.concatenate(parts)
        found[order] = found.copy()
        self._blend_with_frequencies(cells, found)
        return found

    def _blend_with_frequencies(self, cells: Cells, found: np.ndarray) -> None:
        """Draw unknown users towards the ratings of the item, unknown items towards the user's."""
        by_item = self._unknown_users(cells.row) & (cells.column >= 0)
        if by_item.any():
            counts = self.ratings_.observations.levels_of_columns(cells.column[by_item])
            found[by_item] = cold_start.blend_with_frequencies(
                found[by_item], counts[:, : found.shape[1]], cold_start.WORTH_FOR_UNKNOWN_ROWS
            )
        by_user = self._unknown_items(cells.column) & self.ratings_.have_rated(cells.row)
        if not by_user.any():
            return
        levels = np.append(self.ratings_.level_counts(), self.ratings_.cold_start_scale().n_levels)
        # An unknown item is at −1; one that is known, but has no ratings, is on a scale of its own.
        kind = np.where(cells.column < 0, -1, levels[cells.column])
        for each in np.unique(kind[by_user]):
            chosen = by_user & (kind == each)
            column = int(cells.column[chosen][0])
            n_levels = int(levels[column])
            found[chosen, :n_levels] = cold_start.with_ratios(
                found[chosen, :n_levels], self._level_ratios(column, n_levels)
            )
            counts = self.ratings_.observations.levels_of_rows(cells.row[chosen], n_levels)
            found[chosen] = cold_start.blend_with_frequencies(
                found[chosen], counts[:, : found.shape[1]], cold_start.WORTH_FOR_UNKNOWN_COLUMNS
            )

    def _level_ratios(self, column: int, n_levels: int) -> np.ndarray:
        """By how much levels are likelier among ratings than predicted for an item without any."""
        seen = self.ratings_.observations

        def compute() -> np.ndarray:
            counts = seen.row_counts
            if seen.weight.size:
                counts = np.bincount(seen.cells().row, seen.weight, minlength=seen.n_rows)
            rows = np.flatnonzero(counts > 0)
            rows = rows[:: -(-rows.size // _ROWS_FOR_RATIOS)]
            cells = Cells(rows, np.full(rows.size, column), np.zeros(rows.size, np.int8))
            expected = self._of_models(cells)[:, :n_levels]
            return cold_start.level_ratios(expected, counts[rows], seen.level_counts(n_levels))

        return self._cached(("level ratios", min(column, 0), n_levels), compute)

    def _unknown_users(self, rows: np.ndarray) -> np.ndarray:
        known, lines = self.ratings_.have_rated(rows), self._features.tables.rows
        if lines is not None and self._takes_features():
            known |= (rows >= 0) & (lines.indptr[rows + 1] > lines.indptr[rows])
        return ~known

    def _unknown_items(self, columns: np.ndarray) -> np.ndarray:
        """Whether nothing is known of each item: no rating, and no feature."""
        if isinstance(self.ratings_, SharedRatings):
            return columns < 0
        counts = np.append(self.ratings_.observations.column_counts, 0)
        unknown, lines = counts[columns] == 0, self._features.tables.columns
        if lines is not None and self._takes_features():
            unknown &= (columns < 0) | (lines.indptr[columns + 1] == lines.indptr[columns])
        return unknown

    def _is_on_gpu(self) -> bool:
        check_device(self.device)
        return self.device != "cpu"

    def _on_gpu(self) -> Any:
        """The models on the device, where they stay until others take their place."""
        single_backend(self.device)  # which says what is missing, before anything is imported
        from ordinalrbm.matrix.gpu.predict import kept_on_device

        return kept_on_device(self, self.models_, self.device, self._models_with_unknown)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is on a device: of copies and in files, models are arrays."""
        return {name: part for name, part in super().__getstate__().items() if name not in _KEPT}

    def _models_with_unknown(self) -> list[Any]:
        return self._with_unknown(self.models_)

    def _with_unknown(self, models: list[Any]) -> list[Any]:
        """Models with an unknown user and item at the end, on the scale of unknown items."""
        n_levels = self.ratings_.cold_start_scale().n_levels
        counts = self.ratings_.observations.column_counts
        return [model.with_unknown(counts, n_levels) for model in models]

    def _at_the_end(self, cells: Cells) -> Cells:
        """The cells with unknown users and items where open models have them."""
        row = np.where(cells.row < 0, len(self.users_), cells.row)
        column = np.where(cells.column < 0, len(self.items_), cells.column)
        return cells._replace(row=row, column=column)

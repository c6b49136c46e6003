"""The scikit-learn face of the matrix model: ratings of items by users."""

from __future__ import annotations

import copy
import os
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data.catalogue import as_list
from ordinalrbm.data.exchange import at_first
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.data.ratings import Ratings, extend
from ordinalrbm.data.scales import Scale
from ordinalrbm.engine import memory
from ordinalrbm.engine.gpu.device import torch_device, working_on_named
from ordinalrbm.errors import DataError
from ordinalrbm.estimators import ratings_part
from ordinalrbm.estimators.catalogue import RULES, predicted_ratings, restored, written
from ordinalrbm.estimators.validation import (
    check_choice,
    check_device,
    check_parameters,
    check_whole,
)
from ordinalrbm.matrix import fold_in as folding
from ordinalrbm.matrix import recommend as recommending
from ordinalrbm.matrix.binary_learner import FittedMatrix, MatrixSettings
from ordinalrbm.matrix.explain import Explanation, factor_contributions, rating_effects
from ordinalrbm.matrix.fold_in import ColdStartPrior
from ordinalrbm.matrix.gpu.resident import Resident
from ordinalrbm.matrix.model import MatrixModel
from ordinalrbm.matrix.predict import probabilities, with_cold_start
from ordinalrbm.matrix.prepare import TrainingData, cold_start_on, learn, prepare, restore_order
from ordinalrbm.runtime import process_group
from ordinalrbm.runtime.threads import seed_from, tell_of_interruption, threads
from ordinalrbm.storage import model_file
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training.checkpoint import Checkpoints, Identity, identity_of
from ordinalrbm.vector.predict import Rule

_HALVES = ("by_rows", "by_columns")
_SEEN = ("row_start", "column", "level")
_ROUNDING = 1e-3


class MatrixCumulativeRBM(BaseEstimator):
    """Cumulative Restricted Boltzmann Machine for rating matrices: users, items, ordered ratings.

    Every rating comes from a hidden real utility that falls between two thresholds. The utility
    has a part of the item's and a part of the user's, a part for each factor of the user that the
    item weighs, and one for each factor of the item that the user weighs (Tran, Phung and Venkatesh
    2012). Thresholds belong to user and item together, so that a strict and a mild user may mean
    the same by different ratings.

    Factors are binary in the paper. By default they are continuous here, the limit of many binary
    units per factor: taste is a matter of degree, and what is left to know about each user and item
    is carried into every prediction. That is more accurate and learns faster; see
    :meth:`paper` for the original.

    Parameters
    ----------
    n_user_factors : int, default=50
        Number of factors of a user, K.
    n_item_factors : int, default=50
        Number of factors of an item, S. With 0 the matrix is treated as so many vectors:
        items have weights for the users' factors, and users have nothing else of their own.
    factors : {"continuous", "binary", "mixed"}, default="continuous"
        Continuous factors are learnt by a variational method without a learning rate, which sets
        the strength of all priors by itself; binary ones by Gibbs sampling of two chains, as in the
        paper. The parameters marked (binary) are for these. With "mixed" both are learnt, and
        predictions are the mean of both distributions, with shares chosen by the held-out ratings:
        slower, and the more accurate the more tastes are of different kinds.
    scale : list of labels from lowest to highest, optional
        The scale of all ratings; by default the distinct ratings in ascending order.
    item_scales : dict of item to labels, optional
        Items with a scale of their own.
    n_epochs : int or None, default=None
        Passes over the ratings at most; each passes over the users and over the items. None means
        30 for continuous factors, which stop by themselves after 10 to 25, and for binary ones 15
        to 60, the more the fewer users there are.
    batch_size : int, default=300
        (binary) Users (or items) per update.
    learning_rate : float, default=0.15
        (binary) Size of the first steps (AdaGrad); falls to zero along a cosine in the last epochs.
    gibbs_steps : int, default=1
        (binary) Steps of each chain per update.
    free_phase : {"contrastive", "persistent"}, default="contrastive"
        (binary) Whether the free chains start from the clamped ones at each update, or go on by
        themselves.
    memory : float, default=0.5
        (binary) How much of the old is kept, epoch by epoch, in the running mean that tracks the
        posterior of the factors: η of the paper.
    weight_decay : float or None, default=None
        (binary) Precision of the Gaussian prior on the weights; None estimates it together with
        them (empirical Bayes), so that there is nothing to tune.
    patience : int, default=5
        After so many epochs without a better one, the learning rate of binary factors begins to
        fall to zero. Continuous ones are done after two epochs of little gain.
    n_averaged : int, default=1
        Over how many of the last epochs predictions are averaged; 1 keeps the best epoch alone.
    calibrate : bool, default=True
        Whether to set, in the end, a few numbers by the likelihood of the held-out ratings: how
        much milder or stricter ratings are with the number of ratings of a user and an item, how
        wide distributions are, and how far to believe binary factors.
    validation_fraction : float, default=0.05
        Share of the ratings that is held out to watch learning when ``fit`` is given no validation
        ratings (200,000 at most, and never all ratings of a user or an item). 0 holds out none.
    random_state : int, RandomState or None, default=None
        Seed of everything random. The same seed gives the same result on any number of threads.
    n_jobs : int or None, default=None
        Threads; None or -1 means all that Numba has.
    device : {"cpu", "cuda", "cuda:0", ...}, default="cpu"
        Where to learn, predict, recommend and fold in. A GPU needs ``pip install
        "ordinalrbm[gpu]"``; results are those of the cores to float rounding. Files do not keep
        it: after ``load``, say ``model.set_params(device="cuda")``. There is no switch to another
        device by itself: without a GPU, "cuda" is an error. Inside a process group of
        ``torch.distributed`` with several processes, these learn together: all call ``fit`` with
        the same settings and the same ratings, or each with a :class:`RatingsPart`, and all get the
        whole model, that of one process to float rounding.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    models_ : list of MatrixModel
        The models whose predictions are averaged; users and items in the order of their ids.
    model_ : MatrixModel
        The last of them.
    users_, items_ : Ids
        The ids behind rows and columns.
    scales_ : Scale, or tuple of Scale
        One for all items, or one per item.
    ratings_ : Ratings
        The ratings that were learnt from: what a user has seen. After a fit with a
        :class:`RatingsPart`, only process 0 has them: there are files written, and items that a
        user has seen left out; all processes predict.
    user_factors_ : (users, K) array
        Each user's expected factors: around zero with mean square one, or probabilities if binary.
    item_factors_ : (items, S) array
        Each item's expected factors.
    usual_ : list
        For each model, what items and users are like on the whole: where :meth:`fold_in` starts.
    history_ : DataFrame
        Per epoch: log-likelihood of the held-out ratings, seconds (which files do not keep); of
        binary factors also the learning rate and precisions.
    best_epoch_ : int
        The epoch whose parameters were kept.
    n_iter_ : int
        Epochs that were run.
    about_ : dict
        Notes of whoever made the model, kept in its file: anything that JSON can hold.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> ratings = pd.DataFrame({
    ...     "user": ["ann", "ann", "bob", "bob", "cy", "cy", "cy", "di"],
    ...     "item": ["tea", "milk", "tea", "cake", "milk", "cake", "tea", "cake"],
    ...     "rating": [5, 1, 4, 2, 3, 5, 1, 4],
    ... })
    >>> model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=3, random_state=0).fit(ratings)
    >>> model.predict_proba("ann", ["cake", "coffee"]).shape
    (2, 5)
    >>> sorted(model.recommend("di", n=2)["item"])
    ['milk', 'tea']
    """

    def __init__(
        self,
        n_user_factors: int = 50,
        n_item_factors: int = 50,
        *,
        factors: str = "continuous",
        scale: Any = None,
        item_scales: Any = None,
        n_epochs: int | None = None,
        batch_size: int = 300,
        learning_rate: float = 0.15,
        gibbs_steps: int = 1,
        free_phase: str = "contrastive",
        memory: float = 0.5,
        weight_decay: float | None = None,
        patience: int = 5,
        n_averaged: int = 1,
        calibrate: bool = True,
        validation_fraction: float = 0.05,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.n_user_factors = n_user_factors
        self.n_item_factors = n_item_factors
        self.factors = factors
        self.scale = scale
        self.item_scales = item_scales
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.gibbs_steps = gibbs_steps
        self.free_phase = free_phase
        self.memory = memory
        self.weight_decay = weight_decay
        self.patience = patience
        self.n_averaged = n_averaged
        self.calibrate = calibrate
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose

    @classmethod
    def paper(
        cls, n_user_factors: int = 50, n_item_factors: int = 50, **others: Any
    ) -> MatrixCumulativeRBM:
        """The paper's own procedure: binary factors, two chains, nothing added.

        One contrastive step, posteriors tracked with η = 0.9, a fixed weight decay, predictions as
        the last epoch leaves them. Other parameters may be given by name.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> orbm.MatrixCumulativeRBM.paper(20, 20, n_epochs=30).factors
        'binary'
        """
        own: dict[str, Any] = {
            "factors": "binary",
            "n_epochs": 40,
            "batch_size": 100,
            "learning_rate": 0.05,
            "memory": 0.9,
            "weight_decay": 50.0,
            "calibrate": False,
        }
        return cls(n_user_factors, n_item_factors, **(own | others))

    # Learning

    def fit(
        self,
        ratings: Any,
        validation: Any = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        every: str | int = "5 min",
        resume: bool = True,
    ) -> MatrixCumulativeRBM:
        """Learn from ratings.

        Parameters
        ----------
        ratings : DataFrame (pandas or polars), tuple of three arrays, or scipy.sparse matrix
            A frame has the columns user, item and rating; arrays come in this order; of a sparse
            matrix rows are users, columns items, and the stored entries ratings. Ids are integers
            or text. Inside a process group of several processes also a :class:`RatingsPart`.
        validation : of the same kinds, optional
            Ratings to watch learning by. Users and items that are not in ``ratings`` are predicted
            like any stranger. Without it, a few of the ratings are held out.
        checkpoint : path of a folder, optional
            Where to keep what has been learnt so far; the folder is made if needed. A fit that was
            killed goes on from there when it is called again with the same data and settings, and
            ends with the same bits as one that was never stopped. A fit that has ended says so in
            its last checkpoint, and then gives its model at once. When ``random_state`` is None,
            the seed is that of the checkpoint.
        every : str or int, default="5 min"
            How often a checkpoint is written, at the end of an epoch: a time such as "30 s",
            "5 min" or "1 h", or a number of epochs.
        resume : bool, default=True
            Whether to go on from a checkpoint that is there. False refuses a folder with
            checkpoints, so that none is written over.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> orbm.MatrixCumulativeRBM(2, 2, n_epochs=2, random_state=0).fit(ratings).n_iter_
        2
        """
        check_parameters(self)
        self.__dict__.pop("_resident", None)  # the device has better uses for its memory
        group = process_group.current()
        with Checkpoints(checkpoint, every, resume, group or process_group.ALONE) as checkpoints:
            return self._fit(ratings, validation, checkpoints, group)

    def _fit(
        self,
        ratings: Any,
        validation: Any,
        checkpoints: Checkpoints,
        group: process_group.Group | None,
    ) -> MatrixCumulativeRBM:
        known, among = ratings_part.read(
            ratings, scale=self.scale, item_scales=self.item_scales,
            may_be_shared=self.factors == "continuous",
        )  # fmt: skip
        given = ratings_part.read_validation(known, validation, among)
        among.together(lambda: self._check_memory(known.observations))
        seed = seed_from(self.random_state, known=checkpoints.seed)
        seed = seed if group is None else group.broadcast_number(seed)
        if checkpoints.are_kept:
            whole = at_first(known, among)
            checkpoints.belong_to(among.by_first(lambda: self._identity(whole, given, seed)))
            del whole  # until it is kept
        with threads(self.n_jobs), working_on_named(self.device):
            data = prepare(known, given, self.validation_fraction, seed, among)
            fitted = learn(data, self._settings(seed), checkpoints)
        self._keep(at_first(known, among), data, fitted)
        if fitted.interrupted:
            tell_of_interruption(self.n_iter_, self.best_epoch_)
        return self

    def _check_memory(self, ratings: Observations) -> None:
        memory.check_ratings(
            "ordinal_mf" if self.factors == "continuous" else "matrix_crbm",
            ratings,
            self.n_user_factors,
            self.n_item_factors,
            n_averaged=self.n_averaged,
        )

    def _settings(self, seed: int) -> MatrixSettings:
        own: dict[str, Any] = {
            "n_row_factors": self.n_user_factors,
            "n_column_factors": self.n_item_factors,
            "seed": seed,
        }
        names = set(MatrixSettings.__dataclass_fields__) - set(own)
        same: dict[str, Any] = {name: getattr(self, name) for name in names}
        return MatrixSettings(**own, **same)

    def _identity(self, known: Ratings, given: Cells | None, seed: int) -> Identity:
        scales = [known.scales] if isinstance(known.scales, Scale) else known.scales
        held_out = () if given is None else tuple(given)
        return identity_of(self, seed, known.observations, scales, ("validation ratings", held_out))

    def _keep(self, known: Ratings, data: TrainingData, fitted: FittedMatrix) -> None:
        self.models_ = [restore_order(model, data) for model in fitted.models]
        self.usual_ = [
            _usual(model, priors) for model, priors in zip(self.models_, fitted.priors, strict=True)
        ]
        self.best_epoch_ = fitted.best_epoch
        self.n_iter_ = len(fitted.history)
        self.about_: dict[str, Any] = {}
        self.history_ = pd.DataFrame(list(fitted.history), columns=fitted.history_columns)
        if not fitted.history:  # where there was nothing to learn
            self.history_ = self.history_.astype(float)
        self._set_ratings(known)

    def _set_ratings(self, known: Ratings) -> None:
        self.ratings_ = known
        self.users_, self.items_, self.scales_ = known.users, known.items, known.scales
        self.model_ = self.models_[-1]
        self.user_factors_ = self.model_.by_rows.factors
        self.item_factors_ = self.model_.by_columns.factors

    # Predictions

    def predict_proba(self, users: Any, items: Any) -> np.ndarray:
        """Distribution of the rating that each user would give to each item, pair by pair.

        Parameters
        ----------
        users, items : array-like of ids of the same length, or a single id that stands for all
            Whoever is not known is predicted like the average user or item: from the item alone,
            from the user alone, or from the ratings as a whole.

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
        >>> model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=2, random_state=0).fit(ratings)
        >>> model.predict_proba(4, [1, 2, 99]).sum(axis=1).round(6).tolist()
        [1.0, 1.0, 1.0]
        """
        check_is_fitted(self, "models_")
        return self._distribution(self.ratings_.cells(users, items))

    def predict(self, users: Any, items: Any, rule: Rule = "mean") -> np.ndarray:
        """One predicted rating per pair.

        Parameters
        ----------
        users, items : as in :meth:`predict_proba`
        rule : {"mean", "mode", "median"}
            The mean has the smallest squared error and is a number: of the labels when these are
            numbers, otherwise of their positions 1..L. The median has the smallest absolute error,
            the mode the most hits; both are labels of the scale.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, np.where(items < 3, 1, 5))
        >>> model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=5, random_state=0).fit(ratings)
        >>> model.predict([7, 7, -1], [0, 5, 5], rule="mode").tolist()
        [1, 5, 5]
        """
        check_is_fitted(self, "models_")
        check_choice("rule", rule, RULES)
        cells = self.ratings_.cells(users, items)
        return predicted_ratings(self.ratings_, self._distribution(cells), cells.column, rule)

    def recommend(
        self,
        users: Any,
        n: int = 10,
        exclude_seen: bool = True,
        score: Literal["mean", "top"] = "mean",
    ) -> pd.DataFrame:
        """The n best items for each user, the best first.

        Parameters
        ----------
        users : id, array-like of ids, or "all"
            Who is not known gets what the average user would like. (Should a user be named "all",
            give ["all"].)
        n : int, default=10
            How many items; fewer where a user has seen almost everything.
        exclude_seen : bool, default=True
            Whether to leave out what the user has rated.
        score : {"mean", "top"}, default="mean"
            Items are ranked by the expected rating or by the probability of the highest label.
            Where items have different scales, the expected rating is counted from 0 at an item's
            lowest label to 1 at its highest.

        Returns
        -------
        DataFrame
            Columns user, item, rank (from 1) and score. Ties go to the item whose id comes first.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=2, random_state=0).fit(ratings)
        >>> model.recommend([3, 4], n=2, exclude_seen=False)[["user", "rank"]].values.tolist()
        [[3, 1], [3, 2], [4, 1], [4, 2]]
        """
        check_is_fitted(self, "models_")
        check_whole("n", n, 1)
        check_choice("score", score, ("mean", "top"))
        everyone = isinstance(users, str) and users == "all"
        rows = np.arange(len(self.users_)) if everyone else self.ratings_.lookup(users, "user")
        labels = self.users_.labels if everyone else as_list(users)
        seen = self.ratings_.observations if exclude_seen else None
        worth = self._worth(score)
        if self._is_on_gpu():
            best = self._on_gpu().best_items(rows, n, worth, seen)
        else:
            models = self.models_ if rows.min(initial=0) >= 0 else self._open_models()
            with threads(self.n_jobs):
                best = recommending.best_items(models, rows, n, worth, seen)
        return pd.DataFrame(
            {
                "user": np.asarray(labels)[best.query],
                "item": self.items_.take(best.item),
                "rank": best.rank,
                "score": best.score,
            }
        )

    def _worth(self, score: str) -> np.ndarray:
        """(items, L): what each level of an item counts."""
        scales, of_item = self.ratings_.distinct()
        common = isinstance(self.scales_, Scale)
        worth = np.zeros((len(scales), max(scale.n_levels for scale in scales)))
        for k, scale in enumerate(scales):
            worth[k, : scale.n_levels] = _worth_of_levels(scale, score, common)
        return worth[of_item]

    # New users and items

    def fold_in(self, new_ratings: Any) -> MatrixCumulativeRBM:
        """A model that also knows new users and new items, without learning anew.

        What is known of the old ones stays as it is. The factors, weights, biases and widths of
        the new ones are inferred from their ratings, in milliseconds. Nothing here is random.

        Parameters
        ----------
        new_ratings : as in :meth:`fit`
            Each rating is by a new user or of a new item, or both. A known user's ratings of new
            items serve to place the items.

        Returns
        -------
        MatrixCumulativeRBM
            A new estimator; this one is not changed. New ids come after the old ones.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, np.where(items < 3, 1, 5))
        >>> model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=5, random_state=0).fit(ratings)
        >>> wider = model.fold_in(([77, 77], [0, 5], [1, 5]))
        >>> wider.predict(77, [1, 4], rule="mode").tolist()
        [1, 5]
        """
        check_is_fitted(self, "models_")
        ratings = extend(self.ratings_, new_ratings)
        wider = copy.copy(self)
        where: Any = folding.CORES
        if self._is_on_gpu():
            torch_device(self.device)  # which says what is missing
            from ordinalrbm.matrix.gpu.fold_in import OnGpu

            where = OnGpu(self.device)
        with threads(self.n_jobs):
            wider.models_ = [
                folding.fold_in(model, ratings.observations, usual, where)
                for model, usual in zip(self.models_, self.usual_, strict=True)
            ]
        wider._set_ratings(ratings)
        return wider

    # Reasons

    def explain(self, user: Any, item: Any, n: int = 5) -> Explanation:
        """Why this user should like this item, or not: ratings and factors that speak for it.

        A rating's effect is what the expected rating of the item loses when that rating is left
        out and the user's factors are inferred again from the others (the user's own bias and
        widths stay). A factor's contribution is what it adds to the mean utility, compared to a
        user (or item) with the average factor.

        Parameters
        ----------
        user, item : id
            Both known. If the user has rated the item, that rating is left out throughout.
        n : int, default=5
            How many ratings and how many factors to name, those with the largest effect first.

        Returns
        -------
        Explanation
            With ``expected``, ``ratings`` (DataFrame: item, rating, effect) and ``factors``
            (DataFrame: of, factor, value, contribution).

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=2, random_state=0).fit(ratings)
        >>> reasons = model.explain(3, 5)
        >>> list(reasons.ratings.columns), len(reasons.factors)
        (['item', 'rating', 'effect'], 4)
        """
        check_is_fitted(self, "models_")
        check_whole("n", n, 1)
        row, column = self._known(user, "user"), self._known(item, "item")
        items, levels = self.ratings_.observations.row(row)
        others = items != column
        items, levels = items[others], levels[others]
        worth = self.ratings_.scale_of(column).values
        with threads(self.n_jobs):
            found = [
                rating_effects(model, row, column, items, levels, worth) for model in self.models_
            ]
        shares = [model.share for model in self.models_]
        effect = np.average([effects for _, effects in found], axis=0, weights=shares)
        first = np.argsort(-np.abs(effect), kind="stable")[:n]
        ratings = pd.DataFrame(
            {
                "item": self.items_.take(items[first]),
                "rating": self.ratings_.decode(levels[first], items[first]),
                "effect": effect[first],
            }
        )
        expected = float(np.average([expected for expected, _ in found], weights=shares))
        return Explanation(expected, ratings, factor_contributions(self.model_, row, column, n))

    def _known(self, label: Any, what: str) -> int:
        position = self.ratings_.lookup([label], what)[0]
        if position < 0:
            raise DataError(
                f"The {what} {label!r} is not known, so there is nothing to explain; give one of "
                f"{what}s_, or learn of it with fold_in()."
            )
        return int(position)

    # Files

    def save(self, path: str | os.PathLike) -> None:
        """Write the model to a file that holds no code; read it with :func:`ordinalrbm.load`.

        The ratings that were learnt from are in it (5 bytes each), because recommendations leave
        them out.

        Examples
        --------
        >>> import os, tempfile, numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=2, random_state=0).fit(ratings)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "ratings.orbm")
        ...     model.save(path)
        ...     again = orbm.load(path)
        >>> again.recommend(3).equals(model.recommend(3))
        True
        """
        check_is_fitted(self, "models_")
        check_parameters(self)
        arrays, header = written(self, self.ratings_)
        arrays |= {f"seen.{part}": getattr(self.ratings_.observations, part) for part in _SEEN}
        for number, (model, usual) in enumerate(zip(self.models_, self.usual_, strict=True)):
            arrays |= _model_arrays(number, model, usual)
        header |= {"model": "matrix", "n_models": len(self.models_)}
        model_file.save(path, arrays, header)

    @classmethod
    def _from_file(cls, stored: Stored) -> MatrixCumulativeRBM:
        estimator, catalogue = restored(cls, stored, check_parameters)
        n_users, n_levels = len(catalogue.users), catalogue.level_counts()
        if not np.array_equal(stored.array("n_levels", np.int32, n_levels.shape), n_levels):
            raise DataError("its items have other numbers of levels than their scales")
        estimator.models_, estimator.usual_ = [], []
        for number in range(stored.whole("n_models", 1)):
            part = stored.under(f"{number}.")
            model = MatrixModel.from_stored(part, n_users, n_levels)
            estimator.models_.append(model)
            estimator.usual_.append(
                [
                    ColdStartPrior.from_stored(part.under(f"{name}.usual."), half)
                    for name, half in zip(_HALVES, model[:2], strict=True)
                ]
            )
        if abs(sum(model.share for model in estimator.models_) - 1.0) > _ROUNDING:
            raise DataError("the shares of its models do not add up to one")
        seen = Observations.from_stored(stored.under("seen."), n_users, n_levels)
        estimator._set_ratings(Ratings.of(catalogue, seen))
        return estimator

    # Inside

    def _distribution(self, pairs: Cells) -> np.ndarray:
        width = max(scale.n_levels for scale in self.ratings_.distinct()[0])
        if not pairs.row.size:
            return np.zeros((0, width))
        cold = min(pairs.row.min(), pairs.column.min()) < 0
        if cold:
            row = np.where(pairs.row < 0, len(self.users_), pairs.row)
            column = np.where(pairs.column < 0, len(self.items_), pairs.column)
            pairs = pairs._replace(row=row, column=column)
        if self._is_on_gpu():
            return self._on_gpu().probabilities(pairs)[:, :width]
        with threads(self.n_jobs):
            models = self._open_models() if cold else self.models_
            return probabilities(models, pairs)[:, :width]

    def _is_on_gpu(self) -> bool:
        check_device(self.device)
        return self.device != "cpu"

    def _on_gpu(self) -> Any:
        """The models on the device, where they stay until others take their place."""
        resident = self.__dict__.setdefault("_resident", Resident())
        return resident.models(self.models_, self.device, self._open_models)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is on a device: of copies and in files, models are arrays."""
        return {name: part for name, part in super().__getstate__().items() if name != "_resident"}

    def _open_models(self) -> list[MatrixModel]:
        """The models with a stranger at the end of users and items, on the scale of strangers."""
        n_levels = self.ratings_.cold_start_scale().n_levels
        return [cold_start_on(with_cold_start(model), n_levels) for model in self.models_]


# Inside


def _usual(model: MatrixModel, priors: tuple[Any, Any]) -> list[ColdStartPrior]:
    """What is usual among items and users, for those who come later."""
    most = np.full(model.n_rows, model.by_rows.cutpoints.shape[1] + 1)
    of_items, of_users = priors
    return [
        folding.usual(model.by_rows, model.n_levels, of_items),
        folding.usual(model.by_columns, most, of_users),
    ]


# Scales


def _worth_of_levels(scale: Scale, score: str, common: bool) -> np.ndarray:
    if score == "top":
        return (np.arange(scale.n_levels) == scale.n_levels - 1).astype(np.float64)
    values = scale.values
    if common:
        return values
    return (values - values[0]) / ((values[-1] - values[0]) or 1.0)


# Files


def _model_arrays(
    number: int, model: MatrixModel, usual: list[ColdStartPrior]
) -> dict[str, np.ndarray]:
    arrays = {
        "n_levels": model.n_levels,
        f"{number}.gains": model.gains,
        f"{number}.share": np.array([model.share]),
    }
    for name, half, about in zip(_HALVES, model[:2], usual, strict=True):
        for field, array in half._asdict().items():
            arrays[f"{number}.{name}.{field}"] = array
        for field, array in about._asdict().items():
            arrays[f"{number}.{name}.usual.{field}"] = array
    return arrays

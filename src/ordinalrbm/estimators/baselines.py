"""The models of the paper's comparison as scikit-learn estimators.

They have the face of :class:`~ordinalrbm.MatrixCumulativeRBM`, so that one can be put in the place
of the other: the same ratings, ids, scales, held-out ratings, predictions and files.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data.catalogue import Catalogue
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.data.ratings import encode, read_ratings
from ordinalrbm.data.scales import Scale, shorten
from ordinalrbm.engine import memory
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.catalogue import RULES, predicted_ratings, restored, written
from ordinalrbm.estimators.validation import check_choice, check_parameters
from ordinalrbm.matrix import binary_learner
from ordinalrbm.matrix.baselines import gaussian_mf, learning, multinomial_rbm, ordinal_mf
from ordinalrbm.matrix.baselines.factors import Effects
from ordinalrbm.matrix.baselines.learning import Record
from ordinalrbm.matrix.baselines.ordinal_mf import Widths
from ordinalrbm.matrix.prepare import prepare
from ordinalrbm.runtime.threads import seed_from, tell_of_interruption, threads
from ordinalrbm.storage import model_file
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training.loop import (
    DivergenceError,
    refuse_divergence,
    refuse_nonsense,
    tell_of_divergence,
)
from ordinalrbm.training.schedule import Schedule
from ordinalrbm.vector.monitor import usual_rating
from ordinalrbm.vector.predict import Rule


class _Baseline(BaseEstimator):
    """What the baselines share; each has a core of its own, and the settings of that core."""

    _core: Any
    _kind: str  # of a model file

    def fit(self, ratings: Any, validation: Any = None) -> Self:
        """Learn from ratings.

        Ctrl-C ends learning and keeps the best epoch so far.

        Parameters
        ----------
        ratings : DataFrame (pandas or polars), tuple of three arrays, or scipy.sparse matrix
            A frame has the columns user, item and rating; arrays come in this order; of a sparse
            matrix rows are users, columns items, and the stored entries ratings. Ids are integers
            or text.
        validation : of the same kinds, optional
            Ratings to watch learning by. Users and items that are not in ``ratings`` are predicted
            like any stranger. Without it, a few of the ratings are held out.

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
        """
        check_parameters(self)
        known = read_ratings(ratings, scale=self.scale, item_scales=self.item_scales)
        given = None if validation is None else encode(known, validation)
        catalogue = known.catalogue
        memory.check_ratings(self._kind, known.observations, self.n_factors)
        seed = seed_from(self.random_state)
        with threads(self.n_jobs):
            data = prepare(known, given, self.validation_fraction, seed, shuffle=False)
            more = self._more_to_fit(catalogue)
            model, history = self._learnt(
                data.observations, more, data.validation, self._settings(seed)
            )
        self._keep(model, catalogue)
        self._keep_history(history)
        return self

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
        >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings)
        >>> model.predict_proba(4, [1, 2, 99]).sum(axis=1).round(6).tolist()
        [1.0, 1.0, 1.0]
        """
        check_is_fitted(self, "model_")
        return self._distribution(self._catalogue.cells(users, items))

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
        >>> model = orbm.GaussianMF(2, n_epochs=5, random_state=0).fit(ratings)
        >>> model.predict([7, 7, -1], [0, 5, 5], rule="mode").tolist()
        [1, 5, 5]
        """
        check_is_fitted(self, "model_")
        check_choice("rule", rule, RULES)
        return self._ratings(self._catalogue.cells(users, items), rule)

    def save(self, path: str | os.PathLike) -> None:
        """Write the model to a file that holds no code; read it with :func:`ordinalrbm.load`.

        The ratings that were learnt from are not in it.

        Examples
        --------
        >>> import os, tempfile, numpy as np, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = (users, items, 1 + (users + items) % 3)
        >>> model = orbm.MultinomialRBM(2, n_epochs=2, random_state=0).fit(ratings)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "ratings.orbm")
        ...     model.save(path)
        ...     again = orbm.load(path)
        >>> bool((again.predict(users, items) == model.predict(users, items)).all())
        True
        """
        check_is_fitted(self, "model_")
        check_parameters(self)
        arrays, header = written(self, self._catalogue)
        of_model, numbers = _model_parts(self.model_)
        header |= {"model": self._kind, "numbers": numbers}
        model_file.save(path, arrays | of_model, header)

    @classmethod
    def _from_file(cls, stored: Stored) -> Self:
        estimator, catalogue = restored(cls, stored, check_parameters)
        estimator._more_to_fit(catalogue)  # which refuses scales that the model cannot have
        n_levels = catalogue.level_counts(has_cold_start=not isinstance(catalogue.scales, Scale))
        parts = stored.under("model.")
        if not np.array_equal(parts.array("n_levels", np.int32, n_levels.shape), n_levels):
            raise DataError("its items have other numbers of levels than their scales")
        kind = getattr(cls._core, cls.__name__)
        estimator._keep(kind.from_stored(parts, len(catalogue.users), n_levels), catalogue)
        return estimator

    # Inside

    def _settings(self, seed: int) -> Any:
        names = set(self._core.Settings.__dataclass_fields__) - {"seed"}
        return self._core.Settings(seed=seed, **{name: getattr(self, name) for name in names})

    def _more_to_fit(self, catalogue: Catalogue) -> tuple[Any, ...]:
        """What a core wants to know besides the levels."""
        return ()

    def _learnt(
        self, table: Any, more: tuple[Any, ...], held_out: Cells | None, settings: Any
    ) -> tuple[Any, list[Record]]:
        """Model and history of the core."""
        return self._core.fit(
            table, *more, validation=held_out, settings=settings, verbose=bool(self.verbose)
        )

    def _keep(self, model: Any, catalogue: Catalogue) -> None:
        self.model_ = model
        self._catalogue = catalogue
        self.users_, self.items_ = catalogue.users, catalogue.items
        self.scales_, self.default_scale_ = catalogue.scales, catalogue.default_scale

    def _keep_history(self, history: list[Record]) -> None:
        self.history_ = pd.DataFrame(history, columns=Record._fields)
        self.n_iter_ = len(history)
        self.about_: dict[str, Any] = {}
        held_out = self.history_["validation"].to_numpy()
        nothing = np.isnan(held_out).all()  # then the last epoch is kept
        self.best_epoch_ = self.n_iter_ if nothing else int(np.nanargmax(held_out)) + 1
        if _cut_short(history, self.n_epochs, self.patience):
            tell_of_interruption(self.n_iter_, self.best_epoch_)

    def _distribution(self, pairs: Cells) -> np.ndarray:
        columns = _columns_of(self._catalogue, pairs.column)
        with threads(self.n_jobs):
            found = self._core.predict_proba(self.model_, pairs.row, columns)
        # Nothing on an item's scale is impossible, however sure a model may be.
        exists = np.arange(found.shape[1]) < self.model_.n_levels[columns, None]
        found = np.where(exists, np.maximum(found, learning.SMALLEST_PROBABILITY), 0.0)
        return found / found.sum(axis=1, keepdims=True)

    def _ratings(self, pairs: Cells, rule: Rule) -> np.ndarray:
        return predicted_ratings(self._catalogue, self._distribution(pairs), pairs.column, rule)


class GaussianMF(_Baseline):
    """Gaussian matrix factorisation (Salakhutdinov and Mnih 2007).

    A rating is a number, Gaussian around mean + b_user + b_item + p_user · q_item, with Gaussian
    priors on biases and factors; learnt by alternating least squares. Labels that are text or do
    not ascend count as 1..L.

    A distribution over labels comes from that Gaussian by rounding: a label has the mass between
    the mid-points to its neighbours, the lowest and the highest all that is beyond theirs. Mode and
    median are those of this distribution. The mean is the Gaussian's own, kept within the scale: it
    has a smaller error than the mean after rounding.

    Parameters
    ----------
    n_factors : int, default=50
        Number of factors, the length of p and q.
    posterior : {"variational", "point"}, default="variational"
        What is kept of each bias and factor: a mean and a variance, or only the best value as in
        the original. With variances the strengths of the priors are learnt, one per factor.
    bias_precision, factor_precision : float, default=5 and None
        Of the priors, where ratings have variance one: fixed for "point", where learning begins
        for "variational". None means 40 for the factors of "point", else 1.
    scale : list of labels from lowest to highest, optional
        The scale of all ratings; by default the distinct ratings in ascending order.
    item_scales : dict of item to labels, optional
        Here for the sake of the other models: this one needs the same scale for all items.
    n_epochs : int, default=40
        Passes over the ratings at most.
    patience : int, default=3
        Learning ends after so many epochs in which held-out ratings are not predicted better.
    validation_fraction : float, default=0.05
        Share of the ratings that is held out to watch learning when ``fit`` is given no validation
        ratings (200,000 at most, and never all ratings of a user or an item). 0 holds out none.
    random_state : int, RandomState or None, default=None
        Seed of everything random. The same seed gives the same result on any number of threads.
    n_jobs : int or None, default=None
        Threads; None or -1 means all that Numba has.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    model_ : model.baselines.gaussian_mf.GaussianMF
        What was learnt; rows are users and columns items, in the order of their ids.
    users_, items_ : Ids
        The ids behind rows and columns.
    scales_ : Scale
        The scale of all items.
    default_scale_ : Scale
        The scale of unknown items.
    history_ : DataFrame
        Per epoch: log-likelihood of the held-out ratings, seconds (which files do not keep).
    best_epoch_, n_iter_ : int
        The epoch whose parameters were kept, and how many were run.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> ratings = pd.DataFrame({
    ...     "user": ["ann", "ann", "bob", "bob", "cy", "cy", "cy", "di"],
    ...     "item": ["tea", "milk", "tea", "cake", "milk", "cake", "tea", "cake"],
    ...     "rating": [5, 1, 4, 2, 3, 5, 1, 4],
    ... })
    >>> model = orbm.GaussianMF(2, n_epochs=3, random_state=0).fit(ratings)
    >>> model.predict_proba("ann", ["cake", "coffee"]).shape
    (2, 5)
    """

    _core, _kind = gaussian_mf, "gaussian_mf"

    def __init__(
        self,
        n_factors: int = 50,
        *,
        posterior: str = "variational",
        bias_precision: float = 5.0,
        factor_precision: float | None = None,
        scale: Any = None,
        item_scales: Any = None,
        n_epochs: int = 40,
        patience: int = 3,
        validation_fraction: float = 0.05,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.posterior = posterior
        self.bias_precision = bias_precision
        self.factor_precision = factor_precision
        self.scale = scale
        self.item_scales = item_scales
        self.n_epochs = n_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _more_to_fit(self, catalogue: Catalogue) -> tuple[np.ndarray]:
        """The values of the levels, which the Gaussian is about."""
        scale = catalogue.cold_start_scale()
        for other in catalogue.distinct()[0]:
            if other != scale:
                raise DataError(
                    "GaussianMF treats ratings as numbers and needs one scale for all items, but "
                    f"there are {shorten(scale.labels)} and {shorten(other.labels)}; leave "
                    "item_scales out, or use OrdinalMF or MatrixCumulativeRBM."
                )
        ascending = (np.diff(scale.values) > 0).all()
        return (scale.values if ascending else np.arange(1.0, scale.n_levels + 1.0),)

    def _ratings(self, pairs: Cells, rule: Rule) -> np.ndarray:
        if rule != "mean":
            return super()._ratings(pairs, rule)
        with threads(self.n_jobs):
            mean = gaussian_mf.predict_mean(self.model_, pairs.row, pairs.column)
        # The same numbers, unless labels do not ascend and were counted instead.
        return np.interp(mean, self.model_.values, self._catalogue.cold_start_scale().values)


class OrdinalMF(_Baseline):
    """Ordinal matrix factorisation (Koren and Sill's OrdRec 2011, without neighbours).

    A rating says between which two thresholds a hidden utility lies, Gaussian around b_user +
    b_item + p_user · q_item. The widths between thresholds belong to user and item together.

    Parameters
    ----------
    n_factors : int, default=50
        Number of factors, the length of p and q.
    posterior : {"variational", "point"}, default="variational"
        What is kept of each bias and factor: a mean and a variance, or only the best value as in
        the original. With variances the strengths of all priors are learnt.
    bias_precision, factor_precision, width_precision : float, default=5, None and 20
        Of the priors of biases, factors and log widths, where a utility has variance one: fixed for
        "point", where learning begins for "variational". None means 20 for the factors of "point",
        else 1.
    scale : list of labels from lowest to highest, optional
        The scale of all ratings; by default the distinct ratings in ascending order.
    item_scales : dict of item to labels, optional
        Items with a scale of their own.
    n_epochs : int, default=60
        Passes over the ratings at most.
    patience : int, default=3
        Learning ends after so many epochs in which held-out ratings are not predicted better.
    validation_fraction : float, default=0.05
        Share of the ratings that is held out to watch learning when ``fit`` is given no validation
        ratings (200,000 at most, and never all ratings of a user or an item). 0 holds out none.
    random_state : int, RandomState or None, default=None
        Seed of everything random. The same seed gives the same result on any number of threads.
    n_jobs : int or None, default=None
        Threads; None or -1 means all that Numba has.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    model_ : model.baselines.ordinal_mf.OrdinalMF
        What was learnt; rows are users and columns items, in the order of their ids. Where items
        have different scales, one more column stands for unknown items.
    users_, items_ : Ids
        The ids behind rows and columns.
    scales_ : Scale, or tuple of Scale
        One for all items, or one per item.
    default_scale_ : Scale or None
        The scale of unknown items; None when each item has a scale of its own.
    history_ : DataFrame
        Per epoch: log-likelihood of the held-out ratings, seconds (which files do not keep).
    best_epoch_, n_iter_ : int
        The epoch whose parameters were kept, and how many were run.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> ratings = pd.DataFrame({
    ...     "user": ["ann", "ann", "bob", "bob", "cy", "cy", "cy", "di"],
    ...     "item": ["tea", "milk", "tea", "cake", "milk", "cake", "tea", "cake"],
    ...     "rating": [5, 1, 4, 2, 3, 5, 1, 4],
    ... })
    >>> model = orbm.OrdinalMF(2, n_epochs=3, random_state=0).fit(ratings)
    >>> model.predict_proba("ann", ["cake", "coffee"]).shape
    (2, 5)
    """

    _core, _kind = ordinal_mf, "ordinal_mf"

    def __init__(
        self,
        n_factors: int = 50,
        *,
        posterior: str = "variational",
        bias_precision: float = 5.0,
        factor_precision: float | None = None,
        width_precision: float = 20.0,
        scale: Any = None,
        item_scales: Any = None,
        n_epochs: int = 60,
        patience: int = 3,
        validation_fraction: float = 0.05,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.posterior = posterior
        self.bias_precision = bias_precision
        self.factor_precision = factor_precision
        self.width_precision = width_precision
        self.scale = scale
        self.item_scales = item_scales
        self.n_epochs = n_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose


class MultinomialRBM(_Baseline):
    """Multinomial restricted Boltzmann machine (Salakhutdinov, Mnih and Hinton 2007).

    Every rating is a softmax unit that knows nothing of the order of its labels, and every user has
    binary factors; learnt by contrastive divergence.

    Parameters
    ----------
    n_factors : int, default=50
        Number of binary factors of a user.
    learning_rate : float, default=0.002
        Size of the steps (Adam).
    batch_size : int, default=200
        Users per update.
    epochs_per_step : int, default=10
        Contrastive divergence starts with one Gibbs step and takes one more after every so many
        epochs; 0 keeps it at one.
    weight_decay, bias_decay : float, default=8 and 2.5
        Precisions of the Gaussian priors: of how the weights of an item's labels differ from each
        other, and of how its biases differ from those of all items.
    averaged_epochs : int, default=10
        The model is an average over about so many of the last epochs, which takes out the noise of
        sampling.
    scale : list of labels from lowest to highest, optional
        The scale of all ratings; by default the distinct ratings in ascending order.
    item_scales : dict of item to labels, optional
        Items with a scale of their own.
    n_epochs : int, default=150
        Passes over the ratings at most.
    patience : int, default=6
        Learning ends after so many epochs in which held-out ratings are not predicted better.
    validation_fraction : float, default=0.05
        Share of the ratings that is held out to watch learning when ``fit`` is given no validation
        ratings (200,000 at most, and never all ratings of a user or an item). 0 holds out none.
    random_state : int, RandomState or None, default=None
        Seed of everything random. The same seed gives the same result on any number of threads.
    n_jobs : int or None, default=None
        Threads; None or -1 means all that Numba has.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    model_ : model.baselines.multinomial_rbm.MultinomialRBM
        What was learnt; rows are users and columns items, in the order of their ids. Where items
        have different scales, one more column stands for unknown items.
    users_, items_ : Ids
        The ids behind rows and columns.
    scales_ : Scale, or tuple of Scale
        One for all items, or one per item.
    default_scale_ : Scale or None
        The scale of unknown items; None when each item has a scale of its own.
    history_ : DataFrame
        Per epoch: log-likelihood of the held-out ratings, seconds (which files do not keep).
    best_epoch_, n_iter_ : int
        The epoch whose parameters were kept, and how many were run.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> ratings = pd.DataFrame({
    ...     "user": ["ann", "ann", "bob", "bob", "cy", "cy", "cy", "di"],
    ...     "item": ["tea", "milk", "tea", "cake", "milk", "cake", "tea", "cake"],
    ...     "rating": [5, 1, 4, 2, 3, 5, 1, 4],
    ... })
    >>> model = orbm.MultinomialRBM(2, n_epochs=3, random_state=0).fit(ratings)
    >>> model.predict_proba("ann", ["cake", "coffee"]).shape
    (2, 5)
    """

    _core, _kind = multinomial_rbm, "multinomial_rbm"

    def __init__(
        self,
        n_factors: int = 50,
        *,
        learning_rate: float = 0.002,
        batch_size: int = 200,
        epochs_per_step: int = 10,
        weight_decay: float = 8.0,
        bias_decay: float = 2.5,
        averaged_epochs: int = 10,
        scale: Any = None,
        item_scales: Any = None,
        n_epochs: int = 150,
        patience: int = 6,
        validation_fraction: float = 0.05,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.epochs_per_step = epochs_per_step
        self.weight_decay = weight_decay
        self.bias_decay = bias_decay
        self.averaged_epochs = averaged_epochs
        self.scale = scale
        self.item_scales = item_scales
        self.n_epochs = n_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learnt(
        self, table: Any, more: tuple[Any, ...], held_out: Cells | None, settings: Any
    ) -> tuple[Any, list[Record]]:
        """The same with smaller steps, from the beginning, as long as these were too large."""
        schedule = Schedule(
            settings.learning_rate, n_epochs=self.n_epochs, patience=self.patience, fall=1.0
        )
        n_epochs = 0
        while not n_epochs:
            smaller = dataclasses.replace(settings, learning_rate=schedule.learning_rate)
            try:
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    found, history = super()._learnt(table, more, held_out, smaller)
                    self._refuse_divergence(found, table)
                n_epochs = len(history)
            except (DivergenceError, FloatingPointError):
                if not schedule.slow_down():
                    break
        tell_of_divergence(schedule, n_epochs, stacklevel=4)
        return found, history

    def _refuse_divergence(self, model: Any, table: Observations) -> None:
        """Raise DivergenceError if the model is of no use."""
        refuse_divergence(model.weights, (model.bias, model.factor_bias))
        row, column, level = binary_learner.some_of(table)
        found = self._core.predict_proba(model, row, column)[np.arange(level.size), level]
        refuse_nonsense(
            np.log(np.maximum(found, learning.SMALLEST_PROBABILITY)),
            usual_rating(table, level),
        )


# Inside


def _columns_of(catalogue: Catalogue, items: np.ndarray) -> np.ndarray:
    """Columns of items by position; an unknown one has the unrated column, if there is one."""
    unknown = -1 if isinstance(catalogue.scales, Scale) else len(catalogue.items)
    return np.where(items < 0, unknown, items)


def _cut_short(history: list[Record], n_epochs: int, patience: int) -> bool:
    """Whether learning was ended by hand: epochs were left, and so was patience.

    ``learn`` does not tell, so that its rule is followed here along the history.
    """
    goal, waited = -np.inf, 0
    for record in history:
        waited = waited + 1 if record.validation < goal else 0
        if waited == 0:
            goal = record.validation + learning._WORTHWHILE
    return len(history) < n_epochs and waited < patience


# Files


def _model_parts(model: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays of a model by name, and what is not an array."""
    arrays, numbers = {}, {}
    for name, part in model._asdict().items():
        if isinstance(part, np.ndarray):
            arrays[f"model.{name}"] = part
        elif isinstance(part, Effects | Widths):
            arrays |= {f"model.{name}.{field}": array for field, array in part._asdict().items()}
        else:
            numbers[name] = part
    return arrays, numbers

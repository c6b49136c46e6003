"""The paper's model of rating matrices as an estimator."""

from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data.columns import shown
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.data.ratings import Ratings, as_list, encode
from ordinalrbm.engine.thresholds import FirstThresholds
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.recommendation import IdsLike, RatingsLike
from ordinalrbm.estimators.validation import check_choice, check_whole, keep_parameters, settings_of
from ordinalrbm.matrix import binary_learner, likelihood
from ordinalrbm.matrix.binary_learner import BiasPriors, BinarySettings, Solver
from ordinalrbm.matrix.model import MatrixModel, NewcomerPriors, expected_factors
from ordinalrbm.matrix.prepare import Fitted, TrainingData
from ordinalrbm.runtime.threads import seed_from, threads
from ordinalrbm.training.checkpoint import Checkpoints
from ordinalrbm.training.schedule import RateSchedule
from ordinalrbm.vector.chains import FreePhase
from ordinalrbm.vector.learner import FirstBiases


class MatrixCumulativeRBM(RatingModel):
    """Cumulative Restricted Boltzmann Machine for rating matrices: users, items, ordered ratings.

    Every rating comes from a hidden real utility that falls between two thresholds. The utility
    has a part of the item's and a part of the user's, a part for each binary factor of the user
    that the item weighs, and one for each binary factor of the item that the user weighs (Tran,
    Phung and Venkatesh 2012). Thresholds belong to user and item together, so that a strict and a
    mild user may mean the same by different ratings. Both chains are learnt by Gibbs sampling.

    :class:`OrdinalMF` has continuous factors instead: taste is mostly a matter of degree, and it is
    quicker and more accurate. :class:`RatingEnsemble` averages both.

    Parameters
    ----------
    n_user_factors : int, default=50
        Number of binary factors of a user, K.
    n_item_factors : int, default=50
        Number of binary factors of an item, S. With 0 the matrix is treated as so many vectors:
        items have weights for the users' factors, and users have nothing else of their own.
    scale, item_scales, random_state, n_jobs, device, verbose, demand_factors, validation_fraction
        See :class:`RatingModel`, also for attributes that all models have.

    Other Parameters
    ----------------
    n_epochs : int or None, default=None
        Passes over the ratings at most; each passes over the users and over the items. None means
        15 to 60, the more the fewer users there are.
    patience : int, default=5
        After so many epochs without a better one, the learning rate begins to fall to zero.
    learning_rate : float, default=0.15
        Size of the first steps (AdaGrad); falls to zero along a cosine in the last epochs.
    batch_size : int, default=300
        Users (or items) per update.
    weight_decay : float or None, default=None
        Precision of the Gaussian prior on the weights; None estimates it together with them
        (empirical Bayes), so that there is nothing to tune.
    calibrate : bool, default=True
        Whether to set, in the end, a few numbers by the likelihood of the held-out ratings: how
        far to believe the factors, how wide distributions are, and how much milder or stricter
        ratings are with the number of ratings of a user and an item.
    memory : float, default=0.5
        How much of the old is kept, epoch by epoch, in the running mean that tracks the posterior
        of the factors: η of the paper.
    gibbs_steps : int, default=1
        Steps of each chain per update.
    free_phase : {"contrastive", "persistent"}, default="contrastive"
        Whether the free chains start from the clamped ones at each update, or go on by themselves;
        then with ``gibbs_steps`` of 5 or more, because each is visited once an epoch.
    solver : {"adagrad", "sgd"}, default="adagrad"
        Steps that adapt to each parameter, or plain steps along the mean gradient per rating.
    centred : bool, default=True
        Whether factors are measured from their middle when weights move, so that a weight and the
        bias do not fight.
    priors : {"learnt", "none"}, default="learnt"
        Gaussian priors on biases and gaps whose widths are estimated along the way, or none.
    biases : {"balanced", "zero"}, default="balanced"
        Where biases start: at minus half the sum of the weights, so that factors that are on or off
        by chance do not shift the utility, or at zero, as in the paper.
    thresholds : {"marginal", "even"}, default="marginal"
        Where thresholds start: at the quantiles of all ratings, or one apart.
    schedule : {"cosine", "constant"}, default="cosine"
        Whether the learning rate falls to zero in the end. If not, learning breaks off after
        ``patience`` epochs without a better one.

    Attributes
    ----------
    user_factors_ : (users, K) array
        Probability of each user's factors, tracked while learning; :meth:`transform` has those of
        the final parameters.
    item_factors_ : (items, S) array
        The same of each item's factors.
    item_weights_, user_weights_ : (items, K) and (users, S) arrays
        Weights of the users' factors in the utility of an item's ratings, and of the items' factors
        in that of a user's.
    item_biases_, user_biases_ : arrays
        ``item_biases_[i] + user_biases_[u] + item_weights_[i] @ user_factors_[u] + user_weights_[u] @
        item_factors_[i]`` is the mean utility of a rating, before calibration.
    history_ : DataFrame
        Per epoch: pseudo-likelihood (mean log P(rating | all other ratings) of some 10,000 training
        ratings), log-likelihood of the held-out ratings, learning rate, precisions of the weights.
    cold_start_ : list
        For each model, what items and users are like on the whole: where :meth:`fold_in` starts.

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> users = ["ann", "ann", "bob", "bob", "cy", "cy", "cy", "di"]
    >>> items = ["tea", "milk", "tea", "cake", "milk", "cake", "tea", "cake"]
    >>> ratings = (users, items, [5, 1, 4, 2, 3, 5, 1, 4])
    >>> model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=3, random_state=0).fit(ratings)
    >>> model.predict_proba("ann", ["cake", "coffee"]).shape
    (2, 5)
    >>> sorted(model.recommend("di", n=2)["item"])
    ['milk', 'tea']
    """

    _kind, _model_type = "matrix_crbm", MatrixModel
    _choices: ClassVar = {"solver": ("adagrad", "sgd")}
    n_user_factors: int
    n_item_factors: int

    def __init__(
        self,
        n_user_factors: int = 50,
        n_item_factors: int = 50,
        *,
        scale: Any = None,
        item_scales: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: bool = False,
        n_epochs: int | None = None,
        patience: int = 5,
        learning_rate: float = 0.15,
        batch_size: int = 300,
        weight_decay: float | None = None,
        calibrate: bool = True,
        memory: float = 0.5,
        gibbs_steps: int = 1,
        free_phase: FreePhase = "contrastive",
        solver: Solver = "adagrad",
        centred: bool = True,
        priors: BiasPriors = "learnt",
        biases: FirstBiases = "balanced",
        thresholds: FirstThresholds = "marginal",
        schedule: RateSchedule = "cosine",
        demand_factors: int = 64,
        validation_fraction: float = 0.05,
    ) -> None:
        keep_parameters(self, locals())

    @classmethod
    def paper(cls, n_user_factors: int = 50, n_item_factors: int = 50, **others: Any) -> Self:
        """The paper's procedure, as near to it as works.

        Plain stochastic gradient from one contrastive step, thresholds that start evenly spaced, posteriors
        tracked with η = 0.9, predictions as they are. Not in the paper, and each with a switch: a fixed
        weight decay (precision K), factors coded around their middle, priors on biases and gaps whose widths
        are learnt, a learning rate that falls along a cosine (from 1.5 / K: the steps of all factors add up),
        and biases that start where they balance the weights. All departures, also those without a switch, and
        what they are worth: docs/paper.md. Other parameters may be given by name.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> orbm.MatrixCumulativeRBM.paper(20, 20, n_epochs=30).memory
        0.9
        """
        n_factors = max(n_user_factors, n_item_factors)
        own: dict[str, Any] = {
            "n_epochs": 40,
            "batch_size": 50,
            "solver": "sgd",
            "learning_rate": 1.5 / n_factors,
            "thresholds": "even",
            "memory": 0.9,
            "weight_decay": float(n_factors),
            "calibrate": False,
        }
        return cls(n_user_factors, n_item_factors, **(own | others))

    # ---- for researchers ------------------------------------------------------------------------

    def transform(self, users: IdsLike = "all") -> np.ndarray:
        """Posterior probability of each factor of these users, (n, K), given their ratings.

        It is that of the final parameters and the expected factors of the items, by mean field.
        (``user_factors_``, which predictions are made with, is the mean that was tracked while
        these parameters were learnt.)

        Parameters
        ----------
        users : "all", id or array-like of ids
            Known ones; of new ones :meth:`fold_in` learns first.
        """
        check_is_fitted(self, "models_")
        rows = self._positions(users, "user")
        ratings = self.ratings_.observations.take_rows(rows)
        with threads(self.n_jobs):
            return expected_factors(self.model_.with_rows(lambda part: part[rows]), ratings)

    def log_likelihood(
        self,
        ratings: RatingsLike = None,
        of: Literal["matrix", "users", "items"] = "matrix",
        method: Literal["exact", "ais"] = "exact",
        *,
        n_temperatures: int = 500,
        n_chains: int = 32,
        return_std: bool = False,
        random_state: Any = None,
    ) -> Any:
        """Log-probability of ratings under the Boltzmann machine that was learnt.

        It is that of the model itself, without calibration; cells without a rating are absent.

        Parameters
        ----------
        ratings : as in :meth:`fit`, optional
            Of known users and items; by default those that were learnt from.
        of : {"matrix", "users", "items"}, default="matrix"
            All ratings together, both sets of factors summed over; or each user's given the
            expected factors of the items; or each item's given those of the users.
        method : {"exact", "ais"}, default="exact"
            A sum over all states of the factors, where these are few, or an estimate by annealed
            importance sampling.
        n_temperatures, n_chains : int
            Length and number of annealing runs; more make the estimate better.
        return_std : bool
            Whether to return standard errors too (zero when exact).
        random_state : int, RandomState or None
            Seed of the annealing runs.

        Returns
        -------
        value, or (value, standard_error)
            A number for the matrix; otherwise an array in the order of ``users_`` or ``items_``,
            zero for those without a rating.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> ratings = (["ann", "ann", "bob", "cy"], ["tea", "milk", "tea", "milk"], [3, 1, 2, 3])
        >>> model = orbm.MatrixCumulativeRBM(2, 1, n_epochs=3, random_state=0).fit(ratings)
        >>> bool(model.log_likelihood() < 0.0)
        True
        >>> model.log_likelihood(of="users").shape
        (3,)
        """
        check_is_fitted(self, "models_")
        check_choice("of", of, ("matrix", "users", "items"))
        check_choice("method", method, ("exact", "ais"))
        check_whole("n_temperatures", n_temperatures, 1)
        check_whole("n_chains", n_chains, 2)
        observations = self._of_known(ratings)
        own = {} if of == "matrix" else {"swapped": of == "items"}
        with threads(self.n_jobs):
            if method == "exact":
                compute = likelihood.exact if of == "matrix" else likelihood.exact_rows
                found = compute(self.model_, observations, **own)
            else:
                estimate = likelihood.annealed if of == "matrix" else likelihood.annealed_rows
                how = (seed_from(random_state), n_temperatures, n_chains)
                found = estimate(self.model_, observations, *how, **own)
        value, error = (part if part.ndim else float(part) for part in found)
        return (value, error) if return_std else value

    def _positions(self, ids: IdsLike, what: str) -> np.ndarray:
        if isinstance(ids, str) and ids == "all":
            return np.arange(len(self.users_ if what == "user" else self.items_))
        ids = as_list(ids)
        found = self.ratings_.lookup(ids, what)
        if found.size and found.min() < 0:
            unknown = list(ids)[int(found.argmin())]
            raise DataError(
                f"The {what} {shown(unknown)} is not known; give one of {what}s_, or learn of it with "
                "fold_in()."
            )
        return found

    def _of_known(self, ratings: RatingsLike) -> Observations:
        """Ratings of known users and items, or those that were learnt from."""
        if ratings is None:
            return self.ratings_.observations
        cells = encode(self.ratings_, ratings)
        self._refuse_unknown(cells)
        shape = (len(self.users_), len(self.items_), self.ratings_.observations.n_levels)
        return Observations.from_triples(*cells, *shape)

    @staticmethod
    def _refuse_unknown(cells: Cells) -> None:
        unknown = (cells.row < 0) | (cells.column < 0)
        if unknown.any():
            raise DataError(
                f"Rating {int(unknown.argmax())} (counted from 0) is by an unknown user or of an "
                "unknown item; leave it out, or learn of them with fold_in()."
            )

    # ---- inside ---------------------------------------------------------------------------------

    def _learn(self, data: TrainingData, seed: int, checkpoints: Checkpoints) -> Fitted:
        if not data.observations.n_entries:
            return Fitted([MatrixModel.blank(self.n_user_factors, self.n_item_factors)], 0, [], False)
        n_factors = {"n_row_factors": self.n_user_factors, "n_column_factors": self.n_item_factors}
        settings = settings_of(BinarySettings, self, **n_factors, seed=seed)
        assert isinstance(data.observations, Observations), "every process has all ratings"
        return binary_learner.fit(data.observations, data.validation, settings, checkpoints)

    def _in_order(
        self, posterior: MatrixModel, data: TrainingData, known: Ratings, fitted: Fitted
    ) -> MatrixModel:
        return super()._in_order(posterior, data, known, fitted).with_priors(*fitted.precisions)

    @property
    def cold_start_(self) -> list[NewcomerPriors]:
        """Priors of new items and new users, for each of ``models_``."""
        return [model.priors for model in self.models_]

    def _set_ratings(self, known: Ratings) -> None:
        super()._set_ratings(known)
        of_items, of_users = self.model_.by_rows, self.model_.by_columns
        self.user_factors_, self.item_factors_ = of_items.factors, of_users.factors
        self.item_weights_, self.item_biases_ = of_items.weights, of_items.bias
        self.user_weights_, self.user_biases_ = of_users.weights, of_users.bias

"""Matrix factorisation with Gaussian factors: ordinal, and of ratings taken as numbers."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.data.ratings import Catalogue, Ratings
from ordinalrbm.data.scales import shorten
from ordinalrbm.engine.base import NO_VALUES
from ordinalrbm.errors import DataError, user_stacklevel
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.side_features import check_weights
from ordinalrbm.estimators.validation import keep_parameters, settings_of
from ordinalrbm.matrix import gibbs_learner, prepare, variational_learner
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.draws import Draws
from ordinalrbm.matrix.drift import RowDrift
from ordinalrbm.matrix.explain import adding_up
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.gibbs_learner import SampledSettings
from ordinalrbm.matrix.predict import all_known, expected_utility
from ordinalrbm.matrix.protocol import ChangedRatings, ExplainedCell, GaussianPosterior
from ordinalrbm.matrix.top_n import Vectors, as_shares, vectors_of
from ordinalrbm.matrix.variational import Precisions
from ordinalrbm.matrix.variational_learner import GaussianSettings
from ordinalrbm.runtime.threads import threads
from ordinalrbm.stats.mcmc_diagnostics import summary
from ordinalrbm.stats.point_estimates import Rule
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training.checkpoint import Checkpoints

# R-hat above which a chain is said to be too short.
MIXED = 1.1


class _FactorModel(RatingModel):
    _model_type, _weighs = GaussianModel, True
    n_factors: int
    posterior: str
    bias_precision: float
    factor_precision: float | None
    gap_precision: float = 20.0
    rated_sets: bool = False
    n_epochs: int | None
    refit: str = "none"
    _factors_of_points: ClassVar[float]  # their precision, if none is given
    _can_update = True
    _values: np.ndarray = NO_VALUES  # of the levels, if these stand for any

    def _set_ratings(self, known: Ratings) -> None:
        super()._set_ratings(known)
        rows, columns = self._posteriors[-1].means()
        n_more = self.n_factors - (rows.shape[1] - 1)
        self.user_biases_, self.item_biases_ = rows[:, 0], columns[:, 0]
        self.user_factors_, self.item_factors_ = (
            np.pad(side[:, 1:], ((0, 0), (0, n_more))) for side in (rows, columns)
        )

    def _effects(self, cell: ExplainedCell) -> tuple[float, np.ndarray]:
        expected, effects = super()._effects(cell)
        return expected, adding_up(effects, expected - self._baseline(cell.row, cell.column))

    def _update(self, known: Observations, touched: ChangedRatings, tables: Tables) -> None:
        if not touched.rows.size:  # all is known
            return
        self._keep_posteriors(
            [posterior.updated(known, touched, tables, CPU) for posterior in self._posteriors]
        )

    def _vectors(self) -> Vectors | None:
        shares, _, _ = as_shares(self._level_utility("rating"))
        lines = self.user_biases_, self.user_factors_, self.item_biases_, self.item_factors_
        return vectors_of(*lines, self._posteriors[-1].curves(shares))

    def _in_order(
        self, posterior: GaussianPosterior, data: prepare.TrainingData, known: Ratings, fitted: prepare.Fitted
    ) -> GaussianPosterior:
        ordered = super()._in_order(posterior, data, known, fitted)
        if not self._features.tables.are_any:
            return ordered
        return ordered.with_feature_priors(known.observations, self._features.tables)

    def _read_models(self, stored: Stored, n_users: int, n_levels: np.ndarray) -> None:
        super()._read_models(stored, n_users, n_levels)
        for model in self.models_:
            of_rows, of_columns = model.row_prior.weights, model.column_prior.weights
            check_weights(self._features, len(of_rows.table), len(of_columns.table))

    def _learn(self, data: prepare.TrainingData, seed: int, checkpoints: Checkpoints) -> prepare.Fitted:
        if not data.observations.n_entries:
            return prepare.Fitted([GaussianModel.blank(self.n_factors)], 0, [], False)
        is_point = self.posterior == "point"
        learnt = ("all",) if data.is_given else ("all", "held-out")
        factors = self.factor_precision or (self._factors_of_points if is_point else 1.0)
        settings = settings_of(
            GaussianSettings,
            self,
            precisions=Precisions(self.bias_precision, factors, self.gap_precision),
            is_point=is_point,
            n_epochs=self.n_epochs or (60 if is_point else 30),
            seed=seed,
            values=self._values,
            rated_sets=self.rated_sets and not is_point,
            learns_validation=not is_point and self.refit in learnt,
        )
        times = data.times if self._drifts(data) else prepare.NO_TIMES
        return variational_learner.fit(
            data.observations,
            data.validation,
            settings,
            checkpoints,
            data.tables,
            times,
            data.validation_weight,
        )

    def _drifts(self, data: prepare.TrainingData) -> bool:
        return False


class OrdinalMF(_FactorModel):
    """Ordinal matrix factorisation with a Gaussian posterior.

    A rating says between which two thresholds a hidden utility lies, Gaussian around b_user +
    b_item + p_user · q_item; the gaps between thresholds belong to user and item together. It is a
    variational ordinal factor model, motivated by the paper's: a row's binary factors become
    Gaussian when each has many units. What is left to know about each user and item is carried
    into every prediction, the strengths of all priors are learnt, and there is no learning rate.

    Parameters
    ----------
    n_factors : int, default=50
        Number of factors, the length of p and q. Of more than the ratings can tell, only so many
        are learnt, and the others are zero.
    posterior : {"variational", "sampled", "point"}, default="variational"
        What is kept of each bias and factor. "variational": a mean and a variance, by a mean-field
        method; quick. "sampled": draws from the whole posterior, by a Gibbs sampler that starts
        there; the most accurate, and nothing is held out. "point": only the best value, with
        priors that stay as they are, as in Koren and Sill's OrdRec (2011) without neighbours, the
        baseline of the paper.
    n_draws : int, default=160
        Of "sampled": how many draws are kept, in pairs of neighbours. Predictions are their mean, whose
        error by chance falls with their number; memory and the time of a prediction grow with it.
    n_chains : int, default=1
        Of "sampled": how many chains these draws are from, each with sweeps that are dropped of its
        own. Several tell better whether they have forgotten where they began, and take longer.
    scale, item_scales, random_state, n_jobs, device, verbose, demand_factors, validation_fraction
        See :class:`RatingModel`, also for attributes that all models have.

    Other Parameters
    ----------------
    n_epochs : int or None, default=None
        Passes over the ratings at most; each passes over the users and over the items. None means
        30, or 60 for "point"; most fits stop by themselves after 10 to 25. Of "sampled" it is the
        number of sweeps, None meaning 2 for each draw after those that are dropped: at least 30,
        until neither the likelihood nor the width of the scale has a trend, and at most 150 or, if
        ``n_epochs`` is given, a third of all.
    patience : int, default=2
        Learning ends after so many epochs in a row of little gain for the held-out ratings.
    refit : {"held-out", "all", "none"}, default="held-out"
        Which validation ratings are learnt from in the end, in a few more epochs, when the number
        of epochs is known: those that were held out of the ratings
        (``validation_fraction``), also those that were given to ``fit``, or none. Ratings given as
        ``validation`` are not learnt from by default, as in the paper. Not for "point"; "sampled"
        holds nothing out, and learns from given validation ratings only with "all".
    rated_sets : bool, default=True
        Whether what a user has rated, however it was rated, tells where to expect the user's bias
        and factors, and who has rated an item those of the item (as in SVD++). Only ratings that
        are learnt from count. Not for "point".
    bias_precision, factor_precision, gap_precision : float, default=5, None and 20
        Of the priors of biases, factors and log gaps, where a utility has variance one: fixed for
        "point", where learning begins for "variational". None means 20 for the factors of "point",
        else 1.
    drift : {"auto", "none"}, default="auto"
        Whether a user's bias drifts with time, where ratings have times: levels of about eight
        ratings each, in the user's own order, follow an autoregressive process whose variance and
        persistence are learnt. Predictions are for now, which is after the user's last rating, or
        for the ``times`` that they are asked for. Not for "point".

    Attributes
    ----------
    user_factors_ : (users, F) array
    item_factors_ : (items, F) array
        Expected factors. ``user_biases_[u] + item_biases_[i] + user_factors_[u] @
        item_factors_[i]`` is the expected utility of a rating.
    user_biases_, item_biases_ : arrays
        Expected biases. (Of "sampled" all four are means of draws in the axes of the last one, so
        that the product is close to the expected utility, and not equal to it.)
    draws_ : Draws
        Of "sampled": what is kept of each draw.
    chain_ : DataFrame
        Of "sampled": mean, standard deviation, split R-hat and effective sample size of the numbers
        in ``history_``, over the sweeps of all chains that were not dropped. Where any R-hat is
        above 1.1, ``fit`` warns (``ConvergenceWarning``): the chain is worth more sweeps (``n_epochs``).

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> users = ["ann", "ann", "bob", "bob", "cy", "cy", "cy", "di"]
    >>> items = ["tea", "milk", "tea", "cake", "milk", "cake", "tea", "cake"]
    >>> ratings = (users, items, [5, 1, 4, 2, 3, 5, 1, 4])
    >>> model = orbm.OrdinalMF(2, n_epochs=3, random_state=0).fit(ratings)
    >>> model.predict_proba("ann", ["cake", "coffee"]).shape
    (2, 5)
    >>> sorted(model.recommend("di", n=2)["item"])
    ['milk', 'tea']
    """

    _kind, _in_processes, _factors_of_points = "ordinal_mf", True, 20.0
    _choices: ClassVar = {
        "posterior": ("variational", "sampled", "point"),
        "refit": ("held-out", "all", "none"),
        "drift": ("auto", "none"),
    }
    n_draws: int
    n_chains: int
    rated_sets: bool

    def __init__(
        self,
        n_factors: int = 50,
        *,
        posterior: Literal["variational", "sampled", "point"] = "variational",
        n_draws: int = 160,
        n_chains: int = 1,
        scale: Any = None,
        item_scales: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: bool = False,
        n_epochs: int | None = None,
        patience: int = 2,
        refit: Literal["held-out", "all", "none"] = "held-out",
        rated_sets: bool = True,
        bias_precision: float = 5.0,
        factor_precision: float | None = None,
        gap_precision: float = 20.0,
        demand_factors: int = 64,
        validation_fraction: float = 0.05,
        drift: Literal["auto", "none"] = "auto",
    ) -> None:
        keep_parameters(self, locals())

    def _takes_features(self) -> bool:
        return self.posterior != "point"

    @property
    def _is_sampled(self) -> bool:
        return self.posterior == "sampled"

    def _held_out(self) -> float:
        return 0.0 if self._is_sampled else super()._held_out()

    def _learn(self, data: prepare.TrainingData, seed: int, checkpoints: Checkpoints) -> prepare.Fitted:
        if not self._is_sampled or not data.observations.n_entries:
            return super()._learn(data, seed, checkpoints)
        if not isinstance(data.observations, Observations):
            raise DataError(
                "With posterior='sampled' every process has a chain of its own, for which it needs "
                "all ratings; give all of them the same ratings, and not a RatingsPart, or use "
                "posterior='variational'."
            )
        precisions = Precisions(self.bias_precision, 1.0, self.gap_precision)
        settings = settings_of(SampledSettings, self, precisions=precisions, seed=seed)
        observations, validation, weight = data.observations, data.validation, data.validation_weight
        times = data.times if self._drifts(data) else prepare.NO_TIMES
        if self.refit == "all" and validation is not None:
            whole = prepare.with_cells(observations, validation, weight)
            parts = [(observations.cells(), times.ratings), (validation, times.validation)]
            times = prepare.RatingTimes(prepare.times_with_cells(whole, parts))
            observations, validation = whole, None
        return gibbs_learner.fit(observations, validation, settings, checkpoints, data.tables, times, weight)

    def _drifts(self, data: prepare.TrainingData) -> bool:
        return self.drift == "auto" and data.times.ratings is not None and self.posterior != "point"

    def _drift(self) -> RowDrift | None:
        drift = self._posteriors[-1].drift
        return drift if drift.is_any else None

    @property
    def draws_(self) -> Draws:
        """What is kept of each draw, where there are draws."""
        posterior = self.__dict__.get("_posteriors", [None])[0]
        if not isinstance(posterior, Draws):
            raise AttributeError("Only a fitted model with posterior='sampled' has draws.")
        return posterior

    @property
    def chain_(self) -> pd.DataFrame:
        """How the chain went, where there is one."""
        if not self._is_sampled or not hasattr(self, "history_"):
            raise AttributeError("Only a fitted model with posterior='sampled' has a chain.")
        history = self.history_
        if history.empty:
            raise AttributeError("Nothing was sampled, because there was nothing to rate.")
        # Before there was a rule, a third of the sweeps were dropped, or 30.
        before = history["epoch"] <= min(30, len(history) // 3)
        dropped = history.get("dropped", before) > 0
        kept = history if dropped.all() else history.loc[~dropped]
        number = kept.get("chain", kept["epoch"] > 0)
        kept = kept.drop(columns=["epoch", "validation", "seconds", "chain", "dropped"], errors="ignore")
        return summary([own for _, own in kept.groupby(number.to_numpy())])

    def _keep(self, known: Ratings, data: prepare.TrainingData, fitted: prepare.Fitted) -> None:
        super()._keep(known, data, fitted)
        if self._is_sampled and fitted.history:
            self._warn_unless_mixed()

    def _warn_unless_mixed(self) -> None:
        r_hat = self.chain_["r_hat"]
        if not (r_hat > MIXED).any():
            return
        warnings.warn(
            f"The chain has not mixed: R-hat of {r_hat.idxmax()} is {r_hat.max():.2f} after "
            f"{self.n_iter_} sweeps, and should be below {MIXED}; sample for longer, for example "
            f"with n_epochs={2 * self.n_iter_ // self.n_chains} (chain_ has all figures).",
            ConvergenceWarning,
            stacklevel=user_stacklevel(),
        )

    def _name_in_file(self, number: int) -> str:
        # Where there was nothing to draw, there is a model as any other.
        return "draws" if self.model_.is_draw else super()._name_in_file(number)

    def _read_models(self, stored: Stored, n_users: int, n_levels: np.ndarray) -> None:
        if not self._is_sampled or "0.rows.mean" in stored:
            return super()._read_models(stored, n_users, n_levels)
        draws = Draws.from_stored(stored.under("draws."), n_users, n_levels)
        sides = (draws.rows, draws.columns)
        check_weights(self._features, *(side.table_weights.shape[1] for side in sides))
        self._keep_posteriors([draws])


class GaussianMF(_FactorModel):
    """Gaussian matrix factorisation (Salakhutdinov and Mnih 2007).

    A rating is a number, Gaussian around mean + b_user + b_item + p_user · q_item, with Gaussian
    priors on biases and factors. Labels that are text or do not ascend count as 1..L.

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
    item_scales : dict of item to labels, optional
        Here for the sake of the other models: this one needs the same scale for all items.
    scale, random_state, n_jobs, verbose, demand_factors, validation_fraction
        See :class:`RatingModel`, also for attributes that all models have.

    Other Parameters
    ----------------
    n_epochs : int, default=40
        Passes over the ratings at most.
    patience : int, default=3
        Learning ends after so many epochs in a row of little gain for the held-out ratings.
    bias_precision, factor_precision : float, default=5 and None
        Of the priors, where ratings have variance one: fixed for "point", where learning begins
        for "variational". None means 40 for the factors of "point", else 1.

    Attributes
    ----------
    user_factors_, item_factors_, user_biases_, item_biases_ : arrays
        As in :class:`OrdinalMF`; the unit is the standard deviation of a rating around its mean.

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> users = ["ann", "ann", "bob", "bob", "cy", "cy", "cy", "di"]
    >>> items = ["tea", "milk", "tea", "cake", "milk", "cake", "tea", "cake"]
    >>> ratings = (users, items, [5, 1, 4, 2, 3, 5, 1, 4])
    >>> model = orbm.GaussianMF(2, n_epochs=3, random_state=0).fit(ratings)
    >>> model.predict_proba("ann", ["cake", "coffee"]).shape
    (2, 5)
    """

    _kind, _factors_of_points = "gaussian_mf", 40.0

    def __init__(
        self,
        n_factors: int = 50,
        *,
        posterior: Literal["variational", "point"] = "variational",
        item_scales: Any = None,
        scale: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        n_epochs: int = 40,
        patience: int = 3,
        bias_precision: float = 5.0,
        factor_precision: float | None = None,
        demand_factors: int = 64,
        validation_fraction: float = 0.05,
    ) -> None:
        keep_parameters(self, locals())

    def _read_scales(self, catalogue: Catalogue) -> None:
        """Take the value of each level, which the Gaussian is about."""
        scales, _ = catalogue.distinct()
        if len(scales) > 1:
            raise DataError(
                "GaussianMF treats ratings as numbers and needs one scale for all items, but "
                f"there are {shorten(scales[0].labels)} and {shorten(scales[1].labels)}; leave "
                "item_scales out, or use OrdinalMF or MatrixCumulativeRBM."
            )
        values = scales[0].values
        ascending = (np.diff(values) > 0).all()
        self._values = values if ascending else np.arange(1.0, values.size + 1.0)

    def _point(self, cells: Cells, rule: Rule, time: np.ndarray | None = None) -> np.ndarray:
        values, labels = self.model_.values, self.ratings_.distinct()[0][0].values
        if rule != "mean" or not values.size:
            return super()._point(cells, rule, time)
        with threads(self.n_jobs):
            model = self.model_ if all_known(cells) else self._models_with_unknown()[-1]
            utility = expected_utility(model, self._at_the_end(cells))
            return np.interp(utility, values, labels)

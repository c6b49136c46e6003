"""CumulativeRBM: the scikit-learn estimator for surveys, tables of ordered answers."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from ordinalrbm.data.frames import TableLike, frame_of
from ordinalrbm.data.never_asked import cells_to_leave, groups_in
from ordinalrbm.data.observations import Observations, weight_of_answers
from ordinalrbm.data.questionnaire import (
    NOMINAL,
    NUMERIC,
    ColumnList,
    GivenScales,
    Questionnaire,
    read_questionnaire,
)
from ordinalrbm.data.tables import Encoded, Table, as_table, stack
from ordinalrbm.engine import memory
from ordinalrbm.engine.philox import Purpose, uniforms
from ordinalrbm.engine.side import Side
from ordinalrbm.engine.thresholds import FirstThresholds
from ordinalrbm.errors import DataError, user_stacklevel
from ordinalrbm.estimators import validation
from ordinalrbm.estimators.asking import Interviewing
from ordinalrbm.estimators.factor_analysis import column_names
from ordinalrbm.estimators.invariance import ComparableGroups
from ordinalrbm.estimators.model_fit import ModelFit
from ordinalrbm.estimators.persistence import kept_learning, plain_parameters, restored
from ordinalrbm.estimators.summaries import Carded, Summary, of_survey
from ordinalrbm.files.survey import Survey
from ordinalrbm.runtime.threads import report_interruption, seed_from, threads
from ordinalrbm.stats.point_estimates import Rule
from ordinalrbm.storage import model_file
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training.checkpoint import Checkpoints
from ordinalrbm.training.identity import identity_of
from ordinalrbm.training.loop import Callback, Calls
from ordinalrbm.training.schedule import RateSchedule, marginal_of_answers
from ordinalrbm.vector import likelihood, posterior
from ordinalrbm.vector import predict as prediction
from ordinalrbm.vector import sample as sampling
from ordinalrbm.vector.chains import FreePhase
from ordinalrbm.vector.learner import FirstBiases, FirstWeights, Fitted, Settings, Solver, fit
from ordinalrbm.vector.model import ARRAYS, OPTIONAL, Unanswered, VectorModel, side

# An answer is scored given nine tenths of the others: each tenth is hidden once.
_SCORE_FOLDS = 10
# Probabilities that are held at a time, and rows: results are smaller.
_NUMBERS_AT_ONCE, _ROWS_AT_ONCE = 2**22, 2**14

# More factors than this say no more about a survey, however many questions it has.
MOST_FACTORS = 50
_BACKGROUND_DECAY = 5.0

RandomState = int | np.random.RandomState | None
Inference = Literal["linear_response", "mean_field", "mcmc"]


class CumulativeRBM(ModelFit, ComparableGroups, Interviewing, TransformerMixin, Carded, BaseEstimator):
    """Cumulative Restricted Boltzmann Machine for tables of ordered answers.

    Every answer comes from a hidden real utility that falls between two thresholds of the
    question's scale; utilities depend on factors that the questions share (Tran, Phung and
    Venkatesh 2012). Scales may differ from column to column, and any answer may be missing.

    The defaults predict missing answers of surveys best: factors that are a matter of degree,
    response styles, and missing answers that are integrated over. :meth:`binary` has the plain
    binary factors of the paper, and :meth:`paper` the paper's learning procedure as well.

    Parameters
    ----------
    n_factors : int or None, default=None
        Number of hidden factors K. None means one per question, at most 50; more do not help here.
    nominal : list of columns, default=None
        Names or positions of columns whose answers have no order, such as a party; their
        categories are multinomial units.
    numeric : list of columns, default=None
        Columns that hold numbers, such as an income: Gaussian units, standardised, by normal
        scores where they are skewed. All other columns are ordered scales.
    background : list of columns, default=None
        Columns that are not questions, such as country, sex and age. They are neither predicted nor
        imputed, but the means of the factors and of the answers are linear in them. They are read
        by their type: numbers or categories, whose order counts for nothing; missing values are a
        category of their own. Numbers that are codes of groups are listed in ``nominal`` as well.
    scales : list, dict, ordered ``pandas.CategoricalDtype`` or None, default=None
        Levels from lowest to highest: one list for all columns, or a dict from column to list.
        The levels of other columns are read from the data: ordered categories as they are, numbers
        in ascending order; whole numbers share the levels of their battery, so that a level that
        nobody chose is still there.
    random_state : int, RandomState or None, default=None
        Seed of everything random. The same seed gives the same result on any number of threads.
    n_jobs : int or None, default=None
        Number of threads; None or -1 means all that Numba has.
    verbose : bool, default=False
        Whether to show a progress bar.

    Other Parameters
    ----------------
    units_per_factor : int, default=250
        Number of binary units with the same weights that make one factor. With one, this is the
        model of the paper. With many, a factor is nearly continuous: where people differ by degrees
        rather than by kind, as in personality tests, 250 units predict answers better at about the
        same cost. The model equals one in which each factor's weights are repeated that often.
    response_styles : int, default=9
        Number of ways in which people use a scale: some prefer its ends, some its middle. With 1,
        all use it alike, as in the paper. With more, each row has a style, a number that multiplies
        its thresholds; most surveys are predicted much better then. See :meth:`response_style`.
    unanswered : {"latent", "absent"}, default="latent"
        What a missing answer means. "latent": the question is part of that person's model, and its
        unknown answer is integrated over; right for surveys with gaps. "absent": it is not part of
        the model, as in the paper; right when most questions were never asked.
    inference : {"linear_response", "mean_field", "mcmc"}, default="linear_response"
        How factors are inferred from answers: "mean_field", a deterministic fixed point;
        "linear_response", the same with distributions widened by the uncertainty of the factors
        (better calibrated, same medians); or "mcmc", ``n_draws`` draws.
    n_draws : int, default=100
        Draws per row when ``inference="mcmc"``.
    background_decay : float, default=5.0
        Precision of the Gaussian prior on the effects of the background: the average of all counts
        about as much for a group as this number of its members.
    weight_decay : float, default=30.0
        Precision of the Gaussian prior on the weights: the larger, the smaller the weights.
    n_epochs : int, default=10
        Maximum number of passes over the data.
    learning_rate : float, default=0.0005
        Size of the first steps; it falls to zero along a cosine in the last epochs.
    batch_size : int, default=100
        Rows per update.
    validation_fraction : float, default=0.05
        Share of answers that is held out from learning, at most about 2,000 of them;
        their likelihood decides which epoch is kept. With 0, all answers are learnt from, for all
        epochs.
    patience : int, default=5
        After so many epochs without improvement, the learning rate begins to fall to zero, which
        takes 0.4 ``n_epochs``; then learning stops.
    schedule : {"cosine", "constant"}, default="cosine"
        Whether the learning rate falls to zero in the end. With "constant", learning stops after
        ``patience`` epochs without improvement.
    gibbs_steps : int, default=1
        Steps of each chain per update.
    free_phase : {"contrastive", "persistent"}, default="contrastive"
        Whether the free chains start from the clamped ones at each update, or continue.
    n_chains : int, default=100
        Number of persistent free chains when all rows are complete; otherwise one per row.
    solver : {"adam", "sgd"}, default="adam"
        Steps that adapt to each parameter, or plain steps along the mean gradient per row.
    centred : bool, default=True
        Whether weights are updated with factors measured from their mean, so that weights and
        biases do not compete.
    init : {"polychoric", "random"}, default="polychoric"
        Initial weights: those of a factor model of the polychoric correlations, or small random
        ones.
    biases : {"balanced", "zero"}, default="balanced"
        Initial biases: minus half the sum of the weights, so that factors that are on or off by
        chance do not shift the utility, or zero, as in the paper.
    thresholds : {"marginal", "even"}, default="marginal"
        Initial thresholds: the quantiles of each question's answers, or one apart.

    Attributes
    ----------
    components_, intercept_visible_, intercept_hidden_ : (K, N), (N,) and (K,) arrays
        Weights and biases: ``transform(X) @ components_ + intercept_visible_`` are the mean utilities
        (without background). A nominal question has a column for each of its categories.
    thresholds_ : dict from name or position to array
        The utilities at which the next level of each ordinal question begins, for people without a
        response style.
    model_ : VectorModel
        All parameters; weights are those of a single unit.
    population_ : Population
        Mean and covariance of the factors among the rows of the training data, in units; with
        background also ``regression``, their means by it, and ``residual``, the covariance within.
    scales_ : list of Scale
        Levels or categories of each column; None for numbers and background.
    questionnaire_ : Questionnaire
        What each column is.
    history_ : DataFrame
        Per epoch: pseudo-likelihood (mean log P(answer | other answers) of a sample of the training
        answers), held-out log-likelihood, learning rate, seconds (not kept in files), and for
        comparison the log-likelihood of an answer by the frequencies of its levels alone.
    best_epoch_ : int
        The epoch whose parameters were kept.
    n_iter_ : int
        Number of epochs that were run.
    about_ : dict
        Notes about the model, kept in its file: anything that JSON can hold. At first, the numbers
        of rows and answers, and what a survey file says of its columns.
    n_features_in_, feature_names_in_
        Number and, for data frames, names of the columns.

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> ratings = orbm.datasets.load_food_world_cup().iloc[:200]
    >>> model = orbm.CumulativeRBM(n_factors=5, n_epochs=3, random_state=0).fit(ratings)
    >>> model.transform(ratings).shape
    (200, 5)
    >>> bool(model.impute(ratings).notna().all(axis=None))
    True
    """

    _choices: ClassVar = {"solver": ("adam", "sgd")}

    def __init__(
        self,
        n_factors: int | None = None,
        *,
        nominal: ColumnList = None,
        numeric: ColumnList = None,
        background: ColumnList = None,
        scales: GivenScales = None,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        units_per_factor: int = 250,
        response_styles: int = 9,
        unanswered: Unanswered = "latent",
        inference: Inference = "linear_response",
        n_draws: int = 100,
        background_decay: float = _BACKGROUND_DECAY,
        weight_decay: float = 30.0,
        n_epochs: int = 10,
        learning_rate: float = 0.0005,
        batch_size: int = 100,
        validation_fraction: float = 0.05,
        patience: int = 5,
        schedule: RateSchedule = "cosine",
        gibbs_steps: int = 1,
        free_phase: FreePhase = "contrastive",
        n_chains: int = 100,
        solver: Solver = "adam",
        centred: bool = True,
        init: FirstWeights = "polychoric",
        biases: FirstBiases = "balanced",
        thresholds: FirstThresholds = "marginal",
    ) -> None:
        validation.keep_parameters(self, locals())

    # Learning

    @classmethod
    def binary(cls, n_factors: int = 50, **others: Any) -> Self:
        """The plain model of the paper, with binary factors, learnt by the default procedure.

        A factor is one unit, all rows use the scales alike, and missing answers are not part of the model.
        With ``n_factors <= 16``, likelihoods are exact. Other parameters may be given by name.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> orbm.CumulativeRBM.binary(8, random_state=0).units_per_factor
        1
        """
        own: dict[str, Any] = {
            "units_per_factor": 1,
            "response_styles": 1,
            "unanswered": "absent",
            "n_epochs": 40,
            "learning_rate": 0.01,
            "weight_decay": 10.0,
            "inference": "mean_field",
        }
        return cls(n_factors, **(own | others))

    @classmethod
    def paper(cls, n_factors: int = 50, **others: Any) -> Self:
        """The paper's model, :meth:`binary`, learnt by (nearly) the paper's procedure.

        Plain stochastic gradient with a constant rate from one contrastive step, without a prior on
        the weights, which start small and random; thresholds start evenly spaced. Unlike in the
        paper, biases start where they balance the weights (unless ``biases="zero"``), and held-out
        answers choose the epoch (unless ``validation_fraction=0``). docs/paper.md lists
        all differences and their effects. Other parameters may be given by name.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> orbm.CumulativeRBM.paper(20, random_state=0).solver
        'sgd'
        """
        own: dict[str, Any] = {
            "solver": "sgd",
            "learning_rate": 0.03,
            "schedule": "constant",
            "n_epochs": 100,
            "patience": 10,
            "weight_decay": 0.0,
            "centred": False,
            "init": "random",
            "thresholds": "even",
        }
        return cls.binary(n_factors, **(own | others))

    def fit(
        self,
        X: TableLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        every: str | int = "5 min",
        resume: bool = True,
        callback: Callback | None = None,
    ) -> Self:
        """Learn the parameters from a table of answers.

        Parameters
        ----------
        X : data frame (pandas, polars, Arrow, DuckDB, ...), array, sparse matrix or Survey
            A row per respondent and a column per question. NaN, None and pd.NA are unanswered; in a
            sparse matrix, so are cells that are not stored. A file is read with
            :func:`ordinalrbm.read_survey` first.
        y : ignored
        sample_weight : array-like, one non-negative number per row, optional
            Weight of each row, for instance a survey's design weight.
        checkpoint : path of a folder, optional
            Folder for checkpoints of the fit, made if needed. A fit that was killed continues from
            there when it is called again with the same data and settings, and ends with the same
            bits as one that was never stopped. A fit that has ended returns its model at once. If
            ``random_state`` is None, the seed is that of the checkpoint.
        every : str or int, default="5 min"
            How often a checkpoint is written, at the end of an epoch: a time such as "30 s",
            "5 min" or "1 h", or a number of epochs.
        resume : bool, default=True
            Whether to continue from an existing checkpoint. With False, a folder that has
            checkpoints is refused, so that none is overwritten.
        callback : function, optional
            Called after each epoch with its ``epoch`` (number), ``validation`` (log-likelihood of
            the held-out answers), ``learning_rate`` and ``seconds`` so far. When it returns True,
            learning ends and the best epoch so far is kept, as with Ctrl-C.

        Examples
        --------
        >>> import tempfile, numpy as np, ordinalrbm as orbm
        >>> X = np.array([[1, 1], [2, 2], [3, 3]] * 20)
        >>> model = orbm.CumulativeRBM(n_factors=2, n_epochs=2, random_state=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first = model.fit(X, checkpoint=folder, every=1).transform(X)
        ...     again = model.fit(X, checkpoint=folder).transform(X)  # at once
        >>> bool(np.array_equal(first, again))
        True
        >>> model.fit(X, callback=lambda line: line.epoch == 1).n_iter_
        1
        """
        validation.check_parameters(self)
        kinds: dict[str, Any] = {name: getattr(self, name) for name in ("nominal", "numeric", "background")}
        about: dict[str, Any] = {}
        if isinstance(X, Survey):
            survey = self._chosen(X)
            X, kinds = survey.table, survey.chosen.parameters
            about = survey.about | {"weighted": sample_weight is not None}
        with validation.as_before_if_failed(self):
            with Calls(callback) as calls, Checkpoints(checkpoint, every, resume) as checkpoints:
                seed = seed_from(self.random_state, stored=checkpoints.seed)
                # The table is released: only the answers in random order stay in memory.
                read, questionnaire = read_questionnaire(X, self.scales, **kinds)
                answers, weight = _in_random_order(read, sample_weight, seed)
                fitted = self._learn(answers, weight, seed, checkpoints)
            self._keep(questionnaire, answers, weight, fitted, about)
            self._learn_population(answers.observations, weight, seed)
        if fitted.interrupted and not calls.has_stopped:
            report_interruption(self.n_iter_, self.best_epoch_)
        return self

    def _keep(
        self,
        questionnaire: Questionnaire,
        answers: Encoded,
        weight: np.ndarray | None,
        fitted: Fitted,
        about: dict[str, Any],
    ) -> None:
        _check_feature_names(self, pd.DataFrame(columns=answers.names), reset=True)
        self.questionnaire_ = questionnaire
        self.scales_: list[Any] = list(questionnaire.scales)
        self.n_features_in_ = len(self.scales_)
        self.model_, self.best_epoch_ = fitted.model, fitted.best_epoch
        self.n_iter_, observations = len(fitted.history), answers.observations
        self.history_ = pd.DataFrame(fitted.history).assign(marginal=_marginal(observations, weight))
        self.about_: dict[str, Any] = {
            "rows": observations.n_rows,
            "answers": observations.n_entries,
            **about,
        }
        self._set_parameters()

    def _chosen(self, survey: Survey) -> Survey:
        """The survey with the columns that the parameters name, unless it has chosen some itself."""
        nominal, numeric, background = (
            list(() if own is None else own) for own in (self.nominal, self.numeric, self.background)
        )
        include = [name for name in (*nominal, *numeric) if name not in background]
        if survey.chosen.columns or not (include or background):
            return survey
        return survey.choosing(include, background)

    def _learn(
        self, answers: Encoded, weight: np.ndarray | None, seed: int, checkpoints: Checkpoints
    ) -> Fitted:
        observations = answers.observations
        n_factors = self.n_factors or min(MOST_FACTORS, observations.n_columns)
        memory.check(observations, n_factors, memory.available())
        if checkpoints.are_kept:
            weights = ("sample_weight", () if weight is None else (weight,))
            checkpoints.require_identity(identity_of(self, seed, observations, answers.scales, weights))
        settings = validation.settings_of(
            Settings, self, n_factors=n_factors, units=self.units_per_factor, seed=seed
        )
        with threads(self.n_jobs):
            return fit(observations, weight, settings, checkpoints)

    def summary(self) -> Summary:
        """What the model was learnt from, how learning went, and its strongest factors.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> X = np.array([[1, 1], [2, 2], [3, 3], [3, np.nan]] * 20)
        >>> model = orbm.CumulativeRBM(n_factors=1, n_epochs=2, random_state=0).fit(X)
        >>> print(model.summary().lines[0])
        CumulativeRBM with n_factors=1, learnt from 2 questions and 80 rows (88% answered).
        """
        check_is_fitted(self, "model_")
        return of_survey(self)

    def _set_parameters(self) -> None:
        model, known = self.model_, self.questionnaire_
        self.components_ = model.units * model.weights.T
        self.intercept_visible_, self.intercept_hidden_ = model.bias, model.factor_bias
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        ordinal = [(i, j) for i, j in enumerate(known.questions) if known.kinds[j] == "ordinal"]
        bounds, levels = model.thresholds[model.layout.first[:-1]], model.n_levels
        self.thresholds_ = {names[j]: bounds[i, 1 : levels[i]] for i, j in ordinal}

    # Predictions

    def transform(
        self, X: TableLike, *, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Posterior probability of each factor for each row, (n, K).

        These are the model's own factors; see :meth:`scores` for rotated ones.

        Parameters
        ----------
        X : table, as in :meth:`fit`
        return_std : bool, default=False
            Whether to return posterior standard deviations of the factors as well, as shares of a
            factor's units.

        Returns
        -------
        probability : (n, K) array, or (probability, std)
        """
        this = self._side(self._read(X))
        units = np.float32(self.model_.units)
        with threads(self.n_jobs):
            if not return_std:
                return self._factors(this) / units
            mean, std = self._factor_moments(this)
        return mean.astype(np.float32) / units, std.astype(np.float32) / units

    def response_style(self, X: TableLike) -> np.ndarray:
        """How each row uses the scales, (n,): below zero their ends, above zero their middle.

        This is the expected logarithm of the number that multiplies the row's thresholds; zero for
        all rows when ``response_styles=1``.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> rng = np.random.default_rng(0)
        >>> middle, ends = rng.integers(2, 5, (60, 8)), rng.choice([1, 5], (60, 8))
        >>> X = np.vstack([middle, ends])
        >>> model = orbm.CumulativeRBM(3, response_styles=9, n_epochs=5, random_state=0).fit(X)
        >>> style = model.response_style(X)
        >>> bool(style[:60].mean() > style[60:].mean())
        True
        """
        this = self._side(self._read(X))
        stretch = np.log(self.model_.stretches)
        style = np.zeros(this.n_rows)
        with threads(self.n_jobs):
            for rows, part in self._blocks(this):
                style[rows] = posterior.mean_field(self.model_, part).style_weights @ stretch
        return style

    def predict_proba(self, X: TableLike) -> list[np.ndarray]:
        """Distribution of every answer given the row's answers: one (n, L_i) array per column.

        An answer that is given is taken into account in its own column, too. For a nominal column,
        the array has the probabilities of the categories in the order of ``scales_``; for a column
        of numbers, (n, 2), the mean and the standard deviation. For background it is None.
        """
        observations = self._read(X)
        known = self.questionnaire_
        found: list[Any] = [None] * self.n_features_in_
        for j in known.questions:
            scale = self.scales_[j]
            found[j] = np.empty((observations.n_rows, 2 if scale is None else scale.n_levels))
        for rows, cube in self._cubes(observations):
            for i, j in enumerate(known.questions):
                found[j][rows] = cube[:, i, : found[j].shape[1]]
        for j, number in known.numbers.items():
            found[j] = np.stack(number.moments(*found[j].T), axis=1)
        return found

    def predict(self, X: TableLike, rule: Rule = "median") -> TableLike:
        """One prediction per cell, in the type of table that X is (a data frame for a Survey).

        Parameters
        ----------
        X : table
            As in :meth:`fit`. Columns that a data frame lacks are unanswered, here and in all
            methods; they are predicted like the others.
        rule : {"median", "mode", "mean"}, default="median"
            The median has the smallest absolute error, the mode the most hits. The mean has the
            smallest squared error and is a number: the mean of the levels' own values if these are
            numbers, otherwise of their positions 1..L. For categories, the prediction is always
            the most likely one; for numbers it is the mean, or the median with the other rules
            (they differ if numbers are skewed). Background is returned as it is. With the mean, a
            model of nothing but scales returns an array, whatever X is.
        """
        validation.check_choice("rule", rule, ("median", "mode", "mean"))
        table = self._widened(self._given(X))
        observations = self._read(table)
        points = np.empty((observations.n_rows, observations.n_columns))
        for rows, cube in self._cubes(observations):
            for i, j in enumerate(self.questionnaire_.questions):
                points[rows, i] = self.questionnaire_.point(j, cube[:, i], rule)
        if rule == "mean" and self.questionnaire_.is_plain:
            return points
        return self.questionnaire_.decode(points, table, are_means=rule == "mean")

    def impute(
        self,
        X: TableLike,
        rule: Literal["median", "mode"] = "median",
        *,
        n_draws: int | None = None,
        parameters: Literal["drawn", "fixed"] = "drawn",
        delta: float | Mapping[Any, float] = 0.0,
        stacked: bool = False,
        groups: TableLike | None = None,
        fill_never_asked: bool = False,
        sample_weight: ArrayLike | None = None,
        random_state: RandomState = None,
    ) -> TableLike:
        """X with the missing answers filled in; given answers stay.

        Parameters
        ----------
        X : table
            As in :meth:`fit`. Columns that a data frame lacks are unanswered, and not returned:
            the result has the columns of X. (:meth:`predict` returns all.)
        rule : {"median", "mode"}, default="median"
            The level in the middle of the distribution, which has the smallest absolute error, or
            the most likely one, which is right most often. Categories without an order are filled
            with the most likely one, numbers with their mean (rounded in a column of integers);
            background is returned as it is.
        n_draws : int, optional
            For multiple imputation: return a list of this many tables whose gaps are random draws
            instead; 20 are usual. Analyse each, and combine the results with
            :func:`ordinalrbm.pool`.
        parameters : {"drawn", "fixed"}, default="drawn"
            Parameters for random draws. "drawn": each table has its own, from their posterior given X,
            which should be the table that the model was fitted on: thresholds, effects of the
            background and all correlations of the utilities behind the answers, which are normal.
            They are not shrunk as those of the model are, and intervals are right. "fixed": the
            model's, as if they were known; for new rows, and when neither matters.
        delta : float or dict from column to float, default=0
            How much higher the utilities of missing answers are than of given ones with the same
            other answers, in standard deviations of the question's utility: to see how much results
            depend on answers being missing at random. A single number is for all scales and numbers.
        stacked : bool, default=False
            Whether to return draws as one table, below each other, with a first column
            ``Imputation_`` that counts them; 0 is X itself with its gaps, as in SPSS.
        groups : Series, array or data frame with the rows of X, optional
            Groups of people, such as countries. A question that a group was never asked (see
            :func:`ordinalrbm.never_asked`) is not filled there, with a warning. By default, groups
            are those of the survey file that X comes from (`read_survey`), or else the nominal,
            numeric and background columns of X.
        fill_never_asked : bool, default=False
            Whether to fill such questions too, without a warning.
        sample_weight : array-like, one number per row, optional
            Weights of the rows when parameters are drawn, if the model was fitted with weights.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        table of the type of X, or a list of ``n_draws`` of them

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> X = np.array([[1, 1], [2, 2], [3, 3], [3, np.nan]] * 20, dtype=float)
        >>> model = orbm.CumulativeRBM(n_factors=2, n_epochs=5, random_state=0).fit(X)
        >>> len(model.impute(X, n_draws=5, random_state=1))
        5
        """
        validation.check_choice("rule", rule, ("median", "mode"))
        validation.check_choice("parameters", parameters, ("drawn", "fixed"))
        if n_draws is not None:
            validation.check_whole("n_draws", n_draws, 1)
        elif stacked:
            raise DataError("Only draws can be stacked; give n_draws, for example 20, or leave it out.")
        own = self._given(X)
        table = self._widened(own)
        observations = self._read(table, exactly=True)  # given answers must come back as they are
        known, levels = self.questionnaire_, observations.to_dense()
        gaps = levels < 0
        if groups is None and isinstance(X, Survey):
            groups = X.background if X.background.shape[1] else None
        elif groups is None:
            groups = groups_in(table, [j for j, kind in enumerate(known.kinds) if kind != "ordinal"])
        if groups is not None and not fill_never_asked:
            gaps &= ~cells_to_leave(table, groups, known.questions)

        shift = self._deltas(delta)
        given = known.given(table, levels)

        def decoded(points: np.ndarray) -> TableLike:
            found = known.decode(points, table, rounded=True)
            return frame_of(found, "X").with_names(own.names or ()) if own is not table else found

        def filled(values: np.ndarray) -> TableLike:
            complete = given.copy()  # tables of some libraries are views of it
            complete[gaps] = values
            return decoded(complete)

        cells = prediction.chosen_cells(gaps)
        with threads(self.n_jobs):
            shifted = self._shifted(shift, observations.covariates) if shift.any() else self.model_
            if n_draws is None:
                points = [np.zeros(0)]
                for rows, part in self._distributions(self._side(observations), cells, shifted):
                    points.append(known.points(part, cells.of_rows(rows.start, rows.stop).column, rule))
                return filled(np.concatenate(points))
            seed = seed_from(random_state)
            if parameters == "fixed":
                draws = sampling.gaps(self.model_, self._side(observations), cells, n_draws, seed, shifted)
            else:
                names = [table.name(j) for j in known.questions]
                weight = _weights_to_draw_by(observations, sample_weight, names)
                draws = sampling.posterior_gaps(
                    observations, weight, cells, shift, n_draws, seed, verbose=self.verbose
                )
            imputed = [filled(known.restore(values, cells.column)) for values in draws]
        return stack([decoded(given), *imputed]) if stacked else imputed

    def _deltas(self, delta: float | Mapping[Any, float]) -> np.ndarray:
        """(questions,) shift of the utilities of missing answers, in standard deviations."""
        names, kind = getattr(self, "feature_names_in_", range(self.n_features_in_)), self.model_.layout.kind
        own = [names[j] for j in self.questionnaire_.questions]
        shiftable = [name for name, own_kind in zip(own, kind, strict=True) if own_kind != NOMINAL]
        given: Mapping[Any, Any] = delta if isinstance(delta, Mapping) else dict.fromkeys(shiftable, delta)
        for name, value in given.items():
            if name not in shiftable:
                raise DataError(
                    f"{name!r} in delta is no column of levels or numbers of this model; leave it out."
                )
            if not isinstance(value, Real) or not np.isfinite(float(value)):
                raise DataError(
                    f"The delta of {name!r} must be a finite number, such as -0.5. Got {value!r}."
                )
        return np.array([float(given.get(name, 0.0)) for name in own])

    def _shifted(self, shift: np.ndarray, covariates: np.ndarray) -> VectorModel:
        """The model with utilities shifted by so many of their standard deviations among people."""
        model = self.model_
        weights = model.weights.astype(np.float64)
        variance = 1.0 + ((weights @ self._population().covariance) * weights).sum(axis=1)
        if model.n_covariates:
            variance += (covariates @ model.slopes.T).var(axis=0)
        added = shift[model.layout.question] * np.sqrt(variance)
        return model._replace(bias=(model.bias + added).astype(np.float32))

    def score(self, X: TableLike, y: object = None) -> float:
        """Mean log P(answer | the row's other answers); larger is better.

        Each answer is predicted from nine tenths of the others of its row, in ten rounds. A level of the
        battery that nobody chose in a question when the model was fitted counts as the nearest level of that
        question, with a warning, unless ``scales`` were given. Numbers count with the logarithm of their
        density, on the scale of standard deviations (or of the normal scores of skewed ones).
        """
        observations = self._read(X)
        if observations.n_entries == 0:
            raise DataError("There is no answer to score; give rows with at least one answer.")
        rounds = self._given_the_others(observations)
        total = sum(prediction.log_probability(self.model_, found, part).sum() for _, part, found in rounds)
        return float(total / observations.n_entries)

    def _given_the_others(
        self, observations: Observations
    ) -> Iterator[tuple[slice, prediction.Cells, np.ndarray]]:
        """Distributions of all answers, each given nine tenths of its row's others, in ten rounds."""
        row = np.repeat(np.arange(observations.n_rows), np.diff(observations.row_start))
        draw = uniforms(0, row, observations.column, 0, Purpose.ANSWER, 0)
        fold = np.floor(draw * _SCORE_FOLDS).astype(np.int8)
        with threads(self.n_jobs):
            for hidden in (fold == f for f in range(_SCORE_FOLDS)):
                cells = prediction.cells_of(observations.select(hidden))
                for rows, found in self._distributions(self._side(observations.select(~hidden)), cells):
                    yield rows, cells.of_rows(rows.start, rows.stop), found

    def log_likelihood(
        self,
        X: TableLike,
        method: Literal["exact", "ais"] = "exact",
        *,
        n_temperatures: int = 500,
        n_chains: int = 32,
        return_std: bool = False,
        random_state: RandomState = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Log P(v) of each row.

        Parameters
        ----------
        X : table, as in :meth:`fit`
        method : {"exact", "ais"}, default="exact"
            Enumeration of all states of the factors (n_factors <= 16), or an estimate by annealed
            importance sampling.
        n_temperatures, n_chains : int, default=500 and 32
            Length and number of the annealing runs per row; more give a better estimate.
        return_std : bool, default=False
            Whether to return the standard errors as well (zero when exact).
        random_state : int, RandomState or None, default=None
            Seed of the annealing runs.

        Returns
        -------
        value : (n,) array, or (value, standard_error)
        """
        validation.check_choice("method", method, ("exact", "ais"))
        validation.check_whole("n_temperatures", n_temperatures, 1)
        validation.check_whole("n_chains", n_chains, 2)
        this = self._side(self._read(X))
        with threads(self.n_jobs):
            if method == "exact":
                estimate = likelihood.exact(self.model_, this)
            else:
                seed = seed_from(random_state)
                estimate = likelihood.annealed(
                    self.model_, this, seed, n_temperatures=n_temperatures, n_chains=n_chains
                )
        return (estimate.value, estimate.standard_error) if return_std else estimate.value

    # Samples

    def sample(
        self, n: int = 1, *, n_steps: int = sampling.FREE_STEPS, random_state: RandomState = None
    ) -> pd.DataFrame | np.ndarray:
        """Draw rows from the model: a DataFrame if it was fitted on a data frame, else an array.

        The rows have an average background, which is left empty.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        n_steps : int, default=500
            Gibbs steps before each row is drawn.
        random_state : int, RandomState or None, default=None
            Seed of the draws.
        """
        check_is_fitted(self, "model_")
        validation.check_whole("n", n, 1)
        validation.check_whole("n_steps", n_steps, 1, 2**16)
        seed = seed_from(random_state)
        with threads(self.n_jobs):
            levels = sampling.rows(self.model_, n, seed, n_steps)
        like: TableLike = np.full((n, self.n_features_in_), np.nan)
        if hasattr(self, "feature_names_in_"):  # text is ordered, because it may look like numbers
            columns = {
                name: np.full(n, np.nan)
                if scale is None or scale.is_numeric
                else pd.Categorical([None] * n, list(scale.labels), ordered=True)
                for name, scale in zip(self.feature_names_in_, self.scales_, strict=True)
            }
            like = pd.DataFrame(columns)
        points = self.questionnaire_.restore(levels, np.arange(levels.shape[1]))
        return self.questionnaire_.decode(points, as_table(like))

    def sample_factors(
        self, X: TableLike, *, n_chains: int = 4, n_draws: int = 500, random_state: RandomState = None
    ) -> Any:
        """Posterior draws of the factors as an ArviZ object, to diagnose the chains.

        Needs ArviZ: ``pip install 'ordinalrbm[diagnostics]'``. Give few rows: all draws are kept in memory.

        Parameters
        ----------
        X : table, as in :meth:`fit`
        n_chains, n_draws : int, default=4 and 500
            Number of chains, and of draws from each.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        arviz.InferenceData (or DataTree)
            Variable ``factors`` with dimensions chain, draw, row, factor.
        """
        this = self._side(self._read(X))
        validation.check_whole("n_chains", n_chains, 1)
        validation.check_whole("n_draws", n_draws, 1)
        seed = seed_from(random_state)
        with threads(self.n_jobs):
            draws = posterior.chains(self.model_, this, n_chains, n_draws, seed)
        return validation.to_arviz({"factors": draws}, {"factors": ["row", "factor"]})

    # Files

    def save(self, path: str | os.PathLike) -> None:
        """Write the model to a file, which contains no code; :func:`ordinalrbm.load` reads it."""
        check_is_fitted(self, "model_")
        validation.check_parameters(self)
        arrays, learning = kept_learning(self)
        arrays |= {
            name: getattr(self.model_, name)
            for name in ARRAYS
            if name not in OPTIONAL or getattr(self.model_, name).size
        }
        arrays |= self._kept_population()
        parameters = plain_parameters(self) | {"scales": None}  # these are stored apart
        is_plain, names = self.questionnaire_.is_plain, getattr(self, "feature_names_in_", None)
        if is_plain and self.background_decay == _BACKGROUND_DECAY:  # as in older files
            for name in ("nominal", "numeric", "background", "background_decay"):
                parameters.pop(name)
        header = {
            "model": "vector",
            "parameters": parameters,
            "units": self.model_.units,
            "scales": [None if scale is None else scale.to_json() for scale in self.scales_],
            "columns": None if names is None else [str(name) for name in names],
            "scales_given": self.scales is not None,
            **learning,
        }
        if not is_plain:
            header["kinds"] = self.questionnaire_.to_json()
        model_file.save(path, arrays, header)

    @classmethod
    def _from_file(cls, stored: Stored) -> Self:
        estimator = restored(cls, stored)
        estimator.questionnaire_ = known = Questionnaire.from_stored(stored)
        estimator.scales_ = list(known.scales)
        estimator.n_features_in_ = len(estimator.scales_)
        estimator.model_ = VectorModel.from_stored(stored, known.n_levels, known.kind, known.n_covariates)
        estimator._restore_population(stored)
        names = _read_names(stored, estimator.n_features_in_)
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator._set_parameters()
        estimator.scales = None
        if stored.entry("scales_given", bool):  # so that a clone can learn again
            every = zip(names or range(len(known.scales)), known.scales, strict=True)
            estimator.scales = {name: scale.to_json() for name, scale in every if scale is not None}
        return estimator

    # scikit-learn

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.non_deterministic = False
        tags.transformer_tags.preserves_dtype = []  # factors are float32, whatever X is
        return tags

    # Inside

    def _given(self, X: TableLike) -> Table:
        """X as a table, for which a lazy frame is collected; a survey with the columns of the model."""
        check_is_fitted(self, "model_")
        if isinstance(X, Survey):
            X = X.aligned_to(column_names(self), self.questionnaire_).table.to_frame(X.background.index)
        return as_table(X)

    def _widened(self, table: Table) -> Table:
        """A data frame that has only some columns of the model with the others, which are empty."""
        names, there = list(getattr(self, "feature_names_in_", ())), set(table.names or ())
        if table.kind != "frame" or not there or not there < set(names):
            return table
        of_background = np.array(self.questionnaire_.kinds) == "background"
        lacking = [name for name in np.array(names, dtype=object)[of_background] if name not in there]
        if lacking:
            warnings.warn(
                f"X lacks the background column {lacking[0]!r}, by which answers and factors differ: "
                "everybody counts as average in it; add it, empty where nothing is known.",
                stacklevel=user_stacklevel(),
            )
        return as_table(table.source.with_names(names))

    def _read(self, X: TableLike, *, exactly: bool = False) -> Observations:
        """Answers of a table that must have columns of the model, and no others."""
        table = self._widened(self._given(X))
        validation.check_parameters(self)  # some are read here, and may have been set after learning
        try:
            _check_feature_names(self, pd.DataFrame(columns=table.names), reset=False)
        except ValueError as error:  # in scikit-learn's words, which its estimator checks expect
            raise DataError(str(error)) from error
        if table.n_columns != self.n_features_in_:
            raise DataError(
                f"X has {table.n_columns} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input; give the columns it was fitted on."
            )
        # Scales that were given are meant so; others may lack a level by chance.
        return self.questionnaire_.encode(table, nearest=self.scales is None and not exactly)

    def _side(self, observations: Observations) -> Side:
        return side(self.model_, observations, self.unanswered)

    def _factors(self, this: Side) -> np.ndarray:
        if self.inference == "mcmc":
            return posterior.sampled(self.model_, this, self.n_draws, self._inference_seed())
        factors = np.empty((this.n_rows, self.model_.n_factors), dtype=np.float32)
        for rows, _, found in self._mean_fields(this):
            factors[rows] = found.factors
        return factors

    def _blocks(self, this: Side) -> Iterator[tuple[slice, Side]]:
        per_row = max(1, self.model_.bias.size * int(self.model_.n_levels.max(initial=1)))
        size = min(_ROWS_AT_ONCE, max(1, _NUMBERS_AT_ONCE // per_row))
        for start in range(0, this.n_rows, size):
            stop = min(start + size, this.n_rows)
            yield slice(start, stop), this.rows(start, stop)

    def _mean_fields(self, this: Side) -> Iterator[tuple[slice, Side, posterior.Posterior]]:
        """Mean-field posteriors of blocks of rows; warns in the end if some did not converge."""
        n_unconverged, change = 0, 0.0
        for rows, part in self._blocks(this):
            found = posterior.mean_field(self.model_, part)
            yield rows, part, found
            n_unconverged += found.n_unconverged
            change = max(change, float(found.change.max(initial=0.0)))
        if n_unconverged:
            warnings.warn(
                f"Mean-field did not settle within {posterior.MAX_ITERATIONS} iterations for "
                f"{n_unconverged} of {this.n_rows} rows (largest change of a factor's "
                f"probability {change:.2g}); set inference='mcmc' for them.",
                ConvergenceWarning,
                stacklevel=user_stacklevel(),
            )

    def _distributions(
        self, this: Side, cells: prediction.Cells, shifted: VectorModel | None = None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Distributions of cells, block by block, if their answers are given by the ``shifted`` model."""
        model = shifted or self.model_
        if self.inference == "mcmc":  # chains of all rows, whose draws are numbered by row
            draws = posterior.draws(self.model_, this, self.n_draws, self._inference_seed())
            yield slice(0, this.n_rows), prediction.probabilities(model, draws, cells)
            return
        widened = self.inference == "linear_response"
        for rows, part, found in self._mean_fields(this):
            asked = cells.of_rows(rows.start, rows.stop)
            yield rows, prediction.mixed(model, part, found, asked, widened=widened)

    def _cubes(self, observations: Observations) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, columns, L): distributions of all cells, block by block."""
        n_columns = observations.n_columns
        cells = prediction.all_cells(observations.n_rows, n_columns)
        with threads(self.n_jobs):
            for rows, flat in self._distributions(self._side(observations), cells):
                yield rows, flat.reshape(-1, n_columns, flat.shape[1])

    def _inference_seed(self) -> int:
        return int(self.random_state) if isinstance(self.random_state, Integral) else 0


def _in_random_order(
    answers: Encoded, sample_weight: ArrayLike | None, seed: int
) -> tuple[Encoded, np.ndarray | None]:
    """Rows in the order of learning, and their weights: batches are neighbouring rows, and files are
    often sorted.
    """
    observations = answers.observations
    weight = validation.check_weights(sample_weight, observations.n_rows)
    order = np.random.default_rng(seed).permutation(observations.n_rows)
    if weight is not None:
        order = order[weight[order] > 0]  # a row without weight does not count
        weight = weight[order]
    return replace(answers, observations=observations.take_rows(order)), weight


def _marginal(answers: Observations, weight: np.ndarray | None) -> float:
    """Mean log-likelihood of an answer by the frequencies of its question's levels alone."""
    cells = prediction.cells_of(answers)
    found = marginal_of_answers(answers, weight, cells.column, cells.level)
    if answers.kind.size:  # numbers are standard normal
        found = np.where(answers.kind[cells.column] == NUMERIC, norm.logpdf(cells.value), found)
    return float(np.average(found, weights=weight_of_answers(answers, weight))) if found.size else np.nan


def _read_names(stored: Stored, n_columns: int) -> list[str] | None:
    names = stored.entry("columns", list, None)
    if names is None:
        return None
    if not all(isinstance(name, str) for name in names) or not len(set(names)) == len(names) == n_columns:
        raise DataError("its columns do not have a name each")
    return names


def _weights_to_draw_by(
    observations: Observations, sample_weight: ArrayLike | None, names: Sequence[str | int]
) -> np.ndarray | None:
    """Row weights for drawing parameters; raises where a table has too few answers for that."""
    weight = validation.check_weights(sample_weight, observations.n_rows)
    counts = observations.row_counts > 0
    n_rows = int((counts if weight is None else counts & (weight > 0)).sum())
    remedy = "give the table that the model was fitted on, or parameters='fixed'."
    if n_rows < sampling.FEWEST_ROWS:
        raise DataError(
            f"X has {n_rows} rows with answers, too few to draw parameters from (at least "
            f"{sampling.FEWEST_ROWS}); {remedy}"
        )
    unanswered = np.flatnonzero(observations.column_counts == 0)
    if unanswered.size:
        raise DataError(
            f"Column {names[unanswered[0]]!r} has no answers in X to draw its parameters from; {remedy}"
        )
    return weight

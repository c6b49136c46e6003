"""The scikit-learn face of the vector model: tables of ordered answers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from ordinalrbm.data import never_asked as asking
from ordinalrbm.data import tables
from ordinalrbm.data.answers import NUMERIC, Answers
from ordinalrbm.data.frames import Frame, as_frame, below_each_other, collected, frame_of
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import Questionnaire, read_questionnaire
from ordinalrbm.data.tables import IMPUTATION, Encoded
from ordinalrbm.engine import memory
from ordinalrbm.engine.philox import Purpose, uniforms
from ordinalrbm.engine.side import Side
from ordinalrbm.errors import DataError, user_stacklevel
from ordinalrbm.estimators import survey
from ordinalrbm.estimators.factor_analysis import ReadableFactors
from ordinalrbm.estimators.persistence import kept_learning, plain_parameters, restored
from ordinalrbm.estimators.validation import (
    check_choice,
    check_parameters,
    check_weights,
    check_whole,
    keep_parameters,
    settings_of,
    to_arviz,
)
from ordinalrbm.runtime.threads import report_interruption, seed_from, threads
from ordinalrbm.stats.point_estimates import Rule, point
from ordinalrbm.storage import model_file
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training.checkpoint import Checkpoints
from ordinalrbm.training.identity import identity_of
from ordinalrbm.vector import likelihood, posterior
from ordinalrbm.vector import predict as prediction
from ordinalrbm.vector import sample as sampling
from ordinalrbm.vector.learner import Fitted, Settings, fit
from ordinalrbm.vector.model import ARRAYS, OPTIONAL, VectorModel, side

# An answer is scored given nine tenths of the others: each tenth is hidden once.
_SCORE_FOLDS = 10
# Probabilities that are held at a time, and rows: what is made of them is smaller.
_NUMBERS_AT_ONCE, _ROWS_AT_ONCE = 2**22, 2**14

# More factors than this say no more of a survey, however many questions it has.
MOST_FACTORS = 50
_BACKGROUND_DECAY = 5.0


class CumulativeRBM(ReadableFactors, TransformerMixin, BaseEstimator):
    """Cumulative Restricted Boltzmann Machine for tables of ordered answers.

    Every answer comes from a hidden real utility that falls between two thresholds of the
    question's scale; utilities meet in factors that the questions share (Tran, Phung and
    Venkatesh 2012). Scales may differ from column to column, and any answer may be missing.

    The defaults are those that predict missing answers of surveys best: factors that are a matter
    of degree, response styles, and missing answers integrated over. :meth:`binary` has the plain
    binary factors of the paper, and :meth:`paper` the paper's learning procedure as well.

    Parameters
    ----------
    n_factors : int or None, default=None
        Number of hidden factors K. None: one per question, at most 50; more are of no use here.
    units_per_factor : int, default=250
        How many binary units with the same weights make one factor. One is the model of the paper.
        With many, a factor is nearly continuous: where people differ by degrees rather than by
        kind, as in personality tests, 250 units predict answers better at about the same cost.
        Equals a model with each factor's weights repeated that often.
    response_styles : int, default=9
        In how many ways people use a scale: some go to its ends, some keep to the middle. With
        one, all use it alike, as in the paper's model of vectors. With 9, say, each row has a
        style, a number that its thresholds are multiplied by; most surveys are predicted much
        better so. See :meth:`response_style`.
    unanswered : {"latent", "absent"}, default="latent"
        What a missing answer means. "latent": the question is part of that person's model with
        an answer nobody knows, which is integrated over; right for surveys with gaps. "absent": it
        is not part of it, as in the paper; right when most questions were never asked.
    scales : None, list, or dict, default=None
        Levels from lowest to highest: one list for all columns, or a dict from column to list.
        Columns not given are read from the data: ordered categories as they are, numbers ascending;
        whole numbers share the levels of their battery, so that one nobody gave is still there.
    nominal : list of columns, default=None
        Names or positions of columns whose answers have no order, such as a party: their
        categories are multinomial units.
    numeric : list of columns, default=None
        Columns that hold numbers, such as an income: Gaussian units, standardised, by normal
        scores where they are skewed. All other columns are ordered scales.
    background : list of columns, default=None
        Columns that are no questions, such as country, sex and age. They are not predicted nor
        filled, but the means of the factors and of the answers are linear in them. They are read
        by their type: numbers, text (categories), ordered categories; what is missing has a
        category of its own. Numbers that are codes of groups are listed in ``nominal`` as well.
    background_decay : float, default=5.0
        Precision of the Gaussian prior on how background moves answers and factors: about as many
        people of a group count for the average of all as it says.
    n_epochs : int, default=10
        Passes over the data at most.
    batch_size : int, default=100
        Rows per update.
    learning_rate : float, default=0.0005
        Size of the first steps; it falls to zero along a cosine in the last epochs.
    gibbs_steps : int, default=1
        Steps of each chain per update.
    free_phase : {"contrastive", "persistent"}, default="contrastive"
        Whether the free chains start from the clamped ones at each update, or go on by themselves.
    n_chains : int, default=100
        Number of persistent free chains when all rows are complete; otherwise one per row.
    weight_decay : float, default=30.0
        Precision of the Gaussian prior on the weights: the larger, the smaller the weights.
    validation_fraction : float, default=0.05
        Share of answers that is hidden while learning (of the first 4,000 rows in random order);
        their likelihood decides which epoch is kept. 0 learns from all answers, for all epochs.
    patience : int, default=5
        After so many epochs without a better one, the learning rate begins to fall to zero, which
        takes 0.4 ``n_epochs``; then learning stops.
    solver : {"adam", "sgd"}, default="adam"
        Steps that adapt to each parameter, or plain steps along the mean gradient per row.
    centred : bool, default=True
        Whether factors are measured from their middle when weights move, so that a weight and the
        bias do not fight.
    init : {"polychoric", "random"}, default="polychoric"
        Weights to start from: those of a factor model of the polychoric correlations, or small
        random ones.
    biases : {"balanced", "zero"}, default="balanced"
        Where biases start: at minus half the sum of the weights, so that factors that are on or off
        by chance do not shift the utility, or at zero, as in the paper.
    thresholds : {"marginal", "even"}, default="marginal"
        Where thresholds start: at the quantiles of each question's answers, or one apart.
    schedule : {"cosine", "constant"}, default="cosine"
        Whether the learning rate falls to zero in the end. If not, learning breaks off after
        ``patience`` epochs without a better one.
    inference : {"linear_response", "mean_field", "mcmc"}, default="linear_response"
        How factors are inferred from answers: "mean_field", a deterministic fixed point;
        "linear_response", the same with distributions widened by the uncertainty of the factors
        (better calibrated, same medians); or "mcmc", ``n_draws`` draws.
    n_draws : int, default=100
        Draws per row when ``inference="mcmc"``.
    random_state : int, RandomState or None, default=None
        Seed of everything random. The same seed gives the same result on any number of threads.
    n_jobs : int or None, default=None
        Threads; None or -1 means all that Numba has.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    model_ : VectorModel
        The parameters.
    population_ : Population
        Mean and covariance of the factors among the rows that were learnt from, in units.
    scales_ : list of Scale
        Levels of each column, or its categories; None of numbers and background.
    questionnaire_ : Questionnaire
        What each column is.
    history_ : DataFrame
        Per epoch: pseudo-likelihood (mean log P(answer | other answers) of a sample of the training
        answers), held-out log-likelihood, learning rate, seconds (which files do not keep).
    best_epoch_ : int
        The epoch whose parameters were kept.
    n_iter_ : int
        Epochs that were run.
    about_ : dict
        Notes of whoever made the model, kept in its file: anything that JSON can hold.
    n_features_in_, feature_names_in_
        Number and, for frames, names of the columns.

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
        units_per_factor: int = 250,
        response_styles: int = 9,
        unanswered: str = "latent",
        scales: Any = None,
        nominal: Any = None,
        numeric: Any = None,
        background: Any = None,
        background_decay: float = _BACKGROUND_DECAY,
        n_epochs: int = 10,
        batch_size: int = 100,
        learning_rate: float = 0.0005,
        gibbs_steps: int = 1,
        free_phase: str = "contrastive",
        n_chains: int = 100,
        weight_decay: float = 30.0,
        validation_fraction: float = 0.05,
        patience: int = 5,
        solver: str = "adam",
        centred: bool = True,
        init: str = "polychoric",
        biases: str = "balanced",
        thresholds: str = "marginal",
        schedule: str = "cosine",
        inference: str = "linear_response",
        n_draws: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())

    # Learning

    @classmethod
    def binary(cls, n_factors: int = 50, **others: Any) -> CumulativeRBM:
        """The plain model of the paper, with binary factors, learnt by our procedure.

        A factor is one unit, everybody uses the scales alike, and a missing answer is no part of
        the model. With ``n_factors <= 16``, likelihoods are exact. Other parameters may be given
        by name.

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
    def paper(cls, n_factors: int = 50, **others: Any) -> CumulativeRBM:
        """The paper's model, :meth:`binary`, learnt by (nearly) the paper's procedure.

        Plain stochastic gradient with a constant rate from one contrastive step, no prior on the
        weights; these start small and random, thresholds evenly spaced. Not in the paper: biases
        start where they balance the weights (``biases="zero"`` takes that away), and held-out
        answers choose the epoch (``validation_fraction=0``). All departures, and what they are
        worth: docs/research-start.md. Other parameters may be given by name.

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
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        every: str | int = "5 min",
        resume: bool = True,
    ) -> CumulativeRBM:
        """Learn the parameters from a table of answers.

        Parameters
        ----------
        X : DataFrame (pandas, polars, Arrow, DuckDB), array or sparse matrix, rows by columns
            NaN, None or pd.NA is unanswered; in a sparse matrix, what is not stored.
        y : ignored
        sample_weight : array-like, one non-negative number per row, optional
            How much each row counts, for instance a survey's design weight.
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
        >>> import tempfile, numpy as np, ordinalrbm as orbm
        >>> X = np.array([[1, 1], [2, 2], [3, 3]] * 20)
        >>> model = orbm.CumulativeRBM(n_factors=2, n_epochs=2, random_state=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first = model.fit(X, checkpoint=folder, every=1).transform(X)
        ...     again = model.fit(X, checkpoint=folder).transform(X)  # at once
        >>> bool(np.array_equal(first, again))
        True
        """
        check_parameters(self)
        with Checkpoints(checkpoint, every, resume) as checkpoints:
            seed = seed_from(self.random_state, stored=checkpoints.seed)
            # What was read is let go of: only the answers in random order stay in memory.
            read, questionnaire = read_questionnaire(
                X, self.scales, self.nominal, self.numeric, self.background
            )
            answers, weight = _in_random_order(read, sample_weight, seed)
            fitted = self._learn(answers, weight, seed, checkpoints)
        _check_feature_names(self, _header(answers), reset=True)
        self.questionnaire_ = questionnaire
        self.scales_: list[Any] = list(questionnaire.scales)
        self.n_features_in_ = len(self.scales_)
        self.model_, self.best_epoch_ = fitted.model, fitted.best_epoch
        self.n_iter_, self.history_ = len(fitted.history), pd.DataFrame(fitted.history)
        self.about_: dict[str, Any] = {}
        self._learn_population(answers.observations, weight, seed)
        if fitted.interrupted:
            report_interruption(self.n_iter_, self.best_epoch_)
        return self

    def _learn(
        self, answers: Encoded, weight: np.ndarray | None, seed: int, checkpoints: Checkpoints
    ) -> Fitted:
        observations = answers.observations
        n_factors = self.n_factors or min(MOST_FACTORS, observations.n_columns)
        memory.check_survey(
            observations, n_factors, self.units_per_factor, is_latent=self.unanswered == "latent"
        )
        if checkpoints.are_kept:
            weights = ("sample_weight", () if weight is None else (weight,))
            checkpoints.require_identity(identity_of(self, seed, observations, answers.scales, weights))
        settings = settings_of(Settings, self, n_factors=n_factors, units=self.units_per_factor, seed=seed)
        with threads(self.n_jobs):
            return fit(observations, weight, settings, checkpoints)

    # What the model says about rows

    def transform(self, X: Any, *, return_std: bool = False) -> Any:
        """Posterior probability of each factor for each row, (n, K).

        These are the model's own factors; see :meth:`scores` for rotated ones.

        Parameters
        ----------
        X : table
        return_std : bool, default=False
            Whether to return posterior standard deviations of the factors as well, of the share
            of a factor's units that are on.

        Returns
        -------
        probability : (n, K) array, or (probability, std)
        """
        observations = self._read(X)
        if return_std:
            with threads(self.n_jobs):
                mean, std = self._factor_moments(self._side(observations))
            units = np.float32(self.model_.units)
            return mean.astype(np.float32) / units, std.astype(np.float32) / units
        with threads(self.n_jobs):
            expected = self._factors(self._side(observations))
        return expected / np.float32(self.model_.units)

    def response_style(self, X: Any) -> np.ndarray:
        """How each row uses the scales, (n,): below zero its ends, above zero its middle.

        It is the expected logarithm of the number that multiplies the row's thresholds; zero for
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
        observations = self._read(X)
        stretch = np.log(self.model_.stretches)
        style = np.zeros(observations.n_rows)
        with threads(self.n_jobs):
            for rows, part in self._blocks(self._side(observations)):
                style[rows] = posterior.mean_field(self.model_, part).style_weights @ stretch
        return style

    def predict_proba(self, X: Any) -> list[np.ndarray]:
        """Distribution of every answer given the row's answers: one (n, L_i) array per column.

        Given answers are taken into account where they stand, also for their own column. Of a
        nominal column it has the probabilities of the categories in the order of ``scales_``, of a
        column of numbers (n, 2) the mean and the standard deviation, and of background None.
        """
        observations = self._read(X)
        asked, numeric = self.questionnaire_.questions, self.questionnaire_.numeric
        found: list[Any] = [None] * self.n_features_in_
        for j in asked:
            scale = self.scales_[j]
            found[j] = np.empty((observations.n_rows, 2 if scale is None else scale.n_levels))
        for rows, cube in self._cubes(observations):
            for i, j in enumerate(asked):
                found[j][rows] = cube[:, i, : found[j].shape[1]]
        for own, j in enumerate(numeric):
            found[j] = np.stack(self.questionnaire_.numbers[own].moments(*found[j].T), axis=1)
        return found

    def predict(self, X: Any, rule: Rule = "median") -> Any:
        """One prediction per cell, in the kind of table that X is.

        Parameters
        ----------
        X : table
        rule : {"median", "mode", "mean"}
            The median has the smallest absolute error, the mode the most hits; the mean has the
            smallest squared error and is a number: of the levels' own values when these are
            numbers, otherwise of their positions 1..L. Of categories it is always the most likely
            one; of numbers the mean, or the median with the other rules (they differ for skewed
            ones). Background stays as it is.
        """
        check_choice("rule", rule, ("median", "mode", "mean"))
        X = collected(X)
        observations = self._read(X)
        points = np.empty((observations.n_rows, observations.n_columns))
        for rows, cube in self._cubes(observations):
            for i, j in enumerate(self.questionnaire_.questions):
                points[rows, i] = self._point(cube[:, i], j, rule)
        if rule != "mean":
            return self._table(points, X)
        if self.questionnaire_.is_plain:
            return points
        return self._table(points, X, are_means=True)

    def _point(self, found: np.ndarray, j: int, rule: Rule) -> np.ndarray:
        """One prediction for each distribution of column j: a level, a mean, or a number."""
        scale = self.scales_[j]
        if scale is None:
            own = self.questionnaire_.numbers[self.questionnaire_.numeric.index(j)]
            mean, deviation = found[:, 0], found[:, 1]
            is_mean = rule == "mean"
            point_ = own.moments(mean, deviation)[0] if is_mean else own.restore(mean)
            return own.standardise(point_, j)
        if self.questionnaire_.kinds[j] == "nominal":
            rule = "mode"
        return point(found[:, : scale.n_levels], rule, scale.values)

    def _table(self, points: np.ndarray, X: Any, *, are_means: bool = False) -> Any:
        """A table like X of one level or standardised number per row and question.

        With ``are_means`` those of ordered scales are numbers too.
        """
        known = self.questionnaire_
        levels = np.full((len(points), self.n_features_in_), -1, dtype=np.int16)
        scales, numbers = list(self.scales_), {}
        for i, j in enumerate(known.questions):
            if known.kinds[j] == "numeric":
                scale = known.numbers[known.numeric.index(j)]
                numbers[j] = scale.restore_given(points[:, i])
            elif are_means and known.kinds[j] == "ordinal":
                numbers[j], scales[j] = points[:, i], None
            else:
                levels[:, j] = points[:, i]
        return tables.decode(levels, scales, X, numbers)

    def impute(
        self,
        X: Any,
        rule: Literal["median", "mode"] = "median",
        *,
        n_draws: int | None = None,
        parameters: Literal["drawn", "fixed"] = "drawn",
        stacked: bool = False,
        groups: Any = None,
        fill_never_asked: bool = False,
        sample_weight: Any = None,
        random_state: Any = None,
    ) -> Any:
        """X with the gaps filled; answers that were given stay.

        Parameters
        ----------
        X : table
        rule : {"median", "mode"}
            The level in the middle of the distribution, which has the smallest absolute error, or
            the most likely one, which is right most often. Categories without an order are filled
            with the most likely one, numbers with their mean (rounded in a column of integers);
            background stays as it is.
        n_draws : int, optional
            For multiple imputation: return a list of so many tables whose gaps are random draws
            instead; 20 are usual. Analyse each, and combine the results with
            :func:`ordinalrbm.pool`.
        parameters : {"drawn", "fixed"}
            What random draws take the parameters for. "drawn": each table has parameters of its
            own, those of a model that learns, with the settings of this one, from rows of X drawn
            with replacement. Intervals are right then, and X should be the table that the model was
            fitted on. "fixed": those of the fitted model, as if they were known; quicker, for new
            rows, and for other aims than intervals.
        stacked : bool, default=False
            Whether to return draws as one table, below each other, with a first column
            ``Imputation_`` that counts them; 0 is X itself, gaps and all, as in SPSS.
        groups : Series, array or DataFrame with the rows of X, optional
            Groups of people, such as countries. A question that a group was never asked (see
            :func:`ordinalrbm.never_asked`) is not filled there, with a warning. By default, groups
            are those of the survey file that X comes from (`read_survey`), or else the nominal,
            numeric and background columns of X.
        fill_never_asked : bool, default=False
            Whether to fill such questions all the same, without a word.
        sample_weight : array-like, one number per row, optional
            How much rows count when parameters are drawn, if the model was fitted with weights.
        random_state : int, RandomState or None
            Seed of the draws.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> X = np.array([[1, 1], [2, 2], [3, 3], [3, np.nan]] * 20, dtype=float)
        >>> model = orbm.CumulativeRBM(n_factors=2, n_epochs=5, random_state=0).fit(X)
        >>> len(model.impute(X, n_draws=5, random_state=1))
        5
        """
        survey.check_options(rule, n_draws, parameters, stacked)
        X = collected(X)
        observations = self._read(X, exactly=True)  # what is given must come back as it is
        levels = observations.to_dense()
        gaps = levels < 0
        groups = survey.known_groups(X, self.questionnaire_) if groups is None else groups
        if groups is not None and not fill_never_asked:
            gaps &= ~survey.never_asked_cells(X, groups, self.questionnaire_.questions)

        complete = _points_of(observations, levels)

        def filled(values: np.ndarray) -> Any:
            complete[gaps] = values
            return self._completed(complete, gaps, X)

        cells = prediction.chosen_cells(gaps)
        with threads(self.n_jobs):
            if n_draws is None:
                points = [np.zeros(0)]
                for rows, part in self._distributions(self._side(observations), cells):
                    asked = cells.of_rows(rows.start, rows.stop).column
                    points.append(self._points(part, asked, rule))
                return filled(np.concatenate(points))
            seed = seed_from(random_state)
            if parameters == "fixed":
                this = self._side(observations)
                draws = sampling.gaps(self.model_, this, cells, n_draws, seed)
            else:
                names = getattr(self, "feature_names_in_", range(self.n_features_in_))
                own = [names[j] for j in self.questionnaire_.questions]
                weight = survey.weights_to_draw_by(observations, sample_weight, own)
                settings = self._settings_to_draw_by(seed)
                draws = sampling.bootstrap_gaps(observations, weight, settings, cells, n_draws)
            imputed = [filled(values) for values in draws]
        if not stacked:
            return imputed
        return survey.stack([self._table(_points_of(observations, levels), X), *imputed])

    def _settings_to_draw_by(self, seed: int) -> Settings:
        """Those of the fit, for as many epochs as the model took that it has kept."""
        return settings_of(
            Settings,
            self,
            n_factors=self.model_.n_factors,
            units=self.model_.units,
            seed=seed,
            n_epochs=max(1, self.best_epoch_),
        )

    def _points(self, found: np.ndarray, question: np.ndarray, rule: Rule) -> np.ndarray:
        """One level or number for each cell."""
        if self.questionnaire_.is_plain:
            return point(found, rule)
        points = np.empty(len(found))
        for i, j in enumerate(self.questionnaire_.questions):
            own, is_number = question == i, self.questionnaire_.kinds[j] == "numeric"
            points[own] = self._point(found[own], j, "mean" if is_number else rule)
        return points

    def _completed(self, points: np.ndarray, gaps: np.ndarray, X: Any) -> Any:
        """A table like X with its gaps filled; numbers in columns of integers are rounded."""
        known, table = self.questionnaire_, None
        for own, j in enumerate(known.numeric):
            table = tables.as_table(X) if table is None else table
            i = known.questions.index(j)
            number = known.numbers[own].restore(points[gaps[:, i], i])
            number = np.round(number) if tables.is_integer(table, j) else number
            points[gaps[:, i], i] = known.numbers[own].standardise(number, j)
        return self._table(points, X)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log P(answer | the row's other answers); larger is better.

        Each answer is predicted from nine tenths of the others of its row, in ten rounds. A level
        of the battery that nobody gave in a question when the model was fitted counts as the
        nearest level of that question, with a warning, unless ``scales`` were given. Numbers
        count with the logarithm of their density, on the scale of standard deviations (or of the
        normal scores of skewed ones).
        """
        observations = self._read(X)
        if observations.n_entries == 0:
            raise DataError("There is no answer to score; give rows with at least one answer.")
        row = np.repeat(np.arange(observations.n_rows), np.diff(observations.row_start))
        draw = uniforms(0, row, observations.column, 0, Purpose.ANSWER, 0)
        fold = np.floor(draw * _SCORE_FOLDS).astype(np.int8)
        total = 0.0
        with threads(self.n_jobs):
            for hidden in (fold == f for f in range(_SCORE_FOLDS)):
                asked = observations.select(hidden)
                cells = prediction.cells_of(asked)
                shown = self._side(observations.select(~hidden))
                for rows, found in self._distributions(shown, cells):
                    part = cells.of_rows(rows.start, rows.stop)
                    total += prediction.log_probability(self.model_, found, part).sum()
        return float(total / observations.n_entries)

    def log_likelihood(
        self,
        X: Any,
        method: Literal["exact", "ais"] = "exact",
        *,
        n_temperatures: int = 500,
        n_chains: int = 32,
        return_std: bool = False,
        random_state: Any = None,
    ) -> Any:
        """Log P(v) of each row.

        Parameters
        ----------
        X : table
        method : {"exact", "ais"}
            Enumeration of all states of the factors (n_factors <= 16), or an estimate by annealed
            importance sampling.
        n_temperatures, n_chains : int
            Length and number of the annealing runs per row; more make the estimate better.
        return_std : bool
            Whether to return the standard errors too (zero when exact).
        random_state : int, RandomState or None
            Seed of the annealing runs.

        Returns
        -------
        value : (n,) array, or (value, standard_error)
        """
        check_choice("method", method, ("exact", "ais"))
        check_whole("n_temperatures", n_temperatures, 1)
        check_whole("n_chains", n_chains, 2)
        observations = self._read(X)
        this = self._side(observations)
        with threads(self.n_jobs):
            if method == "exact":
                estimate = likelihood.exact(self.model_, this)
            else:
                seed = seed_from(random_state)
                estimate = likelihood.annealed(
                    self.model_, this, seed, n_temperatures=n_temperatures, n_chains=n_chains
                )
        return tuple(estimate) if return_std else estimate.value

    # What the model says by itself

    def sample(self, n: int = 1, *, n_steps: int = sampling.FREE_STEPS, random_state: Any = None) -> Any:
        """Rows that the model makes up: a DataFrame when it was fitted on one, else an array.

        Background is left empty: they are rows of an average one.
        """
        check_is_fitted(self, "model_")
        check_whole("n", n, 1)
        check_whole("n_steps", n_steps, 1, 2**16)
        seed = seed_from(random_state)
        with threads(self.n_jobs):
            levels = sampling.rows(self.model_, n, seed, n_steps)
        names = getattr(self, "feature_names_in_", None)
        like: Any = np.full((n, self.n_features_in_), np.nan)
        if names is not None:
            like = self._blank(n, list(names))
        return self._completed(levels, np.ones(levels.shape, dtype=bool), like)

    def _blank(self, n: int, names: list[str]) -> pd.DataFrame:
        """A frame as answers are given in; text in order, because it may look like numbers."""
        columns = {
            name: np.full(n, np.nan)
            if scale is None or scale.is_numeric
            else pd.Categorical([None] * n, list(scale.labels), ordered=True)
            for name, scale in zip(names, self.scales_, strict=True)
        }
        return pd.DataFrame(columns)

    def sample_factors(
        self, X: Any, *, n_chains: int = 4, n_draws: int = 500, random_state: Any = None
    ) -> Any:
        """Posterior draws of the factors as an ArviZ object, to diagnose the chains with.

        Needs ArviZ: ``pip install 'ordinalrbm[diagnostics]'``. Give few rows: the draws of all are
        kept.

        Returns
        -------
        arviz.InferenceData (or DataTree)
            Variable ``factors`` with dimensions chain, draw, row, factor.
        """
        observations = self._read(X)
        check_whole("n_chains", n_chains, 1)
        check_whole("n_draws", n_draws, 1)
        seed = seed_from(random_state)
        with threads(self.n_jobs):
            draws = posterior.chains(self.model_, self._side(observations), n_chains, n_draws, seed)
        return to_arviz({"factors": draws}, {"factors": ["row", "factor"]})

    # Files

    def save(self, path: str | os.PathLike) -> None:
        """Write the model to a file that holds no code; read it with :func:`ordinalrbm.load`."""
        check_is_fitted(self, "model_")
        check_parameters(self)
        arrays, learning = kept_learning(self)
        arrays |= {
            name: getattr(self.model_, name)
            for name in ARRAYS
            if name not in OPTIONAL or getattr(self.model_, name).size
        }
        arrays |= self._kept_population()
        names = getattr(self, "feature_names_in_", None)
        header = {
            "model": "vector",
            "parameters": self._kept_parameters(),
            "units": self.model_.units,
            "scales": [None if scale is None else scale.to_json() for scale in self.scales_],
            "columns": None if names is None else [str(name) for name in names],
            "scales_given": self.scales is not None,
            **learning,
        }
        if not self.questionnaire_.is_plain:
            header["kinds"] = self.questionnaire_.to_json()
        model_file.save(path, arrays, header)

    def _kept_parameters(self) -> dict[str, Any]:
        """Without those of columns of other kinds where there are none, as in older files."""
        kept = plain_parameters(self) | {"scales": None}  # these are stored apart
        if self.questionnaire_.is_plain and self.background_decay == _BACKGROUND_DECAY:
            for name in ("nominal", "numeric", "background", "background_decay"):
                kept.pop(name)
        return kept

    @classmethod
    def _from_file(cls, stored: Stored) -> CumulativeRBM:
        estimator = restored(cls, stored)
        estimator.questionnaire_ = known = Questionnaire.from_stored(stored)
        estimator.scales_ = list(known.scales)
        estimator.n_features_in_ = len(estimator.scales_)
        estimator.model_ = VectorModel.from_stored(stored, known.n_levels, known.kind, known.n_covariates)
        estimator._restore_population(stored)
        names = _read_names(stored, estimator.n_features_in_)
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
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

    def _read(self, X: Any, *, exactly: bool = False) -> Observations:
        check_is_fitted(self, "model_")
        check_parameters(self)  # some are read here, and may have been set after learning
        table = tables.as_table(X)
        try:
            _check_feature_names(self, table.header, reset=False)
        except ValueError as error:  # in scikit-learn's words, which its estimator checks ask for
            raise DataError(str(error)) from error
        if table.n_columns != self.n_features_in_:
            raise DataError(
                f"X has {table.n_columns} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input; give the columns it was fitted on."
            )
        # Whoever gave the scales meant these; others may lack a level by chance.
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
        """Rows in parts, so that what is computed for each cell never fills the memory."""
        per_row = max(1, self.model_.bias.size * int(self.model_.n_levels.max(initial=1)))
        size = min(_ROWS_AT_ONCE, max(1, _NUMBERS_AT_ONCE // per_row))
        for start in range(0, this.n_rows, size):
            stop = min(start + size, this.n_rows)
            yield slice(start, stop), this.rows(start, stop)

    def _mean_fields(self, this: Side) -> Iterator[tuple[slice, Side, posterior.Posterior]]:
        """What mean-field says of each part of the rows, and a word if it has not settled."""
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

    def _distributions(self, this: Side, cells: prediction.Cells) -> Iterator[tuple[slice, np.ndarray]]:
        """Distributions of cells, for one part of the rows after the other."""
        if self.inference == "mcmc":  # chains of all rows, whose draws are numbered by row
            draws = posterior.draws(self.model_, this, self.n_draws, self._inference_seed())
            yield slice(0, this.n_rows), prediction.probabilities(self.model_, draws, cells)
            return
        widened = self.inference == "linear_response"
        for rows, part, found in self._mean_fields(this):
            asked = cells.of_rows(rows.start, rows.stop)
            yield rows, prediction.mixed(self.model_, part, found, asked, widened=widened)

    def _cubes(self, observations: Observations) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, columns, L): distributions of all cells, for one part of the rows at a time."""
        n_columns = observations.n_columns
        cells = prediction.all_cells(observations.n_rows, n_columns)
        with threads(self.n_jobs):
            for rows, flat in self._distributions(self._side(observations), cells):
                yield rows, flat.reshape(-1, n_columns, flat.shape[1])

    def _inference_seed(self) -> int:
        return int(self.random_state) if isinstance(self.random_state, Integral) else 0


def _in_random_order(answers: Encoded, sample_weight: Any, seed: int) -> tuple[Encoded, np.ndarray | None]:
    """Rows as they are learnt from, and their weights.

    Batches are neighbouring rows, and files are often sorted.
    """
    observations = answers.observations
    weight = check_weights(sample_weight, observations.n_rows)
    order = np.random.default_rng(seed).permutation(observations.n_rows)
    if weight is not None:
        order = order[weight[order] > 0]  # a row without weight is as one that is not there
        weight = weight[order]
    return replace(answers, observations=observations.take_rows(order)), weight


def _points_of(observations: Observations, levels: np.ndarray) -> np.ndarray:
    """Levels of answers, or their standardised numbers."""
    points = levels.astype(np.float64)
    if isinstance(observations, Answers):
        points[:, np.flatnonzero(observations.kind == NUMERIC)] = observations.numbers
    return points


def _header(answers: Encoded) -> Any:
    """Something that scikit-learn can read the names of all columns from."""
    if answers.names is not None:
        return pd.DataFrame(columns=answers.names)
    return np.zeros((0, answers.observations.n_columns))


def _read_names(stored: Stored, n_columns: int) -> list[str] | None:
    names = stored.entry("columns", list, None)
    if names is None:
        return None
    if not all(isinstance(name, str) for name in names) or len(set(names)) != n_columns:
        raise DataError("its columns do not have a name each")
    if len(names) != n_columns:
        raise DataError(f"it has {len(names)} names for {n_columns} columns")
    return names


# ---- what `CumulativeRBM.impute` is told, and the forms in which it gives its tables -------------


def check_options(rule: Any, n_draws: Any, parameters: Any, stacked: bool) -> None:
    """Refuse options of `impute` that are none, or do not go together."""
    check_choice("rule", rule, ("median", "mode"))
    check_choice("parameters", parameters, ("drawn", "fixed"))
    if n_draws is not None:
        check_whole("n_draws", n_draws, 1)
    elif stacked:
        raise DataError("Only draws can be stacked; give n_draws, for example 20, or leave it out.")


def known_groups(X: Any, known: Questionnaire) -> pd.DataFrame | None:
    """Groups that a table tells of: what a survey file knows of people, or its other columns."""
    if isinstance(X, Encoded) and X.people is not None:
        return X.people
    table = tables.as_table(X)
    others = [j for j, kind in enumerate(known.kinds) if kind != "ordinal"]
    columns = {table.name(j): pd.Series(table.column(j)).reset_index(drop=True) for j in others}
    return pd.DataFrame(columns) if columns else None


def never_asked_cells(X: Any, groups: Any, questions: list[int]) -> np.ndarray:
    """(rows, questions) whether a gap is to stay because nobody in the group was asked; warns.

    ``questions`` are the columns that are no background.
    """
    table = tables.as_table(X)
    found = asking.never_asked(X, groups)
    found = found[found["question"].isin([table.name(j) for j in questions])]
    if found.empty:
        return np.zeros((1, 1), dtype=bool)
    warnings.warn(
        f"{asking.in_words(found)} These cells stay empty; fill_never_asked=True fills them.",
        stacklevel=user_stacklevel(),
    )
    return asking.never_asked_cells(X, groups, found)[:, questions]


def weights_to_draw_by(
    observations: Observations, sample_weight: Any, names: Sequence[Any]
) -> np.ndarray | None:
    """Row weights for drawing parameters; refuses tables from which they cannot be drawn."""
    weight = check_weights(sample_weight, observations.n_rows)
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


def stack(tables: Sequence[Any]) -> Any:
    """One table of several below each other, counted from 0 in a first column."""
    number = np.repeat(np.arange(len(tables)), [table.shape[0] for table in tables])
    frames = [_as_frame(table) for table in tables]
    if IMPUTATION in frames[0].names:
        raise DataError(
            f"X has a column {IMPUTATION!r} already, the name of the one that counts imputations; rename it."
        )
    return below_each_other([frame.native for frame in frames], IMPUTATION, number)


def _as_frame(table: Any) -> Frame:
    if isinstance(table, Encoded):
        table = table.to_frame()
    return as_frame(table) or frame_of(pd.DataFrame(table), "X")

"""Factors of a fitted model that can be read: loadings, scores, reliability, curves."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import NOMINAL, NUMERIC, ORDINAL, NumberScale, Questionnaire
from ordinalrbm.engine.side import Side
from ordinalrbm.errors import DataError, user_stacklevel
from ordinalrbm.estimators import poles
from ordinalrbm.estimators.correlations import target_of
from ordinalrbm.estimators.validation import check_weights, check_whole
from ordinalrbm.files.tables_out import write_reading
from ordinalrbm.runtime.display import Readable, two_digits
from ordinalrbm.runtime.places import place
from ordinalrbm.runtime.threads import seed_from, threads
from ordinalrbm.stats.design import Sample, SurveyDesign
from ordinalrbm.stats.rotation import Rotation
from ordinalrbm.storage.reader import Stored
from ordinalrbm.vector import loadings as reading
from ordinalrbm.vector import posterior, predict, sample
from ordinalrbm.vector.initial import by_weight
from ordinalrbm.vector.latent_regression import Conditioned, conditioned, latent_regression
from ordinalrbm.vector.loading_errors import attenuation, loading_errors
from ordinalrbm.vector.loadings import Population, Solution
from ordinalrbm.vector.model import VectorModel

# A curve shows people from the lowest to the highest in a thousand.
_LOWEST, _HIGHEST = -3.0, 3.0  # standard deviations
_MEAN_PLUS_MINUS_ONE = np.array([-1.0, 1.0])  # who counts as low and as high on a factor
# A factor is worth telling when some question loads on it at least so much (a common rule).
_WORTH_TELLING = 0.3
# Where a larger share of the answers is missing, loadings may be too small; so much is no matter.
_SPARSE, _MOSTLY_KEPT = 0.2, 0.9
# People like to read about few factors, and surveys of many questions need some.
_FEWEST_TO_READ, _MOST_TO_READ, _QUESTIONS_PER_FACTOR = 12, 30, 5
MOST_COMPARED = 8  # numbers of factors
FEWEST_ITEMS = 2  # by which a factor can be read
# Their names in model files.
_POPULATION = tuple(f"population.{name}" for name in Population._fields)


class _Asked(NamedTuple):
    """The question that a row of the loadings belongs to."""

    name: str  # of the question
    question: int
    kind: int
    column: int  # of the model
    levels: tuple[str, ...]
    number: NumberScale | None

    @property
    def scale(self) -> tuple[str, ...]:
        """Its levels, where these have an order."""
        return self.levels if self.kind == ORDINAL else ()


_CURVES = {ORDINAL: reading.response_curves, NOMINAL: reading.category_curves, NUMERIC: reading.number_curve}


@dataclass(frozen=True, eq=False, repr=False)
class FactorReading(Readable):
    """Rotated factors of a fitted model and what is known of them.

    Attributes
    ----------
    loadings : DataFrame, questions by factors
        Standardised weights of the factors in each question's utility. Where factors are not
        correlated these are correlations of utility and factor. A number has a row like a scale, a
        nominal question one for each category ("party: red"): of the inclination to it rather
        than to the others. With background, they hold among people with the same one.
    correlations : DataFrame, factors by factors
        Of the factors; ones and zeros unless the rotation is oblique.
    communalities : Series, by question
        Share of the utility's variance that the factors explain.
    reliability : DataFrame, by factor
        ``items``: how many questions load on it more than on any other, nominal ones apart; of
        their sum (with signs as the loadings have), ``omega``: McDonald's total omega of the
        utilities, and ``alpha``: Cronbach's of the answers on ordered scales, where these were
        given. ``explained``: the factor's share of the variance of all utilities. After a bifactor
        rotation all items count for the general factor, and ``omega_h`` is the share of the sum's
        variance that the factor explains alone: of the first, omega hierarchical.
    standard_errors, correlation_errors : DataFrame or None
        Of the loadings and the correlations; None where no answers were given, or too few.
    questions : dict
        Texts of the questions, where they are known.
    rotation : str
    """

    loadings: pd.DataFrame
    correlations: pd.DataFrame
    communalities: pd.Series
    reliability: pd.DataFrame
    standard_errors: pd.DataFrame | None
    correlation_errors: pd.DataFrame | None
    questions: Mapping[str, str]
    rotation: str
    _model: VectorModel
    _solution: Solution
    _asked: Mapping[str, _Asked]

    def _parts(self) -> Iterator[str | pd.DataFrame]:
        how = "not rotated" if self.rotation == "none" else self.rotation
        yield f"Loadings of {len(self.loadings)} questions on {len(self.factors)} factors ({how}):"
        table = self.table()
        yield two_digits(
            table[[*table.columns.intersection(["highest answer"]), *self.factors, "communality"]]
        )
        yield "Factors, with the strongest question of each, and their reliability:"
        about = {"about": [self.name(factor, 1) for factor in self.factors]}
        yield pd.concat([two_digits(self.reliability), pd.DataFrame(about, self.factors)], axis=1)
        if not np.allclose(self.correlations, np.eye(len(self.factors))):
            yield "Correlations of the factors:"
            yield two_digits(self.correlations)

    @property
    def factors(self) -> list[str]:
        """Names of the factors: "Factor 1" is the one that explains most."""
        return list(self.loadings.columns)

    def items(self, factor: str) -> list[str]:
        """Questions that load on a factor more than on any other, the strongest first."""
        own = reading.own_items(self._solution)[self._factor(factor)]
        return [str(self.loadings.index[i]) for i in own]

    def answer(self, item: str, factor: str) -> str:
        """What people high on a factor answer to a question: the label at that end of its scale.

        Empty where the levels are plain numbers, and for categories and numbers.
        """
        if item not in self.loadings.index:
            raise self._no_question(item)
        loading = self.loadings[self.factors[self._factor(factor)]][item]
        return poles.answer_at(self._asked[item].scale, float(loading))

    def name(
        self, factor: str, n_items: int = 2, *, texts: Mapping[str, str] | None = None, width: int = 60
    ) -> str:
        """What a factor is about: its strongest questions, with the answers at its high end.

        At most ``n_items`` with positive and as many with negative loadings are named. Where levels
        have no words, it says which questions people high on it answer more (higher) and less.
        ``texts`` may replace those of the questions, which are cut to ``width`` letters each.

        Examples
        --------
        >>> import numpy as np, pandas as pd, ordinalrbm as orbm
        >>> X = pd.DataFrame({"tea": [1, 2, 3] * 40, "milk": [1, 2, 3] * 40})
        >>> model = orbm.CumulativeRBM(1, n_epochs=2, random_state=0).fit(X)
        >>> model.factor_solution().name("Factor 1", 1) in ("more: tea", "more: milk")
        True
        """
        short = self._short(texts, width)
        parts = [
            (short[item], self.answer(item, factor), loading)
            for item, loading in self.strongest(factor, n_items).items()
        ]
        return poles.in_words(parts) or "no question"

    def strongest(self, factor: str, n_items: int = 2) -> dict[str, float]:
        """Questions that say what a factor is about, the strongest first, and their loadings.

        Those that load at least half as strongly as the strongest one, at most ``n_items`` with
        positive and as many with negative loadings.
        """
        loadings = self.loadings.iloc[:, self._factor(factor)].to_numpy()
        strong = poles.worth_naming(loadings)
        signs = [[i for i in strong if sign * loadings[i] > 0][:n_items] for sign in (1, -1)]
        named = [i for i in strong if i in signs[0] + signs[1]]
        return {str(self.loadings.index[i]): float(loadings[i]) for i in named}

    def telling(self) -> list[str]:
        """Factors on which some question loads by 0.3 or more; one at least, if any loads."""
        strongest = self.loadings.abs().max()
        least = min(_WORTH_TELLING, float(strongest.max()))
        return [str(name) for name, size in strongest.items() if size > 0 and size >= least]

    @property
    def names(self) -> dict[str, str]:
        """What each factor is about; see :meth:`name`."""
        return {factor: self.name(factor) for factor in self.factors}

    def table(self) -> pd.DataFrame:
        """All of it as one table, by factor and size: question, loadings, errors, communality.

        ``highest answer`` is the label of a question's highest level, where the levels have words:
        the answer that a positive loading means.
        """
        order = [i for own in reading.own_items(self._solution)[self._solution.n_general :] for i in own]
        order += [i for i in range(len(self.loadings)) if i not in set(order)]
        columns: dict[str, Any] = {}
        items = [str(item) for item in self.loadings.index]
        if self.questions:
            columns["question"] = [self.questions.get(item, "") for item in items]
        highest = [poles.answer_at(self._asked[item].scale, 1.0) for item in items]
        if any(highest):
            columns["highest answer"] = highest
        for factor in self.factors:
            columns[factor] = self.loadings[factor]
            if self.standard_errors is not None:
                columns[f"{factor} (error)"] = self.standard_errors[factor]
        columns["communality"] = self.communalities
        return pd.DataFrame(columns, index=self.loadings.index).iloc[order]

    def to_excel(self, path: str | os.PathLike) -> None:
        """Write loadings, reliability and correlations to an .xlsx file, a sheet each."""
        write_reading(place(path).with_suffix(".xlsx"), self)

    def to_word(self, path: str | os.PathLike) -> None:
        """Write the loadings to a .docx file as a table in APA form."""
        write_reading(place(path).with_suffix(".docx"), self)

    def to_latex(self, path: str | os.PathLike) -> None:
        r"""Write the loadings to a .tex file as a table in APA form, to be ``\input``."""
        write_reading(place(path).with_suffix(".tex"), self)

    def curves(self, item: str, factor: str = "Factor 1", n_points: int = 61) -> pd.DataFrame:
        """Item response curves: how likely each level is along a factor, and the information.

        Other factors are at their means. Indexed by the factor in standard deviations; a column
        for each level or category, and ``information``, Fisher's of this answer about the factor.
        Of a number there is its ``median`` instead. One of the categories stands for its question.
        """
        check_whole("n_points", n_points, 2)
        return self._curves(item, factor, np.linspace(_LOWEST, _HIGHEST, n_points))

    def ends(self, item: str, factor: str = "Factor 1") -> pd.DataFrame:
        """The curves of people low and high on a factor: one standard deviation from its mean."""
        return self._curves(item, factor, _MEAN_PLUS_MINUS_ONE).drop(columns="information")

    def _curves(self, item: str, factor: str, at: np.ndarray) -> pd.DataFrame:
        if item not in self._asked:
            raise self._no_question(item)
        asked = self._asked[item]
        which = asked.question if asked.kind == NOMINAL else asked.column
        curve, information = _CURVES[asked.kind](self._model, self._solution, which, self._factor(factor), at)
        index = pd.Index(at, name=factor)
        if asked.number is None:
            found = pd.DataFrame(curve, index=index, columns=list(asked.levels))
        else:
            found = pd.DataFrame({"median": asked.number.restore(curve)}, index=index)
        return found.assign(information=information)

    def question(self, item: str) -> str:
        """The question that a row of the loadings belongs to: its own name, unless a category."""
        return self._asked[item].name

    def is_number(self, item: str) -> bool:
        """Whether a row of the loadings is that of a number."""
        return self._asked[item].number is not None

    def information(self, factor: str = "Factor 1", n_points: int = 61) -> pd.DataFrame:
        """Fisher information of each of a factor's questions along it, and their sum ``total``.

        1/√total is the standard error with which all of these answers would tell the factor, if
        the other factors were known.
        """
        own = dict.fromkeys(self.question(item) for item in self.items(factor))
        found = pd.DataFrame(
            {item: self.curves(item, factor, n_points)["information"] for item in own},
            index=pd.Index(np.linspace(_LOWEST, _HIGHEST, n_points), name=factor),
        )
        return found.assign(total=found.sum(axis=1))

    def _short(self, texts: Mapping[str, str] | None, width: int) -> dict[str, str]:
        known = self.questions if texts is None else texts
        named = {item: known.get(item) or item for item in map(str, self.loadings.index)}
        own = {item: text for item, text in named.items() if self.question(item) == item}
        short = poles.in_short(own, width)
        for item in named.keys() - short.keys():
            short |= poles.in_short({item: named[item]}, width)
        return short

    def _factor(self, factor: str) -> int:
        if factor not in self.factors:
            known = ", ".join(map(repr, self.factors))
            raise DataError(f"There is no factor {factor!r}; give one of {known}.")
        return self.factors.index(factor)

    def _no_question(self, item: str) -> DataError:
        known = ", ".join(map(repr, list(self.loadings.index)[:10]))
        return DataError(f"There is no question {item!r}; give one of {known}.")


class ReadableFactors:
    """The factor analysis of :class:`CumulativeRBM`."""

    if TYPE_CHECKING:
        model_: VectorModel
        questionnaire_: Questionnaire
        scales_: list[Any]
        about_: dict[str, Any]
        n_jobs: int | None
        inference: str
        unanswered: Any
        n_draws: int
        n_features_in_: int

        def _read(self, X: Any) -> Observations: ...
        def _side(self, observations: Observations) -> Side: ...
        def _factors(self, this: Side) -> np.ndarray: ...
        def _inference_seed(self) -> int: ...
        def _mean_fields(self, this: Side) -> Iterator[tuple[slice, Side, posterior.Posterior]]: ...

    def factor_solution(
        self,
        X: Any = None,
        *,
        rotation: Rotation = "varimax",
        n_factors: int | None = None,
        gamma: float = 0.0,
        kaiser: bool = True,
        target: Any = None,
        sample_weight: ArrayLike | None = None,
        design: SurveyDesign | None = None,
        questions: Mapping[str, str] | None = None,
    ) -> FactorReading:
        """Rotated loadings of the factors, their correlations, communalities and reliability.

        Parameters
        ----------
        X : table, optional
            The answers that the model was fitted on: with them come standard errors and
            Cronbach's alpha, and a warning where so many are missing that loadings are clearly too
            small. The loadings are the same without.
        rotation : {"varimax", "quartimax", "oblimin", "promax", "bifactor", "target", "procrustes", "none"}
            Factors stay uncorrelated with "varimax" (the default), "quartimax", "bifactor" (a general
            factor before those of groups; bi-quartimin) and "procrustes", towards a ``target`` like
            "target", which has correlated factors; "none" gives principal axes.
        n_factors : int, optional
            Fewer factors than the model has: the principal axes that explain most, rotated.
        gamma : float, default=0.0
            Of oblimin, at most 0.8: the larger, the more correlated factors become.
        kaiser : bool, default=True
            Whether all questions count the same in the rotation, however much the factors explain
            of them (Kaiser's normalisation); without, as in R's GPArotation and psych.
        target : DataFrame or array, questions by factors, optional
            Loadings to come near; NaN where they are free, as are questions that a frame leaves out.
        sample_weight : array-like, optional
            Weights of the rows of X, for the standard errors and alpha.
        design : SurveyDesign, optional
            How the rows of X were sampled, with the weights that the model was fitted with. The
            standard errors are then those of its clusters and strata, or replicates.
        questions : dict, optional
            Texts by name of the column; a model of the command line knows them.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> ratings = orbm.datasets.load_food_world_cup().iloc[:200]
        >>> model = orbm.CumulativeRBM(3, n_epochs=2, random_state=0).fit(ratings)
        >>> model.factor_solution(rotation="oblimin").correlations.shape
        (3, 3)
        """
        people = self._population()
        solution = self._solution(people, rotation, n_factors, gamma=gamma, kaiser=kaiser, target=target)
        factors = factor_names(solution)
        asked = self._asked()
        names = pd.Index([name for name, one in asked.items() if one.column >= 0])
        answers, weight, of_loadings, of_correlations = None, None, None, None
        if X is None and design is not None:
            raise DataError("A design is of the rows of X; give these as well, or leave it out.")
        if X is not None:
            answers = self._read(X)
            weight = check_weights(sample_weight, answers.n_rows)
            sample = None if design is None else _sample_of(design, answers.n_rows, weight)
            weight = weight if sample is None else sample.weight
            with threads(self.n_jobs):
                errors = loading_errors(
                    self.model_, self._side(answers), people, solution, weight=weight, sample=sample
                )
            if errors is not None:
                of_loadings = pd.DataFrame(errors.loadings, names, factors)
                of_correlations = pd.DataFrame(errors.correlation, factors, factors)
            self._warn_of_shrinkage(people, solution, by_weight(answers, weight))
        return FactorReading(
            loadings=pd.DataFrame(solution.loadings, names, factors),
            correlations=pd.DataFrame(solution.correlation, factors, factors),
            communalities=pd.Series(solution.communality, names, name="communality"),
            reliability=_reliability(solution, factors, self.model_, answers, weight),
            standard_errors=of_loadings,
            correlation_errors=of_correlations,
            questions=_with_categories(self._questions() if questions is None else dict(questions), asked),
            rotation=rotation,
            _model=self.model_,
            _solution=solution,
            _asked=asked,
        )

    def _warn_of_shrinkage(self, people: Population, solution: Solution, answers: Observations) -> None:
        missing = 1.0 - answers.n_entries / (answers.n_rows * answers.n_columns)
        if missing < _SPARSE or self.model_.n_covariates:  # within groups, answers differ less
            return
        kept = attenuation(self.model_, people, answers).kept
        if kept > _MOSTLY_KEPT:
            return
        median = float(np.median(np.abs(solution.loadings).max(axis=1)))
        warnings.warn(
            f"{missing:.0%} of the answers are missing, and the prior has drawn loadings towards "
            f"zero: by the correlations of the answers they are about {1.0 - kept:.0%} too small, "
            f"so that {median:.2f} stands for about {min(median / kept, 0.99):.2f}, and omega is too "
            "small as well. Fit with learning_rate=0.005, n_epochs=40, weight_decay=1 for loadings "
            "nearer to those of the answers.",
            stacklevel=user_stacklevel(),
        )

    def loadings(self, rotation: Rotation = "varimax", **options: Any) -> pd.DataFrame:
        """Standardised loadings of each question on each rotated factor.

        Short for ``factor_solution(rotation=..., ...).loadings``; see :meth:`factor_solution`.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> ratings = orbm.datasets.load_food_world_cup().iloc[:200]
        >>> model = orbm.CumulativeRBM(3, n_epochs=2, random_state=0).fit(ratings)
        >>> model.loadings().columns.tolist()
        ['Factor 1', 'Factor 2', 'Factor 3']
        """
        return self.factor_solution(rotation=rotation, **options).loadings

    def scores(
        self,
        X: Any,
        *,
        rotation: Rotation = "varimax",
        n_factors: int | None = None,
        gamma: float = 0.0,
        kaiser: bool = True,
        target: Any = None,
        return_std: bool = False,
        n_draws: int | None = None,
        random_state: Any = None,
    ) -> Any:
        """Scores of each row on the rotated factors, in standard deviations.

        A factor has mean 0 and variance 1 among the people that the model was fitted on. The score
        is its mean given the row's answers and the standard error its standard deviation: a
        person's factor is in score ± 1.645 standard errors nine times out of ten. Scores vary
        less than factors do, the less the fewer answers there are; for variances, correlations
        and regressions take draws, which vary as factors do (plausible values). Where the model
        has background, both are those of people with the same background: see ``population_``.

        Parameters
        ----------
        X : table
        rotation, n_factors, gamma, kaiser, target
            See :meth:`factor_solution`, whose factors these are.
        return_std : bool, default=False
            Whether to return the standard errors as well.
        n_draws : int, optional
            Return a list of so many tables of plausible values instead.
        random_state : int, RandomState or None
            Seed of the draws.

        Returns
        -------
        DataFrame, rows by factors; or a pair of these; or a list of these

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> ratings = orbm.datasets.load_food_world_cup().iloc[:200]
        >>> model = orbm.CumulativeRBM(3, n_epochs=2, random_state=0).fit(ratings)
        >>> scores, errors = model.scores(ratings, return_std=True)
        >>> bool((errors > 0).all(axis=None))
        True
        """
        if n_draws is not None:
            check_whole("n_draws", n_draws, 1)
            if return_std:
                raise DataError("Draws have no standard errors; leave out n_draws, or return_std=True.")
        observations = self._read(X)
        people = self._population()
        solution = self._solution(people, rotation, n_factors, gamma=gamma, kaiser=kaiser, target=target)
        index = X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(observations.n_rows)
        names = factor_names(solution)
        reader, inside = self._by_background()

        def scores_of(factors: np.ndarray) -> pd.DataFrame:
            projected = (inside.factors(factors) - solution.mean) @ solution.projection.T
            return pd.DataFrame(projected, index, names)

        this = reader._side(observations)
        with threads(self.n_jobs):
            if n_draws is not None:
                seed = seed_from(random_state)
                states = posterior.draws(inside.model, this, n_draws, seed, thin=sample.STEPS_BETWEEN)
                return [scores_of(state.factors) for state in states]
            if not return_std:
                return scores_of(reader._factors(this))
            mean, std = reader._factor_moments(this, solution.projection @ inside.turn)
        return scores_of(mean), pd.DataFrame(std, index, names)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of what ``transform`` returns: factor_0, factor_1, ..., before any rotation.

        Parameters
        ----------
        input_features : ignored
        """
        check_is_fitted(self, "model_")
        return np.array([f"factor_{k}" for k in range(self.model_.n_factors)], dtype=object)

    # Inside

    def _asked(self) -> dict[str, _Asked]:
        """Rows of the loadings by name; nominal questions, whose categories have them, as well."""
        known, names = self.questionnaire_, column_names(self)
        plan, found = self.model_.layout, {}
        for i, j in enumerate(known.questions):
            scale, first = self.scales_[j], int(plan.first[i])
            levels = () if scale is None else tuple(map(str, scale.labels))
            one = _Asked(names[j], i, int(plan.kind[i]), first, levels, known.numbers.get(j))
            if one.kind == NOMINAL:
                found[one.name] = one._replace(column=-1)
                for k, level in enumerate(levels):
                    found[f"{one.name}: {level}"] = one._replace(column=first + k)
            else:
                found[one.name] = one
        return found

    def _solution(
        self,
        people: Population,
        rotation: Rotation,
        n_factors: int | None,
        *,
        gamma: float = 0.0,
        kaiser: bool = True,
        target: Any = None,
    ) -> Solution:
        most = min(self.model_.weights.shape)
        if n_factors is None and np.ndim(target) == 2:
            n_factors = np.shape(target)[1]
        if n_factors is not None:
            check_whole("n_factors", n_factors, 1, most)
        names = [name for name, one in self._asked().items() if one.column >= 0]
        towards = target_of(target, rotation, names, most if n_factors is None else n_factors)
        if not isinstance(gamma, Real) or not np.isfinite(gamma) or gamma > 0.8:
            raise DataError(f"The 'gamma' parameter must be at most 0.8. Got {gamma!r} instead.")
        options: dict[str, Any] = {"gamma": gamma, "kaiser": kaiser, "target": towards}
        solution = reading.solve(self.model_, people, rotation, n_factors, **options)
        if target is not None:  # it says what is positive
            return solution
        scales = [one.scale for one in self._asked().values() if one.column >= 0]
        return poles.naturally_turned(solution, scales)

    def _learn_population(self, observations: Observations, weight: np.ndarray | None, seed: int) -> None:
        with threads(self.n_jobs):
            people = reading.population_of(self.model_, observations, weight, self.unanswered, seed)
            if self.model_.n_covariates and self.model_.units > 1:
                people = latent_regression(self.model_, observations, weight, people, seed)
        self.population_ = people

    def _population(self) -> Population:
        """How factors are distributed; by the model itself, where a file does not say it."""
        check_is_fitted(self, "model_")
        if hasattr(self, "population_"):
            return self.population_
        if not hasattr(self, "_free_population"):
            with threads(self.n_jobs):
                self._free_population = reading.free_population(self.model_)
        return self._free_population

    def _kept_population(self) -> dict[str, np.ndarray]:
        kept = getattr(self, "population_", None)
        every = {} if kept is None else dict(zip(_POPULATION, kept, strict=True))
        return {name: array for name, array in every.items() if array.size}

    def _restore_population(self, stored: Stored) -> None:
        if _POPULATION[0] not in stored:
            return
        n, most = self.model_.n_factors, float(self.model_.units)

        def covariance(name: str) -> np.ndarray:
            matrix = stored.parameter(name, np.float64, (n, n), -(most**2), most**2)
            if not np.allclose(matrix, matrix.T) or (np.diag(matrix) < 0).any():
                raise DataError("its factors have covariances that cannot be")
            return matrix

        mean = stored.parameter(_POPULATION[0], np.float64, (n,), 0.0, most)
        people = Population(mean, covariance(_POPULATION[1]))
        if _POPULATION[2] in stored:  # not in older files
            shape = (n, 1 + self.model_.n_covariates)
            regression = stored.parameter(_POPULATION[2], np.float64, shape)
            people = people._replace(regression=regression, residual=covariance(_POPULATION[3]))
        self.population_ = people

    def _by_background(self) -> tuple[ReadableFactors, Conditioned]:
        """What infers factors by the population of each person's background, and in which units."""
        people, model = self._population(), self.model_
        if not people.regression.size:
            return self, Conditioned(model, np.eye(model.n_factors), np.zeros(model.n_factors))
        reader, inside = copy.copy(self), conditioned(model, people)
        reader.model_, reader.unanswered = inside.model, "latent"
        return reader, inside

    def _factor_moments(
        self, this: Side, projection: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected factors (n, K), and standard deviations of these or of projections of them."""
        projection = np.eye(self.model_.n_factors) if projection is None else projection
        if self.inference == "mcmc":
            return self._sampled_moments(this, projection)
        mean = np.empty((this.n_rows, self.model_.n_factors))
        variance = np.zeros((this.n_rows, len(projection)))
        for rows, part, found in self._mean_fields(this):
            mean[rows] = found.factors
            for state, weight, _ in found.components:
                styled = part._replace(stretch=state.stretch)
                apart = (state.factors - mean[rows]) @ projection.T
                variance[rows] += weight[:, None] * apart**2
                for some, covariance in predict.factor_covariances(
                    self.model_, styled, state.factors, weight > posterior.IMPROBABLE
                ):
                    own = ((projection @ covariance) * projection).sum(axis=2)
                    variance[rows.start + some] += weight[some, None] * own
        return mean, np.sqrt(variance)

    def _sampled_moments(self, this: Side, projection: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = np.zeros((this.n_rows, self.model_.n_factors))
        squares = np.zeros((this.n_rows, len(projection)))
        for state in posterior.draws(self.model_, this, self.n_draws, self._inference_seed()):
            factors = state.factors.astype(np.float64)
            total += factors
            squares += (factors @ projection.T) ** 2
        mean = total / self.n_draws
        variance = squares / self.n_draws - (mean @ projection.T) ** 2
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def _questions(self) -> dict[str, str]:
        schema = getattr(self, "about_", {}).get("schema")
        columns = schema.get("columns", []) if isinstance(schema, dict) else []
        known = [one for one in columns if isinstance(one, dict) and one.get("question")]
        return {str(one.get("name")): str(one["question"]) for one in known}


def column_names(estimator: Any) -> list[str]:
    """Names of the columns of a fitted model; by position when they have none."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"column {i}" for i in range(estimator.n_features_in_)]
    return [str(name) for name in names]


def readable_factors(n_questions: int) -> int:
    """How many factors to report on: fewer than predict best."""
    wanted = min(n_questions // _QUESTIONS_PER_FACTOR, _MOST_TO_READ)
    return min(max(wanted, _FEWEST_TO_READ), n_questions)


def number_to_read(model: Any, **solution: Any) -> int:
    """The largest number of a model's factors such that each has questions of its own."""
    for number in range(min(MOST_COMPARED, *model.model_.weights.shape), 1, -1):
        items = model.factor_solution(n_factors=number, **solution).reliability["items"]
        if items.min() >= FEWEST_ITEMS:
            return number
    return 1


def _sample_of(design: SurveyDesign, n_rows: int, weight: np.ndarray | None) -> Sample:
    if weight is not None:
        raise DataError("A design holds the weights; leave out sample_weight.")
    if design.sample.weight.size != n_rows:
        raise DataError(
            f"The design has {design.sample.weight.size:,} rows, but X {n_rows:,}; give the same rows."
        )
    return design.sample


def factor_names(solution: Solution) -> list[str]:
    """Names by rank: "Factor 1" explains most."""
    return [f"Factor {k + 1}" for k in range(solution.loadings.shape[1])]


def _with_categories(questions: dict[str, str], asked: Mapping[str, _Asked]) -> dict[str, str]:
    for item, one in asked.items():
        text = questions.get(one.name)
        if one.kind == NOMINAL and one.column >= 0 and text and item not in questions:
            questions[item] = f"{text}{item.removeprefix(one.name)}"
    return questions


def _reliability(
    solution: Solution,
    factors: list[str],
    model: VectorModel,
    answers: Observations | None,
    weight: np.ndarray | None,
) -> pd.DataFrame:
    plan = model.layout
    kind = plan.kind[plan.question]
    # Categories of one question exclude each other and are not added up.
    every = [own[kind[own] != NOMINAL] for own in reading.own_items(solution)]
    keys = [np.sign(solution.loadings[own, k]) for k, own in enumerate(every)]
    found: dict[str, Any] = {
        "items": [len(own) for own in every],
        "explained": (solution.structure * solution.loadings).mean(axis=0),
        "omega": [reading.omega(solution, own, key) for own, key in zip(every, keys, strict=True)],
    }
    if solution.n_general:
        by_factor = enumerate(zip(every, keys, strict=True))
        found["omega_h"] = [reading.omega(solution, *of_sum, alone=k) for k, of_sum in by_factor]
    if answers is not None:
        levels = answers.to_dense().astype(np.float64)
        levels[levels < 0] = np.nan
        scales = [kind[own] == ORDINAL for own in every]
        found["alpha"] = [
            reading.cronbach_alpha(levels[:, plan.question[own[some]]], key[some], weight)
            for own, key, some in zip(every, keys, scales, strict=True)
        ]
    return pd.DataFrame(found, index=factors)

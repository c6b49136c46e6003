"""Mean answers of groups, with intervals that know how much is not known.

Gaps are filled several times by what the model draws for them from each person's other answers.
The variance of a mean is then, by Rubin's rules, that among people and that between the fillings.
Where a question does not apply or was not asked there is nothing to fill: the person does not
count for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import t as student_t

from ordinalrbm.data.scales import Scale
from ordinalrbm.data.tables import Encoded
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate.pooling import rubin
from ordinalrbm.files.schema import Column
from ordinalrbm.files.survey import REASONS
from ordinalrbm.report.comparing import FEWEST_PEOPLE, Comparison, Groups, welch
from ordinalrbm.report.groups import Grouping, Moments, counting, moments

N_FILLINGS = 10
_ROUNDING = 1e-9
_NOTHING_TO_FILL = [REASONS.index(sort) for sort in ("not asked", "not applicable")]


class QuestionMeans(NamedTuple):
    """Mean answers, (G, Q) each, NaN where nobody in the group has answered."""

    grouping: Grouping
    answered: np.ndarray  # how many people have
    mean: np.ndarray
    low: np.ndarray  # of a 95 % interval within the scale; NaN for a single person
    high: np.ndarray
    comparisons: list[Comparison | None]  # one for each question


def level_values(scale: Scale, column: Column | None) -> np.ndarray:
    """Numbers to average: the codes of the file where these rise with the levels, else 1 to L.

    Examples
    --------
    >>> column = Column("q", "ordinal", levels=(0, 5, 10), names=("bad", "so-so", "good"))
    >>> level_values(Scale(column.names), column).tolist()
    [0.0, 5.0, 10.0]
    >>> level_values(Scale(("never", "often")), None).tolist()
    [1.0, 2.0]
    """
    codes = scale.labels if column is None or not column.levels else column.levels
    if len(codes) == scale.n_levels and not any(isinstance(c, str | bool) for c in codes):
        numbers = np.array(codes, dtype=np.float64)
        if (np.diff(numbers) > 0).all():
            return numbers
    return np.arange(1.0, scale.n_levels + 1.0)


def question_means(
    model: CumulativeRBM, answers: Encoded, values: list[np.ndarray], groupings: list[Grouping],
    weight: np.ndarray | None = None, no_answers: np.ndarray | None = None, random_state: int = 0,
    numeric: Sequence[str] = (),
) -> list[QuestionMeans]:  # fmt: skip
    """Mean answers to all questions on ordered scales, then of numbers, in the groups of variables.

    Parameters
    ----------
    model : CumulativeRBM, fitted
    answers : Encoded
        People who have answered something.
    values : list of arrays
        What the levels of each question count; see :func:`level_values`.
    groupings : list of Grouping
        Of the same people.
    weight : (n,) array, optional
    no_answers : (n, Q) array, optional
        Why answers lack, as a survey tells it.
    random_state : int
        Seed of the fillings.
    numeric : sequence of str
        Columns beside the answers that are numbers.
    """
    weights = counting(weight, answers.shape[0])
    given = ~np.isnan(_as_numbers(answers, values, numeric))
    open_ended = [(-np.inf, np.inf)] * len(numeric)
    bounds = np.array([*((own.min(), own.max()) for own in values), *open_ended]).T
    found: list[list[Moments]] = [[] for _ in groupings]
    fillings = _fillings(model, answers, values, numeric, no_answers, random_state)
    for numbers in fillings:
        for own, grouping in zip(found, groupings, strict=True):
            own.append(moments(numbers, grouping, weights))
    made = []
    for own, grouping in zip(found, groupings, strict=True):
        answered = moments(np.where(given, 1.0, np.nan), grouping, weights).people
        made.append(_pooled_means(own, grouping, answered, bounds))
    return made


def has_gaps(answers: Encoded, numeric: Sequence[str]) -> bool:
    """Whether some answer on a scale, or some number, is missing."""
    beside = answers.beside
    lacks_number = beside is not None and bool(beside[list(numeric)].isna().any(axis=None))
    return bool(answers.observations.density < 1.0) or lacks_number


def _fillings(
    model: CumulativeRBM, answers: Encoded, values: list[np.ndarray], numeric: Sequence[str],
    no_answers: np.ndarray | None, random_state: int,
) -> Iterator[np.ndarray]:  # fmt: skip
    """Answers as numbers, (n, Q), the gaps filled anew each time; once if there are none."""
    original = _as_numbers(answers, values, numeric)
    does_not_apply = np.zeros(original.shape, dtype=bool)
    if no_answers is not None:
        scales = slice(0, no_answers.shape[1])
        does_not_apply[:, scales] = np.isnan(original[:, scales])
        does_not_apply[:, scales] &= np.isin(no_answers, _NOTHING_TO_FILL)
    # The model's draws do not depend on which gaps are wanted.
    if not (np.isnan(original) & ~does_not_apply).any():
        yield original
        return
    for table in model.impute(
        answers, n_draws=N_FILLINGS, parameters="fixed", fill_never_asked=True,
        random_state=random_state,
    ):  # fmt: skip
        yield np.where(does_not_apply, np.nan, _as_numbers(table, values, numeric))


def _as_numbers(
    answers: Encoded | pd.DataFrame, values: list[np.ndarray], numeric: Sequence[str]
) -> np.ndarray:
    """(n, Q) what levels count, then numbers; NaN where there is none."""
    beside: Any = answers.beside if isinstance(answers, Encoded) else answers
    if isinstance(answers, Encoded):
        level = answers.observations.to_dense()
    else:  # as a model fills it where there are columns of other kinds
        scales = answers.columns[: len(values)]
        level = np.column_stack([answers[name].cat.codes for name in scales])
    counted = [np.append(own, np.nan)[level[:, j]] for j, own in enumerate(values)]
    numbers = [beside[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in numeric]
    return np.column_stack([*counted, *numbers])


def _pooled_means(
    draws: list[Moments], grouping: Grouping, answered: np.ndarray, bounds: np.ndarray
) -> QuestionMeans:
    means, errors = (np.stack([getattr(one, part) for one in draws]) for part in ("mean", "error"))
    size = np.mean([one.size for one in draws], axis=0)
    variance = np.mean([one.variance for one in draws], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):  # groups of nobody or of one
        pooled = rubin(means, errors, size - 1.0)
        # Where nothing was filled, nothing is lost.
        freedom = np.where(pooled.share > 0, pooled.freedom, size - 1.0)
        reach = student_t.ppf(0.975, freedom) * pooled.error
    nobody = answered == 0
    mean = np.where(nobody, np.nan, pooled.estimate)
    comparisons = []
    for j in range(mean.shape[1]):
        every = Groups(mean[:, j], variance[:, j], pooled.error[:, j], freedom[:, j], size[:, j])
        comparisons.append(welch(every.of(answered[:, j] >= FEWEST_PEOPLE)))
    low, high = _within(mean, reach, *bounds)
    return QuestionMeans(grouping, answered, mean, low, high, comparisons)


def _within(
    mean: np.ndarray, reach: np.ndarray, lowest: np.ndarray, highest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals that do not leave their scales.

    Where mean ± reach would, the interval is made for the logit of the mean's place on the scale,
    as is usual for shares, and so becomes shorter on the side of the near end.

    Examples
    --------
    >>> low, high = _within(np.array([2.5, 3.95]), np.array([0.2, 0.06]), 1.0, 4.0)
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([2.3, 3.84], [2.7, 3.99])
    """
    low, high = mean - reach, mean + reach
    # Where everybody answers the same, a rounded mean may lie beyond the end by itself.
    leaves = (reach > _ROUNDING) & ((low < lowest) | (high > highest))
    with np.errstate(invalid="ignore", divide="ignore"):  # numbers without ends, means at an end
        place = (mean - lowest) / (highest - lowest)
        spread = reach / ((highest - lowest) * place * (1.0 - place))
        ends = [lowest + (highest - lowest) * expit(logit(place) + s * spread) for s in (-1, 1)]
    return np.where(leaves, ends[0], low), np.where(leaves, ends[1], high)

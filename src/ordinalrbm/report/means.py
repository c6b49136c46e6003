"""Mean answers of groups, with intervals that know how much is not known.

Gaps are filled several times by what the model draws for them from each person's other answers.
The variance of a mean is then, by Rubin's rules, that among people and that between the fillings.
Where a question does not apply or was not asked there is nothing to fill: the person does not
count for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student_t

from ordinalrbm.data.scales import Scale
from ordinalrbm.data.tables import Encoded
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.files.schema import Column
from ordinalrbm.files.survey import REASONS
from ordinalrbm.report.comparing import FEWEST_PEOPLE, Comparison, Groups, welch
from ordinalrbm.report.groups import Grouping, Moments, counting, moments

N_FILLINGS = 10
_NOTHING_TO_FILL = [REASONS.index(sort) for sort in ("not asked", "not applicable")]


class QuestionMeans(NamedTuple):
    """Mean answers, (G, Q) each, NaN where nobody in the group has answered."""

    grouping: Grouping
    answered: np.ndarray  # how many people have
    mean: np.ndarray
    low: np.ndarray  # of a 95 % interval; NaN for a single person
    high: np.ndarray
    comparisons: list[Comparison | None]  # one for each question


class Pooled(NamedTuple):
    """Estimates from several fillings by Rubin's rules."""

    estimate: np.ndarray
    error: np.ndarray
    freedom: np.ndarray


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
) -> list[QuestionMeans]:  # fmt: skip
    """Mean answers to all questions in the groups of several variables.

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
    """
    weights, given = counting(weight, answers.shape[0]), answers.observations.to_dense() >= 0
    found: list[list[Moments]] = [[] for _ in groupings]
    for numbers in _fillings(model, answers, values, given, no_answers, random_state):
        for own, grouping in zip(found, groupings, strict=True):
            own.append(moments(numbers, grouping, weights))
    made = []
    for own, grouping in zip(found, groupings, strict=True):
        answered = moments(np.where(given, 1.0, np.nan), grouping, weights).people
        made.append(_pooled_means(own, grouping, answered))
    return made


def _fillings(
    model: CumulativeRBM, answers: Encoded, values: list[np.ndarray], given: np.ndarray,
    no_answers: np.ndarray | None, random_state: int,
) -> Iterator[np.ndarray]:  # fmt: skip
    """Answers as numbers, (n, Q), the gaps filled anew each time; once if there are none."""
    does_not_apply = np.zeros(given.shape, dtype=bool)
    if no_answers is not None:
        does_not_apply = ~given & np.isin(no_answers, _NOTHING_TO_FILL)
    # The model's draws do not depend on which gaps are wanted.
    complete = given | does_not_apply
    tables = [answers]
    if not complete.all():
        tables = model.impute(
            answers, n_draws=N_FILLINGS, parameters="fixed", random_state=random_state
        )
    for table in tables:
        level = table.observations.to_dense()
        numbers = np.column_stack([own[level[:, j]] for j, own in enumerate(values)])
        numbers[does_not_apply | (level < 0)] = np.nan
        yield numbers


def _pooled_means(draws: list[Moments], grouping: Grouping, answered: np.ndarray) -> QuestionMeans:
    means, errors = (np.stack([getattr(one, part) for one in draws]) for part in ("mean", "error"))
    size = np.mean([one.size for one in draws], axis=0)
    variance = np.mean([one.variance for one in draws], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):  # groups of nobody or of one
        pooled = pool(means, errors, size - 1.0)
        reach = student_t.ppf(0.975, pooled.freedom) * pooled.error
    nobody = answered == 0
    mean = np.where(nobody, np.nan, pooled.estimate)
    comparisons = []
    for j in range(mean.shape[1]):
        every = Groups(
            mean[:, j], variance[:, j], pooled.error[:, j], pooled.freedom[:, j], size[:, j]
        )
        comparisons.append(welch(every.of(answered[:, j] >= FEWEST_PEOPLE)))
    return QuestionMeans(grouping, answered, mean, mean - reach, mean + reach, comparisons)


def pool(estimates: np.ndarray, errors: np.ndarray, complete: np.ndarray) -> Pooled:
    """Rubin's rules with Barnard and Rubin's degrees of freedom, over the first axis.

    As :func:`ordinalrbm.pool`, for estimates that rest on different numbers of people: ``complete``
    are the degrees of freedom that each would have if nothing were missing.

    Examples
    --------
    >>> found = pool(np.array([[2.9], [3.1], [3.0]]), np.full((3, 1), 0.1), np.array([1000.0]))
    >>> [round(part.item(), 2) for part in found]
    [3.0, 0.15, 6.04]
    """
    m = len(estimates)
    estimate, within = estimates.mean(axis=0), (errors**2).mean(axis=0)
    if m == 1:
        return Pooled(estimate, np.sqrt(within), complete)
    between = estimates.var(axis=0, ddof=1) * (1.0 + 1.0 / m)
    total = within + between
    share = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    observed = (complete + 1.0) / (complete + 3.0) * complete * (1.0 - share)
    filled = (m - 1) / np.maximum(share, 1e-4) ** 2
    # Where nothing was filled, nothing is lost.
    freedom = np.where(between > 0, filled * observed / (filled + observed), complete)
    return Pooled(estimate, np.sqrt(total), freedom)

"""Groups of people by their background: how they differ on factors, and question by question.

Mean answers have intervals that know how much is not known. Gaps are filled several times by what
the model draws for them from each person's other answers; the variance of a mean is then, by
Rubin's rules, that among people and that between the fillings. Where a question does not apply or
was not asked there is nothing to fill: the person does not count for it.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from scipy.special import expit, logit
from scipy.stats import t as student_t

from ordinalrbm.data.never_asked import never_asked
from ordinalrbm.data.scales import Scale
from ordinalrbm.data.tables import Encoded
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.invariance import SHOWN
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.files.survey import REASONS
from ordinalrbm.pages.factors import NamedFactor
from ordinalrbm.pages.page import Label, Table, join_labels, packed_json
from ordinalrbm.schema.schema import Column, Schema
from ordinalrbm.schema.vocabulary import PHRASES, name_words, words_of
from ordinalrbm.stats.design import GroupMoments, Sample, group_moments
from ordinalrbm.stats.pooling import rubin
from ordinalrbm.stats.welch import (
    ALPHA,
    FEWEST_PEOPLE,
    Comparison,
    Moments,
    counting,
    holm,
    moments,
    most_sure,
    welch,
)

FEWEST, MOST = 2, 30
# Numbers with more values than this make bands, each with a quarter of the people.
_MOST_NUMBERS, _BANDS = 12, 4
_COLUMNS = ["factor", "group", "count", "mean", "standard_error", "difference", "low", "high", "effect"]
N_FILLINGS = 10
_ROUNDING = 1e-9
_NOTHING_TO_FILL = [REASONS.index(sort) for sort in ("not asked", "not applicable")]
MOST_SHOWN = 8
_PANELS = 3
# What readers look for first, by words in names and short labels; and what is not about the respondent.
_DEMOGRAPHICS = tuple(map(words_of, PHRASES["names"]["demographic"]))
_SHORT_LABEL = 8  # words; a longer one is a question that happens to hold such a word
_FEW_GROUPS = 8  # stand in the order of the file; more, by their means
# A group that was not asked questions with this share of a factor's squared loadings says nothing
# of its own about the factor.
_RESTS_ON = 0.05
_NARROWEST = 0.1  # what a chart reaches to either side at least, in standard deviations


# ---- groups -----------------------------------------------------------------------------------


class Grouping(NamedTuple):
    """People in groups by a background variable."""

    name: str
    code: np.ndarray  # (n,) place of each person's group, -1 where it is not known
    groups: tuple[str, ...]
    ordered: bool
    banded: bool = False

    @property
    def counts(self) -> np.ndarray:
        """How many people each group has."""
        return np.bincount(self.code[self.code >= 0], minlength=len(self.groups))

    @property
    def of_people(self) -> pd.Series:
        """The group of each person, in the order of the groups."""
        return pd.Series(
            pd.Categorical.from_codes(self.code, list(self.groups), ordered=True), name=self.name
        )


def groupings(background: pd.DataFrame) -> tuple[list[Grouping], dict[str, str]]:
    """Background variables that make groups; and the others, each with the reason why not."""
    made = {str(name): grouping_of(background[name]) for name in background.columns}
    found = [one for one in made.values() if isinstance(one, Grouping)]
    return found, {name: why for name, why in made.items() if isinstance(why, str)}


def grouping_of(values: pd.Series) -> Grouping | str:
    """The groups of a variable, or the reason why there are none to compare.

    Numbers with many values make four bands of about equally many people.
    """
    is_number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if is_number and values.nunique() > _MOST_NUMBERS:
        return _bands(values)
    column = values.astype("category") if values.dtype != "category" else values
    column = column.cat.remove_unused_categories()
    kinds = [str(kind) for kind in column.cat.categories]
    if len(kinds) < FEWEST:
        return "one group only" if kinds else "nothing is known of anybody"
    if len(kinds) > MOST:
        return f"{len(kinds):,} groups, more than {MOST}"
    code = column.cat.codes.to_numpy(np.int64)
    return Grouping(str(values.name), code, tuple(kinds), is_number or bool(column.cat.ordered))


def _bands(values: pd.Series) -> Grouping | str:
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    known = np.isfinite(numbers)
    inner = np.unique(np.quantile(numbers[known], np.arange(1, _BANDS) / _BANDS))
    code = np.where(known, np.searchsorted(inner, numbers), -1)
    used, place = np.unique(code[known], return_inverse=True)
    if len(used) < FEWEST:
        return "nearly all the same"
    code[known] = place
    ends = [(numbers[code == k].min(), numbers[code == k].max()) for k in range(len(used))]
    for digits in (6, 9, 12, 17):  # as many as tell the bands apart
        texts = [(_number(low, digits), _number(high, digits)) for low, high in ends]
        names = [low if low == high else f"{low} to {high}".replace("-", "−") for low, high in texts]
        if len(set(names)) == len(names):
            break
    return Grouping(str(values.name), code, tuple(names), ordered=True, banded=True)


def _number(value: float, digits: int) -> str:
    return f"{value:.0f}" if value % 1 == 0 and abs(value) < 1e15 else f"{value:.{digits}g}"


# ---- means of factors -------------------------------------------------------------------------


class GroupMeans(NamedTuple):
    """Mean factors of the groups of a background variable.

    The table has one line per factor and group; ``difference`` is that from the mean of all who are
    compared, in standard deviations of the factor among them, with a 95 % interval; ``effect`` is
    the design effect of the mean, NaN where no clusters, strata or replicates are known.
    """

    grouping: Grouping
    comparisons: list[Comparison | None]  # of each factor, None where none was possible
    table: pd.DataFrame
    tested: np.ndarray  # (G, K) which groups take part in each test
    n_tested: np.ndarray  # (K,) how many people are in these


def group_means(
    factors: np.ndarray,
    grouping: Grouping,
    weight: np.ndarray | None = None,
    without: np.ndarray | None = None,
    sample: Sample | None = None,
) -> GroupMeans:
    """Mean of every factor, (n, K), in every group, with standard errors; people may have weights.

    With a ``sample``, which has the weights as well, errors and tests are those of its design. Who
    has no group is left out, and so are the groups that ``without``, (G, K), marks.
    """
    weights, n_groups = counting(weight, len(factors)), len(grouping.groups)
    absent = np.zeros((n_groups, factors.shape[1]), bool) if without is None else without
    values = np.where(absent[grouping.code], np.nan, factors)
    found, made = _moments(values, grouping, weights, sample)
    tested = (found.people >= FEWEST_PEOPLE) & ~absent & ~np.isnan(found.error)
    comparisons = _compared(found, tested, made and made.covariance, made and made.every.freedom[-1])
    if made is None:
        difference, low, high = _from_everybody(values, grouping.code, found, weights)
    else:
        apart = made.contrast(np.eye(n_groups, n_groups + 1) - np.eye(n_groups + 1)[-1])
        spread = np.sqrt(np.where(made.every.variance[-1] > 0, made.every.variance[-1], 1.0))
        reach = student_t.ppf(0.975, apart[2]) * apart[1]
        difference, low, high = (part / spread for part in (apart[0], apart[0] - reach, apart[0] + reach))
    k, g = np.nonzero((found.people > 0).T)
    effect = np.full(found.mean.shape, np.nan) if made is None else made.effect[:-1]
    parts = (found.people, found.mean, found.error, difference, low, high, effect)
    columns = [k, np.array(grouping.groups, dtype=object)[g], *(part[g, k] for part in parts)]
    table = pd.DataFrame(dict(zip(_COLUMNS, columns, strict=True)))
    return GroupMeans(grouping, comparisons, table, tested, (tested * found.people).sum(axis=0))


def _moments(
    values: np.ndarray, grouping: Grouping, weights: np.ndarray, sample: Sample | None
) -> tuple[Moments, GroupMoments | None]:
    if sample is None:
        return moments(values, grouping.code, len(grouping.groups), weights), None
    made = group_moments(values, grouping.code, len(grouping.groups), sample)
    return Moments(*(part[:-1] for part in made.every)), made


def _compared(
    found: Moments, tested: np.ndarray, covariance: np.ndarray | None, freedom: np.ndarray | None
) -> list[Comparison | None]:
    if covariance is None or freedom is None:
        return [welch(found.at(own, q)) for q, own in enumerate(tested.T)]
    return [
        welch(found.at(own, q), covariance[q][np.ix_(np.flatnonzero(own), np.flatnonzero(own))], freedom[q])
        for q, own in enumerate(tested.T)
    ]


def _from_everybody(
    values: np.ndarray, code: np.ndarray, found: Moments, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(G, K) how far groups are from the mean of all, in standard deviations; 95 % intervals.

    All include the group, so that the difference is (1 − p) times that from the rest, with p the
    group's share of the weights; so is its standard error. Few people know it less well: Student's
    t with Welch's degrees of freedom.
    """
    own = np.where(np.isnan(values), 0.0, weights[:, None]) * (code >= 0)[:, None]
    total, known = own.sum(axis=0), np.nan_to_num(values)
    difference, reach = np.zeros((2, *found.mean.shape))
    with np.errstate(invalid="ignore", divide="ignore"):  # groups of nobody, of one, or of all
        mean = (own * known).sum(axis=0) / total
        spread = np.sqrt((own * (known - mean) ** 2).sum(axis=0) / total)
        for g in range(len(difference)):
            rest = moments(values, np.where(code == g, -1, np.minimum(code, 0)), 1, weights).at(0)
            share = own[code == g].sum(axis=0) / total
            variances = np.stack([found.error[g] ** 2, rest.error**2])
            freedom = np.stack([found.people[g], rest.people]) - 1
            degrees = variances.sum(axis=0) ** 2 / (variances**2 / freedom).sum(axis=0)
            sure = student_t.ppf(0.975, np.where(degrees > 0, degrees, np.inf))
            reach[g] = sure * (1.0 - share) * np.sqrt(variances.sum(axis=0))
            difference[g] = np.where(rest.people > 0, (1.0 - share) * (found.mean[g] - rest.mean), 0.0)
    spread = np.where(spread > 0, spread, 1.0)
    return difference / spread, (difference - reach) / spread, (difference + reach) / spread


# ---- means of answers -------------------------------------------------------------------------


class QuestionMeans(NamedTuple):
    """Mean answers, (G, Q) each, NaN where nobody in the group has answered."""

    grouping: Grouping
    answered: np.ndarray  # how many people have
    mean: np.ndarray
    low: np.ndarray  # of a 95 % interval within the scale; NaN for a single person
    high: np.ndarray
    comparisons: list[Comparison | None]  # one for each question
    effect: np.ndarray | None = None  # design effects, where the sample is known


def level_values(scale: Scale, column: Column | None) -> np.ndarray:
    """Numbers to average: the codes of the file where these rise with the levels, else 1 to L."""
    codes = scale.labels if column is None or not column.levels else column.levels
    if len(codes) == scale.n_levels and not any(isinstance(c, str | bool) for c in codes):
        numbers = np.array(codes, dtype=np.float64)
        if (np.diff(numbers) > 0).all():
            return numbers
    return np.arange(1.0, scale.n_levels + 1.0)


def question_means(
    model: CumulativeRBM,
    answers: Encoded,
    values: list[np.ndarray],
    groupings: list[Grouping],
    weight: np.ndarray | None = None,
    no_answers: np.ndarray | None = None,
    random_state: int = 0,
    numeric: Sequence[str] = (),
    sample: Sample | None = None,
) -> list[QuestionMeans]:
    """Mean answers to all questions on ordered scales, then of numbers, in the groups of variables.

    ``values`` are what the levels of each question count (:func:`level_values`), ``no_answers``
    says why answers lack, as a survey tells it, and ``numeric`` names columns beside the answers.
    """
    weights = counting(weight, answers.shape[0])
    given = ~np.isnan(_as_numbers(answers, values, numeric))
    open_ended = [(-np.inf, np.inf)] * len(numeric)
    bounds = np.array([*((own.min(), own.max()) for own in values), *open_ended]).T
    found: list[list[tuple[Moments, GroupMoments | None]]] = [[] for _ in groupings]
    for numbers in _fillings(model, answers, values, numeric, no_answers, random_state):
        for own, grouping in zip(found, groupings, strict=True):
            own.append(_moments(numbers, grouping, weights, sample))
    there, made = np.where(given, 1.0, np.nan), []
    for own, grouping in zip(found, groupings, strict=True):
        answered = moments(there, grouping.code, len(grouping.groups), weights).people
        made.append(_pooled_means(own, grouping, answered, bounds))
    return made


def _fillings(
    model: CumulativeRBM,
    answers: Encoded,
    values: list[np.ndarray],
    numeric: Sequence[str],
    no_answers: np.ndarray | None,
    random_state: int,
) -> Iterator[np.ndarray]:
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
        answers, n_draws=N_FILLINGS, parameters="fixed", fill_never_asked=True, random_state=random_state
    ):
        yield np.where(does_not_apply, np.nan, _as_numbers(table, values, numeric))


def _as_numbers(
    answers: Encoded | pd.DataFrame, values: list[np.ndarray], numeric: Sequence[str]
) -> np.ndarray:
    """(n, Q) what levels count, then numbers; NaN where there is none."""
    beside: Any = answers.extra if isinstance(answers, Encoded) else answers
    if isinstance(answers, Encoded):
        level = answers.observations.to_dense()
    else:  # as a model fills it where there are columns of other kinds
        scales = answers.columns[: len(values)]
        level = np.column_stack([answers[name].cat.codes for name in scales])
    counted = [np.append(own, np.nan)[level[:, j]] for j, own in enumerate(values)]
    numbers = [beside[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in numeric]
    return np.column_stack([*counted, *numbers])


def _pooled_means(
    found: list[tuple[Moments, GroupMoments | None]],
    grouping: Grouping,
    answered: np.ndarray,
    bounds: np.ndarray,
) -> QuestionMeans:
    draws, made = [one for one, _ in found], [one for _, one in found if one is not None]
    means, errors = (np.stack([getattr(one, part) for one in draws]) for part in ("mean", "error"))
    size = np.mean([one.size for one in draws], axis=0)
    variance, complete = (
        np.mean([getattr(one, part) for one in draws], axis=0) for part in ("variance", "freedom")
    )
    with np.errstate(invalid="ignore", divide="ignore"):  # groups of nobody or of one
        pooled = rubin(means, errors, complete)
        # Where nothing was filled, nothing is lost.
        freedom = np.where(pooled.share > 0, pooled.freedom, complete)
        reach = student_t.ppf(0.975, freedom) * pooled.error
    mean = np.where(answered == 0, np.nan, pooled.estimate)
    every = Moments(mean, variance, pooled.error, freedom, size, answered)
    enough = (answered >= FEWEST_PEOPLE) & ~np.isnan(pooled.error)
    covariance, of_all, effect = None, None, None
    if made:  # fillings of one group know nothing of those of another
        covariance = np.mean([one.covariance[:, :-1, :-1] for one in made], axis=0)
        np.einsum("qgg->gq", covariance)[:] += pooled.error**2 - (errors**2).mean(axis=0)
        of_all = np.mean([one.every.freedom[-1] for one in made], axis=0)
        effect = np.mean([one.effect[:-1] for one in made], axis=0)
    low, high = _within(mean, reach, *bounds)
    comparisons = _compared(every, enough, covariance, of_all)
    return QuestionMeans(grouping, answered, mean, low, high, comparisons, effect)


def _within(
    mean: np.ndarray, reach: np.ndarray, lowest: np.ndarray, highest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals that do not leave their scales.

    Where mean ± reach would, the interval is made for the logit of the mean's place on the scale,
    as is usual for shares, and so becomes shorter on the side of the near end.
    """
    low, high = mean - reach, mean + reach
    # Where everybody answers the same, a rounded mean may lie beyond the end by itself.
    leaves = (reach > _ROUNDING) & ((low < lowest) | (high > highest))
    with np.errstate(invalid="ignore", divide="ignore"):  # numbers without ends, means at an end
        place = (mean - lowest) / (highest - lowest)
        spread = reach / ((highest - lowest) * place * (1.0 - place))
        ends = [lowest + (highest - lowest) * expit(logit(place) + s * spread) for s in (-1, 1)]
    return np.where(leaves, ends[0], low), np.where(leaves, ends[1], high)


# ---- the section ------------------------------------------------------------------------------


class Compared(NamedTuple):
    """People who have answered something, and what is known of them, row by row."""

    table: Encoded  # what the model takes
    asked: Encoded  # its part that are questions
    numeric: tuple[str, ...]  # those of them, beside the answers, that are numbers
    background: pd.DataFrame
    scores: np.ndarray
    weight: np.ndarray | None
    no_answers: np.ndarray | None
    schema: Schema
    sample: Sample | None = None

    @property
    def names(self) -> list[str]:
        """Names of the questions, those on ordered scales first."""
        return self.asked.header or []

    @property
    def averaged(self) -> list[int]:
        """Positions of the questions whose answers have a mean."""
        return [*range(self.asked.shape[1]), *map(self.names.index, self.numeric)]

    @property
    def values(self) -> list[np.ndarray]:
        """What the levels of each question count."""
        columns = {column.name: column for column in self.schema.columns}
        known = zip(self.asked.names or [], self.asked.scales, strict=True)
        return [level_values(scale, columns.get(name)) for name, scale in known]


class _Tested(NamedTuple):
    """A background variable, its groups' factors, and p-values adjusted over all variables."""

    means: GroupMeans
    adjusted: list[float]
    never: np.ndarray  # (G, Q) whether a group was never asked a question
    without: np.ndarray  # (G, K) which groups are left out of which factor
    itself: np.ndarray  # (K,) which factors rest on the very question that makes the groups

    @property
    def strongest(self) -> list[int]:
        """Factors on which groups surely differ most come first."""
        return most_sure(self.means.comparisons, self.adjusted)

    @property
    def best(self) -> tuple[Comparison | None, float]:
        """The test of the first of these factors, and its p-value."""
        return self.means.comparisons[self.strongest[0]], self.adjusted[self.strongest[0]]

    @property
    def n_compared(self) -> tuple[int, int]:
        """How many people and groups take part in that test."""
        k = self.strongest[0]
        return int(self.means.n_tested[k]), int(self.means.tested[:, k].sum())


def group_sections(
    model: CumulativeRBM,
    people: Compared,
    factors: list[NamedFactor],
    labels: dict[str, Label],
    first: str | None = None,
    random_state: int = 0,
) -> dict[str, object]:
    """What the page shows of groups; ``first`` is the variable to show in front."""
    if not factors:
        return {"variables": [], "others": [], "no_factor": True, "leader": None}
    found, others = groupings(people.background)
    tested = _tested(people, found, factors)
    best, p = [one.best[0] for one in tested], [one.best[1] for one in tested]
    order = most_sure(best, p, [one.n_compared[0] / len(people.scores) for one in tested])
    leader = _leader(tested[order[0]], factors, labels) if order else None
    names = [one.means.grouping.name for one in tested]
    order.sort(key=lambda k: (names[k] != first, _demographic(names[k], labels[names[k]])))
    shown = [tested[k] for k in order[:MOST_SHOWN]]
    for k in order[MOST_SHOWN:]:
        others[found[k].name] = f"beyond the first {MOST_SHOWN}"
    means = question_means(
        model,
        people.table,
        people.values,
        [one.means.grouping for one in shown],
        people.weight,
        people.no_answers,
        random_state,
        numeric=people.numeric,
        sample=people.sample,
    )
    adjusted = _adjusted([one.comparisons for one in means])
    questions = [labels[name] for name in people.names]
    numbers = _as_numbers(people.table, people.values, people.numeric)
    everybody = np.zeros(len(numbers), dtype=np.int64)
    spread = np.sqrt(moments(numbers, everybody, 1, counting(people.weight, len(numbers))).variance[0])
    return {
        "no_factor": False,
        "leader": leader,
        "overview": _overview(shown, factors, labels),
        "variables": [
            _section(one, own, p, factors, labels, questions, people.averaged, spread)
            for one, own, p in zip(shown, means, adjusted, strict=True)
        ],
        "others": [(labels[name], why) for name, why in others.items()],
        "n_tests": tuple(
            sum(test is not None for one in own for test in one.comparisons)
            for own in ([one.means for one in tested], means)
        ),
        "n_fillings": N_FILLINGS,
        "has_gaps": bool(np.isnan(numbers).any()),
        "fewest": FEWEST_PEOPLE,
        "invariance": _invariance(model, people, first, labels),
        "of_design": people.sample is not None,
    }


def _invariance(
    model: CumulativeRBM, people: Compared, group: str | None, labels: dict[str, Label]
) -> dict[str, object] | None:
    """Questions that work differently in the groups of a variable, if one was asked for."""
    grouping = None if group is None else grouping_of(people.background[group])
    if not isinstance(grouping, Grouping):
        return None
    weight = None if people.weight is None else counting(people.weight, len(people.scores))
    try:
        with warnings.catch_warnings():  # of small groups, which the page names
            warnings.simplefilter("ignore")
            found = model.invariance(people.table, grouping.of_people, sample_weight=weight)
    except DataError as error:
        return {"label": labels[grouping.name], "summary": str(error), "table": None}
    lines = found.deviating()[SHOWN]
    rows = [(labels[name], *line) for name, *line in lines.itertuples(index=False, name=None)]
    table = Table(tuple(SHOWN), rows, ("", "", *["+.2f"] * 4, ""))
    return {"label": labels[grouping.name], "summary": found.summary, "table": table if rows else None}


def _demographic(name: str, label: Label) -> int:
    """The place of a variable among those that readers look for first; others come last, as they are."""
    words = name_words(name) | (words_of(label.text) if len(label.text.split()) <= _SHORT_LABEL else set())
    places = [k for k, known in enumerate(_DEMOGRAPHICS) if words & known]
    return min(places, default=len(_DEMOGRAPHICS))


def _leader(one: _Tested, factors: list[NamedFactor], labels: dict[str, Label]) -> dict[str, object] | None:
    """The variable whose groups differ most, on which factor, and the groups at its ends."""
    (test, p), k = one.best, one.strongest[0]
    if test is None or not p < ALPHA:
        return None
    table = one.means.table
    own = table[(table["factor"] == k) & (table["count"] >= FEWEST_PEOPLE)].sort_values("difference")
    return {
        "name": one.means.grouping.name,
        "label": labels[one.means.grouping.name],
        "factor": factors[k].name,
        "test": test,
        "lowest": own["group"].iloc[0],
        "highest": own["group"].iloc[-1],
    }


def _tested(people: Compared, found: list[Grouping], factors: list[NamedFactor]) -> list[_Tested]:
    names = people.names
    rests = np.reshape([factor.rests for factor in factors], (len(factors), len(names))).T
    never = _never_asked(people, found)
    without = [one.astype(float) @ rests >= _RESTS_ON for one in never]
    nowhere = np.zeros(len(factors), dtype=bool)
    itself = [rests[names.index(own.name)] >= _RESTS_ON if own.name in names else nowhere for own in found]
    means = [
        group_means(people.scores, own, people.weight, absent | circular, people.sample)
        for own, absent, circular in zip(found, without, itself, strict=True)
    ]
    return list(map(_Tested, means, _adjusted([one.comparisons for one in means]), never, without, itself))


def _never_asked(people: Compared, found: list[Grouping]) -> list[np.ndarray]:
    """(G, Q) for each variable: whether nobody in a group was asked a question."""
    names = people.names
    groups = pd.DataFrame({str(k): pd.Series(one.code) for k, one in enumerate(found)})
    lacking = never_asked(people.asked, groups.where(groups >= 0)) if found else pd.DataFrame()
    masks = [np.zeros((len(one.groups), len(names)), dtype=bool) for one in found]
    for line in lacking.itertuples(index=False):
        masks[int(line.column)][int(line.group), names.index(line.question)] = True
    return masks


def _adjusted(families: list[list[Comparison | None]]) -> list[list[float]]:
    rest = iter(holm([test.p for family in families for test in family if test is not None]))
    return [[np.nan if test is None else next(rest) for test in family] for family in families]


def _overview(shown: list[_Tested], factors: list[NamedFactor], labels: dict[str, Label]) -> Table:
    rows = []
    for one in shown:
        (best, p), (n_people, n_groups) = one.best, one.n_compared
        most = "not tested" if best is None else factors[one.strongest[0]].label
        rows.append((labels[one.means.grouping.name], n_groups, n_people, most, *_size(best), p))
    head = ("groups by", "groups", "people", "they differ most on", "ω²", "from", "to", "p (Holm)")
    return Table(head, rows, ("", "d", ",d", "", ".1%", ".1%", ".1%", "p"))


def _size(test: Comparison | None) -> tuple[float | None, ...]:
    """How much groups differ, and from where to where that may be; None where there was no test."""
    return (None,) * 3 if test is None else (test.omega, test.low, test.high)


def _section(
    one: _Tested,
    means: QuestionMeans,
    adjusted: list[float],
    factors: list[NamedFactor],
    labels: dict[str, Label],
    questions: list[Label],
    averaged: list[int],
    spread: np.ndarray,
) -> dict[str, object]:
    own, (best, p) = one.means.grouping, one.best
    return {
        "label": labels[own.name],
        "n_groups": len(own.groups),
        "n_compared": one.n_compared,
        "banded": own.banded,
        "best": best,
        "best_factor": factors[one.strongest[0]].full,
        "differs": best is not None and p < ALPHA,
        "p": p,
        "tests": _tests(one, factors),
        "panels": _panels(one, factors),
        "left_out": _left_out(one, factors, questions),
        "itself": [factors[j].label for j in np.flatnonzero(one.itself)],
        "small": [g for g, n in zip(own.groups, own.counts, strict=True) if 0 < n < FEWEST_PEOPLE],
        "means": _banner(
            means,
            adjusted,
            [questions[j] for j in averaged],
            one.never[:, averaged],
            labels[own.name],
            spread,
        ),
    }


def _tests(one: _Tested, factors: list[NamedFactor]) -> Table:
    rows: list[tuple[object, ...]] = []
    for k in one.strongest:
        test = one.means.comparisons[k]
        rest: tuple[object, ...] = (None,) * 4
        if test is not None:
            rest = (test.statistic, f"{test.between:.0f}; {test.within:.1f}", test.p, one.adjusted[k])
        rows.append((factors[k].label, *_size(test), *rest))
    statistic = "F" if one.means.table["effect"].notna().any() else "Welch’s F"
    head = ("factor", "ω²", "from", "to", statistic, "df", "p", "p (Holm)")
    return Table(head, rows, ("", ".1%", ".1%", ".1%", ".2f", "", "p", "p"))


def _panels(one: _Tested, factors: list[NamedFactor]) -> list[dict[str, object]]:
    """Charts of the factors on which groups differ most, all on one scale."""
    chosen = one.strongest[:_PANELS]
    lines = one.means.table[one.means.table["factor"].isin(chosen)]
    ends = np.abs(lines[["difference", "low", "high"]].to_numpy(dtype=float))
    reach = max(float(np.nanmax(ends, initial=_NARROWEST)), _NARROWEST)
    order = list(one.means.grouping.groups)
    if not one.means.grouping.ordered and len(order) > _FEW_GROUPS:
        first = lines[lines["factor"] == chosen[0]].sort_values("difference", ascending=False, kind="stable")
        order = [*first["group"], *(g for g in order if g not in set(first["group"]))]
    panels = []
    for k in chosen:
        own = lines[lines["factor"] == k].set_index("group", drop=False)
        rows = own.loc[[group for group in order if group in own.index]].to_dict("records")
        panels.append({"label": factors[k].label, "reach": reach, "rows": rows})
    return panels


def _left_out(
    one: _Tested, factors: list[NamedFactor], questions: list[Label]
) -> list[tuple[str, Label, Markup]]:
    found = []
    for g, k in np.argwhere(one.without):
        weight = factors[k].rests * one.never[g]
        asked = [questions[j] for j in np.argsort(-weight, kind="stable")[:3] if weight[j] > 0]
        found.append((one.means.grouping.groups[g], factors[k].label, join_labels(asked)))
    return found


def _banner(
    means: QuestionMeans,
    adjusted: list[float],
    questions: list[Label],
    never: np.ndarray,
    variable: Label,
    spread: np.ndarray,
) -> dict[str, object]:
    """Mean answers for the page's script: a line per question other than the one that makes the groups.

    ``spread`` (Q,) are standard deviations of the answers among all.
    """
    rows: list[dict[str, Any]] = []
    for j in most_sure(means.comparisons, adjusted):
        if questions[j] == variable:
            continue
        parts = {"mean": means.mean, "low": means.low, "high": means.high}
        parts |= {} if means.effect is None else {"effect": means.effect}
        rows.append(
            {name: _rounded(part[:, j]) for name, part in parts.items()}
            | {
                "text": questions[j].text,
                "code": questions[j].code,
                "count": means.answered[:, j].astype(int).tolist(),
                "never": np.flatnonzero(never[:, j]).tolist(),
                "spread": _rounded(spread[j : j + 1])[0],
                "size": _size(means.comparisons[j]),
                "p": None if np.isnan(adjusted[j]) else adjusted[j],
            }
        )
    untested = sum(row["size"][0] is None for row in rows)
    heads = list(zip(means.grouping.groups, means.grouping.counts.tolist(), strict=True))
    return {"data": packed_json({"groups": heads, "rows": rows}), "n_untested": untested}


def _rounded(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values.tolist()]

"""Groups of people by their background: how they differ on factors, and question by question."""

import warnings
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
from ordinalrbm.pages.factors import NamedFactor
from ordinalrbm.pages.page import Label, Table, join_labels, packed_json
from ordinalrbm.schema.schema import Column, Schema
from ordinalrbm.schema.vocabulary import PHRASES, name_words, words_of
from ordinalrbm.stats.design import Sample, group_moments
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
_ROUNDING = 1e-9
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


# ---- means ------------------------------------------------------------------------------------


class GroupMeans(NamedTuple):
    """Means of several values in the groups of a background variable, (G, Q) each."""

    grouping: Grouping
    people: np.ndarray  # how many have the value
    mean: np.ndarray  # NaN where nobody has
    low: np.ndarray  # of a 95 % interval; NaN for a single person
    high: np.ndarray
    tested: np.ndarray  # whether the group takes part in the test
    comparisons: list[Comparison | None]  # of each value, None where no test was possible
    effect: np.ndarray | None  # design effects, where the sample is known


def group_means(
    values: np.ndarray,
    grouping: Grouping,
    weight: np.ndarray | None = None,
    sample: Sample | None = None,
    without: np.ndarray | None = None,
    bounds: np.ndarray | None = None,
) -> GroupMeans:
    """Means of values (n, Q), NaN where missing, with intervals and tests; people may have weights.

    With a ``sample``, which has the weights as well, errors and tests are those of its design.
    Groups that ``without``, (G, Q), marks are left out, and intervals do not leave ``bounds``, (2, Q).
    """
    code, n_groups = grouping.code, len(grouping.groups)
    if without is not None:
        values = np.where(without[code], np.nan, values)
    design = None if sample is None else group_moments(values, code, n_groups, sample)
    if design is None:
        by_group = moments(values, code, n_groups, counting(weight, len(values)))
    else:
        by_group = Moments(*(part[:-1] for part in design.every))
    tested = (by_group.people >= FEWEST_PEOPLE) & ~np.isnan(by_group.error)
    comparisons = []
    for q, taking_part in enumerate(tested.T):
        groups = np.flatnonzero(taking_part)
        if design is None:
            comparisons.append(welch(by_group.at(groups, q)))
        else:
            covariance = design.covariance[q][np.ix_(groups, groups)]
            comparisons.append(welch(by_group.at(groups, q), covariance, design.every.freedom[-1, q]))
    reach = student_t.ppf(0.975, by_group.freedom) * by_group.error
    low, high = by_group.mean - reach, by_group.mean + reach
    if bounds is not None:
        low, high = _within(by_group.mean, reach, *bounds)
    effect = None if design is None else design.effect[:-1]
    return GroupMeans(grouping, by_group.people, by_group.mean, low, high, tested, comparisons, effect)


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


def level_values(scale: Scale, column: Column | None) -> np.ndarray:
    """Numbers to average: the codes of the file where these rise with the levels, else 1 to L."""
    codes = scale.labels if column is None or not column.levels else column.levels
    if len(codes) == scale.n_levels and not any(isinstance(c, str | bool) for c in codes):
        numbers = np.array(codes, dtype=np.float64)
        if (np.diff(numbers) > 0).all():
            return numbers
    return np.arange(1.0, scale.n_levels + 1.0)


# ---- the section ------------------------------------------------------------------------------


class Compared(NamedTuple):
    """People who have answered something, and what is known of them, row by row."""

    table: Encoded  # what the model takes
    asked: Encoded  # its part that are questions
    numeric: tuple[str, ...]  # those of them, beside the answers, that are numbers
    background: pd.DataFrame
    scores: np.ndarray
    weight: np.ndarray | None
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

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """(n, Q) what the levels of questions count, then numbers, NaN where missing; (2, Q) their bounds."""
        columns = {column.name: column for column in self.schema.columns}
        known = zip(self.asked.names or [], self.asked.scales, strict=True)
        values = [level_values(scale, columns.get(name)) for name, scale in known]
        level = self.table.observations.to_dense()
        beside: Any = self.table.extra  # of other kinds, if there are any
        counted = [np.append(value, np.nan)[level[:, j]] for j, value in enumerate(values)]
        numbers = [beside[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in self.numeric]
        ends = [*((value.min(), value.max()) for value in values), *[(-np.inf, np.inf)] * len(numbers)]
        return np.column_stack([*counted, *numbers]), np.transpose(ends)


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
        k, tested = self.strongest[0], self.means.tested
        return int(self.means.people[tested[:, k], k].sum()), int(tested[:, k].sum())


def group_sections(
    model: CumulativeRBM,
    people: Compared,
    factors: list[NamedFactor],
    labels: dict[str, Label],
    first: str | None = None,
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
    numbers, bounds = people.numbers()
    means = [
        group_means(numbers, one.means.grouping, people.weight, people.sample, bounds=bounds) for one in shown
    ]
    adjusted = _adjusted([one.comparisons for one in means])
    questions = [labels[name] for name in people.names]
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
    tested = np.flatnonzero(one.means.tested[:, k])
    order = tested[np.argsort(one.means.mean[tested, k], kind="stable")]
    groups = one.means.grouping.groups
    return {
        "name": one.means.grouping.name,
        "label": labels[one.means.grouping.name],
        "factor": factors[k].name,
        "test": test,
        "lowest": groups[order[0]],
        "highest": groups[order[-1]],
    }


def _tested(people: Compared, found: list[Grouping], factors: list[NamedFactor]) -> list[_Tested]:
    names = people.names
    rests = np.reshape([factor.rests for factor in factors], (len(factors), len(names))).T
    never = _never_asked(people, found)
    without = [one.astype(float) @ rests >= _RESTS_ON for one in never]
    nowhere = np.zeros(len(factors), dtype=bool)
    itself = [rests[names.index(own.name)] >= _RESTS_ON if own.name in names else nowhere for own in found]
    means = [
        group_means(people.scores, own, people.weight, people.sample, absent | circular)
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
    means: GroupMeans,
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
    statistic = "F" if one.means.effect is not None else "Welch’s F"
    head = ("factor", "ω²", "from", "to", statistic, "df", "p", "p (Holm)")
    return Table(head, rows, ("", ".1%", ".1%", ".1%", ".2f", "", "p", "p"))


def _panels(one: _Tested, factors: list[NamedFactor]) -> list[dict[str, object]]:
    """Charts of the factors on which groups differ most, all on one scale."""
    chosen, means = one.strongest[:_PANELS], one.means
    ends = np.abs(np.stack([means.mean[:, chosen], means.low[:, chosen], means.high[:, chosen]]))
    reach = float(np.nanmax(ends, initial=_NARROWEST))
    order = np.arange(len(means.grouping.groups))
    if not means.grouping.ordered and len(order) > _FEW_GROUPS:
        order = np.argsort(-np.nan_to_num(means.mean[:, chosen[0]], nan=-np.inf), kind="stable")
    return [
        {
            "label": factors[k].label,
            "reach": reach,
            "rows": [
                {
                    "group": means.grouping.groups[g],
                    "count": means.people[g, k],
                    "mean": means.mean[g, k],
                    "low": means.low[g, k],
                    "high": means.high[g, k],
                    "effect": None if means.effect is None else means.effect[g, k],
                }
                for g in order
                if means.people[g, k]
            ],
        }
        for k in chosen
    ]


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
    means: GroupMeans,
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
                "count": means.people[:, j].tolist(),
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

"""Whether questions mean the same in all groups: differential item functioning of a fitted survey."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ordinalrbm.data.frames import as_frame
from ordinalrbm.data.never_asked import group_columns
from ordinalrbm.data.questionnaire import ORDINAL
from ordinalrbm.errors import DataError, user_stacklevel
from ordinalrbm.estimators.factor_analysis import ReadableFactors, number_to_read
from ordinalrbm.estimators.validation import check_weights
from ordinalrbm.runtime.display import Readable, two_digits
from ordinalrbm.schema.schema import did_you_mean
from ordinalrbm.stats import group_items
from ordinalrbm.stats.rotation import Rotation
from ordinalrbm.stats.welch import ALPHA, holm
from ordinalrbm.vector import loadings as reading

FEWEST_PEOPLE, FEWEST_QUESTIONS = 30, 3
_LEAST_LOADING, _MOST_LOADING = 0.3, 0.95  # of a question on its factor; the largest to begin with
# Standardised differences of expected answers that are moderate and large to ETS, for items with
# several levels (Zwick, Thayer and Mazzeo 1997).
_MODERATE, _LARGE = 0.17, 0.25


@dataclass(frozen=True, eq=False, repr=False)
class Invariance(Readable):
    """How questions work in each group, compared with the other groups.

    Attributes
    ----------
    questions : DataFrame, a line per question and group
        ``uniform``: how much higher the utility is in the group than elsewhere at the same factor
        (all thresholds lower), in standard deviations of the utility; ``nonuniform``: how much
        larger the loading. Of both ``_se``, ``_p`` (Wald), ``_holm`` (p adjusted for all tests in
        the table) and ``_shrunk``: drawn towards zero by the variance that deviations have over
        all questions and groups. ``points``: by how much the shrunk ones move the group's mean answer,
        in steps of the scale; ``effect``: in standard deviations of the answers; ``unsigned``:
        the same of absolute differences, for curves that cross. ``class`` C if that is above
        0.25, B above 0.17; else A, and A where no adjusted p is below 0.05. NaN where a group has
        too few answers. Of two groups, the second is compared with the first.
    means : DataFrame, a line per factor and group
        ``mean``, ``se`` and ``sd`` of the factor, by questions that do not surely deviate there;
        ``mean_all`` and ``sd_all`` as if none did. Among all, it has mean 0 and variance 1.
    left_out : dict
        Questions that are not compared, with the reason.
    """

    questions: pd.DataFrame
    means: pd.DataFrame
    left_out: Mapping[str, str]

    def deviating(self) -> pd.DataFrame:
        """Lines of class B and C, the largest effects first."""
        found = self.questions[self.questions["class"] > "A"]
        return found.sort_values("unsigned", ascending=False, kind="stable").reset_index(drop=True)

    @property
    def summary(self) -> str:
        """How many questions deviate, in a sentence."""
        found, n_tested = self.deviating(), int(self.questions["uniform"].notna().sum())
        large = (found["class"] == "C").sum()
        return (
            f"{self.questions['question'].nunique()} questions in {self.means['group'].nunique()} groups, "
            f"{n_tested:,} comparisons: deviations are large (C) in {large}, "
            f"moderate (B) in {len(found) - large}."
        )

    def _parts(self) -> Iterator[str | pd.DataFrame]:
        yield self.summary
        found = self.deviating()
        if len(found):
            yield two_digits(found[SHOWN])
        yield "Means of the groups, by questions that do not deviate and by all of them:"
        yield two_digits(self.means)
        if self.left_out:
            yield f"Not compared: {', '.join(self.left_out)}."


SHOWN = ["question", "group", "uniform", "nonuniform", "points", "effect", "class"]


class _Battery(NamedTuple):
    """Questions of a factor, and the groups that have answered them."""

    factor: str
    names: list[str]
    groups: list[Any]
    answers: group_items.Answers
    found: group_items.Compared
    spread: np.ndarray  # (J, 1) standard deviations of the utilities


class ComparableGroups(ReadableFactors):
    """Comparisons of groups by a fitted :class:`CumulativeRBM`."""

    def invariance(
        self,
        X: Any,
        groups: Any,
        *,
        n_factors: int | None = None,
        rotation: Rotation = "varimax",
        sample_weight: ArrayLike | None = None,
    ) -> Invariance:
        """Find questions that work differently in some groups (measurement invariance, DIF).

        The questions of each factor (on which they load most, and by 0.3 or more) are a graded
        response model of their own, with a mean and a variance of the factor in every group; a
        question that surely deviates in a group does not count in placing it.

        Parameters
        ----------
        X : table
            As in :meth:`fit`; missing answers are skipped.
        groups : array-like, or the name of a column of X
            The group of each row; rows without one are left out, and so are, with a warning,
            groups with answers of fewer than 30 people.
        n_factors : int, optional
            Number of factors; by default, the most that have questions of their own each.
        rotation : {"varimax", "quartimax", "oblimin", "promax", "bifactor", "none"}, default="varimax"
        sample_weight : array-like, optional
            Weights of the rows; errors are robust to them.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> food = orbm.datasets.load_food_world_cup().iloc[:, :10]
        >>> model = orbm.CumulativeRBM(2, n_epochs=2, random_state=0).fit(food)
        >>> halves = np.where(np.arange(len(food)) % 2, "odd", "even")
        >>> model.invariance(food, halves, n_factors=1).questions["group"].unique().tolist()
        ['odd']
        """
        values, X = _read_groups(self, X, groups)
        level = self._read(X).to_dense().astype(np.int64)
        weight = check_weights(sample_weight, len(level))
        weight = np.ones(len(level)) if weight is None else weight.astype(np.float64)
        name, values = next(iter(group_columns(values, len(level)).items()))
        code, kinds = _large_groups(values, (level >= 0).any(axis=1) & (weight > 0))
        number = number_to_read(self, rotation=rotation) if n_factors is None else n_factors
        asked, left_out = _questions_of_factors(self, rotation, number, str(name))
        every = [_compared(*own, level, weight, code, kinds, left_out) for own in asked]
        batteries = [one for one in every if one is not None]
        if not batteries:
            raise DataError(
                f"No factor has {FEWEST_QUESTIONS} questions with answers of {FEWEST_PEOPLE} people in two "
                "groups; compare larger groups, or give another n_factors."
            )
        return Invariance(_question_lines(batteries), _mean_lines(batteries), left_out)


# ---- input ------------------------------------------------------------------------------------


def _read_groups(model: Any, X: Any, groups: Any) -> tuple[Any, Any]:
    """The group of each row; and X without their column, unless the model has learnt from it."""
    if not isinstance(groups, str):
        return groups, X
    frame = as_frame(X)
    names = [] if frame is None else list(frame.names)
    if frame is None or groups not in names:
        guess = did_you_mean(groups, names)
        raise DataError(f"X has no column {groups!r}{guess}; name another, or give the group of each row.")
    values = pd.Series(frame.column(names.index(groups)), name=groups)
    learnt = groups in getattr(model, "feature_names_in_", ())
    return values, X if learnt else frame.with_names([name for name in names if name != groups])


def _large_groups(values: pd.Series, there: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """Places of the groups of rows, −1 where there is none to compare, and the groups."""
    code, kinds = pd.factorize(values.where(there), sort=True)
    large = np.bincount(code[code >= 0], minlength=len(kinds)) >= FEWEST_PEOPLE
    if large.sum() < 2:
        raise DataError(
            f"Of {len(kinds)} groups {large.sum()} have answers of at least {FEWEST_PEOPLE} people, and two "
            "are needed for a comparison; merge groups, or choose others."
        )
    if not large.all():
        warnings.warn(
            f"{(~large).sum()} of {len(kinds)} groups are left out, with answers of fewer than "
            f"{FEWEST_PEOPLE} people: {', '.join(map(str, kinds[~large][:5]))}.",
            stacklevel=user_stacklevel(),
        )
    return np.append(np.where(large, large.cumsum() - 1, -1), -1)[code], list(kinds[large])


def _questions_of_factors(
    model: ReadableFactors, rotation: Rotation, n_factors: int, grouping: str
) -> tuple[list[tuple[str, dict[str, tuple[int, float]]]], dict[str, str]]:
    """By factor its questions, with their columns and loadings; and why others are left out."""
    solution = model._solution(model._population(), rotation, n_factors)
    rows = [(name, one) for name, one in model._asked().items() if one.column >= 0]
    left_out = {name: "it is no ordered scale" for name, one in rows if one.kind != ORDINAL}
    left_out |= {name: "it makes the groups" for name, _ in rows if name == grouping}
    found = []
    for k, own in enumerate(reading.own_items(solution)):
        loading = {rows[i][0]: (rows[i][1].question, float(solution.structure[i, k])) for i in sorted(own)}
        weak = [name for name, (_, size) in loading.items() if abs(size) < _LEAST_LOADING]
        left_out |= dict.fromkeys(weak, f"it loads by less than {_LEAST_LOADING} on its factor") | left_out
        found.append((f"Factor {k + 1}", {n: one for n, one in loading.items() if n not in left_out}))
    return found, left_out


def _compared(
    factor: str,
    questions: dict[str, tuple[int, float]],
    level: np.ndarray,
    weight: np.ndarray,
    code: np.ndarray,
    kinds: list[Any],
    left_out: dict[str, str],
) -> _Battery | None:
    """The questions of a factor in the groups that have answered them; None where these are too few."""
    own = level[:, [column for column, _ in questions.values()]]
    rows = (own >= 0).any(axis=1) & (code >= 0) & (weight > 0)
    rows &= (np.bincount(code[rows], minlength=len(kinds)) >= FEWEST_PEOPLE)[code]
    differ = [len(np.unique(one[rows & (one >= 0)])) > 1 for one in own.T]
    names = [name for name, one in zip(questions, differ, strict=True) if one]
    if len(names) < FEWEST_QUESTIONS or len(np.unique(code[rows])) < 2:
        why = f"its factor has fewer than {FEWEST_QUESTIONS} questions that groups have answered"
        left_out.update(dict.fromkeys(questions, why))
        return None
    left_out.update({name: "all answered alike" for name in questions if name not in names})
    own, (there, place) = own[rows][:, differ], np.unique(code[rows], return_inverse=True)
    used = [np.unique(one[one >= 0]) for one in own.T]  # levels that somebody chose
    dense = np.column_stack(
        [np.where(one < 0, -1, np.searchsorted(some, one)) for one, some in zip(own.T, used, strict=True)]
    )
    answers = group_items.Answers(dense, np.array(list(map(len, used))), place, weight[rows])
    loading = np.clip([questions[name][1] for name in names], -_MOST_LOADING, _MOST_LOADING)
    found = group_items.compare(answers, loading / np.sqrt(1.0 - loading**2))
    spread = np.sqrt(1.0 + found.items.slope[:, None] ** 2)
    return _Battery(factor, names, [kinds[g] for g in there], answers._replace(level=own), found, spread)


# ---- results ----------------------------------------------------------------------------------


def _question_lines(batteries: list[_Battery]) -> pd.DataFrame:
    value, error = (
        np.concatenate([(getattr(one.found, part) / one.spread).reshape(-1, 2) for one in batteries])
        for part in ("value", "error")
    )
    known = np.isfinite(value)
    p, adjusted = 2.0 * ndtr(-np.abs(value / error)), np.full(value.shape, np.nan)
    adjusted[known] = holm(p[known])
    shrunk = value * group_items.shrinkage(value, error)
    table = pd.concat([_named_lines(one) for one in batteries], ignore_index=True)
    for k, name in enumerate(("uniform", "nonuniform")):
        parts = {"": value, "_se": error, "_p": p, "_holm": adjusted, "_shrunk": shrunk}
        table = table.assign(**{name + what: part[:, k] for what, part in parts.items()})
    apart = np.split(shrunk, np.cumsum([one.found.value[..., 0].size for one in batteries])[:-1])
    effects = [
        _effects(one, part.reshape(one.found.value.shape)) for one, part in zip(batteries, apart, strict=True)
    ]
    table[["points", "effect", "unsigned"]] = np.concatenate(effects)
    sure = table[["uniform_holm", "nonuniform_holm"]].min(axis=1) < ALPHA
    size = np.digitize(table["unsigned"], [_MODERATE, _LARGE], right=True)
    grade = pd.Series(np.array(["A", "B", "C"])[np.where(sure, size, 0)])
    table["class"] = grade.where(table["uniform"].notna(), "")
    sizes = [(one.found.value[..., 0].size, len(one.names) * (len(one.groups) == 2)) for one in batteries]
    reference = np.concatenate([np.arange(size) < first for size, first in sizes])
    return table[~reference].reset_index(drop=True)


def _named_lines(one: _Battery) -> pd.DataFrame:
    given = (one.answers.level >= 0).astype(np.int64)
    people = [given[one.answers.code == g].sum(axis=0) for g in range(len(one.groups))]
    group, question = np.repeat(np.array(one.groups, object), len(one.names)), one.names * len(one.groups)
    lines = {"factor": one.factor, "question": question, "group": group, "people": np.concatenate(people)}
    return pd.DataFrame(lines)


def _effects(one: _Battery, shrunk: np.ndarray) -> np.ndarray:
    """(G J, 3) by how much deviations move answers: in steps, in standard deviations, and unsigned."""
    level, n_levels, _, weight = one.answers
    points, deviation = np.zeros((len(n_levels), n_levels.max())), np.zeros(len(n_levels))
    for j, own in enumerate(level.T):
        points[j, : n_levels[j]] = np.unique(own[own >= 0])
        counted = weight * (own >= 0) / weight[own >= 0].sum()
        deviation[j] = np.sqrt(counted @ (own - counted @ own) ** 2)
    moved, unsigned = group_items.expected_differences(one.found.items, shrunk * one.spread, points)
    return np.stack([moved, moved / deviation, unsigned / deviation], axis=-1).reshape(-1, 3)


def _mean_lines(batteries: list[_Battery]) -> pd.DataFrame:
    lines: list[tuple[Any, ...]] = []
    for one in batteries:
        items, alike = one.found.items, one.found.alike
        parts = (items.mean, one.found.mean_errors, items.sd, alike.mean, alike.sd)
        people = np.bincount(one.answers.code).tolist()
        lines += [(one.factor, *line) for line in zip(one.groups, people, *parts, strict=True)]
    columns = ["factor", "group", "people", "mean", "se", "sd", "mean_all", "sd_all"]
    return pd.DataFrame(lines, columns=columns)

"""What the columns of a survey are: ordered scales, unordered categories, numbers, background.

A questionnaire is learnt from a table together with its answers. It reads further tables alike, and
makes tables of predictions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ordinalrbm.data.columns import Column, Name, location
from ordinalrbm.data.features import (
    LARGEST,
    SMALLEST,
    Coding,
    learn_column,
    mean_and_deviation,
    numbers_of,
    standardised,
)
from ordinalrbm.data.frames import TableLike
from ordinalrbm.data.observations import Observations, level_type
from ordinalrbm.data.scales import Label, Scale, lacking_levels, read_answers, resolve_scales, shorten
from ordinalrbm.data.tables import Encoded, Table, as_table, decode, encode, read_table
from ordinalrbm.errors import DataError
from ordinalrbm.stats.point_estimates import Rule, point
from ordinalrbm.storage.reader import Stored

Kind = Literal["ordinal", "nominal", "numeric", "background"]
ColumnList = Sequence[str | int] | None  # names or positions
GivenScales: TypeAlias = Sequence | Mapping | pd.CategoricalDtype | None
# Kinds of questions, as models have them.
ORDINAL, NOMINAL, NUMERIC = 0, 1, 2
_CODES = {"ordinal": ORDINAL, "nominal": NOMINAL, "numeric": NUMERIC}
# A question with more categories is more likely a name or a number than an answer.
MOST_CATEGORIES = 200


@dataclass(frozen=True)
class Questionnaire:
    """What each column of a table is."""

    kinds: tuple[Kind, ...]
    scales: tuple[Scale | None, ...]  # levels or categories of every column; None for others
    numbers: Mapping[int, NumberScale] = field(default_factory=dict)  # by position
    background: Background | None = None

    @classmethod
    def of_scales(cls, scales: Sequence[Scale]) -> Questionnaire:
        return cls(tuple("ordinal" for _ in scales), tuple(scales))

    @property
    def is_plain(self) -> bool:
        return all(kind == "ordinal" for kind in self.kinds)

    @property
    def questions(self) -> list[int]:
        return [j for j, kind in enumerate(self.kinds) if kind != "background"]

    @property
    def kind(self) -> np.ndarray:
        """(questions,) ORDINAL, NOMINAL or NUMERIC; empty if all are ordinal."""
        codes = [_CODES[self.kinds[j]] for j in self.questions]
        return np.array(codes if any(codes) else [], dtype=np.int8)

    @property
    def n_levels(self) -> list[int]:
        """Levels or categories of each question, one for a number."""
        scales = (self.scales[j] for j in self.questions)
        return [1 if scale is None else scale.n_levels for scale in scales]

    @property
    def n_covariates(self) -> int:
        return 0 if self.background is None else len(self.background.names)

    # From tables to answers

    def encode(self, table: Table, *, nearest: bool = False) -> Observations:
        """Answers of a table that has these columns.

        With ``nearest``, a number that nobody gave in a question but that is a level of its battery
        counts as the nearest level, with a warning.
        """
        known: list[Collection[Label]] = [()] * len(self.kinds)
        if nearest:  # levels of each column's battery that are not on its own scale
            ordinal = [j for j, kind in enumerate(self.kinds) if kind == "ordinal"]
            labels = [scale.labels for j in ordinal if (scale := self.scales[j]) is not None]
            for j, lacking in zip(ordinal, lacking_levels(labels), strict=True):
                known[j] = lacking
        if self.is_plain:
            return encode(table, [scale for scale in self.scales if scale is not None], known)
        numbers = {j: _numbers(table.read(j)) for j in self.numbers}
        covariates = None
        if self.background is not None:
            others = [table.read(j) for j, kind in enumerate(self.kinds) if kind == "background"]
            covariates = self.background.encode({column.name: column for column in others})
        return self._answers(table, numbers, covariates, known)

    def _answers(
        self,
        table: Table,
        numbers: Mapping[int, np.ndarray],
        covariates: np.ndarray | None,
        known: Sequence[Collection[Label]],
    ) -> Answers:
        n_levels = self.n_levels
        levels = np.empty((table.n_rows, len(n_levels)), dtype=level_type(n_levels), order="F")
        for i, j in enumerate(self.questions):
            scale = self.scales[j]
            if scale is None:
                levels[:, i] = np.where(np.isnan(numbers[j]), -1, 0)
            else:
                levels[:, i] = table.levels(j, scale, known[j])
        standard = [self.numbers[j].standardise(own, table.name(j)) for j, own in numbers.items()]
        given = np.stack(standard, axis=1) if standard else None
        return Answers.of(Observations.from_dense(levels, n_levels), self.kind, given, covariates)

    # From distributions to tables

    def point(self, j: int, found: np.ndarray, rule: Rule) -> np.ndarray:
        """One prediction for each distribution of column j: a level, a mean, or a number."""
        scale = self.scales[j]
        if scale is None:
            number = self.numbers[j]
            mean, deviation = found[:, 0], found[:, 1]
            return number.moments(mean, deviation)[0] if rule == "mean" else number.restore(mean)
        is_nominal = self.kinds[j] == "nominal"
        return point(found[:, : scale.n_levels], "mode" if is_nominal else rule, scale.values)

    def points(self, found: np.ndarray, question: np.ndarray, rule: Rule) -> np.ndarray:
        """One level, or mean of a number, for each distribution of an answer to a question."""
        if self.is_plain:
            return point(found, rule)
        points = np.empty(len(found))
        for i, j in enumerate(self.questions):
            own = question == i
            points[own] = self.point(j, found[own], "mean" if j in self.numbers else rule)
        return points

    def restore(self, values: np.ndarray, question: np.ndarray) -> np.ndarray:
        """Values (..., questions or cells) with standardised numbers in their own units again."""
        restored = values.astype(np.float64)
        for j, number in self.numbers.items():
            own = question == self.questions.index(j)
            restored[..., own] = number.restore(restored[..., own])
        return restored

    def given(self, table: Table, levels: np.ndarray) -> np.ndarray:
        """(rows, questions) levels, -1 where unanswered, and numbers, NaN where unanswered."""
        points = levels.astype(np.float64)
        for j in self.numbers:
            points[:, self.questions.index(j)] = _numbers(table.read(j))
        return points

    def decode(
        self, points: np.ndarray, like: Table, *, are_means: bool = False, rounded: bool = False
    ) -> TableLike:
        """A table like another, with one level or number per row and question.

        With ``are_means`` those of ordered scales are numbers too; with ``rounded``, numbers in
        columns of integers become whole.
        """
        levels = np.full((len(points), len(self.kinds)), -1, dtype=np.int16)
        scales, numbers = list(self.scales), {}
        for i, j in enumerate(self.questions):
            if scales[j] is None:
                is_whole = rounded and like.is_integer(j)
                numbers[j] = np.round(points[:, i]) if is_whole else points[:, i]
            elif are_means and self.kinds[j] == "ordinal":
                numbers[j], scales[j] = points[:, i], None
            else:
                levels[:, j] = points[:, i]
        return decode(levels, scales, like, numbers)

    # Files

    def to_json(self) -> dict[str, Any]:
        return {
            "kinds": list(self.kinds),
            "numbers": [number.to_json() for number in self.numbers.values()],
            "background": None if self.background is None else self.background.to_json(),
        }

    @classmethod
    def from_stored(cls, stored: Stored) -> Questionnaire:
        """The questionnaire of a model file; files of earlier releases know only scales."""
        labels = stored.entry("scales", list)
        if not labels:
            raise DataError("it has no columns")
        scales = [None if one is None else Scale.from_json(one) for one in labels]
        if "kinds" in stored.header:
            return cls._from_kinds(stored.inside("kinds"), scales)
        known = [scale for scale in scales if scale is not None]
        if len(known) < len(scales):
            raise DataError("it has columns without a scale")
        return cls.of_scales(known)

    @classmethod
    def _from_kinds(cls, stored: Stored, scales: Sequence[Scale | None]) -> Questionnaire:
        kinds = stored.members("kinds", lambda kind: kind in (*_CODES, "background"))
        stored_scales = stored.members("numbers", lambda one: isinstance(one, dict))
        numbers = [NumberScale.from_stored(Stored({}, one)) for one in stored_scales]
        background = None
        if stored.entry("background", dict, None) is not None:
            background = Background.from_stored(stored.inside("background"))
        has_scale = [kind in ("ordinal", "nominal") for kind in kinds]
        fits = (
            has_scale == [scale is not None for scale in scales]
            and kinds.count("numeric") == len(numbers)
            and kinds.count("background") == (0 if background is None else len(background.columns))
            and kinds.count("background") < len(kinds)
        )
        if not fits:
            raise DataError("its header has kinds of columns that do not fit their scales")
        positions = [j for j, kind in enumerate(kinds) if kind == "numeric"]
        return cls(kinds, tuple(scales), dict(zip(positions, numbers, strict=True)), background)


def read_questionnaire(
    X: TableLike,
    scales: GivenScales = None,
    nominal: ColumnList = None,
    numeric: ColumnList = None,
    background: ColumnList = None,
) -> tuple[Encoded, Questionnaire]:
    """Read a table's answers, and learn what its columns are.

    Columns are named as in the table, or by position. A column in ``background`` is no question; if
    it is in ``nominal`` as well, its numbers are codes of groups.
    """
    if nominal is None and numeric is None and background is None:
        answers = read_table(X, scales)
        return answers, Questionnaire.of_scales(answers.scales)
    table = as_table(X)
    kinds = _kinds(table, nominal, numeric, background)
    columns = [table.read(j) for j in range(table.n_columns)]
    own_scales = _scales(table.names, columns, kinds, scales)
    numbers = {j: _numbers(columns[j]) for j, kind in enumerate(kinds) if kind == "numeric"}
    others = [columns[j] for j, kind in enumerate(kinds) if kind == "background"]
    groups = {column.name: column for column in others}
    number_scales = {j: learn_number_scale(values, table.name(j)) for j, values in numbers.items()}
    codes = frozenset(table.name(j) for j in _positions(table, nominal, "nominal"))
    coded, covariates = learn_background(groups, codes) if groups else (None, None)
    found = Questionnaire(kinds, own_scales, number_scales, coded)
    observations = found._answers(table, numbers, covariates, [()] * len(kinds))
    return Encoded(observations, [s for s in own_scales if s is not None], table.names), found


def _kinds(
    table: Table, nominal: ColumnList, numeric: ColumnList, background: ColumnList
) -> tuple[Kind, ...]:
    kinds: list[Kind] = ["ordinal"] * table.n_columns
    given: tuple[tuple[Kind, ColumnList], ...] = (("nominal", nominal), ("numeric", numeric))
    for kind, columns in given:
        for j in _positions(table, columns, kind):
            if kinds[j] != "ordinal":
                raise DataError(
                    f"{location(table.name(j))} is in nominal and in numeric; leave it in one of them."
                )
            kinds[j] = kind
    for j in _positions(table, background, "background"):
        kinds[j] = "background"
    if all(kind == "background" for kind in kinds):
        raise DataError("Every column is background; leave at least one as a question.")
    return tuple(kinds)


def _positions(table: Table, columns: ColumnList, what: str) -> list[int]:
    if columns is None:
        return []
    if isinstance(columns, str) or not isinstance(columns, list | tuple | np.ndarray | pd.Index):
        raise DataError(f"The '{what}' parameter must be a list of columns. Got {columns!r} instead.")
    keys: dict[Any, int] = {j: j for j in range(table.n_columns)}
    keys |= {name: j for j, name in enumerate(table.names or ())}
    found = []
    for column in columns:
        if not isinstance(column, str | int | np.integer) or isinstance(column, bool) or column not in keys:
            there = shorten(range(table.n_columns) if table.names is None else table.names)
            raise DataError(
                f"The '{what}' parameter names {column!r}, but there is no such column; the columns are "
                f"{there}."
            )
        if keys[column] in found:
            raise DataError(f"The '{what}' parameter names the column {column!r} twice; once will do.")
        found.append(keys[column])
    return found


def _scales(
    names: list[str] | None, columns: Sequence[Column], kinds: Sequence[Kind], given: GivenScales
) -> tuple[Scale | None, ...]:
    """Levels and categories of columns, given or found; None for columns of other kinds."""
    fixed = dict(given) if isinstance(given, Mapping) else {}
    for column, kind in zip(columns, kinds, strict=True):
        if kind == "nominal" and column.name not in fixed:
            fixed[column.name] = _categories(column)
        elif kind == "ordinal" and given is not None and not isinstance(given, Mapping):
            fixed[column.name] = given  # one scale for all that have an order
    chosen = [j for j, kind in enumerate(kinds) if kind in ("ordinal", "nominal")]
    chosen_names = None if names is None else [names[j] for j in chosen]
    if names is None:  # by position among those chosen
        fixed = {chosen.index(key): labels for key, labels in fixed.items() if key in chosen}
    resolved = resolve_scales([columns[j] for j in chosen], chosen_names, fixed)
    return tuple(map(dict(zip(chosen, resolved, strict=True)).get, range(len(columns))))


def _categories(column: Column) -> list[Label]:
    """The categories that occur in a column, in the order of a categorical or of the alphabet."""
    column = read_answers(column)
    if column.kind in ("category", "ordered"):
        labels = [column.distinct[code] for code in np.unique(column.codes) if code >= 0]
    else:
        given = column.distinct if column.is_coded else column.values[~column.missing]
        try:
            labels = sorted(pd.unique(pd.Series(given)).tolist())
        except TypeError as error:
            raise DataError(
                f"{location(column.name)} mixes text and numbers; give its categories as one of them."
            ) from error
        if column.kind == "boolean":
            labels = [bool(label) for label in labels]
        elif labels and all(isinstance(x, float) and x.is_integer() for x in labels):
            labels = [int(label) for label in labels]
    if not labels:
        raise DataError(f"{location(column.name)} has no answer at all; drop it.")
    if len(labels) > MOST_CATEGORIES:
        raise DataError(
            f"{location(column.name)} has {len(labels):,} categories, more than the {MOST_CATEGORIES} "
            "that a nominal question can have; put rare ones together, or leave the column out."
        )
    return labels


def _numbers(column: Column) -> np.ndarray:
    return numbers_of(column, "but the column is in numeric, not in nominal")


# ---- answers of several kinds ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Answers(Observations):
    """Observations of columns of several kinds, in rows with a background.

    An answer that is a number has the level 0, which marks it as given; the number itself, in
    standard deviations from the mean, is in ``numbers``. Levels of nominal columns are categories,
    whose order means nothing. ``covariates`` are the background, never answers.
    """

    kind: np.ndarray = field(kw_only=True)  # (columns,) int8, empty where all are ordinal
    numbers: np.ndarray = field(kw_only=True)  # (rows, columns of numbers) float64, NaN if missing
    covariates: np.ndarray = field(kw_only=True)  # (rows, P) float32

    @classmethod
    def of(cls, levels: Observations, kind: Any = (), numbers: Any = None, covariates: Any = None) -> Answers:
        empty = np.zeros((levels.n_rows, 0))
        return cls(
            levels.row_start,
            levels.column,
            levels.level,
            levels.n_levels,
            kind=np.asarray(kind, dtype=np.int8),
            numbers=np.asarray(empty if numbers is None else numbers, dtype=np.float64),
            covariates=np.asarray(empty if covariates is None else covariates, dtype=np.float32),
        )

    def take_rows(self, index: Any) -> Answers:
        return Answers.of(super().take_rows(index), self.kind, self.numbers[index], self.covariates[index])

    def select(self, entry_mask: Any) -> Answers:
        return Answers.of(super().select(entry_mask), self.kind, self.numbers, self.covariates)

    def entry_numbers(self) -> np.ndarray:
        result = super().entry_numbers()
        if self.kind.size:
            of_number = np.cumsum(self.kind == NUMERIC) - 1
            is_number = self.kind[self.column] == NUMERIC
            result[is_number] = self.numbers[self.cells().row[is_number], of_number[self.column[is_number]]]
        return result


# ---- background: columns that are no questions, such as country, sex and age ---------------------


@dataclass(frozen=True)
class Background:
    """How the columns of the background become numbers."""

    columns: tuple[Name, ...]
    coding: Coding
    means: tuple[float, ...]

    @property
    def names(self) -> list[str]:
        return self.coding.names

    def encode(self, columns: Mapping[Name, Column]) -> np.ndarray:
        features = self.coding.encode([columns[name] for name in self.columns]).toarray()
        return features - np.array(self.means, dtype=np.float32)

    def to_json(self) -> dict[str, Any]:
        return {"columns": self.columns, "coding": self.coding.to_json(), "means": self.means}

    @classmethod
    def from_stored(cls, stored: Stored) -> Background:
        columns = stored.members("columns", lambda name: type(name) in (str, int))
        coding = Coding.from_json(stored.entry("coding", list))
        means = stored.numbers("means", -1.0, 1.0)
        if len(columns) != len(coding.columns) or len(means) != len(coding.names):
            raise DataError("its header has a background of columns that do not fit their coding")
        return cls(columns, coding, means)


def learn_background(
    columns: Mapping[Name, Column], codes: Collection[Name] = ()
) -> tuple[Background, np.ndarray]:
    """How columns become numbers, learnt from them, and these numbers; ``codes`` are of categories."""
    coded = []
    for name, column in columns.items():
        learnt = learn_column(column, codes=name in codes)
        if isinstance(learnt, str):
            raise DataError(
                f"{location(name)} cannot be background: {learnt}, so that there is nothing to "
                "compare; leave it out of background."
            )
        coded.append(learnt)
    coding = Coding(tuple(coded))
    features = coding.encode(list(columns.values())).toarray()
    means = features.mean(axis=0, dtype=np.float64)
    return Background(tuple(columns), coding, tuple(means.tolist())), features - means.astype(np.float32)


# ---- numbers on the scale that a model has of them, and back -------------------------------------


# Beyond this a number is not normal around anything.
_SKEWED = 1.0
_MOST_KNOTS = 100
# Nodes and weights for means over a normal distribution.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_SHARES = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class NumberScale:
    """Mean and deviation of a number; of a skewed one also some values and their normal scores."""

    mean: float
    deviation: float
    values: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()

    def standardise(self, values: np.ndarray, name: Name) -> np.ndarray:
        found = standardised(values, self.mean, self.deviation, name)
        if not self.values:
            return found
        # Beyond what was seen, in standard deviations from there.
        low, high = self.values[0], self.values[-1]
        beyond = np.maximum(values - high, 0.0) + np.minimum(values - low, 0.0)
        return np.interp(values, self.values, self.scores) + beyond / self.deviation

    def restore(self, standardised: np.ndarray) -> np.ndarray:
        """Numbers in their own units; a skewed one stays within the range that was seen."""
        if not self.values:
            return self.mean + self.deviation * standardised
        return np.interp(standardised, self.scores, self.values)

    def moments(self, mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not self.values:
            return self.restore(mean), self.deviation * deviation
        points = self.restore(mean[:, None] + deviation[:, None] * _NODES)
        first = points @ _SHARES
        return first, np.sqrt(np.maximum((points - first[:, None]) ** 2 @ _SHARES, 0.0))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_stored(cls, stored: Stored) -> NumberScale:
        values, scores = (stored.numbers(name, -LARGEST, LARGEST) for name in ("values", "scores"))
        is_ascending = all(np.all(np.diff(part) > 0) for part in (values, scores))
        if len(values) != len(scores) or len(values) == 1 or len(values) > _MOST_KNOTS or not is_ascending:
            raise DataError(f"its header has {values!r:.80} and {scores!r:.80} as the scale of a number")
        mean = stored.number("mean", -LARGEST, LARGEST)
        return cls(mean, stored.number("deviation", SMALLEST, LARGEST), values, scores)


def learn_number_scale(values: np.ndarray, name: Name) -> NumberScale:
    known = np.sort(values[~np.isnan(values)])
    if not known.size:
        raise DataError(f"{location(name)} has no answer at all; drop it.")
    if known[0] == known[-1]:
        raise DataError(
            f"{location(name)} has only the value {known[0]:g}, from which nothing can be learnt as a "
            "number; leave it out."
        )
    mean, deviation = mean_and_deviation(known, name)
    found = NumberScale(mean, deviation)
    if not abs(float(np.mean(((known - mean) / deviation) ** 3))) > _SKEWED:  # their skewness
        return found
    distinct, scores = _normal_scores(known)
    return NumberScale(mean, deviation, tuple(distinct.tolist()), tuple(scores.tolist()))


def _normal_scores(ascending: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some values and their normal scores, which have mean zero and variance one over all."""
    distinct, count = np.unique(ascending, return_counts=True)
    score = ndtri((np.cumsum(count) - 0.5 * count) / ascending.size)
    mean = np.average(score, weights=count)
    score = (score - mean) / np.sqrt(np.average((score - mean) ** 2, weights=count))
    if distinct.size > _MOST_KNOTS:  # those at evenly spaced scores, and both ends
        chosen = np.unique(np.searchsorted(score, np.linspace(score[0], score[-1], _MOST_KNOTS)))
        distinct, score = distinct[chosen], score[chosen]
    return distinct, score

"""What the columns of a survey are: ordered scales, unordered categories, numbers, background.

It is learnt from a table together with its answers, and reads further tables alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import ndtri
from scipy.stats import skew

from ordinalrbm.data.answers import NOMINAL, NUMERIC, ORDINAL, Answers
from ordinalrbm.data.batteries import lacking_levels
from ordinalrbm.data.features import (
    FEWEST,
    CodedColumn,
    Coding,
    NumberColumn,
    Numbers,
    Texts,
    learn_column,
    read_feature,
    standardised,
)
from ordinalrbm.data.observations import Observations, level_type
from ordinalrbm.data.scales import Label, Name, Scale, place, resolve_scales, shorten
from ordinalrbm.data.tables import Encoded, Table, as_table, encode, read_table
from ordinalrbm.errors import DataError
from ordinalrbm.storage.reader import Stored

Kind = Literal["ordinal", "nominal", "numeric", "background"]
KINDS: tuple[Kind, ...] = ("ordinal", "nominal", "numeric", "background")
_CODES = {"ordinal": ORDINAL, "nominal": NOMINAL, "numeric": NUMERIC}
# A question with more categories is more likely a name or a number than an answer.
MOST_CATEGORIES = 200


@dataclass(frozen=True)
class Questionnaire:
    """What each column of a table is.

    Attributes
    ----------
    kinds : of every column, "ordinal", "nominal", "numeric" or "background"
    scales : of every column, its levels or categories; None of numbers and background
    numbers : scales of the columns of numbers, in their order
    background : how the columns of the background become numbers, or None
    """

    kinds: tuple[Kind, ...]
    scales: tuple[Scale | None, ...]
    numbers: tuple[NumberScale, ...] = ()
    background: Background | None = None

    @classmethod
    def of_scales(cls, scales: Sequence[Scale]) -> Questionnaire:
        """Nothing but ordered scales."""
        return cls(tuple("ordinal" for _ in scales), tuple(scales))

    @property
    def is_plain(self) -> bool:
        """Whether all columns are ordered scales."""
        return all(kind == "ordinal" for kind in self.kinds)

    @property
    def questions(self) -> list[int]:
        """Positions of the columns that are answers."""
        return [j for j, kind in enumerate(self.kinds) if kind != "background"]

    @property
    def numeric(self) -> list[int]:
        """Positions of the columns that are numbers."""
        return [j for j, kind in enumerate(self.kinds) if kind == "numeric"]

    @property
    def kind(self) -> np.ndarray:
        """(questions,) as :mod:`ordinalrbm.data.answers` has it; empty if all are ordinal."""
        codes = [_CODES[self.kinds[j]] for j in self.questions]
        return np.array(codes if any(codes) else [], dtype=np.int8)

    @property
    def n_levels(self) -> list[int]:
        """Levels or categories of each question, one of a number."""
        scales = (self.scales[j] for j in self.questions)
        return [1 if scale is None else scale.n_levels for scale in scales]

    @property
    def n_covariates(self) -> int:
        return 0 if self.background is None else len(self.background.names)

    def encode(self, table: Table, *, nearest: bool = False) -> Observations:
        """Answers of a table that has these columns.

        With ``nearest``, a number that nobody gave in a question but that is a level of its battery
        counts as the nearest level, with a warning.
        """
        known = self._lacking_levels() if nearest else [()] * len(self.kinds)
        if self.is_plain:
            return encode(table, [scale for scale in self.scales if scale is not None], known)
        n_levels = self.n_levels
        levels = np.empty((table.n_rows, len(n_levels)), dtype=level_type(n_levels), order="F")
        numbers = np.empty((table.n_rows, len(self.numbers)))
        for place_, j in enumerate(self.questions):
            scale = self.scales[j]
            if scale is not None:
                own_levels = table.levels(j, scale)
                if own_levels is None:
                    own_levels = scale.encode(table.read(j), table.name(j), known=known[j])
                levels[:, place_] = own_levels
            else:
                own = self.numeric.index(j)
                values = _read_numbers(table, j)
                numbers[:, own] = self.numbers[own].standardise(values, table.name(j))
                levels[:, place_] = np.where(np.isnan(numbers[:, own]), -1, 0)
        observations = Observations.from_dense(levels, n_levels)
        covariates = None
        if self.background is not None:
            covariates = self.background.encode(_columns(table, self._of_background()))
        return Answers.of(observations, self.kind, numbers, covariates)

    def _lacking_levels(self) -> list[Collection[Label]]:
        """Of each column, levels of its battery that are not on its own scale."""
        ordered = [
            scale if kind == "ordinal" else None for scale, kind in zip(self.scales, self.kinds, strict=True)
        ]
        found = iter(lacking_levels([scale.labels for scale in ordered if scale is not None]))
        return [() if scale is None else next(found) for scale in ordered]

    def _of_background(self) -> list[int]:
        return [j for j, kind in enumerate(self.kinds) if kind == "background"]

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dictionaries and numbers, for the header of a model file."""
        return {
            "kinds": list(self.kinds),
            "numbers": [number.to_json() for number in self.numbers],
            "background": None if self.background is None else self.background.to_json(),
        }

    @classmethod
    def from_stored(cls, stored: Stored) -> Questionnaire:
        """What the columns of a model file are; files of earlier releases know only scales."""
        labels = stored.entry("scales", list)
        if not labels:
            raise DataError("it has no columns")
        scales = [None if one is None else Scale.from_json(one) for one in labels]
        kinds = stored.entry("kinds", dict, None) if "kinds" in stored.header else None
        if kinds is not None:
            return cls.from_json(kinds, scales)
        known = [scale for scale in scales if scale is not None]
        if len(known) < len(scales):
            raise DataError("it has columns without a scale")
        return cls.of_scales(known)

    @classmethod
    def from_json(cls, content: Any, scales: Sequence[Scale | None]) -> Questionnaire:
        """The questionnaire that `to_json` wrote; a file may hold anything instead."""
        wrong = DataError(f"its header has {content!r:.80} as the kinds of its columns")
        if not isinstance(content, dict) or set(content) != {"kinds", "numbers", "background"}:
            raise wrong
        kinds, numbers, background = content["kinds"], content["numbers"], content["background"]
        if not isinstance(kinds, list) or len(kinds) != len(scales):
            raise wrong
        is_scale = [scale is not None for scale in scales]
        if not all(
            kind in KINDS and own == (kind in ("ordinal", "nominal"))
            for kind, own in zip(kinds, is_scale, strict=True)
        ):
            raise wrong
        if not isinstance(numbers, list):
            raise wrong
        found = cls(
            tuple(kinds),
            tuple(scales),
            tuple(map(NumberScale.from_json, numbers)),
            background=None if background is None else Background.from_json(background),
        )
        n_background = kinds.count("background")
        own = 0 if found.background is None else len(found.background.columns)
        if len(numbers) != kinds.count("numeric") or own != n_background or not found.questions:
            raise wrong
        return found


def read_questionnaire(
    X: Any, scales: Any = None, nominal: Any = None, numeric: Any = None, background: Any = None
) -> tuple[Encoded, Questionnaire]:
    """Read a table's answers, and learn what its columns are.

    Columns are named as in the table, or by position. One that is in ``background`` is not asked
    about; if it is in ``nominal`` as well, its numbers are codes of groups.

    Examples
    --------
    >>> table = pd.DataFrame({"q": [1, 2, 3, 2], "party": ["a", "b", "a", None]})
    >>> answers, found = read_questionnaire(table, nominal=["party"])
    >>> found.kinds, found.scales[1].labels
    (('ordinal', 'nominal'), ('a', 'b'))
    """
    if nominal is None and numeric is None and background is None:
        answers = read_table(X, scales)
        return answers, Questionnaire.of_scales(answers.scales)
    table = as_table(X)
    kinds = _kinds(table, nominal, numeric, background)
    own = _scales(table, kinds, scales)
    numbers = [
        learn_number_scale(_read_numbers(table, j), table.name(j))
        for j, kind in enumerate(kinds)
        if kind == "numeric"
    ]
    told = [j for j, kind in enumerate(kinds) if kind == "background"]
    codes = frozenset(table.name(j) for j in _positions(table, nominal, "nominal"))
    found = Questionnaire(
        tuple(kinds),
        tuple(own),
        tuple(numbers),
        background=learn_background(_columns(table, told), codes) if told else None,
    )
    observations = found.encode(table)
    if told:
        _refuse_without_difference(table, found, observations, told, codes)
    return Encoded(observations, [s for s in own if s is not None], table.names), found


def _kinds(table: Table, nominal: Any, numeric: Any, background: Any) -> list[Kind]:
    kinds: list[Kind] = ["ordinal"] * table.n_columns
    given: tuple[tuple[Kind, Any], ...] = (("nominal", nominal), ("numeric", numeric))
    for kind, columns in given:
        for j in _positions(table, columns, kind):
            if kinds[j] != "ordinal":
                raise DataError(
                    f"{place(table.name(j))} is in nominal and in numeric; leave it in one of them."
                )
            kinds[j] = kind
    for j in _positions(table, background, "background"):
        kinds[j] = "background"
    if all(kind == "background" for kind in kinds):
        raise DataError("Every column is background; leave at least one as a question.")
    return kinds


def _positions(table: Table, columns: Any, what: str) -> list[int]:
    """Where the columns of a list are."""
    if columns is None:
        return []
    if isinstance(columns, str) or not isinstance(columns, list | tuple | np.ndarray | pd.Index):
        raise DataError(f"The '{what}' parameter must be a list of columns. Got {columns!r} instead.")
    found = [_position(table, column, what) for column in columns]
    twice = next((name for j, name in enumerate(columns) if found[j] in found[:j]), None)
    if twice is not None:
        raise DataError(f"The '{what}' parameter names the column {twice!r} twice; once will do.")
    return found


def _position(table: Table, column: Any, what: str) -> int:
    if isinstance(column, str) and table.names is not None and column in table.names:
        return table.names.index(column)
    whole = isinstance(column, int | np.integer) and not isinstance(column, bool)
    if whole and -1 < column < table.n_columns:
        return int(column)
    there = shorten(range(table.n_columns) if table.names is None else table.names)
    raise DataError(
        f"The '{what}' parameter names {column!r}, but there is no such column; the columns are {there}."
    )


def _scales(table: Table, kinds: list[Kind], given: Any) -> list[Scale | None]:
    """Levels and categories of columns, given or found."""
    keys = [table.name(j) for j in range(table.n_columns)]
    fixed = dict(given) if isinstance(given, dict) else {}
    for j, kind in enumerate(kinds):
        if kind == "nominal" and keys[j] not in fixed:
            fixed[keys[j]] = _categories(table, j)
    chosen = [j for j, kind in enumerate(kinds) if kind in ("ordinal", "nominal")]
    if given is not None and not isinstance(given, dict):  # one scale for all that have an order
        fixed |= {keys[j]: given for j in chosen if kinds[j] == "ordinal"}
    names = [str(keys[j]) for j in chosen] if table.names is not None else None
    if names is None:  # by position among those chosen
        fixed = {chosen.index(key): labels for key, labels in fixed.items() if key in chosen}
    found = iter(resolve_scales((table.read(j) for j in chosen), names, fixed))
    return [next(found) if j in chosen else None for j in range(table.n_columns)]


def _categories(table: Table, j: int) -> list[Any]:
    """The categories that occur in a column, in the order of a categorical or of the alphabet."""
    column, name = table.read(j), table.name(j)
    if column.kind in ("category", "ordered"):
        labels = [column.distinct[code] for code in np.unique(column.codes) if code >= 0]
    else:
        given = column.distinct if column.is_coded else column.values[~column.missing]
        try:
            labels = sorted(pd.unique(pd.Series(given)).tolist())
        except TypeError as error:
            raise DataError(
                f"{place(name)} mixes text and numbers; give its categories as one of them."
            ) from error
        if column.kind == "boolean":
            labels = [bool(label) for label in labels]
        elif labels and all(isinstance(x, float) and x.is_integer() for x in labels):
            labels = [int(label) for label in labels]
    if not labels:
        raise DataError(f"{place(name)} has no answer at all; drop it.")
    if len(labels) > MOST_CATEGORIES:
        raise DataError(
            f"{place(name)} has {len(labels):,} categories, more than the {MOST_CATEGORIES} that a "
            "nominal question can have; put rare ones together, or leave the column out."
        )
    return labels


def _read_numbers(table: Table, j: int) -> np.ndarray:
    name = table.name(j)
    values = table.column(j)
    if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        values = pd.Series(values).astype(object)  # labels that are numbers
    column = read_feature(values, name)
    if isinstance(column, Numbers):
        return column.values
    row = int((column.code >= 0).argmax())
    shown = column.text[column.cell == column.code[row]][0] if column.text.size else ""
    raise DataError(
        f"{place(name, row)}: {shown!r:.80} is text, but the column is in numeric; convert it, for "
        "example with pandas.to_numeric, or put it in nominal."
    )


def _columns(table: Table, positions: list[int]) -> dict[Name, Any]:
    return {table.name(j): table.read(j) for j in positions}


def _refuse_without_difference(
    table: Table, found: Questionnaire, answers: Observations, told: list[int], codes: frozenset[Name]
) -> None:
    """Refuse a question that has one answer within every group of the background."""
    levels = answers.to_dense()
    values = levels.astype(np.float64)
    values[:, [found.questions.index(j) for j in found.numeric]] = (
        answers.numbers if isinstance(answers, Answers) else 0.0
    )
    values[levels < 0] = np.nan
    for j in told:
        group = groups_of(table.read(j), table.name(j), codes=table.name(j) in codes)
        if group is not None:
            _refuse_constant(table, found, values, group, table.name(j))


def _refuse_constant(
    table: Table, found: Questionnaire, values: np.ndarray, group: np.ndarray, name: Name
) -> None:
    n_groups = int(group.max(initial=-1)) + 1
    for place_, j in enumerate(found.questions):
        own, there = values[:, place_], (group >= 0) & ~np.isnan(values[:, place_])
        low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
        np.minimum.at(low, group[there], own[there])
        np.maximum.at(high, group[there], own[there])
        answered = np.isfinite(low)
        several = there.sum() >= 2 * answered.sum()
        if several and (low == high)[answered].all() and np.unique(low[answered]).size > 1:
            raise DataError(
                f"{place(table.name(j))} has one answer only within every group of {name!r}, so "
                f"that nothing is left to learn of it; leave it or {name!r} out."
            )


# ---- background: what is known of people that is no answer, such as country, sex and age ---------


@dataclass(frozen=True)
class Background:
    """How the columns of the background become numbers.

    Examples
    --------
    >>> table = {"land": ["at"] * 4 + ["ch"] * 4, "age": [20.0, 40.0] * 4}
    >>> background = learn_background(table)
    >>> background.names
    ['land=at', 'land=ch', 'age']
    >>> background.encode(table)[0].tolist()
    [0.5, -0.5, -1.0]
    """

    columns: tuple[Name, ...]
    coding: Coding
    has_missing: tuple[bool, ...]  # whether a column has an indicator of what is missing besides
    means: tuple[float, ...]

    @property
    def names(self) -> list[str]:
        """What each number tells, for readers."""
        found = []
        for column, missing in zip(self.coding.columns, self.has_missing, strict=True):
            found += column.feature_names
            found += [f"{column.name} is missing"] if missing else []
        return found

    def encode(self, table: Mapping[Name, Any]) -> np.ndarray:
        """(rows, P) float32 of a table's columns."""
        parts = [
            _numbers(coded, missing, table[name], name)
            for name, coded, missing in zip(self.columns, self.coding.columns, self.has_missing, strict=True)
        ]
        return np.hstack(parts) - np.array(self.means, dtype=np.float32)

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            "coding": self.coding.to_json(),
            "has_missing": list(self.has_missing),
            "means": list(self.means),
        }

    @classmethod
    def from_json(cls, content: Any) -> Background:
        """The background that `to_json` wrote; a file may hold anything instead."""
        wrong = DataError(f"its header has {content!r:.80} as the background")
        if not isinstance(content, dict) or set(content) != {"columns", "coding", "has_missing", "means"}:
            raise wrong
        coding = Coding.from_json(content["coding"])
        columns, missing, means = (content[name] for name in ("columns", "has_missing", "means"))
        kinds = ((columns, (str, int)), (missing, (bool,)), (means, (int, float)))
        if not all(isinstance(part, list) and all(type(one) in kind for one in part) for part, kind in kinds):
            raise wrong
        found = cls(tuple(columns), coding, tuple(missing), tuple(map(float, means)))
        n = len(coding.columns)
        lengths = len(columns) == len(missing) == n and len(means) == len(found.names)
        if not lengths or not all(abs(mean) <= 1.0 for mean in found.means):
            raise wrong
        return found


def learn_background(table: Mapping[Name, Any], codes: frozenset[Name] = frozenset()) -> Background:
    """Learn from a table's columns how they become numbers; ``codes`` are of categories."""
    coded: list[CodedColumn] = []
    has_missing = []
    for name, values in table.items():
        column = read_feature(values, name)
        learnt = learn_column(column, codes=name in codes)
        if isinstance(learnt, str):
            raise DataError(
                f"{place(name)} cannot be background: {learnt}, so that there is nothing to "
                "compare; leave it out of background."
            )
        coded.append(learnt)
        missing = _missing(column)
        has_missing.append(not isinstance(learnt, NumberColumn) and int(missing.sum()) >= FEWEST)
    start = Background(tuple(table), Coding(tuple(coded)), tuple(has_missing), ())
    n = len(start.names)
    raw = Background(start.columns, start.coding, start.has_missing, (0.0,) * n).encode(table)
    means = tuple(float(mean) for mean in raw.mean(axis=0, dtype=np.float64))
    return Background(start.columns, start.coding, start.has_missing, means)


def groups_of(values: Any, name: Name, *, codes: bool) -> np.ndarray | None:
    """(rows,) which group each row is in, -1 where missing; None of a column of numbers."""
    column = read_feature(values, name)
    if isinstance(column, Texts):
        return column.code
    if not (codes or column.is_boolean):
        return None
    _, found = np.unique(column.values, return_inverse=True)
    return np.where(np.isnan(column.values), -1, found)


def _numbers(coded: CodedColumn, missing: bool, values: Any, name: Name) -> np.ndarray:
    column = read_feature(values, name)
    features = coded.encode(column).toarray().astype(np.float32)
    if not missing:
        return features
    return np.hstack([features, _missing(column)[:, None].astype(np.float32)])


def _missing(column: Any) -> np.ndarray:
    return column.code < 0 if isinstance(column, Texts) else np.isnan(column.values)


# ---- numbers on the scale that a model has of them, and back -------------------------------------


# Beyond this a number is not normal around anything.
_SKEWED = 1.0
_MOST_KNOTS = 100
_LARGEST, _SMALLEST = 1e300, 1e-300
# Nodes and weights for means over a normal distribution.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_SHARES = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class NumberScale:
    """Mean and deviation of a number; of a skewed one also some values and their normal scores.

    Examples
    --------
    >>> scale = learn_number_scale(np.array([10.0, 20.0, 30.0]), "hours")
    >>> scale.standardise(np.array([20.0, 30.0]), "hours").round(2).tolist()
    [0.0, 1.22]
    >>> scale.restore(np.array([0.0])).tolist()
    [20.0]
    """

    mean: float
    deviation: float
    values: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()

    def standardise(self, values: np.ndarray, name: Name) -> np.ndarray:
        """Numbers on the scale of the model; NaN stays."""
        found = standardised(values, self.mean, self.deviation, name)
        if not self.values:
            return found
        # Beyond what was seen, in standard deviations from there.
        low, high = self.values[0], self.values[-1]
        beyond = np.maximum(values - high, 0.0) + np.minimum(values - low, 0.0)
        return np.interp(values, self.values, self.scores) + beyond / self.deviation

    def restore(self, standardised: np.ndarray) -> np.ndarray:
        """Numbers as they are; a skewed one stays within those that were seen."""
        if not self.values:
            return self.mean + self.deviation * standardised
        return np.interp(standardised, self.scores, self.values)

    def restore_given(self, standardised: np.ndarray) -> np.ndarray:
        """The same of numbers that were given, which may be beyond those that were seen."""
        if not self.values:
            return self.restore(standardised)
        low, high = self.scores[0], self.scores[-1]
        beyond = np.maximum(standardised - high, 0.0) + np.minimum(standardised - low, 0.0)
        return self.restore(standardised) + self.deviation * beyond

    def moments(self, mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of numbers that are normal on the scale of the model."""
        if not self.values:
            return self.restore(mean), self.deviation * deviation
        points = self.restore(mean[:, None] + deviation[:, None] * _NODES)
        first = points @ _SHARES
        return first, np.sqrt(np.maximum((points - first[:, None]) ** 2 @ _SHARES, 0.0))

    def to_json(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "deviation": self.deviation,
            "values": list(self.values),
            "scores": list(self.scores),
        }

    @classmethod
    def from_json(cls, content: Any) -> NumberScale:
        """The scale that `to_json` wrote; a file may hold anything instead."""
        wrong = DataError(f"its header has {content!r:.80} as the scale of a number")
        names = ("mean", "deviation", "values", "scores")
        if not isinstance(content, dict) or set(content) != set(names):
            raise wrong
        mean, deviation, values, scores = (content[name] for name in names)
        if not isinstance(values, list) or not isinstance(scores, list):
            raise wrong
        every = [mean, deviation, *values, *scores]
        if not all(type(one) in (int, float) and abs(one) <= _LARGEST for one in every):
            raise wrong
        ascending = all(np.all(np.diff(part) > 0) for part in (values, scores) if len(part))
        if deviation < _SMALLEST or len(values) != len(scores) or not ascending:
            raise wrong
        if len(values) == 1 or len(values) > _MOST_KNOTS:
            raise wrong
        return cls(float(mean), float(deviation), *(tuple(map(float, p)) for p in (values, scores)))


def learn_number_scale(values: np.ndarray, name: Name) -> NumberScale:
    """Learn the scale of a column of numbers, NaN where unanswered."""
    known = np.sort(values[~np.isnan(values)])
    if not known.size:
        raise DataError(f"{place(name)} has no answer at all; drop it.")
    if known[0] == known[-1]:
        raise DataError(
            f"{place(name)} has only the value {known[0]:g}, from which nothing can be learnt as a "
            "number; leave it out."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(known.mean()), float(known.std())
    if not (_SMALLEST < deviation < _LARGEST and abs(mean) < _LARGEST):
        raise DataError(
            f"{place(name)} has numbers too large or too close to be told apart; give it in other units."
        )
    found = NumberScale(mean, deviation)
    if not abs(float(skew((known - mean) / deviation))) > _SKEWED:
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
        wanted = np.linspace(score[0], score[-1], _MOST_KNOTS)
        chosen = np.unique(np.searchsorted(score, wanted))
        distinct, score = distinct[chosen], score[chosen]
    return distinct, score

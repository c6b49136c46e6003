"""What the columns of a survey are: ordered scales, unordered categories, numbers, background.

It is learnt from a table together with its answers, and reads further tables alike.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from ordinalrbm.data.answers import NOMINAL, NUMERIC, ORDINAL, Answers
from ordinalrbm.data.background import Background, groups_of, learn_background
from ordinalrbm.data.batteries import lacking_levels
from ordinalrbm.data.features import Numbers, read_feature
from ordinalrbm.data.number_scales import NumberScale, learn_number_scale
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
            scale if kind == "ordinal" else None
            for scale, kind in zip(self.scales, self.kinds, strict=True)
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
            tuple(kinds), tuple(scales), tuple(map(NumberScale.from_json, numbers)),
            background=None if background is None else Background.from_json(background),
        )  # fmt: skip
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
        tuple(kinds), tuple(own), tuple(numbers),
        background=learn_background(_columns(table, told), codes) if told else None,
    )  # fmt: skip
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
        raise DataError(
            f"The '{what}' parameter must be a list of columns. Got {columns!r} instead."
        )
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
        f"The '{what}' parameter names {column!r}, but there is no such column; the columns are "
        f"{there}."
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
    table: Table, found: Questionnaire, answers: Observations, told: list[int],
    codes: frozenset[Name],
) -> None:  # fmt: skip
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

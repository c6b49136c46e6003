"""Features of users and items: the columns of a table as numbers.

A column of a frame is read (a `Column` of numbers, or `Texts`), a coding is learnt from it
(`CodedColumn`), and the coding makes features of this column and of the same column in later
frames. Cells are parsed once per distinct value, and the table is sparse. A row whose known features
are all zero keeps one explicit zero, to distinguish it from a row of an unknown id.
"""

from __future__ import annotations

import datetime
import math
import numbers
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ordinalrbm.data.columns import (
    Column,
    Ids,
    Name,
    as_column,
    factorise,
    location,
    number_ids,
    read_column,
    shown,
)
from ordinalrbm.data.frames import Frame, TableLike, frame_of
from ordinalrbm.data.scales import MANY_LEVELS, shorten
from ordinalrbm.data.triples import candidates
from ordinalrbm.errors import DataError, DataTypeError, user_stacklevel
from ordinalrbm.storage.reader import Stored

FEWEST = 3  # ids with a category: what one or two have in common says nothing about others
FURTHEST = 1e6  # deviations from the mean: what is farther out is an error, not a value

What = Literal["user", "item", "row"]

_LARGEST = float(np.finfo(np.float64).max)
_SMALLEST = float(np.finfo(np.float64).smallest_normal)
_EMPTY, _CONSTANT = "all missing", "only one value"


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of users or items: a row for each id, sorted, and a column for each feature."""

    ids: Ids
    table: sp.csr_array  # (ids, features) float32
    coding: Coding


@dataclass(frozen=True, slots=True)
class Coding:
    """How the columns of a frame become features."""

    columns: tuple[CodedColumn, ...]

    @property
    def names(self) -> list[str]:
        return [name for column in self.columns for name in column.feature_names]

    @property
    def n_features(self) -> int:
        return len(self.names)

    def to_json(self) -> list[dict[str, Any]]:
        """Plain lists, dictionaries, texts and finite numbers, for the header of a model file."""
        return [column.to_json() for column in self.columns]

    @classmethod
    def from_json(cls, content: Any) -> Coding:
        if not isinstance(content, list) or not content:
            raise DataError(f"its header has {content!r:.80} as the columns of features")
        columns = tuple(_column_from_json(one) for one in content)
        if len({column.name for column in columns}) < len(columns):
            raise DataError("its header names a column of features twice")
        return cls(columns)


def read_features(frame: TableLike, what: What) -> Features:
    """Read features, and learn from the frame how its columns become numbers.

    The frame has a row for each user or item. The column "user" (or "item", or another usual name such as
    customer_id or movieId, see `ordinalrbm.data.triples`) holds the ids, all others are features: **numbers**
    in standard deviations from the mean, 0 where missing, with one more feature that marks missing ones;
    **booleans**; **text** and categoricals, a feature for each category that `FEWEST` ids have, several in a
    cell by "|" or as a list; **ordered** categoricals (Enum in polars), a feature "at least this" for each
    level but the lowest. A boolean or a level that is missing counts as the average. Numbers that are codes
    of groups must be given as text. Columns that give no feature are left out with a warning.
    """
    table, id_column = _check_frame(frame, what)
    order, ids = _sorted_ids(table, what, id_column)
    coded, columns, left_out = [], [], {}
    for name in _feature_columns(table, what, id_column):
        column = _column_of(table, name)
        learnt = _learn(column, what)
        if isinstance(learnt, str):
            left_out[name] = learnt
        else:
            coded.append(learnt)
            columns.append(column)
    _report_left_out(left_out, bool(coded), what)
    coding = Coding(tuple(coded))
    return Features(ids, _feature_table(coding, columns)[order], coding)


def encode_features(coding: Coding, frame: TableLike, what: What) -> Features:
    """Features of further ids by a known coding, which ignores other columns."""
    table, id_column = _check_frame(frame, what)
    there = table.names
    lacking = [column.name for column in coding.columns if column.name not in there]
    if lacking:
        raise DataError(
            f"The {what} features have no column {shorten(lacking)[1:-1]}, only {shorten(there)}; "
            "give all columns that the model was fitted with, empty where nothing is known."
        )
    order, ids = _sorted_ids(table, what, id_column)
    columns = [_column_of(table, column.name) for column in coding.columns]
    return Features(ids, _feature_table(coding, columns)[order], coding)


def _feature_table(coding: Coding, columns: Sequence[Read]) -> sp.csr_array:
    """(rows, features) of all columns, with an explicit zero in rows where all that is known is zero."""
    pairs = list(zip(coding.columns, columns, strict=True))
    table = sp.hstack([own.encode(column) for own, column in pairs], format="csr")
    is_known = np.any([own.is_observed(column) for own, column in pairs], axis=0)
    blank = is_known & (np.diff(table.indptr) == 0)
    at, more = table.indptr[:-1][blank], np.concatenate([[0], np.cumsum(blank)])
    start = table.indptr + more.astype(table.indptr.dtype)
    parts = np.insert(table.data, at, 0), np.insert(table.indices, at, 0), start
    return sp.csr_array(parts, shape=table.shape)


def aligned(features: Features, ids: Ids, what: str = "id") -> sp.csr_array:
    """The table's rows in the order of other ids; an id without features has an empty row."""
    table = features.table
    line = features.ids.match(ids, what) if len(ids) else np.empty(0, dtype=np.int64)
    start = np.append(table.indptr, table.indptr[-1])
    # With one more row, which is empty, for the position -1 of unknown ids.
    lines = (table.shape[0] + 1, table.shape[1])
    return sp.csr_array((table.data, table.indices, start), shape=lines)[line]


def learn_column(column: Read, *, codes: bool = False) -> CodedColumn | str:
    """How a column of a table becomes features, or why it becomes none.

    With ``codes``, numbers are codes of categories.
    """
    return _learn(_as_texts(column, ("0",)) if codes else column, "row")


# ---- columns and their codings ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A column of text, by its distinct cells and the values in each of them."""

    name: Name
    code: np.ndarray  # (rows,) which of the distinct cells, -1 where missing
    cell: np.ndarray  # (values,) the distinct cell that a value is in; some have none
    text: np.ndarray  # (values,) objects that are str, not empty, without blanks around them
    form: Literal["text", "list", "ordered"] = "text"  # values of "ordered" ascend

    @property
    def n_cells(self) -> int:
        return 1 + int(max(self.code.max(initial=-1), self.cell.max(initial=-1)))

    @property
    def missing(self) -> np.ndarray:
        return self.code < 0

    def by_row(self, of_value: np.ndarray, missing: float) -> np.ndarray:
        """(rows,) a number that each value has; for columns with one value in a cell."""
        of_cell = np.full(self.n_cells + 1, missing)  # the last is for the code -1
        of_cell[self.cell] = of_value
        return of_cell[self.code]

    def indicators(self, categories: Sequence[str] | np.ndarray) -> sp.csr_array:
        """(distinct cells + 1, categories) which has which; the last row, of -1, is empty."""
        found = _positions(self.text, categories)
        cell, category = (part[found >= 0].astype(np.int32) for part in (self.cell, found))
        ones = np.ones(len(cell), dtype=np.float32)
        table = sp.csr_array((ones, (cell, category)), shape=(self.n_cells + 1, len(categories)))
        table.data[:] = 1  # a cell may name a category twice
        return table


Read = Column | Texts  # a Column that holds finite float64 numbers, 0 and 1 where they are booleans


class CodedColumn(ABC):
    """How one column becomes features."""

    __slots__ = ()
    kind: ClassVar[str]
    name: str

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """A readable name for each feature."""

    @abstractmethod
    def encode(self, column: Read) -> sp.csr_array:
        """(rows, features) float32."""

    def is_observed(self, column: Read) -> np.ndarray:
        """(rows,) whether the column is observed, so that a zero is a value."""
        return ~np.isnan(_as_numbers(column))

    @classmethod
    @abstractmethod
    def from_stored(cls, name: str, stored: Stored) -> CodedColumn:
        """The column whose fields `to_json` wrote, each of them checked."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **plain_fields(self)}


def standardised(values: np.ndarray, mean: float, deviation: float, name: Name) -> np.ndarray:
    """Values in standard deviations from the mean, NaN where missing; far outliers are refused."""
    with np.errstate(over="ignore"):
        # Halves, because the distance of two large numbers may be more than a float holds.
        found = (values / 2 - mean / 2) / deviation * 2
    too_far = np.abs(found) > FURTHEST
    if too_far.any():
        row = int(too_far.argmax())
        raise DataError(
            f"{location(name, row)}: the value {shown(values[row])} is more than {FURTHEST:,.0f} standard "
            f"deviations away from the mean {mean:g} that was learnt; correct it or leave it empty."
        )
    return found


@dataclass(frozen=True, slots=True)
class NumberColumn(CodedColumn):
    """Standard deviations from the mean; a missing number is 0, the mean."""

    kind: ClassVar[str] = "number"
    name: str
    mean: float
    deviation: float
    has_missing: bool  # whether there is a feature that marks missing numbers

    @property
    def feature_names(self) -> list[str]:
        return [self.name, f"{self.name} is missing"] if self.has_missing else [self.name]

    def encode(self, column: Read) -> sp.csr_array:
        values = _as_numbers(column)
        standard = standardised(values, self.mean, self.deviation, self.name)
        missing = np.isnan(values)
        features = np.zeros((len(values), len(self.feature_names)), dtype=np.float32)
        features[:, 0] = np.where(missing, 0, standard)
        if self.has_missing:
            features[:, 1] = missing
        return sp.csr_array(features)

    @classmethod
    def from_stored(cls, name: str, stored: Stored) -> NumberColumn:
        mean = stored_number(stored, "mean", -_LARGEST, _LARGEST)
        deviation = stored_number(stored, "deviation", _SMALLEST, _LARGEST)
        return cls(name, mean, deviation, stored.entry("has_missing", bool))


@dataclass(frozen=True, slots=True)
class BooleanColumn(CodedColumn):
    """One where true; a missing value is the average."""

    kind: ClassVar[str] = "boolean"
    name: str
    average: float

    @property
    def feature_names(self) -> list[str]:
        return [self.name]

    def encode(self, column: Read) -> sp.csr_array:
        values = _as_numbers(column)
        missing = np.isnan(values)
        wrong = ~missing & (values != 0) & (values != 1)
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"{location(self.name, row)}: the value {shown(values[row])} is neither true nor false, as "
                "the column was when the features were learnt; correct it or leave it empty."
            )
        return sp.csr_array(np.where(missing, self.average, values).astype(np.float32)[:, None])

    @classmethod
    def from_stored(cls, name: str, stored: Stored) -> BooleanColumn:
        return cls(name, stored_number(stored, "average", 0, 1))


@dataclass(frozen=True, slots=True)
class CategoryColumn(CodedColumn):
    """An indicator for each category, without a reference category."""

    kind: ClassVar[str] = "category"
    name: str
    categories: tuple[str, ...]

    @property
    def feature_names(self) -> list[str]:
        return [f"{self.name}={category}" for category in self.categories]

    def encode(self, column: Read) -> sp.csr_array:
        texts = _split(_as_texts(column, self.categories))
        return texts.indicators(self.categories)[texts.code]

    def is_observed(self, column: Read) -> np.ndarray:
        # A category without an indicator is unknown.
        return np.zeros(len(_as_texts(column, self.categories).code), dtype=bool)

    @classmethod
    def from_stored(cls, name: str, stored: Stored) -> CategoryColumn:
        categories = _stored_texts(stored, "categories")
        if any("|" in category for category in categories):
            raise invalid_entry("categories", categories)
        return cls(name, categories)


@dataclass(frozen=True, slots=True)
class OrderedColumn(CodedColumn):
    """An indicator "at least this level" for each step; a missing level is the average of each."""

    kind: ClassVar[str] = "ordered"
    name: str
    levels: tuple[str, ...]  # all of them, also those that nobody had
    steps: tuple[int, ...]  # positions of levels that somebody had, but for the lowest
    averages: tuple[float, ...]  # of each step's indicator

    @property
    def feature_names(self) -> list[str]:
        return [f"{self.name}>={self.levels[step]}" for step in self.steps]

    def encode(self, column: Read) -> sp.csr_array:
        level = self._level(column)
        reached = np.where(level < 0, -1, np.searchsorted(self.steps, level, side="right"))
        n = len(self.steps)
        # Row k has the first k steps; the last row, of -1, is for missing levels.
        rows = np.vstack([np.tri(n + 1, n, -1), self.averages]).astype(np.float32)
        return sp.csr_array(rows)[reached]

    def is_observed(self, column: Read) -> np.ndarray:
        return self._level(column) >= 0

    def _level(self, column: Read) -> np.ndarray:
        """(rows,) positions of levels, -1 where missing."""
        texts = _as_texts(column, self.levels)
        if texts.form == "list":
            raise DataTypeError(
                f"{location(self.name)} holds lists, but held ordered levels when the features were "
                "learnt; give one level in each cell."
            )
        return texts.by_row(_positions(texts.text, self.levels), missing=-1)

    @classmethod
    def from_stored(cls, name: str, stored: Stored) -> OrderedColumn:
        levels = _stored_texts(stored, "levels")
        steps = stored_tuple(stored, "steps", lambda step: type(step) is int and 0 < step < len(levels))
        if not 0 < len(steps) <= MANY_LEVELS or sorted(set(steps)) != list(steps):
            raise invalid_entry("steps", steps)
        averages = stored_numbers(stored, "averages", 0, 1)
        if len(averages) != len(steps):
            raise invalid_entry("averages", averages)
        return cls(name, levels, steps, averages)


def _positions(text: np.ndarray, known: Sequence[str] | np.ndarray) -> np.ndarray:
    """Position of each text among the known ones, -1 where it is not."""
    # As objects, because pandas' own text cannot hold every str.
    return pd.Index(known, dtype=object).get_indexer(pd.Index(text, dtype=object))


# ---- a column in another form than the one it was learnt in ------------------------------------


def _as_numbers(column: Read) -> np.ndarray:
    if isinstance(column, Column):
        return column.values
    known = column.by_row(np.ones(len(column.cell)), missing=0) > 0
    if known.any():
        row = int(known.argmax())
        value = column.text[column.cell == column.code[row]][0]
        raise DataTypeError(
            f"{location(column.name, row)}: {value!r:.80} is text, but the column held numbers when "
            "the features were learnt; convert it, for example with pandas.to_numeric."
        )
    return np.full(len(column.code), np.nan)


def _as_texts(column: Read, categories: Sequence[str]) -> Texts:
    """Text, also of numbers if there are numbers among the categories."""
    if isinstance(column, Texts):
        return column
    code, distinct = factorise(column.values, location(column.name))
    labels = distinct.astype(bool) if column.kind == "boolean" else distinct
    text = np.array([_label_text(label) for label in labels.tolist()], dtype=object)
    if len(text) and not any(map(_is_numeral, categories)):
        row = int((code == 0).argmax())
        raise DataTypeError(
            f"{location(column.name, row)}: {text[0]} is no text, but the column held text such as "
            f"{categories[0]!r} when the features were learnt; give it as text."
        )
    return Texts(column.name, code, np.arange(len(text)), text)


def _is_numeral(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("True", "False")
    return True


def _label_text(label: Any) -> str:
    is_whole = isinstance(label, float) and label.is_integer()
    return str(int(label) if is_whole else label)


def _split(texts: Texts) -> Texts:
    """With the values between "|" as values of their own."""
    if not any("|" in text for text in texts.text):
        return texts
    parts = [text.split("|") for text in texts.text]
    cell = np.repeat(texts.cell, [len(part) for part in parts])
    return Texts(texts.name, texts.code, *_stripped(cell, chain.from_iterable(parts)), "list")


def _stripped(cell: np.ndarray, text: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Values without blanks around them, and the cells they are in; empty ones are missing."""
    plain = np.array([one.strip() for one in text], dtype=object)
    there = plain != ""
    return cell[there], plain[there]


# ---- learning a coding ------------------------------------------------------------------------


def _learn(column: Read, what: What) -> CodedColumn | str:
    if isinstance(column, Texts):
        return _learn_order(column) if column.form == "ordered" else _learn_categories(column, what)
    # Sorted, so that sums do not depend on the order of the frame.
    known = np.sort(column.values[~np.isnan(column.values)])
    if not known.size:
        return _EMPTY
    if known[0] == known[-1]:
        return _CONSTANT
    name = str(column.name)
    if column.kind == "boolean":
        return BooleanColumn(name, float(known.mean()))
    mean, deviation = _mean_and_deviation(known)
    if deviation < _SMALLEST:  # by which nothing can be divided
        return _CONSTANT
    return NumberColumn(name, mean, deviation, known.size < column.values.size)


def _mean_and_deviation(ascending: np.ndarray) -> tuple[float, float]:
    # Scaled by a power of two, which rounds nothing, lest squares overflow; and from the lowest
    # on, lest sums of large numbers lose how little these differ.
    exponent = int(np.frexp(np.abs(ascending[[0, -1]]).max())[1])
    scaled = np.ldexp(ascending, -exponent)
    above = scaled - scaled[0]
    mean, deviation = float(scaled[0] + above.mean()), float(above.std())
    return math.ldexp(mean, exponent), math.ldexp(deviation, exponent)


def _learn_categories(column: Texts, what: What) -> CategoryColumn | str:
    texts = _split(column)
    _, distinct = factorise(texts.text, location(column.name))
    n_rows_of_cell = np.bincount(texts.code[texts.code >= 0], minlength=texts.n_cells + 1)
    n_ids = texts.indicators(distinct).T @ n_rows_of_cell
    # A category that all have is no different from a constant.
    kept = (n_ids >= FEWEST) & (n_ids < len(texts.code))
    if kept.any():
        return CategoryColumn(str(column.name), tuple(sorted(distinct[kept])))
    if not n_ids.any():
        return _EMPTY
    if n_ids.max() == len(texts.code) and np.count_nonzero(n_ids) == 1:
        return _CONSTANT
    return f"no value that at least {FEWEST} {what}s, but not all, have"


def _learn_order(column: Texts) -> OrderedColumn | str:
    levels = tuple(column.text)
    level = column.by_row(np.arange(len(levels)), missing=-1)
    n_ids = np.bincount(level[level >= 0], minlength=len(levels))
    used = np.flatnonzero(n_ids)
    if len(used) < 2:
        return _CONSTANT if len(used) else _EMPTY
    if len(used) - 1 > MANY_LEVELS:
        raise DataError(
            f"{location(column.name)} has {len(used):,} ordered levels, more than the {MANY_LEVELS + 1} that "
            "features are made of; give it as a number, or as text if the order does not matter."
        )
    at_least = np.cumsum(n_ids[::-1])[::-1]
    averages = at_least[used[1:]] / at_least[0]
    return OrderedColumn(str(column.name), levels, tuple(used[1:].tolist()), tuple(averages.tolist()))


def _report_left_out(left_out: dict[str, str], is_any_left: bool, what: What) -> None:
    """Warn of columns that become no feature; raise where there are no others."""
    if not left_out:
        return
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(name)
    named = " and ".join(f"{shorten(names)} ({reason})" for reason, names in by_reason.items())
    remedy = f"columns in which several {what}s agree and others differ"
    if not is_any_left:
        raise DataError(f"No {what} feature comes from the columns {named}; give {remedy}.")
    warnings.warn(
        f"No {what} feature comes from the columns {named}; drop them, or make them {remedy}.",
        stacklevel=user_stacklevel(),
    )


# ---- reading frames ---------------------------------------------------------------------------


def _check_frame(given: TableLike, what: What) -> tuple[Frame, str]:
    frame = frame_of(given, f"The {what} features")
    names = frame.names
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"The {what} features have more than one column named {twice[0]!r}; rename or drop all but one."
        )
    ids = candidates(names, what)
    if not ids:
        raise DataError(
            f"The {what} features have no column {what!r}, only {shorten(names)}; rename the one "
            f"that holds the {what}s, or make the index a column with reset_index()."
        )
    if len(ids) > 1:
        raise DataError(
            f"The columns {ids[0]!r} and {ids[1]!r} of the {what} features could both hold the "
            f"{what}s; rename the right one to {what!r}."
        )
    if not frame.n_rows:
        raise DataError(f"The {what} features have no row; give at least one.")
    return frame, ids[0]


def _feature_columns(frame: Frame, what: What, id_column: str) -> list[str]:
    names = [name for name in frame.names if name != id_column]
    if not names:
        raise DataError(
            f"The {what} features have no column but {id_column!r}; give at least one that tells "
            f"something of the {what}s."
        )
    for name in names:
        if not isinstance(name, str):
            raise DataTypeError(
                f"The {what} features have a column named {name!r}, which is no text; name all "
                "with text, for example with frame.columns.astype(str)."
            )
    return names


def _sorted_ids(frame: Frame, what: What, id_column: str) -> tuple[np.ndarray, Ids]:
    """The rows in the order of their ids, and the ids, each of them once."""
    values = frame.column(frame.names.index(id_column))
    position, ids = number_ids(as_column(values, location(what)), what)
    if len(ids) < len(position):
        second = int(pd.Series(position).duplicated().to_numpy().argmax())
        first = int((position == position[second]).argmax())
        raise DataError(
            f"Row {second} (counted from 0): the {what} {shown(ids.labels[position[second]])} is there "
            f"before, in row {first}; keep one of them, for example with drop_duplicates({id_column!r})."
        )
    order = np.empty(len(position), dtype=np.int64)
    order[position] = np.arange(len(position))
    return order, ids


def _column_of(frame: Frame, name: str) -> Read:
    return read_feature(read_column(frame.column(frame.names.index(name), lists=True), name))


# ---- reading columns --------------------------------------------------------------------------


def read_feature(column: Column) -> Read:
    name = column.name
    _check_types(column)
    if column.kind in ("category", "ordered"):
        return _read_categorical(column)
    if column.kind == "text":
        return Texts(name, column.codes, *_stripped(np.arange(len(column.distinct)), column.distinct))
    if column.kind == "list":
        return _read_lists(column)
    wide = column.values.astype(np.float64)
    infinite = np.isinf(wide)
    if infinite.any():
        row = int(infinite.argmax())
        raise DataError(
            f"{location(name, row)}: the value {wide[row]} is infinite; correct it or leave it empty."
        )
    return replace(column, values=wide)


def _check_types(column: Column) -> None:
    """Refuse dates and the like, and values of several types."""
    forms = {_form(kind, column.name) for kind in column.types}
    if column.kind == "other" and column.types == (Decimal,):
        raise _not_a_feature(column.name, "Decimal, with a NaN that signals")
    if column.kind == "other" and not column.types:
        dtype = column.values.dtype
        raise _not_a_feature(column.name, str(dtype), is_date=dtype.kind in "mM")
    if len(forms) > 1:
        raise _mixed(column.name, column.types)


def _read_categorical(column: Column) -> Texts:
    name, labels = column.name, column.distinct
    if len({isinstance(label, str) for label in labels}) > 1:
        raise _mixed(name, [type(label) for label in labels])
    cell, text = _stripped(np.arange(len(labels)), map(_label_text, labels))
    if column.kind == "category":
        return Texts(name, column.codes, cell, text)
    if len(set(text)) < len(text):
        twice = Counter(text).most_common(1)[0][0]
        raise DataError(f"{location(name)} has the level {twice!r} twice; rename one of them.")
    return Texts(name, column.codes, cell, text, "ordered")


def _form(kind: type, name: Name) -> str:
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, bool | np.bool_):
        return "boolean"
    if issubclass(kind, numbers.Real | Decimal):
        return "number"
    if issubclass(kind, list | tuple | set | frozenset | np.ndarray):
        return "list"
    date = datetime.date | datetime.time | datetime.timedelta | np.datetime64 | np.timedelta64
    raise _not_a_feature(name, kind.__name__, issubclass(kind, date | pd.Period))


def _read_lists(column: Column) -> Texts:
    """Lists of text in cells; every cell counts as distinct."""
    known = ~column.missing
    lists = column.values[known].tolist()
    text = pd.Series(list(chain.from_iterable(lists)), dtype=object).to_numpy()
    row = np.repeat(np.flatnonzero(known), [len(one) for one in lists])
    there = ~pd.isna(text)
    row, text = row[there], text[there]
    for kind in dict.fromkeys(map(type, text)):
        if not issubclass(kind, str):
            first = next(i for i, value in zip(row, text, strict=True) if type(value) is kind)
            raise DataTypeError(
                f"{location(column.name, int(first))}: the list holds a value of type {kind.__name__}; give "
                "lists of text, or one number in each cell."
            )
    return Texts(column.name, np.arange(len(column)), *_stripped(row, text), "list")


def _mixed(name: Name, kinds: Iterable[type]) -> DataError:
    named = " and ".join(sorted({kind.__name__ for kind in kinds}))
    return DataTypeError(
        f"{location(name)} mixes values of type {named}; give all of them one type, for example with "
        "astype(str)."
    )


def _not_a_feature(name: Name, kind: str, is_date: bool = False) -> DataError:
    if is_date:
        return DataTypeError(
            f"{location(name)} holds dates or times (type {kind}); make them numbers, for example "
            "with .dt.year, or drop the column."
        )
    return DataTypeError(
        f"{location(name)} holds values of type {kind}, which are neither numbers nor text nor lists "
        "of text; convert the column or drop it."
    )


# ---- reading what a file holds ------------------------------------------------------------------

_KINDS = {coded.kind: coded for coded in (NumberColumn, BooleanColumn, CategoryColumn, OrderedColumn)}


def _column_from_json(content: Any) -> CodedColumn:
    if not isinstance(content, dict):
        raise DataError(f"its header has {content!r:.80} as a column of features")
    stored = Stored({}, content)
    kind, name = stored.entry("kind", str), stored.entry("name", str)
    if kind not in _KINDS:
        raise invalid_entry("kind", kind)
    return _KINDS[kind].from_stored(name, stored)


def plain_fields(value: Any) -> dict[str, Any]:
    content = {one.name: getattr(value, one.name) for one in fields(value)}
    return {name: list(part) if isinstance(part, tuple) else part for name, part in content.items()}


def invalid_entry(name: str, value: Any) -> DataError:
    return DataError(f"its header has {value!r:.80} as '{name}'")


def stored_tuple(stored: Stored, name: str, is_valid: Callable[[Any], bool]) -> tuple[Any, ...]:
    """A list of the header, all of whose members are valid."""
    found = stored.entry(name, list)
    if not all(map(is_valid, found)):
        raise invalid_entry(name, found)
    return tuple(found)


def stored_numbers(stored: Stored, name: str, low: float, high: float) -> tuple[float, ...]:
    """A list of the header, of numbers between two bounds."""
    numbers = stored_tuple(stored, name, lambda one: type(one) in (int, float) and low <= one <= high)
    return tuple(map(float, numbers))


def stored_number(stored: Stored, name: str, low: float, high: float) -> float:
    value = stored.entry(name, int, float)
    if not low <= value <= high:
        raise invalid_entry(name, value)
    return float(value)


def _stored_texts(stored: Stored, name: str) -> tuple[str, ...]:
    """At least one text, all distinct and as `_stripped` makes them."""
    texts = stored_tuple(stored, name, lambda one: isinstance(one, str) and "" != one == one.strip())
    if not texts or len(set(texts)) < len(texts):
        raise invalid_entry(name, texts)
    return texts

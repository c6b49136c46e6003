"""Features of users and items: the columns of a table as numbers.

There are numbers, booleans, categories, and lists of categories. A coding is learnt from each column
of a frame, and makes features of this column and of the same column in later frames. The table is
sparse. A number or boolean that is known is stored even if it is zero, because rows without any
entry are those of which nothing is known.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ordinalrbm.data.columns import Column, Ids, Name, as_column, location, number_ids, read_column, shown
from ordinalrbm.data.frames import TableLike, frame_of
from ordinalrbm.data.scales import shorten
from ordinalrbm.data.triples import candidates
from ordinalrbm.errors import DataError, DataTypeError, user_stacklevel
from ordinalrbm.storage.reader import Stored

FEWEST = 3  # ids with a category: what one or two have in common says nothing about others
FURTHEST = 1e6  # deviations from the mean: what is farther out is an error, not a value
LARGEST, SMALLEST = 1e300, 1e-300  # of means and deviations, so that nothing overflows

What = Literal["user", "item"]
Kind = Literal["number", "boolean", "category"]

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

    def encode(self, columns: Sequence[Column]) -> sp.csr_array:
        """(rows, features) float32, of columns in the order of these."""
        pairs = zip(self.columns, columns, strict=True)
        table = sp.hstack([coded.encode(column) for coded, column in pairs], format="csr")
        places = (part.astype(np.int32) for part in (table.indices, table.indptr))
        return sp.csr_array((table.data, *places), shape=table.shape)

    def to_json(self) -> list[dict[str, Any]]:
        """Plain lists, dictionaries, texts and finite numbers, for the header of a model file."""
        return [asdict(column) | {"categories": list(column.categories)} for column in self.columns]

    @classmethod
    def from_json(cls, content: Any) -> Self:
        if not isinstance(content, list) or not content:
            raise DataError(f"its header has {content!r:.80} as the columns of features")
        return cls(tuple(map(CodedColumn.from_json, content)))


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """How one column becomes features.

    A number or boolean is its distance from the mean, divided by the deviation, which is 1 for booleans;
    without a value, it is at the mean. Each category has an indicator, without a reference category.
    """

    name: str
    kind: Kind
    has_missing: bool  # whether one more feature marks rows without a value
    mean: float = 0.0
    deviation: float = 1.0
    categories: tuple[str, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        names = [f"{self.name}={category}" for category in self.categories] or [self.name]
        return [*names, f"{self.name} is missing"] if self.has_missing else names

    def encode(self, column: Column) -> sp.csr_array:
        table = self._indicators(column) if self.kind == "category" else self._distances(column)
        if not self.has_missing:
            return table
        return sp.hstack([table, sp.csr_array(column.missing[:, None].astype(np.float32))], format="csr")

    def _distances(self, column: Column) -> sp.csr_array:
        values = numbers_of(column, "but the column held numbers when the features were learnt")
        row = np.flatnonzero(~np.isnan(values))
        distance = standardised(values, self.mean, self.deviation, self.name)[row].astype(np.float32)
        return sp.csr_array((distance, (row, np.zeros_like(row))), shape=(values.size, 1))

    def _indicators(self, column: Column) -> sp.csr_array:
        values = categories_of(column)
        is_number = column.kind in ("number", "boolean") and values.row.size > 0
        if is_number and not any(map(_is_numeral, self.categories)):
            raise DataTypeError(
                f"{location(column.name, int(values.row[0]))}: {values.labels[values.code[0]]} is no text, "
                f"but the column held text such as {self.categories[0]!r} when the features were learnt; "
                "give it as text."
            )
        return values.indicators(self.categories)

    @classmethod
    def from_json(cls, content: Any) -> Self:
        if not isinstance(content, dict):
            raise DataError(f"its header has {content!r:.80} as a column of features")
        stored = Stored({}, content)
        kind: Any = stored.entry("kind", str)
        mean = stored.number("mean", -LARGEST, LARGEST)
        deviation = stored.number("deviation", SMALLEST, LARGEST)
        categories = stored.members("categories", lambda one: isinstance(one, str))
        is_sound = len(set(categories)) == len(categories) and (kind == "category") == bool(categories)
        if kind not in get_args(Kind) or not is_sound or (kind == "boolean" and not 0 < mean < 1):
            raise DataError(f"its header has {content!r:.80} as a column of features")
        has_missing = stored.entry("has_missing", bool)
        return cls(stored.entry("name", str), kind, has_missing, mean, deviation, categories)


# ---- frames -------------------------------------------------------------------------------------


def read_features(frame: TableLike, what: What) -> Features:
    """Read features, and learn from the frame how its columns become numbers.

    The frame has a row for each user or item. The column "user" (or "item", or another usual name such as
    customer_id or movieId, see `ordinalrbm.data.triples`) holds the ids, all others are features:
    **numbers**, in standard deviations from the mean, and one more that marks missing ones if `FEWEST` ids
    have none; **booleans**; **text** and categoricals, a feature for each category that `FEWEST` ids have;
    **lists** (or tuples, sets, arrays) of categories in each cell, such as ``.str.split("|")`` makes of
    "Action|Comedy". The order of an ordered categorical is left aside; where it matters, give numbers, for
    example ``.cat.codes``. Numbers that are codes of groups must be text. Columns that give no feature are
    left out with a warning.
    """
    columns, ids, order = _read_frame(frame, what)
    learnt = {name: learn_column(column, what) for name, column in columns.items()}
    coded = {name: each for name, each in learnt.items() if isinstance(each, CodedColumn)}
    _report_left_out({n: why for n, why in learnt.items() if isinstance(why, str)}, bool(coded), what)
    coding = Coding(tuple(coded.values()))
    return Features(ids, coding.encode([columns[name] for name in coded])[order], coding)


def encode_features(coding: Coding, frame: TableLike, what: What) -> Features:
    """Features of further ids by a known coding, which ignores other columns."""
    columns, ids, order = _read_frame(frame, what, [column.name for column in coding.columns])
    return Features(ids, coding.encode(list(columns.values()))[order], coding)


def aligned(features: Features, ids: Ids, what: str = "id") -> sp.csr_array:
    """The table's rows in the order of other ids; an id without features has an empty row."""
    line = features.ids.match(ids, what) if len(ids) else np.empty(0, dtype=np.int64)
    return rows_or_empty(features.table, line)


def rows_or_empty(table: sp.csr_array, rows: np.ndarray) -> sp.csr_array:
    """Rows of a table; the row -1, and those beyond the last one, are empty."""
    empty = sp.csr_array((1, table.shape[1]), dtype=np.float32)
    return sp.vstack([table, empty], format="csr")[np.where(rows < table.shape[0], rows, -1)]


def _read_frame(
    data: TableLike, what: What, chosen: Sequence[str] | None = None
) -> tuple[dict[str, Column], Ids, np.ndarray]:
    """Columns of features by their names, all or those chosen; the ids; and the rows in their order."""
    frame = frame_of(data, f"The {what} features")
    names = list(map(str, frame.names))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"The {what} features have more than one column named {twice!r}; rename all but one.")
    of_ids = candidates(names, what)
    if len(of_ids) != 1:
        which = "several columns that could hold" if of_ids else f"no column {what!r} that holds"
        raise DataError(
            f"The {what} features have {which} the {what}s, in {shorten(of_ids or names)}; rename the right "
            f"one to {what!r}, or make the index a column with reset_index()."
        )
    used = [name for name in names if name != of_ids[0]] if chosen is None else chosen
    lacking = [name for name in used if name not in names]
    if lacking:
        raise DataError(
            f"The {what} features have no column {shorten(lacking)[1:-1]}, only {shorten(names)}; "
            "give all columns that the model was fitted with, empty where nothing is known."
        )
    position, ids = number_ids(as_column(frame.column(names.index(of_ids[0])), location(what)), what)
    if len(ids) < len(position):
        row = int(pd.Series(position).duplicated().to_numpy().argmax())
        raise DataError(
            f"Row {row} (counted from 0): the {what} {shown(ids.labels[position[row]])} is in a row "
            "before this; keep one of them, for example with drop_duplicates()."
        )
    columns = {name: read_column(frame.column(names.index(name), lists=True), name) for name in used}
    return columns, ids, np.argsort(position)


# ---- learning a coding --------------------------------------------------------------------------


def learn_column(column: Column, what: str = "row", *, codes: bool = False) -> CodedColumn | str:
    """How a column becomes features, or why it becomes none; with ``codes``, numbers are categories."""
    # Users and items gain nothing by a mark of missing categories: NLL of new users of Food World Cup
    # is 1.2130 with it, 1.2124 without. In the background, it tells them from rare ones.
    is_marked = column.kind == "number" or what == "row"
    name, has_missing = str(column.name), is_marked and int(column.missing.sum()) >= FEWEST
    if codes or column.kind not in ("number", "boolean"):
        values = categories_of(column)
        n_rows = np.bincount(values.indicators(values.labels).indices, minlength=len(values.labels))
        # A category that all have is no different from a constant.
        is_common = (n_rows >= FEWEST) & (n_rows < len(column))
        if is_common.any():
            categories = tuple(sorted(values.labels[is_common]))
            return CodedColumn(name, "category", has_missing, categories=categories)
        if n_rows.max(initial=0) in (0, len(column)) and np.count_nonzero(n_rows) < 2:
            return _CONSTANT if n_rows.any() else _EMPTY
        return f"no value that at least {FEWEST} {what}s, but not all, have"
    numbers = numbers_of(column)
    known = np.sort(numbers[~np.isnan(numbers)])  # so that sums do not depend on the order of the rows
    if not known.size or known[0] == known[-1]:
        return _CONSTANT if known.size else _EMPTY
    if column.kind == "boolean":
        return CodedColumn(name, "boolean", has_missing, float(known.mean()))
    return CodedColumn(name, "number", has_missing, *mean_and_deviation(known, column.name))


def mean_and_deviation(known: np.ndarray, name: Name) -> tuple[float, float]:
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(known.mean()), float(known.std())
    if not (SMALLEST < deviation < LARGEST and abs(mean) < LARGEST):
        raise DataError(
            f"{location(name)} has numbers too large or too close to be told apart; give it in other units."
        )
    return mean, deviation


def _report_left_out(left_out: dict[str, str], is_any_left: bool, what: What) -> None:
    """Warn of columns that become no feature; raise where there are no others."""
    reasons = {why: [name for name in left_out if left_out[name] == why] for why in left_out.values()}
    named = " and ".join(f"{shorten(names)} ({reason})" for reason, names in reasons.items())
    message = f"No {what} feature comes from the columns {named or 'beside the ids'}"
    remedy = f"columns in which several {what}s agree and others differ"
    if not is_any_left:
        raise DataError(f"{message}; give {remedy}.")
    if left_out:
        warnings.warn(f"{message}; drop them, or make them {remedy}.", stacklevel=user_stacklevel())


# ---- numbers and categories in columns ----------------------------------------------------------


def numbers_of(column: Column, why: str = "") -> np.ndarray:
    """(rows,) finite float64, NaN where missing; text is refused, with the reason ``why``."""
    if column.is_coded and not any(isinstance(label, str) for label in column.distinct):
        values = np.array([*column.distinct, np.nan], dtype=np.float64)[column.codes]
    elif column.kind in ("number", "boolean"):
        values = column.values.astype(np.float64)
    else:
        _, row, code, labels = categories_of(column)
        if row.size:
            raise DataTypeError(
                f"{location(column.name, int(row[0]))}: {labels[code[0]]!r:.80} is text, {why}; convert it, "
                "for example with pandas.to_numeric."
            )
        values = np.full(len(column), np.nan)
    infinite = np.isinf(values)
    if infinite.any():
        where = location(column.name, int(infinite.argmax()))
        raise DataError(f"{where}: the value is infinite; correct it or leave it empty.")
    return values


def standardised(values: np.ndarray, mean: float, deviation: float, name: Name) -> np.ndarray:
    """Values in standard deviations from the mean, NaN where missing; far outliers are refused."""
    with np.errstate(over="ignore"):
        distance = (values - mean) / deviation
    too_far = np.abs(distance) > FURTHEST
    if too_far.any():
        row = int(too_far.argmax())
        raise DataError(
            f"{location(name, row)}: the value {shown(values[row])} is more than {FURTHEST:,.0f} standard "
            f"deviations away from the mean {mean:g} that was learnt; correct it or leave it empty."
        )
    return distance


class Categories(NamedTuple):
    """The categories in the cells of a column: none, one, or several in a list."""

    n_rows: int
    row: np.ndarray  # (values,) ascending
    code: np.ndarray  # (values,) which of the labels
    labels: np.ndarray  # distinct texts, not empty and without blanks around them

    def indicators(self, categories: Sequence[str] | np.ndarray) -> sp.csr_array:
        """(rows, categories) float32, which row has which."""
        # As objects, because pandas' own text cannot hold every str.
        index, labels = (pd.Index(texts, dtype=object) for texts in (categories, self.labels))
        place = index.get_indexer(labels)[self.code]
        row, place = self.row[place >= 0], place[place >= 0]
        ones = np.ones(row.size, dtype=np.float32)
        table = sp.csr_array((ones, (row, place)), shape=(self.n_rows, len(categories)))
        table.data[:] = 1  # a list may name a category twice
        return table


def categories_of(column: Column) -> Categories:
    """The categories in a column of text, of a categorical type, of lists, or of numbers that are codes."""
    row, values = np.arange(len(column)), column
    if column.kind == "list":
        lists = [() if missing else cell for cell, missing in zip(column.values, column.missing, strict=True)]
        flat = pd.Series(list(chain.from_iterable(lists)), dtype=object)
        row, values = np.repeat(row, list(map(len, lists))), read_column(flat, column.name)
    if values.kind in ("list", "other"):
        kinds = [kind.__name__ for kind in values.types] or [str(values.values.dtype)]
        raise DataTypeError(
            f"{location(column.name)} holds values of type {kinds[0]}, which are neither numbers nor text "
            "nor lists of text; convert the column (dates for example with .dt.year), or drop it."
        )
    coded = values.coded()
    distinct = coded.distinct.tolist() if isinstance(coded.distinct, np.ndarray) else coded.distinct
    if len({isinstance(label, str) for label in distinct}) > 1:
        raise DataTypeError(
            f"{location(column.name)} mixes text and numbers; give it one type with astype(str)."
        )
    position, labels = pd.factorize(np.array([_stripped(label) for label in distinct], dtype=object))
    code = np.append(position, -1)[coded.codes]
    return Categories(len(column), row[code >= 0], code[code >= 0], np.asarray(labels, dtype=object))


def _stripped(label: Any) -> str | None:
    """A category as text, without blanks around it; None if nothing is left."""
    is_whole = isinstance(label, float) and label.is_integer()
    return str(int(label) if is_whole else label).strip() or None


def _is_numeral(text: str) -> bool:
    return text in ("True", "False") or text.removeprefix("-").replace(".", "", 1).isdecimal()

"""Columns of any container, read once: numbers as they are, all else by distinct values.

Ids are columns, too: their labels on a sorted list, and positions there. Of a hundred million
nothing wider than 8 bytes per row is made on the way: integers are numbered by a table over their
range where that is not mostly empty, all else is looked at once per distinct value.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd

from ordinalrbm.data.frames import plain_series
from ordinalrbm.errors import DataError, DataTypeError
from ordinalrbm.runtime.blocks import BLOCK, blocks, each_block
from ordinalrbm.storage.reader import Stored

Name = str | int  # a column's name, or its position when the columns have no names
Kind = Literal["number", "boolean", "text", "category", "ordered", "list", "other"]
Location = Callable[[int], str]  # where a row is, to begin an error message with

_LISTS = (list, tuple, set, frozenset, np.ndarray)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column of a table.

    "number" and "boolean" have values, NaN where missing; "text", which may have numbers among it,
    "category" and "ordered" have codes of distinct values, -1 where missing. "list" and "other"
    are cells as they are; `wrong` is the first row that is neither number nor text.
    """

    name: Name
    kind: Kind
    values: Any = None
    codes: Any = None
    distinct: Sequence[Any] | np.ndarray = ()
    types: tuple[type, ...] = ()  # of what was not missing among Python's own values
    wrong: int = 0

    def __len__(self) -> int:
        return len(self.codes if self.is_coded else self.values)

    @property
    def is_coded(self) -> bool:
        return self.codes is not None

    @property
    def missing(self) -> np.ndarray:
        return self.codes < 0 if self.is_coded else np.asarray(pd.isna(self.values))

    def value(self, row: int) -> Any:
        """One cell as the user wrote it; None where text is missing."""
        if self.is_coded:
            return self.distinct[self.codes[row]] if self.codes[row] >= 0 else None
        value = self.values[row]
        if self.kind in ("list", "other") or pd.isna(value):
            return value
        if self.kind == "boolean":
            return bool(value)
        return int(value) if float(value).is_integer() else float(value)

    def take(self, rows: np.ndarray) -> Column:
        if self.is_coded:
            return replace(self, codes=self.codes[rows])
        return replace(self, values=self.values[rows])

    def to_numpy(self) -> np.ndarray:
        """The cells, as objects where these have codes."""
        if not self.is_coded:
            return self.values
        return np.array([*self.distinct, None], dtype=object)[self.codes]

    def coded(self) -> Column:
        if self.is_coded:
            return self
        codes, distinct = _factorise_numbers(self.values)
        if self.kind == "boolean":
            distinct = distinct.astype(bool)
        return replace(self, values=None, codes=codes, distinct=distinct)

    def first_missing(self) -> int:
        """The first row without a value; -1 where all have one."""
        if not self.is_coded and self.values.dtype.kind in "iub":
            return -1
        missing = self.missing
        return int(missing.argmax()) if missing.any() else -1


def read_column(values: Any, name: Name) -> Column:
    """Read a column of any container: a Series, an array, a list, or one that has been read."""
    if isinstance(values, Column):
        return values
    array = as_column(values, location(name))
    dtype = array.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        kind: Kind = "ordered" if dtype.ordered else "category"
        distinct = plain_categories(dtype.categories)
        return Column(name, kind, codes=np.asarray(array.codes), distinct=distinct)
    if isinstance(dtype, pd.api.extensions.ExtensionDtype):
        if pd.api.types.is_string_dtype(dtype):
            codes, distinct = pd.factorize(array)
            return _coded_text(name, codes, np.asarray(distinct), (str,))
        array = _from_extension(array, dtype)
    if array.dtype.kind in "OU":
        return _read_objects(array.astype(object, copy=False), name)
    kinds: dict[str, Kind] = {"i": "number", "u": "number", "f": "number", "b": "boolean"}
    return Column(name, kinds.get(array.dtype.kind, "other"), array)


def _from_extension(values: Any, dtype: Any) -> np.ndarray:
    """NumPy form of a pandas extension column (nullable or Arrow)."""
    # Booleans count as numeric in pandas, but become objects here, so that they stay booleans.
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype):
        width = getattr(dtype, "numpy_dtype", np.dtype(np.float64))
        if width.kind in "iu" and pd.isna(values).any():
            width = np.dtype(np.float64)
        if width.kind in "iuf":
            missing = {"na_value": np.nan} if width.kind == "f" else {}
            return np.asarray(values.to_numpy(dtype=width, **missing))
    return np.asarray(values.to_numpy(dtype=object))


def _coded_text(name: Name, codes: np.ndarray, distinct: np.ndarray, types: tuple[type, ...]) -> Column:
    if not len(distinct):
        return Column(name, "number", np.full(len(codes), np.nan))
    return Column(name, "text", codes=codes.astype(np.int32), distinct=distinct, types=types)


def _read_objects(array: np.ndarray, name: Name) -> Column:
    """Python's own values, by their distinct ones; where all are missing, they are numbers."""
    try:
        codes, distinct = pd.factorize(array)
    except TypeError:  # lists and the like, which cannot be hashed
        codes, distinct = np.empty(0), array[~np.asarray(pd.isna(array))]
    types = tuple(dict.fromkeys(map(type, distinct)))
    for kind in types:
        if not issubclass(kind, str | bool | np.bool_ | numbers.Real | Decimal):
            wrong = next(i for i, value in enumerate(array) if type(value) is kind)
            are_lists = all(issubclass(kind, _LISTS) for kind in types)
            return Column(name, "list" if are_lists else "other", array, types=types, wrong=wrong)
    if any(issubclass(kind, str) for kind in types):
        return _coded_text(name, codes, distinct, types)
    # True and 1 are equal, so that all cells must be asked.
    only_booleans = all(issubclass(kind, bool | np.bool_) for kind in types) and all(
        isinstance(value, bool | np.bool_) for value in array[codes >= 0]
    )
    is_number = bool(len(distinct)) and not only_booleans
    if is_number and all(issubclass(kind, numbers.Integral) for kind in types) and codes.min() >= 0:
        try:
            return Column(name, "number", distinct.astype(np.int64)[codes], types=types)
        except OverflowError:
            pass  # too large to be told apart; as floats they are at least read
    try:
        plain = np.append(distinct.astype(np.float64), np.nan)[codes]
    except OverflowError as error:
        largest = float(np.finfo(np.float64).max)
        row = next(i for i, value in enumerate(array) if codes[i] >= 0 and abs(value) > largest)
        raise DataError(
            f"{location(name, row)}: the value is too large for a number of 64 bits; correct it or "
            "leave it empty."
        ) from error
    return Column(name, "number" if is_number or not len(distinct) else "boolean", plain, types=types)


def location(column: Name, row: int | None = None) -> str:
    return f"Column {column!r}" if row is None else f"Column {column!r}, row {row} (counted from 0)"


def plain_categories(categories: Any) -> tuple[Any, ...]:
    return tuple(
        label if isinstance(label, str | bool | numbers.Real) else str(label) for label in categories.tolist()
    )


def as_column(values: Any, what: str) -> Any:
    values = plain_series(unmasked(values))
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, pd.SparseDtype):
        return np.asarray(values)
    if isinstance(dtype, pd.api.extensions.ExtensionDtype):
        return getattr(values, "array", values)  # a Series or Index keeps it there
    if dtype is None and (isinstance(values, str) or not isinstance(values, Iterable)):
        raise DataTypeError(f"{what} must be a list or an array, not {values!r}; write [...].")
    # Converted without a type, [1, "a"] would become two texts.
    column = np.array(list(values), dtype=object) if dtype is None else np.asarray(values)
    if column.ndim != 1:
        raise DataError(f"{what} must have one dimension, not shape {column.shape}; flatten them.")
    # pandas reads numbers only in the processor's own byte order.
    return column if column.dtype.isnative else column.astype(column.dtype.newbyteorder("="))


def unmasked(values: Any) -> Any:
    """A masked array with None for what is masked; NumPy would show what it hides."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain = values.data.astype(object)
    plain[np.ma.getmaskarray(values)] = None
    return plain


_MOST_SHOWN = 100  # characters


def shown(value: Any) -> str:
    """A value as error messages show it, without NumPy's type around it; of a long one the start."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


# ---- distinct values --------------------------------------------------------------------------


def _factorise_numbers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes (int32) of numbers, -1 where missing, and the distinct ones; block by block."""
    if not len(values):
        return np.empty(0, dtype=np.int32), values
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if high - low <= len(values) + BLOCK and high < 2**63:  # a table is not mostly empty
            return _number_by_table(values, low, high)
    codes = np.empty(len(values), dtype=np.int32)

    def number(block: slice) -> np.ndarray:
        codes[block], found = pd.factorize(values[block])
        return found

    found = each_block(number, len(values))
    if len(found) == 1:
        return codes, found[0]
    of_all, distinct = pd.factorize(np.concatenate(found))
    ends = np.cumsum([len(part) for part in found])[:-1]
    tables = dict(zip((block.start for block in blocks(len(values))), np.split(of_all, ends), strict=True))

    def number_alike(block: slice) -> None:
        codes[block] = np.append(tables[block.start], -1)[codes[block]]

    each_block(number_alike, len(values))
    return codes, distinct


def _number_by_table(values: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions (int32) of integers among the distinct ones, which ascend, and those."""
    present = np.zeros(high - low + 1, dtype=bool)

    def mark(block: slice) -> None:
        # Written to only once each: threads would wait for each other's writes.
        position = values[block].astype(np.int64) - low
        present[position[~present[position]]] = True

    each_block(mark, len(values))
    distinct = np.flatnonzero(present) + low
    if low == 0 and len(distinct) == len(present):  # positions already
        return values.astype(np.int32, copy=False), distinct
    return mapped(values, np.cumsum(present, dtype=np.int32) - np.int32(1), low), distinct


def mapped(codes: np.ndarray, table: np.ndarray, low: int = 0) -> np.ndarray:
    """``table[codes - low]``, without NumPy's copy of all codes to 64 bits."""
    out = np.empty(len(codes), dtype=table.dtype)

    def look_up(block: slice) -> None:
        out[block] = table[codes[block].astype(np.int64, copy=False) - low]

    each_block(look_up, len(codes))
    return out


# ---- ids --------------------------------------------------------------------------------------

_FEW = 64  # labels that a service may ask for at once


@dataclass(frozen=True, eq=False)
class Ids:
    """The labels of users or of items; a position on this list is what models see.

    Labels are distinct, int64 or str (dtype object), and in ascending order, so that they do not
    depend on the order of the ratings.
    """

    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: Any) -> bool:
        try:
            return bool(self._index.get_indexer([label])[0] >= 0)
        except (TypeError, ValueError):  # of another kind
            return False

    @property
    def is_text(self) -> bool:
        return self.labels.dtype.kind == "O"

    @property
    def plain_type(self) -> type:
        return str if self.is_text else int

    def lookup(self, labels: Any, what: str = "id") -> np.ndarray:
        """Positions (int64) of labels, -1 for unknown ones; text is not sought among integers."""
        if (
            type(labels) is list
            and len(labels) <= _FEW
            and len(self)
            and set(map(type, labels)) <= {self.plain_type}
        ):
            return np.array([self._position(label) for label in labels], dtype=np.int64)
        codes, distinct = number_ids(labels, what)
        if not len(codes) or not len(self):
            return np.full(len(codes), -1, dtype=np.int64)
        return self.match(distinct, what)[codes]

    def _position(self, label: Any) -> int:
        try:
            return int(self._place_of(label))
        except (KeyError, ValueError):
            return -1

    def match(self, other: Ids, what: str = "id") -> np.ndarray:
        """Positions of another list's labels on this one, -1 for those that are unknown."""
        if self.is_text != other.is_text:
            kinds = ("text", "integers") if self.is_text else ("integers", "text")
            raise DataError(
                f"The {what}s known here are {kinds[0]}, such as {shown(self.labels[0])}, but those asked "
                f"for are {kinds[1]}, such as {shown(other.labels[0])}; convert them first."
            )
        return self._index.get_indexer(_index_of(other.labels)).astype(np.int64, copy=False)

    def typed(self, labels: list[Any], what: str) -> list[Any]:
        """Labels that came as text or from JSON, in the type of these."""
        if self.is_text:
            return list(map(str, labels))
        for label in labels:
            if not str(label).removeprefix("-").isdecimal() or not -(2**63) <= int(label) < 2**63:
                raise DataError(
                    f"The {what} {label!r} is no number, but all {what}s of the model are; give numbers."
                )
        return list(map(int, labels))

    def encode(self, column: Column, what: str, where: Location) -> tuple[np.ndarray, Ids]:
        codes, distinct = number_ids(column, what, where)
        if not len(self) or not len(distinct):
            return codes, distinct
        position = self.match(distinct, what)
        unknown = np.flatnonzero(position < 0)
        position[unknown] = len(self) + np.arange(len(unknown))
        return mapped(codes, position.astype(np.int32)), Ids(distinct.labels[unknown])

    def with_new(self, new: Ids) -> Ids:
        return Ids(np.concatenate([self.labels, new.labels])) if len(new) else self

    @cached_property
    def _place_of(self) -> Callable[[Any], Any]:
        """The position of one label; of those that follow each other much sooner than by pandas."""
        index = self._index
        is_range = isinstance(index, pd.RangeIndex)
        return range(index.start, index.stop).index if is_range else index.get_loc

    @cached_property
    def _index(self) -> pd.Index:
        return _index_of(self.labels)

    def take(self, positions: Any) -> np.ndarray:
        positions = np.asarray(positions)
        if positions.size and not (positions.min() >= 0 and positions.max() < len(self)):
            raise IndexError(
                f"Positions must lie between 0 and {len(self) - 1}, but range from "
                f"{positions.min()} to {positions.max()}."
            )
        return self.labels[positions.astype(np.int64, copy=False)]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays of numbers from which the ids can be restored, for a model file."""
        if not self.is_text:
            return {"number": self.labels}
        encoded = [label.encode("utf-8", "surrogatepass") for label in self.labels]
        end = np.cumsum([len(label) for label in encoded], dtype=np.int64)
        return {"text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "end": end}

    @classmethod
    def from_stored(cls, stored: Stored) -> Ids:
        """The ids whose arrays `to_arrays` made, from a model file; at least one, all distinct."""
        if "number" in stored:
            labels = stored.checked_array("number", np.int64, (None,))
        else:
            labels = read_text(stored)
        if not len(labels) or len(pd.unique(labels)) < len(labels):
            raise DataError("its lists of users and items are empty or name somebody twice")
        return cls(labels)


def read_text(stored: Stored) -> np.ndarray:
    text = stored.checked_array("text", np.uint8, (None,)).tobytes()
    end = stored.checked_array("end", np.int64, (None,), 0, len(text))
    if not end.size or end[-1] != len(text) or (np.diff(end) < 0).any():
        raise DataError("the ends of its ids are not in order")
    bounds = pairwise([0, *end.tolist()])
    labels = [text[start:stop].decode("utf-8", "surrogatepass") for start, stop in bounds]
    return np.array(labels, dtype=object)


def number_ids(
    values: Any, what: str = "id", where: Location = "Row {} (counted from 0)".format
) -> tuple[np.ndarray, Ids]:
    """Number (int32) a column of ids on the sorted list of the distinct ones."""
    column = values if isinstance(values, Column) else read_column(as_column(values, f"The {what}s"), what)
    if not len(column):
        return np.empty(0, dtype=np.int32), Ids(np.empty(0, dtype=np.int64))
    if column.kind in ("boolean", "list", "other"):
        raise _not_an_id(column.value(column.wrong), what, where(column.wrong))
    row = column.first_missing()
    if row >= 0:
        raise DataError(
            f"{where(row)}: the {what} is missing; drop such rows, for example with dropna(), or "
            "give each its id."
        )
    coded = column.coded()
    codes, distinct = coded.codes, replace(column, values=coded.distinct)
    if column.is_coded:  # of whose distinct values not all need occur
        codes, used = _number_by_table(codes, 0, len(coded.distinct) - 1)
        distinct = read_column(np.array(coded.distinct, dtype=object)[used], what)
    labels = _plain_ids(distinct, what, lambda k: where(int((codes == k).argmax())))
    if (labels[1:] > labels[:-1]).all():
        return codes, Ids(labels)
    order = np.argsort(labels, kind="stable")
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return mapped(codes, rank), Ids(labels[order])


def _plain_ids(distinct: Column, what: str, where: Location) -> np.ndarray:
    """Distinct ids as int64 or as objects that are str; `where` is that of the k-th."""
    if distinct.kind == "number":
        return _whole_ids(distinct, what, where)
    if distinct.kind != "text":
        raise _not_an_id(distinct.value(0), what, where(0))
    labels = np.array(distinct.distinct, dtype=object)
    is_text = isinstance(labels[0], str)
    for k, label in enumerate(labels):
        if isinstance(label, bool | np.bool_):
            raise _not_an_id(label, what, where(k))
        if isinstance(label, str) != is_text:
            raise DataError(
                f"{where(k)}: this {what} is {'a number' if is_text else 'text'}, while "
                f"{labels[0]!r} is {'text' if is_text else 'a number'}; give all {what}s one "
                "type, for example with astype(str)."
            )
    labels[:] = [str(label) for label in labels]  # NumPy's text is a type of its own
    return labels


def _whole_ids(distinct: Column, what: str, where: Location) -> np.ndarray:
    """Integers, perhaps floats on their way; beyond 2**53 floats do not tell them apart."""
    values = distinct.values
    if values.dtype.kind in "iu":
        if values.max() > np.iinfo(np.int64).max:
            raise _too_large(int(values.max()), what)
        return values.astype(np.int64)
    if distinct.types and all(issubclass(kind, numbers.Integral) for kind in distinct.types):
        raise _too_large(int(max(values, key=abs)), what)
    whole = np.isfinite(values) & (np.abs(values) < 2**53) & (values == np.round(values))
    if not whole.all():
        k = int(whole.argmin())
        raise DataError(
            f"{where(k)}: the {what} {float(values[k])!r} is not a whole number; give ids that are "
            "integers or text."
        )
    return values.astype(np.int64)


def _too_large(value: int, what: str) -> DataError:
    return DataError(
        f"The {what} {value} does not fit into 64 bits with a sign; make the {what}s text with astype(str)."
    )


def _not_an_id(value: Any, what: str, where: str) -> DataError:
    return DataTypeError(
        f"{where}: the {what} must be an integer or text, but {value!r} is of type "
        f"{type(value).__name__}; convert the {what}s, for example with astype(str)."
    )


def _index_of(labels: np.ndarray) -> pd.Index:
    if labels.dtype.kind == "i" and len(labels) > 1:
        first, last = int(labels[0]), int(labels[-1])
        # Looked up by arithmetic, without a hash table. Ids that came later need not be in order.
        if last - first == len(labels) - 1 and (np.diff(labels) == 1).all():
            return pd.RangeIndex(first, last + 1)
    return pd.Index(labels, dtype=labels.dtype)

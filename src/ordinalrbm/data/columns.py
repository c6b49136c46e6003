"""Columns of any container, read once: numbers as they are, all else by distinct values."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

import numpy as np
import pandas as pd

from ordinalrbm.data.frames import plain_series
from ordinalrbm.errors import DataError, DataTypeError, user_stacklevel

Name = str | int  # a column's name, or its position when the columns have no names
Kind = Literal["number", "boolean", "text", "category", "ordered", "list", "other"]

_LISTS = (list, tuple, set, frozenset, np.ndarray)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column of a table.

    "number" and "boolean" have values, NaN where missing; "text", which may have numbers among it,
    "category" and "ordered" have codes of distinct values, -1 where missing. "list" and "other"
    are cells as they are; `wrong` is the first row that is neither number nor text.

    Examples
    --------
    >>> column = read_column(["often", None, "never", "often"], "Q1")
    >>> column.kind, column.codes.tolist(), list(column.distinct)
    ('text', [0, -1, 1, 0], ['often', 'never'])
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
        return self.kind in ("text", "category", "ordered")

    @property
    def missing(self) -> np.ndarray:
        return self.codes < 0 if self.is_coded else np.asarray(pd.isna(self.values))

    def value(self, row: int) -> Any:
        """One cell as the user wrote it."""
        if self.is_coded:
            return self.distinct[self.codes[row]]
        value = self.values[row]
        if self.kind == "boolean":
            return bool(value)
        return int(value) if float(value).is_integer() else float(value)


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
            return _read_text(array, name, (str,))
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


def _read_text(values: Any, name: Name, types: tuple[type, ...]) -> Column:
    codes, distinct = factorise(values, location(name))
    if not len(distinct):
        return Column(name, "number", np.full(len(codes), np.nan))
    return Column(name, "text", codes=codes.astype(np.int32), distinct=distinct, types=types)


def _read_objects(array: np.ndarray, name: Name) -> Column:
    """Python's own values; where all are missing, they are numbers."""
    try:
        known = ~np.asarray(pd.isna(array))
    except InvalidOperation:  # a NaN that signals, which nothing can be compared with
        wrong = next(i for i, v in enumerate(array) if isinstance(v, Decimal) and v.is_snan())
        return Column(name, "other", array, types=(Decimal,), wrong=wrong)
    types = tuple(dict.fromkeys(map(type, array[known])))
    for kind in types:
        if not issubclass(kind, str | bool | np.bool_ | numbers.Real | Decimal):
            wrong = next(i for i, value in enumerate(array) if type(value) is kind)
            are_lists = all(issubclass(kind, _LISTS) for kind in types)
            return Column(name, "list" if are_lists else "other", array, types=types, wrong=wrong)
    if any(issubclass(kind, str) for kind in types):
        return _read_text(array, name, types)
    only_booleans = bool(types) and all(issubclass(kind, bool | np.bool_) for kind in types)
    only_integers = bool(types) and all(issubclass(kind, numbers.Integral) for kind in types)
    if only_integers and not only_booleans and known.all():
        try:
            return Column(name, "number", array.astype(np.int64), types=types)
        except OverflowError:
            pass  # too large to be told apart; as floats they are at least read
    plain = np.full(len(array), np.nan)
    try:
        plain[known] = array[known].astype(np.float64)
    except OverflowError as error:
        largest = float(np.finfo(np.float64).max)
        row = next(i for i, value in enumerate(array) if known[i] and abs(value) > largest)
        raise DataError(
            f"{location(name, row)}: the value is too large for a number of 64 bits; correct it or "
            "leave it empty."
        ) from error
    return Column(name, "boolean" if only_booleans else "number", plain, types=types)


def location(column: Name, row: int | None = None, rows: np.ndarray | None = None) -> str:
    """Where something is, to begin an error message with."""
    if row is None:
        return f"Column {column!r}"
    number = row if rows is None else int(rows[row])
    return f"Column {column!r}, row {number} (counted from 0)"


def plain_categories(categories: Any) -> tuple[Any, ...]:
    """Categories as labels; what is neither text nor number (intervals of pandas.cut) as text."""
    return tuple(
        label if isinstance(label, str | bool | numbers.Real) else str(label) for label in categories.tolist()
    )


def as_column(values: Any, what: str) -> Any:
    """A column that can be sliced and factorised: a NumPy array or a pandas extension array."""
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
    """A masked array as a plain one with None for what is masked; NumPy would show what it hides.

    Examples
    --------
    >>> unmasked(np.ma.array([1, 2], mask=[False, True]))
    array([1, None], dtype=object)
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    mask = np.ma.getmaskarray(values)
    if not mask.any():
        return values.data
    plain = values.data.astype(object)
    plain[mask] = None
    return plain


def factorise(values: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Codes, -1 where missing, and the distinct values in the order of first appearance."""
    try:
        codes, distinct = pd.factorize(values)
    except TypeError as error:  # lists and the like, which cannot be hashed
        raise DataTypeError(
            f"{what} hold values that are neither numbers nor text ({error}); convert them."
        ) from error
    return codes, np.asarray(distinct)


_MOST_SHOWN = 100  # characters


def shown(value: Any) -> str:
    """A value as error messages show it, without NumPy's type around it; of a long one the start.

    Examples
    --------
    >>> shown(np.int8(3)), len(shown("much too long a rating " * 100))
    ('3', 100)
    """
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


def warn_of_padding(matrix: Any, n_left: int, taken_as: str) -> None:
    """Tell of zeros that a sparse matrix stores and that are not read.

    Blocks and diagonals are filled up with zeros, so that there a zero says nothing.
    """
    n = matrix.nnz - n_left
    if n > 0:
        warnings.warn(
            f"{n:,} zeros that the sparse format {matrix.format!r} stores are taken as {taken_as}, "
            "because it fills its blocks or diagonals with zeros; where they are meant, give "
            "another format, for example built with scipy.sparse.coo_array.",
            stacklevel=user_stacklevel(),
        )

"""Columns of any container, read alike: in blocks, and once per distinct value."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.data.frames import plain_series
from ordinalrbm.errors import DataError, DataTypeError, user_stacklevel


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

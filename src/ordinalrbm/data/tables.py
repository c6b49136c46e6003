"""Tables: one face for the containers users have, and the way from them to levels and back.

A table is read column by column, because a column has one type and one scale. What has been read
once, `Encoded`, is a table too: nobody reads its labels again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ordinalrbm.data.columns import Column, read_column, unmasked, warn_of_padding
from ordinalrbm.data.frames import Frame, as_frame
from ordinalrbm.data.observations import Cells, Observations, level_type
from ordinalrbm.data.scales import Label, Name, Scale, check_finite, plain_categories, resolve_scales
from ordinalrbm.errors import DataError, DataTypeError

_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
    "array.reshape(1, -1) if it contains a single sample."
)

# The column that counts imputations in a table that holds several, as SPSS calls it.
IMPUTATION = "Imputation_"
_NO_NUMBERS: Mapping[int, np.ndarray] = {}

Kind = Literal["frame", "sparse", "array", "encoded"]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Answers as levels on known scales, and columns of other kinds beside them, as they are.

    Estimators take it like any other table, and where their scales are these, nothing is encoded
    again. What is ``beside`` comes after the answers; scales, names and shape are of answers only.

    Examples
    --------
    >>> answers = read_table(pd.DataFrame({"tea": [1, 3, None], "milk": [2, 2, 1]}))
    >>> answers.observations.to_dense().tolist()
    [[0, 1], [1, 1], [-1, 0]]
    >>> answers.to_frame()["tea"].tolist()
    [1, 3, nan]
    """

    observations: Observations
    scales: list[Scale]
    names: list[str] | None = None  # None when the columns have only positions
    beside: pd.DataFrame | None = None  # of the same rows: categories, numbers, background
    people: pd.DataFrame | None = None  # of the same rows: what else is known, and not learnt from

    @property
    def header(self) -> list[str] | None:
        """Names of all columns."""
        return self.names if self.beside is None else [*(self.names or ()), *self.beside.columns]

    @property
    def shape(self) -> tuple[int, int]:
        return self.observations.n_rows, self.observations.n_columns

    def with_observations(self, observations: Observations) -> Encoded:
        """Other answers on the same scales."""
        return replace(self, observations=observations)

    def subset(self, index: Any) -> Encoded:
        """The rows at these positions, in this order."""
        beside, people = (
            None if frame is None else frame.iloc[index] for frame in (self.beside, self.people)
        )
        observations = self.observations.take_rows(index)
        return replace(self, observations=observations, beside=beside, people=people)

    def column(self, j: int) -> Any:
        """Column j: an ordered categorical, missing where unanswered, or what is beside."""
        if self.beside is not None and j >= self.observations.n_columns:
            return self.beside.iloc[:, j - self.observations.n_columns]
        labels = list(self.scales[j].labels)
        return pd.Categorical.from_codes(self.levels(j), labels, ordered=True)

    def levels(self, j: int) -> np.ndarray:
        """(rows,) levels of answers to question j, -1 where unanswered."""
        view = self.observations.column_view
        part = slice(view.column_start[j], view.column_start[j + 1])
        levels = np.full(self.observations.n_rows, -1, dtype=np.int16)
        levels[view.row[part]] = self.observations.level[view.entry[part]]
        return levels

    def to_frame(self, index: pd.Index | None = None) -> pd.DataFrame:
        """One ordered categorical per column, missing where unanswered; then what is beside."""
        n_rows, n_columns = self.shape
        names = range(n_columns) if self.header is None else self.header
        columns = {name: self.column(j) for j, name in enumerate(names)}
        by_row = {n: c.array if isinstance(c, pd.Series) else c for n, c in columns.items()}
        return pd.DataFrame(by_row, index=pd.RangeIndex(n_rows) if index is None else index)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What an estimator sees of its input; made by `as_table`."""

    kind: Kind
    source: Any  # a Frame, a CSC matrix, an array or what is encoded
    names: list[str] | None  # when all are text, as scikit-learn has it
    n_rows: int
    n_columns: int
    _read: dict[int, Column] = field(default_factory=dict)

    def name(self, j: int) -> Name:
        """Column j's name, or its position when the columns have no names."""
        return j if self.names is None else self.names[j]

    def column(self, j: int) -> Any:
        """Column j, n_rows long, missing where unanswered: a Series, a Categorical or an array."""
        if self.kind == "array":
            return self.source[:, j]
        if self.kind in ("frame", "encoded"):
            return self.source.column(j)
        rows, values = self.stored(j)
        dense = np.full(self.n_rows, np.nan)
        dense[rows] = values
        return dense

    def read(self, j: int) -> Column:
        """Column j, read once; numbers are not kept, because to read them costs nothing."""
        if j not in self._read:
            column = read_column(self.column(j), self.name(j))
            if not column.is_coded:
                return column
            self._read[j] = column
        return self._read[j]

    def levels(self, j: int, scale: Scale) -> np.ndarray | None:
        """(rows,) levels of column j, if it is encoded on this scale already."""
        encoded = self.source
        if self.kind != "encoded" or j >= len(encoded.scales) or encoded.scales[j] != scale:
            return None
        return encoded.levels(j)

    def columns(self) -> Iterator[Any]:
        """Every column's values, to infer scales from; of sparse ones only what is stored."""
        for j in range(self.n_columns):
            yield self.stored(j)[1] if self.kind == "sparse" else self.read(j)

    def stored(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and values of the stored entries in column j of a sparse table."""
        part = slice(self.source.indptr[j], self.source.indptr[j + 1])
        return self.source.indices[part], self.source.data[part]

    @property
    def header(self) -> Any:
        """Something that scikit-learn can read the names of the columns from."""
        if self.names is not None:
            return pd.DataFrame(columns=self.names)
        return np.zeros((0, self.n_columns))


def read_table(X: Any, scales: Any = None) -> Encoded:
    """Any table's answers as levels, on the given scales (`resolve_scales`) or on inferred ones.

    Examples
    --------
    >>> read_table([[1, 5], [None, 3]]).scales[1].labels
    (3, 5)
    """
    if isinstance(X, Encoded) and scales is None:
        return X
    table = as_table(X)
    found = resolve_scales(table.columns(), table.names, scales)
    return Encoded(encode(table, found), found, table.names)


def as_table(X: Any) -> Table:
    """Look at X as a table of answers, without copying it.

    It is a frame (:mod:`ordinalrbm.data.frames`), 2-D array, scipy.sparse matrix or array, list of
    lists or Encoded, in which NaN, None, pd.NA and null are unanswered. **Of sparse input, the
    stored entries are the answers, stored zeros too; what is not stored is unanswered.** (The block
    and diagonal formats store padding, so there zeros are unanswered, and a warning counts them.)

    Examples
    --------
    >>> import pandas as pd
    >>> table = as_table(pd.DataFrame({"Q1": [1, 2, None], "Q2": [3, 3, 1]}))
    >>> table.names, table.n_rows, table.n_columns
    (['Q1', 'Q2'], 3, 2)
    """
    if isinstance(X, Table):
        return X
    if isinstance(X, Encoded):
        n_rows, n_columns = X.shape
        n_columns += 0 if X.beside is None else X.beside.shape[1]
        return _sized(Table("encoded", X, X.header, n_rows, n_columns))
    frame = as_frame(X)
    if frame is not None:
        names = _string_names(frame.names)
        table = Table("frame", frame, names, frame.n_rows, len(frame.names))
    elif sp.issparse(X):
        csc = _canonical_csc(X)
        table = Table("sparse", csc, None, *csc.shape)
    else:
        array = _two_dimensional(X)
        table = Table("array", array, None, *array.shape)
    _sized(table)
    _check_numbers(table)
    return table


def encode(
    table: Table, scales: Sequence[Scale], known: Sequence[Collection[Label]] | None = None
) -> Observations:
    """The table's answers as levels on the given scales, one per column.

    Numbers that are ``known`` of a column count as the nearest level (`Scale.encode`).

    Examples
    --------
    >>> table = as_table([[1, 5], [None, 3]])
    >>> encode(table, [Scale((1, 2)), Scale((3, 4, 5))]).to_dense().tolist()
    [[0, 2], [-1, 0]]
    """
    _check_scales(table.n_columns, scales)
    known = [()] * len(scales) if known is None else known
    if table.kind == "encoded" and list(scales) == list(table.source.scales):
        return table.source.observations
    n_levels = [scale.n_levels for scale in scales]
    if table.kind == "sparse":
        return _encode_sparse(table, scales, n_levels, known)
    # Reading labels is slow, so it is done once: one byte per cell, two with long scales.
    levels = np.empty((table.n_rows, table.n_columns), dtype=level_type(n_levels), order="F")
    for j, scale in enumerate(scales):
        levels[:, j] = scale.encode(table.read(j), table.name(j), known=known[j])
    return Observations.from_columns(lambda j: levels[:, j], table.n_columns, n_levels)


def decode(
    levels_dense: Any,
    scales: Sequence[Scale | None],
    like: Any,
    numbers: Mapping[int, np.ndarray] = _NO_NUMBERS,
) -> Any:
    """Levels (n x n_columns; -1 becomes missing) back to labels, in a container like `like`.

    Columns that have no scale are numbers, by their position (whole ones in a column of integers
    stay integers), or else as they are in `like`.

    Frames give frames of the same library, columns and dtypes (and, in pandas, the same index when
    the number of rows is the same); `Encoded` gives `Encoded`; arrays, sparse input and lists give
    a NumPy array, of floats when all scales are numeric and of objects otherwise.

    Examples
    --------
    >>> decode([[0, -1]], [Scale((1, 2)), Scale((3, 4, 5))], like=[[1, 5]])
    array([[ 1., nan]])
    """
    table = as_table(like)
    if table.kind == "encoded" and (table.source.beside is not None or None in scales):
        table = as_table(table.source.to_frame())
    levels = np.asarray(levels_dense)
    if levels.ndim != 2 or levels.shape[1] != table.n_columns:
        raise DataError(
            f"The levels have shape {levels.shape}, but the table to write them like "
            f"has {table.n_columns} columns; pass n_rows x {table.n_columns}."
        )
    _check_scales(table.n_columns, scales)
    as_given = len(levels) == table.n_rows
    columns = [
        _Restored(scale, levels[:, j], numbers.get(j), table.column(j) if as_given else None)
        for j, scale in enumerate(scales)
    ]
    if table.kind == "frame":
        return _decode_frame(columns, table.source, len(levels))
    if table.kind == "encoded":
        known = [scale for scale in scales if scale is not None]
        n_levels = [scale.n_levels for scale in known]
        return Encoded(Observations.from_dense(levels, n_levels), known, table.names)
    numeric = all(column.is_numeric for column in columns)
    out = np.empty(levels.shape, dtype=np.float64 if numeric else object)
    for j, column in enumerate(columns):
        # None among booleans: as a float array it is NaN.
        out[:, j] = column.values().astype(out.dtype)
    return out


# ---- reading ----------------------------------------------------------------------------------


def _string_names(names: list[Any]) -> list[str] | None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"X has more than one column named {', '.join(map(repr, twice))}; rename or drop all but one."
        )
    types = sorted({type(name).__name__ for name in names})
    if types == ["str"]:
        return names
    if "str" in types:
        raise DataTypeError(
            "Feature names are only supported if all input features have string names, but your "
            f"input has {types} as feature name / column name types; convert them all, for "
            "example with X.columns = X.columns.astype(str)."
        )
    return None


def _two_dimensional(X: Any) -> np.ndarray:
    X = unmasked(X)
    try:
        array = np.asarray(X)
    except ValueError as error:  # rows of unequal length
        raise DataError(
            f"X is not a table with rows of equal length ({error}); give every row "
            "one value per column, None where unanswered."
        ) from error
    if array.dtype.kind in "US" and not hasattr(X, "__array__"):
        # A list that mixes numbers and text; NumPy has just turned the numbers into text.
        array = np.array(X, dtype=object)
    if array.dtype.kind == "c":
        raise _complex("X")
    if array.ndim < 2:
        what = "1D" if array.ndim else "scalar"
        raise DataError(f"Expected 2D array, got {what} array instead: {_RESHAPE}")
    if array.ndim > 2:
        raise DataError(
            f"Found array with dim {array.ndim}, while dim <= 2 is required; give one "
            "row per respondent and one column per question."
        )
    return array


def _complex(what: str) -> DataError:
    return DataError(f"Complex data not supported: {what} holds complex numbers; give real ones.")


def _canonical_csc(X: Any) -> Any:
    """X as CSC with sorted rows; refuses cells that are stored twice instead of adding them up."""
    if X.ndim != 2:
        raise DataError(f"Expected 2D input, got input with shape {X.shape}: {_RESHAPE}")
    if X.dtype.kind == "c":
        raise _complex("X")
    if X.format == "coo":
        _refuse_stored_twice(X.row, X.col, X.shape)
    csc = X.tocsc()
    if not csc.has_canonical_format:
        columns = np.repeat(np.arange(csc.shape[1]), np.diff(csc.indptr))
        _refuse_stored_twice(csc.indices, columns, csc.shape)
        csc = csc.sorted_indices()
    if X.format == "bsr":
        csc.eliminate_zeros()
    warn_of_padding(X, csc.nnz, "unanswered")
    return csc


def _refuse_stored_twice(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> None:
    Observations.from_triples(rows, columns, np.zeros(len(rows), dtype=np.int8), *shape, 1)


def _sized(table: Table) -> Table:
    shape = (table.n_rows, table.n_columns)
    for n, sklearn_name, name in zip(shape, ("sample", "feature"), ("row", "column"), strict=True):
        if n < 1:
            raise DataError(
                f"Found array with 0 {sklearn_name}(s) (shape={shape}) while a minimum of 1 is "
                f"required; give a table with at least one {name}."
            )
    return table


def _check_numbers(table: Table) -> None:
    """Refuse complex and infinite numbers now; other values are read with their scale."""
    for j in range(table.n_columns):
        if table.kind == "frame" and not table.source.may_be_infinite(j):
            continue  # reading it twice would cost more than the check is worth
        rows, values = table.stored(j) if table.kind == "sparse" else (None, table.column(j))
        kind = getattr(values.dtype, "kind", "O")
        if kind == "c":
            raise _complex(f"column {table.name(j)!r}")
        if kind == "f":
            if isinstance(values, pd.Series):  # whose NA only it can turn into NaN
                values = values.to_numpy(dtype=np.float64, na_value=np.nan)
            check_finite(values, table.name(j), rows)


# ---- encoding ---------------------------------------------------------------------------------


def _check_scales(n_columns: int, scales: Sequence[Scale | None]) -> None:
    if len(scales) != n_columns:
        raise DataError(f"There are {len(scales)} scales for {n_columns} columns; give one scale per column.")


def _encode_sparse(
    table: Table, scales: Sequence[Scale], n_levels: list[int], known: Sequence[Collection[Label]]
) -> Observations:
    csc = table.source
    levels = np.empty(csc.nnz, dtype=np.int16)
    for j, scale in enumerate(scales):
        rows, values = table.stored(j)
        part = slice(csc.indptr[j], csc.indptr[j + 1])
        levels[part] = scale.encode(values, table.name(j), rows, known[j])
    columns = np.repeat(np.arange(table.n_columns, dtype=np.int32), np.diff(csc.indptr))
    cells = Cells(csc.indices, columns, levels)
    if (levels < 0).any():  # a stored NaN is unanswered too
        cells = Cells(*(part[levels >= 0] for part in cells))
    return Observations.from_triples(*cells, table.n_rows, table.n_columns, n_levels)


# ---- decoding ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Restored:
    """A column to write: levels on a scale, numbers, or what the table had there."""

    scale: Scale | None
    levels: np.ndarray
    numbers: np.ndarray | None
    given: Any

    @property
    def is_numeric(self) -> bool:
        if self.scale is not None:
            return self.scale.is_numeric
        kind = getattr(getattr(self.given, "dtype", None), "kind", "O")
        return self.numbers is not None or kind in "biuf" or self.given is None

    @property
    def is_as_given(self) -> bool:
        return self.scale is None and self.numbers is None and self.given is not None

    @property
    def is_whole(self) -> bool:
        if self.scale is not None:
            return not isinstance(self.scale.labels[0], float)
        return self.numbers is None or bool((self.numbers == np.round(self.numbers)).all())

    def values(self) -> np.ndarray:
        if self.scale is not None:
            return self.scale.decode(self.levels)
        if self.numbers is not None:
            return self.numbers
        if self.given is None:
            return np.full(len(self.levels), np.nan)
        return np.asarray(self.given)


def _decode_frame(columns: list[_Restored], frame: Frame, n_rows: int) -> Any:
    like = frame.native
    if not isinstance(like, pd.DataFrame):
        new = [None if column.is_as_given else column.values() for column in columns]
        return frame.replaced(new, [column.is_whole for column in columns])
    index = like.index if n_rows == len(like) else pd.RangeIndex(n_rows)
    decoded = {}
    for j, column in enumerate(columns):
        dtype = like.dtypes.iloc[j]
        if column.scale is not None:
            decoded[j] = _restore_pandas(column.levels, column.scale, dtype, index)
        elif column.is_as_given:
            decoded[j] = like.iloc[:, j]
        else:
            decoded[j] = _restore_numbers(column.values(), dtype, index)
    found = pd.DataFrame(decoded, index=index)
    found.columns = like.columns
    return found


def _restore_numbers(values: np.ndarray, dtype: Any, index: pd.Index) -> pd.Series:
    """Numbers in the dtype of their column, where it can hold them."""
    series = pd.Series(values, index=index)
    is_whole = pd.api.types.is_integer_dtype(dtype) or pd.api.types.is_bool_dtype(dtype)
    if is_whole and not (series.dropna() == series.dropna().round()).all():
        return series
    if isinstance(dtype, pd.CategoricalDtype):  # means of levels, which are no labels
        return series
    try:
        return series.astype(dtype)
    except (TypeError, ValueError):
        return series


def _restore_pandas(levels: np.ndarray, scale: Scale, dtype: Any, index: pd.Index) -> pd.Series:
    """One column in its old dtype, or in the nearest that can hold it."""
    if isinstance(dtype, pd.CategoricalDtype):
        code = {label: k for k, label in enumerate(plain_categories(dtype.categories))}
        if all(label in code for label in scale.labels):
            codes = np.array([*(code[label] for label in scale.labels), -1])[levels]
            return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype), index=index)
        wider = pd.CategoricalDtype(list(scale.labels), ordered=True)
        return pd.Series(pd.Categorical.from_codes(levels, dtype=wider), index=index)
    series = pd.Series(scale.decode(levels), index=index)
    lossy = pd.api.types.is_integer_dtype(dtype) and isinstance(scale.labels[0], float)
    # pandas would turn a missing boolean into False, without a word.
    lossy |= dtype == np.dtype(bool) and bool((levels < 0).any())
    try:
        return series if lossy else series.astype(dtype)
    except (TypeError, ValueError):  # for example missing values in an integer column
        return series


def is_integer(table: Table, j: int) -> bool:
    """Whether column j holds integers by its type, which has no room for fractions."""
    if table.kind == "encoded":
        return bool(pd.api.types.is_integer_dtype(table.column(j).dtype))
    return table.kind == "frame" and table.source.is_integer(j)

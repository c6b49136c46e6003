"""Tables: one face for the containers users have, and the way from them to levels and back.

A table is read column by column, because a column has one type and one scale, and each column once.
What has been read, `Encoded`, is a table too: its labels are not read again.
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ordinalrbm.data.columns import Column, read_column, unmasked
from ordinalrbm.data.frames import TableLike, as_frame, below_each_other, frame_of
from ordinalrbm.data.observations import Observations, level_type
from ordinalrbm.data.scales import Label, Name, Scale, plain_categories, resolve_scales
from ordinalrbm.errors import DataError, DataTypeError

_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
    "array.reshape(1, -1) if it contains a single sample."
)
_COMPLEX = "Complex data not supported: X holds complex numbers; give real ones."

# The column that counts imputations in a table that holds several, as SPSS calls it.
IMPUTATION = "Imputation_"
_NO_NUMBERS: Mapping[int, np.ndarray] = {}

Kind = Literal["frame", "array", "encoded"]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Answers as levels on known scales, and extra columns of other kinds as they are.

    Estimators take it like any other table, and where their scales are these, nothing is encoded
    again. The ``extra`` columns come after the answers; scales, names and shape are of answers only.
    """

    observations: Observations
    scales: list[Scale]
    names: list[str] | None = None  # None when the columns have only positions
    extra: pd.DataFrame | None = None  # of the same rows: categories, numbers, background
    groups: pd.DataFrame | None = None  # of the same rows: other columns, not learnt from

    @property
    def header(self) -> list[str] | None:
        return self.names if self.extra is None else [*(self.names or ()), *self.extra.columns]

    @property
    def shape(self) -> tuple[int, int]:
        return self.observations.n_rows, self.observations.n_columns

    def with_observations(self, observations: Observations) -> Self:
        return replace(self, observations=observations)

    def subset(self, index: Any) -> Self:
        extra, groups = (None if frame is None else frame.iloc[index] for frame in (self.extra, self.groups))
        return replace(self, observations=self.observations.take_rows(index), extra=extra, groups=groups)

    def column(self, j: int) -> Any:
        """Column j: an ordered categorical, missing where unanswered, or an extra column."""
        if j >= len(self.scales) and self.extra is not None:
            return self.extra.iloc[:, j - len(self.scales)]
        return pd.Categorical.from_codes(self.levels(j), list(self.scales[j].labels), ordered=True)

    def levels(self, j: int) -> np.ndarray:
        view = self.observations.column_view
        part = slice(view.column_start[j], view.column_start[j + 1])
        levels = np.full(self.observations.n_rows, -1, dtype=np.int16)
        levels[view.row[part]] = self.observations.level[view.entry[part]]
        return levels

    def to_frame(self, index: pd.Index | None = None) -> pd.DataFrame:
        """One ordered categorical per question, missing where unanswered, then the extra columns."""
        names = range(len(self.scales)) if self.header is None else self.header
        columns = {name: pd.Series(self.column(j)).array for j, name in enumerate(names)}
        return pd.DataFrame(columns, index=pd.RangeIndex(self.shape[0]) if index is None else index)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What an estimator sees of its input; made by `as_table`."""

    kind: Kind
    source: Any  # a Frame, an array or an Encoded
    names: list[str] | None  # if all are text, as in scikit-learn
    n_rows: int
    n_columns: int
    _read: dict[int, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = (self.n_rows, self.n_columns)
        for n, sklearn_name, name in zip(shape, ("sample", "feature"), ("row", "column"), strict=True):
            if n < 1:
                raise DataError(
                    f"Found array with 0 {sklearn_name}(s) (shape={shape}) while a minimum of 1 is "
                    f"required; give a table with at least one {name}."
                )

    def name(self, j: int) -> Name:
        return j if self.names is None else self.names[j]

    def column(self, j: int) -> Any:
        """Column j, n_rows long, missing where unanswered: a Series, a Categorical or an array."""
        if self.kind == "array":
            return self.source[:, j]
        return self.source.column(j)

    def read(self, j: int) -> Column:
        """Column j, read once and kept as long as the table."""
        if j not in self._read:
            self._read[j] = read_column(self.column(j), self.name(j))
        return self._read[j]

    def is_integer(self, j: int) -> bool:
        if self.kind == "encoded":
            return bool(pd.api.types.is_integer_dtype(self.column(j).dtype))
        return self.kind == "frame" and self.source.is_integer(j)

    def levels(self, j: int, scale: Scale, known: Collection[Label] = ()) -> np.ndarray:
        """(rows,) levels of column j, which an `Encoded` on this scale has already."""
        if self.kind == "encoded" and self.source.scales[j : j + 1] == [scale]:
            return self.source.levels(j)
        return scale.encode(self.read(j), self.name(j), known)


def read_table(X: TableLike, scales: Any = None) -> Encoded:
    """Any table's answers as levels, on the given scales (`resolve_scales`) or on inferred ones."""
    if isinstance(X, Encoded) and scales is None:
        return X
    table = as_table(X)
    found = resolve_scales(map(table.read, range(table.n_columns)), table.names, scales)
    return Encoded(encode(table, found), found, table.names)


def as_table(X: TableLike) -> Table:
    """Look at X as a table of answers, without copying it.

    X is a data frame of any library (:mod:`ordinalrbm.data.frames`), 2-D array, scipy.sparse matrix or array,
    list of lists or Encoded, in which NaN, None, pd.NA and null are unanswered. **In sparse input, the stored
    entries are the answers, stored zeros too; all other cells are unanswered.**
    """
    if isinstance(X, Table):
        return X
    if isinstance(X, Encoded):
        n_rows, n_columns = X.shape
        n_columns += 0 if X.extra is None else X.extra.shape[1]
        return Table("encoded", X, X.header, n_rows, n_columns)
    frame = as_frame(X)
    if frame is not None:
        return Table("frame", frame, _string_names(frame.names), frame.n_rows, len(frame.names))
    array = _two_dimensional(_dense(X) if sp.issparse(X) else X)
    return Table("array", array, None, *array.shape)


def encode(
    table: Table, scales: Sequence[Scale], known: Sequence[Collection[Label]] | None = None
) -> Observations:
    """The table's answers as levels on the given scales, one per column.

    ``known`` are numbers of each column that count as the nearest level (`Scale.encode`).
    """
    _check_scales(table.n_columns, scales)
    known = [()] * len(scales) if known is None else known
    if table.kind == "encoded" and list(scales) == list(table.source.scales):
        return table.source.observations
    n_levels = [scale.n_levels for scale in scales]
    # Reading labels is slow, so it is done once: one byte per cell, two with long scales.
    levels = np.empty((table.n_rows, table.n_columns), dtype=level_type(n_levels), order="F")
    for j, scale in enumerate(scales):
        levels[:, j] = table.levels(j, scale, known[j])
    return Observations.from_columns(lambda j: levels[:, j], table.n_columns, n_levels)


def decode(
    levels_dense: Any,
    scales: Sequence[Scale | None],
    like: TableLike,
    numbers: Mapping[int, np.ndarray] = _NO_NUMBERS,
) -> Any:
    """Levels (n x n_columns; -1 becomes missing) back to labels, in a container like `like`.

    Columns without a scale are numbers, by their position (whole ones in a column of integers stay
    integers), or else copied from `like`, which has the same rows then.

    Frames give frames of the same library, columns and dtypes (and, in pandas, the same index when
    the number of rows is the same); `Encoded` gives `Encoded`; arrays, sparse input and lists give
    a NumPy array, of floats when all scales are numeric and of objects otherwise.
    """
    table = as_table(like)
    if table.kind == "encoded" and (table.source.extra is not None or None in scales):
        table = as_table(table.source.to_frame())
    levels = np.asarray(levels_dense)
    if levels.ndim != 2 or levels.shape[1] != table.n_columns:
        raise DataError(
            f"The levels have shape {levels.shape}, but the table to write them like "
            f"has {table.n_columns} columns; pass n_rows x {table.n_columns}."
        )
    _check_scales(table.n_columns, scales)
    if table.kind == "encoded":
        known = [scale for scale in scales if scale is not None]
        n_levels = [scale.n_levels for scale in known]
        return Encoded(Observations.from_dense(levels, n_levels), known, table.names)
    if table.kind == "frame" and isinstance(table.source.native, pd.DataFrame):
        return _decode_pandas(levels, scales, table.source.native, numbers)
    columns = [
        numbers.get(j) if scale is None else scale.decode(levels[:, j]) for j, scale in enumerate(scales)
    ]
    if table.kind == "frame":
        return table.source.replaced(columns)
    given = [np.asarray(table.column(j)) if part is None else part for j, part in enumerate(columns)]
    numeric = all(
        part.dtype.kind in "biuf" if scale is None else scale.is_numeric
        for part, scale in zip(given, scales, strict=True)
    )
    out = np.empty(levels.shape, dtype=np.float64 if numeric else object)
    for j, part in enumerate(given):
        # None among booleans: as a float array it is NaN.
        out[:, j] = part.astype(out.dtype)
    return out


def stack(tables: Sequence[TableLike]) -> TableLike:
    """Tables below each other as one, with a first column ``Imputation_`` that counts them from 0."""
    number = np.repeat(np.arange(len(tables)), [table.shape[0] for table in tables])
    plain = [table.to_frame() if isinstance(table, Encoded) else table for table in tables]
    frames = [as_frame(table) or frame_of(pd.DataFrame(table), "X") for table in plain]
    if IMPUTATION in frames[0].names:
        raise DataError(
            f"X has a column {IMPUTATION!r} already, the name of the one that counts imputations; rename it."
        )
    return below_each_other([frame.native for frame in frames], IMPUTATION, number)


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


def _two_dimensional(X: TableLike) -> np.ndarray:
    if isinstance(X, str | os.PathLike):
        raise DataTypeError(
            f"Expected 2D input, got {os.fspath(X)!r:.200}; to read a file, give "
            f"ordinalrbm.read_survey({os.fspath(X)!r:.200})."
        )
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
        raise DataError(_COMPLEX)
    if array.ndim < 2:
        what = "1D" if array.ndim else "scalar"
        raise DataError(f"Expected 2D array, got {what} array instead: {_RESHAPE}")
    if array.ndim > 2:
        raise DataError(
            f"Found array with dim {array.ndim}, while dim <= 2 is required; give one "
            "row per respondent and one column per question."
        )
    return array


_MOST_CELLS = 2**31  # of a sparse table, which is read with its gaps


def _dense(X: Any) -> np.ndarray:
    """A sparse matrix as an array, with NaN where nothing is stored."""
    if X.ndim != 2:
        raise DataError(f"Expected 2D input, got input with shape {X.shape}: {_RESHAPE}")
    coo = X.tocoo()
    if X.format == "bsr":  # which fills up its blocks with zeros
        coo.eliminate_zeros()
    twice = pd.DataFrame({"row": coo.row, "column": coo.col}).duplicated().to_numpy()
    if twice.any():
        k = int(twice.argmax())
        raise DataError(
            f"Row {coo.row[k]} answers column {coo.col[k]} more than once; keep one answer of each."
        )
    if X.shape[0] * X.shape[1] > _MOST_CELLS:
        raise DataError(
            f"The sparse table has {X.shape[0]:,} rows and {X.shape[1]:,} columns, more cells than a survey "
            f"may have ({_MOST_CELLS:,}); fit a model of ratings instead, or give fewer columns."
        )
    array = np.full(X.shape, np.nan, dtype=np.result_type(X.dtype, np.float64))
    array[coo.row, coo.col] = coo.data
    return array


# ---- encoding ---------------------------------------------------------------------------------


def _check_scales(n_columns: int, scales: Sequence[Scale | None]) -> None:
    if len(scales) != n_columns:
        raise DataError(f"There are {len(scales)} scales for {n_columns} columns; give one scale per column.")


# ---- decoding ---------------------------------------------------------------------------------


def _decode_pandas(
    levels: np.ndarray, scales: Sequence[Scale | None], like: pd.DataFrame, numbers: Mapping[int, np.ndarray]
) -> pd.DataFrame:
    index = like.index if len(levels) == len(like) else pd.RangeIndex(len(levels))
    decoded = {}
    for j, scale in enumerate(scales):
        dtype = like.dtypes.iloc[j]
        if scale is not None:
            decoded[j] = _restore_labels(levels[:, j], scale, dtype, index)
        elif j in numbers:
            decoded[j] = _restore_numbers(numbers[j], dtype, index)
        else:
            decoded[j] = like.iloc[:, j]
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


def _restore_labels(levels: np.ndarray, scale: Scale, dtype: Any, index: pd.Index) -> pd.Series:
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

"""The one door for data frames (pandas, polars, Arrow, DuckDB, ...): results have the type of the input.

Any frame that narwhals knows is accepted, and datasets of Arrow; what is lazy is collected first.
Behind the door a column is a NumPy array or an array of pandas.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from ordinalrbm.errors import DataError, DataTypeError

try:  # since pandas 3
    from pandas.api.internals import create_dataframe_from_blocks as from_blocks
except ImportError:
    from_blocks = None

# A data frame (pandas, polars, Arrow, DuckDB, ...), an array, a sparse matrix or a list of rows.
TableLike = Any
FRAMES = "a DataFrame of pandas or polars, an Arrow table or a DuckDB relation"
_CATEGORIES = (nw.Enum, nw.Categorical)
_LISTS = (nw.List, nw.Array)
_NOT_IN_NUMPY = (nw.Int128, nw.UInt128)
# What a service gives in every call: narwhals takes as long to find that it is no frame as all else.
_NO_FRAMES = (str, int, float, list, tuple, np.ndarray, np.generic, type(None))

# Without this, pandas turns whole numbers with gaps into floats, in which long ids merge.
_NULLABLE = {
    pa.type_for_alias(name.lower()): pd.api.types.pandas_dtype(name)
    for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
}


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A frame of any library; made by `as_frame`."""

    native: Any  # with all rows in memory
    names: list[Any]  # text, except in pandas
    n_rows: int
    schema: nw.Schema | None = None  # None for pandas, whose arrays are taken as they are

    def column(self, j: int, *, lists: bool = False) -> Any:
        """Column j: a NumPy array or an array of pandas; a Series where pandas has the frame."""
        if self.schema is None:
            return self.native.iloc[:, j]
        kind = self.schema[self.names[j]]
        return _plain(nw.from_native(self.native, eager_only=True)[:, j], kind, lists)

    def is_integer(self, j: int) -> bool:
        if self.schema is None:
            return bool(pd.api.types.is_integer_dtype(self.native.dtypes.iloc[j]))
        return self.schema[self.names[j]].is_integer()

    def to_pandas(self) -> pd.DataFrame:
        """As pandas has it, but whole numbers with gaps stay exact."""
        if self.schema is None:
            return self.native
        frame = nw.from_native(self.native, eager_only=True)
        own = (*_CATEGORIES, *_NOT_IN_NUMPY, nw.Object)
        return pd.DataFrame(
            {
                name: self.column(j)
                if isinstance(self.schema[name], own)
                else column_to_pandas(frame[:, j].to_arrow())
                for j, name in enumerate(self.names)
            }
        )

    def with_names(self, names: Sequence[str]) -> Any:
        if self.schema is None:
            return self.native.reindex(columns=list(names))
        frame = nw.from_native(self.native, eager_only=True)
        empty = nw.lit(None, nw.Float64)
        return frame.select(
            nw.col(name) if name in self.schema else empty.alias(name) for name in names
        ).to_native()

    def filter(self, mask: np.ndarray) -> Any:
        if self.schema is None:
            return self.native[mask]
        frame = nw.from_native(self.native, eager_only=True)
        return frame.filter(nw.new_series("", mask, backend=frame.implementation)).to_native()

    def replaced(self, columns: Sequence[np.ndarray | None]) -> Any:
        """Other columns of the same names, in the old types where these can hold them.

        Columns that are None stay as they are; fractions do not become integers.
        """
        frame = nw.from_native(self.native, eager_only=True)
        new = {}
        for j, values in enumerate(columns):
            if values is None:
                new[self.names[j]] = frame[:, j]
                continue
            series = _from_arrow(pa.table({self.names[j]: pa.array(values, from_pandas=True)}), frame)[:, 0]
            if not self.is_integer(j) or values.dtype.kind != "f" or _are_whole(values):
                # Each library has an error of its own for a type without room for these labels.
                with contextlib.suppress(Exception):
                    series = series.cast(self.schema[self.names[j]])  # type: ignore[index]
            new[self.names[j]] = series
        return nw.from_dict(new).to_native()


def as_frame(data: Any, choose: Callable[[list[str]], list[str]] = list) -> Frame | None:
    """Look at a frame without copying it; None if the data is no frame.

    Of what is still to be read or computed, these are only the columns that are chosen by their names.
    """
    if isinstance(data, Frame):
        return data
    if isinstance(data, pd.DataFrame):  # its names may be anything, and come twice
        return Frame(data, list(data.columns), len(data))
    if isinstance(data, _NO_FRAMES):
        return None
    if isinstance(data, ds.Dataset):
        data = data.to_table(columns=choose(data.schema.names))
    try:
        found = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"Two columns have the same name ({error}); rename one.") from error
    if not isinstance(found, nw.DataFrame | nw.LazyFrame):
        return None
    schema = found.collect_schema()  # Arrow does not know that an Enum of DuckDB has an order
    if isinstance(found, nw.LazyFrame):
        schema = nw.Schema({name: schema[name] for name in choose(schema.names())})
        found = found.select(schema.names()).collect()
    return Frame(found.to_native(), schema.names(), len(found), schema)


def frame_of(data: Any, what: str) -> Frame:
    frame = as_frame(data)
    if frame is None:
        raise DataTypeError(f"{what} must be {FRAMES}, not {type(data).__name__}; convert it first.")
    return frame


def plain_series(values: Any) -> Any:
    """A series of any library as a NumPy array or an array of pandas; anything else as it is."""
    if isinstance(values, (*_NO_FRAMES, pd.Series, pd.Index)):
        return values
    found = nw.from_native(values, pass_through=True, allow_series=True)
    return _plain(found, found.dtype, lists=False) if isinstance(found, nw.Series) else values


def of_columns(columns: Sequence[np.ndarray], names: pd.Index) -> pd.DataFrame:
    """A pandas frame of arrays that are nobody else's; of few rows much sooner than by its constructor."""
    if from_blocks is None or any(column.dtype.kind not in "iuf" for column in columns):
        found = pd.DataFrame(dict(enumerate(columns)), copy=False)
        found.columns = names
        return found
    blocks = [(column[None], np.array([k])) for k, column in enumerate(columns)]
    return from_blocks(blocks, index=pd.RangeIndex(len(columns[0])), columns=names)


def like(found: pd.DataFrame, *given: Any) -> Any:
    """A pandas frame in the library of the first frame or series that was given."""
    for each in given:
        if isinstance(each, (*_NO_FRAMES, pd.DataFrame, pd.Series)):
            continue
        frame = nw.from_native(each, pass_through=True, allow_series=True)
        if isinstance(frame, nw.LazyFrame):
            frame = frame.head(0).collect()
        if isinstance(frame, nw.DataFrame | nw.Series):
            return _from_arrow(pa.Table.from_pandas(found, preserve_index=False), frame).to_native()
    return found


def below_each_other(tables: Sequence[Any], name: str, number: np.ndarray) -> Any:
    if isinstance(tables[0], pd.DataFrame):
        whole = pd.concat(tables)
        whole.insert(0, name, number)
        return whole
    frame = nw.concat([nw.from_native(table, eager_only=True) for table in tables])
    first = nw.new_series(name, number, backend=frame.implementation)
    return frame.select(first, nw.all()).to_native()


def _are_whole(values: np.ndarray) -> bool:
    known = values[~np.isnan(values)]
    return bool((known == np.round(known)).all())


def _from_arrow(table: pa.Table, frame: nw.DataFrame | nw.Series) -> nw.DataFrame:
    return nw.from_arrow(table, backend=frame.implementation)


def _plain(series: nw.Series, kind: Any, lists: bool) -> Any:
    if isinstance(kind, _CATEGORIES):
        return _categorical(series.to_arrow(), isinstance(kind, nw.Enum))
    if lists and isinstance(kind, _LISTS):
        return pd.Series(series.to_list(), dtype=object).to_numpy()
    if kind.is_nested() or kind == nw.Object:
        raise DataTypeError(
            f"Column {series.name!r} holds values of type {kind}, of which a cell is no single "
            "number or text; take it apart first, for example with unnest() or explode()."
        )
    if isinstance(kind, _NOT_IN_NUMPY):
        return np.array(series.to_list(), dtype=object)
    return series.to_numpy()


def _categorical(array: Any, is_ordered: bool) -> pd.Categorical:
    """Categories in their order where they have one, else by the alphabet."""
    if not isinstance(array, pa.DictionaryArray):
        return pd.Categorical(array.to_numpy(zero_copy_only=False), ordered=is_ordered)
    if not (is_ordered or array.type.ordered):
        return pd.Categorical(array.to_numpy(zero_copy_only=False))
    codes = array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    codes[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return pd.Categorical.from_codes(codes, array.dictionary.to_pylist(), ordered=True)


def has_gaps_among_integers(column: pa.Array | pa.ChunkedArray) -> bool:
    return pa.types.is_integer(column.type) and column.null_count > 0


def column_to_pandas(column: pa.Array | pa.ChunkedArray) -> pd.Series:
    mapper = _NULLABLE.get if has_gaps_among_integers(column) else None
    return column.to_pandas(types_mapper=mapper)


def with_exact_integers(frame: pd.DataFrame, table: pa.Table) -> pd.DataFrame:
    """The frame that a table became, its whole numbers with gaps taken from the table again."""
    for name in table.column_names:
        if name in frame.columns and has_gaps_among_integers(table[name]):
            frame[name] = column_to_pandas(table[name]).set_axis(frame.index)
    return frame

"""Arrow's columns as pandas' ones, with whole numbers exact where there are gaps among them."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

# Without this, pandas turns whole numbers with gaps into floats, in which long ids merge.
_NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}


def has_gaps_among_integers(column: pa.ChunkedArray) -> bool:
    """Whether a column is of whole numbers and some are missing."""
    return pa.types.is_integer(column.type) and column.null_count > 0


def column_to_pandas(column: pa.ChunkedArray) -> pd.Series:
    """A column for pandas.

    Examples
    --------
    >>> column_to_pandas(pa.chunked_array([[9007199254740993, None]])).tolist()
    [9007199254740993, <NA>]
    """
    mapper = _NULLABLE.get if has_gaps_among_integers(column) else None
    return column.to_pandas(types_mapper=mapper)


def with_exact_integers(frame: pd.DataFrame, table: pa.Table) -> pd.DataFrame:
    """The frame that a table became, its whole numbers with gaps taken from the table again."""
    for name in table.column_names:
        if name in frame.columns and has_gaps_among_integers(table[name]):
            frame[name] = column_to_pandas(table[name]).set_axis(frame.index)
    return frame

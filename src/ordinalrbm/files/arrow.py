"""Arrow's columns as pandas' ones, with whole numbers exact where there are gaps among them."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

# Without this, pandas turns whole numbers with gaps into floats, in which long ids merge.
_NULLABLE = {
    pa.type_for_alias(name.lower()): pd.api.types.pandas_dtype(name)
    for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
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

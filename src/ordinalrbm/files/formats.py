"""Files as tables of codes: SPSS, Stata, SAS, Excel, CSV and Parquet, with what they say of columns.

Codes stay as they are stored, user-missing ones too; `schema.infer` proposes what they mean, and
`survey` applies it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import dataset

from ordinalrbm.data.frames import TableLike, frame_of, with_exact_integers
from ordinalrbm.data.scales import shorten
from ordinalrbm.errors import DataError
from ordinalrbm.files import delimited
from ordinalrbm.runtime.places import in_arrow, place, split_sheet
from ordinalrbm.schema.schema import did_you_mean
from ordinalrbm.schema.source import Format, Source, StrPath, format_of, name_of, plain_code, unreadable, what

__all__ = ["Source", "from_frame", "read"]

_ROW_NUMBERS = re.compile(r"__index_level_\d+__")
Choice = Callable[[list[str]], list[str]]
Condition = tuple[str, str, Any]


def read(path: StrPath, choose: Choice | None = None, where: Sequence[Condition] = ()) -> Source:
    r"""Read a file whose ending gives its format.

    Parameters
    ----------
    path : str or path
        ``.sav``, ``.zsav``, ``.por`` (SPSS), ``.dta`` (Stata), ``.xpt`` (SAS), ``.xlsx`` (the first
        sheet, or that of ``file.xlsx:Sheet``), ``.csv`` or ``.tsv``, also packed in ``.gz``
        or ``.zst``, ``.parquet``, or a folder of Parquet files, partitioned or not. Addresses such as
        ``s3://bucket/pupils.csv`` and ``zip://pupils.csv::all.zip`` are read by fsspec.
    choose : function of the names of the columns, optional
        Which of them are read of Parquet files; by default all.
    where : sequence of (column, operator, value)
        Rows of Parquet files that are read, with ``==``, ``!=``, ``<``, ``<=``, ``>`` or ``>=``.

    Raises
    ------
    DataError
        When there is no such file, it cannot be read, or it holds no table.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "pupils.csv"
    >>> _ = file.write_text("sex;like maths\nf;4\nm;2\n")
    >>> read(file).frame
      sex  like maths
    0   f           4
    1   m           2
    """
    file, sheet = split_sheet(place(path))
    kind = format_on_disk(file)
    if where and kind != "parquet":
        raise DataError(f"Rows of {what(file)} cannot be chosen with where; only those of Parquet files can.")
    with reading(file):
        if kind in ("csv", "tsv"):
            source = delimited.read(file, kind)
        elif kind == "xlsx":
            source = delimited.read_sheet(file, sheet)
        elif kind == "parquet":
            source = _read_parquet(file, choose, where)
        else:
            from ordinalrbm.files import statistical  # the reader of SPSS files takes its time

            source = statistical.read(file, kind)
    return _checked(source)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any error of reading a file into a DataError of one sentence."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except PermissionError as error:
        raise DataError(
            f"{what(path)} may not be read (permission denied); change its permissions."
        ) from error
    except OSError as error:
        raise unreadable(path, error.strerror or error) from error
    except Exception as error:  # damaged files lead libraries to errors of any kind
        raise unreadable(path, error) from error


def from_frame(frame: TableLike, name: str = "table") -> Source:
    """A data frame (pandas, polars, Arrow, DuckDB, ...) as if it had been read from a file.

    An index with a name is a column; one without only numbers the rows. Ordered categoricals and
    polars Enums keep their order.

    Examples
    --------
    >>> from_frame(pd.DataFrame({"Q1": [1, 2]}), "made up").name
    'made up'
    """
    plain = frame_of(frame, f"Table '{name}'").to_pandas()
    return _checked(Source(None, "frame", name, plain_frame(plain)))


def format_on_disk(path: Path) -> Format:
    with reading(path):
        if path.is_dir():
            if not parquet_files(path):
                raise DataError(
                    f"Folder '{path}' holds no Parquet file; give a file, or a folder of Parquet files."
                )
            return "parquet"
        if not path.exists():
            raise DataError(f"File '{path}' does not exist; check the path.")
        kind = format_of(path)
        if path.stat().st_size == 0:
            raise DataError(f"File '{path}' is empty; give a file with a table.")
    return kind


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files in a folder and below, in order; hidden ones are left."""

    def is_hidden(file: Path) -> bool:
        return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)

    return sorted(f for f in folder.rglob("*.parquet") if f.is_file() and not is_hidden(f))


def _checked(source: Source) -> Source:
    names = list(source.frame.columns)
    refuse_twice(names, source.where)
    if not names:
        raise DataError(f"{source.where} has no columns; give a table with at least one.")
    if not len(source.frame):
        raise DataError(
            f"{source.where} has no rows, only the columns {shorten(names)}; give a table with answers."
        )
    return source


def refuse_twice(names: list[str], where: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{where} has more than one column named {twice[0]!r}; rename all but one.")


def parquet(path: Path) -> dataset.Dataset:
    """A Parquet file, or a folder of them whose partitions (year=2020) are columns.

    It has the columns that any file has, in types that suit all.
    """
    is_folder, kind = path.is_dir(), dataset.ParquetFileFormat()
    files = parquet_files(path) if is_folder else [path]
    (system, top), names = in_arrow(path), [in_arrow(file)[1] for file in files]
    for file, name in zip(files, names, strict=True):  # Arrow's own message is a riddle
        refuse_twice(kind.make_fragment(name, system).physical_schema.names, what(file))
    options = dataset.FileSystemFactoryOptions()
    if is_folder:
        partitions = dataset.HivePartitioning.discover()
        options = dataset.FileSystemFactoryOptions(partition_base_dir=top, partitioning=partitions)
    factory = dataset.FileSystemDatasetFactory(system, names, kind, options)
    schema = factory.inspect(promote_options="permissive")
    if is_folder:  # what pandas says of the rows is of one file; beside them it writes their numbers
        schema = pa.schema([one for one in schema if not _ROW_NUMBERS.fullmatch(one.name)])
    return factory.finish(schema)


def _read_parquet(path: Path, choose: Choice | None, where: Sequence[Condition]) -> Source:
    files = parquet(path)
    names = files.schema.names
    rows = _all_hold(where, files.schema, path) if where else None
    table = files.to_table(names if choose is None else choose(names), rows)
    return Source(path, "parquet", name_of(path), frame_of_arrow(table, path))


def frame_of_arrow(table: pa.Table, path: Path) -> pd.DataFrame:
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:  # text that is not UTF-8: later uses of it would fail
            raise DataError(
                f"{what(path)}, column {name!r} cannot be read ({error}); write the file again, "
                "with text in UTF-8."
            ) from error
    # Columns of one type would be copied side by side, which takes longer than to read them.
    return plain_frame(with_exact_integers(table.to_pandas(split_blocks=True), table))


def _all_hold(where: Sequence[Condition], schema: pa.Schema, path: Path) -> pc.Expression:
    typed = []
    for column, how, value in where:
        if column not in schema.names:
            raise DataError(
                f"{what(path)} has no column {column!r}{did_you_mean(column, schema.names)}; correct it."
            )
        kind = schema.field(column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        try:
            typed.append((column, how, pa.scalar(str(value)).cast(kind)))
        except pa.ArrowException as error:
            raise DataError(
                f"Column {column!r} holds values of type {kind}, and where has {value!r}; give such a value."
            ) from error
    return pq.filters_to_expression(typed)


def plain_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """With text as names, rows numbered from 0, and a named index as columns."""
    twice = [name for name in frame.index.names if name is not None and name in frame.columns]
    frame = frame.droplevel(twice) if len(twice) < frame.index.nlevels else frame.reset_index(drop=True)
    named = any(name is not None for name in frame.index.names)
    frame = frame.reset_index(drop=not named and pd.api.types.is_integer_dtype(frame.index.dtype))
    frame.columns = [  # of several levels, joined
        " ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in frame.columns
    ]
    for k, name in enumerate(frame.columns):
        values = frame.iloc[:, k]
        if values.dtype == object and any(isinstance(v, Decimal) for v in values):
            # As floats, NaN as missing; all other values stay.
            frame[name] = pd.Series([_without_decimal(v) for v in values], index=values.index)
        elif values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) == "boolean":
            frame[name] = values.astype("boolean")
        elif isinstance(values.dtype, pd.CategoricalDtype):
            # Categories can be intervals, as pandas.cut makes them; as text they are codes.
            categories = [c if plain_code(c) is not None else str(c) for c in values.cat.categories]
            frame[name] = values.cat.rename_categories(categories)
    return frame


def _without_decimal(value: Any) -> Any:
    if not isinstance(value, Decimal):
        return value
    return np.nan if value.is_nan() else float(value)

"""CSV and TSV files, and sheets of Excel workbooks: text, some columns of which are numbers.

Encoding and delimiter of a text file are found out. The first row has the names of the columns.
"""

import csv
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from ordinalrbm.data.frames import column_to_pandas
from ordinalrbm.errors import DataError
from ordinalrbm.files.tables_out import check_library
from ordinalrbm.runtime.blocks import each
from ordinalrbm.runtime.places import stream
from ordinalrbm.schema.schema import did_you_mean
from ordinalrbm.schema.source import Format, Source, as_number, name_of, unreadable

# What programs write for an empty cell among numbers. Among text, each could be an answer; "None"
# is one among numbers too: no children.
EMPTY_NUMBERS = ["NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "<NA>", ".", "-"]
_MOST_NAMED = 5  # columns in a remark

_DELIMITERS = (",", ";", "\t", "|")
_BLOCK = 1 << 24  # a row must fit into a block
_LOOK = 1 << 16  # the start of a file, in which text has no zero bytes
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
# Text such as 007 or 0x1F is a name made of digits: as a number it would be another one.
_LEADING_ZERO = r"^[+-]?0[\dxX]"
# Ids with too many digits for an integer would merge as floats, so they stay text.
_DIGITS_ONLY = r"^[+-]?\d+$"
_DECIMAL_COMMA = r"^[+-]?\d*,\d+$"

# A part that unpacks to so many bytes, and so many times its size, is no sheet that somebody filled.
_LARGE_PART, _DENSEST = 1 << 28, 200
_ERRORS = "e"  # the type of cells
_FORMULA = re.compile(rb"<(\w+:)?f[ >/]")
_COMPUTED = re.compile(rb"(</(\w+:)?f>|<(\w+:)?f[^>]*/>)\s*<(\w+:)?v>[^<]")


def read(path: Path, kind: Format) -> Source:
    with stream(path) as file:
        content = file.peek(_LOOK)[:_LOOK]
        if b"\0" in content and not content.startswith(_UTF16):  # nor would it help to unpack all of it
            raise DataError(
                f"File '{path}' is no text, though its ending says so; give it the ending of what it "
                "is, or export it again."
            )
        content, remarks = _utf8(path, file.read())
    # Excel may write the delimiter into a line of its own.
    said = re.match(rb"(?i)\"?sep=([,;|\t])\"?\r?\n", content)
    content = content[said.end() :] if said else content
    if not content or content.isspace():
        raise DataError(f"File '{path}' is empty; give a file with a table.")
    delimiter = said[1].decode() if said else "\t" if kind == "tsv" else _delimiter(content)
    table = _table(path, content, delimiter)
    return source_of_text(path, kind, table, remarks, len(content), decimal_comma=delimiter == ";")


def source_of_text(
    path: Path,
    kind: Format,
    table: pa.Table,
    remarks: tuple[str, ...],
    size: int,
    decimal_comma: bool = False,
) -> Source:
    """The source of a table of text, with numbers where all of a column is; size is in bytes."""
    columns = each(lambda text: _as_numbers(text, decimal_comma), table.columns, size)
    _refuse_lack_of_header(path, table.column_names)
    names = [name or f"column {k + 1}" for k, name in enumerate(table.column_names)]
    remarks += _emptied(names, table.columns, columns)
    # By position, because names need not differ yet.
    frame = pd.DataFrame({k: column_to_pandas(column) for k, column in enumerate(columns)})
    frame.columns = names
    return Source(path, kind, name_of(path), frame, remarks=remarks)


def _refuse_lack_of_header(path: Path, names: list[str]) -> None:
    """Refuse a first line of numbers, unless they rise, as the names of columns may."""
    numbers = [number for number in map(as_number, names) if number is not None]
    if len(numbers) == len(names) > 1 and any(b <= a for a, b in pairwise(numbers)):
        first = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
        raise DataError(
            f"File '{path}' seems to have no header: its first line holds numbers ({first}), not "
            "names of columns; add a line with the names."
        )


def _emptied(
    names: list[str], texts: list[pa.ChunkedArray], columns: list[pa.ChunkedArray]
) -> tuple[str, ...]:
    """A sentence that names the columns where NA and the like were read as empty."""
    found = {
        name: column.null_count - text.null_count
        for name, text, column in zip(names, texts, columns, strict=True)
        if column.null_count > text.null_count
    }
    if not found:
        return ()
    shown = [f"{name!r} ({count:,})" for name, count in list(found.items())[:_MOST_NAMED]]
    more = len(found) - len(shown)
    where = ", ".join(shown) + (f" and {more:,} columns more" if more else "")
    return (f"Cells such as NA among numbers were read as empty, in {where}.",)


def _utf8(path: Path, content: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The text in UTF-8, and a sentence where its encoding had to be guessed."""
    if content.startswith(_UTF16):
        try:
            return content.decode("utf-16").encode(), ()
        except UnicodeDecodeError as error:
            raise unreadable(path, error) from error
    content = content.removeprefix(b"\xef\xbb\xbf")
    with suppress(UnicodeDecodeError):
        content.decode("utf-8")
        return content, ()
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError as error:
        raise DataError(f"File '{path}' is neither UTF-8 nor Windows-1252 text; save it as UTF-8.") from error
    remark = f"File '{path}' is not UTF-8 and was read as Windows-1252; check its accents."
    return text.encode(), (remark,)


def _delimiter(content: bytes) -> str:
    """The delimiter that the header has most of, what stands in quotes aside."""
    # A name in quotes may have several lines.
    bare = re.sub(rb'"[^"]*"', b"", content[:_LOOK].lstrip(b"\r\n"))
    header = bare.split(b"\n", 1)[0].decode("utf-8", "replace")
    return max(_DELIMITERS, key=header.count)  # the first of equals, so a comma when there is none


def _table(path: Path, content: bytes, delimiter: str) -> pa.Table:
    """Every column as text, without blanks around it, null where empty; names from line one."""
    content = content.lstrip(b"\r\n")
    n_columns = _count_columns(path, content, delimiter)
    try:
        table = _parsed(content, delimiter, n_columns)
    except pa.ArrowException:
        try:  # read by one thread, so that the line is counted
            table = _parsed(content, delimiter, n_columns, use_threads=False)
        except pa.ArrowException as error:
            raise _bad_line(path, str(error)) from error
    names = [(column[0].as_py() or "").strip() for column in table.columns]
    columns = [column.slice(1) for column in table.columns]
    columns = each(lambda cells: _without(pc.utf8_trim_whitespace(cells), [""]), columns, len(content))
    return pa.table(columns, names=names)


def _without(column: pa.ChunkedArray, texts: list[str]) -> pa.ChunkedArray:
    found = pc.is_in(column, pa.array(texts))
    if not pc.any(found).as_py():
        return column
    return pc.if_else(found, pa.scalar(None, pa.string()), column)


def _count_columns(path: Path, content: bytes, delimiter: str) -> int:
    first = io.TextIOWrapper(io.BytesIO(content), "utf-8", "replace", newline="")
    try:
        return len(next(csv.reader(first, delimiter=delimiter)))
    except csv.Error as error:  # a name of more than 131,072 letters: a quote that never ends
        raise unreadable(path, f"its first line: {error}") from error


def _parsed(content: bytes, delimiter: str, n_columns: int, use_threads: bool = True) -> pa.Table:
    return arrow_csv.read_csv(
        io.BytesIO(content),
        # The header is read as a row, because its names need not differ.
        arrow_csv.ReadOptions(autogenerate_column_names=True, block_size=_BLOCK, use_threads=use_threads),
        arrow_csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            # Where there is one column, an empty line is somebody who did not answer.
            ignore_empty_lines=n_columns > 1,
        ),
        arrow_csv.ConvertOptions(
            column_types={f"f{k}": pa.string() for k in range(n_columns)},
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def _bad_line(path: Path, problem: str) -> DataError:
    ragged = re.search(r"Expected (\d+) columns, got (\d+): (.*)", problem, re.DOTALL)
    if ragged is None:
        return unreadable(path, problem)
    expected, got, line = ragged.groups()
    row = re.search(r"Row #(\d+)", problem)
    where = f", line {row.group(1)}" if row else ""
    shown = line if len(line) <= 60 else line[:57] + "..."
    return DataError(
        f"File '{path}'{where}: {shown!r} has {got} fields where the header has {expected}; "
        "correct the line, or put fields that hold the delimiter in quotes."
    )


def _as_numbers(column: pa.ChunkedArray, decimal_comma: bool) -> pa.ChunkedArray:
    """The column as numbers where all of it is; else as it is."""
    with suppress(pa.ArrowInvalid):  # most columns of numbers are whole and have no NA
        whole = column.cast(pa.int64())
        return column if whole.null_count == len(whole) or _has_leading_zeros(column) else whole
    text = _without(column, EMPTY_NUMBERS)
    if text.null_count == len(text) or _has_leading_zeros(text):
        return column
    if decimal_comma and pc.any(pc.match_substring_regex(text, _DECIMAL_COMMA)).as_py():
        text = pc.replace_substring(text, ",", ".")
    for kind in (pa.int64(), pa.float64()):
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:
            if pc.all(pc.match_substring_regex(text, _DIGITS_ONLY)).as_py():
                break
    return column


def _has_leading_zeros(column: pa.ChunkedArray) -> bool:
    for sign in ("", "+", "-"):  # beginnings first: matching all would take longer than reading
        found = column.filter(pc.starts_with(column, sign + "0"))
        if pc.any(pc.match_substring_regex(found, _LEADING_ZERO)).as_py():
            return True
    return False


# ---- sheets -------------------------------------------------------------------------------------


def read_sheet(path: Path, sheet: str | None = None) -> Source:
    check_library(path)
    _look_into(path)
    rows = [row for row in map(_until_empty, _rows(path, sheet)) if row]
    if not rows:
        raise DataError(f"File '{path}' has an empty sheet; give a sheet with a table.")
    return _source_of_sheet(path, rows[0], rows[1:])


def _rows(path: Path, sheet: str | None) -> Iterator[tuple[Any, ...]]:
    """Rows of cells; those with formulas hold what these gave when they were last computed."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=True)
    try:
        if sheet is not None and sheet not in book.sheetnames:
            raise DataError(
                f"File '{path}' has no sheet {sheet!r}{did_you_mean(sheet, book.sheetnames)}; give one of "
                f"{', '.join(map(repr, book.sheetnames))}."
            )
        chosen = book[sheet] if sheet is not None else book.worksheets[0] if book.worksheets else None
        if chosen is not None:
            chosen.reset_dimensions()  # which files may state wrongly
            yield from chosen.rows
    finally:
        book.close()


def _until_empty(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The cells of a row up to the last one that holds something."""
    return row[: max((k for k, cell in enumerate(row, start=1) if cell.value is not None), default=0)]


def _look_into(path: Path) -> None:
    """Refuse a file that would unpack to gigabytes, and formulas that no program has computed yet."""
    try:
        with zipfile.ZipFile(path) as packed:
            for part in packed.infolist():
                if part.file_size > max(_LARGE_PART, _DENSEST * part.compress_size):
                    raise unreadable(path, f"its part {part.filename} unpacks to {part.file_size >> 20:,} MB")
            sheets = [packed.read(name) for name in packed.namelist() if "worksheets/" in name]
    except zipfile.BadZipFile as error:
        raise unreadable(path, error) from error
    has_formulas = any(map(_FORMULA.search, sheets))
    if has_formulas and not any(map(_COMPUTED.search, sheets)):  # their cells would look empty
        raise DataError(
            f"File '{path}' has formulas whose values are not stored; open it in a spreadsheet program, "
            "save it, and try again."
        )


def _source_of_sheet(path: Path, head: tuple[Any, ...], lines: list[tuple[Any, ...]]) -> Source:
    n_errors, columns = 0, [[None] * len(lines) for _ in head]
    for r, row in enumerate(lines):
        if len(row) > len(head):
            where = row[-1].coordinate
            raise DataError(
                f"File '{path}', cell {where} is outside of the columns that the first row names; name "
                "the column, or empty the cell."
            )
        for column, cell in zip(columns, row, strict=False):
            n_errors += cell.data_type == _ERRORS
            column[r] = _text_of(cell)
    names = [_text_of(cell) or "" for cell in head]
    remarks = (f"Cells with an error such as #N/A were read as empty: {n_errors:,}.",) if n_errors else ()
    table = pa.table([pa.array(column, pa.string()) for column in columns], names=names)
    return source_of_text(path, "xlsx", table, remarks, table.nbytes)


def _text_of(cell: Any) -> Any:
    value = cell.value
    if value is None or cell.data_type == _ERRORS:
        return None
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    return text.strip() or None

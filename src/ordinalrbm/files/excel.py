"""Sheets of Excel workbooks (.xlsx) as tables; the first row has the names of the columns."""

import re
import zipfile
from collections.abc import Iterator
from datetime import datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa

from ordinalrbm.errors import DataError
from ordinalrbm.files.delimited import source_of_text
from ordinalrbm.files.tables_out import check_library
from ordinalrbm.schema.schema import did_you_mean
from ordinalrbm.schema.source import Source, unreadable

# A part that unpacks to so many bytes, and so many times its size, is no sheet that somebody filled.
_LARGE_PART, _DENSEST = 1 << 28, 200
_ERRORS, _FORMULA = "e", "f"  # types of cells


def read(path: Path, sheet: str | None = None) -> Source:
    check_library(path)
    has_formulas = _look_into(path)
    rows = [_until_empty(row) for row in _rows(path, sheet)]
    if has_formulas:
        _refuse_uncomputed(path, rows, _rows(path, sheet, computed=False))
    full = [row for row in rows if row]
    if not full:
        raise DataError(f"File '{path}' has an empty sheet; give a sheet with a table.")
    return _source(path, full[0], full[1:])


def _rows(path: Path, sheet: str | None, computed: bool = True) -> Iterator[tuple[Any, ...]]:
    """Rows of cells, with the formulas or with what these gave when they were last computed."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=computed)
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


def _look_into(path: Path) -> bool:
    """Whether there are formulas; refuses a small file that would unpack to gigabytes."""
    try:
        with zipfile.ZipFile(path) as packed:
            for part in packed.infolist():
                if part.file_size > max(_LARGE_PART, _DENSEST * part.compress_size):
                    raise unreadable(path, f"its part {part.filename} unpacks to {part.file_size >> 20:,} MB")
            sheets = [name for name in packed.namelist() if "worksheets/" in name]
            return any(re.search(rb"<(\w+:)?f[ >]", packed.read(name)) for name in sheets)
    except zipfile.BadZipFile as error:
        raise unreadable(path, error) from error


def _refuse_uncomputed(path: Path, rows: list[tuple[Any, ...]], formulas: Iterator[tuple[Any, ...]]) -> None:
    """Refuse formulas that no program has computed yet: their cells would look empty."""
    n_formulas, n_known = 0, 0
    for row, written in zip(rows, formulas, strict=True):
        are_formulas = [cell.data_type == _FORMULA for cell in written]
        n_formulas += sum(are_formulas)
        n_known += sum(
            cell.value is not None for cell, is_one in zip(row, are_formulas, strict=False) if is_one
        )
    if n_formulas and not n_known:
        raise DataError(
            f"File '{path}' has formulas whose values are not stored, {n_formulas:,} of them; open it in "
            "a spreadsheet program, save it, and try again."
        )


def _source(path: Path, head: tuple[Any, ...], lines: list[tuple[Any, ...]]) -> Source:
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
            column[r] = _text(cell)
    names = [_text(cell) or "" for cell in head]
    remarks = (f"Cells with an error such as #N/A were read as empty: {n_errors:,}.",) if n_errors else ()
    table = pa.table([pa.array(column, pa.string()) for column in columns], names=names)
    return source_of_text(path, "xlsx", table, remarks, table.nbytes)


def _text(cell: Any) -> Any:
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

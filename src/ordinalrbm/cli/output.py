"""What a command prints: messages to standard error, results to standard output."""

import json
import math
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ordinalrbm.runtime.display import printable


class Output:
    """What a command prints, and where.

    As JSON, results are one object on standard output, and only errors and warnings are printed
    besides. Quiet: only results, errors and warnings. Silent: only errors, as of several processes
    that do the same, one prints.
    """

    def __init__(self, *, as_json: bool = False, quiet: bool = False, silent: bool = False) -> None:
        self.as_json, self.quiet, self.silent = as_json, quiet or as_json or silent, silent
        if silent:
            warnings.simplefilter("ignore")
        if self.quiet:
            from ordinalrbm.runtime.compiling import compile_silently

            compile_silently()
        self._messages = Console(stderr=True, highlight=False)

    @property
    def shows_progress(self) -> bool:
        return not self.quiet and sys.stderr.isatty()

    def say(self, text: str) -> None:
        if not self.quiet:
            self._messages.print(Text(printable(text)), soft_wrap=True)

    def step(self, text: str) -> None:
        self.say(f"{text[:1].upper()}{text[1:]} ...")

    def show(self, table: Table) -> None:
        if not self.quiet:
            self._messages.print(_printable_table(table))

    def result(self, found: Mapping[str, object], *tables: Table, text: str = "") -> None:
        """Print the results of the command: as JSON, or as tables and words."""
        if self.silent:
            return
        if self.as_json:
            escaped = not (sys.stdout.encoding or "").lower().startswith("utf")
            content = json.dumps(_plain(dict(found)), ensure_ascii=escaped, indent=2)
            typer.echo(printable(content))  # readers of JSON undo that
            return
        # Names out of files may hold brackets, which are no markup.
        console = Console(highlight=False, markup=False)
        for table in tables:
            console.print(_printable_table(table))
        if text:
            console.print(Text(printable(text)), soft_wrap=True)


def _printable_table(table: Table) -> Table:
    for column in table.columns:
        column.header = _printable_cell(column.header)
        column._cells[:] = map(_printable_cell, column._cells)
    return table


def _printable_cell(cell: RenderableType) -> RenderableType:
    if isinstance(cell, Text):
        return cell if printable(cell.plain) == cell.plain else Text(printable(cell.plain))
    return printable(cell) if isinstance(cell, str) else cell


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def results_table(columns: Mapping[str, str], rows: Iterable[Iterable[Any]]) -> Table:
    """A table of results; columns have a format, or "" for words, which are aligned left."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold")
    for name, how in columns.items():
        table.add_column(name, justify="right" if how else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value, how) for value, how in zip(row, columns.values(), strict=True)))
    return table


def frame_table(frame: Any, formats: Mapping[str, str]) -> Table:
    """The columns of a frame; those without a format are words."""
    return results_table(
        {name: formats.get(name, "") for name in frame}, frame.itertuples(index=False, name=None)
    )


def _cell(value: Any, how: str) -> str:
    return "–" if value != value else format(value, how) if how else str(value)  # NaN is no number


def listing(found: Mapping[str, object]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in found.items():
        table.add_row(Text(name), Text(str(value)))
    return table


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: NumPy's numbers as Python's, what is not a number as null."""
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if type(value).__module__ == "numpy":  # which takes long to import, and may not be there yet
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)

"""A proposal as a table on the command line."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

from rich.markup import escape
from rich.table import Table

from ordinalrbm.files.schema import Column, Schema

_MOST_LEVELS_IN_FULL = 3
_LONGEST = 28  # letters of a name in the table


def proposal_table(schema: Schema) -> Table:
    """The schema as a table: column, role, levels, what is no answer, and why.

    Neighbours that were taken for the same, with the same levels, share a line.

    Examples
    --------
    >>> columns = [Column(f"Q{k}", "ordinal", levels=(1, 2), names=("no", "yes")) for k in (1, 2)]
    >>> table = proposal_table(Schema(tuple(columns)))
    >>> table.row_count
    1
    """
    table = Table(show_lines=False, pad_edge=False)
    table.add_column("Column", overflow="fold", ratio=22)
    table.add_column("Role", no_wrap=True, min_width=10)
    table.add_column("Levels", overflow="fold", ratio=30)
    table.add_column("No answer", overflow="fold", ratio=16)
    table.add_column("Why", overflow="fold", ratio=26)
    key = attrgetter("role", "levels", "names", "reason")
    for run in (list(group) for _, group in groupby(schema.columns, key)):
        first = run[0]
        cells = (_which(run), first.role, levels_in_words(first), _missing(run), first.reason)
        table.add_row(*(escape(cell) for cell in cells))
    return table


def levels_in_words(column: Column) -> str:
    """The levels of a column in short, lowest and highest with their names.

    Examples
    --------
    >>> levels_in_words(Column("Q", "ordinal", levels=(1, 2, 3, 4), names=("no", "2", "3", "yes")))
    '1 no … 4 yes'
    """
    levels = [_called(code, name) for code, name in zip(column.levels, column.names, strict=True)]
    if column.role == "background":
        return f"{len(levels)} categories" if levels else ""
    if column.role != "ordinal":
        return ""
    if len(levels) <= _MOST_LEVELS_IN_FULL:
        return ", ".join(levels)
    return f"{levels[0]} … {levels[-1]}"


def _which(run: list[Column]) -> str:
    names = [column.name for column in run]
    if len(names) <= 2:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)} columns)"


def _missing(run: list[Column]) -> str:
    """What is no answer in any of these columns."""
    called = [
        _called(code, name)
        for column in run
        for code, name in zip(column.missing, column.missing_names, strict=True)
    ]
    return ", ".join(dict.fromkeys(called))


def _called(code: object, name: str) -> str:
    short = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    return short if name == str(code) or name.startswith(f"{code} ") else f"{code} {short}"

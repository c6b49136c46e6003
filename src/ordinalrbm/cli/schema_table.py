"""A proposal as a table on the command line."""

from itertools import groupby
from operator import attrgetter

from rich.markup import escape
from rich.table import Table

from ordinalrbm.schema.schema import BLANK, Column, Schema

_MOST_LEVELS_IN_FULL = 3
_LONGEST = 28  # letters of a name in the table
_LONGEST_LABEL = 60


def proposal_table(schema: Schema) -> Table:
    """The schema as a table: column, kind, levels, what is no answer, how sure that is, and why.

    Doubtful columns come first, each with its label. Of the others, neighbours that were taken for
    the same, with the same levels, share a line.
    """
    table = Table(show_lines=False, pad_edge=False)
    table.add_column("Column", overflow="fold", ratio=22)
    table.add_column("Kind", no_wrap=True, min_width=10)
    table.add_column("Lowest → highest", overflow="fold", ratio=28)
    table.add_column("No answer", overflow="fold", ratio=18)
    table.add_column("Sure", justify="right", no_wrap=True, min_width=4)
    table.add_column("Why", overflow="fold", ratio=26)
    doubtful = sorted((c for c in schema.columns if c.is_doubtful), key=attrgetter("confidence"))
    runs = [[column] for column in doubtful]
    sure = [column for column in schema.columns if not column.is_doubtful]
    # Neighbours that were taken for the same share a line.
    runs += [list(run) for _, run in groupby(sure, lambda c: (c.role, c.levels, c.names, _main_reason(c)))]
    for position, run in enumerate(runs, start=1):
        first = run[0]
        is_last = position == len(doubtful) < len(runs)
        confidence = f"{min(column.confidence for column in run):.2f}"
        cells = (_which(run), first.role, levels_in_words(first), _missing(run), confidence)
        why = first.reason if first.is_doubtful else _main_reason(first)
        table.add_row(*map(escape, (*cells, why)), end_section=is_last)
    return table


def _main_reason(column: Column) -> str:
    """The strongest reason, without what the other cells say already."""
    return column.reason.partition("; ")[0].partition(", ")[0]


def levels_in_words(column: Column) -> str:
    """The levels of a column in short, lowest and highest with their names."""
    levels = [_called(code, name) for code, name in zip(column.levels, column.names, strict=True)]
    if column.role in ("nominal", "background", "fieldwork"):
        if column.is_doubtful and len(levels) > 1:
            more = ", …" if len(levels) > _MOST_LEVELS_IN_FULL else ""
            return ", ".join(levels[:_MOST_LEVELS_IN_FULL]) + more
        return f"{len(levels)} categories" if levels else ""
    if column.role != "ordinal":
        return ""
    if len(levels) <= _MOST_LEVELS_IN_FULL or column.is_doubtful:
        return " → ".join(levels)
    return f"{levels[0]} … {levels[-1]}"


def _which(run: list[Column]) -> str:
    names = [column.name for column in run]
    if len(names) == 1 and run[0].is_doubtful and run[0].question:
        return f"{names[0]}: {_shortened(run[0].question, _LONGEST_LABEL)}"
    if len(names) <= 2:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)} columns)"


def _missing(run: list[Column]) -> str:
    called = [
        _called(code, name)
        for column in run
        for code, name in zip(column.missing, column.missing_names, strict=True)
    ]
    return ", ".join(dict.fromkeys(called))


def _called(code: object, name: str) -> str:
    short = _shortened(name, _LONGEST)
    code = "blank" if code == BLANK else code
    return short if name == str(code) or name.startswith(f"{code} ") else f"{code} {short}"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

"""``ordinalrbm schema``: what the columns of a file were taken for."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from rich.table import Table

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import option
from ordinalrbm.cli.output import counted
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    from ordinalrbm.schema.schema import Column, Schema

_MOST_LEVELS_IN_FULL = 3
_LONGEST = 28  # letters of a name in the table
_LONGEST_LABEL = 60

_EXAMPLES = """\b
Examples:
  ordinalrbm schema survey.sav
  ordinalrbm schema survey.sav --page columns.html
  ordinalrbm schema survey.sav --out schema.toml
  ordinalrbm schema survey.sav --questions "q*" --exclude q5,q6
  ordinalrbm schema survey.sav --schema schema.toml --page columns.html"""


@app.command(epilog=_EXAMPLES)
def schema(
    data: options.DataFile,
    *,
    schema: Annotated[
        Path | None, option("FILE", "A TOML file that corrects what would be proposed.")
    ] = None,
    questions: options.QuestionsOption = None,
    exclude: options.ExcludeOption = None,
    out: Annotated[Path | None, options.out_option("Write the schema as TOML, for you to correct.")] = None,
    page: Annotated[Path | None, option("FILE", "Write a page with all columns and their counts.")] = None,
    telling: options.Telling,
) -> None:
    """Show how the columns of a survey were read.

    Doubtful ones come first. For every column its kind (ordinal, nominal, numeric, background,
    fieldwork, weight, id or ignored), its levels from lowest to highest, the codes that are no answer, how
    sure that is, and why.
    """
    for path in (out, page):
        inputs.check_files(data, schema, out=path)
    if out is not None and page is not None and out.absolute() == page.absolute():
        raise DataError(f"--out and --page are both '{out}'; write to two files.")
    from ordinalrbm.files.formats import read
    from ordinalrbm.schema.toml import to_toml
    from ordinalrbm.storage.atomic import atomic_write

    source = read(data)
    settings = options.SurveySettings(schema=schema, questions=questions, exclude=exclude)
    found = inputs.schema_of(source, settings)
    written = {}
    if page is not None:
        from ordinalrbm.pages import schema_page

        written[page] = schema_page(source, found)
    if out is not None:
        from ordinalrbm.schema.infer import propose

        written[out] = to_toml(found, propose(source) if schema else None)
    for path, text in written.items():
        with atomic_write(path) as file:
            file.write_text(text, encoding="utf-8")
    doubtful = [column.name for column in found.columns if column.is_doubtful]
    summary = f"{counted(len(found.columns), 'column')}, {len(doubtful) or 'none'} of them doubtful."
    if page is not None:
        summary += f" The page is in {page}."
    if out is not None:
        summary += f" The schema is in {out}; edit it, then use it with --schema {out}."
    telling.output().result(
        {"columns": [asdict(column) for column in found.columns], "doubtful": doubtful},
        proposal_table(found),
        text=summary,
    )


def proposal_table(schema: Schema) -> Table:
    """The schema as a table: column, kind, levels, what is no answer, how sure that is, and why.

    Doubtful columns come first, each with its label. Of the others, neighbours that were taken for
    the same, with the same levels, share a line.
    """
    table = Table(pad_edge=False)
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
    if column.role == "ordinal":
        is_short = len(levels) <= _MOST_LEVELS_IN_FULL or column.is_doubtful
        return " → ".join(levels) if is_short else f"{levels[0]} … {levels[-1]}"
    return f"{len(levels)} categories" if levels else ""


def _which(run: list[Column]) -> str:
    names = [column.name for column in run]
    if len(names) == 1 and run[0].is_doubtful and run[0].question:
        return f"{names[0]}: {_shortened(run[0].question, _LONGEST_LABEL)}"
    if len(names) <= 2:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)} columns)"


def _missing(run: list[Column]) -> str:
    pairs = [pair for column in run for pair in zip(column.missing, column.missing_names, strict=True)]
    return ", ".join(dict.fromkeys(_called(code, name) for code, name in pairs))


def _called(code: object, name: str) -> str:
    short = _shortened(name, _LONGEST)
    code = "blank" if code == "" else code
    return short if name == str(code) or name.startswith(f"{code} ") else f"{code} {short}"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

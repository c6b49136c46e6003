"""``ordinalrbm impute``: a survey file with its gaps filled, once or several times."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import Rule, refuse
from ordinalrbm.cli.output import Output
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from ordinalrbm.data.tables import Encoded
    from ordinalrbm.files.schema import Schema
    from ordinalrbm.files.source import Source
    from ordinalrbm.files.survey import Survey
    from ordinalrbm.files.writing import FilledCells

_IMPUTE = """\b
Examples:
  ordinalrbm impute survey.orbm survey.sav --out complete.sav
  ordinalrbm impute survey.orbm survey.sav --out all.sav --draws 20 --seed 1
  ordinalrbm impute survey.orbm survey.sav --out each.dta --draws 5 --separate"""


class Parameters(StrEnum):
    """What random draws take the parameters of the model for."""

    DRAWN = "drawn"
    FIXED = "fixed"


@app.command(epilog=_IMPUTE)
def impute(
    ctx: typer.Context,
    model: options.ModelFile,
    data: options.DataFile,
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The completed file; its ending decides the format."),
    ],
    rule: Annotated[
        Rule, typer.Option(help="Fill in the median or the most likely level (mode).")
    ] = Rule.MEDIAN,
    draws: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="M",
            help="Multiple imputation: so many tables with random draws, below each other.",
        ),
    ] = None,
    separate: Annotated[
        bool, typer.Option("--separate", help="Write each draw to a file of its own.")
    ] = False,
    parameters: Annotated[
        Parameters,
        typer.Option(help="Learn anew for each draw, or take the model's parameters for known."),
    ] = Parameters.DRAWN,
    fill_no_answer: Annotated[
        bool,
        typer.Option(
            "--fill-no-answer", help="Also fill codes such as refused, which otherwise stay."
        ),
    ] = False,
    fill_never_asked: Annotated[
        bool,
        typer.Option(
            "--fill-never-asked", help="Also fill questions that nobody in a group was asked."
        ),
    ] = False,
    seed: options.SeedOption = 0,
    threads: options.ThreadsOption = None,
    escape_formulas: options.EscapeOption = False,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Fill the gaps of a survey file.

    The file is written back with all its labels. Answers that were given stay, as do all other
    columns, codes that are no answer, and questions that a whole group was never asked, unless you
    ask to fill these too. With --draws 20 the file holds the original and 20 imputations, counted
    in Imputation_ as in SPSS (_mi_m in Stata); with --separate --out a.sav, files are a-1.sav, ...
    """
    _check_options(ctx, rule, draws)
    stacked = draws is not None and not separate
    paths = [out] if draws is None or stacked else _names(out, draws)
    for path in paths:
        inputs.check_files(model, data, out=path)
    options.check_escaping(ctx, out)
    from ordinalrbm.files.source import format_of

    output = Output(as_json=json, quiet=quiet)
    format_of(out)
    fitted = inputs.load_for(model, "a survey")
    fitted.set_params(n_jobs=threads, verbose=output.shows_progress)
    source, survey = inputs.survey_for(fitted, model, data)
    weight = survey.weight if fitted.about_.get("weighted") else None
    found = fitted.impute(
        survey.table, rule.value, n_draws=draws, parameters=parameters.value,
        sample_weight=weight, random_state=seed,
    )  # fmt: skip
    tables = [found] if draws is None else found
    never = _never_asked(survey, fill_never_asked)
    tables = [_answers(table, survey, never.cells) for table in tables]
    cells = _write(
        paths, tables, source, survey.schema, fill_no_answer, escape_formulas, stacked=stacked
    )
    about = {"out": [str(path) for path in paths], **asdict(cells)}
    about["never_asked"] = never.lines
    output.result(about, text=_told(paths, cells, never))


def _check_options(ctx: typer.Context, rule: Rule, draws: int | None) -> None:
    if rule is Rule.MEAN:
        raise DataError("The mean is no level to fill in; take --rule median or mode.")
    if draws is not None:
        refuse(ctx, ("rule",), "draws are random")
    else:
        refuse(ctx, ("separate", "parameters"), "it is for several imputations (--draws)")


def _write(
    paths: list[Path], tables: list[pd.DataFrame], source: Source, schema: Schema, fill: bool,
    escape: bool, *, stacked: bool,
) -> FilledCells:  # fmt: skip
    """Write one file or several, all of them or none."""
    from ordinalrbm.files.writing import answers_written, imputations_written

    with ExitStack() as all_or_none:
        if stacked:
            written = imputations_written(paths[0], tables, source, schema, fill, escape)
            return all_or_none.enter_context(written)
        for path, table in zip(paths, tables, strict=True):
            written = answers_written(path, table, source, schema, fill, escape)
            cells = all_or_none.enter_context(written)
    return cells


class _NeverAsked(NamedTuple):
    """Questions that groups were never asked: in words, line by line, and the cells that stay."""

    words: str
    lines: list[dict[str, Any]]
    cells: np.ndarray | None


def _never_asked(survey: Survey, fill: bool) -> _NeverAsked:
    from ordinalrbm.data import never_asked

    found = never_asked.never_asked(survey.asked, survey.background)
    if found.empty:
        return _NeverAsked("", [], None)
    lines = [dict(line) for line in found.to_dict("records")]
    if fill:
        return _NeverAsked(f"{never_asked.in_words(found)} They are filled too.", lines, None)
    words = f"{never_asked.in_words(found)} These stay as they are; --fill-never-asked fills them."
    return _NeverAsked(
        words, lines, never_asked.never_asked_cells(survey.asked, survey.background, found)
    )


def _answers(
    table: Encoded | pd.DataFrame, survey: Survey, without: np.ndarray | None
) -> pd.DataFrame:
    """Imputed answers to all questions but for some cells."""
    from ordinalrbm.data.tables import Encoded

    frame = table.to_frame() if isinstance(table, Encoded) else table
    asked = frame[survey.asked.header]
    return asked if without is None else asked.mask(without)


def _told(paths: list[Path], cells: FilledCells, never: _NeverAsked) -> str:
    told = f"{cells.empty_filled:,} gaps are filled in {', '.join(map(str, paths))}."
    if cells.codes_filled:
        told += f" So are {cells.codes_filled:,} codes that are no answer."
    if cells.codes_kept:
        told += f" {cells.codes_kept:,} codes that are no answer stay; --fill-no-answer fills them."
    return f"{told} {never.words}".strip()


def _names(out: Path, count: int) -> list[Path]:
    """a.csv.gz becomes a-1.csv.gz, a-2.csv.gz, ..."""
    stem, dot, endings = out.name.partition(".")
    return [out.with_name(f"{stem}-{number}{dot}{endings}") for number in range(1, count + 1)]

"""``ordinalrbm impute``: a survey file with its missing values filled, once or several times."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import SurveySettings, flag, option, out_option, refuse
from ordinalrbm.cli.output import counted
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from ordinalrbm.data.tables import Encoded
    from ordinalrbm.files.survey import Reason, Survey
    from ordinalrbm.files.writing import FilledCells
    from ordinalrbm.schema.source import Source

_EXAMPLES = """\b
Examples:
  ordinalrbm impute survey.sav -o complete.sav
  ordinalrbm impute survey.orbm survey.sav
  ordinalrbm impute survey.orbm survey.sav -o empty.sav --fill empty
  ordinalrbm impute survey.orbm survey.sav -o all.sav --draws 20 --seed 1"""
_NO_ANSWER: Literal["no answer"] = "no answer"  # most files call it missing
_USUAL = "empty,no-answer,dont-know,refused"


FillRule = StrEnum("FillRule", "MEDIAN MODE")
Parameters = StrEnum("Parameters", "DRAWN FIXED")  # of the model: drawn as well, or taken for known
_MEDIAN = FillRule.MEDIAN
_OUT = "Its ending decides the format; by default survey-complete.sav for survey.sav."
_DRAWS = "Multiple imputation: this many tables with random draws, stacked."
_PARAMETERS = "Draw parameters for each table from their posterior, or take the model's as known."
_DELTA = "How much higher missing answers' utilities are, in standard deviations, than missing at random."
_FILL = (
    "Which cells to fill, separated by commas: empty ones and those coded no-answer (or missing), "
    "dont-know, refused, not-applicable, not-asked; all for all of these."
)
_NEVER = "Also fill questions that nobody in a group was asked."


@app.command(epilog=_EXAMPLES)
def impute(
    ctx: typer.Context,
    target: options.DataOrModel,
    data: options.DataOfModel = None,
    *,
    out: Annotated[Path | None, out_option(_OUT)] = None,
    rule: Annotated[FillRule, typer.Option(help="Fill in the median or the most likely level.")] = _MEDIAN,
    draws: Annotated[int | None, option("M", _DRAWS, min=1)] = None,
    parameters: Annotated[Parameters, typer.Option(help=_PARAMETERS)] = Parameters.DRAWN,
    delta: Annotated[float, option("SD", _DELTA)] = 0.0,
    fill: Annotated[str, option("KINDS", _FILL)] = _USUAL,
    fill_never_asked: Annotated[bool, flag("--fill-never-asked", _NEVER)] = False,
    settings: SurveySettings,
    writing: options.Writing,
) -> None:
    """Fill the missing values of a survey file.

    Fits a model to the survey first, unless a model is given before the survey. The file is written back with
    all its labels. Empty cells are filled, and so are codes for refused, don't know and no answer. Answers
    that were given stay, as do all other columns, what was not applicable or not asked (see --fill), and
    questions that a whole group was never asked. With --draws 20 the file holds the original and 20
    imputations, counted in Imputation_ as in SPSS (_mi_m in Stata). If there is nothing to fill, nothing is
    learnt or written, and the exit code is 2.
    """
    if draws is not None:
        refuse(ctx, ("rule",), "draws are random")
    else:
        refuse(ctx, ("parameters",), "it is for several imputations (--draws)")
    kinds = _kinds(fill)
    out = out or inputs.written_like(data or target, "-complete")
    inputs.check_files(target, data, settings.schema, out=out)
    output = writing.begin(ctx, out, labelled=True)
    from ordinalrbm.files.writing import answers_written, imputations_written

    settings = replace(settings, progress=output.shows_progress)
    fitted, source, survey = inputs.given_or_learnt(ctx, target, data, settings, output)
    never = _never_asked(survey, fill_never_asked)
    _check_work(data or target, source, survey, kinds, never)
    if fitted is None:
        from ordinalrbm.cli.learning import learn_survey

        fitted = learn_survey(survey, settings).set_params(n_jobs=settings.threads)
    weight = survey.weight if fitted.about_.get("weighted") else None
    how: Any = {"rule": rule.value, "n_draws": draws, "parameters": parameters.value, "delta": delta}
    found = fitted.impute(
        survey.table, **how, fill_never_asked=True, sample_weight=weight, random_state=settings.seed
    )
    tables = [_answers(table, survey, never.cells) for table in ([found] if draws is None else found)]
    as_read = source, survey.schema, kinds, writing.escape_formulas
    with (
        answers_written(out, tables[0], *as_read)
        if draws is None
        else imputations_written(out, tables, *as_read)
    ) as cells:
        pass
    about = {"out": str(out), **cells._asdict(), "never_asked": never.lines}
    output.result(about, text=_summary(out, cells, never))


def _kinds(fill: str) -> tuple[Reason, ...]:
    from ordinalrbm.files.survey import REASONS
    from ordinalrbm.schema.schema import did_you_mean

    known = {_option(reason): reason for reason in REASONS} | {"missing": _NO_ANSWER}
    words = [word.strip() for word in fill.split(",") if word.strip()]
    if words == ["all"]:
        return REASONS
    unknown = next((word for word in words if word not in known), None)
    if unknown is not None or not words:
        raise DataError(
            f"--fill {unknown or fill!r} is no kind of cell without an answer"
            f"{did_you_mean(unknown or '', known)}; give {', '.join(known)}, with commas between, "
            "or all."
        )
    return tuple(dict.fromkeys(reason for word, reason in known.items() if word in words))


def _option(reason: Reason) -> str:
    return reason.replace("'", "").replace(" ", "-")


def _check_work(
    data: Path, source: Source, survey: Survey, kinds: tuple[Reason, ...], never: _NeverAsked
) -> None:
    """Refuse a file without anything to fill, before hours of learning."""
    from ordinalrbm.files.writing import cells_to_fill

    where, counts = cells_to_fill(source, survey.schema, survey.asked.header or [], kinds)
    if never.cells is not None:
        where &= ~never.cells
    if where.any():
        return
    there = "every question is answered in every row."
    if counts.kept:
        there = f"its cells without an answer are {_in_words(counts.kept)}; --fill can name these."
    elif counts.filled:
        there = never.words
    named = ",".join(map(_option, kinds))
    raise DataError(f"File '{data}' has nothing to fill with --fill {named}: {there} Nothing was written.")


class _NeverAsked(NamedTuple):
    """Questions that groups were never asked: in words, line by line, and the cells that stay."""

    words: str
    lines: list[dict[str, object]]
    cells: np.ndarray | None


def _never_asked(survey: Survey, fill: bool) -> _NeverAsked:
    from ordinalrbm.data import never_asked

    found = never_asked.never_asked(survey.asked, survey.background)
    if found.empty:
        return _NeverAsked("", [], None)
    what, cells = "They are filled like other cells.", None
    if not fill:
        what = "These stay as they are; --fill-never-asked fills them."
        cells = never_asked.never_asked_cells(survey.asked, survey.background, found)
    lines = [dict(line) for line in found.to_dict("records")]
    return _NeverAsked(f"{never_asked.in_words(found)} {what}", lines, cells)


def _answers(table: Encoded | pd.DataFrame, survey: Survey, without: np.ndarray | None) -> pd.DataFrame:
    from ordinalrbm.data.tables import Encoded

    frame = table.to_frame() if isinstance(table, Encoded) else table
    asked = frame[survey.asked.header]
    return asked if without is None else asked.mask(without)


def _summary(out: Path, cells: FilledCells, never: _NeverAsked) -> str:
    text = f"Filled {counted(cells.filled.total(), 'cell')} ({_in_words(cells.filled) or 'none'}) in {out}."
    if cells.kept:
        text += f" Unchanged cells: {_in_words(cells.kept)}; --fill says which to fill."
    return f"{text} {never.words}".strip()


def _in_words(counts: Counter[Reason]) -> str:
    """How many cells there are of each kind: "2 empty, 1,200 refused"."""
    return ", ".join(f"{n:,} {reason}" for reason, n in counts.items())

"""``ordinalrbm predict`` and ``ordinalrbm impute``: what nobody has answered yet."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ordinalrbm as orbm
from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.columns import PairColumns
from ordinalrbm.cli.options import Rule, expanded, refuse
from ordinalrbm.cli.output import Output
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_PREDICT = """\b
Examples:
  ordinalrbm predict survey.orbm survey.sav --out gaps.csv
  ordinalrbm predict survey.orbm survey.sav --out gaps.parquet --probabilities
  ordinalrbm predict films.orbm pairs.csv --out expected.csv --rule mean"""

_IMPUTE = """\b
Examples:
  ordinalrbm impute survey.orbm survey.sav --out complete.sav
  ordinalrbm impute survey.orbm survey.sav --out full.sav --draws 5 --seed 1"""


@app.command(epilog=_PREDICT)
@expanded
def predict(
    ctx: typer.Context,
    model: options.ModelFile,
    data: options.DataFile,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .csv, .tsv or .parquet file.")],
    rule: Annotated[
        Rule,
        typer.Option(
            help="Which level to name; the mean is a number, and names count as 1, 2, ..."
        ),
    ] = Rule.MEDIAN,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The probability of every level as well.")
    ] = False,
    columns: PairColumns,
    threads: options.ThreadsOption = None,
    device: options.DeviceOption = "cpu",
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Predict answers that were not given, or ratings of pairs.

    Of a survey, one line for each question that somebody has not answered. Of ratings, one line
    for each line of a table with the columns user and item; whoever is unknown is predicted like
    the average.
    """
    inputs.check_files(model, data, out=out)
    from ordinalrbm.files.writing import check_table_format, write_table

    output = Output(as_json=json, quiet=quiet)
    check_table_format(out)
    fitted = orbm.load(model).set_params(n_jobs=threads)
    inputs.set_device(ctx, fitted, model, device)
    if isinstance(fitted, orbm.CumulativeRBM):
        refuse(ctx, options.COLUMN_OPTIONS, f"'{model}' is a model of a survey")
        what, table = "unanswered questions", _gaps(fitted, model, data, rule, probabilities)
    else:
        what, table = "pairs", _pairs(fitted, data, columns, rule, probabilities)
    write_table(out, table)
    output.result(
        {"out": str(out), "lines": len(table)},
        text=f"{len(table):,} {what} are predicted in {out}.",
    )


def _gaps(model: Any, path: Path, data: Path, rule: Rule, probabilities: bool) -> pd.DataFrame:
    """A line per gap: who, which question, the prediction, and how sure it is."""
    import numpy as np
    import pandas as pd

    from ordinalrbm.evaluate.points import point

    _, survey = inputs.survey_for(model, path, data)
    who, parts = inputs.respondents(survey), []
    every, levels = model.predict_proba(survey.encoded), survey.encoded.observations.to_dense()
    for place, name in enumerate(survey.schema.names("ordinal")):
        rows = np.flatnonzero(levels[:, place] < 0)
        distribution, scale = every[place][rows], model.scales_[place]
        if rule is Rule.MEAN:
            found = point(distribution, "mean", scale.values)
        else:
            found = scale.decode(point(distribution, _level_rule(rule)))
        part = {"row": rows + 1, "respondent": who[rows], "question": name, "prediction": found}
        if probabilities:
            part |= {f"p_{level + 1}": column for level, column in enumerate(distribution.T)}
        parts.append(pd.DataFrame(part))
    table = pd.concat(parts, ignore_index=True)
    # By respondent, as the file is; of one respondent, in the order of the questions.
    return table.sort_values("row", kind="stable", ignore_index=True)


def _level_rule(rule: Rule) -> Literal["mode", "median"]:
    return "mode" if rule is Rule.MODE else "median"


def _pairs(
    model: Any, data: Path, columns: PairColumns, rule: Rule, probabilities: bool
) -> pd.DataFrame:
    from ordinalrbm.files.formats import read
    from ordinalrbm.files.ratings import pairs_of

    pairs = inputs.with_known_ids(model, pairs_of(read(data), columns.layout()))
    user, item = pairs["user"].to_numpy(), pairs["item"].to_numpy()
    table = pairs.assign(prediction=model.predict(user, item, rule=rule.value))
    if probabilities:
        distribution = model.predict_proba(user, item)
        for level in range(distribution.shape[1]):
            table[f"p_{level + 1}"] = distribution[:, level]
    return table


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
        Rule, typer.Option(help="Fill in the most likely level (mode) or the median.")
    ] = Rule.MODE,
    draws: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="M", help="Multiple imputation: write so many files with random draws."
        ),
    ] = None,
    fill_no_answer: Annotated[
        bool,
        typer.Option(
            "--fill-no-answer", help="Also fill codes such as refused, which otherwise stay."
        ),
    ] = False,
    seed: options.SeedOption = 0,
    threads: options.ThreadsOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Fill the gaps of a survey file.

    The file is written back with all its labels. Answers that were given stay, as do all other
    columns, and codes that are no answer unless you ask to fill these too. With --draws 5 and
    --out a.sav, the files are a-1.sav to a-5.sav.
    """
    if rule is Rule.MEAN:
        raise DataError("The mean is no level to fill in; take --rule mode or median.")
    if draws is not None:
        refuse(ctx, ("rule",), "draws are random")
    paths = [out] if draws is None else _names(out, draws)
    for path in paths:
        inputs.check_files(model, data, out=path)
    from ordinalrbm.files.source import format_of
    from ordinalrbm.files.writing import answers_written

    output = Output(as_json=json, quiet=quiet)
    format_of(out)
    fitted = inputs.load_for(model, "a survey").set_params(n_jobs=threads)
    source, survey = inputs.survey_for(fitted, model, data)
    filled = fitted.impute(survey.encoded, _level_rule(rule), n_draws=draws, random_state=seed)
    tables = [filled] if draws is None else filled
    with ExitStack() as all_or_none:
        for path, table in zip(paths, tables, strict=True):
            cells = all_or_none.enter_context(
                answers_written(path, table, source, survey.schema, fill_no_answer)
            )
    told = f"{cells.empty_filled:,} gaps are filled in {', '.join(map(str, paths))}."
    if cells.codes_filled:
        told += f" So are {cells.codes_filled:,} codes that are no answer."
    if cells.codes_kept:
        told += f" {cells.codes_kept:,} codes that are no answer stay; --fill-no-answer fills them."
    output.result({"out": [str(path) for path in paths], **asdict(cells)}, text=told)


def _names(out: Path, count: int) -> list[Path]:
    """a.csv.gz becomes a-1.csv.gz, a-2.csv.gz, ..."""
    stem, dot, endings = out.name.partition(".")
    return [out.with_name(f"{stem}-{number}{dot}{endings}") for number in range(1, count + 1)]

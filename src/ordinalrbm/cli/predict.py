"""``ordinalrbm predict``: what nobody has answered yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ordinalrbm as orbm
from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.columns import PairColumns
from ordinalrbm.cli.options import Rule, expanded, refuse
from ordinalrbm.cli.output import Output

if TYPE_CHECKING:
    import pandas as pd

_PREDICT = """\b
Examples:
  ordinalrbm predict survey.orbm survey.sav --out gaps.csv
  ordinalrbm predict survey.orbm survey.sav --out gaps.parquet --probabilities
  ordinalrbm predict films.orbm pairs.csv --out expected.csv --rule mean"""


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
            level: Literal["mode", "median"] = "mode" if rule is Rule.MODE else "median"
            found = scale.decode(point(distribution, level))
        part = {"row": rows + 1, "respondent": who[rows], "question": name, "prediction": found}
        if probabilities:
            part |= {f"p_{level + 1}": column for level, column in enumerate(distribution.T)}
        parts.append(pd.DataFrame(part))
    table = pd.concat(parts, ignore_index=True)
    # By respondent, as the file is; of one respondent, in the order of the questions.
    return table.sort_values("row", kind="stable", ignore_index=True)


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

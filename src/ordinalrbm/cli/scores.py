"""``ordinalrbm scores``: where each respondent stands on the factors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import Rotation
from ordinalrbm.cli.output import counted
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from ordinalrbm.estimators.survey import CumulativeRBM
    from ordinalrbm.files.survey import Survey

_EXAMPLES = """\b
Examples:
  ordinalrbm scores survey.orbm survey.sav --out scores.sav --factors 2
  ordinalrbm scores survey.orbm survey.sav --out scores.dta -k 2 --draws 5"""


@app.command(epilog=_EXAMPLES)
def scores(
    ctx: typer.Context,
    model: options.ModelFile,
    data: options.DataFile,
    *,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="A .sav, .zsav, .dta, .csv, .tsv or .parquet file.")
    ],
    number: Annotated[
        int | None,
        typer.Option(
            "--factors",
            "-k",
            min=1,
            metavar="K",
            help="Fewer factors than the model has: those that explain most.",
        ),
    ] = None,
    rotation: options.RotationOption = Rotation.VARIMAX,
    draws: Annotated[
        int | None, typer.Option(min=1, metavar="M", help="So many plausible values of each factor as well.")
    ] = None,
    seed: options.SeedOption = 0,
    threads: options.ThreadsOption = None,
    writing: options.Writing,
) -> None:
    """Write each respondent's scores on the rotated factors.

    A factor has mean 0 and standard deviation 1 among the people that the model was learnt from.
    Beside the score is its standard error. Plausible values are random draws, for analyses of
    the factors: do each analysis with every draw, and pool the results.
    """
    inputs.check_files(model, data, out=out)
    output = writing.begin(ctx, out, labelled=True)
    from ordinalrbm.files.writing import write_labelled

    fitted = inputs.load_for(model, "a survey").set_params(n_jobs=threads)
    most = min(fitted.model_.weights.shape)
    if number is not None and number > most:
        raise DataError(f"--factors {number} is more than '{model}' has; give at most {most}.")
    _, survey = inputs.survey_for(fitted, model, data)
    chosen: dict[str, Any] = {"rotation": rotation.value, "n_factors": number}
    names = fitted.factor_solution(**chosen).names
    table, labels = _scored(fitted, survey, names, chosen, draws, seed)
    write_labelled(out, table, labels, writing.escape_formulas)
    people, factors = counted(len(table), "respondent"), counted(len(names), "factor")
    lines = [f"Scores of {people} on {factors} are in {out}."]
    lines += [f"{factor} ({name})" for factor, name in names.items()]
    found = {"out": str(out), "rows": len(table), "columns": labels, "names": names}
    output.result(found, text="\n".join(lines))


def _scored(
    model: CumulativeRBM,
    survey: Survey,
    names: dict[str, str],
    chosen: dict[str, Any],
    draws: int | None,
    seed: int,
) -> tuple[pd.DataFrame, dict[str, str]]:
    """A line per respondent, and the labels of the columns."""
    import numpy as np
    import pandas as pd

    means, errors = model.scores(survey.table, return_std=True, **chosen)
    drawn = model.scores(survey.table, n_draws=draws, random_state=seed, **chosen) if draws else []
    columns: dict[str, tuple[str, Any]] = {}
    for k, (factor, about) in enumerate(names.items(), start=1):
        columns[f"factor_{k}"] = f"{factor} ({about})", means[factor].to_numpy()
        columns[f"factor_{k}_se"] = f"{factor}, standard error", errors[factor].to_numpy()
        for draw, values in enumerate(drawn, start=1):
            label = f"{factor}, plausible value {draw}"
            columns[f"factor_{k}_pv{draw}"] = label, values[factor].to_numpy()
    # Ids of the respondents, or else the numbers of their rows.
    who, ids = "row", ("Row of the file, from 1", np.arange(1, survey.encoded.shape[0] + 1))
    if survey.ids is not None:
        name = str(survey.ids.name)
        who = "id" if name in columns else name
        ids = survey.schema.column(name).question or name, survey.ids.to_numpy()
    columns = {who: ids, **columns}
    table = pd.DataFrame({name: values for name, (_, values) in columns.items()})
    return table, {name: label for name, (label, _) in columns.items()}

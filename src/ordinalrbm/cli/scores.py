"""``ordinalrbm scores``: where each respondent stands on the factors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import Rotation, SurveySettings, option, out_option
from ordinalrbm.cli.output import counted

if TYPE_CHECKING:
    import pandas as pd

    from ordinalrbm.estimators.survey import CumulativeRBM
    from ordinalrbm.files.survey import Survey

_EXAMPLES = """\b
Examples:
  ordinalrbm scores survey.sav -k 2
  ordinalrbm scores survey.orbm survey.sav -o scores.sav
  ordinalrbm scores survey.orbm survey.sav -o scores.dta -k 2 --draws 5"""

_OUT = "A .sav, .zsav, .dta, .csv, .tsv, .xlsx or .parquet file; by default survey-scores.sav for survey.sav."
_NUMBER = (
    "Number of factors. By default the one that `ordinalrbm factors` would choose; of a model, as many "
    "as have at least two questions of their own."
)


@app.command(epilog=_EXAMPLES)
def scores(
    ctx: typer.Context,
    target: options.DataOrModel,
    data: options.DataOfModel = None,
    *,
    out: Annotated[Path | None, out_option(_OUT)] = None,
    number: Annotated[int | None, option("K", _NUMBER, "--factors", "-k", min=1)] = None,
    rotation: options.RotationOption = Rotation.VARIMAX,
    draws: Annotated[
        int | None, option("M", "Also write this many plausible values of each factor.", min=1)
    ] = None,
    settings: SurveySettings,
    writing: options.Writing,
) -> None:
    """Write each respondent's scores on the rotated factors.

    Fits a model to the survey first, unless a model is given before the survey. A factor has mean 0 and
    standard deviation 1 among the people that the model was learnt from. Each score
    comes with its standard error. Plausible values are random draws, for analyses of the factors:
    repeat the analysis with every draw, and pool the results.
    """
    out = out or inputs.written_like(data or target, "-scores")
    inputs.check_files(target, data, settings.schema, out=out)
    output = writing.begin(ctx, out, labelled=True)
    from ordinalrbm.cli.learning import compare_numbers, learn_survey
    from ordinalrbm.estimators.factor_analysis import number_to_read
    from ordinalrbm.files.writing import write_table

    settings = replace(settings, progress=output.shows_progress)
    model, _, survey = inputs.given_or_learnt(ctx, target, data, settings, output)
    chosen: dict[str, Any] = {"rotation": rotation.value}
    if model is None:
        number = number or compare_numbers(survey, settings, output).chosen
        options.check_number(number, survey.n_questions, f"the questions of {survey.name!r}")
        output.step(f"learning {counted(number, 'factor')} from all answers")
        model = learn_survey(survey, replace(settings, factors=number))
    else:
        options.check_number(number or 1, min(model.model_.weights.shape), f"'{target}' has")
        number = number or number_to_read(model, **chosen)
    chosen["n_factors"] = number
    names = model.factor_solution(**chosen).names
    table, labels = _scored(model, survey, names, chosen, draws, settings.seed)
    write_table(out, table, writing.escape_formulas, labels)
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

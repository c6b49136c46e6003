"""``ordinalrbm predict``: answers and ratings that are not given yet."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ordinalrbm as orbm
from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import PairColumns, Rule, flag, out_option, refuse
from ordinalrbm.runtime.places import result_path

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from ordinalrbm.data.scales import Scale
    from ordinalrbm.estimators.ratings import RatingModel

_EXAMPLES = """\b
Examples:
  ordinalrbm predict survey.orbm survey.sav --out gaps.csv
  ordinalrbm predict survey.orbm survey.sav --out gaps.parquet --probabilities
  ordinalrbm predict films.orbm pairs.csv --out expected.csv
  ordinalrbm predict films.orbm pairs.csv --out levels.csv --rule median"""

_FORMATS = "A .csv, .tsv, .xlsx or .parquet file"
_RULE = (
    "What to predict; the mean is a number, and names count as 1, 2, ... By default the mean of ratings "
    "and the median of answers to a survey, as in Python."
)
_PROBABILITIES = "The probability of every level as well; of numbers the standard deviation."


@app.command(epilog=_EXAMPLES)
def predict(
    ctx: typer.Context,
    model: options.ModelFile,
    data: options.DataFile,
    *,
    out: Annotated[Path | None, out_option(f"{_FORMATS}; by default survey-predictions.csv.")] = None,
    rule: Annotated[Rule | None, typer.Option(help=_RULE, show_default=False)] = None,
    probabilities: Annotated[bool, flag("--probabilities", _PROBABILITIES)] = False,
    columns: PairColumns,
    threads: options.ThreadsOption = None,
    device: options.DeviceOption = "cpu",
    writing: options.Writing,
) -> None:
    """Predict answers that were not given, or ratings of pairs.

    Of a survey, one line for each question that somebody has not answered; of categories without
    an order the most likely one is named, of numbers the mean. Of ratings, one line for each line
    of a table with the columns user and item; whoever is unknown is predicted like the average.
    """
    out = out or result_path(data, "-predictions.csv")
    inputs.check_files(model, data, out=out)
    output = writing.begin(ctx, out)
    from ordinalrbm.files.writing import write_table

    fitted = orbm.load(model).set_params(n_jobs=threads)
    inputs.set_device(ctx, fitted, model, device)
    if isinstance(fitted, orbm.CumulativeRBM):
        refuse(ctx, options.COLUMN_OPTIONS, f"'{model}' is a model of a survey")
        rule = rule or Rule.MEDIAN
        what, table = "unanswered questions", _gaps(fitted, model, data, rule, probabilities)
    else:
        what, table = "pairs", _pairs(fitted, data, columns, rule or Rule.MEAN, probabilities)
    write_table(out, table, writing.escape_formulas)
    output.result(
        {"out": str(out), "lines": len(table)}, text=f"{len(table):,} {what} are predicted in {out}."
    )


def _gaps(model: orbm.CumulativeRBM, path: Path, data: Path, rule: Rule, probabilities: bool) -> pd.DataFrame:
    """A line per gap: who, which question, the prediction, and how sure it is."""
    import numpy as np
    import pandas as pd

    from ordinalrbm.data.tables import as_table

    _, survey = inputs.survey_for(model, path, data)
    who, parts, answers = inputs.respondents(survey), [], as_table(survey.asked)
    every = model.predict_proba(survey.table)
    for j in model.questionnaire_.questions:
        rows = np.flatnonzero(pd.isna(answers.column(j)))
        distribution, scale = every[j][rows], model.scales_[j]
        kind = model.questionnaire_.kinds[j]
        found = _predicted(distribution, scale, Rule.MODE if kind == "nominal" else rule)
        name = model.feature_names_in_[j]
        part = {"row": rows + 1, "respondent": who[rows], "question": name, "prediction": found}
        if probabilities and scale is None:
            part["sd"] = distribution[:, 1]
        elif probabilities:
            part |= {f"p_{level + 1}": column for level, column in enumerate(distribution.T)}
        parts.append(pd.DataFrame(part))
    table = pd.concat(parts, ignore_index=True)
    if len({pd.api.types.is_numeric_dtype(part["prediction"]) for part in parts}) > 1:
        table["prediction"] = table["prediction"].map(str)  # a column has one type
    # By respondent, as the file is; of one respondent, in the order of the questions.
    return table.sort_values("row", kind="stable", ignore_index=True)


def _predicted(distribution: np.ndarray, scale: Scale | None, rule: Rule) -> np.ndarray:
    import numpy as np

    from ordinalrbm.stats.point_estimates import point

    if scale is None:
        return distribution[:, 0]
    if rule is Rule.MEAN:
        values = scale.values
        with suppress(ValueError):  # files of surveys have numbers as text, too
            values = np.array([float(name) for name in scale.names])
        return point(distribution, "mean", values)
    level: Literal["mode", "median"] = "mode" if rule is Rule.MODE else "median"
    return scale.decode(point(distribution, level))


def _pairs(
    model: RatingModel, data: Path, columns: PairColumns, rule: Rule, probabilities: bool
) -> pd.DataFrame:
    from ordinalrbm.files.formats import read
    from ordinalrbm.files.ratings import pairs_of, times_of_pairs

    source = read(data)
    pairs, times = inputs.with_known_ids(model, pairs_of(source, columns.layout())), times_of_pairs(source)
    user, item = pairs["user"].to_numpy(), pairs["item"].to_numpy()
    wanted: Any = rule.value
    table = pairs.assign(prediction=model.predict(user, item, rule=wanted, times=times))
    if probabilities:
        distribution = model.predict_proba(user, item, times)
        for level in range(distribution.shape[1]):
            table[f"p_{level + 1}"] = distribution[:, level]
    return table

"""``ordinalrbm scores`` and ``ask``: where people stand on the factors, in a file or in an interview."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import Rotation, SurveySettings, option, out_option
from ordinalrbm.cli.output import counted, results_table
from ordinalrbm.runtime.display import printable

if TYPE_CHECKING:
    import pandas as pd

    from ordinalrbm.data.scales import Scale
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


# ---- interviews ---------------------------------------------------------------------------------

_OF_ASK = """\b
Examples:
  ordinalrbm ask survey.orbm
  ordinalrbm ask survey.orbm -k 5 --until 0.4 --most 20"""

_MOST_FACTORS = "Number of factors; by default as many as have at least two questions of their own."
_UNTIL = "Stop when all factors have a standard error of at most this."
_HOW = "Answer with a number or a label; an empty line skips the question, q ends the interview."
_END = object()


@app.command(epilog=_OF_ASK)
def ask(
    ctx: typer.Context,
    model: options.ModelFile,
    *,
    number: Annotated[int | None, option("K", _MOST_FACTORS, "--factors", "-k", min=1)] = None,
    rotation: options.RotationOption = Rotation.VARIMAX,
    until: Annotated[float, option("SE", _UNTIL, min=0)] = 0.3,
    most: Annotated[int | None, option("N", "Stop after so many questions.", min=1)] = None,
    telling: options.Telling,
) -> None:
    """Ask one person what tells most about the factors.

    The next question is chosen by the answers so far. In the end, scores are printed with their
    standard errors.
    """
    from ordinalrbm.estimators.factor_analysis import number_to_read

    inputs.check_files(model)
    output, fitted = telling.output(), inputs.load_for(model, "a survey")
    options.check_number(number or 1, min(fitted.model_.weights.shape), f"'{model}' has")
    chosen: dict[str, Any] = {"rotation": rotation.value}
    chosen["n_factors"] = number or number_to_read(fitted, **chosen)
    wanted = {"factors": "all", "until": until or None, **chosen}
    columns = list(fitted.feature_names_in_)
    output.say(_HOW)
    names = fitted.factor_solution(**chosen).names
    answers: dict[str, Any] = {}
    left = [fitted.feature_names_in_[j] for j in fitted.questionnaire_.questions]
    while not (best := fitted.ask(answers, left, **wanted)).empty and len(answers) != most:
        name = best["question"][0]
        answer = _answer(best.get("text", best["question"])[0] or name, fitted.scales_[columns.index(name)])
        if answer is _END:
            break
        left.remove(name)
        if answer is not None:
            answers[name] = answer
    scores, errors = best.attrs["scores"], best.attrs["standard_errors"]
    lines = [{"name": names[one], "score": scores[one], "standard_error": errors[one]} for one in errors]
    table = results_table({"factor": "", "score": "+.2f", "error": ".2f"}, [line.values() for line in lines])
    found = {"answers": answers, "scores": dict(zip(errors, lines, strict=True))}
    output.result(found, table, text=f"By {counted(len(answers), 'answer')}.")


def _answer(text: str, scale: Scale | None) -> Any:
    """What is typed in: a level of the scale or a number; None if nothing, and `_END` at the end."""
    labels = () if scale is None else scale.labels
    known: dict[str, Any] = {}
    if scale is not None and not scale.is_numeric and not any(map(_is_number, scale.names)):
        known = {str(k): at for k, at in enumerate(labels, start=1)}
    lines = [f"{number:>3}  {label}" for number, label in known.items()]
    known |= {} if scale is None else dict(zip(map(str.casefold, scale.names), labels, strict=True))
    choices = [] if scale is None else [", ".join(scale.names)]
    typer.echo(printable("\n".join(["", text, *(lines or choices)])), err=True)
    while True:
        typer.echo("> ", err=True, nl=False)
        line = sys.stdin.readline()
        typed = line.strip().casefold()
        if typed in known or not typed or typed == "q":
            return known.get(typed, None if line and not typed else _END)
        with suppress(ValueError):
            if scale is None and math.isfinite(number := float(typed)):
                return number
        typer.echo(_HOW, err=True)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True

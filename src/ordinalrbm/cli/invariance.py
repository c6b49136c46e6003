"""``ordinalrbm invariance``: which questions work differently in some groups."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import Rotation, SurveySettings, option, out_option
from ordinalrbm.cli.output import frame_table

_EXAMPLES = """\b
Examples:
  ordinalrbm invariance survey.sav --group country
  ordinalrbm invariance survey.orbm survey.sav --group country -o dif.xlsx"""
_OUT = "All comparisons as .csv, .tsv or .parquet; with means of the groups as .xlsx, .docx or .tex."
_NUMBER = "Number of factors; by default the most that have at least two questions of their own each."


@app.command(epilog=_EXAMPLES)
def invariance(
    ctx: typer.Context,
    target: options.DataOrModel,
    data: options.DataOfModel = None,
    *,
    group: Annotated[str, option("COLUMN", "Background variable that makes the groups.")],
    number: Annotated[int | None, option("K", _NUMBER, "--factors", "-k", min=1)] = None,
    rotation: options.RotationOption = Rotation.VARIMAX,
    out: Annotated[Path | None, out_option(_OUT)] = None,
    settings: SurveySettings,
    writing: options.Writing,
) -> None:
    """Find questions that work differently in some groups (DIF).

    Fits a model to the survey first, unless a model is given before the survey. People of different
    groups who stand alike on a factor should answer its questions alike. Each question in each group is
    compared with the others, and groups are placed on the factors without questions that deviate. As in
    reports, people count by the weights of the survey, if it has any.
    """
    inputs.check_files(target, data, settings.schema, out=out)
    output = writing.begin(ctx, out, printed=True)
    from ordinalrbm.cli.learning import learn_survey
    from ordinalrbm.estimators.factor_analysis import readable_factors
    from ordinalrbm.estimators.invariance import SHOWN
    from ordinalrbm.files.tables_out import of_frame, write_tables
    from ordinalrbm.files.writing import write_table
    from ordinalrbm.pages.survey import check_group
    from ordinalrbm.stats.welch import counting

    settings = replace(settings, progress=output.shows_progress)
    model, _, survey = inputs.given_or_learnt(ctx, target, data, settings, output)
    grouping = check_group(survey, group)
    assert grouping is not None, "the option must be given"
    if model is None:
        k = max(number or 1, readable_factors(survey.n_questions))
        options.check_number(k, survey.n_questions, f"the questions of {survey.name!r}")
        output.step("learning from all answers")
        model = learn_survey(survey, replace(settings, factors=k))
    options.check_number(number or 1, min(model.model_.weights.shape), f"'{target}' has")
    output.step(f"comparing groups by {group}")
    weight = None if survey.weight is None else counting(survey.weight.to_numpy(float), len(survey.weight))
    chosen: dict[str, Any] = {"n_factors": number, "rotation": rotation.value, "sample_weight": weight}
    found = model.invariance(survey.table, grouping.of_people, **chosen)
    words = [found.summary]
    words += [] if survey.weight is None else [f"People count by the weights in {survey.weight.name!r}."]
    if out is not None and out.suffix.lower() in (".xlsx", ".docx", ".tex"):
        lines = found.questions if out.suffix.lower() == ".xlsx" else found.deviating()[SHOWN]
        write_tables(out, [of_frame("Questions", lines, found.summary), of_frame("Means", found.means)])
    elif out is not None:
        write_table(out, found.questions, writing.escape_formulas)
    words += [] if out is None else [f"The comparisons are in {out}."]
    deviating, means = found.deviating()[SHOWN], found.means
    tables = [
        frame_table(part, dict.fromkeys(part.select_dtypes("floating"), ".2f"))
        for part in (deviating, means)
        if len(part)
    ]
    about = {"questions": found.questions.to_dict("records"), "means": means.to_dict("records")}
    output.result(about | {"left_out": found.left_out}, *tables, text="\n".join(words))

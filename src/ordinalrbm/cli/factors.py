"""``ordinalrbm factors`` and ``invariance``: what the factors of a survey are, and whether in all groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import Rotation, SurveySettings, option, out_option, refuse
from ordinalrbm.cli.output import Output, counted, frame_table, results_table
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    from rich.table import Table

    from ordinalrbm.estimators.factor_analysis import FactorReading
    from ordinalrbm.evaluate import FactorNumbers
    from ordinalrbm.files.survey import Survey

_EXAMPLES = """\b
Examples:
  ordinalrbm factors survey.sav --from 1 --to 3
  ordinalrbm factors survey.sav --factors 2 --rotation oblimin
  ordinalrbm factors survey.sav -k 2 --questions "q*" -o loadings.docx"""

_OUT = (
    "Loadings and standard errors as .csv, .tsv or .parquet; all tables as .xlsx; for print, in APA form, "
    "as .docx or .tex."
)
_TEXT_SHOWN, _ANSWER_SHOWN = 30, 24  # letters of a question and an answer beside its loadings
_RULE = (
    "The smallest number within one standard error of the best is chosen (the error is that of "
    "the difference on the same hidden answers)."
)


@app.command(epilog=_EXAMPLES)
def factors(
    ctx: typer.Context,
    data: options.DataFile,
    *,
    from_: Annotated[int, option("K", "The smallest number to try.", "--from", min=1)] = 1,
    to: Annotated[int | None, option("K", "The largest number to try; by default 8.", min=1)] = None,
    number: Annotated[
        int | None, option("K", "Use this number of factors, without comparing.", "--factors", "-k", min=1)
    ] = None,
    rotation: options.RotationOption = Rotation.VARIMAX,
    out: Annotated[Path | None, out_option(_OUT)] = None,
    sample: options.DesignColumns,
    settings: SurveySettings,
    writing: options.Writing,
) -> None:
    """Find how many factors a survey has, and what loads on them.

    A tenth of the answers is hidden, and models with every number of factors from --from to --to
    predict it from the others. Then the chosen number is fitted to all answers, and its
    rotated loadings are shown: which questions go together, how strongly, and how reliably.
    """
    inputs.check_files(data, settings.schema, out=out)
    output = writing.begin(ctx, out, printed=True)
    if number is not None:
        refuse(ctx, ("from_", "to"), "--factors compares no numbers")
    settings = replace(settings, progress=output.shows_progress, design=sample.given)
    material = inputs.read_survey_to_learn(data, settings)
    survey = material.survey
    assert survey is not None, "ratings are refused"
    given_as = "--factors" if number else "--to" if to else "--from"
    whose = f"the {survey.n_questions} questions of {survey.name!r}"
    options.check_number(number or to or from_, survey.n_questions, whose, given_as)
    if to is not None and from_ > to:
        raise DataError(f"--from {from_} is above --to {to}; give the smaller number first.")
    inputs.tell_material(material, output)
    compared = None
    if number is None:
        from ordinalrbm.cli.learning import compare_numbers

        compared = compare_numbers(survey, settings, output, from_, to) if from_ != to else None
        number = from_ if compared is None else compared.chosen
    output.step(f"learning {counted(number, 'factor')} from all answers")
    reading = _read(survey, replace(settings, factors=number), rotation)
    if survey.design is not None:
        output.say(repr(survey.design))
    _tell(reading, compared, out, writing.escape_formulas, output)


def _read(survey: Survey, settings: SurveySettings, rotation: Rotation) -> FactorReading:
    from ordinalrbm.cli.learning import learn_survey, weights_of

    model = learn_survey(survey, settings).set_params(n_jobs=settings.threads)
    weight = None if survey.design is not None else weights_of(survey, settings)
    return model.factor_solution(
        survey.table, rotation=rotation.value, sample_weight=weight, design=survey.design
    )


def _tell(
    reading: FactorReading,
    compared: FactorNumbers | None,
    out: Path | None,
    escape_formulas: bool,
    output: Output,
) -> None:
    found: dict[str, object] = {"factors": len(reading.factors), "rotation": reading.rotation}
    tables, words = [], []
    if compared is not None:
        found |= {
            "hidden": compared.n_hidden,
            "best": compared.best,
            "numbers": compared.table.reset_index().to_dict("records"),
            "rule": _RULE,
        }
        tables.append(_number_table(compared))
        words.append(f"Best by likelihood: {compared.best}; chosen: {compared.chosen}. {_RULE}")
        if compared.best == compared.table.index[-1] < len(reading.table()):
            words.append(f"More than {compared.best} may predict better still: raise --to.")
    found |= {
        "names": reading.names,
        "loadings": reading.table().to_dict("index"),
        "correlations": reading.correlations.to_dict(),
        "reliability": reading.reliability.to_dict("index"),
    }
    tables += [_loading_table(reading), _factor_table(reading)]
    if reading.rotation in ("oblimin", "promax") and len(reading.factors) > 1:
        columns = {"correlation": ""} | dict.fromkeys(_short(reading), ".2f")
        tables.append(results_table(columns, reading.correlations.itertuples(name=None)))
    from ordinalrbm.estimators.factor_analysis import FEWEST_ITEMS

    n_own = int((reading.reliability["items"] >= FEWEST_ITEMS).sum())
    if 0 < n_own < len(reading.factors):
        has, its = ("has", "its") if n_own == 1 else ("have", "their")
        words.append(
            f"Only {counted(n_own, 'factor')} {has} at least {FEWEST_ITEMS} questions of {its} own; the "
            f"others sharpen predictions a little. For reading, --factors {n_own} may be enough."
        )
    if "highest answer" in reading.table():
        words.append("Positive loading: people high on the factor tend to the highest answer.")
    if reading.standard_errors is None:
        words.append("Standard errors are left out: there are too few respondents for them.")
    if out is not None:
        words.append(f"{_write(reading, compared, out, escape_formulas)} are in {out}.")
        found["out"] = str(out)
    output.result(found, *tables, text="\n".join(words))


def _write(reading: FactorReading, compared: FactorNumbers | None, out: Path, escape_formulas: bool) -> str:
    """Write the tables in the form that the ending asks for; gives what these are."""
    from ordinalrbm.files import tables_out
    from ordinalrbm.files.writing import write_table

    if out.suffix.lower() == ".xlsx" or tables_out.is_printed(out):
        more = [tables_out.of_frame("Numbers of factors", compared.table.reset_index())] if compared else []
        tables_out.write_reading(out, reading, more if out.suffix.lower() == ".xlsx" else ())
        return "Loadings, their reliability and correlations of the factors"
    write_table(out, reading.table().rename_axis("name").reset_index(), escape_formulas)
    return "Loadings and standard errors"


def _number_table(compared: FactorNumbers) -> Table:
    rows = [
        (f"{number}{' *' if number == compared.chosen else ''}", *line)
        for number, *line in compared.table.itertuples(name=None)
    ]
    numbers = ("log-likelihood", "error", "difference", "error ")
    return results_table({"factors": "s"} | dict.fromkeys(numbers, ".4f"), rows)


def _loading_table(reading: FactorReading) -> Table:
    from ordinalrbm.estimators.poles import cut, in_short

    lines = reading.table()
    words = [name for name in ("question", "highest answer") if name in lines]
    if "question" in lines:
        lines["question"] = in_short(lines["question"], _TEXT_SHOWN)
    if "highest answer" in lines:
        lines["highest answer"] = [cut(text, _ANSWER_SHOWN) for text in lines["highest answer"]]
    shown = lines[[*words, *reading.factors, "communality"]]
    columns = dict.fromkeys(["", *words], "") | dict.fromkeys([*_short(reading), "shared"], ".2f")
    return results_table(columns, shown.itertuples(name=None))


def _factor_table(reading: FactorReading) -> Table:
    known = reading.reliability
    numbers = [name for name in ("items", "explained", "omega", "omega_h", "alpha") if name in known]
    lines = known[numbers].itertuples(name=None)
    rows = [(factor, reading.names[factor], *line) for factor, *line in lines]
    columns = {"factor": "", "people high on it answer": ""} | dict.fromkeys(numbers, ".2f")
    return results_table(columns | {"items": ".0f"}, rows)


def _short(reading: FactorReading) -> list[str]:
    return [factor.replace("Factor ", "F") for factor in reading.factors]


# ---- groups -----------------------------------------------------------------------------------

_INVARIANCE = """\b
Examples:
  ordinalrbm invariance survey.sav --group country
  ordinalrbm invariance survey.orbm survey.sav --group country -o dif.xlsx"""
_COMPARISONS = "All comparisons as .csv, .tsv or .parquet; with means of the groups as .xlsx, .docx or .tex."
_MOST_FACTORS = "Number of factors; by default the most that have at least two questions of their own each."


@app.command(epilog=_INVARIANCE)
def invariance(
    ctx: typer.Context,
    target: options.DataOrModel,
    data: options.DataOfModel = None,
    *,
    group: Annotated[str, option("COLUMN", "Background variable that makes the groups.")],
    number: Annotated[int | None, option("K", _MOST_FACTORS, "--factors", "-k", min=1)] = None,
    rotation: options.RotationOption = Rotation.VARIMAX,
    out: Annotated[Path | None, out_option(_COMPARISONS)] = None,
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

"""``ordinalrbm factors``: how many factors a survey has, and what they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import Rotation, Settings, refuse
from ordinalrbm.cli.output import Output, counted, results_table
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
  ordinalrbm factors survey.sav --factors 2 --out loadings.csv"""

_MOST = 8
_TEXT_SHOWN, _ANSWER_SHOWN = 30, 24  # letters of a question and an answer beside its loadings
_FEWEST_ITEMS = 2  # by which a factor can be read
_RULE = (
    "The smallest number within one standard error of the best is chosen (the error is that of "
    "the difference on the same hidden answers)."
)


@app.command(epilog=_EXAMPLES)
def factors(
    ctx: typer.Context,
    data: options.DataFile,
    *,
    from_: Annotated[int, typer.Option("--from", min=1, metavar="K", help="The smallest number to try.")] = 1,
    to: Annotated[
        int | None,
        typer.Option("--to", min=1, metavar="K", help=f"The largest number to try; by default {_MOST}."),
    ] = None,
    number: Annotated[
        int | None, typer.Option("--factors", "-k", min=1, metavar="K", help="Take so many, compare nothing.")
    ] = None,
    rotation: options.RotationOption = Rotation.VARIMAX,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Loadings and standard errors as a .csv, .tsv or .parquet file."),
    ] = None,
    epochs: options.EpochsOption = None,
    seed: options.SeedOption = 0,
    threads: options.ThreadsOption = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A TOML file that says what the columns are.")
    ] = None,
    include: options.IncludeOption = None,
    background: options.BackgroundOption = None,
    weighted: options.WeightedOption = False,
    writing: options.Writing,
) -> None:
    """Say how many factors a survey has, and what loads on them.

    A tenth of the answers is hidden, and models with every number of factors from --from to --to
    predict it from the others. Then the number that is taken is fitted to all answers, and its
    rotated loadings are shown: which questions go together, how strongly, and how reliably.
    """
    inputs.check_files(data, schema, out=out)
    output = writing.begin(ctx, out)
    if number is not None:
        refuse(ctx, ("from_", "to"), "--factors compares no numbers")
    settings = Settings(
        epochs=epochs,
        seed=seed,
        threads=threads,
        weighted=weighted,
        include=include,
        background=background,
        progress=output.shows_progress,
    )
    survey = inputs.read_material(data, schema).survey
    if survey is None:
        raise DataError(f"File '{data}' holds ratings, and factors are read of a survey; give a survey.")
    survey = inputs.with_columns(survey, settings)
    compared = None
    if number is None:
        numbers = _numbers(survey, from_, to)
        compared = _compare(survey, settings, numbers, output) if len(numbers) > 1 else None
        number = numbers[0] if compared is None else compared.chosen
    _check_number(survey, number, "--factors")
    output.step(f"learning {number} factors from all answers")
    reading = _read(survey, replace(settings, factors=number), rotation)
    _tell(reading, compared, out, writing.escape_formulas, output)


def _numbers(survey: Survey, lowest: int, highest: int | None) -> list[int]:
    if highest is None:
        highest = max(lowest, min(_MOST, survey.n_questions))
    _check_number(survey, highest, "--to")
    if lowest > highest:
        raise DataError(f"--from {lowest} is above --to {highest}; give the smaller number first.")
    return list(range(lowest, highest + 1))


def _check_number(survey: Survey, number: int, option: str) -> None:
    most = survey.n_questions
    if number > most:
        raise DataError(
            f"{option} {number} is more than the {most} questions of {survey.name!r}; give at most {most}."
        )


def _compare(survey: Survey, settings: Settings, numbers: list[int], output: Output) -> FactorNumbers:
    from ordinalrbm.cli.learning import survey_estimator, weights_of
    from ordinalrbm.evaluate import compare_factor_numbers

    return compare_factor_numbers(
        survey_estimator(survey, settings),
        survey.table,
        numbers,
        random_state=settings.seed,
        sample_weight=weights_of(survey, settings),
        tell=lambda k: output.step(f"learning {k} of {numbers[-1]} factors"),
    )


def _read(survey: Survey, settings: Settings, rotation: Rotation) -> FactorReading:
    from ordinalrbm.cli.learning import learn_survey, weights_of

    model = learn_survey(survey, settings).set_params(n_jobs=settings.threads)
    weight = weights_of(survey, settings)
    return model.factor_solution(survey.table, rotation=rotation.value, sample_weight=weight)


# ---- telling ----------------------------------------------------------------------------------


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
        if compared.best == compared.table.index[-1]:
            words.append(f"More than {compared.best} may predict better still: raise --to.")
    found |= {
        "names": reading.names,
        "loadings": reading.table().to_dict("index"),
        "correlations": reading.correlations.to_dict(),
        "reliability": reading.reliability.to_dict("index"),
    }
    tables += [_loading_table(reading), _factor_table(reading)]
    if reading.rotation in ("oblimin", "promax") and len(reading.factors) > 1:
        tables.append(_correlation_table(reading))
    n_own = int((reading.reliability["items"] >= _FEWEST_ITEMS).sum())
    if 0 < n_own < len(reading.factors):
        has, its = ("has", "its") if n_own == 1 else ("have", "their")
        words.append(
            f"Only {counted(n_own, 'factor')} {has} at least {_FEWEST_ITEMS} questions of {its} "
            "own; the others sharpen predictions a little. For reading, "
            f"--factors {n_own} may be enough."
        )
    if "highest answer" in reading.table():
        words.append("Positive loading: people high on the factor tend to the highest answer.")
    if reading.standard_errors is None:
        words.append("Standard errors are left out: there are too few respondents for them.")
    if out is not None:
        from ordinalrbm.files.writing import write_table

        write_table(out, reading.table().rename_axis("name").reset_index(), escape_formulas)
        words.append(f"Loadings and standard errors are in {out}.")
        found["out"] = str(out)
    output.result(found, *tables, text="\n".join(words))


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
    numbers = ["items", "explained", "omega", "alpha"]
    lines = reading.reliability[numbers].itertuples(name=None)
    rows = [(factor, reading.names[factor], *line) for factor, *line in lines]
    columns = {"factor": "", "people high on it answer": ""} | dict.fromkeys(numbers, ".2f")
    return results_table(columns | {"items": ".0f"}, rows)


def _correlation_table(reading: FactorReading) -> Table:
    columns = {"correlation": ""} | dict.fromkeys(_short(reading), ".2f")
    return results_table(columns, reading.correlations.itertuples(name=None))


def _short(reading: FactorReading) -> list[str]:
    return [factor.replace("Factor ", "F") for factor in reading.factors]

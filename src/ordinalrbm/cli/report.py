"""``ordinalrbm report``: one page to look at."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ordinalrbm as orbm
from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import RatingColumns, Settings, SurveySettings, flag, option, out_option, refuse
from ordinalrbm.cli.output import Output
from ordinalrbm.errors import DataError
from ordinalrbm.runtime.places import result_path

if TYPE_CHECKING:
    import pandas as pd

    from ordinalrbm.pages.reporting import Subject

_EXAMPLES = """\b
Examples:
  ordinalrbm report survey.sav
  ordinalrbm report survey.sav -o report.html --group country --questions "q*"
  ordinalrbm report survey.orbm --data survey.sav --tables tables.xlsx
  ordinalrbm report ratings.csv -o report.html
  ordinalrbm report films.orbm"""

_TABLES = "Its tables as well, as .xlsx; for print, as .docx or .tex (of a survey loadings and groups)."


@dataclass(frozen=True)
class Shown:
    """What a page is about, beside the data."""

    group: Annotated[str | None, option("COLUMN", "Background variable that makes the groups.")] = None
    user: Annotated[str | None, option("ID", "The user to explain.")] = None
    item_names: options.ItemNamesOption = None
    title: Annotated[str | None, option("TEXT", "By default, the name of the file.")] = None
    tables: Annotated[Path | None, option("FILE", _TABLES)] = None


@app.command(epilog=_EXAMPLES)
def report(
    ctx: typer.Context,
    target: options.DataOrModel,
    *,
    out: Annotated[Path | None, out_option("By default survey-report.html for survey.sav.")] = None,
    open_it: Annotated[bool, flag("--open", "Open the page in a browser.")] = False,
    data: Annotated[Path | None, option("DATA", "With a model: what to show it on.", "--data")] = None,
    shown: Shown,
    sample: options.DesignColumns,
    settings: Settings,
    columns: RatingColumns,
    telling: options.Telling,
) -> None:
    """Write a page about a survey or ratings, for a browser.

    What the data is and what was left out, how well hidden answers are predicted, a map of the
    respondents, the factors, and how groups differ; for ratings, calibration, items, and a user
    explained. The page needs no network.
    """
    out = out or result_path(target, "-report.html")
    for written in (out, shown.tables):
        inputs.check_files(target, data, settings.schema, settings.users, settings.items, out=written)
    if shown.tables is not None:
        from ordinalrbm.pages.reporting import check_tables

        check_tables(shown.tables, "--tables")
    output = telling.output()
    begun = time.perf_counter()
    settings = replace(settings, design=sample.given)
    titles = inputs.titles_table(shown.item_names)  # rather now than when all is learnt
    if inputs.is_model(target):
        refuse(ctx, options.LEARNING, f"'{target}' has learnt already")
        subject = _of_model(ctx, target, data, columns, settings)
    else:
        material = inputs.read_to_learn(ctx, target, settings, columns, data=data)
        settings = replace(settings, progress=output.shows_progress)
        subject = _of_data(material, settings, shown, output)
    page = subject.page(**_options(subject, shown, titles, settings.seed, output))
    subject.write(page, out, shown.tables)
    seconds = time.perf_counter() - begun
    text = f"The page is in {out} ({seconds:.0f} s); open it in a browser."
    if shown.tables is not None:
        text += f" Its tables are in {shown.tables}."
    output.result({"out": str(out), "seconds": round(seconds, 3), "bytes": len(page.encode())}, text=text)
    if open_it:
        typer.launch(str(out))


def _of_data(material: inputs.Material, settings: Settings, shown: Shown, output: Output) -> Subject:
    from ordinalrbm.cli.learning import learn
    from ordinalrbm.estimators.factor_analysis import readable_factors
    from ordinalrbm.pages.reporting import learnt
    from ordinalrbm.pages.survey import check_group

    kind = "ratings" if material.survey is None else "survey"
    more = {"title": material.source.name} if material.survey is None else {}
    if material.survey is not None:
        check_group(material.survey, shown.group)
        n_factors = settings.factors or readable_factors(material.survey.encoded.shape[1])
        settings = replace(settings, factors=n_factors)
    inputs.tell_material(material, output)
    return learnt(
        getattr(material, kind),
        lambda rest: learn(replace(material, **{kind: rest}), settings),
        settings.seed,
        output.step,
        **more,
    )


def _of_model(
    ctx: typer.Context, path: Path, data: Path | None, columns: RatingColumns, settings: Settings
) -> Subject:
    from ordinalrbm.pages.reporting import Subject

    model = orbm.load(path).set_params(n_jobs=settings.threads)
    if isinstance(model, orbm.CumulativeRBM):
        of_ratings = ("user", "item_names", *options.COLUMN_OPTIONS)
        refuse(ctx, of_ratings, f"'{path}' is a model of a survey")
        if data is None:
            raise DataError(
                f"'{path}' is a model of a survey, whose answers it does not hold; give them with --data."
            )
        return Subject(model, inputs.survey_for(model, path, data, SurveySettings(design=settings.design))[1])
    refuse(ctx, ("group", *options.OF_DESIGN), f"'{path}' is a model of ratings")
    if data is None:
        refuse(ctx, options.COLUMN_OPTIONS, "no ratings are read without --data")
        return Subject(model)
    return Subject(model, None, {"test": inputs.ratings_for(model, path, data, columns)})


def _options(
    subject: Subject, shown: Shown, titles: pd.DataFrame | None, seed: int, output: Output
) -> dict[str, Any]:
    given: dict[str, Any] = {} if shown.title is None else {"title": shown.title}
    if subject.survey is not None:
        return {**given, "group": shown.group, "random_state": seed, "progress": output.step}
    if shown.user is not None:
        given["example_user"] = inputs.known_id(subject.model, shown.user, "user")
    return {**given, "item_names": inputs.item_titles(subject.model, titles), "progress": output.step}

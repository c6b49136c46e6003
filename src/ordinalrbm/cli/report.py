"""``ordinalrbm report``: one page to look at."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ordinalrbm as orbm
from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import RatingColumns, Settings, flag, option, out_option, refuse
from ordinalrbm.cli.output import Output
from ordinalrbm.errors import DataError
from ordinalrbm.runtime.paths import result_path

if TYPE_CHECKING:
    import pandas as pd

    from ordinalrbm.estimators.ratings import RatingModel
    from ordinalrbm.files.survey import Survey

_EXAMPLES = """\b
Examples:
  ordinalrbm report survey.sav
  ordinalrbm report survey.sav -o report.html --group country --questions "q*"
  ordinalrbm report survey.orbm --data survey.sav --tables tables.xlsx
  ordinalrbm report ratings.csv -o report.html
  ordinalrbm report films.orbm"""

# Hidden from learning, so that the page can say how well they are predicted.
_SHARE = 0.05
_GROUPS = "Groups"  # how titles of tables begin that compare groups


_TABLES = "Its tables as well: all of them as .xlsx; loadings and groups, for print, as .docx or .tex."


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
    data: Annotated[Path | None, option("DATA", "With a model: what to show it on.")] = None,
    shown: Shown,
    settings: Settings,
    columns: RatingColumns,
    telling: options.Telling,
) -> None:
    """Write a page about a survey or ratings, for a browser.

    What the data is and what was left out, how well hidden answers are predicted, a map of the
    respondents, the factors in words, response curves, and how groups differ; for ratings,
    calibration, items, and a user explained. The page needs no network.
    """
    out = out or result_path(target, "-report.html")
    for written in (out, shown.tables):
        inputs.check_files(target, data, settings.schema, settings.users, settings.items, out=written)
    if shown.tables is not None:
        _check_tables(ctx, target, data, shown.tables)
    from ordinalrbm.storage.atomic import atomic_write

    output = telling.output()
    begun = time.perf_counter()
    if inputs.is_model(target):
        refuse(ctx, options.LEARNING, f"'{target}' has learnt already")
        page = _of_model(ctx, target, data, columns, shown, output)
    else:
        material = inputs.read_to_learn(ctx, target, settings, columns, data=data)
        settings = replace(settings, progress=output.shows_progress)
        make = _of_ratings if material.survey is None else _of_survey
        page = make(material, settings, shown, output)
    with atomic_write(out) as file:
        file.write_text(page, encoding="utf-8")
    seconds = time.perf_counter() - begun
    text = f"The page is in {out} ({seconds:.0f} s); open it in a browser."
    if shown.tables is not None:
        text += f" Its tables are in {shown.tables}."
    output.result({"out": str(out), "seconds": round(seconds, 3), "bytes": len(page.encode())}, text=text)
    if open_it:
        typer.launch(str(out))


def _check_tables(ctx: typer.Context, target: Path, data: Path | None, path: Path) -> None:
    """Refuse tables that cannot be written, before hours of learning."""
    from ordinalrbm.files import tables_out

    if path.suffix.lower() != ".xlsx" and not tables_out.is_printed(path):
        raise DataError(
            f"--tables '{path}' has another ending than .xlsx, .docx and .tex; give one of these."
        )
    tables_out.check_library(path)
    if data is None and inputs.is_model(target):
        refuse(ctx, ("tables",), "tables need the survey that the model was learnt from, as --data")


def _survey_page(model: orbm.CumulativeRBM, survey: Survey, tables: Path | None, **about: Any) -> str:
    """The page of a survey; its tables go to a file if they are wanted."""
    from ordinalrbm.cli.learning import number_to_read
    from ordinalrbm.files import tables_out
    from ordinalrbm.pages.kept import tables_kept
    from ordinalrbm.pages.survey import survey_page

    with tables_kept() as kept:
        page = survey_page(model, survey, **about)
    if tables is not None:
        own = [tables_out.PrintedTable(_title(where), *table) for where, table in kept.items()]
        if tables_out.is_printed(tables):
            number: int | None = number_to_read(model)
            own = [table for table in own if table.title.startswith(_GROUPS)]
        else:
            number, own = None, [tables_out.of_frame("Answers", answer_counts(survey)), *own]
        tables_out.write_reading(tables, model.factor_solution(survey.table, n_factors=number), own)
    return page


def _title(about: str) -> str:
    """What a table of the page is called, by where on the page it is."""
    words = (
        re.sub(r"^groups variables (.*) tests$", r"groups by \1", about)
        .replace("_", " ")
        .removesuffix(" table")
    )
    return words[:1].upper() + words[1:]


def answer_counts(survey: Survey) -> pd.DataFrame:
    """How often each level of each question was chosen, a line for each."""
    import pandas as pd

    lines = []
    for name in survey.answers:
        counts = survey.answers[name].value_counts(sort=False)
        text = survey.schema.column(str(name)).question
        lines += [(name, text, str(level), int(n), n / max(counts.sum(), 1)) for level, n in counts.items()]
    return pd.DataFrame(lines, columns=["name", "question", "answer", "count", "share"])


def _of_survey(material: inputs.Material, settings: Settings, about: Shown, output: Output) -> str:
    from ordinalrbm.cli.learning import learn_survey, readable_factors
    from ordinalrbm.evaluate.hidden import hide_answers
    from ordinalrbm.pages.survey import check_group

    survey = material.survey
    assert survey is not None, "a file is a survey or ratings"
    check_group(survey, about.group)  # rather now than when all is learnt
    inputs.tell_material(material, output)
    shown, held_out = hide_answers(survey.encoded, _SHARE, settings.seed)
    output.say(f"Learning from all answers but {held_out.row.size:,}, which are hidden ...")
    n_factors = settings.factors or readable_factors(survey.encoded.shape[1])
    model = learn_survey(replace(survey, encoded=shown), replace(settings, factors=n_factors))
    return _survey_page(
        model,
        survey,
        about.tables,
        held_out=held_out,
        group=about.group,
        title=about.title,
        progress=output.step,
        random_state=settings.seed,
    )


def _of_ratings(material: inputs.Material, settings: Settings, about: Shown, output: Output) -> str:
    from ordinalrbm.cli.learning import learn_ratings
    from ordinalrbm.evaluate.hidden import hide_ratings
    from ordinalrbm.pages import ratings_page

    assert material.ratings is not None, "a file is a survey or ratings"
    named = inputs.titles_table(about.item_names)  # rather now than when all is learnt
    inputs.tell_material(material, output)
    train, test = hide_ratings(material.ratings, _SHARE, settings.seed)
    output.say(f"Learning from all ratings but {len(test):,}, which are hidden ...")
    model = learn_ratings(train, settings, features=material.features)
    return ratings_page(
        model,
        test=test,
        left_out=(),
        title=about.title or material.source.name,
        progress=output.step,
        **_example(about, model, named),
    )


def _example(about: Shown, model: RatingModel, named: pd.DataFrame | None) -> dict[str, Any]:
    """The user to explain and the titles of items, where they are given."""
    example = {} if about.user is None else {"example_user": inputs.known_id(model, about.user, "user")}
    return example | ({} if named is None else {"item_names": inputs.item_titles(model, named)})


def _of_model(
    ctx: typer.Context, path: Path, data: Path | None, columns: RatingColumns, about: Shown, output: Output
) -> str:
    from ordinalrbm.pages import model_page, ratings_page

    model = orbm.load(path)
    common: dict[str, Any] = {"title": about.title, "progress": output.step}
    if isinstance(model, orbm.CumulativeRBM):
        of_ratings = ("user", "item_names", *options.COLUMN_OPTIONS)
        refuse(ctx, of_ratings, f"'{path}' is a model of a survey")
        if data is None:
            refuse(ctx, ("group",), "groups need --data")
            return model_page(model, title=about.title)
        _, survey = inputs.survey_for(model, path, data)
        return _survey_page(model, survey, about.tables, group=about.group, **common)
    refuse(ctx, ("group", "tables"), f"'{path}' is a model of ratings")
    if data is None:
        refuse(ctx, options.COLUMN_OPTIONS, "no ratings are read without --data")
    test = None if data is None else inputs.ratings_for(model, path, data, columns)
    return ratings_page(
        model, test=test, **common, **_example(about, model, inputs.titles_table(about.item_names))
    )

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
from ordinalrbm.cli.options import LongRatingColumns, Settings, refuse
from ordinalrbm.cli.output import Output
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    from ordinalrbm.estimators.ratings import RatingModel

_EXAMPLES = """\b
Examples:
  ordinalrbm report survey.sav --out report.html --group country
  ordinalrbm report survey.orbm --data survey.sav --out report.html
  ordinalrbm report ratings.csv --out report.html
  ordinalrbm report films.orbm --out report.html"""

# Hidden from learning, so that the page can say how well they are predicted.
_SHARE = 0.05


@dataclass(frozen=True)
class Shown:
    """What a page is about, beside the data."""

    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Survey: background variable that makes the groups.")
    ] = None
    user: Annotated[str | None, typer.Option(metavar="ID", help="Ratings: the user to explain.")] = None
    title: Annotated[str | None, typer.Option(help="By default, the name of the file.")] = None


@app.command(epilog=_EXAMPLES)
def report(
    ctx: typer.Context,
    target: options.DataOrModel,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page, such as report.html.")],
    data: Annotated[
        Path | None, typer.Option(metavar="DATA", help="With a model: what to show it on.")
    ] = None,
    shown: Shown,
    settings: Settings,
    columns: LongRatingColumns,
    weighted: options.WeightedOption = False,
    telling: options.Telling,
) -> None:
    """Write a page about a survey or ratings, for a browser.

    What the data is and what was left out, how well hidden answers are predicted, a map of the
    respondents, the factors in words, response curves, and how groups differ; for ratings,
    calibration, items, and a user explained. The page needs no network.
    """
    inputs.check_files(target, data, settings.schema, settings.users, settings.items, out=out)
    from ordinalrbm.storage.atomic import atomic_write

    output = telling.output()
    begun = time.perf_counter()
    if inputs.is_model(target):
        refuse(ctx, options.LEARNING, f"'{target}' has learnt already")
        page = _of_model(ctx, target, data, columns, shown, output)
    else:
        material = inputs.read_to_learn(ctx, target, settings, columns, data=data)
        settings = replace(settings, weighted=weighted, progress=output.shows_progress)
        make = _of_ratings if material.survey is None else _of_survey
        page = make(material, settings, shown, output)
    with atomic_write(out) as file:
        file.write_text(page, encoding="utf-8")
    seconds = time.perf_counter() - begun
    output.result(
        {"out": str(out), "seconds": round(seconds, 3), "bytes": len(page.encode())},
        text=f"The page is in {out} ({seconds:.0f} s); open it in a browser.",
    )


def _of_survey(material: inputs.Material, settings: Settings, about: Shown, output: Output) -> str:
    from ordinalrbm.cli.learning import learn_survey, readable_factors
    from ordinalrbm.evaluate.hidden import hide_answers
    from ordinalrbm.pages.survey import check_group, survey_page

    survey = material.survey
    assert survey is not None, "a file is a survey or ratings"
    check_group(survey, about.group)  # rather now than when all is learnt
    inputs.tell_material(material, output)
    shown, held_out = hide_answers(survey.encoded, _SHARE, settings.seed)
    output.say(f"Learning from all answers but {held_out.row.size:,}, which are hidden ...")
    n_factors = settings.factors or readable_factors(survey.encoded.shape[1])
    model = learn_survey(replace(survey, encoded=shown), replace(settings, factors=n_factors))
    return survey_page(
        model,
        survey,
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
    inputs.tell_material(material, output)
    train, test = hide_ratings(material.ratings, _SHARE, settings.seed)
    output.say(f"Learning from all ratings but {len(test):,}, which are hidden ...")
    model = learn_ratings(train, settings, features=material.features)
    return ratings_page(
        model,
        test=test,
        left_out=(),
        title=about.title or material.source.name,
        example_user=_known_user(about.user, model),
        progress=output.step,
    )


def _known_user(user: str | None, model: RatingModel) -> Any:
    if user is None:
        return None
    found = inputs.user_ids(model, [user])[0]
    if found not in set(model.users_.labels.tolist()):
        raise DataError(f"--user {user!r} is not known to the model; give one that has ratings.")
    return found


def _of_model(
    ctx: typer.Context,
    path: Path,
    data: Path | None,
    columns: LongRatingColumns,
    about: Shown,
    output: Output,
) -> str:
    from ordinalrbm.pages import model_page, ratings_page, survey_page

    model = orbm.load(path)
    common: dict[str, Any] = {"title": about.title, "progress": output.step}
    if isinstance(model, orbm.CumulativeRBM):
        refuse(ctx, ("user", *options.COLUMN_OPTIONS), f"'{path}' is a model of a survey")
        if data is None:
            refuse(ctx, ("group",), "groups need --data")
            return model_page(model, title=about.title)
        _, survey = inputs.survey_for(model, path, data)
        return survey_page(model, survey, group=about.group, **common)
    refuse(ctx, ("group",), f"'{path}' is a model of ratings")
    if data is None:
        refuse(ctx, options.COLUMN_OPTIONS, "no ratings are read without --data")
    test = None if data is None else inputs.ratings_for(model, path, data, columns)
    return ratings_page(model, test=test, example_user=_known_user(about.user, model), **common)

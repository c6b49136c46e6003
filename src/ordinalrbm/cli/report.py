"""``ordinalrbm report``: one page to look at."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import (
    LEARNING,
    EpochsOption,
    Factors,
    FactorsOption,
    ItemFactorsOption,
    JsonOption,
    KindOfFactorsOption,
    KindOption,
    QuietOption,
    SchemaOption,
    SeedOption,
    Settings,
    ThreadsOption,
    WeightedOption,
    refuse,
)
from ordinalrbm.cli.output import Output
from ordinalrbm.cli.places import check_files
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    from ordinalrbm.cli.inputs import Material
_EXAMPLES = """\b
Examples:
  ordinalrbm report survey.sav --out report.html --group country
  ordinalrbm report survey.orbm --data survey.sav --out report.html
  ordinalrbm report ratings.csv --out report.html
  ordinalrbm report films.orbm --out report.html"""

# Hidden from learning, so that the page can say how well they are predicted.
_SHARE = 0.05


@app.command(epilog=_EXAMPLES)
def report(
    ctx: typer.Context,
    target: Annotated[
        Path, typer.Argument(metavar="DATA|MODEL", help="A file to learn from, or a model.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page, such as report.html.")],
    data: Annotated[
        Path | None, typer.Option(metavar="DATA", help="With a model: what to show it on.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Survey: background variable that makes the groups."),
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Ratings: the user to explain.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="By default, the name of the file.")] = None,
    model: KindOption = None,
    factors: FactorsOption = None,
    item_factors: ItemFactorsOption = None,
    factors_kind: KindOfFactorsOption = Factors.CONTINUOUS,
    epochs: EpochsOption = None,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    schema: SchemaOption = None,
    weighted: WeightedOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a page about a survey or ratings, for a browser.

    What the data is and what was left out, how well hidden answers are predicted, a map of the
    respondents, the factors in words, response curves, and how groups differ; for ratings,
    calibration, items, and a user explained. The page needs no network.
    """
    check_files(target, data, schema, out=out)
    from ordinalrbm.cli.inputs import (
        is_model,
        read_material,
        refuse_unused,
        tell_material,
    )
    from ordinalrbm.storage.atomic import atomic_write

    talk = Output(as_json=json, quiet=quiet)
    begun = time.perf_counter()
    if is_model(target):
        refuse(ctx, LEARNING, f"'{target}' has learnt already")
        page = _of_model(ctx, target, data, group, user, title, talk)
    else:
        if data is not None:
            raise DataError(f"--data goes with a model, but '{target}' is none; leave it out.")
        material = read_material(target, model, schema)
        refuse_unused(ctx, material, model)
        if material.ratings is None:
            _check_group(material.survey, group)
        tell_material(material, talk)
        settings = Settings(
            factors, item_factors, factors_kind, epochs, seed, threads, weighted,
            talk.shows_progress,
        )  # fmt: skip
        if material.ratings is None:
            page = _of_survey(material, settings, group, title, talk)
        else:
            page = _of_ratings(material, model, settings, user, title, talk)
    with atomic_write(out) as file:
        file.write_text(page, encoding="utf-8")
    seconds = time.perf_counter() - begun
    talk.result(
        {"out": str(out), "seconds": round(seconds, 3), "bytes": len(page.encode())},
        text=f"The page is in {out} ({seconds:.0f} s); open it in a browser.",
    )


def _of_survey(
    material: Material, settings: Settings, group: str | None, title: str | None, talk: Output
) -> str:
    from ordinalrbm.cli.learning import learn_survey, readable_factors
    from ordinalrbm.report import hide_answers, survey_page

    survey = material.survey
    assert survey is not None, "a file is a survey or ratings"
    shown, held_out = hide_answers(survey, _SHARE, settings.seed)
    talk.say(f"Learning from all answers but {len(held_out):,}, which are hidden ...")
    n_factors = settings.factors or readable_factors(survey.answers.shape[1])
    model = learn_survey(shown, replace(settings, factors=n_factors))
    return survey_page(
        model, survey, held_out=held_out, group=group, title=title, progress=talk.step,
        random_state=settings.seed,
    )  # fmt: skip


def _check_group(survey: Any, group: str | None) -> None:
    from ordinalrbm.report.survey import check_group

    check_group(survey.background, group)


def _of_ratings(
    material: Material, kind: Any, settings: Settings, user: str | None, title: str | None,
    talk: Output,
) -> str:  # fmt: skip
    from ordinalrbm.cli.learning import about_ratings, hide_ratings, learn_ratings
    from ordinalrbm.report import ratings_page

    ratings = material.ratings
    assert ratings is not None, "a file is a survey or ratings"
    train, test = hide_ratings(ratings, _SHARE, settings.seed)
    talk.say(f"Learning from all ratings but {len(test):,}, which are hidden ...")
    model = learn_ratings(train, kind, settings, item_scales=material.item_scales)
    model.about_ = about_ratings(material)
    left_out = material.survey.left_out if material.survey else ()
    return ratings_page(
        model, test=test, left_out=left_out, title=title or material.source.name,
        example_user=_known_user(user, model), progress=talk.step,
    )  # fmt: skip


def _known_user(user: str | None, model: Any) -> Any:
    """An id in the type that the model knows it by."""
    from ordinalrbm.cli.inputs import user_ids

    if user is None:
        return None
    found = user_ids(model, [user])[0]
    if found not in set(model.users_.labels.tolist()):
        raise DataError(f"--user {user!r} is not known to the model; give one that has ratings.")
    return found


def _of_model(
    ctx: typer.Context, path: Path, data: Path | None, group: str | None, user: str | None,
    title: str | None, talk: Output,
) -> str:  # fmt: skip
    from ordinalrbm.cli.inputs import as_model_of_ratings, load_model, ratings_for, survey_for
    from ordinalrbm.estimators.survey import CumulativeRBM
    from ordinalrbm.report import model_page, ratings_page, survey_page

    model = load_model(path)
    if isinstance(model, CumulativeRBM):
        refuse(ctx, ("user",), f"'{path}' is a model of a survey")
        if data is None:
            refuse(ctx, ("group",), "groups need --data")
            return model_page(model, title=title)
        survey = survey_for(model, path, data).survey
        assert survey is not None, "a model of surveys reads surveys"
        _check_group(survey, group)
        return survey_page(model, survey, group=group, title=title, progress=talk.step)
    refuse(ctx, ("group",), f"'{path}' is a model of ratings")
    model = as_model_of_ratings(model, path)
    test = None if data is None else ratings_for(model, path, data)
    example = _known_user(user, model)
    return ratings_page(model, test=test, title=title, example_user=example, progress=talk.step)

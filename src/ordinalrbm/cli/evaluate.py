"""``ordinalrbm evaluate``: how well hidden answers or ratings are predicted."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import (
    LEARNING,
    DeviceOption,
    EpochsOption,
    Factors,
    FactorsOption,
    ItemFactorsOption,
    JsonOption,
    KindOfFactorsOption,
    KindOption,
    Protocol,
    QuietOption,
    SchemaOption,
    SeedOption,
    Settings,
    ThreadsOption,
    refuse,
)
from ordinalrbm.cli.output import Output, plain_table
from ordinalrbm.cli.places import check_files
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from ordinalrbm.cli.inputs import Material

_EXAMPLES = """\b
Examples:
  ordinalrbm evaluate survey.sav
  ordinalrbm evaluate ratings.csv --protocol random --json
  ordinalrbm evaluate films.orbm --data later.csv"""

_SHARE = 0.1
_FEWEST = 16  # ten to test, five to watch, and one to learn from
# Scores of ratings, and what they are called for people.
_SCORES = {
    "rmse": "root mean square error (mean)",
    "mae": "mean absolute error (mode)",
    "mae_median": "mean absolute error (median)",
    "accuracy": "exactly right (mode)",
    "nll": "negative log-likelihood",
    "rps": "ranked probability score",
    "calibration": "calibration error",
}
_OF_SURVEYS = {
    "error": "mean absolute error (median, in levels)",
    "hits": "exactly right (mode)",
    "nll": "negative log-likelihood",
}

_READING = "Smaller is better, except for exactly right; marginal knows nobody."
_WHICH = {
    Protocol.CHRONOLOGICAL: "the last ratings of each user",
    Protocol.RANDOM: "ratings at random",
}


@app.command(epilog=_EXAMPLES)
def evaluate(
    ctx: typer.Context,
    target: Annotated[
        Path, typer.Argument(metavar="DATA|MODEL", help="A file to learn from, or a model.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="With a model: answers or ratings to test it on."),
    ] = None,
    model: KindOption = None,
    factors: FactorsOption = None,
    item_factors: ItemFactorsOption = None,
    factors_kind: KindOfFactorsOption = Factors.CONTINUOUS,
    epochs: EpochsOption = None,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    device: DeviceOption = "cpu",
    schema: SchemaOption = None,
    protocol: Annotated[
        Protocol | None,
        typer.Option(
            help="Ratings: hide the last ones of each user, or some at random; by default the last "
            "if there are times."
        ),
    ] = None,
    min_ratings: Annotated[
        int, typer.Option(min=_FEWEST, help="Ratings: users with fewer are left out.")
    ] = 30,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score predictions of hidden answers or ratings.

    Some are hidden, and learning sees the others: of a survey, a tenth of the answers is hidden;
    of ratings, ten of each user, and five more to watch learning by. The marginal distributions,
    which know nobody, are scored beside the model. Given a model, it is tested on other data
    without learning.
    """
    check_files(target, data, schema)
    from ordinalrbm.cli.inputs import (
        is_model,
        load_model,
        on_device,
        read_material,
        refuse_unused,
    )

    talk = Output(as_json=json, quiet=quiet)
    if is_model(target):
        if data is None:
            raise DataError(f"'{target}' is a model; give what to test it on with --data.")
        refuse(ctx, (*LEARNING, "protocol", "min_ratings"), f"'{target}' has learnt already")
        fitted = on_device(ctx, load_model(target).set_params(n_jobs=threads), target, device)
        _test(fitted, target, data, seed, talk)
        return
    if data is not None:
        raise DataError(f"--data goes with a model, but '{target}' is none; leave it out.")
    material = read_material(target, model, schema)
    refuse_unused(ctx, material, model)
    settings = Settings(
        factors, item_factors, factors_kind, epochs, seed, threads,
        progress=talk.shows_progress, device=device,
    )  # fmt: skip
    if material.ratings is None:
        _survey(material, settings, talk)
    elif material.survey is not None:
        refuse(ctx, ("protocol", "min_ratings"), f"'{target}' is a survey")
        _survey_as_ratings(material, model, settings, talk)
    else:
        _ratings(material, model, settings, protocol, min_ratings, talk)


def _survey(material: Material, settings: Settings, talk: Output) -> None:
    from ordinalrbm.cli.inputs import tell_material
    from ordinalrbm.cli.learning import learn_survey
    from ordinalrbm.report import hide_answers

    assert material.survey is not None, "a file is a survey or ratings"
    tell_material(material, talk)
    shown, held_out = hide_answers(material.survey, _SHARE, settings.seed)
    _tell_survey(learn_survey(shown, settings), material.survey, held_out, talk)


def _tell_survey(model: Any, survey: Any, held_out: Any, talk: Output) -> None:
    from ordinalrbm.report.hidden import score_hidden

    if not len(held_out):
        raise DataError(f"{survey.name!r} has too few answers to hide any; give more rows.")
    scores = score_hidden(model, survey.answers, held_out)
    ours, usual = ({s: float(scores.overall[f"{who}_{s}"]) for s in _OF_SURVEYS} for who in _WHO)
    table = _comparison(_OF_SURVEYS, ours, usual, f"{len(held_out):,} hidden answers")
    found = {"hidden": len(held_out), "model": ours, "marginal": usual}
    by_question = scores.by_question.to_dict("index")
    talk.result({**found, "by_question": by_question}, table, text=_READING)


_WHO = ("model", "usual")


def _ratings(
    material: Material, kind: Any, settings: Settings, protocol: Protocol | None,
    min_ratings: int, talk: Output,
) -> None:  # fmt: skip
    from ordinalrbm.cli.inputs import tell_material
    from ordinalrbm.cli.learning import learn_ratings
    from ordinalrbm.evaluate import split

    ratings = material.ratings
    assert ratings is not None, "a file is a survey or ratings"
    if protocol is None:
        protocol = Protocol.CHRONOLOGICAL if "timestamp" in ratings else Protocol.RANDOM
    _check_enough(material, min_ratings)
    train, validation, test = split(
        ratings, protocol=protocol.value, min_ratings=min_ratings, random_state=settings.seed
    )
    tell_material(material, talk)
    talk.say(
        f"Hidden are {_WHICH[protocol]}: {len(train):,} ratings to learn from, "
        f"{len(validation):,} to watch, {len(test):,} to test; users with fewer than {min_ratings} "
        "ratings are left out."
    )
    _tell_ratings(learn_ratings(train, kind, settings, validation=validation), test, talk)


def _check_enough(material: Material, min_ratings: int) -> None:
    assert material.ratings is not None, "a file is a survey or ratings"
    most = int(material.ratings["user"].value_counts().max())
    if most < min_ratings:
        remedy = "lower --min-ratings" if most >= _FEWEST else f"{_FEWEST} are needed"
        raise DataError(
            f"No user in '{material.source.name}' has {min_ratings} ratings, the most that one has "
            f"is {most}; {remedy}."
        )


def _survey_as_ratings(material: Material, kind: Any, settings: Settings, talk: Output) -> None:
    """Respondents have too few answers to hide ten of each: a tenth of all is hidden."""
    from ordinalrbm.cli.inputs import tell_material
    from ordinalrbm.cli.learning import hide_ratings, learn_ratings

    assert material.ratings is not None, "a survey that is taken for ratings"
    train, test = hide_ratings(material.ratings, _SHARE, settings.seed)
    if not len(test):
        raise DataError(f"'{material.source.name}' has too few answers to hide any; give more.")
    tell_material(material, talk)
    model = learn_ratings(train, kind, settings, item_scales=material.item_scales)
    _tell_ratings(model, test, talk)


def _tell_ratings(model: Any, test: pd.DataFrame, talk: Output) -> None:
    import numpy as np

    from ordinalrbm.cli.inputs import levels_of
    from ordinalrbm.evaluate import score

    truth, values = levels_of(model, test)
    everything = model.predict_proba(test["user"].to_numpy(), test["item"].to_numpy())
    ours = score(everything, truth, values)
    levels = model.ratings_.observations.level
    counts = np.bincount(levels, minlength=everything.shape[1])[: everything.shape[1]] + 0.5
    usual = score(np.tile(counts / counts.sum(), (len(test), 1)), truth, values)
    table = _comparison(_SCORES, ours, usual, f"{len(test):,} hidden ratings")
    talk.result({"hidden": len(test), "model": ours, "marginal": usual}, table, text=_READING)


def _comparison(
    names: dict[str, str], ours: dict[str, float], usual: dict[str, float], title: str
) -> Table:
    table = plain_table(title, "model", "marginal")
    for score, name in names.items():
        table.add_row(name, f"{ours[score]:.4f}", f"{usual[score]:.4f}")
    return table


def _test(model: Any, path: Path, data: Path, seed: int, talk: Output) -> None:
    from ordinalrbm.cli.inputs import as_model_of_ratings, ratings_for, survey_for
    from ordinalrbm.estimators.survey import CumulativeRBM
    from ordinalrbm.report import hide_answers

    if isinstance(model, CumulativeRBM):
        survey = survey_for(model, path, data).survey
        assert survey is not None, "a model of surveys reads surveys"
        _warn_of_old_data(model, survey)
        _tell_survey(model, survey, hide_answers(survey, _SHARE, seed)[1], talk)
        return
    model = as_model_of_ratings(model, path)
    _tell_ratings(model, ratings_for(model, path, data), talk)


def _warn_of_old_data(model: Any, survey: Any) -> None:
    """Say so when a model is tested on what it has learnt from, as far as one can tell."""
    if (model.about_.get("data"), model.about_.get("rows")) == (survey.name, len(survey.answers)):
        warnings.warn(
            f"The model was learnt from {survey.name!r}, so its scores there are too good; give "
            "new answers, or evaluate the file itself.",
            stacklevel=2,
        )

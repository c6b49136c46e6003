"""``ordinalrbm evaluate``: how well hidden answers or ratings are predicted."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ordinalrbm as orbm
from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.columns import RatingColumns
from ordinalrbm.cli.options import Protocol, Settings, expanded, refuse
from ordinalrbm.cli.output import Output, plain_table
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from ordinalrbm.data.observations import Cells
    from ordinalrbm.files.survey import Survey

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
@expanded
def evaluate(
    ctx: typer.Context,
    target: options.DataOrModel,
    *,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="With a model: answers or ratings to test it on."),
    ] = None,
    settings: Settings,
    columns: RatingColumns,
    device: options.DeviceOption = "cpu",
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
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Score predictions of hidden answers or ratings.

    Some are hidden, and learning sees the others: of a survey, a tenth of the answers is hidden;
    of ratings, ten of each user, and five more to watch learning by. The marginal distributions,
    which know nobody, are scored beside the model. Given a model, it is tested on other data
    without learning.
    """
    inputs.check_files(target, data, settings.schema, settings.users, settings.items)
    output = Output(as_json=json, quiet=quiet)
    if inputs.is_model(target):
        if data is None:
            raise DataError(f"'{target}' is a model; give what to test it on with --data.")
        unused = (*options.LEARNING, "protocol", "min_ratings")
        refuse(ctx, unused, f"'{target}' has learnt already")
        fitted = orbm.load(target).set_params(n_jobs=settings.threads)
        inputs.set_device(ctx, fitted, target, device)
        if isinstance(fitted, orbm.CumulativeRBM):
            refuse(ctx, options.COLUMN_OPTIONS, f"'{target}' is a model of a survey")
        _test(fitted, target, data, columns, settings.seed, output)
        return
    in_time = protocol is not Protocol.RANDOM
    material = inputs.read_to_learn(ctx, target, settings, columns, data=data, reads_times=in_time)
    settings = replace(settings, device=device, progress=output.shows_progress)
    if material.survey is not None:
        _survey(material, material.survey, settings, output)
    else:
        _ratings(material, settings, protocol, min_ratings, output)


def _survey(material: inputs.Material, survey: Survey, settings: Settings, output: Output) -> None:
    from ordinalrbm.cli.learning import learn_survey
    from ordinalrbm.evaluate.hidden import hide_answers

    inputs.tell_material(material, output)
    shown, hidden = hide_answers(survey.encoded, _SHARE, settings.seed)
    _tell_survey(learn_survey(replace(survey, encoded=shown), settings), survey, hidden, output)


def _tell_survey(model: Any, survey: Survey, hidden: Cells, output: Output) -> None:
    from ordinalrbm.evaluate.hidden import score_hidden

    n_hidden = hidden.row.size
    if not n_hidden:
        raise DataError(f"{survey.name!r} has too few answers to hide any; give more rows.")
    scores = score_hidden(model, survey.encoded, hidden)
    ours, usual = (
        {name: float(scores.overall[f"{who}_{name}"]) for name in _OF_SURVEYS}
        for who in ("model", "usual")
    )
    table = _comparison(_OF_SURVEYS, ours, usual, f"{n_hidden:,} hidden answers")
    found = {"hidden": n_hidden, "model": ours, "marginal": usual}
    by_question = scores.by_question.to_dict("index")
    output.result({**found, "by_question": by_question}, table, text=_READING)


def _ratings(
    material: inputs.Material, settings: Settings, protocol: Protocol | None, min_ratings: int,
    output: Output,
) -> None:  # fmt: skip
    from ordinalrbm.cli.learning import learn_ratings
    from ordinalrbm.evaluate import split

    ratings = material.ratings
    assert ratings is not None, "a file is a survey or ratings"
    if protocol is None:
        protocol = Protocol.CHRONOLOGICAL if "timestamp" in ratings else Protocol.RANDOM
    _check_enough(ratings, material.source.name, min_ratings)
    train, validation, test = split(
        ratings, protocol=protocol.value, min_ratings=min_ratings, random_state=settings.seed
    )
    inputs.tell_material(material, output)
    output.say(
        f"Hidden are {_WHICH[protocol]}: {len(train):,} ratings to learn from, "
        f"{len(validation):,} to watch, {len(test):,} to test; users with fewer than {min_ratings} "
        "ratings are left out."
    )
    model = learn_ratings(train, settings, validation, features=material.features)
    _tell_ratings(model, test, output)


def _check_enough(ratings: pd.DataFrame, name: str, min_ratings: int) -> None:
    most = int(ratings["user"].value_counts().max())
    if most < min_ratings:
        remedy = "lower --min-ratings" if most >= _FEWEST else f"{_FEWEST} are needed"
        raise DataError(
            f"No user in '{name}' has {min_ratings} ratings, the most that one has "
            f"is {most}; {remedy}."
        )


def _tell_ratings(model: Any, test: pd.DataFrame, output: Output) -> None:
    import numpy as np

    from ordinalrbm.evaluate import score

    truth, values = inputs.levels_of(model, test)
    everything = model.predict_proba(test["user"].to_numpy(), test["item"].to_numpy())
    ours = score(everything, truth, values)
    levels = model.ratings_.observations.level
    counts = np.bincount(levels, minlength=everything.shape[1])[: everything.shape[1]] + 0.5
    usual = score(np.tile(counts / counts.sum(), (len(test), 1)), truth, values)
    table = _comparison(_SCORES, ours, usual, f"{len(test):,} hidden ratings")
    output.result({"hidden": len(test), "model": ours, "marginal": usual}, table, text=_READING)


def _comparison(
    names: dict[str, str], ours: dict[str, float], usual: dict[str, float], title: str
) -> Table:
    table = plain_table(title, "model", "marginal")
    for score, name in names.items():
        table.add_row(name, f"{ours[score]:.4f}", f"{usual[score]:.4f}")
    return table


def _test(
    model: Any, path: Path, data: Path, columns: RatingColumns, seed: int, output: Output
) -> None:
    from ordinalrbm.evaluate.hidden import hide_answers

    if not isinstance(model, orbm.CumulativeRBM):
        _tell_ratings(model, inputs.ratings_for(model, path, data, columns), output)
        return
    _, survey = inputs.survey_for(model, path, data)
    # What it has learnt from, as far as one can tell.
    about = (model.about_.get("data"), model.about_.get("rows"))
    if about == (survey.name, survey.encoded.shape[0]):
        warnings.warn(
            f"The model was learnt from {survey.name!r}, so its scores there are too good; give "
            "new answers, or evaluate the file itself.",
            stacklevel=2,
        )
    _tell_survey(model, survey, hide_answers(survey.encoded, _SHARE, seed)[1], output)

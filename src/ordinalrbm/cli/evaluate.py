"""``ordinalrbm evaluate``: how well hidden answers or ratings are predicted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import ordinalrbm as orbm
from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import Protocol, RatingColumns, Settings, option, refuse
from ordinalrbm.cli.output import Output, results_table
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from ordinalrbm.data.observations import Cells
    from ordinalrbm.estimators.ratings import RatingModel
    from ordinalrbm.files.survey import Survey

_EXAMPLES = """\b
Examples:
  ordinalrbm evaluate survey.sav
  ordinalrbm evaluate ratings.csv --protocol random --json
  ordinalrbm evaluate ratings.csv --top 5 --liked 5
  ordinalrbm evaluate films.orbm --data later.csv"""
_SHARE = 0.1
_FEWEST = 16  # ten to test, five to watch, and one to learn from
_OF_SURVEYS = {
    "error": "mean absolute error (median, in levels)",
    "hits": "accuracy (mode)",
    "nll": "negative log-likelihood",
}

# Scores of categories without an order and of numbers, and of what these are compared with.
_OF_OTHERS = {"hits": "accuracy", "mae": "MAE", "rmse": "RMSE"}
_USUAL = {"hits": "most frequent", "mae": "MAE, mean", "rmse": "RMSE, mean"}

# What predictions and lists are compared with, and how it is shown.
_COMPARED = {
    "model": "model",
    "biases": "user + item biases",
    "marginal": "marginal",
    "popularity": "popularity",
}

_READING = "Lower is better, except accuracy; 'marginal' predicts each item's overall frequencies."
_READING_OTHERS = (
    "The first table is about ordered questions. Of the others a tenth is hidden as well: the most "
    "likely category is compared with the most frequent one, the expected number with the mean "
    "(MAE and RMSE: mean absolute and root mean square error)."
)
_READING_BIASES = "Biases are damped means of users and items, without tastes."
_WATCHED = "What a user rated among the ratings to watch is no candidate either."
_WHICH = {Protocol.CHRONOLOGICAL: "the last ratings of each user", Protocol.RANDOM: "ratings at random"}
_LISTS = ("top", "liked")


_PROTOCOL = "Hide the last ratings of each user, or some at random; by default the last if there are times."
_MIN_RATINGS = "Users with fewer ratings are learnt from, not tested."
_TEST = "With a model: answers or ratings to test it on."
_LIKED = (
    "The lowest rating of what lists should find; by default in the upper quarter of the scale, 4 of 1 to 5."
)


@dataclass(frozen=True)
class Asked:
    """Which ratings are hidden, and which lists of items are judged."""

    protocol: Annotated[Protocol | None, typer.Option(help=_PROTOCOL)] = None
    min_ratings: Annotated[int, option("N", _MIN_RATINGS, min=_FEWEST)] = 30
    top: Annotated[int, option("K", "How long lists of best items are.", min=1)] = 10
    liked: Annotated[str | None, option("RATING", _LIKED)] = None


@app.command(epilog=_EXAMPLES)
def evaluate(
    ctx: typer.Context,
    target: options.DataOrModel,
    *,
    data: Annotated[Path | None, option("DATA", _TEST, "--data")] = None,
    settings: Settings,
    columns: RatingColumns,
    device: options.DeviceOption = "cpu",
    asked: Asked,
    telling: options.Telling,
) -> None:
    """Score predictions of hidden answers or ratings.

    Some are hidden, and the model learns from the others: in a survey, a tenth of the answers (with --include
    also of categories and numbers, which have scores of their own); of ratings, ten of each user, and five
    more to watch learning. The baselines are the marginal distributions, the same for everybody, and for
    ratings also damped biases. The best items for each user are compared with the most popular ones. A model
    that is given is tested on --data without learning; ratings that it has learnt from are left out.
    """
    inputs.check_files(target, data, settings.schema, settings.users, settings.items)
    output = telling.output()
    if inputs.is_model(target):
        if data is None:
            raise DataError(f"'{target}' is a model; give what to test it on with --data.")
        unused = (*options.LEARNING, "protocol", "min_ratings")
        refuse(ctx, unused, f"'{target}' has learnt already")
        fitted = orbm.load(target).set_params(n_jobs=settings.threads)
        inputs.set_device(ctx, fitted, target, device)
        if isinstance(fitted, orbm.CumulativeRBM):
            of_ratings = (*options.COLUMN_OPTIONS, *_LISTS)
            refuse(ctx, of_ratings, f"'{target}' is a model of a survey")
            _, survey = inputs.survey_for(fitted, target, data)
            _warn_of_learnt(fitted, survey)
            _tell_survey(fitted, survey, _hide(survey, settings.seed), output)
        else:
            test = inputs.ratings_for(fitted, target, data, columns)
            _tell_ratings(fitted, test, asked, output)
        return
    in_time = asked.protocol is not Protocol.RANDOM
    material = inputs.read_to_learn(ctx, target, settings, columns, data=data, needs_times=in_time)
    settings = replace(settings, device=device, progress=output.shows_progress)
    if material.survey is None:
        _ratings(material, settings, asked, output)
        return
    refuse(ctx, _LISTS, f"'{target}' is taken for a survey")
    from ordinalrbm.cli.learning import learn_survey

    inputs.tell_material(material, output)
    hidden = _hide(material.survey, settings.seed)
    _tell_survey(learn_survey(hidden.shown, settings), material.survey, hidden, output)


# ---- surveys ----------------------------------------------------------------------------------


def _warn_of_learnt(model: orbm.CumulativeRBM, survey: Survey) -> None:
    """Warn where a model is tested on what it has learnt from, as far as that is known."""
    if (model.about_.get("data"), model.about_.get("rows")) == (survey.name, survey.encoded.shape[0]):
        warnings.warn(
            f"The model was learnt from {survey.name!r}, so its scores there are too good; give "
            "new answers, or evaluate the file itself.",
            stacklevel=2,
        )


class _HiddenAnswers(NamedTuple):
    """A survey without some answers, and which these are: levels, and cells of other columns."""

    shown: Survey
    levels: Cells
    others: pd.DataFrame


def _hide(survey: Survey, seed: int) -> _HiddenAnswers:
    from ordinalrbm.evaluate.hidden import hide_answers, hide_others

    shown, levels = hide_answers(survey.encoded, _SHARE, seed)
    if not levels.row.size:
        raise DataError(f"{survey.name!r} has too few answers to hide any; give more rows.")
    kept, others = hide_others(survey.background[survey.chosen.asked], _SHARE, seed)
    background = survey.background.assign(**{str(name): kept[name] for name in kept})
    return _HiddenAnswers(replace(survey, encoded=shown, background=background), levels, others)


def _tell_survey(model: orbm.CumulativeRBM, survey: Survey, hidden: _HiddenAnswers, output: Output) -> None:
    from ordinalrbm.evaluate.hidden import score_hidden

    n_hidden = hidden.levels.row.size
    scores = score_hidden(model, hidden.shown.table, hidden.levels)
    ours, usual = (
        {name: float(scores.overall[f"{who}_{name}"]) for name in _OF_SURVEYS} for who in ("model", "usual")
    )
    tables = [_comparison(_OF_SURVEYS, {"model": ours, "marginal": usual}, f"{n_hidden:,} hidden answers")]
    found: dict[str, object] = {"hidden": n_hidden, "model": ours, "marginal": usual}
    found["by_question"] = scores.by_question.to_dict("index")
    text = _READING
    if hidden.others.any(axis=None):
        others, more = _others(model, survey, hidden)
        found, tables, text = found | others, [*tables, *more], f"{_READING} {_READING_OTHERS}"
    output.result(found, *tables, text=text)


def _others(
    model: orbm.CumulativeRBM, survey: Survey, hidden: _HiddenAnswers
) -> tuple[dict[str, object], list[Table]]:
    from ordinalrbm.evaluate.hidden import score_others

    scores = score_others(model, hidden.shown.table, survey.background, hidden.others, survey.chosen.numeric)
    found, tables = {}, []
    for kind, lines in scores._asdict().items():
        if lines.empty:
            continue
        found[kind] = lines.to_dict("index")
        measures = [name.removeprefix("model_") for name in lines if name.startswith("model_")]
        pairs = [(name, who) for name in measures for who in ("model", "usual")]
        heads = [(_OF_OTHERS if who == "model" else _USUAL)[name] for name, who in pairs]
        rows = lines[["count", *(f"{who}_{name}" for name, who in pairs)]].itertuples(name=None)
        columns = {f"hidden, {kind}": "", "hidden": ".0f"} | dict.fromkeys(heads, ".4g")
        tables.append(results_table(columns, rows))
    return found, tables


# ---- ratings ----------------------------------------------------------------------------------


def _ratings(material: inputs.Material, settings: Settings, asked: Asked, output: Output) -> None:
    from ordinalrbm.cli.learning import learn_ratings
    from ordinalrbm.data.ratings import read_ratings
    from ordinalrbm.evaluate import split

    ratings, protocol = material.ratings, asked.protocol
    assert ratings is not None, "a file is a survey or ratings"
    if protocol is None:
        protocol = Protocol.CHRONOLOGICAL if "timestamp" in ratings else Protocol.RANDOM
    _check_enough(ratings, material.source.name, asked.min_ratings)
    given = None if settings.scale is None else options.written_scale(settings.scale)
    known = read_ratings(ratings, scale=given)
    assert not isinstance(known.scales, tuple), "a file has one scale for all items"
    if asked.liked is not None:
        inputs.lowest_liked_of(asked.liked, known)  # rather now than when all is learnt
    how: Any = {"protocol": protocol.value, "min_ratings": asked.min_ratings}
    train, validation, test = split(ratings, **how, random_state=settings.seed)
    inputs.tell_material(material, output)
    output.say(
        f"Hidden are {_WHICH[protocol]}: {len(train):,} ratings to learn from, "
        f"{len(validation):,} to watch, {len(test):,} to test; users with fewer than "
        f"{asked.min_ratings} ratings are learnt from and not tested."
    )
    # Some level of the scale may be among hidden ratings only.
    model = learn_ratings(train, settings, validation, scale=known.scales.labels, features=material.features)
    _tell_ratings(model, test, asked, output, validation)


def _check_enough(ratings: pd.DataFrame, name: str, min_ratings: int) -> None:
    most = int(ratings["user"].value_counts().max())
    if most < min_ratings:
        remedy = "lower --min-ratings" if most >= _FEWEST else f"{_FEWEST} are needed"
        raise DataError(
            f"No user in '{name}' has {min_ratings} ratings, the most that one has is {most}; {remedy}."
        )


def _tell_ratings(
    model: RatingModel,
    test: pd.DataFrame,
    asked: Asked,
    output: Output,
    validation: pd.DataFrame | None = None,
) -> None:
    from ordinalrbm.evaluate import score_model
    from ordinalrbm.evaluate.metrics import MEASURES

    top, liked = asked.top, asked.liked
    lowest = None if liked is None else inputs.lowest_liked_of(liked, model.ratings_)
    scores = score_model(model, test, validation, k=top, liked=lowest)
    n_tested, n_learnt = scores.n_tested, scores.n_learnt
    found: dict[str, object] = {"hidden": n_tested, "learnt_before": n_learnt, **scores.ratings}
    tables = [_comparison(MEASURES, scores.ratings, f"{n_tested:,} hidden ratings")]
    words = [f"{_READING} {_READING_BIASES}"]
    if n_learnt:
        left_out = f"Left out are {n_learnt:,} of {n_learnt + n_tested:,} ratings: the model has "
        words = [f"{left_out}learnt from these pairs of user and item.", *words]
    if scores.ranking:
        ours = scores.ranking["model"]
        names = {"ndcg": f"NDCG@{top}", "recall": f"recall@{top}", "coverage": "coverage"}
        by_name = {
            who: {name: getattr(lists, name) for name in names} for who, lists in scores.ranking.items()
        }
        tables.append(_comparison(names, by_name, f"lists of the {top} best items"))
        protocol = ours.protocol if validation is None else f"{ours.protocol} {_WATCHED}"
        words.append(f"Lists: larger is better. {protocol}")
        counts = {"top": ours.k, "liked": ours.liked, "users": ours.n_users}
        counts |= {"users_without_liked": ours.n_users_without_liked, "items": ours.n_items}
        found["ranking"] = {**by_name, **counts, "protocol": protocol}
    else:
        words.append("No hidden rating is high enough to count as liked, so lists are not judged.")
    output.result(found, *tables, text="\n".join(words))


def _comparison(names: dict[str, str], scores: Mapping[str, Mapping[str, float]], title: str) -> Table:
    rows = [(name, *(own[score] for own in scores.values())) for score, name in names.items()]
    return results_table({title: ""} | {_COMPARED[who]: ".4f" for who in scores}, rows)

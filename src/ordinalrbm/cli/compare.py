"""``ordinalrbm compare``: two models on the same data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ordinalrbm as orbm
from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import RatingColumns, refuse
from ordinalrbm.cli.output import counted, results_table
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from ordinalrbm.estimators.ratings import RatingModel

_EXAMPLE = """\b
Example:
  ordinalrbm compare films.orbm ratings.orbm later.csv"""
_SHARE = 0.1  # of the answers to a survey, hidden
_READING = (
    "Lower is better, except accuracy. Differences are those of the second model from the first, "
    "on the same {}s; beyond two standard errors (by person) they are hardly chance."
)


@app.command(epilog=_EXAMPLE)
def compare(
    ctx: typer.Context,
    one: Annotated[Path, typer.Argument(metavar="MODEL", help="The first model.")],
    other: Annotated[Path, typer.Argument(metavar="MODEL", help="The second model.")],
    data: options.DataFile,
    *,
    columns: RatingColumns,
    seed: options.SeedOption = 0,
    threads: options.ThreadsOption = None,
    telling: options.Telling,
) -> None:
    """Compare two models on the same answers or ratings.

    Of a survey, a tenth of the answers is hidden, and both models predict it from the others. Of
    ratings, those count that neither model has learnt from. Differences come with standard errors.
    """
    inputs.check_files(one, other, data)
    if one == other:
        raise DataError(f"'{one}' is given twice; give two models.")
    models = {path: orbm.load(path).set_params(n_jobs=threads) for path in (one, other)}
    is_survey, *rest = (isinstance(model, orbm.CumulativeRBM) for model in models.values())
    if rest != [is_survey]:
        raise DataError(f"One of '{one}' and '{other}' is a model of ratings, the other of a survey.")
    if is_survey:
        refuse(ctx, options.COLUMN_OPTIONS, f"'{one}' is a model of a survey")
        count, found = _on_survey(models, data, seed)
    else:
        refuse(ctx, ("seed",), "nothing is hidden at random")
        count, found = _on_ratings(models, data, columns)
    from ordinalrbm.evaluate.metrics import MEASURES

    what = "answer" if is_survey else "rating"
    names = {counted(count, what): ""} | dict.fromkeys(map(str, models), ".4f")
    rows = [(MEASURES[measure], *line) for measure, *line in found.itertuples(name=None)]
    table = results_table(names | {"difference": "+.4f", "error": ".4f"}, rows)
    about = {"models": [str(one), str(other)], "tested": count, "measures": found.to_dict("index")}
    telling.output().result(about, table, text=_READING.format(what))


def _on_survey(models: dict[Path, orbm.CumulativeRBM], data: Path, seed: int) -> tuple[int, pd.DataFrame]:
    import numpy as np

    from ordinalrbm.cli.evaluate import warn_of_learnt
    from ordinalrbm.evaluate.hidden import distributions, hide_answers
    from ordinalrbm.evaluate.model_scores import paired_differences

    surveys = [inputs.survey_for(model, path, data)[1] for path, model in models.items()]
    first, second = (survey.encoded for survey in surveys)
    if first.names != second.names or first.scales != second.scales:
        names = set(first.names or ()) ^ set(second.names or ())
        why = f", one has {sorted(names)[0]!r}" if names else ""
        raise DataError(f"The models have not the same questions{why}; fit both with the same --questions.")
    for model, survey in zip(models.values(), surveys, strict=True):
        warn_of_learnt(model, survey)
    shown, hidden = hide_answers(first, _SHARE, seed)
    if not hidden.row.size:
        raise DataError(f"File '{data}' has too few answers to hide any; give more rows.")
    one, two = (
        distributions(model, replace(survey, encoded=shown).table, hidden)
        for model, survey in zip(models.values(), surveys, strict=True)
    )
    values = np.arange(1.0, one.shape[1] + 1.0)
    return hidden.row.size, paired_differences(one, two, hidden.level, hidden.row, values)


def _on_ratings(
    models: dict[Path, RatingModel], data: Path, columns: RatingColumns
) -> tuple[int, pd.DataFrame]:
    from ordinalrbm.evaluate.hidden import level_values, read_test_ratings
    from ordinalrbm.evaluate.model_scores import paired_differences

    (path, one), (_, other) = models.items()
    if one.scales_ != other.scales_:
        raise DataError("The models have not the same scale; fit both with the same --scale.")
    test = inputs.ratings_for(one, path, data, columns)
    new = read_test_ratings(other.ratings_, read_test_ratings(one.ratings_, test).table)
    users, items = new.table.user.to_numpy(), new.table.item.to_numpy()
    first, second = (model.predict_proba(users, items) for model in (one, other))
    user, values = new.table.user.coded().codes, level_values(other.ratings_)
    return users.size, paired_differences(first, second, new.cells.level, user, values)

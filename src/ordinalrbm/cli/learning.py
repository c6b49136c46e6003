"""Learning from what a file holds, with settings that need no tuning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.cli.inputs import Material
from ordinalrbm.cli.options import Kind, Settings
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.ratings import MatrixCumulativeRBM
from ordinalrbm.estimators.ratings_part import RatingsPart
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.files.schema import to_json
from ordinalrbm.files.survey import LeftOut, Survey

MOST_FACTORS = 50
# People like to read about few factors, and surveys of many questions need some.
_FEWEST_TO_READ, _MOST_TO_READ, _QUESTIONS_PER_FACTOR = 12, 30, 5
# Surveys of many rows say in few epochs what others say in many.
_MANY_ROWS, _FEW_EPOCHS = 10_000, 4


def readable_factors(n_questions: int) -> int:
    """How many factors to report on: fewer than predict best.

    Examples
    --------
    >>> [readable_factors(n) for n in (5, 40, 100, 300)]
    [5, 12, 20, 30]
    """
    wanted = min(n_questions // _QUESTIONS_PER_FACTOR, _MOST_TO_READ)
    return min(max(wanted, _FEWEST_TO_READ), n_questions)


def learn(material: Material, kind: Kind | None, settings: Settings) -> Any:
    """A fitted model that knows what it was made from."""
    if material.n_ratings is None:
        assert material.survey is not None, "a file is a survey or ratings"
        return learn_survey(material.survey, settings)
    unread = material.unread
    ratings = material.ratings if unread is None else RatingsPart._of_files(unread)
    model = learn_ratings(ratings, kind, settings, item_scales=material.item_scales)
    model.about_ = about_ratings(material)
    return model


def about_ratings(material: Material) -> dict[str, Any]:
    """What a model of ratings should know of its file."""
    about: dict[str, Any] = {"data": material.source.name}
    if material.n_ratings is not None:
        about["ratings"] = material.n_ratings
    if material.survey is not None:  # which was taken for ratings
        about["schema"] = to_json(material.survey.schema)
    return about


def learn_survey(survey: Survey, settings: Settings) -> CumulativeRBM:
    """The model that we recommend for surveys."""
    n_rows, n_questions = survey.answers.shape
    others = settings.common
    if settings.epochs is not None:
        others["n_epochs"] = settings.epochs
    elif n_rows > _MANY_ROWS:
        others["n_epochs"] = _FEW_EPOCHS
    model = CumulativeRBM.recommended(settings.factors or min(MOST_FACTORS, n_questions), **others)
    model.fit(survey.answers, sample_weight=_weights(survey, settings), **settings.checkpoints)
    _forget_the_run(model)
    model.about_ = {
        "data": survey.name,
        "rows": n_rows,
        "weighted": settings.weighted,
        "schema": to_json(survey.schema),
        "left_out": [[left.what, left.why, left.count] for left in survey.left_out],
        "notes": list(survey.notes),
    }
    return model


def _weights(survey: Survey, settings: Settings) -> pd.Series | None:
    if not settings.weighted:
        return None
    if survey.weight is None:
        raise DataError(
            f"{survey.name!r} has no column of weights; give one the role weight in a schema, or "
            "leave out --weighted."
        )
    if survey.weight.isna().any():
        row = int(survey.weight.isna().to_numpy().argmax()) + 1
        raise DataError(
            f"{survey.name!r} has no weight in row {row}; fill it in, or leave out --weighted."
        )
    return survey.weight


def learn_ratings(
    ratings: Any, kind: Kind | None, settings: Settings, *,
    validation: pd.DataFrame | None = None, item_scales: Any = None,
) -> MatrixCumulativeRBM:  # fmt: skip
    """The model of ratings; as vectors, items have no factors of their own."""
    n_factors = settings.factors or MOST_FACTORS
    n_item_factors = n_factors if settings.item_factors is None else settings.item_factors
    model = MatrixCumulativeRBM(
        n_factors,
        0 if kind is Kind.VECTOR else n_item_factors,
        factors=settings.kind_of_factors,
        n_epochs=settings.epochs,
        item_scales=item_scales,
        device=settings.device,
        **settings.common,
    )
    model.fit(ratings, validation=validation, **settings.checkpoints)
    _forget_the_run(model)
    return model


def _forget_the_run(model: Any) -> None:
    """Keep what was learnt, not how long it took: the same data and seed are the same file."""
    model.set_params(n_jobs=None, verbose=False)
    model.history_ = model.history_.drop(columns="seconds", errors="ignore")


def hide_ratings(
    ratings: pd.DataFrame, share: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What is left, and a few ratings of users and items that have others."""
    chosen = np.random.default_rng(seed).random(len(ratings)) < share
    left = ratings[~chosen]
    known = ratings["user"].isin(left["user"]) & ratings["item"].isin(left["item"])
    chosen &= known.to_numpy()
    return ratings[~chosen], ratings[chosen]


def left_out_of(model: Any) -> tuple[LeftOut, ...]:
    """What was not used of the file that a model was made from."""
    return tuple(LeftOut(*entry) for entry in model.about_.get("left_out", []))

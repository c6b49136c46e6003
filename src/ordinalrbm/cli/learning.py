"""Learning from what a file holds, with settings that need no tuning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ordinalrbm.cli.inputs import Material
from ordinalrbm.cli.options import Kind
from ordinalrbm.errors import DataError
from ordinalrbm.estimators import CumulativeRBM
from ordinalrbm.files.schema import to_json
from ordinalrbm.files.survey import LeftOut, Survey
from ordinalrbm.recommender import MatrixCumulativeRBM

MOST_FACTORS = 50
# As many as people like to read about; more predict a little better.
READABLE_FACTORS = 12
# Surveys of many rows say in few epochs what others say in many.
_MANY_ROWS, _FEW_EPOCHS = 10_000, 4


@dataclass(frozen=True)
class Settings:
    """What a user may set on the command line; None is for us to choose."""

    factors: int | None = None
    item_factors: int | None = None
    kind_of_factors: str = "continuous"
    epochs: int | None = None
    seed: int = 0
    threads: int | None = None
    weighted: bool = False
    progress: bool = False
    checkpoints: dict[str, Any] = field(default_factory=dict)
    """Where and how often to write them, and whether to go on from them, as ``fit`` takes it."""

    @property
    def common(self) -> dict[str, Any]:
        """Parameters that every estimator has."""
        return {"random_state": self.seed, "n_jobs": self.threads, "verbose": self.progress}


def learn(material: Material, kind: Kind | None, settings: Settings) -> Any:
    """A fitted model that knows what it was made from."""
    if material.ratings is None:
        assert material.survey is not None, "a file is a survey or ratings"
        return learn_survey(material.survey, settings)
    model = learn_ratings(material.ratings, kind, settings, item_scales=material.item_scales)
    model.about_ = {"data": material.source.name, "ratings": len(material.ratings)}
    return model


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
    ratings: pd.DataFrame, kind: Kind | None, settings: Settings, *,
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
        **settings.common,
    )
    return model.fit(ratings, validation=validation, **settings.checkpoints)


def left_out_of(model: Any) -> tuple[LeftOut, ...]:
    """What was not used of the file that a model was made from."""
    return tuple(LeftOut(*entry) for entry in model.about_.get("left_out", []))

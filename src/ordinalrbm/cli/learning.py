"""Learning from what a file holds, with settings that need no tuning."""

from typing import Any

import pandas as pd

import ordinalrbm as orbm
from ordinalrbm.cli.inputs import Material
from ordinalrbm.cli.options import RATING_MODELS, Settings, SurveySettings, written_scale
from ordinalrbm.cli.output import Output
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.factor_analysis import MOST_COMPARED
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate import FactorNumbers, compare_factor_numbers
from ordinalrbm.files.ratings import WEIGHT
from ordinalrbm.files.survey import Survey

MOST_FACTORS = 50
# Surveys of many rows say in few epochs what others say in many.
_MANY_ROWS, _FEW_EPOCHS = 10_000, 4


def _rating_model(name: str, k: int, n_item_factors: int, common: dict[str, Any]) -> Any:
    if name == "matrix-crbm":
        return orbm.MatrixCumulativeRBM(k, n_item_factors, **common)
    return getattr(orbm, RATING_MODELS[name])(k, **common)


def compare_numbers(
    survey: Survey, settings: SurveySettings, output: Output, lowest: int = 1, highest: int | None = None
) -> FactorNumbers:
    """Numbers of factors for reading, compared by the likelihood of hidden answers."""
    last = highest or max(lowest, min(MOST_COMPARED, survey.n_questions))
    return compare_factor_numbers(
        survey_estimator(survey, settings),
        survey.table,
        range(lowest, last + 1),
        random_state=settings.seed,
        sample_weight=weights_of(survey, settings),
        tell=lambda k: output.step(f"learning {k} of {last} factors"),
    )


def learn(material: Material, settings: Settings) -> Any:
    if material.survey is not None:
        return learn_survey(material.survey, settings)
    unread = material.unread
    ratings = material.ratings if unread is None else orbm.RatingsPart(unread)
    weight = WEIGHT if material.ratings is not None and WEIGHT in material.ratings else None
    model = learn_ratings(ratings, settings, features=material.features, sample_weight=weight)
    model.about_ = {"data": material.source.name, "ratings": material.n_ratings}
    return model


def learn_survey(survey: Survey, settings: SurveySettings) -> CumulativeRBM:
    model = survey_estimator(survey, settings)
    model.fit(survey, sample_weight=weights_of(survey, settings), **settings.checkpoints)
    _drop_run_settings(model)
    return model


def survey_estimator(survey: Survey, settings: SurveySettings) -> CumulativeRBM:
    others = settings.common | survey.chosen.parameters
    if survey.encoded.shape[0] > _MANY_ROWS:
        others.setdefault("n_epochs", _FEW_EPOCHS)
    return CumulativeRBM(settings.factors, **others)


def weights_of(survey: Survey, settings: SurveySettings) -> pd.Series | None:
    """The weights that learning is to use, if it is to use any."""
    if not settings.weighted and (survey.design is None or survey.weight is None):
        return None
    if survey.weight is None:
        raise DataError(
            f"{survey.name!r} has no column of weights; give one the role weight in a schema, or "
            "leave out --weighted."
        )
    if survey.weight.isna().any():
        row = int(survey.weight.isna().to_numpy().argmax())
        raise DataError(
            f"{survey.name!r} has no weight in row {row} (counted from 0); fill it in, or leave out "
            "--weighted."
        )
    return survey.weight


def learn_ratings(
    ratings: Any,
    settings: Settings,
    validation: pd.DataFrame | None = None,
    *,
    features: dict[str, pd.DataFrame],
    scale: Any = None,
    sample_weight: str | None = None,
) -> Any:
    """A fitted model of ratings; what is known of users and items is as ``fit`` takes it.

    The scale is that of the ratings, unless there are others elsewhere.
    """
    n_factors = settings.factors or MOST_FACTORS
    n_item_factors = n_factors if settings.item_factors is None else settings.item_factors
    name = settings.model or "ordinal-mf"
    model = _rating_model(name, n_factors, n_item_factors, settings.common).set_params(scale=scale)
    if settings.device != "cpu":
        if "device" not in model.get_params():
            raise DataError(f"--model {name} learns on the CPU only; leave out --device.")
        model.set_params(device=settings.device)
    if settings.scale is not None:
        model.set_params(scale=list(written_scale(settings.scale).labels))
    more = features | settings.checkpoints
    model.fit(ratings, validation=validation, sample_weight=sample_weight, **more)
    _drop_run_settings(model)
    return model


def _drop_run_settings(model: Any) -> None:
    """Keep what was learnt, not how long it took: the same data and seed are the same file."""
    model.set_params(verbose=False)  # the number of threads is for what follows, and in no file
    model.history_ = model.history_.drop(columns="seconds", errors="ignore")

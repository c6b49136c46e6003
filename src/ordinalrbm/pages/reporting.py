"""A report in one call: read, learn if needed, and write the page."""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator, clone

from ordinalrbm.estimators.factor_analysis import readable_factors
from ordinalrbm.estimators.ordinal_mf import OrdinalMF
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate.hidden import hide_answers, hide_ratings
from ordinalrbm.files.formats import from_frame, read
from ordinalrbm.files.ratings import checked_ratings, is_ratings
from ordinalrbm.files.survey import Survey, apply
from ordinalrbm.pages.ratings import ratings_page
from ordinalrbm.pages.survey import check_group, model_page, survey_page
from ordinalrbm.schema.infer import propose
from ordinalrbm.schema.schema import from_json
from ordinalrbm.storage.atomic import atomic_write
from ordinalrbm.storage.model_file import is_model, load

# Hidden from learning, so that the page can tell how well they are predicted.
_SHARE = 0.05


def report(
    data: Any,
    model: Any = None,
    *,
    out: str | os.PathLike = "report.html",
    random_state: int = 0,
    **options: Any,
) -> Path:
    """Write a page about a survey or ratings, to be opened in a browser.

    Parameters
    ----------
    data : path, data frame, Survey or fitted model
        A survey (a file, a table, or what :func:`ordinalrbm.read_survey` returns), or ratings in
        the columns user, item and rating or others whose names say as much. A fitted model, or its
        file, has a page of its own.
    model : CumulativeRBM or model of ratings, optional
        If it is fitted (a CumulativeRBM on a Survey), or the file of a fitted one, the page shows
        what it has learnt, and ratings are test ratings. If not, it is cloned and learns from the
        data, of which 5% are hidden to be predicted. By default, :class:`CumulativeRBM` or
        :class:`OrdinalMF`.
    out : path, default="report.html"
    random_state : int, default=0
        Seed of what is hidden, of learning by default, and of the map.
    **options
        ``title``, and other options of :func:`ordinalrbm.pages.survey_page` (``group``, ...) or
        :func:`ordinalrbm.pages.ratings_page` (``example_user``, ...).

    Returns
    -------
    Path of the page

    Examples
    --------
    >>> import os, tempfile, pandas as pd, ordinalrbm as orbm
    >>> answers = pd.DataFrame({"tea": ["no", "yes", "maybe"] * 9, "milk": ["yes", "no", "no"] * 9})
    >>> file = os.path.join(tempfile.mkdtemp(), "tea.html")
    >>> orbm.report(answers, orbm.CumulativeRBM(1, n_epochs=2, random_state=0), out=file).name
    'tea.html'
    """
    data, model = (load(one) if _is_path(one) and is_model(one) else one for one in (data, model))
    if isinstance(data, BaseEstimator):
        page = (ratings_page if isinstance(data, RatingModel) else model_page)(data, **options)
    elif isinstance(data, Survey):
        page = _of_survey(data, model, random_state, options)
    else:
        source = read(data) if _is_path(data) else from_frame(data)
        if isinstance(model, RatingModel) or (model is None and is_ratings(source)):
            named = {"title": source.name} if _is_path(data) else {}
            page = _of_ratings(checked_ratings(source), model, random_state, named | options)
        else:
            schema = getattr(model, "about_", {}).get("schema")
            survey = apply(source, from_json(schema) if schema else propose(source))
            page = _of_survey(survey, model, random_state, options)
    with atomic_write(out) as file:
        file.write_text(page, encoding="utf-8")
    return Path(out)


def _is_path(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)


def _of_survey(survey: Survey, model: Any, seed: int, options: dict[str, Any]) -> str:
    inspect.signature(survey_page).bind_partial(**options)  # rather now than when all is learnt
    check_group(survey, options.get("group"))
    held_out = None
    if not hasattr(model, "model_"):
        n_factors = readable_factors(survey.encoded.shape[1])
        model = CumulativeRBM(n_factors, random_state=seed) if model is None else clone(model)
        shown, held_out = hide_answers(survey.encoded, _SHARE, seed)
        model.fit(replace(survey, encoded=shown))
    return survey_page(model, survey, held_out=held_out, random_state=seed, **options)


def _of_ratings(ratings: Any, model: Any, seed: int, options: dict[str, Any]) -> str:
    inspect.signature(ratings_page).bind_partial(**options)
    if hasattr(model, "model_"):
        return ratings_page(model, test=ratings, **options)
    train, test = hide_ratings(ratings, _SHARE, seed)
    model = OrdinalMF(random_state=seed) if model is None else clone(model)
    return ratings_page(model.fit(train), test=test, left_out=(), **options)

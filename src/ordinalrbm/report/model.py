"""The page of a model file, when the data is not at hand."""

from __future__ import annotations

from typing import Any

from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.report.page import render, small_chart
from ordinalrbm.report.questions import question_texts, response_curves
from ordinalrbm.report.ratings import ratings_page
from ordinalrbm.report.survey import N_FACTORS_TOLD, about_learning, factor_sections
from ordinalrbm.words import Wording, column_names, describe_factors

_N_MADE_UP = 1_000


def model_page(model: Any, *, title: str | None = None) -> str:
    """A page about a model alone: its learning curve, factors, thresholds and response curves.

    A model of ratings has its ratings inside, and gets the page of these.

    Parameters
    ----------
    model : CumulativeRBM or an estimator of ratings, fitted
    title : str, optional

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> from ordinalrbm import report
    >>> X = np.array([[1, 3], [2, 2], [3, 1]] * 30)
    >>> model = orbm.CumulativeRBM(n_factors=1, random_state=0).fit(X)
    >>> "Response curves" in report.model_page(model)
    True
    """
    if not isinstance(model, CumulativeRBM):
        return ratings_page(model, title=title)
    names = column_names(model)
    texts = question_texts(names, None)
    factors = model.transform(model.sample(_N_MADE_UP, random_state=0))
    wording = Wording(rows="made-up respondents")
    described = describe_factors(
        model, n_factors=N_FACTORS_TOLD, wording=wording, posterior=factors
    )
    curves = response_curves(model, names)
    return render(
        "model.html.j2",
        title=title or "Model",
        n_questions=len(names),
        n_factors=model.model_.n_factors,
        n_made_up=_N_MADE_UP,
        factors=factor_sections(model, factors, described, texts),
        curves=[small_chart(one) for one in curves],
        **about_learning(model),
    )

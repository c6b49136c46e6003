"""The page of a model file, when the data is not at hand."""

from __future__ import annotations

from typing import Any

from ordinalrbm.estimators.factor_analysis import column_names
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.report.factors import N_FACTORS_TOLD, named_factors
from ordinalrbm.report.labels import labels_of
from ordinalrbm.report.page import render, small_chart
from ordinalrbm.report.points import response_curves
from ordinalrbm.report.ratings import ratings_page


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
    reading = model.factor_solution()
    labels = labels_of([str(name) for name in reading.loadings.index], reading.questions)
    known = model.questionnaire_
    names = zip(column_names(model), known.kinds, strict=True)
    curves = response_curves(model, [name for name, kind in names if kind == "ordinal"])
    return render(
        "model.html.j2",
        title or "Model",
        model,
        n_questions=len(known.questions),
        n_factors=model.model_.n_factors,
        factors=named_factors(reading, labels)[:N_FACTORS_TOLD],
        curves=[small_chart(one, labels[one.name]) for one in curves],
    )

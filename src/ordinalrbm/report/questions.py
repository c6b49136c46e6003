"""Questions under a model: how likely each level is along their utilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from ordinalrbm.data.answers import covariates_of
from ordinalrbm.data.tables import as_table
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.plots.questions import Curves
from ordinalrbm.vector.model import VectorModel

_N_POINTS = 33
_BEYOND = 1.5  # how far a curve goes on beyond the outermost threshold, in standard deviations
_MIDDLE = (0.1, 0.9)


def response_curves(model: CumulativeRBM, names: list[str], people: Any = None) -> list[Curves]:
    """Probability of each level along the mean utility, for every question on an ordered scale.

    With ``people``, a table of their answers, curves say where most of them are.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> X = np.array([[1, 3], [2, 2], [3, 1]] * 30)
    >>> model = orbm.CumulativeRBM(n_factors=1, random_state=0).fit(X)
    >>> tea, milk = response_curves(model, ["tea", "milk"])
    >>> tea.probability.shape, len(tea.thresholds)
    ((33, 3), 2)
    """
    parameters, curves = model.model_, []
    # Thresholds are shown where somebody with a usual style has them.
    usual_stretch = np.exp(parameters.style_weights @ np.log(parameters.stretches))
    spans = None if people is None else _middle_utilities(model, people)
    known, first = model.questionnaire_, parameters.layout.first
    asked = enumerate(known.questions)
    ordered = [(int(first[i]), known.scales[j]) for i, j in asked if known.kinds[j] == "ordinal"]
    every_bound = parameters.thresholds
    for name, (column, scale) in zip(names, ordered, strict=True):
        levels = scale.names  # type: ignore[union-attr]
        bounds = every_bound[column, : len(levels) + 1]
        inner = bounds[1:-1] * usual_stretch
        middle = None if spans is None else (float(spans[0, column]), float(spans[1, column]))
        marks = [*inner, *(middle or ())] or [0.0]
        utility = np.linspace(min(marks) - _BEYOND, max(marks) + _BEYOND, _N_POINTS)
        probability = _probabilities(parameters, bounds, utility)
        curves.append(Curves(name, levels, utility, probability, inner.tolist(), middle))
    return curves


def _probabilities(model: VectorModel, bounds: np.ndarray, utility: np.ndarray) -> np.ndarray:
    """(points, L): over all styles of using the scale, each with its share."""
    total = np.zeros((len(utility), len(bounds) - 1))
    for stretch, share in zip(model.stretches, model.style_weights, strict=True):
        total += share * np.diff(ndtr(bounds * stretch - utility[:, None]), axis=1)
    return total


def _middle_utilities(model: CumulativeRBM, people: Any) -> np.ndarray:
    """(2, N'): between which mean utilities the middle four fifths of the people are."""
    parameters = model.model_
    units_on = np.asarray(model.transform(people)) * parameters.units
    covariates = covariates_of(model.questionnaire_.encode(as_table(people)))
    ends = []
    for i, (bias, weights) in enumerate(zip(parameters.bias, parameters.weights, strict=True)):
        utility = bias + units_on @ weights
        if covariates.size:
            utility = utility + covariates @ parameters.slopes[i]
        ends.append(np.quantile(utility, _MIDDLE))
    return np.stack(ends, axis=1)

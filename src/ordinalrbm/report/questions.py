"""Questions under a model: how likely each level is along their utilities."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.plots.questions import Curves
from ordinalrbm.vector.model import VectorModel

_N_POINTS = 33
_BEYOND = 1.5  # how far a curve goes on beyond the outermost threshold, in standard deviations
_MIDDLE = (0.1, 0.9)


def response_curves(
    model: CumulativeRBM, names: list[str], factors: np.ndarray | None = None
) -> list[Curves]:
    """Probability of each level along the mean utility, for every question.

    With ``factors``, (n, K) as ``transform`` gives them, curves say where most people are.

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
    spans = None if factors is None else _middle_utilities(parameters, factors)
    for i, levels in enumerate(scale.names for scale in model.scales_):
        bounds = parameters.thresholds[i, : len(levels) + 1]
        inner = bounds[1:-1] * usual_stretch
        middle = None if spans is None else (float(spans[0, i]), float(spans[1, i]))
        marks = [*inner, *(middle or ())] or [0.0]
        utility = np.linspace(min(marks) - _BEYOND, max(marks) + _BEYOND, _N_POINTS)
        probability = _probabilities(parameters, bounds, utility)
        curves.append(Curves(names[i], levels, utility, probability, inner.tolist(), middle))
    return curves


def _probabilities(model: VectorModel, bounds: np.ndarray, utility: np.ndarray) -> np.ndarray:
    """(points, L): over all styles of using the scale, each with its share."""
    total = np.zeros((len(utility), len(bounds) - 1))
    for stretch, share in zip(model.stretches, model.style_weights, strict=True):
        total += share * np.diff(ndtr(bounds * stretch - utility[:, None]), axis=1)
    return total


def _middle_utilities(model: VectorModel, factors: np.ndarray) -> np.ndarray:
    """(2, N): between which mean utilities the middle four fifths of the people are."""
    units_on = factors * model.units
    ends = [
        np.quantile(bias + units_on @ weights, _MIDDLE)
        for bias, weights in zip(model.bias, model.weights, strict=True)
    ]
    return np.stack(ends, axis=1)

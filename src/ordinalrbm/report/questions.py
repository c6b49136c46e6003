"""Questions under a model: how likely each level is, and what factors are called."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import ndtr

from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.files.schema import Schema
from ordinalrbm.plots.questions import Curves, Moved
from ordinalrbm.vector.model import VectorModel
from ordinalrbm.words import FactorInWords, level_probabilities

_N_POINTS = 33
_BEYOND = 1.5  # how far a curve goes on beyond the outermost threshold, in standard deviations
_MIDDLE = (0.1, 0.9)
_NAMED_QUESTIONS = 3
_BARS_PER_FACTOR = 6


def question_texts(names: list[str], schema: Schema | None) -> dict[str, str]:
    """Questions as a reader should see them: the name of the column, and its text if it has one.

    Examples
    --------
    >>> from ordinalrbm.files.schema import Column
    >>> schema = Schema((Column("q1", "ordinal", question="Do you like tea?"),))
    >>> question_texts(["q1", "q2"], schema)
    {'q1': 'q1: Do you like tea?', 'q2': 'q2'}
    """
    asked = {column.name: column.question for column in schema.columns} if schema else {}
    return {
        name: f"{name}: {asked[name]}" if asked.get(name, name) not in ("", name) else name
        for name in names
    }


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


def factor_names(effects: pd.DataFrame) -> dict[int, str]:
    """Short names of factors: which questions move most, and which way.

    Examples
    --------
    >>> effects = pd.DataFrame({"factor": [0, 0], "column": ["tea", "milk"],
    ...                         "strength": [-0.1, 0.4]})
    >>> print(factor_names(effects)[0])
    Factor 0: milk +, tea −
    """
    names = {}
    for factor, own in effects.groupby("factor", sort=False):
        strongest = own.sort_values("strength", key=np.abs, ascending=False, kind="stable")
        parts = [
            f"{line.column}\xa0{'+' if line.strength > 0 else '−'}"
            for line in strongest.head(_NAMED_QUESTIONS).itertuples()
        ]
        names[int(factor)] = f"Factor {factor}: {', '.join(parts)}"
    return names


def moved_questions(
    model: CumulativeRBM, factors: np.ndarray, described: list[FactorInWords], texts: dict[str, str]
) -> list[list[Moved]]:
    """For each factor, the questions that it moves most, with their level probabilities."""
    names, levels = list(texts), [scale.names for scale in model.scales_]
    shares = level_probabilities(model, [factor.factor for factor in described], posterior=factors)
    found = []
    for factor, pairs in zip(described, shares, strict=True):
        places = [names.index(name) for name in factor.effects["column"].head(_BARS_PER_FACTOR)]
        found.append(
            [Moved(texts[names[i]], levels[i], *(p.tolist() for p in pairs[i])) for i in places]
        )
    return found

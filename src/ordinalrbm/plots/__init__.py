"""Figures: maps, learning curves, factors, response curves, groups, calibration.

Every function takes data and returns a :class:`matplotlib.figure.Figure` of its own, with a ``title`` above
and a small ``note`` below, if given. Those that have a single panel draw it into the axes ``ax`` instead, if
given, and return the figure of these. pyplot is not used, so no figure stays open and no display is needed;
save with ``figure.savefig("map.png")``. A dollar sign in a label does not start a formula.
"""

from ordinalrbm.plots.factors import group_differences, information_curves, item_curves, loading_map
from ordinalrbm.plots.imputations import observed_and_imputed
from ordinalrbm.plots.maps import row_map, row_positions, similarity_map
from ordinalrbm.plots.questions import factor_bars, response_curves
from ordinalrbm.plots.scores import (
    calibration,
    hidden_answers,
    learning_curve,
    level_shares,
    predictive_check,
)

__all__ = [
    "calibration",
    "factor_bars",
    "group_differences",
    "hidden_answers",
    "information_curves",
    "item_curves",
    "learning_curve",
    "level_shares",
    "loading_map",
    "observed_and_imputed",
    "predictive_check",
    "response_curves",
    "row_map",
    "row_positions",
    "similarity_map",
]

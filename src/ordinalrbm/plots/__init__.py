"""Figures: maps of rows, learning curves, loadings, response curves, calibration, imputed answers.

Every function takes data and returns a :class:`matplotlib.figure.Figure` of its own, with a ``title`` above
and a small ``note`` below, if given. Those that have a single panel draw it into the axes ``ax`` instead, if
given, and return the figure of these. pyplot is not used, so no figure stays open and no display is needed;
save with ``figure.savefig("map.png")``. A dollar sign in a label does not start a formula.
"""

from ordinalrbm.plots.factors import information_curves, item_curves, loading_map
from ordinalrbm.plots.maps import row_map, row_positions
from ordinalrbm.plots.scores import calibration, learning_curve, observed_and_imputed, predictive_check

__all__ = [
    "calibration",
    "information_curves",
    "item_curves",
    "learning_curve",
    "loading_map",
    "observed_and_imputed",
    "predictive_check",
    "row_map",
    "row_positions",
]

"""Which groups differ on which factors."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ordinalrbm.errors import DataError
from ordinalrbm.plots.style import KINDS, QUIET, bare, framed, panels, plain_text, shortened, wrapped

_PANELS_PER_ROW = 3
_NEEDED = ("panel", "group", "mean", "low", "high")


@plain_text
def group_differences(
    means: pd.DataFrame,
    *,
    middle: float = 0.0,
    measure: str = "standard deviations from the mean of all",
    title: str = "",
    note: str = "",
) -> Figure:
    """Means of groups with their intervals, one panel per factor.

    Parameters
    ----------
    means : DataFrame
        One line per panel and group: ``panel``, ``group``, ``mean``, and the ends of the interval
        ``low`` and ``high`` (missing where a group is too small to have one). Groups stand in the
        order of their means in the first panel.
    middle : float, default=0
        Where everybody together would be; a line.
    measure : str
        What the means are.
    title, note : str, optional
        Above and, small, below.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> means = pd.DataFrame({
    ...     "panel": "Factor 0", "group": ["north", "south"], "mean": [-0.1, 0.2],
    ...     "low": [-0.2, 0.1], "high": [0.0, 0.3],
    ... })
    >>> [label.get_text() for label in group_differences(means).axes[0].get_yticklabels()]
    ['south', 'north']
    """
    missing = [name for name in _NEEDED if name not in means]
    if missing or means.empty:
        raise DataError(f"means must have lines with {', '.join(_NEEDED)}; {missing} are missing.")
    names = list(dict.fromkeys(means["panel"]))
    first = means[means["panel"] == names[0]].sort_values("mean", ascending=False, kind="stable")
    groups = list(first["group"])
    figure, all_axes = panels(
        len(names), _PANELS_PER_ROW, 3.1, 0.23 * len(groups) + 1.1, (1.6, 0.3), sharex=True, sharey=True
    )
    for axes, panel in zip(all_axes, names, strict=True):
        lines = means[means["panel"] == panel].set_index("group").reindex(groups)
        _dots(axes, lines, middle)
        axes.set_title(wrapped(panel, 36, max_lines=3), fontsize="small", loc="left")
    all_axes[0].set_yticks(np.arange(len(groups)), [shortened(group, 28) for group in groups])
    all_axes[0].set_ylim(len(groups) - 0.4, -0.6)
    figure.supxlabel(measure, fontsize="small", color=QUIET)
    if title:
        framed(figure, title, "")
    if note:
        framed(figure, "", f"{measure}\n{note}")
    return figure


def _dots(axes: Axes, lines: pd.DataFrame, middle: float) -> None:
    height = np.arange(len(lines))
    axes.axvline(middle, color="#AAAAAA", lw=1, zorder=0)
    axes.hlines(height, lines["low"], lines["high"], color=KINDS[0], lw=1.6)
    axes.scatter(lines["mean"], height, s=18, color=KINDS[0], zorder=2)
    axes.tick_params(labelsize=8)
    axes.grid(axis="x", color="#EEEEEE")
    bare(axes)

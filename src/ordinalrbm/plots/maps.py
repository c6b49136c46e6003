"""Maps of rows by their factors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ordinalrbm.errors import DataError
from ordinalrbm.plots.style import DEGREES, KINDS, UNKNOWN, framed, panels, plain_text, shades

# For points: the middle is grey, because white points would vanish.
_CONTRAST = LinearSegmentedColormap.from_list(
    "contrast", ["#A33B00", "#F08A3C", "#CFCFCF", "#4A9FD4", "#004A7C"]
)
_POINT_LEGEND: dict[str, Any] = {"frameon": False, "handletextpad": 0.1, "columnspacing": 1.0}
_PANELS_PER_ROW = 3
_ANGLE = 0.8  # of t-SNE: how roughly far points are counted; 0.5, the default, takes half as long again


def row_positions(factors: ArrayLike, *, random_state: int = 0, max_iter: int = 500) -> np.ndarray:
    """Positions of rows on a plane: neighbours have similar factors (t-SNE of scikit-learn).

    Parameters
    ----------
    factors : (n, K) array-like
        What ``transform`` gives.
    random_state : int, default=0
    max_iter : int, default=500
        Steps of t-SNE, at least 250. More make clusters stand out a little further.

    Examples
    --------
    >>> factors = np.random.default_rng(0).random((60, 3))
    >>> row_positions(factors, max_iter=250).shape
    (60, 2)
    """
    from sklearn.manifold import TSNE  # slow to import, and only needed here

    points = np.asarray(factors, dtype=np.float32)
    if points.ndim != 2 or points.shape[0] < 4:
        raise DataError(
            f"A map needs a table of at least 4 rows, got shape {points.shape}; "
            "give what transform() returns for more rows."
        )
    # t-SNE asks for fewer neighbours than rows; 30 is its default.
    perplexity = min(30.0, (points.shape[0] - 1) / 3)
    # The principal components give the map the same large-scale layout each time; there are none
    # of a single factor, or of rows that are all alike.
    start = "pca" if points.shape[1] >= 2 and np.ptp(points, axis=0).any() else "random"
    return TSNE(
        perplexity=perplexity, init=start, random_state=random_state, max_iter=max_iter, angle=_ANGLE
    ).fit_transform(points)


@plain_text
def row_map(
    positions: ArrayLike,
    colour_by: Mapping[str, ArrayLike],
    *,
    title: str = "",
    note: str = "",
    axis_name: str = "t-SNE",
) -> Figure:
    """Rows as points on a plane, one panel per way to colour them.

    Parameters
    ----------
    positions : (n, 2) array-like
        For instance from :func:`row_positions`.
    colour_by : mapping from panel title to n values
        Numbers get a colour bar; numbers on both sides of zero one with zero in the middle.
        An ordered ``pandas.Categorical`` gets a legend in shades, anything else in distinct
        colours (at most eight kinds). Missing values are hollow, behind the others.
    title, note : str, optional
    axis_name : str, default="t-SNE"
        What made the positions.

    Examples
    --------
    >>> places = np.random.default_rng(0).normal(size=(6, 2))
    >>> figure = row_map(places, {"Age": [20, 30, 40, 50, 60, None], "Pet": list("ccddcd")})
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['Age', 'Pet']
    """
    points = np.asarray(positions, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise DataError(f"positions must have two columns, got shape {points.shape}.")
    width, height = np.ptp(points, axis=0) if len(points) else (0.0, 0.0)
    if not colour_by:
        raise DataError("colour_by is empty; give at least one thing to colour the points by.")
    # Panels are about as high, relative to their width, as what they show.
    shape = float(np.clip(height / width if width > 0 else 1.0, 0.5, 1.2))
    figure, all_axes = panels(len(colour_by), _PANELS_PER_ROW, 4.6, 4.4 * shape + 1.3, (0.4, 0.8))
    for axes, (name, values) in zip(all_axes, colour_by.items(), strict=True):
        column = pd.Series(values).reset_index(drop=True)
        if len(column) != len(points):
            raise DataError(f"'{name}' has {len(column)} values for {len(points)} points; give one per row.")
        _scatter(axes, points, column)
        axes.set_title(name)
        axes.set_xlabel(f"{axis_name} 1")
        axes.set_ylabel(f"{axis_name} 2")
        # The places have no unit; only who is near whom has a meaning.
        axes.set(xticks=[], yticks=[])
        # Equal scales, but panels of one size: the limits give way, not the frame.
        axes.set_aspect("equal", adjustable="datalim")
    return framed(figure, title, note)


# Points


def _scatter(axes: Axes, points: np.ndarray, values: pd.Series) -> None:
    known = values.notna().to_numpy()
    size = float(np.clip(15_000 / max(len(points), 1), 3.0, 36.0))
    if not known.all():
        x, y = points[~known].T
        axes.scatter(
            x, y, size, label="not known", zorder=1, facecolors="none", edgecolors=UNKNOWN, linewidths=0.7
        )
    # In front of the others, and without an edge, which would hide the colour of small points.
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        _scatter_numbers(axes, points[known], values[known].to_numpy(dtype=np.float64), size)
    else:
        _scatter_kinds(axes, points[known], values[known], size)


def _scatter_numbers(axes: Axes, points: np.ndarray, values: np.ndarray, size: float) -> None:
    # One extreme row must not take the colours away from all others.
    low, high = np.quantile(values, [0.01, 0.99]) if values.size else (0.0, 1.0)
    has_middle = low < 0 < high
    if has_middle:
        low, high = -max(-low, high), max(-low, high)
    norm = TwoSlopeNorm(0.0, low, high) if has_middle else Normalize(low, max(high, low + 1e-9))
    x, y = points.T
    cmap = _CONTRAST if has_middle else DEGREES
    drawn = axes.scatter(x, y, size, c=values, norm=norm, cmap=cmap, zorder=2, linewidths=0)
    below, above = (values < low).any(), (values > high).any()
    extend = ("both" if above else "min") if below else ("max" if above else "neither")
    # Inside the panel's own coordinates, so that it is where other panels have their legend.
    below_panel = axes.inset_axes((0.15, -0.15, 0.7, 0.035))
    bar = axes.figure.colorbar(drawn, cax=below_panel, orientation="horizontal", extend=extend)
    bar.outline.set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper right", **_POINT_LEGEND)


def _scatter_kinds(axes: Axes, points: np.ndarray, values: pd.Series, size: float) -> None:
    categories = values.astype("category").cat.remove_unused_categories().cat
    kinds = list(categories.categories)
    if categories.ordered:
        colours = shades(len(kinds))
    elif len(kinds) <= len(KINDS):
        colours = list(KINDS[: len(kinds)])
    else:
        raise DataError(
            f"{len(kinds)} kinds cannot be told apart by colour; merge them into at most "
            f"{len(KINDS)}, or give an ordered Categorical."
        )
    # All kinds in one go and in the order of the rows: drawn one after the other, the last kind
    # would cover the first.
    if kinds:
        x, y = points.T
        of_row = np.array(colours)[categories.codes.to_numpy()]
        axes.scatter(x, y, size, color=of_row, zorder=2, linewidths=0)
    handles, labels = axes.get_legend_handles_labels()
    shown: list[Artist] = [axes.scatter([], [], color=[colour], s=36) for colour in colours]
    axes.legend(
        shown + handles,
        [str(kind) for kind in kinds] + labels,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.07),
        ncols=min(len(kinds) + len(labels), 4),
        **_POINT_LEGEND,
    )

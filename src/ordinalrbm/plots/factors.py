"""What factors are: loadings of the questions, and curves along a factor."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ordinalrbm.errors import DataError
from ordinalrbm.plots import style

_PANELS_PER_ROW = 4
_MOST_LINES = len(style.KINDS)  # questions with a colour of their own
_SIGNED = "RdBu_r"  # white at zero, told apart with any kind of colour vision


@style.plain_text
def loading_map(
    loadings: pd.DataFrame,
    questions: Mapping[str, str] | None = None,
    *,
    title: str = "",
    note: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Loadings of all questions on all factors, as a table of colours and numbers.

    Parameters
    ----------
    loadings : DataFrame, questions by factors
        For instance ``reading.loadings`` of :meth:`CumulativeRBM.factor_solution`.
    questions : mapping, optional
        Texts by name of the question.
    title, note, ax : str, str and Axes, optional

    Examples
    --------
    >>> figure = loading_map(pd.DataFrame({"Factor 1": [0.8, -0.1]}, index=["tea", "milk"]))
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0.80', '−0.10']
    """
    if loadings.empty:
        raise DataError("There is no loading to draw; give at least one question and factor.")
    n_items, n_factors = loadings.shape
    figure, (axes,) = style.panels(1, 1, 4.2 + 0.62 * n_factors, 0.7 + 0.24 * n_items, ax=ax)
    values = loadings.to_numpy(dtype=np.float64)
    image = axes.imshow(values, cmap=_SIGNED, vmin=-1, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        ink = "white" if abs(value) > 0.65 else "black"
        text = f"{value:.2f}".replace("-", "−")
        axes.text(column, row, text, color=ink, fontsize=7, ha="center", va="center_baseline")
    texts = [(questions or {}).get(str(name)) for name in loadings.index]
    named = [
        f"{name}: {text}" if text else str(name) for name, text in zip(loadings.index, texts, strict=True)
    ]
    axes.set_yticks(np.arange(n_items), [style.shortened(name, 48) for name in named], fontsize=8)
    axes.set_xticks(np.arange(n_factors), [str(name) for name in loadings.columns], fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("question")
    figure.colorbar(image, ax=axes, label="loading", shrink=0.6)
    return style.framed(figure, title, note, ax)


@style.plain_text
def item_curves(curves: Mapping[str, pd.DataFrame], *, title: str = "", note: str = "") -> Figure:
    """Item response curves: how likely each level of a question is along a factor.

    Parameters
    ----------
    curves : mapping from name to DataFrame
        A panel each, from :meth:`FactorReading.curves`.
    title, note : str, optional

    Examples
    --------
    >>> x = pd.Index([-1.0, 0.0, 1.0], name="Factor 1")
    >>> tea = pd.DataFrame({"no": [0.9, 0.5, 0.1], "yes": [0.1, 0.5, 0.9]}, index=x)
    >>> item_curves({"tea": tea}).axes[0].get_xlabel()
    'Factor 1 (standard deviations)'
    """
    if not curves:
        raise DataError("There is no question to draw; give at least one.")
    figure, all_axes = style.panels(len(curves), _PANELS_PER_ROW, 3.0, 2.5, (0.3, 0.4))
    for axes, (name, table) in zip(all_axes, curves.items(), strict=True):
        levels = table.drop(columns="information", errors="ignore")
        for level, colour in zip(levels.columns, style.shades(levels.shape[1]), strict=True):
            axes.plot(levels.index, levels[level], color=colour, label=style.shortened(level, 24))
        axes.set(ylim=(0, 1), xlim=(levels.index[0], levels.index[-1]))
        axes.set_title(style.wrapped(name, 36), fontsize="small", loc="left")
        axes.set_xlabel(f"{table.index.name} (standard deviations)", fontsize=8)
        axes.set_ylabel("probability", fontsize=8)
        axes.tick_params(labelsize=7)
        style.unboxed(axes)
        axes.legend(fontsize=6, frameon=False)
    return style.framed(figure, title, note)


@style.plain_text
def information_curves(
    information: pd.DataFrame, *, title: str = "", note: str = "", ax: Axes | None = None
) -> Figure:
    """What each question tells about a factor, along it, and all of them together.

    Parameters
    ----------
    information : DataFrame
        From :meth:`FactorReading.information`. The questions that tell most have a line each.
    title, note, ax : str, str and Axes, optional

    Examples
    --------
    >>> x = pd.Index([-1.0, 0.0, 1.0], name="Factor 1")
    >>> table = pd.DataFrame({"tea": [0.2, 0.5, 0.2], "total": [0.2, 0.5, 0.2]}, index=x)
    >>> information_curves(table).axes[0].get_ylabel()
    'Fisher information'
    """
    if information.empty:
        raise DataError("There is no question to draw; give at least one.")
    figure, (axes,) = style.panels(1, 1, 6.4, 3.8, ax=ax)
    items = information.drop(columns="total", errors="ignore")
    most = items.max().sort_values(ascending=False, kind="stable").index[: _MOST_LINES - 1]
    for item, colour in zip(most, style.KINDS, strict=False):
        axes.plot(items.index, items[item], color=colour, label=style.shortened(item, 40))
    if "total" in information:
        axes.plot(information.index, information["total"], color="black", lw=2, label="all together")
    axes.set_xlabel(f"{information.index.name} (standard deviations)")
    axes.set_ylabel("Fisher information")
    axes.set_ylim(bottom=0)
    style.unboxed(axes)
    axes.legend(fontsize=7, frameon=False)
    return style.framed(figure, title, note, ax)

"""How learning went, and how well answers that were hidden from it are predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ordinalrbm.errors import DataError
from ordinalrbm.plots.style import KINDS, QUIET, bare, framed, panels, plain_text, unboxed, wrapped

# What a learning history calls them, and what they are.
_CURVES = {
    "validation": "hidden from learning",
    "pseudo_likelihood": "learnt from, given the person's other answers",
}


@plain_text
def learning_curve(
    history: pd.DataFrame, *, best_epoch: int | None = None, title: str = "", note: str = ""
) -> Figure:
    """Log-likelihood per answer, epoch by epoch.

    Parameters
    ----------
    history : DataFrame
        What ``history_`` of a fitted model is: ``epoch``, and ``validation`` or
        ``pseudo_likelihood`` or both.
    best_epoch : int, optional
        The epoch that was kept, marked by a line.
    title, note : str, optional
        Above and, small, below.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> history = pd.DataFrame({"epoch": [1, 2, 3], "validation": [-1.6, -1.4, -1.35]})
    >>> learning_curve(history, best_epoch=3).axes[0].get_xlabel()
    'epoch'
    """
    figure, (axes,) = panels(1, 1, 5.4, 3.4)
    curves = {name: label for name, label in _CURVES.items() if name in history}
    for (name, label), colour in zip(curves.items(), KINDS, strict=False):
        if history[name].notna().any():
            axes.plot(history["epoch"], history[name], "o-", color=colour, ms=3, label=label)
    if best_epoch is not None:
        axes.axvline(best_epoch, color=QUIET, lw=1, ls=":", label=f"epoch {best_epoch} was kept")
    axes.set(xlabel="epoch", ylabel="log-likelihood\nper answer")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    unboxed(axes)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside upper left", frameon=False, fontsize="small")
    framed(figure, title, note)
    return figure


@plain_text
def hidden_answers(
    scores: pd.DataFrame, *, measure: str = "mean absolute error", title: str = "", note: str = ""
) -> Figure:
    """Error of the model beside that of the usual answer, question by question.

    Parameters
    ----------
    scores : DataFrame
        One line per question (the index names it): ``model`` and ``usual``, both errors, so that
        smaller is better. The question with the largest gain comes first.
    measure : str
        What the errors are.
    title, note : str, optional
        Above and, small, below.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> scores = pd.DataFrame({"model": [0.6, 0.5], "usual": [0.7, 0.9]}, ["tea", "milk"])
    >>> [label.get_text() for label in hidden_answers(scores).axes[0].get_yticklabels()]
    ['milk', 'tea']
    """
    if scores.empty:
        raise DataError("There is no score to draw; give at least one question.")
    gain = (scores["usual"] - scores["model"]).to_numpy(dtype=np.float64)
    lines = scores.iloc[np.argsort(-gain, kind="stable")]
    height = np.arange(len(lines))
    figure, (axes,) = panels(1, 1, 7.0, 0.21 * len(lines) + 1.1)
    axes.hlines(height, lines["model"], lines["usual"], color="#CCCCCC", lw=2, zorder=1)
    look: dict[str, Any] = {"s": 24, "zorder": 2}
    axes.scatter(lines["usual"], height, facecolor="white", edgecolor=QUIET, label="usual answer", **look)
    axes.scatter(lines["model"], height, color=KINDS[0], label="model", **look)
    axes.set_yticks(height, [wrapped(name, 34, max_lines=1) for name in lines.index])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xlabel(f"{measure} (less is better)")
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(axis="x", color="#EEEEEE")
    axes.set_axisbelow(True)
    bare(axes)
    figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize="small")
    framed(figure, title, note)
    return figure

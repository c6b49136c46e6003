"""What factors do to answers, and how likely each level is along a question's utility."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ordinalrbm.errors import DataError
from ordinalrbm.plots.style import QUIET, bare, framed, ink_on, panels, plain_text, shades, shortened, wrapped

_PANELS_PER_ROW = 4
_WORTH_A_NUMBER = 0.09  # a narrower piece of a bar has no room for its percentage


class Moved(NamedTuple):
    """How likely each level of a question is before and after something changes."""

    name: str  # of the question
    levels: Sequence[str]  # from lowest to highest
    before: Sequence[float]
    after: Sequence[float]


class Curves(NamedTuple):
    """How likely each level of a question is along its mean utility."""

    name: str  # of the question
    levels: Sequence[str]  # from lowest to highest
    utility: np.ndarray  # (points,) mean utilities
    probability: np.ndarray  # (points, levels)
    thresholds: Sequence[float]  # where one level ends and the next begins
    middle: tuple[float, float] | None = None  # where the middle four fifths of the people are


@plain_text
def factor_bars(
    moved: Sequence[Moved],
    *,
    ends: tuple[str, str] = ("off", "on"),
    title: str = "",
    note: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Level probabilities of some questions at both ends of a factor, as stacked bars.

    Parameters
    ----------
    moved : sequence of Moved
        The questions, from top to bottom.
    ends : pair of str
        What the two bars of a question are called.
    title, note, ax : str, str and Axes, optional

    Examples
    --------
    >>> figure = factor_bars([Moved("Tea", ["hate", "love"], [0.7, 0.3], [0.2, 0.8])])
    >>> [text.get_text() for text in figure.axes[0].texts][-2:]
    ['hate', 'love']
    """
    if not moved:
        raise DataError("There is no question to draw; give at least one.")
    figure, (axes,) = panels(1, 1, 7.4, 0.72 * len(moved) + 0.5, ax=ax)
    for line, question in enumerate(moved):
        for offset, shares in ((-0.03, question.before), (0.27, question.after)):
            _bar(axes, line + offset, shares)
        for x, label, end in ((0.0, question.levels[0], "left"), (1.0, question.levels[-1], "right")):
            axes.text(x, line - 0.26, shortened(label, 44), color=QUIET, fontsize=7, ha=end, va="center")
    lines = np.arange(len(moved))
    axes.set_yticks(np.concatenate([lines - 0.03, lines + 0.27]), np.repeat(ends, len(moved)).tolist())
    axes.tick_params(axis="y", labelsize=7, labelcolor=QUIET)
    names = axes.secondary_yaxis(-0.09 if max(map(len, ends)) < 5 else -0.12)
    names.set_yticks(lines + 0.1, [wrapped(question.name, 26, max_lines=3) for question in moved])
    names.tick_params(length=0, labelsize=9)
    names.spines[:].set_visible(False)
    axes.set(xlim=(0, 1), ylim=(len(moved) - 0.5, -0.5), xticks=[])
    axes.spines[:].set_visible(False)
    bare(axes)
    return framed(figure, title, note, ax)


def _bar(axes: Axes, height: float, shares: Sequence[float]) -> None:
    start = 0.0
    for share, colour in zip(shares, shades(len(shares)), strict=True):
        axes.barh(height, share, 0.26, left=start, color=colour, edgecolor="white", lw=0.5)
        if share >= _WORTH_A_NUMBER:
            axes.text(
                start + share / 2,
                height,
                f"{share:.0%}",
                color=ink_on(colour),
                fontsize=7,
                ha="center",
                va="center_baseline",
            )
        start += share


@plain_text
def response_curves(questions: Sequence[Curves], *, title: str = "", note: str = "") -> Figure:
    """Probability of each level along the utility, stacked, one panel per question.

    Parameters
    ----------
    questions : sequence of Curves
        For instance from :func:`ordinalrbm.pages.points.response_curves`.
    title, note : str, optional

    Examples
    --------
    >>> x = np.linspace(-2, 2, 5)
    >>> high = 1 / (1 + np.exp(-x))
    >>> tea = Curves("Tea", ["no", "yes"], x, np.column_stack([1 - high, high]), [0.0])
    >>> response_curves([tea]).axes[0].get_title(loc="left")
    'Tea'
    """
    if not questions:
        raise DataError("There is no question to draw; give at least one.")
    figure, all_axes = panels(len(questions), _PANELS_PER_ROW, 2.8, 2.2, (0.3, 0.4))
    for axes, question in zip(all_axes, questions, strict=True):
        _curves(axes, question)
    return framed(figure, title, note)


def _curves(axes: Axes, question: Curves) -> None:
    axes.stackplot(question.utility, question.probability.T, colors=shades(len(question.levels)), lw=0)
    for threshold in question.thresholds:
        axes.axvline(threshold, color="white", lw=0.8, ls="--")
    if question.middle is not None:
        axes.plot(question.middle, [-0.03, -0.03], color="black", lw=3, clip_on=False)
    axes.set(xlim=(question.utility[0], question.utility[-1]), ylim=(0, 1), yticks=[0, 0.5, 1])
    axes.set_title(wrapped(question.name, 34), fontsize="small", loc="left")
    axes.tick_params(labelsize=7)
    axes.spines[:].set_visible(False)
    low, high = shortened(question.levels[0], 24), shortened(question.levels[-1], 24)
    axes.set_xlabel(f"← {low}   {high} →", fontsize=7, color=QUIET)

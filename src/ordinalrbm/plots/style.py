"""What all figures share: colours, titles, panels and labels."""

import functools
import math
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart with any kind of colour vision.
KINDS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
UNKNOWN = "#BBBBBB"
QUIET = "#555555"
# Shades from dark to light, which survive colour blindness and a grey print.
DEGREES = "viridis"
# From red over a grey middle to blue, told apart with any kind of colour vision.
DIVERGING, NEUTRAL = "RdBu", "#c9c9c9"

_Draw = TypeVar("_Draw", bound=Callable[..., Figure])


def plain_text(draw: _Draw) -> _Draw:
    """Draw labels such as ``$x^2$`` as they are: names of questions are no formulas."""

    @functools.wraps(draw)
    def drawn(*arguments: object, **options: object) -> Figure:
        with matplotlib.rc_context({"text.parse_math": False}):
            return draw(*arguments, **options)

    return drawn  # type: ignore[return-value]


def shades(count: int) -> list[str]:
    """Colours of ordered levels, from the lowest to the highest."""
    return [to_hex(colormaps[DEGREES](x)) for x in np.linspace(0.0, 0.95, count)]


def diverging(count: int) -> list[str]:
    """Colours from one end of a scale over a neutral middle to the other."""
    places = np.linspace(0.1, 0.9, count) if count > 1 else np.array([0.9])
    colours = [to_hex(colormaps[DIVERGING](x)) for x in places]
    if count % 2 and count > 1:
        colours[count // 2] = NEUTRAL
    return colours


def kinds(count: int) -> list[str]:
    """Colours of categories without an order, repeated if there are many."""
    return [KINDS[k % len(KINDS)] for k in range(count)]


def ink_on(colour: str) -> str:
    """Black or white, whichever can be read on a colour."""
    light = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in light)
    # At this luminance both have the same contrast, by the definition of WCAG.
    return "white" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179 else "black"


def printable(text: object) -> str:
    """The text without characters that no font and no XML file has."""
    return "".join(c if c.isprintable() or c == "\xa0" else " " for c in str(text))


def shortened(text: object, width: int) -> str:
    """The text cut to ``width`` characters, with an ellipsis."""
    clean = printable(text)
    return clean if len(clean) <= width else clean[: width - 1] + "…"


def wrapped(text: object, width: int, max_lines: int = 2) -> str:
    """The text on a few short lines, cut with an ellipsis."""
    return "\n".join(textwrap.wrap(printable(text), width, max_lines=max_lines, placeholder=" …"))


def panels(
    count: int,
    most_across: int,
    width: float,
    height: float,
    margin: tuple[float, float] = (0.0, 0.0),
    ax: Axes | None = None,
    **shared: Any,
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels of that size in inches, with a margin around all; or ``ax`` alone."""
    if ax is not None:
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
            text.set_parse_math(False)
        return ax.figure, [ax]  # type: ignore[return-value]
    across = min(count, most_across)
    down = math.ceil(count / across)
    size = (width * across + margin[0], height * down + margin[1])
    figure = Figure(figsize=size, layout="constrained")
    made = list(figure.subplots(down, across, squeeze=False, **shared).ravel())
    for spare in made[count:]:
        spare.remove()
    return figure, made[:count]


def framed(figure: Figure, title: str, note: str, ax: Axes | None = None) -> Figure:
    """The figure with a title above all panels, and a small note below them; or above and below ``ax``."""
    if ax is not None:
        if title:
            ax.set_title(title)
        ax.set_xlabel("\n".join(filter(None, (ax.get_xlabel(), note))))
        return figure
    if title:
        figure.suptitle(title, fontsize="x-large", fontweight="bold")
    if note:
        figure.supxlabel(note, fontsize="small", color=QUIET)
    return figure


def add_legend(axes: Axes, side: str, *, inside: bool, **options: Any) -> None:
    """Put a legend above the only panel of a figure, below its title; or inside the panel."""
    if not inside:
        options |= {"loc": f"lower {side}", "bbox_to_anchor": (float(side == "right"), 1.0)}
    axes.legend(frameon=False, fontsize="small", **options)


def unboxed(axes: Axes) -> None:
    """Leave the two axes that carry numbers."""
    axes.spines[["top", "right"]].set_visible(False)

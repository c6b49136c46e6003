"""From sections to one page of HTML that needs nothing else.

Text from a file stays text: templates escape everything, data for scripts is JSON in which no tag
can begin, and a policy in the page forbids every script but its own two.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import warnings
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import matplotlib
import pandas as pd
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from ordinalrbm import __version__, plots
from ordinalrbm.plots.questions import Curves
from ordinalrbm.plots.style import shades
from ordinalrbm.report.labels import Label
from ordinalrbm.runtime.printable import printable, printable_json

_SCRIPTS = ("charts.js", "map.js")
# What could end a script or start a tag, and the two line ends that old JavaScript chokes on.
_UNSAFE = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
_SMALLEST_P = 0.001  # worth telling
_SMALL = (200, 100)  # width and height of a small chart, in its own units


class Table(NamedTuple):
    """A table on the page."""

    head: tuple[str, ...]
    rows: list[tuple[Any, ...]]  # text, or numbers, which are sorted as numbers
    formats: tuple[str, ...]  # how numbers are shown, one per column; empty for text

    def cell(self, column: int, value: Any) -> Any:
        """A value as text, or a label as it stands on the page.

        Examples
        --------
        >>> Table(("gain",), [], ("+.1%",)).cell(0, -0.125)
        '−12.5 %'
        """
        if not self.formats[column] and isinstance(value, Label):
            return value
        return shown(value, self.formats[column])


def shown(value: Any, how: str) -> str:
    """A value as text in some format; "p" is that of p-values.

    Examples
    --------
    >>> shown(0.0004, "p"), shown(0.03, "p"), shown(None, "d")
    ('< 0.001', '0.030', '–')
    """
    if value is None or value != value:  # NaN
        return "–"
    if not how:
        return str(value)
    if how == "p":
        return "< 0.001" if value < _SMALLEST_P else f"{value:.3f}"
    return format(value, how).replace("-", "−").replace("%", " %")


def render(template: str, title: str, model: Any = None, **content: Any) -> str:
    """The page of a template, which every file can hold; of a model, with how learning went."""
    scripts = [Markup(_file(name)) for name in _SCRIPTS]
    page = _environment().get_template(template)
    html = page.render(
        version=__version__,
        policy=_policy(scripts),
        style=Markup(_file("style.css")),
        scripts=scripts,
        title=title,
        **({} if model is None else _learning(model)),
        **content,
    )
    # Half a character, as broken files have them, cannot be written.
    return printable(html.encode("utf-8", "replace").decode("utf-8"))


def _learning(model: Any) -> dict[str, Any]:
    """The learning curve, if there is one, settings that fit on a line, and the time.

    Model files do not say how long learning took.
    """
    history, figure = getattr(model, "history_", pd.DataFrame()), None
    measured = [name for name in ("validation", "pseudo_likelihood") if name in history]
    if not history.empty and history[measured].notna().any(axis=None):
        curve = plots.learning_curve(history, best_epoch=model.best_epoch_)
        figure = drawing(curve, "learning", "learning-curve")
    settings = [
        (name, str(value))
        for name, value in model.get_params().items()
        if value is not None and name not in ("scales", "scale", "item_scales", "verbose", "n_jobs")
    ]
    return {
        "learning": figure,
        "settings": Table(("setting", "value"), settings, ("", "")),
        "seconds": float(history["seconds"].max()) if len(history.get("seconds", ())) else None,
    }


def as_json(data: Any) -> Markup:
    r"""Data for a script of the page; no character of it can end the script.

    Examples
    --------
    >>> print(as_json({"label": "</script>"}))
    {"label":"\u003c/script\u003e"}
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(printable_json(text.translate(_UNSAFE)))


def as_svg(figure: Figure, name: str) -> Markup:
    """A figure as compact SVG for a page; ``name`` makes its ids differ from other figures'.

    Examples
    --------
    >>> figure = Figure()
    >>> _ = figure.text(0.5, 0.5, "<b>")
    >>> "&lt;b&gt;" in as_svg(figure, "one")
    True
    """
    buffer = io.StringIO()
    # Nobody sees the font that matplotlib measures text with: the browser has others.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Glyph.*")
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)
    return Markup(_compact(buffer.getvalue(), name))


def drawing(figure: Figure, name: str, file: str | None = None) -> dict[str, str]:
    """A figure on the page, and the file name it is saved under."""
    return {"svg": as_svg(figure, name), "file": file or name}


_TAG = re.compile(r"<[^>]*>")


def _compact(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    width, height = re.findall(r'(?:width|height)="([\d.]+)pt"', svg)[:2]
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    used = {one for tag in _TAG.findall(svg) for one in re.findall(r'(?:url\(#|href="#)([^)"]+)', tag)}
    # In tags only: text may look like anything.
    svg = _TAG.sub(lambda tag: _own_names(tag[0], name, used), svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    size = f'style="width:{float(width) * 4 / 3:.0f}px" data-ratio="{float(height):.0f}"'
    return svg.replace("<svg", f'<svg role="img" {size}', 1)


def _own_names(tag: str, name: str, used: set[str]) -> str:
    """A tag with ids that no other figure has, those that nobody asks for left out."""
    tag = re.sub(r' id="([^"]*)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", tag)
    tag = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", tag)
    # The page has a font of its own, which the list of matplotlib's would override.
    return re.sub(r"(font: [^'\";]*?px )'[^;\"]*", r"\1system-ui, sans-serif", tag)


def small_chart(curves: Curves, label: Label) -> dict[str, Any]:
    """Response curves of a question as shapes; matplotlib would need half a second for each.

    Levels are (name, colour, points of a polygon), thresholds and the middle are given by their x.
    """
    width, height = _SMALL
    low, high = curves.utility[0], curves.utility[-1]

    def across(utility: Any) -> Any:
        return (utility - low) / (high - low) * width

    x = across(curves.utility)
    above = curves.probability.cumsum(axis=1)
    levels = []
    for k, (level, colour) in enumerate(zip(curves.levels, shades(len(curves.levels)), strict=True)):
        upper, lower = above[:, k], above[:, k] - curves.probability[:, k]
        # Round the polygon: along its upper edge, and back along its lower one.
        corners = [*zip(x, upper, strict=True), *zip(x[::-1], lower[::-1], strict=True)]
        points = " ".join(f"{a:.0f},{(1 - b) * height:.1f}" for a, b in corners)
        levels.append((level, colour, points))
    marks = [round(float(across(t)), 1) for t in curves.thresholds]
    middle = curves.middle and [round(float(across(m)), 1) for m in curves.middle]
    return {"label": label, "levels": levels, "thresholds": marks, "middle": middle}


@cache
def _file(name: str) -> str:
    return (resources.files("ordinalrbm.report") / "page" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["json"] = as_json
    environment.filters["shown"] = shown
    return environment


def _policy(scripts: list[Markup]) -> str:
    """What the page may do: run its own scripts, show its own pictures, and nothing else."""
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )

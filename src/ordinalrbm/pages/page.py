"""From sections to one page of HTML that needs nothing else.

Text from a file stays text: templates escape everything, data for scripts is JSON in which no tag
can begin, and a policy in the page forbids every script but its own.
"""

import base64
import hashlib
import io
import json
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from ordinalrbm import plots
from ordinalrbm.files.survey import LeftOut
from ordinalrbm.plots.style import printable as printable_text
from ordinalrbm.runtime import __version__
from ordinalrbm.runtime.display import printable, printable_json
from ordinalrbm.schema.schema import Schema

_SCRIPTS = ("charts.js", "map.js")
_MORE_SCRIPTS = {"survey.html.j2": ("groups.js",)}
# What could end a script or start a tag, and the two line ends that old JavaScript chokes on.
_UNSAFE = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
_SMALLEST_P = 0.001  # worth telling


Progress = Callable[[str], None]


class Label(NamedTuple):
    """Something with a text and, where that is not the same, a code."""

    text: str
    code: str = ""

    @property
    def plain(self) -> str:
        """Both on one line."""
        return f"{self.text} ({self.code})" if self.code else self.text

    def __html__(self) -> str:
        """On a page: the code small and grey; text that runs from right to left stays by itself."""
        code = Markup(' <small class="code">{}</small>').format(self.code) if self.code else ""
        return Markup("<bdi>{}</bdi>{}").format(self.text, code)


def labels_of(names: Iterable[str], texts: Mapping[str, str]) -> dict[str, Label]:
    """Labels of columns by their names, whether or not the file has texts for them."""
    return {name: _label(name, texts.get(name, "")) for name in names}


def _label(name: str, text: str) -> Label:
    said = " ".join(printable_text(text).split())
    # "Q4. How often do you read?" of the column Q4: the code stands beside it anyway.
    own = re.compile(rf"{re.escape(name)}\s*[.:)–-]\s*(?=\S)", re.IGNORECASE).match(said)
    said = said[own.end() :] if own else said
    return Label(printable_text(name)) if said in ("", name) else Label(said, printable_text(name))


def brief(text: str) -> str:
    """The end of a question whose opening words are left out, as a name: "… Thailand?" is "Thailand"."""
    return text.removeprefix("… ").rstrip("?.: ") if text.startswith("… ") else text


def texts_of(schema: Schema | None) -> dict[str, str]:
    """Texts of the columns that a schema knows."""
    return {} if schema is None else {column.name: column.question for column in schema.columns}


def join_labels(labels: Iterable[Label]) -> Markup:
    """Several labels, with semicolons between them."""
    return Markup("; ").join(escape(label) for label in labels)


class Table(NamedTuple):
    """A table on the page."""

    head: tuple[str, ...]
    rows: list[tuple[Any, ...]]  # text, or numbers, which are sorted as numbers
    formats: tuple[str, ...]  # how numbers are shown, one per column; empty for text

    def cell(self, column: int, value: Any) -> Any:
        """A value as text, or a label as it stands on the page."""
        if not self.formats[column] and hasattr(value, "__html__"):
            return value
        return shown(value, self.formats[column])


def shown(value: Any, how: str) -> str:
    """A value as text in some format; "p" is that of p-values."""
    if value is None or value != value:  # NaN
        return "–"
    if not how:
        return str(value)
    if how == "p":
        return "< 0.001" if value < _SMALLEST_P else f"{value:.3f}"
    return format(value, how).replace("-", "−")


def left_out_table(left_out: tuple[LeftOut, ...]) -> list[tuple[str, Table]]:
    """What was left out and why, with a heading; nothing when nothing was."""
    if not left_out:
        return []
    rows = [(part.what, part.why, part.count or None) for part in left_out]
    return [("Left out", Table(("what", "why", "how many"), rows, ("", "", ",d")))]


class Page(str):
    """HTML, with the tables that are in it by what they are about."""

    tables: dict[str, Table]


def _tables_in(content: object, about: str = "") -> Iterator[tuple[str, Table]]:
    if isinstance(content, Table):
        yield about, content
    elif isinstance(content, dict):
        label = content.get("label", "")
        for name, part in content.items():
            yield from _tables_in(part, " ".join(f"{about} {getattr(label, 'plain', label)} {name}".split()))
    elif isinstance(content, tuple) and len(content) == 2 and isinstance(content[0], str):
        yield from _tables_in(content[1], content[0])  # a title
    elif isinstance(content, list | tuple):
        for part in content:
            yield from _tables_in(part, about)


def render(template: str, title: str, model: Any = None, **content: object) -> Page:
    """The page of a template, which every file can hold; of a model, with how learning went."""
    scripts = [Markup(_file(name)) for name in (*_SCRIPTS, *_MORE_SCRIPTS.get(template, ()))]
    html = (
        _environment()
        .get_template(template)
        .render(
            version=__version__,
            policy=_policy(scripts),
            style=Markup(_file("style.css")),
            scripts=scripts,
            title=title,
            **({} if model is None else _learning(model)),
            **content,
        )
    )
    # Half a character, as broken files have them, cannot be written.
    whole = Page(printable(html.encode("utf-8", "replace").decode("utf-8")))
    whole.tables = dict(_tables_in(content))
    return whole


def _learning(model: Any) -> dict[str, object]:
    """The learning curve, if there is one, whether it still rose, settings that fit on a line, the time.

    Model files do not say how long learning took.
    """
    history, figure = getattr(model, "history_", pd.DataFrame()), None
    measured = [name for name in ("validation", "pseudo_likelihood") if name in history]
    if not history.empty and history[measured].notna().any(axis=None):
        curve = plots.learning_curve(history, best_epoch=model.best_epoch_)
        if hasattr(model, "ratings_"):
            curve.axes[0].set_ylabel("log-likelihood\nper rating")
        figure = drawing(curve, "learning", "learning-curve")
    settings = [
        (name, str(value))
        for name, value in model.get_params().items()
        if value is not None and name not in ("scales", "scale", "item_scales", "verbose", "n_jobs")
    ]
    return {
        "learning": figure,
        "still_rising": figure is not None and model.best_epoch_ == history["epoch"].max(),
        "settings": Table(("setting", "value"), settings, ("", "")),
        "seconds": float(history["seconds"].max()) if len(history.get("seconds", ())) else None,
    }


def as_json(data: object) -> Markup:
    """Data for a script of the page; no character of it can end the script."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(printable_json(text.translate(_UNSAFE)))


def packed(values: np.ndarray) -> str:
    """Compressed bytes as text."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(zlib.compress(little.tobytes(), 9)).decode("ascii")


def packed_json(data: object) -> str:
    """Compressed data for a script of the page."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return packed(np.frombuffer(printable_json(text).encode("utf-8", "replace"), dtype=np.uint8))


def as_svg(figure: Figure, name: str) -> Markup:
    """A figure as compact SVG for a page; ``name`` makes its ids differ from other figures'."""
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


@cache
def _file(name: str) -> str:
    return (resources.files("ordinalrbm.pages") / "page" / name).read_text(encoding="utf-8")


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
    environment.filters["labelled"] = _labelled
    environment.filters["sortable"] = _sortable
    return environment


def _sortable(value: Any) -> str:
    """A number that tables are sorted by, in few digits; nothing where it is not known."""
    if value is None or value != value:  # NaN
        return ""
    return str(float(f"{value:.6g}") if isinstance(value, float) else value)


def _labelled(svg: Markup, label: str) -> Markup:
    """A drawing with a name for those who cannot see it."""
    named = f'role="img" aria-label="{escape(label)}"'
    return Markup(str(svg).replace('role="img"', named, 1))  # Markup's own replace would escape it


def _policy(scripts: list[Markup]) -> str:
    """What the page may do: run its own scripts, show its own pictures, and nothing else."""
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )

"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network.

``pymdownx.arithmatex`` finds ``$…$`` and ``$$…$$`` in the text (not in code); what it marks is
turned into MathML here, when the page is built. A formula that cannot be read is a warning, and
with ``--strict`` a failure.
"""

from __future__ import annotations

import html
import logging
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

from latex2mathml.converter import convert

_MARKED = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
_LOG = logging.getLogger("mkdocs.hooks.mathml")
_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
_NAMED_FUNCTIONS = ("log", "exp")


def on_page_content(content: str, /, *, page: Any, **_: Any) -> str:
    """Replace every marked formula of a page."""

    def drawn(found: re.Match[str]) -> str:
        is_block = found[2] == "["
        source = html.unescape(found[3]).strip()
        try:
            formula = _mathml(source, is_block)
        except Exception as error:
            _LOG.warning("%s: cannot read the formula %r (%s)", page.file.src_uri, source, error)
            return found[0]
        return f'<div class="formula">{formula}</div>' if is_block else formula

    return _MARKED.sub(drawn, content)


def _mathml(source: str, is_block: bool) -> str:
    # What the converter does not know it leaves as it is: a bare "&", which is no XML, or "\name".
    tree = ElementTree.fromstring(convert(source, display="block" if is_block else "inline"))
    for part in tree.iter():
        if (part.text or "").startswith("\\"):
            raise ValueError(f"unknown command {part.text}")
        _space_functions(part)
    ElementTree.register_namespace("", _NAMESPACE)
    return ElementTree.tostring(tree, encoding="unicode")


def _space_functions(row: ElementTree.Element) -> None:
    """A thin space between a function's name and what it is of, unless that is in brackets."""
    if row.tag != f"{{{_NAMESPACE}}}mrow":
        return
    parts = list(row)
    for place in range(len(parts) - 1, 0, -1):
        name, after = "".join(parts[place - 1].itertext()), "".join(parts[place].itertext())
        if name.rstrip("2") in _NAMED_FUNCTIONS and not after.startswith("("):
            space = ElementTree.Element(f"{{{_NAMESPACE}}}mspace", width="0.17em")
            row.insert(place, space)

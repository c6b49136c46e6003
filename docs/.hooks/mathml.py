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

_MARKED = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL
)
_LOG = logging.getLogger("mkdocs.hooks.mathml")


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
    formula = convert(source, display="block" if is_block else "inline")
    tree = ElementTree.fromstring(formula)  # an unknown environment leaves a bare "&"
    unknown = [part.text for part in tree.iter() if (part.text or "").startswith("\\")]
    if unknown:
        raise ValueError(f"unknown command {unknown[0]}")
    return formula

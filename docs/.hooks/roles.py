"""Names in docstrings, ``:meth:`fit```, as links to where they are described, on this page or another."""

from __future__ import annotations

import re
from bisect import bisect
from typing import Any

_ROLE = re.compile(r":(?:meth|func|class|mod|attr):<code>~?([\w.]+)</code>")
_ANCHOR = re.compile(r'<h\d id="(ordinalrbm[\w.]*)"')


def on_page_content(content: str, /, **_: Any) -> str:
    """Replace every role of a page."""
    anchors = [(found.start(), found[1]) for found in _ANCHOR.finditer(content)]
    places = [place for place, _ in anchors]

    def linked(found: re.Match[str]) -> str:
        name = found[1]
        before = anchors[: bisect(places, found.start())]
        target = _target(name, [anchor for _, anchor in anchors], [a for _, a in before])
        shown = f"<code>{name.rsplit('.', 1)[-1]}</code>"
        if target is not None:
            return f'<a href="#{target}">{shown}</a>'
        # Left to mkdocs-autorefs, which knows all pages, and shows plain text if none has it.
        full = name if name.startswith("ordinalrbm") else f"ordinalrbm.{name}"
        return f'<autoref identifier="{full}" optional>{shown}</autoref>'

    return _ROLE.sub(linked, content)


def _target(name: str, anchors: list[str], before: list[str]) -> str | None:
    """The anchor that is meant: of a member of the object described, or the only one so named."""
    here = before[-1] if before else ""
    for owner in (here, here.rpartition(".")[0]):
        if f"{owner}.{name}" in anchors:
            return f"{owner}.{name}"
    same = [anchor for anchor in anchors if anchor == name or anchor.endswith(f".{name}")]
    return same[0] if len(same) == 1 else None

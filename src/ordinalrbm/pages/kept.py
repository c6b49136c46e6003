"""The tables of a page, kept for whoever wants them in another form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_kept: ContextVar[dict[str, Any] | None] = ContextVar("kept", default=None)


@contextmanager
def tables_kept() -> Iterator[dict[str, Any]]:
    """All tables (`page.Table`) of the pages that are made inside, by what they are about."""
    found: dict[str, Any] = {}
    before = _kept.set(found)
    try:
        yield found
    finally:
        _kept.reset(before)


def keep(content: object, about: str = "") -> None:
    """Keep the tables in what a page shows, by the names, labels and titles of what they are in."""
    kept = _kept.get()
    if kept is None:
        return
    if hasattr(content, "formats"):
        kept[about] = content
    elif isinstance(content, dict):
        label = content.get("label", "")
        for name, part in content.items():
            keep(part, " ".join(f"{about} {getattr(label, 'plain', label)} {name}".split()))
    elif isinstance(content, tuple) and len(content) == 2 and isinstance(content[0], str):
        keep(content[1], content[0])  # a title
    elif isinstance(content, list | tuple):
        for part in content:
            keep(part, about)

"""What a reader sees instead of the names of columns: the question's text, its code beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from markupsafe import Markup, escape

from ordinalrbm.plots.style import printable
from ordinalrbm.schema.schema import Schema


class Label(NamedTuple):
    """Something with a text and, where that is not the same, a code."""

    text: str
    code: str = ""

    @property
    def plain(self) -> str:
        """Both on one line.

        Examples
        --------
        >>> Label("Do you like tea?", "q1").plain, Label("q2").plain
        ('Do you like tea? (q1)', 'q2')
        """
        return f"{self.text} ({self.code})" if self.code else self.text

    def __html__(self) -> str:
        """On a page: the code small and grey; text that runs from right to left stays by itself."""
        code = Markup(' <small class="code">{}</small>').format(self.code) if self.code else ""
        return Markup("<bdi>{}</bdi>{}").format(self.text, code)


def labels_of(names: Iterable[str], texts: Mapping[str, str]) -> dict[str, Label]:
    """Labels of columns by their names, whether or not the file has texts for them.

    Examples
    --------
    >>> labels_of(["q1", "q2"], {"q1": "Q1. Do you like tea?"})
    {'q1': Label(text='Do you like tea?', code='q1'), 'q2': Label(text='q2', code='')}
    """
    return {name: _label(name, texts.get(name, "")) for name in names}


def _label(name: str, text: str) -> Label:
    said = " ".join(printable(text).split())
    # "Q4. How often do you read?" of the column Q4: the code stands beside it anyway.
    own = re.compile(rf"{re.escape(name)}\s*[.:)–-]\s*(?=\S)", re.IGNORECASE).match(said)
    said = said[own.end() :] if own else said
    return Label(printable(name)) if said in ("", name) else Label(said, printable(name))


def texts_of(schema: Schema | None) -> dict[str, str]:
    """Texts of the columns that a schema knows.

    Examples
    --------
    >>> from ordinalrbm.schema.schema import Column
    >>> texts_of(Schema((Column("q1", "ordinal", question="Do you like tea?"),)))
    {'q1': 'Do you like tea?'}
    """
    return {} if schema is None else {column.name: column.question for column in schema.columns}


def listed(labels: Iterable[Label]) -> Markup:
    """Several labels in a row."""
    return Markup("; ").join(escape(label) for label in labels)

"""How results look: as text in a terminal, as HTML in a notebook; names out of files escaped."""

import sys
from collections.abc import Iterator
from html import escape
from typing import Any

# Lines of a table that are shown as text and as HTML; whoever wants all of them has the table.
_MOST_LINES, _MOST_LINES_OF_HTML = 24, 60
# Escape sequences begin with characters of the first kinds; those of the last ones reverse the
# order of what follows. Marks of direction (U+200E, U+200F) stay: Arabic and Hebrew need them.
_CODES = (
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
_ESCAPES = {code: f"\\u{code:04x}" for code in _CODES}
_TWICE = {code: f"\\\\u{code:04x}" for code in _CODES}


class Readable:
    """A result that prints as sentences and tables."""

    def _parts(self) -> Iterator[Any]:
        """Sentences (text) and tables (data frames), in the order in which they are read."""
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = {"max_rows": _MOST_LINES}
        parts = self._parts()
        return "\n".join(p if isinstance(p, str) else p.to_string(**shown, **_layout(p)) for p in parts)

    def _repr_html_(self) -> str:
        shown = {"max_rows": _MOST_LINES_OF_HTML, "border": 0}  # to_html escapes what it writes
        return "\n".join(
            f"<p>{escape(p)}</p>" if isinstance(p, str) else p.to_html(**shown, **_layout(p))
            for p in self._parts()
        )


def _layout(table: Any) -> dict[str, Any]:
    """Numbers with three digits; lines that are only counted have no number."""
    is_counted = type(table.index).__name__ == "RangeIndex"
    return {"float_format": "{:.3g}".format, "index": not is_counted, "na_rep": ""}


def two_digits(table: Any) -> Any:
    """The table with its numbers as text with two digits after the point."""
    return table.map(lambda one: one if not isinstance(one, float) else f"{one:.2f}" if one == one else "")


def printable(text: str) -> str:
    """The text with characters escaped that control a terminal or the direction of writing."""
    return text.translate(_ESCAPES)


def printable_json(text: str) -> str:
    """JSON whose strings, once read, are what `printable` makes of them."""
    return text.translate(_TWICE)


def print_to_stderr(text: str) -> None:
    """Print on standard error, if there is one, so that results stay alone on standard output."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)

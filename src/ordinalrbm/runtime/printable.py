"""Names out of files as they can be shown: what would steer a terminal or turn text is escaped."""

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


def printable(text: str) -> str:
    """The text with characters escaped that control a terminal or the direction of writing."""
    return text.translate(_ESCAPES)


def printable_json(text: str) -> str:
    """JSON whose strings, once read, are what `printable` makes of them."""
    return text.translate(_TWICE)

"""CSV files and schema files, whole and damaged."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

DELIMITERS = [",", ";", "\t", "|"]
LETTERS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="".join(DELIMITERS))
FREE = st.one_of(
    st.text(LETTERS, max_size=6),
    st.sampled_from(["O'Hara", 'say "hi"', "a, b", "c;d", "two\nlines", "  blanks  ", "日本", "=1+1"]),
)
NAMES = st.one_of(st.sampled_from(["Q1", "q2", "id", "weight", "age", "é"]), st.text(LETTERS, max_size=5))
WORDS = [
    ["never", "sometimes", "often"],
    ["Strongly disagree", "Disagree", "Neither", "Agree", "Strongly agree"],
    ["yes", "no", "don't know"],
    ["low", "medium", "high", "n/a"],
    ["1", "2", "3", "4", "5"],
    ["1", "2", "3", "9", "99", "-1"],
    ["0", "1"],
    ["18-24", "25-34", "35+"],
]
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
    st.integers(0, 999).map(lambda k: f"{k:03d}"),
    st.integers(0, 99).map(lambda k: f"{k / 10:.1f}".replace(".", ",")),
    st.sampled_from(["1e5", "+3", "-0", "0x1F", "inf", "1_000"]),
)
EMPTY = st.sampled_from(["", " ", "NA", "n/a", "NULL", ".", "-", "NaN", "None"])


@dataclass
class TextFile:
    """The cells that were written, what they became, and whether that was damaged afterwards."""

    names: list[str]
    rows: list[list[str]]
    content: bytes
    ending: str
    delimiter: str
    damaged: bool


@st.composite
def columns(draw: Any, n: int) -> list[str]:
    cells = draw(
        st.one_of(
            *[st.just(st.sampled_from(words)) for words in WORDS],
            *[st.just(st.sampled_from(words)) for words in WORDS],
            st.just(NUMBERS),
            st.just(FREE),
        )
    )
    empty = draw(st.sampled_from([cells, st.just(""), EMPTY]))
    return draw(st.lists(st.one_of(cells, cells, empty), min_size=n, max_size=n))


@st.composite
def text_files(draw: Any, ratings: bool = False) -> TextFile:
    n, width = draw(st.integers(0, 3).map(lambda k: 3 * k or 1)), draw(st.integers(1, 4))
    if ratings:
        names = draw(st.sampled_from([["user", "item", "rating"], ["userId", "movie", "Stars"]]))
        ids = st.one_of(st.integers(1, 5).map(str), FREE)
        stars = st.sampled_from([["1", "2", "3"], ["0.5", "1.0", "1.5"], ["1", "good", ""]])
        kind, cells = draw(st.booleans()), draw(stars)
        id_cells = st.integers(1, 50).map(str) if kind else ids
        rows = draw(
            st.lists(
                st.tuples(id_cells, id_cells, st.sampled_from(cells)).map(list),
                min_size=1,
                max_size=6,
                unique_by=lambda row: (row[0].strip(), row[1].strip()),
            )
        )
    else:
        names = draw(st.lists(NAMES, min_size=width, max_size=width, unique_by=str.strip))
        rows = [list(row) for row in zip(*(draw(columns(n)) for _ in names), strict=True)]
    ending = draw(st.sampled_from([".csv", ".csv", ".tsv", ".csv.gz"]))
    delimiter = "\t" if ending == ".tsv" else draw(st.sampled_from(DELIMITERS))
    content = _written(draw, names, rows, delimiter)
    damaged = draw(st.integers(0, 3)) == 0
    if damaged:
        content = draw(_damage(content))
    if ending.endswith("gz"):
        content = gzip.compress(content)
    if damaged and draw(st.integers(0, 5)) == 0:
        content = draw(st.one_of(st.binary(max_size=80), st.just(content[: len(content) // 2])))
    return TextFile(names, rows, content, ending, delimiter, damaged)


def _written(draw: Any, names: list[str], rows: list[list[str]], delimiter: str) -> bytes:
    text = io.StringIO(newline="")
    # A lone empty cell must be in quotes, else the line is blank.
    quoting = draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerows([names, *rows])
    content = text.getvalue()
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]))
    try:
        return content.encode(encoding)
    except UnicodeEncodeError:
        return content.encode()


@st.composite
def _damage(draw: Any, content: bytes) -> bytes:
    place = draw(st.integers(0, len(content)))
    extra = draw(
        st.sampled_from(
            [
                b"\0",
                b'"',
                b",",
                b";;;",
                b"\n",
                b"\r",
                b"\xff",
                b"\xfe\xff",
                b"x" * 10_000,
                b"\x81",
                b"a,b,c,d,e,f\n",
                b"\xef\xbb\xbf",
                b"sep=|\n",
                b"\x1f\x8b",
            ]
        )
    )
    how = draw(st.integers(0, 2))
    if how == 0:
        return content[:place] + extra + content[place:]
    if how == 1:
        return content[:place]
    return content[:place] + content[place + draw(st.integers(1, 9)) :]


# ---- schema files -------------------------------------------------------------------------------

TOML_VALUES = st.sampled_from(
    [
        '"ordinal"',
        '"weight"',
        '"id"',
        '"ordnal"',
        "true",
        "[]",
        "[1, 2]",
        "[1, 1]",
        '["never", "often"]',
        '["often", "sometimes", "never"]',
        "[1, 2, 3]",
        '["a"]',
        "[nan]",
        "[inf, 1]",
        "[[1], [2]]",
        "[true, false]",
        '["1", 2]',
        "[99]",
        '"text"',
        "2020-01-01",
        "{a = 1}",
        '["n/a"]',
        "[1.5, 2]",
        '["no such code"]',
        "[99999999999999999999999]",
        '["", " "]',
    ]
)
FIELDS = st.sampled_from(
    ["role", "role", "levels", "levels", "names", "missing", "missing_names", "question", "roll"]
)


@st.composite
def schema_texts(draw: Any, whole: str, names: list[str]) -> str:
    """A schema that a person has written or corrected, rightly or not."""
    how = draw(st.integers(0, 4))
    if how == 0:
        return whole
    if how == 1:
        place, n = draw(st.integers(0, len(whole))), draw(st.integers(0, 20))
        return whole[:place] + draw(st.text(max_size=5)) + whole[place + n :]
    keys = st.sampled_from([*(f'columns."{name}"' for name in names), "columns.nobody", "rows"])
    if draw(st.integers(0, 5)):
        keys = st.sampled_from([f'columns."{name}"' for name in names])
    chosen = draw(st.lists(keys, max_size=3, unique=draw(st.integers(0, 9)) > 0))
    lines = []
    for key in chosen:
        fields = draw(st.dictionaries(FIELDS, TOML_VALUES, max_size=2))
        lines += [f"[{key}]", *(f"{field} = {value}" for field, value in fields.items())]
    return "\n".join(lines)

"""The page of a schema: what each column of a file was taken for, with counts."""

from collections import Counter
from typing import NamedTuple

from ordinalrbm.files.survey import Held
from ordinalrbm.pages.page import render
from ordinalrbm.schema.schema import BLANK, Code, Column, Schema
from ordinalrbm.schema.source import Source, count_codes, position_finder

_MOST_LINES = 25  # of a column with many categories
_WITH_CODES = ("ordinal", "nominal", "background", "fieldwork")


class _Line(NamedTuple):
    """A code of a column on the page."""

    code: str  # nothing where it is the name
    name: str
    sort: str  # of non-answer, or nothing
    times: int
    width: float  # of its bar, in percent


def schema_page(source: Source, schema: Schema) -> str:
    """A page about the columns of a file: their kinds, levels and counts, doubtful ones first.

    Parameters
    ----------
    source : Source
        The file, as `files.formats.read` gives it.
    schema : Schema
        What its columns were taken for.

    Examples
    --------
    >>> import pandas as pd
    >>> from ordinalrbm import pages
    >>> from ordinalrbm.files.formats import from_frame
    >>> from ordinalrbm.schema.infer import propose
    >>> source = from_frame(pd.DataFrame({"Q1": ["never", "often", "<b>"] * 9}), "Pupils")
    >>> page = pages.schema_page(source, propose(source))
    >>> "Q1" in page, "<b>" in page
    (True, False)
    """
    columns = [column for column in schema.columns if column.name in source.frame]
    doubtful = sorted((c for c in columns if c.is_doubtful), key=lambda c: c.confidence)
    return render(
        "schema.html.j2",
        source.name,
        n_rows=len(source.frame),
        n_columns=len(columns),
        kinds=Counter(column.role for column in columns),
        doubtful=[_article(source, column) for column in doubtful],
        sure=[_article(source, column) for column in columns if not column.is_doubtful],
    )


def _article(source: Source, column: Column) -> dict[str, object]:
    lines, more = _lines(_counts(source, column), column)
    return {"column": column, "lines": lines, "more": more}


def _counts(source: Source, column: Column) -> dict[Code, int]:
    try:
        counts = count_codes(source.frame[column.name])
    except TypeError:  # lists and the like cannot be counted
        return {}
    tags = source.tags.get(column.name)
    if tags is not None:
        counts |= Counter(tags[tags != ""].tolist())
    if BLANK in column.levels:
        counts[BLANK] = int((Held.of(source, column).level == column.levels.index(BLANK)).sum())
    return counts


def _lines(counts: dict[Code, int], column: Column) -> tuple[list[_Line], int]:
    find_level, find_missing = position_finder(column.levels), position_finder(column.missing)
    levels, missing = dict.fromkeys(column.levels, 0), dict.fromkeys(column.missing, 0)
    others: dict[Code, int] = {}
    for code, count in sorted(counts.items(), key=lambda item: -item[1]):
        if find_level(code) >= 0:
            levels[column.levels[find_level(code)]] += count
        elif find_missing(code) >= 0:
            missing[column.missing[find_missing(code)]] += count
        elif column.role in _WITH_CODES:  # of ids and numbers, other values are not worth a line
            others[code] = count
    if column.role == "nominal":
        levels = dict(sorted(levels.items(), key=lambda item: -item[1]))
    answers = {**levels, **others}
    shown = dict(list(answers.items())[:_MOST_LINES]) | missing
    names = dict(zip(column.levels, column.names, strict=True))
    names |= zip(column.missing, column.missing_names, strict=True)
    most = max([*answers.values(), *missing.values(), 1])
    lines = []
    for code, count in shown.items():
        name = names.get(code, str(code))
        number = "" if name == str(code) else str(code)
        lines.append(_Line(number, name, column.sorts.get(code, ""), count, 100 * count / most))
    return lines, max(len(answers) - _MOST_LINES, 0)

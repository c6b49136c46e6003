"""What the columns of a survey file mean: roles, levels in order, codes that are no answer.

A schema can be written as TOML, corrected by hand, and read again; a file that mentions only some
columns corrects a proposal in these.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from ordinalrbm.data.scales import shorten
from ordinalrbm.errors import DataError

Code = int | float | str
Role = Literal["ordinal", "nominal", "numeric", "background", "weight", "id", "ignored"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class Column:
    """What one column of a file was taken for.

    Attributes
    ----------
    name : str
    role : {"ordinal", "background", "weight", "id", "ignored"}
    question : str
        The variable label, or nothing.
    levels : tuple of codes
        Ordinal columns: codes as they stand in the file, from lowest to highest. Background
        columns: codes that have names, in no order.
    names : tuple of str
        What the levels are called, as many as there are levels and all different.
    missing : tuple of codes
        Codes that stand in the file but are no answer ("don't know", "refused", user-missing);
        Stata's extended missing values are ".a" to ".z".
    missing_names : tuple of str
        What these are called.
    reason : str
        Why it was taken for that, in words.
    """

    name: str
    role: Role
    question: str = ""
    levels: tuple[Code, ...] = ()
    names: tuple[str, ...] = ()
    missing: tuple[Code, ...] = ()
    missing_names: tuple[str, ...] = ()
    reason: str = ""
    missing_sorts: tuple[str, ...] = ()
    confidence: float = 1.0


@dataclass(frozen=True)
class Schema:
    """All columns of a file, in its order."""

    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(column for column in self.columns if column.name == name)

    def names(self, role: Role) -> list[str]:
        """Names of the columns with a role, in the order of the file."""
        return [column.name for column in self.columns if column.role == role]


# ---- JSON -------------------------------------------------------------------------------------


def to_json(schema: Schema) -> dict[str, Any]:
    """The schema as plain dictionaries and lists, for model files.

    Examples
    --------
    >>> schema = Schema((Column("Q1", "ordinal", levels=(1, 2), names=("no", "yes")),))
    >>> from_json(to_json(schema)) == schema
    True
    """
    return {"columns": [json.loads(json.dumps(asdict(column))) for column in schema.columns]}


def from_json(content: Mapping[str, Any], where: str = "The model file") -> Schema:
    """The schema that `to_json` wrote."""
    try:
        columns: list[dict[str, Any]] = [
            {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
            for entry in content["columns"]
        ]
        return Schema(tuple(Column(**fields) for fields in columns))
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{where} lacks a part of its schema ({error}); save the model again."
        ) from error


# ---- writing TOML -----------------------------------------------------------------------------


def to_toml(schema: Schema) -> str:
    r"""The schema as TOML, to be corrected by hand; reasons stand in comments.

    Examples
    --------
    >>> column = Column("Q 1", "ordinal", levels=(1, 2), names=("no", "yes"), reason="known")
    >>> print(to_toml(Schema((column,))))
    # What each column is: ordinal, background, weight, id or ignored.
    # Levels are codes from lowest to highest; codes under missing are no answer.
    <BLANKLINE>
    [columns."Q 1"]  # known
    role = "ordinal"
    levels = [1, 2]
    names = ["no", "yes"]
    <BLANKLINE>
    """
    head = (
        "# What each column is: ordinal, background, weight, id or ignored.\n"
        "# Levels are codes from lowest to highest; codes under missing are no answer.\n"
    )
    return "\n".join([head, *(_write_column(column) for column in schema.columns)])


def _write_column(column: Column) -> str:
    # A comment must not hold line ends or control characters.
    reason = " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", column.reason).split())
    comment = f"  # {reason}" if column.reason else ""
    lines = [f"[columns.{_key(column.name)}]{comment}", f"role = {_text(column.role)}"]
    if column.question:
        lines.append(f"question = {_text(column.question)}")
    for field in ("levels", "names", "missing", "missing_names"):
        values = getattr(column, field)
        if values:
            lines.append(f"{field} = {_array(values)}")
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(text: str) -> str:
    # TOML and JSON escape alike, but for one character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _array(values: Iterable[Code]) -> str:
    items = [_text(value) if isinstance(value, str) else repr(value) for value in values]
    line = ", ".join(items)
    if len(line) <= 80:
        return f"[{line}]"
    return "[\n" + "".join(f"    {item},\n" for item in items) + "]"


# ---- reading TOML -----------------------------------------------------------------------------

_LISTS = ("levels", "names", "missing", "missing_names")
_FIELDS = ("role", "question", *_LISTS)


def from_toml(text: str, where: str = "The schema") -> Schema:
    r"""The schema that `to_toml` wrote, or a whole one written by hand; `where` is for errors.

    Examples
    --------
    >>> from_toml('[columns.Q1]\nrole = "ordinal"\nlevels = [1, 2, 3]').column("Q1").names
    ('1', '2', '3')
    """
    tables = _parse(text, where)
    for name, table in tables.items():
        if "role" not in table:
            raise DataError(
                f"{where} gives column {name!r} no role; add role = one of {_listed(ROLES)}."
            )
    blank = Schema(tuple(Column(name, table["role"]) for name, table in tables.items()))
    return override(blank, text, where)


def override(proposal: Schema, text: str, where: str = "The schema") -> Schema:
    r"""A proposal with what the TOML says in its place, column by column and field by field.

    Levels keep the names that the proposal has for them. A code that becomes a level is missing
    no more, and the other way round.

    Examples
    --------
    >>> proposal = Schema((Column("Q1", "ordinal", levels=(1, 2, 9), names=("no", "yes", "9")),))
    >>> override(proposal, "[columns.Q1]\nmissing = [9]").column("Q1").levels
    (1, 2)
    """
    tables = _parse(text, where)
    known = [column.name for column in proposal.columns]
    for name in tables:
        if name not in known:
            raise DataError(
                f"{where} names the column {name!r}, which the data does not have"
                f"{did_you_mean(name, known)}; correct the name or remove it."
            )
    columns = (
        _corrected(column, tables[column.name], where) if column.name in tables else column
        for column in proposal.columns
    )
    return Schema(tuple(columns))


def _parse(text: str, where: str) -> dict[str, dict[str, Any]]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where} is not TOML ({error}); correct it there.") from error
    for name in content:
        if name != "columns":
            raise DataError(
                f"{where} has {name!r} at its top, where only columns can stand; write "
                f"[columns.{_key(name)}]."
            )
    tables = content.get("columns", {})
    if not isinstance(tables, dict):
        raise DataError(f"{where} must have tables under columns; write [columns.NAME].")
    for name, table in tables.items():
        _check_table(name, table, where)
    return tables


def _check_table(name: str, table: Any, where: str) -> None:
    if not isinstance(table, dict):
        raise DataError(
            f"{where} says {table!r} of column {name!r}; write [columns.{_key(name)}] and its role."
        )
    for field, value in table.items():
        if field not in _FIELDS:
            # A column's name with a dot in it reads like a table in a table.
            raise DataError(
                f"{where}, column {name!r}: {field!r} is none of {_listed(_FIELDS)}"
                f"{did_you_mean(field, _FIELDS)}; correct it, and put names with dots in quotes."
            )
        _check_field(name, field, value, where)


def _check_field(name: str, field: str, value: Any, where: str) -> None:
    place = f"{where}, column {name!r}"
    if field == "role" and value not in ROLES:
        raise DataError(
            f"{place}: the role {value!r} is not known{did_you_mean(str(value), ROLES)}; write "
            f"{_listed(ROLES)}."
        )
    if field == "question" and not isinstance(value, str):
        raise DataError(f"{place}: the question is {value!r}; put it in quotes.")
    if field not in _LISTS:
        return
    if not isinstance(value, list):
        raise DataError(f"{place}: {field} is {value!r}; write a list, [...].")
    only_text = field in ("names", "missing_names")
    for entry in value:
        if isinstance(entry, str) or (not only_text and _is_number(entry)):
            continue
        kind = "text in quotes" if only_text else "numbers or text"
        raise DataError(f"{place}: {entry!r} cannot stand in {field}; write {kind}.")
    twice = next((entry for k, entry in enumerate(value) if entry in value[:k]), None)
    if twice is not None and field != "missing_names":
        raise DataError(f"{place}: {twice!r} stands twice in {field}; remove one.")


def _is_number(entry: Any) -> bool:
    return isinstance(entry, int | float) and not isinstance(entry, bool) and math.isfinite(entry)


def _corrected(column: Column, table: dict[str, Any], where: str) -> Column:
    place = f"{where}, column {column.name!r}"
    levels, missing = _codes(column, table, place)
    known_names = dict(zip(column.missing, column.missing_names, strict=True))
    known_names |= zip(column.levels, column.names, strict=True)
    names = table.get("names", [known_names.get(code, str(code)) for code in levels])
    missing_names = table.get("missing_names", [known_names.get(c, str(c)) for c in missing])
    for what, codes, given in (("levels", levels, names), ("missing", missing, missing_names)):
        if len(codes) != len(given):
            raise DataError(
                f"{place}: there are {len(given)} names for {len(codes)} codes under {what}; give "
                "one name for each."
            )
    role = table.get("role", column.role)
    if role == "ordinal" and len(levels) < 2:
        raise DataError(
            f"{place}: an ordinal column needs at least two levels; add levels = [...] from lowest "
            "to highest."
        )
    if len(set(names)) < len(names):  # where a code's text is another one's name
        names = [f"{code} {name}" for code, name in zip(levels, names, strict=True)]
    unchanged = (role, tuple(levels)) == (column.role, column.levels)
    return replace(
        column,
        role=role,
        question=table.get("question", column.question),
        levels=tuple(levels),
        names=tuple(names),
        missing=tuple(missing),
        missing_names=tuple(missing_names),
        reason=column.reason if unchanged else f"{where} says so",
    )


def _codes(column: Column, table: dict[str, Any], place: str) -> tuple[list[Code], list[Code]]:
    """Levels and missing codes; what the table says of a code counts."""
    both = set(table.get("levels", [])) & set(table.get("missing", []))
    if both:
        raise DataError(
            f"{place}: {min(both, key=str)!r} stands under levels and under missing; remove one."
        )
    known = [*column.levels, *column.missing]
    texts = [code for code in known if isinstance(code, str)]
    for code in [*table.get("levels", []), *table.get("missing", [])]:
        # A number may be a level that nobody chose; text that nobody wrote is a slip.
        if known and isinstance(code, str) and code not in known:
            raise DataError(
                f"{place}: the code {code!r} is not in the data, only {shorten(known)}"
                f"{did_you_mean(code, texts)}; correct it."
            )
    levels = table.get("levels", [c for c in column.levels if c not in table.get("missing", [])])
    missing = table.get("missing", [c for c in column.missing if c not in table.get("levels", [])])
    return levels, missing


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A known word that looks like this one, to put into an error message; or nothing."""
    by_case = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), by_case, n=1)
    return f" (did you mean {by_case[close[0]]!r}?)" if close else ""


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"

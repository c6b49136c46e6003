"""Schemas as TOML: written to be corrected by hand, and read again.

A file that mentions only some columns, or only some fields, corrects a proposal in these.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import tomlkit

from ordinalrbm.data.scales import shorten
from ordinalrbm.errors import DataError
from ordinalrbm.schema.schema import ROLES, Code, Column, Schema, did_you_mean
from ordinalrbm.schema.source import alike
from ordinalrbm.schema.vocabulary import SORTS, sort_of

_WIDTH = 88  # letters of a list in one line
_MOST_REASON = 110  # letters of a comment
_CODES = ("levels", "missing")
_LISTS = ("levels", "names", "missing", "missing_names", "missing_sorts")

# ---- writing ----------------------------------------------------------------------------------

_HEAD = (
    "# What each column is: ordinal, nominal, numeric, background, fieldwork, weight, id or ignored.\n"
    "# Levels are codes from lowest to highest; codes under missing are no answer. Columns with\n"
    "# the same codes share a scale: what is changed there is changed in all of them. After # stand\n"
    "# how sure the proposal is, and why.\n"
)


def to_toml(schema: Schema, proposal: Schema | None = None) -> str:
    r"""The schema as TOML, to be corrected by hand; reasons stand in comments.

    Each column is a line; codes and their names, which many columns share, are written once. What
    differs from the proposal that the text will correct is written, also where it is empty.

    Examples
    --------
    >>> column = Column("Q 1", "ordinal", levels=(1, 2), names=("no", "yes"), reason="known")
    >>> print(to_toml(Schema((column,))).partition("\n\n")[2])
    [scales."Q 1"]
    levels = [1, 2]
    names = ["no", "yes"]
    <BLANKLINE>
    [columns]
    "Q 1" = {role = "ordinal", scale = "Q 1"}  # 1.00: known
    <BLANKLINE>
    """
    scales: dict[str, str] = {}  # what is said of codes, and the first column that has them
    lines = []
    for column in schema.columns:
        proposed = None if proposal is None else proposal.column(column.name)
        said = _write_codes(column, proposed)
        fields = tomlkit.inline_table()
        fields.append("role", column.role)
        if said:
            fields.append("scale", scales.setdefault(said, column.name))
        if column.question or (proposed and proposed.question):
            fields.append("question", column.question)
        reason = f"  # {column.confidence:.2f}: {_comment(column.reason)}" if column.reason else ""
        lines.append(f"{_key(column.name)} = {fields.as_string()}{reason}")
    parts = [f"[scales.{_key(name)}]\n{said}" for said, name in scales.items()]
    return "\n".join([_HEAD, *parts, "\n".join(["[columns]", *lines]) + "\n"])


def _write_codes(column: Column, proposed: Column | None) -> str:
    """The lines about codes, without those that are as they are by default."""
    default = {
        "names": tuple(map(str, column.levels)),
        "missing_names": tuple(map(str, column.missing)),
        "missing_sorts": tuple(map(sort_of, column.missing_names)),
    }
    lines = []
    for name in _LISTS:
        values = getattr(column, name)
        if (values and values != default.get(name)) or (proposed and values != getattr(proposed, name)):
            # Tables and arrays of tomlkit grow in quadratic time, and towns are many.
            items = [tomlkit.item(value).as_string() for value in values]
            line = f"[{', '.join(items)}]"
            if len(line) > _WIDTH:
                line = "[\n" + "".join(f"    {item},\n" for item in items) + "]"
            lines.append(f"{name} = {line}\n")
    return "".join(lines)


def _comment(text: str) -> str:
    # A comment must not hold line ends or control characters.
    plain = " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", text).split())
    return plain if len(plain) <= _MOST_REASON else plain[: _MOST_REASON - 1] + "…"


def _key(name: str) -> str:
    return tomlkit.key(name).as_string()


# ---- reading ----------------------------------------------------------------------------------


def override(proposal: Schema, text: str, where: str = "The schema") -> Schema:
    r"""A proposal with what the TOML says in its place, column by column and field by field.

    Levels keep the names that the proposal has for them. A code that becomes a level is missing
    no more, and the other way round.

    Examples
    --------
    >>> proposal = Schema((Column("Q1", "ordinal", levels=(1, 2, 9), names=("no", "yes", "?")),))
    >>> override(proposal, "[columns.Q1]\nmissing = [9]").column("Q1").levels
    (1, 2)
    """
    columns = {column.name: column for column in proposal.columns}
    for name, said in _parse(text, where).items():
        if name not in columns:
            raise DataError(
                f"{where} names the column {name!r}, which the data does not have"
                f"{did_you_mean(name, columns)}; correct the name or remove it."
            )
        columns[name] = _corrected(columns[name], said, where)
    return Schema(tuple(columns.values()))


def _parse(text: str, where: str) -> dict[str, dict[str, Any]]:
    try:
        return _checked(tomllib.loads(text), where)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where} is not TOML ({error}); correct it there.") from error
    except DataError:
        raise
    except (RecursionError, ValueError, OverflowError) as error:  # also where a number is to be shown
        raise DataError(
            f"{where} has lists nested too deeply, or a number with too many digits; a field is at most a "
            "list, and such numbers stand in quotes."
        ) from error


def _checked(content: dict[str, Any], where: str) -> dict[str, dict[str, Any]]:
    scales, columns = content.pop("scales", {}), content.pop("columns", {})
    for key in content:
        raise DataError(f"{where} has {key!r} beside scales and columns; write [columns.{_key(key)}].")
    for kind, tables, known in (
        ("scale", scales, _LISTS),
        ("column", columns, ("role", "question", *_LISTS, "scale")),
    ):
        if not isinstance(tables, dict):
            raise DataError(f"{where} must have tables under {kind}s; write [{kind}s.NAME].")
        for name, table in tables.items():
            _check_table(f"{kind} {name!r}", f"{kind}s.{_key(name)}", table, where, known)
    return {name: _with_scale(name, table, scales, where) for name, table in columns.items()}


def _with_scale(name: str, table: Mapping[str, Any], scales: Mapping[str, Any], where: str) -> dict[str, Any]:
    if "scale" not in table:
        return dict(table)
    scale = table["scale"]
    if scale not in scales:
        raise DataError(
            f"{where}, column {name!r}: there is no scale {scale!r}"
            f"{did_you_mean(scale, scales)}; write [scales.{_key(scale)}] or correct the name."
        )
    return {**scales[scale], **table}


def _check_table(name: str, key: str, table: object, where: str, known: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise DataError(f"{where} says {table!r} of {name}; write [{key}] and what it is.")
    for field, value in table.items():
        if field not in known:
            # A column's name with a dot in it reads like a table in a table.
            raise DataError(
                f"{where}, {name}: {field!r} is none of {_listed(known)}"
                f"{did_you_mean(field, known)}; correct it, and put names with dots in quotes."
            )
        wrong = _wrong(field, value)
        if wrong:
            raise DataError(f"{where}, {name}: {wrong}.")


def _wrong(field: str, value: Any) -> str:
    """What is wrong with a field, and what to do; nothing where it is right."""
    if field in _LISTS and not isinstance(value, list):
        return f"{field} is {value!r}; write a list, [...]"
    known = {"role": ROLES, "missing_sorts": SORTS}.get(field)
    what = "numbers or text" if field in _CODES else "text in quotes"
    for entry in value if field in _LISTS else [value]:
        is_number = field in _CODES and type(entry) in (int, float) and math.isfinite(entry)
        if not isinstance(entry, str) and not is_number:
            return f"{entry!r} cannot stand in {field}; write {what}"
        if known and entry not in known:
            return f"the {field} {entry!r} is not known{did_you_mean(entry, known)}; write {_listed(known)}"
    twice = [entry for entry in value if field in (*_CODES, "names") and value.count(entry) > 1]
    return f"{twice[0]!r} stands twice in {field}; remove one" if twice else ""


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"


# ---- one column -------------------------------------------------------------------------------


def _corrected(column: Column, said: dict[str, Any], where: str) -> Column:
    location = f"{where}, column {column.name!r}"
    codes = {name: _codes(column, said[name], location) for name in _CODES if name in said}
    both = set(codes.get("levels", ())) & set(codes.get("missing", ()))
    if both:
        raise DataError(
            f"{location}: {min(both, key=str)!r} stands under levels and under missing; remove one."
        )
    # A code that becomes a level is missing no more, and the other way round.
    levels = codes.get("levels", [c for c in column.levels if c not in codes.get("missing", ())])
    missing = codes.get("missing", [c for c in column.missing if c not in codes.get("levels", ())])
    for name, listed in (("names", levels), ("missing_names", missing), ("missing_sorts", missing)):
        if name in said and len(said[name]) != len(listed):
            under = "levels" if name == "names" else "missing"
            raise DataError(
                f"{location}: there are {len(said[name])} {name} for {len(listed)} codes under {under}; "
                "give one for each."
            )
    known = dict(zip(column.missing, column.missing_names, strict=True))
    known |= zip(column.levels, column.names, strict=True)
    names = said.get("names", [known.get(code, str(code)) for code in levels])
    if len(set(names)) < len(names):  # where a code's text is another one's name
        names = [f"{code} {name}" for code, name in zip(levels, names, strict=True)]
    missing_names = said.get("missing_names", [known.get(code, str(code)) for code in missing])
    sorts = said.get("missing_sorts", map(sort_of, missing_names))
    if "missing_names" not in said and "missing_sorts" not in said:
        sorts = (column.sorts.get(code, sort) for code, sort in zip(missing, sorts, strict=True))
    changed = replace(
        column,
        role=said.get("role", column.role),
        question=said.get("question", column.question),
        levels=tuple(levels),
        names=tuple(names),
        missing=tuple(missing),
        missing_names=tuple(missing_names),
        missing_sorts=tuple(sorts),
    )
    if changed.role == "ordinal" and len(levels) < 2:
        raise DataError(
            f"{location}: an ordinal column needs at least two levels; add levels = [...] from lowest "
            "to highest."
        )
    decided = ("role", "levels", "missing")
    if all(getattr(changed, name) == getattr(column, name) for name in decided):
        return changed
    return replace(changed, reason=f"{where} says so", confidence=1.0)


def _codes(column: Column, entries: Iterable[Code], location: str) -> list[Code]:
    """The codes that entries stand for: themselves, or those that have them as their names."""
    known = [*column.levels, *column.missing]
    names = dict(zip((*column.names, *column.missing_names), known, strict=True))
    spelt = {alike(name): code for name, code in names.items()}
    numbers = {alike(code): code for code in known}
    codes: dict[Code, None] = {}
    for entry in entries:
        code: Code | None = entry
        if not isinstance(entry, str):
            # Numbers in a column of text are the text; others may be levels that nobody chose.
            code = numbers.get(entry, entry)
        elif known and entry not in known:
            code = names.get(entry, spelt.get(alike(entry)))
        if code is None:
            raise DataError(
                f"{location}: the code {entry!r} is not in the data, only {shorten(known)}"
                f"{did_you_mean(str(entry), names)}; correct it."
            )
        codes[code] = None
    return list(codes)

"""Schemas as TOML: written to be corrected by hand, and read again.

A file that mentions only some columns, by name or by rules for many, corrects a proposal in these.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from ordinalrbm.errors import DataError
from ordinalrbm.schema.missing_labels import SORTS, sort_of
from ordinalrbm.schema.overrides import FIELDS, LISTS, Rule, apply_rules
from ordinalrbm.schema.schema import ROLES, Code, Column, Role, Schema, did_you_mean

_WIDTH = 100  # letters of a line
_MOST_DOUBTFUL = 12  # that are named at the top
_MOST_REASON = 110  # letters of a comment

# ---- writing ----------------------------------------------------------------------------------

_HEAD = (
    "# What each column is: ordinal, nominal, numeric, background, weight, id or ignored.\n"
    "# Levels are codes from lowest to highest; codes under missing are no answer. Columns with\n"
    "# the same codes share a scale. After # stand how sure the proposal is, and why.\n"
    "#\n"
    "# Rules for many columns may follow at the end, by name or by label:\n"
    '#   ["Q4*"]\n'
    '#   "missing+" = ["Correctly skipped"]\n'
)


def to_toml(schema: Schema) -> str:
    r"""The schema as TOML, to be corrected by hand; reasons stand in comments.

    Each column is a line; codes and their names, which many columns share, are written once.

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
        said = _write_codes(column)
        scale = scales.setdefault(said, column.name) if said else None
        lines.append(_write_column(column, scale))
    parts = [f"[scales.{_key(name)}]\n{said}" for said, name in scales.items()]
    columns = "\n".join(["[columns]", *lines]) + "\n"
    return "\n".join([_HEAD + _doubtful(schema), *parts, columns])


def _doubtful(schema: Schema) -> str:
    names = [_comment(column.name) for column in schema.columns if column.is_doubtful]
    if not names:
        return ""
    more = len(names) - _MOST_DOUBTFUL
    shown = ", ".join(names[:_MOST_DOUBTFUL]) + (f" and {more} more" if more > 0 else "")
    return f"#\n# Doubtful, look at these first: {shown}\n"


def _write_codes(column: Column) -> str:
    """The lines about codes, without what follows from the others."""
    lines = []
    if column.levels:
        lines.append(f"levels = {_array(column.levels)}")
    if list(column.names) != list(map(str, column.levels)):
        lines.append(f"names = {_array(column.names)}")
    if column.missing:
        lines.append(f"missing = {_array(column.missing)}")
    if list(column.missing_names) != list(map(str, column.missing)):
        lines.append(f"missing_names = {_array(column.missing_names)}")
    if column.missing_sorts not in ((), tuple(map(sort_of, column.missing_names))):
        lines.append(f"missing_sorts = {_array(column.missing_sorts)}")
    return "".join(f"{line}\n" for line in lines)


def _write_column(column: Column, scale: str | None) -> str:
    said = {"role": column.role, "scale": scale, "question": column.question}
    fields = ", ".join(f"{key} = {_text(text)}" for key, text in said.items() if text is not None)
    if not column.question:
        fields = fields.removesuffix(', question = ""')
    reason = f"  # {column.confidence:.2f}: {_comment(column.reason)}" if column.reason else ""
    return f"{_key(column.name)} = {{{fields}}}{reason}"


def _comment(text: str) -> str:
    # A comment must not hold line ends or control characters.
    plain = " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", text).split())
    return plain if len(plain) <= _MOST_REASON else plain[: _MOST_REASON - 1] + "…"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(text: str) -> str:
    # TOML and JSON escape alike, but for one character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _array(values: Iterable[Code]) -> str:
    items = [_text(value) if isinstance(value, str) else repr(value) for value in values]
    line = f"[{', '.join(items)}]"
    if len(line) <= _WIDTH - 12:
        return line
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) + 6 > _WIDTH:
            lines.append("")
        lines[-1] += f" {item}," if lines[-1] else f"{item},"
    return "[\n" + "".join(f"    {line}\n" for line in lines if line) + "]"


# ---- reading ----------------------------------------------------------------------------------


def from_toml(text: str, where: str = "The schema") -> Schema:
    r"""The schema that `to_toml` wrote, or a whole one written by hand; `where` is for errors.

    Examples
    --------
    >>> from_toml('[columns.Q1]\nrole = "ordinal"\nlevels = [1, 2, 3]').column("Q1").names
    ('1', '2', '3')
    """
    rules = _parse(text, where)
    named = [rule for rule in rules if rule.kind == "column" or not rule.is_pattern]
    roles: dict[str, Role | None] = dict.fromkeys(rule.key for rule in named)
    roles |= {rule.key: rule.fields["role"] for rule in named if "role" in rule.fields}
    columns = []
    for name, role in roles.items():
        if role is None:
            raise DataError(f"{where} gives column {name!r} no role; add role = one of {_listed(ROLES)}.")
        columns.append(Column(name, role))
    return apply_rules(Schema(tuple(columns)), rules, where)


def override(proposal: Schema, text: str, where: str = "The schema") -> Schema:
    r"""A proposal with what the TOML says in its place, column by column and field by field.

    Levels keep the names that the proposal has for them. A code that becomes a level is missing
    no more, and the other way round. Rules may be for many columns, by patterns of names or of
    labels; later ones count more than earlier ones, and exact names more than patterns.

    Examples
    --------
    >>> proposal = Schema((Column("Q1", "ordinal", levels=(1, 2, 9), names=("no", "yes", "?")),))
    >>> override(proposal, "[columns.Q1]\nmissing = [9]").column("Q1").levels
    (1, 2)
    >>> override(proposal, '["Q*"]\n"missing+" = ["?"]').column("Q1").missing
    (9,)
    """
    return apply_rules(proposal, _parse(text, where), where)


def _parse(text: str, where: str) -> list[Rule]:
    """All rules in the order of the file, those under columns first."""
    try:
        content = tomllib.loads(text)
        scales, columns = content.pop("scales", {}), content.pop("columns", {})
        for key, tables in (("scales", scales), ("columns", columns)):
            if not isinstance(tables, dict):
                raise DataError(f"{where} must have tables under {key}; write [{key}.NAME].")
        for name, table in scales.items():
            _check_table(f"scale {name!r}", f"scales.{_key(name)}", table, where, LISTS)
        return [
            _rule(kind, key, table, scales, where)
            for kind, tables in (("column", columns), ("rule", content))
            for key, table in tables.items()
        ]
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where} is not TOML ({error}); correct it there.") from error
    except DataError:
        raise
    except RecursionError as error:
        raise DataError(
            f"{where} has lists or tables nested too deeply; a column is one table of its fields, "
            "and a field at most a list."
        ) from error
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{where} has a number with too many digits; shorten it, or put it in quotes if it is text."
        ) from error


def _rule(kind: str, key: str, table: Any, scales: Mapping[str, Any], where: str) -> Rule:
    path = f"columns.{_key(key)}" if kind == "column" else _key(key)
    _check_table(f"{kind} {key!r}", path, table, where, (*FIELDS, "scale"))
    fields = dict(table)
    scale = fields.pop("scale", None)
    if scale is not None and scale not in scales:
        raise DataError(
            f"{where}, {kind} {key!r}: there is no scale {scale!r}"
            f"{did_you_mean(scale, scales)}; write [scales.{_key(scale)}] or correct the name."
        )
    return Rule(kind, key, {**scales.get(scale, {}), **fields})


def _check_table(name: str, key: str, table: Any, where: str, known: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise DataError(f"{where} says {table!r} of {name}; write [{key}] and what it is.")
    for field, value in table.items():
        if field not in known:
            # A column's name with a dot in it reads like a table in a table.
            raise DataError(
                f"{where}, {name}: {field!r} is none of {_listed(known)}"
                f"{did_you_mean(field, known)}; correct it, and put names with dots in quotes."
            )
        wrong = _wrong_list(field, value) if field.rstrip("+") in LISTS else _wrong(field, value)
        if wrong:
            raise DataError(f"{where}, {name}: {wrong}.")
    for field in ("levels", "missing"):
        if field in table and f"{field}+" in table:
            raise DataError(
                f"{where}, {name}: {field} and {field}+ contradict each other; put all codes "
                f"under {field}, or only the further ones under {field}+."
            )


def _wrong(field: str, value: Any) -> str:
    """What is wrong with a field, and what to do; nothing where it is right."""
    if field == "role" and value not in ROLES:
        guess = did_you_mean(str(value), ROLES)
        return f"the role {value!r} is not known{guess}; write {_listed(ROLES)}"
    if not isinstance(value, str):
        return f"the {field} is {value!r}; put it in quotes"
    return ""


def _wrong_list(field: str, value: Any) -> str:
    if not isinstance(value, list):
        return f"{field} is {value!r}; write a list, [...]"
    holds_codes = field.rstrip("+") in ("levels", "missing")
    for entry in value:
        if not isinstance(entry, str) and not (holds_codes and _is_number(entry)):
            kind = "numbers or text" if holds_codes else "text in quotes"
            return f"{entry!r} cannot stand in {field}; write {kind}"
        if field == "missing_sorts" and entry not in SORTS:
            guess = did_you_mean(entry, SORTS)
            return f"{entry!r} is no sort of missing answers{guess}; write {_listed(SORTS)}"
    twice = next((entry for k, entry in enumerate(value) if entry in value[:k]), None)
    if twice is not None and field not in ("missing_names", "missing_sorts"):
        return f"{twice!r} stands twice in {field}; remove one"
    return ""


def _is_number(entry: Any) -> bool:
    return isinstance(entry, int | float) and not isinstance(entry, bool) and math.isfinite(entry)


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"

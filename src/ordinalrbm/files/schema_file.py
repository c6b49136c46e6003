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
from ordinalrbm.files.no_answer import SORTS, sort_of
from ordinalrbm.files.rules import FIELDS, LISTS, Rule, apply_rules
from ordinalrbm.files.schema import ROLES, Code, Column, Role, Schema, did_you_mean

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
    rules, columns = _parse(text, where)
    names = list(columns) + [
        rule.key
        for rule in rules
        if rule.key not in columns and not rule.is_label and not re.search(r"[*?[]", rule.key)
    ]
    known = set(names)
    roles: dict[str, Role] = {}
    for rule in rules:
        if rule.key in known and "role" in rule.fields:
            roles[rule.key] = rule.fields["role"]
    for name in names:
        if name not in roles:
            raise DataError(
                f"{where} gives column {name!r} no role; add role = one of {_listed(ROLES)}."
            )
    blank = Schema(tuple(Column(name, roles[name]) for name in names))
    return apply_rules(blank, rules, where)


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
    rules, _ = _parse(text, where)
    return apply_rules(proposal, rules, where)


# A key with a plus needs quotes in TOML, which people forget.
_BARE_PLUS = re.compile(r"^([ \t]*)((?:levels|missing)\+)([ \t]*=)", re.MULTILINE)


def _load(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        quoted = _BARE_PLUS.sub(r'\1"\2"\3', text)
        if quoted != text:
            return _load(quoted, where)
        raise DataError(f"{where} is not TOML ({error}); correct it there.") from error


def _parse(text: str, where: str) -> tuple[list[Rule], dict[str, Any]]:
    """All rules in the order of the file, and the tables of columns by their names."""
    try:
        return _parsed(text, where)
    except DataError:
        raise
    except RecursionError as error:
        raise DataError(
            f"{where} has lists or tables nested too deeply; a column is one table of its fields, "
            "and a field at most a list."
        ) from error
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{where} has a number with too many digits; shorten it, or put it in quotes if it is "
            "text."
        ) from error


def _parsed(text: str, where: str) -> tuple[list[Rule], dict[str, Any]]:
    content = _load(text, where)
    scales, columns = content.pop("scales", {}), content.pop("columns", {})
    for key, tables in (("scales", scales), ("columns", columns)):
        if not isinstance(tables, dict):
            raise DataError(f"{where} must have tables under {key}; write [{key}.NAME].")
    for name, table in scales.items():
        _check_table(f"scale {name!r}", f"scales.{_key(name)}", table, where, LISTS)
    rules = []
    for kind, tables in (("column", columns), ("rule", content)):
        prefix = "columns." if kind == "column" else ""
        for key, table in tables.items():
            _check_table(f"{kind} {key!r}", prefix + _key(key), table, where, (*FIELDS, "scale"))
            rules.append(_rule(kind, key, table, scales, where))
    return rules, columns


def _rule(
    kind: str, key: str, table: dict[str, Any], scales: Mapping[str, Any], where: str
) -> Rule:
    scale = table.get("scale")
    if scale is not None and scale not in scales:
        raise DataError(
            f"{where}, {kind} {key!r}: there is no scale {scale!r}"
            f"{did_you_mean(scale, scales)}; write [scales.{_key(scale)}] or correct the name."
        )
    of_scale = scales[scale] if scale is not None else {}
    own = {field: value for field, value in table.items() if field != "scale"}
    fields = {**of_scale, **{field: value for field, value in own.items() if field[-1] != "+"}}
    added = {field[:-1]: value for field, value in own.items() if field[-1] == "+"}
    return Rule(kind, key, fields, added)


def _check_table(name: str, key: str, table: Any, where: str, known: Iterable[str]) -> None:
    if not isinstance(table, dict):
        raise DataError(f"{where} says {table!r} of {name}; write [{key}] and what it is.")
    known = tuple(known)
    for field, value in table.items():
        if field not in known:
            # A column's name with a dot in it reads like a table in a table.
            raise DataError(
                f"{where}, {name}: {field!r} is none of {_listed(known)}"
                f"{did_you_mean(field, known)}; correct it, and put names with dots in quotes."
            )
        _check_field(f"{where}, {name}", field, value)
    for field in ("levels", "missing"):
        if field in table and f"{field}+" in table:
            raise DataError(
                f"{where}, {name}: {field} and {field}+ contradict each other; put all codes "
                f"under {field}, or only the further ones under {field}+."
            )


def _check_field(place: str, field: str, value: Any) -> None:
    if field == "role" and value not in ROLES:
        raise DataError(
            f"{place}: the role {value!r} is not known{did_you_mean(str(value), ROLES)}; write "
            f"{_listed(ROLES)}."
        )
    if field in ("question", "scale") and not isinstance(value, str):
        raise DataError(f"{place}: the {field} is {value!r}; put it in quotes.")
    if field.rstrip("+") not in LISTS:
        return
    if not isinstance(value, list):
        raise DataError(f"{place}: {field} is {value!r}; write a list, [...].")
    only_text = field in ("names", "missing_names", "missing_sorts")
    for entry in value:
        if isinstance(entry, str) or (not only_text and _is_number(entry)):
            continue
        kind = "text in quotes" if only_text else "numbers or text"
        raise DataError(f"{place}: {entry!r} cannot stand in {field}; write {kind}.")
    if field == "missing_sorts":
        unknown = [entry for entry in value if entry not in SORTS]
        if unknown:
            raise DataError(
                f"{place}: {unknown[0]!r} is no sort of missing answers"
                f"{did_you_mean(unknown[0], SORTS)}; write {_listed(SORTS)}."
            )
        return
    twice = next((entry for k, entry in enumerate(value) if entry in value[:k]), None)
    if twice is not None and field != "missing_names":
        raise DataError(f"{place}: {twice!r} stands twice in {field}; remove one.")


def _is_number(entry: Any) -> bool:
    return isinstance(entry, int | float) and not isinstance(entry, bool) and math.isfinite(entry)


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"

"""Schemas as TOML: written to be corrected by hand, and read again.

A file that mentions only some columns corrects a proposal in these. A rule names a column, a
pattern of names ("Q4*") or a pattern of labels ("label:How often*"). Replacements are made in turn,
patterns first in the order of the file and exact names last, so that what comes later counts.
Additions come after them, because they take nothing away that another rule sets.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from ordinalrbm.data.scales import shorten
from ordinalrbm.errors import DataError
from ordinalrbm.schema.schema import ROLES, Code, Column, Schema, did_you_mean
from ordinalrbm.schema.source import alike
from ordinalrbm.schema.vocabulary import SORTS, sort_of

_WIDTH = 100  # letters of a line
_MOST_DOUBTFUL = 12  # that are named at the top
_MOST_REASON = 110  # letters of a comment
_LISTS = ("levels", "names", "missing", "missing_names", "missing_sorts")
_FIELDS = ("role", "question", *_LISTS, "levels+", "missing+")
_LABEL = "label:"
_ALIKE = 0.4  # a pattern is only a part of the name that was meant
_OTHER = {"levels": "missing", "missing": "levels"}

# ---- writing ----------------------------------------------------------------------------------

_HEAD = (
    "# What each column is: ordinal, nominal, numeric, background, fieldwork, weight, id or ignored.\n"
    "# Levels are codes from lowest to highest; codes under missing are no answer. Columns with\n"
    "# the same codes share a scale. After # stand how sure the proposal is, and why.\n"
    "#\n"
    "# Rules for many columns may follow at the end, by name or by label:\n"
    '#   ["Q4*"]\n'
    '#   "missing+" = ["Correctly skipped"]\n'
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
        scale = scales.setdefault(said, column.name) if said else None
        lines.append(_write_column(column, scale, proposed))
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


def _write_codes(column: Column, proposed: Column | None) -> str:
    """The lines about codes, without those that are as they are by default."""
    default = {
        "levels": (),
        "names": tuple(map(str, column.levels)),
        "missing": (),
        "missing_names": tuple(map(str, column.missing)),
        "missing_sorts": tuple(map(sort_of, column.missing_names)),
    }
    given = {name: getattr(column, name) for name in _LISTS}
    is_said = {
        name: (own and own != default[name]) or (proposed is not None and own != getattr(proposed, name))
        for name, own in given.items()
    }
    return "".join(f"{name} = {_array(own)}\n" for name, own in given.items() if is_said[name])


def _write_column(column: Column, scale: str | None, proposed: Column | None) -> str:
    is_other = proposed is not None and column.question != proposed.question
    question = column.question if column.question or is_other else None
    given = {"role": column.role, "scale": scale, "question": question}
    fields = ", ".join(f"{key} = {_text(text)}" for key, text in given.items() if text is not None)
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
            _check_table(f"scale {name!r}", f"scales.{_key(name)}", table, where, _LISTS)
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
    _check_table(f"{kind} {key!r}", path, table, where, (*_FIELDS, "scale"))
    fields = dict(table)
    scale = fields.pop("scale", None)
    if scale is not None and scale not in scales:
        raise DataError(
            f"{where}, {kind} {key!r}: there is no scale {scale!r}"
            f"{did_you_mean(scale, scales)}; write [scales.{_key(scale)}] or correct the name."
        )
    return Rule(kind, key, {**scales.get(scale, {}), **fields})


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
        wrong = _wrong_list(field, value) if field.rstrip("+") in _LISTS else _wrong(field, value)
        if wrong:
            raise DataError(f"{where}, {name}: {wrong}.")
    for field in _OTHER:
        if field in table and f"{field}+" in table:
            raise DataError(
                f"{where}, {name}: {field} and {field}+ contradict each other; put all codes "
                f"under {field}, or only the further ones under {field}+."
            )


def _wrong(field: str, value: object) -> str:
    """What is wrong with a field, and what to do; nothing where it is right."""
    if field == "role" and value not in ROLES:
        guess = did_you_mean(str(value), ROLES)
        return f"the role {value!r} is not known{guess}; write {_listed(ROLES)}"
    if not isinstance(value, str):
        return f"the {field} is {value!r}; put it in quotes"
    return ""


def _wrong_list(field: str, value: object) -> str:
    if not isinstance(value, list):
        return f"{field} is {value!r}; write a list, [...]"
    holds_codes = field.rstrip("+") in _OTHER
    for entry in value:
        is_number = type(entry) in (int, float) and math.isfinite(entry)
        if not isinstance(entry, str) and not (holds_codes and is_number):
            kind = "numbers or text" if holds_codes else "text in quotes"
            return f"{entry!r} cannot stand in {field}; write {kind}"
        if field == "missing_sorts" and entry not in SORTS:
            guess = did_you_mean(entry, SORTS)
            return f"{entry!r} is no sort of missing answers{guess}; write {_listed(SORTS)}"
    twice = next((entry for k, entry in enumerate(value) if entry in value[:k]), None)
    if twice is not None and field not in ("missing_names", "missing_sorts"):
        return f"{twice!r} stands twice in {field}; remove one"
    return ""


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"


# ---- rules ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """A table of a schema file."""

    kind: str  # what error messages call it, "column" or "rule"
    key: str  # a name, or a pattern
    fields: dict[str, Any]

    @property
    def is_label(self) -> bool:
        return self.key.startswith(_LABEL)

    def matches(self, column: Column) -> bool:
        """Whether the rule is for a column whose name is not the key."""
        if self.is_label:
            return fnmatchcase(column.question.casefold(), self.key.removeprefix(_LABEL).strip().casefold())
        return fnmatchcase(column.name, self.key)


def apply_rules(schema: Schema, rules: Iterable[Rule], where: str) -> Schema:
    by_name = {column.name: column for column in schema.columns}
    of_column: dict[str, list[Rule]] = {}
    for rule in sorted(rules, key=lambda rule: rule.key in by_name):  # exact names last
        matched = _matched(rule, by_name, where)
        _refuse_unknown_answers(rule, matched, where)
        for column in matched:
            of_column.setdefault(column.name, []).append(rule)
    corrected = (
        _corrected(column, of_column[name], where) if name in of_column else column
        for name, column in by_name.items()
    )
    return Schema(tuple(corrected))


def _matched(rule: Rule, by_name: dict[str, Column], where: str) -> list[Column]:
    if rule.key in by_name:
        return [by_name[rule.key]]
    found = [column for column in by_name.values() if rule.matches(column)]
    if found:
        return found
    if not (rule.is_label or any(sign in rule.key for sign in "*?[")):
        raise DataError(
            f"{where} names the column {rule.key!r}, which the data does not have"
            f"{did_you_mean(rule.key, by_name)}; correct the name or remove it."
        )
    known = [column.question for column in by_name.values()] if rule.is_label else by_name
    guess = did_you_mean(rule.key.removeprefix(_LABEL).strip(" *?"), filter(None, known), _ALIKE)
    raise DataError(
        f"{where}: the rule {rule.key!r} matches the {'label' if rule.is_label else 'name'} of no "
        f"column{guess}; correct it, with * for what may differ, or remove it."
    )


# ---- which codes ------------------------------------------------------------------------------


def _code(column: Column, entry: Code) -> Code | None:
    """The code that an entry stands for: itself, or the one that has it as its name."""
    names = dict(zip(column.names, column.levels, strict=True))
    names |= zip(column.missing_names, column.missing, strict=True)
    known = [*column.levels, *column.missing]
    if not isinstance(entry, str):
        # Numbers in a column of text are the text; others may be levels that nobody chose.
        return next((code for code in known if alike(code) == entry), entry)
    if entry in known or not known:
        return entry
    spelt = {alike(name): code for name, code in names.items()}
    return names.get(entry, spelt.get(alike(entry)))


def _codes(column: Column, entries: Iterable[Code]) -> list[Code]:
    """The codes of entries, without those that this column does not have."""
    found = (_code(column, entry) for entry in entries)
    return list(dict.fromkeys(code for code in found if code is not None))


def _refuse_unknown_answers(rule: Rule, columns: Sequence[Column], where: str) -> None:
    """Refuse text that is neither a code nor a label in any of the columns of a rule."""
    lists = ("levels", "missing", "levels+", "missing+")
    for entry in (entry for name in lists for entry in rule.fields.get(name, ())):
        if any(_code(column, entry) is not None for column in columns):
            continue
        texts = [name for column in columns for name in (*column.names, *column.missing_names)]
        guess = did_you_mean(str(entry), dict.fromkeys(texts))
        wrong = f"none of the {len(columns)} columns that it matches has the answer {entry!r}"
        if len(columns) == 1:
            known = shorten([*columns[0].levels, *columns[0].missing])
            wrong = f"the code {entry!r} is not in the data, only {known}"
        raise DataError(f"{where}, {rule.kind} {rule.key!r}: {wrong}{guess}; correct it.")


# ---- one column -------------------------------------------------------------------------------


def _corrected(column: Column, rules: Sequence[Rule], where: str) -> Column:
    location = f"{where}, column {column.name!r}"
    changed = column
    for rule in rules:
        changed = _replaced(changed, rule.fields, location)
    changed = _with_added(changed, rules, location)
    if changed.role == "ordinal" and len(changed.levels) < 2:
        raise DataError(
            f"{location}: an ordinal column needs at least two levels; add levels = [...] from lowest "
            "to highest."
        )
    decided = ("role", "levels", "missing")
    if all(getattr(changed, name) == getattr(column, name) for name in decided):
        return changed
    return replace(changed, reason=f"{where} says so", confidence=1.0)


def _replaced(column: Column, given: dict[str, Any], location: str) -> Column:
    stated = {name: _codes(column, given[name]) for name in _OTHER if name in given}
    both = set(stated.get("levels", ())) & set(stated.get("missing", ()))
    if both:
        raise DataError(
            f"{location}: {min(both, key=str)!r} stands under levels and under missing; remove one."
        )
    levels = stated.get("levels", _without(column.levels, stated.get("missing", ())))
    missing = stated.get("missing", _without(column.missing, stated.get("levels", ())))
    for name, what, codes in (
        ("names", "names for {} codes under levels; give one name", levels),
        ("missing_names", "names for {} codes under missing; give one name", missing),
        ("missing_sorts", "sorts for {} codes under missing; give one", missing),
    ):
        if name in given and len(given[name]) != len(codes):
            there_are = f"there are {len(given[name])} {what.format(len(codes))}"
            raise DataError(f"{location}: {there_are} for each.")
    coded = _with_codes(column, levels, missing, given)
    role, question = given.get("role", column.role), given.get("question", column.question)
    return replace(coded, role=role, question=question)


def _with_added(column: Column, rules: Sequence[Rule], location: str) -> Column:
    """Add what rules add, and take it from the other list."""
    added: dict[str, dict[Code, str]] = {"levels": {}, "missing": {}}  # codes, and by which rule
    for rule in rules:
        for name, other in _OTHER.items():
            for code in _codes(column, rule.fields.get(f"{name}+", ())):
                if code in added[other]:
                    raise DataError(
                        f"{location}: {rule.key!r} adds {code!r} to {name} and {added[other][code]!r} "
                        f"adds it to {other}; remove one."
                    )
                added[name][code] = rule.key
    levels = dict.fromkeys([*_without(column.levels, added["missing"]), *added["levels"]])
    missing = dict.fromkeys([*_without(column.missing, added["levels"]), *added["missing"]])
    return _with_codes(column, list(levels), list(missing), {}) if any(added.values()) else column


def _with_codes(
    column: Column, levels: Sequence[Code], missing: Sequence[Code], given: dict[str, Any]
) -> Column:
    """The column with other codes; names and sorts that are not given are those they had."""
    known = dict(zip(column.missing, column.missing_names, strict=True))
    known |= zip(column.levels, column.names, strict=True)
    names = given.get("names", [known.get(code, str(code)) for code in levels])
    if len(set(names)) < len(names):  # where a code's text is another one's name
        names = [f"{code} {name}" for code, name in zip(levels, names, strict=True)]
    changed = replace(
        column,
        levels=tuple(levels),
        names=tuple(names),
        missing=tuple(missing),
        missing_names=tuple(given.get("missing_names", [known.get(code, str(code)) for code in missing])),
        missing_sorts=tuple(given.get("missing_sorts", ())),
    )
    if "missing_names" in given or "missing_sorts" in given:
        return changed
    sorts = (column.sorts.get(code, sort) for code, sort in changed.sorts.items())
    return replace(changed, missing_sorts=tuple(sorts))


def _without(codes: Sequence[Code], taken: Iterable[Code]) -> list[Code]:
    taken = set(taken)
    return [code for code in codes if code not in taken]

"""Corrections of a schema: what a rule says of the columns that it matches.

A rule names a column, a pattern of names ("Q4*") or a pattern of labels ("label:How often*").
Replacements are made in turn, patterns first in the order of the file and exact names last, so
that what comes later counts. Additions come after them, for they take nothing away that another
rule says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from ordinalrbm.data.scales import shorten
from ordinalrbm.errors import DataError
from ordinalrbm.schema.codes import alike
from ordinalrbm.schema.schema import Code, Column, Schema, did_you_mean

LISTS = ("levels", "names", "missing", "missing_names", "missing_sorts")
FIELDS = ("role", "question", *LISTS, "levels+", "missing+")
_LABEL = "label:"
_ALIKE = 0.4  # a pattern is only a part of the name that was meant
_OTHER = {"levels": "missing", "missing": "levels"}


@dataclass(frozen=True)
class Rule:
    """What a table of a schema file says."""

    kind: str  # what error messages call it, "column" or "rule"
    key: str  # a name, or a pattern
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def is_label(self) -> bool:
        return self.key.startswith(_LABEL)

    @property
    def is_pattern(self) -> bool:
        return self.is_label or any(sign in self.key for sign in "*?[")

    def matches(self, column: Column) -> bool:
        """Whether the rule is for a column whose name is not the key."""
        if self.is_label:
            pattern = self.key.removeprefix(_LABEL).strip().casefold()
            return fnmatchcase(column.question.casefold(), pattern)
        return fnmatchcase(column.name, self.key)


def apply_rules(schema: Schema, rules: Iterable[Rule], where: str) -> Schema:
    """The schema as the rules of a file correct it.

    Examples
    --------
    >>> column = Column("Q1", "ordinal", levels=(1, 2, 3), names=("no", "yes", "skipped"))
    >>> rule = Rule("rule", "Q*", {"missing+": ["skipped"]})
    >>> apply_rules(Schema((column,)), [rule], "The schema").column("Q1").missing
    (3,)
    """
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
    if not rule.is_pattern:
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
    place = f"{where}, column {column.name!r}"
    changed = column
    for rule in rules:
        changed = _replaced(changed, rule.fields, place)
    changed = _with_added(changed, rules, place)
    if changed.role == "ordinal" and len(changed.levels) < 2:
        raise DataError(
            f"{place}: an ordinal column needs at least two levels; add levels = [...] from lowest "
            "to highest."
        )
    decided = ("role", "levels", "missing")
    if all(getattr(changed, name) == getattr(column, name) for name in decided):
        return changed
    return replace(changed, reason=f"{where} says so", confidence=1.0)


def _replaced(column: Column, said: dict[str, Any], place: str) -> Column:
    stated = {name: _codes(column, said[name]) for name in _OTHER if name in said}
    both = set(stated.get("levels", ())) & set(stated.get("missing", ()))
    if both:
        raise DataError(f"{place}: {min(both, key=str)!r} stands under levels and under missing; remove one.")
    levels = stated.get("levels", _without(column.levels, stated.get("missing", ())))
    missing = stated.get("missing", _without(column.missing, stated.get("levels", ())))
    for name, what, codes in (
        ("names", "names for {} codes under levels; give one name", levels),
        ("missing_names", "names for {} codes under missing; give one name", missing),
        ("missing_sorts", "sorts for {} codes under missing; give one", missing),
    ):
        if name in said and len(said[name]) != len(codes):
            there_are = f"there are {len(said[name])} {what.format(len(codes))}"
            raise DataError(f"{place}: {there_are} for each.")
    coded = _with_codes(column, levels, missing, said)
    role, question = said.get("role", column.role), said.get("question", column.question)
    return replace(coded, role=role, question=question)


def _with_added(column: Column, rules: Sequence[Rule], place: str) -> Column:
    """Add what rules add, and take it from the other list."""
    added: dict[str, dict[Code, str]] = {"levels": {}, "missing": {}}  # codes, and by which rule
    for rule in rules:
        for name, other in _OTHER.items():
            for code in _codes(column, rule.fields.get(f"{name}+", ())):
                if code in added[other]:
                    raise DataError(
                        f"{place}: {rule.key!r} adds {code!r} to {name} and {added[other][code]!r} "
                        f"adds it to {other}; remove one."
                    )
                added[name][code] = rule.key
    levels = dict.fromkeys([*_without(column.levels, added["missing"]), *added["levels"]])
    missing = dict.fromkeys([*_without(column.missing, added["levels"]), *added["missing"]])
    return _with_codes(column, list(levels), list(missing), {}) if any(added.values()) else column


def _with_codes(
    column: Column, levels: Sequence[Code], missing: Sequence[Code], said: dict[str, Any]
) -> Column:
    """The column with other codes; names and sorts that are not said are those they had."""
    known = dict(zip(column.missing, column.missing_names, strict=True))
    known |= zip(column.levels, column.names, strict=True)
    names = said.get("names", [known.get(code, str(code)) for code in levels])
    if len(set(names)) < len(names):  # where a code's text is another one's name
        names = [f"{code} {name}" for code, name in zip(levels, names, strict=True)]
    changed = replace(
        column,
        levels=tuple(levels),
        names=tuple(names),
        missing=tuple(missing),
        missing_names=tuple(said.get("missing_names", [known.get(code, str(code)) for code in missing])),
        missing_sorts=tuple(said.get("missing_sorts", ())),
    )
    if "missing_names" in said or "missing_sorts" in said:
        return changed
    sorts = (column.sorts.get(code, sort) for code, sort in changed.sorts.items())
    return replace(changed, missing_sorts=tuple(sorts))


def _without(codes: Sequence[Code], taken: Iterable[Code]) -> list[Code]:
    taken = set(taken)
    return [code for code in codes if code not in taken]

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
from ordinalrbm.files.codes import alike
from ordinalrbm.files.schema import Code, Column, Schema, did_you_mean

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
    fields: dict[str, Any] = field(default_factory=dict)  # in place of the proposal's
    added: dict[str, list[Code]] = field(default_factory=dict)  # to levels or missing

    @property
    def is_label(self) -> bool:
        return self.key.startswith(_LABEL)

    def matches(self, column: Column) -> bool:
        """Whether the rule is for a column whose name is not the key."""
        if self.is_label:
            pattern = self.key.removeprefix(_LABEL).strip().casefold()
            return fnmatchcase(column.question.casefold(), pattern)
        return fnmatchcase(column.name, self.key)


def apply_rules(schema: Schema, rules: Sequence[Rule], where: str) -> Schema:
    """The schema as the rules of a file correct it.

    Examples
    --------
    >>> column = Column("Q1", "ordinal", levels=(1, 2, 3), names=("no", "yes", "skipped"))
    >>> rule = Rule("rule", "Q*", added={"missing": ["skipped"]})
    >>> apply_rules(Schema((column,)), [rule], "The schema").column("Q1").missing
    (3,)
    """
    names = {column.name for column in schema.columns}
    matched = {id(rule): _matched(rule, schema, names, where) for rule in rules}
    exact = [rule for rule in rules if rule.key in names]
    in_turn = [*(rule for rule in rules if rule.key not in names), *exact]
    _refuse_idle(rules, matched, names, where)
    _refuse_unknown_answers(in_turn, matched, where)
    columns = []
    for column in schema.columns:
        own = [rule for rule in in_turn if column.name in matched[id(rule)]]
        columns.append(_corrected(column, own, where) if own else column)
    return Schema(tuple(columns))


# ---- which columns ----------------------------------------------------------------------------


def _matched(rule: Rule, schema: Schema, names: set[str], where: str) -> dict[str, Column]:
    if rule.key in names:
        return {rule.key: schema.column(rule.key)}
    found = {column.name: column for column in schema.columns if rule.matches(column)}
    if found:
        return found
    if rule.is_label:
        labels = [column.question for column in schema.columns if column.question]
        wanted = rule.key.removeprefix(_LABEL).strip(" *")
        raise DataError(
            f"{where}: the rule {rule.key!r} matches the label of no column"
            f"{did_you_mean(wanted, labels, _ALIKE)}; correct it, with * for what may differ, or "
            "remove it."
        )
    if any(sign in rule.key for sign in "*?["):
        raise DataError(
            f"{where}: the rule {rule.key!r} matches the name of no column"
            f"{did_you_mean(rule.key.strip('*?'), names, _ALIKE)}; correct it or remove it."
        )
    raise DataError(
        f"{where} names the column {rule.key!r}, which the data does not have"
        f"{did_you_mean(rule.key, names)}; correct the name or remove it."
    )


def _refuse_idle(
    rules: Sequence[Rule], matched: dict[int, dict[str, Column]], names: set[str], where: str
) -> None:
    """Refuse a pattern that can change nothing, because each column's own entry says the same."""
    said: dict[str, set[str]] = {}
    for rule in rules:
        if rule.key in names:
            said.setdefault(rule.key, set()).update(rule.fields)
    for rule in rules:
        for name in rule.fields if rule.key not in names else ():
            if all(name in said.get(column, ()) for column in matched[id(rule)]):
                how = f"write {name}+, which adds to it" if name in _OTHER else "change it there"
                raise DataError(
                    f"{where}: the rule {rule.key!r} changes nothing, because all columns that it "
                    f"matches say {name} under their own names, which count more; {how}."
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


def _refuse_unknown_answers(
    rules: Iterable[Rule], matched: dict[int, dict[str, Column]], where: str
) -> None:
    """Refuse text that is neither a code nor a label in any of the columns of a rule."""
    for rule in rules:
        columns = list(matched[id(rule)].values())
        for name in _OTHER:
            for entry in (*rule.fields.get(name, ()), *rule.added.get(name, ())):
                if all(_code(column, entry) is None for column in columns):
                    raise _unknown_answer(rule, entry, columns, where)


def _unknown_answer(rule: Rule, entry: Code, columns: list[Column], where: str) -> DataError:
    texts = [name for column in columns for name in (*column.names, *column.missing_names)]
    guess = did_you_mean(str(entry), dict.fromkeys(texts))
    if len(columns) == 1:
        known = shorten([*columns[0].levels, *columns[0].missing])
        return DataError(
            f"{where}, {rule.kind} {rule.key!r}: the code {entry!r} is not in the data, only "
            f"{known}{guess}; correct it."
        )
    return DataError(
        f"{where}, {rule.kind} {rule.key!r}: none of the {len(columns)} columns that it matches "
        f"has the answer {entry!r}{guess}; correct it."
    )


def _codes(column: Column, entries: Iterable[Code]) -> list[Code]:
    """The codes of entries, without those that this column does not have."""
    found = (_code(column, entry) for entry in entries)
    return list(dict.fromkeys(code for code in found if code is not None))


# ---- one column -------------------------------------------------------------------------------


def _corrected(column: Column, rules: Sequence[Rule], where: str) -> Column:
    place = f"{where}, column {column.name!r}"
    changed = column
    for rule in rules:
        changed = _replaced(changed, rule, place)
    changed = _added_to(changed, rules, place)
    if changed.role == "ordinal" and len(changed.levels) < 2:
        raise DataError(
            f"{place}: an ordinal column needs at least two levels; add levels = [...] from lowest "
            "to highest."
        )
    decided = ("role", "levels", "missing")
    if all(getattr(changed, name) == getattr(column, name) for name in decided):
        return changed
    return replace(changed, reason=f"{where} says so", confidence=1.0)


def _replaced(column: Column, rule: Rule, place: str) -> Column:
    said = rule.fields
    stated = {name: _codes(column, said[name]) for name in _OTHER if name in said}
    both = set(stated.get("levels", ())) & set(stated.get("missing", ()))
    if both:
        raise DataError(
            f"{place}: {min(both, key=str)!r} stands under levels and under missing; remove one."
        )
    levels = stated.get("levels", _without(column.levels, stated.get("missing", ())))
    missing = stated.get("missing", _without(column.missing, stated.get("levels", ())))
    names = said.get("names")
    missing_names = said.get("missing_names")
    for what, codes, given in (("levels", levels, names), ("missing", missing, missing_names)):
        if given is not None and len(codes) != len(given):
            raise DataError(
                f"{place}: there are {len(given)} names for {len(codes)} codes under {what}; give "
                "one name for each."
            )
    sorts = said.get("missing_sorts")
    if sorts is not None and len(sorts) != len(missing):
        raise DataError(
            f"{place}: there are {len(sorts)} sorts for {len(missing)} codes under missing; give "
            "one for each."
        )
    coded = _with_codes(column, levels, missing, names, missing_names, sorts)
    role, question = said.get("role", column.role), said.get("question", column.question)
    return replace(coded, role=role, question=question)


def _added_to(column: Column, rules: Sequence[Rule], place: str) -> Column:
    """Add what rules add, and take it from the other list."""
    by: dict[tuple[str, Code], str] = {}
    for rule in rules:
        for name, entries in rule.added.items():
            for code in _codes(column, entries):
                if (_OTHER[name], code) in by:
                    other = by[_OTHER[name], code]
                    raise DataError(
                        f"{place}: {rule.key!r} adds {code!r} to {name} and {other!r} adds it to "
                        f"{_OTHER[name]}; remove one."
                    )
                by[name, code] = rule.key
    if not by:
        return column
    to_levels, to_missing = (
        [code for name, code in by if name == wanted] for wanted in ("levels", "missing")
    )
    levels = _without(column.levels, to_missing)
    missing = _without(column.missing, to_levels)
    levels += [code for code in to_levels if code not in levels]
    missing += [code for code in to_missing if code not in missing]
    return _with_codes(column, levels, missing)


def _with_codes(
    column: Column,
    levels: Sequence[Code],
    missing: Sequence[Code],
    names: Sequence[str] | None = None,
    missing_names: Sequence[str] | None = None,
    sorts: Sequence[Any] | None = None,
) -> Column:
    """The column with other codes; names and sorts that are not given are those they had."""
    known = dict(zip(column.missing, column.missing_names, strict=True))
    known |= zip(column.levels, column.names, strict=True)
    if names is None:
        names = [known.get(code, str(code)) for code in levels]
    were_named = missing_names is not None
    if missing_names is None:
        missing_names = [known.get(code, str(code)) for code in missing]
    if len(set(names)) < len(names):  # where a code's text is another one's name
        names = [f"{code} {name}" for code, name in zip(levels, names, strict=True)]
    changed = replace(
        column,
        levels=tuple(levels),
        names=tuple(names),
        missing=tuple(missing),
        missing_names=tuple(missing_names),
        missing_sorts=(),
    )
    if sorts is None and were_named:
        return changed
    if sorts is None:
        sorts = [column.sorts.get(code, sort) for code, sort in changed.sorts.items()]
    return replace(changed, missing_sorts=tuple(sorts))


def _without(codes: Sequence[Code], taken: Iterable[Code]) -> list[Code]:
    taken = set(taken)
    return [code for code in codes if code not in taken]

"""Columns that belong together, a battery of questions: what most of them are, all of them are."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ordinalrbm.data.scales import shared_scales
from ordinalrbm.schema.profile import ColumnProfile
from ordinalrbm.schema.schema import BLANK, Code, Column
from ordinalrbm.schema.source import Source, alike
from ordinalrbm.schema.vocabulary import label_words, remembered

BATTERY = 3  # columns that are enough to be a battery
_MOST = 2 / 3  # of the evidence in columns with the same labels
_MOST_TICKS = 100  # columns of ticks; more are no questions but a catalogue
_VOTED = 0.8  # how sure a column is of what its siblings say
_ASIDE = re.compile(r"(.*\S)\s*(?:\[[^\]]+\]|\([^)]+\)|: .+| [-–] .+)", re.DOTALL)
_LETTER = re.compile(r"(.*\d)_?[A-Za-z]\d*")  # Q91C, Q5m1
_NUMBER = re.compile(r"([^\W\d_]{3,})\d+")  # media1, but not Q1
_ANY_COLUMN = frozenset(["var", "col", "column", "item", "question", "field"])


@remembered
def stem(name: str) -> str | None:
    """What the names of a battery's columns share; None where nothing tells of a battery."""
    for pattern in (_ASIDE, _LETTER, _NUMBER):
        found = pattern.fullmatch(name)
        if found is not None and found[1].casefold() not in _ANY_COLUMN:
            return found[1]
    return name.rpartition("_")[0] or None


def battery_of(source: Source, name: str) -> str | None:
    """The multiple response set that the file has a column in, or else the stem of its name."""
    return source.set_of.get(name) or stem(name)


def _fewest(battery: str) -> int:
    return 2 if battery.startswith("$") else BATTERY


def tick_columns(source: Source, name: str, codes: Iterable[Code]) -> list[str]:
    """The columns of a battery that hold nothing but these codes, a tick above all, and blanks."""
    own, known = battery_of(source, name), set(map(alike, codes))
    names = source.frame.columns
    beside = [other for other in names if other == name or (own and battery_of(source, other) == own)]
    return [other for other in beside if source.cells(other)[1] <= known]


def skipped_rows(source: Source, column: Column) -> np.ndarray:
    """Rows with nothing in the whole battery of a column whose blanks are answers.

    Who has ticked nothing may have skipped all of it. A column that stands alone is never skipped.
    """
    ticks = [level for level in column.levels if level != BLANK]
    names = tick_columns(source, column.name, [*ticks, *column.missing])
    if len(names) < 2:
        return np.zeros(len(source.frame), dtype=bool)
    return np.asarray(_are_blank(source, names).all(axis=1))


def _are_blank(source: Source, names: Sequence[str]) -> np.ndarray:
    return np.column_stack([source.cells(name)[0] for name in names])


def with_ticks(source: Source, looks: Sequence[ColumnProfile], columns: Sequence[Column]) -> list[Column]:
    """Columns of 1 or blank as questions, where they are a battery and do not all say the same.

    Columns of several mentions, with the same categories in each, are nominal.
    """
    read = [_as_mention(source, column) for column in columns]
    may_be = [
        column.role == "ignored" and len(look.counts) == 1 and look.n_answers < look.n_rows
        for look, column in zip(looks, read, strict=True)
    ]
    own = [battery_of(source, look.name) if may else None for look, may in zip(looks, may_be, strict=True)]
    times = Counter(own)
    for k, battery in enumerate(own):
        if battery and _fewest(battery) <= times[battery] <= _MOST_TICKS:
            read[k] = _as_ticks(source, looks[k], read[k], _fewest(battery)) or read[k]
    return read


def _as_mention(source: Source, column: Column) -> Column:
    key = source.set_of.get(column.name)
    if key is None or column.role != "ordinal" or source.response_sets[key[1:]]["is_dichotomy"]:
        return column
    reason = f"one of several mentions, the multiple response set {key} of the file"
    return replace(column, role="nominal", reason=reason, confidence=_VOTED)


def _as_ticks(source: Source, look: ColumnProfile, column: Column, fewest: int) -> Column | None:
    (tick,) = look.counts
    names = tick_columns(source, look.name, [tick, *look.missing])
    if len(names) < fewest:
        return None
    is_blank, own = _are_blank(source, names), names.index(look.name)
    if not (is_blank[:, own] & ~is_blank.all(axis=1)).any():
        return None  # who has answered at all has ticked it
    label = look.labels.get(tick, "ticked")
    if label_words(label) in label_words(look.question):  # "Owns a radio: Radio"
        label = "ticked"
    return replace(
        column,
        role="ordinal",
        levels=(BLANK, tick),
        names=("not ticked", label),
        reason=f"{tick} or blank, as {len(names)} columns of a battery: ticked or not, and missing "
        "where none of them is ticked",
        confidence=_VOTED,
    )


def with_votes(looks: Sequence[ColumnProfile], columns: Sequence[Column]) -> list[Column]:
    """Columns that have the labels of others are read as these are: what their evidence says together."""
    groups: dict[tuple, list[int]] = {}
    for k, look in enumerate(looks):
        labels = tuple(sorted((str(code), label_words(text)) for code, text in look.labels.items()))
        if len(labels) > 2 and columns[k].role in ("ordinal", "nominal", "background"):
            groups.setdefault(labels, []).append(k)
    voted = list(columns)
    for places in groups.values():
        readings = {k: (columns[k].role, columns[k].levels) for k in places}
        evidence = dict.fromkeys(readings.values(), 0.0)
        for k in places:
            sure = columns[k].confidence
            evidence[readings[k]] += math.log(sure / (1 - sure))
        reading = max(evidence, key=lambda reading: evidence[reading])
        alike = [columns[k] for k in places if readings[k] == reading]
        if len(places) >= BATTERY and evidence[reading] >= _MOST * sum(evidence.values()):
            like = max(alike, key=lambda column: column.confidence)
            for k in places:
                if readings[k] != reading:
                    voted[k] = _read_like(looks[k], columns[k], like, len(alike))
    return voted


def with_shared_scales(looks: Sequence[ColumnProfile], columns: Sequence[Column]) -> list[Column]:
    """Give unlabelled scales the levels that they lack by chance, by the rule for tables without a file."""
    shared = list(columns)
    places = [
        k
        for k, (look, column) in enumerate(zip(looks, columns, strict=True))
        if column.role == "ordinal" and not (look.labels or look.is_text) and look.order is None
    ]
    counts: list[Any] = [looks[k].counts for k in places]
    whole_scales = shared_scales([columns[k].levels for k in places], counts)
    for k, levels in zip(places, whole_scales, strict=True):
        if levels != columns[k].levels:
            lacking = " and ".join(str(level) for level in levels if level not in columns[k].levels)
            reason = f"the scale of other columns; nobody gave {lacking}"
            names = tuple(map(str, levels))
            shared[k] = replace(columns[k], levels=levels, names=names, reason=reason, confidence=_VOTED)
    return shared


def _read_like(look: ColumnProfile, column: Column, like: Column, n_votes: int) -> Column:
    missing = dict(zip(like.missing, like.missing_names, strict=True))
    missing |= zip(column.missing, column.missing_names, strict=True)
    missing = {code: name for code, name in missing.items() if code not in like.levels}
    if not set(look.counts) <= {*like.levels, *missing}:
        return column  # it has codes of its own
    return replace(
        column,
        role=like.role,
        levels=like.levels,
        names=like.names,
        missing=tuple(missing),
        missing_names=tuple(missing.values()),
        missing_sorts=(),
        reason=f"as {n_votes} other columns with the same labels: {like.reason}",
        confidence=min(like.confidence, _VOTED),
    )

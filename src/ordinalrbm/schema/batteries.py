"""Columns that belong together, a battery of questions: what most of them are, all of them are."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ordinalrbm.data.scales import may_lack
from ordinalrbm.schema.profile import ColumnProfile
from ordinalrbm.schema.schema import BLANK, Code, Column
from ordinalrbm.schema.source import Source, alike
from ordinalrbm.schema.vocabulary import MEASURED_WORDS, asks, label_words, named_after, remembered

BATTERY = 3  # columns that are enough to be a battery
_MOST = 2 / 3  # of the evidence in columns with the same labels
_WINDOW = 2 * BATTERY  # neighbours that a column is compared with
_MOST_TICKS = 100  # columns of ticks; more are no questions but a catalogue
_FEW = 5  # different numbers that may be a part of a scale
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


def _fewest(battery: str | None) -> int:
    return 2 if battery and battery.startswith("$") else BATTERY


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
    pairs = [(look, _as_mention(source, column)) for look, column in zip(looks, columns, strict=True)]
    own = [battery_of(source, look.name) for look in looks]
    may_be = [
        column.role == "ignored" and len(look.counts) == 1 and look.n_answers < look.n_rows and bool(one)
        for (look, column), one in zip(pairs, own, strict=True)
    ]
    times = Counter(one for one, may in zip(own, may_be, strict=True) if may)
    return [
        (_as_ticks(source, look, column, _fewest(one)) or column)
        if may and _fewest(one) <= times[one] <= _MOST_TICKS
        else column
        for may, one, (look, column) in zip(may_be, own, pairs, strict=True)
    ]


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
        votes: dict[tuple, list[Column]] = {}
        for k in places:
            votes.setdefault((columns[k].role, columns[k].levels), []).append(columns[k])
        if len(places) < BATTERY or len(votes) == 1:
            continue
        evidence = {reading: sum(map(_log_odds, of_it)) for reading, of_it in votes.items()}
        reading = max(votes, key=lambda reading: evidence[reading])
        if evidence[reading] < _MOST * sum(evidence.values()):
            continue
        like = max(votes[reading], key=lambda column: column.confidence)
        for k in places:
            if (columns[k].role, columns[k].levels) != reading:
                voted[k] = _read_like(looks[k], columns[k], like, len(votes[reading]))
    return voted


def _log_odds(column: Column) -> float:
    return math.log(column.confidence / (1 - column.confidence))


def _read_like(look: ColumnProfile, column: Column, like: Column, n_votes: int) -> Column:
    own = zip((*column.missing, *like.missing), (*column.missing_names, *like.missing_names), strict=True)
    missing = {code: name for code, name in own if code not in like.levels}
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


def with_shared_scales(looks: Sequence[ColumnProfile], columns: Sequence[Column]) -> list[Column]:
    """Scales without labels that lack an answer which the columns beside them have get it.

    Only where nobody may have given it by chance: a shorter scale beside longer ones stays.
    """
    shared = list(columns)
    for run in _side_by_side(looks, columns):
        like: dict[tuple[Code, ...], list[ColumnProfile]] = {}
        for k in run:
            like.setdefault(columns[k].levels, []).append(looks[k])
        for place, k in enumerate(run):
            scales = Counter(filter(None, (columns[other].levels for other in _near(run, place))))
            for scale, n in scales.most_common(1):
                lacking = _lacking(columns[k].levels or _whole_numbers(looks[k]), scale)
                others = [other.counts for other in like[scale]]
                if n >= BATTERY and lacking and may_lack(lacking, looks[k].n_answers, others):
                    shared[k] = _with_levels(columns[k], scale, lacking, n)
    return shared


def _near(run: Sequence[int], place: int) -> list[int]:
    window = range(max(0, place - _WINDOW), min(len(run), place + _WINDOW + 1))
    nearest = sorted((p for p in window if p != place), key=lambda p: abs(p - place))
    return [run[p] for p in nearest[:_WINDOW]]


def _side_by_side(looks: Sequence[ColumnProfile], columns: Sequence[Column]) -> list[list[int]]:
    """Runs of columns next to each other with scales of numbers, or of text, without labels."""
    runs: list[list[int]] = []
    kind = None
    for place, (look, column) in enumerate(zip(looks, columns, strict=True)):
        own = look.is_text if _may_be_scale(look, column) else None
        if own is not None and own == kind:
            runs[-1].append(place)
        elif own is not None:
            runs.append([place])
        kind = own
    return runs


def _may_be_scale(look: ColumnProfile, column: Column) -> bool:
    if look.labels or look.order is not None or BLANK in column.levels:
        return False
    if column.role == "numeric":  # of 1 to 5, a few people may have given 3, 4 and 5 alone
        is_named = named_after(look.name, MEASURED_WORDS) or asks(look.question, "counted")
        return not is_named and bool(_whole_numbers(look))
    return column.role == "ordinal"


def _whole_numbers(look: ColumnProfile) -> tuple[Code, ...]:
    codes = [code for code in look.counts if isinstance(code, int)]
    return tuple(sorted(codes)) if len(codes) == len(look.counts) <= _FEW else ()


def _lacking(levels: tuple[Code, ...], scale: tuple[Code, ...]) -> list[Code]:
    """Levels of a scale that a shorter one lacks; none if that is no part of it."""
    if tuple(level for level in scale if level in levels) != levels:
        return []
    return [level for level in scale if level not in levels]


def _with_levels(column: Column, scale: tuple[Code, ...], lacking: Sequence[Code], n_others: int) -> Column:
    names = dict(zip(column.levels, column.names, strict=True))
    listed = " and ".join(map(str, lacking))
    return replace(
        column,
        role="ordinal",
        levels=scale,
        names=tuple(names.get(level, str(level)) for level in scale),
        reason=f"the scale of {n_others} columns next to it; nobody gave {listed}",
        confidence=_VOTED,
    )

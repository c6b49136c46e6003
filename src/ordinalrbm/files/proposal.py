"""What each column of a file probably is: a proposal that says why, for people to correct.

Nothing is dropped on a guess: a code is no answer only if the file or its label says so. Codes
that look odd stay levels, and the reason says to look at them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.files.codes import alike, as_number, count_codes, is_among
from ordinalrbm.files.ranges import ranges_in_order
from ordinalrbm.files.schema import Code, Column, Role, Schema
from ordinalrbm.files.source import Source
from ordinalrbm.files.vocabulary import (
    MEASURED_WORDS,
    NOMINAL_WORDS,
    known_order,
    looks_like_id,
    looks_like_weight,
    means_no_answer,
    named_after,
    names_categories,
)

MOST_LEVELS = 11  # 0 to 10; with more, numbers without labels are measurements
_MOST_DECLARED = 50  # levels of a column that its file calls ordinal
_MOST_RANGES = 20  # income groups and the like
_MOST_CATEGORIES = 300  # countries are fewer; more different texts are free text
_ENOUGH_ROWS = 50  # with fewer, whole numbers may well all differ by chance
_DATE_TEXT = re.compile(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[./]\d\d?[./]\d{2,4}( .*)?")
_INFINITE = (math.inf, -math.inf)  # stand in files of measurements, and in no list of codes
# What surveys like to use for "don't know" and the like.
_TYPICAL_MISSING = {7, 8, 9, 66, 77, 88, 96, 97, 98, 99, 996, 997, 998, 999, 9997, 9998, 9999}


def propose(source: Source) -> Schema:
    """Roles, levels and codes that are no answer, column by column.

    Parameters
    ----------
    source : Source
        What `formats.read` or `formats.from_frame` gives.

    Returns
    -------
    Schema

    Examples
    --------
    >>> from ordinalrbm.files.formats import from_frame
    >>> table = pd.DataFrame({"sex": ["m", "f"] * 3, "Q1": ["often", "never", "n/a"] * 2})
    >>> schema = propose(from_frame(table))
    >>> [(column.name, column.role, column.levels, column.missing) for column in schema.columns]
    [('sex', 'background', (), ()), ('Q1', 'ordinal', ('never', 'often'), ('n/a',))]
    """
    columns = [_propose_column(_look(source, name)) for name in source.frame.columns]
    for role in ("weight", "id"):
        columns = _only_first(columns, role)
    return Schema(tuple(columns))


# ---- looking at a column ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Look:
    """A column with codes that are no answer set apart."""

    name: str
    question: str
    n_rows: int
    counts: dict[Code, int]  # of answers
    labels: dict[Code, str]  # of answers
    missing: dict[Code, str]  # the other codes and their names
    measure: str
    is_date: bool
    is_codes: bool
    order: tuple[Code, ...] | None  # the categories of an ordered categorical

    @property
    def is_text(self) -> bool:
        return any(isinstance(code, str) for code in self.counts)

    @property
    def n_answers(self) -> int:
        return sum(self.counts.values())

    def label(self, code: Code) -> str:
        return self.labels.get(code) or str(code)


def _look(source: Source, name: str) -> _Look:
    values = source.frame[name]
    is_date = name in source.dates or pd.api.types.is_datetime64_any_dtype(values.dtype)
    is_codes, counts = _counts(values)
    labels = {code: label for code, label in source.value_labels.get(name, {}).items() if label}
    if values.dtype == bool or isinstance(values.dtype, pd.BooleanDtype):
        labels = {0: "false", 1: "true"}
    missing = _missing_codes(source, name, counts, labels)
    order = None
    if isinstance(values.dtype, pd.CategoricalDtype) and values.dtype.ordered:
        codes = count_codes(pd.Series(values.dtype.categories))
        order = tuple(code for code in codes if code not in missing)
    return _Look(
        name,
        source.questions.get(name, ""),
        len(values),
        {code: count for code, count in counts.items() if code not in missing},
        {code: label for code, label in labels.items() if code not in missing},
        missing,
        source.measure.get(name, ""),
        is_date,
        is_codes,
        order,
    )


def _counts(values: pd.Series) -> tuple[bool, dict[Code, int]]:
    """Whether there are codes in a column, rather than lists or dates, and how often each is."""
    try:
        counts = count_codes(values)
    except TypeError:  # lists and the like cannot be counted
        return False, {}
    return bool(counts) or all(pd.isna(v) or str(v).strip() == "" for v in values), counts


def _missing_codes(
    source: Source, name: str, counts: dict[Code, int], labels: dict[Code, str]
) -> dict[Code, str]:
    """Codes that are no answer, by what the file declares and by what labels say."""
    declared = source.missing.get(name, ())
    codes = [entry for entry in declared if not isinstance(entry, tuple)]
    missing: dict[Code, str] = {code: labels.get(code, str(code)) for code in codes}
    tags = source.tags.get(name, np.array([], dtype=object))
    tagged = {tag: str(tag) for tag in sorted(set(tags.tolist()) - {""})}
    for code in {**labels, **counts, **tagged}:
        label = labels.get(code, str(code))
        is_tag = isinstance(code, str) and bool(re.fullmatch(r"\.[a-z]", code))
        if is_tag or is_among(code, declared) or _says_no_answer(code, label, counts):
            missing[code] = label
    return missing


def _says_no_answer(code: Code, label: str, counts: dict[Code, int]) -> bool:
    if label == code and _is_short_code(code):
        # Among codes of countries, NA is Namibia and DK is Denmark.
        alike = sum(_is_short_code(other) for other in counts if other != code)
        if alike >= max(2, 0.8 * (len(counts) - 1)):
            return False
    return means_no_answer(label)


def _is_short_code(code: Code) -> bool:
    return isinstance(code, str) and len(code) <= 3 and code.isupper()


# ---- deciding ---------------------------------------------------------------------------------


def _propose_column(look: _Look) -> Column:
    """The first rule that fits."""
    column = _unusable(look) or _weight(look) or _id(look)
    if column is not None:
        return column
    look, merged = _merge_spellings(look)  # not of ids, where each letter counts
    column = _constant(look) or _ordered_category(look) or _by_words(look) or _numbers(look)
    column = column or _text(look)
    if merged and (column.role == "ordinal" or len(look.counts) == 1):  # else values stay as spelt
        return replace(column, reason=column.reason + _taken_as(merged))
    return column


def _merge_spellings(look: _Look) -> tuple[_Look, dict[Code, Code]]:
    """The column with "agree" counted as "Agree" and "01" as "1", and what was merged into what.

    The spelling with a label is kept, or else the one that stands there most often.
    """
    if look.order is not None:
        return look, {}
    kept: dict[Code, Code] = {}
    by_use = sorted(look.counts, key=lambda code: (code not in look.labels, -look.counts[code]))
    for code in [*by_use, *look.labels]:
        kept.setdefault(alike(code), code)
    counts: dict[Code, int] = {}
    merged: dict[Code, Code] = {}
    for code, count in look.counts.items():
        # Codes that have labels of their own differ, however they are spelt.
        target = code if code in look.labels else kept[alike(code)]
        counts[target] = counts.get(target, 0) + count
        if target != code:
            merged[code] = target
    return (replace(look, counts=counts), merged) if merged else (look, {})


def _taken_as(merged: dict[Code, Code]) -> str:
    shown = [f"{code!r} counts as {target!r}" for code, target in list(merged.items())[:3]]
    more = len(merged) - len(shown)
    return "; " + ", ".join(shown) + (f", and {more} more" if more > 0 else "")


def _column(
    look: _Look, role: Role, reason: str, levels: Sequence[Code] = (), odd: Sequence[Code] = ()
) -> Column:
    if odd:
        verb = "stands" if len(odd) == 1 else "stand"
        it, has = ("it", "has") if len(odd) == 1 else ("them", "have")
        codes = " and ".join(str(code) for code in odd)
        reason += f"; {codes} {verb} apart from the rest and {has} no label: look at {it}"
    missing, missing_names = tuple(look.missing), tuple(look.missing.values())
    levels, names = tuple(levels), unique_names(levels, look.labels)
    return Column(look.name, role, look.question, levels, names, missing, missing_names, reason)


def unique_names(levels: Iterable[Code], labels: dict[Code, str]) -> tuple[str, ...]:
    """What levels are called: their labels, or else their codes; where two are alike, both.

    Examples
    --------
    >>> unique_names([1, 2, 3], {1: "agree", 3: "agree"})
    ('1 agree', '2', '3 agree')
    """
    codes = list(levels)
    names = [labels.get(code) or str(code) for code in codes]
    times = Counter(names)
    unique: dict[str, None] = {}
    for position, (code, name) in enumerate(zip(codes, names, strict=True), start=1):
        name = f"{code} {name}" if times[name] > 1 else name
        spelt = name
        while spelt in unique:  # a label that happens to be "1 agree"
            spelt = f"{name} ({position})"
            position += 1
        unique[spelt] = None
    return tuple(unique)


def _unusable(look: _Look) -> Column | None:
    texts = [code for code in look.counts if isinstance(code, str) and _DATE_TEXT.fullmatch(code)]
    if look.is_date or (look.is_text and len(texts) == len(look.counts)):
        return _column(look, "ignored", "holds dates")
    if not look.is_codes:
        return _column(look, "ignored", "holds neither numbers nor text")
    if not look.counts and look.missing:
        return _column(look, "ignored", "holds only codes that are no answer")
    if not look.counts:
        return _column(look, "ignored", "is empty")
    return None


def _weight(look: _Look) -> Column | None:
    """Columns that are named weight are never learnt from, unless words say that they are asked."""
    if look.labels or look.order or not looks_like_weight(look.name, look.question):
        return None
    if _numeric_order(look.counts) is None:
        return None
    known = [_number(code) for code in look.counts]
    if look.is_text:
        return _column(look, "background", "its name says weight, but its numbers are text")
    if min(known) < 0 or max(known) == 0 or not all(map(math.isfinite, known)):
        return _column(look, "background", "its name says weight, but not all numbers are positive")
    reason = "its name says weight and its numbers are positive"
    if all(number.is_integer() for number in known):
        reason += "; they are whole: if they are kilograms, make it background"
    return _column(look, "weight", reason)


def _id(look: _Look) -> Column | None:
    codes = list(look.counts)
    share = len(codes) / look.n_answers
    if any(isinstance(code, float) for code in codes) or look.labels or look.order:
        return None
    if looks_like_id(look.name) and share >= 0.95 and len(codes) > 1:
        return _column(look, "id", "its name says id and its values differ")
    if share < 1 or look.n_answers < look.n_rows:
        return None
    kind, is_id = "whole number", len(codes) >= _ENOUGH_ROWS
    if look.is_text:
        kind, is_id = "text", is_id and not any(" " in str(code) for code in codes)
    else:
        numbers = [int(code) for code in codes]
        is_id |= max(numbers) - min(numbers) + 1 == len(numbers) > MOST_LEVELS  # they count
    return _column(look, "id", f"another {kind} in every row") if is_id else None


def _constant(look: _Look) -> Column | None:
    if len(look.counts) > 1:
        return None
    (code,) = look.counts
    return _column(look, "ignored", f"has only the one answer {look.label(code)}")


def _ordered_category(look: _Look) -> Column | None:
    if look.order is None or len(look.order) < 2:
        return None
    return _column(look, "ordinal", "a categorical with an order", look.order)


def _by_words(look: _Look) -> Column | None:
    """Where answers or names of columns are words that are known."""
    texts = look.labels if look.labels else {code: str(code) for code in look.counts}
    if look.labels or look.is_text:
        all_named = set(look.counts) <= set(texts)
        ordered = known_order(texts.values()) if all_named else None
        if ordered is not None:
            levels = _numeric_order(texts) or sorted(texts, key=lambda c: ordered.index(texts[c]))
            lowest, highest = texts[levels[0]], texts[levels[-1]]
            return _column(look, "ordinal", f"known answers, {lowest} to {highest}", levels)
        if names_categories(texts.values()):
            return _column(look, "background", "its answers are categories", _seen(look))
    for known in (NOMINAL_WORDS, MEASURED_WORDS):
        word = named_after(look.name, known) or named_after(look.question, known)
        if word is not None:
            return _column(look, "background", f"it is named after {word}", _seen(look))
    return None


def _numeric_order(codes: Iterable[Code]) -> list[Code] | None:
    """The codes by their numbers, or None if some are none."""
    numbers = {code: as_number(code) for code in codes}
    if any(number is None for number in numbers.values()):
        return None
    return sorted(numbers, key=lambda code: numbers[code] or 0.0)


def _seen(look: _Look) -> list[Code]:
    """Codes of categories: labelled ones, and others that occur if they are few."""
    codes = list(look.labels)
    others = [code for code in look.counts if code not in look.labels and code not in _INFINITE]
    if codes or (not look.is_text and len(others) <= MOST_LEVELS):
        codes += others if len(others) <= MOST_LEVELS else []
        return _numeric_order(codes) or codes
    return []


# ---- numbers ----------------------------------------------------------------------------------


def _numbers(look: _Look) -> Column | None:
    seen = _numeric_order(look.counts)
    if seen is None or _numeric_order(look.labels) is None:
        return None
    if not all(math.isfinite(_number(code)) for code in seen):
        return _column(look, "background", _measurement(seen))
    if len(look.labels) >= 2:
        return _labelled_numbers(look, seen)
    return _bare_numbers(look, seen)


def _labelled_numbers(look: _Look, seen: list[Code]) -> Column:
    labelled = _numeric_order(look.labels) or []
    levels, odd = _between_labels(labelled, seen)
    most = _MOST_DECLARED if look.measure == "ordinal" else MOST_LEVELS
    if look.measure == "nominal":
        return _column(look, "background", "the file says nominal", _seen(look))
    if len(levels) - len(odd) > most:
        if len(labelled) < len(levels) / 2:
            return _column(look, "background", _measurement(seen))
        reason = f"{len(labelled)} categories, too many to be levels"
        return _column(look, "background", reason, _seen(look))
    if len(levels) == 2 and look.measure != "ordinal":
        return _column(look, "background", "two categories without a known order", levels)
    scale = [code for code in levels if code not in odd]
    reason = f"{len(labelled)} labelled codes in the order of their numbers"
    if not set(scale) <= set(labelled):
        reason = f"codes {scale[0]} to {scale[-1]}, some with labels"
    return _column(look, "ordinal", reason, levels, odd)


def _between_labels(labelled: list[Code], seen: list[Code]) -> tuple[list[Code], list[Code]]:
    """Levels where some codes have labels, and those among them that stand apart."""
    if set(seen) <= set(labelled):
        return labelled, []
    low, high = _number(labelled[0]), _number(labelled[-1])
    codes = {*labelled, *seen}
    if high - low < MOST_LEVELS and all(_is_whole(code) for code in labelled):
        codes |= set(_grid(int(low), int(high), like=[*labelled, *seen]))
    outside = [code for code in seen if not low <= _number(code) <= high]
    # Where only some levels have labels, the next number may well be one more level.
    all_labelled = len(labelled) >= 3 and high - low == len(labelled) - 1
    near = 0 if all_labelled else 1
    odd = [code for code in outside if not low - near <= _number(code) <= high + near]
    odd += [code for code in outside if code not in odd and low >= 0 > _number(code)]
    return _numeric_order(codes) or [], _numeric_order(odd) or []


def _bare_numbers(look: _Look, seen: list[Code]) -> Column:
    core, odd = _core(seen)
    if not all(_is_whole(code) for code in seen) or len(core) < 2:
        return _column(look, "background", _measurement(seen), _seen(look))
    low, high = int(_number(core[0])), int(_number(core[-1]))
    declared = look.measure == "ordinal" and high - low < _MOST_DECLARED
    symmetric = low == -high and high <= 5
    counted = 0 <= low <= 2 and high < MOST_LEVELS + min(low, 1)
    if look.measure == "nominal":
        return _column(look, "background", "the file says nominal", _seen(look))
    if not (declared or symmetric or counted):
        return _column(look, "background", _measurement(seen), _seen(look))
    low = min(low, 1) if counted else low  # of 1 to 5, nobody may have chosen 1
    levels = _numeric_order({*_grid(low, high, like=seen), *core, *odd}) or []
    return _column(look, "ordinal", f"whole numbers from {low} to {high}", levels, odd)


def _core(seen: list[Code]) -> tuple[list[Code], list[Code]]:
    """Codes of the scale itself, and codes such as 99 or -1 that stand apart from it."""
    numbers = [_number(code) for code in seen]
    above = [n for n in numbers if n >= 0]
    low = [n for n in numbers if n < 0] if len(above) >= 2 and min(numbers) != -max(numbers) else []
    high: list[float] = []
    for k in range(len(numbers) - 1, 1, -1):
        if numbers[k] not in _TYPICAL_MISSING:
            break
        if numbers[k] - numbers[k - 1] >= 2:
            high = numbers[k:]
    apart = {*low, *high}
    core = [code for code, n in zip(seen, numbers, strict=True) if n not in apart]
    return core, [code for code, n in zip(seen, numbers, strict=True) if n in apart]


def _number(code: Code) -> float:
    """The number of a code that is known to be one."""
    number = as_number(code)
    assert number is not None
    return number


def _is_whole(code: Code) -> bool:
    return _number(code).is_integer()


def _grid(low: int, high: int, like: Sequence[Code]) -> list[Code]:
    """Whole numbers in the way that the column writes them; those it has are taken from it."""
    written: dict[Any, Code] = {as_number(code): code for code in like}
    as_text = any(isinstance(code, str) for code in like)
    return [written.get(k, str(k) if as_text else k) for k in range(low, high + 1)]


def _measurement(seen: list[Code]) -> str:
    low, high = (code if isinstance(code, str) else f"{code:.6g}" for code in (seen[0], seen[-1]))
    return f"a measurement: {len(seen)} different numbers from {low} to {high}"


# ---- text -------------------------------------------------------------------------------------


def _text(look: _Look) -> Column:
    texts = list(look.counts)
    if 3 <= len(texts) <= _MOST_RANGES:
        spelt = {look.label(code): code for code in texts}
        ordered, why_not = ranges_in_order(spelt)
        if ordered is not None and len(ordered) == len(texts):
            levels = [spelt[text] for text in ordered]
            return _column(look, "ordinal", "ranges of numbers in ascending order", levels)
        if why_not:
            return _column(look, "background", why_not, _seen(look))
    words = [code for code in texts if as_number(code) is None]
    if len(words) == 1 and 3 <= len(texts) <= MOST_LEVELS + 1 and not look.labels:
        reason = f"numbers beside the text {words[0]!r}: say whether it is a level or no answer"
        return _column(look, "background", reason)
    most_differ = len(texts) > _ENOUGH_ROWS and len(texts) > look.n_answers / 2
    if (len(texts) > _MOST_CATEGORIES or most_differ) and not look.labels:
        return _column(look, "ignored", f"free text: {len(texts):,} different ones")
    return _column(look, "background", "text without a known order", _seen(look))


# ---- all columns ------------------------------------------------------------------------------


def _only_first(columns: list[Column], role: Role) -> list[Column]:
    """One weight and one id can be used; further ones are left out, saying so."""
    first = next((column.name for column in columns if column.role == role), None)
    reason = f"another {role}; {first!r} is used"
    return [
        replace(column, role="ignored", reason=reason)
        if column.role == role and column.name != first
        else column
        for column in columns
    ]

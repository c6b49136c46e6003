"""What each column of a file probably is: a proposal that says why, for people to correct.

Several kinds of evidence decide together: words of labels, names and questions, the numbers that
codes are, what other columns of the file do, and, weakly, the measure that the file declares. What
is doubtful has a low confidence.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ordinalrbm.schema import vocabulary
from ordinalrbm.schema.batteries import with_shared_scales, with_ticks, with_votes
from ordinalrbm.schema.known_scales import best_fit, holds_number, is_graded, is_mirrored, share_graded
from ordinalrbm.schema.labels import (
    TYPICAL_MISSING,
    LabelInterpretation,
    are_levels,
    in_order,
    mark_missing,
    numeric_order,
    split_missing_codes,
)
from ordinalrbm.schema.profile import ColumnProfile, look_at, usually_missing
from ordinalrbm.schema.schema import Code, Column, Role, Schema
from ordinalrbm.schema.source import Source, as_number

MOST_LEVELS = 11  # 0 to 10; with more, numbers without labels are measurements
_USUAL_TOPS = (4, 5, 6, 7, 10)  # of scales whose numbers have no labels
_ALL_ALIKE = 5  # columns that all declare one measure, for it to say nothing
_MOST_DECLARED = 20  # levels without labels of a column that its file calls ordinal
_MOST_CATEGORIES = 300  # countries are fewer; more different texts are free text
_ENOUGH_ROWS = 50  # with fewer, whole numbers may well all differ by chance
_ENOUGH_ANSWERS = 100  # with fewer, a level that nobody chose may well be by chance
_DATE_TEXT = re.compile(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[./]\d\d?[./]\d{2,4}( .*)?|\d\d?:\d\d(:\d\d)?")
_DATE_NUMBER = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_CLEARLY = 0.92  # how sure levels must be for "other" to be none of them
_LOWEST_APART = 5  # years above 0, for 0 to be no age among them
_INFINITE = (math.inf, -math.inf)  # stand in files of measurements, and in no list of codes


NoAnswers = frozenset[Code]  # codes that are none in several columns of the file
Rule = Callable[[ColumnProfile, NoAnswers], Column | None]


def propose(source: Source) -> Schema:
    """Roles, levels and codes that are no answer, column by column.

    Parameters
    ----------
    source : Source
        What `formats.read` or `formats.from_frame` gives.

    Examples
    --------
    >>> import pandas as pd
    >>> from ordinalrbm.files.formats import from_frame
    >>> table = pd.DataFrame({"sex": ["m", "f"] * 3, "Q1": ["often", "never", "n/a"] * 2})
    >>> schema = propose(from_frame(table))
    >>> [(column.name, column.role, column.levels, column.missing) for column in schema.columns]
    [('sex', 'nominal', (), ()), ('Q1', 'ordinal', ('never', 'often'), ('n/a',))]
    """
    looks = [look_at(source, name) for name in source.frame.columns]
    if len(looks) >= _ALL_ALIKE and len({look.measure for look in looks}) == 1:
        looks = [replace(look, measure="") for look in looks]
    no_answers = usually_missing(looks)
    columns = [_propose_column(look, no_answers) for look in looks]
    columns = with_ticks(source, looks, columns)
    columns = with_votes(looks, columns)
    columns = with_shared_scales(looks, columns)
    return Schema(tuple(_only_first(map(_without_fieldwork, columns))))


# ---- deciding ---------------------------------------------------------------------------------


def _propose_column(look: ColumnProfile, no_answers: NoAnswers) -> Column:
    return next(filter(None, (rule(look, no_answers) for rule in RULES)), None) or _text(look)


def _column(
    look: ColumnProfile, role: Role, reason: str, confidence: float, levels: Sequence[Code] = ()
) -> Column:
    return Column(
        look.name,
        role,
        look.question,
        tuple(levels),
        unique_names(levels, look.labels),
        tuple(look.missing),
        tuple(look.missing.values()),
        reason,
        tuple(
            "not applicable" if code in look.unsure else vocabulary.sort_of(name)
            for code, name in look.missing.items()
        ),
        confidence,
    )


def unique_names(levels: Iterable[Code], labels: dict[Code, str]) -> tuple[str, ...]:
    """What levels are called: their labels, or else their codes; where two are alike, both."""
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


def _unusable(look: ColumnProfile, no_answers: NoAnswers) -> Column | None:
    pattern = _DATE_TEXT if look.is_text else _DATE_NUMBER
    are_dates = bool(look.counts) and all(pattern.fullmatch(str(code)) for code in look.counts)
    if look.is_date or are_dates:
        return _column(look, "ignored", "holds dates", 0.98)
    if not look.is_codes:
        return _column(look, "ignored", "holds neither numbers nor text", 0.98)
    if not look.counts:
        reason = "holds only codes that are no answer" if look.missing else "is empty"
        return _column(look, "ignored", reason, 0.98)
    fit = best_fit(tuple(look.labels.values()))
    is_scale = look.order is not None or (fit is not None and not fit.outside)
    if vocabulary.looks_like_date(look.name, look.question) and not is_scale:
        return _column(look, "ignored", "its label says that it is a date or a time", 0.9)
    return None


def _weight(look: ColumnProfile, no_answers: NoAnswers) -> Column | None:
    of_sample = vocabulary.says_sampling_weight(look.question)
    if look.order or len(look.counts) == 1 or not vocabulary.looks_like_weight(look.name, look.question):
        return None
    if look.labels and (not of_sample or is_mirrored(list(look.labels.values()))):
        return None  # whether a weight was used: yes or no
    if numeric_order(look.counts) is None:
        return None
    known = [_number(code) for code in look.counts]
    are_whole = all(number.is_integer() for number in known)
    if are_whole and not of_sample and not vocabulary.looks_like_weight(look.name, ""):
        return None  # a question about the weight of something
    is_finite = all(map(math.isfinite, known))
    if look.is_text or min(known) < 0 or max(known) == 0 or not is_finite:
        reason = "its name says weight, but its numbers are text, or not all are positive"
        return _column(look, "numeric" if is_finite else "background", reason, 0.7)
    if are_whole:
        reason = "its name says weight and its numbers are positive; they are whole: if they are "
        reason += "codes of groups, make it nominal" if of_sample else "kilograms, make it numeric"
        return _column(look, "weight", reason, 0.7)
    return _column(look, "weight", "its name says weight and its numbers are positive", 0.98)


def _id(look: ColumnProfile, no_answers: NoAnswers) -> Column | None:
    codes = list(look.counts)
    share = len(codes) / look.n_answers
    if any(isinstance(code, float) for code in codes) or look.labels or look.order:
        return None
    if vocabulary.looks_like_id(look.name, look.question) and len(codes) > 1 and share >= 0.95:
        return _column(look, "id", "its name says id and its values differ", 0.98)
    if share < 1 or look.n_answers < look.n_rows:
        return None
    if look.is_text:
        is_id = len(codes) >= _ENOUGH_ROWS and not any(" " in str(code) for code in codes)
        return _column(look, "id", "another text in every row", 0.9) if is_id else None
    numbers = [int(code) for code in codes]
    they_count = max(numbers) - min(numbers) + 1 == len(numbers) > MOST_LEVELS
    is_id = they_count or len(codes) >= _ENOUGH_ROWS
    return _column(look, "id", "another whole number in every row", 0.9) if is_id else None


def _constant(look: ColumnProfile, no_answers: NoAnswers) -> Column | None:
    if len(look.counts) > 1:
        return None
    (code,) = look.counts
    return _column(look, "ignored", f"has only the one answer {look.label(code)}", 0.9)


def _ordered_category(look: ColumnProfile, no_answers: NoAnswers) -> Column | None:
    if look.order is None or len(look.order) < 2:
        return None
    return _column(look, "ordinal", "a categorical with an order", 0.98, look.order)


def _named(look: ColumnProfile, no_answers: NoAnswers) -> Column | None:
    """Numbers or text in columns whose name says what they are."""
    kinds: tuple[tuple[frozenset[str], Role], ...] = (
        (vocabulary.NOMINAL_WORDS, "nominal"),
        (vocabulary.MEASURED_WORDS, "numeric"),
    )
    if len(look.counts) > MOST_LEVELS:
        kinds = kinds[::-1]  # many numbers under "interviewer's age" are ages
    for known, role in kinds:
        word = look.named_after(known)
        if word is not None:
            if role == "numeric" and numeric_order(look.counts) is None:
                role = "nominal"
            levels = _seen(look) if role == "nominal" else []
            if role == "numeric":
                look = _without_labels_apart(look, numeric_order(look.counts) or [])
            return _column(look, role, f"it is named after {word}", 0.85, levels)
    return None


def _seen(look: ColumnProfile) -> list[Code]:
    """Codes of categories: labelled ones, and others that occur if they are few."""
    codes = list(look.labels)
    others = [code for code in look.counts if code not in look.labels and code not in _INFINITE]
    if codes or (not look.is_text and len(others) <= MOST_LEVELS):
        codes += others if len(others) <= MOST_LEVELS else []
        return numeric_order(codes) or codes
    return []


# ---- answers in words -------------------------------------------------------------------------


def _text_answers(look: ColumnProfile, no_answers: NoAnswers) -> Column | None:
    """Text without codes: an order is only what its words say."""
    is_text = not look.labels and numeric_order(look.counts) is None
    if not is_text or not 2 <= len(look.counts) <= _MOST_CATEGORIES:
        return None
    reading = split_missing_codes(look)
    levels, found = list(reading.levels), reading.look
    if len(levels) < 2:
        return None
    verdict = are_levels(found, levels)
    ordered = in_order(found, levels)
    if verdict.is_so and ordered:
        reason = "; ".join([f"known answers, {ordered[0]} to {ordered[-1]}", *reading.notes])
        return _levels(found, reason, min(verdict.confidence, reading.confidence), ordered)
    if vocabulary.n_categories_named(look.texts.values()):
        return _column(look, "nominal", "its answers are categories", 0.9, _seen(look))
    return None


def _labelled(look: ColumnProfile, no_answers: NoAnswers) -> Column | None:
    bare = [code for code in numeric_order(look.counts) or () if code not in look.labels]
    if len(look.labels) < 2 or len(bare) > max(MOST_LEVELS, len(look.labels)):
        return None  # numbers of which a few have labels
    reading = _with_unlabelled(split_missing_codes(look), no_answers)
    if len(reading.levels) < 2:
        return None
    reading = _without_others(reading)
    look = reading.look
    verdict = are_levels(look, reading.levels)
    reason = "; ".join([verdict.because, *reading.notes])
    confidence = min(reading.confidence, verdict.confidence)
    if not verdict.is_so:
        return _column(look, "nominal", reason, confidence, _seen(look))
    return _levels(look, reason, confidence, reading.levels)


def _without_others(reading: LabelInterpretation) -> LabelInterpretation:
    """Set "other" apart where all else is clearly in an order: it stands nowhere on a scale."""
    others = [code for code in reading.levels if vocabulary.says_other(reading.look.label(code))]
    without = reading.without(others)
    if not others or len(without.levels) < 3:
        return reading
    verdict = are_levels(without.look, without.levels)
    is_held = any(code in reading.look.counts for code in others)
    if not verdict.is_so or (is_held and verdict.confidence < _CLEARLY):
        return reading
    names = ", ".join(repr(reading.look.label(code)) for code in others)
    return without.noting(f"{names} taken for no answer: no level among levels")


def _levels(look: ColumnProfile, reason: str, confidence: float, ordered: Sequence[Code]) -> Column:
    word = look.named_after(vocabulary.MEASURED_WORDS)
    if word is None:
        return _column(look, "ordinal", reason, confidence, ordered)
    reason = f"{reason}; it is named after {word}"
    return _column(look, "background", reason, min(confidence, 0.85), ordered)


def _without_labels_apart(look: ColumnProfile, seen: list[Code]) -> ColumnProfile:
    """Without labelled numbers far from those without labels, as 998 is above ages.

    A labelled 0 far below ages is none either: "never married".
    """
    bare = [_number(code) for code in seen if code not in look.labels]
    highest, lowest = max(bare, default=math.inf), min(bare, default=0.0)
    is_age = bool(vocabulary.AGE_WORDS & vocabulary.name_words(look.question))
    apart = [
        code
        for code, label in look.labels.items()
        if (number := as_number(code)) is not None
        # "too many to count" and "97 or older" are numbers
        and (vocabulary.no_answer(label) or number == 0 or not is_graded(label))
        and (vocabulary.no_answer(label) or not re.search(r"\d", label))
        and (
            (number in TYPICAL_MISSING and number > highest + 1)
            or (number == 0 and is_age and lowest > _LOWEST_APART)
        )
    ]
    return mark_missing(look, apart)


def _with_unlabelled(reading: LabelInterpretation, no_answers: NoAnswers) -> LabelInterpretation:
    """With levels that have no label, and without those codes of them that are no level."""
    labelled = list(reading.levels)
    seen = numeric_order(reading.look.counts) or []
    if set(seen) <= set(labelled) or numeric_order(labelled) is None:
        return reading
    if numeric_order(labelled) != labelled:  # with a middle that was moved there
        odd = [code for code in seen if code not in labelled]
        levels = [*labelled, *odd]
    else:
        levels, odd = _between_labels(labelled, seen)
    return _odd_codes(replace(reading, levels=tuple(levels)), odd, no_answers)


def _odd_codes(reading: LabelInterpretation, odd: list[Code], no_answers: NoAnswers) -> LabelInterpretation:
    """Set codes apart that have no label and no place among the others, or say to look at them."""
    others = [code for code in reading.levels if code not in odd]
    apart = [code for code in odd if _is_no_level(code, others, reading.look, no_answers)]
    kept = [code for code in odd if code not in apart]
    if apart:
        note = f"{' and '.join(map(str, apart))} without a label taken for no answer"
        reading = reading.without(apart).noting(note, 0.75)
    if kept:
        note = f"look at {' and '.join(map(str, kept))}: apart from the rest, without a label"
        reading = reading.noting(note, 0.55)
    return reading


def _is_no_level(code: Code, others: list[Code], look: ColumnProfile, no_answers: NoAnswers) -> bool:
    number = _number(code)
    gap = number - max(map(_number, others), default=0.0)
    if number < 0 or (code in no_answers and gap > 1):
        return True
    are_named = set(others) <= set(look.labels)
    is_typical = number in TYPICAL_MISSING and gap >= (2 if are_named else 2.5)
    return is_typical and (number > 9 or are_named or look.n_answers >= _ENOUGH_ANSWERS)


# ---- numbers ----------------------------------------------------------------------------------


def _numbers(look: ColumnProfile, no_answers: NoAnswers) -> Column | None:
    seen = numeric_order(look.counts)
    if seen is None:
        return None
    if not all(math.isfinite(_number(code)) for code in seen):
        return _column(look, "background", _measurement(seen), 0.6)
    look = _without_labels_apart(look, seen)
    seen = [code for code in seen if code in look.counts]
    if vocabulary.numbers_something(look.name, look.question):
        return _column(look, "nominal", "its name says that it numbers something, and its values repeat", 0.8)
    if vocabulary.asks(look.question, "counted") and len(seen) > 2:
        return _column(look, "numeric", "it is asked for a number", 0.85)
    core, odd = _core(seen, no_answers)
    if not all(_number(code).is_integer() for code in seen) or len(core) < 2:
        return _column(look, "numeric", _measurement(seen), 0.9)
    return _bare_numbers(_odd_codes(LabelInterpretation(look, tuple(seen)), odd, no_answers), core)


def _bare_numbers(reading: LabelInterpretation, core: list[Code]) -> Column:
    look, notes = reading.look, reading.notes
    low, high = int(_number(core[0])), int(_number(core[-1]))
    declared = look.measure == "ordinal" and high - low < _MOST_DECLARED
    symmetric = low == -high and high <= 5
    counted = 0 <= low <= 2 and high < MOST_LEVELS + min(low, 1)
    if not (declared or symmetric or counted):
        reason = "; ".join([_measurement(list(reading.levels)), *notes])
        return _column(look, "numeric", reason, min(reading.confidence, 0.9))
    low = min(low, 1) if counted else low  # of 1 to 5, nobody may have chosen 1
    levels = numeric_order({*_grid(low, high, like=core), *reading.levels}) or []
    reason = "; ".join([f"whole numbers from {low} to {high}", *notes])
    sure = 0.8 if high in _USUAL_TOPS or (low, high) == (0, 1) else 0.7
    sure = sure if counted or symmetric else 0.65
    return _column(look, "ordinal", reason, min(reading.confidence, sure), levels)


def _between_labels(labelled: list[Code], seen: list[Code]) -> tuple[list[Code], list[Code]]:
    """Levels where some codes have labels, and those among them that stand apart."""
    low, high = _number(labelled[0]), _number(labelled[-1])
    codes = {*labelled, *seen}
    if high - low < MOST_LEVELS and all(_number(code).is_integer() for code in labelled):
        codes |= set(_grid(int(low), int(high), like=[*labelled, *seen]))
    outside = [code for code in seen if not low <= _number(code) <= high]
    # Where only some levels have labels, the next number may well be one more level.
    all_labelled = len(labelled) >= 3 and high - low == len(labelled) - 1
    near = 0 if all_labelled else 1
    odd = [code for code in outside if not low - near <= _number(code) <= high + near]
    odd += [code for code in outside if code not in odd and low >= 0 > _number(code)]
    return numeric_order(codes) or [], numeric_order(odd) or []


def _core(seen: list[Code], no_answers: NoAnswers) -> tuple[list[Code], list[Code]]:
    """Bare numbers without those that stand apart, below 0 or above a gap; and these."""
    numbers = [_number(code) for code in seen]
    is_signed = sum(n >= 0 for n in numbers) < 2 or min(numbers) == -max(numbers)
    low = [] if is_signed else [n for n in numbers if n < 0]
    high: list[float] = []
    for k in range(len(numbers) - 1, 1, -1):
        if numbers[k] not in TYPICAL_MISSING and seen[k] not in no_answers:
            break
        if numbers[k] - numbers[k - 1] >= 2:
            high = numbers[k:]
    apart = {*low, *high}
    core = [code for code in seen if _number(code) not in apart]
    return core, [code for code in seen if _number(code) in apart]


def _number(code: Code) -> float:
    number = as_number(code)
    assert number is not None
    return number


def _grid(low: int, high: int, like: Sequence[Code]) -> list[Code]:
    """Whole numbers in the way that the column writes them; those it has are taken from it."""
    written: dict[Any, Code] = {as_number(code): code for code in like}
    as_text = any(isinstance(code, str) for code in like)
    return [written.get(k, str(k) if as_text else k) for k in range(low, high + 1)]


def _measurement(seen: list[Code]) -> str:
    low, high = (code if isinstance(code, str) else f"{code:.6g}" for code in (seen[0], seen[-1]))
    return f"a measurement: {len(seen)} different numbers from {low} to {high}"


# ---- text -------------------------------------------------------------------------------------


def _text(look: ColumnProfile) -> Column:
    texts = list(look.counts)
    words = [code for code in texts if as_number(code) is None]
    if len(words) == 1 and 3 <= len(texts) <= MOST_LEVELS + 1 and not look.labels:
        reason = f"numbers beside the text {words[0]!r}: say whether it is a level or no answer"
        return _column(look, "background", reason, 0.5)
    most_differ = len(texts) > _ENOUGH_ROWS and len(texts) > look.n_answers / 2
    if (len(texts) > _MOST_CATEGORIES or most_differ) and not look.labels:
        return _column(look, "ignored", f"free text: {len(texts):,} different ones", 0.9)
    labels = [look.label(code) for code in texts]
    if len(texts) <= MOST_LEVELS and (share_graded(labels) >= 0.8 or all(map(holds_number, labels))):
        reason = "text whose words tell a degree, in an order that is not known: give its levels"
        return _column(look, "nominal", reason, 0.5, _seen(look))
    return _column(look, "nominal", "text without a known order", 0.85, _seen(look))


# ---- all columns ------------------------------------------------------------------------------


def _without_fieldwork(column: Column) -> Column:
    """What tells of interviewers and of the sample is set apart from what people answered."""
    if column.role in ("weight", "id", "ignored") or not vocabulary.is_of_fieldwork(
        column.name, column.question
    ):
        return column
    reason = f"it tells of the fieldwork, not of the person; {column.reason}"
    return replace(column, role="fieldwork", reason=reason, confidence=max(column.confidence, 0.85))


def _only_first(columns: Iterable[Column]) -> list[Column]:
    """One weight and one id can be used; further ones are left out, saying so."""
    first: dict[str, str] = {}
    kept = []
    for column in columns:
        used = first.setdefault(column.role, column.name)
        if column.role in ("weight", "id") and used != column.name:
            column = replace(column, role="ignored", reason=f"another {column.role}; {used!r} is used")
        kept.append(column)
    return kept


# The first rule that fits says what a column is.
RULES: tuple[Rule, ...] = (
    _unusable,
    _weight,
    _id,
    _constant,
    _ordered_category,
    _text_answers,
    _labelled,
    _named,
    _numbers,
)

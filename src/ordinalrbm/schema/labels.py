"""Answers that have words: which codes are answers, and whether these are levels.

Clues that speak for or against something are weighed together. A clue's points are log-odds: +1
makes a thing 2.7 times as likely as it was, -1 as unlikely. They are judgements, set by hand and
checked on the columns of tests/files/corpus.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

from ordinalrbm.schema import vocabulary
from ordinalrbm.schema.known_scales import (
    Fit,
    are_alike,
    are_letters_in_a_row,
    are_opposites,
    best_fit,
    is_graded,
    is_mirrored,
    n_own_words,
    share_graded,
)
from ordinalrbm.schema.profile import ColumnProfile
from ordinalrbm.schema.schema import Code
from ordinalrbm.schema.source import as_number

# What surveys like to use for "don't know" and the like.
TYPICAL_MISSING = frozenset([7, 8, 9, 55, 66, 77, 88, *range(93, 100), 555, 666, 777, 888, *range(993, 1000)])
TYPICAL_MISSING |= {6666, 7777, 8888, *range(9993, 10_000), *range(99_997, 100_000)}
_VERY_MANY = 50
_FEW_WORDS, _MANY_WORDS = 1.2, 2.2  # of a label alone, on average; a scale's labels have fewer
_LAST_LATIN = "\u024f"
_MOVED = 0.8  # how sure a middle is that is coded last
_MANY_LEVELS = 7
_UNREAD = 0.6
_MANY = 11  # 0 to 10; more labelled codes are seldom levels


@dataclass(frozen=True)
class LabelInterpretation:
    """A column's answers as they were understood."""

    look: ColumnProfile
    levels: tuple[Code, ...]
    confidence: float = 1.0
    notes: tuple[str, ...] = ()

    def noting(self, note: str, confidence: float = 1.0) -> Self:
        notes = (*self.notes, note) if note else self.notes
        return replace(self, notes=notes, confidence=min(self.confidence, confidence))

    def without(self, apart: Iterable[Code]) -> Self:
        look = mark_missing(self.look, apart)
        levels = tuple(code for code in self.levels if code not in look.missing)
        return replace(self, look=look, levels=levels)


# ---- evidence ---------------------------------------------------------------------------------

_MOST_TOLD = 3
_MOST_SURE = 0.99
_MOST_SURE_OF_TEXT = 0.6


class Clue(NamedTuple):
    """Something that speaks for a thing (points above 0) or against it."""

    points: float
    because: str  # in words, with {case.…} for what it was seen in
    holds: Callable[[Any], object]


# Of the clues in a row, the first that holds counts.
Table = Sequence[Sequence[Clue]]


class Verdict(NamedTuple):
    """Whether clues speak for something, how sure that is (0.5 to 1), and the strongest of them."""

    is_so: bool
    confidence: float
    because: str


def weigh(table: Table, case: Any) -> Verdict:
    """What the clues that hold say together; without any, it is not so."""
    found = [next((clue for clue in row if clue.holds(case)), None) for row in table]
    clues = [clue for clue in found if clue is not None]
    total = sum(clue.points for clue in clues)
    with_it = [clue for clue in clues if clue.points * total > 0]
    strongest = sorted(with_it, key=lambda clue: -abs(clue.points))[:_MOST_TOLD]
    because = "; ".join(clue.because.format(case=case) for clue in strongest)
    confidence = min(1 / (1 + math.exp(-abs(total))), _MOST_SURE)
    return Verdict(total > 0, round(confidence, 2), because)


# ---- codes that are no answer -----------------------------------------------------------------


def split_missing_codes(look: ColumnProfile) -> LabelInterpretation:
    """Tell codes that are no answer from levels, where words alone do not.

    The label's words, the code's number and what the other labels are decide together.
    """
    apart: dict[Code, Verdict] = {}
    rest = look
    while True:
        more = _no_answers(rest)
        if not more or len(rest.texts) - len(more) < 2:
            break
        apart |= more
        rest = mark_missing(rest, more)
    # Text that does not say that it is no answer may be a level that nobody knows.
    unsure = frozenset(
        code for code in apart if as_number(code) is None and vocabulary.no_answer(look.texts[code]) is None
    )
    reading = LabelInterpretation(
        replace(rest, unsure=unsure), tuple(numeric_order(rest.texts) or rest.texts)
    )
    if apart:
        names = ", ".join(f"{look.texts[code]!r}" for code in apart)
        least = min(apart.values(), key=lambda verdict: verdict.confidence)
        held = [
            min(verdict.confidence, _MOST_SURE_OF_TEXT if code in unsure else 1.0)
            for code, verdict in apart.items()
            if code in look.counts
        ]
        reading = reading.noting(f"{names} taken for no answer: {least.because}", min(held, default=1.0))
    return _with_middle(reading)


def _no_answers(look: ColumnProfile) -> dict[Code, Verdict]:
    codes = numeric_order(look.texts) or list(look.texts)
    fit = _scale_of(codes, look.texts)
    asked = codes
    if len(codes) > _VERY_MANY:  # towns: only words can tell
        asked = [code for code in codes if vocabulary.no_answer(look.texts[code])]
    verdicts = {code: weigh(NO_ANSWER, LabelledCode(code, codes, look, fit)) for code in asked}
    return {code: verdict for code, verdict in verdicts.items() if verdict.is_so}


def mark_missing(look: ColumnProfile, apart: Iterable[Code]) -> ColumnProfile:
    apart = dict.fromkeys(apart)
    return replace(
        look,
        counts={code: n for code, n in look.counts.items() if code not in apart},
        labels={code: label for code, label in look.labels.items() if code not in apart},
        missing={**look.missing, **{code: look.label(code) for code in apart}},
    )


def _scale_of(codes: Sequence[Code], texts: dict[Code, str]) -> Fit | None:
    """The known scale that most labels belong to, in the order of their codes."""
    fit = best_fit(tuple(texts[code] for code in codes))
    if fit is None:
        return None
    outside = [text for text in fit.outside if vocabulary.no_answer(text) is None]
    if len(outside) > max(1, len(fit.places) // 2):
        return None
    if numeric_order(codes) is None:
        return fit if fit.is_clear else None
    places = [fit.places[texts[code]] for code in codes if texts[code] in fit.places]
    return fit if _is_monotone(places) or (fit.is_clear and len(places) == len(codes)) else None


def _is_monotone(places: Sequence[float]) -> bool:
    steps = [b - a for a, b in pairwise(places)]
    return all(step >= 0 for step in steps) or all(step <= 0 for step in steps)


@dataclass(frozen=True)
class LabelledCode:
    """A code with a label, and the other codes of its column."""

    code: Code
    codes: Sequence[Code]
    look: ColumnProfile
    fit: Fit | None

    @cached_property
    def label(self) -> str:
        return self.look.texts[self.code]

    @cached_property
    def others(self) -> list[str]:
        return [self.look.texts[other] for other in self.codes if other != self.code]

    @cached_property
    def is_category(self) -> bool:
        return vocabulary.n_categories_named([self.label]) > 0

    @cached_property
    def is_off_scale(self) -> bool:
        """Whether the other codes are a scale to which this one does not belong."""
        if self.fit is not None:
            return self.label not in self.fit.places
        if _is_number_scale(self.code, self.codes, self.look):
            return True
        is_end = self.code in (self.codes[0], self.codes[-1]) and len(self.others) >= 2
        texts = [self.look.texts[code] for code in self.codes]
        return is_end and is_mirrored(self.others) and not is_mirrored(texts)

    @cached_property
    def number(self) -> float | None:
        return as_number(self.code)

    @cached_property
    def numbers(self) -> list[float]:
        known = map(as_number, {*self.codes, *self.look.counts})
        return sorted(n for n in known if n is not None)

    @property
    def is_next_to_others(self) -> bool:
        return self.number is not None and self.number >= 0 and len(self.numbers) > 1

    @property
    def is_oddly_negative(self) -> bool:
        numbers = self.numbers
        return (
            self.number is not None
            and self.number < 0
            and sum(n >= 0 for n in numbers) >= 2
            and numbers[0] != -numbers[-1]
        )

    @cached_property
    def is_coded_apart(self) -> bool:
        """Whether it is above a gap, with only typical codes of non-answers: 8 above 1 to 5."""
        if self.number is None or not len(self.numbers) < self.number:
            return False
        for low, high in pairwise(self.numbers):
            above = [n for n in self.numbers if n >= high]
            if high - low >= 2 and all(n in TYPICAL_MISSING for n in above):
                return self.number in above
        return False


# Each row is one question; of its clues the first that holds counts.
NO_ANSWER: Table = (
    (Clue(2, "its words", lambda c: vocabulary.no_answer(c.label)),),
    (
        Clue(2, "it is not on the scale of the others", lambda c: c.is_off_scale),
        Clue(-2.5, "it is one of the others", lambda c: share_graded(c.others) < 0.6),
    ),
    (Clue(-4, "it names a category", lambda c: c.is_category),),
    (
        Clue(3, "its code is negative", lambda c: c.is_oddly_negative),
        Clue(1.2, "its code {case.code} stands apart", lambda c: c.is_coded_apart),
        Clue(-2.5, "its code is next to the others", lambda c: c.is_next_to_others),
    ),
)


def _is_number_scale(code: Code, codes: Sequence[Code], look: ColumnProfile) -> bool:
    """Whether the other codes are numbers of a scale, most of them without words."""
    others = {*look.counts, *codes} - {code}
    worded = [other for other in others if not _is_its_number(other, look.labels.get(other))]
    ordered = numeric_order(others)
    return ordered is not None and len(others) >= 4 and len(worded) <= len(others) / 2


def _is_its_number(code: Code, label: str | None) -> bool:
    number = as_number(code)
    if number is None or label is None:
        return number is not None
    return as_number(vocabulary.without_code(label).strip()) == number or as_number(label.strip()) == number


# ---- the middle -------------------------------------------------------------------------------


def _with_middle(reading: LabelInterpretation) -> LabelInterpretation:
    """Put "neither" and "it depends" between the two ends, or set them apart; wherever coded."""
    codes, look = list(reading.levels), reading.look
    if numeric_order(codes) is None or len(codes) < 3:
        return reading
    ends = [code for code in (codes[0], codes[-1]) if vocabulary.says_middle(look.texts[code])]
    *sides, last = [look.texts[code] for code in codes]
    if not ends and vocabulary.says_between(last) and _are_two_sides(sides):
        ends = codes[-1:]
    if len(ends) != 1:
        return reading
    (middle,) = ends
    others = [code for code in codes if code != middle]
    texts = [look.texts[code] for code in others]
    name = look.texts[middle]
    are_all = len(others) > 2 or set(look.counts) <= set(codes)  # 0 to 10 have labels at both ends only
    if are_all and _have_a_middle(texts, name):
        half = len(others) // 2
        levels = (*others[:half], middle, *others[half:])
        return replace(reading, levels=levels).noting(f"{name!r} moved to the middle", _MOVED)
    if share_graded(texts) < 0.5:
        return reading  # "both" among categories is a category
    return reading.without([middle]).noting(f"{name!r} taken for no answer: it is no middle of these", 0.7)


def _are_two_sides(texts: Sequence[str]) -> bool:
    """Whether two labels tell a degree, and not of the same side: "too harsh", "not harsh enough"."""
    fit = best_fit(tuple(texts))
    if len(texts) != 2 or (fit is not None and fit.middle is not None and not fit.is_balanced):
        return False
    return all(map(is_graded, texts)) or are_opposites(*texts)


def _have_a_middle(texts: Sequence[str], middle: str) -> bool:
    """Whether labels run from one end to another, with room for one between them."""
    if any(map(vocabulary.says_middle, texts)):
        return False
    if len(texts) == 2 and (vocabulary.says_depends(middle) or _are_two_sides(texts)):
        return True
    fit = best_fit(tuple(texts))
    if is_mirrored(texts) or fit is None or fit.outside:
        return is_mirrored(texts)
    return fit.is_balanced or (len(texts) % 2 == 0 and vocabulary.says_neither(middle))


# ---- levels or categories ---------------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    """The answers of a column, which are levels or categories."""

    look: ColumnProfile
    levels: Sequence[Code]

    @cached_property
    def texts(self) -> list[str]:
        return [self.look.texts[code] for code in self.levels if code in self.look.texts]

    @property
    def last(self) -> str:
        return self.texts[-1]

    @property
    def is_likely_degree(self) -> bool:
        """Whether two labels are levels, of which few words tell."""
        share = share_graded(self.texts)
        return share == 1 or (share >= 0.3 and self.asks("ordered"))

    @property
    def ends_are_opposites(self) -> bool:
        return len(self.texts) > 2 and are_opposites(self.texts[0], self.last)

    @property
    def middle(self) -> str:
        return self.texts[len(self.texts) // 2]

    @property
    def has_middle(self) -> bool:
        return len(self.texts) in (3, 5, 7) and vocabulary.says_between(self.middle)

    def asks(self, for_what: vocabulary.Asked) -> bool:
        return vocabulary.asks(self.look.question, for_what)

    @cached_property
    def fit(self) -> Fit | None:
        if len(self.texts) == len(self.levels):
            return _scale_of(self.levels, self.look.texts)
        return best_fit(tuple(self.texts))

    @cached_property
    def has_known_form(self) -> bool:
        return any(clue.holds(self) for clue in ORDER[0])

    @cached_property
    def share_graded(self) -> float:
        """How many labels tell a degree, less where each speaks of something else."""
        share = share_graded(self.texts)
        most_words = _FEW_WORDS if self.asks("unordered") else _MANY_WORDS
        if len(self.texts) > 2 and self.fit is None and n_own_words(self.texts) >= most_words:
            share *= 0.6  # of "strong forces" and "high growth", neither is more than the other
        return share

    @property
    def may_be_unread(self) -> bool:
        """Whether labels are as short as a scale's, or in another script, and no known categories."""
        if vocabulary.n_categories_named(self.texts) or self.nominal_word or self.asks("unordered"):
            return False
        most_words = _MANY_WORDS if len(self.texts) == 3 else _FEW_WORDS  # three are often ends and a middle
        is_short = 2 < len(self.texts) <= _MANY_LEVELS and n_own_words(self.texts) < most_words
        return is_short or all(any(letter > _LAST_LATIN for letter in text) for text in self.texts)

    @cached_property
    def nominal_word(self) -> str | None:
        return self.look.named_after(vocabulary.NOMINAL_WORDS)


# Each row is one question; of its clues the first that holds counts.
ORDER: Table = (
    (
        Clue(5, "known answers, {case.texts[0]} to {case.last}", lambda c: c.fit and not c.fit.outside),
        Clue(4, "a row of codes, with words for some", lambda c: _is_numbered(c.look, c.levels)),
        Clue(2.5, "from {case.texts[0]} to the opposite, {case.last}", lambda c: c.ends_are_opposites),
        Clue(2, "letters in a row, {case.texts[0]} to {case.last}", lambda c: are_letters_in_a_row(c.texts)),
        Clue(3, "from {case.texts[0]} to its opposite {case.last}", lambda c: is_mirrored(c.texts)),
    ),
    (
        Clue(0, "", lambda c: c.has_known_form),
        Clue(0.5, "two answers that tell a degree", lambda c: len(c.texts) == 2 and c.is_likely_degree),
        Clue(-3, "two categories without a known order", lambda c: len(c.texts) == 2),
        Clue(1.8, "most labels tell a degree", lambda c: c.share_graded >= 0.6 or c.fit),
        Clue(0.2, "some labels tell a degree", lambda c: c.share_graded >= 0.4),
        Clue(-2.2, "nothing in the labels is ordered", lambda c: True),
    ),
    (Clue(2, "its labels differ in few words", lambda c: not c.has_known_form and are_alike(c.texts)),),
    (Clue(3.5, "{case.middle!r} stands in the middle", lambda c: not c.has_known_form and c.has_middle),),
    (Clue(-3, "its answers are categories", lambda c: vocabulary.n_categories_named(c.texts) > 0),),
    (
        Clue(-3, "it is named after {case.nominal_word}", lambda c: c.nominal_word),
        Clue(-1, "it is asked for a kind of thing", lambda c: c.asks("unordered")),
        Clue(3, "it asks for a level", lambda c: c.asks("banded") and len(c.look.texts) > 2),
    ),
    (Clue(0.8, "it is asked for a degree", lambda c: not c.nominal_word and c.asks("ordered")),),
    (Clue(-1.5, "more categories than levels", lambda c: len(c.levels) > _MANY and numeric_order(c.levels)),),
    (Clue(0.7, "the file says ordinal", lambda c: c.look.measure == "ordinal"),),
)


def are_levels(look: ColumnProfile, levels: Sequence[Code]) -> Verdict:
    answers = Answers(look, levels)
    verdict = weigh(ORDER, answers)
    if verdict.is_so or not answers.may_be_unread:
        return verdict
    return Verdict(False, min(verdict.confidence, _UNREAD), f"{verdict.because}; none of its words is known")


def _is_numbered(look: ColumnProfile, levels: Sequence[Code]) -> bool:
    """Whether codes between those with words have none, or only their number."""
    bare = [code for code in levels if _is_its_number(code, look.labels.get(code))]
    return len(levels) >= 4 and len(bare) >= len(levels) / 2 and len(set(bare) & set(levels[1:-1])) >= 2


def in_order(look: ColumnProfile, levels: Sequence[Code]) -> list[Code]:
    """Text from lowest to highest as its words say; nothing where they do not."""
    fit = _scale_of(levels, look.texts)
    if fit is None or fit.outside or not fit.is_clear:
        return []
    return sorted(levels, key=lambda code: fit.places[look.texts[code]])


def numeric_order(codes: Iterable[Code]) -> list[Code] | None:
    numbers = {code: as_number(code) for code in codes}
    if any(number is None for number in numbers.values()):
        return None
    return sorted(numbers, key=lambda code: numbers[code] or 0.0)

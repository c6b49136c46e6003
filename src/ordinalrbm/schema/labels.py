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

from ordinalrbm.schema import missing_labels
from ordinalrbm.schema.known_scales import (
    Fit,
    are_alike,
    are_letters_in_a_row,
    are_opposites,
    best_fit,
    denies,
    is_graded,
    is_mirrored,
    n_own_words,
    names_both_halves,
    one_end_denies,
    one_half_denies,
    share_graded,
)
from ordinalrbm.schema.profile import ColumnProfile, FileProfile
from ordinalrbm.schema.schema import Code
from ordinalrbm.schema.source import as_number
from ordinalrbm.schema.vocabulary import NOMINAL_WORDS, asks, n_categories_named, without_code

# What surveys like to use for "don't know" and the like.
TYPICAL_MISSING = frozenset([7, 8, 9, 55, 66, 77, 88, *range(93, 100), 555, 666, 777, 888, *range(993, 1000)])
TYPICAL_MISSING |= {6666, 7777, 8888, *range(9993, 10_000), *range(99_997, 100_000)}
_ENOUGH_PLACES = 3  # on a known scale, for a label that has none there to be odd
_VERY_MANY = 50  # labels that are compared with each other
_FEW_WORDS, _MANY_WORDS = 1.2, 2.2  # of a label alone, on average; a scale's labels have fewer
_LAST_LATIN = "\u024f"
_MOVED = 0.8  # how sure a middle is that is coded last
_MANY_LEVELS = 7  # in words
_UNREAD = 0.6  # how sure labels are categories of which no word is known
_MANY = 11  # 0 to 10; more labelled codes are seldom levels


@dataclass(frozen=True)
class LabelInterpretation:
    """A column's answers as they were understood."""

    look: ColumnProfile  # with further codes set apart as no answer
    levels: tuple[Code, ...]  # in the order of their numbers, or as words tell
    confidence: float = 1.0
    notes: tuple[str, ...] = ()  # what was moved or set apart, in words

    def noting(self, note: str, confidence: float = 1.0) -> Self:
        """The same with a note, and no surer than that."""
        notes = (*self.notes, note) if note else self.notes
        return replace(self, notes=notes, confidence=min(self.confidence, confidence))

    def without(self, apart: Iterable[Code]) -> Self:
        look = mark_missing(self.look, apart)
        levels = tuple(code for code in self.levels if code not in look.missing)
        return replace(self, look=look, levels=levels)


# ---- evidence ---------------------------------------------------------------------------------

_MOST_TOLD = 3
_MOST_SURE = 0.99


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


_MOST_SURE_OF_TEXT = 0.6


# ---- codes that are no answer -----------------------------------------------------------------


def split_missing_codes(look: ColumnProfile, habits: FileProfile) -> LabelInterpretation:
    """Tell codes that are no answer from levels, where words alone do not.

    The label's words, the code's number and what the other labels are decide together.
    """
    apart: dict[Code, Verdict] = {}
    rest = look
    while True:  # what is left may show more clearly what does not belong
        more = _no_answers(rest, habits)
        if not more or len(rest.texts) - len(more) < 2:
            break
        apart |= more
        rest = mark_missing(rest, more)
    unsure = frozenset(code for code in apart if not _says_so(code, look))
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


def _says_so(code: Code, look: ColumnProfile) -> bool:
    """Whether a code is a number, or words of no answer; other text may be a level that nobody knows."""
    return as_number(code) is not None or missing_labels.no_answer(look.texts[code]) is not None


def _no_answers(look: ColumnProfile, habits: FileProfile) -> dict[Code, Verdict]:
    codes = numeric_order(look.texts) or list(look.texts)
    fit = _scale_of(codes, look.texts)
    asked = codes
    if len(codes) > _VERY_MANY:  # towns: only words can tell
        asked = [code for code in codes if missing_labels.no_answer(look.texts[code])]
    verdicts = {code: weigh(NO_ANSWER, LabelledCode(code, codes, look, habits, fit)) for code in asked}
    return {code: verdict for code, verdict in verdicts.items() if verdict.is_so}


def mark_missing(look: ColumnProfile, apart: Iterable[Code]) -> ColumnProfile:
    apart = dict.fromkeys(apart)  # in their order
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
    outside = [text for text in fit.outside if missing_labels.no_answer(text) is None]
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
    habits: FileProfile
    fit: Fit | None  # the known scale of most labels

    @cached_property
    def label(self) -> str:
        return self.look.texts[self.code]

    @cached_property
    def others(self) -> list[str]:
        return [self.look.texts[other] for other in self.codes if other != self.code]

    @cached_property
    def is_category(self) -> bool:
        return n_categories_named([self.label]) > 0

    # ---- the scale of the others ----

    @property
    def is_on_known_scale(self) -> bool:
        return self.fit is not None and self.label in self.fit.places

    @cached_property
    def is_off_scale(self) -> bool:
        """Whether the other codes are a scale to which this one does not belong."""
        if self.fit is not None:
            return not self.is_on_known_scale
        if _is_number_scale(self.code, self.codes, self.look):
            return True
        is_end = self.code in (self.codes[0], self.codes[-1]) and len(self.others) >= 2
        texts = [self.look.texts[code] for code in self.codes]
        return is_end and is_mirrored(self.others) and not is_mirrored(texts)

    @cached_property
    def denies_above_the_top(self) -> bool:
        """Whether "has no religion" stands next to "every day": below "never" it might be a level.

        Where a scale runs from one pole to another, nothing is denied beyond either.
        """
        if self.fit is None or self.is_on_known_scale:
            return False
        if self.code != self.codes[-1] or not denies(self.label):
            return False
        places = [self.fit.places[text] for text in self.others if text in self.fit.places]
        is_beyond = len(places) > 2 and places[-1] == max(places) > places[0]
        return is_beyond or (len(places) > 2 and is_mirrored(self.others))

    @property
    def denies_apart(self) -> bool:
        """Whether "does not farm" has a code of its own beside levels; not beside parties."""
        is_apart = self.is_oddly_negative or self.is_coded_apart
        is_denial = denies(self.label) and not is_graded(self.label)
        return is_apart and is_denial and share_graded(self.others) >= 0.4

    @property
    def comes_after_no_answer(self) -> bool:
        """Whether a code that is no answer stands between the last level and this one."""
        fit = self.fit
        placed = [c for c in self.codes if fit is not None and self.look.texts[c] in fit.places]
        last = max((n for n in map(as_number, placed) if n is not None), default=None)
        if last is None or self.number is None:
            return False
        between = [n for n in map(as_number, self.look.missing) if n is not None]
        return any(last < n < self.number for n in between)

    # ---- the numbers that codes are ----

    @cached_property
    def number(self) -> float | None:
        return as_number(self.code)

    @cached_property
    def numbers(self) -> list[float]:
        known = map(as_number, {*self.codes, *self.look.counts})
        return sorted(n for n in known if n is not None)

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


# Each row is one question; of its clues the first that holds counts. After # stand columns of the
# corpus that were read otherwise without it (benchmarks/results/schema-clues.txt).
NO_ANSWER: Table = (
    # A middle, or looked at later: "agree with neither" of tanzania q8c.
    (Clue(-20, "it says neither", lambda c: _may_be_middle(c.code, c.codes, c.look)),),
    (Clue(2, "its words", lambda c: missing_labels.no_answer(c.label)),),  # benin Q21
    (
        Clue(2, "it is not on the scale of the others", lambda c: c.is_off_scale),  # europe vote
        Clue(-2.5, "it is one of the others", lambda c: share_graded(c.others) < 0.6),  # france Q06
    ),
    (  # "other" beside levels is none, beside categories it is one
        Clue(1.5, "it names no degree", lambda c: c.is_category and c.is_off_scale),  # allbus educ
        Clue(-4, "it names a category", lambda c: c.is_category),  # kenya9 Q58C
    ),
    # pewg Q62
    (Clue(1.5, "it was not read out", lambda c: c.is_off_scale and missing_labels.is_spontaneous(c.label)),),
    # ghana Q52
    (Clue(1.5, "it denies something, above the highest level", lambda c: c.denies_above_the_top),),
    (
        # tests/files/test_batteries.py: "No electricity"
        Clue(
            4,
            "it comes after the levels and after a code that is no answer",
            lambda c: c.is_off_scale and not is_graded(c.label) and c.comes_after_no_answer,
        ),
    ),
    (
        Clue(3, "its code is negative", lambda c: c.is_oddly_negative),  # soep plh0012
        Clue(
            3.2,
            "its code {case.code} stands apart, as in most columns",  # senegal Q80
            lambda c: c.is_coded_apart and c.code in c.habits.most_missing,
        ),
        Clue(1.2, "its code {case.code} stands apart", lambda c: c.is_coded_apart),  # cabo Q47
        Clue(
            -2.5,
            "its code is next to the others",  # africa Q36
            lambda c: c.number is not None and c.number >= 0 and len(c.numbers) > 1,
        ),
    ),
    (Clue(1.5, "it denies something", lambda c: c.denies_apart),),  # traps A1
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
    return as_number(without_code(label).strip()) == number or as_number(label.strip()) == number


# ---- the middle -------------------------------------------------------------------------------


def _with_middle(reading: LabelInterpretation) -> LabelInterpretation:
    """Put "neither" and "it depends" between the two ends, or set them apart; wherever coded."""
    codes, look = list(reading.levels), reading.look
    if numeric_order(codes) is None or len(codes) < 3:
        return reading
    ends = [code for code in (codes[0], codes[-1]) if _may_be_middle(code, codes, look)]
    *sides, last = [look.texts[code] for code in codes]
    if not ends and missing_labels.says_between(last) and _are_two_sides(sides):
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
    if share_graded(texts) < 0.5 or missing_labels.says_both(name):
        return reading  # "both" among categories is a category
    return reading.without([middle]).noting(f"{name!r} taken for no answer: it is no middle of these", 0.7)


def _are_two_sides(texts: Sequence[str]) -> bool:
    """Whether two labels tell a degree, and not of the same side: "too harsh", "not harsh enough"."""
    fit = best_fit(tuple(texts))
    if len(texts) != 2 or (fit is not None and fit.middle is not None and not fit.is_balanced):
        return False
    return all(map(is_graded, texts)) or are_opposites(*texts)


def _may_be_middle(code: Code, codes: Sequence[Code], look: ColumnProfile) -> bool:
    """Whether a label says "neither", in these words or by naming both sides of the others."""
    if missing_labels.says_middle(look.texts[code]):
        return True
    others = [look.texts[other] for other in codes if other != code]
    return code == codes[-1] and names_both_halves(look.texts[code], others)


def _have_a_middle(texts: Sequence[str], middle: str) -> bool:
    """Whether labels run from one end to another, with room for one between them."""
    if any(map(missing_labels.says_middle, texts)):
        return False
    if len(texts) == 2 and (missing_labels.says_depends(middle) or _are_two_sides(texts)):
        return True
    fit = best_fit(tuple(texts))
    if is_mirrored(texts) or fit is None or fit.outside:
        return is_mirrored(texts)
    return fit.is_balanced or (len(texts) % 2 == 0 and missing_labels.says_neither(middle))


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
    def highest(self) -> Code:
        return self.levels[-1]

    @property
    def are_two(self) -> bool:
        return len(self.texts) == 2

    @property
    def is_likely_degree(self) -> bool:
        """Whether two labels are levels, of which few words tell."""
        share = share_graded(self.texts)
        return share == 1 or (share >= 0.3 and asks(self.look.question, "ordered"))

    @property
    def middle(self) -> str:
        return self.texts[len(self.texts) // 2]

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
        most_words = _FEW_WORDS if asks(self.look.question, "unordered") else _MANY_WORDS
        if len(self.texts) > 2 and self.fit is None and n_own_words(self.texts) >= most_words:
            share *= 0.6  # of "strong forces" and "high growth", neither is more than the other
        return share

    @property
    def may_be_unread(self) -> bool:
        """Whether labels are as short as a scale's, or in another script, and no known categories."""
        if n_categories_named(self.texts) or self.nominal_word or asks(self.look.question, "unordered"):
            return False
        most_words = _MANY_WORDS if len(self.texts) == 3 else _FEW_WORDS  # three are often ends and a middle
        is_short = 2 < len(self.texts) <= _MANY_LEVELS and n_own_words(self.texts) < most_words
        return is_short or all(any(letter > _LAST_LATIN for letter in text) for text in self.texts)

    @cached_property
    def nominal_word(self) -> str | None:
        return self.look.named_after(NOMINAL_WORDS)

    @cached_property
    def numbers(self) -> list[float]:
        numbers = [n for n in map(as_number, self.levels) if n is not None]
        return sorted(numbers) if len(numbers) == len(self.levels) > 2 else []

    @property
    def n_levels(self) -> int:
        return len(self.levels)


# Each row is one question; of its clues the first that holds counts. After # stand columns of the
# corpus that were read otherwise without it (benchmarks/results/schema-clues.txt).
ORDER: Table = (
    (
        Clue(
            5,
            "known answers, {case.texts[0]} to {case.last}",  # africa Q3
            lambda c: c.fit is not None and not c.fit.outside,
        ),
        Clue(
            4,
            "codes {case.levels[0]} to {case.highest}, with words for some",  # allbus pa01
            lambda c: _is_numbered(c.look, c.levels),
        ),
        Clue(
            2.5,
            "from {case.texts[0]} to the opposite, {case.last}",  # later Q92
            lambda c: len(c.texts) > 2 and are_opposites(c.texts[0], c.last),
        ),
        Clue(
            2,
            "one end denies what the others say",  # recent Q68
            lambda c: 2 < len(c.texts) <= _MANY and one_end_denies(c.texts),
        ),
        # ellas E2, usabbr CLASSL
        Clue(2.5, "one half denies what the other says", lambda c: one_half_denies(c.texts)),
        Clue(2, "letters in a row, {case.texts[0]} to {case.last}", lambda c: are_letters_in_a_row(c.texts)),
        # gss PARTYID
        Clue(3, "from {case.texts[0]} to its opposite {case.last}", lambda c: is_mirrored(c.texts)),
    ),
    (
        Clue(0, "", lambda c: c.has_known_form),  # moz Q75
        # latino P9
        Clue(0.5, "two answers that tell a degree", lambda c: c.are_two and c.is_likely_degree),
        Clue(-3, "two categories without a known order", lambda c: c.are_two),  # asia Q23
        Clue(
            1.8,
            "most labels tell a degree",  # africa Q98
            lambda c: c.share_graded >= 0.6 or c.fit is not None,
        ),
        Clue(0.2, "some labels tell a degree", lambda c: c.share_graded >= 0.4),  # later Q44
        Clue(-2.2, "nothing in the labels is ordered", lambda c: True),  # values V80
    ),
    (
        Clue(
            2,
            "its labels differ in few words",  # asia Q64
            lambda c: not c.has_known_form and are_alike(c.texts),
        ),
    ),
    (
        Clue(
            3.5,
            "{case.middle!r} stands in the middle",  # gss FAIR
            lambda c: (
                not c.has_known_form and len(c.texts) in (3, 5, 7) and missing_labels.says_between(c.middle)
            ),
        ),
    ),
    # uganda Q107
    (Clue(-3, "its answers are categories", lambda c: n_categories_named(c.texts) > 0),),
    (
        Clue(-3, "it is named after {case.nominal_word}", lambda c: c.nominal_word),  # traps A4
        # europe hincsrca
        Clue(-1, "it is asked for a kind of thing", lambda c: asks(c.look.question, "unordered")),
        Clue(
            3,
            "it asks for a level",  # togo Q88
            lambda c: asks(c.look.question, "banded") and len(c.look.texts) > 2,
        ),
    ),
    (
        Clue(
            0.8,
            "it is asked for a degree",  # latino P9
            lambda c: not c.nominal_word and asks(c.look.question, "ordered"),
        ),
    ),
    # test_categories_and_measurements[values13-v1-said13-29 categories]
    (Clue(-1.5, "{case.n_levels} categories, many for levels", lambda c: len(c.numbers) > _MANY),),
    (
        Clue(0.7, "the file says ordinal", lambda c: c.look.measure == "ordinal"),  # jordan Q1016
        Clue(-0.7, "the file says nominal", lambda c: c.look.measure == "nominal"),  # jordan Q104
    ),
)


def are_levels(look: ColumnProfile, levels: Sequence[Code]) -> Verdict:
    """Whether answers are levels, rather than categories."""
    answers = Answers(look, levels)
    verdict = weigh(ORDER, answers)
    if verdict.is_so or not answers.may_be_unread:
        return verdict
    return Verdict(False, min(verdict.confidence, _UNREAD), f"{verdict.because}; none of its words is known")


def off_scale_end(look: ColumnProfile, levels: Sequence[Code]) -> str | None:
    """The label of the first or last level, if it tells no degree and all others are on one known scale."""
    fit = Answers(look, levels).fit
    if fit is None or len(fit.outside) != 1 or len(fit.places) < _ENOUGH_PLACES:
        return None
    (text,) = fit.outside
    ends = [look.texts.get(code) for code in (levels[0], levels[-1])]
    return text if text in ends and share_graded([text]) == 0 else None


def _is_numbered(look: ColumnProfile, levels: Sequence[Code]) -> bool:
    """Whether codes between those with words have none, or only their number."""
    bare = [code for code in levels if _is_its_number(code, look.labels.get(code))]
    return len(levels) >= 4 and len(bare) >= len(levels) / 2 and len(set(bare) & set(levels[1:-1])) >= 2


def in_order(look: ColumnProfile, levels: Sequence[Code]) -> tuple[list[Code], str]:
    """Levels from lowest to highest, and what was moved for it, in words.

    Numbers stay in their order. Where words say that one of them stands elsewhere ("1 yes, 2 no,
    3 maybe"), words count, and text has no other order than theirs.
    """
    texts = look.texts
    codes = list(levels)
    fit = _scale_of(codes, texts) if all(code in texts for code in codes) else None
    if fit is None or fit.outside or not fit.is_clear:
        return codes, ""
    places = [fit.places[texts[code]] for code in codes]
    is_number = numeric_order(codes) is not None
    if is_number and (_is_monotone(places) or any(missing_labels.says_middle(texts[code]) for code in codes)):
        return codes, ""
    ordered = sorted(codes, key=lambda code: fit.places[texts[code]])
    if not is_number:
        return ordered, ""
    if codes.index(ordered[0]) > codes.index(ordered[-1]):
        ordered.reverse()  # in the direction of the codes
    return ordered, "put in the order of their words, not of their codes"


def numeric_order(codes: Iterable[Code]) -> list[Code] | None:
    numbers = {code: as_number(code) for code in codes}
    if any(number is None for number in numbers.values()):
        return None
    return sorted(numbers, key=lambda code: numbers[code] or 0.0)

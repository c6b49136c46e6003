"""Answers that have words: which codes are answers, and whether these are levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ordinalrbm.files.codes import as_number
from ordinalrbm.files.evidence import Clue, Verdict, weigh
from ordinalrbm.files.look import Habits, Look
from ordinalrbm.files.no_answer import is_spontaneous, no_answer, says_depends, says_middle
from ordinalrbm.files.orders import (
    Fit,
    are_alike,
    are_opposites,
    are_yes_and_no,
    best_fit,
    denies,
    is_graded,
    is_mirrored,
    n_own_words,
    one_end_denies,
    share_graded,
    shares_words,
    without_shared_words,
)
from ordinalrbm.files.ranges import places_of_ranges, ranges_in_order
from ordinalrbm.files.schema import Code
from ordinalrbm.files.vocabulary import (
    NOMINAL_WORDS,
    asked_for_band,
    asked_for_kinds,
    asked_in_order,
    label_words,
    n_categories_named,
    named_after,
    without_code,
)

# What surveys like to use for "don't know" and the like.
TYPICAL_MISSING = frozenset(
    {7, 8, 9, 55, 66, 77, 88, *range(93, 100), 555, 666, 777, 888, *range(993, 1000),
     6666, 7777, 8888, *range(9993, 10000), 99997, 99998, 99999}
)  # fmt: skip
_MOST_RANGES = 20  # income groups and the like
_VERY_MANY = 50  # labels that are compared with each other
_FEW_WORDS, _MANY_WORDS = (
    1.2,
    2.2,
)  # of a label alone, on average; in labels of a scale there are fewer
_ENOUGH_PLACES = 3  # on a scale, for a label without one to be strange
_MANY = 11  # 0 to 10; more labelled codes are seldom levels


@dataclass(frozen=True)
class Reading:
    """A column's answers as they were understood."""

    look: Look  # with further codes set apart as no answer
    levels: tuple[Code, ...]  # in the order of their numbers, or as words tell
    confidence: float = 1.0
    notes: tuple[str, ...] = ()  # what was moved or set apart, in words


# ---- codes that are no answer -----------------------------------------------------------------


def set_apart(look: Look, habits: Habits) -> Reading:
    """Tell codes that are no answer from levels, where words alone do not.

    The label's words, the code's number, what the other labels are, and in how many other columns
    the label stands last decide together.
    """
    apart: dict[Code, Verdict] = {}
    rest = look
    while True:  # what is left may show more clearly what does not belong
        more = _no_answers(rest, habits)
        if not more or len(rest.texts) - len(more) < 2:
            break
        apart |= more
        rest = set_aside(rest, more)
    reading = Reading(rest, tuple(numeric_order(rest.texts) or rest.texts))
    if apart:
        names = ", ".join(f"{look.texts[code]!r}" for code in apart)
        least = min(apart.values(), key=lambda verdict: verdict.confidence)
        note = f"{names} taken for no answer: {least.because}"
        reading = replace(reading, confidence=least.confidence, notes=(note,))
    return _with_middle(reading)


def _no_answers(look: Look, habits: Habits) -> dict[Code, Verdict]:
    codes = numeric_order(look.texts) or list(look.texts)
    fit = _scale_of(codes, look.texts)
    asked = codes
    if len(codes) > _VERY_MANY:  # towns: only words can tell
        asked = [code for code in codes if no_answer(look.texts[code])]
    verdicts = {code: weigh(_clues_of_missing(code, codes, look, habits, fit)) for code in asked}
    return {code: verdict for code, verdict in verdicts.items() if verdict.is_so}


def set_aside(look: Look, apart: Iterable[Code]) -> Look:
    """The column with further codes that are no answer."""
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
    outside = [text for text in fit.outside if no_answer(text) is None]
    if len(outside) > max(1, len(fit.places) // 2):
        return None
    if numeric_order(codes) is None:
        return fit if fit.is_clear else None
    places = [fit.places[texts[code]] for code in codes if texts[code] in fit.places]
    return fit if _is_monotone(places) or (fit.is_clear and len(places) == len(codes)) else None


def _is_monotone(places: Sequence[float]) -> bool:
    steps = [b - a for a, b in pairwise(places)]
    return all(step >= 0 for step in steps) or all(step <= 0 for step in steps)


def _clues_of_missing(
    code: Code, codes: Sequence[Code], look: Look, habits: Habits, fit: Fit | None
) -> list[Clue]:
    label = look.texts[code]
    found = no_answer(label)
    others = [look.texts[other] for other in codes if other != code]
    clues = [Clue(0.5 if shares_words(label, others) else 2, "its words")] if found else []
    if says_middle(label) or _agrees_with_no_side(code, codes, look):
        return [Clue(-9, "it says neither")]  # a middle, or looked at later
    on_scale = _points_of_scale(code, codes, look, fit)
    is_denial = _denies_above_the_top(code, codes, look, fit)
    if on_scale > 0:
        clues.append(Clue(on_scale, "it is not on the scale of the others"))
        if n_categories_named([label]):
            clues.append(Clue(1.5, "it names no degree"))  # "other" beside levels is none
        if is_spontaneous(label):
            clues.append(Clue(1.5, "it was not read out"))
        if is_denial:
            clues.append(Clue(1.5, "it denies something, above the highest level"))
    else:
        clues.append(Clue(on_scale, "it is one of the others"))
        if n_categories_named([label]):
            clues.append(Clue(-4, "it names a category"))
    if is_graded(label) and not (found or is_denial or n_categories_named([label])):
        clues.append(Clue(-2, "it tells a degree"))
    if on_scale > 0 and not is_graded(label) and _comes_after_no_answer(code, codes, look, fit):
        clues.append(Clue(4, "it comes after the levels and after a code that is no answer"))
    of_code = _clues_of_code(code, codes, look, habits, is_worded=found is not None)
    clues += of_code
    if _denies_apart(label, others, of_code):
        clues.append(Clue(1.5, "it denies something"))
    n_scales = habits.endings.get(label_words(label), 0)
    if n_scales >= 2 and code == codes[-1] and share_graded(others) >= 0.5:
        clues.append(Clue(min(n_scales - 1, 2), f"it is the last of {n_scales} different scales"))
    return clues


def _points_of_scale(code: Code, codes: Sequence[Code], look: Look, fit: Fit | None) -> float:
    """Whether the other codes are a scale to which this one does not belong (above 0)."""
    if fit is not None:
        if look.texts[code] in fit.places:
            return -4
        return 2 if len(fit.places) > 2 else 1.5
    if _is_number_scale(code, codes, look):
        return 2
    others = [look.texts[other] for other in codes if other != code]
    is_end = code in (codes[0], codes[-1]) and len(others) >= 2
    if is_end and is_mirrored(others) and not is_mirrored([look.texts[c] for c in codes]):
        return 2 if len(others) > 2 else 1.5
    return 0 if share_graded(others) >= 0.6 else -2.5


def _denies_apart(label: str, others: Sequence[str], of_code: Sequence[Clue]) -> bool:
    """Whether "does not farm" has a code of its own beside levels; not beside parties."""
    is_apart = any(clue.points > 0 for clue in of_code)
    return is_apart and denies(label) and not is_graded(label) and share_graded(others) >= 0.4


def _denies_above_the_top(code: Code, codes: Sequence[Code], look: Look, fit: Fit | None) -> bool:
    """Whether "has no religion" stands next to "every day": below "never" it might be a level.

    Where a scale runs from one pole to another, nothing is denied beyond either.
    """
    if fit is None or code != codes[-1] or not denies(look.texts[code]):
        return False
    places = [fit.places[look.texts[c]] for c in codes[:-1] if look.texts[c] in fit.places]
    is_beyond = places[-1] == max(places) > places[0] if places else False
    return len(places) > 2 and (is_beyond or is_mirrored([look.texts[c] for c in codes[:-1]]))


def _comes_after_no_answer(code: Code, codes: Sequence[Code], look: Look, fit: Fit | None) -> bool:
    """Whether a code that is no answer stands between the last level and this one."""
    placed = [as_number(c) for c in codes if fit is not None and look.texts[c] in fit.places]
    last, own = max((n for n in placed if n is not None), default=None), as_number(code)
    if last is None or own is None:
        return False
    between = [n for n in map(as_number, look.missing) if n is not None]
    return any(last < n < own for n in between)


def _is_number_scale(code: Code, codes: Sequence[Code], look: Look) -> bool:
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


def _clues_of_code(
    code: Code, codes: Sequence[Code], look: Look, habits: Habits, is_worded: bool
) -> list[Clue]:
    number = as_number(code)
    numbers = sorted(n for n in map(as_number, {*codes, *look.counts}) if n is not None)
    if number is None or len(numbers) < 2:
        return []
    if number < 0:
        is_odd = sum(n >= 0 for n in numbers) >= 2 and numbers[0] != -numbers[-1]
        return [Clue(3, "its code is negative")] if is_odd else []
    if number in _apart(numbers) and number > len(numbers):
        usual = (code in habits.missing_codes) + (code in habits.most_missing)
        return [Clue(1.2 + usual, f"its code {code} stands apart")]
    is_last = is_worded and code == codes[-1]
    return [Clue(-1.2 if is_last else -2.5, "its code is next to the others")]


def _apart(numbers: list[float]) -> list[float]:
    """Numbers above a gap that are all typical of non-answers, as 8 and 9 above 1 to 5."""
    for k in range(1, len(numbers)):
        high = numbers[k:]
        if numbers[k] - numbers[k - 1] >= 2 and all(n in TYPICAL_MISSING for n in high):
            return high
    return []


# ---- the middle -------------------------------------------------------------------------------


def _with_middle(reading: Reading) -> Reading:
    """Put "neither" and "it depends" between the two ends, or set them apart; wherever coded."""
    codes, look = list(reading.levels), reading.look
    if numeric_order(codes) is None:
        return reading
    ends = [
        code
        for code in codes
        if says_middle(look.texts[code]) or _agrees_with_no_side(code, codes, look)
    ]
    ends = [code for code in ends if code in (codes[0], codes[-1])]
    if len(ends) != 1 or len(codes) < 3:
        return reading
    (middle,) = ends
    others = [code for code in codes if code != middle]
    texts = [look.texts[code] for code in others]
    name = look.texts[middle]
    if _have_a_middle(texts, name):
        half = len(others) // 2
        levels = (*others[:half], middle, *others[half:])
        note = f"{name!r} moved to the middle"
        return replace(
            reading, levels=levels, confidence=min(reading.confidence, 0.7),
            notes=(*reading.notes, note),
        )  # fmt: skip
    if share_graded(texts) < 0.5:
        return reading  # "both" among categories is a category
    return replace(
        reading,
        look=set_aside(look, [middle]),
        levels=tuple(others),
        confidence=min(reading.confidence, 0.7),
        notes=(*reading.notes, f"{name!r} taken for no answer: it is no middle of these"),
    )


def _agrees_with_no_side(code: Code, codes: Sequence[Code], look: Look) -> bool:
    """Whether a last label denies, in their words, what four others say of two sides."""
    others = [look.texts[other] for other in codes if other != code]
    if code != codes[-1] or len(others) != 4 or not denies(look.texts[code]):
        return False
    words = set(label_words(look.texts[code]).split())
    shared = [words & set(label_words(other).split()) for other in others]
    return all(map(is_graded, others[::3])) and all(shared) and is_mirrored(others)


def _have_a_middle(texts: Sequence[str], middle: str) -> bool:
    """Whether labels run from one end to another, with room for one between them."""
    if any(map(says_middle, texts)):
        return False
    if len(texts) == 2 and says_depends(middle):
        return True
    fit = best_fit(tuple(texts))
    return is_mirrored(texts) or (fit is not None and not fit.outside and fit.is_balanced)


# ---- levels or categories ---------------------------------------------------------------------


def clues_of_order(look: Look, levels: Sequence[Code]) -> list[Clue]:
    """What speaks for levels (above 0) and for categories (below 0)."""
    texts = [look.texts[code] for code in levels if code in look.texts]
    clues = [*_of_labels(look, levels, texts), *_of_question(look), *_of_numbers(levels)]
    if look.measure == "ordinal":
        clues.append(Clue(0.7, "the file says ordinal"))
    if look.measure == "nominal":
        clues.append(Clue(-0.7, "the file says nominal"))
    return clues


def _of_labels(look: Look, levels: Sequence[Code], texts: list[str]) -> list[Clue]:
    fit = _scale_of(levels, look.texts) if len(texts) == len(levels) else best_fit(tuple(texts))
    clues = []
    if fit is not None and not fit.outside:
        clues.append(Clue(5, f"known answers, {texts[0]} to {texts[-1]}"))
    elif len(texts) == 2 and are_opposites(*texts):
        clues.append(Clue(4, f"{texts[0]} is the opposite of {texts[1]}"))
    elif _ranges_ascend(texts):
        clues.append(Clue(4, "ranges of numbers in ascending order"))
    elif _is_numbered(look, levels):
        clues.append(Clue(4, f"codes {levels[0]} to {levels[-1]}, with words for some"))
    elif len(texts) > 2 and are_yes_and_no(texts):
        clues.append(Clue(3, "kinds of no and yes"))
    elif len(texts) > 2 and are_opposites(texts[0], texts[-1]):
        clues.append(Clue(2.5, f"from {texts[0]} to its opposite {texts[-1]}"))
    elif 2 < len(texts) <= _MANY and one_end_denies(texts):
        clues.append(Clue(2, "one end denies what the others say"))
    elif is_mirrored(texts):
        clues.append(Clue(3, f"from {texts[0]} to its opposite {texts[-1]}"))
    else:
        clues.append(_of_degree(texts, fit, look.question))
        if are_alike(texts):
            clues.append(Clue(2, "its labels differ in few words"))
        if len(texts) % 2 and len(texts) > 2 and says_middle(texts[len(texts) // 2]):
            clues.append(Clue(3.5, f"{texts[len(texts) // 2]!r} stands in the middle"))
    n_categories = n_categories_named(texts)
    if n_categories:
        share = n_categories / len(texts)
        clues.append(Clue(-2.5 - 2 * share, "its answers are categories"))
    return clues


def _of_degree(texts: list[str], fit: Fit | None, question: str) -> Clue:
    share = share_graded(texts)
    if len(texts) == 2:  # few words to go by
        is_likely = share == 1 or (share >= 0.3 and asked_in_order(question))
        return Clue(0.5 if is_likely else -3, "two categories without a known order")
    most_words = _FEW_WORDS if asked_for_kinds(question) else _MANY_WORDS
    if fit is None and n_own_words(texts) >= most_words:
        share *= 0.6  # of "strong forces" and "high growth", neither is more than the other
    if share >= 0.8:
        return Clue(3, "nearly all labels tell a degree")
    if share >= 0.6 or fit is not None:
        return Clue(1.8, "most labels tell a degree")
    if share >= 0.4:
        return Clue(0.2, "some labels tell a degree")
    return Clue(-1.6 if share >= 0.2 else -2.2, "nothing in the labels is ordered")


def _ranges_ascend(texts: list[str]) -> bool:
    if not 3 <= len(texts) <= _MOST_RANGES:
        return False
    ordered, _ = ranges_in_order(texts)
    if ordered is not None and ordered in (texts, texts[::-1]):
        return True
    # Of the same things numbered, "ward 1" and "ward 2", neither is more than the other.
    spelt = without_shared_words(texts)
    places = places_of_ranges(spelt) or {}
    return len(places) == len(texts) and _is_monotone([places[text] for text in spelt])


def _is_numbered(look: Look, levels: Sequence[Code]) -> bool:
    """Whether codes between those with words have none, or only their number."""
    bare = [code for code in levels if _is_its_number(code, look.labels.get(code))]
    inner = set(levels[1:-1])
    return len(levels) >= 4 and len(bare) >= len(levels) / 2 and len(set(bare) & inner) >= 2


def _of_question(look: Look) -> list[Clue]:
    word = named_after(look.name, NOMINAL_WORDS) or named_after(look.question, NOMINAL_WORDS)
    if word is not None:
        return [Clue(-3, f"it is named after {word}")]
    clues = []
    if asked_for_kinds(look.question):
        clues.append(Clue(-1, "it is asked for a kind of thing"))
    elif asked_for_band(look.question) and len(look.texts) > 2:
        clues.append(Clue(3, "it asks for a level"))
    if asked_in_order(look.question):
        clues.append(Clue(0.8, "it is asked for a degree"))
    return clues


def _of_numbers(levels: Sequence[Code]) -> list[Clue]:
    numbers = [n for n in map(as_number, levels) if n is not None]
    if len(numbers) < len(levels) or len(numbers) < 3:
        return []
    clues = []
    gaps = sum(b - a > 1 for a, b in pairwise(sorted(numbers)))
    if gaps >= 2 or (min(numbers) > 10 and gaps <= 1):
        clues.append(Clue(-1.5, "its codes are no row of numbers"))
    if len(numbers) > _MANY:
        clues.append(Clue(-1.5, f"{len(numbers)} categories, many for levels"))
    return clues


def stray_end(look: Look, levels: Sequence[Code]) -> Code | None:
    """The first or last level, if it tells no degree and all others are on one known scale."""
    fit = _scale_of(levels, look.texts) if all(code in look.texts for code in levels) else None
    if fit is None or len(fit.outside) != 1 or len(fit.places) < _ENOUGH_PLACES:
        return None
    ends = [code for code in (levels[0], levels[-1]) if look.texts[code] in fit.outside]
    return next((code for code in ends if share_graded([look.texts[code]]) == 0), None)


def in_order(look: Look, levels: Sequence[Code]) -> tuple[list[Code], str]:
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
    if is_number and (_is_monotone(places) or any(says_middle(texts[code]) for code in codes)):
        return codes, ""
    ordered = sorted(codes, key=lambda code: fit.places[texts[code]])
    if not is_number:
        return ordered, ""
    if codes.index(ordered[0]) > codes.index(ordered[-1]):
        ordered.reverse()  # in the direction of the codes
    return ordered, "put in the order of their words, not of their codes"


def numeric_order(codes: Iterable[Code]) -> list[Code] | None:
    """The codes by their numbers, or None if some are none."""
    numbers = {code: as_number(code) for code in codes}
    if any(number is None for number in numbers.values()):
        return None
    return sorted(numbers, key=lambda code: numbers[code] or 0.0)

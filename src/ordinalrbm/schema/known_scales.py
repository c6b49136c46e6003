"""Whether labels are levels of something: known scales, ranges of numbers, and words of degree."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from ordinalrbm.schema.vocabulary import (
    PHRASES,
    Phrases,
    alternatives,
    label_words,
    remembered,
    says_neither,
    stems,
    without_asides,
    without_code,
    words_of,
)

_STRONG, _WEAK = Phrases(PHRASES["graded"]["strong"]), Phrases(PHRASES["graded"]["weak"])
_SMALL_WORDS, _NEGATIONS, _ENOUGH = (
    words_of(PHRASES["graded"][key]) for key in ("small", "negations", "enough")
)
_NEGATIVE_STARTS = ("in", "un", "dis", "im", "ir", "non", "des", "de")
_MOST_RANGES = 60  # labels in which ranges are looked for; towns are more
_CUT = 3  # letters that are enough to know a word by
_UNIT = 4  # and a unit, in the singular or the plural
_LONG = 6  # words of a label


# ---- the scales of the vocabulary -------------------------------------------------------------


def _with_strength(strength: str, poles: Sequence[str]) -> str:
    return "|".join(
        f"{word} {pole}|{pole} {word}" if word else pole for pole in poles for word in strength.split("|")
    )


def _between(language: dict[str, str], negative: str, positive: str) -> tuple[str, ...]:
    """The levels between two poles, from lowest to highest."""
    goods, bads = positive.split("|"), [word for word in negative.split("|") if word]

    def forms(key: str) -> str:
        return "|".join(language[key].replace("{}", word) for word in goods)

    strengths = language["strengths"]
    below = [_with_strength(strength, bads) for strength in strengths] if bads else []
    neither = [
        form.replace("{}", first, 1).replace("{}", second, 1)
        for form in language["neither"].split("|")
        for good in goods
        for bad in bads or [good]
        for first, second in ((good, bad), (bad, good))
    ]
    middle = "|".join([language["middle"], *neither])
    above = [_with_strength(strength, goods) for strength in reversed(strengths)]
    return (forms("not_at_all"), *below, forms("plainly_not"), forms("hardly"), middle, *above)


def _positions(levels: Iterable[str]) -> dict[str, int]:
    positions: dict[str, int] = {}
    for position, phrases in enumerate(levels):
        for phrase in alternatives(phrases):
            positions.setdefault(phrase, position)
    for phrase, position in list(positions.items()):
        positions.setdefault(stems(phrase), position)
    return positions


class _Order(NamedTuple):
    positions: dict[str, int]
    middle: int | None  # the place between two poles


@cache
def _orders() -> list[_Order]:
    orders = [_Order(_positions(one), None) for scales in PHRASES["scales"].values() for one in scales]
    for language in PHRASES["poles"].values():
        for negative, positive in language["pairs"]:
            levels = _between(language, negative, positive)
            middle = len(levels) - len(language["strengths"]) - 1
            orders.append(_Order(_positions(levels), middle if negative else None))
    return orders


@cache
def _orders_with() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, order in enumerate(_orders()):
        for phrase in order.positions:
            found.setdefault(phrase, []).append(number)
    return found


# ---- labels on a known scale ------------------------------------------------------------------


class Fit(NamedTuple):
    """Where texts stand on a known scale, and which of them have no place on it."""

    places: dict[str, int]
    outside: tuple[str, ...]
    middle: int | None = None

    @property
    def is_balanced(self) -> bool:
        """Whether as many texts stand below a middle as above it, and none there."""
        if self.middle is None:
            return False
        sides = [place - self.middle for place in self.places.values()]
        return 0 not in sides and 2 * sum(side < 0 for side in sides) == len(sides)

    @property
    def is_clear(self) -> bool:
        """Whether no two texts stand at the same place."""
        return len(set(self.places.values())) == len(self.places)


@remembered
def best_fit(texts: tuple[str, ...]) -> Fit | None:
    """The known scale that most of the texts belong to; None where none holds two of them.

    Words that most labels share do not count: "not at all free" and "very free" are on the scale of amounts.
    """
    spellings = _spellings(texts)
    fits: list[Fit] = []
    ways_in = {way for ways in spellings.values() for way in ways}
    for number in sorted({k for way in ways_in for k in _orders_with().get(way, ())}):
        order = _orders()[number]
        places = {
            text: next(order.positions[way] for way in ways if way in order.positions)
            for text, ways in spellings.items()
            if any(way in order.positions for way in ways)
        }
        if len(set(places.values())) > 1:
            fits.append(_fit(places, texts, order.middle))
    if len(texts) <= _MOST_RANGES:
        places = places_of_ranges(texts)
        fits += [_fit(places, texts)] if len(places) >= 3 else []
    return _with_neither(max(fits, key=_quality), texts) if fits else None


def _fit(places: dict[str, int], texts: Iterable[str], middle: int | None = None) -> Fit:
    return Fit(places, tuple(text for text in dict.fromkeys(texts) if text not in places), middle)


def _quality(fit: Fit) -> tuple[int, int]:
    return len(fit.places), len(set(fit.places.values()))


def _with_neither(fit: Fit, texts: Iterable[str]) -> Fit:
    """The fit with "neither agr/dis" between its poles, where nothing else stands."""
    said = [text for text in fit.outside if says_neither(text)]
    if fit.middle is None or fit.middle in fit.places.values() or len(said) != 1:
        return fit
    return _fit({**fit.places, said[0]: fit.middle}, texts, fit.middle)


def _spellings(texts: Sequence[str]) -> dict[str, list[str]]:
    bare = {text: label_words(without_asides(text)) for text in texts}
    times = Counter(word for words in bare.values() for word in set(words.split()))
    most = max(2, round(0.6 * len(texts)))
    shared = {word for word, n in times.items() if n >= most and not _STRONG.in_(word)}
    shared -= _NEGATIONS
    ways = {
        text: (label_words(text), words, _core(words, set()), _core(words, shared))
        for text, words in bare.items()
    }
    return {
        text: list(dict.fromkeys(filter(None, (*spelt, *map(stems, spelt))))) for text, spelt in ways.items()
    }


def _core(words: str, shared: set[str]) -> str:
    kept = [word for word in words.split() if word not in shared]
    while kept and kept[-1] in _SMALL_WORDS:
        kept.pop()
    while kept and kept[0] in _SMALL_WORDS:
        kept.pop(0)
    return " ".join(kept)


# ---- ranges of numbers ------------------------------------------------------------------------

_BELOW, _ABOVE, _JOINING = (words_of(PHRASES["ranges"][key]) for key in ("below", "above", "joining"))
_NUMBER_WORDS = {
    word: float(k) for k, words in enumerate(PHRASES["ranges"]["numbers"]) for word in words_of(words)
}
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+|[<>+]")
_BETWEEN_THOUSANDS = re.compile(r"(?<=\d)(?<!\b0)[., '](?=\d{3}(?!\d))")
# The numbers of a1 and of 1/2 are no ends of a range, and a dash may also be the sign of a number.
_NO_RANGE = re.compile(r"[a-z]\d|\d\s*/\s*\d|(^|-)\s*-\s*\d|minus")


class _Range(NamedTuple):
    """Where a range begins: below (-1), at (0) or above (1) a number; and the words beside it."""

    start: float
    side: int
    is_wide: bool  # from a number to another, or all above or below one
    beside: frozenset[str]


def places_of_ranges(texts: Iterable[str]) -> dict[str, int]:
    """Where those of the texts stand that are ranges of numbers, in digits or in words.

    Nothing where two begin alike or where units differ, as minutes and hours do. Numbers alone are
    no ranges: "party 1" and "party 2" only count parties.
    """
    ranges = {text: one for text in texts if (one := _range(text)) is not None}
    starts = sorted({(one.start, one.side) for one in ranges.values()})
    units = {one.beside for one in ranges.values() if one.beside}
    if len(starts) < len(ranges) or len(units) > 1 or not any(one.is_wide for one in ranges.values()):
        return {}
    return {text: starts.index((one.start, one.side)) for text, one in ranges.items()}


def _range(text: str) -> _Range | None:
    plain = re.sub("[−–—]", "-", text.casefold().replace("≤", "<").replace("≥", ">"))
    plain = unicodedata.normalize("NFKD", _BETWEEN_THOUSANDS.sub("", plain))
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    tokens = _TOKEN.findall(re.sub(r"(?<=\d),(?=\d)", ".", plain))
    numbers = [number for number in map(_number, tokens) if number is not None]
    if _NO_RANGE.search(plain) or not 1 <= len(numbers) <= 2 or numbers[0] > numbers[-1]:
        return None
    words = {token for token in tokens if _number(token) is None}
    side = 0
    if len(numbers) == 1:
        side = -1 if words & {"<", *_BELOW} else int(bool(words & {">", "+", *_ABOVE}))
    beside = words - _BELOW - _ABOVE - _JOINING - {"<", ">", "+"}
    return _Range(numbers[0], side, len(numbers) > 1 or side != 0, frozenset(b[:_UNIT] for b in beside))


def _number(token: str) -> float | None:
    return float(token) if token[0].isdecimal() else _NUMBER_WORDS.get(token)


def holds_number(text: str) -> bool:
    """Whether digits or number words stand in a text: "none", "seven or more"; not those of "a1"."""
    is_digit = re.search(r"(?<![^\W\d_])\d", text.casefold())
    return bool(is_digit) or bool(set(label_words(text).split()) & _NUMBER_WORDS.keys())


# ---- words of degree --------------------------------------------------------------------------


def share_graded(texts: Sequence[str]) -> float:
    """How many of the labels hold a word of degree; weak ones ("no", "some") count half.

    In long labels they count less: there, a "more" or a "good" may be about anything.
    """
    grades = [_grade(label_words(text)) for text in texts]
    return sum(grades) / len(grades) if grades else 0.0


@remembered
def _grade(words: str) -> float:
    if _STRONG.in_(words):
        return 1.0 if len(words.split()) <= _LONG else 0.3
    return 0.5 if _WEAK.in_(words) or re.search(r"\d", words) else 0.0


def polarity(texts: Sequence[str]) -> int:
    """1 for labels that run towards yes, agree, often or very, -1 for the reverse, 0 if unknown."""
    fit = best_fit(tuple(texts))
    if fit is not None and 2 * len(fit.places) >= len(texts):
        places = [fit.places[text] for text in texts if text in fit.places]
        rising = sum(b > a for a, b in pairwise(places)) - sum(b < a for a, b in pairwise(places))
        return (rising > 0) - (rising < 0)
    return int(_says_no(texts[0])) - int(_says_no(texts[-1]))


def _says_no(text: str) -> bool:
    words = label_words(text).split()
    return bool(_NO & set(words[:1])) or (len(words) <= _LONG and bool(_NEGATIONS & set(words)))


def is_graded(text: str) -> bool:
    return _grade(label_words(text)) == 1.0


def are_opposites(one: str, other: str) -> bool:
    """Whether one of two labels is the other one with a "not", or they begin with yes and no."""
    first, second = (  # "too harsh", "not harsh enough"
        [word for word in label_words(text).split() if word not in _ENOUGH] for text in (one, other)
    )
    if " ".join(first) in _NOT_CHOSEN or " ".join(second) in _NOT_CHOSEN:
        return True  # of several answers, each is a column of its own
    starts = {*first[:1], *second[:1]}
    if starts & _YES and starts & _NO:
        return True
    return _negates(first, second) or _negates(second, first)


_NOT_CHOSEN = frozenset(alternatives(PHRASES["answers"]["not_chosen"]))
_YES, _NO = words_of(PHRASES["answers"]["yes"]), words_of(PHRASES["answers"]["no"])


def _negates(plain: list[str], negated: list[str]) -> bool:
    left = [word for word in negated if word not in _NEGATIONS]
    if len(left) < len(negated) and left:
        one, other = ([word for word in words if word not in _SMALL_WORDS] for words in (plain, left))
        return len(one) == len(other) > 0 and all(a[:4] == b[:4] for a, b in zip(one, other, strict=True))
    return len(plain) == len(negated) and any(
        negated == [*plain[:k], start + plain[k], *plain[k + 1 :]]
        for k in range(len(plain))
        for start in _NEGATIVE_STARTS
    )


def are_alike(texts: Sequence[str]) -> bool:
    """Whether neighbours say nearly the same, in long labels: most of their words are shared."""
    words = [set(label_words(text).split()) - _SMALL_WORDS for text in texts]
    pairs = list(pairwise(words))
    if not pairs or any(len(one) < 3 for one in words):
        return False
    shared = [len(one & other) / min(len(one), len(other)) for one, other in pairs]
    return sum(shared) / len(shared) >= 0.5


def n_own_words(texts: Sequence[str]) -> float:
    """How many words, on average, a label has for itself that tell no degree."""
    words = [
        set(_STRONG.removed_from(label_words(text)).split()) - _SMALL_WORDS - _NEGATIONS for text in texts
    ]
    times = Counter(stems(word) for one in words for word in one)
    return sum(times[stems(w)] == 1 for one in words for w in one) / max(len(texts), 1)


def is_mirrored(texts: Sequence[str]) -> bool:
    """Whether labels run from one end to another: "very bad" to "very good".

    Then labels that stand equally far from the ends share words that the others lack.
    """
    if len(texts) == 2:
        return are_opposites(*texts)
    if len(texts) < 4:
        return False
    labels = [label_words(text) for text in texts]
    degrees = [set(_STRONG.in_(words)) for words in labels]
    of_inner = {phrase for found in degrees[1:-1] for phrase in found}
    of_ends = (degrees[0] & degrees[-1]) - of_inner
    words = [set(label.split()) for label in labels]
    cut = [{word[:_CUT] for word in one} for one in words]  # "agr str", "agree", "disagree", "disagr str"
    return bool(of_ends) or _are_swapped_halves(words) or _are_swapped_halves(cut)


def are_letters_in_a_row(texts: Sequence[str]) -> bool:
    """Whether labels are letters in the order of the alphabet, or its reverse: "class A", "class B1"."""
    last = [without_code(text).split()[-1:] for text in texts]
    letters = [re.sub(r"\W", "", word) for words in last for word in words]
    if len(letters) < 3 or not all(re.fullmatch(r"[A-H]{1,3}\d?", letter) for letter in letters):
        return False
    return min(letters)[0] == "A" and sorted(letters) in (letters, letters[::-1])


def _are_swapped_halves(words: Sequence[set[str]]) -> bool:
    """Whether labels of the second half are those of the first, backwards, with another pole.

    As "strong left, weak left, weak right, strong right": wherever two labels stand equally far
    from the ends, the same word takes the place of the same other.
    """
    pairs = [(words[k], words[-1 - k]) for k in range(len(words) // 2)]
    poles = {(frozenset(one - other), frozenset(other - one)) for one, other in pairs}
    poles.discard((frozenset(), frozenset()))  # "more left than right", "more right than left"
    return len(poles) == 1 and all(map(all, poles))

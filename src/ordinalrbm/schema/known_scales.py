"""Whether labels are levels of something: known scales, and words of degree in five languages."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from ordinalrbm.schema.missing_labels import says_neither
from ordinalrbm.schema.quantities import places_of_ranges, times_a_year
from ordinalrbm.schema.vocabulary import (
    PHRASES,
    Phrases,
    alternatives,
    is_misspelt,
    label_words,
    remembered,
    singulars,
    stems,
    without_code,
    words_of,
)

_STRONG, _WEAK = Phrases(PHRASES["graded"]["strong"]), Phrases(PHRASES["graded"]["weak"])
_ONLY = Phrases(PHRASES["graded"]["only"])
_SMALL_WORDS, _NEGATIONS, _ENOUGH = (
    words_of(PHRASES["graded"][key]) for key in ("small", "negations", "enough")
)
_NEGATIVE_STARTS = ("in", "un", "dis", "im", "ir", "non", "des", "de")
_MOST_COUNTED = 60  # labels in which ranges and rates are looked for; towns are more
_CUT = 3  # letters that are enough to know a word by
_LONG = 6  # words of a label


# ---- the scales of the vocabulary -------------------------------------------------------------


def _with_strength(strength: str, poles: Sequence[str]) -> str:
    """All ways to say it: "strongly agree", "agree strongly"."""
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
    """Which orders know a phrase."""
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
    found: list[tuple[Fit, _Order]] = []
    ways_in = {way for ways in spellings.values() for way in ways}
    for number in sorted({k for way in ways_in for k in _orders_with().get(way, ())}):
        order = _orders()[number]
        places = {
            text: next(order.positions[way] for way in ways if way in order.positions)
            for text, ways in spellings.items()
            if any(way in order.positions for way in ways)
        }
        if len(set(places.values())) > 1:
            found.append((_fit(places, texts, order.middle), order))
    fits = [_with_misspelt(*max(found, key=lambda one: _quality(one[0])), spellings)] if found else []
    if len(texts) <= _MOST_COUNTED:
        fits += filter(None, (_fit_of_rates(spellings), _fit_of_ranges(texts)))
    return max(fits, key=_quality, default=None)


def _fit(places: dict[str, int], texts: Iterable[str], middle: int | None = None) -> Fit:
    return Fit(places, tuple(text for text in dict.fromkeys(texts) if text not in places), middle)


def _quality(fit: Fit) -> tuple[int, int]:
    return len(fit.places), len(set(fit.places.values()))


def _with_misspelt(fit: Fit, order: _Order, spellings: dict[str, list[str]]) -> Fit:
    """The fit with texts that are cut short or misspelt, at places where no other stands."""
    places = dict(fit.places)
    for text in fit.outside:
        near = {
            position
            for phrase, position in order.positions.items()
            if position not in places.values()
            and any(_is_nearly(words, phrase) for words in spellings[text][:1])  # "." has no words
        }
        if order.middle is not None and says_neither(text):  # tests: "neither agr"
            near = {order.middle} - set(places.values())
        if len(near) == 1:
            (places[text],) = near
    return _fit(places, spellings, order.middle)


def _is_nearly(words: str, phrase: str) -> bool:
    """Whether each word is that of a phrase, cut short or misspelt: "inact member"."""
    one, other = words.split(), phrase.split()
    return len(one) == len(other) and all(
        a == b or (len(a) >= _CUT and b.startswith(a)) or is_misspelt(a, b)
        for a, b in zip(one, other, strict=True)
    )


def _fit_of_rates(spellings: dict[str, list[str]]) -> Fit | None:
    rates: dict[str, float] = {}
    for text, ways in spellings.items():
        said = [rate for rate in map(times_a_year, ways) if rate is not None]
        if said:
            rates[text] = said[0]
    ordered = sorted(set(rates.values()))
    if len(ordered) < 3:  # "never" and "daily" alone are words like others
        return None
    return _fit({text: ordered.index(rate) for text, rate in rates.items()}, spellings)


def _fit_of_ranges(texts: Sequence[str]) -> Fit | None:
    for spelt in (list(texts), without_shared_words(texts)):
        found = places_of_ranges(spelt)
        if found is None:
            return None
        places = {text: found[way] for text, way in zip(texts, spelt, strict=True) if way in found}
        if len(places) >= 3 and len(places) == len(found):
            return _fit(places, texts)
    return None


def _spellings(texts: Sequence[str]) -> dict[str, list[str]]:
    bare = {text: label_words(re.sub(r"\([^)]*\)|\[[^]]*\]", " ", without_code(text))) for text in texts}
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
    first, last = (
        denies(text) or label_words(text).split(" ", 1)[0] in _NO for text in (texts[0], texts[-1])
    )
    return int(first) - int(last)


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


def denies(text: str) -> bool:
    """Whether a label says that something is not there or is not done, among few words."""
    words = label_words(text).split()
    return len(words) <= _LONG and bool(_NEGATIONS & set(words))


def one_end_denies(texts: Sequence[str]) -> bool:
    """Whether all labels speak of the same, and only the first or the last denies just that."""
    words = [set(label_words(text).split()) for text in texts]
    are_denied = [bool(one & _NEGATIONS) for one in words]
    if sum(are_denied) != 1 or not (are_denied[0] or are_denied[-1]):
        return False
    spoken_of = [set(map(stems, one - _NEGATIONS - _SMALL_WORDS)) for one in words]
    shared = set.intersection(*spoken_of)
    denied = spoken_of[0 if are_denied[0] else -1]
    denied = {word for word in denied if len(word) > 3 or word in shared}  # "não é uma ..."
    return bool(shared) and denied <= shared


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


def without_shared_words(texts: Sequence[str]) -> list[str]:
    """Labels without what all but one of them speak of, as it is spelt."""
    words = [set(singulars(" ".join(re.findall(r"[^\W\d]+", text.casefold()))).split()) for text in texts]
    times = Counter(word for one in words for word in one)
    shared = {w for w, n in times.items() if n >= max(2, len(texts) - 1) and not _STRONG.in_(w)}
    if not shared:
        return list(texts)
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(shared)))})s?\b", re.IGNORECASE)
    return [" ".join(pattern.sub(" ", text).split()) for text in texts]


def is_mirrored(texts: Sequence[str]) -> bool:
    """Whether labels run from one end to another: "very bad" to "very good".

    Then labels that stand equally far from the ends share words that the others lack.
    """
    if len(texts) == 2:
        return are_opposites(*texts)
    if len(texts) < 4:
        return False
    labels = [label_words(text) for text in texts]
    degrees = [set(_STRONG.in_(words)) | set(_ONLY.in_(words)) for words in labels]
    of_inner = {phrase for found in degrees[1:-1] for phrase in found}
    of_ends = (degrees[0] & degrees[-1]) - of_inner
    words = [set(label.split()) for label in labels]
    cut = [{word[:_CUT] for word in one} for one in words]  # "agr str", "agree", "disagree", "disagr str"
    return bool(of_ends) or _are_swapped_halves(words) or _are_swapped_halves(cut)


def one_half_denies(texts: Sequence[str]) -> bool:
    """Whether all labels speak of the same, and a word stands in all of one half and in none of the other.

    So do "fully trust", "rather trust", "rather not trust" and "do not trust at all", in any language.
    """
    if len(texts) < 4:
        return False
    words = [set(label_words(text).split()) for text in texts]
    half = len(words) // 2
    halves = words[:half], words[-half:]
    common = [set.intersection(*some) for some in halves]
    others = [set.union(*some) for some in halves]
    marks = (common[0] - others[1]) | (common[1] - others[0])
    rest = [one - marks for one in (*halves[0], *halves[1])]
    # Syllables are letters in Korean.
    starts = [{word[: 4 if word.isascii() else 2] for word in one if len(word) >= _CUT} for one in rest]
    return bool(marks) and bool(set.intersection(*starts))


def are_letters_in_a_row(texts: Sequence[str]) -> bool:
    bare = [re.sub(r"[^\w]", "", text) for text in without_shared_words(texts)]
    if len(bare) < 3 or not all(re.fullmatch(r"[A-H]{1,3}\d?", text) for text in bare):
        return False
    return bare[0][0] == "A" and (bare == sorted(bare) or bare[::-1] == sorted(bare))


def names_both_halves(text: str, others: Sequence[str]) -> bool:
    """Whether a label names what each of one half of the others says, and what each of the other half says.

    Words may be cut short: "neith agr nor dis" beside agreeing and disagreeing.
    """
    own, *cut = ({word[:_CUT] for word in label_words(one).split()} for one in (text, *others))
    half = len(cut) // 2
    if len(cut) % 2 or half < 2:  # of two, categories may be named together
        return False
    below, above = cut[:half], cut[half:]
    one, other = set.intersection(*below), set.intersection(*above)
    return bool(own & one - set().union(*above)) and bool(own & other - set().union(*below))


def _are_swapped_halves(words: Sequence[set[str]]) -> bool:
    """Whether labels of the second half are those of the first, backwards, with another pole.

    As "strong left, weak left, weak right, strong right": wherever two labels stand equally far
    from the ends, the same word takes the place of the same other.
    """
    pairs = [(words[k], words[-1 - k]) for k in range(len(words) // 2)]
    poles = {(frozenset(one - other), frozenset(other - one)) for one, other in pairs}
    poles.discard((frozenset(), frozenset()))  # "more left than right", "more right than left"
    return len(poles) == 1 and all(map(all, poles))

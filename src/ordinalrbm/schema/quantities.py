"""Quantities in words, put in order: ranges ("more than 2 hours") and rates ("twice a month")."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ordinalrbm.schema.vocabulary import PHRASES, Phrases, alternatives, remembered, words_of

_WORDS = PHRASES["quantities"]
# Words of a unit, what it measures, and how much of it one is.
_UNITS: dict[str, tuple[str, float]] = {
    word: (measures, float(size)) for measures, size, words in _WORDS["units"] for word in words.split()
}
_MAGNITUDES = dict.fromkeys(["k", "thousand", "tausend", "mille", "mil"], 1e3)
_MAGNITUDES |= dict.fromkeys(["m", "mio", "million", "millions", "millionen"], 1e6)
_SHORTENED = 1000.0
_PER, _ABOVE = frozenset(_WORDS["per"].split()), frozenset(_WORDS["above"].split())
_BELOW, _OTHER_WORDS = words_of(_WORDS["below"]), words_of(_WORDS["beside"])
_KNOWN = _OTHER_WORDS | _BELOW | _ABOVE | _PER | _UNITS.keys() | _MAGNITUDES.keys()
_SYMBOLS = {
    "≤": "<",
    "≥": ">",
    "−": "-",
    "–": "-",
    "—": "-",
    "$": " usd ",
    "€": " eur ",
    "£": " gbp ",
    "%": " percent ",
}
_NUMBER_WORDS = {word: k for k, words in enumerate(_WORDS["numbers"]) for word in words_of(words)}
_NUMBER_WORD = re.compile(rf"\b({'|'.join(sorted(_NUMBER_WORDS, key=len, reverse=True))})\b")
_TOKEN = re.compile(r"\d+(?:\.\d+)?|\.\d+|[a-z]+|[<>+-]")


@dataclass(frozen=True)
class _Range:
    """Where a range begins: below (-1), at (0) or above (1) a number, in a unit if it has one."""

    start: float
    side: int
    unit: tuple[str, float] | None
    has_m: bool
    is_wide: bool  # from a number to another, or all above or below one


def ranges_in_order(texts: Iterable[str]) -> tuple[list[str] | None, str]:
    """Ranges of numbers from lowest to highest; or None, and why if they are ranges all the same."""
    spelt = {text: _symbols(text) for text in texts}
    ranges = _ranges(spelt)
    if len(ranges) < len(spelt):
        return None, ""
    starts = _starts(ranges)
    if starts is None:
        return None, "ranges of numbers whose units cannot be compared"
    if len(set(starts.values())) < len(starts):
        return None, "ranges of numbers of which two begin alike"
    return sorted(starts, key=lambda text: starts[text]), ""


def places_of_ranges(texts: Iterable[str]) -> dict[str, int] | None:
    """Where those of the texts stand that are ranges of numbers, in digits or in words.

    None where their units cannot be compared, and nothing where two are alike. Numbers alone are no
    ranges: "party 1" and "party 2" only count parties.
    """
    ranges = _ranges({text: _with_digits(_symbols(text)) for text in texts})
    starts = _starts(ranges)
    if starts is None:
        return None
    ordered = sorted(set(starts.values()))
    if len(ordered) < len(starts) or not any(found.is_wide for found in ranges.values()):
        return {}
    return {text: ordered.index(start) for text, start in starts.items()}


def _ranges(spelt: dict[str, str]) -> dict[str, _Range]:
    marks = [mark for mark in ".," if _is_decimal(mark, spelt.values())]
    found = {text: _range(_plain_numbers(plain, marks)) for text, plain in spelt.items()}
    return {text: one for text, one in found.items() if one is not None}


def _starts(ranges: dict[str, _Range]) -> dict[str, tuple[float, int]] | None:
    """Where ranges begin, in one unit; None where their units cannot be compared."""
    units = {found.unit for found in ranges.values() if found.unit is not None}
    if not _comparable(ranges.values(), units):
        return None
    starts: dict[str, tuple[float, int]] = {}
    for text, found in ranges.items():
        size = found.unit[1] if found.unit and len(units) > 1 else 1.0
        starts[text] = found.start * size, found.side
    return starts


def _comparable(ranges: Collection[_Range], units: set[tuple[str, float]]) -> bool:
    """Whether all have the same unit, said or not, or all say units of the same kind."""
    kinds = {kind for kind, _ in units}
    if "time" in kinds and any(found.has_m for found in ranges):
        return False  # beside hours, m may be minutes, months or millions: tests, "30m, 1 hour"
    all_said = all(found.unit is not None or found.start == 0 for found in ranges)
    return len(units) <= 1 or (len(kinds) == 1 and all_said)


def _symbols(text: str) -> str:
    """In small letters without accents, signs in one spelling."""
    for symbol, spelling in _SYMBOLS.items():
        text = text.replace(symbol, spelling)
    text = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"(?<=\d)'(?=\d{3})", "", text)


def _with_digits(text: str) -> str:
    """With digits for words: "0 calls" for "no calls"."""
    return _NUMBER_WORD.sub(lambda found: f" {_NUMBER_WORDS[found[0]]} ", text)


def holds_number(text: str) -> bool:
    """Whether digits or number words stand in a text: "none", "seven or more"."""
    return any(map(str.isdigit, _with_digits(_symbols(text))))


def _is_decimal(mark: str, texts: Iterable[str]) -> bool:
    """Whether a mark stands before decimals in any of the texts, not only between thousands."""
    sign = re.escape(mark)
    # After a lone zero, or before other than three digits.
    shown = re.compile(rf"(?<![\d.,])0{sign}\d|\d{sign}(?!\d{{3}}(?!\d))\d")
    return any(shown.search(text) for text in texts)


def _plain_numbers(text: str, decimal_marks: Sequence[str]) -> str:
    """Without marks between thousands, with points before decimals."""
    for mark in "., ":
        if mark not in decimal_marks:
            text = re.sub(rf"(?<=\d){re.escape(mark)}(?=\d{{3}}(?!\d))", "", text)
    return re.sub(r"(?<=\d),(?=\d)", ".", text) if "," in decimal_marks else text


def _range(text: str) -> _Range | None:
    words = _TOKEN.findall(text)
    at = [k for k, word in enumerate(words) if word[-1].isdigit()]
    letters = frozenset(word for word in words if word.isalpha())
    # a1 and h3 are names of something, of 1/2 neither number is meant, and a dash before a number
    # below 0 is no dash between two.
    is_other = re.search(r"[a-z]\d|\d\s*/\s*\d|(^|-)\s*-\s*\d|minus", text)
    if is_other or not 1 <= len(at) <= 2 or not letters <= _KNOWN:
        return None
    numbers = [float(words[k]) for k in at]
    sizes = [_MAGNITUDES.get(words[k + 1], 1.0) if k + 1 < len(words) else 1.0 for k in at]
    if sizes[0] == 1 and numbers[0] < numbers[-1]:
        sizes[0] = sizes[-1]  # 10-50k begins at 10k, but 500-1k at 500
    if 0 < numbers[0] * _SHORTENED <= numbers[-1]:
        sizes[0] *= _SHORTENED  # 10 to under 20,000
    has_unit = bool(letters & _UNITS.keys())  # 30 minutes to 1 hour
    if numbers[0] * sizes[0] > numbers[-1] * sizes[-1] and not has_unit:
        return None  # two numbers that stand for something else
    side = 0
    if len(at) == 1:
        above = ">" in words or "+" in words or letters & _ABOVE
        side = -1 if "<" in words or letters & _BELOW else int(bool(above))
    return _Range(numbers[0] * sizes[0], side, _unit(words, at), "m" in letters, len(at) > 1 or side != 0)


def _unit(words: list[str], at: list[int]) -> tuple[str, float] | None:
    """The unit of the first number: behind it, or else behind the second, or in front."""
    pairs = pairwise(words)
    rates = [k for k, (per, unit) in enumerate(pairs, 1) if per in _PER and unit in _UNITS]
    behind = [k for k in range(at[0], len(words)) if words[k] in _UNITS and k not in rates]
    front = [k for k in range(at[0]) if words[k] in _UNITS]
    kind, size = _UNITS[words[(behind or front)[0]]] if behind or front else ("", 1.0)
    if rates:
        per, period = _UNITS[words[rates[0]]]
        return f"{kind} per {per}", size / period
    return (kind, size) if kind else None


_SAID = PHRASES["rates"]
_NEVER = frozenset(alternatives(_SAID["never"]))
_SELDOM = frozenset(alternatives(_SAID["seldom"]))
_SELDOM_RATE = 0.3  # a year: above never, below all that names a time
_LESS_THAN, _MORE_THAN, _NEARLY = (Phrases(_SAID[key]) for key in ("below", "above", "nearly"))
_COUNTS = {
    phrase: float(times) for times, phrases in _SAID["counts"].items() for phrase in alternatives(phrases)
}
_PERIODS = {word: float(a_year) for a_year, words in _SAID["periods"].items() for word in alternatives(words)}
_WHOLE = {
    phrase: float(a_year) for a_year, phrases in _SAID["whole"].items() for phrase in alternatives(phrases)
}
_WHOLE_PHRASES = Phrases("|".join(_WHOLE))
_TIMES, _ADVERBS, _EVERY, _FILLING = (
    frozenset(alternatives(_SAID[key])) for key in ("times", "adverbs", "every", "filling")
)
_SMALL_CHANGE = 1.2  # "more than once a week" is above "once a week", below "twice a week"


@remembered
def times_a_year(words: str) -> float | None:
    """How many times a year plain words say; None where they say anything else."""
    if words in _NEVER:
        return 0.0
    if words in _SELDOM:
        return _SELDOM_RATE
    words, change = _without_change(words)
    whole = _WHOLE_PHRASES.in_(words)
    if len(whole) == 1 and set(_WHOLE_PHRASES.removed_from(words).split()) <= _FILLING:
        return _WHOLE[whole[0]] * change
    tokens = words.split()
    if tokens[0] in _EVERY:  # "every two weeks"
        tokens = ["once", *tokens]
    for start in range(1, len(tokens)):
        rate = _rate(tokens[:start], tokens[start:])
        if rate is not None:
            return rate * change
    return None


def _without_change(words: str) -> tuple[str, float]:
    """Words without "less than", "more than" and "nearly", and by how much these change them."""
    change = 1.0
    for phrases, factor in ((_LESS_THAN, 1 / _SMALL_CHANGE), (_MORE_THAN, _SMALL_CHANGE), (_NEARLY, 0.9)):
        without = phrases.removed_from(words)
        if without and without != words:
            words, change = without, change * factor
    return words, change


def _rate(front: list[str], back: list[str]) -> float | None:
    """How often it is where some words say how many times and others in what time."""
    count = _count(_without(front, _TIMES | _FILLING))
    are_times = bool(set(front) & (_TIMES | _ADVERBS)) or front[-1] in _PERIODS  # 2 days a week
    kept = _without(back, _FILLING - _EVERY)
    if count is None or not are_times or not kept or kept[-1] not in _PERIODS:
        return None
    if kept[0] not in _EVERY:
        return count * _PERIODS[kept[0]] if len(kept) == 1 else None
    every = _count(kept[1:-1]) if len(kept) > 2 else 1.0  # "once every two weeks"
    return count * _PERIODS[kept[-1]] / every if every else None


def _without(words: list[str], small: frozenset[str]) -> list[str]:
    return [word for word in words if word in _COUNTS or word not in small]


def _count(words: list[str]) -> float | None:
    """The mean of the numbers that words name: of "two or three", 2.5."""
    words = [word for word in words if word not in _PERIODS]
    text = " ".join(words)
    if text in _COUNTS:
        return _COUNTS[text]
    numbers = [float(word) if word.isdecimal() else _COUNTS.get(word) for word in words]
    known = [number for number in numbers if number]
    return sum(known) / len(known) if known and len(known) == len(numbers) <= 2 else None

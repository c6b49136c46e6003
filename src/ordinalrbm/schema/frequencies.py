"""How often something happens by what labels say, "twice a month" or "less than once a year"."""

from __future__ import annotations

from ordinalrbm.schema.vocabulary import PHRASES, Phrases, alternatives, remembered

_SAID = PHRASES["rates"]
_NEVER = frozenset(alternatives(_SAID["never"]))
_SELDOM = frozenset(alternatives(_SAID["seldom"]))
_SELDOM_RATE = 0.3  # a year: above never, below all that names a time
_BELOW, _ABOVE, _NEARLY = (Phrases(_SAID[key]) for key in ("below", "above", "nearly"))
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
_MOST_TIMES = 100
_SMALL_CHANGE = 1.2  # "more than once a week" is above "once a week", below "twice a week"


@remembered
def times_a_year(words: str) -> float | None:
    """How many times a year plain words say; None where they say anything else.

    Examples
    --------
    >>> times_a_year("once a month"), times_a_year("two or three times a week")
    (12.0, 130.0)
    >>> times_a_year("less than once a month"), times_a_year("never")
    (10.0, 0.0)
    >>> times_a_year("a few years ago") is None
    True
    """
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
    for phrases, factor in ((_BELOW, 1 / _SMALL_CHANGE), (_ABOVE, _SMALL_CHANGE), (_NEARLY, 0.9)):
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
    numbers = [float(word) if word.isdigit() else _COUNTS.get(word) for word in words]
    known = [number for number in numbers if number and number < _MOST_TIMES]
    return sum(known) / len(known) if known and len(known) == len(numbers) <= 2 else None

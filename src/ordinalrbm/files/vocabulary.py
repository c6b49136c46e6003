"""Words by which columns and answers are recognised: no answer, known orders, roles.

The words themselves are in vocabulary.toml.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from importlib import resources


def plain_words(text: str) -> str:
    """Text in small letters without accents and punctuation.

    Examples
    --------
    >>> plain_words("Weiß  nicht / N'est pas sûr!")
    'weiss nicht nest pas sur'
    """
    text = re.sub(r"['’`´]", "", text.casefold())
    letters = unicodedata.normalize("NFKD", text)
    return " ".join(re.findall(r"[a-z0-9]+", letters.encode("ascii", "ignore").decode()))


def name_words(name: str) -> set[str]:
    """The words in a column's name.

    Examples
    --------
    >>> sorted(name_words("homeCountry_2")), sorted(name_words("SEX"))
    (['country', 'home'], ['sex'])
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\d)(?=[^\d])|(?<=[^\d])(?=\d)", " ", name)
    return {word for word in plain_words(apart).split() if not word.isdigit()}


def _alternatives(phrases: str) -> tuple[str, ...]:
    return tuple(plain_words(phrase) for phrase in phrases.split("|"))


def words_of(text: str) -> frozenset[str]:
    return frozenset(plain_words(text).split())


_PHRASES = tomllib.loads(
    (resources.files("ordinalrbm.files") / "vocabulary.toml").read_text(encoding="utf-8")
)
_NO_ANSWER_ALONE = frozenset(_alternatives(_PHRASES["no_answer"]["alone"]))
_NO_ANSWER_WITHIN = _alternatives(_PHRASES["no_answer"]["within"])
_NO_ANSWER_NEARLY_ALONE = _alternatives(_PHRASES["no_answer"]["nearly_alone"])
_ASIDE = words_of(_PHRASES["no_answer"]["aside"])
NOMINAL_WORDS = words_of(_PHRASES["names"]["nominal"])
MEASURED_WORDS = words_of(_PHRASES["names"]["measured"])
_BESIDE = words_of(_PHRASES["names"]["beside"])
NOMINAL_ANSWERS = _alternatives(_PHRASES["answers"]["nominal"])
_ORDERED_PARTIES = _alternatives(_PHRASES["answers"]["ordered_parties"])


_MOST_WORDS_AROUND = 4


def means_no_answer(label: str) -> bool:
    """Whether a label says that there is no answer.

    Examples
    --------
    >>> [means_no_answer(text) for text in ("Don’t know", "N/A", "Refused (spontaneous)", "No")]
    [True, True, True, False]
    >>> means_no_answer("Don't know it at all")
    False
    """
    words = _without_number(plain_words(label))
    if words in _NO_ANSWER_ALONE:
        return True
    padded = f" {words} "
    n_words = len(words.split())
    within = [phrase for phrase in _NO_ANSWER_WITHIN if f" {phrase} " in padded]
    if any(n_words - len(phrase.split()) <= _MOST_WORDS_AROUND for phrase in within):
        return True
    rest = padded
    for phrase in _NO_ANSWER_NEARLY_ALONE:
        rest = rest.replace(f" {phrase} ", " ")
    return rest != padded and (set(rest.split()) <= _ASIDE or rest.strip() in _NO_ANSWER_ALONE)


def _without_number(words: str) -> str:
    """Without the code that some files repeat in front of a label, as in "1 - never"."""
    return re.sub(r"^\d+ (?=[a-z])", "", words)


def _with_strength(strength: str, poles: str) -> str:
    """All ways to say it: "strongly agree", "agree strongly"."""
    return "|".join(
        f"{word} {pole}|{pole} {word}" if word else pole
        for pole in poles.split("|")
        for word in strength.split("|")
    )


def _between(negative: str, positive: str) -> tuple[str, ...]:
    """The levels between two poles, from lowest to highest."""
    not_at_all = "|".join(f"not at all {p}|not {p} at all" for p in positive.split("|"))
    plainly_not = "|".join(f"not {p}" for p in positive.split("|"))
    hardly = "|".join(
        f"not {word} {p}"
        for p in positive.split("|")
        for word in ("very", "too", "so", "really", "particularly", "that", "much", "very much")
    )
    strengths, middle = _PHRASES["poles"]["strengths"], _PHRASES["poles"]["middle"]
    below = [_with_strength(strength, negative) for strength in strengths] if negative else []
    neither = "|".join(
        f"neither {a} nor {b}|neither {a} or {b}"
        for p in positive.split("|")
        for q in negative.split("|")
        for a, b in ((p, q), (q, p))
    )
    above = [_with_strength(strength, positive) for strength in reversed(strengths)]
    return (not_at_all, *below, plainly_not, hardly, f"{middle}|{neither}", *above)


def _positions(levels: Sequence[str]) -> dict[str, int]:
    positions: dict[str, int] = {}
    for position, alternatives in enumerate(levels):
        for phrase in _alternatives(alternatives):
            positions.setdefault(phrase, position)
    return positions


_ORDERS = tuple(
    _positions(levels)
    for levels in (
        *(levels for language in _PHRASES["scales"].values() for levels in language),
        *(_between(*poles) for poles in _PHRASES["poles"]["pairs"]),
    )
)


def known_order(texts: Iterable[str]) -> list[str] | None:
    """The texts from lowest to highest where all belong to one known scale, else None.

    Examples
    --------
    >>> known_order(["Agree", "Strongly disagree", "Neutral"])
    ['Strongly disagree', 'Neutral', 'Agree']
    >>> known_order(["red", "green"]) is None
    True
    """
    phrases = {text: _without_number(plain_words(text)) for text in texts}
    for positions in _ORDERS:
        found = {text: positions.get(phrase) for text, phrase in phrases.items()}
        places = [place for place in found.values() if place is not None]
        if len(places) == len(found) >= 2 and len(set(places)) == len(places):
            return sorted(found, key=lambda text: found[text] or 0)
    return None


def named_after(text: str, known: frozenset[str]) -> str | None:
    """The known word that a column's name or label is about; None if it is about more than that.

    Examples
    --------
    >>> named_after("Which country do you live in?", NOMINAL_WORDS)
    'country'
    >>> named_after("job_satisfaction", NOMINAL_WORDS) is None
    True
    """
    words = {word for word in name_words(text) if len(word) > 2}
    about = words & known
    beside = words - about - NOMINAL_WORDS - MEASURED_WORDS - _BESIDE
    return min(about) if about and not beside else None


def names_categories(labels: Iterable[str]) -> bool:
    """Whether labels name categories that have no order: sexes, parties, "other".

    Examples
    --------
    >>> names_categories(["Male", "Female"]), names_categories(["None", "Some", "All"])
    (True, False)
    """
    phrases = [_without_number(plain_words(label)) for label in labels]
    if any(phrase in _ORDERED_PARTIES for phrase in phrases):
        return False  # party identification runs from one end to the other
    return any(p.startswith(("other ", "another ")) or p in NOMINAL_ANSWERS for p in phrases)


_WEIGHT_NAME = re.compile(r"weight|wgt|wght|gewicht|poids|pondera|(^|_)wt|wt($|_|\d)", re.I)
_BODY = re.compile(r"(\b|_)(body|kg|kilo\w*|pounds?|lbs?|birth|grams?)(\b|_)|körper", re.I)
_ID_NAME = re.compile(
    r"(^|[_\W])(id|ids|uuid|guid|serial|caseid|respid|respondent|respondentid|participant|"
    r"subject|subjid|idno|key|rowid|pid|uid|case|lfdnr|record|recordid)($|[_\W\d])|"
    r"(resp\w*|case|person|subject|user|participant|record|row|household|hh|student|stu)_?id$|"
    r"[a-z]I[dD]$",
    re.I,
)


def looks_like_weight(name: str, question: str) -> bool:
    """Whether name and label of a column are those of a survey weight.

    Examples
    --------
    >>> looks_like_weight("W_FSTUWT", ""), looks_like_weight("growth", "")
    (True, False)
    >>> looks_like_weight("weight", "Body weight in kg")
    False
    """
    return bool(_WEIGHT_NAME.search(name)) and not _BODY.search(f"{name} {question}")


def looks_like_id(name: str) -> bool:
    """Whether a column's name is that of an id.

    Examples
    --------
    >>> looks_like_id("RespondentID"), looks_like_id("case_id"), looks_like_id("idea")
    (True, True, False)
    """
    return bool(_ID_NAME.search(name))

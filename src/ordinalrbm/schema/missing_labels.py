"""Labels that stand in place of an answer, and what sort of non-answer they tell of."""

import re
from functools import cache
from typing import Literal, NamedTuple, get_args

from ordinalrbm.schema.vocabulary import (
    PHRASES,
    Phrases,
    alternatives,
    is_misspelt,
    label_words,
    remembered,
    without_code,
    words_of,
)

Sort = Literal["not asked", "not applicable", "don't know", "refused", "no answer"]
SORTS: tuple[Sort, ...] = get_args(Sort)

_MOST_WORDS_AROUND = 4
_BESIDE = words_of(PHRASES["no_answer"]["beside"]["words"])


class NoAnswer(NamedTuple):
    """That a label is no answer: of which sort, and whether its words alone are enough."""

    sort: Sort
    is_sure: bool


class _Words(NamedTuple):
    sort: Sort
    alone: frozenset[str]
    starts: frozenset[str]
    within: Phrases
    nearly_alone: Phrases
    weak: Phrases


def _words_of_sort(sort: Sort) -> _Words:
    said = PHRASES["no_answer"][sort]
    within, nearly_alone, weak = (Phrases(said.get(key, "")) for key in ("within", "nearly_alone", "weak"))
    alone, starts = frozenset(alternatives(said["alone"])), words_of(said.get("starts", ""))
    return _Words(sort, alone, starts, within, nearly_alone, weak)


_BY_SORT = tuple(_words_of_sort(sort) for sort in SORTS)
_READING = frozenset(["lire", "leer", "ler", "read", "to read", "lesen"])
_MIDDLE_ALONE = frozenset(alternatives(PHRASES["middle"]["alone"]))
_MIDDLE_WITHIN = Phrases(PHRASES["middle"]["within"])
_BETWEEN, _BOTH = Phrases(PHRASES["middle"]["between"]), Phrases(PHRASES["middle"]["both"])
_NOT_BETWEEN = words_of(PHRASES["middle"]["not_between"])
_POLES = words_of(" ".join("|".join(pair) for pair in PHRASES["poles"]["english"]["pairs"]))


@remembered
def no_answer(label: str) -> NoAnswer | None:
    """What sort of non-answer a label tells of, None where it is an answer.

    Where two sorts stand in one label, as in "Refused / don't know", the first in `SORTS` counts.
    """
    words = label_words(label)
    if not words:
        return None
    bare = label_words(re.sub(r"\([^)]*\)|\[[^]]*\]", " ", without_code(label)))
    letters = words.replace(" ", "") if all(len(word) == 1 for word in words.split()) else words
    for known in _BY_SORT:
        is_alone = known.alone & {words, bare, letters} or words.split()[0] in known.starts
        if is_alone or any(_few_words_around(spelt, known.within) for spelt in (words, bare)):
            return NoAnswer(known.sort, True)
    sorts, rest = _said_nearly_alone(words)
    # "Does not know how to read" is an answer.
    if sorts and rest not in _READING and set(rest.split()) <= _BESIDE:
        return NoAnswer(sorts[0], True)
    first, slash, _ = label.partition("/")
    found = (no_answer(first) if slash and not says_middle(label) else None) or _misspelt(words)
    if found is not None and found.is_sure:
        return found
    for known in _BY_SORT:
        if _few_words_around(words, known.weak):
            return NoAnswer(known.sort, False)
    return None


def _misspelt(words: str) -> NoAnswer | None:
    """What a label of a few words says, letters changed: "no asnwer"."""
    tokens = words.split()
    for sort, phrase in _by_initials().get(tuple(word[0] for word in tokens), ()):
        if all(one == other or is_misspelt(one, other) for one, other in zip(tokens, phrase, strict=True)):
            return NoAnswer(sort, True)
    return None


@cache
def _by_initials() -> dict[tuple[str, ...], list[tuple[Sort, list[str]]]]:
    """Phrases of several words that are sure, by the first letters of their words."""
    found: dict[tuple[str, ...], list[tuple[Sort, list[str]]]] = {}
    for sort in SORTS:
        said = PHRASES["no_answer"][sort]
        phrases = "|".join(said.get(key, "") for key in ("alone", "within", "nearly_alone"))
        for tokens in map(str.split, alternatives(phrases)):
            if len(tokens) > 1:
                found.setdefault(tuple(word[0] for word in tokens), []).append((sort, tokens))
    return found


def _few_words_around(words: str, phrases: Phrases) -> bool:
    n_words = len(words.split())
    return any(n_words - len(phrase.split()) <= _MOST_WORDS_AROUND for phrase in phrases.in_(words))


def _said_nearly_alone(words: str) -> tuple[list[Sort], str]:
    """The sorts whose phrases stand in a label, and what is left of it without them."""
    sorts, rest = [], words
    for known in _BY_SORT:
        without = known.nearly_alone.removed_from(rest)
        if without != rest:
            sorts.append(known.sort)
        rest = without
    if sorts:  # beside "don't know", "haven't heard enough" says the same again
        for known in _BY_SORT:
            rest = known.weak.removed_from(rest)
    return sorts, rest


def sort_of(label: str) -> Sort:
    """The sort of a code that is known to be no answer, by its label."""
    found = no_answer(label)
    return found.sort if found else "no answer"


@remembered
def says_middle(label: str) -> bool:
    """Whether a label says "neither", "both" or "it depends"."""
    if any(label_words(part) in _MIDDLE_ALONE for part in label.split("/")):
        return True
    return says_neither(label) or _few_words_around(label_words(label), _MIDDLE_WITHIN)


def says_between(label: str) -> bool:
    """Whether a label may be the middle of others: "about right", "the same"; not "not right"."""
    words = label_words(label)
    is_so = _few_words_around(words, _BETWEEN) and not _NOT_BETWEEN & set(
        _BETWEEN.removed_from(words).split()
    )
    return is_so or says_middle(label)


def says_both(label: str) -> bool:
    """Whether a label names two things at once, which is an answer even where it is no middle."""
    return _few_words_around(label_words(label), _BOTH)


@remembered
def says_neither(label: str) -> bool:
    words = label_words(label)
    if re.match(r"(neither .+ n?or|ni .+ ni|nem .+ nem) |weder (.+ )?noch\b", words):
        return True
    first, *others = words.split() or [""]
    cut = [word for word in others if word not in ("nor", "or", "not", "with")]
    are_poles = all(len(word) > 1 and any(pole.startswith(word) for pole in _POLES) for word in cut)
    return first.startswith("nei") and bool(cut) and are_poles


def says_depends(label: str) -> bool:
    """Whether a label says "it depends", which stands between any two sides."""
    return label_words(re.sub(r"\([^)]*\)", " ", label)) in _DEPENDS


_DEPENDS = frozenset(alternatives(PHRASES["middle"]["depends"]))
_SPONTANEOUS = re.compile(r"\b(spont|volunteered|unprompted|(do not|not|ne pas|no|não) (read|lire|leer|ler))")


def is_spontaneous(label: str) -> bool:
    return bool(_SPONTANEOUS.search(label_words(label)))

"""Words by which columns are recognised: what their names say, and which labels stand in place of an answer.

The words themselves are in vocabulary.toml; ``known_scales`` reads the scales in it.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from typing import Any, Literal, NamedTuple, get_args

# Labels come back in many columns; in a file of free text they must not fill the memory.
remembered = lru_cache(maxsize=20_000)


def plain_words(text: str) -> str:
    """Text in small letters without accents and punctuation, in any script."""
    text = re.sub(r"\bw/(o\b)?", lambda found: "without " if found[1] else "with ", text.casefold())
    text = re.sub(r"(?<=[a-zé])\((e|s|es|a|as|ne|en|in)\)", "", text)  # intéressé(e)
    text = re.sub(r"['’`´]", "", text)
    if not text.isascii():
        letters = unicodedata.normalize("NFKD", text)
        bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
        text = unicodedata.normalize("NFC", bare)  # syllables of Korean in one piece again
    return " ".join(re.findall(r"[^\W_]+", text))


# The code that some files repeat in front of a label: "[-1] refused", "(1) never", "1. often".
_CODE_IN_FRONT = re.compile(r"^\s*(?:[\[(<]\s*-?\d+\s*[\])>]|-?\d+\s*[.:=)]|-\d+)\s*(?=\S)")


@remembered
def without_code(label: str) -> str:
    if re.match(r"\s*-?\d+[.:]\d", label):  # a number or a time of day
        return label
    return _CODE_IN_FRONT.sub("", label)


def without_asides(label: str) -> str:
    """A label without what it has in brackets, and without its code."""
    return re.sub(r"\([^)]*\)|\[[^]]*\]", " ", without_code(label))


@remembered
def label_words(label: str) -> str:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", without_code(label))  # "StrDem"
    return re.sub(r"^\d+ (?=[^\W\d])", "", plain_words(apart))


def name_words(name: str) -> set[str]:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\d)(?=[^\d])|(?<=[^\d])(?=\d)", " ", name)
    return {word for word in plain_words(apart).split() if not word.isdigit()}


def alternatives(phrases: str) -> tuple[str, ...]:
    """The phrases between bars, as plain words."""
    both = (way for phrase in phrases.split("|") for way in (phrase, _without_umlauts(phrase)))
    return tuple(dict.fromkeys(filter(None, map(plain_words, both))))


def words_of(text: str) -> frozenset[str]:
    """The plain words of a text, German ones in both spellings."""
    return frozenset(f"{plain_words(text)} {plain_words(_without_umlauts(text))}".split())


_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})


def _without_umlauts(text: str) -> str:
    """As many files spell it: "taeglich"."""
    return text.translate(_UMLAUTS)


@remembered
def stems(words: str) -> str:
    """Plain words without endings of number and gender, as far as they are long."""
    return " ".join(map(_stem, words.split()))


def _singular(word: str) -> str:
    is_plural = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
    return word[:-1] if is_plural else word


def _stem(word: str) -> str:
    word = _singular(word)
    return word[:-1] if len(word) > 4 and word[-1] in "eoa" else word


class Phrases:
    """Phrases to look for in plain words: whole words only, the longest where several begin alike."""

    def __init__(self, phrases: str) -> None:
        longest_first = sorted(alternatives(phrases), key=len, reverse=True)
        self._pattern = re.compile(rf"(?<!\S)(?:{'|'.join(longest_first) or '$.'})(?!\S)")

    def in_(self, words: str) -> list[str]:
        return self._pattern.findall(words)

    def removed_from(self, words: str) -> str:
        return " ".join(self._pattern.sub(" ", words).split())


PHRASES: dict[str, Any] = tomllib.loads(
    (resources.files("ordinalrbm.schema") / "vocabulary.toml").read_text(encoding="utf-8")
)
_NAMES = PHRASES["names"]
NOMINAL_WORDS = words_of(_NAMES["nominal"])
MEASURED_WORDS = words_of(_NAMES["measured"])
AGE_WORDS = words_of(_NAMES["age"])
_SMALL = words_of(_NAMES["beside"])
_SAMPLING_WORDS, _ASKED_OF_PEOPLE = words_of(_NAMES["sampling"]), words_of(_NAMES["asked_of_people"])
_NOT_OF_SAMPLE = words_of(_NAMES["not_of_sample"])
_INTERVIEWER = re.compile("|".join(alternatives(_NAMES["interviewer"])))
_BESIDE_SAMPLING = words_of(_NAMES["beside_sampling"])
_WEIGHT_WORDS, _OF_SAMPLES = words_of(_NAMES["weight"]), words_of(_NAMES["sampling_weight"])
_ID_LABEL, _DATED = (Phrases(_NAMES[key]) for key in ("id_label", "dated"))
_ASKED = {key: Phrases(phrases) for key, phrases in PHRASES["asked"].items()}
_ASKED["counted"] = Phrases(_NAMES["counted"])
_NOMINAL_ANSWERS = frozenset(alternatives(PHRASES["answers"]["nominal"]))
_OTHER = words_of(PHRASES["answers"]["other"])
_FEW_WORDS = 3
_NOMINAL_STARTS = _OTHER | words_of(PHRASES["answers"]["nominal_starts"])
_ORDERED_PARTIES = frozenset(alternatives(PHRASES["answers"]["ordered_parties"]))


def is_of_fieldwork(name: str, question: str) -> bool:
    """Whether a column tells of the interviewer, or of the sample, rather than of the person."""
    words = words_of(question) | name_words(name)
    if words & _ASKED_OF_PEOPLE:
        return False
    first, *_ = name.casefold().split("_")  # EA_road
    about = any(
        named_after(text, _SAMPLING_WORDS, _BESIDE_SAMPLING) and not words_of(text) & NOMINAL_WORDS
        for text in (first, name, question)
    )
    of_sample = (about or "psu" in words) and not words & _NOT_OF_SAMPLE
    spelt = f"{plain_words(question)} {' '.join(sorted(name_words(name)))}"
    return of_sample or bool(_INTERVIEWER.search(spelt))


def named_after(text: str, known: frozenset[str], beside: frozenset[str] = frozenset()) -> str | None:
    """The known word that a column's name or label is about; None if it is about more than that."""
    words = {word for word in name_words(_without_number(text)) if len(word) > 1 or not word.isascii()}
    about = words & known
    others = {word for word in words - about - beside if len(word) > 2}
    others -= NOMINAL_WORDS | MEASURED_WORDS | _SMALL
    return min(about) if about and not others else None


def _without_number(question: str) -> str:
    """Without the number of the question in front: "Q42a. Trust"."""
    return re.sub(r"^\s*[A-Za-z]{1,3}[-_.]?\d+[A-Za-z]?\d*\s*[.:)-]\s*", "", question)


Asked = Literal["ordered", "unordered", "banded", "counted"]


def asks(question: str, for_what: Asked) -> bool:
    return bool(_ASKED[for_what].in_(plain_words(question)))


def n_categories_named(labels: Iterable[str]) -> int:
    """How many labels name categories that have no order: sexes, parties, "other"."""
    phrases = [label_words(label) for label in labels]
    if any(phrase in _ORDERED_PARTIES for phrase in phrases):
        return 0  # party identification runs from one end to the other
    return sum(p in _NOMINAL_ANSWERS or p.split(" ", 1)[0] in _NOMINAL_STARTS for p in phrases)


def says_other(label: str) -> bool:
    words = label_words(label).split()
    return bool(words) and words[0] in _OTHER and len(words) <= _FEW_WORDS


_DATE_NAMES = {"timestamp", "dateintr", "intdate"}
_WEIGHT_NAME = re.compile(
    r"weight|wgt|wght|gewicht|poids|pondera|(^|_)(peso|pond|fexp|factor_?exp)|(^|_)wt|wt($|_|\d)", re.I
)
_BODY = re.compile(r"(\b|_)(body|kg|kilo\w*|pounds?|lbs?|birth|grams?)(\b|_)|körper", re.I)
_ID_NAME = re.compile(
    r"(^|[_\W])(id|ids|uuid|guid|serial|caseid|respid|respondent|respondentid|participant|"
    r"subject|subjid|idno|key|rowid|pid|uid|case|lfdnr|record|recordid|caseno|casenum|respno|"
    r"respnr|folio|questid|questno|noquest|ident)($|[_\W\d])|"
    r"(resp\w*|case|person|subject|user|participant|record|row|household|hh|student|stu)_?"
    r"(id|no|nr|num|number)$|[a-z]I[dD]$",
    re.I,
)


def looks_like_weight(name: str, question: str) -> bool:
    if _BODY.search(f"{name} {question}"):
        return False
    return bool(_WEIGHT_NAME.search(name)) or _says_weight(question)


def _says_weight(question: str) -> bool:
    words = words_of(question)
    # German puts words together: Querschnittsgewicht.
    return bool(words & _WEIGHT_WORDS) or any(re.search("gewicht(e|ung)?$", w) for w in words)


def says_sampling_weight(question: str) -> bool:
    """Whether a label says that a weight is one of a sample, and not of a body."""
    return _says_weight(question) and bool(words_of(question) & _OF_SAMPLES)


def looks_like_id(name: str, question: str = "") -> bool:
    return bool(_ID_NAME.search(name)) or bool(_ID_LABEL.in_(plain_words(question)))


_NUMBERED = re.compile(
    r"(resp|case|subj|person|quest|serial|household|hh|ea|psu|cluster|interview)\w*?_?"
    r"(no|nr|num|numb|number|id)$",
    re.I,
)


def numbers_something(name: str, question: str) -> bool:
    return bool(_NUMBERED.match(name)) or bool(_ID_LABEL.in_(plain_words(question)))


def looks_like_date(name: str, question: str) -> bool:
    asked = plain_words(_without_number(question))
    words = f"{asked} {' '.join(sorted(name_words(name)))}"
    if re.search(r"\b(birth|born|naissance|nacimiento|nascimento|geburt\w*|age)\b", words):
        return False
    dates = {"date", "datum", "fecha"}
    is_named = asked.split(" ", 1)[0] in dates or bool(name_words(name) & (dates | _DATE_NAMES))
    return is_named or bool(_DATED.in_(asked))


# ---- labels that stand in place of an answer ---------------------------------------------------

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
_DEPENDS = frozenset(alternatives(PHRASES["middle"]["depends"]))
_BETWEEN = Phrases(PHRASES["middle"]["between"])
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
    bare = label_words(without_asides(label))
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
    found = no_answer(first) if slash and not says_middle(label) else None
    if found is not None and found.is_sure:
        return found
    for known in _BY_SORT:
        if _few_words_around(words, known.weak):
            return NoAnswer(known.sort, False)
    return None


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


def _bare_words(label: str) -> str:
    return label_words(without_asides(label)) or label_words(label)


@remembered
def says_middle(label: str) -> bool:
    """Whether a label says "neither", "both" or "it depends"."""
    if any(label_words(part) in _MIDDLE_ALONE for part in label.split("/")):
        return True
    return says_neither(label) or _few_words_around(_bare_words(label), _MIDDLE_WITHIN)


def says_between(label: str) -> bool:
    """Whether a label may be the middle of others: "about right", "the same"; not "not right"."""
    words = _bare_words(label)
    beside = set(_BETWEEN.removed_from(words).split())
    return (_few_words_around(words, _BETWEEN) and not _NOT_BETWEEN & beside) or says_middle(label)


@remembered
def says_neither(label: str) -> bool:
    words = _bare_words(label)
    if re.search(r"\b(neither .+ n?or|ni .+ ni|nem .+ nem) |\bweder (.+ )?noch\b", words):
        return True
    first, *others = words.split() or [""]
    cut = [word for word in others if word not in ("nor", "or", "not", "with")]
    are_poles = all(len(word) > 1 and any(pole.startswith(word) for pole in _POLES) for word in cut)
    return first.startswith("nei") and bool(cut) and are_poles


def says_depends(label: str) -> bool:
    """Whether a label says "it depends", which stands between any two sides."""
    return _bare_words(label) in _DEPENDS

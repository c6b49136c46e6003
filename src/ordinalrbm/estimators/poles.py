"""What a factor is called, and which of its ends is the positive one.

The sign of a loading says whether people high on a factor give answers with higher or lower codes,
and what a higher code means is up to the file: often 1 is "Yes" and 2 is "No". So questions are
named with the answer that people high on the factor give, "Police station nearby: No", wherever the
levels have words, and a factor is turned so that more of these answers are affirmative.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ordinalrbm.schema.known_scales import polarity
from ordinalrbm.schema.vocabulary import without_code
from ordinalrbm.vector.loadings import Solution

# A question says what a factor is about when it loads at least this much as strongly as the strongest one.
WORTH_NAMING = 0.5
# A stem such as "How much do you trust ..." has so many words and opens so many questions.
_FEWEST_WORDS, _FEWEST_QUESTIONS = 3, 3
_ANSWER_WIDTH = 40
_NUMBER = re.compile(r"^\s*[A-Za-z]{0,3}[-_.]?\d+[A-Za-z]?\s*[.:)]\s+(?=\S)")  # "Q4a. ", "159. "


def answer_at(levels: Sequence[str], direction: float) -> str:
    """The label at the upper (direction > 0) or lower end of a scale; "" if it has no words."""
    if len(levels) < 2 or not all(any(c.isalpha() for c in end) for end in (levels[0], levels[-1])):
        return ""
    return without_code(levels[-1] if direction > 0 else levels[0])


def with_answer(question: str, answer: str) -> str:
    """A question and what is answered to it."""
    if not answer:
        return question
    return f"{question}{' ' if question.endswith(('?', ':')) else ': '}{answer}"


def in_words(parts: Sequence[tuple[str, str, float]]) -> str:
    """The high end of a factor in words, from questions, the answers there, and loadings.

    Questions without a named answer are listed as those answered more (higher) and less.
    """
    ends = {
        "": [with_answer(text, cut(answer, _ANSWER_WIDTH)) for text, answer, _ in parts if answer],
        "more: ": [text for text, answer, loading in parts if not answer and loading > 0],
        "less: ": [text for text, answer, loading in parts if not answer and loading < 0],
    }
    return " / ".join(f"{word}{' · '.join(end)}" for word, end in ends.items() if end)


def worth_naming(loadings: np.ndarray) -> list[int]:
    """Indices of the loadings that say what a factor is about, the strongest first."""
    size = np.abs(loadings)
    order = np.argsort(-size, kind="stable")
    return [int(i) for i in order if size[i] > 0 and size[i] >= WORTH_NAMING * size.max()]


def naturally_turned(solution: Solution, scales: Sequence[Sequence[str]]) -> Solution:
    """The same factors with the sign that puts more affirmative answers at their high ends.

    ``scales`` are the levels of each question. Only those whose words the vocabulary knows count;
    a tie goes to the end with the stronger loadings, and without any the sign stays as it is.
    """
    known = np.array([polarity(levels) if answer_at(levels, 1.0) else 0 for levels in scales])
    towards_yes = solution.loadings * known[:, None]
    strong = np.abs(solution.loadings) >= WORTH_NAMING * np.abs(solution.loadings).max(axis=0)
    votes = (np.sign(towards_yes) * strong).sum(axis=0)
    leaning = np.where(votes != 0, votes, (towards_yes**3).sum(axis=0))
    sign = np.where(leaning < 0, -1.0, 1.0)
    return solution._replace(
        loadings=solution.loadings * sign,
        correlation=solution.correlation * np.outer(sign, sign),
        projection=solution.projection * sign[:, None],
    )


def in_short(texts: Mapping[str, str], width: int = 60) -> dict[str, str]:
    """Texts that still tell questions apart where there is little room.

    Words that open several questions are left out, since what differs comes after them, and so are
    the numbers of questions.
    """
    words = {name: _NUMBER.sub("", text).split(" ") for name, text in texts.items()}
    openings = Counter(tuple(one[:size]) for one in words.values() for size in range(_FEWEST_WORDS, len(one)))
    return {name: _shortened(own, openings, width) for name, own in words.items()}


def _shortened(words: list[str], openings: Counter[tuple[str, ...]], width: int) -> str:
    sizes = range(len(words) - 1, _FEWEST_WORDS - 1, -1)
    stem = next((n for n in sizes if openings[tuple(words[:n])] >= _FEWEST_QUESTIONS), 0)
    return cut(" ".join(["…", *words[stem:]] if stem else words), width)


def cut(text: str, width: int) -> str:
    """The text with at most ``width`` letters."""
    if len(text) <= width:
        return text
    kept = text[: width - 1]
    # At the end of a word, unless that would leave hardly anything.
    whole, space, _ = kept.rpartition(" ")
    return f"{whole if space and len(whole) > width // 2 else kept}…"

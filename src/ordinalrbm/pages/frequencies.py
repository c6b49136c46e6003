"""How often each level of each question was chosen, and how often and why none was; batteries."""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import pandas as pd

from ordinalrbm.data.tables import Encoded
from ordinalrbm.estimators.poles import answer_at
from ordinalrbm.files.survey import REASONS
from ordinalrbm.pages.page import Label
from ordinalrbm.plots.style import diverging, ink_on, kinds
from ordinalrbm.schema.known_scales import polarity
from ordinalrbm.stats.welch import counting

_QUARTERS = np.arange(5) / 4


class Level(NamedTuple):
    """A level of a question as part of a bar, and how many people chose it."""

    name: str
    colour: str
    ink: str  # that can be read on the colour
    share: float  # of those who have answered, by their weights
    people: int = 0


def direction(names: Sequence[str]) -> int:
    """1 or -1 where the words of a scale run towards yes, or towards no; 0 where nobody knows."""
    return polarity(names) if answer_at(names, 1.0) else 0


def level_colours(names: Sequence[str]) -> list[str]:
    """Colours of a scale, blue at the end that says yes."""
    colours = diverging(len(names))
    return colours[::-1] if direction(names) < 0 else colours


def levels_of(
    names: Sequence[str], shares: np.ndarray, people: np.ndarray | None = None, *, ordered: bool
) -> list[Level]:
    """Levels with their colours, from one end to the other where they have an order."""
    names = [str(name) for name in names]
    colours = level_colours(names) if ordered else kinds(len(names))
    counts = np.zeros(len(names)) if people is None else people
    return [
        Level(name, colour, ink_on(colour), float(share), int(n))
        for name, colour, share, n in zip(names, colours, shares, counts, strict=True)
    ]


class Frequencies(NamedTuple):
    """What was answered to a question."""

    label: Label
    levels: list[Level]
    n_answered: int
    none: list[tuple[str, int, float]]  # why there is no answer, how often, and of how many of all


def frequencies(
    answers: Encoded,
    labels: list[Label],
    weight: np.ndarray | None = None,
    no_answers: np.ndarray | None = None,
    *,
    ordered: bool = True,
) -> list[Frequencies]:
    """Counts of people and weighted shares, question by question.

    ``no_answers`` says why answers lack, as places in ``REASONS``; without it nobody knows. Where
    nothing is ``ordered``, levels are categories: the most frequent comes first.
    """
    dense = answers.observations.to_dense()
    weights = counting(weight, len(dense))
    found = []
    for j, (label, scale) in enumerate(zip(labels, answers.scales, strict=True)):
        level = dense[:, j]
        given = level >= 0
        count = np.bincount(level[given], minlength=scale.n_levels)
        total = np.bincount(level[given], weights[given], minlength=scale.n_levels)
        share = total / total.sum() if total.sum() > 0 else total
        levels = levels_of(scale.names, share, count, ordered=ordered)
        if not ordered:
            levels.sort(key=lambda level: -level.share)
        why = None if no_answers is None else no_answers[~given, j]
        found.append(Frequencies(label, levels, int(given.sum()), _reasons(why, given)))
    return found


def _reasons(why: np.ndarray | None, given: np.ndarray) -> list[tuple[str, int, float]]:
    """Why there is no answer, the most frequent reason first."""
    lacking = int((~given).sum())
    if why is None:
        why = np.full(lacking, REASONS.index("empty"))
    counts = np.bincount(np.where(why < 0, REASONS.index("empty"), why), minlength=len(REASONS))
    return [
        (REASONS[k], int(counts[k]), float(counts[k] / len(given)))
        for k in np.argsort(-counts, kind="stable")
        if counts[k]
    ]


class NumberSummary(NamedTuple):
    """What was answered to a question for a number; people count by their weights."""

    label: Label
    n_answered: int
    mean: float
    deviation: float
    quantiles: tuple[float, ...]  # least, quarter, median, three quarters, greatest


def summary_of(values: pd.Series, label: Label, weight: np.ndarray | None = None) -> NumberSummary:
    """Mean, standard deviation and quantiles of numbers, NaN where unanswered."""
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    given = ~np.isnan(numbers)
    own, people = numbers[given], counting(weight, len(numbers))[given]
    if not people.sum() > 0:
        return NumberSummary(label, int(given.sum()), np.nan, np.nan, (np.nan,) * 5)
    order = np.argsort(own, kind="stable")
    below = np.cumsum(people[order]) / max(people.sum(), 1e-300)
    # The smallest number that so large a share of the people does not exceed.
    places = np.minimum(np.searchsorted(below, _QUARTERS - 1e-9), own.size - 1)
    mean = float(np.average(own, weights=people))
    variance = np.average((own - mean) ** 2, weights=people) * own.size / max(own.size - 1, 1)
    quantiles = tuple(own[order][places].tolist())
    return NumberSummary(label, int(given.sum()), mean, float(np.sqrt(variance)), quantiles)


# ---- batteries ----------------------------------------------------------------------------------

# Questions on the same scale, as bars that diverge from the middle of the scale. Answers below the middle
# point to the left, those above it to the right, and the middle one stands astride (Heiberger and Robbins
# 2014). Where the vocabulary knows that a scale runs towards "no" or "disagree", it is turned round, so that
# agreement is on the right.
_MOST_QUESTIONS = 18  # questions before one opens anything, in at most so many batteries
_MOST_BATTERIES = 3
_MOST_OF_ONE, _HIGHEST, _LOWEST = 12, 5, 3
_FEWEST_WORDS = 3  # that open all questions of a battery, and name it


class Bar(NamedTuple):
    """A question, its share left of the middle of the scale, and that above the middle less that below."""

    frequencies: Frequencies
    short: str
    left: float
    net: float

    @property
    def missing(self) -> float:
        """Share of all respondents without an answer."""
        return sum(share for _, _, share in self.frequencies.none)


class Battery(NamedTuple):
    """Questions on one scale, by net agreement."""

    heading: str
    legend: list[Level]
    left: float  # the largest share left of the middle
    width: float  # what the bars take together, in shares
    first: list[Bar]
    between: list[Bar]  # folded away, in their place between the others
    last: list[Bar]

    @property
    def bars(self) -> list[Bar]:
        """All of them in their order."""
        return [*self.first, *self.between, *self.last]


def batteries(found: Sequence[Frequencies], short: Sequence[str]) -> tuple[list[Battery], list[Battery]]:
    """Batteries to show, and those to fold away, larger ones first."""
    scales: dict[tuple[str, ...], list[int]] = {}
    for j, one in enumerate(found):
        scales.setdefault(tuple(level.name for level in one.levels), []).append(j)
    ordered = sorted(scales.items(), key=lambda scale: -len(scale[1]))
    shown: list[Battery] = []
    folded: list[Battery] = []
    everything = len(found) <= _MOST_OF_ONE
    for names, own in ordered:
        made = _battery(names, [found[j] for j in own], [short[j] for j in own])
        taken = sum(len(one.first) + len(one.last) for one in [*shown, made])
        fits = not shown or (len(shown) < _MOST_BATTERIES and taken <= _MOST_QUESTIONS)
        (shown if everything or (fits and not folded) else folded).append(made)
    return shown, folded


def _battery(names: tuple[str, ...], found: list[Frequencies], short: list[str]) -> Battery:
    step, half = (-1 if direction(names) < 0 else 1), len(names) // 2
    bars = []
    for one, text in zip(found, short, strict=True):
        levels = one.levels[::step]
        below, above = (sum(level.share for level in side) for side in (levels[:half], levels[-half:]))
        whole = sum(level.share for level in levels)
        bars.append(Bar(one._replace(levels=levels), text, (whole + below - above) / 2, above - below))
    bars.sort(key=lambda bar: -bar.net)
    cut = len(bars) if len(bars) <= _MOST_OF_ONE else _HIGHEST
    left, legend = max(bar.left for bar in bars), bars[0].frequencies.levels
    heading = _opening([one.label.text for one in found]) or f"{legend[0].name} … {legend[-1].name}"
    width = left + max(1.0 - bar.left for bar in bars)
    rest = bars[cut:]
    return Battery(heading, legend, left, width, bars[:cut], rest[:-_LOWEST], rest[-_LOWEST:])


def _opening(texts: list[str]) -> str:
    """The words that all questions begin with, if these say something."""
    words = [text.split() for text in texts]
    same = list(takewhile(lambda column: len(set(column)) == 1, zip(*words, strict=False)))
    says_something = len(texts) > 1 and len(same) >= _FEWEST_WORDS
    return f"{' '.join(column[0] for column in same)} …" if says_something else ""

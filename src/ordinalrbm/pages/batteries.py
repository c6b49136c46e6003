"""Batteries, questions on the same scale, as bars that diverge from the middle of the scale.

Answers below the middle point to the left, those above it to the right, and the middle one stands
astride (Heiberger and Robbins 2014). Where the vocabulary knows that a scale runs towards "no" or
"disagree", it is turned round, so that agreement is on the right.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from ordinalrbm.pages.frequencies import Frequencies, Level, direction

_MOST_SHOWN = 18  # questions before one opens anything, in at most so many batteries
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
        fits = not shown or (len(shown) < _MOST_BATTERIES and taken <= _MOST_SHOWN)
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

"""Batteries, questions on the same scale, as bars that diverge from the middle of the scale.

Answers below the middle point to the left, those above it to the right, and the middle one stands
astride (Heiberger and Robbins 2014). Where the vocabulary knows that a scale runs towards "no" or
"disagree", it is turned round, so that agreement is on the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from ordinalrbm.pages.frequencies import Frequencies, Level, direction

_MOST_SHOWN = 18  # questions before one opens anything, in at most so many batteries
_MOST_BATTERIES = 3
_MOST_OF_ONE, _HIGHEST, _LOWEST = 12, 5, 3
_FEWEST_WORDS = 3  # that open all questions of a battery, and name it


class Bar(NamedTuple):
    """A question with the pieces of its bar, as shares of the battery's width."""

    frequencies: Frequencies
    short: str
    start: float
    pieces: list[tuple[Level, float]]
    net: float  # share above the middle less share below it

    @property
    def missing(self) -> float:
        """Share of all respondents without an answer."""
        return sum(share for _, _, share in self.frequencies.none)


class Battery(NamedTuple):
    """Questions on one scale, by net agreement."""

    heading: str
    legend: list[Level]
    middle: float  # where the middle of the scale is, as a share of the width
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
    turned = direction(names) < 0
    bars, sides = [], []
    for one, text in zip(found, short, strict=True):
        levels = one.levels[::-1] if turned else one.levels
        shares = np.array([level.share for level in levels])
        below, above = shares[: len(shares) // 2].sum(), shares[(len(shares) + 1) // 2 :].sum()
        sides.append((below, above, shares.sum()))
        bars.append(Bar(one._replace(levels=levels), text, below, [], float(above - below)))
    reach = [0.5 * (whole + below - above) for below, above, whole in sides]
    left = max(reach)
    width = max(left + max(s[2] - r for s, r in zip(sides, reach, strict=True)), 1e-9)
    placed = [
        bar._replace(
            start=float(left - own) / width,
            pieces=[(level, level.share / width) for level in bar.frequencies.levels if level.share > 0],
        )
        for bar, own in zip(bars, reach, strict=True)
    ]
    placed.sort(key=lambda bar: -bar.net)
    cut = len(placed) if len(placed) <= _MOST_OF_ONE else _HIGHEST
    rest = placed[cut:]
    legend = bars[0].frequencies.levels
    return Battery(
        _opening([one.label.text for one in found]) or f"{legend[0].name} … {legend[-1].name}",
        legend,
        float(left) / width,
        placed[:cut],
        rest[:-_LOWEST],
        rest[-_LOWEST:] if rest else [],
    )


def _opening(texts: list[str]) -> str:
    """The words that all questions begin with, if these say something."""
    words = [text.split() for text in texts]
    same = list(takewhile(lambda column: len(set(column)) == 1, zip(*words, strict=False)))
    says_something = len(texts) > 1 and len(same) >= _FEWEST_WORDS
    return f"{' '.join(column[0] for column in same)} …" if says_something else ""

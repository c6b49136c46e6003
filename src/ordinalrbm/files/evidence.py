"""Clues that speak for or against something, weighed together.

A clue's points are log-odds: +1 makes a thing 2.7 times as likely as it was, -1 as unlikely. They
are judgements, set by hand and checked on the columns of tests/files/corpus.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_MOST_TOLD = 3
_MOST_SURE = 0.99


class Clue(NamedTuple):
    """Something that speaks for a thing (points above 0) or against it, in words."""

    points: float
    because: str


class Verdict(NamedTuple):
    """Whether clues speak for something, how sure that is (0.5 to 1), and the strongest of them."""

    is_so: bool
    confidence: float
    because: str


def weigh(clues: Sequence[Clue]) -> Verdict:
    """What clues say together; without any, it is not so.

    Examples
    --------
    >>> weigh([Clue(3, "known answers"), Clue(-1, "the file says nominal")])
    Verdict(is_so=True, confidence=0.88, because='known answers')
    """
    total = sum(clue.points for clue in clues)
    with_it = [clue for clue in clues if clue.because and clue.points * total > 0]
    strongest = sorted(with_it, key=lambda clue: -abs(clue.points))[:_MOST_TOLD]
    because = "; ".join(clue.because for clue in strongest)
    confidence = min(1 / (1 + math.exp(-abs(total))), _MOST_SURE)
    return Verdict(total > 0, round(confidence, 2), because)

"""Clues that speak for or against something, weighed together.

A clue's points are log-odds: +1 makes a thing 2.7 times as likely as it was, -1 as unlikely. They
are judgements, set by hand and checked on the columns of tests/files/corpus;
benchmarks/schema_clues.py switches them off in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_MOST_TOLD = 3
_MOST_SURE = 0.99


class Clue(NamedTuple):
    """Something that speaks for a thing (points above 0) or against it."""

    points: float
    because: str  # in words, with {case.…} for what it was seen in
    holds: Callable[[Any], bool]


# Of the clues in a row, the first that holds counts.
Table = Sequence[Sequence[Clue]]


class Verdict(NamedTuple):
    """Whether clues speak for something, how sure that is (0.5 to 1), and the strongest of them."""

    is_so: bool
    confidence: float
    because: str


def weigh(table: Table, case: Any) -> Verdict:
    """What the clues that hold say together; without any, it is not so.

    Examples
    --------
    >>> table = [[Clue(3, "{case} is known", str.istitle)], [Clue(-1, "is short", lambda t: True)]]
    >>> weigh(table, "Agree")
    Verdict(is_so=True, confidence=0.88, because='Agree is known')
    """
    found = [next((clue for clue in row if clue.holds(case)), None) for row in table]
    clues = [clue for clue in found if clue is not None]
    total = sum(clue.points for clue in clues)
    with_it = [clue for clue in clues if clue.points * total > 0]
    strongest = sorted(with_it, key=lambda clue: -abs(clue.points))[:_MOST_TOLD]
    because = "; ".join(clue.because.format(case=case) for clue in strongest)
    confidence = min(1 / (1 + math.exp(-abs(total))), _MOST_SURE)
    return Verdict(total > 0, round(confidence, 2), because)

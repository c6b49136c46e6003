"""The half-sweep of continuous factors by several processes, each of which has some of the rows.

Every process, a rank, keeps its rows with their parameters, and all of the columns. Rows are
renewed where they are. A column's answers are spread over all ranks, so that it is renewed in
stages (:mod:`ordinalrbm.engine.staged`): every sum over its answers goes to the rank that looks
after the column, and what that rank makes of it to all others.

Both classes have the functions of :mod:`ordinalrbm.engine.regress`, by an engine for one process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ordinalrbm.engine import staged
from ordinalrbm.engine.party import Moments, Party, Prior, Shares, Turn


class _Sharded:
    """What is the same for rows and for columns."""

    def __init__(self, engine: Any, group: Any) -> None:
        self.engine, self.group = engine, group
        self.turned = engine.turned
        self.shift, self.draw_towards = engine.shift, engine.draw_towards

    def agreed(self, *turns: Turn) -> tuple[Turn, ...]:
        """The turns that rank 0 has found.

        Eigenvectors have any sign, and on another kind of machine the other one may come out; rows
        and columns would no longer fit together.
        """
        copies = tuple(Turn(*map(np.array, turn)) for turn in turns)
        self.group.hand_out(*(part for turn in copies for part in turn))
        return copies


class Rows(_Sharded):
    """Rows of which every rank has its own: sums over them are those of all ranks."""

    def renew(self, *given: Any, **options: Any) -> Any:
        """Renew the rows that are here."""
        return self.engine.renew(*given, **options)

    def moments(self, party: Party) -> Moments:
        """Sums over all rows, in float64."""
        return Moments(*self._summed(*self.engine.moments(party)))

    def step_squares(self, party: Party, prior: Prior, steps_variance: Any) -> Any:
        """How many rows there are, and expected squares of how far steps are from their prior."""
        return self._summed(*self.engine.step_squares(party, prior, steps_variance))

    def shares(self, party: Party, n_levels: int | None = None) -> Shares:
        """Sums over all rows, or over those with so many levels."""
        return Shares(*self._summed(*self.engine.shares(party, n_levels)))

    def _summed(self, *parts: Any) -> list[Any]:
        found = [np.array(part, dtype=np.float64) for part in parts]
        self.group.add_up(*found)
        return [part if part.ndim else float(part) for part in found]


class Columns(_Sharded):
    """Columns that every rank has, each with other answers: renewed by what all answers say."""

    def __init__(self, engine: Any, group: Any) -> None:
        super().__init__(engine, group)
        self.moments, self.shares = engine.moments, engine.shares
        self.step_squares = engine.step_squares

    def renew(
        self, answers: Any, this: Party, other: Party, prior: Prior, spread: bool = True
    ) -> Any:
        """Renew the columns; afterwards all ranks have the same, to the last bit.

        Each column is the work of one rank: machines of different kinds round differently, and
        what all of them computed would drift apart.
        """
        return staged.renew(self.engine, answers, this, other, prior, spread, self.group)

"""Half-sweeps by several processes, each of which has some of the rows.

Every process, a rank, keeps its rows with their parameters, and all of the columns. Rows are
updated where they are. A column's answers are spread over all ranks, so that it is updated in
stages: every sum over its answers goes to the rank that looks after the column, and what that rank
makes of it to all others. :class:`Rows` and :class:`Columns` are engines around the one of a rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.engine.base import HalfSweepEngine
from ordinalrbm.engine.gaussian_state import FactorPosterior, Moments, Prior, Rotation, Shares


def sums_over_ranks(group: Any, *parts: Any) -> list[Any]:
    """Sums of arrays and numbers over the ranks, in float64."""
    found = [np.array(part, dtype=np.float64) for part in parts]
    group.all_reduce(*found)
    return [part if part.ndim else float(part) for part in found]


class _Sharded(HalfSweepEngine):
    """What is the same for rows and for columns: the engine of this rank, and the others."""

    def __init__(self, engine: HalfSweepEngine, group: Any) -> None:
        self.engine, self.group, self.library = engine, group, engine.library

    def half_sweep(
        self, answers: Any, this: FactorPosterior, other: Any, prior: Prior, spread: bool = True
    ) -> Any:
        return self.engine.half_sweep(answers, this, other, prior, spread)

    def array(self, values: np.ndarray, like: Any) -> Any:
        return self.engine.array(values, like)

    def host(self, values: Any) -> np.ndarray:
        return self.engine.host(values)

    def rated_sums(self, answers: Any, table: Any) -> Any:
        return self.engine.rated_sums(answers, table)

    def rated_products(self, answers: Any, table: Any, of_rows: Any) -> Any:
        return self.engine.rated_products(answers, table, of_rows)

    def feature_table(self, table: csr_array, like: Any) -> Any:
        return self.engine.feature_table(table, like)

    def gather(self, answers: Any, this: FactorPosterior, other: Any) -> tuple[Any, Any]:
        return self.engine.gather(answers, this, other)

    def apply(self, answers: Any, other: Any, ridge: Any, direction: Any) -> Any:
        return self.engine.apply(answers, other, ridge, direction)

    def gap_sums(self, answers: Any, this: FactorPosterior, other: Any, rows: slice) -> Any:
        return self.engine.gap_sums(answers, this, other, rows)

    def move_gaps(self, this: FactorPosterior, prior: Prior, system: Any, rows: slice) -> Any:
        return self.engine.move_gaps(this, prior, system, rows)

    def broadcast(self, *rotations: Rotation) -> tuple[Rotation, ...]:
        """The rotations that rank 0 has found.

        Eigenvectors have any sign, and on another kind of machine the other one may come out; rows
        and columns would no longer fit together.
        """
        copies = tuple(Rotation(*map(np.array, rotation)) for rotation in rotations)
        self.group.broadcast(*(part for rotation in copies for part in rotation))
        return copies


class Rows(_Sharded):
    """Rows of which every rank has its own: sums over them are those of all ranks."""

    def moments(self, posterior: FactorPosterior) -> Moments:
        return Moments(*self._summed(*self.engine.moments(posterior)))

    def cutpoint_squares(self, posterior: FactorPosterior, prior: Prior, cutpoints_variance: Any) -> Any:
        return self._summed(*self.engine.cutpoint_squares(posterior, prior, cutpoints_variance))

    def totals(self, table: Any) -> np.ndarray:
        (found,) = self._summed(self.engine.totals(table))
        return found

    def gram(self, table: Any) -> Any:
        found = self.engine.gram(table)
        self.group.all_reduce(found)
        return found

    def table_sums(self, table: Any, of_rows: Any) -> Any:
        found = self.engine.table_sums(table, of_rows)
        self.group.all_reduce(found)
        return found

    def shares(self, posterior: FactorPosterior, n_levels: int | None = None) -> Shares:
        return Shares(*self._summed(*self.engine.shares(posterior, n_levels)))

    def _summed(self, *parts: Any) -> list[Any]:
        return sums_over_ranks(self.group, *parts)


class Columns(_Sharded):
    """Columns that every rank has, each with other answers: updated by what all answers say."""

    def half_sweep(
        self, answers: Any, this: FactorPosterior, other: FactorPosterior, prior: Prior, spread: bool = True
    ) -> Any:
        """Update the columns; afterwards all ranks have the same, to the last bit.

        Each column is the work of one rank: machines of different kinds round differently, and
        what all of them computed would drift apart.
        """
        return self.engine.staged_half_sweep(answers, this, other, prior, spread, self.group)

    def rated_sums(self, answers: Any, table: Any) -> Any:
        """Sums over the answers of all ranks; a table has the lines of this rank's rows."""
        found = self.engine.rated_sums(answers, table)
        self.group.all_reduce(found)
        return found

    def rated_products(self, answers: Any, table: Any, of_rows: Any) -> Any:
        found = self.engine.rated_products(answers, table, of_rows)
        self.group.all_reduce(found)
        return found

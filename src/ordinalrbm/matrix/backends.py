"""Where matrix models are learnt: on this machine's cores, on a GPU, or by several processes.

A backend holds ratings and what moves in its own form. What an epoch does is the same on all:
:mod:`ordinalrbm.matrix.gaussian` and :mod:`ordinalrbm.matrix.binary_learner`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ordinalrbm.data.observations import Cells, Counted, Counts, Observations, SharedRows
from ordinalrbm.engine.sharded import (
    Columns,
    Rows,
    difference_over_ranks,
    positions_by_columns,
    rows_of_rank,
    sums_over_ranks,
)
from ordinalrbm.engine.side import Batch, Statistics
from ordinalrbm.errors import DataError
from ordinalrbm.matrix.binary_priors import Priors, all_here
from ordinalrbm.matrix.binary_state import BinaryState, Process, Sampling
from ordinalrbm.matrix.cpu import CPU, Cpu
from ordinalrbm.matrix.gaussian import Data
from ordinalrbm.matrix.model import Half
from ordinalrbm.matrix.prepare import with_cells
from ordinalrbm.matrix.prior_means import Tables
from ordinalrbm.runtime import process_group
from ordinalrbm.runtime.digest import digest


class Distributed:
    """The processes of a torch process group, each with some of the rows and with all columns.

    What is learnt is what one process learns, to float rounding, and every rank has all of it when
    it comes to the host. Of Gaussian factors a rank has a run of rows. Of binary ones it has a part
    of every batch of rows, and chains are those of one process, because draws are named by numbers
    that all ranks agree in. Each works with a backend of its ``own``.
    """

    def __init__(self, group: process_group.Group, own: Cpu) -> None:
        self.group, self.own = group, own
        # Of these each does the same, or its part.
        self.clone, self.ascend, self.working = own.clone, own.ascend, own.working
        self.rows, self.order = (np.zeros(0, dtype=np.int32) for _ in range(2))
        self.numbers: list[tuple[np.ndarray, np.ndarray]] = []

    def to_device(self, tree: Any) -> Any:
        """The rows of this rank, and all columns."""
        return self.own.to_device(tree.with_rows(lambda part: part[self.rows]))

    def to_host(self, tree: Any) -> Any:
        """The rows of all ranks; all must ask for them."""
        return self.own.to_host(tree).with_rows(self._whole)

    def _whole(self, part: np.ndarray) -> np.ndarray:
        found = np.empty((self.order.size, *part.shape[1:]), dtype=part.dtype)
        if found.size:
            found[self.order] = self.group.all_gather(part)
        return found

    def _share(self, shares: list[np.ndarray]) -> np.ndarray:
        """Take note of which rows are whose; returns those of this rank."""
        self.rows, self.order = shares[self.group.rank], np.concatenate(shares)
        return self.rows

    def _share_run(self, n_rows: int) -> np.ndarray:
        """Give each rank a run of rows; returns those of this rank."""
        everyone, group = np.arange(n_rows), self.group
        shares = (group._share_of(rank, n_rows) for rank in range(group.size))
        return self._share([everyone[share] for share in shares])

    def log_probability(self, model: Any, cells: Cells) -> np.ndarray:
        """Each by the rank that has the row.

        Unknown rows are like the average of all, whom rank 0 brings together to judge theirs.
        """
        found = self._log_probability_here(model, cells)
        self.group.all_reduce(found)
        return found

    def mean_log_probability(self, model: Any, cells: Cells) -> float:
        """One number goes between the ranks, where cells may be millions."""
        (total,) = sums_over_ranks(self.group, self._log_probability_here(model, cells).sum())
        return total / cells.row.size

    def _log_probability_here(self, model: Any, cells: Cells) -> np.ndarray:
        """Of the cells that are this rank's to judge; of others it is zero."""
        found = np.zeros(cells.row.size)
        unknown = (cells.row < 0) | (cells.column < 0)
        if unknown.any():
            whole = self.to_host(model)
            if self.group.rank == 0:
                found[unknown] = CPU.log_probability(whole, _some(cells, unknown))
        return self._by_owners(self.own.log_probability, model, cells, ~unknown, found)

    def log_pseudo_likelihood(self, model: Any, cells: Cells) -> np.ndarray:
        """The same of known rows and columns, given all other ratings."""
        known, found = np.ones(cells.row.size, dtype=bool), np.zeros(cells.row.size)
        found = self._by_owners(self.own.log_pseudo_likelihood, model, cells, known, found)
        self.group.all_reduce(found)
        return found

    def _by_owners(
        self, judge: Callable[[Any, Cells], np.ndarray], model: Any, cells: Cells,
        known: np.ndarray, found: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Numbers of cells; of those whose rows other ranks have, what was ``found`` before."""
        position = np.full(self.order.size + 1, -1)  # the last is that of unknown rows
        position[self.rows] = np.arange(self.rows.size)
        here = known & (position[cells.row] >= 0)
        if here.any():
            mine = _some(cells, here)
            mine = mine._replace(row=position[mine.row])
            found[here] = judge(model, mine)
        return found

    # ---- Gaussian factors ---------------------------------------------------------------------

    def data(self, observations: Observations | SharedRows, n_factors: int) -> Data:
        """The ratings of this rank's rows, of all ratings or of its part of them."""
        group, mine = self.group, self._share_run(observations.n_rows)
        if isinstance(observations, SharedRows):
            own = observations.own
        else:
            refuse_different_ratings(group, observations)
            # Rows come in random order, so that equally many have about equally many ratings.
            own = observations.take_rows(mine)
        data = self.own.data(own, n_factors)
        return Data(
            data.rows._replace(engine=Rows(data.rows.engine, group)),
            data.columns._replace(engine=Columns(data.columns.engine, group)),
            data.scales,
        )

    def with_cells(self, observations: Observations | SharedRows, cells: Cells) -> Any:
        if isinstance(observations, Observations):
            return with_cells(observations, cells)
        self._share_run(observations.n_rows)
        position = np.full(self.order.size + 1, -1)  # the last is that of unknown rows
        position[self.rows] = np.arange(self.rows.size)
        mine = cells._replace(row=position[cells.row])
        own, group = with_cells(observations.own, mine), self.group
        by_level = {int(n): group.summed(own.level_counts(n)) for n in np.unique(own.n_levels)}
        return SharedRows(
            own, self._whole(own.row_counts), group.summed(own.column_counts), by_level
        )

    def data_with(
        self, data: Data, observations: Any, cells: Cells, n_factors: int
    ) -> tuple[Data, Counted | Counts]:
        whole = self.with_cells(observations, cells)
        return self.data(whole, n_factors), whole

    def own_rows(self, tables: Tables) -> Tables:
        rows = None if tables.rows is None else tables.rows[self.rows]
        return tables._replace(rows=rows)

    # ---- binary factors -----------------------------------------------------------------------

    def processes(
        self, observations: Observations, n_processes: int, batch_size: int
    ) -> list[Process]:
        """Of all ratings, those of this rank's rows; what is counted of columns is that of all."""
        group = self.group
        refuse_different_ratings(group, observations)
        n_rows, ranks = observations.n_rows, range(group.size)
        rows = self._share([rows_of_rank(n_rows, batch_size, k, group.size) for k in ranks])
        mine = observations.take_rows(rows)
        position = positions_by_columns(observations.row_start, observations.column, rows)
        self.numbers = [(rows, _NO_NUMBERS), (_NO_NUMBERS, position[mine.column_view.entry])]
        found = self.own.processes(mine, n_processes, batch_size)
        found[0] = found[0]._replace(n_rows=n_rows)
        group.all_reduce(found[0].n_answers)
        # Those of a rank without rows have no scale, and every rank must ask for the same sums.
        longest = observations.n_levels.max(initial=1)
        return [*found[:1], *(each._replace(scales=np.array([longest])) for each in found[1:])]

    def side(self, process: Process, state: BinaryState) -> Any:
        return self.own.numbered(self.own.side(process, state), *self.numbers[process.number])

    def phases(
        self, process: Process, side: Any, state: BinaryState, batch: Batch, how: Sampling
    ) -> tuple[Statistics, Statistics]:
        """Both phases of a batch; of the rows' process, summed over all ranks.

        The columns' process has statistics of rows, which are where these are.
        """
        if process.number:
            return self.own.phases(process, side, state, batch, how, self.group.all_reduce)
        start, stop = np.searchsorted(self.rows, (batch.start, batch.stop)).tolist()
        batch = batch._replace(start=start, stop=stop)
        found = self.own.phases(process, side, state, batch, how)
        return difference_over_ranks(self.group, *found)

    def priors(self, process: Process, state: BinaryState) -> Priors:
        """Priors that fit the parameters; all ranks then have the columns of rank 0.

        On machines of one kind they have these anyway. On others they may be rounded differently,
        and would drift apart.
        """
        half, chains = state.half(process), state.chains[process.number]
        if process.number == 0:
            moved = [*half[:4], *chains.sums[:4]]
        else:
            moved = [half.factors, half.factor_bias, chains.sums.factor_bias, *chains[:2]]
        for kind in sorted({str(part.dtype) for part in moved}):  # the same order on all ranks
            self.group.broadcast(*(part for part in moved if str(part.dtype) == kind))
        return self.own.priors(process, state, self._total if process.number else all_here)

    def _total(self, *sums: Any) -> tuple[Any, ...]:
        """Sums over the rows of all ranks; numbers on the host, arrays where they are."""
        here = [part.cpu() if hasattr(part, "cpu") else part for part in sums]
        found = sums_over_ranks(self.group, *here)
        return tuple(
            part.new_tensor(value) if hasattr(part, "cpu") and np.ndim(value) else value
            for part, value in zip(sums, found, strict=True)
        )

    def extremes(self, half: Half) -> Half:
        """The least and largest number of each array on each rank."""
        parts = self.own.extremes(half)
        bounds = [(part.min(initial=0.0), part.max(initial=0.0)) for part in parts]
        found = self.group.all_gather(np.array([bounds]))
        return Half(*np.moveaxis(found, 1, 0))


_NO_NUMBERS = np.zeros(0, dtype=np.int32)


def _some(cells: Cells, chosen: np.ndarray) -> Cells:
    return Cells(*(part[chosen] for part in cells))


def refuse_different_ratings(group: process_group.Group, observations: Observations) -> None:
    """Refuse to learn together if not all processes have the same ratings."""
    seen = observations
    if not group.agree(digest(seen.row_start, seen.column, seen.level, seen.n_levels)):
        raise DataError(
            "The processes of this run were given different ratings; give all of them the same "
            "file or table, and each takes its part; or give each its own as a RatingsPart."
        )


Backend = Cpu | Distributed


def backend_for(device: str) -> Backend:
    """The backend that ``device`` names: "cpu", or "cuda" with the number of a GPU behind it.

    In a process group of torch with others, each of its processes has such a backend, and all
    learn together. "cuda" is then the GPU that torch was set to use.
    """
    group = process_group.current()
    if group is not None and device == "cuda":
        device = group.own_gpu()
    own = single_backend(device)
    return own if group is None else Distributed(group, own)


def single_backend(device: str) -> Cpu:
    """The backend of one process."""
    if device == "cpu":
        return CPU
    from ordinalrbm.engine.gpu.device import torch_device

    torch_device(device)  # which says what is missing, before anything is imported
    from ordinalrbm.matrix.gpu.backend import Cuda

    return Cuda(device)

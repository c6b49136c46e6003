"""Where matrix models are learnt: on this machine's cores, on a GPU, or by several processes.

A backend holds ratings and what moves in its own form. What an epoch does is the same on all:
:mod:`ordinalrbm.matrix.variational`, and :mod:`ordinalrbm.matrix.binary_learner` for one process.
"""

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from ordinalrbm.data.observations import Cells, Counted, Counts, Observations, SharedRows
from ordinalrbm.engine.side import Array
from ordinalrbm.errors import DataError
from ordinalrbm.matrix.cpu import CPU, Cpu
from ordinalrbm.matrix.drift import PlacedCells
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.prepare import with_cells
from ordinalrbm.matrix.variational import Data
from ordinalrbm.runtime import process_group
from ordinalrbm.training.identity import digest

Tree = TypeVar("Tree")  # named tuples and lists of arrays


class _HasRows(Protocol):
    def with_rows(
        self, change: Callable[[Array], Array], of_bins: Callable[[Array], Array] | None = None
    ) -> Self:
        """Every array changed that has a line per row, or per bin of a row's ratings in time."""


SharedTree = TypeVar("SharedTree", bound=_HasRows)


class Distributed:
    """The processes of a torch process group, each with a run of the rows and with all columns.

    What is learnt is what one process learns, to float rounding, and every rank has all of it when
    it comes to the host. Each works with a backend of its ``own``.
    """

    def __init__(self, group: process_group.Group, own: Cpu) -> None:
        self.group, self.own, self.rows, self.bins_here = group, own, slice(0, 0), slice(0, 0)
        # Of these each does the same, or its part.
        self.clone, self.working, self.bins = own.clone, own.working, own.bins

    def to_device(self, tree: SharedTree) -> SharedTree:
        own = tree.with_rows(lambda part: part[self.rows], lambda part: part[self.bins_here])
        return self.own.to_device(own)

    def to_host(self, tree: SharedTree) -> SharedTree:
        return self.own.to_host(tree).with_rows(self.group.all_gather)

    def mean_log_probability(
        self,
        model: GaussianModel,
        cells: Cells,
        weight: np.ndarray | None = None,
        placed: PlacedCells | None = None,
    ) -> float:
        """Each by the rank that has the row; one number goes between the ranks.

        Unknown rows are like the average of all, whom rank 0 brings together to judge theirs.
        """
        here, unknown, mine = 0.0, cells.row < 0, self.own_cells(cells)
        if placed is not None:
            (model,), mine = model.at(placed), placed.cells
        weight = np.ones(cells.row.size) if weight is None else weight
        if unknown.any():
            whole = self.to_host(model)
            if self.group.rank == 0:
                here += (weight[unknown] * CPU.log_probability(whole, cells.at(unknown))).sum()
        known = ~unknown & (mine.row >= 0)
        if known.any():
            here += (weight[known] * self.own.log_probability(model, mine.at(known))).sum()
        (total,) = process_group.sums_over_ranks(self.group, here)
        return total / weight.sum(dtype=np.float64)

    def own_cells(self, cells: Cells) -> Cells:
        is_own = (cells.row >= self.rows.start) & (cells.row < self.rows.stop)
        return cells._replace(row=np.where(is_own, cells.row - self.rows.start, -1))

    def data(
        self, observations: Observations | SharedRows, n_factors: int, time: np.ndarray | None = None
    ) -> Data:
        """The ratings of this rank's rows, of all ratings or of its part of them."""
        group = self.group
        self.rows = group.share(observations.n_rows)
        if not isinstance(observations, SharedRows):
            refuse_different_ratings(group, observations, time)
        own, own_time = self.own_ratings(observations, time)
        rows, columns, scales, bins = self.own.data(own, n_factors, own_time)
        engine, n_bins = type(rows.engine), 0 if bins is None else bins.bins.n
        self.bins_here = slice(before := group.before(n_bins), before + n_bins)
        return Data(
            rows._replace(engine=engine(rows_among=group)),
            columns._replace(engine=engine(answers_among=group)),
            scales,
            bins,
        )

    def own_ratings(
        self, observations: Observations | SharedRows, time: np.ndarray | None
    ) -> tuple[Observations, np.ndarray | None]:
        """Rows come in random order, so that equally many have about equally many ratings."""
        if isinstance(observations, SharedRows):
            return observations.own, time
        first, stop = observations.row_start[[self.rows.start, self.rows.stop]]
        own = observations.take_rows(np.arange(self.rows.start, self.rows.stop))
        return own, None if time is None else time[first:stop]

    def with_cells(
        self, observations: Observations | SharedRows, cells: Cells, weight: np.ndarray | None = None
    ) -> Any:
        if isinstance(observations, Observations):
            return with_cells(observations, cells, weight)
        group = self.group
        self.rows = group.share(observations.n_rows)
        own = with_cells(observations.own, self.own_cells(cells))
        by_level = {int(n): group.summed(own.level_counts(n)) for n in np.unique(own.n_levels)}
        return SharedRows(own, group.all_gather(own.row_counts), group.summed(own.column_counts), by_level)

    def data_with(
        self, data: Data, observations: Any, cells: Cells, n_factors: int, weight: np.ndarray | None = None
    ) -> tuple[Data, Counted | Counts]:
        whole = self.with_cells(observations, cells, weight)
        return self.data(whole, n_factors), whole

    def own_rows(self, tables: Tables) -> Tables:
        return tables._replace(rows=None if tables.rows is None else tables.rows[self.rows])


def refuse_different_ratings(
    group: process_group.Group, observations: Observations, time: np.ndarray | None = None
) -> None:
    seen, times = observations, () if time is None else (time,)
    if not group.agree(digest(seen.row_start, seen.column, seen.level, seen.n_levels, seen.weight, *times)):
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
    if device == "cpu":
        return CPU
    from ordinalrbm.engine.gpu.device import torch_device

    torch_device(device)  # which says what is missing, before anything is imported
    from ordinalrbm.matrix.gpu.backend import Cuda

    return Cuda(device)

"""Where continuous factors are learnt: on this machine's cores, on a GPU, or by many processes.

A machine holds ratings and parties in its own form and says how likely the held-out ratings are;
what an epoch does is the same on all (:func:`ordinalrbm.matrix.gaussian.epoch`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ordinalrbm.data.observations import Observations, SharedRows
from ordinalrbm.engine import memory
from ordinalrbm.engine.gaussian_state import FactorPosterior
from ordinalrbm.engine.sharded import Columns, Rows
from ordinalrbm.errors import DataError
from ordinalrbm.matrix.gaussian import Data, GaussianState, View, on_cpu, to_matrix
from ordinalrbm.matrix.predict import Pairs, log_probability
from ordinalrbm.runtime import process_group
from ordinalrbm.training.identity import digest


class Backend(Protocol):
    """What the learner asks of a machine."""

    @property
    def group(self) -> process_group.Group | None:
        """The processes that learn together, if there are others."""

    def data(self, observations: Any, n_factors: int = 0) -> Data:
        """Ratings in the machine's form; rows and columns will have so many factors."""

    def to_device(self, parties: GaussianState) -> GaussianState:
        """Copies of parties for the machine."""

    def part_to_device(self, parties: GaussianState) -> GaussianState:
        """The same, of rows that are this process's only."""

    def to_host(self, parties: GaussianState) -> GaussianState:
        """The machine's parties as arrays."""

    def own_part(self, parties: GaussianState) -> GaussianState:
        """The same, with the rows that are this process's only."""

    def clone(self, parties: GaussianState) -> GaussianState:
        """Copies that stay with the machine."""

    def likelihood(self, parties: GaussianState, in_use: tuple[int, int], held_out: Pairs) -> float:
        """Mean log probability of held-out ratings, with so many factors of rows and columns."""


class Cpu:
    """The cores of this machine: arrays are NumPy's, the engine is Numba's."""

    group = None

    def data(self, observations: Observations, n_factors: int = 0) -> Data:
        """As it is, and transposed."""
        return on_cpu(observations)

    def to_device(self, parties: GaussianState) -> GaussianState:
        """The same."""
        return parties

    def to_host(self, parties: GaussianState) -> GaussianState:
        """The same."""
        return parties

    def clone(self, parties: GaussianState) -> GaussianState:
        """The same with arrays of its own."""
        return parties.copy()

    part_to_device, own_part = to_device, to_host

    def likelihood(self, parties: GaussianState, in_use: tuple[int, int], held_out: Pairs) -> float:
        """Mean log probability of held-out ratings."""
        model = to_matrix(parties, *in_use)
        return float(log_probability([model], held_out).mean())


class Cuda:
    """A GPU: tensors, and Triton kernels.

    Parameters
    ----------
    device : its name
    budget : bytes of its memory that may be used, by default what is free
    """

    group = None

    def __init__(self, device: str, budget: int | None = None) -> None:
        from ordinalrbm.engine.gpu.device import torch_device

        self.device, self.budget = torch_device(device), budget

    def data(self, observations: Observations, n_factors: int = 0) -> Data:
        """Both views on the device, or streamed to it if they do not fit."""
        from ordinalrbm.engine.gpu import half_sweep, streamed
        from ordinalrbm.engine.gpu.pieces import answers_on

        views = observations, observations.transpose()
        size = memory.size_of(observations, n_factors)
        need = memory.on_gpu(size, observations.level.itemsize)
        usable = self._usable()
        blocks = None if usable is None else streamed.planned(views, need, size, usable)
        if blocks is None:
            rows, columns = (View(answers_on(view, self.device), half_sweep) for view in views)
        else:
            parts = streamed.streamed(views, blocks, self.device)
            rows, columns = (View(answers, streamed) for answers in parts)
        return Data(rows, columns, np.unique(observations.n_levels))

    def _usable(self) -> int | None:
        from ordinalrbm.engine.gpu.device import free_memory

        if self.budget is not None:
            return self.budget
        free = free_memory(self.device)
        return None if free is None else memory.usable_on_gpu(free)

    def to_device(self, parties: GaussianState) -> GaussianState:
        """Parties as tensors."""
        from ordinalrbm.engine.gpu.half_sweep import tensor

        return _changed(parties, lambda part: tensor(part, self.device))

    def to_host(self, parties: GaussianState) -> GaussianState:
        """Parties as arrays."""
        return _changed(parties, lambda part: part.cpu().numpy())

    def clone(self, parties: GaussianState) -> GaussianState:
        """Copies on the device."""
        return _changed(parties, lambda part: part.clone())

    part_to_device, own_part = to_device, to_host

    def likelihood(self, parties: GaussianState, in_use: tuple[int, int], held_out: Pairs) -> float:
        """Mean log probability of held-out ratings, computed there."""
        from ordinalrbm.matrix.gpu.predict import mean_log_probability

        return mean_log_probability(parties, *in_use, held_out)


def _changed(parties: GaussianState, change: Callable[[Any], Any]) -> GaussianState:
    """Every array changed that has a line per member; priors' precisions stay with the host."""
    rows, columns = (
        FactorPosterior(*map(change, posterior)) for posterior in (parties.rows, parties.columns)
    )
    row_prior, column_prior = (
        prior._replace(cutpoints=change(prior.cutpoints))
        for prior in (parties.row_prior, parties.column_prior)
    )
    return GaussianState(rows, columns, row_prior, column_prior)


class Distributed:
    """The processes of a torch process group, each with some of the rows and with all columns.

    What is learnt is what one process learns, to float rounding, and every rank has all of it when
    it is fetched. A rank is given the ratings of its rows, or all ratings, of which it keeps those
    of its rows.

    Parameters
    ----------
    group : the processes
    own : the machine that each of them works with
    """

    def __init__(self, group: process_group.Group, own: Backend) -> None:
        self.group, self.own = group, own
        self.n_rows = 0  # of all ranks

    def data(self, observations: Observations | SharedRows, n_factors: int = 0) -> Data:
        """Of all ratings, those of this rank's rows."""
        self.n_rows = observations.n_rows
        data = self.own.data(self._own_rows(observations), n_factors)
        return Data(
            data.rows._replace(engine=Rows(data.rows.engine, self.group)),
            data.columns._replace(engine=Columns(data.columns.engine, self.group)),
            data.scales,
        )

    def _own_rows(self, seen: Observations | SharedRows) -> Observations:
        """Rows come in random order, so that equally many have about equally many ratings."""
        if isinstance(seen, SharedRows):
            return seen.own
        refuse_different_ratings(self.group, seen)
        mine = self.group.share(seen.n_rows)
        return seen.take_rows(np.arange(mine.start, mine.stop))

    def to_device(self, parties: GaussianState) -> GaussianState:
        """Copies of this rank's rows, and of all columns."""
        mine = self.group.share(len(parties.rows.mean))
        return self.part_to_device(_of_rows(parties, lambda part: part[mine].copy()))

    def part_to_device(self, parties: GaussianState) -> GaussianState:
        """Copies of rows that are this rank's only, and of all columns."""
        return self.own.to_device(parties)

    def to_host(self, parties: GaussianState) -> GaussianState:
        """The rows of all ranks; all must ask for them."""
        return _of_rows(self.own_part(parties), self.group.all_gather)

    def own_part(self, parties: GaussianState) -> GaussianState:
        """Rows of this rank, and all columns; nobody else need ask."""
        return self.own.to_host(parties)

    def clone(self, parties: GaussianState) -> GaussianState:
        """Copies of what is here."""
        return self.own.clone(parties)

    def likelihood(self, parties: GaussianState, in_use: tuple[int, int], held_out: Pairs) -> float:
        """Mean log probability of held-out ratings, each by the rank that has its row.

        Strangers are like the average of all, whom rank 0 brings together to judge theirs.
        """
        strange = (held_out.row < 0) | (held_out.column < 0)
        total = 0.0
        if strange.any():
            whole = self.to_host(parties)
            if self.group.rank == 0:
                total += _sum_of_log(Cpu(), whole, in_use, some_pairs(held_out, strange))
        mine = self.group.share(self.n_rows)
        here = ~strange & (held_out.row >= mine.start) & (held_out.row < mine.stop)
        if here.any():
            pairs = some_pairs(held_out, here)
            pairs = pairs._replace(row=pairs.row - mine.start)
            total += _sum_of_log(self.own, parties, in_use, pairs)
        return float(self.group.total(total)[0]) / held_out.row.size


def refuse_different_ratings(group: process_group.Group, observations: Observations) -> None:
    """Refuse to learn together if not all processes have the same ratings."""
    seen = observations
    if not group.agree(digest(seen.row_start, seen.column, seen.level, seen.n_levels)):
        raise DataError(
            "The processes of this run were given different ratings; give all of them the same "
            "file or table, and each takes its part; or give each its own as a RatingsPart."
        )


def some_pairs(pairs: Pairs, chosen: np.ndarray) -> Pairs:
    """Those of the cells that are chosen."""
    return Pairs(*(part[chosen] for part in pairs))


def _sum_of_log(
    backend: Backend, parties: GaussianState, in_use: tuple[int, int], pairs: Pairs
) -> float:
    return backend.likelihood(parties, in_use, pairs) * pairs.row.size


def _of_rows(parties: GaussianState, change: Callable[[Any], Any]) -> GaussianState:
    """Every array changed that has a line per row."""
    return parties._replace(
        rows=FactorPosterior(*map(change, parties.rows)),
        row_prior=parties.row_prior._replace(cutpoints=change(parties.row_prior.cutpoints)),
    )


def backend_for(device: str) -> Backend:
    """The machine that ``device`` names: "cpu", or "cuda" with the number of a GPU behind it.

    In a process group of torch with others, each of its processes has such a machine, and all
    learn together. "cuda" is then the GPU that torch has been told to use.
    """
    group = process_group.current()
    if group is not None and device == "cuda":
        device = group.own_gpu()
    own: Backend = Cpu() if device == "cpu" else Cuda(device)
    return own if group is None else Distributed(group, own)

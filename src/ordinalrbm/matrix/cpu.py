"""The cores of this machine as a backend, and what any backend can do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ordinalrbm.data.observations import Cells, Counted, Counts, Observations
from ordinalrbm.engine import gibbs, thresholds
from ordinalrbm.engine.half_sweep import CPU_ENGINE
from ordinalrbm.engine.side import Batch, Statistics
from ordinalrbm.matrix import ascent, cavity
from ordinalrbm.matrix.binary_fold_in import KnownColumns, NewRows, infer_rows
from ordinalrbm.matrix.binary_priors import Priors, updated
from ordinalrbm.matrix.binary_state import BinaryState, Process, Sampling, Steps, views
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.gibbs_sampler import SampledData, prepared
from ordinalrbm.matrix.model import ColdStartPrior, Half, column_side, row_side
from ordinalrbm.matrix.predict import log_probability
from ordinalrbm.matrix.prepare import with_cells
from ordinalrbm.matrix.variational import Data, on_cpu
from ordinalrbm.runtime import process_group


class Cpu:
    """The cores of this machine: arrays are NumPy's, the engine is Numba's.

    Trees are named tuples and lists of arrays.
    """

    group: process_group.Group | None = None  # the processes that learn together, if any
    half_sweep: Callable[..., Any] = staticmethod(CPU_ENGINE.half_sweep)
    steps_up = staticmethod(ascent.ascend)

    def working(self) -> AbstractContextManager:
        """Kernels are launched inside."""
        return nullcontext()

    def to_device(self, tree: Any) -> Any:
        """The backend's form of what the host has; may be the same arrays."""
        return tree

    def to_host(self, tree: Any) -> Any:
        """All of it as arrays of the host; may be the same arrays."""
        return tree

    def clone(self, tree: Any) -> Any:
        """A copy that stays with the backend."""
        return mapped(np.array, tree)

    def log_probability(self, model: Any, cells: Cells) -> np.ndarray:
        """(cells,) log probability of the true levels, on the host."""
        return log_probability([model], cells)

    def mean_log_probability(self, model: Any, cells: Cells) -> float:
        """The mean of these over the cells."""
        return float(self.log_probability(model, cells).mean())

    def log_pseudo_likelihood(self, model: Any, cells: Cells) -> np.ndarray:
        """(cells,) log probability of the true levels given all other ratings, on the host."""
        apart, own = cavity.of_cells(model, cells)
        unseen = cavity.without_own_rating(self.to_host(apart), own)
        return log_probability([unseen], own)

    def answers(self, observations: Observations) -> Any:
        """Answers as half-sweeps take them."""
        return observations

    def data(self, observations: Any, n_factors: int) -> Data:
        """Ratings for Gaussian factors, so many of which rows and columns will have."""
        return on_cpu(observations)

    def sampled(self, observations: Observations, tables: Tables, *, rated_sets: bool) -> SampledData:
        """Ratings and features as the sampler takes them."""
        return prepared(observations, rated_sets=rated_sets, tables=tables)

    def data_of(self, sampled: SampledData, observations: Any, n_factors: int) -> Data:
        """The sampler's ratings for the variational epochs before it."""
        return self.data(observations, n_factors)

    def data_with(
        self, data: Data, observations: Any, cells: Cells, n_factors: int
    ) -> tuple[Data, Counted | Counts]:
        """Ratings with those of some cells, as `with_cells` has them, and how many there are."""
        whole = self.with_cells(observations, cells)
        return self.data(whole, n_factors), whole

    def with_cells(self, observations: Any, cells: Cells) -> Any:
        """The ratings with those of some cells, if they are of known rows and columns and new."""
        return with_cells(observations, cells)

    def own_rows(self, tables: Tables) -> Tables:
        """Features of the rows that this process has."""
        return tables

    def infer_binary_rows(
        self, rows: Observations, columns: KnownColumns, new: NewRows, usual: ColdStartPrior
    ) -> None:
        """Fill in new rows with binary factors."""
        infer_rows(rows, columns, new, usual)

    def processes(self, observations: Observations, n_processes: int) -> list[Process]:
        """Ratings for binary factors: for the process of the rows and perhaps the columns'."""
        offset = np.empty(observations.n_entries, dtype=np.float32)  # which both share
        return [
            Process.over(number, view, (view, offset))
            for number, view in enumerate(views(observations, n_processes))
        ]

    def side(self, process: Process, state: BinaryState) -> Any:
        """What kernels see in a pass: offsets by the other process, which rests meanwhile.

        They are written over those of the other process.
        """
        make = column_side if process.number else row_side
        return make(state.model, *process.answers)

    def phases(
        self, process: Process, side: Any, state: BinaryState, batch: Batch, how: Sampling
    ) -> tuple[Statistics, Statistics]:
        """Sample a batch of rows, clamped and free; moves its chains and expected factors."""
        half, chains = state.half(process), state.chains[process.number]
        side = side._replace(thresholds=thresholds.table(half.cutpoints, process.n_levels))
        clamped = gibbs.clamped_phase(side, chains.clamped, batch, half.factors, how.memory)
        if how.is_contrastive:
            rows = slice(batch.start, batch.stop)
            chains.free[rows] = chains.clamped[rows]
        return clamped, gibbs.free_phase(side, chains.free, batch)

    def ascend(
        self, process: Process, state: BinaryState, clamped: Statistics, free: Statistics, steps: Steps
    ) -> None:
        """Move the parameters of the columns that the batch has touched, in place."""
        half, chains = state.half(process), state.chains[process.number]
        priors = state.priors[process.number]
        self.steps_up(half, chains.sums, clamped, free, process.n_answers, priors, steps)

    def priors(self, process: Process, state: BinaryState) -> Priors:
        """Priors that fit the parameters after a pass."""
        priors, half = state.priors[process.number], self.without_padding(state.half(process))
        return updated(priors, half, process.n_answers, process.n_levels, process.scales)

    def without_padding(self, half: Half) -> Half:
        """The same arrays, as wide as there are factors."""
        return half

    def extremes(self, half: Half) -> Half:
        """Arrays with the same least and largest number each, for the host to look at."""
        return half


CPU = Cpu()


# ---- named tuples and lists of arrays, changed as a whole ----------------------------------------


def mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """A tree with every array changed; numbers stay."""
    if isinstance(tree, list):
        return [mapped(change, part) for part in tree]
    if isinstance(tree, tuple):
        return type(tree)(*(mapped(change, part) for part in tree))
    return change(tree) if hasattr(tree, "shape") else tree

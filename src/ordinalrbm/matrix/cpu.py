"""What learners of matrices see of the cores of this machine."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np

from ordinalrbm.data.observations import Cells, Counted, Counts, Observations
from ordinalrbm.engine import gibbs, thresholds
from ordinalrbm.engine.drift import BinViews
from ordinalrbm.engine.half_sweep import CPU_ENGINE
from ordinalrbm.engine.side import Array, Batch, Statistics
from ordinalrbm.matrix import model as binary
from ordinalrbm.matrix.binary_fold_in import KnownColumns, NewRows, infer_rows
from ordinalrbm.matrix.binary_state import BinaryState, Priors, Process, Sampling, Steps, ascend, views
from ordinalrbm.matrix.drift import PlacedCells
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.gibbs_sampler import SampledData, prepared
from ordinalrbm.matrix.model import ColdStartPrior, Half, MatrixModel, column_side, row_side
from ordinalrbm.matrix.predict import log_probability
from ordinalrbm.matrix.prepare import with_cells
from ordinalrbm.matrix.protocol import Model
from ordinalrbm.matrix.variational import Data, on_cpu
from ordinalrbm.runtime import process_group

Tree = TypeVar("Tree")  # named tuples and lists of arrays


class Cpu:
    """The cores of this machine: arrays are NumPy's, the engine is Numba's."""

    group: process_group.Group | None = None  # the processes that learn together, if any
    settle: Callable[..., None] = staticmethod(CPU_ENGINE.settle)
    steps_up = staticmethod(ascend)

    def working(self) -> AbstractContextManager:
        """Kernels are launched inside."""
        return nullcontext()

    def to_device(self, tree: Tree) -> Tree:
        return tree

    def to_host(self, tree: Tree) -> Tree:
        """All of it as arrays of the host; may be the same arrays."""
        return tree

    def clone(self, tree: Tree) -> Tree:
        return mapped(np.array, tree)

    def log_probability(self, model: Model, cells: Cells) -> np.ndarray:
        """(cells,) log probability of the true levels, on the host."""
        return log_probability([model], cells)

    def mean_log_probability(
        self, model: Any, cells: Cells, weight: np.ndarray | None = None, placed: PlacedCells | None = None
    ) -> float:
        """Of cells, or of those that are their own, ``placed`` at their times."""
        if placed is not None:
            (model,), cells = model.at(placed), placed.cells
        return float(np.average(self.log_probability(model, cells), weights=weight))

    def log_pseudo_likelihood(self, model: MatrixModel, cells: Cells) -> np.ndarray:
        """(cells,) log probability of the true levels given all other ratings, on the host."""
        apart, own = binary.of_cells(model, cells)
        return log_probability([binary.without_own_rating(self.to_host(apart), own)], own)

    def answers(self, observations: Observations) -> Any:
        return observations

    def data(self, observations: Any, n_factors: int, time: np.ndarray | None = None) -> Data:
        """Ratings for Gaussian factors, so many of which rows and columns will have.

        With their times, biases of rows drift.
        """
        return on_cpu(observations, time)

    def bins(self, observations: Observations, time: np.ndarray) -> BinViews:
        return BinViews.of(observations, time)

    def sampled(
        self, observations: Observations, tables: Tables, *, rated_sets: bool, time: np.ndarray | None = None
    ) -> SampledData:
        """Ratings for the sampler; with their times, biases of rows drift."""
        return prepared(observations, rated_sets=rated_sets, tables=tables, time=time)

    def data_of(self, sampled: SampledData, observations: Any, n_factors: int) -> Data:
        return self.data(observations, n_factors)._replace(bins=sampled.bins)

    def data_with(
        self, data: Data, observations: Any, cells: Cells, n_factors: int, weight: np.ndarray | None = None
    ) -> tuple[Data, Counted | Counts]:
        """Ratings with those of some cells, as `with_cells` has them, and how many there are."""
        whole = self.with_cells(observations, cells, weight)
        return self.data(whole, n_factors), whole

    def with_cells(self, observations: Any, cells: Cells, weight: np.ndarray | None = None) -> Any:
        """The ratings with those of some cells, if they are of known rows and columns and new."""
        return with_cells(observations, cells, weight)

    def own_rows(self, tables: Tables) -> Tables:
        return tables

    def own_cells(self, cells: Cells) -> Cells:
        """Cells whose rows are counted from the first that this process has, −1 for those of others."""
        return cells

    def own_ratings(
        self, observations: Any, time: np.ndarray | None
    ) -> tuple[Observations, np.ndarray | None]:
        return observations, time

    def infer_binary_rows(
        self, rows: Observations, columns: KnownColumns, new: NewRows, prior: ColdStartPrior
    ) -> None:
        infer_rows(rows, columns, new, prior)

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
        return (column_side if process.number else row_side)(state.model, *process.answers)

    def phases(
        self, process: Process, side: Any, state: BinaryState, batch: Batch, how: Sampling
    ) -> tuple[Statistics, Statistics]:
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
        half, chains = state.half(process), state.chains[process.number]
        priors = state.priors[process.number]
        self.steps_up(half, chains.sums, clamped, free, process.n_answers, priors, steps)

    def priors(self, process: Process, state: BinaryState) -> Priors:
        return state.priors[process.number].refit(self.without_padding(state.half(process)), process)

    def without_padding(self, half: Half) -> Half:
        """The same arrays, as wide as there are factors."""
        return half

    def extremes(self, half: Half) -> Half:
        """Arrays with the same least and largest number each, for the host to look at."""
        return half


CPU = Cpu()


def mapped(change: Callable[[Array], Array], tree: Any) -> Any:
    """A tree with every array changed; numbers stay."""
    if isinstance(tree, list):
        return [mapped(change, part) for part in tree]
    if isinstance(tree, tuple):
        return type(tree)(*(mapped(change, part) for part in tree))
    return change(tree) if hasattr(tree, "shape") else tree

"""Where binary factors are learnt: a machine holds ratings, chains and parameters in its own form.

What an epoch does is the same on all (:mod:`ordinalrbm.learn.alternate`); how a batch is sampled,
summed and followed up the gradient is the machine's. Two things change hands: a :class:`Process` is
what stays, the ratings as one process sees them; :class:`Learnt` is all that moves.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import cpu
from ordinalrbm.engine.side import Array, Batch, Side, Statistics
from ordinalrbm.infer import pairs as cells
from ordinalrbm.infer.pairs import Pairs
from ordinalrbm.learn.ascent import ascend
from ordinalrbm.learn.priors import Priors, updated
from ordinalrbm.model import thresholds
from ordinalrbm.model.matrix import Half, MatrixModel, column_side, row_side


class Process(NamedTuple):
    """One of the two processes: its view of the ratings, which stays.

    Attributes
    ----------
    number : 0 for the process of the rows, 1 for that of the columns, which has the roles swapped
    answers : the ratings in the machine's form, rows and columns as this process has them
    n_rows : of all ratings; batches are runs of these
    n_answers, n_levels : of each column
    scales : the different numbers of levels, on the host
    """

    number: int
    answers: Any
    n_rows: int
    n_answers: Array
    n_levels: Array
    scales: np.ndarray


class Chains(NamedTuple):
    """What a process carries from batch to batch: its chains, and AdaGrad's sums of squares."""

    clamped: Array
    free: Array
    sums: Half


class Learnt(NamedTuple):
    """All that moves while learning: the model, and the chains and priors of each process."""

    model: MatrixModel
    chains: list[Chains]
    priors: list[Priors]

    def half(self, process: Process) -> Half:
        """The parameters that a process moves."""
        return half_of(self.model, process)


def half_of(model: MatrixModel, process: Process) -> Half:
    """The parameters that a process moves."""
    return model.by_columns if process.number else model.by_rows


class Sampling(NamedTuple):
    """How chains are run: where free ones begin, and how much of the factors' mean is kept."""

    is_contrastive: bool
    memory: float


class Machine(Protocol):
    """What the learner asks of a machine."""

    def processes(self, observations: Observations, n_processes: int) -> list[Process]:
        """Ratings in the machine's form, for the process of the rows and perhaps the columns'."""

    def placed(self, learnt: Learnt) -> Learnt:
        """The machine's form of what the host has; may be the same arrays."""

    def fetched(self, learnt: Learnt) -> Learnt:
        """All of it as arrays of the host; may be the same arrays."""

    def placed_model(self, model: MatrixModel) -> MatrixModel:
        """The machine's form of a model; may be the same arrays."""

    def fetched_model(self, model: MatrixModel) -> MatrixModel:
        """A model as arrays of the host; may be the same arrays."""

    def copied(self, model: MatrixModel) -> MatrixModel:
        """A copy that stays with the machine."""

    def side(self, process: Process, model: MatrixModel) -> Any:
        """What kernels see in a pass: offsets by the other process, which rests meanwhile."""

    def phases(
        self, process: Process, side: Any, learnt: Learnt, batch: Batch, how: Sampling
    ) -> tuple[Statistics, Statistics]:
        """Sample a batch of rows, clamped and free; moves its chains and expected factors."""

    def ascend(
        self, process: Process, learnt: Learnt, clamped: Statistics, free: Statistics, rate: float
    ) -> None:
        """Move the parameters of the columns that the batch has touched, in place."""

    def priors(self, process: Process, learnt: Learnt) -> Priors:
        """Priors that fit the parameters at the end of a pass."""

    def extremes(self, half: Half) -> Half:
        """Arrays with the same least and largest number each, for the host to look at."""

    def log_probability(self, model: MatrixModel, pairs: Pairs) -> np.ndarray:
        """(cells,) log probability of the true levels, on the host."""


class _Answers(NamedTuple):
    """Ratings of a process on the cores, and room for an offset per rating, which both share."""

    observations: Observations
    offset: np.ndarray


class Cores:
    """The cores of this machine: arrays are NumPy's, the engine is Numba's."""

    def processes(self, observations: Observations, n_processes: int) -> list[Process]:
        """As they are, and transposed."""
        offset = np.empty(observations.n_entries, dtype=np.float32)
        return [
            process_of(number, view, _Answers(view, offset))
            for number, view in enumerate(views(observations, n_processes))
        ]

    def placed(self, learnt: Learnt) -> Learnt:
        """The same."""
        return learnt

    def fetched(self, learnt: Learnt) -> Learnt:
        """The same."""
        return learnt

    def placed_model(self, model: MatrixModel) -> MatrixModel:
        """The same."""
        return model

    def fetched_model(self, model: MatrixModel) -> MatrixModel:
        """The same."""
        return model

    def copied(self, model: MatrixModel) -> MatrixModel:
        """The same with arrays of its own."""
        return model.copy()

    def side(self, process: Process, model: MatrixModel) -> Side:
        """Offsets are written over those of the other process."""
        make = column_side if process.number else row_side
        return make(model, *process.answers)

    def phases(
        self, process: Process, side: Side, learnt: Learnt, batch: Batch, how: Sampling
    ) -> tuple[Statistics, Statistics]:
        """Both phases of a batch of rows."""
        half, chains = learnt.half(process), learnt.chains[process.number]
        side = side._replace(thresholds=thresholds.table(half.steps, process.n_levels))
        clamped = cpu.clamped_phase(side, chains.clamped, batch, half.factors, how.memory)
        if how.is_contrastive:
            rows = slice(batch.start, batch.stop)
            chains.free[rows] = chains.clamped[rows]
        return clamped, cpu.free_phase(side, chains.free, batch)

    def ascend(
        self, process: Process, learnt: Learnt, clamped: Statistics, free: Statistics, rate: float
    ) -> None:
        """A step of AdaGrad."""
        half, chains = learnt.half(process), learnt.chains[process.number]
        priors = learnt.priors[process.number]
        ascend(half, chains.sums, clamped, free, process.n_answers, priors, rate)

    def priors(self, process: Process, learnt: Learnt) -> Priors:
        """Priors that fit the parameters."""
        priors, half = learnt.priors[process.number], learnt.half(process)
        return updated(priors, half, process.n_answers, process.n_levels, process.scales)

    def extremes(self, half: Half) -> Half:
        """The same."""
        return half

    def log_probability(self, model: MatrixModel, pairs: Pairs) -> np.ndarray:
        """(cells,) log probability of the true levels."""
        return cells.log_probability([model], pairs)


def views(observations: Observations, n_processes: int) -> list[Observations]:
    """Ratings as the processes see them: as they are, and transposed if there are two."""
    if n_processes == 1:
        return [observations]
    _ = observations.column_view  # needed anyway, and then shared by the transposed
    return [observations, observations.transpose()]


def process_of(number: int, view: Observations, answers: Any) -> Process:
    """A process over a view of the ratings, counts on the host."""
    return Process(
        number, answers, view.n_rows, view.column_counts, view.n_levels, np.unique(view.n_levels)
    )


def machine_for(device: str) -> Machine:
    """The machine that ``device`` names."""
    assert device == "cpu", "the only one so far"
    return Cores()

"""Where binary factors are learnt: a machine holds ratings, chains and parameters in its own form.

What an epoch does is the same on all (:mod:`ordinalrbm.learn.alternate`); how a batch is sampled,
summed and followed up the gradient is the machine's. Two things change hands: a :class:`Process` is
what stays, the ratings as one process sees them; :class:`Learnt` is all that moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import cpu
from ordinalrbm.engine.side import Array, Batch, Side, Statistics
from ordinalrbm.infer import pairs as cells
from ordinalrbm.infer.pairs import Pairs
from ordinalrbm.learn.ascent import ascend
from ordinalrbm.learn.checkpoint import Later
from ordinalrbm.learn.priors import Priors, updated
from ordinalrbm.model import thresholds
from ordinalrbm.model.matrix import Half, MatrixModel, answers_only, column_side, row_side


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


# Gives arrays of the host their names in a checkpoint, and copies them.
Named = Callable[[Learnt, list[MatrixModel]], dict[str, np.ndarray]]


class Machine(Protocol):
    """What the learner asks of a machine."""

    def processes(self, observations: Observations, n_processes: int) -> list[Process]:
        """Ratings in the machine's form, for the process of the rows and perhaps the columns'."""

    def placed(self, learnt: Learnt) -> Learnt:
        """The machine's form of what the host has; may be the same arrays."""

    def fetched(self, learnt: Learnt) -> Learnt:
        """All of it as arrays of the host; may be the same arrays."""

    def state(
        self, named: Named, learnt: Learnt, kept: list[MatrixModel]
    ) -> Mapping[str, np.ndarray]:
        """What ``named`` makes of all this as arrays of the host, as it is now.

        It is asked for after every epoch, and looked at when a checkpoint is due or steps were too
        large: a machine that is far away may copy now and fetch then.
        """

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

    def state(
        self, named: Named, learnt: Learnt, kept: list[MatrixModel]
    ) -> Mapping[str, np.ndarray]:
        """Copies made now."""
        return named(learnt, kept)

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


class Gpu:
    """A GPU: tensors, and Triton kernels. Nothing waits for it inside a pass."""

    def __init__(self, device: str) -> None:
        from ordinalrbm.engine.gpu.device import torch_device

        self.device = torch_device(device)

    def processes(self, observations: Observations, n_processes: int) -> list[Process]:
        """Both views of each process on the device."""
        from ordinalrbm.engine.gpu.regress import tensor
        from ordinalrbm.engine.gpu.sweep import side_on

        found = []
        for number, view in enumerate(views(observations, n_processes)):
            process = process_of(number, view, side_on(answers_only(view), self.device))
            n_answers = tensor(process.n_answers, self.device).double()
            n_levels = tensor(process.n_levels, self.device)
            found.append(process._replace(n_answers=n_answers, n_levels=n_levels))
        return found

    def placed(self, learnt: Learnt) -> Learnt:
        """Copies as tensors; what has a number per factor is in tables."""
        from ordinalrbm.engine.gpu.regress import tensor
        from ordinalrbm.engine.gpu.sweep import factors_on
        from ordinalrbm.infer.on_gpu import half_on

        chains = [
            Chains(
                factors_on(part.clamped, self.device).clone(),
                factors_on(part.free, self.device).clone(),
                half_on(part.sums, self.device),
            )
            for part in learnt.chains
        ]
        priors = [
            prior._replace(common_steps=tensor(prior.common_steps, self.device))
            for prior in learnt.priors
        ]
        return Learnt(self.placed_model(learnt.model), chains, priors)

    def fetched(self, learnt: Learnt) -> Learnt:
        """All of it as arrays."""
        from ordinalrbm.infer.on_gpu import half_from

        chains = []
        for clamped, free, sums in learnt.chains:
            n_factors = sums.factor_bias.numel()
            clamped, free = (
                part[:, :n_factors].contiguous().cpu().numpy() for part in (clamped, free)
            )
            chains.append(Chains(clamped, free, half_from(sums)))
        priors = [
            prior._replace(common_steps=prior.common_steps.cpu().numpy()) for prior in learnt.priors
        ]
        return Learnt(self.fetched_model(learnt.model), chains, priors)

    def state(
        self, named: Named, learnt: Learnt, kept: list[MatrixModel]
    ) -> Mapping[str, np.ndarray]:
        """Copies on the device now, on the host when somebody looks."""
        chains = [
            Chains(part.clamped.clone(), part.free.clone(), _cloned(part.sums))
            for part in learnt.chains
        ]
        # Kept models and priors are replaced by others, never changed.
        now = Learnt(self.copied(learnt.model), chains, list(learnt.priors))
        return Later(
            lambda: named(self.fetched(now), [self.fetched_model(model) for model in kept])
        )

    def placed_model(self, model: MatrixModel) -> MatrixModel:
        """A copy as tensors."""
        from ordinalrbm.infer.on_gpu import model_on

        return model_on(model, self.device)

    def fetched_model(self, model: MatrixModel) -> MatrixModel:
        """A model as arrays."""
        from ordinalrbm.infer.on_gpu import model_from

        return model_from(model)

    def copied(self, model: MatrixModel) -> MatrixModel:
        """A copy on the device."""
        by_rows, by_columns = (_cloned(half) for half in model[:2])
        return model._replace(by_rows=by_rows, by_columns=by_columns)

    def side(self, process: Process, model: MatrixModel) -> Any:
        """Offsets and the rows' widths are computed there; thresholds come with each batch."""
        from ordinalrbm.engine.gpu.sweep import offsets
        from ordinalrbm.engine.gpu.thresholds import widths

        own, other, n_levels = model.by_rows, model.by_columns, None
        if process.number:
            own, other, n_levels = other, own, model.n_levels
        return process.answers.with_parameters(
            offset=offsets(process.answers, other.weights, other.bias, other.factors),
            row_steps=widths(other.steps, n_levels),
            weights=own.weights,
            bias=own.bias,
            factor_bias=own.factor_bias,
        )

    def phases(
        self, process: Process, side: Any, learnt: Learnt, batch: Batch, how: Sampling
    ) -> tuple[Statistics, Statistics]:
        """Both phases of a batch of rows."""
        from ordinalrbm.engine.gpu.sweep import both_phases
        from ordinalrbm.engine.gpu.thresholds import table

        half, chains = learnt.half(process), learnt.chains[process.number]
        side = side.with_parameters(thresholds=table(half.steps, process.n_levels))
        return both_phases(
            side, chains.clamped, chains.free, batch, half.factors, how.memory, how.is_contrastive
        )

    def ascend(
        self, process: Process, learnt: Learnt, clamped: Statistics, free: Statistics, rate: float
    ) -> None:
        """A step of AdaGrad."""
        from ordinalrbm.engine.gpu.ascent import ascend

        half, chains = learnt.half(process), learnt.chains[process.number]
        priors = learnt.priors[process.number]
        ascend(half, chains.sums, clamped, free, process.n_answers, priors, rate)

    def priors(self, process: Process, learnt: Learnt) -> Priors:
        """Priors that fit the parameters; the host waits for a few numbers."""
        from ordinalrbm.infer.on_gpu import without_padding

        priors, half = learnt.priors[process.number], without_padding(learnt.half(process))
        return updated(priors, half, process.n_answers, process.n_levels, process.scales)

    def extremes(self, half: Half) -> Half:
        """Two numbers of each part that has any, in one transfer."""
        import torch

        found = [torch.stack(torch.aminmax(part)).double() for part in half if part.numel()]
        pairs = iter(torch.stack(found).cpu().numpy())
        nothing = np.zeros(0)
        return Half(*(next(pairs) if part.numel() else nothing for part in half))

    def log_probability(self, model: MatrixModel, pairs: Pairs) -> np.ndarray:
        """(cells,) log probability of the true levels, computed there."""
        from ordinalrbm.infer.on_gpu import log_probability

        return log_probability([model], pairs)


def _cloned(half: Half) -> Half:
    return Half(*(part.clone() for part in half))


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
    """The machine that ``device`` names: "cpu", or "cuda" with the number of a GPU behind it."""
    return Cores() if device == "cpu" else Gpu(device)

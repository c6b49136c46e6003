"""Where binary factors are learnt: a machine holds ratings, chains and parameters in its own form.

What an epoch does is the same on all (:mod:`ordinalrbm.matrix.binary_learner`); how a batch is sampled,
summed and followed up the gradient is the machine's. Two things change hands: a :class:`Process` is
what stays, the ratings as one process sees them; :class:`Learnt` is all that moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import gibbs, thresholds
from ordinalrbm.engine.sharded import (
    difference_over_ranks,
    positions_by_columns,
    rows_of_rank,
    sums_over_ranks,
)
from ordinalrbm.engine.side import AllReduce, Array, Batch, Side, Statistics
from ordinalrbm.matrix import predict as cells
from ordinalrbm.matrix.adagrad import ascend
from ordinalrbm.matrix.binary_priors import Priors, Total, all_here, updated
from ordinalrbm.matrix.gaussian_backends import refuse_different_ratings, some_pairs
from ordinalrbm.matrix.model import Half, MatrixModel, answers_only, column_side, row_side
from ordinalrbm.matrix.predict import Pairs
from ordinalrbm.runtime import process_group
from ordinalrbm.training.checkpoint import LazyState


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


class Backend(Protocol):
    """What the learner asks of a machine."""

    @property
    def group(self) -> process_group.Group | None:
        """The processes that learn together, if there are others."""

    def processes(self, observations: Observations, n_processes: int) -> list[Process]:
        """Ratings in the machine's form, for the process of the rows and perhaps the columns'."""

    def to_device(self, learnt: Learnt) -> Learnt:
        """The machine's form of what the host has; may be the same arrays."""

    def to_host(self, learnt: Learnt) -> Learnt:
        """All of it as arrays of the host; may be the same arrays."""

    def state(
        self, named: Named, learnt: Learnt, kept: list[MatrixModel]
    ) -> Mapping[str, np.ndarray]:
        """What ``named`` makes of all this as arrays of the host, as it is now.

        It is asked for after every epoch, and looked at when a checkpoint is due or steps were too
        large: a machine that is far away may copy now and fetch then.
        """

    def model_to_device(self, model: MatrixModel) -> MatrixModel:
        """The machine's form of a model; may be the same arrays."""

    def model_to_host(self, model: MatrixModel) -> MatrixModel:
        """A model as arrays of the host; may be the same arrays."""

    def clone(self, model: MatrixModel) -> MatrixModel:
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


class Cpu:
    """The cores of this machine: arrays are NumPy's, the engine is Numba's."""

    group = None

    def processes(self, observations: Observations, n_processes: int) -> list[Process]:
        """As they are, and transposed."""
        offset = np.empty(observations.n_entries, dtype=np.float32)
        return [
            process_of(number, view, _Answers(view, offset))
            for number, view in enumerate(views(observations, n_processes))
        ]

    def to_device(self, learnt: Learnt) -> Learnt:
        """The same."""
        return learnt

    def to_host(self, learnt: Learnt) -> Learnt:
        """The same."""
        return learnt

    def state(
        self, named: Named, learnt: Learnt, kept: list[MatrixModel]
    ) -> Mapping[str, np.ndarray]:
        """Copies made now."""
        return named(learnt, kept)

    def model_to_device(self, model: MatrixModel) -> MatrixModel:
        """The same."""
        return model

    def model_to_host(self, model: MatrixModel) -> MatrixModel:
        """The same."""
        return model

    def clone(self, model: MatrixModel) -> MatrixModel:
        """The same with arrays of its own."""
        return model.copy()

    def side(self, process: Process, model: MatrixModel) -> Side:
        """Offsets are written over those of the other process."""
        make = column_side if process.number else row_side
        return make(model, *process.answers)

    def numbered(self, side: Side, row_number: Array, position: Array) -> Side:
        """The side with the numbers that its draws have among those of all processes."""
        return side._replace(row_number=row_number, position=position)

    def phases(
        self, process: Process, side: Side, learnt: Learnt, batch: Batch, how: Sampling,
        all_reduce: AllReduce | None = None,
    ) -> tuple[Statistics, Statistics]:  # fmt: skip
        """Both phases of a batch of rows, whose other answers may be with other processes."""
        half, chains = learnt.half(process), learnt.chains[process.number]
        side = side._replace(thresholds=thresholds.table(half.cutpoints, process.n_levels))
        clamped = gibbs.clamped_phase(
            side, chains.clamped, batch, half.factors, how.memory, all_reduce
        )
        if how.is_contrastive:
            rows = slice(batch.start, batch.stop)
            chains.free[rows] = chains.clamped[rows]
        return clamped, gibbs.free_phase(side, chains.free, batch, all_reduce)

    def ascend(
        self, process: Process, learnt: Learnt, clamped: Statistics, free: Statistics, rate: float
    ) -> None:
        """A step of AdaGrad."""
        half, chains = learnt.half(process), learnt.chains[process.number]
        priors = learnt.priors[process.number]
        ascend(half, chains.sums, clamped, free, process.n_answers, priors, rate)

    def priors(self, process: Process, learnt: Learnt, total: Total = all_here) -> Priors:
        """Priors that fit the parameters, of which others may have the rest."""
        priors, half = learnt.priors[process.number], learnt.half(process)
        return updated(priors, half, process.n_answers, process.n_levels, process.scales, total)

    def extremes(self, half: Half) -> Half:
        """The same."""
        return half

    def log_probability(self, model: MatrixModel, pairs: Pairs) -> np.ndarray:
        """(cells,) log probability of the true levels."""
        return cells.log_probability([model], pairs)


class Cuda:
    """A GPU: tensors, and Triton kernels. Nothing waits for it inside a pass."""

    group = None

    def __init__(self, device: str) -> None:
        from ordinalrbm.engine.gpu.device import torch_device

        self.device = torch_device(device)

    def processes(self, observations: Observations, n_processes: int) -> list[Process]:
        """Both views of each process on the device."""
        from ordinalrbm.engine.gpu.gibbs import side_on
        from ordinalrbm.engine.gpu.half_sweep import tensor

        found = []
        for number, view in enumerate(views(observations, n_processes)):
            process = process_of(number, view, side_on(answers_only(view), self.device))
            n_answers = tensor(process.n_answers, self.device).double()
            n_levels = tensor(process.n_levels, self.device)
            found.append(process._replace(n_answers=n_answers, n_levels=n_levels))
        return found

    def to_device(self, learnt: Learnt) -> Learnt:
        """Copies as tensors; what has a number per factor is in tables."""
        from ordinalrbm.engine.gpu.gibbs import factors_on
        from ordinalrbm.engine.gpu.half_sweep import tensor
        from ordinalrbm.matrix.gpu.predict import half_on

        chains = [
            Chains(
                factors_on(part.clamped, self.device).clone(),
                factors_on(part.free, self.device).clone(),
                half_on(part.sums, self.device),
            )
            for part in learnt.chains
        ]
        priors = [
            prior._replace(common_cutpoints=tensor(prior.common_cutpoints, self.device))
            for prior in learnt.priors
        ]
        return Learnt(self.model_to_device(learnt.model), chains, priors)

    def to_host(self, learnt: Learnt) -> Learnt:
        """All of it as arrays."""
        from ordinalrbm.matrix.gpu.predict import half_from

        chains = []
        for clamped, free, sums in learnt.chains:
            n_factors = sums.factor_bias.numel()
            clamped, free = (
                part[:, :n_factors].contiguous().cpu().numpy() for part in (clamped, free)
            )
            chains.append(Chains(clamped, free, half_from(sums)))
        priors = [
            prior._replace(common_cutpoints=prior.common_cutpoints.cpu().numpy())
            for prior in learnt.priors
        ]
        return Learnt(self.model_to_host(learnt.model), chains, priors)

    def state(
        self, named: Named, learnt: Learnt, kept: list[MatrixModel]
    ) -> Mapping[str, np.ndarray]:
        """Copies on the device now, on the host when somebody looks."""
        chains = [
            Chains(part.clamped.clone(), part.free.clone(), _cloned(part.sums))
            for part in learnt.chains
        ]
        # Kept models and priors are replaced by others, never changed.
        now = Learnt(self.clone(learnt.model), chains, list(learnt.priors))
        return LazyState(
            lambda: named(self.to_host(now), [self.model_to_host(model) for model in kept])
        )

    def model_to_device(self, model: MatrixModel) -> MatrixModel:
        """A copy as tensors."""
        from ordinalrbm.matrix.gpu.predict import model_on

        return model_on(model, self.device)

    def model_to_host(self, model: MatrixModel) -> MatrixModel:
        """A model as arrays."""
        from ordinalrbm.matrix.gpu.predict import model_from

        return model_from(model)

    def clone(self, model: MatrixModel) -> MatrixModel:
        """A copy on the device."""
        by_rows, by_columns = (_cloned(half) for half in model[:2])
        return model._replace(by_rows=by_rows, by_columns=by_columns)

    def side(self, process: Process, model: MatrixModel) -> Any:
        """Offsets and the rows' widths are computed there; thresholds come with each batch."""
        from ordinalrbm.engine.gpu.gibbs import offsets
        from ordinalrbm.engine.gpu.thresholds import gaps

        own, other, n_levels = model.by_rows, model.by_columns, None
        if process.number:
            own, other, n_levels = other, own, model.n_levels
        return process.answers.with_parameters(
            offset=offsets(process.answers, other.weights, other.bias, other.factors),
            row_gaps=gaps(other.cutpoints, n_levels),
            weights=own.weights,
            bias=own.bias,
            factor_bias=own.factor_bias,
        )

    def numbered(self, side: Any, row_number: np.ndarray, position: np.ndarray) -> Any:
        """The side with the numbers that its draws have among those of all processes."""
        from ordinalrbm.engine.gpu.half_sweep import tensor

        return side.with_parameters(
            row_number=tensor(row_number, self.device), position=tensor(position, self.device)
        )

    def phases(
        self, process: Process, side: Any, learnt: Learnt, batch: Batch, how: Sampling,
        all_reduce: AllReduce | None = None,
    ) -> tuple[Statistics, Statistics]:  # fmt: skip
        """Both phases of a batch of rows, whose other answers may be with other processes."""
        from ordinalrbm.engine.gpu.gibbs import both_phases
        from ordinalrbm.engine.gpu.thresholds import table

        half, chains = learnt.half(process), learnt.chains[process.number]
        side = side.with_parameters(thresholds=table(half.cutpoints, process.n_levels))
        return both_phases(
            side, chains.clamped, chains.free, batch, half.factors, how.memory,
            how.is_contrastive, all_reduce,
        )  # fmt: skip

    def ascend(
        self, process: Process, learnt: Learnt, clamped: Statistics, free: Statistics, rate: float
    ) -> None:
        """A step of AdaGrad."""
        from ordinalrbm.engine.gpu.ascent import ascend

        half, chains = learnt.half(process), learnt.chains[process.number]
        priors = learnt.priors[process.number]
        ascend(half, chains.sums, clamped, free, process.n_answers, priors, rate)

    def priors(self, process: Process, learnt: Learnt, total: Total = all_here) -> Priors:
        """Priors that fit the parameters; the host waits for a few numbers."""
        from ordinalrbm.matrix.gpu.predict import without_padding

        priors, half = learnt.priors[process.number], without_padding(learnt.half(process))
        return updated(priors, half, process.n_answers, process.n_levels, process.scales, total)

    def extremes(self, half: Half) -> Half:
        """Two numbers of each part that has any, in one transfer."""
        import torch

        found = [torch.stack(torch.aminmax(part)).double() for part in half if part.numel()]
        pairs = iter(torch.stack(found).cpu().numpy())
        nothing = np.zeros(0)
        return Half(*(next(pairs) if part.numel() else nothing for part in half))

    def log_probability(self, model: MatrixModel, pairs: Pairs) -> np.ndarray:
        """(cells,) log probability of the true levels, computed there."""
        from ordinalrbm.matrix.gpu.predict import log_probability

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


class Distributed:
    """The processes of a torch process group, each with some of the rows and with all columns.

    Every rank has a part of every batch of rows, and of the answers of every column. Chains are
    those of one process, because draws are named by numbers that all ranks agree in.

    Parameters
    ----------
    group : the processes
    own : the machine that each of them works with
    batch_size : rows per update
    """

    def __init__(self, group: process_group.Group, own: Cpu | Cuda, batch_size: int) -> None:
        self.group, self.own, self.batch_size = group, own, batch_size
        self.rows, self.order = (np.zeros(0, dtype=np.int32) for _ in range(2))
        self.numbers: list[tuple[np.ndarray, np.ndarray]] = []

    def processes(self, observations: Observations, n_processes: int) -> list[Process]:
        """Of all ratings, those of this rank's rows; what is counted of columns is that of all."""
        refuse_different_ratings(self.group, observations)
        shares = [
            rows_of_rank(observations.n_rows, self.batch_size, rank, self.group.size)
            for rank in range(self.group.size)
        ]
        self.rows, self.order = shares[self.group.rank], np.concatenate(shares)
        mine = observations.take_rows(self.rows)
        position = positions_by_columns(observations.row_start, observations.column, self.rows)
        self.numbers = [(self.rows, _NO_NUMBERS), (_NO_NUMBERS, position[mine.column_view.entry])]
        found = self.own.processes(mine, n_processes)
        found[0] = found[0]._replace(n_rows=observations.n_rows)
        self.group.all_reduce(found[0].n_answers)
        # Those of a rank without rows have no scale, and every rank must ask for the same sums.
        longest = observations.n_levels.max(initial=1)
        return [*found[:1], *(each._replace(scales=np.array([longest])) for each in found[1:])]

    def to_device(self, learnt: Learnt) -> Learnt:
        """The rows of this rank, and all columns."""
        return self.own.to_device(_of_rows(learnt, self._mine))

    def to_host(self, learnt: Learnt) -> Learnt:
        """The rows of all ranks; all must ask for them."""
        return _of_rows(self.own.to_host(learnt), self._whole)

    def state(
        self, named: Named, learnt: Learnt, kept: list[MatrixModel]
    ) -> Mapping[str, np.ndarray]:
        """Of all rows, at once: later, not all ranks may ask for it."""
        return named(self.to_host(learnt), [self.model_to_host(model) for model in kept])

    def model_to_device(self, model: MatrixModel) -> MatrixModel:
        """A model with the rows of this rank."""
        return self.own.model_to_device(_rows_of_model(model, self._mine))

    def model_to_host(self, model: MatrixModel) -> MatrixModel:
        """A model with the rows of all ranks; all must ask for them."""
        return _rows_of_model(self.own.model_to_host(model), self._whole)

    def clone(self, model: MatrixModel) -> MatrixModel:
        """A copy of what is here."""
        return self.own.clone(model)

    def _mine(self, part: np.ndarray) -> np.ndarray:
        return part[self.rows]

    def _whole(self, part: np.ndarray) -> np.ndarray:
        found = np.empty((self.order.size, *part.shape[1:]), dtype=part.dtype)
        if found.size:
            found[self.order] = self.group.all_gather(part)
        return found

    def side(self, process: Process, model: MatrixModel) -> Any:
        """What kernels see of the ratings that are here."""
        return self.own.numbered(self.own.side(process, model), *self.numbers[process.number])

    def phases(
        self, process: Process, side: Any, learnt: Learnt, batch: Batch, how: Sampling
    ) -> tuple[Statistics, Statistics]:
        """Both phases of a batch; of the rows' process, summed over all ranks.

        The columns' process has statistics of rows, which are where these are.
        """
        if process.number:
            return self.own.phases(process, side, learnt, batch, how, self.group.all_reduce)
        start, stop = np.searchsorted(self.rows, (batch.start, batch.stop)).tolist()
        batch = batch._replace(start=start, stop=stop)
        found = self.own.phases(process, side, learnt, batch, how)
        return difference_over_ranks(self.group, *found)

    def ascend(
        self, process: Process, learnt: Learnt, clamped: Statistics, free: Statistics, rate: float
    ) -> None:
        """The same step on all ranks, or that of the rows that are here."""
        self.own.ascend(process, learnt, clamped, free, rate)

    def priors(self, process: Process, learnt: Learnt) -> Priors:
        """Priors that fit the parameters; all ranks then have the columns of rank 0.

        On machines of one kind they have these anyway. On others they may be rounded differently,
        and would drift apart.
        """
        half, chains = learnt.half(process), learnt.chains[process.number]
        if process.number == 0:
            moved = [*half[:4], *chains.sums[:4]]
        else:
            moved = [half.factors, half.factor_bias, chains.sums.factor_bias, *chains[:2]]
        for kind in sorted({str(part.dtype) for part in moved}):  # the same order on all ranks
            self.group.broadcast(*(part for part in moved if str(part.dtype) == kind))
        return self.own.priors(process, learnt, self._total if process.number else all_here)

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
        bounds = [
            (part.min(initial=0.0), part.max(initial=0.0)) for part in self.own.extremes(half)
        ]
        found = self.group.all_gather(np.array([bounds]))
        return Half(*np.moveaxis(found, 1, 0))

    def log_probability(self, model: MatrixModel, pairs: Pairs) -> np.ndarray:
        """(cells,) log probability of the true levels, each by the rank that has the row.

        Strangers are like the average of all, whom rank 0 brings together to judge theirs.
        """
        found = np.zeros(pairs.row.size)
        strange = (pairs.row < 0) | (pairs.column < 0)
        if strange.any():
            whole = self.model_to_host(model)
            if self.group.rank == 0:
                found[strange] = Cpu().log_probability(whole, some_pairs(pairs, strange))
        place = np.full(self.order.size + 1, -1)  # the last is that of strangers
        place[self.rows] = np.arange(self.rows.size)
        here = ~strange & (place[pairs.row] >= 0)
        if here.any():
            mine = some_pairs(pairs, here)
            mine = mine._replace(row=place[mine.row])
            found[here] = self.own.log_probability(model, mine)
        self.group.all_reduce(found)
        return found


_NO_NUMBERS = np.zeros(0, dtype=np.int32)


def _of_rows(learnt: Learnt, change: Callable[[Any], Any]) -> Learnt:
    """Every array changed that has a line per row."""
    (by_rows, *by_columns), (prior, *column_priors) = learnt.chains, learnt.priors
    by_rows = by_rows._replace(clamped=change(by_rows.clamped), free=change(by_rows.free))
    return Learnt(
        _rows_of_model(learnt.model, change),
        [
            by_rows,
            *(each._replace(sums=_columns_of_half(each.sums, change)) for each in by_columns),
        ],
        [
            prior,
            *(
                each._replace(common_cutpoints=change(each.common_cutpoints))
                for each in column_priors
            ),
        ],
    )


def _rows_of_model(model: MatrixModel, change: Callable[[Any], Any]) -> MatrixModel:
    return model._replace(
        by_rows=model.by_rows._replace(factors=change(model.by_rows.factors)),
        by_columns=_columns_of_half(model.by_columns, change),
    )


def _columns_of_half(half: Half, change: Callable[[Any], Any]) -> Half:
    """What belongs to the columns changed, which in the columns' process are the rows."""
    return half._replace(
        weights=change(half.weights), bias=change(half.bias), cutpoints=change(half.cutpoints)
    )


def backend_for(device: str, batch_size: int) -> Backend:
    """The machine that ``device`` names: "cpu", or "cuda" with the number of a GPU behind it.

    In a process group of torch with others, each of its processes has such a machine, and all
    learn together. "cuda" is then the GPU that torch has been told to use.
    """
    group = process_group.current()
    if group is not None and device == "cuda":
        device = group.own_gpu()
    own = Cpu() if device == "cpu" else Cuda(device)
    return own if group is None else Distributed(group, own, batch_size)

"""Learning the matrix model: one pass over the rows, one over the columns, and again.

Structured mean-field: while the rows' process learns, the columns' factors are held at their
expected values, which only shift the mean of each answer; then the other way round. Both passes
are :func:`_pass`, called with the roles swapped.
"""

import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.side import Batch
from ordinalrbm.engine.thresholds import FirstThresholds
from ordinalrbm.matrix.backends import single_backend
from ordinalrbm.matrix.binary_state import BinaryState, Chains, Priors, Process, Sampling, Steps
from ordinalrbm.matrix.calibration import calibrated
from ordinalrbm.matrix.cpu import Cpu
from ordinalrbm.matrix.model import Half, MatrixModel, Precisions, start
from ordinalrbm.matrix.prepare import Fitted
from ordinalrbm.storage.reader import wrong
from ordinalrbm.training import state as saving
from ordinalrbm.training.checkpoint import NO_CHECKPOINTS, Checkpoints
from ordinalrbm.training.loop import learn
from ordinalrbm.training.schedule import (
    MOST_OFTEN,
    RateSchedule,
    Schedule,
    lower_of,
    marginal_of_ratings,
    refuse_divergence,
    refuse_nonsense,
)
from ordinalrbm.vector.chains import FreePhase
from ordinalrbm.vector.learner import FirstBiases

Solver = Literal["adagrad", "sgd"]
BiasPriors = Literal["learnt", "none"]
# AdaGrad's sums begin here: an answer or two must not take a full step.
_FIRST_SUM = 1.0
# So many of the ratings that are learnt from tell whether learning diverges.
_WATCHED = 10_000
# Share of the epochs in which the learning rate falls to zero.
_FALL = 0.5
# So many updates of the rows are enough; never fewer epochs than the first number, nor more than
# the second, if none is given.
_UPDATES, _FEWEST_EPOCHS, _MOST_EPOCHS = 300, 15, 60


@dataclass(frozen=True)
class BinarySettings:
    """Settings of the learner; see :class:`ordinalrbm.MatrixCumulativeRBM` for each."""

    n_row_factors: int
    n_column_factors: int
    n_epochs: int | None
    batch_size: int
    learning_rate: float
    gibbs_steps: int
    free_phase: FreePhase
    memory: float
    weight_decay: float | None
    patience: int
    calibrate: bool
    seed: int
    device: str
    verbose: bool
    solver: Solver = "adagrad"
    centred: bool = True
    priors: BiasPriors = "learnt"
    thresholds: FirstThresholds = "marginal"
    schedule: RateSchedule = "cosine"
    biases: FirstBiases = "balanced"


class Record(NamedTuple):
    """One line of the learning history; log probabilities are means per rating."""

    epoch: int
    pseudo_likelihood: float
    validation: float
    learning_rate: float
    row_decay: float
    column_decay: float
    seconds: float


def fit(
    observations: Observations,
    validation: Cells | None,
    settings: BinarySettings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Fitted:
    model = start(
        observations,
        settings.n_row_factors,
        settings.n_column_factors,
        settings.seed,
        at_marginals=settings.thresholds == "marginal",
        balanced=settings.biases == "balanced",
    )
    learner = _Learner(model, observations, validation, settings)
    schedule, writer = learner.schedule, checkpoints.of("binary")
    interrupted = learn(learner, writer, schedule.n_epochs, verbose=settings.verbose, watched="validation")
    found = [learner.precisions(process) for process in learner.processes]
    of_columns, of_rows = [*found, None][:2]
    precisions = (of_columns, of_rows)
    return Fitted([learner.model()], schedule.best_epoch, learner.history, interrupted, precisions)


def _n_epochs(n_rows: int, settings: BinarySettings) -> int:
    if settings.n_epochs is not None:
        return settings.n_epochs
    n_batches = -(-n_rows // settings.batch_size)
    return min(max(_FEWEST_EPOCHS, -(-_UPDATES // n_batches)), _MOST_EPOCHS)


class _Learner:
    def __init__(
        self,
        model: MatrixModel,
        observations: Observations,
        validation: Cells | None,
        settings: BinarySettings,
    ) -> None:
        self.observations, self.validation, self.settings = observations, validation, settings
        self.watched = monitoring_sample(observations)
        self.marginal = marginal_of_ratings(observations, self.watched.level)
        self.is_contrastive = settings.free_phase == "contrastive"
        self.backend = single_backend(settings.device)
        halves = [model.by_rows, model.by_columns][: 2 if settings.n_column_factors else 1]
        self.processes = self.backend.processes(observations, len(halves))
        self.binary = self.backend.to_device(_begun(model, halves, observations, settings))
        if settings.thresholds == "even":
            first = self.backend.log_probability(self.binary.model, self.watched)
            self.marginal = lower_of(self.marginal, first)
        self.history: list[Record] = []
        self.best: MatrixModel | None = None
        self.schedule = Schedule(
            settings.learning_rate,
            n_epochs=_n_epochs(observations.n_rows, settings),
            patience=settings.patience,
            fall=_FALL if settings.schedule == "cosine" else 0.0,
        )
        self.started = time.perf_counter()

    @property
    def has_model(self) -> bool:
        return self.best is not None

    def goes_on(self) -> bool:
        return self.schedule.rate() > 0.0

    def epoch(self) -> None:
        epoch, rate = len(self.history) + 1, self.schedule.rate()
        for process in self.processes:
            _pass(self.backend, process, self.binary, epoch, rate, self.settings)
            half = self.backend.extremes(self.binary.half(process))
            refuse_divergence(half.weights, half, half.cutpoints)
            self.binary.priors[process.number] = self._priors(process)
        model = self.binary.model
        refuse_nonsense(self.backend.log_probability(model, self.watched), self.marginal)
        seen = float(self.backend.log_pseudo_likelihood(model, self.watched).mean())
        value = np.nan
        if self.validation is not None:
            value = self.backend.mean_log_probability(model, self.validation)
        decay = [priors.weights for priors in self.binary.priors]
        seconds = time.perf_counter() - self.started
        self.history.append(Record(epoch, seen, value, rate, decay[0], decay[-1], seconds))
        if self.schedule.after(value):
            self.best = self.backend.clone(model)

    def _priors(self, process: Process) -> Priors:
        known, found = self.binary.priors[process.number], self.backend.priors(process, self.binary)
        if self.settings.weight_decay is not None:
            found = found._replace(weights=known.weights)
        if self.settings.priors == "none":
            found = found._replace(bias=known.bias, cutpoints=known.cutpoints)
        return found

    def precisions(self, process: Process) -> Precisions:
        """How widely parameters are spread, also those that were learnt without a prior."""
        known, found = self.binary.priors[process.number], self.backend.priors(process, self.binary)
        return Precisions(*(one or other for one, other in zip(known[:3], found[:3], strict=True)))

    def state(self) -> saving.State:
        """In copies, as the loop wants it.

        It is asked for after every epoch, and looked at when a checkpoint is due or steps were too
        large: what is on a device is copied there now, and comes to the host then.
        """
        # The best model is replaced by others, never changed.
        now, best = self.backend.clone(self.binary), self.best
        others = {
            **saving.flatten("n_slowed", self.schedule.n_slowed),
            **saving.flatten_history(self.history),
        }

        def named() -> dict[str, np.ndarray]:
            binary = self.backend.to_host(now)
            state = {
                **others,
                **saving.flatten("model", binary.model),
                **saving.flatten("priors", binary.priors),
            }
            if best is not None:
                state |= saving.flatten("best", self.backend.to_host(best))
            for number, chains in enumerate(binary.chains):
                state |= saving.flatten(f"sums.{number}", chains.sums)
                state[f"clamped.{number}"] = saving.packed(chains.clamped)
                if not self.is_contrastive:  # else they start again at every update
                    state[f"free.{number}"] = saving.packed(chains.free)
            return state

        return saving.LazyState(named)

    def restore(self, state: saving.State) -> None:
        unwatched = ("validation",) if self.validation is None else ()
        history = saving.unflatten_history(state, Record, unwatched=unwatched)
        values = (line.validation for line in history)
        self.schedule.replay(values, saving.counter("n_slowed", state, MOST_OFTEN))
        there, read = self.backend.to_host(self.binary), MatrixModel.from_checkpoint
        best = saving.unflatten_model("best", state, there.model, read) if history else None
        binary = BinaryState(
            saving.unflatten_model("model", state, there.model, read),
            [self._unflatten_chains(k, state, chains) for k, chains in enumerate(there.chains)],
            [_unflatten_priors(f"priors.{k}", state, prior) for k, prior in enumerate(there.priors)],
        )
        self.binary = self.backend.to_device(binary)
        self.best = None if best is None else self.backend.to_device(best)
        self.history, self.started = history, saving.virtual_start_time(history)

    def _unflatten_chains(self, number: int, state: saving.State, like: Chains) -> Chains:
        sums = saving.unflatten(f"sums.{number}", state, like.sums, _FIRST_SUM, np.inf)
        clamped, free = like.clamped.copy(), like.free.copy()
        saving.unpack_into(clamped, f"clamped.{number}", state)
        if not self.is_contrastive:
            saving.unpack_into(free, f"free.{number}", state)
        return Chains(clamped, free, sums)

    def model(self) -> MatrixModel:
        assert self.best is not None, "an epoch has ended"
        model = self.backend.to_host(self.best)
        if self.validation is None or not self.settings.calibrate:
            return model
        return calibrated(model, self.observations, self.validation)


def _unflatten_priors(name: str, state: saving.State, like: Priors) -> Priors:
    found = saving.unflatten(name, state, like)
    if min(found.weights, found.bias, found.cutpoints) < 0.0:
        raise wrong(name, "has precisions below zero")
    return found


def monitoring_sample(observations: Observations) -> Cells:
    """Ratings that tell whether learning diverges: the first, in random order by now."""
    n_rows = int(np.searchsorted(observations.row_start, _WATCHED)) or 1
    return observations.take_rows(np.arange(min(n_rows, observations.n_rows))).cells()


def _begun(
    model: MatrixModel, halves: list[Half], observations: Observations, settings: BinarySettings
) -> BinaryState:
    """Where learning starts: random chains, and sums and priors that know nothing."""
    rng = np.random.default_rng(settings.seed)
    are_learnt = settings.priors == "learnt"
    chains, priors = [], []
    for half, counts in zip(halves, (observations.column_counts, observations.row_counts), strict=False):
        clamped = rng.integers(0, 2, size=half.factors.shape, dtype=np.uint8)
        chains.append(Chains(clamped, clamped.copy(), _first_sums(half, counts, settings)))
        priors.append(Priors.first(half, settings.weight_decay, are_learnt=are_learnt))
    return BinaryState(model, chains, priors)


def _first_sums(half: Half, n_answers: np.ndarray, settings: BinarySettings) -> Half:
    """Of squared gradients: what AdaGrad adds to, or what plain steps are divided by.

    Plain steps follow the mean gradient per answer: a column has about so many in a batch.
    """
    sums = Half(*(np.full_like(part, _FIRST_SUM) for part in half))
    sums = sums._replace(factors=np.zeros((0, 0), dtype=np.float32))
    if settings.solver == "adagrad":
        return sums
    in_batch = np.maximum(n_answers * min(1.0, settings.batch_size / half.factors.shape[0]), 1.0)
    for part in (sums.weights, sums.bias, sums.cutpoints):
        part[:] = (in_batch**2).reshape(-1, *(1,) * (part.ndim - 1))
    sums.factor_bias[:] = settings.batch_size**2
    return sums


def _pass(
    backend: Cpu, process: Process, state: BinaryState, epoch: int, rate: float, settings: BinarySettings
) -> None:
    """One process over all its rows, in batches of neighbours taken in random order."""
    starts = np.arange(0, process.n_rows, settings.batch_size)
    order = np.random.default_rng([settings.seed, process.number, epoch]).permutation(starts.size)
    # The two processes of an epoch draw from different counters.
    sweep = 2 * epoch + process.number
    how = Sampling(settings.free_phase == "contrastive", settings.memory)
    steps = Steps(rate, float(settings.solver == "adagrad"), 0.5 if settings.centred else 0.0)
    side = backend.side(process, state)
    for first in starts[order].tolist():
        stop = min(first + settings.batch_size, process.n_rows)
        batch = Batch(first, stop, settings.seed, sweep, settings.gibbs_steps)
        clamped, free = backend.phases(process, side, state, batch, how)
        backend.ascend(process, state, clamped, free, steps)

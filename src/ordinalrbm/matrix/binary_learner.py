"""Learning the matrix model: one pass over the rows, one over the columns, and again.

Structured mean-field: while the rows' process learns, the columns' factors are held at their
expected values, which only shift the mean of each answer; then the other way round. Both passes
are :func:`_pass`, called with the roles swapped.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.side import Batch
from ordinalrbm.matrix.binary_backends import (
    Backend,
    Chains,
    Learnt,
    Process,
    Sampling,
    backend_for,
)
from ordinalrbm.matrix.binary_priors import Priors, starting_priors
from ordinalrbm.matrix.calibration import calibrated
from ordinalrbm.matrix.fold_in import OfWeights
from ordinalrbm.matrix.model import Half, MatrixModel, start
from ordinalrbm.matrix.predict import Pairs
from ordinalrbm.storage.reader import Stored, wrong
from ordinalrbm.training.checkpoint import NO_CHECKPOINTS, Checkpoints
from ordinalrbm.training.divergence import refuse_divergence, refuse_nonsense, usual_rating
from ordinalrbm.training.loop import learn
from ordinalrbm.training.schedule import MOST_OFTEN, Schedule
from ordinalrbm.training.state import (
    State,
    began,
    counter,
    flatten,
    flatten_history,
    packed,
    unflatten,
    unflatten_history,
    unpack_into,
)
from ordinalrbm.vector.chains import FreePhase

Factors = Literal["continuous", "binary", "mixed"]

# AdaGrad's sums begin here: an answer or two must not take a full step.
_FIRST_SUM = 1.0
# So many of the ratings that are learnt from tell whether learning diverges.
_WATCHED = 10_000
# Share of the epochs in which the learning rate falls to zero.
_FALL = 0.5
# So many updates of the rows are enough; never fewer epochs than the first number, nor more than
# the second, if nobody says how many.
_UPDATES, _FEWEST_EPOCHS, _MOST_EPOCHS = 300, 15, 60


@dataclass(frozen=True)
class MatrixSettings:
    """What the learner may be told; see :class:`ordinalrbm.MatrixCumulativeRBM` for each."""

    n_row_factors: int
    n_column_factors: int
    factors: Factors
    n_epochs: int | None
    batch_size: int
    learning_rate: float
    gibbs_steps: int
    free_phase: FreePhase
    memory: float
    weight_decay: float | None
    patience: int
    n_averaged: int
    calibrate: bool
    seed: int
    device: str
    verbose: bool


class Record(NamedTuple):
    """One line of the learning history; log probabilities are means per rating."""

    epoch: int
    validation: float
    learning_rate: float
    row_decay: float
    column_decay: float
    seconds: float


PriorsOfHalves = tuple[OfWeights | None, OfWeights | None]


class FittedMatrix(NamedTuple):
    """Models to average over (the best epoch's, or several of the last), and how learning went.

    ``priors`` are, for each model, those of both halves, None for one that has nothing to learn.
    """

    models: list[MatrixModel]
    best_epoch: int
    history: Sequence[NamedTuple]
    interrupted: bool
    priors: list[PriorsOfHalves]

    @property
    def history_columns(self) -> list[str]:
        """Names of what the history holds."""
        return list(self.history[0]._fields if self.history else Record._fields)


def fit(
    observations: Observations,
    validation: Pairs | None,
    settings: MatrixSettings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> FittedMatrix:
    """Learn a model; rows and columns must already be in random order."""
    model = start(observations, settings.n_row_factors, settings.n_column_factors, settings.seed)
    learner = _Learner(model, observations, validation, settings)
    writer = checkpoints.of("binary")
    n_epochs = _n_epochs(observations.n_rows, settings)
    interrupted = learn(learner, writer, n_epochs, verbose=settings.verbose, watched="validation")
    found = [
        OfWeights(prior.weights, prior.bias, prior.cutpoints) for prior in learner.learnt.priors
    ]
    by_rows, by_columns = [*found, None][:2]
    models = evenly_shared(learner.models())
    priors = [(by_rows, by_columns)] * len(models)
    best_epoch = learner.schedule.best_epoch
    return FittedMatrix(models, best_epoch, learner.history, interrupted, priors)


def evenly_shared(models: Sequence[MatrixModel]) -> list[MatrixModel]:
    """The models, each with the same part in their predictions."""
    return [model._replace(share=1.0 / len(models)) for model in models]


def _n_epochs(n_rows: int, settings: MatrixSettings) -> int:
    if settings.n_epochs is not None:
        return settings.n_epochs
    n_batches = -(-n_rows // settings.batch_size)
    return min(max(_FEWEST_EPOCHS, -(-_UPDATES // n_batches)), _MOST_EPOCHS)


class _Learner:
    """State of learning: all that moves, where it is, and what was kept of it."""

    def __init__(
        self,
        model: MatrixModel,
        observations: Observations,
        validation: Pairs | None,
        settings: MatrixSettings,
    ) -> None:
        self.observations, self.validation, self.settings = observations, validation, settings
        self.watched = some_of(observations)
        self.usual = usual_rating(observations, self.watched.level)
        self.backend = backend_for(settings.device, settings.batch_size)
        halves = [model.by_rows, model.by_columns][: 2 if settings.n_column_factors else 1]
        self.processes = self.backend.processes(observations, len(halves))
        self.learnt = self.backend.to_device(_begun(model, halves, settings))
        self.history: list[Record] = []
        self.kept: list[MatrixModel] = []
        self.schedule = Schedule(
            settings.learning_rate,
            n_epochs=_n_epochs(observations.n_rows, settings),
            patience=settings.patience,
            fall=_FALL,
        )
        self.started = time.perf_counter()

    @property
    def has_model(self) -> bool:
        """Whether an epoch has ended, and its model can be had without others' help."""
        return bool(self.kept) and self.backend.group is None

    def goes_on(self) -> bool:
        """Whether there is another epoch to learn."""
        return self.schedule.rate() > 0.0

    def epoch(self) -> None:
        """Both passes over the data, then a look at the validation ratings."""
        epoch, rate = len(self.history) + 1, self.schedule.rate()
        for process in self.processes:
            _pass(self.backend, process, self.learnt, epoch, rate, self.settings)
            half = self.backend.extremes(self.learnt.half(process))
            refuse_divergence(half.weights, half, half.cutpoints)
            self.learnt.priors[process.number] = self._priors(process)
        model = self.learnt.model
        refuse_nonsense(self.backend.log_probability(model, self.watched), self.usual)
        value = np.nan
        if self.validation is not None:
            value = float(self.backend.log_probability(model, self.validation).mean())
        decay = [priors.weights for priors in self.learnt.priors]
        seconds = time.perf_counter() - self.started
        self.history.append(Record(epoch, value, rate, decay[0], decay[-1], seconds))
        if self.schedule.after(value) or self.settings.n_averaged > 1:
            self.kept = [*self.kept, self.backend.clone(model)][-self.settings.n_averaged :]

    def _priors(self, process: Process) -> Priors:
        found = self.backend.priors(process, self.learnt)
        if self.settings.weight_decay is None:
            return found
        return found._replace(weights=self.learnt.priors[process.number].weights)

    def state(self) -> State:
        """All that is needed to go on from here."""
        told = {**flatten("n_slowed", self.schedule.n_slowed), **flatten_history(self.history)}
        return self.backend.state(
            lambda learnt, kept: {**self._named(learnt, kept), **told}, self.learnt, self.kept
        )

    def _named(self, learnt: Learnt, kept: list[MatrixModel]) -> dict[str, np.ndarray]:
        """All that moves, and what was kept of it, on the host: copies by name."""
        state = {
            **flatten("model", learnt.model),
            **flatten("priors", learnt.priors),
            **flatten("kept", kept),
        }
        for number, chains in enumerate(learnt.chains):
            state |= flatten(f"sums.{number}", chains.sums)
            state[f"clamped.{number}"] = packed(chains.clamped)
            if self.settings.free_phase != "contrastive":  # else they start anew at every update
                state[f"free.{number}"] = packed(chains.free)
        return state

    def restore(self, state: State) -> None:
        """Go on from there."""
        unwatched = ("validation",) if self.validation is None else ()
        history = unflatten_history(state, Record, unwatched=unwatched)
        values = (line.validation for line in history)
        self.schedule.replay(values, counter("n_slowed", state, MOST_OFTEN))
        n_kept = min(len(history), self.settings.n_averaged)
        there = self.backend.to_host(self.learnt)
        kept = [unflatten_model(f"kept.{k}", state, there.model) for k in range(n_kept)]
        learnt = Learnt(
            unflatten_model("model", state, there.model),
            [self._unflatten_chains(k, state, chains) for k, chains in enumerate(there.chains)],
            [
                _unflatten_priors(f"priors.{k}", state, prior)
                for k, prior in enumerate(there.priors)
            ],
        )
        self.learnt = self.backend.to_device(learnt)
        self.kept = [self.backend.model_to_device(model) for model in kept]
        self.history, self.started = history, began(history)

    def _unflatten_chains(self, number: int, state: State, like: Chains) -> Chains:
        sums = unflatten(f"sums.{number}", state, like.sums, _FIRST_SUM, np.inf)
        clamped, free = like.clamped.copy(), like.free.copy()
        unpack_into(clamped, f"clamped.{number}", state)
        if self.settings.free_phase != "contrastive":
            unpack_into(free, f"free.{number}", state)
        return Chains(clamped, free, sums)

    def _kept(self) -> list[MatrixModel]:
        return [self.backend.model_to_host(model) for model in self.kept]

    def models(self) -> list[MatrixModel]:
        """The models to average over, with the gains that suit the validation ratings."""
        if self.validation is None or not self.settings.calibrate:
            return self._kept()
        return calibrated(self._kept(), self.observations, self.validation)


def unflatten_model(name: str, state: State, like: MatrixModel) -> MatrixModel:
    """A model of a learner's state, which must be such as a model file may hold."""
    MatrixModel.from_stored(Stored(state, {}).under(f"{name}."), like.n_rows, like.n_levels)
    return unflatten(name, state, like)


def _unflatten_priors(name: str, state: State, like: Priors) -> Priors:
    found = unflatten(name, state, like)
    if min(found.weights, found.bias, found.cutpoints) < 0.0:
        raise wrong(name, "has precisions below zero")
    return found


def some_of(observations: Observations) -> Pairs:
    """Ratings that tell whether learning diverges: the first, in random order by now."""
    n_rows = int(np.searchsorted(observations.row_start, _WATCHED)) or 1
    some = observations.take_rows(np.arange(min(n_rows, observations.n_rows)))
    row = np.repeat(np.arange(some.n_rows), np.diff(some.row_start))
    return Pairs(row, some.column, some.level)


def _begun(model: MatrixModel, halves: list[Half], settings: MatrixSettings) -> Learnt:
    """Where learning starts: random chains, and sums and priors that know nothing."""
    rng = np.random.default_rng(settings.seed)
    chains = []
    for half in halves:
        clamped = rng.integers(0, 2, size=half.factors.shape, dtype=np.uint8)
        sums = Half(*(np.full_like(part, _FIRST_SUM) for part in half[:5]))
        sums = sums._replace(factors=np.zeros((0, 0), dtype=np.float32))
        chains.append(Chains(clamped, clamped.copy(), sums))
    priors = [starting_priors(half, settings.weight_decay) for half in halves]
    return Learnt(model, chains, priors)


def _pass(
    backend: Backend, process: Process, learnt: Learnt, epoch: int, rate: float,
    settings: MatrixSettings,
) -> None:  # fmt: skip
    """One process over all its rows, in batches of neighbours taken in random order."""
    starts = np.arange(0, process.n_rows, settings.batch_size)
    order = np.random.default_rng([settings.seed, process.number, epoch]).permutation(starts.size)
    # The two processes of an epoch draw from different counters.
    sweep = 2 * epoch + process.number
    how = Sampling(settings.free_phase == "contrastive", settings.memory)
    side = backend.side(process, learnt.model)
    for first in starts[order].tolist():
        stop = min(first + settings.batch_size, process.n_rows)
        batch = Batch(first, stop, settings.seed, sweep, settings.gibbs_steps)
        clamped, free = backend.phases(process, side, learnt, batch, how)
        backend.ascend(process, learnt, clamped, free, rate)

"""Learning the matrix model: one pass over the rows, one over the columns, and again.

Structured mean-field: while the rows' process learns, the columns' factors are held at their
expected values, which only shift the mean of each answer; then the other way round. Both passes
are :func:`_pass`, called with the roles swapped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import prange

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import cpu
from ordinalrbm.engine.compiled import compiled, inlined
from ordinalrbm.engine.side import Batch, Side, Statistics
from ordinalrbm.infer.fold_in import OfWeights
from ordinalrbm.infer.pairs import Pairs, log_probability
from ordinalrbm.learn.calibrate import calibrated
from ordinalrbm.learn.chains import FreePhase
from ordinalrbm.learn.checkpoint import (
    NO_CHECKPOINTS,
    Checkpoints,
    State,
    began,
    counter,
    flat,
    flat_history,
    packed,
    taken,
    taken_history,
    unpack_into,
)
from ordinalrbm.learn.loop import learn, refuse_divergence, refuse_nonsense
from ordinalrbm.learn.monitor import usual_rating
from ordinalrbm.learn.priors import Priors, starting_priors, updated
from ordinalrbm.learn.schedule import MOST_OFTEN, Schedule
from ordinalrbm.model import thresholds
from ordinalrbm.model.matrix import Half, MatrixModel, column_side, row_side, start
from ordinalrbm.stored import Stored, wrong

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


class _Process(NamedTuple):
    """One of the two processes: its view of the answers, its chains, its sums of squares."""

    observations: Observations
    make_side: Callable[[MatrixModel, Observations, np.ndarray], Side]
    clamped: np.ndarray
    free: np.ndarray
    sums: Half
    n_answers: np.ndarray
    stream: int


def fit(
    observations: Observations,
    validation: Pairs | None,
    settings: MatrixSettings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> FittedMatrix:
    """Learn a model; rows and columns must already be in random order."""
    model = start(observations, settings.n_row_factors, settings.n_column_factors, settings.seed)
    learner = _Learner(model, observations, validation, settings)
    interrupted = learn(
        learner, checkpoints.of("binary"), _n_epochs(observations.n_rows, settings),
        verbose=settings.verbose, watched="validation",
    )  # fmt: skip
    found = [OfWeights(prior.weights, prior.bias, prior.steps) for prior in learner.priors]
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
    """State of learning: the model, both processes, the priors, and what was kept."""

    def __init__(
        self,
        model: MatrixModel,
        observations: Observations,
        validation: Pairs | None,
        settings: MatrixSettings,
    ) -> None:
        self.model, self.validation, self.settings = model, validation, settings
        self.watched = some_of(observations)
        self.usual = usual_rating(observations, self.watched.level)
        rng = np.random.default_rng(settings.seed)
        self.offset = np.empty(observations.n_entries, dtype=np.float32)
        self.processes = [_process(observations, model.by_rows, row_side, 0, rng)]
        if settings.n_column_factors:
            _ = observations.column_view  # needed anyway, and then shared by the transposed
            transposed = observations.transpose()
            self.processes.append(_process(transposed, model.by_columns, column_side, 1, rng))
        self.priors = [starting_priors(half, settings.weight_decay) for half in self._halves()]
        self.history: list[Record] = []
        self.kept: list[MatrixModel] = []
        self.schedule = Schedule(
            settings.learning_rate,
            n_epochs=_n_epochs(observations.n_rows, settings),
            patience=settings.patience,
            fall=_FALL,
        )
        self.started = time.perf_counter()

    def _halves(self) -> list[Half]:
        return [self.model.by_rows, self.model.by_columns][: len(self.processes)]

    @property
    def has_model(self) -> bool:
        """Whether an epoch has ended."""
        return bool(self.kept)

    def goes_on(self) -> bool:
        """Whether there is another epoch to learn."""
        return self.schedule.rate() > 0.0

    def epoch(self) -> None:
        """Both passes over the data, then a look at the validation ratings."""
        epoch, rate = len(self.history) + 1, self.schedule.rate()
        for number, (process, half) in enumerate(zip(self.processes, self._halves(), strict=True)):
            priors = self.priors[number]
            side = process.make_side(self.model, process.observations, self.offset)
            _pass(process, half, side, priors, epoch, rate, self.settings)
            refuse_divergence(half.weights, half, half.steps)
            found = updated(priors, half, process.n_answers, process.observations.n_levels)
            if self.settings.weight_decay is not None:
                found = found._replace(weights=priors.weights)
            self.priors[number] = found
        refuse_nonsense(log_probability([self.model], self.watched), self.usual)
        value = np.nan
        if self.validation is not None:
            value = float(log_probability([self.model], self.validation).mean())
        decay = [priors.weights for priors in self.priors]
        seconds = time.perf_counter() - self.started
        self.history.append(Record(epoch, value, rate, decay[0], decay[-1], seconds))
        if self.schedule.after(value) or self.settings.n_averaged > 1:
            self.kept = [*self.kept, self.model.copy()][-self.settings.n_averaged :]

    def state(self) -> State:
        """All that is needed to go on from here."""
        state = {
            **flat("model", self.model),
            **flat("priors", self.priors),
            **flat("kept", self.kept),
            **flat("n_slowed", self.schedule.n_slowed),
            **flat_history(self.history),
        }
        for number, process in enumerate(self.processes):
            state |= flat(f"sums.{number}", process.sums)
            state[f"clamped.{number}"] = packed(process.clamped)
            if self.settings.free_phase != "contrastive":  # else they start anew at every update
                state[f"free.{number}"] = packed(process.free)
        return state

    def restore(self, state: State) -> None:
        """Go on from there."""
        unwatched = ("validation",) if self.validation is None else ()
        history = taken_history(state, Record, unwatched=unwatched)
        values = (line.validation for line in history)
        self.schedule.relive(values, counter("n_slowed", state, MOST_OFTEN))
        n_kept = min(len(history), self.settings.n_averaged)
        self.model = taken_model("model", state, self.model)
        self.kept = [taken_model(f"kept.{k}", state, self.model) for k in range(n_kept)]
        self.priors = [
            _taken_priors(f"priors.{k}", state, prior) for k, prior in enumerate(self.priors)
        ]
        for number, process in enumerate(self.processes):
            sums = taken(f"sums.{number}", state, process.sums, _FIRST_SUM, np.inf)
            self.processes[number] = process._replace(sums=sums)
            unpack_into(process.clamped, f"clamped.{number}", state)
            if self.settings.free_phase != "contrastive":
                unpack_into(process.free, f"free.{number}", state)
        self.history, self.started = history, began(history)

    def models(self) -> list[MatrixModel]:
        """The models to average over, with the gains that suit the validation ratings."""
        if self.validation is None or not self.settings.calibrate:
            return self.kept
        return calibrated(self.kept, self.processes[0].observations, self.validation)


def taken_model(name: str, state: State, like: MatrixModel) -> MatrixModel:
    """A model of a learner's state, which must be such as a model file may hold."""
    MatrixModel.from_stored(Stored(state, {}).under(f"{name}."), like.n_rows, like.n_levels)
    return taken(name, state, like)


def _taken_priors(name: str, state: State, like: Priors) -> Priors:
    found = taken(name, state, like)
    if min(found.weights, found.bias, found.steps) < 0.0:
        raise wrong(name, "has precisions below zero")
    return found


def some_of(observations: Observations) -> Pairs:
    """Ratings that tell whether learning diverges: the first, in random order by now."""
    n_rows = int(np.searchsorted(observations.row_start, _WATCHED)) or 1
    some = observations.take_rows(np.arange(min(n_rows, observations.n_rows)))
    row = np.repeat(np.arange(some.n_rows), np.diff(some.row_start))
    return Pairs(row, some.column, some.level)


def _process(
    observations: Observations,
    half: Half,
    make_side: Callable[[MatrixModel, Observations, np.ndarray], Side],
    stream: int,
    rng: np.random.Generator,
) -> _Process:
    shape = (observations.n_rows, half.n_factors)
    clamped = rng.integers(0, 2, size=shape, dtype=np.uint8)
    sums = Half(*(np.full_like(part, _FIRST_SUM) for part in half[:5]))
    sums = sums._replace(factors=np.zeros((0, 0), dtype=np.float32))
    counts = observations.column_counts
    return _Process(observations, make_side, clamped, clamped.copy(), sums, counts, stream)


def _pass(
    process: _Process, half: Half, side: Side, priors: Priors, epoch: int, rate: float,
    settings: MatrixSettings,
) -> None:  # fmt: skip
    """One process over all its rows, in batches of neighbours taken in random order."""
    n_rows = side.n_rows
    starts = np.arange(0, n_rows, settings.batch_size)
    order = np.random.default_rng([settings.seed, process.stream, epoch]).permutation(starts.size)
    # The two processes of an epoch draw from different counters.
    sweep = 2 * epoch + process.stream
    n_levels = process.observations.n_levels
    for first in starts[order]:
        stop = min(int(first) + settings.batch_size, n_rows)
        batch = Batch(int(first), stop, settings.seed, sweep, settings.gibbs_steps)
        side = side._replace(thresholds=thresholds.table(half.steps, n_levels))
        clamped = cpu.clamped_phase(side, process.clamped, batch, half.factors, settings.memory)
        if settings.free_phase == "contrastive":
            process.free[batch.start : stop] = process.clamped[batch.start : stop]
        free = cpu.free_phase(side, process.free, batch)
        _ascend(half, clamped, free, process, priors, rate)


def _ascend(
    half: Half,
    clamped: Statistics,
    free: Statistics,
    process: _Process,
    priors: Priors,
    rate: float,
) -> None:
    """Move the columns that the batch has touched up the gradient: AdaGrad, centred factors."""
    sums = process.sums
    _move_columns(
        half, sums, clamped, free, process.n_answers, priors.common_steps,
        (priors.weights, priors.bias, priors.steps, priors.common_bias), np.float32(rate),
    )  # fmt: skip
    gradient = clamped.factor_bias - free.factor_bias
    sums.factor_bias[:] += gradient * gradient
    half.factor_bias[:] += np.float32(rate) * gradient / np.sqrt(sums.factor_bias)


@compiled(parallel=True)
def _move_columns(
    half: Any, sums: Any, clamped: Any, free: Any, n_answers: Any, common: Any, priors: Any,
    rate: Any,
) -> None:  # fmt: skip
    for column in prange(half.bias.size):
        if clamped.answers[column] > 0:
            _move_column(half, sums, clamped, free, n_answers, common, priors, rate, column)


@inlined
def _move_column(
    half: Any, sums: Any, clamped: Any, free: Any, n_answers: Any, common: Any, priors: Any,
    rate: Any, i: Any,
) -> None:  # fmt: skip
    # The prior is spread over the answers, so that an epoch counts it once.
    part = np.float32(clamped.answers[i] / n_answers[i])
    weights, sum_weights = half.weights[i], sums.weights[i]
    towards_bias = clamped.bias[i] - free.bias[i]
    centre, moved = np.float32(0.0), np.float32(0.0)
    for k in range(weights.size):
        centre += np.float32(0.5) * weights[k]
    for k in range(weights.size):
        # Factors are coded around their middle: a weight turns the utility, it does not shift it.
        g = clamped.weights[i, k] - free.weights[i, k] - np.float32(0.5) * towards_bias
        g -= np.float32(priors[0]) * part * weights[k]
        sum_weights[k] += g * g
        step = rate * g / np.sqrt(sum_weights[k])
        weights[k] += step
        moved += np.float32(0.5) * step
    away = half.bias[i] + centre - np.float32(priors[3])
    g = towards_bias - np.float32(priors[1]) * part * away
    sums.bias[i] += g * g
    half.bias[i] += rate * g / np.sqrt(sums.bias[i]) - moved
    for m in range(1, half.steps.shape[1]):
        g2 = np.exp(half.steps[i, m]) * clamped.thresholds[i, m]
        g2 -= priors[2] * part * (half.steps[i, m] - common[i, m])
        sums.steps[i, m] += g2 * g2
        half.steps[i, m] += rate * g2 / np.sqrt(sums.steps[i, m])

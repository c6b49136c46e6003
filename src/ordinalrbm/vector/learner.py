"""Learning the vector model: epochs over batches of rows, watched on held-out answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.engine.thresholds import FirstThresholds
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training import state as saving
from ordinalrbm.training.checkpoint import NO_CHECKPOINTS, Checkpoints
from ordinalrbm.training.divergence import lower_of, refuse_divergence, refuse_nonsense
from ordinalrbm.training.loop import learn
from ordinalrbm.training.schedule import MOST_OFTEN, RateSchedule, Schedule
from ordinalrbm.vector.ascent import Moments, Steps, ascend, zero_moments
from ordinalrbm.vector.chains import FreePhase, gradient, start_chains
from ordinalrbm.vector.initial import by_weight, initial_model
from ordinalrbm.vector.model import ARRAYS, Unanswered, VectorModel, follow_covariates, side, with_parameters
from ordinalrbm.vector.monitor import set_aside
from ordinalrbm.vector.styles import draw_styles, has_styles, with_styles

Solver = Literal["adam", "sgd"]
FirstWeights = Literal["polychoric", "random"]
FirstBiases = Literal["balanced", "zero"]
# Share of the epochs in which the learning rate falls to zero.
_FALL = 0.4


@dataclass(frozen=True)
class Settings:
    """Settings of the learner; see :class:`ordinalrbm.CumulativeRBM` for each."""

    n_factors: int
    units: int
    response_styles: int
    n_epochs: int
    batch_size: int
    learning_rate: float
    gibbs_steps: int
    free_phase: FreePhase
    n_chains: int
    weight_decay: float
    background_decay: float
    unanswered: Unanswered
    validation_fraction: float
    patience: int
    solver: Solver
    centred: bool
    init: FirstWeights
    biases: FirstBiases
    thresholds: FirstThresholds
    schedule: RateSchedule
    seed: int
    verbose: bool


class Record(NamedTuple):
    """One line of the learning history; log probabilities are means per answer."""

    epoch: int
    pseudo_likelihood: float
    validation: float
    learning_rate: float
    seconds: float


class Fitted(NamedTuple):
    """The model of the best epoch, and how learning went."""

    model: VectorModel
    best_epoch: int
    history: list[Record]
    interrupted: bool


class _VectorLearner:
    """Everything that changes while learning; rows must already be in random order."""

    def __init__(
        self,
        observations: Observations,
        row_weight: np.ndarray | None,
        settings: Settings,
        start: VectorModel | None = None,
    ) -> None:
        self.settings = settings
        learnt, self.monitor = observations, None
        if start is None:
            learnt, self.monitor = set_aside(
                observations, settings.validation_fraction, settings.seed, row_weight
            )
        self.model = first_model(learnt, row_weight, settings) if start is None else start.copy()
        if settings.thresholds == "even" and self.monitor is not None:
            _, first = self.monitor.measure(self.model, settings.unanswered)
            lower = lower_of(self.monitor.usual, first)
            self.monitor = self.monitor._replace(usual=lower)
        self.this = side(self.model, learnt, settings.unanswered, row_weight)
        if has_styles(self.model):
            self.this = self.this._replace(stretch=np.ones(self.this.n_rows, dtype=np.float32))
        self.chains = start_chains(
            self.model, self.this, settings.free_phase, settings.n_chains, settings.seed
        )
        self.moments = zero_moments(self.model)
        self.best, self.best_epoch = self.model, 0
        self.history: list[Record] = []
        self.schedule = Schedule(
            settings.learning_rate,
            n_epochs=settings.n_epochs,
            patience=settings.patience,
            fall=_FALL if settings.schedule == "cosine" else 0.0,
        )
        self.started = time.perf_counter()

    @property
    def has_model(self) -> bool:
        """Whether an epoch has ended."""
        return self.best_epoch > 0

    def goes_on(self) -> bool:
        return self.schedule.rate() > 0.0

    def epoch(self) -> None:
        """One pass over the data, then a look at the held-out answers."""
        epoch, rate = len(self.history) + 1, self.schedule.rate()
        _epoch(self, self.this, epoch, rate, self.settings)
        model = self.model
        # Many units with the same weights are, together, as one with a larger one.
        weights = np.sqrt(model.units) * model.weights
        learnt = (getattr(model, name) for name in ARRAYS if name not in ("n_levels", "kind"))
        refuse_divergence(weights, learnt, model.cutpoints)
        held_out = seen = float("nan")
        if self.monitor is not None:
            monitor = self.monitor
            hidden, known = monitor.measure(model, self.settings.unanswered)
            refuse_nonsense(known, monitor.usual, monitor.seen.weight)
            held_out, seen = monitor.held_out.mean(hidden), monitor.seen.mean(known)
        seconds = time.perf_counter() - self.started
        self.history.append(Record(epoch, seen, held_out, rate, seconds))
        if self.schedule.after(held_out):
            self.best, self.best_epoch = model.copy(), epoch

    def state(self) -> saving.State:
        """Return all that is needed to go on from here."""
        chains, units = self.chains, self.settings.units
        state = {
            **saving.flatten("model", self.model),
            **saving.flatten("best", self.best),
            **saving.flatten("moments", self.moments),
            **saving.flatten("n_slowed", self.schedule.n_slowed),
            **saving.flatten_history(self.history),
            "clamped": saving.packed(chains.clamped, units),
        }
        if not chains.contrastive:  # else they start anew at every update
            state["free"] = saving.packed(chains.free, units)
        return state

    def _unwatched(self) -> list[str]:
        """What the history has no numbers of."""
        watched = {
            "validation": self.monitor is not None and self.monitor.held_out.weight.size,
            "pseudo_likelihood": self.monitor is not None and self.monitor.seen.weight.size,
        }
        return [name for name, there_is in watched.items() if not there_is]

    def restore(self, state: saving.State) -> None:
        chains, units = self.chains, self.settings.units
        history = saving.unflatten_history(state, Record, unwatched=self._unwatched())
        values = (line.validation for line in history)
        self.schedule.replay(values, saving.counter("n_slowed", state, MOST_OFTEN))
        self.model, self.best = (self._unflatten_model(name, state) for name in ("model", "best"))
        self.best_epoch = self.schedule.best_epoch
        self.moments = Moments(
            saving.unflatten("moments.first", state, self.moments.first),
            saving.unflatten("moments.second", state, self.moments.second, low=0.0),
        )
        saving.unpack_into(chains.clamped, "clamped", state, units)
        if not chains.contrastive:
            saving.unpack_into(chains.free, "free", state, units)
        self.history, self.started = history, saving.virtual_start_time(history)

    def _unflatten_model(self, name: str, state: saving.State) -> VectorModel:
        """A model of the state, which must be such as a model file may hold."""
        stored = Stored(state, {"units": self.settings.units})
        model = self.model
        VectorModel.from_stored(
            stored.under(f"{name}."), model.n_levels.tolist(), model.kind, model.n_covariates
        )
        return saving.unflatten(name, state, self.model)


def fit(
    observations: Observations,
    row_weight: np.ndarray | None,
    settings: Settings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    start: VectorModel | None = None,
) -> Fitted:
    """Learn a model and return it; rows must already be in random order.

    With a model to start from, it learns from all answers for all epochs and watches none: most of
    the time of a small survey goes into watching.

    Ctrl-C ends learning and gives the best epoch so far; before the first epoch has ended there is
    none, and the interruption goes through.
    """
    learner = _VectorLearner(observations, row_weight, settings, start)
    interrupted = learn(
        learner, checkpoints.of("vector"), settings.n_epochs, verbose=settings.verbose, watched="held-out"
    )
    best, best_epoch = learner.best, learner.best_epoch
    # Mean-field is quick enough to watch every epoch with, but it is an approximation, and more so
    # the stronger the weights: it tends to prefer earlier epochs. The last epoch has settled, so it
    # stays unless draws show clearly that it is worse, by overfitting.
    last, monitor = learner.model, learner.monitor
    if not interrupted and (
        monitor is None or not monitor.is_worse(last, best, settings.unanswered, settings.seed)
    ):
        best, best_epoch = last, len(learner.history)
    return Fitted(best, best_epoch, learner.history, interrupted)


def first_model(observations: Observations, row_weight: np.ndarray | None, settings: Settings) -> VectorModel:
    """Return the model that learning from these rows would start with."""
    return with_styles(
        initial_model(
            by_weight(observations, row_weight),
            settings.n_factors,
            settings.units,
            settings.seed,
            by_correlations=settings.init == "polychoric",
            at_marginals=settings.thresholds == "marginal",
            balanced=settings.biases == "balanced",
            slope_precision=settings.background_decay,
        ),
        settings.response_styles,
    )


def _epoch(learner: _VectorLearner, this: Side, epoch: int, rate: float, settings: Settings) -> None:
    """One pass over the data, in batches of neighbouring rows, in random order."""
    model, n_rows = learner.model, this.n_rows
    starts = np.arange(0, n_rows, settings.batch_size)
    precision, slopes = settings.weight_decay / n_rows, settings.background_decay / n_rows
    steps = Steps(rate, settings.solver == "adam", settings.centred)
    order = np.random.default_rng([settings.seed, epoch]).permutation(starts.size)
    styles = np.ones(model.stretches.size)  # one made-up row of each keeps all possible
    for count, start in enumerate(starts[order]):
        stop = min(int(start) + settings.batch_size, n_rows)
        batch = Batch(int(start), stop, settings.seed, epoch, settings.gibbs_steps)
        current = with_parameters(this, model)
        if model.n_covariates:
            follow_covariates(current, model, batch.start, batch.stop)
        styles += draw_styles(model, current, learner.chains.clamped, batch)
        uphill = gradient(model, current, learner.chains, batch, precision, slopes)
        n_updates = (epoch - 1) * starts.size + count + 1
        ascend(model, uphill, learner.moments, n_updates, steps)
    model.style_weights[:] = styles / styles.sum()

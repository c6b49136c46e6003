"""Learning the vector model: epochs over batches of rows, watched on held-out answers."""

import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations, weight_of_answers
from ordinalrbm.data.questionnaire import NUMERIC
from ordinalrbm.engine.side import Batch
from ordinalrbm.engine.thresholds import FirstThresholds
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training import state as saving
from ordinalrbm.training.checkpoint import NO_CHECKPOINTS, Checkpoints
from ordinalrbm.training.loop import learn
from ordinalrbm.training.schedule import (
    MOST_OFTEN,
    RateSchedule,
    Schedule,
    lower_of,
    marginal_of_answers,
    refuse_divergence,
    refuse_nonsense,
    spread_of,
)
from ordinalrbm.vector.chains import FreePhase, Moments, Steps, ascend, gradient, start_chains, zero_moments
from ordinalrbm.vector.initial import by_weight, initial_model
from ordinalrbm.vector.model import ARRAYS, Unanswered, VectorModel, follow_covariates, side, with_parameters
from ordinalrbm.vector.posterior import draw_styles, draws, quick_mean_field, with_styles
from ordinalrbm.vector.predict import Cells, cells_of, log_probability, mixed, probabilities

Solver = Literal["adam", "sgd"]
FirstWeights = Literal["polychoric", "random"]
FirstBiases = Literal["balanced", "zero"]
# Share of the epochs in which the learning rate falls to zero.
_FALL = 0.4
# So many answers are held out at most, in so many rows: the mean likelihoods of two epochs, of the
# same answers, then differ by chance by about 0.002 nats.
_HELD_OUT, _WATCHED_ROWS = 2000, 4000
_DRAWS = 50
# Standard errors of a difference that are more than chance.
_CLEARLY = 2.0
# Share of the answers that are learnt from and predicted all the same, if none is held out.
_SEEN = 0.05


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


class Monitor(NamedTuple):
    """Rows that are watched: the answers that are shown, and those to be predicted from them.

    ``held_out`` answers are never learnt from; their likelihood decides when to stop. There may be none.
    ``seen`` answers are learnt from: their likelihood given those shown is the pseudo-likelihood of the
    training data. ``marginal`` are their log probabilities without a model. Weights are those of the answers.
    """

    shown: Observations
    held_out: Cells
    held_out_weight: np.ndarray
    seen: Cells
    seen_weight: np.ndarray
    marginal: np.ndarray

    def measure(self, model: VectorModel, unanswered: Unanswered) -> tuple[np.ndarray, np.ndarray]:
        """Return log probabilities of the held-out and of the seen answers, by mean-field."""
        this = side(model, self.shown, unanswered)
        found = quick_mean_field(model, this)
        held_out, seen = (
            log_probability(model, mixed(model, this, found, cells), cells)
            for cells in (self.held_out, self.seen)
        )
        return held_out, seen

    def is_worse(self, model: VectorModel, other: VectorModel, unanswered: Unanswered, seed: int) -> bool:
        """Whether a model predicts the held-out answers worse than another, beyond chance.

        Mean-field must say so first, which is quick, then draws, which are unbiased.
        """
        if not self.held_out_weight.size:
            return False
        if not self._is_clearly_less(*(self.measure(each, unanswered)[0] for each in (model, other))):
            return False
        return self._is_clearly_less(*(self._by_draws(each, unanswered, seed) for each in (model, other)))

    def _is_clearly_less(self, first: np.ndarray, second: np.ndarray) -> bool:
        lost, deviation, size = spread_of(second - first, self.held_out_weight)
        return bool(lost > _CLEARLY * deviation / np.sqrt(size))

    def _by_draws(self, model: VectorModel, unanswered: Unanswered, seed: int) -> np.ndarray:
        """Log probability of each held-out answer, by sampling: slower and unbiased."""
        chain = draws(model, side(model, self.shown, unanswered), _DRAWS, seed)
        return log_probability(model, probabilities(model, chain, self.held_out), self.held_out)


def hold_out(
    observations: Observations, fraction: float, seed: int, row_weight: np.ndarray | None = None
) -> tuple[Observations, Monitor | None]:
    """Return the answers to learn from, and a monitor of the rest.

    Answers are hidden, not rows, because answers are what a model predicts. In large data only the
    first rows are watched (their order is random by now), so that watching stays cheap.
    """
    rng = np.random.default_rng(seed)
    enough = int(np.searchsorted(observations.row_start, _HELD_OUT / (fraction or _SEEN)))
    n_rows = min(enough, _WATCHED_ROWS, observations.n_rows)
    n_watched = int(observations.row_start[n_rows])
    draw = rng.random(n_watched)
    held_out, seen = draw < fraction, draw >= 1.0 - (fraction or _SEEN)
    if not seen.any() or not (held_out.any() or fraction == 0.0):
        return observations, None
    learnt = np.ones(observations.n_entries, dtype=bool)
    learnt[:n_watched] = ~held_out
    to_learn = observations.select(learnt)
    watched = observations.take_rows(np.arange(n_rows))
    weight = weight_of_answers(watched, None if row_weight is None else row_weight[:n_rows])
    known = cells_of(watched.select(seen))
    return to_learn, Monitor(
        shown=watched.select(~(held_out | seen)),
        held_out=cells_of(watched.select(held_out)),
        held_out_weight=weight[held_out],
        seen=known,
        seen_weight=weight[seen],
        marginal=_marginal(to_learn, row_weight, known),
    )


def _marginal(learnt: Observations, row_weight: np.ndarray | None, cells: Cells) -> np.ndarray:
    """Log probability of answers without a model; numbers are standard normal then."""
    found = marginal_of_answers(learnt, row_weight, cells.column, cells.level)
    kind = learnt.kind
    if not kind.size:
        return found
    normal = -0.5 * np.log(2.0 * np.pi) - 0.5 * cells.value**2
    return np.where(kind[cells.column] == NUMERIC, normal, found)


def _mean(values: np.ndarray, weight: np.ndarray) -> float:
    return float(np.average(values, weights=weight)) if values.size else np.nan


class _VectorLearner:
    """Everything that changes while learning; rows must already be in random order."""

    def __init__(self, observations: Observations, row_weight: np.ndarray | None, settings: Settings) -> None:
        self.settings = settings
        learnt, self.monitor = hold_out(observations, settings.validation_fraction, settings.seed, row_weight)
        start = initial_model(
            by_weight(learnt, row_weight),
            settings.n_factors,
            settings.units,
            settings.seed,
            by_correlations=settings.init == "polychoric",
            at_marginals=settings.thresholds == "marginal",
            balanced=settings.biases == "balanced",
            slope_precision=settings.background_decay,
        )
        self.model = with_styles(start, settings.response_styles)
        if settings.thresholds == "even" and self.monitor is not None:
            _, first = self.monitor.measure(self.model, settings.unanswered)
            self.monitor = self.monitor._replace(marginal=lower_of(self.monitor.marginal, first))
        self.this = side(self.model, learnt, settings.unanswered, row_weight)
        if self.model.has_styles:
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
        return self.best_epoch > 0

    def goes_on(self) -> bool:
        return self.schedule.rate() > 0.0

    def epoch(self) -> None:
        epoch, rate = len(self.history) + 1, self.schedule.rate()
        self._pass(epoch, rate)
        model = self.model
        # Many units with the same weights are, together, as one with a larger one.
        weights = np.sqrt(model.units) * model.weights
        learnt = (getattr(model, name) for name in ARRAYS if name not in ("n_levels", "kind"))
        refuse_divergence(weights, learnt, model.cutpoints)
        held_out = seen = float("nan")
        if self.monitor is not None:
            monitor = self.monitor
            hidden, known = monitor.measure(model, self.settings.unanswered)
            refuse_nonsense(known, monitor.marginal, monitor.seen_weight)
            held_out, seen = _mean(hidden, monitor.held_out_weight), _mean(known, monitor.seen_weight)
        self.history.append(Record(epoch, seen, held_out, rate, time.perf_counter() - self.started))
        if self.schedule.after(held_out):
            self.best, self.best_epoch = model.copy(), epoch

    def _pass(self, epoch: int, rate: float) -> None:
        """One pass over the data, in batches of neighbouring rows, in random order."""
        model, settings, n_rows = self.model, self.settings, self.this.n_rows
        starts = np.arange(0, n_rows, settings.batch_size)
        precision, slopes = settings.weight_decay / n_rows, settings.background_decay / n_rows
        steps = Steps(rate, settings.solver == "adam", settings.centred)
        order = np.random.default_rng([settings.seed, epoch]).permutation(starts.size)
        styles = np.ones(model.stretches.size)  # one made-up row of each keeps all possible
        for count, start in enumerate(starts[order]):
            stop = min(int(start) + settings.batch_size, n_rows)
            batch = Batch(int(start), stop, settings.seed, epoch, settings.gibbs_steps)
            current = with_parameters(self.this, model)
            if model.n_covariates:
                follow_covariates(current, model, batch.start, batch.stop)
            styles += draw_styles(model, current, self.chains.clamped, batch)
            uphill = gradient(model, current, self.chains, batch, precision, slopes)
            ascend(model, uphill, self.moments, (epoch - 1) * starts.size + count + 1, steps)
        model.style_weights[:] = styles / styles.sum()

    def state(self) -> saving.State:
        chains, units = self.chains, self.settings.units
        state = {
            **saving.flatten("model", self.model),
            **saving.flatten("best", self.best),
            **saving.flatten("moments", self.moments),
            **saving.flatten("n_slowed", self.schedule.n_slowed),
            **saving.flatten_history(self.history),
            "clamped": saving.packed(chains.clamped, units),
        }
        if not chains.contrastive:  # else they start again at every update
            state["free"] = saving.packed(chains.free, units)
        return state

    def restore(self, state: saving.State) -> None:
        chains, units = self.chains, self.settings.units
        monitor = self.monitor
        n_watched = {
            "validation": 0 if monitor is None else monitor.held_out_weight.size,
            "pseudo_likelihood": 0 if monitor is None else monitor.seen_weight.size,
        }
        unwatched = [name for name, number in n_watched.items() if not number]
        history = saving.unflatten_history(state, Record, unwatched=unwatched)
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
        like = self.model
        stored = Stored(state, {"units": self.settings.units}).under(f"{name}.")
        VectorModel.from_stored(stored, like.n_levels.tolist(), like.kind, like.n_covariates)
        return saving.unflatten(name, state, like)


def fit(
    observations: Observations,
    row_weight: np.ndarray | None,
    settings: Settings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Fitted:
    learner = _VectorLearner(observations, row_weight, settings)
    interrupted = learn(
        learner, checkpoints.of("vector"), settings.n_epochs, verbose=settings.verbose, watched="held-out"
    )
    best, best_epoch = learner.best, learner.best_epoch
    # Mean-field is quick enough to watch every epoch with, but it is an approximation, and more so
    # the stronger the weights: it tends to prefer earlier epochs. The last epoch has settled, so it
    # is kept unless it is clearly worse, by overfitting.
    last, monitor, n_epochs = learner.model, learner.monitor, len(learner.history)
    if monitor is None or interrupted or best_epoch == n_epochs:
        return Fitted(best, best_epoch, learner.history, interrupted)
    if not monitor.is_worse(last, best, settings.unanswered, settings.seed):
        best, best_epoch = last, n_epochs
    return Fitted(best, best_epoch, learner.history, interrupted)

"""Learning the matrix model with continuous factors: epochs until there is no more to gain."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ordinalrbm.data.observations import Observations, SharedRows
from ordinalrbm.engine.gaussian_state import Party, Prior
from ordinalrbm.engine.thresholds import LARGEST_STEP
from ordinalrbm.matrix.binary_learner import (
    FittedMatrix,
    MatrixSettings,
    PriorsOfHalves,
    evenly_shared,
    taken_model,
)
from ordinalrbm.matrix.calibration import calibrated
from ordinalrbm.matrix.fold_in import OfWeights
from ordinalrbm.matrix.gaussian import (
    Parties,
    dealt,
    epoch,
    size_of_factors,
    start,
    to_matrix,
    widths_of,
)
from ordinalrbm.matrix.gaussian_backends import machine_for
from ordinalrbm.matrix.model import MatrixModel
from ordinalrbm.matrix.predict import Pairs
from ordinalrbm.storage.reader import wrong
from ordinalrbm.training.checkpoint import (
    NO_CHECKPOINTS,
    Checkpoints,
    State,
    began,
    flat,
    flat_history,
    taken,
    taken_history,
)
from ordinalrbm.training.loop import learn

# A rise of the mean log probability that is worth another epoch.
_WORTHWHILE = 2e-4
# Epochs in a row without one.
_PATIENCE = 2
# Epochs at most, if nobody says how many.
_MOST_EPOCHS = 30

# In a checkpoint.
_SMALLEST_PRECISION = 1e-30


class Record(NamedTuple):
    """One line of the learning history; the log probability is a mean per rating."""

    epoch: int
    validation: float
    seconds: float


class _Learner:
    """State of learning: rows and columns, the best of them so far, and when to stop."""

    schedule = None  # there is no learning rate

    def __init__(
        self,
        observations: Observations | SharedRows,
        validation: Pairs | None,
        settings: MatrixSettings,
    ) -> None:
        self.observations, self.validation, self.settings = observations, validation, settings
        self.machine = machine_for(settings.device)
        self.n_factors = settings.n_row_factors, settings.n_column_factors
        parties = start(observations, sum(self.n_factors), self.n_factors[1] > 0, settings.seed)
        # Factors that cannot be told are left out while they are of no use to anybody.
        n_told = parties.rows.mean.shape[1] - 1
        self.data = self.machine.data(observations, n_told)
        self.parties = self.machine.placed(parties)
        of_rows, of_columns = dealt(n_told, *self.n_factors)
        self.in_use = of_rows.size, of_columns.size
        self.best, self.best_epoch, self.best_value = self.parties, 0, -np.inf
        self.last: list[MatrixModel] = []
        self.goal, self.waited = -np.inf, 0
        self.history: list[Record] = []
        self.started = time.perf_counter()

    @property
    def has_model(self) -> bool:
        """Whether an epoch has ended, and its model can be had without others' help.

        Ctrl-C finds the processes of a group in different places, where none helps another.
        """
        return self.best_epoch > 0 and self.machine.group is None

    def goes_on(self) -> bool:
        """Whether another epoch is allowed, and worth its time."""
        patience = min(_PATIENCE, self.settings.patience)
        return len(self.history) < _n_epochs(self.settings) and self.waited < patience

    def epoch(self) -> None:
        """Rows, columns, and a look at the validation ratings."""
        number, averaged = len(self.history) + 1, self.settings.n_averaged
        self.parties = epoch(self.data, self.parties, number)
        value = np.nan
        if self.validation is not None:
            value = self.machine.likelihood(self.parties, self.in_use, self.validation)
        if averaged > 1:
            self.last = [*self.last, self._matrix(self.parties)][-averaged:]
        self.history.append(Record(number, value, time.perf_counter() - self.started))
        if self._take_note(number, value):
            # A copy: an interruption comes in the middle of an epoch, when nothing is in order.
            self.best = self.machine.copied(self.parties)

    def _take_note(self, number: int, value: float) -> bool:
        """What decides when to stop; returns whether this epoch is the best so far."""
        is_best = not value <= self.best_value
        if is_best:
            self.best_epoch, self.best_value = number, value
        self.waited = self.waited + 1 if value < self.goal else 0
        self.goal = self.goal if value < self.goal else value + _WORTHWHILE
        return is_best

    def state(self) -> State:
        """All that is needed to go on from here, with the rows of this process only."""
        return {
            **flat("parties", self.machine.own_part(self.parties)),
            **flat("best", self.machine.own_part(self.best)),
            **flat("last", self.last),
            **flat_history(self.history),
        }

    def restore(self, state: State) -> None:
        """Go on from there."""
        # Before anything can fail in one process, while others wait for its rows.
        like = [self._matrix(self.parties)] if self.settings.n_averaged > 1 else []
        unwatched = ("validation",) if self.validation is None else ()
        history = taken_history(state, Record, unwatched=unwatched)
        here = self.machine.own_part(self.parties)
        self.parties, self.best = (
            self.machine.placed_part(_taken_parties(name, state, here))
            for name in ("parties", "best")
        )
        n_last = min(len(history), self.settings.n_averaged)
        self.last = [taken_model(f"last.{k}", state, one) for one in like for k in range(n_last)]
        self.best_epoch, self.best_value, self.goal, self.waited = 0, -np.inf, -np.inf, 0
        for line in history:
            self._take_note(line.epoch, line.validation)
        self.history, self.started = history, began(history)

    def _matrix(self, parties: Parties) -> MatrixModel:
        return to_matrix(self.machine.fetched(parties), *self.n_factors)

    def models(self) -> list[MatrixModel]:
        """The models to average over, calibrated."""
        models = self.last or [self._matrix(self.best)]
        if self.validation is None or not self.settings.calibrate:
            return models
        return calibrated(models, self.observations, self.validation)


def _is_by_rows(name: str) -> bool:
    """Whether an array of a state has a line for each row."""
    return re.fullmatch(r"(parties|best)\.(rows\.\w+|row_prior\.steps)", name) is not None


def _taken_parties(name: str, state: State, like: Parties) -> Parties:
    return Parties(
        _taken_party(f"{name}.rows", state, like.rows),
        _taken_party(f"{name}.columns", state, like.columns),
        _taken_prior(f"{name}.row_prior", state, like.row_prior),
        _taken_prior(f"{name}.column_prior", state, like.column_prior),
    )


def _taken_party(name: str, state: State, like: Party) -> Party:
    party = Party(
        taken(f"{name}.mean", state, like.mean),
        taken(f"{name}.variance", state, like.variance, low=0.0),
        taken(f"{name}.steps", state, like.steps, high=LARGEST_STEP),
        taken(f"{name}.widths", state, like.widths, high=np.exp(LARGEST_STEP)),
        taken(f"{name}.n_levels", state, like.n_levels),
    )
    if not np.allclose(party.widths, widths_of(party.steps)):
        raise wrong(f"{name}.widths", "is not that of the steps")
    return party


def _taken_prior(name: str, state: State, like: Prior) -> Prior:
    return Prior(
        _taken_precision(f"{name}.precision", state, like.precision),
        taken(f"{name}.steps", state, like.steps, high=LARGEST_STEP),
        _taken_precision(f"{name}.steps_precision", state, like.steps_precision),
    )


def _taken_precision(name: str, state: State, like: np.ndarray) -> np.ndarray:
    """Infinite where it is from the start, because something is to stay as it is."""
    precision = taken(name, state, like, _SMALLEST_PRECISION, np.inf)
    if not np.array_equal(np.isinf(precision), np.isinf(like)):
        raise wrong(name, "is infinite in other places")
    return precision


def fit(
    observations: Observations | SharedRows,
    validation: Pairs | None,
    settings: MatrixSettings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> FittedMatrix:
    """Learn a model; Ctrl-C ends learning and gives the best epoch so far."""
    learner = _Learner(observations, validation, settings)
    trail = checkpoints.of("continuous", observations.n_rows, _is_by_rows)
    # Small matrix products stand between the kernels. Threads of the BLAS would go on spinning
    # for a while after each, in the way of the kernels' own.
    with threadpool_limits(limits=1, user_api="blas"):
        interrupted = learn(
            learner, trail, _n_epochs(settings), verbose=settings.verbose, watched="validation"
        )
    models = evenly_shared(learner.models())
    best = learner.machine.fetched(learner.best)
    priors = [_priors(best, *learner.n_factors)] * len(models)
    return FittedMatrix(models, learner.best_epoch, learner.history, interrupted, priors)


def _n_epochs(settings: MatrixSettings) -> int:
    return _MOST_EPOCHS if settings.n_epochs is None else settings.n_epochs


def _priors(parties: Parties, n_row_factors: int, n_column_factors: int) -> PriorsOfHalves:
    """Priors of what columns and rows weigh factors with, for those who come later."""
    rows, columns, row_prior, column_prior = parties
    of_rows, of_columns = dealt(rows.mean.shape[1] - 1, n_row_factors, n_column_factors)
    return (
        _prior_of_weights(column_prior, rows, 1 + of_rows, n_row_factors),
        _prior_of_weights(row_prior, columns, 1 + of_columns, n_column_factors),
    )


def _prior_of_weights(prior: Prior, acting: Party, chosen: np.ndarray, n_factors: int) -> OfWeights:
    precision = np.full(n_factors, np.inf)  # factors that are not in use stay so
    precision[: chosen.size] = prior.precision[chosen] / size_of_factors(acting, chosen) ** 2
    widths = float(prior.steps_precision[1:].mean()) if prior.steps_precision.size > 1 else np.inf
    return OfWeights(precision, float(prior.precision[0]), widths)

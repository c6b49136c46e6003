"""Learning the matrix model with continuous factors: epochs until there is no more to gain."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ordinalrbm.data.observations import Observations, SharedRows
from ordinalrbm.engine.gaussian_state import FactorPosterior, Prior
from ordinalrbm.engine.thresholds import LARGEST_CUTPOINT
from ordinalrbm.matrix.binary_learner import (
    FittedMatrix,
    MatrixSettings,
    PriorsOfHalves,
    evenly_shared,
    unflatten_model,
)
from ordinalrbm.matrix.calibration import calibrated
from ordinalrbm.matrix.fold_in import OfWeights
from ordinalrbm.matrix.gaussian import (
    GaussianState,
    dealt,
    epoch,
    gaps_of,
    size_of_factors,
    start,
    to_matrix,
)
from ordinalrbm.matrix.gaussian_backends import backend_for
from ordinalrbm.matrix.model import MatrixModel
from ordinalrbm.matrix.predict import Pairs
from ordinalrbm.storage.reader import wrong
from ordinalrbm.training.checkpoint import NO_CHECKPOINTS, Checkpoints
from ordinalrbm.training.loop import learn
from ordinalrbm.training.state import (
    State,
    began,
    flatten,
    flatten_history,
    unflatten,
    unflatten_history,
)

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
        self.backend = backend_for(settings.device)
        self.n_factors = settings.n_row_factors, settings.n_column_factors
        parties = start(observations, sum(self.n_factors), self.n_factors[1] > 0, settings.seed)
        # Factors that cannot be told are left out while they are of no use to anybody.
        n_told = parties.rows.mean.shape[1] - 1
        self.data = self.backend.data(observations, n_told)
        self.parties = self.backend.to_device(parties)
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
        return self.best_epoch > 0 and self.backend.group is None

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
            value = self.backend.likelihood(self.parties, self.in_use, self.validation)
        if averaged > 1:
            self.last = [*self.last, self._matrix(self.parties)][-averaged:]
        self.history.append(Record(number, value, time.perf_counter() - self.started))
        if self._take_note(number, value):
            # A copy: an interruption comes in the middle of an epoch, when nothing is in order.
            self.best = self.backend.clone(self.parties)

    def _take_note(self, number: int, value: float) -> bool:
        """What decides when to stop; returns whether this epoch is the best so far."""
        is_best = not value <= self.best_value
        if is_best:
            self.best_epoch, self.best_value = number, value
        self.waited = self.waited + 1 if value < self.goal else 0
        self.goal = self.goal if value < self.goal else value + _WORTHWHILE
        return is_best

    def state(self) -> State:
        """All that is needed to go on from here; all processes must ask for it."""
        return {
            **flatten("parties", self.backend.to_host(self.parties)),
            **flatten("best", self.backend.to_host(self.best)),
            **flatten("last", self.last),
            **flatten_history(self.history),
        }

    def restore(self, state: State) -> None:
        """Go on from there."""
        # Before anything can fail in one process, while others wait for its rows.
        here = self.backend.to_host(self.parties)
        like = [to_matrix(here, *self.n_factors)] if self.settings.n_averaged > 1 else []
        unwatched = ("validation",) if self.validation is None else ()
        history = unflatten_history(state, Record, unwatched=unwatched)
        self.parties, self.best = (
            self.backend.to_device(_unflatten_state(name, state, here))
            for name in ("parties", "best")
        )
        n_last = min(len(history), self.settings.n_averaged)
        self.last = [
            unflatten_model(f"last.{k}", state, one) for one in like for k in range(n_last)
        ]
        self.best_epoch, self.best_value, self.goal, self.waited = 0, -np.inf, -np.inf, 0
        for line in history:
            self._take_note(line.epoch, line.validation)
        self.history, self.started = history, began(history)

    def _matrix(self, parties: GaussianState) -> MatrixModel:
        return to_matrix(self.backend.to_host(parties), *self.n_factors)

    def models(self) -> list[MatrixModel]:
        """The models to average over, calibrated."""
        models = self.last or [self._matrix(self.best)]
        if self.validation is None or not self.settings.calibrate:
            return models
        return calibrated(models, self.observations, self.validation)


def _unflatten_state(name: str, state: State, like: GaussianState) -> GaussianState:
    return GaussianState(
        _unflatten_posterior(f"{name}.rows", state, like.rows),
        _unflatten_posterior(f"{name}.columns", state, like.columns),
        _unflatten_prior(f"{name}.row_prior", state, like.row_prior),
        _unflatten_prior(f"{name}.column_prior", state, like.column_prior),
    )


def _unflatten_posterior(name: str, state: State, like: FactorPosterior) -> FactorPosterior:
    posterior = FactorPosterior(
        unflatten(f"{name}.mean", state, like.mean),
        unflatten(f"{name}.variance", state, like.variance, low=0.0),
        unflatten(f"{name}.cutpoints", state, like.cutpoints, high=LARGEST_CUTPOINT),
        unflatten(f"{name}.gaps", state, like.gaps, high=np.exp(LARGEST_CUTPOINT)),
        unflatten(f"{name}.n_levels", state, like.n_levels),
    )
    if not np.allclose(posterior.gaps, gaps_of(posterior.cutpoints)):
        raise wrong(f"{name}.gaps", "is not that of the cutpoints")
    return posterior


def _unflatten_prior(name: str, state: State, like: Prior) -> Prior:
    return Prior(
        _unflatten_precision(f"{name}.precision", state, like.precision),
        unflatten(f"{name}.cutpoints", state, like.cutpoints, high=LARGEST_CUTPOINT),
        _unflatten_precision(f"{name}.cutpoints_precision", state, like.cutpoints_precision),
    )


def _unflatten_precision(name: str, state: State, like: np.ndarray) -> np.ndarray:
    """Infinite where it is from the start, because something is to stay as it is."""
    precision = unflatten(name, state, like, _SMALLEST_PRECISION, np.inf)
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
    writer = checkpoints.of("continuous")
    # Small matrix products stand between the kernels. Threads of the BLAS would go on spinning
    # for a while after each, in the way of the kernels' own.
    with threadpool_limits(limits=1, user_api="blas"):
        interrupted = learn(
            learner, writer, _n_epochs(settings), verbose=settings.verbose, watched="validation"
        )
    models = evenly_shared(learner.models())
    best = learner.backend.to_host(learner.best)
    priors = [_priors(best, *learner.n_factors)] * len(models)
    return FittedMatrix(models, learner.best_epoch, learner.history, interrupted, priors)


def _n_epochs(settings: MatrixSettings) -> int:
    return _MOST_EPOCHS if settings.n_epochs is None else settings.n_epochs


def _priors(parties: GaussianState, n_row_factors: int, n_column_factors: int) -> PriorsOfHalves:
    """Priors of what columns and rows weigh factors with, for those who come later."""
    rows, columns, row_prior, column_prior = parties
    of_rows, of_columns = dealt(rows.mean.shape[1] - 1, n_row_factors, n_column_factors)
    return (
        _prior_of_weights(column_prior, rows, 1 + of_rows, n_row_factors),
        _prior_of_weights(row_prior, columns, 1 + of_columns, n_column_factors),
    )


def _prior_of_weights(
    prior: Prior, acting: FactorPosterior, chosen: np.ndarray, n_factors: int
) -> OfWeights:
    precision = np.full(n_factors, np.inf)  # factors that are not in use stay so
    precision[: chosen.size] = prior.precision[chosen] / size_of_factors(acting, chosen) ** 2
    gaps = (
        float(prior.cutpoints_precision[1:].mean())
        if prior.cutpoints_precision.size > 1
        else np.inf
    )
    return OfWeights(precision, float(prior.precision[0]), gaps)

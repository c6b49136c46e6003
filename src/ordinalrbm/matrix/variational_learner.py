"""Learning Gaussian factors: epochs until there is no more to gain."""

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Cells, Observations, SharedRows
from ordinalrbm.engine.base import gaps_of
from ordinalrbm.engine.drift import Bins, first_path
from ordinalrbm.engine.thresholds import LARGEST_CUTPOINT
from ordinalrbm.matrix import prepare
from ordinalrbm.matrix.backends import backend_for
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.drift import PlacedCells
from ordinalrbm.matrix.feature_priors import NO_TABLES, Tables
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.variational import (
    Data,
    GaussianState,
    Precisions,
    epoch,
    max_identifiable_factors,
    start,
    start_with_values,
    starting_to_drift,
    with_features_of,
    with_weights,
)
from ordinalrbm.runtime.process_group import ALONE
from ordinalrbm.runtime.threads import one_blas_thread
from ordinalrbm.runtime.timing import stage
from ordinalrbm.storage.reader import LARGEST_NUMBER, LARGEST_PARAMETER, wrong
from ordinalrbm.training import state as saving
from ordinalrbm.training.checkpoint import NO_CHECKPOINTS, Checkpoints
from ordinalrbm.training.loop import learn
from ordinalrbm.training.schedule import EarlyStopping

# A rise of the mean log probability that is worth another epoch.
_WORTHWHILE = 2e-4
# Epochs in the end, in which the validation ratings are learnt from, too.
_MORE_EPOCHS = 4
_ANY_PRECISION = (1e-30, np.inf)
# Of the fields of a state in a checkpoint, where they are not those of any parameter.
_LIMITS = {
    "variance": (0.0, LARGEST_NUMBER),
    "cutpoints": (-LARGEST_PARAMETER, LARGEST_CUTPOINT),
    "gaps": (-LARGEST_PARAMETER, float(np.exp(LARGEST_CUTPOINT))),
    "precision": _ANY_PRECISION,
    "cutpoints_precision": _ANY_PRECISION,
}


@dataclass(frozen=True)
class GaussianSettings:
    """Settings of the learner; see :class:`ordinalrbm.OrdinalMF` for each.

    ``values`` are those of the levels, for Gaussian factorisation.
    """

    n_factors: int
    precisions: Precisions
    is_point: bool
    n_epochs: int
    patience: int
    seed: int
    device: str
    verbose: bool
    values: np.ndarray
    rated_sets: bool = False
    learns_validation: bool = False  # whether validation ratings are learnt from in the end


class Record(NamedTuple):
    """One line of the learning history; the log probability is a mean per rating."""

    epoch: int
    validation: float
    seconds: float


def fit(
    observations: Observations | SharedRows,
    validation: Cells | None,
    settings: GaussianSettings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    tables: Tables = NO_TABLES,
    times: prepare.RatingTimes = prepare.NO_TIMES,
    validation_weight: np.ndarray | None = None,
) -> prepare.Fitted:
    """Learn a model; Ctrl-C ends learning and gives the best epoch so far."""
    with stage("to where it is learnt"):
        learner = _Learner(observations, validation, settings, tables, times, validation_weight)
    # Small matrix products stand between the kernels. Threads of the BLAS would go on spinning
    # for a while after each, in the way of the kernels' own.
    with one_blas_thread():
        with stage("epochs"):
            writer, verbose = checkpoints.of("gaussian"), settings.verbose
            interrupted = learn(learner, writer, settings.n_epochs, verbose=verbose, watched="validation")
        with stage("what was held out"):
            model, interrupted = learner.model(interrupted=interrupted)
    best_epoch, history = learner.stopping.best_epoch, learner.history
    return prepare.Fitted([model], best_epoch, history, interrupted, loaded=learner.loaded)


class _Learner:
    schedule = None  # there is no learning rate

    def __init__(
        self,
        observations: Observations | SharedRows,
        validation: Cells | None,
        settings: GaussianSettings,
        tables: Tables,
        times: prepare.RatingTimes,
        validation_weight: np.ndarray | None,
    ) -> None:
        self.observations, self.validation, self.settings = observations, validation, settings
        self.tables, self.times, self.validation_weight = tables, times, validation_weight
        # Levels with values are learnt by each process for itself, on its cores.
        self.backend = CPU if settings.values.size else backend_for(settings.device)
        state = _start(observations, settings, tables)
        self.data = self.backend.data(observations, state.n_factors, times.ratings)
        self.gaussian = self.backend.to_device(state)
        # Validation ratings, of rows as they are at their times.
        self.placed: PlacedCells | None = None
        if self.bins is not None:
            self.gaussian = starting_to_drift(self.gaussian, self.bins, self.backend.group or ALONE)
            if validation is not None:
                assert times.validation is not None
                own = self.backend.own_cells(validation)
                self.placed = PlacedCells.of(own, self.bins.at(own.row, times.validation))
        if settings.rated_sets or tables.are_any:
            self.data = with_features_of(self.data, self.gaussian, self.backend.own_rows(tables))
        self.best = self.gaussian
        self.loaded: prepare.Loaded | None = None
        self.stopping = EarlyStopping(settings.patience, _WORTHWHILE)
        self.history: list[Record] = []
        self.started = time.perf_counter()

    @property
    def bins(self) -> Bins | None:
        return None if self.data.bins is None else self.data.bins.bins

    @property
    def has_model(self) -> bool:
        """Whether an epoch has ended, and its model can be had without others' help.

        Ctrl-C finds the processes of a group at different points, where none helps another.
        """
        return self.stopping.best_epoch > 0 and self.backend.group is None

    def goes_on(self) -> bool:
        return len(self.history) < self.settings.n_epochs and not self.stopping.is_over

    def epoch(self) -> None:
        number = len(self.history) + 1
        self.gaussian = epoch(self.data, self.gaussian, number, self.settings.is_point)
        value = np.nan
        if self.validation is not None:
            model = GaussianModel.of_state(self.gaussian, self.bins)
            seen = self.validation, self.validation_weight, self.placed
            value = self.backend.mean_log_probability(model, *seen)
        self.history.append(Record(number, value, time.perf_counter() - self.started))
        if self.stopping.after(value):
            # A copy: an interruption comes in the middle of an epoch, when nothing is in order.
            self.best = self.backend.clone(self.gaussian)

    def _model(self, state: GaussianState) -> GaussianModel:
        return self.backend.to_host(GaussianModel.of_state(state, self.bins))

    def state(self) -> saving.State:
        return {
            **saving.flatten("gaussian", self.backend.to_host(self.gaussian)),
            **saving.flatten("best", self.backend.to_host(self.best)),
            **saving.flatten_history(self.history),
        }

    def restore(self, state: saving.State) -> None:
        # Before anything can fail in one process, while others wait for its rows.
        like = self.backend.to_host(self.gaussian)
        unwatched = ("validation",) if self.validation is None else ()
        history = saving.unflatten_history(state, Record, unwatched=unwatched)
        self.gaussian, self.best = (
            self.backend.to_device(_unflatten_state(name, state, like)) for name in ("gaussian", "best")
        )
        self.stopping.replay(line.validation for line in history)
        self.history, self.started = history, saving.virtual_start_time(history)

    def model(self, *, interrupted: bool) -> tuple[GaussianModel, bool]:
        """The model of the best epoch, and whether learning was interrupted by now.

        If it was not, the validation ratings may be learnt from as well; Ctrl-C leaves that out.
        """
        if not interrupted and self.validation is not None and self.settings.learns_validation:
            try:
                return self._learnt_from_all(self.validation), False
            except KeyboardInterrupt:
                if self.backend.group is not None:  # where others wait for this one
                    raise
                self.loaded, interrupted = None, True
        return self._model(self.best), interrupted

    def _learnt_from_all(self, cells: Cells) -> GaussianModel:
        """The model after a few more epochs, which learn from these cells, too."""
        state = self.backend.clone(self.best)  # an interruption leaves what was there
        data, counted = self.backend.data_with(
            self.data, self.observations, cells, state.n_factors, self.validation_weight
        )
        if self.bins is not None:
            data, state = self._drifting_on(data, state, cells)
        self.data = data  # instead of what was there, whose memory is needed
        if not self.settings.values.size:  # which are learnt on the cores, whatever the device
            self.loaded = prepare.Loaded(self.backend, counted, data)
        if self.settings.rated_sets or self.tables.are_any:
            data = with_features_of(data, state, self.backend.own_rows(self.tables))
        first = self.stopping.best_epoch + 1
        for number in range(first, first + _MORE_EPOCHS):
            state = epoch(data, state, number, self.settings.is_point)
        return self._model(state)

    def _drifting_on(self, data: Data, state: GaussianState, cells: Cells) -> tuple[Data, GaussianState]:
        """With bins of more ratings, whose levels begin at those of the old bins at their times."""
        assert self.bins is not None
        own, time = self.backend.own_ratings(self.observations, self.times.ratings)
        cells = self.backend.own_cells(cells)
        whole = prepare.with_cells(own, cells, self.validation_weight)
        parts = [(own.cells(), time), (cells, self.times.validation)]
        time = prepare.times_with_cells(whole, parts)
        assert time is not None
        views = self.backend.bins(whole, time)
        new, rows = views.bins, np.repeat(np.arange(whole.n_rows), np.diff(views.bins.start))
        before, drift = self.bins.at(rows, new.last), first_path(new, self.backend.group or ALONE)
        trend = np.resize(state.drift.trend, drift.trend.size)
        trend[state.drift.trend.size :] = state.drift.trend[-1]
        drift = state.drift._replace(level=state.drift.level[before], trend=trend)
        return data._replace(bins=views), state._replace(
            drift=drift, drift_variance=state.drift_variance[before]
        )


def _start(
    observations: Observations | SharedRows, settings: GaussianSettings, tables: Tables
) -> GaussianState:
    n_factors, seed, precisions = settings.n_factors, settings.seed, settings.precisions
    if not settings.is_point:
        n_factors = min(n_factors, max_identifiable_factors(observations))
    if settings.values.size:
        assert isinstance(observations, Observations), "levels with values are of one process"
        return start_with_values(observations, settings.values, n_factors, seed, precisions)
    state = start(observations, n_factors, seed, precisions)
    return with_weights(state, tables, rated_sets=settings.rated_sets)


# ---- states in checkpoints --------------------------------------------------------------------


def _unflatten_state(name: str, state: saving.State, like: GaussianState) -> GaussianState:
    found = saving.unflatten(name, state, like, limits=_LIMITS)
    for side in ("rows", "columns"):
        posterior = getattr(found, side)
        if not np.allclose(posterior.gaps, gaps_of(posterior.cutpoints)):
            raise wrong(f"{name}.{side}.gaps", "is not that of the cutpoints")
    # Infinite where they are from the start, because something is to stay as it is.
    for side in ("row_prior", "column_prior"):
        for part in ("precision", "cutpoints_precision"):
            now, first = (getattr(getattr(each, side), part) for each in (found, like))
            if not np.array_equal(np.isinf(now), np.isinf(first)):
                raise wrong(f"{name}.{side}.{part}", "is infinite in other places")
    return found

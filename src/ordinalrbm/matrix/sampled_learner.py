"""Learning by sampling: from a variational solution on, sweep after sweep; some are kept."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.evaluate.points import SMALLEST_PROBABILITY
from ordinalrbm.matrix import gaussian
from ordinalrbm.matrix.draws import Draws
from ordinalrbm.matrix.gaussian import Precisions, on_cpu, tellable_factors
from ordinalrbm.matrix.predict import probabilities
from ordinalrbm.matrix.sampled import SampledState, prepared, start, sweep
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

# Epochs of the variational learner before the first sweep: it need not have converged.
_WARM_EPOCHS = 8
# Sweeps that are dropped, at most: the chain starts near where it stays.
_BURN_IN = 60
# Sweeps from one kept draw to the next.
_BETWEEN = 5


@dataclass(frozen=True)
class SampledSettings:
    """Settings of the sampler; see :class:`ordinalrbm.OrdinalMF` for each."""

    n_factors: int
    n_epochs: int | None
    n_draws: int
    rated_sets: bool
    precisions: Precisions
    seed: int
    verbose: bool

    @property
    def n_sweeps(self) -> int:
        return self.n_epochs or _BURN_IN + _BETWEEN * self.n_draws

    @property
    def burn_in(self) -> int:
        """Sweeps that are dropped: at most a third of all."""
        return min(_BURN_IN, self.n_sweeps // 3)

    @property
    def kept(self) -> np.ndarray:
        """Numbers of the sweeps that are kept, evenly spaced to the last."""
        n_after = self.n_sweeps - self.burn_in
        n_draws = min(self.n_draws, n_after)
        return self.burn_in + (np.arange(1, n_draws + 1) * n_after) // n_draws


class Record(NamedTuple):
    """One sweep; log probabilities are means per rating."""

    epoch: int
    validation: float  # of held-out ratings, by all draws kept so far; at first by this one
    log_likelihood: float  # of the ratings learnt from, given this draw
    user_width_precision: float
    item_width_precision: float
    user_ridge: float
    item_ridge: float
    seconds: float


class Sampled(NamedTuple):
    """The draws, and how sampling went."""

    draws: Draws
    burn_in: int
    history: list[Record]
    interrupted: bool


def fit(
    observations: Observations, validation: Cells | None, settings: SampledSettings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Sampled:  # fmt: skip
    """Sample; Ctrl-C ends it and gives the draws kept so far, or the last one."""
    learner = _Learner(observations, validation, settings)
    # Sums of matrix products must not depend on how many threads there are.
    with threadpool_limits(limits=1, user_api="blas"):
        interrupted = learn(
            learner, checkpoints.of("sampled"), settings.n_sweeps, verbose=settings.verbose,
            watched="validation",
        )  # fmt: skip
    draws = Draws.of_states(learner.kept or [learner.last], learner.data.n_levels)
    return Sampled(draws, settings.burn_in, learner.history, interrupted)


class _Learner:
    """State of the chain, and the draws kept so far."""

    schedule = None  # there is no learning rate

    def __init__(
        self, observations: Observations, validation: Cells | None, settings: SampledSettings
    ) -> None:
        self.settings = settings
        self.data = prepared(observations, rated_sets=settings.rated_sets)
        self.validation = validation
        self.chance = np.zeros(1)  # of each held-out rating, summed over kept draws
        n_factors = min(settings.n_factors, tellable_factors(observations))
        self.variational = gaussian.start(
            observations, n_factors, settings.seed, settings.precisions
        )
        self.chain = start(self.data, self.variational)
        self.last = _rounded(self.chain)  # whole, also in the middle of a sweep
        self.kept: list[SampledState] = []
        self.history: list[Record] = []
        self.started = time.perf_counter()

    @property
    def has_model(self) -> bool:
        return bool(self.history)

    def goes_on(self) -> bool:
        return len(self.history) < self.settings.n_sweeps

    def epoch(self) -> None:
        """One sweep, before the first of which the chain is put near where it will stay."""
        number = len(self.history) + 1
        if number == 1:
            self._warm_up()
        settling = number <= self.settings.burn_in
        self.chain = sweep(self.data, self.chain, number, self.settings.seed, settling=settling)
        self.last = _rounded(self.chain)
        if number in self.settings.kept:
            self.kept = [*self.kept, self.last]
            self._watch(self.last)
        rows, columns = self.chain.row_hyper, self.chain.column_hyper
        self.history.append(
            Record(
                number, self._validation(), self.chain.log_likelihood, rows.width_precision,
                columns.width_precision, rows.ridge, columns.ridge,
                time.perf_counter() - self.started,
            )
        )  # fmt: skip

    def _warm_up(self) -> None:
        data, state = on_cpu(self.data.answers), self.variational
        for number in range(1, _WARM_EPOCHS + 1):
            state = gaussian.epoch(data, state, number)
        self.chain = start(self.data, state)

    def _watch(self, kept: SampledState) -> None:
        if self.validation is not None:
            self.chance = self.chance + self._chance(kept)

    def _chance(self, state: SampledState) -> np.ndarray:
        """Probability of each held-out rating by one draw."""
        assert self.validation is not None
        models = Draws.of_states([state], self.data.n_levels).models()
        level = self.validation.level[:, None].astype(np.intp)
        return np.take_along_axis(probabilities(models, self.validation), level, axis=1)[:, 0]

    def _validation(self) -> float:
        if self.validation is None:
            return np.nan
        chance = self.chance / len(self.kept) if self.kept else self._chance(self.last)
        return float(np.log(np.maximum(chance, SMALLEST_PROBABILITY)).mean())

    def state(self) -> State:
        return {
            **flatten("chain", self.chain),
            **flatten("kept", self.kept),
            **flatten_history(self.history),
        }

    def restore(self, state: State) -> None:
        unwatched = ("validation",) if self.validation is None else ()
        self.history = unflatten_history(state, Record, unwatched=unwatched)
        self.chain = unflatten("chain", state, self.chain)
        n_kept = int(np.searchsorted(self.settings.kept, len(self.history), side="right"))
        self.last = like = _rounded(self.chain)
        self.kept = [unflatten(f"kept.{k}", state, like) for k in range(n_kept)]
        self.chance = np.zeros(1)
        for kept in self.kept:
            self._watch(kept)
        self.started = began(self.history)


def _rounded(state: SampledState) -> SampledState:
    """A copy of a draw as it is kept."""
    rows, columns = (
        side._replace(factors=side.factors.astype(np.float16), width=side.width.copy())
        for side in (state.rows, state.columns)
    )
    row_hyper, column_hyper = (
        hyper._replace(weights=hyper.weights.astype(np.float16))
        for hyper in (state.row_hyper, state.column_hyper)
    )
    return state._replace(
        rows=rows, columns=columns, row_hyper=row_hyper, column_hyper=column_hyper
    )

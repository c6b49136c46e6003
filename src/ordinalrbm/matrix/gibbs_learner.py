"""Learning by sampling: from a variational solution on, sweep after sweep; some are kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.drift import Bins, last_levels
from ordinalrbm.matrix import variational
from ordinalrbm.matrix.backends import refuse_different_ratings, single_backend
from ordinalrbm.matrix.draws import BLOCK, NO_WEIGHTS, BlockWeights, Draws, n_blocks
from ordinalrbm.matrix.drift import PlacedCells
from ordinalrbm.matrix.feature_priors import NO_TABLES, Tables
from ordinalrbm.matrix.gibbs_sampler import SampledState, placed, start, sweep
from ordinalrbm.matrix.predict import probabilities
from ordinalrbm.matrix.prepare import NO_TIMES, Fitted, RatingTimes
from ordinalrbm.runtime import process_group
from ordinalrbm.runtime.process_group import Alone, Group
from ordinalrbm.runtime.threads import one_blas_thread
from ordinalrbm.stats.mcmc_diagnostics import normal_scores, r_hat
from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY
from ordinalrbm.training import state as saving
from ordinalrbm.training.checkpoint import NO_CHECKPOINTS, Checkpoints
from ordinalrbm.training.loop import learn

# Epochs of the variational learner before the first sweep, as many as it has at most by default. There,
# factors that nothing speaks for fade soon; in a chain, where each side is given the other, in hundreds of
# sweeps.
_WARM_EPOCHS = 30
# Sweeps that are dropped: at least so many, and then until nothing has a trend, but at most so many.
_BURN_IN, _MOST_BURN_IN = 30, 150
# After so many sweeps the chain is looked at again. It has no trend where split R-hat of the last
# half is not above this: chance alone, in a chain that moves slowly, makes it more than 1.1.
_EVERY_LOOK, _NO_TREND = 10, 1.25
# Of so many sweeps two are kept, one after the other: they are on two sides of the mean.
_PER_PAIR = 4
# Of factors that the ratings can tell, by the rule for the variational model, twice as many: here
# those that are not needed are drawn around zero and do no harm.
_MORE_FACTORS = 2


@dataclass(frozen=True)
class SampledSettings:
    """Settings of the sampler; see :class:`ordinalrbm.OrdinalMF` for each."""

    n_factors: int
    n_epochs: int | None
    n_draws: int
    n_chains: int
    rated_sets: bool
    precisions: variational.Precisions
    seed: int
    device: str
    verbose: bool

    def of_rank(self, group: Group) -> SampledSettings:
        """Of one process of several: its part of the draws, and a seed of its own."""
        n_draws, device = -(-self.n_draws // group.size), self.device
        # Seeds of fits have 31 bits.
        return replace(
            self,
            n_draws=n_draws,
            seed=self.seed + (group.rank << 32),
            device=group.own_gpu() if device == "cuda" else device,
        )

    def of_chain(self, number: int) -> SampledSettings:
        """Of one chain of several, of this process: its part of the draws, and a seed of its own."""
        return replace(self, n_draws=-(-self.n_draws // self.n_chains), seed=self.seed + (number << 48))

    @property
    def most_dropped(self) -> int:
        """Sweeps that are dropped at most: a third, if it is given how many there are."""
        return min(_MOST_BURN_IN, self.n_epochs // 3) if self.n_epochs else _MOST_BURN_IN

    def n_sweeps(self, n_dropped: int) -> int:
        return self.n_epochs or n_dropped + _PER_PAIR * -(-self.n_draws // 2)

    def kept(self, n_dropped: int) -> np.ndarray:
        """Numbers of the sweeps that are kept: pairs of neighbours, evenly spaced to the last."""
        n_after = self.n_sweeps(n_dropped) - n_dropped
        if self.n_draws >= n_after:
            return n_dropped + np.arange(1, n_after + 1)
        draw = np.arange(self.n_draws)
        last_of_pair = (draw // 2 + 1) * n_after // -(-self.n_draws // 2)
        is_first = (draw % 2 == 0) & (draw + 1 < self.n_draws)
        return n_dropped + last_of_pair - is_first


class Record(NamedTuple):
    """One sweep; log probabilities are means per rating."""

    epoch: int
    validation: float  # of held-out ratings, by all draws kept so far; at first by this one
    log_likelihood: float  # of the ratings learnt from, given this draw
    user_width_precision: float
    item_width_precision: float
    item_gap_precision: float
    user_ridge: float  # precision of the weights of features, the mean over their kinds
    item_ridge: float
    scale_width: float  # from the lowest threshold to the highest, of the first scale
    drift: float  # standard deviation of its levels, zero if there is none
    chain: float  # from 1
    dropped: float  # 1 while the chain settled, then 0
    seconds: float


def _has_settled(history: list[Record]) -> bool:
    """Whether fit and scale have no trend in the last half of the sweeps so far.

    Ridges and widths move slowly and matter less: to wait for them would be to wait for long.
    """
    if len(history) < _BURN_IN or len(history) % _EVERY_LOOK:
        return False
    last = np.array([(line.log_likelihood, line.scale_width) for line in history[len(history) // 2 :]])
    return not any(r_hat(normal_scores(numbers)) > _NO_TREND for numbers in last.T)


def fit(
    observations: Observations,
    validation: Cells | None,
    settings: SampledSettings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    tables: Tables = NO_TABLES,
    times: RatingTimes = NO_TIMES,
    validation_weight: np.ndarray | None = None,
) -> Fitted:
    """Sample; Ctrl-C ends it and gives the draws kept so far, or the last one.

    Each process of a group has a chain of its own, and all get the draws of all of them.
    """
    group = process_group.current()
    if group is not None:
        refuse_different_ratings(group, observations)
        settings = settings.of_rank(group)
    drawn: list[Draws] = []
    history: list[Record] = []
    at_most, verbose = settings.of_chain(0).n_sweeps(settings.most_dropped), settings.verbose
    # Sums of matrix products must not depend on how many threads there are.
    with one_blas_thread():
        for number in range(settings.n_chains):
            chain = _Learner(observations, validation, settings.of_chain(number), tables, number, times)
            chain.validation_weight = validation_weight
            learner = chain if group is None else _Chains(chain, group)
            writer = checkpoints.of(f"sampled {number + 1}" if number else "sampled")
            interrupted = learn(learner, writer, at_most, verbose=verbose, watched="validation")
            if chain.history:
                drawn.append(chain.draws())
                history += chain.history
            if interrupted:
                break
    draws = Draws.joined(drawn) if group is None else Draws.joined(drawn).gathered(group)
    return Fitted([draws], len(history), history, interrupted)


class _Learner:
    schedule = None  # there is no learning rate

    def __init__(
        self,
        observations: Observations,
        validation: Cells | None,
        settings: SampledSettings,
        tables: Tables,
        number: int,
        times: RatingTimes,
    ) -> None:
        self.settings, self.tables, self.number = settings, tables, number
        self.backend = single_backend(settings.device)
        self.observations, self.validation = observations, validation
        self.validation_weight: np.ndarray | None = None
        rated_sets = settings.rated_sets
        self.data = self.backend.sampled(observations, tables, rated_sets=rated_sets, time=times.ratings)
        self.placed: PlacedCells | None = None  # validation ratings at their times
        if self.bins is not None and validation is not None:
            assert times.validation is not None
            self.placed = PlacedCells.of(validation, self.bins.at(validation.row, times.validation))
        self.chance = np.zeros(1)  # of each held-out rating, summed over kept draws
        n_factors = min(
            settings.n_factors, _MORE_FACTORS * variational.max_identifiable_factors(observations)
        )
        found = variational.start(observations, n_factors, settings.seed, settings.precisions)
        self.variational = variational.with_weights(found, tables, rated_sets=settings.rated_sets)
        if self.bins is not None:
            self.variational = variational.starting_to_drift(self.variational, self.bins)
        self.chain = start(self.data, self.variational)
        self.last = self._copied()  # whole, also in the middle of a sweep, until one is kept
        self.kept: list[SampledState] = []
        self.blocks: list[BlockWeights] = []  # sums; the last one is where the chain is
        self.history: list[Record] = []
        self.n_dropped: int | None = None if settings.most_dropped else 0  # None while it settles
        self.group: Alone | Group = process_group.ALONE  # whose chains settle together
        self.started = time.perf_counter()

    @property
    def bins(self) -> Bins | None:
        return None if self.data.bins is None else self.data.bins.bins

    @property
    def has_model(self) -> bool:
        return bool(self.history) or self.number > 0  # then there is that of the first chain

    def goes_on(self) -> bool:
        return self.n_dropped is None or len(self.history) < self.settings.n_sweeps(self.n_dropped)

    def epoch(self) -> None:
        """One sweep, before the first of which the chain is put near where it will stay."""
        number = len(self.history) + 1
        if number == 1:
            self._warm_up()
        settling = self.n_dropped is None
        with self.backend.working():
            self.chain = sweep(self.data, self.chain, number, self.settings.seed, settling=settling)
        if self.n_dropped is not None and number in self.settings.kept(self.n_dropped):
            self._keep()
        elif not self.kept:
            self.last = self._copied()
        rows, columns = self.chain.row_hyper, self.chain.column_hyper
        user_ridge, item_ridge = (float(np.mean(hyper.ridge or [0.0])) for hyper in (rows, columns))
        self.history.append(
            Record(
                number,
                self._validation(),
                self.chain.log_likelihood,
                rows.width_precision,
                columns.width_precision,
                self.chain.gap_precision,
                user_ridge,
                item_ridge,
                self._scale_width(),
                0.0 if self.bins is None else self.chain.drift.variance**0.5,
                1.0 + self.number,
                float(settling),
                time.perf_counter() - self.started,
            )
        )
        self._settle()

    def _settle(self) -> None:
        """End the burn-in by a rule; by the history alone, so that a fit that goes on does the same."""
        n_dropped, n = sum(line.dropped > 0.0 for line in self.history), len(self.history)
        is_over = n_dropped < n or n_dropped >= self.settings.most_dropped
        if is_over or all(self.group.all_gather_object(_has_settled(self.history))):
            self.n_dropped = n_dropped

    def _scale_width(self) -> float:
        gaps = self.chain.cutpoints[0, 1 : self.data.scales.n_levels[0] - 1]
        return float(np.exp(gaps).sum())

    def _warm_up(self) -> None:
        state, backend = self.variational, self.backend
        with backend.working():
            data = backend.data_of(self.data, self.observations, state.n_factors)
            state = backend.to_device(state)
            if self.settings.rated_sets or self.tables.are_any:
                data = variational.with_features_of(data, state, self.tables)
            for number in range(1, _WARM_EPOCHS + 1):
                state = variational.epoch(data, state, number)
            self.chain = start(self.data, backend.to_host(state), self.settings.seed)

    def _copied(self) -> SampledState:
        """The chain as it is; a sweep changes nothing else in place."""
        copied = self.data.engine.copied
        return self.chain._replace(rows=copied(self.chain.rows), columns=copied(self.chain.columns))

    def _as_kept(self, state: SampledState) -> SampledState:
        """A state on the host as draws are kept, without weights, of which means are kept."""
        as_kept, rows = self.data.engine.as_kept, state.rows
        if self.bins is not None:  # biases are those of now
            rows = self.data.engine.copied(rows)
            rows.factors[:, 0] += self.data.engine.array(
                last_levels(self.bins.start, state.drift.level), rows.factors
            )
        return state._replace(
            rows=as_kept(rows),
            columns=as_kept(state.columns),
            row_hyper=state.row_hyper._replace(weights=[]),
            column_hyper=state.column_hyper._replace(weights=[]),
        )

    def _weights(self, state: SampledState) -> BlockWeights:
        return BlockWeights.of_state(state, rated_sets=self.settings.rated_sets)

    def _keep(self) -> None:
        """Keep the chain as it is; Ctrl-C finds either all of this done or nothing."""
        draw, weights = self._as_kept(self.chain), self._weights(self.chain)
        if len(self.kept) % BLOCK:
            blocks = [*self.blocks[:-1], self.blocks[-1].plus(weights)]
        else:
            blocks = [*self.data.engine.on_host(self.blocks), weights]
        self._watch(draw)
        self.kept, self.blocks = [*self.kept, draw], blocks

    def draws(self) -> Draws:
        kept, blocks = self.kept, self.blocks
        if not kept:
            kept, blocks = [self._as_kept(self.last)], [self._weights(self.last)]
        blocks = self.data.engine.on_host(blocks)
        sizes = np.minimum(BLOCK, len(kept) - BLOCK * np.arange(len(blocks)))
        means = [block.over(int(size)) for block, size in zip(blocks, sizes, strict=True)]
        return Draws.of_states(kept, means, self.data.scales, self.bins)

    def _watch(self, kept: SampledState) -> None:
        if self.validation is not None:
            self.chance = self.chance + self._chance(kept)

    def _chance(self, state: SampledState) -> np.ndarray:
        assert self.validation is not None
        draw = Draws.of_states([state], [NO_WEIGHTS], self.data.scales, self.bins)
        models, cells = draw.models, self.validation
        if self.placed is not None:
            models, cells = draw.at(self.placed), self.placed.cells
        level = cells.level[:, None].astype(np.intp)
        return np.take_along_axis(probabilities(models, cells), level, axis=1)[:, 0]

    def _validation(self) -> float:
        if self.validation is None:
            return np.nan
        if self.kept:
            chance = self.chance / len(self.kept)
        else:
            chance = self._chance(self._as_kept(self.chain))
        found = np.log(np.maximum(chance, SMALLEST_PROBABILITY))
        return float(np.average(found, weights=self.validation_weight))

    def state(self) -> saving.State:
        return {
            **saving.flatten("chain", self.data.engine.on_host(self.chain)),
            **saving.flatten("kept", self.kept),
            **saving.flatten("blocks", self.data.engine.on_host(self.blocks)),
            **saving.flatten_history(self.history),
        }

    def restore(self, state: saving.State) -> None:
        unwatched = ("validation",) if self.validation is None else ()
        self.history = saving.unflatten_history(state, Record, unwatched=unwatched)
        engine = self.data.engine
        chain = saving.unflatten("chain", state, engine.on_host(self.chain))
        self.chain = placed(self.data, chain)
        self._settle()
        n_kept = 0
        if self.n_dropped is not None:
            kept = self.settings.kept(self.n_dropped)
            n_kept = int(np.searchsorted(kept, len(self.history), side="right"))
        self.last, like = self._copied(), self._as_kept(self.chain)
        self.kept = [saving.unflatten(f"kept.{k}", state, like) for k in range(n_kept)]
        weights = engine.on_host(self._weights(self.chain))
        blocks = [saving.unflatten(f"blocks.{k}", state, weights) for k in range(n_blocks(n_kept))]
        self.blocks = [*blocks[:-1], *engine.on_device(blocks[-1:], self.data.answers)]
        self.chance = np.zeros(1)
        for draw in self.kept:
            self._watch(draw)
        self.started = saving.virtual_start_time(self.history)


class _Chains:
    """The chain of this process in a group: its state is that of all of them."""

    schedule, has_model = None, False  # Ctrl-C finds the processes at different points

    def __init__(self, own: _Learner, group: Group) -> None:
        self.own, self.group = own, group
        own.group = group
        self.goes_on, self.epoch = own.goes_on, own.epoch

    @property
    def history(self) -> list[Record]:
        return self.own.history

    def state(self) -> saving.State:
        states = self.group.all_gather_object(self.own.state())
        return {
            f"chain_{rank}.{name}": part for rank, state in enumerate(states) for name, part in state.items()
        }

    def restore(self, state: saving.State) -> None:
        ranks = {name.partition(".")[0] for name in state}
        if len(ranks) != self.group.size:
            raise ValueError(f"it is of {len(ranks)} processes, and these are {self.group.size}")
        first = f"chain_{self.group.rank}."
        self.own.restore(
            {name.removeprefix(first): part for name, part in state.items() if name.startswith(first)}
        )

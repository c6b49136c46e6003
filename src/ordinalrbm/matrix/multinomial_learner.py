"""Learning the multinomial RBM, by contrastive divergence on the shared loop."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numba
import numpy as np
from numba import prange

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.philox import fill_uniforms, split_seed
from ordinalrbm.engine.side import Batch
from ordinalrbm.matrix.binary_learner import monitoring_sample
from ordinalrbm.matrix.multinomial import (
    MultinomialModel,
    Parameters,
    expected_factors,
    factor_probabilities,
    level_weights,
    mean_of,
)
from ordinalrbm.matrix.predict import log_probability
from ordinalrbm.matrix.prepare import Fitted
from ordinalrbm.matrix.variational_learner import Record
from ordinalrbm.runtime.jit import compiled, inlined
from ordinalrbm.training import schedule
from ordinalrbm.training.checkpoint import NO_CHECKPOINTS, Checkpoints
from ordinalrbm.training.loop import learn
from ordinalrbm.training.state import (
    LazyState,
    State,
    counter,
    flatten,
    flatten_history,
    unflatten,
    unflatten_history,
    virtual_start_time,
)

f32 = np.float32
_HALF, _ONE = f32(0.5), f32(1.0)
# What a random word is for, in the last counter word's low byte.
_ANSWERS, _FACTORS = 1, 2
# A column's marginals are learnt from its own answers and so many of the whole table.
_PSEUDO_ANSWERS = 5.0
_FIRST_WEIGHT = 0.01
_FIRST_DECAY, _SECOND_DECAY, _EPSILON = 0.9, 0.999, 1e-8
# A rise of the mean log probability that is worth waiting for.
_WORTHWHILE = 1e-4


@dataclass(frozen=True)
class MultinomialSettings:
    """Settings of the learner; see :class:`ordinalrbm.MultinomialRBM` for each."""

    n_factors: int
    learning_rate: float
    batch_size: int
    epochs_per_step: int
    weight_decay: float
    bias_decay: float
    averaged_epochs: int
    n_epochs: int
    patience: int
    seed: int
    verbose: bool


class Table(NamedTuple):
    """The answers in both views, as kernels want them."""

    row_start: np.ndarray
    column: np.ndarray
    level: np.ndarray
    column_start: np.ndarray
    entry_row: np.ndarray
    entry: np.ndarray
    n_levels: np.ndarray

    @classmethod
    def of(cls, observations: Observations) -> Self:
        view, answers = observations.column_view, (observations.row_start, observations.column)
        by_columns = (view.column_start, view.row, view.entry)
        return cls(*answers, observations.level, *by_columns, observations.n_levels)

    def columns_of(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Columns that a batch has answers of, and the share of all answers that it has of each."""
        entries = slice(self.row_start[batch.start], self.row_start[batch.stop])
        columns, n_answers = np.unique(self.column[entries], return_counts=True)
        of_all = self.column_start[columns + 1] - self.column_start[columns]
        return columns, (n_answers / of_all).astype(f32)


class _Moving(NamedTuple):
    """All that moves: parameters, Adam's moments, and the average of the last epochs."""

    parameters: Parameters
    first: Parameters
    second: Parameters
    average: Parameters


def fit(
    observations: Observations,
    validation: Cells | None,
    settings: MultinomialSettings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Fitted:
    """Learn a model; Ctrl-C ends learning and gives the best epoch so far."""
    learner, writer = _Learner(observations, validation, settings), checkpoints.of("multinomial")
    interrupted = learn(learner, writer, settings.n_epochs, verbose=settings.verbose, watched="validation")
    return Fitted([learner.model(learner.best)], learner.stopping.best_epoch, learner.history, interrupted)


class _Learner:
    def __init__(
        self, observations: Observations, validation: Cells | None, settings: MultinomialSettings
    ) -> None:
        self.observations, self.validation, self.settings = observations, validation, settings
        self.watched = monitoring_sample(observations)
        self.marginal = schedule.marginal_of_ratings(observations, self.watched.level)
        rng = np.random.default_rng(settings.seed)
        # Batches are neighbours, so that neighbours must have nothing in common.
        self.table = Table.of(observations.take_rows(rng.permutation(observations.n_rows)))
        parameters, self.mean_bias = _initial(observations, settings, rng)
        self.moving = _Moving(parameters, *(Parameters(*map(np.zeros_like, parameters)) for _ in range(3)))
        self.best = Parameters(*map(np.array, parameters))  # a copy: these change in place
        self.stopping = schedule.EarlyStopping(settings.patience, _WORTHWHILE)
        # Only for what it does when learning diverges: the rate does not fall by itself.
        self.schedule = schedule.Schedule(
            settings.learning_rate, n_epochs=settings.n_epochs, patience=settings.patience, fall=1.0
        )
        self.history: list[Record] = []
        self.started = time.perf_counter()

    @property
    def has_model(self) -> bool:
        return self.stopping.best_epoch > 0

    def goes_on(self) -> bool:
        return len(self.history) < self.settings.n_epochs and not self.stopping.is_over

    def epoch(self) -> None:
        """One pass over the rows, and a look at the validation ratings."""
        number = len(self.history) + 1
        self._pass(number)
        _fill_unseen(self.moving.average, self.observations)
        model = self.model(self.moving.average)
        schedule.refuse_divergence(model.weights, (model.bias, model.factor_bias))
        schedule.refuse_nonsense(log_probability([model], self.watched), self.marginal)
        value = np.nan
        if self.validation is not None:
            value = float(log_probability([model], self.validation).mean())
        self.history.append(Record(number, value, time.perf_counter() - self.started))
        if self.stopping.after(value):
            self.best = Parameters(*map(np.array, self.moving.average))

    def _pass(self, epoch: int) -> None:
        """Update the columns that each batch has answers of; at the end, all are up to date.

        There may be hundreds of thousands of columns, and a batch has answers of a few.
        """
        n_rows, settings = self.observations.n_rows, self.settings
        parameters, first, second, average = self.moving
        n_batches, rate = -(-n_rows // settings.batch_size), self.schedule.learning_rate
        n_updates = (epoch - 1) * n_batches
        up_to = np.full(self.observations.n_columns, n_updates)  # the last update of each column
        for batch in _batches(n_rows, epoch, settings):
            columns, share = self.table.columns_of(batch)
            _follow(self.moving, columns, up_to, n_updates, n_batches, rate)
            uphill = gradient(self.table, parameters, batch, columns)
            self._add_prior(uphill, columns, share)
            n_updates += 1
            _ascend(parameters, uphill, (first, second), columns, n_updates, rate)
            up_to[columns] = n_updates
        _follow(self.moving, np.arange(up_to.size), up_to, n_updates, n_batches, rate)
        newest = f32(1.0 / min(epoch, settings.averaged_epochs))
        for mean, now in zip(average, parameters, strict=True):
            _average(mean.reshape(-1), now.reshape(-1), newest)

    def _add_prior(self, uphill: Parameters, columns: np.ndarray, share: np.ndarray) -> None:
        weights, bias, _ = self.moving.parameters
        strength = f32(self.settings.weight_decay) * share
        _pull_to_common(uphill.weights, weights, columns, self.table.n_levels, strength)
        away = bias[columns] - self.mean_bias[columns]
        uphill.bias[...] -= f32(self.settings.bias_decay) * share[:, None] * away

    def model(self, average: Parameters) -> MultinomialModel:
        factors = expected_factors(average, self.observations)
        return MultinomialModel(*average, n_levels=self.observations.n_levels, factors=factors)

    def state(self) -> State:
        moving = flatten("moving", self.moving)
        best = self.best
        others = {**flatten("n_slowed", self.schedule.n_slowed), **flatten_history(self.history)}
        return LazyState(lambda: {**moving, **flatten("best", best), **others})

    def restore(self, state: State) -> None:
        unwatched = ("validation",) if self.validation is None else ()
        history = unflatten_history(state, Record, unwatched=unwatched)
        self.moving = unflatten("moving", state, self.moving)
        self.best = unflatten("best", state, self.best)
        self.stopping.replay(line.validation for line in history)
        self.schedule.replay((), counter("n_slowed", state, schedule.MOST_OFTEN))
        self.history, self.started = history, virtual_start_time(history)


def _fill_unseen(parameters: Parameters, observations: Observations) -> None:
    """Let columns without any answer be like the others on their scale, in place."""
    seen, n_levels = observations.column_counts > 0, observations.n_levels
    for scale in np.unique(n_levels[~seen]):
        alike = n_levels == scale
        if (alike & seen).any():
            for part in (parameters.weights, parameters.bias):
                part[alike & ~seen] = mean_of(part, alike & seen)


def _batches(n_rows: int, epoch: int, settings: MultinomialSettings) -> Iterator[Batch]:
    starts = np.arange(0, n_rows, settings.batch_size)
    gibbs_steps = 1 + ((epoch - 1) // settings.epochs_per_step if settings.epochs_per_step else 0)
    for start in np.random.default_rng([settings.seed, epoch]).permutation(starts):
        stop = min(int(start) + settings.batch_size, n_rows)
        yield Batch(int(start), stop, settings.seed, epoch, gibbs_steps)


def _initial(
    observations: Observations, settings: MultinomialSettings, rng: np.random.Generator
) -> tuple[Parameters, np.ndarray]:
    """Small random weights and the columns' marginals; also the marginals of the whole table."""
    n_levels, level = observations.n_levels, observations.level.astype(np.intp)
    width = int(n_levels.max(initial=1))
    exists = np.arange(width) < n_levels[:, None]
    counts = np.zeros((observations.n_columns, width))
    np.add.at(counts, (observations.column, level), 1.0)
    common = np.zeros_like(counts)
    for scale in np.unique(n_levels):
        total = counts[n_levels == scale, :scale].sum(axis=0) + 0.5
        common[n_levels == scale, :scale] = total / total.sum()
    own = counts + _PSEUDO_ANSWERS * common
    own /= own.sum(axis=1, keepdims=True)
    weights = rng.standard_normal((*counts.shape, settings.n_factors), dtype=f32)
    weights *= f32(_FIRST_WEIGHT) * exists[:, :, None]
    factor_bias = np.zeros(settings.n_factors, dtype=f32)
    bias, mean_bias = (_centred_logs(shares, exists) for shares in (own, common))
    return Parameters(weights, bias, factor_bias), mean_bias


def _centred_logs(shares: np.ndarray, exists: np.ndarray) -> np.ndarray:
    logs = np.log(np.where(exists, shares, 1.0))
    logs -= logs.sum(axis=1, keepdims=True) / exists.sum(axis=1, keepdims=True)
    return np.where(exists, logs, 0.0).astype(f32)


# ---- updates ----------------------------------------------------------------------------------


@compiled(parallel=True)
def _pull_to_common(gradient, weights, columns, n_levels, strength):
    for place in prange(columns.size):
        _pull_column(gradient[place], weights[columns[place]], n_levels[columns[place]], strength[place])


@inlined
def _pull_column(gradient, weights, n_levels, strength):
    for k in range(weights.shape[1]):
        common = f32(0.0)
        for level in range(n_levels):
            common += weights[level, k]
        common /= f32(n_levels)
        for level in range(n_levels):
            gradient[level, k] -= strength * (weights[level, k] - common)


def _scale(rate: float, n_updates: int) -> float:
    return rate * np.sqrt(1.0 - _SECOND_DECAY**n_updates) / (1.0 - _FIRST_DECAY**n_updates)


def _ascend(
    parameters: Parameters,
    uphill: Parameters,
    moments: tuple[Parameters, Parameters],
    columns: np.ndarray,
    n_updates: int,
    rate: float,
) -> None:
    """One step of Adam, in place, of the columns touched; ``n_updates`` counts from one."""
    scale, only = f32(_scale(rate, n_updates)), np.zeros(1, dtype=columns.dtype)
    for part, slope, first, second in zip(parameters, uphill, *moments, strict=True):
        which = only if part is parameters.factor_bias else columns
        if not which.size:
            continue  # nobody of this batch has rated anything
        slopes = slope.reshape(which.size, -1)
        _adam(which, *(_lines(each, part) for each in (part, first, second)), slopes, scale)


def _lines(array: np.ndarray, part: np.ndarray) -> np.ndarray:
    """One line for each column, and one for what all have in common."""
    return array.reshape(len(part) if part.ndim > 1 else 1, -1)


@compiled(parallel=True)
def _adam(columns, parameter, first, second, gradient, scale):
    for place in prange(columns.size):
        i = columns[place]
        for j in range(parameter.shape[1]):
            g = gradient[place, j]
            first[i, j] += f32(1.0 - _FIRST_DECAY) * (g - first[i, j])
            second[i, j] += f32(1.0 - _SECOND_DECAY) * (g * g - second[i, j])
            parameter[i, j] += scale * first[i, j] / (np.sqrt(second[i, j]) + f32(_EPSILON))


def _follow(
    moving: _Moving, columns: np.ndarray, up_to: np.ndarray, n_updates: int, n_batches: int, rate: float
) -> None:
    """Bring columns up to date, in place, that no batch has touched for a while.

    Adam goes on without a gradient: both moments fade, and with them the steps, whose sum is a
    geometric series but for the sizes of the first ones. Hence one step instead of many.
    """
    behind = n_updates - up_to[columns]
    columns, behind = columns[behind > 0], behind[behind > 0]
    fading = _FIRST_DECAY / np.sqrt(_SECOND_DECAY)
    along = np.zeros(n_batches + 1)  # by how many updates a column is behind
    for n in range(1, behind.max(initial=0) + 1):
        along[n] = fading * (along[n - 1] + _scale(rate, n_updates - n + 1))
    faded = [(decay**behind).astype(f32) for decay in (_FIRST_DECAY, _SECOND_DECAY)]
    for part, first, second in zip(moving.parameters[:2], moving.first[:2], moving.second[:2], strict=True):
        lines = (_lines(each, part) for each in (part, first, second))
        _glide(columns, *lines, along[behind].astype(f32), *faded)
    up_to[columns] = n_updates


@compiled(parallel=True)
def _glide(columns, parameter, first, second, along, first_faded, second_faded):
    for place in prange(columns.size):
        i = columns[place]
        for j in range(parameter.shape[1]):
            step = first[i, j] / (np.sqrt(second[i, j]) + f32(_EPSILON))
            parameter[i, j] += along[place] * step
            first[i, j] *= first_faded[place]
            second[i, j] *= second_faded[place]


@compiled(parallel=True)
def _average(mean, now, newest):
    for j in prange(mean.size):
        mean[j] += newest * (now[j] - mean[j])


class _Phases(NamedTuple):
    """What the row pass tells the column pass."""

    data_factors: np.ndarray
    fantasy_factors: np.ndarray
    fantasy_level: np.ndarray


class _Scratch(NamedTuple):
    """Working memory of the threads, one line each."""

    probability: np.ndarray
    drawn: np.ndarray
    logit: np.ndarray
    uniform: np.ndarray


# ---- contrastive divergence -------------------------------------------------------------------
# Row pass, then column pass. Every row and every column belongs to one thread and is summed in its
# own order, so that results do not depend on the number of threads. The bodies of the parallel
# loops are functions of their own: Numba removes stores into members of a tuple as dead code. (Its
# counters are unsigned in one of two passes, and a body would be compiled for each.)


def gradient(table: Table, parameters: Parameters, batch: Batch, columns: np.ndarray) -> Parameters:
    """Expectations given the answers minus those after some Gibbs steps, summed over a batch.

    Of these columns, which should be all that the batch has answers of: others have none.
    """
    n_rows, n_factors = batch.stop - batch.start, parameters.factor_bias.size
    n_entries = int(table.row_start[batch.stop] - table.row_start[batch.start])
    phases = _Phases(
        data_factors=np.empty((n_rows, n_factors), dtype=f32),
        fantasy_factors=np.empty((n_rows, n_factors), dtype=f32),
        fantasy_level=np.empty(n_entries, dtype=table.level.dtype),
    )
    draws = (*split_seed(batch.seed), np.uint64(batch.sweep), batch.gibbs_steps)
    scratch = _scratch(table, parameters, batch)
    _row_pass(table, parameters, batch.start, batch.stop, *draws, scratch, phases)
    result = Parameters(
        weights=np.zeros((columns.size, *parameters.weights.shape[1:]), dtype=f32),
        bias=np.zeros((columns.size, parameters.bias.shape[1]), dtype=f32),
        factor_bias=np.zeros(n_factors, dtype=f32),
    )
    _column_pass(table, columns, batch.start, batch.stop, phases, result)
    result.factor_bias[...] = (phases.data_factors - phases.fantasy_factors).sum(axis=0)
    return result


def _scratch(table: Table, parameters: Parameters, batch: Batch) -> _Scratch:
    threads, n_factors = numba.get_num_threads(), parameters.factor_bias.size
    longest = int(np.diff(table.row_start[batch.start : batch.stop + 1]).max(initial=0))
    return _Scratch(
        probability=np.empty((threads, n_factors), dtype=f32),
        drawn=np.empty((threads, n_factors), dtype=f32),
        logit=np.empty((threads, parameters.bias.shape[1]), dtype=f32),
        uniform=np.empty((threads, max(longest, n_factors) + 4)),
    )


@compiled(parallel=True)
def _row_pass(table, parameters, start, stop, key0, key1, sweep, gibbs_steps, scratch, phases):
    for row in prange(start, stop):
        _sweep_row(table, parameters, start, np.int64(row), key0, key1, sweep, gibbs_steps, scratch, phases)


@inlined
def _sweep_row(table, parameters, start, row, key0, key1, sweep, gibbs_steps, scratch, phases):
    thread = numba.get_thread_id()
    probability, drawn = scratch.probability[thread], scratch.drawn[thread]
    logit, uniform = scratch.logit[thread], scratch.uniform[thread]
    first = table.row_start[row]
    n = table.row_start[row + 1] - first
    here = first - table.row_start[start]
    column, answer = table.column[first : first + n], table.level[first : first + n]
    fantasy = phases.fantasy_level[here : here + n]
    factor_probabilities(parameters, column, answer, probability)
    for k in range(drawn.size):
        phases.data_factors[row - start, k] = probability[k]
    for step in range(gibbs_steps):
        fill_uniforms(uniform, drawn.size, row, sweep, _FACTORS | (step << 8), key0, key1)
        for k in range(drawn.size):
            drawn[k] = _HALF if uniform[k] < probability[k] else -_HALF
        fill_uniforms(uniform, n, row, sweep, _ANSWERS | (step << 8), key0, key1)
        for e in range(n):
            i = column[e]
            total = level_weights(parameters.weights[i], parameters.bias[i], drawn, table.n_levels[i], logit)
            fantasy[e] = _level_at(logit, table.n_levels[i], f32(uniform[e]) * total)
        factor_probabilities(parameters, column, fantasy, probability)
    for k in range(drawn.size):
        phases.fantasy_factors[row - start, k] = probability[k]


@inlined
def _level_at(weight, n_levels, share):
    """The level at which the running sum of the weights passes a share of it."""
    level = 0
    while level < n_levels - 1 and share >= weight[level]:
        share -= weight[level]
        level += 1
    return level


@compiled(parallel=True)
def _column_pass(table, columns, start, stop, phases, result):
    for place in prange(columns.size):
        _sum_column(
            table, np.int64(columns[place]), start, stop, phases, result.weights[place], result.bias[place]
        )


@inlined
def _sum_column(table, i, start, stop, phases, weights, bias):
    """Sum the batch's answers of one column, in the order of the rows."""
    end = table.column_start[i + 1]
    first_of_batch = table.row_start[start]
    place = table.column_start[i] + np.searchsorted(table.entry_row[table.column_start[i] : end], start)
    while place < end and table.entry_row[place] < stop:
        row = table.entry_row[place] - start
        answer = table.level[table.entry[place]]
        fantasy = phases.fantasy_level[table.entry[place] - first_of_batch]
        bias[answer] += _ONE
        bias[fantasy] -= _ONE
        for k in range(weights.shape[1]):
            weights[answer, k] += phases.data_factors[row, k] - _HALF
        for k in range(weights.shape[1]):
            weights[fantasy, k] -= phases.fantasy_factors[row, k] - _HALF
        place += 1

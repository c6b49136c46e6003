"""Multinomial restricted Boltzmann machine (Salakhutdinov, Mnih & Hinton, 2007).

Every answer is a softmax unit that knows nothing of the order of its levels; every row has K
binary factors h and only the columns it has answered:

    log Ψ(v, h) = Σ_i ( b_{i,v_i} + w_{i,v_i} · (h − ½) ) + γ · h

Counting factors from their middle makes b the bias at an undecided h. It is the same model as with
h in the product, and easier to learn: a weight then turns the preference of a row without shifting
that of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import prange
from scipy.special import expit

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.normal import single
from ordinalrbm.engine.philox import fill_uniforms, split_seed
from ordinalrbm.engine.sums import dot
from ordinalrbm.matrix.baselines.learning import Cells, Record, index_of, learn
from ordinalrbm.runtime.jit import compiled, inlined
from ordinalrbm.storage.reader import Stored

f32 = np.float32
_ZERO, _HALF, _ONE = f32(0.0), f32(0.5), f32(1.0)
# What a random word is for, in the last counter word's low byte.
_ANSWERS, _FACTORS = 1, 2
# A column's marginals are learnt from its own answers and so many of the whole table.
_PSEUDO_ANSWERS = 5.0
_FIRST_WEIGHT = 0.01
_FIRST_DECAY, _SECOND_DECAY, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Settings:
    """How to learn.

    Attributes
    ----------
    n_factors : int
        Number of binary factors of a row.
    learning_rate : float
        Of Adam.
    batch_size : int
        Rows per update.
    epochs_per_step : int
        Contrastive divergence starts with one Gibbs step and takes one more after every so many
        epochs; 0 keeps it at one.
    weight_decay, bias_decay : float
        Precisions of the Gaussian priors: of how the weights of a column's levels differ from
        each other, and of how its biases differ from those of the whole table.
    averaged_epochs : int
        The model is an average over about so many of the last epochs, which takes out the noise
        of sampling.
    n_epochs, patience : int
        Largest number of epochs, and after how many without improvement learning ends.
    seed : int
        Of weights at the start, of the order of rows and of the chains.
    """

    n_factors: int = 50
    learning_rate: float = 0.002
    batch_size: int = 200
    epochs_per_step: int = 10
    weight_decay: float = 8.0
    bias_decay: float = 2.5
    averaged_epochs: int = 10
    n_epochs: int = 150
    patience: int = 6
    seed: int = 0


class MultinomialRBM(NamedTuple):
    """Parameters, and the factors of the rows that were learnt from.

    Attributes
    ----------
    weights : (N, L, K) float32, w
    bias : (N, L) float32, b
    factor_bias : (K,) float32, γ
    n_levels : (N,) int32; levels beyond a column's own have zero weights and are never predicted
    factors : (D, K) float32, P(h = 1 | v) of each row
    """

    weights: np.ndarray
    bias: np.ndarray
    factor_bias: np.ndarray
    n_levels: np.ndarray
    factors: np.ndarray

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> MultinomialRBM:
        """The model of a file whose columns are on scales of so many levels."""
        n_columns, most = n_levels.size, int(n_levels.max())
        weights = stored.parameter("weights", f32, (n_columns, most, None))
        n_factors = weights.shape[2]
        return cls(
            weights=weights,
            bias=stored.parameter("bias", f32, (n_columns, most)),
            factor_bias=stored.parameter("factor_bias", f32, (n_factors,)),
            n_levels=n_levels,
            factors=stored.parameter("factors", f32, (n_rows, n_factors)),
        )


class Parameters(NamedTuple):
    """What is learnt; also the shape of a gradient and of Adam's moments."""

    weights: np.ndarray
    bias: np.ndarray
    factor_bias: np.ndarray


class Table(NamedTuple):
    """The answers in both views, as kernels want them."""

    row_start: np.ndarray
    column: np.ndarray
    level: np.ndarray
    column_start: np.ndarray
    entry_row: np.ndarray
    entry: np.ndarray
    n_levels: np.ndarray


class Batch(NamedTuple):
    """A run of neighbouring rows, and what names its random draws."""

    start: int
    stop: int
    seed: int
    sweep: int
    cutpoints: int


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


# ---- the public part --------------------------------------------------------------------------


def fit(
    observations: Observations,
    validation: Cells | None = None,
    settings: Settings | None = None,
    verbose: bool = False,
) -> tuple[MultinomialRBM, list[Record]]:
    """Learn from the levels of a table, by contrastive divergence.

    Parameters
    ----------
    observations : Observations
    settings : Settings, optional
    validation, verbose
        See :func:`~ordinalrbm.matrix.baselines.learning.learn`.

    Returns
    -------
    model : MultinomialRBM
    history : list of Record

    Examples
    --------
    >>> table = Observations.from_dense([[0, 2, -1], [2, -1, 1], [-1, 2, 1]] * 20, n_levels=3)
    >>> model, _ = fit(table, settings=Settings(n_factors=2, n_epochs=3))
    >>> predict_proba(model, [0, -1], [2, -1]).argmax(axis=1).tolist()
    [1, 2]
    """
    settings = settings or Settings()
    return learn(
        _epochs(observations, settings),
        validation, predict_proba, settings.n_epochs, settings.patience, verbose,
    )  # fmt: skip


def fold_in_rows(model: MultinomialRBM, observations: Observations) -> np.ndarray:
    """Factors of new rows, given their answers.

    ``model._replace(factors=...)`` then predicts the cells of these rows.
    """
    parameters = Parameters(model.weights, model.bias, model.factor_bias)
    return expected_factors(parameters, _table(observations))


def predict_proba(model: MultinomialRBM, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(cells, L): probability of each level of some cells, given the rows' expected factors."""
    rows, columns = index_of(rows), index_of(columns)
    factors = np.vstack([model.factors, expit(model.factor_bias)])
    weights, bias = typical_column(model)
    result = np.zeros((len(rows), model.bias.shape[1]), dtype=f32)
    _predict(
        rows, columns, factors,
        np.concatenate([model.weights, weights[None]]),
        np.concatenate([model.bias, bias[None]]),
        np.append(model.n_levels, model.bias.shape[1]),
        result,
    )  # fmt: skip
    return result / result.sum(axis=1, keepdims=True, dtype=np.float64)


def typical_column(model: MultinomialRBM) -> tuple[np.ndarray, np.ndarray]:
    """Weights and biases of a column that nobody has seen: the mean of those on its scale."""
    alike = model.n_levels == model.bias.shape[1]
    return model.weights[alike].mean(axis=0), model.bias[alike].mean(axis=0)


# ---- the loop ---------------------------------------------------------------------------------


def _epochs(observations: Observations, settings: Settings) -> Iterator[MultinomialRBM]:
    rng = np.random.default_rng(settings.seed)
    # Batches are neighbours, so that neighbours must be strangers.
    table = _table(observations.take_rows(rng.permutation(observations.n_rows)))
    in_order = _table(observations)
    parameters, usual_bias = _initial(observations, settings, rng)
    moments = (_zeros_like(parameters), _zeros_like(parameters))
    average = _zeros_like(parameters)
    n_cutpoints, epoch = 0, 0
    while True:
        epoch += 1
        for batch in _batches(observations.n_rows, epoch, settings):
            uphill = gradient(table, parameters, batch)
            share = (batch.stop - batch.start) / observations.n_rows
            _add_prior(uphill, parameters, usual_bias, table.n_levels, share, settings)
            n_cutpoints += 1
            _ascend(parameters, uphill, moments, n_cutpoints, settings.learning_rate)
        newest = 1.0 / min(epoch, settings.averaged_epochs)
        for mean, now in zip(average, parameters, strict=True):
            mean += f32(newest) * (now - mean)
        yield _model(average, in_order)


def _model(average: Parameters, table: Table) -> MultinomialRBM:
    """The model of an epoch, in arrays of its own."""
    kept = Parameters(*(np.array(part) for part in average))
    _fill_unseen(kept, table)
    factors = expected_factors(kept, table)
    return MultinomialRBM(*kept, n_levels=table.n_levels, factors=factors)


def _fill_unseen(parameters: Parameters, table: Table) -> None:
    """Columns without any answer become like the others on their scale."""
    seen = np.diff(table.column_start) > 0
    for scale in np.unique(table.n_levels):
        alike = table.n_levels == scale
        if (alike & seen).any():
            for part in (parameters.weights, parameters.bias):
                part[alike & ~seen] = part[alike & seen].mean(axis=0)


def _batches(n_rows: int, epoch: int, settings: Settings) -> Iterator[Batch]:
    starts = np.arange(0, n_rows, settings.batch_size)
    cutpoints = 1 + ((epoch - 1) // settings.epochs_per_step if settings.epochs_per_step else 0)
    for start in np.random.default_rng([settings.seed, epoch]).permutation(starts):
        stop = min(int(start) + settings.batch_size, n_rows)
        yield Batch(int(start), stop, settings.seed, epoch, cutpoints)


def _initial(
    observations: Observations, settings: Settings, rng: np.random.Generator
) -> tuple[Parameters, np.ndarray]:
    """Small random weights and the columns' marginals; also the marginals of the whole table."""
    n_levels, level = observations.n_levels, observations.level.astype(np.intp)
    width = int(n_levels.max(initial=1))
    exists = np.arange(width) < n_levels[:, None]
    counts = np.zeros((observations.n_columns, width))
    np.add.at(counts, (observations.column, level), 1.0)
    usual = np.zeros_like(counts)
    for scale in np.unique(n_levels):
        total = counts[n_levels == scale, :scale].sum(axis=0) + 0.5
        usual[n_levels == scale, :scale] = total / total.sum()
    own = counts + _PSEUDO_ANSWERS * usual
    own /= own.sum(axis=1, keepdims=True)
    weights = rng.standard_normal((*counts.shape, settings.n_factors), dtype=f32)
    weights *= f32(_FIRST_WEIGHT) * exists[:, :, None]
    factor_bias = np.zeros(settings.n_factors, dtype=f32)
    return Parameters(weights, _centred_logs(own, exists), factor_bias), _centred_logs(
        usual, exists
    )


def _centred_logs(shares: np.ndarray, exists: np.ndarray) -> np.ndarray:
    """Logarithms with mean zero over the levels that exist, and zero elsewhere."""
    logs = np.log(np.where(exists, shares, 1.0))
    logs -= logs.sum(axis=1, keepdims=True) / exists.sum(axis=1, keepdims=True)
    return np.where(exists, logs, 0.0).astype(f32)


def _zeros_like(parameters: Parameters) -> Parameters:
    return Parameters(*(np.zeros_like(part) for part in parameters))


def _table(observations: Observations) -> Table:
    view = observations.column_view
    return Table(
        observations.row_start, observations.column, observations.level,
        view.column_start, view.row, view.entry, observations.n_levels,
    )  # fmt: skip


# ---- updates ----------------------------------------------------------------------------------


def _add_prior(
    uphill: Parameters, parameters: Parameters, usual_bias: np.ndarray, n_levels: np.ndarray,
    share: float, settings: Settings,
) -> None:  # fmt: skip
    """Add the gradient of the log prior, by the batch's share of the rows.

    What the weights of a column have in common cancels in its own softmax: it tells what having
    answered at all says about the row, and is left free.
    """
    # Levels that a column does not have hold zeros.
    common = parameters.weights.sum(axis=1) / n_levels[:, None].astype(f32)
    _pull_to_common(uphill.weights, parameters.weights, common, n_levels,
                    f32(share * settings.weight_decay))  # fmt: skip
    uphill.bias[...] -= f32(share * settings.bias_decay) * (parameters.bias - usual_bias)


@compiled(parallel=True)
def _pull_to_common(gradient: Any, weights: Any, common: Any, n_levels: Any, strength: Any) -> None:
    for i in prange(n_levels.size):
        for level in range(n_levels[i]):
            for k in range(common.shape[1]):
                gradient[i, level, k] -= strength * (weights[i, level, k] - common[i, k])


def _ascend(
    parameters: Parameters, uphill: Parameters, moments: tuple[Parameters, Parameters],
    n_cutpoints: int, rate: float,
) -> None:  # fmt: skip
    """One step of Adam, in place; ``n_steps`` counts from one."""
    scale = f32(
        rate * np.sqrt(1.0 - _SECOND_DECAY**n_cutpoints) / (1.0 - _FIRST_DECAY**n_cutpoints)
    )
    for part, slope, first, second in zip(parameters, uphill, *moments, strict=True):
        _adam(part.reshape(-1), slope.reshape(-1), first.reshape(-1), second.reshape(-1), scale)


@compiled(parallel=True)
def _adam(parameter: Any, gradient: Any, first: Any, second: Any, scale: Any) -> None:
    for j in prange(parameter.size):
        g = gradient[j]
        first[j] += f32(1.0 - _FIRST_DECAY) * (g - first[j])
        second[j] += f32(1.0 - _SECOND_DECAY) * (g * g - second[j])
        parameter[j] += scale * first[j] / (np.sqrt(second[j]) + f32(_EPSILON))


# ---- contrastive divergence -------------------------------------------------------------------
# Row pass, then column pass. Every row and every column belongs to one thread and is summed in its
# own order, so that results do not depend on the number of threads. The bodies of the parallel
# loops are functions of their own: Numba removes stores into members of a tuple as dead code. (Its
# counters are unsigned in one of two passes, and a body would be compiled for each.)


def gradient(table: Table, parameters: Parameters, batch: Batch) -> Parameters:
    """Expectations given the answers minus those after some Gibbs steps, summed over a batch."""
    n_rows, n_factors = batch.stop - batch.start, parameters.factor_bias.size
    n_entries = int(table.row_start[batch.stop] - table.row_start[batch.start])
    phases = _Phases(
        data_factors=np.empty((n_rows, n_factors), dtype=f32),
        fantasy_factors=np.empty((n_rows, n_factors), dtype=f32),
        fantasy_level=np.empty(n_entries, dtype=table.level.dtype),
    )
    key0, key1 = split_seed(batch.seed)
    _row_pass(
        table, parameters, batch.start, batch.stop, key0, key1, np.uint64(batch.sweep),
        batch.cutpoints, _scratch(table, parameters, batch), phases,
    )  # fmt: skip
    result = _zeros_like(parameters)
    _column_pass(table, batch.start, batch.stop, phases, result)
    result.factor_bias[...] = (phases.data_factors - phases.fantasy_factors).sum(axis=0)
    return result


def expected_factors(parameters: Parameters, table: Table) -> np.ndarray:
    """P(h = 1 | v) of every row."""
    factors = np.empty((table.row_start.size - 1, parameters.factor_bias.size), dtype=f32)
    _expect_factors(table, parameters, factors)
    return factors


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
def _row_pass(
    table: Any, parameters: Any, start: Any, stop: Any, key0: Any, key1: Any, sweep: Any,
    cutpoints: Any, scratch: Any, phases: Any,
) -> None:  # fmt: skip
    for row in prange(start, stop):
        _sweep_row(
            table, parameters, start, np.int64(row), key0, key1, sweep, cutpoints, scratch, phases
        )


@inlined
def _sweep_row(
    table: Any, parameters: Any, start: Any, row: Any, key0: Any, key1: Any, sweep: Any,
    cutpoints: Any, scratch: Any, phases: Any,
) -> None:  # fmt: skip
    thread = numba.get_thread_id()
    probability, drawn = scratch.probability[thread], scratch.drawn[thread]
    logit, uniform = scratch.logit[thread], scratch.uniform[thread]
    first = table.row_start[row]
    n = table.row_start[row + 1] - first
    here = first - table.row_start[start]
    column, answer = table.column[first : first + n], table.level[first : first + n]
    fantasy = phases.fantasy_level[here : here + n]
    _factor_probabilities(parameters, column, answer, probability)
    for k in range(drawn.size):
        phases.data_factors[row - start, k] = probability[k]
    for step in range(cutpoints):
        fill_uniforms(uniform, drawn.size, row, sweep, _FACTORS | (step << 8), key0, key1)
        for k in range(drawn.size):
            drawn[k] = _HALF if uniform[k] < probability[k] else -_HALF
        fill_uniforms(uniform, n, row, sweep, _ANSWERS | (step << 8), key0, key1)
        for e in range(n):
            i = column[e]
            total = _level_weights(parameters.weights[i], parameters.bias[i], drawn,
                                   table.n_levels[i], logit)  # fmt: skip
            fantasy[e] = _level_at(logit, table.n_levels[i], f32(uniform[e]) * total)
        _factor_probabilities(parameters, column, fantasy, probability)
    for k in range(drawn.size):
        phases.fantasy_factors[row - start, k] = probability[k]


@inlined
def _factor_probabilities(parameters: Any, column: Any, level: Any, probability: Any) -> None:
    for k in range(probability.size):
        probability[k] = parameters.factor_bias[k]
    for e in range(column.size):
        weights = parameters.weights[column[e], level[e]]
        for k in range(probability.size):
            probability[k] += weights[k]
    for k in range(probability.size):
        probability[k] = single.logistic(probability[k])


@inlined
def _level_weights(weights: Any, bias: Any, centred: Any, n_levels: Any, weight: Any) -> Any:
    """Weight of each level in a column's softmax, the largest being one; returns their sum."""
    highest = f32(-np.inf)
    for level in range(n_levels):
        weight[level] = bias[level] + dot(weights[level], centred)
        highest = max(highest, weight[level])
    total = _ZERO
    for level in range(n_levels):
        weight[level], _ = single.exp_and_fall(weight[level] - highest)
        total += weight[level]
    return total


@inlined
def _level_at(weight: Any, n_levels: Any, share: Any) -> Any:
    """The level at which the running sum of the weights passes a share of it."""
    level = 0
    while level < n_levels - 1 and share >= weight[level]:
        share -= weight[level]
        level += 1
    return level


@compiled(parallel=True)
def _column_pass(table: Any, start: Any, stop: Any, phases: Any, result: Any) -> None:
    for i in prange(table.n_levels.size):
        _sum_column(table, np.int64(i), start, stop, phases, result.weights[i], result.bias[i])


@inlined
def _sum_column(
    table: Any, i: Any, start: Any, stop: Any, phases: Any, weights: Any, bias: Any
) -> None:
    """Sum the batch's answers of one column, in the order of the rows."""
    end = table.column_start[i + 1]
    first_of_batch = table.row_start[start]
    place = table.column_start[i] + np.searchsorted(
        table.entry_row[table.column_start[i] : end], start
    )
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


@compiled(parallel=True)
def _expect_factors(table: Any, parameters: Any, factors: Any) -> None:
    for row in prange(factors.shape[0]):
        first, last = table.row_start[row], table.row_start[row + 1]
        _factor_probabilities(
            parameters, table.column[first:last], table.level[first:last], factors[row]
        )


@compiled(parallel=True)
def _predict(
    rows: Any, columns: Any, factors: Any, weights: Any, bias: Any, n_levels: Any, result: Any
) -> None:
    for cell in prange(rows.size):
        _predict_cell(rows[cell], columns[cell], factors, weights, bias, n_levels, result[cell])


@inlined
def _predict_cell(
    row: Any, column: Any, factors: Any, weights: Any, bias: Any, n_levels: Any, result: Any
) -> None:
    centred = factors[row] - _HALF
    _level_weights(weights[column], bias[column], centred, n_levels[column], result)

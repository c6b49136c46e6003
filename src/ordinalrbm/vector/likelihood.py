"""log P(v): exactly, by enumeration of the factors, or estimated by annealed importance sampling.

With the utilities integrated out, a state h of the factors has the unnormalised probability

    log P*(h) = γ·h + Σ_i (α_i + w_i·h)²/2        log P(v | h) = Σ_i log[Φ(b_i) − Φ(a_i)]

with the sum over the row's own columns. Hence log P(v) = log Σ_h P*(h) P(v|h) − log Σ_h P*(h).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln, logsumexp

from ordinalrbm.engine import annealing, normal_reference
from ordinalrbm.engine.side import Side
from ordinalrbm.errors import DataError
from ordinalrbm.vector.model import VectorModel

MAX_STATES = 2**16
_CHUNK = 2**24  # states times rows held at a time: 128 MB


class Estimate(NamedTuple):
    """Log-likelihood of each row, and its standard error (zero when exact)."""

    value: np.ndarray
    standard_error: np.ndarray


class _Enumeration(NamedTuple):
    """Everything that depends on the state alone, for all states."""

    states: np.ndarray  # (S, K)
    prior: np.ndarray  # (S,): γ·h, and the number of ways to switch on so many units
    mean: np.ndarray  # (N, S)
    log_level: np.ndarray  # (N, L + 2, S): log P(level | h); the unknown level has log 1


def n_states(model: VectorModel) -> float:
    return float(model.units + 1) ** model.n_factors


def exact(model: VectorModel, this: Side) -> Estimate:
    return _over_styles(model, this, lambda styled, _: _exact(model, styled))


def _over_styles(
    model: VectorModel, this: Side, given_style: Callable[[Side, int], Estimate]
) -> Estimate:
    """Sum over the response styles: each is the plain model with other thresholds.

    Styles are numbered, so that each has draws of its own: only then do errors add in squares.
    """
    estimates = [
        given_style(this._replace(thresholds=stretch * this.thresholds), style)
        for style, stretch in enumerate(model.stretches)
    ]
    joint = np.log(model.style_weights)[:, None] + np.stack([e.value for e in estimates])
    value = logsumexp(joint, axis=0)
    errors = np.exp(joint - value) * np.stack([e.standard_error for e in estimates])
    return Estimate(value, np.sqrt((errors**2).sum(axis=0)))


def _exact(model: VectorModel, this: Side) -> Estimate:
    every = _enumerate(model, this)
    value = np.empty(this.n_rows)
    size = max(1, _CHUNK // every.prior.size)
    for start in range(0, this.n_rows, size):
        rows = slice(start, min(start + size, this.n_rows))
        clamped, free = _log_joint(this, every, rows)
        value[rows] = logsumexp(clamped, axis=1) - logsumexp(free, axis=1)
    return Estimate(value, np.zeros(this.n_rows))


def exact_posterior(model: VectorModel, this: Side) -> tuple[np.ndarray, np.ndarray]:
    """States (S, K) and P(h | v), (rows, S)."""
    every = _enumerate(model, this)
    clamped, _ = _log_joint(this, every, slice(0, this.n_rows))
    return every.states, np.exp(clamped - logsumexp(clamped, axis=1, keepdims=True))


def exact_log_partition(model: VectorModel, this: Side) -> np.ndarray:
    """Log Σ_h P*(h) over each row's own columns."""
    every = _enumerate(model, this)
    _, free = _log_joint(this, every, slice(0, this.n_rows))
    return logsumexp(free, axis=1)


def annealed(
    model: VectorModel, this: Side, seed: int, *, n_temperatures: int = 500, n_chains: int = 32
) -> Estimate:
    """Estimate by annealed importance sampling (Neal 2001), two runs per row.

    One run estimates the sum over factors with the row's answers given, one without them. The
    standard error is that of the two averages of weights, carried to their logarithms.
    """

    def given_style(styled: Side, style: int) -> Estimate:
        own = _seed_of_run(seed, 1 + style)
        return _log_sum(model, styled, True, own, n_temperatures, n_chains)

    given = _over_styles(model, this, given_style)
    alone = log_partition(model, this, seed, n_temperatures=n_temperatures, n_chains=n_chains)
    return Estimate(given.value - alone.value, np.hypot(given.standard_error, alone.standard_error))


def log_partition(
    model: VectorModel, this: Side, seed: int, *, n_temperatures: int = 500, n_chains: int = 32
) -> Estimate:
    """Estimate of log Σ_h P*(h) over each row's own columns."""
    return _log_sum(model, this, False, _seed_of_run(seed, 0), n_temperatures, n_chains)


def _seed_of_run(seed: int, number: int) -> int:
    """A seed for each run of an estimate, none of which may draw the numbers of another."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])


def _log_sum(
    model: VectorModel, this: Side, given: bool, seed: int, n_temperatures: int, n_chains: int
) -> Estimate:
    """Log of the sum over factors, with the row's answers given or without them."""
    path = np.linspace(0.0, 1.0, n_temperatures + 1)
    log_weights = annealing.log_importance_weights(this, given, path, n_chains, seed)
    value = logsumexp(log_weights, axis=1) - np.log(n_chains)
    relative = np.exp(log_weights - value[:, None])
    error = relative.std(axis=1, ddof=1) / np.sqrt(n_chains)
    return Estimate(value + _log_independent(model, this, given), error)


def _log_independent(model: VectorModel, this: Side, given: bool) -> np.ndarray:
    """Log of the sum at the start of the path, where no weight couples anything."""
    factors = model.units * np.logaddexp(0.0, model.factor_bias.astype(np.float64)).sum()
    offset = this.offset if this.offset.size else 0.0
    mean = this.bias[this.column].astype(np.float64) + offset
    answers = 0.5 * mean * mean
    if given:
        level = this.level.astype(np.intp)
        low = this.thresholds[this.column, level] - mean
        high = this.thresholds[this.column, level + 1] - mean
        answers += normal_reference.log_mass(low, high)
    index = np.zeros(answers.size, dtype=np.int32)
    table = sparse.csr_array((answers, index, this.row_start), shape=(this.n_rows, 1))
    return factors + np.asarray(table.sum(axis=1)).reshape(-1)


def _enumerate(model: VectorModel, this: Side) -> _Enumeration:
    if n_states(model) > MAX_STATES:
        raise DataError(
            f"Exact enumeration needs {n_states(model):.3g} states for {model.n_factors} factors "
            f"of {model.units} unit(s); at most {MAX_STATES} are enumerated, "
            "so use method='ais', or fit a model with n_factors <= 16."
        )
    digits = np.indices((model.units + 1,) * model.n_factors).reshape(model.n_factors, -1)
    states = digits.T.astype(np.float64)
    ways = gammaln(model.units + 1) - gammaln(states + 1) - gammaln(model.units - states + 1)
    mean = model.bias[:, None].astype(np.float64) + model.weights.astype(np.float64) @ states.T
    bounds = this.thresholds
    log_level = np.full((bounds.shape[0], bounds.shape[1] - 1, states.shape[0]), -np.inf)
    for level in range(bounds.shape[1] - 1):
        some = bounds[:, level] < bounds[:, level + 1]
        low, high = bounds[some, level, None], bounds[some, level + 1, None]
        log_level[some, level] = normal_reference.log_mass(low - mean[some], high - mean[some])
    prior = states @ model.factor_bias.astype(np.float64) + ways.sum(axis=1)
    return _Enumeration(states, prior, mean, log_level)


def _log_joint(this: Side, every: _Enumeration, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """Log P*(h) P(v|h) and log P*(h), each (rows, S)."""
    if this.offset.size:
        raise ValueError("Enumeration has no offsets: put them into the bias of a one-row model.")
    first, last = this.row_start[rows.start], this.row_start[rows.stop]
    start = this.row_start[rows.start : rows.stop + 1] - first
    column, level = this.column[first:last], this.level[first:last].astype(np.int64)
    n_columns, n_levels, n_all = every.log_level.shape
    ones = np.ones(column.size)
    shape = (rows.stop - rows.start, n_columns)
    answered = sparse.csr_array((ones, column, start), shape=shape)
    free = every.prior + answered @ (0.5 * every.mean**2)
    place = column.astype(np.int64) * n_levels + level
    shape = (rows.stop - rows.start, n_columns * n_levels)
    chosen = sparse.csr_array((ones, place, start), shape=shape)
    return free + chosen @ every.log_level.reshape(-1, n_all), free

"""log P(v): exactly, by enumeration of the factors, or estimated by annealed importance sampling.

With the utilities integrated out, a state h of the factors has the unnormalised probability

    log P*(h) = γ·h + Σ_i (α_i + w_i·h)²/2        log P(v | h) = Σ_i log[Φ(b_i) − Φ(a_i)]

with the sum over the row's own columns. Hence log P(v) = log Σ_h P*(h) P(v|h) − log Σ_h P*(h).

Categories of a nominal question have log Σ_l exp(μ_l(h)) instead of half a square, and the softmax
of their μ as their probabilities; a number has a density.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln, logsumexp

from ordinalrbm.engine import annealing, normal_reference
from ordinalrbm.engine.side import CATEGORY, NUMBER, Side
from ordinalrbm.errors import DataError
from ordinalrbm.vector.model import VectorModel

MAX_STATES = 2**16
_CHUNK = 2**24  # states times rows held at a time: 128 MB


class Estimate(NamedTuple):
    """Log-likelihoods, of each row for surveys, and their standard errors (zero when exact)."""

    value: np.ndarray
    standard_error: np.ndarray


class _Enumeration(NamedTuple):
    """Everything that depends on the state alone, for all states."""

    prior: np.ndarray  # (S,): γ·h, and the number of ways to switch on so many units
    mean: np.ndarray  # (N, S)
    log_prior: np.ndarray  # (N, S): what an answer adds to log P*(h), whatever it is
    log_level: np.ndarray  # (N, L + 2, S): log P(level | h); the unknown level has log 1


def n_states(model: VectorModel) -> float:
    return float(model.units + 1) ** model.n_factors


def exact(model: VectorModel, this: Side) -> Estimate:
    return _over_styles(model, this, lambda styled, _: _exact(model, styled))


def _over_styles(model: VectorModel, this: Side, given_style: Callable[[Side, int], Estimate]) -> Estimate:
    """Sum over the response styles: each is the plain model with other thresholds.

    Styles are numbered, so that each has draws of its own: only then do errors add in squares.
    """
    estimates = [
        given_style(this._replace(thresholds=_stretched(this, stretch)), style)
        for style, stretch in enumerate(model.stretches)
    ]
    joint = np.log(model.style_weights)[:, None] + np.stack([e.value for e in estimates])
    value = logsumexp(joint, axis=0)
    errors = np.exp(joint - value) * np.stack([e.standard_error for e in estimates])
    return Estimate(value, np.sqrt((errors**2).sum(axis=0)))


def _stretched(this: Side, stretch: float) -> np.ndarray:
    """Thresholds in a response style, which does not touch the scales of numbers."""
    bounds = stretch * this.thresholds
    if this.members.size:
        is_number = this.members == NUMBER
        bounds[is_number] = this.thresholds[is_number]
    return bounds


def _exact(model: VectorModel, this: Side) -> Estimate:
    value = np.empty(this.n_rows)
    for rows, own, part in _alike(model, this):
        every = _enumerate(own, part)
        size = max(1, _CHUNK // every.prior.size)
        for start in range(0, part.n_rows, size):
            some = slice(start, min(start + size, part.n_rows))
            clamped, free = _log_joint(part, every, some)
            value[rows[some]] = logsumexp(clamped, axis=1) - logsumexp(free, axis=1)
    return Estimate(value, np.zeros(this.n_rows))


def exact_posterior(model: VectorModel, this: Side) -> tuple[np.ndarray, np.ndarray]:
    states = _states(model)
    result = np.empty((this.n_rows, len(states)))
    for rows, own, part in _alike(model, this):
        clamped, _ = _log_joint(part, _enumerate(own, part), slice(0, part.n_rows))
        result[rows] = np.exp(clamped - logsumexp(clamped, axis=1, keepdims=True))
    return states, result


def _alike(model: VectorModel, this: Side) -> Iterator[tuple[np.ndarray, VectorModel, Side]]:
    """Rows of the same background, the model that they share, and their answers under it."""
    if not this.covariates.size:
        yield np.arange(this.n_rows), model, this
        return
    different, which = np.unique(this.covariates, axis=0, return_inverse=True)
    for number, background in enumerate(different):
        rows = np.flatnonzero(which.reshape(-1) == number)
        own, thresholds = _given(model, this.thresholds, background.astype(np.float64))
        yield rows, own, _only(this, rows)._replace(thresholds=thresholds)


def _given(
    model: VectorModel, thresholds: np.ndarray, background: np.ndarray
) -> tuple[VectorModel, np.ndarray]:
    """The model of rows with this background, and their thresholds."""
    added = model.slopes @ background
    is_category, is_number = model.layout.is_category, model.layout.is_number
    own = model._replace(
        bias=model.bias + np.where(is_category, added, 0.0),
        factor_bias=model.factor_bias + model.factor_slopes @ background,
    )
    lower = np.where(is_category | is_number, 0.0, added)
    return own, thresholds - lower[:, None]


def _only(this: Side, rows: np.ndarray) -> Side:
    """Some rows, whose background is in the parameters now; but for shifts of their numbers."""
    length = np.diff(this.row_start)[rows]
    start = np.concatenate([[0], np.cumsum(length)])
    entry = np.repeat(this.row_start[rows] - start[:-1], length) + np.arange(start[-1])
    nothing = np.zeros(0, dtype=np.float32)
    return this._replace(
        row_start=start,
        column=this.column[entry],
        level=this.level[entry],
        known=this.known[entry] if this.known.size else this.known,
        shift=this.shift[entry],
        offset=nothing,
        covariates=nothing,
        row_bias=nothing,
    )


def annealed(
    model: VectorModel, this: Side, seed: int, *, n_temperatures: int = 500, n_chains: int = 32
) -> Estimate:
    """Estimate by annealed importance sampling (Neal 2001), two runs per row.

    One run estimates the sum over factors with the row's answers given, one without them. The
    standard error is that of the two averages of weights, carried to their logarithms.
    """

    def given_style(styled: Side, style: int) -> Estimate:
        return _log_sum(model, styled, True, _seed_of_run(seed, 1 + style), n_temperatures, n_chains)

    given = _over_styles(model, this, given_style)
    alone = log_partition(model, this, seed, n_temperatures=n_temperatures, n_chains=n_chains)
    return ratio(np.zeros(()), given, alone)


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
    found = log_mean(annealing.log_importance_weights(this, given, path, n_chains, seed))
    return found._replace(value=found.value + _log_independent(model, this, given))


def log_mean(log_weights: np.ndarray) -> Estimate:
    """Logarithm of the mean weight over the last axis, and its standard error."""
    n = log_weights.shape[-1]
    value = logsumexp(log_weights, axis=-1) - np.log(n)
    relative = np.exp(log_weights - value[..., None])
    return Estimate(value, relative.std(axis=-1, ddof=1) / np.sqrt(n))


def ratio(start: np.ndarray, given: Estimate, alone: Estimate) -> Estimate:
    """Of the sums with and without the answers, along paths that begin at this ratio."""
    error = np.hypot(given.standard_error, alone.standard_error)
    return Estimate(start + given.value - alone.value, error)


def _log_independent(model: VectorModel, this: Side, given: bool) -> np.ndarray:
    """Log of the sum at the start of the path, where no weight couples anything."""
    bias = model.factor_bias.astype(np.float64)
    if this.row_bias.size:
        bias = bias + this.row_bias
    factors = model.units * np.logaddexp(0.0, bias).sum(axis=-1)
    # Without weights the answers are as likely as they are with all factors off.
    alone = this._replace(weights=np.zeros_like(this.weights))
    off = np.zeros((this.n_rows, model.n_factors), dtype=np.uint8)
    total = factors + annealing.half_squares(alone, off)
    if given:
        total += annealing.log_levels(alone, off, 0, this.n_rows, np.ones(1))[:, 0]
    return total


def _states(model: VectorModel) -> np.ndarray:
    if n_states(model) > MAX_STATES:
        raise DataError(
            f"Exact enumeration needs {n_states(model):.3g} states for {model.n_factors} factors "
            f"of {model.units} unit(s); at most {MAX_STATES} are enumerated, "
            "so use method='ais', or fit a model with n_factors <= 16."
        )
    digits = np.indices((model.units + 1,) * model.n_factors).reshape(model.n_factors, -1)
    return digits.T.astype(np.float64)


def _enumerate(model: VectorModel, this: Side) -> _Enumeration:
    states = _states(model)
    ways = gammaln(model.units + 1) - gammaln(states + 1) - gammaln(model.units - states + 1)
    mean = model.bias[:, None].astype(np.float64) + model.weights.astype(np.float64) @ states.T
    bounds = this.thresholds
    log_level = np.full((bounds.shape[0], bounds.shape[1] - 1, states.shape[0]), -np.inf)
    for level in range(bounds.shape[1] - 1):
        # Beyond a column's scale all bounds are infinite; on it they may meet.
        some = (bounds[:, level] < bounds[:, level + 1]) | np.isfinite(bounds[:, level])
        low, high = bounds[some, level, None], bounds[some, level + 1, None]
        log_level[some, level] = normal_reference.log_mass(low - mean[some], high - mean[some])
    prior = states @ model.factor_bias.astype(np.float64) + ways.sum(axis=1)
    return _Enumeration(prior, mean, _log_prior(this, mean), log_level)


def _log_prior(this: Side, mean: np.ndarray) -> np.ndarray:
    """(N, S) half the squared mean; of categories their log sum, which the first of them has."""
    result = 0.5 * mean**2
    if this.members.size:
        result[(this.members > 0) | (this.members == CATEGORY)] = 0.0
        for i in np.flatnonzero(this.members > 0):
            result[i] = logsumexp(mean[i : i + this.members[i]], axis=0)
    return result


def _log_joint(this: Side, every: _Enumeration, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    if this.offset.size:
        raise ValueError("Enumeration has no offsets: put them into the bias of a one-row model.")
    first, last = this.row_start[rows.start], this.row_start[rows.stop]
    start = this.row_start[rows.start : rows.stop + 1] - first
    column, level = this.column[first:last], this.level[first:last].astype(np.int64)
    n_columns, n_levels, n_all = every.log_level.shape
    ones = np.ones(column.size)
    shape = (rows.stop - rows.start, n_columns)
    free = every.prior + sparse.csr_array((ones, column, start), shape=shape) @ every.log_prior
    if this.members.size:
        is_known = ~np.isnan(this.known[first:last])
        known = _log_known(this, every, slice(first, last), start)
    else:
        is_known, known = np.zeros(column.size, dtype=bool), np.zeros(1)
    # What is known better than by a level has the unknown one here.
    level = np.where(is_known, n_levels - 1, level)
    shape = (rows.stop - rows.start, n_columns * n_levels)
    chosen = sparse.csr_array((ones, column.astype(np.int64) * n_levels + level, start), shape=shape)
    return free + chosen @ every.log_level.reshape(-1, n_all) + known, free


def _log_known(this: Side, every: _Enumeration, entries: slice, start: np.ndarray) -> np.ndarray:
    """(rows, S) log density of numbers and log probability of categories in each state."""
    column = this.column[entries]
    is_number, is_first = this.members[column] == NUMBER, this.members[column] > 0
    known = this.known[entries].astype(np.float64)
    there = ~np.isnan(known)
    scale = np.where(is_number, this.thresholds[column, 1], 1.0)
    utility = np.where(there, scale * known, 0.0)
    if this.shift.size:
        utility -= np.where(is_number & there, this.shift[entries], 0.0)

    def over_rows(values: np.ndarray, table: np.ndarray) -> np.ndarray:
        return sparse.csr_array((values, column, start), shape=(start.size - 1, table.shape[0])) @ table

    constant = np.log(scale) - 0.5 * utility**2 - 0.5 * np.log(2.0 * np.pi)
    ones = np.ones((every.mean.shape[0], 1))
    # (u − μ)²/2 is u²/2 − uμ and what numbers have in log P*(h); of categories likewise.
    return (
        over_rows(utility, every.mean)
        - over_rows((there & (is_number | is_first)).astype(np.float64), every.log_prior)
        + over_rows(np.where(is_number & there, constant, 0.0), ones)
    )

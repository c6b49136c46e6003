"""The clamped and the free chains of learning, the gradient that they estimate, and steps along it."""

from typing import Literal, NamedTuple

import numpy as np

from ordinalrbm.engine import gibbs, thresholds
from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.engine.side import Batch, Side, Statistics
from ordinalrbm.runtime.jit import compiled, inlined
from ordinalrbm.vector.model import (
    VectorModel,
    complete_rows,
    factor_type,
    random_factors,
    side,
    with_parameters,
)
from ordinalrbm.vector.posterior import gibbs_sweep

FreePhase = Literal["contrastive", "persistent"]
# The first updates must not follow chains that have not settled, but need not be exact either.
_SETTLING_ITERATIONS = 30
_SETTLING_TOLERANCE = 0.01
_ROWS_AT_ONCE = 4096
# Of Adam.
_FIRST_DECAY, _SECOND_DECAY, _EPSILON = 0.9, 0.999, 1e-8
_NO_SLOPES = np.zeros((0, 0), dtype=np.float32)


class Chains(NamedTuple):
    """State of the chains between updates: only factors are kept, one byte each."""

    clamped: np.ndarray  # (rows, K) factors given the answers, one chain per row
    free: np.ndarray  # (chains, K) factors with the answers forgotten
    free_side: Side | None  # the rows that the free chains are over, if not the data's own
    contrastive: bool  # whether free chains start from the clamped ones at every update


class Gradient(NamedTuple):
    """Direction of steepest ascent, in the shapes of the model's parameters."""

    weights: np.ndarray
    bias: np.ndarray
    factor_bias: np.ndarray
    cutpoints: np.ndarray
    slopes: np.ndarray = _NO_SLOPES
    factor_slopes: np.ndarray = _NO_SLOPES


class Moments(NamedTuple):
    """Adam's running means of the gradient and of its square."""

    first: Gradient
    second: Gradient


class Steps(NamedTuple):
    """How far parameters move along a gradient."""

    rate: float
    adaptive: bool  # whether by Adam; otherwise the step is the rate times the gradient
    centred: bool  # whether factors are measured from their middle when weights move


def start_chains(model: VectorModel, this: Side, free_phase: FreePhase, n_chains: int, seed: int) -> Chains:
    """Return chains before the first update, drawn from the mean-field solution.

    Persistent chains are a moderate number of complete rows when every row has every column (then
    all rows share one free model), otherwise one per row, with that row's own columns and background.
    """
    rng = np.random.default_rng(seed)
    clamped = _settled(model, this, rng)
    gibbs_sweep(model, this, clamped, Batch(0, this.n_rows, seed, 0, 1))
    if free_phase == "contrastive":
        return Chains(clamped, np.empty_like(clamped), None, contrastive=True)
    if this.column.size < this.n_rows * this.bias.size or model.n_covariates:
        return Chains(clamped, random_factors(this.n_rows, model, rng), None, contrastive=False)
    over = side(model, complete_rows(model, min(n_chains, this.n_rows)))
    return Chains(clamped, random_factors(over.n_rows, model, rng), over, contrastive=False)


def _settled(model: VectorModel, this: Side, rng: np.random.Generator) -> np.ndarray:
    """(rows, K) factors near where the answers put them."""
    factors = np.empty((this.n_rows, model.n_factors), dtype=factor_type(model.units))
    for start in range(0, this.n_rows, _ROWS_AT_ONCE):  # means are wider than what is kept of them
        stop = min(start + _ROWS_AT_ONCE, this.n_rows)
        part = this.rows(start, stop)
        expected = np.full((stop - start, model.n_factors), 0.5 * model.units, dtype=np.float32)
        fixed_point(part, expected, _SETTLING_TOLERANCE * model.units, _SETTLING_ITERATIONS)
        factors[start:stop] = rng.binomial(model.units, np.clip(expected / model.units, 0.0, 1.0))
    return factors


def gradient(
    model: VectorModel,
    this: Side,
    chains: Chains,
    batch: Batch,
    precision: float,
    slope_precision: float = 0.0,
) -> Gradient:
    """Return the clamped minus the free expectation, per row; moves the chains.

    ``precision`` is that of the Gaussian prior on the weights, divided by the number of rows, and
    ``slope_precision`` that on the slopes of the background.
    """
    clamped = gibbs.clamped_phase(this, chains.clamped, batch)
    free, share = _free_statistics(model, this, chains, batch)
    # By the number of rows, whose weights have mean one: a batch of light rows counts for less.
    scale = np.float32(1.0 / (batch.stop - batch.start))
    weights = scale * (clamped.weights - share * free.weights)
    weights -= np.float32(precision * model.units) * model.weights
    slopes, factor_slopes = model.slopes, model.factor_slopes
    if model.n_covariates:
        # Shifted utilities meet the answers alone, as thresholds do; categories are weighed
        # against what the model makes up.
        of_free = np.where(model.layout.is_category, share, 0.0).astype(np.float32)
        slopes = scale * (clamped.slopes - of_free[:, None] * free.slopes)
        slopes -= np.float32(slope_precision) * model.slopes
        factor_slopes = scale * (clamped.factor_slopes - share * free.factor_slopes)
        factor_slopes -= np.float32(slope_precision * model.units) * model.factor_slopes
    return Gradient(
        weights=weights,
        bias=scale * (clamped.bias - share * free.bias),
        factor_bias=scale * (clamped.factor_bias - share * free.factor_bias),
        cutpoints=_cutpoint_gradient(model, scale * clamped.thresholds),
        slopes=slopes,
        factor_slopes=factor_slopes,
    )


def _cutpoint_gradient(model: VectorModel, bounds: np.ndarray) -> np.ndarray:
    """Gradient by the cutpoints; of a number, which is the logarithm of its scale, as it is."""
    plan = model.layout
    result = thresholds.cutpoint_gradient(model.cutpoints, bounds, plan.n_levels)
    result[plan.is_number, 0] = bounds[plan.is_number, 1]
    return result


def _free_statistics(
    model: VectorModel, this: Side, chains: Chains, batch: Batch
) -> tuple[Statistics, np.float32]:
    """Statistics of the free phase, and how much they count to match the batch."""
    if chains.free_side is not None:
        over = with_parameters(chains.free_side, model)
        statistics = gibbs.free_phase(over, chains.free, batch._replace(start=0, stop=over.n_rows))
        n_rows = batch.stop - batch.start
        weight = this.row_weight[batch.start : batch.stop].sum() if this.row_weight.size else n_rows
        return statistics, np.float32(float(weight) / over.n_rows)
    if chains.contrastive:
        rows = slice(batch.start, batch.stop)
        chains.free[rows] = chains.clamped[rows]
    return gibbs.free_phase(this, chains.free, batch), np.float32(1.0)


def zero_moments(model: VectorModel) -> Moments:
    first, second = (
        Gradient(*(np.zeros_like(getattr(model, name)) for name in Gradient._fields)) for _ in range(2)
    )
    return Moments(first, second)


def ascend(model: VectorModel, gradient: Gradient, moments: Moments, n_updates: int, steps: Steps) -> None:
    """Move the model up the gradient, in place; ``n_updates`` counts from one."""
    scale = steps.rate
    if steps.adaptive:
        scale *= np.sqrt(1.0 - _SECOND_DECAY**n_updates) / (1.0 - _FIRST_DECAY**n_updates)
    # Factors are coded around their middle when the weights move: a change of a weight then leaves the mean
    # utility where it was and only turns its slope, which the bias would else fight. Weights of many units
    # per factor are smaller by the root of their number, and their gradient is larger by it.
    centre = 0.5 * model.units if steps.centred else 0.0
    finer = scale / np.sqrt(model.units) if steps.adaptive else scale / model.units
    _move_columns(model.weights, model.bias, gradient, moments, scale, finer, centre, steps.adaptive)
    for part in ("factor_bias", "cutpoints", "slopes", "factor_slopes"):
        _move(
            getattr(model, part).reshape(-1),
            getattr(gradient, part).reshape(-1),
            getattr(moments.first, part).reshape(-1),
            getattr(moments.second, part).reshape(-1),
            finer if part == "factor_slopes" else scale,
            steps.adaptive,
        )


@inlined
def _direction(g, first, second, j, adaptive):
    """Where to go along one coordinate: the gradient, or Adam's mean of it in its own unit."""
    if not adaptive:
        return np.float64(g)
    first[j] += (1 - _FIRST_DECAY) * (g - first[j])
    second[j] += (1 - _SECOND_DECAY) * (g * g - second[j])
    return first[j] / (np.sqrt(second[j]) + _EPSILON)


@compiled
def _move(parameter, gradient, first, second, scale, adaptive):
    for j in range(parameter.size):
        parameter[j] += scale * _direction(gradient[j], first, second, j, adaptive)


@compiled
def _move_columns(weights, bias, gradient, moments, scale, finer, centre, adaptive):
    first, second = moments.first, moments.second
    for i in range(bias.size):
        moved = 0.0
        for k in range(weights.shape[1]):
            g = gradient.weights[i, k] - centre * gradient.bias[i]
            step = finer * _direction(g, first.weights[i], second.weights[i], k, adaptive)
            weights[i, k] += step
            moved += step
        step = scale * _direction(gradient.bias[i], first.bias, second.bias, i, adaptive)
        bias[i] += step - centre * moved

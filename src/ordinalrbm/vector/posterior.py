"""P(h | v): by mean-field, and by Gibbs sampling; and the response styles of rows.

Some people use the outer levels of a scale, some keep to the middle. A row's style is a number c
that multiplies all thresholds in that row: small c means that a utility soon counts as extreme. It is
one of a few values with learnt probabilities,

    P(v | h) = Σ_g π_g Π_i [Φ(c_g θ_{i,v_i} − μ_i(h)) − Φ(c_g θ_{i,v_i − 1} − μ_i(h))]

so that given its style a row follows the plain model, and given the factors the style can be
drawn exactly. The paper's matrix model gives each row thresholds of its own for the same reason;
with scales that differ from question to question, one number is what all of them can share.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import entr, softmax

from ordinalrbm.engine.annealing import half_squares, log_levels
from ordinalrbm.engine.gibbs import clamped_sweep
from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.engine.philox import Purpose, uniforms
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.vector.model import VectorModel, factor_type

TOLERANCE = 1e-4
MAX_ITERATIONS = 200
# Mean-field starts the chains close to where they live, so that they need little time to settle.
DEFAULT_BURN_IN = 20
# Response styles less probable than this are not looked at.
IMPROBABLE = 1e-3
# From people who use little but the outer levels to people who hardly leave the middle.
_SMALLEST_LOG_STRETCH, _LARGEST_LOG_STRETCH = -1.5, 0.9
# Standard deviation of the logarithm of the styles before any is learnt.
_INITIAL_SPREAD = 0.4


def with_styles(model: VectorModel, n_styles: int) -> VectorModel:
    """Return the model with response styles, those near one more likely; a single one is plain."""
    stretches = np.ones(1)
    if n_styles > 1:
        stretches = np.exp(np.linspace(_SMALLEST_LOG_STRETCH, _LARGEST_LOG_STRETCH, n_styles))
    weights = np.exp(-0.5 * (np.log(stretches) / _INITIAL_SPREAD) ** 2)
    return model._replace(stretches=stretches, style_weights=weights / weights.sum())


def _style_chances(model: VectorModel, this: Side, factors: np.ndarray, start: int, stop: int) -> np.ndarray:
    """(rows, G) P(style | answers, factors)."""
    given = log_levels(this, factors, start, stop, model.stretches)
    return softmax(given + np.log(model.style_weights), axis=1)


def _drawn_stretch(model: VectorModel, chances: np.ndarray, start: int, seed: int, sweep: int) -> np.ndarray:
    uniform = uniforms(seed, np.arange(start, start + chances.shape[0]), 0, sweep, Purpose.STYLE, 0)
    style = (np.cumsum(chances, axis=1) < uniform[:, None]).sum(axis=1)
    return model.stretches[np.minimum(style, model.stretches.size - 1)].astype(np.float32)


def draw_styles(model: VectorModel, this: Side, factors: np.ndarray, batch: Batch) -> np.ndarray:
    if not model.has_styles:
        return np.array([float(batch.stop - batch.start)])
    rows = slice(batch.start, batch.stop)
    chances = _style_chances(model, this, factors, batch.start, batch.stop)
    this.stretch[rows] = _drawn_stretch(model, chances, batch.start, batch.seed, batch.sweep)
    return (this.row_weight[rows] if this.row_weight.size else np.ones(chances.shape[0])) @ chances


class State(NamedTuple):
    """Factors of each row (units on, expected or drawn), and the stretch of its thresholds.

    The stretch is an array of length zero in a model without response styles; a row without
    ``covariates`` is an average one.
    """

    factors: np.ndarray
    stretch: np.ndarray
    covariates: np.ndarray = np.zeros((0, 0), dtype=np.float32)


class Component(NamedTuple):
    """Mean-field of all rows, as if they had one response style.

    ``weight`` is the probability of that style for each row, ``change`` the last change of a row's
    factor probabilities in the iteration.
    """

    state: State
    weight: np.ndarray
    change: np.ndarray


class Posterior(NamedTuple):
    """P(h | v) by mean-field: one component per response style, a single one without styles."""

    components: list[Component]

    @property
    def factors(self) -> np.ndarray:
        first, *others = self.components
        if not others:
            return first.state.factors
        total = np.zeros_like(first.state.factors)
        for part in self.components:
            total += part.weight[:, None].astype(np.float32) * part.state.factors
        return total

    @property
    def style_weights(self) -> np.ndarray:
        return np.stack([part.weight for part in self.components], axis=1)

    @property
    def change(self) -> np.ndarray:
        """The last change of each row's factor probabilities, in any style that it may have."""
        return np.max([np.where(part.weight > 0.01, part.change, 0.0) for part in self.components], axis=0)

    @property
    def n_unconverged(self) -> int:
        return int(np.count_nonzero(self.change > TOLERANCE))


def mean_field(model: VectorModel, this: Side) -> Posterior:
    """Return the fixed point of the factorised approximation, in each response style."""
    common = _in_common_style(model, this)
    return _over_styles(model, this, common) if model.has_styles else Posterior([common])


def quick_mean_field(model: VectorModel, this: Side) -> Posterior:
    """Return the fixed point in the most common response style, taken for that in all of them.

    Styles are as probable as they are at that point. It takes a fifth of the time of
    :func:`mean_field`, for comparing epochs and for starting chains.
    """
    common = _in_common_style(model, this)
    if not model.has_styles:
        return Posterior([common])
    chances = _style_chances(model, this, common.state.factors, 0, this.n_rows)
    styled = zip(model.stretches, chances.T, strict=True)
    return Posterior([_component(this, common.state.factors, g, common.change, w) for g, w in styled])


def _in_common_style(model: VectorModel, this: Side) -> Component:
    factors = np.full((this.n_rows, model.n_factors), 0.5 * model.units, dtype=np.float32)
    stretch = model.stretches[model.style_weights.argmax()] if model.has_styles else None
    found = _component(this, factors, stretch, np.zeros(0), np.ones(this.n_rows))
    styled = this._replace(stretch=found.state.stretch)
    change = fixed_point(styled, factors, TOLERANCE * model.units, MAX_ITERATIONS)
    return found._replace(change=change / model.units)


def _component(
    this: Side, factors: np.ndarray, stretch: float | None, change: np.ndarray, weight: np.ndarray
) -> Component:
    stretched = np.full(0 if stretch is None else this.n_rows, stretch or 1.0, dtype=np.float32)
    return Component(State(factors, stretched, this.covariates), weight, change)


def _over_styles(model: VectorModel, this: Side, common: Component) -> Posterior:
    """Mean-field in each style that a row may have, and how probable that style is.

    From the most common style outwards, each row goes on from one style to the next, where its
    factors are not far, as long as styles are not improbable.
    """
    n_styles, middle = model.stretches.size, int(model.style_weights.argmax())
    parts = [common] * n_styles
    bounds = np.full((this.n_rows, n_styles), -np.inf)
    bounds[:, middle] = _log_joint(model, this, common.state.factors, model.stretches[middle])
    bounds[:, middle] += np.log(model.style_weights[middle])
    for outwards in (range(middle - 1, -1, -1), range(middle + 1, n_styles)):
        rows, factors = np.arange(this.n_rows), common.state.factors
        for g in outwards:
            if not rows.size:
                break
            factors, stretch = factors.copy(), model.stretches[g]
            found = _component(this, factors, stretch, np.zeros(0), np.zeros(0))
            styled = this._replace(stretch=found.state.stretch)
            change = fixed_point(styled, factors, TOLERANCE * model.units, MAX_ITERATIONS, rows)
            parts[g] = found._replace(change=change / model.units)
            bounds[rows, g] = _log_joint(model, this, factors, stretch)[rows] + np.log(model.style_weights[g])
            rows = rows[bounds[rows, g] > bounds[rows].max(axis=1) + np.log(IMPROBABLE)]
    weights = softmax(bounds, axis=1)
    return Posterior([part._replace(weight=w) for part, w in zip(parts, weights.T, strict=True)])


def _log_joint(model: VectorModel, this: Side, factors: np.ndarray, stretch: float) -> np.ndarray:
    """Log P*(h) P(v | h) and the entropy of the factors, at their mean; (rows,).

    What is left out, the fluctuations around the mean, hardly depends on the style.
    """
    level = log_levels(this, factors, 0, this.n_rows, np.array([stretch]))[:, 0]
    share = factors.astype(np.float64) / model.units
    entropy = model.units * (entr(share) + entr(1.0 - share)).sum(axis=1)
    biased = factors @ model.factor_bias
    if this.row_bias.size:
        biased = biased + (factors * this.row_bias).sum(axis=1)
    return level + half_squares(this, factors) + biased + entropy


def draws(
    model: VectorModel, this: Side, n_draws: int, seed: int, *, burn_in: int = DEFAULT_BURN_IN, thin: int = 1
) -> Iterator[State]:
    """Yield draws of factors and styles given the answers, in the same arrays: copy what should be kept."""
    start = quick_mean_field(model, this)
    rng = np.random.default_rng(seed)
    # Parameters far out leave mean-field without an answer; a chain can start anywhere.
    share = np.nan_to_num(np.clip(start.factors / model.units, 0.0, 1.0), nan=0.5)
    factors = rng.binomial(model.units, share).astype(factor_type(model.units))
    if model.has_styles:
        this = this._replace(stretch=_drawn_stretch(model, start.style_weights, 0, seed, 0))
    everyone = Batch(0, this.n_rows, seed, 0, burn_in)
    clamped_sweep(this, factors, everyone)
    for sweep in range(1, n_draws + 1):
        gibbs_sweep(model, this, factors, everyone._replace(sweep=sweep, gibbs_steps=thin))
        yield State(factors, this.stretch, this.covariates)


def gibbs_sweep(model: VectorModel, this: Side, factors: np.ndarray, batch: Batch) -> None:
    """Draw styles given the factors, then factors given the styles; in place."""
    draw_styles(model, this, factors, batch)
    clamped_sweep(this, factors, batch)


def sampled(model: VectorModel, this: Side, n_draws: int, seed: int) -> np.ndarray:
    total = np.zeros((this.n_rows, model.n_factors), dtype=np.float32)
    for state in draws(model, this, n_draws, seed):
        total += state.factors
    return total / np.float32(n_draws)


def chains(model: VectorModel, this: Side, n_chains: int, n_draws: int, seed: int) -> np.ndarray:
    """Return (chain, draw, row, factor) draws of the factors, chains started far apart.

    The first chain starts with every unit off, the second with every unit on, the others at random:
    chains that have met in spite of that have forgotten their start.
    """
    kind = factor_type(model.units)
    result = np.empty((n_chains, n_draws, this.n_rows, model.n_factors), dtype=kind)
    rng = np.random.default_rng(seed)
    shape = result.shape[2:]
    for chain in range(n_chains):
        share = rng.random(shape) if chain > 1 else float(chain)
        factors = rng.binomial(model.units, share, size=shape).astype(kind)
        style = rng.choice(model.stretches.size, size=this.n_rows, p=model.style_weights)
        this = this._replace(stretch=model.stretches[style].astype(np.float32))
        batch = Batch(0, this.n_rows, seed + chain, 0, DEFAULT_BURN_IN)
        clamped_sweep(this, factors, batch)
        for draw in range(n_draws):
            gibbs_sweep(model, this, factors, batch._replace(sweep=draw + 1, gibbs_steps=1))
            result[chain, draw] = factors
    return result

"""Response styles: some people use the outer levels of a scale, some keep to the middle.

A row's style is a number c that multiplies all thresholds in that row: small c means that a
utility soon counts as extreme. It is one of a few values with learnt probabilities,

    P(v | h) = Σ_g π_g Π_i [Φ(c_g θ_{i,v_i} − μ_i(h)) − Φ(c_g θ_{i,v_i − 1} − μ_i(h))]

so that given its style a row follows the plain model, and given the factors the style can be
drawn exactly. The paper's matrix model gives each row thresholds of its own for the same reason;
with scales that differ from question to question, one number is what all of them can share.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from ordinalrbm.engine.annealing import log_levels
from ordinalrbm.engine.philox import Purpose, uniforms
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.vector.model import VectorModel

# From people who use little but the outer levels to people who hardly leave the middle.
_SMALLEST, _LARGEST = -1.5, 0.9
# Standard deviation of the logarithm of the styles before any is learnt.
_INITIAL_SPREAD = 0.4


def grid(n_styles: int) -> np.ndarray:
    """Return what thresholds are multiplied by in each style; one style is the plain model.

    Examples
    --------
    >>> grid(1)
    array([1.])
    >>> grid(5).round(2)
    array([0.22, 0.41, 0.74, 1.35, 2.46])
    """
    if n_styles == 1:
        return np.ones(1)
    return np.exp(np.linspace(_SMALLEST, _LARGEST, n_styles))


def has_styles(model: VectorModel) -> bool:
    """Whether rows differ in how they use the scales."""
    return model.stretches.size > 1


def with_styles(model: VectorModel, n_styles: int) -> VectorModel:
    """Return the model with response styles, those near one more likely."""
    stretches = grid(n_styles)
    weights = np.exp(-0.5 * (np.log(stretches) / _INITIAL_SPREAD) ** 2)
    return model._replace(stretches=stretches, style_weights=weights / weights.sum())


def probabilities(model: VectorModel, this: Side, factors: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return (rows, G) P(style | answers, factors)."""
    given = log_levels(this, factors, start, stop, model.stretches)
    return softmax(given + np.log(model.style_weights), axis=1)


def drawn(model: VectorModel, chances: np.ndarray, start: int, seed: int, sweep: int) -> np.ndarray:
    """Return (rows,) what the thresholds are multiplied by, one style drawn per row."""
    rows = np.arange(start, start + chances.shape[0])
    uniform = uniforms(seed, rows, 0, sweep, Purpose.STYLE, 0)
    style = (np.cumsum(chances, axis=1) < uniform[:, None]).sum(axis=1)
    return model.stretches[np.minimum(style, model.stretches.size - 1)].astype(np.float32)


def draw_styles(model: VectorModel, this: Side, factors: np.ndarray, batch: Batch) -> np.ndarray:
    """Draw the styles of a batch given its factors, into the side's ``stretch``.

    Returns the expected (weighted) number of rows of each style, (G,).
    """
    if not has_styles(model):
        return np.array([float(batch.stop - batch.start)])
    rows = slice(batch.start, batch.stop)
    chances = probabilities(model, this, factors, batch.start, batch.stop)
    this.stretch[rows] = drawn(model, chances, batch.start, batch.seed, batch.sweep)
    weight = this.row_weight[rows] if this.row_weight.size else np.ones(chances.shape[0])
    return weight @ chances

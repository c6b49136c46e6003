"""The half-sweep of Gaussian factors in plain NumPy, in float64, a row after the other.

It is the judge of all engines.
"""

from __future__ import annotations

import numpy as np

from ordinalrbm.engine import normal_reference, thresholds
from ordinalrbm.engine.base import LARGEST_MOVE, MEAN_FIELD_CORRECTION, SOLVED, STEPS
from ordinalrbm.engine.half_sweep import CpuEngine


class Row:
    """The answers of a row: what it sees of their columns, and the bounds of their levels."""

    def __init__(self, answers, this, other, d):
        columns, level = answers.row(d)
        self.level, n = level.astype(int), level.size
        self.bias, self.bias_variance = other.mean[columns, 0], other.variance[columns, 0]
        self.features = np.column_stack([np.ones(n), other.mean[columns, 1:]])
        self.doubt = np.column_stack([np.zeros(n), other.variance[columns, 1:]])
        self.gaps = this.gaps[d] * other.gaps[columns]
        self.gaps[:, 0] = this.gaps[d, 0] + other.gaps[columns, 0]
        self.last = self.level == np.minimum(this.n_levels[d], other.n_levels[columns]) - 1
        inner = np.cumsum(self.gaps, axis=1)
        bounds = np.column_stack([np.full(n, -np.inf), inner, np.full(n, np.inf)])
        every = np.arange(n)
        self.low = bounds[every, self.level]
        self.high = np.where(self.last, np.inf, bounds[every, self.level + 1])

    def mean(self, x):
        return self.bias + self.features @ x

    def variance(self, x, variance):
        return self.bias_variance + (self.features**2 + self.doubt) @ variance + self.doubt @ x**2


class PlainEngine(CpuEngine):
    """The engine of cores with the half-sweep below."""

    def half_sweep(self, answers, this, other, prior, spread=True):
        return plain_half_sweep(answers, this, other, prior, spread)


def plain_half_sweep(answers, this, other, prior, spread):
    cutpoints_variance = np.zeros_like(this.cutpoints)
    for d in range(len(this.mean)):
        row = Row(answers, this, other, d)
        known = regress(row, this.mean[d], np.isfinite(prior.precision), prior.precision)
        if spread:
            variance = 1.0 / (prior.precision + known / MEAN_FIELD_CORRECTION)
            this.variance[d] = np.where(np.isfinite(prior.precision), variance, 0.0)
        if prior.cutpoints_precision.size > 1 and np.isfinite(prior.cutpoints_precision[1]):
            cutpoints_variance[d, 1:] = move_gaps(row, this, prior, d)
    return cutpoints_variance


def regress(row, x, free, precision):
    """Steps of conjugate gradients to the ridge regression; what answers add to precisions."""
    own = np.where(free, precision, 0.0)
    ridge = own + row.doubt.sum(axis=0)
    at = row.mean(x)
    pull = normal_reference.truncated_mean(row.low - at, row.high - at)
    system = row.features.T @ row.features + np.diag(ridge)
    rest = np.where(free, row.features.T @ pull - ridge * x, 0.0)
    diagonal = np.where(free, np.diag(system), 1.0)  # of what stays, anything but zero
    direction = rest / diagonal
    size = first = rest @ direction
    for _ in range(STEPS):
        if size <= SOLVED * first:
            break
        image = system @ direction
        along = size / (direction @ image)
        x += along * direction
        rest = np.where(free, rest - along * image, 0.0)
        before, size = size, rest @ (rest / diagonal)
        direction = rest / diagonal + size / before * direction
    return diagonal - own


def move_gaps(row, this, prior, d):
    """Newton's step on the log gaps; returns their variances."""
    scale = 1.0 / np.sqrt(1.0 + row.variance(this.mean[d], this.variance[d]))
    at = row.mean(this.mean[d])
    low, high = (row.low - at) * scale, (row.high - at) * scale
    at_low, at_high = normal_reference.edge_densities(low, high)
    with np.errstate(invalid="ignore"):  # nothing at infinity
        curved_low = np.where(row.level > 0, at_low * (at_low - low), 0.0)
        curved_high = np.where(row.last, 0.0, at_high * (at_high + high))
    m = np.arange(1, this.cutpoints.shape[1])
    wide = scale[:, None] * row.gaps[:, 1:]
    below = np.where(m < row.level[:, None], wide, 0.0)
    above = np.where((m <= row.level[:, None]) & ~row.last[:, None], wide, 0.0)
    # (gaps, groups): which gaps move together; the prior counts as that of their mean.
    n_gaps = m.size
    group = np.arange(n_gaps) * min(n_gaps, thresholds.MOST_MOVING) // n_gaps
    together = (group[:, None] == np.arange(group[-1] + 1)).astype(float)
    below, above = below @ together, above @ together
    precision = prior.cutpoints_precision[1:] @ together / together.sum(axis=0)
    pull = prior.cutpoints_precision * (prior.cutpoints[d] - this.cutpoints[d])
    slope = at_high @ above - at_low @ below + pull[1:] @ together / together.sum(axis=0)
    both = below.T @ ((at_low * at_high)[:, None] * above)
    system = below.T @ (curved_low[:, None] * below) + above.T @ (curved_high[:, None] * above)
    system += np.diag(precision) - both - both.T
    move = np.clip(np.linalg.solve(system, slope), -LARGEST_MOVE, LARGEST_MOVE)
    this.cutpoints[d, 1:] += together @ move
    this.gaps[d, 1:] = np.exp(this.cutpoints[d, 1:])
    return together @ np.diag(np.linalg.inv(system))

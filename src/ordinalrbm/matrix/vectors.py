"""Vectors of rows and columns whose inner product orders columns by the expected rating.

The expected rating of a column rises with the mean utility μ = b_d + b_i + p_d · q_i, along a curve
that thresholds and doubt give it. Two numbers say where the curve of a column lies and how steep it
is: at which utilities, for a usual row, a low and a high rating is expected. Measured from there,
(μ − t_i) s_i means about the same for all columns, and it is an inner product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ordinalrbm.engine import thresholds
from ordinalrbm.engine.base import FactorPosterior

# Between which shares of the scale a curve is looked at, and utilities that are out of reach.
_LOW, _HIGH, _FAR = 0.4, 0.8, 50.0
_HALVINGS = 40
# Of the common curve: from where to where, in widths of a column's own, and at how many points.
_REACH, _POINTS = 12.0, 481


class Curves(NamedTuple):
    """How the expected rating of columns rises with the mean utility, for a usual row."""

    thresholds: np.ndarray  # (columns, L − 1), infinite beyond a column's scale
    gains: np.ndarray  # (columns, L − 1) of the expected rating, at each threshold
    lowest: np.ndarray  # (columns,) rating
    deviation: np.ndarray  # (columns,) of a utility

    @classmethod
    def of(
        cls,
        cutpoints: np.ndarray,
        n_levels: np.ndarray,
        row_gaps: np.ndarray,
        worth: np.ndarray,
        deviation: np.ndarray,
    ) -> Curves:
        """Of columns with such cutpoints; ``worth``, (columns, L), is what levels count."""
        width = worth.shape[1] - 1
        steps = np.exp(cutpoints[:, :width] + row_gaps[:width])
        steps[:, :1] = cutpoints[:, :1]
        unused = thresholds.unused(n_levels, width)
        bounds = np.where(unused, np.inf, np.cumsum(steps, axis=1))
        gains = np.where(unused, 0.0, np.diff(worth, axis=1))
        return cls(bounds, gains, worth[:, 0], deviation)

    def at(self, utility: np.ndarray) -> np.ndarray:
        """(columns,) expected rating where the mean utility is this."""
        above = ndtr((utility[:, None] - self.thresholds) / self.deviation[:, None])
        return self.lowest + (self.gains * above).sum(axis=1)

    def reaching(self, share: float) -> np.ndarray:
        """(columns,) utilities at which so much of the scale is expected."""
        goal = self.lowest + share * self.gains.sum(axis=1)
        low, high = np.full((2, goal.size), _FAR) * np.array([[-1.0], [1.0]])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            is_below = self.at(middle) < goal
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return (low + high) / 2.0


def usual_deviation(rows: FactorPosterior, columns: FactorPosterior) -> np.ndarray:
    """(columns,) standard deviation of a utility, for a usual row."""
    p, of_p = (rows.mean.astype(np.float64) ** 2).mean(axis=0), rows.variance.mean(axis=0)
    q, of_q = columns.mean.astype(np.float64) ** 2, columns.variance
    of_factors = (q + of_q)[:, 1:] @ of_p[1:] + of_q[:, 1:] @ p[1:]
    return np.sqrt(1.0 + of_p[0] + of_q[:, 0] + of_factors)


class Vectors(NamedTuple):
    """One line for each user and each item, in the order of ``users_`` and ``items_``."""

    users: np.ndarray  # (users, W) float32
    items: np.ndarray  # (items, W) float32
    # The share of the scale (second line) that an inner product (first line) stands for.
    curve: np.ndarray
    lowest: float = 0.0  # rating
    highest: float = 1.0

    def expected(self, products: np.ndarray) -> np.ndarray:
        """Expected ratings, by the curve that all items share."""
        share = np.interp(products, *self.curve)
        return self.lowest * (1.0 - share) + self.highest * share


def lines_of(biases: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """(rows, W) of rows."""
    ones = np.ones((len(biases), 1), dtype=np.float32)
    return np.hstack([factors, biases[:, None], ones]).astype(np.float32)


def vectors_of(
    rows: np.ndarray, column_biases: np.ndarray, column_factors: np.ndarray, curves: Curves
) -> Vectors:
    """Vectors of columns beside the lines of rows."""
    low, high = curves.reaching(_LOW), curves.reaching(_HIGH)
    width, middle = np.maximum(high - low, 1e-6), (low + high) / 2.0
    place = column_biases - middle
    columns = np.column_stack([column_factors, np.ones(place.size), place]) / width[:, None]
    grid = np.linspace(-_REACH, _REACH, _POINTS)
    usual = [curves.at(middle + z * width).mean() for z in grid]
    return Vectors(rows, columns.astype(np.float32), np.array([grid, usual]))

"""The last touch on binary factors: a few numbers about predictions, judged by ratings not learnt from.

How far to believe the factors, how wide distributions are, and what the number of a user's ratings
says about those to come: users who rate much come to items that they like less. All are most likely
values under priors that want no change. Gaussian factors carry what is not known of them into every
prediction, and gain nothing by it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.normal_reference import edge_densities, log_mass
from ordinalrbm.matrix.model import MatrixModel
from ordinalrbm.matrix.predict import bounds, utilities
from ordinalrbm.matrix.protocol import Utilities

# More validation ratings do not change a few numbers.
_ENOUGH = 50_000
# Drawn towards no change as if by so many ratings: with few of them, nothing is changed much.
# A shift, in standard deviations of a utility, is expected to be smaller than a gain.
_PRIOR_RATINGS = np.array([100.0, 100.0, 100.0, 400.0, 400.0])
# The numbers: logarithms of both gains and of the spread, and by how much the mean shifts with
# the logarithm of the numbers of ratings of the row and of the column.
_GAINS, _SHIFTS = [0, 1, 2], [3, 4]
# No row counts as more than e to this times as active as the average, or as little: else the few ratings
# of one user with thousands, among users with two, would set the shift of all.
_MOST_ACTIVE = 4.0


class Judge(NamedTuple):
    """What is known of the validation ratings: their parts, and how active rows and columns are."""

    utilities: Utilities
    bounds: tuple[np.ndarray, np.ndarray]
    activity: np.ndarray  # (2, ratings): of the row, of the column

    @classmethod
    def of(cls, model: MatrixModel, cells: Cells, observations: Observations) -> Judge:
        row, column = log_counts(observations)  # that of an unknown one, at −1, is zero
        activity = np.stack([np.append(row, 0.0)[cells.row], np.append(column, 0.0)[cells.column]])
        return cls(utilities(model, cells), bounds(model, cells), activity)

    def loss(self, numbers: np.ndarray) -> tuple[float, np.ndarray]:
        parts, (of_rows, of_columns, spread) = self.utilities, np.exp(numbers[_GAINS])
        mean = parts.base + of_rows * parts.by_rows + of_columns * parts.by_columns
        mean += numbers[_SHIFTS] @ self.activity
        low, high = ((bound - mean) / spread for bound in self.bounds)
        at_low, at_high = edge_densities(low, high)
        by_mean = (at_low - at_high) / spread
        slope = np.array(
            [
                of_rows * (by_mean @ parts.by_rows),
                of_columns * (by_mean @ parts.by_columns),
                (at_low * _finite(low) - at_high * _finite(high)).sum(),
                *(self.activity @ by_mean),
            ]
        )
        drawn, n = _PRIOR_RATINGS * numbers, mean.size
        value = float(-log_mass(low, high).sum() + drawn @ numbers)
        return value / n, (2.0 * drawn - slope) / n

    def best(self, free: list[int]) -> np.ndarray:
        """The most likely values of those that are free; the others are zero."""
        numbers = np.zeros(_PRIOR_RATINGS.size)

        def restricted(values: np.ndarray) -> tuple[float, np.ndarray]:
            numbers[free] = values
            value, slope = self.loss(numbers)
            return value, slope[free]

        numbers[free] = minimize(restricted, np.zeros(len(free)), jac=True, method="BFGS").x
        return numbers


def calibrated(model: MatrixModel, observations: Observations, validation: Cells) -> MatrixModel:
    """The model with what suits the validation ratings; ``observations`` are those learnt from."""
    cells = validation.at(slice(None, _ENOUGH))
    if not cells.row.size:
        return model
    # Where rows have nothing of their own but factors, it stays like that.
    shifts = _SHIFTS if model.by_columns.n_factors else _SHIFTS[1:]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        numbers = Judge.of(model, cells, observations).best([*_GAINS, *shifts])
    if not np.isfinite(numbers).all():  # of a model that rules out what is the case
        return model
    return with_numbers(model, numbers, observations)


def with_numbers(model: MatrixModel, numbers: np.ndarray, observations: Observations) -> MatrixModel:
    by_row, by_column = numbers[_SHIFTS]
    row, column = log_counts(observations)
    own, other = model.by_rows, model.by_columns
    return model._replace(
        by_rows=own._replace(bias=own.bias + (by_column * column).astype(np.float32)),
        by_columns=other._replace(bias=other.bias + (by_row * row).astype(np.float32)),
        gains=np.exp(numbers[_GAINS]),
    )


def log_counts(observations: Observations) -> list[np.ndarray]:
    """Logarithms of the numbers of answers of rows and columns, around their means; zero without any."""
    return [_around_mean(counts) for counts in (observations.row_counts, observations.column_counts)]


def _around_mean(counts: np.ndarray) -> np.ndarray:
    logs = np.log(np.maximum(counts, 1))
    return np.where(counts > 0, np.clip(logs - logs.mean(), -_MOST_ACTIVE, _MOST_ACTIVE), 0.0)


def _finite(x: np.ndarray) -> np.ndarray:
    """Zero instead of infinity: the density there is zero, and so is the product."""
    return np.where(np.isinf(x), 0.0, x)

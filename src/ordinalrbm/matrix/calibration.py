"""The last touch: a few numbers about predictions, judged by ratings that were not learnt from.

How far to believe binary factors, how wide distributions are, and what the number of a user's ratings
says about those to come: users who rate much come to items that they like less. All are most likely
values under priors that want no change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.optimize import minimize

from ordinalrbm.data.observations import Cells, Counted, Counts
from ordinalrbm.engine.normal_reference import edge_densities, log_mass
from ordinalrbm.matrix.predict import bounds, utilities
from ordinalrbm.matrix.protocol import Utilities, UtilityModel
from ordinalrbm.storage.reader import Stored

AnyModel = TypeVar("AnyModel", bound=UtilityModel)
# More validation ratings do not change a few numbers.
_ENOUGH = 50_000
# Drawn towards no change as if by so many ratings: with few of them, nothing is changed much.
# A shift, in standard deviations of a utility, is expected to be smaller than a gain.
_PRIOR_RATINGS = np.array([100.0, 100.0, 100.0, 400.0, 400.0])
# Wider distributions have their modes nearer the ends of the scale: not for a smaller gain.
WORTH_WIDENING = 2e-3

# What is found: logarithms of both gains and of the spread, and by how much the mean shifts with
# the logarithm of the numbers of ratings of the row and of the column.
GAINS, SPREAD, SHIFTS = [0, 1], [2], [3, 4]


# Of rows and of columns: by how much biases shift with the logarithm of how many answers
# there are, and at which logarithm they do not.
NO_SHIFTS = np.zeros((2, 2))
# No row counts as more than e to this times as active as the average, or as little: else the few ratings
# of one user with thousands, among users with two, would set the shift of all.
_MOST_ACTIVE = 4.0


def activity(counts: np.ndarray, centre: float) -> np.ndarray:
    """Logarithms of numbers of answers, around a centre; zero where there is none."""
    around = np.clip(np.log(np.maximum(counts, 1)) - centre, -_MOST_ACTIVE, _MOST_ACTIVE)
    return np.where(counts > 0, around, 0.0)


def shift_of(counts: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """What calibration adds to biases; nothing to those without an answer."""
    slope, centre = shift
    return slope * activity(counts, centre)


def read_shifts(stored: Stored) -> np.ndarray:
    """Of a file; those without calibration, and older ones, have none."""
    return stored.parameter("shifts", np.float64, (2, 2)) if "shifts" in stored else NO_SHIFTS


class Judge(NamedTuple):
    """What is known of the validation ratings: their parts, and how active rows and columns are."""

    utilities: Utilities
    bounds: tuple[np.ndarray, np.ndarray]
    activity: np.ndarray  # (2, ratings): of the row, of the column
    weight: np.ndarray | float = 1.0

    def loss(self, found: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean negative log probability, with the priors, and its slope."""
        parts, gains = self.utilities, np.exp(found)
        mean = parts.base + gains[0] * parts.by_rows + gains[1] * parts.by_columns
        mean += found[SHIFTS] @ self.activity
        deviation = gains[2] * parts.deviation
        low, high = ((bound - mean) / deviation for bound in self.bounds)
        at_low, at_high = edge_densities(low, high)
        by_mean = (at_low - at_high) / deviation
        by_mean *= self.weight
        by_spread = self.weight * (at_low * _finite(low) - at_high * _finite(high))
        slope = np.array(
            [
                gains[0] * (by_mean @ parts.by_rows),
                gains[1] * (by_mean @ parts.by_columns),
                by_spread.sum(),
                *(self.activity @ by_mean),
            ]
        )
        drawn = _PRIOR_RATINGS * found
        value, n = float(-(self.weight * log_mass(low, high)).sum() + drawn @ found), mean.size
        if isinstance(self.weight, np.ndarray):
            n = self.weight.sum(dtype=np.float64)
        return value / n, (2.0 * drawn - slope) / n

    def best(self, free: list[int]) -> tuple[float, np.ndarray]:
        """The most likely values of those that are free, and their loss."""
        found = np.zeros(_PRIOR_RATINGS.size)

        def restricted(values: np.ndarray) -> tuple[float, np.ndarray]:
            found[free] = values
            value, slope = self.loss(found)
            return value, slope[free]

        result = minimize(restricted, np.zeros(len(free)), jac=True, method="BFGS")
        found[free] = result.x
        return float(result.fun), found


def calibration(
    model: AnyModel, cells: Cells, observations: Counted, validation: Cells, weight: np.ndarray | None = None
) -> Callable[[], np.ndarray | None]:
    """What finds the numbers that suit the validation ratings, or None.

    It may be called later, and in another thread: what it takes of the model, it has. Cells are the
    validation ratings as the model has them, whose rows may be others than those learnt from.
    """
    some, own = (each.at(slice(None, _ENOUGH)) for each in (cells, validation))
    if some.row.size == 0:
        return lambda: None
    judge = Judge(
        utilities(model, some), bounds(model, some), _activity_of(own, observations), _some_of(weight)
    )

    def find() -> np.ndarray | None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = model.fitted_calibration(judge)
        return found if np.isfinite(found).all() else None  # of a model that rules out what is the case

    return find


def _activity_of(cells: Cells, observations: Counted) -> np.ndarray:
    """(2, cells) activity of rows and of columns; that of an unknown one, at −1, is zero."""
    row, column = log_counts(observations)
    return np.stack([np.append(row, 0.0)[cells.row], np.append(column, 0.0)[cells.column]])


def _some_of(weight: np.ndarray | None) -> np.ndarray | float:
    return 1.0 if weight is None else weight[:_ENOUGH].astype(np.float64)


def shifts_of_draws(
    models: Sequence[UtilityModel],
    cells: Cells,
    observations: Counted,
    validation: Cells,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Shifts of the biases of rows and of columns in every draw, for the same reason.

    Draws are judged together: by the mean of a cell's utility, and by its variance over all. Cells
    are the validation ratings as the models have them, whose rows may be others.
    """
    some, own = (each.at(slice(None, _ENOUGH)) for each in (cells, validation))
    if not some.row.size:
        return NO_SHIFTS
    low, high, base, squares = np.zeros((4, some.row.size))
    for model in models:
        parts, (lower, upper) = utilities(model, some), bounds(model, some)
        low, high = low + (lower - parts.base), high + (upper - parts.base)
        base, squares = base + parts.base, squares + parts.base**2 + parts.deviation**2
    n, nothing = len(models), np.zeros(some.row.size)
    deviation = np.sqrt(np.maximum(squares / n - (base / n) ** 2, 1.0))
    parts = Utilities(nothing, nothing, nothing, deviation)
    judge = Judge(parts, (low / n, high / n), _activity_of(own, observations), _some_of(weight))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        _, found = judge.best(SHIFTS)
    return shifts_by(found, observations) if np.isfinite(found).all() else NO_SHIFTS


def calibrated(models: Sequence[AnyModel], observations: Counted, validation: Cells) -> list[AnyModel]:
    """The models with what suits the validation ratings, judged by the last of them."""
    found = calibration(models[-1], validation, observations, validation)()
    return with_numbers(models, found, observations)


def with_numbers(
    models: Sequence[AnyModel], numbers: np.ndarray | None, observations: Counted | Counts
) -> list[AnyModel]:
    """Calibrated models; ``observations`` are those learnt from."""
    return list(models) if numbers is None else [model.calibrated(numbers, observations) for model in models]


def log_counts(observations: Counted | Counts) -> list[np.ndarray]:
    """Logarithms of the numbers of answers of rows and columns, around their means."""
    row, column = _centres(observations)
    return [activity(observations.row_counts, row), activity(observations.column_counts, column)]


def _centres(observations: Counted | Counts) -> list[float]:
    counts = (observations.row_counts, observations.column_counts)
    return [float(np.log(np.maximum(count, 1)).mean()) for count in counts]


def shifts_by(found: np.ndarray, observations: Counted | Counts) -> np.ndarray:
    """(2, 2) what rows and columns shift by, and around where."""
    return np.stack([found[SHIFTS], _centres(observations)], axis=1)


def _finite(x: np.ndarray) -> np.ndarray:
    """Zero instead of infinity: the density there is zero, and so is the product."""
    return np.where(np.isinf(x), 0.0, x)

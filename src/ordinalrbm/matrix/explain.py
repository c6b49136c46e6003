"""What speaks for an item: the user's ratings, and the factors of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.gaussian_state import Prior
from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.matrix.gaussian import facing
from ordinalrbm.matrix.infer_rows import placed
from ordinalrbm.matrix.model import Half, MatrixModel, row_side
from ordinalrbm.matrix.predict import Pairs, probabilities
from ordinalrbm.vector.posterior import MAX_ITERATIONS, TOLERANCE

_SMALLEST_SQUARE = 1e-12
# One rating more or less is a small difference: both must be found exactly.
_SETTLED = 2e-4
_MOST_ENTRIES = 1 << 22  # answers of copies of a row held at a time


@dataclass(frozen=True)
class Explanation:
    """Why a user is expected to give an item this rating.

    Attributes
    ----------
    expected : float
        The expected rating, given all other ratings of the user.
    ratings : DataFrame
        The user's ratings with the largest effect: item, rating, and by how much the expected
        rating would be lower without it (negative: higher).
    factors : DataFrame
        The factors with the largest contribution to the mean utility, whose standard deviation is
        one: of whom ("user" or "item"), which, its value (a probability if factors are binary),
        and the contribution.

    Examples
    --------
    >>> print(Explanation(3.5, pd.DataFrame({"item": ["tea"], "rating": [5], "effect": [0.25]}),
    ...                   pd.DataFrame({"of": ["user"], "factor": [0], "contribution": [0.1]})))
    Expected rating 3.5.
    Ratings that speak for it (+) or against it (-):
    item  rating  effect
     tea       5    0.25
    Factors, in units of the utility's standard deviation:
      of  factor  contribution
    user       0           0.1
    """

    expected: float
    ratings: pd.DataFrame
    factors: pd.DataFrame

    def __str__(self) -> str:
        return (
            f"Expected rating {self.expected:.3g}.\n"
            "Ratings that speak for it (+) or against it (-):\n"
            f"{self.ratings.to_string(index=False)}\n"
            "Factors, in units of the utility's standard deviation:\n"
            f"{self.factors.to_string(index=False)}"
        )


def rating_effects(
    model: MatrixModel,
    row: int,
    column: int,
    columns: np.ndarray,
    levels: np.ndarray,
    worth: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Expected worth of a cell, and what it loses when each of the row's answers is left out.

    The row's factors are inferred anew, by mean-field, from the answers that remain.
    """
    at_a_time = max(1, _MOST_ENTRIES // max(columns.size, 1))
    # The first copy of the row has all answers, the next one lacks the first of them, and so on.
    lacking = np.arange(-1, columns.size)
    expected = np.concatenate(
        [
            _expected_without(
                model, row, column, columns, levels, worth, lacking[start : start + at_a_time]
            )
            for start in range(0, lacking.size, at_a_time)
        ]
    )
    return float(expected[0]), expected[0] - expected[1:]


def _expected_without(
    model: MatrixModel,
    row: int,
    column: int,
    columns: np.ndarray,
    levels: np.ndarray,
    worth: np.ndarray,
    lacking: np.ndarray,
) -> np.ndarray:
    copies = _copies(columns, levels, lacking, model.n_levels)
    these = _repeated(model, row, lacking.size)
    if model.is_continuous:
        these = _placed(model, these, copies)
    else:
        side = row_side(these, copies, np.empty(copies.n_entries, dtype=np.float32))
        fixed_point(side, these.by_rows.factors, TOLERANCE, MAX_ITERATIONS)
    place = np.arange(lacking.size)
    cells = Pairs(place, np.full(lacking.size, column), np.zeros(lacking.size, dtype=np.int8))
    return probabilities([these], cells)[:, : worth.size] @ worth


def _placed(model: MatrixModel, these: MatrixModel, copies: Observations) -> MatrixModel:
    """The copies with factors and weights inferred anew; biases and widths stay."""
    own, n_factors = model.by_columns, model.by_rows.n_factors
    square = np.mean(own.weights**2 + own.weights_variance, axis=0)
    square = np.maximum(square, _SMALLEST_SQUARE)  # some are not in use
    precision = np.concatenate([[np.inf], np.ones(n_factors), 1.0 / square]).astype(np.float32)
    stay = np.full(own.cutpoints.shape[1], np.inf)
    # Biases stay, but not at zero: they go over to the columns that the copies see.
    bias = these.by_columns.bias[0]
    columns = facing(model.by_rows._replace(bias=model.by_rows.bias + bias), own, model.n_levels)
    most = np.full(copies.n_rows, own.cutpoints.shape[1] + 1, dtype=np.int32)
    prior = Prior(precision, these.by_columns.cutpoints, stay)
    found = placed(copies, columns, prior, most, _SETTLED)
    # Copies, so that kernels see rows as they know them.
    factors, weights = (part.copy() for part in np.split(found.mean[:, 1:], [n_factors], axis=1))
    doubts = (part.copy() for part in np.split(found.variance[:, 1:], [n_factors], axis=1))
    factors_variance, weights_variance = doubts
    return these._replace(
        by_rows=these.by_rows._replace(factors=factors, factors_variance=factors_variance),
        by_columns=these.by_columns._replace(weights=weights, weights_variance=weights_variance),
    )


def _copies(
    columns: np.ndarray, levels: np.ndarray, lacking: np.ndarray, n_levels: np.ndarray
) -> Observations:
    """The same row again and again, each without one answer (−1: with all)."""
    kept = np.arange(columns.size) != lacking[:, None]
    row_start = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    answer = np.nonzero(kept)[1]
    return Observations(row_start, columns[answer], levels[answer], n_levels)


def _repeated(model: MatrixModel, row: int, times: int) -> MatrixModel:
    """The model with this row alone, so many times; its factors unknown."""

    def again(array: np.ndarray) -> np.ndarray:
        return np.repeat(array[row : row + 1], times, axis=0)

    other = model.by_columns
    factors = np.full((times, model.by_rows.n_factors), 0.5, dtype=np.float32)
    repeated = other._replace(
        weights=again(other.weights), bias=again(other.bias), cutpoints=again(other.cutpoints)
    )
    if model.is_continuous:
        repeated = repeated._replace(bias_variance=again(other.bias_variance))
    return model._replace(by_rows=model.by_rows._replace(factors=factors), by_columns=repeated)


def factor_contributions(model: MatrixModel, row: int, column: int, n: int) -> pd.DataFrame:
    """The n factors that move a cell's utility most, compared to average factors."""
    table = pd.concat(
        [
            _contributions(model.by_rows, row, column, model.gains[0], "user"),
            _contributions(model.by_columns, column, row, model.gains[1], "item"),
        ],
        ignore_index=True,
    )
    first = np.argsort(-table["contribution"].abs().to_numpy(), kind="stable")[:n]
    return table.iloc[first].reset_index(drop=True)


def _contributions(half: Half, row: int, column: int, gain: float, of: str) -> pd.DataFrame:
    """Of the row's factors, through the column's weights."""
    factors = half.factors[row].astype(np.float64)
    usual = half.factors.mean(axis=0, dtype=np.float64)
    return pd.DataFrame(
        {
            "of": of,
            "factor": np.arange(half.n_factors),
            "value": factors,
            "contribution": gain * half.weights[column] * (factors - usual),
        }
    )

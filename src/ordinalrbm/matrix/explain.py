"""What speaks for an item: the user's ratings, and the factors of both.

Every kind of model says itself what they add (:meth:`Posterior.rating_effects`); here is what they share.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ordinalrbm.data.observations import Cells
from ordinalrbm.matrix.predict import probabilities
from ordinalrbm.matrix.protocol import ExplainedCell, Model
from ordinalrbm.runtime.display import Readable

NEXT_TO = 1e-4  # a difference of utilities, or a share, that is small


@dataclass(frozen=True, repr=False)
class Explanation(Readable):
    """Why a user is expected to give an item this rating.

    Attributes
    ----------
    expected : float
        The expected rating, given all other ratings of the user.
    ratings : DataFrame
        The user's ratings with the largest effect: item, rating, and by how much the expected
        rating would be lower without it (negative: higher).
    baseline : float
        The prediction for a user without ratings, and with the same features.
    factors : DataFrame
        The factors with the largest contribution to the mean utility, whose standard deviation is
        one: which, its value (a probability if factors are binary), and the contribution. Where
        users and items both have factors of their own, also of whom ("user" or "item").

    Examples
    --------
    >>> Explanation(3.5, pd.DataFrame({"item": ["tea"], "rating": [5], "effect": [0.25]}),
    ...             pd.DataFrame({"of": ["user"], "factor": [0], "contribution": [0.1]}))
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
    baseline: float = np.nan

    def _parts(self) -> Iterator[str | pd.DataFrame]:
        without = ""
        if not np.isnan(self.baseline):
            without = f" ({self.baseline:.3g} for a user without ratings)"
        yield f"Expected rating {self.expected:.3g}{without}."
        yield "Ratings that speak for it (+) or against it (-):"
        yield self.ratings
        yield "Factors, in units of the utility's standard deviation:"
        yield self.factors


def adding_up(effects: np.ndarray, whole: float) -> np.ndarray:
    """The effects, such that they add up to the whole; what is missing is shared by their sizes.

    Regressions start at the middle of the prior, with what is not known of this row. Predictions
    for a row without answers know less, and more: how others have answered for the column.
    """
    size = np.abs(effects)
    if not size.any():
        return effects
    return effects + (whole - effects.sum()) * size / size.sum()


def effects_of_copies(copies: Model, cell: ExplainedCell) -> tuple[float, np.ndarray]:
    """Expected worth of a cell, and what it loses without each of the row's answers.

    The first row of ``copies`` has all answers, and each of the others lacks one.
    """
    each = probabilities([copies], cells_of(cell.column, 1 + cell.columns.size))
    worths = each[:, : cell.worth.size] @ cell.worth
    return float(worths[0]), worths[0] - worths[1:]


def cells_of(column: int, n_rows: int) -> Cells:
    return Cells(np.arange(n_rows), np.full(n_rows, column), np.zeros(n_rows, dtype=np.int8))


def repeated(array: np.ndarray, row: int, times: int) -> np.ndarray:
    return np.repeat(array[row : row + 1], times, axis=0)


def largest(contributions: pd.DataFrame, n: int) -> pd.DataFrame:
    """The n factors that contribute most, up or down."""
    size = contributions["contribution"].abs().to_numpy()
    return contributions.iloc[np.argsort(-size, kind="stable")[:n]].reset_index(drop=True)


def contributions(factors: np.ndarray, row: int, weights: np.ndarray) -> pd.DataFrame:
    """What the row's factors add through these weights."""
    own = factors[row].astype(np.float64)
    mean = factors.mean(axis=0, dtype=np.float64)
    return pd.DataFrame({"factor": np.arange(own.size), "value": own, "contribution": weights * (own - mean)})

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

    Examples
    --------
    >>> Explanation(3.5, pd.DataFrame({"item": ["tea"], "rating": [5], "effect": [0.25]}))
    Expected rating 3.5.
    Ratings that speak for it (+) or against it (-):
    item  rating  effect
     tea       5    0.25
    """

    expected: float
    ratings: pd.DataFrame
    baseline: float = np.nan

    def _parts(self) -> Iterator[str | pd.DataFrame]:
        without = ""
        if not np.isnan(self.baseline):
            without = f" ({self.baseline:.3g} for a user without ratings)"
        yield f"Expected rating {self.expected:.3g}{without}."
        yield "Ratings that speak for it (+) or against it (-):"
        yield self.ratings


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

"""P(v_di | all other ratings): what the pseudo-likelihood of a matrix is made of.

Expected factors have seen the rating that is to be predicted. Its part is taken back, to first
order: that u_di lies between two thresholds has added w_ik (E[u_di] − μ_di) to the log odds of the
row's factor k, and ω_ds (E[u_di] − μ_di) to those of the column's factor s.
"""

import numpy as np
from scipy.special import expit, logit

from ordinalrbm.data.observations import Cells
from ordinalrbm.engine.normal_reference import truncated_mean
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.predict import bounds, expected_utility

_SURE = 1e-6  # no factor is surer than that


def of_cells(model: MatrixModel, cells: Cells) -> tuple[MatrixModel, Cells]:
    """A model with a row and a column of its own for every cell, and these cells."""

    def taken(half: Half, columns: np.ndarray, rows: np.ndarray) -> Half:
        return half.with_columns(lambda part: part[columns])._replace(factors=half.factors[rows])

    own = np.arange(cells.row.size)
    by_rows = taken(model.by_rows, cells.column, cells.row)
    by_columns = taken(model.by_columns, cells.row, cells.column)
    return MatrixModel(by_rows, by_columns, model.n_levels[cells.column]), Cells(own, own, cells.level)


def without_own_rating(model: MatrixModel, cells: Cells) -> MatrixModel:
    """The model of :func:`of_cells`, whose factors have not seen the cell's rating."""
    mean, (low, high) = expected_utility(model, cells), bounds(model, cells)
    pull = truncated_mean(low - mean, high - mean)

    def unseen(half: Half) -> Half:
        sure = np.clip(half.factors, _SURE, 1.0 - _SURE)
        factors = expit(logit(sure) - half.weights * pull[:, None])
        return half._replace(factors=factors.astype(np.float32))

    return model._replace(by_rows=unseen(model.by_rows), by_columns=unseen(model.by_columns))

"""P(v_j | v): from expected or sampled factors to distributions over levels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ordinalrbm.engine import gibbs
from ordinalrbm.engine.side import Side
from ordinalrbm.vector.model import VectorModel
from ordinalrbm.vector.posterior import Posterior, State
from ordinalrbm.vector.spread import utility_spread

# The distribution of a less probable style is not widened: that is slow, and hardly seen.
_WORTH_WIDENING = 0.05


class Cells(NamedTuple):
    """Cells to predict, row by row, with the true level where it is known (else −1)."""

    row_start: np.ndarray
    column: np.ndarray
    level: np.ndarray

    def of_rows(self, start: int, stop: int) -> Cells:
        """Those of some rows in a row."""
        entries = slice(self.row_start[start], self.row_start[stop])
        starts = self.row_start[start : stop + 1] - self.row_start[start]
        return Cells(starts, self.column[entries], self.level[entries])


def all_cells(n_rows: int, n_columns: int) -> Cells:
    """Every cell of a table."""
    n_cells = n_rows * n_columns
    return Cells(
        np.arange(n_rows + 1, dtype=np.int64) * n_columns,
        np.tile(np.arange(n_columns, dtype=np.int32), n_rows),
        np.full(n_cells, -1, dtype=np.int16),
    )


def unanswered_cells(levels: np.ndarray) -> Cells:
    """The gaps of a dense table of levels."""
    rows, columns = np.nonzero(levels < 0)
    start = np.zeros(levels.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=levels.shape[0]), out=start[1:])
    return Cells(start, columns.astype(np.int32), np.full(rows.size, -1, dtype=np.int16))


def probabilities(
    model: VectorModel,
    states: Iterable[State],
    cells: Cells,
    spread: np.ndarray | None = None,
) -> np.ndarray:
    """(cells, L): mean over the given states of P(level | factors, style).

    ``spread`` is the standard deviation of each cell's utility, one if not given.
    """
    width = int(model.n_levels.max(initial=1))
    total = np.zeros((cells.column.size, width))
    these = parameters_only(model)
    for state in states:
        these = these._replace(stretch=state.stretch)
        gibbs.add_probabilities(these, state.factors, cells.row_start, cells.column, total, spread)
    total /= total.sum(axis=1, keepdims=True)
    return total


def mixed(
    model: VectorModel, this: Side, found: Posterior, cells: Cells, *, widened: bool = False
) -> np.ndarray:
    """(cells, L): P(level | expected factors), averaged over each row's possible styles.

    ``widened`` distributions account for the uncertainty of the factors (linear response).
    """
    row = np.repeat(np.arange(this.n_rows), np.diff(cells.row_start))
    total = np.zeros((cells.column.size, int(model.n_levels.max(initial=1))))
    these = parameters_only(model)
    for (factors, stretch), weight, _ in found.components:
        spread = None
        if widened:
            styled = this._replace(stretch=stretch)
            likely = weight > _WORTH_WIDENING
            spread = utility_spread(model, styled, factors, likely)[row, cells.column]
        these = these._replace(stretch=stretch)
        gibbs.add_probabilities(
            these, factors, cells.row_start, cells.column, total, spread, weight
        )
    total /= total.sum(axis=1, keepdims=True)
    return total


def prior(model: VectorModel, factors: np.ndarray, cells: Cells) -> np.ndarray:
    """(cells, L): P(level | factors) for rows of whose style nothing is known."""
    total = np.zeros((cells.column.size, int(model.n_levels.max(initial=1))))
    for stretch, share in zip(model.stretches, model.style_weights, strict=True):
        stretched = np.full(factors.shape[0], stretch, dtype=np.float32)
        total += share * probabilities(model, [State(factors, stretched)], cells)
    return total


def parameters_only(model: VectorModel) -> Side:
    """A Side without answers, for kernels that need only parameters."""
    no_index, no_number = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
    nothing = np.zeros(1, dtype=np.int64)
    return Side(
        nothing, no_index, np.zeros(0, dtype=np.int8), nothing, no_index, no_index, no_number,
        no_number, no_number, np.zeros((0, 0), dtype=np.float32), model.weights, model.bias,
        model.thresholds, model.factor_bias, model.units,
    )  # fmt: skip

"""Features of rows on a GPU: :mod:`ordinalrbm.engine.rated_sets` with all weights drawn at once.

Weights of features that rows share hang together, and the cores draw one after the other; see
:mod:`ordinalrbm.engine.gpu.ridge` for how it is done here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array

from ordinalrbm.engine.gpu.half_sweep import GPU_ENGINE, Table
from ordinalrbm.engine.gpu.pieces import Answers
from ordinalrbm.engine.gpu.ridge import drawn_weights
from ordinalrbm.engine.rated_sets import FEW, WeightDraws


class RatedSets(NamedTuple):
    """Features of rows: the columns that they have rated."""

    answers: Answers
    transposed: Answers
    lengths: torch.Tensor  # (rows, 1), what each of a row's features is
    squares: torch.Tensor  # (features, 1), their squares over all rows
    solvers: dict[int, Any]  # by the number of coordinates, made when first needed

    @classmethod
    def of(cls, row_counts: np.ndarray, answers: Answers, transposed: Answers) -> RatedSets:
        """Features of rows with so many ratings, which both views hold on the device."""
        counts = torch.from_numpy(row_counts).to(answers.column.device)
        lengths = torch.rsqrt(counts.float() + FEW)[:, None]
        return cls(answers, transposed, lengths, GPU_ENGINE.rated_sums(transposed, lengths**2), {})

    def times(self, weights: torch.Tensor) -> torch.Tensor:
        """(rows, W): features times the weights of each, (features, W)."""
        return self.lengths * GPU_ENGINE.rated_sums(self.answers, weights)

    def transposed_times(self, of_rows: torch.Tensor) -> torch.Tensor:
        """(features, W): numbers of rows, times what each feature is there, summed."""
        return GPU_ENGINE.rated_sums(self.transposed, self.lengths * of_rows)

    def draw_weights(
        self, weights: torch.Tensor, left: torch.Tensor, ridge: float, which: WeightDraws
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights drawn anew, and what they leave; see :func:`drawn_weights`."""
        return drawn_weights(self, weights, left, ridge, which)


class FeatureTable(NamedTuple):
    """Features of rows as numbers, of which most may be zero."""

    table: Table
    squares: torch.Tensor  # (features, 1)
    solvers: dict[int, Any]

    @classmethod
    def of(cls, table: csr_array, device: torch.device) -> FeatureTable:
        """A table of the host's on a device."""
        squares = np.asarray(table.power(2).sum(axis=0), dtype=np.float32)[:, None]
        there = torch.from_numpy(squares).to(device)
        return cls(GPU_ENGINE.feature_table(table, there), there, {})

    def times(self, weights: torch.Tensor) -> torch.Tensor:
        """(rows, W): features times the weights of each, (features, W)."""
        return self.table.by_rows @ weights

    def transposed_times(self, of_rows: torch.Tensor) -> torch.Tensor:
        """(features, W): numbers of rows, times what each feature is there, summed."""
        return self.table.by_features @ of_rows

    def draw_weights(
        self, weights: torch.Tensor, left: torch.Tensor, ridge: float, which: WeightDraws
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights drawn anew, and what they leave; see :func:`drawn_weights`."""
        return drawn_weights(self, weights, left, ridge, which)

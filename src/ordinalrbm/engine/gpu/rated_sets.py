"""Features of rows on a GPU: :mod:`ordinalrbm.engine.rated_sets` with all weights drawn at once.

Weights of features that rows share hang together, and the cores draw one after the other. Here they
are the solution of a ridge regression with noise on both sides (Simm et al. 2017), by conjugate
gradients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array

from ordinalrbm.engine.gpu.half_sweep import Table, feature_table, rated_sums
from ordinalrbm.engine.gpu.pieces import Answers
from ordinalrbm.engine.rated_sets import FEW, WeightDraws

# Steps of conjugate gradients at most, and how little is left in the end, beside the first.
_MOST_STEPS, _SOLVED = 60, 1e-2
# How many are done between two looks at what is left: to look is to wait, which takes as long as a
# step with few numbers and nothing beside one with many.
_UNLOOKED, _MANY = 5, 2**22


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
        return cls(answers, transposed, lengths, rated_sums(transposed, lengths**2), {})

    def times(self, weights: torch.Tensor, *, roughly: bool = False) -> torch.Tensor:
        """(rows, W): features times the weights of each, (features, W)."""
        sums = _rough_sums if roughly else rated_sums
        return self.lengths * sums(self.answers, weights)

    def transposed_times(self, of_rows: torch.Tensor, *, roughly: bool = False) -> torch.Tensor:
        """(features, W): numbers of rows, times what each feature is there, summed."""
        sums = _rough_sums if roughly else rated_sums
        return sums(self.transposed, self.lengths * of_rows)

    def draw_weights(
        self, weights: torch.Tensor, left: torch.Tensor, ridge: float, which: WeightDraws
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights drawn anew, and what they leave; see :func:`_drawn_weights`."""
        return _drawn_weights(self, weights, left, ridge, which)


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
        return cls(feature_table(table, there), there, {})

    def times(self, weights: torch.Tensor, *, roughly: bool = False) -> torch.Tensor:
        """(rows, W): features times the weights of each, (features, W)."""
        return self.table.by_rows @ weights

    def transposed_times(self, of_rows: torch.Tensor, *, roughly: bool = False) -> torch.Tensor:
        """(features, W): numbers of rows, times what each feature is there, summed."""
        return self.table.by_features @ of_rows

    def draw_weights(
        self, weights: torch.Tensor, left: torch.Tensor, ridge: float, which: WeightDraws
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights drawn anew, and what they leave; see :func:`_drawn_weights`."""
        return _drawn_weights(self, weights, left, ridge, which)


def _rough_sums(answers: Answers, table: torch.Tensor) -> torch.Tensor:
    """Sums over rows of the table that are read as float16: three digits, and half the bytes.

    Which is what the time of a sum goes by. Numbers are scaled to where float16 has most of them.
    """
    size = table.abs().amax(0).clamp_min(1e-30)
    return size * rated_sums(answers, (table / size).half())


def _drawn_weights(
    features: Any, weights: torch.Tensor, left: torch.Tensor, ridge: float, which: WeightDraws
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw all weights together; see the cores' engine for what is given and returned."""
    noise = torch.Generator(weights.device)
    noise.manual_seed(int(np.random.SeedSequence(which).generate_state(1, np.uint64)[0] >> 1))
    of_rows, own = (
        torch.randn(part.shape, generator=noise, device=part.device) for part in (left, weights)
    )
    residual = features.transposed_times(left + of_rows) + ridge**0.5 * own - ridge * weights
    width = weights.shape[1]
    if width not in features.solvers:
        features.solvers[width] = _Solver(features, left, weights)
    change, explained = features.solvers[width].solve(residual, ridge)
    return weights + change, left - explained


class _Solver:
    """Conjugate gradients for the squares of features with a ridge.

    A step is many small kernels, which take longer to launch than to run: they are recorded once,
    and replayed. So all that changes stays in place.
    """

    def __init__(self, features: Any, left: torch.Tensor, weights: torch.Tensor) -> None:
        self.features = features
        self.ridge = weights.new_ones(())
        self.diagonal = features.squares.clone()
        self.found, self.direction, self.residual = (torch.zeros_like(weights) for _ in range(3))
        self.explained = torch.zeros_like(left)  # features times what was found
        self.size = weights.new_zeros(weights.shape[1])
        self.replay = self._recorded() if weights.is_cuda else self._step

    def solve(self, residual: torch.Tensor, ridge: float) -> tuple[torch.Tensor, torch.Tensor]:
        """What the squares take to the residual, and features times it; valid until called again.

        It ends when little is left beside the prior and noise of weights.
        """
        self.ridge.fill_(ridge)
        self.residual.copy_(residual)
        torch.add(self.features.squares, self.ridge, out=self.diagonal)
        torch.div(residual, self.diagonal, out=self.direction)
        self.found.zero_()
        self.explained.zero_()
        self.size.copy_((residual * self.direction).sum(0))
        enough = _SOLVED**2 * self.size
        unlooked = 1 if self.explained.numel() + self.found.numel() > _MANY else _UNLOOKED
        for step in range(1, _MOST_STEPS + 1):
            self.replay()
            if step % unlooked == 0 and bool((self.size <= enough).all()):
                break
        return self.found, self.explained

    def _step(self) -> None:
        by_rows = self.features.times(self.direction, roughly=True)
        image = self.features.transposed_times(by_rows, roughly=True)
        image += self.ridge * self.direction
        share = self.size / (self.direction * image).sum(0).clamp_min(1e-30)
        self.found += share * self.direction
        self.explained += share * by_rows
        self.residual -= share * image
        scaled = self.residual / self.diagonal
        size = (self.residual * scaled).sum(0)
        self.direction.mul_(size / self.size.clamp_min(1e-30)).add_(scaled)
        self.size.copy_(size)

    def _recorded(self) -> Any:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # compiles, and makes room
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        return graph.replay

"""Features of rows on a GPU: :mod:`ordinalrbm.engine.rated_sets` with all weights drawn at once.

Weights of features that rows share hang together, and the cores draw one after the other. Here they
are drawn together: a ridge regression with noise on both sides. With more rows than features the
weights are solved for (Simm et al. 2017), with fewer a number of each row, from which they follow
(Bhattacharya et al. 2016). Either is done by conjugate gradients, whose steps are two sums over all
features of all rows.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
import triton
import triton.language as tl
from scipy.sparse import csr_array

from ordinalrbm.engine.gpu import normal
from ordinalrbm.engine.gpu.gibbs import seed_on, uniform_draw
from ordinalrbm.engine.gpu.half_sweep import GPU_ENGINE
from ordinalrbm.engine.gpu.pieces import Answers
from ordinalrbm.engine.philox import Purpose, stream
from ordinalrbm.engine.rated_sets import FEW, WeightDraws

# Steps of conjugate gradients at most, and how little is left in the end, beside the first: what a
# draw is wrong by is then some hundredth of its standard deviation.
_MOST_STEPS, _SOLVED = 60, 0.03
# How many are done between two looks at what is left: to look is to wait, which takes as long as a
# step with few numbers and nothing beside one with many.
_UNLOOKED, _MANY = 5, 2**22
# Times that the squares are applied to find their leading directions.
_POWERS = 4
# Random numbers that one program makes.
_NUMBERS = tl.constexpr(256)


class _Features(ABC):
    """Features of rows, and the solvers for their weights, made when first needed.

    ``squares`` is (features, 1): squared features, summed over all rows.
    """

    def __init__(self, squares: torch.Tensor) -> None:
        self.squares = squares
        self._solvers: dict[int, _Solver] = {}  # by the number of coordinates

    @abstractmethod
    def times(self, weights: torch.Tensor) -> torch.Tensor:
        """(rows, W): features times the weights of each, (features, W)."""

    @abstractmethod
    def transposed_times(self, of_rows: torch.Tensor) -> torch.Tensor:
        """(features, W): numbers of rows, times what each feature is there, summed."""

    def draw_weights(
        self, weights: torch.Tensor, left: torch.Tensor, ridge: float, which: WeightDraws
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """New draws of the weights, and what they leave; see the cores' engine for what is given."""
        of_rows = _normals(left, which, Purpose.ROW_NOISE)
        own = _normals(weights, which, Purpose.WEIGHT)
        forth, back, by_rows = self.times, self.transposed_times, len(left) < len(weights)
        solver = self._solvers.get(weights.shape[1])
        if solver is None and by_rows:
            solver = _Solver(back, forth, _Leading(back, forth, left), left, weights)
        elif solver is None:
            solver = _Solver(forth, back, _Diagonal(self.squares), weights, left)
        self._solvers[weights.shape[1]] = solver
        if by_rows:
            own = own * ridge**-0.5
            given = left + self.times(weights - own) - of_rows
            found, explaining, rest = solver.solve(given, ridge)
            return own + explaining, of_rows + ridge * found + rest
        given = self.transposed_times(left + of_rows) + ridge**0.5 * own - ridge * weights
        change, explained, _ = solver.solve(given, ridge)
        return weights + change, left - explained


class RatedSets(_Features):
    """Features of rows: the columns that they have rated.

    ``lengths`` is (rows, 1): what each of a row's features is.
    """

    def __init__(self, answers: Answers, transposed: Answers, lengths: torch.Tensor) -> None:
        super().__init__(GPU_ENGINE.rated_sums(transposed, lengths**2))
        self.answers, self.transposed, self.lengths = answers, transposed, lengths

    @classmethod
    def of(cls, row_counts: np.ndarray, answers: Answers, transposed: Answers) -> RatedSets:
        """Features of rows with so many ratings, which both views hold on the device."""
        counts = torch.from_numpy(row_counts).to(answers.column.device)
        return cls(answers, transposed, torch.rsqrt(counts.float() + FEW)[:, None])

    def times(self, weights: torch.Tensor) -> torch.Tensor:
        return self.lengths * GPU_ENGINE.rated_sums(self.answers, weights)

    def transposed_times(self, of_rows: torch.Tensor) -> torch.Tensor:
        return GPU_ENGINE.rated_sums(self.transposed, self.lengths * of_rows)


class FeatureTable(_Features):
    """Features of rows as numbers, of which most may be zero."""

    def __init__(self, table: csr_array, device: torch.device) -> None:
        squares = np.asarray(table.power(2).sum(axis=0), dtype=np.float32)[:, None]
        super().__init__(torch.from_numpy(squares).to(device))
        self.table = GPU_ENGINE.feature_table(table, self.squares)

    def times(self, weights: torch.Tensor) -> torch.Tensor:
        return self.table.by_rows @ weights

    def transposed_times(self, of_rows: torch.Tensor) -> torch.Tensor:
        return self.table.by_features @ of_rows


def _normals(like: torch.Tensor, which: WeightDraws, purpose: Purpose) -> torch.Tensor:
    """Standard normal numbers, each named by its line and place as everywhere in a chain."""
    found = torch.empty_like(like, memory_format=torch.contiguous_format)
    grid = (triton.cdiv(max(found.numel(), 1), _NUMBERS.value),)
    seed, name = seed_on(which.seed, like.device), stream(purpose, which.kind)
    _set_normals[grid](found, found.numel(), like.shape[1], seed, which.sweep, name)
    return found


@triton.jit(do_not_specialize=["n", "width", "sweep", "stream"])
def _set_normals(found, n, width, seed, sweep, stream):
    place = tl.program_id(0).to(tl.int64) * _NUMBERS + tl.arange(0, _NUMBERS)
    uniform = uniform_draw(seed, place // width, place % width, sweep, stream)
    tl.store(found + place, normal.standard_normal(uniform).to(tl.float32), mask=place < n)


class _Diagonal:
    """Divides by the diagonal of the squares: some features are in every row, others in few."""

    def __init__(self, squares: torch.Tensor) -> None:
        self.squares, self.diagonal = squares, squares.clone()

    def with_ridge(self, ridge: torch.Tensor) -> None:
        torch.add(self.squares, ridge, out=self.diagonal)

    def __call__(self, residual: torch.Tensor) -> torch.Tensor:
        return residual / self.diagonal


class _Leading:
    """Divides by the squares in their leading directions, in which rows have most in common.

    Rows have features of about the same length, so that the diagonal tells nothing. Leading
    directions need not be exact, and are found once, by powers of the squares.
    """

    def __init__(self, forth: Callable, back: Callable, like: torch.Tensor) -> None:
        found = _normals(like, WeightDraws(0, 0, 0), Purpose.ROW_NOISE)
        for _ in range(_POWERS):
            found = torch.linalg.qr(back(forth(found))).Q
        inner = found.T @ back(forth(found))
        sizes, turn = torch.linalg.eigh(0.5 * (inner + inner.T))
        self.directions = found @ turn
        self.sizes = sizes.clamp_min(0.0)[:, None]
        self.shares = torch.zeros_like(self.sizes)

    def with_ridge(self, ridge: torch.Tensor) -> None:
        sizes = self.sizes + ridge
        self.shares.copy_(sizes.min() / sizes - 1.0)

    def __call__(self, residual: torch.Tensor) -> torch.Tensor:
        return residual + self.directions @ (self.shares * (self.directions.T @ residual))


class _Solver:
    """Conjugate gradients for the squares of features with a ridge.

    Squares are a product with the features, ``forth``, and one with their transpose, ``back``.

    A step is many small kernels, which take longer to launch than to run: they are recorded once,
    and replayed. So all that changes stays in place.
    """

    def __init__(
        self,
        forth: Callable,
        back: Callable,
        divided: _Diagonal | _Leading,
        like: torch.Tensor,
        image_like: torch.Tensor,
    ) -> None:
        self.forth, self.back, self.divided = forth, back, divided
        self.ridge = like.new_ones(())
        self.found, self.direction, self.residual = (torch.zeros_like(like) for _ in range(3))
        self.image = torch.zeros_like(image_like)  # of what was found, by the first product
        self.size = like.new_zeros(like.shape[1])
        self.replay = self._recorded() if like.is_cuda else self._step

    def solve(self, given: torch.Tensor, ridge: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What the squares take to what is given, its image, and the rest that they do not.

        Valid until called again. It ends when little is left beside the prior and noise of weights.
        """
        self.ridge.fill_(ridge)
        self.divided.with_ridge(self.ridge)
        self.residual.copy_(given)
        self.direction.copy_(self.divided(given))
        self.found.zero_()
        self.image.zero_()
        self.size.copy_((given * self.direction).sum(0))
        enough = _SOLVED**2 * self.size
        unlooked = 1 if self.image.numel() + self.found.numel() > _MANY else _UNLOOKED
        for step in range(1, _MOST_STEPS + 1):
            self.replay()
            if step % unlooked == 0 and bool((self.size <= enough).all()):
                break
        return self.found, self.image, self.residual

    def _step(self) -> None:
        there = self.forth(self.direction)
        squares = self.back(there)
        squares += self.ridge * self.direction
        share = self.size / (self.direction * squares).sum(0).clamp_min(1e-30)
        self.found += share * self.direction
        self.image += share * there
        self.residual -= share * squares
        divided = self.divided(self.residual)
        size = (self.residual * divided).sum(0)
        self.direction.mul_(size / self.size.clamp_min(1e-30)).add_(divided)
        self.size.copy_(size)

    def _recorded(self) -> Callable[[], None]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # compiles, and makes room
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph, collects = torch.cuda.CUDAGraph(), gc.isenabled()
        gc.disable()  # the graph of an earlier fit that is destroyed meanwhile would break this one
        try:
            with torch.cuda.graph(graph):
                self._step()
        finally:
            if collects:
                gc.enable()
        return graph.replay

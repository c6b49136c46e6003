"""The distribution of single cells of a matrix on a GPU, in float64, as on the cores."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from ordinalrbm.engine.gpu import normal

# Cells, and numbers of each, that a program looks at together.
_CELLS, _NUMBERS = tl.constexpr(32), tl.constexpr(32)
_BLOCK = tl.constexpr(256)
_FAR = tl.constexpr(1e5)  # standard deviations, as on the cores


class Factored(NamedTuple):
    """One half of a matrix model on a device: the weights of one side, the factors of the other.

    Variances are empty where there are none. ``gain`` is one number, in float64.
    """

    weights: torch.Tensor
    factors: torch.Tensor
    weights_variance: torch.Tensor
    factors_variance: torch.Tensor
    gain: torch.Tensor
    middle: float


def add_products(
    half: Factored, weighing: torch.Tensor, acting: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor
) -> None:
    """Add the factors' part of the mean and variance of every cell; in place.

    ``weighing`` and ``acting`` are the positions of a cell's weights and of its factors.
    """
    n, n_factors = mean.numel(), half.weights.shape[1]
    if n and n_factors:
        grid, has_doubts = (triton.cdiv(n, _CELLS.value),), half.weights_variance.numel() > 0
        _add_products[grid](half, weighing, acting, n, n_factors, mean, variance, has_doubts)


@triton.jit
def _add_products(half, weighing, acting, n, n_factors, mean, variance, has_doubts: tl.constexpr):
    cell = tl.program_id(0).to(tl.int64) * _CELLS + tl.arange(0, _CELLS)
    here = cell < n
    i = tl.load(weighing + cell, mask=here, other=0)[:, None] * n_factors
    d = tl.load(acting + cell, mask=here, other=0)[:, None] * n_factors
    gain = tl.load(half.gain)
    total = tl.zeros((_CELLS, _NUMBERS), dtype=tl.float64)
    doubt = tl.zeros((_CELLS, _NUMBERS), dtype=tl.float64)
    for start in range(0, n_factors, _NUMBERS):
        k = (start + tl.arange(0, _NUMBERS))[None, :]
        inside = here[:, None] & (k < n_factors)
        w = tl.load(half.weights + i + k, mask=inside, other=0.0).to(tl.float64)
        f = tl.load(half.factors + d + k, mask=inside, other=0.0).to(tl.float64)
        total += w * (half.middle + gain * (f - half.middle))
        if has_doubts:
            of_w = tl.load(half.weights_variance + i + k, mask=inside, other=0.0).to(tl.float64)
            of_f = tl.load(half.factors_variance + d + k, mask=inside, other=0.0).to(tl.float64)
            doubt += of_w * (f * f + of_f) + w * w * of_f
    before = tl.load(mean + cell, mask=here, other=0.0)
    tl.store(mean + cell, before + tl.sum(total, axis=1), mask=here)
    if has_doubts:
        before = tl.load(variance + cell, mask=here, other=0.0)
        tl.store(variance + cell, before + tl.sum(doubt, axis=1), mask=here)


def add_masses(
    row: torch.Tensor,
    column: torch.Tensor,
    mean: torch.Tensor,
    deviation: torch.Tensor,
    row_gaps: torch.Tensor,
    column_cutpoints: torch.Tensor,
    n_levels: torch.Tensor,
    share: torch.Tensor,
    total: torch.Tensor,
) -> None:
    """Add a share of the probability of every level of every cell; in place."""
    n = mean.numel()
    if n:
        cutpoints = row_gaps, column_cutpoints, column_cutpoints.shape[1], n_levels
        grid = (triton.cdiv(n, _BLOCK.value),)
        _add_masses[grid](row, column, n, mean, deviation, *cutpoints, share, total, total.shape[1])


@triton.jit
def _add_masses(
    row, column, n, mean, deviation, row_gaps, column_cutpoints, n_cutpoints, n_levels, share_of, total, width
):
    cell = tl.program_id(0).to(tl.int64) * _BLOCK + tl.arange(0, _BLOCK)
    here = cell < n
    d = tl.load(row + cell, mask=here, other=0)
    i = tl.load(column + cell, mask=here, other=0)
    levels = tl.load(n_levels + i, mask=here, other=1)
    spread = tl.load(deviation + cell, mask=here, other=1.0)
    bound = tl.load(column_cutpoints + i * n_cutpoints, mask=here, other=0.0)
    bound -= tl.load(mean + cell, mask=here, other=0.0)
    low = tl.full((_BLOCK,), float("-inf"), dtype=tl.float64)
    share = tl.load(share_of)
    for level in range(0, width):
        # A bound may be anywhere, but nothing of the mass is this far out.
        far = tl.minimum(tl.maximum(bound / spread, -_FAR), _FAR)
        high = tl.where(level == levels - 1, float("inf"), far)
        exists = here & (level < levels)
        before = tl.load(total + cell * width + level, mask=exists, other=0.0)
        after = before + share * normal.mass(low, high)
        tl.store(total + cell * width + level, after, mask=exists)
        low = high
        # Above the last threshold there is none, and none is needed.
        m = tl.minimum(level + 1, n_cutpoints - 1)
        log_gap = tl.load(column_cutpoints + i * n_cutpoints + m, mask=here, other=0.0)
        bound += tl.exp(log_gap + tl.load(row_gaps + d * n_cutpoints + m, mask=here, other=0.0))

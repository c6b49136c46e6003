"""Cells of a matrix on a GPU: the distribution of single ones, and the best of many.

Single cells are computed in float64, as on the cores. Of all columns of many rows only the order
matters and what is best in it: means and variances are matrix products in float32, and what they
are worth is one kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from ordinalrbm.engine.gpu import normal

# Cells, and numbers of each, that a program looks at together.
_CELLS, _NUMBERS = tl.constexpr(32), tl.constexpr(32)
_BLOCK = tl.constexpr(256)
_COLUMNS = tl.constexpr(1024)
_FAR = tl.constexpr(1e5)  # standard deviations, as on the cores
# Of a key, the lower half is the column, counted backwards.
_LAST = tl.constexpr(2**31 - 1)


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


# ---- single cells -----------------------------------------------------------------------------


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


# ---- the best columns of rows -----------------------------------------------------------------


class Worth(NamedTuple):
    """What columns contribute to thresholds, and what passing one is worth; (L − 1, columns)."""

    gaps: torch.Tensor
    gain: torch.Tensor


def add_worth(
    mean: torch.Tensor,
    variance: torch.Tensor | None,
    spread: float,
    row_gaps: torch.Tensor,
    worth: Worth,
    share: float,
    scores: torch.Tensor,
) -> None:
    """Add a share of the expected worth of every cell, given means above the lowest threshold.

    All are (rows, columns); ``variance`` None stands for one. ``row_gaps`` is (rows, L − 1), its
    first column zero.
    """
    (n_rows, n_columns), n_cutpoints = scores.shape, len(worth.gain)
    if n_rows and n_columns and n_cutpoints:
        grid = (n_rows, triton.cdiv(n_columns, _COLUMNS.value))
        _add_worth[grid](mean, variance, spread, row_gaps, worth, share, scores, n_columns, n_cutpoints)


@triton.jit
def _add_worth(mean, variance, spread, row_gaps, worth, share, scores, n_columns, n_cutpoints):
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * _COLUMNS + tl.arange(0, _COLUMNS)
    here = i < n_columns
    cell = row * n_columns + i
    x = tl.load(mean + cell, mask=here, other=0.0)
    per_deviation = tl.zeros((_COLUMNS,), dtype=tl.float32) + 1.0 / spread
    if variance is not None:
        per_deviation = per_deviation / tl.sqrt(tl.load(variance + cell, mask=here, other=1.0))
    x = x * per_deviation
    score = tl.load(scores + cell, mask=here, other=0.0)
    for m in range(0, n_cutpoints):
        own = tl.load(row_gaps + row * n_cutpoints + m)
        x -= own * per_deviation * tl.load(worth.gaps + m * n_columns + i, mask=here, other=0.0)
        gain = tl.load(worth.gain + m * n_columns + i, mask=here, other=0.0)
        score += share * gain * normal.below(x)
    tl.store(scores + cell, score, mask=here)


def leave_out(
    scores: torch.Tensor, rows: torch.Tensor, row_start: torch.Tensor, column: torch.Tensor
) -> None:
    """Set the scores of what rows have seen to −∞; rows beyond the table have seen nothing."""
    if len(scores):
        _leave_out[(len(scores),)](scores, scores.shape[1], rows, row_start, row_start.numel() - 1, column)


@triton.jit
def _leave_out(scores, n_columns, rows, row_start, n_rows, column):
    place = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + place)
    known = row < n_rows
    first = tl.load(row_start + row, mask=known, other=0)
    stop = tl.load(row_start + row + 1, mask=known, other=0)
    for begin in range(first, stop, _BLOCK):
        e = begin + tl.arange(0, _BLOCK)
        i = tl.load(column + e, mask=e < stop, other=0)
        nothing = tl.full((_BLOCK,), float("-inf"), dtype=tl.float32)
        tl.store(scores + place * n_columns + i, nothing, mask=e < stop)


def best(scores: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The n best columns of each row in order, of equal ones the first, and their scores.

    Scores and columns make one whole number each, no two of which are equal, so that it does not
    matter which of equal numbers ``topk`` finds.
    """
    keys = torch.empty(scores.shape, dtype=torch.int64, device=scores.device)
    if keys.numel():
        _set_keys[(triton.cdiv(keys.numel(), _COLUMNS.value),)](scores, keys, scores.shape[1], keys.numel())
    keys = torch.topk(keys, n, dim=1).values
    column = _LAST.value - (keys & (2**32 - 1))
    return column.int(), _in_order((keys >> 32).int()).view(torch.float32)


def _in_order(bits: torch.Tensor) -> torch.Tensor:
    return torch.where(bits < 0, bits ^ _LAST.value, bits)


@triton.jit
def _set_keys(scores, keys, n_columns, n):
    cell = tl.program_id(0).to(tl.int64) * _COLUMNS + tl.arange(0, _COLUMNS)
    here = cell < n
    bits = tl.load(scores + cell, mask=here, other=0.0).to(tl.int32, bitcast=True)
    # Whole numbers in the same order: of negative ones all bits but the sign are inverted.
    bits = tl.where(bits < 0, bits ^ _LAST, bits).to(tl.int64)
    tl.store(keys + cell, (bits << 32) | (_LAST - cell % n_columns), mask=here)

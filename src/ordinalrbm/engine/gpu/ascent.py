"""Parameters of binary factors on a GPU: their updates, and the thresholds made of them.

The functions of :mod:`ordinalrbm.matrix.binary_state` and :mod:`ordinalrbm.engine.thresholds`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from ordinalrbm.engine.gpu.tables import shape
from ordinalrbm.engine.side import Statistics

# Weights that one program moves; columns whose bounds one makes.
_TOGETHER, _MANY = 2048, tl.constexpr(256)
# Of a table of bounds, beside the thresholds: −∞ and +∞ around them, and the two of the unknown level.
_OTHER_BOUNDS = tl.constexpr(4)


def ascend(
    half: Any,
    sums: Any,
    clamped: Statistics,
    free: Statistics,
    n_answers: torch.Tensor,
    priors: Any,
    steps: Any,
) -> None:
    """Move the columns that a batch has touched, and the factors' biases; in place.

    ``half`` and ``sums`` have their weights in tables
    (:func:`ordinalrbm.engine.gpu.tables.padded`), and ``n_answers`` are float64. Columns of which
    the batch has no answer are left alone by the kernel itself, so that they need not be listed.
    """
    n_columns, width = half.weights.shape
    tile, block = shape(width, _TOGETHER)
    if n_columns:
        sizes = n_columns, half.factor_bias.numel(), width, clamped.weights.stride(0), half.cutpoints.shape[1]
        _move_columns[(triton.cdiv(n_columns, tile),)](
            half, sums, clamped, free, n_answers, priors, *map(float, steps), *sizes, tile, block
        )
    gradient = clamped.factor_bias - free.factor_bias
    sums.factor_bias.addcmul_(gradient, gradient, value=float(steps.adaptive))
    half.factor_bias.addcdiv_(gradient, torch.sqrt(sums.factor_bias), value=float(steps.rate))


@triton.jit(do_not_specialize=["n_factors", "n_cutpoints", "statistics_width"])
def _move_columns(
    half,
    sums,
    clamped,
    free,
    n_answers,
    priors,
    rate,
    adaptive,
    centre,
    n_columns,
    n_factors,
    width,
    statistics_width,
    n_cutpoints,
    tile: tl.constexpr,
    block: tl.constexpr,
):
    """Move some columns: the same as ``_move_column`` on the CPU."""
    i = (tl.program_id(0) * tile + tl.arange(0, tile)).to(tl.int64)
    count = tl.load(clamped.answers + i, mask=i < n_columns, other=0.0)
    here = count > 0.0
    # The prior is spread over the answers, so that an epoch counts it once.
    part = (count.to(tl.float64) / tl.load(n_answers + i, mask=here, other=1.0)).to(tl.float32)
    towards_bias = tl.load(clamped.bias + i, mask=here, other=0.0)
    towards_bias -= tl.load(free.bias + i, mask=here, other=0.0)

    k = tl.arange(0, block)
    inside = here[:, None] & (k < n_factors)[None, :]
    at, of_batch = i[:, None] * width + k[None, :], i[:, None] * statistics_width + k[None, :]
    w = tl.load(half.weights + at, mask=inside, other=0.0)
    # Coded around their middle, a weight of factors turns the utility and does not shift it.
    g = tl.load(clamped.weights + of_batch, mask=inside, other=0.0)
    g -= tl.load(free.weights + of_batch, mask=inside, other=0.0) + centre * towards_bias[:, None]
    g = tl.where(inside, g - priors.weights * part[:, None] * w, 0.0)
    squares = tl.load(sums.weights + at, mask=inside, other=1.0) + adaptive * g * g
    step = rate * g / tl.sqrt(squares)
    tl.store(sums.weights + at, squares, mask=inside)
    tl.store(half.weights + at, w + step, mask=inside)

    b = tl.load(half.bias + i, mask=here, other=0.0)
    away = b + 0.5 * tl.sum(w, axis=1) - priors.common_bias
    g_bias = towards_bias - priors.bias * part * away
    squares_bias = tl.load(sums.bias + i, mask=here, other=1.0) + adaptive * g_bias * g_bias
    tl.store(sums.bias + i, squares_bias, mask=here)
    b += rate * g_bias / tl.sqrt(squares_bias) - centre * tl.sum(step, axis=1)
    tl.store(half.bias + i, b, mask=here)

    for m in range(1, n_cutpoints):
        at_c, at_bound = i * n_cutpoints + m, i * (n_cutpoints + _OTHER_BOUNDS) + m
        c = tl.load(half.cutpoints + at_c, mask=here, other=0.0)
        g_c = tl.exp(c) * tl.load(clamped.thresholds + at_bound, mask=here, other=0.0)
        beyond = c - tl.load(priors.common_cutpoints + at_c, mask=here, other=0.0)
        g_c -= priors.cutpoints * part * beyond
        squares_c = tl.load(sums.cutpoints + at_c, mask=here, other=1.0) + adaptive * g_c * g_c
        tl.store(sums.cutpoints + at_c, squares_c, mask=here)
        tl.store(half.cutpoints + at_c, c + rate * g_c / tl.sqrt(squares_c), mask=here)


def threshold_table(cutpoints: torch.Tensor, n_levels: torch.Tensor) -> torch.Tensor:
    """The bounds of all levels: −∞, θ_1, …, θ_{L−1}, +∞, padded, then the unknown level."""
    n_columns, n_cutpoints = cutpoints.shape
    bounds = cutpoints.new_empty((n_columns, n_cutpoints + _OTHER_BOUNDS.value))
    if n_columns:
        grid = (triton.cdiv(n_columns, _MANY.value),)
        _set_bounds[grid](cutpoints, n_levels, bounds, n_columns, n_cutpoints)
    return bounds


@triton.jit(do_not_specialize=["n_cutpoints"])
def _set_bounds(cutpoints, n_levels, bounds, n_columns, n_cutpoints):
    i = (tl.program_id(0) * _MANY + tl.arange(0, _MANY)).to(tl.int64)
    here = i < n_columns
    n_thresholds = tl.load(n_levels + i, mask=here, other=1) - 1
    bound = tl.load(cutpoints + i * n_cutpoints, mask=here, other=0.0)
    infinite = tl.full((_MANY,), float("inf"), dtype=tl.float64)
    out = bounds + i * (n_cutpoints + _OTHER_BOUNDS)
    tl.store(out, -infinite, mask=here)
    tl.store(out + 1, tl.where(n_thresholds > 0, bound, infinite), mask=here)
    for m in range(1, n_cutpoints):
        bound += tl.exp(tl.load(cutpoints + i * n_cutpoints + m, mask=here, other=0.0))
        tl.store(out + m + 1, tl.where(n_thresholds > m, bound, infinite), mask=here)
    tl.store(out + n_cutpoints + 1, infinite, mask=here)
    tl.store(out + n_cutpoints + 2, -infinite, mask=here)
    tl.store(out + n_cutpoints + 3, infinite, mask=here)


def row_gaps(cutpoints: torch.Tensor, n_levels: torch.Tensor | None = None) -> torch.Tensor:
    """What rows add to the first threshold and multiply each gap by; see ``Side.row_gaps``.

    Infinite beyond the last level, that of all rows or, given ``n_levels``, the row's own.
    """
    n_rows, n_cutpoints = cutpoints.shape
    found = cutpoints.new_full((n_rows, n_cutpoints + 3), torch.inf, dtype=torch.float32)
    found[:, :n_cutpoints] = torch.exp(cutpoints)
    if n_levels is not None:
        beyond = torch.arange(n_cutpoints, device=cutpoints.device) >= n_levels[:, None] - 1
        found[:, :n_cutpoints].masked_fill_(beyond, torch.inf)
    found[:, 0] = cutpoints[:, 0]  # the first is no gap: it is added
    return found

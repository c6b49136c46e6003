"""Thresholds on a GPU: the table of :mod:`ordinalrbm.engine.thresholds`, and the rows' gaps."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# Columns whose bounds one program makes.
_MANY = tl.constexpr(256)
# Of the table, beside the thresholds: −∞ and +∞ around them, and the two of the unknown level.
_OTHER_BOUNDS = tl.constexpr(4)


def table(cutpoints: torch.Tensor, n_levels: torch.Tensor) -> torch.Tensor:
    """Return the bounds of all levels: −∞, θ_1, …, θ_{L−1}, +∞, padded, then the unknown level."""
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


def gaps(cutpoints: torch.Tensor, n_levels: torch.Tensor | None = None) -> torch.Tensor:
    """Return what rows add to the first threshold and multiply each gap by; see ``Side.row_gaps``.

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

"""Thresholds on a GPU: the table of :mod:`ordinalrbm.engine.thresholds`, and the rows' widths."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# Columns that one program makes ends for.
_MANY = tl.constexpr(256)
# Of the table, beside the thresholds: −∞ and +∞ around them, and the two of the unknown level.
_OTHER_ENDS = tl.constexpr(4)


def table(steps: torch.Tensor, n_levels: torch.Tensor) -> torch.Tensor:
    """Ends of all levels: −∞, θ_1, …, θ_{L−1}, +∞, padded with +∞, then the unknown level."""
    n_columns, n_steps = steps.shape
    ends = steps.new_empty((n_columns, n_steps + _OTHER_ENDS.value))
    if n_columns:
        grid = (triton.cdiv(n_columns, _MANY.value),)
        _set_ends[grid](steps, n_levels, ends, n_columns, n_steps)
    return ends


@triton.jit(do_not_specialize=["n_steps"])
def _set_ends(steps, n_levels, ends, n_columns, n_steps):
    i = (tl.program_id(0) * _MANY + tl.arange(0, _MANY)).to(tl.int64)
    here = i < n_columns
    n_thresholds = tl.load(n_levels + i, mask=here, other=1) - 1
    end = tl.load(steps + i * n_steps, mask=here, other=0.0)
    infinite = tl.full((_MANY,), float("inf"), dtype=tl.float64)
    out = ends + i * (n_steps + _OTHER_ENDS)
    tl.store(out, -infinite, mask=here)
    tl.store(out + 1, tl.where(n_thresholds > 0, end, infinite), mask=here)
    for m in range(1, n_steps):
        end += tl.exp(tl.load(steps + i * n_steps + m, mask=here, other=0.0))
        tl.store(out + m + 1, tl.where(n_thresholds > m, end, infinite), mask=here)
    tl.store(out + n_steps + 1, infinite, mask=here)
    tl.store(out + n_steps + 2, -infinite, mask=here)
    tl.store(out + n_steps + 3, infinite, mask=here)


def widths(steps: torch.Tensor, n_levels: torch.Tensor | None = None) -> torch.Tensor:
    """What a row adds to the first threshold and multiplies each width by, for a Side.

    Beyond the last level, of all or of a row with so many, there is no end.
    """
    n_rows, n_steps = steps.shape
    found = steps.new_full((n_rows, n_steps + 3), torch.inf, dtype=torch.float32)
    found[:, :n_steps] = torch.exp(steps)
    if n_levels is not None:
        beyond = torch.arange(n_steps, device=steps.device) >= n_levels[:, None] - 1
        found[:, :n_steps].masked_fill_(beyond, torch.inf)
    found[:, 0] = steps[:, 0]  # the first threshold is no width: it adds up
    return found

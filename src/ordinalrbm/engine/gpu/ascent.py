"""Updates of the parameters on a GPU: the function of :mod:`ordinalrbm.matrix.binary_state`."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from ordinalrbm.engine.gpu.tables import shape
from ordinalrbm.engine.side import Statistics

# Weights that one program moves.
_TOGETHER = 2048


class _Columns(NamedTuple):
    """Parameters of columns, or their sums of squared gradients."""

    weights: torch.Tensor
    bias: torch.Tensor
    cutpoints: torch.Tensor


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
        _move_columns[(triton.cdiv(n_columns, tile),)](
            _Columns(half.weights, half.bias, half.cutpoints),
            _Columns(sums.weights, sums.bias, sums.cutpoints),
            clamped,
            free,
            clamped.weights.stride(0),
            clamped.thresholds.shape[1],
            n_answers,
            priors.common_cutpoints,
            priors.weights,
            priors.bias,
            priors.cutpoints,
            priors.common_bias,
            *map(float, steps),
            n_columns,
            half.factor_bias.numel(),
            width,
            half.cutpoints.shape[1],
            tile=tile,
            block=block,
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
    statistics_width,
    n_bounds,
    n_answers,
    common,
    of_weights,
    of_bias,
    of_cutpoints,
    common_bias,
    rate,
    adaptive,
    centre,
    n_columns,
    n_factors,
    width,
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
    g = tl.where(inside, g - of_weights * part[:, None] * w, 0.0)
    squares = tl.load(sums.weights + at, mask=inside, other=1.0) + adaptive * g * g
    step = rate * g / tl.sqrt(squares)
    tl.store(sums.weights + at, squares, mask=inside)
    tl.store(half.weights + at, w + step, mask=inside)

    b = tl.load(half.bias + i, mask=here, other=0.0)
    away = b + 0.5 * tl.sum(w, axis=1) - common_bias
    g_bias = towards_bias - of_bias * part * away
    squares_bias = tl.load(sums.bias + i, mask=here, other=1.0) + adaptive * g_bias * g_bias
    tl.store(sums.bias + i, squares_bias, mask=here)
    b += rate * g_bias / tl.sqrt(squares_bias) - centre * tl.sum(step, axis=1)
    tl.store(half.bias + i, b, mask=here)

    for m in range(1, n_cutpoints):
        at_c = i * n_cutpoints + m
        c = tl.load(half.cutpoints + at_c, mask=here, other=0.0)
        g_c = tl.exp(c) * tl.load(clamped.thresholds + i * n_bounds + m, mask=here, other=0.0)
        g_c -= of_cutpoints * part * (c - tl.load(common + at_c, mask=here, other=0.0))
        squares_c = tl.load(sums.cutpoints + at_c, mask=here, other=1.0) + adaptive * g_c * g_c
        tl.store(sums.cutpoints + at_c, squares_c, mask=here)
        tl.store(half.cutpoints + at_c, c + rate * g_c / tl.sqrt(squares_c), mask=here)

"""Ordered probit regressions of many rows at once: the sums that Newton's method needs.

For rows with binary factors that are new among known columns, see
:mod:`ordinalrbm.matrix.gpu.fold_in`. Answers come as a Side, as half-sweeps have them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ordinalrbm.engine.gpu import gibbs, normal
from ordinalrbm.engine.gpu.gibbs import DeviceSide
from ordinalrbm.engine.gpu.pieces import Pieces, of_piece, summed

_FAR = tl.constexpr(1e6)  # bounds this far out are as good as infinite
# Answers, and numbers of each in both directions, whose products a program sums.
_ANSWERS, _MOST_NUMBERS = 32, 64


def by_factors(on: DeviceSide, factors: torch.Tensor) -> torch.Tensor:
    """The mean of every answer without the row's own parameters, in float64."""
    bias = on.side.bias[on.side.column.long()].double()
    if not factors.shape[1]:
        return bias
    return bias + gibbs.factor_products(on, factors, gibbs.part_of(on))


def pulls(on: DeviceSide, mean: torch.Tensor, least: float) -> tuple[torch.Tensor, torch.Tensor]:
    """How far expected utilities are from their means, and each answer's information.

    Information is one minus the variance of the utility, between ``least`` and one.
    """
    pull, information = (torch.empty_like(mean, dtype=torch.float32) for _ in range(2))
    gibbs.launch(_set_pulls, on, gibbs.part_of(on), mean, pull, information, least)
    return pull, information


def gap_sums(
    on: DeviceSide, mean: torch.Tensor, column_gaps: torch.Tensor, row_gaps: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, M) slopes by the log gaps, and their curvature; the first is no gap."""
    n_cutpoints, pieces = row_gaps.shape[1], on.rows
    partial = torch.zeros((pieces.n, 2 * n_cutpoints), dtype=torch.float64, device=mean.device)
    part = gibbs.part_of(on)
    gibbs.launch(_sum_moves, on, part, mean, column_gaps, row_gaps, partial, n_cutpoints)
    slope, curvature = summed(partial, pieces).split(n_cutpoints, dim=1)
    return slope, curvature


def squares(pieces: Pieces, column: torch.Tensor, table: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """(rows, M, M) outer products of the table's rows, times a number per answer, summed."""
    width = table.shape[1]
    partial = torch.empty((pieces.n, width**2), dtype=torch.float32, device=table.device)
    block = min(triton.next_power_of_2(width), _MOST_NUMBERS)
    if pieces.n:
        blocks = triton.cdiv(width, block)
        _sum_squares[(pieces.n, blocks, blocks)](
            *pieces[1:3], column, table, width, values, partial, _ANSWERS, block
        )
    return summed(partial, pieces).view(-1, width, width)


@triton.jit
def _set_pulls(row_of, first_of, stop_of, base, side, mean, pull, information, least):
    row, e, here, i = of_piece(row_of, first_of, stop_of, side.column)
    _, low, high = gibbs.bounds_of(side, row, e, here, i)
    at = tl.load(mean + e, mask=here, other=0.0)
    low, high = tl.maximum(low - at, -_FAR), tl.minimum(high - at, _FAR)
    at_low, at_high, shift = normal.edge_densities(low, high)
    known = shift * shift - (low * at_low - high * at_high)
    known = tl.minimum(tl.maximum(known, least), 1.0)
    tl.store(pull + e, shift.to(tl.float32), mask=here)
    tl.store(information + e, known.to(tl.float32), mask=here)


@triton.jit
def _sum_moves(row_of, first_of, stop_of, base, side, mean, column_gaps, own_gaps, partial, n_cutpoints):
    row, e, here, i = of_piece(row_of, first_of, stop_of, side.column)
    answer, low, high = gibbs.bounds_of(side, row, e, here, i)
    at = tl.load(mean + e, mask=here, other=0.0)
    at_low, at_high, _ = normal.edge_densities(low - at, high - at)
    out = partial + tl.program_id(0).to(tl.int64) * 2 * n_cutpoints
    for m in range(1, n_cutpoints):
        # A bound moves with every gap below it.
        gap = tl.load(column_gaps + i * n_cutpoints + m, mask=here, other=0.0)
        gap = gap * tl.load(own_gaps + row * n_cutpoints + m)
        share = gap * (at_high - tl.where(m < answer, at_low, 0.0))
        share = tl.where(here & (m <= answer), share, 0.0)
        tl.store(out + m, tl.sum(share))
        tl.store(out + n_cutpoints + m, tl.sum(share * share))


@triton.jit
def _sum_squares(
    first_of, stop_of, column, table, width, values, partial, answers: tl.constexpr, block: tl.constexpr
):
    piece = tl.program_id(0)
    first, stop = tl.load(first_of + piece), tl.load(stop_of + piece)
    a = tl.program_id(1) * block + tl.arange(0, block)
    b = tl.program_id(2) * block + tl.arange(0, block)
    total = tl.zeros((block, block), dtype=tl.float32)
    for begin in range(first, stop, answers):
        e = begin + tl.arange(0, answers)
        here = e < stop
        place = tl.load(column + e, mask=here, other=0).to(tl.int64)[:, None] * width
        value = tl.load(values + e, mask=here, other=0.0)[:, None]
        inside = here[:, None] & (a < width)[None, :]
        x = tl.load(table + place + a[None, :], mask=inside, other=0.0) * value
        inside = here[:, None] & (b < width)[None, :]
        y = tl.load(table + place + b[None, :], mask=inside, other=0.0)
        total += tl.dot(tl.trans(x), y, input_precision="ieee")
    out = partial + piece.to(tl.int64) * width * width + a[:, None] * width + b[None, :]
    tl.store(out, total, mask=(a < width)[:, None] & (b < width)[None, :])

"""Rows cut into pieces of bounded length, so that short and long ones keep a GPU equally busy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from ordinalrbm.data.observations import Cells, Observations, starts
from ordinalrbm.engine.drift import BinViews

# Answers of a piece. Netflix' users have 200 ratings on average, its films 5,600.
SIZE = 256
# Arguments of kernels that differ from batch to batch. Kernels are not specialised to them: they
# would be compiled anew when one happens to be a multiple of 16, or an address that is one.
OF_BATCH = ["row_of", "first_of", "stop_of", "base"]
_SIZE = tl.constexpr(SIZE)
# Rows with at most so many pieces are summed together, so many of them; of longer ones, partial
# sums that are added at a time. How a row is summed is not to depend on those beside it.
_FEW = 16
_ROWS, _TOGETHER = tl.constexpr(32), tl.constexpr(16)


class Pieces(NamedTuple):
    """Where each piece begins and stops, which row it is of, and which pieces a row has.

    What there is of rows is also on the host, where blocks of them are chosen.
    """

    row: torch.Tensor  # (pieces,) int32
    first: torch.Tensor  # (pieces,) int64
    stop: torch.Tensor  # (pieces,) int64
    start: torch.Tensor  # (rows + 1,) int64, the pieces of row d are ``start[d]:start[d + 1]``
    host_start: np.ndarray
    long: torch.Tensor  # int64, rows that may have more than a few pieces
    host_long: np.ndarray

    @property
    def n(self) -> int:
        return self.row.numel()

    def of_rows(self, rows: slice) -> Pieces:
        host_start = self.host_start[rows.start : rows.stop + 1]
        some = slice(host_start[0], host_start[-1])
        row, first, stop = (part[some] for part in self[:3])
        start = self.start[rows.start : rows.stop + 1] - int(host_start[0])
        among = slice(*np.searchsorted(self.host_long, [rows.start, rows.stop]))
        long, host_long = (part[among] - rows.start for part in (self.long, self.host_long))
        return Pieces(row, first, stop, start, host_start - host_start[0], long, host_long)


def pieces_of(row_start: np.ndarray, device: torch.device) -> Pieces:
    length = np.diff(row_start)
    count = -(-length // SIZE)
    start = np.concatenate([[0], np.cumsum(count)])
    row = np.repeat(np.arange(length.size, dtype=np.int32), count)
    first = row_start[row] + SIZE * (np.arange(row.size) - start[row])
    stop = np.minimum(first + SIZE, row_start[1:][row])
    long = np.flatnonzero(count > _FEW)
    on = [torch.from_numpy(part).to(device) for part in (row, first, stop, start, long)]
    return Pieces(on[0], on[1], on[2], on[3], start, on[4], long)


def row_blocks(cost: np.ndarray, most: float) -> list[slice]:
    """Blocks of neighbouring rows of bounded cost; a row that costs more is alone.

    Examples
    --------
    >>> [(rows.start, rows.stop) for rows in row_blocks(np.array([2, 2, 9, 1, 3]), 4)]
    [(0, 2), (2, 3), (3, 5)]
    """
    bounds, blocks, start = np.cumsum(cost), [], 0
    while start < bounds.size:
        before = bounds[start - 1] if start else 0
        stop = max(int(np.searchsorted(bounds, before + most, side="right")), start + 1)
        blocks.append(slice(start, stop))
        start = stop
    return blocks


class Answers(NamedTuple):
    """Answers on a device, cut into pieces."""

    pieces: Pieces
    column: torch.Tensor  # (entries,) int32
    level: torch.Tensor  # (entries,) int8 or int16
    offset: torch.Tensor | None = None  # (entries,) float32, added to the mean utility of each
    weight: torch.Tensor | None = None  # (entries,) float32, how many times each counts

    def of_rows(self, rows: slice) -> Answers:
        return self._replace(pieces=self.pieces.of_rows(rows))


def answers_on(observations: Observations, device: torch.device) -> Answers:
    column, level = (torch.from_numpy(part).to(device) for part in (observations.column, observations.level))
    offset, weight = (
        torch.from_numpy(part).to(device) if part.size else None
        for part in (observations.offset, observations.weight)
    )
    return Answers(pieces_of(observations.row_start, device), column, level, offset, weight)


def transposed(answers: Answers, observations: Observations) -> Answers:
    device = answers.column.device
    counts = torch.from_numpy(observations.row_counts).to(device)
    row = torch.arange(observations.n_rows, dtype=torch.int32, device=device)
    row = torch.repeat_interleave(row, counts, output_size=observations.n_entries)
    order = torch.sort(answers.column, stable=True).indices
    pieces = pieces_of(starts(observations.column_counts), device)
    weight = None if answers.weight is None else answers.weight[order]
    return Answers(pieces, row[order], answers.level[order], weight=weight)


def with_offsets(answers: Answers, level: np.ndarray, bin_of: torch.Tensor) -> Answers:
    """Answers with the level of its bin on top of the mean of each."""
    there = torch.from_numpy(level).to(bin_of.device)
    return answers._replace(offset=there.index_select(0, bin_of))


def sums_over_bins(values: torch.Tensor, bins: BinViews) -> np.ndarray:
    """(bins,) on the host: sums of a number of each answer, in the order of these."""
    with_zero = torch.cat([values, values.new_zeros(1)])
    return with_zero[bins.members].double().sum(dim=1).cpu().numpy()


class NewCells(NamedTuple):
    """Cells on a device that are not among the answers; they ascend by row and column."""

    row: torch.Tensor
    column: torch.Tensor
    level: torch.Tensor

    @property
    def transposed(self) -> NewCells:
        order = torch.sort(self.column, stable=True).indices
        return NewCells(self.column[order], self.row[order], self.level[order])


def new_cells(answers: Answers, counts: np.ndarray, n_columns: int, cells: Cells) -> NewCells:
    """Cells of known rows and columns, the first of each, that are not among the answers."""
    device = answers.column.device
    row, column, level = (torch.from_numpy(part).to(device).long() for part in cells)
    known = torch.nonzero((row >= 0) & (column >= 0))[:, 0]
    key, order = torch.sort((row * n_columns + column)[known], stable=True)
    is_first = torch.ones_like(key, dtype=torch.bool)
    is_first[1:] = key[1:] != key[:-1]
    chosen = known[order[is_first]]
    found = NewCells(row[chosen], column[chosen], level[chosen])
    is_new = _places(answers, counts, found) >= 0
    return NewCells(*(part[is_new] for part in found))


def inserted(answers: Answers, counts: np.ndarray, cells: NewCells) -> tuple[Answers, np.ndarray]:
    """The answers of rows with so many, with new ones among them; and how many they have then."""
    place = _places(answers, counts, cells)
    slot = place + torch.arange(place.numel(), device=place.device)
    is_old = torch.ones(answers.column.numel() + slot.numel(), dtype=torch.bool, device=slot.device)
    is_old[slot] = False
    parts = []
    for old, new in ((answers.column, cells.column), (answers.level, cells.level)):
        found = torch.empty(is_old.numel(), dtype=old.dtype, device=old.device)
        found[is_old] = old
        found[slot] = new.to(old.dtype)
        parts.append(found)
    after = counts + torch.bincount(cells.row, minlength=counts.size).cpu().numpy()
    return Answers(pieces_of(starts(after), slot.device), *parts), after


def _places(answers: Answers, counts: np.ndarray, cells: NewCells) -> torch.Tensor:
    """Where cells would be among the answers of their rows; −1 for those that are there."""
    start = torch.from_numpy(starts(counts)).to(answers.column.device)
    low, stop = start[cells.row], start[cells.row + 1]
    high = stop.clone()
    for _ in range(int(counts.max(initial=0)).bit_length()):
        middle = (low + high) // 2
        is_before = (low < high) & (_at(answers.column, middle) < cells.column)
        low, high = torch.where(is_before, middle + 1, low), torch.where(is_before, high, middle)
    is_there = (low < stop) & (_at(answers.column, low) == cells.column)
    return torch.where(is_there, -1, low)


def _at(column: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    return column[place.clamp(max=max(column.numel() - 1, 0))]


# ---- kernels ----------------------------------------------------------------------------------


@triton.jit
def of_piece(row_of, first_of, stop_of, column):
    """The row of this program's piece; its answers, which of them exist, and their columns."""
    piece = tl.program_id(0)
    row = tl.load(row_of + piece).to(tl.int64)
    e = tl.load(first_of + piece) + tl.arange(0, _SIZE)
    here = e < tl.load(stop_of + piece)
    return row, e, here, tl.load(column + e, mask=here, other=0).to(tl.int64)


def summed(partial: torch.Tensor, pieces: Pieces) -> torch.Tensor:
    """Sums over the pieces of each row, in their order: (pieces, n) to (rows, n)."""
    n_rows, width = pieces.start.numel() - 1, partial.shape[1]
    total = torch.empty((n_rows, width), dtype=partial.dtype, device=partial.device)
    block = min(triton.next_power_of_2(max(width, 1)), 128)
    n_blocks, n_long = triton.cdiv(width, block), pieces.long.numel()
    arguments = partial, pieces.start, total, width
    if n_rows and width:
        grid = (triton.cdiv(n_rows, _ROWS.value), n_blocks)
        _sum_few_pieces[grid](*arguments, n_rows, few=_FEW, block=block)
    if n_long and width:
        _sum_many_pieces[(n_long, n_blocks)](*arguments, pieces.long, few=_FEW, block=block)
    return total


@triton.jit(do_not_specialize=["n_rows"])
def _sum_few_pieces(partial, start, total, width, n_rows, few: tl.constexpr, block: tl.constexpr):
    """Of neighbouring rows that have few, in their order."""
    row = tl.program_id(0).to(tl.int64) * _ROWS + tl.arange(0, _ROWS)
    a = tl.program_id(1) * block + tl.arange(0, block)
    exists = row < n_rows
    first = tl.load(start + row, mask=exists, other=0)
    count = tl.load(start + row + 1, mask=exists, other=0) - first
    exists &= count <= few
    count = tl.where(exists, count, 0)
    sums = tl.zeros((_ROWS, block), dtype=partial.dtype.element_ty)
    for k in range(0, tl.max(count)):
        inside = (k < count)[:, None] & (a < width)[None, :]
        place = (first + k)[:, None] * width + a[None, :]
        sums += tl.load(partial + place, mask=inside, other=0.0)
    place = row[:, None] * width + a[None, :]
    tl.store(total + place, sums, mask=exists[:, None] & (a < width)[None, :])


@triton.jit(do_not_specialize=["long"])
def _sum_many_pieces(partial, start, total, width, long, few: tl.constexpr, block: tl.constexpr):
    """Of a row that has many, some at a time."""
    row = tl.load(long + tl.program_id(0))
    a = tl.program_id(1) * block + tl.arange(0, block)
    first, stop = tl.load(start + row), tl.load(start + row + 1)
    if stop - first > few:
        sums = tl.zeros((_TOGETHER, block), dtype=partial.dtype.element_ty)
        for piece in range(first, stop, _TOGETHER):
            some = piece + tl.arange(0, _TOGETHER)
            inside = (some < stop)[:, None] & (a < width)[None, :]
            sums += tl.load(partial + some[:, None] * width + a[None, :], mask=inside, other=0.0)
        tl.store(total + row * width + a, tl.sum(sums, axis=0), mask=a < width)

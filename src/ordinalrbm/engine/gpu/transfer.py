"""Large tables from a GPU to the host.

A copy into ordinary memory goes through the driver's own small buffers, by one thread, which also
waits for every new page. Here the GPU writes into locked memory, and threads copy from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from ordinalrbm.data.observations import Cells, starts
from ordinalrbm.engine.gpu.pieces import Answers, pieces_of
from ordinalrbm.runtime.blocks import MANY, each_block

_AT_ONCE = 2**25  # bytes of a buffer; of two, one is filled while the other is copied


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The numbers of a tensor on the host, by the way that is the fastest for so many."""
    if not tensor.is_cuda or tensor.numel() < MANY:
        return tensor.contiguous().cpu().numpy()
    return fetched(tensor)


def fetched(table: torch.Tensor) -> np.ndarray:
    """The same through locked memory, piece by piece."""
    source = table.contiguous().view(-1).view(torch.uint8)
    found = np.empty(tuple(table.shape), dtype=str(table.dtype).removeprefix("torch."))
    target = found.reshape(-1).view(np.uint8)
    buffers = [torch.empty(_AT_ONCE, dtype=torch.uint8, pin_memory=source.is_cuda) for _ in "ab"]
    arrived = [torch.cuda.Event() if source.is_cuda else None for _ in "ab"]
    starts = range(0, target.size, _AT_ONCE)

    def send(k: int) -> None:
        part = source[starts[k] : starts[k] + _AT_ONCE]
        buffers[k % 2][: part.numel()].copy_(part, non_blocking=True)
        if (event := arrived[k % 2]) is not None:
            event.record()

    if starts:
        send(0)
    for k, start in enumerate(starts):
        if (event := arrived[k % 2]) is not None:
            event.synchronize()
        if k + 1 < len(starts):
            send(k + 1)
        part, sent = target[start : start + _AT_ONCE], buffers[k % 2].numpy()

        def copy(block: slice, part: np.ndarray = part, sent: np.ndarray = sent) -> None:
            part[block] = sent[block]

        each_block(copy, part.size)
    return found


# ---- more answers among those that are on a device, so that these need not come there again ------


class NewCells(NamedTuple):
    """Cells on a device that are not among the answers; they ascend by row and column."""

    row: torch.Tensor
    column: torch.Tensor
    level: torch.Tensor

    @property
    def turned(self) -> NewCells:
        """The same by columns."""
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

"""More answers among those that are on a device, so that these need not come there again."""

from __future__ import annotations

import numpy as np
import torch

from ordinalrbm.data.observations import Cells
from ordinalrbm.engine.gpu.pieces import Answers, pieces_of


def places(answers: Answers, row_start: np.ndarray, cells: Cells) -> torch.Tensor:
    """Where cells would be among the answers of their rows; −1 for those that are there."""
    device = answers.column.device
    start, row, column = (torch.from_numpy(part).to(device) for part in (row_start, *cells[:2]))
    low, stop = start[row], start[row + 1]
    high = stop.clone()
    for _ in range(int(np.diff(row_start).max(initial=0)).bit_length()):
        middle = (low + high) // 2
        is_before = (low < high) & (_at(answers.column, middle) < column)
        low, high = torch.where(is_before, middle + 1, low), torch.where(is_before, high, middle)
    is_there = (low < stop) & (_at(answers.column, low) == column)
    return torch.where(is_there, -1, low)


def _at(column: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    return column[place.clamp(max=max(column.numel() - 1, 0))]


def inserted(answers: Answers, row_start: np.ndarray, cells: Cells, place: torch.Tensor) -> Answers:
    """The answers with those of new cells, which ascend by row and column, at their places."""
    slot = place + torch.arange(place.numel(), device=place.device)
    is_old = torch.ones(answers.column.numel() + slot.numel(), dtype=torch.bool, device=slot.device)
    is_old[slot] = False
    parts = []
    for old, new in ((answers.column, cells.column), (answers.level, cells.level)):
        found = torch.empty(is_old.numel(), dtype=old.dtype, device=old.device)
        found[is_old] = old
        found[slot] = torch.from_numpy(new).to(old.device, old.dtype)
        parts.append(found)
    return Answers(pieces_of(row_start, slot.device), *parts)

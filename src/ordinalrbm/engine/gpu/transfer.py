"""Arrays from the host to a GPU and back.

A copy of a large table into ordinary memory goes through the driver's own small buffers, by one
thread, which also waits for every new page. Here the GPU writes into locked memory, and threads copy
from there.
"""

from __future__ import annotations

import numpy as np
import torch

from ordinalrbm.runtime.blocks import MANY, each_block

_AT_ONCE = 2**25  # bytes of a buffer; of two, one is filled while the other is copied


def tensor(values: np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(device, copy=True)


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The numbers of a tensor on the host, by the way that is the fastest for so many."""
    if not tensor.is_cuda or tensor.numel() < MANY:
        return tensor.contiguous().cpu().numpy()
    return fetched(tensor)


def fetched(table: torch.Tensor) -> np.ndarray:
    """The numbers of a tensor on the host, through locked memory, piece by piece."""
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

"""The processes that learn one model together: those of torch's process group, its ranks.

Nothing here imports torch: whoever is in a process group has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ordinalrbm.errors import LostError


class Group:
    """Two processes or more, which call the same methods in the same order.

    Arrays are NumPy's or tensors on any device; what the group's backend cannot carry is copied to
    where it can.
    """

    def __init__(self, torch: Any) -> None:
        self.torch, self.dist = torch, torch.distributed
        self.rank, self.size = self.dist.get_rank(), self.dist.get_world_size()
        self.device = "cuda" if "nccl" in self.dist.get_backend() else "cpu"

    def own_gpu(self) -> str:
        """The GPU that torch has been told to use in this process, by ``torch.cuda.set_device``."""
        there = self.torch.cuda.is_available()
        return f"cuda:{self.torch.cuda.current_device()}" if there else "cuda"

    def add_up(self, *parts: Any) -> None:
        """Replace each array by its sum over the ranks, in place; they have one type.

        Every rank gets the same bytes: each piece is summed in one place and handed on from there.
        """
        with self._packed(parts) as sent:
            self.dist.all_reduce(sent)

    def hand_out(self, *parts: Any) -> None:
        """Replace each array by that of rank 0, in place; they have one type."""
        with self._packed(parts) as sent:
            self.dist.broadcast(sent, 0)

    @contextmanager
    def _packed(self, parts: tuple[Any, ...]) -> Iterator[Any]:
        """All arrays in one, so that the ranks wait for one another once."""
        tensors = [self.torch.as_tensor(part) for part in parts]
        sent = self.torch.cat([part.reshape(-1).to(self.device) for part in tensors])
        with _lost_in_one_sentence():
            yield sent
        sizes = [part.numel() for part in tensors]
        for part, found in zip(tensors, sent.split(sizes), strict=True):
            part.copy_(found.view(part.shape))

    def total(self, *numbers: float) -> np.ndarray:
        """Sums over the ranks, in float64."""
        found = np.array(numbers, dtype=np.float64)
        self.add_up(found)
        return found

    def of_first(self, number: int) -> int:
        """The number that rank 0 has."""
        found = np.array([number], dtype=np.int64)
        self.hand_out(found)
        return int(found[0])

    def joined(self, part: np.ndarray) -> np.ndarray:
        """Parts of all ranks, one below the other; they may be of any length, also none."""
        counts = np.zeros(self.size, dtype=np.int64)
        counts[self.rank] = len(part)
        self.add_up(counts)
        padded = np.zeros((counts.max(), *part.shape[1:]), dtype=part.dtype)
        padded[: len(part)] = part
        sent = self.torch.from_numpy(padded).to(self.device)
        found = [self.torch.empty_like(sent) for _ in range(self.size)]
        with _lost_in_one_sentence():
            self.dist.all_gather(found, sent)
        return np.concatenate(
            [each[:count].cpu().numpy() for each, count in zip(found, counts, strict=True)]
        )

    def agree(self, text: str) -> bool:
        """Whether all ranks say the same."""
        said: list[Any] = [None] * self.size
        with _lost_in_one_sentence():
            self.dist.all_gather_object(said, text)
        return len(set(said)) == 1


@contextmanager
def _lost_in_one_sentence() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LostError(
            "Another process of this run has ended or cannot be reached; see what it has said, and "
            "start all of them again."
        ) from error


def current() -> Group | None:
    """The group that this process is in, if it is in one with others.

    Examples
    --------
    >>> current() is None
    True
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return None
    if not torch.distributed.is_initialized() or torch.distributed.get_world_size() < 2:
        return None
    return Group(torch)

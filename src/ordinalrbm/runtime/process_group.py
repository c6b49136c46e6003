"""The processes that learn one model together: those of torch's process group, its ranks.

Nothing here imports torch: whoever is in a process group has imported it.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ordinalrbm.errors import DataError, DataTypeError, LostError

Found = TypeVar("Found")
# NumPy's, or torch's on any device.
Array = Any
# Entries that a rank sends at a time: so many need some dozen megabytes on the way.
_AT_A_TIME = 1 << 20


class Alone:
    """One process: what it has is all there is. Methods are those of :class:`Group`."""

    rank, size = 0, 1

    def all_reduce(self, *parts: Array) -> None:
        pass

    complete = all_reduce

    def share(self, n: int) -> slice:
        return slice(0, n)

    def broadcast_object(self, work: Callable[[], Found]) -> Found:
        return work()

    def all_gather_object(self, what: Any) -> list[Any]:
        return [what]

    def agree(self, what: Any) -> bool:
        return True

    def before(self, n: int) -> int:
        return 0

    def summed(self, part: np.ndarray) -> np.ndarray:
        return part

    def all_gather(self, part: np.ndarray) -> np.ndarray:
        return part

    gather = all_gather

    def stream(self, part: np.ndarray) -> np.ndarray:
        return part

    def raise_on_all_ranks(self) -> AbstractContextManager[None]:
        return nullcontext()

    def reduce_scatter(self, part: Array) -> Array:
        return part


ALONE = Alone()


class Stream(NamedTuple):
    """An array that comes in blocks, to be gone through once."""

    dtype: np.dtype
    shape: tuple[int, ...]
    blocks: Iterator[np.ndarray]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


class Group:
    """Two processes or more, which call the same methods in the same order.

    What the group's backend cannot carry is copied to where it can.
    """

    def __init__(self, torch: Any) -> None:
        self.torch, self.dist = torch, torch.distributed
        self.rank, self.size = self.dist.get_rank(), self.dist.get_world_size()
        self.device = "cuda" if "nccl" in self.dist.get_backend() else "cpu"

    def __reduce__(self) -> tuple[Callable[[], Group | None], tuple[()]]:
        """Copies are the group that there is."""
        return current, ()

    def own_gpu(self) -> str:
        """The GPU that torch uses in this process, by ``torch.cuda.set_device``."""
        cuda = self.torch.cuda
        return f"cuda:{cuda.current_device()}" if cuda.is_available() else "cuda"

    def all_reduce(self, *parts: Array) -> None:
        """Replace each array by its sum over the ranks, in place; they have one type.

        Every rank gets the same bytes: each piece is summed in one place and handed on from there.
        """
        self._in_one(parts, self.dist.all_reduce)

    def broadcast(self, *parts: Array) -> None:
        """Replace each array by that of rank 0, in place; they have one type."""
        self._in_one(parts, self.dist.broadcast, 0)

    def _in_one(self, parts: tuple[Array, ...], send: Callable, *options: int) -> None:
        """Send all arrays in one, so that the ranks wait for one another once."""
        tensors = [self.torch.as_tensor(part) for part in parts]
        sent = self.torch.cat([part.reshape(-1).to(self.device) for part in tensors])
        with_others(send, sent, *options)
        for part, found in zip(tensors, sent.split([part.numel() for part in tensors]), strict=True):
            part.copy_(found.view(part.shape))

    def share(self, n: int) -> slice:
        """Which of n things are this rank's: about equally many for each, in their order."""
        return self._share_of(self.rank, n)

    def _share_of(self, rank: int, n: int) -> slice:
        return slice(n * rank // self.size, n * (rank + 1) // self.size)

    def _sizes(self, n: int) -> list[int]:
        shares = (self._share_of(rank, n) for rank in range(self.size))
        return [share.stop - share.start for share in shares]

    def reduce_scatter(self, part: Array) -> Array:
        """Sums over the ranks, of the lines of an array that are this rank's by :meth:`share`.

        They are added in the order of the ranks, so that nothing depends on who comes first.
        """
        given = self.torch.as_tensor(part)
        sent, sizes = given.to(self.device), self._sizes(len(given))
        own = sizes[self.rank]
        found = sent.new_empty((self.size * own, *sent.shape[1:]))
        with_others(self.dist.all_to_all_single, found, sent, [own] * self.size, sizes)
        total = found[:own]
        for rank in range(1, self.size):
            total += found[rank * own : (rank + 1) * own]
        total = total.to(given.device)
        return total.numpy() if isinstance(part, np.ndarray) else total

    def complete(self, *parts: Array) -> None:
        """Fill in the lines that are other ranks' by :meth:`share`, as they have them; in place."""
        given = [self.torch.as_tensor(part) for part in parts]
        sent = [part.to(self.device) for part in given]
        # From each rank in turn, but all on their way at once.
        messages = [
            with_others(self.dist.broadcast, lines, rank, async_op=True)
            for part in sent
            for rank, lines in enumerate(part.split(self._sizes(len(part))))
            if lines.numel()
        ]
        for message in messages:
            with_others(message.wait)
        for part, found in zip(given, sent, strict=True):
            if found is not part:
                part.copy_(found)

    def summed(self, part: np.ndarray) -> np.ndarray:
        found = part.copy()
        self.all_reduce(found)
        return found

    def owner(self, position: np.ndarray, n: int) -> np.ndarray:
        """Whose share each of these positions among n things is."""
        others_begin = [n * rank // self.size for rank in range(1, self.size)]
        return np.searchsorted(others_begin, position, side="right")

    def counts(self, n: int) -> np.ndarray:
        counts = np.zeros(self.size, dtype=np.int64)
        counts[self.rank] = n
        return self.summed(counts)

    def before(self, n: int) -> int:
        """How many things the ranks before this one have, when this one has n."""
        return int(self.counts(n)[: self.rank].sum())

    def all_gather(self, part: np.ndarray) -> np.ndarray:
        """Parts of all ranks, one below the other; they may be of any length, also none."""
        counts = self.counts(len(part))
        padded = np.zeros((counts.max(), *part.shape[1:]), dtype=part.dtype)
        if not padded.size:
            return np.empty((counts.sum(), *part.shape[1:]), dtype=part.dtype)
        padded[: len(part)] = part
        sent = self._as_bytes(padded)
        found = [self.torch.empty_like(sent) for _ in range(self.size)]
        with_others(self.dist.all_gather, found, sent)
        arrays = (each.cpu().numpy().view(part.dtype).reshape(padded.shape) for each in found)
        return np.concatenate([each[:n] for each, n in zip(arrays, counts, strict=True)])

    def gather(self, part: np.ndarray) -> np.ndarray:
        """Parts of all ranks, one below the other, on rank 0; elsewhere nothing."""
        return np.concatenate([part[:0], *self.stream(part).blocks])

    def stream(self, part: np.ndarray) -> Stream:
        """Parts of all ranks, one below the other, block by block on rank 0; the others send theirs.

        All go through the blocks of all streams in the same order.
        """
        counts = self.counts(len(part))
        return Stream(part.dtype, (int(counts.sum()), *part.shape[1:]), self._blocks_of_all(part, counts))

    def _blocks_of_all(self, part: np.ndarray, counts: np.ndarray) -> Iterator[np.ndarray]:
        if self.rank:
            for block in _blocks(len(part)):
                with_others(self.dist.send, self._as_bytes(part[block]), 0)
            return
        yield part
        for rank in range(1, self.size):
            for block in _blocks(counts[rank]):
                received = np.empty((block.stop - block.start, *part.shape[1:]), dtype=part.dtype)
                there = self._as_bytes(received)
                with_others(self.dist.recv, there, rank)
                yield there.cpu().numpy().view(part.dtype).reshape(received.shape)

    def all_to_all(self, owner: Callable[[slice], np.ndarray], *columns: np.ndarray) -> list[np.ndarray]:
        """Columns of those entries of all ranks that are this rank's, in any order.

        ``owner(block)`` is the rank to which each entry of a block of ``columns`` goes.
        """
        n, ones = len(columns[0]), np.ones(self.size, dtype=np.int64)
        found: list[list[np.ndarray]] = [[column[:0]] for column in columns]
        for start in range(0, int(self.counts(n).max()), _AT_A_TIME):
            block = slice(min(start, n), min(start + _AT_A_TIME, n))
            of_block = owner(block)
            order = np.argsort(of_block, kind="stable")
            sizes = np.bincount(of_block, minlength=self.size)
            there = self._all_to_all(sizes, ones, ones)
            for received, column in zip(found, columns, strict=True):
                received.append(self._all_to_all(column[block][order], sizes, there))
        return [np.concatenate(received) for received in found]

    def _all_to_all(self, sent: np.ndarray, sizes: np.ndarray, there: np.ndarray) -> np.ndarray:
        """So many of these for each rank in turn, for so many of each rank's."""
        width = sent.dtype.itemsize
        received = self._as_bytes(np.empty(there.sum(), dtype=sent.dtype))
        with_others(
            self.dist.all_to_all_single,
            received,
            self._as_bytes(sent),
            (there * width).tolist(),
            (sizes * width).tolist(),
        )
        return received.cpu().numpy().view(sent.dtype)

    def _as_bytes(self, array: np.ndarray) -> Array:
        """A tensor of bytes: backends do not carry every type of numbers."""
        plain = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        plain = plain if plain.flags.writeable else plain.copy()
        return self.torch.from_numpy(plain).to(self.device)

    def agree(self, what: Any) -> bool:
        return len(set(self.all_gather_object(what))) == 1

    def all_gather_object(self, what: Any) -> list[Any]:
        found: list[Any] = [None] * self.size
        with_others(self.dist.all_gather_object, found, what)
        return found

    @contextmanager
    def raise_on_all_ranks(self) -> Iterator[None]:
        """A context for what may fail on some ranks: all raise the error of the first of them.

        Without this, ranks on which nothing fails would wait for the others for ever.
        """
        error: Exception | None = None
        mine = None
        try:
            yield
        except LostError:  # the others cannot be reached
            raise
        except DataError as raised:
            error, mine = raised, (isinstance(raised, TypeError), str(raised))
        except Exception as raised:  # of which only this rank has the details
            said = f"Another process of this run has failed ({type(raised).__name__}: {raised})."
            error, mine = raised, (False, said)
        first = next(filter(None, self.all_gather_object(mine)), None)
        if error is not None and not isinstance(error, DataError):
            raise error
        if first is not None:
            is_type_error, text = first
            raise (DataTypeError if is_type_error else DataError)(text) from error

    def broadcast_object(self, work: Callable[[], Found]) -> Found:
        found: list[Any] = [work() if self.rank == 0 else None]
        with_others(self.dist.broadcast_object_list, found, 0)
        return found[0]


def sums_over_ranks(group: Alone | Group, *parts: Any) -> list[Any]:
    found = [np.array(part, dtype=np.float64) for part in parts]
    group.all_reduce(*found)
    return [part if part.ndim else float(part) for part in found]


def _blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, _AT_A_TIME):
        yield slice(start, min(start + _AT_A_TIME, n))


def with_others(work: Callable[..., Found], *given: Any, **options: Any) -> Found:
    """Do what needs the other ranks; raise a LostError if one of them is lost."""
    began = time.monotonic()
    try:
        return work(*given, **options)
    except RuntimeError as error:
        raise LostError(_what_is_lost(error, time.monotonic() - began)) from error


def _what_is_lost(error: RuntimeError, waited: float) -> str:
    if not re.search("timed out|timeout", str(error), re.IGNORECASE):
        return (
            "Another process of this run has ended or cannot be reached; see what it has said, and "
            "start all of them again."
        )
    return (
        f"Another process of this run has not answered for {waited:.0f} s: it hangs, cannot be "
        "reached or is very slow; start all of them again, if it was only slow with a longer "
        "--timeout (in Python, the timeout of init_process_group)."
    )


def current() -> Group | None:
    """The group that this process is in, if it is in one with others."""
    torch: Any = sys.modules.get("torch")
    dist = getattr(torch, "distributed", None)  # not yet there while another thread imports torch
    if not dist or not dist.is_available() or not dist.is_initialized():
        return None
    return Group(torch) if dist.get_world_size() > 1 else None

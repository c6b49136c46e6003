"""Work on rows in blocks, which threads take: kernels, NumPy and checksums let Python's lock go.

A kernel is a loop over the rows from ``start`` to ``stop``; what it makes of a row does not depend on the
block that the row is in, nor on the thread. :func:`over_rows` calls it for blocks until all rows are done.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ordinalrbm.runtime.threads import share, thread_count

Part = TypeVar("Part")
Result = TypeVar("Result")

MANY = 2**19  # numbers; for less, starting threads costs more than they save
BLOCK = 1 << 18  # rows worked on at a time
# Seconds of work for which a thread is worth waking, and blocks that each thread takes.
_WORTH_A_THREAD = 2e-4
_BLOCKS_PER_THREAD = 16
_FIRST_BLOCK, _GROWTH = 512, 8


def over_rows(
    kernel: Callable[..., None], n_rows: int, *arguments: Any, scratch: Callable[[], Any] | None = None
) -> None:
    """Call ``kernel(start, stop, *arguments)`` for blocks of rows until all are done.

    The first blocks are small and done by the calling thread, so that what takes no time wakes nobody.

    Parameters
    ----------
    scratch : makes working memory, which each thread has for itself; the kernel's last argument
    """
    memory = () if scratch is None else (scratch(),)
    limit, start, seconds = thread_count(), 0, 0.0
    size = max(1, n_rows // _FIRST_BLOCK) if limit > 1 else n_rows
    begun = time.perf_counter()
    while start < n_rows and seconds < _WORTH_A_THREAD:
        stop = min(start + size, n_rows)
        kernel(start, stop, *arguments, *memory)
        seconds, start, size = time.perf_counter() - begun, stop, _GROWTH * size
    left = n_rows - start
    n_helpers = min(limit - 1, left - 1, int(seconds * left / max(start, 1) / _WORTH_A_THREAD))
    if left <= 0:
        return
    if n_helpers < 1:
        kernel(start, n_rows, *arguments, *memory)
        return
    size = -(-left // (_BLOCKS_PER_THREAD * (n_helpers + 1)))
    caller = threading.get_ident()

    def work(starts: Iterator[int]) -> None:
        mine = memory if scratch is None or threading.get_ident() == caller else (scratch(),)
        for first in starts:
            kernel(first, min(first + size, n_rows), *arguments, *mine)

    share(work, iter(range(start, n_rows, size)), n_helpers)


def blocks(n: int, width: int = 1) -> Iterator[slice]:
    """Slices of n rows, each so many numbers wide, one block after the other."""
    size = max(1, BLOCK // max(width, 1))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def each(work: Callable[[Part], Result], parts: Sequence[Part], size: int) -> list[Result]:
    """What the work makes of every part, in their order; an error is that of the first of them.

    ``size`` are the numbers that all parts have.
    """
    n_helpers = min(len(parts), thread_count()) - 1
    if size < MANY or n_helpers < 1:
        return list(map(work, parts))
    results: dict[int, Result] = {}
    errors: dict[int, Exception] = {}

    def take(numbers: Iterator[int]) -> None:
        for k in numbers:
            try:
                results[k] = work(parts[k])
            except Exception as error:
                errors[k] = error
                return

    numbers = iter(range(len(parts)))
    share(take, numbers, n_helpers)
    if errors:
        raise errors[min(errors)]
    return [results[k] for k in range(len(parts))]


def each_block(work: Callable[[slice], Result], n: int, width: int = 1) -> list[Result]:
    """What the work makes of every block of n rows, in their order; rows are so many numbers wide."""
    return each(work, list(blocks(n, width)), n * width)


def taken(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The rows of a table, as ``table[rows]``."""
    result = np.empty((len(rows), table.shape[1]), dtype=table.dtype)

    def take(block: slice) -> None:
        result[block] = table[rows[block]]

    each_block(take, len(rows), table.shape[1])
    return result

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
# Seconds of work for which a thread is worth waking.
_WORTH_A_THREAD = 2e-4
# Rows of the first block, its largest share of all, and how blocks grow.
_FIRST_ROWS, _FIRST_SHARE, _GROWTH = 8, 16, 8


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
    size = max(1, min(_FIRST_ROWS, n_rows // _FIRST_SHARE)) if limit > 1 else n_rows
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
    caller = threading.get_ident()

    def work(parts: Iterator[tuple[int, int]]) -> None:
        mine = memory if scratch is None or threading.get_ident() == caller else (scratch(),)
        for first, last in parts:
            kernel(first, last, *arguments, *mine)

    share(work, iter(_smaller_and_smaller(start, n_rows, n_helpers + 1)), n_helpers)


def _smaller_and_smaller(start: int, stop: int, n_threads: int) -> list[tuple[int, int]]:
    """Blocks of rows, each a part of what is left: few in all, and small ones in the end."""
    parts, least = [], max(1, (stop - start) // (16 * n_threads))
    while start < stop:
        size = min(max(least, (stop - start) // (2 * n_threads)), stop - start)
        parts.append((start, start + size))
        start += size
    return parts


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

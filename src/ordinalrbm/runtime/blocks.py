"""NumPy work, kernels and checksums on blocks of rows, in threads: Python's lock is let go there."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numba
import numpy as np

Part = TypeVar("Part")
Found = TypeVar("Found")

MANY = 2**19  # numbers; for less, starting threads costs more than they save
BLOCK = 1 << 18  # rows worked on at a time


def blocks(n: int, width: int = 1) -> Iterator[slice]:
    """Slices of n rows, each so many numbers wide, one block after the other."""
    size = max(1, BLOCK // max(width, 1))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def each(work: Callable[[Part], Found], parts: Sequence[Part], size: int) -> list[Found]:
    """What the work makes of every part, in their order; an error is that of the first of them.

    ``size`` are the numbers that all parts have.
    """
    if size < MANY or len(parts) < 2:
        return list(map(work, parts))
    with ThreadPoolExecutor(min(len(parts), numba.get_num_threads())) as pool:
        return list(pool.map(work, parts))


def each_block(work: Callable[[slice], Found], n: int, width: int = 1) -> list[Found]:
    """What the work makes of every block of n rows, in their order; rows are so many numbers wide."""
    return each(work, list(blocks(n, width)), n * width)


def taken(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    found = np.empty((len(rows), table.shape[1]), dtype=table.dtype)

    def take(block: slice) -> None:
        found[block] = table[rows[block]]

    each_block(take, len(rows), table.shape[1])
    return found

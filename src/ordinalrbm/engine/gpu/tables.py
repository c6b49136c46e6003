"""Products and sums with the rows of a table that answers point to: part of every half-sweep.

Each answer points to a row of the table, the weights or features of its column. Tables have rows of
a multiple of so many numbers (:func:`padded`), so that they can be read 16 bytes at a time; these
two kernels read them from beginning to end for every answer, and nothing else takes as long.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ordinalrbm.engine.gpu.pieces import OF_BATCH, Pieces, summed

_MULTIPLE = 16
# Answers and numbers of each that a program looks at together: for products, which go along the
# rows of the table, and for sums, which go across.
_ENTRIES, _NUMBERS = tl.constexpr(64), tl.constexpr(32)
_FOR_SUMS = 2048


def padded(table: torch.Tensor) -> torch.Tensor:
    missing = -table.shape[1] % _MULTIPLE
    return torch.nn.functional.pad(table, (0, missing)) if missing else table.contiguous()


def products(
    pieces: Pieces,
    base: int,
    column: torch.Tensor,
    table: torch.Tensor,
    vectors: torch.Tensor,
    n_entries: int,
) -> torch.Tensor:
    """Scalar product of a row's vector with the table's row, for every answer from ``base`` on."""
    out = torch.empty(n_entries, dtype=torch.float32, device=table.device)
    if pieces.n:
        given = column, table, table.shape[1], vectors, vectors.shape[1], out
        _set_products[(pieces.n,)](*pieces[:3], base, *given)
    return out


def sums(
    pieces: Pieces, base: int, column: torch.Tensor, table: torch.Tensor, values: torch.Tensor | None
) -> torch.Tensor:
    """(rows, width) sums of the table's rows over a row's answers, times a number of each."""
    width = table.shape[1]
    partial = torch.empty((pieces.n, width), dtype=torch.float32, device=table.device)
    if pieces.n:
        given = column, table, width, values, partial
        _sum_rows[(pieces.n,)](*pieces[1:3], base, *given, *shape(width, _FOR_SUMS))
    return summed(partial, pieces)


def squares_times(
    pieces: Pieces,
    column: torch.Tensor,
    table: torch.Tensor,
    vectors: torch.Tensor,
    weight: torch.Tensor | None,
) -> torch.Tensor:
    """(rows, width) squares of the table's rows, summed over a row's answers, times its vector.

    The same as products and then sums with them, but the table is read once.
    """
    width = table.shape[1]
    partial = torch.empty((pieces.n, width), dtype=torch.float32, device=table.device)
    if pieces.n:
        given = column, table, width, vectors, vectors.shape[1], weight, partial
        _square_rows[(pieces.n,)](*pieces[:3], *given, *shape(width, _FOR_SUMS))
    return summed(partial, pieces)


def shape(width: int, numbers: int) -> tuple[int, int]:
    """How many answers to look at together, and the size of a block that holds a row."""
    block = triton.next_power_of_2(max(width, 1))
    return max(numbers // block, 1), block


@triton.jit(do_not_specialize=OF_BATCH)
def _set_products(row_of, first_of, stop_of, base, column, table, width, vectors, n_vector, out):
    piece = tl.program_id(0)
    row = tl.load(row_of + piece).to(tl.int64)
    first, stop = tl.load(first_of + piece), tl.load(stop_of + piece)
    for begin in range(first, stop, _ENTRIES):
        e = begin + tl.arange(0, _ENTRIES)
        here = e < stop
        place = tl.load(column + e, mask=here, other=0).to(tl.int64)[:, None] * width
        # Summed last, so that threads exchange sums once and not for every number.
        total = tl.zeros((_ENTRIES, _NUMBERS), dtype=tl.float32)
        for start in range(0, width, _NUMBERS):
            k = start + tl.arange(0, _NUMBERS)
            x = tl.load(vectors + row * n_vector + k, mask=k < n_vector, other=0).to(tl.float32)
            inside = here[:, None] & (k < width)[None, :]
            total += tl.load(table + place + k[None, :], mask=inside, other=0.0) * x[None, :]
        tl.store(out + (e - base), tl.sum(total, axis=1), mask=here)


@triton.jit
def _lines(e, stop, column, table, width, k):
    """Lines of a table at the columns of entries; zeros from `stop` on and behind its width."""
    here = e < stop
    place = tl.load(column + e, mask=here, other=0).to(tl.int64)[:, None] * width
    inside = here[:, None] & (k < width)[None, :]
    return tl.load(table + place + k[None, :], mask=inside, other=0.0)


@triton.jit(do_not_specialize=OF_BATCH[1:])
def _sum_rows(
    first_of, stop_of, base, column, table, width, values, partial, tile: tl.constexpr, block: tl.constexpr
):
    piece = tl.program_id(0)
    first, stop = tl.load(first_of + piece), tl.load(stop_of + piece)
    k = tl.arange(0, block)
    total = tl.zeros((tile, block), dtype=tl.float32)
    for begin in range(first, stop, tile):
        e = begin + tl.arange(0, tile)
        line = _lines(e, stop, column, table, width, k)
        if values is not None:
            line = line * tl.load(values + (e - base), mask=e < stop, other=0.0)[:, None]
        total += line
    out = partial + piece.to(tl.int64) * width + k
    tl.store(out, tl.sum(total, axis=0), mask=k < width)


@triton.jit
def _square_rows(
    row_of,
    first_of,
    stop_of,
    column,
    table,
    width,
    vectors,
    n_vector,
    weight,
    partial,
    tile: tl.constexpr,
    block: tl.constexpr,
):
    piece = tl.program_id(0)
    row = tl.load(row_of + piece).to(tl.int64)
    first, stop = tl.load(first_of + piece), tl.load(stop_of + piece)
    k = tl.arange(0, block)
    x = tl.load(vectors + row * n_vector + k, mask=k < n_vector, other=0.0)
    total = tl.zeros((tile, block), dtype=tl.float32)
    for begin in range(first, stop, tile):
        e = begin + tl.arange(0, tile)
        line = _lines(e, stop, column, table, width, k)
        along = tl.sum(line * x[None, :], axis=1)
        if weight is not None:
            along = along * tl.load(weight + e, mask=e < stop, other=0.0)
        total += along[:, None] * line
    out = partial + piece.to(tl.int64) * width + k
    tl.store(out, tl.sum(total, axis=0), mask=k < width)

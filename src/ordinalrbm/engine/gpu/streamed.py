"""Answers that stay in the memory of the host, and come to the device a block of rows at a time.

For ratings that do not fit into the memory of a GPU. Rows are independent given the columns, so
that a half-sweep may update them block after block; while one block is computed with, the next is
copied, on a stream of its own, into the other of two buffers. The engine is that of
:mod:`ordinalrbm.engine.gpu.half_sweep`, with the same pieces and sums, hence the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import memory
from ordinalrbm.engine.gaussian_state import FactorPosterior, Prior
from ordinalrbm.engine.gpu import half_sweep as resident
from ordinalrbm.engine.gpu.pieces import SIZE, Answers, Pieces, pieces_of, row_blocks

# Blocks begin at multiples of so many rows, and have so many at least. With fewer rows torch sums
# along them in another order, and where rows begin at an odd address kernels read it otherwise.
_ROWS = 16
# Bytes of a block: small enough that there are several, one to compute with and one to copy.
_BLOCK_BYTES = 2**30
# Answers of a chunk of the host's memory. Torch rounds what it pins up to a power of two.
_CHUNK = 2**24


# ---- the functions of the engine for answers that are on the device ---------------------------


def __getattr__(name: str) -> Any:
    return getattr(resident, name)  # what needs no answers is the same


def half_sweep(
    answers: Streamed, this: FactorPosterior, other: Any, prior: Prior, spread: bool = True
) -> torch.Tensor:
    other = resident.facing(other)
    found = [0.0 * this.cutpoints[:0]]
    for rows, there in answers.blocks():
        own = prior._replace(cutpoints=prior.cutpoints[rows], mean=prior.mean[rows])
        found.append(resident.half_sweep(there, _some(this, rows), other, own, spread))
    return torch.cat(found)


def gather(answers: Streamed, this: FactorPosterior, other: Any) -> tuple[Any, ...]:
    other = resident.facing(other)
    found = [resident.gather(there, _some(this, rows), other) for rows, there in answers.blocks()]
    return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


def apply(
    answers: Streamed, other: Any, ridge: torch.Tensor, direction: torch.Tensor
) -> torch.Tensor:
    other, found = resident.facing(other), []
    for rows, there in answers.blocks():
        found.append(resident.apply(there, other, ridge[rows], direction[rows]))
    return torch.cat(found)


def rated_sums(answers: Streamed, table: torch.Tensor) -> torch.Tensor:
    return torch.cat([resident.rated_sums(there, table) for _, there in answers.blocks()])


def rated_products(answers: Streamed, table: torch.Tensor, of_rows: torch.Tensor) -> torch.Tensor:
    found = [
        resident.rated_products(there, table, of_rows[rows]) for rows, there in answers.blocks()
    ]
    return torch.cat(found)


def gap_sums(answers: Streamed, this: FactorPosterior, other: Any, rows: slice) -> torch.Tensor:
    other, found = resident.facing(other), []
    for block, there in answers.blocks(rows):
        wanted = slice(max(rows.start - block.start, 0), min(rows.stop, block.stop) - block.start)
        found.append(resident.gap_sums(there, _some(this, block), other, wanted))
    return torch.cat(found)


def _some(posterior: FactorPosterior, rows: slice) -> FactorPosterior:
    return FactorPosterior(*(part[rows] for part in posterior))


# ---- answers on the host ----------------------------------------------------------------------


class _Block(NamedTuple):
    """Some rows: which, where their answers are, and how they are cut into pieces."""

    rows: slice
    first: int
    stop: int
    pieces: Pieces


class Streamed:
    """Answers in the memory of the host, in blocks of rows; several views may share a feed."""

    def __init__(self, observations: Observations, blocks: list[slice], feed: Feed) -> None:
        self.feed = feed
        self._column = _InChunks(observations.column, feed.device)
        self._level = _InChunks(observations.level, feed.device)
        self._blocks = []
        for rows in blocks:
            starts = observations.row_start[rows.start : rows.stop + 1]
            pieces = pieces_of(starts - starts[0], feed.device)
            self._blocks.append(_Block(rows, int(starts[0]), int(starts[-1]), pieces))

    @property
    def n_blocks(self) -> int:
        return len(self._blocks)

    def blocks(self, rows: slice | None = None) -> Iterator[tuple[slice, Answers]]:
        """Block after block on the device, those with some of these rows; each until the next."""
        wanted = [
            block
            for block in self._blocks
            if rows is None or (block.rows.start < rows.stop and rows.start < block.rows.stop)
        ]
        yield from self.feed(wanted, self._column, self._level)


class _InChunks:
    """An array of the host's in chunks, pinned so that a device reads them by itself."""

    def __init__(self, values: np.ndarray, device: torch.device) -> None:
        self.chunks = []
        for start in range(0, values.size, _CHUNK):
            chunk = torch.from_numpy(values[start : start + _CHUNK])
            self.chunks.append(chunk.pin_memory() if device.type == "cuda" else chunk)

    def copy_to(self, buffer: torch.Tensor, first: int, stop: int) -> torch.Tensor:
        """Some of it, at the beginning of a buffer."""
        there = buffer[: stop - first]
        begin = first
        while begin < stop:
            chunk, place = divmod(begin, _CHUNK)
            size = min(_CHUNK - place, stop - begin)
            some = self.chunks[chunk][place : place + size]
            there[begin - first : begin - first + size].copy_(some, non_blocking=True)
            begin += size
        return there


class Feed:
    """Two buffers on a device: one to compute with, and one that the next block is copied to."""

    def __init__(self, device: torch.device, n_entries: int, level_type: torch.dtype) -> None:
        self.device = device
        self._buffers = [
            tuple(torch.empty(n_entries, dtype=kind, device=device) for kind in kinds)
            for kinds in 2 * [(torch.int32, level_type)]
        ]
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(
        self, blocks: Sequence[_Block], column: _InChunks, level: _InChunks
    ) -> Iterator[tuple[slice, Answers]]:
        """Block after block, each copied while the one before is computed with."""
        copied = (self._copied(block, k % 2, column, level) for k, block in enumerate(blocks))
        ahead: Any = next(copied, None)
        for block in blocks:
            answers, is_there = ahead
            ahead = next(copied, None)
            if is_there is not None:
                torch.cuda.current_stream(self.device).wait_event(is_there)
            yield block.rows, answers

    def _copied(
        self, block: _Block, which: int, column: _InChunks, level: _InChunks
    ) -> tuple[Answers, Any]:
        """A block in one of the buffers, and the event after which it is there."""
        stream, copying = self._stream, nullcontext()
        if stream is not None:
            # What was asked for so far may still read this buffer; what comes from now on does not.
            stream.wait_stream(torch.cuda.current_stream(self.device))
            copying = torch.cuda.stream(stream)
        with copying:
            there = (
                part.copy_to(buffer, block.first, block.stop)
                for part, buffer in zip((column, level), self._buffers[which], strict=True)
            )
            answers = Answers(block.pieces, *there)
            return answers, None if stream is None else stream.record_event()


# ---- whether, and in which blocks -------------------------------------------------------------


def planned(
    observations: Observations, need: memory.OnGpu, size: memory.Size, free: int
) -> list[list[slice]] | None:
    """Blocks of rows and of columns, or None if all ratings fit into the memory that is free.

    A DataError says when not even a few rows at a time do.
    """
    counts = (observations.row_counts, observations.column_counts)
    costs = [_cost_of_rows(own, need) for own in counts]
    if need.stays + max(cost.sum() for cost in costs) <= free:
        return None
    groups = [_in_groups(cost) for cost in costs]
    least = max(group.max(initial=0.0) for group in groups)
    left = free - need.stays
    if least > left:
        memory.refuse_on_gpu(size, int(need.stays + least), free)
    most = max(min(left, _BLOCK_BYTES), least)
    return [
        [slice(_ROWS * part.start, cost.size if part.stop == group.size else _ROWS * part.stop)
         for part in row_blocks(group, most)]
        for group, cost in zip(groups, costs, strict=True)
    ]  # fmt: skip


def _cost_of_rows(counts: np.ndarray, need: memory.OnGpu) -> np.ndarray:
    return need.answer * counts + need.piece * -(-counts // SIZE) + need.row


def _in_groups(cost: np.ndarray) -> np.ndarray:
    """Costs of so many rows together; what is left of them goes to the last."""
    starts = np.arange(0, max(cost.size - _ROWS, 0) + 1, _ROWS)
    return np.add.reduceat(cost, starts) if cost.size else cost


def streamed(
    views: Sequence[Observations], blocks: Sequence[list[slice]], device: torch.device
) -> list[Streamed]:
    """Views whose answers stay on the host; they share the buffers on the device."""
    longest = max(
        int(view.row_start[rows.stop] - view.row_start[rows.start])
        for view, parts in zip(views, blocks, strict=True)
        for rows in parts
    )
    level_type = torch.from_numpy(views[0].level[:0]).dtype
    feed = Feed(device, longest, level_type)
    return [Streamed(view, parts, feed) for view, parts in zip(views, blocks, strict=True)]

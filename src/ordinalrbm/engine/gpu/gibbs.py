"""Gibbs chains of binary factors on a GPU: both phases of :mod:`ordinalrbm.engine.gibbs`.

Sides are those of ratings, with offsets and gaps of their own for the rows.

A phase has the two passes of the CPU engine. In the row pass every Gibbs step is four kernels:
means of the answers' utilities, draws of these (one answer per thread), the factors' activations,
draws of the factors. The column pass walks the column view in the same pieces.

Sides and factors are tensors on the device; factors are bytes, changed in place. Random words are
those of the other engines, so that chains are the same up to ties in rounding.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from ordinalrbm.engine.gpu import normal
from ordinalrbm.engine.gpu.pieces import OF_BATCH, SIZE, Pieces, of_piece, pieces_of, summed
from ordinalrbm.engine.gpu.tables import padded, products, shape, sums
from ordinalrbm.engine.philox import Purpose, stream
from ordinalrbm.engine.side import Batch, Side, Statistics

_SIZE = tl.constexpr(SIZE)
# Factors of so many numbers are looked at together by one program.
_TILE = 4096
# Factors, or columns, that one program draws or searches for.
_MANY = tl.constexpr(512)
_WHOLE_WORD = 2**64 - 1


class DeviceSide(NamedTuple):
    """A Side on a device, and its rows and columns in pieces.

    Weights are in a table (:func:`ordinalrbm.engine.gpu.tables.padded`), and so are factors.
    """

    side: Side
    rows: Pieces
    columns: Pieces
    host_row_start: np.ndarray

    @property
    def n_factors(self) -> int:
        return self.side.factor_bias.numel()

    def with_parameters(self, **parameters: torch.Tensor) -> DeviceSide:
        if "weights" in parameters:
            parameters["weights"] = padded(parameters["weights"])
        return self._replace(side=self.side._replace(**parameters))


def factors_on(factors: np.ndarray, device: torch.device) -> torch.Tensor:
    return padded(torch.from_numpy(np.ascontiguousarray(factors, dtype=np.uint8)).to(device))


def side_on(side: Side, device: torch.device) -> DeviceSide:
    arrays = side._asdict()
    units = arrays.pop("units")
    there = {name: torch.from_numpy(np.ascontiguousarray(part)).to(device) for name, part in arrays.items()}
    there["weights"] = padded(there["weights"])
    rows, columns = (pieces_of(start, device) for start in (side.row_start, side.column_start))
    return DeviceSide(Side(**there, units=units), rows, columns, np.asarray(side.row_start))


class Part(NamedTuple):
    """Rows of a batch: their pieces, where their first answer is, and how many they have."""

    batch: Batch
    pieces: Pieces
    first: int
    n_entries: int

    @property
    def rows(self) -> slice:
        return slice(self.batch.start, self.batch.stop)


def both_phases(
    on: DeviceSide,
    clamped: torch.Tensor,
    free: torch.Tensor,
    batch: Batch,
    expected: torch.Tensor,
    keep: float,
    is_contrastive: bool,
) -> tuple[Statistics, Statistics]:
    """The clamped and the free phase; contrastive free chains begin at the clamped ones."""
    part = part_of(on, batch)
    columns = _columns_in(on, part)
    statistics = _phase(on, clamped, part, columns, True, expected, keep)
    if is_contrastive:
        free[part.rows] = clamped[part.rows]
    return statistics, _phase(on, free, part, columns, False)


def offsets(on: DeviceSide, weights: torch.Tensor, bias: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    part = part_of(on)
    found = products(part.pieces, 0, on.side.column, padded(factors), padded(weights), part.n_entries)
    launch(_add_to_row, on, part, bias, found)
    return found


def mean_field(
    on: DeviceSide, probabilities: torch.Tensor, tolerance: float, max_iterations: int
) -> torch.Tensor:
    """Move factors to the fixed point of mean-field, in place; return each row's last change.

    Without extrapolation: only a few rounds are done here.
    """
    side, part = on.side, part_of(on)
    change = torch.full((side.n_rows,), torch.inf, device=probabilities.device)
    for _ in range(max_iterations):
        utility = factor_products(on, probabilities, part)
        _expected(on, part, utility)
        updated = torch.sigmoid(_activation(on, utility, part))
        goes_on = change > tolerance
        step = torch.where(goes_on[:, None], updated - probabilities, 0.0)
        change = torch.where(goes_on, step.abs().amax(1) if step.shape[1] else 0.0, change)
        probabilities += step
        if tolerance > 0.0 and not bool((change > tolerance).any()):
            break
    return change


# ---- stages -----------------------------------------------------------------------------------


def _phase(
    on: DeviceSide,
    factors: torch.Tensor,
    part: Part,
    columns: Pieces,
    clamped: bool,
    expected: torch.Tensor | None = None,
    keep: float = 0.0,
) -> Statistics:
    _gibbs(on, factors, part, clamped, expected, keep)
    utility, bounds = factor_products(on, factors, part), None
    if clamped:
        bounds = _expected(on, part, utility)
    else:
        launch(_add_rest, on, part, utility)
    return _summed(on, factors, part, columns, utility, bounds)


def part_of(on: DeviceSide, batch: Batch | None = None) -> Part:
    batch = batch or Batch(0, on.side.n_rows, 0, 0, 0)
    pieces = on.rows.of_rows(slice(batch.start, batch.stop))
    first, stop = (int(on.host_row_start[row]) for row in (batch.start, batch.stop))
    return Part(batch, pieces, first, stop - first)


def launch(kernel: Any, on: DeviceSide, part: Part, *arguments: Any) -> None:
    if part.pieces.n:
        kernel[(part.pieces.n,)](*part.pieces[:3], part.first, view_of(on), *arguments)


class View(NamedTuple):
    """What kernels read of a side."""

    column: torch.Tensor
    level: torch.Tensor
    bias: torch.Tensor
    thresholds: torch.Tensor
    n_bounds: int
    offset: torch.Tensor
    row_gaps: torch.Tensor
    n_row_gaps: int


def view_of(on: DeviceSide) -> View:
    side = on.side
    table, gaps = side.thresholds, side.row_gaps
    return View(side.column, side.level, side.bias, table, table.shape[1], side.offset, gaps, gaps.shape[-1])


def factor_products(on: DeviceSide, factors: torch.Tensor, part: Part) -> torch.Tensor:
    return products(part.pieces, part.first, on.side.column, on.side.weights, factors, part.n_entries)


def _expected(on: DeviceSide, part: Part, mean: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Expected utilities in place of their means; returns densities at the levels' bounds."""
    bounds = torch.empty_like(mean), torch.empty_like(mean)
    launch(_expect, on, part, mean, *bounds)
    return bounds


def _activation(on: DeviceSide, utility: torch.Tensor, part: Part) -> torch.Tensor:
    side = on.side
    activation = sums(part.pieces, part.first, side.column, side.weights, utility)
    return activation[:, : on.n_factors] + side.factor_bias


def _gibbs(
    on: DeviceSide,
    factors: torch.Tensor,
    part: Part,
    clamped: bool,
    expected: torch.Tensor | None = None,
    keep: float = 0.0,
) -> None:
    side, batch = on.side, part.batch
    seed = seed_on(batch.seed, factors.device)
    of_utility = Purpose.CLAMPED_UTILITY if clamped else Purpose.FREE_UTILITY
    of_factor = Purpose.CLAMPED_FACTOR if clamped else Purpose.FREE_FACTOR
    for step in range(batch.gibbs_steps):
        utility = factor_products(on, factors, part)
        launch(_draw, on, part, utility, side.row_start, seed, batch.sweep, stream(of_utility, step), clamped)
        activation = _activation(on, utility, part)
        if expected is not None and step == batch.gibbs_steps - 1:
            new = (1.0 - keep) * torch.sigmoid(activation)
            running = expected[part.rows, : on.n_factors]
            torch.add(new, running, alpha=keep, out=running)
        if activation.numel():
            grid, of_rows = (triton.cdiv(activation.numel(), _MANY.value),), (batch.start, *activation.shape)
            draws = seed, *of_rows, batch.sweep, stream(of_factor, step)
            _draw_factors[grid](activation, factors, factors.shape[1], *draws)


@lru_cache(maxsize=8)
def seed_on(seed: int, device: torch.device) -> torch.Tensor:
    """A seed as a tensor, so that kernels are not compiled again for every one."""
    return torch.tensor([seed & _WHOLE_WORD], dtype=torch.uint64).view(torch.int64).to(device)


def _summed(
    on: DeviceSide,
    factors: torch.Tensor,
    part: Part,
    pieces: Pieces,
    utility: torch.Tensor,
    bounds: tuple[torch.Tensor, torch.Tensor] | None,
) -> Statistics:
    """Sums over the batch's answers of each column, in the order of the rows."""
    side = on.side
    width, n_bounds = factors.shape[1], side.thresholds.shape[1]
    weights = side.weights.new_empty((pieces.n, width))
    numbers = side.thresholds.new_zeros((pieces.n, 2 + n_bounds))
    entries = (*pieces[1:3], side.entry_row, side.entry, part.first)
    at_low, at_high = bounds or (None, None)
    if pieces.n:
        _sum_columns[(pieces.n,)](*entries, utility, factors, weights, width, *shape(width, _TILE))
        _sum_numbers[(pieces.n,)](*entries, view_of(on), utility, at_low, at_high, numbers)
    of_weights, numbers = summed(weights, pieces)[:, : on.n_factors], summed(numbers, pieces)
    bias, factor_bias = numbers[:, 0].float(), factors[part.rows, : on.n_factors].float().sum(0)
    # Rows of ratings have no covariates.
    slopes = (part.new_zeros((part.numel(), 0)) for part in (bias, factor_bias))
    bounds_moved, answers = numbers[:, 2:].contiguous(), numbers[:, 1].float()
    return Statistics(of_weights, bias, bounds_moved, factor_bias, answers, *slopes)


def _columns_in(on: DeviceSide, part: Part) -> Pieces:
    """The columns' answers that are of the batch, in pieces.

    Nothing waits for the device: there are as many places as pieces can be at most.
    """
    side, batch = on.side, part.batch
    if batch.stop - batch.start == side.n_rows:
        return on.columns
    n_columns = side.bias.numel()
    bounds = torch.empty((2, n_columns), dtype=torch.int64, device=side.bias.device)
    grid = (triton.cdiv(n_columns, _MANY.value),)
    if n_columns:
        _find_bounds[grid](side.column_start, side.entry_row, bounds, batch.start, batch.stop, n_columns)
    low, high = bounds
    count = (high - low + SIZE - 1) // SIZE
    start = torch.nn.functional.pad(torch.cumsum(count, 0), (1, 0))
    most = part.n_entries // SIZE + min(n_columns, part.n_entries)
    index = torch.arange(most, device=side.bias.device)
    owner = torch.searchsorted(start[1:], index, right=True).clamp(max=max(n_columns - 1, 0))
    first = low[owner] + SIZE * (index - start[owner])
    stop = torch.minimum(first + SIZE, high[owner])
    columns, nowhere = torch.arange(n_columns, device=side.bias.device), np.zeros(0, np.int64)
    return Pieces(owner.int(), first, torch.maximum(stop, first), start, nowhere, columns, nowhere)


# ---- kernels of the row pass ------------------------------------------------------------------


@triton.jit
def bounds_of(side, row, e, here, i):
    """Levels of some answers of a row, and their bounds."""
    answer = tl.load(side.level + e, mask=here, other=0).to(tl.int32)
    bounds = side.thresholds + i * side.n_bounds
    row_gaps = side.row_gaps + row * side.n_row_gaps
    high = tl.load(bounds + 1, mask=here, other=0.0) + tl.load(row_gaps)
    low = tl.full(high.shape, float("-inf"), dtype=tl.float64)
    before = tl.load(bounds + 1, mask=here, other=0.0)
    for m in range(1, side.n_bounds - 1):
        counts = here & (m <= answer)
        after = tl.load(bounds + m + 1, mask=counts, other=0.0)
        low = tl.where(counts, high, low)
        gap = tl.load(row_gaps + m).to(tl.float64)
        high = tl.where(counts, high + gap * (after - before), high)
        before = after
    return answer, low, high


@triton.jit
def _mean(side, e, base, here, i, products):
    mean = tl.load(products + (e - base), mask=here, other=0.0).to(tl.float64)
    mean += tl.load(side.bias + i, mask=here, other=0.0)
    return mean + tl.load(side.offset + e, mask=here, other=0.0)


@triton.jit
def uniform_draw(seed, row, position, sweep, stream):
    """Uniform numbers by their counters; four neighbouring positions share a block."""
    key = tl.load(seed)
    block = (position >> 2).to(tl.uint32)
    zero = block * 0
    who, when, what = (zero + row).to(tl.uint32), zero + sweep, zero + stream
    w0, w1, w2, w3 = tl.philox(key, who, block, when.to(tl.uint32), what.to(tl.uint32))
    which = position & 3
    word = tl.where(which == 0, w0, tl.where(which == 1, w1, tl.where(which == 2, w2, w3)))
    return (word.to(tl.int64).to(tl.float64) + 0.5) * 2.3283064365386963e-10


@triton.jit(do_not_specialize=[*OF_BATCH, "sweep", "stream"])
def _draw(
    row_of, first_of, stop_of, base, side, utility, row_start, seed, sweep, stream, clamped: tl.constexpr
):
    row, e, here, i = of_piece(row_of, first_of, stop_of, side.column)
    mean = _mean(side, e, base, here, i, utility)
    at = e - tl.load(row_start + row)
    uniform = uniform_draw(seed, row, at, sweep, stream)
    if clamped:
        _, low, high = bounds_of(side, row, e, here, i)
        drawn = normal.truncated_draw(low - mean, high - mean, uniform)
    else:
        drawn = normal.standard_normal(uniform)
    tl.store(utility + (e - base), (mean + drawn).to(tl.float32), mask=here)


@triton.jit(do_not_specialize=OF_BATCH)
def _expect(row_of, first_of, stop_of, base, side, utility, at_low, at_high):
    """Expected utilities of a piece in place of their means, and the densities at the bounds."""
    row, e, here, i = of_piece(row_of, first_of, stop_of, side.column)
    mean = _mean(side, e, base, here, i, utility)
    _, low, high = bounds_of(side, row, e, here, i)
    low_density, high_density, shift = normal.edge_densities(low - mean, high - mean)
    tl.store(utility + (e - base), (mean + shift).to(tl.float32), mask=here)
    tl.store(at_low + (e - base), low_density.to(tl.float32), mask=here)
    tl.store(at_high + (e - base), high_density.to(tl.float32), mask=here)


@triton.jit(do_not_specialize=OF_BATCH)
def _add_rest(row_of, first_of, stop_of, base, side, utility):
    """Mean utilities of a piece in place of what factors add to them."""
    _, e, here, i = of_piece(row_of, first_of, stop_of, side.column)
    mean = _mean(side, e, base, here, i, utility)
    tl.store(utility + (e - base), mean.to(tl.float32), mask=here)


@triton.jit(do_not_specialize=OF_BATCH)
def _add_to_row(row_of, first_of, stop_of, base, side, row_bias, values):
    """Add a number of the row to every answer's."""
    row, e, here, _ = of_piece(row_of, first_of, stop_of, side.column)
    value = tl.load(values + (e - base), mask=here, other=0.0) + tl.load(row_bias + row)
    tl.store(values + (e - base), value, mask=here)


@triton.jit(do_not_specialize=["first_row", "n_rows", "sweep", "stream"])
def _draw_factors(activation, factors, width, seed, first_row, n_rows, n_factors, sweep, stream):
    """Draw the factors of the batch's rows, one factor per thread."""
    cell = (tl.program_id(0) * _MANY + tl.arange(0, _MANY)).to(tl.int64)
    here = cell < n_rows * n_factors
    row, k = first_row + cell // n_factors, cell % n_factors
    a = tl.load(activation + cell, mask=here, other=0.0).to(tl.float64)
    uniform = uniform_draw(seed, row, k, sweep, stream)
    on = tl.where(uniform < normal.logistic(a), 1, 0)
    tl.store(factors + row * width + k, on.to(tl.uint8), mask=here)


# ---- kernels of the column pass ---------------------------------------------------------------


@triton.jit(do_not_specialize=["start", "stop"])
def _find_bounds(column_start, entry_row, bounds, start, stop, n_columns):
    """Where in each column's answers those of a batch of rows begin and stop."""
    i = tl.program_id(0) * _MANY + tl.arange(0, _MANY)
    here = i < n_columns
    first = tl.load(column_start + i, mask=here, other=0)
    last = tl.load(column_start + i + 1, mask=here, other=0)
    for which in tl.static_range(2):
        bound = start if which == 0 else stop
        low, high = first, last
        while tl.max(high - low) > 0:
            middle = (low + high) >> 1
            searching = low < high
            below = tl.load(entry_row + middle, mask=here & searching, other=0) < bound
            low = tl.where(searching & below, middle + 1, low)
            high = tl.where(searching & (below == 0), middle, high)
        tl.store(bounds + which * n_columns + i, low, mask=here)


@triton.jit(do_not_specialize=["base"])
def _sum_columns(
    first_of,
    stop_of,
    entry_row,
    entry,
    base,
    utility,
    factors,
    partial,
    n_factors,
    tile: tl.constexpr,
    block: tl.constexpr,
):
    """Expected utility times factor, summed over a piece of a column."""
    piece = tl.program_id(0)
    first, stop = tl.load(first_of + piece), tl.load(stop_of + piece)
    k = tl.arange(0, block)
    total = tl.zeros((tile, block), dtype=tl.float32)
    for begin in range(first, stop, tile):
        place = begin + tl.arange(0, tile)
        here = place < stop
        row = tl.load(entry_row + place, mask=here, other=0).to(tl.int64)
        at = tl.load(entry + place, mask=here, other=0).to(tl.int64) - base
        u = tl.load(utility + at, mask=here, other=0.0)
        inside = here[:, None] & (k < n_factors)[None, :]
        h = tl.load(factors + row[:, None] * n_factors + k[None, :], mask=inside, other=0)
        total += u[:, None] * h.to(tl.float32)
    out = partial + piece.to(tl.int64) * n_factors + k
    tl.store(out, tl.sum(total, axis=0), mask=k < n_factors)


@triton.jit(do_not_specialize=["base"])
def _sum_numbers(first_of, stop_of, entry_row, entry, base, side, utility, at_low, at_high, partial):
    """Expected utilities, answers, and what moves each threshold, summed over a piece."""
    piece = tl.program_id(0)
    place = tl.load(first_of + piece) + tl.arange(0, _SIZE)
    here = place < tl.load(stop_of + piece)
    row = tl.load(entry_row + place, mask=here, other=0).to(tl.int64)
    where = tl.load(entry + place, mask=here, other=0).to(tl.int64)
    at = where - base
    u = tl.load(utility + at, mask=here, other=0.0).to(tl.float64)
    out = partial + piece.to(tl.int64) * (2 + side.n_bounds)
    tl.store(out, tl.sum(u))
    tl.store(out + 1, tl.sum(tl.where(here, 1.0, 0.0).to(tl.float64)))
    if at_low is not None:
        answer = tl.load(side.level + where, mask=here, other=0).to(tl.int32)
        low = tl.load(at_low + at, mask=here, other=0.0).to(tl.float64)
        high = tl.load(at_high + at, mask=here, other=0.0).to(tl.float64)
        row_gaps = side.row_gaps + row * side.n_row_gaps
        for m in range(1, side.n_bounds - 1):
            # A gap moves every threshold above it.
            moved = tl.where(m <= answer, high, 0.0) - tl.where(m < answer, low, 0.0)
            gap = tl.load(row_gaps + m, mask=here, other=0.0)
            gap = tl.where(moved != 0.0, gap.to(tl.float64), 0.0)
            tl.store(out + 2 + m, tl.sum(gap * moved))

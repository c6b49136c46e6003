"""Draws of the Gibbs sampler on a GPU: see :mod:`ordinalrbm.engine.ordinal_gibbs`.

Rows are drawn in blocks, so that working memory is bounded. A block takes four kernels: what
factors add to the means of its answers; draws of the utilities, an answer per thread; squares and
products of features, summed over each piece; and, for each row, the sum of its pieces and a draw
from the Gaussian that has it as its precision.

Random words are those of the cores, so that draws are the same up to rounding. What an answer needs
beside its features is computed in float64, which is not what takes the time; the cores do so only
where digits would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from ordinalrbm.engine.gpu import gibbs, normal
from ordinalrbm.engine.gpu.device import working_on
from ordinalrbm.engine.gpu.pieces import (
    OF_BATCH,
    SIZE,
    Answers,
    Pieces,
    of_piece,
    row_blocks,
    summed,
    sums_over_bins,
    with_offsets,
)
from ordinalrbm.engine.gpu.tables import padded, products
from ordinalrbm.engine.gpu.transfer import array_of
from ordinalrbm.engine.ordinal_gibbs import OVERRELAXED, DrawnSide, GibbsEngine, RowSums, Sweep, ThresholdSums
from ordinalrbm.engine.philox import Purpose, stream

_OVERRELAXED, _BEYOND = tl.constexpr(OVERRELAXED), tl.constexpr(1.0 + OVERRELAXED)
_NOISE_LEFT = tl.constexpr(float(np.sqrt(1.0 - OVERRELAXED**2)))
# Bytes of working memory for a block of rows.
_BLOCK_BYTES = 5 * 2**27
# Utilities that one program draws. Most rows have fewer answers than a piece has room for.
_UTILITIES = tl.constexpr(64)
# Systems are made and solved by warps in blocks of so many lines, a column of one in each thread.
_LINES = 32
# Products are in float32. Matrix units take numbers of 11 bits, which leave three digits of a sum
# of squares; in parts (tf32x3) they leave all of them, but are no faster than this.
_PRECISION = tl.constexpr("ieee")
# Answers whose features are multiplied together.
_ANSWERS = tl.constexpr(32)
# With more pieces than this a row's systems are summed by several warps, before it is solved for.
_MANY_PIECES = 16
# Pieces whose vectors are added at a time.
_TOGETHER = tl.constexpr(16)
# Rows that one program proposes widths for.
_ROWS = tl.constexpr(128)
# Arguments that differ from block to block and from sweep to sweep; as in OF_BATCH.
_OF_DRAWS = ["first_row", "sweep", "purpose"]
# Sizes of which nothing is to be known: where rows may begin anywhere, numbers are read one by one,
# which leaves each thread with the column that it works on.
_SIZES = ["size", "work_size"]


class GpuGibbs(GibbsEngine):
    """Draws on a GPU, the same as those of the cores up to rounding."""

    def draw_rows(self, answers, this, other, thresholds, prior_mean, precision, sweep):
        shape = _shape(this.factors.shape[1] - 1)
        with working_on(this.factors.device):
            view, right = _view(answers, this, other, thresholds), prior_mean @ precision.T
            for part in _parts(answers, 4 * shape.system, 4 * (shape.system + shape.work)):
                _draw_part(part, view, this.factors, precision, right, shape, sweep)

    def move_widths(self, answers, this, other, thresholds, precision, sweep):
        taken = torch.zeros_like(this.width, dtype=torch.bool)
        with working_on(this.factors.device):
            view = _view(answers, this, other, thresholds)
            for part in _parts(answers, 8 * 3, 8 * (2 * 3 + 2)):
                at, rows = _products(part, view), part.rows
                here = torch.log(this.width[rows].double())
                there = torch.empty_like(here)
                grid, draws = (triton.cdiv(len(here), _ROWS.value),), _draws(sweep, Purpose.WIDTH, at)
                row_arguments = here, there, len(here), float(precision), rows.start, *draws
                at_here = _width_sums(part, view, at, here)
                _propose[grid](at_here, *row_arguments)
                at_there = _width_sums(part, view, at, there)
                _accept[grid](at_here, at_there, this.width, taken, *row_arguments)
        return taken

    def threshold_sums(self, answers, this, other, thresholds):
        n_bounds, found = thresholds.shape[1], []
        size = 1 + 3 * n_bounds
        with working_on(this.factors.device):
            view = _view(answers, this, other, thresholds)
            for part in _parts(answers, 8 * size, 8 * size):
                partial = torch.empty((part.pieces.n, size), dtype=torch.float64, device=thresholds.device)
                _launch(_sum_thresholds, part, view, _products(part, view), part.weight, partial)
                found.append(summed(partial, part.pieces).cpu().numpy())
        sums = np.concatenate(found)
        slope, own_squares, squares_beside = sums[:, 1:].reshape(-1, 3, n_bounds).transpose(1, 0, 2)
        return ThresholdSums(sums[:, 0], slope, np.stack([own_squares, squares_beside], axis=2))

    def bin_sums(self, answers, this, other, thresholds, bins, sweep):
        offset, weight = answers.offset, answers.weight
        left = torch.zeros_like(offset)
        with working_on(this.factors.device):
            view = _view(answers, this, other, thresholds)
            for part in _parts(answers, 0, 0):
                utility = _products(part, view)
                before = part.weighted(utility.clone())
                _draw_utilities_of(part, view, utility, sweep)
                some = left[part.first : part.first + part.n_entries]
                some[:] = (utility - before)[: some.numel()]
        left += offset if weight is None else weight * offset
        total, host = sums_over_bins(left, bins), bins.bins
        bias = this.factors[:, 0].double().cpu().numpy()  # which utilities have, and means of products not
        return total - host.n_answers * np.repeat(bias, np.diff(host.start))

    def with_offsets(self, answers, level, bin_of):
        return with_offsets(answers, level, bin_of)

    def array(self, values, like):
        return torch.from_numpy(values.astype(np.float32)).to(like.device)

    def on_device(self, tree, answers):
        device = answers.column.device
        return _mapped(lambda part: torch.from_numpy(np.array(part)).to(device), tree, np.ndarray)

    def on_host(self, tree):
        return _mapped(array_of, tree, torch.Tensor)

    def copied(self, side):
        return side._replace(factors=side.factors.clone(), width=side.width.clone())

    def as_kept(self, side):
        # Rounded there: half as much is fetched.
        return self.on_host(side._replace(factors=side.factors.half(), width=side.width.clone()))

    def row_sums(self, numbers):
        exact = numbers.double()
        both = torch.cat([exact.sum(0)[None], exact.T @ exact]).cpu().numpy()
        return RowSums(len(exact), both[0], both[1:])

    def log_widths(self, side):
        logs = torch.log(side.width.double())
        total, squares = torch.stack([logs.sum(), (logs * logs).sum()]).tolist()
        return total, squares


GPU_GIBBS = GpuGibbs()


def _mapped(change, tree, kind):
    """The tree of tuples and lists with all arrays of a kind changed."""
    if isinstance(tree, kind):
        return change(tree)
    if not isinstance(tree, tuple | list):
        return tree
    parts = [_mapped(change, part, kind) for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)


# ---- what all of them need --------------------------------------------------------------------


class _View(NamedTuple):
    """What kernels read of the answers and of both sides."""

    column: torch.Tensor
    level: torch.Tensor
    own: torch.Tensor  # (rows, F)
    own_bias: torch.Tensor
    own_width: torch.Tensor
    own_scale: torch.Tensor
    features: torch.Tensor  # a table of the columns' factors
    bias: torch.Tensor
    width: torch.Tensor
    scale: torch.Tensor
    thresholds: torch.Tensor
    n_bounds: int


def _view(answers: Answers, this: DrawnSide, other: DrawnSide, thresholds: torch.Tensor) -> _View:
    return _View(
        answers.column,
        answers.level,
        this.factors[:, 1:].contiguous(),
        this.factors[:, 0].contiguous(),
        *this[1:],
        padded(other.factors[:, 1:]),
        other.factors[:, 0].contiguous(),
        *other[1:],
        thresholds.contiguous(),
        thresholds.shape[1],
    )


class _Part(NamedTuple):
    """A block of rows: their pieces, where their first answer is, how many they have at most."""

    rows: slice
    pieces: Pieces
    first: int
    n_entries: int
    offset: torch.Tensor | None
    weight: torch.Tensor | None

    def with_offsets(self, means: torch.Tensor) -> torch.Tensor:
        """Means of the block's answers with their offsets, in place."""
        if self.offset is not None:
            some = self.offset[self.first : self.first + self.n_entries]
            means[: some.numel()].add_(some)
        return means

    def weighted(self, numbers: torch.Tensor) -> torch.Tensor:
        """A number of each of the block's answers as often as it counts, in place."""
        if self.weight is not None:
            some = self.weight[self.first : self.first + self.n_entries]
            numbers[: some.numel()].mul_(some)
        return numbers


def _parts(answers: Answers, bytes_of_piece: int, bytes_of_row: int) -> Iterator[_Part]:
    """Blocks of rows that need so much memory, beside a number for each answer."""
    pieces, n_entries = answers.pieces, answers.column.numel()
    cost = np.diff(pieces.host_start) * (bytes_of_piece + 4 * SIZE) + bytes_of_row
    blocks = row_blocks(cost, _BLOCK_BYTES)
    if len(blocks) == 1:  # nothing waits for the device
        yield _Part(blocks[0], pieces, 0, n_entries, answers.offset, answers.weight)
        return
    begin = np.minimum(pieces.host_start[[rows.start for rows in blocks]], max(pieces.n - 1, 0))
    first = pieces.first[torch.from_numpy(begin).to(pieces.first.device)] if pieces.n else begin
    for rows, place in zip(blocks, first.tolist(), strict=True):
        some = pieces.of_rows(rows)
        yield _Part(rows, some, place, min(some.n * SIZE, n_entries), answers.offset, answers.weight)


def _products(part: _Part, view: _View) -> torch.Tensor:
    found = products(part.pieces, part.first, view.column, view.features, view.own, part.n_entries)
    return part.with_offsets(found)


def _draws(sweep: Sweep, purpose: Purpose, like: torch.Tensor) -> tuple[torch.Tensor, int, int]:
    """What names the draws of a purpose, beside row and position."""
    return gibbs.seed_on(sweep.seed, like.device), sweep.number, stream(purpose, sweep.kind)


def _launch(kernel: Any, part: _Part, view: _View, *arguments: Any, parts: int = 1, **options: Any) -> None:
    """Run a kernel on each piece, or its parts; answers are counted from the first of the block."""
    if part.pieces.n:
        grid = (part.pieces.n, parts)
        kernel[grid](*part.pieces[:3], part.first, view, *arguments, **options)


@triton.jit
def _means_of(view, row, e, base, here, i, at):
    """Means of some answers of a row, and what columns add to them by themselves."""
    offset = tl.load(view.bias + i, mask=here, other=0.0)
    mean = tl.load(at + (e - base), mask=here, other=0.0) + tl.load(view.own_bias + row)
    return mean + offset, offset


@triton.jit
def _bounds_of(view, row, e, here, i, own_width):
    """Levels of some answers, their widths, and both bounds."""
    scale = (tl.load(view.own_scale + row) + tl.load(view.scale + i, mask=here, other=0)).to(tl.int64)
    level = tl.load(view.level + e, mask=here, other=0).to(tl.int32)
    place = scale * view.n_bounds + level
    width = own_width * tl.load(view.width + i, mask=here, other=1.0)
    low, high = tl.load(view.thresholds + place), tl.load(view.thresholds + place + 1)
    return level, width, width * low, width * high


# ---- biases and factors -----------------------------------------------------------------------


class _Shape(NamedTuple):
    """Sizes of a row's system, in which lines are padded to whole blocks.

    A piece has the squares of its features, sums of these and of their products with utilities, the
    number of answers and the sum of their utilities. While a row is solved for there are the
    factor, the line beside it that is of the bias, and the solution.
    """

    n_factors: int
    lines: int
    n_blocks: int
    system: int
    work: int


def _shape(n_factors: int) -> _Shape:
    lines = _LINES if n_factors > _LINES // 2 else _LINES // 2
    n_blocks = max(triton.cdiv(n_factors, lines), 1)
    n = lines * n_blocks
    return _Shape(n_factors, lines, n_blocks, n * n + 2 * n + 2, n * n + 2 * n)


def _draw_part(
    part: _Part,
    view: _View,
    factors: torch.Tensor,
    precision: torch.Tensor,
    right: torch.Tensor,
    shape: _Shape,
    sweep: Sweep,
) -> None:
    """Draw a block of rows, in place; ``right`` is the prior's precision times its mean."""
    utility, rows, start = _products(part, view), part.rows, part.pieces.start
    _draw_utilities_of(part, view, utility, sweep)
    if part.offset is not None:
        utility -= part.weighted(part.with_offsets(torch.zeros_like(utility)))
    systems = _systems(part, view, utility, shape)
    if np.diff(part.pieces.host_start).max(initial=0) > _MANY_PIECES:
        systems, start = summed(systems, part.pieces), torch.arange(len(start), device=start.device)
    work = systems.new_empty((rows.stop - rows.start, shape.work))
    solved = systems, shape.system, precision, right, work, shape.work, factors, shape.n_factors
    draws, blocks = _draws(sweep, Purpose.FACTOR, utility), (shape.lines, shape.n_blocks)
    _draw_gaussians[(len(work),)](start, *solved, rows.start, *draws, *blocks, num_warps=1, num_stages=1)


def _draw_utilities_of(part: _Part, view: _View, utility: torch.Tensor, sweep: Sweep) -> None:
    """Utilities of a block, without what columns add, in place of products."""
    draws = _draws(sweep, Purpose.UTILITY, utility)
    given = part.pieces.start, part.weight, utility, part.rows.start, *draws
    _launch(_draw_utilities, part, view, *given, parts=SIZE // _UTILITIES.value, num_warps=2)


@triton.jit(do_not_specialize=[*OF_BATCH, *_OF_DRAWS])
def _draw_utilities(
    row_of, first_of, stop_of, base, view, start, weight, at, first_row, seed, sweep, purpose
):
    """Some utilities of a piece, without what their columns add, in place of products.

    Of an answer with a weight it is the sum of as many: see the cores' engine.
    """
    piece = tl.program_id(0)
    row = tl.load(row_of + piece).to(tl.int64)
    first = tl.load(first_of + piece) + tl.program_id(1) * _UTILITIES
    stop = tl.load(stop_of + piece)
    if first < stop:
        e = first + tl.arange(0, _UTILITIES)
        here = e < stop
        i = tl.load(view.column + e, mask=here, other=0).to(tl.int64)
        mean, offset = _means_of(view, row, e, base, here, i, at)
        _, _, low, high = _bounds_of(view, row, e, here, i, tl.load(view.own_width + row))
        begin = tl.load(first_of + tl.load(start + (row - first_row)))
        uniform = gibbs.uniform_draw(seed, row, e - begin, sweep, purpose)
        low, high = (low - mean).to(tl.float64), (high - mean).to(tl.float64)
        drawn = normal.truncated_draw(low, high, uniform).to(tl.float32)
        found = drawn + (mean - offset)
        if weight is not None:
            _, _, pull = normal.edge_densities(low, high)
            expected, w = pull.to(tl.float32), tl.load(weight + e, mask=here, other=0.0)
            found = w * (expected + (mean - offset)) + tl.sqrt(w) * (drawn - expected)
        tl.store(at + (e - base), found, mask=here)


def _systems(part: _Part, view: _View, utility: torch.Tensor, shape: _Shape) -> torch.Tensor:
    """(pieces, ...) what the answers of each piece add to its row's system."""
    systems = utility.new_empty((part.pieces.n, shape.system))
    if part.pieces.n:
        grid = (part.pieces.n, shape.n_blocks * (shape.n_blocks + 1) // 2)
        table = view.features, view.features.shape[1], part.weight
        given = view.column, *table, utility, systems, shape.system
        _add_answers[grid](*part.pieces[1:3], part.first, *given, shape.lines, shape.n_blocks, num_warps=1)
    return systems


@triton.jit(do_not_specialize=["first_of", "stop_of", "base"])
def _add_answers(
    first_of,
    stop_of,
    base,
    column,
    features,
    width,
    weight,
    utility,
    systems,
    size,
    lines: tl.constexpr,
    n_blocks: tl.constexpr,
):
    """Squares of a piece's features in one block of the lower triangle, and its sums."""
    piece = tl.program_id(0).to(tl.int64)
    first, stop = tl.load(first_of + piece), tl.load(stop_of + piece)
    q, p = _in_triangle(tl.program_id(1), n_blocks)
    a, b = q * lines + tl.arange(0, lines), p * lines + tl.arange(0, lines)
    squares = tl.zeros((lines, lines), dtype=tl.float32)
    sums = tl.zeros((_ANSWERS, lines), dtype=tl.float32)
    drawn = tl.zeros((_ANSWERS, lines), dtype=tl.float32)
    total = tl.zeros((_ANSWERS,), dtype=tl.float32)
    number = tl.zeros((_ANSWERS,), dtype=tl.float32)
    for begin in range(first, stop, _ANSWERS):
        e = begin + tl.arange(0, _ANSWERS)
        here = e < stop
        place = tl.load(column + e, mask=here, other=0).to(tl.int64)[:, None] * width
        u = tl.load(utility + (e - base), mask=here, other=0.0)
        inside = here[:, None] & (a < width)[None, :]
        x = tl.load(features + place + a[None, :], mask=inside, other=0.0)
        y = x
        if n_blocks > 1:
            inside = here[:, None] & (b < width)[None, :]
            y = tl.load(features + place + b[None, :], mask=inside, other=0.0)
        drawn += u[:, None] * x
        total += u
        if weight is not None:
            w = tl.load(weight + e, mask=here, other=0.0)
            number += w
            x = w[:, None] * x
        squares = tl.dot(tl.trans(x), y, squares, input_precision=_PRECISION)
        sums += x
    n = lines * n_blocks
    out = systems + piece * size
    tl.store(out + a[:, None] * n + b[None, :], squares)
    out += n * n
    tl.store(out + a, tl.sum(sums, axis=0), mask=a == b)
    tl.store(out + n + a, tl.sum(drawn, axis=0), mask=a == b)
    if weight is None:
        tl.store(out + 2 * n, (stop - first).to(tl.float32))
    else:
        tl.store(out + 2 * n, tl.sum(number))
    tl.store(out + 2 * n + 1, tl.sum(total))


@triton.jit
def _in_triangle(place, n_blocks: tl.constexpr):
    """Line and column of a block, blocks of a lower triangle being counted line by line."""
    line = place * 0
    for n in tl.static_range(1, n_blocks):
        line += tl.where(place >= n * (n + 1) // 2, 1, 0)
    return line, place - line * (line + 1) // 2


@triton.jit(do_not_specialize=[*_SIZES, *_OF_DRAWS])
def _draw_gaussians(
    start,
    systems,
    size,
    prior,
    right,
    work,
    work_size,
    factors,
    n_factors,
    first_row,
    seed,
    sweep,
    purpose,
    lines: tl.constexpr,
    n_blocks: tl.constexpr,
):
    """Draw a row's bias and factors, given what its pieces add to its system.

    The bias is eliminated first, by itself. The rest has a Cholesky factor in blocks, of which
    those on the diagonal are kept as their inverses: products take the place of substitutions.
    """
    place = tl.program_id(0).to(tl.int64)
    first, stop, row = tl.load(start + place), tl.load(start + place + 1), place + first_row
    n, k = lines * n_blocks, tl.arange(0, lines)
    matrix = work + place * work_size
    beside, solution = matrix + n * n, matrix + n * n + n
    own_right = right + row * (1 + n_factors)
    root, bias = _eliminate_bias(
        systems + n * n, first, stop, size, prior, own_right, n_factors, beside, solution, n, k, n_blocks
    )
    _eliminate_factors(systems, first, stop, size, prior, n_factors, matrix, beside, solution, n, k, n_blocks)
    own, bias = factors + row * (1 + n_factors), bias * _BEYOND
    for back in range(n_blocks):
        p = n_blocks - 1 - back
        a = k + p * lines
        value = tl.load(solution + a) * _BEYOND
        value += _noise(seed, row, 1 + a, a < n_factors, sweep, purpose)
        if n_blocks > 1:
            for q in range(p + 1, n_blocks):
                found = tl.load(solution + k + q * lines)[:, None]
                value -= tl.sum(tl.load(_places(matrix, n, q, p, k)) * found, axis=0)
        found = tl.sum(tl.load(_places(matrix, n, p, p, k)) * value[:, None], axis=0)
        _store(solution + a, found)
        before = tl.load(own + 1 + a, mask=a < n_factors, other=0.0)
        tl.store(own + 1 + a, found - before * _OVERRELAXED, mask=a < n_factors)
        bias -= tl.sum(tl.load(beside + a) * found)
    bias += tl.sum(_noise(seed, row, k, k < 1, sweep, purpose))
    tl.store(own, bias / root - tl.load(own) * _OVERRELAXED)


@triton.jit
def _eliminate_bias(
    sums, first, stop, size, prior, right, n_factors, beside, solution, n, k, n_blocks: tl.constexpr
):
    """Root of the bias' precision and its first solution; the factor's line, the rest of right."""
    lines: tl.constexpr = k.shape[0]
    scalars = _sum_vectors(sums + 2 * n, first, stop, size, k, k < 2)
    root = tl.sqrt(tl.load(prior) + tl.sum(tl.where(k == 0, scalars, 0.0)))
    bias = (tl.load(right) + tl.sum(tl.where(k == 1, scalars, 0.0))) / root
    for p in range(n_blocks):
        a = k + p * lines
        inside = a < n_factors
        line = tl.load(prior + 1 + a, mask=inside, other=0.0)
        line = (line + _sum_vectors(sums, first, stop, size, a, inside)) / root
        value = tl.load(right + 1 + a, mask=inside, other=0.0)
        value += _sum_vectors(sums + n, first, stop, size, a, inside)
        tl.store(beside + a, line)
        _store(solution + a, value - line * bias)
    return root, bias


@triton.jit
def _eliminate_factors(
    systems, first, stop, size, prior, n_factors, matrix, beside, solution, n, k, n_blocks: tl.constexpr
):
    """The factor of a row's system, block by block, and the first solution of its factors."""
    lines: tl.constexpr = k.shape[0]
    for p in range(n_blocks):
        for q in range(p, n_blocks):
            block = _block_of(systems, first, stop, size, prior, n_factors, beside, n, q, p, k)
            if n_blocks > 1:
                block = _less_products(block, matrix, n, q, p, k)
            _store(_places(matrix, n, q, p, k), block)
        inverse = _inverse_factor(tl.load(_places(matrix, n, p, p, k)), k)
        value = tl.sum(inverse * tl.load(solution + k + p * lines)[None, :], axis=1)
        _store(_places(matrix, n, p, p, k), inverse)
        _store(solution + k + p * lines, value)
        if n_blocks > 1:
            for q in range(p + 1, n_blocks):
                block = _product(matrix, n, q, p, p, p, k)
                value = tl.sum(block * tl.load(solution + k + p * lines)[None, :], axis=1)
                _store(_places(matrix, n, q, p, k), block)
                _store(solution + k + q * lines, tl.load(solution + k + q * lines) - value)


@triton.jit
def _sum_vectors(vectors, first, stop, size, a, inside):
    """A vector, summed over the pieces of a row."""
    total = tl.zeros((_TOGETHER, a.shape[0]), dtype=tl.float32)
    for piece in range(first, stop, _TOGETHER):
        some = piece + tl.arange(0, _TOGETHER)
        exists = (some < stop)[:, None] & inside[None, :]
        total += tl.load(vectors + some[:, None] * size + a[None, :], mask=exists, other=0.0)
    return tl.sum(total, axis=0)


@triton.jit
def _block_of(systems, first, stop, size, prior, n_factors, beside, n, q, p, k):
    """A block of a row's system, less what the bias explains; where factors end it is the unit."""
    lines: tl.constexpr = k.shape[0]
    a, b = (k + q * lines)[:, None], (k + p * lines)[None, :]
    inside = (a < n_factors) & (b < n_factors)
    place = prior + (1 + a) * (1 + n_factors) + 1 + b
    block = tl.load(place, mask=inside, other=0.0) + tl.where(inside | (a != b), 0.0, 1.0)
    for piece in range(first, stop):
        block += tl.load(systems + piece * size + a * n + b)
    return block - tl.load(beside + a) * tl.load(beside + b)


@triton.jit
def _less_products(block, matrix, n, q, p, k):
    """A block of a row's system, less what the factors before explain."""
    for c in range(p):
        block -= _product(matrix, n, q, c, p, c, k)
    return block


@triton.jit
def _product(matrix, n, q, p, other_q, other_p, k):
    """A block of a matrix times the transpose of another."""
    left = tl.load(_places(matrix, n, q, p, k))
    right = tl.load(_places(matrix, n, other_q, other_p, k))
    return tl.dot(left, tl.trans(right), input_precision=_PRECISION)


@triton.jit
def _inverse_factor(block, k):
    """Inverse of the Cholesky factor of a block: elimination without pivoting, in place.

    Columns that a step has made zero hold those of the inverse, and zeros above the diagonal.
    """
    lines: tl.constexpr = k.shape[0]
    r, c = k[:, None], k[None, :]
    pivots = tl.zeros((lines,), dtype=tl.float32)
    for j in range(lines):
        line = tl.sum(tl.where(r == j, block, 0.0), axis=0)
        pivot = tl.sum(tl.where(k == j, line, 0.0))
        pivots = tl.where(k == j, pivot, pivots)
        # Of each line below; the column is the line, since what is left is symmetric.
        share = tl.where(k > j, line / pivot, 0.0)[:, None]
        block = tl.where(c == j, 0.0, block) - share * tl.where(k == j, 1.0, line)[None, :]
    root = (1.0 / tl.sqrt(pivots))[:, None]
    return tl.where(r == c, root, block * root)


@triton.jit
def _places(matrix, n, q, p, k):
    lines: tl.constexpr = k.shape[0]
    return matrix + (k + q * lines)[:, None] * n + (k + p * lines)[None, :]


@triton.jit
def _store(place, value):
    """Store what other threads have read, and will read."""
    tl.debug_barrier()
    tl.store(place, value)
    tl.debug_barrier()


@triton.jit
def _noise(seed, row, position, wanted, sweep, purpose):
    """Noise of a draw that is overrelaxed: see the cores' engine."""
    uniform = gibbs.uniform_draw(seed, row, position, sweep, purpose)
    return tl.where(wanted, normal.standard_normal(uniform).to(tl.float32) * _NOISE_LEFT, 0.0)


# ---- widths -----------------------------------------------------------------------------------


def _width_sums(part: _Part, view: _View, at: torch.Tensor, log_width: torch.Tensor) -> torch.Tensor:
    """(rows, 3) log probability of the answers, its slope by log widths, squares of slopes."""
    partial = log_width.new_empty((part.pieces.n, 3))
    _launch(_sum_widths, part, view, at, part.weight, log_width, partial, part.rows.start)
    return summed(partial, part.pieces)


@triton.jit(do_not_specialize=[*OF_BATCH, "first_row"])
def _sum_widths(row_of, first_of, stop_of, base, view, at, weight, log_width, partial, first_row):
    row, e, here, i = of_piece(row_of, first_of, stop_of, view.column)
    mean, _ = _means_of(view, row, e, base, here, i, at)
    own = tl.exp(tl.load(log_width + (row - first_row))).to(tl.float32)
    _, _, lower, upper = _bounds_of(view, row, e, here, i, own)
    log_mass, at_low, at_high = _measure(lower - mean, upper - mean)
    along = tl.where(upper < float("inf"), at_high * upper, 0.0)
    along -= tl.where(lower > float("-inf"), at_low * lower, 0.0)
    along, log_mass = tl.where(here, along, 0.0), tl.where(here, log_mass, 0.0)
    squares = along * along
    if weight is not None:
        w = tl.load(weight + e, mask=here, other=0.0)
        along, log_mass, squares = w * along, w * log_mass, w * squares
    out = partial + tl.program_id(0).to(tl.int64) * 3
    tl.store(out, tl.sum(log_mass))
    tl.store(out + 1, tl.sum(along))
    tl.store(out + 2, tl.sum(squares))


@triton.jit
def _measure(low, high):
    """Log masses of intervals, and densities at their ends."""
    low, high = low.to(tl.float64), high.to(tl.float64)
    at_low, at_high, _ = normal.edge_densities(low, high)
    return normal.log_mass(low, high), at_low, at_high


@triton.jit(do_not_specialize=[*_OF_DRAWS, "n_rows"])
def _propose(at_here, here, there, n_rows, precision, first_row, seed, sweep, purpose):
    """Half of Newton's step, and noise of the posterior's size."""
    row = tl.program_id(0).to(tl.int64) * _ROWS + tl.arange(0, _ROWS)
    inside = row < n_rows
    width = tl.load(here + row, mask=inside, other=0.0)
    _, step, narrow = _step(at_here, row, inside, width, precision)
    choice = gibbs.uniform_draw(seed, row + first_row, row * 0, sweep, purpose)
    noise = normal.standard_normal(choice) / tl.sqrt(narrow)
    tl.store(there + row, width + step + noise, mask=inside)


@triton.jit(do_not_specialize=[*_OF_DRAWS, "n_rows"])
def _accept(
    at_here, at_there, widths, taken, here, there, n_rows, precision, first_row, seed, sweep, purpose
):
    """Metropolis' rule: take proposals, in place, and say which."""
    row = tl.program_id(0).to(tl.int64) * _ROWS + tl.arange(0, _ROWS)
    inside = row < n_rows
    old = tl.load(here + row, mask=inside, other=0.0)
    new = tl.load(there + row, mask=inside, other=0.0)
    total, forward, narrow = _step(at_here, row, inside, old, precision)
    total_there, backward, narrow_there = _step(at_there, row, inside, new, precision)
    away, back = new - old - forward, old - new - backward
    log_ratio = total_there - total
    log_ratio += 0.5 * (tl.log(narrow_there) - narrow_there * back * back)
    log_ratio -= 0.5 * (tl.log(narrow) - narrow * away * away)
    chance = gibbs.uniform_draw(seed, row + first_row, row * 0 + 1, sweep, purpose)
    is_taken = tl.log(chance) < log_ratio
    tl.store(widths + first_row + row, tl.exp(new).to(tl.float32), mask=inside & is_taken)
    tl.store(taken + first_row + row, is_taken, mask=inside)


@triton.jit
def _step(sums, row, inside, log_width, precision):
    """Log posterior at a log width, half of Newton's step from there, and how narrow it is."""
    total = tl.load(sums + 3 * row, mask=inside, other=0.0)
    slope = tl.load(sums + 3 * row + 1, mask=inside, other=0.0)
    narrow = precision + tl.load(sums + 3 * row + 2, mask=inside, other=0.0)
    total -= 0.5 * precision * log_width * log_width
    return total, 0.5 * (slope - precision * log_width) / narrow, narrow


# ---- thresholds -------------------------------------------------------------------------------


@triton.jit(do_not_specialize=OF_BATCH)
def _sum_thresholds(row_of, first_of, stop_of, base, view, at, weight, partial):
    """Of a piece: log probability; slopes by thresholds, their squares, products with the next."""
    row, e, here, i = of_piece(row_of, first_of, stop_of, view.column)
    mean, _ = _means_of(view, row, e, base, here, i, at)
    level, width, low, high = _bounds_of(view, row, e, here, i, tl.load(view.own_width + row))
    n_bounds = view.n_bounds
    log_mass, below, above = _measure(low - mean, high - mean)
    below, above = tl.where(here, width * below, 0.0), tl.where(here, width * above, 0.0)
    log_mass, root = tl.where(here, log_mass, 0.0), tl.where(here, 1.0, 0.0).to(tl.float64)
    if weight is not None:
        w = tl.load(weight + e, mask=here, other=0.0).to(tl.float64)
        root, log_mass = tl.sqrt(w), w * log_mass
        below, above = root * below, root * above
    out = partial + tl.program_id(0).to(tl.int64) * (1 + 3 * n_bounds)
    tl.store(out, tl.sum(log_mass))
    for m in range(n_bounds):
        lower, upper = tl.where(level == m, below, 0.0), tl.where(level + 1 == m, above, 0.0)
        tl.store(out + 1 + m, tl.sum(root * (upper - lower)))
        tl.store(out + 1 + n_bounds + m, tl.sum(upper * upper + lower * lower))
        tl.store(out + 1 + 2 * n_bounds + m, -tl.sum(lower * above))

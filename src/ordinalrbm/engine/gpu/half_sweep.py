"""The half-sweep of Gaussian factors on a GPU: :mod:`ordinalrbm.engine.half_sweep` in stages.

A sweep reads the features of every answer's column five times (nine when gaps move) and next to
nothing else, so that it is bound by how fast they come out of the cache or the memory. What an
answer needs beside, its place between two thresholds, is computed by kernels of their own, one
answer per thread.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from scipy.sparse import csr_array

from ordinalrbm.engine import thresholds
from ordinalrbm.engine.base import LARGEST_MOVE, LEAST_PIVOT, FactorPosterior, HalfSweepEngine
from ordinalrbm.engine.gpu import normal
from ordinalrbm.engine.gpu.device import working_on
from ordinalrbm.engine.gpu.pieces import Answers, of_piece, summed, sums_over_bins, with_offsets
from ordinalrbm.engine.gpu.tables import padded, products, shape, squares_times, sums

# Numbers of features that a program looks at together, when it keeps three sums of them; answers
# and numbers of each, for sums along features.
_TILE, _ENTRIES, _NUMBERS = 2048, tl.constexpr(64), tl.constexpr(32)
# Rows whose gaps one program solves for.
_ROWS = tl.constexpr(64)
_LEAST_PIVOT = tl.constexpr(LEAST_PIVOT)


class GpuEngine(HalfSweepEngine):
    """Half-sweeps on a GPU: arrays are torch's, kernels are Triton's."""

    library = torch

    def half_sweep(self, answers, this, other, prior, spread=True):
        with working_on(this.mean.device):
            return self.staged_half_sweep(answers, this, facing(other), prior, spread)

    def array(self, values, like):
        return torch.from_numpy(np.ascontiguousarray(values)).to(like.device, non_blocking=True)

    def host(self, values):
        return values.cpu().numpy()

    def gather(self, answers, this, other):
        seen, pieces = facing(other), answers.pieces
        view, at = _view(answers, this, seen), _products(answers, seen, this.mean)
        partial = at.new_empty((pieces.n, 3 * view.width))
        if pieces.n:
            _set_pulls[(pieces.n,)](*pieces[:3], view, at)
            given = view, at, answers.weight, partial
            _gather[(pieces.n,)](*pieces[1:3], *given, *shape(view.width, _TILE))
        found = summed(partial, pieces).split(view.width, dim=1)
        slope, ridge, squares = (part[:, : this.mean.shape[1]].contiguous() for part in found)
        return torch.stack((slope - ridge * this.mean, squares + ridge), dim=1), ridge

    def bin_pulls(self, answers, this, other, bins):
        with working_on(this.mean.device):
            seen, pieces = facing(other), answers.pieces
            view, at = _view(answers, this, seen), _products(answers, seen, this.mean)
            if pieces.n:
                _set_pulls[(pieces.n,)](*pieces[:3], view, at)
            return sums_over_bins(at if answers.weight is None else at * answers.weight, bins)

    def with_offsets(self, answers, level, bin_of):
        return with_offsets(answers, level, bin_of)

    def apply(self, answers, other, ridge, direction):
        given = facing(other).features, direction, answers.weight
        image = squares_times(answers.pieces, answers.column, *given)
        return image[:, : direction.shape[1]] + ridge * direction

    def gap_sums(self, answers, this, other, rows):
        answers, seen = answers.of_rows(rows), facing(other)
        pieces, view, at = answers.pieces, _view(answers, this, seen), _products(answers, seen, this.mean)
        doubt = torch.empty_like(at)
        n_groups = thresholds.moving_gaps(view.n_cutpoints).size - 1
        partial = torch.zeros((pieces.n, n_groups**2), dtype=torch.float64, device=at.device)
        if pieces.n:
            _set_doubts[(pieces.n,)](*pieces[:3], view, this.mean, this.variance, this.mean.shape[1], doubt)
            _sum_gaps[(pieces.n,)](*pieces[:3], view, at, doubt, answers.weight, partial, n_groups)
        return summed(partial, pieces).view(-1, n_groups, n_groups)

    def move_gaps(self, this, prior, system, rows):
        cutpoints, gaps = this.cutpoints[rows], this.gaps[rows]
        first = thresholds.moving_gaps(cutpoints.shape[1])
        members = self.array(np.repeat(np.arange(first.size - 2), np.diff(first[1:])), system)
        precision = self.array(prior.cutpoints_precision, system)[1:]
        pull = precision * (prior.cutpoints[rows] - cutpoints)[:, 1:]
        system[:, 1:, 0] += _means_of_groups(pull, members)
        system.diagonal(dim1=1, dim2=2)[:, 1:] += _means_of_groups(precision[None], members)[0]
        variance_of_groups = torch.zeros(system.shape[:2], dtype=system.dtype, device=system.device)
        grid = (triton.cdiv(len(cutpoints), _ROWS.value),)
        _newton[grid](system, variance_of_groups, len(cutpoints), system.shape[1])
        moves = system[:, 1:, 0].clamp(-LARGEST_MOVE, LARGEST_MOVE)
        cutpoints[:, 1:] += moves[:, members]
        gaps[:, 1:] = torch.exp(cutpoints[:, 1:])
        variance = torch.zeros_like(cutpoints)
        variance[:, 1:] = variance_of_groups[:, 1:][:, members]
        return variance

    def rated_sums_here(self, answers, table, weighted):
        """Numbers of the table are read as float16, which is what the time of a sum goes by.

        They keep three digits: those of a column are scaled to where float16 has most numbers, by a
        power of two, so that they are rounded alike whatever is beside them.
        """
        if not len(table):
            return table.new_zeros((answers.pieces.start.numel() - 1, table.shape[1]))
        size = torch.exp2(torch.ceil(torch.log2(table.abs().amax(0).clamp_min(1e-30))))
        weight = answers.weight if weighted else None
        found = sums(answers.pieces, 0, answers.column, padded((table / size).half()), weight)
        return found[:, : table.shape[1]] * size

    def rated_products_here(self, answers, table, of_rows):
        found = squares_times(answers.pieces, answers.column, padded(table), of_rows, answers.weight)
        return found[:, : table.shape[1]].contiguous()

    def feature_table(self, table, like):
        return Table(_sparse(table, like), _sparse(csr_array(table.T), like))


GPU_ENGINE = GpuEngine()


class KnownColumns(NamedTuple):
    """What rows see of the columns, ready for all stages of a half-sweep.

    Features and their variances are in tables. The other's bias is no feature: a row's own bias has
    a one in its place.
    """

    features: torch.Tensor
    variance: torch.Tensor
    bias: torch.Tensor
    bias_variance: torch.Tensor
    gaps: torch.Tensor
    n_levels: torch.Tensor


def facing(other: FactorPosterior | KnownColumns) -> KnownColumns:
    """What rows face; the same if it is ready."""
    if isinstance(other, KnownColumns):
        return other
    features, variance = padded(other.mean).clone(), padded(other.variance).clone()
    features[:, 0], variance[:, 0] = 1.0, 0.0
    bias, bias_variance = (part[:, 0].contiguous() for part in other[:2])
    return KnownColumns(features, variance, bias, bias_variance, other.gaps, other.n_levels)


class _View(NamedTuple):
    column: torch.Tensor
    level: torch.Tensor
    gaps: torch.Tensor  # of rows
    n_cutpoints: int
    n_levels: torch.Tensor
    width: int  # of the tables
    features: torch.Tensor
    variance: torch.Tensor
    bias: torch.Tensor
    bias_variance: torch.Tensor
    other_gaps: torch.Tensor
    other_n_levels: torch.Tensor


def _view(answers: Answers, this: FactorPosterior, seen: KnownColumns) -> _View:
    own = this.gaps, this.gaps.shape[1], this.n_levels
    return _View(answers.column, answers.level, *own, seen.features.shape[1], *seen)


# ---- bias and factors -------------------------------------------------------------------------


def _products(answers: Answers, seen: KnownColumns, vectors: torch.Tensor) -> torch.Tensor:
    n_entries = answers.column.numel()
    found = products(answers.pieces, 0, answers.column, seen.features, vectors, n_entries)
    return found if answers.offset is None else found.add_(answers.offset)


@triton.jit
def _gather(first_of, stop_of, view, pull, weight, partial, tile: tl.constexpr, block: tl.constexpr):
    """Sums of a piece: pull times feature, variance of the feature, its square."""
    piece = tl.program_id(0)
    first, stop = tl.load(first_of + piece), tl.load(stop_of + piece)
    a, width = tl.arange(0, block), view.width
    slope = tl.zeros((tile, block), dtype=tl.float32)
    ridge = tl.zeros((tile, block), dtype=tl.float32)
    diagonal = tl.zeros((tile, block), dtype=tl.float32)
    for begin in range(first, stop, tile):
        e = begin + tl.arange(0, tile)
        i = tl.load(view.column + e, mask=e < stop, other=0).to(tl.int64)
        p = tl.load(pull + e, mask=e < stop, other=0.0)[:, None]
        inside = (e < stop)[:, None] & (a < width)[None, :]
        place = i[:, None] * width + a[None, :]
        q = tl.load(view.features + place, mask=inside, other=0.0)
        v = tl.load(view.variance + place, mask=inside, other=0.0)
        if weight is None:
            slope += p * q
            ridge += v
            diagonal += q * q
        else:
            w = tl.load(weight + e, mask=e < stop, other=0.0)[:, None]
            slope += w * p * q
            ridge += w * v
            diagonal += w * q * q
    out = partial + piece.to(tl.int64) * 3 * width + a
    tl.store(out, tl.sum(slope, axis=0), mask=a < width)
    tl.store(out + width, tl.sum(ridge, axis=0), mask=a < width)
    tl.store(out + 2 * width, tl.sum(diagonal, axis=0), mask=a < width)


class Table(NamedTuple):
    """Features of rows, sparse, as they are and transposed."""

    by_rows: torch.Tensor
    by_features: torch.Tensor


def _sparse(table: csr_array, like: torch.Tensor) -> torch.Tensor:
    parts = (table.indptr.astype(np.int64), table.indices.astype(np.int64), table.data)
    there = (torch.from_numpy(part).to(like.device) for part in parts)
    with warnings.catch_warnings():
        # Releases of torch warn of different things here: that CSR is in beta, that it is unchecked.
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(*there, size=table.shape, dtype=like.dtype)


# ---- bounds of levels -------------------------------------------------------------------------


@triton.jit
def _at_answers(row_of, first_of, stop_of, view, at):
    """Answers of a piece: row, places, which exist, columns, levels, means, bounds of levels."""
    row, e, here, i = of_piece(row_of, first_of, stop_of, view.column)
    answer = tl.load(view.level + e, mask=here, other=0).to(tl.int32)
    mean = tl.load(at + e, mask=here, other=0.0) + tl.load(view.bias + i, mask=here, other=0.0)
    own, others = view.gaps + row * view.n_cutpoints, view.other_gaps + i * view.n_cutpoints
    bound = tl.load(own) + tl.load(others, mask=here, other=0.0)
    low = tl.where(answer == 0, float("-inf"), bound)
    high = bound
    for m in range(1, view.n_cutpoints):
        low = tl.where(answer == m, bound, low)
        bound += tl.load(own + m) * tl.load(others + m, mask=here, other=0.0)
        high = tl.where(answer == m, bound, high)
    low = tl.where(answer == view.n_cutpoints, bound, low)
    most = tl.minimum(tl.load(view.n_levels + row), tl.load(view.other_n_levels + i, mask=here, other=2))
    high = tl.where(answer == most - 1, float("inf"), high)
    return row, e, here, i, answer, mean.to(tl.float64), low, high


@triton.jit
def _set_pulls(row_of, first_of, stop_of, view, at):
    """How far the expected utility of every answer is from its mean, in place of products."""
    _, e, here, _, _, mean, low, high = _at_answers(row_of, first_of, stop_of, view, at)
    _, _, pull = normal.edge_densities(low - mean, high - mean)
    tl.store(at + e, pull.to(tl.float32), mask=here)


# ---- gaps -------------------------------------------------------------------------------------


def _means_of_groups(values: torch.Tensor, members: torch.Tensor) -> torch.Tensor:
    n_groups = int(members[-1]) + 1 if members.numel() else 0
    if n_groups == values.shape[1]:
        return values
    total = values.new_zeros(len(values), n_groups).index_add_(1, members, values)
    return total / torch.bincount(members, minlength=n_groups)


@triton.jit
def _set_doubts(row_of, first_of, stop_of, view, mean, variance, n_mean, doubt):
    """Variance of the mean of every answer, but for what the other's bias adds."""
    piece = tl.program_id(0)
    row = tl.load(row_of + piece).to(tl.int64)
    first, stop, width = tl.load(first_of + piece), tl.load(stop_of + piece), view.width
    for begin in range(first, stop, _ENTRIES):
        e = begin + tl.arange(0, _ENTRIES)
        here = e < stop
        place = tl.load(view.column + e, mask=here, other=0).to(tl.int64)[:, None] * width
        total = tl.zeros((_ENTRIES, _NUMBERS), dtype=tl.float32)
        for start in range(0, width, _NUMBERS):
            a = start + tl.arange(0, _NUMBERS)
            x = tl.load(mean + row * n_mean + a, mask=a < n_mean, other=0.0)[None, :]
            own = tl.load(variance + row * n_mean + a, mask=a < n_mean, other=0.0)[None, :]
            inside = here[:, None] & (a < width)[None, :]
            q = tl.load(view.features + place + a[None, :], mask=inside, other=0.0)
            v = tl.load(view.variance + place + a[None, :], mask=inside, other=0.0)
            total += own * (q * q + v) + x * x * v
        tl.store(doubt + e, tl.sum(total, axis=1), mask=here)


@triton.jit
def _sum_gaps(row_of, first_of, stop_of, view, at, doubt, weight, partial, n_groups):
    """A piece's slope and curvature by the log gaps; see the CPU engine."""
    row, e, here, i, answer, mean, low, high = _at_answers(row_of, first_of, stop_of, view, at)
    unknown = tl.load(doubt + e, mask=here, other=0.0)
    unknown += tl.load(view.bias_variance + i, mask=here, other=0.0)
    scale = 1.0 / tl.sqrt(1.0 + unknown.to(tl.float64))
    low, high = (low - mean) * scale, (high - mean) * scale
    at_low, at_high, _ = normal.edge_densities(low, high)
    is_last = high == float("inf")
    at_low = tl.where(answer > 0, at_low, 0.0)
    at_high = tl.where(is_last, 0.0, at_high)
    curved_low = tl.where(answer > 0, at_low * (at_low - low), 0.0)
    curved_high = tl.where(is_last, 0.0, at_high * (at_high + high))
    both = at_low * at_high
    if weight is not None:
        w = tl.load(weight + e, mask=here, other=0.0).to(tl.float64)
        at_low, at_high, both = w * at_low, w * at_high, w * both
        curved_low, curved_high = w * curved_low, w * curved_high
    n_cutpoints = view.n_cutpoints
    own, others = view.gaps + row * n_cutpoints, view.other_gaps + i * n_cutpoints
    out = partial + tl.program_id(0).to(tl.int64) * n_groups * n_groups
    for g in range(1, n_groups):
        below, above = _widths(own, others, here, answer, scale, is_last, g, n_cutpoints, n_groups)
        tl.store(out + g * n_groups, tl.sum(at_high * above - at_low * below))
        for c in range(1, g + 1):
            other_below, other_above = _widths(
                own, others, here, answer, scale, is_last, c, n_cutpoints, n_groups
            )
            curved = curved_low * below * other_below + curved_high * above * other_above
            curved -= both * (below * other_above + above * other_below)
            tl.store(out + g * n_groups + c, tl.sum(curved))


@triton.jit
def _widths(own, others, here, answer, scale, is_last, g, n_cutpoints, n_groups):
    """By how much both bounds of a level move with gaps that move together.

    A bound moves with every gap below it. Where groups begin:
    :func:`ordinalrbm.engine.thresholds.moving_gaps`.
    """
    first = 1 + ((g - 1) * (n_cutpoints - 1) + n_groups - 2) // (n_groups - 1)
    stop = 1 + (g * (n_cutpoints - 1) + n_groups - 2) // (n_groups - 1)
    below, above = tl.zeros_like(scale), tl.zeros_like(scale)
    for m in range(first, stop):
        wide = scale * tl.load(own + m) * tl.load(others + m, mask=here, other=0.0)
        below += tl.where(here & (m < answer), wide, 0.0)
        above += tl.where(here & (m <= answer) & (is_last == 0), wide, 0.0)
    return below, above


@triton.jit
def _newton(system, variance, n_rows, n_groups):
    """Solve each row's small system by Cholesky's method, a row per thread; it is used up.

    As the CPU engine does it, with row 0 as working memory; slopes in column 0 become moves.
    """
    row = (tl.program_id(0) * _ROWS + tl.arange(0, _ROWS)).to(tl.int64)
    here = row < n_rows
    at = system + row * n_groups * n_groups
    for a in range(1, n_groups):
        of_a = at + a * n_groups
        for c in range(1, a + 1):
            of_c = at + c * n_groups
            rest = _number(of_a + c, here)
            for k in range(1, c):
                rest -= _number(of_a + k, here) * _number(of_c + k, here)
            if a == c:
                rest = tl.sqrt(tl.maximum(rest, _LEAST_PIVOT))
            else:
                rest = rest / _number(of_c + c, here)
            tl.store(of_a + c, rest, mask=here)
    for a in range(1, n_groups):
        of_a = at + a * n_groups
        slope = _number(of_a, here)
        for c in range(1, a):
            slope -= _number(of_a + c, here) * _number(at + c * n_groups, here)
        tl.store(of_a, slope / _number(of_a + a, here), mask=here)
    for back in range(1, n_groups):
        a = n_groups - back
        of_a = at + a * n_groups
        slope = _number(of_a, here)
        for c in range(a + 1, n_groups):
            of_c = at + c * n_groups
            slope -= _number(of_c + a, here) * _number(of_c, here)
        tl.store(of_a, slope / _number(of_a + a, here), mask=here)
    for b in range(1, n_groups):
        total = tl.zeros((_ROWS,), dtype=tl.float64)
        for a in range(b, n_groups):
            of_a = at + a * n_groups
            rest = tl.zeros((_ROWS,), dtype=tl.float64)
            if a == b:
                rest += 1.0
            for c in range(b, a):
                rest -= _number(of_a + c, here) * _number(at + c, here)
            rest = rest / _number(of_a + a, here)
            tl.store(at + a, rest, mask=here)
            total += rest * rest
        tl.store(variance + row * n_groups + b, total, mask=here)


@triton.jit
def _number(place, here):
    return tl.load(place, mask=here, other=1.0)

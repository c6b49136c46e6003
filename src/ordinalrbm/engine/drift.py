"""A bias of each row that drifts: a stationary AR(1) process over the row's answers in time.

A row's answers, in the order of time, are cut into bins of about eight. The utility of an answer has
the level of its bin on top, x_1 ~ N(0, v) and x_b ~ N(ρ x_{b−1}, (1 − ρ²) v). Given what the
utilities of each bin leave on average, the levels of a row are a state-space model: filtered
forwards, and drawn (or smoothed) backwards. All of it is done by the host; engines add offsets to
answers, and sum over bins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations, sort_together, starts
from ordinalrbm.engine.side import Array
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import allocating_kernel, compiled, inlined
from ordinalrbm.runtime.process_group import ALONE, Alone, Group, sums_over_ranks

# Answers of a bin. Fewer would follow a user's mood more closely, and know less of each.
SIZE = 8
# Where a drift begins: variance of a level, and correlation of neighbours.
FIRST_VARIANCE, FIRST_PERSISTENCE = 0.1, 0.95
# Correlations of neighbours that are looked at, all as likely as each other beforehand.
PERSISTENCES = 1.0 - np.geomspace(0.7, 0.003, 200)
# The standard deviation of levels is half-normal beforehand, with this variance, and may be next to
# nothing.
_LARGE_VARIANCE, _LEAST_VARIANCE = 0.25, 1e-4
# Of the prior of a trend, which all rows have in common, at each stage.
_TREND_PRECISION = 25.0


class Bins(NamedTuple):
    """Bins of answers: those of row d are ``start[d]:start[d + 1]``, in the order of time."""

    start: np.ndarray  # (rows + 1,) int64
    last: np.ndarray  # (bins,) int64, time of the last answer of each
    n_answers: np.ndarray  # (bins,) int64; sums of their weights, if they have any
    of_entry: np.ndarray  # (entries,) int32, the bin of each answer, by rows
    stage: np.ndarray  # (bins,) int64, how far it is from the row's first, in steps of √2

    @property
    def n(self) -> int:
        return self.last.size

    def at(self, rows: np.ndarray, time: np.ndarray) -> np.ndarray:
        """The bin of each row at a time, that of a later time is the last one; −1 if it has none."""
        return bins_at(self.start, self.last, rows, time)


class BinViews(NamedTuple):
    """Bins, and the bin of each answer as rows and as columns have them, where an engine is."""

    bins: Bins
    of_rows: Array
    of_columns: Array
    members: Array | None = None  # (bins, most answers) places of answers by rows, for a GPU

    @classmethod
    def of(cls, answers: Observations, time: np.ndarray) -> BinViews:
        bins = bins_of(answers.row_start, time)
        if answers.weight.size:
            bins = bins._replace(n_answers=np.bincount(bins.of_entry, answers.weight, minlength=bins.n))
        return cls(bins, bins.of_entry, bins.of_entry[answers.column_view.entry])


def members_of(bins: Bins) -> np.ndarray:
    """(bins, most answers) places of the answers of each bin, beyond the last where it has fewer."""
    order = np.argsort(bins.of_entry, kind="stable")
    own, counts = bins.of_entry[order], np.bincount(bins.of_entry, minlength=bins.n)
    found = np.full((bins.n, counts.max(initial=0)), own.size)
    found[own, np.arange(own.size) - starts(counts)[own]] = order
    return found


class Path(NamedTuple):
    """Levels of all bins, and what they have in common."""

    level: np.ndarray  # (bins,) float32
    trend: np.ndarray  # (stages,) what levels of a stage are expected to be
    persistence: float
    variance: float


NO_PATH = Path(np.zeros(0, dtype=np.float32), np.zeros(0), FIRST_PERSISTENCE, FIRST_VARIANCE)


def bins_of(row_start: np.ndarray, time: np.ndarray) -> Bins:
    n_answers = np.diff(row_start)
    n_bins = np.where(n_answers > 0, np.maximum((n_answers + SIZE // 2) // SIZE, 1), 0)
    start = starts(n_bins)
    of_entry = np.empty(time.size, dtype=np.int32)
    last = np.empty(start[-1], dtype=np.int64)
    over_rows(_fill_bins, n_answers.size, row_start, time, start, of_entry, last)
    number = np.arange(last.size) - np.repeat(start[:-1], n_bins)
    stage = np.floor(2.0 * np.log2(1.0 + number)).astype(np.int64)
    return Bins(start, last, np.bincount(of_entry, minlength=last.size), of_entry, stage)


def bins_at(start: np.ndarray, last: np.ndarray, rows: np.ndarray, time: np.ndarray) -> np.ndarray:
    """See :meth:`Bins.at`; rows at −1 have none."""
    found = np.empty(rows.size, dtype=np.int64)
    arguments = start, last, rows.astype(np.int64), np.ascontiguousarray(time), found
    over_rows(_search, rows.size, *arguments)
    return found


def first_path(bins: Bins, among: Alone | Group = ALONE) -> Path:
    """Levels of zero; the processes ``among`` which the rows are have stages in common."""
    last_stage = among.all_gather(np.array([bins.stage.max(initial=0)])).max()
    return NO_PATH._replace(level=np.zeros(bins.n, dtype=np.float32), trend=np.zeros(last_stage + 1))


def last_levels(start: np.ndarray, level: np.ndarray) -> np.ndarray:
    """(rows,) the last level of each row, zero of one without any; ``level`` may be a table."""
    has_any = np.diff(start) > 0
    found = np.zeros((*level.shape[:-1], has_any.size), dtype=level.dtype)
    found[..., has_any] = level[..., start[1:][has_any] - 1]
    return found


def drawn_path(bins: Bins, total: np.ndarray, path: Path, rng: np.random.Generator) -> Path:
    level, _, _ = _followed(bins, total, path, rng.standard_normal(bins.n))
    inside = _is_inside(bins.start, bins.n)
    products = level[inside] * level[np.flatnonzero(inside) - 1]
    sums = _Sums.of(np.square(level), products, inside)
    # Both together, as if nothing were known of the variance; then Metropolis' rule for its prior.
    persistence, variance = path.persistence, path.variance
    log_density = sums.log_densities() + rng.gumbel(size=PERSISTENCES.size)
    proposed = float(PERSISTENCES[log_density.argmax()])
    there = 0.5 * sums.scatter(proposed) / rng.gamma(0.5 * bins.n)
    log_ratio = 0.5 * np.log(there / variance) - 0.5 * (there - variance) / _LARGE_VARIANCE
    if there > _LEAST_VARIANCE and np.log(rng.random()) < log_ratio:
        persistence, variance = proposed, float(there)
    level, variance = _rescaled(bins, total - bins.n_answers * path.trend[bins.stage], level, variance, rng)
    trend, doubt = _trend(bins, total - bins.n_answers * level, path.trend.size)
    trend = trend + np.sqrt(doubt) * rng.standard_normal(trend.size)
    return Path((level + trend[bins.stage]).astype(np.float32), trend, persistence, variance)


def _rescaled(
    bins: Bins, around: np.ndarray, level: np.ndarray, variance: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Levels multiplied, with their standard deviation, by what utilities say of that (Yu and Meng 2011).

    The variance given the levels follows them slowly, as they do it.
    """
    precision = float(bins.n_answers @ np.square(level)) + variance / _LARGE_VARIANCE
    times = float(around @ level) / precision + rng.standard_normal() / np.sqrt(precision)
    if times**2 * variance < _LEAST_VARIANCE:
        return level, variance
    return times * level, times**2 * variance


def smoothed_path(
    bins: Bins, total: np.ndarray, path: Path, among: Alone | Group = ALONE
) -> tuple[Path, np.ndarray]:
    """Expected levels and their variances, and then the most likely of what they have in common.

    That is by the levels of all processes ``among`` which the rows are.
    """
    level, spread, beside = _followed(bins, total, path, np.zeros(0))
    inside = _is_inside(bins.start, bins.n)
    before = np.flatnonzero(inside) - 1
    sums = _Sums.of(np.square(level) + spread, level[inside] * level[before] + beside[before], inside)
    sums = _Sums(*sums_over_ranks(among, *sums))
    persistence = float(PERSISTENCES[sums.log_densities().argmax()])
    # Where the slope of the log posterior by the standard deviation is zero.
    root = np.sqrt(sums.n**2 + 4.0 * sums.scatter(persistence) / _LARGE_VARIANCE)
    variance = max(float(0.5 * _LARGE_VARIANCE * (root - sums.n)), _LEAST_VARIANCE)
    trend, _ = _trend(bins, total - bins.n_answers * level, path.trend.size, among)
    found = Path((level + trend[bins.stage]).astype(np.float32), trend, persistence, variance)
    return found, spread.astype(np.float32)


def _followed(
    bins: Bins, total: np.ndarray, path: Path, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levels around the trend, their variances, and covariances with the next; draws if there is noise."""
    level, spread, beside = np.zeros((3, bins.n))
    around = total - bins.n_answers * path.trend[bins.stage]
    process = path.persistence, path.variance
    arguments = bins.start, bins.n_answers, around, noise, *process, level, spread, beside
    over_rows(_follow, bins.start.size - 1, *arguments)
    return level, spread, beside


def _trend(
    bins: Bins, left: np.ndarray, n_stages: int, among: Alone | Group = ALONE
) -> tuple[np.ndarray, np.ndarray]:
    of_stages = (np.bincount(bins.stage, part, minlength=n_stages) for part in (bins.n_answers, left))
    n, total = sums_over_ranks(among, *of_stages)
    doubt = 1.0 / (n + _TREND_PRECISION)
    return doubt * total, doubt


def _is_inside(start: np.ndarray, n: int) -> np.ndarray:
    """(bins,) whether each has one before it."""
    inside = np.ones(n, dtype=bool)
    inside[start[:-1][np.diff(start) > 0]] = False
    return inside


class _Sums(NamedTuple):
    """Of levels: squares of the first ones, of later ones, and of those before these, and products."""

    n: int
    n_later: int
    first: float
    later: float
    before: float
    products: float

    @classmethod
    def of(cls, squares: np.ndarray, products: np.ndarray, inside: np.ndarray) -> _Sums:
        later = np.flatnonzero(inside)
        sums = squares[~inside].sum(), squares[later].sum(), squares[later - 1].sum(), products.sum()
        return cls(inside.size, later.size, *map(float, sums))

    def scatter(self, persistence: Array) -> Array:
        """Sum of squares of what is new in each level, in units of the variance."""
        left = self.later - 2.0 * persistence * self.products + persistence**2 * self.before
        return self.first + np.maximum(left, 0.0) / (1.0 - persistence**2)

    def log_densities(self) -> np.ndarray:
        """Of the levels, by each persistence; any variance is as likely as ten times that."""
        widths = self.n_later * np.log(1.0 - PERSISTENCES**2)
        return -0.5 * (widths + self.n * np.log(self.scatter(PERSISTENCES)))


@allocating_kernel
def _fill_bins(start, stop, row_start, time, bin_start, of_entry, last):
    for d in range(start, stop):
        first, n, n_bins = row_start[d], row_start[d + 1] - row_start[d], bin_start[d + 1] - bin_start[d]
        order, in_order = np.empty(n, dtype=np.int64), time[first : first + n].copy()
        for e in range(n):
            order[e] = e
        sort_together(in_order, order)
        for rank in range(n):
            place = bin_start[d] + rank * n_bins // n
            of_entry[first + order[rank]] = place
            last[place] = in_order[rank]


@compiled
def _search(first, end, start, last, rows, time, found):
    for k in range(first, end):
        found[k] = -1
        if rows[k] >= 0 and start[rows[k] + 1] > start[rows[k]]:
            first, stop = start[rows[k]], start[rows[k] + 1]
            found[k] = min(first + np.searchsorted(last[first:stop], time[k]), stop - 1)


@compiled
def _follow(first, end, start, count, total, noise, persistence, variance, level, spread, beside):
    for d in range(first, end):
        _follow_row(start[d], start[d + 1], count, total, noise, persistence, variance, level, spread, beside)


@inlined
def _follow_row(first, stop, count, total, noise, rho, variance, level, spread, beside):
    """Filter forwards; then draw backwards, or, without noise, smooth.

    Smoothing leaves in ``beside`` the covariance of each level with the next.
    """
    mean, doubt = 0.0, variance
    for b in range(first, stop):
        informed = 1.0 + count[b] * doubt
        level[b], spread[b] = (mean + doubt * total[b]) / informed, doubt / informed
        mean, doubt = rho * level[b], rho * rho * spread[b] + (1.0 - rho * rho) * variance
    for b in range(stop - 1, first - 1, -1):
        if b < stop - 1:
            ahead = rho * rho * spread[b] + (1.0 - rho * rho) * variance
            share, now = rho * spread[b] / ahead, spread[b]
            level[b] += share * (level[b + 1] - rho * level[b])
            spread[b] = now - share * share * ahead
            if noise.size == 0:
                beside[b] = share * spread[b + 1]
                spread[b] += share * share * spread[b + 1]
        if noise.size > 0:
            level[b] += np.sqrt(max(spread[b], 0.0)) * noise[b]

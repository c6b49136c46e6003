"""The paper's matrix model over all ratings, without mean-field: its draws, and log P(ratings).

With the utilities integrated out, factors h of all rows and g of all columns have the unnormalised
probability

    log P*(h, g) = Σ_d γ·h_d + Σ_i ξ·g_i + Σ_di μ_di²/2,     log P(v | h, g) = Σ_di log[Φ(b) − Φ(a)]

with the sums over the rated cells. Chains draw the rows' factors given the columns' and the other
way round, with the kernels that learn the model. Many chains at once are one matrix with as many
copies of the ratings along its diagonal.

Log-likelihoods are those of all ratings together, or of one side's given the other side's factors.

They are exact, by enumeration: given the factors of the columns, rows are independent, so that the sum
over all factors is one over the states of one side, of a product of small sums. Beyond that, by
annealed importance sampling (Neal 2001).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import annealing, gibbs, normal_reference
from ordinalrbm.engine.side import Batch
from ordinalrbm.errors import DataError
from ordinalrbm.matrix.model import Half, MatrixModel, column_side, row_side
from ordinalrbm.matrix.predict import bounds
from ordinalrbm.vector.likelihood import Estimate, log_mean, ratio

# Sweeps before draws are kept.
BURN_IN = 100
# Sweeps from fair coins to ratings that the model makes up.
FREE_STEPS = 500


class Factors(NamedTuple):
    """Drawn factors of rows and of columns, one byte each."""

    rows: np.ndarray
    columns: np.ndarray


def repeated(model: MatrixModel, observations: Observations, n: int) -> tuple[MatrixModel, Observations]:
    """Model and ratings n times along the diagonal of a larger matrix."""

    def columns(half: Half, n_rows: int) -> Half:
        wider = half.with_columns(lambda part: np.tile(part, (n, *(1,) * (part.ndim - 1))))
        return wider._replace(factors=np.full((n * n_rows, half.n_factors), 0.5, np.float32))

    copies = np.arange(n)
    starts = observations.row_start[:-1] + observations.n_entries * copies[:, None]
    column = observations.column + (observations.n_columns * copies[:, None]).astype(np.int32)
    n_levels = np.tile(observations.n_levels, n)
    wide = Observations(
        row_start=np.append(starts.reshape(-1), observations.n_entries * n),
        column=column.reshape(-1),
        level=np.tile(observations.level, n),
        n_levels=n_levels,
    )
    halves = (columns(model.by_rows, observations.n_rows), columns(model.by_columns, observations.n_columns))
    return MatrixModel(*halves, n_levels), wide


class Gibbs:
    """A chain over all factors, which are moved in place; if it is clamped, ratings are given."""

    def __init__(
        self, model: MatrixModel, observations: Observations, factors: Factors, seed: int, *, is_clamped: bool
    ) -> None:
        self.model, self.observations, self.factors = model, observations, factors
        self.transposed = observations.transpose()
        self.offset = np.empty(observations.n_entries, dtype=np.float32)
        self.seed, self.n_sweeps = seed, 0
        self.move = gibbs.clamped_sweep if is_clamped else gibbs.free_sweep

    def sweep(self, model: MatrixModel | None = None) -> None:
        model = model or self.model
        own, other = model.by_rows, model.by_columns
        held = other._replace(factors=self.factors.columns.astype(np.float32))
        side = row_side(model._replace(by_columns=held), self.observations, self.offset)
        self.move(side, self.factors.rows, Batch(0, side.n_rows, self.seed, self._counter(), 1))
        if not other.n_factors:
            return
        held = own._replace(factors=self.factors.rows.astype(np.float32))
        side = column_side(model._replace(by_rows=held), self.transposed, self.offset)
        self.move(side, self.factors.columns, Batch(0, side.n_rows, self.seed, self._counter(), 1))

    def _counter(self) -> int:
        self.n_sweeps += 1
        return self.n_sweeps


def shares(model: MatrixModel, observations: Observations, factors: Factors) -> np.ndarray:
    """Part of each rating's mean utility that the factors make, in float64."""
    row = observations.cells().row
    column = observations.column
    total = np.zeros(observations.n_entries)
    for half, drawn, of_weight, of_factor in (
        (model.by_rows, factors.rows, column, row),
        (model.by_columns, factors.columns, row, column),
    ):
        for k in range(half.n_factors):  # one factor after the other: no (ratings, K) table
            total += half.weights[of_weight, k].astype(np.float64) * drawn[of_factor, k]
    return total


def plain_means(model: MatrixModel, observations: Observations) -> np.ndarray:
    """Mean utility of each rating where no factor is on."""
    row = observations.cells().row
    bias = model.by_rows.bias.astype(np.float64)[observations.column]
    return bias + model.by_columns.bias.astype(np.float64)[row]


def _thresholds(model: MatrixModel, observations: Observations) -> Iterator[np.ndarray]:
    """Thresholds of each rating's own row and column, the lowest first; ∞ beyond its scale."""
    row = observations.cells().row
    column, n_levels = observations.column, observations.n_levels[observations.column]
    at = model.column_cutpoints[column, 0] + model.row_cutpoints[row, 0]
    for m in range(int(n_levels.max(initial=1)) - 1):
        if m:
            at = at + np.exp(model.column_cutpoints[column, m] + model.row_cutpoints[row, m])
        yield np.where(m < n_levels - 1, at, np.inf)


def sample_levels(model: MatrixModel, cells: Observations, seed: int, n_steps: int) -> np.ndarray:
    """Levels of all cells, drawn together from the model; those that the cells have do not count.

    The chain starts with fair coins.
    """
    rng = np.random.default_rng(seed)
    factors = random_factors(model, rng)
    chain = Gibbs(model, cells, factors, seed, is_clamped=False)
    for _ in range(n_steps):
        chain.sweep()
    utility = plain_means(model, cells) + shares(model, cells, factors)
    utility += rng.normal(size=utility.size)
    level = np.zeros(utility.size, dtype=cells.level.dtype)
    for at in _thresholds(model, cells):
        level += utility > at
    return level


def random_factors(model: MatrixModel, rng: np.random.Generator) -> Factors:
    return Factors(
        *(
            rng.integers(0, 2, size=half.factors.shape, dtype=np.uint8)
            for half in (model.by_rows, model.by_columns)
        )
    )


def chains(
    model: MatrixModel,
    observations: Observations,
    n_chains: int,
    n_draws: int,
    seed: int,
    rows: np.ndarray,
    columns: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(chain, draw, row, factor) and (chain, draw, column, factor) draws given the ratings.

    The first chain starts with every factor off, the second with every factor on, the others at
    random: chains that have met in spite of that have forgotten their start.
    """
    rng = np.random.default_rng(seed)
    wide, ratings = repeated(model, observations, n_chains)
    factors = random_factors(wide, rng)
    sizes = observations.n_rows, observations.n_columns
    by_chain = [part.reshape(n_chains, n, -1) for part, n in zip(factors, sizes, strict=True)]
    for part in by_chain:
        part[:2] = np.arange(2)[:n_chains, None, None]
    chain = Gibbs(wide, ratings, factors, seed, is_clamped=True)
    for _ in range(BURN_IN):
        chain.sweep()
    kept: list[list[np.ndarray]] = [[], []]
    for _ in range(n_draws):
        chain.sweep()
        for draws, part, which in zip(kept, by_chain, (rows, columns), strict=True):
            draws.append(part[:, which])  # a copy
    of_rows, of_columns = (np.stack(draws, axis=1) for draws in kept)
    return of_rows, of_columns


# Ratings times states of all factors that are looked at.
MAX_WORK = 2.0**30
_AT_ONCE = 2**22  # of these: 32 MB for each number


class _Facing(NamedTuple):
    """Ratings by rows, and what acts on them: factors of the rows, and factors of the columns.

    ``weights`` and ``factor_bias`` belong to the rows' factors, ``other_weights`` and
    ``other_bias`` to those of the columns. The same with the roles swapped is another of these.
    """

    row: np.ndarray
    column: np.ndarray
    n_rows: int
    n_columns: int
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    weights: np.ndarray
    factor_bias: np.ndarray
    other_weights: np.ndarray
    other_bias: np.ndarray

    def swapped(self) -> _Facing:
        order = np.lexsort((self.row, self.column))
        mean, low, high = (part[order] for part in (self.mean, self.low, self.high))
        sizes, of_rows = (self.n_columns, self.n_rows), (self.weights, self.factor_bias)
        of_columns = (self.other_weights, self.other_bias)
        return _Facing(self.column[order], self.row[order], *sizes, mean, low, high, *of_columns, *of_rows)

    def answered(self) -> _Facing:
        """Without rows and columns that have no rating: their factors cancel."""
        rows, row = np.unique(self.row, return_inverse=True)
        columns, column = np.unique(self.column, return_inverse=True)
        return self._replace(
            row=row,
            column=column,
            n_rows=rows.size,
            n_columns=columns.size,
            weights=self.weights[columns],
            other_weights=self.other_weights[rows],
        )

    @property
    def log2_work(self) -> float:
        """Ratings times states, when the columns' factors are enumerated around the rows'."""
        bits = self.n_columns * self.other_bias.size + self.factor_bias.size
        return bits + np.log2(max(self.row.size, 1))


def _facing(model: MatrixModel, observations: Observations) -> _Facing:
    by_rows, by_columns = model.by_rows, model.by_columns
    return _Facing(
        observations.cells().row,
        observations.column.astype(np.intp),
        observations.n_rows,
        observations.n_columns,
        plain_means(model, observations),
        *bounds(model, observations.cells()),
        by_rows.weights.astype(np.float64),
        by_rows.factor_bias.astype(np.float64),
        by_columns.weights.astype(np.float64),
        by_columns.factor_bias.astype(np.float64),
    )


def exact(model: MatrixModel, observations: Observations) -> Estimate:
    """Log-likelihood of all ratings together, summed over all states of all factors."""
    if not observations.n_entries:
        return Estimate(np.zeros(()), np.zeros(()))
    facing = _facing(model, observations).answered()
    facing = min(facing, facing.swapped(), key=lambda each: each.log2_work)
    if facing.log2_work > np.log2(MAX_WORK):
        raise DataError(
            f"Exact enumeration of {model.by_rows.n_factors} factors of each user and "
            f"{model.by_columns.n_factors} of each item takes 2^{facing.log2_work:.0f} terms for "
            f"these ratings, and at most 2^{np.log2(MAX_WORK):.0f} are added up; use method='ais', "
            "or of='users' or of='items' with few factors."
        )
    n_bits = facing.n_columns * facing.other_bias.size
    size = max(1, _AT_ONCE // max(1, facing.row.size * 2**facing.factor_bias.size))
    clamped, free = [], []
    for start in range(0, 2**n_bits, size):
        number = np.arange(start, min(start + size, 2**n_bits))
        bits = (number[:, None] >> np.arange(n_bits)) & 1
        others = bits.reshape(number.size, facing.n_columns, -1).astype(np.float64)
        given, alone = _sums_over_rows(facing, others)
        prior = others.sum(axis=1) @ facing.other_bias
        clamped.append(logsumexp(prior + given.sum(axis=1)))
        free.append(logsumexp(prior + alone.sum(axis=1)))
    return Estimate(np.asarray(logsumexp(clamped) - logsumexp(free)), np.zeros(()))


def _sums_over_rows(facing: _Facing, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log of each row's sum over its factors, with and without its ratings: (states, rows) each.

    ``others`` (states, columns, S) are factors of the columns.
    """
    n = facing.factor_bias.size
    states = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)
    offset = (facing.other_weights[facing.row] * others[:, facing.column]).sum(axis=2)
    mean = (facing.mean + offset)[:, :, None] + (facing.weights @ states.T)[facing.column]
    alone = 0.5 * mean * mean
    given = alone + normal_reference.log_mass(facing.low[:, None] - mean, facing.high[:, None] - mean)
    first = np.searchsorted(facing.row, np.arange(facing.n_rows))
    prior = states @ facing.factor_bias
    return (
        logsumexp(prior + np.add.reduceat(given, first, axis=1), axis=2),
        logsumexp(prior + np.add.reduceat(alone, first, axis=1), axis=2),
    )


def exact_rows(model: MatrixModel, observations: Observations, *, swapped: bool) -> Estimate:
    """Log-likelihood of each row's ratings given the expected factors of the columns.

    With ``swapped``, of each column's given those of the rows. Zero where there is no rating.
    """
    facing = _facing(model, observations)
    others = model.by_columns.factors
    if swapped:
        facing, others = facing.swapped(), model.by_rows.factors
    n_states = 2.0**facing.factor_bias.size
    if n_states * facing.row.size > MAX_WORK:
        raise DataError(
            f"Exact enumeration of {facing.factor_bias.size} factors over {facing.row.size:,} "
            f"ratings takes {n_states * facing.row.size:.3g} terms, and at most {MAX_WORK:.3g} are "
            "added up; use method='ais', or fit a model with fewer factors."
        )
    value = np.zeros(facing.n_rows)
    if not facing.row.size:
        return Estimate(value, np.zeros_like(value))
    rows, first = np.unique(facing.row, return_index=True)
    ends = np.append(first[1:], facing.row.size)
    for start, stop in _runs(ends, max(1, int(_AT_ONCE // n_states))):
        some = slice(first[start], ends[stop - 1])
        part = facing._replace(
            row=np.searchsorted(rows[start:stop], facing.row[some]),
            n_rows=stop - start,
            column=facing.column[some],
            mean=facing.mean[some],
            low=facing.low[some],
            high=facing.high[some],
            other_weights=facing.other_weights[rows[start:stop]],
        )
        given, alone = _sums_over_rows(part, others[None].astype(np.float64))
        value[rows[start:stop]] = (given - alone)[0]
    return Estimate(value, np.zeros_like(value))


def _runs(ends: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Runs of rows that end at these places and have about so many answers each."""
    runs, start = [], 0
    while start < ends.size:
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + size, side="right")), start + 1)
        runs.append((start, stop))
        start = stop
    return runs


def annealed_rows(
    model: MatrixModel,
    observations: Observations,
    seed: int,
    n_temperatures: int,
    n_chains: int,
    *,
    swapped: bool,
) -> Estimate:
    """The estimate of what :func:`exact_rows` computes, two runs per row."""
    offset = np.empty(observations.n_entries, dtype=np.float32)
    facing, others = _facing(model, observations), model.by_columns.factors
    if swapped:
        side = column_side(model, observations.transpose(), offset)
        facing, others = facing.swapped(), model.by_rows.factors
    else:
        side = row_side(model, observations, offset)
    path, seeds = np.linspace(0.0, 1.0, n_temperatures + 1), _seeds(seed)
    given, alone = (
        log_mean(annealing.log_importance_weights(side, clamped, path, n_chains, seeds[clamped]))
        for clamped in (True, False)
    )
    # Where no weight couples a row's factors to its ratings:
    mean = facing.mean + (facing.other_weights[facing.row] * others[facing.column]).sum(axis=1)
    levels = normal_reference.log_mass(facing.low - mean, facing.high - mean)
    return ratio(np.bincount(facing.row, levels, minlength=facing.n_rows), given, alone)


def _seeds(seed: int) -> list[int]:
    """Seeds of the free and of the clamped run, which must not draw the same numbers."""
    return np.random.SeedSequence(seed).generate_state(2, np.uint64).tolist()


def annealed(
    model: MatrixModel, observations: Observations, seed: int, n_temperatures: int, n_chains: int
) -> Estimate:
    """Estimate of the log-likelihood of all ratings together, by chains over all factors."""
    seeds = _seeds(seed)
    given, alone = (
        log_mean(_weights(model, observations, seeds[clamped], n_temperatures, n_chains, clamped))
        for clamped in (True, False)
    )
    mean = plain_means(model, observations)
    low, high = bounds(model, observations.cells())
    return ratio(normal_reference.log_mass(low - mean, high - mean).sum(), given, alone)


def _weights(
    model: MatrixModel,
    observations: Observations,
    seed: int,
    n_temperatures: int,
    n_chains: int,
    is_clamped: bool,
) -> np.ndarray:
    """(chains,) log weights along a path from no weights at all to those of the model."""
    wide, ratings = repeated(model, observations, n_chains)
    rng = np.random.default_rng(seed)
    factors = Factors(
        *(
            (rng.random((n, half.n_factors)) < expit(half.factor_bias)).astype(np.uint8)
            for n, half in ((ratings.n_rows, wide.by_rows), (ratings.n_columns, wide.by_columns))
        )
    )
    chain = Gibbs(wide, ratings, factors, seed, is_clamped=is_clamped)
    mean, (low, high) = plain_means(wide, ratings), bounds(wide, ratings.cells())
    total = np.zeros(n_chains)
    for old, new in itertools.pairwise(np.linspace(0.0, 1.0, n_temperatures + 1)):
        share = shares(wide, ratings, factors)
        before, after = mean + old * share, mean + new * share
        change = 0.5 * (after - before) * (after + before)
        if is_clamped:
            change += normal_reference.log_mass(low - after, high - after)
            change -= normal_reference.log_mass(low - before, high - before)
        total += change.reshape(n_chains, -1).sum(axis=1)
        by_rows, by_columns = (half._replace(weights=np.float32(new) * half.weights) for half in wide[:2])
        chain.sweep(wide._replace(by_rows=by_rows, by_columns=by_columns))
    return total

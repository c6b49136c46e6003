"""log P(ratings) of the paper's matrix model.

With the utilities integrated out, factors h of all rows and g of all columns have the unnormalised
probability

    log P*(h, g) = Σ_d γ·h_d + Σ_i ξ·g_i + Σ_di μ_di²/2,     log P(v | h, g) = Σ_di log[Φ(b) − Φ(a)]

with the sums over the rated cells. Log-likelihoods are those of all ratings together, or of one
side's given the other side's factors.

They are exact, by enumeration: given the factors of the columns, rows are independent, so that the sum
over all factors is one over the states of one side, of a product of small sums. Beyond that, by
annealed importance sampling (Neal 2001).
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, log_ndtr, logsumexp, ndtri_exp

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import annealing, normal_reference
from ordinalrbm.errors import DataError
from ordinalrbm.matrix.model import MatrixModel, column_side, row_side
from ordinalrbm.matrix.predict import bounds
from ordinalrbm.vector.likelihood import Estimate, log_mean, ratio

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
    row, column = observations.cells().row, observations.column.astype(np.intp)
    return _Facing(
        row,
        column,
        observations.n_rows,
        observations.n_columns,
        by_rows.bias.astype(np.float64)[column] + by_columns.bias.astype(np.float64)[row],
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
    facing, path = _facing(model, observations), np.linspace(0.0, 1.0, n_temperatures + 1)
    given, alone = (
        log_mean(_log_weights(facing, path, n_chains, np.random.default_rng(own_seed), is_clamped))
        for is_clamped, own_seed in zip((True, False), _seeds(seed), strict=True)
    )
    levels = normal_reference.log_mass(facing.low - facing.mean, facing.high - facing.mean)
    return ratio(levels.sum(), given, alone)


def _log_weights(
    facing: _Facing, path: np.ndarray, n_chains: int, rng: np.random.Generator, is_clamped: bool
) -> np.ndarray:
    """(chains,) log weights along a path from no weights at all to those of the model.

    Given the utilities of the ratings, all factors are independent, and given the factors, all utilities.
    """
    of_rows, of_columns = facing.weights[facing.column], facing.other_weights[facing.row]
    mean, low, high = (part[:, None] for part in (facing.mean, facing.low, facing.high))
    total, utility = np.zeros(n_chains), np.zeros((facing.row.size, n_chains))
    for old, new in itertools.pairwise(path):
        share = _factor_share(facing.row, facing.n_rows, of_rows, facing.factor_bias, old * utility, rng)
        share += _factor_share(
            facing.column, facing.n_columns, of_columns, facing.other_bias, old * utility, rng
        )
        before, after = mean + old * share, mean + new * share
        change, utility = 0.5 * (after - before) * (after + before), after
        if is_clamped:
            change += normal_reference.log_mass(low - after, high - after)
            change -= normal_reference.log_mass(low - before, high - before)
            utility = utility + _truncated_normal(low - after, high - after, rng)
        else:
            utility = utility + rng.standard_normal(utility.shape)
        total += change.sum(axis=0)
    return total


def _factor_share(
    place: np.ndarray,
    n_places: int,
    weights: np.ndarray,
    bias: np.ndarray,
    utility: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """(ratings, chains): what factors of rows, or of columns, add to the means of their ratings.

    They are drawn given the utilities. ``place`` is the row of each rating, and ``weights`` what it weighs
    each factor.
    """
    of_place = csr_array((np.ones(place.size), (place, np.arange(place.size))), (n_places, place.size))
    share = np.zeros(utility.shape)
    for k in range(bias.size):  # one factor after the other: no table of ratings, factors and chains
        chance = expit(bias[k] + of_place @ (weights[:, k, None] * utility))
        share += weights[:, k, None] * (rng.random(chance.shape) < chance)[place]
    return share


def _truncated_normal(low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws of a standard normal between bounds, by inversion in the tail that has the digits."""
    mirrored = low + high > 0
    low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    uniform = 1.0 - rng.random(low.shape)
    chance = np.logaddexp(log_ndtr(low) + np.log1p(-uniform), log_ndtr(high) + np.log(uniform))
    draw = np.clip(ndtri_exp(chance), low, high)
    return np.where(mirrored, -draw, draw)

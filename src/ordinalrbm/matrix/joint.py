"""Both sets of binary factors together: the joint model over all ratings, without mean-field.

With the utilities integrated out, factors h of all rows and g of all columns have the unnormalised
probability

    log P*(h, g) = Σ_d γ·h_d + Σ_i ξ·g_i + Σ_di μ_di²/2,     log P(v | h, g) = Σ_di log[Φ(b) − Φ(a)]

with the sums over the rated cells. Chains draw the rows' factors given the columns' and the other
way round, with the kernels that learn the model. Many chains at once are one matrix with as many
copies of the ratings along its diagonal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import gibbs
from ordinalrbm.engine.side import Batch
from ordinalrbm.matrix.model import Half, MatrixModel, column_side, row_side

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
    """A chain over all factors, whose ratings are given or forgotten.

    Parameters
    ----------
    factors : where it begins; moved in place
    is_clamped : whether the ratings are given
    """

    def __init__(
        self, model: MatrixModel, observations: Observations, factors: Factors, seed: int, *, is_clamped: bool
    ) -> None:
        self.model, self.observations, self.factors = model, observations, factors
        self.transposed = observations.transpose()
        self.offset = np.empty(observations.n_entries, dtype=np.float32)
        self.seed, self.n_sweeps = seed, 0
        self.move = gibbs.clamped_sweep if is_clamped else gibbs.free_sweep

    def sweep(self, model: MatrixModel | None = None) -> None:
        """Draw the factors of the rows, then those of the columns."""
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
        """Every half of a sweep names its draws by a number of its own."""
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


def bounds(model: MatrixModel, observations: Observations) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bound of each rating's level."""
    low, high = np.full((2, observations.n_entries), [[-np.inf], [np.inf]])
    for level, at in enumerate(_thresholds(model, observations)):
        above, below = observations.level == level + 1, observations.level == level
        low[above], high[below] = at[above], at[below]
    return low, high


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
    """Factors that are all fair coins."""
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

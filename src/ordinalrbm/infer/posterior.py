"""P(h | v): by mean-field, and by Gibbs sampling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ordinalrbm.engine import cpu
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.model.vector import VectorModel

TOLERANCE = 1e-4
MAX_ITERATIONS = 200
# Mean-field starts the chains close to where they live, so that they need little time to settle.
DEFAULT_BURN_IN = 20


class Posterior(NamedTuple):
    """Expected factors of each row (units on, 0 to ``units``), and how well that is known.

    ``change`` is the last change of a row's factor probabilities in the mean-field iteration.
    """

    factors: np.ndarray
    change: np.ndarray

    @property
    def n_unconverged(self) -> int:
        """Rows whose mean-field iteration had not settled."""
        return int(np.count_nonzero(self.change > TOLERANCE))


def mean_field(model: VectorModel, this: Side) -> Posterior:
    """Fixed point of the factorised approximation, each row by itself."""
    factors = np.full((this.n_rows, model.n_factors), 0.5 * model.units, dtype=np.float32)
    change = cpu.mean_field(this, factors, TOLERANCE * model.units, MAX_ITERATIONS)
    return Posterior(factors, change / model.units)


def draws(
    model: VectorModel,
    this: Side,
    n_draws: int,
    seed: int,
    *,
    burn_in: int = DEFAULT_BURN_IN,
    thin: int = 1,
) -> Iterator[np.ndarray]:
    """Draws of the factors given the answers, one chain per row.

    Each is the same array, changed in place: copy what should be kept.
    """
    start = mean_field(model, this).factors / model.units
    rng = np.random.default_rng(seed)
    factors = rng.binomial(model.units, np.clip(start, 0.0, 1.0)).astype(np.uint8)
    everyone = Batch(0, this.n_rows, seed, 0, burn_in)
    cpu.clamped_sweep(this, factors, everyone)
    for sweep in range(1, n_draws + 1):
        cpu.clamped_sweep(this, factors, everyone._replace(sweep=sweep, steps=thin))
        yield factors


def sampled(model: VectorModel, this: Side, n_draws: int, seed: int) -> Posterior:
    """Posterior means of the factors from draws."""
    total = np.zeros((this.n_rows, model.n_factors), dtype=np.float32)
    for factors in draws(model, this, n_draws, seed):
        total += factors
    return Posterior(total / np.float32(n_draws), np.zeros(this.n_rows, dtype=np.float32))

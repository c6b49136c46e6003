"""Answers drawn from the model: whole rows, or the missing ones of given rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ordinalrbm.data.questionnaire import NUMERIC
from ordinalrbm.engine import gibbs, normal_reference
from ordinalrbm.engine.philox import Purpose, uniforms
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.vector.model import VectorModel, complete_rows, random_factors, side
from ordinalrbm.vector.posterior import State, draws
from ordinalrbm.vector.predict import Cells, all_cells, probabilities

# Gibbs steps from fair coins to a row of the model; chains are independent of each other.
FREE_STEPS = 500
# Steps between two imputations of the same row, so that they differ as independent ones would.
STEPS_BETWEEN = 10


def rows(model: VectorModel, n_rows: int, seed: int, gibbs_steps: int = FREE_STEPS) -> np.ndarray:
    """Return (n_rows, N) answers drawn from the model, each row from a chain of its own.

    They are levels, categories, or numbers in standard deviations. Where there are covariates, a
    row has average ones.
    """
    rng = np.random.default_rng(seed)
    factors = free_factors(model, n_rows, seed, gibbs_steps, rng)
    style = rng.choice(model.stretches.size, size=n_rows, p=model.style_weights)
    state = State(factors, model.stretches[style].astype(np.float32))
    levels = _answers(model, state, all_cells(n_rows, model.n_levels.size), seed, 0)
    return levels.reshape(n_rows, -1)


def free_factors(
    model: VectorModel,
    n_rows: int,
    seed: int,
    gibbs_steps: int = FREE_STEPS,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Return (n_rows, K) factors drawn from the model over all columns, from fair coins on."""
    factors = random_factors(n_rows, model, np.random.default_rng(seed) if rng is None else rng)
    over = side(model, complete_rows(model, n_rows))
    gibbs.free_sweep(over, factors, Batch(0, n_rows, seed, 0, gibbs_steps))
    return factors


def gaps(model: VectorModel, this: Side, cells: Cells, n_draws: int, seed: int) -> Iterator[np.ndarray]:
    """Yield random answers for some cells given the row's answers: multiple imputation."""
    states = draws(model, this, n_draws, seed, thin=STEPS_BETWEEN)
    for draw, state in enumerate(states, start=1):
        yield _answers(model, state, cells, seed, draw)


def _answers(model: VectorModel, state: State, cells: Cells, seed: int, sweep: int) -> np.ndarray:
    """One level or number for each cell given factors and style, by inversion."""
    distribution = probabilities(model, [state], cells)
    uniform = uniforms(seed, cells.row, cells.column, sweep, Purpose.ANSWER, 0)
    below = np.cumsum(distribution, axis=1)
    level = (below < uniform[:, None]).sum(axis=1)
    level = np.minimum(level, model.n_levels[cells.column] - 1).astype(np.int16)
    if not (model.kind == NUMERIC).any():
        return level
    mean, deviation = distribution[:, 0], distribution[:, 1]
    number = mean + deviation * normal_reference.standard_normal(uniform)
    return np.where(model.kind[cells.column] == NUMERIC, number, level)

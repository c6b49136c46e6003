"""Answers drawn from the model: whole rows, or the missing ones of given rows.

Multiple imputation by one fitted model takes its parameters for known, and intervals that are pooled
from its draws are too narrow, most of all those of correlations. So each imputation may have
parameters of its own (:func:`bootstrap_gaps`): those of a model of as many rows, drawn from the table
with replacement. Over the imputations they vary as estimates from other people of the same kind would
(the bootstrap), which in large samples is how much the posterior varies.

A model learns from the rows that were drawn as the original did from all of them, starting from
their polychoric correlations, where the spread is right already. Starting from the fitted model
instead, few steps do not get far enough, and long ones add noise of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from tqdm.auto import tqdm

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import NUMERIC
from ordinalrbm.engine import gibbs, normal_reference
from ordinalrbm.engine.philox import Purpose, uniforms
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.vector.learner import Settings, first_model, fit
from ordinalrbm.vector.model import VectorModel, complete_rows, random_factors, side
from ordinalrbm.vector.posterior import State, draws
from ordinalrbm.vector.predict import Cells, all_cells, probabilities

# Gibbs steps from fair coins to a row of the model; chains are independent of each other.
FREE_STEPS = 500
# Steps between two imputations of the same row, so that they differ as independent ones would.
STEPS_BETWEEN = 10
# Fewer people do not tell how much others would differ from them.
FEWEST_ROWS = 30


def rows(model: VectorModel, n_rows: int, seed: int, gibbs_steps: int = FREE_STEPS) -> np.ndarray:
    """Return (n_rows, N) answers of rows with average covariates, each from a chain of its own.

    They are levels, categories, or numbers in standard deviations.
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
    """Yield random answers for some cells given the row's answers."""
    states = draws(model, this, n_draws, seed, thin=STEPS_BETWEEN)
    for draw, state in enumerate(states, start=1):
        yield _answers(model, state, cells, seed, draw)


def bootstrap_gaps(
    observations: Observations, row_weight: np.ndarray | None, settings: Settings, cells: Cells, n_draws: int
) -> Iterator[np.ndarray]:
    """Yield random answers for some cells, each time by a model of rows drawn with replacement."""
    counts = observations.row_counts > 0
    answered = np.flatnonzero(counts if row_weight is None else counts & (row_weight > 0))
    seeds = np.random.SeedSequence(settings.seed).generate_state(n_draws)
    for seed in tqdm(seeds.tolist(), "imputing", unit="table", disable=not settings.verbose, file=sys.stderr):
        own = replace(settings, seed=seed % 2**31, verbose=False)
        model = _redrawn(observations, answered, row_weight, own)
        this = side(model, observations, settings.unanswered)
        yield from gaps(model, this, cells, 1, own.seed)


def _redrawn(
    observations: Observations, rows: np.ndarray, row_weight: np.ndarray | None, settings: Settings
) -> VectorModel:
    """The model of as many of these rows, drawn with replacement."""
    rng = np.random.default_rng(settings.seed)
    counts = np.bincount(rng.integers(rows.size, size=rows.size), minlength=rows.size)
    drawn = rng.permutation(np.flatnonzero(counts))
    again = rows[np.repeat(drawn, counts[drawn])]
    start = first_model(
        observations.take_rows(again), None if row_weight is None else row_weight[again], settings
    )
    # To learn from, a row that was drawn twice is there once and weighs twice.
    weight = counts[drawn].astype(np.float32)
    if row_weight is not None:
        weight *= row_weight[rows[drawn]]
    weight /= weight.mean()
    fitted = fit(observations.take_rows(rows[drawn]), weight, settings, start=start)
    if fitted.interrupted:  # of learning Ctrl-C leaves a model, of imputing nothing
        raise KeyboardInterrupt
    return fitted.model


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

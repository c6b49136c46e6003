"""Answers drawn from the model: whole rows, or the missing ones of given rows.

Multiple imputation by one fitted model takes its parameters for known, and intervals that are pooled
from its draws are too narrow, most of all those of correlations. And they are shrunk, which predicts
best, but leaves what is imputed too close to the overall mean. So each imputation may have parameters
of its own (:func:`posterior_gaps`), from the posterior under a prior that does not shrink. Utilities
given many units per factor are nearly normal, and in that limit the draws can be had without the
factors: of thresholds, effects of covariates, and all correlations.
"""

import sys
from collections.abc import Iterator

import numpy as np
from tqdm.auto import tqdm

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import NOMINAL, NUMERIC, ORDINAL
from ordinalrbm.engine import gibbs, normal_reference
from ordinalrbm.engine.philox import Purpose, uniforms
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.stats import latent_normal
from ordinalrbm.vector.model import VectorModel, complete_rows, random_factors, side
from ordinalrbm.vector.posterior import State, draws
from ordinalrbm.vector.predict import Cells, all_cells, probabilities

# Gibbs steps from fair coins to a row of the model; chains are independent of each other.
FREE_STEPS = 500
# Steps between two imputations of the same row, so that they differ as independent ones would.
STEPS_BETWEEN = 10
# Sweeps over the utilities before the first imputation by drawn parameters, and between two of them.
BURN_IN, SWEEPS_BETWEEN = 100, 10
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


def gaps(
    model: VectorModel, this: Side, cells: Cells, n_draws: int, seed: int, shifted: VectorModel | None = None
) -> Iterator[np.ndarray]:
    """Yield random answers for some cells given the row's answers, if given by the ``shifted`` model."""
    for draw, state in enumerate(draws(model, this, n_draws, seed, thin=STEPS_BETWEEN), start=1):
        yield _answers(shifted or model, state, cells, seed, draw)


def posterior_gaps(
    observations: Observations,
    row_weight: np.ndarray | None,
    cells: Cells,
    shift: np.ndarray,
    n_draws: int,
    seed: int,
    *,
    verbose: bool = False,
) -> Iterator[np.ndarray]:
    """Yield random answers for some cells, each time with utilities under other parameters.

    Utilities behind the cells are shifted by so many of their standard deviations, (questions,).
    """
    levels, numbers = observations.to_dense(), np.full((observations.n_rows, observations.n_columns), np.nan)
    numbers[observations.cells().row, observations.column] = observations.entry_numbers()
    kind = observations.kind if observations.kind.size else np.full(observations.n_columns, ORDINAL)
    questions = [
        latent_normal.Number(numbers[:, j])
        if kind[j] == NUMERIC
        else (latent_normal.Categories if kind[j] == NOMINAL else latent_normal.Scale)(levels[:, j])
        for j in range(observations.n_columns)
    ]
    weight = (observations.row_counts > 0) * (1.0 if row_weight is None else row_weight.astype(np.float64))
    weight *= weight.sum() / (weight @ weight)  # to as many rows as tell as much, all with one weight (Kish)
    covariates = observations.covariates if observations.covariates.size else np.zeros((weight.size, 0))
    chain = latent_normal.LatentNormal(questions, covariates, weight, seed)
    for draw in tqdm(range(n_draws), "imputing", unit="table", disable=not verbose, file=sys.stderr):
        for _ in range(SWEEPS_BETWEEN if draw else BURN_IN):
            chain.sweep()
        yield chain.answers(shift)[cells.row, cells.column]


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

"""Multiple imputation: gaps drawn from several models, each learnt from rows drawn anew.

Draws from one fitted model take its parameters for known, and intervals that are pooled from them
are too narrow, most of all those of correlations. Here each imputation has parameters of its own:
those of a model of as many rows, drawn from the table with replacement. Over the imputations they
vary as estimates from other people of the same kind would (the bootstrap), which in large samples
is how much the posterior varies.

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
from ordinalrbm.vector import sample
from ordinalrbm.vector.learner import Settings, first_model, fit
from ordinalrbm.vector.model import VectorModel, side
from ordinalrbm.vector.predict import Cells

# Fewer people do not tell how much others would differ from them.
FEWEST_ROWS = 30


def gaps(
    observations: Observations, row_weight: np.ndarray | None, settings: Settings, cells: Cells, n_draws: int
) -> Iterator[np.ndarray]:
    """Yield random answers for some cells, each time by a model of its own."""
    counts = observations.row_counts > 0
    answered = np.flatnonzero(counts if row_weight is None else counts & (row_weight > 0))
    seeds = np.random.SeedSequence(settings.seed).generate_state(n_draws)
    for seed in tqdm(seeds.tolist(), "imputing", unit="table", disable=not settings.verbose, file=sys.stderr):
        own = replace(settings, seed=seed % 2**31, verbose=False)
        model = redrawn(observations, answered, row_weight, own)
        this = side(model, observations, settings.unanswered)
        yield from sample.gaps(model, this, cells, 1, own.seed)


def redrawn(
    observations: Observations, rows: np.ndarray, row_weight: np.ndarray | None, settings: Settings
) -> VectorModel:
    """Return the model of as many of these rows, drawn with replacement."""
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

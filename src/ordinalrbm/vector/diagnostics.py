"""Chains of the factors, to be diagnosed."""

from __future__ import annotations

import numpy as np

from ordinalrbm.engine.gibbs import clamped_sweep
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.vector.model import VectorModel, factor_type
from ordinalrbm.vector.posterior import DEFAULT_BURN_IN, gibbs_sweep


def chains(model: VectorModel, this: Side, n_chains: int, n_draws: int, seed: int) -> np.ndarray:
    """Return (chain, draw, row, factor) draws of the factors, chains started far apart.

    The first chain starts with every unit off, the second with every unit on, the others at random:
    chains that have met in spite of that have forgotten their start.
    """
    kind = factor_type(model.units)
    result = np.empty((n_chains, n_draws, this.n_rows, model.n_factors), dtype=kind)
    rng = np.random.default_rng(seed)
    shape = result.shape[2:]
    for chain in range(n_chains):
        share = rng.random(shape) if chain > 1 else float(chain)
        factors = rng.binomial(model.units, share, size=shape).astype(kind)
        style = rng.choice(model.stretches.size, size=this.n_rows, p=model.style_weights)
        this = this._replace(stretch=model.stretches[style].astype(np.float32))
        batch = Batch(0, this.n_rows, seed + chain, 0, DEFAULT_BURN_IN)
        clamped_sweep(this, factors, batch)
        for draw in range(n_draws):
            gibbs_sweep(model, this, factors, batch._replace(sweep=draw + 1, gibbs_steps=1))
            result[chain, draw] = factors
    return result

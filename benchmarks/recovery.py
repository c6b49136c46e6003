"""Recovery: fit data simulated by a known model, compare exact held-out log-likelihoods.

    python benchmarks/recovery.py

30 columns with scales of 2, 3, 5 and 7 levels, 5 factors, 20,000 rows, 30 % of the answers missing.
Each row is drawn from the known model over the columns it answers, exactly, by enumeration.
"""

from __future__ import annotations

import time

import numpy as np

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.vector import likelihood, predict
from ordinalrbm.vector.model import VectorModel, side
from ordinalrbm.vector.posterior import State

N_COLUMNS, N_FACTORS, N_ROWS, N_TEST, MISSING = 30, 5, 20_000, 5_000, 0.3


def known_model(rng: np.random.Generator) -> VectorModel:
    n_levels = np.resize([2, 3, 5, 7], N_COLUMNS).astype(np.int32)
    cutpoints = np.zeros((N_COLUMNS, 6))
    cutpoints[:, 0] = rng.normal(-0.8, 0.4, N_COLUMNS)
    cutpoints[:, 1:] = np.log(rng.uniform(0.4, 1.2, (N_COLUMNS, 5)))
    weights = rng.normal(0.0, 0.6, (N_COLUMNS, N_FACTORS)).astype(np.float32)
    bias = (-0.5 * weights.sum(axis=1) + rng.normal(0, 0.3, N_COLUMNS)).astype(np.float32)
    # With the middle of the factors as their likely state: the squared means favour the ends.
    tilt = -(0.5 * (1 - MISSING) * (weights**2).sum(axis=0) + (1 - MISSING) * bias @ weights)
    return VectorModel(weights, bias, tilt.astype(np.float32), cutpoints, n_levels)


def simulate(model: VectorModel, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Levels, −1 where missing."""
    answered = rng.random((n_rows, N_COLUMNS)) >= MISSING
    states = np.indices((2,) * N_FACTORS).reshape(N_FACTORS, -1).T
    mean = model.bias + states @ model.weights.T
    log_prior = states @ model.factor_bias + answered @ (0.5 * mean**2).T
    prior = np.exp(log_prior - log_prior.max(axis=1, keepdims=True))
    below = np.cumsum(prior, axis=1) / prior.sum(axis=1, keepdims=True)
    chosen = (below < rng.random((n_rows, 1))).sum(axis=1)
    cells = predict.all_cells(n_rows, N_COLUMNS)
    factors = states[chosen].astype(np.uint8)
    plain = State(factors, np.zeros(0, dtype=np.float32))
    distribution = predict.probabilities(model, [plain], cells)
    below = np.cumsum(distribution, axis=1)
    level = (below < rng.random((below.shape[0], 1))).sum(axis=1).reshape(n_rows, N_COLUMNS)
    level = np.minimum(level, model.n_levels - 1)
    return np.where(answered, level, -1)


def per_answer(model: VectorModel, levels: np.ndarray) -> float:
    observations = Observations.from_dense(levels, model.n_levels)
    return float(likelihood.exact(model, side(model, observations)).value.sum()) / (observations.n_entries)


def main() -> None:
    rng = np.random.default_rng(0)
    truth = known_model(rng)
    train, test = simulate(truth, N_ROWS, rng), simulate(truth, N_TEST, rng)
    scales = {i: list(range(n)) for i, n in enumerate(truth.n_levels.tolist())}
    table = np.where(train < 0, np.nan, train)
    true_value = per_answer(truth, test)
    print(f"true model           {true_value:.4f} nats per held-out answer")
    for name, settings in {
        "1 Gibbs step": {},
        "3 Gibbs steps": {"gibbs_steps": 3},
        "persistent": {"free_phase": "persistent", "gibbs_steps": 3, "learning_rate": 0.003},
    }.items():
        started = time.perf_counter()
        fitted = orbm.CumulativeRBM.binary(
            n_factors=N_FACTORS, random_state=0, scales=scales, weight_decay=1.0, **settings
        ).fit(table)
        value = per_answer(fitted.model_, test)
        print(
            f"fitted, {name:14s} {value:.4f}  gap {true_value - value:+.4f}  "
            f"({time.perf_counter() - started:.0f} s, best epoch {fitted.best_epoch_})",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Our own entry: the Cumulative RBM with nearly continuous factors and gaps integrated over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from data import levels, mask
from peers import Prediction, Stopwatch
from score import mae

import ordinalrbm as orbm

# Tried on a tenth of the training answers, hidden for the purpose; the best is fitted to all.
WEIGHT_DECAY = (3.0, 10.0, 30.0, 100.0)
SELECTION_ROWS = 5_000
LARGE = 10_000


def cumulative_rbm(train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> Prediction:
    """Choose the strength of the prior by validation, fit all training answers, predict."""
    selection = Stopwatch()
    decay, errors = choose_weight_decay(train)
    chosen, _ = selection.read()
    fitting = Stopwatch()
    model = fitted(train, decay)
    point = medians(hidden_cells(model, train, rows, columns), columns, levels(train))
    wall, cpu = fitting.read()
    # Medians are those of plain mean-field; distributions are widened, which takes longer.
    widening = Stopwatch()
    model.set_params(inference="linear_response")
    probabilities = hidden_cells(model, train, rows, columns)
    extra = {
        "cpu_seconds": cpu,
        "probability_seconds": widening.read()[0],
        "weight_decay": decay,
        "validation_mae": errors,
        "selection_seconds": chosen,
    }
    return Prediction(point, probabilities, wall, extra)


def choose_weight_decay(train: pd.DataFrame) -> tuple[float, dict[str, float]]:
    """The prior's precision with the least absolute error on answers hidden from training."""
    part = train.sample(min(len(train), SELECTION_ROWS), random_state=0)
    shown, rows, columns, truth = mask(part, seed=1)
    errors = {}
    for decay in WEIGHT_DECAY:
        # The prior is over all rows; on a part of them it weighs as much as on the whole.
        share = decay * len(part) / len(train)
        model = fitted(shown, share)
        found = medians(hidden_cells(model, shown, rows, columns), columns, levels(part))
        errors[decay] = mae(found, truth)
    best = min(errors, key=lambda decay: errors[decay])
    return best, {str(decay): error for decay, error in errors.items()}


def fitted(train: pd.DataFrame, decay: float) -> orbm.CumulativeRBM:
    """The model, learnt from all answers it is given."""
    large = len(train) > LARGE
    settings: dict[str, Any] = (
        {"n_epochs": 20, "learning_rate": 0.005} if large else {"n_epochs": 60}
    )
    scales = {name: list(found) for name, found in zip(train.columns, levels(train), strict=True)}
    return orbm.CumulativeRBM(
        n_factors=50, units_per_factor=64, unanswered="latent", weight_decay=decay,
        validation_fraction=0.0, random_state=0, scales=scales, **settings,
    ).fit(train)  # fmt: skip


def hidden_cells(
    model: orbm.CumulativeRBM, train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """(hidden, L) probabilities of the hidden cells' levels."""
    every = model.predict_proba(train)
    width = max(p.shape[1] for p in every)
    cube = np.stack([np.pad(p, ((0, 0), (0, width - p.shape[1]))) for p in every], axis=1)
    return cube[rows, columns]


def medians(probabilities: np.ndarray, columns: np.ndarray, known: list[np.ndarray]) -> np.ndarray:
    """The level in the middle of each distribution."""
    place = (np.cumsum(probabilities, axis=1) < 0.5).sum(axis=1)
    return np.array(
        [known[j][min(k, len(known[j]) - 1)] for j, k in zip(columns, place, strict=True)]
    )

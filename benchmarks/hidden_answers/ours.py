"""Our own entries: the defaults, a prior chosen by validation, the paper's binary model."""

from __future__ import annotations

import numpy as np
import pandas as pd
from data import levels, mask
from peers import Prediction, Stopwatch
from score import mae

import ordinalrbm as orbm
from ordinalrbm.stats.point_estimates import point

# Tried on a tenth of the training answers, hidden for the purpose; the best is fitted to all.
WEIGHT_DECAY = (10.0, 30.0, 100.0)
SELECTION_ROWS = 5_000
LARGE = 10_000
MOST_FACTORS = 80
PAPER_FACTORS = (10, 20, 50, 100)


def defaults(train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> Prediction:
    """`CumulativeRBM()` as it is: nothing is chosen."""
    fitting = Stopwatch()
    model = orbm.CumulativeRBM(random_state=0, scales=scales_of(train)).fit(train)
    probabilities = hidden_cells(model, train, rows, columns)
    known = levels(train)
    medians = point(probabilities, "median")  # what impute fills in
    found = np.array([known[j][k] for j, k in zip(columns, medians, strict=True)])
    wall, cpu = fitting.read()
    return Prediction(found, probabilities, wall, {"cpu_seconds": cpu})


def cumulative_rbm(train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> Prediction:
    """Choose the strength of the prior by validation, fit all training answers, predict."""
    selection = Stopwatch()
    decay, errors = choose_weight_decay(train)
    chosen, _ = selection.read()
    fitting = Stopwatch()
    model = fitted(train, decay)
    filled = model.impute(train, rule="median").to_numpy(dtype=float)[rows, columns]
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
    return Prediction(filled, probabilities, wall, extra)


def choose_weight_decay(train: pd.DataFrame) -> tuple[float, dict[str, float]]:
    """The prior's precision with the least absolute error on answers hidden from training."""
    part = train.sample(min(len(train), SELECTION_ROWS), random_state=0)
    shown, rows, columns, truth = mask(part, seed=1)
    errors = {}
    for decay in WEIGHT_DECAY:
        # The prior is over all rows; on a part of them it weighs as much as on the whole.
        share = decay * len(part) / len(train)
        model = fitted(shown, share)
        found = model.impute(shown, rule="median").to_numpy(dtype=float)[rows, columns]
        errors[decay] = mae(found, truth)
    best = min(errors, key=lambda decay: errors[decay])
    return best, {str(decay): error for decay, error in errors.items()}


def paper_rbm(train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> Prediction:
    """The paper's binary model by its own procedure; the number of factors by validation."""
    selection = Stopwatch()
    shown, hidden_rows, hidden_columns, truth = mask(train, seed=1)
    errors = {}
    for n_factors in PAPER_FACTORS:
        model = fitted_by_paper(shown, n_factors)
        found = model.impute(shown, rule="median").to_numpy(dtype=float)
        errors[n_factors] = mae(found[hidden_rows, hidden_columns], truth)
    best = min(errors, key=lambda n_factors: errors[n_factors])
    chosen, _ = selection.read()
    fitting = Stopwatch()
    model = fitted_by_paper(train, best)
    filled = model.impute(train, rule="median").to_numpy(dtype=float)[rows, columns]
    wall, cpu = fitting.read()
    extra = {
        "cpu_seconds": cpu,
        "n_factors": best,
        "selection_seconds": chosen,
        "validation_mae": {str(k): error for k, error in errors.items()},
    }
    return Prediction(filled, hidden_cells(model, train, rows, columns), wall, extra)


def fitted_by_paper(train: pd.DataFrame, n_factors: int) -> orbm.CumulativeRBM:
    scales = scales_of(train)
    return orbm.CumulativeRBM.paper(n_factors, random_state=0, scales=scales).fit(train)


def fitted(train: pd.DataFrame, decay: float) -> orbm.CumulativeRBM:
    """The model, learnt from all answers it is given."""
    # As many factors as questions say it all; an epoch of many rows makes many updates.
    n_factors, n_epochs = min(train.shape[1], MOST_FACTORS), 3 if len(train) > LARGE else 20
    return orbm.CumulativeRBM(
        n_factors,
        n_epochs=n_epochs,
        weight_decay=decay,
        validation_fraction=0.0,
        inference="mean_field",
        random_state=0,
        scales=scales_of(train),
    ).fit(train)


def scales_of(train: pd.DataFrame) -> dict[str, list[float]]:
    """The levels of each column, in the order in which probabilities are scored."""
    return {name: list(found) for name, found in zip(train.columns, levels(train), strict=True)}


def hidden_cells(
    model: orbm.CumulativeRBM, train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """(hidden, L) probabilities of the hidden cells' levels."""
    every = model.predict_proba(train)
    width = max(p.shape[1] for p in every)
    cube = np.stack([np.pad(p, ((0, 0), (0, width - p.shape[1]))) for p in every], axis=1)
    return cube[rows, columns]

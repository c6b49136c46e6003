"""What the baselines share around learning: cells to predict, epochs, early stopping."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from tqdm.auto import tqdm

from ordinalrbm.data.observations import Cells

Model = TypeVar("Model")
# A probability is never quite zero: one cell that a model thought impossible must not turn the
# mean log probability of all others into minus infinity.
SMALLEST_PROBABILITY = 1e-12
# A rise of the mean log probability that is worth waiting for.
_WORTHWHILE = 1e-4


class Record(NamedTuple):
    """One line of the learning history."""

    epoch: int
    validation: float  # mean log probability of a validation cell; NaN when there are none
    seconds: float


def index_of(places: ArrayLike) -> np.ndarray:
    """Rows or columns as kernels want them; one type, so that these are compiled once."""
    return np.ascontiguousarray(places, dtype=np.int32)


def learn(
    epochs: Iterator[Model],
    validation: Cells | None,
    predict_proba: Callable[[Model, np.ndarray, np.ndarray], np.ndarray],
    n_epochs: int,
    patience: int,
    verbose: bool,
) -> tuple[Model, list[Record]]:
    """Run epochs until validation cells are no longer predicted better; keep the best.

    Without validation cells all epochs are run and the last is kept. Ctrl-C ends learning and
    gives the best epoch so far. A model that gives no numbers raises FloatingPointError.

    Parameters
    ----------
    epochs : iterator
        Gives the model after each epoch; what it has given, it does not change any more.
    validation : Cells, optional
        What learning is watched by.
    predict_proba : callable
        Of a model, rows and columns: the probability of each level, (cells, L).
    n_epochs : int
        Epochs at most.
    patience : int
        Learning ends after so many epochs in which predictions have not become better, or so
        little that it is not worth the time.
    verbose : bool
        Whether to show a progress bar.

    Returns
    -------
    model, history
        The model of the best epoch, and a Record of each epoch.
    """
    best: Model | None = None
    best_value, goal, waited = -np.inf, -np.inf, 0
    history: list[Record] = []
    started = time.perf_counter()
    bar = tqdm(
        total=n_epochs, desc="learning", unit="epoch", disable=not verbose, file=sys.stderr
    )  # fmt: skip
    try:
        while len(history) < n_epochs and waited < patience:
            model = next(epochs)
            value = log_probability(predict_proba, model, validation)
            if best is None or not value <= best_value:
                best, best_value = model, value
            waited = waited + 1 if value < goal else 0
            goal = goal if value < goal else value + _WORTHWHILE
            history.append(Record(len(history) + 1, value, time.perf_counter() - started))
            bar.update()
            bar.set_postfix_str(f"held-out {value:.4f}")
    except KeyboardInterrupt:
        if best is None:
            raise
    finally:
        bar.close()
    if best is None:
        raise ValueError(f"n_epochs must be at least 1. Got {n_epochs} instead.")
    return best, history


def log_probability(
    predict_proba: Callable[[Model, np.ndarray, np.ndarray], np.ndarray],
    model: Model,
    cells: Cells | None,
) -> float:
    """Mean log probability of the levels of some cells; NaN when there are none."""
    if cells is None or cells.level.size == 0:
        return float("nan")
    distribution = predict_proba(model, cells.row, cells.column)
    chosen = distribution[np.arange(cells.level.size), cells.level]
    value = float(np.log(np.maximum(chosen, SMALLEST_PROBABILITY)).mean())
    if np.isnan(value):
        raise FloatingPointError("probabilities that are no numbers")
    return value

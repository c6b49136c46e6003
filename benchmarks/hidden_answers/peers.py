"""The peers of the "predicting hidden answers" benchmark: what a user would reach for today.

Every peer takes the training frame and the rows and columns of the hidden cells, and measures its
own time, because for some of them the choice of a setting has to be told apart from the fit.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from data import levels, mask
from score import mae

sys.path.append(str(Path(__file__).resolve().parents[1]))
from copula import copula_probabilities, gcimpute, impute, longest

JOBS = 2
"""Processes for gcimpute: the benchmark machine has two cores."""

BATCH = 1000
"""Respondents in a mini-batch: enough that the start of two processes for each hardly counts."""

RANKS = (5, 10, 15, 20, 30, 40)
"""Ranks the low-rank copula may choose from; larger ones are tried only while they help."""

SELECTION_ROWS = 20_000
"""Respondents used to choose the rank: more would take long and change little."""


class Stopwatch:
    """Wall time and CPU time since its making.

    The CPU time, that of finished child processes included, is kept because the wall time says
    little where others use the machine.
    """

    def __init__(self) -> None:
        """Start both clocks."""
        self.start = time.perf_counter(), cpu_seconds()

    def read(self) -> tuple[float, float]:
        """Return the wall seconds and the CPU seconds so far."""
        return time.perf_counter() - self.start[0], cpu_seconds() - self.start[1]


class Prediction(NamedTuple):
    """What a peer says about the hidden cells, and what that cost."""

    point: np.ndarray
    """One level per hidden cell."""
    probabilities: np.ndarray | None
    """One row per hidden cell, aligned to the sorted levels of its column and padded with 0."""
    seconds: float
    """Time of the fit with the final settings, up to the point values."""
    extra: dict[str, Any]
    """Settings chosen and other times, for the record."""


Peer = Callable[[pd.DataFrame, np.ndarray, np.ndarray], Prediction]


def marginal(train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> Prediction:
    """Predict from the column alone: the floor that any use of the other answers must beat."""
    watch = Stopwatch()
    column_levels = levels(train)
    medians = np.array([lower_median(train[name]) for name in train.columns])
    table = np.zeros((len(column_levels), longest(column_levels)))
    for j, (name, known) in enumerate(zip(train.columns, column_levels, strict=True)):
        table[j, : known.size] = train[name].value_counts(normalize=True)[known]
    seconds, cpu = watch.read()
    return Prediction(medians[columns], table[columns], seconds, {"cpu_seconds": cpu})


def iterative_imputer(train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> Prediction:
    """Predict with scikit-learn's IterativeImputer at its defaults, taken to the nearest level.

    It regresses on numbers and knows no levels, hence the rounding and no probabilities. One
    BLAS thread, because on a busy machine two take several times as long.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer
    from threadpoolctl import threadpool_limits

    watch = Stopwatch()
    imputer = IterativeImputer(random_state=0)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        filled = imputer.fit_transform(train.to_numpy())
    point = nearest_level(filled[rows, columns], columns, levels(train))
    seconds, cpu = watch.read()
    return Prediction(point, None, seconds, {"cpu_seconds": cpu, "iterations": imputer.n_iter_})


def gaussian_copula(train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> Prediction:
    """Predict with gcimpute's Gaussian copula, every column ordinal."""
    model = gcimpute().GaussianCopula(n_jobs=JOBS)
    return fit_copula(model, train, rows, columns)


def gaussian_copula_minibatch(train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> Prediction:
    """Predict with the same copula, fitted by two passes of mini-batches instead of full EM.

    On surveys of many respondents this is gcimpute's fastest setting at about equal quality. No
    tolerance, as a stop before the end of a pass would leave respondents without any prediction.
    """
    model = gcimpute().GaussianCopula(
        training_mode="minibatch-offline", batch_size=BATCH, num_pass=2, tol=0.0, n_jobs=JOBS
    )
    return fit_copula(model, train, rows, columns)


def low_rank_gaussian_copula(train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> Prediction:
    """Predict with gcimpute's low-rank Gaussian copula, its rank chosen inside the training part.

    ``seconds`` is the final fit alone: a user who knows the rank pays no more. The whole choice
    is in ``extra["selection_seconds"]``.
    """
    watch = Stopwatch()
    rank, errors = choose_rank(train)
    seconds, cpu = watch.read()
    model = gcimpute().LowRankGaussianCopula(rank=rank, n_jobs=JOBS)
    prediction = fit_copula(model, train, rows, columns)
    chosen = {
        "rank": rank,
        "validation_mae": errors,
        "selection_seconds": seconds,
        "selection_cpu_seconds": cpu,
    }
    return prediction._replace(extra=prediction.extra | chosen)


PEERS: dict[str, Peer] = {
    "marginal": marginal,
    "iterative_imputer": iterative_imputer,
    "gaussian_copula": gaussian_copula,
    "gaussian_copula_minibatch": gaussian_copula_minibatch,
    "low_rank_gaussian_copula": low_rank_gaussian_copula,
}


def choose_rank(train: pd.DataFrame) -> tuple[int, dict[int, float]]:
    """Return the rank with the least error on hidden training cells, and the errors seen.

    The ranks are tried upwards and the search ends at the first that does not help, because a
    fit takes longer the higher its rank.
    """
    few = train.sample(min(len(train), SELECTION_ROWS), random_state=0)
    part, rows, columns, truth = mask(few, seed=1)
    errors: dict[int, float] = {}
    for rank in RANKS:
        if rank >= train.shape[1]:
            break
        filled = impute(gcimpute().LowRankGaussianCopula(rank=rank, n_jobs=JOBS), part)
        errors[rank] = mae(filled[rows, columns], truth)
        if errors[rank] > min(errors.values()):
            break
    return min(errors, key=errors.__getitem__), errors


def fit_copula(model: Any, train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> Prediction:
    """Fit a gcimpute model and read off its levels and its predictive distribution."""
    watch = Stopwatch()
    point = impute(model, train)[rows, columns]
    seconds, cpu = watch.read()
    probabilities = copula_probabilities(model, train, rows, columns, levels(train))
    extra = {
        "cpu_seconds": cpu,
        "iterations": model.n_iter_,
        "probability_seconds": watch.read()[0] - seconds,
    }
    return Prediction(point, probabilities, seconds, extra)


def cpu_seconds() -> float:
    """Return the CPU time used so far by this process and its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def lower_median(answers: pd.Series) -> float:
    """Return the median answer; between two levels the lower one, as a prediction is a level."""
    return float(answers.quantile(0.5, interpolation="lower"))


def nearest_level(values: np.ndarray, columns: np.ndarray, column_levels: list[np.ndarray]) -> np.ndarray:
    """Return the level of the column that is nearest to each value."""
    point = np.empty_like(values)
    for column in np.unique(columns):
        cells = columns == column
        known = column_levels[column]
        point[cells] = known[np.argmin(np.abs(values[cells, None] - known), axis=1)]
    return point

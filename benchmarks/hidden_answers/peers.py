"""The peers of the "predicting hidden answers" benchmark: what a user would reach for today.

Every peer takes the training frame and the rows and columns of the hidden cells, and measures its
own time, because for some of them the choice of a setting has to be told apart from the fit.
"""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from data import levels, mask
from scipy.stats import norm
from score import mae

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


def gaussian_copula_minibatch(
    train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray
) -> Prediction:
    """Predict with the same copula, fitted by two passes of mini-batches instead of full EM.

    On surveys of many respondents this is gcimpute's fastest setting at about equal quality. No
    tolerance, as a stop before the end of a pass would leave respondents without any prediction.
    """
    model = gcimpute().GaussianCopula(
        training_mode="minibatch-offline", batch_size=BATCH, num_pass=2, tol=0.0, n_jobs=JOBS
    )
    return fit_copula(model, train, rows, columns)


def low_rank_gaussian_copula(
    train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray
) -> Prediction:
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


def fit_copula(
    model: Any, train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray
) -> Prediction:
    """Fit a gcimpute model and read off its levels and its predictive distribution."""
    watch = Stopwatch()
    point = impute(model, train)[rows, columns]
    seconds, cpu = watch.read()
    probabilities = copula_probabilities(model, train, rows, columns)
    extra = {
        "cpu_seconds": cpu,
        "iterations": model.n_iter_,
        "probability_seconds": watch.read()[0] - seconds,
    }
    return Prediction(point, probabilities, seconds, extra)


def impute(model: Any, train: pd.DataFrame) -> np.ndarray:
    """Fit a gcimpute model, all columns ordinal, and return the filled table.

    Its linear algebra is on tables of one respondent, where more than one BLAS thread per process
    only gets in the way of the other process.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return model.fit_transform(train.to_numpy(), ordinal=list(range(train.shape[1])))


def copula_probabilities(
    model: Any, train: pd.DataFrame, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Return the probabilities of the levels of the hidden cells under a fitted copula.

    gcimpute offers samples only, one pass over the data for each (and not for the low-rank model,
    where they raise an error). But it knows the mean and the standard deviation of the latent
    normal of a cell, from which it computes its own confidence intervals: together with the cut
    points of the column's marginal they give the distribution without sampling error.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        spread = truncation_variance(model)
        deviation = model._get_cond_std_missing(Cord=spread)[rows, columns]
    mean = model._latent_Zimp[rows, columns]
    column_levels = levels(train)
    probabilities = np.zeros((rows.size, longest(column_levels)))
    for column in np.unique(columns):
        cells = columns == column
        known = column_levels[column]
        share = train.iloc[:, column].value_counts(normalize=True)[known].to_numpy()
        cuts = norm.ppf(np.cumsum(share)[:-1])
        below = norm.cdf((cuts - mean[cells, None]) / deviation[cells, None])
        probabilities[cells, : known.size] = np.diff(below, axis=1, prepend=0.0, append=1.0)
    return probabilities


def truncation_variance(model: Any) -> np.ndarray:
    """Return the variance of the latent normals of the observed cells within their levels.

    A mini-batch fit keeps that of its last batch only, so that it has to be computed anew.
    """
    if len(model._latent_Cord) == len(model._latent_Zimp):
        return model._latent_Cord
    latent, lower, upper = model._observed_to_latent()
    return model._fillup_latent(Z=latent, Z_ord_lower=lower, Z_ord_upper=upper)[1]


def gcimpute() -> SimpleNamespace:
    """Import gcimpute 0.0.4 and undo what it does to warnings.

    It calls ``np.round_``, which NumPy 2 no longer has, and turns every warning of the process
    into an error on import.
    """
    np.round_ = np.round  # noqa: NPY003, NPY201
    with warnings.catch_warnings():
        from gcimpute.gaussian_copula import GaussianCopula
        from gcimpute.low_rank_gaussian_copula import LowRankGaussianCopula
    return SimpleNamespace(
        GaussianCopula=GaussianCopula, LowRankGaussianCopula=LowRankGaussianCopula
    )


def cpu_seconds() -> float:
    """Return the CPU time used so far by this process and its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def lower_median(answers: pd.Series) -> float:
    """Return the median answer; between two levels the lower one, as a prediction is a level."""
    return float(answers.quantile(0.5, interpolation="lower"))


def longest(column_levels: list[np.ndarray]) -> int:
    """Return the largest number of levels: the width of a table of probabilities."""
    return max(known.size for known in column_levels)


def nearest_level(
    values: np.ndarray, columns: np.ndarray, column_levels: list[np.ndarray]
) -> np.ndarray:
    """Return the level of the column that is nearest to each value."""
    point = np.empty_like(values)
    for column in np.unique(columns):
        cells = columns == column
        known = column_levels[column]
        point[cells] = known[np.argmin(np.abs(values[cells, None] - known), axis=1)]
    return point

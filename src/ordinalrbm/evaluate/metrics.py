"""Scores of predicted distributions over ordered levels, and of predicted numbers."""

import numbers

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ordinalrbm.data.scales import shorten
from ordinalrbm.errors import DataError, DataTypeError
from ordinalrbm.stats.point_estimates import log_of_level, point

_SUM_TOLERANCE = 1e-3  # of a distribution's sum, which is one but for rounding
_VALUE_TOLERANCE = 1e-6  # of a value, relative to its level: tenths may come as float32
_ROUNDING = 1e-9  # a probability of three tenths belongs to the bin that starts there
_N_BINS = 10
# What the measures of `score` are called in tables.
MEASURES = {
    "rmse": "root mean squared error (mean)",
    "mae": "mean absolute error (mode)",
    "mae_median": "mean absolute error (median)",
    "accuracy": "accuracy (mode)",
    "nll": "negative log-likelihood",
    "rps": "ranked probability score",
    "calibration": "calibration error",
}


def score(probabilities: ArrayLike, truth: ArrayLike, values: ArrayLike | None = None) -> dict[str, float]:
    """Score predicted distributions against what was answered.

    Parameters
    ----------
    probabilities : array of shape (n, L)
        A distribution over the L levels per answer.
    truth : array of n values
        What was answered, **as values on the scale, not as positions**: with the default
        `values`, 1 is the lowest level and L the highest.
    values : array of L numbers, optional
        The values of the levels, in the order of the columns; 1, 2, ..., L by default.

    Returns
    -------
    dict of str to float
        - ``rmse``: root mean squared error of the mean of the distribution;
        - ``mae``: mean absolute error of its mode (of the lowest, when there are several);
        - ``mae_median``: mean absolute error of its median, the optimum for this error;
        - ``accuracy``: how often the mode is right;
        - ``nll``: mean negative log-probability of the answer, in nats; probabilities below
          1e-12 count as 1e-12;
        - ``rps``: ranked probability score, the squared distance between the cumulative
          distributions of prediction and answer, summed over levels and divided by L − 1; mean;
        - ``calibration``: expected calibration error. The probabilities of all levels of all
          answers fall into ten equal bins; absolute differences between the mean probability in
          a bin and how often those levels were answered, weighted by size of bin.

    Raises
    ------
    DataError
        When shapes do not fit, something is missing, rows are not distributions, or an answer is
        not on the scale.

    Examples
    --------
    >>> scores = score([[0.5, 0.3, 0.2], [0.0, 0.2, 0.8]], truth=[1, 2])
    >>> {name: round(value, 3) for name, value in scores.items()}  # doctest: +NORMALIZE_WHITESPACE
    {'rmse': 0.752, 'mae': 0.5, 'mae_median': 0.5, 'accuracy': 0.5, 'nll': 1.151, 'rps': 0.233,
     'calibration': 0.367}
    """
    distribution = _distributions(probabilities)
    levels = _level_values(values, distribution.shape[1])
    answer = _positions(truth, levels, len(distribution))
    right = levels[answer]
    mode, median = point(distribution, "mode"), point(distribution, "median")
    return {
        "rmse": float(np.sqrt(np.mean((distribution @ levels - right) ** 2))),
        "mae": float(np.abs(levels[mode] - right).mean()),
        "mae_median": float(np.abs(levels[median] - right).mean()),
        "accuracy": float((mode == answer).mean()),
        "nll": float(-log_of_level(distribution, answer).mean()),
        "rps": _ranked_probability_score(distribution, answer),
        "calibration": _calibration_error(distribution, answer),
    }


def point_scores(predicted: ArrayLike, truth: ArrayLike, values: ArrayLike | None = None) -> dict[str, float]:
    """Score predicted numbers, for methods that give no distributions.

    Parameters
    ----------
    predicted : array of n numbers
    truth : array of n values
        What was answered, as values on the scale.
    values : array of numbers, optional
        The values of the levels. By default the whole numbers from the least to the greatest of
        `truth`.

    Returns
    -------
    dict of str to float
        ``rmse`` of the numbers as they are; ``mae`` and ``accuracy`` of the nearest level (of the
        upper one, halfway between two).

    Examples
    --------
    >>> point_scores([1.2, 3.5, 9.0], truth=[1, 5, 4], values=[1, 2, 3, 4, 5])["mae"].__round__(4)
    0.6667
    """
    number = _numbers(predicted, "The predictions")
    right = _numbers(truth, "The truth")
    _check_same_length(len(number), len(right), "predictions")
    levels = np.sort(_whole_numbers(right) if values is None else _level_values(values, None))
    answer = _positions(right, levels, len(number))
    nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, number, side="right")
    return {
        "rmse": float(np.sqrt(np.mean((number - right) ** 2))),
        "mae": float(np.abs(levels[nearest] - right).mean()),
        "accuracy": float((nearest == answer).mean()),
    }


def reliability(
    probabilities: ArrayLike, truth: ArrayLike, values: ArrayLike | None = None, n_bins: int = _N_BINS
) -> pd.DataFrame:
    """Predicted probabilities and observed frequencies, for a reliability plot.

    The probabilities of all levels of all answers are put into equal bins between 0 and 1; a
    model is calibrated when in every bin the level was answered as often as predicted.

    Parameters
    ----------
    probabilities, truth, values
        As in `score`.
    n_bins : int, default=10

    Returns
    -------
    DataFrame
        One row per bin: ``low`` and ``high``, its ends; ``predicted``, the mean probability;
        ``observed``, the frequency; ``standard_error`` of that; ``count``. NaN in empty bins.

    Examples
    --------
    >>> table = reliability([[0.9, 0.1], [0.8, 0.2]], truth=[1, 2], n_bins=2)
    >>> table[["predicted", "observed", "count"]].round(2)
       predicted  observed  count
    0       0.15       0.5      2
    1       0.85       0.5      2
    """
    check_whole(n_bins, "n_bins")
    distribution = _distributions(probabilities)
    answer = _positions(truth, _level_values(values, distribution.shape[1]), len(distribution))
    count, predicted, observed = _bins(distribution, answer, int(n_bins))
    with np.errstate(invalid="ignore"):  # empty bins
        predicted, observed = predicted / count, observed / count
    edges = np.linspace(0.0, 1.0, int(n_bins) + 1)
    spread = np.sqrt(observed * (1.0 - observed) / np.maximum(count, 1))
    return pd.DataFrame(
        {
            "low": edges[:-1],
            "high": edges[1:],
            "predicted": predicted,
            "observed": observed,
            "standard_error": spread,
            "count": count,
        }
    )


# ---- scores -----------------------------------------------------------------------------------


def _ranked_probability_score(distribution: np.ndarray, answer: np.ndarray) -> float:
    n_levels = distribution.shape[1]
    if n_levels == 1:
        return 0.0
    # The last sum is one on both sides.
    cumulative = np.cumsum(distribution, axis=1)[:, :-1]
    reached = answer[:, None] <= np.arange(n_levels - 1)
    return float(((cumulative - reached) ** 2).sum(axis=1).mean() / (n_levels - 1))


def _calibration_error(distribution: np.ndarray, answer: np.ndarray) -> float:
    _, predicted, observed = _bins(distribution, answer, _N_BINS)
    # Weights are the counts, which turn the differences of means into those of sums.
    return float(np.abs(observed - predicted).sum() / distribution.size)


def _bins(
    distribution: np.ndarray, answer: np.ndarray, n_bins: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per bin: how many probabilities, their sum, and how many of their levels were answered."""
    which = np.minimum((distribution * n_bins + _ROUNDING).astype(np.int64), n_bins - 1)
    chosen = which[np.arange(len(answer)), answer]
    count = np.bincount(which.ravel(), minlength=n_bins)
    predicted = np.bincount(which.ravel(), weights=distribution.ravel(), minlength=n_bins)
    return count, predicted, np.bincount(chosen, minlength=n_bins).astype(np.float64)


# ---- checks -----------------------------------------------------------------------------------


def check_whole(value: object, name: str, low: int = 1) -> None:
    """Refuse what is no whole number of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < low:
        raise DataError(f"{name} must be a whole number, {low} or more, not {value!r}.")


def _as_floats(values: ArrayLike, what: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(f"{what} must be numbers ({error}); convert them first.") from error


def _numbers(values: ArrayLike, what: str) -> np.ndarray:
    array = _as_floats(values, what)
    if array.ndim != 1 or not len(array):
        raise DataError(
            f"{what} must be a list of numbers, at least one, not shape {array.shape}; flatten it."
        )
    bad = ~np.isfinite(array)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"{what} must be finite numbers, but number {row} (counted from 0) is {array[row]}; "
            "leave such rows out."
        )
    return array


def _distributions(probabilities: ArrayLike) -> np.ndarray:
    distribution = _as_floats(probabilities, "The probabilities")
    if distribution.ndim != 2 or not distribution.size:
        raise DataError(
            f"The probabilities must have the shape (n, L), one row per answer and one column per "
            f"level, not {distribution.shape}; reshape them."
        )
    bad = ~(np.isfinite(distribution) & (distribution >= 0)).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"Row {row} (counted from 0) of the probabilities is {_row(distribution[row])}; every "
            "probability must be a number between 0 and 1."
        )
    total = distribution.sum(axis=1, keepdims=True)
    off = np.abs(total[:, 0] - 1.0) > _SUM_TOLERANCE
    if off.any():
        row = int(off.argmax())
        raise DataError(
            f"Row {row} (counted from 0) of the probabilities is {_row(distribution[row])} and "
            f"sums to {total[row, 0]:.6g}; it must sum to one, so divide it by its sum."
        )
    return distribution / total


def _row(distribution: np.ndarray) -> str:
    return shorten([float(f"{p:.4g}") for p in distribution])


def _level_values(values: ArrayLike | None, n_levels: int | None) -> np.ndarray:
    if values is None:
        assert n_levels is not None
        return np.arange(1.0, n_levels + 1.0)
    levels = _numbers(values, "The values of the levels")
    if n_levels is not None and len(levels) != n_levels:
        raise DataError(
            f"There are {len(levels)} values for {n_levels} levels (columns of the "
            "probabilities); give one per level."
        )
    if len(np.unique(levels)) < len(levels):
        raise DataError(f"The values {shorten(levels.tolist())} repeat; give each level its own.")
    return levels


def _whole_numbers(truth: np.ndarray) -> np.ndarray:
    if (truth != np.round(truth)).any():
        first = truth[truth != np.round(truth)][0]
        raise DataError(
            f"The truth holds {first}, which is not a whole number; give the levels with values=."
        )
    return np.arange(truth.min(), truth.max() + 1.0)


def _check_same_length(n_predicted: int, n_truth: int, what: str) -> None:
    if n_predicted != n_truth:
        raise DataError(f"There are {n_predicted} {what} for {n_truth} answers; give one for each.")


def _positions(truth: ArrayLike, levels: np.ndarray, n: int) -> np.ndarray:
    right = _numbers(truth, "The truth")
    _check_same_length(n, len(right), "rows of probabilities")
    ascending = np.argsort(levels)
    ordered = levels[ascending]
    position = np.searchsorted((ordered[1:] + ordered[:-1]) / 2, right)
    nearest = ordered[position]
    off = np.abs(nearest - right) > _VALUE_TOLERANCE * np.abs(nearest)
    if off.any():
        row = int(off.argmax())
        raise DataError(
            f"Answer {row} (counted from 0) is {right[row]:.12g}, which is not one of the values "
            f"{shorten([float(f'{v:g}') for v in levels])}; give the truth as values of the scale, "
            "and the scale with values=."
        )
    return ascending[position]

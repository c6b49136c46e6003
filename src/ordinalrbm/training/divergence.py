"""Learning that diverges: how it is noticed, and what is said about it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.thresholds import LARGEST_CUTPOINT, PSEUDO_COUNT
from ordinalrbm.errors import DataError
from ordinalrbm.storage.reader import LARGEST_PARAMETER
from ordinalrbm.training.schedule import Schedule

# A utility has standard deviation one: no factor that has learnt something moves it so far.
LARGEST_WEIGHT = 20.0
# Nats per answer that a model may lose to the mere frequencies of the answers, by sampling.
_WORST = 0.1
# Standard errors of such a loss that are more than chance, in dozens of epochs.
_CLEARLY = 5.0
# Every question has so many answers more, evenly over its levels: some have few of their own.
_EVEN_ANSWERS = 5.0
_NO_CUTPOINTS = np.zeros(0)


class DivergenceError(ArithmeticError):
    """The steps of an epoch were too large."""


class NothingLearntError(DataError):
    """Not one epoch has gone well, however small the steps."""


def refuse_divergence(
    weights: np.ndarray, others: Iterable[np.ndarray], cutpoints: np.ndarray = _NO_CUTPOINTS
) -> None:
    """Raise DivergenceError if parameters are such that no file may hold them."""
    bounded = _within(weights, LARGEST_WEIGHT) and cutpoints.max(initial=0.0) <= LARGEST_CUTPOINT
    if not bounded or not all(_within(part, LARGEST_PARAMETER) for part in others):
        raise DivergenceError


def _within(numbers: np.ndarray, largest: float) -> bool:
    return bool(np.abs(numbers).max(initial=0.0) <= largest)  # which NaN is not


def refuse_nonsense(found: np.ndarray, usual: np.ndarray, weight: np.ndarray | None = None) -> None:
    """Raise DivergenceError if answers are clearly less likely than without a model.

    ``found`` are log probabilities, and ``usual`` those by how often each answer was given. They
    are of answers that are learnt from: of others a model may be wrong by overfitting, against
    which smaller steps are no remedy.
    """
    if not found.size:
        return
    weight = np.ones(found.size) if weight is None else weight
    lost, deviation, size = spread_of(usual - found, weight)
    # One nat more: how a few answers differ says little about how they might.
    error = (deviation + 1.0) / np.sqrt(size)
    if not lost <= _WORST + _CLEARLY * error:
        raise DivergenceError


def tell_of_divergence(schedule: Schedule, n_epochs: int, stacklevel: int = 5) -> None:
    """Warn if the learning rate had to be lowered.

    ``n_epochs`` have gone well; NothingLearntError is raised if there are none.
    """
    if not schedule.n_slowed:
        return
    diverged = f"Learning diverged with learning_rate={schedule.first_rate:g}"
    now = f"{schedule.learning_rate:g}"
    if not schedule.has_given_up:
        said = f"{diverged} and went on with {now}; set learning_rate to {now} or less."
    elif n_epochs:
        said = (
            f"{diverged} and still with {now} after epoch {n_epochs}, where it has "
            "ended; the best model so far is kept, set learning_rate much lower."
        )
    else:
        said = f"{diverged} and still with {now}; set learning_rate much lower."
        raise NothingLearntError(said)
    warnings.warn(said, ConvergenceWarning, stacklevel=stacklevel)


def usual(counts: np.ndarray, n_levels: np.ndarray, column: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Log probability of answers by how often each was given to that question.

    A model starts there, unless it is told not to, and must not become worse.
    """
    # On a long scale as many as thresholds start with, which are not nowhere where nobody answered.
    more = np.maximum(_EVEN_ANSWERS, PSEUDO_COUNT * n_levels)[column]
    alike = counts[column, level] + more / n_levels[column]
    return np.log(alike / (counts.sum(axis=1)[column] + more))


def lower_of(usual: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Whichever is less likely as a whole: a model that starts elsewhere may be worse at first."""
    return first if first.mean() < usual.mean() else usual


def usual_rating(learnt: Observations, level: np.ndarray) -> np.ndarray:
    """Log probability of ratings by how often each level was given, to whatever item."""
    counts = np.bincount(learnt.level, minlength=int(learnt.n_levels.max()))
    nowhere = np.zeros(level.size, dtype=np.intp)
    return usual(counts[None], np.array([counts.size]), nowhere, level)


def spread_of(values: np.ndarray, weight: np.ndarray) -> tuple[float, float, float]:
    """Weighted mean, standard deviation, and effective number of values."""
    mean = float(np.average(values, weights=weight))
    deviation = float(np.sqrt(np.average((values - mean) ** 2, weights=weight)))
    total = weight.sum(dtype=np.float64)
    return mean, deviation, float(total**2 / np.square(weight, dtype=np.float64).sum())

"""How long to learn, and how fast: early stopping, the learning rate, and learning that diverges."""

import warnings
from collections.abc import Iterable
from typing import Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalrbm.data.observations import Observations, count_levels
from ordinalrbm.engine.thresholds import LARGEST_CUTPOINT, PSEUDO_COUNT
from ordinalrbm.errors import DataError
from ordinalrbm.storage.reader import LARGEST_PARAMETER

RateSchedule = Literal["cosine", "constant"]
# When learning diverges the rate falls to a tenth, and again, so often at most.
_SMALLER, MOST_OFTEN = 0.1, 6
# A utility has standard deviation one: no factor that has learnt something moves it so far.
LARGEST_WEIGHT = 20.0
# Nats per answer that a model may lose to the mere frequencies of the answers, by sampling.
_WORST = 0.1
# Standard errors of such a loss that are more than chance, in dozens of epochs.
_CLEARLY = 5.0
# Every question has so many answers more, evenly over its levels: some have few of their own.
_EVEN_ANSWERS = 5.0
_NO_CUTPOINTS = np.zeros(0)


class EarlyStopping:
    """Which epoch is the best so far, and whether there is more to gain.

    Learning is over after ``patience`` epochs in a row that were not worth their time: whose value
    is not above that of the last such epoch by ``worthwhile``. Epochs are counted from 1; the best
    is 0 before the first.
    """

    def __init__(self, patience: int, worthwhile: float = 0.0) -> None:
        self.patience, self.worthwhile = patience, worthwhile
        self.replay(())

    def replay(self, values: Iterable[float]) -> None:
        self.n_epochs, self.best_epoch, self.best_value = 0, 0, -np.inf
        self._goal, self._waited = -np.inf, 0
        for value in values:
            self.after(value)

    @property
    def is_over(self) -> bool:
        return self._waited >= self.patience

    def after(self, value: float) -> bool:
        """Count an epoch; returns whether it is the best so far.

        ``value`` is its log probability of what is held out. With nothing held out it is NaN: the
        last epoch is then the best, and learning is never over.
        """
        self.n_epochs += 1
        is_best = not value <= self.best_value
        if is_best:
            self.best_epoch, self.best_value = self.n_epochs, value
        if value < self._goal:
            self._waited += 1
        else:
            self._waited, self._goal = 0, value + self.worthwhile
        return is_best


class Schedule:
    """Full rate until held-out answers are no longer predicted better, then a fall to zero.

    The last epochs settle what the first have found, so learning never just breaks off: a plateau
    of ``patience`` epochs, or the approach of ``n_epochs``, begins the fall along a cosine, which
    takes the share ``fall`` of ``n_epochs``.
    """

    def __init__(self, learning_rate: float, *, n_epochs: int, patience: int, fall: float) -> None:
        self.first_rate, self.n_epochs, self.patience = learning_rate, n_epochs, patience
        self.length = max(1, round(fall * n_epochs))
        self.stopping = EarlyStopping(patience)
        self.replay((), 0)

    def replay(self, values: Iterable[float], n_slowed: int) -> None:
        self.learning_rate, self.n_slowed, self.has_given_up = self.first_rate, 0, False
        self.fall_begins = self.n_epochs - self.length
        self.stopping.replay(())
        for value in values:
            self.after(value)
        for _ in range(n_slowed):
            self.slow_down()

    @property
    def best_epoch(self) -> int:
        return self.stopping.best_epoch

    def rate(self) -> float:
        fallen = (self.stopping.n_epochs - self.fall_begins) / self.length
        share = 0.5 * (1.0 + np.cos(np.pi * min(max(fallen, 0.0), 1.0)))
        return self.learning_rate * share if fallen < 1.0 else 0.0

    def after(self, value: float) -> bool:
        """Count an epoch; returns whether it is better than all before (:meth:`EarlyStopping.after`)."""
        is_best = self.stopping.after(value)
        n_epochs = self.stopping.n_epochs
        if n_epochs - self.best_epoch >= self.patience:
            self.fall_begins = min(self.fall_begins, n_epochs)
        return is_best

    def slow_down(self) -> bool:
        """Go on with a smaller rate, after learning has diverged; False if that has not helped."""
        self.has_given_up = self.n_slowed == MOST_OFTEN
        if not self.has_given_up:
            self.n_slowed += 1
            self.learning_rate *= _SMALLER
        return not self.has_given_up


class DivergenceError(ArithmeticError):
    """The steps of an epoch were too large."""


class NothingLearntError(DataError):
    """Not one epoch has gone well, however small the steps."""


def refuse_divergence(
    weights: np.ndarray, others: Iterable[np.ndarray], cutpoints: np.ndarray = _NO_CUTPOINTS
) -> None:
    bounded = _within(weights, LARGEST_WEIGHT) and cutpoints.max(initial=0.0) <= LARGEST_CUTPOINT
    if not bounded or not all(_within(part, LARGEST_PARAMETER) for part in others):
        raise DivergenceError


def _within(numbers: np.ndarray, largest: float) -> bool:
    return bool(np.abs(numbers).max(initial=0.0) <= largest)  # which NaN is not


def refuse_nonsense(found: np.ndarray, marginal: np.ndarray, weight: np.ndarray | None = None) -> None:
    """Raise DivergenceError if answers are clearly less likely than without a model.

    Both are log probabilities of answers that are learnt from: of others a model may be wrong by
    overfitting, against which smaller steps are no remedy.
    """
    if not found.size:
        return
    weight = np.ones(found.size) if weight is None else weight
    lost, deviation, size = spread_of(marginal - found, weight)
    # One nat more: how a few answers differ says little about how they might.
    error = (deviation + 1.0) / np.sqrt(size)
    if not lost <= _WORST + _CLEARLY * error:
        raise DivergenceError


def warn_of_divergence(schedule: Schedule, n_epochs: int) -> None:
    """Warn if the learning rate had to be lowered; NothingLearntError if no epoch has gone well."""
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
    warnings.warn(said, ConvergenceWarning, stacklevel=5)


def marginal_of_answers(
    learnt: Observations, row_weight: np.ndarray | None, column: np.ndarray, level: np.ndarray
) -> np.ndarray:
    """Log probability of answers by how often each was given to that question.

    A model starts there by default, and must not become worse.
    """
    return _marginal(count_levels(learnt, row_weight), learnt.n_levels, column, level)


def _marginal(counts: np.ndarray, n_levels: np.ndarray, column: np.ndarray, level: np.ndarray) -> np.ndarray:
    # On a long scale as many as thresholds start with, which are finite at levels without answers, too.
    more = np.maximum(_EVEN_ANSWERS, PSEUDO_COUNT * n_levels)[column]
    alike = counts[column, level] + more / n_levels[column]
    return np.log(alike / (counts.sum(axis=1)[column] + more))


def lower_of(marginal: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Whichever is less likely as a whole: a model that starts elsewhere may be worse at first."""
    return first if first.mean() < marginal.mean() else marginal


def marginal_of_ratings(learnt: Observations, level: np.ndarray) -> np.ndarray:
    """Log probability of ratings by how often each level was given, to whatever item."""
    counts = np.bincount(learnt.level, minlength=int(learnt.n_levels.max()))
    return _marginal(counts[None], np.array([counts.size]), np.zeros(level.size, dtype=np.intp), level)


def spread_of(values: np.ndarray, weight: np.ndarray) -> tuple[float, float, float]:
    """Weighted mean, standard deviation, and effective number of values."""
    mean = float(np.average(values, weights=weight))
    deviation = float(np.sqrt(np.average((values - mean) ** 2, weights=weight)))
    total = weight.sum(dtype=np.float64)
    return mean, deviation, float(total**2 / np.square(weight, dtype=np.float64).sum())

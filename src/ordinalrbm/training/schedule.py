"""How long to learn, and how fast."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

# When learning diverges the rate falls to a tenth, and again, so often at most.
_SMALLER, MOST_OFTEN = 0.1, 6


class EarlyStopping:
    """Remembers the best epoch, and says when waiting for a better one is no longer worth it.

    Examples
    --------
    >>> stopping = EarlyStopping(patience=2)
    >>> [stopping.after(value) for value in (-1.2, -1.1, -1.15, -1.11)], stopping.is_over
    ([True, True, False, False], True)
    """

    best_epoch: int
    best_value: float

    def __init__(self, patience: int, worthwhile: float = 0.0) -> None:
        self.patience, self.worthwhile = patience, worthwhile
        self.replay(())

    def after(self, value: float) -> bool:
        """Take note of an epoch; returns whether it is the best so far.

        ``value`` is its log probability of what is held out. With nothing held out it is NaN, and
        the last epoch is the best.
        """
        self.done += 1
        is_best = not value <= self.best_value
        if is_best:
            self.best_epoch, self.best_value = self.done, value
        self.waited = self.waited + 1 if value < self.goal else 0
        self.goal = self.goal if value < self.goal else value + self.worthwhile
        return is_best

    @property
    def is_over(self) -> bool:
        """Whether so many epochs in a row have not been worth their time."""
        return self.waited >= self.patience

    def replay(self, values: Iterable[float]) -> None:
        """Begin anew, and take note of epochs with these values."""
        self.done, self.waited = 0, 0
        self.best_epoch, self.best_value, self.goal = 0, -np.inf, -np.inf
        for value in values:
            self.after(value)


class Schedule:
    """Full rate until held-out answers are no longer predicted better, then a fall to zero.

    The last epochs settle what the first have found, so learning never just breaks off: a plateau
    of ``patience`` epochs, or the approach of ``n_epochs``, begins the fall along a cosine, which
    takes the share ``fall`` of ``n_epochs``.

    Examples
    --------
    >>> schedule = Schedule(0.1, n_epochs=10, patience=1, fall=0.2)
    >>> rates = []
    >>> while schedule.rate() > 0.0:
    ...     rates.append(round(float(schedule.rate()), 3))
    ...     better = schedule.after(-1.0)  # never better than the first
    >>> rates
    [0.1, 0.1, 0.1, 0.05]
    """

    done: int
    best_epoch: int
    best_value: float
    fall_begins: int

    def __init__(self, learning_rate: float, *, n_epochs: int, patience: int, fall: float) -> None:
        self.first_rate, self.n_epochs, self.patience = learning_rate, n_epochs, patience
        self.length = max(1, round(fall * n_epochs))
        self.replay((), 0)

    def rate(self) -> float:
        """Learning rate of the next epoch; zero when learning is over."""
        fallen = (self.done - self.fall_begins) / self.length
        share = 0.5 * (1.0 + np.cos(np.pi * min(max(fallen, 0.0), 1.0)))
        return self.learning_rate * share if fallen < 1.0 else 0.0

    def after(self, value: float) -> bool:
        """Take note of an epoch; returns whether it is the best so far.

        ``value`` is its log probability of what is held out. With nothing held out it is NaN, and
        the last epoch is the best.
        """
        self.done += 1
        if not value <= self.best_value:
            self.best_epoch, self.best_value = self.done, value
        if self.done - self.best_epoch >= self.patience:
            self.fall_begins = min(self.fall_begins, self.done)
        return self.best_epoch == self.done

    def replay(self, values: Iterable[float], n_slowed: int) -> None:
        """Be where one is after epochs with these values, having slowed down so often."""
        self.learning_rate, self.n_slowed, self.has_given_up = self.first_rate, 0, False
        self.fall_begins = self.n_epochs - self.length
        self.done, self.best_epoch, self.best_value = 0, 0, -np.inf
        for value in values:
            self.after(value)
        for _ in range(n_slowed):
            self.slow_down()

    def slow_down(self) -> bool:
        """Go on with a smaller rate, after learning has diverged; False if that has not helped."""
        self.has_given_up = self.n_slowed == MOST_OFTEN
        if not self.has_given_up:
            self.n_slowed += 1
            self.learning_rate *= _SMALLER
        return not self.has_given_up

"""How long to learn, and how fast: early stopping and the learning rate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

RateSchedule = Literal["cosine", "constant"]
# When learning diverges the rate falls to a tenth, and again, so often at most.
_SMALLER, MOST_OFTEN = 0.1, 6


class EarlyStopping:
    """Says which epoch is the best so far, and when there is no more to gain.

    Learning is over after ``patience`` epochs in a row that were not worth their time: whose value
    is not above that of the last such epoch by ``worthwhile``. Epochs are counted from 1; the best
    is 0 before the first.

    Examples
    --------
    >>> stopping = EarlyStopping(patience=2, worthwhile=0.1)
    >>> [stopping.after(value) for value in (-1.5, -1.2, -1.19, -1.18)]
    [True, True, True, True]
    >>> stopping.best_epoch, stopping.is_over
    (4, True)
    """

    def __init__(self, patience: int, worthwhile: float = 0.0) -> None:
        self.patience, self.worthwhile = patience, worthwhile
        self.replay(())

    def replay(self, values: Iterable[float]) -> None:
        """Start anew, with epochs of these values behind one."""
        self.n_epochs, self.best_epoch, self.best_value = 0, 0, -np.inf
        self._goal, self._waited = -np.inf, 0
        for value in values:
            self.after(value)

    @property
    def is_over(self) -> bool:
        return self._waited >= self.patience

    def after(self, value: float) -> bool:
        """Take note of an epoch; returns whether it is the best so far.

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

    def __init__(self, learning_rate: float, *, n_epochs: int, patience: int, fall: float) -> None:
        self.first_rate, self.n_epochs, self.patience = learning_rate, n_epochs, patience
        self.length = max(1, round(fall * n_epochs))
        self.stopping = EarlyStopping(patience)
        self.replay((), 0)

    def replay(self, values: Iterable[float], n_slowed: int) -> None:
        """Start anew, with epochs of these values behind one and the rate lowered so often."""
        self.learning_rate, self.n_slowed, self.has_given_up = self.first_rate, 0, False
        self.fall_begins = self.n_epochs - self.length
        self.stopping.replay(())
        for value in values:
            self.after(value)
        for _ in range(n_slowed):
            self.slow_down()

    @property
    def best_epoch(self) -> int:
        """The epoch that predicts held-out answers best; 0 before the first."""
        return self.stopping.best_epoch

    def rate(self) -> float:
        """Learning rate of the next epoch; zero when learning is over."""
        fallen = (self.stopping.n_epochs - self.fall_begins) / self.length
        share = 0.5 * (1.0 + np.cos(np.pi * min(max(fallen, 0.0), 1.0)))
        return self.learning_rate * share if fallen < 1.0 else 0.0

    def after(self, value: float) -> bool:
        """Take note of an epoch; returns whether it is the best so far.

        See :meth:`EarlyStopping.after`. An epoch just as good as the best counts as no better.
        """
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

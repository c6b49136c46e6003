"""The loop that all learners share: epoch after epoch, with checkpoints, until Ctrl-C at most.

Learning that diverges goes back to the end of the epoch before, and on with smaller steps.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from tqdm.auto import tqdm

from ordinalrbm.engine.thresholds import LARGEST_CUTPOINT
from ordinalrbm.errors import DataError
from ordinalrbm.storage.reader import LARGEST_PARAMETER
from ordinalrbm.training.checkpoint import CheckpointWriter, State
from ordinalrbm.training.schedule import Schedule
from ordinalrbm.vector.monitor import spread_of

# A utility has standard deviation one: no factor that has learnt something moves it so far.
LARGEST_WEIGHT = 20.0
# Nats per answer that a model may lose to the mere frequencies of the answers, by sampling.
_WORST = 0.1
# Standard errors of such a loss that are more than chance, in dozens of epochs.
_CLEARLY = 5.0
_NO_STEPS = np.zeros(0)


class DivergenceError(ArithmeticError):
    """The steps of an epoch were too large."""


class NothingLearntError(DataError):
    """Not one epoch has gone well, however small the steps."""


class Learner(Protocol):
    """What is learnt epoch by epoch."""

    @property
    def history(self) -> Sequence[Any]:
        """A line for each epoch, with the log probability of what is held out."""

    @property
    def schedule(self) -> Schedule | None:
        """The learning rate, for those that have one and may therefore diverge."""

    @property
    def has_model(self) -> bool:
        """Whether there is a model to give, should learning stop now."""

    def goes_on(self) -> bool:
        """Whether there is another epoch to learn."""

    def epoch(self) -> None:
        """Learn for one more epoch."""

    def state(self) -> State:
        """All that is needed to go on from here, in copies."""

    def restore(self, state: State) -> None:
        """Go on from there."""


def learn(
    learner: Learner, writer: CheckpointWriter, n_epochs: int, *, verbose: bool, watched: str
) -> bool:
    """Learn to the end; returns whether Ctrl-C has come before it.

    Ctrl-C before there is a model goes through. Whatever ends learning early, the last epoch that
    has ended is written to a checkpoint if these were asked for.
    """
    writer.restore(learner)
    bar = tqdm(
        total=n_epochs, initial=len(learner.history), desc="learning", unit="epoch",
        disable=not verbose, file=sys.stderr,
    )  # fmt: skip
    try:
        for state in _good_epochs(learner, writer.is_kept):
            writer.after(learner, state)
            bar.update()
            bar.set_postfix_str(f"{watched} {learner.history[-1].validation:.4f}")
    except BaseException as reason:
        writer.flush()
        if not isinstance(reason, KeyboardInterrupt) or not learner.has_model:
            raise
        return True
    finally:
        bar.close()
    if learner.schedule is not None:
        tell_of_divergence(learner.schedule, len(learner.history))
    return False


def _good_epochs(learner: Learner, state_is_wanted: bool) -> Iterator[State]:
    """Learn epoch after epoch; gives the state after each that has gone well."""
    schedule = learner.schedule
    state_is_wanted = state_is_wanted or schedule is not None
    state = learner.state() if state_is_wanted else {}
    while learner.goes_on():
        try:
            # What overflows is noticed at the end of the epoch.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                learner.epoch()
        except DivergenceError:
            assert schedule is not None, "only those with a learning rate diverge"
            try:
                learner.restore(state)
            except ValueError as error:
                told = f"Learning diverged from where it began ({error})"
                raise NothingLearntError(f"{told}; set learning_rate much lower.") from error
            if not schedule.slow_down():
                return
            state = learner.state()
            continue
        state = learner.state() if state_is_wanted else {}
        yield state


def refuse_divergence(
    weights: np.ndarray, others: Iterable[np.ndarray], cutpoints: np.ndarray = _NO_STEPS
) -> None:
    """Raise DivergenceError if parameters are such that no file may hold them."""
    bounded = _within(weights, LARGEST_WEIGHT) and cutpoints.max(initial=0.0) <= LARGEST_CUTPOINT
    if not bounded or not all(_within(part, LARGEST_PARAMETER) for part in others):
        raise DivergenceError


def _within(numbers: np.ndarray, largest: float) -> bool:
    return bool(np.abs(numbers).max(initial=0.0) <= largest)  # which NaN is not


def refuse_nonsense(found: np.ndarray, usual: np.ndarray, weight: np.ndarray | None = None) -> None:
    """Raise DivergenceError if answers are clearly less likely than without a model.

    They are answers that are learnt from: of others a model may be wrong by overfitting, against
    which smaller steps are no remedy.

    Parameters
    ----------
    found : log probability of each answer
    usual : the same by how often each answer was given, see :func:`ordinalrbm.vector.monitor.usual`
    weight : of each answer, if they differ
    """
    if not found.size:
        return
    lost, deviation, size = spread_of(
        usual - found, np.ones(found.size) if weight is None else weight
    )
    # One nat more: how a few answers differ says little about how they might.
    error = (deviation + 1.0) / np.sqrt(size)
    if not lost <= _WORST + _CLEARLY * error:
        raise DivergenceError


def tell_of_divergence(schedule: Schedule, n_epochs: int, stacklevel: int = 5) -> None:
    """Warn if learning had to go back; ``n_epochs`` have gone well, refused if there are none."""
    if not schedule.n_slowed:
        return
    diverged = f"Learning diverged with learning_rate={schedule.first_rate:g}"
    now = f"{schedule.learning_rate:g}"
    if not schedule.has_given_up:
        told = f"{diverged} and went on with {now}; set learning_rate to {now} or less."
    elif n_epochs:
        told = (
            f"{diverged} and still with {now} after epoch {n_epochs}, where it has "
            "ended; the best model so far is kept, set learning_rate much lower."
        )
    else:
        told = f"{diverged} and still with {now}; set learning_rate much lower."
        raise NothingLearntError(told)
    warnings.warn(told, ConvergenceWarning, stacklevel=stacklevel)

"""The loop that all learners share: epoch after epoch, with checkpoints, until Ctrl-C at most.

Learning that diverges goes back to the end of the epoch before, and on with smaller steps.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

import numpy as np
from tqdm.auto import tqdm

from ordinalrbm.errors import DataError
from ordinalrbm.runtime import process_group
from ordinalrbm.runtime.threads import one_blas_thread
from ordinalrbm.training.checkpoint import CheckpointWriter
from ordinalrbm.training.schedule import DivergenceError, NothingLearntError, warn_of_divergence
from ordinalrbm.training.state import Learner, State

_log = logging.getLogger(__name__)


class Epoch(NamedTuple):
    """What a callback gets after each epoch.

    Its number from 1, the mean log-likelihood of the held-out answers or ratings (NaN where none
    were predicted), the learning rate (NaN where there is none), and seconds since learning began.
    """

    epoch: int
    validation: float
    learning_rate: float
    seconds: float


Callback = Callable[[Epoch], Any]


class Calls:
    """Calls a function after every epoch that is learnt inside ``with``; knows if it has stopped that."""

    def __init__(self, callback: Callback | None) -> None:
        if callback is not None and not callable(callback):
            raise DataError(f"The 'callback' parameter must be a function. Got {callback!r} instead.")
        self.callback, self.has_stopped = callback, False

    def __enter__(self) -> Self:
        self._before = _calls.set(self)
        return self

    def __exit__(self, *reason: object) -> None:
        _calls.reset(self._before)

    def stops(self, learner: Learner) -> bool:
        """Call it after an epoch, in the first of several processes; returns whether all are to stop."""
        if self.callback is None:
            return False
        callback, line = self.callback, learner.history[-1]
        rate = float(getattr(line, "learning_rate", np.nan))
        epoch = Epoch(line.epoch, float(line.validation), rate, line.seconds)
        among = process_group.current() or process_group.ALONE
        self.has_stopped = among.broadcast_object(lambda: bool(callback(epoch)))
        return self.has_stopped


_calls: ContextVar[Calls] = ContextVar("calls")


def learn(learner: Learner, writer: CheckpointWriter, n_epochs: int, *, verbose: bool, watched: str) -> bool:
    """Learn to the end; returns whether Ctrl-C or a callback has stopped it before.

    Ctrl-C before there is a model goes through. Whatever ends learning early, the last epoch that
    has ended is written to a checkpoint, if these are kept.
    """
    writer.restore(learner)
    calls = _calls.get(None)
    bar = tqdm(
        total=n_epochs,
        initial=len(learner.history),
        desc="learning",
        unit="epoch",
        disable=not verbose,
        file=sys.stderr,
    )
    try:
        for state in _good_epochs(learner):
            writer.after(learner, state)
            bar.update()
            value = learner.history[-1].validation
            bar.set_postfix_str(f"{watched} {value:.4f}")
            _log.info("epoch %d of at most %d, %s %.4f", len(learner.history), n_epochs, watched, value)
            if calls is not None and calls.stops(learner):
                writer.flush()
                return True
    except BaseException as reason:
        writer.flush()
        if not isinstance(reason, KeyboardInterrupt) or not learner.has_model:
            raise
        return True
    finally:
        bar.close()
    if learner.schedule is not None:
        warn_of_divergence(learner.schedule, len(learner.history))
    return False


def _good_epochs(learner: Learner) -> Iterator[State | None]:
    """Learn epoch after epoch; yields the state after each that has gone well, if it is known."""
    schedule = learner.schedule
    state = None if schedule is None else learner.state()
    while learner.goes_on():
        try:
            # What overflows is noticed at the end of the epoch. Sums of matrix products must not depend on
            # the number of threads, and those of the BLAS would spin in the way of the kernels' own.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"), one_blas_thread():
                learner.epoch()
        except DivergenceError:
            assert schedule is not None and state is not None, "others do not diverge"
            try:
                learner.restore(state)
            except ValueError as error:
                reason = f"Learning diverged from where it began ({error})"
                raise NothingLearntError(f"{reason}; set learning_rate much lower.") from error
            if not schedule.slow_down():
                return
            state = learner.state()
            continue
        if schedule is not None:
            state = learner.state()
        yield state

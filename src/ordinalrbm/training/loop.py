"""The loop that all learners share: epoch after epoch, with checkpoints, until Ctrl-C at most.

Learning that diverges goes back to the end of the epoch before, and on with smaller steps.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import numpy as np
from tqdm.auto import tqdm

from ordinalrbm.training.checkpoint import CheckpointWriter
from ordinalrbm.training.schedule import DivergenceError, NothingLearntError, warn_of_divergence
from ordinalrbm.training.state import Learner, State

_log = logging.getLogger(__name__)


def learn(learner: Learner, writer: CheckpointWriter, n_epochs: int, *, verbose: bool, watched: str) -> bool:
    """Learn to the end; returns whether Ctrl-C has come before it.

    Ctrl-C before there is a model goes through. Whatever ends learning early, the last epoch that
    has ended is written to a checkpoint, if these are kept.
    """
    writer.restore(learner)
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
            # What overflows is noticed at the end of the epoch.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
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

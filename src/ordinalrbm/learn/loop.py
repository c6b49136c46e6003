"""The loop that all learners share: epoch after epoch, with checkpoints, until Ctrl-C at most."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

from tqdm.auto import tqdm

from ordinalrbm.learn.checkpoint import State, Trail


class Learner(Protocol):
    """What is learnt epoch by epoch."""

    @property
    def history(self) -> Sequence[Any]:
        """A line for each epoch, with the log probability of what is held out."""

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


def learn(learner: Learner, trail: Trail, n_epochs: int, *, verbose: bool, watched: str) -> bool:
    """Learn to the end; returns whether Ctrl-C has come before it.

    Ctrl-C before there is a model goes through. Whatever ends learning early, the last epoch that
    has ended is written to a checkpoint if these were asked for.
    """
    trail.restore(learner)
    bar = tqdm(
        total=n_epochs, initial=len(learner.history), desc="learning", unit="epoch",
        disable=not verbose, file=sys.stderr,
    )  # fmt: skip
    try:
        while learner.goes_on():
            learner.epoch()
            trail.after(learner)
            bar.update()
            bar.set_postfix_str(f"{watched} {learner.history[-1].validation:.4f}")
    except BaseException as reason:
        trail.flush()
        if not isinstance(reason, KeyboardInterrupt) or not learner.has_model:
            raise
        return True
    finally:
        bar.close()
    return False

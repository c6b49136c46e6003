"""What learners of matrices give back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ordinalrbm.matrix.model import Precisions

_NO_HISTORY = ("epoch", "validation", "seconds")


class Loaded(NamedTuple):
    """Ratings where a backend has them, so that nobody need bring them there again."""

    backend: Any
    counted: Any  # how many there are
    views: Any


class Fitted(NamedTuple):
    """Models to average over (the best epoch's, or several of the last), and how learning went.

    ``precisions`` are those of the priors of columns and of rows of binary factors, None for what
    has nothing to learn; models with Gaussian factors hold theirs. ``loaded`` are all ratings, with
    those that were held out, if they were learnt from in the end.
    """

    models: list[Any]
    best_epoch: int
    history: Sequence[Any]
    interrupted: bool
    precisions: tuple[Precisions | None, Precisions | None] = (None, None)
    loaded: Loaded | None = None

    @property
    def columns(self) -> list[str]:
        """Names of what the history holds."""
        return list(self.history[0]._fields if self.history else _NO_HISTORY)


def evenly_shared(models: Sequence[Any]) -> list[Any]:
    """The models, each with the same part in their predictions."""
    return [model._replace(share=1.0 / len(models)) for model in models]

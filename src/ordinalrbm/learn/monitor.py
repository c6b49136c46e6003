"""How learning is watched: answers hidden from it, and answers hidden only from the watcher."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.infer.posterior import draws, mean_field
from ordinalrbm.infer.predict import Cells, log_of_level, mixed, probabilities
from ordinalrbm.model.vector import Unanswered, VectorModel, side

# So many rows are watched at most: enough for a standard error of about 0.005 nats.
_WATCHED_ROWS = 4000
_DRAWS = 50
# Standard errors of a difference that are more than chance.
_CLEARLY = 2.0


class Monitor(NamedTuple):
    """Rows that are watched: what they show, and the answers that are to be predicted from it.

    ``held_out`` answers are never learnt from; their likelihood decides when to stop.
    ``seen`` answers are learnt from, but hidden from the watcher: their likelihood given the other
    answers is the pseudo-likelihood of the training data.
    """

    shown: Observations
    held_out: Cells
    seen: Cells

    def measure(self, model: VectorModel, unanswered: Unanswered) -> tuple[float, float]:
        """Mean log probability of the held-out and of the seen answers, by mean-field."""
        this = side(model, self.shown, unanswered)
        found = mean_field(model, this)
        held_out, seen = (
            log_of_level(mixed(model, this, found, cells), cells.level).mean()
            for cells in (self.held_out, self.seen)
        )
        return float(held_out), float(seen)

    def is_worse(
        self, model: VectorModel, other: VectorModel, unanswered: Unanswered, seed: int
    ) -> bool:
        """Whether a model predicts the held-out answers worse than another, beyond chance."""
        first, second = (self._by_draws(each, unanswered, seed) for each in (model, other))
        lost = second - first
        return bool(lost.mean() > _CLEARLY * lost.std() / np.sqrt(lost.size))

    def _by_draws(self, model: VectorModel, unanswered: Unanswered, seed: int) -> np.ndarray:
        """Log probability of each held-out answer, by sampling: slower and unbiased."""
        chain = draws(model, side(model, self.shown, unanswered), _DRAWS, seed)
        distribution = probabilities(model, chain, self.held_out)
        return log_of_level(distribution, self.held_out.level)


def set_aside(
    observations: Observations, fraction: float, seed: int
) -> tuple[Observations, Monitor | None]:
    """Answers to learn from, and a monitor of the rest.

    Answers are hidden, not rows: a model of answers is asked for answers. In large data only the
    first rows are watched (their order is random by now), so that watching stays cheap.
    """
    rng = np.random.default_rng(seed)
    n_rows = min(observations.n_rows, _WATCHED_ROWS)
    n_watched = int(observations.row_start[n_rows])
    draw = rng.random(n_watched)
    held_out, seen = draw < fraction, draw >= 1.0 - fraction
    if fraction == 0.0 or not held_out.any() or not seen.any():
        return observations, None
    learnt = np.ones(observations.n_entries, dtype=bool)
    learnt[:n_watched] = ~held_out
    watched = observations.take_rows(np.arange(n_rows))
    return observations.select(learnt), Monitor(
        shown=watched.select(~(held_out | seen)),
        held_out=_cells(watched, held_out),
        seen=_cells(watched, seen),
    )


def _cells(observations: Observations, chosen: np.ndarray) -> Cells:
    part = observations.select(chosen)
    return Cells(part.row_start, part.column, part.level)

"""How learning is watched: answers hidden from it, and answers hidden only from the watcher."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.infer.posterior import draws, mean_field
from ordinalrbm.infer.predict import Cells, log_of_level, mixed, probabilities
from ordinalrbm.model.vector import Unanswered, VectorModel, level_counts, side

# So many rows are watched at most: enough for a standard error of about 0.005 nats.
_WATCHED_ROWS = 4000
_DRAWS = 50
# Standard errors of a difference that are more than chance.
_CLEARLY = 2.0
# Share of the answers that are seen by learning and hidden from the watcher, if none is held out.
_SEEN = 0.05
# Every question has so many answers more, evenly over its levels: some have few of their own.
_EVEN_ANSWERS = 5.0


class Monitor(NamedTuple):
    """Rows that are watched: what they show, and the answers that are to be predicted from it.

    ``held_out`` answers are never learnt from; their likelihood decides when to stop. There may
    be none. ``seen`` answers are learnt from, but hidden from the watcher: their likelihood given
    the other answers is the pseudo-likelihood of the training data. ``usual`` are the log
    probabilities of the held-out answers, or else of the seen ones, without a model.
    """

    shown: Observations
    held_out: Cells
    seen: Cells
    usual: np.ndarray

    def measure(self, model: VectorModel, unanswered: Unanswered) -> tuple[np.ndarray, np.ndarray]:
        """Log probabilities of the held-out and of the seen answers, by mean-field."""
        this = side(model, self.shown, unanswered)
        found = mean_field(model, this)
        held_out, seen = (
            log_of_level(mixed(model, this, found, cells), cells.level)
            for cells in (self.held_out, self.seen)
        )
        return held_out, seen

    def is_worse(
        self, model: VectorModel, other: VectorModel, unanswered: Unanswered, seed: int
    ) -> bool:
        """Whether a model predicts the held-out answers worse than another, beyond chance."""
        if not self.held_out.level.size:
            return False
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
    held_out, seen = draw < fraction, draw >= 1.0 - (fraction or _SEEN)
    if not seen.any():
        return observations, None
    learnt = np.ones(observations.n_entries, dtype=bool)
    learnt[:n_watched] = ~held_out
    watched = observations.take_rows(np.arange(n_rows))
    to_learn = observations.select(learnt)
    hidden, known = _cells(watched, held_out), _cells(watched, seen)
    judged = hidden if hidden.level.size else known
    return to_learn, Monitor(
        shown=watched.select(~(held_out | seen)),
        held_out=hidden,
        seen=known,
        usual=usual(to_learn, judged.column, judged.level),
    )


def usual(learnt: Observations, column: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Log probability of answers by how often each was given to that question; −1 is any question.

    What a model must not be worse than.
    """
    counts, n_levels = level_counts(learnt), learnt.n_levels
    counts = np.vstack([counts, counts.sum(axis=0)])
    n_levels = np.append(n_levels, counts.shape[1])
    alike = (counts[column, level] + _EVEN_ANSWERS / n_levels[column]) / (
        counts.sum(axis=1)[column] + _EVEN_ANSWERS
    )
    return np.log(alike)


def _cells(observations: Observations, chosen: np.ndarray) -> Cells:
    part = observations.select(chosen)
    return Cells(part.row_start, part.column, part.level)

"""How learning is watched: by answers hidden from it, and by answers that it sees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import NUMERIC
from ordinalrbm.training.divergence import spread_of, usual
from ordinalrbm.vector.model import Unanswered, VectorModel, level_counts, of_answers, side
from ordinalrbm.vector.posterior import draws, mean_field
from ordinalrbm.vector.predict import Cells, cells_of, log_probability, mixed, probabilities

# So many rows are watched at most: enough for a standard error of about 0.005 nats.
_WATCHED_ROWS = 4000
_DRAWS = 50
# Standard errors of a difference that are more than chance.
_CLEARLY = 2.0
# Share of the answers that are learnt from and predicted all the same, if none is held out.
_SEEN = 0.05


class Watched(NamedTuple):
    """Answers to be predicted, and the weight of each, that of its row."""

    cells: Cells
    weight: np.ndarray

    def mean(self, values: np.ndarray) -> float:
        """Return the weighted mean of a number per answer; NaN where there are none."""
        return float(np.average(values, weights=self.weight)) if values.size else np.nan


class Monitor(NamedTuple):
    """Rows that are watched: the answers that are shown, and those to be predicted from them.

    ``held_out`` answers are never learnt from; their likelihood decides when to stop. There may
    be none. ``seen`` answers are learnt from: their likelihood given those shown is the
    pseudo-likelihood of the training data. ``usual`` are their log probabilities without a model.
    """

    shown: Observations
    held_out: Watched
    seen: Watched
    usual: np.ndarray

    def measure(self, model: VectorModel, unanswered: Unanswered) -> tuple[np.ndarray, np.ndarray]:
        """Return log probabilities of the held-out and of the seen answers, by mean-field."""
        this = side(model, self.shown, unanswered)
        found = mean_field(model, this)
        held_out, seen = (
            log_probability(model, mixed(model, this, found, cells), cells)
            for cells in (self.held_out.cells, self.seen.cells)
        )
        return held_out, seen

    def is_worse(self, model: VectorModel, other: VectorModel, unanswered: Unanswered, seed: int) -> bool:
        """Whether a model predicts the held-out answers worse than another, beyond chance."""
        weight = self.held_out.weight
        if not weight.size:
            return False
        first, second = (self._by_draws(each, unanswered, seed) for each in (model, other))
        lost, deviation, size = spread_of(second - first, weight)
        return bool(lost > _CLEARLY * deviation / np.sqrt(size))

    def _by_draws(self, model: VectorModel, unanswered: Unanswered, seed: int) -> np.ndarray:
        """Log probability of each held-out answer, by sampling: slower and unbiased."""
        chain = draws(model, side(model, self.shown, unanswered), _DRAWS, seed)
        cells = self.held_out.cells
        return log_probability(model, probabilities(model, chain, cells), cells)


def set_aside(
    observations: Observations, fraction: float, seed: int, row_weight: np.ndarray | None = None
) -> tuple[Observations, Monitor | None]:
    """Return the answers to learn from, and a monitor of the rest.

    Answers are hidden, not rows: a model of answers is asked for answers. In large data only the
    first rows are watched (their order is random by now), so that watching stays cheap.
    """
    rng = np.random.default_rng(seed)
    n_rows = min(observations.n_rows, _WATCHED_ROWS)
    n_watched = int(observations.row_start[n_rows])
    draw = rng.random(n_watched)
    held_out, seen = draw < fraction, draw >= 1.0 - (fraction or _SEEN)
    if not seen.any() or not (held_out.any() or fraction == 0.0):
        return observations, None
    learnt = np.ones(observations.n_entries, dtype=bool)
    learnt[:n_watched] = ~held_out
    to_learn = observations.select(learnt)
    watched = observations.take_rows(np.arange(n_rows))
    weight = None if row_weight is None else row_weight[:n_rows]
    hidden, known = _watched(watched, held_out, weight), _watched(watched, seen, weight)
    return to_learn, Monitor(
        shown=watched.select(~(held_out | seen)),
        held_out=hidden,
        seen=known,
        usual=_usual(to_learn, row_weight, known.cells),
    )


def _usual(learnt: Observations, row_weight: np.ndarray | None, cells: Cells) -> np.ndarray:
    """Log probability of answers without a model; numbers are standard normal then."""
    counts = level_counts(learnt, row_weight)
    found = usual(counts, learnt.n_levels, cells.column, cells.level)
    kind = learnt.kind
    if not kind.size:
        return found
    normal = -0.5 * np.log(2.0 * np.pi) - 0.5 * cells.value**2
    return np.where(kind[cells.column] == NUMERIC, normal, found)


def _watched(observations: Observations, chosen: np.ndarray, row_weight: np.ndarray | None) -> Watched:
    part = observations.select(chosen)
    return Watched(cells_of(part), of_answers(part, row_weight))

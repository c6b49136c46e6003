"""How much the prior has drawn loadings towards zero, by the correlations of the answers.

Priors count the same however many answers there are: where most are missing, the model's
correlations of utilities fall short of the polychoric ones of the answers. All pairs of questions
together tell by which factor, and a loading falls short by the root of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordinalrbm.data.answers import ORDINAL, kinds_of
from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.vector import polychoric
from ordinalrbm.vector.loadings import Population, utility_spread
from ordinalrbm.vector.model import VectorModel, level_counts

# More rows hardly say it better, and tables of more columns take long.
_ENOUGH_ROWS, _MOST_COLUMNS = 10_000, 2_000
# Standard errors that are more than chance.
_CLEARLY = 2.0


class Attenuation(NamedTuple):
    """Answers' correlations over the model's: the factor between the two, and its error."""

    ratio: float
    error: float

    @property
    def kept(self) -> float:
        """What is left of a loading: one if nothing is clearly lost."""
        return self.ratio**-0.5 if self.ratio > 1.0 + _CLEARLY * self.error else 1.0


def attenuation(model: VectorModel, people: Population, answers: Observations) -> Attenuation:
    """Compare correlations of ordered questions with those that the model would have."""
    if answers.n_rows > _ENOUGH_ROWS:
        answers = answers.take_rows(np.arange(_ENOUGH_ROWS))
    ordinal = np.arange(answers.n_columns)
    kind = kinds_of(answers)
    if kind.size:
        ordinal = np.flatnonzero(kind == ORDINAL)
        levels = answers.to_dense()[:, ordinal]
        answers = Observations.from_dense(levels, answers.n_levels[ordinal])
    if not 1 < ordinal.size <= _MOST_COLUMNS:
        return Attenuation(1.0, np.inf)
    n_levels = answers.n_levels
    cutpoints = thresholds.at_marginals(level_counts(answers), n_levels)
    found = polychoric.polychoric(answers, thresholds.table(cutpoints, n_levels))
    # Each pair was counted with some uncorrelated answers more, which few common rows feel.
    more = polychoric.prior_answers(n_levels[:, None], n_levels[None, :])
    seen = found.correlation * (1.0 + more / np.maximum(found.common, 1))
    rows = np.triu(polychoric.effective_rows(found), 1)
    implied = _implied(model, people, ordinal)
    weight = float((rows * implied**2).sum())
    if weight <= 0.0:
        return Attenuation(1.0, np.inf)
    return Attenuation(float((rows * implied * seen).sum()) / weight, weight**-0.5)


def _implied(model: VectorModel, people: Population, ordinal: np.ndarray) -> np.ndarray:
    """Correlations of the utilities of these questions by the model."""
    own = model.layout.first[ordinal]
    weights = model.weights[own].astype(np.float64) @ people.root
    standardised = weights / utility_spread(weights)[:, None]
    return standardised @ standardised.T

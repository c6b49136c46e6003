"""New rows and columns of a matrix with continuous factors: the learner's own half-sweep.

Given the columns, a new row is a regression like any other (:mod:`ordinalrbm.engine.regress`);
sweeps are repeated until its means stay where they are.
"""

from __future__ import annotations

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.party import Party, Prior
from ordinalrbm.engine.regress import renew, widths_of

_MOST_SWEEPS = 40


def placed(
    answers: Observations, columns: Party, prior: Prior, n_levels: np.ndarray, settled: float
) -> Party:
    """Rows inferred from their answers, the columns staying as they are.

    ``settled`` is the change of a coordinate, beside its standard deviation, at which to stop.
    """
    n_rows, width = answers.n_rows, columns.mean.shape[1]
    nothing = np.zeros((n_rows, width), dtype=np.float32)
    unknown = np.tile(np.float32(1.0) / prior.precision, (n_rows, 1))
    steps = prior.steps.copy()
    rows = Party(nothing, unknown, steps, widths_of(steps), n_levels.astype(np.int32))
    for _ in range(_MOST_SWEEPS):
        before = rows.mean.copy()
        renew(answers, rows, columns, prior)
        moved = (rows.mean - before) ** 2
        if (moved <= settled**2 * rows.variance).all():
            break
    return rows

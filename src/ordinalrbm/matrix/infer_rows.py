"""New rows and columns of a matrix with continuous factors: the learner's own half-sweep.

Given the columns, a new row is a regression like any other (:mod:`ordinalrbm.engine.half_sweep`);
sweeps are repeated until its means stay where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import half_sweep
from ordinalrbm.engine.gaussian_state import FactorPosterior, Prior

_MOST_SWEEPS = 40


class OnCores:
    """Where rows are renewed: here, on this machine's cores, with arrays as they are.

    On a GPU it is :class:`ordinalrbm.matrix.gpu.fold_in.OnGpu`.
    """

    half_sweep = staticmethod(half_sweep.half_sweep)

    def answers(self, observations: Observations) -> Any:
        """Answers in the engine's form."""
        return observations

    def array(self, values: np.ndarray) -> Any:
        """An array in the engine's form."""
        return values

    def to_host(self, values: Any) -> np.ndarray:
        """An array of NumPy's again."""
        return values


ON_CORES = OnCores()


def placed(
    answers: Observations,
    columns: FactorPosterior,
    prior: Prior,
    n_levels: np.ndarray,
    settled: float,
    where: Any = ON_CORES,
) -> FactorPosterior:
    """Rows inferred from their answers, the columns staying as they are.

    ``settled`` is the change of a coordinate, beside its standard deviation, at which to stop;
    ``where`` says where this is done.
    """
    n_rows, width = answers.n_rows, columns.mean.shape[1]
    nothing = np.zeros((n_rows, width), dtype=np.float32)
    unknown = np.tile(np.float32(1.0) / prior.precision, (n_rows, 1))
    cutpoints = prior.cutpoints.copy()
    rows = FactorPosterior(
        nothing, unknown, cutpoints, half_sweep.gaps_of(cutpoints), n_levels.astype(np.int32)
    )
    rows, columns = (FactorPosterior(*map(where.array, posterior)) for posterior in (rows, columns))
    prior, given = prior._replace(cutpoints=where.array(prior.cutpoints)), where.answers(answers)
    for _ in range(_MOST_SWEEPS):
        before = 1.0 * rows.mean  # a copy, whatever kind of array it is
        where.half_sweep(given, rows, columns, prior)
        moved = (rows.mean - before) ** 2
        if (moved <= settled**2 * rows.variance).all():
            break
    return FactorPosterior(*map(where.to_host, rows))

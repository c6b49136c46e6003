"""New rows of a matrix with Gaussian factors: the learner's own half-sweep, repeated.

Given the columns, a new row is a regression like any other (:mod:`ordinalrbm.engine.half_sweep`);
sweeps are repeated until its means stay where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.gaussian_state import NO_VALUES, FactorPosterior, Prior
from ordinalrbm.matrix.gaussian import posterior_of

_MOST_SWEEPS = 40


def infer_rows(
    answers: Observations,
    columns: FactorPosterior,
    prior: Prior,
    n_levels: np.ndarray,
    settled: float,
    backend: Any,
    *,
    values: np.ndarray = NO_VALUES,
    is_point: bool = False,
    start: FactorPosterior | None = None,
    most_sweeps: int = _MOST_SWEEPS,
) -> FactorPosterior:
    """Posterior of rows given their answers, the columns staying as they are.

    ``settled`` is the change of a coordinate, beside its standard deviation, at which to stop.
    They begin at ``start``, which is changed in place, or where the prior expects them.
    """
    n_rows, width = answers.n_rows, columns.mean.shape[1]
    nothing = np.zeros((n_rows, width), dtype=np.float32)
    if prior.mean.shape[1]:
        nothing[:] = prior.mean  # begin where they are expected
    unknown = np.tile(np.float32(1.0) / prior.precision, (n_rows, 1))
    variance = nothing.copy() if is_point else unknown
    rows = start or posterior_of(nothing, variance, prior.cutpoints.copy(), n_levels)
    options: dict[str, Any] = {"spread": not is_point}
    if values.size:
        options["values"] = values
    with backend.working():
        rows, columns = backend.to_device(rows), backend.to_device(columns)
        prior = backend.to_device(prior)
        given = backend.answers(answers)
        for _ in range(most_sweeps):
            before = 1.0 * rows.mean  # a copy, whatever kind of array it is
            backend.half_sweep(given, rows, columns, prior, **options)
            moved = (rows.mean - before) ** 2
            if (moved <= settled**2 * rows.variance).all():
                break
        return backend.to_host(rows)

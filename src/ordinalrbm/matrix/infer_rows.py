"""New rows of a matrix with Gaussian factors: the learner's own half-sweep, repeated.

Given the columns, a new row is a regression like any other (:mod:`ordinalrbm.engine.half_sweep`);
sweeps are repeated until its means stay where they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.base import NO_VALUES, FactorPosterior, Prior
from ordinalrbm.matrix.variational import posterior_of

_MOST_SWEEPS = 40


class InferOptions(NamedTuple):
    """How rows are inferred, and until when."""

    settled: float  # change of a coordinate, beside its standard deviation, at which to stop
    values: np.ndarray = NO_VALUES  # of levels, if these stand for any
    is_point: bool = False
    start: FactorPosterior | None = None  # else where the prior expects them; changed in place
    most_sweeps: int | None = None  # by default until they have settled, within reason


def infer_rows(
    answers: Observations,
    columns: FactorPosterior,
    prior: Prior,
    n_levels: np.ndarray,
    options: InferOptions,
    backend: Any,
) -> FactorPosterior:
    """Posterior of rows given their answers, the columns staying as they are.

    ``n_levels`` are those that each row may use.
    """
    n_rows, width = answers.n_rows, columns.mean.shape[1]
    nothing = np.zeros((n_rows, width), dtype=np.float32)
    if prior.mean.shape[1]:
        nothing[:] = prior.mean  # begin where they are expected
    unknown = np.tile(np.float32(1.0) / prior.precision, (n_rows, 1))
    variance = nothing.copy() if options.is_point else unknown
    rows = options.start or posterior_of(nothing, variance, prior.cutpoints.copy(), n_levels)
    how: dict[str, Any] = {"spread": not options.is_point}
    if options.values.size:
        how["values"] = options.values
    with backend.working():
        rows, columns = backend.to_device(rows), backend.to_device(columns)
        prior = backend.to_device(prior)
        given = backend.answers(answers)
        for _ in range(options.most_sweeps or _MOST_SWEEPS):
            before = 1.0 * rows.mean  # a copy, whatever kind of array it is
            backend.half_sweep(given, rows, columns, prior, **how)
            moved = (rows.mean - before) ** 2
            if (moved <= options.settled**2 * rows.variance).all():
                break
        return backend.to_host(rows)

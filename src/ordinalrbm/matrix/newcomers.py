"""Lists for those who bring a few ratings, in one compiled call from ratings to lists.

What a service is asked most must cost little, and what each step costs beside its kernel (see
:mod:`ordinalrbm.matrix.update`) is more than all that kernels do for a few ratings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange
from scipy import linalg

from ordinalrbm.engine import thresholds
from ordinalrbm.engine.base import FactorPosterior, Prior
from ordinalrbm.engine.half_sweep import settle_row, work_of_row
from ordinalrbm.engine.side import answers_of, row_view
from ordinalrbm.engine.thresholds import add_scaled, dot
from ordinalrbm.matrix.blend import DemandArrays
from ordinalrbm.matrix.feature_priors import TrainedRows, add_expected
from ordinalrbm.matrix.implicit_als import Demand
from ordinalrbm.matrix.item_weights import Past
from ordinalrbm.matrix.top_n import Best, LeftOut, Liking, list_row, to_records
from ordinalrbm.matrix.update import MOST_SWEEPS, SETTLED
from ordinalrbm.matrix.variational import posterior_of
from ordinalrbm.runtime.jit import compiled, kernel_function

_LEAST_PULL = 1e-12  # rounding may leave less than nothing


class NewRows(NamedTuple):
    """What new rows are inferred by, as kernels see it.

    In the axes V the demand of a row without answers is solved by a diagonal: Vᵀ A V = 1 and Vᵀ P V = D,
    where A is what rows are solved by alone, and P the precision of the prior.
    """

    start: FactorPosterior  # of one row
    prior: Prior
    others: tuple[Any, ...]
    values: np.ndarray
    groups: np.ndarray  # of gaps that move together
    demand: DemandArrays
    usual: float  # number of answers
    axes: np.ndarray  # (K, K), V
    pull: np.ndarray  # (K,), D
    towards: np.ndarray  # (K,), Vᵀ P m

    @classmethod
    def of(cls, model: Any, others: TrainedRows, demand: Demand) -> NewRows:
        """Of a model with Gaussian factors, that is no point; without features but rated sets."""
        own, cutpoints = model.row_prior, others.cutpoints[None]
        variance = (np.float32(1.0) / own.precision)[None]
        start = posterior_of(np.zeros_like(variance), variance, cutpoints, np.array([model.most_levels]))
        prior = Prior(own.precision, cutpoints, own.cutpoints_precision)
        groups = thresholds.moving_gaps(cutpoints.shape[1])
        usual, mean, precision = demand.row_prior
        pull, axes = linalg.eigh(precision, demand.alone)
        towards, axes = axes.T @ precision @ mean, np.ascontiguousarray(axes)
        inferred_by = start, prior, others.arrays(own.weights.each), model.values, groups
        return cls(*inferred_by, demand.arrays(), usual, axes, np.maximum(pull, _LEAST_PULL), towards)


def best_liked(new: NewRows, past: Past, row: np.ndarray, n: int, liking: Liking, left_out: LeftOut) -> Best:
    """What :func:`ordinalrbm.matrix.top_n.best_liked` finds for some rows of the past, which are new."""
    n = min(n, len(new.demand[0]))
    item, score = np.empty((row.size, n), dtype=np.int32), np.empty((row.size, n), dtype=np.float32)
    flat = *new[:5], *new.demand, *new[6:]  # threads take no tuples of tuples
    what = row_view(past.answers), past.arrays(), left_out.arrays(), *flat
    _best_of_new(row, *what, liking.columns, liking.lowest, item, score)
    return to_records(item, score)


# ---- kernels ----------------------------------------------------------------------------------


@compiled(parallel=True)
def _best_of_new(
    row, answers, past, left_out, start, prior, others, values, groups,
    of_demand, neighbours, liked, sequence, exponents, least, usual, axes, pull, towards,
    columns, lowest, item, score,
):  # fmt: skip
    for r in prange(row.size):
        demand = of_demand, neighbours, liked, sequence, exponents, least
        new = NewRows(start, prior, others, values, groups, demand, usual, axes, pull, towards)
        own = answers_of(answers, row[r])
        factors, liking = _demand(own, new), (_inferred(own, new, columns), columns, lowest)
        list_row(factors, past, row[r], demand, left_out, liking, 0, item[r], score[r])


@kernel_function
def _demand(answers, new):
    """What :meth:`Demand.infer_rows` finds: a regression to which one answer is added after the other."""
    column, weight, columns, axes = answers[0], answers[3], new.demand[0], new.axes
    share = min(column.size / new.usual, 1.0) if new.usual > 0.0 else 1.0
    inverse = np.diag(1.0 / (share + (1.0 - share) * new.pull))
    own = (1.0 - share) * np.diag(inverse) * new.towards
    chosen, along = np.empty_like(own), np.empty_like(own)
    for e in range(column.size):
        times = np.float64(weight[e]) if weight.size else 1.0
        chosen[:] = 0.0
        for a in range(len(axes)):
            add_scaled(chosen, columns[column[e], a], axes[a])
        for a in range(len(axes)):
            along[a] = dot(inverse[a], chosen)
        gain = times / (1.0 + times * dot(chosen, along))
        add_scaled(own, gain * (1.0 - dot(chosen, own)), along)
        for a in range(len(axes)):
            add_scaled(inverse[a], -gain * along[a], along)
    found = np.empty(len(axes), dtype=np.float32)
    for a in range(len(axes)):
        found[a] = dot(axes[a], own)
    return found


@kernel_function
def _inferred(answers, new, columns):
    """Posterior of one new row, as :func:`ordinalrbm.matrix.update.infer_rows` has it."""
    start, prior, values = new.start, new.prior, new.values
    expected, cutpoints_variance = np.zeros_like(start.mean), np.zeros_like(start.cutpoints)
    add_expected(answers[0], new.others, expected[0])
    found = FactorPosterior(
        expected.copy(), start.variance.copy(), start.cutpoints.copy(), start.gaps.copy(), start.n_levels
    )
    prior = Prior(prior.precision, prior.cutpoints, prior.cutpoints_precision, expected)
    work, until = work_of_row(expected.size, new.groups), np.float32(SETTLED * SETTLED)
    settle_row(
        answers, found, columns, prior, True, values, work, cutpoints_variance, 0, 0, until, MOST_SWEEPS
    )
    return found

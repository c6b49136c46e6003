"""New rows and new columns of a matrix model, from their answers, while all others stay.

A new row has factors h, and parameters of its own: weights ω and a bias β for the columns' factors
and widths κ. They are found in turns. Given the parameters, h is a fixed point of mean-field.
Given h, what is left is an ordered probit regression of the answers on the columns' expected
factors with Gaussian priors, whose logarithm is concave in ω and β: Newton's method. The widths
follow by damped steps. New columns are new rows of the same model with the roles swapped.

Continuous factors are placed by the learner's own half-sweep (:mod:`ordinalrbm.matrix.infer_rows`). Where
either is done is given as ``where``: on the cores, or by the same functions on a GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.gaussian_state import Prior
from ordinalrbm.engine.normal import double
from ordinalrbm.engine.sums import add_scaled, dot
from ordinalrbm.matrix.gaussian import facing
from ordinalrbm.matrix.infer_rows import OnCores, placed
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.runtime.jit import compiled, inlined
from ordinalrbm.storage.reader import Stored

# Turns at most, and the change of a mean utility at which to stop before.
MOST_TURNS = 8
SETTLED = 2e-3
# The same for continuous factors: a share of what is left to know.
_SETTLED_SHARE = 0.02
MEAN_FIELD_STEPS = 3
# After so many turns the curvature hardly changes and is kept.
NEW_CURVATURES = 3
# A width changes by this factor (as a logarithm) at most in one turn.
LARGEST_STEP = 0.5
LEAST_INFORMATION = 1e-3
_SMALLEST_PRECISION = 1e-30  # of a file; they are divided by
_INFINITE = 1e6  # ends of levels this far out are as good as infinite


class OfWeights(NamedTuple):
    """Precisions of the priors that weights, biases and log widths were learnt with."""

    weights: float | np.ndarray
    bias: float
    cutpoints: float


class ColdStartPrior(NamedTuple):
    """What the columns of a half are like on the whole: the priors of new ones.

    Precisions are infinite where there are no such parameters to learn.
    """

    factors: np.ndarray  # (factors,) of the rows
    bias: np.ndarray  # (1,) of a column that meets usual factors; its weights are zero
    cutpoints: np.ndarray  # (L + 1, L − 1) for each number of levels
    weights_precision: np.ndarray  # (factors,)
    bias_precision: np.ndarray  # (1,)
    cutpoints_precision: np.ndarray  # (1,)

    @classmethod
    def from_stored(cls, stored: Stored, half: Half) -> ColdStartPrior:
        """What a file says of the columns of this half."""
        n_factors, width = half.n_factors, half.cutpoints.shape[1]
        most = thresholds.LARGEST_CUTPOINT
        precisions = zip(cls._fields[3:], (n_factors, 1, 1), strict=True)
        return cls(
            stored.parameter("factors", np.float64, (n_factors,)),
            stored.parameter("bias", np.float64, (1,)),
            stored.parameter("cutpoints", np.float64, (width + 2, width), high=most),
            *(
                stored.array(name, np.float64, (size,), _SMALLEST_PRECISION, np.inf)
                for name, size in precisions
            ),
        )


def usual(half: Half, n_levels: np.ndarray, prior: OfWeights | None) -> ColdStartPrior:
    """What is usual among the columns of a half, given the learner's prior; None fixes all."""
    factors = half.factors.mean(axis=0, dtype=np.float64)
    bias = np.mean(half.bias + half.weights @ factors, keepdims=True)
    cutpoints = np.tile(half.cutpoints.mean(axis=0), (half.cutpoints.shape[1] + 2, 1))
    for levels in np.unique(n_levels):
        cutpoints[levels] = half.cutpoints[n_levels == levels].mean(axis=0)
    parts = OfWeights(np.inf, np.inf, np.inf) if prior is None else prior
    weights, own, gaps = (np.asarray(part, dtype=np.float64).reshape(-1) for part in parts)
    return ColdStartPrior(
        factors, bias, cutpoints, np.broadcast_to(weights, factors.shape).copy(), own[:1], gaps[:1]
    )


class Facing(NamedTuple):
    """What a row sees of the columns: their parameters, factors and levels; all (columns, …)."""

    weights: np.ndarray
    bias: np.ndarray
    cutpoints: np.ndarray
    factors: np.ndarray
    n_levels: np.ndarray
    factor_bias: np.ndarray


class NewRows(NamedTuple):
    """New rows, to be filled in, and the number of levels that each of them may use."""

    factors: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    cutpoints: np.ndarray
    n_levels: np.ndarray


class Cpu(OnCores):
    """Where new rows are placed: here, on this machine's cores."""

    def take_turns(
        self, rows: Observations, columns: Facing, new: NewRows, usual: ColdStartPrior
    ) -> None:
        """Fill in new rows with binary factors."""
        _place_rows(rows.row_start, rows.column, rows.level, columns, new, usual)


CORES = Cpu()


def fold_in(
    model: MatrixModel, observations: Observations, usuals: list[ColdStartPrior], where: Any = CORES
) -> MatrixModel:
    """The model with more rows and columns.

    Parameters
    ----------
    model : what is known
    observations : all answers; the first rows and columns are those of the model
    usuals : of ``by_rows`` and ``by_columns``
    where : on which device it is done, see :class:`Cores`
    """
    n_rows, n_columns = model.n_rows, model.n_columns
    of_columns, of_rows = usuals
    wider = _with_cold_start(model, observations, of_columns, of_rows)
    has_new_columns = observations.n_columns > n_columns
    rows = observations.take_rows(np.arange(n_rows, observations.n_rows))
    on_known = rows.select(rows.column < n_columns) if has_new_columns else rows
    _infer_rows(wider, on_known, n_rows, of_rows, where)
    if has_new_columns:
        turned = observations.transpose()
        columns = turned.take_rows(np.arange(n_columns, observations.n_columns))
        _infer_columns(wider, columns, n_columns, of_columns, where)
        if on_known.n_entries < rows.n_entries:  # now that the new columns are known
            _infer_rows(wider, rows, n_rows, of_rows, where)
    return wider


def _with_cold_start(
    model: MatrixModel,
    observations: Observations,
    of_columns: ColdStartPrior,
    of_rows: ColdStartPrior,
) -> MatrixModel:
    """The model with new rows and columns of which nothing is known; shares what does not grow."""
    new_levels = observations.n_levels[model.n_columns :]
    most = np.full(observations.n_rows - model.n_rows, _most_levels(model))
    return model._replace(
        by_rows=_longer(model.by_rows, of_columns, new_levels, most.size),
        by_columns=_longer(model.by_columns, of_rows, most, new_levels.size),
        n_levels=observations.n_levels,
    )


def _most_levels(model: MatrixModel) -> int:
    return model.by_rows.cutpoints.shape[1] + 1


def _longer(half: Half, usual: ColdStartPrior, new_levels: np.ndarray, more_rows: int) -> Half:
    more, has_doubts = new_levels.size, half.bias_variance.size > 0
    if more:
        half = half._replace(
            weights=_with_more(half.weights, more, 0.0),
            bias=_with_more(half.bias, more, usual.bias),
            cutpoints=_with_more(half.cutpoints, more, usual.cutpoints[new_levels]),
        )
    if more and has_doubts:
        half = half._replace(
            weights_variance=_with_more(half.weights_variance, more, 1.0 / usual.weights_precision),
            bias_variance=_with_more(half.bias_variance, more, 1.0 / usual.bias_precision),
        )
    if more_rows:
        half = half._replace(factors=_with_more(half.factors, more_rows, usual.factors))
    if more_rows and has_doubts:  # factors have a mean square of one
        doubt = _with_more(half.factors_variance, more_rows, 1.0)
        half = half._replace(factors_variance=doubt)
    return half


def _with_more(array: np.ndarray, more: int, value: Any) -> np.ndarray:
    longer = np.empty((array.shape[0] + more, *array.shape[1:]), dtype=array.dtype)
    longer[: array.shape[0]] = array
    longer[array.shape[0] :] = value
    return longer


def _infer_rows(
    model: MatrixModel, rows: Observations, n_known: int, usual: ColdStartPrior, where: Any
) -> None:
    """Fill in the rows from ``n_known`` on, given all columns."""
    most = np.full(rows.n_rows, _most_levels(model), dtype=np.int32)
    infer = _place if model.is_continuous else _infer
    infer(model.by_rows, model.by_columns, rows, n_known, model.n_levels, most, usual, where)


def _infer_columns(
    model: MatrixModel, columns: Observations, n_known: int, usual: ColdStartPrior, where: Any
) -> None:
    """The same with the roles swapped."""
    most = np.full(model.n_rows, _most_levels(model), dtype=np.int32)
    own = model.n_levels[n_known:]
    infer = _place if model.is_continuous else _infer
    infer(model.by_columns, model.by_rows, columns, n_known, most, own, usual, where)


def _place(
    acting: Half,
    own: Half,
    rows: Observations,
    n_known: int,
    column_levels: np.ndarray,
    row_levels: np.ndarray,
    usual: ColdStartPrior,
    where: Any,
) -> None:
    """Fill in new rows: their continuous factors are in ``acting``, the rest in ``own``."""
    # Factors that are not in use come last in each half, and cost nothing here.
    n_acting = int(np.count_nonzero(acting.weights.any(axis=0)))
    n_own = int(np.count_nonzero(np.isfinite(usual.weights_precision)))
    columns = facing(*_in_use(acting, own, n_acting, n_own), column_levels)
    precision = np.concatenate(
        [usual.bias_precision, np.ones(n_acting), usual.weights_precision[:n_own]]
    )
    gaps = np.full(columns.cutpoints.shape[1], usual.cutpoints_precision[0])
    prior = Prior(precision.astype(np.float32), usual.cutpoints[row_levels], gaps)
    found = placed(rows, columns, prior, row_levels, _SETTLED_SHARE, where)
    answered = np.diff(rows.row_start) > 0
    new = n_known + np.flatnonzero(answered)
    mean, variance = found.mean[answered], found.variance[answered]
    first, second = slice(1, 1 + n_acting), slice(1 + n_acting, None)
    acting.factors[new, :n_acting] = mean[:, first]
    acting.factors_variance[new, :n_acting] = variance[:, first]
    own.weights[new, :n_own] = mean[:, second]
    own.weights_variance[new, :n_own] = variance[:, second]
    own.bias[new], own.bias_variance[new] = mean[:, 0], variance[:, 0]
    own.cutpoints[new] = found.cutpoints[answered]


def _in_use(acting: Half, own: Half, n_acting: int, n_own: int) -> tuple[Half, Half]:
    """Both halves with what is in use of the weights and factors that rows see."""
    return (
        acting._replace(
            weights=acting.weights[:, :n_acting],
            weights_variance=acting.weights_variance[:, :n_acting],
        ),
        own._replace(
            factors=own.factors[:, :n_own], factors_variance=own.factors_variance[:, :n_own]
        ),
    )


def _infer(
    acting: Half,
    own: Half,
    rows: Observations,
    n_known: int,
    column_levels: np.ndarray,
    row_levels: np.ndarray,
    usual: ColdStartPrior,
    where: Any,
) -> None:
    """Fill in new rows: their factors are in ``acting``, their parameters in ``own``."""
    if not rows.n_entries:
        return
    columns = Facing(
        acting.weights,
        acting.bias,
        acting.cutpoints,
        own.factors,
        column_levels,
        acting.factor_bias,
    )
    new = NewRows(
        acting.factors[n_known:], own.weights[n_known:], own.bias[n_known:], own.cutpoints[n_known:],
        row_levels,
    )  # fmt: skip
    where.take_turns(rows, columns, new, usual)


@compiled(parallel=True)
def _place_rows(
    row_start: Any, column: Any, level: Any, columns: Any, new: Any, usual: Any
) -> None:
    for row in prange(row_start.size - 1):
        entries = slice(row_start[row], row_start[row + 1])
        _place_row(column[entries], level[entries], columns, new, usual, row)


@inlined
def _place_row(column: Any, level: Any, columns: Any, new: Any, usual: Any, row: Any) -> None:
    n, n_own = column.size, usual.factors.size
    if n == 0:
        return
    factors = np.full(new.factors.shape[1], 0.5)
    own = np.zeros(n_own + 1)  # ω, then the bias of a row that meets usual factors
    own[n_own] = usual.bias[0]
    common = usual.cutpoints[new.n_levels[row]]
    cutpoints = common.copy()
    design, lower = _centred_factors(column, columns, usual), np.empty((n_own + 1, n_own + 1))
    by_own, by_factors = np.full(n, usual.bias[0]), np.empty(n)
    low, high, utility, before = np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    for turn in range(MOST_TURNS):
        for step in range(MEAN_FIELD_STEPS + 1):
            _act(column, columns, factors, by_factors)
            _expect(column, level, columns, new.n_levels[row], cutpoints, by_factors, by_own, low, high,
                    utility)  # fmt: skip
            if step < MEAN_FIELD_STEPS:
                _infer_factors(column, columns, utility, factors)
        if usual.bias_precision[0] < np.inf:
            if turn < NEW_CURVATURES:
                _curvature(design, low, high, usual, lower)
            _newton(design, by_factors, by_own, utility, usual, lower, own)
            for e in range(n):
                by_own[e] = dot(design[e], own)
            # Widths and bias speak of the same thing: one after the other, or both overshoot.
            _expect(column, level, columns, new.n_levels[row], cutpoints, by_factors, by_own, low, high,
                    utility)  # fmt: skip
            _move_cutpoints(
                column, level, columns, low, high, usual.cutpoints_precision[0], common, cutpoints
            )
        change = 0.0
        for e in range(n):
            mean = by_factors[e] + by_own[e]
            change = max(change, abs(mean - before[e]))
            before[e] = mean
        if turn > 0 and change < SETTLED:
            break
    _write(new, row, factors, own, cutpoints, usual)


@inlined
def _write(new: Any, row: Any, factors: Any, own: Any, cutpoints: Any, usual: Any) -> None:
    for k in range(factors.size):
        new.factors[row, k] = factors[k]
    bias = own[usual.factors.size]
    for k in range(usual.factors.size):
        new.weights[row, k] = own[k]
        bias -= own[k] * usual.factors[k]
    new.bias[row] = bias
    for m in range(cutpoints.size):
        new.cutpoints[row, m] = cutpoints[m]


@inlined
def _centred_factors(column: Any, columns: Any, usual: Any) -> Any:
    """(answers, S + 1): the columns' factors around the usual ones, and a one for the bias."""
    design = np.ones((column.size, usual.factors.size + 1))
    for e in range(column.size):
        for k in range(usual.factors.size):
            design[e, k] = columns.factors[column[e], k] - usual.factors[k]
    return design


@inlined
def _act(column: Any, columns: Any, factors: Any, mean: Any) -> None:
    """What the columns' parameters and the row's factors make of each mean."""
    for e in range(column.size):
        mean[e] = columns.bias[column[e]] + dot(columns.weights[column[e]], factors)


@inlined
def _expect(
    column: Any, level: Any, columns: Any, row_levels: Any, cutpoints: Any, by_factors: Any,
    by_own: Any, low: Any, high: Any, utility: Any,
) -> None:  # fmt: skip
    """Ends of each answer's level, seen from its mean, and its expected utility."""
    for e in range(column.size):
        i, mean = column[e], by_factors[e] + by_own[e]
        lower, upper = thresholds.bounds(columns.cutpoints[i], cutpoints, level[e])
        is_last = level[e] == min(columns.n_levels[i], row_levels) - 1
        low[e] = lower - mean if level[e] > 0 else -_INFINITE
        high[e] = _INFINITE if is_last else upper - mean
        utility[e] = mean + double.edge_densities(low[e], high[e])[2]


@inlined
def _infer_factors(column: Any, columns: Any, utility: Any, factors: Any) -> None:
    for k in range(factors.size):
        factors[k] = columns.factor_bias[k]
    for e in range(column.size):
        add_scaled(factors, utility[e], columns.weights[column[e]])
    for k in range(factors.size):
        factors[k] = double.logistic(factors[k])


@inlined
def _curvature(design: Any, low: Any, high: Any, usual: Any, lower: Any) -> None:
    """Cholesky factor of minus the second derivative by the weights and the bias of a row."""
    n, size = design.shape
    lower[:] = 0.0
    for k in range(size - 1):
        lower[k, k] = usual.weights_precision[k]
    lower[size - 1, size - 1] = usual.bias_precision[0]
    for e in range(n):
        at_low, at_high, shift = double.edge_densities(low[e], high[e])
        information = shift * shift - (low[e] * at_low - high[e] * at_high)
        information = min(max(information, LEAST_INFORMATION), 1.0)
        for k in range(size):
            add_scaled(lower[k, : k + 1], information * design[e, k], design[e, : k + 1])
    for k in range(size):
        for j in range(k + 1):
            rest = lower[k, j] - dot(lower[k, :j], lower[j, :j])
            lower[k, j] = np.sqrt(rest) if j == k else rest / lower[j, j]


@inlined
def _newton(
    design: Any, by_factors: Any, by_own: Any, utility: Any, usual: Any, lower: Any, own: Any
) -> None:
    """One step of Newton's method for the weights and the bias of a row."""
    n, size = design.shape
    slope = np.empty(size)
    for k in range(size - 1):
        slope[k] = -usual.weights_precision[k] * own[k]
    slope[size - 1] = -usual.bias_precision[0] * (own[size - 1] - usual.bias[0])
    for e in range(n):
        add_scaled(slope, utility[e] - by_factors[e] - by_own[e], design[e])
    for k in range(size):
        slope[k] = (slope[k] - dot(lower[k, :k], slope[:k])) / lower[k, k]
    for k in range(size - 1, -1, -1):
        slope[k] /= lower[k, k]
        add_scaled(slope[:k], -slope[k], lower[k, :k])
    for k in range(size):
        own[k] += slope[k]


@inlined
def _move_cutpoints(
    column: Any, level: Any, columns: Any, low: Any, high: Any, precision: Any, common: Any,
    cutpoints: Any,
) -> None:  # fmt: skip
    """One damped step for the logarithms of the widths; the first threshold stays."""
    slope, curvature = np.zeros(cutpoints.size), np.full(cutpoints.size, precision)
    for m in range(1, cutpoints.size):
        slope[m] = -precision * (cutpoints[m] - common[m])
    for e in range(column.size):
        i, v = column[e], np.intp(level[e])
        at_low, at_high, _ = double.edge_densities(low[e], high[e])
        for m in range(1, min(v + 1, cutpoints.size)):
            # An end moves with every width below it.
            share = at_high - at_low if m < v else at_high
            share *= thresholds.gap(columns.cutpoints[i], cutpoints, m)
            slope[m] += share
            curvature[m] += share * share
    for m in range(1, cutpoints.size):
        step = slope[m] / curvature[m]
        cutpoints[m] += min(max(step, -LARGEST_STEP), LARGEST_STEP)

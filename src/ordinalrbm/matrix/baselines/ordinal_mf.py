"""Ordinal matrix factorisation (Koren & Sill's OrdRec, 2011, without neighbours), with a probit.

A cell's utility is Gaussian with variance one around b_row + b_column + p_row · q_column, and its
level says between which two thresholds it lies:

    θ_1 = τ_1,    θ_l = θ_{l−1} + exp(τ_l + κ_l)    (τ of the column, κ of the row)

The first threshold is common to all columns on a scale: the biases of rows and columns move all
thresholds alike. Widths are shrunk towards common ones.

Learning alternates between the two sides. Given the thresholds, the expected utility of an answer
stands in for a value, and what remains is the half-sweep of the Gaussian factorisation; then every
row takes one Newton step on its own widths. Nothing needs a learning rate, and the strengths of all
priors are learnt from the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numba
import numpy as np
from numba import prange

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.normal import double
from ordinalrbm.matrix.baselines.factors import (
    SMALLEST_PRECISION,
    Effects,
    Posterior,
    View,
    cell_means,
    factorise,
    half_sweep,
    improved,
    inverse_diagonal,
    learnt_precision,
    no_effects,
    solve,
    start_both,
    views,
    with_unknown,
)
from ordinalrbm.matrix.baselines.learning import Cells, Record, index_of, learn
from ordinalrbm.runtime.jit import compiled, inlined
from ordinalrbm.storage.reader import Stored

# Precision of a factor's prior: where learning begins, and where it is fixed. Weak at the start,
# or factors would be given up before they have learnt anything.
_FACTOR_PRECISION: dict[Posterior, float] = {"variational": 1.0, "point": 20.0}
# The logarithm of a width moves by no more than this in one step.
_LARGEST_MOVE = 0.7
# Half-sweeps that new rows are given; each leaves about a tenth of the distance.
_FOLD_IN_SWEEPS = 20


@dataclass(frozen=True)
class Settings:
    """How to learn.

    Attributes
    ----------
    n_factors : int
        Length of p and q.
    posterior : {"variational", "point"}
        What is kept of each bias and factor: a mean and a variance, or only the best value as in
        the original. With variances the precisions of all priors are learnt.
    bias_precision, factor_precision, width_precision : float
        Of the priors of biases, factors and log widths, where a utility has variance one: fixed
        for "point", where learning begins for "variational". Without a number for the factors,
        it is 20 or 1.
    n_epochs, patience : int
        Largest number of epochs, and after how many without improvement learning ends.
    seed : int
        Of the factors at the start.
    """

    n_factors: int = 50
    posterior: Posterior = "variational"
    bias_precision: float = 5.0
    factor_precision: float | None = None
    width_precision: float = 20.0
    n_epochs: int = 60
    patience: int = 3
    seed: int = 0


class Widths(NamedTuple):
    """What the rows, or the columns, bring to the thresholds of their cells.

    Attributes
    ----------
    step : (n, M) first threshold and log widths; those of rows and columns are added
    centre : (n, M) mean of their prior
    precision : (M,) of their prior
    """

    step: np.ndarray
    centre: np.ndarray
    precision: np.ndarray

    @classmethod
    def from_stored(cls, stored: Stored, n: int, width: int) -> Widths:
        """What a file says of so many rows."""
        most = thresholds.LARGEST_CUTPOINT
        return cls(
            stored.parameter("step", np.float64, (n, width), high=most),
            stored.parameter("centre", np.float64, (n, width), high=most),
            stored.array("precision", np.float64, (width,), SMALLEST_PRECISION),
        )


class OrdinalMF(NamedTuple):
    """Parameters.

    Attributes
    ----------
    rows, columns : Effects
        Biases and factors.
    row_widths, column_widths : Widths
        κ and τ.
    n_levels : (N,)
        Number of levels of each column.
    posterior : str
        What the effects keep, see :class:`Settings`.
    """

    rows: Effects
    columns: Effects
    row_gaps: Widths
    column_gaps: Widths
    n_levels: np.ndarray
    posterior: Posterior

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> OrdinalMF:
        """The model of a file whose columns are on scales of so many levels."""
        width = thresholds.n_cutpoints(n_levels)
        rows = Effects.from_stored(stored.under("rows."), n_rows)
        return cls(
            rows=rows,
            columns=Effects.from_stored(stored.under("columns."), n_levels.size, rows.n_factors),
            row_gaps=Widths.from_stored(stored.under("row_gaps."), n_rows, width),
            column_gaps=Widths.from_stored(stored.under("column_gaps."), n_levels.size, width),
            n_levels=n_levels,
            posterior=stored.choice("posterior", get_args(Posterior)),
        )


class Answers(NamedTuple):
    """The entries as one side sees them, with the thresholds below and above each.

    Thresholds count from 1; 0 is −∞ and M + 1 is +∞. This way kernels need not know whose scale it
    is, and rows and columns can change places.
    """

    start: np.ndarray
    this: np.ndarray
    other: np.ndarray
    below: np.ndarray
    above: np.ndarray

    @property
    def view(self) -> View:
        """The entries without their thresholds."""
        return View(self.start, self.this, self.other)


class _Scratch(NamedTuple):
    """Working memory of the threads, one line each."""

    gradient: np.ndarray
    system: np.ndarray
    slope_below: np.ndarray
    slope_above: np.ndarray


# ---- the public part --------------------------------------------------------------------------


def fit(
    observations: Observations,
    validation: Cells | None = None,
    settings: Settings | None = None,
    verbose: bool = False,
) -> tuple[OrdinalMF, list[Record]]:
    """Learn from the levels of a table.

    Parameters
    ----------
    observations : Observations
    settings : Settings, optional
    validation, verbose
        See :func:`~ordinalrbm.matrix.baselines.learning.learn`.

    Returns
    -------
    model : OrdinalMF
    history : list of Record

    Examples
    --------
    >>> table = Observations.from_dense([[0, 2, -1], [0, -1, 1], [-1, 2, 1]] * 20, n_levels=3)
    >>> model, _ = fit(table, settings=Settings(n_factors=1, n_epochs=5))
    >>> predict_proba(model, [0, 0, -1], [0, 1, 2]).argmax(axis=1).tolist()
    [0, 2, 1]
    """
    settings = settings or Settings()
    return learn(
        _epochs(observations, settings),
        validation, predict_proba, settings.n_epochs, settings.patience, verbose,
    )  # fmt: skip


def fold_in_rows(model: OrdinalMF, observations: Observations) -> tuple[Effects, Widths]:
    """Effects and widths of new rows, the columns staying as they are.

    ``model._replace(rows=..., row_widths=...)`` then predicts the cells of these rows.
    """
    answers, _ = answers_of(observations)
    n_rows = observations.n_rows
    rows = no_effects(n_rows, model.rows.precision)
    none = np.zeros((n_rows, model.row_gaps.precision.size))
    gaps = Widths(none, none, model.row_gaps.precision)
    for _ in range(_FOLD_IN_SWEEPS):
        pull = _pull(answers, rows, model.columns, gaps, model.column_gaps)
        rows = improved(answers.view, rows, model.columns, pull, 1.0, model.posterior)
        gaps, _ = moved_gaps(answers, rows, model.columns, gaps, model.column_gaps)
    return rows, gaps


def predict_proba(model: OrdinalMF, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(cells, L): probability of each level of some cells."""
    rows, columns = index_of(rows), index_of(columns)
    mean, variance = cell_means(
        rows, columns, with_unknown(model.rows), with_unknown(model.columns)
    )  # fmt: skip
    # One more line for those nobody has seen: the prior's mean, on the longest scale.
    longest = int(model.n_levels.argmax())
    row_step = np.vstack([model.row_gaps.step, np.zeros(model.row_gaps.step.shape[1])])
    column_step = np.vstack([model.column_gaps.step, model.column_gaps.centre[longest]])
    n_levels = np.append(model.n_levels, model.n_levels[longest])
    result = np.zeros((len(rows), int(n_levels[-1])))
    _fill_masses(rows, columns, mean, variance, row_step, column_step, n_levels, result)
    return result


# ---- the loop ---------------------------------------------------------------------------------


def _epochs(observations: Observations, settings: Settings) -> Iterator[OrdinalMF]:
    model = _initial(observations, settings)
    of_rows, of_columns = answers_of(observations)
    while True:
        sides = (model.rows, model.columns, model.row_gaps, model.column_gaps)
        rows, columns, row_gaps, column_gaps = _half_sweep(of_rows, *sides, settings.posterior)
        columns, rows, column_gaps, row_gaps = _half_sweep(
            of_columns, columns, rows, column_gaps, row_gaps, settings.posterior
        )
        renewed = (rows, columns, row_gaps, column_gaps)
        model = _with_common_cutpoints(OrdinalMF(*renewed, model.n_levels, settings.posterior))
        yield model


def _half_sweep(
    answers: Answers, this: Effects, other: Effects, gaps: Widths, other_gaps: Widths,
    posterior: Posterior,
) -> tuple[Effects, Effects, Widths, Widths]:  # fmt: skip
    """Renew biases, factors and widths of one side."""
    pull = _pull(answers, this, other, gaps, other_gaps)
    this, other = half_sweep(answers.view, this, other, pull, 1.0, posterior)
    gaps, variance = moved_gaps(answers, this, other, gaps, other_gaps)
    if posterior == "variational":
        square = (gaps.step - gaps.centre) ** 2 + variance
        gaps = gaps._replace(precision=learnt_precision(square))
    return this, other, gaps, other_gaps


def _with_common_cutpoints(model: OrdinalMF) -> OrdinalMF:
    """Renew the common steps of each scale, and move into them what all biases share.

    What all rows have in common belongs to the columns, so that a row of zeros is the usual one.
    Distributions stay as they are.
    """
    kappa, tau = model.row_gaps.step, model.column_gaps.step.copy()
    row_mean, column_mean = model.rows.mean.copy(), model.columns.mean.copy()
    centre = np.empty_like(tau)
    tau += kappa.mean(axis=0)
    tau[:, 0] -= row_mean[:, 0].mean()
    row_mean[:, 0] -= row_mean[:, 0].mean()
    for scale in np.unique(model.n_levels):
        alike = model.n_levels == scale
        shared = column_mean[alike, 0].mean()
        tau[alike, 0] -= shared
        column_mean[alike, 0] -= shared
        centre[alike] = tau[alike].mean(axis=0)
    return model._replace(
        rows=model.rows._replace(mean=row_mean),
        columns=model.columns._replace(mean=column_mean),
        row_gaps=model.row_gaps._replace(step=kappa - kappa.mean(axis=0)),
        column_gaps=model.column_gaps._replace(step=tau, centre=centre),
    )


def _initial(observations: Observations, settings: Settings) -> OrdinalMF:
    factor_precision = settings.factor_precision or _FACTOR_PRECISION[settings.posterior]
    rows, columns = start_both(
        observations, settings.n_factors, settings.bias_precision, factor_precision, settings.seed
    )
    step = _marginal_cutpoints(observations)
    precision = np.full(step.shape[1], settings.width_precision)
    none = np.zeros((observations.n_rows, step.shape[1]))
    return OrdinalMF(
        rows=rows,
        columns=columns,
        row_gaps=Widths(none, none, precision),
        column_gaps=Widths(step, step, precision),
        n_levels=observations.n_levels,
        posterior=settings.posterior,
    )


def _marginal_cutpoints(observations: Observations) -> np.ndarray:
    """(N, M): steps at which a utility would have the shares of the levels on each scale."""
    n_levels = observations.n_levels
    cutpoints = np.zeros((observations.n_columns, max(int(n_levels.max(initial=1)) - 1, 1)))
    scale_of_entry = n_levels[observations.column]
    for scale in np.unique(n_levels[n_levels > 1]):
        levels = observations.level[scale_of_entry == scale]
        counts = np.bincount(levels, minlength=scale)[None]
        cutpoints[n_levels == scale, : scale - 1] = thresholds.at_marginals(
            counts, np.array([scale])
        )
    return cutpoints


def answers_of(observations: Observations) -> tuple[Answers, Answers]:
    """The answers as the rows and as the columns see them."""
    top = observations.n_levels[observations.column] - 1
    beyond = max(int(observations.n_levels.max(initial=1)), 2)
    below = observations.level.astype(np.int16)
    above = np.where(below == top, beyond, below + 1).astype(np.int16)
    by_rows, by_columns = views(observations)
    order = observations.column_view.entry
    return Answers(*by_rows, below, above), Answers(*by_columns, below[order], above[order])


# ---- thresholds -------------------------------------------------------------------------------


@inlined
def _threshold(this_step: Any, other_step: Any, index: Any) -> Any:
    """Threshold of a cell, counted from 1; 0 is −∞, one more than there are is +∞."""
    if index == 0:
        return -np.inf
    if index > this_step.size:
        return np.inf
    threshold = this_step[0] + other_step[0]
    for m in range(1, index):
        threshold += thresholds.gap(this_step, other_step, m)
    return threshold


def _pull(
    answers: Answers, this: Effects, other: Effects, gaps: Widths, other_gaps: Widths
) -> np.ndarray:
    """How far the expected utility of each answer lies from its mean."""
    pull, _ = cell_means(answers.this, answers.other, this, other)
    _pull_of_cells(answers, gaps.step, other_gaps.step, pull)
    return pull


@compiled(parallel=True)
def _pull_of_cells(answers: Any, step: Any, other_step: Any, pull: Any) -> None:
    """Replace means by pulls."""
    for e in prange(pull.size):
        this, other = step[answers.this[e]], other_step[answers.other[e]]
        low = _threshold(this, other, answers.below[e]) - pull[e]
        high = _threshold(this, other, answers.above[e]) - pull[e]
        _, _, pull[e] = double.edge_densities(low, high)


@compiled(parallel=True)
def _fill_masses(
    rows: Any, columns: Any, mean: Any, variance: Any, row_step: Any, column_step: Any,
    n_levels: Any, result: Any,
) -> None:  # fmt: skip
    for e in prange(rows.size):
        this, other, last = row_step[rows[e]], column_step[columns[e]], n_levels[columns[e]]
        scale = 1.0 / np.sqrt(1.0 + variance[e])
        low, threshold = -np.inf, this[0] + other[0]
        for level in range(last - 1):
            high = (threshold - mean[e]) * scale
            result[e, level] = double.mass(low, high)
            low = high
            if level + 2 < last:
                threshold += thresholds.gap(this, other, level + 1)
        result[e, last - 1] = double.mass(low, np.inf)


def moved_gaps(
    answers: Answers, this: Effects, other: Effects, gaps: Widths, other_gaps: Widths
) -> tuple[Widths, np.ndarray]:
    """One Newton step on the log widths of every row, and their variances around it.

    What is not known about a cell's mean widens the utility here, as it does in predictions.
    """
    mean, variance = cell_means(answers.this, answers.other, this, other)
    step, spread = gaps.step.copy(), np.zeros_like(gaps.step)
    threads, n_cutpoints = numba.get_num_threads(), step.shape[1]
    scratch = _Scratch(
        gradient=np.empty((threads, n_cutpoints)),
        system=np.empty((threads, n_cutpoints, n_cutpoints)),
        slope_below=np.empty((threads, n_cutpoints)),
        slope_above=np.empty((threads, n_cutpoints)),
    )
    _move_gaps(answers, mean, variance, step, spread, gaps, other_gaps.step, scratch)
    return gaps._replace(step=step), spread


@compiled(parallel=True)
def _move_gaps(
    answers: Any, mean: Any, variance: Any, step: Any, spread: Any, gaps: Any, other_step: Any,
    scratch: Any,
) -> None:  # fmt: skip
    for d in prange(answers.start.size - 1):
        _move_row(
            answers, np.int64(d), mean, variance, step[d], spread[d], gaps.centre[d],
            gaps.precision, other_step, scratch,
        )  # fmt: skip


@inlined
def _move_row(
    answers: Any, d: Any, mean: Any, variance: Any, step: Any, spread: Any, centre: Any,
    precision: Any, other_step: Any, scratch: Any,
) -> None:  # fmt: skip
    thread = numba.get_thread_id()
    gradient, system = scratch.gradient[thread], scratch.system[thread]
    for m in range(step.size):
        gradient[m] = precision[m] * (centre[m] - step[m])
        for c in range(m):
            system[m, c] = 0.0
        system[m, m] = precision[m]
    for e in range(answers.start[d], answers.start[d + 1]):
        _add_answer(answers, e, mean[e], variance[e], step, other_step, scratch)
    gradient[0] = 0.0  # the first threshold is left to the biases
    factorise(system)
    solve(system, gradient)
    for m in range(step.size):
        step[m] += min(max(gradient[m], -_LARGEST_MOVE), _LARGEST_MOVE)
    inverse_diagonal(system, gradient, spread)


@inlined
def _add_answer(
    answers: Any, e: Any, mean: Any, variance: Any, step: Any, other_step: Any, scratch: Any
) -> None:
    """Add one answer to a row's gradient, and to its curvature without that of the exponential.

    The mass between the two ends is log-concave in them, so that the system stays positive.
    """
    thread = numba.get_thread_id()
    gradient, system = scratch.gradient[thread], scratch.system[thread]
    below, above = scratch.slope_below[thread], scratch.slope_above[thread]
    other = other_step[answers.other[e]]
    scale = 1.0 / np.sqrt(1.0 + variance)
    low = (_threshold(step, other, answers.below[e]) - mean) * scale
    high = (_threshold(step, other, answers.above[e]) - mean) * scale
    at_low, at_high, _ = double.edge_densities(low, high)
    curved_low = at_low * (at_low - low) if answers.below[e] > 0 else 0.0
    curved_high = at_high * (at_high + high) if answers.above[e] <= step.size else 0.0
    for m in range(1, step.size):
        width = thresholds.gap(step, other, m) * scale
        below[m] = width if m < answers.below[e] else 0.0
        above[m] = width if m < answers.above[e] and answers.above[e] <= step.size else 0.0
        gradient[m] += at_high * above[m] - at_low * below[m]
        for c in range(1, m + 1):
            system[m, c] += (
                curved_low * below[m] * below[c] + curved_high * above[m] * above[c]
                - at_low * at_high * (below[m] * above[c] + above[m] * below[c])
            )  # fmt: skip

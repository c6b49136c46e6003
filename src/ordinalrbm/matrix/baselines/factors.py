"""Rows and columns that meet in a bias each and a product of factors, under Gaussian priors.

A cell's mean is b_row + b_column + p_row · q_column. Given one side, every row of the other has a
ridge regression of its own, so that learning is one half-sweep called with the roles swapped. The
posterior is a Gaussian with independent coordinates (Raiko, Ilin & Karhunen, 2007), which carries
what is not known about a side into the regressions of the other and lets the priors be learnt
from the data; or it is a point, as in alternating least squares.

Both the Gaussian and the ordinal factorisation are built on this; they differ in how a cell pulls
at its mean.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numba
import numpy as np
from numba import prange

from ordinalrbm.data.observations import Observations
from ordinalrbm.runtime.jit import compiled, inlined, inlined_sum
from ordinalrbm.storage.reader import Stored, wrong

Posterior = Literal["variational", "point"]

# Features of so many entries are added to a row's system at once.
_BLOCK = 4
# Expected square of a row that is not there, see learnt_precision; small beside one, the variance
# of what is explained.
_SIZE_OF_ONE_MORE = 0.1
SMALLEST_PRECISION = 1e-30  # of a file; they are divided by


class Effects(NamedTuple):
    """What the rows, or the columns, bring to their cells.

    Attributes
    ----------
    mean : (n, 1 + K) bias and factors
    variance : (n, 1 + K) of the posterior; zero where it is a point
    precision : (1 + K,) of the prior, a Gaussian around zero
    """

    mean: np.ndarray
    variance: np.ndarray
    precision: np.ndarray

    @classmethod
    def from_stored(cls, stored: Stored, n: int, n_factors: int | None = None) -> Effects:
        """What a file says of so many rows, with so many factors where that is known."""
        mean = stored.parameter(
            "mean", np.float64, (n, None if n_factors is None else 1 + n_factors)
        )
        if not mean.shape[1]:
            raise wrong("mean", "has no biases")
        return cls(
            mean,
            stored.parameter("variance", np.float64, mean.shape, low=0.0),
            stored.array("precision", np.float64, mean.shape[1:], SMALLEST_PRECISION),
        )

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return self.mean.shape[1] - 1


class View(NamedTuple):
    """The entries as one side sees them: ``start[d]:start[d + 1]`` are those of its row d."""

    start: np.ndarray
    this: np.ndarray  # index of each entry on this side
    other: np.ndarray  # and on the other


class _Scratch(NamedTuple):
    """Working memory of the threads, one line each."""

    system: np.ndarray
    gradient: np.ndarray
    ridge: np.ndarray
    block: np.ndarray


def views(observations: Observations) -> tuple[View, View]:
    """The entries as the rows and as the columns see them."""
    by_columns = observations.column_view
    row = np.repeat(np.arange(observations.n_rows, dtype=np.int32), np.diff(observations.row_start))
    column = np.repeat(
        np.arange(observations.n_columns, dtype=np.int32), np.diff(by_columns.column_start)
    )
    return (
        View(observations.row_start, row, observations.column),
        View(by_columns.column_start, column, by_columns.row),
    )


def start(
    n: int, n_factors: int, bias_precision: float, factor_precision: float, rng: Any = None
) -> Effects:
    """Effects before learning: zero, or with random factors when a generator is given."""
    precision = np.r_[bias_precision, np.full(n_factors, factor_precision)]
    mean = np.zeros((n, 1 + n_factors))
    if rng is not None:
        # Unequal from the start, so that factors need not first find out which one leads.
        size = (factor_precision * np.arange(1, 1 + n_factors)) ** -0.5
        mean[:, 1:] = size * rng.standard_normal((n, n_factors))
    return Effects(mean, np.zeros_like(mean), precision)


def start_both(
    observations: Observations, n_factors: int, bias_precision: float, factor_precision: float,
    seed: int,
) -> tuple[Effects, Effects]:  # fmt: skip
    """Rows and columns before learning: only the columns have factors, at random."""
    priors = (n_factors, bias_precision, factor_precision)
    rng = np.random.default_rng(seed)
    return start(observations.n_rows, *priors), start(observations.n_columns, *priors, rng=rng)


def no_effects(n: int, precision: np.ndarray) -> Effects:
    """Rows of which nothing is known but the prior."""
    zero = np.zeros((n, precision.size))
    return Effects(zero, zero, precision)


# ---- cells ------------------------------------------------------------------------------------


def with_unknown(effects: Effects) -> Effects:
    """One more row, for those nobody has seen: the prior. An index of -1 finds it."""
    known = effects.variance.any()  # a point knows nothing of spread
    return effects._replace(
        mean=np.vstack([effects.mean, np.zeros_like(effects.precision)]),
        variance=np.vstack([effects.variance, known / effects.precision]),
    )


def cell_means(
    this_index: np.ndarray, other_index: np.ndarray, this: Effects, other: Effects
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the cells, and the variance of that mean under the posterior."""
    mean = np.empty(len(this_index))
    variance = np.empty(len(this_index))
    _cell_means(this_index, other_index, this, other, mean, variance)
    return mean, variance


@compiled(parallel=True)
def _cell_means(
    this_index: Any, other_index: Any, this: Any, other: Any, mean: Any, variance: Any
) -> None:
    for e in prange(mean.size):
        d, i = this_index[e], other_index[e]
        mean[e], variance[e] = _cell_mean(
            this.mean[d], this.variance[d], other.mean[i], other.variance[i]
        )


@inlined_sum
def _cell_mean(p: Any, p_variance: Any, q: Any, q_variance: Any) -> Any:
    mean, variance = p[0] + q[0], p_variance[0] + q_variance[0]
    for k in range(1, p.size):
        mean += p[k] * q[k]
        variance += p_variance[k] * (q[k] * q[k] + q_variance[k]) + p[k] * p[k] * q_variance[k]
    return mean, variance


# ---- the half-sweep ---------------------------------------------------------------------------


def half_sweep(
    view: View, this: Effects, other: Effects, pull: np.ndarray, noise: float, posterior: Posterior
) -> tuple[Effects, Effects]:
    """Renew one side given the other; with a variational posterior, the priors too.

    Parameters
    ----------
    pull : (entries,)
        In which direction, and how far, each entry wants its mean to move.
    noise : float
        Variance of an entry around its mean.
    """
    this = improved(view, this, other, pull, noise, posterior)
    if posterior == "point":
        return this, other
    this, other = _aligned(*_centred(this, other))
    return _with_learnt_prior(this), _with_learnt_prior(other)


def improved(
    view: View, this: Effects, other: Effects, pull: np.ndarray, noise: float, posterior: Posterior
) -> Effects:
    """Solve the ridge regression of every row of this side."""
    mean, variance = this.mean.copy(), np.zeros_like(this.variance)
    threads, width = numba.get_num_threads(), mean.shape[1]
    scratch = _Scratch(
        system=np.empty((threads, width, width)),
        gradient=np.empty((threads, width)),
        ridge=np.empty((threads, width)),
        block=np.empty((threads, _BLOCK, width)),
    )
    spread = posterior == "variational"
    _improve(view, mean, variance, this.precision, other, pull, noise, spread, scratch)
    return this._replace(mean=mean, variance=variance)


# Numba's parallel loops remove stores into members of a tuple as dead code; a call is left alone.
# Their counters are unsigned in one of two passes, and a body would be compiled for each.


@compiled(parallel=True)
def _improve(
    view: Any, mean: Any, variance: Any, precision: Any, other: Any, pull: Any, noise: Any,
    spread: Any, scratch: Any,
) -> None:  # fmt: skip
    for d in prange(view.start.size - 1):
        _improve_row(
            view, np.int64(d), mean[d], variance[d], precision, other, pull, noise, spread, scratch
        )  # fmt: skip


@inlined
def _improve_row(
    view: Any, d: Any, mean: Any, variance: Any, precision: Any, other: Any, pull: Any, noise: Any,
    spread: Any, scratch: Any,
) -> None:  # fmt: skip
    """One Newton step; the function is quadratic, so that it ends at the solution."""
    thread = numba.get_thread_id()
    system, gradient = scratch.system[thread], scratch.gradient[thread]
    ridge = scratch.ridge[thread]
    for a in range(mean.size):
        gradient[a] = 0.0
        ridge[a] = noise * precision[a]
        for c in range(a + 1):
            system[a, c] = 0.0
    _add_entries(view, d, other, pull, system, gradient, ridge, scratch.block[thread])
    for a in range(mean.size):
        system[a, a] += ridge[a]
        gradient[a] -= ridge[a] * mean[a]
    factorise(system)
    solve(system, gradient)
    for a in range(mean.size):
        mean[a] += gradient[a]
    if spread:
        inverse_diagonal(system, gradient, variance)
        for a in range(mean.size):
            variance[a] *= noise


@inlined
def _add_entries(
    view: Any, d: Any, other: Any, pull: Any, system: Any, gradient: Any, ridge: Any, block: Any
) -> None:
    """Add a row's entries to its system; what is uncertain about a feature acts as a ridge."""
    for first in range(view.start[d], view.start[d + 1], _BLOCK):
        n = min(view.start[d + 1] - first, _BLOCK)
        for j in range(_BLOCK):
            block[j] = 0.0
        for j in range(n):
            i = view.other[first + j]
            block[j, 0] = 1.0
            for a in range(1, block.shape[1]):
                block[j, a] = other.mean[i, a]
                ridge[a] += other.variance[i, a]
            for a in range(block.shape[1]):
                gradient[a] += pull[first + j] * block[j, a]
        _add_products(system, block)


@inlined
def _add_products(system: Any, block: Any) -> None:
    """Lower triangle of the sum of the outer products of four features."""
    for a in range(block.shape[1]):
        x0, x1, x2, x3 = block[0, a], block[1, a], block[2, a], block[3, a]
        for c in range(a + 1):
            system[a, c] += (
                x0 * block[0, c] + x1 * block[1, c] + x2 * block[2, c] + x3 * block[3, c]
            )


# ---- a small system of equations --------------------------------------------------------------
# By hand and not by LAPACK, whose own threads would stand in the way of ours.


@inlined_sum
def _dot(a: Any, b: Any, n: Any) -> Any:
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total


@inlined
def factorise(system: Any) -> None:
    """Replace the lower triangle of a positive definite matrix by its Cholesky factor."""
    for a in range(system.shape[0]):
        for c in range(a):
            system[a, c] = (system[a, c] - _dot(system[a], system[c], c)) / system[c, c]
        system[a, a] = np.sqrt(system[a, a] - _dot(system[a], system[a], a))


@inlined
def solve(factor: Any, vector: Any) -> None:
    """Replace a vector by the solution of the system whose Cholesky factor is given."""
    n = factor.shape[0]
    for a in range(n):
        vector[a] = (vector[a] - _dot(factor[a], vector, a)) / factor[a, a]
    for a in range(n - 1, -1, -1):
        vector[a] /= factor[a, a]
        for c in range(a):
            vector[c] -= vector[a] * factor[a, c]


@inlined
def inverse_diagonal(factor: Any, line: Any, diagonal: Any) -> None:
    """Diagonal of the inverse of the system; the factor is replaced by its own inverse.

    ``line`` is working memory.
    """
    n = factor.shape[0]
    for a in range(n):
        diagonal[a] = 0.0
    for a in range(n):
        inverse = factor[a]
        scale = 1.0 / inverse[a]
        for c in range(a):
            line[c] = -scale * inverse[c]
            inverse[c] = 0.0
        for c in range(a):
            for b in range(c + 1):
                inverse[b] += line[c] * factor[c, b]
        inverse[a] = scale
        for b in range(a + 1):
            diagonal[b] += inverse[b] * inverse[b]


# ---- what leaves the cells alone --------------------------------------------------------------


def _centred(this: Effects, other: Effects) -> tuple[Effects, Effects]:
    """Move the mean of this side's factors into the other's biases: priors are around zero."""
    centre = this.mean[:, 1:].mean(axis=0)
    mean, other_mean = this.mean.copy(), other.mean.copy()
    mean[:, 1:] -= centre
    other_mean[:, 0] += other_mean[:, 1:] @ centre
    return this._replace(mean=mean), other._replace(mean=other_mean)


def _aligned(this: Effects, other: Effects) -> tuple[Effects, Effects]:
    """Turn and stretch the factors so that on both sides they are uncorrelated and as large.

    Products p · q do not change, but priors with a precision per factor fit best in these axes, and
    half-sweeps alone would turn there very slowly (Luttinen & Ilin, 2010).
    """
    values, axes = np.linalg.eigh(_second_moment(this))
    root = np.sqrt(np.maximum(values, values.max(initial=0.0) * 1e-12 + 1e-300))
    spread, turn = np.linalg.eigh(root[:, None] * (axes.T @ _second_moment(other) @ axes) * root)
    size = np.maximum(spread[::-1], spread.max(initial=0.0) * 1e-12 + 1e-300) ** 0.25
    turn = turn[:, ::-1]
    forward = (axes / root) @ turn * size
    backward = (axes * root) @ turn / size
    return _mapped(this, forward), _mapped(other, backward)


def _second_moment(effects: Effects) -> np.ndarray:
    factors, variance = effects.mean[:, 1:], effects.variance[:, 1:]
    return (factors.T @ factors + np.diag(variance.sum(axis=0))) / len(factors)


def _mapped(effects: Effects, matrix: np.ndarray) -> Effects:
    mean, variance = effects.mean.copy(), effects.variance.copy()
    mean[:, 1:] = mean[:, 1:] @ matrix
    variance[:, 1:] = variance[:, 1:] @ matrix**2
    return effects._replace(mean=mean, variance=variance)


def _with_learnt_prior(effects: Effects) -> Effects:
    return effects._replace(precision=learnt_precision(effects.mean**2 + effects.variance))


def learnt_precision(square: np.ndarray) -> np.ndarray:
    """Precision of the prior under which the rows' expected squares are most probable.

    One more row of a fixed size counts, so that a table of few rows does not talk itself into a
    prior of no width.
    """
    return (len(square) + 1.0) / (square.sum(axis=0) + _SIZE_OF_ONE_MORE)

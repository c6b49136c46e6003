"""Learning Gaussian factors: what is known of rows and columns, and what an engine must offer.

Learning (:mod:`ordinalrbm.matrix.variational`) is written once against :class:`HalfSweepEngine`. The
cores of this machine (:mod:`ordinalrbm.engine.half_sweep`) and a GPU
(:mod:`ordinalrbm.engine.gpu.half_sweep`) implement the sums over answers. Array algebra on one line
per row is here, for NumPy and torch alike.

Where several processes learn together, every one, a rank, keeps its rows with their parameters, and
all of the columns. Rows are updated where they are, and sums over them are those of all ranks. A
column's answers are spread over all ranks, so that it is updated in stages: every sum over its
answers goes to the rank that looks after the column, and what that rank makes of it to all others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.engine import thresholds
from ordinalrbm.engine.drift import BinViews
from ordinalrbm.engine.side import Array
from ordinalrbm.runtime.process_group import ALONE, Alone, Group, sums_over_ranks

# In the form of the engine: Observations on cores, in pieces on a GPU.
Answers = Any
# A FactorPosterior, or what the engine has made of it for all stages of a half-sweep.
Columns = Any
# Steps of conjugate gradients. The next sweep goes on where this one ends, so that few will do.
STEPS = 2
# A residual that is smaller than this share of the first is rounding.
SOLVED = 1e-10
# Mean-field understates posterior variances by about this factor (found on the validation ratings
# of MovieLens 1M and 100K).
MEAN_FIELD_CORRECTION = 1.15
# The logarithm of a gap moves by no more than this in one step.
LARGEST_MOVE = 0.7
# Of the systems that log gaps are solved for with: priors put pivots far higher. That of a gap of
# nearly nothing, whose curvature is the difference of two huge numbers, may come out below.
LEAST_PIVOT = 1e-3
# Bytes of the systems of gaps that are in memory together.
_BLOCK_BYTES = 2**28
# Where levels say only between which thresholds a utility lies.
NO_VALUES = np.zeros(0, dtype=np.float32)
# Where nothing tells one row from another before its answers do.
NO_MEAN = np.zeros((0, 0), dtype=np.float32)


class FactorPosterior(NamedTuple):
    """What is known of the rows, or of the columns: a Gaussian with independent coordinates."""

    mean: Array  # (n, 1 + F) float32, bias and factors
    variance: Array  # (n, 1 + F) float32; zero where it is a point
    cutpoints: Array  # (n, M) float64, first threshold, log gaps; those of rows and columns are added
    gaps: Array  # (n, M) float64, the same with gaps themselves
    n_levels: Array  # (n,) int32, levels that they may use; the smaller number of both counts


class Prior(NamedTuple):
    """Gaussian priors of rows or columns; what has an infinite precision stays as it is."""

    precision: np.ndarray  # (1 + F,) float32, of bias and factors
    cutpoints: Array  # (n, M) float64, where cutpoints are drawn towards
    cutpoints_precision: np.ndarray  # (M,) float64; the first threshold always stays
    mean: Array = NO_MEAN  # (n, 1 + F) float32, where biases and factors are expected; zero if none


def gaps_of(cutpoints: Array, library: Any = np) -> Array:
    """Gaps of their logarithms; the first threshold is no gap."""
    gaps = library.exp(cutpoints)
    gaps[:, :1] = cutpoints[:, :1]
    return gaps


class Rotation(NamedTuple):
    """Other axes for factors: means times a matrix plus a shift, variances times its squares."""

    matrix: np.ndarray
    shift: np.ndarray
    squares: np.ndarray

    @classmethod
    def none(cls, width: int) -> Rotation:
        return cls(np.eye(width), np.zeros(width), np.eye(width))

    def then(self, of_factors: np.ndarray) -> Rotation:
        """The same rotation, and after it a matrix for the factors, the bias staying."""
        whole = np.eye(self.shift.size)
        whole[1:, 1:] = of_factors
        return Rotation(self.matrix @ whole, self.shift @ whole, self.squares @ whole**2)


class Moments(NamedTuple):
    """Sums over rows or columns: of means, of their products, and of variances."""

    n: float
    total: np.ndarray  # (1 + F,)
    products: np.ndarray  # (1 + F, 1 + F)
    variance: np.ndarray  # (1 + F,)

    def rotate(self, rotation: Rotation) -> Moments:
        matrix, shift, squares = rotation
        moved = np.outer(self.total @ matrix, shift)
        products = matrix.T @ self.products @ matrix + moved + moved.T
        products = products + self.n * np.outer(shift, shift)
        return Moments(self.n, self.total @ matrix + self.n * shift, products, self.variance @ squares)


class Shares(NamedTuple):
    """Sums over some of them: how many they are, of their biases, and of their cutpoints."""

    n: float
    bias: float
    cutpoints: np.ndarray  # (M,)

    def means(self) -> tuple[float, np.ndarray]:
        return self.bias / self.n, self.cutpoints / self.n


class HalfSweepEngine(ABC):
    """Updates of rows given columns, and sums over rows; answers and arrays are in its own form.

    ``this`` is the posterior of the rows and ``other`` that of the columns. Columns are updated by
    the same methods with the roles swapped. ``rows_among`` are ranks of which each has some of the
    rows, ``answers_among`` ranks that have all rows, each with other answers.
    """

    library: Any  # numpy or torch

    def __init__(self, rows_among: Alone | Group = ALONE, answers_among: Alone | Group = ALONE) -> None:
        self.rows_among, self.answers_among = rows_among, answers_among

    # ---- implemented by each engine --------------------------------------------------------------

    @abstractmethod
    def half_sweep(
        self, answers: Answers, this: FactorPosterior, other: Columns, prior: Prior, spread: bool = True
    ) -> Array:
        """Update the rows in place, given the columns; returns the variances of their cutpoints.

        Rows without answers become what their prior says. Without ``spread`` they are points.
        Columns of several ranks are equal to the last bit afterwards: each is the work of one rank,
        since machines of different kinds round differently and would drift apart.
        """

    @abstractmethod
    def array(self, values: np.ndarray, like: Array) -> Array:
        """A small array of the host, on the device of ``like``."""

    @abstractmethod
    def host(self, values: Array) -> np.ndarray:
        """A small array as one of NumPy."""

    @abstractmethod
    def feature_table(self, table: csr_array, like: Array) -> Any:
        """Features of rows, sparse, with the attributes ``by_rows`` and ``by_features``."""

    # Sums over the answers that are here, without what the prior adds.

    @abstractmethod
    def rated_sums_here(self, answers: Answers, table: Array, weighted: bool) -> Array:
        """(rows, W): the lines of a table, of the columns that each row has rated, summed.

        Each counts once or, if ``weighted``, as often as the answer does.
        """

    @abstractmethod
    def rated_products_here(self, answers: Answers, table: Array, of_rows: Array) -> Array:
        """(rows, W): Σ w (w · v) over the lines w that a row has rated, v being the row's own; weighted."""

    @abstractmethod
    def bin_pulls(
        self, answers: Answers, this: FactorPosterior, other: Columns, bins: BinViews
    ) -> np.ndarray:
        """Sums over bins of how far expected utilities are from their means, (bins,) on the host."""

    @abstractmethod
    def with_offsets(self, answers: Answers, level: np.ndarray, bin_of: Array) -> Answers:
        """Answers with the level of its bin on top of the mean of each."""

    @abstractmethod
    def gather(self, answers: Answers, this: FactorPosterior, other: Columns) -> tuple[Array, Array]:
        """Slope and diagonal of the system, (rows, 2, 1 + R), and its ridge, (rows, 1 + R)."""

    @abstractmethod
    def apply(self, answers: Answers, other: Columns, ridge: Array, direction: Array) -> Array:
        """The system times a direction."""

    @abstractmethod
    def gap_sums(self, answers: Answers, this: FactorPosterior, other: Columns, rows: slice) -> Array:
        """(rows, M, M) systems of the log gaps that move, with slopes in place of column 0."""

    @abstractmethod
    def move_gaps(self, this: FactorPosterior, prior: Prior, system: Array, rows: slice) -> Array:
        """One Newton step on the log gaps of some rows; returns variances of their cutpoints."""

    def squared_error(
        self, answers: Answers, this: FactorPosterior, other: FactorPosterior, values: np.ndarray
    ) -> float:
        raise NotImplementedError("Levels with known utilities are learnt on cores only.")

    # ---- sums over the rows or answers of all ranks ----------------------------------------------

    def gram(self, table: Array) -> Array:
        """(W, W) products of the columns of a table that has a line for each row."""
        return _all_reduced(self.rows_among, table.T @ table)

    def totals(self, table: Array) -> np.ndarray:
        """(W,) sums of the lines of a table that has one for each row."""
        return _all_reduced(self.rows_among, self.totals_here(table))

    def totals_here(self, table: Array) -> np.ndarray:
        """(W,) sums over the rows of this process."""
        return self.host(table.sum(0, dtype=self.library.float64))

    def table_times(self, table: Any, weights: Array) -> Array:
        """(rows, W): features of rows times the weights of each."""
        return table.by_rows @ weights

    def table_sums(self, table: Any, of_rows: Array) -> Array:
        """(features, W): numbers of rows, times what each feature is there, summed."""
        return _all_reduced(self.rows_among, table.by_features @ of_rows)

    def rated_sums(self, answers: Answers, table: Array, *, weighted: bool = False) -> Array:
        return _all_reduced(self.answers_among, self.rated_sums_here(answers, table, weighted))

    def rated_products(self, answers: Answers, table: Array, of_rows: Array) -> Array:
        return _all_reduced(self.answers_among, self.rated_products_here(answers, table, of_rows))

    def moments(self, posterior: FactorPosterior) -> Moments:
        mean = posterior.mean
        products = self.host(mean.T @ mean).astype(np.float64)
        return Moments(
            *sums_over_ranks(
                self.rows_among,
                len(mean),
                self.totals_here(mean),
                products,
                self.totals_here(posterior.variance),
            )
        )

    def cutpoint_squares(
        self, posterior: FactorPosterior, prior: Prior, cutpoints_variance: Array
    ) -> tuple[float, np.ndarray]:
        """How many there are, and expected squares of how far cutpoints are from their prior."""
        squares = (posterior.cutpoints - prior.cutpoints) ** 2 + cutpoints_variance
        n, total = sums_over_ranks(self.rows_among, len(squares), self.host(squares.sum(0)))
        return n, total

    def shares(self, posterior: FactorPosterior, n_levels: int | None = None) -> Shares:
        """Sums over all rows, or over those with so many levels."""
        some = _with_levels(posterior, n_levels)
        cutpoints = posterior.cutpoints[some]
        bias = self.totals_here(posterior.mean[some, :1])[0]
        return Shares(*sums_over_ranks(self.rows_among, len(cutpoints), bias, self.host(cutpoints.sum(0))))

    # ---- changes of all rows ---------------------------------------------------------------------

    def broadcast(self, *rotations: Rotation) -> tuple[Rotation, ...]:
        """The rotations that rank 0 has found.

        Eigenvectors have any sign, and on another kind of machine the other one may come out; rows
        and columns would no longer fit together.
        """
        for group in (self.rows_among, self.answers_among):
            if isinstance(group, Group):
                rotations = tuple(Rotation(*map(np.array, rotation)) for rotation in rotations)
                group.broadcast(*(part for rotation in rotations for part in rotation))
        return rotations

    def rotate(self, posterior: FactorPosterior, rotation: Rotation) -> FactorPosterior:
        matrix, shift, squares = (self.array(part.astype(np.float32), posterior.mean) for part in rotation)
        return posterior._replace(mean=posterior.mean @ matrix + shift, variance=posterior.variance @ squares)

    def shift(
        self, posterior: FactorPosterior, bias: float, cutpoints: np.ndarray, n_levels: int | None = None
    ) -> None:
        """Add to biases and cutpoints, of all rows or of those with so many levels; in place."""
        some = _with_levels(posterior, n_levels)
        posterior.mean[some, 0] += float(np.float32(bias))
        posterior.cutpoints[some] += self.array(cutpoints, posterior.cutpoints)
        posterior.gaps[some] = gaps_of(posterior.cutpoints[some], self.library)

    def set_cutpoint_prior_mean(
        self, prior: Prior, posterior: FactorPosterior, cutpoints: np.ndarray, n_levels: int
    ) -> None:
        """Centre the prior of cutpoints of rows with so many levels here; in place."""
        prior.cutpoints[_with_levels(posterior, n_levels)] = self.array(cutpoints, prior.cutpoints)

    def settle(
        self,
        answers: Answers,
        this: FactorPosterior,
        other: Columns,
        prior: Prior,
        settled: float,
        most_sweeps: int,
        **how: Any,
    ) -> None:
        """Half-sweeps until no coordinate moves by more than this share of its standard deviation."""
        for _ in range(most_sweeps):
            before = 1.0 * this.mean  # a copy, whatever kind of array it is
            self.half_sweep(answers, this, other, prior, **how)
            if ((this.mean - before) ** 2 <= settled**2 * this.variance).all():
                break

    # ---- the half-sweep in stages ----------------------------------------------------------------

    def staged_half_sweep(
        self, answers: Answers, this: FactorPosterior, other: Columns, prior: Prior, spread: bool = True
    ) -> Array:
        """The half-sweep where a row's answers are not all in one place.

        On cores a row is updated from its first answer to its last cutpoint. On a GPU long rows are
        shared by many programs, and where several processes learn together a column's answers are
        spread over all of them: every sum over answers is then a stage of its own, and what lies
        between is arithmetic on arrays with a line per row, done once for every row by the process
        that looks after it. Equals :meth:`half_sweep` on cores to rounding.
        """
        among = self.answers_among
        where, mine = self.library.where, among.share(len(this.mean))
        precision = self.array(prior.precision, this.mean)
        stays = self.library.isinf(precision)
        own = where(stays, 0.0, precision)
        sums, ridge = self.gather(answers, this, other)
        found = among.reduce_scatter(sums)
        away = this.mean[mine] - prior.mean[mine] if prior.mean.shape[1] else this.mean[mine]
        slope = where(stays, 0.0, found[:, 0] - own * away)
        diagonal = where(stays, 1.0, found[:, 1] + own)  # of what stays, anything but zero
        this.mean[mine] += self._solved(answers, other, ridge, slope, diagonal, own, stays)
        if spread:
            informed = (diagonal - own) / MEAN_FIELD_CORRECTION
            this.variance[mine] = where(stays, 0.0, 1.0 / (own + informed))
        among.complete(this.mean, this.variance)
        variance = 0.0 * this.cutpoints
        if prior.cutpoints_precision.size < 2 or np.isinf(prior.cutpoints_precision[1]):
            return variance
        n_rows, n_cutpoints = this.cutpoints.shape
        size = max(1, _BLOCK_BYTES // (8 * thresholds.moving_gaps(n_cutpoints).size ** 2))
        for start in range(0, n_rows, size):
            rows = slice(start, min(start + size, n_rows))
            systems = among.reduce_scatter(self.gap_sums(answers, this, other, rows))
            share = among.share(rows.stop - start)
            mine = slice(start + share.start, start + share.stop)
            variance[mine] = self.move_gaps(this, prior, systems, mine)
            among.complete(this.cutpoints[rows], this.gaps[rows], variance[rows])
        return variance

    def _solved(self, answers, other, ridge, slope, diagonal, own, stays):
        """Conjugate gradients with the diagonal as preconditioner, for all of this process' rows.

        Ridge is of all rows; slope and diagonal of those that it looks after, ``own`` what the
        prior adds to them.
        """
        among, where, whole = self.answers_among, self.library.where, self.library.empty_like(ridge)
        direction = whole[among.share(len(whole))]
        direction[:] = slope / diagonal
        size = (slope * direction).sum(1)
        least = SOLVED * size
        move = 0.0 * direction
        for step in range(STEPS):
            among.complete(whole)
            image = among.reduce_scatter(self.apply(answers, other, ridge, whole))
            image += own * direction
            # What is solved stays; its direction may be zero, and 0 / 0 is not a number.
            goes_on = size > least
            along = where(goes_on, size / where(goes_on, (direction * image).sum(1), 1.0), 0.0)
            move += along[:, None] * direction
            if step == STEPS - 1:
                break
            slope = where(stays, 0.0, slope - along[:, None] * image)
            scaled = slope / diagonal
            before, size = size, (slope * scaled).sum(1)
            direction *= where(goes_on, size / where(goes_on, before, 1.0), 0.0)[:, None]
            direction += scaled
        return move


def _with_levels(posterior: FactorPosterior, n_levels: int | None) -> Array:
    return slice(None) if n_levels is None else posterior.n_levels == int(n_levels)


def _all_reduced(group: Alone | Group, part: Array) -> Array:
    group.all_reduce(part)
    return part

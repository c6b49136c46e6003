"""What a place must offer to learn Gaussian factors, and what is the same in every place.

Learning (:mod:`ordinalrbm.matrix.variational`) is written once against :class:`HalfSweepEngine`. The
cores of this machine (:mod:`ordinalrbm.engine.half_sweep`) and a GPU
(:mod:`ordinalrbm.engine.gpu.half_sweep`) implement the sums over answers; several processes
(:mod:`ordinalrbm.engine.sharded`) add up what each of them has. Array algebra on one line per row
stands here, for NumPy and torch alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.engine import thresholds
from ordinalrbm.engine.gaussian_state import FactorPosterior, Moments, Prior, Rotation, Shares, gaps_of
from ordinalrbm.runtime.process_group import ALONE

# Steps of conjugate gradients. The next sweep goes on where this one ends, so that few will do.
STEPS = 2
# A residual that is smaller than this share of the first is rounding.
SOLVED = 1e-10
# Coordinates that are taken as independent seem to be known better than they are: answers tell less
# about each, by about this factor (found on the validation ratings of MovieLens 1M and 100K).
MEAN_FIELD_CORRECTION = 1.15
# The logarithm of a gap moves by no more than this in one step.
LARGEST_MOVE = 0.7
# Of the systems that log gaps are solved for with: priors put pivots far higher. That of a gap of
# nearly nothing, whose curvature is the difference of two huge numbers, may come out below.
LEAST_PIVOT = 1e-3
# Bytes of the systems of gaps that are in memory together.
_BLOCK_BYTES = 2**28


class HalfSweepEngine(ABC):
    """Updates of rows given columns, and sums over rows; answers and arrays are in its own form.

    ``this`` is the posterior of the rows and ``other`` that of the columns. Columns are updated by
    the same methods with the roles swapped.
    """

    library: Any  # numpy or torch

    # ---- implemented by each place -----------------------------------------------------------

    @abstractmethod
    def half_sweep(
        self, answers: Any, this: FactorPosterior, other: Any, prior: Prior, spread: bool = True
    ) -> Any:
        """Update the rows in place, given the columns; returns the variances of their cutpoints.

        Rows without answers become what their prior says. Without ``spread`` they are points.
        """

    @abstractmethod
    def array(self, values: np.ndarray, like: Any) -> Any:
        """A small array of the host, where ``like`` is."""

    @abstractmethod
    def host(self, values: Any) -> np.ndarray:
        """A small array as one of NumPy."""

    @abstractmethod
    def rated_sums(self, answers: Any, table: Any) -> Any:
        """(rows, W): the lines of a table, of the columns that each row has rated, summed."""

    @abstractmethod
    def rated_products(self, answers: Any, table: Any, of_rows: Any) -> Any:
        """(rows, W): Σ w (w · v) over the lines w that a row has rated, v being the row's own."""

    @abstractmethod
    def feature_table(self, table: csr_array, like: Any) -> Any:
        """Features of rows, sparse, with the attributes ``by_rows`` and ``by_features``."""

    # Stages of :meth:`staged_half_sweep`: sums over answers, without what the prior says.

    @abstractmethod
    def gather(self, answers: Any, this: FactorPosterior, other: Any) -> tuple[Any, Any]:
        """Slope and diagonal of the system, (rows, 2, 1 + R), and its ridge, (rows, 1 + R)."""

    @abstractmethod
    def apply(self, answers: Any, other: Any, ridge: Any, direction: Any) -> Any:
        """The system times a direction."""

    @abstractmethod
    def gap_sums(self, answers: Any, this: FactorPosterior, other: Any, rows: slice) -> Any:
        """(rows, M, M) systems of the log gaps that move, with slopes in place of column 0."""

    @abstractmethod
    def move_gaps(self, this: FactorPosterior, prior: Prior, system: Any, rows: slice) -> Any:
        """One Newton step on the log gaps of some rows; returns variances of their cutpoints."""

    def squared_error(self, answers: Any, this: FactorPosterior, other: Any, values: np.ndarray) -> float:
        """Expected squared distance of the answers' values from their means, summed."""
        raise NotImplementedError("Levels with known utilities are learnt on cores only.")

    # ---- array algebra ---------------------------------------------------------------------------

    def gram(self, table: Any) -> Any:
        """(W, W) products of the columns of a table that has a line for each row."""
        return table.T @ table

    def totals(self, table: Any) -> np.ndarray:
        """(W,) sums of the lines of a table that has one for each row, of all processes."""
        return self.totals_here(table)

    def totals_here(self, table: Any) -> np.ndarray:
        """(W,) sums over the rows of this process."""
        return self.host(table.sum(0, dtype=self.library.float64))

    def table_times(self, table: Any, weights: Any) -> Any:
        """(rows, W): features of rows times the weights of each."""
        return table.by_rows @ weights

    def table_sums(self, table: Any, of_rows: Any) -> Any:
        """(features, W): numbers of rows, times what each feature is there, summed."""
        return table.by_features @ of_rows

    def moments(self, posterior: FactorPosterior) -> Moments:
        """Sums over all rows, in float64."""
        mean = posterior.mean
        products = self.host(mean.T @ mean).astype(np.float64)
        return Moments(len(mean), self.totals_here(mean), products, self.totals_here(posterior.variance))

    def broadcast(self, *rotations: Rotation) -> tuple[Rotation, ...]:
        """The rotations of rank 0, which without other processes is the only one."""
        return rotations

    def rotate(self, posterior: FactorPosterior, rotation: Rotation) -> FactorPosterior:
        """The same factors in other axes."""
        matrix, shift, squares = (self.array(part.astype(np.float32), posterior.mean) for part in rotation)
        return posterior._replace(mean=posterior.mean @ matrix + shift, variance=posterior.variance @ squares)

    def cutpoint_squares(
        self, posterior: FactorPosterior, prior: Prior, cutpoints_variance: Any
    ) -> tuple[float, np.ndarray]:
        """How many there are, and expected squares of how far cutpoints are from their prior."""
        squares = (posterior.cutpoints - prior.cutpoints) ** 2 + cutpoints_variance
        return len(squares), self.host(squares.sum(0))

    def shares(self, posterior: FactorPosterior, n_levels: int | None = None) -> Shares:
        """Sums over all rows, or over those with so many levels."""
        some = _with_levels(posterior, n_levels)
        cutpoints = posterior.cutpoints[some]
        bias = self.totals_here(posterior.mean[some, :1])
        return Shares(len(cutpoints), float(bias[0]), self.host(cutpoints.sum(0)))

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

    # ---- the half-sweep in stages ----------------------------------------------------------------

    def staged_half_sweep(
        self,
        answers: Any,
        this: FactorPosterior,
        other: Any,
        prior: Prior,
        spread: bool = True,
        among: Any = ALONE,
    ) -> Any:
        """The half-sweep where a row's answers are not all in one place.

        On cores a row is updated from its first answer to its last cutpoint. On a GPU long rows are
        shared by many programs, and where several processes (``among``) learn together a column's
        answers are spread over all of them: every sum over answers is then a stage of its own,
        and what lies between is arithmetic on arrays with a line per row, done once for every
        row by the process that looks after it. Equals :meth:`half_sweep` on cores to rounding.
        """
        where, mine = self.library.where, among.share(len(this.mean))
        precision = self.array(prior.precision, this.mean)
        stays = self.library.isinf(precision)
        own = where(stays, 0.0, precision)
        sums, ridge = self.gather(answers, this, other)
        found = among.reduce_scatter(sums)
        away = this.mean[mine] - prior.mean[mine] if prior.mean.shape[1] else this.mean[mine]
        slope = where(stays, 0.0, found[:, 0] - own * away)
        diagonal = where(stays, 1.0, found[:, 1] + own)  # of what stays, anything but zero
        this.mean[mine] += self._solved(answers, other, ridge, slope, diagonal, own, stays, among)
        if spread:
            informed = (diagonal - own) / MEAN_FIELD_CORRECTION
            this.variance[mine] = where(stays, 0.0, 1.0 / (own + informed))
        among.complete(this.mean, this.variance)
        variance = 0.0 * this.cutpoints
        if prior.cutpoints_precision.size < 2 or np.isinf(prior.cutpoints_precision[1]):
            return variance
        n_rows, n_cutpoints = this.cutpoints.shape
        for rows in _row_blocks(n_rows, thresholds.moving_gaps(n_cutpoints).size):
            systems = among.reduce_scatter(self.gap_sums(answers, this, other, rows))
            share = among.share(rows.stop - rows.start)
            mine = slice(rows.start + share.start, rows.start + share.stop)
            variance[mine] = self.move_gaps(this, prior, systems, mine)
            among.complete(this.cutpoints[rows], this.gaps[rows], variance[rows])
        return variance

    def _solved(
        self,
        answers: Any,
        other: Any,
        ridge: Any,
        slope: Any,
        diagonal: Any,
        own: Any,
        stays: Any,
        among: Any,
    ) -> Any:
        """Conjugate gradients with the diagonal as preconditioner, for all of this process' rows.

        Ridge is of all rows; slope and diagonal of those that it looks after, ``own`` what the
        prior adds to them.
        """
        where, whole = self.library.where, self.library.empty_like(ridge)
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


def _with_levels(posterior: FactorPosterior, n_levels: int | None) -> Any:
    """Which rows have so many levels; without a number, all."""
    return slice(None) if n_levels is None else posterior.n_levels == int(n_levels)


def _row_blocks(n_rows: int, n_gaps: int) -> list[slice]:
    """Rows whose systems of gaps fit into little memory together."""
    size = max(1, _BLOCK_BYTES // (8 * n_gaps**2))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]

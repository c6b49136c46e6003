"""What the half-sweep of Gaussian factors sees of rows and columns, which meet in cells.

Sums over rows or columns are small, and what is made of them is the same whoever has summed: one
process, a GPU, or many machines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# Where levels say only between which thresholds a utility lies.
NO_VALUES = np.zeros(0, dtype=np.float32)
# Where nothing tells one row from another before its answers do.
NO_MEAN = np.zeros((0, 0), dtype=np.float32)


class FactorPosterior(NamedTuple):
    """What is known of the rows, or of the columns: a Gaussian with independent coordinates."""

    mean: Any  # (n, 1 + F) float32, bias and factors
    variance: Any  # (n, 1 + F) float32; zero where it is a point
    cutpoints: Any  # (n, M) float64, first threshold, log gaps; those of rows and columns are added
    gaps: Any  # (n, M) float64, the same with gaps themselves
    n_levels: Any  # (n,) int32, levels that they may use; the smaller number of both counts


class Prior(NamedTuple):
    """Gaussian priors of rows or columns; what has an infinite precision stays as it is."""

    precision: np.ndarray  # (1 + F,) float32, of bias and factors
    cutpoints: Any  # (n, M) float64, where cutpoints are drawn towards
    cutpoints_precision: np.ndarray  # (M,) float64; the first threshold always stays
    mean: Any = NO_MEAN  # (n, 1 + F) float32, where biases and factors are expected; zero if none


def gaps_of(cutpoints: Any, library: Any = np) -> Any:
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
        """Leaves everything as it is."""
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
        """Sums of the same in other axes."""
        matrix, shift, squares = rotation
        moved = np.outer(self.total @ matrix, shift)
        products = matrix.T @ self.products @ matrix + moved + moved.T
        return Moments(
            self.n,
            self.total @ matrix + self.n * shift,
            products + self.n * np.outer(shift, shift),
            self.variance @ squares,
        )


class Shares(NamedTuple):
    """Sums over some of them: how many they are, of their biases, and of their cutpoints."""

    n: float
    bias: float
    cutpoints: np.ndarray  # (M,)

    def means(self) -> tuple[float, np.ndarray]:
        """Mean bias and mean cutpoints."""
        return self.bias / self.n, self.cutpoints / self.n

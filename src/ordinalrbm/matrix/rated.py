"""Where rows and columns are expected by what was rated at all, however it was rated.

A row is expected at Bᵀ(x_d − x̄), where x_d are the columns that it has rated
(:mod:`ordinalrbm.engine.rated_sets`), and the same holds for columns, whose features are the rows
that have rated them. B is a ridge regression of what is known of the rows, of which a few steps of
conjugate gradients are done in every epoch: they go on where those of the last one have ended.

Arrays are NumPy's or torch's, and rows may be spread over processes: sums are the engine's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.engine.rated_sets import FEW

# Precision of the prior of a weight, as a multiple of that of what it explains (MovieLens 1M and
# 100K: 3 to 5 are about as good).
RIDGE = 3.0
# Steps of conjugate gradients.
_STEPS = 2


class View(NamedTuple):
    """How rows or columns are seen: their answers, and the engine that updates and sums them.

    Engines have the functions of :mod:`ordinalrbm.engine.half_sweep`; answers are in their form.
    """

    answers: Any
    engine: Any
    # Of rated sets, if they are used:
    lengths: Any = None  # (rows, 1), what each feature of a row is
    squares: Any = None  # (features, 1), squared lengths of features over all rows
    n: float = 0.0  # number of rows, of all processes


class Weights(NamedTuple):
    """Weights of the rated sets of rows, or of columns; those of none have no width."""

    each: Any  # (features, 1 + F) float32, B
    centre: np.ndarray  # (1 + F,) float64, Bᵀ times the average rated set

    @classmethod
    def zero(cls, n_features: int, width: int) -> Weights:
        return cls(np.zeros((n_features, width), dtype=np.float32), np.zeros(width))

    def rotate(self, matrix: np.ndarray, there: Any) -> Weights:
        """The same for rotated factors; ``there`` is the matrix where the weights are."""
        return Weights(self.each @ there, self.centre @ matrix)


NO_WEIGHTS = Weights.zero(0, 0)


def with_lengths(view: View, other_view: View, this: Any, other: Any) -> View:
    """The view of a side, with what its rated sets are; ``this`` and ``other`` are both sides."""
    counts = view.engine.rated_sums(view.answers, 0.0 * other.mean[:, :1] + 1.0)
    library, ones = view.engine.library, 0.0 * this.mean[:, :1] + 1.0
    lengths = ones / library.sqrt(counts + FEW)
    squares = other_view.engine.rated_sums(other_view.answers, lengths * lengths)
    n = float(view.engine.totals(ones)[0])
    return view._replace(lengths=lengths, squares=squares, n=n)


def renewed(
    view: View, other_view: View, mean: Any, known: Weights, expected: Any
) -> tuple[Weights, Any]:
    """Weights nearer to the regression of the means, and what they expect of every row."""
    sets = _Sets(view, other_view, mean)
    weights, centre = known
    residual = sets.transposed_times(mean - expected) - RIDGE * weights
    direction = residual / sets.diagonal
    size = sets.of_features(residual * direction)
    for step in range(_STEPS):
        by_rows, average = sets.times(direction)
        image = sets.transposed_times(by_rows) + RIDGE * direction
        share = size / np.maximum(sets.of_features(direction * image), 1e-30)
        along = sets.there(share)
        weights, centre = weights + along * direction, centre + share * average
        expected = expected + along * by_rows
        if step == _STEPS - 1:
            break
        residual = residual - along * image
        scaled = residual / sets.diagonal
        before, size = size, sets.of_features(residual * scaled)
        direction = scaled + sets.there(size / np.maximum(before, 1e-30)) * direction
    return Weights(weights, centre), expected


class _Sets:
    """Products with the features of rows, centred."""

    def __init__(self, view: View, other_view: View, like: Any) -> None:
        self.view, self.other, self.like = view, other_view, like
        self.diagonal = view.squares + RIDGE

    def times(self, weights: Any) -> tuple[Any, np.ndarray]:
        """Features times weights, without their average over all rows; and that."""
        found = self.view.lengths * self.view.engine.rated_sums(self.view.answers, weights)
        average = self._average(found)
        return found - self.there(average), average

    def transposed_times(self, of_rows: Any) -> Any:
        scaled = self.view.lengths * (of_rows - self.there(self._average(of_rows)))
        return self.other.engine.rated_sums(self.other.answers, scaled)

    def of_features(self, numbers: Any) -> np.ndarray:
        """Sums over features, which are the other side's."""
        return self.other.engine.totals(numbers)

    def there(self, values: np.ndarray) -> Any:
        return self.view.engine.array(values.astype(np.float32), self.like)

    def _average(self, of_rows: Any) -> np.ndarray:
        return self.view.engine.totals(of_rows) / self.view.n

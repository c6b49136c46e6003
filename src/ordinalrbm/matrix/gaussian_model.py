"""What learning leaves of Gaussian factors: the model of both factorisations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Counted, Counts, Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.gaussian_state import NO_VALUES, FactorPosterior
from ordinalrbm.engine.rated_sets import RatedSets, familiarity, raters_of, usual_count
from ordinalrbm.matrix.gaussian import GaussianState, posterior_of
from ordinalrbm.matrix.prior_means import NO_WEIGHTS, Weights
from ordinalrbm.storage.reader import LARGEST_NUMBER, Stored, wrong

# Of a file; they are divided by.
_SMALLEST_PRECISION, _SMALLEST_SPREAD = 1e-9, 1e-9
# Of those that are finite: beyond it, products on the way overflow float32. An infinite one holds
# something where it is, and is taken care of.
_LARGEST_PRECISION = 1e15


# Of a posterior: they follow from cutpoints and scales.
_FOLLOW = ("gaps", "n_levels")


# Of rows and of columns: by how much biases shift with the logarithm of how many answers somebody
# has, and at which logarithm they do not.
NO_SHIFTS = np.zeros((2, 2))
# Nobody counts as more than e to this times as active as usual, or as little: else the few ratings
# of one user with thousands, among users with two, would set the shift of all.
_MOST_ACTIVE = 4.0


def activity(counts: np.ndarray, centre: float) -> np.ndarray:
    """Logarithms of how many answers everyone has, around a centre; zero where there is none."""
    around = np.clip(np.log(np.maximum(counts, 1)) - centre, -_MOST_ACTIVE, _MOST_ACTIVE)
    return np.where(counts > 0, around, 0.0)


def shift_of(counts: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """What calibration adds to biases; nothing to those without an answer."""
    slope, centre = shift
    return slope * activity(counts, centre)


def read_shifts(stored: Stored) -> np.ndarray:
    """Of a file; those without calibration, and older ones, have none."""
    return stored.parameter("shifts", np.float64, (2, 2)) if "shifts" in stored else NO_SHIFTS


class Others(NamedTuple):
    """What newcomers are compared with: others, whose ratings are known."""

    usual_count: float  # of ratings
    average: np.ndarray  # (1 + F,) biases and factors, each counted as often as it has rated
    factors: np.ndarray  # (others, 1 + F)
    ratings: Observations  # of these others; newcomers have rated the same columns, or new ones
    table_mean: np.ndarray  # (features,) of those who have ratings; (0,) without a table
    cutpoints: np.ndarray = np.zeros(0)  # usual ones

    @classmethod
    def of(cls, factors: np.ndarray, ratings: Observations, table: csr_array | None) -> Others:
        counts = ratings.row_counts
        average = counts @ factors.astype(np.float64) / max(counts.sum(), 1)
        mean = np.zeros(0)
        if table is not None and counts.any():
            mean = np.asarray(table[np.flatnonzero(counts)].mean(axis=0)).reshape(-1)
        return cls(usual_count(counts), average, factors, ratings, mean)

    def near(self, rows: Observations) -> np.ndarray:
        """(rows, 1 + F) where those are on average who have rated what each newcomer has."""
        return raters_of(self.ratings, rows, self.factors, self.average)


class Touched(NamedTuple):
    """All ratings after an update, and which rows and columns have new ones."""

    ratings: Observations
    rows: np.ndarray
    columns: np.ndarray


class FactorPrior(NamedTuple):
    """Precisions with which biases and factors, and cutpoints, of rows or columns were learnt."""

    precision: np.ndarray  # (1 + F,)
    cutpoints_precision: np.ndarray  # (M,)
    weights: Weights = NO_WEIGHTS  # of their features

    def expected(
        self, rows: Observations, table: csr_array | None = None, others: Others | None = None
    ) -> np.ndarray:
        """(rows, 1 + F) where rows with these ratings are expected; (rows, 0) is at zero.

        The table has other features of these rows, if they have any. Of newcomers features do not
        tell much at first; they are expected where those are who have rated the same.
        """
        weights = self.weights
        if not rows.n_rows or (others is None and not weights.centre.size):
            return np.zeros((rows.n_rows, 0), dtype=np.float32)
        found = np.zeros((rows.n_rows, self.precision.size))
        centre = weights.centre if weights.centre.size else found[0]
        if weights.each.shape[1]:
            found += RatedSets.of(rows).times(weights.each)
        if weights.table.shape[1] and table is not None:
            found += table @ weights.table
        if others is None:
            return (found - centre).astype(np.float32)
        of_table = 0.0 * centre
        if weights.table.shape[1] and others.table_mean.size:
            of_table = others.table_mean @ weights.table
        known = familiarity(rows.row_counts, others.usual_count)[:, None]
        found += (1.0 - known) * others.near(rows) - known * (centre - of_table) - of_table
        return found.astype(np.float32)


class GaussianModel(NamedTuple):
    """Biases and factors of rows and columns, with what is not known of them."""

    rows: FactorPosterior
    columns: FactorPosterior
    row_prior: FactorPrior
    column_prior: FactorPrior
    values: np.ndarray = NO_VALUES  # (L,) float32, the utility of each level; none if ordinal
    spread: float = 1.0  # standard deviation of a utility around its mean, by calibration
    share: float = 1.0  # the model's part in what several of them predict together
    is_draw: bool = False  # one of many draws, whose spread is what is not known
    is_exact: bool = False  # whether all variances are zero, so that nobody need look at them
    shifts: np.ndarray = NO_SHIFTS  # (2, 2), by calibration; biases have them

    @classmethod
    def of_state(cls, state: GaussianState) -> GaussianModel:
        """The model of what was learnt, with the same arrays."""
        of_rows, of_columns = (
            FactorPrior(prior.precision, prior.cutpoints_precision, weights)
            for prior, weights in (
                (state.row_prior, state.row_weights),
                (state.column_prior, state.column_weights),
            )
        )
        return cls(state.rows, state.columns, of_rows, of_columns, state.values)

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> GaussianModel:
        """The model of a file whose columns are on scales of so many levels."""
        width = thresholds.n_cutpoints(n_levels)
        rows = _posterior_from(stored.under("rows."), np.full(n_rows, width + 1), width)
        n_factors = rows.mean.shape[1] - 1
        columns = _posterior_from(stored.under("columns."), n_levels, width, n_factors)
        of_rows, of_columns = (
            _prior_from(stored.under(f"{name}."), n_factors, width, n_features)
            for name, n_features in (("row_prior", n_levels.size), ("column_prior", n_rows))
        )
        values = stored.parameter("values", np.float32, (None,), -LARGEST_NUMBER, LARGEST_NUMBER)
        if values.size and (values.size < n_levels.max() or (np.diff(values) <= 0).any()):
            raise wrong("values", "does not ascend over all levels")
        spread = stored.parameter("spread", np.float64, (1,), _SMALLEST_SPREAD)
        share = stored.checked_array("share", np.float64, (1,), 0.0, 1.0)
        return cls(
            rows, columns, of_rows, of_columns, values, float(spread[0]), float(share[0]),
            shifts=read_shifts(stored),
        )  # fmt: skip

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"values": self.values}
        if self.shifts.any():
            arrays["shifts"] = self.shifts
        arrays |= {name: np.array([getattr(self, name)]) for name in ("spread", "share")}
        for name in ("rows", "columns", "row_prior", "column_prior"):
            parts = getattr(self, name)._asdict()
            weights = parts.pop("weights", NO_WEIGHTS)
            arrays |= {f"{name}.{part}": parts[part] for part in parts if part not in _FOLLOW}
            arrays |= {
                f"{name}.{part}": array for part, array in weights._asdict().items() if array.size
            }
        return arrays

    @property
    def n_levels(self) -> Any:
        return self.columns.n_levels

    @property
    def most_levels(self) -> int:
        return self.column_cutpoints.shape[1] + 1

    @property
    def row_cutpoints(self) -> Any:
        """(rows, M) first threshold and log gaps."""
        return self.rows.cutpoints

    @property
    def column_cutpoints(self) -> Any:
        """(columns, M) first threshold and log gaps."""
        return self.columns.cutpoints

    @property
    def n_rows(self) -> int:
        return len(self.rows.mean)

    @property
    def n_columns(self) -> int:
        return len(self.columns.mean)

    @property
    def n_factors(self) -> int:
        return self.rows.mean.shape[1] - 1

    @property
    def is_point(self) -> bool:
        """Whether nothing is said about how well anything is known."""
        return not (self.is_draw or self.rows.variance.any() or self.columns.variance.any())

    def shifted(self, ratings: Counted | Counts, sign: float = 1.0) -> GaussianModel:
        """With the shifts of calibration for those with so many ratings, or without them."""
        counts, sides = (ratings.row_counts, ratings.column_counts), []
        for side, own, shift in zip((self.rows, self.columns), counts, self.shifts, strict=True):
            mean = side.mean.copy()
            mean[:, 0] += (sign * shift_of(own, shift)).astype(np.float32)
            sides.append(side._replace(mean=mean))
        return self._replace(rows=sides[0], columns=sides[1])

    def with_rows(self, change: Callable[[Any], Any]) -> GaussianModel:
        """Every array changed that has a line per row."""
        prior = self.column_prior
        if prior.weights.each.shape[1]:
            weights = prior.weights._replace(each=change(prior.weights.each))
            prior = prior._replace(weights=weights)
        rows = FactorPosterior(*map(change, self.rows))
        return self._replace(rows=rows, column_prior=prior)


def _posterior_from(
    stored: Stored, n_levels: np.ndarray, width: int, n_factors: int | None = None
) -> FactorPosterior:
    n, wide = n_levels.size, None if n_factors is None else 1 + n_factors
    mean = stored.parameter("mean", np.float32, (n, wide))
    if not mean.shape[1]:
        raise wrong("mean", "has no biases")
    variance = stored.parameter("variance", np.float32, mean.shape, 0.0, LARGEST_NUMBER)
    most = thresholds.LARGEST_CUTPOINT
    cutpoints = stored.parameter("cutpoints", np.float64, (n, width), high=most)
    return posterior_of(mean, variance, cutpoints, n_levels)


def _prior_from(stored: Stored, n_factors: int, width: int, n_features: int) -> FactorPrior:
    least, weights = _SMALLEST_PRECISION, NO_WEIGHTS
    if "centre" in stored:
        own_width = 1 + n_factors
        weights = Weights.zero(n_features, 0)._replace(
            centre=stored.parameter("centre", np.float64, (own_width,))
        )
        if "each" in stored:
            each = stored.parameter("each", np.float32, (n_features, own_width))
            weights = weights._replace(each=each)
        if "table" in stored:
            table = stored.parameter("table", np.float32, (None, own_width))
            weights = weights._replace(table=table)
    of_gaps = stored.checked_array("cutpoints_precision", np.float64, (width,), least, np.inf)
    is_fixed = np.isinf(of_gaps[1:])  # the first is no gap: it always stays
    if is_fixed.any() and not is_fixed.all():
        raise wrong("cutpoints_precision", "is infinite for some gaps and not for others")
    precision = stored.checked_array("precision", np.float32, (1 + n_factors,), least, np.inf)
    for name, part in (("precision", precision), ("cutpoints_precision", of_gaps)):
        if (np.isfinite(part) & (part > _LARGEST_PRECISION)).any():
            raise wrong(name, "has numbers that are too large")
    return FactorPrior(precision, of_gaps, weights)

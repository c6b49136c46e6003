"""What learning leaves of Gaussian factors: the model of both factorisations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.base import NO_VALUES, FactorPosterior
from ordinalrbm.engine.drift import Bins
from ordinalrbm.engine.normal_reference import truncated_mean
from ordinalrbm.engine.rated_sets import FEW
from ordinalrbm.engine.side import Array
from ordinalrbm.matrix import cold_start, predict, protocol, top_n, update
from ordinalrbm.matrix.drift import NO_DRIFT, PlacedCells, RowDrift
from ordinalrbm.matrix.explain import NEXT_TO, cells_of, repeated
from ordinalrbm.matrix.feature_priors import NO_WEIGHTS, FactorPrior, Tables, TrainedRows, Weights
from ordinalrbm.matrix.top_n import Curves, mean_deviation
from ordinalrbm.matrix.update import infer_rows
from ordinalrbm.matrix.variational import GaussianState, posterior_of
from ordinalrbm.runtime.blocks import over_rows, taken
from ordinalrbm.storage.reader import LARGEST_NUMBER, Stored, wrong

# Of a file; it is divided by.
_SMALLEST_PRECISION = 1e-9
# Of those that are finite: beyond it, products on the way overflow float32. An infinite one holds
# something where it is, and is taken care of.
_LARGEST_PRECISION = 1e15


# Of a posterior: they follow from cutpoints and scales.
_FOLLOW = ("gaps", "n_levels")


class GaussianModel(NamedTuple):
    """Biases and factors of rows and columns, with what is not known of them."""

    rows: FactorPosterior
    columns: FactorPosterior
    row_prior: FactorPrior
    column_prior: FactorPrior
    values: np.ndarray = NO_VALUES  # (L,) float32, the utility of each level; none if ordinal
    share: float = 1.0  # the model's part in what several of them predict together
    is_draw: bool = False  # one of many draws, which differ by what is not known
    is_exact: bool = False  # whether all variances are zero, so that they need not be looked at
    drift: RowDrift = NO_DRIFT

    @classmethod
    def of_state(cls, state: GaussianState, bins: Bins | None = None) -> GaussianModel:
        of_rows, of_columns = (
            FactorPrior(prior.precision, prior.cutpoints_precision, weights)
            for prior, weights in (
                (state.row_prior, state.row_weights),
                (state.column_prior, state.column_weights),
            )
        )
        found = cls(state.rows, state.columns, of_rows, of_columns, state.values)
        if bins is None:
            return found
        level, variance = (part[None] for part in (state.drift.level, state.drift_variance))
        drift = RowDrift(bins.start, bins.last, level, variance)
        return found._replace(rows=drift.as_of_now(state.rows), drift=drift)

    @classmethod
    def blank(cls, n_factors: int) -> GaussianModel:
        """One row and one column of which nothing is known, where there is nothing to learn."""
        nothing = np.zeros((1, 1 + n_factors), dtype=np.float32)
        unknown = posterior_of(nothing, nothing, np.zeros((1, 1)), np.full(1, 2))
        prior = FactorPrior(np.ones(1 + n_factors, dtype=np.float32), np.ones(1))
        return cls(unknown, unknown, prior, prior)

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> GaussianModel:
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
        share = float(stored.checked_array("share", np.float64, (1,), 0.0, 1.0)[0])
        drift = RowDrift.from_stored(stored, n_rows, 1, np.float32)
        return cls(rows, columns, of_rows, of_columns, values, share, drift=drift)

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"values": self.values, "share": np.array([self.share]), **self.drift.to_arrays()}
        for name in ("rows", "columns", "row_prior", "column_prior"):
            parts = getattr(self, name)._asdict()
            weights = parts.pop("weights", NO_WEIGHTS)
            arrays |= {f"{name}.{part}": parts[part] for part in parts if part not in _FOLLOW}
            arrays |= {f"{name}.{part}": array for part, array in weights._asdict().items() if array.size}
        return arrays

    @property
    def models(self) -> list[GaussianModel]:
        return [self]

    def at(self, placed: PlacedCells) -> list[GaussianModel]:
        return [self._replace(rows=self.drift.placed(self.rows, 0, *placed[:2]), drift=NO_DRIFT)]

    @property
    def n_levels(self) -> Array:
        return self.columns.n_levels

    @property
    def most_levels(self) -> int:
        return self.column_cutpoints.shape[1] + 1

    @property
    def row_cutpoints(self) -> Array:
        return self.rows.cutpoints

    @property
    def column_cutpoints(self) -> Array:
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
        sides = self.rows.variance, self.columns.variance
        # Mostly the first line tells.
        return not (self.is_draw or any(part[:1].any() or part.any() for part in sides))

    def with_rows(
        self, change: Callable[[Array], Array], of_bins: Callable[[Array], Array] | None = None
    ) -> GaussianModel:
        prior = self.column_prior
        if prior.weights.each.shape[1]:
            weights = prior.weights._replace(each=change(prior.weights.each))
            prior = prior._replace(weights=weights)
        rows = FactorPosterior(*map(change, self.rows))
        return self._replace(rows=rows, column_prior=prior, drift=self.drift.with_rows(change, of_bins))

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        return self.rows.mean, self.columns.mean

    # ---- predictions ----------------------------------------------------------------------------

    def utilities(self, cells: Cells) -> protocol.Utilities:
        found = protocol.Utilities(*np.zeros((len(protocol.Utilities._fields), cells.row.size)))
        rows, columns, where = self.rows, self.columns, (cells.row, cells.column)
        if not self.is_draw:
            over_rows(
                predict.set_gaussian, cells.row.size, rows, columns, *where, found.base, found.deviation
            )
            return found
        over_rows(predict.set_products, cells.row.size, rows.mean, columns.mean, *where, found.base)
        found.deviation[:] = 1.0
        if not self.is_exact:
            over_rows(predict.set_deviations, cells.row.size, rows, columns, *where, found.deviation)
        return found

    def moments(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        found = self.utilities(cells)
        return found.base, found.deviation

    def add_probabilities(self, cells: Cells, total: np.ndarray) -> None:
        if not self.is_draw:
            return predict.add_by_utility(self, cells, total)
        gaps, share = (self.rows.gaps, self.columns.gaps), float(self.share)
        arguments = *self.moments(cells), *gaps, self.n_levels, share, cells.row, cells.column, total
        over_rows(predict.add_drawn, cells.row.size, *arguments)

    def scorer(self, worth: np.ndarray) -> protocol.AddScores:
        return top_n.scorer_by_utility(self, worth)

    def liking(self, lowest: np.ndarray) -> top_n.Liking | None:
        """One draw of many is not asked alone."""
        return None if self.is_draw else top_n.Liking(self.rows, self.columns, lowest)

    def means_above(self, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
        own, other = self.rows.mean[rows], self.columns.mean[: first.size]
        mean = own[:, 1:] @ other[:, 1:].T
        mean += other[:, 0] - first
        mean += own[:, :1]
        return mean

    def inverse_deviations(self, rows: np.ndarray, n_columns: int) -> np.ndarray:
        """With what is not known of a mean, if anything is said about that."""
        if self.is_exact:
            return np.ones((rows.size, 1), dtype=np.float32)
        p, p_variance = (part[rows] for part in self.rows[:2])
        q, q_variance = (part[:n_columns] for part in self.columns[:2])
        variance = p_variance[:, 1:] @ (q * q + q_variance)[:, 1:].T
        variance += (p * p)[:, 1:] @ q_variance[:, 1:].T
        variance += q_variance[:, 0]
        variance += p_variance[:, :1]
        variance += np.float32(1.0)
        np.sqrt(variance, out=variance)
        return np.divide(np.float32(1.0), variance, out=variance)

    def cell_terms(self, row: Array, column: Array) -> protocol.CellTerms:
        rows, columns = self.rows, self.columns
        one = 0.0 * rows.cutpoints[0, :1] + 1.0  # in float64
        p, q = one * rows.mean[row, 0], one * columns.mean[column, 0]
        of_p, of_q = one * rows.variance[row, 0], one * columns.variance[column, 0]
        # Products of whole rows of the tables: biases are among them, and are taken out again.
        mean = p + q - p * q
        variance = 1.0 + of_p + of_q - (of_q * (p * p + of_p) + q * q * of_p)
        products = protocol.Product(
            columns.mean, rows.mean, columns.variance, rows.variance, one, 0.0, is_of_rows=True
        )
        return protocol.CellTerms(mean, variance, [products], 1.0)

    def with_utilities(self) -> GaussianModel:
        return self

    def curves(self, worth: np.ndarray) -> Curves:
        deviation = mean_deviation(self.rows, self.columns)
        row_gaps = self.row_cutpoints.mean(axis=0)
        return Curves.of(self.column_cutpoints, self.n_levels, row_gaps, worth, deviation)

    # ---- what is not known ----------------------------------------------------------------------

    def with_unknown(self, counts: np.ndarray | None = None, n_levels: int | None = None) -> GaussianModel:
        longest = self.n_levels == self.n_levels.max()
        cutpoints = self.column_cutpoints[longest].mean(0)
        known = self._replace(
            rows=_with_average(self.rows, self.row_cutpoints.mean(0), self.is_point),
            columns=_with_average(self.columns, cutpoints, self.is_point, counts),
            is_exact=False,
        )
        if n_levels is None:
            return known
        return known._on_scales(*cold_start.with_last_on(known.n_levels, known.column_cutpoints, n_levels))

    def _on_scales(self, n_levels: np.ndarray, cutpoints: np.ndarray) -> GaussianModel:
        known = self.columns
        return self._replace(columns=posterior_of(known.mean, known.variance, cutpoints, n_levels))

    def reordered(self, rows: np.ndarray, columns: np.ndarray, n_levels: np.ndarray) -> GaussianModel:
        has_unknown = bool((rows < 0).any() or (columns < 0).any())
        # A model of nothing has only the unknown row and column.
        known = self.with_unknown() if has_unknown and (rows >= 0).any() else self
        width = thresholds.n_cutpoints(n_levels)
        ordered = known._replace(
            rows=_reordered(known.rows, rows, np.full(rows.size, width + 1), width),
            columns=_reordered(known.columns, columns, n_levels, width),
            row_prior=_widened(known.row_prior, width, columns),
            column_prior=_widened(known.column_prior, width, rows),
            drift=known.drift.ordered(rows),
        )
        cutpoints = ordered.column_cutpoints
        cold_start.set_mean_cutpoints(cutpoints, n_levels, columns >= 0)
        return ordered._on_scales(n_levels, cutpoints)

    def with_feature_priors(self, ratings: Observations, tables: Tables) -> GaussianModel:
        of_rows = _described(self.rows, self.row_prior, ratings, tables.rows)
        if tables.columns is not None:
            ratings = ratings.transpose()
        of_columns = _described(self.columns, self.column_prior, ratings, tables.columns, self.rows.mean)
        return self._replace(rows=of_rows, columns=of_columns)

    # ---- new ratings ----------------------------------------------------------------------------

    def with_newcomers(
        self, known: Observations, ratings: Observations, tables: Tables, backend: protocol.Backend
    ) -> GaussianModel:
        return update.with_newcomers(self, known, ratings, tables, backend)

    def longer(self, ratings: Observations) -> GaussianModel:
        """With new rows and columns, as many as have ratings, of which only the prior is known."""
        most = np.full(ratings.n_rows, self.most_levels)
        return self._replace(
            rows=_longer(self.rows, self.row_prior, most, self.is_point),
            columns=_longer(self.columns, self.column_prior, ratings.n_levels, self.is_point),
            row_prior=_with_features(self.row_prior, ratings.n_columns),
            column_prior=_with_features(self.column_prior, ratings.n_rows),
            drift=self.drift.longer(ratings.n_rows) if self.drift.is_any else NO_DRIFT,
        )

    def compared_with(self, known: Observations, table: csr_array | None) -> TrainedRows:
        cutpoints = self.rows.cutpoints.mean(axis=0)
        return TrainedRows.of(self.rows.mean, known, table)._replace(cutpoints=cutpoints)

    def infer_rows(
        self, ratings: Observations, lines: csr_array | None, others: TrainedRows, backend: protocol.Backend
    ) -> list[GaussianModel]:
        most = np.full(ratings.n_rows, self.most_levels)
        cutpoints = np.repeat(others.cutpoints[None], ratings.n_rows, axis=0)
        return [self._replace(rows=infer_rows(self, ratings, lines, others, cutpoints, most, backend))]

    def updated(
        self, known: Observations, touched: protocol.ChangedRatings, tables: Tables, backend: protocol.Backend
    ) -> GaussianModel:
        return update.updated(self, known, touched, tables, backend)

    # ---- reasons --------------------------------------------------------------------------------

    def rating_effects(self, cell: protocol.ExplainedCell) -> tuple[float, np.ndarray]:
        """The row's bias and factors are a regression of its utilities, which answers add up in.

        All of them together move the mean utility of the cell from what features alone expect, and
        the worth of a utility is taken as linear between the two.
        """
        before = self.row_prior.without_answers(cell.line, self.n_columns)
        target = self._regressors(np.array([cell.column]))[1][0]
        parts = self._utility_parts(cell, target, before)
        now = self.rows.mean[cell.row].astype(np.float64)
        after, start = now @ target, before @ target
        if cell.is_answered:  # as if it were not; what the others add stays
            after = start + parts.sum()
        # Learning stops before the regression is solved to the last digit: the rest is shared.
        size = np.abs(parts)
        parts += (after - start - parts.sum()) * size / max(size.sum(), NEXT_TO)
        expected, at_start = self._worth_at(cell, np.array([after, start]))
        slope = (expected - at_start) / (after - start) if abs(after - start) > NEXT_TO else 0.0
        if not slope:
            near = self._worth_at(cell, after + np.array([-NEXT_TO, NEXT_TO]))
            slope = (near[1] - near[0]) / (2.0 * NEXT_TO)
        return float(expected), slope * parts

    def _utility_parts(
        self, cell: protocol.ExplainedCell, target: np.ndarray, before: np.ndarray
    ) -> np.ndarray:
        """What each answer adds to the mean utility, from where the row is expected before."""
        prior, columns = self.row_prior, cell.columns
        biases, regressors = self._regressors(columns)
        times = np.reshape(cell.weight, (-1, 1))
        doubt = (times * self.columns.variance[columns]).sum(axis=0, dtype=np.float64)
        doubt[0] = 0.0
        free = np.isfinite(prior.precision)
        system = (times * regressors[:, free]).T @ regressors[:, free]
        system += np.diag(prior.precision[free] + doubt[free])
        along = np.zeros(target.size)
        # Precisions may differ by many powers of ten, which says nothing about the solution.
        size = 1.0 / np.sqrt(np.diag(system))
        along[free] = size * linalg.solve(system * size * size[:, None], size * target[free], assume_a="pos")
        utility = self._expected_utilities(cell) - biases
        parts = cell.weight * (regressors @ along) * (utility - regressors @ before)
        if prior.weights.each.shape[1]:  # that it was rated at all
            length = 1.0 / np.sqrt(columns.size + FEW)
            pull = prior.weights.each[columns].astype(np.float64) * length
            parts += pull[:, free] @ (prior.precision[free] * along[free])
        return parts

    def _regressors(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Biases of columns, and what a row's own bias and factors meet in them."""
        found = self.columns.mean[columns].astype(np.float64)
        biases = found[:, 0].copy()
        found[:, 0] = 1.0
        return biases, found

    def _expected_utilities(self, cell: protocol.ExplainedCell) -> np.ndarray:
        """(answers,) mean of each utility, given its level and what is known of row and column."""
        if self.values.size:
            return self.values[cell.levels].astype(np.float64)
        cells = Cells(np.full(cell.columns.size, cell.row), cell.columns, cell.levels)
        mean, (low, high) = self.utilities(cells).base, predict.bounds(self, cells)
        return mean + truncated_mean(low - mean, high - mean)

    def _worth_at(self, cell: protocol.ExplainedCell, means: np.ndarray) -> np.ndarray:
        """Expected worth of a cell whose mean utility is each of these, plus the column's bias."""
        rows = FactorPosterior(*(repeated(part, cell.row, means.size) for part in self.rows))
        now = rows.mean[0].astype(np.float64) @ self._regressors(np.array([cell.column]))[1][0]
        rows.mean[:, 0] += (means - now).astype(np.float32)
        found = predict.probabilities([self._replace(rows=rows)], cells_of(cell.column, means.size))
        return found[:, : cell.worth.size] @ cell.worth


def _with_average(
    posterior: FactorPosterior, cutpoints: Array, is_point: bool, counts: np.ndarray | None = None
) -> FactorPosterior:
    mean = cold_start.average(posterior.mean, counts)
    away = 0.0 * mean
    if not is_point:
        away = cold_start.average(posterior.variance + (posterior.mean - mean) ** 2, counts)
    gaps = cold_start.library(cutpoints).exp(cutpoints)
    gaps[:1] = cutpoints[:1]
    added = (mean, away, cutpoints, gaps, posterior.n_levels.max())
    return FactorPosterior(*map(cold_start.append, posterior, added))


def _reordered(
    posterior: FactorPosterior, rows: np.ndarray, n_levels: np.ndarray, width: int
) -> FactorPosterior:
    mean, variance = taken(posterior.mean, rows), taken(posterior.variance, rows)
    return posterior_of(mean, variance, cold_start.wide(posterior.cutpoints[rows], width), n_levels)


def _widened(prior: FactorPrior, width: int, features: np.ndarray) -> FactorPrior:
    """For longer scales, and with features in this order; unknown ones, at −1, tell nothing."""
    own, weights = prior.cutpoints_precision, prior.weights
    if weights.each.shape[1]:
        each = taken(weights.each, features)
        each[features < 0] = 0.0
        weights = weights._replace(each=each)
    precision = np.pad(own, (0, width - own.size), mode="edge")
    return prior._replace(cutpoints_precision=precision, weights=weights)


def _described(
    posterior: FactorPosterior,
    prior: FactorPrior,
    ratings: Observations,
    table: csr_array | None,
    facing: np.ndarray | None = None,
) -> FactorPosterior:
    if table is None or not prior.weights.table.shape[1]:
        return posterior
    new = np.flatnonzero((ratings.row_counts == 0) & (np.diff(table.indptr) > 0))
    if not new.size:
        return posterior
    mean, variance = posterior.mean.copy(), posterior.variance.copy()
    others = TrainedRows.of(posterior.mean, ratings, table, facing=facing)
    mean[new] = prior.expected(ratings.take_rows(new), table[new], others)
    variance[new] = 1.0 / prior.precision
    return posterior._replace(mean=mean, variance=variance)


def _longer(
    posterior: FactorPosterior, prior: FactorPrior, n_levels: np.ndarray, is_point: bool
) -> FactorPosterior:
    n_known = len(posterior.mean)
    new_levels = n_levels[n_known:]
    cutpoints = cold_start.cutpoints_by_levels(posterior.cutpoints, n_levels[:n_known])
    return posterior_of(
        cold_start.with_more(posterior.mean, new_levels.size, 0.0),
        cold_start.with_more(posterior.variance, new_levels.size, 0.0 if is_point else 1 / prior.precision),
        cold_start.with_more(posterior.cutpoints, new_levels.size, cutpoints[new_levels]),
        n_levels,
    )


def _with_features(prior: FactorPrior, n_features: int) -> FactorPrior:
    weights = prior.weights
    if not weights.each.shape[1]:
        return prior
    each = cold_start.with_more(weights.each, n_features - len(weights.each), 0.0)
    return prior._replace(weights=weights._replace(each=each))


def _posterior_from(
    stored: Stored, n_levels: np.ndarray, width: int, n_factors: int | None = None
) -> FactorPosterior:
    n, n_numbers = n_levels.size, None if n_factors is None else 1 + n_factors
    mean = stored.parameter("mean", np.float32, (n, n_numbers))
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
            weights = weights._replace(each=stored.parameter("each", np.float32, (n_features, own_width)))
        if "table" in stored:
            weights = weights._replace(table=stored.parameter("table", np.float32, (None, own_width)))
    of_gaps = stored.checked_array("cutpoints_precision", np.float64, (width,), least, np.inf)
    is_fixed = np.isinf(of_gaps[1:])  # the first is no gap: it always stays
    if is_fixed.any() and not is_fixed.all():
        raise wrong("cutpoints_precision", "is infinite for some gaps and not for others")
    precision = stored.checked_array("precision", np.float32, (1 + n_factors,), least, np.inf)
    for name, part in (("precision", precision), ("cutpoints_precision", of_gaps)):
        if (np.isfinite(part) & (part > _LARGEST_PRECISION)).any():
            raise wrong(name, "has numbers that are too large")
    return FactorPrior(precision, of_gaps, weights)

"""The matrix model: two sets of parameters that face each other, and the Sides they make.

Each observed cell (d, i) joins the factors h_d of its row and g_i of its column:

    μ_di = α_i + β_d + w_i·h_d + ω_d·g_i
    θ_di,1 = τ_i,1        θ_di,l+1 = θ_di,l + exp(τ_i,l + κ_d,l)

Given the columns' expected factors, the rows are independent vector models with an offset, and the
other way round. Both processes are the same computation on the other view of the data: what a
:class:`Half` holds of the columns in one of them, the other one's holds of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import csr_array
from scipy.special import expit, logit

from ordinalrbm.data.observations import Cells, Counted, Observations
from ordinalrbm.engine import gibbs, thresholds
from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.engine.normal_reference import truncated_mean, truncated_variance
from ordinalrbm.engine.side import Array, Side
from ordinalrbm.matrix import cold_start, predict, protocol, top_n
from ordinalrbm.matrix.binary_fold_in import KnownColumns, NewRows
from ordinalrbm.matrix.explain import NEXT_TO, effects_of_copies, repeated
from ordinalrbm.matrix.feature_priors import NO_TABLES, Tables
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.storage.reader import Stored, wrong
from ordinalrbm.vector.posterior import MAX_ITERATIONS, TOLERANCE

# Two levels of a threshold table are no levels, see :mod:`ordinalrbm.engine.thresholds`.
_EXTRA_ENDS = 3
# Distributions are divided by a gain.
_SMALLEST_GAIN = 1e-9
_SMALLEST_PRECISION = 1e-9  # of a file; they are divided by
_HALVES = ("by_rows", "by_columns")


class Half(NamedTuple):
    """One process: parameters of the columns that the rows' factors act on, and these factors."""

    weights: Array  # (C, K) float32, w (or ω)
    bias: Array  # (C,) float32, α (or β)
    cutpoints: Array  # (C, L − 1) float64, τ (or κ): first threshold, which stays, then log gaps
    factor_bias: Array  # (K,) float32, γ (or ξ)
    factors: Array  # (R, K) float32, ĥ (or ĝ): expected factors of the rows

    @property
    def n_factors(self) -> int:
        return self.weights.shape[1]

    def with_columns(self, change: Callable[[Array], Array]) -> Half:
        return self._replace(
            weights=change(self.weights), bias=change(self.bias), cutpoints=change(self.cutpoints)
        )

    def with_unknown(self, cutpoints: Array, counts: np.ndarray | None = None) -> Half:
        """With an average column and an average row.

        The column acts on average factors; its own weights are unknown, so none.
        """
        factors = self.factors.mean(0)
        bias = 0.0 * factors.sum()
        if len(self.bias):
            bias = cold_start.average(self.bias + self.weights @ factors, counts)
        return self._replace(
            weights=cold_start.append(self.weights, 0.0 * factors),
            bias=cold_start.append(self.bias, bias),
            cutpoints=cold_start.append(self.cutpoints, cutpoints),
            factors=cold_start.append(self.factors, factors),
        )

    def reordered(self, columns: np.ndarray, rows: np.ndarray, width: int) -> Half:
        return self._replace(
            weights=self.weights[columns],
            bias=self.bias[columns],
            cutpoints=cold_start.wide(self.cutpoints[columns], width),
            factors=self.factors[rows],
        )

    def longer(self, prior: ColdStartPrior, new_levels: np.ndarray, more_rows: int) -> Half:
        """With new columns and new rows of which nothing is known; shares what does not grow."""
        half, more = self, new_levels.size
        if more:
            half = half._replace(
                weights=cold_start.with_more(half.weights, more, 0.0),
                bias=cold_start.with_more(half.bias, more, prior.bias),
                cutpoints=cold_start.with_more(half.cutpoints, more, prior.cutpoints[new_levels]),
            )
        if more_rows:
            half = half._replace(factors=cold_start.with_more(half.factors, more_rows, prior.factors))
        return half

    @classmethod
    def from_stored(cls, stored: Stored, n_columns: int, n_rows: int, width: int) -> Half:
        weights = stored.parameter("weights", np.float32, (n_columns, None))
        n_factors, most = weights.shape[1], thresholds.LARGEST_CUTPOINT
        return cls(
            weights,
            stored.parameter("bias", np.float32, (n_columns,)),
            stored.parameter("cutpoints", np.float64, (n_columns, width), high=most),
            stored.parameter("factor_bias", np.float32, (n_factors,)),
            stored.parameter("factors", np.float32, (n_rows, n_factors), 0.0, 1.0),
        )


class Precisions(NamedTuple):
    """Of the priors that weights, biases and log gaps were learnt with."""

    weights: float | np.ndarray
    bias: float
    cutpoints: float


class ColdStartPrior(NamedTuple):
    """What the columns of a half are like on the whole: the priors of new ones.

    Precisions are infinite where there are no such parameters to learn.
    """

    factors: np.ndarray  # (factors,) of the rows
    bias: np.ndarray  # (1,) of a column that meets average factors; its weights are zero
    cutpoints: np.ndarray  # (L + 1, L − 1) for each number of levels
    weights_precision: np.ndarray  # (factors,)
    bias_precision: np.ndarray  # (1,)
    cutpoints_precision: np.ndarray  # (1,)

    @classmethod
    def of_half(cls, half: Half, n_levels: np.ndarray, precisions: Precisions | None) -> ColdStartPrior:
        """Means over the columns of a half; without precisions all is fixed."""
        factors = half.factors.mean(axis=0, dtype=np.float64)
        bias = np.mean(half.bias + half.weights @ factors, keepdims=True)
        parts = Precisions(np.inf, np.inf, np.inf) if precisions is None else precisions
        weights, own, gaps = (np.asarray(part, dtype=np.float64).reshape(-1) for part in parts)
        cutpoints = cold_start.cutpoints_by_levels(half.cutpoints, n_levels)
        weights = np.broadcast_to(weights, factors.shape).copy()
        return cls(factors, bias, cutpoints, weights, own[:1], gaps[:1])

    @classmethod
    def from_stored(cls, stored: Stored, half: Half) -> ColdStartPrior:
        n_factors, width = half.n_factors, half.cutpoints.shape[1]
        most = thresholds.LARGEST_CUTPOINT
        precisions = [
            stored.checked_array(name, np.float64, (size,), _SMALLEST_PRECISION, np.inf)
            for name, size in zip(cls._fields[3:], (n_factors, 1, 1), strict=True)
        ]
        is_fixed = np.isinf(np.concatenate(precisions))
        if is_fixed.any() and not is_fixed.all():
            raise wrong("weights_precision", "is infinite where other precisions are not")
        return cls(
            stored.parameter("factors", np.float64, (n_factors,)),
            stored.parameter("bias", np.float64, (1,)),
            stored.parameter("cutpoints", np.float64, (width + 2, width), high=most),
            *precisions,
        )


class NewcomerPriors(NamedTuple):
    """Priors of new columns, and of new rows."""

    columns: ColdStartPrior
    rows: ColdStartPrior


class NoPriors(NamedTuple):
    """In their place while a model is being learnt."""


NO_PRIORS = NoPriors()


class MatrixModel(NamedTuple):
    """Both processes, and the number of levels of each column's scale.

    ``by_rows`` holds what belongs to the columns (w, α, τ, γ) and ĥ; ``by_columns`` what belongs
    to the rows (ω, β, κ, ξ) and ĝ. ``gains`` are three numbers for predictions: what w·(ĥ − ½) and
    ω·(ĝ − ½) are multiplied by, and the standard deviation of a utility around its mean. Expected
    factors are less extreme than the sampled ones that weights are learnt with, and parameters are
    not known exactly: all three are a little above one. ``share`` is the model's part in what
    several of them predict together. ``priors`` are there when learning is over.
    """

    by_rows: Half
    by_columns: Half
    n_levels: Array
    gains: Array = np.ones(3)
    share: float = 1.0
    priors: Any = NO_PRIORS  # NewcomerPriors when learning is over

    @classmethod
    def blank(cls, n_row_factors: int, n_column_factors: int) -> MatrixModel:
        """One row and one column of which nothing is known, where there is nothing to learn."""

        def half(n: int) -> Half:
            nothing = np.zeros((1, n), dtype=np.float32)
            bias = np.zeros(1, dtype=np.float32)
            return Half(nothing, bias, np.zeros((1, 1)), nothing[0], nothing + 0.5)

        return cls(half(n_row_factors), half(n_column_factors), np.full(1, 2))

    @property
    def models(self) -> list[MatrixModel]:
        return [self]

    @property
    def most_levels(self) -> int:
        return self.column_cutpoints.shape[1] + 1

    @property
    def row_cutpoints(self) -> Array:
        return self.by_columns.cutpoints

    @property
    def column_cutpoints(self) -> Array:
        return self.by_rows.cutpoints

    @property
    def n_rows(self) -> int:
        return self.by_columns.bias.size

    @property
    def n_columns(self) -> int:
        return self.by_rows.bias.size

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> MatrixModel:
        model = cls.from_checkpoint(stored, n_rows, n_levels)
        priors = (
            ColdStartPrior.from_stored(stored.under(f"{name}.cold_start."), getattr(model, name))
            for name in _HALVES
        )
        return model._replace(priors=NewcomerPriors(*priors))

    @classmethod
    def from_checkpoint(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> MatrixModel:
        """The same while it is being learnt, without priors of newcomers."""
        n_columns, width = n_levels.size, thresholds.n_cutpoints(n_levels)
        by_rows = Half.from_stored(stored.under("by_rows."), n_columns, n_rows, width)
        by_columns = Half.from_stored(stored.under("by_columns."), n_rows, n_columns, width)
        gains = stored.parameter("gains", np.float64, (3,), low=_SMALLEST_GAIN)
        share = stored.checked_array("share", np.float64, (1,), 0.0, 1.0)
        return cls(by_rows, by_columns, n_levels, gains, float(share[0]))

    def with_rows(self, change: Callable[[Array], Array]) -> MatrixModel:
        by_rows = self.by_rows._replace(factors=change(self.by_rows.factors))
        return self._replace(by_rows=by_rows, by_columns=self.by_columns.with_columns(change))

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"gains": self.gains, "share": np.array([self.share])}
        for name in _HALVES:
            half = getattr(self, name)._asdict()
            arrays |= {f"{name}.{part}": array for part, array in half.items()}
        for name, prior in zip(_HALVES, self.priors, strict=False):  # which there may be none of
            arrays |= {f"{name}.cold_start.{part}": own for part, own in prior._asdict().items()}
        return arrays

    # ---- predictions ----------------------------------------------------------------------------

    def utilities(self, cells: Cells) -> protocol.Utilities:
        found = protocol.Utilities(*np.zeros((len(protocol.Utilities._fields), cells.row.size)))
        arguments = self.by_rows, self.by_columns, cells.row, cells.column, found
        over_rows(predict.set_binary, cells.row.size, *arguments)
        return found

    def moments(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        mean = np.empty(cells.row.size)
        over_rows(predict.add_gains, mean.size, self.utilities(cells), self.gains, mean)
        return mean, np.full(cells.row.size, self.gains[2])

    def add_probabilities(self, cells: Cells, total: np.ndarray) -> None:
        predict.add_by_utility(self, cells, total)

    def scorer(self, worth: np.ndarray) -> protocol.AddScores:
        return top_n.scorer_by_utility(self, worth)

    def liking(self, lowest: np.ndarray) -> None:
        return None

    def means_above(self, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
        n_columns, middle = first.size, np.float32(0.5)
        by_rows, by_columns, _ = np.asarray(self.gains, dtype=np.float32)
        h, w = self.by_rows.factors[rows], self.by_rows.weights[:n_columns]
        g, omega = self.by_columns.factors[:n_columns], self.by_columns.weights[rows]
        mean = (middle + by_rows * (h - middle)) @ w.T
        mean += omega @ (middle + by_columns * (g - middle)).T
        mean += self.by_rows.bias[:n_columns] - first
        mean += self.by_columns.bias[rows, None]
        return mean

    def inverse_deviations(self, rows: np.ndarray, n_columns: int) -> np.ndarray:
        return np.full((rows.size, 1), np.float32(1.0) / np.float32(self.gains[2]))

    def cell_terms(self, row: Array, column: Array) -> protocol.CellTerms:
        bias = self.by_rows.bias[column] + 0.0 * self.gains[:1]  # in float64
        mean = bias + self.by_columns.bias[row]
        products = [
            protocol.Product(half.weights, half.factors, half.bias[:0], half.bias[:0], gain, 0.5, is_of_rows)
            for half, gain, is_of_rows in (
                (self.by_rows, self.gains[:1], True),
                (self.by_columns, self.gains[1:2], False),
            )
        ]
        return protocol.CellTerms(mean, 0.0 * mean + 1.0, products, self.gains[2])

    def with_utilities(self) -> MatrixModel:
        return self

    # ---- what is not known ----------------------------------------------------------------------

    def with_unknown(self, counts: np.ndarray | None = None, n_levels: int | None = None) -> MatrixModel:
        cutpoints = self.column_cutpoints[self.n_levels == self.n_levels.max()].mean(0)
        by_columns = self.by_columns.with_unknown(self.row_cutpoints.mean(0))
        by_columns.factors[-1] = cold_start.average(self.by_columns.factors, counts)
        known = self._replace(
            by_rows=self.by_rows.with_unknown(cutpoints, counts),
            by_columns=by_columns,
            n_levels=cold_start.append(self.n_levels, self.n_levels.max()),
        )
        if n_levels is None:
            return known
        levels, cutpoints = cold_start.with_last_on(known.n_levels, known.column_cutpoints, n_levels)
        return known._replace(by_rows=known.by_rows._replace(cutpoints=cutpoints), n_levels=levels)

    def reordered(self, rows: np.ndarray, columns: np.ndarray, n_levels: np.ndarray) -> MatrixModel:
        has_unknown = bool((rows < 0).any() or (columns < 0).any())
        # A model of nothing has only the unknown row and column.
        known = self.with_unknown() if has_unknown and (rows >= 0).any() else self
        width = thresholds.n_cutpoints(n_levels)
        by_rows = known.by_rows.reordered(columns, rows, width)
        by_columns = known.by_columns.reordered(rows, columns, width)
        cold_start.set_mean_cutpoints(by_rows.cutpoints, n_levels, columns >= 0)
        return known._replace(by_rows=by_rows, by_columns=by_columns, n_levels=n_levels)

    def with_priors(self, of_columns: Precisions | None, of_rows: Precisions | None) -> MatrixModel:
        """With priors of newcomers, whose parameters were learnt with these precisions."""
        return self._replace(
            priors=NewcomerPriors(
                ColdStartPrior.of_half(self.by_rows, self.n_levels, of_columns),
                ColdStartPrior.of_half(self.by_columns, np.full(self.n_rows, self.most_levels), of_rows),
            )
        )

    # ---- newcomers ------------------------------------------------------------------------------

    def with_newcomers(
        self, known: Observations, ratings: Observations, tables: Tables, backend: protocol.Backend
    ) -> MatrixModel:
        of_columns, of_rows = self.priors
        n_rows, n_columns, n_levels = self.n_rows, self.n_columns, ratings.n_levels
        most = np.full(ratings.n_rows, self.most_levels, dtype=np.int32)
        by_rows = self.by_rows.longer(of_columns, n_levels[n_columns:], most.size - n_rows)
        by_columns = self.by_columns.longer(of_rows, most[n_rows:], n_levels.size - n_columns)
        new_rows = _new_rows(by_rows, by_columns, n_rows, most)
        new_columns = _new_rows(by_columns, by_rows, n_columns, n_levels)
        columns, rows = _facing(by_rows, by_columns, n_levels), _facing(by_columns, by_rows, most)
        infer = backend.infer_binary_rows
        cold_start.in_turns(
            ratings,
            n_rows,
            n_columns,
            lambda own: infer(own, columns, new_rows, of_rows) if own.n_entries else None,
            lambda own: infer(own, rows, new_columns, of_columns) if own.n_entries else None,
        )
        return self._replace(by_rows=by_rows, by_columns=by_columns, n_levels=n_levels)

    def compared_with(self, known: Observations, table: csr_array | None) -> None:
        return None

    def infer_rows(
        self, ratings: Observations, lines: csr_array | None, others: None, backend: protocol.Backend
    ) -> list[MatrixModel]:
        return [self.with_rows(lambda part: part[:0]).with_newcomers(ratings, ratings, NO_TABLES, backend)]

    # ---- reasons --------------------------------------------------------------------------------

    def rating_effects(self, cell: protocol.ExplainedCell) -> tuple[float, np.ndarray]:
        """The row with all these answers, and again without each of them; its parameters stay.

        Factors and utilities lean on each other: what leaving out an answer does to the factors is
        their linear response at the fixed point.
        """
        columns, levels = cell.columns, cell.levels
        one = Observations(np.array([0, columns.size]), columns, levels, self.n_levels)
        alone = self._copies_of_row(cell.row, np.full((1, self.by_rows.n_factors), 0.5))
        alone.by_rows.factors[:] = expected_factors(alone, one)
        cells = Cells(np.zeros(columns.size, dtype=np.intp), columns, levels)
        found, (low, high) = alone.utilities(cells), predict.bounds(alone, cells)
        mean = found.base + found.by_rows + found.by_columns
        away = truncated_mean(low - mean, high - mean)
        moves = truncated_variance(low - mean, high - mean)  # the expected utility, with its mean
        weights = self.by_rows.weights[columns].astype(np.float64)
        factors = alone.by_rows.factors[0].astype(np.float64)
        response = np.eye(factors.size) - (weights.T * moves) @ weights * (factors * (1.0 - factors))
        activation = logit(np.clip(factors, NEXT_TO, 1.0 - NEXT_TO))
        lost = linalg.solve(response, (weights * (mean + away)[:, None]).T).T
        copies = self._copies_of_row(cell.row, expit(np.vstack([activation, activation - lost])))
        return effects_of_copies(copies, cell)

    def _copies_of_row(self, row: int, factors: np.ndarray) -> MatrixModel:
        return self._replace(
            by_rows=self.by_rows._replace(factors=factors.astype(np.float32)),
            by_columns=self.by_columns.with_columns(lambda part: repeated(part, row, len(factors))),
        )


def _facing(acting: Half, own: Half, n_levels: np.ndarray) -> KnownColumns:
    """What new rows, whose parameters are in ``own``, see of the columns."""
    return KnownColumns(
        acting.weights, acting.bias, acting.cutpoints, own.factors, n_levels, acting.factor_bias
    )


def _new_rows(acting: Half, own: Half, n_known: int, n_levels: np.ndarray) -> NewRows:
    """Rows from ``n_known`` on: their factors are in ``acting``, their parameters in ``own``."""
    parts = (acting.factors, own.weights, own.bias, own.cutpoints, n_levels)
    return NewRows(*(part[n_known:] for part in parts))


def expected_factors(model: MatrixModel, answers: Observations) -> np.ndarray:
    """(rows, K) posterior probabilities of rows with these answers, by mean field."""
    side = row_side(model, answers, np.empty(answers.n_entries, dtype=np.float32))
    found = np.full((answers.n_rows, model.by_rows.n_factors), 0.5, dtype=np.float32)
    fixed_point(side, found, TOLERANCE, MAX_ITERATIONS)
    return found


def start(
    observations: Observations,
    n_row_factors: int,
    n_column_factors: int,
    seed: int,
    *,
    at_marginals: bool = True,
    balanced: bool = True,
) -> MatrixModel:
    """Model to start learning from.

    Everyone's thresholds are at the common marginal quantiles, or else a unit apart around zero.
    Half of the factors are on at first, so a balanced bias takes half of the weights back.
    """
    rng = np.random.default_rng(seed)
    n_levels, n_rows = observations.n_levels, observations.n_rows
    cutpoints = common_cutpoints(observations) if at_marginals else thresholds.even(n_levels)
    by_rows = _start_half(cutpoints, n_rows, n_row_factors, rng, balanced)
    none = np.zeros((n_rows, cutpoints.shape[1]))
    by_columns = _start_half(none, observations.n_columns, n_column_factors, rng, balanced)
    return MatrixModel(by_rows, by_columns, n_levels)


# Weights of the first step: large enough to tell factors apart, too small to matter.
_NOISE = 0.2


def _start_half(
    cutpoints: np.ndarray, n_rows: int, n_factors: int, rng: np.random.Generator, balanced: bool
) -> Half:
    weights = _NOISE * rng.normal(size=(len(cutpoints), n_factors)).astype(np.float32)
    return Half(
        weights=weights,
        bias=np.float32(-0.5 * balanced) * weights.sum(axis=1),
        cutpoints=cutpoints,
        factor_bias=np.zeros(n_factors, dtype=np.float32),
        factors=np.full((n_rows, n_factors), 0.5, dtype=np.float32),
    )


def common_cutpoints(observations: Counted) -> np.ndarray:
    """Thresholds at the marginals of all columns with the same number of levels together."""
    width = int(observations.n_levels.max(initial=2))
    cutpoints = np.zeros((observations.n_columns, width - 1))
    for n_levels in np.unique(observations.n_levels):
        counts = np.zeros((1, width))
        counts[0, :n_levels] = observations.level_counts(n_levels)
        cutpoints[observations.n_levels == n_levels] = thresholds.at_marginals(counts, np.array([n_levels]))
    return cutpoints


def row_side(model: MatrixModel, observations: Observations, offset: np.ndarray) -> Side:
    """The row process over some answers; fills ``offset`` (one float32 per answer)."""
    return _side(model.by_rows, model.by_columns, model.n_levels, observations, offset)


def column_side(model: MatrixModel, transposed: Observations, offset: np.ndarray) -> Side:
    """The column process over the same answers with the roles swapped."""
    width, n_levels = model.most_levels - 1, np.full(model.n_rows, model.most_levels)
    side = _side(model.by_columns, model.by_rows, n_levels, transposed, offset)
    side.row_gaps[:, 1:width][thresholds.unused(model.n_levels, width)[:, 1:]] = np.inf
    return side


def _gaps(cutpoints: np.ndarray) -> np.ndarray:
    """What a row makes of each gap; beyond its last level there is no bound."""
    gaps = np.full((cutpoints.shape[0], cutpoints.shape[1] + _EXTRA_ENDS), np.inf, dtype=np.float32)
    np.exp(cutpoints, out=gaps[:, : cutpoints.shape[1]], casting="same_kind")
    gaps[:, 0] = cutpoints[:, 0]  # the first threshold is no gap: it adds up
    return gaps


def _side(
    own: Half, other: Half, n_levels: np.ndarray, observations: Observations, offset: np.ndarray
) -> Side:
    answers = observations.row_start, observations.column
    arguments = *answers, other.weights, other.bias, other.factors, offset
    over_rows(gibbs.fill_offsets, observations.n_rows, *arguments)
    return answers_only(observations)._replace(
        offset=offset,
        row_gaps=_gaps(other.cutpoints),
        weights=own.weights,
        bias=own.bias,
        thresholds=thresholds.table(own.cutpoints, n_levels),
        factor_bias=own.factor_bias,
    )


def answers_only(observations: Observations) -> Side:
    """A Side of answers, the parameters of which are still to come."""
    view = observations.column_view
    nothing = np.zeros(0, dtype=np.float32)
    no_table = np.zeros((0, 0), dtype=np.float32)
    return Side(
        row_start=observations.row_start,
        column=observations.column,
        level=observations.level,
        column_start=view.column_start,
        entry_row=view.row,
        entry=view.entry,
        offset=nothing,
        row_weight=nothing,
        stretch=nothing,
        row_gaps=no_table,
        weights=no_table,
        bias=nothing,
        thresholds=no_table.astype(np.float64),
        factor_bias=nothing,
        units=1,
    )


# ---- predictions given all other ratings --------------------------------------------------------

# P(v_di | all other ratings) is what the pseudo-likelihood is made of. Expected factors have seen the rating
# that is to be predicted. Its part is taken back, to first order: that u_di lies between two thresholds has
# added w_ik (E[u_di] − μ_di) to the log odds of the row's factor k, and ω_ds (E[u_di] − μ_di) to those of the
# column's factor s.
_SUREST = 1e-6  # no factor is surer than that


def of_cells(model: MatrixModel, cells: Cells) -> tuple[MatrixModel, Cells]:
    """A model with a row and a column of its own for every cell, and these cells."""

    def taken(half: Half, columns: np.ndarray, rows: np.ndarray) -> Half:
        return half.with_columns(lambda part: part[columns])._replace(factors=half.factors[rows])

    own = np.arange(cells.row.size)
    by_rows = taken(model.by_rows, cells.column, cells.row)
    by_columns = taken(model.by_columns, cells.row, cells.column)
    return MatrixModel(by_rows, by_columns, model.n_levels[cells.column]), Cells(own, own, cells.level)


def without_own_rating(model: MatrixModel, cells: Cells) -> MatrixModel:
    """The model of :func:`of_cells`, whose factors have not seen the cell's rating."""
    mean, (low, high) = predict.expected_utility(model, cells), predict.bounds(model, cells)
    pull = truncated_mean(low - mean, high - mean)

    def unseen(half: Half) -> Half:
        sure = np.clip(half.factors, _SUREST, 1.0 - _SUREST)
        factors = expit(logit(sure) - half.weights * pull[:, None])
        return half._replace(factors=factors.astype(np.float32))

    return model._replace(by_rows=unseen(model.by_rows), by_columns=unseen(model.by_columns))

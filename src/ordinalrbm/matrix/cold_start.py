"""Rows and columns of which nothing is known: what is predicted for them, and their priors.

An unknown row is like the average of the known ones, and may be as far from it as anybody is.
Arrays are NumPy's or torch's: the same functions serve on cores and on a GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.gaussian_state import FactorPosterior
from ordinalrbm.matrix.gaussian import posterior_of
from ordinalrbm.matrix.gaussian_model import FactorPrior, GaussianModel, Others
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.multinomial import MultinomialModel
from ordinalrbm.matrix.prior_means import Tables
from ordinalrbm.runtime.side_by_side import taken
from ordinalrbm.storage.reader import Stored, wrong

_SMALLEST_PRECISION = 1e-9  # of a file; they are divided by


def with_cold_start(model: Any, counts: np.ndarray | None = None) -> Any:
    """The model with one more row and one more column, at position −1, of which nothing is known.

    The column is on the longest scale. ``counts`` tell how often each column was answered: what is
    not known of a column is then expected as the average answer has it, and not the average column,
    because columns with few answers, of which there are many, have lower ones.
    """
    if isinstance(model, MultinomialModel):
        return model.with_cold_start()
    longest = model.n_levels == model.n_levels.max()
    usual = model.column_cutpoints[longest].mean(0)
    if isinstance(model, GaussianModel):
        return model._replace(
            rows=_with_average(model.rows, model.rows.cutpoints.mean(0), model.is_point),
            columns=_with_average(model.columns, usual, model.is_point, counts),
            is_exact=False,
        )
    by_columns = _with_average_column(model.by_columns, model.by_columns.cutpoints.mean(0))
    by_columns.factors[-1] = _average(model.by_columns.factors, counts)
    return model._replace(
        by_rows=_with_average_column(model.by_rows, usual, counts),
        by_columns=by_columns,
        n_levels=_append(model.n_levels, model.n_levels.max()),
    )


def _with_average(
    posterior: FactorPosterior, cutpoints: Any, is_point: bool, counts: np.ndarray | None = None
) -> FactorPosterior:
    mean = _average(posterior.mean, counts)
    away = 0.0 * mean
    if not is_point:
        away = _average(posterior.variance + (posterior.mean - mean) ** 2, counts)
    gaps = _library(cutpoints).exp(cutpoints)
    gaps[:1] = cutpoints[:1]
    added = (mean, away, cutpoints, gaps, posterior.n_levels.max())
    return FactorPosterior(*map(_append, posterior, added))


def _average(lines: Any, counts: np.ndarray | None) -> Any:
    """The mean over lines, each counted so often."""
    if counts is None or not counts.any():
        return lines.mean(0)
    return np.average(lines, axis=0, weights=counts).astype(lines.dtype)


def _with_average_column(half: Half, cutpoints: Any, counts: np.ndarray | None = None) -> Half:
    """The average column acts on average factors; its own weights are unknown, so none."""
    factors = half.factors.mean(0)
    bias = 0.0 * factors.sum()
    if len(half.bias):
        bias = _average(half.bias + half.weights @ factors, counts)
    return half._replace(
        weights=_append(half.weights, 0.0 * factors),
        bias=_append(half.bias, bias),
        cutpoints=_append(half.cutpoints, cutpoints),
        factors=_append(half.factors, factors),
    )


def _append(part: Any, last: Any) -> Any:
    """An array with one more line, of the same type."""
    if isinstance(part, np.ndarray):
        return np.concatenate([part, np.asarray(last, dtype=part.dtype)[None]])
    return _library(part).cat([part, last[None].to(part.dtype)])


def _library(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def cold_start_on(model: Any, n_levels: int, counts: np.ndarray | None = None) -> Any:
    """Put the last column, of which nothing is known, on a scale of so many levels.

    ``counts`` are those of the other columns, as in :func:`with_cold_start`.
    """
    levels = model.n_levels.copy()
    levels[-1] = n_levels
    if isinstance(model, MultinomialModel):
        weights, bias = model.weights.copy(), model.bias.copy()
        weights[-1], bias[-1] = model.typical_column(n_levels, counts)
        return model._replace(weights=weights, bias=bias, n_levels=levels)
    cutpoints = model.column_cutpoints.copy()
    learnt = np.ones(levels.size, dtype=bool)
    learnt[-1] = False
    usual_cutpoints(cutpoints, levels, learnt)
    return with_columns_on(model, levels, cutpoints)


def with_columns_on(model: Any, n_levels: np.ndarray, cutpoints: np.ndarray) -> Any:
    """The model with other scales and thresholds of its columns."""
    if isinstance(model, GaussianModel):
        known = model.columns
        return model._replace(columns=posterior_of(known.mean, known.variance, cutpoints, n_levels))
    by_rows = model.by_rows._replace(cutpoints=cutpoints)
    return model._replace(by_rows=by_rows, n_levels=n_levels)


def usual_cutpoints(cutpoints: np.ndarray, n_levels: np.ndarray, learnt: np.ndarray) -> None:
    """Give those that were not learnt the usual thresholds of their scale; in place."""
    for levels in np.unique(n_levels[~learnt]):
        same = n_levels == levels
        if (same & learnt).any():
            cutpoints[same & ~learnt] = cutpoints[same & learnt].mean(axis=0)


def cutpoints_by_levels(cutpoints: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """(L + 1, L − 1): the usual cutpoints of those with each number of levels, else of all."""
    usual = np.tile(cutpoints.mean(axis=0), (cutpoints.shape[1] + 2, 1))
    for levels in np.unique(n_levels):
        usual[levels] = cutpoints[n_levels == levels].mean(axis=0)
    return usual


# What a model expects counts like so many answers. For an unknown row it knows nothing of the row
# (MovieLens 1M: 10 to 50 are about as good); for an unknown column it has already seen the row's
# answers, so that their frequencies add less (new items of MovieLens 100K, InstEval and Libimseti:
# 20 is better than 100 on one of them and worse on another).
WORTH_FOR_UNKNOWN_ROWS = 20.0
WORTH_FOR_UNKNOWN_COLUMNS = 100.0


def from_answers(distribution: np.ndarray, counts: np.ndarray, worth: float) -> np.ndarray:
    """Blend what a model expects of an unknown row or column with how often each level was given.

    Both are (cells, L). ``counts`` are the answers of the column whose row is unknown, since
    whoever answers came to it as the others did, or those of the row whose column is unknown.
    """
    total = counts.sum(axis=1, keepdims=True)
    return (worth * distribution + counts) / (worth + total)


# ---- in the order of the ids -------------------------------------------------------------------


def restore_order(model: Any, rows: np.ndarray, columns: np.ndarray, n_levels: np.ndarray) -> Any:
    """The model's arrays in the order of the ids; who was not learnt, at −1, is unknown.

    ``rows`` and ``columns`` are positions in the model, ``n_levels`` those of all columns.
    """
    has_unknown = bool((rows < 0).any() or (columns < 0).any())
    # A model of nothing has only the unknown row and column.
    known = with_cold_start(model) if has_unknown and (rows >= 0).any() else model
    width = thresholds.n_cutpoints(n_levels)
    if isinstance(known, GaussianModel):
        most = np.full(rows.size, width + 1)
        ordered: Any = known._replace(
            rows=_taken_posterior(known.rows, rows, most, width),
            columns=_taken_posterior(known.columns, columns, n_levels, width),
            row_prior=_widened(known.row_prior, width, columns),
            column_prior=_widened(known.column_prior, width, rows),
        )
    else:
        ordered = known._replace(
            by_rows=_taken_half(known.by_rows, columns, rows, width),
            by_columns=_taken_half(known.by_columns, rows, columns, width),
            n_levels=n_levels,
        )
    cutpoints = ordered.column_cutpoints
    usual_cutpoints(cutpoints, n_levels, columns >= 0)
    return with_columns_on(ordered, n_levels, cutpoints)


def _taken_posterior(
    posterior: FactorPosterior, rows: np.ndarray, n_levels: np.ndarray, width: int
) -> FactorPosterior:
    mean, variance = taken(posterior.mean, rows), taken(posterior.variance, rows)
    return posterior_of(mean, variance, _wide(posterior.cutpoints[rows], width), n_levels)


def _taken_half(half: Half, columns: np.ndarray, rows: np.ndarray, width: int) -> Half:
    return half._replace(
        weights=half.weights[columns],
        bias=half.bias[columns],
        cutpoints=_wide(half.cutpoints[columns], width),
        factors=half.factors[rows],
    )


def _wide(cutpoints: np.ndarray, width: int) -> np.ndarray:
    """Longer scales than were learnt have cutpoints of zero."""
    return np.pad(cutpoints, ((0, 0), (0, width - cutpoints.shape[1])))


def _widened(prior: FactorPrior, width: int, features: np.ndarray) -> FactorPrior:
    """For longer scales, and with features in this order; unknown ones, at −1, tell nothing."""
    own, weights = prior.cutpoints_precision, prior.weights
    if weights.each.shape[1]:
        each = taken(weights.each, features)
        each[features < 0] = 0.0
        weights = weights._replace(each=each)
    precision = np.pad(own, (0, width - own.size), mode="edge")
    return prior._replace(cutpoints_precision=precision, weights=weights)


def with_described(model: GaussianModel, ratings: Observations, tables: Tables) -> GaussianModel:
    """With those who have no ratings where their features expect them."""
    of_rows = _described(model.rows, model.row_prior, ratings, tables.rows)
    if tables.columns is not None:
        ratings = ratings.transpose()
    of_columns = _described(model.columns, model.column_prior, ratings, tables.columns)
    return model._replace(rows=of_rows, columns=of_columns)


def _described(
    posterior: FactorPosterior, prior: FactorPrior, ratings: Observations, table: csr_array | None
) -> FactorPosterior:
    if table is None or not prior.weights.table.shape[1]:
        return posterior
    new = np.flatnonzero((ratings.row_counts == 0) & (np.diff(table.indptr) > 0))
    if not new.size:
        return posterior
    mean, variance = posterior.mean.copy(), posterior.variance.copy()
    others = Others.of(posterior.mean, ratings, table)
    mean[new] = prior.expected(ratings.take_rows(new), table[new], others)
    variance[new] = 1.0 / prior.precision
    return posterior._replace(mean=mean, variance=variance)


def blank_gaussian(n_factors: int) -> GaussianModel:
    """One row and one column of which nothing is known, where there is nothing to learn."""
    nothing = np.zeros((1, 1 + n_factors), dtype=np.float32)
    unknown = posterior_of(nothing, nothing, np.zeros((1, 1)), np.full(1, 2))
    prior = FactorPrior(np.ones(1 + n_factors, dtype=np.float32), np.ones(1))
    return GaussianModel(unknown, unknown, prior, prior)


def blank_binary(n_row_factors: int, n_column_factors: int) -> MatrixModel:

    def half(n_factors: int) -> Half:
        nothing = np.zeros((1, n_factors), dtype=np.float32)
        return Half(nothing, np.zeros(1, np.float32), np.zeros((1, 1)), nothing[0], nothing + 0.5)

    return MatrixModel(half(n_row_factors), half(n_column_factors), np.full(1, 2))


# ---- binary factors ---------------------------------------------------------------------------


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
    bias: np.ndarray  # (1,) of a column that meets usual factors; its weights are zero
    cutpoints: np.ndarray  # (L + 1, L − 1) for each number of levels
    weights_precision: np.ndarray  # (factors,)
    bias_precision: np.ndarray  # (1,)
    cutpoints_precision: np.ndarray  # (1,)

    @classmethod
    def of_half(
        cls, half: Half, n_levels: np.ndarray, precisions: Precisions | None
    ) -> ColdStartPrior:
        """What is usual among the columns of a half; without precisions all is fixed."""
        factors = half.factors.mean(axis=0, dtype=np.float64)
        bias = np.mean(half.bias + half.weights @ factors, keepdims=True)
        parts = Precisions(np.inf, np.inf, np.inf) if precisions is None else precisions
        weights, own, gaps = (np.asarray(part, dtype=np.float64).reshape(-1) for part in parts)
        cutpoints = cutpoints_by_levels(half.cutpoints, n_levels)
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


def cold_start_priors(
    model: MatrixModel, precisions: tuple[Precisions | None, Precisions | None]
) -> list[ColdStartPrior]:
    """Priors of new columns and of new rows."""
    most = np.full(model.n_rows, model.by_rows.cutpoints.shape[1] + 1)
    of_columns, of_rows = precisions
    return [
        ColdStartPrior.of_half(model.by_rows, model.n_levels, of_columns),
        ColdStartPrior.of_half(model.by_columns, most, of_rows),
    ]

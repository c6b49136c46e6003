"""New rows and new columns of a matrix model, from their answers, while all others stay.

New columns are new rows of the same model with the roles swapped. Binary factors are found in turns
(:mod:`ordinalrbm.matrix.binary_fold_in`), Gaussian ones by the learner's own half-sweep
(:mod:`ordinalrbm.matrix.infer_rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.gaussian_state import FactorPosterior, Prior
from ordinalrbm.matrix.binary_fold_in import Facing, NewRows
from ordinalrbm.matrix.cold_start import ColdStartPrior, cutpoints_by_levels
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.gaussian import posterior_of, swapped
from ordinalrbm.matrix.gaussian_model import FactorPrior, GaussianModel, Others
from ordinalrbm.matrix.infer_rows import infer_rows
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.prior_means import Tables

# The change of a coordinate, as a share of what is left to know, at which to stop.
_SETTLED = 0.02


def fold_in_gaussian(
    model: GaussianModel, known: Observations, observations: Observations, tables: Tables,
    backend: Any,
) -> GaussianModel:  # fmt: skip
    """The model with more rows and columns.

    ``known`` are the answers of the model's rows and columns, which are the first ones of the
    observations, all answers; tables have the features of all.
    """
    wider = longer_model(model, observations)

    def fill_in(own: GaussianModel, ratings: Observations, table: csr_array | None) -> Any:
        n_known = ratings.n_rows
        others = None
        if not model.is_point:  # of which all are expected at zero
            lines = None if table is None else table[:n_known]
            others = Others.of(own.rows.mean[:n_known], ratings, lines)
        return lambda rows: _fill_in(own, rows, n_known, table, others, backend)

    _in_turns(
        observations,
        model,
        lambda rows: fill_in(wider, known, tables.rows)(rows),
        lambda columns: fill_in(swapped(wider), known.transpose(), tables.columns)(columns),
    )
    return wider


def longer_model(model: GaussianModel, observations: Observations) -> GaussianModel:
    """With new rows and columns, as many as there are, of which only the prior is known."""
    most = np.full(observations.n_rows, model.columns.cutpoints.shape[1] + 1)
    return model._replace(
        rows=_longer(model.rows, model.row_prior, most, model.is_point),
        columns=_longer(model.columns, model.column_prior, observations.n_levels, model.is_point),
        row_prior=_with_features(model.row_prior, observations.n_columns),
        column_prior=_with_features(model.column_prior, observations.n_rows),
    )


def placed_gaussian(
    model: GaussianModel, rows: Observations, lines: csr_array | None, others: Others
) -> GaussianModel:
    """The model with other rows: those with these answers and features; nothing is copied."""
    own, most = model.row_prior, np.full(rows.n_rows, model.columns.cutpoints.shape[1] + 1)
    expected = own.expected(rows, lines, None if model.is_point else others)
    cutpoints = np.tile(others.cutpoints, (rows.n_rows, 1))
    prior = Prior(own.precision, cutpoints, own.cutpoints_precision, expected)
    found = infer_rows(
        rows, model.columns, prior, most, _SETTLED, CPU, values=model.values,
        is_point=model.is_point,
    )  # fmt: skip
    return model._replace(rows=found)


def placed_binary(
    model: MatrixModel, rows: Observations, priors: list[ColdStartPrior], backend: Any
) -> MatrixModel:
    """The same of binary factors."""
    of_rows = priors[1]
    most = np.full(rows.n_rows, model.by_rows.cutpoints.shape[1] + 1, dtype=np.int32)
    by_rows = model.by_rows._replace(
        factors=np.tile(of_rows.factors.astype(np.float32), (rows.n_rows, 1))
    )
    own = model.by_columns
    by_columns = own._replace(
        weights=np.zeros((rows.n_rows, own.n_factors), dtype=own.weights.dtype),
        bias=np.repeat(of_rows.bias, rows.n_rows).astype(own.bias.dtype),
        cutpoints=of_rows.cutpoints[most].astype(own.cutpoints.dtype),
    )
    _fill_in_half(by_rows, by_columns, model.n_levels, most, rows, 0, of_rows, backend)
    return model._replace(by_rows=by_rows, by_columns=by_columns)


def fold_in_binary(
    model: MatrixModel, observations: Observations, priors: list[ColdStartPrior], backend: Any
) -> MatrixModel:
    """The model with more rows and columns; ``priors`` are those of new columns and new rows."""
    n_rows, n_columns = model.n_rows, model.n_columns
    of_columns, of_rows = priors
    n_most = model.by_rows.cutpoints.shape[1] + 1
    most = np.full(observations.n_rows, n_most, dtype=np.int32)
    n_levels = observations.n_levels
    by_rows = _longer_half(model.by_rows, of_columns, n_levels[n_columns:], most.size - n_rows)
    by_columns = _longer_half(model.by_columns, of_rows, most[n_rows:], n_levels.size - n_columns)

    known_rows = (by_rows, by_columns, n_levels, most[n_rows:])
    known_columns = (by_columns, by_rows, most, n_levels[n_columns:])
    _in_turns(
        observations,
        model,
        lambda rows: _fill_in_half(*known_rows, rows, n_rows, of_rows, backend),
        lambda columns: _fill_in_half(*known_columns, columns, n_columns, of_columns, backend),
    )
    return model._replace(by_rows=by_rows, by_columns=by_columns, n_levels=n_levels)


def _in_turns(
    observations: Observations,
    known: GaussianModel | MatrixModel,
    infer_new_rows: Callable[[Observations], None],
    infer_new_columns: Callable[[Observations], None],
) -> None:
    """Rows from known columns, then columns from all rows, then rows again if that tells more."""
    n_rows, n_columns = known.n_rows, known.n_columns
    has_new_columns = observations.n_columns > n_columns
    rows = observations.take_rows(np.arange(n_rows, observations.n_rows))
    on_known = rows.select(rows.column < n_columns) if has_new_columns else rows
    infer_new_rows(on_known)
    if has_new_columns:
        transposed = observations.transpose()
        infer_new_columns(transposed.take_rows(np.arange(n_columns, observations.n_columns)))
        if on_known.n_entries < rows.n_entries:
            infer_new_rows(rows)


def _with_more(array: np.ndarray, more: int, value: Any) -> np.ndarray:
    longer = np.empty((array.shape[0] + more, *array.shape[1:]), dtype=array.dtype)
    longer[: array.shape[0]] = array
    longer[array.shape[0] :] = value
    return longer


# ---- Gaussian factors -------------------------------------------------------------------------


def _longer(
    posterior: FactorPosterior, prior: FactorPrior, n_levels: np.ndarray, is_point: bool
) -> FactorPosterior:
    """With new rows of which only the prior is known."""
    n_known = len(posterior.mean)
    new_levels = n_levels[n_known:]
    usual = cutpoints_by_levels(posterior.cutpoints, n_levels[:n_known])
    return posterior_of(
        _with_more(posterior.mean, new_levels.size, 0.0),
        _with_more(posterior.variance, new_levels.size, 0.0 if is_point else 1 / prior.precision),
        _with_more(posterior.cutpoints, new_levels.size, usual[new_levels]),
        n_levels,
    )


def _with_features(prior: FactorPrior, n_features: int) -> FactorPrior:
    """With new features of rated sets, of which nothing is known."""
    weights = prior.weights
    if not weights.each.shape[1]:
        return prior
    each = _with_more(weights.each, n_features - len(weights.each), 0.0)
    return prior._replace(weights=weights._replace(each=each))


def _fill_in(
    model: GaussianModel, rows: Observations, n_known: int, table: csr_array | None,
    others: Others | None, backend: Any,
) -> None:  # fmt: skip
    """Fill in the rows from ``n_known`` on, in place, of which anything is known."""
    these = FactorPosterior(*(part[n_known:] for part in model.rows))
    lines = None if table is None else table[n_known:]
    told = np.diff(rows.row_start) > 0
    if lines is not None:
        told |= np.diff(lines.indptr) > 0
    if not told.any():
        return
    # Their cutpoints are the usual ones still, or have been found from fewer answers.
    usual = cutpoints_by_levels(model.rows.cutpoints[:n_known], model.rows.n_levels[:n_known])
    own = model.row_prior
    expected = own.expected(rows, lines, others)
    prior = Prior(own.precision, usual[these.n_levels], own.cutpoints_precision, expected)
    found = infer_rows(
        rows, model.columns, prior, these.n_levels, _SETTLED, backend,
        values=model.values, is_point=model.is_point,
    )  # fmt: skip
    for part, new in zip(these, found, strict=True):
        part[told] = new[told]


# ---- binary factors ---------------------------------------------------------------------------


def _longer_half(half: Half, usual: ColdStartPrior, new_levels: np.ndarray, more_rows: int) -> Half:
    """With new columns and new rows of which nothing is known; shares what does not grow."""
    more = new_levels.size
    if more:
        half = half._replace(
            weights=_with_more(half.weights, more, 0.0),
            bias=_with_more(half.bias, more, usual.bias),
            cutpoints=_with_more(half.cutpoints, more, usual.cutpoints[new_levels]),
        )
    if more_rows:
        half = half._replace(factors=_with_more(half.factors, more_rows, usual.factors))
    return half


def _fill_in_half(
    acting: Half,
    own: Half,
    column_levels: np.ndarray,
    row_levels: np.ndarray,
    rows: Observations,
    n_known: int,
    usual: ColdStartPrior,
    backend: Any,
) -> None:
    """Fill in new rows: their factors are in ``acting``, their parameters in ``own``."""
    if not rows.n_entries:
        return
    columns = Facing(
        acting.weights, acting.bias, acting.cutpoints, own.factors, column_levels,
        acting.factor_bias,
    )  # fmt: skip
    new = NewRows(
        acting.factors[n_known:], own.weights[n_known:], own.bias[n_known:],
        own.cutpoints[n_known:], row_levels,
    )  # fmt: skip
    backend.infer_binary_rows(rows, columns, new, usual)

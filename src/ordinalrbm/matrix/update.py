"""Rows of Gaussian factors given the columns: new rows, and known ones after new ratings.

Given the columns, a row is a regression like any other (:mod:`ordinalrbm.engine.half_sweep`): the
learner's own half-sweep is repeated until its means stay where they are.

After new ratings, the rows that have any are inferred given the columns, columns given the rows,
and rows once more, each beginning where they are; all others stay. Where nearly all have new
ratings, it is the learner that goes on: then priors and weights of features are learnt on as well.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.base import FactorPosterior, Prior
from ordinalrbm.matrix import variational
from ordinalrbm.matrix.cold_start import cutpoints_by_levels
from ordinalrbm.matrix.drift import NO_DRIFT, RowDrift
from ordinalrbm.matrix.feature_priors import Tables, TrainedRows, Weights
from ordinalrbm.matrix.protocol import Backend, ChangedRatings
from ordinalrbm.runtime.threads import one_blas_thread

GaussianModel = Any  # of gaussian_model, whose methods these are

MOST_SWEEPS = 40
# Known rows begin near where they will be: one sweep in each round. New ones go on until no
# coordinate changes by more than this share of what is left to know.
SETTLED = 0.02
# Rounds, and more of them where new ratings are more than a tenth of those before.
_ROUNDS, _MORE_ROUNDS, _MANY = 2, 5, 0.1
# Above this share of ratings in changed rows and in changed columns, the learner goes on: one epoch
# for every part of so many that new ratings are of those before.
_NEARLY_ALL, _PER_EPOCH, _MOST_EPOCHS = 0.5, 0.06, 5
# A number of an epoch that is past the first ones, in which priors are weak.
_LATER = 100


def infer_rows(
    model: GaussianModel,
    answers: Observations,
    lines: csr_array | None,
    others: TrainedRows | None,
    cutpoints: np.ndarray,
    n_levels: np.ndarray,
    backend: Backend,
    start: FactorPosterior | None = None,
    most_sweeps: int = MOST_SWEEPS,
) -> FactorPosterior:
    """Posterior of rows with these answers and features, the model's columns staying as they are.

    New rows are compared with ``others``, and begin where they are expected. Prior means of cutpoints,
    and numbers of levels that may be used, are given for each row. What is given as ``start`` is changed.
    """
    own, columns, is_point = model.row_prior, model.columns, model.is_point
    expected = own.expected(answers, lines, None if is_point else others)
    prior = Prior(own.precision, cutpoints, own.cutpoints_precision, expected)
    mean = np.zeros((answers.n_rows, own.precision.size), dtype=np.float32)
    if expected.shape[1]:
        mean[:] = expected
    variance = np.zeros_like(mean)
    if not is_point:
        variance[:] = np.float32(1.0) / own.precision
    rows = start or variational.posterior_of(mean, variance, cutpoints.copy(), n_levels)
    if others is not None:  # new ones
        moves = np.isfinite(own.precision)
        rows.mean[:, moves] = mean[:, moves]
    how: dict[str, Any] = {"spread": not is_point}
    if model.values.size:
        how["values"] = model.values
    with backend.working():
        rows, columns, prior = map(backend.to_device, (rows, columns, prior))
        given = backend.answers(answers)
        backend.settle(given, rows, columns, prior, SETTLED, most_sweeps, **how)
        return backend.to_host(rows)


class _Side(NamedTuple):
    """Rows, or columns, of which some are to be inferred again."""

    ratings: Observations
    before: Observations
    which: np.ndarray
    table: csr_array | None
    others: TrainedRows | None = None  # that were there before, if there are new ones

    @property
    def is_new(self) -> np.ndarray:
        return self.which >= self.before.n_rows


def _sides(model: GaussianModel, known: Observations, touched: ChangedRatings, tables: Tables) -> list[_Side]:
    """Both sides of an update; ``known`` are the ratings before, tables the features of all."""
    sides = [_Side(touched.ratings, known, touched.rows, tables.rows)]
    if touched.columns.size:  # to transpose takes its time
        ratings, before = touched.ratings.transpose(), known.transpose()
        sides.append(_Side(ratings, before, touched.columns, tables.columns))
    for turn, side in enumerate(sides):
        if side.is_new.any():
            facing, table = model.rows.mean if turn else None, side.table
            of_others = None if table is None else table[: side.before.n_rows]
            others = TrainedRows.of(model[turn].mean, side.before, of_others, facing=facing)
            sides[turn] = side._replace(others=others)
    return sides


def _told_of(counts: np.ndarray, table: csr_array | None, n_known: int) -> np.ndarray:
    """Which rows beyond those known have ratings or features to infer them from."""
    told = counts > 0 if table is None else (counts > 0) | (np.diff(table.indptr) > 0)
    return n_known + np.flatnonzero(told[n_known:])


def with_newcomers(
    model: GaussianModel, known: Observations, ratings: Observations, tables: Tables, backend: Backend
) -> GaussianModel:
    """With new rows, and columns, inferred until they have settled; the others stay."""
    rows = _told_of(ratings.row_counts, tables.rows, known.n_rows)
    columns = _told_of(ratings.column_counts, tables.columns, known.n_columns)
    wider, sides = model.longer(ratings), _sides(model, known, ChangedRatings(ratings, rows, columns), tables)
    _infer_in_rounds(wider, sides, _ROUNDS if columns.size else 1, backend)
    return wider


def updated(
    model: GaussianModel, known: Observations, touched: ChangedRatings, tables: Tables, backend: Backend
) -> GaussianModel:
    """The model after new ratings; ``known`` are the ratings before, tables the features of all.

    What drift has added to biases is taken off before, and added again: ratings are learnt from without it.
    """
    if model.drift.is_any:
        bare, drift = _without_drift(model), model.longer(touched.ratings).drift
        known, ratings = (_with_levels(part, drift) for part in (known, touched.ratings))
        found = updated(bare, known, touched._replace(ratings=ratings), tables, backend)
        rows = drift.as_of_now(found.rows)
        stay = np.flatnonzero((found.rows.mean[: bare.n_rows] == bare.rows.mean).all(axis=1))
        for now, before in zip(rows[:2], model.rows[:2], strict=True):  # to the last bit
            now[stay] = before[stay]
        return found._replace(rows=rows, drift=drift)
    wider, sides = _copied(model.longer(touched.ratings)), _sides(model, known, touched, tables)
    more = touched.ratings.n_entries - known.n_entries
    if _nearly_all_touched(touched) and not model.values.size:
        sides = [side._replace(which=side.which[side.is_new]) for side in sides]
        _infer_in_rounds(wider, sides, 1, backend)
        n_epochs = int(np.clip(round(more / known.n_entries / _PER_EPOCH), 1, _MOST_EPOCHS))
        return _learnt_on(wider, touched.ratings, tables, n_epochs)
    n_rounds = _MORE_ROUNDS if more > _MANY * known.n_entries else _ROUNDS
    _infer_touched(wider, model, sides, n_rounds, backend)
    return wider


def _infer_touched(
    wider: GaussianModel, before: GaussianModel, sides: list[_Side], n_rounds: int, backend: Backend
) -> None:
    """Infer rows and columns with other ratings than before, and new ones, in place.

    Learning stops before rows have settled, and going on would move them by itself: where rows have
    other ratings, and no more, what the ratings of before would do is taken off. Where these come back,
    so do the rows.
    """
    _infer_in_rounds(wider, sides, n_rounds, backend)
    known = [side._replace(ratings=side.before, which=side.which[~side.is_new]) for side in sides]
    moved = [
        old.which[side.ratings.row_counts[old.which] <= old.ratings.row_counts[old.which]]
        for side, old in zip(sides, known, strict=True)
    ]
    if not any(which.size for which in moved):
        return
    base = _copied(before)
    _infer_in_rounds(base, known, n_rounds, backend)
    for turn, which in enumerate(moved):
        new, usual, old = (_taken(each[turn], which) for each in (wider, base, before))
        least = np.finfo(np.float32).tiny  # those of points are zero
        shrunk = new.variance / np.maximum(usual.variance, least)
        mean = old.mean + (new.mean - usual.mean)
        cutpoints = old.cutpoints + (new.cutpoints - usual.cutpoints)
        found = variational.posterior_of(mean, old.variance * shrunk, cutpoints, old.n_levels)
        for part, own in zip(wider[turn], found, strict=True):
            part[which] = own


def _without_drift(model: GaussianModel) -> GaussianModel:
    twice = model.drift.as_of_now(model.rows)
    mean, variance = (2.0 * model.rows[part] - twice[part] for part in (0, 1))
    rows = model.rows._replace(mean=mean, variance=variance.clip(0.0))
    return model._replace(rows=rows, drift=NO_DRIFT)


def _with_levels(ratings: Observations, drift: RowDrift) -> Observations:
    """With the whole level of the drift beside each rating, and not how far it is from that of now."""
    now = np.repeat(drift.now(0, np.arange(ratings.n_rows)), ratings.row_counts)
    return ratings.with_offset(ratings.offset + now)


def _taken(posterior: FactorPosterior, which: np.ndarray) -> FactorPosterior:
    return FactorPosterior(*(part[which] for part in posterior))


def _nearly_all_touched(touched: ChangedRatings) -> bool:
    ratings = touched.ratings
    of_rows = ratings.row_counts[touched.rows].sum()
    of_columns = ratings.column_counts[touched.columns].sum()
    return min(of_rows, of_columns) > _NEARLY_ALL * ratings.n_entries


def _learnt_on(model: GaussianModel, ratings: Observations, tables: Tables, n_epochs: int) -> GaussianModel:
    """The model after some more epochs on all ratings; its arrays are changed."""
    data = variational.on_cpu(ratings)
    weights = [
        Weights(*(part.copy() for part in own.weights)) for own in (model.row_prior, model.column_prior)
    ]
    row_prior, column_prior = (
        Prior(
            own.precision,
            cutpoints_by_levels(side.cutpoints, side.n_levels)[side.n_levels],
            own.cutpoints_precision,
            own.expected(view.answers, table),
        )
        for own, side, view, table in (
            (model.row_prior, model.rows, data.rows, tables.rows),
            (model.column_prior, model.columns, data.columns, tables.columns),
        )
    )
    state = variational.GaussianState(
        model.rows, model.columns, row_prior, column_prior, row_weights=weights[0], column_weights=weights[1]
    )
    if any(each.centre.size for each in weights):
        data = variational.with_features_of(data, state, tables)
    with one_blas_thread():
        for number in range(_LATER, _LATER + n_epochs):
            state = variational.epoch(data, state, number, model.is_point)
        state = variational.refit_rows(data, state, model.is_point)
    return model.of_state(state)._replace(share=model.share)


def _copied(model: GaussianModel) -> GaussianModel:
    """With arrays of its own: readers of the old one see nothing of the update."""
    rows, columns = (FactorPosterior(*(part.copy() for part in side)) for side in (model.rows, model.columns))
    return model._replace(rows=rows, columns=columns)


def _infer_in_rounds(model: GaussianModel, sides: list[_Side], n_rounds: int, backend: Backend) -> None:
    """Rows given columns, then columns given rows, round after round; in place."""
    for _ in range(n_rounds):
        for own, side in zip((model, variational.swapped(model)), sides, strict=False):
            _infer(own, side, side.which[side.is_new], MOST_SWEEPS, side.others, backend)
            _infer(own, side, side.which[~side.is_new], 1, None, backend)


def _infer(
    model: GaussianModel,
    side: _Side,
    which: np.ndarray,
    n_sweeps: int,
    others: TrainedRows | None,
    backend: Backend,
) -> None:
    """Infer some rows in place; new ones are compared with others."""
    if not which.size:
        return
    now = _taken(model.rows, which)
    found = infer_rows(
        model,
        side.ratings.take_rows(which),
        None if side.table is None else side.table[which],
        others,
        cutpoints_by_levels(model.rows.cutpoints, model.rows.n_levels)[now.n_levels],
        now.n_levels,
        backend,
        now,
        n_sweeps,
    )
    for part, new in zip(model.rows, found, strict=True):
        part[which] = new

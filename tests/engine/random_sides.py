"""Random Sides for the tests of the engines: uneven scales, gaps, empty rows, empty columns."""

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.side import Side

SCALES = (2, 3, 5, 7)


def random_thresholds(generator, n_levels):
    """(N, L + 1) bounds of the levels, unevenly spaced, off centre, padded with +∞.

    Two more make a level that is the whole line, for answers that nobody knows.
    """
    thresholds = np.full((n_levels.size, n_levels.max() + 3), np.inf)
    thresholds[:, [0, -2]] = -np.inf
    for row, levels in zip(thresholds, n_levels, strict=True):
        row[1:levels] = generator.normal() + np.cumsum(generator.uniform(0.05, 1.2, levels - 1))
    return thresholds


def side_of(
    observations,
    *,
    weights,
    bias,
    thresholds,
    factor_bias,
    offset=None,
    row_weight=None,
    stretch=None,
    row_gaps=None,
    units=1,
):
    """A Side over observations, in the number types that the models use."""
    view = observations.column_view

    def single(values):
        return np.asarray([] if values is None else values, dtype=np.float32)

    return Side(
        row_start=observations.row_start,
        column=observations.column,
        level=observations.level,
        column_start=view.column_start,
        entry_row=view.row,
        entry=view.entry,
        offset=single(offset),
        row_weight=single(row_weight),
        stretch=single(stretch),
        row_gaps=np.zeros((0, 0), np.float32) if row_gaps is None else np.float32(row_gaps),
        weights=single(weights),
        bias=single(bias),
        thresholds=np.asarray(thresholds, dtype=np.float64),
        factor_bias=single(factor_bias),
        units=units,
    )


def random_side(
    seed,
    n_rows=300,
    n_columns=23,
    n_factors=9,
    *,
    scale=0.4,
    offset=False,
    row_weight=False,
    stretch=False,
    row_gaps=False,
    unknown=False,
    units=1,
):
    """A Side and starting factors. Every seventh row and the second column have no answer."""
    generator = np.random.default_rng(seed)
    n_levels = np.resize(SCALES, n_columns)
    thresholds = random_thresholds(generator, n_levels)
    dense = generator.integers(0, n_levels, (n_rows, n_columns))
    dense[generator.random(dense.shape) < 0.4] = -1
    dense[::7] = -1
    dense[:, 1] = -1
    observations = Observations.from_dense(dense, n_levels)
    if unknown:
        observations.level[::5] = thresholds.shape[1] - 2
    side = side_of(
        observations,
        weights=generator.normal(0, scale, (n_columns, n_factors)),
        bias=generator.normal(0, 0.5, n_columns),
        thresholds=thresholds,
        factor_bias=generator.normal(0, 0.7, n_factors),
        offset=generator.normal(0, 0.8, observations.n_entries) if offset else None,
        row_weight=generator.uniform(0, 3, n_rows) if row_weight else None,
        stretch=generator.uniform(0.3, 2.0, n_rows) if stretch else None,
        row_gaps=generator.uniform(0.3, 2.0, (n_rows, thresholds.shape[1])) if row_gaps else None,
        units=units,
    )
    return side, generator.integers(0, units + 1, (n_rows, n_factors)).astype(np.uint8)


def random_mixed_side(seed, n_rows=300, n_factors=9, *, scale=0.4, latent=False, **others):
    """A Side of all kinds of columns: scales, numbers, and nominal questions of 3 and 4 categories.

    Columns 0 to 3 are scales, 4 to 6 the first nominal question, 7 a number, 8 to 11 the second, 12
    and 13 a number and a scale. Rows have covariates, shifts and biases of their own.
    """
    members = np.array([0, 0, 0, 0, 3, -1, -1, -2, 4, -1, -1, -1, -2, 0], dtype=np.int32)
    question = np.array([0, 1, 2, 3, 4, 4, 4, 5, 6, 6, 6, 6, 7, 8])
    generator = np.random.default_rng(seed)
    n_levels = np.where(members == 0, np.resize(SCALES, members.size), 1)
    thresholds = random_thresholds(generator, n_levels)
    thresholds[members == -2, 1] = [1.7, 0.6]
    gap = generator.random((n_rows, 9)) < 0.4
    gap[::7] = True
    dense = generator.integers(0, n_levels, (n_rows, members.size))
    dense[gap[:, question]] = thresholds.shape[1] - 2 if latent else -1
    wide = np.full(members.size, thresholds.shape[1] - 1)
    observations = Observations.from_dense(dense, wide)
    row = np.repeat(np.arange(n_rows), np.diff(observations.row_start))
    chosen = np.concatenate(
        [np.eye(3)[generator.integers(0, 3, n_rows)], np.eye(4)[generator.integers(0, 4, n_rows)]], axis=1
    )
    known = np.full(dense.shape, np.nan)
    known[:, [4, 5, 6, 8, 9, 10, 11]] = chosen
    known[:, members == -2] = generator.normal(0, 1, (n_rows, 2))
    known[gap[:, question]] = np.nan
    is_category = (members > 0) | (members == -1)
    of_category = is_category[observations.column]
    both = generator.normal(0, 0.6, (2, observations.n_entries))
    side = side_of(
        observations,
        weights=generator.normal(0, scale, (members.size, n_factors)),
        bias=generator.normal(0, 0.5, members.size),
        thresholds=thresholds,
        factor_bias=generator.normal(0, 0.7, n_factors),
        offset=np.where(of_category, both[0], 0.0),
        row_weight=generator.uniform(0, 3, n_rows),
        stretch=generator.uniform(0.3, 2.0, n_rows),
        **others,
    )._replace(
        members=members,
        known=known[row, observations.column].astype(np.float32),
        shift=np.where(of_category, 0.0, both[1]).astype(np.float32),
        row_bias=generator.normal(0, 0.7, (n_rows, n_factors)).astype(np.float32),
        covariates=generator.normal(0, 1, (n_rows, 3)).astype(np.float32),
    )
    units = side.units
    return side, generator.integers(0, units + 1, (n_rows, n_factors)).astype(np.uint8)


def in_double(side):
    """The same Side with all parameters in float64, for the reference engine."""
    parameters = (
        "offset",
        "row_weight",
        "stretch",
        "row_gaps",
        "weights",
        "bias",
        "thresholds",
        "factor_bias",
        "known",
        "shift",
        "row_bias",
        "covariates",
    )
    return side._replace(**{name: getattr(side, name).astype(np.float64) for name in parameters})

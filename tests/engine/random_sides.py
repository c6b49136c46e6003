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
    seed, n_rows=300, n_columns=23, n_factors=9, *, scale=0.4, offset=False, row_weight=False,
    stretch=False, row_gaps=False, unknown=False, units=1,
):  # fmt: skip
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
    )
    return side._replace(**{name: getattr(side, name).astype(np.float64) for name in parameters})

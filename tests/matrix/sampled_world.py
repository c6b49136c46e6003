"""A model of four rows and three columns that is drawn from the priors of the sampler, with its data."""

from functools import cache

import numpy as np
from long_form import LONG
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import drift
from ordinalrbm.engine.ordinal_gibbs import DrawnSide
from ordinalrbm.engine.rated_sets import FEW
from ordinalrbm.matrix import gibbs_sampler
from ordinalrbm.matrix.backends import CPU
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.gibbs_sampler import Hyper, SampledState, Scales, bounds_of, own_cutpoints

RATED = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 0, 1]], dtype=bool)
CENTRE = np.array([[-0.5, 0.0]])
# Of the rows, beside what they have rated.
TABLE = np.array([[1.0, 0.5], [0.0, -1.0], [1.0, 0.0], [0.0, 0.5]], dtype=np.float32)


def matrix_of(level, backend=CPU):
    """Data of the sampler; bins of the drift are of ``drift.SIZE`` answers."""
    answers = Observations.from_dense(np.where(RATED, level, -1), 3)
    tables, time = Tables(csr_array(TABLE), None), np.arange(answers.n_entries)
    data = backend.sampled(answers, tables, rated_sets=True, time=time)
    return data._replace(scales=Scales(CENTRE, np.array([3]), np.zeros(3, dtype=np.int32)))


def bins_in_time():
    """Those of the data, whatever the levels are."""
    return _bins_of(drift.SIZE)


@cache
def _bins_of(size):
    return matrix_of(np.zeros(RATED.shape, dtype=int)).bins


def prior_path(rng):
    """A drift from the priors that the module states; with bins of two answers, rows have two at most."""
    bins = bins_in_time().bins
    trend = rng.normal(size=bins.stage.max() + 1) / np.sqrt(drift._TREND_PRECISION)
    variance, rho = 0.0, rng.choice(drift.PERSISTENCES)
    while variance < drift._LEAST_VARIANCE:
        variance = drift._LARGE_VARIANCE * rng.normal() ** 2
    level = np.sqrt(variance) * rng.normal(size=bins.n)
    for b in np.flatnonzero(drift._is_inside(bins.start, bins.n)):
        level[b] = rho * level[b - 1] + np.sqrt(1 - rho**2) * level[b]
    return drift.Path((level + trend[bins.stage]).astype(np.float32), trend, rho, variance)


def prior_scatter(rng):
    """With it a standard deviation is half-t (Huang and Wand 2013)."""
    degrees, scale = gibbs_sampler._DEGREES, gibbs_sampler._SCALE
    while True:
        found = rng.gamma(0.5) * 2.0 * degrees * scale**2
        if found > degrees * gibbs_sampler._LEAST_DEVIATION**2:
            return found


def half_normal_precision(rng, scale):
    while True:
        deviation = abs(scale * rng.standard_normal())
        if deviation > gibbs_sampler._LEAST_DEVIATION:
            return deviation**-2.0


def prior_side(rng, features, scale, n_factors=1):
    """A side, and what is drawn for it as a whole, from the priors that the module states."""
    n, width = len(features[0]), 1 + n_factors
    scatter = np.array([prior_scatter(rng) for _ in range(2)])
    precision = gibbs_sampler._wishart(np.diag(scatter[[0, 1]]), width - 1 + gibbs_sampler._DEGREES, rng)
    covariance = np.linalg.inv(precision)
    mean = rng.multivariate_normal(np.zeros(width), covariance / gibbs_sampler._PRIOR_ROWS, method="cholesky")
    ridges = [half_normal_precision(rng, gibbs_sampler._RIDGE_SCALE) for _ in features]
    weights = [
        rng.multivariate_normal(np.zeros(width), covariance / ridge, kind.shape[1], method="cholesky")
        for kind, ridge in zip(features, ridges, strict=True)
    ]
    width_precision = half_normal_precision(rng, gibbs_sampler._WIDTH_SCALE)
    factors = mean + rng.multivariate_normal(np.zeros(width), covariance, n, method="cholesky")
    factors += sum(kind @ own for kind, own in zip(features, weights, strict=True))
    widths = np.exp(rng.normal(size=n) / np.sqrt(width_precision))
    single = [own.astype(np.float32) for own in weights]
    hyper = Hyper(mean, scatter, precision, single, ridges, width_precision)
    return DrawnSide(factors.astype(np.float32), widths.astype(np.float32), scale), hyper


def prior_state(rng):
    features = RATED / np.sqrt(RATED.sum(axis=1, keepdims=True) + FEW)
    flipped = RATED.T / np.sqrt(RATED.T.sum(axis=1, keepdims=True) + FEW)
    rows, row_hyper = prior_side(rng, [features, TABLE], np.zeros(4, dtype=np.int32))
    columns, column_hyper = prior_side(rng, [flipped], np.arange(3, dtype=np.int32))
    spread = np.array([gibbs_sampler._FIRST_THRESHOLD, gibbs_sampler._LOG_GAP])
    cutpoints = CENTRE + spread * rng.normal(size=(1, 2))
    precision = half_normal_precision(rng, gibbs_sampler._WIDTH_SCALE)
    gaps = rng.normal(size=(3, 1)) / np.sqrt(precision)
    found = SampledState(rows, columns, row_hyper, column_hyper, cutpoints, gaps, precision)
    return found._replace(drift=prior_path(rng))


def made_up(rng, state):
    """Levels given everything else."""
    rows, columns = state.rows, state.columns
    mean = rows.factors[:, :1] + columns.factors[:, 0] + rows.factors[:, 1:] @ columns.factors[:, 1:].T
    mean[RATED] += state.drift.level[bins_in_time().of_rows]
    utility = mean + rng.normal(size=mean.shape)
    own = own_cutpoints(state.cutpoints, state.gaps, np.zeros(3, dtype=int), np.array([3]))
    bounds = bounds_of(own, np.full(3, 3))[:, 1:3].astype(float)
    scaled = utility / np.outer(rows.width, columns.width)
    return (scaled > bounds[:, 0]).astype(int) + (scaled > bounds[:, 1])


def numbers_of(state):
    """Numbers that tell of every part, none with heavy tails."""
    found = [np.tanh(state.cutpoints[0, 0] / 4), np.tanh(state.cutpoints[0, 1])]
    gaps, path = state.gaps[:, 0], state.drift
    found += [np.log(state.gap_precision), np.tanh(2 * gaps[0]), np.tanh(4 * gaps[1] ** 2)]
    found += [np.tanh(gaps[2] * state.columns.factors[2, 0]), np.tanh(2 * gaps[0] * gaps[1])]
    found += [
        np.tanh(path.level[0]),
        np.tanh(path.level[1] ** 2),
        np.tanh(4 * path.trend[0]),
        np.tanh(4 * path.trend[-1] ** 2),
        path.persistence,
        np.log(path.variance),
        np.tanh((path.level[0] - path.trend[0]) * (path.level[1] - path.trend[-1])),
    ]
    for side, hyper in ((state.rows, state.row_hyper), (state.columns, state.column_hyper)):
        logs = np.log(side.width.astype(float))
        found += [
            np.tanh(side.factors[0, 0]),
            np.tanh(abs(side.factors[1, 1])),
            np.tanh(hyper.mean[0]),
            np.tanh(np.square(hyper.weights[0]).sum() / 4),
            np.log(hyper.precision[0, 0]),
            np.tanh(hyper.precision[0, 1] / 20),
            hyper.precision[0, 1] ** 2 / (hyper.precision[0, 0] * hyper.precision[1, 1]),
            np.tanh(hyper.mean[1] * hyper.precision[0, 1] / 4),
            np.log(hyper.scatter[0]),
            np.log(hyper.scatter[1]),
            np.log1p(hyper.ridge[0]),
            np.log(hyper.width_precision),
            np.tanh(2 * logs[0]),
            np.tanh(4 * logs[1] ** 2),
        ]
    own, ridge = state.row_hyper.weights[1], state.row_hyper.ridge[1]
    return [*found, np.tanh(np.square(own).sum() / 4), np.tanh(own[0, 0]), np.log1p(ridge)]


@cache
def numbers_by_the_prior():
    rng = np.random.default_rng(7)
    return np.array([numbers_of(prior_state(rng)) for _ in range(10_000 if LONG else 1_200)])


def z_scores(found):
    """Of means of numbers, one line for each independent draw, beside those of the prior."""
    expected = numbers_by_the_prior()
    error = np.sqrt(np.var(found, axis=0) / len(found) + expected.var(axis=0) / len(expected))
    return (np.mean(found, axis=0) - expected.mean(axis=0)) / error

"""The drift of biases: levels against a Gaussian with the whole covariance, and bins by plain counting."""

import numpy as np
import pytest

from ordinalrbm.engine import drift
from ordinalrbm.engine.drift import Bins, Path, bins_of, drawn_path, last_levels, smoothed_path


def some_bins(n_rows=3, seed=0):
    rng = np.random.default_rng(seed)
    n_answers = rng.integers(0, 60, n_rows)
    n_answers[1] = 0
    row_start = np.concatenate([[0], np.cumsum(n_answers)])
    return row_start, rng.permutation(row_start[-1] * 3)[: row_start[-1]].astype(np.int64)


def test_bins_are_runs_of_time_of_about_the_same_size():
    row_start, time = some_bins(12)
    bins = bins_of(row_start, time)
    for d in range(row_start.size - 1):
        own = slice(row_start[d], row_start[d + 1])
        places, when = bins.of_entry[own], time[own]
        assert (np.diff(places[np.argsort(when)]) >= 0).all()
        assert set(places) == set(range(bins.start[d], bins.start[d + 1]))
        for b in set(places):
            assert bins.last[b] == when[places == b].max()
    assert np.array_equal(bins.n_answers, np.bincount(bins.of_entry))
    many = bins.n_answers[np.repeat(np.diff(row_start) >= drift.SIZE, np.diff(bins.start))]
    assert many.min() >= drift.SIZE // 2 and many.max() <= 2 * drift.SIZE


def test_a_time_is_in_the_first_bin_that_ends_no_earlier():
    row_start, time = some_bins()
    bins = bins_of(row_start, time)
    asked = np.arange(-1, time.max() + 3)
    for d in range(3):
        last = bins.last[bins.start[d] : bins.start[d + 1]]
        found = bins.at(np.full(asked.size, d), asked)
        if not last.size:
            assert (found == -1).all()
            continue
        expected = [min(int((last < t).sum()), last.size - 1) for t in asked]
        assert (found - bins.start[d]).tolist() == expected
    assert bins.at(np.array([-1]), np.array([0])).tolist() == [-1]


def exact(bins, total, path):
    """Mean and covariance of all levels around the trend, by the whole precision matrix."""
    covariance = np.zeros((bins.n, bins.n))
    for first, stop in zip(bins.start[:-1], bins.start[1:], strict=True):
        place = np.arange(first, stop)
        covariance[first:stop, first:stop] = path.variance * path.persistence ** abs(place[:, None] - place)
    covariance = np.linalg.inv(np.linalg.inv(covariance) + np.diag(bins.n_answers))
    return covariance @ (total - bins.n_answers * path.trend[bins.stage]), covariance


@pytest.fixture
def world():
    bins = bins_of(*some_bins())
    rng = np.random.default_rng(1)
    trend = rng.normal(size=bins.stage.max() + 1)
    path = Path(np.zeros(bins.n, dtype=np.float32), trend, 0.8, 0.3)
    return bins, 3.0 * rng.normal(size=bins.n), path


def test_smoothed_levels_are_those_of_the_whole_gaussian(world):
    bins, total, path = world
    mean, covariance = exact(bins, total, path)
    level, spread, beside = drift._followed(bins, total, path, np.zeros(0))
    np.testing.assert_allclose(level, mean, atol=1e-12)
    np.testing.assert_allclose(spread, np.diag(covariance), atol=1e-12)
    inside = np.flatnonzero(drift._is_inside(bins.start, bins.n))
    np.testing.assert_allclose(beside[inside - 1], covariance[inside - 1, inside], atol=1e-12)
    found, variance = smoothed_path(bins, total, path)
    np.testing.assert_allclose(found.level - found.trend[bins.stage], mean, atol=1e-6)
    np.testing.assert_allclose(variance, np.diag(covariance), atol=1e-6)


def test_drawn_levels_have_its_mean_and_covariance(world):
    bins, total, path = world
    mean, covariance = exact(bins, total, path)
    rng, n = np.random.default_rng(2), 20_000
    draws = np.array([drift._followed(bins, total, path, rng.standard_normal(bins.n))[0] for _ in range(n)])
    error = np.sqrt(np.diag(covariance) / n)
    assert np.abs((draws.mean(axis=0) - mean) / error).max() < 4.0
    found = np.cov(draws.T)
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.abs((found - covariance) / scale).max() < 5.0 / np.sqrt(n) * np.sqrt(2)


def test_most_likely_persistence_and_variance_are_those_that_made_the_levels():
    rng, n_rows, length = np.random.default_rng(3), 400, 30
    level = np.empty((n_rows, length))
    level[:, 0] = 0.5 * rng.standard_normal(n_rows)
    for b in range(1, length):
        level[:, b] = 0.9 * level[:, b - 1] + 0.5 * np.sqrt(1 - 0.81) * rng.standard_normal(n_rows)
    start = np.arange(n_rows + 1) * length
    many = np.full(level.size, 10**6)
    stage = np.zeros(level.size, dtype=np.int64)
    bins = Bins(start, np.zeros(level.size, np.int64), many, np.zeros(0, np.int32), stage)
    path = drift.first_path(bins)
    for _ in range(3):
        path, _ = smoothed_path(bins, many * level.ravel(), path._replace(trend=np.zeros(1)))
    assert abs(path.persistence - 0.9) < 0.03
    assert abs(path.variance - 0.25) < 0.03
    drawn = drawn_path(bins, many * level.ravel(), path._replace(trend=np.zeros(1)), rng)
    assert abs(drawn.variance - path.variance) < 0.02
    np.testing.assert_allclose(last_levels(start, drawn.level), level[:, -1], atol=0.05)

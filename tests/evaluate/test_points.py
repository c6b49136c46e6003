"""Points of distributions over levels."""

import numpy as np
import pytest

from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY, log_of_level, point


def test_points_of_a_skewed_distribution():
    distribution = np.array([[0.4, 0.25, 0.35], [0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    np.testing.assert_array_equal(point(distribution, "mode"), [0, 2, 0])
    np.testing.assert_array_equal(point(distribution, "median"), [1, 2, 0])
    np.testing.assert_allclose(point(distribution, "mean"), [0.95, 1.6, 0.5])
    values = np.array([1.0, 10.0, 100.0])
    np.testing.assert_allclose(point(distribution, "mean", values), [37.9, 72.1, 5.5])


def test_median_and_mean_minimise_what_they_say():
    generator = np.random.default_rng(0)
    distribution = generator.dirichlet(np.ones(7), size=200)
    levels = np.arange(7)
    absolute = distribution @ np.abs(levels[:, None] - levels)
    median = point(distribution, "median")
    chosen = np.take_along_axis(absolute, median[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(chosen, absolute.min(axis=1), rtol=1e-12)
    mean = point(distribution, "mean")
    squared = (distribution * (levels - mean[:, None]) ** 2).sum(axis=1)
    for shift in (-0.01, 0.01):
        moved = (distribution * (levels - mean[:, None] - shift) ** 2).sum(axis=1)
        assert (moved > squared).all()


def test_an_impossible_answer_has_a_finite_log_probability():
    found = log_of_level(np.array([[0.0, 1.0]]), np.array([0], dtype=np.int8))
    assert found == pytest.approx(np.log(SMALLEST_PROBABILITY))


def test_the_median_is_the_lowest_level_that_reaches_one_half():
    # 0.1 + 0.2 + 0.2 falls short of a half by its last digit in one order or another.
    distribution = np.array([[0.1, 0.2, 0.2, 0.5], [0.2, 0.2, 0.1, 0.5], [0.1, 0.1, 0.2, 0.6]])
    np.testing.assert_array_equal(point(distribution, "median"), [2, 2, 3])
    np.testing.assert_array_equal(point(np.ones((2, 1)), "median"), [0, 0])

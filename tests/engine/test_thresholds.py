"""Bounds of levels against their definition, and the gradient by cutpoints."""

import numpy as np
import pytest

from ordinalrbm.engine import thresholds

COLUMN = np.array([-0.7, 0.4, -1.1, 0.2])
ROW = np.array([0.3, -0.5, 0.6, 0.1])


def all_bounds():
    """−∞, θ_1, …, θ_4."""
    inner = np.cumsum([COLUMN[0] + ROW[0], *np.exp(COLUMN[1:] + ROW[1:])])
    return np.array([-np.inf, *inner])


@pytest.mark.parametrize("level", range(4))
def test_both_forms_agree_with_the_definition(level):
    truth = all_bounds()[level : level + 2]
    np.testing.assert_allclose(thresholds.bounds(COLUMN, ROW, level), truth, rtol=1e-12)
    table = thresholds.table(COLUMN[None], np.array([5]))[0]
    gaps = np.exp(ROW)
    gaps[0] = ROW[0]
    np.testing.assert_allclose(thresholds.bounds_from_table(table, gaps, level), truth, rtol=1e-12)
    if level > 0:
        width = np.diff(truth)[0]
        np.testing.assert_allclose(thresholds.gap(COLUMN, ROW, level), width, rtol=1e-12)


def test_the_last_level_begins_where_the_one_before_ends():
    low, _ = thresholds.bounds(COLUMN, ROW, 4)
    assert low == pytest.approx(all_bounds()[-1], rel=1e-12)
    table = thresholds.table(COLUMN[None], np.array([5]))[0]
    gaps = np.append(np.exp(ROW), np.inf)
    gaps[0] = ROW[0]
    low, high = thresholds.bounds_from_table(table, gaps, 4)
    assert low == pytest.approx(all_bounds()[-1], rel=1e-12)
    assert high == np.inf


def test_gradient_by_cutpoints_equals_differences():
    """Of a function that is linear in the thresholds; the first cutpoint stays where it is."""
    rng = np.random.default_rng(0)
    n_levels = np.array([5, 2, 3])
    cutpoints, slope = rng.normal(size=(3, 4)), rng.normal(size=(3, 8))
    exists = ~thresholds.unused(n_levels, 4)

    def value(moved):
        bounds = thresholds.table(moved, n_levels)[:, 1:5]
        return float((slope[:, 1:5] * np.where(exists, bounds, 0.0)).sum())

    found = thresholds.cutpoint_gradient(cutpoints, slope, n_levels)
    for i, m in np.ndindex(cutpoints.shape):
        move = np.zeros_like(cutpoints)
        move[i, m] = 1e-5
        expected = (value(cutpoints + move) - value(cutpoints - move)) / 2e-5 if m > 0 else 0.0
        assert found[i, m] == pytest.approx(expected, rel=1e-6, abs=1e-9)

"""In float32: right to 1e-5 where an interval is_accurate, never NaN anywhere."""

import numba
import numpy as np
import pytest
from scipy.special import ndtr

from ordinalrbm.engine import normal_reference
from ordinalrbm.engine.normal import single
from ordinalrbm.runtime.jit import FUSED

compiled = numba.njit(error_model="numpy", fastmath=FUSED)


@compiled
def densities(lower, upper, low, high, mean):
    for i in range(lower.size):
        low[i], high[i], mean[i] = single.edge_densities(lower[i], upper[i])


@compiled
def draws(lower, upper, uniform, out):
    for i in range(lower.size):
        out[i] = single.truncated_draw(lower[i], upper[i], uniform[i])


@compiled
def are_accurate(lower, upper, out):
    for i in range(lower.size):
        out[i] = single.is_accurate(lower[i], upper[i])


@compiled
def normals(uniform, out):
    for i in range(uniform.size):
        out[i] = single.standard_normal(uniform[i])


def random_intervals(n, largest, seed):
    """Intervals bounded on one side, on both, or not at all; widths 1e-6 to 100."""
    rng = np.random.default_rng(seed)
    start = rng.uniform(-largest, largest, n)
    kind = rng.integers(0, 5, n)
    lower = np.where(kind < 2, -np.inf, start)
    upper = np.where(kind % 2 == 1, np.inf, start + np.where(kind == 0, 0.0, 1.0))
    width = 10 ** rng.uniform(-6, 2, n)
    upper = np.where((kind == 2) | (kind == 4), start + width, upper)
    return lower.astype(np.float32), upper.astype(np.float32)


@pytest.fixture(scope="module")
def accurate_intervals():
    lower, upper = random_intervals(400_000, 8.0, seed=1)
    chosen = np.empty(lower.size, dtype=bool)
    are_accurate(lower, upper, chosen)
    assert 0.3 < chosen.mean() < 0.95  # both kinds occur
    return lower[chosen], upper[chosen]


def test_densities_and_mean_to_1e5(accurate_intervals):
    lower, upper = accurate_intervals
    found = np.empty((3, lower.size), dtype=np.float32)
    densities(lower, upper, *found)
    a, b = lower.astype(np.float64), upper.astype(np.float64)
    truth = (*normal_reference.edge_densities(a, b), normal_reference.truncated_mean(a, b))
    for value, exact in zip(found, truth, strict=True):
        # Below 1e-20 a density is nothing next to any other; float32 has it as zero.
        error = np.abs(value - exact) / np.maximum(np.abs(exact), 1e-20)
        assert error[np.abs(exact) > 1e-20].max(initial=0.0) < 1e-5


def test_draws_to_1e5_of_the_mass(accurate_intervals):
    lower, upper = accurate_intervals
    uniform = np.random.default_rng(2).random(lower.size).astype(np.float32)
    found = np.empty(lower.size, dtype=np.float32)
    draws(lower, upper, uniform, found)
    a, b, x = (values.astype(np.float64) for values in (lower, upper, found))
    assert ((x >= a) & (x <= b)).all()
    inside = x > a
    share = np.exp(normal_reference.log_mass(a[inside], x[inside]) - normal_reference.log_mass(a, b)[inside])
    assert np.abs(share - uniform[inside]).max() < 1e-5
    assert uniform[~inside].max(initial=0.0) < 1e-5


def test_normals_to_1e5_of_the_mass():
    uniform = ((np.arange(1_000_000) + 0.5) / 1_000_000).astype(np.float32)
    found = np.empty(uniform.size, dtype=np.float32)
    normals(uniform, found)
    assert np.abs(ndtr(found.astype(np.float64)) - uniform).max() < 1e-5


def test_nothing_is_nan_in_ten_million_cases():
    for part in range(5):
        lower, upper = random_intervals(2_000_000, 40.0, seed=10 + part)
        uniform = np.random.default_rng(part).random(lower.size).astype(np.float32)
        found = np.empty((4, lower.size), dtype=np.float32)
        draws(lower, upper, uniform, found[0])
        densities(lower, upper, *found[1:])
        assert not np.isnan(found).any()

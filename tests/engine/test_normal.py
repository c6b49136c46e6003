"""The compiled scalar functions, inside loops as the kernels use them, against the reference.

:mod:`ordinalrbm.engine.normal_reference` is judged against mpmath and is the truth here.
"""

import numba
import numpy as np
import pytest
from scipy import special

from ordinalrbm.engine import normal, normal_reference
from ordinalrbm.engine.normal import double
from ordinalrbm.runtime.jit import FUSED

DENSITY_TOLERANCE = 1e-6
DRAW_TOLERANCE = 1e-5
SMALLEST = 1e-290  # the compiled exponential ends at exp(−700)

loop = numba.njit(error_model="numpy", fastmath=FUSED)


@loop
def edge_densities(lower, upper, low, high, mean):
    for n in range(lower.size):
        low[n], high[n], mean[n] = double.edge_densities(lower[n], upper[n])


@loop
def masses(lower, upper, mass, log_mass):
    for n in range(lower.size):
        mass[n] = double.mass(lower[n], upper[n])
        log_mass[n] = double.log_mass(lower[n], upper[n])


@loop
def truncated_draws(lower, upper, u, x):
    for n in range(lower.size):
        x[n] = double.truncated_draw(lower[n], upper[n], u[n])


@loop
def exponentials(x, grown, fallen, probability):
    for n in range(x.size):
        grown[n], fallen[n] = double.exp_and_complement(-abs(x[n]))
        probability[n] = double.logistic(x[n])


@loop
def logarithms(x, out):
    for n in range(x.size):
        out[n] = double.log(x[n])


@loop
def mills_ratios(x, out):
    for n in range(x.size):
        out[n] = double.mills_ratio(x[n])


@loop
def standard_normals(u, out):
    for n in range(u.size):
        out[n] = double.standard_normal(u[n])


def filled(function, *arguments, n_out=1):
    outputs = [np.full(arguments[0].size, np.nan) for _ in range(n_out)]
    function(*arguments, *outputs)
    return outputs if n_out > 1 else outputs[0]


def uniform_words(generator, n):
    """Uniform numbers as the engine makes them, the smallest and the largest included."""
    words = generator.integers(0, 2**32, n)
    words[:2] = 0, 2**32 - 1
    return (words + 0.5) * 2.0**-32


def random_intervals(generator, n):
    """|μ| up to 40, widths from 1e-6 to 100, one-sided, across zero, and the whole line."""
    mean = generator.uniform(-40, 40, n) * generator.integers(0, 2, n)
    low = generator.uniform(-3, 3, n) - mean
    width = 10 ** generator.uniform(-6, 2, n)
    high = low + width
    kind = generator.integers(0, 8, n)
    low[kind == 0] = -np.inf
    high[kind == 1] = np.inf
    across = kind == 2
    low[across] = -width[across] * generator.random(across.sum())
    high[across] = low[across] + width[across]
    low[0], high[0] = -np.inf, np.inf
    return low, high


def relative_error(got, truth):
    """Largest |got/truth − 1| over the truths that are not vanishing."""
    size = np.abs(truth)
    seen = size > SMALLEST
    assert np.all(np.abs(got[~seen]) <= 10 * SMALLEST)
    return float((np.abs(got - truth)[seen] / size[seen]).max())


def share_below(x, low, high):
    """Truncated distribution function at x."""
    share = np.zeros(x.size)
    at = x > low
    share[at] = np.exp(normal_reference.log_mass(low[at], x[at]) - normal_reference.log_mass(low, high)[at])
    return share


def test_edge_densities_and_mean():
    low, high = random_intervals(np.random.default_rng(0), 300_000)
    at_low, at_high, mean = filled(edge_densities, low, high, n_out=3)
    truth_low, truth_high = normal_reference.edge_densities(low, high)
    assert relative_error(at_low, truth_low) < DENSITY_TOLERANCE
    assert relative_error(at_high, truth_high) < DENSITY_TOLERANCE
    assert relative_error(mean, normal_reference.truncated_mean(low, high)) < DENSITY_TOLERANCE


def test_mass_and_its_logarithm():
    low, high = random_intervals(np.random.default_rng(6), 300_000)
    mass, log_mass = filled(masses, low, high, n_out=2)
    truth = normal_reference.log_mass(low, high)
    assert np.abs(log_mass - truth).max() < DENSITY_TOLERANCE
    assert relative_error(mass, np.exp(truth)) < DENSITY_TOLERANCE


def test_draws_invert_the_distribution_function():
    generator = np.random.default_rng(1)
    low, high = random_intervals(generator, 300_000)
    u = uniform_words(generator, low.size)
    x = filled(truncated_draws, low, high, u)
    assert np.abs(share_below(x, low, high) - u).max() < DRAW_TOLERANCE


@pytest.mark.parametrize("width", [1e-6, 1e-3, 0.1, 1.0, 10.0])
def test_draws_cover_an_interval_in_order(width):
    """A draw grows with its uniform number and goes from one bound to the other."""
    u = (np.arange(4000) + 0.5) / 4000
    for start in (-40, -3, -width / 3, 0, 2, 39.5):
        low, high = np.full(u.size, float(start)), np.full(u.size, start + width)
        x = filled(truncated_draws, low, high, u)
        assert np.abs(share_below(x, low, high) - u).max() < DRAW_TOLERANCE
        assert np.all(np.diff(x) >= -1e-9 * width - 1e-14 * abs(start))


def test_whole_line():
    """A scale of one level: the utility is not truncated, and the bounds have no density."""
    u = uniform_words(np.random.default_rng(2), 100_000)
    low, high = np.full(u.size, -np.inf), np.full(u.size, np.inf)
    x = filled(truncated_draws, low, high, u)
    assert np.abs(special.ndtr(x) - u).max() < DRAW_TOLERANCE
    at_low, at_high, mean = filled(edge_densities, low[:1], high[:1], n_out=3)
    assert at_low[0] < 1e-290 and at_high[0] < 1e-290 and mean[0] == 0


def test_ten_million_cases_give_numbers_inside_their_intervals():
    generator = np.random.default_rng(3)
    for _ in range(20):
        low, high = random_intervals(generator, 500_000)
        u = uniform_words(generator, low.size)
        x = filled(truncated_draws, low, high, u)
        assert np.all(np.isfinite(x) & (low <= x) & (x <= high))
        at_low, at_high, mean = filled(edge_densities, low, high, n_out=3)
        assert np.all(np.isfinite(at_low) & (at_low >= 0))
        assert np.all(np.isfinite(at_high) & (at_high >= 0))
        slack = DENSITY_TOLERANCE * np.abs(mean)
        assert np.all((low - slack <= mean) & (mean <= high + slack))


def test_standard_normal():
    generator = np.random.default_rng(4)
    u = uniform_words(generator, 300_000)
    u[2:40] = 0.5 + 0.5 ** np.arange(2, 40)  # towards the middle, where x goes through zero
    u[40:80] = 0.5 - 0.5 ** np.arange(2, 42)
    x, truth = filled(standard_normals, u), special.ndtri(u)
    # The absolute part is for |x| < 1e-3, where log(1 − y) has lost the last digits of y.
    assert np.all(np.abs(x - truth) < 2e-6 * np.abs(truth) + 1e-8)
    assert np.abs(special.ndtr(x) - u).max() < 1e-6
    assert np.all(np.sign(x) == np.sign(u - 0.5))


def test_exponential_and_logistic():
    x = np.concatenate([np.linspace(-690, 690, 50_001), 10 ** np.linspace(-300, 1, 999), [0.0]])
    grown, fallen, probability = filled(exponentials, x, n_out=3)
    size = np.abs(x)
    assert relative_error(grown, np.exp(-size)) < 1e-12
    assert relative_error(fallen, -np.expm1(-size)) < 1e-12
    assert relative_error(probability, special.expit(x)) < 1e-12


def test_exponential_and_logistic_far_out():
    x = np.array([-np.inf, -1e30, -701, 701, 1e30, np.inf])
    grown, fallen, probability = filled(exponentials, x, n_out=3)
    assert np.all((grown >= 0) & (grown < 1e-300) & (fallen == 1))
    assert np.all((probability[:3] >= 0) & (probability[:3] < 1e-300))
    assert np.all(probability[3:] == 1)


def test_log():
    generator = np.random.default_rng(5)
    x = np.concatenate([10 ** generator.uniform(-300, 300, 50_000), 1 + np.linspace(-0.6, 3, 9973)])
    got, truth = filled(logarithms, x), np.log(x)
    assert np.abs(got - truth).max() < 1e-12 * np.abs(truth).max()
    assert relative_error(got, truth) < 1e-12


def test_mills_ratio():
    x = np.concatenate([[0.0], 10 ** np.linspace(-12, 6, 40_000), np.linspace(0, 50, 50_001)])
    got = filled(mills_ratios, x)
    assert relative_error(got, normal_reference.mills_ratio(x)) < 1e-8
    # Differences across zero must vanish there: its value at zero is the constant that they use.
    assert abs(got[0] / normal.MILLS_0 - 1) < 1e-15


def test_bounds_that_meet():
    """Nothing lies between them, and still nothing is NaN: the mean is where they meet."""
    place = np.concatenate([[0.0], np.outer([-1.0, 1.0], 10.0 ** np.arange(-9.0, 6.0)).ravel()])
    for low, high in ((place, place), (place, np.nextafter(place, np.inf))):
        at_low, at_high, mean = filled(edge_densities, low, high, n_out=3)
        np.testing.assert_allclose(mean, place, rtol=1e-3, atol=1e-3)
        assert np.isfinite(at_low).all()
        assert np.isfinite(at_high).all()
        mass, log_mass = filled(masses, low, high, n_out=2)
        assert ((mass >= 0) & (mass < 1e-11)).all()
        assert np.isfinite(log_mass).all()
        for u in (1e-9, 0.5, 1.0 - 1e-9):
            drawn = filled(truncated_draws, low, high, np.full(place.size, u))
            np.testing.assert_allclose(drawn, place, rtol=1e-9, atol=1e-9)


def test_intervals_beyond_all_mass():
    """Bounds that the kernels take for infinity have a mass that is not below zero."""
    low = np.array([2e6, 1e8, -np.inf, -1e12, 1e9, -3e6])
    high = np.array([np.inf, 2e8, -1e7, -1e11, 1e9, -2e6])
    mass, log_mass = filled(masses, low, high, n_out=2)
    assert ((mass >= 0) & (mass < 1e-290)).all()
    assert np.isfinite(log_mass).all()
    _, _, mean = filled(edge_densities, low, high, n_out=3)
    nearest = np.where(low > 0, low, high)
    np.testing.assert_allclose(mean, nearest, rtol=1e-3)

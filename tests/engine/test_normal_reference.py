"""The float64 reference of the truncated normal against mpmath."""

import mpmath
import numpy as np
import pytest
from mpmath import mp
from plain_draws import truncated_draw
from scipy import stats

from ordinalrbm.engine import normal_reference

TOLERANCE = 1e-12
# Truths smaller than this are below, or nearly below, what a float64 can hold: the density 1e-440
# of (−45, ∞) at its lower end, or the log mass −1e-440 of (−45, 45). They are left out.
SMALLEST = 1e-300


@pytest.fixture(autouse=True)
def sixty_digits():
    """erfc is right to all digits at any argument, and a width of 1e-6 costs six of them."""
    with mp.workdps(60):
        yield


def phi(x):
    return mpmath.npdf(mp.mpf(x))


def beyond(x):
    """1 − Φ(x)."""
    return mpmath.erfc(mp.mpf(x) / mpmath.sqrt(2)) / 2


def outside(a, b):
    """1 − (Φ(b) − Φ(a)) for a ≤ 0 ≤ b, where it may be far smaller than the mass."""
    return beyond(-mp.mpf(a)) + beyond(b)


def mass(a, b):
    """Φ(b) − Φ(a), taken on the side where nothing cancels."""
    a, b = mp.mpf(a), mp.mpf(b)
    if a > 0:
        return beyond(a) - beyond(b)
    if b < 0:
        return beyond(-b) - beyond(-a)
    return 1 - outside(a, b)


def log_mass(a, b):
    if a <= 0 <= b:
        return mpmath.log1p(-outside(a, b))
    return mpmath.log(mass(a, b))


def mean(a, b):
    return (phi(a) - phi(b)) / mass(a, b)


def share_below(x, a, b):
    return mass(a, x) / mass(a, b)


def relative_errors(got, a, b, truth):
    """|got/truth − 1| where the truth can be represented, zero elsewhere."""
    errors = np.zeros(len(a))
    for n, (value, low, high) in enumerate(zip(got, a, b, strict=True)):
        exact = truth(low, high)
        if abs(exact) >= SMALLEST:
            errors[n] = abs(mp.mpf(float(value)) / exact - 1)
        else:
            assert abs(value) <= SMALLEST
    return errors


def random_cases(n, seed=0):
    """Intervals of utilities with |μ| ≤ 40 around thresholds within ±3, by kind."""
    generator = np.random.default_rng(seed)
    mean = generator.uniform(-40, 40, n)
    near = generator.uniform(-3, 3, n) - np.where(generator.random(n) < 0.5, mean, 0.0)
    width = 10 ** generator.uniform(-6, 2, n)
    left, right = 10 ** generator.uniform(-7, 1.62, (2, n))
    infinite = np.full(n, np.inf)
    return {
        "finite": (near, near + width),
        "narrow": (near, near + 1e-6),
        "no upper end": (near, infinite),
        "no lower end": (-infinite, near),
        "across zero": (-left, right),
        "nearly symmetric": (-left, left * (1 + width * 1e-8)),
    }


def special_cases():
    """Ends at zero, exact symmetry, the far corners, and where the formulas are switched."""
    inf = np.inf
    pairs = [(0, inf), (-inf, 0), (-1, 1), (-40, 40), (0, 1e-6), (-1e-6, 0)]
    pairs += [(-5e-7, 5e-7), (40, inf), (-inf, -40), (40, 40 + 1e-6), (-40 - 1e-6, -40)]
    pairs += [(-0.25, 0.25), (0, 0.5), (1e-300, 1), (-1e-300, 1), (-1e-300, 1e-6), (38, 43)]
    for edge in (0.5, 0.01):
        for width in (np.nextafter(edge, 0), edge, np.nextafter(edge, 1)):
            pairs += [(a, a + width) for a in (-40, -0.3, -0.005, 0, 0.7, 1, 17)]
            pairs += [(a, a + width / a) for a in (1, 3.0, 39.5)]  # (b² − a²)/2 near the edge
    return tuple(np.array(pairs, dtype=float).T)


WHOLE_LINE = (np.array([-np.inf] * 4), np.array([np.inf] * 4))  # a scale of one level
CASES = random_cases(500) | {"special": special_cases(), "whole line": WHOLE_LINE}


@pytest.mark.parametrize("kind", CASES)
def test_log_mass(kind):
    a, b = CASES[kind]
    assert relative_errors(normal_reference.log_mass(a, b), a, b, log_mass).max() < TOLERANCE


@pytest.mark.parametrize("kind", CASES)
def test_truncated_mean(kind):
    a, b = CASES[kind]
    got = normal_reference.truncated_mean(a, b)
    assert relative_errors(got, a, b, mean).max() < TOLERANCE
    assert np.all((a <= got) & (got <= b))


@pytest.mark.parametrize("kind", CASES)
def test_edge_densities(kind):
    a, b = CASES[kind]
    low, high = normal_reference.edge_densities(a, b)
    assert relative_errors(low, a, b, lambda a, b: phi(a) / mass(a, b)).max() < TOLERANCE
    assert relative_errors(high, a, b, lambda a, b: phi(b) / mass(a, b)).max() < TOLERANCE


@pytest.mark.parametrize("kind", CASES)
def test_truncated_draw(kind):
    """F(x) is u to 1e-12, apart from what the spacing of float64 numbers near x takes."""
    a, b = CASES[kind]
    generator = np.random.default_rng(3)
    u = (generator.integers(0, 2**32, a.size) + 0.5) / 2**32
    u[:4] = 0.5 / 2**32, 1 - 0.5 / 2**32, 1e-6, 1 - 1e-6
    x = truncated_draw(a, b, u)
    assert np.all((a <= x) & (x <= b))
    for low, high, uniform, value in zip(a, b, u, x, strict=True):
        density = float(phi(value) / mass(low, high))
        error = float(share_below(value, low, high)) - uniform
        assert abs(error) <= TOLERANCE + 4 * np.spacing(abs(value)) * density, (low, high, uniform)


@pytest.mark.parametrize(
    ("a", "b"), [(-np.inf, np.inf), (-0.7, 1.9), (1.5, np.inf), (-np.inf, -6), (39, 40), (-30, -30 + 1e-6)]
)
def test_draws_follow_the_truncated_normal(a, b):
    u = (np.random.default_rng(4).integers(0, 2**32, 1000) + 0.5) / 2**32
    x = truncated_draw(a, b, u)
    share = [float(share_below(value, a, b)) for value in x]
    assert stats.kstest(share, "uniform").pvalue > 1e-3


def test_draws_agree_with_scipy_where_scipy_is_right():
    x = truncated_draw(-1.2, 0.4, (np.arange(2000) + 0.5) / 2000)
    assert stats.kstest(x, stats.truncnorm(-1.2, 0.4).cdf).statistic < 0.6 / 2000


def test_standard_normal():
    u = np.concatenate([(np.arange(200) + 0.5) / 200, [0.5 / 2**32, 1 - 0.5 / 2**32]])
    for uniform, value in zip(u, normal_reference.standard_normal(u), strict=True):
        share = 1 - beyond(value)
        allowed = TOLERANCE + 4 * np.spacing(abs(value)) * float(phi(value))
        assert abs(float(share - mp.mpf(uniform))) <= allowed


def test_mills_ratio():
    x = np.concatenate([[0.0], 10 ** np.linspace(-8, 3, 100)])
    for value, ratio in zip(x, normal_reference.mills_ratio(x), strict=True):
        # mpmath's erfc underflows never: 1 − Φ(1000) is a number of 217,149 digits to it.
        assert abs(float(mp.mpf(ratio) * phi(value) / beyond(value) - 1)) < TOLERANCE


def test_arguments_broadcast():
    a = np.linspace(-3, 3, 5)[:, None]
    b = a + np.array([1e-4, 0.3, 2.0])
    whole = truncated_draw(a, b, 0.3)
    one_by_one = [[truncated_draw(a[n], y, 0.3)[0] for y in b[n]] for n in range(5)]
    assert whole.shape == (5, 3)
    assert np.array_equal(whole, one_by_one)


@pytest.mark.parametrize("place", [-300.0, -36.0, -1e-9, 0.0, 0.5, 37.0, 1000.0])
def test_bounds_that_meet(place):
    """The mean is where they meet, as it is by mpmath for the narrowest interval there is."""
    found = float(normal_reference.truncated_mean(place, place))
    assert np.isfinite(normal_reference.edge_densities(place, place)).all()
    truth = mean(place, mp.mpf(place) + mp.mpf(10) ** -18)
    assert abs(found - float(truth)) <= 1e-9 * max(1.0, abs(place))

"""The oracle against what it is made from: integrals, differences, sums to one."""

import itertools

import enumeration as exact
import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

N_LEVELS = (2, 3, 5, 7)


def random_model(seed=0, n_levels=N_LEVELS, n_factors=4, sigma=1.0):
    generator = np.random.default_rng(seed)
    thresholds = [
        generator.normal(0.3, 0.5) + np.cumsum(generator.uniform(0.2, 1.0, levels - 1)) for levels in n_levels
    ]
    return exact.Model(
        weights=generator.normal(0, 0.7, (len(n_levels), n_factors)),
        alpha=generator.normal(0.2, 0.5, len(n_levels)),
        gamma=generator.normal(-0.4, 0.8, n_factors),
        thresholds=thresholds,
        sigma=sigma,
    )


SIGMA = np.array([1.0, 0.6, 1.7, 1.1])
OFFSET = np.array([0.4, -0.9, 0.2])
ROWS = {
    "complete": exact.row_of({0: 1, 1: 0, 2: 3, 3: 6}),
    "missing": exact.row_of({1: 2, 3: 2}),
    "offset": exact.row_of({0: 0, 1: 1, 3: 4}, OFFSET),
    "nothing": exact.row_of({}),
}


@pytest.mark.parametrize("sigma", [1.0, SIGMA], ids=["unit", "unequal"])
@pytest.mark.parametrize("kind", ROWS)
def test_gradient_is_the_slope_of_the_log_likelihood(kind, sigma):
    model, row, step = random_model(sigma=sigma), ROWS[kind], 1e-5
    shapes = exact.Statistics(model.weights, model.alpha, model.gamma, model.thresholds)
    start = shapes.flat()

    def at(parameters):
        parts = np.split(parameters, np.cumsum([part.size for part in parts_of(shapes)])[:-1])
        weights, alpha, gamma, *thresholds = parts
        return exact.log_likelihood(
            exact.Model(weights.reshape(model.weights.shape), alpha, gamma, thresholds, sigma), row
        )

    slopes = [(at(start + move) - at(start - move)) / (2 * step) for move in step * np.eye(start.size)]
    assert np.abs(exact.gradient(model, row).flat() - slopes).max() < 1e-6


def parts_of(statistics):
    return [*statistics[:3], *statistics.thresholds]


def psi(model, u, h):
    """Ψ(u, h) of a model with one factor, word for word from the definition."""
    energy = sum(
        -(u_i**2) / (2 * sigma**2) + alpha * u_i + w * u_i * h
        for u_i, sigma, alpha, w in zip(
            u, model.deviation(range(len(u))), model.alpha, model.weights[:, 0], strict=True
        )
    )
    return np.exp(energy + model.gamma[0] * h)


def box_integral(function, model, levels):
    """∫∫ over the utilities that give these levels; None stands for any level."""
    bounds = []
    for i, level in enumerate(levels):
        low, high = (-np.inf, np.inf) if level is None else model.bounds(i)[level : level + 2]
        bounds.append((max(low, -15), min(high, 15)))
    (low_0, high_0), (low_1, high_1) = bounds
    return integrate.dblquad(
        lambda u_1, u_0: function((u_0, u_1)), low_0, high_0, low_1, high_1, epsabs=1e-9
    )[0]


def test_direct_integration():
    """One factor, two variables: integrate the Gaussian RBM itself."""
    model = random_model(3, n_levels=(3, 4), n_factors=1, sigma=np.array([0.8, 1.3]))
    levels = (1, 3)
    row = exact.row_of(dict(enumerate(levels)))
    clamped = [box_integral(lambda u, h=h: psi(model, u, h), model, levels) for h in (0, 1)]
    free = [box_integral(lambda u, h=h: psi(model, u, h), model, (None, None)) for h in (0, 1)]
    constant = np.log(2 * np.pi * 0.8 * 1.3)
    assert np.isclose(exact.log_free_partition(model, row) + constant, np.log(sum(free)))
    assert np.isclose(exact.log_likelihood(model, row), np.log(sum(clamped) / sum(free)))
    assert np.allclose(exact.posterior(model, row), np.array(clamped) / sum(clamped))
    assert np.allclose(exact.prior(model, row), np.array(free) / sum(free))
    got = exact.expectation(exact.posterior(model, row), exact.clamped_statistics(model, row))
    for i in range(2):
        moment = [box_integral(lambda u, h=h, i=i: u[i] * psi(model, u, h), model, levels) for h in (0, 1)]
        assert np.isclose(got.alpha[i], sum(moment) / sum(clamped))
        assert np.isclose(got.weights[i, 0], moment[1] / sum(clamped))
    free_moment = [box_integral(lambda u, h=h: u[0] * psi(model, u, h), model, (None, None)) for h in (0, 1)]
    got = exact.expectation(exact.prior(model, row), exact.free_statistics(model, row))
    assert np.isclose(got.alpha[0], sum(free_moment) / sum(free))


def test_prediction_by_direct_integration():
    """The unanswered variable is absent from P(h | v), then predicted from each h."""
    model = random_model(4, n_levels=(3, 4), n_factors=1)
    alone = model._replace(weights=model.weights[:1], alpha=model.alpha[:1])
    low, high = model.bounds(0)[1:3]
    joint = [integrate.quad(lambda u, h=h: psi(alone, (u,), h), low, high)[0] for h in (0, 1)]
    expected = [
        sum(
            share * stats.norm(model.alpha[1] + model.weights[1, 0] * h).cdf(model.bounds(1)[level + 1])
            - share * stats.norm(model.alpha[1] + model.weights[1, 0] * h).cdf(model.bounds(1)[level])
            for h, share in enumerate(np.array(joint) / sum(joint))
        )
        for level in range(4)
    ]
    assert np.allclose(exact.predictive(model, exact.row_of({0: 1}), 1), expected)


def test_probabilities_of_all_rows_sum_to_one():
    model = random_model(1, n_levels=(2, 3, 5), n_factors=3)
    rows = [exact.row_of(dict(enumerate(v))) for v in itertools.product(range(2), range(3), range(5))]
    assert np.isclose(sum(np.exp(exact.log_likelihood(model, row)) for row in rows), 1)
    for row in rows[::7]:
        assert np.isclose(exact.posterior(model, row).sum(), 1)
        assert np.isclose(exact.predictive(model, row, 2).sum(), 1)


def test_an_unanswered_variable_is_absent():
    """Its parameters change nothing, and get no gradient."""
    model, row = random_model(), ROWS["missing"]
    other = model._replace(weights=model.weights.copy(), alpha=model.alpha.copy())
    other.weights[[0, 2]] += 1.0
    other.alpha[[0, 2]] -= 2.0
    assert exact.log_likelihood(model, row) == exact.log_likelihood(other, row)
    assert np.array_equal(exact.posterior(model, row), exact.posterior(other, row))
    assert np.array_equal(exact.prior(model, row), exact.prior(other, row))
    assert not exact.gradient(model, row).weights[[0, 2]].any()


def test_utility_thresholds_and_deviation_share_one_scale():
    """Why the engines may do with σ = 1."""
    model, row = random_model(sigma=SIGMA), ROWS["complete"]
    scaled = exact.Model(
        model.weights * SIGMA[:, None],
        model.alpha * SIGMA,
        model.gamma,
        [inner / sigma for inner, sigma in zip(model.thresholds, SIGMA, strict=True)],
    )
    assert np.isclose(exact.log_likelihood(model, row), exact.log_likelihood(scaled, row))
    assert np.allclose(exact.posterior(model, row), exact.posterior(scaled, row))


def test_intervals_in_the_tails():
    a = np.array([-np.inf, 30.0, -31.0, -1.0, 8.0])
    b = np.array([-30.0, np.inf, -30.0, 2.0, 8.5])
    with mpmath.workdps(250):  # enough for 1 − Φ(31) beside 1
        expected = [float(mpmath.log(mpmath.ncdf(y) - mpmath.ncdf(x))) for x, y in zip(a, b, strict=True)]
    assert np.allclose(exact.log_interval(a, b), expected, rtol=1e-12)
    assert np.allclose(exact.log_interval(-b, -a), exact.log_interval(a, b), rtol=1e-12)


def test_exact_draws():
    model = random_model(2, n_levels=(2, 3), n_factors=3)
    generator = np.random.default_rng(5)
    row = exact.row_of({0: 1, 1: 0})
    p = exact.posterior(model, row)
    drawn = exact.draw_states(p, 20_000, generator)
    counts = np.bincount(exact.state_index(drawn), minlength=8)
    assert stats.chisquare(counts, p * 20_000).pvalue > 1e-3
    levels = exact.draw_rows(model, 20_000, generator)
    pairs = list(itertools.product(range(2), range(3)))
    p = np.exp([exact.log_likelihood(model, exact.row_of({0: x, 1: y})) for x, y in pairs])
    counts = [np.sum(np.all(levels == pair, axis=1)) for pair in pairs]
    assert stats.chisquare(counts, p * 20_000).pvalue > 1e-3

"""The half-sweep of Gaussian factors against plain formulas in float64 and an optimiser.

The reference is written for one row at a time, whether users or items: bias and factors x, the
columns' features (1, q), and the bounds of the answers' levels.
"""

import hashlib
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import norm

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.base import FactorPosterior, HalfSweepEngine, Prior
from ordinalrbm.engine.half_sweep import CPU_ENGINE
from ordinalrbm.runtime.threads import threads

SCALES = (5, 2, 7, 3)
LARGEST_MOVE = 0.7
SETTLED = 400  # sweeps after which nothing moves any more


class Setting(NamedTuple):
    """A table of levels, −1 where there is none, rows and columns, and the rows' prior."""

    dense: np.ndarray
    this: FactorPosterior
    other: FactorPosterior
    prior: Prior

    @property
    def answers(self):
        most = np.minimum(self.this.n_levels.max(), self.other.n_levels)
        return Observations.from_dense(self.dense, most)

    def renewed(self, times=1, spread=True):
        """The rows after so many sweeps, and the variances of their cutpoints after the last."""
        this = FactorPosterior(*map(np.copy, self.this))
        answers = self.answers
        for _ in range(times):
            cutpoints_variance = CPU_ENGINE.half_sweep(answers, this, self.other, self.prior, spread)
        return this, cutpoints_variance


def posterior(rng, n, n_factors, n_levels, *, first, known=0.1):
    width = max(SCALES) - 1
    cutpoints = rng.normal(-0.4, 0.3, (n, width))
    cutpoints[:, 0] = first
    gaps = np.exp(cutpoints)
    gaps[:, 0] = cutpoints[:, 0]
    return FactorPosterior(
        rng.normal(0.2, 0.6, (n, 1 + n_factors)).astype(np.float32),
        rng.uniform(0.2 * known, known, (n, 1 + n_factors)).astype(np.float32),
        cutpoints,
        gaps,
        np.resize(n_levels, n).astype(np.int32),
    )


def setting(n_factors=2, *, seed=0, n_rows=9, n_columns=14, swapped=False, gaps_move=False):
    """Nothing symmetric. The first row has no answer, the second one, the others some.

    Swapped, the rows have the scales and the first thresholds, and the columns any level.
    """
    rng = np.random.default_rng(seed)
    of_scales = posterior(
        rng, n_rows if swapped else n_columns, n_factors, SCALES, first=rng.normal(-0.9, 0.3)
    )
    plain = posterior(rng, n_columns if swapped else n_rows, n_factors, (max(SCALES),), first=0.0, known=0.2)
    this, other = (of_scales, plain) if swapped else (plain, of_scales)
    most = np.minimum(this.n_levels[:, None], other.n_levels)
    # High levels are rare.
    dense = (most * rng.random(most.shape) ** 1.5).astype(int)
    dense[rng.random(dense.shape) < 0.3] = -1
    dense[0] = -1
    dense[1, 1:] = -1
    dense[1, 0] = 1
    width = this.cutpoints.shape[1]
    prior = Prior(
        rng.uniform(0.5, 3.0, 1 + n_factors).astype(np.float32),
        this.cutpoints + rng.normal(0.1, 0.2, this.cutpoints.shape),
        rng.uniform(2.0, 8.0, width) if gaps_move else np.full(width, np.inf),
    )
    return Setting(dense, this, other, prior)


# ---- the reference ------------------------------------------------------------------------------


def log_mass(low, high):
    """log(Φ(b) − Φ(a)), from the side where both are small."""
    flip = low + high > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    return np.log(ndtr(high) - ndtr(low))


def bounds(case, d, cutpoints):
    """Bounds of the levels that row d has answered with, for cutpoints of its own."""
    low, high = [], []
    for i in np.flatnonzero(case.dense[d] >= 0):
        n_levels = min(case.this.n_levels[d], case.other.n_levels[i])
        both = cutpoints + case.other.cutpoints[i]
        inner = both[0] + np.concatenate([[0.0], np.cumsum(np.exp(both[1:]))])
        every = np.concatenate([[-np.inf], inner[: n_levels - 1], [np.inf]])
        low.append(every[case.dense[d, i]])
        high.append(every[case.dense[d, i] + 1])
    return np.array(low), np.array(high)


def seen(case, d):
    """Features of the columns that row d has answered, their variances and their biases."""
    answered = case.dense[d] >= 0
    mean = case.other.mean[answered].astype(np.float64)
    variance = case.other.variance[answered].astype(np.float64)
    ones, nothing = np.ones((len(mean), 1)), np.zeros((len(mean), 1))
    return np.hstack([ones, mean[:, 1:]]), np.hstack([nothing, variance[:, 1:]]), mean[:, 0]


def expected_utility(low, high, mean):
    a, b = low - mean, high - mean
    return mean + (norm.pdf(a) - norm.pdf(b)) / np.exp(log_mass(a, b))


def log_posterior(case, d, x):
    """Of a row's bias and factors, its cutpoints staying; and its slope."""
    features, doubt, bias = seen(case, d)
    low, high = bounds(case, d, case.this.cutpoints[d])
    mean = features @ x + bias
    ridge = case.prior.precision + doubt.sum(axis=0)
    value = log_mass(low - mean, high - mean).sum() - 0.5 * ridge @ x**2
    return value, features.T @ (expected_utility(low, high, mean) - mean) - ridge * x


def regressed(case, d, free=None):
    """Bias and factors after one exact ridge regression of the expected utilities."""
    x = case.this.mean[d].astype(np.float64)
    free = np.ones(x.size, bool) if free is None else free
    features, doubt, bias = seen(case, d)
    low, high = bounds(case, d, case.this.cutpoints[d])
    fixed = bias + features[:, ~free] @ x[~free]
    utility = expected_utility(low, high, features @ x + bias)
    ridge = (case.prior.precision + doubt.sum(axis=0))[free]
    design = features[:, free]
    x[free] = np.linalg.solve(design.T @ design + np.diag(ridge), design.T @ (utility - fixed))
    return x


def log_answers(case, d, cutpoints, mean, variance):
    """Log probability of a row's answers, what is not known of a mean widening the utility."""
    features, _, bias = seen(case, d)
    at = features @ mean + bias
    scale = np.sqrt(1.0 + cell_variance(case, d, mean, variance))
    low, high = bounds(case, d, cutpoints)
    return log_mass((low - at) / scale, (high - at) / scale).sum()


def cell_variance(case, d, mean, variance):
    features, doubt, _ = seen(case, d)
    of_bias = case.other.variance[case.dense[d] >= 0, 0].astype(np.float64)
    return of_bias + (features**2 + doubt) @ variance + doubt @ mean**2


def differences(function, x, size=1e-5):
    """Slopes by every number of x, one per line."""
    return np.array([(function(x + h) - function(x - h)) / (2 * size) for h in size * np.eye(x.size)])


def newton_step(case, d, mean, variance):
    """Move of the log gaps, and the variances it leaves, from finite differences.

    The curvature is that of the log probability in the bounds, carried over to the gaps.
    """
    cutpoints, centre = case.this.cutpoints[d], case.prior.cutpoints[d]
    precision = case.prior.cutpoints_precision[1:]

    def at(gaps):
        return np.concatenate([cutpoints[:1], gaps])

    slope = differences(lambda w: log_answers(case, d, at(w), mean, variance), cutpoints[1:])
    slope = slope + precision * (centre - cutpoints)[1:]
    features, _, bias = seen(case, d)
    scale = np.sqrt(1.0 + cell_variance(case, d, mean, variance))
    at_mean = features @ mean + bias

    def finite_bounds(gaps):
        both = np.stack([(bound - at_mean) / scale for bound in bounds(case, d, at(gaps))], axis=1)
        return np.where(np.isinf(both), 0.0, both)

    infinite = np.stack([np.isinf(bound) for bound in bounds(case, d, cutpoints)], axis=1)
    jacobian = differences(finite_bounds, cutpoints[1:])  # (gaps, answers, 2)
    system = np.diag(precision)
    for e, pair in enumerate(finite_bounds(cutpoints[1:])):
        gone = np.where(infinite[e], [-np.inf, np.inf], 0.0)
        of_bounds = hessian(lambda x, gone=gone: log_mass(*(x + gone)), pair)
        of_bounds[infinite[e]], of_bounds[:, infinite[e]] = 0.0, 0.0
        system = system - jacobian[:, e] @ of_bounds @ jacobian[:, e].T
    return np.linalg.solve(system, slope), np.diag(np.linalg.inv(system))


def hessian(function, x, size=1e-4):
    return differences(lambda y: differences(function, y, size), x, size)


# ---- bias and factors ---------------------------------------------------------------------------


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("n_factors", [0, 1])
def test_one_sweep_is_the_ridge_regression_of_the_expected_utilities(n_factors, swapped):
    """With so few coordinates conjugate gradients end at the solution."""
    case = setting(n_factors, seed=n_factors, swapped=swapped)
    found, _ = case.renewed()
    truth = np.array([regressed(case, d) for d in range(len(case.dense))])
    np.testing.assert_allclose(found.mean, truth, rtol=1e-4, atol=1e-5)
    assert np.abs(truth - case.this.mean).max() > 0.1


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_an_infinite_precision_keeps_a_coordinate(kept):
    case = setting(2, seed=3)
    case.prior.precision[kept] = np.inf
    found, _ = case.renewed()
    np.testing.assert_array_equal(found.mean[:, kept], case.this.mean[:, kept])
    np.testing.assert_array_equal(found.variance[:, kept], 0.0)
    finite = case._replace(prior=case.prior._replace(precision=case.prior.precision.copy()))
    finite.prior.precision[kept] = 1.0  # the reference leaves it out by itself
    free = np.arange(3) != kept
    truth = np.array([regressed(finite, d, free) for d in range(len(case.dense))])
    np.testing.assert_allclose(found.mean, truth, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("n_factors", [0, 1, 3, 8])
def test_what_settles_is_the_most_likely(n_factors, swapped):
    """An independent optimiser ends at the same place, for every row."""
    case = setting(n_factors, seed=10 + n_factors, swapped=swapped)
    found, _ = case.renewed(SETTLED)
    for d in range(len(case.dense)):

        def loss(x, d=d):
            value, slope = log_posterior(case, d, x)
            return -value, -slope

        best = minimize(loss, np.zeros(1 + n_factors), jac=True, method="BFGS").x
        np.testing.assert_allclose(found.mean[d], best, atol=2e-4)


def test_the_references_slope_is_that_of_its_value():
    case = setting(3, seed=4)
    for d in range(len(case.dense)):
        x = case.this.mean[d].astype(np.float64)
        slope = differences(lambda y, d=d: log_posterior(case, d, y)[0], x)
        np.testing.assert_allclose(log_posterior(case, d, x)[1], slope, atol=1e-6)


def test_every_sweep_makes_rows_more_likely():
    """Also with more coordinates than steps of conjugate gradients."""
    case = setting(12, seed=5, n_columns=30)
    values = []
    for _ in range(15):
        rows = range(2, len(case.dense))
        values.append([log_posterior(case, d, case.this.mean[d])[0] for d in rows])
        case = case._replace(this=case.renewed()[0])
    rises = np.diff(values, axis=0)
    assert rises.min() > -1e-4
    assert (rises[0] > 0.1).all()


def test_the_variance_is_that_of_independent_coordinates_or_a_little_more():
    """One over the diagonal understates it."""
    case = setting(3, seed=6)
    found, _ = case.renewed()
    for d in range(1, len(case.dense)):
        features, doubt, _ = seen(case, d)
        diagonal = case.prior.precision + np.sum(features**2 + doubt, axis=0)
        share = found.variance[d] * diagonal
        assert share.min() > 1.0 - 1e-5
        assert share.max() < 1.2
    points, _ = case.renewed(spread=False)
    np.testing.assert_array_equal(points.variance, case.this.variance)
    np.testing.assert_array_equal(points.mean, found.mean)


def test_rows_without_answers_become_what_the_prior_says():
    case = setting(4, seed=7, gaps_move=True)
    found, cutpoints_variance = case.renewed(3)
    np.testing.assert_allclose(found.mean[0], 0.0, atol=1e-6)
    np.testing.assert_allclose(found.cutpoints[0, 1:], case.prior.cutpoints[0, 1:], rtol=1e-9)
    np.testing.assert_allclose(cutpoints_variance[0, 1:], 1.0 / case.prior.cutpoints_precision[1:])


def test_without_answers_the_variance_is_the_priors():
    """Nothing is understated there, and an answer cannot leave one knowing less than before."""
    case = setting(4, seed=7)
    found, _ = case.renewed()
    np.testing.assert_allclose(found.variance[0], 1.0 / case.prior.precision, rtol=1e-6)
    assert (found.variance * case.prior.precision <= 1.0 + 1e-6).all()


def test_one_answer_moves_a_row_in_its_direction():
    """Between two bounds the bias settles where prior and answer pull alike."""
    case = setting(0, seed=8)
    found, _ = case.renewed(SETTLED)
    (low,), (high,) = bounds(case, 1, case.this.cutpoints[1])
    x = np.float64(found.mean[1, 0])
    at = x + case.other.mean[0, 0]
    pull = expected_utility(low, high, at) - at
    assert pull == pytest.approx(case.prior.precision[0] * x, abs=1e-5)
    assert abs(x) > 0.05


def test_answers_far_out_leave_finite_numbers():
    """A row at the wrong end of the line comes back, whatever the scale."""
    case = setting(2, seed=9, gaps_move=True)
    case.this.mean[:5] = 40.0
    case.this.mean[5:] = -40.0
    found, _ = case.renewed(30)
    for part in found:
        assert np.isfinite(part).all()
    assert np.abs(found.mean).max() < 10.0


# ---- gaps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("swapped", [False, True])
def test_gaps_move_by_newtons_step(swapped):
    case = setting(2, seed=11, swapped=swapped, gaps_move=True)
    found, cutpoints_variance = case.renewed()
    moved = []
    for d in range(len(case.dense)):
        mean, variance = (part[d].astype(np.float64) for part in found[:2])
        step, left = newton_step(case, d, mean, variance)
        step = np.clip(step, -LARGEST_MOVE, LARGEST_MOVE)
        np.testing.assert_allclose(found.cutpoints[d, 1:] - case.this.cutpoints[d, 1:], step, atol=2e-4)
        np.testing.assert_allclose(cutpoints_variance[d, 1:], left, rtol=1e-3)
        moved.append(step)
    np.testing.assert_array_equal(found.cutpoints[:, 0], case.this.cutpoints[:, 0])
    np.testing.assert_array_equal(cutpoints_variance[:, 0], 0.0)
    np.testing.assert_allclose(found.gaps[:, 1:], np.exp(found.cutpoints[:, 1:]))
    assert np.abs(moved).max() > 0.1


@pytest.mark.parametrize("swapped", [False, True])
def test_gaps_settle_at_the_most_likely(swapped):
    case = setting(2, seed=12, swapped=swapped, gaps_move=True)
    case.prior.precision[:] = np.inf  # bias and factors stay
    found, _ = case.renewed(60, spread=False)
    np.testing.assert_array_equal(found.mean, case.this.mean)
    precision = case.prior.cutpoints_precision[1:]
    for d in range(len(case.dense)):
        mean, variance = (part[d].astype(np.float64) for part in case.this[:2])

        def loss(gaps, d=d, mean=mean, variance=variance):
            cutpoints = np.concatenate([case.this.cutpoints[d, :1], gaps])
            away = gaps - case.prior.cutpoints[d, 1:]
            return 0.5 * precision @ away**2 - log_answers(case, d, cutpoints, mean, variance)

        best = minimize(loss, case.this.cutpoints[d, 1:], method="BFGS")
        np.testing.assert_allclose(found.cutpoints[d, 1:], best.x, atol=1e-3)
        assert loss(found.cutpoints[d, 1:]) < best.fun + 1e-6


def test_scales_of_two_levels_have_no_gaps():
    rng = np.random.default_rng(0)
    dense = rng.integers(-1, 2, (6, 8))

    def points(n):
        return FactorPosterior(
            rng.normal(size=(n, 3)).astype(np.float32),
            np.zeros((n, 3), np.float32),
            np.full((n, 1), 0.2),
            np.full((n, 1), 0.2),
            np.full(n, 2, np.int32),
        )

    prior = Prior(np.ones(3, np.float32), np.zeros((6, 1)), np.ones(1))
    case = Setting(dense, points(6), points(8), prior)
    found, cutpoints_variance = case.renewed(SETTLED)
    np.testing.assert_array_equal(found.cutpoints, 0.2)
    np.testing.assert_array_equal(cutpoints_variance, 0.0)
    slopes = [log_posterior(case, d, found.mean[d].astype(float))[1] for d in range(6)]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-3)


# ---- the same computation in other ways ---------------------------------------------------------


def test_rows_do_not_know_of_each_other():
    case = setting(5, seed=15, gaps_move=True)
    together, _ = case.renewed(2)
    chosen = np.array([7, 3])
    alone = case._replace(
        dense=case.dense[chosen],
        this=FactorPosterior(*(part[chosen] for part in case.this)),
        prior=case.prior._replace(cutpoints=case.prior.cutpoints[chosen]),
    )
    found, _ = alone.renewed(2)
    for one, other in zip(found, together, strict=True):
        np.testing.assert_array_equal(one, other[chosen])


def digest():
    """Of what some sweeps leave, with more rows than threads and of very different length."""
    case = setting(7, seed=16, n_rows=90, n_columns=60, gaps_move=True)
    case.dense[10:40, 3:] = -1
    found, cutpoints_variance = case.renewed(4)
    total = hashlib.sha256()
    for array in (*found, cutpoints_variance):
        total.update(array.tobytes())
    return total.hexdigest()


def test_threads_do_not_change_a_bit():
    """On one, on all that there are, and in another process on four."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_half_sweep as own; "
    run = subprocess.run(
        [sys.executable, "-c", code + "print(own.digest())", os.path.dirname(__file__)],
        env={**os.environ, "NUMBA_NUM_THREADS": "4"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = {run.stdout.strip(), digest()}
    with threads(1):
        found.add(digest())
    assert len(found) == 1


def test_rows_settle_by_themselves():
    """As in sweeps over each row alone, whose end the engines' common loop finds."""
    case = setting(3, gaps_move=True)
    how = {"settled": 0.02, "most_sweeps": 30, "spread": True}
    together = FactorPosterior(*map(np.copy, case.this))
    CPU_ENGINE.settle(case.answers, together, case.other, case.prior, **how)
    for d in range(case.answers.n_rows):
        alone = FactorPosterior(*(part[[d]] for part in case.this))
        prior = case.prior._replace(cutpoints=case.prior.cutpoints[[d]], mean=case.prior.mean[d : d + 1])
        HalfSweepEngine.settle(CPU_ENGINE, case.answers.take_rows([d]), alone, case.other, prior, **how)
        for own, whole in zip(alone, together, strict=True):
            np.testing.assert_allclose(own[0], whole[d], rtol=1e-5, atol=1e-6)

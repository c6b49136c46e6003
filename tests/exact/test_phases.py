"""The sampler of the CPU engine against enumeration.

Many rows with the same answers are as many parallel chains of one posterior. Rows of several
patterns stand in one Side, so that missing answers, offsets and weights take part.
"""

from typing import NamedTuple

import enumeration as exact
import numpy as np
import pytest
from long_form import LONG

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import gibbs
from ordinalrbm.engine.side import Batch, Side

PHASES = ("clamped_phase", "free_phase")
N_CHAINS = 12_000 if LONG else 8_000
STANDARD_ERRORS = 4
# Statistics are sums in float32; sums of more rows than this would lose what is measured here.
BATCH_ROWS = 2_000
N_LEVELS = np.array([2, 3, 5, 7, 3, 2])
PATTERNS = [{0: 1, 1: 0, 2: 4, 3: 2, 4: 2, 5: 0}, {1: 1, 2: 0, 5: 1}, {3: 6}, {0: 0, 2: 2, 3: 0, 4: 1}]


class Case(NamedTuple):
    """A model, its rows by pattern, and the Side in which each pattern has N_CHAINS rows."""

    model: exact.Model
    rows: list
    side: Side
    units: int

    def batches(self, pattern, gibbs_steps, sweep=1):
        """The rows of one pattern, batch by batch."""
        first, last = pattern * N_CHAINS, (pattern + 1) * N_CHAINS
        return [
            Batch(start, min(start + BATCH_ROWS, last), seed=2024, sweep=sweep, gibbs_steps=gibbs_steps)
            for start in range(first, last, BATCH_ROWS)
        ]

    def factors_of(self, states):
        """Binary states as the engine counts them: the units of a factor that are on."""
        return states.reshape(len(states), -1, self.units).sum(axis=2).astype(np.uint8)


def rounded(values):
    """Numbers that float32 holds exactly, so that engine and oracle have the same model."""
    return np.float32(values).astype(np.float64)


def make_case(n_factors=6, units=1, offset=True, seed=0):
    """A skewed model: symmetric thresholds or biases could hide an error of sign."""
    generator = np.random.default_rng(seed)
    weights = rounded(generator.normal(0, 0.55, (N_LEVELS.size, n_factors)))
    gamma = rounded(generator.normal(-0.5, 0.7, n_factors))
    model = exact.Model(
        # Units are factors that share their weights; the oracle sees each of them.
        weights=np.repeat(weights, units, axis=1),
        alpha=rounded(generator.normal(0.3, 0.4, N_LEVELS.size)),
        gamma=np.repeat(gamma, units),
        thresholds=[
            rounded(generator.normal(0.4, 0.4) + np.cumsum(generator.uniform(0.15, 0.9, n - 1)))
            for n in N_LEVELS
        ],
    )
    rows = [
        exact.row_of(answers, rounded(generator.normal(0, 0.6, len(answers))) if offset else 0.0)
        for answers in PATTERNS
    ]
    return Case(model, rows, make_side(model, rows, weights, gamma, units), units)


def make_side(model, rows, weights, gamma, units):
    dense = np.full((len(rows), N_LEVELS.size), -1)
    for row, answers in zip(dense, PATTERNS, strict=True):
        row[list(answers)] = list(answers.values())
    patterns = Observations.from_dense(dense, N_LEVELS)
    observations = patterns.take_rows(np.repeat(np.arange(len(rows)), N_CHAINS))
    view = observations.column_view
    offset = [np.tile(np.broadcast_to(row.offset, row.columns.size), N_CHAINS) for row in rows]
    bounds = np.full((N_LEVELS.size, N_LEVELS.max() + 1), np.inf)
    for i in range(N_LEVELS.size):
        bounds[i, : N_LEVELS[i] + 1] = model.bounds(i)
    return Side(
        row_start=observations.row_start,
        column=observations.column,
        level=observations.level,
        column_start=view.column_start,
        entry_row=view.row,
        entry=view.entry,
        offset=np.concatenate(offset).astype(np.float32),
        row_weight=np.zeros(0, dtype=np.float32),
        stretch=np.zeros(0, dtype=np.float32),
        row_gaps=np.zeros((0, 0), dtype=np.float32),
        weights=weights.astype(np.float32),
        bias=model.alpha.astype(np.float32),
        thresholds=bounds,
        factor_bias=gamma.astype(np.float32),
        units=units,
    )


def target(phase, model, row):
    """Exact distribution over the states and the statistics of each state."""
    if phase == "clamped_phase":
        return exact.posterior(model, row), exact.clamped_statistics(model, row)
    return exact.prior(model, row), exact.free_statistics(model, row)


def exact_start(case, phase, seed=7):
    """Factors of all chains, drawn from the target of the phase."""
    generator = np.random.default_rng(seed)
    drawn = [exact.draw_states(target(phase, case.model, row)[0], N_CHAINS, generator) for row in case.rows]
    return case.factors_of(np.concatenate(drawn))


def run_phase(case, phase, factors, pattern, gibbs_steps, side=None):
    """Advance the chains of a pattern; the engine's statistics, summed in float64."""
    total = 0.0
    for batch in case.batches(pattern, gibbs_steps):
        part = getattr(gibbs, phase)(case.side if side is None else side, factors, batch)
        total = total + flat_statistics(part)
    return total


def flat_statistics(statistics):
    """In the order of the oracle; what stands at infinite bounds must be nothing."""
    inner = [statistics.thresholds[i, 1:n] for i, n in enumerate(N_LEVELS)]
    outer = [np.delete(statistics.thresholds[i], np.s_[1:n]) for i, n in enumerate(N_LEVELS)]
    assert not np.concatenate(outer).any()
    parts = statistics.weights, statistics.bias, statistics.factor_bias
    return exact.Statistics(*(part.astype(np.float64) for part in parts), inner).flat()


def per_factor(case, statistics):
    """Statistics of the units of a factor added up, as the engine reports them."""

    def added(part):
        return part.reshape(*part.shape[:-1], -1, case.units).sum(axis=-1)

    weights, gamma = added(statistics.weights), added(statistics.gamma)
    return exact.Statistics(weights, statistics.alpha, gamma, statistics.thresholds)


def flat_moments(case, phase, row):
    """Exact mean and variance of every statistic of one chain."""
    p, statistics = target(phase, case.model, row)
    statistics = per_factor(case, statistics)
    return exact.expectation(p, statistics).flat(), exact.variance(p, statistics).flat()


def standard_scores(total, mean, variance, n):
    """How many standard errors a sum over n chains is off; what cannot vary must be right."""
    scale = np.sqrt(n * variance)
    sure = scale < 1e-9 * n
    assert np.allclose(total[sure], n * mean[sure], rtol=1e-5, atol=1e-5 * n)
    return (total - n * mean)[~sure] / scale[~sure]


def pairs(factors):
    """h_k h_l for all k ≤ l."""
    k, m = np.triu_indices(factors.shape[1])
    return factors[:, k].astype(np.float64) * factors[:, m]


@pytest.fixture(scope="module")
def case():
    return make_case()


@pytest.fixture(scope="module")
def case_of_units():
    """Two factors of three units each: six bits to the oracle."""
    return make_case(n_factors=2, units=3, seed=5)


# ---- long runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["case", "case_of_units"])
@pytest.mark.parametrize("phase", PHASES)
def test_long_runs_have_the_exact_expectations(phase, which, request):
    """From all factors off, through a burn-in of 50 steps."""
    case = request.getfixturevalue(which)
    factors = np.zeros((case.side.n_rows, case.side.factor_bias.size), dtype=np.uint8)
    for pattern, row in enumerate(case.rows):
        total = run_phase(case, phase, factors, pattern, gibbs_steps=50)
        mean, variance = flat_moments(case, phase, row)
        assert np.abs(standard_scores(total, mean, variance, N_CHAINS)).max() < STANDARD_ERRORS
        p, _ = target(phase, case.model, row)
        of_state = pairs(case.factors_of(exact.states(case.model.gamma.size)))
        mean = p @ of_state
        variance = p @ (of_state - mean) ** 2
        mine = factors[pattern * N_CHAINS : (pattern + 1) * N_CHAINS]
        scores = standard_scores(pairs(mine).sum(axis=0), mean, variance, N_CHAINS)
        assert np.abs(scores).max() < STANDARD_ERRORS


@pytest.mark.parametrize("phase", PHASES)
def test_statistics_are_those_of_the_last_factors(case, phase):
    """Given the factors nothing is random: statistics agree to rounding, not to Monte Carlo."""
    factors = np.zeros((case.side.n_rows, case.side.factor_bias.size), dtype=np.uint8)
    for pattern, row in enumerate(case.rows):
        total = run_phase(case, phase, factors, pattern, gibbs_steps=3)
        mine = factors[pattern * N_CHAINS : (pattern + 1) * N_CHAINS]
        share = np.bincount(exact.state_index(mine), minlength=2 ** factors.shape[1]) / N_CHAINS
        expected = exact.expectation(share, target(phase, case.model, row)[1]).flat()
        assert np.allclose(total / N_CHAINS, expected, rtol=1e-4, atol=1e-5)


# ---- stationarity -------------------------------------------------------------------------------


def total_variation(p, factors):
    share = np.bincount(exact.state_index(factors), minlength=p.size) / len(factors)
    return 0.5 * np.abs(share - p).sum()


def monte_carlo_floor(p, n, seed=3):
    """Mean and standard deviation of the total variation of n exact draws."""
    counts = np.random.default_rng(seed).multinomial(n, p, size=300)
    distance = 0.5 * np.abs(counts / n - p).sum(axis=1)
    return distance.mean(), distance.std()


def excess_variation(case, phase, side, gibbs_steps=8):
    """Total variation after some steps from exact draws, in deviations above the floor."""
    factors = exact_start(case, phase)
    excess = []
    for pattern, row in enumerate(case.rows):
        run_phase(case, phase, factors, pattern, gibbs_steps, side)
        p, _ = target(phase, case.model, row)
        mine = factors[pattern * N_CHAINS : (pattern + 1) * N_CHAINS]
        floor, spread = monte_carlo_floor(p, N_CHAINS)
        excess.append((total_variation(p, mine) - floor) / spread)
    return np.array(excess)


@pytest.mark.parametrize("n_factors", [1, 6, 8])
@pytest.mark.parametrize("phase", PHASES)
def test_the_exact_distribution_is_stationary(phase, n_factors):
    case = make_case(n_factors, seed=n_factors)
    assert excess_variation(case, phase, case.side).max() < STANDARD_ERRORS


WRONG = {
    "sign of gamma": lambda side: side._replace(factor_bias=-side.factor_bias),
    "gamma left out": lambda side: side._replace(factor_bias=0 * side.factor_bias),
    "sign of alpha": lambda side: side._replace(bias=-side.bias),
    "offset left out": lambda side: side._replace(offset=side.offset[:0]),
    "weights a tenth too large": lambda side: side._replace(weights=side.weights * np.float32(1.1)),
    "thresholds moved": lambda side: side._replace(thresholds=side.thresholds + 0.3),
    "levels one too low": lambda side: side._replace(level=np.maximum(side.level - 1, 0)),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("phase", PHASES)
def test_a_wrong_kernel_is_not_stationary(case, phase, wrong):
    """The same test has the power to see small errors; only answers do not enter the free phase."""
    excess = excess_variation(case, phase, WRONG[wrong](case.side)).max()
    if phase == "free_phase" and wrong in ("thresholds moved", "levels one too low"):
        assert excess < STANDARD_ERRORS
    else:
        assert excess > 3 * STANDARD_ERRORS


# ---- the gradient -------------------------------------------------------------------------------


def test_sampled_gradient(case):
    """Clamped − free, over rows of all patterns with weights, is the gradient of the likelihood."""
    weight = np.array([1.0, 0.25, 2.0, 1.5])
    side = case.side._replace(row_weight=np.repeat(weight, N_CHAINS).astype(np.float32))
    start = {phase: exact_start(case, phase) for phase in PHASES}
    sampled, expected, variance = 0.0, 0.0, 0.0
    for pattern, row in enumerate(case.rows):
        clamped = run_phase(case, "clamped_phase", start["clamped_phase"], pattern, 5, side)
        free = run_phase(case, "free_phase", start["free_phase"], pattern, 5, side)
        sampled = sampled + clamped - free
        expected = expected + weight[pattern] * exact.gradient(case.model, row).flat()
        for phase in PHASES:
            variance = variance + weight[pattern] ** 2 * flat_moments(case, phase, row)[1]
    scores = standard_scores(sampled, expected, variance, N_CHAINS)
    assert np.abs(scores).max() < STANDARD_ERRORS
    # And it says something: most of the gradient stands clear of the noise.
    signal = np.abs(expected) * np.sqrt(N_CHAINS / np.where(variance > 0, variance, np.inf))
    assert np.median(signal[variance > 0]) > 3 * STANDARD_ERRORS

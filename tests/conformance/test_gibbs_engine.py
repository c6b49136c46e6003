"""The CPU engine against the plain NumPy reference, on the same random counters."""

import itertools

import numpy as np
import plain_gibbs
import pytest
from random_sides import in_double, random_side, side_of
from scipy.special import expit
from scipy.stats import binom

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import annealing, gibbs, normal_reference
from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.engine.side import Batch, Statistics, empty_statistics
from ordinalrbm.runtime import blocks
from ordinalrbm.runtime.threads import CORES, threads

PHASES = ("clamped_phase", "free_phase")
PLAIN = {}
WITH_ALL = {"offset": True, "row_weight": True, "stretch": True}
VARIANTS = {
    "plain": PLAIN,
    "offset": {"offset": True},
    "weighted": {"row_weight": True},
    "stretched": {"stretch": True},
    "own gaps": {"row_gaps": True, "offset": True, "row_weight": True},
    "all": WITH_ALL,
    "far": {"scale": 6.5, **WITH_ALL},  # means up to ±40, deep in the tails
    "one factor": {"n_factors": 1, **WITH_ALL},
    "many factors": {"n_factors": 70, "scale": 0.1, **WITH_ALL},
    "five units": {"units": 5, "scale": 0.15, **WITH_ALL},
    "many units": {"units": 250, "scale": 0.02, **WITH_ALL},
    "unknown answers": {"unknown": True, **WITH_ALL},
}
SEED = 0x0123_4567_89AB_CDEF


def run(engine, phase, side, factors, batch):
    """Factors and statistics after a phase; the factors given are left alone."""
    factors = factors.copy()
    statistics = getattr(engine, phase)(side, factors, batch)
    assert isinstance(statistics, Statistics)
    return factors, statistics


def given(phase, side, factors, batch):
    """Reference statistics given these factors, in float64: no draw is made."""
    return run(plain_gibbs, phase, in_double(side), factors, batch._replace(gibbs_steps=0))[1]


def error(ours, theirs):
    """Relative difference; sums whose terms cancel are held to a tenth of the largest sum."""
    assert ours.shape == theirs.shape
    size = np.abs(theirs) + 0.1 * np.abs(theirs).max(initial=0.0)
    return np.max(np.abs(ours - theirs) / np.where(size > 0, size, 1.0), initial=0.0)


def assert_close(got, truth, relative=1e-4):
    for name, ours, theirs in zip(Statistics._fields, got, truth, strict=True):
        assert error(ours, theirs) <= relative, name


def assert_identical(got, other):
    for name, ours, theirs in zip(Statistics._fields, got, other, strict=True):
        assert np.array_equal(ours, theirs), name


def assert_same_chains(ours, theirs, gibbs_steps):
    """Chains part only where a uniform number nearly ties with its probability: 1 in 10⁴."""
    parted = np.any(ours != theirs, axis=1).sum()
    assert parted <= 1e-4 * ours.size * gibbs_steps + 1


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("phase", PHASES)
def test_cpu_equals_reference(phase, variant):
    side, factors = random_side(1, **VARIANTS[variant])
    for gibbs_steps, (start, stop) in [(0, (0, 300)), (1, (0, 300)), (5, (37, 211))]:
        batch = Batch(start, stop, SEED, sweep=12, gibbs_steps=gibbs_steps)
        ours, statistics = run(gibbs, phase, side, factors, batch)
        theirs, _ = run(plain_gibbs, phase, in_double(side), factors, batch)
        assert_same_chains(ours, theirs, gibbs_steps)
        assert_close(statistics, given(phase, side, ours, batch))
        outside = np.r_[0:start, stop:300]
        assert np.array_equal(ours[outside], factors[outside])
        assert np.all(ours <= side.units)


@pytest.mark.parametrize("phase", PHASES)
def test_chains_agree_over_a_hundred_thousand_draws(phase):
    side, factors = random_side(2, n_rows=2000, **WITH_ALL)
    batch = Batch(0, 2000, SEED, sweep=3, gibbs_steps=6)
    ours, _ = run(gibbs, phase, side, factors, batch)
    theirs, _ = run(plain_gibbs, phase, in_double(side), factors, batch)
    assert_same_chains(ours, theirs, batch.gibbs_steps)
    assert np.mean(ours != factors) > 0.2  # the chains have moved


@pytest.mark.parametrize("phase", PHASES)
def test_units_are_factors_with_the_same_weights(phase):
    """A factor of three units is three factors with the same weights and bias."""
    side, _ = random_side(2, units=3, scale=0.2, **WITH_ALL)
    apart = side._replace(
        weights=np.repeat(side.weights, 3, axis=1), factor_bias=np.repeat(side.factor_bias, 3), units=1
    )
    bits = np.random.default_rng(3).integers(0, 2, (300, 27)).astype(np.uint8)
    together = bits.reshape(300, 9, 3).sum(axis=2).astype(np.uint8)
    batch = Batch(0, 300, SEED, sweep=5, gibbs_steps=0)
    together, statistics = run(gibbs, phase, side, together, batch)
    bits, statistics_apart = run(gibbs, phase, apart, bits, batch)
    assert error(statistics.bias, statistics_apart.bias) < 1e-4
    assert error(statistics.thresholds, statistics_apart.thresholds) < 1e-4
    per_factor = statistics_apart.weights.reshape(23, 9, 3).sum(axis=2)
    assert error(statistics.weights, per_factor) < 1e-4


@pytest.mark.parametrize("units", [2, 7, 250, 1000])
def test_units_on_are_binomial(units):
    """Evenly spaced uniform numbers give each number of units its exact share."""
    n = min(200_000, 4_000_000 // units)  # a table with a line for each
    uniform = (np.arange(n) + 0.5) / n
    for activation in (-60.0, -4.0, -0.3, 0.0, 1.7, 60.0):
        on = plain_gibbs._units_on(np.full(n, activation), uniform, units)
        share = np.bincount(on, minlength=units + 1) / n
        assert np.abs(share - binom.pmf(np.arange(units + 1), units, expit(activation))).max() < (1.5 / n)


def test_running_means_of_the_factors_equal_the_reference():
    side, factors = random_side(13, **WITH_ALL)
    batch = Batch(20, 250, SEED, sweep=4, gibbs_steps=2)
    start = np.random.default_rng(0).random(factors.shape).astype(np.float32)
    ours, theirs = start.copy(), start.astype(np.float64)
    gibbs.clamped_phase(side, factors.copy(), batch, ours, 0.7)
    plain_gibbs.clamped_phase(in_double(side), factors.copy(), batch, theirs, 0.7)
    assert np.median(np.abs(ours - theirs)) < 1e-6
    assert np.mean(np.abs(ours - theirs) > 1e-4) < 1e-2  # a chain may have parted before
    assert np.array_equal(ours[:20], start[:20])


def test_log_levels_equal_the_reference():
    side, factors = random_side(12, unknown=True, **WITH_ALL)
    stretches = np.array([0.2, 1.0, 2.5])
    ours = annealing.log_levels(side, factors, 30, 200, stretches)
    theirs = plain_gibbs.log_levels(in_double(side), factors, 30, 200, stretches)
    assert np.abs(ours - theirs).max() < 1e-4
    mean = plain_gibbs._Answers(in_double(side), 0, 300).mean(factors)
    squares = np.zeros(300)
    np.add.at(squares, np.repeat(np.arange(300), np.diff(side.row_start)), 0.5 * mean**2)
    assert np.allclose(annealing.half_squares(side, factors), squares, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("phase", PHASES)
def test_a_sweep_is_a_phase_without_statistics(phase):
    side, factors = random_side(2, **WITH_ALL)
    batch = Batch(37, 211, SEED, sweep=5, gibbs_steps=3)
    after_phase, _ = run(gibbs, phase, side, factors, batch)
    assert getattr(gibbs, phase.replace("phase", "sweep"))(side, factors, batch) is None
    assert np.array_equal(factors, after_phase)


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_is_named_by_its_seed_sweep_and_step(phase):
    side, factors = random_side(3)
    batch = Batch(0, 300, SEED, sweep=1, gibbs_steps=2)
    once, statistics = run(gibbs, phase, side, factors, batch)
    again, same_statistics = run(gibbs, phase, side, factors, batch)
    assert np.array_equal(once, again)
    assert_identical(statistics, same_statistics)
    for other in (batch._replace(seed=SEED + 1), batch._replace(seed=SEED + 2**32)):
        assert np.any(run(gibbs, phase, side, factors, other)[0] != once)
    assert np.any(run(gibbs, phase, side, factors, batch._replace(sweep=2))[0] != once)
    assert np.any(run(gibbs, phase, side, factors, batch._replace(gibbs_steps=3))[0] != once)


@pytest.mark.skipif(CORES < 2, reason="this machine has one core")
@pytest.mark.parametrize("phase", PHASES)
def test_result_does_not_depend_on_the_number_of_threads(phase, monkeypatch):
    monkeypatch.setattr(blocks, "_WORTH_A_THREAD", 1e-12)
    side, factors = random_side(4, **WITH_ALL)
    batch = Batch(11, 290, SEED, sweep=1, gibbs_steps=3)
    results = []
    for n in (1, 2, CORES):
        with threads(n):
            results.append(run(gibbs, phase, side, factors, batch))
    for other_factors, other_statistics in results[1:]:
        assert np.array_equal(results[0][0], other_factors)
        assert_identical(results[0][1], other_statistics)


@pytest.mark.parametrize("phase", PHASES)
def test_result_does_not_depend_on_how_rows_are_cut_into_batches(phase):
    side, factors = random_side(5, **WITH_ALL)
    whole, statistics = run(gibbs, phase, side, factors, Batch(0, 300, SEED, 1, 3))
    cut, total = factors.copy(), empty_statistics(in_double(side))
    edges = [0, 1, 38, 38, 200, 300]
    for start, stop in reversed(list(itertools.pairwise(edges))):
        cut, part = run(gibbs, phase, side, cut, Batch(start, stop, SEED, 1, 3))
        for sum_, summand in zip(total, part, strict=True):
            sum_ += summand
    assert np.array_equal(whole, cut)
    assert_close(statistics, total, relative=1e-5)


@pytest.mark.parametrize("phase", PHASES)
def test_offset_equals_the_same_number_in_the_bias(phase):
    side, factors = random_side(6)
    side = side._replace(bias=np.round(side.bias * 64) / 64)  # so that adding 0.5 is exact
    moved = side._replace(bias=side.bias + np.float32(0.5))
    offset = side._replace(offset=np.full(side.column.size, 0.5, dtype=np.float32))
    batch = Batch(0, 300, SEED, 1, 2)
    for engine in (gibbs, plain_gibbs):
        ours, statistics = run(engine, phase, offset, factors, batch)
        theirs, expected = run(engine, phase, moved, factors, batch)
        assert np.array_equal(ours, theirs)
        assert_close(statistics, expected, relative=1e-6)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("engine", [gibbs, plain_gibbs])
def test_a_weight_of_three_counts_a_row_three_times(engine, phase):
    side, factors = random_side(7, n_rows=60)
    weight = np.random.default_rng(0).integers(0, 4, 60)
    weighted = side._replace(row_weight=weight.astype(np.float32))
    obs = Observations(side.row_start, side.column, side.level, np.resize([2, 3, 5, 7], 23))
    repeated = side_of(
        obs.take_rows(np.repeat(np.arange(60), weight)),
        weights=side.weights,
        bias=side.bias,
        thresholds=side.thresholds,
        factor_bias=side.factor_bias,
    )
    _, ours = run(engine, phase, weighted, factors, Batch(0, 60, 0, 0, 0))
    repeats = np.repeat(factors, weight, axis=0)
    _, expected = run(engine, phase, repeated, repeats, Batch(0, weight.sum(), 0, 0, 0))
    assert_close(ours, expected, relative=1e-5)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("engine", [gibbs, plain_gibbs])
def test_nothing_to_do(engine, phase):
    side, factors = random_side(8)
    after, statistics = run(engine, phase, side, factors, Batch(5, 5, SEED, 0, 2))
    assert np.array_equal(after, factors)
    assert all(not part.any() for part in statistics)
    # Row 14 has no answer: its factors follow their bias alone, and nothing else is counted.
    after, statistics = run(engine, phase, side, factors, Batch(14, 15, SEED, 0, 2))
    assert np.array_equal(statistics.factor_bias, after[14])
    assert not statistics.weights.any() and not statistics.answers.any()


def test_clamped_statistics_by_a_plain_loop():
    """Both engines against the formulas of the model, written out for one answer at a time."""
    side, factors = random_side(9, n_rows=20, **WITH_ALL)
    double = in_double(side)
    truth = empty_statistics(double)
    for d in range(20):
        weight, h = double.row_weight[d], factors[d].astype(float)
        truth.factor_bias[:] += weight * h
        for e in range(side.row_start[d], side.row_start[d + 1]):
            i, level = side.column[e], int(side.level[e])
            mean = double.bias[i] + double.weights[i] @ h + double.offset[e]
            stretch = double.stretch[d]
            low, high = stretch * double.thresholds[i, level : level + 2] - mean
            at_low, at_high = normal_reference.edge_densities(low, high)
            utility = mean + at_low - at_high
            truth.weights[i] += weight * utility * h
            truth.bias[i] += weight * utility
            truth.thresholds[i, level] -= weight * stretch * at_low
            truth.thresholds[i, level + 1] += weight * stretch * at_high
            truth.answers[i] += weight
    batch = Batch(0, 20, 0, 0, 0)
    assert_close(run(gibbs, "clamped_phase", side, factors, batch)[1], truth, relative=1e-5)
    assert_close(run(plain_gibbs, "clamped_phase", double, factors, batch)[1], truth, relative=1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
def test_mean_field_equals_reference(variant):
    side, factors = random_side(10, **VARIANTS[variant])
    ours, theirs = np.full(factors.shape, 0.5, np.float32), np.full(factors.shape, 0.5)
    tolerance = 1e-6 * max(1.0, side.units / 5)  # float32 counts of many units are coarser
    change = fixed_point(side, ours, tolerance, 500)
    plain_gibbs.mean_field(in_double(side), theirs, tolerance, 500)
    assert np.all(change <= tolerance)
    assert np.abs(ours - theirs).max() < 10 * tolerance
    empty = np.diff(side.row_start) == 0
    assert np.abs(ours[empty] - side.units * expit(side.factor_bias)).max() < tolerance


def test_mean_field_iterations_equal_reference():
    """Also before the fixed point is reached, and from any start."""
    side, factors = random_side(11, **WITH_ALL)
    start = np.random.default_rng(1).random(factors.shape)
    for iterations in (0, 1, 3):
        ours, theirs = start.astype(np.float32), start.copy()
        change = fixed_point(side, ours, 0.0, iterations)
        expected = plain_gibbs.mean_field(in_double(side), theirs, 0.0, iterations)
        assert np.abs(ours - theirs).max() < 1e-5
        assert np.allclose(change, expected, rtol=0, atol=1e-5)

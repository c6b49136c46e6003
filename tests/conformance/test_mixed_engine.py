"""Numbers, categories and covariates: the CPU engine against the plain NumPy reference."""

import numpy as np
import plain_gibbs
import pytest
from random_sides import in_double, random_mixed_side
from test_gibbs_engine import PHASES, SEED, assert_close, assert_identical, assert_same_chains, given, run

from ordinalrbm.engine import annealing, gibbs
from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.engine.side import Batch
from ordinalrbm.runtime import blocks
from ordinalrbm.runtime.threads import CORES, threads

VARIANTS = {
    "absent": {},
    "latent": {"latent": True},
    "many units": {"units": 100, "scale": 0.03, "latent": True},
    "one factor": {"n_factors": 1},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("phase", PHASES)
def test_cpu_equals_reference(phase, variant):
    side, factors = random_mixed_side(1, **VARIANTS[variant])
    for gibbs_steps, (start, stop) in [(0, (0, 300)), (1, (0, 300)), (5, (37, 211))]:
        batch = Batch(start, stop, SEED, sweep=12, gibbs_steps=gibbs_steps)
        ours, statistics = run(gibbs, phase, side, factors, batch)
        theirs, _ = run(plain_gibbs, phase, in_double(side), factors, batch)
        assert_same_chains(ours, theirs, gibbs_steps)
        assert_close(statistics, given(phase, side, ours, batch))
        assert statistics.slopes.shape == (14, 3)
        assert np.abs(statistics.slopes).min() > 0.0


@pytest.mark.parametrize("variant", VARIANTS)
def test_mean_field_equals_reference(variant):
    side, factors = random_mixed_side(10, **VARIANTS[variant])
    ours, theirs = np.full(factors.shape, 0.5, np.float32), np.full(factors.shape, 0.5)
    tolerance = 1e-6 * max(1.0, side.units / 5)
    change = fixed_point(side, ours, tolerance, 500)
    plain_gibbs.mean_field(in_double(side), theirs, tolerance, 500)
    assert np.all(change <= tolerance)
    assert np.abs(ours - theirs).max() < 10 * tolerance


@pytest.mark.parametrize("latent", [False, True])
def test_log_probabilities_equal_reference(latent):
    side, factors = random_mixed_side(12, latent=latent)
    stretches = np.array([0.2, 1.0, 2.5])
    ours = annealing.log_levels(side, factors, 30, 200, stretches)
    theirs = plain_gibbs.log_levels(in_double(side), factors, 30, 200, stretches)
    assert np.abs(ours - theirs).max() < 1e-4


def test_styles_of_using_scales_do_not_touch_numbers_and_categories():
    side, factors = random_mixed_side(3)
    other = side._replace(stretch=np.float32(3.0) * side.stretch)
    batch = Batch(0, 300, SEED, 1, 0)
    first, second = (gibbs.clamped_phase(each, factors, batch) for each in (side, other))
    no_scale = side.members != 0
    for name in ("weights", "bias", "thresholds", "slopes"):
        ours, theirs = getattr(first, name), getattr(second, name)
        assert np.array_equal(ours[no_scale], theirs[no_scale])
        assert (ours[~no_scale] != theirs[~no_scale]).any()


@pytest.mark.skipif(CORES < 2, reason="this machine has one core")
@pytest.mark.parametrize("phase", PHASES)
def test_result_does_not_depend_on_the_number_of_threads(phase, monkeypatch):
    monkeypatch.setattr(blocks, "_WORTH_A_THREAD", 1e-12)
    side, factors = random_mixed_side(4, latent=True)
    batch = Batch(11, 290, SEED, sweep=1, gibbs_steps=3)
    results = []
    for n in (1, 2):
        with threads(n):
            results.append(run(gibbs, phase, side, factors, batch))
    assert np.array_equal(results[0][0], results[1][0])
    assert_identical(results[0][1], results[1][1])


def test_rows_of_a_side_are_those_rows():
    side, factors = random_mixed_side(5)
    part = side.rows(40, 90)
    stretches = np.ones(1)
    whole = annealing.log_levels(side, factors, 40, 90, stretches)
    assert np.array_equal(annealing.log_levels(part, factors[40:90], 0, 50, stretches), whole)
    ours, theirs = (np.full((n, 9), 0.5, np.float32) for n in (50, 300))
    fixed_point(part, ours, 1e-6, 100)
    fixed_point(side, theirs, 1e-6, 100)
    assert np.array_equal(ours, theirs[40:90])

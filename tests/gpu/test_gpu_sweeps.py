"""Binary factors on the GPU against the plain reference: the same chains, the same statistics.

Random words are the same. Sums are made in float32 in another order than the reference's, so that
statistics agree to some 1e-5 of their size, and a chain parts where a uniform number ties with its
probability within that: none does in these. Other numbers of factors are in tests/conformance.
"""

import numpy as np
import pytest
import torch
from random_sides import random_side

from ordinalrbm.engine import annealing, reference
from ordinalrbm.engine.gpu import gibbs as sweep
from ordinalrbm.engine.side import Batch, Statistics

PHASES = ("clamped_phase", "free_phase")
VARIANTS = {
    "all": {"offset": True, "row_weight": True, "stretch": True},
    "own gaps": {"row_gaps": True, "offset": True, "row_weight": True},
    "five units": {"units": 5, "scale": 0.15},
    "unknown answers": {"unknown": True, "scale": 3.0},
}
SEED = 0xFEDC_BA98_7654_3210  # more than 63 bits


def small(n_factors=5, **options):
    return random_side(1, n_rows=16, n_columns=7, n_factors=n_factors, **options)


def assert_same(device, phase, side, factors, batch, relative=2e-5):
    truth = factors.copy()
    expected = getattr(reference, phase)(side, truth, batch)
    there = sweep.factors_on(factors, device)
    found = getattr(sweep, phase)(sweep.side_on(side, device), there, batch)
    there = there.cpu().numpy()
    np.testing.assert_array_equal(there[:, : factors.shape[1]], truth)
    assert not there[:, factors.shape[1] :].any()
    for name, one, other in zip(Statistics._fields, found, expected, strict=True):
        assert one.shape == other.shape, name
        size = np.abs(other).max(initial=1.0)
        np.testing.assert_allclose(one.cpu().numpy(), other, atol=relative * size, err_msg=name)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("phase", PHASES)
def test_phases(device, phase, variant):
    side, factors = small(**VARIANTS[variant])
    assert_same(device, phase, side, factors, Batch(0, 16, SEED, 3, 2))


@pytest.mark.parametrize("phase", PHASES)
def test_a_batch_of_some_rows(device, phase):
    side, factors = small(offset=True)
    assert_same(device, phase, side, factors, Batch(3, 11, SEED, 1, 1))
    assert_same(device, phase, side, factors, Batch(0, 1, SEED, 1, 1))  # a row without answers


def test_the_running_mean_of_the_factors(device):
    side, factors = small(offset=True)
    kept = np.random.default_rng(0).random(factors.shape).astype(np.float32)
    there = torch.from_numpy(kept.copy()).to(device)
    truth = kept.astype(np.float64)
    batch = Batch(2, 14, SEED, 1, 2)
    reference.clamped_phase(side, factors.copy(), batch, truth, 0.7)
    sweep.clamped_phase(
        sweep.side_on(side, device), sweep.factors_on(factors, device), batch, there, 0.7
    )
    np.testing.assert_allclose(there.cpu().numpy(), truth, atol=1e-5)


@pytest.mark.parametrize("variant", ["all", "five units"])
def test_mean_field(device, variant):
    side, factors = small(**VARIANTS[variant])
    truth = np.full(factors.shape, 0.5)
    reference.mean_field(side, truth, 1e-6, 60)
    there = torch.full(factors.shape, 0.5, device=device)
    change = sweep.mean_field(sweep.side_on(side, device), there, 1e-6, 60)
    np.testing.assert_allclose(there.cpu().numpy(), truth, atol=2e-5)
    assert change.max() <= 1e-6


def test_log_probabilities_of_levels(device):
    side, factors = small(offset=True)
    stretches = np.array([0.6, 1.0, 1.7])
    truth = annealing.log_levels(side, factors, 2, 15, stretches)
    found = sweep.log_levels(
        sweep.side_on(side, device), sweep.factors_on(factors, device), 2, 15,
        torch.from_numpy(stretches).to(device),
    )  # fmt: skip
    np.testing.assert_allclose(found.cpu().numpy(), truth, rtol=1e-5, atol=1e-5)

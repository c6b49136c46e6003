"""Binary factors on the GPU against the plain reference: the same chains, the same statistics.

Random words are the same. Sums are made in float32 in another order than the reference's, so that
statistics agree to some 1e-5 of their size, and a chain parts where a uniform number ties with its
probability within that: none does in these. Other numbers of factors are in tests/conformance.
"""

import numpy as np
import plain_gibbs
import torch
from random_sides import random_side

from ordinalrbm.engine.gpu import gibbs as sweep
from ordinalrbm.engine.side import Batch, Statistics

PHASES = (plain_gibbs.clamped_phase, plain_gibbs.free_phase)
SEED = 0xFEDC_BA98_7654_3210  # more than 63 bits


def small(n_factors=5, n_rows=16):
    return random_side(1, n_rows=n_rows, n_columns=7, n_factors=n_factors, offset=True, row_gaps=True)


def both_phases(device, side, factors, batch, is_contrastive=False):
    """Chains, running means of the factors, and statistics of both phases."""
    chains = [sweep.factors_on(factors, device).clone() for _ in range(2)]
    mean = torch.full(chains[0].shape, 0.3, device=device)
    there = sweep.side_on(side, device)
    found = sweep.both_phases(there, *chains, batch, mean, 0.7, is_contrastive)
    return [part.cpu().numpy() for part in chains], mean.cpu().numpy(), found


def assert_same(device, side, factors, batch, relative=2e-5):
    chains, _, both = both_phases(device, side, factors, batch)
    for there, found, phase in zip(chains, both, PHASES, strict=True):
        truth = factors.copy()
        expected = phase(side, truth, batch)
        np.testing.assert_array_equal(there[:, : factors.shape[1]], truth)
        assert not there[:, factors.shape[1] :].any()
        for name, one, other in zip(Statistics._fields, found, expected, strict=True):
            assert one.shape == other.shape, name
            size = np.abs(other).max(initial=1.0)
            np.testing.assert_allclose(one.cpu().numpy(), other, atol=relative * size, err_msg=name)


def test_phases(device):
    side, factors = small()
    assert_same(device, side, factors, Batch(0, 16, SEED, 3, 2))


def test_a_batch_of_some_rows(device):
    side, factors = small()
    assert_same(device, side, factors, Batch(3, 11, SEED, 1, 1))
    assert_same(device, side, factors, Batch(0, 1, SEED, 1, 1))  # a row without answers


def test_free_chains_that_begin_at_the_clamped_ones(device):
    side, factors = small()
    batch = Batch(2, 14, SEED, 1, 2)
    (clamped, free), _, _ = both_phases(device, side, factors, batch, is_contrastive=True)
    truth = factors.copy()
    truth[2:14] = clamped[2:14, : factors.shape[1]]
    plain_gibbs.free_phase(side, truth, batch)
    np.testing.assert_array_equal(free[:, : factors.shape[1]], truth)


def test_the_running_mean_of_the_factors(device):
    side, factors = small()
    batch = Batch(2, 14, SEED, 1, 2)
    truth = np.full(factors.shape, 0.3)
    plain_gibbs.clamped_phase(side, factors.copy(), batch, truth, 0.7)
    _, mean, _ = both_phases(device, side, factors, batch)
    np.testing.assert_allclose(mean[:, : factors.shape[1]], truth, atol=1e-5)


def test_mean_field(device):
    side, factors = small(n_rows=6)
    truth = np.full(factors.shape, 0.5)
    plain_gibbs.mean_field(side, truth, 1e-6, 60)
    there = torch.full(factors.shape, 0.5, device=device)
    change = sweep.mean_field(sweep.side_on(side, device), there, 1e-6, 60)
    np.testing.assert_allclose(there.cpu().numpy(), truth, atol=2e-5)
    assert change.max() <= 1e-6

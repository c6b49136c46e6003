"""Diagnostics of chains, beside ArviZ and beside chains of which all is known."""

import numpy as np
import pytest

from ordinalrbm.stats.mcmc_diagnostics import effective_size, r_hat


def autoregressive(share, n=20_000, seed=0):
    """A chain whose effective size is n (1 − share) / (1 + share)."""
    noise = np.random.default_rng(seed).normal(size=n)
    found = np.empty(n)
    last = 0.0
    for k in range(n):
        last = share * last + noise[k]
        found[k] = last
    return found


@pytest.mark.parametrize("share", [-0.5, 0.0, 0.5, 0.9])
def test_effective_size_of_a_known_chain(share):
    draws = autoregressive(share)
    expected = len(draws) * (1 - share) / (1 + share)
    assert abs(effective_size(draws) / expected - 1) < 0.15


def test_r_hat_of_halves_that_differ():
    rng = np.random.default_rng(1)
    shift = np.repeat([0.0, 2.0], 500)
    # Halves of variance one around 0 and 2: between 2, within 1.
    assert abs(r_hat(rng.normal(size=1000) + shift) - np.sqrt(1 + 2.0)) < 0.1


@pytest.mark.parametrize("share", [0.0, 0.8])
def test_the_same_as_arviz(share):
    arviz = pytest.importorskip("arviz")
    draws = autoregressive(share, 1000, 2)
    halves = draws.reshape(2, -1)
    assert r_hat(draws) == pytest.approx(float(arviz.rhat(halves, method="identity")), rel=1e-3)
    of_arviz = float(arviz.ess(draws[None], method="mean"))
    assert effective_size(draws) == pytest.approx(of_arviz, rel=0.25)


def test_what_does_not_vary():
    assert np.isnan(r_hat(np.ones(10)))
    assert effective_size(np.ones(10)) == 10.0

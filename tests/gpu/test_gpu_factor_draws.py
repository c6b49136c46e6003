"""The sampler's draws on the GPU against those of the cores, which have the same random words.

The cores compute ordinary intervals in float32, right to some 5e-6, and sum in another order.
"""

from typing import NamedTuple

import numpy as np
import pytest
import torch

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.gpu import ordinal_gibbs
from ordinalrbm.engine.gpu.ordinal_gibbs import GPU_GIBBS
from ordinalrbm.engine.gpu.pieces import SIZE, answers_on
from ordinalrbm.engine.ordinal_gibbs import CPU_GIBBS, DrawnSide, Sweep

# Of five and of three levels.
THRESHOLDS = np.array(
    [[-np.inf, -1.6, -0.5, 0.4, 1.9, np.inf], [-np.inf, -0.7, 0.9, np.inf, np.inf, np.inf]], dtype=np.float32
)
SWEEP = Sweep(2**40 + 7, 3, 1)


class Case(NamedTuple):
    answers: Observations
    this: DrawnSide
    other: DrawnSide
    thresholds: np.ndarray = THRESHOLDS


def side(rng, n, n_factors, scale, spread=0.6):
    return DrawnSide(
        (spread * rng.normal(size=(n, 1 + n_factors))).astype(np.float32),
        np.exp(0.3 * rng.normal(size=n)).astype(np.float32),
        scale.astype(np.int32),
    )


def answered(rng, share, n_levels):
    """Levels at random, -1 where there is none, and a row and a column without any."""
    n_rows = len(share)
    level = rng.integers(0, n_levels, (n_rows, n_levels.size))
    level[rng.random(level.shape) >= share[:, None]] = -1
    level[1], level[:, 2] = -1, -1
    return Observations.from_dense(level, n_levels)


def small(n_factors, spread=0.6, n_columns=40):
    """Short rows, on two scales."""
    rng = np.random.default_rng(0)
    n_levels = rng.choice([3, 5], n_columns)
    answers = answered(rng, rng.random(7), n_levels)
    rows = side(rng, 7, n_factors, np.zeros(7), spread)
    return Case(answers, rows, side(rng, n_columns, n_factors, n_levels == 3, spread))


def transposed(n_factors):
    case = small(n_factors, n_columns=9)
    return Case(case.answers.transpose(), case.other, case.this)


def long_row(n_factors):
    """A row of four pieces, the last one nearly empty."""
    rng = np.random.default_rng(1)
    n_columns = 3 * SIZE + 4
    answers = answered(rng, np.array([1.0, 0.0, 0.3]), np.full(n_columns, 5))
    zeros = np.zeros(n_columns)
    return Case(answers, side(rng, 3, n_factors, zeros[:3]), side(rng, n_columns, n_factors, zeros))


CASES = {
    "bias alone": lambda: small(0),
    "one factor": lambda: small(1),
    "odd width": lambda: small(6),
    "columns": lambda: transposed(3),
    "a whole block": lambda: small(32),
    "two blocks": lambda: small(37),
    "three blocks": lambda: small(70),
    "several pieces": lambda: long_row(20),
    "far out": lambda: small(3, spread=6.0),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]()


def on_device(case, device):
    answers = answers_on(case.answers, device)
    this, other = (
        DrawnSide(*(torch.from_numpy(part).to(device, copy=True) for part in given))
        for given in (case.this, case.other)
    )
    return Case(answers, this, other, torch.from_numpy(case.thresholds).to(device))


def prior_of(case):
    """Means and a full precision matrix."""
    rng = np.random.default_rng(2)
    n, width = case.this.factors.shape
    part = 0.3 * rng.normal(size=(width, width))
    return (
        rng.normal(size=(n, width)).astype(np.float32),
        (part @ part.T / width + 2.0 * np.eye(width)).astype(np.float32),
    )


def drawn(case, device):
    there = on_device(case, device)
    mean, precision = (torch.from_numpy(part).to(device) for part in prior_of(case))
    GPU_GIBBS.draw_rows(*there, mean, precision, SWEEP)
    return there.this.factors.cpu().numpy()


def test_biases_and_factors(case, device):
    found = drawn(case, device)
    CPU_GIBBS.draw_rows(*case, *prior_of(case), SWEEP)
    np.testing.assert_allclose(found, case.this.factors, atol=2e-5)


def test_the_same_bits_again_and_in_blocks_of_rows(device, monkeypatch):
    case = long_row(20)
    found = drawn(case, device)
    np.testing.assert_array_equal(drawn(case, device), found)
    monkeypatch.setattr(ordinal_gibbs, "_BLOCK_BYTES", 1)
    np.testing.assert_array_equal(drawn(case, device), found)


def test_systems_of_many_pieces(device, monkeypatch):
    """They are summed before, and not by the one who solves them."""
    monkeypatch.setattr(ordinal_gibbs, "_MANY_PIECES", 1)
    case = long_row(20)
    found = drawn(case, device)
    CPU_GIBBS.draw_rows(*case, *prior_of(case), SWEEP)
    np.testing.assert_allclose(found, case.this.factors, atol=2e-5)


def test_a_table_without_answers(device):
    rng = np.random.default_rng(0)
    answers = Observations.from_dense(np.full((3, 2), -1), 5)
    case = Case(answers, *(side(rng, n, 2, np.zeros(n)) for n in (3, 2)))
    found = drawn(case, device)
    CPU_GIBBS.draw_rows(*case, *prior_of(case), SWEEP)
    np.testing.assert_allclose(found, case.this.factors, atol=1e-6)
    there = on_device(case, device)
    assert not GPU_GIBBS.threshold_sums(*there).log_likelihood.any()
    assert GPU_GIBBS.move_widths(*there, 5.0, SWEEP).all()


def test_widths(case, device):
    there = on_device(case, device)
    found = GPU_GIBBS.move_widths(*there, 5.0, SWEEP).cpu().numpy()
    taken = CPU_GIBBS.move_widths(*case, 5.0, SWEEP)
    np.testing.assert_array_equal(found, taken)
    np.testing.assert_allclose(there.this.width.cpu().numpy(), case.this.width, rtol=2e-5)


def test_sums_for_thresholds(case, device):
    found = GPU_GIBBS.threshold_sums(*on_device(case, device))
    truth = CPU_GIBBS.threshold_sums(*case)
    for one, other in zip(found, truth, strict=True):
        assert one.dtype == np.float64
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=2e-5)


def test_widths_and_sums_in_blocks_of_rows(device, monkeypatch):
    case, found = small(2), []
    for block_bytes in (2**29, 1):
        monkeypatch.setattr(ordinal_gibbs, "_BLOCK_BYTES", block_bytes)
        there = on_device(case, device)
        taken = GPU_GIBBS.move_widths(*there, 5.0, SWEEP).cpu().numpy()
        found.append((taken, there.this.width.cpu().numpy(), *GPU_GIBBS.threshold_sums(*there)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)

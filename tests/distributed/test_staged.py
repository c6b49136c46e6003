"""The half-sweep in stages against the one that works row by row.

Both sum in float32, in different orders: numbers of size one agree to some 1e-6.
"""

import numpy as np
import pytest
from test_half_sweep import setting

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import base
from ordinalrbm.engine.base import FactorPosterior
from ordinalrbm.engine.half_sweep import CPU_ENGINE


def assert_close(found, truth):
    for name, one, other in zip(FactorPosterior._fields, found, truth, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, err_msg=name)
        assert one.dtype == other.dtype


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"n_factors": 3, "gaps_move": True},
        {"n_factors": 2, "gaps_move": True, "swapped": True},
        {"n_factors": 1},
        {"n_factors": 50, "n_rows": 4, "n_columns": 300, "gaps_move": True},  # several tiles
    ],
)
def test_a_half_sweep(options, spread):
    case = setting(seed=3, **options)
    truth, truth_variance = case.renewed(2, spread)
    this = FactorPosterior(*map(np.copy, case.this))
    for _ in range(2):
        variance = CPU_ENGINE.staged_half_sweep(case.answers, this, case.other, case.prior, spread)
    assert_close(this, truth)
    np.testing.assert_allclose(variance, truth_variance, atol=1e-6)


@pytest.mark.parametrize("kept", [0, 2])
def test_an_infinite_precision_keeps_a_coordinate(kept):
    case = setting(2, seed=3)
    case.prior.precision[kept] = np.inf
    truth, _ = case.renewed()
    this = FactorPosterior(*map(np.copy, case.this))
    CPU_ENGINE.staged_half_sweep(case.answers, this, case.other, case.prior)
    assert_close(this, truth)
    np.testing.assert_array_equal(this.mean[:, kept], case.this.mean[:, kept])


def test_systems_of_gaps_in_blocks(monkeypatch):
    case = setting(2, seed=4, gaps_move=True)
    truth, truth_variance = case.renewed()
    monkeypatch.setattr(base, "_BLOCK_BYTES", 4 * 8 * case.this.cutpoints.shape[1] ** 2)
    this = FactorPosterior(*map(np.copy, case.this))
    variance = CPU_ENGINE.staged_half_sweep(case.answers, this, case.other, case.prior)
    assert_close(this, truth)
    np.testing.assert_allclose(variance, truth_variance, atol=1e-6)


def test_sums_of_parts_of_the_answers_are_those_of_all():
    """What lets columns be updated where none has seen all of their answers."""
    case = setting(3, seed=5, gaps_move=True)
    dense, rows = case.dense, slice(0, len(case.dense))
    direction = case.this.mean + np.float32(0.5)

    def sums(shown):
        answers = Observations.from_dense(np.where(shown, dense, -1), case.answers.n_levels)
        gathered, ridge = CPU_ENGINE.gather(answers, case.this, case.other)
        image = CPU_ENGINE.apply(answers, case.other, ridge, direction)
        return [gathered, ridge, image, CPU_ENGINE.gap_sums(answers, case.this, case.other, rows)]

    first = np.arange(dense.shape[1]) % 3 == 0
    for one, other, both in zip(sums(first), sums(~first), sums(first | True), strict=True):
        assert np.abs(one).max() > 0
        np.testing.assert_allclose(one + other, both, atol=2e-5)

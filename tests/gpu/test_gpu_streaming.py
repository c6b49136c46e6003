"""Ratings that are streamed to the GPU: the same bits as with ratings that are on it."""

import numpy as np
import pytest
import torch

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import memory
from ordinalrbm.engine.gpu import half_sweep, streamed
from ordinalrbm.matrix import gaussian
from ordinalrbm.matrix.gaussian import Precisions
from ordinalrbm.matrix.gpu.backend import Cuda

N_FACTORS = 3
# Bytes beside what stays on the device: sixteen rows fit in, twice as many do not.
LEFT = 15_000


@pytest.fixture(scope="module")
def observations():
    """Two scales, an empty row at the beginning, and a long one."""
    rng = np.random.default_rng(0)
    n_levels = np.where(np.arange(33) % 5 == 0, 3, 4)
    dense = rng.integers(0, n_levels, (36, 33))
    dense[rng.random(dense.shape) < 0.9] = -1
    dense[0], dense[20] = -1, rng.integers(0, n_levels)
    return Observations.from_dense(dense, n_levels)


def need_of(observations):
    size = memory.size_of(observations, N_FACTORS)
    return memory.on_gpu(size), size


@pytest.fixture
def in_blocks(observations, monkeypatch):
    """A GPU with so little memory that ratings come in blocks; these end within chunks."""
    monkeypatch.setattr(streamed, "_CHUNK", 30)
    monkeypatch.setattr(streamed, "_BLOCK_BYTES", 1)
    need, _ = need_of(observations)
    return Cuda("cuda", need.stays + LEFT)


def test_epochs_are_the_same_to_the_last_bit(observations, in_blocks):
    found = []
    for backend in (Cuda("cuda"), in_blocks):
        data = backend.data(observations, N_FACTORS)
        state = backend.to_device(gaussian.start(observations, N_FACTORS, 0, Precisions()))
        found.append(backend.to_host(gaussian.epoch(data, state, 1)))
    assert (data.rows.answers.n_blocks, data.columns.answers.n_blocks) == (2, 2)
    for one, other in zip(found[0][:4], found[1][:4], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_stages_are_the_same_to_the_last_bit(observations, in_blocks):
    """As several processes need them for the columns that they share."""
    state = in_blocks.to_device(gaussian.start(observations, N_FACTORS, 0, Precisions()))
    whole, parts = (
        backend.data(observations, N_FACTORS).rows for backend in (Cuda("cuda"), in_blocks)
    )
    direction, ridge = (torch.randn_like(state.rows.mean) for _ in range(2))
    rows = slice(10, 30)  # from within the first block to within the second
    asked = {
        "gather": (state.rows, state.columns),
        "apply": (state.columns, ridge, direction),
        "gap_sums": (state.rows, state.columns, rows),
    }
    for stage, given in asked.items():
        one, other = (getattr(view.engine, stage)(view.answers, *given) for view in (whole, parts))
        together = [one, other] if isinstance(one, tuple) else [(one,), (other,)]
        for a, b in zip(*together, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0, msg=stage)


def test_an_engine_has_all_functions():
    for name in (
        "moments", "broadcast", "rotate", "cutpoint_squares", "shares", "shift", "draw_towards"
    ):  # fmt: skip
        assert getattr(streamed, name) is getattr(half_sweep, name)


# ---- whether to stream --------------------------------------------------------------------------


def test_ratings_that_fit_are_not_streamed(observations):
    need, size = need_of(observations)
    views = observations, observations.transpose()
    assert streamed.planned(observations, need, size, 10**9) is None
    costs = [streamed._cost_of_rows(view.row_counts, need).sum() for view in views]
    enough = need.stays + max(costs)
    assert streamed.planned(observations, need, size, int(enough)) is None
    assert streamed.planned(observations, need, size, int(enough) - 1) is not None


def test_blocks_hold_all_rows_and_fit(observations):
    need, size = need_of(observations)
    views = observations, observations.transpose()
    budget = need.stays + LEFT
    planned = streamed.planned(observations, need, size, budget)
    for view, blocks in zip(views, planned, strict=True):
        cost = streamed._cost_of_rows(view.row_counts, need)
        assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
        assert blocks[-1].stop == view.n_rows
        for block in blocks:
            assert block.start % 16 == 0
            assert block.stop - block.start >= 16
            assert cost[block].sum() <= LEFT


def test_a_gpu_that_is_too_small_is_refused_with_numbers(observations, monkeypatch):
    monkeypatch.setattr(Cuda, "_usable", lambda self: 2_000_000)
    row = np.repeat(np.arange(observations.n_rows), np.diff(observations.row_start))
    ratings = row, observations.column.astype(int), observations.level.astype(int)
    said = (
        r"Learning \d+ factors from .* ratings \(32 users, 33 items\) takes about 4 MB of the GPU"
    )
    with pytest.raises(orbm.DataError, match=said + ".* only 2 MB can be had; take fewer factors"):
        orbm.OrdinalMF(4, random_state=0, device="cuda").fit(ratings)

"""Continuous factors on the GPU against the CPU engine, from one half-sweep to a whole fit.

Both sum in float32, in different orders: numbers of size one agree to some 1e-6. Other numbers of
factors are in tests/conformance.
"""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from test_half_sweep import setting

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine import staged
from ordinalrbm.engine.gaussian_state import FactorPosterior
from ordinalrbm.engine.gpu import half_sweep
from ordinalrbm.engine.gpu.device import torch_device
from ordinalrbm.engine.gpu.pieces import answers_on
from ordinalrbm.matrix import gaussian
from ordinalrbm.matrix.gaussian_backends import Cpu, Cuda


def assert_close(found, truth, tolerance=1e-5):
    for name, one, other in zip(FactorPosterior._fields, found, truth, strict=True):
        np.testing.assert_allclose(one.cpu().numpy(), other, atol=tolerance, err_msg=name)


@pytest.mark.parametrize(
    "options",
    [
        {"n_factors": 3, "gaps_move": True},
        {"n_factors": 2, "gaps_move": True, "swapped": True},
        {"n_factors": 100, "n_rows": 4, "n_columns": 300, "gaps_move": True},  # several pieces
    ],
)
def test_a_half_sweep(device, options):
    case = setting(seed=3, **options)
    truth, truth_variance = case.renewed(2)
    this, other = (
        half_sweep.posterior_on(posterior, device) for posterior in (case.this, case.other)
    )
    prior = case.prior._replace(cutpoints=half_sweep.tensor(case.prior.cutpoints, device))
    answers = answers_on(case.answers, device)
    for _ in range(2):
        variance = half_sweep.half_sweep(answers, this, other, prior)
    assert_close(this, truth)
    np.testing.assert_allclose(variance.cpu().numpy(), truth_variance, atol=1e-6)


def test_systems_of_widths_in_blocks(device, monkeypatch):
    case = setting(2, seed=4, gaps_move=True)
    truth, _ = case.renewed()
    monkeypatch.setattr(staged, "_BLOCK_BYTES", 4 * 8 * case.this.cutpoints.shape[1] ** 2)
    this, other = (
        half_sweep.posterior_on(posterior, device) for posterior in (case.this, case.other)
    )
    prior = case.prior._replace(cutpoints=half_sweep.tensor(case.prior.cutpoints, device))
    half_sweep.half_sweep(answers_on(case.answers, device), this, other, prior)
    assert_close(this, truth)


@pytest.mark.parametrize("kept", [0, 2])
def test_an_infinite_precision_keeps_a_coordinate(device, kept):
    case = setting(2, seed=3)
    case.prior.precision[kept] = np.inf
    truth, _ = case.renewed()
    this, other = (
        half_sweep.posterior_on(posterior, device) for posterior in (case.this, case.other)
    )
    prior = case.prior._replace(cutpoints=half_sweep.tensor(case.prior.cutpoints, device))
    half_sweep.half_sweep(answers_on(case.answers, device), this, other, prior)
    assert_close(this, truth)
    np.testing.assert_array_equal(this.mean[:, kept].cpu().numpy(), case.this.mean[:, kept])


@pytest.fixture(scope="module")
def observations():
    """Two scales, an empty row, a row with one rating."""
    rng = np.random.default_rng(0)
    n_levels = np.array([5, 5, 3, 5, 3, 5])
    dense = rng.integers(0, n_levels, (12, 6))
    dense[rng.random(dense.shape) < 0.3] = -1
    dense[3], dense[4, 1:], dense[4, 0] = -1, -1, 2
    return Observations.from_dense(dense, n_levels)


@pytest.fixture(scope="module")
def both_after_three_epochs(observations):
    machines = Cpu(), Cuda("cuda")
    found = []
    for backend in machines:
        data = backend.data(observations)
        parties = backend.to_device(gaussian.start(observations, 4, True, seed=0))
        for number in (1, 2, 3):
            parties = gaussian.epoch(data, parties, number)
        found.append(parties)
    return machines, found


def test_three_epochs(both_after_three_epochs):
    (_, gpu), (truth, there) = both_after_three_epochs
    found = gpu.to_host(there)
    for one, other in zip(found[:2], truth[:2], strict=True):
        for name, a, b in zip(FactorPosterior._fields, one, other, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5, err_msg=name)
    for one, other in zip(found[2:], truth[2:], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4)


def test_held_out_ratings_are_as_likely(both_after_three_epochs):
    """Also of strangers, who are at −1."""
    (cores, gpu), (truth, there) = both_after_three_epochs
    pairs = Cells(
        np.array([0, 3, -1, 5, -1]), np.array([0, 2, 4, -1, -1]), np.array([4, 1, 2, 3, 0])
    )
    for some in (pairs, Cells(*(part[:2] for part in pairs))):
        one, other = (m.likelihood(p, (2, 2), some) for m, p in ((gpu, there), (cores, truth)))
        assert one == pytest.approx(other, abs=1e-5)


def test_copies_are_copies(both_after_three_epochs):
    (_, gpu), (_, there) = both_after_three_epochs
    clone = gpu.clone(there)
    clone.rows.mean.zero_()
    assert there.rows.mean.abs().max() > 0


def test_a_whole_fit(device):
    """Learnt on the GPU, the model is that of the cores, and its file too but for rounding."""
    rng = np.random.default_rng(1)
    cells = rng.permutation(12 * 8)[:70]
    ratings = pd.DataFrame({"user": cells // 8, "item": cells % 8, "rating": cells % 3})
    one, other = (
        orbm.MatrixCumulativeRBM(1, 2, n_epochs=2, random_state=0, device=name).fit(ratings)
        for name in ("cpu", "cuda")
    )
    users, items = np.divmod(np.arange(96), 8)
    found, truth = (model.predict_proba(users, items) for model in (other, one))
    np.testing.assert_allclose(found, truth, atol=1e-5)
    np.testing.assert_allclose(other.history_["validation"], one.history_["validation"], atol=1e-5)


def test_a_fit_goes_on_from_a_checkpoint(tmp_path):
    cells = np.random.default_rng(2).permutation(8 * 6)[:40]
    ratings = pd.DataFrame({"user": cells // 6, "item": cells % 6, "rating": cells % 3})

    def model(n_epochs):
        return orbm.MatrixCumulativeRBM(1, 1, n_epochs=n_epochs, random_state=0, device="cuda")

    whole = model(2).fit(ratings, checkpoint=tmp_path, every=1)
    again = model(2).fit(ratings, checkpoint=tmp_path, every=1)
    np.testing.assert_array_equal(again.model_.by_rows.weights, whole.model_.by_rows.weights)


# ---- devices that are not there -----------------------------------------------------------------

ASK = """
import sys
sys.modules[{missing!r}] = None
from ordinalrbm.engine.gpu.device import torch_device
torch_device("cuda")
"""


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_without_torch_the_extra_is_named(missing):
    asked = subprocess.run(
        [sys.executable, "-c", ASK.format(missing=missing)], capture_output=True, text=True
    )
    last = asked.stderr.strip().splitlines()[-1]
    assert "DataError" in last
    assert f"{missing} is not installed" in last
    assert 'pip install "ordinalrbm[gpu]"' in last


def test_a_gpu_that_is_not_there(monkeypatch):
    import triton

    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(orbm.DataError, match=r"finds no GPU.*device=\"cpu\""):
        torch_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(orbm.DataError, match="there are 2 GPUs"):
        torch_device("cuda:2")

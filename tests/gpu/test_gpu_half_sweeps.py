"""Gaussian factors on the GPU against the CPU engine, from one half-sweep to a whole fit.

Both sum in float32, in different orders: numbers of size one agree to some 1e-6. Half-sweeps with
other numbers of factors are in tests/conformance.
"""

import cases
import numpy as np
import pandas as pd
import pytest
import torch
from long_form import LONG

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells
from ordinalrbm.engine import base
from ordinalrbm.engine.base import FactorPosterior
from ordinalrbm.engine.gpu.device import torch_device
from ordinalrbm.engine.gpu.half_sweep import GPU_ENGINE
from ordinalrbm.engine.half_sweep import CPU_ENGINE
from ordinalrbm.matrix import variational
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.gpu.backend import Cuda
from ordinalrbm.matrix.variational import Precisions, swapped
from ordinalrbm.training.checkpoint import CheckpointWriter


def assert_close(found, truth, tolerance=1e-5):
    for name, one, other in zip(FactorPosterior._fields, found, truth, strict=True):
        np.testing.assert_allclose(one.cpu().numpy(), other, atol=tolerance, err_msg=name)


def both_after(observations, state, times=1, **options):
    """Rows as the cores update them, rows as the GPU does, and the variances of both."""
    gpu = Cuda("cuda")
    rows, there = CPU.clone(state.rows), gpu.to_device(state)
    answers = gpu.answers(observations)
    for _ in range(times):
        variance = CPU_ENGINE.half_sweep(observations, rows, state.columns, state.row_prior, **options)
        found = GPU_ENGINE.half_sweep(answers, there.rows, there.columns, there.row_prior, **options)
    return rows, there.rows, variance, found.cpu().numpy()


CASES = {
    "rows": (cases.ragged, 3, {}),
    "columns": (lambda: cases.ragged().transpose(), 2, {}),
    "points": (cases.ragged, 2, {"spread": False}),
    "several pieces": (cases.one_long_row, 20, {}),
    "long scale": (cases.long_scale, 2, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_half_sweep(case):
    ratings, n_factors, options = CASES[case]
    observations = ratings()
    state = cases.state(cases.ragged() if case == "columns" else observations, n_factors)
    state = swapped(state) if case == "columns" else state
    with cases.few_moving(ratings):
        truth, found, variance, found_variance = both_after(observations, state, 2, **options)
    assert_close(found, truth)
    np.testing.assert_allclose(found_variance, variance, atol=1e-6)


def test_systems_of_gaps_in_blocks(monkeypatch):
    observations = cases.ragged()
    state = cases.state(observations, 2)
    monkeypatch.setattr(base, "_BLOCK_BYTES", 4 * 8 * state.rows.cutpoints.shape[1] ** 2)
    truth, found, _, _ = both_after(observations, state)
    assert_close(found, truth)


@pytest.mark.parametrize("kept", [0, 2])
def test_an_infinite_precision_keeps_a_coordinate(kept):
    observations = cases.ragged()
    state = cases.state(observations, 2)
    state.row_prior.precision[kept] = np.inf
    truth, found, _, _ = both_after(observations, state)
    assert_close(found, truth)
    np.testing.assert_array_equal(found.mean[:, kept].cpu().numpy(), state.rows.mean[:, kept])


@pytest.fixture(scope="module")
def both_after_three_epochs():
    """Three scales, an empty row, a row with one rating, an empty column."""
    backends, observations, found = (CPU, Cuda("cuda")), cases.ragged(), []
    for backend in backends:
        data = backend.data(observations, 4)
        state = backend.to_device(variational.start(observations, 4, 0, Precisions(gaps=8.0)))
        for number in (1, 2, 3):
            state = variational.epoch(data, state, number)
        found.append(state)
    return backends, found


def test_three_epochs(both_after_three_epochs):
    (_, gpu), (truth, there) = both_after_three_epochs
    found = gpu.to_host(there)
    for one, other in zip(found[:2], truth[:2], strict=True):
        for name, a, b in zip(FactorPosterior._fields, one, other, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5, err_msg=name)
    for one, other in zip(found[2:4], truth[2:4], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4)


def test_held_out_ratings_are_as_likely(both_after_three_epochs):
    """Also of unknown rows and columns, which are at −1."""
    both = zip(*both_after_three_epochs, strict=True)
    pairs = Cells(np.array([0, 3, -1, 5, -1]), np.array([0, 2, 4, -1, -1]), np.array([4, 1, 2, 3, 0]))
    models = [(backend, GaussianModel.of_state(state)) for backend, state in both]
    for some in (pairs, Cells(*(part[:2] for part in pairs))):
        truth, found = (backend.log_probability(model, some) for backend, model in models)
        np.testing.assert_allclose(found, truth, atol=1e-5)


# ---- whole fits ---------------------------------------------------------------------------------


# Four more epochs, which take an interpreter longer than all that is tested there.
AT_THE_END = "held-out" if LONG else "none"
POINTS = {"posterior": "point", "demand_factors": 0}


def some_ratings():
    cells = np.random.default_rng(1).permutation(7 * 5)[:30]
    return pd.DataFrame({"user": cells // 5, "item": cells % 5, "rating": cells % 3})


@pytest.mark.parametrize("options", [{"refit": AT_THE_END}, POINTS])
def test_a_whole_fit(options):
    """Learnt on the GPU, the model is that of the cores but for rounding."""
    one, other = (
        orbm.OrdinalMF(3, n_epochs=2, random_state=0, device=name, **options).fit(some_ratings())
        for name in ("cpu", "cuda")
    )
    users, items = np.divmod(np.arange(35), 5)
    found, truth = (model.predict_proba(users, items) for model in (other, one))
    np.testing.assert_allclose(found, truth, atol=1e-5)
    np.testing.assert_allclose(other.history_["validation"], one.history_["validation"], atol=1e-5)


def test_a_fit_goes_on_from_a_checkpoint(tmp_path, monkeypatch):
    """Stopped after the first of two epochs, it ends with the same bits; and so once it is over."""

    def model():
        own = {"demand_factors": 0, "refit": AT_THE_END}
        return orbm.OrdinalMF(2, n_epochs=2, random_state=0, device="cuda", **own)

    whole = model().fit(some_ratings())
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointWriter, "after", stopped_after_one(CheckpointWriter.after))
        with pytest.raises(RuntimeError, match="stopped"):
            model().fit(some_ratings(), checkpoint=tmp_path, every=1)
    for _ in range(2):
        again = model().fit(some_ratings(), checkpoint=tmp_path, every=1)
        for one, other in zip(again.models_, whole.models_, strict=True):
            for a, b in zip((*one.rows, *one.columns), (*other.rows, *other.columns), strict=True):
                np.testing.assert_array_equal(a, b)


def stopped_after_one(after):
    def stopped(writer, learner, state=None):
        after(writer, learner, state)
        raise RuntimeError("stopped")

    return stopped


# ---- devices that are not there -----------------------------------------------------------------


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


def test_ratings_that_do_not_fit_are_refused_with_numbers(monkeypatch):
    monkeypatch.setattr(Cuda, "_usable", lambda self: 10_000)
    users, items = np.divmod(np.arange(32 * 33), 33)
    said = r"from [\d,]+ answers \(32 rows, 33 columns\).* only 0 MB are free; take fewer factors"
    with pytest.raises(orbm.DataError, match=said):
        orbm.OrdinalMF(4, random_state=0, device="cuda").fit((users, items, items % 4))

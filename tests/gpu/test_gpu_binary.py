"""Binary factors learnt on the GPU against the cores: the same chains, so the same model.

Random words are the same, and so chains part only where a uniform number ties with its probability
within rounding; none does in these, or whole rows of chains would differ. Parameters are float32,
summed in another order: an update is off by some 1e-6 of its size (see test_gpu_sweeps), and after
a dozen of them numbers agree to 3e-5 of their size with a wide margin (3e-6 was seen).
"""

import warnings
from contextlib import contextmanager

import cases
import numpy as np
import pandas as pd
import pytest
import torch
from small_matrices import random_model
from torch.utils._python_dispatch import TorchDispatchMode

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.gpu.ascent import threshold_table
from ordinalrbm.matrix import binary_learner
from ordinalrbm.matrix import predict as pairs
from ordinalrbm.matrix.binary_learner import BinarySettings
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.gpu import predict
from ordinalrbm.matrix.gpu.backend import Cuda
from ordinalrbm.matrix.model import start
from ordinalrbm.training.schedule import DivergenceError, refuse_divergence

TOLERANCE = 3e-5
# A position of −1 is unknown.
CELLS = Cells(np.array([0, 3, -1, 5, -1]), np.array([0, 2, 3, -1, -1]), np.array([4, 1, 2, 3, 0]))


def settings(device, n_column_factors=2, **others):
    given = {
        "n_row_factors": 3,
        "n_epochs": 2,
        "batch_size": 4,
        "learning_rate": 0.15,
        "gibbs_steps": 1,
        "free_phase": "contrastive",
        "memory": 0.5,
        "weight_decay": None,
        "patience": 5,
        "calibrate": True,
        "seed": 0,
        "verbose": False,
        "device": device,
        "n_column_factors": n_column_factors,
    }
    return BinarySettings(**{**given, **others})


@pytest.fixture(scope="module")
def observations():
    """Two scales, an empty row, a row with one rating, a column that nobody has rated."""
    rng = np.random.default_rng(0)
    n_levels = np.array([5, 3, 5, 3, 4])
    dense = rng.integers(0, n_levels, (7, 5))
    dense[3], dense[4, 1:], dense[4, 0], dense[:, 4] = -1, -1, 2, -1
    dense[0, 1], dense[5, 2] = -1, -1
    return Observations.from_dense(dense, n_levels)


def learner(observations, given, validation=CELLS):
    model = start(observations, given.n_row_factors, given.n_column_factors, given.seed)
    return binary_learner._Learner(model, observations, validation, given)


VARIANTS = {
    "contrastive": {},
    "persistent": {"free_phase": "persistent", "gibbs_steps": 2, "weight_decay": 3.0, "n_epochs": 1},
    "no factors of columns": {"n_column_factors": 0, "batch_size": 20},
    "wide tables": {"n_row_factors": 17, "n_epochs": 1},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_epochs(observations, variant):
    cores, gpu = (learner(observations, settings(device, **VARIANTS[variant])) for device in ("cpu", "cuda"))
    for _ in range(cores.settings.n_epochs):
        cores.epoch()
        gpu.epoch()
    truth, found = cores.state(), gpu.state()
    assert found.keys() == truth.keys()
    for name, values in truth.items():
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape), name
        if name == "history.seconds":
            continue
        if values.dtype == np.uint8:
            np.testing.assert_array_equal(found[name], values, err_msg=name)
        else:
            np.testing.assert_allclose(found[name], values, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


def test_a_state_goes_there_and_back(observations):
    """Cores go on where a GPU has stopped, and a GPU where it has: with the same bits."""
    own = {"batch_size": 20}  # one batch: each is dozens of kernels
    there = learner(observations, settings("cuda", **own))
    there.epoch()
    state = there.state()
    for device in ("cpu", "cuda"):
        other = learner(observations, settings(device, **own))
        other.restore(state)
        again = other.state()
        assert again.keys() == state.keys()
        for name, values in state.items():
            np.testing.assert_array_equal(again[name], values, err_msg=name)
    before = {name: np.array(values) for name, values in state.items()}
    there.epoch()
    other.epoch()
    for name, values in there.state().items():
        if name != "history.seconds":
            np.testing.assert_array_equal(other.state()[name], values, err_msg=name)
    for name, values in before.items():  # learning has not changed what was kept
        np.testing.assert_array_equal(state[name], values, err_msg=name)


class NothingWaits(TorchDispatchMode):
    """Refuses what makes the host wait for numbers of the device."""

    waiting = ("_local_scalar_dense", "nonzero", "masked_select", "item", "_unique")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        assert not name.startswith(self.waiting), name
        if name == "index":  # a mask is one of unknown size
            assert not any(part is not None and part.dtype == torch.bool for part in args[1]), name
        return function(*args, **(kwargs or {}))


@contextmanager
def watched_by_torch(device):
    """On a GPU, torch itself raises an error where the host would wait."""
    if device.type != "cuda":
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_nothing_waits_inside_a_pass(observations, device):
    there = learner(observations, settings("cuda", batch_size=20))  # one: all are done alike
    there.epoch()  # the first also brings the seed there
    with watched_by_torch(device), NothingWaits():
        for process in there.processes:
            binary_learner._pass(there.backend, process, there.binary, 1, 0.1, there.settings)
    with pytest.raises(AssertionError), NothingWaits():
        bool(there.binary.model.by_rows.bias.sum() > 0)


@pytest.mark.parametrize("spoilt", [np.nan, 1e30, -1e30])
def test_divergence_is_noticed(observations, spoilt):
    there = learner(observations, settings("cuda"))
    backend, half = there.backend, there.binary.model.by_rows
    sound = backend.extremes(half)
    refuse_divergence(sound.weights, sound, sound.cutpoints)
    half.weights[1, 2] = spoilt
    found = backend.extremes(half)
    with pytest.raises(DivergenceError):
        refuse_divergence(found.weights, found, found.cutpoints)


# ---- thresholds, and cells of models ------------------------------------------------------------


@pytest.mark.parametrize("longest", [2, 5])
def test_thresholds(device, longest):
    rng = np.random.default_rng(0)
    n_levels = rng.integers(1, longest + 1, 9).astype(np.int32)
    cutpoints = rng.normal(size=(9, longest - 1))
    there, levels_there = (torch.from_numpy(part).to(device) for part in (cutpoints, n_levels))
    np.testing.assert_allclose(
        threshold_table(there, levels_there).cpu().numpy(), thresholds.table(cutpoints, n_levels)
    )


def gaussian_model(n_levels, n_rows):
    """Three factors, nothing symmetric."""
    observations = Observations.from_dense(np.zeros((n_rows, n_levels.size), dtype=int), n_levels)
    return GaussianModel.of_state(cases.state(observations, 3))


@pytest.mark.parametrize("with_cold_start", [False, True])
def test_cells_of_models(monkeypatch, with_cold_start):
    """Two kinds of factors and unequal shares; levels that a scale has not are impossible."""
    n_levels, gains = np.array([5, 3, 5, 2], dtype=np.int32), np.array([1.1, 0.8, 1.3])
    models = [
        random_model(n_levels, 5, 2, 3)._replace(gains=gains, share=0.25),
        gaussian_model(n_levels, 5)._replace(share=0.75),
    ]
    least = -1 if with_cold_start else 0
    row, column = (part.ravel() for part in np.mgrid[least:5, least:4])
    cells = Cells(row, column, np.resize(np.arange(5), row.size))
    gpu = Cuda("cuda")
    there = [gpu.to_device(model) for model in models]
    monkeypatch.setattr(predict, "_TOGETHER", 7)
    np.testing.assert_allclose(
        predict.log_probability(there, cells), pairs.log_probability(models, cells), atol=1e-6
    )
    none = Cells(*(part[:0] for part in cells))
    assert predict.log_probability(there, none).shape == (0,)
    for back, model in zip(map(gpu.to_host, there), models, strict=True):
        for one, other in zip((*back[0], *back[1]), (*model[0], *model[1]), strict=True):
            np.testing.assert_array_equal(one, other)


# ---- whole fits ---------------------------------------------------------------------------------


USERS, ITEMS = np.divmod(np.random.default_rng(1).permutation(48)[:40], 6)
RATINGS = pd.DataFrame({"user": USERS, "item": ITEMS, "rating": (USERS + ITEMS) % 3})


def fitted(device, **others):
    model = orbm.MatrixCumulativeRBM(
        2,
        1,
        n_epochs=2,
        batch_size=6,
        free_phase="persistent",
        demand_factors=0,
        random_state=0,
        device=device,
    )
    return model.fit(RATINGS, **others)


def assert_same_predictions(one, other):
    users, items = np.divmod(np.arange(48), 6)
    found, truth = (model.predict_proba(users, items) for model in (one, other))
    np.testing.assert_allclose(found, truth, atol=TOLERANCE)
    values, true_values = (model.history_["validation"] for model in (one, other))
    np.testing.assert_allclose(values, true_values, atol=TOLERANCE)


def test_a_fit_goes_on_from_a_checkpoint(tmp_path, monkeypatch):
    """Stopped after the first of two epochs, it ends where one ends that was not."""
    epoch = binary_learner._Learner.epoch

    def stopped(self):
        if self.history:
            raise RuntimeError("stopped")
        epoch(self)

    monkeypatch.setattr(binary_learner._Learner, "epoch", stopped)
    with pytest.raises(RuntimeError, match="stopped"):
        fitted("cuda", checkpoint=tmp_path, every=1)
    monkeypatch.undo()
    assert_same_predictions(fitted("cuda", checkpoint=tmp_path, every=1), fitted("cpu"))

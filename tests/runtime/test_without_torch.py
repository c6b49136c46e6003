"""Nothing but the GPU engine needs torch, and nothing else imports it."""

import subprocess
import sys
import types

import numpy as np
import pytest

import ordinalrbm as orbm
from ordinalrbm.runtime import process_group

IMPORT_ALL = """
import importlib, pkgutil, sys

class NotThere:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ImportError(f"{name} was asked for")

sys.meta_path.insert(0, NotThere)
import ordinalrbm
for module in pkgutil.walk_packages(ordinalrbm.__path__, "ordinalrbm."):
    if module.name.startswith(("ordinalrbm.engine.gpu", "ordinalrbm.matrix.gpu.")):
        continue
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def test_everything_else_is_imported_without_torch():
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("device", ["gpu", "cuda:", "CPU", 0, None])
def test_a_device_that_is_none(device):
    with pytest.raises(orbm.DataError, match="'device' parameter must be 'cpu', 'cuda'"):
        orbm.MatrixCumulativeRBM(1, 1, device=device).fit(three_ratings())


@pytest.mark.parametrize("kind", ["OrdinalMF", "MatrixCumulativeRBM"])
def test_without_torch_the_extra_is_named(monkeypatch, kind):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(orbm.DataError, match=r"torch is not installed; pip install \"ordinalrbm\[gpu"):
        getattr(orbm, kind)(1, device="cuda").fit(three_ratings())


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_predictions_do_not_switch_to_the_cores(monkeypatch, device):
    model = orbm.MatrixCumulativeRBM(1, 1, n_epochs=1, random_state=0).fit(three_ratings())
    model.set_params(device=device)
    monkeypatch.setitem(sys.modules, "torch", None)
    for ask in (
        lambda: model.predict_proba(0, 1),
        lambda: model.predict(0, 1),
        lambda: model.fold_in(([7], [0], [1])),
    ):
        with pytest.raises(orbm.DataError, match=r"torch is not installed.*ordinalrbm\[gpu\]"):
            ask()


def test_predictions_on_a_device_that_is_none():
    model = orbm.MatrixCumulativeRBM(1, 1, n_epochs=1, random_state=0).fit(three_ratings())
    with pytest.raises(orbm.DataError, match="'device' parameter must be 'cpu', 'cuda'"):
        model.set_params(device="gpu").predict(0, 1)


def three_ratings():
    return np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([1, 2, 1])


def test_torch_that_another_thread_still_imports(monkeypatch):
    """Beside the reading of ratings a device is got ready: until then torch is half there."""
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    assert process_group.current() is None

"""Nothing but the GPU engine needs torch, and nothing else imports it."""

import subprocess
import sys

import numpy as np
import pytest

import ordinalrbm as orbm

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
    if module.name.startswith(("ordinalrbm.engine.gpu", "ordinalrbm.infer.on_gpu")):
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


@pytest.mark.parametrize("factors", ["continuous", "binary", "mixed"])
def test_without_torch_the_extra_is_named(monkeypatch, factors):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        orbm.DataError, match=r"torch is not installed; pip install \"ordinalrbm\[gpu"
    ):
        orbm.MatrixCumulativeRBM(1, 1, factors=factors, device="cuda").fit(three_ratings())


def three_ratings():
    return np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([1, 2, 1])

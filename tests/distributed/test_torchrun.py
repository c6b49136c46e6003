"""The command line in several processes, started as their users start them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from in_a_group import PATIENCE, environment, ratings

import ordinalrbm as orbm
from ordinalrbm.cli.together import own_rank

TORCHRUN = ["-m", "torch.distributed.run", "--standalone"]
FIT = ["-m", "ordinalrbm", "fit", "small.csv", "-k", "2", "--seed", "3"]


def started(*arguments, cwd, **more):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment() | more,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def torchrun(*arguments, cwd, size=2):
    return started(*TORCHRUN, f"--nproc-per-node={size}", *arguments, cwd=cwd)


@pytest.fixture
def folder(tmp_path):
    ratings().to_csv(tmp_path / "small.csv", index=False)
    return tmp_path


def assert_same_predictions(found, truth):
    users, items = np.divmod(np.arange(50 * 30), 30)
    one, other = (orbm.load(path).predict_proba(users, items) for path in (found, truth))
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_two_processes_write_the_model_of_one(folder):
    plain = started(*FIT, "--out", "one.orbm", "--epochs", "4", cwd=folder)
    assert plain.returncode == 0, plain.stderr
    both = torchrun(*FIT, "--out", "two.orbm", "--epochs", "4", cwd=folder)
    assert both.returncode == 0, both.stderr
    assert both.stdout.count("The model is in two.orbm") == 1
    assert both.stderr.count("Learnt in") == 1
    assert_same_predictions(folder / "two.orbm", folder / "one.orbm")


def test_what_cannot_be_shared_is_refused(folder):
    done = torchrun(*FIT, "--out", "m.orbm", "--factors-kind", "binary", cwd=folder)
    assert done.returncode != 0
    assert "Several processes learn continuous factors only" in done.stderr
    assert not (folder / "m.orbm").exists()


WITHOUT_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, *more):
        if name == "torch":
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, NoTorch())
from ordinalrbm.__main__ import run
run()
"""


def test_a_missing_torch_is_named(folder):
    told = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    done = started("-c", WITHOUT_TORCH, *FIT[2:], "--out", "m.orbm", cwd=folder, **told)
    assert done.returncode == 2, done.stderr
    assert 'pip install "ordinalrbm[distributed]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("told", [{}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "x"}])
def test_a_single_process_is_no_group(told, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert own_rank() is None


# ---- a process that is killed -------------------------------------------------------------------


def process_of_rank(rank, launcher):
    """Number of the process that torchrun has started as a rank, once it is there."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    told = {int(child): Path(f"/proc/{child}/environ").read_text() for child in children}
    return next(child for child, text in told.items() if f"RANK={rank}" in text.split("\0"))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for a process there")
def test_a_run_of_which_one_process_is_killed_ends_with_the_same_model(folder):
    fit = [*FIT, "--epochs", "12", "--checkpoint", "steps", "--every", "1", "--resume"]
    harmless = torchrun(*fit[:-5], "--out", "whole.orbm", cwd=folder)
    assert harmless.returncode == 0, harmless.stderr
    launched = subprocess.Popen(
        [sys.executable, *TORCHRUN, "--nproc-per-node=2", "--max-restarts=1", *fit,
         "--out", "killed.orbm"],
        cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + PATIENCE
    while not list(folder.glob("steps/*.checkpoint")):
        assert launched.poll() is None and time.monotonic() < until
        time.sleep(0.005)
    os.kill(process_of_rank(1, launched.pid), signal.SIGKILL)
    _, said = launched.communicate(timeout=PATIENCE)
    assert launched.returncode == 0, said
    assert (folder / "killed.orbm").read_bytes() == (folder / "whole.orbm").read_bytes()

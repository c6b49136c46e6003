"""The command line in several processes, started as their users start them."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from in_a_group import PATIENCE, environment, ratings
from long_form import LONG

import ordinalrbm as orbm
from ordinalrbm.cli.process import own_rank

TORCHRUN = ["-m", "torch.distributed.run", "--standalone"]
FIT = ["-m", "ordinalrbm", "fit", "small.csv", "-k", "2", "--seed", "3", "--epochs", "6"]


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torchrun")
    ratings().to_csv(folder / "small.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def by_two(folder):
    """What two processes say, which write two.orbm."""
    done = torchrun(*FIT, "--out", "two.orbm", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done


def assert_same_predictions(found, truth):
    users, items = np.divmod(np.arange(50 * 30), 30)
    one, other = (orbm.load(path).predict_proba(users, items) for path in (found, truth))
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_two_processes_write_the_model_of_one(folder, by_two):
    plain = started(*FIT, "--out", "one.orbm", cwd=folder)
    assert plain.returncode == 0, plain.stderr
    assert by_two.stdout.count("The model is in two.orbm") == 1
    assert by_two.stderr.count("Done in") == 1
    assert_same_predictions(folder / "two.orbm", folder / "one.orbm")


def test_what_cannot_be_shared_is_refused(folder):
    answers = np.random.default_rng(0).integers(1, 6, (40, 4))
    pd.DataFrame(answers, columns=["q1", "q2", "q3", "q4"]).to_csv(folder / "survey.csv", index=False)
    fit = ["-m", "ordinalrbm", "fit", "survey.csv"]
    done = torchrun(*fit, "--out", "m.orbm", cwd=folder)
    assert done.returncode != 0
    assert "Several processes learn from ratings only" in done.stderr
    assert not (folder / "m.orbm").exists()
    if not LONG:  # test_ranks.py asks for the sentence below in Python
        return
    done = torchrun(*FIT, "--model", "matrix-crbm", "--out", "m.orbm", cwd=folder)
    assert done.returncode != 0
    assert "Several processes learn OrdinalMF only, not MatrixCumulativeRBM" in done.stderr
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
    given = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    done = started("-c", WITHOUT_TORCH, *FIT[2:], "--out", "m.orbm", cwd=folder, **given)
    assert done.returncode == 2, done.stderr
    assert 'pip install "ordinalrbm[distributed]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("given", [{}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "x"}])
def test_a_single_process_is_no_group(given, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert own_rank() is None


# ---- a process that is killed -------------------------------------------------------------------


@pytest.mark.usefixtures("by_two")
def test_a_run_of_which_one_process_is_killed_ends_with_the_same_model(folder):
    """By then the first two epochs at least are in a checkpoint, and learning has not ended."""
    kept = ["--checkpoint", "kept", "--every", "1", "--resume"]
    assert orbm.load(folder / "two.orbm").n_iter_ > 3
    killing = str(Path(__file__).with_name("killed_once.py"))
    killed = torchrun("--max-restarts=1", killing, *FIT[2:], *kept, "--out", "killed.orbm", cwd=folder)
    assert killed.returncode == 0, killed.stderr
    # torchrun's report is of the process that it has seen ending first, which need not be this one.
    assert (folder / "killed-at").read_text() == "3"
    assert re.search(r"exitcode: (-9|1)\b", killed.stderr), killed.stderr
    assert (folder / "killed.orbm").read_bytes() == (folder / "two.orbm").read_bytes()

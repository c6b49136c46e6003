"""Fits that are killed at any moment, and the checkpoints of the program."""

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from long_form import LONG, only_long
from typer.testing import CliRunner

import ordinalrbm as orbm
from ordinalrbm.cli import app
from ordinalrbm.cli.fit import _save
from ordinalrbm.errors import DiskError

sys.path.insert(0, str(Path(__file__).parents[1] / "matrix"))

import small_matrices

FIT = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
import ordinalrbm as orbm
import small_matrices
from ordinalrbm.storage import atomic
settle, n_written, last = atomic._settle, 0, int(sys.argv[4])
def slowly(file):  # so that some are killed while they write
    global n_written
    n_written += 1
    if n_written == last:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.03)
    settle(file)
atomic._settle = slowly
ratings = small_matrices.simulated(60, 30)
model = orbm.MatrixCumulativeRBM(4, 4, n_epochs=8, random_state=0)
folder = None if sys.argv[3] == "none" else sys.argv[3]
print("begins", flush=True)
model.fit(ratings, checkpoint=folder, every=1)
model.history_["seconds"] = 0.0
model.save(sys.argv[2])
"""


def run_fit(out, folder, kill_after=None, kill_at=0):
    """Whether the fit has come to its end, rather than being killed.

    By itself when it writes for that time, or by us so many seconds after its start.
    """
    given = [str(Path(small_matrices.__file__).parent), str(out), str(folder), str(kill_at)]
    process = subprocess.Popen([sys.executable, "-c", FIT, *given], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(kill_after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    finally:
        process.stdout.close()
    return process.wait() == 0


def hash_of(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def fit_here(out, folder=None):
    """The same in this process, where all libraries are imported already."""
    ratings = small_matrices.simulated(60, 30)
    model = orbm.MatrixCumulativeRBM(4, 4, n_epochs=8, random_state=0)
    model.fit(ratings, checkpoint=folder, every=1)
    model.history_["seconds"] = 0.0
    model.save(out)


def test_killed_while_it_writes(tmp_path):
    for _ in range(2):  # kernels just compiled may round otherwise than the same from the cache
        fit_here(tmp_path / "whole.orbm")
    for kill_at in (4, 3) if LONG else (4,):
        assert not run_fit(tmp_path / "pieces.orbm", tmp_path / "kept", kill_at=kill_at)
    assert list((tmp_path / "kept").glob("*.checkpoint"))
    fit_here(tmp_path / "pieces.orbm", tmp_path / "kept")
    assert hash_of(tmp_path / "pieces.orbm") == hash_of(tmp_path / "whole.orbm")
    assert not list((tmp_path / "kept").glob(".ordinalrbm-*"))


@only_long
def test_killed_again_and_again(tmp_path):
    for _ in range(2):  # kernels just compiled may round otherwise than the same from the cache
        assert run_fit(tmp_path / "whole.orbm", "none")
    rng, n_kills, done = np.random.default_rng(0), 0, False
    while n_kills < 8 and not done:
        done = run_fit(tmp_path / "pieces.orbm", tmp_path / "kept", rng.uniform(0.2, 0.9))
        n_kills += not done
    assert n_kills >= 3
    assert done or run_fit(tmp_path / "pieces.orbm", tmp_path / "kept")
    assert hash_of(tmp_path / "pieces.orbm") == hash_of(tmp_path / "whole.orbm")
    assert not list((tmp_path / "kept").glob(".ordinalrbm-*"))


# The program


@pytest.fixture
def ratings_file(tmp_path):
    small_matrices.simulated(60, 30).to_csv(tmp_path / "ratings.csv", index=False)
    return tmp_path / "ratings.csv"


def program(*given):
    """`ordinalrbm fit` in this process, where all libraries are imported already."""
    done = CliRunner().invoke(app, ["fit", *map(str, given)])
    return subprocess.CompletedProcess(given, done.exit_code, done.stdout, done.stderr)


def test_the_program_goes_on(ratings_file, tmp_path):
    folder = tmp_path / "kept"
    fit = (ratings_file, "--out", tmp_path / "a.orbm", "--checkpoint", folder, "--epochs", 3)
    first = program(*fit, "--every", "1", "--resume")  # nothing is there yet
    assert first.returncode == 0, first.stderr
    assert len(list(folder.glob("*.checkpoint"))) == 2
    again = program(*fit, "--no-resume")
    assert again.returncode == 2
    assert again.stderr.splitlines()[-1].startswith(f"Error: Folder '{folder}' holds checkpoints;")
    assert program(*fit).returncode == 0
    for place in (folder, next(folder.glob("*.checkpoint"))):
        shown = CliRunner().invoke(app, ["info", str(place), "--json"])
        told = json.loads(shown.stdout)
        assert told["checkpoint_of"] == "OrdinalMF"
        assert (told["rows"], told["columns"]) == (60, 30)
        assert told["parameters"]["n_epochs"] == 3
    assert " 3 (has ended)" in CliRunner().invoke(app, ["info", str(folder)]).stdout
    other = program(*fit, "--resume", "--seed", 5)
    assert other.returncode == 2
    assert "differs in random_state" in other.stderr.splitlines()[-1]
    assert program(ratings_file, "--out", tmp_path / "b.orbm", "--resume").returncode == 2
    bad = program(*fit, "--resume", "--every", "now")
    assert "'every' parameter must be" in bad.stderr.splitlines()[-1]


class _Unsaved:
    """A model whose disk is full."""

    def save(self, path):
        raise DiskError(f"File '{path}' cannot be written (full); make room or write elsewhere.")


def test_a_model_that_cannot_be_written_is_in_its_checkpoint(tmp_path):
    out, folder = tmp_path / "a.orbm", tmp_path / "kept"
    folder.mkdir()
    for given in (None, folder):  # nothing is kept, or nothing was written
        with pytest.raises(DiskError, match=r"elsewhere\.$"):
            _save(_Unsaved(), out, given)
    (folder / "vector-000001.checkpoint").touch()
    with pytest.raises(DiskError, match=rf"elsewhere; .*goes on from the last checkpoint in '{folder}'\.$"):
        _save(_Unsaved(), out, folder)


INTERRUPTED = """
import signal, sys
from ordinalrbm.matrix import binary_learner
epoch = binary_learner._Learner.epoch
def stopped(self):
    epoch(self)
    if len(self.history) == 3:
        signal.raise_signal(int(sys.argv[1]))
binary_learner._Learner.epoch = stopped
from ordinalrbm.cli import app
app(sys.argv[2:])
"""


@pytest.mark.usefixtures("ctrl_c_arrives")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_checkpoint_of_the_program(number, ratings_file, tmp_path):
    folder = tmp_path / "kept"
    fit = ["--checkpoint", folder, "--epochs", "6", "--model", "matrix-crbm"]
    given = ["fit", ratings_file, "--out", tmp_path / "a.orbm", *fit]
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(int(number)), *given],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 128 + number, run.stderr
    assert run.stderr.splitlines()[-1] == "Stopped."
    assert not (tmp_path / "a.orbm").exists()
    assert [path.name for path in folder.glob("[!.]*")] == ["binary-000002.checkpoint"]
    resumed = program(ratings_file, "--out", tmp_path / "a.orbm", *fit)
    assert resumed.returncode == 0, resumed.stderr

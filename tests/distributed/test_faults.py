"""Two processes of which one is lost, hangs or is slow.

What they learn is that of one process, or they end with one sentence and leave nothing half done.
"""

import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from in_a_group import PATIENCE, environment, ratings
from test_torchrun import assert_same_predictions, started, torchrun

from ordinalrbm.cli.process import read_timeout
from ordinalrbm.errors import DataError, LostError
from ordinalrbm.runtime.process_group import with_others
from ordinalrbm.storage.atomic import LEFT_OVER

FAULTY = str(Path(__file__).with_name("faulty.py"))
FIT = ["fit", "small.csv", "-k", "2", "--seed", "3", "--epochs", "6"]
HAS_ENDED = "Process 0: Error: Another process of this run has ended or cannot be reached; "
HANGS = "Process 0: Error: Another process of this run has not answered for "


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With ratings, and the model that one process learns from them."""
    folder = tmp_path_factory.mktemp("faults")
    ratings().to_csv(folder / "small.csv", index=False)
    alone = started("-m", "ordinalrbm", *FIT, "--out", "one.orbm", cwd=folder)
    assert alone.returncode == 0, alone.stderr
    return folder


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@contextmanager
def two(fault, *command, cwd):
    """The processes, of which the second meets the fault, as torchrun would start them.

    Without torchrun, which ends all when one has ended: on other machines nobody does so at once.
    """
    given = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "FAULT": fault,
        "FAULTY": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, FAULTY, *command],
            cwd=cwd,
            text=True,
            stderr=subprocess.PIPE,
            env=environment() | given | {"RANK": rank, "LOCAL_RANK": rank},
        )
        for rank in ("0", "1")
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def assert_nothing_is_half_done(folder, kept):
    """No model, the two newest checkpoints, and none that was being written."""
    names = sorted(path.name for path in (folder / kept).iterdir() if path.name != ".lock")
    assert names == ["gaussian-000001.checkpoint", "gaussian-000002.checkpoint"]
    assert not [*folder.glob(LEFT_OVER), *(folder / kept).glob(LEFT_OVER)]
    assert not (folder / "lost.orbm").exists()


@pytest.mark.parametrize(
    ("fault", "patience", "sentence"),
    [("killed", "1 h", HAS_ENDED), ("hangs", "10 s", HANGS)],
    ids=["killed", "hangs"],
)
def test_the_other_process_ends_with_one_sentence(folder, fault, patience, sentence):
    """If one was killed long before the time-out, if one hangs when it is over."""
    kept = ["--checkpoint", fault, "--every", "1", "--timeout", patience]
    with two(fault, *FIT, *kept, "--quiet", "--out", "lost.orbm", cwd=folder) as processes:
        _, said = processes[0].communicate(timeout=PATIENCE)
        assert processes[0].returncode == 1, said
    assert said.startswith(sentence), said
    assert "start all of them again" in said
    assert said.count("\n") == 1, said
    assert_nothing_is_half_done(folder, fault)


def test_a_process_that_never_comes(folder):
    given = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
    }
    alone = started(
        "-m", "ordinalrbm", *FIT, "--timeout", "1 s", "--quiet", "--out", "lost.orbm", cwd=folder, **given
    )
    assert alone.returncode == 1, alone.stderr
    assert alone.stderr.startswith(HANGS), alone.stderr
    assert alone.stderr.count("\n") == 1, alone.stderr


def test_torchrun_ends_all_if_one_is_killed(folder, monkeypatch):
    """And what it says itself is not drowned in tracebacks of ours."""
    monkeypatch.setenv("FAULT", "killed")
    monkeypatch.setenv("FAULTY", "1")
    done = torchrun(FAULTY, *FIT, "--quiet", "--out", "lost.orbm", cwd=folder)
    assert done.returncode == 1
    own = [line for line in done.stderr.splitlines() if line.startswith("Process ")]
    assert own in (
        [HAS_ENDED + "see what it has said, and start all of them again."],
        ["Process 0: Stopped."],
    )
    assert not (folder / "lost.orbm").exists()


def test_a_slow_process_is_waited_for(folder):
    with two("slow", *FIT, "--out", "slow.orbm", cwd=folder) as processes:
        said = [process.communicate(timeout=PATIENCE)[1] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], said
    assert_same_predictions(folder / "slow.orbm", folder / "one.orbm")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("Timed out waiting 5000ms for recv operation to complete", "has not answered for 0 s"),
        ("wait timeout after 5000ms, keys: /x", "has not answered for 0 s"),
        ("Connection closed by peer [127.0.0.1]:5", "has ended or cannot be reached"),
    ],
)
def test_what_torch_says_of_a_lost_process(said, sentence):
    def fail():
        raise RuntimeError(said)

    with pytest.raises(LostError, match=sentence):
        with_others(fail)


@pytest.mark.parametrize("text", ["", "5", "0 s", "-1 s", "soon", "nat"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(DataError, match=r"--timeout must be a time such as '30 s'"):
        read_timeout(text)


def test_times():
    assert read_timeout("1.5 min").total_seconds() == 90

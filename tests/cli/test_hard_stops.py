"""Full disks, Ctrl-C and closed pipes: one sentence, the right status, nothing half-written."""

from __future__ import annotations

import errno
import os
import pty
import resource
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from program import LONG, PATIENCE, PROGRAM, environment, names_in, run, run_here, started

from ordinalrbm.cli.app import _failures_in_one_line

ROOM = 4096  # bytes that a file may have


def _small_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))


@contextmanager
def _small_disk_here() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _without_room(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    if LONG or line.startswith("fit"):  # as users have it; else in this process, which is quicker
        return run(*line.split(), "--quiet", cwd=cwd, prepare=_small_disk)
    with _small_disk_here():
        return run_here(*line.split(), "--quiet", cwd=cwd)


@pytest.mark.parametrize(
    "line",
    [
        "fit ratings.csv --epochs 1 --out old.orbm",
        "impute survey.orbm survey.sav --out old.sav",
        "impute survey.orbm survey.sav --draws 2 --out old.dta",
        "predict survey.orbm survey.sav --probabilities --out old.csv",
        "recommend films.orbm --out old.parquet",
        "report films.orbm --out old.html",
    ],
)
def test_disk_full(line, files):
    out = files / line.split()[-1]
    out.write_text("mine")
    for number in (1, 2):
        out.with_name(f"{out.stem}-{number}{out.suffix}").write_text("mine")
    before = names_in(files)
    done = _without_room(line, files)
    assert "cannot be written (File too large); make room" in done.stderr
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1
    assert (done.returncode, done.stdout) == (1, "")
    assert names_in(files) == before
    assert out.read_text() == "mine"
    assert out.with_name(f"{out.stem}-1{out.suffix}").read_text() == "mine"


MEGABYTES = (100, 400, 700, 900, 1500, 2000)  # of address space
LIMITS = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}


def _limited(command: str, kilobytes: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(LIMITS[command], (kilobytes * 1024, kilobytes * 1024))


@pytest.mark.parametrize(
    ("command", "kilobytes"),
    [*(("ulimit -v", k * 1000) for k in (MEGABYTES if LONG else MEGABYTES[::2])), ("ulimit -d", 400_000)],
)
def test_too_little_memory_for_the_libraries_is_said_and_ends(command, kilobytes, files):
    # OpenBLAS would ask for memory without end, and hear no signal.
    line = ["fit", "ratings.csv", "--epochs", "1", "--out", "new.orbm"]
    done = run(*line, cwd=files, prepare=_limited(command, kilobytes))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: This process may have ") and done.stderr.count("\n") == 1
    assert f"raise the limit with `{command} " in done.stderr
    assert not (files / "new.orbm").exists()


@pytest.mark.parametrize("command", LIMITS)
def test_the_memory_that_is_asked_for_is_enough(command, files):
    line = ["fit", "ratings.csv", "--epochs", "1", "--out", "new.orbm"]
    refused = run(*line, cwd=files, prepare=_limited(command, 400_000)).stderr
    needed = int(refused.partition(f"`{command} ")[2].partition("`")[0])
    done = run(*line, cwd=files, prepare=_limited(command, needed))
    assert done.returncode == 0, done.stderr
    assert (files / "new.orbm").exists()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("_rotation.so: failed to map segment from shared object"),
    ],
)
def test_a_library_without_memory_is_told_as_such(error, capsys):
    with pytest.raises(typer.Exit) as ended, _failures_in_one_line():
        raise error
    assert ended.value.exit_code == 1
    told = capsys.readouterr().err
    assert told.startswith("Error: The memory ") and told.endswith("use fewer rows.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_full(files):
    with open("/dev/full", "w") as full:
        done = run("info", "survey.orbm", "--json", cwd=files, stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def test_output_closed_early(files):
    reading, writing = os.pipe()
    os.close(reading)
    done = run("info", "survey.orbm", cwd=files, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def _wait_for(process: subprocess.Popen[str], words: str) -> str:
    """What it says up to and with these words, on whichever stream."""
    told, end = b"", time.monotonic() + PATIENCE
    while words.encode() not in told:
        said, _, _ = select.select([process.stderr, process.stdout], [], [], end - time.monotonic())
        assert said, told
        part = os.read(said[0].fileno(), 65536)
        assert part, told
        told += part
    return told.decode()


def _write_big_survey(path: Path) -> None:
    """So many epochs take a while, on whatever machine."""
    answers = np.random.default_rng(0).integers(1, 6, (2_000, 12))
    pd.DataFrame(answers).add_prefix("q").to_csv(path, index=False)


STOPPED = [
    ("fit big.csv --epochs 100000 --out old.orbm", "answered.", 0.0),
    ("report big.csv --epochs 100000 --out old.html", "Learning from", 1.0),
]
if LONG:
    STOPPED += [
        ("fit big.csv --epochs 100000 --out old.orbm", "answered.", 2.0),
        ("evaluate big.csv --epochs 100000", "answered.", 1.0),
        ("demo --out new", "Food World Cup", 0.5),
    ]


@pytest.mark.parametrize(("line", "sign", "delay"), STOPPED)
def test_ctrl_c(line, sign, delay, files):
    _stop(line, sign, delay, files, signal.SIGINT)


def test_a_batch_system_may_stop_it(files):
    _stop("fit big.csv --epochs 100000 --out old.orbm", "answered.", 1.0, files, signal.SIGTERM)


def _stop(line: str, sign: str, delay: float, files: Path, number: signal.Signals) -> None:
    _write_big_survey(files / "big.csv")
    for name in ("old.orbm", "old.html"):
        (files / name).write_text("mine")
    before = names_in(files)
    with started(*line.split(), cwd=files) as process:
        _wait_for(process, sign)
        time.sleep(delay)
        process.send_signal(number)
        _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert rest.splitlines()[-1] == "Stopped."
    assert "Traceback" not in rest and "Error" not in rest
    assert names_in(files) == before
    assert (files / "old.orbm").read_text() == (files / "old.html").read_text() == "mine"


def test_ctrl_c_while_the_program_is_loaded(tmp_path):
    with started("fit", "--help", cwd=tmp_path) as process:
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=PATIENCE)
    # Before Python has begun with our code there is nobody who could say a word.
    assert process.returncode in (130, -signal.SIGINT, 1, 0)
    assert process.returncode != 130 or "Traceback" not in rest


def test_progress_only_on_terminals(files):
    """A bar where standard error is a terminal; no escape sequences where it is not."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen(
        [*PROGRAM, "fit", "survey.sav", "--epochs", "2", "--out", "bar.orbm"],
        cwd=files,
        env=environment(),
        stderr=theirs,
        stdout=subprocess.DEVNULL,
    )
    os.close(theirs)
    told = b""
    try:
        while part := os.read(ours, 65536):
            told += part
    except OSError:  # the terminal is gone with the process
        pass
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    assert b"learning" in told and b"2/2" in told
    quiet = run_here("fit", "survey.sav", "--epochs", "2", "--out", "none.orbm", cwd=files)
    assert "learning" not in quiet.stderr and "\x1b" not in quiet.stderr
    assert (files / "bar.orbm").read_bytes() == (files / "none.orbm").read_bytes()

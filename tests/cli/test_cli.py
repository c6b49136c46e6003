from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
import warnings

import pytest
from typer.testing import CliRunner

import ordinalrbm as orbm
from ordinalrbm import cli
from ordinalrbm.cli import demo_run
from ordinalrbm.errors import DataError
from ordinalrbm.vector.learner import Monitor

runner = CliRunner()


def test_version():
    result = runner.invoke(cli.app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"ordinalrbm {orbm.__version__}\n")


def test_python_m():
    done = subprocess.run(
        [sys.executable, "-m", "ordinalrbm", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ordinalrbm {orbm.__version__}\n"


def test_demo_gets_its_file(monkeypatch):
    seen = []
    monkeypatch.setattr(demo_run, "run", lambda out: seen.append(str(out)))
    assert runner.invoke(cli.app, ["demo"]).exit_code == 0
    assert runner.invoke(cli.app, ["demo", "--out", "else.html"]).exit_code == 0
    assert seen == ["ordinalrbm-demo.html", "else.html"]


def test_a_folder_that_is_not_there(tmp_path):
    result = runner.invoke(cli.app, ["demo", "--out", str(tmp_path / "new" / "food.html")])
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr == (
        f"Error: Folder '{tmp_path / 'new'}' does not exist; create it or write elsewhere.\n"
    )


def test_bad_data_is_one_line_and_exit_code_2(monkeypatch):
    def refuse(out):
        raise DataError("Column 'age' is text; give its order.")

    monkeypatch.setattr(demo_run, "run", refuse)
    result = runner.invoke(cli.app, ["demo"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "Error: Column 'age' is text; give its order.\n"


def test_warnings_are_one_line(monkeypatch):
    def warn(out):
        warnings.simplefilter("always")
        warnings.warn("Rows are few.", UserWarning, stacklevel=1)

    monkeypatch.setattr(demo_run, "run", warn)
    result = runner.invoke(cli.app, ["demo"])
    assert (result.exit_code, result.stderr) == (0, "Warning: Rows are few.\n")


@pytest.mark.usefixtures("ctrl_c_arrives")
def test_ctrl_c_while_learning_ends_the_demo(tmp_path, monkeypatch):
    # Learning by itself would keep its best epoch and go on.
    measure, epochs = Monitor.measure, []

    def interrupted(self, *args):
        epochs.append(len(epochs))
        if len(epochs) == 4:
            signal.raise_signal(signal.SIGINT)
        return measure(self, *args)

    monkeypatch.setattr(Monitor, "measure", interrupted)
    result = runner.invoke(cli.app, ["demo", "--out", str(tmp_path / "new.html")])
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "Stopped."
    assert "Traceback" not in result.output
    assert len(epochs) == 4
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("ctrl_c_arrives")
def test_ctrl_c_in_a_callback_from_c_is_not_lost(monkeypatch):
    interrupt = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
    went_on = []

    def run(out):
        interrupt()
        went_on.append(True)
        for _ in range(1000):
            time.sleep(0.01)

    monkeypatch.setattr(demo_run, "run", run)
    before = sys.unraisablehook
    result = runner.invoke(cli.app, ["demo"])
    assert went_on
    assert (result.exit_code, result.stderr) == (130, "Stopped.\n")
    assert sys.unraisablehook is before


def test_an_ignored_signal_stays_ignored(monkeypatch):
    monkeypatch.setattr(demo_run, "run", lambda out: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert runner.invoke(cli.app, ["demo"]).exit_code == 0
    finally:
        signal.signal(signal.SIGINT, before)

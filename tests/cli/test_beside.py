"""A second process beside this one: when it runs, what it says, and that it ends."""

import os
import signal
import subprocess
import sys
import time

import pytest
from numba.core import event

from ordinalrbm.cli import beside, demo_run, doctor, warm_up
from ordinalrbm.cli.beside import Beside


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(beside, "cores", lambda: 2)


def runs(process: int) -> bool:
    """Whether it is there, and more than an entry that nobody has asked for."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "state=", "-p", str(process)], capture_output=True, text=True).stdout
    return bool(state.strip()) and not state.startswith("Z")


@pytest.mark.usefixtures("two_cores")
def test_it_begins_when_this_process_compiles_and_ends_with_the_block():
    with Beside("import time; time.sleep(600)") as other:
        assert other.process is None and other.output() is None
        with event.install_listener("numba:compile", other):
            assert other.process is None
            with event.trigger_event("numba:compile"):
                assert other.process is not None
            begun = other.process
            with event.trigger_event("numba:compile"):
                assert other.process is begun
        assert runs(begun.pid)
    assert not runs(begun.pid)


@pytest.mark.usefixtures("two_cores")
def test_what_it_has_printed_and_whether_it_failed():
    with Beside("print('surveys', 1.5, 0.5, sep='\\t')") as other:
        assert other.start() and other.output() == "surveys\t1.5\t0.5\n"
    with Beside("print('half'); raise RuntimeError") as other:
        assert other.start() and other.output() is None


def test_not_on_one_core_nor_where_nothing_is_kept(monkeypatch):
    for number, folder in ((1, "/kernels"), (2, None)):
        monkeypatch.setattr(beside, "cores", lambda number=number: number)
        monkeypatch.setattr(beside, "cache_folder", lambda kernel, folder=folder: folder)
        with Beside("print()") as other:
            assert not other.start() and other.process is None and other.output() is None


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_it_ends_with_the_process_that_has_started_it_however_that_ended():
    program = (
        "from ordinalrbm.cli import beside; import time; beside.cores = lambda: 2\n"
        "with beside.Beside('import time; time.sleep(600)') as other:\n"
        "    other.start(); print(other.process.pid, flush=True); time.sleep(600)"
    )
    first = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    second = int(first.stdout.readline())
    with first:
        first.kill()
    end = time.monotonic() + 120  # it may still be importing
    while runs(second) and time.monotonic() < end:
        time.sleep(0.05)
    assert not runs(second)


@pytest.mark.usefixtures("two_cores")
def test_doctor_compiles_surveys_beside_ratings_or_after_them(monkeypatch):
    def compile_kernels(device="cpu", *, surveys=True, ratings=True):
        yield from ((name, 1.0, 0.5) for name, is_asked in (("s", surveys), ("r", ratings)) if is_asked)

    monkeypatch.setattr(warm_up, "compile_kernels", compile_kernels)
    module = sys.modules[doctor.__module__]
    begin = Beside.__init__
    for work, number, found in (
        ("print('beside', 2.0, 1.0, sep='\\t')", 2, ["r", "beside"]),
        ("raise RuntimeError", 2, ["r", "s"]),
        ("print('beside', 2.0, 1.0, sep='\\t')", 1, ["s", "r"]),
    ):
        monkeypatch.setattr(beside, "cores", lambda number=number: number)
        monkeypatch.setattr(Beside, "__init__", lambda self, _, work=work: begin(self, work))
        assert [name for name, *_ in module._compiled("cpu")] == found
    assert [name for name, *_ in module._compiled("cuda")] == ["s", "r"]


def test_the_demo_needs_no_second_process_once_all_is_compiled(monkeypatch):
    """And what it needs of both kinds can be compiled by a line of Python each."""
    demo_run.warm_up("surveys")
    demo_run.warm_up("ratings")
    with Beside("raise RuntimeError") as other, event.install_listener("numba:compile", other):
        demo_run.warm_up("surveys")
        demo_run.warm_up("ratings")
        assert other.process is None

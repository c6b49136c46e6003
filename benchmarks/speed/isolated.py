"""Work in a process of its own, and what it cost there: seconds, and memory at its peak."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""What Linux wants to be told to count the peak of a process anew."""


class Failure(NamedTuple):
    """Why there is no result, in a few words."""

    reason: str


class Cost(NamedTuple):
    """What a piece of work cost."""

    seconds: float
    peak: int
    """Bytes above what the process had before."""


def alone(work: Callable[..., Any], *arguments: Any, limit: float | None = None) -> Any:
    """Return what the work returns in a fresh process, or the Failure it ended in.

    After ``limit`` seconds the process is ended.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(sender, work, arguments))
    process.start()
    sender.close()
    try:
        if receiver.poll(limit):
            return receiver.recv()
        process.kill()
        return Failure(f"not done after {limit:.0f} s")
    except EOFError:
        process.join()
        return Failure(f"its process ended with code {process.exitcode}")
    finally:
        process.join()


def _report(sender: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    silence()
    try:
        sender.send(work(*arguments))
    except ImportError as error:
        sender.send(Failure(f"not there: {error}"))
    except Exception as error:
        sender.send(Failure(f"{type(error).__name__}: {error}"))


def silence() -> None:
    """Send what is printed nowhere, also by compiled code: methods like to chat."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):
        os.dup2(nowhere, output)


def measured(work: Callable[[], Any]) -> tuple[Any, Cost]:
    """Do the work; what it returned, and what it cost."""
    gc.collect()
    CLEAR.write_text(RESET_PEAK)
    before, begun = memory("VmRSS"), time.perf_counter()
    result = work()
    return result, Cost(time.perf_counter() - begun, max(memory("VmHWM") - before, 0))


def memory(field: str) -> int:
    """Bytes of this process, as Linux counts them: VmRSS now, VmHWM at the peak."""
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return 1024 * int(found[1])

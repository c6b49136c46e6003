"""A second process that compiles kernels while this one does: what it keeps on disk is there for both."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import Self

from numba.core import event

from ordinalrbm.cli.process import cores
from ordinalrbm.engine import mean_field
from ordinalrbm.runtime.jit import cache_folder

# The end of its input is that of the process that has started it, in whatever way that ended.
_PROGRAM = """
import sys
work, *sys.path[:] = sys.argv[1:]
import os, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
from ordinalrbm.runtime.compiling import compile_silently
compile_silently()
exec(work)
sys.stdout.flush()
os._exit(0)
"""


class Beside(event.Listener):
    """A line of Python that a second process runs; as a context, which ends it.

    As a listener to ``numba:compile`` it is started when this process begins to compile.
    """

    def __init__(self, work: str) -> None:
        self.work = work
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> bool:
        """Whether it runs: not on a single core, nor where machine code cannot be kept."""
        if self.process is None and cores() > 1 and cache_folder(mean_field._fixed_point) is not None:
            with suppress(OSError):
                self.process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM, self.work, *sys.path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
        return self.process is not None

    def output(self) -> str | None:
        """What it has printed when it has done its work; None if it has not done it."""
        if self.process is None or self.process.stdout is None:
            return None
        text = self.process.stdout.read()  # communicate() would close its input
        return None if self.process.wait() else text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process is not None:
            self.process.kill()
            with self.process:  # waits for it
                pass

    def on_start(self, happening: event.Event) -> None:
        self.start()

    def on_end(self, happening: event.Event) -> None:
        pass

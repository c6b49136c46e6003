"""Ctrl-C: a command ends at once, and leaves nothing behind."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(BaseException):
    """Ctrl-C where half a result is of no use.

    Not a ``KeyboardInterrupt``: on that one learning ends early and keeps its best model.
    """


@contextmanager
def stop_at_once() -> Iterator[None]:
    """Let Ctrl-C end the command, rather than learning only."""
    ours = (
        threading.current_thread() is threading.main_thread()
        # Whoever has another handler, or ignores the signal (nohup), has a reason.
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours:
        yield
        return
    asked: list[bool] = []

    def stop(number: int, frame: Any) -> None:
        asked.append(True)
        raise Stopped

    signal.signal(signal.SIGINT, stop)
    try:
        with _nothing_swallowed():
            yield
    except Exception:
        if asked:  # libraries make errors of their own of it, above all while they are imported
            raise Stopped from None
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _nothing_swallowed() -> Iterator[None]:
    """Send the signal again when its exception came up where none can be raised.

    While LLVM compiles, Python runs only in callbacks from C, and there an exception is lost.
    """
    ordinary, again = sys.unraisablehook, []

    def lost(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type is not Stopped:
            ordinary(what)
            return
        timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
        timer.daemon = True
        again.append(timer)
        timer.start()

    sys.unraisablehook = lost
    try:
        yield
    finally:
        sys.unraisablehook = ordinary
        for timer in again:
            timer.cancel()

"""Ctrl-C, and SIGTERM of a batch system: a command ends at once, and leaves nothing behind."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Each with the handler it has when nobody has set another.
_SIGNALS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}


class Stopped(BaseException):
    """A signal where half a result is of no use.

    Not a ``KeyboardInterrupt``: on that one learning ends early and keeps its best model.
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.number = number


@contextmanager
def stop_at_once() -> Iterator[None]:
    """Let signals end the command, rather than learning only."""
    # Whoever has another handler, or ignores the signal (nohup), has a reason.
    ours = [
        number
        for number, ordinary in _SIGNALS.items()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is ordinary
    ]
    asked: list[int] = []

    def stop(number: int, frame: Any) -> None:
        asked.append(number)
        raise Stopped(number)

    for number in ours:
        signal.signal(number, stop)
    try:
        with _nothing_swallowed():
            yield
    except Exception:
        if asked:  # libraries make errors of their own of it, above all while they are imported
            raise Stopped(asked[0]) from None
        raise
    finally:
        for number in ours:
            signal.signal(number, _SIGNALS[number])


@contextmanager
def _nothing_swallowed() -> Iterator[None]:
    """Send the signal again when its exception came up where none can be raised.

    While LLVM compiles, Python runs only in callbacks from C, and there an exception is lost.
    """
    ordinary, again = sys.unraisablehook, []

    def lost(what: sys.UnraisableHookArgs) -> None:
        if not isinstance(what.exc_value, Stopped):
            ordinary(what)
            return
        timer = threading.Timer(0.05, signal.raise_signal, [what.exc_value.number])
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

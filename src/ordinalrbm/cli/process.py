"""The process that a command runs in: its memory, the signals it gets, and its siblings.

Limits on memory (``ulimit -v``, ``ulimit -d``) that are too low are refused at the start. OpenBLAS,
which NumPy and SciPy bring, asks for its buffers again and again without end when it is loaded and
gets none, and no signal is heard meanwhile. Other libraries end with riddles.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from ordinalrbm.errors import DataError
from ordinalrbm.runtime.timing import seconds_of

_MB = 1_000_000
# MB measured with `fit`, `evaluate` and `report`, kernels compiled or not: the libraries, a thread.
_NEEDS = (("ulimit -v", "RLIMIT_AS", 2500, 160), ("ulimit -d", "RLIMIT_DATA", 1600, 100))
# What libraries say that get no memory, or no thread, for which memory is needed too.
_NO_MEMORY = ("failed to map segment", "annot allocate memory", "CUDA out of memory")
_NO_THREAD = ("can't start new thread", "Failed to launch worker thread")


def cores() -> int:
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) or 1


class MemoryLimitError(DataError):
    """The memory that a process may have is too little for the libraries alone."""


class _Limit(NamedTuple):
    """A limit that is set, and what all libraries need of it, without any data."""

    command: str
    allowed: int  # bytes
    needed: int  # MB


def _set_limits() -> list[_Limit]:
    try:
        import resource
    except ImportError:  # Windows has none
        return []
    found = []
    for command, name, of_libraries, of_a_thread in _NEEDS:
        allowed, _ = resource.getrlimit(getattr(resource, name))
        if allowed != resource.RLIM_INFINITY:
            found.append(_Limit(command, allowed, of_libraries + of_a_thread * _library_threads()))
    return found


def _library_threads() -> int:
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return int(setting) if setting.isdigit() and int(setting) > 0 else cores()


def refuse_low_limits() -> None:
    """Raise where the libraries would not fit; where they do, load what must not fail later.

    Else data could take the room that OpenBLAS needs.
    """
    limits = _set_limits()
    for command, allowed, needed in limits:
        if allowed < needed * _MB:
            raise MemoryLimitError(
                f"This process may have {allowed // _MB:,} MB of memory, and the libraries need "
                f"{needed:,} MB with {_library_threads()} threads; raise the limit with "
                f"`{command} {-(-needed * _MB // 1024)}` or more."
            )
    if limits:
        import scipy.linalg  # noqa: F401


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    words = (*_NO_MEMORY, *_NO_THREAD) if _set_limits() else _NO_MEMORY
    return any(word in str(error) for word in words)


def out_of_memory() -> str:
    limits = [f"`{one.command}`: {one.allowed // _MB:,} MB" for one in _set_limits()]
    if not limits:
        return "The memory of this machine is not enough; use fewer rows."
    return (
        f"The memory that this process may have ({' and '.join(limits)}) is not enough; raise it "
        "or use fewer rows."
    )


# Ctrl-C, and SIGTERM of a batch system, each with the handler that Python starts with.
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
    # Where another handler is set, or the signal is ignored (nohup), that has a reason.
    ours = [
        number
        for number, default in _SIGNALS.items()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is default
    ]
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        raise Stopped(number)

    for number in ours:
        signal.signal(number, stop)
    try:
        with _nothing_swallowed():
            yield
    except Exception:
        if received:  # libraries make errors of their own of it, above all while they are imported
            raise Stopped(received[0]) from None
        raise
    finally:
        for number in ours:
            signal.signal(number, _SIGNALS[number])


@contextmanager
def _nothing_swallowed() -> Iterator[None]:
    """Send the signal again when its exception came up where none can be raised.

    While LLVM compiles, Python runs only in callbacks from C, and there an exception is lost.
    """
    default, again = sys.unraisablehook, []

    def lost(what: "sys.UnraisableHookArgs") -> None:
        if not isinstance(what.exc_value, Stopped):
            default(what)
            return
        timer = threading.Timer(0.05, signal.raise_signal, [what.exc_value.number])
        timer.daemon = True
        again.append(timer)
        timer.start()

    sys.unraisablehook = lost
    try:
        yield
    finally:
        sys.unraisablehook = default
        for timer in again:
            timer.cancel()


def own_rank() -> int | None:
    """Which of several processes this is, counted from 0; None if there are no others."""
    variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")  # torchrun sets all of them
    if any(not os.environ.get(name, "").isdecimal() for name in variables):
        return None
    return _variable("RANK") if _variable("WORLD_SIZE") > 1 else None


def _variable(name: str) -> int:
    return int(os.environ[name])


def own_threads() -> int:
    return max(1, cores() // _variable("LOCAL_WORLD_SIZE"))


def read_timeout(text: str) -> timedelta:
    """How long the processes wait for one another, as ``--timeout`` gives it."""
    seconds = seconds_of(text.strip().lower())
    if not seconds:  # nor do they wait for no time at all
        raise DataError(f"--timeout must be a time such as '30 s', '10 min' or '1 h', not '{text}'.")
    return timedelta(seconds=seconds)


@contextmanager
def process_group(device: str, timeout: timedelta) -> Iterator[None]:
    """A process group of all processes that torchrun has started; nothing if it is one or none.

    A process that does not answer for so long is given up by the others.
    """
    if own_rank() is None:
        yield
        return
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        raise DataError(
            f"Several processes learn together by torch, and {error.name} is not installed; "
            'pip install "ordinalrbm[distributed]", or start a single process.'
        ) from error
    on_gpu = device.startswith("cuda") and torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(_variable("LOCAL_RANK") % torch.cuda.device_count())
    from ordinalrbm.runtime.process_group import with_others

    with_others(_join, dist, "nccl" if on_gpu else "gloo", timeout)
    yield
    # Not after an error: others may wait where this process never comes, and torchrun ends them.
    dist.destroy_process_group()


def _join(dist: Any, backend: str, timeout: timedelta) -> None:
    store, rank, size = next(dist.rendezvous("env://", timeout=timeout))
    # After a restart the store still holds the addresses of processes that have ended.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(f"attempt-{attempt}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)

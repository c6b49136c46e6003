"""Limits on memory (``ulimit -v``, ``ulimit -d``): too low ones are refused before they do harm.

OpenBLAS, which NumPy and SciPy bring, asks for its buffers again and again without end when it is
loaded and gets none, and no signal is heard meanwhile. Other libraries end with riddles.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from ordinalrbm.errors import DataError

_MB = 1_000_000


class MemoryLimitError(DataError):
    """The memory that a process may have is too little for the libraries alone."""


class _Limit(NamedTuple):
    """A limit that is set, and what all libraries need of it, without any data."""

    command: str
    allowed: int  # bytes
    needed: int  # MB


# MB measured with `fit`, `evaluate` and `report`, kernels compiled or not: the libraries, a thread.
_NEEDS = (("ulimit -v", "RLIMIT_AS", 2500, 160), ("ulimit -d", "RLIMIT_DATA", 1600, 100))
# What libraries say who get no memory, or no thread, for which memory is needed too.
_NO_MEMORY = ("failed to map segment", "annot allocate memory")
_NO_THREAD = ("can't start new thread", "Failed to launch worker thread")


def _set_limits() -> list[_Limit]:
    try:
        import resource
    except ImportError:  # Windows has none
        return []
    found = []
    for command, name, of_libraries, of_a_thread in _NEEDS:
        allowed, _ = resource.getrlimit(getattr(resource, name))
        if allowed != resource.RLIM_INFINITY:
            found.append(_Limit(command, allowed, of_libraries + of_a_thread * _n_threads()))
    return found


def refuse_low_limits() -> None:
    """Raise where the libraries would not fit; where they do, load what must not fail later.

    Else data could take the room that OpenBLAS needs.
    """
    limits = _set_limits()
    for command, allowed, needed in limits:
        if allowed < needed * _MB:
            raise MemoryLimitError(
                f"This process may have {allowed // _MB:,} MB of memory, and the libraries need "
                f"{needed:,} MB with {_n_threads()} threads; raise the limit with "
                f"`{command} {-(-needed * _MB // 1024)}` or more."
            )
    if limits:
        import scipy.linalg  # noqa: F401


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is a library's way to say that there is no memory left.

    Examples
    --------
    >>> is_out_of_memory(ImportError("libfoo.so: failed to map segment from shared object"))
    True
    """
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    words = (*_NO_MEMORY, *_NO_THREAD) if _set_limits() else _NO_MEMORY
    return any(word in str(error) for word in words)


def out_of_memory() -> str:
    """What to tell whoever has run out of memory."""
    limits = [f"`{one.command}`: {one.allowed // _MB:,} MB" for one in _set_limits()]
    if not limits:
        return "The memory of this machine is not enough; use fewer rows."
    return (
        f"The memory that this process may have ({' and '.join(limits)}) is not enough; raise it "
        "or use fewer rows."
    )


def _n_threads() -> int:
    """How many threads each of the libraries starts."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdigit() and int(said) > 0:
        return int(said)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1

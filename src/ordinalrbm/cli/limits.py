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
    bytes: int
    needed: int


def _set_limits() -> list[_Limit]:
    try:
        import resource
    except ImportError:  # Windows has none
        return []
    # MB measured with `fit`, `evaluate` and `report`, kernels compiled or not, 1 to 32 threads.
    known = (
        ("ulimit -v", resource.RLIMIT_AS, 2500, 160),
        ("ulimit -d", resource.RLIMIT_DATA, 1600, 100),
    )
    found = []
    for command, number, of_libraries, of_a_thread in known:
        allowed, _ = resource.getrlimit(number)
        if allowed != resource.RLIM_INFINITY:
            needed = (of_libraries + of_a_thread * _n_threads()) * _MB
            found.append(_Limit(command, allowed, needed))
    return found


def refuse_low_limits() -> None:
    """Raise where the libraries would not fit; where they do, load what must not fail later.

    Else data could take the room that OpenBLAS needs.
    """
    limits = _set_limits()
    for limit in limits:
        if limit.bytes < limit.needed:
            raise MemoryLimitError(
                f"This process may have {limit.bytes // _MB:,} MB of memory, and the libraries "
                f"need {limit.needed // _MB:,} MB with {_n_threads()} threads; raise the limit "
                f"with `{limit.command} {-(-limit.needed // 1024)}` or more."
            )
    if limits:
        import scipy.linalg  # noqa: F401


# What libraries say who get no memory, or no thread, for which memory is needed too.
_NO_MEMORY = ("failed to map segment", "annot allocate memory")
_NO_THREAD = ("can't start new thread", "Failed to launch worker thread")


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
    limits = _set_limits()
    if not limits:
        return "The memory of this machine is not enough; use fewer rows."
    told = " and ".join(f"`{limit.command}`: {limit.bytes // _MB:,} MB" for limit in limits)
    return (
        f"The memory that this process may have ({told}) is not enough; raise it or use fewer rows."
    )


def _n_threads() -> int:
    """How many threads each of the libraries starts."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdigit() and int(said) > 0:
        return int(said)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

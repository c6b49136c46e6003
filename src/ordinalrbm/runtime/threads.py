"""What all estimators do around their work: seeds, threads, a note when learning was stopped."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, lru_cache
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

from ordinalrbm.runtime.display import print_to_stderr

# What the process may use, or what NUMBA_NUM_THREADS says.
CORES: int = vars(numba.config)["NUMBA_NUM_THREADS"]


def seed_from(random_state: Any, stored: int | None = None) -> int:
    """Return the seed of all that a call draws; a given generator moves on by one number.

    ``stored`` is the seed when ``random_state`` is None.
    """
    from sklearn.utils import check_random_state  # kernels need threads, but nothing of this

    if random_state is None and stored is not None:
        return stored
    return int(check_random_state(random_state).randint(2**31 - 1))


_local = threading.local()


def thread_count() -> int:
    """How many threads work for the calling one, itself included."""
    return getattr(_local, "limit", CORES)


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Let at most ``n_jobs`` threads work for this one; None and -1 change nothing."""
    before = thread_count()
    if n_jobs is not None and n_jobs != -1:
        _local.limit = max(1, min(n_jobs, CORES))
    try:
        yield
    finally:
        _local.limit = before


def _work_alone() -> None:
    _local.limit = 1


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads that help; a forked process has none of its parent's."""
    return ThreadPoolExecutor(max(CORES - 1, 1), "ordinalrbm", _work_alone)


def share(work: Callable[[Iterator[Any]], None], parts: Iterator[Any], n_helpers: int) -> None:
    """Let this thread and helpers take parts until there are none left.

    A helper that has not started when all are taken never will: nobody waits for a pool that is busy.
    """
    helpers = []
    with suppress(RuntimeError):  # no thread can be started, or Python ends: those that there are do it
        for _ in range(n_helpers):
            helpers.append(_pool(os.getpid()).submit(work, parts))
    try:
        work(parts)
    finally:
        for _ in parts:  # after an interruption, none for the helpers
            pass
        started = [helper for helper in helpers if not helper.cancel()]
        wait(started)
        for helper in started:
            helper.result()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Multiply matrices with one thread, so that sums come out the same on any machine."""
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(1)
def _controller(n_modules: int) -> ThreadpoolController:
    """What is loaded; looking for it takes milliseconds, so again only when more was imported."""
    return ThreadpoolController()


def report_interruption(n_epochs: int, best_epoch: int) -> None:
    print_to_stderr(
        f"ordinalrbm: learning was stopped after epoch {n_epochs}; "
        f"the model of epoch {best_epoch}, the best so far, is kept."
    )

"""What all estimators do around their work: seeds, threads, a note when learning was stopped."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any

import numba
from sklearn.utils import check_random_state
from threadpoolctl import ThreadpoolController

from ordinalrbm.runtime.jit import print_to_stderr

# Asking Numba how many there are would start them, and threads do not survive a fork.
_MAX_THREADS: int = vars(numba.config)["NUMBA_NUM_THREADS"]


def seed_from(random_state: Any, stored: int | None = None) -> int:
    """Return the seed of all that a call draws; a given generator moves on by one number.

    ``stored`` is the seed when ``random_state`` is None.
    """
    if random_state is None and stored is not None:
        return stored
    return int(check_random_state(random_state).randint(2**31 - 1))


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Run with ``n_jobs`` threads, at most those that Numba was started with."""
    before = numba.get_num_threads()
    if n_jobs is not None and n_jobs != -1:
        numba.set_num_threads(max(1, min(n_jobs, _MAX_THREADS)))
    try:
        yield
    finally:
        numba.set_num_threads(before)


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

"""What all estimators do around their work: seeds, threads, a note when learning was stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
from sklearn.utils import check_random_state

from ordinalrbm.runtime.jit import print_to_stderr

# Asking Numba how many there are would start them, and threads do not survive a fork.
_MAX_THREADS: int = vars(numba.config)["NUMBA_NUM_THREADS"]


def seed_from(random_state: Any, stored: int | None = None) -> int:
    """Return the seed of all that a call draws; a given generator moves on by one number.

    ``stored`` is the seed when ``random_state`` is None.

    Examples
    --------
    >>> seed_from(0) == seed_from(0)
    True
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


def report_interruption(n_epochs: int, best_epoch: int) -> None:
    """Print which model is kept when learning was stopped by hand."""
    print_to_stderr(
        f"ordinalrbm: learning was stopped after epoch {n_epochs}; "
        f"the model of epoch {best_epoch}, the best so far, is kept."
    )

"""Rows in blocks: each is worked on once, whoever takes it; errors, interruptions and forks."""

import multiprocessing
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ordinalrbm.runtime import blocks
from ordinalrbm.runtime import threads as runtime_threads
from ordinalrbm.runtime.blocks import MANY, each, over_rows
from ordinalrbm.runtime.threads import thread_count, threads


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    """Threads that take blocks of a few rows."""
    monkeypatch.setattr(runtime_threads, "CORES", 4)
    monkeypatch.setattr(blocks, "_WORTH_A_THREAD", 1e-9)
    runtime_threads._pool.cache_clear()
    with threads(4):
        yield
    runtime_threads._pool.cache_clear()


def count(start, stop, counts):
    counts[start:stop] += 1
    time.sleep(1e-4)  # as a kernel lets Python's lock go


@pytest.mark.parametrize("n", [0, 1, 2, 3, 511, 512, 513, 5_000])
@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_every_row_is_done_once(n, n_threads):
    counts = np.zeros(n, dtype=int)
    with threads(n_threads):
        over_rows(count, n, counts)
    assert (counts == 1).all()


def test_each_thread_has_memory_of_its_own():
    users = {}

    def kernel(start, stop, memory):
        users.setdefault(id(memory), set()).add(threading.get_ident())
        time.sleep(1e-3)

    made = []
    over_rows(kernel, 1_000, scratch=lambda: made.append(np.empty(3)) or made[-1])
    assert len(made) > 1
    assert all(len(threads_of_one) == 1 for threads_of_one in users.values())


def test_what_takes_no_time_is_done_by_the_caller(monkeypatch):
    monkeypatch.setattr(blocks, "_WORTH_A_THREAD", 10.0)
    callers = set()
    over_rows(lambda start, stop: callers.add(threading.get_ident()), 1_000)
    assert callers == {threading.get_ident()}


def test_an_error_is_raised_whoever_meets_it():
    def kernel(start, stop):
        time.sleep(1e-4)
        if threading.get_ident() != caller:
            raise ArithmeticError("in a helper")

    caller = threading.get_ident()
    with pytest.raises(ArithmeticError):
        over_rows(kernel, 2_000)


def test_after_an_interruption_no_block_is_begun():
    done = []

    def kernel(start, stop):
        time.sleep(1e-3)
        done.append(start)
        if threading.get_ident() == caller and len(done) > 3:
            raise KeyboardInterrupt

    caller = threading.get_ident()
    with pytest.raises(KeyboardInterrupt):
        over_rows(kernel, 10_000)
    at_once = len(done)
    time.sleep(0.05)
    assert len(done) == at_once < 64


def test_work_within_work_waits_for_nobody():
    counts = np.zeros((40, 300), dtype=int)

    def work(k):
        over_rows(count, 300, counts[k])
        return thread_count()

    with ThreadPoolExecutor(8) as pool:  # more callers than helpers
        results = list(pool.map(lambda _: each(work, range(40), MANY), range(3)))
    assert (counts == 3).all()
    assert {1} <= set().union(*results) <= {1, 4}


def test_the_first_error_of_parts_is_raised():
    def work(k):
        time.sleep(1e-3 * (10 - k))
        raise ValueError(k)

    for _ in range(5):
        with pytest.raises(ValueError, match=r"^0$"):
            each(work, range(10), MANY)


def in_child(queue):
    counts = np.zeros(2_000, dtype=int)
    with threads(4):
        over_rows(count, 2_000, counts)
    queue.put((counts == 1).all())


@pytest.mark.skipif(sys.platform == "win32", reason="nothing forks there")
def test_a_forked_child_has_threads_of_its_own():
    counts = np.zeros(2_000, dtype=int)
    over_rows(count, 2_000, counts)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    assert queue.get()
    child.join(60)
    assert child.exitcode == 0

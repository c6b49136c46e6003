"""The process in which files that are spoilt are read."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest


@pytest.fixture(scope="session")
def another_process():
    """Another process, so that a crash is seen; one for all tests, since its start takes seconds."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool

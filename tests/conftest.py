"""How tests are found: the documentation tests of this folder are those of its pages, in test_docs.py."""

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for no examples in docstrings of tests: there are none, and looking takes seconds."""
    return [collector for collector in (yield) if not isinstance(collector, DoctestModule)]

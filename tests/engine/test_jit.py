"""The fingerprint of compiled code: which changes make a kernel be compiled anew."""

import importlib
import sys

import pytest

from ordinalrbm.engine import annealing, gibbs, mean_field
from ordinalrbm.runtime import jit

KERNELS = """
from enum import IntEnum
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.normal import single
from ordinalrbm.runtime.jit import compiled, inlined, inlined_sum, kernel_function

UNUSED, FACTOR = 1, 2.0

class Purpose(IntEnum):
    FIRST = 3

@inlined
def twice(x):
    return FACTOR * x

@kernel_function
def part(x):
    return twice(x) + single.log(x)

@compiled
def kernel(x):
    return part(x) + Purpose.FIRST + thresholds.LARGEST_CUTPOINT
"""


@pytest.fixture
def fingerprint(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # known by time and size, which stay the same

    def of(source: str) -> str:
        (tmp_path / "kernels_to_change.py").write_text(source)
        importlib.invalidate_caches()
        sys.modules.pop("kernels_to_change", None)
        return jit._fingerprint(importlib.import_module("kernels_to_change").kernel.py_func)

    yield of
    sys.modules.pop("kernels_to_change", None)


@pytest.mark.parametrize(
    "change",
    [
        ("part(x) +", "part(x) -"),
        ("return twice(x)", "return x + twice(x)"),
        ("FACTOR * x", "FACTOR * x * x"),
        ("FACTOR = 1, 2.0", "FACTOR = 1, 3.0"),
        ("FIRST = 3", "FIRST = 4"),
        ("single.log(x)", "single.logistic(x)"),
        ("import single", "import double as single"),
        ("@inlined\n", "@inlined_sum\n"),
        ("@inlined\n", "@kernel_function\n"),
    ],
)
def test_what_a_kernel_is_made_of_changes_its_fingerprint(fingerprint, change):
    assert fingerprint(KERNELS) != fingerprint(KERNELS.replace(*change))


def test_other_changes_do_not(fingerprint):
    moved = KERNELS.replace("UNUSED, FACTOR = 1,", "# a comment\n\nUNUSED, FACTOR = 5,")
    assert fingerprint(KERNELS) == fingerprint(KERNELS) == fingerprint(moved)


def test_constants_of_other_modules_count(monkeypatch):
    before = jit._fingerprint(gibbs._row_pass.py_func)
    jit._fingerprint.cache_clear()
    monkeypatch.setattr(gibbs, "_LARGEST_ACTIVATION", 40.0)
    assert jit._fingerprint(gibbs._row_pass.py_func) != before
    jit._fingerprint.cache_clear()


def test_kernels_differ():
    kernels = (gibbs._row_pass, gibbs._column_pass, mean_field._fixed_point, annealing._anneal)
    assert len({jit._fingerprint(kernel.py_func) for kernel in kernels}) == len(kernels)

"""The fingerprint of compiled code: which changes make a kernel be compiled anew."""

import importlib
import sys
from collections import namedtuple

import numpy as np
import pytest
from numba.core import types
from numba.core.registry import cpu_target

from ordinalrbm.engine import annealing, gibbs, mean_field
from ordinalrbm.runtime import jit

KERNELS = """
from enum import IntEnum
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.normal import single
from ordinalrbm.runtime.jit import allocating_kernel, compiled, inlined, inlined_sum, kernel_function

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
        return jit._fingerprint(importlib.import_module("kernels_to_change").kernel)

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
        ("@compiled\n", "@allocating_kernel\n"),
    ],
)
def test_what_a_kernel_is_made_of_changes_its_fingerprint(fingerprint, change):
    assert fingerprint(KERNELS) != fingerprint(KERNELS.replace(*change))


def test_other_changes_do_not(fingerprint):
    moved = KERNELS.replace("UNUSED, FACTOR = 1,", "# a comment\n\nUNUSED, FACTOR = 5,")
    assert fingerprint(KERNELS) == fingerprint(KERNELS) == fingerprint(moved)


def test_constants_of_other_modules_count(monkeypatch):
    before = jit._fingerprint(gibbs._row_pass)
    jit._fingerprint.cache_clear()
    monkeypatch.setattr(gibbs, "_LARGEST_ACTIVATION", 40.0)
    assert jit._fingerprint(gibbs._row_pass) != before
    jit._fingerprint.cache_clear()


def test_kernels_differ():
    kernels = (gibbs._row_pass, gibbs._column_pass, mean_field._fixed_point, annealing._anneal)
    assert len({jit._fingerprint(kernel) for kernel in kernels}) == len(kernels)


def test_a_library_counts_by_its_name_wherever_it_is(monkeypatch):
    before = jit._fingerprint(gibbs._row_pass)
    jit._fingerprint.cache_clear()
    monkeypatch.setattr(np.__spec__, "origin", "elsewhere")
    assert "elsewhere" in repr(np)
    assert jit._fingerprint(gibbs._row_pass) == before


def test_a_file_is_named_by_types_and_fields():
    context = cpu_target.target_context
    numbers = [types.Array(kind, 1, "C") for kind in (types.float32, types.float64)]
    fields = [namedtuple("Pair", names) for names in ("a b", "b a")]
    pairs = [types.NamedTuple((numbers[0], numbers[0]), kind) for kind in fields]
    signatures = [(kind,) for kind in (*numbers, *pairs, types.Tuple(pairs[:1]), types.Tuple(pairs[1:]))]
    names = [gibbs._row_pass._cache._file_name(each, context) for each in signatures]
    assert len(set(names)) == len(names)

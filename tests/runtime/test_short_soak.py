"""Fit, save, load, predict, recommend again and again: nothing is left behind.

`benchmarks/soak.py` does the same for an hour.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from pathlib import Path

import pytest
from long_form import only_long

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from soak import TURNS, cycle, use


@only_long
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="handles are counted in /proc")
def test_nothing_is_left_behind(tmp_path):
    def a_round(first: int) -> tuple[int, int, int]:
        for number in range(first, first + TURNS):
            cycle(number, tmp_path, n_respondents=100, n_users=40, n_items=20)
        gc.collect()
        now = use()
        return tracemalloc.get_traced_memory()[0], now.handles, now.threads

    tracemalloc.start()
    try:
        a_round(0)  # imports, compiled code, tables that are made once
        before = a_round(TURNS)
        after = a_round(2 * TURNS)
    finally:
        tracemalloc.stop()
    assert after[1:] == before[1:]
    # A table of answers kept by each of the cycles would be 30 kB each.
    assert after[0] - before[0] < 60_000
    assert list(tmp_path.iterdir()) == []

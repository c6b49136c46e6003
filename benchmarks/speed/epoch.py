"""One epoch on pisa: the compiled engine beside the NumPy reference, and how it scales.

    python benchmarks/speed/epoch.py

An epoch is a clamped and a free phase over all rows, in batches, without the updates (which both
engines would share). Ratios are of best times within this one run; the reference is timed on part
of the rows and scaled up.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pandas as pd

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import gibbs
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.vector.initial import initial_model
from ordinalrbm.vector.model import side

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "conformance"))
import plain_gibbs
from sources import DATA

BATCH, REFERENCE_ROWS, REPEATS = 200, 4_000, 3


def pisa() -> pd.DataFrame:
    return pd.read_parquet(DATA / "pisa2009-north-america.parquet").drop(columns="country")


def observations(table: pd.DataFrame) -> Observations:
    levels = table.to_numpy(na_value=0.0).astype(np.int16) - 1
    return Observations.from_dense(levels, levels.max(axis=0) + 1)


def epoch(engine: ModuleType, this: Side, factors: np.ndarray, n_rows: int) -> None:
    for start in range(0, n_rows, BATCH):
        batch = Batch(start, min(start + BATCH, n_rows), 0, 0, 1)
        engine.clamped_phase(this, factors, batch)
        engine.free_phase(this, factors, batch)


def best(work: Callable[[], None], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def compiled(answers: Observations, n_factors: int, threads: int) -> float:
    model = initial_model(answers, n_factors, 1, 0)
    this = side(model, answers)
    factors = np.zeros((answers.n_rows, n_factors), dtype=np.uint8)
    numba.set_num_threads(threads)
    epoch(gibbs, this, factors, BATCH)  # compile
    return best(lambda: epoch(gibbs, this, factors, answers.n_rows))


def timings() -> None:
    answers = observations(pisa())
    part = answers.take_rows(np.arange(REFERENCE_ROWS))
    this = side(initial_model(part, 50, 1, 0), part)
    factors = np.zeros((REFERENCE_ROWS, 50), dtype=np.uint8)
    slow = best(lambda: epoch(plain_gibbs, this, factors, REFERENCE_ROWS), 2)
    slow *= answers.n_entries / part.n_entries
    one, two = compiled(answers, 50, 1), compiled(answers, 50, 2)
    print(f"pisa, {answers.n_rows:,} rows, {answers.n_entries:,} answers, K = 50, one epoch")
    print(f"  NumPy reference          {slow:8.2f} s")
    print(f"  compiled, 1 thread       {one:8.2f} s   {slow / one:5.1f} x the reference")
    print(f"  compiled, 2 threads      {two:8.2f} s   {slow / two:5.1f} x the reference")
    print(f"  2 threads against 1      {one / two:8.2f} x")
    half = compiled(answers.take_rows(np.arange(answers.n_rows // 2)), 50, 2)
    print(f"  rows doubled             {two / half:8.2f} x the time")
    print(f"  factors doubled (100)    {compiled(answers, 100, 2) / two:8.2f} x the time")


MEMORY = """
import sys, tracemalloc
sys.path.insert(0, {here!r})
import ordinalrbm as orbm
from epoch import pisa
table = pisa()
model = orbm.CumulativeRBM.binary(n_factors=50, n_epochs=1, random_state=0)
model.fit(table.head(500))
tracemalloc.start()
model.fit(table)
_, peak = tracemalloc.get_traced_memory()
answers, chains = int(table.notna().to_numpy().sum()), 2 * len(table) * 50
print(f"  peak above the table     {{(peak - chains) / answers:8.1f}} bytes per answer, "
      f"{{chains / 1e6:.1f}} MB of chains not counted")
"""


def memory() -> None:
    """Fit in a process of its own, so that the peak is that of the fit alone."""
    code = MEMORY.format(here=str(Path(__file__).parent))
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout, end="")


if __name__ == "__main__":
    timings()
    memory()

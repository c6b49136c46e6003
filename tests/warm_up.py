"""Compile the kernels once, in two processes, before the tests are shared among several.

Else each process of pytest-xdist would compile all of them for itself.
"""

import multiprocessing
import time

import numpy as np

from ordinalrbm.cli.warm_up import compile_kernels
from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.half_sweep import CPU_ENGINE
from ordinalrbm.matrix import variational


def use(kind: str) -> None:
    """Use all models of surveys or of ratings."""
    for name, first, again in compile_kernels(surveys=kind == "surveys", ratings=kind == "ratings"):
        print(f"{name}: {first:.1f} s, then {again:.1f} s", flush=True)
    if kind == "surveys":  # which are done first
        begun = time.perf_counter()
        update_in_stages()
        print(f"updates in stages: {time.perf_counter() - begun:.1f} s", flush=True)


def update_in_stages() -> None:
    """What several processes do together: their tests start dozens of them."""
    ratings = Observations.from_dense(np.arange(60).reshape(12, 5) % 5, np.full(5, 5))
    rows, columns, of_rows, of_columns, *_ = variational.start(ratings, 2, 0, variational.Precisions())
    CPU_ENGINE.staged_half_sweep(ratings, rows, columns, of_rows)
    CPU_ENGINE.staged_half_sweep(ratings.transpose(), columns, rows, of_columns)


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(use, ["surveys", "ratings"])

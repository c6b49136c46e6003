"""A hundred million ratings from a table in memory to a model: what is waited for, stage by stage.

    python benchmarks/gpu/host_path.py [--scale 1.0] [--factors 100]

A shuffled DataFrame of Netflix' shape (480,189 x 17,770, 100.1 M ratings; int32 ids, int8 ratings),
with the ratings made up on the device. The first fit compiles, unless the machine has done so
before.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from netflix_shaped import made

import ordinalrbm as orbm
from ordinalrbm.runtime.stages import timings


def table(scale: float) -> pd.DataFrame:
    row, column, level = made(torch.device("cuda"), scale).observations().cells()
    order = np.random.default_rng(0).permutation(row.size)
    return pd.DataFrame(
        {
            "user": row[order].astype(np.int32),
            "item": column[order].astype(np.int32),
            "rating": (level[order] + 1).astype(np.int8),
        }
    )


def timed(what: str, call: Callable[[], Any]) -> Any:
    begun = time.perf_counter()
    with timings() as seconds:
        found = call()
    print(f"{what:34} {time.perf_counter() - begun:7.2f} s", flush=True)
    for name, took in seconds.items():
        print(f"    {name:38} {took:7.2f} s", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--fits", type=int, default=2)
    given = parser.parse_args()
    frame = table(given.scale)
    torch.cuda.empty_cache()
    print(f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores; {len(frame):,} ratings")
    for number in range(given.fits):
        model = orbm.OrdinalMF(given.factors, device="cuda", random_state=0)
        timed(f"fit {number + 1}", lambda model=model: model.fit(frame))
    print(f"    {model.n_iter_} epochs")
    timed("recommend('all')", lambda: model.recommend("all"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.orbm"
        timed("save", lambda: model.save(path))
        again = timed("load", lambda: orbm.load(path))
        timed("first recommend after load", lambda: again.recommend(7))


if __name__ == "__main__":
    main()

"""A hundred million ratings from a table to a model: what is waited for, stage by stage.

    python benchmarks/gpu/host_path.py [--scale 1.0] [--factors 100] [--folder FOLDER]

Ratings of Netflix' shape (480,189 x 17,770, 100.1 M ratings; int32 ids, int8 ratings) are made up
on the device and shuffled. Each of these is a process of its own, as somebody would start it:

- a fit that finds nothing compiled, and a second in the same process;
- `ordinalrbm doctor --compile --device cuda`, where the cache of another machine is empty;
- with what that has compiled: a fit, a second, a third of a folder of sixteen Parquet files,
  recommendations for everybody, the model file;
- the first recommendation after the model file is read;
- `ordinalrbm fit` of the folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import ordinalrbm as orbm
from ordinalrbm.files.ratings import read_rating_file
from ordinalrbm.runtime.timing import timings

N_FILES = 16


def table(scale: float) -> pd.DataFrame:
    import torch
    from netflix_shaped import made

    return made(torch.device("cuda"), scale).shuffled()


def timed(what: str, call: Callable[[], Any]) -> Any:
    begun = time.perf_counter()
    with timings() as seconds:
        found = call()
    print(f"{what:36} {time.perf_counter() - begun:7.2f} s", flush=True)
    for name, took in seconds.items():
        print(f"    {name:38} {took:7.2f} s", flush=True)
    return found


def fits(folder: Path, n_factors: int, model_file: Path | None = None) -> None:
    frame = pd.read_parquet(folder)
    for which in ("first", "second"):
        model = orbm.OrdinalMF(n_factors, device="cuda", random_state=0)
        timed(f"{which} fit of a process", lambda model=model: model.fit(frame))
    print(f"    {model.n_iter_} epochs")
    if model_file is not None:
        again = orbm.OrdinalMF(n_factors, device="cuda", random_state=0)
        timed("the folder, read and learnt from", lambda: again.fit(read_rating_file(folder)))
        timed("recommend('all')", lambda: model.recommend("all"))
        timed("recommend('all') again", lambda: model.recommend("all"))
        timed("save", lambda: model.save(model_file))


def loads(model_file: Path) -> None:
    timed("import of the estimator", lambda: orbm.OrdinalMF)
    model = timed("load", lambda: orbm.load(model_file))
    timed("first recommend after load", lambda: model.recommend(7))
    timed("second", lambda: model.recommend(8))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where ratings are, or will be, written to")
    parser.add_argument("--without-doctor", action="store_true", help="as compiled by a first fit")
    parser.add_argument("--only", choices=("make", "cold", "fits", "loads"))
    given = parser.parse_args()
    if given.only is None:
        with tempfile.TemporaryDirectory() as folder:
            run_all(given, given.folder or Path(folder))
    elif given.only == "make":
        frame = table(given.scale)
        for k in range(N_FILES):
            part = slice(k * len(frame) // N_FILES, (k + 1) * len(frame) // N_FILES)
            frame[part].to_parquet(given.folder / "ratings" / f"{k:02}.parquet")
        print(f"{os.cpu_count()} cores; {len(frame):,} ratings", flush=True)
    elif given.only == "loads":
        loads(given.folder / "model.orbm")
    else:
        file = given.folder / "model.orbm" if given.only == "fits" else None
        fits(given.folder / "ratings", given.factors, file)


def run_all(given: argparse.Namespace, folder: Path) -> None:
    (folder / "ratings").mkdir(exist_ok=True)
    caches = {"TRITON_CACHE_DIR": folder / "triton", "NUMBA_CACHE_DIR": folder / "numba"}
    warm = {name: f"{place}-by-doctor" for name, place in caches.items()}
    if given.without_doctor:
        warm = caches
    own = [
        sys.executable,
        __file__,
        "--folder",
        str(folder),
        "--scale",
        str(given.scale),
        "--factors",
        str(given.factors),
        "--only",
    ]
    command = [sys.executable, "-m", "ordinalrbm"]
    fit = [
        "fit",
        str(folder / "ratings"),
        "--out",
        str(folder / "by-command.orbm"),
        "--factors",
        str(given.factors),
        "--device",
        "cuda",
        "--timings",
        "--quiet",
    ]
    for what, where, arguments in (
        ("ratings", caches, [*own, "make"]),
        ("nothing compiled", caches, [*own, "cold"]),
        ("doctor --compile", warm, [*command, "doctor", "--compile", "--device", "cuda"]),
        ("all is compiled", warm, [*own, "fits"]),
        ("reading the model", warm, [*own, "loads"]),
        ("fit of a Parquet folder", warm, [*command, *fit]),
    ):
        if given.without_doctor and "doctor" in arguments:
            continue
        begun = time.perf_counter()
        print(f"--- {what}", flush=True)
        subprocess.run(arguments, check=True, env={**os.environ, **{k: str(v) for k, v in where.items()}})
        print(f"--- {what}: {time.perf_counter() - begun:.1f} s in all", flush=True)


if __name__ == "__main__":
    main()

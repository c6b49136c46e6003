"""Spark and Ray on this machine: the model of one process, seconds and memory.

    python benchmarks/clusters.py spark [--data ml-1m | --made-up 20000000] [--score 10000000]
    python benchmarks/clusters.py ray   [...]

Two processes learn, each with one thread: executors of a local cluster of Spark, which are processes
of their own, or workers of Ray. They are given a folder of Parquet files; one process learns from the
same ratings beside them, unless they are made up; then the model is written to a file by the first of
the two and read by those that predict, so that the driver sees nothing of it. Memory is the most that
processes of a kind had resident at once, looked at four times a second, of all on this machine: let no
other Spark or Ray run beside it. Kernels are compiled before.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ordinalrbm as orbm

sys.path.append(str(Path(__file__).resolve().parent))
from sources import ratings

SOURCE = str(Path(orbm.__file__).resolve().parents[1])
SETTINGS: dict[str, Any] = {"n_factors": 20, "n_epochs": 10, "random_state": 0}
N_ITEMS = 20_000


class Memory(threading.Thread):
    """What this process and those that it has started have resident, by kind, at most."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most: dict[str, float] = {}

    def run(self) -> None:
        while True:
            now: dict[str, float] = {}
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    kind = _kind(folder)
                    resident = int((folder / "statm").read_text().split()[1]) * 4096 / 2**20
                except OSError:  # it has ended
                    continue
                now[kind] = now.get(kind, 0.0) + resident
            for kind, size in now.items():
                self.most[kind] = max(size, self.most.get(kind, 0.0))
            time.sleep(0.25)

    def tell(self) -> None:
        for kind, size in sorted(self.most.items()):
            if kind:
                print(f"  {kind:40}{size:10,.0f} MiB at most")
        self.most.clear()


def _kind(folder: Path) -> str:
    if folder.name == str(os.getpid()):
        return "driver"
    said = (folder / "cmdline").read_bytes().decode(errors="replace")
    names = {
        "CoarseGrainedExecutorBackend": "Java of both executors",
        "SparkSubmit": "Java of the driver",
        "pyspark.daemon": "Python of both executors",
        "ray::": "workers of Ray",
        "raylet": "Ray itself, with its store",
    }
    return next((name for part, name in names.items() if part in said), "")


def spark_engine() -> tuple[Any, Any, Callable[[Any], int]]:
    """The engine, a reader of folders, and what looks at all rows of a result."""
    import pyspark
    from pyspark.sql import SparkSession

    from ordinalrbm import spark

    os.environ.update(SPARK_HOME=str(Path(pyspark.__file__).parent), PYSPARK_PYTHON=sys.executable)
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    for name, value in {"PYTHONPATH": SOURCE, "NUMBA_NUM_THREADS": "1"}.items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    session = builder.config("spark.driver.memory", "1g").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    print(f"pyspark {pyspark.__version__}")
    return spark, session.read.parquet, lambda found: found.agg({"prediction": "count"}).first()[0]


def ray_engine() -> tuple[Any, Any, Callable[[Any], int]]:
    import ray

    from ordinalrbm import ray as engine

    os.environ.update(PYTHONPATH=SOURCE, NUMBA_NUM_THREADS="1")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=2**30)
    ray.data.DataContext.get_current().enable_progress_bars = False
    print(f"ray {ray.__version__}")
    return engine, ray.data.read_parquet, lambda found: found.materialize().count()


def made_up(folder: Path, n: int) -> None:
    """So many ratings, a hundred or fewer of a user, in files of a million rows, made one at a time."""
    size = 1_000_000
    for k in range(-(-n // size)):
        rng = np.random.default_rng(k)
        user = np.repeat(np.arange(size // 100) + k * (size // 100), 100)
        item = (N_ITEMS * rng.random(size) ** 2).astype(np.int64)
        taste = (user % 7 - 3) * (item % 5 - 2) / 8
        rating = np.clip(np.rint(3.4 + taste + rng.normal(size=size)), 1, 5).astype(np.int64)
        time = rng.integers(10**9, 2 * 10**9, size)
        frame = pd.DataFrame({"user": user, "item": item, "rating": rating, "timestamp": time})
        frame = frame.drop_duplicates(["user", "item"])
        frame.to_parquet(folder / f"{k:04}.parquet", row_group_size=250_000)


def timed(what: str, work: Callable[[], Any]) -> Any:
    begun = time.perf_counter()
    found = work()
    print(f"{what:42}{time.perf_counter() - begun:10.1f} s", flush=True)
    return found


def compare(found: orbm.OrdinalMF, frame: pd.DataFrame) -> None:
    one = timed("one process", lambda: orbm.OrdinalMF(**SETTINGS, n_jobs=1).fit(frame))
    some = frame.sample(100_000, random_state=0)
    both = [model.predict_proba(some["user"], some["item"]) for model in (found, one)]
    print(f"largest difference of a probability       {np.abs(both[0] - both[1]).max():.1e}")
    lists = [model.recommend(some["user"].unique()[:2000], n=10)["item"] for model in (found, one)]
    print(f"recommended items that are the same       {(lists[0] == lists[1]).mean():.4%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=["spark", "ray"])
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--made-up", type=int, default=0)
    parser.add_argument("--score", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "ratings"
        folder.mkdir()
        frame = None if given.made_up else ratings(given.data)
        if frame is None:
            made_up(folder, given.made_up)
        else:
            frame.to_parquet(folder / "ratings.parquet", row_group_size=100_000)
        engine, read, look = spark_engine() if given.engine == "spark" else ray_engine()
        memory = Memory()
        memory.start()
        path = Path(home) / "model.orbm" if given.made_up else None
        for again in ("with its start", ""):
            if again and given.made_up:
                continue
            two = timed(
                f"two processes on {given.engine} {again}",
                lambda: engine.fit(read(str(folder)), orbm.OrdinalMF(**SETTINGS), 2, path),
            )
        memory.tell()
        if frame is not None:
            compare(two, frame)
            size = len(model_bytes(two))
        else:
            size = path.stat().st_size
        print(f"{given.made_up or len(frame):,} ratings; the model is {size / 2**20:.0f} MiB")
        if given.score:
            pairs = Path(home) / "pairs"
            pairs.mkdir()
            users, items = np.arange(given.made_up // 100), np.arange(N_ITEMS)
            if path is None:
                users, items = two.users_.labels, two.items_.labels
            some_pairs(pairs, users, items, given.score)
            memory.most.clear()
            n = timed("scoring", lambda: look(engine.predict(path or two, read(str(pairs)))))
            print(f"{n:,} pairs were predicted")
            memory.tell()


def model_bytes(model: orbm.OrdinalMF) -> bytes:
    from ordinalrbm.cluster import to_bytes

    return to_bytes(model)


def some_pairs(folder: Path, users: np.ndarray, items: np.ndarray, n: int) -> None:
    rng, size = np.random.default_rng(0), 1_000_000
    for k in range(-(-n // size)):
        pairs = pd.DataFrame({"user": rng.choice(users, size), "item": rng.choice(items, size)})
        pairs.to_parquet(folder / f"{k:04}.parquet")


if __name__ == "__main__":
    main()

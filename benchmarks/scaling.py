"""Seconds per epoch of one process with one thread, and of several with one thread each.

    python benchmarks/scaling.py --data ml-1m --processes 2
    python benchmarks/scaling.py --data ml-1m --processes 4 --same

needs torch. Wall time is what counts; where other programs use the same cores, the processor time
of the busiest process says what the work itself is, without waiting. With ``--same``, whole fits
are compared instead, by what they predict for the test ratings.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FACTORS = 100
# The first epochs, of which the very first warms up; gaps move in every other one.
EPOCHS = 5


def measure(name: str) -> dict[str, list[float]]:
    """Wall and processor seconds of this process for each epoch but the first."""
    from sources import split
    from threadpoolctl import threadpool_limits

    from ordinalrbm.data.ratings import read_ratings
    from ordinalrbm.matrix import variational
    from ordinalrbm.matrix.backends import backend_for
    from ordinalrbm.matrix.gaussian_model import GaussianModel
    from ordinalrbm.matrix.prepare import prepare

    train, _, _ = split(name)
    ready = prepare(read_ratings(train), None, 0.05, seed=0)
    backend = backend_for("cpu")
    n_factors = min(FACTORS, variational.max_identifiable_factors(ready.observations))
    data = backend.data(ready.observations, n_factors)
    start = variational.start(ready.observations, n_factors, 0, variational.Precisions())
    state = backend.to_device(start)
    wall, busy = [], []
    with threadpool_limits(limits=1, user_api="blas"):
        for number in range(1, EPOCHS + 1):
            began = time.perf_counter(), time.process_time()
            state = variational.epoch(data, state, number)
            backend.mean_log_probability(GaussianModel.of_state(state), ready.validation)
            wall.append(time.perf_counter() - began[0])
            busy.append(time.process_time() - began[1])
    return {"wall": wall[1:], "busy": busy[1:]}


def predict(name: str) -> dict[str, Any]:
    """Of a whole fit: epochs, distributions of the test ratings, and what was given instead."""
    from sources import split

    import ordinalrbm as orbm

    train, validation, test = split(name)
    model = orbm.OrdinalMF(FACTORS, random_state=0)
    model.fit(train, validation=validation)
    found = model.predict_proba(test["user"], test["item"])
    level = [model.scales_.labels.index(label) for label in test["rating"]]
    return {"epochs": model.n_iter_, "found": found.tolist(), "level": level}


def work(name: str, same: bool, rank: int, size: int, folder: Path) -> None:
    """One of the processes."""
    import torch.distributed as dist

    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=size)
    found = predict(name) if same else measure(name)
    (folder / f"{rank}.json").write_text(json.dumps(found))


def found_by(name: str, size: int, *options: str) -> list[dict[str, Any]]:
    """What each of so many processes has found."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--data", name, *options]
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen([*command, "--as", str(rank), str(size), folder], env=environment)
            for rank in range(size)
        ]
        if any([process.wait() for process in processes]):
            raise SystemExit("A process has failed.")
        return [json.loads((Path(folder) / f"{r}.json").read_text()) for r in range(size)]


def seconds(name: str, size: int) -> tuple[float, float]:
    """Mean wall seconds per epoch, and processor seconds of the busiest process."""
    found = found_by(name, size)
    return tuple(max(sum(each[kind]) / (EPOCHS - 1) for each in found) for kind in ("wall", "busy"))


def compare(name: str, sizes: list[int]) -> None:
    """Print how far predictions of several processes are from those of one."""
    import numpy as np

    one = None
    for size in (1, *sizes):
        first = found_by(name, size, "--same")[0]
        found, level = np.array(first["found"]), np.array(first["level"])
        one = found if one is None else one
        nll = -np.log(found[np.arange(level.size), level]).mean()
        print(
            f"{size} processes: {first['epochs']} epochs, NLL of {level.size} test ratings "
            f"{nll:.7f}, largest difference of a probability {np.abs(found - one).max():.1e}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--processes", type=int, nargs="+", default=[2])
    parser.add_argument("--same", action="store_true", help="compare what is learnt")
    parser.add_argument("--as", nargs=3, dest="own", metavar=("RANK", "SIZE", "FOLDER"))
    given = parser.parse_args()
    if given.own:
        work(given.data, given.same, int(given.own[0]), int(given.own[1]), Path(given.own[2]))
        return
    if given.same:
        compare(given.data, given.processes)
        return
    one = None
    for size in (1, *given.processes):
        wall, busy = seconds(given.data, size)
        one = one or (wall, busy)
        print(
            f"{size} processes: {wall:.3f} s per epoch (ratio {one[0] / wall:.2f}), "
            f"{busy:.3f} s of processor time (ratio {one[1] / busy:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()

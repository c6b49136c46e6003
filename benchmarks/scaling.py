"""Seconds per epoch of one process with one thread, and of several with one thread each.

    python benchmarks/scaling.py --data ml-1m --processes 2

needs torch. Wall time is what counts; where other programs use the same cores, the processor time
of the busiest process says what the work itself is, without waiting.
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

FACTORS = 50
# The first epochs, of which the very first warms up; widths move in every other one.
EPOCHS = 5


def measure(name: str) -> dict[str, list[float]]:
    """Wall and processor seconds of this process for each epoch but the first."""
    from sources import split
    from threadpoolctl import threadpool_limits

    from ordinalrbm.data.ratings import read_ratings
    from ordinalrbm.learn.arrange import arrange
    from ordinalrbm.learn.machines import machine_for
    from ordinalrbm.model import continuous

    train, _, _ = split(name)
    task = arrange(read_ratings(train), None, 0.05, seed=0)
    machine = machine_for("cpu")
    data = machine.data(task.observations)
    parties = machine.placed(continuous.start(task.observations, 2 * FACTORS, True, seed=0))
    wall, busy = [], []
    with threadpool_limits(limits=1, user_api="blas"):
        for number in range(1, EPOCHS + 1):
            began = time.perf_counter(), time.process_time()
            parties = continuous.epoch(data, parties, number)
            machine.likelihood(parties, (FACTORS, FACTORS), task.validation)
            wall.append(time.perf_counter() - began[0])
            busy.append(time.process_time() - began[1])
    return {"wall": wall[1:], "busy": busy[1:]}


def work(name: str, rank: int, size: int, folder: Path) -> None:
    """One of the processes."""
    import torch.distributed as dist

    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=size)
    (folder / f"{rank}.json").write_text(json.dumps(measure(name)))


def seconds(name: str, size: int) -> tuple[float, float]:
    """Mean wall seconds per epoch, and processor seconds of the busiest process."""
    told = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--data", name, "--as", str(rank), str(size), folder],
                env=told,
            )
            for rank in range(size)
        ]
        if any([process.wait() for process in processes]):
            raise SystemExit("A process has failed.")
        found = [json.loads((Path(folder) / f"{r}.json").read_text()) for r in range(size)]
    return tuple(max(sum(each[kind]) / (EPOCHS - 1) for each in found) for kind in ("wall", "busy"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--processes", type=int, nargs="+", default=[2])
    parser.add_argument("--as", nargs=3, dest="own", metavar=("RANK", "SIZE", "FOLDER"))
    given = parser.parse_args()
    if given.own:
        work(given.data, int(given.own[0]), int(given.own[1]), Path(given.own[2]))
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

"""Two processes that learn together over a bad line, and with one that is lost, hangs or is slow.

    python benchmarks/ranks.py [--data ml-100k] [--only lines|faults]

needs torch; one thread each. Lines are those of far_apart.py, for which one must be root on Linux;
the same two processes learn over one after the other, and over the last nothing comes any more.
Faults are signals to one of two processes of the command line, sent when its third epoch has ended.
Models are compared with that of one process, by the distributions of ratings that it learnt from.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from far_apart import can_be_far_apart
from sources import ratings

import ordinalrbm as orbm

FIT = ["-m", "ordinalrbm", "fit", "ratings.csv", "-k", "20", "--seed", "0", "--quiet"]
FACTORS, EPOCHS = 20, 8  # over a line; enough to tell what an epoch takes
DELAYS, LOSSES = (0, 5, 20, 50), (0, 1)  # milliseconds, one way, and per cent of packets
PATIENCE = 20  # seconds that one waits for one that hangs
FAR_APART = str(Path(__file__).with_name("far_apart.py"))
ALONE = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


class Bench:
    """A folder with ratings, and the models that are learnt from them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.frame = folder, pd.read_csv(folder / "ratings.csv")
        self.some = self.frame.sample(min(len(self.frame), 20_000), random_state=0)

    def predicted(self, model: Any) -> np.ndarray:
        return model.predict_proba(self.some["user"], self.some["item"])

    def difference(self, name: str, other: str) -> float:
        """The largest of a probability, between the models of two files."""
        one, another = (self.predicted(orbm.load(self.folder / each)) for each in (name, other))
        return float(np.abs(one - another).max())

    def start(self, command: list[str], **more: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=self.folder,
            env=os.environ | ALONE | more,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


# ---- lines --------------------------------------------------------------------------------------


def over_lines(bench: Bench) -> None:
    """Start both processes, and print what they say."""
    if not can_be_far_apart():
        raise SystemExit("Networks of one's own need Linux, root, /dev/net/tun and ip.")
    alone = few_epochs().fit(bench.frame)
    np.save(bench.folder / "one.npy", bench.predicted(alone))
    took = np.diff(alone.history_["seconds"])[1:].mean()
    print(f"one process: {took:.3f} s per epoch", flush=True)
    own = [sys.executable, "-u", __file__, "--as-rank", str(bench.folder)]
    process = bench.start([FAR_APART, "--told-by", "line", "--", *own])
    for line in process.stdout:
        print(line, end="", flush=True)
    print(process.communicate()[1].splitlines()[-1], flush=True)


def learn_over(folder: Path) -> None:
    """One of the processes."""
    import torch.distributed as dist
    from plan import Counter, noted_epochs, of_one_epoch, received

    dist.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE))
    rank, bench, first = dist.get_rank(), Bench(folder), None
    so_far = noted_epochs(Counter(dist, rank, 2))
    if rank == 0:
        print("delay   loss  s per epoch  times  delays per epoch  largest difference")
    for delay, loss in product(DELAYS, LOSSES):
        set_line(dist, folder, delay, loss)
        model = few_epochs().fit(bench.frame)
        took = np.diff(model.history_["seconds"])[1:].mean()  # from the third on all are alike
        first = first or took
        waits = f"{(took - first) / delay * 1e3:.0f}" if delay else ""
        if rank == 0:
            far = np.abs(bench.predicted(model) - np.load(folder / "one.npy")).max()
            print(f"{delay:2g} ms  {loss:3g} %  {took:11.3f}  {took / first:5.1f}  {waits:>16}  {far:18.1e}")
    counted = of_one_epoch(so_far)
    print(
        f"process {rank}: {counted['bytes'] / 1e6:.4f} MB received per epoch in "
        f"{counted['calls']:.1f} calls; plan.py says {received(counted['shape'], 2) / 1e6:.4f} MB"
    )
    set_line(dist, folder, 0, 100)
    began = time.perf_counter()
    try:
        few_epochs().fit(bench.frame)
    except orbm.DataError as error:
        print(f"process {rank}, cut off for {time.perf_counter() - began:.1f} s: {error}")


def few_epochs() -> orbm.OrdinalMF:
    return orbm.OrdinalMF(FACTORS, n_epochs=EPOCHS, random_state=0, n_jobs=1)


def set_line(dist: Any, folder: Path, delay: float, loss: float) -> None:
    """When both have come so far; far_apart.py looks some times a second."""
    dist.barrier()
    time.sleep(0.5)
    if dist.get_rank() == 0:
        (folder / "told").write_text(f"{delay:g} {loss:g}")
        (folder / "told").replace(folder / "line")
    time.sleep(0.5)


# ---- faults -------------------------------------------------------------------------------------


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def two(bench: Bench, name: str) -> list[subprocess.Popen]:
    """Both processes, as torchrun would start them; a checkpoint after every epoch."""
    given = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
    }
    options = ["--checkpoint", name, "--every", "1", "--timeout", f"{PATIENCE} s"]
    command = [*FIT, *options, "--out", f"{name}.orbm"]
    return [bench.start(command, **given, RANK=rank, LOCAL_RANK=rank) for rank in ("0", "1")]


def with_fault(bench: Bench, name: str, fault: Callable[[subprocess.Popen], Any]) -> None:
    """Let something happen to the second process, and say how the first ends."""
    processes = two(bench, name)
    while processes[0].poll() is None and not third_epoch(bench.folder / name):
        time.sleep(0.002)
    print(f"\n{name}, --timeout '{PATIENCE} s':")
    began = time.perf_counter()
    fault(processes[1])
    _, said = processes[0].communicate()
    print(f"  process 0 ended {time.perf_counter() - began:.1f} s later")
    processes[1].kill()  # if it hangs
    processes[1].communicate()
    tell_end(bench, processes[0].returncode, said, f"{name}.orbm")
    left = sorted(path.name for path in (bench.folder / name).iterdir() if path.name != ".lock")
    print(f"  left in the folder of checkpoints: {', '.join(left)}")


def third_epoch(folder: Path) -> bool:
    return any(int(path.stem[-6:]) >= 3 for path in folder.glob("*.checkpoint"))


def tell_end(bench: Bench, status: int, said: str, name: str) -> None:
    print(f"  exit status {status}; model written: {(bench.folder / name).exists()}")
    for line in said.splitlines():
        print(f"  {line}")


def every_other_tenth(process: subprocess.Popen) -> None:
    """Let a process run for half of the time, from now on."""

    def stop_and_go() -> None:
        while process.poll() is None:
            for number in (signal.SIGSTOP, signal.SIGCONT):
                process.send_signal(number)
                time.sleep(0.1)

    threading.Thread(target=stop_and_go, daemon=True).start()


FAULTS = {
    "killed": subprocess.Popen.kill,
    "hangs": lambda process: process.send_signal(signal.SIGSTOP),
    "slowed": every_other_tenth,
}


def faults(bench: Bench) -> None:
    bench.start([*FIT, "--out", "whole.orbm"]).communicate()
    for name, fault in FAULTS.items():
        with_fault(bench, name, fault)
    far = bench.difference("slowed.orbm", "whole.orbm")
    print(f"  largest difference of a probability from one process {far:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--only", choices=["lines", "faults"])
    parser.add_argument("--as-rank", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.as_rank:
        learn_over(given.as_rank)
        return
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        frame = ratings(given.data)[["user", "item", "rating"]]
        frame.to_csv(folder / "ratings.csv", index=False)
        if given.only != "faults":
            over_lines(Bench(folder))
        if given.only != "lines":
            faults(Bench(folder))


if __name__ == "__main__":
    main()

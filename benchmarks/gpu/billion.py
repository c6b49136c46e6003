"""A billion ratings on one GPU: the whole fit, stage by stage, and what it takes of both memories.

    python benchmarks/gpu/billion.py [--scale 1.0] [--factors 50] [--sweeps 5]

4.8 million users and 100,000 items, long-tailed; the ratings are made by a model of 20 factors on
the device, shuffled, and given as a DataFrame (int32 ids, int8 ratings). First the variational fit,
then a few sweeps of the sampler, both with rated sets.
"""

from __future__ import annotations

import argparse
import os
import threading
import time

import numpy as np
import torch
from host_path import timed
from netflix_shaped import Shape, made

import ordinalrbm as orbm

BILLION = Shape(4_800_000, 100_000, 1_000_000_000)


class HostMemory:
    """The most memory that the process has while this runs, above what it had before."""

    def __enter__(self) -> HostMemory:
        self.before = self.most = resident()
        self.is_over = threading.Event()
        self.watcher = threading.Thread(target=self._watch)
        self.watcher.start()
        return self

    def _watch(self) -> None:
        while not self.is_over.wait(0.05):
            self.most = max(self.most, resident())

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.watcher.join()


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def learnt(what: str, model: orbm.OrdinalMF, frame) -> None:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with HostMemory() as host:
        timed(what, lambda: model.fit(frame))
    per_rating = (host.most - host.before) / len(frame)
    seconds = np.diff(model.history_["seconds"], prepend=0.0)
    print(
        f"    {model.n_iter_} epochs, the last ones "
        + " ".join(f"{s:.2f}" for s in seconds[-4:])
        + f" s\n    host {per_rating:.1f} bytes per rating above the arrays given, device "
        f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=5)
    given = parser.parse_args()
    begun = time.perf_counter()
    frame = made(torch.device("cuda"), given.scale, shape=BILLION).shuffled()
    print(
        f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores; {len(frame):,} ratings, made in "
        f"{time.perf_counter() - begun:.0f} s",
        flush=True,
    )
    common = {"device": "cuda", "random_state": 0}
    # Compiled on a few of them, so that it is not counted.
    some = frame[:2_000_000]
    for posterior in ("variational", "sampled"):
        short = {"n_epochs": 4, "n_draws": 2} if posterior == "sampled" else {"n_epochs": 4}
        orbm.OrdinalMF(given.factors, posterior=posterior, **short, **common).fit(some)
    learnt("variational", orbm.OrdinalMF(given.factors, **common), frame)
    sampled = orbm.OrdinalMF(
        given.factors, posterior="sampled", n_epochs=given.sweeps, n_draws=2, demand_factors=0, **common
    )
    learnt(f"sampled, {given.sweeps} sweeps", sampled, frame)


if __name__ == "__main__":
    main()

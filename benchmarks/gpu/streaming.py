"""Epochs with ratings on the GPU beside epochs with ratings that are streamed from the host.

    python benchmarks/gpu/streaming.py [--scale 1.0] [--factors 100] [--budget 4.0] [--epochs 5]

Ratings are of Netflix' shape and would fit; ``--budget``, in GB, is what streaming may take of the
device. Both begin alike, so that what they have learnt must be the same to the last bit.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from netflix_shaped import made

from ordinalrbm.matrix import gaussian
from ordinalrbm.matrix.gaussian import GaussianState
from ordinalrbm.matrix.gpu.backend import Cuda


def learnt(backend: Cuda, data, start: GaussianState, epochs: int) -> GaussianState:
    begun = time.perf_counter()
    seen = backend.data(data, start.n_factors)
    state = backend.to_device(start)
    synchronize()
    print(f"  made ready in {time.perf_counter() - begun:.1f} s, by {seen.rows.engine.__name__}")
    if hasattr(seen.rows.answers, "n_blocks"):
        print(f"  {seen.rows.answers.n_blocks} + {seen.columns.answers.n_blocks} blocks")
    seconds = []
    for number in range(1, epochs + 1):
        begun = time.perf_counter()
        state = gaussian.epoch(seen, state, number)
        synchronize()
        seconds.append(time.perf_counter() - begun)
    print("  epochs: " + ", ".join(f"{one:.3f}" for one in seconds) + " s")
    # Gaps are updated in every second epoch, and the first one compiles.
    print(f"  seconds per epoch, mean of the last two: {np.mean(seconds[-2:]):.4f}")
    found = backend.to_host(state)
    if torch.cuda.is_available():
        print(f"  peak {torch.cuda.max_memory_allocated() / 1e9:.2f} GB on the device")
        torch.cuda.reset_peak_memory_stats()
    return found


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--budget", type=float, default=4.0)
    parser.add_argument("--epochs", type=int, default=5)
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = made(device, given.scale).observations()
    start = gaussian.start(data, given.factors, 0, gaussian.Precisions())
    print(
        f"{data.n_rows:,} x {data.n_columns:,}, {data.n_entries:,} ratings; "
        f"{start.n_factors} factors"
    )
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    found = []
    for name, budget in (("resident", None), ("streamed", int(given.budget * 1e9))):
        print(name)
        found.append(learnt(Cuda("cuda", budget), data, start, given.epochs))
    largest = max(
        float(np.abs(one - other).max())
        for first, second in zip(found[0][:2], found[1][:2], strict=True)
        for one, other in zip(first, second, strict=True)
    )
    print(f"largest difference of the result: {largest:g}")


if __name__ == "__main__":
    main()

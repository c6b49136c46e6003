"""Epochs of Gaussian factors on the GPU, on ratings of Netflix' shape.

python benchmarks/gpu/half_sweeps.py [--scale 1.0] [--factors 100] [--epochs 3]
"""

from __future__ import annotations

import argparse
import time

import torch
from netflix_shaped import made
from sweeps import profile

from ordinalrbm.matrix import gaussian
from ordinalrbm.matrix.gpu.backend import Cuda


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=4)
    given = parser.parse_args()
    backend = Cuda("cuda")
    data = made(backend.device, given.scale).observations()
    start = time.perf_counter()
    state = gaussian.start(data, given.factors, 0, gaussian.Precisions())
    print(f"{data.n_entries:,} ratings; start {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    seen, state = backend.data(data, given.factors), backend.to_device(state)
    torch.cuda.synchronize()
    print(f"to the device {time.perf_counter() - start:.1f} s; {given.factors} factors")
    for number in range(1, given.epochs + 1):
        start = time.perf_counter()
        state = gaussian.epoch(seen, state, number)
        torch.cuda.synchronize()
        print(f"epoch {number}: {time.perf_counter() - start:.3f} s")
    print(f"peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    profile(lambda: gaussian.epoch(seen, state, 3))
    print(state.row_prior.precision[:8])


if __name__ == "__main__":
    main()

"""Epochs of continuous factors on the GPU, on ratings of Netflix' shape.

python benchmarks/gpu/renewals.py [--scale 1.0] [--factors 100] [--epochs 3]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from netflix_shaped import made
from sweeps import profile

from ordinalrbm.engine.gpu import half_sweep
from ordinalrbm.engine.gpu.pieces import answers_on
from ordinalrbm.matrix import gaussian
from ordinalrbm.matrix.gaussian import Data, GaussianState, View


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=4)
    given = parser.parse_args()
    device = torch.device("cuda")
    data = made(device, given.scale).observations()
    start = time.perf_counter()
    parties = gaussian.start(data, given.factors, True, 0)
    transposed = data.transpose()
    print(f"{data.n_entries:,} ratings; start {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    rows, columns = (half_sweep.posterior_on(posterior, device) for posterior in parties[:2])
    priors = (
        prior._replace(cutpoints=torch.from_numpy(prior.cutpoints).to(device))
        for prior in parties[2:]
    )
    parties = GaussianState(rows, columns, *priors)
    views = (View(answers_on(part, device), half_sweep) for part in (data, transposed))
    seen = Data(*views, np.unique(data.n_levels))
    torch.cuda.synchronize()
    print(f"to the device {time.perf_counter() - start:.1f} s; width {rows.mean.shape[1]}")
    for number in range(1, given.epochs + 1):
        start = time.perf_counter()
        parties = gaussian.epoch(seen, parties, number)
        torch.cuda.synchronize()
        print(f"epoch {number}: {time.perf_counter() - start:.3f} s")
    print(f"peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    profile(lambda: gaussian.epoch(seen, parties, 3))
    print(parties.row_prior.precision[:8])


if __name__ == "__main__":
    main()

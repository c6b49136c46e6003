"""The sampler as a whole on the GPU: fits of MovieLens 1M, and sweeps at Netflix' shape.

    python benchmarks/gpu/sampling.py [--factors 32 50] [--seeds 1] [--netflix]

A fit takes the chronological split, its defaults, and a machine that has compiled the kernels
before. At Netflix' shape ratings are made up on the device; a sweep has rated sets on both sides.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from netflix_shaped import made

import ordinalrbm as orbm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sources import chain_of, split

SWEEPS = 18


def fits(n_factors: int, n_seeds: int) -> None:
    train, _, test = split("ml-1m")
    model = orbm.OrdinalMF(n_factors, posterior="sampled", n_epochs=6, device="cuda")
    model.fit(train)  # compiles
    for seed in range(n_seeds):
        begun = time.perf_counter()
        model = orbm.OrdinalMF(n_factors, posterior="sampled", random_state=seed, device="cuda")
        model.fit(train)
        seconds = time.perf_counter() - begun
        sampling = model.history_["seconds"].iloc[-1]
        found = model.predict_proba(test["user"], test["item"])
        scores = orbm.evaluate.score(found, test["rating"].to_numpy(float), np.arange(1.0, 6.0))
        figures = " ".join(f"{scores[k]:7.4f}" for k in ("rmse", "mae", "mae_median", "nll"))
        print(
            f"MovieLens 1M, {n_factors} factors, seed {seed}: {figures}  "
            f"{seconds:5.1f} s, of which {sampling:5.1f} s from the first sweep to the last "
            f"({model.n_iter_} sweeps){chain_of(model)}",
            flush=True,
        )


def netflix(n_factors: int) -> None:
    """Seconds per sweep of a fit of made-up ratings, and the memory that it takes."""
    ratings = made(torch.device("cuda")).shuffled()
    torch.cuda.reset_peak_memory_stats()
    model = orbm.OrdinalMF(n_factors, posterior="sampled", n_epochs=SWEEPS, demand_factors=0, device="cuda")
    seconds = np.diff(model.fit(ratings).history_["seconds"])
    peak = torch.cuda.max_memory_allocated() / 2**30
    print(
        f"Netflix' shape, {n_factors} factors: {np.median(seconds):.3f} s per sweep, {peak:.1f} GiB at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--factors", type=int, nargs="+", default=[32, 50])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--netflix", action="store_true")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for n_factors in options.factors:
        fits(n_factors, options.seeds)
    if options.netflix:
        for n_factors in (32, 64):
            netflix(n_factors)


if __name__ == "__main__":
    main()

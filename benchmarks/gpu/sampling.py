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
from factor_draws import SHAPES, both_halves

import ordinalrbm as orbm
from ordinalrbm.engine.gpu.ordinal_gibbs import GPU_GIBBS
from ordinalrbm.engine.gpu.rated_sets import RatedSets
from ordinalrbm.engine.ordinal_gibbs import DrawnSide
from ordinalrbm.engine.rated_sets import FEW
from ordinalrbm.matrix.gibbs_sampler import Hyper, SampledData, SampledState, Scales, sweep

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from sources import chain_of, split


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
    device = torch.device("cuda")
    rows, columns = both_halves(SHAPES["netflix"], device)
    views, n_answers = (rows.answers, columns.answers), rows.answers.column.numel()
    sides, features, hypers = [], [], []
    for own, other in ((rows, columns), (columns, rows)):
        n = own.bias.numel()
        factors = 0.1 * torch.randn((n, 1 + n_factors), device=device)
        factors[:, 0] = own.bias
        scale = torch.zeros(n, dtype=torch.int32, device=device)
        scale = torch.arange(n, dtype=torch.int32, device=device) if sides else scale
        sides.append(DrawnSide(factors, torch.ones(n, device=device), scale))
        features.append([made_up_sets(own.answers, other.answers)])
        weights = torch.zeros((other.bias.numel(), 1 + n_factors), device=device)
        width = 1 + n_factors
        scatter = np.full(2, 1.5)
        hypers.append(Hyper(np.zeros(width), scatter, 20.0 * np.eye(width), [weights], [1.0], 20.0))
    centre = np.array([[-2.4, -0.16, 0.28, 0.28]])
    scales = Scales(centre, np.array([5]), np.zeros(columns.bias.numel(), dtype=np.int32))
    data = SampledData(GPU_GIBBS, *views, *features, n_answers, scales)
    state = SampledState(*sides, *hypers, centre, np.zeros((columns.bias.numel(), 3)))
    for number in range(1, 6):
        state = sweep(data, state, number, 0, settling=True)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    for number in range(6, 18):
        state = sweep(data, state, number, 0, settling=True)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begun) / 12
    peak = torch.cuda.max_memory_allocated() / 2**30
    print(f"Netflix' shape, {n_factors} factors: {seconds:.3f} s per sweep, {peak:.1f} GiB at most")


def made_up_sets(answers, transposed) -> RatedSets:
    start = answers.pieces.start
    first = torch.cat([answers.pieces.first, answers.pieces.stop[-1:]])[start]
    return RatedSets(answers, transposed, torch.rsqrt(torch.diff(first).float() + FEW)[:, None])


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

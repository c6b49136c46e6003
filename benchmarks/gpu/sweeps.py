"""One side's clamped and free sweep with gradient: our kernels beside plain PyTorch, in one run.

python benchmarks/gpu/sweeps.py [--scale 1.0] [--factors 100]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from netflix_shaped import FILMS, LEVELS, made
from plain import Plain

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.gpu import gibbs
from ordinalrbm.engine.gpu.pieces import SIZE
from ordinalrbm.engine.side import Batch, Side


def timed(work, repeats):
    work()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def side_of(data: Observations, n_factors: int, rng: np.random.Generator) -> Side:
    nothing = np.zeros(0, np.float32)
    bounds = np.array([-np.inf, -2.4, -1.55, -0.22, 1.1, np.inf])
    view = data.column_view
    return Side(
        data.row_start, data.column, data.level, view.column_start, view.row, view.entry,
        rng.normal(0, 0.5, data.n_entries).astype(np.float32), nothing, nothing,
        np.zeros((0, 0), np.float32), rng.normal(0, 0.1, (FILMS, n_factors)).astype(np.float32),
        rng.normal(0, 0.3, FILMS).astype(np.float32), np.tile(bounds, (FILMS, 1)),
        np.zeros(n_factors, np.float32),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    device = torch.device("cuda")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    start = time.perf_counter()
    data = made(device, given.scale).observations()
    counts = np.diff(data.row_start), data.column_counts
    print(
        f"{data.n_rows:,} x {data.n_columns:,}, {data.n_entries:,} ratings, {LEVELS} levels; "
        f"longest row {counts[0].max():,}, longest column {counts[1].max():,} "
        f"({time.perf_counter() - start:.1f} s)"
    )
    rng = np.random.default_rng(0)
    side = side_of(data, given.factors, rng)
    on = gibbs.side_on(side, device)
    start_factors = rng.integers(0, 2, (data.n_rows, given.factors), dtype=np.uint8)
    factors = gibbs.factors_on(start_factors, device)
    batch = Batch(0, data.n_rows, 1, 1, 1)

    def ours():
        clamped = gibbs.clamped_phase(on, factors, batch)
        free = factors.clone()
        return clamped, gibbs.free_phase(on, free, batch)

    torch.cuda.reset_peak_memory_stats()
    ours_s = timed(ours, given.repeats)
    print(f"ours   {ours_s:.4f} s, peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    # Weights: means and sums of both phases, and the means of both expectations.
    gathered = 6 * 4 * given.factors * data.n_entries
    print(f"       weights read {gathered / 1e9:.0f} GB, {gathered / ours_s / 1e12:.2f} TB/s")
    profile(ours)
    row = torch.repeat_interleave(
        torch.arange(data.n_rows, device=device), torch.from_numpy(counts[0]).to(device)
    ).int()
    s = on.side._replace(weights=on.side.weights[:, : given.factors].contiguous())
    h = factors[:, : given.factors].float()
    plain = Plain(row, s.column, s.level, s.offset, s.weights, s.bias, s.thresholds.float(),
                  s.factor_bias)  # fmt: skip
    torch.cuda.reset_peak_memory_stats()
    plain_s = timed(lambda: plain.both(h), 2)
    print(f"plain  {plain_s:.4f} s, peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    print(f"ratio  {plain_s / ours_s:.1f} (pieces of {SIZE})")


def profile(work) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        work()
        torch.cuda.synchronize()
    lines = sorted(found.key_averages(), key=lambda line: -line.device_time_total)
    for line in lines[:12]:
        print(f"       {line.device_time_total / 1e3:8.2f} ms {line.count:4d} x {line.key[:60]}")


if __name__ == "__main__":
    main()

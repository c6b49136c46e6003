"""The sampler's draws on the GPU: each function for both halves of a sweep, and what it needs.

    python benchmarks/gpu/factor_draws.py [--shapes movielens netflix] [--factors 32 64] [--profile]

Ratings are made up on the device, in tables of the size of MovieLens 1M and of Netflix' with a
long-tailed popularity. Milliseconds are medians; bytes are the most that a call takes beside the
ratings and the state.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from ordinalrbm.engine.gpu.ordinal_gibbs import GPU_GIBBS
from ordinalrbm.engine.gpu.pieces import Answers, pieces_of
from ordinalrbm.engine.ordinal_gibbs import DrawnSide, Sweep


class Shape(NamedTuple):
    rows: int
    columns: int
    ratings: int


SHAPES = {"movielens": Shape(6_040, 3_706, 1_000_209), "netflix": Shape(480_189, 17_770, 100_480_507)}
BOUNDS = (-torch.inf, -2.4, -1.55, -0.22, 1.1, torch.inf)
REPEATS = 9


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


def profile(work) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        work()
        torch.cuda.synchronize()
    lines = sorted(found.key_averages(), key=lambda line: -line.device_time_total)
    for line in lines[:12]:
        print(f"       {line.device_time_total / 1e3:8.2f} ms {line.count:4d} x {line.key[:60]}")


class Half(NamedTuple):
    """Answers by rows, the biases that they were made with, and how long the longest row is."""

    answers: Answers
    bias: torch.Tensor
    longest: int


def both_halves(shape: Shape, device: torch.device) -> tuple[Half, Half]:
    """Ratings of users and, the same, of items."""
    torch.manual_seed(0)
    row, column = rated(shape, device)
    by_row, by_column = (
        share * torch.randn(n, device=device) for share, n in ((0.5, shape.rows), (0.6, shape.columns))
    )
    level = torch.empty(len(row), dtype=torch.int8, device=device)
    inner = torch.tensor(BOUNDS[1:-1], device=device)
    for some in torch.arange(len(row), device=device).split(10_000_000):
        mean = by_row[row[some]] + by_column[column[some]]
        level[some] = torch.searchsorted(inner, mean + torch.randn_like(mean)).to(torch.int8)
    order = torch.argsort(column, stable=True)
    return (half(row, column, level, by_row), half(column[order], row[order], level[order], by_column))


def rated(shape: Shape, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and columns of so many cells; rows are log-normally eager, columns long-tailed."""
    eager = torch.exp(1.2 * torch.randn(shape.rows, device=device))
    # Twice the same cell counts once, hence more draws than ratings.
    count = (1.8 * shape.ratings * eager / eager.sum()).ceil().long().clamp(1, shape.columns // 2)
    row = torch.repeat_interleave(torch.arange(shape.rows, device=device), count)
    popularity = torch.arange(1, shape.columns + 1, device=device).double().add(60.0).pow(-1.15)
    popularity = popularity[torch.randperm(shape.columns, device=device)].cumsum(0)
    draws = torch.rand(len(row), device=device, dtype=torch.float64) * popularity[-1]
    column = torch.searchsorted(popularity, draws).clamp(max=shape.columns - 1)
    cell = torch.unique(row * shape.columns + column)
    kept = torch.randperm(len(cell), device=device)[: shape.ratings].sort().values
    cell = cell[kept]
    return cell // shape.columns, cell % shape.columns


def half(row: torch.Tensor, column: torch.Tensor, level: torch.Tensor, bias: torch.Tensor) -> Half:
    starts = torch.searchsorted(row, torch.arange(len(bias) + 1, device=row.device))
    pieces = pieces_of(starts.cpu().numpy(), row.device)
    return Half(Answers(pieces, column.int(), level), bias, int(starts.diff().max()))


def side(bias: torch.Tensor, n_factors: int) -> DrawnSide:
    """As after some sweeps: factors that add a variance of about a half."""
    factors = torch.randn(len(bias), n_factors, device=bias.device) * (0.5 / n_factors) ** 0.25
    return DrawnSide(
        torch.cat([bias[:, None], factors], dim=1),
        torch.exp(0.1 * torch.randn_like(bias)),
        torch.zeros_like(bias, dtype=torch.int32),
    )


def report(name: str, work: Callable[[], object]) -> float:
    seconds = timed(work, REPEATS)
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    taken = torch.cuda.max_memory_allocated() - held
    print(f"  {name:24s} {1e3 * seconds:8.2f} ms {taken / 1e6:8.0f} MB", flush=True)
    return seconds


def calls(answers: Answers, this: DrawnSide, other: DrawnSide, kind: int) -> dict[str, Callable[[], object]]:
    width, device = this.factors.shape[1], this.factors.device
    given = answers, this, other, torch.tensor([BOUNDS], device=device)
    mean, precision = torch.zeros_like(this.factors), 10.0 * torch.eye(width, device=device)
    sweep = Sweep(1, 1, kind)
    return {
        "draw_rows": lambda: GPU_GIBBS.draw_rows(*given, mean, precision, sweep),
        "move_widths": lambda: GPU_GIBBS.move_widths(*given, 20.0, sweep),
        "threshold_sums": lambda: GPU_GIBBS.threshold_sums(*given),
    }


def measure(halves: tuple[Half, Half], n_factors: int, *, with_profile: bool) -> None:
    sides = [side(each.bias, n_factors) for each in halves]
    total = 0.0
    for kind, name in enumerate(("rows", "columns")):
        work = calls(halves[kind].answers, sides[kind], sides[1 - kind], kind)
        seconds = {what: report(f"{what}, {name}", work[what]) for what in work}
        total += seconds["draw_rows"]
        if with_profile:
            profile(work["draw_rows"])
    print(f"  {'draw_rows, both':24s} {1e3 * total:8.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--factors", nargs="+", type=int, default=[32, 64])
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for name in given.shapes:
        shape = SHAPES[name]
        halves = both_halves(shape, torch.device("cuda"))
        longest = ", ".join(f"{each.longest:,}" for each in halves)
        print(
            f"{name}: {shape.rows:,} x {shape.columns:,}, "
            f"{len(halves[0].answers.column):,} ratings; "
            f"longest row and column {longest}"
        )
        for n_factors in given.factors:
            print(f" {n_factors} factors")
            measure(halves, n_factors, with_profile=given.profile)


if __name__ == "__main__":
    main()

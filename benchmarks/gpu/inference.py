"""Predictions, recommendations and newcomers on the GPU, and a share of them on the cores.

    python benchmarks/gpu/inference.py [--scale 1.0] [--factors 100] [--kind continuous]

A model with random parameters for ratings of Netflix' shape: how long it takes does not depend on
what they are. Seconds on the GPU are from arrays of the host to arrays of the host; the first call
compiles, and is told apart.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import torch
from netflix_shaped import ENDS, FILMS, LEVELS, made

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix import fold_in as folding
from ordinalrbm.matrix.gpu.fold_in import OnGpu as Folding
from ordinalrbm.matrix.gpu.recommend import OnGpu
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.predict import probabilities, with_cold_start
from ordinalrbm.matrix.recommend import best_items

WORTH = np.tile(np.arange(1.0, LEVELS + 1), (FILMS, 1))


def random_model(n_rows: int, n_factors: int, is_continuous: bool, device) -> MatrixModel:
    torch.manual_seed(1)

    def numbers(*shape: int, size: float = 1.0) -> np.ndarray:
        return (size * torch.randn(shape, device=device)).cpu().numpy()

    def half(n_columns: int, n_acting: int, cutpoints: np.ndarray) -> Half:
        factors = numbers(n_acting, n_factors)
        plain = Half(
            weights=numbers(n_columns, n_factors, size=0.5 / np.sqrt(n_factors)),
            bias=numbers(n_columns, size=0.5), cutpoints=cutpoints,
            factor_bias=np.zeros(n_factors, np.float32),
            factors=factors if is_continuous else (factors > 0).astype(np.float32),
        )  # fmt: skip
        if not is_continuous:
            return plain
        return plain._replace(
            weights_variance=np.full_like(plain.weights, 0.01),
            bias_variance=np.full_like(plain.bias, 0.05),
            factors_variance=np.full_like(factors, 0.2),
        )

    bounds = np.array(ENDS)
    cutpoints = np.tile(np.append(bounds[0], np.log(np.diff(bounds))), (FILMS, 1))
    cutpoints[:, 1:] += numbers(FILMS, LEVELS - 2, size=0.1)
    own = numbers(n_rows, LEVELS - 1, size=0.2).astype(np.float64)
    own[:, 0] = 0.0
    by_rows, by_columns = half(FILMS, n_rows, cutpoints), half(n_rows, FILMS, own)
    return MatrixModel(by_rows, by_columns, np.full(FILMS, LEVELS, dtype=np.int32))


def timed(work):
    begun = time.perf_counter()
    found = work()
    return found, time.perf_counter() - begun


def told(what: str, n: int, seconds: float, unit: str) -> None:
    print(f"  {what:28s} {n:12,} {unit} in {seconds:7.2f} s, {n / seconds:14,.0f} per second")


def predictions(model: MatrixModel, there: OnGpu, n: int, share: int) -> None:
    print("predict_proba")
    rng = np.random.default_rng(0)
    row, column = rng.integers(0, model.n_rows, n), rng.integers(0, FILMS, n)
    pairs = Cells(row, column, np.zeros(n, dtype=np.int8))
    some = Cells(*(part[:share] for part in pairs))
    _, first = timed(lambda: there.probabilities(some))
    print(f"  first call {first:.2f} s")
    found, seconds = timed(lambda: there.probabilities(pairs))
    told("GPU", n, seconds, "pairs")
    probabilities([model], Cells(*(part[:9] for part in pairs)))
    truth, seconds = timed(lambda: probabilities([model], some))
    told(f"{os.cpu_count()} cores", share, seconds, "pairs")
    print(f"  largest difference {np.abs(found[:share] - truth).max():.1e}")


def recommendations(model: MatrixModel, there: OnGpu, seen: Observations, share: int) -> None:
    print("recommend, n = 10, what users have seen left out")
    rows = np.arange(model.n_rows)
    _, first = timed(lambda: there.best_items(rows[:share], 10, WORTH, seen))
    print(f"  first call {first:.2f} s")
    found, seconds = timed(lambda: there.best_items(rows, 10, WORTH, seen))
    told("GPU", rows.size, seconds, "users")
    best_items([model], rows[:9], 10, WORTH, seen)
    truth, seconds = timed(lambda: best_items([model], rows[:share], 10, WORTH, seen))
    told(f"{os.cpu_count()} cores", share, seconds, "users")
    mine = found.query < share
    same = (found.item[mine] == truth.item).reshape(share, -1).all(axis=1)
    gap = np.abs(found.score[mine] - truth.score).max()
    print(
        f"  the same ten in the same order for {same.sum():,} of {share:,} users; scores differ by"
    )
    print(f"  {gap:.1e} at most")


def newcomers(model: MatrixModel, seen: Observations, n: int, share: int) -> None:
    print("fold_in of new users")
    precision = folding.OfWeights(25.0, 4.0, 25.0)
    usuals = [
        folding.usual(model.by_rows, model.n_levels, precision),
        folding.usual(model.by_columns, np.full(model.n_rows, LEVELS), precision),
    ]

    def folded(size: int, where) -> tuple[MatrixModel, float]:
        stop = model.n_rows + size
        entries = seen.row_start[stop]
        some = Observations(
            seen.row_start[: stop + 1], seen.column[:entries], seen.level[:entries], seen.n_levels
        )
        return timed(lambda: folding.fold_in(model, some, usuals, where))

    there = Folding("cuda")
    found, first = folded(share, there)
    print(f"  first call {first:.2f} s")
    told("GPU", n, folded(n, there)[1], "users")
    folded(1, folding.CORES)
    truth, seconds = folded(share, folding.CORES)
    told(f"{os.cpu_count()} cores", share, seconds, "users")
    rng = np.random.default_rng(2)
    cells = Cells(
        rng.integers(model.n_rows, model.n_rows + share, 10**5), rng.integers(0, FILMS, 10**5),
        np.zeros(10**5, dtype=np.int8),
    )  # fmt: skip
    one, other = (probabilities([wider], cells) for wider in (found, truth))
    print(f"  largest difference of a predicted probability {np.abs(one - other).max():.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--kind", choices=("continuous", "binary"), default="continuous")
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--newcomers", type=int, default=10_000)
    parser.add_argument("--share", type=int, default=2_000, help="users, on the cores")
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    seen = made(device, given.scale).observations()
    n_known = seen.n_rows - given.newcomers
    model = random_model(n_known, given.factors, given.kind == "continuous", device)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    print(f"{n_known:,} x {FILMS:,}, {given.factors} + {given.factors} {given.kind} factors")
    there, seconds = timed(lambda: OnGpu([with_cold_start(model)], "cuda"))
    print(f"model to the device in {seconds:.2f} s")
    predictions(model, there, given.pairs, given.pairs // 10)
    recommendations(model, there, seen, given.share)
    if device.type == "cuda":
        print(f"peak {torch.cuda.max_memory_allocated() / 1e9:.2f} GB on the device")
    newcomers(model, seen, given.newcomers, given.share // 4)


if __name__ == "__main__":
    main()

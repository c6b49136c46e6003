"""Predictions and new users on the GPU, and a share of them on the cores.

    python benchmarks/gpu/inference.py [--scale 1.0] [--factors 100] [--kind gaussian]

A model with random parameters for ratings of Netflix' shape: how long it takes does not depend on
what they are. Seconds on the GPU are from arrays of the host to arrays of the host; the first call
compiles, and is counted apart.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import torch
from netflix_shaped import FILMS, LEVELS, THRESHOLDS, made

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.feature_priors import NO_TABLES, FactorPrior
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.gpu.backend import Cuda
from ordinalrbm.matrix.gpu.predict import OnGpu
from ordinalrbm.matrix.model import Half, MatrixModel, Precisions
from ordinalrbm.matrix.predict import probabilities
from ordinalrbm.matrix.protocol import UtilityModel
from ordinalrbm.matrix.variational import posterior_of


class Random:
    """Numbers at random, made on the device."""

    def __init__(self, device) -> None:
        torch.manual_seed(1)
        self.device = device

    def __call__(self, *shape: int, size: float = 1.0) -> np.ndarray:
        return (size * torch.randn(shape, device=self.device)).cpu().numpy()

    def cutpoints(self, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of rows and of columns."""
        bounds = np.array(THRESHOLDS)
        columns = np.tile(np.append(bounds[0], np.log(np.diff(bounds))), (FILMS, 1))
        columns[:, 1:] += self(FILMS, LEVELS - 2, size=0.1)
        rows = self(n_rows, LEVELS - 1, size=0.2).astype(np.float64)
        rows[:, 0] = 0.0
        return rows, columns


def gaussian_model(n_rows: int, n_factors: int, device) -> GaussianModel:
    numbers = Random(device)
    of_rows, of_columns = numbers.cutpoints(n_rows)

    def posterior(cutpoints: np.ndarray, size: float, variance: float):
        mean = numbers(len(cutpoints), 1 + n_factors, size=size)
        mean[:, 0] = numbers(len(cutpoints), size=0.5)
        levels = np.full(len(cutpoints), LEVELS, dtype=np.int32)
        return posterior_of(mean, np.full_like(mean, variance), cutpoints, levels)

    prior = FactorPrior(np.full(1 + n_factors, 4.0, np.float32), np.full(LEVELS - 1, 25.0))
    rows, columns = posterior(of_rows, 1.0, 0.1), posterior(of_columns, n_factors**-0.5, 0.01)
    return GaussianModel(rows, columns, prior, prior)


def binary_model(n_rows: int, n_factors: int, device) -> MatrixModel:
    numbers = Random(device)
    of_rows, of_columns = numbers.cutpoints(n_rows)

    def half(cutpoints: np.ndarray, n_acting: int) -> Half:
        return Half(
            weights=numbers(len(cutpoints), n_factors, size=0.5 * n_factors**-0.5),
            bias=numbers(len(cutpoints), size=0.5),
            cutpoints=cutpoints,
            factor_bias=np.zeros(n_factors, np.float32),
            factors=(numbers(n_acting, n_factors) > 0).astype(np.float32),
        )

    levels = np.full(FILMS, LEVELS, dtype=np.int32)
    return MatrixModel(half(of_columns, n_rows), half(of_rows, FILMS), levels)


def timed(work):
    begun = time.perf_counter()
    found = work()
    return found, time.perf_counter() - begun


def report(what: str, n: int, seconds: float, unit: str) -> None:
    print(f"  {what:28s} {n:12,} {unit} in {seconds:7.2f} s, {n / seconds:14,.0f} per second")


def predictions(model: UtilityModel, there: OnGpu, n: int, share: int) -> None:
    print("predict_proba")
    rng = np.random.default_rng(0)
    row, column = rng.integers(0, model.n_rows, n), rng.integers(0, FILMS, n)
    pairs = Cells(row, column, np.zeros(n, dtype=np.int8))
    some = Cells(*(part[:share] for part in pairs))
    _, first = timed(lambda: there.probabilities(some))
    print(f"  first call {first:.2f} s")
    found, seconds = timed(lambda: there.probabilities(pairs))
    report("GPU", n, seconds, "pairs")
    probabilities([model], Cells(*(part[:9] for part in pairs)))
    truth, seconds = timed(lambda: probabilities([model], some))
    report(f"{os.cpu_count()} cores", share, seconds, "pairs")
    print(f"  largest difference {np.abs(found[:share] - truth).max():.1e}")


def new_users(model: UtilityModel, seen: Observations, n: int, share: int) -> None:
    print("fold_in of new users")
    if isinstance(model, MatrixModel):
        model = model.with_priors(*2 * (Precisions(25.0, 4.0, 25.0),))
    known = seen.take_rows(np.arange(model.n_rows))

    def folded(size: int, where) -> tuple[UtilityModel, float]:
        stop = model.n_rows + size
        entries = seen.row_start[stop]
        some = Observations(
            seen.row_start[: stop + 1], seen.column[:entries], seen.level[:entries], seen.n_levels
        )
        return timed(lambda: model.with_newcomers(known, some, NO_TABLES, where))

    there = Cuda("cuda")
    found, first = folded(share, there)
    print(f"  first call {first:.2f} s")
    report("GPU", n, folded(n, there)[1], "users")
    folded(1, CPU)
    truth, seconds = folded(share, CPU)
    report(f"{os.cpu_count()} cores", share, seconds, "users")
    rng = np.random.default_rng(2)
    cells = Cells(
        rng.integers(model.n_rows, model.n_rows + share, 10**5),
        rng.integers(0, FILMS, 10**5),
        np.zeros(10**5, dtype=np.int8),
    )
    one, other = (probabilities([wider], cells) for wider in (found, truth))
    print(f"  largest difference of a predicted probability {np.abs(one - other).max():.1e}")


# With K + S Gaussian factors there are as many numbers as with K and S binary ones.
KINDS = {"gaussian": lambda k: (gaussian_model, 2 * k), "binary": lambda k: (binary_model, k)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--kind", choices=list(KINDS), default="gaussian")
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--new-users", type=int, default=10_000)
    parser.add_argument("--share", type=int, default=2_000, help="users, on the cores")
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    seen = made(device, given.scale).observations()
    n_known = seen.n_rows - given.new_users
    make, n_factors = KINDS[given.kind](given.factors)
    model = make(n_known, n_factors, device)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    print(f"{n_known:,} x {FILMS:,}, {given.factors} + {given.factors} {given.kind} factors")
    there, seconds = timed(lambda: OnGpu([model.with_unknown()], "cuda"))
    print(f"model to the device in {seconds:.2f} s")
    predictions(model, there, given.pairs, given.pairs // 10)
    if device.type == "cuda":
        print(f"peak {torch.cuda.max_memory_allocated() / 1e9:.2f} GB on the device")
    new_users(model, seen, given.new_users, given.share // 4)


if __name__ == "__main__":
    main()

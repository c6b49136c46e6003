"""A matrix of Netflix's shape: memory and time of an epoch, and of many recommendations.

    python benchmarks/speed/size.py [--ratings 100_000_000] [--folder FOLDER]

480,189 users and 17,770 items with long-tailed activity and popularity; ratings are drawn from a
matrix model with random parameters. (Fewer ratings: fewer users.) The arrays are written to files
and read by a fresh process, which fits one epoch of OrdinalMF with 40 factors and recommends for
10,000 users. Memory is the peak above what the process had with the arrays in it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from isolated import Cost, Failure, alone, measured
from numba import njit

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.predict import probabilities

N_USERS, N_ITEMS, N_RATINGS, N_LEVELS = 480_189, 17_770, 100_000_000, 5
FACTORS, N_RECOMMENDED = 20, 10_000
CHUNK = 1_000_000
NAMES = ("user", "item", "rating")


def known_model(n_users: int, rng: np.random.Generator) -> MatrixModel:
    """Parameters and binary factors at random; ratings lean to the upper half, as they do."""
    by_rows = _half(N_ITEMS, n_users, 0.5, rng)
    by_columns = _half(n_users, N_ITEMS, 0.3, rng)
    by_rows.cutpoints[:, 0] = -1.5
    by_rows.cutpoints[:, 1:] = rng.normal(-0.3, 0.2, (N_ITEMS, N_LEVELS - 2))
    return MatrixModel(by_rows, by_columns, np.full(N_ITEMS, N_LEVELS, dtype=np.int32))


def _half(n_columns: int, n_rows: int, spread: float, rng: np.random.Generator) -> Half:
    weights = rng.normal(0.0, 0.2, (n_columns, FACTORS)).astype(np.float32)
    bias = rng.normal(0.0, spread, n_columns) - 0.5 * weights.sum(axis=1)
    factors = rng.integers(0, 2, (n_rows, FACTORS)).astype(np.float32)
    cutpoints = np.zeros((n_columns, N_LEVELS - 1))
    return Half(weights, bias.astype(np.float32), cutpoints, np.zeros(FACTORS, np.float32), factors)


def activity(n_users: int, n_ratings: int, rng: np.random.Generator) -> np.ndarray:
    """How many items each user rates: at least one, at most a quarter, in all ``n_ratings``."""
    wanted = rng.lognormal(0.0, 1.2, n_users)
    counts = np.clip(wanted * n_ratings / wanted.sum(), 1, N_ITEMS // 4).astype(np.int64)
    while (missing := n_ratings - int(counts.sum())) != 0:
        chosen = rng.choice(n_users, min(abs(missing), n_users), replace=False)
        counts[chosen] = np.clip(counts[chosen] + np.sign(missing), 1, N_ITEMS // 4)
    return counts


@njit
def draw_items(counts, below, rng, item):
    """Distinct items for each user, by popularity; ``below`` is its distribution function."""
    taken_by = np.full(below.size, -1)
    place = 0
    for user in range(counts.size):
        last = place + counts[user]
        while place < last:
            found = min(np.searchsorted(below, rng.random()), below.size - 1)
            if taken_by[found] != user:
                taken_by[found] = user
                item[place] = found
                place += 1


def generate(n_ratings: int, folder: Path) -> None:
    """Write users, items (int32) and ratings (int8) to files."""
    rng = np.random.default_rng(0)
    n_users = max(N_USERS * n_ratings // N_RATINGS, N_RECOMMENDED)
    counts = activity(n_users, n_ratings, rng)
    popularity = np.cumsum(rng.lognormal(0.0, 2.0, N_ITEMS))
    user = np.repeat(np.arange(n_users, dtype=np.int32), counts)
    item = np.empty(n_ratings, dtype=np.int32)
    draw_items(counts, popularity / popularity[-1], rng, item)
    rating = draw_ratings(known_model(n_users, rng), user, item, rng)
    for name, values in zip(NAMES, (user, item, rating), strict=True):
        np.save(folder / f"{name}.npy", values)


def draw_ratings(
    model: MatrixModel, user: np.ndarray, item: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Ratings 1..5 as the model gives them, a chunk at a time."""
    rating = np.empty(user.size, dtype=np.int8)
    for start in range(0, user.size, CHUNK):
        part = slice(start, start + CHUNK)
        found = probabilities([model], Cells(user[part], item[part], rating[part]))
        below = np.cumsum(found, axis=1)[:, :-1]
        rating[part] = 1 + (below < rng.random((len(below), 1))).sum(axis=1)
    return rating


class Use(NamedTuple):
    """Costs of a fit of one epoch and of recommendations, and how many these are."""

    fitting: Cost
    epoch_seconds: float
    recommending: Cost
    n_recommendations: int


def use(folder: Path, threads: int) -> Use:
    """Fit and recommend; in a process of its own."""
    ratings = tuple(np.load(folder / f"{name}.npy") for name in NAMES)
    settings = {"n_epochs": 1, "n_jobs": threads, "random_state": 0}
    few = orbm.OrdinalMF(2 * FACTORS, **settings)
    few.fit(tuple(part[: CHUNK // 50] for part in ratings)).recommend([0, 1])  # compile
    model = orbm.OrdinalMF(2 * FACTORS, **settings)
    _, fitting = measured(lambda: model.fit(ratings))
    users = np.random.default_rng(0).choice(len(model.users_), N_RECOMMENDED, replace=False)
    best, recommending = measured(lambda: model.recommend(model.users_.labels[users]))
    return Use(fitting, model.history_["seconds"].iloc[-1], recommending, len(best))


def of_success(found: Any) -> Any:
    """What was found; the program ends if it was a failure."""
    if isinstance(found, Failure):
        raise SystemExit(found.reason)
    return found


def report(n_ratings: int, folder: Path, threads: int) -> None:
    """Generate what is not there yet, use it, print what that took."""
    begun = time.perf_counter()
    if not (folder / "rating.npy").exists():
        of_success(alone(generate, n_ratings, folder))
    rating = np.load(folder / "rating.npy", mmap_mode="r")
    passed = sum((folder / f"{name}.npy").stat().st_size for name in NAMES)
    print(f"{len(rating):,} ratings generated in {time.perf_counter() - begun:.0f} s")
    print(f"  arrays passed in         {passed / len(rating):8.1f} bytes per rating")
    used = of_success(alone(use, folder, threads))
    peak = used.fitting.peak / len(rating)
    print(f"  one epoch, {2 * FACTORS} factors    {used.epoch_seconds:8.1f} s")
    print(f"  the whole fit            {used.fitting.seconds:8.1f} s: reading, epoch, what was held out")
    print(f"  peak above the arrays    {peak:8.1f} bytes per rating (bar: 40)")
    print(
        f"  {used.n_recommendations:,} recommendations for {N_RECOMMENDED:,} users: "
        f"{used.recommending.seconds:.1f} s, {used.recommending.peak / 1e6:.0f} MB at the peak"
    )


def main() -> None:
    """Run in a folder that is given, or in one that goes away again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", type=int, default=N_RATINGS)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="keeps the arrays, and finds them again")
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        report(options.ratings, options.folder, options.threads)
        return
    with tempfile.TemporaryDirectory() as folder:
        report(options.ratings, Path(folder), options.threads)


if __name__ == "__main__":
    main()

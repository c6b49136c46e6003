"""Spark MLlib's alternating least squares beside ours on this machine's cores: error and seconds.

    python benchmarks/speed/spark.py [--data ml-1m] [--protocol random]

Spark's is the engine that people take who want several machines. It needs Java, and ``pip install
pyspark``. Its rank and penalty are chosen by validation ratings, from grids that grow until no end
is the best; then both learn from training and validation ratings, and are judged by the same test
ratings. Ratings are in Spark's memory before its clock starts, and a fit before has warmed it up;
ours begins with a DataFrame, what had to be compiled compiled before. What Spark leaves empty
because a user or item is new to it is the mean of all ratings there.

What Spark's ALS does not give: a distribution of the rating, thresholds, what is not known of a
user, and new users without another fit.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ordinalrbm as orbm

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sources import split

RANKS, PENALTIES = [10, 20, 40], [0.03, 0.06, 0.12]
SWEEPS = (5, 10, 20)
_ALIKE = 0.0005  # errors that differ by less
CHOOSING = 10  # sweeps by which a setting is judged; Spark's default


def session() -> Any:
    from pyspark.sql import SparkSession

    cores = os.cpu_count()
    found = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", str(2 * (cores or 1)))
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )
    found.sparkContext.setLogLevel("ERROR")
    # Else what is remembered of twenty sweeps overflows Java's stack.
    found.sparkContext.setCheckpointDir(tempfile.mkdtemp())
    return found


class Least:
    """Spark's ALS as it predicts: by its factors, which come to this process."""

    def __init__(self, ratings: pd.DataFrame, rank: int, penalty: float, sweeps: int) -> None:
        from pyspark.ml.recommendation import ALS

        folder = tempfile.TemporaryDirectory()
        file = f"{folder.name}/ratings.parquet"
        ratings[["user", "item", "rating"]].to_parquet(file)
        rows = session().read.parquet(file).repartition(2 * (os.cpu_count() or 1)).cache()
        rows.count()
        begun = time.perf_counter()
        model = ALS(
            rank=rank,
            regParam=penalty,
            maxIter=sweeps,
            userCol="user",
            itemCol="item",
            ratingCol="rating",
            seed=0,
        ).fit(rows)
        self.users, self.items = (
            {row["id"]: np.array(row["features"]) for row in side.collect()}
            for side in (model.userFactors, model.itemFactors)
        )
        self.seconds = time.perf_counter() - begun
        self.mean = float(ratings["rating"].mean())
        rows.unpersist()
        folder.cleanup()

    def predict(self, pairs: pd.DataFrame) -> np.ndarray:
        found = np.full(len(pairs), self.mean)
        for k, (user, item) in enumerate(zip(pairs["user"], pairs["item"], strict=True)):
            if user in self.users and item in self.items:
                found[k] = self.users[user] @ self.items[item]
        return found


def error(predicted: np.ndarray, test: pd.DataFrame) -> np.ndarray:
    """Squared errors, predictions kept on the scale."""
    rating = test["rating"].to_numpy(dtype=float)
    return (np.clip(predicted, rating.min(), rating.max()) - rating) ** 2


def chosen(train: pd.DataFrame, validation: pd.DataFrame) -> tuple[int, float]:
    """Rank and penalty of the least validation error; grids grow while an end is the best."""
    ranks, penalties, known = list(RANKS), list(PENALTIES), {}
    while True:
        for rank, penalty in itertools.product(ranks, penalties):
            if (rank, penalty) not in known:
                found = Least(train, rank, penalty, CHOOSING).predict(validation)
                known[rank, penalty] = loss = float(np.sqrt(error(found, validation).mean()))
                print(f"    rank {rank}, penalty {penalty:g}: validation {loss:.4f}", flush=True)
        # The lowest rank that is about as good as the best: sweeps take longer with the square.
        rank, penalty = min(pair for pair in known if known[pair] < min(known.values()) + _ALIKE)
        ends = rank in (ranks[0], ranks[-1]), penalty in (penalties[0], penalties[-1])
        if not any(ends):
            return rank, penalty
        if ends[0]:
            ranks = [rank // 2, *ranks] if rank == ranks[0] else [*ranks, 2 * rank]
        if ends[1]:
            lower = penalty == penalties[0]
            penalties = [penalty / 2, *penalties] if lower else [*penalties, 2 * penalty]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--protocol", default="random")
    parser.add_argument("--settings", type=float, nargs=2, help="rank and penalty, chosen before")
    given = parser.parse_args()
    train, validation, test = split(given.data, given.protocol)
    everything = pd.concat([train, validation], ignore_index=True)
    begun = time.perf_counter()
    session()
    started = time.perf_counter() - begun
    sizes = f"{len(everything):,} ratings, {len(test):,} to test"
    print(f"{os.cpu_count()} cores; {given.data}, {given.protocol}: {sizes}", flush=True)
    print(f"Spark started in {started:.1f} s", flush=True)
    rank, penalty = given.settings or chosen(train, validation)
    print(f"Spark: rank {int(rank)}, penalty {penalty:g}")
    lines: list[tuple[str, float, np.ndarray]] = []
    for sweeps in SWEEPS:
        fitted = Least(everything, int(rank), penalty, sweeps)
        lines.append((f"Spark ALS, {sweeps} sweeps", fitted.seconds, error(fitted.predict(test), test)))
    orbm.OrdinalMF(n_epochs=2, random_state=0).fit(train[:2000])
    for n_epochs, demand in ((4, 0), (None, 0), (None, 64)):
        begun = time.perf_counter()
        model = orbm.OrdinalMF(n_epochs=n_epochs, demand_factors=demand, random_state=0)
        model.fit(everything[["user", "item", "rating"]])
        seconds = time.perf_counter() - begun
        name = f"OrdinalMF, {n_epochs or 'all'} epochs" + (", with demand" if demand else "")
        found = model.predict(test["user"], test["item"], rule="mean")
        lines.append((name, seconds, error(np.asarray(found, dtype=float), test)))
    best = min(lines[: len(SWEEPS)], key=lambda line: line[2].mean())
    print("                                 seconds   RMSE   squared error less that of Spark's best")
    for name, seconds, losses in lines:
        less = losses - best[2]
        by_user = pd.Series(less).groupby(test["user"].to_numpy()).sum()
        deviation = float(np.sqrt((by_user**2).sum())) / len(test)
        rmse = np.sqrt(losses.mean())
        print(f"{name:32} {seconds:7.1f}   {rmse:.4f}   {less.mean():+.4f} ± {deviation:.4f}")


if __name__ == "__main__":
    main()

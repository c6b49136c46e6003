"""Speed of OrdinalMF: beside myFM, and with more threads, ratings and factors.

    python benchmarks/speed/matrix.py [--data ml-1m] [--iterations 10]

Training is with the default settings, from ratings to a model, validation ratings
given. An epoch is rows, columns and a look at the validation ratings; the mean of all epochs but
the first counts, and the least of myFM's iterations, whose 200 are extrapolated from a few. All
ratios are of this one run.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from methods import Task, fit_myfm, myfm_model
from peers import positions

import ordinalrbm as orbm

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sources import Parts, split

FACTORS, SOME_FACTORS, FEW_FACTORS, THREADS, EPOCHS = 100, 40, 10, 2, 9
MYFM_ITERATIONS, MYFM_RANK = 200, 50


def training(train: pd.DataFrame, validation: pd.DataFrame) -> tuple[float, int]:
    """Seconds of a fit with the default settings, and its epochs."""
    begun = time.perf_counter()
    model = orbm.OrdinalMF(FACTORS, n_jobs=THREADS, random_state=0)
    model.fit(train, validation=validation)
    return time.perf_counter() - begun, model.n_iter_


def epoch(parts: Parts, factors: int = FACTORS, threads: int = THREADS) -> float:
    """Seconds of an epoch, on average: gaps are updated in every other one."""
    model = orbm.OrdinalMF(factors, n_epochs=EPOCHS, n_jobs=threads, random_state=0)
    history = model.fit(parts[0], validation=parts[1]).history_
    return float(np.diff(history["seconds"]).mean())


def myfm_iteration(task: Task, rank: int, iterations: int) -> tuple[float, float]:
    """Seconds before the first iteration, and those of the quickest iteration."""
    times = [time.perf_counter()]

    def note(*_: Any) -> tuple[bool, None]:
        times.append(time.perf_counter())
        return False, None

    fit_myfm(myfm_model(rank, 0), task, iterations, n_kept_samples=1, callback=note)
    each = float(np.diff(times[1:]).min())
    return times[1] - times[0] - each, each


def beside_myfm(parts: Parts, iterations: int) -> None:
    """Whole training, and one pass over the ratings."""
    task, _ = positions(parts)
    ours, n_epochs = training(*parts[:2])
    start, each = myfm_iteration(task, 20, iterations)
    whole = start + MYFM_ITERATIONS * each
    print(f"  training, {FACTORS} factors            {ours:8.2f} s   {n_epochs} epochs")
    print(f"  myFM, rank 20, {MYFM_ITERATIONS} iterations    {whole:8.1f} s   {iterations} timed")
    print(f"  myFM against ours                {whole / ours:8.1f} x   (bar: 30)")
    _, each = myfm_iteration(task, MYFM_RANK, iterations)
    ours = epoch(parts)
    print(f"  one epoch                        {ours:8.3f} s")
    print(f"  one iteration of myFM, rank {MYFM_RANK}   {each:8.3f} s")
    print(f"  iteration against epoch          {each / ours:8.1f} x   (bar: 10)")


def a_tenth(parts: Parts) -> Parts:
    """The ratings of every tenth user."""
    users = np.sort(parts[0]["user"].unique())[::10]
    train, validation, test = (part[part["user"].isin(users)] for part in parts)
    return train, validation, test


def ten_times(parts: Parts) -> Parts:
    """Everybody ten times, under other names: ten times the ratings of the same items."""
    length = int(parts[0]["user"].max()) + 1
    train, validation, test = (
        pd.concat([part.assign(user=part["user"] + copy * length) for copy in range(10)]) for part in parts
    )
    return train, validation, test


def with_ten_times_the_ratings(parts: Parts) -> None:
    """Whole trainings, and epochs with so many factors that more ratings cannot tell more."""
    few = a_tenth(parts)
    growth = len(parts[0]) / len(few[0])
    ratio = training(*parts[:2])[0] / training(*few[:2])[0]
    print(f"  {growth:4.1f} times the ratings, training  {ratio:8.2f} x   the time (bar: 11 for 10)")
    ratio = epoch(ten_times(parts), SOME_FACTORS) / epoch(parts, SOME_FACTORS)
    print(f"  10.0 times the ratings, F = {SOME_FACTORS:3}  {ratio:8.2f} x   the time (bar: 11)")


def scaling(parts: Parts) -> None:
    """How an epoch grows.

    No more factors are tried than the ratings can tell, so that some of these ratios say nothing
    with many factors: they are taken with few as well.
    """
    usual, few = epoch(parts), a_tenth(parts)
    growth = len(parts[0]) / len(few[0])
    print(f"  2 threads against 1              {epoch(parts, threads=1) / usual:8.2f} x   (bar: 1.7)")
    for factors in (FACTORS, FEW_FACTORS):
        ratio = epoch(parts, factors) / epoch(few, factors)
        print(
            f"  {growth:4.1f} times the ratings, F = {factors:3}  {ratio:8.2f} x   "
            "the time (bar: 11 for 10 times)"
        )
    for factors in (FACTORS, 24):
        ratio = epoch(parts, 2 * factors) / epoch(parts, factors)
        print(f"  F = {factors:3} doubled                  {ratio:8.2f} x   the time (bar: 2.2)")


def main() -> None:
    """Print all timings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-1m", help="name of a data set, or a file")
    parser.add_argument("--iterations", type=int, default=10, help="of myFM that are timed")
    options = parser.parse_args()
    parts = split(options.data)
    print(f"{options.data}, {len(parts[0]):,} training ratings, {THREADS} threads")
    training(*a_tenth(parts)[:2])  # compile
    try:
        beside_myfm(parts, options.iterations)
    except ImportError as error:
        print(f"  myFM is not there: {error}")
    scaling(parts)
    with_ten_times_the_ratings(parts)


if __name__ == "__main__":
    main()

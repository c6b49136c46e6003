"""Surveys beside what users would pick instead: error, likelihood, and seconds of hidden answers.

    python benchmarks/speed/surveys.py [--data pisa] [--rows 5000]

The first questions of a survey (all of them, of a sample of its rows), a tenth of the answers hidden:
`CumulativeRBM()`, gcimpute's Gaussian copula and scikit-learn's IterativeImputer, each in a process of
its own that has compiled or imported everything before the clock starts, one after the other in one
run. Processor seconds are of fitting and of predicting the hidden answers; differences are paired, with
their standard errors. Last, what learning itself takes on a small table (400 x 5) and on the Food World
Cup, with 12 factors.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from isolated import Failure, alone

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hidden_answers"))  # it has peers, too
from data import levels, load, mask
from ours import defaults
from peers import Stopwatch, gaussian_copula, iterative_imputer, marginal
from score import nll

import ordinalrbm as orbm

METHODS = {
    "CumulativeRBM()": defaults,
    "gcimpute, Gaussian copula": gaussian_copula,
    "IterativeImputer": iterative_imputer,
    "marginal": marginal,
}


def run(name: str, data: str, n_rows: int) -> dict[str, Any]:
    """Absolute errors of the hidden answers, mean negative log-likelihood and seconds of a method."""
    method, frame = METHODS[name], load(data)
    frame = frame.sample(min(n_rows, len(frame)), random_state=0).reset_index(drop=True)
    few = frame.head(200)
    part, rows, columns, _ = mask(few, seed=1)
    method(part, rows, columns)  # imports and compiles
    train, rows, columns, truth = mask(frame)
    watch = Stopwatch()
    found = method(train, rows, columns)
    wall, cpu = watch.read()
    likelihood = float("nan")
    if found.probabilities is not None:
        likelihood = nll(found.probabilities, truth, columns, levels(train))
    return {"error": np.abs(found.point - truth), "nll": likelihood, "wall": wall, "cpu": cpu}


def learning(frame: pd.DataFrame, n_factors: int | None) -> tuple[float, float]:
    """Wall and processor seconds of a fit, the second of two."""
    model = orbm.CumulativeRBM(n_factors, random_state=0)
    model.fit(frame)
    watch = Stopwatch()
    model.fit(frame)
    return watch.read()


def small() -> pd.DataFrame:
    """400 people, five questions on a scale of five."""
    rng = np.random.default_rng(0)
    trait = rng.normal(size=(400, 1)) + rng.normal(size=(400, 5))
    return pd.DataFrame(np.digitize(trait, [-1.5, -0.5, 0.5, 1.5]) + 1.0).add_prefix("q")


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="pisa", help="bfi, food, spi, big5 or pisa")
    parser.add_argument("--rows", type=int, default=5000)
    options = parser.parse_args()
    frame = load(options.data)
    print(f"{options.data}, {min(options.rows, len(frame)):,} rows, {frame.shape[1]} questions")
    print(f"  {'':28}{'MAE':>8}{'than ours':>18}{'NLL':>8}{'wall s':>9}{'CPU s':>9}")
    base: dict[str, Any] = {}
    for name in METHODS:
        found = alone(run, name, options.data, options.rows)
        if isinstance(found, Failure):
            print(f"  {name:28}{found.reason}")
            continue
        base = base or found
        gain = found["error"] - base["error"]
        less = f"{gain.mean():+.4f} ± {gain.std() / np.sqrt(gain.size):.4f}" if gain.any() else ""
        numbers = f"{found['error'].mean():8.4f}{less:>18}{found['nll']:8.4f}"
        print(f"  {name:28}{numbers}{found['wall']:9.1f}{found['cpu']:9.1f}", flush=True)
    for title, table, n_factors in (
        ("a table of 400 x 5", small(), None),
        ("Food World Cup, 12 factors", orbm.datasets.load_food_world_cup(), 12),
    ):
        wall, cpu = learning(table, n_factors)
        print(f"  learning, {title:28}{wall:9.2f} s wall{cpu:9.2f} s CPU")


if __name__ == "__main__":
    main()

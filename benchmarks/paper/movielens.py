"""The paper's MovieLens table: ours, as a matrix and as vectors, beside the paper's figures.

    python benchmarks/paper/movielens.py [--factors 50 100 200] [--seeds 5] [--data FILE]

MovieLens 1M, chronological protocol: users with fewer than 30 ratings removed, per user the last
10 ratings are the test, the 5 before them validation. RMSE by the mean, MAE by the mode (the
paper's choice) and by the median.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ordinalrbm as orbm

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sources import ratings

# RMSE and MAE as printed in Tran, Phung and Venkatesh (2012); None where the paper has no figure.
PAPER = {
    ("Gaussian MF", 50): (0.914, 0.720),
    ("ordinal MF", 50): (0.904, 0.682),
    ("multinomial RBM", 50): (0.928, 0.711),
    ("matrix CRBM", 50): (0.904, 0.666),
    ("matrix CRBM", 100): (0.904, 0.662),
}
MODELS = {
    "matrix CRBM": lambda k, seed: orbm.MatrixCumulativeRBM(k, k, random_state=seed),
    "vector CRBM": lambda k, seed: orbm.MatrixCumulativeRBM(k, 0, random_state=seed),
}


def scores(model: Any, test: pd.DataFrame) -> dict[str, float]:
    values = np.sort(test["rating"].unique()).astype(float)
    found = model.predict_proba(test["user"], test["item"])
    return orbm.evaluate.score(found, test["rating"].to_numpy(float), values)


def run(name: str, k: int, seeds: int, parts: tuple[pd.DataFrame, ...]) -> None:
    train, validation, test = parts
    found = []
    for seed in range(seeds):
        begun = time.perf_counter()
        model = MODELS[name](k, seed).fit(train, validation=validation)
        found.append(scores(model, test) | {"seconds": time.perf_counter() - begun})
    mean = pd.DataFrame(found).mean()
    paper = PAPER.get((name, k))
    beside = "     -      -" if paper is None else f"{paper[0]:6.3f} {paper[1]:6.3f}"
    print(
        f"{name:12} {k:4} {mean.rmse:7.4f} {mean.mae:7.4f} {mean.mae_median:7.4f} "
        f"{mean.nll:7.4f} {mean.calibration:7.4f} {mean.seconds:7.1f}   {beside}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-1m", help="name of a data set, or a file")
    parser.add_argument("--factors", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    options = parser.parse_args()
    parts = orbm.evaluate.split(ratings(options.data), protocol="chronological")
    print("training, validation, test:", *map(len, parts), f"; mean of {options.seeds} seeds")
    print(
        f"{'model':12} {'K':>4} {'RMSE':>7} {'MAE':>7} {'median':>7} {'NLL':>7} {'ECE':>7} "
        f"{'seconds':>7}   paper: RMSE, MAE"
    )
    for k in options.factors:
        for name in options.models:
            run(name, k, options.seeds, parts)


if __name__ == "__main__":
    main()

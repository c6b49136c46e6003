"""Vector against matrix: the paper's figure, and a table over seeds.

    python benchmarks/paper/vector_matrix.py [--data ml-1m ml-100k dating-top2000] [--seeds 5]

The figure, of the first data set: mean log probability of training ratings given the expected
factors of their user and item (a pseudo-likelihood), and test RMSE, after each epoch, before
calibration. The table: mean and standard deviation over seeds of the calibrated models. Protocol:
chronological, or random where there are no times.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from table import RESULTS, Parts, make, over_seeds, scores, split

NAMES = ("vector CRBM", "matrix CRBM")
COLOURS = ("#E69F00", "#0072B2")
WATCHED = 200_000
"""Training ratings that the pseudo-likelihood is computed on, at most."""


def course(name: str, k: int, epochs: int, parts: Parts) -> pd.DataFrame:
    """Per epoch: log probability of training ratings and RMSE of the test."""
    train, validation, test = parts
    # Averaging over all epochs keeps the model of each.
    model = make(name, k, 0, n_epochs=epochs, n_averaged=epochs, calibrate=False)
    model.fit(train, validation=validation)
    watched = train.sample(min(len(train), WATCHED), random_state=0)
    found = []
    for after_epoch in model.models_:
        then = copy.copy(model)
        then.models_ = [after_epoch]
        found.append((-scores(then, train, watched)["nll"], scores(then, train, test)["rmse"]))
    epoch = np.arange(1, len(found) + 1)
    return pd.DataFrame(found, columns=["training", "rmse"], index=epoch)


def figure(courses: dict[str, pd.DataFrame], title: str) -> Figure:
    """Both courses, side by side."""
    drawn = Figure(figsize=(9, 3.8), layout="constrained")
    drawn.suptitle(title)
    left, right = drawn.subplots(1, 2)
    for (name, course), colour in zip(courses.items(), COLOURS, strict=True):
        left.plot(course["training"], color=colour, label=name, marker="o", markersize=3)
        right.plot(course["rmse"], color=colour, label=name, marker="o", markersize=3)
    left.set_ylabel("training pseudo-likelihood (nats per rating)")
    right.set_ylabel("test RMSE")
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    return drawn


def table(names: list[str], k: int, seeds: int) -> None:
    """Print how much the matrix treatment helps."""
    print(f"K = {k}, mean ± standard deviation over {seeds} seeds")
    print(f"{'data':15} {'model':12} {'RMSE':>16} {'MAE':>16} {'NLL':>16}")
    for data in names:
        parts = split(data)
        found = [over_seeds(name, k, seeds, parts) for name in NAMES]
        for name, values in zip(NAMES, found, strict=True):
            cells = (spread(values[score]) for score in ("rmse", "mae", "nll"))
            print(f"{data:15} {name:12} {' '.join(f'{cell:>16}' for cell in cells)}", flush=True)
        better = int((found[1]["rmse"] < found[0]["rmse"]).sum())
        print(f"{data:15} the matrix has the smaller RMSE with {better} of {seeds} seeds")


def spread(values: Any) -> str:
    """Mean and standard deviation; one seed has none."""
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1) if len(values) > 1 else 0:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["ml-1m", "ml-100k", "dating-top2000"])
    parser.add_argument("--factors", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=15, help="of the figure")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "vector-matrix.png")
    options = parser.parse_args()
    parts = split(options.data[0])
    courses = {name: course(name, options.factors, options.epochs, parts) for name in NAMES}
    title = f"{options.data[0]}, {options.factors} factors"
    figure(courses, title).savefig(options.out, dpi=150)
    print(f"{options.out.name}: last epoch of {title}")
    for name, found in courses.items():
        last = found.iloc[-1]
        print(f"  {name}: pseudo-likelihood {last.training:.4f}, test RMSE {last.rmse:.4f}")
    table(options.data, options.factors, options.seeds)


if __name__ == "__main__":
    main()

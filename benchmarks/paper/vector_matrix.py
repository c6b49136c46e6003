"""Vectors against the matrix by the paper's procedure: its figure, and a table over seeds.

    python benchmarks/paper/vector_matrix.py [--data ml-1m ml-100k dating] [--seeds 3]

Vectors: users have binary factors and nothing else of their own. Matrix: items have factors too,
and users weights for them, a bias and thresholds. The figure, of the first data set: pseudo-
likelihood of training ratings (each given all others, by our definition and not the paper's) and
log-likelihood of test ratings after every epoch. The table is of the epochs that validation ratings choose.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from methods import RESULTS, Parts, dating, fitted, scores, split

import ordinalrbm as orbm

MODELS = {
    "vectors": lambda k, **given: orbm.MatrixCumulativeRBM.paper(k, 0, **given),
    "matrix": lambda k, **given: orbm.MatrixCumulativeRBM.paper(k, k, **given),
}
COLOURS = ("#E69F00", "#0072B2")


def parts_of(name: str) -> Parts:
    return dating() if name == "dating" else split(name)


def course(name: str, k: int, epochs: int, parts: Parts) -> pd.DataFrame:
    """Per epoch: pseudo-likelihood of training ratings, and log-likelihood of test ratings.

    These are only looked at: no epoch is chosen by them.
    """
    train, _, test = parts
    model, _ = fitted(MODELS[name], k, 0, (train, test, test), n_epochs=epochs)
    return model.history_.set_index("epoch")[["pseudo_likelihood", "validation"]]


def figure(courses: dict[str, pd.DataFrame], title: str) -> Figure:
    """Both courses, side by side."""
    drawn = Figure(figsize=(9, 3.8), layout="constrained")
    drawn.suptitle(title)
    left, right = drawn.subplots(1, 2)
    for (name, found), colour in zip(courses.items(), COLOURS, strict=True):
        style: dict[str, Any] = {"color": colour, "label": name, "marker": "o", "markersize": 3}
        left.plot(found["pseudo_likelihood"], **style)
        right.plot(found["validation"], **style)
    left.set_ylabel("pseudo-likelihood of training ratings\n(nats per rating)")
    right.set_ylabel("log-likelihood of test ratings\n(nats per rating)")
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    return drawn


def table(names: list[str], k: int, seeds: int) -> None:
    """Print how much the matrix treatment helps."""
    print(f"K = {k}, mean ± standard deviation over {seeds} seeds")
    print(f"{'data':8} {'model':8} {'RMSE':>16} {'MAE':>16} {'NLL':>16}")
    for data in names:
        parts = parts_of(data)
        found = {}
        for name, make in MODELS.items():
            models = (fitted(make, k, seed, parts)[0] for seed in range(seeds))
            found[name] = pd.DataFrame([scores(model, parts[0], parts[2]) for model in models])
            cells = (spread(found[name][score]) for score in ("rmse", "mae", "nll"))
            print(f"{data:8} {name:8} {' '.join(f'{cell:>16}' for cell in cells)}", flush=True)
        better = int((found["matrix"]["rmse"] < found["vectors"]["rmse"]).sum())
        print(f"{data:8} the matrix has the smaller RMSE with {better} of {seeds} seeds")


def spread(values: pd.Series) -> str:
    """Mean and standard deviation; one seed has none."""
    return f"{values.mean():.4f} ± {np.nan_to_num(values.std()):.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["ml-1m", "ml-100k", "dating"])
    parser.add_argument("--factors", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=40, help="of the figure")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "vector-matrix.png")
    options = parser.parse_args()
    parts = parts_of(options.data[0])
    courses = {name: course(name, options.factors, options.epochs, parts) for name in MODELS}
    title = f"{options.data[0]}, {options.factors} factors"
    figure(courses, title).savefig(options.out, dpi=150)
    print(f"{options.out.name}: last epoch of {title}")
    for name, found in courses.items():
        last = found.iloc[-1]
        print(
            f"  {name}: pseudo-likelihood {last.pseudo_likelihood:.4f}, of test ratings {last.validation:.4f}"
        )
    table(options.data, options.factors, options.seeds)


if __name__ == "__main__":
    main()

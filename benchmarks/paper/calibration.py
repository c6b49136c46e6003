"""Are predicted probabilities true? Reliability plot and expected calibration error.

    python benchmarks/paper/calibration.py [--data ml-1m] [--factors 50] [--seed 0]

Every level of every test rating has a predicted probability. They are sorted into deciles (the
tenth of the smallest probabilities, and so on), and beside that into ten bins of equal width;
in each, the mean probability should be the share of levels that were answered.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from methods import BEYOND, RESULTS, fitted, split

import ordinalrbm as orbm

BAR = 0.02


def deciles(probabilities: np.ndarray, happened: np.ndarray) -> pd.DataFrame:
    """Mean probability and frequency in each tenth of the probabilities."""
    order = np.argsort(probabilities, axis=None, kind="stable")
    rows = []
    for part in np.array_split(order, 10):
        predicted, observed = probabilities.ravel()[part], happened.ravel()[part]
        error = np.sqrt(observed.mean() * (1 - observed.mean()) / part.size)
        rows.append((predicted.min(), predicted.max(), predicted.mean(), observed.mean(), error, part.size))
    names = ["low", "high", "predicted", "observed", "standard_error", "count"]
    return pd.DataFrame(rows, columns=names, index=np.arange(1, 11))


def show(title: str, found: pd.DataFrame) -> None:
    """Print a table of bins and its largest deviation."""
    deviation = found["observed"] - found["predicted"]
    print(f"\n{title}")
    columns = found.assign(deviation=deviation)
    print(columns.to_string(float_format=lambda value: f"{value:.4f}"))
    print(f"largest deviation: {deviation.abs().max():.4f} (bar: {BAR})")


def figure(found: pd.DataFrame, by_decile: pd.DataFrame, title: str) -> Figure:
    """Frequencies against probabilities, and how many there are of each."""
    drawn = Figure(figsize=(5.5, 6.5), layout="constrained")
    upper, lower = drawn.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    line = np.array([0.0, 1.0])
    upper.fill_between(line, line - BAR, line + BAR, color="0.85", label="within 2 percentage points")
    upper.plot(line, line, color="0.5", linewidth=0.8)
    upper.errorbar(
        found["predicted"],
        found["observed"],
        yerr=2 * found["standard_error"],
        fmt="o",
        color="#0072B2",
        capsize=3,
        label="bins of equal width, ± 2 standard errors",
    )
    upper.plot(by_decile["predicted"], by_decile["observed"], "x", color="#D55E00", label="deciles")
    upper.set(ylabel="how often it was the rating", xlim=(0, 1), ylim=(0, 1), title=title)
    upper.legend(frameon=False, loc="upper left")
    lower.bar(found["low"], found["count"], width=0.1, align="edge", color="#0072B2", ec="white")
    lower.set(xlabel="predicted probability", ylabel="count", yscale="log")
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-1m", help="name of a data set, or a file")
    parser.add_argument("--factors", type=int, default=50, help="half of them, as in tables.py")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "calibration.png")
    options = parser.parse_args()
    parts = split(options.data)
    train, _, test = parts
    model, _ = fitted(BEYOND["OrdinalMF"], options.factors, options.seed, parts)
    values = np.sort(train["rating"].unique())
    truth = test["rating"].to_numpy()
    probabilities = model.predict_proba(test["user"], test["item"])
    found = orbm.evaluate.reliability(probabilities, truth, values)
    by_decile = deciles(probabilities, truth[:, None] == values)
    error = orbm.evaluate.score(probabilities, truth, values)["calibration"]
    title = f"{options.data}, test, OrdinalMF({2 * options.factors})"
    print(f"{title}: expected calibration error {error:.4f}")
    show("deciles", by_decile)
    show("bins of equal width", found)
    figure(found, by_decile, title).savefig(options.out, dpi=150)


if __name__ == "__main__":
    main()

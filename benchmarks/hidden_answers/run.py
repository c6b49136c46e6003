"""Run ours and the peers of the "predicting hidden answers" benchmark and print what they reach.

    python benchmarks/hidden_answers/run.py [names...] [--methods ...] [--mask 0] [--out FILE]

It needs gcimpute, scikit-learn and pyarrow, none of which the library itself depends on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pandas as pd
from data import NAMES, levels, load, mask
from ours import cumulative_rbm, defaults, paper_rbm
from peers import PEERS
from score import accuracy, mae, mode, nll

METHODS = {
    "CumulativeRBM()": defaults,
    "ordinalrbm": cumulative_rbm,
    "ordinalrbm.paper()": paper_rbm,
    **PEERS,
}


def evaluate(name: str, method: str, frame: pd.DataFrame, seed: int) -> dict[str, Any]:
    """Return the scores of one peer on one survey, as one line of the results."""
    train, rows, columns, truth = mask(frame, seed)
    prediction = METHODS[method](train, rows, columns)
    result = {
        "data": name,
        "method": method,
        "mask": seed,
        "hidden": truth.size,
        "mae": mae(prediction.point, truth),
        "accuracy": accuracy(prediction.point, truth),
        "nll": None,
        "seconds": prediction.seconds,
    }
    if prediction.probabilities is not None:
        known = levels(train)
        result["nll"] = nll(prediction.probabilities, truth, columns, known)
        best = mode(prediction.probabilities, columns, known)
        result["accuracy_of_mode"] = accuracy(best, truth)
    return result | prediction.extra


def line(result: dict[str, Any]) -> str:
    """Return a row of the printed table."""
    likelihood = "-" if result["nll"] is None else f"{result['nll']:.4f}"
    return (
        f"{result['data']:5} {result['method']:25} {result['mae']:7.4f} "
        f"{result['accuracy']:9.4f} {likelihood:>7} {result['seconds']:8.1f}"
    )


def main() -> None:
    """Run the surveys named on the command line, or all, and keep each result once it is there."""
    parser = argparse.ArgumentParser(description="Run the peers on hidden survey answers.")
    parser.add_argument("names", nargs="*", default=NAMES, help=f"data sets out of {NAMES}")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--mask", type=int, default=0, help="seed of which answers are hidden")
    parser.add_argument("--out", type=Path, help="file to append the results to, as JSON lines")
    options = parser.parse_args()
    print(f"{'data':5} {'method':25} {'MAE':>7} {'accuracy':>9} {'NLL':>7} {'seconds':>8}")
    for name in options.names:
        frame = load(name)
        for method in options.methods:
            result = evaluate(name, method, frame, options.mask)
            print(line(result), flush=True)
            if options.out is not None:
                with options.out.open("a") as out:
                    out.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()

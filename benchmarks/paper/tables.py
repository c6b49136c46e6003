"""The paper's tables beside ours, method by method in the paper's own form.

    python benchmarks/paper/tables.py [--data movielens dating] [--factors 50 100 200] [--seeds 3]
    python benchmarks/paper/tables.py --netflix FOLDER [--users 50000]
    python benchmarks/paper/tables.py --beyond --factors 50

`MatrixCumulativeRBM.paper()`, ordinal and Gaussian matrix factorisation with point estimates, and
the multinomial RBM. MAE is that of the mode for models of levels and of the unrounded mean for
Gaussian MF, as in the paper. Validation ratings only choose the epoch. Netflix's ratings may not be
passed on: its rows are printed for those who have combined_data_*.txt or mv_*.txt in a folder.
``--beyond`` prints instead what the library reaches with its other models.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from methods import BEYOND, PAPERS, Parts, dating, fitted, movielens, netflix, paper_errors, published, scores

import ordinalrbm as orbm

NOT_THE_SAME = "not the paper's data: the 2,000 most active users only, so that the columns do not compare"
SCORES = ("rmse", "mae", "mae_median", "nll", "calibration")


def papers_form(name: str, parts: Parts, options: argparse.Namespace) -> None:
    """The four methods beside the paper's figures."""
    print(f"{'':16} {'K':>4}   {'paper: RMSE, MAE':>17}   {'ours':>15}   {'spread':>15}  seconds")
    for k in options.factors:
        for method in options.methods:
            make = PAPERS[method]
            found, seconds = [], []
            for seed in range(options.seeds):
                model, cost = fitted(make, k, seed, parts)
                found.append(paper_errors(model, parts[2]))
                seconds.append(cost)
            there = published()[name][method].get(str(k))
            paper = "{:9.3f} {:7.3f}".format(*there) if there else f"{'-':>9} {'-':>7}"
            ours = "{:7.4f} {:7.4f}".format(*np.mean(found, axis=0))
            spread = "{:7.4f} {:7.4f}".format(*np.std(found, axis=0))
            print(f"{method:16} {k:4}   {paper}   {ours}   {spread}  {np.mean(seconds):6.1f}", flush=True)


def beyond(parts: Parts, options: argparse.Namespace) -> None:
    """Our other models, by all scores."""
    print(
        f"{'':20} {'K':>4} {'RMSE':>7} {'MAE':>7} {'median':>7} {'NLL':>7} {'ECE':>7} seconds   "
        f"mean of {options.seeds} seeds"
    )
    for k in options.factors:
        for name, make in BEYOND.items():
            found = []
            for seed in range(options.seeds):
                model, cost = fitted(make, k, seed, parts)
                found.append(scores(model, parts[0], parts[2]) | {"seconds": cost})
            mean = pd.DataFrame(found).mean()
            ours = " ".join(f"{mean[score]:7.4f}" for score in SCORES)
            print(f"{name:20} {k:4} {ours} {mean['seconds']:7.1f}", flush=True)


def sources(options: argparse.Namespace) -> dict[str, Parts]:
    """The data sets that were asked for."""
    if options.netflix is not None:
        return {"netflix": netflix(options.netflix, options.users)}
    known = {"movielens": movielens, "dating": lambda: dating(options.libimseti)}
    return {name: known[name]() for name in options.data}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ("movielens", "dating")
    parser.add_argument("--data", nargs="+", default=list(names), choices=names)
    parser.add_argument("--factors", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--methods", nargs="+", default=list(PAPERS), choices=list(PAPERS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--libimseti", type=Path, help="Libimseti's own ratings.dat")
    parser.add_argument("--netflix", type=Path, help="folder of Netflix's files, instead")
    parser.add_argument("--users", type=int, help="a random part of so many Netflix users")
    parser.add_argument("--beyond", action="store_true", help="our other models instead")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    try:
        found = sources(options)
    except orbm.DataError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error
    for name, parts in found.items():
        train, validation, test = map(len, parts)
        print(f"{name}: {train:,} training, {validation:,} validation, {test:,} test ratings")
        if name == "dating" and options.libimseti is None:
            print(f"({NOT_THE_SAME})")
        if options.beyond:
            beyond(parts, options)
        else:
            papers_form(name, parts, options)


if __name__ == "__main__":
    main()

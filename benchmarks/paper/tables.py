"""The paper's tables beside ours, method by method in the paper's own form.

    python benchmarks/paper/tables.py [--data movielens dating] [--factors 50 100 200] [--seeds 3]

`MatrixCumulativeRBM.paper()`, ordinal and Gaussian matrix factorisation with point estimates, and
the multinomial RBM. MAE is that of the mode for models of levels and of the unrounded mean for
Gaussian MF, as in the paper. Validation ratings only choose the epoch. The dating ratings here are
the 2,000 most active users of Libimseti on five points, not the paper's data.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import pandas as pd
from table import DATA, Parts, ratings, split

import ordinalrbm as orbm

METHODS = {
    "gaussian_mf": lambda k, seed: orbm.GaussianMF(k, posterior="point", random_state=seed),
    "ordinal_mf": lambda k, seed: orbm.OrdinalMF(k, posterior="point", random_state=seed),
    "multinomial_rbm": lambda k, seed: orbm.MultinomialRBM(k, random_state=seed),
    "matrix_crbm": lambda k, seed: orbm.MatrixCumulativeRBM.paper(k, k, random_state=seed),
}
SETS = {"movielens": "ml-1m", "dating": "dating-top2000"}


def parts_of(name: str) -> Parts:
    if name == "movielens":
        return split(SETS[name])
    table = ratings(SETS[name])
    table["rating"] = -(-table["rating"] // 2)  # ten points become five
    return orbm.evaluate.split(table, protocol="random", min_ratings=30, random_state=0)


def errors(model: Any, name: str, train: pd.DataFrame, test: pd.DataFrame) -> tuple[float, float]:
    """RMSE of the mean, and MAE by the paper's rule."""
    truth = test["rating"].to_numpy(float)
    mean = model.predict(test["user"], test["item"], rule="mean")
    point = mean
    if name != "gaussian_mf":
        point = model.predict(test["user"], test["item"], rule="mode").astype(float)
    return float(np.sqrt(np.mean((mean - truth) ** 2))), float(np.abs(point - truth).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--factors", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    published = json.loads((DATA.parent / "paper_numbers.json").read_text())
    for name in options.data:
        train, validation, test = parts_of(name)
        print(
            f"{name}: {len(train):,} training, {len(validation):,} validation, {len(test):,} test"
        )
        print(
            f"{'':16} {'K':>4}   {'paper: RMSE, MAE':>17}   {'ours':>15}   {'spread':>15}  seconds"
        )
        for k in options.factors:
            for method in options.methods:
                begun = time.perf_counter()
                found = np.array(
                    [
                        errors(
                            METHODS[method](k, seed).fit(train, validation=validation),
                            method, train, test,
                        )
                        for seed in range(options.seeds)
                    ]
                )  # fmt: skip
                seconds = (time.perf_counter() - begun) / options.seeds
                paper = "{:9.3f} {:7.3f}".format(*published[name][method][str(k)])
                ours = "{:7.4f} {:7.4f}".format(*found.mean(axis=0))
                spread = "{:7.4f} {:7.4f}".format(*found.std(axis=0))
                print(
                    f"{method:16} {k:4}   {paper}   {ours}   {spread}  {seconds:6.1f}", flush=True
                )


if __name__ == "__main__":
    main()

"""Why the paper's matrix model gets worse with more factors on the subset of dating ratings.

    python benchmarks/paper/dating.py [--factors 50 100 200] [--only WORD]

`MatrixCumulativeRBM.paper(K, K)` with one setting changed at a time, scored on *validation* ratings
(which also choose the epoch) and on 20,000 of the ratings that were learnt from: what underfits is
bad on both, what overfits only on the former. --only prints the lines whose names contain a word.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from methods import dating, fitted, scores

import ordinalrbm as orbm

VARIANTS: dict[str, dict[str, Any]] = {
    "preset (decay K)": {},
    "decay 5": {"weight_decay": 5.0},
    "decay 20": {"weight_decay": 20.0},
    "decay 50": {"weight_decay": 50.0},
    "decay 100": {"weight_decay": 100.0},
    "decay 200": {"weight_decay": 200.0},
    "decay learnt": {"weight_decay": None},
    "rate 0.03": {"learning_rate": 0.03},
    "120 epochs": {"n_epochs": 120},
    "S = 10": {"n_item_factors": 10},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--factors", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD")
    options = parser.parse_args()
    parts = dating()
    seen = parts[0].sample(20_000, random_state=0)
    print(f"{'':17} {'K':>4}   validation: RMSE, MAE, NLL   learnt from: RMSE, NLL   epoch")
    for k in options.factors:
        for name, settings in VARIANTS.items():
            if any(word in name for word in options.only):
                line(name, k, settings, parts, seen)


def line(name: str, k: int, settings: dict[str, Any], parts: Any, seen: Any) -> None:
    def make(k: int, n_item_factors: int | None = None, **given: Any) -> Any:
        return orbm.MatrixCumulativeRBM.paper(k, n_item_factors or k, demand_factors=0, **given)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of learning that diverged
        model, _ = fitted(make, k, 0, parts, **settings)
    on_validation, on_seen = (scores(model, parts[0], asked) for asked in (parts[1], seen))
    figures = " ".join(f"{on_validation[score]:7.4f}" for score in ("rmse", "mae", "nll"))
    learnt = " ".join(f"{on_seen[score]:7.4f}" for score in ("rmse", "nll"))
    print(f"{name:17} {k:4}   {figures:>27}   {learnt:>22}   {model.best_epoch_:5}", flush=True)


if __name__ == "__main__":
    main()

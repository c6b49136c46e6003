"""New users without retraining: their error against full training, and milliseconds per user.

    python benchmarks/fold_in.py [--data ml-1m] [--share 0.05] [--model ordinal-mf] [--seeds 1]

A share of the users is hidden during training and then folded in from all but their test ratings.
Full training has the same ratings: theirs, but for the test, and everybody's training ratings.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sources import Parts, split

import ordinalrbm as orbm

TIMED = 50
"""Users that are folded in one by one."""


MODELS = {
    "ordinal-mf": lambda k: orbm.OrdinalMF(2 * k),
    "matrix-crbm": lambda k: orbm.MatrixCumulativeRBM(k, k),
}


def fitted(train: pd.DataFrame, validation: pd.DataFrame, model: Any, seed: int) -> Any:
    return clone(model).set_params(random_state=seed).fit(train, validation=validation)


def rmse(model: Any, test: pd.DataFrame) -> float:
    error = model.predict(test["user"], test["item"]) - test["rating"].to_numpy()
    return float(np.sqrt(np.mean(error**2)))


def milliseconds(model: Any, theirs: pd.DataFrame) -> np.ndarray:
    """Of folding in one user, for some users."""
    found = []
    for _, own in list(theirs.groupby("user"))[:TIMED]:
        begun = time.perf_counter()
        model.fold_in(own)
        found.append(1e3 * (time.perf_counter() - begun))
    return np.array(found)


def run(parts: Parts, share: float, of_kind: Any, seed: int) -> None:
    users = parts[0]["user"].unique()
    rng = np.random.default_rng(seed)
    hidden = rng.choice(users, max(round(share * users.size), 1), replace=False)
    train, validation, _ = parts
    new, watched_new, asked = (part[part["user"].isin(hidden)] for part in parts)
    theirs = pd.concat([new, watched_new])
    others, watched = train.drop(new.index), validation.drop(watched_new.index)
    full = rmse(fitted(pd.concat([others, theirs]), watched, of_kind, seed), asked)
    model = fitted(others, watched, of_kind, seed)
    milliseconds(model, theirs)  # compile
    begun = time.perf_counter()
    wider = model.fold_in(theirs)
    together = 1e3 * (time.perf_counter() - begun) / hidden.size
    folded, alone = rmse(wider, asked), milliseconds(model, theirs)
    print(
        f"seed {seed}: {hidden.size} users, {len(theirs)} ratings, {len(asked)} of the test\n"
        f"  RMSE of full training    {full:8.4f}\n"
        f"  RMSE when folded in      {folded:8.4f}   {folded - full:+.4f} (bar: 0.01)\n"
        f"  RMSE when unknown        {rmse(model, asked):8.4f}\n"
        f"  one by one               {np.median(alone):8.2f} ms per user, "
        f"{alone.max():.2f} at most (bar: 5)\n"
        f"  all together             {together:8.2f} ms per user",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-1m", help="name of a data set, or a file")
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--model", choices=list(MODELS), default="ordinal-mf")
    parser.add_argument("--factors", type=int, default=50, help="K = S; OrdinalMF has K + S")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    parts = split(options.data)
    for seed in range(options.seeds):
        run(parts, options.share, MODELS[options.model](options.factors), seed)


if __name__ == "__main__":
    main()

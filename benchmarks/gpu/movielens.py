"""MovieLens 1M on the GPU and on the cores: is the held-out likelihood the same?

    python benchmarks/gpu/movielens.py ratings.npz

The file holds user, item, rating and timestamp of ``ratings.dat`` as arrays; test ratings are the
last ten of each user, as in benchmarks/paper/movielens.py.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd

import ordinalrbm as orbm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--factors", type=int, default=100)
    given = parser.parse_args()
    ratings = pd.DataFrame(dict(np.load(given.file)))
    train, validation, test = orbm.evaluate.split(ratings, protocol="chronological", other_users="drop")
    for device in ("cuda", "cuda", "cpu", "cpu"):  # the first of each also compiles
        model = orbm.OrdinalMF(given.factors, random_state=0, device=device)
        print(f"{device:5s} {learnt_and_scored(model, train, validation, test)}", flush=True)


def learnt_and_scored(model: Any, train: Any, validation: Any, test: Any) -> str:
    """Fit a model; how long that took, and how well it predicts."""
    start = time.perf_counter()
    model.fit(train, validation)
    seconds = time.perf_counter() - start
    found = model.predict_proba(test["user"], test["item"])
    scores = orbm.evaluate.score(found, test["rating"])
    return (
        f"{seconds:6.2f} s  {model.n_iter_} epochs  NLL {scores['nll']:.6f}  "
        f"RMSE {scores['rmse']:.5f}  MAE {scores['mae']:.5f}"
    )


if __name__ == "__main__":
    main()

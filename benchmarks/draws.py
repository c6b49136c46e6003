"""What a sampled posterior costs afterwards: the file, and predictions beside the variational ones.

    python benchmarks/draws.py [--factors 50] [--draws 64]

MovieLens 1M. Chains are cut short: sizes and times do not depend on how good the draws are.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sources import ratings

import ordinalrbm as orbm


def least_seconds(call: Callable[[], Any], repeats: int) -> float:
    found = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--factors", type=int, default=50)
    parser.add_argument("--draws", type=int, default=64)
    options = parser.parse_args()
    table = ratings("ml-1m")
    quick = orbm.OrdinalMF(options.factors, n_epochs=2, random_state=0).fit(table)
    sampled = orbm.OrdinalMF(
        options.factors,
        posterior="sampled",
        n_draws=options.draws,
        n_epochs=2 * options.draws,
        random_state=0,
    ).fit(table)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.orbm"
        for name, model in (("variational", quick), ("sampled", sampled)):
            model.save(path)
            print(f"{name:12} file {path.stat().st_size / 1e6:6.1f} MB")
    rng = np.random.default_rng(0)
    users, items = (rng.choice(ids.labels, 100_000) for ids in (quick.users_, quick.items_))
    for name, call, repeats in (
        ("predict_proba of 100,000 pairs", lambda m: m.predict_proba(users, items), 5),
        ("recommend for all users", lambda m: m.recommend("all"), 2),
    ):
        one, many = (least_seconds(partial(call, model), repeats) for model in (quick, sampled))
        print(f"{name:32} {one:7.3f} s, {many:7.3f} s: {many / one:5.1f} times")


if __name__ == "__main__":
    main()

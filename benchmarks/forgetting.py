"""Forgetting users against never having seen them: the likelihood of the others' test ratings.

    python benchmarks/forgetting.py [--data ml-100k] [--share 0.01] [--models ordinal-mf] [--seeds 1]

A model learns from all, and forgets a share of the users, others with each seed; another has the same
settings and never sees these. Both are asked for the test ratings of all others. The likelihoods of two
models that never saw them, learnt with two seeds, are apart, too: by how much is printed beside.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sources import Parts, split

import ordinalrbm as orbm

MODELS = {
    "ordinal-mf": lambda: orbm.OrdinalMF(demand_factors=0),
    "sampled": lambda: orbm.OrdinalMF(10, posterior="sampled", n_epochs=60, n_draws=20, demand_factors=0),
    "gaussian-mf": lambda: orbm.GaussianMF(demand_factors=0),
    "matrix-crbm": lambda: orbm.MatrixCumulativeRBM(10, 10, demand_factors=0),
    "multinomial-rbm": lambda: orbm.MultinomialRBM(demand_factors=0),
}
BAR = 0.001


def loss(model: Any, test: Any) -> float:
    return -model.score(test[["user", "item", "rating"]])


def is_gone(model: Any, users: np.ndarray) -> bool:
    """Whether a file of the model has none of these users among its ids, and no more ratings than it says."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.orbm"
        model.save(path)
        again = orbm.load(path)
    return (
        not np.isin(users, again.users_.labels).any() and again.ratings_.n_ratings == model.ratings_.n_ratings
    )


def run(parts: Parts, share: float, name: str, seed: int) -> tuple[float, float]:
    """Less than never having seen them, and two of these less each other."""
    train, validation, _ = parts
    users = train["user"].unique()
    gone = np.random.default_rng(seed).choice(users, max(round(share * users.size), 1), replace=False)
    of_others = [part[~part["user"].isin(gone)] for part in parts]
    model = MODELS[name]().set_params(random_state=seed).fit(train, validation=validation)
    before = loss(model, of_others[2])
    model.forget(gone)
    forgot = loss(model, of_others[2])
    never = MODELS[name]().set_params(random_state=seed).fit(of_others[0], validation=of_others[1])
    without = loss(never, of_others[2])
    again = MODELS[name]().set_params(random_state=seed + 1000).fit(of_others[0], validation=of_others[1])
    apart = forgot - without
    print(
        f"{name}, seed {seed}: {gone.size} users with {len(train) - len(of_others[0]):,} ratings, "
        f"{len(of_others[2]):,} of the test\n"
        f"  before {before:.5f}   forgot {forgot:.5f}   never saw them {without:.5f}   "
        f"{apart:+.5f} (bar: {BAR}){'' if abs(apart) <= BAR else '  MISSED'}   "
        f"file: {'nothing left' if is_gone(model, gone) else 'IDS LEFT'}",
        flush=True,
    )
    return apart, loss(again, of_others[2]) - without


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["ordinal-mf"])
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.models:
        parts, seeds = split(arguments.data), range(arguments.seeds)
        found = np.array([run(parts, arguments.share, name, seed) for seed in seeds])
        if len(found) > 1:
            mean, error = found[:, 0].mean(), found[:, 0].std(ddof=1) / np.sqrt(len(found))
            by_seed = np.sqrt(np.mean(found[:, 1] ** 2))
            print(f"{name}: {mean:+.5f} ± {error:.5f} on average; by seeds alone {by_seed:.5f}", flush=True)


if __name__ == "__main__":
    main()

"""Ours on the splits that others publish on, beside what they print.

    python benchmarks/public_splits.py [--splits u1 u2 u3 u4 u5 ml-1m chronological]
        [--methods variational sampled "sampled, features"] [--seeds 3] [--device cuda]

MovieLens 100K in the five folds that come with it; MovieLens 1M, a tenth of the ratings at random
(seed 1234, as in GLocal-K); MovieLens 1M by time, as in the paper, where validation ratings are
given to nobody, or learnt from ("chronological, all"). One setting for all: the defaults.
Features are age, gender and occupation of users, genres and year of films.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from sources import DATA, chain_of, ratings, split

import ordinalrbm as orbm

METHODS: dict[str, Any] = {
    "without rated sets": {"rated_sets": False},
    "variational": {},
    "variational, features": {},
    "sampled": {"posterior": "sampled"},
    "sampled, no drift": {"posterior": "sampled", "drift": "none"},
    "sampled, features": {"posterior": "sampled"},
}
PUBLISHED = {
    "u1": (
        "myFM with days, rated sets and side features 0.8808; GHRS 0.887; GLocal-K 0.8889 "
        "(epoch chosen on the test set)"
    ),
    "ml-1m": "GLocal-K 0.8227 (epoch chosen on the test set); SparseFC 0.823",
    "chronological": "the paper 0.904",
}
SPLITS = ("u1", "u2", "u3", "u4", "u5", "ml-1m", "chronological", "chronological, all")


def parts_of(name: str) -> tuple[pd.DataFrame, pd.DataFrame | None, pd.DataFrame]:
    """Training, validation if there is any, and test ratings."""
    if name.startswith("u"):
        table = ratings("ml-100k")
        fold = pd.read_parquet(DATA / "ml-100k-folds.parquet")["fold"].to_numpy()
        is_test = fold == int(name[1:])
        return table[~is_test], None, table[is_test]
    if name == "ml-1m":
        table = ratings("ml-1m")
        is_test = pd.read_parquet(DATA / "ml-1m-test-seed1234.parquet")["test"].to_numpy(bool)
        return table[~is_test], None, table[is_test]
    train, validation, test = split("ml-1m")
    if name == "chronological":
        return train, validation, test
    return pd.concat([train, validation]), None, test


def features_of(name: str) -> dict[str, pd.DataFrame]:
    source = "ml-100k" if name.startswith("u") else "ml-1m"
    users, items = (pd.read_parquet(DATA / f"{source}-{part}.parquet") for part in ("users", "items"))
    items["year"] = items["title"].str.extract(r"\((\d{4})\)$").astype(float)
    return {
        "user_features": users.astype({"occupation": str}),  # in MovieLens 1M it is a code
        "item_features": items.drop(columns="title").assign(genres=items["genres"].str.split("|")),
    }


def scores(
    parts: tuple[pd.DataFrame, pd.DataFrame | None, pd.DataFrame],
    settings: Any,
    features: dict[str, pd.DataFrame],
    seed: int,
    device: str = "cpu",
) -> tuple[dict[str, float], str]:
    """Figures, and how the chain went, if there is one."""
    train, validation, test = parts
    begun = time.perf_counter()
    model = orbm.OrdinalMF(50, random_state=seed, device=device, demand_factors=0, **settings)
    model.fit(train, validation=validation, **features)
    seconds = time.perf_counter() - begun
    values = np.sort(train["rating"].unique()).astype(float)
    found = model.predict_proba(test["user"], test["item"], test["timestamp"])
    figures = orbm.evaluate.score(found, test["rating"].to_numpy(float), values)
    return figures | {"seconds": seconds}, chain_of(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), choices=SPLITS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    print(f"OrdinalMF(50), mean of {options.seeds} seeds, on {options.device}")
    print(f"{'':20} {'':22} {'RMSE':>7} {'MAE':>7} {'median':>7} {'NLL':>7} {'seconds':>8}")
    for name in options.splits:
        parts = parts_of(name)
        for method in options.methods:
            features = features_of(name) if method.endswith("features") else {}
            found = [
                scores(parts, METHODS[method], features, seed, options.device)
                for seed in range(options.seeds)
            ]
            mean = pd.DataFrame([figures for figures, _ in found]).mean()
            figures = " ".join(f"{mean[k]:7.4f}" for k in ("rmse", "mae", "mae_median", "nll"))
            print(f"{name:20} {method:22} {figures} {mean['seconds']:8.1f}", flush=True)
            for seed, (_, chain) in enumerate(found):
                if chain:
                    print(f"{name:20} {method:22} seed {seed}:{chain}", flush=True)
        if name in PUBLISHED:
            print(f"{name:20} published RMSE: {PUBLISHED[name]}")


if __name__ == "__main__":
    main()

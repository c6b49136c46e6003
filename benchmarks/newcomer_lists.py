"""Lists for new users of whom 0, 1, 2, 3, 5 or 10 ratings are known, beside popularity.

    python benchmarks/newcomer_lists.py [--data ml-100k ml-1m] [--seeds 3] [--device cuda]

A tenth of the users are new. Their ratings become known one after the other, in random order; what is
to be recommended is always the same: the ratings of 4 or more after the first ten, among all items but
those that are known. NDCG@10, with the standard error of its difference from the one before, paired by
users.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np
import pandas as pd
from sources import ratings

import ordinalrbm as orbm

KNOWN = (0, 1, 2, 3, 5, 10)
LIKED, K = 4, 10
_DISCOUNTS = 1.0 / np.log2(np.arange(2, K + 2))


def by_user(lists: pd.DataFrame, wanted: pd.DataFrame) -> pd.Series:
    """NDCG@10 of each user who likes something."""
    lists = lists.merge(wanted.assign(hit=1.0), how="left", on=["user", "item"]).fillna({"hit": 0.0})
    gains = (lists["hit"] * _DISCOUNTS[lists["rank"] - 1]).groupby(lists["user"]).sum()
    n = wanted.groupby("user").size().clip(upper=K)
    return gains.reindex(n.index, fill_value=0.0) / np.cumsum(_DISCOUNTS)[n - 1]


def popular(train: pd.DataFrame, known: pd.DataFrame, users: np.ndarray) -> pd.DataFrame:
    order = train["item"].value_counts().index[: K + max(KNOWN)]
    every = pd.DataFrame({"user": np.repeat(users, order.size), "item": np.tile(order, users.size)})
    seen = pd.MultiIndex.from_frame(known[["user", "item"]])
    every = every[~pd.MultiIndex.from_frame(every).isin(seen)]
    every["rank"] = every.groupby("user").cumcount() + 1
    return every[every["rank"] <= K]


def measured(data: str, seed: int, device: str) -> tuple[list[pd.Series], list[pd.Series]]:
    """For each number of known ratings, the figures of new users: popularity, ours."""
    table, rng = ratings(data)[["user", "item", "rating"]], np.random.default_rng(seed)
    ids = table["user"].unique()
    is_new = table["user"].isin(rng.choice(ids, ids.size // 10, replace=False))
    train, new = table[~is_new], table[is_new].sample(frac=1.0, random_state=seed)
    new = new[new["item"].isin(train["item"])]
    number = new.groupby("user").cumcount()
    wanted = new.loc[(number >= max(KNOWN)) & (new["rating"] >= LIKED), ["user", "item"]]
    users = np.sort(wanted["user"].unique())
    new = new[new["user"].isin(users)]
    model = orbm.OrdinalMF(50, random_state=seed, device=device).fit(train)
    found: tuple[list[pd.Series], list[pd.Series]] = ([], [])
    for n in KNOWN:
        known = new[number.loc[new.index] < n]
        lists = model.recommend(users, K, ratings=known if n else None)
        found[0].append(by_user(popular(train, known, users), wanted))
        found[1].append(by_user(lists, wanted))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["ml-100k", "ml-1m"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    for data in options.data:
        every = [measured(data, seed, options.device) for seed in range(options.seeds)]
        print(f"{data}: NDCG@10 of new users, {options.seeds} seeds; known ratings {KNOWN}")
        for which, name in enumerate(("popularity", "ours")):
            parts = [pd.concat([found[which][k] for found in every]).to_numpy() for k in range(len(KNOWN))]
            errors = [0.0, *(np.std(b - a) / np.sqrt(a.size) for a, b in pairwise(parts))]
            pairs = zip(parts, errors, strict=True)
            line = "  ".join(f"{part.mean():.4f} ± {error:.4f}" for part, error in pairs)
            print(f"{name:12}{line}", flush=True)


if __name__ == "__main__":
    main()

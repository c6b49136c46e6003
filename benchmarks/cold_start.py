"""New users of MovieLens 1M: predicted from features and from their first few ratings. New items.

    python benchmarks/cold_start.py [--sampled] [--factors 50] [--device cuda]
    python benchmarks/cold_start.py --new item [--data ml-100k] [--seeds 3] [--sampled] [--factors 50]

A tenth of the users are not learnt from. Of each, ten ratings at random are known one after the
other, and the others are predicted: the same ones, whatever is known. Beside it is the mean rating
of the item among the users that are learnt from, drawn towards the mean of all by five ratings.

With --new, a tenth of the items (or users) are new, thirty ratings of each become known one after the
other, and there are mean error and RMSE beside those of damped biases, which know the same ratings.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
from public_splits import features_of
from sources import chain_of, ratings

import ordinalrbm as orbm

KNOWN = (0, 1, 3, 10)
KNOWN_OF_NEW = (0, 1, 3, 10, 30)
DAMPING = 5.0


def parts(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Ratings of known users; the first ten of new ones, numbered; and what is to be predicted."""
    table, rng = ratings("ml-1m"), np.random.default_rng(seed)
    users = table["user"].unique()
    hidden = table["user"].isin(rng.choice(users, users.size // 10, replace=False))
    new = table[hidden].sample(frac=1.0, random_state=seed)
    new["number"] = new.groupby("user").cumcount()
    first = new["number"] < max(KNOWN)
    return table[~hidden], new[first], new[~first]


def rmse(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.square(found - truth).mean()))


def item_means(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    by_item = train.groupby("item")["rating"].agg(["sum", "count"])
    overall = train["rating"].mean()
    damped = (by_item["sum"] + DAMPING * overall) / (by_item["count"] + DAMPING)
    return damped.reindex(test["item"]).fillna(overall).to_numpy()


def row(model: Any, first: pd.DataFrame, test: pd.DataFrame, users: pd.DataFrame | None) -> list:
    """RMSE after each number of ratings."""
    found = []
    newcomers = None if users is None else users[users["user"].isin(test["user"])]
    for n in KNOWN:
        some, wider = first[first["number"] < n], model
        if n or newcomers is not None:
            columns = some[["user", "item", "rating"]] if n else None
            wider = model.fold_in(columns, user_features=newcomers)
        found.append(rmse(wider.predict(test["user"], test["item"]), test["rating"].to_numpy()))
    return found


def errors(found: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    return float((found - truth).mean()), rmse(found, truth)


def newcomers(data: str, kind: str, seed: int, model: orbm.OrdinalMF) -> np.ndarray:
    """(numbers of ratings, 2, 2): mean error and RMSE of biases and of the model."""
    table, rng = ratings(data), np.random.default_rng(seed)
    ids, other = table[kind].unique(), "user" if kind == "item" else "item"
    hidden = table[kind].isin(rng.choice(ids, ids.size // 10, replace=False))
    new, train = table[hidden].sample(frac=1.0, random_state=seed), table[~hidden]
    new["number"] = new.groupby(kind).cumcount()
    test = new[(new["number"] >= max(KNOWN_OF_NEW)) & new[other].isin(train[other])]
    truth, found = test["rating"].to_numpy(), []
    model.fit(train)
    for n in KNOWN_OF_NEW:
        some = new.loc[new["number"] < n, table.columns]
        biases = orbm.evaluate.DampedBiases().fit(pd.concat([train, some]))
        wider = model.fold_in(some) if n else model
        asked = test["user"], test["item"]
        at_times = wider.predict(*asked, times=test.get("timestamp"))
        found.append([errors(each, truth) for each in (biases.predict(*asked), at_times)])
    return np.array(found)


def show_newcomers(options: argparse.Namespace) -> None:
    posterior = "sampled" if options.sampled else "variational"
    model = orbm.OrdinalMF(options.factors, posterior=posterior, random_state=0, device=options.device)
    each = [newcomers(options.data, options.new, seed, model) for seed in range(options.seeds)]
    print(f"{options.data}, new {options.new}s, {posterior}, mean error and RMSE, {options.seeds} draws")
    print(f"{'known ratings':24}" + "".join(f"{n:16}" for n in KNOWN_OF_NEW))
    for name, found in zip(("damped biases", "OrdinalMF"), np.mean(each, axis=0).swapaxes(0, 1), strict=True):
        print(f"{name:24}" + "".join(f"{mean:+8.3f}{error:8.4f}" for mean, error in found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sampled", action="store_true")
    parser.add_argument("--factors", type=int, default=50)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--new", choices=("item", "user"))
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.new:
        return show_newcomers(options)
    train, first, test = parts()
    known = first["item"].isin(train["item"]) & first["rating"].notna()
    first = first[known]
    features = features_of("ml-1m")
    users = features["user_features"]
    of_known = users[users["user"].isin(train["user"])]
    given = {"user_features": of_known, "item_features": features["item_features"]}
    n_users = test["user"].nunique()
    print(f"MovieLens 1M: {n_users:,} new users, {len(test):,} ratings to predict, RMSE")
    print(f"{'known ratings':44}" + "".join(f"{n:8}" for n in KNOWN))
    truth = test["rating"].to_numpy()
    mean = rmse(item_means(train, test), truth)
    print(f"{'mean of the item':44}" + f"{mean:8.4f}" * len(KNOWN), flush=True)
    posterior = "sampled" if options.sampled else "variational"
    for rated_sets in (False, True):
        for with_features in (False, True):
            model = orbm.OrdinalMF(
                options.factors,
                posterior=posterior,
                rated_sets=rated_sets,
                random_state=0,
                device=options.device,
            )
            model.fit(train, **(given if with_features else {}))
            found = row(model, first, test, users if with_features else None)
            name = f"{posterior}, {'with' if rated_sets else 'without'} rated sets"
            name += ", features" if with_features else ""
            figures = "".join(f"{value:8.4f}" for value in found)
            print(f"{name:44}{figures}{chain_of(model)}", flush=True)


if __name__ == "__main__":
    main()

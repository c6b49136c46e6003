"""Updates in batches beside a full fit: MovieLens 1M, the last fifth of the ratings.

    python benchmarks/update.py [--sampled]

Times of MovieLens 1M are ranks in a user's own history; ratings come in the order of the share of
the history that lies before them. A twentieth of the users and of the items come new with the
batches: all of their ratings are among the last fifth. Of that fifth every tenth rating is tested,
the others arrive in ten batches.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
from sources import chain_of, ratings

import ordinalrbm as orbm


def parts(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """First ratings, later ones in their order, and test ratings."""
    table, rng = ratings("ml-1m"), np.random.default_rng(seed)
    place = table.groupby("user")["timestamp"].rank(pct=True).to_numpy()
    users, items = table["user"].unique(), table["item"].unique()
    new = table["user"].isin(rng.choice(users, users.size // 20, replace=False))
    new = (new | table["item"].isin(rng.choice(items, items.size // 20, replace=False))).to_numpy()
    place = np.where(new, 0.8 + 0.2 * place, place)
    is_late = place > 0.8
    late = table[is_late].assign(place=place[is_late]).sort_values("place", kind="stable")
    is_test = rng.random(len(late)) < 0.1
    columns = ["user", "item", "rating"]
    return table[~is_late][columns], late[~is_test][columns], late[is_test][columns]


def rmse(model: orbm.OrdinalMF, test: pd.DataFrame) -> float:
    return float(np.sqrt(np.square(model.predict(test["user"], test["item"]) - test["rating"]).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sampled", action="store_true")
    options = parser.parse_args()
    first, late, test = parts()
    posterior = "sampled" if options.sampled else "variational"

    def fitted(table: pd.DataFrame) -> tuple[orbm.OrdinalMF, float]:
        begun = time.perf_counter()
        model = orbm.OrdinalMF(50, posterior=posterior, random_state=0).fit(table)
        return model, time.perf_counter() - begun

    print(f"{len(first):,} ratings, {len(late):,} later, {len(test):,} tested; RMSE")
    whole, full = fitted(pd.concat([first, late]))
    print(f"  full fit           {rmse(whole, test):.4f}  {full:6.2f} s{chain_of(whole)}")
    for n_batches in (1, 10):
        model, _ = fitted(first)
        if n_batches == 1:
            print(f"  before             {rmse(model, test):.4f}")
        took = []
        for batch in np.array_split(np.arange(len(late)), n_batches):
            begun = time.perf_counter()
            model.update(late.iloc[batch])
            took.append(time.perf_counter() - begun)
        each = float(np.median(took))
        print(
            f"  {n_batches:2} batches         {rmse(model, test):.4f}  {each:6.2f} s each, "
            f"{each / full:.1%} of a full fit",
            flush=True,
        )


if __name__ == "__main__":
    main()

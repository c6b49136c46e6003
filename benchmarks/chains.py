"""Sampled against variational on whole sets, parts of them, and noise; and whether chains have mixed.

    python benchmarks/chains.py [--sets noise ml-100k ...] [--sizes 1000 5000 20000 0] [--seeds 0 1 2]
        [--device cuda]

Of each set so many ratings are drawn, either any or those of users drawn at random, and a fifth of
these users' ratings is predicted (0: the whole set). Noise is uniform on five levels, which nothing
predicts better than log 5 = 1.609. Differences are paired: mean over test ratings and its standard
error. R-hat is that of log-likelihood, the worst of both widths, and the worst of both ridges.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sources import DATA, RATINGS

import ordinalrbm as orbm

SETS = ("noise", *RATINGS[1:], "coat-chosen", RATINGS[0])
MOST_TESTED = 20_000


def noise(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ratings of which nothing can be learnt: as many users as items, 20 ratings of each."""
    side = max(n // 20, 40)
    known, test = (
        pd.DataFrame({"user": users, "item": items, "rating": rng.integers(1, 6, len(users))})
        for users, items in (
            np.divmod(rng.choice(side**2, n, replace=False), side),
            rng.integers(side, size=(2, MOST_TESTED)),
        )
    )
    return known, known_in(test, known)


def known_in(test: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Test ratings of users and items that are known."""
    return test[test["user"].isin(known["user"]) & test["item"].isin(known["item"])].iloc[:MOST_TESTED]


def parts_of(name: str, size: int, kind: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test ratings; the latter of users and items among the former."""
    rng = np.random.default_rng([seed, size])
    if name == "noise":
        return noise(size, rng)
    frame = pd.read_parquet(DATA / f"{name}.parquet")[["user", "item", "rating"]]
    is_test = rng.random(len(frame)) < 0.2
    known, test = frame[~is_test], frame[is_test]
    if 0 < size < len(known):
        if kind == "users":
            order = rng.permutation(known["user"].unique())
            counts = known["user"].value_counts().loc[order].cumsum()
            users = order[: max(int(np.searchsorted(counts, size)), 2)]
            known = known[known["user"].isin(users)]
        else:
            known = known.iloc[rng.choice(len(known), size, replace=False)]
    return known, known_in(test, known)


def losses(model: Any, test: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Of each test rating: negative log probability, and squared error of the mean."""
    labels = np.asarray(model.scales_.values)
    chance = np.asarray(model.predict_proba(test["user"], test["item"]))
    level = np.searchsorted(labels, test["rating"])
    nll = -np.log(np.maximum(chance[np.arange(len(test)), level], 1e-12))
    return nll, np.square(chance @ labels - test["rating"].to_numpy(float))


def fitted(train: pd.DataFrame, seed: int, **settings: Any) -> tuple[Any, float]:
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = orbm.OrdinalMF(random_state=seed, demand_factors=1, **settings).fit(train)
    return model, time.perf_counter() - begun


def line(name: str, size: int, kind: str, seed: int, settings: dict[str, Any]) -> str:
    """Figures of one pair of fits."""
    train, test = parts_of(name, size, kind, seed)
    variational, _ = fitted(train, seed)
    sampled, seconds = fitted(train, seed, posterior="sampled", **settings)
    (nll, squares), (own_nll, own_squares) = losses(variational, test), losses(sampled, test)
    away = own_nll - nll
    hat, iteration = sampled.chain_["r_hat"], len(sampled.history_)
    widths, ridges = (hat[[f"user_{part}", f"item_{part}"]].max() for part in ("width_precision", "ridge"))
    return (
        f"{name:15s} {size or len(train):7d} {kind:7s} {seed:4d} {len(test):6d}  {nll.mean():.4f} "
        f"{own_nll.mean():.4f} {away.mean():+.4f} ± {away.std() / np.sqrt(len(away)):.4f}   "
        f"{np.sqrt(squares.mean()):.4f} {np.sqrt(own_squares.mean()):.4f}   "
        f"{hat['log_likelihood']:5.2f} {widths:5.2f} {ridges:5.2f}  {iteration:6d} {seconds:7.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 5000, 20_000])
    parser.add_argument("--kinds", nargs="+", default=["ratings", "users"], choices=["ratings", "users"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--factors", type=int, default=50)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    given = parser.parse_args()
    settings = {"n_epochs": given.epochs, "n_factors": given.factors, "device": given.device}
    print(
        "set             ratings of      seed   test  NLL variational, sampled, difference     "
        "RMSE            R-hat: likelihood, widths, ridges; sweeps, s"
    )
    for name in given.sets:
        for size in given.sizes:
            for kind in given.kinds[:1] if name == "noise" or not size else given.kinds:
                for seed in given.seeds:
                    print(line(name, size, kind, seed, settings), flush=True)


if __name__ == "__main__":
    main()

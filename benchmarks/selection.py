"""Learnt from coats that people chose, tested on coats drawn at random for the same people.

    python benchmarks/selection.py [--seeds 0 1 2] [--posteriors variational sampled]

MSE of expected ratings on coat-random, learnt from coat-chosen, without side features. Nothing is
chosen by the random ratings: ``population="everyone"`` is learnt from chosen ones alone. Of weighted
factorisation (MF-IPS: squared errors weighted by inverse propensities, biases and factors by
alternating least squares), rank and ridge are those with the least weighted error for held-out chosen
ratings; propensities are a logistic regression on products of the features of users and items, as
in Schnabel et al. (2016). The same without weights is plain factorisation.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sources import DATA

import ordinalrbm as orbm

USERS, ITEMS = 290, 300
GRID = list(product((0, 2, 8), (1.0, 3.0, 10.0, 30.0)))


def propensities(chosen: pd.DataFrame) -> np.ndarray:
    """(users, items) chance to be chosen, by features."""
    users, items = (
        pd.read_csv(DATA / f"coat-{name}.csv").to_numpy(float)[:, 1:] for name in ("users", "items")
    )
    pairs = np.einsum("uf,ig->uifg", users, items).reshape(USERS * ITEMS, -1)
    is_chosen = np.zeros((USERS, ITEMS), dtype=int)
    is_chosen[chosen["user"], chosen["item"]] = 1
    model = LogisticRegression(C=0.1, max_iter=500).fit(pairs, is_chosen.ravel())
    return model.predict_proba(pairs)[:, 1].reshape(USERS, ITEMS)


def factorised(part: pd.DataFrame, weight: np.ndarray, rank: int, ridge: float, seed: int) -> np.ndarray:
    """(users, items) ratings predicted by weighted alternating least squares."""
    rng = np.random.default_rng(seed)
    value, weights = np.zeros((USERS, ITEMS)), np.zeros((USERS, ITEMS))
    mean = np.average(part["rating"], weights=weight)
    value[part["user"], part["item"]] = part["rating"] - mean
    weights[part["user"], part["item"]] = weight / weight.mean()
    of_users, of_items = (rng.normal(0.0, 0.1, (n, rank + 1)) for n in (USERS, ITEMS))
    bias_of_items = np.zeros(ITEMS)
    for _ in range(15):
        of_users = _solved(value - bias_of_items, weights, of_items[:, :rank], ridge)
        of_items = _solved((value - of_users[:, rank:]).T, weights.T, of_users[:, :rank], ridge)
        bias_of_items = of_items[:, rank]
    return mean + of_users[:, rank:] + bias_of_items + of_users[:, :rank] @ of_items[:, :rank].T


def _solved(value: np.ndarray, weights: np.ndarray, other: np.ndarray, ridge: float) -> np.ndarray:
    """Factors and a bias of each row."""
    design = np.column_stack([other, np.ones(len(other))])
    width = design.shape[1]
    squares = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    systems = (weights @ squares).reshape(-1, width, width) + ridge * np.eye(width)
    return np.linalg.solve(systems, ((weights * value) @ design)[..., None])[..., 0]


def chosen_setting(chosen: pd.DataFrame, weight: np.ndarray, seed: int) -> tuple[int, float]:
    part_of, errors = np.random.default_rng(seed).permutation(len(chosen)) % 5, []
    for rank, ridge in GRID:
        total = 0.0
        for number in range(5):
            inside, out = part_of != number, chosen[part_of == number]
            found = factorised(chosen[inside], weight[inside], rank, ridge, seed)
            total += weight[~inside] @ (found[out["user"], out["item"]] - out["rating"]) ** 2
        errors.append(total)
    return GRID[int(np.argmin(errors))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--posteriors", nargs="+", default=["variational", "sampled"])
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    chosen, drawn = (pd.read_parquet(DATA / f"coat-{name}.parquet") for name in ("chosen", "random"))
    cells, truth = (drawn["user"], drawn["item"]), drawn["rating"].to_numpy(float)
    print(f"{'':36s} {'MSE':>7s}  ± standard error   mean error   seeds")

    def judge(name: str, all_found: list[np.ndarray]) -> None:
        errors = np.array([[((found - truth) ** 2).mean(), (found - truth).mean()] for found in all_found])
        n = len(errors)
        spread = errors[:, 0].std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
        error, bias = errors.mean(axis=0)
        print(f"{name:36s} {error:7.4f}  ± {spread:.4f} {bias:+20.3f} {n:7d}", flush=True)

    overall = chosen["rating"].mean()
    judge("mean of all ratings", [np.full(truth.size, overall)])
    for name in ("item", "user"):
        own = chosen.groupby(name)["rating"].mean()
        judge(f"mean of the {name}", [drawn[name].map(own).fillna(overall).to_numpy()])
    chance = propensities(chosen)[chosen["user"], chosen["item"]]
    for name, weight in (("plain factorisation", np.ones(len(chosen))), ("MF-IPS", 1.0 / chance)):
        setting = chosen_setting(chosen, weight, seed=0)
        tables = [factorised(chosen, weight, *setting, seed) for seed in asked.seeds]
        judge(name, [np.clip(table[cells], 1.0, 5.0) for table in tables])
    fitted = [orbm.GaussianMF(random_state=seed).fit(chosen) for seed in asked.seeds]
    judge("GaussianMF", [model.predict(*cells) for model in fitted])
    for posterior in asked.posteriors:
        of_choosers, of_everyone = [], []
        for seed in asked.seeds:
            began = time.perf_counter()
            model = orbm.OrdinalMF(posterior=posterior, random_state=seed).fit(chosen)
            between = time.perf_counter()
            model.learn_selection()
            seconds = f"{between - began:.1f} s, selection {time.perf_counter() - between:.1f} s"
            of_choosers.append(model.predict(*cells))
            of_everyone.append(model.predict(*cells, population="everyone"))
            away = [found[-1] - truth for found in (of_choosers, of_everyone)]
            errors = " → ".join(f"{(each**2).mean():.4f} ({each.mean():+.3f})" for each in away)
            numbers = ", ".join(f"{number:.2f}" for number in model.selection_[1:])
            print(f"  seed {seed}: {errors}; a, b, c {numbers}; fit {seconds}", flush=True)
        judge(f"OrdinalMF, {posterior}", of_choosers)
        judge(f"OrdinalMF, {posterior}, everyone", of_everyone)


if __name__ == "__main__":
    main()

"""Top-N recommendations beside popularity, item-kNN, implicit's ALS and BPR, and EASE.

    python benchmarks/ranking.py [--sets ml-100k ml-1m dating-top2000] [--kinds random last new] [--seeds 3]
    python benchmarks/ranking.py --sets ml-1m --kinds next --seeds 1 --peers

Needs ``pip install implicit``. A fifth of the ratings are held out: at random, or the last of each
user's history (of dating-top2000, which has no times, a fifth of each user's at random). Of "new",
a fifth of the users are not in training, and half of their ratings, at random, are given with the
question. Relevant is what was rated 4 or more of 5, 8 or more of 10. Of "next", the last rating of
each user is held out, and relevant whatever it is: recall@10 is the hit rate. All items that a user
has not rated in training are candidates; users without a relevant item are not counted. NDCG@10 has
gains of one and discounts 1/log2(1 + rank); recall@10 is hits over min(10, relevant items);
coverage is the share of the catalogue that is in somebody's list.

Ours has its defaults. Settings of the others, also whether to learn from all ratings or from liked
ones only, are chosen by NDCG@10 on ratings that are held out of the training ratings in the same
way, one setting after the other along a grid that grows until its best is inside.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sources import ratings
from threadpoolctl import threadpool_limits

import ordinalrbm as orbm

K = 10
LIKED = {"ml-100k": 4, "ml-1m": 4, "dating-top2000": 8, "insteval": 4}
_DISCOUNTS = 1.0 / np.log2(np.arange(2, K + 2))


class Task(NamedTuple):
    """Ratings to learn from and to be judged by; users and items as positions."""

    train: pd.DataFrame
    test: pd.DataFrame
    n_users: int
    n_items: int
    liked: float
    new: np.ndarray  # (users,) mask of those who are not learnt from

    @classmethod
    def of(cls, train: pd.DataFrame, test: pd.DataFrame, liked: float, new: np.ndarray | None = None) -> Task:
        """Items that nobody has rated in training cannot be recommended by anybody."""
        users, items = (np.sort(train[name].unique()) for name in ("user", "item"))
        test = test[test["user"].isin(users) & test["item"].isin(items)]
        numbered = [
            pd.DataFrame(
                {
                    "user": np.searchsorted(users, part["user"]),
                    "item": np.searchsorted(items, part["item"]),
                    "rating": part["rating"].to_numpy(),
                    **({"timestamp": part["timestamp"].to_numpy()} if "timestamp" in part else {}),
                }
            )
            for part in (train, test)
        ]
        is_new = np.zeros(users.size, dtype=bool) if new is None else np.isin(users, new)
        return cls(*numbered, users.size, items.size, liked, is_new)

    def matrix(self, *, liked_only: bool = False) -> csr_matrix:
        part = self.train[self.train["rating"] >= self.liked] if liked_only else self.train
        ones = np.ones(len(part), dtype=np.float32)
        return csr_matrix((ones, (part["user"], part["item"])), shape=(self.n_users, self.n_items))


class Found(NamedTuple):
    ndcg: float
    recall: float
    coverage: float


def judged(task: Task, lists: np.ndarray) -> Found:
    """Figures of lists, (users, 10) items."""
    relevant = task.test[task.test["rating"] >= task.liked]
    wanted = csr_matrix(
        (np.ones(len(relevant)), (relevant["user"], relevant["item"])), shape=(task.n_users, task.n_items)
    )
    n = np.diff(wanted.indptr)
    users = np.flatnonzero(n)
    hits = np.asarray(wanted[np.repeat(users, K), lists[users].ravel()]).reshape(-1, K)
    ideal = np.cumsum(_DISCOUNTS)[np.minimum(n[users], K) - 1]
    recall = hits.sum(axis=1) / np.minimum(n[users], K)
    return Found(
        float((hits @ _DISCOUNTS / ideal).mean()),
        float(recall.mean()),
        np.unique(lists[users]).size / task.n_items,
    )


def best_of(scores: np.ndarray, task: Task) -> np.ndarray:
    """(users, 10) unseen items with the greatest scores."""
    scores = np.array(scores, dtype=np.float32)
    scores[task.train["user"], task.train["item"]] = -np.inf
    top = np.argpartition(-scores, K, axis=1)[:, :K]
    order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, order, axis=1)


# ---- methods ------------------------------------------------------------------------------------


def popularity(task: Task, seed: int) -> np.ndarray:
    counts = np.asarray(task.matrix()[~task.new].sum(axis=0)).ravel()
    return best_of(np.tile(counts, (task.n_users, 1)), task)


def ease(task: Task, seed: int, *, ridge: float, liked_only: bool) -> np.ndarray:
    """Steck (2019): a linear model from items to items, in closed form."""
    rated = task.matrix(liked_only=liked_only)
    learnt = rated[~task.new]
    gram = (learnt.T @ learnt).toarray().astype(np.float64)
    gram[np.diag_indices_from(gram)] += ridge
    inverse = np.linalg.inv(gram)
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return best_of(rated @ weights.astype(np.float32), task)


def item_knn(task: Task, seed: int, *, neighbours: int, shrinkage: float, liked_only: bool) -> np.ndarray:
    """Cosines of items, the largest of each."""
    rated = task.matrix(liked_only=liked_only)
    both = (rated[~task.new].T @ rated[~task.new]).toarray().astype(np.float64)
    length = np.sqrt(np.diag(both))
    cosine = both / (np.outer(length, length) + shrinkage)
    np.fill_diagonal(cosine, 0.0)
    k = min(neighbours, task.n_items - 1)
    cosine[cosine < -np.partition(-cosine, k - 1, axis=0)[k - 1]] = 0.0
    return best_of(rated @ cosine.astype(np.float32), task)


def implicit_lists(model: Any, task: Task, liked_only: bool) -> np.ndarray:
    rated = task.matrix(liked_only=liked_only)
    with threadpool_limits(1, "blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rated[~task.new], show_progress=False)
        users = np.empty((task.n_users, np.asarray(model.item_factors).shape[1]), dtype=np.float32)
        users[~task.new] = model.user_factors
        if task.new.any():
            users[task.new] = model.recalculate_user(np.flatnonzero(task.new), rated[task.new])
        scores = users @ np.asarray(model.item_factors).T
    return best_of(scores, task)


def als(
    task: Task, seed: int, *, factors: int, regularization: float, alpha: float, liked_only: bool
) -> np.ndarray:
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=factors, regularization=regularization, alpha=alpha, iterations=15, random_state=seed
    )
    return implicit_lists(model, task, liked_only)


def bpr(
    task: Task,
    seed: int,
    *,
    factors: int,
    learning_rate: float,
    regularization: float,
    iterations: int,
    liked_only: bool,
) -> np.ndarray:
    from implicit.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(
        factors=factors,
        learning_rate=learning_rate,
        regularization=regularization,
        iterations=iterations,
        random_state=seed,
        num_threads=1,
    )
    return implicit_lists(model, task, liked_only)


_FITTED: dict[tuple[int, int, bool], orbm.OrdinalMF] = {}  # lists by other scores are of the same models


def fitted(task: Task, seed: int, timed: bool, device: str) -> orbm.OrdinalMF:
    key = id(task), seed, timed
    if key not in _FITTED:
        columns = ["user", "item", "rating", *(["timestamp"] if timed else [])]
        learnt = task.train.loc[~task.new[task.train["user"]], columns]
        _FITTED[key] = orbm.OrdinalMF(50, random_state=seed, device=device).fit(learnt)
    return _FITTED[key]


def ours(task: Task, seed: int, *, timed: bool = False, device: str = "cpu", **options: Any) -> np.ndarray:
    """With its defaults, as lists of all users; who has nothing left gets the first item."""
    model, given = fitted(task, seed, timed, device), None
    if task.new.any():
        given = task.train.loc[task.new[task.train["user"]], ["user", "item", "rating"]]
    best = model.recommend("all" if given is None else None, n=K, ratings=given, **options)
    lists = np.zeros((task.n_users, K), dtype=np.intp)
    lists[best["user"], best["rank"] - 1] = best["item"]
    return lists


class Peer(NamedTuple):
    """A method with settings to choose: where to begin, and what a step along each grid is."""

    fit: Callable[..., np.ndarray]
    settings: dict[str, Any]
    steps: dict[str, float]


PEERS = {
    "EASE": Peer(ease, {"ridge": 400.0, "liked_only": False}, {"ridge": 2.0}),
    "item-kNN": Peer(
        item_knn,
        {"neighbours": 100, "shrinkage": 10.0, "liked_only": False},
        {"neighbours": 2, "shrinkage": 4.0},
    ),
    "implicit ALS": Peer(
        als,
        {"factors": 64, "regularization": 1.0, "alpha": 4.0, "liked_only": False},
        {"factors": 2, "regularization": 3.0, "alpha": 2.0},
    ),
    "implicit BPR": Peer(
        bpr,
        {
            "factors": 64,
            "learning_rate": 0.03,
            "regularization": 0.01,
            "iterations": 100,
            "liked_only": False,
        },
        {"factors": 2, "learning_rate": 2.0, "regularization": 3.0, "iterations": 2},
    ),
}


def chosen(peer: Peer, task: Task) -> dict[str, Any]:
    """Settings with the best NDCG: along one grid after the other, until nothing gets better."""
    tried: dict[tuple, float] = {}

    def value(settings: dict[str, Any]) -> float:
        key = tuple(settings.values())
        if key not in tried:
            tried[key] = judged(task, peer.fit(task, 0, **settings)).ndcg
        return tried[key]

    best = peer.settings
    while True:
        around = [{**best, "liked_only": not best["liked_only"]}]
        for name, step in peer.steps.items():
            kind = type(best[name])
            around += [{**best, name: kind(best[name] * step)}, {**best, name: kind(best[name] / step)}]
        better = max(around, key=value)
        if value(better) <= value(best):
            return best
        best = better


# ---- splits -------------------------------------------------------------------------------------


def held_out(frame: pd.DataFrame, kind: str, seed: int) -> np.ndarray:
    """A mask over a fifth of the ratings."""
    draw = np.random.default_rng(seed).random(len(frame))
    if kind == "random":
        return draw < 0.2
    order = frame["timestamp"].to_numpy() if "timestamp" in frame else draw
    rank = pd.Series(order).groupby(frame["user"].to_numpy()).rank(method="first", pct=True)
    return rank.to_numpy() > 0.8


def task_of(frame: pd.DataFrame, kind: str, seed: int, liked: float) -> Task:
    if kind == "new":
        rng = np.random.default_rng(seed)
        users = frame["user"].unique()
        new = rng.choice(users, users.size // 5, replace=False)
        out = frame["user"].isin(new).to_numpy() & (rng.random(len(frame)) < 0.5)
        return Task.of(frame[~out], frame[out], liked, new)
    if kind == "next":
        rank = frame.groupby("user")["timestamp"].rank(method="first", ascending=False)
        return Task.of(frame[rank > 1], frame[rank == 1], -np.inf)
    out = held_out(frame, kind, seed)
    return Task.of(frame[~out], frame[out], liked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["ml-100k", "ml-1m", "dating-top2000"])
    parser.add_argument("--kinds", nargs="+", default=["random", "last"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu", help="of ours")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), help="those to compare with")
    options = parser.parse_args()
    own = partial(ours, device=options.device)
    for name in options.sets:
        frame = ratings(name)
        for kind in options.kinds:
            print(f"{name}, {kind}: NDCG@10, recall@10, coverage, means of {options.seeds} seeds")
            _FITTED.clear()
            tasks = [task_of(frame, kind, seed, LIKED[name]) for seed in range(options.seeds)]
            methods: dict[str, Any] = {
                "popularity": popularity,
                "ours": own,
                "ours, demand": partial(own, score="demand"),
                "ours, liked": partial(own, score="liked"),
            }
            if kind == "new":
                methods = {name: methods[name] for name in ("popularity", "ours", "ours, demand")}
            elif "timestamp" in frame:
                methods["ours, with times"] = partial(own, timed=True)
            if kind == "next":
                methods = {
                    "popularity": popularity,
                    "ours, with times": partial(own, timed=True, score="demand"),
                }
            # Chosen inside the training ratings of the first seed.
            inner = task_of(tasks[0].train, kind, 99, LIKED[name])
            for peer in options.peers:
                about = PEERS[peer]
                if kind == "new" and peer == "implicit BPR":  # which has no way to place new users
                    continue
                begun = time.perf_counter()
                settings = chosen(about, inner)
                said = ", ".join(f"{key} {value}" for key, value in settings.items())
                print(f"  # {peer}: {said} (chosen in {time.perf_counter() - begun:.0f} s)")
                methods[peer] = lambda task, seed, fit=about.fit, own=settings: fit(task, seed, **own)
            for method, fit in methods.items():
                begun = time.perf_counter()
                found = np.array([judged(task, fit(task, seed)) for seed, task in enumerate(tasks)])
                seconds = (time.perf_counter() - begun) / len(found)
                mean, error = found.mean(axis=0), found[:, 0].std() / np.sqrt(len(found))
                figures = f"{mean[0]:.4f} ± {error:.4f}  {mean[1]:.4f}  {mean[2]:.3f}"
                print(f"  {method:16} {figures}  ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()

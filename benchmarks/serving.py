"""What one recommendation costs, beside implicit's: one core, single calls.

    python benchmarks/serving.py [--sets ml-100k ml-1m made-up --users 300000 --items 50000]

Needs ``pip install implicit``. MovieLens 100K and 1M, and a made-up set: users and items of so many,
40 ratings a user, popularity as in a long tail; models are learnt for three epochs, because times do
not depend on how good they are. Calls of both libraries take turns; times are those of the processor,
the best and the median. New users are compared with implicit's ``recalculate_user=True``, whose
matrix of one line is made before.
"""

from __future__ import annotations

import argparse
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sources import ratings
from threadpoolctl import threadpool_limits

import ordinalrbm as orbm

CALLS = 200


def made_up(n_users: int, n_items: int, per_user: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(n_users), per_user)
    item = (n_items * rng.power(0.4, user.size)).astype(np.int64)
    rating = rng.integers(1, 6, user.size)
    table = pd.DataFrame({"user": user, "item": item, "rating": rating})
    return table.drop_duplicates(["user", "item"])


def milliseconds(calls: list[Callable[[int], Any]]) -> np.ndarray:
    """(calls, 2): the best and the median of single calls, in turns."""
    found: list[list[float]] = [[] for _ in calls]
    for k in range(CALLS):
        for own, call in zip(found, calls, strict=True):
            begun = time.thread_time()
            call(k)
            own.append(1e3 * (time.thread_time() - begun))
    return np.array([[min(own), np.median(own)] for own in found])


def compare(name: str, table: pd.DataFrame) -> None:
    from implicit.als import AlternatingLeastSquares

    model = orbm.OrdinalMF(50, n_epochs=3, random_state=0, n_jobs=1).fit(table)
    users, items = model.users_.labels, model.items_.labels
    row, column = model.users_.lookup(table["user"]), model.items_.lookup(table["item"])
    rated = csr_matrix((np.ones(len(table), np.float32), (row, column)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = AlternatingLeastSquares(factors=64, iterations=2, random_state=0, num_threads=1)
        peer.fit(rated, show_progress=False)
    some = np.random.default_rng(1).choice(users.size, CALLS)
    popular = items[np.argsort(-np.bincount(column))[:1000]]

    def three(k: int) -> list[int]:
        return [int(item) for item in popular[[k, k + 200, k + 400]]]

    def new(k: int) -> Any:
        return model.recommend(ratings=([nobody] * 3, three(k), [5, 4, 1]))

    nobody, ones = int(users.max()) + 1, np.ones(3, np.float32)
    lines = [model.items_.lookup(three(k)) for k in range(CALLS)]
    given = [csr_matrix((ones, (np.zeros(3, int), line)), shape=(1, items.size)) for line in lines]
    # Each with the number of the call that it is compared with.
    calls: dict[str, tuple[int, Callable[[int], Any]]] = {
        "implicit, recommend": (0, lambda k: peer.recommend(int(some[k]), rated[int(some[k])], N=10)),
        "implicit, new user": (1, lambda k: peer.recommend(0, given[k], N=10, recalculate_user=True)),
        "ours, recommend": (0, lambda k: model.recommend(int(users[some[k]]))),
        "ours, unknown user": (0, lambda k: model.recommend(nobody + k)),
        "ours, three new ratings": (1, new),
        "ours, the same in a dict": (
            1,
            lambda k: model.recommend(ratings=dict(zip(three(k), [5, 4, 1], strict=True))),
        ),
        "ours, score='rating'": (0, lambda k: model.recommend(int(users[some[k]]), score="rating")),
        "ours, score='liked'": (0, lambda k: model.recommend(int(users[some[k]]), score="liked")),
    }
    for _, call in calls.values():
        call(0)
    print(f"{name}: {users.size:,} users, {items.size:,} items{'best':>15}{'median':>22}")
    times = milliseconds([call for _, call in calls.values()])
    for (what, (peers, _)), took in zip(calls.items(), times, strict=True):
        best, median = (
            f"{own:8.3f} ms {own / base:5.2f} times" for own, base in zip(took, times[peers], strict=True)
        )
        print(f"  {what:26}{best}{median}", flush=True)
    tracemalloc.start()
    new(1)
    print(f"  memory of three new ratings: {tracemalloc.get_traced_memory()[1] / 1e6:.2f} MB at most")
    tracemalloc.stop()
    throughput(model, some)


def throughput(model: Any, some: np.ndarray) -> None:
    """Calls per second of one thread and of eight, with the same answers."""
    users = model.users_.labels
    truth = [model.recommend(int(users[k])) for k in some]

    def work(part: np.ndarray, found: list) -> None:
        found += [(k, model.recommend(int(users[some[k]]))) for k in part]

    rates = []
    for n in (1, 8):
        found: list = []
        parts = np.array_split(np.tile(np.arange(CALLS), 5), n)
        threads = [threading.Thread(target=work, args=(part, found)) for part in parts]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rates.append(5 * CALLS / (time.perf_counter() - begun))
        assert len(found) == 5 * CALLS and all(told.equals(truth[k]) for k, told in found)
    one, eight = rates
    print(f"  one thread {one:.0f} calls/s, eight {eight:.0f}: {eight / one:.2f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["ml-100k", "ml-1m", "made-up"])
    parser.add_argument("--users", type=int, default=300_000)
    parser.add_argument("--items", type=int, default=50_000)
    options = parser.parse_args()
    with threadpool_limits(1):
        for name in options.sets:
            compare(name, made_up(options.users, options.items) if name == "made-up" else ratings(name))


if __name__ == "__main__":
    main()

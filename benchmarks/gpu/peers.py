"""A hundred million ratings on one GPU: seconds to an error, beside alternating least squares.

    python benchmarks/gpu/peers.py [--scale 1.0]

Ratings of Netflix' shape are made on the device (benchmarks/gpu/netflix_shaped.py), 200,000 of them
are hidden, the others are given as a shuffled DataFrame. Alternating least squares is what people
use at this size; implicit's GPU build and Spark's RAPIDS are not there to install, so that here it
is plain torch: sums of outer products by cuSPARSE, batched Cholesky factors, ratings less damped
means of users and items. Its rank and penalty were tuned on a twentieth of the users, on ratings
hidden from these, until neither was at the end of its grid. Seconds are from the table to a model
that predicts; each line is a fit of its own.

What ALS does not give: a distribution of the rating, thresholds, what is not known of a user; and
which items are chosen at all (`demand`), which is part of our seconds.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
import pandas as pd
import torch
from netflix_shaped import made

import ordinalrbm as orbm

HIDDEN = 200_000
DAMPING = 10.0
RANKS, PENALTIES = (1, 2, 3, 5, 10, 20, 40, 80), (0.003, 0.01, 0.03, 0.1, 0.3)


class Least:
    """Alternating least squares of explicit ratings, a penalty per rating (Zhou et al. 2008)."""

    def __init__(self, rank: int, penalty: float, sweeps: int) -> None:
        self.rank, self.penalty, self.sweeps = rank, penalty, sweeps

    def fit(self, frame: pd.DataFrame) -> Least:
        user, item, rating = (torch.from_numpy(frame[name].to_numpy()).cuda() for name in frame)
        rating, shape = rating.float(), (int(user.max()) + 1, int(item.max()) + 1)
        self.mean = rating.mean()
        left = rating - self.mean
        self.of_item = _damped(item, left, shape[1])
        left -= self.of_item[item]
        self.of_user = _damped(user, left, shape[0])
        left -= self.of_user[user]
        by_user, by_item = _sparse(user, item, left, shape), _sparse(item, user, left, shape[::-1])
        torch.manual_seed(0)
        self.items = 0.1 * torch.randn(shape[1], self.rank, device="cuda")
        for _ in range(self.sweeps):
            self.users = self._solved(*by_user, self.items)
            self.items = self._solved(*by_item, self.users)
        torch.cuda.synchronize()
        return self

    def _solved(self, ones: torch.Tensor, values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        upper = torch.triu_indices(self.rank, self.rank, device="cuda")
        outer = other[:, upper[0]] * other[:, upper[1]]
        target, counts = values @ other, ones.crow_indices().diff()
        found = torch.empty_like(target)
        for rows in torch.arange(len(target), device="cuda").split(50_000):
            start, stop = int(rows[0]), int(rows[-1]) + 1
            packed = _rows(ones, start, stop) @ outer
            system = packed.new_zeros(stop - start, self.rank, self.rank)
            system[:, upper[0], upper[1]] = packed
            system[:, upper[1], upper[0]] = packed
            ridge = self.penalty * counts[start:stop].clamp(min=1)
            system.diagonal(dim1=1, dim2=2).add_(ridge[:, None])
            factor = torch.linalg.cholesky(system)
            found[start:stop] = torch.cholesky_solve(target[start:stop, :, None], factor)[..., 0]
        return found

    def predict(self, user: np.ndarray, item: np.ndarray) -> np.ndarray:
        d, i = (torch.from_numpy(part).cuda().long() for part in (user, item))
        product = (self.users[d] * self.items[i]).sum(1)
        return (self.mean + self.of_user[d] + self.of_item[i] + product).clamp(1, 5).cpu().numpy()


def _damped(key: torch.Tensor, values: torch.Tensor, n: int) -> torch.Tensor:
    total = torch.zeros(n, device="cuda").index_add_(0, key, values)
    return total / (torch.bincount(key, minlength=n) + DAMPING)


def _sparse(row: torch.Tensor, column: torch.Tensor, value: torch.Tensor, shape):
    """The pattern, all ones, and the values."""
    order = torch.argsort(row.long() * shape[1] + column)
    start = torch.zeros(shape[0] + 1, dtype=torch.int32, device="cuda")
    start[1:] = torch.bincount(row, minlength=shape[0]).cumsum(0)
    column, value = column.int()[order], value[order]
    return [
        torch.sparse_csr_tensor(start, column, part, size=shape, check_invariants=False)
        for part in (torch.ones_like(value), value)
    ]


def _rows(table: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    bounds = table.crow_indices()[start : stop + 1]
    some = slice(int(bounds[0]), int(bounds[-1]))
    return torch.sparse_csr_tensor(
        bounds - bounds[0],
        table.col_indices()[some],
        table.values()[some],
        size=(stop - start, table.shape[1]),
        check_invariants=False,
    )


def split(frame: pd.DataFrame, n_hidden: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows are in random order, so that the first ones are random."""
    return frame[n_hidden:], frame[:n_hidden]


def error(model, hidden: pd.DataFrame) -> float:
    found = model.predict(hidden["user"].to_numpy(), hidden["item"].to_numpy())
    return float(np.sqrt(np.mean((found - hidden["rating"].to_numpy()) ** 2)))


def tuned(frame: pd.DataFrame) -> tuple[int, float]:
    train, hidden = split(frame[frame["user"] < frame["user"].max() // 20], HIDDEN // 4)
    known = train["item"].max()
    hidden = hidden[(hidden["item"] <= known) & (hidden["user"] <= train["user"].max())]
    grid = list(itertools.product(RANKS, PENALTIES))
    scores = [error(Least(rank, penalty, 8).fit(train), hidden) for rank, penalty in grid]
    table = pd.Series(scores, pd.MultiIndex.from_tuples(grid)).unstack()
    print(table.round(4).to_string(), flush=True)
    return grid[int(np.argmin(scores))]


def line(what: str, model, train: pd.DataFrame, hidden: pd.DataFrame) -> None:
    begun = time.perf_counter()
    model.fit(train)
    seconds = time.perf_counter() - begun
    print(f"{what:34} {seconds:7.1f} s   RMSE {error(model, hidden):.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    frame = made(torch.device("cuda"), given.scale).shuffled()
    torch.cuda.empty_cache()
    train, hidden = split(frame, HIDDEN)
    print(f"{torch.cuda.get_device_name()}; {len(train):,} ratings", flush=True)
    rank, penalty = tuned(train)
    print(f"ALS: rank {rank}, penalty {penalty}", flush=True)
    for sweeps in (1, 2, 4, 8, 16):
        line(f"ALS in torch, {sweeps} sweeps", Least(rank, penalty, sweeps), train, hidden)
    small = train[:2_000_000]
    orbm.OrdinalMF(50, n_epochs=3, device="cuda", random_state=0).fit(small)  # compiles
    for n_epochs in (2, 4, 8, None):
        model = orbm.OrdinalMF(50, n_epochs=n_epochs, device="cuda", random_state=0)
        line(f"OrdinalMF(50), {n_epochs or 'all'} epochs", model, train, hidden)
    model = orbm.OrdinalMF(50, demand_factors=0, device="cuda", random_state=0)
    line("OrdinalMF(50), without demand", model, train, hidden)


if __name__ == "__main__":
    main()

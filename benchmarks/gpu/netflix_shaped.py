"""Made-up ratings, made on the device: of Netflix' shape, or of another; long-tailed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.gpu.transfer import fetched


class Shape(NamedTuple):
    """How many there are; of the ratings, about."""

    users: int
    films: int
    ratings: int


NETFLIX = Shape(480_189, 17_770, 100_200_000)
FILMS = NETFLIX.films
LEVELS, RANK = 5, 20
# Thresholds at Netflix' marginals: 5, 10, 29, 33 and 23 % of the ratings.
THRESHOLDS = (-2.4, -1.55, -0.22, 1.1)


class Made(NamedTuple):
    """Ratings of all users, one after the other, on the device."""

    row: torch.Tensor  # int64
    column: torch.Tensor  # int64
    level: torch.Tensor  # int8
    shape: Shape

    def observations(self) -> Observations:
        users = torch.arange(self.shape.users + 1, device=self.row.device)
        return Observations(
            torch.searchsorted(self.row, users).cpu().numpy(),
            self.column.int().cpu().numpy(),
            self.level.cpu().numpy(),
            np.full(self.shape.films, LEVELS, dtype=np.int32),
        )

    def shuffled(self) -> pd.DataFrame:
        """As a file would have them: int32 ids, int8 ratings from 1 on, in no order."""
        order = torch.randperm(self.row.numel(), device=self.row.device)
        return pd.DataFrame(
            {
                "user": fetched(self.row.int()[order]),
                "item": fetched(self.column.int()[order]),
                "rating": fetched((self.level + 1)[order]),
            },
            copy=False,
        )


def made(device: torch.device, scale: float = 1.0, seed: int = 0, shape: Shape = NETFLIX) -> Made:
    """Users rate log-normally many films, films are chosen by a long-tailed popularity.

    ``scale`` makes a smaller table with so many users, each with as many ratings.
    """
    torch.manual_seed(seed)
    users, films = int(shape.users * scale), shape.films
    eager = torch.exp(1.2 * torch.randn(users, device=device))
    # Twice the same film counts once, hence more draws than ratings.
    count = (1.235 * shape.ratings * scale * eager / eager.sum()).ceil().long()
    count = count.clamp(1, films // 2)
    row = torch.repeat_interleave(torch.arange(users, device=device), count)
    popularity = torch.arange(1, films + 1, device=device).double().add(60.0).pow(-1.15)
    popularity = popularity[torch.randperm(films, device=device)].cumsum(0)
    draws = torch.rand(row.numel(), device=device, dtype=torch.float64) * popularity[-1]
    column = torch.searchsorted(popularity, draws).clamp(max=films - 1)
    del draws
    cell = torch.unique(row * films + column)
    del row, column
    row, column = cell // films, cell % films
    level = _levels(row, column, users, films)
    return Made(row, column, level, Shape(users, films, row.numel()))


def _levels(row: torch.Tensor, column: torch.Tensor, users: int, films: int) -> torch.Tensor:
    device = row.device
    p = torch.randn(users, RANK, device=device) * 0.8 / torch.arange(1, RANK + 1, device=device)
    q = torch.randn(films, RANK, device=device)
    by_user, by_film = torch.randn(users, device=device), torch.randn(films, device=device)
    bounds = torch.tensor(THRESHOLDS, device=device)
    level = torch.empty(row.numel(), dtype=torch.int8, device=device)
    for start in range(0, row.numel(), 10_000_000):
        some = slice(start, start + 10_000_000)
        d, i = row[some], column[some]
        mean = 0.5 * by_user[d] + 0.6 * by_film[i] + (p[d] * q[i]).sum(1)
        level[some] = torch.searchsorted(bounds, mean + torch.randn_like(mean)).to(torch.int8)
    return level

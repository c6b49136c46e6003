"""Made-up ratings of Netflix' shape, made on the device: as many users and films, long-tailed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from ordinalrbm.data.observations import Observations

USERS, FILMS, RATINGS = 480_189, 17_770, 100_200_000
LEVELS, RANK = 5, 20
# Thresholds at Netflix' marginals: 5, 10, 29, 33 and 23 % of the ratings.
THRESHOLDS = (-2.4, -1.55, -0.22, 1.1)


class Made(NamedTuple):
    row_start: np.ndarray
    column: np.ndarray
    level: np.ndarray

    def observations(self) -> Observations:
        return Observations(
            self.row_start, self.column, self.level, np.full(FILMS, LEVELS, dtype=np.int32)
        )


def made(device: torch.device, scale: float = 1.0, seed: int = 0) -> Made:
    """Users rate log-normally many films, films are chosen by a long-tailed popularity.

    ``scale`` makes a smaller table with so many users, each with as many ratings.
    """
    torch.manual_seed(seed)
    users = int(USERS * scale)
    eager = torch.exp(1.2 * torch.randn(users, device=device))
    # Twice the same film counts once, hence more draws than ratings.
    count = (1.235 * RATINGS * scale * eager / eager.sum()).ceil().long().clamp(1, FILMS // 2)
    row = torch.repeat_interleave(torch.arange(users, device=device), count)
    popularity = torch.arange(1, FILMS + 1, device=device).double().add(60.0).pow(-1.15)
    popularity = popularity[torch.randperm(FILMS, device=device)].cumsum(0)
    draws = torch.rand(row.numel(), device=device, dtype=torch.float64) * popularity[-1]
    column = torch.searchsorted(popularity, draws).clamp(max=FILMS - 1)
    cell = torch.unique(row * FILMS + column)
    del row, column, draws
    row, column = cell // FILMS, cell % FILMS
    level = _levels(row, column, users)
    starts = torch.searchsorted(row, torch.arange(users + 1, device=device))
    return Made(
        starts.cpu().numpy(), column.int().cpu().numpy(), level.to(torch.int8).cpu().numpy()
    )


def _levels(row: torch.Tensor, column: torch.Tensor, users: int) -> torch.Tensor:
    device = row.device
    p = torch.randn(users, RANK, device=device) * 0.8 / torch.arange(1, RANK + 1, device=device)
    q = torch.randn(FILMS, RANK, device=device)
    by_user, by_film = torch.randn(users, device=device), torch.randn(FILMS, device=device)
    bounds = torch.tensor(THRESHOLDS, device=device)
    level = torch.empty(row.numel(), dtype=torch.int8, device=device)
    for some in torch.arange(row.numel(), device=device).split(10_000_000):
        d, i = row[some], column[some]
        mean = 0.5 * by_user[d] + 0.6 * by_film[i] + (p[d] * q[i]).sum(1)
        level[some] = torch.searchsorted(bounds, mean + torch.randn_like(mean)).to(torch.int8)
    return level

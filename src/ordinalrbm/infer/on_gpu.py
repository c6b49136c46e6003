"""P(v_di) of single cells on a GPU, from rows and columns as the learner has them."""

from __future__ import annotations

import math

import numpy as np
import torch

from ordinalrbm.engine.party import Party
from ordinalrbm.infer.pairs import Pairs
from ordinalrbm.infer.predict import SMALLEST_PROBABILITY
from ordinalrbm.model.continuous import Parties, dealt

# Cells whose rows and columns are gathered at a time.
_TOGETHER = 2**16


def mean_log_probability(
    parties: Parties, n_row_factors: int, n_column_factors: int, pairs: Pairs
) -> float:
    """Mean log probability of the true levels; a position of −1 is a stranger."""
    rows, columns = _with_strangers(parties, n_row_factors, n_column_factors)
    device = rows.mean.device
    row, column, level = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in pairs)
    total = torch.zeros((), dtype=torch.float64, device=device)
    for start in range(0, row.numel(), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        total += _log_probability(rows, columns, row[some], column[some], level[some]).sum()
    return float(total) / row.numel()


def _log_probability(
    rows: Party, columns: Party, row: torch.Tensor, column: torch.Tensor, level: torch.Tensor
) -> torch.Tensor:
    """Log probability of the true level of each cell; a position of −1 is the last."""
    x, own, row_steps, _, _ = (part[row.long()] for part in rows)
    q, other, column_steps, _, n_levels = (part[column.long()] for part in columns)
    x, own, q, other = x.double(), own.double(), q.double(), other.double()
    mean = x[:, 0] + q[:, 0] + (x * q)[:, 1:].sum(1)
    doubt = own[:, 0] + other[:, 0] + (own * (q * q + other) + x * x * other)[:, 1:].sum(1)
    steps = row_steps + column_steps
    ends = torch.cumsum(torch.cat([steps[:, :1], torch.exp(steps[:, 1:])], dim=1), dim=1)
    infinite = torch.full_like(ends[:, :1], torch.inf)
    ends = torch.cat([-infinite, ends, infinite], dim=1)
    level = level.long()[:, None]
    low, high = (ends.gather(1, at)[:, 0] for at in (level, level + 1))
    high = torch.where(level[:, 0] == n_levels - 1, torch.inf, high)
    per_deviation = torch.rsqrt(1.0 + doubt)
    found = log_mass((low - mean) * per_deviation, (high - mean) * per_deviation)
    least = math.log(SMALLEST_PROBABILITY)
    return torch.where(level[:, 0] < n_levels, found.clamp(min=least), least)


def log_mass(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """log(Φ(high) − Φ(low)), from the side where both are small."""
    flipped = low + high > 0
    low, high = torch.where(flipped, -high, low), torch.where(flipped, -low, high)
    log_high = torch.special.log_ndtr(high)
    return log_high + torch.log(-torch.expm1(torch.special.log_ndtr(low) - log_high))


def _with_strangers(
    parties: Parties, n_row_factors: int, n_column_factors: int
) -> tuple[Party, Party]:
    """Both parties with one more, of whom nothing is known: see :func:`pairs.with_strangers`."""
    rows, columns = parties.rows, parties.columns
    of_rows, of_columns = dealt(rows.mean.shape[1] - 1, n_row_factors, n_column_factors)
    longest = columns.n_levels == columns.n_levels.max()
    return (
        _with_one_more(rows, columns, 1 + of_columns, rows.steps.mean(0)),
        _with_one_more(columns, rows, 1 + of_rows, columns.steps[longest].mean(0)),
    )


def _with_one_more(party: Party, other: Party, weighing: np.ndarray, steps: torch.Tensor) -> Party:
    """A stranger has factors like the average, and weighs those of the others not at all."""
    weighs = torch.zeros(party.mean.shape[1], dtype=torch.bool, device=party.mean.device)
    weighs[torch.from_numpy(weighing).to(weighs.device)] = True
    usual = torch.where(weighs, 0.0, party.mean.mean(0))
    # The average member acts on average factors.
    usual[0] = (party.mean @ torch.where(weighs, other.mean.mean(0), 0.0)).mean() + usual[0]
    doubt = (party.variance + (party.mean - usual) ** 2).mean(0)
    return Party(
        torch.cat([party.mean, usual[None]]),
        torch.cat([party.variance, doubt[None]]),
        torch.cat([party.steps, steps[None]]),
        torch.cat([party.widths, party.widths[:1]]),
        torch.cat([party.n_levels, party.n_levels.max()[None]]),
    )

"""P(v_di) of single cells on a GPU: from rows and columns as they are learnt, or from models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from ordinalrbm.engine.gpu.regress import tensor
from ordinalrbm.engine.gpu.tables import padded
from ordinalrbm.engine.party import Party
from ordinalrbm.infer.pairs import Pairs, all_known
from ordinalrbm.infer.predict import SMALLEST_PROBABILITY
from ordinalrbm.model.continuous import Parties, dealt
from ordinalrbm.model.matrix import Half, MatrixModel

# Cells whose rows and columns are gathered at a time.
_TOGETHER = 2**16
# Parts of a Half that have a number per factor in each row.
_TABLES = ("weights", "factors", "weights_variance", "factors_variance")


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


# ---- cells of a MatrixModel ---------------------------------------------------------------------


def model_on(model: MatrixModel, device: torch.device) -> MatrixModel:
    """A copy of a model on a device; what has a number per factor is in tables.

    Padding is zero, and so it changes no product (:func:`ordinalrbm.engine.gpu.tables.padded`).
    """
    by_rows, by_columns = (half_on(half, device) for half in model[:2])
    return model._replace(
        by_rows=by_rows,
        by_columns=by_columns,
        n_levels=tensor(model.n_levels, device),
        gains=tensor(model.gains, device),
    )


def half_on(half: Half, device: torch.device) -> Half:
    """A copy of one half on a device."""
    there = Half(*(tensor(part, device) for part in half))
    return there._replace(**{name: padded(getattr(there, name)) for name in _TABLES})


def model_from(model: MatrixModel) -> MatrixModel:
    """A model of a device as arrays."""
    by_rows, by_columns = (half_from(half) for half in model[:2])
    return model._replace(
        by_rows=by_rows,
        by_columns=by_columns,
        n_levels=model.n_levels.cpu().numpy(),
        gains=model.gains.cpu().numpy(),
    )


def half_from(half: Half) -> Half:
    """One half as arrays, without padding."""
    return Half(*(part.contiguous().cpu().numpy() for part in without_padding(half)))


def without_padding(half: Half) -> Half:
    """The same tensors, as wide as there are factors."""
    n_factors = half.factor_bias.numel()
    return half._replace(**{name: getattr(half, name)[:, :n_factors] for name in _TABLES})


def log_probability(models: Sequence[MatrixModel], pairs: Pairs) -> np.ndarray:
    """(cells,) log probability of the true level: :func:`ordinalrbm.infer.pairs.log_probability`.

    The models are on a device; a position of −1 is a stranger.
    """
    device = models[0].gains.device
    row, column, level = (tensor(part, device).long() for part in pairs)
    found = []
    for some, distribution in _distributions(models, row, column, all_known(pairs)):
        chosen = distribution.gather(1, level[some, None])[:, 0]
        found.append(torch.log(chosen.clamp(min=SMALLEST_PROBABILITY)))
    return torch.cat(found).cpu().numpy() if found else np.zeros(0)


def probabilities(models: Sequence[MatrixModel], pairs: Pairs) -> np.ndarray:
    """(cells, L) distributions of cells: :func:`ordinalrbm.infer.pairs.probabilities`."""
    device = models[0].gains.device
    row, column = (tensor(part, device).long() for part in pairs[:2])
    found = [part for _, part in _distributions(models, row, column, all_known(pairs))]
    width = models[0].by_rows.steps.shape[1] + 1
    return torch.cat(found).cpu().numpy() if found else np.zeros((0, width))


def _distributions(
    models: Sequence[MatrixModel], row: torch.Tensor, column: torch.Tensor, are_known: bool
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Some cells at a time, and the mean of their distributions by the models' shares."""
    known = list(models) if are_known else [with_strangers(model) for model in models]
    for start in range(0, row.numel(), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        total = sum(model.share * _masses(model, row[some], column[some]) for model in known)
        yield some, total / total.sum(1, keepdim=True)


def _masses(model: MatrixModel, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    """(cells, L) probabilities of the levels of each cell."""
    by_rows, by_columns = model.by_rows, model.by_columns
    middle = 0.0 if by_rows.bias_variance.numel() else 0.5
    base = by_rows.bias[column].double() + by_columns.bias[row].double()
    mean = base + _product(by_rows, column, row, middle, model.gains[0])
    mean += _product(by_columns, row, column, middle, model.gains[1])
    deviation = model.gains[2] * _deviation(by_rows, by_columns, row, column)
    steps = by_rows.steps[column] + by_columns.steps[row]
    steps[:, 1:] = torch.exp(steps[:, 1:])
    ends = (torch.cumsum(steps, 1) - mean[:, None]) / deviation[:, None]
    n_levels = model.n_levels[column][:, None]
    beyond = torch.arange(ends.shape[1], device=ends.device) >= n_levels - 1
    infinite = torch.full_like(mean[:, None], torch.inf)
    ends = torch.cat([-infinite, ends.masked_fill(beyond, torch.inf), infinite], 1)
    return _mass(ends[:, :-1], ends[:, 1:])


def _product(
    half: Half, column: torch.Tensor, row: torch.Tensor, middle: float, gain: torch.Tensor
) -> torch.Tensor:
    """What factors add to the mean, in their middle and beyond it."""
    weights = half.weights[column].double()
    return middle * weights.sum(1) + gain * (weights * (half.factors[row] - middle)).sum(1)


def _deviation(
    by_rows: Half, by_columns: Half, row: torch.Tensor, column: torch.Tensor
) -> torch.Tensor:
    """Standard deviation of a utility, with what is not known of its mean."""
    if not by_rows.bias_variance.numel():
        return torch.ones((), dtype=torch.float64, device=row.device).expand(row.shape)
    variance = 1.0 + by_rows.bias_variance[column].double() + by_columns.bias_variance[row]
    for half, i, d in ((by_rows, column, row), (by_columns, row, column)):
        weights, factors = half.weights[i].double(), half.factors[d].double()
        of_factors = half.factors_variance[d]
        variance += (half.weights_variance[i] * (factors * factors + of_factors)).sum(1)
        variance += (weights * weights * of_factors).sum(1)
    return torch.sqrt(variance)


def _mass(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Φ(high) − Φ(low), from the side where both are small; none where both are infinite."""
    flipped = low + high > 0
    low, high = torch.where(flipped, -high, low), torch.where(flipped, -low, high)
    return torch.special.ndtr(high) - torch.special.ndtr(low)


def with_strangers(model: MatrixModel) -> MatrixModel:
    """The model with one more row and column: see :func:`ordinalrbm.infer.pairs.with_strangers`."""
    by_rows, by_columns = model.by_rows, model.by_columns
    most = model.n_levels.max()
    usual = by_rows.steps[model.n_levels == most].mean(0)
    return model._replace(
        by_rows=_half_with_one_more(by_rows, usual),
        by_columns=_half_with_one_more(by_columns, by_columns.steps.mean(0)),
        n_levels=_below(model.n_levels, most),
    )


def _half_with_one_more(half: Half, steps: torch.Tensor) -> Half:
    factors = half.factors.mean(0)
    # The average column acts on average factors; its own weights are unknown, so none.
    bias = (half.bias + half.weights @ factors).mean()
    doubts = {}
    if half.bias_variance.numel():
        # A stranger may be as far from the usual as anybody is.
        doubts = {
            f"{name}_variance": _below(variance, (variance + away**2).mean(0))
            for name, variance, away in (
                ("weights", half.weights_variance, half.weights),
                ("bias", half.bias_variance, half.bias - bias),
                ("factors", half.factors_variance, half.factors - factors),
            )
        }
    return half._replace(
        weights=_below(half.weights, torch.zeros_like(half.weights[0])),
        bias=_below(half.bias, bias),
        steps=_below(half.steps, steps),
        factors=_below(half.factors, factors),
        **doubts,
    )


def _below(part: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    return torch.cat([part, last[None]])

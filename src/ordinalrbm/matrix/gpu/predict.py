"""P(v_di) of single cells on a GPU: from rows and columns as they are learnt, or from models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ordinalrbm.data.observations import Cells
from ordinalrbm.engine.gaussian_state import FactorPosterior
from ordinalrbm.engine.gpu import cells
from ordinalrbm.engine.gpu.cells import Factored
from ordinalrbm.engine.gpu.half_sweep import tensor
from ordinalrbm.engine.gpu.tables import padded
from ordinalrbm.evaluate.points import SMALLEST_PROBABILITY
from ordinalrbm.matrix.gaussian import GaussianState, dealt
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.predict import all_known

# Cells whose rows and columns are gathered at a time.
_TOGETHER = 2**16
# Parts of a Half that have a number per factor in each row.
_TABLES = ("weights", "factors", "weights_variance", "factors_variance")


def mean_log_probability(
    parties: GaussianState, n_row_factors: int, n_column_factors: int, pairs: Cells
) -> float:
    """Mean log probability of the true levels; a position of −1 is a stranger."""
    rows, columns = _with_cold_start(parties, n_row_factors, n_column_factors)
    device = rows.mean.device
    row, column, level = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in pairs)
    total = torch.zeros((), dtype=torch.float64, device=device)
    for start in range(0, row.numel(), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        total += _log_probability(rows, columns, row[some], column[some], level[some]).sum()
    return float(total) / row.numel()


def _log_probability(
    rows: FactorPosterior,
    columns: FactorPosterior,
    row: torch.Tensor,
    column: torch.Tensor,
    level: torch.Tensor,
) -> torch.Tensor:
    """Log probability of the true level of each cell; a position of −1 is the last."""
    x, own, row_gaps, _, _ = (part[row.long()] for part in rows)
    q, other, column_cutpoints, _, n_levels = (part[column.long()] for part in columns)
    x, own, q, other = x.double(), own.double(), q.double(), other.double()
    mean = x[:, 0] + q[:, 0] + (x * q)[:, 1:].sum(1)
    doubt = own[:, 0] + other[:, 0] + (own * (q * q + other) + x * x * other)[:, 1:].sum(1)
    cutpoints = row_gaps + column_cutpoints
    bounds = torch.cumsum(torch.cat([cutpoints[:, :1], torch.exp(cutpoints[:, 1:])], dim=1), dim=1)
    infinite = torch.full_like(bounds[:, :1], torch.inf)
    bounds = torch.cat([-infinite, bounds, infinite], dim=1)
    level = level.long()[:, None]
    low, high = (bounds.gather(1, at)[:, 0] for at in (level, level + 1))
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


def _with_cold_start(
    parties: GaussianState, n_row_factors: int, n_column_factors: int
) -> tuple[FactorPosterior, FactorPosterior]:
    """Both parties with one more, of whom nothing is known: see :func:`pairs.with_strangers`."""
    rows, columns = parties.rows, parties.columns
    of_rows, of_columns = dealt(rows.mean.shape[1] - 1, n_row_factors, n_column_factors)
    longest = columns.n_levels == columns.n_levels.max()
    return (
        _with_one_more(rows, columns, 1 + of_columns, rows.cutpoints.mean(0)),
        _with_one_more(columns, rows, 1 + of_rows, columns.cutpoints[longest].mean(0)),
    )


def _with_one_more(
    posterior: FactorPosterior,
    other: FactorPosterior,
    weighing: np.ndarray,
    cutpoints: torch.Tensor,
) -> FactorPosterior:
    """A stranger has factors like the average, and weighs those of the others not at all."""
    weighs = torch.zeros(posterior.mean.shape[1], dtype=torch.bool, device=posterior.mean.device)
    weighs[torch.from_numpy(weighing).to(weighs.device)] = True
    usual = torch.where(weighs, 0.0, posterior.mean.mean(0))
    # The average member acts on average factors.
    usual[0] = (posterior.mean @ torch.where(weighs, other.mean.mean(0), 0.0)).mean() + usual[0]
    doubt = (posterior.variance + (posterior.mean - usual) ** 2).mean(0)
    return FactorPosterior(
        torch.cat([posterior.mean, usual[None]]),
        torch.cat([posterior.variance, doubt[None]]),
        torch.cat([posterior.cutpoints, cutpoints[None]]),
        torch.cat([posterior.gaps, posterior.gaps[:1]]),
        torch.cat([posterior.n_levels, posterior.n_levels.max()[None]]),
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


def log_probability(models: Sequence[MatrixModel], pairs: Cells) -> np.ndarray:
    """(cells,) log probability of the true level: :func:`ordinalrbm.matrix.predict.log_probability`.

    The models are on a device; a position of −1 is a stranger.
    """
    device = models[0].gains.device
    known = list(models) if all_known(pairs) else [with_cold_start(model) for model in models]
    known = [model._replace(share=model.gains.new_tensor([model.share])) for model in known]
    n_rows, n_columns = (half.bias.numel() for half in (known[0].by_columns, known[0].by_rows))
    row, column, level = (tensor(part, device).long() for part in pairs)
    row, column = row % n_rows, column % n_columns  # a stranger is the last
    width = known[0].by_rows.cutpoints.shape[1] + 1
    found = [torch.zeros(0, dtype=torch.float64, device=device)]
    for start in range(0, row.numel(), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        distribution = distributions(known, row[some], column[some], width)
        chosen = distribution.gather(1, level[some, None])[:, 0]
        found.append(torch.log(chosen.clamp(min=SMALLEST_PROBABILITY)))
    return torch.cat(found).cpu().numpy()


def distributions(
    models: Sequence[Any], row: torch.Tensor, column: torch.Tensor, width: int
) -> torch.Tensor:
    """(cells, width): the mean of the models' distributions, by their shares.

    Models are MatrixModels, or have parts of the same names, of tensors; shares are in float64.
    """
    total = torch.zeros((row.numel(), width), dtype=torch.float64, device=row.device)
    for model in models:
        mean, deviation = _moments(model, row, column)
        cells.add_masses(
            row, column, mean, deviation, model.by_columns.cutpoints, model.by_rows.cutpoints,
            model.n_levels, model.share, total,
        )  # fmt: skip
    return total.div_(total.sum(1, keepdim=True))


def _moments(
    model: Any, row: torch.Tensor, column: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of the utility of each cell."""
    by_rows, by_columns = model.by_rows, model.by_columns
    is_continuous = by_rows.bias_variance.numel() > 0
    mean = by_rows.bias[column].double() + by_columns.bias[row].double()
    variance = torch.ones_like(mean)
    if is_continuous:
        variance += by_rows.bias_variance[column].double()
        variance += by_columns.bias_variance[row].double()
    middle = 0.0 if is_continuous else 0.5
    halves = (by_rows, column, row), (by_columns, row, column)
    for k, (half, weighing, acting) in enumerate(halves):
        factored = Factored(
            half.weights, half.factors, half.weights_variance, half.factors_variance,
            model.gains[k : k + 1], middle,
        )  # fmt: skip
        cells.add_products(factored, weighing, acting, mean, variance)
    return mean, model.gains[2] * torch.sqrt(variance)


def with_cold_start(model: MatrixModel) -> MatrixModel:
    """The model with one more row and column: see :func:`ordinalrbm.matrix.predict.with_strangers`."""
    by_rows, by_columns = model.by_rows, model.by_columns
    most = model.n_levels.max()
    usual = by_rows.cutpoints[model.n_levels == most].mean(0)
    return model._replace(
        by_rows=_half_with_one_more(by_rows, usual),
        by_columns=_half_with_one_more(by_columns, by_columns.cutpoints.mean(0)),
        n_levels=_below(model.n_levels, most),
    )


def _half_with_one_more(half: Half, cutpoints: torch.Tensor) -> Half:
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
        cutpoints=_below(half.cutpoints, cutpoints),
        factors=_below(half.factors, factors),
        **doubts,
    )


def _below(part: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    return torch.cat([part, last[None]])

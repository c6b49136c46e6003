"""P(v_di) of single cells on a GPU, of models that are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ordinalrbm.data.observations import Cells
from ordinalrbm.engine.gpu import cells as kernels
from ordinalrbm.engine.gpu.cells import Factored
from ordinalrbm.engine.gpu.half_sweep import tensor
from ordinalrbm.evaluate.points import SMALLEST_PROBABILITY
from ordinalrbm.matrix.cold_start import with_cold_start
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.model import MatrixModel
from ordinalrbm.matrix.predict import UtilityModel, all_known

# Cells whose rows and columns are gathered at a time.
_TOGETHER = 2**16


def log_probability(models: Sequence[UtilityModel], cells: Cells) -> np.ndarray:
    """:func:`ordinalrbm.matrix.predict.log_probability` of models that are on a device."""
    known = list(models) if all_known(cells) else [with_cold_start(model) for model in models]
    n_rows, n_columns = len(known[0].row_cutpoints), len(known[0].column_cutpoints)
    device, width = known[0].row_cutpoints.device, known[0].most_levels
    row, column, level = (tensor(part, device).long() for part in cells)
    row, column = row % n_rows, column % n_columns  # an unknown one is the last
    found = [torch.zeros(0, dtype=torch.float64, device=device)]
    for start in range(0, row.numel(), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        distribution = distributions(known, row[some], column[some], width)
        chosen = distribution.gather(1, level[some, None])[:, 0]
        found.append(torch.log(chosen.clamp(min=SMALLEST_PROBABILITY)))
    return torch.cat(found).cpu().numpy()


def distributions(
    models: Sequence[UtilityModel], row: torch.Tensor, column: torch.Tensor, width: int
) -> torch.Tensor:
    """(cells, width): the mean of the models' distributions, by their shares."""
    total = torch.zeros((row.numel(), width), dtype=torch.float64, device=row.device)
    for model in models:
        mean, deviation = _moments(model, row, column)
        share = torch.full((1,), model.share, dtype=torch.float64, device=row.device)
        n_levels: Any = model.n_levels
        kernels.add_masses(
            row, column, mean, deviation, model.row_cutpoints, model.column_cutpoints, n_levels,
            share, total,
        )  # fmt: skip
    return total.div_(total.sum(1, keepdim=True))


def _moments(
    model: UtilityModel, row: torch.Tensor, column: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(model, GaussianModel):
        return _gaussian_moments(model, row, column)
    return _binary_moments(model, row, column)


def _gaussian_moments(
    model: GaussianModel, row: torch.Tensor, column: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = model.rows, model.columns
    one = torch.ones(1, dtype=torch.float64, device=row.device)
    p, q = rows.mean[row, 0].double(), columns.mean[column, 0].double()
    of_p, of_q = rows.variance[row, 0].double(), columns.variance[column, 0].double()
    # Products of whole rows of the tables: biases are among them, and are taken out again.
    mean = p + q - p * q
    variance = 1.0 + of_p + of_q - (of_q * (p * p + of_p) + q * q * of_p)
    factored = Factored(columns.mean, rows.mean, columns.variance, rows.variance, one, 0.0)
    kernels.add_products(factored, column, row, mean, variance)
    return mean, model.spread * torch.sqrt(variance)


def _binary_moments(
    model: MatrixModel, row: torch.Tensor, column: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    by_rows, by_columns, gains = model.by_rows, model.by_columns, model.gains
    mean = by_rows.bias[column].double() + by_columns.bias[row].double()
    variance = torch.ones_like(mean)
    nothing = mean[:0].float()
    for k, (half, weighing, acting) in enumerate(
        ((by_rows, column, row), (by_columns, row, column))
    ):
        gain = gains[k : k + 1]
        factored = Factored(half.weights, half.factors, nothing, nothing, gain, 0.5)
        kernels.add_products(factored, weighing, acting, mean, variance)
    return mean, gains[2] * variance

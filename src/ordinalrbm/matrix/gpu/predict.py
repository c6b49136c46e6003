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
from ordinalrbm.matrix.predict import all_known
from ordinalrbm.matrix.protocol import UtilityModel

# Cells whose rows and columns are gathered at a time.
_TOGETHER = 2**16


def log_probability(models: Sequence[UtilityModel], cells: Cells) -> np.ndarray:
    """:func:`ordinalrbm.matrix.predict.log_probability` of models that are on a device."""
    known = list(models) if all_known(cells) else [model.with_unknown() for model in models]
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
    mean, variance, products, scale = model.cell_terms(row, column)
    for product in products:
        weighing, acting = (column, row) if product.is_of_rows else (row, column)
        kernels.add_products(Factored(*product[:-1]), weighing, acting, mean, variance)
    return mean, scale * torch.sqrt(variance)

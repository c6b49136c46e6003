"""Predictions on a GPU, from models that stay there between calls.

The arithmetic is that of :mod:`ordinalrbm.matrix.predict`, in blocks of cells: memory does not grow with
how much is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import torch

from ordinalrbm.data.observations import Cells
from ordinalrbm.engine.gpu import cells as kernels
from ordinalrbm.engine.gpu.cells import Factored
from ordinalrbm.engine.gpu.device import torch_device, working_on
from ordinalrbm.engine.gpu.transfer import tensor
from ordinalrbm.matrix.cpu import mapped
from ordinalrbm.matrix.predict import all_known
from ordinalrbm.matrix.protocol import Model, UtilityModel
from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY

# Bytes of what is computed together.
_CELLS_BYTES = 2**28
# Several threads may ask at once. A device does one thing after the other anyway, and Triton's
# launcher and interpreter are not made for several; so they take turns, block by block.
GPU_LOCK = threading.Lock()


def kept_on_device(
    owner: object, models: Sequence[Model], device: str, with_unknown: Callable[[], Sequence[Model]]
) -> OnGpu:
    """An estimator's models on a device, where they stay until it has others.

    ``with_unknown`` gives them with an unknown row and column at the end.
    """
    with _KEEPING:
        kept = owner.__dict__.get("_on_device")
        key = (device, *map(id, models))
        if kept is None or kept[0] != key:
            owner.__dict__.pop("_on_device", None)  # its memory first
            # With the models themselves, so that no other one gets the number of one of them.
            kept = owner.__dict__["_on_device"] = (key, list(models), OnGpu(with_unknown(), device))
        return kept[2]


_KEEPING = threading.Lock()


class OnGpu:
    """Models on a device, each with an unknown row and column as its last."""

    def __init__(self, models: Sequence[Model], device: str) -> None:
        self.device = torch_device(device)
        known = [model.with_utilities() for model in models]
        with GPU_LOCK, working_on(self.device):
            self.models: list[UtilityModel] = [mapped(self._there, model) for model in known]

    def _there(self, array: np.ndarray) -> torch.Tensor:
        # Only read, also where NumPy would not let anybody write.
        array = np.require(array, requirements=("C", "W"))
        return torch.from_numpy(array).to(self.device)

    # ---- single cells -------------------------------------------------------------------------

    def probabilities(self, cells: Cells) -> np.ndarray:
        """(cells, L): distribution over the levels."""
        width = self.models[0].most_levels
        found = np.empty((cells.row.size, width))
        size = max(1, _CELLS_BYTES // (8 * (width + 6)))
        for start in range(0, cells.row.size, size):
            some = slice(start, start + size)
            with GPU_LOCK, working_on(self.device):
                row, column = (self._there(part[some].astype(np.int64)) for part in cells[:2])
                torch.from_numpy(found[some]).copy_(distributions(self.models, row, column, width))
        return found


# ---- p(v_di) of single cells on a GPU, of models that are there ----------------------------------


# Cells whose rows and columns are gathered at a time.
_TOGETHER = 2**16


def log_probability(models: Sequence[UtilityModel], cells: Cells) -> np.ndarray:
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
        cutpoints = model.row_cutpoints, model.column_cutpoints
        kernels.add_masses(row, column, mean, deviation, *cutpoints, model.n_levels, share, total)
    return total.div_(total.sum(1, keepdim=True))


def _moments(
    model: UtilityModel, row: torch.Tensor, column: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    mean, variance, products, scale = model.cell_terms(row, column)
    for product in products:
        weighing, acting = (column, row) if product.is_of_rows else (row, column)
        kernels.add_products(Factored(*product[:-1]), weighing, acting, mean, variance)
    return mean, scale * torch.sqrt(variance)

"""Predictions and recommendations on a GPU, from models that stay there between calls.

The arithmetic is that of :mod:`ordinalrbm.matrix.predict` and
:mod:`ordinalrbm.matrix.top_n`, in blocks of cells or of rows: memory does not grow with how
much is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.gpu import cells as kernels
from ordinalrbm.engine.gpu.cells import Factored
from ordinalrbm.engine.gpu.device import torch_device, working_on
from ordinalrbm.engine.gpu.tables import padded
from ordinalrbm.engine.gpu.transfer import tensor
from ordinalrbm.matrix.blend import LEAST_DEMAND
from ordinalrbm.matrix.cpu import mapped
from ordinalrbm.matrix.implicit_als import Demand
from ordinalrbm.matrix.predict import all_known
from ordinalrbm.matrix.protocol import Model, TableTerms, UtilityModel
from ordinalrbm.matrix.top_n import NOTHING, Best, LeftOut, as_shares, threshold_table, to_records
from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY

# Given rows on a device: (rows, columns) float32 scores, which may be changed.
Scores = Callable[[torch.Tensor], torch.Tensor]
# Bytes of what is computed together.
_CELLS_BYTES = 2**28
_SCORES_BYTES = 2**30
# Of a score: mean, variance, demand, score and key.
_BYTES_PER_SCORE = 4 + 4 + 4 + 4 + 8
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
        self._seen: tuple[Observations, torch.Tensor, torch.Tensor] | None = None
        self._demand: tuple[Demand, torch.Tensor, torch.Tensor] | None = None

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

    # ---- the best columns ---------------------------------------------------------------------

    def best_items(
        self,
        rows: np.ndarray,
        n: int,
        worth: np.ndarray,
        left_out: LeftOut = NOTHING,
        demand: Demand | None = None,
    ) -> Best:
        """The n columns with the greatest worth, as :func:`recommend.best_items` has them.

        With ``demand``, those with the greatest product of both, as :func:`recommend.best_wanted`
        has them; levels are then worth 0 or 1.
        """
        shares, low, high = as_shares(worth)
        with GPU_LOCK, working_on(self.device):
            there = None if demand is None else self._demand_there(demand)
            ranking = _Ranking(self, shares if demand is None else worth, there)
        best = to_records(*self._best_by_scores(ranking.scores, rows, n, len(worth), left_out))
        if demand is not None:
            return best
        return best._replace(score=low * (1.0 - best.score) + high * best.score)

    def most_wanted(
        self, demand: Demand, rows: np.ndarray, n: int, left_out: LeftOut = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """The n columns with the greatest demand, as :meth:`Demand.scores` has it."""
        with GPU_LOCK, working_on(self.device):
            there = self._demand_there(demand)
        scores = partial(_clamped_demand, *there)
        return self._best_by_scores(scores, rows, n, len(demand.columns), left_out)

    def _best_by_scores(
        self, scores: Scores, rows: np.ndarray, n: int, n_columns: int, left_out: LeftOut
    ) -> tuple[np.ndarray, np.ndarray]:
        """As :func:`recommend.best_by_scores` has them."""
        n = min(n, n_columns)
        item = np.empty((rows.size, n), dtype=np.int32)
        score = np.empty((rows.size, n), dtype=np.float32)
        with GPU_LOCK, working_on(self.device):
            seen = self._seen_there(left_out.seen)
        # An unknown one, at −1, is the last.
        rows = np.where(rows < 0, rows + len(self.models[0].row_cutpoints), rows).astype(np.int64)
        size = max(1, _SCORES_BYTES // (_BYTES_PER_SCORE * max(n_columns, 1)))
        for start in range(0, rows.size, size):
            some = slice(start, start + size)
            with GPU_LOCK, working_on(self.device):
                there = self._there(rows[some])
                block = scores(there)
                if left_out.closed is not None:
                    block[:, torch.from_numpy(left_out.closed).to(block.device)] = -torch.inf
                if seen:
                    kernels.leave_out(block, there, *seen)
                item[some], score[some] = (part.cpu().numpy() for part in kernels.best(block, n))
        return item, score

    def _demand_there(self, demand: Demand) -> tuple[torch.Tensor, torch.Tensor]:
        if self._demand is None or self._demand[0] is not demand:
            self._demand = demand, self._there(demand.rows), self._there(demand.columns)
        return self._demand[1:]

    def _seen_there(self, seen: Observations | None) -> tuple[torch.Tensor, ...]:
        """What rows have seen, on the device; kept for the next call."""
        if seen is None:
            return ()
        if self._seen is None or self._seen[0] is not seen:
            self._seen = None  # its memory first
            self._seen = seen, self._there(seen.row_start), self._there(seen.column)
        return self._seen[1:]


class _Ranking:
    """Columns made ready to be ranked, by every model."""

    def __init__(
        self, there: OnGpu, worth: np.ndarray, wanted: tuple[torch.Tensor, torch.Tensor] | None
    ) -> None:
        tensor, self.wanted = there._there, wanted
        self.lowest = tensor(worth[:, 0].astype(np.float32))
        self.parts: list[tuple[UtilityModel, kernels.Worth, TableTerms]] = []
        for model in there.models:
            cutpoints, n_levels = (part.cpu().numpy() for part in (model.column_cutpoints, model.n_levels))
            table = threshold_table(cutpoints, n_levels, worth)
            terms = model.column_terms(len(worth), tensor(table.first))
            passing = kernels.Worth(tensor(table.width), tensor(table.gain))
            self.parts.append((model, passing, _side_by_side(terms)))

    def scores(self, rows: torch.Tensor) -> torch.Tensor:
        """(rows, columns)."""
        scores = self.lowest.expand(rows.numel(), -1).contiguous()
        for model, worth, of_columns in self.parts:
            of_rows, variance = _side_by_side(model.row_terms(rows)), None
            mean = of_rows.mean @ of_columns.mean.T
            if of_rows.variance is not None and of_columns.variance is not None:
                variance = of_rows.variance @ of_columns.variance.T
            gaps = torch.exp(model.row_cutpoints[rows, : len(worth.gain)]).float()
            gaps[:, :1] = 0.0
            kernels.add_worth(mean, variance, model.deviation_scale, gaps, worth, model.share, scores)
        if self.wanted is not None:
            scores *= _clamped_demand(*self.wanted, rows)
        return scores


def _side_by_side(terms: TableTerms) -> TableTerms:
    return TableTerms(*(None if part is None else padded(torch.cat(part, dim=1)) for part in terms))


def _clamped_demand(own: torch.Tensor, facing: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return (own[rows] @ facing.T).clamp_(min=float(LEAST_DEMAND))


# ---- p(v_di) of single cells on a GPU, of models that are there ----------------------------------


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

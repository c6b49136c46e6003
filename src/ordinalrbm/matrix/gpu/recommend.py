"""Predictions and recommendations on a GPU, from models that stay there between calls.

The arithmetic is that of :mod:`ordinalrbm.matrix.predict` and
:mod:`ordinalrbm.matrix.recommend`, in blocks of cells or of rows: memory does not grow with how
much is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.gpu import cells as kernels
from ordinalrbm.engine.gpu.device import torch_device, working_on
from ordinalrbm.engine.gpu.tables import padded
from ordinalrbm.errors import DataError
from ordinalrbm.matrix.demand import Demand
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.gpu.predict import distributions
from ordinalrbm.matrix.multinomial import MultinomialModel
from ordinalrbm.matrix.predict import UtilityModel
from ordinalrbm.matrix.recommend import LEAST_DEMAND, Best, ladder_of, listed, ranked
from ordinalrbm.matrix.trees import mapped

# Bytes of what is computed together.
_CELLS_BYTES = 2**28
_SCORES_BYTES = 2**30
# Of a score: mean, variance, demand, score and key.
_BYTES_PER_SCORE = 4 + 4 + 4 + 4 + 8
# Several threads may ask at once. A device does one thing after the other anyway, and Triton's
# launcher and interpreter are not made for several; so they take turns, block by block.
TURN = threading.Lock()


def kept_on_device(
    owner: Any, models: Sequence[Any], device: str, with_unknown: Callable[[], Sequence[Any]]
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

    def __init__(self, models: Sequence[Any], device: str) -> None:
        self.device = torch_device(device)
        if any(isinstance(model, MultinomialModel) for model in models):
            raise DataError("MultinomialRBM predicts on the cores only; set device='cpu'.")
        with TURN, working_on(self.device):
            self.models: list[UtilityModel] = [mapped(self._there, model) for model in models]
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
            with TURN, working_on(self.device):
                row, column = (self._there(part[some].astype(np.int64)) for part in cells[:2])
                torch.from_numpy(found[some]).copy_(distributions(self.models, row, column, width))
        return found

    # ---- the best columns ---------------------------------------------------------------------

    def best_items(
        self, rows: np.ndarray, n: int, worth: np.ndarray, seen: Observations | None,
        closed: np.ndarray | None = None, demand: Demand | None = None,
    ) -> Best:  # fmt: skip
        """The n columns with the greatest worth, as :func:`recommend.best_items` has them.

        With ``demand``, those with the greatest product of both, as :func:`recommend.best_wanted`
        has them; levels are then worth 0 or 1.
        """

        def batches(
            rows: np.ndarray, n: int, worth: np.ndarray
        ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            with TURN, working_on(self.device):
                there = self._seen_there(seen)
                wanted = None if demand is None else self._demand_there(demand)
                ranking = _Ranking(self, worth, wanted)
            size = max(1, _SCORES_BYTES // (_BYTES_PER_SCORE * max(len(worth), 1)))
            for start in range(0, rows.size, size):
                with TURN, working_on(self.device):
                    batch = rows[start : start + size].astype(np.int64)
                    # An unknown one, at −1, is the last.
                    batch = np.where(batch < 0, batch + len(self.models[0].row_cutpoints), batch)
                    item, score = ranking.best(self._there(batch), n, there, closed)
                    found = item.cpu().numpy(), score.cpu().numpy()
                yield found

        if demand is None:
            return ranked(batches, rows, n, worth)
        n = min(n, len(worth))
        return listed(list(batches(rows, n, worth)), n)

    def most_wanted(
        self, demand: Demand, row: np.ndarray, seen: Observations | None,
        closed: np.ndarray | None, place: np.ndarray, m: int,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """The m columns with the greatest demand, as :func:`recommend.most_wanted` has them."""
        asked, found = row[place].astype(np.int64), []
        with TURN, working_on(self.device):
            there, (own, facing) = self._seen_there(seen), self._demand_there(demand)
        size = max(1, _SCORES_BYTES // (_BYTES_PER_SCORE * max(len(demand.columns), 1)))
        for start in range(0, asked.size, size):
            with TURN, working_on(self.device):
                rows = self._there(asked[start : start + size])
                scores = _clamped_demand(own, facing, rows)
                _close(scores, rows, there, closed)
                found.append([part.cpu().numpy() for part in kernels.best(scores, m)])
        item, score = (np.concatenate(parts) for parts in zip(*found, strict=True))
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
        self.parts: list[tuple[UtilityModel, kernels.Worth, Any, Any]] = []
        for model in there.models:
            cutpoints, n_levels = (
                part.cpu().numpy() for part in (model.column_cutpoints, model.n_levels)
            )
            ladder = ladder_of(cutpoints, n_levels, worth)
            for_mean = _columns_for_mean(model, len(worth), tensor(ladder.first))
            for_variance = None
            if isinstance(model, GaussianModel):
                for_variance = _columns_for_variance(model, len(worth))
            passing = kernels.Worth(tensor(ladder.width), tensor(ladder.gain))
            self.parts.append((model, passing, for_mean, for_variance))

    def best(
        self, rows: torch.Tensor, n: int, seen: tuple[torch.Tensor, ...],
        closed: np.ndarray | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """Columns and scores of the best, for each row."""
        scores = self.lowest.expand(rows.numel(), -1).contiguous()
        for model, worth, for_mean, for_variance in self.parts:
            mean = _rows_for_mean(model, rows) @ for_mean.T
            if isinstance(model, GaussianModel):
                variance, spread = _rows_for_variance(model, rows) @ for_variance.T, model.spread
            else:
                variance, spread = None, float(model.gains[2])
            gaps = torch.exp(model.row_cutpoints[rows, : len(worth.gain)]).float()
            gaps[:, :1] = 0.0
            kernels.add_worth(mean, variance, spread, gaps, worth, model.share, scores)
        if self.wanted is not None:
            scores *= _clamped_demand(*self.wanted, rows)
        _close(scores, rows, seen, closed)
        return kernels.best(scores, n)


def _clamped_demand(own: torch.Tensor, facing: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return (own[rows] @ facing.T).clamp_(min=float(LEAST_DEMAND))


def _close(
    scores: torch.Tensor, rows: torch.Tensor, seen: tuple[torch.Tensor, ...],
    closed: np.ndarray | None,
) -> None:  # fmt: skip
    """Leave out what each row has seen, and what all leave out."""
    if closed is not None:
        scores[:, torch.from_numpy(closed).to(scores.device)] = -torch.inf
    if seen:
        kernels.leave_out(scores, rows, *seen)


# Means above the lowest threshold are products of two tables, and so are variances: here is what
# rows and columns put into them, in the same order.


def _rows_for_mean(model: UtilityModel, rows: torch.Tensor) -> torch.Tensor:
    if isinstance(model, GaussianModel):
        mean = model.rows.mean[rows]
        parts = [mean[:, 1:], mean[:, :1], torch.ones_like(mean[:, :1])]
    else:
        other = model.by_columns
        bias = other.bias[rows, None]
        acting = _with_gain(model.by_rows.factors[rows], model.gains[0])
        parts = [acting, other.weights[rows], bias, torch.ones_like(bias)]
    return padded(torch.cat(parts, dim=1))


def _columns_for_mean(model: UtilityModel, n: int, first: torch.Tensor) -> torch.Tensor:
    if isinstance(model, GaussianModel):
        mean = model.columns.mean[:n]
        parts = [mean[:, 1:], torch.ones_like(mean[:, :1]), mean[:, :1] - first[:, None]]
    else:
        own = model.by_rows
        bias = (own.bias[:n] - first)[:, None]
        acting = _with_gain(model.by_columns.factors[:n], model.gains[1])
        parts = [own.weights[:n], acting, torch.ones_like(bias), bias]
    return padded(torch.cat(parts, dim=1))


def _with_gain(factors: torch.Tensor, gain: Any) -> torch.Tensor:
    return 0.5 + gain.float() * (factors - 0.5)


def _rows_for_variance(model: GaussianModel, rows: torch.Tensor) -> torch.Tensor:
    mean, variance = model.rows.mean[rows], model.rows.variance[rows]
    bias = 1.0 + variance[:, :1]
    parts = [variance[:, 1:], mean[:, 1:] ** 2, bias, torch.ones_like(bias)]
    return padded(torch.cat(parts, dim=1))


def _columns_for_variance(model: GaussianModel, n: int) -> torch.Tensor:
    mean, variance = model.columns.mean[:n], model.columns.variance[:n]
    bias = variance[:, :1]
    squares = mean[:, 1:] ** 2 + variance[:, 1:]
    return padded(torch.cat([squares, variance[:, 1:], torch.ones_like(bias), bias], dim=1))

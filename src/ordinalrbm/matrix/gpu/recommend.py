"""Predictions and recommendations on a GPU, from models that stay there between calls.

The arithmetic is that of :mod:`ordinalrbm.matrix.predict` and :mod:`ordinalrbm.matrix.recommend`, in
blocks of cells or of rows: memory does not grow with how much is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.gpu import cells
from ordinalrbm.engine.gpu.device import torch_device, working_on
from ordinalrbm.engine.gpu.tables import padded
from ordinalrbm.matrix.gpu.predict import distributions
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.recommend import Best, ladder_of, ranked

# Bytes of what is computed together.
_CELLS_BYTES = 2**28
_SCORES_BYTES = 2**30
# Of a score: mean, variance, score and key.
_BYTES_PER_SCORE = 4 + 4 + 4 + 8
# Several threads may ask at once. A device does one thing after the other anyway, and Triton's
# launcher and interpreter are not made for several; so they take turns, block by block.
TURN = threading.Lock()


class _Model(NamedTuple):
    """A matrix model on a device; what is small is with the host, too."""

    by_rows: Half
    by_columns: Half
    n_levels: torch.Tensor
    gains: torch.Tensor
    share: torch.Tensor
    is_continuous: bool
    host_gains: tuple[float, float, float]
    host_share: float

    @property
    def middle(self) -> float:
        """Of a factor."""
        return 0.0 if self.is_continuous else 0.5


class OnGpu:
    """Models on a device, each with a stranger as its last row and column.

    Parameters
    ----------
    models : the same, as arrays
    device : its name
    """

    def __init__(self, models: Sequence[MatrixModel], device: str) -> None:
        self.device = torch_device(device)
        with TURN, working_on(self.device):
            self.models = [self._placed(model) for model in models]
        self._seen: tuple[Observations, torch.Tensor, torch.Tensor] | None = None

    def _placed(self, model: MatrixModel) -> _Model:
        by_rows, by_columns = (Half(*map(self._tensor, half)) for half in model[:2])
        first, second, spread = (float(gain) for gain in model.gains)
        return _Model(
            by_rows, by_columns, self._tensor(model.n_levels),
            self._tensor(np.array([first, second, spread])), self._tensor(np.array([model.share])),
            model.is_continuous, (first, second, spread), float(model.share),
        )  # fmt: skip

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        # Only read, also where NumPy would not let anybody write.
        array = np.require(array, requirements=("C", "W"))
        return torch.from_numpy(array).to(self.device)

    # ---- single cells -------------------------------------------------------------------------

    def probabilities(self, pairs: Cells) -> np.ndarray:
        """(cells, L): distribution over the levels, as :func:`pairs.probabilities` has it."""
        width = self.models[0].by_rows.cutpoints.shape[1] + 1
        found = np.empty((pairs.row.size, width))
        size = max(1, _CELLS_BYTES // (8 * (width + 6)))
        for start in range(0, pairs.row.size, size):
            some = slice(start, start + size)
            with TURN, working_on(self.device):
                row, column = (self._tensor(part[some].astype(np.int64)) for part in pairs[:2])
                torch.from_numpy(found[some]).copy_(distributions(self.models, row, column, width))
        return found

    # ---- the best columns ---------------------------------------------------------------------

    def best_items(
        self, rows: np.ndarray, n: int, worth: np.ndarray, seen: Observations | None
    ) -> Best:
        """The n columns with the greatest worth, as :func:`recommend.best_items` has them."""

        def batches(
            rows: np.ndarray, n: int, worth: np.ndarray
        ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            with TURN, working_on(self.device):
                there = self._seen_there(seen)
                ranking = _Ranking(self, worth)
            size = max(1, _SCORES_BYTES // (_BYTES_PER_SCORE * max(len(worth), 1)))
            for start in range(0, rows.size, size):
                with TURN, working_on(self.device):
                    batch = rows[start : start + size].astype(np.int64)
                    # A stranger, at −1, is the last.
                    batch = np.where(batch < 0, batch + len(self.models[0].by_columns.bias), batch)
                    item, score = ranking.best(self._tensor(batch), n, there)
                    found = item.cpu().numpy(), score.cpu().numpy()
                yield found

        return ranked(batches, rows, n, worth)

    def _seen_there(self, seen: Observations | None) -> tuple[torch.Tensor, ...]:
        """What rows have seen, on the device; kept for the next call."""
        if seen is None:
            return ()
        if self._seen is None or self._seen[0] is not seen:
            self._seen = None  # its memory first
            self._seen = seen, self._tensor(seen.row_start), self._tensor(seen.column)
        return self._seen[1:]


class _Ranking:
    """Columns made ready to be ranked, by every model."""

    def __init__(self, there: OnGpu, worth: np.ndarray) -> None:
        tensor = there._tensor
        self.lowest = tensor(worth[:, 0].astype(np.float32))
        self.parts: list[tuple[_Model, cells.Worth, Any, Any]] = []
        for model in there.models:
            cutpoints: Any = model.by_rows.cutpoints
            ladder = ladder_of(cutpoints.cpu().numpy(), model.n_levels.cpu().numpy(), worth)
            for_mean = _columns_for_mean(model, len(worth), tensor(ladder.first))
            for_variance = None
            if model.is_continuous:
                for_variance = _columns_for_variance(model, len(worth))
            passing = cells.Worth(tensor(ladder.width), tensor(ladder.gain))
            self.parts.append((model, passing, for_mean, for_variance))

    def best(
        self, rows: torch.Tensor, n: int, seen: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Columns and scores of the best, for each row."""
        scores = self.lowest.expand(rows.numel(), -1).contiguous()
        for model, worth, for_mean, for_variance in self.parts:
            mean = _rows_for_mean(model, rows) @ for_mean.T
            variance = None
            if model.is_continuous:
                variance = _rows_for_variance(model, rows) @ for_variance.T
            gaps = torch.exp(model.by_columns.cutpoints[rows, : len(worth.gain)]).float()
            gaps[:, :1] = 0.0
            spread = model.host_gains[2]
            cells.add_worth(mean, variance, spread, gaps, worth, model.host_share, scores)
        if seen:
            cells.leave_out(scores, rows, *seen)
        return cells.best(scores, n)


# Means above the lowest threshold are products of two tables, and so are variances: here is what
# rows and columns put into them, in the same order.


def _rows_for_mean(model: _Model, rows: torch.Tensor) -> torch.Tensor:
    factors, other = model.by_rows.factors[rows], model.by_columns
    acting = model.middle + model.host_gains[0] * (factors - model.middle)
    bias = other.bias[rows, None]
    return padded(torch.cat([acting, other.weights[rows], bias, torch.ones_like(bias)], dim=1))


def _columns_for_mean(model: _Model, n: int, first: torch.Tensor) -> torch.Tensor:
    factors, own = model.by_columns.factors[:n], model.by_rows
    acting = model.middle + model.host_gains[1] * (factors - model.middle)
    bias = (own.bias[:n] - first)[:, None]
    return padded(torch.cat([own.weights[:n], acting, torch.ones_like(bias), bias], dim=1))


def _rows_for_variance(model: _Model, rows: torch.Tensor) -> torch.Tensor:
    own, other = model.by_rows, model.by_columns
    bias = 1.0 + other.bias_variance[rows, None]
    parts = [
        own.factors_variance[rows], own.factors[rows] ** 2, other.weights_variance[rows],
        other.weights[rows] ** 2, bias, torch.ones_like(bias),
    ]  # fmt: skip
    return padded(torch.cat(parts, dim=1))


def _columns_for_variance(model: _Model, n: int) -> torch.Tensor:
    own, other = model.by_rows, model.by_columns
    of_weights, of_factors = own.weights_variance[:n], other.factors_variance[:n]
    bias = own.bias_variance[:n, None]
    parts = [
        own.weights[:n] ** 2 + of_weights, of_weights, other.factors[:n] ** 2 + of_factors,
        of_factors, torch.ones_like(bias), bias,
    ]  # fmt: skip
    return padded(torch.cat(parts, dim=1))

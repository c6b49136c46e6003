"""New rows with binary factors on a GPU: :mod:`ordinalrbm.matrix.binary_fold_in` there.

The turns are those of the cores, for all rows of a block together; a row that has settled stays as
it is while others go on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.gpu import gibbs, probit
from ordinalrbm.engine.gpu.gibbs import DeviceSide
from ordinalrbm.engine.gpu.pieces import SIZE, row_blocks
from ordinalrbm.engine.gpu.tables import padded, products, sums
from ordinalrbm.engine.gpu.transfer import tensor
from ordinalrbm.engine.side import Side
from ordinalrbm.matrix.binary_fold_in import (
    LARGEST_STEP,
    LEAST_INFORMATION,
    MEAN_FIELD_STEPS,
    MOST_TURNS,
    NEW_CURVATURES,
    SETTLED,
    KnownColumns,
    NewRows,
)
from ordinalrbm.matrix.model import ColdStartPrior

# Bytes of the rows' systems that are solved together.
_SYSTEMS_BYTES = 2**29


def infer_binary_rows(
    device: torch.device, rows: Observations, columns: KnownColumns, new: NewRows, prior: ColdStartPrior
) -> None:
    found = _Rows(device, columns, prior)
    pieces = -(-np.diff(rows.row_start) // SIZE)
    # Sums of every piece and row in float32, and what is solved in float64.
    cost = found.design.shape[1] ** 2 * (4.0 * pieces + 36.0)
    for block in row_blocks(cost, _SYSTEMS_BYTES):
        some = rows.take_rows(np.arange(block.start, block.stop))
        found.fill_in(some, NewRows(*(part[block] for part in new)))


class _Own(NamedTuple):
    """What belongs to rows: ω and the bias of one that meets average factors, and cutpoints."""

    weights: torch.Tensor  # (rows, S + 1), float64
    cutpoints: torch.Tensor  # (rows, M), float64


class _Rows:
    """Columns on the device, and the prior of new rows."""

    def __init__(self, device: torch.device, columns: KnownColumns, prior: ColdStartPrior) -> None:
        self.device, self.columns, self.prior = device, columns, prior
        centred = columns.factors - prior.factors
        centred = np.hstack([centred, np.ones((len(centred), 1))]).astype(np.float32)
        self.design = padded(self._there(centred))
        self.column_gaps = self._there(np.exp(columns.cutpoints))
        self.precision = self._there(np.append(prior.weights_precision, prior.bias_precision))
        self.middle = self._there(np.append(np.zeros(prior.factors.size), prior.bias))
        self.learns = prior.bias_precision[0] < np.inf

    def _there(self, values: np.ndarray) -> torch.Tensor:
        return tensor(values, self.device)

    def fill_in(self, rows: Observations, new: NewRows) -> None:
        common = self._there(self.prior.cutpoints[new.n_levels])
        on = gibbs.side_on(self._side(rows), self.device)
        beyond = self._there(thresholds.unused(new.n_levels, common.shape[1]))
        factors, own = self._found(on, common, beyond)
        answered = np.diff(rows.row_start) > 0
        weights = own.weights.cpu().numpy()[answered]
        new.factors[answered] = factors.cpu().numpy()[answered]
        new.weights[answered] = weights[:, :-1]
        new.bias[answered] = weights[:, -1] - weights[:, :-1] @ self.prior.factors
        new.cutpoints[answered] = own.cutpoints.cpu().numpy()[answered]

    def _side(self, rows: Observations) -> Side:
        columns, nothing = self.columns, np.zeros(0, dtype=np.float32)
        nowhere = np.zeros(0, dtype=np.int64)
        return Side(
            row_start=rows.row_start,
            column=rows.column,
            level=rows.level,
            column_start=np.zeros(len(columns.bias) + 1, dtype=np.int64),
            entry_row=nowhere,
            entry=nowhere,
            offset=nothing,
            row_weight=nothing,
            stretch=nothing,
            row_gaps=nothing,
            weights=columns.weights,
            bias=columns.bias,
            thresholds=thresholds.table(columns.cutpoints, columns.n_levels),
            factor_bias=columns.factor_bias,
        )

    def _found(self, on: DeviceSide, common: torch.Tensor, beyond: torch.Tensor) -> tuple[torch.Tensor, _Own]:
        n_rows, device = len(common), self.device
        factors = torch.full((n_rows, on.n_factors), 0.5, device=device)
        own = _Own(self.middle.expand(n_rows, -1).clone(), common.clone())
        by_own, before = self._by_own(on, own), None
        goes_on = torch.ones((n_rows, 1), dtype=torch.bool, device=device)
        lower = None
        for turn in range(MOST_TURNS):
            on = on.with_parameters(offset=by_own, row_gaps=_gaps(own.cutpoints, beyond))
            factors = torch.where(goes_on, _mean_field(on, factors), factors)
            by_factors = probit.by_factors(on, factors)
            if self.learns:
                pull, information = probit.pulls(on, by_factors + by_own, LEAST_INFORMATION)
                if turn < NEW_CURVATURES:
                    lower = self._curvature(on, information)
                step = self._newton_step(on, pull, own, lower)
                own = own._replace(weights=own.weights + torch.where(goes_on, step, 0.0))
                by_own = self._by_own(on, own)
                # Gaps and bias speak of the same thing: one after the other.
                step = self._gap_step(on, by_factors + by_own, own, common)
                own = own._replace(cutpoints=own.cutpoints + torch.where(goes_on, step, 0.0))
            mean = by_factors + by_own
            if before is not None:
                goes_on &= _largest(on, (mean - before).abs())[:, None] >= SETTLED
                if not bool(goes_on.any()):
                    break
            before = mean
        return factors, own

    def _by_own(self, on: DeviceSide, own: _Own) -> torch.Tensor:
        """What a row's own parameters make of the mean of every answer."""
        column = on.side.column
        return products(on.rows, 0, column, self.design, own.weights, column.numel()).double()

    def _curvature(self, on: DeviceSide, information: torch.Tensor) -> torch.Tensor:
        size = self.precision.numel()
        system = probit.squares(on.rows, on.side.column, self.design, information)
        return torch.linalg.cholesky(system[:, :size, :size].double() + torch.diag(self.precision))

    def _newton_step(self, on: DeviceSide, pull: torch.Tensor, own: _Own, lower: Any) -> torch.Tensor:
        slope = sums(on.rows, 0, on.side.column, self.design, pull)[:, : self.precision.numel()]
        slope = slope.double() - self.precision * (own.weights - self.middle)
        return torch.cholesky_solve(slope[:, :, None], lower)[:, :, 0]

    def _gap_step(self, on: DeviceSide, mean: torch.Tensor, own: _Own, common: torch.Tensor) -> torch.Tensor:
        """One damped step for the logarithms of the gaps; the first threshold stays."""
        precision = float(self.prior.cutpoints_precision[0])
        slope, curvature = probit.gap_sums(on, mean, self.column_gaps, torch.exp(own.cutpoints))
        slope = slope - precision * (own.cutpoints - common)
        step = (slope / (curvature + precision)).clamp(-LARGEST_STEP, LARGEST_STEP)
        step[:, 0] = 0.0
        return step


def _mean_field(on: DeviceSide, factors: torch.Tensor) -> torch.Tensor:
    factors = factors.clone()
    if factors.shape[1]:
        gibbs.mean_field(on, factors, 0.0, MEAN_FIELD_STEPS)
    return factors


def _gaps(cutpoints: torch.Tensor, beyond: torch.Tensor) -> torch.Tensor:
    """What rows make of each gap, as a Side has it; beyond their last level there is no bound."""
    gaps = torch.exp(cutpoints)
    gaps[:, 0] = cutpoints[:, 0]
    gaps = torch.where(beyond, torch.inf, gaps)
    return torch.nn.functional.pad(gaps, (0, 3), value=torch.inf)


def _largest(on: DeviceSide, values: torch.Tensor) -> torch.Tensor:
    count = torch.from_numpy(np.diff(on.host_row_start)).to(values.device)
    row = torch.repeat_interleave(torch.arange(count.numel(), device=values.device), count)
    return values.new_zeros(count.numel()).scatter_reduce_(0, row, values, "amax")

"""The backend of a GPU: tensors, and Triton kernels. Nothing waits for it inside a pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ordinalrbm.data.observations import Cells, Counted, Counts, Observations
from ordinalrbm.engine import memory
from ordinalrbm.engine.base import Prior
from ordinalrbm.engine.drift import BinViews, members_of
from ordinalrbm.engine.gpu import ascent, gibbs
from ordinalrbm.engine.gpu.device import free_memory, torch_device, working_on
from ordinalrbm.engine.gpu.half_sweep import GPU_ENGINE
from ordinalrbm.engine.gpu.ordinal_gibbs import GPU_GIBBS
from ordinalrbm.engine.gpu.pieces import Answers, answers_on, inserted, new_cells, transposed
from ordinalrbm.engine.gpu.rated_sets import FeatureTable, RatedSets
from ordinalrbm.engine.gpu.tables import padded
from ordinalrbm.engine.gpu.transfer import array_of, tensor
from ordinalrbm.engine.side import Batch, Statistics
from ordinalrbm.matrix.binary_fold_in import KnownColumns, NewRows
from ordinalrbm.matrix.binary_state import BinaryState, Chains, Process, Sampling, views
from ordinalrbm.matrix.cpu import Cpu, mapped
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.gibbs_sampler import SampledData, scales_of
from ordinalrbm.matrix.gpu.fold_in import infer_binary_rows
from ordinalrbm.matrix.gpu.predict import GPU_LOCK, log_probability
from ordinalrbm.matrix.model import ColdStartPrior, Half, answers_only
from ordinalrbm.matrix.protocol import Model
from ordinalrbm.matrix.variational import Data, View

# Parts of a Half that have a number per factor in each row.
_TABLES = ("weights", "factors")
# Bytes of an answer that is sorted by columns: itself, its row, keys and places before and after, and
# itself again.
_TO_TRANSPOSE = 5 + 4 + 2 * (4 + 8) + 5
# A share of what is free is left to kernels, matrix products and gaps between arrays.
_USABLE = 0.85


class Cuda(Cpu):
    """The same on a GPU."""

    settle = staticmethod(GPU_ENGINE.settle)
    steps_up = staticmethod(ascent.ascend)

    def __init__(self, device: str) -> None:
        self.device = torch_device(device)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Several threads take turns."""
        with GPU_LOCK, working_on(self.device):
            yield

    def to_device(self, tree: Any) -> Any:
        """Copies as tensors; what has a number per factor is in tables, padded with zeros.

        Precisions and values stay with the host, whose eigenvectors they go with.
        """
        if isinstance(tree, Half):
            there = Half(*(tensor(part, self.device) for part in tree))
            return there._replace(**{name: padded(getattr(there, name)) for name in _TABLES})
        if isinstance(tree, Chains):
            clamped, free = (gibbs.factors_on(part, self.device).clone() for part in tree[:2])
            return Chains(clamped, free, self.to_device(tree.sums))
        if isinstance(tree, Prior):
            cutpoints, mean = (tensor(part, self.device) for part in (tree.cutpoints, tree.mean))
            return tree._replace(cutpoints=cutpoints, mean=mean)
        if isinstance(tree, list):
            return [self.to_device(part) for part in tree]
        if isinstance(tree, tuple):
            names = tree._fields  # type: ignore[attr-defined]  # all tuples here are named
            return type(tree)(
                *(
                    part if name in _ON_HOST else self.to_device(part)
                    for name, part in zip(names, tree, strict=True)
                )
            )
        return tensor(tree, self.device) if isinstance(tree, np.ndarray) else tree

    def to_host(self, tree: Any) -> Any:
        if isinstance(tree, Half):
            return mapped(array_of, self.without_padding(tree))
        if isinstance(tree, Chains):
            n_factors = tree.sums.factor_bias.numel()
            clamped, free = (array_of(part[:, :n_factors]) for part in tree[:2])
            return Chains(clamped, free, self.to_host(tree.sums))
        if isinstance(tree, tuple):
            return type(tree)(*map(self.to_host, tree))
        if isinstance(tree, list):
            return [self.to_host(part) for part in tree]
        return array_of(tree) if isinstance(tree, torch.Tensor) else tree

    def clone(self, tree: Any) -> Any:
        return mapped(lambda part: part.clone() if isinstance(part, torch.Tensor) else part, tree)

    def log_probability(self, model: Model, cells: Cells) -> np.ndarray:
        return log_probability([model.with_utilities()], cells)

    # ---- Gaussian factors ---------------------------------------------------------------------

    def answers(self, observations: Observations) -> Any:
        return answers_on(observations, self.device)

    def data(self, observations: Observations, n_factors: int, time: np.ndarray | None = None) -> Data:
        # Means and variances: of now, of the best epoch, and once more while they are rotated.
        memory.check(observations, 6 * (1 + n_factors), self._usable())
        rows, columns = (View(answers, GPU_ENGINE) for answers in self._both_views(observations))
        bins = None if time is None else self.bins(observations, time)
        return Data(rows, columns, np.unique(observations.n_levels), bins)

    def _both_views(self, observations: Observations) -> tuple[Answers, Answers]:
        """Answers by rows and by columns; sorted on the device, if it has room for that."""
        usable = self._usable()
        answers = answers_on(observations, self.device)
        if usable is None or usable > _TO_TRANSPOSE * observations.n_entries:
            return answers, transposed(answers, observations)
        return answers, answers_on(observations.transpose(), self.device)

    def data_with(
        self,
        data: Data,
        observations: Observations,
        cells: Cells,
        n_factors: int,
        weight: np.ndarray | None = None,
    ) -> tuple[Data, Counted | Counts]:
        if weight is not None:
            return super().data_with(data, observations, cells, n_factors, weight)
        counts = observations.row_counts, observations.column_counts
        new = new_cells(data.rows.answers, counts[0], observations.n_columns, cells)
        rows, row_counts = inserted(data.rows.answers, counts[0], new)
        columns, column_counts = inserted(data.columns.answers, counts[1], new.transposed)
        views = View(rows, GPU_ENGINE), View(columns, GPU_ENGINE)
        return Data(*views, data.scales), Counts(row_counts, column_counts)

    def sampled(
        self, observations: Observations, tables: Tables, *, rated_sets: bool, time: np.ndarray | None = None
    ) -> SampledData:
        rows, columns = self._both_views(observations)
        of_rows: list[Any] = []
        of_columns: list[Any] = []
        if rated_sets:
            of_rows.append(RatedSets.of(observations.row_counts, rows, columns))
            of_columns.append(RatedSets.of(observations.column_counts, columns, rows))
        for kinds, table in zip((of_rows, of_columns), tables, strict=True):
            if table is not None:
                kinds.append(FeatureTable(table, self.device))
        scales, bins = scales_of(observations), None if time is None else self.bins(observations, time)
        return SampledData(
            GPU_GIBBS, rows, columns, of_rows, of_columns, observations.total_weight, scales, bins
        )

    def bins(self, observations: Observations, time: np.ndarray) -> BinViews:
        host = BinViews.of(observations, time)
        of_rows, of_columns, members = (
            tensor(part, self.device) for part in (host.of_rows, host.of_columns, members_of(host.bins))
        )
        return BinViews(host.bins, of_rows, of_columns, members)

    def data_of(self, sampled: SampledData, observations: Any, n_factors: int) -> Data:
        rows, columns = (View(part, GPU_ENGINE) for part in (sampled.answers, sampled.transposed))
        return Data(rows, columns, sampled.scales.n_levels, sampled.bins)

    def _usable(self) -> int | None:
        free = free_memory(self.device)
        return None if free is None else int(_USABLE * free)

    # ---- binary factors -----------------------------------------------------------------------

    def processes(self, observations: Observations, n_processes: int) -> list[Process]:
        found = []
        for number, view in enumerate(views(observations, n_processes)):
            process = Process.over(number, view, gibbs.side_on(answers_only(view), self.device))
            n_answers = tensor(process.n_answers, self.device).double()
            n_levels = tensor(process.n_levels, self.device)
            found.append(process._replace(n_answers=n_answers, n_levels=n_levels))
        return found

    def side(self, process: Process, state: BinaryState) -> Any:
        """Offsets and the rows' gaps are computed there; thresholds come with each batch."""
        own, other, n_levels = state.model.by_rows, state.model.by_columns, None
        if process.number:
            own, other, n_levels = other, own, state.model.n_levels
        return process.answers.with_parameters(
            offset=gibbs.offsets(process.answers, other.weights, other.bias, other.factors),
            row_gaps=ascent.row_gaps(other.cutpoints, n_levels),
            weights=own.weights,
            bias=own.bias,
            factor_bias=own.factor_bias,
        )

    def phases(
        self, process: Process, side: Any, state: BinaryState, batch: Batch, how: Sampling
    ) -> tuple[Statistics, Statistics]:
        half, chains = state.half(process), state.chains[process.number]
        table = ascent.threshold_table(half.cutpoints, process.n_levels)
        return gibbs.both_phases(
            side.with_parameters(thresholds=table),
            chains.clamped,
            chains.free,
            batch,
            half.factors,
            how.memory,
            how.is_contrastive,
        )

    def without_padding(self, half: Half) -> Half:
        n_factors = half.factor_bias.numel()
        return half._replace(**{name: getattr(half, name)[:, :n_factors] for name in _TABLES})

    def extremes(self, half: Half) -> Half:
        """Two numbers of each part that has any, in one transfer."""
        found = [torch.stack(torch.aminmax(part)).double() for part in half if part.numel()]
        pairs = iter(torch.stack(found).cpu().numpy())
        nothing = np.zeros(0)
        return Half(*(next(pairs) if part.numel() else nothing for part in half))

    def infer_binary_rows(
        self, rows: Observations, columns: KnownColumns, new: NewRows, prior: ColdStartPrior
    ) -> None:
        with self.working():
            infer_binary_rows(self.device, rows, columns, new, prior)


# Fields that stay with the host.
_ON_HOST = ("precision", "cutpoints_precision", "values", "centre", "drift", "drift_variance")

"""Where continuous factors are learnt: on this machine's cores, or on a GPU.

A machine holds ratings and parties in its own form and says how likely the held-out ratings are;
what an epoch does is the same on all (:func:`ordinalrbm.model.continuous.epoch`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.party import Party
from ordinalrbm.infer.pairs import Pairs, log_probability
from ordinalrbm.model.continuous import Data, Parties, View, on_cpu, to_matrix


class Machine(Protocol):
    """What the learner asks of a machine."""

    def data(self, observations: Observations) -> Data:
        """Ratings in the machine's form."""

    def placed(self, parties: Parties) -> Parties:
        """Copies of parties for the machine."""

    def fetched(self, parties: Parties) -> Parties:
        """The machine's parties as arrays."""

    def copied(self, parties: Parties) -> Parties:
        """Copies that stay with the machine."""

    def likelihood(self, parties: Parties, in_use: tuple[int, int], held_out: Pairs) -> float:
        """Mean log probability of held-out ratings, with so many factors of rows and columns."""


class Cores:
    """The cores of this machine: arrays are NumPy's, the engine is Numba's."""

    def data(self, observations: Observations) -> Data:
        """As it is, and transposed."""
        return on_cpu(observations)

    def placed(self, parties: Parties) -> Parties:
        """The same."""
        return parties

    def fetched(self, parties: Parties) -> Parties:
        """The same."""
        return parties

    def copied(self, parties: Parties) -> Parties:
        """The same with arrays of its own."""
        return parties.copy()

    def likelihood(self, parties: Parties, in_use: tuple[int, int], held_out: Pairs) -> float:
        """Mean log probability of held-out ratings."""
        model = to_matrix(parties, *in_use)
        return float(log_probability([model], held_out).mean())


class Gpu:
    """A GPU: tensors, and Triton kernels."""

    def __init__(self, device: str) -> None:
        from ordinalrbm.engine.gpu.device import torch_device

        self.device = torch_device(device)

    def data(self, observations: Observations) -> Data:
        """Both views on the device."""
        from ordinalrbm.engine.gpu import regress
        from ordinalrbm.engine.gpu.pieces import answers_on

        rows, columns = (
            View(answers_on(view, self.device), regress)
            for view in (observations, observations.transpose())
        )
        return Data(rows, columns, np.unique(observations.n_levels))

    def placed(self, parties: Parties) -> Parties:
        """Parties as tensors."""
        from ordinalrbm.engine.gpu.regress import tensor

        return _changed(parties, lambda part: tensor(part, self.device))

    def fetched(self, parties: Parties) -> Parties:
        """Parties as arrays."""
        return _changed(parties, lambda part: part.cpu().numpy())

    def copied(self, parties: Parties) -> Parties:
        """Copies on the device."""
        return _changed(parties, lambda part: part.clone())

    def likelihood(self, parties: Parties, in_use: tuple[int, int], held_out: Pairs) -> float:
        """Mean log probability of held-out ratings, computed there."""
        from ordinalrbm.infer.on_gpu import mean_log_probability

        return mean_log_probability(parties, *in_use, held_out)


def _changed(parties: Parties, change: Callable[[Any], Any]) -> Parties:
    """Every array changed that has a line per member; priors' precisions stay with the host."""
    rows, columns = (Party(*map(change, party)) for party in (parties.rows, parties.columns))
    row_prior, column_prior = (
        prior._replace(steps=change(prior.steps))
        for prior in (parties.row_prior, parties.column_prior)
    )
    return Parties(rows, columns, row_prior, column_prior)


def machine_for(device: str) -> Machine:
    """The machine that ``device`` names: "cpu", or "cuda" with the number of a GPU behind it."""
    return Cores() if device == "cpu" else Gpu(device)

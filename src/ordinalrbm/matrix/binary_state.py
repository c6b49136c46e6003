"""What stays and what moves while binary factors are learnt, whoever computes it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.side import Array
from ordinalrbm.matrix.binary_priors import Priors
from ordinalrbm.matrix.model import Half, MatrixModel


class Process(NamedTuple):
    """One of the two processes: its view of the ratings, which stays."""

    number: int  # 0 of the rows, 1 of the columns, which has the roles swapped
    answers: Any  # in the backend's form, rows and columns as this process has them
    n_rows: int  # batches are runs of these
    n_answers: Array  # of each column
    n_levels: Array  # of each column
    scales: np.ndarray  # the different numbers of levels, on the host

    @classmethod
    def over(cls, number: int, view: Observations, answers: Any) -> Process:
        scales = np.unique(view.n_levels)
        return cls(number, answers, view.n_rows, view.column_counts, view.n_levels, scales)


def views(observations: Observations, n_processes: int) -> list[Observations]:
    """Ratings as the processes see them: as they are, and transposed if there are two."""
    if n_processes == 1:
        return [observations]
    _ = observations.column_view  # needed anyway, and then shared by the transposed
    return [observations, observations.transpose()]


class Chains(NamedTuple):
    """What a process carries from batch to batch: its chains, and sums of squared gradients."""

    clamped: Array
    free: Array
    sums: Half


class BinaryState(NamedTuple):
    """All that moves while learning: the model, and the chains and priors of each process."""

    model: MatrixModel
    chains: list[Chains]
    priors: list[Priors]

    def half(self, process: Process) -> Half:
        return self.model.by_columns if process.number else self.model.by_rows


class Steps(NamedTuple):
    """How far parameters move along a gradient g: rate · g / √sum.

    Attributes
    ----------
    rate : the learning rate
    adaptive : 1 adds g² to the sum (AdaGrad); 0 leaves it where it starts (plain steps)
    centre : what factors are measured from when weights move, ½ or 0
    """

    rate: float
    adaptive: float
    centre: float


class Sampling(NamedTuple):
    """How chains are run: where free ones begin, and how much of the factors' mean is kept."""

    is_contrastive: bool
    memory: float

"""What stays and what moves while binary factors are learnt: chains, priors, and steps of parameters.

Every parameter has a Gaussian prior around a common value. Its precision is estimated together
with the parameters (empirical Bayes): the spread of the true values is that of the estimates plus
what is not known about each of them.

Steps go up the gradient, over the columns that a batch has touched: AdaGrad, or plain ones.
:mod:`ordinalrbm.engine.gpu.ascent` has the same on a GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.side import Array, Statistics
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import compiled, inlined

# What one answer tells, in units of 1/variance: about a utility's mean, about a weight (its factor
# is on in half of the cases) and about the logarithm of a width.
_ABOUT_BIAS = 0.75
_ABOUT_WEIGHT = 0.75 * 0.25
_ABOUT_STEP = 0.15
_SMALLEST, _LARGEST = 0.1, 1e4


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


class Priors(NamedTuple):
    """Precisions of weights, biases and gaps, and what biases and gaps are drawn towards."""

    weights: float
    bias: float
    cutpoints: float
    common_bias: float
    common_cutpoints: Array  # (C, L − 1)

    @classmethod
    def first(cls, half: Half, strength: float | None, *, are_learnt: bool) -> Priors:
        """Before anything is known; ``strength`` fixes the precision of the weights.

        Where priors are not learnt, biases and gaps have none.
        """
        weights = 2.0 * max(half.n_factors, 1) if strength is None else float(strength)
        centred = half.bias + 0.5 * half.weights.sum(axis=1)
        common = float(centred.mean()) if centred.size else 0.0
        bias, cutpoints = (5.0, 20.0) if are_learnt else (0.0, 0.0)
        return cls(weights, bias, cutpoints, common, half.cutpoints.copy())

    def refit(self, half: Half, process: Process) -> Priors:
        """Priors that fit the current parameters; arrays are NumPy's or torch's.

        Columns with the same number of levels have the same common gaps.
        """
        n_answers = process.n_answers
        seen = n_answers > 0
        count = n_answers[seen][:, None]
        centred = (half.bias + 0.5 * half.weights.sum(1))[seen][:, None]
        common_bias = float((_double(centred) * count).sum() / count.sum())
        common = self.common_cutpoints + 0.0  # a copy
        for levels in process.scales.tolist():
            same = process.n_levels == levels
            weight = n_answers[same & seen][:, None]
            if float(weight.sum()):
                common[same] = (half.cutpoints[same & seen] * weight).sum(0) / weight.sum()
        gaps = (half.cutpoints - common)[seen][:, 1:]
        return Priors(
            _precision(half.weights[seen], count, self.weights, _ABOUT_WEIGHT),
            _precision(centred - common_bias, count, self.bias, _ABOUT_BIAS),
            _precision(gaps, count, self.cutpoints, _ABOUT_STEP),
            common_bias,
            common,
        )


def _precision(values: Array, count: Array, precision: float, information: float) -> float:
    n = float(np.prod(values.shape))
    if not n:
        return precision
    of_squares = (_double(values) ** 2 + 1.0 / (precision + information * count)).sum()
    return float(np.clip(1.0 / float(of_squares / n), _SMALLEST, _LARGEST))


def _double(numbers: Array) -> Array:
    return numbers.astype(np.float64) if isinstance(numbers, np.ndarray) else numbers.double()


class BinaryState(NamedTuple):
    """All that moves while learning: the model, and the chains and priors of each process."""

    model: MatrixModel
    chains: list[Chains]
    priors: list[Priors]

    def half(self, process: Process) -> Half:
        return self.model.by_columns if process.number else self.model.by_rows


class Sampling(NamedTuple):
    """How chains are run: where free ones begin, and how much of the factors' mean is kept."""

    is_contrastive: bool
    memory: float


class Steps(NamedTuple):
    """How far parameters move along a gradient g: rate · g / √sum."""

    rate: float
    adaptive: float  # 1 adds g² to the sum (AdaGrad); 0 leaves it where it starts (plain steps)
    centre: float  # what factors are measured from when weights move, ½ or 0


def ascend(
    half: Half,
    sums: Half,
    clamped: Statistics,
    free: Statistics,
    n_answers: np.ndarray,
    priors: Priors,
    steps: Steps,
) -> None:
    """Move the columns that a batch has touched, and the factors' biases; in place.

    ``sums`` are those of squared gradients; ``n_answers`` are those of each column in all batches.
    """
    precisions = (priors.weights, priors.bias, priors.cutpoints, priors.common_bias)
    sizes = tuple(np.float32(number) for number in steps)
    arguments = half, sums, clamped, free, n_answers, priors.common_cutpoints, precisions, sizes
    over_rows(_move_columns, half.bias.size, *arguments)
    gradient = clamped.factor_bias - free.factor_bias
    sums.factor_bias[:] += np.float32(steps.adaptive) * gradient * gradient
    half.factor_bias[:] += np.float32(steps.rate) * gradient / np.sqrt(sums.factor_bias)


@compiled
def _move_columns(start, stop, half, sums, clamped, free, n_answers, common, priors, steps):
    for column in range(start, stop):
        if clamped.answers[column] > 0:
            _move_column(half, sums, clamped, free, n_answers, common, priors, steps, column)


@inlined
def _move_column(half, sums, clamped, free, n_answers, common, priors, steps, i):
    # The prior is spread over the answers, so that an epoch counts it once.
    part = np.float32(clamped.answers[i] / n_answers[i])
    weights, sum_weights = half.weights[i], sums.weights[i]
    towards_bias = clamped.bias[i] - free.bias[i]
    rate, adaptive, centre = steps
    middle, moved = np.float32(0.0), np.float32(0.0)
    for k in range(weights.size):
        middle += np.float32(0.5) * weights[k]
    for k in range(weights.size):
        # Coded around their middle, a weight of factors turns the utility and does not shift it.
        g = clamped.weights[i, k] - free.weights[i, k] - centre * towards_bias
        g -= np.float32(priors[0]) * part * weights[k]
        sum_weights[k] += adaptive * g * g
        step = rate * g / np.sqrt(sum_weights[k])
        weights[k] += step
        moved += centre * step
    away = half.bias[i] + middle - np.float32(priors[3])
    g = towards_bias - np.float32(priors[1]) * part * away
    sums.bias[i] += adaptive * g * g
    half.bias[i] += rate * g / np.sqrt(sums.bias[i]) - moved
    for m in range(1, half.cutpoints.shape[1]):
        g2 = np.exp(half.cutpoints[i, m]) * clamped.thresholds[i, m]
        g2 -= priors[2] * part * (half.cutpoints[i, m] - common[i, m])
        sums.cutpoints[i, m] += adaptive * g2 * g2
        half.cutpoints[i, m] += rate * g2 / np.sqrt(sums.cutpoints[i, m])

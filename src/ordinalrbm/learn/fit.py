"""The learning loop: epochs over batches of rows, watched on held-out answers."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.side import Batch, Side
from ordinalrbm.learn.chains import Chains, FreePhase, gradient, start_chains
from ordinalrbm.learn.monitor import Monitor, set_aside
from ordinalrbm.learn.updates import Moments, ascend, zero_moments
from ordinalrbm.model.vector import Unanswered, VectorModel, initial_model, side, with_parameters


@dataclass(frozen=True)
class Settings:
    """What the learner may be told; see :class:`ordinalrbm.CumulativeRBM` for each."""

    n_factors: int
    units: int
    n_epochs: int
    batch_size: int
    learning_rate: float
    gibbs_steps: int
    free_phase: FreePhase
    n_chains: int
    weight_decay: float
    unanswered: Unanswered
    validation_fraction: float
    patience: int
    seed: int
    verbose: bool


class Record(NamedTuple):
    """One line of the learning history; log probabilities are means per answer."""

    epoch: int
    pseudo_likelihood: float
    validation: float
    learning_rate: float
    seconds: float


class Fitted(NamedTuple):
    """The model of the best epoch, and how learning went."""

    model: VectorModel
    best_epoch: int
    history: list[Record]
    interrupted: bool


class _Learner(NamedTuple):
    """Everything that changes while learning."""

    model: VectorModel
    moments: Moments
    chains: Chains


def fit(observations: Observations, row_weight: np.ndarray | None, settings: Settings) -> Fitted:
    """Learn a model; rows must already be in random order.

    Ctrl-C ends learning and gives the best epoch so far; before the first epoch has ended there is
    none, and the interruption goes through.
    """
    learnt, monitor = set_aside(observations, settings.validation_fraction, settings.seed)
    model = initial_model(learnt, settings.n_factors, settings.units, settings.seed)
    this = side(model, learnt, settings.unanswered, row_weight)
    chains = start_chains(model, this, settings.free_phase, settings.n_chains, settings.seed)
    learner = _Learner(model, zero_moments(model), chains)
    best, history, interrupted = model.copy(), [], False
    best_epoch, started = 0, time.perf_counter()
    bar = tqdm(
        range(1, settings.n_epochs + 1), desc="learning", unit="epoch",
        disable=not settings.verbose, file=sys.stderr,
    )  # fmt: skip
    try:
        for epoch in bar:
            rate = _rate(epoch, settings)
            _epoch(learner, this, epoch, rate, settings)
            record = _record(learner.model, monitor, epoch, rate, started, settings)
            history.append(record)
            bar.set_postfix_str(f"held-out log-likelihood {record.validation:.4f}")
            if monitor is None or record.validation >= _best(history):
                best, best_epoch = learner.model.copy(), epoch
            if epoch - best_epoch >= settings.patience:
                break
    except KeyboardInterrupt:
        if best_epoch == 0:
            raise
        interrupted = True
    finally:
        bar.close()
    return Fitted(best, best_epoch, history, interrupted)


def _epoch(learner: _Learner, this: Side, epoch: int, rate: float, settings: Settings) -> None:
    """One pass over the data in batches of neighbouring rows, taken in random order."""
    model, n_rows = learner.model, this.n_rows
    starts = np.arange(0, n_rows, settings.batch_size)
    precision = settings.weight_decay / n_rows
    order = np.random.default_rng([settings.seed, epoch]).permutation(starts.size)
    for count, start in enumerate(starts[order]):
        stop = min(int(start) + settings.batch_size, n_rows)
        batch = Batch(int(start), stop, settings.seed, epoch, settings.gibbs_steps)
        uphill = gradient(model, with_parameters(this, model), learner.chains, batch, precision)
        n_steps = (epoch - 1) * starts.size + count + 1
        ascend(model, uphill, learner.moments, n_steps, rate)


def _rate(epoch: int, settings: Settings) -> float:
    """Cosine from the full rate to zero: the last epochs settle what the first have found."""
    done = (epoch - 1) / settings.n_epochs
    return settings.learning_rate * 0.5 * (1.0 + np.cos(np.pi * done))


def _record(
    model: VectorModel, monitor: Monitor | None, epoch: int, rate: float, started: float,
    settings: Settings,
) -> Record:  # fmt: skip
    held_out = seen = float("nan")
    if monitor is not None:
        held_out, seen = monitor.measure(model, settings.unanswered)
    return Record(epoch, seen, held_out, rate, time.perf_counter() - started)


def _best(history: list[Record]) -> float:
    return max(record.validation for record in history)

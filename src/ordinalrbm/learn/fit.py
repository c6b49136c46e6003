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
from ordinalrbm.errors import DataError
from ordinalrbm.learn.chains import Chains, FreePhase, gradient, start_chains
from ordinalrbm.learn.monitor import Monitor, set_aside
from ordinalrbm.learn.schedule import Schedule
from ordinalrbm.learn.updates import Moments, ascend, zero_moments
from ordinalrbm.model.start import initial_model
from ordinalrbm.model.styles import draw_styles, has_styles, with_styles
from ordinalrbm.model.vector import (
    ARRAYS,
    Unanswered,
    VectorModel,
    side,
    with_parameters,
)

# Share of the epochs in which the learning rate falls to zero.
_FALL = 0.4


@dataclass(frozen=True)
class Settings:
    """What the learner may be told; see :class:`ordinalrbm.CumulativeRBM` for each."""

    n_factors: int
    units: int
    response_styles: int
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
    model = with_styles(
        initial_model(learnt, settings.n_factors, settings.units, settings.seed),
        settings.response_styles,
    )
    this = side(model, learnt, settings.unanswered, row_weight)
    if has_styles(model):
        this = this._replace(stretch=np.ones(this.n_rows, dtype=np.float32))
    chains = start_chains(model, this, settings.free_phase, settings.n_chains, settings.seed)
    learner = _Learner(model, zero_moments(model), chains)
    best, best_epoch = model, 0
    history: list[Record] = []
    interrupted = False
    started = time.perf_counter()
    bar = tqdm(
        total=settings.n_epochs, desc="learning", unit="epoch", disable=not settings.verbose,
        file=sys.stderr,
    )  # fmt: skip
    schedule = Schedule(
        settings.learning_rate, n_epochs=settings.n_epochs, patience=settings.patience, fall=_FALL
    )
    try:
        while (rate := schedule.rate()) > 0.0:
            epoch = len(history) + 1
            _epoch(learner, this, epoch, rate, settings)
            _refuse_divergence(learner.model, epoch, settings)
            history.append(_record(model, monitor, epoch, rate, started, settings))
            if schedule.after(history[-1].validation):
                best, best_epoch = model.copy(), epoch
            bar.update()
            bar.set_postfix_str(f"held-out {history[-1].validation:.4f}")
    except KeyboardInterrupt:
        if best_epoch == 0:
            raise
        interrupted = True
    finally:
        bar.close()
    if not interrupted and _is_kept(model, best, monitor, settings):
        best, best_epoch = model, len(history)
    return Fitted(best, best_epoch, history, interrupted)


def _refuse_divergence(model: VectorModel, epoch: int, settings: Settings) -> None:
    if not all(np.isfinite(getattr(model, name)).all() for name in ARRAYS):
        raise DataError(
            f"Learning diverged in epoch {epoch}, parameters are no longer finite; "
            f"lower learning_rate (now {settings.learning_rate:g})."
        )


def _is_kept(
    last: VectorModel, best: VectorModel, monitor: Monitor | None, settings: Settings
) -> bool:
    """Whether the last epoch is kept, rather than the one that mean-field found best.

    Mean-field is quick enough to watch every epoch with, but it is an approximation, and more so
    the stronger the weights: it tends to prefer earlier epochs. The last epoch has settled, so it
    stays unless draws show clearly that it is worse, by overfitting.
    """
    return monitor is None or not monitor.is_worse(last, best, settings.unanswered, settings.seed)


def _epoch(learner: _Learner, this: Side, epoch: int, rate: float, settings: Settings) -> None:
    """One pass over the data in batches of neighbouring rows, taken in random order."""
    model, n_rows = learner.model, this.n_rows
    starts = np.arange(0, n_rows, settings.batch_size)
    precision = settings.weight_decay / n_rows
    order = np.random.default_rng([settings.seed, epoch]).permutation(starts.size)
    styles = np.ones(model.stretches.size)  # one made-up row of each keeps all possible
    for count, start in enumerate(starts[order]):
        stop = min(int(start) + settings.batch_size, n_rows)
        batch = Batch(int(start), stop, settings.seed, epoch, settings.gibbs_steps)
        current = with_parameters(this, model)
        styles += draw_styles(model, current, learner.chains.clamped, batch)
        uphill = gradient(model, current, learner.chains, batch, precision)
        n_steps = (epoch - 1) * starts.size + count + 1
        ascend(model, uphill, learner.moments, n_steps, rate)
    model.style_weights[:] = styles / styles.sum()


def _record(
    model: VectorModel, monitor: Monitor | None, epoch: int, rate: float, started: float,
    settings: Settings,
) -> Record:  # fmt: skip
    held_out = seen = float("nan")
    if monitor is not None:
        held_out, seen = monitor.measure(model, settings.unanswered)
    return Record(epoch, seen, held_out, rate, time.perf_counter() - started)

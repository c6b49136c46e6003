"""Learning the matrix model with continuous factors: epochs until there is no more to gain."""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.regress import Party, Prior
from ordinalrbm.infer.fold_in import OfWeights
from ordinalrbm.infer.pairs import Pairs, log_probability
from ordinalrbm.learn.alternate import FittedMatrix, MatrixSettings
from ordinalrbm.learn.calibrate import calibrated
from ordinalrbm.model.continuous import (
    Parties,
    dealt,
    epoch,
    size_of_factors,
    start,
    to_matrix,
)
from ordinalrbm.model.matrix import MatrixModel

# A rise of the mean log probability that is worth another epoch.
_WORTHWHILE = 2e-4
# Epochs in a row without one.
_PATIENCE = 2


class Record(NamedTuple):
    """One line of the learning history; the log probability is a mean per rating."""

    epoch: int
    validation: float
    seconds: float


def fit(
    observations: Observations, validation: Pairs | None, settings: MatrixSettings
) -> FittedMatrix:
    """Learn a model; Ctrl-C ends learning and gives the best epoch so far."""
    n_factors = settings.n_row_factors, settings.n_column_factors
    transposed = observations.transpose()
    parties = start(observations, sum(n_factors), n_factors[1] > 0, settings.seed)
    # Factors that cannot be told are left out while they are of no use to anybody.
    in_use = [part.size for part in dealt(parties.rows.mean.shape[1] - 1, *n_factors)]
    best, best_epoch, best_value, goal, waited = parties, 0, -np.inf, -np.inf, 0
    history: list[Record] = []
    last: list[MatrixModel] = []
    interrupted = False
    started = time.perf_counter()
    bar = tqdm(
        total=settings.n_epochs, desc="learning", unit="epoch", disable=not settings.verbose,
        file=sys.stderr,
    )  # fmt: skip
    try:
        while len(history) < settings.n_epochs and waited < min(_PATIENCE, settings.patience):
            parties = epoch(observations, transposed, parties, len(history) + 1)
            value = np.nan
            if validation is not None:
                model = to_matrix(parties, *in_use)
                value = float(log_probability([model], validation).mean())
            if settings.n_averaged > 1:
                last = [*last, to_matrix(parties, *n_factors)][-settings.n_averaged :]
            history.append(Record(len(history) + 1, value, time.perf_counter() - started))
            if not value <= best_value:
                # A copy: an interruption comes in the middle of an epoch, when nothing is in order.
                best, best_epoch, best_value = parties.copy(), len(history), value
            waited = waited + 1 if value < goal else 0
            goal = goal if value < goal else value + _WORTHWHILE
            bar.update()
            bar.set_postfix_str(f"validation {value:.4f}")
    except KeyboardInterrupt:
        if best_epoch == 0:
            raise
        interrupted = True
    finally:
        bar.close()
    models = last if settings.n_averaged > 1 else [to_matrix(best, *n_factors)]
    if validation is not None and settings.calibrate:
        models = calibrated(models, observations, validation)
    return FittedMatrix(models, best_epoch, history, interrupted, _priors(best, *n_factors))


def _priors(
    parties: Parties, n_row_factors: int, n_column_factors: int
) -> tuple[OfWeights, OfWeights]:
    """Priors of what columns and rows weigh factors with, for those who come later."""
    rows, columns, row_prior, column_prior = parties
    of_rows, of_columns = dealt(rows.mean.shape[1] - 1, n_row_factors, n_column_factors)
    return (
        _prior_of_weights(column_prior, rows, 1 + of_rows, n_row_factors),
        _prior_of_weights(row_prior, columns, 1 + of_columns, n_column_factors),
    )


def _prior_of_weights(prior: Prior, acting: Party, chosen: np.ndarray, n_factors: int) -> OfWeights:
    precision = np.full(n_factors, np.inf)  # factors that are not in use stay so
    precision[: chosen.size] = prior.precision[chosen] / size_of_factors(acting, chosen) ** 2
    widths = float(prior.steps_precision[1:].mean()) if prior.steps_precision.size > 1 else np.inf
    return OfWeights(precision, float(prior.precision[0]), widths)

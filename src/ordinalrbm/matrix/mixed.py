"""Learning both kinds of factors, one after the other, and how far to believe each.

A taste may be a matter of degree or of kind. Two models that are about as good and err in different
places are better together: what they predict is the mean of their distributions, with the shares
that suit the validation ratings.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalrbm.data.observations import Observations
from ordinalrbm.matrix import binary_learner, gaussian_learner
from ordinalrbm.matrix.binary_learner import FittedMatrix, MatrixSettings
from ordinalrbm.matrix.model import MatrixModel
from ordinalrbm.matrix.predict import Pairs, log_probability
from ordinalrbm.training.checkpoint import NO_CHECKPOINTS, Checkpoints
from ordinalrbm.training.divergence import NothingLearntError

# Shares are drawn towards equal ones as if by so many ratings that speak for each side.
_PRIOR_RATINGS = 50.0
# Each round brings them closer to the best; they need no more than two digits.
_ROUNDS = 50


class Record(NamedTuple):
    """One line of the learning history; the log probability is a mean per rating."""

    epoch: int
    validation: float
    is_binary: bool
    seconds: float


def fit(
    observations: Observations,
    validation: Pairs | None,
    settings: MatrixSettings,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> FittedMatrix:
    """Learn both; Ctrl-C ends learning and gives what there is.

    Each has checkpoints of its own: the last one of the first says that it is done.
    """
    first = gaussian_learner.fit(observations, validation, settings, checkpoints)
    if first.interrupted:
        return first._replace(history=_told(first))
    try:
        second = binary_learner.fit(observations, validation, settings, checkpoints)
    except KeyboardInterrupt:
        return first._replace(history=_told(first), interrupted=True)
    except NothingLearntError as error:
        only = "Only continuous factors were learnt, no binary ones:"
        warnings.warn(f"{only} {str(error)[:1].lower()}{str(error)[1:]}", ConvergenceWarning, 6)
        return first._replace(history=_told(first))
    shares = _shares(second.models, first.models, validation)
    models = [
        model._replace(share=share * model.share)
        for share, part in zip(shares, (second, first), strict=True)
        for model in part.models
    ]
    priors = [*second.priors, *first.priors]
    history = _told(first, second)
    return FittedMatrix(models, first.best_epoch, history, second.interrupted, priors)


def _shares(
    binary: list[MatrixModel], degrees: list[MatrixModel], validation: Pairs | None
) -> tuple[float, float]:
    """Most likely shares of both: each rating is divided between those who expected it."""
    share = 0.5
    if validation is None:
        return share, 1.0 - share
    odds = np.exp(log_probability(degrees, validation) - log_probability(binary, validation))
    for _ in range(_ROUNDS):
        credit = share / (share + (1.0 - share) * odds)
        share = (float(credit.sum()) + _PRIOR_RATINGS) / (odds.size + 2.0 * _PRIOR_RATINGS)
    return share, 1.0 - share


def _told(degrees: FittedMatrix, binary: FittedMatrix | None = None) -> list[Record]:
    """One history of both, the seconds counted from the beginning of the first."""
    history: list[Record] = []
    for part in filter(None, (degrees, binary)):
        before = history[-1].seconds if history else 0.0
        for line in (record._asdict() for record in part.history):
            seconds = before + line["seconds"]
            history.append(Record(line["epoch"], line["validation"], part is binary, seconds))
    return history

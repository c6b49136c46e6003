"""Which items to show a newcomer: what their ratings are expected to tell about all others.

The bias and factors of somebody new are Gaussian as they are among known users, and by ratings so far
as in linear response: a rating tells as much of its utility as the interval of its level leaves out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.base import FactorPosterior
from ordinalrbm.engine.normal_reference import interval_slopes, truncated_variance
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.protocol import Model
from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY


class Worth(NamedTuple):
    """How often items are rated, (items,), how likely the newcomer can, and what levels count, (items, L)."""

    share: np.ndarray
    chance: np.ndarray
    levels: np.ndarray


def can_ask(model: Model) -> bool:
    """Whether a model has Gaussian factors, of which it says how well they are known, and levels."""
    return isinstance(model, GaussianModel) and not model.values.size and not model.is_point


def best_items(
    model: GaussianModel,
    person: FactorPosterior | None,
    answers: Observations,
    worth: Worth,
    candidates: np.ndarray,
    n: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the items to show, each as if those before had been, and the share of variance explained.

    ``person`` is what is known of the newcomer by the first row of ``answers``, if there are any.
    """
    rows, columns = model.rows, model.columns
    facing = columns.mean.astype(np.float64)
    bias, facing[:, 0] = facing[:, 0].copy(), 1.0
    among = np.diag(rows.variance.mean(axis=0))
    if len(rows.mean) > 1:
        among = among + np.cov(rows.mean, rowvar=False)
    mean = rows.mean.mean(axis=0) if person is None else person.mean[0]
    cutpoints = (rows if person is None else person).cutpoints.mean(axis=0)
    gaps = np.exp(columns.cutpoints + cutpoints)
    gaps[:, 0] = columns.cutpoints[:, 0]
    bounds = np.cumsum(gaps, axis=1) - (bias + facing @ mean)[:, None]
    bounds[np.arange(bounds.shape[1]) >= columns.n_levels[:, None] - 1] = np.inf
    bounds = np.pad(bounds, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
    # Of items, too, not all is known.
    noise = 1.0 + columns.variance[:, 0] + columns.variance[:, 1:] @ mean[1:] ** 2
    rated, level = answers.column, answers.level.astype(np.intp)
    low, high = (bounds[rated, level + k] / np.sqrt(noise[rated]) for k in (0, 1))
    seen = facing[rated] * np.sqrt((1.0 - truncated_variance(low, high)) / noise[rated])[:, None]
    covariance = np.linalg.inv(np.linalg.inv(among) + seen.T @ seen)
    found, open_, target = [], candidates & (worth.chance > 0), None
    for _ in range(min(n, int(open_.sum()))):
        along = facing @ covariance
        spread = np.sqrt(noise + (along * facing).sum(axis=1))[:, None]
        probability, slopes = interval_slopes(bounds / spread)
        told = ((slopes / spread) ** 2 / np.maximum(probability, SMALLEST_PROBABILITY)).sum(axis=1)
        if target is None:
            rise = (slopes[:, : worth.levels.shape[1]] / spread * worth.levels).sum(axis=1)
            target = (facing * (worth.share * rise**2)[:, None]).T @ facing
        gain = worth.chance * told * ((along @ target) * along).sum(axis=1)
        best = int(np.where(open_, gain, -np.inf).argmax())
        found.append((best, gain[best] / np.trace(covariance @ target)))
        covariance = covariance - worth.chance[best] * told[best] * np.outer(along[best], along[best])
        open_[best] = False
    items, information = zip(*found, strict=True) if found else ((), ())
    return np.array(items, dtype=np.intp), np.array(information)

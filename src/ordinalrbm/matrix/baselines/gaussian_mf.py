"""Gaussian matrix factorisation (Salakhutdinov & Mnih, 2007), by alternating least squares.

A cell's value is Gaussian around mean + b_row + b_column + p_row · q_column, with Gaussian priors
on biases and factors. Distributions over levels come from integrating that Gaussian between the
mid-points of neighbouring values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
from scipy.special import ndtr

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix.baselines.factors import (
    Effects,
    Posterior,
    View,
    cell_means,
    half_sweep,
    improved,
    no_effects,
    start_both,
    views,
    with_unknown,
)
from ordinalrbm.matrix.baselines.learning import Record, index_of, learn
from ordinalrbm.storage.reader import Stored, wrong

# Precision of a factor's prior: where learning begins, and where it is fixed. Weak at the start,
# or factors would be given up before they have learnt anything.
_FACTOR_PRECISION: dict[Posterior, float] = {"variational": 1.0, "point": 40.0}
# Noise is never less than this share of the values' variance, so that a table which is fitted
# exactly (one cell, one level) still gives distributions.
_LEAST_NOISE = 1e-3
_SMALLEST = 1e-300  # of a file, of what is divided by


@dataclass(frozen=True)
class Settings:
    """How to learn.

    Attributes
    ----------
    n_factors : int
        Length of p and q.
    posterior : {"variational", "point"}
        What is kept of each bias and factor: a mean and a variance, or only the best value as in
        the original. With variances the precisions of the priors are learnt, one per factor.
    bias_precision, factor_precision : float
        Of the priors, where the values have variance one: fixed for "point", where learning
        begins for "variational". Without a number for the factors, it is 40 or 1.
    n_epochs, patience : int
        Largest number of epochs, and after how many without improvement learning ends.
    seed : int
        Of the factors at the start.
    """

    n_factors: int = 50
    posterior: Posterior = "variational"
    bias_precision: float = 5.0
    factor_precision: float | None = None
    n_epochs: int = 40
    patience: int = 3
    seed: int = 0


class GaussianMF(NamedTuple):
    """Parameters; effects and noise are in units of ``scale``.

    Attributes
    ----------
    rows, columns : Effects
    mean, scale, noise : float
        Mean of the prior of a value, the unit, and the variance of a value around its mean.
    values : (L,)
        Value of each level, ascending.
    n_levels : (N,)
        Number of levels of each column.
    posterior : str
        What the effects keep, see :class:`Settings`.
    """

    rows: Effects
    columns: Effects
    mean: float
    scale: float
    noise: float
    values: np.ndarray
    n_levels: np.ndarray
    posterior: Posterior

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> GaussianMF:
        """The model of a file whose columns are on scales of so many levels."""
        rows = Effects.from_stored(stored.under("rows."), n_rows)
        columns = Effects.from_stored(stored.under("columns."), n_levels.size, rows.n_factors)
        values = stored.array("values", np.float64, (int(n_levels.max()),))
        if (np.diff(values) <= 0).any():
            raise wrong("model.values", "does not ascend")
        return cls(
            rows=rows,
            columns=columns,
            mean=stored.number("mean"),
            scale=stored.number("scale", _SMALLEST),
            noise=stored.number("noise", _SMALLEST),
            values=values,
            n_levels=n_levels,
            posterior=stored.choice("posterior", get_args(Posterior)),
        )


class _Values(NamedTuple):
    """Values of the entries in the order of a view."""

    view: View
    value: np.ndarray


def fit(
    observations: Observations,
    values: np.ndarray,
    validation: Cells | None = None,
    settings: Settings | None = None,
    verbose: bool = False,
) -> tuple[GaussianMF, list[Record]]:
    """Learn from the levels of a table.

    Parameters
    ----------
    observations : Observations
    values : (L,) array
        Value of each level, ascending, as in 1, 2, 3, 4, 5.
    settings : Settings, optional
    validation, verbose
        See :func:`~ordinalrbm.matrix.baselines.learning.learn`.

    Returns
    -------
    model : GaussianMF
    history : list of Record

    Examples
    --------
    >>> table = Observations.from_dense([[0, 2, -1], [0, -1, 1], [-1, 2, 1]] * 20, n_levels=3)
    >>> model, _ = fit(table, [1, 2, 3], settings=Settings(n_factors=1, n_epochs=5))
    >>> predict_mean(model, [0, 0], [0, 1]).round().tolist()
    [1.0, 3.0]
    """
    settings = settings or Settings()
    values = np.asarray(values, dtype=np.float64)
    if not (np.diff(values) > 0).all() or len(values) < observations.n_levels.max(initial=1):
        raise ValueError(
            f"values must ascend and give one number for each of the "
            f"{observations.n_levels.max(initial=1)} levels. Got {values} instead."
        )
    return learn(
        _epochs(observations, values, settings),
        validation, predict_proba, settings.n_epochs, settings.patience, verbose,
    )  # fmt: skip


def fold_in_rows(model: GaussianMF, observations: Observations) -> Effects:
    """Effects of new rows, the columns staying as they are.

    ``model._replace(rows=...)`` then predicts the cells of these rows.
    """
    view, _ = views(observations)
    rows = no_effects(observations.n_rows, model.rows.precision)
    entries = _Values(view, _standardised(model, observations.level))
    pull = _pull(entries, model.mean, rows, model.columns)[0]
    return improved(view, rows, model.columns, pull, model.noise, model.posterior)


def predict_mean(model: GaussianMF, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Expected value of some cells, kept within the columns' scales."""
    columns = index_of(columns)
    mean, _ = _predicted(model, rows, columns)
    return np.clip(mean, model.values[0], model.values[_n_levels(model, columns) - 1])


def predict_proba(model: GaussianMF, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(cells, L): probability of each level of some cells."""
    columns = index_of(columns)
    mean, deviation = _predicted(model, rows, columns)
    middles = 0.5 * (model.values[1:] + model.values[:-1])
    below = np.zeros((len(mean), len(model.values) + 1))
    below[:, 1:-1] = ndtr((middles - mean[:, None]) / deviation[:, None])
    # The highest level of a column reaches up to infinity.
    below[np.arange(below.shape[1]) >= _n_levels(model, columns)[:, None]] = 1.0
    return np.diff(below, axis=1)


def _predicted(
    model: GaussianMF, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the value of each cell."""
    mean, variance = cell_means(
        index_of(rows), columns, with_unknown(model.rows), with_unknown(model.columns)
    )
    deviation = model.scale * np.sqrt(model.noise + variance)
    return model.scale * (model.mean + mean), deviation


def _n_levels(model: GaussianMF, columns: np.ndarray) -> np.ndarray:
    """Number of levels of some columns; one that nobody has seen has all."""
    return np.append(model.n_levels, len(model.values))[columns]


def _epochs(
    observations: Observations, values: np.ndarray, settings: Settings
) -> Iterator[GaussianMF]:
    model = _initial(observations, values, settings)
    of_rows, of_columns = _entries(model, observations)
    while True:
        rows, columns, mean, noise = _half_sweep(
            of_rows, model.rows, model.columns, model.mean, model.noise, settings.posterior
        )
        columns, rows, mean, noise = _half_sweep(
            of_columns, columns, rows, mean, noise, settings.posterior
        )
        model = model._replace(rows=rows, columns=columns, mean=mean, noise=noise)
        yield model


def _initial(observations: Observations, values: np.ndarray, settings: Settings) -> GaussianMF:
    seen = values[observations.level]
    scale = float(seen.std()) if seen.size else 0.0
    scale = scale if scale > 0.0 else 1.0
    precision = settings.factor_precision or _FACTOR_PRECISION[settings.posterior]
    rows, columns = start_both(
        observations, settings.n_factors, settings.bias_precision, precision, settings.seed
    )
    return GaussianMF(
        rows=rows,
        columns=columns,
        mean=float(seen.mean()) / scale if seen.size else float(values.mean()) / scale,
        scale=scale,
        noise=1.0,
        values=values,
        n_levels=observations.n_levels,
        posterior=settings.posterior,
    )


def _standardised(model: GaussianMF, levels: np.ndarray) -> np.ndarray:
    return model.values[levels] / model.scale


def _entries(model: GaussianMF, observations: Observations) -> tuple[_Values, _Values]:
    by_rows, by_columns = views(observations)
    value = _standardised(model, observations.level)
    return _Values(by_rows, value), _Values(by_columns, value[observations.column_view.entry])


def _half_sweep(
    entries: _Values, this: Effects, other: Effects, mean: float, noise: float,
    posterior: Posterior,
) -> tuple[Effects, Effects, float, float]:  # fmt: skip
    """Renew one side, the common mean and the noise."""
    pull, variance = _pull(entries, mean, this, other)
    noise = max(float(np.mean(pull**2 + variance)), _LEAST_NOISE) if pull.size else noise
    this, other = half_sweep(entries.view, this, other, pull, noise, posterior)
    centred = this.mean.copy()
    centred[:, 0] -= this.mean[:, 0].mean()
    mean += float(this.mean[:, 0].mean())
    return this._replace(mean=centred), other, mean, noise


def _pull(
    entries: _Values, mean: float, this: Effects, other: Effects
) -> tuple[np.ndarray, np.ndarray]:
    """How far each value lies from its mean, and the variance of that mean."""
    of_cell, variance = cell_means(entries.view.this, entries.view.other, this, other)
    return entries.value - mean - of_cell, variance

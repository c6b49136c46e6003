"""Standard errors of rotated loadings, from how much each row's likelihood depends on them.

Near its fit the model is an ordinal factor model: u = Λ f + e with f of variance one, and
thresholds. The derivative of a row's log-likelihood by a loading is E[(u_i − μ_i) f_k | v], by
Fisher's identity, and by a threshold the density there; both come from mean-field and linear
response. Of a number u is known, and its scale and bias stand for thresholds; of a category the
derivative is E[(y − p) f_k | v] with y whether it was chosen and p how likely that was. The sum of
their squares over the rows is the information, and its inverse the covariance of what was
estimated. Turning all factors changes no likelihood, nor does moving all categories of a question
alike, so these directions are left out. The errors of rotated loadings are seen by rotating random
draws around the estimate. What background adds is taken for known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import NOMINAL, ORDINAL
from ordinalrbm.engine import normal_reference, thresholds
from ordinalrbm.engine.side import Side
from ordinalrbm.engine.thresholds import unknown_level
from ordinalrbm.stats import polychoric
from ordinalrbm.stats.rotation import Rotation
from ordinalrbm.vector.loadings import Population, Solution, contrasts, rotated_like, utility_spread
from ordinalrbm.vector.model import VectorModel, level_counts
from ordinalrbm.vector.posterior import IMPROBABLE, Component, mean_field
from ordinalrbm.vector.predict import factor_covariances

# With fewer rows than this per parameter the information is not known well enough to be inverted.
_ROWS_PER_PARAMETER = 2
_NUMBERS_AT_ONCE = 2**23
_N_DRAWS = 100
_NEGLIGIBLE = 1e-9  # information, relative to the largest; the model's parameters have unit scale


class LoadingErrors(NamedTuple):
    """Standard errors of the loadings (N, n) and of the factors' correlations (n, n)."""

    loadings: np.ndarray
    correlation: np.ndarray


class _Cells(NamedTuple):
    """Answers of some rows, and what the utility behind each does around the expected factors."""

    row: np.ndarray
    column: np.ndarray
    level: np.ndarray
    shift: np.ndarray  # E[u − μ | level]
    variance: np.ndarray  # Var[u | level]
    at_low: np.ndarray  # density at the thresholds below and above
    at_high: np.ndarray
    utility: np.ndarray  # of numbers that are known, else NaN


def loading_errors(
    model: VectorModel,
    this: Side,
    people: Population,
    solution: Solution,
    rotation: Rotation,
    *,
    gamma: float = 0.0,
    weight: np.ndarray | None = None,
    seed: int = 0,
) -> LoadingErrors | None:
    """Standard errors given the rows that were learnt from; None if these are too few.

    Rows may have weights, as a survey has them: then the errors are those of a sandwich.
    """
    weights = model.weights.astype(np.float64) @ people.root
    covariance = _covariance(model, this, people, weights, weight)
    if covariance is None:
        return None
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = np.random.default_rng(seed).normal(size=(_N_DRAWS, len(values))) @ root.T
    readable = contrasts(model, people.mean)
    drawn = [
        rotated_like(readable @ (weights + one.reshape(weights.shape)), solution, rotation, gamma)
        for one in noise
    ]
    return LoadingErrors(
        np.std([one.pattern for one in drawn], axis=0), np.std([one.correlation for one in drawn], axis=0)
    )


def _covariance(
    model: VectorModel, this: Side, people: Population, weights: np.ndarray, row_weight: np.ndarray | None
) -> np.ndarray | None:
    """Covariance of the estimated loadings before rotation, (N K, N K)."""
    first_threshold, n_parameters = _places(model)
    answered = np.diff(this.row_start) > 0
    row_weight = answered.astype(np.float64) if row_weight is None else row_weight * answered
    n_rows = row_weight.sum() ** 2 / max((row_weight**2).sum(), 1e-300)  # Kish's effective number
    if n_rows < _ROWS_PER_PARAMETER * n_parameters:
        return None
    bread, meat = np.zeros((2, n_parameters, n_parameters))
    size = max(1, _NUMBERS_AT_ONCE // n_parameters)
    for start in range(0, this.n_rows, size):
        stop = min(start + size, this.n_rows)
        scores = _scores(model, this.rows(start, stop), people, weights, first_threshold)
        weighted = scores * row_weight[start:stop, None]
        bread, meat = bread + weighted.T @ scores, meat + weighted.T @ weighted
    inverse = _inverse(bread, _idle(model, weights, first_threshold, n_parameters))
    # The inverse of an information from few rows is too large on average.
    correction = (n_rows - n_parameters - 1) / n_rows
    n_loadings = weights.size
    return correction * (inverse @ meat @ inverse)[:n_loadings, :n_loadings]


def _places(model: VectorModel) -> tuple[np.ndarray, int]:
    """Where each column's thresholds begin among the parameters, and how many there are.

    In their place a number has its scale and its bias, a category its bias.
    """
    plan = model.layout
    n_own = np.maximum(plan.n_levels.astype(np.intp) - 1, 0)
    n_own = np.where(plan.is_number, 2, np.where(plan.is_category, 1, n_own))
    ends = model.weights.size + np.cumsum(n_own)
    return ends - n_own, int(ends[-1])


def _scores(
    model: VectorModel, this: Side, people: Population, weights: np.ndarray, first_threshold: np.ndarray
) -> np.ndarray:
    """(rows, parameters) derivatives of each row's log-likelihood by loadings and thresholds."""
    n_parameters = _places(model)[1]
    total = np.zeros((this.n_rows, n_parameters))
    for component in mean_field(model, this).components:
        likely = component.weight > IMPROBABLE
        if likely.any():
            by_style = _scores_of_style(model, this, people, weights, first_threshold, component)
            total += by_style * np.where(likely, component.weight, 0.0)[:, None]
    return total


def _scores_of_style(
    model: VectorModel,
    this: Side,
    people: Population,
    weights: np.ndarray,
    first_threshold: np.ndarray,
    component: Component,
) -> np.ndarray:
    factors = component.state.factors
    styled = this._replace(stretch=component.state.stretch)
    n_rows, (n_columns, n_factors) = this.n_rows, weights.shape
    cells = _cells(model, styled, factors)
    # Of f = C^-½ (h − m): its mean, and its covariance times each question's loadings.
    standardise = people.inverse_root
    mean = (factors.astype(np.float64) - people.mean) @ standardise
    spread = np.zeros((n_rows, n_columns, n_factors))
    for rows, covariance in factor_covariances(model, styled, factors):
        spread[rows] = weights @ standardise @ covariance @ standardise
    by_loading = np.zeros((n_rows, n_columns, n_factors))
    by_loading[cells.row, cells.column] = (
        cells.shift[:, None] * mean[cells.row]
        + (cells.variance - 1.0)[:, None] * spread[cells.row, cells.column]
    )
    first_threshold = first_threshold - weights.size
    by_threshold = _by_threshold(model, styled, cells, first_threshold)
    if model.kind.size:
        by_category = _by_category(model, styled, factors)
        for columns, apart, share in by_category:
            middle = np.einsum("rl,rlk->rk", share, spread[:, columns])
            moved = share[:, :, None] * (spread[:, columns] - middle[:, None])
            there = np.isfinite(apart[:, :1, None])
            by_loading[:, columns] = np.where(there, apart[:, :, None] * mean[:, None] - moved, 0.0)
            by_threshold[:, first_threshold[columns]] = np.nan_to_num(apart)
    return np.concatenate([by_loading.reshape(n_rows, -1), by_threshold], axis=1)


def _by_category(
    model: VectorModel, this: Side, factors: np.ndarray
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Of each nominal question its columns, (rows, C) choice less share, NaN if unknown; shares."""
    plan = model.layout
    first, last = this.row_start[0], this.row_start[-1]
    row = np.repeat(np.arange(this.n_rows), np.diff(this.row_start))
    column, known = this.column[first:last], this.known[first:last]
    mean = model.bias + factors.astype(np.float64) @ model.weights.T
    if this.offset.size:
        mean[row, column] += this.offset[first:last]
    for question in np.flatnonzero(plan.kind == NOMINAL).tolist():
        columns = plan.columns(question)
        chosen = np.full((this.n_rows, columns.stop - columns.start), np.nan)
        own = (column >= columns.start) & (column < columns.stop)
        chosen[row[own], column[own] - columns.start] = known[own]
        share = softmax(mean[:, columns], axis=1)
        yield columns, chosen - share, share


def _by_threshold(model: VectorModel, this: Side, cells: _Cells, first_threshold: np.ndarray) -> np.ndarray:
    plan = model.layout
    n_thresholds = np.where(plan.is_number | plan.is_category, 0, plan.n_levels.astype(np.intp) - 1)
    found = np.zeros((this.n_rows, _places(model)[1] - model.weights.size))
    stretch = this.stretch[cells.row] if this.stretch.size else np.ones(cells.row.size)
    has_upper = cells.level < n_thresholds[cells.column]  # false of unknown answers
    has_lower = (cells.level > 0) & (cells.level <= n_thresholds[cells.column])
    place = first_threshold[cells.column] + cells.level
    found[cells.row[has_upper], place[has_upper]] = (stretch * cells.at_high)[has_upper]
    found[cells.row[has_lower], place[has_lower] - 1] = -(stretch * cells.at_low)[has_lower]
    number = np.flatnonzero(~np.isnan(cells.utility))
    row, place = cells.row[number], first_threshold[cells.column[number]]
    found[row, place] = 1.0 - cells.shift[number] * cells.utility[number]
    found[row, place + 1] = cells.shift[number]
    return found


def _cells(model: VectorModel, this: Side, factors: np.ndarray) -> _Cells:
    first, last = this.row_start[0], this.row_start[-1]
    row = np.repeat(np.arange(this.n_rows), np.diff(this.row_start))
    column, level = this.column[first:last], this.level[first:last].astype(np.intp)
    mean = (model.bias + factors.astype(np.float64) @ model.weights.T)[row, column]
    if this.shift.size:
        mean = mean + this.shift[first:last]
    plan = model.layout
    utility = np.full(row.size, np.nan)
    is_number = plan.is_number[column]
    if is_number.any():
        scale = this.thresholds[column[is_number], 1]
        utility[is_number] = scale * this.known[first:last][is_number]
    # Only scales have intervals; unknown numbers and all categories have the whole line.
    level = np.where(is_number | plan.is_category[column], unknown_level(this.thresholds), level)
    stretch = this.stretch[row] if this.stretch.size else 1.0
    low = stretch * this.thresholds[column, level] - mean
    high = stretch * this.thresholds[column, level + 1] - mean
    shift = normal_reference.truncated_mean(low, high)
    variance = normal_reference.truncated_variance(low, high)
    is_known = ~np.isnan(utility)
    return _Cells(
        row,
        column,
        level,
        np.where(is_known, utility - mean, shift),
        np.where(is_known, 0.0, variance),
        *normal_reference.edge_densities(low, high),
        utility,
    )


def _idle(
    model: VectorModel, weights: np.ndarray, first_threshold: np.ndarray, n_parameters: int
) -> np.ndarray:
    """(parameters, directions) along which no likelihood changes."""
    n_factors = weights.shape[1]
    idle = [_turned(weights, a, b, n_parameters) for a, b in _pairs(n_factors)]
    for question in np.flatnonzero(model.kind == NOMINAL).tolist():
        columns = np.arange(len(weights))[model.layout.columns(question)]
        for places in [*(columns * n_factors + k for k in range(n_factors)), first_threshold[columns]]:
            direction = np.zeros(n_parameters)
            direction[places] = 1.0
            idle.append(direction)
    return np.stack(idle, axis=1) if idle else np.zeros((n_parameters, 0))


def _inverse(information: np.ndarray, idle: np.ndarray) -> np.ndarray:
    """The inverse among what can be known: not what is idle, nor levels unused."""
    n_parameters = len(information)
    known = np.diag(information) > _NEGLIGIBLE * np.diag(information).max()
    basis = np.eye(n_parameters)[:, known]
    orthogonal, _ = np.linalg.qr(basis.T @ idle, mode="complete")
    basis = basis @ orthogonal[:, idle.shape[1] :]
    inner = basis.T @ information @ basis
    scale = np.sqrt(np.diag(inner))
    values, vectors = np.linalg.eigh(inner / np.outer(scale, scale))
    half = basis @ (vectors / scale[:, None]) / np.sqrt(np.maximum(values, _NEGLIGIBLE))
    return half @ half.T


def _pairs(count: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(count) for b in range(a)]


def _turned(weights: np.ndarray, a: int, b: int, n_parameters: int) -> np.ndarray:
    """How loadings begin to change when two factors are turned into each other."""
    change = np.zeros_like(weights)
    change[:, a], change[:, b] = weights[:, b], -weights[:, a]
    direction = np.zeros(n_parameters)
    direction[: weights.size] = change.ravel()
    return direction


# ---- how much the prior has drawn loadings towards zero, by the correlations of the answers ------


# More rows hardly say it better, and tables of more columns take long.
_ENOUGH_ROWS, _MOST_COLUMNS = 10_000, 2_000
# Standard errors that are more than chance.
_CLEARLY = 2.0


class Attenuation(NamedTuple):
    """Answers' correlations over the model's: the factor between the two, and its error."""

    ratio: float
    error: float

    @property
    def kept(self) -> float:
        """What is left of a loading: one if nothing is clearly lost."""
        return self.ratio**-0.5 if self.ratio > 1.0 + _CLEARLY * self.error else 1.0


def attenuation(model: VectorModel, people: Population, answers: Observations) -> Attenuation:
    """Compare correlations of ordered questions with those that the model would have."""
    if answers.n_rows > _ENOUGH_ROWS:
        answers = answers.take_rows(np.arange(_ENOUGH_ROWS))
    ordinal = np.arange(answers.n_columns)
    kind = answers.kind
    if kind.size:
        ordinal = np.flatnonzero(kind == ORDINAL)
        levels = answers.to_dense()[:, ordinal]
        answers = Observations.from_dense(levels, answers.n_levels[ordinal])
    if not 1 < ordinal.size <= _MOST_COLUMNS:
        return Attenuation(1.0, np.inf)
    n_levels = answers.n_levels
    cutpoints = thresholds.at_marginals(level_counts(answers), n_levels)
    found = polychoric.polychoric(answers, thresholds.table(cutpoints, n_levels))
    # Each pair was counted with some uncorrelated answers more, which few common rows feel.
    more = polychoric.prior_answers(n_levels[:, None], n_levels[None, :])
    seen = found.correlation * (1.0 + more / np.maximum(found.common, 1))
    rows = np.triu(polychoric.effective_rows(found), 1)
    implied = _implied(model, people, ordinal)
    weight = float((rows * implied**2).sum())
    if weight <= 0.0:
        return Attenuation(1.0, np.inf)
    return Attenuation(float((rows * implied * seen).sum()) / weight, weight**-0.5)


def _implied(model: VectorModel, people: Population, ordinal: np.ndarray) -> np.ndarray:
    """Correlations of the utilities of these questions by the model."""
    own = model.layout.first[ordinal]
    weights = model.weights[own].astype(np.float64) @ people.root
    standardised = weights / utility_spread(weights)[:, None]
    return standardised @ standardised.T

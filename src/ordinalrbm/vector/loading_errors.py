"""Standard errors of rotated loadings, from how much each row's likelihood depends on them.

Near its fit the model is an ordinal factor model: u = Λ f + e with f of variance one, and thresholds. The
derivative of a row's log-likelihood by a loading is E[(u_i − μ_i) f_k | v], by Fisher's identity, and by a
threshold the density there; both come from mean-field and linear response. Of a number u is known, and its
scale and bias stand for thresholds; of a category the derivative is E[(y − p) f_k | v] with y whether it was
chosen and p how likely that was. The sum of their squares over the rows is the information, and its inverse
the covariance of what was estimated. Turning all factors changes no likelihood, nor does moving all
categories of a question alike, so these directions are left out. The errors of rotated loadings are seen by
rotating random draws around the estimate. What background adds is taken for known.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations, count_levels
from ordinalrbm.data.questionnaire import ORDINAL
from ordinalrbm.engine import normal_reference, thresholds
from ordinalrbm.engine.side import Side
from ordinalrbm.stats import polychoric
from ordinalrbm.stats.design import Sample
from ordinalrbm.vector.loadings import Population, Solution, contrasts, rotated_like, utility_spread
from ordinalrbm.vector.model import VectorModel
from ordinalrbm.vector.posterior import IMPROBABLE, State, mean_field
from ordinalrbm.vector.predict import Intervals, category_answers, factor_covariances, intervals

# With fewer rows than this per parameter the information is not known well enough to be inverted.
_ROWS_PER_PARAMETER = 2
_NUMBERS_AT_ONCE = 2**23
_N_DRAWS = 100
_NEGLIGIBLE = 1e-9  # information, relative to the largest; the model's parameters have unit scale


class LoadingErrors(NamedTuple):
    """Standard errors of the loadings (N, n) and of the factors' correlations (n, n)."""

    loadings: np.ndarray
    correlation: np.ndarray


def loading_errors(
    model: VectorModel,
    this: Side,
    people: Population,
    solution: Solution,
    *,
    weight: np.ndarray | None = None,
    sample: Sample | None = None,
) -> LoadingErrors | None:
    """Standard errors given the rows that were learnt from; None if these are too few.

    Rows may have weights, as a survey has them: then the errors are those of a sandwich. Between
    two slices of it come the scores of rows, summed over clusters, or by replicate weights, where
    these are from a ``sample``, which has the weights as well.
    """
    weights = model.weights.astype(np.float64) @ people.root
    weight = weight if sample is None else sample.weight
    covariance = _covariance(model, this, people, weights, weight, sample)
    if covariance is None:
        return None
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = np.random.default_rng(0).normal(size=(_N_DRAWS, len(values))) @ root.T
    readable = contrasts(model, people.mean)
    drawn = [rotated_like(readable @ (weights + one.reshape(weights.shape)), solution) for one in noise]
    return LoadingErrors(
        np.std([one.pattern for one in drawn], axis=0), np.std([one.correlation for one in drawn], axis=0)
    )


def _covariance(
    model: VectorModel,
    this: Side,
    people: Population,
    weights: np.ndarray,
    row_weight: np.ndarray | None,
    sample: Sample | None = None,
) -> np.ndarray | None:
    first_own, n_parameters = _first_own_parameters(model)
    answered = np.diff(this.row_start) > 0
    row_weight = answered.astype(np.float64) if row_weight is None else row_weight * answered
    n_rows = row_weight.sum() ** 2 / max((row_weight**2).sum(), 1e-300)  # Kish's effective number
    if n_rows < _ROWS_PER_PARAMETER * n_parameters:
        return None
    bread, meat = np.zeros((2, n_parameters, n_parameters))
    totals: np.ndarray | float = 0.0
    size = max(1, _NUMBERS_AT_ONCE // n_parameters)
    for start in range(0, this.n_rows, size):
        stop = min(start + size, this.n_rows)
        scores = _scores(model, this.rows(start, stop), people, weights)
        weighted = scores * row_weight[start:stop, None]
        bread = bread + weighted.T @ scores
        if sample is None:
            meat = meat + weighted.T @ weighted
        else:
            totals = totals + sample.take(slice(start, stop)).totals(scores)
    if sample is not None:
        apart = sample.deviations(np.asarray(totals))
        meat = apart.T @ apart
    inverse = _inverse(bread, _idle(model, weights, first_own, n_parameters))
    # The inverse of an information from few rows is too large on average.
    correction = (n_rows - n_parameters - 1) / n_rows
    n_loadings = weights.size
    return correction * (inverse @ meat @ inverse)[:n_loadings, :n_loadings]


def _first_own_parameters(model: VectorModel) -> tuple[np.ndarray, int]:
    """Where each column's thresholds begin among the parameters, and how many parameters there are.

    Instead of thresholds a number has its scale and its bias, a category its bias.
    """
    plan = model.layout
    n_own = np.maximum(plan.n_levels.astype(np.intp) - 1, 0)
    n_own = np.where(plan.is_number, 2, np.where(plan.is_category, 1, n_own))
    ends = model.weights.size + np.cumsum(n_own)
    return ends - n_own, int(ends[-1])


def _scores(model: VectorModel, this: Side, people: Population, weights: np.ndarray) -> np.ndarray:
    """(rows, parameters) derivatives of each row's log-likelihood by loadings and thresholds."""
    total = np.zeros((this.n_rows, _first_own_parameters(model)[1]))
    for state, weight, _ in mean_field(model, this).components:
        likely = weight > IMPROBABLE
        if likely.any():
            by_style = _scores_of_style(model, this, people, weights, state)
            total += by_style * np.where(likely, weight, 0.0)[:, None]
    return total


def _scores_of_style(
    model: VectorModel, this: Side, people: Population, weights: np.ndarray, state: State
) -> np.ndarray:
    factors, this = state.factors, this._replace(stretch=state.stretch)
    n_rows, (n_columns, n_factors) = this.n_rows, weights.shape
    at = intervals(model, this, factors)
    utility = _known_utilities(model, this, at.column)
    is_known = ~np.isnan(utility)
    shift = np.where(is_known, utility - at.mean, normal_reference.truncated_mean(at.low, at.high))
    variance = np.where(is_known, 0.0, normal_reference.truncated_variance(at.low, at.high))
    # Of f = C^-½ (h − m): its mean, and its covariance times each question's loadings.
    standardise = people.inverse_root
    mean = (factors.astype(np.float64) - people.mean) @ standardise
    spread = np.zeros((n_rows, n_columns, n_factors))
    for rows, covariance in factor_covariances(model, this, factors):
        spread[rows] = weights @ standardise @ covariance @ standardise
    by_loading = np.zeros((n_rows, n_columns, n_factors))
    by_loading[at.row, at.column] = (
        shift[:, None] * mean[at.row] + (variance - 1.0)[:, None] * spread[at.row, at.column]
    )
    first_own = _first_own_parameters(model)[0] - weights.size
    by_threshold = _by_threshold(model, this, at, shift, utility)
    for columns, _, chosen, share in category_answers(model, this, factors) if model.kind.size else ():
        apart = chosen - share
        middle = np.einsum("rl,rlk->rk", share, spread[:, columns])
        moved = share[:, :, None] * (spread[:, columns] - middle[:, None])
        there = np.isfinite(apart[:, :1, None])
        by_loading[:, columns] = np.where(there, apart[:, :, None] * mean[:, None] - moved, 0.0)
        by_threshold[:, first_own[columns]] = np.nan_to_num(apart)
    return np.concatenate([by_loading.reshape(n_rows, -1), by_threshold], axis=1)


def _known_utilities(model: VectorModel, this: Side, column: np.ndarray) -> np.ndarray:
    """Utility of each answer that is a known number, else NaN."""
    utility = np.full(column.size, np.nan)
    is_number = model.layout.is_number[column]
    if is_number.any():
        known = this.known[this.row_start[0] : this.row_start[-1]]
        utility[is_number] = this.thresholds[column[is_number], 1] * known[is_number]
    return utility


def _by_threshold(
    model: VectorModel, this: Side, at: Intervals, shift: np.ndarray, utility: np.ndarray
) -> np.ndarray:
    """(rows, thresholds) derivatives; of a number by its scale and its bias."""
    plan = model.layout
    first_own, n_parameters = _first_own_parameters(model)
    first_own = first_own - model.weights.size
    n_thresholds = np.where(plan.is_number | plan.is_category, 0, plan.n_levels.astype(np.intp) - 1)
    found = np.zeros((this.n_rows, n_parameters - model.weights.size))
    at_low, at_high = normal_reference.edge_densities(at.low, at.high)
    stretch = this.stretch[at.row] if this.stretch.size else np.ones(at.row.size)
    has_upper = at.level < n_thresholds[at.column]  # false of unknown answers
    has_lower = (at.level > 0) & (at.level <= n_thresholds[at.column])
    above = first_own[at.column] + at.level
    found[at.row[has_upper], above[has_upper]] = (stretch * at_high)[has_upper]
    found[at.row[has_lower], above[has_lower] - 1] = -(stretch * at_low)[has_lower]
    number = np.flatnonzero(~np.isnan(utility))
    row, scale = at.row[number], first_own[at.column[number]]
    found[row, scale] = 1.0 - shift[number] * utility[number]
    found[row, scale + 1] = shift[number]
    return found


def _idle(model: VectorModel, weights: np.ndarray, first_own: np.ndarray, n_parameters: int) -> np.ndarray:
    """(parameters, directions) along which no likelihood changes."""
    n_factors = weights.shape[1]
    idle = []
    for a, b in combinations(range(n_factors), 2):
        # How loadings begin to change when two factors are turned into each other.
        change = np.zeros_like(weights)
        change[:, a], change[:, b] = weights[:, b], -weights[:, a]
        idle.append(np.concatenate([change.ravel(), np.zeros(n_parameters - weights.size)]))
    for _, part in model.layout.nominal:
        columns = np.arange(part.start, part.stop)
        for alike in [*(columns * n_factors + k for k in range(n_factors)), first_own[columns]]:
            direction = np.zeros(n_parameters)
            direction[alike] = 1.0
            idle.append(direction)
    return np.stack(idle, axis=1) if idle else np.zeros((n_parameters, 0))


def _inverse(information: np.ndarray, idle: np.ndarray) -> np.ndarray:
    """The inverse among what can be known: not what is idle, nor levels unused."""
    n_parameters = len(information)
    basis = np.eye(n_parameters)[:, np.diag(information) > _NEGLIGIBLE * np.diag(information).max()]
    orthogonal, _ = np.linalg.qr(basis.T @ idle, mode="complete")
    basis = basis @ orthogonal[:, idle.shape[1] :]
    inner = basis.T @ information @ basis
    scale = np.sqrt(np.diag(inner))
    values, vectors = np.linalg.eigh(inner / np.outer(scale, scale))
    half = basis @ (vectors / scale[:, None]) / np.sqrt(np.maximum(values, _NEGLIGIBLE))
    return half @ half.T


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
        answers = Observations.from_dense(answers.to_dense()[:, ordinal], answers.n_levels[ordinal])
    if not 1 < ordinal.size <= _MOST_COLUMNS:
        return Attenuation(1.0, np.inf)
    n_levels = answers.n_levels
    cutpoints = thresholds.at_marginals(count_levels(answers), n_levels)
    found = polychoric.polychoric(answers, thresholds.table(cutpoints, n_levels))
    # Each pair was counted with some uncorrelated answers more, which few common rows feel.
    more = polychoric.prior_answers(n_levels[:, None], n_levels[None, :])
    seen = found.correlation * (1.0 + more / np.maximum(found.common, 1))
    rows = np.triu(polychoric.effective_rows(found), 1)
    implied = implied_correlations(model, people, ordinal)
    weight = float((rows * implied**2).sum())
    if weight <= 0.0:
        return Attenuation(1.0, np.inf)
    return Attenuation(float((rows * implied * seen).sum()) / weight, weight**-0.5)


def implied_correlations(model: VectorModel, people: Population, ordinal: np.ndarray) -> np.ndarray:
    """Correlations of the utilities of these questions by the model; on the diagonal communalities."""
    weights = model.weights[model.layout.first[ordinal]].astype(np.float64) @ people.root
    standardised = weights / utility_spread(weights)[:, None]
    return standardised @ standardised.T

"""Where slopes by background start: ridge regressions of each column, then shared with the factors.

What a covariate adds to a scale or a number is a probit or linear regression with a normal prior on
its slopes; for categories it is a multinomial one. The first two need a few Newton steps, of which
the first is nearly there. What of it the factors can explain is then given to their biases, as much
as the priors of both find likely.
"""

import numpy as np
from scipy.special import softmax

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import normal_reference
from ordinalrbm.vector.model import LOGISTIC_OF_NORMAL, Layout

_NEWTON_STEPS = 3
_CATEGORY_STEPS = 25
# Factors that answer without limit to what they take in are not believed in.
_LARGEST_RESPONSE = 0.98
# Without a prior, of covariates that are indicators one is superfluous.
_SMALLEST_PRECISION = 1e-3


def column_slopes(
    levels: Observations,
    known: np.ndarray,
    bounds: np.ndarray,
    plan: Layout,
    covariates: np.ndarray,
    precision: float,
) -> np.ndarray:
    """Return (columns, P) slopes of each column's answers by the covariates (rows, P) of their rows.

    Answers are by columns, numbers as levels too, with the numbers themselves in ``known`` (NaN of
    others); ``bounds`` are those of the levels, for utilities of variance one in all; ``precision`` is
    that of the prior on the slopes. The slopes are of utilities that have variance one given the
    covariates; of categories they are of the logarithms of their odds.
    """
    view = levels.column_view
    x = covariates.astype(np.float64)
    slopes = np.zeros((levels.n_columns, x.shape[1]))
    precision = max(precision, _SMALLEST_PRECISION)
    for i in np.flatnonzero(~plan.is_category).tolist():
        part = slice(view.column_start[i], view.column_start[i + 1])
        entry, own = view.entry[part], x[view.row[part]]
        if entry.size:
            slopes[i] = _of_scale(levels.level[entry], known[entry], bounds[i], own, precision)
    for _, columns in plan.nominal:
        # A row has all categories of a question or none: those of the first have all.
        part = slice(view.column_start[columns.start], view.column_start[columns.start + 1])
        rows = view.row[part]
        chosen = np.zeros((levels.n_rows, columns.stop - columns.start))
        for category in range(chosen.shape[1]):
            i = columns.start + category
            here = slice(view.column_start[i], view.column_start[i + 1])
            chosen[view.row[here], category] = levels.level[view.entry[here]]
        if rows.size:
            slopes[columns] = _of_categories(chosen[rows], x[rows], precision)
    return slopes


def _of_scale(
    level: np.ndarray, number: np.ndarray, bounds: np.ndarray, x: np.ndarray, precision: float
) -> np.ndarray:
    """(P,) slopes of one column, by Newton's steps with the mean information of an answer."""
    is_number = not np.isnan(number).any()
    squares = x.T @ x
    slopes = np.zeros(x.shape[1])
    level = level.astype(np.intp)
    for _ in range(1 if is_number else _NEWTON_STEPS):
        shift = x @ slopes
        if is_number:
            beyond, information = number - number.mean(), 1.0
        else:
            scale = np.sqrt(1.0 + shift.var())
            low, high = scale * bounds[level] - shift, scale * bounds[level + 1] - shift
            beyond = normal_reference.truncated_mean(low, high)
            # The variance of what answers tell of the utility, of which the whole is one.
            information = max(float(beyond.var()), 0.05)
        step = np.linalg.solve(
            information * squares + precision * np.eye(slopes.size),
            x.T @ (beyond - beyond.mean()) - precision * slopes,
        )
        slopes = slopes + step
    if is_number:  # in units of what is left
        left = max(1.0 - float((x @ slopes).var()), 0.05)
        slopes = slopes / np.sqrt(left)
    return slopes


def _of_categories(chosen: np.ndarray, x: np.ndarray, precision: float) -> np.ndarray:
    """(C, P) slopes of the log odds, by steps that cannot go too far (Böhning 1992)."""
    n_categories = chosen.shape[1]
    share = (chosen.sum(axis=0) + 0.5) / (len(chosen) + 0.5 * n_categories)
    slopes = np.zeros((n_categories, x.shape[1]))
    curvature = 0.5 * x.T @ x + precision * np.eye(x.shape[1])
    for _ in range(_CATEGORY_STEPS):
        expected = softmax(np.log(share) + x @ slopes.T, axis=1)
        uphill = (chosen - expected).T @ x - precision * slopes
        slopes += np.linalg.solve(curvature, uphill.T).T
    return slopes


def shared(
    slopes: np.ndarray,
    weights: np.ndarray,
    variance: np.ndarray,
    n_informed: np.ndarray,
    units: int,
    precision: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return what of the slopes (N', P) stays with the columns, and what goes to the biases of factors.

    ``variance`` (N',) is that of what a column tells the factors, given these, and ``n_informed``
    (N', P) the sum of squares of the covariates over the rows that answer.
    """
    n_factors = weights.shape[1]
    # By how much a column moves with the bias of a factor.
    moved = weights @ factor_covariance(weights, variance, units)
    trusted = n_informed / (n_informed + max(precision, _SMALLEST_PRECISION))
    of_factors = np.empty((n_factors, slopes.shape[1]))
    for p in range(slopes.shape[1]):
        trust = trusted[:, p, None] * moved
        of_factors[:, p] = np.linalg.solve(
            moved.T @ trust + units * np.eye(n_factors), trust.T @ slopes[:, p]
        )
    return slopes - moved @ of_factors, of_factors


def factor_covariance(weights: np.ndarray, variance: np.ndarray, units: int) -> np.ndarray:
    """(K, K) covariance of the factors among people with the same background, about."""
    taken_in = np.sqrt(variance)[:, None] * weights
    values, vectors = np.linalg.eigh(0.25 * units * taken_in.T @ taken_in)
    response = 1.0 / (1.0 - np.minimum(values, _LARGEST_RESPONSE))
    return 0.25 * units * (vectors * response) @ vectors.T


def category_spread(
    weights: np.ndarray, share: np.ndarray, covariance: np.ndarray, plan: Layout
) -> np.ndarray:
    """(N',) by how much log odds of categories are larger given the factors than without them.

    Those of a category against the others vary among people; over a normal distribution of them, a
    slope is smaller by the root of 1 + their variance, in units of the logistic distribution.
    """
    found = np.ones(len(weights))
    for _, own in plan.nominal:
        chance = share[own] / share[own].sum()
        apart = (weights[own] - chance @ weights[own]) / np.maximum(1.0 - chance, 1e-6)[:, None]
        variance = ((apart @ covariance) * apart).sum(axis=1)
        found[own] = np.sqrt(1.0 + LOGISTIC_OF_NORMAL * variance)
    return found

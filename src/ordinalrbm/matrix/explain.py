"""What speaks for an item: the user's ratings, and the factors of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import linalg
from scipy.sparse import csr_array
from scipy.special import expit, logit, ndtr

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.gaussian_state import FactorPosterior
from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.engine.normal_reference import truncated_mean, truncated_variance
from ordinalrbm.engine.rated_sets import FEW
from ordinalrbm.matrix.draws import Draws
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.model import MatrixModel, row_side
from ordinalrbm.matrix.multinomial import MultinomialModel
from ordinalrbm.matrix.predict import Model, bounds, probabilities, utilities
from ordinalrbm.vector.posterior import MAX_ITERATIONS, TOLERANCE

_NEXT_TO = 1e-4  # a difference of utilities, or a share, that is small


@dataclass(frozen=True)
class Explanation:
    """Why a user is expected to give an item this rating.

    Attributes
    ----------
    expected : float
        The expected rating, given all other ratings of the user.
    ratings : DataFrame
        The user's ratings with the largest effect: item, rating, and by how much the expected
        rating would be lower without it (negative: higher).
    baseline : float
        The prediction for a user without ratings, and with the same features.
    factors : DataFrame
        The factors with the largest contribution to the mean utility, whose standard deviation is
        one: which, its value (a probability if factors are binary), and the contribution. Where
        users and items both have factors of their own, also of whom ("user" or "item").

    Examples
    --------
    >>> print(Explanation(3.5, pd.DataFrame({"item": ["tea"], "rating": [5], "effect": [0.25]}),
    ...                   pd.DataFrame({"of": ["user"], "factor": [0], "contribution": [0.1]})))
    Expected rating 3.5.
    Ratings that speak for it (+) or against it (-):
    item  rating  effect
     tea       5    0.25
    Factors, in units of the utility's standard deviation:
      of  factor  contribution
    user       0           0.1
    """

    expected: float
    ratings: pd.DataFrame
    factors: pd.DataFrame
    baseline: float = np.nan

    def __str__(self) -> str:
        without = ""
        if not np.isnan(self.baseline):
            without = f" ({self.baseline:.3g} for a user without ratings)"
        return (
            f"Expected rating {self.expected:.3g}{without}.\n"
            "Ratings that speak for it (+) or against it (-):\n"
            f"{self.ratings.to_string(index=False)}\n"
            "Factors, in units of the utility's standard deviation:\n"
            f"{self.factors.to_string(index=False)}"
        )


def adding_up(effects: np.ndarray, whole: float) -> np.ndarray:
    """The effects, such that they add up to the whole; what is missing is shared by their sizes.

    Regressions start at the middle of the prior, with what is not known of this row. Predictions
    for a row without answers know less, and more: how others have answered for the column.
    """
    size = np.abs(effects)
    if not size.any():
        return effects
    return effects + (whole - effects.sum()) * size / size.sum()


def rating_effects(
    model: Model, row: int, column: int, columns: np.ndarray, levels: np.ndarray, worth: np.ndarray,
    line: csr_array | None = None,
    *,
    is_answered: bool = False,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """Expected worth of a cell, and what each of the row's answers adds to it.

    ``columns`` and ``levels`` are the row's answers but for one to the cell itself, if it
    ``is_answered``. ``line`` is the row's line of the table of features, if there is one. The cost
    is linear in the answers.
    """
    if isinstance(model, GaussianModel):
        return _gaussian_effects(model, row, column, columns, levels, worth, line, is_answered)
    if isinstance(model, MultinomialModel):
        copies: Model = _multinomial_copies(model, columns, levels)
    else:
        copies = _binary_copies(model, row, columns, levels)
    each = probabilities([copies], _cells_of(column, 1 + columns.size))
    worths = each[:, : worth.size] @ worth
    return float(worths[0]), worths[0] - worths[1:]


def _gaussian_effects(
    model: GaussianModel, row: int, column: int, columns: np.ndarray, levels: np.ndarray,
    worth: np.ndarray, line: csr_array | None, is_answered: bool,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """The row's bias and factors are a regression of its utilities, which answers add up in.

    All of them together move the mean utility of the cell from what features alone expect, and the
    worth of a utility is taken as linear between the two.
    """
    prior = model.row_prior
    target = _regressors(model, np.array([column]))[1][0]
    biases, regressors = _regressors(model, columns)
    doubt = model.columns.variance[columns].sum(axis=0, dtype=np.float64)
    doubt[0] = 0.0
    free = np.isfinite(prior.precision)
    system = regressors[:, free].T @ regressors[:, free]
    system += np.diag(prior.precision[free] + doubt[free])
    along = np.zeros(target.size)
    # Precisions may differ by many powers of ten, which says nothing about the solution.
    size = 1.0 / np.sqrt(np.diag(system))
    along[free] = size * linalg.solve(
        system * size * size[:, None], size * target[free], assume_a="pos"
    )

    before = _expected_without_answers(model, line)
    utility = _expected_utilities(model, row, columns, levels) - biases
    parts = (regressors @ along) * (utility - regressors @ before)
    if prior.weights.each.shape[1]:  # that it was rated at all
        length = 1.0 / np.sqrt(columns.size + FEW)
        pull = prior.weights.each[columns].astype(np.float64) * length
        parts += pull[:, free] @ (prior.precision[free] * along[free])
    now = model.rows.mean[row].astype(np.float64)
    after, start = now @ target, before @ target
    if is_answered:  # as if it were not; what the others add stays
        after = start + parts.sum()
    # Learning stops before the regression is solved to the last digit: the small rest is shared.
    size = np.abs(parts)
    parts += (after - start - parts.sum()) * size / max(size.sum(), _NEXT_TO)
    expected, at_first = _worth_at(model, row, column, np.array([after, start]), worth)
    slope = (expected - at_first) / (after - start) if abs(after - start) > _NEXT_TO else 0.0
    if not slope:
        near = _worth_at(model, row, column, after + np.array([-_NEXT_TO, _NEXT_TO]), worth)
        slope = (near[1] - near[0]) / (2.0 * _NEXT_TO)
    return float(expected), slope * parts


def _regressors(model: GaussianModel, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Biases of columns, and what a row's own bias and factors meet in them."""
    found = model.columns.mean[columns].astype(np.float64)
    biases = found[:, 0].copy()
    found[:, 0] = 1.0
    return biases, found


def _expected_without_answers(model: GaussianModel, line: csr_array | None) -> np.ndarray:
    """(1 + F,) where a row with these features is expected."""
    none = np.zeros(0, dtype=np.int32)
    row = Observations.from_triples(none, none, none, 1, model.n_columns, model.n_levels)
    expected = model.row_prior.expected(row, line)[0].astype(np.float64)
    return expected if expected.size else np.zeros(model.row_prior.precision.size)


def _expected_utilities(
    model: GaussianModel, row: int, columns: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """(answers,) mean of each utility, given its level and what is known of row and column."""
    if model.values.size:
        return model.values[levels].astype(np.float64)
    cells = Cells(np.full(columns.size, row), columns, levels)
    mean, (low, high) = utilities(model, cells).base, bounds(model, cells)
    return mean + truncated_mean(low - mean, high - mean)


def _worth_at(
    model: GaussianModel, row: int, column: int, means: np.ndarray, worth: np.ndarray
) -> np.ndarray:
    """Expected worth of a cell whose mean utility is each of these, plus the column's bias."""
    rows = FactorPosterior(*(_repeated(part, row, means.size) for part in model.rows))
    now = rows.mean[0].astype(np.float64) @ _regressors(model, np.array([column]))[1][0]
    rows.mean[:, 0] += (means - now).astype(np.float32)
    found = probabilities([model._replace(rows=rows)], _cells_of(column, means.size))
    return found[:, : worth.size] @ worth


def _binary_copies(
    model: MatrixModel, row: int, columns: np.ndarray, levels: np.ndarray
) -> MatrixModel:
    """The row with all these answers, and again without each of them; its own parameters stay.

    Factors and utilities lean on each other: what leaving out an answer does to the factors is
    their linear response at the fixed point.
    """
    one = Observations(np.array([0, columns.size]), columns, levels, model.n_levels)
    alone = _copies_of_row(model, row, np.full((1, model.by_rows.n_factors), 0.5))
    alone.by_rows.factors[:] = expected_factors(alone, one)
    cells = Cells(np.zeros(columns.size, dtype=np.intp), columns, levels)
    found, (low, high) = utilities(alone, cells), bounds(alone, cells)
    mean = found.base + found.by_rows + found.by_columns
    away = truncated_mean(low - mean, high - mean)
    moves = truncated_variance(low - mean, high - mean)  # the expected utility, with its mean
    weights = model.by_rows.weights[columns].astype(np.float64)
    factors = alone.by_rows.factors[0].astype(np.float64)
    response = np.eye(factors.size) - (weights.T * moves) @ weights * (factors * (1.0 - factors))
    activation = logit(np.clip(factors, _NEXT_TO, 1.0 - _NEXT_TO))
    lost = linalg.solve(response, (weights * (mean + away)[:, None]).T).T
    return _copies_of_row(model, row, expit(np.vstack([activation, activation - lost])))


def expected_factors(model: MatrixModel, answers: Observations) -> np.ndarray:
    """(rows, K) posterior probabilities of rows with these answers, by mean field."""
    side = row_side(model, answers, np.empty(answers.n_entries, dtype=np.float32))
    found = np.full((answers.n_rows, model.by_rows.n_factors), 0.5, dtype=np.float32)
    fixed_point(side, found, TOLERANCE, MAX_ITERATIONS)
    return found


def _copies_of_row(model: MatrixModel, row: int, factors: np.ndarray) -> MatrixModel:
    """A model of copies of a row, which differ in their factors."""
    times, other = len(factors), model.by_columns
    return model._replace(
        by_rows=model.by_rows._replace(factors=factors.astype(np.float32)),
        by_columns=other._replace(
            weights=_repeated(other.weights, row, times),
            bias=_repeated(other.bias, row, times),
            cutpoints=_repeated(other.cutpoints, row, times),
        ),
    )


def _multinomial_copies(
    model: MultinomialModel, columns: np.ndarray, levels: np.ndarray
) -> MultinomialModel:
    """The row with all these answers, and again without each of them."""
    added = model.weights[columns, levels].astype(np.float64)
    activation = model.factor_bias + added.sum(axis=0)
    factors = expit(np.vstack([activation, activation - added]))
    return model._replace(factors=factors.astype(np.float32))


def draw_effects(
    draws: Draws, row: int, column: int, columns: np.ndarray, levels: np.ndarray, worth: np.ndarray,
    line: csr_array | None = None,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """Expected worth of a cell by a sampled posterior, and what each of the row's answers adds.

    Given a draw of the columns, the row's bias and factors are a regression of its utilities on
    their features. It is linear in the utilities, so that every answer has a part of its own; all
    parts together are what the answers add to that which the prior expects of the row, to first
    order.
    """
    expected, parts = 0.0, np.zeros(columns.size)
    for k in range(draws.n_draws):
        mean, bounds = draws.utilities(k, row, np.array([column]))
        deviation = draws.deviation(k, row, column)
        away = (bounds[0, : worth.size + 1] - mean[0]) / deviation
        expected += np.diff(ndtr(away)) @ worth
        slope = -np.diff(np.exp(-0.5 * away**2)) @ worth / np.sqrt(2.0 * np.pi) / deviation
        parts += slope * _regression_parts(draws, k, row, column, columns, levels, line)
    return float(expected / draws.n_draws), parts / draws.n_draws


def _regression_parts(
    draws: Draws, k: int, row: int, column: int, columns: np.ndarray, levels: np.ndarray,
    line: csr_array | None,
) -> np.ndarray:  # fmt: skip
    """What each answer adds to the mean utility of a cell, in one draw."""
    precision = draws.rows.precision[k].astype(np.float64)
    prior = draws.rows.expected(k, None, line)[0].astype(np.float64)
    features, target = (
        draws.columns.factors[k, which].astype(np.float64) for which in (columns, [column])
    )
    biases = features[:, 0].copy()
    features[:, 0] = target[:, 0] = 1.0  # where the row's own bias meets them
    mean, bounds = draws.utilities(k, row, columns)
    low, high = (
        np.take_along_axis(bounds, (levels + end)[:, None].astype(np.intp), axis=1)[:, 0] - mean
        for end in (0, 1)
    )
    utility = mean + truncated_mean(low, high) - biases
    weight = features @ linalg.solve(precision + features.T @ features, target[0], assume_a="pos")
    return weight * (utility - features @ prior)


def _cells_of(column: int, n_rows: int) -> Cells:
    return Cells(np.arange(n_rows), np.full(n_rows, column), np.zeros(n_rows, dtype=np.int8))


def _repeated(array: np.ndarray, row: int, times: int) -> np.ndarray:
    return np.repeat(array[row : row + 1], times, axis=0)


def factor_contributions(model: Model, row: int, column: int, n: int) -> pd.DataFrame:
    """The n factors that move a cell's utility most, compared to average factors."""
    if isinstance(model, MultinomialModel):
        table = _multinomial_contributions(model, row, column)
    elif isinstance(model, GaussianModel):
        factors, weights = model.rows.mean[:, 1:], model.columns.mean[column, 1:]
        table = _contributions(factors, row, weights)
    else:
        first, second = model.by_rows, model.by_columns
        of_user = _contributions(first.factors, row, model.gains[0] * first.weights[column])
        of_item = _contributions(second.factors, column, model.gains[1] * second.weights[row])
        parts = [of_user.assign(of="user"), of_item.assign(of="item")]
        table = pd.concat(parts, ignore_index=True)[["of", *of_user.columns]]
    order = np.argsort(-table["contribution"].abs().to_numpy(), kind="stable")[:n]
    return table.iloc[order].reset_index(drop=True)


def _contributions(factors: np.ndarray, row: int, weights: np.ndarray) -> pd.DataFrame:
    """What the row's factors add through these weights."""
    own = factors[row].astype(np.float64)
    usual = factors.mean(axis=0, dtype=np.float64)
    return pd.DataFrame(
        {"factor": np.arange(own.size), "value": own, "contribution": weights * (own - usual)}
    )


def _multinomial_contributions(model: MultinomialModel, row: int, column: int) -> pd.DataFrame:
    """What each factor adds to the expected level, the others as they are."""
    own, usual = model.factors[row], model.factors.mean(axis=0)
    each = np.where(np.eye(own.size, dtype=bool), usual, own)
    these = model._replace(factors=np.vstack([own, each]).astype(np.float32))
    cells = _cells_of(column, own.size + 1)
    distribution = probabilities([these], cells)
    expected = distribution @ np.arange(distribution.shape[1])
    added = expected[0] - expected[1:]
    return pd.DataFrame({"factor": np.arange(own.size), "value": own, "contribution": added})

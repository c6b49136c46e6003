"""What speaks for an item: the user's ratings, and the factors of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import linalg
from scipy.sparse import csr_array
from scipy.special import ndtr

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.gaussian_state import FactorPosterior, Prior
from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.engine.normal_reference import truncated_mean
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.draws import Draws
from ordinalrbm.matrix.gaussian_model import NO_OTHERS, GaussianModel, Others
from ordinalrbm.matrix.infer_rows import infer_rows
from ordinalrbm.matrix.model import MatrixModel, row_side
from ordinalrbm.matrix.multinomial import MultinomialModel
from ordinalrbm.matrix.predict import Model, probabilities
from ordinalrbm.vector.posterior import MAX_ITERATIONS, TOLERANCE

# One rating more or less is a small difference: both must be found exactly.
_SETTLED = 2e-4
_MOST_ENTRIES = 1 << 22  # answers of copies of a row held at a time


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

    def __str__(self) -> str:
        return (
            f"Expected rating {self.expected:.3g}.\n"
            "Ratings that speak for it (+) or against it (-):\n"
            f"{self.ratings.to_string(index=False)}\n"
            "Factors, in units of the utility's standard deviation:\n"
            f"{self.factors.to_string(index=False)}"
        )


def rating_effects(
    model: Model, row: int, column: int, columns: np.ndarray, levels: np.ndarray, worth: np.ndarray,
    line: csr_array | None = None,
    others: Others = NO_OTHERS,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """Expected worth of a cell, and what it loses when each of the row's answers is left out.

    The row's factors are inferred anew, by mean-field, from the answers that remain and from the
    row's line of the table of features, if there is one, and newcomers are compared with others.
    """
    at_a_time = max(1, _MOST_ENTRIES // max(columns.size, 1))
    # The first copy of the row has all answers, the next one lacks the first of them, and so on.
    lacking = np.arange(-1, columns.size)
    expected = np.concatenate(
        [
            _expected_without(model, row, column, columns, levels, worth, some, line, others)
            for some in np.split(lacking, range(at_a_time, lacking.size, at_a_time))
        ]
    )
    return float(expected[0]), expected[0] - expected[1:]


def _expected_without(
    model: Model,
    row: int,
    column: int,
    columns: np.ndarray,
    levels: np.ndarray,
    worth: np.ndarray,
    lacking: np.ndarray,
    line: csr_array | None,
    others: Others,
) -> np.ndarray:
    copies = _copies(columns, levels, lacking, model.n_levels)
    if isinstance(model, MultinomialModel):
        these: Model = model._replace(factors=model.infer_rows(copies))
    elif isinstance(model, GaussianModel):
        these = _inferred_gaussian(model, row, copies, line, others)
    else:
        these = _inferred_binary(model, row, copies)
    cells = _cells_of(column, lacking.size)
    return probabilities([these], cells)[:, : worth.size] @ worth


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
        away = bounds[0, : worth.size + 1] - mean[0]
        expected += np.diff(ndtr(away)) @ worth
        slope = -np.diff(np.exp(-0.5 * away**2)) @ worth / np.sqrt(2.0 * np.pi)
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


def _inferred_gaussian(
    model: GaussianModel, row: int, copies: Observations, line: csr_array | None, others: Others
) -> GaussianModel:
    """A model of the copies, with factors inferred anew; the row's bias and gaps stay."""
    own = FactorPosterior(*(_repeated(part, row, copies.n_rows) for part in model.rows))
    precision = model.row_prior.precision.copy()
    precision[0] = np.inf
    stay = np.full(own.cutpoints.shape[1], np.inf)
    lines = None if line is None else line[np.zeros(copies.n_rows, dtype=np.int32)]
    # What is left out has not been rated at all.
    expected = model.row_prior.expected(copies, lines, others)
    if expected.shape[1]:
        expected[:, 0] = 0.0
    # Biases stay, but not at zero: they go over to the columns that the copies see.
    seen = model.columns._replace(mean=model.columns.mean.copy())
    seen.mean[:, 0] += own.mean[0, 0]
    found = infer_rows(
        copies, seen, Prior(precision, own.cutpoints, stay, expected), own.n_levels, _SETTLED, CPU,
        values=model.values, is_point=model.is_point,
    )  # fmt: skip
    found.mean[:, 0], found.variance[:, 0] = own.mean[:, 0], own.variance[:, 0]
    return model._replace(rows=found)


def _inferred_binary(model: MatrixModel, row: int, copies: Observations) -> MatrixModel:
    times, other = copies.n_rows, model.by_columns
    factors = np.full((times, model.by_rows.n_factors), 0.5, dtype=np.float32)
    these = model._replace(
        by_rows=model.by_rows._replace(factors=factors),
        by_columns=other._replace(
            weights=_repeated(other.weights, row, times),
            bias=_repeated(other.bias, row, times),
            cutpoints=_repeated(other.cutpoints, row, times),
        ),
    )
    side = row_side(these, copies, np.empty(copies.n_entries, dtype=np.float32))
    fixed_point(side, these.by_rows.factors, TOLERANCE, MAX_ITERATIONS)
    return these


def _repeated(array: np.ndarray, row: int, times: int) -> np.ndarray:
    return np.repeat(array[row : row + 1], times, axis=0)


def _copies(
    columns: np.ndarray, levels: np.ndarray, lacking: np.ndarray, n_levels: np.ndarray
) -> Observations:
    """The same row again and again, each without one answer (−1: with all)."""
    kept = np.arange(columns.size) != lacking[:, None]
    row_start = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    answer = np.nonzero(kept)[1]
    return Observations(row_start, columns[answer], levels[answer], n_levels)


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

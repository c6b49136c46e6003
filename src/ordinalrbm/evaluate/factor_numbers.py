"""How many factors: models of different sizes compared on the same hidden answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ordinalrbm.data.observations import Cells
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.hidden import distributions, hide_answers
from ordinalrbm.stats.point_estimates import log_of_level


class FactorNumbers(NamedTuple):
    """Numbers of factors, compared.

    Attributes
    ----------
    table : DataFrame, by number of factors
        ``log_likelihood``: mean log probability of a hidden answer; ``standard_error`` of it;
        ``difference``: to the best number; ``difference_error``: standard error of that, from the
        same answers predicted by both. People are drawn at random, their answers are not.
    best : int
        The number with the largest likelihood.
    chosen : int
        The smallest number whose difference to the best is within one standard error.
    n_hidden : int
        How many answers were hidden.
    """

    table: pd.DataFrame
    best: int
    chosen: int
    n_hidden: int


def compare_factor_numbers(
    estimator: Any,
    X: Any,
    numbers: Iterable[int],
    *,
    share: float = 0.1,
    random_state: int = 0,
    sample_weight: Any = None,
    tell: Callable[[int], None] | None = None,
) -> FactorNumbers:
    """Fit an estimator with several numbers of factors, and score the same hidden answers.

    Parameters
    ----------
    estimator : CumulativeRBM
        Whose settings to take; it is cloned, not fitted.
    X : table
    numbers : iterable of int
        Numbers of factors.
    share : float, default=0.1
        Share of the answers to hide.
    random_state : int, default=0
        Which answers are hidden.
    sample_weight : array-like, optional
        As ``fit`` takes it.
    tell : callable, optional
        Called with each number before it is fitted.

    Returns
    -------
    FactorNumbers

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> rng = np.random.default_rng(0)
    >>> trait = rng.normal(size=(200, 1))
    >>> X = np.digitize(2 * trait + rng.normal(size=(200, 6)), [-1, 1])
    >>> model = orbm.CumulativeRBM(n_epochs=3, response_styles=1, random_state=0)
    >>> compare_factor_numbers(model, X, [1, 2]).chosen
    1
    """
    wanted = sorted(set(numbers))
    if not wanted:
        raise DataError("There is no number of factors to compare; give at least one.")
    shown, hidden = hide_answers(X, share, random_state)
    if not hidden.level.size:
        raise DataError("There are too few answers to hide any; give more rows.")
    found = {}
    for number in wanted:
        if tell is not None:
            tell(number)
        model = type(estimator)(**estimator.get_params()).set_params(n_factors=number)
        model.fit(shown, sample_weight=sample_weight)
        found[number] = log_of_level(distributions(model, shown, hidden), hidden.level)
    return _compared(found, hidden)


def _compared(found: dict[int, np.ndarray], hidden: Cells) -> FactorNumbers:
    means = {number: float(values.mean()) for number, values in found.items()}
    best = max(means, key=means.__getitem__)
    lines = {
        number: {
            "log_likelihood": means[number],
            "standard_error": _error(values, hidden.row),
            "difference": means[number] - means[best],
            "difference_error": _error(values - found[best], hidden.row),
        }
        for number, values in found.items()
    }
    table = pd.DataFrame.from_dict(lines, orient="index")
    table.index.name = "factors"
    near = table.index[-table["difference"] <= table["difference_error"]]
    return FactorNumbers(table, best, int(min(near)), hidden.row.size)


def _error(values: np.ndarray, row: np.ndarray) -> float:
    """Standard error of a mean over answers, of which those of one person go together."""
    _, person = np.unique(row, return_inverse=True)
    apart = np.bincount(person, values - values.mean())
    return float(np.sqrt((apart**2).sum()) / values.size)

"""Which groups of people differ on which factors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

FEWEST_GROUPS, MOST_GROUPS = 2, 30
_NORMAL_95 = 1.959964


@dataclass(frozen=True)
class GroupMeans:
    """Mean factors of the groups of a background variable.

    Attributes
    ----------
    variable : str
    share : (K,) array
        Share of each factor's variance that lies between the groups.
    table : DataFrame
        One line per factor and group: ``factor``, ``group``, ``count``, ``mean`` (of the factor's
        posterior), ``standard_error``; ``difference`` from everybody's mean in standard deviations
        of the factor, and its 95 % interval from ``low`` to ``high``.
    """

    variable: str
    share: np.ndarray
    table: pd.DataFrame

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.table["group"].nunique()


def grouping_variables(background: pd.DataFrame) -> list[str]:
    """Background variables with 2 to 30 groups.

    Examples
    --------
    >>> grouping_variables(pd.DataFrame({"sex": ["f", "m"], "planet": ["Earth", "Earth"]}))
    ['sex']
    """
    return [
        name
        for name in background.columns
        if FEWEST_GROUPS <= background[name].nunique() <= MOST_GROUPS
    ]


def group_means(
    factors: np.ndarray, groups: pd.Series, weight: np.ndarray | None = None
) -> GroupMeans:
    """Mean of every factor in every group, with standard errors.

    Parameters
    ----------
    factors : (n, K) array
    groups : Series of n labels
        Who has none is left out.
    weight : (n,) array, optional
        How much each person counts.

    Returns
    -------
    GroupMeans

    Examples
    --------
    >>> groups = pd.Series(["a", "a", "b", "b"], name="g")
    >>> found = group_means(np.array([[0.0], [2.0], [2.0], [4.0]]), groups)
    >>> found.table[["group", "mean", "standard_error"]].values.tolist()
    [['a', 1.0, 1.0], ['b', 3.0, 1.0]]
    >>> found.share.tolist()
    [0.5]
    """
    known = groups.notna().to_numpy()
    values = np.asarray(factors, dtype=np.float64)[known]
    weights = np.ones(known.sum()) if weight is None else np.asarray(weight, dtype=float)[known]
    weights = np.where(np.isfinite(weights) & (weights > 0), weights, 0.0)
    if not weights.any():  # who all count nothing, count the same
        weights = np.ones_like(weights)
    kinds = groups[known].astype("category").cat.remove_unused_categories().cat
    everybody = np.average(values, axis=0, weights=weights)
    variance = np.average((values - everybody) ** 2, axis=0, weights=weights)
    spread = np.sqrt(np.where(variance > 0, variance, 1.0))
    parts, between = [], np.zeros(values.shape[1])
    for code, label in enumerate(kinds.categories):
        own = (kinds.codes == code).to_numpy() & (weights > 0)
        if not own.any():
            continue
        mean, error = _mean(values[own], weights[own])
        between += weights[own].sum() * (mean - everybody) ** 2
        difference, reach = (mean - everybody) / spread, _NORMAL_95 * error / spread
        parts.append(
            pd.DataFrame(
                {
                    "factor": np.arange(values.shape[1]),
                    "group": str(label),
                    "count": int(own.sum()),
                    "mean": mean,
                    "standard_error": error,
                    "difference": difference,
                    "low": difference - reach,
                    "high": difference + reach,
                }
            )
        )
    share = between / weights.sum() / np.where(variance > 0, variance, 1.0)
    table = pd.concat(parts).sort_values(["factor"], kind="stable").reset_index(drop=True)
    return GroupMeans(str(groups.name), share, table)


def _mean(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and its standard error, which a single person has not."""
    total, count = weight.sum(), len(values)
    mean = weight @ values / total
    if count == 1:
        return mean, np.full(values.shape[1], np.nan)
    squares = (weight**2) @ (values - mean) ** 2
    return mean, np.sqrt(squares * count / (count - 1)) / total

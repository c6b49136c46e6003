"""Which groups of people differ on which factors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

FEWEST, MOST = 2, 30
_COLUMNS = ["factor", "group", "count", "mean", "standard_error", "difference", "low", "high"]


class GroupMeans(NamedTuple):
    """Mean factors of the groups of a background variable.

    ``share`` is that of each factor's variance that lies between the groups. The table has one line
    per factor and group: ``factor``, ``group``, ``count``, ``mean`` (of the factor's posterior),
    ``standard_error``; ``difference`` from the mean of all who are in a group, in standard
    deviations of the factor, and its 95 % interval from ``low`` to ``high``.
    """

    variable: str
    share: np.ndarray
    table: pd.DataFrame

    @property
    def counts(self) -> pd.Series:
        """How many people each group has."""
        return self.table.loc[self.table["factor"] == 0, "count"]


def grouping_variables(background: pd.DataFrame) -> list[str]:
    """Background variables with 2 to 30 groups.

    Examples
    --------
    >>> grouping_variables(pd.DataFrame({"sex": ["f", "m"], "planet": ["Earth", "Earth"]}))
    ['sex']
    """
    return [name for name in background.columns if FEWEST <= background[name].nunique() <= MOST]


def group_means(
    factors: np.ndarray, groups: pd.Series, weight: np.ndarray | None = None
) -> GroupMeans:
    """Mean of every factor, (n, K), in every group, with standard errors; people may have weights.

    Who has no group is left out.

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
    weights = _counting(weight, known)
    kinds = groups[known].astype("category").cat.remove_unused_categories().cat
    everybody = np.average(values, axis=0, weights=weights)
    variance = np.average((values - everybody) ** 2, axis=0, weights=weights)
    spread = np.sqrt(np.where(variance > 0, variance, 1.0))
    parts, between = [], np.zeros(values.shape[1])
    for code, label in enumerate(kinds.categories):
        own = (kinds.codes == code).to_numpy() & (weights > 0)
        if not own.any():
            continue
        part = _against_the_rest(values, weights, own)
        between += weights[own].sum() * (part["mean"] - everybody) ** 2
        for name in ("difference", "low", "high"):
            part[name] = part[name] / spread
        parts.append(part.assign(group=str(label), count=int(own.sum())))
    share = between / weights.sum() / np.where(variance > 0, variance, 1.0)
    table = pd.concat(parts).sort_values(["factor"], kind="stable").reset_index(drop=True)
    return GroupMeans(str(groups.name), share, table[_COLUMNS])


def _counting(weight: np.ndarray | None, known: np.ndarray) -> np.ndarray:
    """How much each of those known counts; who has no weight counts nothing."""
    weights = np.ones(known.sum()) if weight is None else np.asarray(weight, dtype=float)[known]
    weights = np.where(np.isfinite(weights) & (weights > 0), weights, 0.0)
    # Who all count nothing, count the same.
    return weights if weights.any() else np.ones_like(weights)


def _against_the_rest(values: np.ndarray, weights: np.ndarray, own: np.ndarray) -> pd.DataFrame:
    """A group's means, and how far they are from everybody's, with 95 % intervals.

    Everybody includes the group, so that the difference is (1 − p) times that from the rest, with p
    the group's share of the weights; so is its standard error. Few people know it less well:
    Student's t with Welch's degrees of freedom.
    """
    rest = ~own & (weights > 0)
    mean, error = _mean(values[own], weights[own])
    other, other_error = _mean(values[rest], weights[rest])
    share = weights[own].sum() / weights.sum()
    difference = (1.0 - share) * (mean - other)
    variances = np.stack([error**2, other_error**2])
    freedom = np.array([own.sum() - 1, rest.sum() - 1])[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):  # nobody differs: no error, no freedom
        welch = variances.sum(axis=0) ** 2 / (variances**2 / freedom).sum(axis=0)
    reach = student_t.ppf(0.975, np.where(welch > 0, welch, np.inf))
    reach = reach * (1.0 - share) * np.sqrt(variances.sum(axis=0))
    return pd.DataFrame(
        {
            "factor": np.arange(values.shape[1]),
            "mean": mean,
            "standard_error": error,
            "difference": difference,
            "low": difference - reach,
            "high": difference + reach,
        }
    )


def _mean(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and its standard error, which a single person has not."""
    total, count = weight.sum(), len(values)
    mean = weight @ values / total
    if count == 1:
        return mean, np.full(values.shape[1], np.nan)
    squares = (weight**2) @ (values - mean) ** 2
    return mean, np.sqrt(squares * count / (count - 1)) / total

"""Whether groups differ by more than chance, and by how much; knows numbers only.

Welch's analysis of variance: the groups may be of any size and spread. The size of the difference is omega
squared, the share of variance that lies between the groups less what so many groups of so few
people have by chance; its interval comes from the noncentral F distribution.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import fdtr, fdtrc, ncfdtr

FEWEST_PEOPLE = 5
"""Smaller groups take no part in a test: their own spread is not known."""
ALPHA = 0.05
"""Differences with smaller p-values, adjusted for the number of tests, count as found."""
_LEVEL = 0.95
# From here on old versions of SciPy have no noncentral F, and Patnaik's approximation is as good.
_FAR = 5_000.0


class Moments(NamedTuple):
    """Means in groups; arrays (G,), or (G, Q) of several values. People count by their weights."""

    mean: np.ndarray
    variance: np.ndarray  # of the people
    error: np.ndarray  # standard error of the mean; NaN for a single person
    freedom: np.ndarray  # degrees of freedom of that error
    size: np.ndarray  # Kish's effective number of people
    people: np.ndarray  # how many

    def at(self, *which: np.ndarray | int) -> Self:
        return type(self)(*(part[which] for part in self))


class Comparison(NamedTuple):
    """A test whether means differ, and how much of the variance lies between groups."""

    statistic: float  # Welch's F
    between: float  # degrees of freedom
    within: float
    p: float
    omega: float  # omega squared, never below 0
    low: float  # its 95 % interval
    high: float


def counting(weight: np.ndarray | None, n: int) -> np.ndarray:
    """How much each person counts: nothing without a weight, all the same if there is none at all."""
    weights = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    weights = np.where(np.isfinite(weights) & (weights > 0), weights, 0.0)
    return weights if weights.any() else np.ones_like(weights)


def moments(values: np.ndarray, code: np.ndarray, n_groups: int, weight: np.ndarray) -> Moments:
    """Means of values (n, Q), NaN where missing, in the groups that codes name; code -1 is no group."""
    people = np.flatnonzero((code >= 0) & (weight > 0))
    places = (code[people], np.arange(len(people)))
    of_group = sparse.csr_array((np.ones(len(people)), places), shape=(n_groups, len(people)))
    known = ~np.isnan(values[people])
    value, own = np.where(known, values[people], 0.0), weight[people, None] * known
    total, count = of_group @ own, (of_group @ known.astype(float))
    with np.errstate(invalid="ignore", divide="ignore"):  # empty groups have no mean
        mean = (of_group @ (own * value)) / total
        apart = np.where(known, value - np.nan_to_num(mean)[places[0]], 0.0)
        variance = (of_group @ (own * apart**2)) / total * count / (count - 1.0)
        error = np.sqrt((of_group @ (own * apart) ** 2) * count / (count - 1.0)) / total
        size = total**2 / (of_group @ own**2)
    return Moments(mean, variance, error, size - 1.0, size, count.astype(np.int64))


def welch(
    groups: Moments, covariance: np.ndarray | None = None, freedom: float = np.inf
) -> Comparison | None:
    """Welch's test that all means are equal; None if there is no spread within any group.

    With the ``covariance`` (G, G) that means have in a sample of clusters it is Wald's, adjusted
    for that sample's degrees of freedom; None if these are fewer than groups.
    """
    n_groups = len(groups.mean)
    usable = None if n_groups < 2 else _with_spread(groups)
    if usable is None or freedom < n_groups - 1.0:
        return None
    precision = usable.error**-2.0
    share = precision / precision.sum()
    between = n_groups - 1.0
    if covariance is None:
        distance = (precision * (usable.mean - share @ usable.mean) ** 2).sum()
        unsure = ((1.0 - share) ** 2 / usable.freedom).sum()
        statistic = distance / between / (1.0 + 2.0 * (n_groups - 2) / (n_groups**2 - 1) * unsure)
        within = (n_groups**2 - 1) / (3.0 * unsure)
    else:
        contrasts = np.eye(n_groups)[1:] - np.eye(n_groups)[0]
        apart, alike = contrasts @ usable.mean, np.where(groups.error > 0, 0.0, usable.error**2)
        spread = contrasts @ (covariance + np.diag(alike)) @ contrasts.T
        within = freedom - between + 1.0
        statistic = apart @ np.linalg.pinv(spread, hermitian=True) @ apart * within / (freedom * between)
    # As many people as would know the means as well if nothing were missing.
    people = float((usable.variance * precision).sum())
    excess = between * (statistic - 1.0)
    omega = max(0.0, excess / (excess + people))
    low, high = (
        _noncentrality(statistic, between, within, level) for level in (0.5 + _LEVEL / 2, 0.5 - _LEVEL / 2)
    )
    p = float(fdtrc(between, within, statistic))
    ends = low / (low + people), high / (high + people)
    return Comparison(float(statistic), between, float(within), p, omega, *ends)


def _with_spread(groups: Moments) -> Moments | None:
    """Groups in which people differ; where they do not, as they do in the others."""
    freedom = np.maximum(groups.size - 1.0, 0.0)
    pooled = float(freedom @ groups.variance / freedom.sum()) if freedom.sum() > 0 else 0.0
    if not pooled > 0:
        return None
    alike = ~(groups.error > 0)
    return groups._replace(
        variance=np.where(alike, pooled, groups.variance),
        error=np.where(alike, np.sqrt(pooled / groups.size), groups.error),
        freedom=np.maximum(np.where(alike, freedom, groups.freedom), 1.0),
    )


def _noncentrality(statistic: float, between: float, within: float, level: float) -> float:
    """The noncentrality under which the statistic would be at that quantile; 0 if none is."""

    def above(noncentrality: float) -> float:
        return _cdf(statistic, between, within, noncentrality) - level

    if fdtr(between, within, statistic) <= level:
        return 0.0
    far = 10.0 + 2.0 * between * statistic
    while above(far) > 0:
        far *= 2.0
    return float(brentq(above, 0.0, far, xtol=1e-6, rtol=1e-8))


def _cdf(statistic: float, between: float, within: float, noncentrality: float) -> float:
    if noncentrality < _FAR:
        return float(ncfdtr(between, within, noncentrality, statistic))
    scale = (between + noncentrality) / between
    freedom = (between + noncentrality) ** 2 / (between + 2.0 * noncentrality)
    return float(fdtr(freedom, within, statistic / scale))


def holm(p: Sequence[float]) -> list[float]:
    """p-values of several tests such that any false finding is as rare as of one (Holm, 1979)."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    times = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * times), 1.0)
    return adjusted.tolist()


def most_sure(
    comparisons: Sequence[Comparison | None], adjusted: Sequence[float], known: Sequence[float] | None = None
) -> list[int]:
    """Indices of comparisons, the surest and most far-reaching first.

    Those that are significant, by ``adjusted`` p-values, come before the others, in the order of
    the lower bound of omega squared times the share of people who are ``known`` and compared: of
    the variance among everybody, at least so much lies between the groups. The others come by that
    share, in tenths, and then by the lower bound.
    """

    def key(index: int) -> tuple[float, ...]:
        found = comparisons[index]
        if found is None:
            return (2.0,)
        share = 1.0 if known is None else known[index]
        if adjusted[index] < ALPHA:
            return 0.0, -found.low * share, found.p
        return 1.0, -round(share, 1), -found.low, found.p

    return sorted(range(len(comparisons)), key=key)

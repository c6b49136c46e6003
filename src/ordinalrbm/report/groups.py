"""Groups of people by their background, and how they differ on factors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.stats import t as student_t

from ordinalrbm.report.comparing import FEWEST_PEOPLE, Comparison, Groups, welch

FEWEST, MOST = 2, 30
# Numbers with more values than this make bands, each with a quarter of the people.
_MOST_NUMBERS, _BANDS = 12, 4
_COLUMNS = ["factor", "group", "count", "mean", "standard_error", "difference", "low", "high"]


class Grouping(NamedTuple):
    """People in groups by a background variable."""

    name: str
    code: np.ndarray  # (n,) place of each person's group, -1 where it is not known
    groups: tuple[str, ...]
    ordered: bool
    banded: bool = False

    @property
    def counts(self) -> np.ndarray:
        """How many people each group has."""
        return np.bincount(self.code[self.code >= 0], minlength=len(self.groups))


class Moments(NamedTuple):
    """Means of values in groups, (G, Q) each; people count by their weights."""

    mean: np.ndarray
    variance: np.ndarray
    error: np.ndarray  # standard error of the mean; NaN for a single person
    size: np.ndarray  # Kish's effective number of people
    people: np.ndarray  # how many


class GroupMeans(NamedTuple):
    """Mean factors of the groups of a background variable.

    ``comparisons`` holds a test for each factor, None where none was possible. The table has one
    line per factor and group: ``factor``, ``group``, ``count``, ``mean``, ``standard_error``;
    ``difference`` from the mean of all who are compared, in standard deviations of the factor among
    them, and its 95 % interval from ``low`` to ``high``. ``tested`` says which groups take part in
    each test, and ``n_tested`` how many people are in these.
    """

    grouping: Grouping
    comparisons: list[Comparison | None]
    table: pd.DataFrame
    tested: np.ndarray  # (G, K)
    n_tested: np.ndarray  # (K,)


# ---- groups -----------------------------------------------------------------------------------


def groupings(background: pd.DataFrame) -> tuple[list[Grouping], dict[str, str]]:
    """Background variables that make groups; and the others, each with the reason why not.

    Examples
    --------
    >>> people = pd.DataFrame({"sex": ["f", "m"], "planet": ["Earth", "Earth"]})
    >>> found, others = groupings(people)
    >>> [one.groups for one in found], others
    ([('f', 'm')], {'planet': 'one group only'})
    """
    found, others = [], {}
    for name in background.columns:
        made = grouping_of(background[name])
        if isinstance(made, Grouping):
            found.append(made)
        else:
            others[str(name)] = made
    return found, others


def grouping_of(values: pd.Series) -> Grouping | str:
    """The groups of a variable, or the reason why there are none to compare.

    Numbers with many values make four bands of about equally many people.

    Examples
    --------
    >>> grouping_of(pd.Series(range(20, 60), name="age")).groups
    ('20 to 29', '30 to 39', '40 to 49', '50 to 59')
    """
    is_number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if is_number and values.nunique() > _MOST_NUMBERS:
        return _bands(values)
    column = values.astype("category") if values.dtype != "category" else values
    column = column.cat.remove_unused_categories()
    kinds = [str(kind) for kind in column.cat.categories]
    if len(kinds) < FEWEST:
        return "one group only" if kinds else "nothing is known of anybody"
    if len(kinds) > MOST:
        return f"{len(kinds):,} groups, more than {MOST}"
    code = column.cat.codes.to_numpy(np.int64)
    return Grouping(str(values.name), code, tuple(kinds), is_number or bool(column.cat.ordered))


def _bands(values: pd.Series) -> Grouping | str:
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    known = np.isfinite(numbers)
    inner = np.unique(np.quantile(numbers[known], np.arange(1, _BANDS) / _BANDS))
    code = np.where(known, np.searchsorted(inner, numbers), -1)
    used, place = np.unique(code[known], return_inverse=True)
    if len(used) < FEWEST:
        return "nearly all the same"
    code[known] = place
    names = []
    for k in range(len(used)):
        own = numbers[code == k]
        low, high = f"{own.min():.6g}", f"{own.max():.6g}"
        names.append(low if low == high else f"{low} to {high}".replace("-", "−"))
    return Grouping(str(values.name), code, tuple(names), ordered=True, banded=True)


# ---- means ------------------------------------------------------------------------------------


def counting(weight: np.ndarray | None, n: int) -> np.ndarray:
    """How much each person counts; who has no weight counts nothing."""
    weights = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    weights = np.where(np.isfinite(weights) & (weights > 0), weights, 0.0)
    # Who all count nothing, count the same.
    return weights if weights.any() else np.ones_like(weights)


def moments(values: np.ndarray, grouping: Grouping, weight: np.ndarray) -> Moments:
    """Means of some values, (n, Q) with NaN where there is none, in each group.

    Examples
    --------
    >>> grouping = grouping_of(pd.Series(["a", "a", "b"], name="g"))
    >>> found = moments(np.array([[1.0], [3.0], [np.nan]]), grouping, np.ones(3))
    >>> found.mean[0].item(), found.error[0].item(), found.people.ravel().tolist()
    (2.0, 1.0, [2, 0])
    """
    people = np.flatnonzero((grouping.code >= 0) & (weight > 0))
    shape = (len(grouping.groups), len(people))
    places = (grouping.code[people], np.arange(len(people)))
    of_group = sparse.csr_array((np.ones(len(people)), places), shape=shape)
    known = ~np.isnan(values[people])
    value, own = np.where(known, values[people], 0.0), weight[people, None] * known
    total, count = of_group @ own, (of_group @ known.astype(float))
    with np.errstate(invalid="ignore", divide="ignore"):  # nobody has no mean
        mean = (of_group @ (own * value)) / total
        apart = np.where(known, value - np.nan_to_num(mean)[places[0]], 0.0)
        variance = (of_group @ (own * apart**2)) / total * count / (count - 1.0)
        error = np.sqrt((of_group @ (own * apart) ** 2) * count / (count - 1.0)) / total
        size = total**2 / (of_group @ own**2)
    return Moments(mean, variance, error, size, count.astype(np.int64))


def group_means(
    factors: np.ndarray, grouping: Grouping, weight: np.ndarray | None = None,
    without: np.ndarray | None = None,
) -> GroupMeans:  # fmt: skip
    """Mean of every factor, (n, K), in every group, with standard errors; people may have weights.

    Who has no group is left out, and so are the groups that ``without``, (G, K), marks.

    Examples
    --------
    >>> grouping = grouping_of(pd.Series(["a", "a", "b", "b"], name="g"))
    >>> found = group_means(np.array([[0.0], [2.0], [2.0], [4.0]]), grouping)
    >>> found.table[["group", "mean", "standard_error"]].values.tolist()
    [['a', 1.0, 1.0], ['b', 3.0, 1.0]]
    """
    values = np.asarray(factors, dtype=np.float64)
    weights = counting(weight, len(values))
    n_factors = values.shape[1]
    absent = np.zeros((len(grouping.groups), n_factors), bool) if without is None else without
    found = moments(values, grouping, weights)
    tested = (found.people >= FEWEST_PEOPLE) & ~absent
    parts, comparisons = [], []
    for k in range(n_factors):
        there = (found.people[:, k] > 0) & ~absent[:, k]
        parts.append(_differences(values[:, k], grouping, weights, there).assign(factor=k))
        column = Moments(*(part[:, k] for part in found))
        groups = Groups(column.mean, column.variance, column.error, column.size - 1.0, column.size)
        comparisons.append(welch(groups.of(tested[:, k])))
    table = pd.concat(parts, ignore_index=True)[_COLUMNS]
    n_tested = np.where(tested, found.people, 0).sum(axis=0)
    return GroupMeans(grouping, comparisons, table, tested, n_tested)


def _differences(
    values: np.ndarray, grouping: Grouping, weights: np.ndarray, there: np.ndarray
) -> pd.DataFrame:
    """Means of one factor, and how far groups are from all of those that are compared."""
    part = np.flatnonzero(there[grouping.code] & (grouping.code >= 0) & (weights > 0))
    value, weight, code = values[part], weights[part], grouping.code[part]
    lines = []
    if part.size:
        everybody = np.average(value, weights=weight)
        variance = np.average((value - everybody) ** 2, weights=weight)
        spread = np.sqrt(variance) if variance > 0 else 1.0
        for g in np.flatnonzero(there):
            own = code == g
            mean, error, *rest = _against_the_rest(value, weight, own)
            lines.append(
                (grouping.groups[g], int(own.sum()), mean, error, *np.array(rest) / spread)
            )
    return pd.DataFrame(lines, columns=_COLUMNS[1:])


def _against_the_rest(
    values: np.ndarray, weights: np.ndarray, own: np.ndarray
) -> tuple[float, float, float, float, float]:
    """A group's mean and its error; how far it is from everybody's, with 95 % interval.

    Everybody includes the group, so that the difference is (1 − p) times that from the rest, with p
    the group's share of the weights; so is its standard error. Few people know it less well:
    Student's t with Welch's degrees of freedom.
    """
    mean, error = _mean(values[own], weights[own])
    if own.all():
        return mean, error, 0.0, np.nan, np.nan
    other, other_error = _mean(values[~own], weights[~own])
    share = weights[own].sum() / weights.sum()
    difference = (1.0 - share) * (mean - other)
    variances = np.array([error**2, other_error**2])
    freedom = np.array([own.sum() - 1, (~own).sum() - 1])
    with np.errstate(invalid="ignore", divide="ignore"):  # nobody differs: no error, no freedom
        degrees = variances.sum() ** 2 / (variances**2 / freedom).sum()
    reach = student_t.ppf(0.975, degrees if degrees > 0 else np.inf)
    reach = reach * (1.0 - share) * np.sqrt(variances.sum())
    return mean, error, difference, difference - reach, difference + reach


def _mean(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Weighted mean and its standard error, which a single person has not."""
    total, count = weight.sum(), len(values)
    mean = weight @ values / total
    if count == 1:
        return float(mean), np.nan
    squares = (weight**2) @ (values - mean) ** 2
    return float(mean), float(np.sqrt(squares * count / (count - 1)) / total)

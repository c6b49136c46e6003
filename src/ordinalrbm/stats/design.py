"""Samples with strata, clusters, weights or replicate weights: means, and how well these are known.

Errors come from Taylor linearisation: to an estimate each person adds an influence times the weight, sums of
these over clusters vary within a stratum, and strata are independent (Binder 1983). Clusters without anybody
of a group count as zero. With replicates, estimates are made again by each of them, and errors come from
their spread. Both are as in the R package survey. Degrees of freedom are clusters less strata, or the rank of
the replicates less one; of differences they are Satterthwaite's, and never more than these.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse, stats

from ordinalrbm.errors import DataError
from ordinalrbm.runtime.display import Readable
from ordinalrbm.stats.pooling import pool
from ordinalrbm.stats.welch import Moments, moments

Replication = Literal["JK1", "JKn", "BRR", "Fay", "bootstrap", "SDR", "other"]
_NEGLIGIBLE = 1e-10  # eigenvalues, relative to the largest
_NUMBERS_AT_ONCE = 2**23


class Sample(NamedTuple):
    """How people were sampled, in numbers. Weights above zero have the mean one."""

    weight: np.ndarray  # (n,)
    cluster: np.ndarray  # (n,) place of each person's, in the order of strata
    stratum: np.ndarray  # (C,) of each cluster, rising from 0
    freedom: float
    replicates: np.ndarray | None = None  # (n, R) weights
    scales: np.ndarray = np.zeros(0)  # (R,)

    def take(self, rows: np.ndarray | slice) -> Self:
        replicates = None if self.replicates is None else self.replicates[rows]
        return self._replace(weight=self.weight[rows], cluster=self.cluster[rows], replicates=replicates)

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Weighted sums of values (n, P): over clusters (C, P), or by each of the replicates (R, P)."""
        if self.replicates is not None:
            return self.replicates.T @ values
        places = (self.cluster, np.arange(len(values)))
        return sparse.csr_array((self.weight, places), shape=(self.stratum.size, len(values))) @ values

    def deviations(self, totals: np.ndarray) -> np.ndarray:
        """A of which AᵀA is the covariance of sums with these totals, or of these replicated estimates."""
        if self.replicates is not None:  # one without an estimate, NaN, is left out
            there = ~np.isnan(totals)
            mean = np.where(there, totals, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
            return np.where(there, totals - mean, 0.0) * np.sqrt(self.scales)[:, None]
        size = np.diff(self.first, append=self.stratum.size).astype(float)
        mean = np.add.reduceat(totals, self.first, axis=0) / size[:, None]
        return (totals - mean[self.stratum]) * np.sqrt(size / (size - 1.0))[self.stratum, None]

    @property
    def first(self) -> np.ndarray:
        """Where each stratum begins among the clusters."""
        return np.flatnonzero(np.diff(self.stratum, prepend=-1))


class GroupMoments(NamedTuple):
    """Moments (G + 1, Q) of groups and, last, of all in them; covariances (Q, G + 1, G + 1) of the means."""

    every: Moments
    covariance: np.ndarray

    @property
    def effect(self) -> np.ndarray:
        """(G + 1, Q) design effects: variances over those of as many people drawn at random."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.every.error**2 * self.every.people / self.every.variance

    def contrast(self, contrasts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(K, Q) estimates, standard errors and degrees of freedom of sums (K, G + 1) of the means."""
        used, freedom = contrasts[:, :, None] != 0, np.maximum(self.every.freedom, 1.0)
        estimate = np.where(used, contrasts[:, :, None] * self.every.mean, 0.0).sum(axis=1)
        own = np.where(used, (contrasts[:, :, None] * self.every.error) ** 2, 0.0)
        variance = np.einsum("kg,qgh,kh->kq", contrasts, self.covariance, contrasts)
        error = np.where(np.isnan(own).any(axis=1), np.nan, np.sqrt(np.maximum(variance, 0.0)))
        with np.errstate(invalid="ignore", divide="ignore"):  # where nobody differs
            satterthwaite = own.sum(axis=1) ** 2 / (own**2 / freedom).sum(axis=1)
        return estimate, error, np.fmin(satterthwaite, freedom[-1])


def group_moments(values: np.ndarray, code: np.ndarray, n_groups: int, sample: Sample) -> GroupMoments:
    """Means of values (n, Q), NaN where missing, in the groups that codes name; code -1 is no group."""
    own = moments(values, code, n_groups, sample.weight)
    every = moments(values, np.minimum(code, 0), 1, sample.weight)
    found = Moments(*(np.concatenate(parts) for parts in zip(own, every, strict=True)))
    people = np.flatnonzero((code >= 0) & (sample.weight > 0))
    sample, values = sample.take(people), values[people]
    member = np.column_stack([code[people, None] == np.arange(n_groups), np.ones(people.size, bool)])
    covariance, freedom = np.zeros((values.shape[1], n_groups + 1, n_groups + 1)), np.zeros(found.mean.shape)
    size = max(1, _NUMBERS_AT_ONCE // max(member.size, 1))
    for part in (slice(start, start + size) for start in range(0, values.shape[1], size)):
        apart, freedom[:, part] = _deviations(values[:, part], member, found.mean[:, part], sample)
        covariance[part] = apart.transpose(2, 1, 0) @ apart.transpose(2, 0, 1)
    freedom = np.minimum(freedom, found.people - 1.0)
    error = np.where(freedom > 0, np.sqrt(np.einsum("qgg->gq", covariance)), np.nan)
    return GroupMoments(found._replace(error=error, freedom=freedom), covariance)


def _deviations(
    values: np.ndarray, member: np.ndarray, mean: np.ndarray, sample: Sample
) -> tuple[np.ndarray, np.ndarray | float]:
    """(C or R, G, Q) deviations of the means, and their degrees of freedom."""
    there = (member[:, :, None] & ~np.isnan(values)[:, None]).astype(float)
    apart = there * (np.nan_to_num(values)[:, None] - np.nan_to_num(mean))
    total, summed = (sample.totals(part.reshape(len(part), -1)) for part in (there, apart))
    shape, freedom = (-1, *mean.shape), sample.freedom
    with np.errstate(invalid="ignore", divide="ignore"):  # groups of nobody
        if sample.replicates is not None:
            return sample.deviations(summed / total).reshape(shape), freedom
        apart = np.nan_to_num(summed / total.sum(axis=0))
    strata = np.logical_or.reduceat(total > 0, sample.first, axis=0).sum(axis=0)
    freedom = ((total > 0).sum(axis=0) - strata).reshape(mean.shape)
    return sample.deviations(apart).reshape(shape), freedom


# ---- as it is given ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class SurveyDesign(Readable):
    """How the people of a survey were sampled: weights with strata and clusters, or with replicates.

    Clusters (primary sampling units) count as drawn with replacement, which errs on the safe side.
    The same name of a cluster in two strata means two clusters.

    Parameters
    ----------
    weights, strata, clusters : array-like, optional
        Of each person; all of one weight, in one stratum, each one's own cluster by default.
    replicates : table, people by replicates, optional
        Replicate weights, which stand for strata and clusters and hold the weights already.
    kind : {"JK1", "JKn", "BRR", "Fay", "bootstrap", "SDR", "other"}, optional
        How these were made: jackknife, balanced repeated replication, with Fay's ``rho``, bootstrap
        or successive differences, as the documentation of the survey says.
    scale : float or array-like, optional
        A variance is ``(scale * d**2).sum()`` with differences d of replicates from their mean (R's
        scale times rscales). Known from the kind, except "other" and "JKn", which has
        (m - 1) / m for each replicate, with m clusters in its stratum.
    rho : float, default=0.5

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> design = orbm.SurveyDesign(weights=[1, 1, 2, 1, 1, 2], clusters=[1, 1, 2, 2, 3, 3])
    >>> design.mean({"hours": [1, 2, 4, 5, 3, 2]}).round(3)[["estimate", "se", "df", "deff"]]
           estimate     se   df   deff
    hours     2.875  0.829  2.0  2.137
    """

    weights: ArrayLike | None = None
    strata: Any = None
    clusters: Any = None
    replicates: Any = None
    kind: Replication | None = None
    scale: ArrayLike | None = None
    rho: float = 0.5

    def __post_init__(self) -> None:
        _ = self.sample  # what is wrong is said at once

    def _parts(self) -> Iterator[str]:
        own = self.sample
        of = f"{own.stratum.size:,} clusters in {own.first.size:,} strata"
        if own.replicates is not None:
            of = f"{own.scales.size:,} replicates ({self.kind})"
        yield f"Design of {own.weight.size:,} people: {of}, {own.freedom:.0f} degrees of freedom."

    @cached_property
    def sample(self) -> Sample:
        given = (self.weights, self.strata, self.clusters, self.replicates)
        n = next((len(one) for one in given if one is not None), 0)  # type: ignore[arg-type]
        if not n:
            raise DataError(
                "A design has no weights, strata, clusters or replicates; give at least one of them."
            )
        weight = np.ones(n) if self.weights is None else checked_weights("weights", self.weights, (n,))
        mean = weight[weight > 0].mean()
        if self.replicates is not None:
            return self._replicated_sample(weight / mean, mean)
        if self.kind is not None or self.scale is not None:
            raise DataError("kind and scale are those of replicates; give these, or leave them out.")
        stratum, strata = _codes("strata", self.strata, np.zeros(n))
        cluster, clusters = _codes("clusters", self.clusters, np.arange(n))
        pairs, place = np.unique(stratum * len(clusters) + cluster, return_inverse=True)
        of_cluster = pairs // len(clusters)
        alone = np.flatnonzero(np.bincount(of_cluster) == 1)
        if alone.size:
            where = "The sample" if self.strata is None else f"Stratum {strata[alone[0]]!r}"
            what = "row" if self.clusters is None else "cluster"
            raise DataError(
                f"{where} has a single {what}, which tells no error; merge it with a similar stratum."
            )
        return Sample(weight / mean, place.reshape(-1), of_cluster, float(len(pairs) - len(strata)))

    def _replicated_sample(self, weight: np.ndarray, mean: float) -> Sample:
        if self.strata is not None or self.clusters is not None or self.weights is None:
            raise DataError(
                "Replicates need the weights, and stand for strata and clusters; give just these."
            )
        n = np.shape(self.replicates)[-1]
        replicates = checked_weights("replicates", self.replicates, (weight.size, n), -np.inf) / mean
        scales = {"JK1": 1 - 1 / n, "BRR": 1 / n, "bootstrap": 1 / max(n - 1, 1), "SDR": 4 / n}
        scales |= {"Fay": 1 / (n * (1 - self.rho) ** 2) if 0 <= self.rho < 1 else np.nan}
        kinds = get_args(Replication)
        if self.kind is None or self.kind not in kinds:
            raise DataError(
                f"The kind (type) of the replicates must be one of {', '.join(kinds)}, as the survey's "
                f"documentation says. Got {self.kind!r}."
            )
        if self.scale is None and self.kind not in scales:
            raise DataError(f"Replicates of kind {self.kind!r} need a scale.")
        scale = np.asarray(scales[self.kind] if self.scale is None else self.scale, dtype=np.float64)
        if scale.shape not in ((), (1,), (n,)) or not (scale >= 0).all():
            raise DataError(f"The scale and rho must make one number, or one for each of {n} replicates.")
        values = np.linalg.eigvalsh(replicates.T @ replicates)
        freedom = float((values > _NEGLIGIBLE * values[-1]).sum() - 1)
        nobody = np.zeros(weight.size, dtype=np.intp)
        return Sample(weight, nobody, nobody[:1], freedom, replicates, np.broadcast_to(scale, n))

    def mean(self, y: Any, by: Any = None) -> pd.DataFrame:
        """Means, and shares of categories, of everybody or in groups.

        Parameters
        ----------
        y : table or array, or a list of imputed tables
            A row per person; of columns that are no numbers, the share of each value is found.
            Several tables, of imputations or plausible values, are pooled by Rubin's rules.
        by : array-like, optional
            The group of each person; people without a group do not count.

        Returns
        -------
        DataFrame
            By variable and group: ``count`` of people, ``estimate``, ``se``, ``low`` and ``high``
            (95 %), ``df``, ``deff``, the design effect: how many times the variance is that of as
            many people drawn at random; and of several tables ``fmi``, as :func:`pool` has it.
        """
        found, names, groups = self._moments(y, by)
        wanted = np.eye(len(groups), len(groups) + 1)
        index = pd.Index(names) if by is None else pd.MultiIndex.from_product([names, groups])
        count, effect = (
            np.mean([part[:-1] for part in parts], axis=0).T.ravel()
            for parts in ([one.every.people for one in found], [one.effect for one in found])
        )
        made = _pooled([one.contrast(wanted) for one in found], index).assign(deff=effect)
        made.insert(0, "count", np.round(count).astype(int))
        return made

    def difference(self, y: Any, by: Any, reference: Hashable | None = None) -> pd.DataFrame:
        """Means of groups less that of a reference: by default the first group.

        Parameters
        ----------
        y, by
            See :meth:`mean`.
        reference : optional

        Returns
        -------
        DataFrame
            By variable and group: ``estimate``, ``se``, ``low``, ``high``, ``df`` and ``p``.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> design = orbm.SurveyDesign(clusters=[1, 1, 2, 2, 3, 3])
        >>> design.difference({"hours": [1, 2, 4, 5, 3, 2]}, ["f", "m"] * 3).round(2)[["estimate", "se"]]
                 estimate    se
        hours m      0.33  0.67
        """
        found, names, groups = self._moments(y, by)
        base = groups[0] if reference is None and groups else reference
        if base not in groups:
            raise DataError(f"There is no group {base!r} to compare with; give one of {groups}.")
        others = [g for g, name in enumerate(groups) if name != base]
        every = np.eye(len(groups), len(groups) + 1)
        index = pd.MultiIndex.from_product([names, [groups[g] for g in others]])
        made = _pooled([one.contrast(every[others] - every[groups.index(base)]) for one in found], index)
        return made.assign(p=2.0 * stats.t.sf(np.abs(made["estimate"] / made["se"]), made["df"]))

    def _moments(self, y: Any, by: Any) -> tuple[list[GroupMoments], list[Any], list[Hashable]]:
        """Moments of each table, names of the variables, and groups."""
        n = self.sample.weight.size
        several = isinstance(y, list) and len(y) > 0 and np.ndim(y[0]) > 0
        tables = [_numeric(one) for one in (y if several else [y])]
        category = pd.Categorical(np.zeros(n) if by is None else by).remove_unused_categories()
        for what, length in (*(("y", len(one)) for one in tables), ("by", len(category))):
            if length != n:
                raise DataError(
                    f"{what} has {length:,} rows, but the design {n:,}; give one for each person."
                )
        code, groups = category.codes.astype(np.intp), category.categories.tolist()
        if not groups:
            raise DataError("by names no group; give the group of each person.")
        values = [one.reindex(columns=tables[0].columns).to_numpy(np.float64) for one in tables]
        found = [group_moments(one, code, len(groups), self.sample) for one in values]
        return found, tables[0].columns.tolist(), groups


def _numeric(y: Any) -> pd.DataFrame:
    """Numbers, and indicators of the values of other columns; NaN where missing."""
    table = y.to_frame() if isinstance(y, pd.Series) else pd.DataFrame(y)
    made: dict[Any, Any] = {}
    for name, column in table.items():
        if pd.api.types.is_numeric_dtype(column) and column.dtype != bool:
            made[name] = column.to_numpy(np.float64, na_value=np.nan)
            continue
        values = column.astype("category")
        made |= {f"{name}: {v}": (values == v).where(values.notna()) for v in values.cat.categories}
    return pd.DataFrame(made, dtype=np.float64)


def _pooled(found: list[tuple[np.ndarray, np.ndarray, np.ndarray]], index: pd.Index) -> pd.DataFrame:
    """One line for each quantity; over imputations by Rubin's rules."""
    estimates, errors, freedom = ([part.T.ravel() for part in parts] for parts in zip(*found, strict=True))
    if len(found) > 1:
        return pool(estimates, errors, df_complete=np.mean(freedom, axis=0)).set_index(index)
    half = stats.t.ppf(0.975, np.where(freedom[0] > 0, freedom[0], np.nan)) * errors[0]
    parts = (estimates[0], errors[0], estimates[0] - half, estimates[0] + half, freedom[0])
    return pd.DataFrame(dict(zip(("estimate", "se", "low", "high", "df"), parts, strict=True)), index)


# ---- checks -----------------------------------------------------------------------------------


def checked_weights(what: str, given: Any, shape: tuple[int, ...], least: float = 0.0) -> np.ndarray:
    """Weights of rows: finite, not negative, and not all zero."""
    try:
        weight = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must hold numbers, one per row ({error}).") from error
    if weight.shape != shape:
        raise DataError(
            f"{what} has shape {weight.shape}, but there are {shape[0]} rows; give one number per row."
        )
    bad = ~(np.isfinite(weight) & (weight >= least))
    if bad.any():
        raise DataError(
            f"{what} of row {np.argwhere(bad)[0][0]} (counted from 0) is {weight[bad][0]}; weights must be "
            "finite and not negative: leave the row out or give it weight 0."
        )
    if not weight.any():
        raise DataError(f"{what} is zero for every row; give at least one row some weight.")
    return weight


def _codes(what: str, given: Any, usual: np.ndarray) -> tuple[np.ndarray, Sequence[Hashable]]:
    values = usual if given is None else np.asarray(given)
    if values.shape != usual.shape:
        raise DataError(
            f"{what} has shape {values.shape}, but there are {usual.size} rows; give one for each."
        )
    code, distinct = pd.factorize(values)
    if (code < 0).any():
        raise DataError(f"{what} of row {(code < 0).argmax()} is missing; fill it in or leave the row out.")
    return code, np.asarray(distinct).tolist()

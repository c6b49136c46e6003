"""Polychoric correlations of a table, and the classical factor analysis of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.tables import read_table
from ordinalrbm.engine import thresholds
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.validation import check_choice, check_weights, check_whole
from ordinalrbm.runtime.display import Readable, two_digits
from ordinalrbm.stats import efa
from ordinalrbm.stats.polychoric import Correlations, kish, positive_definite
from ordinalrbm.stats.polychoric import polychoric as all_pairs
from ordinalrbm.stats.rotation import FEWEST_OF_BIFACTOR, ROTATIONS, TARGETED, Rotation, rotate

# Eigenvalues of noise are compared with this quantile of theirs (Glorfeld 1995).
_QUANTILE = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class PolychoricCorrelations(Readable):
    """Correlations of the utilities behind answers on ordered scales.

    Attributes
    ----------
    correlations, standard_errors : DataFrame, questions by questions
        By maximum likelihood for each pair, with thresholds at the marginals (Olsson 1979), and
        their errors by Fisher's information.
    n_common : DataFrame, questions by questions
        How many rows answer both; rows of weight zero do not count.
    n_rows : int
        Of weighted rows, Kish's effective number, (Σ w)² / Σ w².
    """

    correlations: pd.DataFrame
    standard_errors: pd.DataFrame
    n_common: pd.DataFrame
    n_rows: int
    _answers: Observations
    _weight: np.ndarray | None = None

    def _parts(self) -> Iterator[str | pd.DataFrame]:
        yield f"Polychoric correlations of {len(self.correlations)} questions, {self.n_rows:,} rows:"
        yield two_digits(self.correlations)

    def n_factors(self, *, n_sets: int = 20, random_state: int = 0) -> pd.DataFrame:
        """How many factors, by parallel analysis (Horn 1965) and Velicer's MAP (1976).

        Returns
        -------
        DataFrame, a row for each number of factors from 1
            ``eigenvalue`` of the correlations, ``noise``: the 95 % quantile of the same eigenvalue
            where answers of each question are shuffled (``n_sets`` times), ``map``: mean squared
            partial correlation without so many components. ``attrs["parallel"]`` is the number of
            eigenvalues before the first that noise reaches, ``attrs["map"]`` where MAP is smallest.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> food = orbm.datasets.load_food_world_cup().iloc[:, :12]
        >>> orbm.polychoric(food).n_factors(n_sets=3).attrs["map"] >= 1
        True
        """
        check_whole("n_sets", n_sets, 2)
        rng, found = np.random.default_rng(random_state), []
        for _ in range(n_sets):
            found.append(_eigenvalues(correlated(_shuffled(self._answers, rng), self._weight).correlation))
        noise = np.quantile(found, _QUANTILE, axis=0)
        own, n = _eigenvalues(self._definite()), len(self.correlations)
        partials = efa.average_partials(self._definite(), n - 1)
        table = pd.DataFrame(
            {"eigenvalue": own[:-1], "noise": noise[:-1], "map": partials[1:]},
            index=pd.RangeIndex(1, n, name="n_factors"),
        )
        table.attrs["parallel"] = int(np.argmax(np.append(own <= noise, True)))
        table.attrs["map"] = int(np.nanargmin(partials))
        return table

    def factor_analysis(
        self,
        n_factors: int,
        *,
        rotation: Rotation = "oblimin",
        gamma: float = 0.0,
        kaiser: bool = False,
        target: Any = None,
    ) -> FactorAnalysis:
        """Minimum-residual factor analysis, as psych's ``fa`` has by default.

        Parameters
        ----------
        n_factors : int
        rotation, gamma, kaiser, target
            As in :meth:`CumulativeRBM.factor_solution`, but with psych's defaults.

        Returns
        -------
        FactorAnalysis
            ``loadings``, ``correlations`` of the factors, ``fit`` and ``residuals``.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> food = orbm.datasets.load_food_world_cup().iloc[:, :12]
        >>> orbm.polychoric(food).factor_analysis(2).loadings.shape
        (12, 2)
        """
        names = self.correlations.index
        check_whole("n_factors", n_factors, 1)
        if efa.degrees_of_freedom(names.size, n_factors) < 0:
            raise DataError(
                f"{names.size} questions have too few correlations for {n_factors} factors; take fewer."
            )
        target = target_of(target, rotation, names, n_factors)
        given = self._definite()
        loadings = efa.minres(given, n_factors)
        turned = rotate(loadings, rotation, gamma=gamma, kaiser=kaiser, target=target)
        model, df = efa.implied(loadings), efa.degrees_of_freedom(names.size, n_factors)
        factors = [f"Factor {k + 1}" for k in range(n_factors)]
        fit = efa.fit_indices(given, model, self.n_rows, df, n_factors=n_factors)
        return FactorAnalysis(
            pd.DataFrame(turned.pattern, names, factors),
            pd.DataFrame(turned.correlation, factors, factors),
            pd.Series(fit._asdict(), name="fit"),
            pd.DataFrame(given - model, names, names),
        )

    def _definite(self) -> np.ndarray:
        return positive_definite(self.correlations.to_numpy())


@dataclass(frozen=True, eq=False, repr=False)
class FactorAnalysis(Readable):
    """Factors of polychoric correlations, and how well they explain these.

    Attributes
    ----------
    loadings : DataFrame, questions by factors
    correlations : DataFrame, factors by factors
    fit : Series
        ``chi2``, ``df``, ``rmsea``, ``cfi`` and ``tli`` as psych has them, ``srmr`` as lavaan,
        ``rmsr``: the root mean square of the residual correlations.
    residuals : DataFrame, questions by questions
        Correlations less those that the factors explain; the diagonal is zero.
    """

    loadings: pd.DataFrame
    correlations: pd.DataFrame
    fit: pd.Series
    residuals: pd.DataFrame

    def _parts(self) -> Iterator[str | pd.DataFrame]:
        yield f"Loadings of {len(self.loadings)} questions on {len(self.correlations)} factors:"
        yield two_digits(self.loadings)
        yield ", ".join(f"{name} {value:.3g}" for name, value in self.fit.items())
        yield "Pairs with the largest residual correlations:"
        yield largest_residuals(self.residuals)


def largest_residuals(residuals: pd.DataFrame, n: int = 10) -> pd.DataFrame:
    """The pairs of questions whose correlation a model explains least, the largest first."""
    first, second = np.triu_indices(len(residuals), 1)
    values, names = residuals.to_numpy()[first, second], residuals.index.to_numpy()
    order = np.argsort(-np.abs(values))[:n]
    return pd.DataFrame(
        {"first": names[first[order]], "second": names[second[order]], "residual": values[order]}
    )


def polychoric(
    X: Any, *, scales: Any = None, sample_weight: ArrayLike | None = None
) -> PolychoricCorrelations:
    """Polychoric correlations of the questions of a table, each from the rows that answer both.

    Parameters
    ----------
    X : table
        Answers on ordered scales, missing ones as in :meth:`CumulativeRBM.fit`.
    scales : dict of column to labels, optional
        Where levels are not plain numbers and not ordered categories.
    sample_weight : array-like, optional
        Weights of the rows. Standard errors then are those of Kish's effective number of rows.

    Returns
    -------
    PolychoricCorrelations
        ``correlations``, ``standard_errors``; ``n_factors()`` for how many factors there are, and
        ``factor_analysis(n)`` for the factors.

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> found = orbm.polychoric(orbm.datasets.load_food_world_cup().iloc[:, :3])
    >>> found.correlations.shape
    (3, 3)
    """
    table = read_table(X, scales)
    if table.observations.n_columns < 2:
        raise DataError("Correlations need at least two questions on ordered scales.")
    answers = table.observations
    weight = check_weights(sample_weight, answers.n_rows)
    if weight is not None:  # rows that do not count are not there
        answers, weight = answers.take_rows(weight > 0), weight[weight > 0].astype(np.float64)
    names = pd.Index(table.names or [f"x{i}" for i in range(answers.n_columns)])
    correlation, variance, common = correlated(answers, weight)
    return PolychoricCorrelations(
        pd.DataFrame(correlation, names, names),
        pd.DataFrame(np.sqrt(variance), names, names),
        pd.DataFrame(common, names, names),
        answers.n_rows if weight is None else round(kish(weight)),
        answers,
        weight,
    )


def target_of(target: Any, rotation: Rotation, names: Sequence[str], n_factors: int) -> np.ndarray | None:
    """The target of a rotation, a row for each question; raises where the rotation cannot be."""
    check_choice("rotation", rotation, (*ROTATIONS, "bifactor", *TARGETED))
    if rotation == "bifactor" and n_factors < FEWEST_OF_BIFACTOR:
        raise DataError(f"A bifactor rotation needs at least {FEWEST_OF_BIFACTOR} factors, not {n_factors}.")
    if (target is None) == (rotation in TARGETED):
        raise DataError("rotation='target' and 'procrustes' need a target, and no other rotation has one.")
    if target is None:
        return None
    if isinstance(target, pd.DataFrame):
        unknown = next((name for name in target.index if name not in names), None)
        if unknown is not None:
            raise DataError(f"The target has a row {unknown!r}, which is no question; leave it out.")
        target = target.reindex(names)
    try:
        found, wanted = np.asarray(target, dtype=np.float64), (len(names), n_factors)
    except (TypeError, ValueError) as error:
        raise DataError(f"The target must be a table of numbers and gaps ({error}).") from error
    if found.shape != wanted or not np.isfinite(found).any(axis=0).all():
        raise DataError(
            f"The target must have {wanted[0]} rows, the questions, and {wanted[1]} columns, the factors, "
            f"each with some number; got {found.shape}."
        )
    return found


def correlated(answers: Observations, row_weight: np.ndarray | None = None) -> Correlations:
    """The most likely correlations of answers on ordered scales, which nothing is added to."""
    counted = answers
    if row_weight is not None:
        counted = answers.with_weight(np.repeat(row_weight, answers.row_counts).astype(np.float32))
    counts = counted.levels_of_columns(np.arange(answers.n_columns))
    bounds = thresholds.table(thresholds.at_marginals(counts, answers.n_levels), answers.n_levels)
    return all_pairs(answers, bounds, prior=0.0, row_weight=row_weight)


def _shuffled(answers: Observations, rng: np.random.Generator) -> Observations:
    level, column = answers.level.copy(), answers.column
    for i in range(answers.n_columns):
        own = np.flatnonzero(column == i)
        level[own] = level[rng.permutation(own)]
    return replace(answers, level=level)


def _eigenvalues(correlation: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(correlation)[::-1]

"""Whether the model fits: correlations, questions, people, and what it draws beside the answers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ordinalrbm.data.frames import TableLike
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import ORDINAL
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.correlations import correlated, largest_residuals
from ordinalrbm.estimators.factor_analysis import ReadableFactors, column_names
from ordinalrbm.estimators.validation import check_weights, check_whole
from ordinalrbm.runtime.threads import threads
from ordinalrbm.stats.point_estimates import longest_runs, surprise
from ordinalrbm.vector import loadings as reading
from ordinalrbm.vector import posterior, predict, sample
from ordinalrbm.vector.loading_errors import implied_correlations

# Expected scores are cut into so many parts, people by their totals; and draws of the factors.
_CURVE_PARTS, _TOTALS, _N_DRAWS = 10, 20, 10


class ModelFit(ReadableFactors):
    """How well a fitted :class:`CumulativeRBM` explains answers."""

    if TYPE_CHECKING:

        def _given_the_others(
            self, observations: Observations
        ) -> Iterator[tuple[slice, predict.Cells, np.ndarray]]: ...

    def residual_correlations(self, X: Any, *, sample_weight: ArrayLike | None = None) -> pd.DataFrame:
        """Polychoric correlations of the answers less those that the model implies.

        Where one is large, two questions have more in common than the factors: they may ask the same.

        Returns
        -------
        DataFrame, ordered questions by ordered questions
            The diagonal is zero. ``attrs["srmr"]`` is the standardised root mean square residual,
            below 0.05 where a model fits well, and ``attrs["largest"]`` a table of the ten pairs
            that it explains least.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> food = orbm.datasets.load_food_world_cup().iloc[:, :8]
        >>> model = orbm.CumulativeRBM(4, n_epochs=5, random_state=0).fit(food)
        >>> model.residual_correlations(food).attrs["srmr"] < 0.2
        True
        """
        answers = self._read(X)
        weight = check_weights(sample_weight, answers.n_rows)
        levels, own, names = self._ordered(answers)
        scales = Observations.from_dense(levels[:, own], answers.n_levels[own])
        seen = correlated(scales, weight).correlation
        residual = seen - implied_correlations(self.model_, self._population(), own)
        np.fill_diagonal(residual, 0.0)
        found = pd.DataFrame(residual, names, names)
        n_cells = names.size * (names.size + 1) / 2
        found.attrs["srmr"] = float(np.sqrt(0.5 * np.square(residual).sum() / n_cells))
        found.attrs["largest"] = largest_residuals(found)
        return found

    def item_fit(self, X: Any, groups: ArrayLike | None = None) -> pd.DataFrame:
        """How far answers to each ordered question are from what the model expects, by group.

        Parameters
        ----------
        X : table
        groups : array-like, optional
            The group of each row, such as its country; rows without one are left out.

        Returns
        -------
        DataFrame, by question (and group)
            ``rmsd``: root mean squared distance of observed from expected scores, from 0 (lowest
            level) to 1 (highest), along the factors, less what chance adds; PISA takes questions
            above 0.12 as not fitting a country. ``shift``: the mean distance, above zero where answers
            are higher than expected. ``chance``: the distance where the model is true. ``n_answers``.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> food = orbm.datasets.load_food_world_cup().iloc[:, :8]
        >>> model = orbm.CumulativeRBM(2, n_epochs=5, random_state=0).fit(food)
        >>> bool((model.item_fit(food)["rmsd"] < 0.1).all())
        True
        """
        observations = self._read(X)
        levels, own, names = self._ordered(observations)
        group, labels = _grouped(groups, observations.n_rows)
        levels[group < 0] = -1
        cells, shape = predict.chosen_cells(levels >= 0), (own.size, len(labels), _CURVE_PARTS)
        top = np.maximum(observations.n_levels[cells.column] - 1, 1)
        place = levels[levels >= 0] / top
        curve = (np.searchsorted(own, cells.column) * shape[1] + group[cells.row]) * _CURVE_PARTS
        found, seed, this = np.zeros((4, *shape[:2])), self._inference_seed(), self._side(observations)
        with threads(self.n_jobs):
            for state in posterior.draws(self.model_, this, _N_DRAWS, seed, thin=sample.STEPS_BETWEEN):
                chance = predict.probabilities(self.model_, [state], cells)
                level = np.arange(chance.shape[1])
                expected = chance @ level / top
                variance = chance @ level**2 / top**2 - expected**2
                at = curve + np.minimum((expected * _CURVE_PARTS).astype(np.intp), _CURVE_PARTS - 1)
                sums = (np.ones_like(expected), place - expected, variance)
                n, away, noise = (np.bincount(at, one, np.prod(shape)).reshape(shape) for one in sums)
                several = np.maximum(n, 1)
                found += [one.sum(axis=2) for one in (n, away, away**2 / several, noise / several)]
        n_answers = np.where(found[0] > 0, found[0], np.nan)
        shift, square, by_chance = (found[1:] / n_answers).reshape(3, -1)
        index = pd.MultiIndex.from_product([names, labels], names=["question", "group"])
        rmsd = np.sqrt(np.maximum(square - by_chance, 0.0))
        columns = {"rmsd": rmsd, "shift": shift, "chance": np.sqrt(by_chance)}
        table = pd.DataFrame(columns | {"n_answers": found[0].ravel().astype(int) // _N_DRAWS}, index)
        return table.droplevel("group") if groups is None else table

    def predictive_check(self, X: Any, *, n_draws: int = 50) -> pd.DataFrame:
        """Answers on ordered scales beside those that the model draws for the same people.

        Factors and styles are drawn given each row's answers, then an answer for each that was given
        (a posterior predictive check with parameters as they are). Such draws are near the answers
        anyway, so that what is not among them does not fit for certain.

        Returns
        -------
        DataFrame, by statistic
            ``observed``, ``predicted`` (the mean over draws), ``low`` and ``high``, between which are
            95 % of the draws, and ``p``, how often they are as far out. "share": of each level of a
            question; "total": of people by mean place on all scales, from 0 (lowest) to 1;
            "correlation": of two questions' answers. Drawn by ``plots.predictive_check``.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> food = orbm.datasets.load_food_world_cup().iloc[:, :8]
        >>> model = orbm.CumulativeRBM(2, n_epochs=5, random_state=0).fit(food)
        >>> list(model.predictive_check(food, n_draws=20).loc["share"])
        ['observed', 'predicted', 'low', 'high', 'p']
        """
        check_whole("n_draws", n_draws, 2)
        observations = self._read(X)
        levels, own, names = self._ordered(observations)
        n_levels, given, drawn = observations.n_levels[own], levels >= 0, []
        observed = _statistics(levels[:, own], n_levels)
        with threads(self.n_jobs):
            this, cells = self._side(observations), predict.chosen_cells(given)
            for values in sample.gaps(self.model_, this, cells, n_draws, self._inference_seed()):
                levels[given] = values
                drawn.append(_statistics(levels[:, own], n_levels))
        scales = [self.scales_[self.questionnaire_.questions[i]].labels for i in own]
        index = [("share", name, label) for name, scale in zip(names, scales, strict=True) for label in scale]
        index += [("total", "", (bar + 0.5) / _TOTALS) for bar in range(_TOTALS)]
        index += [("correlation", *pair) for pair in combinations(names, 2)]
        tail = np.minimum((drawn >= observed).sum(axis=0), (drawn <= observed).sum(axis=0))
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        columns = {"observed": observed, "predicted": np.mean(drawn, axis=0), "low": low, "high": high}
        columns["p"] = np.minimum(2.0 * (tail + 1) / (n_draws + 1), 1.0)
        named = pd.MultiIndex.from_tuples(index, names=["statistic", "question", "of"])
        return pd.DataFrame(columns, named).dropna()

    def person_fit(self, X: TableLike) -> pd.DataFrame:
        """How well the model explains the answers of each row, to find careless or odd ones.

        Returns
        -------
        DataFrame, a row for each of X
            ``fit``: the standardised log-likelihood of the answers on ordered scales, each given
            nine tenths of the row's others (l_z: Drasgow, Levine and Williams 1985). About standard
            normal among people who answer as the model expects; below −2, answers hardly go
            together. ``longest_run``: of the same answer to questions on the same scale, one after
            the other. ``n_answers``: on ordered scales.

        Examples
        --------
        >>> import numpy as np, ordinalrbm as orbm
        >>> rng = np.random.default_rng(0)
        >>> X = np.clip(rng.integers(1, 6, (200, 1)) + rng.integers(-1, 2, (200, 10)), 1, 5)
        >>> X[:20] = rng.integers(1, 6, (20, 10))
        >>> model = orbm.CumulativeRBM(2, n_epochs=5, random_state=0).fit(X)
        >>> found = model.person_fit(X)
        >>> bool(found["fit"][:20].mean() < found["fit"][20:].mean() - 1)
        True
        """
        observations = self._read(X)
        is_ordinal = self.model_.layout.kind == ORDINAL
        away, variance = np.zeros((2, observations.n_rows))
        for rows, part, found in self._given_the_others(observations):
            chosen = is_ordinal[part.column]
            parts, row = surprise(found[chosen], part.level[chosen]), rows.start + part.row[chosen]
            away, variance = (
                total + np.bincount(row, new, total.size)
                for total, new in zip((away, variance), parts, strict=True)
            )
        levels = observations.to_dense()[:, is_ordinal]
        return pd.DataFrame(
            {
                "fit": np.divide(away, np.sqrt(variance), out=np.full_like(away, np.nan), where=variance > 0),
                "longest_run": longest_runs(levels, observations.n_levels[is_ordinal]),
                "n_answers": (levels >= 0).sum(axis=1),
            },
            index=X.index if isinstance(X, pd.DataFrame) else None,
        )

    def _ordered(self, observations: Observations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Levels, −1 also where a question has no order; which questions have one, and their names."""
        own = np.flatnonzero(self.model_.layout.kind == ORDINAL)
        levels = np.full((observations.n_rows, observations.n_columns), -1, dtype=np.int16)
        levels[:, own] = observations.to_dense()[:, own]
        return levels, own, np.array(column_names(self))[self.questionnaire_.questions][own]


def _grouped(groups: ArrayLike | None, n_rows: int) -> tuple[np.ndarray, list[Any]]:
    """The position of each row's group, −1 where it has none, and the groups."""
    values = pd.Series(["all"] * n_rows if groups is None else np.ravel(np.asarray(groups, dtype=object)))
    if len(values) != n_rows or values.isna().all():
        raise DataError(f"'groups' must have the group of each of the {n_rows} rows of X; got {len(values)}.")
    position, labels = pd.factorize(values, sort=True)
    return position, list(labels)


def _statistics(levels: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """Shares of each question's levels, of people by their mean place on all scales; correlations."""
    known = levels >= 0
    place = np.where(known, levels / np.maximum(n_levels - 1, 1), np.nan)
    counts = [np.bincount(one[one >= 0], minlength=n) for one, n in zip(levels.T, n_levels, strict=True)]
    covariance = reading.pairwise_covariance(place)
    with np.errstate(invalid="ignore", divide="ignore"):  # where nobody answered, or all alike
        shares = [one / one.sum() for one in counts]
        bars = np.histogram(np.nansum(place, axis=1) / known.sum(axis=1), _TOTALS, (0.0, 1.0))[0]
        spread = np.sqrt(covariance.diagonal())
        correlation = (covariance / np.outer(spread, spread))[np.triu_indices(n_levels.size, 1)]
        return np.concatenate([*shares, bars / bars.sum(), correlation])

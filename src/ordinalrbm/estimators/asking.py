"""The next question of an interview."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.ratings import as_list
from ordinalrbm.data.scales import shorten
from ordinalrbm.data.tables import Table
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.factor_analysis import ReadableFactors, factor_names
from ordinalrbm.estimators.validation import check_whole
from ordinalrbm.stats.rotation import Rotation
from ordinalrbm.vector import asking
from ordinalrbm.vector import loadings as reading


class Interviewing(ReadableFactors):
    """Interviews by :class:`CumulativeRBM`."""

    def ask(
        self,
        row: Any = None,
        among: Sequence[Any] | None = None,
        k: int = 1,
        factors: str | Sequence[str] | None = None,
        *,
        until: float | None = None,
        rotation: Rotation = "varimax",
        n_factors: int | None = None,
    ) -> pd.DataFrame:
        """The questions to ask a person next: those whose answers are expected to tell most.

        Parameters
        ----------
        row : dict from question to answer, or Series, optional
            The answers so far, and what is known of the background; by default none.
        among : list of questions, optional
            Candidates; by default all. What has been answered is not asked again.
        k : int, default=1
            How many questions, each as if those before it had been answered.
        factors : str or list of str, optional
            The factors that matter, such as "Factor 1", or "all". By default it is the other
            questions that matter: what these would be answered.
        until : float, optional
            A standard error that is to be reached: questions are chosen by how far those of the
            factors are expected to fall towards it. Where all have reached it, nothing is returned.
        rotation, n_factors
            See :meth:`factor_solution`, whose factors these are.

        Returns
        -------
        DataFrame, the best question first
            ``question``; ``text``, where it is known; ``information``, the share that the answer is
            expected to explain of what is not known yet of the factors, or of the variance of the
            utilities behind all other questions without an answer; ``standard_error``, expected
            after the answer (of several factors the root mean square). ``attrs``
            has ``scores`` and ``standard_errors`` of the factors now, as :meth:`scores` has them.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> food = orbm.datasets.load_food_world_cup().iloc[:200, :8]
        >>> model = orbm.CumulativeRBM(3, n_epochs=2, random_state=0).fit(food)
        >>> first = model.ask(factors="all", n_factors=1)
        >>> name = first["question"][0]
        >>> second = model.ask({name: food[name].max()}, factors="all", n_factors=1)
        >>> second.attrs["standard_errors"]["Factor 1"] < first.attrs["standard_errors"]["Factor 1"]
        True
        """
        check_whole("k", k, 1)
        if until is not None and (factors is None or not until > 0):
            raise DataError(
                f"until={until!r} must be a positive standard error, of the factors= to be known."
            )
        answers, model = self._read(self._so_far(row)), self.model_
        names = [self._keys()[j] for j in self.questionnaire_.questions]
        is_open = answers.to_dense()[0] < 0
        if among is not None:
            is_open &= np.isin(np.arange(len(names)), _places(among, names, "question"))
        reader, inside = self._by_background()
        model, styles = inside.model, asking.styles_of(inside.model, reader._side(answers))
        given, own, labels = self._to_be_known(factors, rotation, n_factors, answers)
        targets = given @ inside.turn
        counts = own[:, None] != np.arange(len(names))  # what a question tells of itself does not
        now, found = None, []
        while True:
            variance, reduction = asking.expected_reduction(model, styles, targets)
            now = variance if now is None else now
            left = counts & (np.sqrt(variance) > (until or 0.0))[:, None]
            worth = reduction
            if until is not None:  # standard errors, which need not fall below it
                after = np.maximum(variance[:, None] - reduction, until**2)
                worth = np.sqrt(variance)[:, None] - np.sqrt(after)
            worth = (worth * left).sum(axis=0)
            best = int(np.where(is_open, worth, -np.inf).argmax())
            whole = (np.ones_like(variance) if factors is None else variance) @ left[:, best]
            if whole <= 0.0 or not is_open[best]:
                break
            error = np.sqrt(np.mean(variance - reduction[:, best]))
            found.append((names[best], reduction[:, best] @ left[:, best] / whole, error))
            if len(found) == k:
                break
            styles = asking.once_answered(model, styles, best)
            is_open[best], counts[own == best] = False, False
        result = pd.DataFrame(found, columns=["question", "information", "standard_error"])
        texts = self._questions()
        if texts:
            result.insert(1, "text", [texts.get(str(name), "") for name in result["question"]])
        if factors is None:
            return result.drop(columns="standard_error")
        expected = inside.factors(np.sum([style.share * style.factors for style in styles], axis=0))
        scores = given @ (expected - self._population().mean)
        for name, values in (("scores", scores), ("standard_errors", np.sqrt(now))):
            result.attrs[name] = dict(zip(labels, values.tolist(), strict=True))
        return result

    def _keys(self) -> list[Any]:
        check_is_fitted(self, "model_")
        return list(getattr(self, "feature_names_in_", range(self.n_features_in_)))

    def _so_far(self, row: Any) -> Any:
        if row is not None and not isinstance(row, Mapping | pd.Series):
            raise DataError(
                "The answers of one person are a dict or a Series; of a table give table.iloc[0]."
            )
        keys, given = self._keys(), {} if row is None else dict(row)
        _places(given, keys, "column")
        values = np.array([[given.get(key) for key in keys]], dtype=object)
        return Table("array", values, keys if isinstance(keys[0], str) else None, 1, len(keys))

    def _to_be_known(
        self, factors: Any, rotation: Rotation, n_factors: int | None, answers: Observations
    ) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Projections of the factors, the question that each belongs to, if any, and their names."""
        model, people = self.model_, self._population()
        if factors is None:
            weights = reading.contrasts(model, people.mean) @ model.weights.astype(np.float64)
            spread, question = reading.utility_spread(weights @ people.root), model.layout.question
            left = np.flatnonzero(answers.to_dense()[0][question] < 0)
            return weights[left] / spread[left, None], question[left], []
        settings, kept = (rotation, n_factors), self.__dict__.get("_kept_solution")
        if kept is None or kept[0] is not model or kept[1] != settings:  # to rotate takes longer than to ask
            kept = model, settings, self._solution(people, rotation, n_factors)
            self.__dict__["_kept_solution"] = kept
        labels = factor_names(kept[2])
        chosen = labels if factors == "all" else as_list(factors)
        return kept[2].projection[_places(chosen, labels, "factor")], np.full(len(chosen), -1), chosen


def _places(chosen: Iterable[Any], known: list[Any], what: str) -> list[int]:
    """Positions of those chosen; refuses what is not known."""
    unknown = [one for one in chosen if one not in known]
    if unknown:
        raise DataError(f"There is no {what} {unknown[0]!r}; give some of {shorten(known)}.")
    return [known.index(one) for one in chosen]

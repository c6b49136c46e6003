"""Rotated factors with names that say what they are about, and the correlations that they imply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from markupsafe import Markup
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform

from ordinalrbm.estimators.factor_analysis import FactorReading
from ordinalrbm.estimators.poles import answer_at, cut, in_short, with_answer
from ordinalrbm.pages.page import Label, Table, brief
from ordinalrbm.plots.style import printable, shortened
from ordinalrbm.vector.loadings import cronbach_alpha

N_FACTORS_TOLD = 8
_SHORT = 40  # letters of a question where a factor is one of a list
_AT_A_POLE = 2  # questions that say what an end of a factor is
_WORTH_SHOWING = 0.3  # of a loading (a common rule)
MOST_ROWS = 40  # of the heat map
_ROW_WIDTH = 32  # letters of their labels


class NamedFactor(NamedTuple):
    """A rotated factor."""

    place: int  # among the model's rotated factors
    name: str  # "Factor 1"
    label: Label  # what people who are high on it answer
    full: str  # both in one
    short: str  # the same for lists
    explained: float  # share of the total variance of the utilities
    low: Markup  # what people at either end answer to the strongest questions
    high: Markup
    rests: np.ndarray  # (Q,) shares of the questions in its squared loadings, of all categories


def named_factors(reading: FactorReading, labels: Mapping[str, Label]) -> list[NamedFactor]:
    """Factors worth telling, named by the questions that load on them most.

    At least one, where any question loads on any factor at all.
    """
    return [_named(reading, factor, labels) for factor in reading.telling()]


def _named(reading: FactorReading, factor: str, labels: Mapping[str, Label]) -> NamedFactor:
    loadings = reading.loadings[factor].to_numpy()
    names = [str(name) for name in reading.loadings.index]
    texts = {name: label.text for name, label in labels.items()}
    text = printable(reading.name(factor, texts=texts))
    short = reading.name(factor, 1, texts=texts, width=_SHORT)
    squares = pd.Series(loadings**2).groupby(list(map(reading.question, names)), sort=False).sum()
    return NamedFactor(
        reading.factors.index(factor),
        factor,
        Label(text, factor),
        f"{factor} ({text})",
        f"{factor} ({printable(short)})",
        float(reading.reliability.loc[factor, "explained"]),
        _pole(reading, factor, texts, -1),
        _pole(reading, factor, texts, 1),
        (squares / squares.sum()).to_numpy(),
    )


def _pole(reading: FactorReading, factor: str, texts: Mapping[str, str], sign: int) -> Markup:
    """What people at one end of a factor answer; of plain numbers, whether they are high or low."""
    parts = []
    strongest = list(reading.strongest(factor, _AT_A_POLE).items())[:_AT_A_POLE]
    short = in_short({item: texts.get(item, item) for item in texts}, _SHORT)
    for item, loading in strongest:
        is_scale = reading.question(item) == item and not reading.is_number(item)
        levels = reading.ends(item, factor).columns.tolist() if is_scale else []
        answer = answer_at(levels, sign * loading) or ("high" if sign * loading > 0 else "low")
        parts.append(printable(with_answer(brief(short.get(item, item)), cut(answer, _SHORT))))
    return Markup(" and ").join(Markup("“<bdi>{}</bdi>”").format(part) for part in parts)


def factor_table(
    reading: FactorReading, factors: list[NamedFactor], answers: pd.DataFrame, weight: np.ndarray | None
) -> Table:
    """What lies at both ends of each factor, what it explains, and how reliable its questions are.

    ``answers`` are places of levels, NaN where missing.
    """
    rows = []
    for one in factors:
        own = [item for item in reading.items(one.name) if item in answers]
        key = np.sign(reading.loadings.loc[own, one.name].to_numpy())
        with np.errstate(invalid="ignore", divide="ignore"):  # nobody has answered two of them
            alpha = cronbach_alpha(answers[own].to_numpy(), key, weight)
        line = reading.reliability.loc[one.name]
        rows.append((one.name, one.low, one.high, one.explained, int(line["items"]), line["omega"], alpha))
    head = ("factor", "low end", "high end", "variance explained", "questions", "omega (ω)", "alpha (α)")
    return Table(head, rows, ("", "", "", ".1%", "d", ".2f", ".2f"))


def loadings_table(
    reading: FactorReading, factors: list[NamedFactor], labels: Mapping[str, Label]
) -> tuple[Table, int]:
    """Loadings of 0.30 or more, sorted by factor and size, with communalities; and how many have none."""
    told = [one.name for one in factors]
    table = reading.table()
    size = table[told].abs().max(axis=1) if told else table["communality"] * 0.0
    large = table[size >= _WORTH_SHOWING]
    rows = [
        (labels[str(item)], *(x if abs(x) >= _WORTH_SHOWING else None for x in line), communality)
        for item, *line, communality in large[[*told, "communality"]].itertuples(name=None)
    ]
    return Table(("question", *told, "h²"), rows, ("", *["+.2f"] * len(told), ".2f")), len(table) - len(rows)


def telling_curves(reading: FactorReading, labels: Mapping[str, Label]) -> dict[str, pd.DataFrame]:
    """Item response curves of the question that loads most on each factor that is told, by its text."""
    curves = {}
    for factor in reading.telling()[:N_FACTORS_TOLD]:
        by_size = reading.loadings[factor].abs().sort_values(ascending=False, kind="stable")
        item = next((str(name) for name in by_size.index if not reading.is_number(str(name))), None)
        if item is not None:
            curves[labels[reading.question(item)].plain] = reading.curves(item, factor)
    return curves


# ---- what goes together ------------------------------------------------------------------------


class Related(NamedTuple):
    """Correlations between questions that the model implies, on a latent scale."""

    texts: list[str]
    correlation: np.ndarray

    @classmethod
    def of(cls, reading: FactorReading, texts: Mapping[str, str], directions: Mapping[str, int]) -> Self:
        """Those of the questions with ``texts``; scales that run towards "no" count backwards."""
        names = [str(name) for name in reading.loadings.index if str(name) in texts]
        loadings = reading.loadings.loc[names].to_numpy()
        loadings = loadings * np.array([directions.get(name) or 1 for name in names])[:, None]
        correlation = np.clip(loadings @ reading.correlations.to_numpy() @ loadings.T, -1.0, 1.0)
        np.fill_diagonal(correlation, 1.0)
        return cls([brief(texts[name]) for name in names], correlation)

    @property
    def closest(self) -> tuple[str, str, float] | None:
        """The two questions with the strongest correlation, and that."""
        if len(self.texts) < 2:
            return None
        size = np.abs(np.triu(self.correlation, 1))
        i, j = np.unravel_index(size.argmax(), size.shape)
        return self.texts[i], self.texts[j], float(self.correlation[i, j])

    def merged(self, most: int = MOST_ROWS) -> Related:
        """At most so many rows, those that go together as neighbours.

        Of more questions, those that go together most share a row, which is named after the one
        nearest to the others; its correlations are means.
        """
        if len(self.texts) < 2:
            return self
        groups = [[i] for i in range(len(self.texts))]
        if len(self.texts) > most:
            cluster = fcluster(_tree(self.correlation, ordered=False), most, "maxclust")
            groups = [np.flatnonzero(cluster == c).tolist() for c in np.unique(cluster)]
        member = np.zeros((len(self.texts), len(groups)))
        for g, own in enumerate(groups):
            member[own, g] = 1.0 / len(own)
        between = member.T @ self.correlation @ member
        texts = [self._named(own) for own in groups]
        order = leaves_list(_tree(between))
        return type(self)([texts[g] for g in order], between[np.ix_(order, order)])

    def _named(self, own: list[int]) -> str:
        nearest = own[int(self.correlation[np.ix_(own, own)].sum(axis=1).argmax())]
        more = f" (+{len(own) - 1} more)" if len(own) > 1 else ""
        return shortened(self.texts[nearest], _ROW_WIDTH - len(more)) + more


def _tree(similarity: np.ndarray, *, ordered: bool = True) -> np.ndarray:
    """Hierarchical clustering of what is similar; if ``ordered``, neighbours are as alike as can be."""
    distance = np.clip(1.0 - 0.5 * (similarity + similarity.T), 0.0, None)
    np.fill_diagonal(distance, 0.0)
    return linkage(squareform(distance, checks=False), "average", optimal_ordering=ordered)

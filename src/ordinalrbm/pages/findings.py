"""The first screen of a survey's page: what was found, in words and as a heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib import colormaps
from matplotlib.colors import to_hex
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import squareform

from ordinalrbm.estimators.factor_analysis import FactorReading
from ordinalrbm.pages.factors import NamedFactor
from ordinalrbm.pages.page import brief, shown
from ordinalrbm.plots.style import shortened

MOST_ROWS = 40
_N_FACTORS_TOLD = 2
_STEPS = 10  # shades of a correlation to either side of zero
_LABEL_WIDTH, _LETTERS = 200, 32
_SIDE, _SMALLEST_CELL, _LARGEST_CELL = 520, 13, 30
_SELF = "#8a8a8a"  # of the diagonal


# ---- in words ---------------------------------------------------------------------------------


def sentences(
    facts: Mapping[str, Any],
    factors: Sequence[NamedFactor],
    closest: tuple[str, str, float] | None,
    hidden: Mapping[str, Any] | None,
    leader: Mapping[str, Any] | None,
) -> list[Markup]:
    """Three to five sentences: who answered, factors, the closest pair, predictions and groups."""
    found = [
        Markup("{:,} respondents answered {:,} question{}; {} of all possible answers were given.").format(
            facts["n_rows"],
            facts["n_questions"],
            "" if facts["n_questions"] == 1 else "s",
            shown(facts["share_answered"], ".0%"),
        )
    ]
    if factors:
        told = [
            Markup("{} ({} of total variance) runs from {} to {}").format(
                one.name, shown(one.explained, ".0%"), one.low, one.high
            )
            for one in factors[:_N_FACTORS_TOLD]
        ]
        found.append(Markup("Respondents differ most on these factors: {}.").format(Markup("; ").join(told)))
    if closest is not None:
        *pair, r = closest
        found.append(
            Markup("The most closely related questions are <bdi>{}</bdi> and <bdi>{}</bdi> (r = {}).").format(
                *pair, shown(r, ".2f")
            )
        )
    if hidden is not None:
        whole = hidden["overall"]
        found.append(
            Markup(
                "From a person’s other answers the model predicts {} of hidden answers exactly; always "
                "giving a question’s most common answer gets {} right (n = {:,})."
            ).format(
                shown(whole["model_hits"], ".0%"), shown(whole["usual_hits"], ".0%"), int(whole["count"])
            )
        )
    if leader is not None:
        found.append(
            Markup(
                "Of the background variables, {} separates respondents most: it explains {} of the "
                "variance of {} (95% CI {} to {}), with <bdi>{}</bdi> highest and <bdi>{}</bdi> lowest."
            ).format(
                leader["label"],
                shown(leader["test"].omega, ".1%"),
                leader["factor"],
                shown(leader["test"].low, ".1%"),
                shown(leader["test"].high, ".1%"),
                leader["highest"],
                leader["lowest"],
            )
        )
    return found


# ---- what goes together -----------------------------------------------------------------------


class Related(NamedTuple):
    """Correlations between questions that the model implies, on a latent scale."""

    texts: list[str]
    correlation: np.ndarray

    @classmethod
    def of(cls, reading: FactorReading, texts: Mapping[str, str], directions: Mapping[str, int]) -> Related:
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
            cluster = fcluster(_tree(self.correlation), most, "maxclust")
            groups = [np.flatnonzero(cluster == c).tolist() for c in np.unique(cluster)]
        member = np.zeros((len(self.texts), len(groups)))
        for g, own in enumerate(groups):
            member[own, g] = 1.0 / len(own)
        between = member.T @ self.correlation @ member
        texts = [self._named(own) for own in groups]
        order = leaves_list(_tree(between, ordered=True))
        return Related([texts[g] for g in order], between[np.ix_(order, order)])

    def _named(self, own: list[int]) -> str:
        nearest = own[int(self.correlation[np.ix_(own, own)].sum(axis=1).argmax())]
        more = f" (+{len(own) - 1} more)" if len(own) > 1 else ""
        return shortened(self.texts[nearest], _LETTERS - len(more)) + more


def _tree(correlation: np.ndarray, *, ordered: bool = False) -> np.ndarray:
    distance = np.clip(1.0 - correlation, 0.0, None)
    np.fill_diagonal(distance, 0.0)
    return linkage(squareform(distance, checks=False), "average", optimal_ordering=ordered)


def heat_map(related: Related) -> dict[str, object] | None:
    """The picture of correlations, as paths of one colour each; None of fewer than two questions."""
    n = len(related.texts)
    if n < 2:
        return None
    cell = int(np.clip(_SIDE / n, _SMALLEST_CELL, _LARGEST_CELL))
    step = np.rint(related.correlation * _STEPS).astype(int)
    paths: dict[str, list[str]] = {}
    for (i, j), k in np.ndenumerate(step):
        colour = _SELF if i == j else _shade(k / _STEPS)
        paths.setdefault(colour, []).append(f"M{_LABEL_WIDTH + j * cell} {i * cell}h{cell}v{cell}h-{cell}z")
    return {
        "cell": cell,
        "left": _LABEL_WIDTH,
        "size": n * cell,
        "labels": related.texts,
        "paths": {colour: "".join(parts) for colour, parts in paths.items()},
        "legend": [(value / 10, _shade(value / 10)) for value in range(-10, 11, 2)],
        "values": np.round(related.correlation, 2).tolist(),
    }


def _shade(correlation: float) -> str:
    return to_hex(colormaps["RdBu"](0.5 + 0.45 * correlation))

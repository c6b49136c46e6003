"""The first screen of a survey's page: which questions go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, leaves_list

from ordinalrbm.estimators.factor_analysis import FactorReading
from ordinalrbm.pages.page import brief
from ordinalrbm.plots.maps import tree
from ordinalrbm.plots.style import shortened

MOST_ROWS = 40
_LETTERS = 32  # of a label


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
            cluster = fcluster(tree(self.correlation, ordered=False), most, "maxclust")
            groups = [np.flatnonzero(cluster == c).tolist() for c in np.unique(cluster)]
        member = np.zeros((len(self.texts), len(groups)))
        for g, own in enumerate(groups):
            member[own, g] = 1.0 / len(own)
        between = member.T @ self.correlation @ member
        texts = [self._named(own) for own in groups]
        order = leaves_list(tree(between))
        return Related([texts[g] for g in order], between[np.ix_(order, order)])

    def _named(self, own: list[int]) -> str:
        nearest = own[int(self.correlation[np.ix_(own, own)].sum(axis=1).argmax())]
        more = f" (+{len(own) - 1} more)" if len(own) > 1 else ""
        return shortened(self.texts[nearest], _LETTERS - len(more)) + more

"""Lists in another order: less alike, with as much of each category as a user likes, or by one draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.data.features import CodedColumn, Features
from ordinalrbm.data.ratings import as_list
from ordinalrbm.errors import DataError
from ordinalrbm.matrix.top_n import Best, in_order
from ordinalrbm.schema.schema import did_you_mean

# So many candidates are put in another order: of each list as many times its length, and no fewer.
_TIMES, _FEWEST = 10, 100
# Of a calibrated list, how much the distance of distributions counts beside the mean score of its
# items, and what the wanted distribution adds to that of the list (Steck 2018).
_CALIBRATION, _SMOOTHING = 0.5, 0.01
_TINY = 1e-12


class Reordering(NamedTuple):
    """How candidates become a list."""

    diversity: float
    factors: np.ndarray  # (items, K), by which items are alike
    categories: csr_array  # (items, categories) shares that sum to one; none where lists are not calibrated
    wanted: Callable[[int], np.ndarray]  # (categories,) shares that the user in a place of the query likes

    @staticmethod
    def n_candidates(n: int) -> int:
        """How many items a list of n is chosen from."""
        return max(_TIMES * n, _FEWEST)

    def of(self, best: Best, n: int) -> Best:
        """The n best of candidates, chosen one after the other; the scores stay theirs."""
        found = []
        for one in np.split(np.arange(best.query.size), np.flatnonzero(np.diff(best.query)) + 1):
            if one.size:
                found.append(one[self._chosen(best.item[one], best.score[one], int(best.query[one[0]]), n)])
        which = np.concatenate(found) if found else np.arange(0)
        rank = np.concatenate([np.arange(1, part.size + 1) for part in found] or [which])
        return Best(best.query[which], best.item[which], rank, best.score[which])

    def _chosen(self, item: np.ndarray, score: np.ndarray, query: int, n: int) -> np.ndarray:
        score = score.astype(np.float64)
        relevance = (score - score.min()) / (np.ptp(score) or 1.0)
        own = self.factors[item].astype(np.float64)
        own /= np.sqrt((own * own).sum(axis=1, keepdims=True)) + _TINY
        alike, is_open = np.zeros(item.size), np.ones(item.size, dtype=bool)
        shares, target, chosen = self.categories[item].toarray(), self.wanted(query), list[int]()
        total = np.zeros(target.size)
        for _ in range(min(n, item.size)):
            gain = (1.0 - self.diversity) * relevance - self.diversity * alike
            if target.any():
                away = _divergence(target, total + shares, len(chosen) + 1)
                gain = (1.0 - _CALIBRATION) * gain - _CALIBRATION * away
            k = int(np.where(is_open, gain, -np.inf).argmax())
            chosen.append(k)
            is_open[k], alike, total = False, np.maximum(alike, own @ own[k]), total + shares[k]
        return np.array(chosen)


def _divergence(target: np.ndarray, total: np.ndarray, n: int) -> np.ndarray:
    """Kullback and Leibler's, of the shares that are wanted from those in each of some lists."""
    there = target > 0.0
    own = (1.0 - _SMOOTHING) * total[:, there] / n + _SMOOTHING * target[there]
    return (target[there] * np.log(target[there] / own)).sum(axis=1)


def categories_of(items: Features | None, name: str) -> csr_array:
    """(items, categories) of a column of their features; several of an item share a one."""
    column, where = _coded(items, name)
    if items is None or column.kind != "category":
        raise DataError(f"The item feature {name!r} has no categories; calibrate= takes a column of text.")
    table = csr_array(items.table[:, where])
    counts = table.sum(axis=1)
    return csr_array(table.multiply((1.0 / np.maximum(counts, 1.0))[:, None]))


def mask_of(items: Features | None, where: Mapping[str, Any]) -> np.ndarray:
    """(items,) which have all these features: of a column, one category or one of several."""
    found = []
    for name, wanted in where.items():
        column, place = _coded(items, name)
        if items is None or column.kind == "number":
            raise DataError(
                f"The item feature {name!r} has no categories to choose by; give the items as items=."
            )
        table = items.table[:, place].toarray()
        if column.kind == "boolean":
            if not isinstance(wanted, bool | np.bool_):
                raise DataError(f"The item feature {name!r} is true or false, not {wanted!r}.")
            # What is true is above the mean, what is false below it, and what is not known is at the mean.
            found.append(table[:, 0] > 0.0 if wanted else table[:, 0] < 0.0)
            continue
        texts = list(map(str, as_list(wanted)))
        for text in texts:
            if text not in column.categories:
                guess = did_you_mean(text, column.categories)
                raise DataError(f"No item has the {name} {text!r} that the model knows{guess}.")
        found.append((table[:, [column.categories.index(text) for text in texts]] > 0.5).any(axis=1))
    return np.all(found, axis=0)


def _coded(items: Features | None, name: str) -> tuple[CodedColumn, slice]:
    """A column of item features, and where its features are, but for the one that marks missing values."""
    columns = () if items is None else items.coding.columns
    first = 0
    for column in columns:
        if column.name == name:
            return column, slice(first, first + (len(column.categories) or 1))
        first += len(column.feature_names)
    if items is None:
        raise DataError("The model knows no features of items; fit() it with item_features=.")
    names = [column.name for column in columns]
    raise DataError(f"There is no item feature {name!r}{did_you_mean(name, names)}; there are {names}.")


def without(best: Best, pairs: np.ndarray, n: int) -> Best:
    """At most n of each list, without the items of some pairs of a place of the query and an item."""
    width = 1 + max(best.item.max(initial=0), pairs[:, 1].max(initial=0))
    stays = ~np.isin(best.query * width + best.item, pairs[:, 0] * width + pairs[:, 1])
    query = best.query[stays]
    rank = 1 + np.arange(query.size) - np.searchsorted(query, query)
    few = rank <= n
    return Best(query[few], best.item[stays][few], rank[few], best.score[stays][few])


def drawn_lists(lists: list[Best], n_queries: int, n_items: int, seed: Any) -> Best:
    """Of the lists by each draw one for each query; propensities are shares of draws that show an item."""
    pick = np.random.default_rng(seed).integers(len(lists), size=n_queries)
    pairs = [best.query.astype(np.int64) * n_items + best.item for best in lists]
    shown, counts = np.unique(np.concatenate(pairs), return_counts=True)
    found = in_order(
        [Best(*(part[pick[best.query] == k] for part in best[:4])) for k, best in enumerate(lists)]
    )
    own = found.query.astype(np.int64) * n_items + found.item
    return found._replace(propensity=counts[np.searchsorted(shown, own)] / len(lists))

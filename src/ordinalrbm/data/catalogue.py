"""The users, the items and the scales of a rating matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from ordinalrbm.data.ids import Ids
from ordinalrbm.data.observations import Cells
from ordinalrbm.data.scales import Scale
from ordinalrbm.errors import DataError


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """Who and what is known, and on which scales items are rated.

    Examples
    --------
    >>> ids = Ids(np.array([10, 20]))
    >>> catalogue = Catalogue(ids, ids, Scale((1, 2, 3)), Scale((1, 2, 3)))
    >>> catalogue.cells(20, [10, 30]).column.tolist()
    [0, -1]
    >>> catalogue.expected(np.array([[0.5, 0.1, 0.4]]), np.array([0])).tolist()
    [1.9]
    """

    users: Ids
    items: Ids
    scales: Scale | tuple[Scale, ...]  # one for all items, or one per item where they differ
    # What ratings of unknown items are read with; None when each item has a scale of its own.
    default_scale: Scale | None

    @property
    def n_users(self) -> int:
        """Number of users, those without ratings in a sparse matrix included."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    def lookup(self, labels: Any, what: str) -> np.ndarray:
        """Positions of a single id or of many, -1 for the unknown; `what` is "user" or "item"."""
        ids = self.users if what == "user" else self.items
        return ids.lookup(as_list(labels), what)

    def cells(self, users: Any, items: Any) -> Cells:
        """The cells of users and items, pair by pair; a single id stands for all."""
        row, column = self.lookup(users, "user"), self.lookup(items, "item")
        if is_single(users):
            row = np.repeat(row, column.size)
        elif is_single(items):
            column = np.repeat(column, row.size)
        if row.size != column.size:
            raise DataError(
                f"There are {row.size} users and {column.size} items; give as many of each, pair "
                "by pair, or a single id."
            )
        return Cells(row, column, np.zeros(row.size, dtype=np.int8))

    # Scales

    def scale_of(self, item: int) -> Scale:
        return self.scales if isinstance(self.scales, Scale) else self.scales[item]

    def distinct(self, *further: Scale) -> tuple[list[Scale], np.ndarray]:
        """The different scales, and which of them each item and each further scale is on."""
        if isinstance(self.scales, Scale):
            return [self.scales], np.zeros(self.n_items + len(further), dtype=np.int64)
        known: dict[Scale, int] = {}
        which = [known.setdefault(scale, len(known)) for scale in (*self.scales, *further)]
        return list(known), np.array(which, dtype=np.int64)

    def cold_start_scale(self) -> Scale:
        """The scale on which an unknown item is predicted.

        Of a scale that is longer than any item's, nothing could be learnt.
        """
        longest = max(self.distinct()[0], key=lambda scale: scale.n_levels)
        common = self.default_scale
        return longest if common is None or common.n_levels > longest.n_levels else common

    def level_counts(self) -> np.ndarray:
        """(items,) number of levels of each item."""
        distinct, of_item = self.distinct()
        return np.array([scale.n_levels for scale in distinct], dtype=np.int32)[of_item]

    # Ratings of cells, whose columns may be unknown

    def decode(self, levels: Any, columns: Any) -> np.ndarray:
        """The ratings behind levels of items (positions); level -1 becomes missing."""
        distinct, which = self._scales_of(np.asarray(columns))
        levels = np.asarray(levels)
        if len(distinct) == 1:
            return distinct[0].decode(levels)
        numeric = all(scale.is_numeric for scale in distinct)
        labels = np.empty(which.size, dtype=np.float64 if numeric else object)
        for k, scale in enumerate(distinct):
            labels[which == k] = scale.decode(levels[which == k])
        return labels

    def expected(self, distribution: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """(cells,) mean of each distribution (cells, L) over the levels of an item."""
        distinct, which = self._scales_of(columns)
        expected = np.empty(which.size)
        for k, scale in enumerate(distinct):
            chosen = which == k
            expected[chosen] = distribution[chosen, : scale.n_levels] @ scale.values
        return expected

    def _scales_of(self, columns: np.ndarray) -> tuple[list[Scale], np.ndarray]:
        distinct, of_item = self.distinct(self.cold_start_scale())
        return distinct, of_item[columns]  # an unknown item, at -1, finds the last


def is_single(labels: Any) -> bool:
    """Whether this is one id rather than a list of them."""
    return isinstance(labels, str | bytes | Set | Mapping) or not np.iterable(labels)


def as_list(labels: Any) -> Any:
    """Ids one after the other; of a generator, a list."""
    if is_single(labels):
        return [labels]
    return list(labels) if isinstance(labels, Iterator) else labels

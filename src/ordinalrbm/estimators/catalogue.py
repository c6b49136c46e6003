"""The users, items and scales that an estimator of ratings knows.

Questions about ids become pairs of positions, distributions over levels become ratings, and all of
it is written to model files and read from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import pandas as pd

from ordinalrbm.data.ids import Ids
from ordinalrbm.data.observations import Cells
from ordinalrbm.data.scales import Scale
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.points import Rule, point
from ordinalrbm.storage.model_file import plain_number
from ordinalrbm.storage.reader import Stored, columns_kept

RULES: tuple[str, ...] = get_args(Rule)
Estimator = TypeVar("Estimator")


class Catalogue(NamedTuple):
    """Who and what is known, and on which scales; the fields are those of Ratings.

    Examples
    --------
    >>> ids = Ids(np.array([10, 20]))
    >>> catalogue = Catalogue(ids, ids, Scale((1, 2, 3)), Scale((1, 2, 3)))
    >>> catalogue.pairs(20, [10, 30]).column.tolist()
    [0, -1]
    >>> catalogue.ratings(np.array([[0.5, 0.1, 0.4]]), np.array([0]), "median").tolist()
    [1]
    """

    users: Ids
    items: Ids
    scales: Scale | tuple[Scale, ...]
    default_scale: Scale | None

    def item_scales(self) -> list[Scale]:
        """The scale of each item."""
        one = self.scales
        return [one] * len(self.items) if isinstance(one, Scale) else list(one)

    def distinct(self) -> tuple[list[Scale], np.ndarray]:
        """The different scales, and which of them each item is on; at once where there is one."""
        if isinstance(self.scales, Scale):
            return [self.scales], np.zeros(len(self.items), dtype=np.int64)
        return _distinct(list(self.scales))

    def cold_start_scale(self) -> Scale:
        """The scale that ratings of an unknown item would be on.

        Of a scale that is longer than any item's, nothing could be learnt.
        """
        longest = max(self.distinct()[0], key=lambda scale: scale.n_levels)
        common = self.default_scale
        return longest if common is None or common.n_levels > longest.n_levels else common

    def level_counts(self, has_cold_start: bool = False) -> np.ndarray:
        """(items,) number of levels of each item and, at the end, of the unknown one if wanted."""
        distinct, of_item = self.distinct()
        counts = np.array([scale.n_levels for scale in distinct], dtype=np.int32)[of_item]
        return np.append(counts, np.int32(self.cold_start_scale().n_levels))[
            : counts.size + has_cold_start
        ]

    def lookup(self, labels: Any, what: Literal["user", "item"] | str) -> np.ndarray:
        """Positions of a single id or of many, −1 for the unknown."""
        ids = self.users if what == "user" else self.items
        return ids.lookup(as_list(labels), what)

    def pairs(self, users: Any, items: Any) -> Cells:
        """Positions of users and items, pair by pair; a single id stands for all."""
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

    def ratings(self, distribution: np.ndarray, columns: np.ndarray, rule: Rule) -> np.ndarray:
        """One rating per distribution over the levels of an item: a number, or labels."""
        on = self._scales_of(columns)
        if rule == "mean":
            return _expected(distribution, on)
        return _labels(point(distribution, rule), on)

    def _scales_of(self, columns: np.ndarray) -> tuple[list[Scale], np.ndarray]:
        """The different scales, and which of them each item is on."""
        if isinstance(self.scales, Scale):
            return [self.scales], np.zeros(columns.size, dtype=np.intp)
        distinct, of_item = _distinct([*self.item_scales(), self.cold_start_scale()])
        return distinct, of_item[columns]  # an unknown item, at −1, finds the last


def is_single(labels: Any) -> bool:
    """Whether this is one id rather than a list of them."""
    return isinstance(labels, str | bytes | Set | Mapping) or not np.iterable(labels)


def as_list(labels: Any) -> Any:
    """A single id as a list of one."""
    return [labels] if is_single(labels) else labels


def _distinct(scales: list[Scale]) -> tuple[list[Scale], np.ndarray]:
    """The different scales, and which of them each is."""
    known: dict[Scale, int] = {}
    which = np.array([known.setdefault(scale, len(known)) for scale in scales], dtype=np.int64)
    return list(known), which


def _expected(distribution: np.ndarray, on: tuple[list[Scale], np.ndarray]) -> np.ndarray:
    distinct, which = on
    expected = np.empty(which.size)
    for k, scale in enumerate(distinct):
        chosen = which == k
        expected[chosen] = distribution[chosen, : scale.n_levels] @ scale.values
    return expected


def _labels(levels: np.ndarray, on: tuple[list[Scale], np.ndarray]) -> np.ndarray:
    distinct, which = on
    if len(distinct) == 1:
        return distinct[0].decode(levels)
    numeric = all(scale.is_numeric for scale in distinct)
    labels = np.empty(which.size, dtype=np.float64 if numeric else object)
    for k, scale in enumerate(distinct):
        chosen = which == k
        labels[chosen] = scale.decode(np.minimum(levels[chosen], scale.n_levels - 1))
    return labels


# Files


def written(
    estimator: Any, catalogue: Catalogue
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:  # fmt: skip
    """Arrays and header of what every estimator of ratings keeps, whatever its model."""
    distinct, of_item = catalogue.distinct()
    arrays = {"scale_of_item": of_item}
    for name in ("users", "items"):
        parts = getattr(catalogue, name).to_arrays()
        arrays |= {f"{name}.{part}": array for part, array in parts.items()}
    for column in columns_kept(estimator.history_):
        arrays[f"history.{column}"] = estimator.history_[column].to_numpy()
    default = catalogue.default_scale
    header = {
        "parameters": _plain_parameters(estimator, catalogue),
        "item_scales": _plain_item_scales(estimator, catalogue),
        "scales": [scale.to_json() for scale in distinct],
        "one_scale": isinstance(catalogue.scales, Scale),
        "default_scale": None if default is None else default.to_json(),
        "history": columns_kept(estimator.history_),
        "best_epoch": estimator.best_epoch_,
        "about": estimator.about_,
    }
    return arrays, header


def restored(
    kind: type[Estimator], stored: Stored, check: Callable[[Any], None]
) -> tuple[Estimator, Catalogue]:
    """An estimator with its parameters and history, and what it knows."""
    estimator: Any = stored.estimator(kind, check)
    if estimator.scale is not None:
        estimator.scale = Scale.from_json(estimator.scale).to_json()
    estimator.item_scales = _read_item_scales(stored)
    estimator.best_epoch_ = stored.whole("best_epoch", 0)
    estimator.about_ = stored.notes()
    estimator.history_ = pd.DataFrame(stored.history())
    estimator.n_iter_ = len(estimator.history_)
    return estimator, _read_catalogue(stored)


def _read_item_scales(stored: Stored) -> dict[Any, Any] | None:
    pairs = stored.entry("item_scales", list, None)
    if pairs is None:
        return None
    scales = {}
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int)):
            raise DataError(f"its header has {pair!r:.80} among the item_scales")
        scales[pair[0]] = Scale.from_json(pair[1]).to_json()
    return scales


def _read_catalogue(stored: Stored) -> Catalogue:
    distinct = [Scale.from_json(labels) for labels in stored.entry("scales", list)]
    default = stored.entry("default_scale", list, None)
    users, items = (Ids.from_stored(stored.under(f"{name}.")) for name in ("users", "items"))
    which = stored.array("scale_of_item", np.int64, (len(items),), 0, len(distinct) - 1)
    one_scale = stored.entry("one_scale", bool)
    if one_scale and len(distinct) != 1:
        raise DataError(f"it has {len(distinct)} scales where there should be one")
    return Catalogue(
        users,
        items,
        distinct[0] if one_scale else tuple(distinct[k] for k in which),
        None if default is None else Scale.from_json(default),
    )


def _plain_parameters(estimator: Any, catalogue: Catalogue) -> dict[str, Any]:
    """Parameters as JSON can hold them; a generator cannot be."""
    plain = {name: plain_number(value) for name, value in estimator.get_params().items()}
    seed, default = plain["random_state"], catalogue.default_scale
    plain["random_state"] = seed if isinstance(seed, int) else None
    given = estimator.scale is not None and default is not None
    plain["scale"] = default.to_json() if given and default else None
    plain["item_scales"] = None  # JSON has no dictionaries from numbers
    plain.pop("device", None)  # a model may be used on another machine than it was learnt on
    return plain


def _plain_item_scales(estimator: Any, catalogue: Catalogue) -> list[Any] | None:
    if not estimator.item_scales:
        return None
    labels = list(estimator.item_scales)
    scales = catalogue.item_scales()
    positions = catalogue.lookup(labels, "item")
    return [
        [plain_number(label), scales[j].to_json()]
        for label, j in zip(labels, positions, strict=True)
    ]

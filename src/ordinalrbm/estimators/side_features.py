"""Features of users and items, as an estimator of ratings keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ordinalrbm.data.columns import Ids, shown
from ordinalrbm.data.features import (
    FURTHEST,
    CodedColumn,
    Coding,
    Features,
    What,
    aligned,
    encode_features,
    read_features,
)
from ordinalrbm.data.ratings import Catalogue, Ratings, as_list, with_ids
from ordinalrbm.errors import DataError
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.schema.schema import did_you_mean
from ordinalrbm.storage.reader import Stored, wrong

_WHAT: tuple[What, What] = ("user", "item")


class SideFeatures(NamedTuple):
    """Features of all known users and of all known items, in their order; None where not given."""

    users: Features | None = None
    items: Features | None = None

    @property
    def tables(self) -> Tables:
        """The features as numbers."""
        return Tables(*(None if part is None else part.table for part in self))

    def each(self) -> list[tuple[What, Features]]:
        """Those that are given, and what they are of."""
        return [(what, part) for what, part in zip(_WHAT, self, strict=True) if part is not None]

    def line_of_user(self, position: int) -> sparse.csr_array | None:
        """(1, features) those of one user."""
        return None if self.users is None else self.users.table[[position]]

    def taken(self, users: np.ndarray, items: np.ndarray) -> SideFeatures:
        """Those of some users and items."""
        return SideFeatures(
            *(
                part and Features(Ids(part.ids.labels[which]), part.table[which], part.coding)
                for part, which in zip(self, (users, items), strict=True)
            )
        )


NO_FEATURES = SideFeatures()


def read_side(known: Ratings, frames: tuple[Any, Any]) -> tuple[Ratings, SideFeatures]:
    """Features of users and items, and the ratings with the ids that have features only."""
    users, items = frames
    features = SideFeatures(
        None if users is None else read_features(users, "user"),
        None if items is None else read_features(items, "item"),
    )
    for what, part in features.each():
        ids = known.users if what == "user" else known.items
        if (ids.match(part.ids, what) < 0).all():
            raise DataError(
                f"None of the {len(part.ids):,} {what}s with features, such as {shown(part.ids.labels[0])}, "
                f"is among the {len(ids):,} of the ratings, such as {shown(ids.labels[0])}, so that nothing "
                "can be learnt of features; give the same ids in both."
            )
    return _joined(known, features)


def extended(known: SideFeatures, ratings: Ratings, frames: tuple[Any, Any]) -> tuple[Ratings, SideFeatures]:
    """With features of new users and items; those of known ones stay as they are."""
    wider = [
        part if frame is None else _extended(part, frame, what)
        for part, frame, what in zip(known, frames, _WHAT, strict=True)
    ]
    return _joined(ratings, SideFeatures(*wider), is_learnt=True)


def _extended(known: Features | None, frame: Any, what: What) -> Features:
    if known is None:
        raise DataError(
            f"{what}_features are given, but the model was learnt without any; fit() it with "
            f"{what}_features first."
        )
    more = encode_features(known.coding, frame, what)
    new = known.ids.match(more.ids, what) < 0
    table = sparse.vstack([known.table, more.table[np.flatnonzero(new)]], format="csr")
    return Features(known.ids.with_new(Ids(more.ids.labels[new])), table, known.coding)


def _joined(
    ratings: Ratings, features: SideFeatures, *, is_learnt: bool = False
) -> tuple[Ratings, SideFeatures]:
    users, items = (None if part is None else part.ids for part in features)
    ratings = with_ids(ratings, users, items, is_learnt=is_learnt)
    ids = {"user": ratings.users, "item": ratings.items}
    parts = {
        f"{what}s": Features(ids[what], aligned(part, ids[what], what), part.coding)
        for what, part in features.each()
    }
    return ratings, SideFeatures(**parts)


def to_arrays(features: SideFeatures) -> dict[str, np.ndarray]:
    """The features as a model file holds them."""
    arrays = {}
    for what, part in features.each():
        arrays[f"{what}_features.start"] = part.table.indptr.astype(np.int64)
        arrays[f"{what}_features.feature"] = part.table.indices.astype(np.int32)
        arrays[f"{what}_features.value"] = part.table.data
    return arrays


def to_header(features: SideFeatures) -> dict[str, Any]:
    """How columns of frames become features, for the header of a model file."""
    return {f"{what}_features": part.coding.to_json() for what, part in features.each()}


def check_weights(features: SideFeatures, of_users: int, of_items: int) -> None:
    """Raise if a model, as a file has it, has weights of so many other features than there are."""
    for part, n, what in zip(features, (of_users, of_items), _WHAT, strict=True):
        if n not in (0, 0 if part is None else len(part.coding.names)):
            raise DataError(f"it has weights of {n} {what} features, which are not those it names")


def from_stored(stored: Stored, ratings: Catalogue) -> SideFeatures:
    """The features in a model file, of these users and items."""
    return SideFeatures(
        *(_read(stored, what, ids) for what, ids in zip(_WHAT, (ratings.users, ratings.items), strict=True))
    )


def _read(stored: Stored, what: str, ids: Ids) -> Features | None:
    name = f"{what}_features"
    if name not in stored.header:
        return None
    coding, arrays = Coding.from_json(stored.entry(name, list)), stored.under(f"{name}.")
    n_features = len(coding.names)
    value = arrays.checked_array("value", np.float32, (None,), -FURTHEST, FURTHEST)
    start = arrays.checked_array("start", np.int64, (len(ids) + 1,), 0, value.size)
    feature = arrays.checked_array("feature", np.int32, value.shape, 0, n_features - 1)
    if start[0] or start[-1] != value.size or (np.diff(start) < 0).any():
        raise wrong(f"{what}_features.start", "is not in order")
    table = sparse.csr_array((value, feature, start), shape=(len(ids), n_features))
    return Features(ids, table, coding)


def mask_of(items: Features | None, where: Mapping[str, Any]) -> np.ndarray:
    """(items,) which have all these features: of a column, one category or one of several."""
    masks = []
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
            masks.append(table[:, 0] > 0.0 if wanted else table[:, 0] < 0.0)
            continue
        texts = list(map(str, as_list(wanted)))
        for text in texts:
            if text not in column.categories:
                guess = did_you_mean(text, column.categories)
                raise DataError(f"No item has the {name} {text!r} that the model knows{guess}.")
        masks.append((table[:, [column.categories.index(text) for text in texts]] > 0.5).any(axis=1))
    return np.all(masks, axis=0)


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

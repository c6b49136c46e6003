"""Features of users and items, as an estimator of ratings keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ordinalrbm.data.columns import Ids, shown
from ordinalrbm.data.features import (
    FURTHEST,
    BooleanColumn,
    CategoryColumn,
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


class SideFeatures(NamedTuple):
    """Features of all known users and of all known items, in their order; None where not given."""

    users: Features | None = None
    items: Features | None = None

    @property
    def tables(self) -> Tables:
        """The features as numbers."""
        return Tables(*(None if part is None else part.table for part in self))

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
_WHAT: tuple[What, What] = ("user", "item")


def read_side(known: Ratings, frames: tuple[Any, Any]) -> tuple[Ratings, SideFeatures]:
    """Features of users and items, and the ratings with the ids that have features only."""
    users, items = (
        None if frame is None else read_features(frame, what)
        for frame, what in zip(frames, _WHAT, strict=True)
    )
    for part, ids, what in zip((users, items), (known.users, known.items), _WHAT, strict=True):
        if part is not None and (ids.match(part.ids, what) < 0).all():
            raise DataError(
                f"None of the {len(part.ids):,} {what}s with features, such as {shown(part.ids.labels[0])}, "
                f"is among the {len(ids):,} of the ratings, such as {shown(ids.labels[0])}, so that nothing "
                "can be learnt of features; give the same ids in both."
            )
    return _joined(known, SideFeatures(users, items))


def extended(known: SideFeatures, ratings: Ratings, frames: tuple[Any, Any]) -> tuple[Ratings, SideFeatures]:
    """With features of new users and items; those of known ones stay as they are."""
    found = []
    for own, frame, what in zip(known, frames, _WHAT, strict=True):
        if frame is None:
            found.append(own)
            continue
        if own is None:
            raise DataError(
                f"{what}_features are given, but the model was learnt without any; fit() it with "
                f"{what}_features first."
            )
        more = encode_features(own.coding, frame, what)
        new = own.ids.match(more.ids, what) < 0
        table = sparse.vstack([own.table, more.table[np.flatnonzero(new)]], format="csr")
        found.append(Features(own.ids.with_new(Ids(more.ids.labels[new])), table, own.coding))
    return _joined(ratings, SideFeatures(*found), is_learnt=True)


def _joined(
    ratings: Ratings, found: SideFeatures, *, is_learnt: bool = False
) -> tuple[Ratings, SideFeatures]:
    users, items = (None if part is None else part.ids for part in found)
    ratings = with_ids(ratings, users, items, is_learnt=is_learnt)
    both = (ratings.users, ratings.items)
    return ratings, SideFeatures(
        *(
            None if part is None else Features(ids, aligned(part, ids, what), part.coding)
            for part, ids, what in zip(found, both, _WHAT, strict=True)
        )
    )


def to_arrays(features: SideFeatures) -> dict[str, np.ndarray]:
    """The features as a model file holds them."""
    return {
        f"{what}_features.{name}": array
        for part, what in zip(features, _WHAT, strict=True)
        if part is not None
        for name, array in (
            ("start", part.table.indptr.astype(np.int64)),
            ("feature", part.table.indices.astype(np.int32)),
            ("value", part.table.data),
        )
    }


def to_header(features: SideFeatures) -> dict[str, Any]:
    """How columns of frames become features, for the header of a model file."""
    return {
        f"{what}_features": part.coding.to_json()
        for part, what in zip(features, _WHAT, strict=True)
        if part is not None
    }


def check_weights(features: SideFeatures, of_users: int, of_items: int) -> None:
    """Raise if a model, as a file has it, has weights of so many other features than there are."""
    for part, n, what in zip(features, (of_users, of_items), _WHAT, strict=True):
        if n not in (0, 0 if part is None else part.coding.n_features):
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
    coding, own = Coding.from_json(stored.entry(name, list)), stored.under(f"{name}.")
    value = own.checked_array("value", np.float32, (None,), -FURTHEST, FURTHEST)
    start = own.checked_array("start", np.int64, (len(ids) + 1,), 0, value.size)
    feature = own.checked_array("feature", np.int32, value.shape, 0, coding.n_features - 1)
    if start[0] or start[-1] != value.size or (np.diff(start) < 0).any():
        raise wrong(f"{what}_features.start", "is not in order")
    table = sparse.csr_array((value, feature, start), shape=(len(ids), coding.n_features))
    return Features(ids, table, coding)


def mask_of(items: Features | None, where: Mapping[str, Any]) -> np.ndarray:
    """(items,) which have all these features: of a column, one category or one of several."""
    found = []
    for name, wanted in where.items():
        column, place = _coded(items, name)
        if items is None or not isinstance(column, CategoryColumn | BooleanColumn):
            raise DataError(
                f"The item feature {name!r} has no categories to choose by; give the items as items=."
            )
        table = items.table[:, place].toarray()
        if isinstance(column, BooleanColumn):
            if not isinstance(wanted, bool | np.bool_):
                raise DataError(f"The item feature {name!r} is true or false, not {wanted!r}.")
            # Of items without features nothing is stored; what is missing is a share between 0 and 1.
            found.append((np.diff(items.table.indptr) > 0) & (table[:, 0] == float(wanted)))
            continue
        texts = list(map(str, as_list(wanted)))
        for text in texts:
            if text not in column.categories:
                guess = did_you_mean(text, column.categories)
                raise DataError(f"No item has the {name} {text!r} that the model knows{guess}.")
        found.append((table[:, [column.categories.index(text) for text in texts]] > 0.5).any(axis=1))
    return np.all(found, axis=0)


def _coded(items: Features | None, name: str) -> tuple[CodedColumn, slice]:
    """A column of item features, and where its features are."""
    columns = () if items is None else items.coding.columns
    first = 0
    for column in columns:
        width = len(column.feature_names)
        if column.name == name:
            return column, slice(first, first + width)
        first += width
    if items is None:
        raise DataError("The model knows no features of items; fit() it with item_features=.")
    names = [column.name for column in columns]
    raise DataError(f"There is no item feature {name!r}{did_you_mean(name, names)}; there are {names}.")


def lines_or_none(table: sparse.csr_array, rows: np.ndarray) -> sparse.csr_array:
    """Lines of a table; those of rows beyond it are empty."""
    known = rows < table.shape[0]
    lines = table[np.where(known, rows, 0)].tolil()
    lines[np.flatnonzero(~known)] = 0.0
    return sparse.csr_array(lines)

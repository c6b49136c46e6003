"""Tables of ratings, whatever holds them: which columns are users, items, ratings and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ordinalrbm.data.columns import Column, Ids, as_column, number_ids, read_column, shown
from ordinalrbm.data.frames import FRAMES, as_frame, plain_series
from ordinalrbm.data.observations import LARGEST_WEIGHT
from ordinalrbm.data.scales import shorten
from ordinalrbm.errors import DataError, DataTypeError
from ordinalrbm.stats.design import checked_weights

COLUMNS = ("user", "item", "rating")

# The first name of each role is ours. Small letters; blanks, hyphens and underscores are the same
# as nothing. Words that may as well be something else, such as value, id, name or title, are not
# here: to take one for the other silently would be worse than to ask.
NAMES: dict[str, tuple[str, ...]] = {
    role: tuple(names.split())
    for role, names in {
        "user": "user users userid username uid customer customerid client clientid member memberid "
        "reviewer reviewerid rater raterid account accountid person personid profileid visitorid",
        "item": "item items itemid iid movie movieid film filmid product productid sku asin book "
        "bookid isbn business businessid song songid track trackid artistid albumid animeid gameid "
        "recipeid restaurantid hotelid courseid jokeid articleid",
        "rating": "rating ratings stars starrating score overall grade preference userrating "
        "bookrating movierating reviewscore ratingvalue",
        "timestamp": "timestamp time date datetime unixreviewtime reviewedat createdat ratedat "
        "ratingdate reviewdate ratingtime",
    }.items()
}


def spelt(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def candidates(names: Iterable[Any], role: str) -> list[str]:
    """The columns that can have a role: one where it is clear, several where it is not.

    A column that has our own name is preferred to all others.
    """
    texts = [name for name in dict.fromkeys(names) if isinstance(name, str)]
    ours = [name for name in texts if name == role] or [n for n in texts if spelt(n) == role]
    return ours or [name for name in texts if spelt(name) in NAMES[role]]


def found_columns(names: list[Any], roles: Sequence[str] = COLUMNS) -> list[str]:
    found = {role: candidates(names, role) for role in roles}
    for role, those in found.items():
        if not those:
            raise DataError(
                f"The ratings have no column {role!r}, only {shorten(names)}; rename the columns "
                f"to {shorten(roles)}."
            )
        if len(those) > 1:
            raise unclear(those, role)
    return [those[0] for those in found.values()]


def unclear(columns: list[str], role: str) -> DataError:
    return DataError(
        f"The columns {columns[0]!r} and {columns[1]!r} could both be the {role} of a rating; "
        f"rename the right one to {role!r}."
    )


class Part:
    """What a process brings of the ratings, where the others bring the rest."""

    def table(self) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Triples:
    """Users, items and ratings, three columns of equal length."""

    user: Column
    item: Column
    rating: Column
    shape: tuple[int, int] | None = None  # of the sparse matrix they come from, if they do
    first_row: int = 0  # how many rows other processes have before these
    time: Any = None  # of each, in any form, where there is a column of times
    has_ratings: bool = True  # else it tells who chose what, and ratings are ones
    weight: np.ndarray | None = None  # (rows,) float64, how many times each counts

    def __len__(self) -> int:
        return len(self.rating)

    @property
    def is_sparse(self) -> bool:
        return self.shape is not None

    def location(self, row: int) -> str:
        user, item, rating = (shown(c.value(row)) for c in (self.user, self.item, self.rating))
        what = "Stored entry" if self.is_sparse else "Row"
        number = self.first_row + row
        return f"{what} {number} (counted from 0; user {user}, item {item}, rating {rating})"

    def number(self, role: Literal["user", "item"]) -> tuple[np.ndarray, Ids]:
        """Positions of users or items, and their ids; of a sparse matrix, of all, rated or not."""
        column, axis = (self.user, 0) if role == "user" else (self.item, 1)
        if self.shape is not None:
            return column.values, Ids(np.arange(self.shape[axis]))
        return number_ids(column, role, self.location)

    def take(self, rows: np.ndarray) -> Triples:
        time = None if self.time is None else pd.Series(self.time).to_numpy()[rows]
        weight = None if self.weight is None else self.weight[rows]
        user, item, rating = (column.take(rows) for column in (self.user, self.item, self.rating))
        return Triples(user, item, rating, time=time, has_ratings=self.has_ratings, weight=weight)

    def weighted(self, sample_weight: Any) -> Triples:
        weight = checked_weights("sample_weight", plain_series(sample_weight), (len(self),))
        if weight.max() > LARGEST_WEIGHT:
            raise DataError(
                f"{self.location(int(weight.argmax()))}: the weight {weight.max():g} is above "
                f"{LARGEST_WEIGHT:,.0f}; divide all weights by a number."
            )
        return replace(self, weight=weight)


def as_triples(data: Any, sample_weight: Any = None) -> Triples:
    """The three columns of whatever holds ratings, found by their names.

    Weights are an array or the name of a column.
    """
    if isinstance(data, Triples):
        return data
    if sample_weight is not None and not isinstance(sample_weight, str):
        return as_triples(data).weighted(sample_weight)
    if isinstance(data, Part):
        data = data.table()

    def choose(names: list[str]) -> list[str]:
        found = [candidates(names, role) for role in COLUMNS]
        used = {sample_weight, *candidates(names, "timestamp"), *chain.from_iterable(found)}
        return [name for name in names if name in used or not all(found)]

    frame = as_frame(data, choose)
    if sample_weight is not None and frame is None:
        raise _no_weights(sample_weight, "are no frame")
    if sp.issparse(data):
        return _from_sparse(data)
    if isinstance(data, tuple):
        return _from_arrays(data)
    if frame is None:
        raise DataTypeError(
            f"Ratings must be {FRAMES}, a tuple of three arrays (user, item, rating) or a "
            f"scipy.sparse matrix, not {type(data).__name__}; convert them first, or read a file with "
            "ordinalrbm.files.ratings.read_rating_file."
        )
    names = [name for name in frame.names if name != sample_weight]
    times = candidates(names, "timestamp")
    # Users and items, perhaps times, and nothing else: who chose what.
    is_choices = len(names) - len(times) == 2 and not candidates(names, "rating")
    columns = found_columns(names, COLUMNS[:2] if is_choices else COLUMNS)
    for name in columns:
        if names.count(name) > 1:
            raise DataError(
                f"The ratings have more than one column named {name!r}; rename or drop all but one."
            )
    times = [name for name in times if name not in columns]
    time = None
    with suppress(DataError):  # a column that cannot hold times
        time = frame.column(frame.names.index(times[0])) if len(times) == 1 else None
    user, item, *given = (read_column(frame.column(frame.names.index(name)), name) for name in columns)
    rating = given[0] if given else _no_ratings(len(user))
    found = Triples(user, item, rating, time=time, has_ratings=bool(given))
    if sample_weight is None:
        return found
    if sample_weight not in frame.names:
        raise _no_weights(sample_weight, f"have only the columns {shorten(frame.names)}")
    return found.weighted(frame.column(frame.names.index(sample_weight)))


def _no_weights(name: str, why: str) -> DataError:
    return DataError(
        f"sample_weight names the column {name!r}, but the ratings {why}; correct the name, or give an "
        "array with a weight for each rating."
    )


def _no_ratings(n: int) -> Column:
    return read_column(np.ones(n, dtype=np.int8), "rating")


def _from_arrays(data: tuple[Any, ...]) -> Triples:
    if len(data) not in (2, 3):
        raise DataError(
            f"The ratings are a tuple of {len(data)}; give three arrays, (user, item, rating), or two, "
            "(user, item), of who chose what."
        )
    user, item, *given = (
        read_column(as_column(values, f"The {name}s"), name)
        for values, name in zip(data, COLUMNS, strict=False)
    )
    rating = given[0] if given else _no_ratings(len(user))
    if not len(user) == len(item) == len(rating):
        raise DataError(
            f"There are {len(user)} users, {len(item)} items and {len(rating)} ratings; give as many of each."
        )
    return Triples(user, item, rating, has_ratings=bool(given))


def _from_sparse(matrix: Any) -> Triples:
    if matrix.ndim != 2:
        raise DataError(f"The sparse ratings have shape {matrix.shape}; give users x items, two dimensions.")
    coo = matrix.tocoo(copy=matrix.format == "bsr")
    if matrix.format == "bsr":  # which fills up its blocks with zeros
        coo.eliminate_zeros()
    user, item = read_column(coo.row, "user"), read_column(coo.col, "item")
    return Triples(user, item, read_column(coo.data, "rating"), coo.shape)

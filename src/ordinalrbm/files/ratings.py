"""Files that hold ratings: which they are, and their columns under the names used here."""

from __future__ import annotations

import pandas as pd

from ordinalrbm.data.ratings import COLUMNS
from ordinalrbm.errors import DataError
from ordinalrbm.files.source import Source

# Spelt without blanks, underscores and capitals.
_NAMES = {
    "user": ("user", "userid", "users"),
    "item": ("item", "itemid", "movie", "movieid", "items"),
    "rating": ("rating", "ratings", "score", "stars"),
    "timestamp": ("timestamp", "time", "date"),
}


def is_ratings(source: Source) -> bool:
    """Whether a file is a list of ratings, with columns of users, items and ratings.

    Examples
    --------
    >>> from ordinalrbm.files.formats import from_frame
    >>> is_ratings(from_frame(pd.DataFrame({"userId": [1], "movieId": [7], "Rating": [4.5]})))
    True
    """
    return {"user", "item", "rating"} <= _found(source).keys()


def ratings_of(source: Source) -> pd.DataFrame:
    """The columns user, item and rating, and timestamp where there is one.

    `ordinalrbm.data.ratings.read_ratings` and the estimators take it from there.

    Examples
    --------
    >>> from ordinalrbm.files.formats import from_frame
    >>> ratings_of(from_frame(pd.DataFrame({"score": [4], "user_id": ["u"], "item": ["i"]})))
      user item  rating
    0    u    i       4
    """
    ratings = _named(source, COLUMNS)
    time = _found(source).get("timestamp")
    return ratings if time is None else ratings.assign(timestamp=source.frame[time])


def pairs_of(source: Source) -> pd.DataFrame:
    """The columns user and item, for which a rating is asked.

    Examples
    --------
    >>> from ordinalrbm.files.formats import from_frame
    >>> pairs_of(from_frame(pd.DataFrame({"user_id": ["u"], "item": ["i"], "price": [3]})))
      user item
    0    u    i
    """
    return _named(source, ("user", "item"))


def _named(source: Source, names: tuple[str, ...]) -> pd.DataFrame:
    return source.frame[columns_of(source, names)].set_axis(list(names), axis=1)


def columns_of(source: Source, names: tuple[str, ...] = COLUMNS) -> list[str]:
    """The file's own names of columns that must be there."""
    found = _found(source)
    for name in names:
        if name not in found:
            raise DataError(
                f"{source.where} has no column {name!r}, only {list(source.frame.columns)[:12]}; "
                f"rename its columns to {' and '.join(names)}."
            )
    return [found[name] for name in names]


def _found(source: Source) -> dict[str, str]:
    """For each name used here, the column of the file; the first spelling that it has."""
    spelt: dict[str, str] = {}
    for name in source.frame.columns:
        spelt.setdefault("".join(c for c in name.casefold() if c.isalnum()), name)
    return {
        name: next(spelt[spelling] for spelling in spellings if spelling in spelt)
        for name, spellings in _NAMES.items()
        if not spelt.keys().isdisjoint(spellings)
    }

"""Which columns of a table of ratings are users, items, ratings and times, by their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# The first name of each role is ours. Small letters; blanks, hyphens and underscores are the same
# as nothing. Words that may as well be something else, such as value, id, name or title, are not
# here: to take one for the other silently would be worse than to ask.
NAMES: dict[str, tuple[str, ...]] = {
    "user": (
        "user",
        "users",
        "userid",
        "username",
        "uid",
        "customer",
        "customerid",
        "client",
        "clientid",
        "member",
        "memberid",
        "reviewer",
        "reviewerid",
        "rater",
        "raterid",
        "account",
        "accountid",
        "person",
        "personid",
        "profileid",
        "visitorid",
    ),
    "item": (
        "item",
        "items",
        "itemid",
        "iid",
        "movie",
        "movieid",
        "film",
        "filmid",
        "product",
        "productid",
        "sku",
        "asin",
        "book",
        "bookid",
        "isbn",
        "business",
        "businessid",
        "song",
        "songid",
        "track",
        "trackid",
        "artistid",
        "albumid",
        "animeid",
        "gameid",
        "recipeid",
        "restaurantid",
        "hotelid",
        "courseid",
        "jokeid",
        "articleid",
    ),
    "rating": (
        "rating",
        "ratings",
        "stars",
        "starrating",
        "score",
        "overall",
        "grade",
        "preference",
        "userrating",
        "bookrating",
        "movierating",
        "reviewscore",
        "ratingvalue",
    ),
    "timestamp": (
        "timestamp",
        "time",
        "date",
        "datetime",
        "unixreviewtime",
        "reviewedat",
        "createdat",
        "ratedat",
        "ratingdate",
        "reviewdate",
        "ratingtime",
    ),
}


def spelt(name: str) -> str:
    """A name without what spellings differ in.

    Examples
    --------
    >>> spelt("User-ID"), spelt("created at")
    ('userid', 'createdat')
    """
    return "".join(c for c in name.casefold() if c.isalnum())


def candidates(names: Iterable[Any], role: str) -> list[str]:
    """The columns that can have a role: one where it is clear, several where it is not.

    A column that has our own name is preferred to all others.

    Examples
    --------
    >>> candidates(["Customer ID", "product_id", "stars", "score"], "user")
    ['Customer ID']
    >>> candidates(["stars", "score"], "rating"), candidates(["stars", "Rating"], "rating")
    (['stars', 'score'], ['Rating'])
    """
    texts = [name for name in dict.fromkeys(names) if isinstance(name, str)]
    ours = [name for name in texts if name == role] or [n for n in texts if spelt(n) == role]
    return ours or [name for name in texts if spelt(name) in NAMES[role]]

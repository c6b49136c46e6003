"""Tables that are probably ratings though the names of their columns do not say so.

A survey has a row for each respondent. Where two columns of ids repeat, nearly no pair of them
does, and there is little else that has an order, rows are ratings; to learn from that one column
as a survey of one question would be of no use to anybody.
"""

from itertools import combinations
from typing import NamedTuple

import pandas as pd

from ordinalrbm.data.triples import candidates
from ordinalrbm.errors import DataError
from ordinalrbm.files.ratings import Layout
from ordinalrbm.schema.infer import MOST_LEVELS
from ordinalrbm.schema.schema import Schema
from ordinalrbm.schema.source import Source
from ordinalrbm.schema.vocabulary import MEASURED_WORDS, NOMINAL_WORDS, looks_like_id, named_after

_MOST_QUESTIONS = 3  # a rating, and perhaps a yes or no beside it; surveys ask more
_MOST_LEVELS = 201  # of a rating: from 0 to 100 in halves
_NEARLY_UNIQUE = 0.9
_MOST_COLUMNS = 8  # that are looked at in pairs


class Guess(NamedTuple):
    """Names of columns that are probably those of users, items and ratings."""

    user: str
    item: str
    rating: str


def refuse_likely_ratings(source: Source, schema: Schema, layout: Layout) -> None:
    """Ask for names of columns, rather than learn from ratings as if they were a survey."""
    guess = guess_ratings(source, schema)
    if guess is None:
        return
    options = " ".join(layout.saying(name, column) for name, column in guess._asdict().items())
    raise DataError(
        f"{source.where} looks like ratings, with ids in {guess.user!r} and {guess.item!r}, but "
        f"the names of its columns do not say so; add {options}{layout.or_survey()}."
    )


def guess_ratings(source: Source, schema: Schema) -> Guess | None:
    """Which columns are ids and a rating, if it looks as if they were."""
    questions = [name for name in schema.names("ordinal") if not _is_named_as_id(name)]
    if len(questions) > _MOST_QUESTIONS:
        return None
    others = [name for name in source.frame.columns if name not in questions]
    ids = [name for name in others if _is_like_ids(source, name)][:_MOST_COLUMNS]
    for one, other in combinations(ids, 2):
        pairs = source.frame[[one, other]]
        rating = _rating_beside(source, [one, other], questions)
        if rating is not None and 1 - pairs.duplicated().mean() >= _NEARLY_UNIQUE:
            return Guess(*_user_and_item(one, other), rating)
    return None


def _is_named_as_id(name: str) -> bool:
    return looks_like_id(name) or any(candidates([name], role) for role in ("user", "item"))


def _is_like_ids(source: Source, name: str) -> bool:
    """Whether a column has whole numbers or text that occur several times, and are many or ids."""
    values = source.frame[name]
    is_date = name in source.dates or bool(candidates([name], "timestamp"))
    if is_date or values.isna().any() or name in source.value_labels:
        return False
    if named_after(name, NOMINAL_WORDS) or named_after(name, MEASURED_WORDS):
        return False
    if pd.api.types.is_float_dtype(values):
        if not (values % 1 == 0).all():
            return False
    elif not (pd.api.types.is_integer_dtype(values) or pd.api.types.is_string_dtype(values)):
        return False
    n_distinct = values.nunique()
    fewest = 2 if _is_named_as_id(name) else MOST_LEVELS + 1
    return fewest <= n_distinct < len(values)


def _rating_beside(source: Source, ids: list[str], questions: list[str]) -> str | None:
    """A question, or where there is none the numbers of which there are fewest different ones.

    Half stars and points out of 100 are no questions: in a survey they are measurements.
    """
    if questions:
        return (candidates(questions, "rating") or questions)[0]
    others = source.frame.drop(columns=ids).select_dtypes("number")
    counts = {
        name: values.nunique()
        for name, values in others.items()
        if not candidates([name], "timestamp") and name not in source.dates
    }
    few = {str(name): n for name, n in counts.items() if 2 <= n <= _MOST_LEVELS}
    return min(few, key=lambda name: few[name], default=None)


def _user_and_item(one: str, other: str) -> tuple[str, str]:
    """By their names if these say something, else in the order of the file."""
    is_swapped = bool(candidates([one], "item") or candidates([other], "user"))
    return (other, one) if is_swapped else (one, other)

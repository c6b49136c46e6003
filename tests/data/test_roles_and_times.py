"""Names of columns, and times, as tables have them."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ordinalrbm.data.features import encode_features, read_features
from ordinalrbm.data.ratings import encode, merged, read_ratings
from ordinalrbm.data.recency import read_times
from ordinalrbm.data.triples import NAMES, candidates, spelt
from ordinalrbm.errors import DataError

TABLE = pd.DataFrame({"user": ["u", "v", "u"], "item": [1, 1, 2], "rating": [1, 2, 3]})


@pytest.mark.parametrize(
    "names",
    [
        ("user_id", "movieId", "Rating"),
        ("customer_id", "product_id", "rating"),
        ("reviewerID", "asin", "overall"),
        ("User-ID", "ISBN", "Book-Rating"),
        ("member id", "business_id", "stars"),
        ("Person", "track_id", "preference"),
        ("uid", "iid", "score"),
        ("account_id", "book_id", "grade"),
    ],
)
def test_usual_names_are_the_same_ratings(names):
    named = TABLE.set_axis(list(names), axis=1).assign(price=[3, 2, 1])
    for frame in (named, pl.from_pandas(named)):
        assert read_ratings(frame).to_frame().equals(read_ratings(TABLE).to_frame())
        assert encode(read_ratings(TABLE), frame).row.tolist() == [0, 1, 0]
    new = named.assign(**{names[0]: ["x", "y", "x"]})
    assert merged(read_ratings(TABLE), new, "refuse")[0].n_ratings == 6


def test_no_name_has_two_roles_and_all_are_spelt_plainly():
    every = [name for names in NAMES.values() for name in names]
    assert len(set(every)) == len(every)
    assert all(name == spelt(name) for name in every)


def test_our_own_names_are_preferred():
    assert candidates(["score", "rating", "Rating"], "rating") == ["rating"]
    assert candidates(["score", "RATING"], "rating") == ["RATING"]
    assert candidates(["score", 7, "stars"], "rating") == ["score", "stars"]
    with_more = TABLE.assign(stars=[3, 3, 3], customer_id=0)
    assert read_ratings(with_more).to_frame().equals(read_ratings(TABLE).to_frame())


def test_two_columns_for_one_role_are_refused():
    table = TABLE.rename(columns={"user": "customer_id"}).assign(user_id=[7, 8, 7])
    with pytest.raises(DataError, match=r"'customer_id' and 'user_id' could both be the user .*'user'"):
        read_ratings(table)


def test_features_with_usual_names():
    plain = pd.DataFrame({"item": [1, 2, 3], "price": [1.0, 2.0, 4.0]})
    named = plain.rename(columns={"item": "movieId"})
    ours, theirs = read_features(plain, "item"), read_features(named, "item")
    assert (ours.table.toarray() == theirs.table.toarray()).all()
    assert theirs.coding.names == ["price"]
    assert encode_features(ours.coding, named, "item").ids.labels.tolist() == [1, 2, 3]
    with pytest.raises(
        DataError, match=r"several columns that could hold the items, in \['movieId', 'asin'\]"
    ):
        read_features(named.assign(asin=1), "item")


@pytest.mark.parametrize(
    "values",
    [
        ["2024-05-02", "2024-05-01", "2024-05-03"],
        ["2024-05-01T12:00:01", "2024-05-01T12:00:00", "2024-05-01 12:00:02.5"],
        ["2024-05-01T12:00:00Z", "2024-05-01 13:00:00 +02:00", "2024-05-01 12:30"],
        pd.array(["2024-05-02", "2024-05-01", "2024-05-03"], "string"),
        [datetime.date(2024, 5, day) for day in (2, 1, 3)],
        pd.to_datetime(["2024-05-02", "2024-05-01", "2024-05-03"]),
        [1714600000, 1714500000, 1714700000],
        np.array([1, 0.5, 2], dtype=object),
    ],
)
def test_times_are_read_in_their_order(values):
    assert read_times(values).argsort().tolist() == [1, 0, 2]


def test_times_that_are_none_are_named():
    with pytest.raises(DataError, match=r"Row 1 .*'01.05.2024' is neither .* correct it"):
        read_times(["2024-05-01", "01.05.2024"])
    with pytest.raises(DataError, match=r"Row 1 .* missing; drop such rows or do without\."):
        read_times(["2024-05-01", None], remedy="do without")

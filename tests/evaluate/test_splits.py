"""Splits against plain loops over users."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordinalrbm.errors import DataError
from ordinalrbm.evaluate import split

steady = settings(derandomize=True, deadline=None, max_examples=80)


def ratings_of(users, times):
    """Item k is row k, so that rows can be told apart in the parts."""
    n = len(users)
    return pd.DataFrame({"user": users, "item": np.arange(n), "rating": np.ones(n), "timestamp": times})


def slow_split(users, times, min_ratings, n_validation, n_test, other_users):
    """Rows of the three parts, sorted within each."""
    parts = [], [], []
    for user in set(users):
        rows = [k for k, u in enumerate(users) if u == user]
        rows.sort(key=lambda k: (times[k], k))
        if len(rows) >= min_ratings:
            n_train = len(rows) - n_validation - n_test
            parts[0].extend(rows[:n_train])
            parts[1].extend(rows[n_train : n_train + n_validation])
            parts[2].extend(rows[n_train + n_validation :])
        elif other_users == "train":
            parts[0].extend(rows)
    return [sorted(part) for part in parts]


histories = st.lists(
    # Few distinct times, so that ties are many.
    st.tuples(st.integers(-2, 3), st.integers(-2, 4)),
    min_size=1,
    max_size=40,
)


@steady
@given(
    histories,
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["train", "drop"]),
)
def test_by_time_against_loops(history, n_validation, n_test, extra, as_float, others):
    users, times = [u for u, _ in history], [t for _, t in history]
    min_ratings = n_validation + n_test + extra
    ratings = ratings_of(users, np.array(times, dtype=float if as_float else int))
    settings_ = ("chronological", min_ratings, n_validation, n_test)
    if max(users.count(user) for user in users) < min_ratings:
        with pytest.raises(DataError, match="No user has"):
            split(ratings, *settings_, other_users=others)
        return
    expected = slow_split(users, times, *settings_[1:], others)
    parts = split(ratings, *settings_, other_users=others)
    assert [part["item"].tolist() for part in parts] == expected
    for part in parts:
        assert part.columns.tolist() == ratings.columns.tolist()
        assert (part.dtypes == ratings.dtypes).all()
        assert part.index.tolist() == part["item"].tolist()  # the rows they were


TIMES = np.array([5, 3, 9, 3, 7, 1, 9, 2])
USERS = ["a", "b", "a", "a", "b", "a", "b", "b"]


def test_random_parts():
    rng = np.random.default_rng(1)
    users = rng.integers(0, 30, 1000)
    ratings = ratings_of(users, 0).drop(columns="timestamp")
    parts = split(ratings, "random", min_ratings=30, n_validation=3, n_test=4)
    enough = [u for u in range(30) if (users == u).sum() >= 30]
    assert 0 < len(enough) < 30
    for part, n in zip(parts[1:], (3, 4), strict=True):
        assert part["user"].value_counts().to_dict() == dict.fromkeys(enough, n)
    assert sorted(row for part in parts for row in part["item"]) == list(range(1000))
    again = split(ratings, "random", min_ratings=30, n_validation=3, n_test=4, random_state=0)
    other = split(ratings, "random", min_ratings=30, n_validation=3, n_test=4, random_state=1)
    assert again[2].equals(parts[2])
    assert not other[2].equals(parts[2])


def test_every_rating_is_drawn_alike():
    # 2,000 users with five ratings, 2,000 with three, in a fixed but mixed order of rows.
    users = np.repeat(np.arange(4000), np.tile([5, 3], 2000))
    place = np.concatenate([np.arange(n) for n in np.tile([5, 3], 2000)])
    ratings = ratings_of(users, 0).assign(place=place).sample(frac=1, random_state=0)
    test = split(ratings, "random", min_ratings=3, n_validation=1, n_test=1)[2]
    for n, owners in ((5, 0), (3, 1)):
        drawn = np.bincount(test.loc[test["user"] % 2 == owners, "place"], minlength=n)
        spread = np.sqrt(2000 / n * (1 - 1 / n))
        assert drawn.shape == (n,)
        assert (np.abs(drawn - 2000 / n) < 4 * spread).all()


REFUSED = {
    "no time": ({"timestamp": None}, {}, r"no column 'timestamp', only .*protocol='random'"),
    "no item": ({"item": None}, {}, r"no column 'item', only .*; rename"),
    "few": ({}, {"min_ratings": 5}, "No user has 5 ratings or more, .* is 4; lower min_ratings"),
    "nothing left": ({}, {"n_test": 3}, r"n_validation \+ n_test = 4 would leave .*; raise"),
    "negative": ({}, {"n_test": -1}, "n_test must be a whole number, 0 or more, not -1"),
    "fraction": ({}, {"min_ratings": 4.5}, "min_ratings must be a whole number"),
    "protocol": ({}, {"protocol": "time"}, "must be 'chronological' or 'random', not 'time'"),
    "others": ({}, {"other_users": "keep"}, "other_users must be 'train' or 'drop', not 'keep'"),
    "missing user": ({"user": ["a", None] * 4}, {}, r"Row 1 .*: the user is missing; drop"),
    "missing time": ({"timestamp": [1.0, np.nan] * 4}, {}, r"Row 1 .*: the timestamp is missing"),
    "text": ({"timestamp": ["2000-01-01", "May 3rd"] * 4}, {}, "Row 1 .*'May 3rd' is neither a number nor"),
    "durations": ({"timestamp": pd.to_timedelta(range(8))}, {}, "numbers or dates, not .*to_datetime"),
    "two times": ({"timestamp": None, "date": 1, "created_at": 2}, {}, "'date' and 'created_at' could both"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    changed, given_, message = REFUSED[case]
    ratings = ratings_of(USERS, TIMES)
    for name, values in changed.items():
        ratings = ratings.drop(columns=name) if values is None else ratings.assign(**{name: values})
    arguments = {"min_ratings": 4, "n_validation": 1, "n_test": 1} | given_
    with pytest.raises(DataError, match=message) as refusal:
        split(ratings, **arguments)
    assert str(refusal.value).endswith(".")

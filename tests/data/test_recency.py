"""How recent ratings are, against plain counting."""

import numpy as np
import pandas as pd
import polars
import pytest

from ordinalrbm.data.ratings import merged, read_ratings
from ordinalrbm.data.recency import NO_TIME, NOW, OLDEST, Times, ages, from_stored, times_of, to_arrays
from ordinalrbm.storage.reader import Stored


def made_up(n_users=12, n_items=40, seed=0):
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.6)
    order = rng.permutation(user.size)
    return pd.DataFrame(
        {
            "user": user[order],
            "item": item[order],
            "rating": rng.integers(1, 6, user.size),
            "timestamp": rng.integers(0, 30, user.size),  # many at the same time
        }
    )


def counted(frame):
    """By user and item: how many ratings of the user are later."""
    later = [
        int(((frame["user"] == row.user) & (frame["timestamp"] > row.timestamp)).sum())
        for row in frame.itertuples()
    ]
    return frame.assign(age=later).sort_values(["user", "item"])["age"].tolist()


def test_ages_are_the_numbers_of_later_ratings():
    frame = made_up()
    assert read_ratings(frame).age.tolist() == counted(frame)


def test_many_ratings_are_shared_by_threads():
    rng = np.random.default_rng(0)
    cell = rng.permutation(1_500_000)[:600_000]
    frame = pd.DataFrame({"user": cell // 1500, "item": cell % 1500, "rating": 1})
    frame["timestamp"] = rng.integers(0, 1000, cell.size)
    by_time = frame.sort_values(["user", "timestamp"])
    later = by_time.groupby("user")["timestamp"].rank("max", ascending=False) - 1
    same = by_time.groupby(["user", "timestamp"])["rating"].transform("size")
    expected = (later - same + 1).clip(upper=OLDEST).reindex(frame.index)
    expected = expected[frame.sort_values(["user", "item"]).index]
    assert np.array_equal(read_ratings(frame, scale=[1, 2]).age, expected)


def test_what_is_old_is_as_old_as_two_bytes_can_tell():
    n = OLDEST + 400
    found = ages(np.array([0, n]), np.arange(n))
    np.testing.assert_array_equal(found, np.minimum(np.arange(n)[::-1], OLDEST))


@pytest.mark.parametrize("form", ["dates", "text", "zones", "polars", "fractions", "unsigned"])
def test_times_in_any_form(form):
    frame = made_up()
    dates = pd.to_datetime(frame["timestamp"], unit="D")
    given = {
        "dates": frame.assign(timestamp=dates),
        "text": frame.assign(timestamp=dates.dt.strftime("%Y-%m-%d")),
        "zones": frame.assign(timestamp=dates.dt.tz_localize("Europe/Paris")),
        "polars": polars.from_pandas(frame.assign(timestamp=dates)),
        "fractions": frame.assign(timestamp=frame["timestamp"] / 7),
        "unsigned": frame.assign(timestamp=frame["timestamp"].astype(np.uint64)),
    }[form]
    assert read_ratings(given).age.tolist() == counted(frame)


@pytest.mark.parametrize("times", [["yesterday"], [None], [[1]]])
def test_times_that_make_no_sense_are_left_alone(times):
    frame = made_up()
    frame["timestamp"] = times * len(frame)
    assert read_ratings(frame).age is None


@pytest.mark.parametrize("form", ["dates", "numbers", "text", "polars"])
def test_a_rating_without_a_time_leaves_the_others_theirs(form):
    """It is never recent, and later than none."""
    frame = made_up()
    missing = np.zeros(len(frame), dtype=bool)
    missing[[3, 40]] = True
    dates = pd.to_datetime(frame["timestamp"], unit="D")
    times = {
        "dates": dates,
        "numbers": frame["timestamp"].astype(float),
        "text": dates.dt.strftime("%Y-%m-%d"),
        "polars": dates,
    }[form]
    given = frame.assign(timestamp=times.mask(missing))
    expected = np.array(counted(frame.assign(timestamp=frame["timestamp"].mask(missing, -1))))
    by_cell = frame.assign(missing=missing).sort_values(["user", "item"])["missing"].to_numpy()
    expected[by_cell] = OLDEST
    if form == "polars":
        given = polars.from_pandas(given)
    with pytest.warns(UserWarning, match=f"^2 of {len(frame)} ratings have no time and count as the oldest"):
        assert read_ratings(given).age.tolist() == expected.tolist()


@pytest.mark.parametrize("missing", ["NaT", "", "nan"])
def test_a_missing_time_may_be_text(missing):
    frame = made_up()
    times = pd.to_datetime(frame["timestamp"], unit="D").dt.strftime("%Y-%m-%d")
    times[5] = missing
    with pytest.warns(UserWarning, match=f"^1 of {len(frame)} ratings"):
        age = read_ratings(frame.assign(timestamp=times)).age
    assert (age == OLDEST).sum() == 1 and (age < OLDEST).sum() == len(frame) - 1


def test_new_ratings_make_the_others_older():
    frame = made_up()
    early, late = frame["timestamp"] < 20, frame["timestamp"] >= 20
    both, _, _ = merged(read_ratings(frame[early]), frame[late], "replace")
    # Ids in another order where late ones are new: compared cell by cell.
    found = both.to_frame().assign(age=both.age).sort_values(["user", "item"])
    assert found["age"].tolist() == counted(frame)


def test_new_users_and_items_are_as_recent_as_they_say():
    frame = made_up()
    known = frame[(frame["user"] < 9) & (frame["item"] < 30)]
    rest = frame.drop(known.index).assign(timestamp=lambda part: part["timestamp"] + 100)
    both, _, _ = merged(read_ratings(known), rest, "refuse")
    found = both.to_frame().assign(age=both.age).sort_values(["user", "item"])
    assert found["age"].tolist() == counted(pd.concat([known, rest]))


@pytest.mark.parametrize(
    "values", [[], [5, NO_TIME, NOW, 10**18 + 5], [7], [-(2**62), 2**62], [3, 9, 6, NOW]]
)
def test_times_survive_files(values):
    times = Times(np.array(values, dtype=np.int64), "whole")
    again = from_stored(Stored(to_arrays(times), {}), len(values))
    assert again.clock == "whole"
    assert again.value.tolist() == values


def test_times_of_one_clock_can_be_compared():
    days = pd.to_datetime(pd.Series(["2024-01-01", "2024-01-02"]))
    nanoseconds, clock = times_of(days)
    assert clock == "dates"
    assert times_of(days.dt.as_unit("s"), clock).value.tolist() == nanoseconds.tolist()
    assert times_of([1.0, 2.0], clock) is None
    fractions, clock = times_of([-1.5, -0.25, 0.0, 0.25, 3.5])
    assert clock == "fraction" and (np.diff(fractions) > 0).all()
    assert fractions[1] < times_of([0], clock).value[0] < fractions[3]
    assert times_of([2.75], "whole").value.tolist() == [2]

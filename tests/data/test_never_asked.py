"""Questions that a group was never asked are found, and chance is not taken for it."""

import numpy as np
import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm import DataError
from ordinalrbm.data.never_asked import in_words, never_asked_cells

RNG = np.random.default_rng(0)
COUNTRY = pd.Series(np.repeat(["at", "es", "pt", "is"], [120, 90, 60, 3]), name="country")


def answers(missing=0.2):
    values = RNG.integers(1, 6, (len(COUNTRY), 5)).astype(float)
    values[RNG.random(values.shape) < missing] = np.nan
    return pd.DataFrame(values, columns=[f"q{k}" for k in range(1, 6)])


def test_a_group_without_answers_is_found():
    X = answers()
    X.loc[COUNTRY == "es", "q2"] = np.nan
    X.loc[COUNTRY == "pt", ["q2", "q5"]] = np.nan
    found = orbm.never_asked(X, COUNTRY)
    assert {(line.group, line.question) for line in found.itertuples()} == {
        ("es", "q2"),
        ("pt", "q2"),
        ("pt", "q5"),
    }
    assert set(found["column"]) == {"country"}
    assert found.set_index(["group", "question"])["people"].max() <= 90


def test_gaps_by_chance_are_none():
    """Three people and much missing: all of them left something out."""
    X = answers(missing=0.7)
    X.loc[COUNTRY == "is", "q3"] = np.nan
    assert orbm.never_asked(X, COUNTRY).empty


def test_what_nobody_was_asked_is_no_difference_of_groups():
    X = answers()
    X["q4"] = np.nan
    assert orbm.never_asked(X, COUNTRY).empty
    assert orbm.never_asked(answers(), pd.Series(["one"] * len(COUNTRY))).empty


def test_a_single_answer_is_enough():
    X = answers()
    X.loc[COUNTRY == "es", "q2"] = np.nan
    X.loc[150, "q2"] = 3.0
    assert COUNTRY[150] == "es" and orbm.never_asked(X, COUNTRY).empty


def test_people_without_any_answer_are_not_counted():
    X = answers()
    X.loc[COUNTRY == "is"] = np.nan
    assert orbm.never_asked(X, COUNTRY).empty


def test_several_columns_of_groups_and_missing_groups():
    X = answers()
    groups = pd.DataFrame({"country": COUNTRY, "sex": RNG.choice(["f", "m"], len(COUNTRY))})
    groups.loc[:9, "sex"] = None
    X.loc[groups["sex"] == "m", "q1"] = np.nan
    found = orbm.never_asked(X, groups)
    assert found[["column", "group", "question"]].to_numpy().tolist() == [["sex", "m", "q1"]]
    cells = never_asked_cells(X, groups, found)
    np.testing.assert_array_equal(cells[:, 0], groups["sex"] == "m")
    assert not cells[:, 1:].any()


def test_in_words():
    X = answers()
    X.loc[COUNTRY == "at", ["q1", "q2", "q3", "q4"]] = np.nan
    words = in_words(orbm.never_asked(X, COUNTRY))
    assert words.startswith("Never asked: 'q1' where country is at (")
    assert words.endswith("and 1 more.")


def test_groups_of_other_rows():
    with pytest.raises(DataError, match=r"'country' have 272 rows, but X has 273"):
        orbm.never_asked(answers(), COUNTRY[1:])

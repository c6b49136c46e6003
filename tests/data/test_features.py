"""Features of users and items: every rule of the coding, and bad tables named with their remedy."""

import copy
import datetime
import json
import math
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordinalrbm.data.columns import Ids
from ordinalrbm.data.features import FEWEST, Coding, Features, aligned, encode_features, read_features
from ordinalrbm.data.ratings import read_ratings
from ordinalrbm.errors import DataError, DataTypeError

steady = settings(derandomize=True, deadline=None, max_examples=60)

USERS = [5, 3, 8, 1, 9, 2]  # out of order, so that a line in the frame's place would show
SCHOOL = ["primary", "college", "university"]


def frame(**columns):
    """Users with these columns, and "pad", which always is one feature (the first)."""
    return pd.DataFrame({"user": USERS, "pad": [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]} | columns)


def read(**columns):
    """Names and lines, in the order of USERS, of the features that these columns become."""
    features = read_features(frame(**columns), "user")
    lines = aligned(features, Ids(np.array(USERS))).toarray()
    return features.coding.names[1:], lines[:, 1:].tolist()


def learnt(**columns):
    return read_features(frame(**columns), "user").coding


def encoded(coding, **columns):
    """Lines of further users, in the order of the columns."""
    n = len(next(iter(columns.values())))
    more = pd.DataFrame({"user": range(n, 0, -1), "pad": [0.5] * n} | columns)
    return encode_features(coding, more, "user").table.toarray()[::-1, 1:].tolist()


def refused(match, error=DataError, **columns):
    with pytest.raises(error, match=match):
        read_features(frame(**columns), "user")


# ---- the form of the result --------------------------------------------------------------------


def test_lines_are_in_the_order_of_the_ids():
    features = read_features(frame(), "user")
    assert features.ids.labels.tolist() == [1, 2, 3, 5, 8, 9]
    assert features.table.toarray().ravel().tolist() == [1, 1, 1, -1, -1, -1]


def test_the_table_is_narrow_and_sorted():
    features = read_features(frame(job=["a", "b"] * 3, age=[1, 2, 3, 4, 5, None]), "user")
    assert features.table.format == "csr"
    assert features.table.dtype == np.float32
    assert features.table.indices.dtype == np.int32
    assert features.table.shape == (6, features.coding.n_features) == (6, 5)
    assert features.table.has_canonical_format
    assert (features.table.data != 0).all()


def test_names_of_features_in_the_order_of_the_columns():
    names, _ = read(
        education=pd.Categorical(SCHOOL * 2, SCHOOL, ordered=True),
        genres=["Drama|Action", "Action", "Action", "Drama", "Drama", ""],
        occupation=["artist"] * 3 + ["cook"] * 3,
        age=[20, None, 30, 40, 50, 60],
        paid=[True, False, False, True, True, False],
    )
    assert names == [
        "education>=college",
        "education>=university",
        "genres=Action",
        "genres=Drama",
        "occupation=artist",
        "occupation=cook",
        "age",
        "age is missing",
        "paid",
    ]


def test_items_have_features_too():
    items = pd.DataFrame({"item": ["b", "a"], "year": [1990, 2000]})
    features = read_features(items, "item")
    assert features.ids.labels.tolist() == ["a", "b"]
    assert features.table.toarray().tolist() == [[1], [-1]]


def test_the_order_of_the_rows_changes_no_bit():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"user": range(999), "a": rng.normal(size=999), "b": rng.choice(4, 999)})
    rows = rows.astype({"b": str})
    one = read_features(rows, "user")
    other = read_features(rows.sample(frac=1, random_state=1), "user")
    assert other.coding == one.coding
    assert (other.table != one.table).nnz == 0


def test_the_frame_is_left_as_it_was():
    given = frame(tags=[["a"], ["a"], ["a"], [], None, ["b "]], age=[1, None, 3, 4, 5, 6])
    before = copy.deepcopy(given)
    read_features(given, "user")
    pd.testing.assert_frame_equal(given, before)


# ---- numbers -----------------------------------------------------------------------------------


def test_numbers_are_standardised():
    ages = [20, 30, 30, 40, 60, 90]
    names, lines = read(age=ages)
    assert names == ["age"]
    expected = (np.array(ages) - 45) / math.sqrt(3350 / 6)
    np.testing.assert_allclose(np.ravel(lines), expected, rtol=1e-6)


def test_a_missing_number_is_the_mean_and_has_an_indicator():
    names, lines = read(age=[10, None, 20, 10, 20, np.nan])
    assert names == ["age", "age is missing"]
    assert lines == [[-1, 0], [0, 1], [1, 0], [-1, 0], [1, 0], [0, 1]]


NUMBERS = {
    "integers": [1, 5, 5, 1, 5, 1],
    "short": np.array([1, 5, 5, 1, 5, 1], np.uint8),
    "half": np.array([1, 5, 5, 1, 5, 1], np.float16),
    "nullable": pd.array([1, 5, 5, 1, 5, 1], "Int64"),
    "arrow": pd.array([1, 5, 5, 1, 5, 1], "float[pyarrow]"),
    "sparse": pd.arrays.SparseArray([1, 5, 5, 1, 5, 1]),
    "objects": pd.Series([1, 5.0, np.int8(5), Decimal(1), Fraction(5), 1], dtype=object),
    "big-endian": np.array([1, 5, 5, 1, 5, 1], ">i4"),
}


@pytest.mark.parametrize("form", NUMBERS)
def test_numbers_of_any_type(form):
    assert read(age=NUMBERS[form]) == (["age"], [[-1], [1], [1], [-1], [1], [-1]])


@pytest.mark.parametrize("large", [1.7e308, 5e-300, 1e200])
def test_numbers_near_the_ends_of_what_floats_hold(large):
    _, lines = read(x=[-large, large, large, -large, -large, large])
    assert lines == [[-1], [1], [1], [-1], [-1], [1]]


def test_a_distance_that_no_float_holds():
    _, lines = read(x=[1.7e308] + [-1.7e308] * 5)
    np.testing.assert_allclose(np.ravel(lines), [5**0.5] + [-(5**-0.5)] * 5, rtol=1e-6)


def test_small_differences_of_large_numbers_are_kept():
    _, lines = read(x=[2**52 + 1, 2**52 + 3] * 3)
    assert lines == [[-1], [1]] * 3


def test_differences_too_small_to_divide_by_are_none():
    with pytest.warns(UserWarning, match=r"\['x'\] \(only one value\)"):
        names, _ = read(x=[5e-324, 0, 0, 5e-324, 0, 0])
    assert names == []


@pytest.mark.parametrize("value", [np.inf, -np.inf, Decimal("Infinity")])
def test_infinity_is_refused(value):
    refused(r"Column 'age', row 2 \(counted from 0\): the value -?inf is", age=[1, 2, value] * 2)


def test_an_integer_that_no_float_holds_is_refused():
    refused("Column 'n', row 1 .* too large for a number of 64 bits", n=[1, 10**400, 2] * 2)


def test_a_signalling_nan_is_refused():
    refused("Column 'n' holds .* a NaN that signals", n=[Decimal("sNaN"), Decimal(1)] * 3)


def test_encoding_uses_what_was_learnt():
    coding = learnt(age=[10, 20, 10, 20, 10, 20], other=[1, 2, 3, 4, 5, None])
    lines = encoded(coding, age=[30.0, None, 15.0], other=[3, None, 3])
    assert lines == [[3, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_a_number_far_out_is_refused():
    coding = learnt(age=[10, 20, 10, 20, 10, 20])
    assert encoded(coding, age=[5015]) == [[1000]]
    with pytest.raises(DataError, match=r"'age', row 1 .* 1e\+300 is more than 1,000,000 standard"):
        encoded(coding, age=[15, 1e300])
    coding = Coding.from_json(
        [{"kind": "number", "name": "age", "mean": 0, "deviation": 1e-300, "has_missing": False}]
    )
    with pytest.raises(DataError, match="standard deviations away"):
        encode_features(coding, pd.DataFrame({"user": [1], "age": [1e300]}), "user")


# ---- booleans ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bool, "boolean", "bool[pyarrow]", object])
def test_booleans_are_an_indicator(kind):
    paid = pd.Series([True, False, False, True, False, False], dtype=kind)
    assert read(paid=paid) == (["paid"], [[1], [0], [0], [1], [0], [0]])


@pytest.mark.parametrize("kind", ["boolean", object])
def test_a_missing_boolean_is_the_average(kind):
    names, lines = read(paid=pd.Series([True, None, False, False, False, None], dtype=kind))
    assert names == ["paid"]
    assert lines == [[1], [0.25], [0], [0], [0], [0.25]]


def test_booleans_may_come_as_numbers_later():
    coding = learnt(paid=[True, False, True, True, False, True])
    assert np.allclose(encoded(coding, paid=[1.0, 0.0, None]), [[1], [0], [2 / 3]])
    assert encode_features(coding, frame(paid=[True] * 6), "user").table[:, [1]].sum() == 6
    with pytest.raises(DataError, match=r"'paid', row 1 .* 2.0 is neither true nor false"):
        encoded(coding, paid=[1, 2])


# ---- categories --------------------------------------------------------------------------------


def test_categories_that_enough_ids_have():
    assert FEWEST == 3
    names, lines = read(job=["cook", "smith", "cook", "smith", "cook", None])
    assert names == ["job=cook"]  # two smiths are too few
    assert lines == [[1], [0], [1], [0], [1], [0]]


def test_no_category_is_left_out_as_reference():
    names, lines = read(job=["b", "a"] * 3)
    assert names == ["job=a", "job=b"]
    assert lines == [[0, 1], [1, 0]] * 3


TEXTS = {
    "text": ["b", "a", "b", None, "a", "b"],
    "objects": pd.Series(["b", np.str_("a"), "b", np.nan, "a", "b"], dtype=object),
    "nullable": pd.array(["b", "a", "b", None, "a", "b"], "string"),
    "arrow": pd.array(["b", "a", "b", None, "a", "b"], "string[pyarrow]"),
    "categorical": pd.Categorical(["b", "a", "b", None, "a", "b"], ["z", "b", "a"]),
    "blanks": [" b", "a ", "b", "  ", "a", "\tb\n"],
    "empty": ["b", "a", "b", "", "a", "b"],
    "blank categories": pd.Categorical(["b", "a", " b", "", "a", "b "]),
    "lists": [["b"], ("a",), {"b"}, None, np.array(["a"]), frozenset("b")],
    "repeated": ["b|b", "a", "b", "|", "a|", " b | b "],
    "holes in lists": [["b", None], ["a"], ["b", ""], [], ["a", np.nan], ["b"]],
}


@pytest.mark.parametrize("form", TEXTS)
def test_text_of_any_type(form):
    names, lines = read(job=TEXTS[form])
    assert names == ["job=b"]
    assert lines == [[1], [0], [1], [0], [0], [1]]


@pytest.mark.parametrize("form", TEXTS)
def test_text_of_any_type_with_a_known_coding(form):
    coding = learnt(job=["a", "b"] * 3)
    assert encoded(coding, job=TEXTS[form]) == [[0, 1], [1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]


MANY = [["Action", "War"], ["War"], ["Action"], [], ["Action", "War", "Epic"], ["Epic"]]


@pytest.mark.parametrize(
    "cells",
    [
        ["|".join(one) for one in MANY],
        [" | ".join(one) for one in MANY],
        pd.Categorical(["|".join(one) for one in MANY]),
        MANY,
        [set(one) for one in MANY],
        pd.Series(MANY, dtype=pd.ArrowDtype(pa.list_(pa.string()))),
        ["Action|War", "War", "Action", None, "War|Epic|Action|War", "Epic"],
    ],
)
def test_several_values_in_a_cell(cells):
    names, lines = read(genres=cells)
    assert names == ["genres=Action", "genres=War"]
    assert lines == [[1, 1], [0, 1], [1, 0], [0, 0], [1, 1], [0, 0]]


def test_a_category_that_all_have_is_no_feature():
    names, lines = read(tags=["x|y", "x", "x|y", "x|y", "x", "x"])
    assert names == ["tags=y"]
    assert lines == [[1], [0], [1], [1], [0], [0]]


def test_one_text_or_none_is_a_feature():
    assert read(badge=["gold", None, "gold", None, "gold", None])[0] == ["badge=gold"]


def test_unknown_categories_have_no_indicator():
    coding = learnt(job=["a", "b"] * 3)
    assert encoded(coding, job=["c", "b", None, "a|c"]) == [[0, 0], [0, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize("later", [["10", "20", "30"], [10, 20, 30], [10.0, 20.0, np.nan]])
def test_categories_that_are_numbers(later):
    coding = learnt(zone=pd.Categorical([10, 20] * 3))
    assert coding.names[1:] == ["zone=10", "zone=20"]
    assert encoded(coding, zone=later) == [[1, 0], [0, 1], [0, 0]]


def test_large_numbers_as_categories_stay_apart():
    coding = learnt(zone=pd.Categorical([12345678, 12345679] * 3))
    assert coding.names[1:] == ["zone=12345678", "zone=12345679"]


def test_categories_that_are_true_or_false():
    coding = learnt(paid=pd.Categorical([True, False] * 3))
    assert coding.names[1:] == ["paid=False", "paid=True"]
    assert encoded(coding, paid=[True, False]) == [[0, 1], [1, 0]]


def test_thousands_of_categories_take_no_more_than_their_ones():
    n = 30_000
    rows = pd.DataFrame({"user": range(n), "city": (np.arange(n) % 5_000).astype(str)})
    features = read_features(rows, "user")
    assert features.table.shape == (n, 5_000)
    assert features.table.nnz == n


# ---- ordered levels ----------------------------------------------------------------------------


def ordered(values, levels=SCHOOL):
    return pd.Categorical(values, levels, ordered=True)


def test_ordered_levels_are_steps():
    names, lines = read(s=ordered(["college", "primary", "university"] * 2))
    assert names == ["s>=college", "s>=university"]
    assert lines == [[1, 0], [0, 0], [1, 1]] * 2


def test_a_missing_level_is_the_average_of_each_step():
    _, lines = read(s=ordered(["college", None, "university", "primary", "college", None]))
    assert lines[1] == lines[5] == [0.75, 0.25]


def test_steps_are_levels_that_somebody_has():
    levels = ["none", "low", "mid", "high", "top"]
    column = ordered(["high", "low"] * 3, levels)
    coding = learnt(s=column)
    assert coding.names[1:] == ["s>=high"]
    later = ordered(["none", "low", "mid", "high", "top"], levels)
    assert encoded(coding, s=later) == [[0], [0], [0], [1], [1]]


def test_a_step_that_only_one_has_is_a_feature():
    assert read(s=ordered(["primary"] * 5 + ["college"]))[0] == ["s>=college"]


@pytest.mark.parametrize(
    "later",
    [
        ["university", None, "college", "space", " primary "],
        pd.Categorical(["university", None, "college", "space", "primary"]),
        ordered(["university", None, "college", "space", "primary"], ["space", *SCHOOL[::-1]]),
    ],
)
def test_levels_in_another_form(later):
    """The order is the one that was learnt, and an unknown level says nothing."""
    coding = learnt(s=ordered(["primary", "primary", "college", "university"] + [None] * 2))
    assert encoded(coding, s=later) == [[1, 1], [0.5, 0.25], [1, 0], [0.5, 0.25], [0, 0]]


def test_levels_that_are_numbers_or_intervals():
    coding = learnt(s=ordered([1, 2, 3] * 2, [1, 2, 3]))
    assert coding.names[1:] == ["s>=2", "s>=3"]
    assert encoded(coding, s=[3.0, 1.0]) == [[1, 1], [0, 0]]
    coding = learnt(age=pd.cut([1, 2, 3, 4, 5, 6], [0, 3, 6]))
    assert coding.names[1:] == ["age>=(3, 6]"]


def test_a_level_may_have_a_bar():
    coding = learnt(s=ordered(["a|b", "c"] * 3, ["a|b", "c"]))
    assert coding.names[1:] == ["s>=c"]
    assert encoded(coding, s=["a|b", "c"]) == [[0], [1]]


def test_ordered_levels_that_are_refused():
    refused("Column 's' has the level 'b' twice", s=ordered(["a", "b"] * 3, ["a", "b", " b"]))
    many = [f"{k:03}" for k in range(102)]
    rows = pd.DataFrame({"user": range(102), "s": pd.Categorical(many, ordered=True)})
    with pytest.raises(DataError, match="'s' has 102 ordered levels, more than the 101"):
        read_features(rows, "user")
    assert read_features(rows[1:], "user").coding.n_features == 100
    coding = learnt(s=ordered(SCHOOL * 2))
    with pytest.raises(DataTypeError, match="Column 's' holds lists, but held ordered levels"):
        encoded(coding, s=[["college"]])


# ---- columns that tell nothing -----------------------------------------------------------------


CONSTANT = [
    [7] * 6,
    [7.0, None] * 3,
    [True] * 6,
    ["x"] * 6,
    [["x"]] * 6,
    pd.Categorical(["x"] * 6, ["x", "y"]),
    pd.Categorical(["x"] * 6, ["x", "y"], ordered=True),
]
EMPTY = [
    [None] * 6,
    [np.nan] * 6,
    ["", " ", "|", None, "", ""],
    [[]] * 6,
    pd.Categorical([None] * 6, ["x", "y"]),
    pd.Categorical([None] * 6, ["x", "y"], ordered=True),
    pd.array([None] * 6, "Int64"),
    pd.array([None] * 6, "string"),
]
RARE = [list("abcdef"), ["x", "x", "y", "y", "z", None], ["x|y", "x", "x", "x", "x", "x|y"]]


@pytest.mark.parametrize("column", CONSTANT)
def test_constant_columns_are_left_out(column):
    with pytest.warns(UserWarning, match=r"columns \['x'\] \(only one value\); drop"):
        assert read(x=column)[0] == []


@pytest.mark.parametrize("column", EMPTY)
def test_empty_columns_are_left_out(column):
    with pytest.warns(UserWarning, match=r"columns \['x'\] \(all missing\); drop"):
        assert read(x=column)[0] == []


@pytest.mark.parametrize("column", RARE)
def test_columns_that_differ_for_all_are_left_out(column):
    message = r"columns \['x'\] \(no value that at least 3 users, but not all, have\); drop"
    with pytest.warns(UserWarning, match=message):
        assert read(x=column)[0] == []


def test_one_warning_names_all_columns_and_this_file():
    with pytest.warns(UserWarning) as caught:
        read_features(
            frame(title=list("abcdef"), fax=[None] * 6, name=list("uvwxyz"), planet=[1] * 6), "user"
        )
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    assert "['title', 'name'] (no value that at least 3 users, but not all, have)" in message
    assert " and ['fax'] (all missing) and ['planet'] (only one value); drop them" in message


def test_no_feature_at_all_is_refused_without_a_warning():
    items = pd.DataFrame({"item": [1, 2, 3], "title": ["a", "b", "c"], "planet": [3, 3, 3]})
    with pytest.raises(DataError, match=r"No item feature .* \['title'\] .*\['planet'\] .*; give"):
        read_features(items, "item")


def test_columns_that_were_left_out_are_not_needed_later():
    with pytest.warns(UserWarning, match="title"):
        coding = learnt(title=list("abcdef"))
    assert encode_features(coding, frame(), "user").table.shape == (6, 1)


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        pd.date_range("2000-01-01", periods=6),
        pd.date_range("2000-01-01", periods=6, tz="UTC"),
        pd.period_range("2000-01", periods=6, freq="M"),
        pd.timedelta_range("1s", periods=6),
        [datetime.date(2000, 1, 1), None] * 3,
        pd.array(pd.date_range("2000-01-01", periods=6), "timestamp[us][pyarrow]"),
    ],
)
def test_dates_are_refused(values):
    refused(r"Column 'born' holds dates or times .*\.dt\.year", DataTypeError, born=values)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([{"a": 1}] * 6, "dict"),
        ([b"a", b"b"] * 3, "bytes"),
        ([1 + 2j, 1] * 3, "complex128"),
        (pd.Series([1j, None] * 3, dtype=object), "complex"),
    ],
)
def test_other_types_are_refused(values, kind):
    refused(f"Column 'x' holds values of type {kind}, .* or drop it", DataTypeError, x=values)


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([1, "a"] * 3, "int and str"),
        ([1.5, "a", None] * 2, "float and str"),
        ([True, 2] * 3, "bool and int"),
        (["a", ["b"]] * 3, "list and str"),
        (pd.Categorical([1, "a"] * 3), "int and str"),
    ],
)
def test_mixed_types_are_refused(values, kinds):
    column = values if isinstance(values, pd.Categorical) else pd.Series(values, dtype=object)
    refused(f"Column 'x' mixes values of type {kinds}; give", DataTypeError, x=column)


def test_lists_of_anything_but_text_are_refused():
    cells = [["a"], ["a", 7], None] * 2
    refused(r"'x', row 1 .* list holds a value of type int", DataTypeError, x=cells)
    refused(r"'x', row 0 .* value of type list", DataTypeError, x=[[["a"]], ["b"]] * 3)


def test_the_frame_is_checked():
    with pytest.raises(DataError, match=r"no column 'item', only \['user', 'pad'\]; rename"):
        read_features(frame(), "item")
    with pytest.raises(DataError, match="have no column but 'user'; give"):
        read_features(frame()[["user"]], "user")
    with pytest.raises(DataError, match="The user features have no row"):
        read_features(frame()[:0], "user")
    with pytest.raises(DataError, match="more than one column named 'pad'; rename"):
        read_features(pd.concat([frame(), frame()[["pad"]]], axis=1), "user")
    with pytest.raises(DataError, match="more than one column named 'user'; rename"):
        read_features(pd.concat([frame(), frame()[["user"]]], axis=1), "user")
    with pytest.raises(DataTypeError, match="a column named 7, which is no text"):
        read_features(frame().rename(columns={"pad": 7}), "user")
    with pytest.raises(
        DataTypeError, match=r"user features must be a DataFrame of pandas or polars.*, not dict"
    ):
        read_features({"user": [1]}, "user")


def test_a_repeated_id_is_refused():
    rows = frame().assign(user=[5, 3, 8, 3, 5, 2])
    message = r"Row 3 \(counted from 0\): the user 3 is there before, in row 1; .*\('user'\)"
    for data in (rows, rows.astype({"user": float}), pl.from_pandas(rows)):
        with pytest.raises(DataError, match=message):
            read_features(data, "user")


def test_a_missing_id_is_refused():
    for ids in ([5, 3, None, 1, 9, 2], ["a", "b", None, "c", "d", "e"]):
        rows = frame().assign(user=ids)
        for data in (rows, rows.convert_dtypes(), pl.from_pandas(rows, nan_to_null=True)):
            with pytest.raises(DataError, match=r"Row 2 .*: the user is missing"):
                read_features(data, "user")


# ---- further frames ----------------------------------------------------------------------------


def test_further_frames_need_the_columns_and_ignore_others():
    coding = learnt(age=[1, 2] * 3)
    with pytest.raises(DataError, match=r"no column 'age', only \['user', 'pad', 7\]; give all"):
        encode_features(coding, frame(**{"x": 1}).rename(columns={"x": 7}), "user")
    more = frame(age=[2] * 6, born=pd.date_range("2000-01-01", periods=6), job=[{}] * 6)
    more = more[["job", "age", "born", "pad", "user"]]
    features = encode_features(coding, more, "user")
    assert features.coding is coding
    assert features.table.toarray()[:, 1].tolist() == [1] * 6
    with pytest.raises(DataError, match="no column 'item'"):
        encode_features(coding, more, "item")
    with pytest.raises(DataError, match="have no row"):
        encode_features(coding, more[:0], "user")
    with pytest.raises(DataError, match="the user 5 is there before, in row 0"):
        encode_features(coding, pd.concat([more, more]), "user")
    with pytest.raises(DataError, match=r"Column 'age', row 0 .* infinite"):
        encode_features(coding, frame(age=[np.inf] * 6), "user")


def test_numbers_given_as_text_are_refused():
    coding = learnt(age=[1, 2] * 3, paid=[True, False] * 3)
    with pytest.raises(DataTypeError, match=r"'age', row 1 .*: '2' is text, .* pandas.to_numeric"):
        encoded(coding, age=[None, "2"], paid=[True, False])
    with pytest.raises(DataTypeError, match=r"'paid', row 0 .*: 'yes' is text"):
        encoded(coding, age=[1, 2], paid=["yes", "no"])
    for nothing in (["", None], pd.array([None, None], "string"), [None, None], [[], []]):
        assert encoded(coding, age=nothing, paid=[True, False]) == [[0, 1], [0, 0]]


def test_text_given_as_numbers_is_refused():
    coding = learnt(job=["a", "b"] * 3, s=ordered(SCHOOL * 2))
    with pytest.raises(DataTypeError, match=r"'job', row 1 .*: 3 is no text, .* such as 'a'"):
        encoded(coding, job=[None, 3.0], s=SCHOOL[:2])
    with pytest.raises(DataTypeError, match=r"'s', row 0 .*: True is no text, .* 'primary'"):
        encoded(coding, job=["a", "b"], s=[True, False])
    assert encoded(coding, job=[np.nan], s=["primary"]) == [[0, 0, 0, 0]]


def test_what_was_learnt_is_encoded_alike():
    rows = frame(
        age=[1, 4, None, 2, 2, 2],
        job=["a", "b", "a", "a", "b", "b"],
        genres=[["x", "y"], ["x"], ["y"], ["y"], [], ["x"]],
        s=ordered(["college", None, *SCHOOL, None]),
        paid=[True, False, None, True, True, False],
    )
    features = read_features(rows, "user")
    again = encode_features(features.coding, rows, "user")
    assert (again.table != features.table).nnz == 0
    part = encode_features(features.coding, rows[2:4], "user")
    assert part.ids.labels.tolist() == [1, 8]
    assert (part.table != aligned(features, part.ids)).nnz == 0


# ---- other ids ---------------------------------------------------------------------------------


def test_lines_in_the_order_of_other_ids():
    features = read_features(frame(job=["a", "b"] * 3), "user")
    lines = aligned(features, Ids(np.array([9, 4, 1, 9])))
    assert lines.format == "csr"
    assert lines.dtype == np.float32
    assert lines.toarray().tolist() == [[-1, 1, 0], [0, 0, 0], [1, 0, 1], [-1, 1, 0]]
    assert aligned(features, Ids(np.empty(0, dtype=np.int64))).shape == (0, 3)
    with pytest.raises(DataError, match="The users known here are integers, such as 1, but"):
        aligned(features, Ids(np.array(["a"], dtype=object)), "user")


@pytest.mark.parametrize("kind", ["Int64", "float64", "uint8", "category", "int64[pyarrow]", object])
def test_ids_of_another_type_than_those_of_the_ratings(kind):
    ratings = read_ratings(([1, 2, 3, 4], [1, 1, 1, 1], [1, 2, 1, 2]))
    features = read_features(frame().astype({"user": kind}), "user")
    assert features.ids.labels.dtype == np.int64
    assert aligned(features, ratings.users).toarray().ravel().tolist() == [1, 1, 1, 0]


# ---- polars ------------------------------------------------------------------------------------


POLARS = {
    "numbers": ([1, 2, None, 4, 5, 6], "Int64", pl.Int64),
    "floats": ([0.1, None, 0.3, 0.4, math.nan, 0.6], "float32", pl.Float32),
    "wide": ([1, 2, 3, 4, 5, None], "Float64", pl.Int128),
    "decimals": ([Decimal("1.5"), None, Decimal("2.5")] * 2, object, pl.Decimal(10, 1)),
    "booleans": ([True, None, False, False, True, False], "boolean", pl.Boolean),
    "text": (["b", "a ", "b", None, "", "b"], "string", pl.String),
    "bars": (["b|a", "a", "b", None, "", "b |a"], "string", pl.String),
    "categories": (["b", "a", "b", None, "a", "b"], "category", pl.Categorical),
    "lists": ([["b"], ["a", None], ["b", "a"], None, [], ["b"]], object, pl.List(pl.String)),
    "listed categories": ([["b", "a"], ["a"], ["b"], None, [], ["b"]], object, pl.List(pl.Categorical)),
    "arrays": ([["b", "a"], ["a", "c"], ["b", "a"]] * 2, object, pl.Array(pl.String, 2)),
    "levels": (
        ["college", None, "university", "primary", "primary", None],
        pd.CategoricalDtype(SCHOOL, ordered=True),
        pl.Enum(SCHOOL),
    ),
}


@pytest.mark.parametrize("column", POLARS)
def test_polars_and_pandas_are_read_alike(column):
    values, pandas_type, polars_type = POLARS[column]
    given = frame(x=pd.Series(values, dtype=pandas_type))
    ids = {"user": USERS, "pad": given["pad"].tolist()}
    other = pl.DataFrame(ids | {"x": pl.Series(values, dtype=polars_type)})
    one, two = read_features(given, "user"), read_features(other, "user")
    assert two.coding == one.coding
    assert two.coding.n_features > 1
    assert two.ids.labels.tolist() == one.ids.labels.tolist()
    assert (two.table != one.table).nnz == 0
    crossed = encode_features(one.coding, other, "user")
    assert (crossed.table != one.table).nnz == 0


def test_columns_without_a_value_in_polars():
    rows = pl.DataFrame({"user": [1, 2], "pad": [0, 1], "x": [None, None]})
    with pytest.warns(UserWarning, match="all missing"):
        assert read_features(rows, "user").coding.names == ["pad"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([datetime.date(2000, 1, 1), None], "holds dates or times"),
        ([datetime.datetime(2000, 1, 1), None], "holds dates or times"),
        ([datetime.time(1), None], "holds dates or times"),
        ([datetime.timedelta(1), None], "holds dates or times"),
        ([{"a": 1}, None], "holds values of type Struct"),
        ([[1, 2], [3]], r"row 0 .* the list holds a value of type int"),
        ([b"a", None], "holds values of type bytes"),
        ([math.inf, 1.0], r"row 0 .* the value inf is infinite"),
    ],
)
def test_polars_columns_that_are_refused(values, message):
    with pytest.raises(DataError, match=f"Column 'x'.*{message}"):
        read_features(pl.DataFrame({"user": [1, 2], "pad": [0, 1], "x": values}), "user")


# ---- against a slow reading --------------------------------------------------------------------


def slow_reading(tags, levels):
    """Features by dictionaries: tags by "|", then levels from "a" to "d", then lines by row."""
    sets = [{tag.strip() for tag in cell.split("|")} - {""} for cell in tags]
    count = {tag: sum(tag in cell for cell in sets) for tag in set().union(*sets)}
    kept = sorted(tag for tag, n in count.items() if FEWEST <= n < len(tags))
    known = [level for level in levels if level is not None]
    steps = sorted(set(known))[1:]
    average = {step: sum(level >= step for level in known) / len(known) for step in steps}
    names = [f"tags={tag}" for tag in kept] + [f"level>={step}" for step in steps]
    lines = [
        [float(tag in cell) for tag in kept]
        + [average[step] if level is None else float(level >= step) for step in steps]
        for cell, level in zip(sets, levels, strict=True)
    ]
    return names, lines


cells = st.lists(st.sampled_from(["x", "y", " z", "w "]), max_size=3).map("|".join)
rows = st.lists(st.tuples(cells, st.sampled_from([None, *"abcd"])), min_size=1, max_size=20)


@steady
@given(rows)
def test_a_slow_reading_agrees(rows):
    tags, levels = map(list, zip(*rows, strict=True))
    n = len(rows)
    given = {"user": range(n, 0, -1), "pad": [0] * (n - 1) + [1], "tags": tags}
    data = pd.DataFrame(given | {"level": pd.Categorical(levels, list("abcd"), ordered=True)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if n == 1:
            with pytest.raises(DataError, match="No user feature"):
                read_features(data, "user")
            return
        features = read_features(data, "user")
    names, lines = slow_reading(tags, levels)
    assert features.coding.names[1:] == names
    np.testing.assert_allclose(features.table.toarray()[::-1, 1:], np.array(lines), rtol=1e-6)


# ---- to JSON and back --------------------------------------------------------------------------


def every_kind():
    return learnt(
        age=[1, 2, None, 0.1, 4, 4],
        paid=[True, None, False, False, True, False],
        job=pd.Series(["ä|b", "b|\ud800", "\ud800", "ä|\ud800", "b", "ä"], dtype=object),
        s=ordered([*SCHOOL, None, "primary", "college"]),
    )


def test_a_coding_survives_being_json():
    coding = every_kind()
    back = Coding.from_json(json.loads(json.dumps(coding.to_json(), allow_nan=False)))
    assert back == coding
    assert back.names == coding.names
    assert back.n_features == coding.n_features == len(coding.names) == 9


WRONG = {
    "pad": [
        ("kind", None),
        ("kind", "ordered"),
        ("kind", "magic"),
        ("kind", []),
        ("name", 3),
        ("name", None),
        ("name", "age"),
        ("mean", math.nan),
        ("mean", math.inf),
        ("mean", "0"),
        ("mean", True),
        ("mean", 10**400),
        ("deviation", 0.0),
        ("deviation", -1.0),
        ("deviation", 1e-310),
        ("deviation", math.inf),
        ("deviation", None),
        ("deviation", math.nan),
        ("has_missing", 1),
        ("has_missing", None),
    ],
    "paid": [("average", -0.1), ("average", 1.5), ("average", math.nan), ("average", None)],
    "job": [
        ("categories", []),
        ("categories", "ab"),
        ("categories", ["a", "a"]),
        ("categories", ["a", 1]),
        ("categories", [""]),
        ("categories", [" a"]),
        ("categories", ["a|b"]),
        ("categories", [["a"]]),
        ("categories", None),
    ],
    "s": [
        ("levels", []),
        ("levels", ["primary"]),
        ("levels", ["a", "a", "b"]),
        ("levels", [1, 2, 3]),
        ("levels", {"a": 1}),
        ("steps", []),
        ("steps", [2, 1]),
        ("steps", [1, 1]),
        ("steps", [0, 1]),
        ("steps", [1, 3]),
        ("steps", [-1, 1]),
        ("steps", [1.0, 2.0]),
        ("steps", [1]),
        ("steps", [True, 2]),
        ("steps", [[1], [2]]),
        ("steps", None),
        ("averages", [0.5]),
        ("averages", [0.5, 1.5]),
        ("averages", [0.5, math.nan]),
        ("averages", [0.5, "0"]),
        ("averages", [0.5, False]),
        ("averages", 0.5),
    ],
}


@pytest.mark.parametrize(
    ("column", "entry", "value"),
    [(column, *change) for column, changes in WRONG.items() for change in changes],
)
def test_a_coding_from_a_file_is_checked(column, entry, value):
    content = every_kind().to_json()
    changed = next(one for one in content if one["name"] == column)
    changed[entry] = value
    with pytest.raises(DataError, match=r"^(its header|it lacks a part of the model, 'levels')"):
        Coding.from_json(content)
    del changed[entry]
    with pytest.raises(DataError, match=f"it lacks a part of the model, '{entry}'"):
        Coding.from_json(content)


@pytest.mark.parametrize("content", [None, {}, [], "number", [None], [[]], 7])
def test_no_coding_at_all(content):
    with pytest.raises(DataError, match=r"^its header has"):
        Coding.from_json(content)


def test_steps_of_a_file_are_no_more_than_are_learnt():
    levels = [str(k) for k in range(200)]
    column = {"kind": "ordered", "name": "s", "levels": levels}
    for n, is_fine in ((100, True), (101, False)):
        content = [column | {"steps": list(range(1, n + 1)), "averages": [0.5] * n}]
        if is_fine:
            assert Coding.from_json(content).n_features == n
        else:
            with pytest.raises(DataError, match="as 'steps'"):
                Coding.from_json(content)


def test_codings_are_frozen_and_can_be_copied():
    coding = learnt()
    with pytest.raises(AttributeError):
        coding.columns = ()
    with pytest.raises(AttributeError):
        coding.columns[0].mean = 0.0
    assert pickle.loads(pickle.dumps(coding)) == copy.deepcopy(coding) == coding
    with pytest.raises(AttributeError):
        Features(Ids(np.array([1])), None, coding).table = 1

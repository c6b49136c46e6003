"""Features of users and items: every rule of the coding, and bad tables named with their remedy."""

import datetime
import json
import math
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

from ordinalrbm.data.columns import Ids, read_column
from ordinalrbm.data.features import FEWEST, Coding, aligned, encode_features, learn_column, read_features
from ordinalrbm.data.ratings import read_ratings
from ordinalrbm.errors import DataError, DataTypeError

steady = settings(derandomize=True, deadline=None, max_examples=60)

USERS = [5, 3, 8, 1, 9, 2]  # out of order, so that a line in the frame's place would show


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
    features = read_features(frame(job=["a", "b"] * 3), "user")
    assert features.ids.labels.tolist() == [1, 2, 3, 5, 8, 9]
    assert features.table.toarray()[:, 0].tolist() == [1, 1, 1, -1, -1, -1]
    assert features.table.format == "csr"
    assert features.table.dtype == np.float32
    assert features.table.indices.dtype == features.table.indptr.dtype == np.int32
    items = pd.DataFrame({"item": ["b", "a"], "year": [1990, 2000]})
    assert read_features(items, "item").table.toarray().tolist() == [[1], [-1]]


def test_names_of_features_in_the_order_of_the_columns():
    names, _ = read(
        genres=[["Drama", "Action"], ["Action"], ["Action"], ["Drama"], ["Drama"], []],
        occupation=["artist"] * 3 + ["cook"] * 3,
        age=[20, None, None, 40, 50, None],
        paid=[True, False, False, True, True, False],
    )
    expected = ["genres=Action", "genres=Drama", "occupation=artist", "occupation=cook"]
    assert names == [*expected, "age", "age is missing", "paid"]


def test_the_order_of_the_rows_changes_no_bit():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"user": range(999), "a": rng.normal(size=999), "b": rng.choice(list("xyz"), 999)})
    before = rows.copy()
    one = read_features(rows, "user")
    other = read_features(rows.sample(frac=1, random_state=1), "user")
    assert other.coding == one.coding
    assert (other.table != one.table).nnz == 0
    pd.testing.assert_frame_equal(rows, before)


def test_rows_of_which_nothing_is_known_have_no_entry():
    """A row at the mean of all that is known of it has one."""
    rows = frame(age=[2, 2, None, 1, 3, 2], pad=[None, 1, None, 1, 0, 0])
    table = read_features(rows, "user").table
    assert (np.diff(table.indptr) > 0).tolist() == [True, True, True, True, False, True]


# ---- numbers and booleans -----------------------------------------------------------------------


def test_numbers_are_standardised():
    ages = [20, 30, 30, 40, 60, 90]
    names, lines = read(age=ages)
    assert names == ["age"]
    np.testing.assert_allclose(np.ravel(lines), (np.array(ages) - 45) / math.sqrt(3350 / 6), rtol=1e-6)


def test_missing_values_are_the_mean_and_marked_where_enough_lack_one():
    assert read(age=[10, None, 20, 10, None, 20]) == (["age"], [[-1], [0], [1], [-1], [0], [1]])
    names, lines = read(age=[10, None, 20, np.nan, None, None])
    assert names == ["age", "age is missing"]
    assert lines == [[-1, 0], [0, 1], [1, 0], [0, 1], [0, 1], [0, 1]]
    job = ["cook", None, "cook", "cook", None, None]
    assert read(job=job) == (["job=cook"], [[1], [0], [1], [1], [0], [0]])
    in_background = learn_column(read_column(pd.Series(job), "job"))
    assert in_background.feature_names == ["job=cook", "job is missing"]


NUMBERS = {
    "short": np.array([1, 5, 5, 1, 5, 1], np.uint8),
    "half": np.array([1, 5, 5, 1, 5, 1], np.float16),
    "nullable": pd.array([1, 5, 5, 1, 5, 1], "Int64"),
    "arrow": pd.array([1, 5, 5, 1, 5, 1], "float[pyarrow]"),
    "objects": pd.Series([1, 5.0, np.int8(5), Decimal(1), Fraction(5), 1], dtype=object),
}


@pytest.mark.parametrize("form", NUMBERS)
def test_numbers_of_any_type(form):
    assert read(age=NUMBERS[form]) == (["age"], [[-1], [1], [1], [-1], [1], [-1]])


def test_numbers_that_cannot_be_used_are_refused():
    refused(r"Column 'age', row 2 \(counted from 0\): the value is infinite", age=[1, 2, np.inf] * 2)
    refused("Column 'n', row 1 .* too large for a number of 64 bits", n=[1, 10**400, 2] * 2)
    refused("Column 'n' has numbers too large or too close", n=[1e308, -1e308] * 3)
    refused("Column 'n' has numbers too large or too close", n=[5e-324, 0.0] * 3)


def test_encoding_uses_what_was_learnt():
    coding = learnt(age=[10, 20, 10, 20, 10, 20])
    assert encoded(coding, age=[30.0, None, 15.0, 5015]) == [[3], [0], [0], [1000]]
    with pytest.raises(DataError, match=r"'age', row 1 .* 1e\+300 is more than 1,000,000 standard"):
        encoded(coding, age=[15, 1e300])


@pytest.mark.parametrize("kind", ["boolean", "bool[pyarrow]", object])
def test_booleans_are_distances_from_their_mean(kind):
    paid = pd.Series([True, None, False, False, False, None], dtype=kind)
    assert read(paid=paid) == (["paid"], [[0.75], [0], [-0.25], [-0.25], [-0.25], [0]])
    coding = learnt(paid=paid)
    assert encoded(coding, paid=[1.0, 0.0, None]) == [[0.75], [-0.25], [0]]


# ---- categories ---------------------------------------------------------------------------------


TEXTS = {
    "objects": pd.Series(["b", np.str_("a"), "b", np.nan, "a", "b"], dtype=object),
    "arrow": pd.array(["b", "a", "b", None, "a", "b"], "string[pyarrow]"),
    "categorical": pd.Categorical(["b", "a", "b", None, "a", "b"], ["z", "b", "a"]),
    "ordered": pd.Categorical(["b", "a", "b", None, "a", "b"], ["z", "b", "a"], ordered=True),
    "blanks": [" b", "a ", "b", "  ", "a", "\tb\n"],
    "blank categories": pd.Categorical(["b", "a", " b", "", "a", "b "]),
    "lists": [["b"], ("a",), {"b"}, None, np.array(["a"]), frozenset("b")],
    "holes in lists": [["b", None], ["a"], ["b", ""], [], ["a", np.nan], ["b", "b"]],
}


@pytest.mark.parametrize("form", TEXTS)
def test_text_of_any_type(form):
    assert read(job=TEXTS[form]) == (["job=b"], [[1], [0], [1], [0], [0], [1]])
    coding = learnt(job=["a", "b"] * 3)
    assert encoded(coding, job=TEXTS[form]) == [[0, 1], [1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]


MANY = [["Action", "War"], ["War"], ["Action"], [], ["Action", "War", "Epic"], ["Epic"]]


@pytest.mark.parametrize(
    "cells",
    [
        MANY,
        [set(one) for one in MANY],
        pd.Series(MANY, dtype=pd.ArrowDtype(pa.list_(pa.string()))),
        pd.Series(["|".join(one) for one in MANY]).str.split("|"),
    ],
)
def test_several_categories_in_a_cell(cells):
    names, lines = read(genres=cells)
    assert names == ["genres=Action", "genres=War"]
    assert lines == [[1, 1], [0, 1], [1, 0], [0, 0], [1, 1], [0, 0]]


def test_text_with_bars_is_one_category():
    assert read(genres=["a|b", "a|b", "a|b", "a", "a", "a"])[0] == ["genres=a", "genres=a|b"]


def test_unknown_categories_have_no_indicator():
    coding = learnt(job=["a", "b"] * 3)
    assert encoded(coding, job=[["c"], ["b"], None, ["a", "c"]]) == [[0, 0], [0, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize("later", [["10", "20", "30"], [10, 20, 30], [10.0, 20.0, np.nan]])
def test_categories_that_are_numbers(later):
    coding = learnt(zone=pd.Categorical([10, 20] * 3))
    assert coding.names[1:] == ["zone=10", "zone=20"]
    assert encoded(coding, zone=later) == [[1, 0], [0, 1], [0, 0]]


def test_categories_that_are_true_or_false_or_intervals():
    coding = learnt(paid=pd.Categorical([True, False] * 3), age=pd.cut([1, 2, 3, 4, 5, 6], [0, 3, 6]))
    assert coding.names[1:] == ["paid=False", "paid=True", "age=(0, 3]", "age=(3, 6]"]
    lines = encoded(coding, paid=[True, False], age=pd.cut([4, 1], [0, 3, 6]))
    assert lines == [[0, 1, 0, 1], [1, 0, 1, 0]]


def test_thousands_of_categories_take_no_more_than_their_ones():
    n = 30_000
    rows = pd.DataFrame({"user": range(n), "city": (np.arange(n) % 5_000).astype(str)})
    features = read_features(rows, "user")
    assert features.table.shape == (n, 5_000)
    assert features.table.nnz == n


# ---- columns that tell nothing -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ([7.0, None] * 3, "only one value"),
        ([True] * 6, "only one value"),
        ([["x"]] * 6, "only one value"),
        (pd.Categorical(["x"] * 6, ["x", "y"]), "only one value"),
        ([None] * 6, "all missing"),
        (["", " ", None, None, "", ""], "all missing"),
        ([[]] * 6, "all missing"),
        (pd.array([None] * 6, "Int64"), "all missing"),
        (list("abcdef"), "no value that at least 3 users, but not all, have"),
        (["x", "x", None, None, None, None], "no value that at least 3 users, but not all, have"),
        ([["x", "y"], ["x"], ["x"], ["x"], ["x"], ["x", "y"]], "no value that at least 3 users"),
    ],
)
def test_columns_that_tell_nothing_are_left_out(column, why):
    with pytest.warns(UserWarning, match=rf"columns \['x'\] \({why}") as caught:
        assert read(x=column)[0] == []
    assert str(caught[0].message).endswith("agree and others differ.")


def test_one_warning_names_all_columns_and_this_file():
    with pytest.warns(UserWarning) as caught:
        coding = learnt(title=list("abcdef"), fax=[None] * 6, name=list("uvwxyz"), planet=[1] * 6)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    assert "['title', 'name'] (no value that at least 3 users, but not all, have)" in message
    assert " and ['fax'] (all missing) and ['planet'] (only one value); drop them" in message
    assert encode_features(coding, frame(), "user").table.shape == (6, 1)  # they are not needed later


def test_no_feature_at_all_is_refused_without_a_warning():
    items = pd.DataFrame({"item": [1, 2, 3], "title": ["a", "b", "c"], "planet": [3, 3, 3]})
    with pytest.raises(DataError, match=r"No item feature .* \['title'\] .*\['planet'\] .*; give"):
        read_features(items, "item")
    with pytest.raises(DataError, match=r"No item feature .* beside the ids; give"):
        read_features(items[["item"]], "item")
    with pytest.raises(DataError, match="all missing"):
        read_features(items[:0], "item")


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pd.date_range("2000-01-01", periods=6, tz="UTC"), "Timestamp"),
        (pd.timedelta_range("1s", periods=6), "timedelta64"),
        ([datetime.date(2000, 1, 1), None] * 3, "date"),
        ([{"a": 1}] * 6, "dict"),
        ([b"a", b"b"] * 3, "bytes"),
        ([1 + 2j, 1] * 3, "complex128"),
        ([[["a"]], ["b"]] * 3, "list"),
        ([[{"a": 1}], None] * 3, "dict"),
    ],
)
def test_other_types_are_refused(values, kind):
    refused(rf"Column 'x' holds values of type {kind}.* \.dt\.year\), or drop it", DataTypeError, x=values)


@pytest.mark.parametrize(
    "values", [[1, "a"] * 3, [1.5, "a", None] * 2, pd.Categorical([1, "a"] * 3), [["a", 1]] * 6]
)
def test_mixed_types_are_refused(values):
    column = values if isinstance(values, pd.Categorical) else pd.Series(values, dtype=object)
    refused("Column 'x' mixes text and numbers; give", DataTypeError, x=column)


def test_the_frame_is_checked():
    with pytest.raises(DataError, match=r"no column 'item' that holds .*\['user', 'pad'\]; rename"):
        read_features(frame(), "item")
    with pytest.raises(DataError, match=r"several columns that could hold .*\['uid', 'customer'\]"):
        read_features(frame().rename(columns={"user": "uid", "pad": "customer"}), "user")
    with pytest.raises(DataError, match="more than one column named 'pad'; rename"):
        read_features(pd.concat([frame(), frame()[["pad"]]], axis=1), "user")
    with pytest.raises(DataTypeError, match=r"must be a DataFrame of pandas or polars.*, not dict"):
        read_features({"user": [1]}, "user")
    rows = frame().assign(user=[5, 3, 8, 3, 5, 2])
    for data in (rows, pl.from_pandas(rows)):
        with pytest.raises(DataError, match=r"Row 3 \(counted from 0\): the user 3 is in a row before"):
            read_features(data, "user")
    for data in (frame().assign(user=[5, 3, None, 1, 9, 2]), frame().assign(user=["a", "b", None, *"cde"])):
        with pytest.raises(DataError, match=r"Row 2 .*: the user is missing"):
            read_features(data, "user")


# ---- further frames ----------------------------------------------------------------------------


def test_further_frames_need_the_columns_and_ignore_others():
    coding = learnt(age=[1, 2] * 3)
    with pytest.raises(DataError, match=r"no column 'age', only \['user', 'pad', '7'\]; give all"):
        encode_features(coding, frame(**{"x": 1}).rename(columns={"x": 7}), "user")
    more = frame(age=[2] * 6, born=pd.date_range("2000-01-01", periods=6), job=[{}] * 6)
    features = encode_features(coding, more[["job", "age", "born", "pad", "user"]], "user")
    assert features.coding is coding
    assert features.table.toarray()[:, 1].tolist() == [1] * 6


def test_columns_of_another_kind_than_before_are_refused():
    coding = learnt(age=[1, 2] * 3, job=["a", "b"] * 3)
    with pytest.raises(DataTypeError, match=r"'age', row 1 .*: '2' is text, .* pandas.to_numeric"):
        encoded(coding, age=[None, "2"], job=["a", "b"])
    with pytest.raises(DataTypeError, match=r"'job', row 1 .*: 3 is no text, .* such as 'a'"):
        encoded(coding, age=[1, 2], job=[None, 3.0])
    for nothing in (["", None], pd.array([None, None], "string"), [None, None], [[], []]):
        assert encoded(coding, age=nothing, job=nothing) == [[0, 0, 0]] * 2


def test_what_was_learnt_is_encoded_alike():
    features = read_features(every_kind(), "user")
    again = encode_features(features.coding, every_kind(), "user")
    assert (again.table != features.table).nnz == 0
    part = encode_features(features.coding, every_kind()[2:4], "user")
    assert part.ids.labels.tolist() == [1, 8]
    assert (part.table != aligned(features, part.ids)).nnz == 0


def test_lines_in_the_order_of_other_ids():
    features = read_features(frame(job=["a", "b"] * 3), "user")
    lines = aligned(features, Ids(np.array([9, 4, 1, 9])))
    assert lines.toarray().tolist() == [[-1, 1, 0], [0, 0, 0], [1, 0, 1], [-1, 1, 0]]
    assert aligned(features, Ids(np.empty(0, dtype=np.int64))).shape == (0, 3)
    with pytest.raises(DataError, match="The users known here are integers, such as 1, but"):
        aligned(features, Ids(np.array(["a"], dtype=object)), "user")


@pytest.mark.parametrize("kind", ["Int64", "float64", "category", "int64[pyarrow]", object])
def test_ids_of_another_type_than_those_of_the_ratings(kind):
    ratings = read_ratings(([1, 2, 3, 4], [1, 1, 1, 1], [1, 2, 1, 2]))
    features = read_features(frame().astype({"user": kind}), "user")
    assert aligned(features, ratings.users).toarray().ravel().tolist() == [1, 1, 1, 0]


# ---- polars ------------------------------------------------------------------------------------


POLARS = {
    "numbers": ([1, 2, None, 4, None, None], "Int64", pl.Int64),
    "wide": ([1, 2, 3, 4, 5, None], "Float64", pl.Int128),
    "decimals": ([Decimal("1.5"), None, Decimal("2.5")] * 2, object, pl.Decimal(10, 1)),
    "booleans": ([True, None, False, False, True, False], "boolean", pl.Boolean),
    "text": (["b", "a ", "b", None, "", "b"], "string", pl.String),
    "categories": (["b", "a", "b", None, "a", "b"], "category", pl.Categorical),
    "levels": (["b", "a", "b", None, "a", "b"], "category", pl.Enum(["b", "a"])),
    "lists": ([["b"], ["a", None], ["b", "a"], None, [], ["b"]], object, pl.List(pl.String)),
    "listed categories": ([["b", "a"], ["a"], ["b"], None, [], ["b"]], object, pl.List(pl.Categorical)),
    "arrays": ([["b", "a"], ["a", "c"], ["b", "a"]] * 2, object, pl.Array(pl.String, 2)),
}


@pytest.mark.parametrize("column", POLARS)
def test_polars_and_pandas_are_read_alike(column):
    values, pandas_type, polars_type = POLARS[column]
    table = frame(x=pd.Series(values, dtype=pandas_type))
    ids = {"user": USERS, "pad": table["pad"].tolist()}
    other = pl.DataFrame(ids | {"x": pl.Series(values, dtype=polars_type)})
    one, two = read_features(table, "user"), read_features(other, "user")
    assert two.coding == one.coding
    assert len(two.coding.names) > 1
    assert (two.table != one.table).nnz == 0


# ---- against a slow reading --------------------------------------------------------------------


def slow_reading(tags):
    """Names and lines by sets, one row after the other."""
    sets = [{tag.strip() for tag in cell} - {""} for cell in tags]
    count = {tag: sum(tag in cell for cell in sets) for tag in set().union(*sets)}
    common = sorted(tag for tag, n in count.items() if FEWEST <= n < len(tags))
    return [f"tags={tag}" for tag in common], [[float(tag in cell) for tag in common] for cell in sets]


@steady
@given(st.lists(st.lists(st.sampled_from(["x", "y", " z", "w "]), max_size=3), min_size=2, max_size=20))
def test_a_slow_reading_agrees(tags):
    n = len(tags)
    data = pd.DataFrame({"user": range(n, 0, -1), "pad": [0] * (n - 1) + [1], "tags": tags})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        features = read_features(data, "user")
    names, lines = slow_reading(tags)
    assert features.coding.names[1:] == names
    np.testing.assert_array_equal(features.table.toarray()[::-1, 1:], np.array(lines).reshape(n, -1))


# ---- to JSON and back --------------------------------------------------------------------------


def every_kind():
    return frame(
        age=[1, None, None, None, 4, 2],
        paid=[True, None, False, False, True, False],
        job=pd.Series(["ä|b", "\ud800", "\ud800", "\ud800", "ä|b", "ä|b"], dtype=object),
        genres=[["x", "y"], ["x"], ["y"], ["y"], [], ["x"]],
    )


def test_a_coding_survives_being_json():
    coding = read_features(every_kind(), "user").coding
    back = Coding.from_json(json.loads(json.dumps(coding.to_json(), allow_nan=False)))
    assert back == coding
    assert back.names == coding.names
    assert len(coding.names) == 8


@pytest.mark.parametrize(
    ("column", "entry", "value"),
    [
        ("age", "kind", "magic"),
        ("age", "kind", "category"),
        ("age", "name", 3),
        ("age", "mean", math.nan),
        ("age", "mean", "0"),
        ("age", "deviation", 0.0),
        ("age", "deviation", math.inf),
        ("age", "has_missing", 1),
        ("age", "categories", ["a"]),
        ("paid", "mean", 1.5),
        ("job", "categories", []),
        ("job", "categories", "ab"),
        ("job", "categories", ["a", "a"]),
        ("job", "categories", ["a", 1]),
    ],
)
def test_a_coding_from_a_file_is_checked(column, entry, value):
    content = read_features(every_kind(), "user").coding.to_json()
    changed = next(one for one in content if one["name"] == column)
    changed[entry] = value
    with pytest.raises(DataError, match=r"^its header"):
        Coding.from_json(content)
    del changed[entry]
    with pytest.raises(DataError, match=f"it lacks a part of the model, '{entry}'"):
        Coding.from_json(content)


@pytest.mark.parametrize("content", [None, {}, [], "number", [None], [[]], 7])
def test_no_coding_at_all(content):
    with pytest.raises(DataError, match=r"^its header has"):
        Coding.from_json(content)

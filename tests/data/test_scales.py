"""Scales against plain Python: what each rule says, and what each error sentence names."""

import json
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordinalrbm.data.scales import MAX_LEVELS, Scale, resolve_scales, shorten
from ordinalrbm.errors import DataError, DataTypeError

steady = settings(derandomize=True, deadline=None, max_examples=60)


def infer_scale(values, name):
    return resolve_scales([values], [name])[0]


def refused(match_all, call, kind=DataError):
    """The call raises, and its one sentence holds every one of these texts."""
    with pytest.raises(kind) as caught:
        call()
    for text in match_all:
        assert text in str(caught.value), (text, str(caught.value))


# ---- encode and decode ----


@pytest.mark.parametrize(
    ("labels", "values", "levels"),
    [
        (("no", "maybe", "yes"), ["yes", "no", None, np.nan, "maybe"], [2, 0, -1, -1, 1]),
        ((1, 2, 3), [3, 1, None], [2, 0, -1]),
        ((1, 2, 3), np.array([3.0, np.nan, 2.0]), [2, -1, 1]),
        ((3, 2, 1), np.array([3, 2, 1, 1]), [0, 1, 2, 2]),  # the given order rules
        ((0.5, 1.0, 1.5), [1.5, 0.5], [2, 0]),
        ((0.5, 1.0, 1.5), np.array([1, 1]), [1, 1]),
        ((False, True), [True, None, False], [1, -1, 0]),
        ((False, True), np.array([1.0, np.nan, 0.0]), [1, -1, 0]),
        ((True, False), np.array([True, False]), [0, 1]),
        ((0, 1), np.array([True, False]), [1, 0]),
        ((1, 2), pd.Series([1, pd.NA, 2], dtype="Int64"), [0, -1, 1]),
        ((1, 2), pd.Series([1, None, 2], dtype="int8[pyarrow]"), [0, -1, 1]),
        ((0, 1), pd.Series([1, 0, 1], dtype=pd.SparseDtype(int)), [1, 0, 1]),
        ((False, True), pd.Series([True, pd.NA], dtype="boolean"), [1, -1]),
        (("a", "b"), pd.Series(["b", None, "a"], dtype="str"), [1, -1, 0]),
        (("a", "b"), pd.Series(["b", pd.NaT, "a"], dtype=object), [1, -1, 0]),
        ((1, 2), [Decimal("2"), Decimal("NaN"), np.int8(1)], [1, -1, 0]),
        ((7,), [7, 7, None], [0, 0, -1]),  # a single level
        ((1, 2, 3), [None, None], [-1, -1]),
        ((2**60, 2**60 + 1), np.array([2**60 + 1, 2**60]), [1, 0]),  # beyond floats
    ],
)
def test_encode(labels, values, levels):
    encoded = Scale(labels).encode(values, "Q1")
    assert encoded.dtype == np.int16
    assert encoded.tolist() == levels


def test_encode_categories_by_label_not_by_code():
    column = pd.Series(pd.Categorical(["b", None, "a"], categories=["b", "a"]))
    assert Scale(("a", "b", "c")).encode(column, "Q1").tolist() == [1, -1, 0]


def test_float_labels_survive_narrow_floats_and_arithmetic():
    scale = Scale((0.1, 0.2, 0.3))
    for kind in (np.float16, np.float32, np.float64):
        assert scale.encode(np.array([0.3, np.nan, 0.1], dtype=kind), "x").tolist() == [2, -1, 0]
    widened = np.array([0.3, 0.1], dtype=np.float32).astype(np.float64)
    assert scale.encode(widened, "x").tolist() == [2, 0]
    assert scale.encode([0.1 + 0.2], "x").tolist() == [2]
    with pytest.raises(DataError, match=r"0\.25"):
        scale.encode([0.25], "x")


def test_value_off_the_scale_names_column_row_value_scale_and_remedy():
    scale = Scale((1, 2, 3))
    refused(
        ["'Q1'", "row 2", "7", "[1, 2, 3]", "scales={'Q1': [...]}"],
        lambda: scale.encode([1, None, 7, 8], "Q1"),
    )
    refused(["Column 4", "row 0", "2.5"], lambda: scale.encode(np.array([2.5]), 4))
    refused(["row 1", "'3'"], lambda: scale.encode([3, "3"], "Q1"))  # text is text
    refused(["row 0", "1"], lambda: Scale(("a", "b")).encode(np.array([1, 2]), "Q1"))
    refused(["row 1", "True"], lambda: Scale((0, 2)).encode(np.array([False, True]), "Q1"))
    category = pd.Categorical([None, "c"], categories=["a", "c"])
    refused(["row 1", "'c'", "['a', 'b']"], lambda: Scale(("a", "b")).encode(category, "Q1"))


def test_long_scales_are_shortened_in_messages():
    refused(
        ["[0, 1, 2, 3, 4, ..., 98, 99] (100 levels)"], lambda: Scale(tuple(range(100))).encode([100], "Q1")
    )
    assert len(shorten(["x" * 500])) < 60


def test_values_that_can_be_no_answer_are_type_errors():
    # The words that scikit-learn's check_dtype_object looks for.
    words = ["'Q1'", "row 1", "dict", "argument must be a string or a real number", "drop"]
    refused(words, lambda: infer_scale([1, {"a": "b"}], "Q1"), DataTypeError)
    assert issubclass(DataTypeError, TypeError)
    dates = pd.Series(pd.to_datetime(["2020-01-01"]))
    refused(["'when'"], lambda: infer_scale(dates, "when"), DataTypeError)
    refused(["Complex data not supported"], lambda: infer_scale([1, 2j], "Q1"))


@pytest.mark.parametrize(
    ("labels", "kind"), [((1, 2), "i"), ((1.0, 2.5), "f"), (("a", "b"), "O"), ((False, True), "b")]
)
def test_decode_types_and_missing(labels, kind):
    scale = Scale(labels)
    decoded = scale.decode(np.array([1, 0, 1]))
    assert decoded.dtype.kind == kind
    assert decoded.tolist() == [labels[1], labels[0], labels[1]]
    gapped = scale.decode(np.array([1, -1]))
    assert gapped[0] == labels[1]
    assert pd.isna(gapped[1])


def test_decode_refuses_levels_off_the_scale():
    refused(["-1 and 1", "range from 0 to 2"], lambda: Scale((1, 2)).decode([0, 2]))


label_lists = st.one_of(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=12, unique=True),
    st.lists(st.text(max_size=5), min_size=1, max_size=12, unique=True),
    st.lists(st.integers(-4000, 4000).map(lambda k: k / 8 + 1 / 16), min_size=1, max_size=9, unique=True),
)


@steady
@given(label_lists, st.data())
def test_round_trip(labels, data):
    scale = Scale(tuple(labels))
    picks = data.draw(st.lists(st.integers(-1, len(labels) - 1), max_size=30))
    values = [None if k < 0 else labels[k] for k in picks]
    levels = scale.encode(values, "x")
    assert levels.tolist() == picks
    back = [None if pd.isna(label) else label for label in scale.decode(levels)]
    assert back == values


@steady
@given(label_lists)
def test_json_keeps_labels_and_their_types(labels):
    scale = Scale(tuple(labels))
    back = Scale.from_json(json.loads(json.dumps(scale.to_json())))
    assert back == scale
    assert [type(label) for label in back.labels] == [type(label) for label in labels]


# ---- infer ----


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1, 2, 3, 5], (1, 2, 3, 4, 5)),
        ([0, 10, 20, 50], (0, 10, 20, 30, 40, 50)),
        ([1, 2, 1000], (1, 2, 1000)),  # the grid would be nearly empty
        ([1, 6], (1, 6)),
        ([4, 4, None], (4,)),
        ([-2, 1, 2], (-2, -1, 0, 1, 2)),
        ([1.0, 3.0, np.nan, 2.0], (1, 2, 3)),
        ([0.5, 1.5, 2.0, 5.0, 4.5, 3.0], (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)),
        ([0.1, 0.3, 0.7], (0.1, 0.3, 0.5, 0.7)),
        ([0.1, 0.2, 0.4], (0.1, 0.2, 0.3, 0.4)),
        ([0.12, 0.55, 0.9137], (0.12, 0.55, 0.9137)),
        ([0.5, 0.6, 1.5], (0.5, 0.6, 1.5)),  # a step of 0.1 needs 11 levels for 3 values
        ([1e300, -1e300, 0.5], (-1e300, 0.5, 1e300)),
        ([True, True], (False, True)),
        ([True, None], (False, True)),
        ([2.5], (2.5,)),
        ([2**60, 2**60 + 1], (2**60, 2**60 + 1)),
    ],
)
def test_infer(values, labels):
    for form in (values, np.array(values), pd.Series(values), pd.Series(values, dtype=object)):
        found = infer_scale(form, "Q1").labels
        assert found == labels
        assert [type(label) for label in found] == [type(label) for label in labels]


def test_the_gap_rule_is_at_its_border():
    # 3 distinct values allow 2 * 3 + 2 = 8 grid points, not 9.
    assert infer_scale([1, 2, 8], "x").n_levels == 8
    assert infer_scale([1, 2, 9], "x").n_levels == 3
    assert infer_scale([0.5, 1.0, 4.0], "x").n_levels == 8
    assert infer_scale([0.5, 1.0, 4.5], "x").n_levels == 3


@steady
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_inferred_labels_ascend_and_hold_every_value(values):
    labels = infer_scale(np.array(values), "x").labels
    assert set(values) <= set(labels)
    assert list(labels) == sorted(set(labels))
    assert len(labels) <= 2 * len(set(values)) + 2


@steady
@given(st.integers(-20, 20), st.integers(1, 7), st.sets(st.integers(1, 9), min_size=1), st.booleans())
def test_inferred_grid_is_the_gcd_grid(low, step, positions, halves):
    """Against a plain loop over all steps, on whole numbers and on halves plus a quarter.

    The step of fractions must be the smallest gap between two of them.
    """
    whole = sorted({low} | {low + step * k for k in positions})
    gcd = max(s for s in range(1, 100) if all((value - low) % s == 0 for value in whole))
    expected = list(range(low, whole[-1] + 1, gcd))
    if len(expected) > 2 * len(whole) + 2:
        expected = whole
    if halves:
        if np.diff(whole).min() > gcd:
            expected = whole
        whole, expected = [v / 2 + 0.25 for v in whole], [v / 2 + 0.25 for v in expected]
    assert list(infer_scale(whole, "x").labels) == expected


def test_ordered_categories_are_the_scale_used_or_not():
    column = pd.Series(pd.Categorical(["lo", None], categories=["lo", "mid", "hi"], ordered=True))
    assert infer_scale(column, "Q1").labels == ("lo", "mid", "hi")
    unused = pd.Categorical([None], categories=[3, 1], ordered=True)
    assert infer_scale(unused, "Q1").labels == (3, 1)


def test_binned_columns_have_a_scale():
    binned = pd.Series(pd.cut([1, 5, 9, np.nan], [0, 3, 6, 10]))
    scale = infer_scale(binned, "age")
    assert scale.labels == ("(0, 3]", "(3, 6]", "(6, 10]")
    assert scale.encode(binned, "age").tolist() == [0, 1, 2, -1]


def test_many_levels_warn_and_too_many_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer_scale(np.arange(100), "Q1")
    with pytest.warns(UserWarning, match="'age' has 101 levels.*continuous.*bin.*drop"):
        infer_scale(np.arange(101), "age")
    refused(["'id'", "32,768", "32,767", "bin it"], lambda: infer_scale(np.arange(MAX_LEVELS + 1), "id"))
    with pytest.warns(UserWarning, match="32,767 levels"):
        assert infer_scale(np.arange(MAX_LEVELS), "id").n_levels == MAX_LEVELS


# ---- resolve ----


def labels_of(*args):
    return [scale.labels for scale in resolve_scales(*args)]


def test_resolve_infers_or_shares_or_mixes():
    columns, names = [[1, 2], ["x", "y"]], ["a", "b"]
    assert labels_of(columns[:1], ["a"], None) == [(1, 2)]
    assert labels_of(columns, names, [1, 2, "x"][:2]) == [(1, 2), (1, 2)]
    assert labels_of(columns, names, {"b": ("y", "x")}) == [(1, 2), ("y", "x")]
    dtype = pd.CategoricalDtype(["x", "y"], ordered=True)
    assert labels_of(columns, names, dtype) == [("x", "y")] * 2
    assert labels_of(columns, names, {"b": dtype}) == [(1, 2), ("x", "y")]
    assert labels_of(iter(columns), None, {1: ["x", "y"]}) == [(1, 2), ("x", "y")]
    assert labels_of(iter(columns), None, np.array([1, 2])) == [(1, 2)] * 2


def battery(n_rows, *tops, seed=0):
    """Columns of answers from 1 up to these, each level equally likely."""
    rng = np.random.default_rng(seed)
    return [rng.permutation(np.resize(np.arange(1, top + 1), n_rows)) for top in tops]


@pytest.mark.parametrize("n_rows", [10, 20])
def test_a_level_missing_by_chance_is_that_of_the_battery(n_rows):
    columns = battery(200, 5, 5, 5) + battery(n_rows, 4) + [[2, 3, 4, 5], [1, 3, 5]]
    found = labels_of(columns, list("abcdef"), None)
    assert found == [(1, 2, 3, 4, 5)] * 6
    assert labels_of(columns, list("abcdef"), {"d": [1, 2, 3, 4]})[3] == (1, 2, 3, 4)


def test_scales_that_differ_by_more_than_chance_stay_apart():
    """Among 200 answers nobody misses a fifth level that a fifth of the others give."""
    tops = (7, 7, 7, 5, 5, 5, 4, 3, 24, 8, 2)
    expected = [tuple(range(1, top + 1)) for top in tops]
    assert labels_of(battery(200, *tops), None, None) == expected
    # As many short scales as long ones are a battery of their own, and two long ones are none.
    few = battery(15, 4, 4, 4, 4) + battery(200, 5, 5, 5)
    assert [len(labels) for labels in labels_of(few, None, None)] == [4] * 4 + [5] * 3
    assert len(labels_of(battery(15, 4) + battery(200, 5, 5), None, None)[0]) == 4


def test_other_kinds_of_scales_are_no_batteries():
    """Yes and no, half stars, categories: a longer scale of numbers is not theirs."""
    five = battery(200, 5, 5, 5)
    kind = pd.CategoricalDtype([1, 2, 3, 4], ordered=True)
    others = [[1, 2] * 3, [1.5, 2.0, 3.0], pd.Series([1, 2, 4]).astype(kind), [6, 5, 4]]
    found = labels_of(five + others, None, None)[3:]
    assert found == [(1, 2), (1.5, 2.0, 2.5, 3.0), (1, 2, 3, 4), (4, 5, 6)]


def test_resolve_names_unknown_columns_and_what_was_meant():
    columns = [[1], [2]]
    refused(
        ["'Quest1'", "did you mean 'Quest_1'"],
        lambda: resolve_scales(columns, ["Quest_1", "other"], {"Quest1": [1]}),
    )
    refused(["'zzz'", "['a', 'b']"], lambda: resolve_scales(columns, ["a", "b"], {"zzz": [1]}))
    refused(["'a'", "positions 0 to 1"], lambda: resolve_scales(columns, None, {"a": [1]}))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], ["no label", "at least one"]),
        ([1, 2, 1], ["1 twice", "remove"]),
        ([1, None], ["missing label", "remove"]),
        ([1.0, np.nan], ["missing label"]),
        ([1, "a"], ["mixes int and str", "one type"]),
        ([True, 2], ["mixes bool and int"]),
        ([1.0, np.inf], ["inf", "finite"]),
        ([(1, 2)], ["tuple", "text or numbers"]),
        ("abc", ["must be a list", "'abc'"]),
        ({1, 2}, ["must be a list"]),
        (5, ["must be a list", "5"]),
        (range(MAX_LEVELS + 1), ["32,768", "bin"]),
        (pd.CategoricalDtype(["a", "b"]), ["order", "ordered=True"]),
    ],
)
def test_given_labels_are_checked(labels, words):
    refused(["scales['Q1']", *words], lambda: resolve_scales([[1]], ["Q1"], {"Q1": labels}))
    refused(["scales", *words], lambda: resolve_scales([[1]], ["Q1"], labels))

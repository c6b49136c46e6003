"""Rating matrices: every container gives the same, and bad input is named with its remedy."""

import tracemalloc
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ordinalrbm.data.ratings import encode, merged, read_ratings
from ordinalrbm.data.scales import Scale
from ordinalrbm.errors import DataError
from ordinalrbm.runtime import blocks

steady = settings(derandomize=True, deadline=None, max_examples=60)

# Users and items out of order, an item rated once, a level (2.0) that item 30 never gets.
USER = ["v", "u", "w", "u", "v", "u"]
ITEM = [30, 10, 10, 30, 20, 25]
RATING = [1.5, 0.5, 2.0, 0.5, 1.5, 0.5]
DENSE = [[0, -1, 0, 0], [-1, 1, -1, 1], [2, -1, -1, -1]]


def frame(user=USER, item=ITEM, rating=RATING):
    return pd.DataFrame({"user": user, "item": item, "rating": rating})


FORMS = {
    "pandas": frame(),
    "other columns": frame().assign(timestamp=np.inf, note=None)[
        ["timestamp", "rating", "item", "note", "user"]
    ],
    "odd index": frame().set_index(pd.Index([5, 5, 5, 1, 0, 2])),
    "float32": frame().astype({"rating": np.float32}),
    "float16": frame().astype({"rating": np.float16}),
    "objects": frame().astype(object),
    "decimals": frame(rating=[Decimal(str(r)) for r in RATING]),
    "categories": frame().astype({"user": "category", "item": "category"}),
    "unused category": frame().assign(user=pd.Categorical(USER, ["z", "w", "v", "u", "a"])),
    "float ids": frame().astype({"item": np.float64}),
    "short ids": frame().astype({"item": np.uint8}),
    "nullable": frame().convert_dtypes(),
    "arrow": frame().convert_dtypes(dtype_backend="pyarrow"),
    "sparse column": frame().astype({"item": pd.SparseDtype(np.int64, 10)}),
    "polars": pl.DataFrame({"user": USER, "item": ITEM, "rating": RATING}),
    "polars categorical": pl.DataFrame({"user": USER, "item": ITEM, "rating": RATING}).cast(
        {"user": pl.Categorical}
    ),
    "arrays": (np.array(USER), np.array(ITEM), np.array(RATING)),
    "big-endian": (np.array(USER), np.array(ITEM, ">i4"), np.array(RATING, ">f8")),
    "lists": (USER, ITEM, RATING),
    "series": (pd.Series(USER), pl.Series(ITEM), pd.Series(RATING)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_container_is_read_alike(form):
    ratings = read_ratings(FORMS[form])
    assert ratings.users.labels.tolist() == ["u", "v", "w"]
    assert ratings.items.labels.tolist() == [10, 20, 25, 30]
    assert ratings.items.labels.dtype == np.int64
    assert ratings.scales == ratings.default_scale == Scale((0.5, 1.5, 2.0))
    assert ratings.observations.to_dense().tolist() == DENSE
    assert ratings.observations.level.dtype == np.int8
    assert (ratings.n_users, ratings.n_items, ratings.n_ratings) == (3, 4, 6)
    assert ratings.lookup(["w", "x", "u"], "user").tolist() == [2, -1, 0]
    assert ratings.lookup(np.array([30, 31]), "item").tolist() == [3, -1]
    more = encode(ratings, FORMS[form])
    assert more.row.tolist() == [1, 0, 2, 0, 1, 0]
    assert more.column.tolist() == [3, 0, 0, 3, 1, 2]
    assert more.level.tolist() == [1, 0, 2, 0, 1, 0]


def test_the_input_is_left_as_it_was():
    arrays = (np.arange(3, dtype=np.int32), np.zeros(3, np.int32), np.array([1, 2, 3], np.int8))
    for array in arrays:
        array.flags.writeable = False
    ratings = read_ratings(arrays)
    assert encode(ratings, arrays).row.tolist() == [0, 1, 2]


# ---- against a slow reading -------------------------------------------------------------------


def slow_reading(users, items, ratings):
    """Sorted ids, sorted ratings, and a dictionary of levels by pair."""
    user_list, item_list, labels = sorted(set(users)), sorted(set(items)), sorted(set(ratings))
    cells = {
        (user_list.index(u), item_list.index(i)): labels.index(r)
        for u, i, r in zip(users, items, ratings, strict=True)
    }
    return user_list, item_list, labels, cells


integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 6)
ids = st.one_of(integers, st.integers(0, 5)), st.text(max_size=3)


@st.composite
def triples(draw):
    user = draw(st.sampled_from(ids))
    item = draw(st.sampled_from(ids))
    pairs = draw(st.lists(st.tuples(user, item), min_size=1, max_size=30, unique=True))
    level = st.sampled_from([0.5, 1.0, 2.5, -3.0])
    return pairs, draw(st.lists(level, min_size=len(pairs), max_size=len(pairs)))


@steady
@given(triples(), st.booleans())
def test_any_ratings_against_a_slow_reading(drawn, as_frame):
    pairs, values = drawn
    users, items = [u for u, _ in pairs], [i for _, i in pairs]
    data = frame(users, items, values) if as_frame else (users, items, values)
    ratings = read_ratings(data)
    user_list, item_list, labels, cells = slow_reading(users, items, values)
    assert ratings.users.labels.tolist() == user_list
    assert ratings.items.labels.tolist() == item_list
    assert list(ratings.scales.labels) == labels
    dense = ratings.observations.to_dense()
    assert {(d, i): dense[d, i] for d, i in np.argwhere(dense >= 0).tolist()} == cells


@steady
@given(triples(), triples())
def test_further_ratings_against_a_slow_reading(first, second):
    known = read_ratings(([u for u, _ in first[0]], [i for _, i in first[0]], first[1]))
    kinds = [type(label) for label in first[0][0]]
    if [type(label) for label in second[0][0]] != kinds:
        return  # refused, and tested elsewhere
    users, items = [u for u, _ in second[0]], [i for _, i in second[0]]
    values = [first[1][0]] * len(users)
    more = encode(known, (users, items, values))
    user_list, item_list = known.users.labels.tolist(), known.items.labels.tolist()
    assert more.row.tolist() == [user_list.index(u) if u in user_list else -1 for u in users]
    assert more.column.tolist() == [item_list.index(i) if i in item_list else -1 for i in items]
    assert set(more.level.tolist()) == {known.scales.labels.index(first[1][0])}
    is_new = (more.row < 0) | (more.column < 0)
    new = [[part[k] for k in np.flatnonzero(is_new)] for part in (users, items, values)]
    if not is_new.any():
        return
    wider, _, _ = merged(known, tuple(new), "refuse")
    assert wider.users.labels.tolist()[: len(user_list)] == user_list
    assert wider.items.labels.tolist()[: len(item_list)] == item_list
    both = [*zip(*first, strict=True), *zip(zip(*new[:2], strict=True), new[2], strict=True)]
    read = wider.to_frame().itertuples(index=False)
    assert sorted(((u, i), r) for u, i, r in read) == sorted(both)


@pytest.mark.parametrize("spread", [1, 10**9])
def test_blocks_are_joined(monkeypatch, spread):
    monkeypatch.setattr(blocks, "BLOCK", 7)
    rng = np.random.default_rng(3)
    cells = rng.permutation(30 * 20)[:200]
    users, items = cells // 20 * spread + 3, cells % 20
    values = rng.choice([1.0, 2.0, 4.5], size=200)
    for own in (None, {int(items[0]): [0, 1, 2, 4.5]}):
        ratings = read_ratings((users, items, values), item_scales=own)
        user_list, item_list, _, cells_of = slow_reading(users, items, values)
        dense = ratings.observations.to_dense()
        for (d, i), level in cells_of.items():
            assert dense[d, i] == level + (own is not None and item_list[i] == items[0])
        assert (dense >= 0).sum() == 200
        assert ratings.lookup(users[:50], "user").tolist() == [user_list.index(u) for u in users[:50]]
    with pytest.raises(DataError, match=r"Row 150 .* rating 9\)"):
        read_ratings((users, items, np.where(np.arange(200) == 150, 9.0, values)), scale=[1, 2, 4.5])
    with pytest.raises(DataError, match=r"Row 150 .* the rating is missing"):
        read_ratings((users, items, np.where(np.arange(200) == 150, np.nan, values)))


# ---- sparse -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_sparse_positions_are_ids(kind, form):
    # The second user and the last item have no rating, and stay.
    matrix = kind(np.array([[5, 0, 1, 0], [0, 0, 0, 0], [2, 4, 0, 0]])).asformat(form)
    ratings = read_ratings(matrix)
    assert ratings.users.labels.tolist() == [0, 1, 2]
    assert ratings.items.labels.tolist() == [0, 1, 2, 3]
    assert ratings.scales == Scale((1, 2, 4, 5))
    expected = [[3, -1, 0, -1], [-1] * 4, [1, 2, -1, -1]]
    assert ratings.observations.to_dense().tolist() == expected
    more = encode(ratings, sp.coo_array(([2.0], ([4], [3])), shape=(5, 4)))
    assert (more.row.tolist(), more.column.tolist(), more.level.tolist()) == ([-1], [3], [1])


def stored_zeros():
    return sp.csr_array((np.array([0, 2, 0, 1]), ([0, 0, 1, 2], [0, 1, 1, 0])), shape=(3, 2))


def test_stored_zeros_are_ratings_where_zero_is_on_the_scale():
    kept = read_ratings(stored_zeros(), scale=[0, 1, 2])
    assert kept.observations.to_dense().tolist() == [[0, 2], [-1, 0], [1, -1]]
    with pytest.warns(UserWarning, match="2 stored zeros are taken as not rated"):
        dropped = read_ratings(stored_zeros(), scale=[1, 2])
    assert dropped.observations.to_dense().tolist() == [[-1, 1], [-1, -1], [0, -1]]
    with pytest.warns(UserWarning, match="1 stored zeros are taken as not rated"):
        mixed = read_ratings(stored_zeros(), scale=[1, 2], item_scales={0: [0, 1]})
    assert mixed.observations.to_dense().tolist() == [[0, 1], [-1, -1], [1, -1]]
    with pytest.warns(UserWarning, match="2 stored zeros are taken as not rated; .* scale=\\[0"):
        inferred = read_ratings(stored_zeros())
    assert inferred.scales == Scale((1, 2))
    assert encode(kept, stored_zeros()).level.tolist() == [0, 2, 0, 1]
    with pytest.warns(UserWarning, match="2 stored zeros are taken as not rated"):
        assert encode(dropped, stored_zeros()).level.tolist() == [1, 0]


def test_sparse_input_that_is_refused():
    with pytest.raises(DataError, match="There is no rating"):
        read_ratings(sp.csr_array((3, 4)))
    with pytest.raises(DataError, match="There is no rating"):
        read_ratings(sp.csr_array(([0.0], ([0], [0])), shape=(1, 1)))
    twice = sp.coo_array(([1, 2, 1], ([0, 1, 1], [0, 2, 2])), shape=(2, 3))
    with pytest.raises(DataError, match=r"Stored entry 2 .*user 1, item 2.*rated this item before, in row 1"):
        read_ratings(twice)
    known = read_ratings(([1, 5, 9], [2, 2, 2], [1, 2, 1]))  # ids that are not positions
    with pytest.raises(DataError, match=r"Stored entry 2 .*user 1, item 2"):
        encode(known, twice)
    with_zero = sp.coo_array(([0, 2, 1], ([0, 1, 1], [0, 2, 2])), shape=(2, 3))
    again = pytest.raises(DataError, match="User 1 has rated item 2 more than once, with 2 and with 1")
    with again, pytest.warns(UserWarning, match="1 stored zeros"):
        read_ratings(with_zero)
    bad = sp.csr_array(np.array([[0, 7.0]]))
    with pytest.raises(DataError, match=r"Stored entry 0 \(.*user 0, item 1, .*\): the rating 7"):
        read_ratings(bad, scale=[1, 2])
    with pytest.raises(DataError, match="two dimensions"):
        read_ratings(sp.coo_array(np.array([1, 2])))
    with pytest.raises(DataError, match="known here are text, such as 'u'"):
        encode(read_ratings(frame()), stored_zeros())


# ---- scales -----------------------------------------------------------------------------------


def test_the_scale_is_what_was_rated():
    assert read_ratings(([1, 2, 3], [1, 1, 1], [5, 1, 3])).scales.labels == (1, 3, 5)
    # Whole numbers are whole numbers, whatever they are stored in.
    assert read_ratings(([1, 2], [1, 1], [2.0, 1.0])).scales.labels == (1, 2)
    written = read_ratings(([1, 2], [1, 1], np.array([0.1, 0.7], np.float32))).scales.labels
    assert written == (0.1, 0.7)
    assert read_ratings(([1], [1], [True])).scales.labels == (False, True)


def test_ordered_categories_are_the_scale():
    levels = pd.Categorical(["good", "bad"], ["bad", "fair", "good"], ordered=True)
    ratings = read_ratings(frame([1, 2], [1, 1], levels))
    assert ratings.scales.labels == ("bad", "fair", "good")
    assert ratings.observations.to_dense().tolist() == [[2], [0]]
    assert encode(ratings, ([3], [1], ["fair"])).level.tolist() == [1]
    enum = pl.Series(["good", "bad"], dtype=pl.Enum(["bad", "fair", "good"]))
    polars = read_ratings(pl.DataFrame({"user": [1, 2], "item": [1, 1], "rating": enum}))
    assert polars.scales == ratings.scales
    assert polars.observations.to_dense().tolist() == [[2], [0]]


def test_a_given_scale():
    text = frame([1, 2], [1, 1], ["good", "bad"])
    for scale in (["bad", "good"], Scale(("bad", "good")), pd.CategoricalDtype(["bad", "good"], True)):
        assert read_ratings(text, scale=scale).observations.to_dense().tolist() == [[1], [0]]
    assert read_ratings(frame(), scale=np.arange(0.5, 5.5, 0.5)).scales.n_levels == 10
    reversed_scale = read_ratings(([1, 2], [1, 1], [1, 3]), scale=[3, 2, 1])
    assert reversed_scale.observations.to_dense().tolist() == [[2], [0]]


def test_items_with_scales_of_their_own():
    data = (["u", "u", "v", "v"], ["a", "b", "a", "c"], [1, 10, 3, 2])
    ratings = read_ratings(data, item_scales={"b": [10, 20]})
    assert [s.labels for s in ratings.scales] == [(1, 2, 3), (10, 20), (1, 2, 3)]
    assert ratings.default_scale == Scale((1, 2, 3))
    assert ratings.observations.to_dense().tolist() == [[0, 0, -1], [2, -1, 1]]
    assert ratings.observations.n_levels.tolist() == [3, 2, 3]
    assert ratings.scale_of(1) == Scale((10, 20))
    assert ratings.to_frame()["rating"].tolist() == [1, 10, 3, 2]
    more = encode(ratings, (["w", "w", "w"], ["b", "new", "a"], [20, 3, 1]))
    assert (more.column.tolist(), more.level.tolist()) == ([1, -1, 0], [1, 2, 0])
    with pytest.raises(DataError, match=r"item 'b', .* 11 is not on the scale \[10, 20\].*item_sc"):
        encode(ratings, (["w"], ["b"], [11]))
    with pytest.raises(DataError, match=r"item 'new', .* 10 is not on the scale \[1, 2, 3\]"):
        encode(ratings, (["w"], ["new"], [10]))
    with pytest.raises(DataError, match="for the item 'z', which nobody has rated; correct"):
        read_ratings(data, item_scales={"z": [1]})
    with pytest.raises(DataError, match="item_scales\\['b'\\] names the label 1 twice"):
        read_ratings(data, item_scales={"b": [1, 1]})


# ---- refusals ---------------------------------------------------------------------------------


def spoilt(column, row, value):
    data = frame().astype(object)
    data.loc[row, column] = value
    return data


def in_polars(**changes):
    """Two ratings in a frame of polars."""
    return pl.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [1, 2], **changes})


REFUSED = {
    "no user": (spoilt("user", 2, None), r"Row 2 \(.*item 10, rating 2\): the user is missing; drop"),
    "NaN item": (spoilt("item", 4, np.nan).astype({"item": float}), r"Row 4 .*the item is missing"),
    "category": (frame().assign(user=pd.Categorical(["v", "u", None] * 2)), "Row 2 .*user is missing"),
    "NaN rating": (
        spoilt("rating", 3, np.nan),
        r"Row 3 \(counted from 0; user 'u', item 30, rating nan\): the rating is missing; drop",
    ),
    "no category": (
        frame().assign(rating=pd.Categorical([0.5, None] * 3, [0.5], ordered=True)),
        "Row 1 .*the rating is missing",
    ),
    "infinite": (
        spoilt("rating", 5, -np.inf).astype({"rating": float}),
        r"Row 5 \(.*user 'u', item 25, .*\): the rating -inf is infinity, .* correct or drop",
    ),
    "infinite id": (spoilt("item", 5, np.inf).astype({"item": float}), "Row 5 .*not a whole number"),
    "fraction": (spoilt("item", 1, 1.5).astype({"item": float}), r"Row 1 .*item 1\.5 is not a whole"),
    "mixed": (spoilt("user", 4, 3), r"Row 4 .*this user is a number, while 'v' is text; .*astype"),
    "text rating": (frame(rating=list("abcabc")), r"are text \(found \['a', 'b', 'c'\]\).*scale=\["),
    "unordered": (frame().astype({"rating": "category"}), "categorical without an order.*scale=\\["),
    "odd rating": (spoilt("rating", 1, 1j), r"Row 1 .*a rating must be a real number or text"),
    "list id": (spoilt("user", 1, [2]), r"Row 1 .*must be an integer or text, but \[2\] is of type list"),
    "date id": (frame(item=pd.date_range("2020", periods=6)), "must be an integer or text"),
    "boolean id": (frame(item=[True, False] * 3), "must be an integer or text"),
    "huge id": (frame(item=np.array([2**64 - 1] * 6, np.uint64)), "18446744073709551615 does not"),
    "huge object": (frame(item=[2**70, 1, 2, 3, 4, 5]), "does not fit into 64 bits.*astype"),
    "empty": (frame().iloc[:0], "There is no rating in the data; give at least one"),
    "columns": (frame().drop(columns="item"), r"no column 'item', only \['user', 'rating'\]; .*columns"),
    "twice named": (
        pd.concat([frame(), frame()[["user"]]], axis=1),
        "more than one column named 'user'; rename",
    ),
    "list": ([[1, 2, 3]], "tuple of three arrays .* not list; convert"),
    "alone": (([1],), "a tuple of 1; give three"),
    "no rating": (frame().drop(columns="rating").assign(note=1), "no column 'rating', only"),
    "lengths": (([1], [2], [3, 4]), "1 users, 1 items and 2 ratings; give as many"),
    "two-dimensional": ((np.ones((2, 2), int), [1], [1]), r"one dimension, not shape \(2, 2\)"),
    "scalar": ((1, [1], [1]), "The users must be a list or an array, not 1"),
    "struct of ids": (
        in_polars(item=[{"a": 1}, {"a": 2}]),
        "'item' holds values of type Struct.*take it apart",
    ),
    "list in polars": (in_polars(user=[[1], [2]]), "'user' holds values of type List.*take it apart"),
    "id of 128 bits": (
        in_polars(user=pl.Series([2**100, 1], dtype=pl.Int128)),
        "The user 1267650600228229401496703205376 does not fit into 64 bits.*astype",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_named_with_its_remedy(case):
    data, message = REFUSED[case]
    with pytest.raises(DataError, match=message) as refusal:
        read_ratings(data)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).endswith(".")


def test_integers_of_128_bits():
    wide = in_polars().cast(pl.Int128)
    assert read_ratings(wide).to_frame().equals(read_ratings(in_polars()).to_frame())


def test_ratings_off_a_given_scale():
    with pytest.raises(
        DataError,
        match=r"Row 2 \(counted from 0; user 'w', item 10, rating 2\): the rating 2 is not "
        r"on the scale \[0\.5, 1\.5\]; correct or drop it, or give the whole scale with scale=\[",
    ):
        read_ratings(frame(), scale=[0.5, 1.5])
    known = read_ratings(frame())
    with pytest.raises(DataError, match=r"Row 0 .* rating 1 is not on the scale \[0.5, 1.5, 2.0\]"):
        encode(known, (["u"], [10], [1]))
    with pytest.raises(DataError, match="'good' is not on the scale"):
        encode(known, (["u"], [10], ["good"]))
    with pytest.raises(DataError, match="scale must be a list of labels"):
        read_ratings(frame(), scale=5)


def test_pairs_rated_twice():
    data = pd.concat([frame(), frame().iloc[[4, 1]].assign(rating=2.0)], ignore_index=True)
    message = (
        r"Row 6 \(counted from 0; user 'v', item 20, rating 2\): this user has rated this item "
        r"before, in row 4 with 1\.5; keep one of them with drop_duplicates\(\), or average them\."
    )
    with pytest.raises(DataError, match=message):
        read_ratings(data)
    with pytest.raises(DataError, match=message):
        encode(read_ratings(frame()), data)
    # Unknown users are told apart, though all of them are -1.
    known = read_ratings(frame())
    assert encode(known, (["x", "y"], [10, 10], [0.5, 0.5])).row.tolist() == [-1, -1]
    with pytest.raises(DataError, match=r"Row 1 .*user 'x'.* before, in row 0"):
        encode(known, (["x", "x"], [10, 10], [0.5, 0.5]))


def test_ids_of_another_kind_are_not_just_unknown():
    known = read_ratings(frame())
    with pytest.raises(DataError, match=r"users known here are text, such as 'u', .* integers, such"):
        known.lookup([1], "user")
    with pytest.raises(DataError, match=r"items known here are integers, such as 10, .*; convert"):
        encode(known, (["u"], ["10"], [0.5]))
    with pytest.raises(DataError, match=r"Row 1 \(counted from 0\): the user is missing"):
        known.lookup(["u", None], "user")
    with pytest.raises(DataError, match="must be a list or an array, not 'u'"):
        known.users.lookup("u")


# ---- odds and ends ----------------------------------------------------------------------------


def test_nothing_to_encode():
    known = read_ratings(frame())
    assert [part.size for part in encode(known, frame().iloc[:0])] == [0, 0, 0]
    with pytest.raises(DataError, match="no rating to fold in"):
        merged(known, frame().iloc[:0], "refuse")


# ---- size -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["positions", "integers"])
def test_memory_beside_the_input(kind):
    n_users, n_items = 10_000, 500
    cell = np.random.default_rng(0).permutation(n_users * n_items)[:3_000_000]
    user, item = (cell // n_items).astype(np.int32), (cell % n_items).astype(np.int32)
    if kind == "integers":
        user, item = user.astype(np.int64) * 7 + 1, item + 1
    rating = (cell % 5 + 1).astype(np.int8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read_ratings((user[:9], item[:9], rating[:9]))  # compiled before measuring
    tracemalloc.start()
    ratings = read_ratings((user, item, rating))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ratings.n_ratings == len(cell)
    # Blocks have a fixed size; beside them it is at most 20 bytes per rating.
    assert peak < 20 * len(cell) + 16 * 2**20

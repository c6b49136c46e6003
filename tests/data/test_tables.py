"""Tables: every container gives the same observations, and comes back as it was."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ordinalrbm.data.scales import Scale, resolve_scales
from ordinalrbm.data.tables import as_table, decode, encode, read_table
from ordinalrbm.errors import DataError, DataTypeError

steady = settings(derandomize=True, deadline=None, max_examples=40)

# An empty row, a single-level column, a level that nobody chose (2 in the last column).
VALUES = np.array([[1, 0.5, 7, 4], [2, np.nan, 7, 1], [np.nan] * 4, [1, 1.5, np.nan, 3]])
LABELS = [(1, 2), (0.5, 1.5), (7,), (1, 2, 3, 4)]
LEVELS = [[0, 0, 0, 3], [1, -1, 0, 0], [-1, -1, -1, -1], [0, 1, -1, 2]]


class OnlyAnArray:
    """Convertible to an array and nothing else, like scikit-learn's _NotAnArray."""

    def __array__(self, dtype=None, copy=None):
        return VALUES


def stored(values):
    """A sparse array that stores the answered cells, zeros too."""
    rows, columns = np.nonzero(~np.isnan(values))
    return sp.coo_array((values[rows, columns], (rows, columns)), shape=values.shape)


def nulls(values):
    return [[None if np.isnan(x) else x for x in row] for row in values.tolist()]


FORMS = {
    "array": VALUES,
    "fortran": np.asfortranarray(VALUES),
    "float32": VALUES.astype(np.float32),
    "objects": VALUES.astype(object),
    "list": nulls(VALUES),
    "array-like": OnlyAnArray(),
    "pandas": pd.DataFrame(VALUES, columns=list("abcd")),
    "nullable": pd.DataFrame(VALUES, columns=list("abcd")).convert_dtypes(),
    "arrow": pd.DataFrame(VALUES, columns=list("abcd")).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame(nulls(VALUES), schema=list("abcd"), orient="row"),
    "csr": stored(VALUES).tocsr(),
    "csc": stored(VALUES).tocsc(),
    "coo": stored(VALUES),
    "csr_matrix": sp.csr_matrix(stored(VALUES)),
    "lil": stored(VALUES).tolil(),
    "dok": stored(VALUES).todok(),
    "stored NaN": sp.csr_array(VALUES),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_encoded_is_not_encoded_again(form):
    once = read_table(FORMS[form])
    assert read_table(once) is once
    table = as_table(once)
    assert (table.names, table.n_rows, table.n_columns) == (once.names, 4, 4)
    assert encode(table, once.scales) is once.observations
    assert once.subset([3, 0]).observations.to_dense().tolist() == [LEVELS[3], LEVELS[0]]
    again = read_table(once.to_frame())
    assert again.observations.to_dense().tolist() == LEVELS
    assert again.scales == once.scales
    back = decode(LEVELS, once.scales, once)
    assert back.observations.to_dense().tolist() == LEVELS and back.scales == once.scales


def test_what_is_encoded_on_other_scales_is_read_by_its_labels():
    once = read_table(pd.DataFrame({"q": [1, 3, None]}))
    wider = [Scale((0, 1, 2, 3, 4))]
    assert encode(as_table(once), wider).to_dense().tolist() == [[1], [3], [-1]]
    assert read_table(once, {"q": [3, 1]}).observations.to_dense().tolist() == [[1], [0], [-1]]
    with pytest.raises(DataError, match=r"row 1 .*the value 3 is not on the scale"):
        encode(as_table(once), [Scale((1, 2))])


@pytest.mark.parametrize("form", FORMS)
def test_every_container_is_read_alike(form):
    table = as_table(FORMS[form])
    named = form in ("pandas", "nullable", "arrow", "polars")
    assert table.names == (list("abcd") if named else None)
    assert (table.n_rows, table.n_columns) == (4, 4)
    scales = resolve_scales(map(table.read, range(table.n_columns)), table.names, None)
    assert [scale.labels for scale in scales] == LABELS
    assert encode(table, scales).to_dense().tolist() == LEVELS
    for j, (name, scale) in enumerate(zip("abcd", scales, strict=True)):
        assert table.name(j) == (name if named else j)
        levels = scale.encode(table.column(j), j)
        assert levels.tolist() == [row[j] for row in LEVELS]


def test_zeros_that_only_fill_blocks_are_no_answers():
    table = as_table(stored(VALUES).tobsr((2, 2)))
    assert resolve_scales(map(table.read, range(table.n_columns)), None, None)[0].labels == LABELS[0]


def test_masked_cells_are_unanswered():
    masked = np.ma.array([[1, 9], [2, 2]], mask=[[False, True], [False, False]])
    table = as_table(masked)
    scales = resolve_scales(map(table.read, range(table.n_columns)), None, None)
    assert [scale.labels for scale in scales] == [(1, 2), (2,)]
    assert encode(table, scales).to_dense().tolist() == [[0, -1], [1, 0]]


def test_stored_zeros_are_answers_and_absent_cells_are_not():
    matrix = sp.csr_array((np.array([0, 2, 0]), ([0, 0, 1], [0, 1, 1])), shape=(3, 2))
    assert matrix.nnz == 3
    levels = encode(as_table(matrix), [Scale((0, 1, 2))] * 2).to_dense()
    assert levels.tolist() == [[0, 2], [-1, 0], [-1, -1]]


def test_sparse_input_is_left_as_it_was():
    unsorted = sp.csc_array((np.array([1, 2]), np.array([1, 0]), np.array([0, 2])), shape=(2, 1))
    levels = encode(as_table(unsorted), [Scale((1, 2))]).to_dense()
    assert levels.tolist() == [[1], [0]]
    assert unsorted.indices.tolist() == [1, 0]
    with pytest.raises(DataError, match="row 0"):  # the first by row, not as stored
        encode(as_table(unsorted), [Scale((5,))])


@pytest.mark.parametrize("kind", [sp.coo_array, sp.coo_matrix])
def test_a_cell_stored_twice_is_refused_not_added_up(kind):
    twice = kind((np.array([1, 2, 1]), ([0, 1, 1], [0, 2, 2])), shape=(2, 3))
    with pytest.raises(DataError, match="Row 1 answers column 2 more than once"):
        as_table(twice)
    csr = sp.csr_array((np.array([1, 2]), np.array([2, 2]), np.array([0, 0, 2])), shape=(2, 3))
    with pytest.raises(DataError, match="Row 1 answers column 2 more than once"):
        as_table(csr)


def test_text_and_mixed_columns():
    order = {"low": 0, "high": 1}
    frame = pd.DataFrame(
        {
            "text": ["high", None, "low"],
            "flag": [True, False, None],
            "category": pd.Categorical(["low", "high", None], ["low", "mid", "high"], ordered=True),
        }
    )
    enum = pl.Enum(["low", "mid", "high"])
    forms = [
        frame,
        pl.DataFrame(
            {
                "text": ["high", None, "low"],
                "flag": [True, False, None],
                "category": pl.Series(["low", "high", None], dtype=enum),
            }
        ),
    ]
    for form in forms:
        table = as_table(form)
        scales = resolve_scales(map(table.read, range(table.n_columns)), table.names, {"text": list(order)})
        assert [scale.labels for scale in scales] == [("low", "high"), (False, True), ("low", "mid", "high")]
        assert encode(table, scales).to_dense().tolist() == [[1, 1, 0], [-1, 0, 2], [0, -1, -1]]
    table = as_table([["high", 1], [None, 2], ["low", None]])  # numbers stay numbers
    scales = resolve_scales(map(table.read, range(table.n_columns)), None, {0: list(order)})
    assert scales[1].labels == (1, 2)
    assert encode(table, scales).to_dense().tolist() == [[1, 0], [-1, 1], [0, -1]]
    table = as_table([["high", 1], ["low", 2]])
    assert encode(table, scales).to_dense().tolist() == [[1, 0], [0, 1]]
    words = np.array([["low"], ["high"]])
    assert encode(as_table(words), [Scale(tuple(order))]).to_dense().tolist() == [[0], [1]]


def test_polars_categorical_has_no_order():
    table = as_table(pl.DataFrame({"q": pl.Series(["a", "b"], dtype=pl.Categorical)}))
    with pytest.raises(DataError, match=r"'q'.*order.*scales="):
        resolve_scales(map(table.read, range(table.n_columns)), table.names, None)


# ---- names ----


def test_names_only_when_all_are_text():
    assert as_table(pd.DataFrame([[1, 2]])).names is None
    assert as_table(pd.DataFrame([[1, 2]], columns=["a", "b"])).names == ["a", "b"]
    with pytest.raises(TypeError, match=r"string names.*\['int', 'str'\].*astype\(str\)"):
        as_table(pd.DataFrame([[1, 2]], columns=["a", 1]))


# ---- what is refused: the words are those of scikit-learn's estimator checks ----


def test_off_scale_values_name_their_place():
    scales = [Scale((1, 2)), Scale((1, 2))]
    with pytest.raises(DataError, match=r"Column 'b', row 2 .*value 9 .*\[1, 2\].*scales=\{'b'"):
        encode(as_table(pd.DataFrame({"a": [1, 1, 1], "b": [2, 2, 9]})), scales)
    matrix = sp.csr_array((np.array([1, 9]), ([0, 4], [1, 1])), shape=(5, 2))
    with pytest.raises(DataError, match=r"Column 1, row 4 .*value 9"):
        encode(as_table(matrix), scales)
    with pytest.raises(DataError, match="1 scales for 2 columns"):
        encode(as_table(matrix), scales[:1])


# ---- decode ----


def test_decode_pandas_restores_index_columns_and_types():
    frame = pd.DataFrame(
        {
            "whole": [1, 2, 3],
            "gaps": [1.0, np.nan, 2.0],
            "narrow": np.array([0.1, 0.2, 0.1], dtype="f4"),
            "text": ["a", "b", "a"],
            "flag": [True, False, True],
            "nullable": pd.array([1, None, 2], dtype="Int64"),
            "order": pd.Categorical(["x", None, "z"], categories=["x", "y", "z"], ordered=True),
            "bins": pd.cut([1, 5, 9], [0, 3, 6, 10]),
        },
        index=["r", "s", "t"],
    )
    table = as_table(frame)
    scales = resolve_scales(map(table.read, range(table.n_columns)), table.names, {"text": ["a", "b"]})
    levels = encode(table, scales).to_dense()
    pd.testing.assert_frame_equal(decode(levels, scales, frame), frame)
    pd.testing.assert_frame_equal(decode(levels, scales, table), frame)
    fewer = decode(levels[:2], scales, frame)  # other rows than the original: a fresh index
    assert fewer.index.tolist() == [0, 1]
    assert fewer.dtypes.equals(frame.dtypes)


def test_decode_keeps_labels_the_old_type_cannot_hold():
    frame = pd.DataFrame({"i": [1, 2], "c": pd.Categorical(["a", "a"], ["a"], ordered=True)})
    scales = [Scale((1.0, 1.5, 2.0)), Scale(("a", "b"))]
    back = decode([[1, 1], [0, 0]], scales, frame)
    assert back["i"].tolist() == [1.5, 1.0]
    assert back["c"].tolist() == ["b", "a"]
    assert back["c"].cat.ordered
    polars = decode([[1], [-1]], scales[:1], pl.DataFrame({"i": [1, 2]}))
    assert polars["i"].to_list() == [1.5, None]


def test_decode_polars():
    frame = pl.DataFrame(
        {
            "whole": [1, 2, None],
            "float": [0.5, None, 1.5],
            "text": ["a", None, "b"],
            "flag": [True, None, False],
            "enum": pl.Series(["x", None, "z"], dtype=pl.Enum(["x", "y", "z"])),
            "small": pl.Series([1, None, 2], dtype=pl.UInt8),
        }
    )
    table = as_table(frame)
    scales = resolve_scales(map(table.read, range(table.n_columns)), table.names, {"text": ["a", "b"]})
    back = decode(encode(table, scales).to_dense(), scales, frame)
    assert back.schema == frame.schema
    assert back.equals(frame)


def test_decode_refuses_other_shapes():
    with pytest.raises(DataError, match=r"shape \(1, 3\).*2 columns"):
        decode([[0, 0, 0]], [Scale((1,))] * 2, [[1, 1]])


@steady
@given(arrays(np.int16, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.integers(-1, 2)))
def test_round_trip_through_every_container(levels):
    scales = [Scale((1, 2, 3)), Scale((0.5, 1.0, 1.5)), Scale((-1, 0, 1)), Scale((10, 20, 30))]
    scales = scales[: levels.shape[1]]
    values = decode(levels, scales, np.ones(levels.shape))
    names = list("abcd")[: levels.shape[1]]
    for form in (
        values,
        pd.DataFrame(values, columns=names),
        pl.DataFrame(nulls(values), schema={name: pl.Float64 for name in names}, orient="row"),
        stored(values),
        nulls(values),
    ):
        table = as_table(form)
        encoded = encode(table, scales).to_dense()
        assert np.array_equal(encoded, levels)
        back = decode(encoded, scales, table)
        assert isinstance(back, type(form) if isinstance(form, pd.DataFrame | pl.DataFrame) else np.ndarray)
        np.testing.assert_array_equal(
            np.asarray(back.to_numpy() if hasattr(back, "to_numpy") else back), values
        )


def test_encoding_is_lean():
    rng = np.random.default_rng(0)
    values = rng.integers(1, 6, size=(20_000, 80)).astype(float)
    values[rng.random(values.shape) > 0.4] = np.nan
    table = as_table(pd.DataFrame(values))
    scales = [Scale((1, 2, 3, 4, 5))] * 80

    def build():
        obs = encode(table, scales)
        obs.column_view  # noqa: B018
        return obs

    build()  # compile first
    tracemalloc.start()
    try:
        obs = build()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / obs.n_entries < 16


@pytest.mark.parametrize("values", [[{"a": 1}], [[1, 2]]], ids=["struct", "list"])
def test_nested_columns_of_polars_are_refused(values):
    frame = pl.DataFrame({"a": values * 3})
    with pytest.raises(DataTypeError, match=r"Column 'a' holds .* take it apart"):
        read_table(frame)


def test_integers_of_128_bits():
    frame = pl.DataFrame({"a": pl.Series([1, 3, 1]).cast(pl.Int128)})
    assert read_table(frame).observations.level.tolist() == [0, 1, 0]

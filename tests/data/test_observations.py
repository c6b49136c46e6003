"""Observations against plain loops over the dense table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ordinalrbm.data.observations import Observations
from ordinalrbm.errors import DataError

steady = settings(derandomize=True, deadline=None, max_examples=60)
N_LEVELS = 4

tables = arrays(
    np.int16, st.tuples(st.integers(1, 9), st.integers(1, 7)), elements=st.integers(-1, N_LEVELS - 1)
)


def example():
    """Unequal scales, an empty row, an empty column, levels that never occur."""
    dense = np.array([[0, 2, -1, -1], [-1, -1, -1, -1], [1, -1, -1, 0], [0, 4, -1, 0]], np.int16)
    return dense, Observations.from_dense(dense, [2, 5, 3, 1])


def check_row_view(obs, dense):
    """The row view by plain loops."""
    assert (obs.n_rows, obs.n_columns) == dense.shape
    assert obs.row_start.dtype == np.int64
    assert obs.column.dtype == np.int32
    assert obs.row_start[0] == 0
    for d in range(len(dense)):
        expected = [(j, dense[d, j]) for j in range(dense.shape[1]) if dense[d, j] >= 0]
        columns, levels = obs.row(d)
        assert list(zip(columns.tolist(), levels.tolist(), strict=True)) == expected
    assert obs.n_entries == sum(int(level >= 0) for level in dense.ravel())


def check_column_view(obs, dense):
    """The column view by plain loops."""
    view = obs.column_view
    for j in range(dense.shape[1]):
        part = slice(view.column_start[j], view.column_start[j + 1])
        assert view.row[part].tolist() == [d for d in range(len(dense)) if dense[d, j] >= 0]
        for d, entry in zip(view.row[part], view.entry[part], strict=True):
            assert obs.column[entry] == j
            assert obs.row_start[d] <= entry < obs.row_start[d + 1]
            assert obs.level[entry] == dense[d, j]


@steady
@given(tables)
def test_views_of_any_table(dense):
    obs = Observations.from_dense(dense, N_LEVELS)
    check_row_view(obs, dense)
    check_column_view(obs, dense)
    assert obs.to_dense().dtype == np.int16
    assert np.array_equal(obs.to_dense(), dense)


def test_example():
    dense, obs = example()
    check_row_view(obs, dense)
    check_column_view(obs, dense)
    assert obs.n_levels.tolist() == [2, 5, 3, 1]
    assert obs.n_levels.dtype == np.int32
    assert obs.density == 7 / 16
    assert obs.column_view is obs.column_view
    assert (obs.column_view.row.dtype, obs.column_view.entry.dtype) == (np.int32, np.int32)


@steady
@given(tables, st.data())
def test_take_rows(dense, data):
    index = data.draw(st.lists(st.integers(0, len(dense) - 1), max_size=12))
    obs = Observations.from_dense(dense, N_LEVELS)
    check_row_view(obs.take_rows(index), dense[np.array(index, dtype=int)])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(dense), max_size=len(dense))))
    check_row_view(obs.take_rows(mask), dense[mask])


@steady
@given(tables, st.data())
def test_select(dense, data):
    obs = Observations.from_dense(dense, N_LEVELS)
    n = obs.n_entries
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
    held_out = dense.copy()
    held_out[tuple(np.argwhere(dense >= 0)[~mask].T)] = -1  # argwhere goes row by row too
    check_row_view(obs.select(mask), held_out)
    assert np.array_equal(obs.to_dense(), dense)


@steady
@given(tables)
def test_transpose(dense):
    obs = Observations.from_dense(dense, N_LEVELS)
    check_row_view(obs.transpose(), dense.T)
    check_column_view(obs.transpose(), dense.T)
    assert obs.transpose().n_levels.tolist() == [N_LEVELS] * len(dense)
    twice = obs.transpose().transpose()
    for part in ("row_start", "column", "level", "n_levels"):
        assert np.array_equal(getattr(twice, part), getattr(obs, part))


@steady
@given(tables, st.data())
def test_reorder(dense, data):
    obs = Observations.from_dense(dense, N_LEVELS)
    rows, columns = (
        np.array(data.draw(st.permutations(range(n)))[: data.draw(st.integers(0, n))], dtype=int)
        for n in dense.shape
    )
    chosen, found = dense[rows][:, columns], obs.reorder(rows, columns)
    check_row_view(found, chosen)
    check_row_view(found.transpose(), chosen.T)
    assert found.transpose() is found.transpose()
    check_column_view(found, chosen)
    assert found.column_view.row is found.transpose().column


def test_reorder_takes_scales_along():
    dense, obs = example()
    found = obs.reorder(np.array([3, 0]), np.array([1, 0]))
    assert found.n_levels.tolist() == [5, 2]
    assert found.transpose().n_levels.tolist() == [5, 5]
    assert found.to_dense().tolist() == dense[[3, 0]][:, [1, 0]].tolist()


def test_transpose_of_unequal_scales_takes_the_largest():
    dense, obs = example()
    assert obs.transpose().n_levels.tolist() == [5] * 4
    assert np.array_equal(obs.transpose().to_dense(), dense.T)


@steady
@given(tables, st.randoms(use_true_random=False))
def test_triples_in_any_order(dense, random):
    cells = [(d, j, dense[d, j]) for d, j in np.argwhere(dense >= 0)]
    random.shuffle(cells)
    rows, columns, levels = (list(part) for part in zip(*cells, strict=True)) if cells else ([],) * 3
    obs = Observations.from_triples(rows, columns, levels, *dense.shape, N_LEVELS)
    check_row_view(obs, dense)
    assert obs.level.dtype == np.int8


def test_from_columns_asks_for_one_column_at_a_time():
    dense, _ = example()
    asked = []

    def encoded(j):
        asked.append(j)
        return dense[:, j]

    Observations.from_columns(encoded, 4, [2, 5, 3, 1])
    assert max(asked.count(j) for j in range(1, 4)) == 2


@pytest.mark.parametrize(("n_levels", "kind"), [(127, np.int8), (128, np.int16), (32767, np.int16)])
def test_level_width(n_levels, kind):
    dense = np.array([[n_levels - 1, -1], [0, 0]], dtype=np.int16)
    obs = Observations.from_dense(dense, [n_levels, 1])
    assert obs.level.dtype == kind
    assert np.array_equal(obs.to_dense(), dense)
    triples = Observations.from_triples([0], [0], [n_levels - 1], 2, 2, [n_levels, 1])
    assert triples.level.dtype == kind
    assert triples.level.tolist() == [n_levels - 1]


def test_no_answers_at_all():
    obs = Observations.from_dense(np.full((3, 2), -1), 5)
    assert (obs.n_entries, obs.density) == (0, 0.0)
    check_column_view(obs, obs.to_dense())
    assert obs.take_rows([2, 0]).n_rows == 2
    assert obs.take_rows([]).n_rows == 0
    assert obs.transpose().to_dense().shape == (2, 3)


# ---- what is refused ----


def test_duplicates_name_the_first_pair():
    with pytest.raises(DataError, match="Row 1 answers column 2 more than once; keep one"):
        Observations.from_triples([3, 1, 0, 1, 3], [0, 2, 0, 2, 0], [0, 1, 0, 2, 1], 4, 3, 3)


@pytest.mark.parametrize(
    ("rows", "columns", "levels", "words"),
    [
        ([0, 5], [0, 0], [0, 0], "Triple 1: the row 5 is not between 0 and 1"),
        ([0, 1], [0, -1], [0, 0], "Triple 1: the column -1 is not between 0 and 1"),
        ([0, 1], [0, 1], [1, 3], r"Triple 1 \(row 1, column 1\): the level 3 .* 0 and 2"),
        ([0, 1], [0, 1], [0, -1], "Triple 1 .*level -1.*leave unanswered cells out"),
        ([0, 1], [0, 1], [0], "2 rows, 2 columns and 1 levels"),
        ([0.5, 1], [0, 1], [0, 0], "rows must be integers"),
        ([0, 1], [0, 1], [0.5, 0], "levels must be integers"),
    ],
)
def test_bad_triples(rows, columns, levels, words):
    with pytest.raises(DataError, match=words):
        Observations.from_triples(rows, columns, levels, 2, 2, [2, 3])


def test_bad_dense():
    with pytest.raises(DataError, match=r"Column 1, row 0: the level 3 .* 2"):
        Observations.from_dense([[0, 3]], [2, 3])
    with pytest.raises(DataError, match="Column 0, row 1: the level -2"):
        Observations.from_dense([[0], [-2]], 2)
    with pytest.raises(DataError, match="integers"):
        Observations.from_dense([[0.5]], 2)
    with pytest.raises(DataError, match="2D"):
        Observations.from_dense([0, 1], 2)
    with pytest.raises(DataError, match="between 1 and 32,767"):
        Observations.from_dense([[0]], 0)
    with pytest.raises(DataError, match=r"Column 1 has shape \(1,\).*column 0 has 2 rows"):
        Observations.from_columns(lambda j: np.zeros(2 - j, dtype=np.int16), 2, 3)
    with pytest.raises(DataError, match="no column"):
        Observations.from_columns(lambda j: np.zeros(2, dtype=np.int16), 0, [])


def test_bad_indices():
    _, obs = example()
    for index in ([4], [-1], [0.5], [[0]], [True]):
        with pytest.raises(IndexError):
            obs.take_rows(index)
    for row in (4, -1):
        with pytest.raises(IndexError):
            obs.row(row)
    for mask in (np.ones(3, dtype=bool), np.ones(obs.n_entries, dtype=int)):
        with pytest.raises(ValueError, match="boolean array"):
            obs.select(mask)
    with pytest.raises(ValueError, match="from_ constructors"):
        Observations(np.array([0, 2]), np.zeros(1, np.int32), np.zeros(1, np.int8), np.array([2]))

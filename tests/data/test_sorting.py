"""Large tables, which several threads sort: the order is that of NumPy's own sorting."""

import numpy as np
import pytest

from ordinalrbm.data.observations import Cells, Observations, is_any_twice
from ordinalrbm.runtime.blocks import MANY, each_block, taken

# Rows of some answers, of a hundred thousand (sorted by digits), and of one or two.
SHAPES = {"ordinary": (4_000, 9_000), "long rows": (9, 400_000), "short rows": (900_000, 11)}


@pytest.fixture(scope="module", params=SHAPES)
def triples(request):
    rng = np.random.default_rng(0)
    n_rows, n_columns = SHAPES[request.param]
    key = rng.permutation(np.unique(rng.integers(0, n_rows * n_columns, MANY + 100_000)))
    row, column = np.divmod(key, n_columns)
    assert key.size > MANY
    return row, column, rng.integers(0, 5, key.size).astype(np.int8), n_rows, n_columns


def assert_same(found, row, column, level, n_rows):
    order = np.lexsort((column, row))
    np.testing.assert_array_equal(found.column, column[order])
    np.testing.assert_array_equal(found.level, level[order])
    np.testing.assert_array_equal(found.row_counts, np.bincount(row, minlength=n_rows))


def test_triples_by_row_and_column(triples):
    row, column, level, n_rows, n_columns = triples
    found = Observations.from_triples(*triples, 5)
    assert_same(found, row, column, level, n_rows)
    np.testing.assert_array_equal(found.column_counts, np.bincount(column, minlength=n_columns))
    np.testing.assert_array_equal(found.level_counts(5), np.bincount(level, minlength=5))
    assert_same(found.transpose(), column, row, level, n_columns)


def test_another_order_of_some(triples):
    row, column, level, n_rows, n_columns = triples
    rng = np.random.default_rng(1)
    rows, columns = (rng.permutation(n)[:-1] for n in (n_rows, n_columns))
    found = Observations.from_triples(*triples, 5).reorder(rows, columns)
    place, place_of_column = np.full(n_rows, -1), np.full(n_columns, -1)
    place[rows], place_of_column[columns] = np.arange(rows.size), np.arange(columns.size)
    kept = (place[row] >= 0) & (place_of_column[column] >= 0)
    row, column, level = place[row[kept]], place_of_column[column[kept]], level[kept]
    assert_same(found, row, column, level, rows.size)
    assert_same(found.transpose(), column, row, level, columns.size)


def test_some_left_out_and_put_in_again(triples):
    whole = Observations.from_triples(*triples, 5)
    row, column, level = whole.cells()
    hidden = np.random.default_rng(2).random(level.size) < 0.01
    hidden[[0, -1]] = True
    part = whole.select(~hidden)
    assert_same(part, row[~hidden], column[~hidden], level[~hidden], whole.n_rows)
    again = part.insert(Cells(row[hidden], column[hidden], level[hidden]))
    assert_same(again, row, column, level, whole.n_rows)


def test_a_cell_that_is_there_twice(triples):
    row, column = triples[:2]
    assert not is_any_twice(row, column)
    assert is_any_twice(np.append(row, row[77]), np.append(column, column[77]))


def test_the_first_error_is_told():
    def work(block):
        if block.start:
            raise ValueError(f"at {block.start}")

    with pytest.raises(ValueError, match=r"at 262144$"):
        each_block(work, 2 * MANY)


def test_rows_of_a_table():
    table = np.random.default_rng(0).random((5000, 300))
    rows = np.random.default_rng(1).integers(0, 5000, 7000)
    np.testing.assert_array_equal(taken(table, rows), table[rows])

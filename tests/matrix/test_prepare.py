"""From ratings to what learners take: in random order, or in the order of the ids."""

import numpy as np
import pytest

from ordinalrbm.data.ratings import read_ratings
from ordinalrbm.matrix.prepare import prepare


def ratings(**scales):
    rng = np.random.default_rng(0)
    cells = rng.permutation(40 * 25)[:600]
    return read_ratings((cells // 25, cells % 25, rng.integers(1, 6, cells.size)), **scales)


def held_out(data):
    """Held-out ratings as triples of positions on the lists of ids."""
    users, items = (
        {new: old for old, new in enumerate(position.tolist())}
        for position in (data.row_position, data.column_position)
    )
    row, column, level = (part.tolist() for part in data.validation)
    return {(users[d], items[i], v) for d, i, v in zip(row, column, level, strict=True)}


def test_the_same_ratings_are_held_out_in_either_order():
    known = ratings()
    shuffled = prepare(known, None, 0.2, 7)
    ordered = shuffled.by_ids()
    assert held_out(shuffled) == held_out(ordered)
    assert len(held_out(shuffled)) == known.n_ratings - ordered.observations.n_entries
    # In the order of the ids, and as the other once that is put back into it.
    dense = known.observations.to_dense()
    left = ordered.observations.to_dense()
    np.testing.assert_array_equal(left, np.where(left >= 0, dense, -1))
    back = shuffled.observations.to_dense()[shuffled.row_position][:, shuffled.column_position]
    np.testing.assert_array_equal(back, left)


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_scale_of_one_level_says_nothing(shuffle):
    known = read_ratings(([1, 1, 2, 2], [1, 2, 1, 2], [1, 5, 2, 5]), item_scales={2: [5]})
    with pytest.warns(UserWarning, match="From 2 of 4 ratings nothing can be learnt") as told:
        data = prepare(known, None, 0.0, 0)
        data = data if shuffle else data.by_ids()
    assert told[0].filename == __file__
    assert data.observations.n_entries == 2
    assert data.validation is None

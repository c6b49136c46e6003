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


def test_what_is_held_out_and_what_is_left_are_the_ratings():
    known = ratings()
    shuffled = prepare(known, None, 0.2, 7)
    dense = known.observations.to_dense()
    back = shuffled.observations.to_dense()[shuffled.row_position][:, shuffled.column_position]
    assert not (back >= 0)[tuple(np.array([(d, i) for d, i, _ in held_out(shuffled)]).T)].any()
    for d, i, level in held_out(shuffled):
        back[d, i] = level
    np.testing.assert_array_equal(back, dense)


def test_a_scale_of_one_level_says_nothing():
    known = read_ratings(([1, 1, 2, 2], [1, 2, 1, 2], [1, 5, 2, 5]), item_scales={2: [5]})
    with pytest.warns(UserWarning, match="From 2 of 4 ratings nothing can be learnt") as told:
        data = prepare(known, None, 0.0, 0)
    assert told[0].filename == __file__
    assert data.observations.n_entries == 2
    assert data.validation is None

"""Lists of ids: positions and labels, to arrays and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordinalrbm.data.columns import Ids
from ordinalrbm.storage.reader import Stored

steady = settings(derandomize=True, deadline=None, max_examples=60)
integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 6)


@steady
@given(st.lists(integers, min_size=1, unique=True) | st.lists(st.text(), min_size=1, unique=True))
def test_ids_survive_being_arrays(labels):
    kind = object if labels and isinstance(labels[0], str) else np.int64
    ids_ = Ids(np.array(sorted(labels), dtype=kind))
    arrays = ids_.to_arrays()
    assert all(array.dtype.kind in "iu" for array in arrays.values())
    back = Ids.from_stored(Stored(arrays, {}))
    assert back.labels.tolist() == sorted(labels)
    assert back.labels.dtype == ids_.labels.dtype
    assert back.lookup(labels).tolist() == [sorted(labels).index(label) for label in labels]


def test_ids_by_position():
    ids_ = Ids(np.array([3, 5, 9]))
    assert ids_.take([2, 0]).tolist() == [9, 3]
    assert ids_.take([]).tolist() == []
    assert ids_.lookup([]).tolist() == []
    assert ids_.lookup([5]).dtype == np.int64
    with pytest.raises(IndexError, match="between 0 and 2, but range from -1 to 0"):
        ids_.take([-1, 0])


def test_ids_that_came_later_are_found():
    """Their labels may fill a gap, so that the ends look like those of a range."""
    ids = Ids(np.array([0, 2, 1, 3]))
    assert ids.lookup([0, 1, 2, 3]).tolist() == [0, 2, 1, 3]

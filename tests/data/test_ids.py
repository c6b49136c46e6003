"""Lists of ids: positions and labels, to arrays and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordinalrbm.data.ids import Ids

steady = settings(derandomize=True, deadline=None, max_examples=60)
integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 6)


@steady
@given(st.lists(integers, unique=True) | st.lists(st.text(), unique=True))
def test_ids_survive_being_arrays(labels):
    kind = object if labels and isinstance(labels[0], str) else np.int64
    ids_ = Ids(np.array(sorted(labels), dtype=kind))
    arrays = ids_.to_arrays()
    assert all(array.dtype.kind in "iu" for array in arrays.values())
    back = Ids.from_arrays(arrays)
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

"""Draws of a stretch, as a process makes them, are those of one process that makes all."""

import numpy as np
import pytest

from ordinalrbm.matrix.prepare import _skip, _stretch


@pytest.mark.parametrize("n", [0, 1, 10, 11])
def test_stretches_one_after_the_other_are_the_whole(n):
    whole = np.random.default_rng(5).random(n, dtype=np.float32)
    for cut in range(n + 1):
        rng = np.random.default_rng(5)
        both = [_stretch(rng, 0, cut), _stretch(rng, cut, n - cut)]
        np.testing.assert_array_equal(np.concatenate(both), whole)


@pytest.mark.parametrize("n", [0, 1, 10, 11])
def test_what_is_drawn_later_is_the_same(n):
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    one.random(n, dtype=np.float32)
    _skip(other, n)
    np.testing.assert_array_equal(one.permutation(9), other.permutation(9))

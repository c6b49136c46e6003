"""Sums over the pieces of rows: right for rows of any length, and the same in any block of them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ordinalrbm.engine.gpu.pieces import SIZE, pieces_of, summed  # noqa: E402


@pytest.mark.parametrize("width", [3, 130])
def test_sums_over_pieces(device, width):
    """With rows of no piece, one, a few, as many as are few, one more, and many."""
    counts = np.array([1, 0, 3, 16, 17, 1, 40, 0, 2])
    pieces = pieces_of(np.concatenate([[0], np.cumsum(SIZE * counts - (counts == 3))]), device)
    np.testing.assert_array_equal(pieces.long.cpu(), [4, 6])
    partial = np.random.default_rng(0).normal(size=(counts.sum(), width)).astype(np.float32)
    there = torch.from_numpy(partial).to(device)
    found = summed(there, pieces)
    of_piece = np.repeat(np.arange(counts.size), counts)
    expected = [partial[of_piece == row].sum(axis=0) for row in range(counts.size)]
    np.testing.assert_allclose(found.cpu(), expected, rtol=1e-5, atol=1e-5)
    for rows in (slice(0, 3), slice(3, 5), slice(4, 9)):
        some = pieces.of_rows(rows)
        first = int(pieces.host_start[rows.start])
        assert torch.equal(summed(there[first : first + some.n], some), found[rows])

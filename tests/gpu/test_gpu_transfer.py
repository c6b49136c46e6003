"""What goes between host and device: tables that are fetched, answers that are put in."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from ordinalrbm.data.observations import Cells, Observations  # noqa: E402
from ordinalrbm.engine.gpu import transfer  # noqa: E402
from ordinalrbm.engine.gpu.pieces import answers_on, transposed  # noqa: E402
from ordinalrbm.matrix.gpu.backend import Cuda  # noqa: E402
from ordinalrbm.matrix.prepare import with_cells  # noqa: E402


@pytest.mark.parametrize("shape", [(0, 3), (5,), (7, 13), (64, 8)])
@pytest.mark.parametrize("kind", [torch.float32, torch.int8, torch.float64])
def test_a_table_is_fetched_piece_by_piece(device, monkeypatch, shape, kind):
    monkeypatch.setattr(transfer, "_AT_ONCE", 64)
    table = (100 * torch.rand(shape)).to(kind)
    found = transfer.fetched(table.to(device))
    assert found.dtype == table.numpy().dtype
    np.testing.assert_array_equal(found, table.numpy())


@pytest.mark.parametrize("shape", [(1, 1), (40, 7), (7, 300)])
def test_answers_are_turned_as_on_the_host(device, shape):
    dense = np.random.default_rng(0).integers(-1, 3, shape)
    dense[:, 0] = -1
    observations = Observations.from_dense(dense, 3)
    found = transposed(answers_on(observations, device), observations)
    wanted = answers_on(observations.transpose(), device)
    np.testing.assert_array_equal(found.pieces.host_start, wanted.pieces.host_start)
    for one, other in zip((*found.pieces[:4], *found[1:3]), (*wanted.pieces[:4], *wanted[1:3]), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def cells_among(n_rows, n_columns, n, rng):
    """Some are there already, some twice, some of unknown rows and columns."""
    return Cells(
        rng.integers(-1, n_rows, n), rng.integers(-1, n_columns, n), rng.integers(0, 3, n).astype(np.int8)
    )


@pytest.mark.parametrize("n", [0, 1, 40])
def test_answers_are_put_in_where_they_belong(device, n):
    rng = np.random.default_rng(n)
    dense = rng.integers(-1, 3, (12, 9))
    dense[3] = dense[:, 4] = -1  # nobody, nothing
    observations, cells = Observations.from_dense(dense, 3), cells_among(12, 9, n, rng)
    backend = Cuda("cuda")
    data, counts = backend.data_with(backend.data(observations, 2), observations, cells, 2)
    whole = with_cells(observations, cells)
    np.testing.assert_array_equal(counts.row_counts, whole.row_counts)
    np.testing.assert_array_equal(counts.column_counts, whole.column_counts)
    wanted = backend.data(whole, 2)
    for found, right in ((data.rows, wanted.rows), (data.columns, wanted.columns)):
        for name in ("column", "level"):
            one, other = (getattr(view.answers, name) for view in (found, right))
            assert one.dtype == other.dtype
            assert torch.equal(one, other)
        for one, other in zip(found.answers.pieces[:4], right.answers.pieces[:4], strict=True):
            assert torch.equal(one, other)

"""Arrays that come in blocks are in files what they would be whole."""

import numpy as np
import pytest

from ordinalrbm import DataError
from ordinalrbm.runtime.process_group import Stream
from ordinalrbm.storage import container, model_file


def stream(array, n_blocks):
    return Stream(array.dtype, array.shape, iter(np.array_split(array, n_blocks)))


@pytest.mark.parametrize("n_blocks", [1, 3, 2000])
def test_a_file_has_the_same_bytes(tmp_path, n_blocks):
    rng = np.random.default_rng(0)
    arrays = {
        "few": rng.random(3),
        "many": rng.integers(0, 9, 1000, dtype=np.int8),
        "wide": rng.random((500, 2)).astype(np.float32),
        "none": np.zeros(0, dtype=np.int64),
    }
    container.write(tmp_path / "whole", arrays, {"model": "a"})
    streams = {name: stream(array, n_blocks) for name, array in arrays.items() if name != "few"}
    container.write(tmp_path / "blocks", arrays | streams, {"model": "a"})
    assert (tmp_path / "blocks").read_bytes() == (tmp_path / "whole").read_bytes()
    found, _ = model_file.read(tmp_path / "blocks")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_what_is_not_taken_from_a_stream_is_taken_when_nothing_can_be_written(tmp_path, monkeypatch):
    """Those who send it wait for that."""
    monkeypatch.setattr(model_file, "_model", lambda stored, header: None)
    streams = {"a": stream(np.arange(9), 3), "b": stream(np.arange(9.0), 3)}
    arrays = {name: np.zeros(2) for name in streams}
    with pytest.raises(DataError, match="does not exist; create it or write elsewhere"):
        model_file.save(tmp_path / "no" / "file.orbm", arrays, {"model": "a"}, streams)
    assert not [block for each in streams.values() for block in each.blocks]

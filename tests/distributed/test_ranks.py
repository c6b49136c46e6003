"""Several processes on the cores of this machine against one.

Sums over the answers of a column are made of one float32 sum per process, and so rounded in another
order: numbers of size one agree to some 1e-6 after three epochs. Precisions are up to 20.
"""

import numpy as np
import pytest
from in_a_group import fit_with_checkpoints, found_by, ragged, ratings, three_rows

import ordinalrbm as orbm
from ordinalrbm.engine.party import Party
from ordinalrbm.learn.checkpoint import Trail

WORKS = {"ragged": ragged, "three_rows": three_rows}


def assert_same_bits(found):
    """What every process has is what the first has."""
    for other in found[1:]:
        for one, another in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, another)


@pytest.mark.parametrize(("work", "size"), [("ragged", 2), ("ragged", 4), ("three_rows", 4)])
def test_three_epochs(work, size, tmp_path):
    truth = WORKS[work](tmp_path)
    found = found_by(work, size, tmp_path)
    for one, other in zip(found[0]["parties"][:2], truth["parties"][:2], strict=True):
        for name, a, b in zip(Party._fields, one, other, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5, err_msg=name)
    for one, other in zip(found[0]["parties"][2:], truth["parties"][2:], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(found[0]["likelihoods"], truth["likelihoods"], atol=1e-5)
    for part in range(4):
        assert_same_bits([each["parties"][part] for each in found])
    assert_same_bits([each["likelihoods"] for each in found])


def test_processes_agree_in_a_seed_that_is_left_to_chance(tmp_path):
    found = found_by("whole_fit", 2, tmp_path)
    assert_same_bits([each["model"].by_rows for each in found])
    assert_same_bits([each["model"].by_columns for each in found])
    assert_same_bits([each["history"] for each in found])


def test_going_on_from_a_checkpoint_of_another_number_of_processes(tmp_path, monkeypatch):
    """One process is stopped after its first epoch; two go on, and end where one would have."""
    truth = orbm.MatrixCumulativeRBM(2, 2, n_epochs=3, random_state=0).fit(ratings())

    after = Trail.after

    def killed_after_one_epoch(trail, learner, state):
        after(trail, learner, state)
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Trail, "after", killed_after_one_epoch)
        with pytest.raises(RuntimeError, match="killed"):
            fit_with_checkpoints(tmp_path / "none")
    assert [path.name for path in (tmp_path / "steps").glob("*.checkpoint")] == [
        "continuous-000001.checkpoint"
    ]
    found = found_by("fit_with_checkpoints", 2, tmp_path)
    np.testing.assert_allclose(found[0]["history"], truth.history_["validation"], atol=1e-5)
    np.testing.assert_allclose(found[0]["model"].by_rows.bias, truth.model_.by_rows.bias, atol=2e-5)
    assert_same_bits([each["model"].by_rows for each in found])


def test_processes_with_different_ratings_are_refused(tmp_path):
    for each in found_by("different_ratings", 2, tmp_path):
        assert "given different ratings" in each["error"]

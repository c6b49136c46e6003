"""Several processes on the cores of this machine against one.

Sums over the answers of a column are made of one float32 sum per process, and so rounded in another
order: numbers of size one agree to some 1e-6 after three epochs. Precisions are up to 20.
"""

import shutil

import numpy as np
import pytest
from in_a_group import (
    fit_with_checkpoints,
    found_by,
    ragged,
    ratings,
    stopped_after_two_epochs,
    three_rows,
)

import ordinalrbm as orbm
from ordinalrbm.engine.party import Party

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


@pytest.fixture(scope="module")
def of_one():
    return orbm.MatrixCumulativeRBM(2, 2, n_epochs=3, random_state=0).fit(ratings())


def assert_ended_like(found, truth):
    np.testing.assert_allclose(found["history"], truth.history_["validation"], atol=1e-5)
    np.testing.assert_allclose(found["model"].by_rows.bias, truth.model_.by_rows.bias, atol=2e-5)
    np.testing.assert_allclose(
        found["model"].by_columns.bias, truth.model_.by_columns.bias, atol=2e-5
    )


def names(folder):
    return sorted(path.name for path in (folder / "steps").glob("*.checkpoint"))


def test_two_processes_go_on_from_a_checkpoint_of_one(of_one, tmp_path):
    assert stopped_after_two_epochs(tmp_path / "none") == {}
    assert names(tmp_path) == [f"continuous-00000{epoch}.checkpoint" for epoch in (1, 2)]
    found = found_by("fit_with_checkpoints", 2, tmp_path)
    assert_ended_like(found[0], of_one)
    assert_same_bits([each["model"].by_rows for each in found])


def test_others_go_on_from_a_checkpoint_of_two_processes(of_one, tmp_path):
    """One process, after a part of the newest was lost, and three."""
    found_by("stopped_after_two_epochs", 2, tmp_path)
    assert names(tmp_path) == [
        f"continuous-00000{epoch}-{number}of2.checkpoint" for epoch in (1, 2) for number in (1, 2)
    ]
    spoilt = tmp_path / "spoilt"
    shutil.copytree(tmp_path / "steps", spoilt / "steps")
    (spoilt / "steps" / "continuous-000002-2of2.checkpoint").unlink()
    with pytest.warns(UserWarning, match="part 2 of 2 is missing.*goes on from 'continuous-000001"):
        assert_ended_like(fit_with_checkpoints(spoilt / "none"), of_one)
    found = found_by("fit_with_checkpoints", 3, tmp_path)
    assert_ended_like(found[0], of_one)
    assert_same_bits([each["model"].by_rows for each in found])
    assert names(tmp_path)[-3:] == [f"continuous-000003-{n}of3.checkpoint" for n in (1, 2, 3)]


def test_processes_with_different_ratings_are_refused(tmp_path):
    for each in found_by("different_ratings", 2, tmp_path):
        assert "given different ratings" in each["error"]

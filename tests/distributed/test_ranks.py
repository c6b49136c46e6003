"""Several processes on the cores of this machine against one.

Sums over the answers of a column are made of one float32 sum per process, and so rounded in another
order: numbers of size one agree to some 1e-6 after three epochs. Precisions are up to 20.
"""

import shutil

import numpy as np
import pytest
from in_a_group import (
    binary,
    binary_fit_with_checkpoints,
    fit_with_checkpoints,
    found_by,
    killed_after,
    ragged,
    ratings,
    stopped_after_two_epochs,
    three_rows,
)

import ordinalrbm as orbm
from ordinalrbm.engine.gaussian_state import FactorPosterior
from ordinalrbm.training.checkpoint import CheckpointWriter

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
        for name, a, b in zip(FactorPosterior._fields, one, other, strict=True):
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
    return sorted(path.name for path in (folder / "kept").glob("*.checkpoint"))


def test_two_processes_go_on_from_a_checkpoint_of_one(of_one, tmp_path):
    assert stopped_after_two_epochs(tmp_path / "none") == {}
    assert names(tmp_path) == [f"continuous-00000{epoch}.checkpoint" for epoch in (1, 2)]
    found = found_by("fit_with_checkpoints", 2, tmp_path)
    assert_ended_like(found[0], of_one)
    assert_same_bits([each["model"].by_rows for each in found])


def test_others_go_on_from_a_checkpoint_of_two_processes(of_one, tmp_path):
    """One process, after the newest was lost, and three."""
    found_by("stopped_after_two_epochs", 2, tmp_path)
    assert names(tmp_path) == [f"continuous-00000{epoch}.checkpoint" for epoch in (1, 2)]
    older = tmp_path / "older"
    shutil.copytree(tmp_path / "kept", older / "kept")
    (older / "kept" / "continuous-000002.checkpoint").unlink()
    assert_ended_like(fit_with_checkpoints(older / "none"), of_one)
    found = found_by("fit_with_checkpoints", 3, tmp_path)
    assert_ended_like(found[0], of_one)
    assert_same_bits([each["model"].by_rows for each in found])
    assert names(tmp_path) == [f"continuous-00000{epoch}.checkpoint" for epoch in (2, 3)]


def test_processes_with_different_ratings_are_refused(tmp_path):
    for each in found_by("different_ratings", 2, tmp_path):
        assert "given different ratings" in each["error"]


# ---- binary factors ------------------------------------------------------------------------------


def assert_close(one, other, name, relative=2e-6):
    size = np.abs(other).max(initial=1.0)
    np.testing.assert_allclose(one, other, atol=relative * size, err_msg=name)


def assert_same_learnt(found, truth, relative):
    """Chains to the last bit; what is learnt from them to rounding."""
    for one, other in zip(found.chains, truth.chains, strict=True):
        np.testing.assert_array_equal(one.clamped, other.clamped)
        np.testing.assert_array_equal(one.free, other.free)
        for name, a, b in zip(one.sums._fields, one.sums, other.sums, strict=True):
            assert_close(a, b, f"sums.{name}", relative)
    for one, other in zip(found.model[:2], truth.model[:2], strict=True):
        for name, a, b in zip(one._fields, one, other, strict=True):
            assert_close(a, b, name, relative)
    for one, other in zip(found.priors, truth.priors, strict=True):
        for name, a, b in zip(one._fields, one, other, strict=True):
            assert_close(a, b, f"priors.{name}", relative)


def assert_same_on_all_ranks(found):
    for other in found[1:]:
        for one, another in zip(found[0].chains, other.chains, strict=True):
            assert_same_bits([one[:2], another[:2]])
            assert_same_bits([one.sums, another.sums])
        for one, another in zip(found[0].model[:2], other.model[:2], strict=True):
            assert_same_bits([one, another])
        assert_same_bits([found[0].priors[0], other.priors[0]])


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process finds."""
    return binary(tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module", params=[2, 4])
def together(request, tmp_path_factory):
    """What each of several finds."""
    return found_by("binary", request.param, tmp_path_factory.mktemp("together"))


def test_chains_and_statistics(alone, together):
    """Rows' statistics are added up; of columns, every process has those of its rows."""
    for case, expected in alone["chains"].items():
        all_ranks = [each["chains"][case] for each in together]
        for own in all_ranks:
            assert_same_learnt(own["learnt"], expected["learnt"], 2e-6)
            n_batches = -(-31 // 6)
            pairs = zip(own["statistics"], expected["statistics"], strict=True)
            for number, ((clamped, free), (all_clamped, all_free)) in enumerate(pairs):
                rows = slice(None) if number < n_batches else own["rows"]
                for name in ("weights", "bias", "factor_bias"):
                    slope = getattr(clamped, name) - getattr(free, name)
                    whole = getattr(all_clamped, name) - getattr(all_free, name)
                    assert_close(slope, whole if name == "factor_bias" else whole[rows], name)
                for name in ("thresholds", "answers"):
                    assert_close(getattr(clamped, name), getattr(all_clamped, name)[rows], name)
        assert_same_on_all_ranks([own["learnt"] for own in all_ranks])


def test_three_epochs_of_binary_factors(alone, together):
    found = [each["epochs"] for each in together]
    for case, expected in alone["epochs"].items():
        assert_same_learnt(found[0][case]["learnt"], expected["learnt"], 2e-5)
        np.testing.assert_allclose(
            found[0][case]["likelihoods"], expected["likelihoods"], atol=1e-5
        )
        assert_same_on_all_ranks([each[case]["learnt"] for each in found])
        assert_same_bits([each[case]["likelihoods"] for each in found])


def test_binary_and_mixed_fits(alone, together):
    for each in together:
        for kind, expected in alone["fits"].items():
            np.testing.assert_allclose(each["fits"][kind], expected, atol=1e-5, err_msg=kind)


def test_a_binary_fit_that_is_killed_ends_with_the_same_bits(tmp_path):
    for each in found_by("binary_fit_killed_and_resumed", 2, tmp_path):
        assert_same_bits([each[run]["model"].by_rows for run in ("resumed", "unharmed")])
        assert_same_bits([each[run]["model"].by_columns for run in ("resumed", "unharmed")])
        assert_same_bits([each[run]["history"] for run in ("resumed", "unharmed")])


def test_binary_factors_go_on_from_a_checkpoint_of_another_number(tmp_path, monkeypatch):
    """One process is stopped after its first epoch; two go on, and end where one would have."""
    truth = binary_fit_with_checkpoints(tmp_path / "alone" / "run")
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointWriter, "after", killed_after(1))
        with pytest.raises(RuntimeError, match="killed"):
            binary_fit_with_checkpoints(tmp_path / "none")
    found = found_by("binary_fit_with_checkpoints", 2, tmp_path)
    for each in found:
        np.testing.assert_allclose(each["history"], truth["history"], atol=1e-5)
        for one, other in zip(each["model"][:2], truth["model"][:2], strict=True):
            for name, a, b in zip(one._fields, one, other, strict=True):
                assert_close(a, b, name, 2e-5)

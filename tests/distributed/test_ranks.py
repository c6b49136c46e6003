"""Several processes on the cores of this machine against one.

Sums over the answers of a column are made of one float32 sum per process, and so rounded in another
order: numbers of size one agree to some 1e-6 after three epochs. Precisions are up to 20.
"""

import shutil

import numpy as np
import pytest
from in_a_group import (
    binary_fit_with_checkpoints,
    everything,
    fit_with_checkpoints,
    found_by,
    killed_after,
    sampled_fit,
)

import ordinalrbm as orbm
from ordinalrbm.engine.gaussian_state import FactorPosterior


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    """With checkpoints that one process has left, of Gaussian and of binary factors."""
    top = tmp_path_factory.mktemp("ranks")
    killed_after(2, fit_with_checkpoints, top / "of one")
    killed_after(1, binary_fit_with_checkpoints, top / "binary of one")
    assert names(top / "of one") == [f"gaussian-00000{epoch}.checkpoint" for epoch in (1, 2)]
    return top


@pytest.fixture(scope="module")
def two(top):
    found = found_by("by_two", 2, top)
    assert names(top / "of two") == [f"gaussian-00000{epoch}.checkpoint" for epoch in (1, 2)]
    shutil.copytree(top / "of two", top / "as two left it")
    return found


@pytest.fixture(scope="module")
def four(top, two):
    return found_by("by_four", 4, top)


@pytest.fixture(scope="module")
def alone():
    """What one process finds."""
    return everything()


@pytest.fixture(params=["two", "four"])
def together(request):
    """What each of several finds."""
    return request.getfixturevalue(request.param)


def names(folder):
    return sorted(path.name for path in folder.glob("*.checkpoint"))


def assert_same_bits(found):
    """What every process has is what the first has."""
    for other in found[1:]:
        for one, another in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, another)


def assert_same_model(*models):
    """Bit for bit, all of its arrays."""
    assert_same_bits([[*model[0], *model[1]] for model in models])


@pytest.mark.parametrize("case", ["ragged", "three rows"])
def test_three_epochs(alone, together, case):
    truth = alone["gaussian"][case]
    found = [each["gaussian"][case] for each in together]
    for one, other in zip(found[0]["state"][:2], truth["state"][:2], strict=True):
        for name, a, b in zip(FactorPosterior._fields, one, other, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5, err_msg=name)
    for one, other in zip(found[0]["state"][2:4], truth["state"][2:4], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(found[0]["likelihoods"], truth["likelihoods"], atol=1e-5)
    for part in range(4):
        assert_same_bits([each["state"][part] for each in found])
    assert_same_bits([[each["likelihoods"]] for each in found])


def test_processes_agree_in_a_seed_that_is_left_to_chance(two):
    assert_same_model(*(each["seed"]["model"] for each in two))
    assert_same_bits([[each["seed"]["history"]] for each in two])


@pytest.fixture(scope="module")
def of_one(tmp_path_factory):
    return fit_with_checkpoints(tmp_path_factory.mktemp("one"))


def assert_ended_like(found, truth):
    np.testing.assert_allclose(found["history"], truth["history"], atol=1e-5)
    for one, other in zip(found["model"][:2], truth["model"][:2], strict=True):
        np.testing.assert_allclose(one.mean[:, 0], other.mean[:, 0], atol=2e-5)


def test_two_processes_go_on_from_a_checkpoint_of_one(of_one, two):
    assert_ended_like(two[0]["from one"], of_one)
    assert_same_model(*(each["from one"]["model"] for each in two))


def test_one_process_goes_on_from_a_checkpoint_of_two(of_one, two, top):
    """After the newest was lost."""
    folder = top / "as two left it"
    (folder / "gaussian-000002.checkpoint").unlink()
    assert_ended_like(fit_with_checkpoints(folder), of_one)


def test_four_processes_go_on_from_a_checkpoint_of_two(of_one, four, top):
    assert_ended_like(four[0]["from two"], of_one)
    assert_same_model(*(each["from two"]["model"] for each in four))
    assert names(top / "of two") == [f"gaussian-00000{epoch}.checkpoint" for epoch in (2, 3)]


def test_processes_with_different_ratings_are_refused(two):
    for each in two:
        assert "given different ratings" in each["error"]


# ---- binary factors ------------------------------------------------------------------------------


def assert_close(one, other, name, relative=2e-6):
    size = np.abs(other).max(initial=1.0)
    np.testing.assert_allclose(one, other, atol=relative * size, err_msg=name)


def assert_same_state(found, truth, relative):
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


def test_chains_and_statistics(alone, together):
    """Rows' statistics are added up; of columns, every process has those of its rows."""
    for case, expected in alone["chains"].items():
        all_ranks = [each["chains"][case] for each in together]
        for own in all_ranks:
            assert_same_state(own["state"], expected["state"], 2e-6)
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
        assert_same_on_all_ranks([own["state"] for own in all_ranks])


def test_three_epochs_of_binary_factors(alone, together):
    found = [each["epochs"] for each in together]
    for case, expected in alone["epochs"].items():
        assert_same_state(found[0][case]["state"], expected["state"], 2e-5)
        np.testing.assert_allclose(
            found[0][case]["likelihoods"], expected["likelihoods"], atol=1e-5
        )
        assert_same_on_all_ranks([each[case]["state"] for each in found])
        assert_same_bits([each[case]["likelihoods"] for each in found])


def test_fits(alone, together):
    for each in together:
        for kind, expected in alone["fits"].items():
            np.testing.assert_allclose(each["fits"][kind], expected, atol=1e-5, err_msg=kind)


def test_a_binary_fit_that_is_killed_ends_with_the_same_bits(two):
    for each in two:
        assert_same_model(each["resumed"]["model"], each["unharmed"]["model"])
        assert_same_bits([[each[run]["history"]] for run in ("resumed", "unharmed")])


def test_binary_factors_go_on_from_a_checkpoint_of_another_number(two, tmp_path):
    """One process was stopped after its first epoch; two go on, and end where one would have."""
    truth = binary_fit_with_checkpoints(tmp_path)
    for each in (each["binary from one"] for each in two):
        np.testing.assert_allclose(each["history"], truth["history"], atol=1e-5)
        for one, other in zip(each["model"][:2], truth["model"][:2], strict=True):
            for name, a, b in zip(one._fields, one, other, strict=True):
                assert_close(a, b, name, 2e-5)


# ---- chains of draws -----------------------------------------------------------------------------


def test_every_process_has_the_draws_of_all(two):
    assert_same_bits([list(each["sampled"]["draws"].values()) for each in two])
    for name in ("predicted", "newcomer"):
        assert_same_bits([[each["sampled"][name]] for each in two])


def test_the_first_chain_is_that_of_one_process(two):
    alone, both = sampled_fit(None, n_draws=12), two[0]["sampled"]
    np.testing.assert_array_equal(alone["history"], both["history"])
    for name, part in alone["draws"].items():
        whole = both["draws"][name]
        np.testing.assert_array_equal(whole[: len(part)], part, err_msg=name)
    second = both["draws"]["rows.factors"][12:]
    assert len(second) == 12
    assert (second != alone["draws"]["rows.factors"]).mean() > 0.9
    assert both["draws"]["rows.block"].tolist() == [0] * 10 + [1] * 2 + [2] * 10 + [3] * 2


def test_chains_agree_in_what_they_predict(two):
    """To what so short chains leave to chance: between two seeds there is as much."""
    seeds = [sampled_fit(None, random_state=seed)["predicted"] for seed in (0, 1)]
    usual = np.abs(seeds[0] - seeds[1]).mean()
    assert np.abs(two[0]["sampled"]["predicted"] - seeds[0]).mean() < 1.5 * usual
    assert usual < 0.1


def test_chains_that_are_killed_end_with_the_same_bits(two):
    for each in two:
        for name, part in each["sampled"]["draws"].items():
            np.testing.assert_array_equal(each["resumed chains"]["draws"][name], part)
        assert "needs all ratings; give all of them the same ratings" in each["part"]


def test_chains_of_two_are_not_those_of_one(two, top):
    with pytest.raises(orbm.DataError, match="cannot be used"):
        sampled_fit(top / "killed chains")

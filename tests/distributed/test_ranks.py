"""Several processes on the cores of this machine against one.

Sums over the answers of a column are made of one float32 sum per process, and so rounded in another
order: numbers of size one agree to some 1e-6 after three epochs. Precisions are up to 20.
"""

import shutil

import numpy as np
import pytest
from in_a_group import everything, fit_with_checkpoints, found_by, killed_after, sampled_fit

import ordinalrbm as orbm
from ordinalrbm.engine.base import FactorPosterior
from ordinalrbm.matrix.draws import BLOCK


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    """With checkpoints that one process has left."""
    top = tmp_path_factory.mktemp("ranks")
    killed_after(2, fit_with_checkpoints, top / "of one")
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


def test_fits(alone, together):
    for each in together:
        for kind, expected in alone["fits"].items():
            np.testing.assert_allclose(each["fits"][kind], expected, atol=1e-5, err_msg=kind)


def test_a_fit_that_is_killed_ends_with_the_same_bits(two):
    for each in two:
        assert_same_model(each["resumed"]["model"], each["unharmed"]["model"])
        assert_same_bits([[each[run]["history"]] for run in ("resumed", "unharmed")])


def test_other_models_are_learnt_by_one_process(two):
    for each in two:
        for name, said in each["refused"].items():
            assert said == (
                f"Several processes learn OrdinalMF only, not {name}; learn it in a single "
                "process, or use OrdinalMF."
            )


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
    block = np.arange(12) // BLOCK
    assert both["draws"]["rows.block"].tolist() == [*block, *(block[-1] + 1 + block)]


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

"""Processes that each read a part of the ratings, against one that reads all."""

import warnings
from pathlib import Path

import in_parts
import numpy as np
import pytest
from in_a_group import found_by
from in_parts import all_works, fitted, write_folders
from long_form import LONG
from test_torchrun import torchrun
from typer.testing import CliRunner

import ordinalrbm as orbm
from ordinalrbm.cli import app
from ordinalrbm.storage import model_file

SCRIPT = Path(in_parts.__file__)
# Starting processes is what takes time; with three, one has none of what two bring.
SIZES = (2, 3, 4) if LONG else (3,)
CASES = ("text", "text, validation", "numbers", "numbers, validation")


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    top = tmp_path_factory.mktemp("parts")
    write_folders(top)
    return top


@pytest.fixture(scope="module")
def one(top):
    """What one process finds; it also leaves the checkpoint of a fit that has ended."""
    (top / "one").mkdir()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* have no time and count as the oldest")
        fitted(top / "text", refit="none", checkpoint=top / "kept")
        return all_works(top / "one")


@pytest.fixture(scope="module", params=SIZES)
def several(request, top, one):
    return found_by("all_works", request.param, top, SCRIPT)


@pytest.mark.parametrize("case", CASES)
def test_the_same_is_held_out_in_the_same_order(one, several, case):
    truth = one[f"{case}, arranged"]
    found = [each[f"{case}, arranged"] for each in several]
    for each in found:
        for name in ("held out", "positions", "counts"):
            for a, b in zip(each[name], truth[name], strict=True):
                np.testing.assert_array_equal(a, b, err_msg=name)
        np.testing.assert_array_equal(each["of levels"], truth["of levels"])
        np.testing.assert_array_equal(each["times"].validation, truth["times"].validation)
        assert each["clock"] == truth["clock"]
    assert len(np.unique(truth["times"].validation)) > 10
    for k, array in enumerate(truth["rows"]):
        np.testing.assert_array_equal(np.concatenate([each["rows"][k] for each in found]), array)
    times = np.concatenate([each["times"].ratings for each in found])
    np.testing.assert_array_equal(times, truth["times"].ratings)


@pytest.mark.parametrize("case", CASES)
def test_nobody_has_much_more_than_the_others(one, several, case):
    """A user has 25 ratings on average, and one of them far more."""
    sizes = [each[f"{case}, arranged"]["n read"] for each in several]
    total = one[f"{case}, arranged"]["n read"]
    assert sum(sizes) == total
    assert max(sizes) < total / len(several) + 100


@pytest.mark.parametrize("case", [*CASES, "validation in parts"])
def test_the_model_is_that_of_one_process(one, several, case):
    for each in several:
        found, truth = each[case], one[case]
        for name in ("users", "items", "scale"):
            np.testing.assert_array_equal(found[name], truth[name])
        np.testing.assert_allclose(found["history"], truth["history"], atol=1e-5)
        np.testing.assert_allclose(found["predictions"], truth["predictions"], atol=1e-5)
        np.testing.assert_array_equal(found["predictions"], several[0][case]["predictions"])


def test_no_process_knows_what_all_users_have_seen_and_says_so(several):
    for each in several:
        assert "let all processes save() the model, and load the file" in each["text"]["seen"]


def test_what_works_in_the_group_and_what_needs_the_file(several):
    for each in several:
        found = each["in the group"]
        assert found["same"]
        assert found["scores"][0] == pytest.approx(found["scores"][1])
        for name in ("unknown user", "unknown item"):
            assert "let all processes save() the model, and load the file" in found[name]


def test_large_times_of_some_are_later_than_small_ones_of_others(several):
    assert [each["large times"] for each in several] == [("fraction", True)] * len(several)


@pytest.mark.parametrize("name", ["text", "numbers"])
def test_all_say_that_a_file_cannot_be_written(several, name):
    for each in several:
        assert each[f"{name}, not written"].endswith("does not exist; create it or write elsewhere.")


def test_a_checkpoint_of_one_process_is_that_of_several(one, several):
    """It says that learning has ended, so that nothing is learnt, and the model is the same."""
    for each in several:
        for a, b in zip(each["going on"]["model"][:2], one["going on"]["model"][:2], strict=True):
            for array, truth in zip(a, b, strict=True):
                np.testing.assert_array_equal(array, truth)


def test_ratings_of_an_item_with_its_own_scale_are_not_on_that_of_all(one, several):
    assert one["scales"] == [(1, 2, 3, 4, 5), (1, 2, 3, 4, 5), (4, 5, 6, 7, 8, 9)]
    for each in several:
        assert each["scales"] == one["scales"]


def assert_same_but_for_rounding(path, truth):
    arrays, header = model_file.read(path)
    true_arrays, true_header = model_file.read(truth)
    assert header == true_header
    assert arrays.keys() == true_arrays.keys()
    for name, array in arrays.items():
        assert array.dtype == true_arrays[name].dtype
        if array.dtype.kind == "f":
            np.testing.assert_allclose(array, true_arrays[name], rtol=1e-3, atol=1e-4, err_msg=name)
        else:
            np.testing.assert_array_equal(array, true_arrays[name], err_msg=name)


@pytest.mark.parametrize("name", ["text", "numbers", "wide", "lopsided"])
def test_the_file_is_that_of_one_process(top, several, name):
    file = top / f"all_works-{len(several)}" / f"{name}.orbm"
    assert_same_but_for_rounding(file, top / "one" / f"{name}.orbm")
    if name == "lopsided":  # where many items are alike
        return
    lists, true_lists = (
        orbm.load(path).recommend("all", n=2) for path in (file, top / "one" / f"{name}.orbm")
    )
    assert lists[["user", "item"]].equals(true_lists[["user", "item"]])


def test_whatever_is_wrong_is_said_by_all(several):
    first = several[0]["errors"]
    assert all(each["errors"] == first for each in several)
    said = {name: text for name, (_, text) in first.items()}
    assert said["repeated"] == (
        "User 'a' has rated item 1 more than once, with 3 and with 2; keep one of them with "
        "drop_duplicates(), or average them."
    )
    assert said["off scale"].startswith("Row 2 (counted from 0; user 2, item 2, rating 9)")
    assert said["missing id"].startswith("Row 2 (counted from 0")
    assert "have no column 'rating'" in said["missing column"]
    assert said["mixed ids"].startswith("Some users are text, such as 'x', and others are numbers")
    assert said["mixed items"].startswith("Some items are text")
    assert "their order cannot be guessed" in said["text"]
    assert "categorical without an order" in said["orders"]
    assert said["nothing"] == "There is no rating in the data; give at least one."
    assert first["type"][0] == "DataTypeError"
    assert "scales of two levels or more, and these are choices" in said["choices"]
    assert "given times of the ratings and others none" in said["times"]
    assert "a RatingsPart and others all ratings" in said["kinds"]
    assert "given different validation ratings" in said["validation"]
    assert said["kinds of validation"] == said["validation"]


def test_the_command_line_reads_a_folder_in_parts(top):
    pytest.importorskip("pyreadstat")  # which the command line imports
    fit = ["fit", "text", "-k", "2", "--seed", "3", "--epochs", "4", "--out"]
    both = torchrun("-m", "ordinalrbm", *fit, "two.orbm", cwd=top)
    assert both.returncode == 0, both.stderr
    assert both.stderr.count("of which each process reads a part") == 1
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        patched.chdir(top)
        warnings.filterwarnings("ignore", message=".* have no time and count as the oldest")
        assert CliRunner().invoke(app, [*fit, "one.orbm"]).exit_code == 0
    assert_same_but_for_rounding(top / "two.orbm", top / "one.orbm")

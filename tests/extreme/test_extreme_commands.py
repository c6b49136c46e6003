"""The command line on strange data: fit, then what is made of the model."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ordinalrbm import cli


def run(*arguments, cwd):
    """The program in this process; its exit code must be zero."""
    with contextlib.chdir(cwd), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that draw figures
        result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


def one_rating_each():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"user": np.arange(300), "item": rng.integers(0, 9, 300), "rating": rng.integers(1, 6, 300)}
    )


def one_with_many():
    """A user with a thousand ratings among users with two."""
    user = np.concatenate([np.zeros(1000, dtype=int), np.repeat(np.arange(1, 101), 2)])
    item = np.concatenate([np.arange(1000), np.arange(200)])
    return pd.DataFrame({"user": user, "item": item, "rating": 1 + (item * 7 + user) % 5})


@pytest.mark.parametrize("make", [one_rating_each, one_with_many])
def test_ratings(make, tmp_path):
    frame = make()
    frame.to_csv(tmp_path / "ratings.csv", index=False)
    run("fit", "ratings.csv", "--out", "model.orbm", "--factors", 4, "--seed", 0, cwd=tmp_path)
    run("recommend", "model.orbm", "--users", "all", "-n", 3, "--out", "best.csv", cwd=tmp_path)
    best = pd.read_csv(tmp_path / "best.csv")
    assert np.isfinite(best["score"]).all()
    # Whoever has seen everything gets nothing, everybody else three.
    assert set(best.groupby("user").size()) == {3}
    assert set(best["user"]) == set(frame["user"]) - ({0} if make is one_with_many else set())
    run("report", "model.orbm", "--out", "page.html", cwd=tmp_path)
    assert ">nan<" not in (tmp_path / "page.html").read_text(encoding="utf-8").lower()


def test_a_survey_in_which_all_say_the_same(tmp_path):
    frame = pd.DataFrame({"q1": [1, 2, 3] * 30, "q2": [3] * 90, "q3": [2, 2, 1] * 30})
    frame.to_csv(tmp_path / "survey.csv", index=False)
    run("fit", "survey.csv", "--out", "model.orbm", "--factors", 2, "--seed", 0, cwd=tmp_path)
    run("report", "survey.csv", "--out", "page.html", cwd=tmp_path)
    assert (tmp_path / "page.html").stat().st_size > 10_000

"""Levels that are numbers, columns that are named wrongly, and labels that no scale is known to have."""

import json

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from typer.testing import CliRunner

import ordinalrbm as orbm
from ordinalrbm.cli import app
from ordinalrbm.files.formats import from_frame
from ordinalrbm.schema.infer import propose


def run(*given, stdin=None):
    return CliRunner().invoke(app, list(map(str, given)), input=stdin)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Answers from 0 to 10, two of three questions of which only the ends have words, with weights."""
    top, rng = tmp_path_factory.mktemp("numbers"), np.random.default_rng(0)
    factor = rng.normal(size=400)
    frame = pd.DataFrame(
        {f"q{k}": np.clip(np.rint(5 + 2 * factor + rng.normal(0, 1.5, 400)), 0, 10) for k in range(3)}
    ).astype(int)
    frame.assign(w=1.0, rep1=1.0, rep2=rng.permutation(400) % 2 * 2.0).to_csv(top / "a.csv", index=False)
    ends = {0: "No trust at all", 10: "Complete trust"}
    labels = dict.fromkeys(frame, ends)
    pyreadstat.write_sav(frame, top / "ends.sav", variable_value_labels=labels)
    for file in ("a.csv", "ends.sav"):
        options = ("--questions", "q0,q1,q2", "-k", 1, "--epochs", 3, "--seed", 0, "--quiet")
        done = run("fit", top / file, "-o", (top / file).with_suffix(".orbm"), *options)
        assert done.exit_code == 0, done.stderr
    return top


def test_what_is_typed_is_what_is_on_the_screen(folder):
    """Levels that are numbers are not numbered again: 5 is the level 5, and not the fifth."""
    asked = run("ask", folder / "ends.orbm", "-k", 1, "--json", stdin="5\nno trust at all\nq\n")
    assert asked.exit_code == 0
    assert "No trust at all, 1, 2, 3" in asked.stderr
    assert sorted(json.loads(asked.stdout)["answers"].values()) == ["5", "No trust at all"]


def test_a_replicate_weight_that_is_not_there_is_named(folder):
    given = ("--weights", "w", "--replicates", "rep1", "--replicates", "repp2", "--replicate-type", "BRR")
    found = run("factors", folder / "a.csv", "-k", 1, *given)
    assert found.exit_code == 2
    assert "replicates 'repp2' matches no column" in found.stderr


@pytest.mark.parametrize(
    "labels",
    [
        ["Primary", "Secondary", "Bachelor", "Master", "PhD"],
        ["Very unlikely", "Unlikely", "Likely", "Very likely", "Certain"],
        ["Sehr gut", "Gut", "Befriedigend", "Ausreichend", "Mangelhaft"],
    ],
)
def test_words_that_no_scale_is_known_to_have_are_doubtful_and_not_filled(labels):
    column = propose(from_frame(pd.DataFrame({"q": labels * 50}))).columns[0]
    if column.missing:
        assert column.is_doubtful
        assert set(column.missing_sorts) == {"not applicable"}


def test_words_that_say_so_are_still_no_answer():
    labels = ["Very unlikely", "Unlikely", "Likely", "Very likely", "No answer"]
    column = propose(from_frame(pd.DataFrame({"q": labels * 50}))).columns[0]
    assert (column.missing, column.missing_sorts) == (("No answer",), ("no answer",))
    assert not column.is_doubtful


def test_questions_to_ask_have_the_scores_of_people_with_that_background():
    rng = np.random.default_rng(5)
    group = rng.choice(["a", "b", "c"], 400)
    factor = rng.normal(size=400) + pd.Series(group).map({"a": -1.0, "b": 0.0, "c": 1.0}).to_numpy()
    answers = {f"q{i}": np.digitize(0.7 * factor + 0.7 * rng.normal(size=400), [-1, 0, 1]) for i in range(5)}
    X = pd.DataFrame(answers).assign(g=group)
    model = orbm.CumulativeRBM(1, background=["g"], n_epochs=5, random_state=0).fit(X)
    scores, errors = model.scores(X.iloc[:4], return_std=True)
    for row in range(4):
        about = model.ask(X.iloc[row].to_dict(), factors="all").attrs
        assert about["scores"]["Factor 1"] == pytest.approx(scores.iloc[row, 0], abs=0.01)
        assert about["standard_errors"]["Factor 1"] == pytest.approx(errors.iloc[row, 0], abs=0.01)

"""Interviews in the terminal, with answers from a pipe."""

from __future__ import annotations

import contextlib
import json

import pytest
from program import names_in
from small_files import LABELS, QUESTIONS
from typer.testing import CliRunner

import ordinalrbm as orbm
from ordinalrbm import cli


def interview(typed, *arguments, cwd, model="survey.orbm"):
    with contextlib.chdir(cwd):
        return CliRunner().invoke(
            cli.app, ["ask", model, *map(str, arguments)], input=typed, env={"COLUMNS": "80"}
        )


def test_labels_numbers_and_blanks_are_understood(files):
    before = names_in(files)
    done = interview("nonsense\n1\n\n" + 3 * "2\n", "-k", 1, "--until", 0, "--json", cwd=files)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["answers"]) == 4
    model = orbm.load(files / "survey.orbm")
    asked = model.ask(factors="all", n_factors=1)
    first = asked["question"][0]
    scale = model.scales_[list(model.feature_names_in_).index(first)]
    assert found["answers"][first] == scale.labels[0]
    assert QUESTIONS[first] in done.stderr and "Answer with a number" in done.stderr
    again = model.ask(found["answers"], factors="all", n_factors=1)
    assert found["scores"]["Factor 1"]["score"] == pytest.approx(again.attrs["scores"]["Factor 1"])
    assert names_in(files) == before


def test_the_interview_ends_with_q_at_the_end_of_input_or_when_enough_is_known(files):
    for typed, options in (("q\n", []), ("", []), ("1\n", ["--most", 1])):
        done = interview(typed, "-k", 2, *options, cwd=files)
        assert done.exit_code == 0
        assert f"By {len(options) // 2} answer" in done.stdout and "error" in done.stdout
    enough = interview("", "-k", 1, "--until", 3, cwd=files)
    assert enough.exit_code == 0 and "\n> " not in enough.stderr


def test_labels_of_any_case_count(files):
    model = orbm.load(files / "survey.orbm")
    first = model.ask(factors="all", n_factors=1)["question"][0]
    scale = model.scales_[list(model.feature_names_in_).index(first)]
    label = scale.names[-1]
    assert label in LABELS[first].values() or scale.is_numeric
    done = interview(f"{label.upper()}\nq\n", "-k", 1, "--json", cwd=files)
    assert json.loads(done.stdout)["answers"] == {first: scale.labels[-1]}


def test_other_models_are_refused_in_one_line(files):
    done = interview("", cwd=files, model="films.orbm")
    assert done.exit_code == 2 and "not a model of a survey" in done.stderr
    done = interview("", "-k", 99, cwd=files)
    assert done.exit_code == 2 and "--factors 99" in done.stderr

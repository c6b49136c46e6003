"""`ordinalrbm schema`: the table, the page and the file, and rules that are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from program import found, names_in, run_here, succeed_here
from small_files import SCRIPT, survey_frame, write_spss


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_spss(tmp_path / "survey.sav")
    return tmp_path


def write_doubtful(path: Path) -> None:
    """A question with a middle that has no ends to be between, and one that is plain."""
    frame = pd.DataFrame({"plain": np.arange(60) % 2, "odd": np.arange(60) % 5 + 1.0})
    times = {1: "Several times a day", 2: "Once a day", 3: "Once a week"}
    labels = {"odd": {**times, 4: "Never", 5: "It depends"}}
    labels["plain"] = {0: "No", 1: "Yes"}
    questions = {"odd": f"A or B? {SCRIPT}"}
    pyreadstat.write_sav(frame, path, column_labels=questions, variable_value_labels=labels)


def test_table_has_doubtful_columns_first(tmp_path: Path) -> None:
    write_doubtful(tmp_path / "a.sav")
    done = succeed_here("schema", "a.sav", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    first = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert first[0].startswith("odd: A or") and "plain" in first
    assert first.index("plain") > 0
    text = " ".join(done.stdout.replace("│", " ").split())
    assert "2 columns, 1 of them doubtful." in text and "0.70" in text
    assert names_in(tmp_path) == {"a.sav"}


def test_json_says_all(folder: Path) -> None:
    about = found("schema", "survey.sav", cwd=folder)
    columns = {column["name"]: column for column in about["columns"]}
    assert list(columns) == list(survey_frame().columns)
    assert columns["q1"]["role"] == "ordinal" and columns["q1"]["levels"] == [1, 2, 3, 4, 5]
    assert columns["q1"]["missing_sorts"] == ["don't know", "refused"]
    assert columns["q6"]["missing"] == [99] and columns["caseid"]["role"] == "id"
    assert columns["country"]["role"] == "nominal" and columns["wt"]["role"] == "weight"
    assert all(0 < column["confidence"] <= 1 and column["reason"] for column in columns.values())


def test_written_schema_gives_the_same_schema(folder: Path) -> None:
    before = found("schema", "survey.sav", "--out", "a.toml", "--page", "a.html", cwd=folder)
    text = (folder / "a.toml").read_text(encoding="utf-8")
    again = found("schema", "survey.sav", "--schema", "a.toml", "--out", "b.toml", cwd=folder)
    assert again == before and (folder / "b.toml").read_text(encoding="utf-8") == text
    page = (folder / "a.html").read_text(encoding="utf-8")
    assert SCRIPT not in page and "&lt;script&gt;alert(1)" in page
    (folder / "a.toml").write_text('[columns.q1]\nmissing = ["Neither"]\n', encoding="utf-8")
    after = found("schema", "survey.sav", "--schema", "a.toml", cwd=folder)
    levels = {column["name"]: column["levels"] for column in after["columns"]}
    assert levels["q1"] == [1, 2, 4, 5] and levels["q3"] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ('["q9*"]\nrole = "id"', "has 'q9*' beside scales and columns"),
        ('[columns.q9]\nrole = "id"', "the column 'q9', which the data does not have"),
        ('[columns.q1]\nrol = "id"', "did you mean 'role'?"),
        ("[columns.q1]\nlevels = [1, 2]\nmissing = [2]", "2 stands under levels and under missing"),
    ],
)
def test_wrong_rules_are_one_sentence(folder: Path, rules: str, words: str) -> None:
    (folder / "r.toml").write_text(rules)
    arguments = ["survey.sav", "--schema", "r.toml", "--out", "o.toml", "--page", "p.html"]
    done = run_here("schema", *arguments, cwd=folder)
    assert done.returncode == 2 and words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert names_in(folder) == {"survey.sav", "r.toml"}


def test_wrong_files(folder: Path) -> None:
    for arguments, words in (
        (["no.sav"], "does not exist"),
        (["survey.sav", "--out", "survey.sav"], "would be written over"),
        (["survey.sav", "--out", "a", "--page", "a"], "--out and --page are both 'a'"),
        (["survey.sav", "--page", "no/a.html"], "no"),
    ):
        done = run_here("schema", *arguments, cwd=folder)
        assert done.returncode == 2 and words in done.stderr, done.stderr
    assert names_in(folder) == {"survey.sav"}

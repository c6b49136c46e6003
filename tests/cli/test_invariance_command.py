"""``ordinalrbm invariance``: questions that work differently in groups."""

from __future__ import annotations

import pandas as pd
import pytest
from program import found, run_here, succeed_here

ARGUMENTS = ["invariance", "survey.orbm", "survey.sav", "--group", "country", "-k", 1]


def test_comparisons_are_shown_and_written(files):
    about = found(*ARGUMENTS, "--out", "dif.csv", cwd=files)
    written = pd.read_csv(files / "dif.csv")
    assert written["question"].tolist() == [line["question"] for line in about["questions"]]
    assert written["uniform"].tolist() == pytest.approx([line["uniform"] for line in about["questions"]])
    assert {line["factor"] for line in about["means"]} == {"Factor 1"}
    shown = succeed_here(*ARGUMENTS, "--out", "dif.xlsx", cwd=files).stdout
    assert "deviations" in shown and "The comparisons are in dif.xlsx." in shown
    sheets = pd.read_excel(files / "dif.xlsx", sheet_name=None)
    assert list(sheets) == ["Questions", "Means"] and "uniform" in sheets["Questions"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (["--group", "planet"], "There is no background variable 'planet'; choose one of"),
        (["-k", 50], "--factors 50 is more than"),
        (["--out", "dif.json"], "cannot hold"),
    ],
)
def test_wrong_input_is_one_sentence_and_nothing_is_written(files, changed, words):
    before = sorted(files.iterdir())
    ended = run_here(*ARGUMENTS, *changed, cwd=files)
    assert ended.returncode == 2 and words in ended.stderr.splitlines()[-1]
    assert sorted(files.iterdir()) == before

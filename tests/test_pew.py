"""The benchmark's rule for Pew's files, on a small file in their layout."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pyreadstat = pytest.importorskip("pyreadstat")
sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks" / "paper"))
read_pew = pytest.importorskip("pew").read_pew

DEGREES = {1: "Very good", 2: "Somewhat good", 3: "Somewhat bad", 4: "Very bad"}
SILENT = {8: "Don’t know (DO NOT READ)", 9: "Refused (DO NOT READ)"}


@pytest.fixture
def path(tmp_path):
    n = 40
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "PSRAID": np.arange(n, dtype=float),
            "COUNTRY": rng.choice([1.0, 2.0], n),
            "Q1": rng.choice([1.0, 2.0, 3.0, 4.0, 8.0, 9.0], n),
            "Q2": rng.choice([1.0, 2.0], n),
            "Q3": rng.choice([1.0, 2.0, 3.0], n),
            "Q4CHI": np.r_[rng.choice([1.0, 2.0, 3.0, 4.0], 10), np.full(30, np.nan)],
            "Q5": rng.integers(18, 90, n).astype(float),
            "WEIGHT": np.ones(n),
        }
    )
    labels = {
        "COUNTRY": {1: "Britain", 2: "China"},
        "Q1": DEGREES | SILENT,
        "Q2": {1: "Yes", 2: "No"} | SILENT,
        "Q3": {1: "Crime", 2: "Prices", 3: "Water"} | SILENT,
        "Q4CHI": DEGREES | SILENT,
        "Q5": {99: "Refused"},
    }
    target = tmp_path / "pew.sav"
    pyreadstat.write_sav(frame, str(target), variable_value_labels=labels)
    return target


def test_scales_of_most_people_are_questions(path):
    answers, country = read_pew(path)
    # Not: names of problems (Q3), a question of one country (Q4CHI), a number (Q5).
    assert list(answers) == ["Q1", "Q2"]
    assert set(country) == {"Britain", "China"}


def test_silence_is_no_answer(path):
    answers, _ = read_pew(path)
    assert set(answers["Q1"].dropna()) == {1.0, 2.0, 3.0, 4.0}
    assert answers["Q1"].isna().any()


def test_questions_can_be_named(path):
    answers, _ = read_pew(path, ["Q3", "Q4CHI"])
    assert list(answers) == ["Q3", "Q4CHI"]

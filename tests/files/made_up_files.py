"""A small survey with everything that SPSS and Stata files can say of their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat

SCRIPT = "<script>alert(1)</script>"
AGREEMENT = {1: "Strongly disagree", 2: "Disagree", 3: "Neither", 4: "Agree", 5: "Strongly agree"}


def survey_frame() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    n = 60
    frame = pd.DataFrame(
        {
            "caseid": np.arange(1001.0, 1001.0 + n),
            "land": rng.integers(1, 4, n).astype(float),
            "sex": rng.integers(1, 3, n).astype(float),
            "q1": rng.integers(1, 6, n).astype(float),
            "q2": rng.integers(1, 8, n).astype(float),
            "q3": rng.integers(0, 2, n).astype(float),
            "code": rng.choice(["A1", "B2", "C3"], n),
            "story": [f"Ünïcode {'ä' * 200} {k % 7}" for k in range(n)],
            "wt": rng.uniform(0.2, 3.0, n),
            "when": rng.integers(13_600_000_000 // 86400, 13_700_000_000 // 86400, n) * 86400.0,
        }
    )
    frame.loc[[0, 1], "q1"] = [98, 99]
    frame.loc[[2, 3, 4], "q2"] = [-9, -5, np.nan]
    frame.loc[5, "q3"] = np.nan
    return frame


LABELS: dict[str, dict[Any, str]] = {
    "land": {1: "Österreich", 2: "España", 3: SCRIPT},
    "sex": {1: "male", 2: "female"},
    "q1": {**AGREEMENT, 98: "Weiß nicht", 99: "Refused"},
    "q2": {1: "gar nicht", 7: "sehr", -9: "not asked"},
    "q3": {0: "no", 1: "yes"},
}
QUESTIONS = {"q1": f'Do you "like" it? {SCRIPT}', "q2": "Wie sehr gefällt’s?", "wt": "Weight"}
MISSING: dict[str, list[Any]] = {"q1": [98, 99], "q2": [{"lo": -9, "hi": -1}]}
MEASURES = {"q1": "ordinal", "sex": "nominal", "q2": "scale"}


def write_spss(path: Path, frame: pd.DataFrame | None = None) -> Path:
    pyreadstat.write_sav(
        survey_frame() if frame is None else frame,
        path,
        file_label="made up",
        column_labels=QUESTIONS,
        note="a note",
        variable_value_labels=LABELS,
        missing_ranges=MISSING,
        variable_measure=MEASURES,
        variable_format={"when": "EDATE10", "wt": "F8.3"},
        compress=path.suffix == ".zsav",
    )
    return path


def write_stata(path: Path) -> Path:
    frame = survey_frame().drop(columns=["code"])
    answers = frame["q1"].astype(object).where(frame["q1"].notna(), None)
    answers[0], answers[1], answers[2] = "a", "b", None
    frame["q1"] = answers
    frame["when"] = np.floor(frame["when"] / 86400 - 137_000)
    pyreadstat.write_dta(
        frame,
        path,
        column_labels=QUESTIONS,
        variable_value_labels={
            **{name: labels for name, labels in LABELS.items() if name != "q1"},
            "q1": {**AGREEMENT, "a": "Weiß nicht", "b": "Refused"},
        },
        missing_user_values={"q1": ["a", "b"]},
        variable_format={"when": "%td"},
    )
    return path

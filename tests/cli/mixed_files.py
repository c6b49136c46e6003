"""A survey with questions of all kinds as small files: scales, a party, an income, and lands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat

N = 240
ASKED = ["q1", "q2", "q3", "q4", "party", "income", "hours"]
LANDS = {1: "Austria", 2: "Switzerland", 3: "Germany"}
PARTIES = {1: "Red", 2: "Blue", 3: "Green", 9: "Refused"}
OFTEN = {1: "Never", 2: "Rarely", 3: "Sometimes", 4: "Often"}
QUESTIONS = {"q1": "Do you read?", "party": "Party voted for", "income": "Monthly income"}
MISSING = {"party": [9], "income": [99999]}


def mixed_frame(n: int = N) -> pd.DataFrame:
    """One trait is behind all answers, and lands differ; a tenth of the answers is missing."""
    rng = np.random.default_rng(0)
    trait, land = rng.normal(size=n), rng.integers(0, 3, n)
    moved = np.array([-0.7, 0.0, 0.9])[land]
    frame = pd.DataFrame({"caseid": np.arange(1.0, n + 1.0)})
    for j, pull in enumerate([1.3, 1.0, -0.9, 0.8]):
        utility = pull * (trait + moved) + rng.normal(size=n)
        frame[f"q{j + 1}"] = np.digitize(utility, [-1.2, 0.1, 0.9]) + 1.0
    odds = np.stack([1.3 * trait, -1.3 * trait, 0.3 + 0 * trait]) + rng.gumbel(size=(3, n))
    frame["party"] = odds.argmax(axis=0) + 1.0
    income = 2500 + 700 * (0.8 * trait + 0.6 * rng.normal(size=n) + moved)
    frame["income"] = np.round(np.maximum(income, 300.0))
    frame["hours"] = (38 + 6 * (trait + 0.6 * rng.normal(size=n))).round(2)
    frame["land"] = land + 1.0
    frame["age"] = np.round(rng.uniform(18, 80, n))
    frame["wt"] = rng.uniform(0.5, 2.0, n).round(3)
    for name in ASKED:
        frame.loc[rng.random(n) < 0.1, name] = np.nan
    for name, (code,) in MISSING.items():
        frame.loc[rng.choice(n, 5, replace=False), name] = code
    return frame


def write_mixed(path: Path, frame: pd.DataFrame | None = None) -> Path:
    scales = dict.fromkeys(["q1", "q2", "q3", "q4"], OFTEN)
    pyreadstat.write_sav(
        mixed_frame() if frame is None else frame,
        path,
        column_labels={**QUESTIONS, "hours": "Hours of work", "land": "Country", "wt": "Weight"},
        variable_value_labels={**scales, "party": PARTIES, "income": {99999: "Refused"}, "land": LANDS},
        missing_ranges=MISSING,
        variable_measure={"party": "nominal", "land": "nominal"},
    )
    return path

"""A survey and ratings as small files, with all that makes real ones difficult."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat

SCRIPT, TITLE = "<script>alert(1)</script>", "</title>"
AGREE = {1: "Strongly disagree", 2: "Disagree", 3: "Neither", 4: "Agree", 5: "Strongly agree"}
OFTEN = {1: "Never", 2: "Rarely", 3: "Sometimes", 4: "Often"}
QUESTIONS = {
    "q1": "I like my neighbours",
    "q2": f"Häuser sind schön {SCRIPT}",
    "q3": "Work matters",
    "q4": "¿Cuánto le gusta?",
    "q5": "Do you vote?",
    "q6": f"How often do you read? {TITLE}",
    "region": "Part of the country",
}
LABELS = {
    "country": {1: "Österreich", 2: "España", 3: SCRIPT, 4: TITLE},
    "region": {1: "North", 2: "Middle", 3: "South"},
    "q1": {**AGREE, 8: "Weiß nicht", 9: "Refused"},
    "q2": {**AGREE, 8: "Weiß nicht", 9: "Refused"},
    "q3": {**AGREE, 8: "Weiß nicht", 9: "Refused"},
    "q4": {1: "gar nicht", 7: "sehr", -9: "not asked"},
    "q5": {0: "no", 1: "yes"},
    "q6": {**OFTEN, 99: "Don't know"},
}
MISSING = {"q1": [8, 9], "q2": [8, 9], "q3": [8, 9], "q4": [{"lo": -9, "hi": -1}]}
LEVELS = {"q1": 5, "q2": 5, "q3": 5, "q4": 7, "q5": 2, "q6": 4}
N = 300


def survey_frame() -> pd.DataFrame:
    """Six questions about one taste and a half; a tenth of the answers is missing."""
    rng = np.random.default_rng(3)
    taste = rng.normal(size=(N, 2))
    frame = pd.DataFrame({"caseid": np.arange(1001.0, 1001.0 + N)})
    frame["country"] = rng.integers(1, 5, N).astype(float)
    frame["region"] = rng.integers(1, 4, N).astype(float)
    for place, (name, n_levels) in enumerate(LEVELS.items()):
        utility = taste @ [1.0, 0.5 * (-1) ** place] + 0.6 * rng.normal(size=N)
        bounds = np.quantile(utility, np.arange(1, n_levels) / n_levels)
        answers = np.digitize(utility, bounds) + (0.0 if name == "q5" else 1.0)
        answers[rng.random(N) < 0.1] = np.nan
        frame[name] = answers
    for name, codes in {"q1": [8, 9], "q2": [9], "q3": [8], "q4": [-9, -3], "q6": [99]}.items():
        frame.loc[rng.choice(N, 4 * len(codes), replace=False), name] = codes * 4
    frame["story"] = [f"Ünïcode “{k % 7}”, {SCRIPT}" for k in range(N)]
    frame["wt"] = rng.uniform(0.2, 3.0, N).round(3)
    return frame


def write_spss(path: Path, frame: pd.DataFrame | None = None) -> Path:
    pyreadstat.write_sav(
        survey_frame() if frame is None else frame,
        path,
        file_label="made up",
        column_labels={**QUESTIONS, "wt": "Weight"},
        variable_value_labels=LABELS,
        missing_ranges=MISSING,
        variable_measure={"q4": "ordinal", "country": "nominal", "region": "nominal"},
    )
    return path


def write_stata(path: Path) -> Path:
    """The same; what is user-missing is .a and .b."""
    frame, labels, letters = survey_frame(), dict(LABELS), {}
    for name, tags in {
        "q1": {8: "a", 9: "b"},
        "q2": {9: "b"},
        "q3": {8: "a"},
        "q4": {-9: "a", -3: "b"},
    }.items():
        values = frame[name].astype(object).where(frame[name].notna(), None)
        frame[name] = [tags.get(value, value) for value in values]
        known = {code: text for code, text in LABELS[name].items() if 0 <= code < 8}
        labels[name] = {**known, **{letter: f"missing {letter}" for letter in tags.values()}}
        letters[name] = sorted(tags.values())
    pyreadstat.write_dta(
        frame, path, column_labels=QUESTIONS, variable_value_labels=labels, missing_user_values=letters
    )
    return path


def ratings_frame() -> pd.DataFrame:
    """45 users and 36 items; the first half of the users has rated most items."""
    rng = np.random.default_rng(5)
    taste, kind = rng.normal(size=(45, 2)), rng.normal(size=(36, 2))
    rows = []
    for user in range(45):
        for item in rng.permutation(36)[: 33 if user < 22 else 18]:
            utility = taste[user] @ kind[item] + 0.7 * rng.normal() + 0.4
            rating = int(np.clip(np.round(utility + 3), 1, 5))
            rows.append((user + 1, int(item) + 101, rating, int(rng.integers(10**9))))
    return pd.DataFrame(rows, columns=["userId", "movieId", "rating", "timestamp"])


def write_all(folder: Path) -> None:
    """Every file that an example in a help text or on a page of the documentation names."""
    write_spss(folder / "survey.sav")
    write_stata(folder / "survey.dta")
    ratings = ratings_frame()
    last = ratings.groupby("userId").tail(2).index
    ratings.drop(last).to_csv(folder / "ratings.csv", index=False)
    ratings.loc[last].to_csv(folder / "later.csv", index=False)
    names = pd.DataFrame(
        {
            "user": [f"[b]Zoë {user}" for user in ratings["userId"]],
            "item": [f"Fïlm {item} [/b]" for item in ratings["movieId"]],
            "rating": ratings["rating"],
        }
    )
    names.to_csv(folder / "names.csv", index=False)
    pd.DataFrame({"user": [1, 2, 99_999, 1], "item": [101, 102, 103, 77_777]}).to_csv(
        folder / "pairs.csv", index=False
    )
    pd.DataFrame({"user": 9001, "item": [101, 102, 103, 104], "rating": [5, 1, 4, 2]}).to_csv(
        folder / "new.csv", index=False
    )
    orders = names.set_axis(["who", "what", "mark"], axis=1)
    orders.to_csv(folder / "orders.csv", index=False)
    visits = ratings.assign(visits=1 + ratings.index % 3)
    visits.to_csv(folder / "visits.csv", index=False)
    people = pd.DataFrame({"userId": range(1, 46), "age": [20 + 7 * k % 50 for k in range(45)]})
    people.to_csv(folder / "people.csv", index=False)
    titles = pd.DataFrame({"movieId": range(101, 137), "title": [f"Film no. {k}" for k in range(101, 137)]})
    titles.to_csv(folder / "titles.csv", index=False)
